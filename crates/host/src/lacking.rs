//! Warnings to the administrator about an array that starts: its missing redundancy, and the work that a crash left.

use stria_array::{ArrayConfig, SlotConfig, Synced};

/// The warnings; none for an optimal array that was stopped cleanly.
pub(crate) fn start_warnings(config: &ArrayConfig) -> Vec<String> {
    lacks(config).into_iter().chain(left_by_a_crash(config)).collect()
}

fn lacks(config: &ArrayConfig) -> Option<String> {
    let slots_where = |test: fn(&SlotConfig) -> bool| {
        let slots = config.slots.iter().enumerate().filter(|(_, slot)| test(slot)).map(|(index, _)| index.to_string());
        slots.collect::<Vec<_>>()
    };
    let missing = slots_where(|slot| slot.member.is_none());
    let filling = slots_where(|slot| slot.member.as_ref().is_some_and(|member| member.recovered != Synced::All));
    let lost = missing.len() + filling.len();
    if lost == 0 {
        return None;
    }
    let list = |slots: &[String]| format!("{} {}", if slots.len() == 1 { "slot" } else { "slots" }, slots.join(", "));
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("{} missing", list(&missing)));
    }
    if !filling.is_empty() {
        parts.push(format!("{} not yet rebuilt", list(&filling)));
    }
    let left = match config.geometry.losses_survived().saturating_sub(lost) {
        0 => "the next failure may lose data".into(),
        1 => "it survives 1 more failure".into(),
        count => format!("it survives {count} more failures"),
    };
    let remedy = match (config.spares.len(), missing.is_empty()) {
        (_, true) => "the rebuild goes on".into(),
        (0, _) => "no spare: bring the missing drive back, or `add` another".into(),
        (1, _) => "a spare takes over".into(),
        (count, _) => format!("{count} spares wait"),
    };
    Some(format!("DEGRADED: array \"{}\" starts with {}: {left}; {remedy}", config.name, parts.join(", ")))
}

fn left_by_a_crash(config: &ArrayConfig) -> Option<String> {
    let records = config.replay.len();
    if records == 0 && !config.suspects_parity {
        return None;
    }
    let due = config.suspects_parity || config.synced != Synced::All;
    let resync = match (due, &config.intent) {
        (false, _) => "",
        (true, Some(_)) => ", and regions marked in its bitmap are resynced",
        (true, None) => ", and it is resynced",
    };
    let (noun, verb) = if records == 1 { ("record", "is") } else { ("records", "are") };
    let name = &config.name;
    Some(format!("array \"{name}\" was not stopped cleanly: {records} {noun} of its write log {verb} replayed{resync}"))
}
