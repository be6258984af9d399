//! The pool of spares: blank drives of the configuration that any array of the daemon may take.
//!
//! A drive of the pool carries nothing. It belongs to an array once the array's metadata are on it, and to the pool again once it
//! was wiped. So there is no other record of its owner, and a crash in the middle leaves it on one side or the other: a blank
//! drive is in the pool, and a drive that is prepared and did not join is found as a spare of its array at the next start.

use super::mark::Mark;
use crate::api::{AddRequest, ArrayView, HealthView, MemberView};
use crate::config::{Likeness, Spares};
use crate::service::Service;
use crate::view;
use crate::words::error::{Cause, ErrorSentence, Words};
use crate::words::event::{Ends, EventSentence, ServiceSentence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stria_drive::{Access, DriveError, DriveInfo, SyncDrive, real_path_within, within_at, within_each};
use stria_format::md::SuperblockError;
use stria_host::{HostError, examine};

/// The time that the resolution of a path may take.
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);

/// The state of a drive of the pool.
#[derive(Debug)]
pub enum PoolState {
    /// It carries nothing: any array may take it. With `stria_host::Examined::mark`.
    Free(Box<DriveInfo>, String),
    /// It is a member of this array, by name.
    Taken(String),
    /// It cannot be a spare, for this reason.
    Unfit(Words),
}

/// Looks at the drives of the pool.
pub fn look(pool: &[PathBuf]) -> Vec<(PathBuf, PoolState)> {
    look_at_those(pool, |_| false).0
}

/// Looks at the drives of the pool, all at once, but for those that are known not to answer (`is_silent`). Returns also those
/// that did not answer now.
pub fn look_at_those(pool: &[PathBuf], is_silent: impl Fn(&Path) -> bool) -> (Vec<(PathBuf, PoolState)>, Vec<PathBuf>) {
    let real: Vec<PathBuf> = pool.iter().map(|path| real_path_within(path, RESOLVE_WITHIN)).collect();
    let asked: Vec<PathBuf> = real.iter().filter(|path| !is_silent(path)).cloned().collect();
    let mut examined = examine(&asked).into_iter();
    let mut silent = Vec::new();
    let mut state = |real: &PathBuf| {
        if !asked.contains(real) {
            return PoolState::Unfit("it does not answer: check the drive and its cable".into());
        }
        match examined.next().expect("each drive has one answer") {
            Err(HostError::Drive(DriveError::Missing { .. })) => PoolState::Unfit("it is not here".into()),
            Err(error) => {
                silent.extend(error.silent_drive().map(Path::to_owned));
                PoolState::Unfit(error.into())
            }
            Ok(examined) => match (&examined.candidate.found, examined.candidate.carries.first()) {
                (Ok(member), _) => PoolState::Taken(member.superblock.name()),
                (Err(_), Some(what)) => PoolState::Unfit(format!("it carries {what}: `stria wipe` makes it blank").into()),
                (Err(SuperblockError::Absent), None) => PoolState::Free(Box::new(examined.info.clone()), examined.mark()),
                (Err(error), None) => PoolState::Unfit(error.to_string().into()),
            },
        }
    };
    let states = pool.iter().zip(&real).map(|(path, real)| (path.clone(), state(real))).collect();
    (states, silent)
}

/// The reason why a drive does not suit.
fn of_drive(drive: String, why: Words) -> Words {
    match why.parts() {
        (reason, Cause(None)) => format!("{drive}: {reason}").into(),
        (reason, cause) => ErrorSentence::MemberUnusable { drive, reason, cause }.into(),
    }
}

/// The enclosure that a drive sits in, where the machine says so (SES).
pub fn enclosure_of(path: &Path) -> Option<String> {
    let name = real_path_within(path, RESOLVE_WITHIN).file_name()?.to_owned();
    let folders = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    folders("/sys/class/enclosure".into()).find_map(|enclosure| {
        let holds = folders(enclosure.path()).any(|slot| slot.path().join("device/block").join(&name).exists());
        holds.then(|| enclosure.file_name().to_string_lossy().into_owned())
    })
}

/// An array, or a span of one, that lacks members and has no spare.
#[derive(Debug, PartialEq, Eq)]
struct Need {
    array: String,
    span: Option<String>,
    /// A member that the spare is to be like.
    like: PathBuf,
    size_bytes: u64,
}

/// The spares that arrays need, one for each empty slot. Only slots that no member is being filled for count.
fn needs(array: &ArrayView) -> Vec<Need> {
    // A pause holds rebuilds, and the drive that is away may be about to return.
    if array.condition.paused {
        return Vec::new();
    }
    let top = needs_of(array, &array.identity.name, None);
    top.into_iter()
        .chain(array.parts.spans.iter().flat_map(|span| needs_of(span, &array.identity.name, Some(&span.identity.name))))
        .collect()
}

fn needs_of(array: &ArrayView, name: &str, span: Option<&str>) -> Vec<Need> {
    let spares = array.parts.members.iter().filter(|member| member.role == "spare").count();
    let missing = if array.condition.read_only { 0 } else { array.parts.missing_slots.len().saturating_sub(spares) };
    (0..missing).filter_map(|_| wish_of(array, name, span)).collect()
}

/// The spare that an array or span would take. `None`: it takes none, or nothing is left to rebuild from.
fn wish_of(array: &ArrayView, name: &str, span: Option<&str>) -> Option<Need> {
    // Too many members are lost: nothing can be rebuilt, and the spare would be missing elsewhere.
    if array.condition.health == HealthView::Failed {
        return None;
    }
    // A span is no drive, and an array above spans takes no spares.
    let drives = || array.parts.members.iter().filter(|member| member.size_bytes.is_some() && member.role == "in sync");
    let is_redundant = array.geometry.level != "0" && array.geometry.level != "jbod" && array.parts.spans.is_empty();
    let like = drives().min_by_key(|member: &&MemberView| member.size_bytes).filter(|_| is_redundant)?;
    Some(Need {
        array: name.to_owned(),
        span: span.map(str::to_owned),
        like: PathBuf::from(&like.path),
        size_bytes: like.size_bytes.unwrap_or(0),
    })
}

/// What the pool has for an array, or for a span of one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PoolOffer {
    /// The array.
    pub array: String,
    /// The span, if the array lies on spans.
    pub span: Option<String>,
    /// The drives that it would try in turn if it lacked a member. One that is too small refuses to join.
    pub drives: Vec<PathBuf>,
    /// Why there is none.
    pub why_none: Option<String>,
    /// The same for programs; absent: a part of it has text alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Vec<ErrorSentence>>,
}

/// Why no spare of the pool suits: a reason for each.
struct Whys(Vec<Words>);

impl Whys {
    /// Their sentences, if each has one.
    fn said(self) -> Option<Vec<ErrorSentence>> {
        self.0.into_iter().map(|why| why.said).collect()
    }
}

impl fmt::Display for Whys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|why| why.text.as_str()).collect::<Vec<_>>().join("; "))
    }
}

impl From<Words> for Whys {
    fn from(why: Words) -> Self {
        Self(vec![why])
    }
}

/// What the pool has for each array that takes spares.
pub fn offers(arrays: &[ArrayView], pool: &[(PathBuf, PoolState)], policy: &Spares) -> Vec<PoolOffer> {
    let wishes = |array: &ArrayView| {
        let spans = array.parts.spans.iter().filter_map(|span| wish_of(span, &array.identity.name, Some(&span.identity.name)));
        wish_of(array, &array.identity.name, None).into_iter().chain(spans).collect::<Vec<_>>()
    };
    let offer = |need: Need| {
        let (drives, why) = match suitable(&need, pool, policy) {
            Ok(drives) => (drives.into_iter().map(|(path, _)| path).collect(), None),
            Err(_) if pool.is_empty() => (Vec::new(), Some(Whys(vec![ErrorSentence::PoolIsEmpty {}.into()]))),
            Err(why) => (Vec::new(), Some(why)),
        };
        let (why_none, said) = (why.as_ref().map(ToString::to_string), why.and_then(|why| why.said()));
        PoolOffer { array: need.array, span: need.span, drives, why_none, said }
    };
    arrays.iter().flat_map(wishes).map(offer).collect()
}

/// The drives of the pool that suit with their marks, the best first; or why none does.
fn suitable(need: &Need, pool: &[(PathBuf, PoolState)], policy: &Spares) -> Result<Vec<(PathBuf, String)>, Whys> {
    let like = within_at("probe", &need.like, RESOLVE_WITHIN, stria_drive::probe)
        .map_err(|_| Words::from(format!("{} does not answer", need.like.display())))?
        .map_err(|error| Words::from(error.to_string()))?;
    let enclosure = enclosure_of(&need.like);
    let mut reasons: Vec<Words> = Vec::new();
    let mut fitting: Vec<(bool, u64, (PathBuf, String))> = Vec::new();
    for (path, state) in pool {
        let drive = path.display().to_string();
        let PoolState::Free(info, mark) = state else {
            match state {
                PoolState::Free(..) => {}
                PoolState::Taken(array) => reasons.push(ErrorSentence::InArray { drive, array: array.clone() }.into()),
                PoolState::Unfit(why) => reasons.push(of_drive(drive, why.clone())),
            }
            continue;
        };
        let is_other_kind = info.limits.rotational != like.limits.rotational;
        let is_elsewhere = enclosure.is_some() && enclosure_of(&info.path) != enclosure;
        if policy.kind == Likeness::Same && is_other_kind {
            reasons.push(ErrorSentence::OtherKind { drive }.into());
        } else if policy.enclosure == Likeness::Same && is_elsewhere {
            reasons.push(ErrorSentence::OtherEnclosure { drive }.into());
        } else {
            let avoided =
                policy.enclosure == Likeness::Prefer && is_elsewhere || policy.kind == Likeness::Prefer && is_other_kind;
            fitting.push((avoided, info.limits.size_sectors, (info.path.clone(), mark.clone())));
        }
    }
    if fitting.is_empty() {
        return Err(Whys(reasons));
    }
    // A large one stays for an array that needs it. One that is too small refuses to join.
    fitting.sort();
    Ok(fitting.into_iter().map(|(_, _, drive)| drive).collect())
}

/// The pool as it was last looked at, and what arrays needed then. While nothing has changed no drive is opened: every look would
/// wake a disk that sleeps.
#[derive(Default)]
pub struct Seen {
    needs: Vec<Need>,
    drives: Vec<SeenDrive>,
}

struct SeenDrive {
    path: PathBuf,
    mark: Option<Mark>,
    /// It is free, and another program has locked it.
    is_busy: bool,
}

impl Seen {
    /// `held`: the free drives that are locked here. Those that are known not to answer (`is_silent`) report themselves.
    pub fn of(service: &Service, pool: &[(PathBuf, PoolState)], held: &[SyncDrive], is_silent: impl Fn(&Path) -> bool) -> Self {
        let is_held = |path: &Path| held.iter().any(|drive| drive.info().path == path);
        let seen = |(path, state): &(PathBuf, PoolState)| {
            let real = real_path_within(path, RESOLVE_WITHIN);
            let is_busy = if let PoolState::Free(info, _) = state { !is_held(&info.path) } else { false };
            let rests = matches!(state, PoolState::Free(..)) && !is_busy;
            (!rests && !is_silent(&real)).then(|| SeenDrive { mark: Mark::of(&real), path: path.clone(), is_busy })
        };
        Self { needs: needs_now(service), drives: pool.iter().filter_map(seen).collect() }
    }

    /// True if an array needs something else, a drive that is not held here has changed, or one that another program had locked
    /// is free.
    pub fn has_changed(&self, service: &Service) -> bool {
        let is_free = |path: &Path| {
            let open = |path: &Path| SyncDrive::open(path, Access::Exclusive).map(drop);
            matches!(within_at("open", path, RESOLVE_WITHIN, open), Ok(Ok(())))
        };
        needs_now(service) != self.needs || self.drives.iter().any(|drive| drive.has_changed(is_free))
    }
}

impl SeenDrive {
    fn has_changed(&self, is_free: impl Fn(&Path) -> bool) -> bool {
        let real = real_path_within(&self.path, RESOLVE_WITHIN);
        Mark::of(&real) != self.mark || self.is_busy && is_free(&real)
    }
}

fn needs_now(service: &Service) -> Vec<Need> {
    service.arrays().iter().filter(|array| array.condition.silent_s.is_none()).flat_map(needs).collect()
}

/// Gives spares of the pool to arrays that lack members and have none. `reported`: what was last reported of arrays that got
/// none. `look`: looks at the pool. Returns false if an array got none, and may get one later.
pub fn give(
    service: &Service,
    policy: &Spares,
    reported: &mut Vec<String>,
    look: impl Fn() -> Vec<(PathBuf, PoolState)>,
) -> bool {
    if policy.drives.is_empty() {
        reported.clear();
        return true;
    }
    let mut said = Vec::new();
    for need in needs_now(service) {
        // Looked at again for each: the last array may have taken one.
        let outcome = suitable(&need, &look(), policy).and_then(|drives| join(service, &need, &drives));
        let (name, whom) = (&need.array, need.span.as_ref().unwrap_or(&need.array));
        match outcome {
            Ok((path, message)) => {
                let (array, drive) = (whom.clone(), path.display().to_string());
                let said = ServiceSentence::PoolSpareTaken { array, drive, result: message };
                service.events().push(view::said_event(name, "pool_spare_taken", said));
            }
            Err(why) => {
                let reason = why.to_string();
                let ends = Ends(why.said().map(|said| said.into_iter().map(EventSentence::Error).collect()));
                let sentence = ServiceSentence::NoPoolSpareSuits { array: whom.clone(), reason, ends };
                let text = sentence.to_string();
                if !reported.contains(&text) {
                    service.events().push(view::said_event(name, "warning", sentence));
                }
                said.push(text);
            }
        }
    }
    *reported = said;
    reported.is_empty()
}

fn join(service: &Service, need: &Need, drives: &[(PathBuf, String)]) -> Result<(PathBuf, String), Whys> {
    let mut reasons = Vec::new();
    for (path, mark) in drives {
        let (path, span, seen) = (path.clone(), need.span.clone(), Some(mark.clone()));
        let request = AddRequest { path: path.clone(), span, force: false, confirmed: None, seen, return_only: false };
        match service.add(&need.array, request) {
            Ok(done) => return Ok((path, done.message)),
            Err(error) => reasons.push(error.words()),
        }
    }
    Err(Whys(reasons))
}

/// Locks the free drives of the pool, so that no other program takes them.
pub fn hold(pool: &[(PathBuf, PoolState)]) -> Vec<SyncDrive> {
    let free =
        pool.iter().filter_map(|(_, state)| if let PoolState::Free(info, _) = state { Some(info.path.clone()) } else { None });
    let opened = within_each(RESOLVE_WITHIN, free, |path| move || SyncDrive::open(&path, Access::Exclusive));
    opened.into_iter().filter_map(|opened| opened.ok()?.ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, every free drive of the pool was opened for writing every 30 s while a need was unmet, so no disk among them
    /// slept.
    #[test]
    fn a_drive_of_the_pool_is_opened_again_only_if_it_has_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive");
        std::fs::write(&path, [0; 4096]).expect("a file");
        let opened = std::cell::Cell::new(0);
        let has_changed = |drive: &SeenDrive, is_free: bool| {
            drive.has_changed(|_| {
                opened.set(opened.get() + 1);
                is_free
            })
        };
        let seen = |is_busy| SeenDrive { path: path.clone(), mark: Mark::of(&path), is_busy };
        let drive = seen(false);
        assert!(!has_changed(&drive, true) && opened.get() == 0, "nothing has changed, and nothing was opened");
        std::fs::write(&path, [0; 8192]).expect("a file");
        assert!(has_changed(&drive, true) && opened.get() == 0, "it was written to");
        let gone = seen(false);
        std::fs::remove_file(&path).expect("a file");
        assert!(has_changed(&gone, true));
        let absent = seen(false);
        assert!(!has_changed(&absent, true));
        std::fs::write(&path, [0; 4096]).expect("a file");
        assert!(has_changed(&absent, true), "it is here again");
        let locked = seen(true);
        assert!(
            !has_changed(&locked, false) && has_changed(&locked, true) && opened.get() == 2,
            "its lock shows by an open alone"
        );
    }

    /// Between the look at the pool and the write another drive came to the path, and joined unseen.
    #[test]
    fn only_the_drive_that_was_looked_at_joins() {
        use stria_front::{Listener, Options, Server};
        use stria_host::{CreateSpec, OpenOptions, create, find};
        let folder = tempfile::tempdir().expect("a folder");
        let image = |name: &str| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).and_then(|file| file.set_len(32 << 20)).expect("a file");
            path
        };
        let (member, spare) = (image("member"), image("spare"));
        let spec = CreateSpec {
            drives: vec![Some(member.clone()), None],
            assume_clean: true,
            ..CreateSpec::new("tank", "1".parse().expect("a level"), &[])
        };
        create(&spec).expect("an array");
        let planned = find(&[member], OpenOptions::default()).expect("it is there").arrays.remove(0);
        let nbd = Listener::Unix(folder.path().join("nbd.sock"));
        let service = Service::new(Server::start(vec![nbd], Vec::new(), Options::default()).expect("a server")).expect("threads");
        service.start(&planned, "tank", OpenOptions::default(), crate::lane_spec::LaneSpec::default(), None).expect("it starts");
        let policy = Spares { drives: vec![spare.clone()], ..Spares::default() };
        let came = std::cell::Cell::new(None);
        let look = || {
            let pool = look(&policy.drives);
            if let Some(other) = came.take() {
                std::fs::rename::<PathBuf, _>(other, &spare).expect("it comes to the path");
            }
            pool
        };
        came.set(Some(image("other")));
        let mut reported = Vec::new();
        assert!(!give(&service, &policy, &mut reported, look));
        assert!(reported.iter().any(|why| why.contains("is another drive")), "{reported:?}");
        assert!(give(&service, &policy, &mut reported, look), "{reported:?}");
    }

    fn member(role: &str, size_bytes: Option<u64>) -> serde_json::Value {
        serde_json::json!({"slot": 0, "path": "/d", "role": role, "direct": true, "direct_note": null, "model": null, "serial": null,
            "size_bytes": size_bytes, "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0, "repaired_sectors": 0, "checksums": null,
            "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0, "failure": null})
    }

    fn array(missing: &[usize], members: &[serde_json::Value]) -> ArrayView {
        let view = serde_json::json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "5", "layout": "", "strip_bytes": null,
            "strip_reason": null, "size_bytes": 0, "health": HealthView::Degraded, "state": "", "clean": true, "read_only": false,
            "paused": false, "members": members, "missing_slots": missing, "spans": [], "sweep": null, "resync_pending": false,
            "mismatch_sectors": null, "bitmap": null, "log": null, "in_flight": 0, "events": 0, "created_s": 0, "exports": [], "clients": []});
        serde_json::from_value(view).expect("a view")
    }

    #[test]
    fn an_array_needs_a_spare_for_each_slot_that_none_of_its_own_fills() {
        let whole = member("in sync", Some(100));
        assert_eq!(needs(&array(&[], std::slice::from_ref(&whole))).len(), 0);
        assert_eq!(needs(&array(&[1], std::slice::from_ref(&whole))).len(), 1);
        assert_eq!(needs(&array(&[1], &[whole.clone(), member("spare", Some(100))])).len(), 0, "it has one of its own");
        assert_eq!(needs(&array(&[1, 2], &[whole, member("spare", Some(100))])).len(), 1);
        assert_eq!(needs(&array(&[1], &[member("rebuilding", Some(100))])).len(), 0, "nothing is left to rebuild from");
        let mut failed = array(&[1, 2], &[member("in sync", Some(100))]);
        failed.condition.health = HealthView::Failed;
        assert_eq!(needs(&failed).len(), 0, "one member of three is left of RAID 5");
    }
}
