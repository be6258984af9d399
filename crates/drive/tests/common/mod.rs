//! Drives to test on: files on file systems of several kinds, and loop devices if the user is root.

#![allow(dead_code, reason = "every test file uses some of it")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stria_block::{BlockDevice, Buffer, Completion, Data, IoError, Operation, Request, Segments};
use stria_drive::{FileDrive, Ring, monotonic_now};

/// A directory for one test on a real disk's file system, removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn on_disk() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub fn in_memory() -> Self {
        Self::within(Path::new("/dev/shm"))
    }

    fn within(place: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("stria-drive-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = place.join(name);
        std::fs::create_dir_all(&folder).expect("a place for tests can be written");
        Self(folder)
    }

    /// A sparse file.
    pub fn file(&self, name: &str, len: u64) -> PathBuf {
        let path = self.0.join(name);
        File::create(&path).and_then(|file| file.set_len(len)).expect("a file can be made");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// True if the test may set up devices and mounts; otherwise prints the reason.
pub fn is_root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: {what} needs root");
    }
    root
}

pub fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    output
        .status
        .success()
        .then(|| text(&output.stdout))
        .ok_or_else(|| format!("{program} {arguments:?}: {}", text(&output.stderr)))
}

/// A loop device, detached when dropped.
pub struct Loop {
    pub device: PathBuf,
    pub file: PathBuf,
}

impl Loop {
    /// Over a new sparse file; `None`, with the reason printed, if that is impossible.
    pub fn new(folder: &Folder, len: u64, block_bytes: u32) -> Option<Self> {
        Self::with(folder, len, block_bytes, &[])
    }

    pub fn with(folder: &Folder, len: u64, block_bytes: u32, options: &[&str]) -> Option<Self> {
        if !is_root("a loop device") {
            return None;
        }
        let block = block_bytes.to_string();
        Self::over(&folder.file(&format!("loop-{block_bytes}"), len), &[options, &["--sector-size", &block]].concat())
    }

    /// Over an existing file.
    pub fn over(file: &Path, options: &[&str]) -> Option<Self> {
        match run("losetup", &[options, &["--find", "--show", file.to_str().unwrap()]].concat()) {
            Ok(device) => Some(Self { device: device.into(), file: file.to_owned() }),
            Err(error) => {
                println!("skipped: no loop device: {error}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", self.device.to_str().unwrap()]);
    }
}

/// A mounted file system, unmounted when dropped.
pub struct Mount(pub PathBuf);

impl Mount {
    pub fn new(folder: &Folder, arguments: &[&str]) -> Option<Self> {
        if !is_root("a mount") {
            return None;
        }
        let point = folder.0.join("mount");
        std::fs::create_dir_all(&point).unwrap();
        match run("mount", &[arguments, &[point.to_str().unwrap()]].concat()) {
            Ok(_) => Some(Self(point)),
            Err(error) => {
                println!("skipped: no mount: {error}");
                None
            }
        }
    }

    pub fn file(&self, name: &str, len: u64) -> PathBuf {
        let path = self.0.join(name);
        File::create(&path).and_then(|file| file.set_len(len)).expect("a file can be made");
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy", self.0.to_str().unwrap()]);
    }
}

/// Submits one request and waits for its end.
pub fn carry_out(ring: &Ring, drive: &mut FileDrive, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
    let mut ended = Vec::new();
    // A turn begins with its time, as on a lane.
    drive.poll(monotonic_now(), &mut ended);
    assert!(ended.is_empty(), "nothing else is under way");
    drive.submit(Request { tag: 7, start_sector, sectors, operation });
    loop {
        drive.poll(monotonic_now(), &mut ended);
        if let Some(completion) = ended.pop() {
            assert!(ended.is_empty(), "one request, one end");
            assert_eq!(completion.tag, 7);
            return completion;
        }
        if drive.next_wake().is_none() {
            ring.wait(Some(Duration::from_secs(10)));
        }
    }
}

pub fn read(ring: &Ring, drive: &mut FileDrive, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
    let into = Segments::from_iter([Buffer::zeroed(stria_block::bytes(sectors))]);
    let completion = carry_out(ring, drive, start_sector, sectors, Operation::Read { into });
    completion.result?;
    let Operation::Read { into } = completion.operation else { panic!("the operation comes back") };
    Ok(into[0].to_vec())
}

pub fn write(ring: &Ring, drive: &mut FileDrive, start_sector: u64, bytes: &[u8]) -> Result<(), IoError> {
    let from: Segments<Data> = Segments::from_iter([Buffer::copy_of(bytes).freeze()]);
    let sectors = (bytes.len() / 512) as u64;
    carry_out(ring, drive, start_sector, sectors, Operation::Write { from, fua: false }).result
}
