//! A power cut at every event on the drives of a fixed set of short histories.

use crate::campaign::try_history;
use crate::drive::Keep;
use crate::setup::Setup;
use crate::workload::{History, Step};
use crate::world::{Failure, Rules};
use stria_array::Level;

/// The arrays of the set.
pub fn setups() -> Vec<Setup> {
    let plain = |level: Level, members, spans| Setup::plain(level, level.default_layout(), members, spans);
    vec![
        plain(Level::Raid1, 2, 1),
        plain(Level::Raid5, 3, 1),
        plain(Level::Raid6, 4, 1),
        plain(Level::Raid10, 3, 1),
        plain(Level::Raid5, 3, 2),
    ]
}

/// A short history: small and large writes, a flush, FUA, zeroes; `degraded`: without one member.
pub fn history(setup: Setup, degraded: bool) -> History {
    let mut steps = if degraded { vec![Step::Fail(1)] } else { Vec::new() };
    steps.extend([
        Step::Write { at: 3, sectors: 2, fua: false },
        Step::Write { at: 8, sectors: 8, fua: false },
        Step::Write { at: 20, sectors: 40, fua: false },
        Step::Drain,
        Step::Flush,
        Step::Write { at: 4, sectors: 20, fua: true },
        Step::Zero { at: 9, sectors: 6, fua: false, unmap: false },
        Step::Write { at: 1, sectors: 50, fua: false },
        Step::Drain,
        Step::Pause(1_200_000_000),
        Step::Write { at: 3, sectors: 2, fua: false },
        Step::Drain,
        Step::Flush,
    ]);
    History { seed: 1, setup, steps, depth: 4 }
}

/// Cuts the power after every event of a history, with each pattern of surviving caches, until the history ends before the cut.
/// Returns the number of cuts.
///
/// # Errors
/// The number of events before the cut, the pattern, and the failure.
pub fn cut_everywhere(history: &History, rules: Rules) -> Result<u64, (u64, Keep, Failure)> {
    let mut cuts = 0;
    for keep in [Keep::None, Keep::All, Keep::Some(4)] {
        for after in 0.. {
            let mut cut = history.clone();
            cut.seed = after + 1;
            cut.steps.insert(0, Step::Crash { after, kill: false });
            let rules = Rules { keep: Some(keep), ..rules };
            let tally = try_history(&cut, rules).map_err(|failure| (after, keep, failure))?;
            if tally.crashes == 0 {
                break;
            }
            cuts += 1;
        }
    }
    Ok(cuts)
}
