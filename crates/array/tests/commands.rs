//! A command waits inside the engine until it is safe, on one lane and on several. No caller can forget a step.
//!
//! Members answer late and out of order, and so do superblock updates, which a recorder writes to every member.

mod support;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stria_array::Synced;
use stria_array::*;
use stria_block::*;
use support::*;

const MEMBERS: usize = 4;
const SECTORS: u64 = 1024;

/// Writes one sector to each member for each superblock update, and admits every member that is offered. Notes whether the last
/// update said "clean".
#[derive(Clone)]
struct TestRecorder(Vec<MemberId>, Rc<Cell<bool>>);

impl Recorder for TestRecorder {
    type Log = NoMetadata;
    type Newcomer = (MemberConfig, Option<usize>);

    fn admit(&mut self, _: MemberId, newcomer: &Self::Newcomer) -> Result<(MemberConfig, Option<usize>), Refusal> {
        Ok(newcomer.clone())
    }
    fn record_state(&mut self, state: &ArrayState, _: u64) -> Vec<MetadataWrite> {
        self.1.set(state.clean);
        self.0 = state.slots.iter().filter_map(|slot| Some(slot.member.as_ref()?.member)).collect();
        let write = |&member: &MemberId| MetadataWrite {
            member,
            start_sector: DriveSector::new(SECTORS),
            data: Buffer::zeroed(SECTOR_BYTES).freeze(),
        };
        self.0.iter().map(write).collect()
    }
    fn record_intent(&mut self, _: &[u64], _: &[u64]) -> Vec<MetadataWrite> {
        Vec::new()
    }
    fn log_layout(&self) {}
}

struct Array {
    lanes: Vec<ArrayDevice<TestRecorder>>,
    now: Nanos,
    seed: RefCell<u64>,
    is_clean: Rc<Cell<bool>>,
    /// Of each member, on every lane.
    faults: Vec<Rc<RefCell<FaultPlan>>>,
    ended: Vec<Completion>,
    /// The last lane takes no turn before this time.
    sleeps_until: Nanos,
}

impl Array {
    fn new(level: Level, lane_count: usize, seed: u64) -> Self {
        let geometry = Geometry::new(level, level.default_layout(), 8, &[SECTORS; MEMBERS]).expect("it fits");
        let config = ArrayConfig::optimal("test", geometry);
        let ports = Ports::new(lane_count).with_groups(8);
        let is_clean: Rc<Cell<bool>> = Rc::default();
        let recorder = TestRecorder(Vec::new(), Rc::clone(&is_clean));
        let faults: Vec<Rc<RefCell<FaultPlan>>> = (0..MEMBERS).map(|_| Rc::default()).collect();
        let (seed, lanes, ended) = (RefCell::new(seed * 1000), Vec::new(), Vec::new());
        let mut array = Self { lanes, now: 0, seed, is_clean, faults, ended, sleeps_until: 0 };
        for lane in 0..lane_count {
            let devices = array.faults.iter().map(|plan| array.drive(Rc::clone(plan))).collect();
            array.lanes.push(ArrayDevice::on_lane(&config, devices, (lane == 0).then(|| recorder.clone()), 0, &ports, lane));
        }
        array
    }

    fn drive(&self, plan: Rc<RefCell<FaultPlan>>) -> Box<dyn BlockDevice> {
        *self.seed.borrow_mut() += 1;
        Box::new(LateDevice::new(FaultDevice::new(RamDevice::new(SECTORS + 8), plan), *self.seed.borrow()))
    }

    fn poll(&mut self) {
        let awake = self.lanes.len() - usize::from(self.now < self.sleeps_until);
        self.lanes[..awake].iter_mut().for_each(|lane| lane.poll(self.now, &mut self.ended));
        let due = self.lanes[..awake].iter().filter_map(ArrayDevice::next_wake).min();
        let wakes = Some(self.sleeps_until).filter(|&at| at > self.now);
        self.now = due.into_iter().chain(wakes).min().unwrap_or(self.now + 1).max(self.now);
    }

    /// Lets time pass until a command is answered; `look` is called before each turn and after it.
    fn answer(&mut self, id: CommandId, mut look: impl FnMut(&Self, bool)) -> Result<(), Refusal> {
        for _ in 0..100_000 {
            look(self, true);
            self.poll();
            look(self, false);
            if let Some(answer) = self.lanes[0].take_answer(id) {
                return answer;
            }
        }
        panic!("a command takes for ever");
    }

    fn carry_out(&mut self, command: Command<(MemberConfig, Option<usize>)>) -> Result<(), Refusal> {
        let id = self.lanes[0].begin(command);
        self.answer(id, |_, _| {})
    }

    /// Gives the command that brings back the member of a slot.
    fn begin_return(&mut self, slot: usize) -> CommandId {
        self.begin_add(Some(slot))
    }

    /// Gives the command that adds a drive: the former member of a slot, or a new spare.
    fn begin_add(&mut self, slot: Option<usize>) -> CommandId {
        self.lanes.iter().for_each(|lane| lane.offer(7, self.drive(Rc::default())));
        let id = MemberId(self.lanes[0].member_count());
        let config = MemberConfig { recovered: Synced::up_to(0), ..MemberConfig::in_sync(id, SECTORS) };
        self.lanes[0].begin(Command::Add { newcomer: (config, slot), offer: 7, replaces: None })
    }

    fn role(&self, lane: usize, member: usize) -> MemberState {
        self.lanes[lane].status().members[member].state
    }
}

fn each(mut story: impl FnMut(Array)) {
    for level in [Level::Raid1, Level::Raid5, Level::Raid6] {
        for lane_count in [1, 3] {
            for seed in 0..10 {
                story(Array::new(level, lane_count, seed));
            }
        }
    }
}

/// R92: an administrator may unplug the drive after the answer.
#[test]
fn a_member_is_failed_by_command_once_its_drop_is_durable() {
    each(|mut array| {
        array.carry_out(Command::Fail(MemberId(2))).expect("redundant");
        assert!(array.lanes[0].with_engine(|engine| engine.drops_are_committed()), "answered before the drop is durable");
    });
}

/// R11. Without the wait the drive would be back at once.
#[test]
fn a_member_returns_only_after_its_drop_is_durable_on_every_lane() {
    each(|mut array| {
        array.lanes[0].begin(Command::Fail(MemberId(2)));
        let id = array.begin_return(2);
        let mut waited = 0;
        let mut durable = false;
        let answer = array.answer(id, |array, before| {
            let committed = |lane: &ArrayDevice<TestRecorder>| lane.with_engine(|engine| engine.drops_are_committed());
            if before {
                durable |= array.lanes.iter().all(committed);
            }
            let is_back = array.lanes.iter().any(|lane| lane.member_count() > MEMBERS);
            assert!(!is_back || durable || array.lanes.iter().all(committed), "back before its drop was durable");
            waited += usize::from(!is_back);
        });
        answer.expect("its slot is empty");
        assert!(waited > 2, "it waits for the update");
        for lane in 0..array.lanes.len() {
            assert_eq!(array.lanes[lane].status().slots[2], Some(MemberId(MEMBERS)), "lane {lane}");
        }
    });
}

/// R11. The update after the refusal would carry the drop and the return; a member that missed it would look as if it had never left.
#[test]
fn a_member_does_not_return_while_its_drop_cannot_be_recorded_and_a_new_spare_may_join() {
    for lane_count in [1, 3] {
        for seed in 0..10 {
            let mut array = Array::new(Level::Raid5, lane_count, seed);
            let run = |array: &mut Array, span: Nanos| {
                for _ in 0..span / 100_000 {
                    array.poll();
                    array.now += 100_000;
                }
            };
            let write = |array: &mut Array| {
                let from = std::iter::once(Buffer::zeroed(bytes(256)).freeze()).collect();
                let operation = Operation::Write { from, fua: false };
                array.lanes[0].submit(Request { tag: 1, start_sector: 0, sectors: 256, operation });
            };
            // Superblocks say "dirty" from now on.
            write(&mut array);
            while array.ended.is_empty() {
                array.poll();
            }
            let others: Vec<_> = [0, 1, 3].map(|member| Rc::clone(&array.faults[member])).into();
            others.iter().for_each(|plan| plan.borrow_mut().bad.push((SECTORS..SECTORS + 8, FaultKind::Write)));
            array.faults[2].borrow_mut().gone = true;
            write(&mut array);
            run(&mut array, 100_000_000);
            let is_dropped = |lane: &ArrayDevice<TestRecorder>| lane.status().members[2].state == MemberState::Failed;
            assert!(array.lanes.iter().any(is_dropped), "{lane_count} lanes, seed {seed}: the write met the member that is gone");
            let is_recorded =
                |array: &Array| array.lanes.iter().all(|lane| lane.with_engine(|engine| engine.drops_are_committed()));
            assert!(!is_recorded(&array), "no member takes superblocks");
            let id = array.begin_return(2);
            assert_eq!(array.answer(id, |_, _| {}), Err(Refusal::DropsNotDurable));
            array.lanes.iter().for_each(|lane| drop(lane.withdraw(7)));
            let id = array.begin_add(None);
            array.answer(id, |_, _| {}).expect("a new drive is the remedy");
            others.iter().for_each(|plan| plan.borrow_mut().bad.clear());
            run(&mut array, 3_000_000_000);
            assert!(is_recorded(&array), "it is written again by itself");
            assert_eq!(array.lanes[0].status().slots[2], Some(MemberId(MEMBERS)), "the spare has the slot");
        }
    }
}

#[test]
fn a_refused_drive_changes_nothing_and_can_be_taken_back() {
    each(|mut array| {
        let id = array.begin_return(1);
        let answer = array.answer(id, |_, _| {});
        assert!(matches!(answer, Err(Refusal::SlotTaken(_))), "{answer:?}");
        assert!(array.lanes.iter().all(|lane| lane.member_count() == MEMBERS && lane.withdraw(7).is_some()));
        // The next drive gets the same handle.
        array.carry_out(Command::Fail(MemberId(1))).expect("redundant");
        let id = array.begin_return(1);
        array.answer(id, |_, _| {}).expect("now it is empty");
    });
}

/// Each lane learns of a drop in its own time. A member that failed on some lanes only is removed once all lanes have dropped it.
#[test]
fn a_member_is_removed_when_every_lane_has_dropped_it() {
    each(|mut array| {
        // The member's own drive reports the failure to the first lane, and the others receive it.
        array.lanes[0]
            .with_engine(|engine| engine.lose(MemberId(0), stria_block::IoError::new(stria_block::ErrorKind::Gone, "gone")));
        array.carry_out(Command::Remove(MemberId(0))).expect("it has failed");
        assert!((0..array.lanes.len()).all(|lane| array.role(lane, 0) == MemberState::Failed));
        let answer = array.carry_out(Command::Remove(MemberId(1)));
        assert!(matches!(answer, Err(Refusal::InUse(_))), "{answer:?}");
    });
}

#[test]
fn commands_given_at_once_are_carried_out_in_order() {
    each(|mut array| {
        let fails = array.lanes[0].begin(Command::Fail(MemberId(3)));
        let again = array.lanes[0].begin(Command::Fail(MemberId(3)));
        let returns = array.begin_return(3);
        let stops = array.lanes[0].begin(Command::Stop);
        let late = array.lanes[0].begin(Command::Scrub { repair: false, from_sector: 0 });
        array.answer(fails, |_, _| {}).expect("redundant");
        let answer = array.answer(again, |_, _| {});
        assert!(matches!(answer, Err(Refusal::FailedAlready(_))), "{answer:?}");
        array.answer(returns, |_, _| {}).expect("its slot is empty");
        assert_eq!(array.answer(late, |_, _| {}), Err(Refusal::Stops));
        // A member that hangs may be failed, so that the stop ends.
        let fails = array.lanes[0].begin(Command::Fail(MemberId(MEMBERS)));
        array.answer(stops, |_, _| {}).expect("it stops");
        assert!(array.lanes[0].has_stopped() && array.lanes.iter().all(|lane| lane.with_engine(|engine| engine.is_stopped())));
        array.answer(fails, |_, _| {}).expect("it is not in sync yet");
    });
}

fn write(start_sector: u64, sectors: u64) -> Request {
    let from = std::iter::once(Buffer::zeroed(bytes(sectors)).freeze()).collect();
    Request { tag: 1, start_sector, sectors, operation: Operation::Write { from, fua: false } }
}

/// A lane that had stopped got the part of a write that another lane's client had sent, and superblocks did not say "clean".
#[test]
fn a_stop_waits_for_what_lanes_do_for_each_other() {
    each(|mut array| {
        let last = array.lanes.len() - 1;
        array.sleeps_until = 50_000_000;
        array.lanes[last].submit(write(64, 64));
        let stops = array.lanes[0].begin(Command::Stop);
        array.answer(stops, |_, _| {}).expect("it stops");
        assert_eq!(array.ended.len(), 1, "the write has its answer");
        assert_eq!(array.ended[0].result, Ok(()));
        assert!(array.is_clean.get(), "the last superblocks say \"clean\"");
    });
}

#[test]
fn a_raid_0_stops_on_every_lane() {
    for lane_count in [1, 3] {
        let mut array = Array::new(Level::Raid0, lane_count, 1);
        array.carry_out(Command::Stop).expect("it stops");
        assert!(array.lanes.iter().all(|lane| lane.with_engine(|engine| engine.is_stopped())));
    }
}

/// The coordinator may lose a member and its replacement just before it admits another one to their slot. The other lanes learn
/// of both losses after they have admitted it.
#[test]
fn a_drive_returns_to_a_slot_that_has_just_lost_its_member_and_the_replacement() {
    let (mut returned, mut refused) = (0, 0);
    for (level, lane_count) in [(Level::Raid1, 1), (Level::Raid1, 3), (Level::Raid6, 3)] {
        for turn in 0..60 {
            let mut array = Array::new(level, lane_count, 1);
            array.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.pause(true)));
            array.lanes.iter().for_each(|lane| lane.offer(9, array.drive(Rc::default())));
            let (old, replacement) = (MemberId(1), MemberId(MEMBERS));
            let newcomer = (MemberConfig::in_sync(replacement, SECTORS), None);
            array.carry_out(Command::Add { newcomer, offer: 9, replaces: Some(old) }).expect("it replaces a member");
            let id = array.begin_return(1);
            let mut turns = 0;
            let answer = array.answer(id, |array, before| {
                if before && turns == turn {
                    array.lanes[0].with_engine(|engine| {
                        [old, replacement]
                            .map(|member| engine.lose(member, stria_block::IoError::new(stria_block::ErrorKind::Gone, "pulled")))
                    });
                }
                turns += usize::from(before);
            });
            (0..200).for_each(|_| array.poll());
            if let Err(refusal) = answer {
                refused += 1;
                assert!(matches!(refusal, Refusal::SlotTaken(_)), "{refusal:?}");
                continue;
            }
            returned += 1;
            for lane in 0..lane_count {
                assert_eq!(array.lanes[lane].status().slots[1], Some(MemberId(MEMBERS + 1)), "{level}, lane {lane}, turn {turn}");
            }
        }
    }
    assert!(returned > 0 && refused > 0, "{returned} returned, {refused} were refused");
}
