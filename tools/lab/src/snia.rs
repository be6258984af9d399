//! The tests of SNIA's Solid State Storage Performance Test Specification 2.0, as stages of a section.
//!
//! Source: the tables of cells, rounds and criteria of PTS 2.0 sections 3 and 7 to 14, where public implementations and
//! papers quote them; a comment marks where they differ or say nothing.

use crate::result::{DriveState, Pattern, SectionKind};
use crate::stage::{DIRTH_AXIS, Demand, Goal, Load, Metric, Mix, Rounds, Scale, Stage, Step};

/// Rounds after which a test may stop without being steady.
pub const ROUNDS_MAX: u32 = 25;

const KIB: u64 = 1024;

/// The choices of a section.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Requests in flight in each thread.
    pub queue_depth: u32,
    /// Threads.
    pub threads: u32,
    /// Percentage of reads of DIRTH's mixed load.
    pub read_percent: u8,
    /// Requests of 512 bytes are possible on this target.
    pub small_blocks: bool,
}

/// The stages of a test on a span of this size.
///
/// # Panics
/// When the kind is not one of SNIA's.
pub fn stages(kind: SectionKind, choice: Choice, span_bytes: u64, scale: &Scale) -> Vec<Stage> {
    let test = Test { choice, span_bytes, scale };
    match kind {
        SectionKind::Iops => test.iops(),
        SectionKind::Throughput => test.throughput(),
        SectionKind::Latency => test.latency(),
        SectionKind::Wsat => test.wsat(),
        SectionKind::Hir => test.hir(),
        SectionKind::Xsr => test.xsr(),
        SectionKind::Dirth => test.dirth(),
        SectionKind::Composite => test.composite(),
        SectionKind::Sweep | SectionKind::States | SectionKind::Raid | SectionKind::FileCopy | SectionKind::Replay => {
            panic!("{kind:?} is not a test of SNIA's")
        }
    }
}

struct Test<'a> {
    choice: Choice,
    span_bytes: u64,
    scale: &'a Scale,
}

impl Test<'_> {
    fn load(&self, pattern: Pattern, block_bytes: u64, read_percent: u8) -> Load {
        Load {
            queue_depth: self.choice.queue_depth,
            threads: self.choice.threads,
            drive_state: DriveState::Used,
            ..Load::new(pattern, block_bytes, read_percent, self.scale.seconds(60.0))
        }
    }

    fn random(&self, block_bytes: u64, read_percent: u8) -> Load {
        self.load(Pattern::Random, block_bytes, read_percent)
    }

    fn sequential(&self, block_bytes: u64, read_percent: u8) -> Load {
        self.load(Pattern::Sequential, block_bytes, read_percent)
    }

    /// Blocks below 4 KiB.
    fn small(&self) -> &'static [u64] {
        if self.choice.small_blocks { &[512] } else { &[] }
    }

    fn purge_and_fill(&self, block_bytes: u64) -> Stage {
        let fill = Step::Fill { fills: 2.0, block_bytes, pattern: Pattern::Sequential };
        Stage::once("purge and precondition", vec![Step::Purge, fill])
    }

    /// Until a step's figure is steady from round to round.
    fn steady(&self, step: usize, metric: Metric, tracked: &str) -> Rounds {
        let rounds_max = self.scale.rounds(ROUNDS_MAX);
        Rounds::UntilSteady(Goal { step, metric, tracked: tracked.into(), rounds_max, stride: 1, bytes_max: None })
    }

    /// Until writes are steady from half an hour to the next: consecutive rounds of a minute differ too little to show a slow
    /// decline.
    fn slow(&self, rounds_max: u32, bytes_max: Option<u64>) -> Rounds {
        Rounds::UntilSteady(Goal {
            step: 0,
            metric: Metric::Iops,
            tracked: "IOPS of random 4 KiB writes".into(),
            rounds_max: self.scale.samples(rounds_max),
            stride: if self.scale.is_scaled() { 2 } else { 30 },
            bytes_max,
        })
    }

    fn iops(&self) -> Vec<Stage> {
        let sizes = [1024, 128, 64, 32, 16, 8, 4].map(|kib| kib * KIB);
        let mut cells = Vec::new();
        for read_percent in [100, 95, 65, 50, 35, 5, 0] {
            for &block in sizes.iter().chain(self.small()) {
                cells.push(Step::Load(self.random(block, read_percent)));
            }
        }
        let tracked = position(&cells, |load| load.block_bytes == 4 * KIB && load.read_percent == 0);
        vec![
            self.purge_and_fill(128 * KIB),
            Stage::new("rounds", cells, self.steady(tracked, Metric::Iops, "IOPS of random 4 KiB writes")),
        ]
    }

    fn throughput(&self) -> Vec<Stage> {
        [1024 * KIB, 128 * KIB]
            .into_iter()
            .flat_map(|block| {
                let cells = vec![Step::Load(self.sequential(block, 100)), Step::Load(self.sequential(block, 0))];
                let tracked = format!("MB/s of sequential {} KiB writes", block / KIB);
                [self.purge_and_fill(block), Stage::new("rounds", cells, self.steady(1, Metric::MbPerS, &tracked))]
            })
            .collect()
    }

    fn latency(&self) -> Vec<Stage> {
        let mut cells = Vec::new();
        for read_percent in [100, 65, 0] {
            for &block in [8 * KIB, 4 * KIB].iter().chain(self.small()) {
                cells.push(Step::Load(Load { queue_depth: 1, threads: 1, ..self.random(block, read_percent) }));
            }
        }
        let tracked = position(&cells, |load| load.block_bytes == 4 * KIB && load.read_percent == 0);
        vec![
            self.purge_and_fill(128 * KIB),
            Stage::new("rounds", cells, self.steady(tracked, Metric::LatencyUs, "mean latency of random 4 KiB writes")),
        ]
    }

    fn wsat(&self) -> Vec<Stage> {
        let write = Load { series: true, drive_state: DriveState::Fresh, ..self.random(4 * KIB, 0) };
        vec![
            Stage::once("purge", vec![Step::Purge]),
            Stage::new("saturation", vec![Step::Load(write)], self.slow(1440, Some(4 * self.span_bytes))),
        ]
    }

    fn hir(&self) -> Vec<Stage> {
        let prepare = Load { preparation: true, variant: "preparation".into(), ..self.random(4 * KIB, 0) };
        let mut stages = vec![
            Stage::once("purge", vec![Step::Purge]),
            Stage::new("precondition", vec![Step::Load(prepare)], self.slow(ROUNDS_MAX * 30, None)),
        ];
        for wait in [5, 10, 15, 25, 50] {
            let access = Load { seconds: self.scale.seconds(5.0), variant: format!("wait {wait} s"), ..self.random(4 * KIB, 0) };
            let idle = Step::Idle { seconds: self.scale.seconds(f64::from(wait)) };
            stages.push(Stage::new("wait", vec![Step::Load(access), idle], Rounds::Times(self.scale.samples(360))));
            let back = Load { variant: format!("baseline after wait {wait} s"), ..self.random(4 * KIB, 0) };
            stages.push(Stage::new("baseline", vec![Step::Load(back)], Rounds::Times(self.scale.samples(30))));
        }
        stages
    }

    fn xsr(&self) -> Vec<Stage> {
        let part = |variant: &str, load: Load, minutes| {
            let step = Step::Load(Load { series: true, variant: variant.into(), ..load });
            Stage::new(variant, vec![step], Rounds::Times(self.scale.samples(minutes)))
        };
        vec![
            Stage::once("purge", vec![Step::Purge]),
            part("first sequential", self.sequential(1024 * KIB, 0), 480),
            part("random", self.random(8 * KIB, 0), 360),
            part("second sequential", self.sequential(1024 * KIB, 0), 480),
        ]
    }

    fn dirth(&self) -> Vec<Stage> {
        let full = |load: Load| Load { queue_depth: 32, threads: 32, ..load };
        let write = |minutes: f64| Load {
            preparation: true,
            seconds: self.scale.seconds(60.0 * minutes),
            variant: "pre-write".into(),
            ..full(self.random(4 * KIB, 0))
        };
        let mut cells = vec![Step::Load(write(5.0))];
        for threads in DIRTH_AXIS {
            for queue_depth in DIRTH_AXIS {
                cells.push(Step::Load(Load { queue_depth, threads, ..self.random(4 * KIB, self.choice.read_percent) }));
            }
        }
        let mut last = Vec::new();
        for demand in [Demand::Max, Demand::Mid, Demand::Min] {
            last.push(Step::Load(write(60.0)));
            let histogram = Load {
                seconds: self.scale.seconds(600.0),
                variant: demand.words().into(),
                series: true,
                ..self.random(4 * KIB, self.choice.read_percent)
            };
            last.push(Step::Demand(demand, histogram));
        }
        vec![
            Stage::once("purge", vec![Step::Purge]),
            Stage::new("precondition", vec![Step::Load(write(1.0))], self.slow(ROUNDS_MAX * 30, None)),
            Stage::new("rounds", cells, self.steady(1, Metric::Iops, "IOPS with 32 threads and queue depth 32")),
            Stage::once("histograms", last),
        ]
    }

    fn composite(&self) -> Vec<Stage> {
        // The enterprise mix of JESD219: 40 % reads, and 5 % of the addresses get half of the requests.
        let sizes = "4K/67:8K/10:16K/7:32K/3:64K/3";
        let split = match self.choice.small_blocks {
            true => format!("512/4:1K/1:1536/1:2K/1:2560/1:3K/1:3584/1:{sizes}"),
            false => sizes.replacen("67", "77", 1),
        };
        let mix = Mix { name: "composite".into(), block_split: Some(split), zones: Some("50/5:30/15:20/80".into()) };
        let cell = Load { mix: Some(mix), series: true, ..self.random(4 * KIB, 40) };
        vec![
            self.purge_and_fill(128 * KIB),
            Stage::new("rounds", vec![Step::Load(cell)], self.steady(0, Metric::Iops, "IOPS of the composite workload")),
        ]
    }
}

fn position(cells: &[Step], is: impl Fn(&Load) -> bool) -> usize {
    let found = cells.iter().position(|cell| matches!(cell, Step::Load(load) if is(load)));
    found.expect("the tracked cell is one of the matrix")
}
