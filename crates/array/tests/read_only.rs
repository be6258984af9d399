//! A read-only array changes no byte of its members: it refuses commands that would, and a scrub only reads.

mod support;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stria_array::Synced;
use stria_array::*;
use stria_block::*;
use support::*;

fn bytes_of(world: &World) -> Vec<Vec<u8>> {
    world.rams.iter().map(|ram| ram.0.borrow().memory().to_vec()).collect()
}

fn set_read_only(world: &mut World, read_only: bool) {
    world.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.set_read_only(read_only)));
}

#[test]
fn commands_are_refused_and_a_scrub_only_reads() {
    for lanes in [1, 2] {
        each_on(
            |_, _| lanes,
            "read-only",
            2..7,
            |world| {
                world.traffic(5);
                world.run_until("calm", |status| status.in_flight == 0 && status.clean);
                let spare = MemberId(world.geometry.slot_count());
                set_read_only(world, true);
                let before = bytes_of(world);
                let member = MemberId(0);
                for command in [Command::Fail(member), Command::Remove(member), Command::Replace { member, spare }] {
                    assert_eq!(world.carry_out(command), Err(Refusal::ReadOnly));
                }
                if !world.geometry.level().is_redundant() {
                    return;
                }
                let repair = Command::Scrub { repair: true, from_sector: 0 };
                assert_eq!(world.carry_out(repair), Err(Refusal::RepairOfReadOnly));
                assert_eq!(world.scrub(false), 0);
                // Sectors that cannot be read stay as they are, and cost no member its slot.
                world.faults[0].borrow_mut().bad.push((0..2, FaultKind::Read));
                world.scrub(false);
                world.check_all("read-only, with unreadable sectors");
                assert!(!world.faults[0].borrow().bad.is_empty(), "nothing was rewritten");
                assert_eq!(world.status().health, Health::Optimal);
                assert!(before == bytes_of(world), "bytes of a member changed");
                // Once the array may be written, the next scrub corrects them.
                set_read_only(world, false);
                if world.geometry.array_sector_of(0, MemberSector::ZERO, 1).0.is_some()
                    || world.geometry.level().parity_count() > 0
                {
                    world.scrub(false);
                    assert!(world.faults[0].borrow().bad.is_empty(), "rewritten");
                }
            },
        );
    }
}

#[test]
fn a_scrub_is_refused_where_a_crash_left_work() {
    let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 8, &[1024; 4]).expect("a geometry");
    let array = on_ram(&ArrayConfig { read_only: true, synced: Synced::up_to(0), ..ArrayConfig::optimal("test", geometry) });
    let scrub = Command::Scrub { repair: false, from_sector: 0 };
    assert_eq!(carry_out(&mut [array], &mut 0, &mut Vec::new(), scrub), Err(Refusal::ScrubBeforeResync));
}

/// Members' metadata begin here.
const METADATA: u64 = 1 << 16;

/// A drive that takes no writes unless it is `writable`, as one that was opened for reading. It may be gone.
struct Drive {
    ram: SharedRam,
    is_gone: Rc<Cell<bool>>,
    is_writable: Rc<Cell<bool>>,
    write_count: Rc<Cell<u64>>,
    waiting: Vec<Request>,
    ended: Vec<Completion>,
}

impl BlockDevice for Drive {
    fn limits(&self) -> &Limits {
        self.ram.limits()
    }
    fn submit(&mut self, request: Request) {
        let writes = matches!(request.operation, Operation::Write { .. } | Operation::WriteZeroes { .. });
        self.write_count.set(self.write_count.get() + u64::from(writes));
        let error = match (self.is_gone.get(), writes && !self.is_writable.get()) {
            (true, _) => IoError::new(ErrorKind::Gone, "the file was cut short"),
            (false, true) => IoError::new(ErrorKind::Failed, "the drive was opened for reading"),
            (false, false) => return self.waiting.push(request),
        };
        self.ended.push(request.complete(Err(error)));
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
        // Lanes share the memory: it has ended a request before another lane asks.
        self.waiting.drain(..).for_each(|request| self.ram.submit(request));
        self.ram.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        (!self.ended.is_empty() || !self.waiting.is_empty()).then_some(0)
    }
}

/// Writes one sector of each member for each update, and notes the members that superblocks call failed.
#[derive(Clone)]
struct Superblocks {
    member_count: usize,
    failed: Rc<RefCell<Vec<MemberId>>>,
}

impl Superblocks {
    fn writes(&self) -> Vec<MetadataWrite> {
        let write = |member| {
            let data = Buffer::zeroed(512).freeze();
            MetadataWrite { member: MemberId(member), start_sector: DriveSector::new(METADATA), data }
        };
        (0..self.member_count).map(write).filter(|write| !self.failed.borrow().contains(&write.member)).collect()
    }
}

impl Recorder for Superblocks {
    type Log = NoMetadata;
    type Newcomer = ();

    fn record_state(&mut self, state: &ArrayState, _unix_seconds: u64) -> Vec<MetadataWrite> {
        *self.failed.borrow_mut() = state.failed.iter().map(|&(member, _)| member).collect();
        self.writes()
    }
    fn record_intent(&mut self, _set: &[u64], _clear: &[u64]) -> Vec<MetadataWrite> {
        self.writes()
    }
    fn log_layout(&self) -> <Self::Log as LaneLog>::Layout {}
}

/// An array whose sectors hold their number, found on members that were opened for reading.
struct ReadOnly {
    lanes: Vec<ArrayDevice<Superblocks>>,
    is_gone: Vec<Rc<Cell<bool>>>,
    is_writable: Rc<Cell<bool>>,
    write_count: Rc<Cell<u64>>,
    failed: Rc<RefCell<Vec<MemberId>>>,
    capacity: u64,
    now: Nanos,
    ended: Vec<Completion>,
}

impl ReadOnly {
    fn new(config: ArrayConfig, lane_count: usize) -> Self {
        let config = ArrayConfig { read_only: true, ..config };
        let member_count = config.geometry.slot_count();
        let rams: Vec<SharedRam> = (0..member_count).map(|_| SharedRam::new(METADATA + 8)).collect();
        let capacity = config.geometry.capacity_sectors();
        let boxed = |ram: &SharedRam| Box::new(ram.clone()) as Box<dyn BlockDevice>;
        let before = ArrayConfig { read_only: false, intent: None, ..config.clone() };
        let mut before = ArrayDevice::new(&before, rams.iter().map(boxed).collect(), NoMetadata, 0);
        let (mut now, mut ended) = (0, Vec::new());
        for start_sector in 0..capacity {
            let mut buffer = Buffer::zeroed(512);
            buffer[..8].copy_from_slice(&start_sector.to_le_bytes());
            let operation = Operation::Write { from: std::iter::once(buffer.freeze()).collect(), fua: false };
            before.submit(Request { tag: 1, start_sector, sectors: 1, operation });
        }
        carry_out(&mut [before], &mut now, &mut ended, Command::Stop).expect("it stops");
        assert!(ended.iter().all(|completion| completion.result.is_ok()));
        let is_gone: Vec<Rc<Cell<bool>>> = rams.iter().map(|_| Rc::default()).collect();
        let (is_writable, write_count): (Rc<Cell<bool>>, Rc<Cell<u64>>) = Default::default();
        let devices = || {
            let drive = |(ram, is_gone): (&SharedRam, &Rc<Cell<bool>>)| Drive {
                ram: ram.clone(),
                is_gone: Rc::clone(is_gone),
                is_writable: Rc::clone(&is_writable),
                write_count: Rc::clone(&write_count),
                waiting: Vec::new(),
                ended: Vec::new(),
            };
            rams.iter().zip(&is_gone).map(|found| Box::new(drive(found)) as Box<dyn BlockDevice>).collect()
        };
        let failed: Rc<RefCell<Vec<MemberId>>> = Rc::default();
        let recorder = Superblocks { member_count, failed: Rc::clone(&failed) };
        let ports = Ports::new(lane_count).with_groups(8);
        let lane = |lane| ArrayDevice::on_lane(&config, devices(), (lane == 0).then(|| recorder.clone()), 0, &ports, lane);
        let lanes = (0..lane_count).map(lane).collect();
        Self { lanes, is_gone, is_writable, write_count, failed, capacity, now, ended: Vec::new() }
    }

    fn poll(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.poll(self.now, &mut self.ended));
    }

    /// Lets time pass, in steps of a millisecond.
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.now += 1_000_000;
            self.poll();
        }
    }

    /// The result of a request on any lane. It ends within ten seconds.
    fn ask(&mut self, lane: usize, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
        self.lanes[lane].submit(Request { tag: 1, start_sector, sectors, operation });
        for _ in 0..10_000 {
            self.poll();
            if let Some(completion) = self.ended.pop() {
                return completion;
            }
            self.now += 1_000_000;
        }
        panic!("sector {start_sector}: no answer within 10 s");
    }

    fn read_all(&mut self, when: &str) {
        for lane in 0..self.lanes.len() {
            for sector in 0..self.capacity {
                let read = Operation::Read { into: std::iter::once(Buffer::zeroed(512)).collect() };
                let Completion { result, operation, .. } = self.ask(lane, sector, 1, read);
                result.unwrap_or_else(|error| panic!("{when}: sector {sector}: {error}"));
                let Operation::Read { into } = operation else { panic!("a read comes back as a read") };
                assert_eq!(u64::from_le_bytes(into[0][..8].try_into().expect("8 bytes")), sector, "{when}");
            }
        }
    }

    /// The members that all lanes together call failed.
    fn lost(&self) -> Vec<usize> {
        let status = ArrayStatus::joined(self.lanes.iter().map(ArrayDevice::status).collect());
        assert_eq!(status.superblock_refused, None);
        (0..status.members.len()).filter(|&member| status.members[member].state == MemberState::Failed).collect()
    }
}

/// Before, the failure of one member was to be written to the superblocks of the others. They were opened for reading, so another
/// member was dropped for each.
#[test]
fn a_member_that_fails_costs_no_other_member() {
    let arrays = [(Level::Raid1, 2, 1), (Level::Raid1, 3, 2), (Level::Raid4, 3, 1), (Level::Raid5, 4, 1), (Level::Raid6, 5, 2)];
    let all = arrays.into_iter().chain([(Level::Raid10, 4, 1)]);
    for ((level, members, losses), lane_count) in all.flat_map(|array| [1, 2].map(|lane_count| (array, lane_count))) {
        let what = format!("{level} of {members} on {lane_count} lanes");
        let geometry = Geometry::new(level, level.default_layout(), 8, &vec![384; members]).expect("a geometry");
        let mut array = ReadOnly::new(ArrayConfig::optimal("test", geometry), lane_count);
        array.read_all(&what);
        for lost in 0..losses {
            array.is_gone[lost].set(true);
            array.read_all(&what);
            array.pass(3000);
            assert_eq!(array.lost(), (0..=lost).collect::<Vec<_>>(), "{what}");
        }
        let flushed = array.ask(0, 0, 0, Operation::Flush);
        assert!(flushed.result.is_ok(), "{what}: {:?}", flushed.result);
        assert_eq!((array.write_count.get(), array.failed.borrow().len()), (0, 0), "{what}: something was written");
        // One failure more is an error. It drops no member that others could still do without.
        if level != Level::Raid10 {
            let end = array.is_gone.len() - usize::from(level == Level::Raid1);
            array.is_gone[losses..end].iter().for_each(|is_gone| is_gone.set(true));
        }
        carry_out(&mut array.lanes, &mut array.now, &mut array.ended, Command::Stop)
            .unwrap_or_else(|error| panic!("{what}: {error:?}"));
        assert_eq!(array.write_count.get(), 0, "{what}: a stop has written");
    }
}

/// R6: the superblocks name the members that failed before the first write is acknowledged.
#[test]
fn what_failed_is_recorded_once_the_array_may_be_written_to() {
    for ((level, members), lane_count) in [(Level::Raid1, 3), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)]
        .into_iter()
        .flat_map(|array| [1, 2].map(|lane_count| (array, lane_count)))
    {
        let what = format!("{level} of {members} on {lane_count} lanes");
        let geometry = Geometry::new(level, level.default_layout(), 8, &vec![384; members]).expect("a geometry");
        let mut array = ReadOnly::new(ArrayConfig::optimal("test", geometry), lane_count);
        array.is_gone[1].set(true);
        array.read_all(&what);
        assert_eq!(array.lost(), [1], "{what}");
        assert_eq!(array.write_count.get(), 0, "{what}");
        array.is_writable.set(true);
        array.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.set_read_only(false)));
        for sector in 0..array.capacity {
            let mut buffer = Buffer::zeroed(512);
            buffer[..8].copy_from_slice(&sector.to_le_bytes());
            let operation = Operation::Write { from: std::iter::once(buffer.freeze()).collect(), fua: false };
            let lane = sector as usize % lane_count;
            array.ask(lane, sector, 1, operation).result.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(*array.failed.borrow(), [MemberId(1)], "{what}: a write was acknowledged before");
        }
        array.read_all(&what);
        assert_eq!(array.lost(), [1], "{what}");
    }
}

/// Before, bits that were still set were cleared after five seconds: superblocks say "clean" one second after the last write, and
/// a process that dies then leaves them.
#[test]
fn bits_that_the_last_run_left_stay() {
    for lane_count in [1, 2] {
        let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 8, &[128; 3]).expect("a geometry");
        let intent = Some(IntentConfig { chunk_sectors: 16, dirty: vec![1, 3] });
        let mut array = ReadOnly::new(ArrayConfig { intent, ..ArrayConfig::optimal("test", geometry) }, lane_count);
        array.pass(20_000);
        assert_eq!((array.lost(), array.write_count.get()), (Vec::new(), 0));
        array.is_writable.set(true);
        array.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.set_read_only(false)));
        array.pass(20_000);
        assert!(array.write_count.get() > 0 && array.lost().is_empty(), "they are cleared once the array may be written to");
    }
}
