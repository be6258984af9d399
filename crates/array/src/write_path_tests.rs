//! Whether a write is straight or a task, members and logs are asked for the same, in the same order, with the same
//! bytes; and clients get the same answers. Two engines get the same writes, one after another: one chooses the write path
//! itself, the other always takes a task. Of writes under way together, which tasks coalesce, members hold the same in the end,
//! also where a member is missing, rebuilding or being replaced, or a resync is due.

use crate::core::Fate;
use crate::{
    Action, ArrayConfig, Engine, Geometry, IntentConfig, Level, LogConfig, MemberConfig, MemberId, NEW_DATA_SECTORS_MAX, Synced,
    UpdateEnd, mirror_write, parity_write,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use stria_block::{Buffer, Completion, ErrorKind, IoError, Limits, Operation, Request, SECTOR_BYTES, bytes};

const STRIP_SECTORS: u64 = 8;
const MEMBER_SECTORS: u64 = 64;

/// An engine on members in memory, which answer at once and in order.
struct Rig {
    engine: Engine,
    members: Vec<Vec<u8>>,
    /// This member fails its next write.
    fails: Option<MemberId>,
    answers: VecDeque<Completion>,
    /// Requests to members and logs.
    asked: Vec<String>,
    /// Answers to clients.
    answered: Vec<String>,
}

impl Rig {
    fn new(config: &ArrayConfig, volatile_cache: bool) -> Self {
        let named = config.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten();
        let count = named.map(|member| member.id.0 + 1).max().expect("there are members");
        let limits = vec![Limits { volatile_cache, ..Limits::plain(MEMBER_SECTORS) }; count];
        let mut rig = Self {
            engine: Engine::new(config, &limits),
            members: vec![vec![0; bytes(MEMBER_SECTORS)]; count],
            fails: None,
            answers: VecDeque::new(),
            asked: Vec::new(),
            answered: Vec::new(),
        };
        rig.engine.pause(true);
        rig.run();
        rig
    }

    fn member_request(&mut self, member: MemberId, mut request: Request) {
        let Request { start_sector, sectors, .. } = request;
        let at = bytes(start_sector)..bytes(start_sector + sectors);
        let mut result = Ok(());
        let what = match &mut request.operation {
            Operation::Read { into } => {
                let mut rest = &self.members[member.0][at];
                for buffer in into {
                    let (front, back) = rest.split_at(buffer.len());
                    buffer.copy_from_slice(front);
                    rest = back;
                }
                "read".to_string()
            }
            Operation::Write { from, fua } => {
                let data: Vec<u8> = from.iter().flat_map(|data| data.to_vec()).collect();
                if self.fails == Some(member) {
                    self.fails = None;
                    result = Err(IoError::new(ErrorKind::Failed, "told to fail"));
                } else {
                    self.members[member.0][at].copy_from_slice(&data);
                }
                format!("write, fua {fua}: {:?}", data.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect::<Vec<_>>())
            }
            other => format!("{other:?}"),
        };
        self.asked.push(format!("{member:?} {start_sector}+{sectors} {what}"));
        self.answers.push_back(request.complete(result));
    }

    /// Carries out what the engine asks for, until that is nothing.
    fn run(&mut self) {
        loop {
            self.engine.run();
            let mut is_idle = true;
            while let Some(action) = self.engine.next_action() {
                is_idle = false;
                match action {
                    Action::Io { member, request } => self.member_request(member, request),
                    Action::Done(completion) => self.answered.push(format!("{} {:?}", completion.tag, completion.result)),
                    Action::Update(update) => {
                        self.asked.push(format!("{update:?}"));
                        self.engine.metadata_updated(UpdateEnd::Durable, &Vec::new());
                    }
                    Action::AppendLog { member, records, terms, fua } => {
                        self.asked.push(format!("{member:?} log, fua {fua}: {records:?} {terms:?}"));
                        self.engine.log_appended(member, Ok(()));
                    }
                    other => unreachable!("there is one lane: {other:?}"),
                }
            }
            let Some(mut completion) = self.answers.pop_front() else {
                if is_idle {
                    return;
                }
                continue;
            };
            let done = match self.engine.ends_client(&mut completion) {
                Fate::Client => Some(completion),
                Fate::Spent => None,
                Fate::Open => self.engine.complete(completion),
            };
            self.answered.extend(done.map(|done| format!("{} {:?}", done.tag, done.result)));
        }
    }

    /// As [`Rig::run`], and lets time pass: a write may wait for others to join it.
    fn run_until_answered(&mut self, count: usize) {
        self.run();
        while self.answered.len() < count {
            let Some(due) = self.engine.next_wake() else { return };
            self.engine.set_now(due);
            self.run();
        }
    }

    /// Submits a write, by a task if `by_task`. Returns whether it was straight.
    fn write(&mut self, write: &Write, tag: u64, by_task: bool) -> bool {
        let Write { start_sector, sectors, fill, fua, .. } = *write;
        let mut data = Buffer::zeroed(bytes(sectors));
        data.chunks_mut(SECTOR_BYTES).zip(fill..).for_each(|(sector, fill)| sector.fill(fill as u8));
        let operation = Operation::Write { from: std::iter::once(data.freeze()).collect(), fua };
        let mut request = Request { tag, start_sector, sectors, operation };
        let core = std::rc::Rc::clone(&self.engine.core);
        let mut sent = Vec::new();
        match by_task {
            true if core.geometry.level().parity_count() > 0 => parity_write::write_by_task(&core, &mut request, false),
            true => mirror_write::write_by_task(&core, &mut request),
            false => self.engine.submit(request, &mut |member, request| sent.push((member, request))),
        }
        let was_straight = !sent.is_empty();
        sent.into_iter().for_each(|(member, request)| self.member_request(member, request));
        was_straight
    }
}

#[derive(Clone, Debug)]
struct Write {
    start_sector: u64,
    sectors: u64,
    fill: u16,
    fua: bool,
    fails: Option<MemberId>,
}

fn config(level: Level, count: usize, has_log: bool, intent: bool) -> ArrayConfig {
    let geometry = Geometry::new(level, level.default_layout(), STRIP_SECTORS, &vec![MEMBER_SECTORS; count]).expect("valid");
    let log = LogConfig { append_sectors_max: 1024, new_data_sectors_max: NEW_DATA_SECTORS_MAX, newest_only: false };
    ArrayConfig {
        log: has_log.then_some(log),
        intent: intent.then(|| IntentConfig { chunk_sectors: 64, dirty: Vec::new() }),
        ..ArrayConfig::optimal("drivers", geometry)
    }
}

/// Writes within one strip, now and then with a member that fails.
fn writes(capacity_sectors: u64, count: usize) -> impl Strategy<Value = Vec<Write>> {
    let one = (0..capacity_sectors, 1..=STRIP_SECTORS, 0..256u16, any::<bool>(), 0..32 * count);
    let one = one.prop_map(move |(start_sector, sectors, fill, fua, fails)| {
        let sectors = sectors.min(STRIP_SECTORS - start_sector % STRIP_SECTORS);
        Write { start_sector, sectors, fill, fua, fails: (fails < count).then_some(MemberId(fails)) }
    });
    prop::collection::vec(one, 1..24)
}

fn cases() -> impl Strategy<Value = (ArrayConfig, bool, Vec<Write>)> {
    let arrays = vec![
        (Level::Raid1, 2),
        (Level::Raid1, 3),
        (Level::Raid10, 4),
        (Level::Raid4, 3),
        (Level::Raid5, 3),
        (Level::Raid5, 5),
        (Level::Raid5, 8),
        (Level::Raid6, 4),
        (Level::Raid6, 6),
        (Level::Raid6, 9),
    ];
    (prop::sample::select(arrays), any::<[bool; 3]>()).prop_flat_map(|((level, count), [log, intent, volatile_cache])| {
        let config = config(level, count, log && level.parity_count() > 0, intent);
        let writes = writes(config.geometry.capacity_sectors(), count);
        (Just(config), Just(volatile_cache), writes)
    })
}

/// The state in which an array starts.
#[derive(Clone, Copy, Debug)]
enum Start {
    Optimal,
    Missing,
    Rebuilding,
    Replaced,
    ResyncDue,
}

fn started(mut config: ArrayConfig, start: Start) -> ArrayConfig {
    let last = config.slots.len() - 1;
    match start {
        Start::Optimal => {}
        Start::Missing => config.slots[last].member = None,
        Start::Rebuilding => config.slots[last].member.as_mut().expect("it is there").recovered = Synced::up_to(8),
        Start::Replaced => {
            let source = config.slots[0].member.clone().expect("it is there");
            config.slots[0].replacement = Some(MemberConfig { id: MemberId(last + 1), recovered: Synced::up_to(8), ..source });
        }
        Start::ResyncDue => {
            config.synced = Synced::up_to(0);
            config.intent = config.intent.map(|intent| IntentConfig { dirty: vec![0], ..intent });
        }
    }
    config
}

/// Groups of writes that lie apart and are under way together, within and across strips.
fn groups() -> impl Strategy<Value = (ArrayConfig, bool, Vec<Vec<Write>>)> {
    let starts = vec![Start::Optimal, Start::Missing, Start::Rebuilding, Start::Replaced, Start::ResyncDue];
    (cases(), prop::sample::select(starts), any::<u64>()).prop_map(|((config, volatile_cache, writes), start, seed)| {
        let capacity = config.geometry.capacity_sectors();
        let mut groups: Vec<Vec<Write>> = vec![Vec::new()];
        for (index, mut write) in writes.into_iter().enumerate() {
            (write.fails, write.sectors) =
                (None, (write.sectors * (1 + seed.rotate_left(index as u32) % 4)).min(capacity - write.start_sector));
            let is_apart = |other: &Write| {
                other.start_sector + other.sectors <= write.start_sector
                    || write.start_sector + write.sectors <= other.start_sector
            };
            let group = groups.last_mut().expect("there is one");
            match group.len() < 4 && group.iter().all(is_apart) {
                true => group.push(write),
                false => groups.push(vec![write]),
            }
        }
        (started(config, start), volatile_cache, groups)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn writes_under_way_together_leave_the_same((config, volatile_cache, groups) in groups()) {
        let (mut straight, mut task) = (Rig::new(&config, volatile_cache), Rig::new(&config, volatile_cache));
        for group in &groups {
            for (tag, write) in (0..).zip(group) {
                straight.write(write, tag, false);
                task.write(write, tag, true);
            }
            for rig in [&mut straight, &mut task] {
                rig.run_until_answered(group.len());
                rig.answered.sort();
            }
            prop_assert_eq!(&straight.answered, &task.answered);
            prop_assert_eq!(straight.answered.len(), group.len(), "each is answered once: {:?}", &straight.answered);
            (straight.answered, task.answered) = (Vec::new(), Vec::new());
            prop_assert!(straight.members == task.members, "after {:?}", group);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn both_paths_ask_for_the_same((config, volatile_cache, writes) in cases()) {
        let (mut straight, mut task) = (Rig::new(&config, volatile_cache), Rig::new(&config, volatile_cache));
        let mut straight_count = 0;
        for (tag, write) in (0..).zip(&writes) {
            // Only writes fail: a read that failed would be tried another way by each.
            (straight.fails, task.fails) = (write.fails, write.fails);
            straight_count += usize::from(straight.write(write, tag, false));
            task.write(write, tag, true);
            straight.run();
            task.run();
            prop_assert_eq!(&straight.asked, &task.asked, "straight on the left, write {}: {:?}", tag, write);
            prop_assert_eq!(&straight.answered, &task.answered);
        }
        prop_assert!(straight.members == task.members);
        // The first write makes superblocks dirty, and after a failure the array is degraded.
        let is_plain = config.intent.is_none() && !volatile_cache && writes.iter().all(|write| write.fails.is_none());
        prop_assert!(!is_plain || straight_count + 1 == writes.len(), "{} of {} went straight", straight_count, writes.len());
    }
}
