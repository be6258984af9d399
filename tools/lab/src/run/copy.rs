//! Copies of files in a real file system: for a file target in its folder; on a block device, an array or an NBD export in a new
//! file system, which needs root.
//!
//! Sources are read cold, and the clock stops when everything is durable. Data is read and written through the page cache, 1 MiB
//! at a time, so that no file system can share blocks instead of copying them.

use super::measure::{Own, point};
use super::raid::check_members;
use super::{Broken, Runner};
use crate::experiment::FileSystem;
use crate::others::Others;
use crate::result::{ArrayState, Figures, IoMode, Measured, NoteKind, Pattern, TargetKind, now_ms};
use crate::stage::{CopySet, Load};
use crate::state::Watch;
use crate::target::Target;
use crate::times::Times;
use rustix::fs::{Advice, fadvise, syncfs};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Read and written at a time.
const CHUNK: usize = 1 << 20;
/// Files in a folder.
const PER_FOLDER: usize = 200;
const EVERY: Duration = Duration::from_millis(50);

/// The folder of the copies. Dropping it removes everything.
pub struct CopyFolder {
    folder: PathBuf,
    /// `ext4`, for the report.
    file_system: String,
    mounted: Option<Mounted>,
}

/// The setup of the folder.
#[derive(Default)]
struct Mounted {
    mount_point: PathBuf,
    is_mounted: bool,
    loop_device: Option<String>,
    /// Shows an export as a file, in this folder.
    fuse: Option<(Child, PathBuf)>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = command("umount", &[&self.mount_point.display().to_string()]);
        }
        if let Some(device) = &self.loop_device {
            let _ = command("losetup", &["--detach", device]);
        }
        if let Some((mut child, folder)) = self.fuse.take() {
            // The loop device releases the file a moment after the call.
            let begun = Instant::now();
            while command("umount", &[&folder.display().to_string()]).is_err() && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(EVERY);
            }
            let _ = child.kill();
            let _ = child.wait();
            let _ = fs::remove_dir(folder);
        }
        let _ = fs::remove_dir(&self.mount_point);
    }
}

impl Drop for CopyFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn command(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(format!("{program}: {}", said(&output.stderr))) }
}

impl CopyFolder {
    fn new(target: &Target, file_system: FileSystem, sockets: &Path) -> Result<Self, String> {
        match target.info.kind {
            TargetKind::File => {
                let [crate::fio::Place::Path(file)] = &target.places[..] else {
                    return Err("the target is not a single file".into());
                };
                let name = format!("{}.copies-", file.file_name().unwrap_or_default().to_string_lossy());
                let beside = file.parent().unwrap_or(Path::new("/"));
                let made = tempfile::Builder::new().prefix(&name).tempdir_in(beside);
                let folder = made.map_err(|error| format!("{}: {error}", beside.display()))?.keep();
                let found = command("stat", &["--file-system", "--format=%T", &folder.display().to_string()]);
                Ok(Self { folder, file_system: found.unwrap_or_default(), mounted: None })
            }
            TargetKind::Block | TargetKind::Array | TargetKind::Md | TargetKind::Nbd => Self::mount(target, file_system, sockets)
                .map_err(|error| {
                    format!("{error}; only root can make and mount a file system: as another user name a folder with dir:PATH")
                }),
            TargetKind::Model => Err("a model stores no files".into()),
            TargetKind::Members => Err("bare drives together have no file system; measure one of them".into()),
        }
    }

    fn mount(target: &Target, file_system: FileSystem, sockets: &Path) -> Result<Self, String> {
        let mut mounted = Mounted::default();
        let made = |folder: PathBuf| {
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display())).map(|()| folder)
        };
        let device = match &target.places[..] {
            [crate::fio::Place::Path(path)] => path.display().to_string(),
            [crate::fio::Place::Nbd(uri)] => {
                // A kernel without NBD can still mount: the export as a file, the file as a loop device.
                let folder = made(sockets.join("export"))?;
                let file = folder.join("nbd");
                let child = Command::new("nbdfuse").arg(&file).arg(uri).stdin(Stdio::null()).stderr(Stdio::null()).spawn();
                let child = child.map_err(|error| format!("nbdfuse cannot be started: {error}; install libnbd-bin and fuse3"))?;
                mounted.fuse = Some((child, folder));
                let begun = Instant::now();
                while !file.exists() {
                    if begun.elapsed() > Duration::from_secs(10) {
                        return Err("nbdfuse shows no file within ten seconds: check that /dev/fuse exists".into());
                    }
                    std::thread::sleep(EVERY);
                }
                let device = command("losetup", &["--find", "--show", &file.display().to_string()])?;
                mounted.loop_device = Some(device.clone());
                device
            }
            _ => return Err("there is no single device to make a file system on".into()),
        };
        let (program, force, name) = match file_system {
            FileSystem::Ext4 => ("mkfs.ext4", "-F", "ext4"),
            FileSystem::Xfs => ("mkfs.xfs", "-f", "xfs"),
        };
        command(program, &["-q", force, &device])?;
        mounted.mount_point = made(sockets.join("mount"))?;
        command("mount", &["-t", name, &device, &mounted.mount_point.display().to_string()])?;
        mounted.is_mounted = true;
        let folder = mounted.mount_point.join("stria-lab");
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, file_system: name.into(), mounted: Some(mounted) })
    }
}

fn file_of(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("{}/{at}", at / PER_FOLDER))
}

fn make_folders(folder: &Path, files: usize) -> io::Result<()> {
    (0..files.div_ceil(PER_FOLDER)).try_for_each(|at| fs::create_dir_all(folder.join(at.to_string())))
}

/// Files of these sizes with incompressible data.
fn make_files(folder: &Path, set: &CopySet, stop: &AtomicBool) -> io::Result<()> {
    make_folders(folder, set.files.len())?;
    let mut random = File::open("/dev/urandom")?;
    let mut data = vec![0; CHUNK];
    for (at, bytes) in set.files.iter().enumerate() {
        let mut file = File::create(file_of(folder, at))?;
        let mut left = *bytes as usize;
        while left > 0 && !stop.load(Ordering::Relaxed) {
            let part = &mut data[..left.min(CHUNK)];
            random.read_exact(part)?;
            file.write_all(part)?;
            left -= part.len();
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, buffer: &mut [u8]) -> io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    loop {
        match from.read(buffer)? {
            0 => return Ok(()),
            read => to.write_all(&buffer[..read])?,
        }
    }
}

impl Runner<'_> {
    pub(super) fn copy(&mut self, set: &CopySet, step: u32, round: u32, target: &Target) -> Result<(), Broken> {
        if let Err(words) = self.copy_folder(set, target)? {
            return Ok(self.note(NoteKind::Fallback, None, format!("{} are not copied: {words}", set.name))?);
        }
        let Some(copies) = &self.copies else { return Ok(()) };
        // Not named after the set, whose name an experiment chooses.
        let (from, to) = (copies.folder.join(format!("from-{step}")), copies.folder.join("copy"));
        let file_system = copies.file_system.clone();
        let failed = |error: io::Error| Broken::Section(format!("copy of {}: {error}", set.name));
        self.make_ready(copies, &from, &to, set).map_err(failed)?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(Broken::Interrupted);
        }

        check_members(target, ArrayState::Optimal).map_err(Broken::Section)?;
        let mut watch = Watch::new(&target.drives(), target.array.as_ref(), Duration::ZERO);
        let others = Others::since_now(&target.places);
        let begun_ms = now_ms();
        let copied = self.copy_files(set, &from, &to, &mut |at| watch.look(at, target.array.as_ref(), false));
        let Copied { bytes, times, seconds } = copied.map_err(failed)?;
        let checked = check_members(target, ArrayState::Optimal);
        let members = watch.finish(target.array.as_ref());
        let removed = fs::remove_dir_all(&to);
        if self.stop.load(Ordering::Relaxed) {
            return Err(Broken::Interrupted);
        }
        removed.map_err(failed)?;

        let requests = set.files.len() as u64;
        let figures = Figures {
            requests,
            bytes,
            iops: requests as f64 / seconds,
            mb_per_s: bytes as f64 / 1e6 / seconds,
            latency: times.latency(),
            ..Figures::default()
        };
        let load = Load {
            threads: set.threads,
            mode: IoMode::Cached,
            variant: format!("copied on {file_system}"),
            ..Load::new(Pattern::Sequential, bytes / requests.max(1), 50, seconds)
        };
        let mut point = point(&load, target);
        point.mix.clone_from(&set.name);
        let mut extra = std::mem::take(&mut self.extra);
        others.note(&mut extra);
        extra.insert("files_per_s".into(), figures.iops);
        let (read, write) = (Some(figures.clone()), Some(figures.clone()));
        let failed = checked.clone().err();
        let measured = Measured { seconds, read, write, total: figures, failed, ..Measured::default() };
        self.keep(
            Own { point, step, round, begun_ms, measured: measured.clone(), members, extra, preparation: false },
            &measured,
        )?;
        checked.map_err(Broken::Section)
    }

    /// Makes the folder for copies unless it exists. The inner error: the reason why that is impossible.
    fn copy_folder(&mut self, set: &CopySet, target: &Target) -> Result<Result<(), String>, Broken> {
        if !self.request.hosts.is_empty() {
            return Ok(Err("copies are made on this machine only".into()));
        }
        if self.copies.is_none() {
            let copies = match CopyFolder::new(target, set.file_system, self.own.folder()) {
                Ok(copies) => copies,
                Err(words) => return Ok(Err(words)),
            };
            let words = if copies.mounted.is_some() { "made and mounted" } else { "as it is" };
            self.note(NoteKind::Step, None, format!("copies go through {}, {words}", copies.file_system))?;
            self.copies = Some(copies);
        }
        Ok(Ok(()))
    }

    /// Makes the files and the folders of the copy. Afterwards no file is in a cache.
    fn make_ready(&self, copies: &CopyFolder, from: &Path, to: &Path, set: &CopySet) -> io::Result<()> {
        if !from.exists() {
            make_files(from, set, self.stop)?;
        }
        make_folders(to, set.files.len())?;
        syncfs(&File::open(from)?)?;
        for at in 0..set.files.len() {
            // Cached data would not be read from the storage.
            fadvise(&File::open(file_of(from, at))?, 0, None, Advice::DontNeed)?;
        }
        if copies.mounted.is_some() {
            // The same holds for the cache below: an export is a file here.
            fs::write("/proc/sys/vm/drop_caches", "1")?;
        }
        Ok(())
    }

    /// Copies by the set's threads, and shows the progress.
    fn copy_files(&mut self, set: &CopySet, from: &Path, to: &Path, look: &mut dyn FnMut(Duration)) -> io::Result<Copied> {
        let (stop, done_before, moment) = (self.stop, self.moment.done_seconds, &mut self.moment);
        let progress = &mut *self.progress;
        let mut tick = |at: Duration| {
            moment.done_seconds = done_before + at.as_secs_f64();
            progress.at(moment);
            look(at);
        };
        let copied = copy_all(set, from, to, stop, &mut tick);
        self.moment.done_seconds = done_before;
        copied
    }
}

/// The outcome of a pass.
struct Copied {
    bytes: u64,
    /// The time of each file.
    times: Times,
    /// From the first file until all copies were durable.
    seconds: f64,
}

/// Copies by the set's threads, until all files are copied or the run is stopped; `tick` is called some times a second meanwhile.
///
/// The thread that ends last makes the copies durable and takes the time, because the thread that waits notices the end too late.
fn copy_all(set: &CopySet, from: &Path, to: &Path, stop: &AtomicBool, tick: &mut dyn FnMut(Duration)) -> io::Result<Copied> {
    let root = File::open(to)?;
    let begun = Instant::now();
    let (next, left, bytes) = (AtomicUsize::new(0), AtomicUsize::new(set.threads as usize), AtomicU64::new(0));
    let outcome = Mutex::new((Times::default(), Ok(()), 0.0));
    let locked = || outcome.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let work = || {
            let mut buffer = vec![0; CHUNK];
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= set.files.len() || stop.load(Ordering::Relaxed) {
                    break;
                }
                let start = Instant::now();
                let copied = copy_file(&file_of(from, at), &file_of(to, at), &mut buffer);
                let took = start.elapsed();
                bytes.fetch_add(set.files[at], Ordering::Relaxed);
                let mut outcome = locked();
                outcome.0.add(took.as_nanos() as u64);
                outcome.1 = std::mem::replace(&mut outcome.1, Ok(())).and(copied);
            }
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let synced = syncfs(&root).map_err(io::Error::from);
                let seconds = begun.elapsed().as_secs_f64();
                let mut outcome = locked();
                outcome.1 = std::mem::replace(&mut outcome.1, Ok(())).and(synced);
                outcome.2 = seconds;
            }
        };
        let workers: Vec<_> = (0..set.threads).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::sleep(EVERY.min(begun.elapsed()));
            tick(begun.elapsed());
        }
    });
    let (times, copied, seconds) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    copied.map(|()| Copied { bytes: bytes.into_inner(), times, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files are in memory, so a pass is short; the thread that waits sleeps far longer.
    #[test]
    fn the_clock_of_a_pass_stops_when_the_copies_are_durable_and_not_when_that_is_noticed() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let set = CopySet { name: "x".into(), files: vec![32 << 20; 2], threads: 2, file_system: FileSystem::Ext4 };
        let stop = AtomicBool::new(false);
        make_files(&from, &set, &stop).expect("made");
        make_folders(&to, 2).expect("made");
        let mut ticks = 0;
        let begun = Instant::now();
        let copied = copy_all(&set, &from, &to, &stop, &mut |_| {
            ticks += 1;
            std::thread::sleep(Duration::from_secs(5));
        });
        let (copied, noticed) = (copied.expect("copied"), begun.elapsed().as_secs_f64());
        assert!(ticks > 0 && noticed >= 5.0 && copied.bytes == 64 << 20, "{ticks}, {noticed} s");
        assert!((0.0..4.0).contains(&copied.seconds) && copied.seconds > 0.0, "{} s of {noticed} s", copied.seconds);
        assert_eq!(fs::read(file_of(&to, 1)).expect("there"), fs::read(file_of(&from, 1)).expect("there"));
    }
}
