//! Targets: anything that fio can reach, and arrays that are made for the run.

mod open;

pub(crate) use open::Opening;
pub use open::Target;

use crate::experiment::Arrays;
use crate::fio::Place;
use crate::md::{self, MdSpec};
use crate::modelled::{Model, On};
use crate::own::Own;
use crate::purge;
use crate::result::TargetKind;
use crate::stage::{Step, destroys};
use crate::state;
use crate::units::{parse_size, show_size};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stria_host::ArrayLevel;
use stria_plan::subject::SubjectSpec;

/// Size of a file that is made when none is given.
pub const FILE_BYTES: u64 = 1 << 30;
/// A part of a target has so many bytes at least.
const PART_MIN: u64 = 8 << 20;
/// Size of an image file of a pool when none is given.
pub const DRIVE_BYTES: u64 = 256 << 20;

/// The reason why a target cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is invalid.
    #[error("{0}")]
    Usage(String),
    /// It would be overwritten, and the user did not allow that.
    #[error("{0}")]
    Unsafe(String),
    /// It cannot be opened or made.
    #[error("{0}")]
    Failed(String),
}

/// Drives for arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Existing drives.
    pub drives: Vec<PathBuf>,
    /// Or a folder in which image files are made.
    pub folder: Option<PathBuf>,
    /// Of this size.
    pub drive_bytes: Option<u64>,
}

impl Pool {
    /// True if nothing was given.
    pub fn is_empty(&self) -> bool {
        self.drives.is_empty() && self.folder.is_none()
    }

    fn take(&self, count: u32) -> Result<Vec<PathBuf>, TargetError> {
        match &self.folder {
            Some(folder) => Ok((0..count).map(|at| folder.join(format!("drive{at}.img"))).collect()),
            None if self.drives.is_empty() => Err(TargetError::Usage(
                "this needs drives: name them with --drive, or a folder for image files with --pool".into(),
            )),
            None => self.drives.get(..count as usize).map(<[_]>::to_vec).ok_or_else(|| {
                TargetError::Usage(format!("{count} drives are needed, but {} are named with --drive", self.drives.len()))
            }),
        }
    }

    fn bytes_each(&self) -> u64 {
        let smallest = self.drives.iter().map(|drive| state::size_of(drive).unwrap_or(0)).min();
        smallest.or(self.drive_bytes).unwrap_or(DRIVE_BYTES)
    }
}

/// A size, or a share of all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// `10GiB`
    Bytes(u64),
    /// `25%`
    Percent(f64),
}

impl Amount {
    /// `10GiB` or `25%`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(percent) = text.trim().strip_suffix('%') else { return parse_size(text).map(Self::Bytes) };
        let percent = percent.trim().parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(Self::Percent).ok_or_else(|| format!("\"{text}\" is not a share: write a size such as 10GiB, or 0% to 100%"))
    }

    /// In whole MiB, which every block size divides.
    fn of(self, bytes: u64) -> u64 {
        let amount = match self {
            Self::Bytes(amount) => amount,
            Self::Percent(percent) => (bytes as f64 * percent / 100.0) as u64,
        };
        amount >> 20 << 20
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => out.write_str(&show_size(*bytes)),
            Self::Percent(percent) => write!(out, "{percent} %"),
        }
    }
}

/// The measured part of a target: its start and size. A purge covers the complete target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// From the beginning if not given.
    pub offset: Option<Amount>,
    /// Up to the end if not given.
    pub share: Option<Amount>,
}

impl Part {
    /// All of it.
    pub fn is_everything(&self) -> bool {
        self.offset.is_none() && self.share.is_none()
    }

    /// Where it begins, and its bytes.
    fn of(&self, bytes: u64) -> Result<(u64, u64), String> {
        if self.is_everything() {
            return Ok((0, bytes));
        }
        let offset = self.offset.map_or(0, |offset| offset.of(bytes));
        let share = self.share.map_or(bytes.saturating_sub(offset), |share| share.of(bytes));
        match share >= PART_MIN && offset.checked_add(share).is_some_and(|end| end <= bytes) {
            true => Ok((offset, share)),
            false => Err(format!(
                "{} from {} on is not a part of {}: at least {} must be left",
                show_size(share),
                show_size(offset),
                show_size(bytes),
                show_size(PART_MIN)
            )),
        }
    }

    /// ", 50 % from 25 % on"; nothing for all of it.
    fn words(&self) -> String {
        match (self.offset, self.share) {
            (None, None) => String::new(),
            (None, Some(share)) => format!(", first {share}"),
            (Some(offset), None) => format!(", from {offset} on"),
            (Some(offset), Some(share)) => format!(", {share} from {offset} on"),
        }
    }
}

/// The machines on which a target lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// This machine.
    Here,
    /// Other hosts: paths of this machine with the same names are not the target.
    Hosts,
}

/// A target as it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSpec {
    /// See [`crate::result::TargetInfo::name`].
    pub name: String,
    /// As it was given.
    pub spec: String,
    /// Its kind.
    pub kind: TargetKind,
    /// A file, device or URI.
    pub place: String,
    /// Drives of an array or of bare members.
    pub drives: Vec<PathBuf>,
    /// They are image files that the run makes.
    pub made: bool,
    /// The array's level, or what the user said.
    pub level: Option<String>,
    /// Strip.
    pub strip_bytes: Option<u64>,
    /// Spans.
    pub spans: Option<u32>,
    /// What the user says about the platform.
    pub platform: String,
    /// An md array without a first resync.
    pub assume_clean: bool,
    /// What is modelled.
    pub model: Option<SubjectSpec>,
    /// What of it is measured.
    part: Part,
    bytes: u64,
    member_bytes: u64,
}

impl TargetSpec {
    /// `file:PATH`, `dir:FOLDER` for a file in it, `block:PATH`, an NBD URI, `array:LEVEL:COUNT[:STRIP[:SPANS]]`,
    /// `members:COUNT`, `model:DRIVE…`, or a path that is there.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str, pool: &Pool, size: Option<u64>) -> Result<Self, TargetError> {
        let spec = Self::parse_any(text, pool, size)?;
        spec.check_names()?;
        Ok(spec)
    }

    /// fio must be able to take the names as they are.
    fn check_names(&self) -> Result<(), TargetError> {
        self.places().iter().try_for_each(|place| place.check().map_err(TargetError::Usage))
    }

    fn parse_any(text: &str, pool: &Pool, size: Option<u64>) -> Result<Self, TargetError> {
        let usage = |problem: String| TargetError::Usage(format!("target \"{text}\": {problem}"));
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        match kind {
            "file" => Self::file(text, rest, size),
            "dir" if Path::new(rest).is_dir() => {
                let file = Path::new(rest).join("stria-lab.img");
                Self::file(text, &file.display().to_string(), size)
            }
            "dir" => Err(usage("there is no such folder".into())),
            // On other hosts only.
            "block" if size.is_some() && !Path::new(rest).exists() => {
                Ok(Self::new(text, rest, TargetKind::Block, size.unwrap_or(FILE_BYTES)))
            }
            "block" => Self::block(text, rest),
            "nbd" | "nbd+unix" | "nbds" | "nbds+unix" => {
                let bytes = size.map_or_else(|| nbd_size(text), Ok).map_err(usage)?;
                Ok(Self::new(text, text, TargetKind::Nbd, bytes))
            }
            "array" => {
                let parts: Vec<&str> = rest.split(':').collect();
                let number = |at: usize| parts.get(at).map(|part| part.parse::<u32>()).transpose();
                let (Ok(Some(count)), Ok(spans)) = (number(1), number(3)) else {
                    return Err(usage("write array:LEVEL:COUNT[:STRIP[:SPANS]], as array:5:4:64K".into()));
                };
                let strip = parts.get(2).map(|strip| parse_size(strip)).transpose().map_err(usage)?;
                Self::array(parts[0], count, strip, spans, pool)
            }
            "md" => {
                let mut parts: Vec<&str> = rest.split(':').collect();
                let assume_clean = parts.pop_if(|last| *last == "assume-clean").is_some();
                let count = parts.get(1).and_then(|count| count.parse().ok());
                let (Some(count), true) = (count, parts.len() <= 3) else {
                    return Err(usage("write md:LEVEL:COUNT[:STRIP][:assume-clean], as md:5:4:64K".into()));
                };
                let strip = parts.get(2).map(|strip| parse_size(strip)).transpose().map_err(usage)?;
                Self::md(parts[0], count, strip, assume_clean, pool)
            }
            "model" => Self::model(text, rest, Model::parse(rest).map_err(usage)?),
            "members" => {
                let count = rest.parse().map_err(|_| usage("write members:COUNT".into()))?;
                Self::members(count, pool)
            }
            _ => {
                let metadata = fs::metadata(text).map_err(|error| {
                    usage(format!(
                        "{error}; write file:PATH for a file to make, dir:FOLDER, block:PATH, an NBD URI, or array:LEVEL:COUNT"
                    ))
                })?;
                if metadata.file_type().is_block_device() { Self::block(text, text) } else { Self::file(text, text, size) }
            }
        }
    }

    pub(crate) fn new(spec: &str, place: &str, kind: TargetKind, bytes: u64) -> Self {
        Self {
            name: place.into(),
            spec: spec.into(),
            kind,
            place: place.into(),
            drives: Vec::new(),
            made: false,
            level: None,
            strip_bytes: None,
            spans: None,
            platform: String::new(),
            assume_clean: false,
            model: None,
            part: Part::default(),
            bytes,
            member_bytes: bytes,
        }
    }

    fn file(spec: &str, path: &str, size: Option<u64>) -> Result<Self, TargetError> {
        let metadata = fs::metadata(path).ok();
        if metadata.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            return Err(TargetError::Usage(format!(
                "{path} is not a plain file; write block:{path} for a device, dir:{path} for a folder"
            )));
        }
        let found = metadata.map(|metadata| metadata.len());
        let bytes = size.or(found.filter(|bytes| *bytes > 0)).unwrap_or(FILE_BYTES);
        if bytes < 8 << 20 {
            return Err(TargetError::Usage(format!(
                "file {path} of {} is too small to measure: use --size 8M or more",
                show_size(bytes)
            )));
        }
        Ok(Self::new(spec, path, TargetKind::File, bytes))
    }

    fn block(spec: &str, path: &str) -> Result<Self, TargetError> {
        let is_block = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        if !is_block {
            return Err(TargetError::Usage(format!("{path} is not a block device; write file:{path} for a file")));
        }
        let bytes = state::size_of(Path::new(path)).map_err(TargetError::Failed)?;
        Ok(Self::new(spec, path, TargetKind::Block, bytes))
    }

    /// An array of the pool's first drives.
    ///
    /// # Errors
    /// When the pool has too few.
    pub fn array(level: &str, count: u32, strip: Option<u64>, spans: Option<u32>, pool: &Pool) -> Result<Self, TargetError> {
        let name = array_name(level, count, strip, spans);
        let spec = format!("array:{level}:{count}");
        if !possible(level, count, spans.unwrap_or(2)) {
            return Err(TargetError::Usage(format!("there is no RAID {level} of {count} drives: {}", counts(level))));
        }
        let of_host: ArrayLevel = level.parse().map_err(TargetError::Usage)?;
        let data_drives = of_host.data_drives(count as usize, spans.unwrap_or(2) as usize) as u64;
        Ok(Self {
            name,
            spec,
            kind: TargetKind::Array,
            place: String::new(),
            drives: pool.take(count)?,
            made: pool.folder.is_some(),
            level: Some(level.into()),
            strip_bytes: strip,
            spans: spans.or((level == "50" || level == "60").then_some(2)),
            platform: String::new(),
            assume_clean: false,
            model: None,
            part: Part::default(),
            bytes: data_drives * pool.bytes_each(),
            member_bytes: pool.bytes_each(),
        })
    }

    /// A Linux md array of the pool's first drives, made by mdadm.
    ///
    /// # Errors
    /// When the pool has too few, or image files only.
    pub fn md(level: &str, count: u32, strip: Option<u64>, assume_clean: bool, pool: &Pool) -> Result<Self, TargetError> {
        if !md::LEVELS.contains(&level) {
            let levels = md::LEVELS.join(", ");
            return Err(TargetError::Usage(format!("the lab cannot make an md RAID {level}: levels are {levels}")));
        }
        if pool.folder.is_some() {
            let words = "md arrays are made of block devices: name them with --drive (losetup --find --show makes one of a file)";
            return Err(TargetError::Usage(words.into()));
        }
        let like = Self::array(level, count, strip, None, pool)?;
        let clean = if assume_clean && level != "0" { ", assumed clean" } else { "" };
        let spec = format!("md:{level}:{count}{}", if assume_clean { ":assume-clean" } else { "" });
        // md's own strip, unless another is given.
        let strip_bytes = Some(strip.unwrap_or(512 << 10)).filter(|_| level != "1");
        let name = format!("md {}{clean}", array_name(level, count, strip_bytes, None));
        Ok(Self { name, spec, kind: TargetKind::Md, strip_bytes, assume_clean, ..like })
    }

    /// The pool's first drives, each by itself.
    ///
    /// # Errors
    /// When the pool has too few.
    pub fn members(count: u32, pool: &Pool) -> Result<Self, TargetError> {
        let text = format!("members:{count}");
        let name = if count == 1 { "1 drive".into() } else { format!("{count} drives, each by itself") };
        let new = Self::new(&text, &name, TargetKind::Members, u64::from(count) * pool.bytes_each());
        Ok(Self { place: String::new(), drives: pool.take(count)?, made: pool.folder.is_some(), ..new })
    }

    fn model(spec: &str, name: &str, model: Model) -> Result<Self, TargetError> {
        let is_array = model.is_array();
        let bytes = model.size_bytes().map_err(TargetError::Usage)?;
        Ok(Self {
            level: is_array.then_some(model.level),
            strip_bytes: is_array.then_some(model.spec.strip_bytes),
            spans: model.spans,
            platform: format!("modelled: {} on {}", model.spec.drive.name, model.spec.platform.name),
            model: Some(model.spec),
            ..Self::new(spec, name, TargetKind::Model, bytes)
        })
    }

    /// As [`Self::all`], on models instead of drives.
    ///
    /// # Errors
    /// When none is modelled there.
    pub fn all_modelled(arrays: Option<&Arrays>, on: &On) -> Result<Vec<Self>, TargetError> {
        let models = on.models(arrays).map_err(TargetError::Usage)?;
        let target = |model: Model| {
            let (level, count) = (&*model.level, model.spec.members as u32);
            let (text, name) = match (level, count) {
                ("single", _) => (format!("model:{on}"), on.to_string()),
                ("bare", 1) => (format!("model:{on}:{level}:{count}"), "1 drive".into()),
                ("bare", _) => (format!("model:{on}:{level}:{count}"), format!("{count} drives, each by itself")),
                _ => {
                    let name = array_name(level, count, Some(model.spec.strip_bytes), model.spans);
                    (format!("model:{on}:{level}:{count}"), name)
                }
            };
            Self::model(&text, &name, model)
        };
        models.into_iter().map(target).collect()
    }

    /// All targets of an experiment's arrays that can be.
    ///
    /// # Errors
    /// When the pool has too few drives for any.
    pub fn all(arrays: &Arrays, pool: &Pool) -> Result<Vec<Self>, TargetError> {
        let available = if pool.folder.is_some() { u32::MAX } else { pool.drives.len() as u32 };
        let mut targets = Vec::new();
        for &count in arrays.members.iter().filter(|count| **count <= available) {
            if arrays.bare {
                targets.push(Self::members(count, pool)?);
            }
            for level in &arrays.levels {
                for strip in &arrays.strips {
                    for &spans in &arrays.spans {
                        let nested = level == "50" || level == "60";
                        let first =
                            Some(&spans) == arrays.spans.first() && (Some(strip) == arrays.strips.first() || level != "1");
                        if possible(level, count, spans) && (nested || first) {
                            let target = Self::array(level, count, Some(strip.0), nested.then_some(spans), pool)?;
                            target.check_names()?;
                            targets.push(target);
                        }
                    }
                }
            }
        }
        if targets.is_empty() {
            return Err(pool.take(arrays.members.iter().copied().min().unwrap_or(1)).map_or_else(
                |error| error,
                |_| TargetError::Usage("no array of this experiment can be made of these drives".into()),
            ));
        }
        Ok(targets)
    }

    /// Bytes that are measured, as far as they are known before it is opened.
    pub fn size_bytes(&self) -> u64 {
        self.part.of(self.bytes).map_or(self.bytes, |(_, bytes)| bytes)
    }

    /// Measures only a part of it, and adds that to its name.
    ///
    /// # Errors
    /// When it has no such part.
    pub fn take_part(&mut self, part: Part) -> Result<(), TargetError> {
        part.of(self.bytes).map_err(|words| TargetError::Usage(format!("{}: {words}", self.name)))?;
        self.name += &part.words();
        self.part = part;
        Ok(())
    }

    /// Bytes of a member of an array: what a rebuild fills.
    pub fn member_bytes(&self) -> u64 {
        self.member_bytes
    }

    /// Level, for arrays.
    pub fn level(&self) -> Option<&str> {
        self.level.as_deref()
    }

    /// Drives that share the work.
    pub fn drive_count(&self) -> u32 {
        self.model.as_ref().map_or(self.drives.len(), |model| model.members).max(1) as u32
    }

    /// An array of ours that outlives the loss of a drive.
    pub fn can_degrade(&self) -> bool {
        self.kind == TargetKind::Array && !matches!(self.level(), Some("0" | "jbod") | None)
    }

    /// The md array that it is, if it is one.
    pub fn md_spec(&self) -> Option<MdSpec> {
        let spec = || MdSpec {
            level: self.level.clone().unwrap_or_default(),
            strip_bytes: self.strip_bytes,
            assume_clean: self.assume_clean,
            drives: self.drives.clone(),
        };
        (self.kind == TargetKind::Md).then(spec)
    }

    /// The names that `--destroy` must have before this is overwritten: everything that the run did not make itself, by `own`. A
    /// file on other hosts counts as there, because this machine cannot see it.
    pub fn endangered(&self, own: Option<&Own>, site: Site) -> Vec<String> {
        let is_foreign = |path: &Path| fs::metadata(path).is_ok() && !own.is_some_and(|own| own.owns(path));
        match self.kind {
            TargetKind::File if site == Site::Hosts => vec![self.place.clone()],
            TargetKind::File => Some(self.place.clone()).filter(|place| is_foreign(Path::new(place))).into_iter().collect(),
            TargetKind::Block | TargetKind::Nbd => vec![self.place.clone()],
            TargetKind::Array | TargetKind::Md | TargetKind::Members => {
                self.drives.iter().filter(|path| is_foreign(path)).map(|path| path.display().to_string()).collect()
            }
            TargetKind::Model => Vec::new(),
        }
    }

    /// Bytes of each of [`Self::files`].
    pub(crate) fn file_bytes(&self) -> u64 {
        if self.kind == TargetKind::File { self.bytes } else { self.member_bytes }
    }

    /// Files that are measured here and may have to be made.
    pub fn files(&self) -> Vec<PathBuf> {
        match self.kind {
            TargetKind::File => vec![self.place.clone().into()],
            _ if self.made => self.drives.clone(),
            _ => Vec::new(),
        }
    }

    /// Where its data lies: the file, device or export itself, or the drives of an array.
    pub(crate) fn places(&self) -> Vec<Place> {
        match self.kind {
            TargetKind::Nbd => vec![Place::Nbd(self.place.clone())],
            TargetKind::File | TargetKind::Block => vec![Place::Path(self.place.clone().into())],
            TargetKind::Array | TargetKind::Md | TargetKind::Members => self.drives.iter().cloned().map(Place::Path).collect(),
            TargetKind::Model => Vec::new(),
        }
    }

    /// True if these steps overwrite any of it. Making an array always overwrites its drives.
    pub fn is_overwritten<'a>(&self, steps: impl IntoIterator<Item = &'a Step>) -> bool {
        matches!(self.kind, TargetKind::Array | TargetKind::Md) || self.made || steps.into_iter().any(destroys)
    }

    /// Refuses to overwrite what is not named in `destroy`, or is in use.
    ///
    /// # Errors
    /// A sentence with the needed options.
    pub fn allow<'a>(
        &self,
        steps: impl IntoIterator<Item = &'a Step>,
        destroy: &[String],
        own: Option<&Own>,
        site: Site,
    ) -> Result<(), TargetError> {
        if !self.is_overwritten(steps) {
            return Ok(());
        }
        let endangered = self.endangered(own, site);
        let is_allowed = |place: &str| match site {
            Site::Here => is_named(place, destroy),
            // Links of this machine mean nothing there.
            Site::Hosts => destroy.iter().any(|named| named == place),
        };
        let unnamed: Vec<&str> = endangered.iter().map(String::as_str).filter(|place| !is_allowed(place)).collect();
        if !unnamed.is_empty() {
            return Err(TargetError::Unsafe(would_overwrite(&unnamed)));
        }
        for place in endangered.iter().filter(|_| site == Site::Here) {
            if fs::metadata(place).is_ok_and(|metadata| metadata.file_type().is_block_device()) {
                purge::refuse_busy(Path::new(place)).map_err(TargetError::Unsafe)?;
            }
        }
        Ok(())
    }

    /// Refuses to make a file that only the folder of a resumed run asks for, and to change the size of one that the run did not
    /// make, unless `destroy` names it: even if the run only reads. `own`: none before a new run, which the user asks for its
    /// files.
    ///
    /// # Errors
    /// A sentence with the needed options.
    pub fn allow_files(&self, destroy: &[String], own: Option<&Own>) -> Result<(), TargetError> {
        for file in self.files() {
            let place = file.display().to_string();
            let Some(found) = fs::metadata(&file).ok().map(|metadata| metadata.len()) else {
                if own.is_some_and(|own| !own.may_make(&file)) && !is_named(&place, destroy) {
                    return Err(TargetError::Unsafe(format!(
                        "{place} would be made, which only the run's folder asks for: add --destroy {place} to allow that"
                    )));
                }
                continue;
            };
            let wanted = self.file_bytes();
            let changes = if self.made { found != wanted } else { found < wanted };
            if changes && !own.is_some_and(|own| own.owns(&file)) && !is_named(&place, destroy) {
                let (found, wanted) = (show_size(found), show_size(wanted));
                return Err(TargetError::Unsafe(format!(
                    "{place} has {found}, and the run needs {wanted}: ask for no more than it has, or add --destroy {place} to allow that \
                     its size is changed"
                )));
            }
        }
        Ok(())
    }
}

/// True if `--destroy` names a file, device or export, by whatever path.
fn is_named(place: &str, destroy: &[String]) -> bool {
    let real = |name: &str| fs::canonicalize(name).ok();
    destroy.iter().any(|named| named == place || real(named).is_some_and(|named| Some(named) == real(place)))
}

/// The text of a refusal.
pub(crate) fn would_overwrite(places: &[&str]) -> String {
    let named: Vec<String> = places.iter().map(|place| format!("--destroy {place}")).collect();
    format!("everything on {} would be overwritten: add {} to allow that", places.join(", "), named.join(" "))
}

pub(crate) fn array_name(level: &str, count: u32, strip: Option<u64>, spans: Option<u32>) -> String {
    let strip =
        strip.filter(|_| level != "1" && level != "jbod").map_or(String::new(), |strip| format!(", strip {}", show_size(strip)));
    let spans = spans.map_or(String::new(), |spans| format!(", {spans} spans"));
    let level = if level == "jbod" { "JBOD".into() } else { format!("RAID {level}") };
    format!("{level} of {count}{strip}{spans}")
}

/// True if there is such an array.
pub fn possible(level: &str, count: u32, spans: u32) -> bool {
    match level {
        "0" | "jbod" | "1" => count >= 2,
        "4" | "5" => count >= 3,
        "6" => count >= 4,
        "10" => count >= 4 && count.is_multiple_of(2),
        "50" => spans >= 2 && count.is_multiple_of(spans) && count / spans >= 3,
        "60" => spans >= 2 && count.is_multiple_of(spans) && count / spans >= 4,
        _ => false,
    }
}

/// The numbers of drives that a level takes, in words.
fn counts(level: &str) -> &'static str {
    match level {
        "0" | "jbod" | "1" => "use two or more",
        "4" | "5" => "use three or more",
        "6" => "use four or more",
        "10" => "use an even number from four on",
        "50" => "use spans of three drives or more, all alike",
        "60" => "use spans of four drives or more, all alike",
        _ => "use another level",
    }
}

fn nbd_size(uri: &str) -> Result<u64, String> {
    let output = Command::new("nbdinfo").args(["--size", uri]).stdin(Stdio::null()).output();
    let output = output.map_err(|_| "without nbdinfo its size is unknown: set --size, or install libnbd-bin".to_owned())?;
    let size = String::from_utf8_lossy(&output.stdout).trim().parse();
    size.map_err(|_| {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.trim().lines().last().unwrap_or("nbdinfo tells no size");
        format!("it cannot be reached ({last}): check that its server runs, and the address")
    })
}
