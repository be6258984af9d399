//! The options of `advise` and `what-if` about an array.

use crate::{here, measured, smart};
use clap::{ArgGroup, Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use stria_plan::advice::wish::{self, DRIVES_MAX, STRIPS_KIB};
use stria_plan::advice::{Purpose, State, Wish};
use stria_plan::calibration::{self, Calibration};
use stria_plan::load::Pattern;
use stria_plan::platform::PlatformConfig;
use stria_plan::profile::{self, CatalogueDrive, PRICE_MAX, Profile, ProfileError};
use stria_terminal::{Failure, size};

/// Drives, platform and load.
#[derive(Args)]
#[command(group(ArgGroup::new("load").required(true).args(["purpose", "block"])))]
pub struct WishArgs {
    /// Number and model of the drives: 8xp4510; 2-8xp4510 for two to eight. `stria plan catalogue` lists the models; a path that
    /// ends in .toml is your own profile; `here`: the drives of this machine, as smartctl names them
    #[arg(long, value_name = "COUNTxDRIVE", allow_hyphen_values = true)]
    drives: String,
    /// Controller or software that runs the array; `stria plan catalogue` lists the platforms. `here`: Stria on this machine,
    /// which is measured first; a path that ends in .toml is your own profile, for instance from `stria plan measure`
    #[arg(long, value_name = "PLATFORM", default_value = "stria")]
    platform: String,
    /// Purpose of the array: database, vm, media, backup, desktop; or what was measured: a trace, as trace.csv.gz or
    /// msr:trace.csv.gz, or the folder of a run of `stria lab`
    #[arg(long, value_name = "PURPOSE|TRACE|RUN", conflicts_with_all = ["block", "reads", "threads", "sequential"])]
    purpose: Option<String>,
    /// Instead of a purpose: size of a request, such as 4K
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block: Option<u64>,
    /// With --block: percent of reads
    #[arg(long, value_name = "PERCENT", value_parser = real, default_value_t = 70.0, allow_negative_numbers = true)]
    reads: f64,
    /// With --block, a trace or a run: requests in flight; the default is 32 with --block, and the measured number of a trace
    #[arg(long, value_name = "N", value_parser = whole::<u32>, allow_negative_numbers = true)]
    depth: Option<u32>,
    /// With --block: threads that send them
    #[arg(long, value_name = "N", value_parser = whole::<u32>, default_value_t = 1, allow_negative_numbers = true)]
    threads: u32,
    /// With --block: sequential requests
    #[arg(long)]
    sequential: bool,
    /// Spares among the drives
    #[arg(long, value_name = "N", value_parser = whole::<usize>, default_value_t = 0, allow_negative_numbers = true)]
    spares: usize,
    /// Strip to try, such as 64K; repeat for several
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    strip: Vec<u64>,
    /// State of SSDs: as new; used, after random overwrites of everything; or used, then deleted, which helps if trims reach the
    /// drives
    #[arg(long, value_enum, default_value_t = StateName::Used)]
    state: StateName,
    /// Price of a drive, in any currency; replaces the price in its profile
    #[arg(long, value_name = "AMOUNT", value_parser = real, allow_negative_numbers = true)]
    price: Option<f64>,
    /// Data that clients write to the array in a day, such as 2TB, to compute the drives' lifetime
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    written_a_day: Option<u64>,
    /// Hours until a failed drive is replaced if there is no spare
    #[arg(long, value_name = "HOURS", value_parser = real, default_value_t = 24.0, allow_negative_numbers = true)]
    replace_hours: f64,
    /// Days from one scrub to the next
    #[arg(long, value_name = "DAYS", value_parser = real, default_value_t = 30.0, allow_negative_numbers = true)]
    scrub_days: f64,
    /// Correct the models by the measurements of `stria lab run --verify-plan` on this machine
    #[arg(long)]
    calibrated: bool,
    /// Measured requests of each load: more take longer and are more exact. 32 for each in flight at least
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    requests: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum StateName {
    Fresh,
    Used,
    Deleted,
}

/// True for the path of the user's own profile.
fn is_path(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == "toml")
}

fn read(name: &str) -> Result<String, Failure> {
    std::fs::read_to_string(name).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the profile {name} ({error}): name a file of TOML, or choose one of `stria plan catalogue`"
        ))
    })
}

fn platform(name: &str, quiet: bool) -> Result<Profile<PlatformConfig>, Failure> {
    let usage = |error: ProfileError| Failure::Usage(error.to_string());
    match name {
        "here" => here::platform(here::TIME, quiet),
        name if is_path(name) => profile::parse_platform(name, &read(name)?).map_err(usage),
        name => profile::platform(name).map_err(usage),
    }
}

fn drive(name: &str) -> Result<Profile<CatalogueDrive>, Failure> {
    let usage = |error: ProfileError| Failure::Usage(error.to_string());
    match is_path(name) {
        true => profile::parse_drive(name, &read(name)?).map_err(usage),
        false => profile::catalogue_drive(name).map_err(usage),
    }
}

/// The calibration of this machine's drives.
fn kept(drive: &str, platform: &str) -> Result<Calibration, Failure> {
    let path = stria_terminal::state_folder().join(calibration::file_name(drive, platform));
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::Usage(format!(
            "no calibration of {drive} on {platform} is kept here ({}: {error}): measure one with stria lab run EXPERIMENT --target … \
             --verify-plan {drive}@{platform}",
            path.display()
        ))
    })?;
    let found: Calibration = serde_json::from_str(&text)
        .map_err(|error| Failure::Usage(format!("{} is not a calibration ({error}): measure it again", path.display())))?;
    match found.factors.iter().find(|factor| !factor.is_sound()) {
        Some(factor) => Err(Failure::Usage(format!(
            "{} has a factor of {}, and none beyond a thousand or a thousandth is used: measure it again",
            path.display(),
            factor.factor
        ))),
        None => Ok(found),
    }
}

/// 10 years: the longest wait for a new drive, and for a scrub. Source: none; the simulation follows arrays for years, not for
/// ages.
const DAYS_MAX: f64 = 3650.0;

/// A number as it was meant: without hundreds of digits.
pub fn number(value: f64) -> String {
    if value.is_finite() && value != 0.0 && !(1e-6..1e15).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

/// A number of the command line.
///
/// # Errors
/// A sentence, if it is none.
pub fn real(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a number: write it without a unit, as in 4 or 0.5"))
}

/// A whole number of the command line.
///
/// # Errors
/// A sentence, if it is none.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a whole number that is possible here: write it in digits, as in 4"))
}

/// A time of the command line, from 0 to so much.
fn up_to(option: &str, value: f64, most: f64) -> Result<f64, Failure> {
    if (0.0..=most).contains(&value) {
        return Ok(value);
    }
    Err(Failure::Usage(format!("{option} is {}: use 0 to {most}", number(value))))
}

/// Days from one scrub to the next. 0 is refused: it would mean a scrub without end, where users mean none.
fn scrub_days(value: f64) -> Result<f64, Failure> {
    match up_to("--scrub-days", value, DAYS_MAX)? {
        0.0 => Err(Failure::Usage(format!(
            "--scrub-days is 0: use a number above 0, or {DAYS_MAX} for an array that is never scrubbed"
        ))),
        days => Ok(days),
    }
}

/// An amount of money.
///
/// # Errors
/// Usage, if it is none above 0, or more than any drive costs.
pub fn amount(option: &str, value: Option<f64>) -> Result<Option<f64>, Failure> {
    match value {
        Some(value) if value.is_nan() || value <= 0.0 || value > PRICE_MAX => {
            Err(Failure::Usage(format!("{option} is {}: use a number above 0, and at most {PRICE_MAX}", number(value))))
        }
        value => Ok(value),
    }
}

impl WishArgs {
    /// The wish, without a bound on space, failures and cost.
    ///
    /// # Errors
    /// Usage, where it is invalid.
    pub fn wish(&self, quiet: bool) -> Result<Wish, Failure> {
        let drives = if self.drives == "here" { smart::drives()? } else { self.drives.clone() };
        let (counts, name) = wish::parse_drives(&drives).map_err(Failure::Usage)?;
        if self.threads == 0 {
            return Err(Failure::Usage("--threads is 0: use 1 or more".to_owned()));
        }
        let purpose = match (&self.purpose, self.block) {
            (Some(name), _) => match (Purpose::preset(name), self.depth) {
                (Some(_), Some(_)) => {
                    let sentence =
                        format!("--depth cannot be used with --purpose {name}: it goes with --block, a trace or a run");
                    return Err(Failure::Usage(sentence));
                }
                (Some(preset), None) => preset,
                (None, depth) => {
                    let measured = measured::purpose(name)?;
                    depth.map_or(Ok(measured.clone()), |depth| measured.with_depth(depth)).map_err(Failure::Usage)?
                }
            },
            (None, block) => {
                let pattern = if self.sequential { Pattern::Sequential } else { Pattern::Random };
                let mix = Purpose::mix(block.unwrap_or(4096), self.reads / 100.0, self.depth.unwrap_or(32), pattern);
                mix.and_then(|mix| mix.with_threads(self.threads)).map_err(Failure::Usage)?
            }
        };
        if self.spares > DRIVES_MAX {
            return Err(Failure::Usage(format!("{} spares are more than the drives: use fewer", self.spares)));
        }
        if let Some(strip) = self.strip.iter().find(|strip| *strip % 1024 != 0) {
            return Err(Failure::Usage(format!("invalid strip size of {strip} bytes: use a power of two from 4K to 1M")));
        }
        if self.written_a_day == Some(0) {
            return Err(Failure::Usage("--written-a-day is 0: leave it out if nothing is known".to_owned()));
        }
        let strips = self.strip.iter().map(|strip| strip >> 10).collect::<Vec<u64>>();
        let drive = drive(name)?;
        let platform = platform(&self.platform, quiet)?;
        let calibration = self.calibrated.then(|| kept(&drive.key, &platform.key)).transpose()?;
        Ok(Wish {
            calibration,
            price: amount("--price", self.price)?.or(drive.config.facts.price),
            drive,
            counts,
            spares: self.spares,
            platform,
            purpose,
            capacity_bytes_min: 0,
            losses_min: 0,
            strips_kib: if strips.is_empty() { STRIPS_KIB.to_vec() } else { strips },
            state: match self.state {
                StateName::Fresh => State::Fresh,
                StateName::Used => State::Used,
                StateName::Deleted => State::Deleted,
            },
            replace_hours: up_to("--replace-hours", self.replace_hours, 24.0 * DAYS_MAX)?,
            scrub_hours: 24.0 * scrub_days(self.scrub_days)?,
            written_tb_per_day: self.written_a_day.map(|bytes| bytes as f64 / 1e12),
            budget: None,
            requests: self.requests,
        })
    }

    /// Files and folders whose content the answer depends on: the user's own profiles, a trace, a run.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let drive = wish::parse_drives(&self.drives).map(|(_, drive)| drive).ok();
        let profiles = drive.into_iter().chain([&*self.platform]).filter(|name| is_path(name)).map(PathBuf::from);
        let measured = self.purpose.as_deref().filter(|name| Purpose::preset(name).is_none()).map(measured::path);
        profiles.chain(measured).collect()
    }

    /// The option whose answer is that of this machine, if there is one.
    pub fn of_this_machine(&self) -> Option<&'static str> {
        let options = [
            ("--drives here", self.drives == "here"),
            ("--platform here", self.platform == "here"),
            ("--calibrated", self.calibrated),
        ];
        options.into_iter().find(|(_, asked)| *asked).map(|(option, _)| option)
    }

    /// True if strips were named.
    pub fn names_strips(&self) -> bool {
        !self.strip.is_empty()
    }
}
