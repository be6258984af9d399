//! Counts requests by kind, state of the array, and present fault.

use std::collections::BTreeMap;
use std::ops::Range;
use stria_array::plan::{Method, Presence, plan_write, rectangles};
use stria_array::{ArrayStatus, Geometry, MemberState, StripeSector, SweepKind, Synced};

/// The counts, by kind of request, state, and fault.
pub type Crossed = BTreeMap<(&'static str, &'static str, &'static str), u64>;

/// The method by which a write of some array sectors keeps parity, by the plan of the first stripe that it touches.
pub fn write_kind(geometry: &Geometry, status: &ArrayStatus, range: &Range<u64>) -> &'static str {
    if geometry.level().parity_count() == 0 {
        return "write";
    }
    let strip = geometry.strip_sectors();
    let width = strip * geometry.data_count() as u64;
    let stripe = range.start / width;
    let within = range.start - stripe * width..(range.end - stripe * width).min(width);
    let map = geometry.stripe_map(stripe);
    let presence = |&slot: &u16| match status.slots[usize::from(slot)].map(|member| status.members[member.0].state) {
        Some(MemberState::InSync) => Presence::Readable,
        Some(_) => Presence::WriteOnly,
        None => Presence::Missing,
    };
    let data: Vec<Presence> = map.data.iter().map(presence).collect();
    let parity: Vec<Presence> = map.parity.iter().map(presence).collect();
    let first = rectangles(StripeSector::span(within), strip).swap_remove(0);
    match plan_write(&data, &parity, first.strips, status.synced == Synced::All).map(|plan| plan.method) {
        Ok(Method::Full) => "full-stripe write",
        Ok(Method::ReadModifyWrite) => "read-modify-write",
        Ok(Method::ReconstructWrite) => "reconstruct-write",
        Ok(Method::RecoverWrite) => "recover-write",
        Ok(Method::DataOnly) => "data-only write",
        Err(_) => "write that cannot be",
    }
}

/// The state of an array in a word or two: the sweep that runs, else what is missing.
pub fn state(status: &ArrayStatus) -> &'static str {
    let missing =
        status.slots.iter().filter(|slot| slot.is_none_or(|id| status.members[id.0].state != MemberState::InSync)).count();
    match (&status.sweep, missing) {
        (Some(sweep), _) => match sweep.kind {
            SweepKind::Resync => "resync",
            SweepKind::Rebuild => "rebuild",
            SweepKind::Scrub { .. } => "scrub",
        },
        (None, 0) if status.synced != Synced::All => "out of step",
        (None, 0) => "whole",
        (None, 1) => "one missing",
        (None, _) => "more missing",
    }
}
