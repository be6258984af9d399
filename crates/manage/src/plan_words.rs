//! The sentences of plans: what happens, what is written, what is lost, and what should be known before.

use crate::settings::SettingsRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use stria_sentence::{Names, sentences};
use stria_terminal::size;

/// A size in bytes, in a text with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&size::show(self.0))
    }
}

/// `an SSD`, `a hard disk`, `an image file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// An SSD.
    Ssd,
    /// A hard disk.
    Hdd,
    /// An image file.
    File,
}

impl DriveKind {
    /// The kind that `GET /drives` names so.
    pub fn of(kind: &str) -> Self {
        match kind {
            "hdd" => Self::Hdd,
            "file" => Self::File,
            _ => Self::Ssd,
        }
    }
}

impl fmt::Display for DriveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssd => "an SSD",
            Self::Hdd => "a hard disk",
            Self::File => "an image file",
        })
    }
}

sentences! {
    /// A sentence of a plan, for programs: `code` stays the same when its words change.
    pub enum PlanSentence {
        // What happens.
        MakeArray { array: String, level: String, size_bytes: Size, drive_count: usize } => "Make array \"{array}\": RAID {level}, {size_bytes} of {drive_count} drives.",
        MakeArrayWithSpares { array: String, level: String, size_bytes: Size, drive_count: usize, spare_count: usize } => "Make array \"{array}\": RAID {level}, {size_bytes} of {drive_count} drives; spares: {spare_count}.",
        MakeArrayOfOne { array: String, level: String, size_bytes: Size } => "Make array \"{array}\": RAID {level}, {size_bytes} of 1 drive.",
        DestroyArray { array: String, drives: Names } => "Destroy array \"{array}\" on {drives}.",
        RemoveSignatures { drives: Names } => "Remove every signature from {drives}.",
        EraseDrives { drives: Names } => "Erase all data of {drives}.",
        AdoptArray { array: String } => "Array \"{array}\" belongs to Stria from now on, and starts.",
        ReleaseArray { array: String } => "Array \"{array}\" no longer belongs to Stria; its drives stay as they are.",
        StartArray { array: String } => "Start array \"{array}\".",
        StopArray { array: String } => "Stop array \"{array}\".",
        RenameArray { array: String, name: String } => "Call array \"{array}\" \"{name}\".",
        FailMember { drive: String, array: String } => "Drop {drive} from array \"{array}\" as if it had failed.",
        RemoveFailed { drive: String, array: String } => "Remove {drive} (failed) from array \"{array}\": it can be pulled afterwards.",
        RemoveSpare { drive: String, array: String } => "Remove {drive} (spare) from array \"{array}\": it can be pulled afterwards.",
        RemoveFile { drive: String, array: String } => "Remove {drive} from array \"{array}\": its file can be deleted afterwards.",
        AddDrive { drive: String, array: String } => "Add {drive} to array \"{array}\".",
        AddFormerMember { drive: String, array: String } => "Add {drive} to array \"{array}\". It was a member, and comes back: by the write-intent bitmap if that tells what it missed.",
        ReplaceMember { old: String, drive: String, array: String } => "Copy {old} to {drive}, which takes its place in array \"{array}\". Redundancy stays meanwhile.",
        UpdateFirmware { drive: String, array: String, revision: String } => "Update the firmware of {drive} in array \"{array}\"; {revision} runs now.",
        ScrubArray { array: String } => "Read all of array \"{array}\", compare redundancy, and count what does not match.",
        RepairArray { array: String } => "Read all of array \"{array}\", compare redundancy, and repair what does not match.",
        CancelScrub { array: String } => "Stop the scrub of array \"{array}\".",
        HoldSweeps { array: String } => "Hold resync, rebuild and scrub of array \"{array}\".",
        ResumeSweeps { array: String } => "Let resync, rebuild and scrub go on of array \"{array}\".",
        BoundSpeed { array: String } => "Bound the speed of resync, rebuild and scrub of array \"{array}\".",
        SetArray { array: String, settings: SettingsRequest } => "Set of array \"{array}\": {settings}.",
        ImportArray { array: String, name: String } => "Array \"{array}\" belongs to Stria from now on, as \"{name}\", and starts.",
        ImportArrayOf { array: String, host: String, name: String } => "Array \"{array}\" of {host} belongs to Stria from now on, as \"{name}\", and starts.",
        FillPool { drives: Names } => "Put {drives} into the pool of spares.",
        LeavePool { drives: Names } => "Take {drives} out of the pool of spares.",
        LightOn { drive: String } => "Switch the light of {drive} on.",
        LightOff { drive: String } => "Switch the light of {drive} off.",
        TrimRange { length_bytes: Size, start_bytes: Size, array: String } => "Trim {length_bytes} at {start_bytes} of array \"{array}\".",

        // What is written.
        WritesRebuild {} => "what it lacks, by the rebuild",
        WritesSpare {} => "all of it, by the rebuild: the spare takes a slot",
        WritesMissed {} => "what it missed, or, as a spare, all of it",
        WritesNewMember {} => "metadata of the array, then all of it by the rebuild",
        WritesNewSpare {} => "metadata of a spare",
        WritesCopy {} => "the content of the member that it replaces",
        WritesNewCopy {} => "metadata of the array, then the content of the member that it replaces",
        WritesRepair {} => "sectors that do not match, computed anew",
        WritesDiscards {} => "discards of its part of the range",
        WritesNewArray {} => "superblock, bitmap and write log, and zeros at the beginning and end of the data; a first resync may write all of it",
        WritesDestroy {} => "zeros over superblock, bitmap, write log and the first MiB of the data",
        WritesName {} => "the name in its superblock",
        WritesMetadata {} => "metadata of the array",
        WritesBlank {} => "zeros over its signatures, as a spare of the pool must be blank",
        WritesSignatures {} => "zeros over its signatures: superblocks, partition tables, file systems",
        WritesUnmap {} => "an unmap of every block, which then reads as zeros",
        WritesFormat {} => "an erasure of all data by NVMe's Format",
        WritesSanitize {} => "an erasure of all data by NVMe's Sanitize",
        WritesFirmware { size_bytes: Size, image: String } => "firmware of {size_bytes} from {image}; its data stays",

        // What is lost.
        LosesContent { drive: String, carries: Names } => "{drive} carries {carries}; that is lost",
        LosesDrive { drive: String } => "all data of {drive}",
        LosesArray { array: String } => "all data of array \"{array}\"",
        LosesRange { length_bytes: Size, start_bytes: Size, array: String } => "{length_bytes} at {start_bytes} of \"{array}\": it reads as zeros afterwards",
        LosesNewer {} => "the array starts although members that are missing may hold newer data: what only they hold is lost",
        LosesCarried { carries: Names } => "{carries}",
        LosesCopyVersion { sectors: u64 } => "one of two versions of {sectors} sectors whose copies differ: the first copy stays, and nothing tells whether it is the right one",
        LosesParityVersion { sectors: u64 } => "what the parity of {sectors} sectors says of the data: the data stays as it is, and nothing tells whether it is right",
        LosesOtherVersion {} => "what it holds of sectors that do not match, if another version of them is kept",
        LosesRangeContent {} => "what the range holds",

        // What should be known before.
        PoolMayFill {} => "a drive of the pool of spares may take the slot: all of it is written then",
        HardDiskBeside { drive: String, peer: DriveKind } => "{drive} is a hard disk beside {peer}: every write waits for the slower drive",
        FileBeside { drive: String, peer: DriveKind } => "{drive} is an image file beside a member that is {peer}: it fails with the disk that it lies on, and shares its speed with others",
        SsdBeside { drive: String, peer: DriveKind } => "{drive} is an SSD beside a member that is {peer}: the array stays as slow as that member",
        LargerThanMembers { drive: String, size_bytes: Size, largest_bytes: Size } => "{drive} has {size_bytes}, and the largest member {largest_bytes}: what is more stays unused",
        LeavesSignaturesOnly {} => "The superblocks, partition tables and file system signatures are erased. All other data stays on the drive and may be readable: this is not a secure erasure.",
        DiscardMayKeep {} => "All data is lost. The drive may keep it for a while where no host can read it: this is not a secure erasure.",
        FormatTakesHours {} => "All data is lost, for good. It may take hours, and cannot be interrupted.",
        SanitizeTakesHours {} => "All data is lost, for good, spare blocks included. It may take hours; the drive continues after a loss of power.",
        MdadmLeavesAlone {} => "mdadm leaves the array alone from now on, on this machine.",
        StartsWithout { array: String, slots: Slots } => "\"{array}\" starts without slot {slots}: `add` brings back a drive that comes later, by the bitmap or by a full rebuild",
        OneClientLosesDisk { clients: Names } => "1 client uses it and loses its disk: {clients}",
        ClientsLoseDisk { client_count: usize, clients: Names } => "{client_count} clients use it and lose their disk: {clients}",
        SpareLess {} => "the array has a spare less, so the next failure may find none",
        RepairMayErrOneParity {} => "the array has one parity: a scrub finds mismatches but cannot name the wrong member, so a repair may keep the wrong data",
        RepairMayErrTwoCopies {} => "the array has two copies: a scrub finds mismatches but cannot name the wrong member, so a repair may keep the wrong data",
        TakenSpareStays {} => "A drive that an array has taken stays in that array.",
        FileSystemsTrim {} => "a mounted file system trims its free space itself, by fstrim",
        SmallestCounts { least_bytes: Size, most_bytes: Size } => "the drives have {least_bytes} to {most_bytes}: each is used only up to the size of the smallest",
        NoRedundancy {} => "the level has no redundancy: the loss of any drive loses data",
        DriveStays { reason: String } => "a drive stays as it is, and may be one of the array's: {reason}",
        StopsForMoment {} => "the array is stopped for a moment, changed, and started again; its block device and virtual machines wait",
        ClientsReconnect { clients: Names } => "it is in use by {clients}: clients that reconnect go on after it, others see errors",
        BackCosts {} => "With this policy flushes are answered before the drives have the data: a power cut loses the writes of the last seconds, flushed or not, and may damage file systems.",
        NoBitmapCosts {} => "without a write-intent bitmap a crash costs a resync of everything, and a member that was away a full rebuild",
        NoLogCosts {} => "without a write log a crash together with a lost drive can damage data that was not being written",
        NoChecksumsCost {} => "without checksums a drive that returns wrong bytes is not found until a scrub",
        StartsDegraded { missing_count: usize } => "it starts degraded: {missing_count} of its members are missing",
        AnyArrayMayTake {} => "Any array that lacks a member may take it from now on.",
        ReplaceInstead {} => "to exchange a drive that still works, replace it instead: redundancy stays meanwhile",
        ArrayBareAfterwards {} => "the array has no redundancy afterwards: ONE MORE FAILURE LOSES DATA",
        SpanBareAfterwards { span: String } => "span \"{span}\" has no redundancy afterwards: ONE MORE FAILURE LOSES DATA",
        ArraySurvivesAfterwards { failure_count: Failures } => "the array survives {failure_count} afterwards",
        SpanSurvivesAfterwards { span: String, failure_count: Failures } => "span \"{span}\" survives {failure_count} afterwards",
        FirmwareNow {} => "the member answers late once, while it activates the firmware; other members answer meanwhile",
        FirmwareReset {} => "the member leaves the array for its reset, and returns by the write-intent bitmap: one failure less is survived meanwhile",
        FirmwareLater {} => "the firmware runs after the next reset or power cycle",
        FirmwareMayBreak {} => "a wrong image may make the drive unusable, and most drives take no older firmware back",
    }
}

/// Further failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Failures(pub usize);

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 1 { f.write_str("1 more failure") } else { write!(f, "{} more failures", self.0) }
    }
}

/// Slots of an array, in a text with "and" between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Slots(pub Vec<usize>);

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(usize::to_string).collect::<Vec<_>>().join(" and "))
    }
}
