//! Goal: for all bytes of a client, cut into any pieces, every request gets exactly one correct reply, memory stays within its
//! limits, and nothing panics.
//! Method: a session is run against a RAM device by hand, and its replies are read by a plain decoder.

use super::*;
use crate::budget::Budget;
use crate::wire::{Reader, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, command_flag};
use proptest::prelude::*;
use smallvec::SmallVec;
use std::collections::HashMap;
use stria_block::{BlockDevice, Limits, RamDevice};

const SIZE_BYTES: u64 = 64 << 10;
const PAYLOAD_BYTES_MAX: u32 = 16 << 10;

fn facts() -> Facts {
    Facts {
        name: "tank".into(),
        description: String::new(),
        size_bytes: SIZE_BYTES,
        block_min_bytes: 512,
        block_preferred_bytes: 4096,
        payload_bytes_max: PAYLOAD_BYTES_MAX,
        read_only: false,
        rotational: false,
        can_trim: true,
    }
}

fn session_of(facts: Facts, structured: bool, caps: Caps) -> Session {
    let lease = Budget::new(0).lease(usize::MAX / 2);
    let mut session = Session::new(Agreement { facts: Arc::new(facts), structured, allocation: structured }, caps, lease, &[]);
    // A test that tries both kinds of replies tries grouped and single requests, too.
    session.set_grouped(structured);
    session
}

const CAPS: Caps = Caps { requests_max: 4, bytes_max: 48 << 10 };

fn request(command: u16, flags: u16, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    let mut bytes = crate::wire::REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset_bytes.to_be_bytes());
    bytes.extend(length_bytes.to_be_bytes());
    bytes
}

/// A session, its device, and what the client has received.
struct Bench {
    session: Session,
    device: RamDevice,
    requests: Vec<Request>,
    received: Vec<u8>,
}

impl Bench {
    fn new(structured: bool) -> Self {
        Self::with(session_of(facts(), structured, CAPS))
    }

    fn with(session: Session) -> Self {
        let limits = Limits { discard_granularity_bytes: 512, ..Limits::plain(SIZE_BYTES / 512) };
        Self { session, device: RamDevice::with_limits(limits), requests: Vec::new(), received: Vec::new() }
    }

    /// Gives as much of `input` as the session takes, at most `piece` bytes; returns how much that was.
    fn give(&mut self, input: &[u8], piece: usize) -> Result<usize, Broken> {
        let mut given = 0;
        if self.session.wants_input() {
            for space in self.session.space() {
                let len = space.len().min(input.len() - given).min(piece - given);
                space[..len].copy_from_slice(&input[given..given + len]);
                given += len;
            }
            self.session.received(given);
        }
        self.session.parse(&mut self.requests)?;
        assert!(self.session.requests_in_flight() <= CAPS.requests_max);
        assert!(self.session.bytes_in_flight <= CAPS.bytes_max);
        Ok(given)
    }

    /// Lets the device carry out its requests, and sends at most `piece` bytes of replies.
    fn turn(&mut self, piece: usize) {
        let mut completions = Vec::new();
        for request in self.requests.drain(..) {
            self.device.submit(request);
        }
        self.device.poll(0, &mut completions);
        for completion in completions {
            self.session.complete(completion);
        }
        let mut slices = SmallVec::<[IoSlice; 3]>::new();
        self.session.slices(&mut slices);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(piece).collect();
        drop(slices);
        self.session.sent(bytes.len());
        self.received.extend(bytes);
    }

    /// Feeds all of `input` in pieces, and turns until nothing is left to do.
    fn run(&mut self, mut input: &[u8], give: usize, take: usize) -> Result<(), Broken> {
        while !input.is_empty() && !self.session.ended() {
            let given = self.give(input, give)?;
            input = &input[given..];
            self.turn(take);
        }
        loop {
            self.session.parse(&mut self.requests)?;
            if self.session.requests_in_flight() == usize::from(self.session.payload.is_some()) {
                return Ok(());
            }
            self.turn(take);
        }
    }
}

/// Of 30 requests that arrive at once the first group is small, and replies to a group can be sent before the next one is served.
#[test]
fn grouped_requests_go_to_the_device_a_few_at_a_time() {
    for (grouped, groups) in [(true, &[4, 8, 16, 2][..]), (false, &[30])] {
        let mut bench = Bench::with(session_of(facts(), false, Caps { requests_max: 64, bytes_max: 1 << 20 }));
        bench.session.set_grouped(grouped);
        let read = |cookie| request(command::READ, 0, cookie, 512 * cookie, 512);
        for round in 0..2 {
            let input: Vec<u8> = (30 * round..30 * (round + 1)).flat_map(read).collect();
            bench.session.space()[1][..input.len()].copy_from_slice(&input);
            bench.session.received(input.len());
            for (index, &len) in groups.iter().enumerate() {
                bench.session.parse(&mut bench.requests).expect("a sound stream");
                assert_eq!(bench.requests.len(), len);
                let is_last = index + 1 == groups.len();
                assert_eq!((bench.session.wants_turn(), bench.session.wants_input()), (!is_last, is_last));
                while bench.session.requests_in_flight() > 0 {
                    bench.turn(usize::MAX);
                }
            }
        }
    }
}

/// Error (0: success) and data of each reply by cookie. `lengths`: of reads, which simple replies do not tell.
fn decode(mut bytes: &[u8], lengths: &HashMap<u64, u32>) -> HashMap<u64, (u32, Vec<u8>)> {
    let mut replies = HashMap::new();
    while !bytes.is_empty() {
        let mut reader = Reader(bytes);
        let (cookie, reply) = match reader.u32().expect("magic") {
            SIMPLE_REPLY_MAGIC => {
                let (error, cookie) = (reader.u32().expect("error"), reader.u64().expect("cookie"));
                let len = if error == 0 { lengths.get(&cookie).copied().unwrap_or(0) } else { 0 };
                (cookie, (error, reader.take(len as usize).expect("data").to_vec()))
            }
            STRUCTURED_REPLY_MAGIC => {
                assert_eq!(reader.u16(), Some(chunk::FLAG_DONE));
                let (kind, cookie) = (reader.u16().expect("type"), reader.u64().expect("cookie"));
                let mut payload = Reader(reader.string().expect("payload"));
                let reply = match kind {
                    chunk::NONE => (0, Vec::new()),
                    chunk::OFFSET_DATA => {
                        payload.u64();
                        (0, payload.0.to_vec())
                    }
                    chunk::BLOCK_STATUS => (0, payload.0.to_vec()),
                    chunk::ERROR => (payload.u32().expect("error"), payload.0[2..].to_vec()),
                    kind => panic!("unknown chunk {kind}"),
                };
                (cookie, reply)
            }
            magic => panic!("unknown magic {magic:x}"),
        };
        assert!(replies.insert(cookie, reply).is_none(), "two replies to request {cookie}");
        bytes = reader.0;
    }
    replies
}

fn errors(received: &[u8]) -> Vec<(u64, u32)> {
    let mut errors: Vec<_> = decode(received, &HashMap::new()).into_iter().map(|(cookie, (error, _))| (cookie, error)).collect();
    errors.sort_unstable();
    errors
}

#[test]
fn requests_that_do_not_do_get_the_protocols_error() {
    use command::{BLOCK_STATUS, FLUSH, READ, TRIM, WRITE_ZEROES};
    let size = SIZE_BYTES;
    let cases = [
        (request(TRIM, 0, 0, 100, 512), Errno::Invalid),
        (request(READ, 0, 1, size - 511, 512), Errno::Invalid),
        (request(READ, 0, 2, u64::MAX - 511, 512), Errno::Invalid),
        (request(WRITE_ZEROES, 0, 3, size - 512, 1024), Errno::NoSpace),
        (request(TRIM, 0, 4, size - 512, 1024), Errno::Invalid),
        (request(READ, 0, 5, 0, PAYLOAD_BYTES_MAX + 512), Errno::Overflow),
        (request(FLUSH, 0, 6, 512, 0), Errno::Invalid),
        (request(READ, command_flag::NO_HOLE, 7, 0, 512), Errno::Invalid),
        (request(BLOCK_STATUS, 0, 8, 0, 0), Errno::Invalid),
        (request(5, 0, 9, 0, 512), Errno::Invalid),
        (request(1234, 0, 10, 0, 512), Errno::Invalid),
    ];
    for (cookie, (bytes, errno)) in cases.into_iter().enumerate() {
        let mut bench = Bench::new(true);
        bench.run(&bytes, 1000, 1000).expect("a sound stream");
        assert_eq!(errors(&bench.received), [(cookie as u64, errno as u32)], "case {cookie}");
    }
}

/// Clients that ask for no block size read by bytes, nbd-tester-client for one. Writes are not widened: they would change bytes
/// that other clients write meanwhile.
#[test]
fn reads_begin_and_end_at_any_byte() {
    let data: Vec<u8> = (0..SIZE_BYTES).map(|at| (at ^ at >> 8) as u8).collect();
    for (structured, block_min_bytes) in [(false, 512), (true, 512), (true, 4096)] {
        let mut bench = Bench::with(session_of(Facts { block_min_bytes, ..facts() }, structured, CAPS));
        for (at, part) in (0..).step_by(8192).zip(data.chunks(8192)) {
            let write = [request(command::WRITE, 0, 0, at, 8192), part.to_vec()].concat();
            bench.run(&write, 1 << 20, 4096).expect("a sound stream");
        }
        let end = SIZE_BYTES;
        let ranges = [(0, 1), (1, 511), (511, 2), (100, 4096), (4095, 4098), (end - 1, 1), (end - 5000, 5000), (3, 8189)];
        let reads: Vec<u8> =
            ranges.iter().zip(1..).flat_map(|((at, len), cookie)| request(command::READ, 0, cookie, *at, *len)).collect();
        bench.received.clear();
        bench.run(&reads, 1000, 1000).expect("a sound stream");
        let lengths = ranges.iter().zip(1..).map(|((_, len), cookie)| (cookie, *len)).collect();
        let replies = decode(&bench.received, &lengths);
        for ((at, len), cookie) in ranges.into_iter().zip(1..) {
            let (at, len) = (at as usize, len as usize);
            assert!(replies[&cookie] == (0, data[at..at + len].to_vec()), "{len} bytes at {at}");
        }
        bench.received.clear();
        bench.run(&[request(command::WRITE, 0, 1, 1, 512), vec![7; 512]].concat(), 1000, 1000).expect("a sound stream");
        assert_eq!(errors(&bench.received), [(1, Errno::Invalid as u32)]);
    }
}

#[test]
fn zero_lengths_succeed_without_the_device() {
    for structured in [false, true] {
        let mut bench = Bench::new(structured);
        for (cookie, command) in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES].into_iter().enumerate() {
            bench.give(&request(command, 0, cookie as u64, 0, 0), 100).expect("a sound stream");
        }
        assert!(bench.requests.is_empty());
        bench.run(&[], 1, 1000).expect("a sound stream");
        assert_eq!(errors(&bench.received), [(0, 0), (1, 0), (2, 0), (3, 0)]);
    }
}

#[test]
fn read_only_exports_refuse_every_change_and_pass_over_its_payload() {
    let mut bench = Bench::with(session_of(Facts { read_only: true, can_trim: false, ..facts() }, true, CAPS));
    let stream = [
        request(command::WRITE, 0, 1, 0, 4096),
        vec![7; 4096],
        request(command::TRIM, 0, 2, 0, 512),
        request(command::WRITE_ZEROES, 0, 3, 0, 512),
        request(command::FLUSH, 0, 4, 0, 0),
    ];
    bench.run(&stream.concat(), 999, 99).expect("a sound stream");
    let perm = Errno::Perm as u32;
    assert_eq!(errors(&bench.received), [(1, perm), (2, perm), (3, perm), (4, 0)]);
    assert!(bench.device.memory().iter().all(|&byte| byte == 0));
}

#[test]
fn a_write_that_lies_about_its_length_takes_no_memory_and_swallows_only_its_own_bytes() {
    let mut bench = Bench::new(false);
    bench.run(&request(command::WRITE, 0, 1, 0, u32::MAX), 100, 100).expect("a sound stream");
    assert_eq!(errors(&bench.received), [(1, Errno::NoSpace as u32)]);
    assert!(bench.session.payload.is_none() && bench.session.bytes_in_flight == 0);
    // The following bytes are payload, although they look like a request.
    bench.run(&request(command::READ, 0, 2, 0, 512).repeat(1000), 4096, 4096).expect("a sound stream");
    assert_eq!(errors(&bench.received).len(), 1);
    assert_eq!(bench.session.skip_bytes, u64::from(u32::MAX) - 28_000);
    bench.session.end_input();
    assert!(bench.session.finished());
}

#[test]
fn a_client_that_takes_no_replies_is_not_heard_any_more() {
    for bad in [false, true] {
        let mut bench = Bench::new(true);
        let command = if bad { 999 } else { command::READ };
        let input = request(command, 0, 1, 0, 8192).repeat(100);
        let mut given = 0;
        for _ in 0..100 {
            given += bench.give(&input[given..], 1000).expect("a sound stream");
            bench.turn(0);
        }
        assert_eq!(bench.session.requests_in_flight(), 4);
        assert!(!bench.session.wants_input() && given < 1100, "{given} bytes taken");
    }
}

#[test]
fn a_trim_is_zeroes_that_may_unmap_and_keeps_its_fua() {
    let mut bench = Bench::new(false);
    bench.give(&request(command::TRIM, command_flag::FUA, 1, 0, 512), 100).expect("a sound stream");
    let wanted = Operation::WriteZeroes { fua: true, unmap: true, fast: false };
    assert!(matches!(&bench.requests[..], [Request { operation, .. }] if format!("{operation:?}") == format!("{wanted:?}")));
    assert!(bench.received.is_empty());
    bench.turn(1000);
    assert_eq!(errors(&bench.received), [(1, 0)]);
}

#[test]
fn flags_of_zeroes_and_failures_of_devices_are_told_honestly() {
    use command_flag::{FAST_ZERO, FUA, NO_HOLE};
    let mut bench = Bench::new(true);
    let mut fail = |flags: u16, kind: ErrorKind| {
        bench.give(&request(command::WRITE_ZEROES, flags, 1, 0, 512), 100).expect("a sound stream");
        let request = bench.requests.pop().expect("a request");
        let Operation::WriteZeroes { fua, unmap, fast } = request.operation else { panic!("not zeroes: {request:?}") };
        bench.session.complete(request.complete(Err(IoError::new(kind, "it broke"))));
        bench.received.clear();
        bench.turn(1000);
        let (error, message) = decode(&bench.received, &HashMap::new()).remove(&1).expect("a reply");
        assert_eq!(message, b"it broke");
        (fua, unmap, fast, error)
    };
    assert_eq!(fail(0, ErrorKind::NoSpace), (false, true, false, Errno::NoSpace as u32));
    assert_eq!(fail(FAST_ZERO, ErrorKind::Unsupported), (false, true, true, Errno::NotSupported as u32));
    assert_eq!(fail(FUA | NO_HOLE, ErrorKind::Unsupported), (true, false, false, Errno::Invalid as u32));
    assert_eq!(fail(0, ErrorKind::Medium), (false, true, false, Errno::Io as u32));
    assert_eq!(fail(0, ErrorKind::Failed), (false, true, false, Errno::Io as u32));
}

#[test]
fn wrong_magic_breaks_the_stream() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.run(&[0; 28], 100, 100), Err(Broken("wrong request magic")));
}

#[test]
fn disconnect_lets_earlier_requests_end_and_ignores_later_ones() {
    let mut bench = Bench::new(false);
    let read = |cookie| request(command::READ, 0, cookie, 0, 512);
    bench.run(&[read(1), request(command::DISC, 0, 0, 0, 0), read(2)].concat(), 1000, 100).expect("a sound stream");
    assert!(bench.session.finished());
    assert_eq!(bench.received.len(), 16 + 512);
}

#[test]
fn an_idle_session_gives_its_memory_back_and_works_on() {
    let mut bench = Bench::new(false);
    for cookie in 0..3 {
        assert!(cookie == 0 || bench.session.staging.is_empty());
        bench.run(&request(command::READ, 0, cookie, 0, 512), 5, 1000).expect("a sound stream");
        assert!(bench.session.keeps_warm());
        bench.session.cool();
    }
    assert_eq!(bench.received.len(), 3 * (16 + 512));
}

#[test]
fn a_partly_received_header_is_not_lost_to_cooling() {
    let mut bench = Bench::new(false);
    let bytes = request(command::READ, 0, 1, 0, 512);
    bench.give(&bytes[..10], 100).expect("a sound stream");
    bench.session.cool();
    bench.run(&bytes[10..], 100, 1000).expect("a sound stream");
    assert_eq!(bench.received.len(), 16 + 512);
}

/// The first bytes of a header keep no memory from other clients.
#[test]
fn a_partly_received_header_keeps_no_loan() {
    let budget = Budget::new(1 << 20);
    let agreement = Agreement { facts: Arc::new(facts()), structured: false, allocation: false };
    let mut bench = Bench::with(Session::new(agreement, CAPS, budget.lease(0), &[]));
    bench.run(&request(command::READ, 0, 1, 0, 512), 100, 1000).expect("a sound stream");
    let bytes = request(command::READ, 0, 2, 0, 512);
    bench.give(&bytes[..1], 100).expect("a sound stream");
    let mut other = budget.lease(0);
    assert!(!other.reach(1 << 20) && bench.session.keeps_warm());
    bench.session.cool();
    assert!(!bench.session.keeps_warm());
    assert!(other.reach(1 << 20));
    drop(other);
    bench.run(&bytes[1..], 100, 1000).expect("a sound stream");
    assert_eq!(bench.received.len(), 2 * (16 + 512));
}

/// Command, flags, first block, blocks; a little more than the export, in blocks of 512 bytes.
fn operations() -> impl Strategy<Value = Vec<(u16, u16, u64, u32)>> {
    let command = prop::sample::select(vec![0u16, 0, 1, 1, 1, 3, 4, 5, 6, 7]);
    let flags = prop_oneof![4 => Just(0u16), 1 => 0u16..32];
    prop::collection::vec((command, flags, 0u64..132, prop_oneof![3 => 0u32..9, 1 => 0u32..40]), 1..40)
}

proptest! {
    /// The plain twin: requests carried out one by one on a vector.
    #[test]
    fn any_cut_of_a_stream_is_answered_as_by_a_plain_server(
        operations in operations(), structured: bool, give in 1usize..9000, take in 1usize..9000,
    ) {
        let (mut stream, mut memory) = (Vec::new(), vec![0u8; SIZE_BYTES as usize]);
        let (mut expected, mut lengths) = (HashMap::new(), HashMap::new());
        for (cookie, &(command, flags, block, blocks)) in operations.iter().enumerate() {
            let cookie = cookie as u64;
            let (offset, length) = if command == command::FLUSH { (0, 0) } else { (block * 512, blocks * 512) };
            let bytes = request(command, flags, cookie, offset, length);
            stream.extend(&bytes);
            let payload: Vec<u8> = (0..length).map(|byte| (byte / 512) as u8 ^ cookie as u8 | 1).collect();
            if command == command::WRITE {
                stream.extend(&payload);
            }
            let header = RequestHeader::decode(bytes[..].try_into().expect("28 bytes")).expect("its magic");
            let reply = match examine::examine(&header, &facts(), structured, structured) {
                Err(refusal) => (refusal.errno as u32, None),
                Ok(work) => {
                    let range = offset as usize..offset as usize + length as usize;
                    match work {
                        Work::Write { .. } => memory[range].copy_from_slice(&payload),
                        Work::WriteZeroes { .. } => memory[range].fill(0),
                        Work::Read => {
                            lengths.insert(cookie, length);
                            expected.insert(cookie, (0, Some(memory[range].to_vec())));
                            continue;
                        }
                        Work::Nothing | Work::Flush | Work::Status { .. } | Work::Disconnect => {}
                    }
                    (0, None)
                }
            };
            expected.insert(cookie, reply);
        }
        let mut bench = Bench::new(structured);
        bench.run(&stream, give, take).expect("a sound stream");
        prop_assert!(bench.device.memory() == memory);
        let mut replies = decode(&bench.received, &lengths);
        prop_assert_eq!(replies.len(), expected.len());
        for (cookie, (error, data)) in expected {
            let reply = replies.remove(&cookie).expect("a reply");
            prop_assert_eq!(reply.0, error);
            prop_assert!(data.is_none_or(|data| data == reply.1), "wrong data in reply {}", cookie);
        }
        bench.session.end_input();
        prop_assert!(bench.session.finished());
    }

    /// Headers of any content, and noise: errors, never a panic, and never more memory than the caps.
    #[test]
    fn any_bytes_stay_within_the_caps(
        parts in prop::collection::vec(prop_oneof![
            6 => (0u16..9, 0u16..64, any::<u64>(), prop_oneof![any::<u64>(), 0..SIZE_BYTES], prop_oneof![any::<u32>(), 0..20000u32])
                .prop_map(|(command, flags, cookie, offset, length)| request(command, flags, cookie, offset, length)),
            4 => (0u16..9, 0u64..128, 0u32..64).prop_map(|(command, block, blocks)| request(command, 0, 0, block * 512, blocks * 512)),
            1 => prop::collection::vec(any::<u8>(), 0..5000),
        ], 0..60),
        structured: bool, give in 1usize..5000, take in 0usize..5000,
    ) {
        let (stream, mut bench) = (parts.concat(), Bench::new(structured));
        let mut input = &stream[..];
        for _ in 0..200 {
            if bench.session.ended() {
                break;
            }
            match bench.give(input, give) {
                Ok(given) => input = &input[given..],
                Err(Broken(_)) => break,
            }
            bench.turn(take);
            prop_assert!(bench.session.staging.len() <= STAGING_BYTES);
            prop_assert!(bench.session.slots.len() <= CAPS.requests_max);
        }
    }
}
