//! A target that is open: made where it is not there yet, measured, and ended.

use super::{Pool, Site, TargetError, TargetSpec};
use crate::array::{Array, ArraySpec};
use crate::fio::Place;
use crate::md::Md;
use crate::modelled::Machine;
use crate::own::{self, Own};
use crate::purge;
use crate::result::{TargetInfo, TargetKind};
use crate::stage::Scale;
use crate::state;
use crate::target_lock::{Held, image_files};
use std::fs;
use std::path::{Path, PathBuf};

/// A target that can be measured.
#[derive(Debug)]
pub struct Target {
    /// What it is.
    pub info: TargetInfo,
    /// Where fio finds it.
    pub places: Vec<Place>,
    /// The array behind it, if we made it.
    pub array: Option<Array>,
    /// The same of Linux md.
    pub md: Option<Md>,
    /// The models, if it is modelled.
    pub model: Option<Machine>,
    /// An interrupted run began on it, and it had to be made anew.
    pub is_lost: bool,
    spec: TargetSpec,
    site: Site,
    program: PathBuf,
    sockets: PathBuf,
}

/// The surroundings in which a target is opened.
pub(crate) struct Opening<'a> {
    pub scale: &'a Scale,
    pub pool: &'a Pool,
    /// `stria`.
    pub program: &'a Path,
    pub own: &'a mut Own,
    /// Has the locks of all files; those of an array pass to its server.
    pub held: &'a mut Held,
    /// An interrupted run made it.
    pub made_before: bool,
    /// On other hosts nothing is made here.
    pub site: Site,
}

/// Makes a new file, or sets the size of an existing one.
fn make(own: &mut Own, path: &Path, bytes: u64) -> Result<(), TargetError> {
    let made = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => own.make(path, bytes),
        Err(error) => Err(error),
        Ok(metadata) if metadata.len() == bytes => Ok(()),
        Ok(_) => fs::OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(bytes)),
    };
    made.map_err(|error| TargetError::Failed(format!("cannot make {}: {error}", path.display())))
}

impl Target {
    /// Opens or makes it. An array that an interrupted run made is served as it is, if exactly that array is still on its drives.
    ///
    /// # Errors
    /// When it cannot be.
    pub(crate) fn open(spec: &TargetSpec, opening: Opening) -> Result<Self, TargetError> {
        let Opening { scale, pool, program, own, held, made_before, site } = opening;
        let elsewhere = site == Site::Hosts;
        let failed = TargetError::Failed;
        let is_gone =
            |file: &PathBuf| own.lost(file) || fs::metadata(file).map_or(true, |metadata| metadata.len() < spec.file_bytes());
        let is_lost = made_before && !elsewhere && spec.files().iter().any(is_gone);
        if spec.kind == TargetKind::File && !elsewhere {
            let missing = fs::metadata(&spec.place).map_or(true, |file| file.len() < spec.bytes);
            if missing {
                make(own, Path::new(&spec.place), spec.bytes)?;
            }
        }
        if spec.made {
            let folder = pool.folder.as_deref().expect("made drives lie in a folder");
            fs::create_dir_all(folder).map_err(|error| failed(format!("{}: {error}", folder.display())))?;
            for drive in &spec.drives {
                make(own, drive, pool.bytes_each())?;
                // Those of an array are, before it is made.
                if !made_before && spec.kind != TargetKind::Array {
                    purge::recreate(drive).map_err(failed)?;
                }
            }
        }
        if spec.kind == TargetKind::Members {
            // Its loads write where an array may be.
            own::forget_array(own.folder()).map_err(failed)?;
        }
        let model = spec.model.as_ref().map(Machine::new).transpose().map_err(TargetError::Usage)?;
        let drives: Vec<PathBuf> =
            if !elsewhere && spec.drives.is_empty() && !matches!(spec.kind, TargetKind::Nbd | TargetKind::Model) {
                vec![spec.place.clone().into()]
            } else {
                spec.drives.clone()
            };
        let mut target = Self {
            info: TargetInfo {
                name: spec.name.clone(),
                spec: spec.spec.clone(),
                kind: spec.kind,
                size_bytes: spec.bytes,
                span_bytes: 0,
                offset_bytes: 0,
                level: spec.level.clone(),
                members: (!spec.drives.is_empty() || spec.kind == TargetKind::Model).then_some(spec.drive_count()),
                strip_bytes: spec.strip_bytes.filter(|_| !matches!(spec.level(), Some("1" | "jbod"))),
                spans: spec.spans,
                platform: spec.platform.clone(),
                drives: match &model {
                    Some(model) => model.drives(),
                    None => drives.iter().map(|drive| state::drive_info(drive)).collect(),
                },
            },
            places: match spec.kind {
                TargetKind::Array | TargetKind::Md => Vec::new(),
                _ => spec.places().into_iter().map(Place::absolute).collect(),
            },
            array: None,
            md: None,
            model,
            is_lost,
            spec: spec.clone(),
            site,
            program: program.into(),
            sockets: own.folder().into(),
        };
        if matches!(spec.kind, TargetKind::Array | TargetKind::Md) {
            target.drives().iter().for_each(|drive| held.release(drive));
            let uuid = own.array(&spec.name).filter(|_| made_before && !is_lost);
            if uuid.is_none_or(|uuid| target.find_array(&uuid).is_err()) {
                target.is_lost = made_before;
                target.remake_array().map_err(failed)?;
            }
        }
        let (offset_bytes, bytes) = spec.part.of(target.info.size_bytes).map_err(failed)?;
        // Measuring all of a model takes no longer than a part of it.
        let span_bytes = if target.model.is_some() { Scale::default().span(bytes) } else { scale.span(bytes) };
        (target.info.offset_bytes, target.info.span_bytes) = (offset_bytes, span_bytes);
        Ok(target)
    }

    fn array_spec(&self) -> ArraySpec {
        ArraySpec {
            level: self.spec.level.clone().unwrap_or_default(),
            strip_bytes: self.spec.strip_bytes,
            spans: self.spec.spans,
            drives: self.spec.drives.clone(),
        }
    }

    /// Serves the array that an interrupted run made, and no other: the drives may carry a later one.
    fn find_array(&mut self, uuid: &str) -> Result<(), String> {
        if let Some(spec) = self.spec.md_spec() {
            return self.use_md(Md::open(Path::new("mdadm"), spec, &self.sockets, Some(uuid))?);
        }
        let array = Array::serve(&self.program, self.array_spec(), &self.sockets)?;
        let found = array.status()?["uuid"].as_str().unwrap_or_default().to_owned();
        if found != uuid {
            array.stop()?;
            return Err(format!("the drives carry the array {found} instead of {uuid}"));
        }
        self.use_array(array)
    }

    /// Makes the target's array on empty image files, or over what is on the drives.
    fn remake_array(&mut self) -> Result<(), String> {
        let locked = image_files(&self.spec.drives)?;
        if self.spec.made {
            self.spec.drives.iter().try_for_each(|drive| purge::recreate(drive))?;
        }
        // Its server takes the locks.
        drop(locked);
        self.make_array()
    }

    /// Where the target is an array that is made for the run.
    fn make_array(&mut self) -> Result<(), String> {
        let (name, kind) = (self.spec.name.clone(), self.spec.kind);
        if matches!(kind, TargetKind::Array | TargetKind::Md) {
            own::forget_array(&self.sockets)?;
        }
        let uuid = if let Some(spec) = self.spec.md_spec() {
            let md = Md::open(Path::new("mdadm"), spec, &self.sockets, None)?;
            let uuid = md.uuid();
            self.use_md(md)?;
            uuid
        } else if kind == TargetKind::Array {
            let array = Array::create(&self.program, self.array_spec(), &self.sockets, self.spec.made)?;
            let uuid = array.status()?["uuid"].as_str().map(str::to_owned);
            self.use_array(array)?;
            uuid
        } else {
            None
        };
        uuid.map_or(Ok(()), |uuid| own::keep_array(&self.sockets, &name, &uuid))
    }

    fn use_md(&mut self, md: Md) -> Result<(), String> {
        self.info.size_bytes = state::size_of(md.device())?;
        self.places = vec![Place::Path(md.device().into())];
        self.md = Some(md);
        Ok(())
    }

    fn use_array(&mut self, array: Array) -> Result<(), String> {
        let status = array.status()?;
        self.info.size_bytes = status["size_bytes"].as_u64().ok_or("status of the array tells no size")?;
        self.info.strip_bytes = status["strip_bytes"].as_u64();
        self.places = vec![Place::Nbd(array.uri().into())];
        self.array = Some(array);
        Ok(())
    }

    /// Drives of this machine that can be watched: the target itself, or what is below it.
    pub fn drives(&self) -> Vec<PathBuf> {
        match self.spec.kind {
            _ if self.site == Site::Hosts => Vec::new(),
            TargetKind::Nbd => Vec::new(),
            TargetKind::File | TargetKind::Block => vec![self.spec.place.clone().into()],
            TargetKind::Array | TargetKind::Md | TargetKind::Members => self.spec.drives.clone(),
            TargetKind::Model => Vec::new(),
        }
    }

    /// Restores it to the fresh state. An array is stopped, its drives are purged, and it is made again. `overwrite` fills a
    /// place with zeros. Returns the methods, one for each kind that was needed, and the failed attempts.
    ///
    /// # Errors
    /// When it cannot be done by any way.
    pub fn purge(&mut self, overwrite: &mut dyn FnMut(&Place) -> Result<(), String>) -> Result<purge::Purged, String> {
        self.unmake()?;
        let mut all = purge::Purged::default();
        if let TargetKind::Nbd = self.spec.kind {
            overwrite(&self.places[0])?;
            return Ok(purge::Purged { by: "overwrite with zeros".into(), tried: vec!["NBD has no purge".into()] });
        }
        // Between two servers of the array, no other program may take the files.
        let locked = if self.spec.kind == TargetKind::Array { image_files(&self.spec.drives)? } else { Vec::new() };
        for drive in self.drives() {
            let is_file = fs::metadata(&drive).is_ok_and(|metadata| metadata.is_file());
            let purged = match is_file {
                true => purge::recreate(&drive).map(|()| purge::Purged { by: "new empty file".into(), tried: vec![] })?,
                false => purge::block_device(&drive, &mut || overwrite(&Place::Path(drive.clone())))?,
            };
            if !all.by.split(", ").any(|by| by == purged.by) {
                all.by = [all.by.as_str(), &purged.by].into_iter().filter(|by| !by.is_empty()).collect::<Vec<_>>().join(", ");
            }
            all.tried.extend(purged.tried);
        }
        drop(locked);
        self.make_array()?;
        Ok(all)
    }

    fn unmake(&mut self) -> Result<(), String> {
        self.array.take().map_or(Ok(()), Array::stop)?;
        let Some(md) = self.md.take() else { return Ok(()) };
        // Without its superblocks it cannot be assembled again.
        own::forget_array(&self.sockets)?;
        md.unmake()
    }

    /// Ends an array that was made for the run.
    ///
    /// # Errors
    /// It does not end cleanly.
    pub fn close(mut self) -> Result<(), String> {
        self.unmake()
    }
}
