//! `stria explain`: what is wrong, what it means, what to do, and what not to do now.

use crate::cli;
use crate::control::client;
use crate::matter::{Matter, MatterKind, Urgency, name_link, not_served, note_acknowledged, of_array, of_config};
use crate::monitor::StandingView;
use serde_json::{Value, json};
use std::fmt::Write as _;
use stria_alarm::{Acknowledgement, Event};
use stria_block::{shell_word, shown, shown_sentence};
use stria_terminal::output::{print, print_json};
use stria_terminal::{Failure, NOT_WELL};

/// Explains the state of arrays. The exit code: [`NOT_WELL`] if there is anything to explain.
///
/// # Errors
/// When the array is not served.
pub fn explain(command: &cli::Explain, json: bool) -> Result<u8, Failure> {
    let socket = command.control.socket.as_deref();
    let mut well = "nothing is wrong".to_owned();
    let adopted = client::adopted(socket);
    let mut faults = Vec::new();
    let is_meant = |name: &str| command.name.as_deref().is_none_or(|wanted| wanted == name);
    let mut matters: Vec<Matter> = adopted.iter().filter(|array| is_meant(&array.name)).filter_map(not_served).collect();
    if !matters.is_empty() {
        let open = client::daemon(socket).and_then(|daemon| daemon.get::<Vec<StandingView>>("/v1/alarms").ok());
        for matter in &mut matters {
            let array = matter.array.clone();
            with_alarms(&array, std::slice::from_mut(matter), open.as_deref().unwrap_or_default());
        }
    }
    if let (Some(name), []) = (&command.name, &matters[..]) {
        let (client, view) = client::find_at_once(socket, name)?;
        matters = of_array(&view);
        let open: Vec<StandingView> = client.get("/v1/alarms").unwrap_or_default();
        with_alarms(&view.identity.name, &mut matters, &open);
    } else if command.name.is_none() {
        let (services, silent) = client::survey(socket)?;
        if services.iter().all(|(_, arrays)| arrays.is_empty()) && silent.is_empty() {
            let how = match &adopted[..] {
                [] => "start one with `stria serve`".to_owned(),
                [array] => format!("`stria start {word}` starts the one that the daemon has", word = shell_word(&array.name)),
                _ => "`stria start NAME` starts one that the daemon has".to_owned(),
            };
            well = format!("no array is served, so there is nothing to explain: {how}");
        }
        let open: Vec<StandingView> =
            services.iter().filter_map(|(client, _)| client.get::<Vec<StandingView>>("/v1/alarms").ok()).flatten().collect();
        for view in services.iter().flat_map(|(_, arrays)| arrays) {
            let mut of_view = of_array(view);
            with_alarms(&view.identity.name, &mut of_view, &open);
            matters.extend(of_view);
        }
        let (of_file, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|alarm| alarm.cause.event == Event::ConfigFault);
        faults = of_file;
        if !others.is_empty() {
            well = "nothing is wrong with the arrays; `stria alarm` lists the open alarms".into();
        }
        matters.extend(silent.iter().map(|serve| Matter {
            array: serve.socket.display().to_string(),
            kind: MatterKind::Silent,
            urgency: Urgency::Critical,
            what: serve.error.clone(),
            means: "its arrays may still serve clients, but nobody can see or change their state".into(),
            action: "look at its log; if it is stuck in a drive, check that drive and its cable".into(),
            avoid: "do not start another process on the same drives: they are locked, and it would refuse".into(),
            drives: Vec::new(),
            reason: None,
            said: None,
            acknowledged: None,
            rank: 1,
        }));
    }
    matters.sort_by_key(Matter::order);
    if json {
        let mut values: Vec<Value> = matters.iter().map(|matter| json!(matter)).collect();
        values.extend(faults.iter().map(|fault| {
            let (means, action, avoid) = of_config(&fault.cause);
            let mut value = json!({"array": null, "kind": "config_fault", "urgency": Urgency::Critical, "what": fault.cause.text,
                "means": means, "action": action, "avoid": avoid, "drives": [], "reason": null});
            if let Some(known) = &fault.acknowledged {
                value["acknowledged"] = json!(known);
            }
            value
        }));
        print_json(&values);
    } else {
        let mut text = String::new();
        for fault in &faults {
            let _ = writeln!(text, "configuration: {}", shown_sentence(&fault.cause.text));
            let (means, action, avoid) = of_config(&fault.cause);
            for (title, sentence) in [("means", means), ("do", action), ("not now", avoid)] {
                let _ = writeln!(text, "  {title:>7}  {sentence}");
            }
            text += &known_words(fault.acknowledged.as_ref());
        }
        if faults.is_empty() || !matters.is_empty() {
            text.insert_str(0, &words(&matters, &well));
        }
        print(&text);
    }
    Ok(if matters.is_empty() && faults.is_empty() { 0 } else { NOT_WELL })
}

/// True if two matters differ in their drive only.
fn is_alike(one: &Matter, other: &Matter) -> bool {
    (&one.array, one.kind, &one.means, &one.action, &one.avoid)
        == (&other.array, other.kind, &other.means, &other.action, &other.avoid)
}

/// `well`: the sentence if there is nothing to explain.
fn words(matters: &[Matter], well: &str) -> String {
    if matters.is_empty() {
        return format!("{well}\n");
    }
    let mut text = String::new();
    for (index, matter) in matters.iter().enumerate() {
        let _ = writeln!(text, "{}: {}", shown(&matter.array), shown_sentence(&matter.what));
        // Often a file system holds all members. What follows is the same for each.
        if matters.get(index + 1).is_some_and(|next| matter.kind == MatterKind::NoSpace && is_alike(matter, next)) {
            continue;
        }
        if let Some(reason) = matter.reason.as_ref().filter(|reason| !matter.what.contains(reason.as_str())) {
            // The reason names each drive if there are several. Of a silent array it is what was last known, and no cause.
            let (title, subject) = match (matter.kind, &matter.drives[..]) {
                (MatterKind::Silent, _) => ("", String::new()),
                (_, [drive]) => ("because", format!("{drive}: ")),
                _ => ("because", String::new()),
            };
            let _ = writeln!(text, "  {title:>7}  {}", shown_sentence(&format!("{subject}{reason}")));
        }
        for (title, sentence) in [("means", &matter.means), ("do", &matter.action), ("not now", &matter.avoid)] {
            let _ = writeln!(text, "  {title:>7}  {}", shown_sentence(sentence));
        }
        text += &known_words(matter.acknowledged.as_ref());
    }
    text
}

/// What the alarms say of an array's matters.
fn with_alarms(array: &str, matters: &mut [Matter], open: &[StandingView]) {
    name_link(array, matters, open.iter().map(|alarm| &alarm.cause));
    note_acknowledged(array, matters, open.iter().map(|alarm| (&alarm.cause, alarm.acknowledged.as_ref())));
}

/// The line about an acknowledgement, if there is one.
fn known_words(known: Option<&Acknowledgement>) -> String {
    known.map_or_else(String::new, |known| format!("  {:>7}  {}\n", "known", shown_sentence(&known.words())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cause_is_told_as_one() {
        let reason_of = |kind, reason: &str| {
            let matter = Matter {
                array: "tank".into(),
                kind,
                urgency: Urgency::Critical,
                what: "it is so".into(),
                means: String::new(),
                action: String::new(),
                avoid: String::new(),
                drives: vec!["/dev/a".into()],
                reason: Some(reason.into()),
                said: None,
                acknowledged: None,
                rank: 1,
            };
            words(&[matter], "").lines().nth(1).expect("the reason").trim().to_owned()
        };
        assert_eq!(reason_of(MatterKind::Degraded, "I/O error"), "because  /dev/a: I/O error");
        assert_eq!(reason_of(MatterKind::Silent, "before that: clean"), "before that: clean");
    }
}
