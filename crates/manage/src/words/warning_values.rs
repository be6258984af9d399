//! Values of warnings that have types of their own, and how each is read from a text.

use crate::words::plan_values::Failures;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use stria_format::md::assemble::missed;

/// The slots without their redundancy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lacking {
    /// The slots without a member.
    pub missing: Vec<usize>,
    /// The slots whose member is not rebuilt yet.
    pub filling: Vec<usize>,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |slots: &[usize], what: &str| {
            let numbers: Vec<String> = slots.iter().map(usize::to_string).collect();
            let noun = if slots.len() == 1 { "slot" } else { "slots" };
            (!slots.is_empty()).then(|| format!("{noun} {} {what}", numbers.join(", ")))
        };
        let parts = [part(&self.missing, "missing"), part(&self.filling, "not yet rebuilt")];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// How many more members may fail; in a text a clause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Left(pub u64);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("the next failure may lose data"),
            count => write!(f, "it survives {}", Failures(count as usize)),
        }
    }
}

/// Records of a write log; in a text with a verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Records(pub u64);

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (noun, verb) = if self.0 == 1 { ("record", "is") } else { ("records", "are") };
        write!(f, "{} {noun} of its write log {verb}", self.0)
    }
}

/// Superblock updates that a member missed; in a text with the verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Updates(pub u64);

impl fmt::Display for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&missed(self.0))
    }
}

/// The value of a type of this module from its text; `None`: `name` is of another type.
pub fn value_of(name: &str, text: &str) -> Option<Value> {
    let numbers = |text: &str| text.split([' ', ',']).filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
    match name {
        "left" | "records" | "updates" => Some(json!(numbers(text).first().copied().unwrap_or(0))),
        "lacking" => {
            let (missing, filling) = match text.split_once(" missing") {
                Some((missing, filling)) => (missing, filling),
                None => ("", text),
            };
            Some(json!({"missing": numbers(missing), "filling": numbers(filling)}))
        }
        _ => None,
    }
}
