//! A Linux md array for a run: made, assembled, stopped and erased by `mdadm`. A plan shows the command lines beforehand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Levels that the lab makes with md.
pub const LEVELS: [&str; 6] = ["0", "1", "4", "5", "6", "10"];
/// The array's name on its members, by which a run recognizes its own.
const NAME: &str = "stria-lab";
/// In the folder of sockets: the device of the array, while it exists.
const LEFT: &str = "md";

/// The array to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdSpec {
    /// `5`.
    pub level: String,
    /// Strip, for levels that have one.
    pub strip_bytes: Option<u64>,
    /// True if the drives count as consistent: no first resync.
    pub assume_clean: bool,
    /// Members in the order of their slots.
    pub drives: Vec<PathBuf>,
}

impl MdSpec {
    fn is_redundant(&self) -> bool {
        self.level != "0"
    }

    fn drives(&self) -> impl Iterator<Item = String> {
        self.drives.iter().map(|drive| drive.display().to_string())
    }

    /// The arguments with which mdadm makes it. `--run`: it does not ask before it overwrites the drives, as the user allowed
    /// that.
    pub fn create(&self, device: &Path) -> Vec<String> {
        let mut words = vec!["--create".into(), device.display().to_string(), "--run".into(), "--metadata=1.2".into()];
        words.push(format!("--name={NAME}"));
        words.push(format!("--level={}", self.level));
        words.push(format!("--raid-devices={}", self.drives.len()));
        words.extend(self.strip_bytes.map(|bytes| format!("--chunk={}", bytes >> 10)));
        if self.is_redundant() {
            // Stria's arrays have a bitmap too.
            words.push("--bitmap=internal".into());
        }
        if self.is_redundant() && self.assume_clean {
            words.push("--assume-clean".into());
        }
        words.extend(self.drives());
        words
    }

    /// Arguments that assemble the array of that UUID again, and no other that its drives may carry by now.
    pub fn assemble(&self, device: &Path, uuid: &str) -> Vec<String> {
        let words = ["--assemble".into(), device.display().to_string(), "--run".into(), format!("--uuid={uuid}")];
        words.into_iter().chain(self.drives()).collect()
    }

    /// Arguments that erase its members' superblocks.
    pub fn unmake(&self) -> Vec<String> {
        std::iter::once("--zero-superblock".into()).chain(self.drives()).collect()
    }

    /// All commands of mdadm for a run, as one would type them.
    pub fn command_lines(&self) -> Vec<String> {
        let device = free_device();
        let line = |words: Vec<String>| format!("mdadm {}", words.join(" "));
        vec![line(self.create(&device)), line(stop(&device)), line(self.unmake())]
    }
}

fn stop(device: &Path) -> Vec<String> {
    vec!["--stop".into(), device.display().to_string()]
}

/// The last md device that is free.
fn free_device() -> PathBuf {
    let names = (0..128).rev().map(|number| format!("md{number}"));
    let mut free =
        names.filter(|name| !Path::new("/sys/class/block").join(name).exists() && !Path::new("/dev").join(name).exists());
    Path::new("/dev").join(free.next().unwrap_or_else(|| "md127".into()))
}

fn mdadm(program: &Path, words: &[String]) -> Result<String, String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| format!("mdadm cannot be started: {error}; install it with: sudo apt-get install mdadm"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("mdadm {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The progress of an array towards consistent members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sync {
    /// They are consistent.
    Done,
    /// A resync or recovery runs.
    Runs,
    /// None runs, although one is needed: it begins in a moment, or never if a member is gone.
    Waits,
    /// Members failed, with their names: the resync ends without success.
    Failed(String),
}

/// Levels without redundancy have none of these files.
fn attribute(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned())
}

fn sync_of(folder: &Path) -> Sync {
    let names =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_faulty = |name: &String| attribute(folder, &format!("{name}/state")).is_some_and(|state| state.contains("faulty"));
    let mut faulty: Vec<String> = names.filter(|name| name.starts_with("dev-")).filter(is_faulty).collect();
    faulty.sort();
    if !faulty.is_empty() {
        return Sync::Failed(faulty.iter().map(|name| name.trim_start_matches("dev-")).collect::<Vec<_>>().join(", "));
    }
    let differs = |name: &str, done: &str| attribute(folder, name).is_some_and(|text| text != done);
    match attribute(folder, "sync_action").as_deref() {
        None | Some("idle" | "frozen") if differs("resync_start", "none") || differs("degraded", "0") => Sync::Waits,
        None | Some("idle" | "frozen") => Sync::Done,
        Some(_) => Sync::Runs,
    }
}

fn lost_members_of(folder: &Path) -> u64 {
    attribute(folder, "degraded").and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// An array that exists.
#[derive(Debug)]
pub struct Md {
    program: PathBuf,
    spec: MdSpec,
    device: PathBuf,
    /// Shows a later run that the array exists; removed with the array.
    left: PathBuf,
}

impl Md {
    /// Makes it on its drives, and overwrites what is on them. `made_before`: the array of that UUID is assembled again.
    ///
    /// # Errors
    /// In mdadm's words.
    pub fn open(program: &Path, spec: MdSpec, sockets: &Path, made_before: Option<&str>) -> Result<Self, String> {
        let (device, left) = (free_device(), sockets.join(LEFT));
        let noted = fs::create_dir_all(sockets).and_then(|()| fs::write(&left, device.display().to_string()));
        noted.map_err(|error| format!("{}: {error}", left.display()))?;
        let words = made_before.map_or_else(|| spec.create(&device), |uuid| spec.assemble(&device, uuid));
        // From here on it is stopped when it is dropped.
        let md = Self { program: program.into(), spec, device, left };
        mdadm(program, &words)?;
        Ok(md)
    }

    /// The address for clients.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// As mdadm writes it; `None` if mdadm does not report it.
    pub fn uuid(&self) -> Option<String> {
        let words = ["--detail".into(), "--export".into(), self.device.display().to_string()];
        let output = mdadm(&self.program, &words).ok()?;
        output.lines().find_map(|line| line.strip_prefix("MD_UUID=")).map(str::to_owned)
    }

    /// The progress towards consistent members.
    pub fn sync(&self) -> Sync {
        sync_of(&self.folder())
    }

    /// Slots without a member in sync.
    pub fn lost_members(&self) -> u64 {
        lost_members_of(&self.folder())
    }

    fn folder(&self) -> PathBuf {
        Path::new("/sys/class/block").join(self.device.file_name().unwrap_or_default()).join("md")
    }

    /// Stops it, and erases its superblocks.
    ///
    /// # Errors
    /// In mdadm's words.
    pub fn unmake(self) -> Result<(), String> {
        mdadm(&self.program, &stop(&self.device))?;
        let _ = fs::remove_file(&self.left);
        mdadm(&self.program, &self.spec.unmake()).map(|_| ())
    }
}

impl Drop for Md {
    /// An array that is dropped without [`Md::unmake`] belongs to an interrupted run: it is stopped, but stays on its members.
    fn drop(&mut self) {
        if self.left.exists() && mdadm(&self.program, &stop(&self.device)).is_ok() {
            let _ = fs::remove_file(&self.left);
        }
    }
}

/// Stops the array that a killed run left behind, if it is still that one.
pub fn stop_left(program: &Path, sockets: &Path) {
    let Ok(device) = fs::read_to_string(sockets.join(LEFT)) else { return };
    let is_own = |output: &str| output.lines().any(|line| line.trim_start().starts_with("Name :") && line.contains(NAME));
    let is_gone = match mdadm(program, &["--detail".into(), device.clone()]) {
        Ok(output) => !is_own(&output) || mdadm(program, &stop(Path::new(&device))).is_ok(),
        Err(_) => !Path::new(&device).exists(),
    };
    // The next run tries again.
    if is_gone {
        let _ = fs::remove_file(sockets.join(LEFT));
    }
}

#[cfg(test)]
mod tests;
