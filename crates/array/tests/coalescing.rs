//! Sequential writes to parity levels become full-stripe writes: this is counted in what members read and write, not in time. On
//! an idle array no write waits for that.

mod support;
use stria_array::*;
use stria_block::*;
use support::*;

fn geometry(level: Level, count: usize) -> Geometry {
    Geometry::new(level, level.default_layout(), 128, &vec![128 * 64; count]).expect("it fits")
}

/// Sectors that members have read and written.
fn sectors_of_members(array: &ArrayStatus) -> (u64, u64) {
    array.members.iter().fold((0, 0), |(read, written), member| (read + member.read_sectors, written + member.written_sectors))
}

/// Writes the whole array from its start with so many requests in flight, on members that answer late and out of order. Returns
/// what members read and wrote for each sector of it.
fn stream(level: Level, count: usize, sectors: u64, depth: usize) -> (f64, f64) {
    let mut world = World::new(geometry(level, count), 0, 1, None);
    let capacity = world.geometry.capacity_sectors();
    let mut tags = std::collections::VecDeque::new();
    for start in (0..capacity).step_by(sectors as usize) {
        tags.push_back(world.write(start, sectors.min(capacity - start)));
        if tags.len() == depth {
            let tag = tags.pop_front().expect("there are some");
            world.wait(tag).result.expect("it is written");
        }
    }
    for tag in tags {
        world.wait(tag).result.expect("it is written");
    }
    let (read, written) = sectors_of_members(&world.array.status());
    world.check_all("after the stream");
    assert_eq!(world.scrub(false), 0);
    (read as f64 / capacity as f64, written as f64 / capacity as f64)
}

#[test]
fn streams_become_whole_stripes() {
    for (level, count) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid5, 6), (Level::Raid6, 6), (Level::Raid6, 9)] {
        let law = count as f64 / (count - level.parity_count()) as f64;
        for (sectors, depth) in [(256, 32), (256, 8), (64, 64), (200, 32)] {
            let (read, written) = stream(level, count, sectors, depth);
            let what = format!("RAID {level} of {count}, {sectors} sectors, {depth} in flight: read {read}, written {written}");
            eprintln!("{what}, law {law}");
            assert!(read < 0.1 && written < law * 1.1, "{what}, law {law}");
        }
    }
}

fn write(array: &mut ArrayDevice<NoMetadata>, start_sector: u64) {
    let from = std::iter::once(Buffer::zeroed(4096).freeze()).collect();
    array.submit(Request { tag: start_sector, start_sector, sectors: 8, operation: Operation::Write { from, fua: false } });
}

#[test]
fn a_stream_of_one_request_at_a_time_never_waits() {
    let mut array = on_ram(&ArrayConfig::optimal("test", geometry(Level::Raid5, 4)));
    for start in (0..800).step_by(8) {
        write(&mut array, start);
        let mut ended = Vec::new();
        array.poll(0, &mut ended);
        assert_eq!(ended.len(), 1, "time stands still, and yet the write at sector {start} ends");
    }
}

#[test]
fn the_end_of_a_stream_waits_for_what_is_in_flight_and_a_moment_more() {
    let mut array = on_ram(&ArrayConfig::optimal("test", geometry(Level::Raid5, 4)));
    // A whole stripe, and the beginning of the next one, where the client may be about to continue.
    for start in (0..400).step_by(8) {
        write(&mut array, start);
    }
    let mut ended = Vec::new();
    array.poll(0, &mut ended);
    assert_eq!(ended.len(), 48, "the whole stripe is written");
    let due = array.next_wake().expect("the rest waits");
    assert!((1..1_000_000).contains(&due), "waits until {due} ns");
    for _ in 0..4 {
        array.poll(due, &mut ended);
    }
    assert_eq!(ended.len(), 50);
}
