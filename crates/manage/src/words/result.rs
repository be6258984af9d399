//! The sentences of results: what an order has done.
//!
//! Commands make these texts in many places; [`crate::words::event::told`] reads them back.

use stria_sentence::sentences;

sentences! {
    /// A part of what an order has done, for programs: `code` stays the same when its words change.
    pub enum ResultSentence {
        // Arrays
        ArrayMade { array: String } => "array \"{array}\" is made",
        ArrayDestroyed { array: String } => "array \"{array}\" is destroyed",
        NoSuperblockAnyMore {} => "its drive has no superblock any more",
        NoSuperblocksAnyMore { drive_count: usize } => "its {drive_count} drives have no superblock any more",
        HeadStays { drive: String, reason: String } => "{drive}: its superblock is erased, and old metadata or data stay on the drive ({reason})",
        ServedUntilStopped { array: String } => "array \"{array}\" is no longer Stria's, and is served until it is stopped",
        ArrayReleased { array: String } => "array \"{array}\" is no longer Stria's",
        ArrayServedAlready { array: String } => "array \"{array}\" is served already",
        ArrayServedAt { array: String, addresses: String } => "array \"{array}\" is served at {addresses}",
        ArrayHasStopped { array: String } => "array \"{array}\" has stopped",
        ArrayRenamed { array: String, name: String, drive_count: usize } => "array \"{array}\" is called \"{name}\" now, on {drive_count} drives",
        MemberKeepsName { slot: usize, uuid: String, name: String } => "the member of slot {slot} keeps the old name, as it is not here: if it comes back before the array has run without it, repeat `stria rename {uuid} {name}`",
        MembersKeepName { slots: String, uuid: String, name: String } => "the members of slots {slots} keep the old name, as they are not here: if they come back before the array has run without them, repeat `stria rename {uuid} {name}`",

        // The configuration, and that of mdadm
        ConfigWasRead { array_count: usize, served_count: usize } => "the configuration was read: {array_count} arrays, {served_count} served",
        ConfigWasReadOne { served_count: usize } => "the configuration was read: 1 array, {served_count} served",
        ApiAppliesLater {} => "[api] applies when the daemon restarts, but for addresses over TCP that were not served yet",
        PartAppliesLater { part: String } => "{part} applies when the daemon restarts",
        ChangesApplyLater { array: String } => "what changed for array \"{array}\" applies when it is stopped and started",
        SetMakesItHold { array: String, switch: String } => "`stria set {array} --read-only {switch}` makes the configuration hold",
        StoredInConfig {} => "stored in the configuration",
        MdadmLeavesIt { file: String } => "{file} was changed, so that mdadm leaves the array alone",
        RunUpdateInitramfs {} => "run `update-initramfs -u`, as the boot image has a copy of it",
        RunDracut {} => "run `dracut --regenerate-all --force`, as the boot image may have a copy of it",
        LinuxRanIt { device: String } => "Linux ran it as {device}, which was stopped, as nothing used it",
        LinuxRunsIt { device: String, reason: String } => "Linux runs it as {device}, which was not stopped ({reason}): `mdadm --stop {device}`, then `stria reload` starts it here",

        // Drives
        DriveBlank {} => "1 drive carries nothing any more",
        DrivesBlank { drive_count: usize } => "{drive_count} drives carry nothing any more",
        DriveDiscarded {} => "1 drive was discarded and reads as zeros",
        DrivesDiscarded { drive_count: usize } => "{drive_count} drives were discarded and read as zeros",
        DriveFormatted {} => "1 drive was erased by NVMe's Format",
        DrivesFormatted { drive_count: usize } => "{drive_count} drives were erased by NVMe's Format",
        DriveSanitized {} => "1 drive was sanitized",
        DrivesSanitized { drive_count: usize } => "{drive_count} drives were sanitized",
        DriveIsSanitized { drive: String, percent: u8 } => "{drive}: {percent} % sanitized",
        DriveIsFailed { drive: String, array: String } => "{drive} was failed in \"{array}\"",
        DriveIsRemoved { drive: String, array: String } => "{drive} was removed from \"{array}\"",
        DriveReplaces { drive: String, old: String } => "{drive} is being rebuilt to replace {old}",
        DriveIsSpare { drive: String, array: String } => "{drive} joined \"{array}\" as a spare",
        DriveIsNewSpare { drive: String, array: String, reason: String } => "{drive} joined \"{array}\" as a new spare ({reason})",
        DriveIsBack { drive: String, slot: usize, array: String } => "{drive} is back in slot {slot} of \"{array}\"; what it missed is copied by the bitmap",
        DrivesLeftPool { drives: String } => "{drives} no longer in the pool of spares",
        DrivesInPool { drives: String } => "{drives} in the pool of spares",
        LightIsOn { drive: String } => "the light of {drive} is on",
        LightIsOff { drive: String } => "the light of {drive} is off",

        // Sweeps and settings
        ScrubBegan { array: String } => "scrub of \"{array}\" began",
        MismatchesAreRepaired {} => "mismatches are repaired",
        ScrubIsCancelled { array: String } => "scrub of \"{array}\" was cancelled",
        SweepIsHeld {} => "sweeps of the array are paused: it goes on when they are resumed",
        SpeedIsSet { array: String } => "speed bounds of \"{array}\" are set",
        SpeedIsNotStored { array: String, reason: String } => "speed bounds of \"{array}\" are set, but not on disk yet: a restart of the daemon loses them ({reason})",
        RangeTrimmed { length_bytes: u64, start_bytes: u64, array: String } => "{length_bytes} bytes at {start_bytes} of \"{array}\" were trimmed and read as zeros",
        ChangedInPause { array: String } => "array \"{array}\" was changed in a pause",
        ArrayChanged { array: String } => "array \"{array}\" was changed",
        NothingChanged { array: String } => "array \"{array}\" has these settings already: nothing was changed",
        WritesThrough { array: String } => "array \"{array}\" writes through: a power cut costs no write that was acknowledged",
        WritesSafe { array: String } => "array \"{array}\" writes back where safe: a power cut costs writes that were not flushed, as on a drive with a cache",
        WritesBack { array: String } => "array \"{array}\" writes BACK: A POWER CUT COSTS THE WRITES OF THE LAST SECONDS, FLUSHED OR NOT, and may damage file systems",
        CachesAreOn { drive_count: usize } => "the write caches of {drive_count} drives are on",
        CachesAreOff { drive_count: usize } => "the write caches of {drive_count} drives are off",

        // Firmware
        FirmwareAfterReset { drive: String, revision: String } => "the firmware of {drive} is stored, and runs after the next reset or power cycle; {revision} runs until then",
        FirmwareAfterPowerCycle { drive: String, revision: String } => "the firmware of {drive} is stored, and runs after the next power cycle, as the drive asks for a reset that needs one; {revision} runs until then",
        FirmwareRuns { drive: String, revision: String, before: String } => "{drive} runs firmware {revision} now, after {before}",
        FirmwareRunsStill { drive: String, revision: String } => "{drive} runs firmware {revision} now",
        FirmwareUnknown { drive: String, reason: String } => "it is unknown which firmware {drive} runs ({reason})",
        ControllerWasReset {} => "its controller was reset",
    }
}
