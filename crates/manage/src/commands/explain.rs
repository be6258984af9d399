//! `stria explain`: what is wrong, what it means, what to do, and what not to do now.

use crate::matter::{Matter, MatterKind, Urgency, not_served, of_array};
use crate::{cli, client};
use std::fmt::Write as _;
use stria_block::{shown, shown_sentence};
use stria_terminal::output::{print, print_json};
use stria_terminal::{Failure, NOT_WELL};

/// Explains the state of arrays. The exit code: [`NOT_WELL`] if there is anything to explain.
///
/// # Errors
/// When the array is not served.
pub fn explain(command: &cli::Explain, json: bool) -> Result<u8, Failure> {
    let socket = command.control.socket.as_deref();
    let adopted = client::adopted(socket);
    let is_meant = |name: &str| command.name.as_deref().is_none_or(|wanted| wanted == name);
    let mut matters: Vec<Matter> = adopted.iter().filter(|array| is_meant(&array.name)).filter_map(not_served).collect();
    if let (Some(name), []) = (&command.name, &matters[..]) {
        matters = of_array(&client::find(socket, name)?.1);
    } else if command.name.is_none() {
        let (services, silent) = client::survey(socket)?;
        matters.extend(services.iter().flat_map(|(_, arrays)| arrays).flat_map(of_array));
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
            rank: 1,
        }));
    }
    matters.sort_by_key(Matter::order);
    if json {
        print_json(&matters);
    } else {
        print(&words(&matters));
    }
    Ok(if matters.is_empty() { 0 } else { NOT_WELL })
}

fn words(matters: &[Matter]) -> String {
    if matters.is_empty() {
        return "nothing is wrong\n".into();
    }
    let mut text = String::new();
    for matter in matters {
        let _ = writeln!(text, "{}: {}", shown(&matter.array), shown_sentence(&matter.what));
        for (title, sentence) in [("means", &matter.means), ("do", &matter.action), ("not now", &matter.avoid)] {
            let _ = writeln!(text, "  {title:>7}  {}", shown_sentence(sentence));
        }
    }
    text
}
