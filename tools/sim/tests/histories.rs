//! A fixed number of random histories of every family: none may lose anything.

use stria_sim::campaign::{Plan, campaign};
use stria_sim::setup::FAMILIES;
use stria_sim::{Extras, Rules};

fn none_fails(families: &[&str], from: u64, count: u64, extras: Extras) {
    families.iter().for_each(|family| none_fails_of(Some(family), from, count, extras));
}

/// `family`: `None` for the one that each seed draws.
fn none_fails_of(family: Option<&str>, from: u64, count: u64, extras: Extras) {
    let plan = Plan { from, count, time_max: None, family: family.map(str::to_owned), jobs: 2, extras, rules: Rules::default() };
    let report = campaign(&plan, &|_| true);
    let level = family.map(|family| format!(" --level {family}")).unwrap_or_default();
    assert_eq!(report.failure, None, "stria sim --from SEED --count 1{level}{extras}");
    assert_eq!(report.histories, count);
}

#[test]
fn histories_with_rot_and_torn_metadata_lose_nothing() {
    none_fails(&FAMILIES, 1, 40, Extras { more_faults: true, ..Extras::default() });
}

#[test]
fn histories_of_every_family_lose_nothing() {
    none_fails(&FAMILIES, 1, 60, Extras::default());
}

#[test]
fn histories_with_a_partial_parity_log_lose_nothing() {
    none_fails(&["5", "50"], 1, 60, Extras { partial_parity: true, ..Extras::default() });
}

#[test]
fn histories_with_changes_of_metadata_and_policy_lose_nothing() {
    none_fails(&FAMILIES, 1, 30, Extras { changes: true, ..Extras::default() });
}

/// R40: a member has no space, also beside a missing one where the level survives two.
#[test]
fn histories_with_members_without_space_lose_nothing() {
    none_fails(&FAMILIES, 1, 60, Extras { full: true, ..Extras::NONE });
    none_fails(&FAMILIES, 1, 20, Extras { full: true, ..MORE_AND_CHANGES });
}

/// R16: nothing waits for a member that has lost its slot.
#[test]
fn histories_with_drives_that_hang_beside_rebuilds_lose_nothing() {
    none_fails(&FAMILIES, 1, 20, Extras { hangs: true, ..Extras::default() });
    none_fails(&FAMILIES, 1, 10, Extras { hangs: true, ..MORE_AND_CHANGES });
}

/// Rows without space are decided anew after each wait, as a member may hang or a replacement take its slot meanwhile (R64).
#[test]
fn histories_without_space_that_once_failed_lose_nothing() {
    // A flush before a bad-block list took 200 s: the rows were then taken for lost, and would not have been filled.
    none_fails(&["1"], 153, 1, Extras { full: true, ..Extras::NONE });
    // The same as the rows were made consistent, with a member that hung.
    none_fails(&["5"], 71086, 1, Extras { full: true, ..Extras::NONE });
    // A replacement took its slot meanwhile, and was marked bad where it alone held the data.
    none_fails(&["1"], 1912, 1, Extras { full: true, ..Extras::NONE });
    // A rebuild ended while parity was undone, and its member kept bad blocks that nobody filled (R46).
    none_fails_of(None, 15706007164, 1, Extras { full: true, ..Extras::NONE });
    // A write without space left a record and no bits. Replay brought its data while its member was missing, and the member came
    // back by the bitmap without them (R2).
    none_fails_of(None, 15706021028, 1, Extras { full: true, ..Extras::NONE });
    // The checker's faults: a read beside a failed write ruled out what a later read had found, a write that was acknowledged
    // early lay before a drive that stalled while it lost its space, and a write error was forgotten once bad blocks were filled.
    for seed in [15706058519, 15706034890, 15706035648] {
        none_fails_of(None, seed, 1, Extras { full: true, ..Extras::NONE });
    }
}

/// The same write arrives twice, with a restart in between: ublk's driver gives the requests of a dead server to the next one.
/// Requests that were already done, logged or acknowledged early then arrive again, and once more if that server dies too.
#[test]
fn requests_that_the_next_process_gets_again_lose_nothing() {
    let mut repeated = 0;
    for family in FAMILIES {
        for seed in 1..=40 {
            let history = stria_sim::History::draw(seed, Some(family)).with_repeats();
            let tally = stria_sim::run(&history, Rules::default());
            let tally = tally.unwrap_or_else(|failure| panic!("seed {seed} of RAID {family}, repeating: {failure:?}"));
            repeated += tally.met.get("request repeated to the next process").copied().unwrap_or(0);
        }
    }
    assert!(repeated > 500, "only {repeated} requests came twice");
}

/// Histories that once failed, by family, each with its cause.
const ONCE_FAILED: &[(&str, u64)] = &[
    // Data was written before the drop of a member was durable.
    ("6", 83),
    ("50", 30),
    ("6", 1203),
    // A degraded array forgot its write-intent bits.
    ("4", 587),
    ("60", 623),
    // The error of a removed member was lost.
    ("5", 307),
    // Log records of rebuilding members were not read.
    ("5", 1339),
    // A write skipped a replaced member before a superblock update said so.
    ("6", 432),
    // A returned member was rebuilt before its superblock marked it as incomplete.
    ("50", 167),
    // The atlas counted a rebuild as done before a superblock update said so.
    ("6", 1548),
    ("4", 1906),
    // Parity was corrected from a member that was not rebuilt yet.
    ("6", 21823),
    // A cache that joined a span later was never flushed.
    ("50", 2531),
    // No flush made durable the part of a failed write that the drive had taken (the drive model's fault).
    ("5", 23544),
    // A returned member logged a record before its log's head was written, so the record was not valid.
    ("4", 202103),
    ("60", 22045),
    // A superblock update named a log that one member had not begun yet.
    ("4", 211170),
    // A degraded read began before the replay wrote parity, and ended afterwards.
    ("4", 221946),
    // A replay recovered a complete strip from parity although only some sectors were unreadable.
    ("6", 231059),
    // A log begun after a kill voided the log records of writes that were still in caches, and then the power failed.
    ("5", 100039),
    ("4", 500075),
    ("5", 500741),
    ("5", 501391),
    ("6", 502077),
    ("6", 502299),
    // The array started without a drive. After another crash the drive returned without the content of its cache, and no
    // superblock said that it had been away.
    ("50", 611802),
    ("60", 610062),
    // A second replay, with one member fewer, gave the new bytes of a write whose old bytes had been read.
    ("60", 612899),
    // Acknowledged early by a log that is not valid after a crash: the log of a member that is being filled, ...
    ("5", 700498),
    ("5", 710255),
    ("5", 3005991),
    // ... of a member that no superblock calls in sync yet, ...
    ("6", 700549),
    ("4", 700602),
    // ... of an array whose first resync has not ended.
    ("50", 700844),
    ("60", 700409),
    // The member with the log record of an early acknowledgement was dropped during the replay of that record.
    ("5", 3009347),
    // The same if the process dies at the moment in which the drive leaves (the checker's fault).
    ("4", 10007893),
    // New logs were begun before all members had the last superblock update, and named none of the members without it.
    ("4", 900322),
    // Corrected sectors became unreadable again: the drive was dropped, which is right.
    ("6", 10_129_873),
    // The log's head of a dropped member overwrote the head of the new member on the same drive.
    ("5", 10_414_922),
    // A replay without a drive was cut short before a superblock said so, and the drive was present at the next replay.
    ("6", 20_015_166),
    // Replay waited for the superblock update that names missing members, which waited for replay because another drive was
    // dropped.
    ("60", 10_681_959),
    // A drive that was pulled twice forgot its first failed requests (the drive model's fault).
    ("60", 30_005_106),
    // The last member with a log record of a write was dropped. It returned after a crash, before a superblock said so, and its
    // cache had lost the record.
    ("60", 10_679_680),
    // A drive joined while writes of its last owner were in flight (the checker's fault).
    ("6", 40_001_477),
    ("4", 40_031_029),
    // A drive became another member, but got its earlier identity (the checker's fault).
    ("4", 81_006_228),
    // A replacement took the slot of a member that was dropped with log records that awaited replay: the start never ended.
    ("5", 990_048_751),
];

/// Seeds at which several lanes once failed.
const LANES: [(&str, u64); 28] = [
    // A lane received the slot of a spare before it knew that the slot was empty, and forgot it.
    ("1", 100_000_501),
    ("10", 100_000_447),
    // Read through a member that only another lane had dropped, where copies differ (the checker's fault).
    ("10", 100_001_384),
    // Copied by a lane's resync from a member that another had just dropped (the checker's fault).
    ("10", 160_003_204),
    // A lane waited until the others began new logs, and blocked the superblock update of the drop for which they waited.
    ("5", 100_000_362),
    // Acknowledged early when one lane was resynced, before the superblocks said so of all lanes.
    ("60", 100_000_012),
    // A superblock update was made for a member whose device had not joined yet.
    ("6", 100_001_505),
    // Another lane's update was written between the failure of a member's log head and the drop of that member.
    ("6", 101_004_208),
    // A copy of a member that another lane had dropped counted as rebuilt, and a resync was skipped.
    ("5", 110_004_159),
    // One lane: a member was dropped as the power failed, returned in sync, and was trusted before the end of the resync (the
    // checker's fault).
    ("5", 110_011_657),
    // One lane: a drive was pulled with the log record of an early acknowledgement, during an update that still counted it in
    // (the checker's fault).
    ("4", 150_015_317),
    // A drive that was refused after it had been prepared took a member's device number.
    ("6", 110_014_061),
    // A resync reported unreadable sectors: the only readable copy was replaced at that moment, and the other was pulled.
    ("1", 200_009_318),
    // The bitmap of a finished copy was ignored although a crash had left no other.
    ("10", 210_027_763),
    // One lane: a start cleared bits that a member still needed which had been away for longer.
    ("6", 220_023_715),
    // One lane: a member was dropped as a replay began, before a superblock said so. It returned after another crash without the
    // log record that was being replayed.
    ("6", 240_096_681),
    // One lane: a drive failed and returned in one superblock update, which a crash kept only from that drive.
    ("6", 250_003_027),
    // A client read the filled part of a member, while a resync read the same rows, together with rows not filled yet, from
    // another.
    ("1", 280_037_687),
    // One lane: the only holder of log records was failed on command during their replay, and returned after two crashes without
    // them.
    ("5", 300_080_373),
    // One lane: the return and the end of the rebuild of a member were in one update, of which a crash left the superblock
    // without the head of its log.
    ("6", 330_041_324),
    // The only holder of early acknowledgements was failed on command, without a wait for these writes.
    ("6", 340_039_465),
    // One lane: a client read the next copy while a resync overwrote it from the copy of a member that had just been failed.
    ("10", 430_065_704),
    // No log: the power failed before a superblock said that a member with unreadable sectors was replaced (the atlas's fault).
    ("6", 450_005_972),
    // Another member was lost in a power cut before a superblock said that its copy had taken the slot (the atlas's fault).
    ("1", 470_016_342),
    // Another lane appended to the log of a returned member before it knew the position of that log.
    ("5", 120_000_013),
    // A degraded array was killed in a large write, and its resync did not change the second parity because a data strip was
    // missing.
    ("6", 600_000_262),
    // A kill left copies different. The first was read, and then lost before a resync had copied it to the next.
    ("1", 600_000_853),
    ("10", 600_000_646),
];

/// Seeds that run with the present steps, except drives that leave.
const AS_DRAWN: [(&str, u64); 11] = [
    // Members that joined later seemed to name an old member that was still connected, because its number now belonged to another
    // one. The array did not start.
    ("6", 5_327),
    ("5", 4_146),
    // A replaced member returned beside an unknown newer one, after a crash tore the superblock update; the array did not start.
    ("5", 602_006_025),
    // The same with only the newest member left, and one whose device number another member had received.
    ("1", 630_001_445),
    ("1", 630_001_759),
    // A degraded write read from a member that was replaced at that moment, treated the strip as unreadable, and failed.
    ("6", 602_002_544),
    ("60", 602_005_424),
    ("5", 602_009_361),
    // A superblock was noted for a client's write that a crash prevented; the next write got the same number (the checker's
    // fault).
    ("5", 602_000_086),
    // A crash tore the superblock update that makes log records valid. They became valid only after a later start had completed
    // it.
    ("60", 710_011_465),
    // A write updated P and Q, which a crash had left inconsistent while a member was missing. Then another member was lost.
    ("60", 780_015_769),
];

/// Seeds below these bounds were kept when drives ended requests one by one, slow reads were not hedged, arrays had one lane, and
/// lanes were never paused.
const TOLD_AT_ONCE_FROM: u64 = 40_000_000;
const HEDGED_FROM: u64 = 60_000_000;
const LANES_FROM: u64 = 100_000_000;
const NAPS_FROM: u64 = 120_000_000;
/// Also, sweeps began with every start.
const LATE_SWEEPS_FROM: u64 = 601_000_000;

/// Also, no drive was cut short, and no drive outlived its process.
const LEAVING_FROM: u64 = 610_000_000;

fn drawn(seed: u64, family: Option<&str>) -> stria_sim::History {
    let draw = if seed < LEAVING_FROM { stria_sim::History::draw_first } else { stria_sim::History::draw };
    draw(seed, family)
}

fn as_kept(seed: u64, mut history: stria_sim::History) -> stria_sim::History {
    if seed < TOLD_AT_ONCE_FROM {
        history.setup.ends_every = 0;
    }
    history.setup.hedges &= seed >= HEDGED_FROM;
    if seed < LANES_FROM {
        history.setup.run_on(1);
    }
    history.setup.lanes_nap &= seed >= NAPS_FROM;
    history.setup.late_sweeps &= seed >= LATE_SWEEPS_FROM;
    history
}

#[test]
fn what_once_failed_stays_mended() {
    let kept = ONCE_FAILED.iter().chain(&LANES).map(|&(family, seed)| (family, seed, true));
    for (family, seed, as_then) in kept.chain(AS_DRAWN.map(|(family, seed)| (family, seed, false))) {
        let drawn = drawn(seed, Some(family));
        let history = if as_then { as_kept(seed, drawn) } else { drawn };
        let replay = format!("stria sim --from {seed} --count 1 --level {family}");
        stria_sim::run(&history, Rules::default()).unwrap_or_else(|failure| panic!("{replay}: {failure:?}"));
    }
}

/// Seeds that once failed on mirrors, by family, each with its bug.
const MIRRORS: &[(u64, Option<&str>)] = &[
    (203, Some("1")),         // a state and write-intent bits written at once, the older page last
    (244, None),              // acknowledged after a replacement, before a superblock update said so
    (507, Some("1")),         // a read that a drop of its member overtook (the checker's fault)
    (783, Some("10")),        // a resync that copied from a member dropped meanwhile
    (1042, Some("1")),        // an unreadable sector that took its neighbours with it
    (40_023_651, Some("10")), // a fill from a copy that was dropped before a resync
    (114, Some("10")),        // in sync in memory, before a superblock update said so
    (1678, Some("10")),       // a device number given twice
    (2090, Some("1")),        // a superblock called a returned member in sync
    (5787, Some("1")),        // a read that failed, and its sector written before the retry
    (6001, Some("1")),        // a pulled drive that had not been used since (the checker's fault)
    (6496, Some("1")),        // an update whose member was removed never ended
    (1743, Some("10")),       // the same
    (2866, Some("10")),       // a superblock called another member in sync
    (6410, Some("1")),        // a rebuild by bits that a torn update's stale bitmap had lost
    (5843, Some("10")),       // the same
    (16923, Some("1")),       // a source dropped while its data was written to the new member
    (35095, Some("1")),       // a read that a drop of its member and a resync overtook (the checker's fault)
    (29180, Some("10")),      // a read of several members, one of them dropped meanwhile (the checker's fault)
    (6859, Some("10")),       // a torn update on a lost member only, against the others'
    (101394, Some("10")),     // the same, which then counted as one of theirs
    (20002982, Some("1")),    // data ruled out by a read counted as overwritten (the checker's fault)
    (10335253, Some("10")),   // a drive back before the update that drops it, itself with a torn one
    (980009799, Some("1")),   // two writes of equal superblocks by clients treated as different (the checker's fault)
    (10537213, Some("10")),   // a flush before the end of a resync counted for its writes, too (the checker's fault)
];

#[test]
fn histories_that_once_failed_on_mirrors_lose_nothing() {
    for &(seed, family) in MIRRORS {
        let history = as_kept(seed, drawn(seed, family));
        let run = stria_sim::run(&history, Rules::default());
        assert_eq!(run.err(), None, "stria sim --from {seed} --count 1, family {family:?}");
    }
}

/// Seeds that once failed with more faults, by family, each with its bug; most were faults of the checker or the drive model.
const MORE_FAULTS: &[(u64, &str)] = &[
    (5002528, "1"),   // a copy that was read became unreadable, by growth, before a resync had copied it to the others
    (5002989, "1"),   // a drive without its superblock joined anew, and its pending write error was forgotten
    (6000240, "6"),   // the same
    (6000150, "6"),   // a drive returned, and the growth of its unreadable sectors was forgotten
    (6000182, "10"),  // a scrub must not correct a misdirected write where no copy covers it
    (773000702, "6"), // a power cut while a spare was erased: a client's superblock counted instead of its own
    (961502865, "6"), // replay waited in vain, since no member held the records of some rows (R30): the array's fault
    (961402225, "6"), // a resync rewrote an unreadable sector again and again, until the stack overflowed: the array's fault
    (970001428, "6"), // a write-behind whose only log holder was replaced waited for ever (R53): the array's fault
    (6000272, "1"),   // unreadable sectors were counted twice each time, until memory was full
];

#[test]
fn histories_that_once_failed_with_more_faults_lose_nothing() {
    for &(seed, family) in MORE_FAULTS {
        let history = as_kept(seed, drawn(seed, Some(family)).with_more_faults());
        let run = stria_sim::run(&history, Rules::default());
        assert_eq!(run.err(), None, "stria sim --from {seed} --count 1 --level {family} --more-faults");
    }
}

const FULL: Extras = Extras { full: true, ..Extras::NONE };
const MORE: Extras = Extras { more_faults: true, ..Extras::NONE };
const MORE_AND_CHANGES: Extras = Extras { changes: true, ..MORE };
const PARTIAL_PARITY: Extras = Extras { partial_parity: true, ..Extras::NONE };

/// Seeds that once failed with the present extras, each with its bug.
const WITH_EXTRAS: &[(u64, Option<&str>, Extras)] = &[
    // One member alone knew the session that voids the records, clients read by it, and the next start had lost that member (R31):
    // the array's fault.
    (15704083303, None, Extras::NONE),
    // With the policy *back* no flush is awaited, and a write-behind reached its drives while a scrub ran (the checker's fault).
    (1200043949, Some("5"), MORE_AND_CHANGES),
    (1200044001, Some("6"), MORE_AND_CHANGES),
    // A change of settings stops and starts the array; that start finished a replacement (the checker's fault).
    (1200048827, Some("10"), MORE_AND_CHANGES),
    (1200047403, Some("1"), Extras { repeats: true, ..MORE_AND_CHANGES }),
    // Two torn updates with equal events counted each other's members, and the array did not start (R55): the array's fault.
    (961300116, Some("6"), MORE),
    // A drive returned with a torn update that drops another member, which had been in sync meanwhile (the checker's fault).
    (1400000231, Some("60"), MORE),
    // A held drive that was found again had forgotten the write error that it still had (the checker's fault).
    (980071123, Some("60"), Extras { more_faults: false, ..MORE }),
    // A misdirected write lay in rows that the rest of the same write read, and parity followed it (the checker's fault).
    (985001874, Some("6"), MORE_AND_CHANGES),
    // A start wrote rows without a member that came back as if nothing had been, with old parity; the resync that was due did not
    // show (R35).
    (985005871, Some("6"), MORE_AND_CHANGES),
    // Unreadable sectors reached as far as they could grow; a write into their middle let those before it grow again (the
    // checker's fault).
    (9100097062, None, MORE),
    // A stop's last update dropped a member, and the power cut kept it from another, which a change of metadata then left two
    // behind (R60).
    (9300064633, None, Extras { more_faults: false, ..MORE_AND_CHANGES }),
    // The only members that named a new bitmap were being filled (R61).
    (9908026627, None, MORE_AND_CHANGES),
    // The process died when a rebuilt member was full and not in sync yet. The rebuild that followed copied it onto itself, and
    // the resync that was due was left out (R51).
    (9200333753, None, Extras::NONE),
    // Lists of bad blocks waited for 200 s for a drive that hung, and the next rows without space of the same write counted as
    // lost (R68).
    (9300026643, None, FULL),
    // What a member under rebuild held was bad blocks after a write without space, although it held what the copy that counts
    // holds. It was in sync so for 2 s, and a copy was lost (R65).
    (9410004288, None, FULL),
    (9410005024, None, FULL),
    (9410012310, None, FULL),
    (9410020413, None, FULL),
    // The same; it was started again and again before these 2 s were over.
    (9410026110, None, FULL),
    // A member came back with bad blocks that no bit marked, and was in sync with them when another was lost (R67).
    (9410011686, None, FULL),
    // A member came in sync while its rows of a write without space were bad blocks, and held them alone once another copy was
    // pulled (R96). Found again at the steps of today by a mutant.
    (20700014454, None, FULL),
    (30100003133, Some("10"), FULL),
    // Two lanes let two members come in sync in opposite orders, and waited for each other (R96).
    (30000032736, Some("10"), FULL),
    // The checker: there was space again, and the member that had lacked it counted before a write that had met that was made
    // consistent.
    (21400000545, None, Extras { more_faults: true, hangs: true, ..FULL }),
    // The checker: a drive that had left before a start, was added again and pulled again, was found at the next start as if its
    // cache had lost nothing.
    (21300015135, None, PARTIAL_PARITY),
    // The drive model: a power cut lost the write that had healed a sector, and the drive read what the sector had held before.
    (21300021410, None, PARTIAL_PARITY),
    // The checker: copies of the drives could read a client's superblock that unreadable sectors had hidden when a drive joined.
    (21000008445, None, MORE_AND_CHANGES),
    // The checker: a write that the engine had abandoned on a dropped drive arrived during a scrub, and counted as the scrub's.
    (9422005638, None, MORE),
    // Two members were failed that hung. Other lanes heard of the second only once the superblocks said that the first was gone,
    // and that waited for their requests to the second (R42).
    (9424014091, None, Extras { hangs: true, ..Extras::NONE }),
    // A stop came before the start was durable, and ended without the requests that waited for that (R31).
    (12686801790, Some("1"), Extras { harsh: true, ..FULL }),
    // A lane that had stopped got the part of a write that another lane's client had sent, and superblocks did not say "clean".
    (12686800541, Some("10"), Extras { harsh: true, ..FULL }),
    // The drive model: a flush that had begun before another one failed succeeded.
    (12686801115, Some("10"), Extras { harsh: true, ..FULL }),
    // R80: RAID 6 took a log that the last start could not read for one that lacks what was replayed.
    (2339, Some("6"), Extras { harsh: true, ..FULL }),
    // The member failed before this run had written any superblock, and was refused (R78).
    (12688000144, Some("10"), Extras { harsh: true, ..FULL }),
    // The checker: a drive came back with bad blocks and counted as whole; a write that failed was forgotten because of one that
    // had begun before it; a read-only array had a drive whose next write failed; a stop waited for a drive that hung.
    (12689004081, None, Extras { more_faults: true, ..FULL }),
    (12689007000, None, Extras { more_faults: true, ..FULL }),
    (12689007055, None, Extras { more_faults: true, ..FULL }),
    (12688003892, Some("10"), Extras { harsh: true, ..FULL }),
    (577, Some("5"), Extras { harsh: true, ..Extras::NONE }),
    // The checker: a member failed by itself before a resync, and what had been read while the array was read-only changed (R36).
    (720248, Some("10"), Extras { more_faults: true, harsh: true, ..Extras::NONE }),
    // A rebuild filled a strip from P where a crash had left P and Q inconsistent. Another member was lost, a client read what P and
    // Q gave, and that changed when the filled member was in sync (R37).
    (15500374547, None, Extras::NONE),
    // The drive model: sectors that became unreadable grew, as others had long before, and the checker did not expect that.
    (800000000323, Some("6"), Extras { more_faults: true, hangs: true, ..Extras::NONE }),
    // The checker: a spare stalled, and took a slot during a stop, which waited for it.
    (710217, Some("5"), Extras { harsh: true, ..Extras::NONE }),
    // The checker knew a refusal by words that had changed.
    (700026, Some("50"), Extras { harsh: true, ..FULL }),
];

#[test]
fn histories_that_once_failed_with_extras_lose_nothing() {
    for &(seed, family, extras) in WITH_EXTRAS {
        let history = stria_sim::History::draw_with(seed, family, extras);
        let run = stria_sim::run(&history, Rules::default());
        let level = family.map_or(String::new(), |family| format!(" --level {family}"));
        assert_eq!(run.err(), None, "stria sim --from {seed} --count 1{level}{extras}");
    }
}

#[test]
fn histories_with_more_faults_and_changes_lose_nothing() {
    none_fails(&FAMILIES, 1, 30, MORE_AND_CHANGES);
}

/// `cargo test --release -p stria-sim --test histories -- --ignored`
#[test]
#[ignore = "some ten minutes"]
fn many_histories_of_every_family_lose_nothing() {
    none_fails(&FAMILIES, 1_000_000, 10_000, Extras::default());
}

#[test]
fn a_seed_runs_the_same_every_time() {
    let history = stria_sim::History::draw(11, None);
    let tallies = [0; 2].map(|_| stria_sim::run(&history, Rules::default()).expect("it loses nothing"));
    assert_eq!(tallies[0].requests, tallies[1].requests);
    assert_eq!(tallies[0].met, tallies[1].met);
}

/// Runs histories of RAID 5.
fn raid5(count: u64, rules: Rules) -> stria_sim::campaign::Report {
    let plan = Plan { from: 1, count, time_max: None, family: Some("5".into()), jobs: 2, extras: Extras::default(), rules };
    campaign(&plan, &|_| true)
}

#[test]
fn what_lies_about_flushes_cost_is_told_and_is_no_failure() {
    let report = raid5(100, Rules { lying_flush: true, ..Rules::default() });
    assert_eq!((report.histories, report.failure), (100, None));
    assert!(report.met.keys().any(|(_, what)| what.starts_with("lost: ")), "{:?}", report.met);
}

#[test]
fn requests_are_counted_by_the_states_and_faults_that_they_meet() {
    let report = raid5(60, Rules { cross: true, ..Rules::default() });
    let met = |key| report.crossed["5"].get(&key).copied().unwrap_or(0);
    assert!(met(("reconstruct-write", "whole", "power cut to come")) > 0, "{:?}", report.crossed);
    assert!(met(("read", "one missing", "none")) > 0, "{:?}", report.crossed);
}
