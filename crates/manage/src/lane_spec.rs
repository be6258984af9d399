//! The settings of an array's threads, their defaults, and the reasons.

use crate::api::LaneView;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use stria_drive::{Lane, numa};
use stria_host::HostError;
use stria_host::LaneReport;

/// Where lanes are to run on machines of several NUMA nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaNode {
    /// Wherever the kernel puts them.
    Any,
    /// On this node's processors.
    Number(u32),
}

/// The settings of an array's threads; `None` or empty: the default.
#[derive(Clone, Debug, Default)]
pub struct LaneSpec {
    /// How many; by the count of processors if `None`.
    pub count: Option<usize>,
    /// Poll instead of sleeping.
    pub polls: bool,
    /// The processors for the lanes, one after the other.
    pub cpus: Vec<usize>,
    /// The NUMA node for the lanes; if `None`, that of most drives, if there are several nodes.
    pub numa_node: Option<NumaNode>,
    /// Whether NBD clients live on the lanes.
    pub clients: Option<bool>,
}

fn processor_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One lane on at most two processors: clients, drives and the rest of the machine need some too. Otherwise a quarter of the
/// processors, as the lane's clients and the kernel's part of its I/O need some as well, and 8 at most. This is judgement, not
/// measurement: more than two lanes have not been timed yet.
fn usual_lane_count(processor_count: usize) -> usize {
    match processor_count {
        ..=2 => 1,
        more => (more / 4).clamp(2, 8),
    }
}

/// The NUMA node on whose processors the lanes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    cpus: Vec<usize>,
    why: String,
}

impl Near {
    /// The node that was asked for, or that of most `drives`, if there are several nodes.
    ///
    /// # Errors
    /// When the machine has no such node.
    pub fn of(wanted: Option<NumaNode>, drives: &[PathBuf]) -> Result<Option<Self>, HostError> {
        let (node, why) = match wanted {
            Some(NumaNode::Any) => return Ok(None),
            Some(NumaNode::Number(node)) => (node, "--numa-node".to_owned()),
            None if numa::node_count() < 2 => return Ok(None),
            None => match most(drives.iter().filter_map(|drive| numa::node_of(drive))) {
                Some((node, count)) => (node, format!("as {count} of {} drives", drives.len())),
                None => return Ok(None),
            },
        };
        let cpus = numa::processors_of(node);
        if cpus.is_empty() {
            let reason = format!("there is no NUMA node {node} with processors here; `lscpu` lists those that are");
            return Err(HostError::Refused(reason));
        }
        Ok(Some(Self { cpus, why: format!("on NUMA node {node} ({why})") }))
    }
}

/// The most frequent node, the lowest of equals, and how often it occurs.
fn most(nodes: impl Iterator<Item = u32>) -> Option<(u32, usize)> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    nodes.for_each(|node| *counts.entry(node).or_default() += 1);
    counts.into_iter().max_by_key(|&(node, count)| (count, Reverse(node)))
}

impl LaneSpec {
    fn cpu(&self, index: usize) -> Option<usize> {
        self.cpus.get(index % self.cpus.len().max(1)).copied()
    }

    /// The lanes of an array.
    pub fn lanes(&self, name: &str, near: Option<&Near>) -> Vec<Lane> {
        let usual = || usual_lane_count(near.map_or(processor_count(), |near| near.cpus.len()));
        let count = self.count.unwrap_or_else(usual);
        let lane = |index| {
            let mut lane = Lane::new(if index == 0 { name.into() } else { format!("{name}/{index}") });
            if self.polls {
                lane = lane.spin_max(Duration::MAX);
            }
            if let Some(cpu) = self.cpu(index) {
                lane = lane.on_cpus(vec![cpu]);
            } else if let Some(near) = near {
                lane = lane.on_cpus(near.cpus.clone());
            }
            match self.clients {
                Some(clients) => lane.takes_clients(clients),
                None => lane,
            }
        };
        (0..count).map(lane).collect()
    }

    /// The view of one lane.
    pub fn view(&self, near: Option<&Near>, takes_clients: bool, index: usize, count: usize, lane: &LaneReport) -> LaneView {
        let cpu = self.cpu(index);
        let processor = match (cpu, near) {
            (Some(cpu), _) => format!("on processor {cpu} (--cpus)"),
            (None, Some(near)) => near.why.clone(),
            (None, None) => "on any processor".into(),
        };
        let rest = if self.polls { "polls (--poll)" } else { "sleeps when idle (the default)" };
        let clients = if takes_clients { "on it" } else { "on threads of their own" };
        let by_processors = || format!("the default for {} processors", processor_count());
        let why = if self.clients.is_some() { "--clients".into() } else { by_processors() };
        let why_so_many = if self.count.is_some() { "--lanes".into() } else { by_processors() };
        let number = index + 1;
        LaneView {
            setup: format!(
                "{number} of {count} ({why_so_many}), {processor}, {rest}; clients {clients} ({why}); io_uring with {}",
                lane.ring
            ),
            cpu,
            polls: self.polls,
            clients_on_lane: takes_clients,
            ring_calls: lane.counters.call_count,
            ring_entries: lane.counters.entry_count,
            ring_fixed: lane.counters.fixed_count,
            processor_us: u64::try_from(lane.processor_time.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_drives_decide_and_of_equals_the_first_node() {
        assert_eq!(most([1, 0, 1].into_iter()), Some((1, 2)));
        assert_eq!(most([1, 0].into_iter()), Some((0, 1)));
        assert_eq!(most(std::iter::empty()), None);
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_with_the_remedy() {
        let error = Near::of(Some(NumaNode::Number(4000)), &[]).unwrap_err().to_string();
        assert!(error.contains("no NUMA node 4000") && error.contains("lscpu"), "{error}");
    }
}
