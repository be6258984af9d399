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
    reply: Reply,
    answers: Vec<Completion>,
    open: usize,
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
        gone && self.open == 0 && self.answers.is_empty()
    }
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
                self.clients.push(Client { reply, answers: Vec::new(), open: 0 });
                self.clients.len() - 1
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
        self.slots.len() == self.free.len()
    }

    /// Answers everything that is open with an error, to be sent; its memory is lost with the device.
    pub(super) fn close(&mut self) {
        for open in std::mem::take(&mut self.slots).into_iter().flatten() {
            let completion = Completion { tag: open.tag, result: Err(stopped(&self.lane)), operation: open.hollow };
            self.put(open.client, completion);
        }
        self.free.clear();
    }

    fn put(&mut self, client: usize, completion: Completion) {
        let answers = &mut self.clients[client].answers;
        if answers.is_empty() {
            self.waiting.push(client);
        }
        answers.push(completion);
    }
}
