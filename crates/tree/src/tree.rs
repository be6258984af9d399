//! An array on one lane, with its spans and the drives below them.

use crate::ArrayCommand;
use std::cell::RefMut;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stria_array::{ArrayDevice, ArrayStatus, CommandId, Engine, Event, Geometry, MemberId, MemberState, Refusal};
use stria_block::{BlockDevice, Completion, Limits, Nanos, Request};
use stria_format::md::MdRecorder;

/// A member's drive, as a tree must know it.
pub trait MemberDrive: Clone {
    /// Stays the same when the drive leaves and comes back.
    type Identity: Clone + PartialEq;

    /// The drive's identity.
    fn identity(&self) -> Self::Identity;

    /// The drive's name, for people.
    fn name(&self) -> String;

    /// True if the drive has become smaller since it was opened: the write-intent bitmap does not say what it lacks.
    fn is_cut_short(&self) -> bool;

    /// True from the moment on in which that is noticed, for any thread.
    fn cut_short(&self) -> Arc<AtomicBool>;

    /// Begins to write back what is kept of the drive elsewhere (its checksums), if that was not done before. True once it is
    /// done.
    fn close(&self) -> bool;
}

/// What a member consists of.
#[derive(Clone)]
pub enum Member<D: MemberDrive> {
    /// A drive.
    Drive(D),
    /// An array of its own: a span.
    Array(Box<Tree<D>>),
    /// A drive that was removed; its handle is never used again.
    Removed,
}

impl<D: MemberDrive> Member<D> {
    /// The drive, if it is one.
    pub fn drive(&self) -> Option<&D> {
        match self {
            Member::Drive(drive) => Some(drive),
            Member::Array(_) | Member::Removed => None,
        }
    }

    /// The span, if it is one.
    pub fn span(&self) -> Option<&Tree<D>> {
        match self {
            Member::Array(span) => Some(span),
            Member::Drive(_) | Member::Removed => None,
        }
    }
}

/// One lane's part of an array with its spans and drives. Arrays of the tree have indices: depth first, the top array is 0. They
/// are the same on every lane. Clones are the same array.
///
/// Methods that prepare a change of members run on the coordinator, lane 0.
#[derive(Clone)]
pub struct Tree<D: MemberDrive> {
    name: String,
    uuid: [u8; 16],
    geometry: Geometry,
    device: ArrayDevice<MdRecorder>,
    is_coordinator: bool,
    members: Vec<Member<D>>,
    /// Drives that were removed after they had become smaller.
    cut_short: Vec<D::Identity>,
    /// A drive that joins an array of this tree: which one, and the member to be.
    joining: Option<(usize, D)>,
}

impl<D: MemberDrive> Tree<D> {
    pub(crate) fn new(
        name: String,
        uuid: [u8; 16],
        geometry: Geometry,
        device: ArrayDevice<MdRecorder>,
        is_coordinator: bool,
        members: Vec<Member<D>>,
    ) -> Self {
        let tree = Self { name, uuid, geometry, device, is_coordinator, members, cut_short: Vec::new(), joining: None };
        (0..tree.members.len()).for_each(|index| tree.watch(MemberId(index)));
        tree
    }

    /// The superblock update that drops a member must know whether its drive was cut short (R76).
    fn watch(&self, member: MemberId) {
        if let Some(drive) = self.members[member.0].drive().filter(|_| self.is_coordinator) {
            self.recorder().watch(member, drive.cut_short());
        }
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
    pub fn members(&self) -> &[Member<D>] {
        &self.members
    }

    /// The arrays among the members, by handle.
    pub fn spans(&self) -> impl Iterator<Item = &Self> {
        self.members.iter().filter_map(Member::span)
    }

    /// This array and its spans, by index.
    pub fn tree(&self) -> Vec<&Self> {
        let mut found = vec![self];
        found.extend(self.spans().flat_map(Self::tree));
        found
    }

    /// The array of an index.
    ///
    /// # Panics
    /// Without one.
    pub fn array(&self, index: usize) -> &Self {
        self.nth(&mut { index }).expect("lanes have the same tree")
    }

    fn nth(&self, index: &mut usize) -> Option<&Self> {
        if *index == 0 {
            return Some(self);
        }
        *index -= 1;
        self.spans().find_map(|span| span.nth(index))
    }

    pub(crate) fn array_mut(&mut self, index: usize) -> &mut Self {
        self.nth_mut(&mut { index }).expect("lanes have the same tree")
    }

    fn nth_mut(&mut self, index: &mut usize) -> Option<&mut Self> {
        if *index == 0 {
            return Some(self);
        }
        *index -= 1;
        self.members.iter_mut().find_map(|member| match member {
            Member::Array(span) => span.nth_mut(index),
            Member::Drive(_) | Member::Removed => None,
        })
    }

    /// The index of the array with this identity, if the tree has one.
    pub fn index_of(&self, uuid: [u8; 16]) -> Option<usize> {
        self.tree().iter().position(|array| array.uuid == uuid)
    }

    /// The arrays that have redundancy, by index.
    pub fn redundant(&self) -> Vec<usize> {
        let tree = self.tree();
        (0..tree.len()).filter(|&index| tree[index].geometry.level().is_redundant()).collect()
    }

    /// The array that uses a drive, by index, and the drive's handle there: the newest, if it came back.
    pub fn find(&self, is_it: impl Fn(&D) -> bool) -> Option<(usize, MemberId)> {
        self.tree().iter().enumerate().find_map(|(index, array)| Some((index, array.handle_of(&is_it)?)))
    }

    /// The newest handle of a drive in this array.
    pub fn handle_of(&self, is_it: impl Fn(&D) -> bool) -> Option<MemberId> {
        self.members.iter().rposition(|member| member.drive().is_some_and(&is_it)).map(MemberId)
    }

    /// A member, in words.
    pub fn name_of(&self, member: MemberId) -> String {
        match self.members.get(member.0) {
            Some(Member::Drive(drive)) => drive.name(),
            Some(Member::Array(span)) => format!("array \"{}\"", span.name),
            Some(Member::Removed) | None => format!("member {}", member.0),
        }
    }

    // This array alone, on this lane.

    pub(crate) fn device(&self) -> &ArrayDevice<MdRecorder> {
        &self.device
    }

    /// The present state of the array.
    pub fn status(&self) -> ArrayStatus {
        self.device.status()
    }

    /// The events since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        self.device.take_events()
    }

    /// The number of consecutive sectors that one lane owns, see [`ArrayDevice::group_sectors`].
    pub fn group_sectors(&self) -> Option<u64> {
        self.device.group_sectors()
    }

    /// The array's recorder, which writes its metadata; on the coordinator only.
    ///
    /// # Panics
    /// On another lane.
    pub fn recorder(&self) -> RefMut<'_, MdRecorder> {
        self.device.recorder()
    }

    /// Sets something on this lane's engine of the array, or asks it.
    pub fn with_engine<T>(&self, ask: impl FnOnce(&mut Engine) -> T) -> T {
        self.device.with_engine(ask)
    }

    // The life of the tree.

    /// Allows writes and sweeps, here and in the spans. Every lane must have its part by now.
    pub fn activate(&self) {
        self.spans().for_each(Self::activate);
        self.device.with_engine(|engine| engine.set_read_only(false));
    }

    /// Begins to stop: the array first, its spans when it is done. On the coordinator.
    pub fn begin_stop(&self) {
        self.device.stop();
    }

    /// True if the stop is complete: of this array on every lane, then of its spans, which it may have written to until then. The
    /// question takes the next step, so it is asked again and again while every lane is polled. On the coordinator.
    pub fn is_stopped(&self) -> bool {
        if !self.device.has_stopped() {
            return false;
        }
        self.spans().for_each(Self::begin_stop);
        // Every span takes its step, whatever the others answer.
        self.close_drives() && self.spans().filter(|span| !span.is_stopped()).count() == 0
    }

    /// Why this array, or one of its spans, has not stopped cleanly, with its name. On the coordinator.
    pub fn stop_refusal(&self) -> Option<(String, Refusal)> {
        self.tree().into_iter().find_map(|array| Some((array.name().to_owned(), array.device.stop_refusal()?)))
    }

    /// Closes the drives in use. True once that is done.
    fn close_drives(&self) -> bool {
        let status = self.status();
        let in_use = self.members.iter().zip(&status.members).filter(|(_, member)| member.state != MemberState::Failed);
        // Every drive takes its step, whatever the others answer.
        in_use.filter_map(|(member, _)| member.drive()).filter(|drive| !drive.close()).count() == 0
    }

    /// Gives a command to an array of the tree, by index. The next polls of every lane carry it out. On the coordinator.
    pub fn begin(&self, index: usize, command: ArrayCommand) -> CommandId {
        self.array(index).device.begin(command)
    }

    /// The result of a command that was given to an array of the tree, once it has ended.
    pub fn take_answer(&self, index: usize, id: CommandId) -> Option<Result<(), Refusal>> {
        self.array(index).device.take_answer(id)
    }

    // Drives that leave and join.

    /// Forgets a member after `Command::Remove` has ended. On every lane. Returns its drive.
    pub(crate) fn forget(&mut self, index: usize, member: MemberId) -> Option<D> {
        let array = self.array_mut(index);
        let Member::Drive(drive) = std::mem::replace(&mut array.members[member.0], Member::Removed) else { return None };
        if drive.is_cut_short() {
            array.cut_short.push(drive.identity());
        }
        Some(drive)
    }

    pub(crate) fn was_cut_short(&self, drive: &D::Identity) -> bool {
        self.cut_short.contains(drive)
    }

    /// Offers a drive that is to join an array of the tree. Every lane is offered its own before the command.
    pub fn offer(&mut self, index: usize, number: u64, device: Box<dyn BlockDevice>, drive: D) {
        self.array(index).device.offer(number, device);
        self.joining = Some((index, drive));
    }

    /// A drive that was offered did not join. On every lane.
    pub(crate) fn withdraw(&mut self, index: usize, number: u64) {
        self.joining = None;
        drop(self.array(index).device.withdraw(number));
    }

    /// Counts in a drive that has joined.
    fn welcome(&mut self) {
        let Some((index, drive)) = self.joining.take() else { return };
        let array = self.array_mut(index);
        match array.device.member_count() > array.members.len() {
            true => {
                array.members.push(Member::Drive(drive));
                array.watch(MemberId(array.members.len() - 1));
            }
            false => self.joining = Some((index, drive)),
        }
    }
}

impl<D: MemberDrive> BlockDevice for Tree<D> {
    fn limits(&self) -> &Limits {
        self.device.limits()
    }

    fn submit(&mut self, request: Request) {
        self.device.submit(request);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.device.poll(now, completions);
        self.welcome();
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.device.next_wake()
    }
}
