//! Members that are slow beside their peers, and when that is certain.
//!
//! Only requests of one kind and one window are compared (`stria_health::slow_members`). A resync or rebuild asks members
//! unevenly and queues far more than clients do, and so does a scrub on mirrors, of which clients read one copy: while one runs
//! nobody is judged. When any sweep ends, all drives of the array forget their recent requests (`host`). A suspect counts as slow once it was slow over another [`REQUESTS_MIN`] of its requests: the
//! first ones after a rebuild meet cold caches, and an array that is idle after them says nothing more.

use crate::api::{ArrayView, LatencyView, MemberView};
use std::collections::BTreeMap;
use stria_health::{HealthConfig, PeerLatency, REQUESTS_MIN, SlowMember, slow_members};

/// The kind of request that is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// A member that is slow by its recent requests.
#[derive(Debug)]
struct Suspect {
    slow: SlowMember,
    kind: Kind,
    /// The requests of this kind that it had ended when it was first suspected.
    first_ended: u64,
    is_certain: bool,
}

/// The suspects, by array and path.
#[derive(Debug, Default)]
pub struct SlowWatch(BTreeMap<(String, String), Suspect>);

impl SlowWatch {
    /// Takes the views of all arrays. The view of one that does not answer is an old one, or empty, and says nothing.
    pub fn look(&mut self, views: &[ArrayView], config: &HealthConfig) {
        self.0.retain(|(array, path), _| {
            let mut of_array = views.iter().filter(|view| view.identity.name == *array);
            of_array.any(|view| {
                view.condition.silent_s.is_some()
                    || crate::view::all_members(view).into_iter().any(|member| is_peer(member, path))
            })
        });
        for view in views.iter().filter(|view| view.condition.silent_s.is_none()) {
            self.look_at(&view.identity.name, view, config);
        }
    }

    fn look_at(&mut self, array: &str, view: &ArrayView, config: &HealthConfig) {
        view.parts.spans.iter().for_each(|span| self.look_at(array, span, config));
        let judged = if is_uneven(view) { Vec::new() } else { slow(view, config) };
        for member in view.parts.members.iter().filter(|member| is_peer(member, &member.path)) {
            let key = (array.to_owned(), member.path.clone());
            match judged.iter().find(|(slow, _)| slow.path == member.path) {
                Some((slow, kind)) => self.suspect(key, slow, *kind, member),
                // Too few requests tell nothing: what was certain stays so.
                None if is_uneven(view) || !has_enough(member) => {
                    self.0.retain(|known, suspect| *known != key || suspect.is_certain);
                }
                None => drop(self.0.remove(&key)),
            }
        }
    }

    fn suspect(&mut self, key: (String, String), slow: &SlowMember, kind: Kind, member: &MemberView) {
        let ended = match kind {
            Kind::Read => member.read_count,
            Kind::Write => member.write_count,
        };
        let new = || Suspect { slow: slow.clone(), kind, first_ended: ended, is_certain: false };
        let known = self.0.entry(key).or_insert_with(new);
        if !known.is_certain && (known.kind != kind || ended < known.first_ended) {
            *known = new();
        }
        known.slow.clone_from(slow);
        known.is_certain |= ended.saturating_sub(known.first_ended) >= REQUESTS_MIN;
    }

    /// The members of an array and its spans that are certainly slow.
    pub fn of(&self, array: &str) -> Vec<SlowMember> {
        let own = self.0.iter().filter(|((name, _), suspect)| name == array && suspect.is_certain);
        own.map(|(_, suspect)| suspect.slow.clone()).collect()
    }
}

fn is_peer(member: &MemberView, path: &str) -> bool {
    member.role == "in sync" && member.path == path
}

/// True while members do unlike work: a rebuild writes to one, a copy reads one, a resync of mirrors reads one and writes the
/// others, a scrub of mirrors reads those as well that clients do not.
fn is_uneven(view: &ArrayView) -> bool {
    let is_mirrored = matches!(view.geometry.level.as_str(), "1" | "10");
    let sweeps = view.redundancy.sweep.as_ref().is_some_and(|sweep| is_mirrored || sweep.kind != "scrub");
    sweeps || view.parts.members.iter().any(|member| matches!(member.role.as_str(), "rebuilding" | "replacing"))
}

fn has_enough(member: &MemberView) -> bool {
    let latencies = [&member.read_latency, &member.write_latency];
    latencies.into_iter().flatten().any(|latency| latency.count >= REQUESTS_MIN)
}

/// The members of an array that are slow by their recent requests, without those of its spans.
fn slow(view: &ArrayView, config: &HealthConfig) -> Vec<(SlowMember, Kind)> {
    let of = |kind: Kind, latency: fn(&MemberView) -> Option<&LatencyView>| {
        let peers = view.parts.members.iter().filter(|member| member.role == "in sync").filter_map(|member| {
            let LatencyView { count, median_us, p99_us, .. } = *latency(member)?;
            Some(PeerLatency { path: member.path.clone(), count, median_us, p99_us })
        });
        slow_members(&peers.collect::<Vec<_>>(), config).into_iter().map(move |slow| (slow, kind))
    };
    let mut slow: Vec<(SlowMember, Kind)> = of(Kind::Read, |member| member.read_latency.as_ref()).collect();
    for member in of(Kind::Write, |member| member.write_latency.as_ref()) {
        if !slow.iter().any(|(known, _)| known.path == member.0.path) {
            slow.push(member);
        }
    }
    slow
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An array of three members, of which `c` has ended `ended` reads, the last `count` of them in `median_us`.
    fn array(ended: u64, count: u64, median_us: u64) -> ArrayView {
        let member = |path: &str, ended: u64, count: u64, median_us: u64| {
            let latency =
                json!({"count": count, "median_us": median_us, "p99_us": median_us, "max_us": median_us, "slow_count": 0});
            json!({"path": path, "role": "in sync", "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0, "repaired_sectors": 0,
                "read_count": ended, "write_count": 0, "read_bytes": 0, "written_bytes": 0, "read_latency": latency})
        };
        let members = [
            member("a", 5000, 1000, 361),
            member("b", 5000, 1000, 350),
            member("d", 5000, 1000, 340),
            member("c", ended, count, median_us),
        ];
        let view = json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "6", "layout": "", "size_bytes": 1, "health": "optimal",
            "state": "", "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": [], "spans": [],
            "resync_pending": false, "in_flight": 0, "events": 1, "created_s": 0, "exports": [], "clients": []});
        serde_json::from_value(view).expect("a view")
    }

    fn sweeps(mut view: ArrayView, kind: &str) -> ArrayView {
        let sweep = json!({"kind": kind, "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "mismatch_sectors": 0});
        view.redundancy.sweep = Some(serde_json::from_value(sweep).expect("a sweep"));
        view
    }

    fn told(watch: &mut SlowWatch, view: &ArrayView) -> Vec<String> {
        watch.look(std::slice::from_ref(view), &HealthConfig::default());
        watch.of("tank").into_iter().map(|slow| slow.path).collect()
    }

    /// A rebuild had written to `c`; afterwards the array was idle but for a few requests, and `c` was called slow.
    #[test]
    fn a_member_that_was_just_rebuilt_is_not_slow_by_its_first_requests() {
        let mut watch = SlowWatch::default();
        assert_eq!(told(&mut watch, &sweeps(array(1200, 1200, 6816), "rebuild")), [""; 0], "nobody is judged during a rebuild");
        for _ in 0..9 {
            assert_eq!(told(&mut watch, &array(1400, 200, 6816)), [""; 0], "the same 200 requests prove no more at each look");
        }
        assert_eq!(told(&mut watch, &array(1599, 399, 6816)), [""; 0]);
        assert_eq!(told(&mut watch, &array(1600, 400, 6816)), ["c"], "it is slow");
    }

    /// After a scrub of a RAID 10 every second copy was called slow: clients had read the first copies beside it.
    #[test]
    fn a_scrub_of_mirrors_judges_nobody() {
        let (mut mirrors, mut watch) = (array(1000, 1000, 6816), SlowWatch::default());
        mirrors.geometry.level = "10".into();
        for count in [1000, 1200, 1400] {
            let mirrors = ArrayView { geometry: mirrors.geometry.clone(), ..array(count, count, 6816) };
            assert_eq!(told(&mut watch, &sweeps(mirrors, "scrub")), [""; 0]);
        }
        assert_eq!(told(&mut watch, &array(1600, 1600, 6816)), [""; 0], "the first look after it");
    }

    #[test]
    fn a_first_impression_that_passes_is_forgotten() {
        let mut watch = SlowWatch::default();
        assert_eq!(told(&mut watch, &array(1000, 200, 6816)), [""; 0]);
        assert_eq!(told(&mut watch, &array(1500, 700, 361)), [""; 0]);
        assert_eq!(told(&mut watch, &array(1600, 800, 6816)), [""; 0], "it begins anew");
        assert_eq!(told(&mut watch, &array(1800, 1000, 6816)), ["c"]);
    }

    #[test]
    fn a_slow_member_stays_slow_until_enough_requests_tell_otherwise() {
        let mut watch = SlowWatch::default();
        told(&mut watch, &array(1000, 1000, 6816));
        assert_eq!(told(&mut watch, &array(1200, 1200, 6816)), ["c"]);
        assert_eq!(told(&mut watch, &sweeps(array(1300, 1300, 6816), "resync")), ["c"], "nobody is judged during a resync");
        assert_eq!(told(&mut watch, &array(1310, 10, 100)), ["c"], "ten requests tell nothing");
        assert_eq!(told(&mut watch, &sweeps(array(1310, 300, 100), "scrub")), [""; 0], "a scrub reads all members alike");
        let mut replaced = array(1310, 10, 100);
        told(&mut watch, &array(2000, 1000, 6816));
        assert_eq!(told(&mut watch, &array(2200, 1000, 6816)), ["c"]);
        let mut silent = array(2200, 1000, 100);
        silent.condition.silent_s = Some(2);
        assert_eq!(told(&mut watch, &silent), ["c"], "the last view before the silence says nothing");
        silent.parts.members.clear();
        assert_eq!(told(&mut watch, &silent), ["c"], "it was never seen since");
        replaced.parts.members[3].role = "failed".into();
        assert_eq!(told(&mut watch, &replaced), [""; 0], "it is not a member any more");
    }
}
