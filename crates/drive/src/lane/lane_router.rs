//! Several lanes that serve one device, as clients see them.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stria_block::{Completion, KeepOn, LaneClient, Limits, Mailbox, Nanos, RemoteDevice, Request};

/// The lanes of one device; each takes any request. An on-lane client lives on the lane that has the fewest. The requests of a
/// client on a thread of its own go to the lane that owns their first sector; if sectors have no owners, the lanes take turns.
pub struct LaneRouter {
    lanes: Vec<Arc<dyn RemoteDevice>>,
    /// The number of consecutive sectors that one lane owns before the next lane's begin.
    group_sectors: Option<u64>,
    /// One reference for each on-lane client, and one here, by lane.
    clients: Mutex<Vec<Arc<()>>>,
    next: AtomicUsize,
}

impl LaneRouter {
    /// Distributes requests over these lanes. `group_sectors`: the number of consecutive sectors that belong to one
    /// lane, dealt out in turn from the first lane on.
    ///
    /// # Panics
    /// Without lanes.
    pub fn new(lanes: Vec<Arc<dyn RemoteDevice>>, group_sectors: Option<u64>) -> Self {
        assert!(!lanes.is_empty(), "there must be a lane");
        let clients = Mutex::new(lanes.iter().map(|_| Arc::default()).collect());
        Self { lanes, group_sectors, clients, next: AtomicUsize::new(0) }
    }
}

impl RemoteDevice for LaneRouter {
    fn limits(&self) -> Limits {
        self.lanes[0].limits()
    }

    fn submit(&self, requests: &mut Vec<Request>, reply: &Arc<Mailbox<Completion>>) {
        let Some(first) = requests.first() else { return };
        let count = self.lanes.len();
        let Some(group_sectors) = self.group_sectors else {
            return self.lanes[self.next.fetch_add(1, Ordering::Relaxed) % count].submit(requests, reply);
        };
        let lane_of = |request: &Request| (request.start_sector / group_sectors % count as u64) as usize;
        let lane = lane_of(first);
        if requests.iter().all(|request| lane_of(request) == lane) {
            return self.lanes[lane].submit(requests, reply);
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            lane.submit(&mut requests.extract_if(.., |request| lane_of(request) == index).collect(), reply);
        }
    }

    fn take_in(&self, client: Box<dyn LaneClient>) -> Result<(), Box<dyn LaneClient>> {
        let (lane, reference) = {
            let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            let references = clients.iter().enumerate();
            let (lane, reference) =
                references.min_by_key(|(_, reference)| Arc::strong_count(reference)).expect("there is a lane");
            (lane, Arc::clone(reference))
        };
        self.lanes[lane].take_in(Box::new(RoutedClient { _reference: reference, client }))
    }

    fn broke_off(&self) -> bool {
        self.lanes.iter().any(|lane| lane.broke_off())
    }

    fn stir(&self) {
        self.lanes.iter().for_each(|lane| lane.stir());
    }
}

/// An on-lane client that is counted for its lane.
struct RoutedClient {
    /// Released before the end of the on-lane client is visible.
    _reference: Arc<()>,
    client: Box<dyn LaneClient>,
}

impl LaneClient for RoutedClient {
    fn turn(&mut self, now: Nanos, signalled: bool, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> KeepOn {
        self.client.turn(now, signalled, ended, requests)
    }

    fn socket(&self) -> &Arc<OwnedFd> {
        self.client.socket()
    }
}
