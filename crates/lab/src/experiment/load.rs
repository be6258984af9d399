//! The line of an experiment that says which loads are measured.

use super::Many;
use crate::result::{IoMode, Pattern};
use crate::units::{Size, parse_size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A load: what is given as a list is varied, and all products are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Order of addresses.
    pub pattern: Many<Pattern>,
    /// Bytes of a request.
    #[serde(default = "four_k")]
    pub block: Many<Size>,
    /// Share of reads.
    #[serde(default = "all")]
    pub read_percent: Many<u8>,
    /// Requests in flight in each thread.
    #[serde(default = "single")]
    pub queue_depth: Many<u32>,
    /// Threads.
    #[serde(default = "single")]
    pub threads: Many<u32>,
    /// Share of the data that could be compressed: 0 is random, 100 is zeros.
    #[serde(default = "none")]
    pub compressible_percent: Many<u8>,
    /// How requests are made.
    #[serde(default = "direct")]
    pub mode: Many<IoMode>,
    /// A name for a load whose requests differ: `database`.
    #[serde(default)]
    pub mix: String,
    /// Sizes and their shares in percent, instead of `block`: `"8K/70:64K/30"`.
    pub block_split: Option<String>,
    /// Share of requests to a share of the addresses, both in percent: `"50/5:30/15:20/80"`.
    pub zones: Option<String>,
    /// A flush after so many writes.
    pub flush_every: Option<u32>,
    /// So many equal parts of the addresses, measured one after the other.
    pub parts: Option<u32>,
    /// More options of fio's, for this load; those that the lab sets itself are refused.
    #[serde(default)]
    pub fio: BTreeMap<String, Text>,
}

fn four_k() -> Many<Size> {
    Many(vec![Size(4096)])
}
fn all() -> Many<u8> {
    Many(vec![100])
}
fn single() -> Many<u32> {
    Many(vec![1])
}
fn none() -> Many<u8> {
    Many(vec![0])
}
fn direct() -> Many<IoMode> {
    Many(vec![IoMode::Direct])
}

/// A value of fio's, written as text, number or truth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// `"zipf:1.2"`
    Words(String),
    /// `1`
    Whole(i64),
    /// `0.5`
    Number(f64),
    /// `true` is 1.
    Truth(bool),
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => out.write_str(words),
            Self::Whole(number) => write!(out, "{number}"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Truth(truth) => write!(out, "{}", u8::from(*truth)),
        }
    }
}

/// Sizes with their shares, as fio's `bssplit` has them.
///
/// # Errors
/// When it is not written so, or the shares do not make 100.
pub fn parse_split(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let bad = || format!("\"{text}\" does not split: write SIZE/PERCENT:SIZE/PERCENT, as \"8K/70:64K/30\"");
    let part = |part: &str| {
        let (size, share) = part.split_once('/').ok_or_else(bad)?;
        Ok((parse_size(size)?, share.parse::<f64>().map_err(|_| bad())?))
    };
    let parts: Vec<(u64, f64)> = text.split(':').map(part).collect::<Result<_, String>>()?;
    let sum: f64 = parts.iter().map(|(_, share)| share).sum();
    if (sum - 100.0).abs() > 0.01 {
        return Err(format!("the shares of \"{text}\" make {sum} percent; they must make 100"));
    }
    Ok(parts)
}
