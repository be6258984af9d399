//! What must be durable on members before what: dirty before the first write, write-intent bits before the rows they cover, a
//! dropped member in the others' superblocks before the write is acknowledged, clean only when nothing is in flight.
//! Method: the recorder's writes carry their meaning. A wrapper below the array notes them when they are durable on enough
//! members, and checks every data write and every acknowledgement against them.

mod support;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use stria_array::*;
use stria_block::*;
use support::nowhere::Nowhere;
use support::*;

const METADATA_SECTORS: u64 = 8;
const CHUNK: u64 = 16;

/// The state that the members' metadata record, once all writes of an update have ended.
#[derive(Default)]
struct Told {
    dirty: bool,
    bits: BTreeSet<u64>,
    dropped: BTreeSet<usize>,
    data_in_flight: usize,
    /// The member whose writes fail from now on, so that it is dropped.
    lost: Option<usize>,
}

/// The effect of an update, which is applied when the last of its writes is durable.
enum Effect {
    State { clean: bool, dropped: BTreeSet<usize> },
    Intent { set: Vec<u64>, clear: Vec<u64> },
}

/// By update: the members that have not written it yet, and its effect; `None`: it was applied.
type Open = Rc<RefCell<Vec<(BTreeSet<usize>, Option<Effect>)>>>;

/// Applies updates that are durable on every member that counts. A dropped member is not waited for.
fn apply(open: &Open, told: &mut Told) {
    for (left, effect) in open.borrow_mut().iter_mut() {
        if left.iter().any(|member| Some(*member) != told.lost) {
            continue;
        }
        match effect.take() {
            Some(Effect::State { clean, dropped }) => (told.dirty, told.dropped) = (!clean, dropped),
            Some(Effect::Intent { set, clear }) => {
                clear.iter().for_each(|chunk| assert!(!set.contains(chunk)));
                told.bits.extend(set);
            }
            None => {}
        }
    }
}

#[derive(Clone)]
struct TellingRecorder {
    told: Rc<RefCell<Told>>,
    open: Open,
    members: Vec<MemberId>,
}

impl TellingRecorder {
    fn writes(&mut self, effect: Effect) -> Vec<MetadataWrite> {
        let number = self.open.borrow().len() as u8;
        self.open.borrow_mut().push((self.members.iter().map(|member| member.0).collect(), Some(effect)));
        let write = |&member: &MemberId| {
            let mut data = Buffer::zeroed(512);
            data[0] = number;
            MetadataWrite { member, start_sector: DriveSector::ZERO, data: data.freeze() }
        };
        self.members.iter().map(write).collect()
    }
}

impl Recorder for TellingRecorder {
    type Log = NoMetadata;
    type Newcomer = ();

    fn record_state(&mut self, state: &ArrayState, _unix_seconds: u64) -> Vec<MetadataWrite> {
        if state.clean {
            assert_eq!(self.told.borrow().data_in_flight, 0, "clean is said while writes run");
        }
        self.members = state.slots.iter().filter_map(|slot| Some(slot.member.as_ref()?.member)).collect();
        let dropped = state.failed.iter().map(|(member, _)| member.0).collect();
        self.writes(Effect::State { clean: state.clean, dropped })
    }
    fn record_intent(&mut self, set: &[u64], clear: &[u64]) -> Vec<MetadataWrite> {
        // A bit that is being cleared counts as clear from the order on.
        for chunk in clear {
            self.told.borrow_mut().bits.remove(chunk);
        }
        self.writes(Effect::Intent { set: set.to_vec(), clear: clear.to_vec() })
    }
    fn log_layout(&self) {}
}

/// Watches the requests that reach a member.
struct Watch<D> {
    inner: D,
    member: usize,
    told: Rc<RefCell<Told>>,
    open: Open,
    pending: Vec<(Tag, Option<usize>)>,
}

impl<D: BlockDevice> BlockDevice for Watch<D> {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }
    fn submit(&mut self, request: Request) {
        if let Operation::Write { from, fua } = &request.operation {
            if request.start_sector < METADATA_SECTORS {
                assert!(*fua, "metadata are written durably");
                self.pending.push((request.tag, Some(usize::from(from[0][0]))));
            } else {
                let mut told = self.told.borrow_mut();
                apply(&self.open, &mut told);
                assert!(told.dirty, "data is written while the members say clean");
                let rows = request.start_sector - METADATA_SECTORS..request.end_sector() - METADATA_SECTORS;
                for chunk in rows.start / CHUNK..rows.end.div_ceil(CHUNK) {
                    assert!(told.bits.contains(&chunk), "rows {rows:?} are written before their bit is durable");
                }
                told.data_in_flight += 1;
                self.pending.push((request.tag, None));
            }
        }
        self.inner.submit(request);
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.inner.poll(now, completions);
        for completion in &completions[before..] {
            let Operation::Write { .. } = completion.operation else { continue };
            let index = self.pending.iter().position(|(tag, _)| *tag == completion.tag).expect("it was submitted");
            let mut told = self.told.borrow_mut();
            let Some(number) = self.pending.swap_remove(index).1 else {
                told.data_in_flight -= 1;
                continue;
            };
            self.open.borrow_mut()[number].0.remove(&self.member);
            apply(&self.open, &mut told);
        }
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.inner.next_wake()
    }
}

#[test]
fn metadata_are_always_ahead_of_the_data_they_speak_of() {
    for (seed, geometry) in geometries(5, 8, 40).into_iter().enumerate() {
        // On these levels bits cover rows. RAID 10 counts in array sectors, which a member cannot see.
        if !matches!(geometry.level(), Level::Raid1 | Level::Raid5 | Level::Raid6) {
            continue;
        }
        let (told, open) = (Rc::<RefCell<Told>>::default(), Open::default());
        let sectors = geometry.member_sectors(0);
        let faults: Vec<Rc<RefCell<FaultPlan>>> = (0..5).map(|_| Rc::default()).collect();
        let member = |id| MemberConfig {
            data_start_sector: DriveSector::new(METADATA_SECTORS),
            ..MemberConfig::in_sync(MemberId(id), sectors)
        };
        let config = ArrayConfig {
            slots: (0..5).map(|id| SlotConfig { member: Some(member(id)), replacement: None }).collect(),
            intent: Some(IntentConfig { chunk_sectors: CHUNK, dirty: Vec::new() }),
            ..ArrayConfig::optimal("test", geometry.clone())
        };
        let mut chance = Chance::from_state(seed as u64);
        let devices = faults
            .iter()
            .enumerate()
            .map(|(member, plan)| {
                let faulty = FaultDevice::new(RamDevice::new(sectors + METADATA_SECTORS), Rc::clone(plan));
                let late = LateDevice::new(faulty, chance.any());
                Box::new(Watch { inner: late, member, told: Rc::clone(&told), open: Rc::clone(&open), pending: Vec::new() })
                    as Box<dyn BlockDevice>
            })
            .collect();
        let recorder =
            TellingRecorder { told: Rc::clone(&told), open: Rc::clone(&open), members: (0..5).map(MemberId).collect() };
        let mut array = ArrayDevice::new(&config, devices, recorder, 0);
        let (mut now, mut ended, mut written, mut acknowledged) = (0, Vec::new(), 0, 0);
        let mut failing = false;
        for step in 0..4000 {
            if written < 200 && chance.one_in(4) {
                let start = chance.below(geometry.capacity_sectors() - 12);
                let from = std::iter::once(Buffer::zeroed(bytes(1 + chance.below(11))).freeze()).collect::<Segments<Data>>();
                let count = from[0].len() as u64 / 512;
                array.submit(Request {
                    tag: written,
                    start_sector: start,
                    sectors: count,
                    operation: Operation::Write { from, fua: false },
                });
                written += 1;
            }
            if step == 300 {
                faults[2].borrow_mut().bad.push((METADATA_SECTORS..u64::MAX, FaultKind::Write));
                failing = true;
                told.borrow_mut().lost = Some(2);
            }
            array.poll(now, &mut ended);
            for completion in ended.drain(..) {
                completion.result.expect("within redundancy");
                acknowledged += 1;
                let status = array.status();
                if failing && status.members[2].state == MemberState::Failed {
                    assert!(told.borrow().dropped.contains(&2), "acknowledged before the others know that a member was dropped");
                }
            }
            // Time stands still now and then, and jumps when nothing is due.
            now = array.next_wake().unwrap_or(now + 1).max(now) + if written >= 200 { 100_000_000 } else { 0 };
        }
        assert_eq!(acknowledged, written, "{}", describe(&geometry));
        assert!(array.status().members[2].state == MemberState::Failed, "the member that fails writes was dropped");
        assert!(!told.borrow().dirty, "an idle array ends clean");
    }
}

/// If the process is killed before the drop is recorded, the next one relies on the member's log, and a power cut takes what that
/// log alone held.
#[test]
fn a_member_is_failed_by_command_only_when_no_write_relies_on_its_log_alone() {
    let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 16, &[1024; 4]).expect("it fits");
    let parity = MemberId(usize::from(geometry.stripe_map(0).parity[0]));
    let log = LogConfig { append_sectors_max: 1024, new_data_sectors_max: NEW_DATA_SECTORS_MAX, newest_only: false };
    let late = |seed| Box::new(LateDevice::new(RamDevice::new(Nowhere::START + 64), seed)) as Box<dyn BlockDevice>;
    let devices = (0..4).map(late).collect();
    let array = ArrayDevice::new(
        &ArrayConfig { log: Some(log), ..ArrayConfig::optimal("test", geometry) },
        devices,
        Nowhere::default(),
        0,
    );
    let (array, now) = (RefCell::new(array), Cell::new(0));
    let leans = || array.borrow().with_engine(|engine| engine.is_sole_log_holder(parity));
    let has_failed = || array.borrow().status().members[parity.0].state == MemberState::Failed;
    let poll = |ended: &mut Vec<Completion>| {
        now.set(now.get() + 1000);
        array.borrow_mut().poll(now.get(), ended);
        assert!(!has_failed() || !leans(), "failed while a write relies on it");
    };
    let settle = || (0..10_000).for_each(|_| poll(&mut Vec::new()));
    let write = |tag| {
        let from = std::iter::once(Buffer::zeroed(8 * SECTOR_BYTES).freeze()).collect();
        let operation = Operation::Write { from, fua: false };
        array.borrow_mut().submit(Request { tag, start_sector: 0, sectors: 8, operation });
        let mut ended = Vec::new();
        while ended.is_empty() {
            poll(&mut ended);
        }
        ended.remove(0).result.expect("it is redundant");
    };
    // The first write finds the array clean, and waits for superblock updates.
    write(1);
    settle();
    write(2);
    assert!(leans(), "acknowledged by its record");
    settle();
    assert!(!leans());
    write(3);
    assert!(leans());
    let command = array.borrow().begin(Command::Fail(parity));
    // Its rows become free when the write before has been dropped. From then on this write may not rely on the member either.
    write(4);
    assert!(!leans(), "acknowledged only once it is down");
    write(5);
    let answer = loop {
        if let Some(answer) = array.borrow().take_answer(command) {
            break answer;
        }
        poll(&mut Vec::new());
    };
    answer.expect("the array is redundant");
    assert!(has_failed());
}

/// R87: the client was answered, so nothing but a flush can say that the data is not there. No history of the simulator needs this,
/// as the atlas never takes more than redundancy replaces.
#[test]
fn a_flush_reports_a_write_that_was_acknowledged_early_and_lost() {
    for flaw in [None, Some(Flaw::LostBehindUntold)] {
        let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 16, &[1024; 4]).expect("it fits");
        let map = geometry.stripe_map(0);
        let [written, other] = [map.data[0], map.data[1]].map(|slot| MemberId(usize::from(slot)));
        let log = LogConfig { append_sectors_max: 1024, new_data_sectors_max: NEW_DATA_SECTORS_MAX, newest_only: false };
        let plans: Vec<Rc<RefCell<FaultPlan>>> = (0..4).map(|_| Rc::default()).collect();
        let faulty = |plan: &Rc<RefCell<FaultPlan>>| {
            Box::new(FaultDevice::new(RamDevice::new(Nowhere::START + 64), Rc::clone(plan))) as Box<dyn BlockDevice>
        };
        let config = ArrayConfig { log: Some(log), ..ArrayConfig::optimal("test", geometry) };
        let mut array = ArrayDevice::new(&config, plans.iter().map(faulty).collect(), Nowhere::default(), 0);
        array.with_engine(|engine| engine.set_flaw(flaw));
        let mut now = 0;
        support::carry_out(std::slice::from_mut(&mut array), &mut now, &mut Vec::new(), Command::Fail(other)).expect("redundant");
        let mut ask = |sectors: u64, operation: Operation| {
            array.submit(Request { tag: 1, start_sector: 0, sectors, operation });
            let mut ended: Vec<Completion> = Vec::new();
            // Long enough for what goes on behind the answer.
            for _ in 0..1000 {
                now += 1000;
                array.poll(now, &mut ended);
            }
            ended.remove(0).result
        };
        let write =
            || Operation::Write { from: std::iter::once(Buffer::zeroed(8 * SECTOR_BYTES).freeze()).collect(), fua: false };
        ask(8, write()).expect("all is well");
        plans[written.0].borrow_mut().bad.push((0..1024, FaultKind::Write));
        ask(8, write()).expect("its records are logged");
        let flushed = ask(0, Operation::Flush);
        assert_eq!(flushed.is_err(), flaw.is_none(), "{flaw:?}: {flushed:?}");
    }
}

/// The drop could be recorded only after that, and a crash before would bring the member back as one that was never away.
#[test]
fn no_member_is_failed_by_command_during_replay() {
    let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 16, &[1024; 4]).expect("it fits");
    let bytes = || Buffer::zeroed(8 * SECTOR_BYTES).freeze();
    let record = LogRecord {
        number: 1,
        stripe: 0,
        rows: StripSector::span(0..8),
        written: 0..1,
        parity: 0,
        partial: Some(bytes()),
        new_data: std::iter::once(bytes()).collect(),
        new_data_is_zeros: false,
    };
    let log = LogConfig { append_sectors_max: 1024, new_data_sectors_max: NEW_DATA_SECTORS_MAX, newest_only: false };
    let mut array = on_ram(&ArrayConfig { log: Some(log), replay: vec![record], ..ArrayConfig::optimal("test", geometry) });
    let command = array.begin(Command::Fail(MemberId(0)));
    let mut now = 0;
    let answer = loop {
        let replays = array.with_engine(|engine| engine.is_replaying());
        array.poll(now, &mut Vec::new());
        now += 500_000;
        if array.status().members[0].state == MemberState::Failed {
            assert!(!replays, "records are still to be carried out");
        }
        if let Some(answer) = array.take_answer(command) {
            break answer;
        }
    };
    answer.expect("they are carried out, and the array is redundant");
}
