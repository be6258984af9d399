//! The clients that run on a lane: the ones that are due a turn, and the events that the others wait for.
//!
//! A client has a number, which is its socket's key on the ring. A socket is watched once for each direction at a time. A
//! watch for a client that has left may still fire for the next client of that number. That client then takes a needless turn.

use super::request_table::RequestTable;
use crate::Ring;
use std::panic::{AssertUnwindSafe, catch_unwind};
use stria_block::{KeepOn, LaneClient, Nanos, Request};

/// Set in the key of a socket that is watched for space to send.
const KEY_TO_SEND: u32 = 1 << 31;

/// All clients of the lane.
#[derive(Default)]
pub(super) struct LaneClients {
    /// By number.
    clients: Vec<Option<Client>>,
    /// Numbers of clients that are due a turn, each once.
    due: Vec<u32>,
    /// No client's `until` is before this.
    earliest: Option<Nanos>,
    keys: Vec<u32>,
    requests: Vec<Request>,
}

struct Client {
    lane_client: Box<dyn LaneClient>,
    /// Its index in the request table.
    table_index: usize,
    is_due: bool,
    signalled: bool,
    until: Option<Nanos>,
    /// The event that the ring watches the socket for.
    watched_in: bool,
    watched_out: bool,
}

impl LaneClients {
    /// Gives the client a number and a first turn.
    pub(super) fn admit(&mut self, lane_client: Box<dyn LaneClient>, request_table: &mut RequestTable) {
        let number = self.clients.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let table_index = request_table.admit(number as u32);
        let (is_due, signalled, until) = (false, false, None);
        self.clients[number] =
            Some(Client { lane_client, table_index, is_due, signalled, until, watched_in: false, watched_out: false });
        self.call(number as u32);
    }

    /// The client of this number is due a turn.
    pub(super) fn call(&mut self, number: u32) {
        if let Some(Some(client)) = self.clients.get_mut(number as usize)
            && !std::mem::replace(&mut client.is_due, true)
        {
            self.due.push(number);
        }
    }

    /// All clients are due a turn.
    pub(super) fn call_all(&mut self) {
        (0..self.clients.len()).for_each(|number| self.call(number as u32));
    }

    /// Marks the clients whose socket is ready or whose time has come as due a turn. True if any client is due one.
    pub(super) fn look(&mut self, ring: &Ring, now: Nanos) -> bool {
        let mut keys = std::mem::take(&mut self.keys);
        ring.take_ready(&mut keys);
        for key in keys.drain(..) {
            let number = key & !KEY_TO_SEND;
            if let Some(Some(client)) = self.clients.get_mut(number as usize) {
                let watched = if key == number { &mut client.watched_in } else { &mut client.watched_out };
                *watched = false;
                client.signalled = true;
                self.call(number);
            }
        }
        self.keys = keys;
        if self.earliest.is_some_and(|earliest| earliest <= now) {
            let is_over = |client: &Client| client.until.is_some_and(|until| until <= now);
            let over = |number: &u32| self.clients[*number as usize].as_ref().is_some_and(is_over);
            let numbers: Vec<u32> = (0..self.clients.len() as u32).filter(over).collect();
            self.earliest = self.clients.iter().flatten().filter_map(|client| client.until).filter(|&until| until > now).min();
            numbers.into_iter().for_each(|number| self.call(number));
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
            let number = self.due[index];
            let client = self.clients[number as usize].as_mut().expect("only clients that are here are called");
            client.is_due = false;
            let (lane_client, answers) = (&mut client.lane_client, request_table.answers(client.table_index));
            let signalled = std::mem::take(&mut client.signalled);
            let turn = catch_unwind(AssertUnwindSafe(|| lane_client.turn(now, signalled, answers, &mut self.requests)));
            asked |= !self.requests.is_empty();
            request_table.turn_to_client(client.table_index);
            self.requests.drain(..).for_each(|request| submit(request_table, request));
            match turn {
                Ok(KeepOn::Again) => {
                    client.is_due = true;
                    self.due.push(number);
                }
                Ok(KeepOn::Wait { readable, writable, until }) => {
                    client.until = until;
                    self.earliest = self.earliest.into_iter().chain(until).min();
                    if readable && !std::mem::replace(&mut client.watched_in, true) {
                        ring.watch(client.lane_client.socket(), false, number);
                    }
                    if writable && !std::mem::replace(&mut client.watched_out, true) {
                        ring.watch(client.lane_client.socket(), true, number | KEY_TO_SEND);
                    }
                }
                // If a client panics (which is printed), only that client ends.
                Ok(KeepOn::Leave) | Err(_) => {
                    request_table.dismiss(client.table_index);
                    self.clients[number as usize] = None;
                }
            }
        }
        self.due.drain(..count);
        asked
    }
}
