//! The tests of SNIA's Solid State Storage Performance Test Specification 2.0, as stages of a section.
//!
//! Source: the tables of cells, rounds and criteria of PTS 2.0 sections 3 and 7 to 14, where public implementations and
//! papers quote them; a comment marks where they differ or say nothing.

use crate::result::{DriveState, Pattern, SectionKind};
use crate::stage::{DIRTH_AXIS, Demand, Goal, Load, Metric, Mix, Rounds, Scale, Stage, Step};

/// Rounds after which a test may stop without being steady.
pub const ROUNDS_MAX: u32 = 25;

const KIB: u64 = 1024;

/// What a section may choose.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Requests in flight in each thread.
    pub queue_depth: u32,
    /// Threads.
    pub threads: u32,
    /// Share of reads of DIRTH's mixed load.
    pub read_percent: u8,
    /// Requests of 512 bytes are possible on this target.
    pub small_blocks: bool,
}

/// The stages of a test on a span of this size.
///
/// # Panics
/// When the kind is none of SNIA's.
pub fn stages(kind: SectionKind, choice: Choice, span_bytes: u64, scale: &Scale) -> Vec<Stage> {
    let load = |pattern, block_bytes, read_percent| Load {
        queue_depth: choice.queue_depth,
        threads: choice.threads,
        drive_state: DriveState::Used,
        ..Load::new(pattern, block_bytes, read_percent, scale.seconds(60.0))
    };
    let random = |kib, read_percent| load(Pattern::Random, kib, read_percent);
    let sequential = |block, read_percent| load(Pattern::Sequential, block, read_percent);
    let fill = |block_bytes| Step::Fill { fills: 2.0, block_bytes, pattern: Pattern::Sequential };
    let steady = |step, metric, tracked: &str| {
        let goal =
            Goal { step, metric, tracked: tracked.into(), rounds_max: scale.rounds(ROUNDS_MAX), stride: 1, bytes_max: None };
        Rounds::UntilSteady(goal)
    };
    // Once in half an hour: consecutive rounds of a minute differ too little to show a slow decline.
    let slow = |rounds_max: u32, bytes_max| {
        let goal = Goal {
            step: 0,
            metric: Metric::Iops,
            tracked: "IOPS of random 4 KiB writes".into(),
            rounds_max: scale.samples(rounds_max),
            stride: if scale.is_scaled() { 2 } else { 30 },
            bytes_max,
        };
        Rounds::UntilSteady(goal)
    };
    let small: &[u64] = if choice.small_blocks { &[512] } else { &[] };
    match kind {
        SectionKind::Iops => {
            let sizes = [1024, 128, 64, 32, 16, 8, 4].map(|kib| kib * KIB);
            let mut cells = Vec::new();
            for read_percent in [100, 95, 65, 50, 35, 5, 0] {
                for &block in sizes.iter().chain(small) {
                    cells.push(Step::Load(random(block, read_percent)));
                }
            }
            let tracked = position(&cells, |load| load.block_bytes == 4 * KIB && load.read_percent == 0);
            vec![
                Stage::once("purge and precondition", vec![Step::Purge, fill(128 * KIB)]),
                Stage::new("rounds", cells, steady(tracked, Metric::Iops, "IOPS of random 4 KiB writes")),
            ]
        }
        SectionKind::Throughput => [1024 * KIB, 128 * KIB]
            .into_iter()
            .flat_map(|block| {
                let cells = vec![Step::Load(sequential(block, 100)), Step::Load(sequential(block, 0))];
                let tracked = format!("MB/s of sequential {} KiB writes", block / KIB);
                [
                    Stage::once("purge and precondition", vec![Step::Purge, fill(block)]),
                    Stage::new("rounds", cells, steady(1, Metric::MbPerS, &tracked)),
                ]
            })
            .collect(),
        SectionKind::Latency => {
            let mut cells = Vec::new();
            for read_percent in [100, 65, 0] {
                for &block in [8 * KIB, 4 * KIB].iter().chain(small) {
                    cells.push(Step::Load(Load { queue_depth: 1, threads: 1, ..random(block, read_percent) }));
                }
            }
            let tracked = position(&cells, |load| load.block_bytes == 4 * KIB && load.read_percent == 0);
            vec![
                Stage::once("purge and precondition", vec![Step::Purge, fill(128 * KIB)]),
                Stage::new("rounds", cells, steady(tracked, Metric::LatencyUs, "mean latency of random 4 KiB writes")),
            ]
        }
        SectionKind::Wsat => {
            let write = Load { series: true, drive_state: DriveState::Fresh, ..random(4 * KIB, 0) };
            vec![
                Stage::once("purge", vec![Step::Purge]),
                Stage::new("saturation", vec![Step::Load(write)], slow(1440, Some(4 * span_bytes))),
            ]
        }
        SectionKind::Hir => {
            let prepare = Load { preparation: true, variant: "preparation".into(), ..random(4 * KIB, 0) };
            let mut stages = vec![
                Stage::once("purge", vec![Step::Purge]),
                Stage::new("precondition", vec![Step::Load(prepare)], slow(ROUNDS_MAX * 30, None)),
            ];
            for wait in [5, 10, 15, 25, 50] {
                let access = Load { seconds: scale.seconds(5.0), variant: format!("wait {wait} s"), ..random(4 * KIB, 0) };
                let idle = Step::Idle { seconds: scale.seconds(f64::from(wait)) };
                stages.push(Stage::new("wait", vec![Step::Load(access), idle], Rounds::Times(scale.samples(360))));
                let back = Load { variant: format!("baseline after wait {wait} s"), ..random(4 * KIB, 0) };
                stages.push(Stage::new("baseline", vec![Step::Load(back)], Rounds::Times(scale.samples(30))));
            }
            stages
        }
        SectionKind::Xsr => {
            let part = |variant: &str, load: Load, minutes| {
                let step = Step::Load(Load { series: true, variant: variant.into(), ..load });
                Stage::new(variant, vec![step], Rounds::Times(scale.samples(minutes)))
            };
            vec![
                Stage::once("purge", vec![Step::Purge]),
                part("first sequential", sequential(1024 * KIB, 0), 480),
                part("random", random(8 * KIB, 0), 360),
                part("second sequential", sequential(1024 * KIB, 0), 480),
            ]
        }
        SectionKind::Dirth => {
            let full = |load: Load| Load { queue_depth: 32, threads: 32, ..load };
            let write = |minutes: f64| Load {
                preparation: true,
                seconds: scale.seconds(60.0 * minutes),
                variant: "pre-write".into(),
                ..full(random(4 * KIB, 0))
            };
            let mut cells = vec![Step::Load(write(5.0))];
            for threads in DIRTH_AXIS {
                for queue_depth in DIRTH_AXIS {
                    cells.push(Step::Load(Load { queue_depth, threads, ..random(4 * KIB, choice.read_percent) }));
                }
            }
            let mut last = Vec::new();
            for demand in [Demand::Max, Demand::Mid, Demand::Min] {
                last.push(Step::Load(write(60.0)));
                let histogram = Load {
                    seconds: scale.seconds(600.0),
                    variant: demand.words().into(),
                    series: true,
                    ..random(4 * KIB, choice.read_percent)
                };
                last.push(Step::Demand(demand, histogram));
            }
            vec![
                Stage::once("purge", vec![Step::Purge]),
                Stage::new("precondition", vec![Step::Load(write(1.0))], slow(ROUNDS_MAX * 30, None)),
                Stage::new("rounds", cells, steady(1, Metric::Iops, "IOPS with 32 threads and queue depth 32")),
                Stage::once("histograms", last),
            ]
        }
        SectionKind::Composite => {
            // The enterprise mix of JESD219: 40 % reads, and 5 % of the addresses get half of the requests.
            let sizes = "4K/67:8K/10:16K/7:32K/3:64K/3";
            let split = match choice.small_blocks {
                true => format!("512/4:1K/1:1536/1:2K/1:2560/1:3K/1:3584/1:{sizes}"),
                false => sizes.replacen("67", "77", 1),
            };
            let mix = Mix { name: "composite".into(), block_split: Some(split), zones: Some("50/5:30/15:20/80".into()) };
            let cell = Load { mix: Some(mix), series: true, ..random(4 * KIB, 40) };
            vec![
                Stage::once("purge and precondition", vec![Step::Purge, fill(128 * KIB)]),
                Stage::new("rounds", vec![Step::Load(cell)], steady(0, Metric::Iops, "IOPS of the composite workload")),
            ]
        }
        SectionKind::Sweep | SectionKind::States | SectionKind::Raid | SectionKind::FileCopy | SectionKind::Replay => {
            panic!("{kind:?} is no test of SNIA's")
        }
    }
}

fn position(cells: &[Step], is: impl Fn(&Load) -> bool) -> usize {
    let found = cells.iter().position(|cell| matches!(cell, Step::Load(load) if is(load)));
    found.expect("the tracked cell is one of the matrix")
}
