//! This machine as a platform: the cost of a request in the engine, measured here over members in memory.
//!
//! A copy in memory stands for the kernel's part of a request to a drive, as in the profile `stria`. Three rates give three
//! times: reads of a RAID 0 (a client request and one to a member), writes in place of a RAID 5 (four to members), and the same
//! with the write log.

use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stria_array::Level;
use stria_block::{BlockDevice, Completion, Data, Operation, Pool, RamDevice, Request};
use stria_plan::array::engine;
use stria_plan::chance::Chance;
use stria_plan::platform::PlatformConfig;
use stria_plan::profile::{self, Origin, Parameter, Profile};
use stria_terminal::Failure;
use stria_terminal::output::{check_file, say, write_file};
use stria_terminal::progress::{ProgressBar, steps_bar};

/// 64 MiB in sectors: more than a processor's cache holds of all members.
const MEMBER_SECTORS: u64 = 64 << 11;
/// 64 KiB in sectors.
const STRIP_SECTORS: u64 = 128;
const MEMBERS: usize = 4;
const DEPTH: u64 = 32;
/// Number of rounds; the median counts.
const ROUNDS: usize = 7;
const BLOCK_BYTES: usize = 4096;
/// Requests between two looks at the clock.
const BETWEEN: u64 = 256;

/// Measure this machine as a platform, in some seconds, and write a profile
#[derive(Args)]
pub struct Measure {
    /// The profile's file, for `--platform FILE`
    #[arg(long, value_name = "FILE", default_value = "here.toml")]
    out: PathBuf,
    /// Duration of the measurement: longer is more exact if other programs use the machine
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

/// The cost of the engine here, in nanoseconds.
struct Costs {
    client: f64,
    member: f64,
    log: f64,
}

/// The nanoseconds of a request: reads or writes of 4 KiB at random.
fn request_ns(array: &mut dyn BlockDevice, reads: bool, time: Duration) -> Result<f64, Failure> {
    let blocks = array.limits().size_sectors * 512 / BLOCK_BYTES as u64;
    let (mut chance, mut pool, mut completions) = (Chance::new(1, 1), Pool::default(), Vec::<Completion>::new());
    let (mut sent, mut ended, began) = (0_u64, 0_u64, Instant::now());
    let now = || began.elapsed().as_nanos() as u64;
    while !ended.is_multiple_of(BETWEEN) || ended == 0 || began.elapsed() < time {
        while sent - ended < DEPTH {
            let operation = match reads {
                true => Operation::Read { into: std::iter::once(pool.take(BLOCK_BYTES)).collect() },
                false => Operation::Write { from: std::iter::once(Data::zeros(BLOCK_BYTES)).collect(), fua: false },
            };
            let sectors = BLOCK_BYTES as u64 / 512;
            array.submit(Request { tag: sent, start_sector: chance.below(blocks) * sectors, sectors, operation });
            sent += 1;
        }
        array.poll(now(), &mut completions);
        for completion in completions.drain(..) {
            completion.result.map_err(Failure::failed)?;
            ended += 1;
            if let Operation::Read { into } = completion.operation {
                into.into_iter().for_each(|buffer| pool.give(buffer));
            }
        }
    }
    let taken = began.elapsed().as_nanos() as f64 / ended as f64;
    while ended < sent {
        array.poll(now(), &mut completions);
        ended += completions.drain(..).len() as u64;
    }
    Ok(taken)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn costs(time: Duration, bar: &ProgressBar) -> Result<Costs, Failure> {
    let array = |level, metadata| {
        let members = (0..MEMBERS).map(|_| Box::new(RamDevice::new(MEMBER_SECTORS)) as Box<dyn BlockDevice>).collect();
        engine::over(level, STRIP_SECTORS, metadata, members).map_err(Failure::Failed)
    };
    let mut arrays = [array(Level::Raid0, false)?, array(Level::Raid5, false)?, array(Level::Raid5, true)?];
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let round = time / (ROUNDS * arrays.len()) as u32;
    bar.set_length((ROUNDS * arrays.len()) as u64);
    // Rounds alternate, so that a disturbance of the machine affects all three.
    for _ in 0..ROUNDS {
        for (index, (array, times)) in arrays.iter_mut().zip(&mut times).enumerate() {
            times.push(request_ns(&mut **array, index == 0, round)?);
            bar.inc(1);
        }
    }
    let [one, four, logged] = times.map(median);
    let member = ((four - one) / 3.0).max(0.0);
    Ok(Costs { client: (one - member).max(0.0), member, log: (logged - four).max(0.0) })
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name.to_owned()));
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The profile `stria` with this machine's processor time, measured for so long, with a progress bar unless `quiet`.
///
/// # Errors
/// Failed, if the engine refuses a request, which does not happen.
pub fn platform(time: Duration, quiet: bool) -> Result<Profile<PlatformConfig>, Failure> {
    let bar = steps_bar(quiet);
    let costs = costs(time, &bar);
    bar.finish_and_clear();
    let Costs { client, member, log } = costs?;
    let mut profile = profile::platform("stria").map_err(Failure::failed)?;
    let processor = processor();
    let values = [("serial_ns", client + member), ("member_ns", member), ("log_ns", log)];
    for (name, value) in values {
        let value = value.round() as u64;
        match name {
            "serial_ns" => profile.config.serial_ns = value,
            "member_ns" => profile.config.member_ns = value,
            _ => profile.config.log_ns = value,
        }
        let source = format!("here, {processor}: the median of {ROUNDS} rounds over members in memory");
        profile.parameters.retain(|parameter| parameter.name != name);
        profile.parameters.push(Parameter { name: name.to_owned(), value: value.to_string(), origin: Origin::Measured, source });
    }
    (profile.key, profile.name) = ("here".to_owned(), format!("Stria on this machine ({processor}), one lane"));
    Ok(profile)
}

/// The duration of the measurement of `--platform here`.
pub const TIME: Duration = Duration::from_secs(10);

/// Carries out the command.
///
/// # Errors
/// Usage or failed, if the profile cannot be written.
pub fn run(command: &Measure, as_json: bool) -> Result<u8, Failure> {
    check_file(&command.out)?;
    let profile = platform(Duration::from_secs(command.seconds), as_json)?;
    write_file(&command.out, &profile::platform_text(&profile))?;
    let config = &profile.config;
    let words = || {
        format!(
            "{}: a client's request with one to a member {} ns, each further one {} ns, a log record {} ns. Plan with it: --platform {}",
            profile.name,
            config.serial_ns,
            config.member_ns,
            config.log_ns,
            command.out.display()
        )
    };
    let value = || {
        json!({ "platform": profile.name, "serial_ns": config.serial_ns, "member_ns": config.member_ns, "log_ns": config.log_ns,
            "profile": command.out })
    };
    say(as_json, words, value);
    Ok(0)
}
