//! Who asked for what: the lane's open requests and the clients to answer.

use std::sync::Arc;
use stria_block::{Completion, ErrorKind, IoError, Mailbox, Operation, Request, Segments, Tag};

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
}

struct Open {
    client: usize,
    tag: Tag,
    /// The operation without its memory, for an answer if the device never gives one.
    hollow: Operation,
}

struct Client {
    reply: Arc<Mailbox<Completion>>,
    answers: Vec<Completion>,
    open: usize,
}

/// The error of every request after the end of lane `name`.
pub(super) fn stopped(name: &str) -> IoError {
    IoError::new(ErrorKind::Gone, format!("{name} has stopped; start it again"))
}

impl Desk {
    pub(super) fn new(lane: &str) -> Self {
        let lane = lane.to_owned();
        Self { lane, slots: Vec::new(), free: Vec::new(), clients: Vec::new(), current: 0, waiting: Vec::new() }
    }

    /// The requests that follow are this client's.
    pub(super) fn turn_to(&mut self, reply: Arc<Mailbox<Completion>>) {
        let known = |client: &Client| Arc::ptr_eq(&client.reply, &reply);
        if self.clients.get(self.current).is_some_and(known) {
            return;
        }
        if let Some(index) = self.clients.iter().position(known) {
            self.current = index;
            return;
        }
        // A client that is gone makes room.
        let left = |client: &Client| client.open == 0 && client.answers.is_empty() && Arc::strong_count(&client.reply) == 1;
        let client = |answers| Client { reply, answers, open: 0 };
        match self.clients.iter().position(left) {
            Some(index) => {
                self.current = index;
                let answers = std::mem::take(&mut self.clients[index].answers);
                self.clients[index] = client(answers);
            }
            None => {
                self.current = self.clients.len();
                self.clients.push(client(Vec::new()));
            }
        }
    }

    /// Gives the current client's request a slot, which becomes its tag.
    pub(super) fn accept(&mut self, mut request: Request) -> Request {
        let hollow = match &request.operation {
            Operation::Read { .. } => Operation::Read { into: Segments::new() },
            Operation::Write { fua, .. } => Operation::Write { from: Segments::new(), fua: *fua },
            Operation::Flush => Operation::Flush,
            Operation::Discard => Operation::Discard,
            Operation::Extents { .. } => Operation::Extents { extents: Vec::new() },
            &Operation::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua, unmap, fast },
        };
        let open = Some(Open { client: self.current, tag: request.tag, hollow });
        self.clients[self.current].open += 1;
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
        self.clients[open.client].open -= 1;
        self.put(open.client, completion);
    }

    /// Answers the current client's request with an error at once.
    pub(super) fn refuse(&mut self, request: Request) {
        let error = stopped(&self.lane);
        self.put(self.current, request.complete(Err(error)));
    }

    /// Sends the answers, each client's with one lock and at most one wake-up.
    pub(super) fn send(&mut self) {
        for client in self.waiting.drain(..) {
            let client = &mut self.clients[client];
            client.reply.push_all(client.answers.drain(..));
        }
    }

    /// Whether every request was answered.
    pub(super) fn is_clear(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Answers everything that is open with an error; its memory is lost with the device.
    pub(super) fn close(&mut self) {
        for open in std::mem::take(&mut self.slots).into_iter().flatten() {
            let completion = Completion { tag: open.tag, result: Err(stopped(&self.lane)), operation: open.hollow };
            self.put(open.client, completion);
        }
        self.free.clear();
        self.send();
    }

    fn put(&mut self, client: usize, completion: Completion) {
        let answers = &mut self.clients[client].answers;
        if answers.is_empty() {
            self.waiting.push(client);
        }
        answers.push(completion);
    }
}
