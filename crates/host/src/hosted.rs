//! A running array, with the drives below it and the commands for it: all of it, or one lane's part, which
//! [`ArrayLanes`](crate::ArrayLanes) commands.

use crate::checked::{ADVICE, Checked};
use crate::examine::refuse_contents;
use crate::merger::{EventMerger, Hush};
use crate::newcomer::{Aim, Joining, NewDriveFound, NewMetadata, ReadyDrive};
use crate::{HostError, SyncIo};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use stria_array::{ArrayDevice, ArrayStatus, Command, CommandId, Engine, Event, Geometry, MemberId, MemberState, Refusal};
use stria_block::{BlockDevice, Completion, Limits, Nanos, Request};
use stria_drive::{DriveInfo, DriveWatch, FileDrive, Identity, Ring, SyncDrive};
use stria_format::md::recorder::{Description, Newcomer};
use stria_format::md::{Candidate, MdMetadata, Superblock};
use stria_integrity::{Counts, IntegrityDevice};

/// What a member is made of.
#[derive(Clone)]
pub enum MemberSource {
    /// A drive.
    Drive(Box<HostedDrive>),
    /// An array of its own: a span.
    Array(Box<HostedArray>),
    /// A drive that was removed; its handle is never used again.
    Removed,
}

impl MemberSource {
    /// The drive, if it is one.
    pub fn drive(&self) -> Option<&HostedDrive> {
        match self {
            MemberSource::Drive(drive) => Some(drive),
            MemberSource::Array(_) | MemberSource::Removed => None,
        }
    }
}

/// A drive that is a member, and how it answers.
#[derive(Clone)]
pub struct HostedDrive {
    /// What kind of drive it is.
    pub info: DriveInfo,
    /// How it answers.
    pub watch: DriveWatch,
    /// The device that verifies its data, if it has checksums.
    pub(crate) checked: Option<Checked>,
}

impl HostedDrive {
    /// A drive on a ring, without checksums.
    pub(crate) fn of(device: &FileDrive) -> Self {
        Self { info: device.info().clone(), watch: device.watch(), checked: None }
    }
}

impl Deref for HostedDrive {
    type Target = DriveInfo;
    fn deref(&self) -> &DriveInfo {
        &self.info
    }
}

/// Something that happened to an array or one of its spans.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The array's name.
    pub array: String,
    /// What kind of event.
    pub kind: NoticeKind,
    /// The event in words, with names instead of handles.
    pub text: String,
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
}

/// Five seconds: a drive that leaves a request unanswered for so long is reported. SSDs take milliseconds, and a hard disk that
/// spins up is worth a line.
const SILENT_AFTER: Nanos = 5_000_000_000;
/// How often drives are checked: for their size, and for unanswered requests.
const LOOK_EVERY: Nanos = 1_000_000_000;

/// Where to send events.
#[derive(Clone)]
pub(crate) struct EventSender {
    pub notices: Sender<Notice>,
    /// Shared by the lanes.
    pub merger: Arc<EventMerger>,
}

/// An array as a block device with its spans and drives. Clones are the same array.
#[derive(Clone)]
pub struct HostedArray {
    name: String,
    uuid: [u8; 16],
    geometry: Geometry,
    device: ArrayDevice<MdMetadata>,
    members: Vec<MemberSource>,
    ring: Ring,
    /// Which of the array's lanes this is. 0: its home lane, which makes the metadata updates.
    lane: usize,
    teller: Option<EventSender>,
    /// When to check drives next.
    look_at: Nanos,
    /// Drives that were removed after they had become smaller: the bitmap does not say what they lack.
    cut_short: Vec<Identity>,
    /// Commands for arrays of this tree.
    given: Vec<Given>,
    /// A drive that joins an array of this tree: which one, and the member to be.
    joining: Option<(usize, MemberSource)>,
}

/// A drive that the home lane is ready to let in.
pub(crate) struct Joined {
    /// The index of the array in the tree.
    pub array: usize,
    pub drive: SyncDrive,
    /// The number under which every lane offers its device.
    pub offer: u64,
    pub command: ArrayCommand,
    /// What is done, in words.
    pub text: String,
}

/// A command for an array.
pub(crate) type ArrayCommand = Command<Newcomer>;

/// A command that was given, and where its answer is awaited.
#[derive(Clone)]
struct Given {
    device: ArrayDevice<MdMetadata>,
    id: CommandId,
    answer: Sender<Result<(), Refusal>>,
}

impl HostedArray {
    pub(crate) fn new(
        name: String,
        uuid: [u8; 16],
        geometry: Geometry,
        device: ArrayDevice<MdMetadata>,
        members: Vec<MemberSource>,
        ring: Ring,
        lane: usize,
    ) -> Self {
        let (cut_short, given) = (Vec::new(), Vec::new());
        Self { name, uuid, geometry, device, members, ring, lane, teller: None, look_at: 0, cut_short, given, joining: None }
    }

    /// True if this is the home lane's part, or the whole array.
    pub(crate) fn is_home(&self) -> bool {
        self.lane == 0
    }

    /// How many consecutive sectors one lane owns, see [`ArrayDevice::group_sectors`].
    pub(crate) fn group_sectors(&self) -> Option<u64> {
        self.device.group_sectors()
    }

    /// `name` or `host:name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The array's identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Level, layout, sizes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Members by handle.
    pub fn members(&self) -> &[MemberSource] {
        &self.members
    }

    /// The arrays among the members, by handle.
    pub fn spans(&self) -> impl Iterator<Item = &HostedArray> {
        self.members.iter().filter_map(|member| match member {
            MemberSource::Array(span) => Some(&**span),
            MemberSource::Drive(_) | MemberSource::Removed => None,
        })
    }

    /// The present state of the array.
    pub fn status(&self) -> ArrayStatus {
        self.device.status()
    }

    /// What the checksums of a member have found; `None`: it has none.
    pub fn checksum_counts(&self, member: MemberId) -> Option<Counts> {
        self.members.get(member.0)?.drive()?.checked.as_ref().map(IntegrityDevice::counts)
    }

    /// What its metadata says; on the home lane only.
    pub fn description(&self) -> Description {
        self.device.recorder().description()
    }

    /// Sets where to send events of this array and its spans.
    pub(crate) fn tell(&mut self, teller: EventSender) {
        self.teller = Some(teller);
    }

    fn say(&self, teller: &EventSender, event: Event) {
        let text = self.words(&event);
        // Fails if there is no listener.
        let _ = teller.notices.send(Notice { array: self.name.clone(), kind: NoticeKind::Engine(event), text });
    }

    /// Sends the events of the whole tree. The array above polls its spans through clones that have no `teller`, so the top
    /// array reports for them.
    fn forward(&self, teller: &EventSender) {
        for (index, drive) in self.members.iter().enumerate().filter_map(|(index, member)| Some((index, member.drive()?))) {
            for range in drive.checked.iter().flat_map(IntegrityDevice::take_findings) {
                let (start_sector, sectors) = (range.start, range.end - range.start);
                self.say(teller, Event::WrongBytes { member: MemberId(index), start_sector, sectors });
            }
        }
        for event in self.device.take_events() {
            teller.merger.hear(self.lane, self.uuid, event).into_iter().for_each(|event| self.say(teller, event));
        }
        self.spans().for_each(|span| span.forward(teller));
    }

    /// Reports drives of the whole tree that leave requests unanswered, and those that have answered after that.
    fn look_for_silence(&self, teller: &EventSender, now: Nanos) {
        for array in self.tree() {
            let status = array.status();
            for (drive, member) in
                array.members.iter().zip(&status.members).filter_map(|(source, member)| Some((source.drive()?, member)))
            {
                let silent = drive.watch.oldest().map_or(0, |oldest| now.saturating_sub(oldest));
                // A failed drive's answers are not waited for.
                if member.role == MemberState::Failed && silent > 0 {
                    continue;
                }
                let path = drive.path.display();
                let (kind, text) = match teller.merger.waits(self.lane, &drive.path, silent, SILENT_AFTER) {
                    Hush::Nothing => continue,
                    Hush::Over => (NoticeKind::Answers, format!("{path} answers again")),
                    Hush::Longer => {
                        let seconds = silent / 1_000_000_000;
                        let remedy =
                            "what needs it waits; look at the drive and its cable, or `fail` it, and the others answer for it";
                        (NoticeKind::Silent, format!("{path} has had a request outstanding for {seconds} s: {remedy}"))
                    }
                };
                let _ = teller.notices.send(Notice { array: array.name.clone(), kind, text });
            }
        }
    }

    /// Checks that the drives of the whole tree are still as large as when they were opened.
    fn look_at_sizes(&self) {
        for array in self.tree() {
            let drives = array.members.iter().enumerate().filter_map(|(index, member)| Some((MemberId(index), member.drive()?)));
            for (member, lost) in drives.filter_map(|(member, drive)| Some((member, drive.watch.look_at_size()?))) {
                array.device.command(|engine| engine.lose(member, &lost.context));
            }
        }
    }

    /// The ring that its drives share.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Allows writes and sweeps, here and in the spans.
    pub fn activate(&self) {
        self.spans().for_each(HostedArray::activate);
        self.device.command(|engine| engine.set_read_only(false));
    }

    /// Tells the engines of the whole tree which arrays have members whose writes may find no room.
    pub(crate) fn look_for_holes(&self) {
        let has_holes =
            |member: &MemberSource| member.drive().and_then(|drive| drive.watch.drive()).is_some_and(|drive| drive.has_holes());
        for array in self.tree().into_iter().filter(|array| array.members.iter().any(has_holes)) {
            array.device.command(Engine::expect_no_space);
        }
    }

    /// Begins to stop: the array first, its spans when it is done.
    pub fn begin_stop(&self) {
        self.device.stop();
    }

    /// True if the stop is complete: of this array on every lane, then of its spans, which it may have written to until then.
    pub fn is_stopped(&self) -> bool {
        if !self.device.has_stopped() {
            return false;
        }
        self.spans().for_each(HostedArray::begin_stop);
        self.close_checksums() && self.spans().all(HostedArray::is_stopped)
    }

    /// Writes all checksums back. True once that is done. Those that cannot be written become unknown at the next start.
    fn close_checksums(&self) -> bool {
        let status = self.status();
        let in_use = self.members.iter().zip(&status.members).filter(|(_, member)| member.role != MemberState::Failed);
        let checked: Vec<&Checked> = in_use.filter_map(|(source, _)| source.drive()?.checked.as_ref()).collect();
        checked.iter().for_each(|checked| checked.close());
        checked.iter().all(|checked| checked.closed().is_some())
    }

    /// This array and its spans, depth first.
    pub fn tree(&self) -> Vec<&HostedArray> {
        let mut found = vec![self];
        found.extend(self.spans().flat_map(HostedArray::tree));
        found
    }

    /// The array in this tree that uses the drive at `path`, and the drive's handle there: the newest, if it came back.
    ///
    /// # Errors
    /// When no array of the tree uses it.
    fn holder(&self, path: &Path) -> Result<(&HostedArray, MemberId), HostError> {
        // Asks no file system: it may wait for a drive that hangs.
        let is_it = |known: &DriveInfo| known.path == path || known.real_path == path;
        for array in self.tree() {
            for (index, member) in array.members.iter().enumerate().rev() {
                if let MemberSource::Drive(info) = member
                    && is_it(&info.info)
                {
                    return Ok((array, MemberId(index)));
                }
            }
        }
        let known: Vec<String> = self.drives().map(|path| path.display().to_string()).collect();
        Err(HostError::Refused(format!("array \"{}\" does not use {}; it uses {}", self.name, path.display(), known.join(", "))))
    }

    /// True if a drive of this tree has this very path.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        self.holder(path).is_ok()
    }

    /// Paths of all drives in this tree.
    pub fn drives(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.tree().into_iter().flat_map(|array| {
            array.members.iter().filter_map(|member| match member {
                MemberSource::Drive(info) => Some(info.path.clone()),
                MemberSource::Array(_) | MemberSource::Removed => None,
            })
        })
    }

    /// Sets something on this lane's engine of the array, or asks it.
    pub fn command<T>(&self, command: impl FnOnce(&mut Engine) -> T) -> T {
        self.device.command(command)
    }

    /// As [`HostedArray::holder`]; the array by its index in the tree.
    pub(crate) fn place_of(&self, path: &Path) -> Result<(usize, MemberId), HostError> {
        let (array, member) = self.holder(path)?;
        Ok((self.index_of(array.uuid), member))
    }

    /// The arrays of this tree that have redundancy, by index.
    pub(crate) fn redundant(&self) -> Vec<usize> {
        let tree = self.tree();
        (0..tree.len()).filter(|&index| tree[index].geometry.level().is_redundant()).collect()
    }

    /// Gives a command to an array of this tree. On the home lane; its polls send the answer.
    pub(crate) fn begin(&mut self, index: usize, command: ArrayCommand) -> Receiver<Result<(), Refusal>> {
        let (answer, answered) = channel();
        let device = self.tree()[index].device.clone();
        let id = device.begin(command);
        self.given.push(Given { device, id, answer });
        answered
    }

    /// Sends the answers of commands that have ended.
    fn answer(&mut self) {
        self.given.retain(|given| match given.device.take_answer(given.id) {
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
    /// When data would be lost.
    pub fn fail(&mut self, path: &Path) -> Result<(), HostError> {
        let (index, member) = self.place_of(path)?;
        let answer = self.begin(index, Command::Fail(member));
        let mut result = None;
        self.sync_io(|io| io.run_until(|_, _| answer.try_recv().is_ok_and(|answer| result.replace(answer).is_none())));
        Ok(result.expect("it was answered")?)
    }

    /// The drive at `path`, as long as this is held: whoever drops it last may have to wait for the drive.
    pub(crate) fn opened(&self, path: &Path) -> Option<SyncDrive> {
        let (holder, member) = self.holder(path).ok()?;
        holder.members[member.0].drive().and_then(|drive| drive.watch.drive())
    }

    /// A member was taken out of an array of this tree.
    pub(crate) fn forget(&mut self, index: usize, member: MemberId) {
        let holder = self.nth(&mut { index }).expect("lanes have the same tree");
        let source = std::mem::replace(&mut holder.members[member.0], MemberSource::Removed);
        if let Some(drive) = source.drive().filter(|drive| drive.watch.look_at_size().is_some()) {
            holder.cut_short.push(drive.identity);
        }
    }

    /// Which array of this tree lacks a member most: the one with an empty role, else the one named, else this one.
    fn needy(&self, span: Option<&str>) -> Result<usize, HostError> {
        let lacks = |array: &HostedArray| array.status().slots.iter().any(Option::is_none);
        let names: Vec<String> = self.tree().iter().map(|array| array.name.clone()).collect();
        let index = match span {
            Some(span) => names.iter().position(|name| name == span),
            None => {
                let tree = self.tree();
                let redundant = |array: &&HostedArray| array.geometry.level().is_redundant();
                let empty = tree.iter().position(|array| redundant(array) && lacks(array));
                empty.or_else(|| tree.iter().position(redundant))
            }
        };
        index.ok_or_else(|| {
            HostError::Refused(match span {
                Some(span) => format!("there is no array or span \"{span}\"; there are {}", names.join(", ")),
                None => format!("RAID level {} has no use for another drive", self.geometry.level()),
            })
        })
    }

    fn nth(&mut self, index: &mut usize) -> Option<&mut HostedArray> {
        if *index == 0 {
            return Some(self);
        }
        *index -= 1;
        self.members.iter_mut().find_map(|member| match member {
            MemberSource::Array(span) => span.nth(index),
            MemberSource::Drive(_) | MemberSource::Removed => None,
        })
    }

    /// What a drive is to become here; nothing is changed. The home lane says so before anything is written to the drive, and again
    /// when it joins, since the array may have changed meanwhile.
    ///
    /// # Errors
    /// When the drive carries something and that was not insisted on, or does not suit.
    fn place_for(&self, new: &NewDriveFound, aim: &Aim) -> Result<Joining, HostError> {
        self.command(|engine| engine.may_change())?;
        let path = new.path.display();
        let Aim { span, force, replaces } = aim;
        if let Some(old) = replaces {
            refuse_contents(&new.candidate, *force)?;
            let (holder, member) = self.holder(old)?;
            if holder.status().members[member.0].role != MemberState::InSync {
                let name = holder.name_of(member);
                return Err(refused(format!(
                    "{name} cannot be replaced: it is not an in-sync member; `add` a drive, and the role is rebuilt on it"
                )));
            }
            let text = format!("{path} is being filled to replace {}", old.display());
            return self.as_spare(self.index_of(holder.uuid), new, Some(member), text);
        }
        // Whoever was here before goes back where it was.
        let tree = self.tree();
        let home = |superblock: &Superblock| tree.iter().position(|array| array.uuid == superblock.header.set_uuid);
        if let Ok(member) = &new.candidate.found
            && let Some(home) = home(&member.superblock)
        {
            let array = tree[home];
            let returnable = array.device.recorder().returnable(&member.superblock);
            let cut_short = array.cut_short.contains(&new.identity);
            if let Ok(slot) = returnable
                && array.status().slots[slot].is_none()
                && !cut_short
            {
                let text = format!("{path} is back in slot {slot} of \"{}\"; what it missed is copied by the bitmap", array.name);
                return Ok(Joining { array: home, writes: None, replaces: None, text });
            }
            let why = match returnable {
                _ if cut_short => "it was cut short while in use, so nothing that it holds counts".into(),
                Ok(_) => "its slot has a member".into(),
                Err(error) => error.to_string(),
            };
            return self.as_spare(home, new, None, format!("{path} joined \"{}\" as a new spare ({why})", array.name));
        }
        refuse_contents(&new.candidate, *force)?;
        let index = self.needy(span.as_deref())?;
        self.as_spare(index, new, None, format!("{path} joined \"{}\" as a spare", tree[index].name))
    }

    /// A drive is to get fresh metadata, and to wait for a role in an array of this tree.
    fn as_spare(
        &self,
        index: usize,
        new: &NewDriveFound,
        replaces: Option<MemberId>,
        text: String,
    ) -> Result<Joining, HostError> {
        let array = self.tree()[index];
        let (theirs, ours) = (new.adopt.logical_block_bytes, array.device.limits().logical_block_bytes);
        if theirs > ours {
            return Err(refused(format!(
                "{} has blocks of {theirs} bytes, and \"{}\" serves blocks of {ours}: use a drive with blocks as small",
                new.path.display(),
                array.name
            )));
        }
        let id = array.device.command(|engine| engine.next_member());
        let mut recorder = array.device.recorder().clone();
        let (_, writes) = recorder.adopt(id, &new.adopt).map_err(refused)?;
        let writes = Some(NewMetadata { writes, places: recorder.metadata_places(id) });
        Ok(Joining { array: index, writes, replaces, text })
    }

    /// What is to be written to a drive before it [joins](HostedArray::let_in); on the home lane.
    ///
    /// # Errors
    /// When it may not join.
    pub(crate) fn metadata_for(&self, new: &NewDriveFound, aim: &Aim) -> Result<Option<NewMetadata>, HostError> {
        Ok(self.place_for(new, aim)?.writes)
    }

    /// Offers a drive on the home lane, and says by which command it joins: a member that was away comes back by the write-intent
    /// bitmap, any other becomes a spare. Its new metadata, if it was to have some, are durable. Waits for no drive.
    ///
    /// # Errors
    /// When it may not join, or not as it was prepared to.
    pub(crate) fn offer_first(&mut self, ready: ReadyDrive, aim: &Aim, offer: u64) -> Result<Joined, HostError> {
        let ReadyDrive { new, unbound, is_new } = ready;
        let Joining { array, writes, replaces, text } = self.place_for(&new, aim)?;
        if writes.is_some() != is_new {
            return Err(refused(format!(
                "{} did not join, as the array has changed meanwhile: add it again",
                new.path.display()
            )));
        }
        let newcomer = match is_new {
            true => Newcomer::Spare(new.adopt.clone()),
            false => Newcomer::Former(Box::new(new.candidate.clone())),
        };
        let opened = unbound.drive.clone();
        let (device, drive, notes) = unbound.bind(&self.ring, true);
        self.offer_device(array, offer, device, drive);
        let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
        let command = Command::Add { newcomer, offer, replaces };
        Ok(Joined { array, drive: opened, offer, command, text: text + &notes })
    }

    /// Offers a drive on another lane.
    pub(crate) fn offer(&mut self, index: usize, offer: u64, drive: SyncDrive) {
        let device = FileDrive::new(drive, &self.ring);
        let hosted = HostedDrive::of(&device);
        self.offer_device(index, offer, Box::new(device), hosted);
    }

    fn offer_device(&mut self, index: usize, offer: u64, device: Box<dyn BlockDevice>, drive: HostedDrive) {
        self.tree()[index].device.offer(offer, device);
        self.joining = Some((index, MemberSource::Drive(Box::new(drive))));
    }

    /// A drive that was offered did not join.
    pub(crate) fn withdraw(&mut self, index: usize, offer: u64) {
        self.joining = None;
        drop(self.tree()[index].device.withdraw(offer));
    }

    /// Counts in a drive that has joined.
    fn welcome(&mut self) {
        let Some((index, source)) = self.joining.take() else { return };
        let array = self.nth(&mut { index }).expect("lanes have the same tree");
        match array.device.member_count() > array.members.len() {
            true => array.members.push(source),
            false => self.joining = Some((index, source)),
        }
    }

    fn index_of(&self, uuid: [u8; 16]) -> usize {
        self.tree().iter().position(|array| array.uuid == uuid).expect("it was found there")
    }

    /// Whether the drive at `path` waits here, or in a span, for a role.
    pub(crate) fn has_spare(&self, path: &Path) -> bool {
        self.holder(path).is_ok_and(|(array, member)| array.status().members[member.0].role == MemberState::Spare)
    }

    /// The command by which a spare that is there already replaces a member, the array's index in the tree, and what it does in
    /// words.
    ///
    /// # Errors
    /// When they belong to different spans.
    pub(crate) fn replace_by_spare(&self, old: &Path, spare: &Path) -> Result<(usize, ArrayCommand, String), HostError> {
        let ((holder, member), (other, spare_member)) = (self.holder(old)?, self.holder(spare)?);
        if holder.uuid != other.uuid {
            return Err(refused(format!(
                "{} is a spare of \"{}\", and {} a member of \"{}\": replace it by another drive",
                spare.display(),
                other.name,
                old.display(),
                holder.name
            )));
        }
        let command = Command::Replace { member, spare: spare_member };
        Ok((self.index_of(holder.uuid), command, format!("{} is being filled to replace {}", spare.display(), old.display())))
    }

    /// Reads or writes by waiting. Meanwhile no other code may drive the array.
    pub fn sync_io<T>(&mut self, work: impl FnOnce(&mut SyncIo<'_, HostedArray>) -> T) -> T {
        let ring = self.ring.clone();
        work(&mut SyncIo::new(self, &ring))
    }

    /// What lies on the array: the superblock of the array above, of which this one is marked as a span, or of any array. Clients
    /// may have written it.
    pub(crate) fn candidate(&mut self, upper_uuid: Option<&[u8; 16]>) -> Candidate {
        let (name, limits) = (self.name.clone(), self.device.limits().clone());
        let (sectors, block) = (limits.size_sectors, limits.logical_block_bytes);
        self.sync_io(|io| {
            let mut read = |start: u64, sectors: u64| io.read(start, sectors);
            match upper_uuid {
                Some(upper_uuid) => Candidate::read_span(name, sectors, block, upper_uuid, &mut read),
                None => Candidate::read(name, sectors, block, &mut read),
            }
        })
    }

    pub(crate) fn name_of(&self, member: MemberId) -> String {
        match self.members.get(member.0) {
            Some(MemberSource::Drive(info)) => info.path.display().to_string(),
            Some(MemberSource::Array(span)) => format!("array \"{}\"", span.name),
            Some(MemberSource::Removed) | None => format!("member {}", member.0),
        }
    }

    fn words(&self, event: &Event) -> String {
        let name = |member: &MemberId| self.name_of(*member);
        let sweep = |kind: &stria_array::SweepKind| match kind {
            stria_array::SweepKind::Resync => "resync",
            stria_array::SweepKind::Rebuild => "rebuild",
            stria_array::SweepKind::Scrub { repair: false } => "scrub",
            stria_array::SweepKind::Scrub { repair: true } => "scrub with repair",
        };
        match event {
            Event::MemberFailed { member, slot, reason } => {
                let place = slot.map_or("a spare".into(), |slot| format!("slot {slot}"));
                format!("{} ({place}) was dropped: {reason}", name(member))
            }
            Event::MemberGone { member, slot, reason } => {
                let place = slot.map_or("a spare".into(), |slot| format!("slot {slot}"));
                let remedy = "stop the array, bring the drive back as it was, and serve again";
                format!(
                    "{} ({place}) is gone, and no redundancy replaces it: what needs it fails ({reason}); {remedy}",
                    name(member)
                )
            }
            Event::NoSpace { member, reason } => format!(
                "{} has no room left: clients' writes fail with \"no space\" until there is some on its file system or pool ({reason}); make room, \
                 or `fail` it if the others have room",
                name(member)
            ),
            Event::SpareTaken { member, slot } => format!("spare {} takes slot {slot}", name(member)),
            Event::MemberInSync { member, slot } => format!("{} is in sync in slot {slot}", name(member)),
            Event::ReadCorrected { member, start_sector, sectors } => {
                format!("{}: {sectors} unreadable sectors at {start_sector} were reconstructed and rewritten", name(member))
            }
            Event::WrongBytes { member, start_sector, sectors } => {
                let advice = if self.geometry.level().is_redundant() { "" } else { ADVICE };
                let what = "hold other bytes than were written there, by their checksums";
                format!("{}: {sectors} sectors at {start_sector} {what}{advice}", name(member))
            }
            Event::BadBlocks { member, start_sector, sectors } => format!(
                "{}: {sectors} sectors at {start_sector} hold nothing that can be trusted, as what would tell it is lost; they read as errors until they are written",
                name(member)
            ),
            Event::Unreadable { sync_sector, sectors } => {
                format!(
                    "{sectors} sectors near {sync_sector} can be read from no member; clients get errors there until they write them"
                )
            }
            Event::SweepStarted(kind) => format!("{} started", sweep(kind)),
            Event::SweepFinished { kind, mismatch_sectors, wrong, duration } => {
                let ms = duration / 1_000_000;
                let wrong: String =
                    wrong.iter().map(|(member, sectors)| format!("; {sectors} wrong on {}", name(member))).collect();
                format!("{} finished in {ms} ms, {mismatch_sectors} sectors disagreed{wrong}", sweep(kind))
            }
            Event::SweepStopped { kind, reason } => format!("{} stopped: {reason}", sweep(kind)),
            Event::Mismatch { sync_sector, sectors, culprit, repaired } => {
                let outcome = match (culprit, repaired) {
                    (Some((member, slot)), false) => format!("{} (slot {slot}) is wrong", name(member)),
                    (Some((member, slot)), true) => {
                        format!("{} (slot {slot}) was wrong and was rewritten from the others", name(member))
                    }
                    (None, false) => "no member can be told to be the wrong one".into(),
                    (None, true) => match self.geometry.level().parity_count() {
                        0 => "no copy can be told to be the wrong one, and all were made like the first".into(),
                        _ => "no member can be told to be the wrong one, and parity was made to follow the data".into(),
                    },
                };
                format!("redundancy disagrees in {sectors} sectors near {sync_sector}: {outcome}")
            }
        }
    }
}

fn refused(error: impl std::fmt::Display) -> HostError {
    HostError::Refused(error.to_string())
}

impl BlockDevice for HostedArray {
    fn limits(&self) -> &Limits {
        self.device.limits()
    }

    fn submit(&mut self, request: Request) {
        self.device.submit(request);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.device.poll(now, completions);
        self.welcome();
        self.answer();
        let Some(teller) = &self.teller else { return };
        self.forward(teller);
        if self.look_at <= now {
            self.look_for_silence(teller, now);
            if self.is_home() {
                self.look_at_sizes();
            }
            self.look_at = now + LOOK_EVERY;
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        let teller = self.teller.as_ref();
        let looks = teller.is_some_and(|teller| self.is_home() || self.ring.is_busy() || teller.merger.knows_silent());
        self.device.next_wake().into_iter().chain(looks.then_some(self.look_at)).min()
    }
}
