//! The decision whether an array can start now, should wait for more drives, or cannot start.

use crate::config::Uuid;
use crate::words::error::{ErrorSentence, Lack, Lacks, Words};
use stria_format::md::assemble::{AssembleErrorKind, Assembly};
use stria_host::{Found, PlannedArray, StaysOut, awaited_slots, stays_out};

/// The verdict on an array with the drives that are here.
#[derive(Debug)]
pub enum Judgement {
    /// Every member that took part last is here, so nothing is to be waited for.
    Complete(PlannedArray),
    /// It can start, but members that took part last are not here yet.
    Degraded(PlannedArray, Lacks),
    /// It cannot start on these drives.
    Impossible {
        /// The reason.
        reason: Words,
        /// True if `--force` would start it.
        is_unsafe: bool,
        /// True if too few members are here.
        is_too_few: bool,
    },
}

/// Judges the array `uuid` by what was found on its drives. Also the drives that stay out.
pub fn judge(mut found: Found, uuid: Uuid) -> (Judgement, Vec<StaysOut>) {
    let out = found.assemblies.iter().flat_map(stays_out).collect();
    let refused = found.assemblies.iter().find_map(|assembly| assembly.outcome.as_ref().err());
    let planned = found.arrays.iter().position(|array| array.uuid == uuid.0).map(|index| found.arrays.swap_remove(index));
    let awaited: Vec<Lack> = found.assemblies.iter().filter_map(awaited).collect();
    let judgement = match (planned, refused) {
        (Some(planned), None) if awaited.is_empty() => Judgement::Complete(planned),
        (Some(planned), None) => Judgement::Degraded(planned, Lacks(awaited)),
        (_, Some(error)) => {
            let is_unsafe = error.kind == AssembleErrorKind::DirtyDegraded;
            let is_too_few = error.kind == AssembleErrorKind::Missing;
            Judgement::Impossible { reason: error.into(), is_unsafe, is_too_few }
        }
        (None, None) => Judgement::Impossible {
            reason: ErrorSentence::PartsOnly { array: uuid.to_string() }.into(),
            is_unsafe: false,
            is_too_few: false,
        },
    };
    (judgement, out)
}

/// The slots whose member took part last and is not here.
fn awaited(assembly: &Assembly) -> Option<Lack> {
    let slots = awaited_slots(assembly);
    (!slots.is_empty()).then(|| Lack { array: assembly.name.clone(), slots })
}
