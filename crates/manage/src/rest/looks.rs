//! Looks at the arrays, at most one a second however many clients ask: a request costs lanes nothing beyond that.
//!
//! Rates are the difference between two looks. Without a request there is no look, so a sleeping lane is not woken for it.

use super::types::{ArrayEntry, ClientRate, MemberRate, Rates, Task};
use crate::api::{AdoptedState, AdoptedView, ArrayView, SweepView};
use crate::view::all_members;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stria_health::SlowMember;

/// A newer look than this is not repeated.
const FRESH: Duration = Duration::from_millis(900);
/// An older look tells nothing about the present rates.
const RECENT: Duration = Duration::from_secs(10);

/// One look.
#[derive(Clone)]
struct Look {
    at: Instant,
    /// Something has changed since.
    is_stale: bool,
    views: Vec<ArrayView>,
    entries: Vec<ArrayEntry>,
}

/// The last look.
#[derive(Default)]
pub struct Looks(Mutex<Option<Look>>);

fn lock(mutex: &Mutex<Option<Look>>) -> MutexGuard<'_, Option<Look>> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Looks {
    /// The arrays now, or as they were less than a second ago. `is_fresh`: they must be looked at again.
    pub fn arrays(
        &self,
        is_fresh: bool,
        slow: impl Fn(&str) -> Vec<SlowMember>,
        look: impl FnOnce() -> (Vec<ArrayView>, Vec<AdoptedView>),
    ) -> Vec<ArrayEntry> {
        let mut last = lock(&self.0);
        if let Some(last) = last.as_ref().filter(|last| !is_fresh && !last.is_stale && last.at.elapsed() < FRESH) {
            return last.entries.clone();
        }
        let (views, adopted) = look();
        let at = Instant::now();
        let before = last.as_ref().filter(|last| at - last.at < RECENT);
        let entries = entries(&views, &adopted, slow, |view| {
            let before = before?;
            if at - before.at < FRESH {
                return before.entries.iter().find(|entry| entry.uuid == view.identity.uuid)?.rates.clone();
            }
            let known = before.views.iter().find(|known| known.identity.uuid == view.identity.uuid)?;
            Some(rates(known, view, at - before.at))
        });
        match last.as_mut().filter(|last| at - last.at < FRESH) {
            // A look that had to be fresh is too close to the one before for rates: their beginning stays.
            Some(last) => (last.is_stale, last.entries) = (false, entries.clone()),
            None => *last = Some(Look { at, is_stale: false, views, entries: entries.clone() }),
        }
        entries
    }

    /// Forgets the last look, since an action has changed something.
    pub fn stale(&self) {
        if let Some(look) = lock(&self.0).as_mut() {
            look.is_stale = true;
        }
    }
}

/// Every array of the configuration, and every other one that is served.
fn entries(
    views: &[ArrayView],
    adopted: &[AdoptedView],
    slow: impl Fn(&str) -> Vec<SlowMember>,
    rates: impl Fn(&ArrayView) -> Option<Rates>,
) -> Vec<ArrayEntry> {
    let of_view = |view: &ArrayView| ArrayEntry {
        name: view.identity.name.clone(),
        uuid: view.identity.uuid.clone(),
        state: AdoptedState::Served,
        text: view.headline.clone(),
        said: None,
        obstacle: None,
        drives: drives(view),
        again_in_s: None,
        tasks: tasks(view),
        rates: rates(view),
        slow: slow(&view.identity.name),
        view: Some(view.clone()),
    };
    let of_adopted = |array: &AdoptedView| match views.iter().find(|view| view.identity.uuid == array.uuid) {
        Some(view) => of_view(view),
        None => array.into(),
    };
    let others = views.iter().filter(|view| !adopted.iter().any(|array| array.uuid == view.identity.uuid));
    let mut entries: Vec<ArrayEntry> = adopted.iter().map(of_adopted).chain(others.map(of_view)).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.uuid.cmp(&b.uuid)));
    entries
}

/// The drives of an array and its spans.
fn drives(view: &ArrayView) -> Vec<String> {
    all_members(view).into_iter().filter(|member| member.size_bytes.is_some()).map(|member| member.path.clone()).collect()
}

/// The sweeps on an array and its spans.
pub fn tasks(view: &ArrayView) -> Vec<Task> {
    let of = |sweep: &SweepView| Task {
        array: view.identity.name.clone(),
        kind: sweep.kind.clone(),
        done_bytes: sweep.done_bytes,
        total_bytes: sweep.total_bytes,
        bytes_per_s: sweep.bytes_per_s,
        left_s: sweep.eta_s,
        held_bytes_per_s: sweep.held_bytes_per_s,
        mismatch_sectors: sweep.mismatch_sectors,
    };
    view.redundancy.sweep.iter().map(of).chain(view.parts.spans.iter().flat_map(tasks)).collect()
}

/// The work between two looks. A counter that went back belongs to a client or member that is new since.
fn rates(before: &ArrayView, now: &ArrayView, time: Duration) -> Rates {
    let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / time.as_secs_f64();
    let clients: Vec<ClientRate> = now
        .access
        .clients
        .iter()
        .map(|client| {
            let known = before.access.clients.iter().find(|known| known.id == client.id && known.peer == client.peer);
            let of = |count: fn(&crate::api::ClientView) -> u64| per_s(count(client), known.map_or(0, count));
            ClientRate {
                peer: client.peer.clone(),
                requests_per_s: of(|client| client.requests),
                read_bytes_per_s: of(|client| client.read_bytes),
                written_bytes_per_s: of(|client| client.written_bytes),
                in_flight: client.in_flight,
            }
        })
        .collect();
    let sum = |of: fn(&ClientRate) -> f64| clients.iter().map(of).sum();
    let total = ClientRate {
        peer: String::new(),
        requests_per_s: sum(|rate| rate.requests_per_s),
        read_bytes_per_s: sum(|rate| rate.read_bytes_per_s),
        written_bytes_per_s: sum(|rate| rate.written_bytes_per_s),
        in_flight: clients.iter().map(|rate| rate.in_flight).sum(),
    };
    let known = all_members(before);
    let members = all_members(now).into_iter().filter(|member| member.size_bytes.is_some()).filter_map(|member| {
        let known = known.iter().find(|known| known.path == member.path && known.read_count <= member.read_count)?;
        Some(MemberRate {
            path: member.path.clone(),
            reads_per_s: per_s(member.read_count, known.read_count),
            writes_per_s: per_s(member.write_count, known.write_count),
            read_bytes_per_s: per_s(member.read_bytes, known.read_bytes),
            written_bytes_per_s: per_s(member.written_bytes, known.written_bytes),
        })
    });
    let lanes = now.lanes.iter().enumerate().map(|(index, lane)| {
        per_s(lane.processor_us, before.lanes.get(index).map_or(lane.processor_us, |known| known.processor_us)) / 1e6
    });
    Rates { over_ms: time.as_millis() as u64, total, lanes: lanes.collect(), members: members.collect(), clients }
}
