//! Scripted histories, one file each, named after their events.

mod acknowledged_early;
mod bytes_rot_at_rest;
mod cache_joins_a_span;
mod clean_recorded_before_flush;
mod crash_during_rebuild;
mod crash_during_replace;
mod discard_cut_short;
mod drives_leave;
mod killed_and_power_cut;
mod lanes_drop_a_member;
mod log_runs_full;
mod member_returns_stale;
mod metadata_unreadable_or_torn;
mod parity_mended_beside_a_rebuild;
mod power_cut_between_data_and_parity;
mod read_after_a_kill_stays;
mod slow_reads_are_answered_by_others;
mod spare_removed_at_once;

use std::ops::Range;
use stria_array::{Layout, Level};
use stria_sim::setup::Setup;
use stria_sim::{History, Rules, Step, Tally, run};

/// A write of some sectors.
fn write(at: u64, sectors: u64) -> Step {
    Step::Write { at, sectors, fua: false }
}

/// Cuts the power after this many events.
fn cut(after: u64) -> Step {
    Step::Crash { after, kill: false }
}

/// Runs steps on a small array with many different fates; each must end well. Returns the coverage of all.
fn tell(level: Level, members: usize, change: impl Fn(&mut Setup), steps: &dyn Fn(u64) -> Vec<Step>) -> Tally {
    let setup = || {
        let mut setup = Setup::plain(level, default_layout(level), members, 1);
        change(&mut setup);
        setup
    };
    run_fates(0..60, &setup, 4, steps)
}

/// Runs steps on an array, with several requests in flight and many different fates; each must end well. Returns the coverage of
/// all.
fn run_fates(fates: Range<u64>, setup: &dyn Fn() -> Setup, depth: usize, steps: &dyn Fn(u64) -> Vec<Step>) -> Tally {
    let mut all = Tally::default();
    for seed in fates {
        let history = History { seed, setup: setup(), steps: steps(seed), depth };
        let tally = run(&history, Rules::default()).unwrap_or_else(|failure| panic!("fate {seed}: {failure:?}"));
        all.crashes += tally.crashes;
        for (what, count) in tally.met {
            *all.met.entry(what).or_default() += count;
        }
    }
    all
}

fn default_layout(level: Level) -> Layout {
    level.default_layout()
}
