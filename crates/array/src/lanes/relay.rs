//! Requests on their way to the lanes that own their sectors, and back.
//!
//! Any lane takes any request. What it owns it does itself. The rest goes to the owners by message. A request of several owners
//! is cut, and joined again at the end.

use super::{Message, Ports};
use crate::ArraySector;
use crate::member::Slow;
use crate::partition::Partition;
use crate::requests::Parent;
use crate::segments::{Cutter, slice_segments};
use slab::Slab;
use std::ops::Range;
use stria_block::{Completion, Limits, Nanos, Operation, Request, Tag, bytes};

/// Tags of requests for which the relay keeps a ticket have this bit; clients' usually do not.
const TICKET: Tag = 1 << 59;

/// Where the completion of a request goes.
enum Ticket {
    /// A client of this lane.
    Client(Tag),
    /// Another lane.
    Peer { lane: usize, tag: Tag },
    /// This lane's engine, which asked an owner for a read; its key there.
    Engine(usize),
    /// A request in parts: which one, and the offset of this part.
    Part { parent: usize, offset_sectors: u64 },
}

/// A lane's end of the messages between lanes.
pub(crate) struct Relay<P> {
    pub partition: Partition,
    ports: Ports<P>,
    tickets: Slab<Ticket>,
    parents: Slab<Parent>,
    /// Messages to be sent at the end of the iteration, by lane.
    outgoing: Vec<Vec<Message<P>>>,
    inbox: Vec<Message<P>>,
    /// This lane may read other partitions directly, where their owners allow it.
    may_read_directly: bool,
}

/// The way in which a client's request is done.
pub(crate) enum Way {
    /// This lane owns all of it, and the relay is not needed.
    Own,
    /// A direct read of another lane's partition.
    Direct,
    /// The owners do it.
    Owners,
}

impl<P: Clone> Relay<P> {
    pub fn new(partition: Partition, ports: Ports<P>) -> Self {
        let outgoing = (0..partition.lane_count).map(|_| Vec::new()).collect();
        Self {
            partition,
            ports,
            tickets: Slab::new(),
            parents: Slab::new(),
            outgoing,
            inbox: Vec::new(),
            may_read_directly: false,
        }
    }

    fn ticket(&mut self, ticket: Ticket) -> Tag {
        self.tickets.insert(ticket) as Tag | TICKET
    }

    /// Decides how a client's request is done.
    pub fn way(&self, request: &Request) -> Way {
        let start = ArraySector::new(request.start_sector);
        let (lane, group_end) = self.partition.lane_of(start);
        let whole = request.sectors <= group_end - start && request.tag & TICKET == 0;
        match request.operation {
            Operation::Flush => Way::Owners,
            _ if !whole => Way::Owners,
            _ if lane == self.partition.lane => Way::Own,
            _ if self.may_read(lane, &request.operation) => Way::Direct,
            _ => Way::Owners,
        }
    }

    /// True if this is a read, and of a partition that may be read directly.
    fn may_read(&self, lane: usize, operation: &Operation) -> bool {
        matches!(operation, Operation::Read { .. }) && self.may_read_directly && self.ports.allows_direct_reads(lane)
    }

    /// True if this lane owns a request, or a part of one.
    pub fn is_own(&self, request: &Request) -> bool {
        matches!(request.operation, Operation::Flush) || self.owner_of(request) == self.partition.lane
    }

    fn owner_of(&self, request: &Request) -> usize {
        self.partition.lane_of(ArraySector::new(request.start_sector)).0
    }

    /// Sends a request to its owner unchanged.
    pub fn forward(&mut self, request: Request) {
        let (lane, owner) = (self.partition.lane, self.owner_of(&request));
        self.send(owner, Message::Request { lane, request });
    }

    /// True if everything under way here belongs to this lane's clients: then every completion is theirs unchanged.
    pub fn has_no_tickets(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Sets whether this lane may read other partitions directly, and publishes whether others may read its own.
    pub fn publish_direct_reads(&mut self, may_read_directly: bool, allows_direct_reads: bool) {
        self.may_read_directly = may_read_directly;
        self.ports.publish_direct_reads(self.partition.lane, allows_direct_reads);
    }

    /// Asks the owner for a read that this lane's engine needs.
    pub fn ask_owner(&mut self, request: Request, slow: Slow) {
        let tag = self.ticket(Ticket::Engine(request.tag as usize));
        let (lane, owner) = (self.partition.lane, self.owner_of(&request));
        let request = Request { tag, ..request };
        let message = match slow.is_empty() {
            false => Message::ReadAround { lane, request, slow },
            true => Message::Request { lane, request },
        };
        self.send(owner, message);
    }

    /// The key of the engine's read that another lane has answered, if the completion is of one.
    pub fn engines_key(&mut self, completion: &Completion) -> Option<usize> {
        let index = (completion.tag & !TICKET) as usize;
        let &Ticket::Engine(key) = self.tickets.get(index)? else { return None };
        self.tickets.remove(index);
        Some(key)
    }

    /// Takes a client's request. What this lane must do itself, direct reads included, goes to `to_do`.
    pub fn submit(&mut self, mut request: Request, limits: &Limits, now: Nanos, mut to_do: impl FnMut(Request)) {
        let Partition { lane: here, lane_count, .. } = self.partition;
        let flush = matches!(request.operation, Operation::Flush);
        let start = ArraySector::new(request.start_sector);
        let (lane, group_end) = self.partition.lane_of(start);
        let spans = group_end - start < request.sectors && !matches!(request.operation, Operation::Extents { .. });
        // An invalid request is refused in one piece, by the lane that receives it.
        if !(flush || spans && request.check(limits).is_ok()) {
            if lane != here || request.tag & TICKET != 0 {
                request.tag = self.ticket(Ticket::Client(request.tag));
            }
            return match lane == here {
                true => to_do(request),
                false => self.forward(request),
            };
        }
        let lanes: Vec<(usize, u64)> = match flush {
            true => (0..lane_count).map(|lane| (lane, 0)).collect(),
            false => self.parts(start..ArraySector::new(request.end_sector())),
        };
        let parent = self.parents.insert(Parent::of(&request, now, lanes.len()));
        let mut start_sector = request.start_sector;
        let mut memory = match &mut request.operation {
            Operation::Read { into } => Some(Cutter::new(std::mem::take(into))),
            _ => None,
        };
        for (lane, sectors) in lanes {
            let offset_sectors = start_sector - request.start_sector;
            let operation = match &request.operation {
                Operation::Read { .. } => Operation::Read { into: memory.as_mut().expect("a read").take(bytes(sectors)) },
                Operation::Write { from, fua } => {
                    Operation::Write { from: slice_segments(from, bytes(offset_sectors), bytes(sectors)), fua: *fua }
                }
                &Operation::WriteZeroes { fua, unmap, fast } => Operation::WriteZeroes { fua, unmap, fast },
                Operation::Flush => Operation::Flush,
                Operation::Extents { .. } => unreachable!("these are not cut"),
            };
            let tag = self.ticket(Ticket::Part { parent, offset_sectors });
            let is_here = lane == here || self.may_read(lane, &operation);
            let part = Request { tag, start_sector, sectors, operation };
            start_sector += sectors;
            match is_here {
                true => to_do(part),
                // A flush has no position.
                false => self.send(lane, Message::Request { lane: here, request: part }),
            }
        }
    }

    /// The lanes of consecutive parts of a range, with their lengths.
    fn parts(&self, range: Range<ArraySector>) -> Vec<(usize, u64)> {
        let mut parts = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let (lane, group_end) = self.partition.lane_of(next);
            parts.push((lane, group_end.min(range.end) - next));
            next = group_end.min(range.end);
        }
        parts
    }

    /// Takes another lane's request, to be done here.
    pub fn accept(&mut self, lane: usize, request: Request) -> Request {
        let tag = self.ticket(Ticket::Peer { lane, tag: request.tag });
        Request { tag, ..request }
    }

    /// A request has ended, here or on another lane. Returns a client's completion.
    pub fn ended(&mut self, completion: Completion) -> Option<Completion> {
        if completion.tag & TICKET == 0 {
            return Some(completion);
        }
        match self.tickets.remove((completion.tag & !TICKET) as usize) {
            Ticket::Client(tag) => Some(Completion { tag, ..completion }),
            Ticket::Engine(_) => unreachable!("only another lane answers it"),
            Ticket::Peer { lane, tag } => {
                self.send(lane, Message::Ended(Completion { tag, ..completion }));
                None
            }
            Ticket::Part { parent, offset_sectors } => {
                let read = match completion.operation {
                    Operation::Read { into } => Some((offset_sectors, into)),
                    _ => None,
                };
                let last = self.parents[parent].part_done(read, completion.result);
                last.then(|| self.parents.remove(parent).end())
            }
        }
    }

    pub fn send(&mut self, lane: usize, message: Message<P>) {
        self.outgoing[lane].push(message);
    }

    /// Sends to all lanes but this one.
    pub fn tell_all(&mut self, message: impl Fn() -> Message<P>) {
        for lane in (0..self.partition.lane_count).filter(|&lane| lane != self.partition.lane) {
            self.outgoing[lane].push(message());
        }
    }

    /// Sends the messages of this iteration.
    pub fn post(&mut self) {
        for (lane, messages) in self.outgoing.iter_mut().enumerate().filter(|(_, messages)| !messages.is_empty()) {
            self.ports.post(lane, messages);
        }
    }

    /// Takes what others have sent.
    pub fn take_mail(&mut self) -> Vec<Message<P>> {
        let mut inbox = std::mem::take(&mut self.inbox);
        self.ports.take(self.partition.lane, &mut inbox);
        inbox
    }

    /// Returns the memory of a list of messages for reuse.
    pub fn reuse(&mut self, inbox: Vec<Message<P>>) {
        self.inbox = inbox;
    }

    /// True if messages are to be sent or taken.
    pub fn has_mail(&self) -> bool {
        self.ports.has_mail(self.partition.lane) || self.outgoing.iter().any(|messages| !messages.is_empty())
    }
}
