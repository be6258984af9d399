//! The parameters of a modelled SSD. Profiles give their values and sources: `profiles/README.md`.

use super::map::{Policy, Shape};
use crate::bounds::{RATE, TIME_NS, out_of_bounds};
use serde::Deserialize;
use stria_block::Nanos;

/// 4 KiB: the unit of the page map. Source: every drive of the profiles maps 4 KiB or, the SF-2281, more finely.
pub const PAGE_BYTES: u64 = 4096;

/// An SSD. All rates are payload, in bytes a second.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdConfig {
    /// Its usable size.
    pub capacity_bytes: u64,
    /// Flash beyond that, relative to `capacity_bytes`.
    pub spare_share: f64,
    /// The rule by which a block is collected.
    #[serde(default = "greedy")]
    pub policy: Policy,
    /// The dies. Each does one thing at a time.
    pub dies: u32,
    /// Buses between the dies and the controller.
    pub channels: u32,
    /// Payload of one channel.
    pub channel_bytes_per_s: u64,
    /// What one program of a die takes in: its planes together. Reads of neighbours up to as much, in one request or one after
    /// the other, take one `read_ns`.
    pub program_bytes: u64,
    /// Array read.
    pub read_ns: Nanos,
    /// The largest deviation of a read from that, relative to it, in both directions: pages of a cell and retries differ.
    #[serde(default)]
    pub read_spread: f64,
    /// Read of pages that were never written, or trimmed since, where the drive answers it from its map: neither die nor channel
    /// takes part. Without it, such a read takes as long as any other.
    pub unwritten_read_ns: Option<Nanos>,
    /// Program, the mean of a block's pages.
    pub program_ns: Nanos,
    /// Erase of a block on all planes of a die.
    pub erase_ns: Nanos,
    /// Programs that fill such a block.
    pub block_programs: u32,
    /// The time that a read waits for a program or an erase to be suspended; without it, for its end.
    pub suspend_ns: Option<Nanos>,
    /// Reads that go before one program at most, by suspending it or while it waits.
    #[serde(default = "yields")]
    pub program_yields: u32,
    /// Processors that take commands.
    #[serde(default = "one")]
    pub processors: u32,
    /// A processor's time for a read, for each 128 KiB or part of them.
    pub command_read_ns: Nanos,
    /// The same for a write, a trim and a flush.
    pub command_write_ns: Nanos,
    /// Latency of a read that occupies nothing, beside flash, channel and link.
    pub read_latency_ns: Nanos,
    /// Latency of a write that occupies nothing, beside the link.
    pub write_latency_ns: Nanos,
    /// True if writes wait for programs in the firmware: that latency is stretched by 1 / (1 - u) in the mean, with a tail
    /// (`drive`); u is the share of time that the dies program.
    #[serde(default)]
    pub write_contention: bool,
    /// Memory for writes that are not yet programmed.
    pub buffer_bytes: u64,
    /// True if the buffer survives the loss of power, so that a flush costs nothing.
    pub power_loss_protection: bool,
    /// Commands that the drive works on at once: 32 with SATA's NCQ.
    pub slots: u32,
    /// The link.
    pub link_bytes_per_s: u64,
    /// Half-duplex (SATA): reads and writes share the link.
    pub link_half_duplex: bool,
    /// The part of the flash that is programmed with one bit a cell first, on some drives.
    pub slc: Option<SlcConfig>,
    /// Bytes that are stored for a byte written: below 1 with a compressing controller and data that can be compressed.
    #[serde(default = "all")]
    pub stored_share: f64,
    /// Share of the drive's blocks that collection in idle time tries to keep free; 0 without such.
    #[serde(default)]
    pub idle_free_share: f64,
    /// Tracked pages at most: see [`sampled`](super::sampled).
    #[serde(default = "tracked")]
    pub tracked_pages_max: u64,
}

/// An SLC cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcConfig {
    /// What it holds.
    pub bytes: u64,
    /// Program in it.
    pub program_ns: Nanos,
}

fn greedy() -> Policy {
    Policy::Greedy
}

fn one() -> u32 {
    1
}

/// 2: calibrated on mixes of a D3700 (`profiles/drives/d3700.toml`), the only drive of which mixes are published.
fn yields() -> u32 {
    2
}

fn all() -> f64 {
    1.0
}

/// 1,048,576 tracked pages, 9 MiB: the spread of the write amplification between seeds is below 0.5 % (`tests/amplification.rs`).
fn tracked() -> u64 {
    1 << 20
}

/// Idle for so long, a drive begins to collect. Source: none; the publications idle for 30 minutes, loads for microseconds.
pub const IDLE_AFTER_NS: Nanos = 1_000_000_000;

/// Tracked pages of a tracked block: with it greedy collection lies within 1 % of its limit for large blocks from a spare
/// share of 0.07 on (`queueing::amplification_greedy`), as blocks over all dies of a real drive have more pages still.
pub const TRACKED_BLOCK_PAGES: u32 = 512;

/// 65,536: pages of an SSD that an advice tracks at most. As many as a profile says take no longer to settle, but longer to be
/// made (`tests/amplification.rs`: a drive of which one page in sixteen is tracked amplifies as the whole one).
pub const ADVICE_TRACKED_PAGES_MAX: u64 = 1 << 16;

/// 20: the largest spare area over the data that the flash holds. Source: none; data that compress to a tenth leave 10 free.
const EFFECTIVE_SPARE_SHARE_MAX: f64 = 20.0;

/// 1 GiB: a smaller drive has too few blocks to collect. 1 PiB: a larger one would overflow.
pub const CAPACITY_BYTES: std::ops::RangeInclusive<u64> = 1 << 30..=1 << 50;

/// 1,048,576: the most of anything that is counted. Source: none; drives have a thousandth of it.
const COUNT: std::ops::RangeInclusive<u64> = 1..=1 << 20;

impl SsdConfig {
    /// The reason why there is no such drive, if there is none.
    pub fn refusal(&self) -> Option<String> {
        let counts = [
            ("dies", self.dies.into()),
            ("channels", self.channels.into()),
            ("channel_bytes_per_s", self.channel_bytes_per_s),
            ("read_ns", self.read_ns),
            ("program_ns", self.program_ns),
            ("block_programs", self.block_programs.into()),
            ("processors", self.processors.into()),
            ("buffer_bytes", self.buffer_bytes),
            ("slots", self.slots.into()),
            ("link_bytes_per_s", self.link_bytes_per_s),
            ("slc.program_ns", self.slc.map_or(1, |slc| slc.program_ns)),
        ];
        let shares = [
            ("spare_share", self.spare_share, 10.0),
            ("stored_share", self.stored_share, 1.0),
            ("read_spread", self.read_spread + f64::MIN_POSITIVE, 1.0),
            ("idle_free_share", self.idle_free_share + f64::MIN_POSITIVE, 1.0),
        ];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Some(format!("{name} must be above 0"));
        }
        if let Some((name, _, most)) = shares.into_iter().find(|(_, share, most)| !(*share > 0.0 && share <= most)) {
            return Some(format!("{name} must lie above 0, and be at most {most}"));
        }
        let bounded = [
            ("dies", self.dies.into(), COUNT),
            ("channels", self.channels.into(), COUNT),
            ("processors", self.processors.into(), COUNT),
            ("slots", self.slots.into(), COUNT),
            ("block_programs", self.block_programs.into(), COUNT),
            ("program_bytes", self.program_bytes, 0..=16 << 20),
            ("read_ns", self.read_ns, TIME_NS),
            ("unwritten_read_ns", self.unwritten_read_ns.unwrap_or(0), TIME_NS),
            ("program_ns", self.program_ns, TIME_NS),
            ("erase_ns", self.erase_ns, TIME_NS),
            ("suspend_ns", self.suspend_ns.unwrap_or(0), TIME_NS),
            ("command_read_ns", self.command_read_ns, TIME_NS),
            ("command_write_ns", self.command_write_ns, TIME_NS),
            ("read_latency_ns", self.read_latency_ns, TIME_NS),
            ("write_latency_ns", self.write_latency_ns, TIME_NS),
            ("slc.program_ns", self.slc.map_or(0, |slc| slc.program_ns), TIME_NS),
            ("channel_bytes_per_s", self.channel_bytes_per_s, RATE),
            ("link_bytes_per_s", self.link_bytes_per_s, RATE),
            ("buffer_bytes", self.buffer_bytes, 1..=1 << 40),
        ];
        if let Some(sentence) = out_of_bounds(bounded) {
            return Some(sentence);
        }
        if !CAPACITY_BYTES.contains(&self.capacity_bytes) {
            return Some(format!("capacity_bytes is {}: from 1 GiB to 1 PiB can be modelled", self.capacity_bytes));
        }
        if !self.program_bytes.is_multiple_of(PAGE_BYTES) || self.program_bytes == 0 {
            return Some("program_bytes must be whole pages of 4 KiB".to_owned());
        }
        let tracked = 1 << 14..=1 << 24;
        if !tracked.contains(&self.tracked_pages_max) {
            return Some("tracked_pages_max must lie between 16,384 and 16,777,216".to_owned());
        }
        self.spare_refusal()
    }

    /// The reason why the spare area cannot be modelled, with as many tracked pages as the profile says or as an advice takes.
    fn spare_refusal(&self) -> Option<String> {
        let share = self.effective_spare_share();
        if share > EFFECTIVE_SPARE_SHARE_MAX {
            let most = EFFECTIVE_SPARE_SHARE_MAX;
            return Some(format!(
                "spare_share and stored_share leave {share:.3} of the capacity free: {most} at most can be modelled"
            ));
        }
        let tracked = [self.tracked_pages_max, self.tracked_pages_max.min(ADVICE_TRACKED_PAGES_MAX)];
        let logical = tracked.map(|most| (self.pages() / self.pages().div_ceil(most)) as u32);
        let lacks = logical.into_iter().find(|&pages| !Shape::with_spare(pages, TRACKED_BLOCK_PAGES, share).has_spare())?;
        // Two blocks beside those that hold no data: see `Shape::has_spare`.
        let least = (f64::from(2 * TRACKED_BLOCK_PAGES) / f64::from(lacks) * 1e3).ceil() / 1e3;
        Some(format!("spare_share is {}: at least {least} can be modelled", self.spare_share))
    }

    /// Pages that the host sees.
    pub fn pages(&self) -> u64 {
        self.capacity_bytes / PAGE_BYTES
    }

    /// The spare share for data as compressible as they are.
    pub fn effective_spare_share(&self) -> f64 {
        (1.0 + self.spare_share) / self.stored_share - 1.0
    }

    /// Memory for reads between flash and link: a program unit for each channel, as a channel holds one page while it moves it.
    /// Reads that find it full wait, so that a few programming dies keep the link from being full.
    pub fn read_buffer_bytes(&self) -> u64 {
        u64::from(self.channels) * self.program_bytes
    }

    /// Sequential programming of all dies, in bytes a second, with erases.
    pub fn program_bytes_per_s(&self) -> f64 {
        let erase = self.erase_ns as f64 / f64::from(self.block_programs);
        f64::from(self.dies) * self.program_bytes as f64 * 1e9 / (self.program_ns as f64 + erase)
    }
}
