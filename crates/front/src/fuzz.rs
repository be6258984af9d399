//! Hostile clients against the pure state machines: a whole connection, from the first byte to the last, without a socket.
//!
//! [`run`] takes the place of the driver. It passes on a stream piece by piece, lets a RAM device answer in any order, sends
//! replies at any pace, and checks the invariants after every step. Tests run it on seeds, and `fuzz/` runs it guided by
//! coverage.

pub mod stream;

use crate::budget::Budget;
use crate::export::Facts;
use crate::handshake::{Agreement, Handshake, OPTION_BYTES_MAX, Security, Step};
use crate::session::{Caps, Session};
use crate::wire::{OPTION_HEADER_BYTES, Reader, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};
use smallvec::SmallVec;
use std::io::IoSlice;
use std::sync::Arc;
use stream::{Choices, SIZE_BYTES};
use stria_block::{BlockDevice, Completion, Limits, RamDevice, Request};

/// How a connection ended; for statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client left or was refused before it had agreed on an export.
    Haggled,
    /// The stream was invalid from some byte on.
    Broke,
    /// The client ended, and all requests were answered.
    Finished,
}

/// Steps of one connection. Streams are short, so more means that it makes no progress.
const STEPS_MAX: usize = 1 << 20;
/// The most unread output of a handshake: all answers to one option.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Runs one connection; the choices determine it.
///
/// # Panics
/// When an invariant does not hold.
pub fn run(choices: &[u8]) -> Outcome {
    let choices = &mut Choices(choices);
    let size_bytes = choices.pick(&[SIZE_BYTES, SIZE_BYTES, 512, 0]);
    let exports = ["tank", "extra"].map(|name| facts(name, size_bytes, choices));
    let refusal = choices.rarely(30).then_some("no place");
    let caps = Caps { requests_max: choices.pick(&[1, 4, 64]), bytes_max: choices.pick(&[64 << 10, 256 << 10, 1 << 20]) };
    let budget = Budget::new(choices.pick(&[256 << 10, 512 << 10]));
    let mut neighbour = budget.lease(0);
    // Other connections may hold memory for a while.
    neighbour.reach(choices.pick(&[0, 0, 256 << 10]));
    let pace = choices.pick(&[1, 17, 1000, 1 << 20]);
    // The stream is made of the remaining choices, and the same choices determine how it is cut.
    let mut cuts = Choices(choices.0);
    let input = stream::stream(choices);
    let mut piece = move || match cuts.is_empty() {
        true => 4096,
        false if pace == 1 => 1 + cuts.below(64) as usize,
        false => 1 + cuts.below(pace) as usize,
    };

    let mut at = Position::default();
    let Some(agreement) = haggle(&input, &exports, refusal, &mut piece, &mut at) else { return Outcome::Haggled };
    let Position { given, taken, mut steps } = at;
    assert!(refusal.is_none(), "a client that was refused has agreed");
    let structured = agreement.structured;
    let mut session = Session::new(agreement, caps, budget.lease(128 << 10), &input[taken..given]);
    session.set_grouped(structured);
    let mut client = Client { input: &input[given..], received: Vec::new(), replies: 0, structured };
    let limits = Limits { discard_granularity_bytes: 512, ..Limits::plain(size_bytes / 512) };
    let mut device = RamDevice::with_limits(limits);
    let (mut requests, mut completions): (Vec<Request>, Vec<Completion>) = Default::default();
    let mut asked = 0;
    while !session.finished() {
        steps += 1;
        assert!(steps < STEPS_MAX, "the session does not move on");
        if steps % 64 == 0 {
            neighbour.shrink_to(0);
        }
        if session.wants_input() {
            client.send(&mut session, piece());
        }
        if session.parse(&mut requests).is_err() {
            abandon(&mut session, &mut device, requests, steps);
            return Outcome::Broke;
        }
        session.share_memory();
        session.check(caps);
        asked += requests.len();
        requests.drain(..).for_each(|request| device.submit(request));
        if piece() % 3 != 0 {
            device.poll(steps as u64, &mut completions);
            if piece() % 2 == 0 {
                completions.reverse();
            }
            completions.drain(..).for_each(|completion| session.complete(completion));
            asked += requests.len();
            requests.drain(..).for_each(|request| device.submit(request));
        }
        if session.has_output() {
            client.take(&mut session, piece());
        }
        session.check(caps);
    }
    assert!(asked <= 1 << 16);
    client.decode();
    assert!(client.received.is_empty(), "the last reply is cut");
    if structured {
        assert_eq!(client.replies, session.counters().requests, "each request is answered once");
    }
    Outcome::Finished
}

fn facts(name: &str, size_bytes: u64, choices: &mut Choices) -> Arc<Facts> {
    Arc::new(Facts {
        name: name.into(),
        description: "d".repeat(choices.pick(&[0, 10, 4096])),
        size_bytes,
        block_min_bytes: if size_bytes == 512 { 512 } else { choices.pick(&[512, 4096]) },
        block_preferred_bytes: 4096,
        payload_bytes_max: choices.pick(&[64 << 10, 256 << 10]),
        read_only: choices.rarely(6),
        rotational: choices.rarely(6),
        can_trim: !choices.rarely(6),
    })
}

/// The progress of a connection.
#[derive(Default)]
struct Position {
    /// Bytes of the input that the server has.
    given: usize,
    /// Bytes that it has parsed.
    taken: usize,
    steps: usize,
}

/// The handshake. `None`: the client did not agree.
fn haggle(
    input: &[u8],
    exports: &[Arc<Facts>],
    refusal: Option<&'static str>,
    piece: &mut impl FnMut() -> usize,
    at: &mut Position,
) -> Option<Agreement> {
    let mut output = Vec::new();
    let mut handshake = Handshake::new(Security::Offered, &mut output);
    handshake.set_refusal(refusal);
    loop {
        at.steps += 1;
        assert!(at.steps < STEPS_MAX, "the handshake does not move on");
        assert!(output.len() <= OUTPUT_BYTES_MAX, "{} bytes of output", output.len());
        output.clear();
        let window = &input[at.taken..at.given.max(at.taken)];
        assert!(window.len() <= OPTION_HEADER_BYTES + OPTION_BYTES_MAX, "more than the driver's buffer is wanted");
        let (used, step) = handshake.step(window, exports, &mut output);
        assert!(used <= window.len());
        at.taken += used;
        match step {
            // TLS itself is fuzzed by rustls.
            Step::Again | Step::StartTls => assert!(used > 0, "again without a reason"),
            Step::Starved if at.given == input.len() => return None,
            Step::Starved => {
                at.given = (at.given + piece()).min(input.len()).min(at.taken + OPTION_HEADER_BYTES + OPTION_BYTES_MAX);
            }
            Step::Agreed(agreement) => return Some(agreement),
            Step::Close(reason) => {
                assert!(!reason.is_empty());
                return None;
            }
        }
    }
}

/// As the driver does: stops answering requests, and waits for those at the device.
fn abandon(session: &mut Session, device: &mut RamDevice, requests: Vec<Request>, now: usize) {
    session.abandon();
    requests.into_iter().for_each(|request| device.submit(request));
    let mut completions = Vec::new();
    while session.requests_at_device() > 0 {
        device.poll(now as u64, &mut completions);
        assert!(!completions.is_empty(), "a request is lost");
        completions.drain(..).for_each(|completion| session.forget(completion));
    }
    assert_eq!(session.held_bytes(), 0);
}

/// The client's end of a transmission.
struct Client<'a> {
    input: &'a [u8],
    received: Vec<u8>,
    replies: u64,
    structured: bool,
}

impl Client<'_> {
    /// Gives the server as many bytes as it has space for.
    fn send(&mut self, session: &mut Session, most: usize) {
        let mut len = 0;
        for space in session.space() {
            let part = space.len().min(self.input.len() - len).min(most - len);
            space[..part].copy_from_slice(&self.input[len..len + part]);
            len += part;
        }
        session.received(len);
        self.input = &self.input[len..];
        if self.input.is_empty() && len == 0 {
            session.end_input();
        }
    }

    /// Reads at most `len` bytes of replies.
    fn take(&mut self, session: &mut Session, len: usize) {
        let mut slices = SmallVec::<[IoSlice; 16]>::new();
        session.slices(&mut slices);
        let there: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(there > 0, "output of no bytes");
        let len = len.min(there);
        let mut left = len;
        for slice in &slices {
            let part = left.min(slice.len());
            self.received.extend_from_slice(&slice[..part]);
            left -= part;
        }
        drop(slices);
        session.sent(len);
        if !self.structured {
            // The length of a simple reply depends on the request: only the count and form are checked, by `counters`.
            self.received.clear();
        }
        if self.received.len() > 1 << 20 {
            self.decode();
        }
    }

    /// Removes complete replies from the received bytes.
    fn decode(&mut self) {
        let mut at = 0;
        loop {
            let mut reader = Reader(&self.received[at..]);
            let magic = reader.u32();
            let len = match magic {
                None => break,
                Some(SIMPLE_REPLY_MAGIC) => 16,
                Some(STRUCTURED_REPLY_MAGIC) => {
                    let (Some(flags), Some(_kind), Some(_cookie), Some(len)) =
                        (reader.u16(), reader.u16(), reader.u64(), reader.u32())
                    else {
                        break;
                    };
                    assert_eq!(flags, 1, "each reply is one chunk");
                    20 + len as usize
                }
                Some(magic) => panic!("{magic:#x} is no reply"),
            };
            if self.received.len() - at < len {
                break;
            }
            at += len;
            self.replies += 1;
        }
        self.received.drain(..at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs streams, `STRIA_FUZZ_STREAMS` of them or some thousands, from seed `STRIA_FUZZ_SEED` on. A panic names its seed.
    #[test]
    fn hostile_streams_break_nothing() {
        let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
        let (count, first) = (number("STRIA_FUZZ_STREAMS", 3_000), number("STRIA_FUZZ_SEED", 0));
        let mut outcomes = [0_u64; 3];
        for seed in first..first + count {
            let outcome = std::panic::catch_unwind(|| run(&stream::choices_of(seed)));
            let outcome =
                outcome.unwrap_or_else(|_| panic!("the stream of seed {seed}: STRIA_FUZZ_SEED={seed} STRIA_FUZZ_STREAMS=1"));
            outcomes[outcome as usize] += 1;
        }
        println!("{outcomes:?} of {count}");
        assert!(count < 1000 || outcomes.iter().all(|&seen| seen > count / 16), "streams that are all alike: {outcomes:?}");
    }
}
