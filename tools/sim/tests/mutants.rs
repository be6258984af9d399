//! Deliberate bugs are found, each within a number of seeds.

use std::collections::BTreeMap;
use stria_array::{Flaw, Level};
use stria_sim::campaign::{first_failure, try_history};
use stria_sim::setup::Setup;
use stria_sim::{Extras, History, Mutant, Rules, Step};

const MORE_FAULTS: Extras = Extras { more_faults: true, ..Extras::NONE };
const REPEATS: Extras = Extras { repeats: true, ..Extras::NONE };
const PARTIAL_PARITY: Extras = Extras { partial_parity: true, ..Extras::NONE };
const CHANGES: Extras = Extras { changes: true, ..Extras::NONE };
const HANGS: Extras = Extras { hangs: true, ..Extras::NONE };
const FULL: Extras = Extras { full: true, ..Extras::NONE };
const HARSH: Extras = Extras { harsh: true, ..Extras::NONE };

fn is_found(mutant: Mutant, family: &str, seeds: u64) {
    is_found_with(Extras::default(), mutant, family, seeds);
}

fn is_found_with(extras: Extras, mutant: Mutant, family: &str, seeds: u64) {
    let rules = Rules { mutant: Some(mutant), ..Rules::default() };
    let found = first_failure(1..1 + seeds, Some(family), extras, rules);
    assert!(found.is_some(), "{mutant:?} lived through {seeds} histories of RAID {family}{extras}");
}

/// A seed that shows the need for a rule: its history loses data only without the rule.
fn is_found_at(extras: Extras, mutant: Mutant, family: &str, seed: u64) {
    let history = History::draw_with(seed, Some(family), extras);
    let run = |mutant| try_history(&history, Rules { mutant, ..Rules::default() });
    assert!(run(None).is_ok(), "the history is one that the array must survive");
    assert!(run(Some(mutant)).is_err(), "{mutant:?} lived through seed {seed} of RAID {family}{extras}");
}

/// Histories that the array must survive, of which one at least loses data without a rule. Random ones seldom come so far.
fn is_found_in(flaw: Flaw, histories: impl Iterator<Item = History>) {
    let run = |history: &History, mutant| try_history(history, Rules { mutant, ..Rules::default() });
    let mut found = false;
    for history in histories {
        run(&history, None).unwrap_or_else(|failure| panic!("fate {}: {failure:?}", history.seed));
        found |= run(&history, Some(Mutant::Engine(flaw))).is_err();
    }
    assert!(found, "{flaw:?} lived through every history");
}

#[test]
fn a_dropped_flush_is_found() {
    is_found(Mutant::FlushDropped, "5", 30);
}

#[test]
fn saying_clean_before_data_is_durable_is_found() {
    is_found(Mutant::OwnFlushDropped, "5", 10);
}

#[test]
fn a_forgotten_fua_is_found() {
    is_found(Mutant::DataFuaForgotten, "1", 20);
}

#[test]
fn a_record_acknowledged_before_it_is_durable_is_found() {
    is_found(Mutant::RecordFuaForgotten, "5", 300);
}

#[test]
fn lost_write_intent_and_log_are_found() {
    is_found(Mutant::IntentDropped, "5", 30);
}

#[test]
fn superblocks_that_are_not_written_are_found() {
    is_found(Mutant::SuperblockDropped, "1", 10);
}

#[test]
fn one_superblock_that_is_not_written_is_found() {
    is_found(Mutant::OneSuperblockDropped, "5", 10);
}

#[test]
fn a_stale_member_that_is_taken_as_it_is_is_found() {
    is_found(Mutant::Engine(Flaw::StaleAccepted), "1", 100);
}

#[test]
fn a_log_that_is_not_written_is_found_though_bits_are() {
    is_found(Mutant::LogDropped, "5", 50);
}

#[test]
fn wrong_partial_parity_in_the_log_is_found() {
    is_found(Mutant::PartialWrong, "5", 20);
}

#[test]
fn wrong_new_bytes_in_the_log_are_found() {
    is_found(Mutant::NewDataWrong, "5", 50);
}

#[test]
fn a_skipped_replay_is_found() {
    is_found(Mutant::ReplaySkipped, "5", 50);
}

#[test]
fn bits_that_are_cleared_early_are_found() {
    is_found(Mutant::IntentClearedEarly, "1", 20);
}

#[test]
fn a_write_acknowledged_before_a_dropped_member_is_recorded_is_found() {
    is_found(Mutant::DropRecordedLate, "1", 400);
}

#[test]
fn parities_exchanged_on_a_degraded_array_are_found() {
    is_found(Mutant::ParitySwapped, "6", 10);
}

#[test]
fn parts_of_the_log_that_other_lanes_never_write_are_found() {
    is_found(Mutant::LaneLogDropped, "5", 50);
}

#[test]
fn flushes_that_other_lanes_never_send_are_found() {
    is_found(Mutant::LaneFlushDropped, "5", 700);
}

#[test]
fn write_intent_that_other_lanes_never_tell_is_found() {
    is_found(Mutant::LaneIntentDropped, "1", 40);
}

#[test]
fn an_array_that_is_looked_for_where_clients_write_is_found() {
    is_found(Mutant::LooksInside, "5", 10);
    is_found(Mutant::LooksInside, "1", 10);
}

#[test]
fn reads_of_what_may_disagree_that_do_not_make_it_agree_are_found() {
    is_found(Mutant::Engine(Flaw::ReadsUnaligned), "1", 80);
    is_found(Mutant::Engine(Flaw::ReadsUnaligned), "10", 150);
}

#[test]
fn a_resync_that_leaves_the_parities_of_degraded_stripes_is_found() {
    is_found(Mutant::Engine(Flaw::DegradedParityLeft), "60", 900);
}

/// In random histories a failure, a return and a crash are rarely so close together, so this history is scripted (R11).
#[test]
fn a_return_before_the_drop_is_durable_is_found() {
    let write = |at, sectors, fua| Step::Write { at, sectors, fua };
    let mut history = History::draw(13_851, Some("6"));
    history.steps = vec![Step::Settle, write(69, 7, false), write(17, 18, false), Step::Drain, Step::Flush, Step::Drain];
    history.steps.extend([Step::Crash { after: 21, kill: false }, write(42, 11, false), Step::Fail(1)]);
    history.steps.extend([write(32, 15, true), write(183, 14, false), write(178, 5, true), Step::Return(0)]);
    history.steps.extend([write(74, 16, false), write(146, 11, true), Step::Drain, Step::Pause(5_000_000)]);
    let run = |mutant| try_history(&history, Rules { mutant, ..Rules::default() });
    assert!(run(None).is_ok(), "the history is one that the array must survive");
    assert!(run(Some(Mutant::Engine(Flaw::ReturnBeforeDrop))).is_err(), "a member came back before its drop was durable");
}

/// Random histories seldom find it, so this is the seed that once failed (R38).
#[test]
fn parity_that_may_be_inconsistent_and_is_updated_is_found() {
    is_found_at(Extras::default(), Mutant::Engine(Flaw::SuspectParityUpdated), "60", 780_015_769);
}

/// R19, R32.
#[test]
fn a_repair_before_the_partial_parity_log_has_begun_is_found() {
    is_found_with(PARTIAL_PARITY, Mutant::Engine(Flaw::RepairedBeforeLog), "5", 20);
}

#[test]
fn a_repeated_write_that_is_not_done_is_found() {
    is_found_with(REPEATS, Mutant::RepeatIgnored, "10", 20);
}

/// R30: the first of 4,000 seeds that shows it.
#[test]
fn a_replay_that_writes_before_missing_members_are_recorded_is_found() {
    is_found_at(MORE_FAULTS, Mutant::Engine(Flaw::ReplayedBeforeDrop), "6", 907);
}

/// R30: the superblock update that names the missing members waits for replay meanwhile. Seed 60:10681959 showed it first.
#[test]
fn a_replay_that_waits_for_records_that_no_member_holds_is_found() {
    is_found_at(Extras::default(), Mutant::Engine(Flaw::ReplayWaitsInVain), "60", 960_100_298);
}

/// R35. Seed 60:10679680 showed it first.
#[test]
fn a_degraded_array_that_is_not_resynced_after_replay_is_found() {
    is_found_at(Extras::default(), Mutant::Engine(Flaw::SuspectParityTrusted), "60", 960_200_447);
}

/// R92: an administrator unplugs the drive after the answer.
#[test]
fn a_fail_that_is_answered_before_it_is_durable_is_found() {
    is_found_at(Extras { more_faults: true, ..PARTIAL_PARITY }, Mutant::Engine(Flaw::FailAnsweredEarly), "5", 951_000_740);
}

/// R31: the first seed that shows it.
#[test]
fn clients_that_are_served_before_missing_members_are_recorded_are_found() {
    is_found_at(MORE_FAULTS, Mutant::Engine(Flaw::ServedBeforeDrop), "1", 82);
}

/// R31: old log records that become valid again make parity old.
#[test]
fn clients_that_are_served_before_replayed_records_are_void_are_found() {
    is_found_at(Extras::default(), Mutant::Engine(Flaw::ServedBeforeSession), "5", 961_000_074);
}

#[test]
fn short_reads_that_pass_for_unreadable_sectors_are_found() {
    is_found(Mutant::ShortReadsUnreadable, "5", 60);
}

#[test]
fn short_reads_that_pass_for_zeros_are_found() {
    is_found(Mutant::ShortReadsZeros, "5", 60);
}

#[test]
fn a_drive_that_is_opened_while_a_dead_process_holds_it_is_found() {
    is_found(Mutant::OpenedWhileHeld, "5", 300);
}

#[test]
fn a_superblock_that_counts_because_it_is_younger_is_found() {
    is_found(Mutant::YoungestTaken, "1", 30);
}

#[test]
fn metadata_that_are_changed_in_one_step_are_found() {
    is_found_with(CHANGES, Mutant::ChangedAtOnce, "5", 200);
}

/// R85: what lacked space was told to the client, and redundancy stayed as it was.
#[test]
fn redundancy_that_a_write_without_space_leaves_inconsistent_is_found() {
    for (family, seeds) in [("5", 40), ("6", 40)] {
        is_found_with(FULL, Mutant::Engine(Flaw::LackOfSpaceIgnored), family, seeds);
    }
}

/// R96: a list still named rows that were nowhere else, once another copy was pulled and the process killed. Seed 20700014454
/// showed it first.
#[test]
fn a_member_in_sync_with_bad_blocks_of_a_write_without_space_is_found() {
    is_found_at(FULL, Mutant::Engine(Flaw::InSyncBesideNoSpace), "10", 30_100_003_133);
}

/// R16: the engine of 24 November 2026. A request waited for the drive, and for ever if the drive never answered.
#[test]
fn requests_that_wait_for_a_member_whose_slot_a_replacement_has_are_found() {
    for (family, seeds) in [("1", 40), ("10", 40), ("5", 40), ("6", 40)] {
        is_found_with(HANGS, Mutant::Engine(Flaw::ReplacedKeepsRequests), family, seeds);
    }
    is_found_at(HANGS, Mutant::Engine(Flaw::ReplacedKeepsRequests), "5", 14);
}

/// R8.
#[test]
fn a_member_that_stays_after_a_failed_flush_is_found() {
    for (family, seeds) in [("5", 40), ("1", 100)] {
        is_found_with(HARSH, Mutant::Engine(Flaw::FailedFlushIgnored), family, seeds);
    }
}

/// R20.
#[test]
fn a_write_that_relies_on_strips_that_are_not_durable_is_found() {
    for family in ["5", "6"] {
        is_found(Mutant::Engine(Flaw::NeighboursNotFlushed), family, 40);
    }
}

/// R24.
#[test]
fn a_flush_that_does_not_wait_for_write_behinds_is_found() {
    is_found_with(HARSH, Mutant::Engine(Flaw::FlushBesideBehind), "6", 60);
}

/// R23: one of two lanes is through with the first resync an eighth of a second before the other. A write to its part is
/// acknowledged early, and the process dies. Logs count only after a resync that superblocks call complete.
#[test]
fn a_write_acknowledged_early_before_all_lanes_are_resynced_is_found() {
    let history = |seed: u64| {
        let mut setup = Setup::plain(Level::Raid5, Level::Raid5.default_layout(), 3, 1);
        setup.drives.iter_mut().for_each(|drive| drive.sectors += 8);
        setup.run_on(2);
        (setup.assume_clean, setup.late_sweeps, setup.lanes_nap) = (false, true, false);
        let write = |at| Step::Write { at, sectors: 2, fua: false };
        // The fourth stripe is the second lane's.
        let mut steps = vec![Step::Speed(64), Step::Hold(false), Step::Pause(1_755_000_000), write(50), Step::Drain];
        steps.extend([
            Step::Pause(1_000_000),
            Step::Crash { after: seed % 14, kill: true },
            write(51),
            Step::Drain,
            Step::Settle,
        ]);
        History { seed, setup, steps, depth: 4 }
    };
    is_found_in(Flaw::EarlyOnOneLane, (0..28).map(history));
}

/// R25: a write is acknowledged by its record on the parity member, and on its way to a slow drive. That member fails another
/// write, one superblock names it as failed, and the process dies. Its log does not count any more.
#[test]
fn a_drop_recorded_before_the_writes_that_its_log_holds_are_in_place_is_found() {
    let history = |seed: u64| {
        let mut setup = Setup::plain(Level::Raid4, Level::Raid4.default_layout(), 3, 1);
        setup.drives.iter_mut().for_each(|drive| drive.volatile_cache = false);
        setup.drives[0].slowness = 8;
        let write = |at, sectors| Step::Write { at, sectors, fua: false };
        let mut steps = vec![write(0, 96), Step::Drain, Step::Flush, Step::Drain, write(40, 2), Step::Drain, write(1, 2)];
        steps.extend([Step::Drain, Step::FailWrite(2), Step::Crash { after: seed % 24, kill: true }]);
        steps.extend([write(17, 2), write(33, 2), write(50, 1), Step::Drain]);
        History { seed, setup, steps, depth: 4 }
    };
    is_found_in(Flaw::DropBeforeBehind, (0..96).map(history));
}

fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_ascii_digit()).filter(|number| !number.is_empty())
}

/// The table in docs/SIM.md: the mutants that a test finds, each with the seeds that this test has. What stands below it names
/// the others.
#[test]
fn the_table_of_mutants_is_what_the_tests_find() {
    let page = include_str!("../../../docs/SIM.md");
    let tests = [include_str!("mutants.rs"), include_str!("beyond.rs")].concat().replace('_', "");
    let from_table = page.lines().skip_while(|line| !line.starts_with("| mutant |")).skip(2);
    let row = |line: &'static str| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` |");
    let table: BTreeMap<_, _> = from_table.map_while(row).collect();
    let names: Vec<String> = Mutant::all().map(Mutant::name).collect();
    assert!(names.iter().all(|name| page.contains(&format!("`{name}`"))), "docs/SIM.md names every mutant");
    assert!(table.len() > 40, "{table:?}");
    for (name, rest) in table {
        assert!(names.iter().any(|known| known == name), "{name} is a mutant");
        let all: Vec<_> = tests.split("#[test]").filter(|test| test.contains(&format!("::{name}"))).collect();
        assert!(!all.is_empty(), "a test finds {name}");
        let (_, seeds) = rest.rsplit_once('|').expect("columns");
        for number in numbers(seeds) {
            assert!(
                all.iter().any(|test| numbers(test).any(|other| other == number)),
                "a test finds {name} within {number} seeds"
            );
        }
    }
}
