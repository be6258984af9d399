//! The line of an experiment that names the loads.

use super::Many;
use crate::result::{IoMode, Pattern};
use crate::units::{Size, parse_size};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A load. Keys with lists are varied, and all combinations are measured.
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
    /// Share of the data that can be compressed: 0 is random, 100 is zeros.
    #[serde(default = "none")]
    pub compressible_percent: Many<u8>,
    /// The mode of access.
    #[serde(default = "direct")]
    pub mode: Many<IoMode>,
    /// A name for a load whose requests differ: `database`.
    #[serde(default)]
    pub mix: String,
    /// Sizes and their shares in percent, instead of `block`: `"8K/70:64K/30"`.
    pub block_split: Option<String>,
    /// Share of requests to a share of the addresses, both in percent: `"50/5:30/15:20/80"`.
    pub zones: Option<String>,
    /// The number of writes before each flush.
    pub flush_every: Option<u32>,
    /// The number of equal parts of the addresses, which are measured one after the other.
    pub parts: Option<u32>,
    /// More options of fio for this load; options that the lab sets itself are refused.
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

/// A value of a fio option, written as text, number or boolean.
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

impl LoadSpec {
    /// All combinations of its lists.
    pub(super) fn count(&self) -> usize {
        let lists = [
            self.pattern.0.len(),
            self.block.0.len(),
            self.read_percent.0.len(),
            self.queue_depth.0.len(),
            self.threads.0.len(),
            self.compressible_percent.0.len(),
            self.mode.0.len(),
            self.parts.unwrap_or(1) as usize,
        ];
        lists.into_iter().fold(1, usize::saturating_mul)
    }
}

/// fio takes no more parts of a split.
const SPLIT_PARTS_MAX: usize = 64;

/// A share in percent, written in digits: `70` or `12.5`.
fn share(text: &str) -> Option<f64> {
    let is_plain = !text.is_empty() && text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|share| is_plain && (0.0..=100.0).contains(share))
}

fn split<T>(text: &str, form: &str, part: impl Fn(&str) -> Option<(T, f64)>) -> Result<Vec<(T, f64)>, String> {
    let parts: Option<Vec<(T, f64)>> = text.split(':').take(SPLIT_PARTS_MAX + 1).map(part).collect();
    match parts {
        Some(parts) if parts.len() <= SPLIT_PARTS_MAX => Ok(parts),
        _ => Err(format!("\"{text:.100}\" is not a list of shares: write {form}, at most {SPLIT_PARTS_MAX} of them")),
    }
}

fn makes_100(text: &str, what: &str, shares: impl Iterator<Item = f64>) -> Result<(), String> {
    let sum: f64 = shares.sum();
    match (sum - 100.0).abs() <= 0.01 {
        true => Ok(()),
        false => Err(format!("the {what} of \"{text:.100}\" make {sum} percent; they must make 100")),
    }
}

/// Sizes with their shares, as fio's `bssplit` has them.
///
/// # Errors
/// The form is wrong, or the shares do not make 100.
pub fn parse_split(text: &str) -> Result<Vec<(u64, f64)>, String> {
    let part = |part: &str| {
        let (size, percent) = part.split_once('/')?;
        Some((parse_size(size).ok()?, share(percent)?))
    };
    let parts = split(text, "SIZE/PERCENT:SIZE/PERCENT, as \"8K/70:64K/30\"", part)?;
    makes_100(text, "shares", parts.iter().map(|(_, share)| *share))?;
    Ok(parts)
}

/// Shares of requests with shares of the addresses, as fio's `random_distribution=zoned` has them.
///
/// # Errors
/// As [`parse_split`].
pub fn parse_zones(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let part = |part: &str| {
        let (requests, addresses) = part.split_once('/')?;
        Some((share(requests)?, share(addresses)?))
    };
    let parts = split(text, "PERCENT/PERCENT:PERCENT/PERCENT, as \"50/5:50/95\"", part)?;
    makes_100(text, "requests", parts.iter().map(|(requests, _)| *requests))?;
    makes_100(text, "addresses", parts.iter().map(|(_, addresses)| *addresses))?;
    Ok(parts)
}
