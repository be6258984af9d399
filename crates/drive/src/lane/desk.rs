//! Who asked for what: the lane's open requests and the clients to answer.
//!
//! Clients get the device in turn (deficit round robin). As long as several ask, the device has at most a *window* of their
//! bytes, so that a small read does not stand behind 64 MiB of another client's writes; what is beyond waits here, and each
//! client's share of the window grows by the same count of bytes a round. A client alone has the device for itself, and one
//! that asks for little at a time is never held.

use std::collections::VecDeque;
use std::sync::Arc;
use stria_block::{Completion, ErrorKind, IoError, Mailbox, Nanos, Operation, Request, SECTOR_BYTES, Segments, Tag};

/// 4 KiB: what a request costs the device besides its bytes.
const REQUEST_COST: usize = 4 << 10;
/// 512 KiB: up to this at the device a client is never held: 64 requests of 4 KiB.
const SMALL_COST: usize = 512 << 10;
/// 8 MiB: the least window; four milliseconds of two gigabytes a second, and far more than fits between a drive and its answer.
/// With 4 MiB four clients that write 1 MiB at a time to a RAM device took a fifth more processor time.
const WINDOW_COST_MIN: usize = 8 << 20;
/// 64 MiB: the largest window.
const WINDOW_COST_MAX: usize = 64 << 20;
/// 256 KiB: what a client's share grows by in a round.
const ROUND_COST: usize = 256 << 10;
/// 500 ms: a client that has asked in this or the last such period counts as active.
const SEASON: Nanos = 500_000_000;

/// The requests of a lane's device by slot, and their clients.
pub(super) struct Desk {
    lane: String,
    slots: Vec<Option<Open>>,
    free: Vec<u32>,
    clients: Vec<Client>,
    /// The client whose requests come in now.
    current: usize,
    /// Clients with answers to send.
    waiting: Vec<usize>,
    /// What the device has, in bytes.
    cost: usize,
    /// What it may have while several clients ask.
    window_cost: usize,
    /// Clients with requests that are held, in the order of their turns.
    turns: VecDeque<usize>,
    /// Clients with held requests of which the device has so little that they need not wait for their turn.
    modest: Vec<usize>,
    /// How many clients ask.
    season: Season,
}

/// How many clients have asked of late.
#[derive(Default)]
struct Season {
    number: u64,
    began: Nanos,
    /// In the last one, and in this one so far.
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
    /// Of what the device has.
    cost: usize,
    /// Requests that wait for the client's turn, the oldest first.
    held: VecDeque<Request>,
    /// What may go before its next turn.
    deficit: usize,
    /// Whether it is in the list of turns.
    has_turn: bool,
    /// The season in which it last asked.
    season: u64,
}

/// Where a client's answers go.
enum Reply {
    Mailbox(Arc<Mailbox<Completion>>),
    /// To the guest in this room, who takes them with [`Desk::answers`].
    Guest(u32),
    /// The guest has left: nowhere.
    Gone,
}

impl Client {
    /// Whether nobody is left who could ask or be answered.
    fn has_left(&self) -> bool {
        let gone = match &self.reply {
            Reply::Mailbox(reply) => Arc::strong_count(reply) == 1,
            Reply::Guest(_) => false,
            Reply::Gone => true,
        };
        gone && self.open == 0 && self.answers.is_empty() && self.held.is_empty()
    }
}

/// The error of every request after the end of lane `name`.
pub(super) fn stopped(name: &str) -> IoError {
    IoError::new(ErrorKind::Gone, format!("{name} has stopped; start it again"))
}

impl Desk {
    /// `optimal_io_bytes`: what the device likes to get at once; the window takes several of that, so that whole stripes are
    /// written whole.
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
            season: Season { number: 1, ..Season::default() },
        }
    }

    /// Tells the time, once a turn of the lane.
    pub(super) fn set_now(&mut self, now: Nanos) {
        let season = &mut self.season;
        if now >= season.began + SEASON {
            // After a longer silence nobody was there.
            let last = if now < season.began + 2 * SEASON { season.counts[1] } else { 0 };
            *season = Season { number: season.number + 1, began: now, counts: [last, 0] };
        }
    }

    /// The requests that follow are this client's.
    pub(super) fn turn_to(&mut self, reply: Arc<Mailbox<Completion>>) {
        let known = |client: &Client| matches!(&client.reply, Reply::Mailbox(known) if Arc::ptr_eq(known, &reply));
        if self.clients.get(self.current).is_some_and(known) {
            return;
        }
        self.current = match self.clients.iter().position(known) {
            Some(index) => index,
            None => self.seat(Reply::Mailbox(reply)),
        };
    }

    /// The guest in this room becomes a client; its number.
    pub(super) fn admit(&mut self, room: u32) -> usize {
        self.seat(Reply::Guest(room))
    }

    /// The requests that follow are this guest's.
    pub(super) fn turn_to_guest(&mut self, client: usize) {
        self.current = client;
    }

    /// The guest wants no answers any more.
    pub(super) fn dismiss(&mut self, client: usize) {
        self.clients[client].reply = Reply::Gone;
        self.clients[client].answers.clear();
        // What the device has not got yet it need not carry out: nobody would hear of it.
        self.clients[client].held.clear();
    }

    /// A guest's answers, which it takes all.
    pub(super) fn answers(&mut self, client: usize) -> &mut Vec<Completion> {
        &mut self.clients[client].answers
    }

    /// A client that is gone makes room.
    fn seat(&mut self, reply: Reply) -> usize {
        match self.clients.iter().position(Client::has_left) {
            Some(index) => {
                self.clients[index].reply = reply;
                index
            }
            None => {
                let (answers, held) = (Vec::new(), VecDeque::new());
                self.clients.push(Client { reply, answers, open: 0, cost: 0, held, deficit: 0, has_turn: false, season: 0 });
                self.clients.len() - 1
            }
        }
    }

    /// The current client asks; its request comes back with a slot as its tag, to be submitted, or is held until
    /// [`Desk::next`] gives it.
    pub(super) fn accept(&mut self, request: Request) -> Option<Request> {
        let client = &mut self.clients[self.current];
        if client.season != self.season.number {
            client.season = self.season.number;
            self.season.counts[1] += 1;
        }
        let cost = cost_of(&request);
        let fits = self.cost == 0 || self.cost + cost <= self.window_cost;
        let is_free = fits || client.cost + cost <= SMALL_COST || self.season.is_quiet();
        if client.held.is_empty() && is_free {
            return Some(self.open(self.current, request));
        }
        if !std::mem::replace(&mut client.has_turn, true) {
            self.turns.push_back(self.current);
        }
        client.held.push_back(request);
        None
    }

    /// A request that was held and may go now.
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
            if self.cost > 0 && self.cost + cost > self.window_cost && !self.season.is_quiet() {
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

    /// Gives a client's request a slot, which becomes its tag.
    fn open(&mut self, client: usize, mut request: Request) -> Request {
        let cost = cost_of(&request);
        self.cost += cost;
        self.clients[client].cost += cost;
        let hollow = match &request.operation {
            Operation::Read { .. } => Operation::Read { into: Segments::new() },
            Operation::Write { fua, .. } => Operation::Write { from: Segments::new(), fua: *fua },
            Operation::Flush => Operation::Flush,
            Operation::Discard => Operation::Discard,
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

    /// Takes the device's completion; sent with the next [`Desk::send`].
    ///
    /// # Panics
    /// When the device ends a request twice, or one that it never got.
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

    /// Sends the answers, each client's with one lock and at most one wake-up; guests are called by their rooms.
    pub(super) fn send(&mut self, mut call: impl FnMut(u32)) {
        for client in self.waiting.drain(..) {
            let client = &mut self.clients[client];
            match &client.reply {
                Reply::Mailbox(reply) => reply.push_all(client.answers.drain(..)),
                Reply::Guest(room) => call(*room),
                Reply::Gone => client.answers.clear(),
            }
        }
    }

    /// Whether every request was answered.
    pub(super) fn is_clear(&self) -> bool {
        self.slots.len() == self.free.len() && self.clients.iter().all(|client| client.held.is_empty())
    }

    /// Answers everything that is open with an error, to be sent; its memory is lost with the device.
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

impl Season {
    /// Whether at most one client asks.
    fn is_quiet(&self) -> bool {
        self.counts.iter().all(|&count| count <= 1)
    }
}

/// What a request costs the device, in bytes.
fn cost_of(request: &Request) -> usize {
    match request.operation {
        Operation::Read { .. } | Operation::Write { .. } => REQUEST_COST + request.sectors as usize * SECTOR_BYTES,
        Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } | Operation::Extents { .. } => REQUEST_COST,
    }
}

#[cfg(test)]
mod tests;
