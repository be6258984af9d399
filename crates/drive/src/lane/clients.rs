//! The clients that live on a lane: which are due a turn, and what the others wait for.
//!
//! A client has a room, whose number is its socket's key on the ring. A socket is watched once for each direction at a time. A
//! watch for a client that has left may still fire for the next client in the room, which costs that client a needless turn.

use super::request_table::RequestTable;
use crate::Ring;
use std::panic::{AssertUnwindSafe, catch_unwind};
use stria_block::{KeepOn, LaneClient, Nanos, Request};

/// Set in the key of a socket that is watched for space to send.
const ROOM_TO_SEND: u32 = 1 << 31;

/// All clients of the lane.
#[derive(Default)]
pub(super) struct LaneClients {
    rooms: Vec<Option<Resident>>,
    /// Rooms of clients that are due a turn, each once.
    due: Vec<u32>,
    /// No `until` of any client is before this.
    earliest: Option<Nanos>,
    keys: Vec<u32>,
    requests: Vec<Request>,
}

struct Resident {
    lane_client: Box<dyn LaneClient>,
    /// Its index in the request table.
    client: usize,
    is_due: bool,
    signalled: bool,
    until: Option<Nanos>,
    /// The event that the ring watches the socket for.
    watched_in: bool,
    watched_out: bool,
}

impl LaneClients {
    /// Gives the client a room and a first turn.
    pub(super) fn admit(&mut self, lane_client: Box<dyn LaneClient>, request_table: &mut RequestTable) {
        let room = self.rooms.iter().position(Option::is_none).unwrap_or_else(|| {
            self.rooms.push(None);
            self.rooms.len() - 1
        });
        let client = request_table.admit(room as u32);
        let (is_due, signalled, until) = (false, false, None);
        self.rooms[room] =
            Some(Resident { lane_client, client, is_due, signalled, until, watched_in: false, watched_out: false });
        self.call(room as u32);
    }

    /// The client in this room is due a turn.
    pub(super) fn call(&mut self, room: u32) {
        if let Some(Some(resident)) = self.rooms.get_mut(room as usize)
            && !std::mem::replace(&mut resident.is_due, true)
        {
            self.due.push(room);
        }
    }

    /// All clients are due a turn.
    pub(super) fn call_all(&mut self) {
        (0..self.rooms.len()).for_each(|room| self.call(room as u32));
    }

    /// Calls clients whose socket is ready or whose time has come. True if any client is due a turn.
    pub(super) fn look(&mut self, ring: &Ring, now: Nanos) -> bool {
        let mut keys = std::mem::take(&mut self.keys);
        ring.take_ready(&mut keys);
        for key in keys.drain(..) {
            let room = key & !ROOM_TO_SEND;
            if let Some(Some(resident)) = self.rooms.get_mut(room as usize) {
                let watched = if key == room { &mut resident.watched_in } else { &mut resident.watched_out };
                *watched = false;
                resident.signalled = true;
                self.call(room);
            }
        }
        self.keys = keys;
        if self.earliest.is_some_and(|earliest| earliest <= now) {
            let is_over = |resident: &Resident| resident.until.is_some_and(|until| until <= now);
            let over = |room: &u32| self.rooms[*room as usize].as_ref().is_some_and(is_over);
            let rooms: Vec<u32> = (0..self.rooms.len() as u32).filter(over).collect();
            self.earliest = self.rooms.iter().flatten().filter_map(|resident| resident.until).filter(|&until| until > now).min();
            rooms.into_iter().for_each(|room| self.call(room));
        }
        self.is_due()
    }

    /// True if any client is due a turn.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The time at which the next client has its turn.
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.earliest
    }

    /// Gives a turn to every client that is due one. True if any of them sent a request.
    pub(super) fn turn(
        &mut self,
        now: Nanos,
        ring: &Ring,
        request_table: &mut RequestTable,
        mut submit: impl FnMut(&mut RequestTable, Request),
    ) -> bool {
        let mut asked = false;
        // a client that is called meanwhile gets its turn in the next round.
        let count = self.due.len();
        for index in 0..count {
            let room = self.due[index];
            let resident = self.rooms[room as usize].as_mut().expect("only residents are called");
            resident.is_due = false;
            let (lane_client, answers) = (&mut resident.lane_client, request_table.answers(resident.client));
            let signalled = std::mem::take(&mut resident.signalled);
            let turn = catch_unwind(AssertUnwindSafe(|| lane_client.turn(now, signalled, answers, &mut self.requests)));
            asked |= !self.requests.is_empty();
            request_table.turn_to_client(resident.client);
            self.requests.drain(..).for_each(|request| submit(request_table, request));
            match turn {
                Ok(KeepOn::Again) => {
                    resident.is_due = true;
                    self.due.push(room);
                }
                Ok(KeepOn::Wait { readable, writable, until }) => {
                    resident.until = until;
                    self.earliest = self.earliest.into_iter().chain(until).min();
                    if readable && !std::mem::replace(&mut resident.watched_in, true) {
                        ring.watch(resident.lane_client.socket(), false, room);
                    }
                    if writable && !std::mem::replace(&mut resident.watched_out, true) {
                        ring.watch(resident.lane_client.socket(), true, room | ROOM_TO_SEND);
                    }
                }
                // If a client panics (which is printed), only that client ends.
                Ok(KeepOn::Leave) | Err(_) => {
                    request_table.dismiss(resident.client);
                    self.rooms[room as usize] = None;
                }
            }
        }
        self.due.drain(..count);
        asked
    }
}
