//! An array as Stria makes it: the engine that serves drives, over modelled ones, in virtual time.
//!
//! The engine is bound to the members by its own driver, as everywhere. RAID 50 and 60 are a RAID 0 of arrays. Members keep no
//! data: all is zeros, so parity agrees. The array has the metadata, bitmap and log that `stria create` gives it, or none: a
//! controller keeps its own elsewhere. It is optimal, or its first member is missing ([`Condition`]).

use super::{Layout, Level};
use crate::backplane::{Backplane, DriveConfig};
use crate::model::{Ask, Kind, Model};
use crate::modelled::Modelled;
use crate::platform::PlatformConfig;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use stria_array::{ArrayConfig, ArrayDevice, Engine, Geometry, MemberConfig, MemberId, NoMetadata, Synced};
use stria_block::{BlockDevice, Completion, Data, Limits, Nanos, Operation, Pool, Request, Segments, Tag, bytes};
use stria_format::md::{LogChoice, MdRecorder};
use stria_sim::member_drive::UNIX_SECONDS;
use stria_sim::modelled::Created;

/// The member that the array lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None.
    Optimal,
    /// Its first member.
    Degraded,
    /// Its first member, and a spare, which is the last drive, is being filled.
    Rebuilding,
}

/// The state that members share: the drives, the time, and the completions that the engine has not seen.
struct Shared {
    backplane: Rc<RefCell<Backplane>>,
    /// The time at which requests reach members.
    now: Cell<Nanos>,
    /// The time as the engine was told.
    told: Cell<Nanos>,
    ended: RefCell<Vec<VecDeque<Tag>>>,
    /// All of `ended` together.
    ended_count: Cell<usize>,
    /// Where the members' data begin: superblocks, bitmap and write log lie before.
    data_start_sector: Cell<u64>,
    /// Requests to the members' data since they were last asked for.
    requests: Cell<u64>,
}

/// One drive of the backplane.
struct Slot {
    shared: Rc<Shared>,
    index: usize,
    size_sectors: u64,
}

impl Model for Slot {
    fn size_sectors(&self) -> u64 {
        self.size_sectors
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        let of_data = ask.kind == Kind::Flush || ask.start_sector >= self.shared.data_start_sector.get();
        self.shared.requests.update(|count| count + u64::from(of_data));
        self.shared.backplane.borrow_mut().submit(now.max(self.shared.now.get()), self.index, ask);
    }

    fn poll(&mut self, _now: Nanos, ended: &mut Vec<Tag>) {
        if self.shared.ended_count.get() == 0 {
            return;
        }
        let own = &mut self.shared.ended.borrow_mut()[self.index];
        self.shared.ended_count.update(|count| count - own.len());
        ended.extend(own.drain(..));
    }

    fn next_wake(&self) -> Option<Nanos> {
        (self.shared.ended_count.get() > 0 && !self.shared.ended.borrow()[self.index].is_empty()).then_some(0)
    }
}

impl Shared {
    fn has_ended(&self, members: &Range<usize>) -> bool {
        self.ended_count.get() > 0 && self.ended.borrow()[members.clone()].iter().any(|ended| !ended.is_empty())
    }
}

/// A span of RAID 50 or 60. The array above polls all spans whenever one member has answered; a span passes on only polls at
/// which something is due for it.
struct Span {
    array: Bound,
    limits: Limits,
    shared: Rc<Shared>,
    members: Range<usize>,
    /// The time as the span was told.
    told: Nanos,
    /// When the span next has something to do, unless a member answers.
    wake: Option<Nanos>,
    is_polled_always: bool,
}

impl Span {
    fn new(array: Bound, shared: &Rc<Shared>, members: Range<usize>, is_polled_always: bool) -> Self {
        let limits = array.limits().clone();
        Self { array, limits, shared: Rc::clone(shared), members, told: 0, wake: Some(0), is_polled_always }
    }
}

impl BlockDevice for Span {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        let told = self.shared.told.get();
        if self.told < told {
            self.told = told;
            self.array.set_now(told);
        }
        self.array.submit(request);
        self.wake = self.array.next_wake();
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let is_due = self.is_polled_always || self.wake.is_some_and(|at| at <= now);
        if is_due || self.shared.has_ended(&self.members) {
            self.told = now.max(self.told);
            self.array.poll(now, completions);
            self.wake = self.array.next_wake();
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.shared.has_ended(&self.members) { Some(0) } else { self.wake }
    }
}

/// An array of the engine on modelled drives (see the module).
pub struct EngineArray {
    shared: Rc<Shared>,
    device: Bound,
    size_sectors: u64,
    /// The array, or that of the first span, that is in the condition.
    first: Option<Bound>,
    /// When the engine next has something to do, unless a member answers.
    engine_wake: Option<Nanos>,
    /// True if a spare is filled: the engine begins a further window of that at each poll at which no member has answered.
    is_polled_always: bool,
    pool: Pool,
    completions: Vec<Completion>,
    members_ended: Vec<(usize, Tag)>,
}

impl EngineArray {
    /// An array over all drives of a backplane, which were made from `drives`, with what the platform adds: metadata and hedged
    /// reads.
    ///
    /// # Errors
    /// In words, if there is no such array.
    ///
    /// # Panics
    /// If a single drive, or a level without redundancy, is to lack a member.
    pub fn new(
        layout: &Layout,
        condition: Condition,
        platform: &PlatformConfig,
        drives: &[DriveConfig],
        backplane: Rc<RefCell<Backplane>>,
    ) -> Result<Self, String> {
        let redundant = layout.level.is_redundant();
        assert!(redundant || condition == Condition::Optimal, "{} cannot lack a member", layout.level);
        let ended = RefCell::new(vec![VecDeque::new(); drives.len()]);
        let [now, told, data_start_sector, requests] = [0; 4].map(Cell::new);
        let shared = Rc::new(Shared { backplane, now, told, ended, ended_count: Cell::new(0), data_start_sector, requests });
        let member = |(index, drive): (usize, &DriveConfig)| {
            let slot = Slot { shared: Rc::clone(&shared), index, size_sectors: layout.member_sectors };
            Box::new(Modelled::new(slot, drive.has_volatile_cache(), drive.is_rotational())) as Box<dyn BlockDevice>
        };
        let mut members: Vec<Box<dyn BlockDevice>> = drives.iter().enumerate().map(member).collect();
        let level = layout.level.in_engine();
        let (pool, completions, members_ended) = (Pool::default(), Vec::new(), Vec::new());
        let made = |device: Bound, first| Self {
            shared: Rc::clone(&shared),
            size_sectors: device.limits().size_sectors,
            device,
            first,
            engine_wake: Some(0),
            is_polled_always: condition == Condition::Rebuilding,
            pool,
            completions,
            members_ended,
        };
        if layout.level == Level::Single {
            return Ok(made(Bound::Single(members.remove(0)), None));
        }
        let mut spares = members.split_off(layout.members);
        let strip = layout.strip_sectors;
        let spans = layout.level.spans();
        let mut lower = Vec::new();
        for span in 0..spans {
            let mut own: Vec<_> = members.drain(..layout.members / spans).collect();
            let condition = if span == 0 { condition } else { Condition::Optimal };
            if condition == Condition::Rebuilding {
                own.append(&mut spares);
            }
            let array = if platform.metadata {
                let (array, data_start_sector) = with_metadata(level, strip, condition, own)?;
                shared.data_start_sector.set(data_start_sector);
                array
            } else {
                without(level, strip, condition, own)?
            };
            array.with_engine(|engine| engine.set_hedging(platform.hedges_reads));
            array.with_engine(Engine::set_members_keep_no_data);
            lower.push(array);
        }
        let first = lower[0].handle();
        let device = match spans {
            1 => lower.remove(0),
            _ => {
                let own = layout.members / spans;
                let span = |(index, array): (usize, Bound)| {
                    let is_polled_always = index == 0 && condition == Condition::Rebuilding;
                    Box::new(Span::new(array, &shared, index * own..(index + 1) * own, is_polled_always)) as Box<dyn BlockDevice>
                };
                let spans = lower.into_iter().enumerate().map(span).collect();
                without(stria_array::Level::Raid0, strip, Condition::Optimal, spans)?
            }
        };
        Ok(made(device, first))
    }

    /// Requests to the members' data since this was last asked for, whatever caused them. Metadata are not among them.
    pub fn take_requests(&mut self) -> u64 {
        self.shared.requests.take()
    }

    /// Holds a rebuild to so many sectors of each member a second, whatever clients feel.
    pub fn set_rebuild_speed(&mut self, sectors_per_s: u64) {
        let speed = Some(sectors_per_s);
        self.first.iter().for_each(|array| array.with_engine(|engine| engine.set_speed(speed, speed)));
    }

    /// Sectors of the spare that are filled; `None` if no rebuild runs.
    pub fn rebuilt_sectors(&self) -> Option<u64> {
        let status = match self.first.as_ref()? {
            Bound::Bare(array) => array.status(),
            Bound::Recorded(array) => array.status(),
            Bound::Single(_) => return None,
        };
        status.sweep.map(|sweep| sweep.done_sectors)
    }
}

/// An engine and its driver, or a drive without one. Members begin a request without a poll, so the engine needs none for the
/// sake of the time or of a request that it only passes on.
enum Bound {
    Single(Box<dyn BlockDevice>),
    Bare(ArrayDevice<NoMetadata>),
    Recorded(ArrayDevice<MdRecorder>),
}

impl Bound {
    /// A further handle of the same array; none of a drive.
    fn handle(&self) -> Option<Self> {
        match self {
            Self::Single(_) => None,
            Self::Bare(array) => Some(Self::Bare(array.clone())),
            Self::Recorded(array) => Some(Self::Recorded(array.clone())),
        }
    }

    /// Nothing happens to a drive, which has no engine.
    fn with_engine(&self, set: impl FnOnce(&mut Engine)) {
        match self {
            Self::Single(_) => {}
            Self::Bare(array) => array.with_engine(set),
            Self::Recorded(array) => array.with_engine(set),
        }
    }

    fn device(self) -> Box<dyn BlockDevice> {
        match self {
            Self::Single(drive) => drive,
            Self::Bare(array) => Box::new(array),
            Self::Recorded(array) => Box::new(array),
        }
    }

    fn limits(&self) -> &Limits {
        match self {
            Self::Single(drive) => drive.limits(),
            Self::Bare(array) => array.limits(),
            Self::Recorded(array) => array.limits(),
        }
    }

    /// Tells the time: requests are submitted then.
    fn set_now(&self, now: Nanos) {
        match self {
            Self::Single(_) => {}
            Self::Bare(array) => array.set_now(now),
            Self::Recorded(array) => array.set_now(now),
        }
    }

    fn submit(&mut self, request: Request) {
        match self {
            Self::Single(drive) => drive.submit(request),
            Self::Bare(array) => array.submit(request),
            Self::Recorded(array) => array.submit(request),
        }
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        match self {
            Self::Single(drive) => drive.poll(now, completions),
            Self::Bare(array) => array.poll(now, completions),
            Self::Recorded(array) => array.poll(now, completions),
        }
    }

    /// When a poll next makes progress.
    fn next_wake(&self) -> Option<Nanos> {
        match self {
            Self::Single(drive) => drive.next_wake(),
            Self::Bare(array) => array.next_wake_of_models(),
            Self::Recorded(array) => array.next_wake_of_models(),
        }
    }
}

/// An array as `stria create` makes it, and as it starts then; and where its members' data begin.
fn with_metadata(
    level: stria_array::Level,
    strip_sectors: u64,
    condition: Condition,
    mut members: Vec<Box<dyn BlockDevice>>,
) -> Result<(Bound, u64), String> {
    let spares = usize::from(condition == Condition::Rebuilding);
    let created = Created {
        drive_sectors: members.iter().map(|member| member.limits().size_sectors).min().unwrap_or(0),
        level,
        members: members.len() - spares,
        strip_sectors,
        log: LogChoice::Auto,
        lacks_first: condition != Condition::Optimal,
        spares,
    };
    let start = created.start()?;
    if condition != Condition::Optimal {
        members.remove(0);
    }
    // Members are equal, so it does not matter which of them a handle gets.
    members.truncate(start.drives.len());
    let first = start.config.slots.iter().find_map(|slot| slot.member.as_ref());
    let data_start_sector = first.map_or(0, |member| member.data_start_sector.get());
    Ok((Bound::Recorded(ArrayDevice::new(&start.config, members, start.recorder, UNIX_SECONDS)), data_start_sector))
}

/// An array without metadata, over consistent members.
fn without(
    level: stria_array::Level,
    strip_sectors: u64,
    condition: Condition,
    mut members: Vec<Box<dyn BlockDevice>>,
) -> Result<Bound, String> {
    let spares = usize::from(condition == Condition::Rebuilding);
    let sizes: Vec<u64> = members.iter().map(|member| member.limits().size_sectors).collect();
    let geometry = Geometry::new(level, level.default_layout(), strip_sectors, &sizes[spares..]);
    let mut config = ArrayConfig::optimal("modelled", geometry.map_err(|error| error.to_string())?);
    if condition != Condition::Optimal {
        // The engine counts the members that are there.
        members.remove(0);
        config.slots[0].member = None;
        let there = config.slots.iter_mut().filter_map(|slot| slot.member.as_mut());
        there.enumerate().for_each(|(index, member)| member.id = MemberId(index));
    }
    if spares > 0 {
        let sectors = config.geometry.member_sectors(0);
        let spare = MemberConfig::in_sync(MemberId(members.len() - 1), sectors);
        config.spares.push(MemberConfig { recovered: Synced::up_to(0), ..spare });
    }
    Ok(Bound::Bare(ArrayDevice::new(&config, members, NoMetadata, 0)))
}

impl EngineArray {
    /// The time of the engine's own next wake.
    fn engine_wake(&self) -> Option<Nanos> {
        self.engine_wake.map(|at| at.max(self.shared.now.get()))
    }

    /// The drives are at `now`: polls the engine, unless nothing has changed for it, as with most steps of a drive.
    ///
    /// # Panics
    /// If a request failed: modelled drives do not.
    fn go_on(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        let is_due = self.is_polled_always || !self.members_ended.is_empty() || self.engine_wake().is_some_and(|at| at <= now);
        if !is_due {
            return;
        }
        self.shared.ended_count.update(|count| count + self.members_ended.len());
        self.members_ended.drain(..).for_each(|(member, tag)| self.shared.ended.borrow_mut()[member].push_back(tag));
        self.poll_engine(now);
        for completion in self.completions.drain(..) {
            completion.result.expect("modelled drives do not fail");
            ended.push(completion.tag);
            if let Operation::Read { into } = completion.operation {
                into.into_iter().for_each(|buffer| self.pool.give(buffer));
            }
        }
    }

    fn poll_engine(&mut self, now: Nanos) {
        self.shared.now.set(now);
        self.shared.told.set(now);
        self.device.poll(now, &mut self.completions);
        self.engine_wake = self.device.next_wake();
    }
}

impl Model for EngineArray {
    fn size_sectors(&self) -> u64 {
        self.size_sectors
    }

    fn submit(&mut self, now: Nanos, ask: Ask) {
        // The engine knows the time of its last poll.
        let stepped_at = self.shared.backplane.borrow().stepped_at();
        if self.shared.now.get() < stepped_at {
            self.shared.told.set(stepped_at);
            self.device.set_now(stepped_at);
        }
        self.shared.now.set(now);
        let len = bytes(ask.sectors);
        let operation = match ask.kind {
            Kind::Read => Operation::Read { into: std::iter::once(self.pool.take(len)).collect() },
            Kind::Write { fua } => Operation::Write { from: zeros(len), fua },
            Kind::Trim => Operation::WriteZeroes { fua: false, unmap: true, fast: false },
            Kind::Flush => Operation::Flush,
        };
        self.device.submit(Request { tag: ask.tag, start_sector: ask.start_sector, sectors: ask.sectors, operation });
        self.engine_wake = self.device.next_wake();
    }

    fn poll(&mut self, now: Nanos, ended: &mut Vec<Tag>) {
        self.shared.backplane.borrow_mut().poll(now, &mut self.members_ended);
        self.go_on(now, ended);
    }

    fn advance(&mut self, until: Nanos, ended: &mut Vec<Tag>) -> Nanos {
        loop {
            let engine = if self.is_polled_always { self.next_wake() } else { self.engine_wake() };
            let limit = engine.map_or(until, |at| at.min(until));
            let stepped = self.shared.backplane.borrow_mut().advance(limit, &mut self.members_ended);
            let Some(now) = stepped.or(engine).filter(|&at| at <= until) else { return until };
            self.go_on(now, ended);
            if now == until || !ended.is_empty() {
                return now;
            }
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        [self.engine_wake(), self.shared.backplane.borrow().next_wake()].into_iter().flatten().min()
    }
}

/// 1 MiB: [`Data::zeros`] shares so many. Memory of its own for each larger write took most of a trial's time.
const SHARED_ZEROS_BYTES: usize = 1 << 20;

/// Zeros that take no memory of their own.
fn zeros(len: usize) -> Segments<Data> {
    (0..len).step_by(SHARED_ZEROS_BYTES).map(|from| Data::zeros(SHARED_ZEROS_BYTES.min(len - from))).collect()
}

/// An optimal array of the engine over any consistent members, to measure the cost of the engine itself: with superblocks, bitmap
/// and write log, or without.
///
/// # Errors
/// In words, if there is no such array.
pub fn over(
    level: stria_array::Level,
    strip_sectors: u64,
    metadata: bool,
    members: Vec<Box<dyn BlockDevice>>,
) -> Result<Box<dyn BlockDevice>, String> {
    let array = if metadata {
        with_metadata(level, strip_sectors, Condition::Optimal, members)?.0
    } else {
        without(level, strip_sectors, Condition::Optimal, members)?
    };
    Ok(array.device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_any_length_share_their_memory() {
        let parts = zeros((4 << 20) + 4096);
        assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), (4 << 20) + 4096);
        assert!(parts.iter().all(|part| part.as_ptr() == parts[0].as_ptr()));
    }
}
