//! The lane's open requests, and the clients to answer.
//!
//! Clients get the device in turn (deficit round robin). While several clients are active, the device has at most a *window* of
//! their bytes, so that a small read does not wait behind 64 MiB of another client's writes. Requests beyond the window wait
//! here, and each client's allowance grows by the same count of bytes in every round. A single client has the device to itself,
//! and a client with few bytes in flight never waits.

use std::collections::VecDeque;
use std::sync::Arc;
use stria_block::{Completion, ErrorKind, IoError, Mailbox, Nanos, Operation, Request, SECTOR_BYTES, Segments, Tag};

/// 4 KiB: what a request costs the device besides its bytes.
const REQUEST_COST: usize = 4 << 10;
/// 512 KiB, 64 requests of 4 KiB: a client with at most this cost at the device never waits.
const SMALL_COST: usize = 512 << 10;
/// 4 MiB, half of the smallest window: the most that zeroing costs besides. Many drives zero faster than they write.
const ZEROES_COST_MAX: usize = 4 << 20;
/// 8 MiB: the smallest window; four milliseconds at two gigabytes a second, and far more than a drive needs to stay busy. With
/// 4 MiB four clients that write 1 MiB at a time to a RAM device took a fifth more processor time.
const WINDOW_COST_MIN: usize = 8 << 20;
/// 64 MiB: the largest window.
const WINDOW_COST_MAX: usize = 64 << 20;
/// 256 KiB: how much a client's allowance grows in a round.
const ROUND_COST: usize = 256 << 10;
/// 500 ms: a client with a request in this period or the last counts as active.
const PERIOD: Nanos = 500_000_000;

/// The requests of a lane's device by slot, and their clients.
pub(super) struct RequestTable {
    lane: String,
    slots: Vec<Option<Open>>,
    free: Vec<u32>,
    clients: Vec<Client>,
    /// The client whose requests are being accepted.
    current: usize,
    /// Clients with answers to send.
    waiting: Vec<usize>,
    /// The cost of all requests at the device, in bytes.
    cost: usize,
    /// The largest cost at the device while several clients are active.
    window_cost: usize,
    /// Clients with waiting requests, in the order of their turns.
    turns: VecDeque<usize>,
    /// Clients with waiting requests whose cost at the device is so low that they need not wait for their turn.
    modest: Vec<usize>,
    /// The number of clients that are active.
    period: Period,
}

/// The number of clients that were active lately.
#[derive(Default)]
struct Period {
    number: u64,
    began: Nanos,
    /// In the previous period, and in this one so far.
    counts: [usize; 2],
}

struct Open {
    client: usize,
    tag: Tag,
    cost: usize,
    /// The operation without its memory, for an answer if the device never gives one.
    hollow: Operation,
}

struct Client {
    reply: Reply,
    answers: Vec<Completion>,
    open: usize,
    /// The cost of its requests at the device.
    cost: usize,
    /// Requests that wait for the client's turn, the oldest first.
    held: VecDeque<Request>,
    /// The cost that it may still send in this round.
    deficit: usize,
    /// True if it is in `turns`.
    has_turn: bool,
    /// The period of its last request.
    period: u64,
}

/// The destination of a client's answers.
enum Reply {
    Mailbox(Arc<Mailbox<Completion>>),
    /// To the on-lane client of this number, which takes them with [`RequestTable::answers`].
    LaneClient(u32),
    /// The on-lane client has left: answers are discarded.
    Gone,
}

impl Client {
    /// True if the client can neither send requests nor receive answers any more.
    fn has_left(&self) -> bool {
        let gone = match &self.reply {
            Reply::Mailbox(reply) => Arc::strong_count(reply) == 1,
            Reply::LaneClient(_) => false,
            Reply::Gone => true,
        };
        gone && self.open == 0 && self.answers.is_empty() && self.held.is_empty()
    }
}

/// The error of every request after the end of lane `name`.
pub(super) fn stopped(name: &str) -> IoError {
    IoError::new(ErrorKind::Gone, format!("{name} has stopped; start it again"))
}

impl RequestTable {
    /// `optimal_io_bytes`: the device's preferred size of I/O. The window holds two of that, so that full stripes are written
    /// as such.
    pub(super) fn new(lane: &str, optimal_io_bytes: u32) -> Self {
        Self {
            lane: lane.to_owned(),
            slots: Vec::new(),
            free: Vec::new(),
            clients: Vec::new(),
            current: 0,
            waiting: Vec::new(),
            cost: 0,
            window_cost: (2 * optimal_io_bytes as usize).clamp(WINDOW_COST_MIN, WINDOW_COST_MAX),
            turns: VecDeque::new(),
            modest: Vec::new(),
            period: Period { number: 1, ..Period::default() },
        }
    }

    /// Sets the time, once in each turn of the lane.
    pub(super) fn set_now(&mut self, now: Nanos) {
        let period = &mut self.period;
        if now >= period.began + PERIOD {
            // After a longer pause the last period had no clients.
            let last = if now < period.began + 2 * PERIOD { period.counts[1] } else { 0 };
            *period = Period { number: period.number + 1, began: now, counts: [last, 0] };
        }
    }

    /// The requests that follow come from this client.
    pub(super) fn turn_to(&mut self, reply: Arc<Mailbox<Completion>>) {
        let known = |client: &Client| matches!(&client.reply, Reply::Mailbox(known) if Arc::ptr_eq(known, &reply));
        if self.clients.get(self.current).is_some_and(known) {
            return;
        }
        self.current = match self.clients.iter().position(known) {
            Some(index) => index,
            None => self.add(Reply::Mailbox(reply)),
        };
    }

    /// Makes the on-lane client of this number a client. Returns the client's index.
    pub(super) fn admit(&mut self, number: u32) -> usize {
        self.add(Reply::LaneClient(number))
    }

    /// The requests that follow come from this on-lane client.
    pub(super) fn turn_to_client(&mut self, client: usize) {
        self.current = client;
    }

    /// The on-lane client wants no more answers.
    pub(super) fn dismiss(&mut self, client: usize) {
        self.clients[client].reply = Reply::Gone;
        self.clients[client].answers.clear();
        // Requests that the device does not have yet need not run: their results would be discarded.
        self.clients[client].held.clear();
    }

    /// An on-lane client's answers; it takes all of them.
    pub(super) fn answers(&mut self, client: usize) -> &mut Vec<Completion> {
        &mut self.clients[client].answers
    }

    /// Adds a client, in a slot of one that has left if there is any.
    fn add(&mut self, reply: Reply) -> usize {
        match self.clients.iter().position(Client::has_left) {
            Some(index) => {
                self.clients[index].reply = reply;
                index
            }
            None => {
                let (answers, held) = (Vec::new(), VecDeque::new());
                self.clients.push(Client { reply, answers, open: 0, cost: 0, held, deficit: 0, has_turn: false, period: 0 });
                self.clients.len() - 1
            }
        }
    }

    /// Takes a request of the current client. Returns it with a slot as its tag, to be submitted; or it waits until
    /// [`RequestTable::next`] returns it.
    pub(super) fn accept(&mut self, request: Request) -> Option<Request> {
        let client = &mut self.clients[self.current];
        if client.period != self.period.number {
            client.period = self.period.number;
            self.period.counts[1] += 1;
        }
        let cost = cost_of(&request);
        let fits = self.cost == 0 || self.cost + cost <= self.window_cost;
        let is_free = fits || client.cost + cost <= SMALL_COST || self.period.is_quiet();
        if client.held.is_empty() && is_free {
            return Some(self.open(self.current, request));
        }
        if !std::mem::replace(&mut client.has_turn, true) {
            self.turns.push_back(self.current);
        }
        client.held.push_back(request);
        None
    }

    /// A request that waited and may be submitted now.
    pub(super) fn next(&mut self) -> Option<Request> {
        while let Some(&index) = self.modest.last() {
            let client = &mut self.clients[index];
            match client.held.pop_front() {
                Some(request) if client.cost + cost_of(&request) <= SMALL_COST => return Some(self.open(index, request)),
                Some(request) => client.held.push_front(request),
                None => {}
            }
            self.modest.pop();
        }
        while let Some(&index) = self.turns.front() {
            let client = &mut self.clients[index];
            let Some(cost) = client.held.front().map(cost_of) else {
                (client.deficit, client.has_turn) = (0, false);
                self.turns.pop_front();
                continue;
            };
            if self.cost > 0 && self.cost + cost > self.window_cost && !self.period.is_quiet() {
                return None;
            }
            if client.deficit < cost {
                client.deficit += ROUND_COST;
                self.turns.rotate_left(1);
                continue;
            }
            client.deficit -= cost;
            let request = client.held.pop_front().expect("it was seen");
            return Some(self.open(index, request));
        }
        None
    }

    /// Gives a client's request a slot, whose number becomes its tag.
    fn open(&mut self, client: usize, mut request: Request) -> Request {
        let cost = cost_of(&request);
        self.cost += cost;
        self.clients[client].cost += cost;
        let hollow = match &request.operation {
            Operation::Read { .. } => Operation::Read { into: Segments::new() },
            Operation::Write { fua, .. } => Operation::Write { from: Segments::new(), fua: *fua },
            Operation::Flush => Operation::Flush,
            Operation::Extents { .. } => Operation::Extents { extents: Vec::new() },
            &Operation::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua, unmap, fast },
        };
        let open = Some(Open { client, tag: request.tag, cost, hollow });
        self.clients[client].open += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = open;
                slot
            }
            None => {
                self.slots.push(open);
                self.slots.len() as u32 - 1
            }
        };
        request.tag = Tag::from(slot);
        request
    }

    /// Takes the device's completion. The next [`RequestTable::send`] sends it.
    ///
    /// # Panics
    /// The device ends a request twice, or one that it never got.
    pub(super) fn answer(&mut self, mut completion: Completion) {
        let slot = completion.tag as usize;
        let open = self.slots.get_mut(slot).and_then(Option::take).expect("a device ends each of its requests once");
        self.free.push(slot as u32);
        completion.tag = open.tag;
        self.cost -= open.cost;
        let client = &mut self.clients[open.client];
        client.open -= 1;
        client.cost -= open.cost;
        if !client.held.is_empty() && client.cost < SMALL_COST && self.modest.last() != Some(&open.client) {
            self.modest.push(open.client);
        }
        self.put(open.client, completion);
    }

    /// Answers the current client's request with an error at once.
    pub(super) fn refuse(&mut self, request: Request) {
        let error = stopped(&self.lane);
        self.put(self.current, request.complete(Err(error)));
    }

    /// Sends the answers, each client's with one lock and at most one wake-up. `call` is given the number of
    /// each on-lane client that has answers.
    pub(super) fn send(&mut self, mut call: impl FnMut(u32)) {
        for client in self.waiting.drain(..) {
            let client = &mut self.clients[client];
            match &client.reply {
                Reply::Mailbox(reply) => reply.push_all(client.answers.drain(..)),
                Reply::LaneClient(number) => call(*number),
                Reply::Gone => client.answers.clear(),
            }
        }
    }

    /// True if every request was answered.
    pub(super) fn is_clear(&self) -> bool {
        self.slots.len() == self.free.len() && self.clients.iter().all(|client| client.held.is_empty())
    }

    /// Answers all open requests with an error; [`RequestTable::send`] sends the answers. Their memory is lost with the device.
    pub(super) fn close(&mut self) {
        for open in std::mem::take(&mut self.slots).into_iter().flatten() {
            let completion = Completion { tag: open.tag, result: Err(stopped(&self.lane)), operation: open.hollow };
            self.put(open.client, completion);
        }
        self.free.clear();
        for client in 0..self.clients.len() {
            for request in std::mem::take(&mut self.clients[client].held) {
                self.put(client, request.complete(Err(stopped(&self.lane))));
            }
        }
    }

    fn put(&mut self, client: usize, completion: Completion) {
        let answers = &mut self.clients[client].answers;
        if answers.is_empty() {
            self.waiting.push(client);
        }
        answers.push(completion);
    }
}

impl Period {
    /// True if at most one client is active.
    fn is_quiet(&self) -> bool {
        self.counts.iter().all(|&count| count <= 1)
    }
}

/// The cost of a request to the device, in bytes.
fn cost_of(request: &Request) -> usize {
    match request.operation {
        Operation::Read { .. } | Operation::Write { .. } => REQUEST_COST + request.sectors as usize * SECTOR_BYTES,
        Operation::WriteZeroes { .. } => {
            let sectors_max = (ZEROES_COST_MAX / SECTOR_BYTES) as u64;
            REQUEST_COST + request.sectors.min(sectors_max) as usize * SECTOR_BYTES
        }
        Operation::Flush | Operation::Extents { .. } => REQUEST_COST,
    }
}

#[cfg(test)]
mod tests;
