//! After a while the data path allocates no memory: neither for reads within a strip, nor for writes, nor to make full stripes of
//! them.

mod support;
use stria_array::*;
use stria_block::*;
use support::*;

fn array(level: Level, count: usize) -> ArrayDevice<NoMetadata> {
    let geometry = Geometry::new(level, level.default_layout(), 128, &vec![128 * 64; count]).expect("it fits");
    let intent = Some(IntentConfig { chunk_sectors: 1024, dirty: Vec::new() });
    on_ram(&ArrayConfig { intent, ..ArrayConfig::optimal("test", geometry) })
}

/// Requests of `sectors`, 32 in flight. The memory of those that have ended is used for the next ones.
struct Traffic {
    array: ArrayDevice<NoMetadata>,
    ended: Vec<Completion>,
    sectors: u64,
    in_order: bool,
    chance: Chance,
    next: u64,
}

impl Traffic {
    fn place(&mut self) -> u64 {
        self.next += 1;
        // Only every second position, in random order: neighbours would be coalesced, and their memory consists of more pieces.
        let place = if self.in_order { self.next } else { self.chance.below(1 << 32) * 2 };
        place % (self.array.limits().size_sectors / self.sectors) * self.sectors
    }

    fn begin(&mut self, read: bool) {
        for tag in 0..32 {
            let memory = Buffer::zeroed(bytes(self.sectors));
            let operation = match read {
                true => Operation::Read { into: std::iter::once(memory).collect() },
                false => Operation::Write { from: std::iter::once(memory.freeze()).collect(), fua: false },
            };
            let (start_sector, sectors) = (self.place(), self.sectors);
            self.array.submit(Request { tag, start_sector, sectors, operation });
        }
    }

    fn go_on(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let now = self.array.next_wake().expect("something is in flight");
            self.array.poll(now, &mut self.ended);
            for index in 0..self.ended.len() {
                let operation = std::mem::replace(&mut self.ended[index].operation, Operation::Flush);
                let (tag, start_sector, sectors) = (self.ended[index].tag, self.place(), self.sectors);
                self.array.submit(Request { tag, start_sector, sectors, operation });
                left = left.saturating_sub(1);
            }
            self.ended.clear();
        }
    }
}

#[test]
fn the_data_path_does_not_allocate_once_it_is_warm() {
    for (level, count) in [(Level::Raid0, 4), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 6)] {
        for (read, sectors, in_order) in [(true, 8, false), (false, 8, false), (false, 256, true)] {
            let (array, chance) = (array(level, count), Chance::from_state(1));
            let mut traffic = Traffic { array, ended: Vec::new(), sectors, in_order, chance, next: 0 };
            traffic.begin(read);
            traffic.go_on(5000);
            let found = allocation_counter::measure(|| traffic.go_on(1000));
            let kind = if read { "reads" } else { "writes" };
            let what = format!("1000 {kind} of {sectors} sectors on RAID {level} of {count}, in order: {in_order}");
            eprintln!("{what}: {} allocations of {} bytes", found.count_total, found.bytes_total);
            // Queues of members may still grow to a new length.
            assert!(found.count_total <= 4, "{what}");
        }
    }
}
