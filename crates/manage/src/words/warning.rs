//! The sentences of warnings: about an array that starts or stops, and about the work of the service and the daemon.
//!
//! Some of their texts are made in crates that know no codes; [`crate::words::event::told`] reads those back.

use crate::words::error::{Cause, ErrorSentence};
use crate::words::warning_values::{Lacking, Left, Records, Updates};
use stria_sentence::sentences;

sentences! {
    /// A warning, or an event of the daemon's work, for programs: `code` stays the same when its words change.
    pub enum WarningSentence {
        // The start of an array
        StartsWithoutSpare { array: String, lacking: Lacking, left: Left } => "DEGRADED: array \"{array}\" starts with {lacking}: {left}; no spare: bring the missing drive back, or `add` another",
        StartsWithSpare { array: String, lacking: Lacking, left: Left } => "DEGRADED: array \"{array}\" starts with {lacking}: {left}; a spare takes over",
        StartsWithSpares { array: String, lacking: Lacking, left: Left, spare_count: usize } => "DEGRADED: array \"{array}\" starts with {lacking}: {left}; {spare_count} spares wait",
        StartsFilling { array: String, lacking: Lacking, left: Left } => "DEGRADED: array \"{array}\" starts with {lacking}: {left}; the rebuild goes on",
        LogReplayed { array: String, records: Records } => "array \"{array}\" was not stopped cleanly: {records} replayed",
        LogReplayedMarked { array: String, records: Records } => "array \"{array}\" was not stopped cleanly: {records} replayed, and regions marked in its bitmap are resynced",
        LogReplayedResync { array: String, records: Records } => "array \"{array}\" was not stopped cleanly: {records} replayed, and it is resynced",
        StartedDirty { reason: String, cause: Cause<ErrorSentence> } => "started degraded although not stopped cleanly, and {reason}{cause}: what a missing member held may be wrong, also data that was not being written",
        MemberUsedTorn { drive: String, slot: usize, updates: Updates } => "{drive} was used in slot {slot} although it {updates}: it kept its slot, so only writes that were in flight may be torn",
        MemberUsedLossy { drive: String, slot: usize, updates: Updates } => "{drive} was used in slot {slot} although it {updates}: data that was written meanwhile is lost",
        BitmapMadeAnew {} => "no member had a readable write-intent bitmap: it was made anew, with every bit set",
        LogIsForeign { excess: String } => "its write log holds more than any run leaves ({excess}), so other software wrote it; started without it, and writes that were in flight when the array stopped may be torn",
        LogUnreadable { drive: String, reason: String } => "the write log of {drive} cannot be read ({reason}): writes that were acknowledged and not flushed are gone where no other log has them; see `stria health`, and replace the drive if it has more such sectors",
        MetadataHoles { reason: String } => "{reason}; its metadata have holes, so writes fail with \"no space\" until there is space",
        LacksChecksums { drives: String } => "{drives}: no checksums, as another program added it; for checksums, `stria fail`, `stria remove` and `stria add` one drive after the other",
        SpansMarked { array: String } => "the spans of \"{array}\" are marked now: it starts without --nested from now on",
        ChecksumsVoid { drive: String } => "Linux wrote to {drive}: its checksums are void, and are learned again as it is read; `stria scrub` reads everything",
        ChecksumsForgotten { drive: String } => "{drive}: its checksums are forgotten as asked, and are learned again as it is read",
        ChecksumsLost { drive: String, reason: String } => "{drive}: {reason}; they are learned again as it is read",
        NoPolledCompletion { drive: String } => "{drive} offers no polled completion: its requests end by interrupts",
        ThroughBlockLayer { drive: String, reason: String } => "{drive} is reached through the block layer, as a second io_uring cannot be set up: {reason}",
        FewerLanes { array: String, wanted_count: usize, lane_count: usize } => "array \"{array}\" was to run on {wanted_count} lanes and runs on {lane_count}: arrays with checksums or md's partial parity log have one, others as many as their write log has space for",
        StartsWithoutDrive { reason: String, cause: Cause<ErrorSentence>, array: String } => "{reason}{cause}; array \"{array}\" starts without this drive if it can",
        StaysOutBehind { drive: String, slot_text: String, updates: Updates, array: String } => "{drive} (slot {slot_text}) {updates} of \"{array}\" and stays out; `stria add` brings it back",
        StaysOutFailed { drive: String, array: String } => "{drive} was failed in \"{array}\" and stays out",
        StaysOutBecause { drive: String, array: String, reason: String, cause: Cause<ErrorSentence> } => "{drive} stays out of \"{array}\": {reason}{cause}",
        BlockTakenOver { device: String } => "{device}, which a dead server left, is served again; its requests go on",
        SpeedDoesNotApply { array: String, reason: String, cause: Cause<ErrorSentence> } => "the bounds on speed that \"{array}\" had do not apply: {reason}{cause}; `stria speed {array}` sets new ones",
        DiskOfMachine { array: String, socket: String } => "array \"{array}\" is the disk of a virtual machine at {socket}",
        DisksWaitForGroup { array: String, sockets: String, group: String } => "array \"{array}\" is served without its disks for virtual machines ({sockets}): the name service of this machine has not found group \"{group}\" yet. They follow when it answers; a group's number needs no answer",
        DisksWithoutGroup { array: String, reason: String, cause: Cause<ErrorSentence> } => "array \"{array}\" is served without its disks for virtual machines: {reason}{cause}; correct vhost-user-group, then `stria stop {array}` and `stria start {array}`",

        // Its stop
        StopGoesWithout { drive: String, seconds: u64 } => "{drive} has not answered for {seconds} s, and the array stops without it: it counts as failed; `add` brings it back",
        StopWaits { drive: String, seconds: u64, most_seconds: u64 } => "the stop waits for {drive}, which has not answered for {seconds} s; it goes on without it after {most_seconds} s",
        StopOfReadOnly { drive: String, seconds: u64 } => "{drive} has not answered for {seconds} s, and the array stops without waiting for it: the array is read-only, so nothing is lost",
        BlockStays { device: String, users: String, number: String } => "{device} is in use ({users}), so it was not removed: its requests wait until `stria serve --ublk` serves the array again; `stria ublk remove {number}` removes it, and they fail",
        WorkHasNotEnded { seconds: u64 } => "what the daemon was doing has not ended for {seconds} s: the arrays are stopped now",

        // The drives' own write caches
        CacheOffAgain { drive: String } => "the write cache of {drive} was on, as after a reset of its controller: it is off again, as set",
        CacheOnAgain { drive: String } => "the write cache of {drive} was off, as after a reset of its controller: it is on again, as set",
        CacheStaysOn { drive: String, reason: String, cause: Cause<ErrorSentence> } => "the write cache of {drive} is on, though off is set, and cannot be switched: {reason}{cause}",
        CacheStaysOff { drive: String, reason: String, cause: Cause<ErrorSentence> } => "the write cache of {drive} is off, though on is set, and cannot be switched: {reason}{cause}",
        CacheNotOn { array: String, drive: String, reason: String } => "array \"{array}\" is set to drive caches on, which {drive} does not follow: {reason}",
        CacheNotOff { array: String, drive: String, reason: String } => "array \"{array}\" is set to drive caches off, which {drive} does not follow: {reason}",

        // Work by schedule
        ScrubPauses { array: String, percent: u64 } => "the scrub of \"{array}\" pauses at {percent} %: the quiet hours are over, and it goes on in the next",
        ScrubWaits { array: String, reason: String, cause: Cause<ErrorSentence> } => "the scrub of \"{array}\" by schedule waits: {reason}{cause}",
        ScrubBegins { array: String, due: String } => "the scrub of \"{array}\" that was due at {due} begins",
        LongTestPassed { drive: String } => "{drive}: the long self-test passed",
        ShortTestPassed { drive: String } => "{drive}: the short self-test passed",
        LongTestFailed { drive: String } => "{drive}: the long self-test FAILED: the drive found a fault of its own; replace it",
        ShortTestFailed { drive: String } => "{drive}: the short self-test FAILED: the drive found a fault of its own; replace it",
        LongTestAsleep { drive: String } => "{drive}: the long self-test ended without a result: the drive sleeps",
        ShortTestAsleep { drive: String } => "{drive}: the short self-test ended without a result: the drive sleeps",
        LongTestNoResult { drive: String } => "{drive}: the long self-test ended without a result",
        ShortTestNoResult { drive: String } => "{drive}: the short self-test ended without a result",
        LongTestUnknown { drive: String } => "{drive}: the long self-test has no known result, because the drive has not answered for an hour: check it and its cable",
        ShortTestUnknown { drive: String } => "{drive}: the short self-test has no known result, because the drive has not answered for an hour: check it and its cable",
        NoLongTest { reason: String } => "no long self-test: {reason}; the next one is that of the schedule",
        NoShortTest { reason: String } => "no short self-test: {reason}; the next one is that of the schedule",

        // The configuration
        BelongsNow { array: String, uuid: String } => "array \"{array}\" ({uuid}) belongs to Stria now",
        IsCalledNow { array: String, uuid: String, name: String } => "array \"{array}\" ({uuid}) is called \"{name}\" now",
        BelongsNoMore { array: String, uuid: String } => "array \"{array}\" ({uuid}) is no longer Stria's",
        InPoolNow { drive: String } => "{drive} is in the pool of spares now",
        InPoolNoMore { drive: String } => "{drive} is no longer in the pool of spares",
        NamedNoMore { uuid: String, drives: String } => "array or span {uuid} was served before, and the configuration does not name it any more, so it is not started: if that was not meant, restore the configuration, or `stria adopt` the array{drives}",
        NotesDamaged { file: String, reason: String, aside: String } => "{file} cannot be read ({reason}): the dates of routine work and the bounds on speed are lost, and begin anew; it is now {aside}",
        GroupIsThere { group: String, socket: String } => "group \"{group}\" is there now: its members may connect to {socket}",
        OfApi { reason: String } => "the API: {reason}",
    }
}

#[cfg(test)]
mod tests {
    use super::{Lacking, Left, Records, Updates, WarningSentence as Say};
    use crate::words::event::{EventSentence, told};

    #[test]
    fn a_warning_of_a_start_is_read_with_its_slots() {
        let lacking = |missing: &[usize], filling: &[usize]| Lacking { missing: missing.to_vec(), filling: filling.to_vec() };
        let array = || "tank".to_owned();
        for (said, text) in [
            (
                Say::StartsWithoutSpare { array: array(), lacking: lacking(&[1, 4], &[]), left: Left(0) },
                "DEGRADED: array \"tank\" starts with slots 1, 4 missing: the next failure may lose data; no spare: bring the missing \
                 drive back, or `add` another",
            ),
            (
                Say::StartsWithSpares { array: array(), lacking: lacking(&[1], &[2, 3]), left: Left(1), spare_count: 2 },
                "DEGRADED: array \"tank\" starts with slot 1 missing, slots 2, 3 not yet rebuilt: it survives 1 more failure; 2 spares wait",
            ),
            (
                Say::StartsFilling { array: array(), lacking: lacking(&[], &[0]), left: Left(2) },
                "DEGRADED: array \"tank\" starts with slot 0 not yet rebuilt: it survives 2 more failures; the rebuild goes on",
            ),
            (
                Say::LogReplayedMarked { array: array(), records: Records(1) },
                "array \"tank\" was not stopped cleanly: 1 record of its write log is replayed, and regions marked in its bitmap are resynced",
            ),
            (
                Say::MemberUsedTorn { drive: "/dev/a".into(), slot: 3, updates: Updates(7) },
                "/dev/a was used in slot 3 although it missed 7 superblock updates: it kept its slot, so only writes that were in flight may \
                 be torn",
            ),
        ] {
            assert_eq!(said.to_string(), text);
            assert_eq!(told(text), Some(vec![EventSentence::Warning(said)]));
        }
    }

    /// A text that changes in its source and not here would lose its translation.
    #[test]
    fn the_warnings_are_those_that_their_sources_give() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let files = [
            "../../format/src/md/assemble/warning.rs",
            "../../host/src/lacking.rs",
            "../../host/src/open.rs",
            "../../host/src/marks.rs",
            "../../host/src/checked.rs",
            "../../host/src/choose.rs",
            "../../host/src/lanes.rs",
            "../../drive/src/file_drive.rs",
            "service.rs",
            "service/caches.rs",
            "service/commands.rs",
            "service/settings.rs",
            "keeper.rs",
            "routine.rs",
            "ledger.rs",
            "daemon.rs",
            "daemon/groups.rs",
            "rest/server.rs",
        ];
        let sources: String = files.iter().map(|file| std::fs::read_to_string(folder.join(file)).expect("a source")).collect();
        let sources = sources.replace('\\', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        // Their words stand in several literals, or here alone.
        let own = ["ScrubWaits", "SpeedDoesNotApply", "StartsWithoutDrive"];
        let is_made = |code: &str| code.starts_with("Cache") || code.contains("Test") || own.contains(&code);
        let mut lacking = Vec::new();
        for (code, english) in Say::TEXTS.iter().filter(|(code, _)| !is_made(code)) {
            let literals = english.split('{').map(|part| part.split_once('}').map_or(part, |(_, literal)| literal));
            let phrases = literals.flat_map(|literal| literal.split(['"', ',', ':', ';', '(', ')', '`'])).map(str::trim);
            lacking
                .extend(phrases.filter(|phrase| phrase.contains(' ') && !sources.contains(phrase)).map(|phrase| (code, phrase)));
        }
        assert_eq!(lacking, []);
    }
}
