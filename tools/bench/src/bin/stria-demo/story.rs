//! The second half of the demo: a serve, a load, two losses, and the proof.

use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stria_bench::story::{Ending, Sample, Step, Story};
use stria_format::md::BitmapChoice;
use stria_host::{ArrayLevel, CreateSpec};
use stria_terminal::output::print;
use stria_terminal::{Failure, program, size};

const NAME: &str = "demo";
/// Members of the array, without spares.
const MEMBER_COUNT: usize = 6;
const SPARE_COUNT: usize = 2;
/// fio's unit: small enough for read-modify-writes, and each carries a checksum.
const BLOCK_BYTES: u64 = 16 << 10;
/// The time limit for each step of the array on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The events, and the failure.
pub struct Told {
    pub story: Story,
    /// The first check that failed.
    pub failure: Option<String>,
}

/// Ends a child that is left behind by an error.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The array as `stria status` reports it.
#[derive(Deserialize)]
struct ArrayView {
    state: String,
    health: String,
    size_bytes: u64,
    resync_pending: bool,
    sweep: Option<SweepView>,
    members: Vec<MemberView>,
    clients: Vec<ClientView>,
}

#[derive(Deserialize)]
struct SweepView {
    kind: String,
    done_bytes: u64,
    total_bytes: u64,
    bytes_per_s: u64,
}

#[derive(Deserialize)]
struct MemberView {
    path: PathBuf,
    role: String,
}

#[derive(Deserialize)]
struct ClientView {
    read_bytes: u64,
    written_bytes: u64,
}

/// The `stria` program, as users call it.
struct Stria {
    program: PathBuf,
    socket: PathBuf,
}

impl Stria {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--json").args(words).arg("--socket").arg(&self.socket).stdin(Stdio::null());
        command
    }

    fn does_not_start(&self, error: &io::Error) -> Failure {
        Failure::Failed(format!(
            "{} cannot be started: {error}; the demo serves its array by that program",
            self.program.display()
        ))
    }

    /// The output of a command, which must succeed.
    fn ask<T: serde::de::DeserializeOwned>(&self, words: &[&str]) -> Result<T, Failure> {
        let output = self.command(words).output().map_err(|error| self.does_not_start(&error))?;
        let error = || -> Option<String> {
            let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
            answer["error"]["message"].as_str().map(str::to_owned)
        };
        let failure = |parsed: serde_json::Error| {
            let sentence = error().unwrap_or_else(|| format!("{parsed}: {}", String::from_utf8_lossy(&output.stderr).trim()));
            Failure::Failed(format!("stria {}: {sentence}", words.join(" ")))
        };
        serde_json::from_slice(&output.stdout).map_err(failure)
    }

    fn status(&self) -> Result<ArrayView, Failure> {
        let [view] = self.ask::<[ArrayView; 1]>(&["status", NAME])?;
        Ok(view)
    }

    /// Fails a drive; its name.
    fn pull(&self, drive: &Path) -> Result<String, Failure> {
        self.ask::<Done>(&["fail", NAME, &drive.display().to_string(), "--force"])?;
        Ok(drive.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()))
    }
}

/// How a command of `stria` ended.
#[derive(Deserialize)]
struct Done {
    message: String,
}

struct Teller {
    begun: Instant,
    steps: Vec<Step>,
    samples: Vec<Sample>,
    json: bool,
    /// Clients' bytes at the last sample: when, read, written.
    before: (Instant, u64, u64),
}

impl Teller {
    fn step(&mut self, what: &str, detail: String, ending: Ending) {
        let at_s = self.begun.elapsed().as_secs_f64();
        if !self.json {
            let mark = if ending == Ending::Bad { "  WRONG" } else { "" };
            print(&format!("{at_s:6.1} s  {what}: {detail}{mark}\n"));
        }
        self.steps.push(Step { at_s, what: what.into(), detail, ending });
    }

    /// Reads the state of the array, and stores it for the chart.
    fn look(&mut self, stria: &Stria) -> Result<ArrayView, Failure> {
        let view = stria.status()?;
        let total = |of: fn(&ClientView) -> u64| view.clients.iter().map(of).sum::<u64>();
        let (now, read, written) = (Instant::now(), total(|client| client.read_bytes), total(|client| client.written_bytes));
        let (then, read_before, written_before) = self.before;
        let seconds = (now - then).as_secs_f64().max(1e-3);
        // The counters of a client that left are gone.
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds / 1e6;
        self.samples.push(Sample {
            at_s: self.begun.elapsed().as_secs_f64(),
            read_mb_per_s: rate(read, read_before),
            write_mb_per_s: rate(written, written_before),
            sweep_mb_per_s: view.sweep.as_ref().map_or(0.0, |sweep| sweep.bytes_per_s as f64 / 1e6),
            members_in_sync: view.members.iter().filter(|member| member.role == "in sync").count(),
        });
        self.before = (now, read, written);
        if io::stderr().is_terminal() && !self.json {
            let percent = |sweep: &SweepView| sweep.done_bytes * 100 / sweep.total_bytes.max(1);
            let sweep = view.sweep.as_ref().map_or(String::new(), |sweep| format!(", {} {} %", sweep.kind, percent(sweep)));
            eprint!("\r\x1b[K{}: {} written by fio{sweep}", view.state, size::show(written));
        }
        Ok(view)
    }

    /// Waits until the array has the wanted state; `None`: `stop` came first.
    fn watch(
        &mut self,
        stria: &Stria,
        mut wanted: impl FnMut(&ArrayView) -> bool,
        mut stop: impl FnMut() -> bool,
    ) -> Result<Option<ArrayView>, Failure> {
        let end = Instant::now() + PATIENCE;
        loop {
            let view = self.look(stria)?;
            let (done, stopped) = (wanted(&view), stop());
            if done || stopped {
                if io::stderr().is_terminal() && !self.json {
                    eprint!("\r\x1b[K");
                }
                return Ok(done.then_some(view));
            }
            if Instant::now() > end {
                return Err(Failure::Failed(format!(
                    "array \"{NAME}\" made no progress within {} s: {}",
                    PATIENCE.as_secs(),
                    view.state
                )));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Runs the demonstration, in a folder of its own that is removed afterwards.
pub fn tell(parent: &Path, quick: bool, json: bool) -> Result<Told, Failure> {
    let no_files = |error: io::Error| {
        Failure::Failed(format!("cannot make image files in {}: {error}; choose with --dir", parent.display()))
    };
    let folder = tempfile::Builder::new().prefix("stria-demo-").tempdir_in(parent).map_err(no_files)?;
    let member_bytes: u64 = if quick { 48 << 20 } else { 128 << 20 };
    let image = |index: usize| {
        let path = folder.path().join(format!("drive{index}.img"));
        File::create_new(&path).and_then(|file| file.set_len(member_bytes)).map_err(no_files).map(|()| path)
    };
    let drives: Vec<PathBuf> = (0..MEMBER_COUNT + SPARE_COUNT).map(image).collect::<Result<_, _>>()?;
    let now = Instant::now();
    let mut teller = Teller { begun: now, steps: Vec::new(), samples: Vec::new(), json, before: (now, 0, 0) };

    let level = ArrayLevel::Single(stria_array::Level::Raid6);
    stria_host::create(&CreateSpec {
        strip_sectors: Some(128),
        spares: drives[MEMBER_COUNT..].to_vec(),
        bitmap: BitmapChoice::Internal { chunk_bytes: None },
        ..CreateSpec::new(NAME, level, &drives[..MEMBER_COUNT])
    })?;
    let shown = size::show(member_bytes);
    teller.step(
        "create",
        format!("RAID 6 of {MEMBER_COUNT} image files of {shown}, {SPARE_COUNT} spares, strip 64 KiB"),
        Ending::Good,
    );

    let socket = folder.path().join("control.sock");
    let stria = Stria { program: program::find("stria"), socket };
    let (mut serve, uri) = start_serve(&stria, &drives)?;
    teller.step("serve", uri.clone(), Ending::Good);
    teller.watch(&stria, |view| !view.resync_pending && view.sweep.is_none(), || false)?;

    let failure = play(&mut teller, &stria, &uri, &drives, folder.path(), quick)?;
    let stopped: Done = stria.ask(&["stop", "--force"])?;
    let status = serve.0.wait().map_err(Failure::failed)?;
    let ending = if status.success() { Ending::Good } else { Ending::Bad };
    teller.step("stop", stopped.message, ending);
    let failure = failure.or_else(|| (!status.success()).then(|| format!("serve ended with {status}")));

    let verdict = match &failure {
        None => format!(
            "A RAID 6 of {MEMBER_COUNT} drives lost two under a verifying load, was rebuilt on its spares, and lost two more: no \
             request failed, the scrub found nothing, and every byte was as written."
        ),
        Some(failure) => format!("A check failed: {failure}."),
    };
    let title = format!("RAID 6 of {MEMBER_COUNT} loses two drives under load, then two more");
    Ok(Told { story: Story { title, verdict, steps: teller.steps, samples: teller.samples }, failure })
}

/// Load, losses, rebuild, scrub, proof. Returns the first check that failed.
fn play(
    teller: &mut Teller,
    stria: &Stria,
    uri: &str,
    drives: &[PathBuf],
    folder: &Path,
    quick: bool,
) -> Result<Option<String>, Failure> {
    let blocks = stria.status()?.size_bytes / BLOCK_BYTES;
    let mut wrong: Option<String> = None;
    let mut check = |teller: &mut Teller, what: &str, holds: bool, detail: String| {
        teller.step(what, detail.clone(), if holds { Ending::Good } else { Ending::Bad });
        if !holds {
            wrong.get_or_insert(format!("{what}: {detail}"));
        }
    };

    // Stretched over some seconds, so that the losses fall into it on quick machines too.
    let writes_per_s = blocks / if quick { 6 } else { 15 };
    let mut load = start_fio(uri, blocks, folder, &[&format!("--rate_iops=,{writes_per_s}")])?;
    let words =
        format!("fio writes all {} in random order, 16 KiB each, 16 at a time, and verifies", size::show(blocks * BLOCK_BYTES));
    teller.step("load", words, Ending::Good);
    let written = |part: u64| {
        move |view: &ArrayView| view.clients.iter().any(|client| client.written_bytes >= blocks * BLOCK_BYTES / 100 * part)
    };
    let mut ended = || load.0.try_wait().is_ok_and(|status| status.is_some());
    let under_load = teller.watch(stria, written(20), &mut ended)?.is_some();
    check(teller, "pull drive 1", under_load, stria.pull(&drives[1])?);
    let mut in_rebuild = false;
    let on_its_way = |view: &ArrayView| view.sweep.as_ref().is_some_and(|sweep| sweep.done_bytes * 10 >= sweep.total_bytes);
    let under_load = teller.watch(stria, |view| on_its_way(view) || written(40)(view), &mut ended)?.is_some_and(|view| {
        in_rebuild = view.sweep.is_some();
        true
    });
    let when = if in_rebuild { "while the first is being rebuilt" } else { "when the first has been rebuilt" };
    check(teller, "pull drive 4", under_load, format!("{}, {when}", stria.pull(&drives[4])?));
    teller.watch(stria, |_| false, &mut ended)?;
    let (holds, detail) = fio_result(load)?;
    check(teller, "load verified", holds, detail);

    let healed = teller.watch(stria, |view| view.health == "optimal" && view.sweep.is_none(), || false)?;
    let is_spare = |member: &&MemberView| member.role == "in sync" && drives[MEMBER_COUNT..].contains(&member.path);
    let rebuilt = healed.map_or(0, |view| view.members.iter().filter(is_spare).count());
    let detail = format!("{rebuilt} spares are filled and in the slots of the pulled drives");
    check(teller, "rebuilt", rebuilt == SPARE_COUNT, detail);

    let scrub = stria.command(&["scrub", NAME, "--wait"]).stdout(Stdio::piped()).spawn();
    let mut scrub = Guard(scrub.map_err(|error| stria.does_not_start(&error))?);
    teller.watch(stria, |_| false, || scrub.0.try_wait().is_ok_and(|status| status.is_some()))?;
    let output = scrub.0.stdout.take().expect("it is piped");
    let lines: Vec<Value> =
        serde_json::Deserializer::from_reader(output).into_iter().collect::<Result<_, _>>().map_err(Failure::failed)?;
    let ends: Vec<&Value> =
        lines.iter().filter(|line| line["kind"].as_str().is_some_and(|kind| kind.starts_with("sweep_"))).collect();
    let is_clean = |event: &&Value| {
        event["kind"] == "sweep_finished" && event["mismatch_sectors"] == 0 && event["unchecked_sectors"].is_null()
    };
    let clean = ends.iter().any(is_clean);
    check(teller, "scrub", clean, ends.iter().filter_map(|event| event["text"].as_str()).collect::<Vec<_>>().join("; "));

    check(teller, "pull drive 0", true, stria.pull(&drives[0])?);
    check(
        teller,
        "pull drive 2",
        true,
        format!("{}; no spare is left, so the data depends on the rebuilt drives", stria.pull(&drives[2])?),
    );
    let mut proof = start_fio(uri, blocks, folder, &["--verify_only"])?;
    teller.watch(stria, |_| false, || proof.0.try_wait().is_ok_and(|status| status.is_some()))?;
    let (holds, detail) = fio_result(proof)?;
    check(teller, "every byte verified", holds, format!("{detail}, two members missing"));
    Ok(wrong)
}

/// A serve of its own; its URI.
fn start_serve(stria: &Stria, drives: &[PathBuf]) -> Result<(Guard, String), Failure> {
    let mut command = Command::new(&stria.program);
    command.arg("serve").args(drives).arg("--socket").arg(&stria.socket).arg("--quiet").env_remove("STRIA_SOCKET");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut serve = Guard(child.map_err(|error| stria.does_not_start(&error))?);
    let lines = BufReader::new(serve.0.stdout.take().expect("it is piped")).lines();
    let mut uri = None;
    for line in lines.map_while(Result::ok) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["nbd", _, found] => uri = Some(found.to_owned()),
            ["control", _] => break,
            _ => {}
        }
    }
    // Its log must not fill the pipe.
    let mut log = serve.0.stderr.take().expect("it is piped");
    match uri {
        Some(uri) => {
            std::thread::spawn(move || io::copy(&mut log, &mut io::sink()));
            Ok((serve, uri))
        }
        None => {
            let mut words = String::new();
            let _ = log.read_to_string(&mut words);
            Err(Failure::Failed(format!("the demo's array could not be served: {}", words.trim())))
        }
    }
}

fn start_fio(uri: &str, blocks: u64, folder: &Path, more: &[&str]) -> Result<Guard, Failure> {
    let size = blocks * BLOCK_BYTES;
    let mut command = Command::new("fio");
    command.current_dir(folder).args(["--name=demo", "--ioengine=nbd", "--rw=randwrite", "--iodepth=16", "--output-format=json"]);
    command.args([format!("--uri={uri}"), format!("--bs={BLOCK_BYTES}"), format!("--size={size}")]);
    command.args(["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--randseed=6"]).args(more);
    let log = File::create(folder.join("fio.log")).map_err(Failure::failed)?;
    let child = command.stdin(Stdio::null()).stdout(log.try_clone().map_err(Failure::failed)?).stderr(log).spawn();
    child
        .map(Guard)
        .map_err(|error| Failure::Failed(format!("fio cannot be started: {error}; install it with: sudo apt-get install fio")))
}

/// True if fio found everything as it was written, with a sentence.
fn fio_result(mut fio: Guard) -> Result<(bool, String), Failure> {
    let status = fio.0.wait().map_err(Failure::failed)?;
    Ok(match status.success() {
        true => (true, "fio read every block back and found what was written".into()),
        false => (false, format!("fio found an error ({status})")),
    })
}
