//! The options of a run.

use super::RunError;
use crate::experiment::{Experiment, SchemaError};
use crate::fio::{Host, Place};
use crate::modelled::On;
use crate::nbd_uri::is_over_network;
use crate::result::{ResultError, SectionKind, TargetKind, inside};
use crate::stage::Scale;
use crate::target::{Part, Pool, Site, TargetError, TargetSpec};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const REQUEST: &str = "request.json";

/// A target that is created for the run, and so has no path.
fn is_made_up(text: &str) -> bool {
    ["array:", "md:", "members:", "model:"].iter().any(|kind| text.starts_with(kind))
}

/// The options of a run, beside its experiment: stored as `request.json`, so that it can be resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Targets as they were named; none if the experiment builds arrays.
    pub targets: Vec<String>,
    /// Names that the targets have instead of their own, one for each; none: their own.
    #[serde(default)]
    pub names: Vec<String>,
    /// The platform of modelled drives, where they are measured instead of targets: see [`crate::modelled::On`].
    #[serde(default)]
    pub on: Option<String>,
    /// Size of a file to make, or of an NBD export that does not report it.
    pub size: Option<u64>,
    /// The measured part of each target.
    #[serde(default)]
    pub part: Part,
    /// Drives for arrays.
    pub drives: Vec<PathBuf>,
    /// Or a folder for image files.
    pub pool: Option<PathBuf>,
    /// Of this size.
    pub drive_bytes: Option<u64>,
    /// A trial.
    pub scaled: bool,
    /// Only loads that write nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Machines that run `fio --server`, instead of this one.
    pub hosts: Vec<Host>,
    /// Targets that may be overwritten. Never stored: the user must allow it again to resume a run.
    #[serde(skip)]
    pub destroy: Vec<String>,
    /// A remark.
    pub note: String,
    /// The user's description of the platform.
    pub platform: String,
    /// Level of a target that is an array of others.
    pub level: Option<String>,
    /// Members of such an array.
    pub members: Option<u32>,
    /// Bytes that the maker allows to be written to a drive.
    pub rated_bytes: Option<u64>,
    /// Leave the files that were made.
    pub keep: bool,
    /// The command line.
    pub command: Vec<String>,
    /// The `stria` program. Never stored: the program that resumes a run uses itself.
    #[serde(skip)]
    pub program: PathBuf,
    /// The working folder at the start: targets may be relative to it.
    #[serde(default)]
    pub begun_in: PathBuf,
}

/// The user's permissions for a resumed run. Its folder is not trusted with any of them.
#[derive(Clone, Debug, Default)]
pub struct Consent {
    /// Targets that may be overwritten, besides files that this run created.
    pub destroy: Vec<String>,
    /// Targets that may be contacted over the network.
    pub targets: Vec<String>,
    /// Machines whose fio and ssh may be contacted.
    pub hosts: Vec<Host>,
    /// The `stria` program.
    pub program: PathBuf,
}

impl Consent {
    /// Refuses targets of a folder that are reached over a network, unless the user named them.
    ///
    /// # Errors
    /// A sentence with the option that allows the contact.
    pub fn allow_contact(&self, targets: &[String], folder: &Path) -> Result<(), TargetError> {
        let is_allowed = |target: &String| self.targets.contains(target) || self.destroy.contains(target);
        match targets.iter().find(|target| is_over_network(target) && !is_allowed(target)) {
            Some(target) => Err(TargetError::Unsafe(format!(
                "the run in {} measures {}, which is reached over a network: allow the contact with --target {}",
                folder.display(),
                target.escape_debug(),
                target.escape_debug()
            ))),
            None => Ok(()),
        }
    }
}

impl Request {
    /// The selected part of an experiment.
    ///
    /// # Errors
    /// It has no load that only reads.
    pub fn experiment(&self, experiment: Experiment) -> Result<Experiment, SchemaError> {
        if self.read_only { experiment.read_only() } else { Ok(experiment) }
    }

    /// The machines on which its targets lie.
    pub(crate) fn site(&self) -> Site {
        if self.hosts.is_empty() { Site::Here } else { Site::Hosts }
    }

    /// The pool.
    pub fn pool(&self) -> Pool {
        Pool { drives: self.drives.clone(), folder: self.pool.clone(), drive_bytes: self.drive_bytes }
    }

    /// The targets of an experiment.
    ///
    /// # Errors
    /// They are invalid.
    pub fn target_specs(&self, experiment: &Experiment) -> Result<Vec<TargetSpec>, TargetError> {
        let pool = self.pool();
        let mut specs: Vec<TargetSpec> =
            self.targets.iter().map(|text| TargetSpec::parse(text, &pool, self.size)).collect::<Result<_, _>>()?;
        if let Some(name) = self.names.iter().find(|name| !stria_block::is_plain(name)) {
            return Err(TargetError::Usage(format!(
                "invalid name {} of a target: it has characters that do not print, so name it without them",
                stria_block::shown(name)
            )));
        }
        specs.iter_mut().zip(&self.names).for_each(|(spec, name)| spec.name.clone_from(name));
        let arrays = experiment.arrays(self.scale(experiment).is_scaled());
        if let Some(on) = self.on.as_ref().filter(|_| specs.is_empty()) {
            specs = TargetSpec::all_modelled(arrays.as_ref(), &On::parse(on).map_err(TargetError::Usage)?)?;
        } else if let Some(arrays) = arrays.filter(|_| specs.is_empty()) {
            specs = TargetSpec::all(&arrays, &pool)?;
        }
        if specs.is_empty() {
            return Err(TargetError::Usage(
                "nothing to measure: name a --target, such as file:/tmp/x.img, /dev/nvme0n1, an NBD URI, or array:5:4 with --pool".into(),
            ));
        }
        if !self.part.is_everything()
            && experiment.section.iter().any(|section| matches!(section.test, SectionKind::FileCopy | SectionKind::Replay))
        {
            let words = "copies and replays use the complete target: measure them without --offset and --share";
            return Err(TargetError::Usage(words.into()));
        }
        for (at, spec) in specs.iter_mut().enumerate() {
            spec.take_part(self.part)?;
            if spec.kind != TargetKind::Model {
                spec.platform = self.platform.clone();
            }
            if !matches!(spec.kind, TargetKind::Array | TargetKind::Md | TargetKind::Members | TargetKind::Model) {
                spec.level = self.level.clone();
            }
            if !self.hosts.is_empty()
                && matches!(spec.kind, TargetKind::Array | TargetKind::Md | TargetKind::Members | TargetKind::Model)
            {
                return Err(TargetError::Usage(format!(
                    "target {}: several hosts measure files, block devices and NBD exports, not models and arrays made for the run",
                    at + 1
                )));
            }
        }
        Ok(specs)
    }

    /// The scale.
    pub fn scale(&self, experiment: &Experiment) -> Scale {
        Scale::new((self.scaled || experiment.always_scaled).then(|| experiment.scaled.clone()))
    }
}

impl Request {
    pub(super) fn save(&self, folder: &Path) -> Result<(), ResultError> {
        inside::write(folder, REQUEST, &serde_json::to_vec_pretty(self).expect("plain data becomes JSON"))
    }

    /// Reads it from the folder of a resumed run, with the user's permissions.
    pub(super) fn read(folder: &Path, consent: &Consent) -> Result<Self, RunError> {
        let failed = |error: String| RunError::Failed(format!("{}: {error}", folder.join(REQUEST).display()));
        let bytes = inside::read(folder, REQUEST, 1 << 20)?;
        let request: Self = inside::sound(&bytes).map_err(failed)?;
        if request.hosts != consent.hosts {
            let hosts: Vec<String> = request.hosts.iter().map(|host| format!("--host {host}")).collect();
            let where_to = match hosts.is_empty() {
                true => "was made on this machine: resume it without --host".to_owned(),
                false => {
                    format!("was made from other machines, which fio and ssh contact: allow that with {}", hosts.join(" "))
                }
            };
            return Err(TargetError::Unsafe(format!("the run in {} {where_to}", folder.display())).into());
        }
        consent.allow_contact(&request.targets, folder)?;
        let relative = |text: &String| {
            let path = text.strip_prefix("file:").or(text.strip_prefix("dir:")).or(text.strip_prefix("block:")).unwrap_or(text);
            matches!(Place::new(path), Place::Path(path) if path.is_relative()) && !is_made_up(text)
        };
        let here = std::env::current_dir().unwrap_or_default();
        if request.targets.iter().any(relative) && here != request.begun_in {
            let place = request.begun_in.display();
            return Err(failed(format!("the target is named relative to {place}: resume the run there")));
        }
        Ok(Self { destroy: consent.destroy.clone(), program: consent.program.clone(), ..request })
    }
}
