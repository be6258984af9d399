//! Goal: over members that begin a request without a poll, as models do, an array does the same with fewer polls. Method: one array
//! is polled before and after each request, another only when it has something to do. Both ask the same of members at the same
//! times, and end the same requests.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stria_array::*;
use stria_block::*;

/// Time, member, first sector, sectors, and whether it reads.
type Asked = (Nanos, usize, u64, u64, bool);

/// Ends each request some microseconds after it was submitted, and moves no bytes.
struct Member {
    index: usize,
    now: Rc<Cell<Nanos>>,
    limits: Limits,
    under_way: Vec<(Nanos, Request)>,
    asked: Rc<RefCell<Vec<Asked>>>,
}

impl BlockDevice for Member {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, request: Request) {
        let (now, start_sector, sectors) = (self.now.get(), request.start_sector, request.sectors);
        let reads = matches!(request.operation, Operation::Read { .. });
        self.asked.borrow_mut().push((now, self.index, start_sector, sectors, reads));
        self.under_way.push((now + 10_000 + 1_300 * (start_sector % 7), request));
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        completions.extend(self.under_way.extract_if(.., |(due, _)| *due <= now).map(|(_, request)| request.complete(Ok(()))));
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.under_way.iter().map(|(due, _)| *due).min()
    }
}

/// A load of 4 KiB at random, a third of it writes, 8 in flight. Returns what members were asked, the ends of requests, and the
/// number of polls.
fn run(level: Level, count: usize, is_polled_always: bool) -> (Vec<Asked>, Vec<(Nanos, Tag)>, usize) {
    let geometry = Geometry::new(level, level.default_layout(), 128, &vec![1 << 14; count]).expect("it fits");
    let (clock, asked) = (Rc::new(Cell::new(0)), Rc::new(RefCell::default()));
    let member = |index| {
        let (now, asked) = (Rc::clone(&clock), Rc::clone(&asked));
        Box::new(Member { index, now, limits: Limits::plain(1 << 14), under_way: Vec::new(), asked }) as Box<dyn BlockDevice>
    };
    let config = ArrayConfig::optimal("modelled", geometry);
    let mut array = ArrayDevice::new(&config, (0..count).map(member).collect(), NoMetadata, 0);
    let places = array.limits().size_sectors / 8;
    let (mut chance, mut ends, mut polls, mut completions) = (1_u64, Vec::new(), 0, Vec::new());
    let mut due: Vec<(Nanos, Tag)> = (0..8).map(|tag| (100 * tag, tag)).collect();
    while ends.len() < 600 {
        let wake = if is_polled_always { array.next_wake() } else { array.next_wake_of_models() };
        let wake = wake.map(|at| at.max(clock.get()));
        let now = due.iter().map(|(at, _)| *at).chain(wake).min().expect("something is in flight");
        clock.set(now);
        let mut poll = |array: &mut ArrayDevice<NoMetadata>, due: &mut Vec<(Nanos, Tag)>| {
            polls += 1;
            array.poll(now, &mut completions);
            for completion in completions.drain(..) {
                completion.result.expect("members do not fail");
                ends.push((now, completion.tag));
                due.push((now + 700, completion.tag));
            }
        };
        if wake == Some(now) {
            poll(&mut array, &mut due);
        }
        for (_, tag) in due.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            if is_polled_always {
                poll(&mut array, &mut due);
            } else {
                array.set_now(now);
            }
            // Knuth's MMIX; the upper bits are the good ones.
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let operation = match (chance >> 40).is_multiple_of(3) {
                true => Operation::Write { from: std::iter::once(Data::zeros(4096)).collect(), fua: false },
                false => Operation::Read { into: std::iter::once(Buffer::zeroed(4096)).collect() },
            };
            array.submit(Request { tag, start_sector: (chance >> 33) % places * 8, sectors: 8, operation });
            if is_polled_always {
                poll(&mut array, &mut due);
            }
        }
    }
    drop(array);
    (asked.take(), ends, polls)
}

#[test]
fn an_array_of_models_needs_no_poll_for_each_request() {
    for (level, count) in [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let (always, seldom) = (run(level, count, true), run(level, count, false));
        assert_eq!(always.0, seldom.0, "{level:?}: requests of members");
        assert_eq!(always.1, seldom.1, "{level:?}: ends");
        assert!(3 * seldom.2 < 2 * always.2, "{level:?}: {} polls instead of {}", seldom.2, always.2);
    }
}

/// Goal: of members that keep no data an array asks the same, and computes no parity: of one answer of the planner two thirds of
/// the time were that. Method: a full stripe of ones, whose parity a member sees. Memory that nobody has computed is zeros.
#[test]
fn parity_of_members_that_keep_no_data_is_not_computed() {
    /// Takes note of what writes begin with.
    struct Noting(Limits, Rc<RefCell<Vec<(u64, u8)>>>, Vec<Completion>);

    impl BlockDevice for Noting {
        fn limits(&self) -> &Limits {
            &self.0
        }

        fn submit(&mut self, request: Request) {
            if let Operation::Write { from, .. } = &request.operation {
                self.1.borrow_mut().push((request.start_sector, from[0][0]));
            }
            self.2.push(request.complete(Ok(())));
        }

        fn poll(&mut self, _: Nanos, completions: &mut Vec<Completion>) {
            completions.append(&mut self.2);
        }

        fn next_wake(&self) -> Option<Nanos> {
            (!self.2.is_empty()).then_some(0)
        }
    }

    let written = |level: Level, count: usize, keeps_no_data: bool| {
        let geometry = Geometry::new(level, level.default_layout(), 8, &vec![1 << 14; count]).expect("it fits");
        let written = Rc::new(RefCell::default());
        let member = |_| Box::new(Noting(Limits::plain(1 << 14), Rc::clone(&written), Vec::new())) as Box<dyn BlockDevice>;
        let config = ArrayConfig::optimal("modelled", geometry);
        let mut array = ArrayDevice::new(&config, (0..count).map(member).collect(), NoMetadata, 0);
        if keeps_no_data {
            array.with_engine(Engine::set_members_keep_no_data);
        }
        let sectors = 8 * 3;
        let mut ones = Buffer::zeroed(bytes(sectors));
        ones.fill(1);
        let operation = Operation::Write { from: std::iter::once(ones.freeze()).collect(), fua: false };
        array.submit(Request { tag: 1, start_sector: 0, sectors, operation });
        let mut ended = Vec::new();
        (0..8).for_each(|now| array.poll(now, &mut ended));
        assert!(matches!(&ended[..], [Completion { result: Ok(()), .. }]), "{level:?}: the write ended");
        drop(array);
        written.take()
    };
    for (level, count, parities) in [(Level::Raid5, 4, 1), (Level::Raid6, 5, 2)] {
        let (computed, not) = (written(level, count, false), written(level, count, true));
        let places = |written: &[(u64, u8)]| written.iter().map(|(sector, _)| *sector).collect::<Vec<_>>();
        assert_eq!((places(&computed), places(&not)), (vec![0; count], vec![0; count]), "{level:?}: the same is asked");
        let zeros = |written: &[(u64, u8)]| written.iter().filter(|(_, first)| *first == 0).count();
        // P of three ones is 1, and Q is 1 + 2 + 4.
        assert_eq!(zeros(&computed), 0, "{level:?}: {computed:?}");
        assert_eq!(zeros(&not), parities, "{level:?}: {not:?}");
    }
}

/// A read that a member begins at once gives the array nothing to do before the member answers.
#[test]
fn a_request_that_is_passed_on_is_no_work() {
    let (clock, asked) = (Rc::new(Cell::new(0)), Rc::new(RefCell::default()));
    let geometry = Geometry::new(Level::Raid0, Level::Raid0.default_layout(), 128, &[1 << 14; 2]).expect("it fits");
    let member = |index| {
        let (now, asked) = (Rc::clone(&clock), Rc::clone(&asked));
        Box::new(Member { index, now, limits: Limits::plain(1 << 14), under_way: Vec::new(), asked }) as Box<dyn BlockDevice>
    };
    let mut array = ArrayDevice::new(&ArrayConfig::optimal("modelled", geometry), (0..2).map(member).collect(), NoMetadata, 0);
    array.poll(0, &mut Vec::new());
    let operation = Operation::Read { into: std::iter::once(Buffer::zeroed(4096)).collect() };
    array.submit(Request { tag: 1, start_sector: 0, sectors: 8, operation });
    assert_eq!(array.next_wake(), Some(0), "other members may begin it at a poll only");
    assert_eq!(array.next_wake_of_models(), Some(10_000));
}
