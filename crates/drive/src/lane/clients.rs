//! The clients that run on a lane: the ones that are due a turn, and the events that the others wait for.
//!
//! A client has a seat, whose number is its socket's key on the ring. A socket is watched once for each direction at a time. A
//! watch for a client that has left may still fire for the next client in the seat. That client then takes a needless turn.

use super::request_table::RequestTable;
use crate::Ring;
use std::panic::{AssertUnwindSafe, catch_unwind};
use stria_block::{KeepOn, LaneClient, Nanos, Request};

/// Set in the key of a socket that is watched for space to send.
const SEAT_TO_SEND: u32 = 1 << 31;

/// All clients of the lane.
#[derive(Default)]
pub(super) struct LaneClients {
    seats: Vec<Option<Seat>>,
    /// Seats of clients that are due a turn, each once.
    due: Vec<u32>,
    /// No client's `until` is before this.
    earliest: Option<Nanos>,
    keys: Vec<u32>,
    requests: Vec<Request>,
}

struct Seat {
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
    /// Gives the client a seat and a first turn.
    pub(super) fn admit(&mut self, lane_client: Box<dyn LaneClient>, request_table: &mut RequestTable) {
        let seat = self.seats.iter().position(Option::is_none).unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        let client = request_table.admit(seat as u32);
        let (is_due, signalled, until) = (false, false, None);
        self.seats[seat] = Some(Seat { lane_client, client, is_due, signalled, until, watched_in: false, watched_out: false });
        self.call(seat as u32);
    }

    /// The client in this seat is due a turn.
    pub(super) fn call(&mut self, seat: u32) {
        if let Some(Some(seated)) = self.seats.get_mut(seat as usize)
            && !std::mem::replace(&mut seated.is_due, true)
        {
            self.due.push(seat);
        }
    }

    /// All clients are due a turn.
    pub(super) fn call_all(&mut self) {
        (0..self.seats.len()).for_each(|seat| self.call(seat as u32));
    }

    /// Marks the clients whose socket is ready or whose time has come as due a turn. True if any client is due one.
    pub(super) fn look(&mut self, ring: &Ring, now: Nanos) -> bool {
        let mut keys = std::mem::take(&mut self.keys);
        ring.take_ready(&mut keys);
        for key in keys.drain(..) {
            let seat = key & !SEAT_TO_SEND;
            if let Some(Some(seated)) = self.seats.get_mut(seat as usize) {
                let watched = if key == seat { &mut seated.watched_in } else { &mut seated.watched_out };
                *watched = false;
                seated.signalled = true;
                self.call(seat);
            }
        }
        self.keys = keys;
        if self.earliest.is_some_and(|earliest| earliest <= now) {
            let is_over = |seated: &Seat| seated.until.is_some_and(|until| until <= now);
            let over = |seat: &u32| self.seats[*seat as usize].as_ref().is_some_and(is_over);
            let seats: Vec<u32> = (0..self.seats.len() as u32).filter(over).collect();
            self.earliest = self.seats.iter().flatten().filter_map(|seated| seated.until).filter(|&until| until > now).min();
            seats.into_iter().for_each(|seat| self.call(seat));
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
        // A client that is called meanwhile gets its turn in the next round.
        let count = self.due.len();
        for index in 0..count {
            let seat = self.due[index];
            let seated = self.seats[seat as usize].as_mut().expect("only seated clients are called");
            seated.is_due = false;
            let (lane_client, answers) = (&mut seated.lane_client, request_table.answers(seated.client));
            let signalled = std::mem::take(&mut seated.signalled);
            let turn = catch_unwind(AssertUnwindSafe(|| lane_client.turn(now, signalled, answers, &mut self.requests)));
            asked |= !self.requests.is_empty();
            request_table.turn_to_client(seated.client);
            self.requests.drain(..).for_each(|request| submit(request_table, request));
            match turn {
                Ok(KeepOn::Again) => {
                    seated.is_due = true;
                    self.due.push(seat);
                }
                Ok(KeepOn::Wait { readable, writable, until }) => {
                    seated.until = until;
                    self.earliest = self.earliest.into_iter().chain(until).min();
                    if readable && !std::mem::replace(&mut seated.watched_in, true) {
                        ring.watch(seated.lane_client.socket(), false, seat);
                    }
                    if writable && !std::mem::replace(&mut seated.watched_out, true) {
                        ring.watch(seated.lane_client.socket(), true, seat | SEAT_TO_SEND);
                    }
                }
                // If a client panics (which is printed), only that client ends.
                Ok(KeepOn::Leave) | Err(_) => {
                    request_table.dismiss(seated.client);
                    self.seats[seat as usize] = None;
                }
            }
        }
        self.due.drain(..count);
        asked
    }
}
