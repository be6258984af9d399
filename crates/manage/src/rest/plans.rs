//! Plans: what an action would do, said before it is done.
//!
//! A plan is computed from the present state and offered with a token. When the token comes back, the plan is computed again. It
//! is refused if anything has changed that it says or depends on: what was confirmed is what is done.

use super::auth::{Caller, secret, sha256, sha256_of};
use super::drives;
use super::machine::Machine;
use super::takes::{Fill, member_bytes};
use super::types::{
    Action, ArrayEntry, CreateAction, DrivePage, DriveWrite, Extent, Forecast, Plan, PlanOffer, PlanTime, PlanWords, Role,
    WriteWords,
};
use crate::api::{ApiError, ApiErrorKind, ArrayView, FirmwareActivation, FirmwareRequest, HealthView, MemberView};
use crate::config::Uuid;
use crate::drive_name::{are_one, refuse_twins};
use crate::meant::{self, chosen};
use crate::ownership::foreign;
use crate::service::firmware::{Update, check_update};
use crate::settings::{SettingsRequest, WriteMode};
use crate::system::clock::now_ms;
use crate::view::{Doubt, all_members, cannot_name_the_wrong_member, does_not_use, found_mismatch, tree, unanswered_ms};
use crate::wipe::{self, WipeMeans};
use crate::words::error::{ErrorSentence, Words};
use crate::words::plan::{DriveKind, Failures, PlanSentence as Say, Size, Slots};
use crate::{ownership, pool};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use stria_array::Level;
use stria_format::md::{Assembly, BitmapChoice, LogChoice, Verdict};
use stria_host::{ArrayLevel, CreateSpec, Overwrite, preview, short_name};
use stria_sentence::Names;

/// The life of a plan.
const LASTS: Duration = Duration::from_secs(10 * 60);
/// Plans at a time; the oldest gives way.
const PLANS_MAX: usize = 256;

/// A plan, and the state that it depends on without showing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Based {
    /// The plan.
    pub plan: Plan,
    /// The drive that it fills, if that takes its time.
    pub fill: Option<Fill>,
    /// The drives that it overwrites or takes back, and what they carry (`stria_host::Examined::mark`): no other drive may be
    /// written. The SHA-256 of a firmware image: no other may be sent.
    pub marks: Vec<String>,
    /// The state of the array and the drives, in words that change with it.
    basis: String,
}

struct Offered {
    based: Based,
    by: String,
    since: Instant,
}

/// Plans that were offered, by the hash of their token.
#[derive(Default)]
pub struct Plans(Mutex<HashMap<String, Offered>>);

fn refused(text: impl Into<Words>) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, text)
}

fn invalid(text: impl Into<Words>) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, text)
}

impl Plans {
    /// Offers a plan to a caller. `takes`: how long it takes. It is no part of what is compared when the token comes back, as it
    /// changes with what is measured.
    pub fn offer(&self, based: Based, takes: Option<PlanTime>, caller: &Caller) -> PlanOffer {
        let (token, plan) = (secret(), based.plan.clone());
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|_, offered| offered.since.elapsed() < LASTS);
        if plans.len() >= PLANS_MAX
            && let Some(oldest) = plans.iter().min_by_key(|(_, offered)| offered.since).map(|(token, _)| token.clone())
        {
            plans.remove(&oldest);
        }
        plans.insert(sha256(token.as_bytes()), Offered { based, by: caller.name.clone(), since: Instant::now() });
        PlanOffer { token, expires_ms: now_ms() + LASTS.as_millis() as u64, plan, takes }
    }

    /// Takes a plan back for its one use.
    ///
    /// # Errors
    /// When the token is unknown, too old or somebody else's.
    pub fn take(&self, token: &str, caller: &Caller) -> Result<Based, ApiError> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = sha256(token.as_bytes());
        match plans.get(&key) {
            Some(offered) if offered.since.elapsed() < LASTS && offered.by == caller.name => {}
            _ => {
                return Err(ApiError::new(ApiErrorKind::PlanChanged, ErrorSentence::PlanUnknown {}));
            }
        }
        Ok(plans.remove(&key).expect("it was just seen").based)
    }
}

/// True if the action needs no plan: it loses nothing and can be undone by another.
pub fn is_harmless(action: &Action) -> bool {
    match action {
        Action::Start { force, .. } | Action::Stop { force, .. } => !force,
        Action::Scrub { repair, .. } => !repair,
        Action::CancelScrub { .. }
        | Action::Pause { .. }
        | Action::Resume { .. }
        | Action::Speed { .. }
        | Action::Locate { .. } => true,
        Action::Create(_)
        | Action::Destroy { .. }
        | Action::Wipe { .. }
        | Action::Adopt { .. }
        | Action::Release { .. }
        | Action::Rename { .. }
        | Action::Fail { .. }
        | Action::Remove { .. }
        | Action::Add { .. }
        | Action::Replace { .. }
        | Action::Firmware { .. }
        | Action::Set { .. }
        | Action::Import { .. }
        | Action::SpareAdd { .. }
        | Action::SpareRemove { .. }
        | Action::Trim { .. } => false,
    }
}

/// True of an action that reaches the configuration, settings of the run or lights, and no drive's content.
fn writes_nothing(action: &Action) -> bool {
    match action {
        Action::Release { .. } | Action::Speed { .. } | Action::SpareRemove { .. } | Action::Locate { .. } => true,
        // A scrub rewrites sectors that cannot be read; the end of a sweep, a start and a stop are noted in superblocks.
        Action::Scrub { .. }
        | Action::CancelScrub { .. }
        | Action::Pause { .. }
        | Action::Resume { .. }
        | Action::Start { .. }
        | Action::Stop { .. }
        | Action::Adopt { .. }
        | Action::Import { .. }
        | Action::Create(_)
        | Action::Destroy { .. }
        | Action::Wipe { .. }
        | Action::Rename { .. }
        | Action::Fail { .. }
        | Action::Remove { .. }
        | Action::Add { .. }
        | Action::Replace { .. }
        | Action::Firmware { .. }
        | Action::Set { .. }
        | Action::SpareAdd { .. }
        | Action::Trim { .. } => false,
    }
}

/// What the rebuilds of an array and its spans write once sweeps run. `but`: a drive that leaves the array.
fn rebuild_writes(view: &ArrayView, but: Option<&Path>) -> Vec<DriveWrite> {
    let is_there = |member: &&MemberView| but.is_none_or(|but| Path::new(&member.path) != but);
    let targets =
        view.parts.members.iter().filter(is_there).filter(|member| member.role == "rebuilding" || member.role == "replacing");
    let mut writes: Vec<DriveWrite> = targets.map(|member| of_member(member, Say::WritesRebuild {})).collect();
    let spares = view.parts.members.iter().filter(is_there).filter(|member| member.role == "spare");
    writes.extend(spares.take(gap_count(view, but)).map(|spare| of_member(spare, Say::WritesSpare {})));
    writes.extend(view.parts.spans.iter().flat_map(|span| rebuild_writes(span, but)));
    writes
}

/// The slots of an array, without its spans, that nobody fills yet. `but`: a drive that leaves the array.
fn gap_count(view: &ArrayView, but: Option<&Path>) -> usize {
    // A replacement that is being filled becomes the member of the slot.
    let has_heir =
        |member: &MemberView| view.parts.members.iter().any(|other| other.role == "replacing" && other.slot == member.slot);
    let leaves =
        |member: &&MemberView| but.is_some_and(|but| Path::new(&member.path) == but) && is_active(member) && !has_heir(member);
    view.parts.missing_slots.len() + view.parts.members.iter().filter(leaves).count()
}

/// True if a drive of the pool may take a slot of the array or of a span, as it has more gaps than spares.
fn lacks_spares(view: &ArrayView, but: Option<&Path>) -> bool {
    let is_spare = |member: &&MemberView| member.role == "spare" && but.is_none_or(|but| Path::new(&member.path) != but);
    gap_count(view, but) > view.parts.members.iter().filter(is_spare).count()
        || view.parts.spans.iter().any(|span| lacks_spares(span, but))
}

fn is_active(member: &MemberView) -> bool {
    member.role == "in sync" || member.role == "rebuilding"
}

/// A plan under construction.
struct Draft {
    plan: Plan,
    fill: Option<Fill>,
    marks: Vec<String>,
    basis: String,
}

impl Draft {
    fn new(action: &Action, role: Role, title: Say) -> Self {
        let plan = Plan {
            action: action.clone(),
            // The texts follow from the sentences at the end.
            title: String::new(),
            writes: Vec::new(),
            writes_nothing: writes_nothing(action),
            loses: Vec::new(),
            warnings: Vec::new(),
            said: PlanWords { title, loses: Vec::new(), warnings: Vec::new() },
            forecast: None,
            role,
            confirm: None,
        };
        Self { plan, fill: None, marks: Vec::new(), basis: String::new() }
    }

    /// Makes the plan depend on this array as it is.
    fn on(mut self, entry: &ArrayEntry) -> Self {
        let _ = write!(self.basis, "{} {:?} {:?} ", entry.uuid, entry.state, entry.drives);
        if let Some(view) = &entry.view {
            self.basis += &condition(view);
        }
        self
    }

    /// Overwrites these drives. What lies on them is lost.
    fn overwrites(&mut self, pages: &[DrivePage], what: &Say) {
        for page in pages {
            let _ = write!(self.basis, "{page:?} ");
            self.marks.extend(page.mark.clone());
            let carries = || page.carries.iter().cloned().collect::<Names>();
            let is_blank = page.carries.is_empty();
            if !is_blank {
                self.lose(Say::LosesContent { drive: page.path.clone(), carries: carries() });
            }
            let loses = (!is_blank).then(|| Say::LosesCarried { carries: carries() });
            self.plan.writes.push(losing(written(page, what.clone()), loses));
        }
    }

    fn lose(&mut self, what: Say) {
        self.plan.said.loses.push(what);
    }

    fn warn(&mut self, of: Say) {
        self.plan.said.warnings.push(of);
    }

    /// A drive that is to join these members, and is unlike them.
    fn warn_of_unlike(&mut self, view: &ArrayView, path: &str, kind: Option<&str>, size_bytes: Option<u64>) {
        let peers = all_members(view).into_iter().filter(|member| member.role == "in sync" && member.size_bytes.is_some());
        let peers: Vec<Peer> =
            peers.map(|member| (drives::kind_of(Path::new(&member.path)), member.size_bytes.unwrap_or(0))).collect();
        unlike(path, kind, size_bytes, &peers).into_iter().for_each(|of| self.warn(of));
    }

    /// A gap that no spare of the array fills.
    fn warn_of_pool(&mut self, machine: &Machine) {
        if !machine.keeper.config().spares.drives.is_empty() {
            self.warn(Say::PoolMayFill {});
        }
    }

    /// Data is lost: the plan needs the role admin, and the name typed in.
    fn done(mut self, name: &str) -> Based {
        let texts = |said: &[Say]| said.iter().map(Say::to_string).collect::<Vec<_>>();
        let PlanWords { title, loses, warnings } = &self.plan.said;
        (self.plan.title, self.plan.loses, self.plan.warnings) = (title.to_string(), texts(loses), texts(warnings));
        if !self.plan.loses.is_empty() {
            self.plan.role = Role::Admin;
            self.plan.confirm = Some(name.to_owned());
        }
        Based { plan: self.plan, fill: self.fill, marks: self.marks, basis: self.basis }
    }
}

/// The kind and the size of a member.
type Peer = (String, u64);

/// What a drive of this kind and size would cost an array with these members.
fn unlike(path: &str, kind: Option<&str>, size_bytes: Option<u64>, peers: &[Peer]) -> Vec<Say> {
    let mut warnings = Vec::new();
    let other = kind.and_then(|kind| peers.iter().map(|(peer, _)| peer.as_str()).find(|peer| *peer != kind));
    if let (Some(kind), Some(other)) = (kind, other) {
        let (drive, peer) = (path.to_owned(), DriveKind::of(other));
        warnings.push(match DriveKind::of(kind) {
            DriveKind::Hdd => Say::HardDiskBeside { drive, peer },
            DriveKind::File => Say::FileBeside { drive, peer },
            DriveKind::Ssd => Say::SsdBeside { drive, peer },
        });
    }
    let largest = peers.iter().map(|(_, size)| *size).max();
    if let (Some(size), Some(largest)) = (size_bytes, largest)
        && largest > 0
        && size > largest.saturating_add(largest / 4)
    {
        let (size_bytes, largest_bytes) = (Size(size), Size(largest));
        warnings.push(Say::LargerThanMembers { drive: path.to_owned(), size_bytes, largest_bytes });
    }
    warnings
}

/// The state of an array that a plan depends on: all but counters and progress.
fn condition(view: &ArrayView) -> String {
    let mut text = format!(
        "{:?} {:?} {} {} ",
        view.condition.health, view.parts.missing_slots, view.redundancy.losses_survived, view.geometry.size_bytes
    );
    for member in all_members(view) {
        let _ = write!(text, "{:?} {} {} {:?} ", member.slot, member.path, member.role, member.failure);
    }
    text
}

fn identity(model: Option<&str>, serial: Option<&str>) -> Option<String> {
    let words: Vec<&str> = model.into_iter().chain(serial).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// What an action would do now.
///
/// # Errors
/// Why it cannot be done, or that the caller may not even ask.
pub fn plan(machine: &Machine, action: &Action, caller: &Caller) -> Result<Based, ApiError> {
    match action {
        Action::Create(create) => plan_create(machine, action, create),
        Action::Destroy { array } => plan_destroy(machine, action, array),
        Action::Wipe { drives, means } => plan_wipe(machine, action, drives, *means),
        Action::Adopt { array, .. } => plan_adopt(machine, action, array),
        Action::Release { array } => plan_release(machine, action, array),
        Action::Start { array, force } => plan_start(machine, action, array, *force),
        Action::Stop { array, force } => plan_stop(machine, action, array, *force),
        Action::Rename { array, name } => plan_rename(machine, action, array, name),
        Action::Fail { array, drive } => plan_fail(machine, action, array, drive),
        Action::Remove { array, drive } => plan_remove(machine, action, array, drive),
        Action::Add { array, drive, span } => plan_add(machine, action, array, drive, span.as_ref()),
        Action::Replace { array, old, new } => plan_replace(machine, action, array, old, new),
        Action::Firmware { array, drive, image, slot, activate, force } => {
            // Its plan reads a file that the caller names with the daemon's rights: only an admin may learn of its content.
            if caller.role < Role::Admin {
                let (name, mine) = (caller.name.clone(), caller.role.word().to_owned());
                return Err(ApiError::new(ApiErrorKind::Forbidden, ErrorSentence::FirmwareNeedsAdmin { name, mine }));
            }
            let (slot, activate, force) = (*slot, *activate, *force);
            plan_firmware(
                machine,
                action,
                array,
                &FirmwareRequest { path: drive.clone(), image: image.clone(), slot, activate, force },
            )
        }
        Action::Scrub { array, repair, .. } => plan_scrub(machine, action, array, *repair),
        Action::CancelScrub { array } => simple(machine, action, array, |array| Say::CancelScrub { array }),
        Action::Pause { array } => simple(machine, action, array, |array| Say::HoldSweeps { array }),
        Action::Resume { array } => plan_resume(machine, action, array),
        Action::Speed { array, .. } => simple(machine, action, array, |array| Say::BoundSpeed { array }),
        Action::Set { array, .. } => plan_set(machine, action, array),
        Action::Import { array, name, read_only, .. } => plan_import(machine, action, array, name.as_deref(), *read_only),
        Action::SpareAdd { drives } => plan_spare_add(machine, action, drives),
        Action::SpareRemove { drives } => plan_spare_remove(machine, action, drives),
        Action::Locate { drive, on } => plan_locate(machine, action, drive, *on),
        Action::Trim { array, start_bytes, length_bytes } => plan_trim(machine, action, array, *start_bytes, *length_bytes),
    }
}

fn plan_wipe(machine: &Machine, action: &Action, drives: &[PathBuf], means: WipeMeans) -> Result<Based, ApiError> {
    let pages = chosen_drives(machine, drives)?;
    wipe::check(drives, means).map_err(|told| refused(*told.words))?;
    let drives = names(drives);
    let erases = means != WipeMeans::Signatures;
    let title = if erases { Say::EraseDrives { drives } } else { Say::RemoveSignatures { drives } };
    let mut draft = Draft::new(action, Role::Admin, title);
    draft.overwrites(&pages, &means.writes());
    if erases {
        pages.iter().for_each(|page| draft.lose(Say::LosesDrive { drive: page.path.clone() }));
    }
    draft.warn(means.remains());
    Ok(draft.done("wipe"))
}

fn plan_adopt(machine: &Machine, action: &Action, array: &str) -> Result<Based, ApiError> {
    let (assemblies, _) = machine.assemblies()?;
    let found = chosen(&assemblies, &[array.to_owned()]).map_err(|told| refused(*told.words))?;
    let name = short_name(&found.name);
    let mut draft = Draft::new(action, Role::Admin, Say::AdoptArray { array: name.to_owned() });
    draft.basis = format!("{:?} {:?}", found.uuid, members(found));
    draft.warn(Say::MdadmLeavesAlone {});
    Ok(draft.done(name))
}

fn plan_release(machine: &Machine, action: &Action, array: &str) -> Result<Based, ApiError> {
    let entry = machine.entry(array)?;
    refuse_served(&entry, |array| ErrorSentence::StopBeforeRelease { array })?;
    let title = Say::ReleaseArray { array: entry.name.clone() };
    Ok(Draft::new(action, Role::Admin, title).on(&entry).done(&entry.name))
}

fn plan_start(machine: &Machine, action: &Action, array: &str, force: bool) -> Result<Based, ApiError> {
    let entry = machine.entry(array)?;
    let mut draft = Draft::new(action, Role::Operate, Say::StartArray { array: entry.name.clone() }).on(&entry);
    if entry.view.is_none()
        && let Ok((assemblies, _)) = machine.assemblies()
        && let Ok(found) = assembly(&assemblies, &entry.uuid)
    {
        let parts = meant::tree(&assemblies, found);
        parts.iter().for_each(|part| leaves_out(&mut draft, part));
        let spares = |part: &Assembly| part.drives.iter().filter(|drive| drive.verdict == Verdict::Spare).count();
        if parts.iter().any(|part| part.missing_slots.len() > spares(part)) {
            draft.warn_of_pool(machine);
        }
    }
    if force {
        draft.lose(Say::LosesNewer {});
    }
    Ok(draft.done(&entry.name))
}

/// A start leaves out what is missing, and fills the spares that are there.
fn leaves_out(draft: &mut Draft, array: &Assembly) {
    let missing = &array.missing_slots;
    let _ = write!(draft.basis, "{missing:?} {:?} ", members(array));
    if missing.is_empty() {
        return;
    }
    draft.warn(Say::StartsWithout { array: short_name(&array.name).to_owned(), slots: Slots(missing.clone()) });
    let spares = array.drives.iter().filter(|drive| drive.verdict == Verdict::Spare).take(missing.len());
    draft.plan.writes.extend(spares.map(|drive| write(drive.name.clone(), None, Say::WritesSpare {})));
}

fn plan_stop(machine: &Machine, action: &Action, array: &str, force: bool) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let mut draft = Draft::new(action, Role::Operate, Say::StopArray { array: entry.name.clone() }).on(&entry);
    let clients: Names = view.access.clients.iter().map(|client| client.peer.as_str()).collect();
    if force && !clients.0.is_empty() {
        draft.warn(match clients.0.len() {
            1 => Say::OneClientLosesDisk { clients },
            client_count => Say::ClientsLoseDisk { client_count, clients },
        });
        draft.plan.confirm = Some(entry.name.clone());
    }
    Ok(draft.done(&entry.name))
}

fn plan_remove(machine: &Machine, action: &Action, array: &str, drive: &Path) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let member = member(&view, drive)?;
    if !matches!(member.role.as_str(), "failed" | "spare") {
        let (drive, member_role, array) = (member.path.clone(), member.role.clone(), entry.name.clone());
        return Err(refused(ErrorSentence::NotRemovable { drive, member_role, array }));
    }
    let (drive, array) = (member.path.clone(), entry.name.clone());
    let is_spare = member.role == "spare";
    let title = match (drives::kind_of(Path::new(&drive)).as_str(), is_spare) {
        ("file", _) => Say::RemoveFile { drive, array },
        (_, true) => Say::RemoveSpare { drive, array },
        (_, false) => Say::RemoveFailed { drive, array },
    };
    let mut draft = Draft::new(action, Role::Operate, title).on(&entry);
    if is_spare {
        draft.warn(Say::SpareLess {});
    }
    Ok(draft.done(&entry.name))
}

fn plan_add(machine: &Machine, action: &Action, array: &str, drive: &Path, span: Option<&String>) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let page = candidate(machine, &entry, &view, drive)?;
    let returns = page.member.as_ref().is_some_and(|member| member.uuid == entry.uuid || is_span(&view, &member.uuid));
    let (path, array) = (drive.display().to_string(), entry.name.clone());
    let title = if returns { Say::AddFormerMember { drive: path, array } } else { Say::AddDrive { drive: path, array } };
    let mut draft = Draft::new(action, Role::Operate, title).on(&entry);
    if returns {
        let _ = write!(draft.basis, "{page:?} ");
        draft.marks.extend(page.mark.clone());
        draft.plan.writes.push(written(&page, Say::WritesMissed {}));
    } else {
        draft.warn_of_unlike(&view, &page.path, page.kind.as_deref(), page.size_bytes);
        let is_filled = span.as_ref().map_or(view.condition.health != HealthView::Optimal, |span| lacks_a_member(&view, span));
        if is_filled {
            let of = span.and_then(|span| part_named(&view, span)).unwrap_or(&view);
            draft.fill = fill(&view, of, drive, page.kind.as_deref(), page.size_bytes);
        }
        draft.overwrites(&[page], &if is_filled { Say::WritesNewMember {} } else { Say::WritesNewSpare {} });
    }
    Ok(draft.done(&entry.name))
}

fn plan_replace(machine: &Machine, action: &Action, array: &str, old: &Path, new: &Path) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let leaving = member(&view, old)?;
    let (path, array) = (leaving.path.clone(), entry.name.clone());
    let title = Say::ReplaceMember { old: path, drive: new.display().to_string(), array };
    let mut draft = Draft::new(action, Role::Operate, title).on(&entry);
    let of = view
        .parts
        .spans
        .iter()
        .find(|span| all_members(span).iter().any(|member| Path::new(&member.path) == old))
        .unwrap_or(&view);
    if all_members(&view).iter().any(|member| Path::new(&member.path) == new && member.role == "spare") {
        let spare = member(&view, new)?;
        let kind = drives::kind_of(new);
        draft.warn_of_unlike(&view, &spare.path, Some(&kind), spare.size_bytes);
        draft.fill = fill(&view, of, new, Some(&kind), spare.size_bytes);
        draft.plan.writes.push(of_member(spare, Say::WritesCopy {}));
    } else {
        let page = candidate(machine, &entry, &view, new)?;
        draft.warn_of_unlike(&view, &page.path, page.kind.as_deref(), page.size_bytes);
        draft.fill = fill(&view, of, new, page.kind.as_deref(), page.size_bytes);
        draft.overwrites(&[page], &Say::WritesNewCopy {});
    }
    Ok(draft.done(&entry.name))
}

fn plan_scrub(machine: &Machine, action: &Action, array: &str, repair: bool) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let array = entry.name.clone();
    let title = if repair { Say::RepairArray { array } } else { Say::ScrubArray { array } };
    let mut draft = Draft::new(action, Role::Operate, title).on(&entry);
    if repair {
        let doubt = cannot_name_the_wrong_member(&view);
        draft.plan.writes = all_members(&view)
            .into_iter()
            .filter(|member| member.role == "in sync" && member.size_bytes.is_some())
            .map(|member| losing(of_member(member, Say::WritesRepair {}), doubt.map(|_| Say::LosesOtherVersion {})))
            .collect();
        if let Some(what) = doubt {
            let sectors: u64 = tree(&view).into_iter().map(doubtful_sectors).sum();
            let (warning, lost) = match what {
                Doubt::OneParity => (Say::RepairMayErrOneParity {}, Say::LosesParityVersion { sectors }),
                Doubt::TwoCopies => (Say::RepairMayErrTwoCopies {}, Say::LosesCopyVersion { sectors }),
            };
            draft.warn(warning);
            if sectors > 0 {
                draft.lose(lost);
            }
            draft.plan.confirm = Some(entry.name.clone());
        }
    }
    Ok(draft.done(&entry.name))
}

/// The sectors in which a scrub has found mismatches of this array or span, none of its spans, and whose wrong side is unknown.
fn doubtful_sectors(view: &ArrayView) -> u64 {
    let is_open = found_mismatch(view) && view.parts.spans.is_empty() && cannot_name_the_wrong_member(view).is_some();
    view.redundancy.mismatch_sectors.filter(|_| is_open).unwrap_or(0)
}

fn plan_spare_remove(machine: &Machine, action: &Action, drives: &[PathBuf]) -> Result<Based, ApiError> {
    let pool = machine.config()?.spares.drives;
    if let Some(drive) = drives.iter().find(|drive| !pool.iter().any(|known| are_one(known, drive))) {
        return Err(refused(pool::not_in_pool(drive)));
    }
    let mut draft = Draft::new(action, Role::Operate, Say::LeavePool { drives: names(drives) });
    draft.basis = format!("{pool:?}");
    draft.warn(Say::TakenSpareStays {});
    Ok(draft.done("pool"))
}

fn plan_locate(machine: &Machine, action: &Action, drive: &Path, on: bool) -> Result<Based, ApiError> {
    let known = drives::paths(&machine.keeper.config().daemon);
    let is_member = |entry: &ArrayEntry| entry.drives.iter().any(|path| Path::new(path) == drive);
    if !known.iter().any(|path| path == drive) && !machine.entries(false).iter().any(is_member) {
        return Err(refused(ErrorSentence::NoDriveOfMachine { drive: drive.display().to_string() }));
    }
    let drive = drive.display().to_string();
    let title = if on { Say::LightOn { drive } } else { Say::LightOff { drive } };
    Ok(Draft::new(action, Role::Operate, title).done("light"))
}

fn plan_trim(
    machine: &Machine,
    action: &Action,
    array: &str,
    start_bytes: u64,
    length_bytes: Option<u64>,
) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let length = length_bytes.unwrap_or(view.geometry.size_bytes.saturating_sub(start_bytes));
    let (length_bytes, start_bytes, array) = (Size(length), Size(start_bytes), entry.name.clone());
    let title = Say::TrimRange { length_bytes, start_bytes, array: array.clone() };
    let mut draft = Draft::new(action, Role::Admin, title).on(&entry);
    draft.lose(Say::LosesRange { length_bytes, start_bytes, array });
    let in_sync = all_members(&view).into_iter().filter(|member| is_active(member) && member.size_bytes.is_some());
    let discards = in_sync.map(|member| losing(of_member(member, Say::WritesDiscards {}), Some(Say::LosesRangeContent {})));
    draft.plan.writes = discards.collect();
    draft.warn(Say::FileSystemsTrim {});
    Ok(draft.done(&entry.name))
}

fn plan_resume(machine: &Machine, action: &Action, array: &str) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let title = Say::ResumeSweeps { array: entry.name.clone() };
    let mut draft = Draft::new(action, Role::Operate, title).on(&entry);
    draft.plan.writes = rebuild_writes(&view, None);
    if lacks_spares(&view, None) {
        draft.warn_of_pool(machine);
    }
    Ok(draft.done(&entry.name))
}

fn simple(machine: &Machine, action: &Action, array: &str, title: fn(String) -> Say) -> Result<Based, ApiError> {
    let (entry, _) = machine.served(array)?;
    Ok(Draft::new(action, Role::Operate, title(entry.name.clone())).on(&entry).done(&entry.name))
}

fn plan_create(machine: &Machine, action: &Action, create: &CreateAction) -> Result<Based, ApiError> {
    let spec = spec(create, Overwrite::Anything)?;
    let taken = machine.entries(true).into_iter().any(|entry| entry.name == create.name);
    if taken {
        return Err(refused(ErrorSentence::NameTaken { array: create.name.clone() }));
    }
    let paths: Vec<PathBuf> = create.drives.iter().flatten().chain(&create.spares).cloned().collect();
    let pages = chosen_drives(machine, &paths)?;
    let preview = preview(&spec)?;
    let (array, level, size_bytes) = (create.name.clone(), spec.level.to_string(), Size(preview.capacity_sectors * 512));
    let (members, spares) = pages.split_at(pages.len() - create.spares.len());
    let title = match (members.len(), spares.len()) {
        (1, 0) => Say::MakeArrayOfOne { array, level, size_bytes },
        (drive_count, 0) => Say::MakeArray { array, level, size_bytes, drive_count },
        (drive_count, spare_count) => Say::MakeArrayWithSpares { array, level, size_bytes, drive_count, spare_count },
    };
    let mut draft = Draft::new(action, Role::Admin, title);
    draft.overwrites(members, &Say::WritesNewArray {});
    draft.overwrites(spares, &Say::WritesNewSpare {});
    for write in &mut draft.plan.writes {
        let ranges =
            preview.writes.iter().filter(|(path, _)| path.as_os_str() == write.drive.as_str()).flat_map(|(_, ranges)| ranges);
        write.extents = ranges
            .map(|range| Extent { start_bytes: range.start * 512, length_bytes: (range.end - range.start) * 512 })
            .collect();
    }
    draft.plan.forecast = Some(Forecast {
        size_bytes: preview.capacity_sectors * 512,
        losses_survived: preview.losses_survived,
        strip_bytes: preview.strip_sectors.map(|sectors| sectors * 512),
    });
    let sizes: Vec<u64> = pages.iter().filter_map(|page| page.size_bytes).collect();
    if let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max())
        && most > least
        && create.member_bytes.is_none()
        && !matches!(spec.level, ArrayLevel::Single(Level::Linear | Level::Raid0))
    {
        draft.warn(Say::SmallestCounts { least_bytes: Size(*least), most_bytes: Size(*most) });
    }
    if preview.losses_survived == 0 {
        draft.warn(Say::NoRedundancy {});
    }
    Ok(draft.done(&create.name))
}

/// The array in the terms of `stria_host`.
///
/// # Errors
/// What is invalid.
pub fn spec(create: &CreateAction, overwrite: Overwrite) -> Result<CreateSpec, ApiError> {
    let level: ArrayLevel = create.level.parse().map_err(|error: String| invalid(error))?;
    let (ArrayLevel::Single(single) | ArrayLevel::Striped(single)) = level;
    let layout = create.layout.as_deref().map(|name| single.parse_layout(name)).transpose().map_err(invalid)?;
    let strip = create.strip_bytes;
    if strip.is_some_and(|strip| !strip.is_power_of_two() || !(4096..=1 << 20).contains(&strip)) {
        return Err(invalid(ErrorSentence::StripInvalid {}));
    }
    let is_name = !create.name.is_empty()
        && create.name.len() <= 31
        && create.name.chars().all(|c| !c.is_control() && c != '/' && c != ':');
    if !is_name {
        return Err(invalid(ErrorSentence::NameInvalid {}));
    }
    if create.spans.is_some() && matches!(level, ArrayLevel::Single(_)) {
        return Err(invalid(ErrorSentence::SpansOnlyOf { level: level.to_string() }));
    }
    Ok(CreateSpec {
        name: create.name.clone(),
        level,
        layout,
        strip_sectors: strip.map(|bytes| bytes / 512),
        span_count: create.spans,
        drives: create.drives.clone(),
        spares: create.spares.clone(),
        bitmap: if create.bitmap { BitmapChoice::Internal { chunk_bytes: None } } else { BitmapChoice::None },
        member_sectors_max: create.member_bytes.map(|bytes| bytes / 512),
        log: if create.log { LogChoice::Auto } else { LogChoice::None },
        checksums: create.integrity,
        assume_clean: create.assume_clean,
        overwrite,
    })
}

fn plan_destroy(machine: &Machine, action: &Action, array: &str) -> Result<Based, ApiError> {
    let entry = machine.entry(array)?;
    refuse_served(&entry, |array| ErrorSentence::StopBeforeDestroy { array })?;
    let (assemblies, unread) = machine.assemblies()?;
    let paths = array_drives(&assemblies, &entry.uuid)?;
    let pages = chosen_drives(machine, &paths)?;
    let title = Say::DestroyArray { array: entry.name.clone(), drives: names(&paths) };
    let mut draft = Draft::new(action, Role::Admin, title).on(&entry);
    draft.lose(Say::LosesArray { array: entry.name.clone() });
    draft.overwrites(&pages, &Say::WritesDestroy {});
    for (reason, cause) in unread.into_iter().map(Words::parts) {
        draft.warn(Say::DriveStays { reason, cause });
    }
    Ok(draft.done(&entry.name))
}

fn plan_rename(machine: &Machine, action: &Action, array: &str, name: &str) -> Result<Based, ApiError> {
    let entry = machine.entry(array)?;
    refuse_served(&entry, |array| ErrorSentence::StopBeforeRename { array })?;
    if machine.entries(true).iter().any(|other| other.name == name) {
        return Err(refused(ErrorSentence::NameTaken { array: name.to_owned() }));
    }
    let paths = array_drives(&machine.assemblies()?.0, &entry.uuid)?;
    let title = Say::RenameArray { array: entry.name.clone(), name: name.to_owned() };
    let mut draft = Draft::new(action, Role::Admin, title).on(&entry);
    draft.plan.writes = chosen_drives(machine, &paths)?.iter().map(|page| written(page, Say::WritesName {})).collect();
    Ok(draft.done(&entry.name))
}

/// `action`: [`Action::Set`].
fn plan_set(machine: &Machine, action: &Action, array: &str) -> Result<Based, ApiError> {
    let (request, entry) = (settings_of(action), machine.entry(array)?);
    if request.names_nothing() {
        return Err(invalid(ErrorSentence::NothingToSet {}));
    }
    let changes_drives = !request.changes().map_err(invalid)?.is_empty();
    let needs_pause = machine.service.may_set(&entry.name, &request)?;
    let title = Say::SetArray { array: entry.name.clone(), settings: request.clone() };
    let mut draft = Draft::new(action, Role::Admin, title).on(&entry);
    if let Some(view) = &entry.view {
        if changes_drives {
            let in_sync = all_members(view).into_iter().filter(|member| member.role != "failed" && member.size_bytes.is_some());
            draft.plan.writes = in_sync.map(|member| of_member(member, Say::WritesMetadata {})).collect();
        }
        let is_switched = request.read_only.is_some_and(|wanted| wanted != view.condition.read_only);
        let pauses = changes_drives || is_switched || needs_pause;
        if pauses {
            draft.warn(Say::StopsForMoment {});
        }
        let clients: Names = view.access.clients.iter().map(|client| client.peer.as_str()).collect();
        if pauses && request.force && !clients.0.is_empty() {
            draft.warn(Say::ClientsReconnect { clients });
            draft.plan.confirm = Some(entry.name.clone());
        }
    } else if changes_drives {
        let paths = array_drives(&machine.assemblies()?.0, &entry.uuid)?;
        draft.plan.writes = chosen_drives(machine, &paths)?.iter().map(|page| written(page, Say::WritesMetadata {})).collect();
    }
    let costs = [
        (request.write == Some(WriteMode::Back), Say::BackCosts {}),
        (request.bitmap.as_deref() == Some("none"), Say::NoBitmapCosts {}),
        (request.log.as_deref() == Some("none"), Say::NoLogCosts {}),
        (request.integrity == Some(false), Say::NoChecksumsCost {}),
    ];
    costs.into_iter().filter(|(is_asked, _)| *is_asked).for_each(|(_, cost)| draft.warn(cost));
    if request.write == Some(WriteMode::Back) {
        draft.plan.confirm = Some(entry.name.clone());
    }
    Ok(draft.done(&entry.name))
}

/// The settings that an action [`Action::Set`] asks for.
pub fn settings_of(action: &Action) -> SettingsRequest {
    match action {
        Action::Set { array: _, write, drive_caches, read_only, bitmap, log, integrity, force } => SettingsRequest {
            write: *write,
            drive_caches: *drive_caches,
            read_only: *read_only,
            bitmap: bitmap.clone(),
            log: log.clone(),
            integrity: *integrity,
            force: *force,
        },
        _ => SettingsRequest::default(),
    }
}

fn plan_import(
    machine: &Machine,
    action: &Action,
    array: &str,
    wanted: Option<&str>,
    read_only: bool,
) -> Result<Based, ApiError> {
    let (config, (assemblies, _)) = (machine.config()?, machine.assemblies()?);
    let found = chosen(&assemblies, &[array.to_owned()]).map_err(|told| refused(*told.words))?;
    if config.owner(Uuid(found.uuid), None).is_some() {
        return Err(refused(ErrorSentence::BelongsAlready { array: short_name(&found.name).to_owned() }));
    }
    let name = ownership::name_of_import(&config, found, wanted).map_err(|told| refused(*told.words))?;
    let (array, named) = (short_name(&found.name).to_owned(), name.clone());
    let title = match foreign::host(&found.name) {
        Some(host) => Say::ImportArrayOf { array, host: host.to_owned(), name: named },
        None => Say::ImportArray { array, name: named },
    };
    let mut draft = Draft::new(action, Role::Admin, title);
    draft.basis = format!("{:?} {:?} {:?}", found.uuid, found.name, members(found));
    if ownership::import_renames(found, &name, read_only) {
        let paths = meant::drives(&meant::tree(&assemblies, found));
        draft.plan.writes = chosen_drives(machine, &paths)?.iter().map(|page| written(page, Say::WritesName {})).collect();
    }
    if !found.missing_slots.is_empty() {
        draft.warn(Say::StartsDegraded { missing_count: found.missing_slots.len() });
    }
    draft.warn(Say::MdadmLeavesAlone {});
    Ok(draft.done(&name))
}

fn plan_spare_add(machine: &Machine, action: &Action, paths: &[PathBuf]) -> Result<Based, ApiError> {
    refuse_twins(paths).map_err(|told| refused(*told.words))?;
    let pages = chosen_drives(machine, paths)?;
    let mut draft = Draft::new(action, Role::Operate, Say::FillPool { drives: names(paths) });
    let (blank, others): (Vec<DrivePage>, Vec<DrivePage>) = pages.into_iter().partition(|page| page.carries.is_empty());
    draft.overwrites(&others, &Say::WritesBlank {});
    draft.marks.extend(blank.iter().filter_map(|page| page.mark.clone()));
    let _ = write!(draft.basis, "{blank:?} ");
    draft.warn(Say::AnyArrayMayTake {});
    Ok(draft.done("pool"))
}

fn plan_fail(machine: &Machine, action: &Action, array: &str, drive: &Path) -> Result<Based, ApiError> {
    let (entry, view) = machine.served(array)?;
    let leaving = member(&view, drive)?;
    let title = Say::FailMember { drive: leaving.path.clone(), array: entry.name.clone() };
    let mut draft = Draft::new(action, Role::Operate, title).on(&entry);
    draft.plan.writes = rebuild_writes(&view, Some(drive));
    if lacks_spares(&view, Some(drive)) {
        draft.warn_of_pool(machine);
    }
    if leaving.role == "in sync" {
        draft.warn(after_failure(&view, drive)?);
        // A drive that does not answer cannot be copied.
        if unanswered_ms(leaving).is_none() {
            draft.warn(Say::ReplaceInstead {});
        }
    }
    draft.plan.confirm = Some(entry.name.clone());
    Ok(draft.done(&entry.name))
}

/// What is left when a member in sync is failed. Each span has its own redundancy.
///
/// # Errors
/// When data would be lost.
fn after_failure(view: &ArrayView, drive: &Path) -> Result<Say, ApiError> {
    let is_here =
        |view: &ArrayView| view.parts.members.iter().any(|member| Path::new(&member.path) == drive && member.role == "in sync");
    let part = view.parts.spans.iter().find(|span| is_here(span)).unwrap_or(view);
    let span = (!std::ptr::eq(part, view)).then(|| part.identity.name.clone());
    let is_needed = part.parts.members.iter().any(|member| Path::new(&member.path) == drive && member.needed);
    if is_needed {
        let drive = drive.display().to_string();
        return Err(refused(match span {
            None => ErrorSentence::NotFailable { drive },
            Some(span) => ErrorSentence::NotFailableInSpan { drive, span },
        }));
    }
    let failure_count = part.redundancy.losses_survived.saturating_sub(1);
    Ok(match (failure_count, span) {
        (0, None) => Say::ArrayBareAfterwards {},
        (0, Some(span)) => Say::SpanBareAfterwards { span },
        (_, None) => Say::ArraySurvivesAfterwards { failure_count: Failures(failure_count) },
        (_, Some(span)) => Say::SpanSurvivesAfterwards { span, failure_count: Failures(failure_count) },
    })
}

fn plan_firmware(machine: &Machine, action: &Action, array: &str, request: &FirmwareRequest) -> Result<Based, ApiError> {
    if !request.image.is_absolute() {
        return Err(invalid(ErrorSentence::ImageNotAbsolute {}));
    }
    let (entry, view) = machine.served(array)?;
    let leaving = member(&view, &request.path)?;
    let arrays: Vec<ArrayView> = machine.entries(false).into_iter().filter_map(|entry| entry.view).collect();
    let Update { firmware, activate } = check_update(&view, &arrays, request)?;
    let (mut image, size) = stria_health::open_image(&request.image).map_err(|error| refused(Words::from(&error)))?;
    let hash = sha256_of(&mut image);
    let hash = hash.map_err(|error| {
        let (image, reason) = (request.image.display().to_string(), error.to_string());
        refused(ErrorSentence::FirmwareImageUnread { image, reason })
    })?;
    let (drive, array, revision) = (leaving.path.clone(), entry.name.clone(), firmware.revision.to_string());
    let title = Say::UpdateFirmware { drive, array, revision };
    let mut draft = Draft::new(action, Role::Admin, title).on(&entry);
    let _ = write!(draft.basis, "{hash} {firmware:?} ");
    draft.marks.push(hash);
    let what = Say::WritesFirmware { size_bytes: Size(size), image: request.image.display().to_string() };
    draft.plan.writes.push(of_member(leaving, what));
    draft.warn(match activate {
        FirmwareActivation::Now => Say::FirmwareNow {},
        FirmwareActivation::Reset => Say::FirmwareReset {},
        FirmwareActivation::Later => Say::FirmwareLater {},
    });
    draft.warn(Say::FirmwareMayBreak {});
    draft.plan.confirm = Some(entry.name.clone());
    Ok(draft.done(&entry.name))
}

fn refuse_served(entry: &ArrayEntry, first: fn(String) -> ErrorSentence) -> Result<(), ApiError> {
    match entry.view {
        Some(_) => Err(refused(first(entry.name.clone()))),
        None => Ok(()),
    }
}

fn member<'a>(view: &'a ArrayView, drive: &Path) -> Result<&'a MemberView, ApiError> {
    let mut members = all_members(view).into_iter().filter(|member| member.size_bytes.is_some());
    // A drive that failed and came back is there twice: the entry that works is meant.
    let found: Vec<&MemberView> = members.by_ref().filter(|member| Path::new(&member.path) == drive).collect();
    let works = found.iter().find(|member| member.role != "failed").or(found.first());
    works.copied().ok_or_else(|| refused(does_not_use(view, drive)))
}

/// True if this span lacks a member.
fn lacks_a_member(view: &ArrayView, span: &str) -> bool {
    (view.identity.name == span && view.condition.health != HealthView::Optimal)
        || view.parts.spans.iter().any(|part| lacks_a_member(part, span))
}

/// The array or span of this name.
fn part_named<'a>(view: &'a ArrayView, name: &str) -> Option<&'a ArrayView> {
    if view.identity.name == name { Some(view) } else { view.parts.spans.iter().find_map(|part| part_named(part, name)) }
}

/// A drive that is filled as a member of this array or span of it. `None`: its size is not known.
fn fill(view: &ArrayView, of: &ArrayView, drive: &Path, kind: Option<&str>, size_bytes: Option<u64>) -> Option<Fill> {
    Some(Fill {
        uuid: view.identity.uuid.clone(),
        drive: drive.display().to_string(),
        kind: kind.unwrap_or_default().to_owned(),
        bytes: member_bytes(of, size_bytes)?,
        bytes_per_s_max: view.speed.as_ref().and_then(|speed| speed.max_bytes_per_s),
    })
}

fn is_span(view: &ArrayView, uuid: &str) -> bool {
    view.parts.spans.iter().any(|span| span.identity.uuid == uuid || is_span(span, uuid))
}

/// A drive that is to join an array.
fn candidate(machine: &Machine, entry: &ArrayEntry, view: &ArrayView, drive: &Path) -> Result<DrivePage, ApiError> {
    let here: Vec<&MemberView> = all_members(view).into_iter().filter(|member| Path::new(&member.path) == drive).collect();
    if let Some(member) = here.iter().find(|member| member.role != "failed") {
        let (drive, array, member_role) = (member.path.clone(), entry.name.clone(), member.role.clone());
        return Err(refused(ErrorSentence::MemberAlready { drive, array, member_role }));
    }
    if here.is_empty() {
        return Ok(chosen_drives(machine, &[drive.to_owned()])?.remove(0));
    }
    // A failed member may come back: it is looked at as any other drive.
    let page = drives::pages(vec![drive.to_owned()], &[], &[], &[]).remove(0);
    refuse_unread(&page)?;
    Ok(page)
}

/// Refuses a drive that cannot be read.
fn refuse_unread(page: &DrivePage) -> Result<(), ApiError> {
    let words = page.error.clone().map(|text| Words { text, said: page.error_said.clone() });
    words.map_or(Ok(()), |words| Err(refused(words)))
}

/// The pages of drives that a user has named. Only drives that the daemon lists may be written to: its power must not reach other
/// files.
fn chosen_drives(machine: &Machine, paths: &[PathBuf]) -> Result<Vec<DrivePage>, ApiError> {
    if paths.is_empty() {
        return Err(invalid(ErrorSentence::NoDriveNamed {}));
    }
    let config = machine.keeper.config();
    let allowed = drives::paths(&config.daemon);
    if let Some(path) = paths.iter().find(|path| !allowed.contains(path)) {
        return Err(refused(ErrorSentence::DriveNotAllowed { drive: path.display().to_string() }));
    }
    let pages = drives::pages(paths.to_vec(), &machine.entries(false), &[], &config.spares.drives);
    let pages: Vec<DrivePage> =
        paths.iter().filter_map(|path| pages.iter().find(|page| page.path == path.display().to_string())).cloned().collect();
    for page in &pages {
        refuse_unread(page)?;
        if let Some(user) = page.users.first() {
            return Err(refused(ErrorSentence::DriveInUse { drive: page.path.clone(), user: user.clone() }));
        }
        if let Some(member) = page.member.as_ref().filter(|member| member.served) {
            return Err(refused(ErrorSentence::DriveOfArray { drive: page.path.clone(), array: member.array.clone() }));
        }
        // The daemon holds it, so that no other program takes it.
        if page.pool && page.free {
            return Err(refused(ErrorSentence::DriveInPool { drive: page.path.clone() }));
        }
    }
    Ok(pages)
}

fn write(drive: String, identity: Option<String>, what: Say) -> DriveWrite {
    let said = WriteWords { what, loses: None };
    DriveWrite { drive, identity, what: said.what.to_string(), extents: Vec::new(), loses: None, said }
}

/// The same, and what is lost on the drive.
fn losing(mut write: DriveWrite, loses: Option<Say>) -> DriveWrite {
    (write.loses, write.said.loses) = (loses.as_ref().map(Say::to_string), loses);
    write
}

fn written(page: &DrivePage, what: Say) -> DriveWrite {
    write(page.path.clone(), identity(page.model.as_deref(), page.serial.as_deref()), what)
}

fn of_member(member: &MemberView, what: Say) -> DriveWrite {
    write(member.path.clone(), identity(member.model.as_deref(), member.serial.as_deref()), what)
}

fn names(paths: &[PathBuf]) -> Names {
    paths.iter().map(|path| path.display().to_string()).collect()
}

/// The array with this identity, on drives that are here.
///
/// # Errors
/// When none of them is.
pub fn assembly<'a>(assemblies: &'a [Assembly], uuid: &str) -> Result<&'a Assembly, ApiError> {
    let found = assemblies.iter().find(|one| Uuid(one.uuid).to_string() == uuid);
    found.ok_or_else(|| refused(ErrorSentence::NoneHere {}))
}

/// The drives of an array and of its spans.
///
/// # Errors
/// When none of them is here.
fn array_drives(assemblies: &[Assembly], uuid: &str) -> Result<Vec<PathBuf>, ApiError> {
    Ok(meant::drives(&meant::tree(assemblies, assembly(assemblies, uuid)?)))
}

fn members(array: &Assembly) -> Vec<PathBuf> {
    array.drives.iter().map(|drive| PathBuf::from(&drive.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn view(name: &str, left: usize, missing: &[usize], members: &[(&str, &str)], spans: Vec<Value>) -> Value {
        let member = |(slot, (path, role)): (usize, &(&str, &str))| {
            json!({"slot": slot, "path": path, "role": role, "needed": left == 0 && *role == "in sync", "size_bytes": 1, "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0,
                "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0})
        };
        let members: Vec<Value> = members.iter().enumerate().map(member).collect();
        json!({"name": name, "full_name": name, "uuid": "", "level": "5", "layout": "", "size_bytes": 0, "health": "degraded", "state": "",
            "clean": true, "read_only": false, "paused": false, "members": members, "missing_slots": missing, "spans": spans,
            "resync_pending": false, "losses_survived": left, "in_flight": 0, "events": 0, "created_s": 0, "exports": [], "clients": []})
    }

    fn of(view: Value) -> ArrayView {
        serde_json::from_value(view).expect("a view")
    }

    #[test]
    fn a_plan_names_the_drives_that_a_rebuild_writes() {
        let written = |view: &ArrayView, but: Option<&str>| {
            rebuild_writes(view, but.map(Path::new)).into_iter().map(|write| write.drive).collect::<Vec<_>>()
        };
        let members = [("/a", "in sync"), ("/b", "in sync"), ("/r", "rebuilding"), ("/s", "spare"), ("/t", "spare")];
        let array = of(view("tank", 1, &[3], &members, vec![]));
        assert_eq!(written(&array, None), ["/r", "/s"], "one gap takes one spare");
        assert_eq!(written(&array, Some("/a")), ["/r", "/s", "/t"], "the member that is failed leaves another gap");
        assert_eq!(written(&array, Some("/s")), ["/r", "/t"]);
        let mut replaced = of(view("tank", 1, &[], &[("/a", "in sync"), ("/n", "replacing"), ("/s", "spare")], vec![]));
        let slots = [Some(0), Some(0), None];
        replaced.parts.members.iter_mut().zip(slots).for_each(|(member, slot)| member.slot = slot);
        assert_eq!(written(&replaced, Some("/a")), ["/n"], "the replacement takes the slot");
        assert!(
            !lacks_spares(&replaced, Some("/s".as_ref())) && !lacks_spares(&replaced, Some("/n".as_ref())),
            "no slot is freed"
        );
        assert!(!lacks_spares(&array, None) && !lacks_spares(&array, Some("/a".as_ref())), "two spares fill both");
        let bare = of(view("tank", 1, &[3, 4], &members[..4], vec![]));
        assert!(lacks_spares(&bare, None), "one spare fills one gap of two");
        let whole = view("tank-1", 1, &[], &members[..2], vec![]);
        assert_eq!(written(&of(view("tank", 0, &[], &[], vec![whole])), None), [""; 0]);
    }

    /// Before, a hard disk joined SSDs, and 4 TB joined 1 TB, without a word.
    #[test]
    fn a_drive_that_is_unlike_the_members_is_warned_of() {
        let peers = |list: &[(&str, u64)]| list.iter().map(|(kind, size)| ((*kind).to_owned(), *size)).collect::<Vec<Peer>>();
        let warned = |kind: &str, size: u64, list: &[(&str, u64)]| {
            let said = unlike("/dev/x", Some(kind), Some(size), &peers(list));
            said.iter().map(Say::to_string).collect::<Vec<_>>()
        };
        let gib = |count: u64| count << 30;
        assert_eq!(warned("ssd", gib(110), &[("ssd", gib(100)), ("ssd", gib(90))]), [""; 0]);
        assert_eq!(warned("ssd", gib(80), &[]), [""; 0], "nothing is known of the members");
        let slow = warned("hdd", gib(100), &[("ssd", gib(100)), ("ssd", gib(100))]);
        assert!(slow.len() == 1 && slow[0].contains("a hard disk beside an SSD"), "{slow:?}");
        let fast = warned("ssd", gib(100), &[("hdd", gib(100))]);
        assert!(fast.len() == 1 && fast[0].contains("an SSD beside a member that is a hard disk"), "{fast:?}");
        let file = warned("file", gib(100), &[("ssd", gib(100))]);
        assert!(file.len() == 1 && file[0].contains("an image file beside a member that is an SSD"), "{file:?}");
        let large = warned("ssd", gib(400), &[("ssd", gib(100)), ("ssd", gib(120))]);
        assert!(large.len() == 1 && large[0].contains("has 400 GiB, and the largest member 120 GiB"), "{large:?}");
        assert_eq!(warned("hdd", gib(400), &[("ssd", gib(100))]).len(), 2);
    }

    /// RAID 50: one span is bare, the other has all its redundancy.
    #[test]
    fn each_span_has_its_own_redundancy_when_a_member_is_failed() {
        let bare = view("tank-0", 0, &[1], &[("/a", "in sync")], vec![]);
        let sound = view("tank-1", 1, &[], &[("/b", "in sync")], vec![]);
        let array = of(view("tank", 0, &[], &[], vec![bare, sound]));
        let refused = after_failure(&array, Path::new("/a")).expect_err("it is needed");
        let warned = after_failure(&array, Path::new("/b")).expect("it can be failed").to_string();
        assert!(refused.message.contains("data would be lost"), "{refused:?}");
        assert!(warned.contains("tank-1") && warned.contains("no redundancy afterwards"), "{warned}");
    }

    /// RAID 10 that lacks a member of one pair: one of another pair can be failed.
    #[test]
    fn a_member_whose_copy_is_there_can_be_failed() {
        let mut pairs = view("tank", 0, &[1], &[("/a", "in sync"), ("/b", "in sync")], vec![]);
        pairs["members"][1]["needed"] = false.into();
        let array = of(pairs);
        assert!(after_failure(&array, Path::new("/a")).is_err());
        assert!(after_failure(&array, Path::new("/b")).expect("it can be failed").to_string().contains("ONE MORE FAILURE"));
    }
}
