//! Bounds against values worked out by hand: R = 400, W = 100, r = w = 1000 where sequential, members independent.

use super::*;

const SMALL: MemberRates = independent(Rates { read: 400.0, write: 100.0 });

const fn independent(rates: Rates) -> MemberRates {
    let plenty = Rates { read: f64::INFINITY, write: f64::INFINITY };
    MemberRates { alone: rates, saturated: rates, together: plenty }
}

fn shape(level: &str, members: usize) -> Shape {
    let level: ArrayLevel = level.parse().expect("a level");
    let (inner, spans) = match level {
        ArrayLevel::Single(inner) => (inner, 1),
        ArrayLevel::Striped(inner) => (inner, 2),
    };
    let geometry = Geometry::new(inner, inner.default_layout(), 128, &vec![1 << 20; members / spans]).expect("it fits");
    Shape::new(&geometry, spans)
}

fn pattern(read: bool, order: Order, block_bytes: u64) -> Pattern {
    Pattern { read, order, block_bytes, queue_depth: 1000 }
}

/// The textbook's bound.
fn allowed(level: &str, members: usize, pattern: Pattern) -> f64 {
    let bounds = Work::of(&shape(level, members), pattern).bounds(&SMALL, pattern);
    assert_eq!(bounds.allowed, bounds.busiest_member, "nothing else binds: {bounds:?}");
    (bounds.allowed * 100.0).round() / 100.0
}

#[test]
fn random_reads_use_every_member_that_holds_data() {
    let reads = pattern(true, Order::Random, 4096);
    for (level, members, expected) in [
        ("jbod", 4, 1600.0),
        ("0", 4, 1600.0),
        ("1", 2, 800.0),
        ("10", 4, 1600.0),
        ("4", 4, 1200.0),
        ("5", 4, 1600.0),
        ("6", 6, 2400.0),
        ("50", 6, 2400.0),
        ("60", 8, 3200.0),
    ] {
        assert_eq!(allowed(level, members, reads), expected, "RAID {level}");
    }
}

#[test]
fn small_writes_follow_the_in_place_laws() {
    let writes = pattern(false, Order::Random, 4096);
    for (level, members, expected) in [
        ("jbod", 4, 400.0),
        ("0", 4, 400.0),
        ("1", 2, 100.0),
        ("1", 3, 100.0),
        ("10", 4, 200.0),
        // 5 / (2/400 + 2/100) = 200; 4 members: both ways cost 4.
        ("5", 5, 200.0),
        ("5", 4, 160.0),
        // 3 members: read 1, write 2: 3 / (1/400 + 2/100).
        ("5", 3, 133.33),
        // The parity member: 1 / (1/400 + 1/100).
        ("4", 6, 80.0),
        // 7 / (3/400 + 3/100); 4 members: read 1, write 3: 4 / (1/400 + 3/100).
        ("6", 7, 186.67),
        ("6", 4, 123.08),
        // Two spans of 3 and of 4 as above.
        ("50", 6, 266.67),
        ("60", 8, 246.15),
    ] {
        assert_eq!(allowed(level, members, writes), expected, "RAID {level} of {members}");
    }
}

#[test]
fn sequential_writes_fill_stripes() {
    let writes = pattern(false, Order::Sequential, 1 << 20);
    for (level, members, expected) in [
        ("jbod", 4, 100.0),
        ("0", 4, 400.0),
        ("1", 3, 100.0),
        ("10", 6, 300.0),
        ("4", 4, 300.0),
        ("5", 4, 300.0),
        ("6", 6, 400.0),
        ("50", 6, 400.0),
        ("60", 8, 400.0),
    ] {
        assert_eq!(allowed(level, members, writes), expected, "RAID {level}");
    }
    assert_eq!(allowed("jbod", 4, pattern(true, Order::Sequential, 1 << 20)), 400.0);
    assert_eq!(allowed("5", 4, pattern(true, Order::Sequential, 1 << 20)), 1600.0);
}

#[test]
fn member_requests_per_client_request_are_those_of_the_textbook() {
    let work = |level, members| Work::of(&shape(level, members), pattern(false, Order::Random, 4096));
    assert_eq!(work("5", 8).all, Demand { reads: 2.0, writes: 2.0 });
    assert_eq!(work("6", 8).all, Demand { reads: 3.0, writes: 3.0 });
    assert_eq!(work("6", 5).all, Demand { reads: 2.0, writes: 3.0 });
    assert_eq!(work("10", 4).all, Demand { reads: 0.0, writes: 2.0 });
    assert_eq!(work("5", 8).law, "8/(2/R + 2/W): read-modify-write");
    assert_eq!(work("5", 3).law, "3/(1/R + 2/W): reconstruct-write");
}

#[test]
fn what_members_share_bounds_all_of_them_together() {
    // One CPU does everything: 600 reads or 300 writes a second, to any members.
    let shared = Rates { read: 600.0, write: 300.0 };
    let members = MemberRates { alone: shared, saturated: shared, together: shared };
    let writes = Pattern { queue_depth: 32, ..pattern(false, Order::Random, 4096) };
    let bounds = Work::of(&shape("5", 4), writes).bounds(&members, writes);
    // 2/600 + 2/300 = 1/100.
    assert!((bounds.all_members - 100.0).abs() < 1e-9 && bounds.allowed == bounds.all_members, "{bounds:?}");
    let bounds = Work::of(&shape("10", 4), writes).bounds(&members, writes);
    assert!((bounds.allowed - 150.0).abs() < 1e-9, "{bounds:?}");
}

#[test]
fn at_queue_depth_1_each_request_waits_for_its_own_steps() {
    let writes = Pattern { queue_depth: 1, ..pattern(false, Order::Random, 4096) };
    // Read both, then write both: 1 / (1/400 + 1/100).
    let bounds = Work::of(&shape("6", 8), writes).bounds(&SMALL, writes);
    assert!((bounds.allowed - 80.0).abs() < 1e-9 && bounds.allowed == bounds.waiting, "{bounds:?}");
    let reads = Pattern { read: true, ..writes };
    assert_eq!(Work::of(&shape("0", 8), reads).bounds(&SMALL, reads).allowed, 400.0);
    // 128 KiB over strips of 64 KiB: two members at once.
    let reads = Pattern { block_bytes: 128 << 10, ..reads };
    assert_eq!(Work::of(&shape("0", 8), reads).bounds(&SMALL, reads).allowed, 800.0);
}

#[test]
fn a_lone_write_across_strips_is_counted_row_by_row() {
    // Strips of 64 KiB, 3 data: requests of 96 KiB lie on 1½ strips; the first half of each stripe:
    // rows 64 K (strip 0 whole, strip 1 half), the second likewise. Modify: 96 + 64; reconstruct: 192 - 96 = 96: fewer.
    let lone = Pattern { queue_depth: 1, ..pattern(false, Order::Random, 96 << 10) };
    let work = Work::of(&shape("5", 4), lone);
    assert_eq!(work.all, Demand { reads: 1.0, writes: 160.0 / 96.0 });
    // One request fills the stripe exactly.
    let full = Work::of(&shape("5", 4), Pattern { block_bytes: 192 << 10, ..lone });
    assert_eq!((full.all, full.read_first), (Demand { reads: 0.0, writes: 4.0 / 3.0 }, 0.0));
}

/// The plain twin: byte ranges stripe by stripe, over the whole period.
fn plain(block: u64, strip: u64, data: u64, parity: u64) -> Parts {
    let stripe = strip * data;
    let (mut parts, mut requests, mut start) = (Parts::default(), 0, 0);
    while requests == 0 || start % stripe != 0 {
        let (mut reads, mut next) = (false, start);
        while next < start + block {
            let from = next % stripe;
            let len = (stripe - from).min(start + block - next);
            reads |= parts.add_stripes(1, from, len, strip, data, parity);
            next += len;
        }
        parts.read_first += f64::from(u8::from(reads));
        requests += 1;
        start += block;
    }
    parts.read_first /= f64::from(requests);
    parts
}

#[test]
fn requests_of_many_stripes_cost_what_their_stripes_cost_one_by_one() {
    let figures =
        |parts: &Parts| [parts.data_read, parts.data_written, parts.parity_read, parts.parity_written, parts.read_first];
    for block in [512, 1000, 4096, 6144, 8192, 12_288, 16_384, 20_000, 65_536, 100_000] {
        for (data, parity) in [(2, 1), (3, 1), (3, 2), (5, 2)] {
            let (one, other) = (Parts::of_lone_requests(block, 4096, data, parity), plain(block, 4096, data, parity));
            assert_eq!(figures(&one), figures(&other), "{block} bytes on {data} + {parity}");
            assert_eq!(one.reconstructs, other.reconstructs);
        }
    }
    // An exabyte, and a size that never comes round: both at once.
    for block in [1_000_000_000_000_000_000, 4097] {
        let parts = Parts::of_lone_requests(block, 16 << 20, 4000, 1);
        assert!(parts.data_written > 0.0 && parts.parity_written > 0.0 && parts.read_first <= 1.0);
    }
}
