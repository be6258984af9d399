//! Reads of another lane's partition: done without its owner while direct reads are allowed, and never past a state that only the
//! owner knows.

mod support;
use stria_array::*;
use stria_block::*;
use support::*;

const OWNER: usize = 0;
const READER: usize = 1;

/// Levels with redundancy, on two lanes with groups of a strip.
fn each(name: &str, mut test: impl FnMut(&mut World)) {
    each_on(
        |_, _| 2,
        name,
        3..7,
        |world| {
            if world.geometry.level().is_redundant() {
                let all = world.write(0, world.geometry.capacity_sectors());
                world.wait(all).result.expect("nobody is missing");
                settle(world);
                test(world);
            }
        },
    );
}

/// Lets time pass until nothing happens by itself any more.
fn settle(world: &mut World) {
    while world.step() {}
}

/// Asks one lane for sectors, until it answers or waits for other lanes.
fn ask(world: &mut World, lane: usize, start_sector: u64, operation: Operation) -> Option<Completion> {
    let sectors = match &operation {
        Operation::Write { from, .. } => from.iter().map(|data| data.len() as u64).sum::<u64>() / 512,
        _ => 1,
    };
    world.lanes[lane].submit(Request { tag: 1 << 40, start_sector, sectors, operation });
    hear(world, lane)
}

fn hear(world: &mut World, lane: usize) -> Option<Completion> {
    let mut ended = Vec::new();
    for _ in 0..100 {
        world.lanes[lane].poll(world.now, &mut ended);
        if let Some(index) = ended.iter().position(|completion| completion.tag == 1 << 40) {
            return Some(ended.swap_remove(index));
        }
        world.now = world.now.max(world.lanes[lane].next_wake()?);
    }
    None
}

fn read(world: &mut World, lane: usize, sector: u64) -> Option<Result<Vec<u8>, IoError>> {
    let into = std::iter::once(Buffer::zeroed(512)).collect();
    ask(world, lane, sector, Operation::Read { into }).map(bytes_of)
}

fn bytes_of(completion: Completion) -> Result<Vec<u8>, IoError> {
    let Operation::Read { into } = completion.operation else { panic!("a read comes back as a read") };
    completion.result.map(|()| into[0].to_vec())
}

fn wait_for(world: &mut World, lane: usize) -> Completion {
    for _ in 0..1000 {
        for other in (0..world.lanes.len()).filter(|&other| other != lane) {
            world.lanes[other].poll(world.now, &mut Vec::new());
        }
        if let Some(completion) = hear(world, lane) {
            return completion;
        }
        world.now = world.lanes.iter().filter_map(ArrayDevice::next_wake).min().expect("it ends").max(world.now);
    }
    panic!("it takes for ever");
}

/// Sectors of the owner's partition.
fn owned(world: &World) -> Vec<u64> {
    let group = world.lanes[OWNER].group_sectors().expect("two lanes share it");
    (0..world.geometry.capacity_sectors()).filter(|sector| sector / group % 2 == OWNER as u64).collect()
}

fn model(world: &World, sector: u64) -> Vec<u8> {
    world.model[bytes(sector)..][..512].to_vec()
}

#[test]
fn a_plain_share_is_read_without_its_owner() {
    each("plain", |world| {
        for sector in 0..world.geometry.capacity_sectors() {
            assert_eq!(read(world, READER, sector), Some(Ok(model(world, sector))), "sector {sector}");
            assert_eq!(read(world, OWNER, sector), Some(Ok(model(world, sector))), "sector {sector}");
        }
    });
}

#[test]
fn where_a_member_is_missing_the_owner_is_asked() {
    each("missing", |world| {
        if world.geometry.losses_survived() == 0 {
            return;
        }
        // By the time of the answer a spare would have taken over: memory is rebuilt at once.
        world.lanes[0].begin(Command::Fail(MemberId(0)));
        (0..10).for_each(|_| assert!(world.step()));
        let mut asked = 0;
        for sector in owned(world) {
            let answer = read(world, READER, sector);
            if world.status().health == Health::Optimal {
                // A spare has taken over.
                break;
            }
            asked += 1;
            assert_eq!(answer, None, "sector {sector}");
            assert_eq!(bytes_of(wait_for(world, READER)), Ok(model(world, sector)), "sector {sector}");
        }
        assert!(asked > 0);
    });
}

#[test]
fn what_a_direct_read_cannot_read_its_owner_corrects() {
    each("unreadable", |world| {
        // Nothing else there is damaged.
        world.faults[1].borrow_mut().bad.push((8..16, FaultKind::Read));
        let sectors: Vec<u64> = (0..world.geometry.capacity_sectors()).collect();
        for sector in sectors {
            let read = read(world, READER, sector).unwrap_or_else(|| bytes_of(wait_for(world, READER)));
            assert_eq!(read, Ok(model(world, sector)), "sector {sector}");
        }
        settle(world);
        assert_eq!(world.scrub(false), 0);
        assert_eq!(world.status().health, Health::Optimal);
    });
}

/// All lanes know which member takes a slot before a client learns of a write that went past the old member.
#[test]
fn a_member_that_was_replaced_is_not_read_any_more() {
    each("replaced", |world| {
        let spare = MemberId(world.geometry.slot_count());
        world.carry_out(Command::Replace { member: MemberId(0), spare }).expect("both are there");
        let took_over = |lane: &ArrayDevice<NoMetadata>| lane.status().slots[0] == Some(spare);
        while !took_over(&world.lanes[OWNER]) {
            world.lanes[READER].poll(world.now, &mut Vec::new());
            world.lanes[OWNER].poll(world.now, &mut Vec::new());
            world.now = world.lanes.iter().filter_map(ArrayDevice::next_wake).min().expect("it is filled").max(world.now);
        }
        assert!(!took_over(&world.lanes[READER]), "it had no turn since");
        for sector in owned(world) {
            let from = std::iter::once(world.pattern(1).freeze()).collect::<Segments<Data>>();
            let new = from[0].to_vec();
            if ask(world, OWNER, sector, Operation::Write { from, fua: false }).is_none() {
                wait_for(world, OWNER);
                assert!(took_over(&world.lanes[READER]));
            }
            let read = read(world, READER, sector).unwrap_or_else(|| bytes_of(wait_for(world, READER)));
            assert_eq!(read, Ok(new), "sector {sector}");
        }
    });
}

/// Only the owner knows what could not be rebuilt; the member answers with some bytes.
#[test]
fn what_a_member_lacks_is_not_read_past_its_owner() {
    let mut lost = 0;
    each("bad blocks", |world| {
        if world.geometry.losses_survived() != 1 {
            return;
        }
        // A sector of stripe 2, which the owner has.
        world.faults[1].borrow_mut().bad.push((16..24, FaultKind::ReadWrite));
        world.fail(0).expect("it can be spared");
        world.run_until_rebuilt();
        settle(world);
        for sector in owned(world) {
            match read(world, READER, sector).unwrap_or_else(|| bytes_of(wait_for(world, READER))) {
                Ok(read) => assert!(read == model(world, sector), "sector {sector} is made up"),
                Err(_) => lost += 1,
            }
        }
    });
    assert!(lost > 0, "some is lost");
}
