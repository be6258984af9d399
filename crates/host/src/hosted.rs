//! A running array, with the drives below it and the commands for it: the entire array, or one lane's part, which
//! [`ArrayLanes`](crate::ArrayLanes) commands.

use crate::checked::ReadyDrive;
use crate::clock::unix_seconds_at_zero;
use crate::denial::Denial;
use crate::hosted_drive::HostedDrive;
use crate::merger::{EventMerger, Hush};
use crate::newcomer::{FoundDrive, JoinByPath, PreparedDrive};
use crate::words::{HostSentence, said};
use crate::{HostError, SyncIo};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use stria_array::{Command, CommandId, Engine, Event, Health, MemberId, MemberSector, MemberState, Refusal};
use stria_block::{BlockDevice, Completion, Limits, NO_THREAD, Nanos, Request};
use stria_drive::{FileDrive, Ring, SyncDrive, monotonic_now};
use stria_format::md::Candidate;
use stria_format::md::recorder::Description;
use stria_integrity::{Counts, IntegrityDevice};
use stria_tree::{ArrayCommand, Binder, Joined, Joining, Member, Plan, Tree};

/// Something that happened to an array or one of its spans.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The array's name.
    pub array: String,
    /// The kind of event.
    pub kind: NoticeKind,
    /// The event in a sentence, with names instead of handles.
    pub said: HostSentence,
}

/// The kinds of events.
#[derive(Clone, Debug)]
pub enum NoticeKind {
    /// Something that the engine decided or met.
    Engine(Event),
    /// A drive has left a request unanswered for long. Repeated when the time has doubled.
    Silent,
    /// It has answered.
    Answers,
    /// The file of a drive has no name any more.
    Deleted,
}

/// Five seconds: a drive that leaves a request unanswered for so long is reported. SSDs answer in milliseconds; a hard disk that
/// spins up is reported too.
const SILENT_AFTER: Nanos = 5_000_000_000;
/// The time between two checks of drives: for their size, and for unanswered requests.
const LOOK_EVERY: Nanos = 1_000_000_000;

/// Where to send events.
#[derive(Clone)]
pub(crate) struct EventSender {
    pub notices: Sender<Notice>,
    /// Shared by the lanes.
    pub merger: Arc<EventMerger>,
}

/// An array as a block device with its spans and drives, on this thread's ring. Clones are the same array.
#[derive(Clone)]
pub struct HostedArray {
    tree: Tree<HostedDrive>,
    ring: Ring,
    /// Which of the array's lanes this is. 0: its coordinator, which makes the metadata updates.
    lane: usize,
    reporter: Option<EventSender>,
    /// The time of the next check of drives.
    look_at: Nanos,
    /// Commands for arrays of this tree.
    given: Vec<Given>,
}

/// A command that was given, and the channel for its answer.
#[derive(Clone)]
struct Given {
    /// The array, by index.
    array: usize,
    id: CommandId,
    answer: Sender<Result<(), Refusal>>,
}

/// Puts drives on a lane's ring.
struct OnRing<'a> {
    ring: &'a Ring,
    /// Nothing is written, whatever the drives were opened for.
    read_only: bool,
    /// What the administrator must know about these drives.
    told: Vec<String>,
}

impl Binder<ReadyDrive> for OnRing<'_> {
    type Drive = HostedDrive;

    fn bind(&mut self, array: &Plan<ReadyDrive>, _: MemberId, drive: &ReadyDrive) -> (Box<dyn BlockDevice>, HostedDrive) {
        let redundant = array.start.config.geometry.level().is_redundant();
        let (device, drive, told) = drive.clone().bind(self.ring, redundant, self.read_only);
        self.told.extend(told);
        (device, drive)
    }
}

impl Deref for HostedArray {
    type Target = Tree<HostedDrive>;
    fn deref(&self) -> &Tree<HostedDrive> {
        &self.tree
    }
}

impl HostedArray {
    /// Binds a lane's part of an array. Returns also the warnings about its drives.
    pub(crate) fn bind(plan: &Plan<ReadyDrive>, ring: &Ring, lane: usize) -> (Self, Vec<String>) {
        Self::bind_as(plan, ring, lane, false)
    }

    /// Binds an array that is only to be read, and is bound again later or never.
    pub(crate) fn bind_to_read(plan: Plan<ReadyDrive>, ring: &Ring) -> Self {
        Self::bind_as(&plan.on_lanes(1), ring, 0, true).0
    }

    fn bind_as(plan: &Plan<ReadyDrive>, ring: &Ring, lane: usize, read_only: bool) -> (Self, Vec<String>) {
        let nudge = ring.nudge();
        plan.on_mail(lane, &move || nudge());
        let mut binder = OnRing { ring, read_only, told: Vec::new() };
        let tree = plan.bind(lane, unix_seconds_at_zero(monotonic_now()), &mut binder);
        let array = Self { tree, ring: ring.clone(), lane, reporter: None, look_at: 0, given: Vec::new() };
        (array, binder.told)
    }

    /// Starts the thread that each drive needs on this lane. Without it the first flush of a member would wait for a thread, and
    /// its failure would drop the member.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start_threads(&self) -> Result<(), HostError> {
        let refused = Cell::new(None);
        let _ = self.tree.find(|drive| match drive.watch.start_thread() {
            Ok(()) => false,
            Err(error) => {
                refused.set(Some((drive.info.path.clone(), error)));
                true
            }
        });
        match refused.take() {
            None => Ok(()),
            Some((path, error)) => Err(HostError::Refused(format!(
                "{}: cannot start a thread for its requests: {error}; {NO_THREAD}",
                path.display()
            ))),
        }
    }

    /// True if this is the coordinator's part, or the whole array.
    pub(crate) fn is_coordinator(&self) -> bool {
        self.lane == 0
    }

    /// True if any drive of the tree has checksums.
    pub(crate) fn has_checksums(&self) -> bool {
        self.tree.find(|drive| drive.checked.is_some()).is_some()
    }

    /// Its metadata; on the coordinator only.
    pub fn description(&self) -> Description {
        self.tree.recorder().description()
    }

    /// Sets where to send events of this array and its spans.
    pub(crate) fn report_to(&mut self, reporter: EventSender) {
        self.reporter = Some(reporter);
    }

    /// Sends the events of the whole tree.
    fn forward(&self, reporter: &EventSender) {
        for array in self.tree() {
            let say = |event: Event| {
                let said = said(array, &event);
                // Fails if there is no listener.
                let _ = reporter.notices.send(Notice { array: array.name().to_owned(), kind: NoticeKind::Engine(event), said });
            };
            for (index, drive) in array.members().iter().enumerate().filter_map(|(index, member)| Some((index, member.drive()?)))
            {
                for range in drive.checked.iter().flat_map(IntegrityDevice::take_findings) {
                    let (start_sector, sectors) = (MemberSector::new(range.start), range.end - range.start);
                    say(Event::WrongBytes { member: MemberId(index), start_sector, sectors });
                }
            }
            for event in array.take_events() {
                reporter.merger.merge(self.lane, array.uuid(), event).into_iter().for_each(say);
            }
        }
        self.forget_mixed_times(reporter);
    }

    /// Has drives forget their recent times once a sweep has ended: it asked members unevenly or queued far more than clients do,
    /// so that beside the others one would look slow.
    fn forget_mixed_times(&self, reporter: &EventSender) {
        for array in self.tree() {
            if reporter.merger.take_mixed(self.lane, array.uuid()) {
                array.members().iter().filter_map(Member::drive).for_each(|drive| drive.watch.forget_recent());
            }
        }
    }

    /// The same before a report: a lane that sleeps has not been told.
    pub(crate) fn settle_times(&self) {
        self.reporter.iter().for_each(|reporter| self.forget_mixed_times(reporter));
    }

    /// Reports drives of the whole tree that leave requests unanswered, and those that have answered after that.
    fn look_for_silence(&self, reporter: &EventSender, now: Nanos) {
        for array in self.tree() {
            let status = array.status();
            for (drive, member) in
                array.members().iter().zip(&status.members).filter_map(|(source, member)| Some((source.drive()?, member)))
            {
                let silent = drive.watch.oldest().map_or(0, |oldest| now.saturating_sub(oldest));
                // A failed drive is not waited for.
                if member.state == MemberState::Failed && silent > 0 {
                    continue;
                }
                let path = drive.path.display().to_string();
                let (kind, said) = match reporter.merger.waits(self.lane, &drive.path, silent, SILENT_AFTER) {
                    Hush::Nothing => continue,
                    Hush::Over => (NoticeKind::Answers, HostSentence::DriveAnswers { drive: path }),
                    Hush::Longer => {
                        let seconds = silent / 1_000_000_000;
                        (NoticeKind::Silent, HostSentence::DriveSilent { drive: path, seconds })
                    }
                };
                let _ = reporter.notices.send(Notice { array: array.name().to_owned(), kind, said });
            }
        }
        if reporter.merger.knows_silent() {
            let drives: BTreeSet<PathBuf> = self.drives().collect();
            reporter.merger.forget_but(self.lane, |drive| drives.contains(drive));
        }
    }

    /// Checks that the drives of the whole tree are still as large as when they were opened, and that their files still have a
    /// name.
    fn look_at_files(&self, reporter: &EventSender) {
        for array in self.tree() {
            let drives =
                array.members().iter().enumerate().filter_map(|(index, member)| Some((MemberId(index), member.drive()?)));
            for (member, lost) in drives.filter_map(|(member, drive)| Some((member, drive.watch.look_at_size()?))) {
                array.with_engine(|engine| engine.lose(member, lost));
            }
            for drive in array.members().iter().filter_map(Member::drive) {
                if drive.watch.drive().is_some_and(|drive| drive.take_deletion()) {
                    let said = HostSentence::FileDeleted { drive: drive.path.display().to_string() };
                    let _ = reporter.notices.send(Notice { array: array.name().to_owned(), kind: NoticeKind::Deleted, said });
                }
            }
        }
    }

    /// The ring that its drives share.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Tells the engines of the whole tree which arrays have members whose writes may find no space, now or after a trim.
    pub(crate) fn look_for_holes(&self) {
        for array in self.tree() {
            let drives = || array.members().iter().filter_map(|member| member.drive()?.watch.drive());
            if drives().any(|drive| drive.is_of_file()) {
                array.with_engine(Engine::expect_no_space_after_trims);
            }
            if drives().any(|drive| drive.has_holes()) {
                array.with_engine(Engine::expect_no_space);
            }
        }
    }

    /// The findings of a member's checksums; `None`: it has none.
    pub fn checksum_counts(&self, member: MemberId) -> Option<Counts> {
        self.members().get(member.0)?.drive()?.checked.as_ref().map(IntegrityDevice::counts)
    }

    /// The array in this tree that uses the drive at `path`, by index, and the drive's handle there: the newest, if it came back.
    ///
    /// # Errors
    /// No array of the tree uses it.
    pub(crate) fn place_of(&self, path: &Path) -> Result<(usize, MemberId), HostError> {
        // Makes no call to a file system: it might wait for a drive that hangs.
        let is_it = |known: &HostedDrive| known.path == path || known.real_path == path;
        self.find(is_it).ok_or_else(|| {
            let known: Vec<String> = self.drives().map(|path| path.display().to_string()).collect();
            HostError::Refused(does_not_use(self.name(), path, &known))
        })
    }

    /// True if a drive of this tree has this very path.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.place_of(path).is_ok()
    }

    /// Paths of all drives in this tree.
    pub fn drives(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.tree().into_iter().flat_map(|array| array.members().iter().filter_map(|member| Some(member.drive()?.path.clone())))
    }

    /// Gives a command to an array of this tree. On the coordinator; its polls send the answer.
    pub(crate) fn give(&mut self, index: usize, command: ArrayCommand) -> Receiver<Result<(), Refusal>> {
        let (answer, answered) = channel();
        let id = self.tree.begin(index, command);
        self.given.push(Given { array: index, id, answer });
        answered
    }

    /// Sends the answers of commands that have ended.
    fn answer(&mut self) {
        let tree = &self.tree;
        self.given.retain(|given| match tree.take_answer(given.array, given.id) {
            // A caller that is gone needs no answer.
            Some(answer) => {
                let _ = given.answer.send(answer);
                false
            }
            None => true,
        });
    }

    /// Drops a drive as if it had failed, and drives the array until that is done. For an array on one lane.
    ///
    /// # Errors
    /// Data would be lost.
    pub fn fail(&mut self, path: &Path) -> Result<(), HostError> {
        let (index, member) = self.place_of(path)?;
        let answer = self.give(index, Command::Fail(member));
        let mut result = None;
        self.sync_io(|io| io.run_until(|_, _| answer.try_recv().is_ok_and(|answer| result.replace(answer).is_none())));
        Ok(result.expect("it was answered")?)
    }

    /// The open drive at `path`. Its last owner may have to wait for the drive when it drops it. While this is held, that is no
    /// lane.
    pub(crate) fn opened(&self, path: &Path) -> Option<SyncDrive> {
        let (index, member) = self.place_of(path).ok()?;
        self.array(index).members()[member.0].drive().and_then(|drive| drive.watch.drive())
    }

    /// The way in which a drive joins, with handles instead of paths.
    fn join_request(&self, join: &JoinByPath) -> Result<stria_tree::JoinRequest, HostError> {
        let replaces = join.replaces.as_deref().map(|old| self.place_of(old)).transpose()?;
        Ok(stria_tree::JoinRequest { array: join.span.clone(), force: join.force, return_only: join.return_only, replaces })
    }

    /// Where a drive is to join, and what is written to it before it [does](HostedArray::offer_first); on the coordinator.
    ///
    /// # Errors
    /// The drive may not join.
    pub(crate) fn plan_for(&self, new: &FoundDrive, join: &JoinByPath) -> Result<Joining, HostError> {
        Ok(self.tree.plan_join(new, &self.join_request(join)?)?)
    }

    /// Offers a drive on the coordinator under a number. Returns the command by which it joins.
    ///
    /// # Errors
    /// The drive may not join, or not in the way for which it was prepared.
    pub(crate) fn offer_first(&mut self, prepared: PreparedDrive, join: &JoinByPath, number: u64) -> Result<Joined, HostError> {
        let PreparedDrive { new, ready, intended } = prepared;
        let (join, ring) = (self.join_request(join)?, self.ring.clone());
        let mut notes = Vec::new();
        let mut joined = self.tree.offer_first(&new, intended, &join, number, || {
            let (device, drive, told) = ready.bind(&ring, true, false);
            notes = told;
            (device, drive)
        })?;
        notes.iter().for_each(|note| joined.text.push_str(&format!("; {note}")));
        Ok(joined)
    }

    /// Offers a drive on another lane.
    pub(crate) fn offer(&mut self, index: usize, number: u64, drive: SyncDrive) {
        let device = FileDrive::new(drive, &self.ring);
        let hosted = HostedDrive::of(&device);
        self.tree.offer(index, number, Box::new(device), hosted);
    }

    /// The array and its spans, to be changed as on every other lane.
    pub(crate) fn tree_mut(&mut self) -> &mut Tree<HostedDrive> {
        &mut self.tree
    }

    /// True if the drive at `path` is a spare of this array or of a span.
    pub(crate) fn has_spare(&self, path: &Path) -> bool {
        self.state_of(path) == Some(MemberState::Spare)
    }

    /// True if the drive at `path` has failed.
    pub(crate) fn has_failed(&self, path: &Path) -> bool {
        self.state_of(path) == Some(MemberState::Failed)
    }

    fn state_of(&self, path: &Path) -> Option<MemberState> {
        let (index, member) = self.place_of(path).ok()?;
        Some(self.array(index).status().members[member.0].state)
    }

    /// The member that an existing spare replaces: the array's index in the tree, the handles of both, and a sentence that tells
    /// what is done.
    ///
    /// # Errors
    /// The drives belong to different spans.
    pub(crate) fn replace_by_spare(&self, old: &Path, spare: &Path) -> Result<(usize, MemberId, MemberId, String), HostError> {
        let ((index, member), (other, spare_member)) = (self.place_of(old)?, self.place_of(spare)?);
        let (old, spare) = (old.display(), spare.display());
        if index != other {
            let [span, other] = [index, other].map(|index| self.array(index).name().to_owned());
            return Err(Denial::SpareOfAnotherSpan { spare: spare.to_string(), other, old: old.to_string(), span }.into());
        }
        Ok((index, member, spare_member, format!("{spare} is being rebuilt to replace {old}")))
    }

    /// How the stop has ended. On the coordinator.
    ///
    /// # Errors
    /// What clients wrote may not be durable, or superblocks do not say "clean".
    pub(crate) fn has_stopped_cleanly(&self) -> Result<(), HostError> {
        match self.tree.stop_refusal() {
            None => Ok(()),
            Some((name, refusal)) => Err(not_clean(&name, &refusal.to_string())),
        }
    }

    /// Reads or writes by waiting. Meanwhile no other code may drive the array.
    pub fn sync_io<T>(&mut self, work: impl FnOnce(&mut SyncIo<'_, HostedArray>) -> T) -> T {
        let ring = self.ring.clone();
        work(&mut SyncIo::new(self, &ring))
    }

    /// The contents of the array: the superblock of an array. It belongs to the array above if this one is marked as its span;
    /// otherwise clients may have written it.
    pub(crate) fn candidate(&mut self, upper_uuid: Option<&[u8; 16]>) -> Candidate {
        let (name, limits) = (self.name().to_owned(), self.limits().clone());
        let (sectors, block) = (limits.size_sectors, limits.logical_block_bytes);
        self.sync_io(|io| {
            let mut read = |start: u64, sectors: u64| io.read(start, sectors);
            match upper_uuid {
                Some(upper_uuid) => Candidate::read_span(name, sectors, block, upper_uuid, &mut read),
                None => Candidate::read(name, sectors, block, &mut read),
            }
        })
    }
}

fn not_clean(name: &str, reason: &str) -> HostError {
    HostError::Refused(format!(
        "array \"{name}\" has stopped, but {reason}: its drives are as after a power cut, and the next start resyncs"
    ))
}

impl BlockDevice for HostedArray {
    fn limits(&self) -> &Limits {
        self.tree.limits()
    }

    fn submit(&mut self, request: Request) {
        self.tree.submit(request);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.tree.poll(now, completions);
        self.answer();
        let Some(reporter) = &self.reporter else { return };
        self.forward(reporter);
        if self.look_at <= now {
            self.look_for_silence(reporter, now);
            if self.is_coordinator() {
                self.look_at_files(reporter);
            }
            self.look_at = now + LOOK_EVERY;
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        let reporter = self.reporter.as_ref();
        let looks =
            reporter.is_some_and(|reporter| self.is_coordinator() || self.ring.is_busy() || reporter.merger.knows_silent());
        self.tree.next_wake().into_iter().chain(looks.then_some(self.look_at)).min()
    }
}

impl SyncIo<'_, HostedArray> {
    /// Stops the array cleanly.
    ///
    /// # Errors
    /// The superblocks of an array of the tree could not be marked clean.
    pub fn stop(&mut self) -> Result<(), HostError> {
        self.device.begin_stop();
        self.run_until(|array, _| array.is_stopped());
        self.device.has_stopped_cleanly()?;
        let is_left = |array: &&&Tree<HostedDrive>| {
            let status = array.status();
            status.health == Health::Failed || !status.clean && !status.read_only
        };
        match self.device.tree().iter().find(is_left) {
            None => Ok(()),
            Some(array) => Err(not_clean(array.name(), "its superblocks do not say \"clean\"")),
        }
    }
}

/// The refusal of a drive that is no member of this array, with the names of those that are.
pub fn does_not_use(array: &str, drive: &Path, members: &[impl AsRef<str>]) -> String {
    let members: Vec<&str> = members.iter().map(AsRef::as_ref).collect();
    let uses = if members.is_empty() { "no drive".to_owned() } else { members.join(", ") };
    format!("array \"{array}\" does not use {}; it uses {uses}", drive.display())
}
