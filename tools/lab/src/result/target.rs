//! The measured target, and the drives below it.

use serde::{Deserialize, Serialize};

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A file in a file system.
    File,
    /// A block device: drive, partition, md, VROC, hardware RAID, loop.
    Block,
    /// Anything behind an NBD URI.
    Nbd,
    /// A Stria array, made for the run and served over NBD.
    Array,
    /// A Linux md array, made for the run by mdadm.
    Md,
    /// Several bare drives at once, each with its own threads: the upper bound for an array of them.
    Members,
    /// A modelled drive, array, or drives without one, in virtual time.
    Model,
}

/// A target as it was found or made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// The name that [`super::Point::target`] uses: `raid5 x4 64K`, `/dev/nvme0n1`.
    pub name: String,
    /// As it was given: `file:/tmp/x.img`, `array:5:4`.
    pub spec: String,
    /// Its kind.
    pub kind: TargetKind,
    /// Bytes that clients see.
    pub size_bytes: u64,
    /// Bytes of it that the experiment uses.
    pub span_bytes: u64,
    /// Where they begin.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset_bytes: u64,
    /// `0`, `1`, `5`, `6`, `10`, `50`, `60`, `jbod`; also for arrays of others, if the user said so.
    pub level: Option<String>,
    /// Members, where it is an array or several drives.
    pub members: Option<u32>,
    /// Strip of an array.
    pub strip_bytes: Option<u64>,
    /// Spans of a 50 or 60.
    pub spans: Option<u32>,
    /// The user's description of the platform: `C226 chipset`, `VROC`, `LSI 9460`.
    pub platform: String,
    /// The drives below, as they were before the run.
    pub drives: Vec<DriveInfo>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// A drive's report about itself. Fields that it does not report are absent or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveInfo {
    /// How it was addressed.
    pub path: String,
    /// Model.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// `nvme`, `sata`, `loop`, `file` …
    pub transport: String,
    /// Size.
    pub size_bytes: u64,
    /// True for a hard disk.
    pub rotational: Option<bool>,
    /// Volatile write cache: `write back`, `write through`.
    pub write_cache: String,
    /// I/O scheduler.
    pub scheduler: String,
    /// Life used, in percent of what the maker allows.
    pub wear_percent: Option<f64>,
    /// Bytes that hosts wrote to it in its life.
    pub written_bytes: Option<u64>,
    /// Bytes that its flash wrote in its life, where it reports that: gives the drive's own write amplification.
    pub media_written_bytes: Option<u64>,
    /// Bytes that the maker allows to be written (TBW), where the user or experiment said so.
    pub rated_written_bytes: Option<u64>,
    /// Degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Media and data integrity errors so far.
    pub media_errors: Option<u64>,
    /// Where this was read: `smartctl`, `nvme`, `sysfs`, `file system`.
    pub source: String,
}

impl DriveInfo {
    /// This report, with what only an earlier report of the same drive or the user knew: a rating, or wear from before smartctl
    /// failed.
    #[must_use]
    pub fn or(&self, earlier: &Self) -> Self {
        let text = |now: &String, before: &String| if now.is_empty() { before.clone() } else { now.clone() };
        Self {
            path: self.path.clone(),
            model: text(&self.model, &earlier.model),
            serial: text(&self.serial, &earlier.serial),
            firmware: text(&self.firmware, &earlier.firmware),
            transport: text(&self.transport, &earlier.transport),
            size_bytes: if self.size_bytes > 0 { self.size_bytes } else { earlier.size_bytes },
            rotational: self.rotational.or(earlier.rotational),
            write_cache: text(&self.write_cache, &earlier.write_cache),
            scheduler: text(&self.scheduler, &earlier.scheduler),
            wear_percent: self.wear_percent.or(earlier.wear_percent),
            written_bytes: self.written_bytes.or(earlier.written_bytes),
            media_written_bytes: self.media_written_bytes.or(earlier.media_written_bytes),
            rated_written_bytes: self.rated_written_bytes.or(earlier.rated_written_bytes),
            temperature_c: self.temperature_c.or(earlier.temperature_c),
            media_errors: self.media_errors.or(earlier.media_errors),
            source: text(&self.source, &earlier.source),
        }
    }
}
