//! Arrays on drives, made, opened and commanded as `stria-host` does it, but in virtual time.
//!
//! The same pure functions of `stria-format` and the same binder of `stria-array` run here; what `host` adds (files,
//! sockets, a real clock) is replaced by bytes of modelled drives and a clock that jumps.

use crate::chance::Chance;
use crate::drive::{Drive, DriveHandle, Presence};
use crate::lanes::{ArrayCommand, Lanes};
use crate::mutant::{Mutant, Swap, Swapped};
use crate::power::Power;
use crate::setup::Setup;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use stria_array::{ArrayConfig, Command, Geometry, Level, MemberId, MemberState};
use stria_block::{BlockDevice, Buffer, Completion, ErrorKind, IoError, Limits, Nanos, Operation, Request, bytes};
use stria_format::detect::{detect, wipes_in_turn};
use stria_format::md::assemble::{AssembleError, Assembly, Verdict};
use stria_format::md::nest::{self, Nested, Provider};
use stria_format::md::recorder::{Adopt, Newcomer};
use stria_format::md::superblock::SuperblockError;
use stria_format::md::{BitmapChoice, Candidate, Create, CreateMember, Creation, LogChoice, Superblock};
use stria_integrity::IntegrityDevice;

/// All drives of a world.
pub type Drives = [Rc<RefCell<Drive>>];

/// What a member is made of.
pub enum Source {
    /// A drive, by its number.
    Drive(usize),
    /// An array.
    Span(Box<Node>),
    /// It was taken out.
    Removed,
}

/// An array that runs.
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its shape.
    pub geometry: Geometry,
    /// The real thing.
    pub device: Lanes,
    /// By handle.
    pub members: Vec<Source>,
    /// By handle: those whose data are verified.
    pub checked: Vec<Option<Checked>>,
    /// A drive that joins.
    joining: Option<(usize, Option<Checked>)>,
}

/// A drive with checksums.
pub type Checked = IntegrityDevice<DriveHandle>;

/// Why an array does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountError {
    /// The power went meanwhile.
    PowerLost,
    /// In words.
    Refused(String),
}

impl From<AssembleError> for MountError {
    fn from(error: AssembleError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// One drive joins at a time.
const OFFER: u64 = 0;

/// Where md's superblock lies on a drive.
pub const SUPERBLOCK: Range<u64> = 8..16;

/// Seconds since 1970 when virtual time begins.
pub const UNIX_SECONDS: u64 = 1_700_000_000;

/// How long anything may take in virtual time: far beyond every stall and timer.
pub const PATIENCE: Nanos = 600_000_000_000;

/// An identity for the `n`-th thing that needs one.
fn identity(kind: u8, n: usize) -> [u8; 16] {
    let mut uuid = [kind; 16];
    uuid[8..].copy_from_slice(&(n as u64 + 1).to_be_bytes());
    uuid
}

fn drive_name(index: usize) -> String {
    format!("drive{index}")
}

/// Whether a mutant takes a superblock at the end of a drive for its own because it is younger.
fn takes_youngest(drive: &Drive) -> bool {
    let at = |sector: u64| Superblock::parse(&drive.image().bytes_of(sector, 8), sector, drive.sectors()).ok();
    let last = Superblock::sector_of(0, drive.sectors()).and_then(at);
    drive.is_mutant(Mutant::YoungestTaken)
        && last.is_some_and(|last| at(SUPERBLOCK.start).is_none_or(|own| own.created_s() < last.created_s()))
}

/// Writes that may reach a drive in any order: sector and bytes.
pub type Writes = Vec<(u64, Vec<u8>)>;

/// True if it was never written, as most loose drives: there is nothing to look for.
fn is_blank(drive: &Drive) -> bool {
    drive.image().is_empty(0, drive.sectors()) && !drive.is_spoiled()
}

fn read(drive: &Drive, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
    match drive.is_bad(&(start..start + sectors)) {
        true => Err(IoError::new(ErrorKind::Medium, format!("medium error near sector {start}"))),
        false => Ok(drive.image().bytes_of(start, sectors)),
    }
}

/// The zeros that erase what a drive carries, as `host` writes them: all but the superblock that counts, then that.
fn wiping(index: usize, drive: &Drive) -> [Writes; 2] {
    if is_blank(drive) {
        return Default::default();
    }
    let counts = candidate_of(index, drive).found.ok().map(|member| member.superblock.header.super_offset);
    let signatures = detect(drive.sectors(), &mut |start, sectors| read(drive, start, sectors));
    let zeros = |(start, sectors)| (start, vec![0; bytes(sectors)]);
    wipes_in_turn(&signatures, bytes(drive.model().block_sectors) as u32, counts)
        .map(|part| part.into_iter().map(zeros).collect())
}

/// What md wrote on a drive.
pub fn candidate_of(index: usize, drive: &Drive) -> Candidate {
    let size_sectors = drive.sectors();
    let (name, block) = (drive_name(index), bytes(drive.model().block_sectors) as u32);
    if is_blank(drive) {
        let (found, carries) = (Err(SuperblockError::Absent), Vec::new());
        return Candidate { name, size_sectors, logical_block_bytes: block, found, carries };
    }
    let hidden = takes_youngest(drive);
    let mut read = |start: u64, sectors: u64| {
        let found = read(drive, start, sectors)?;
        Ok(if hidden && start == SUPERBLOCK.start { vec![0; bytes(sectors)] } else { found })
    };
    Candidate::read(name, size_sectors, block, &mut read)
}

/// Its superblock alone, where it has one that can be read.
pub fn superblock_of(drive: &Drive) -> Option<Superblock> {
    let Range { start, end } = SUPERBLOCK;
    let readable = !drive.is_bad(&SUPERBLOCK);
    readable.then(|| Superblock::parse(&drive.image().bytes_of(start, end - start), start, drive.sectors()).ok())?
}

/// Makes the array of `setup` on empty drives.
///
/// # Errors
/// In words, when the array cannot be.
pub fn create(setup: &Setup, drives: &Drives, power: &Rc<Power>) -> Result<(), String> {
    let member = |index: usize| {
        let drive = drives[index].borrow();
        let model = drive.model();
        CreateMember {
            name: drive_name(index),
            size_sectors: model.sectors,
            logical_block_bytes: bytes(model.block_sectors) as u32,
            device_uuid: identity(1, index),
        }
    };
    let first_spare = setup.member_count * setup.span_count;
    let mut plans: Vec<(Vec<usize>, Creation)> = Vec::new();
    for span in 0..setup.span_count {
        let mut places: Vec<usize> = (span * setup.member_count..(span + 1) * setup.member_count).collect();
        let spares: Vec<usize> = if span == 0 { (first_spare..first_spare + setup.spare_count).collect() } else { Vec::new() };
        let create = Create {
            name: if setup.span_count > 1 { format!("tank-span{span}") } else { "tank".into() },
            homehost: None,
            uuid: identity(2, span),
            level: setup.level,
            layout: setup.layout,
            strip_sectors: setup.strip_sectors,
            members: places.iter().map(|&place| Some(member(place))).collect(),
            spares: spares.iter().map(|&place| member(place)).collect(),
            data_offset_sectors: Some(setup.data_start()),
            member_sectors_max: None,
            bitmap: setup
                .intent_chunk_bytes
                .map_or(BitmapChoice::None, |chunk| BitmapChoice::Internal { chunk_bytes: Some(chunk) }),
            log: if setup.log { LogChoice::Auto } else { LogChoice::None },
            checksums: setup.checksums,
            assume_clean: setup.assume_clean,
            span_of: (setup.span_count > 1).then(|| identity(2, setup.span_count)),
            unix_seconds: UNIX_SECONDS,
        };
        places.extend(spares);
        plans.push((places, create.plan().map_err(|error| error.to_string())?));
    }
    for (places, plan) in &plans {
        for write in &plan.writes {
            drives[places[write.drive]].borrow_mut().put(write.start_sector, &write.bytes);
        }
    }
    if setup.span_count == 1 {
        return Ok(());
    }
    let block = drives[..first_spare].iter().map(|drive| drive.borrow().model().block_sectors).max().unwrap_or(1);
    let upper = Create {
        name: "tank".into(),
        homehost: None,
        uuid: identity(2, setup.span_count),
        level: Level::Raid0,
        layout: Level::Raid0.default_layout(),
        strip_sectors: setup.strip_sectors,
        members: plans
            .iter()
            .enumerate()
            .map(|(span, (_, plan))| {
                Some(CreateMember {
                    name: format!("span{span}"),
                    size_sectors: plan.geometry.capacity_sectors(),
                    logical_block_bytes: bytes(block) as u32,
                    device_uuid: identity(3, span),
                })
            })
            .collect(),
        spares: Vec::new(),
        data_offset_sectors: None,
        member_sectors_max: None,
        bitmap: BitmapChoice::None,
        log: LogChoice::None,
        checksums: false,
        assume_clean: true,
        span_of: None,
        unix_seconds: UNIX_SECONDS,
    };
    let upper = upper.plan().map_err(|error| error.to_string())?;
    // What lies above is written through the spans, so that their parity covers it.
    for (span, (places, _)) in plans.iter().enumerate() {
        let mut opener = Opener::new(drives, power);
        let places_found = opener.look(places);
        let bound = nest::bind_new(&mut opener, places_found, &identity(2, span));
        let mut node = bound.map_err(|error| format!("{error:?}"))?;
        node.activate();
        node.device.command(|engine| engine.pause(true));
        for write in upper.writes.iter().filter(|write| write.drive == span) {
            let from = std::iter::once(Buffer::copy_of(&write.bytes).freeze()).collect();
            let sectors = write.bytes.len() as u64 / 512;
            node.request(power, write.start_sector, sectors, Operation::Write { from, fua: true })
                .map_err(|error| error.to_string())?;
        }
        node.stop(power).map_err(|error| format!("{error:?}"))?;
        drop(node);
        places.iter().for_each(|&place| drives[place].borrow_mut().orphan());
    }
    for drive in drives {
        drive.borrow_mut().sync();
    }
    Ok(())
}

/// Opens the one array on the drives that are there, all of it, and lets it loose.
///
/// # Errors
/// When it cannot be opened, or the power goes.
pub fn mount(drives: &Drives, power: &Rc<Power>) -> Result<Node, MountError> {
    let there: Vec<usize> = (0..drives.len()).filter(|&index| drives[index].borrow().presence() == Presence::There).collect();
    let mut opener = Opener::new(drives, power);
    let there = opener.look(&there);
    // A mutant looks for arrays where clients write.
    let unmarked_depth = if power.mutant.get() == Some(Mutant::LooksInside) { u8::MAX } else { 0 };
    let Nested { mut arrays, assemblies, .. } = nest::nest(&mut opener, there, false, unmarked_depth)?;
    for assembly in &assemblies {
        if let Err(error) = &assembly.outcome {
            let away = assembly.drives.iter().filter(|report| matches!(report.verdict, Verdict::Away { .. }));
            let away: Vec<String> = away.map(|report| format!("{}: {:?}", report.name, report.verdict)).collect();
            return Err(MountError::Refused(format!("{error} ({})", away.join("; "))));
        }
    }
    if arrays.len() != 1 {
        return Err(MountError::Refused(format!("{} arrays were found", arrays.len())));
    }
    let node = arrays.pop().expect("there is one");
    if power.late_sweeps.get() {
        node.leaves().iter().for_each(|leaf| leaf.device.command(|engine| engine.pause(true)));
    }
    node.activate();
    Ok(node)
}

/// Modelled drives and arrays on them, on as many lanes as they can have.
struct Opener<'a> {
    drives: &'a Drives,
    power: &'a Rc<Power>,
    /// Every lane has the whole tree.
    lane_count: Option<usize>,
}

impl<'a> Opener<'a> {
    fn new(drives: &'a Drives, power: &'a Rc<Power>) -> Self {
        Self { drives, power, lane_count: None }
    }

    /// Drives by their numbers, and what is on them.
    fn look(&self, places: &[usize]) -> Vec<(Candidate, usize)> {
        places.iter().map(|&index| (candidate_of(index, &self.drives[index].borrow()), index)).collect()
    }
}

impl Provider for Opener<'_> {
    type Drive = usize;
    type Array = Node;
    type Error = MountError;

    fn begin_level(&mut self, assemblies: &mut [Assembly]) {
        let power = self.power;
        assemblies.iter_mut().for_each(|assembly| skip_replay(assembly, power));
        let rooms = assemblies.iter().filter_map(|assembly| Some(assembly.outcome.as_ref().ok()?.recorder.lanes_max()));
        let most = rooms.chain([power.lanes.get()]).min().expect("one at least");
        // Not always as many as the last run had.
        let drawn = power.naps.get().map(|seed| 1 + Chance::new(seed, 2000 + power.requests()).below(most as u64) as usize);
        self.lane_count.get_or_insert(drawn.unwrap_or(most));
    }

    fn bind(&mut self, assembly: &Assembly, sources: Vec<(&Candidate, nest::Source<usize, Node>)>) -> Result<Node, MountError> {
        let (power, drives, lane_count) = (self.power, self.drives, self.lane_count.expect("a level has begun"));
        let start = assembly.outcome.as_ref().expect("it can start").clone().with_lanes(lane_count);
        let mut devices: Vec<Vec<Box<dyn BlockDevice>>> = (0..lane_count).map(|_| Vec::new()).collect();
        let mut members = Vec::new();
        let mut checked = Vec::new();
        let swap = swap(&start.config, power);
        for (member, (candidate, source)) in sources.into_iter().enumerate() {
            let slot = start.config.slots.iter().position(|slot| slot.member.as_ref().is_some_and(|own| own.id.0 == member));
            let (source, each, check): (_, Vec<Box<dyn BlockDevice>>, _) = match source {
                nest::Source::Drive(index) => {
                    let (each, check) = match (&swap, slot) {
                        (Some(swap), Some(slot)) => {
                            drives[index].borrow_mut().open();
                            let swapped = |lane| Swapped::new(slot, Rc::clone(swap), DriveHandle::new(&drives[index], lane));
                            ((0..lane_count).map(swapped).map(|device| Box::new(device) as _).collect(), None)
                        }
                        _ => bind_drive(&drives[index], candidate, lane_count),
                    };
                    (Source::Drive(index), each, check)
                }
                nest::Source::Array(node) => {
                    let each = node.device.for_above();
                    (Source::Span(Box::new(node)), each, None)
                }
            };
            devices.iter_mut().zip(each).for_each(|(lane, device)| lane.push(device));
            checked.push(check);
            members.push(source);
        }
        let recorder = match power.bitmap_page_bytes.get() {
            Some(page_bytes) => start.recorder.with_bitmap_pages(page_bytes),
            None => start.recorder,
        };
        let geometry = start.config.geometry.clone();
        power.shares.set((lane_count, geometry.strip_sectors()));
        let chance = power.naps.get().map(|seed| Chance::new(seed, 1000 + power.requests()));
        let device = Lanes::new(&start.config, devices, recorder, UNIX_SECONDS, geometry.strip_sectors(), chance);
        device.command(|engine| {
            engine.set_hedging(power.hedges.get());
            engine.set_flaw(power.mutant.get().and_then(Mutant::flaw));
        });
        Ok(Node { name: start.config.name, uuid: assembly.uuid, geometry, device, members, checked, joining: None })
    }

    fn read(&mut self, node: &mut Node, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, MountError> {
        node.candidate(self.power, upper_uuid)
    }
}

/// A drive as a member for each lane, behind its checksums where it has some.
fn bind_drive(drive: &Rc<RefCell<Drive>>, candidate: &Candidate, lanes: usize) -> (Vec<Box<dyn BlockDevice>>, Option<Checked>) {
    drive.borrow_mut().open();
    let found = candidate.found.as_ref().ok().and_then(|member| member.checksums.as_ref());
    let Some(found) = found else {
        return ((0..lanes).map(|lane| Box::new(DriveHandle::new(drive, lane)) as _).collect(), None);
    };
    assert_eq!(lanes, 1, "checksums are one lane's");
    let handle = DriveHandle::new(drive, 0);
    let (header, void) = found.open(0).expect("nobody else writes here");
    if void {
        drive.borrow_mut().put(header.sector(), &header.encode());
    }
    let checked = IntegrityDevice::new(handle, candidate.name.as_str(), header, false);
    (vec![Box::new(checked.clone())], Some(checked))
}

/// What a mutant forgets.
fn skip_replay(assembly: &mut Assembly, power: &Power) {
    if let Ok(start) = &mut assembly.outcome
        && power.mutant.get() == Some(Mutant::ReplaySkipped)
    {
        start.config.replay.clear();
    }
}

/// A mutant that exchanges P and Q, where there are both.
fn swap(config: &ArrayConfig, power: &Rc<Power>) -> Option<Rc<Swap>> {
    let wanted = power.mutant.get() == Some(Mutant::ParitySwapped) && config.geometry.level().parity_count() == 2;
    let data_start = config.slots.iter().find_map(|slot| slot.member.as_ref()).map_or(0, |member| member.data_start_sector);
    wanted.then(|| Swap::new(config.geometry.clone(), data_start, Rc::clone(power)))
}

impl Node {
    /// The arrays among the members.
    pub fn spans(&self) -> impl Iterator<Item = &Node> {
        self.members.iter().filter_map(|member| match member {
            Source::Span(node) => Some(&**node),
            Source::Drive(_) | Source::Removed => None,
        })
    }

    /// The arrays whose members are drives.
    pub fn leaves(&self) -> Vec<&Node> {
        let mut leaves: Vec<&Node> = self.spans().flat_map(Node::leaves).collect();
        if leaves.is_empty() {
            leaves.push(self);
        }
        leaves
    }

    /// The `index`-th of [`Node::leaves`].
    pub fn leaf_mut(&mut self, index: usize) -> &mut Node {
        if self.spans().next().is_none() {
            assert_eq!(index, 0, "there is one leaf");
            return self;
        }
        let spans = self.members.iter_mut().filter_map(|member| match member {
            Source::Span(node) => Some(&mut **node),
            Source::Drive(_) | Source::Removed => None,
        });
        spans.into_iter().nth(index).expect("leaves are counted")
    }

    /// The newest handle of a drive here.
    pub fn handle_of(&self, drive: usize) -> Option<MemberId> {
        let index = self.members.iter().rposition(|member| matches!(member, Source::Drive(known) if *known == drive))?;
        Some(MemberId(index))
    }

    /// Which drive a member is.
    pub fn drive_of(&self, member: MemberId) -> Option<usize> {
        match self.members.get(member.0) {
            Some(Source::Drive(index)) => Some(*index),
            _ => None,
        }
    }

    /// Allows writes and sweeps, here and in the spans.
    pub fn activate(&self) {
        self.spans().for_each(Node::activate);
        self.device.command(|engine| engine.set_read_only(false));
    }

    /// Lets time run until `done`, or the power goes.
    fn run_until(
        &mut self,
        power: &Power,
        mut done: impl FnMut(&mut Self, &[Completion]) -> bool,
    ) -> Result<Vec<Completion>, MountError> {
        let mut ended = Vec::new();
        let patience = power.now() + PATIENCE;
        loop {
            self.device.poll(power.now(), &mut ended);
            // Asked before `done`, whose commands to the engine would count as something to do at once.
            let wake = self.device.next_wake();
            if done(self, &ended) {
                return Ok(ended);
            }
            if power.is_off() {
                return Err(MountError::PowerLost);
            }
            match wake {
                Some(due) if due < patience => power.set_now(power.now().max(due)),
                _ => return Err(MountError::Refused("nothing happens any more".into())),
            }
        }
    }

    /// Carries out one request.
    ///
    /// # Errors
    /// The array's, or that the power went.
    pub fn request(
        &mut self,
        power: &Power,
        start_sector: u64,
        sectors: u64,
        operation: Operation,
    ) -> Result<Operation, IoError> {
        self.device.submit(Request { tag: u64::MAX >> 1, start_sector, sectors, operation });
        let ended = self.run_until(power, |_, ended| !ended.is_empty());
        let completion = ended.map_err(|error| IoError::new(ErrorKind::Other, format!("{error:?}")))?.pop().expect("it ended");
        completion.result.map(|()| completion.operation)
    }

    /// Reads sectors.
    ///
    /// # Errors
    /// The array's, or that the power went.
    pub fn read(&mut self, power: &Power, start_sector: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        let into = std::iter::once(Buffer::zeroed(bytes(sectors))).collect();
        let Operation::Read { into } = self.request(power, start_sector, sectors, Operation::Read { into })? else {
            unreachable!("a read comes back as a read")
        };
        Ok(into.iter().map(|buffer| &buffer[..]).collect::<Vec<_>>().concat())
    }

    /// What lies on it of the array above; without one, of whatever array.
    fn candidate(&mut self, power: &Power, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, MountError> {
        let (name, limits): (String, Limits) = (self.name.clone(), self.device.limits().clone());
        let (sectors, block) = (limits.size_sectors, limits.logical_block_bytes);
        let mut read = |start: u64, sectors: u64| self.read(power, start, sectors);
        let candidate = match upper_uuid {
            Some(upper_uuid) => Candidate::read_span(name, sectors, block, upper_uuid, &mut read),
            None => Candidate::read(name, sectors, block, &mut read),
        };
        if power.is_off() { Err(MountError::PowerLost) } else { Ok(candidate) }
    }

    /// Stops it in good order, and its spans after it.
    ///
    /// # Errors
    /// When the power goes.
    pub fn stop(&mut self, power: &Power) -> Result<(), MountError> {
        self.device.stop();
        self.run_until(power, |node, _| node.device.has_stopped())?;
        let status = self.device.status();
        let in_use = self.checked.iter().zip(status.members).filter(|(_, member)| member.role != MemberState::Failed);
        let checked: Vec<Checked> = in_use.filter_map(|(checked, _)| checked.clone()).collect();
        checked.iter().for_each(Checked::close);
        self.run_until(power, |_, _| checked.iter().all(|checked| checked.closed().is_some()))?;
        for member in &mut self.members {
            if let Source::Span(node) = member {
                node.stop(power)?;
            }
        }
        Ok(())
    }

    /// A member was taken out.
    pub fn forget(&mut self, member: MemberId) {
        (self.members[member.0], self.checked[member.0]) = (Source::Removed, None);
    }

    /// Offers a drive that is to join: back into its slot by the bitmap where that is possible, else as a new spare, which
    /// replaces a member. `stale`: as a mutant would, whatever it missed. By which command it joins, and whether it comes back.
    ///
    /// # Errors
    /// In words.
    pub fn offer(
        &mut self,
        drives: &Drives,
        drive: usize,
        stale: bool,
        replaces: Option<MemberId>,
    ) -> Result<(ArrayCommand, bool), String> {
        let mut candidate = candidate_of(drive, &drives[drive].borrow());
        if let Ok(member) = &mut candidate.found
            && member.superblock.header.set_uuid == self.uuid
        {
            if stale {
                member.superblock.header.events = u64::MAX >> 1;
            }
            let slot = self.device.recorder().returnable(&member.superblock);
            if let Ok(slot) = slot
                && self.device.status().slots[slot].is_none()
            {
                self.bind(drives, drive, &candidate);
                let newcomer = Newcomer::Former(Box::new(candidate));
                return Ok((Command::Add { newcomer, offer: OFFER, replaces: None }, true));
            }
        }
        let (adopt, steps) = self.adoption(drives, drive)?;
        for (start_sector, data) in steps.iter().flatten() {
            drives[drive].borrow_mut().put(*start_sector, data);
        }
        let candidate = candidate_of(drive, &drives[drive].borrow());
        self.bind(drives, drive, &candidate);
        Ok((Command::Add { newcomer: Newcomer::Spare(adopt), offer: OFFER, replaces }, false))
    }

    fn bind(&mut self, drives: &Drives, drive: usize, candidate: &Candidate) {
        let (devices, checked) = bind_drive(&drives[drive], candidate, self.device.count());
        self.device.offer(OFFER, devices);
        self.joining = Some((drive, checked));
    }

    /// The drive that was offered did not join.
    pub fn withdraw(&mut self) {
        self.joining = None;
        self.device.withdraw(OFFER);
    }

    /// Counts in a drive that has joined, here or below.
    pub fn welcome(&mut self) {
        if self.joining.is_some() && self.device.member_count() > self.members.len() {
            let (drive, checked) = self.joining.take().expect("just seen");
            self.members.push(Source::Drive(drive));
            self.checked.push(checked);
        }
        for member in &mut self.members {
            if let Source::Span(node) = member {
                node.welcome();
            }
        }
    }

    /// What a drive is to be given to become a spare, in steps that are durable one by one.
    ///
    /// # Errors
    /// In words.
    pub fn adoption(&self, drives: &Drives, drive: usize) -> Result<(Adopt, [Writes; 3]), String> {
        let id = MemberId(self.device.member_count());
        let model = *drives[drive].borrow().model();
        drives[drive].borrow_mut().adopted += 1;
        let adopt = Adopt {
            name: drive_name(drive),
            size_sectors: drives[drive].borrow().sectors(),
            logical_block_bytes: bytes(model.block_sectors) as u32,
            device_uuid: identity(4, drives[drive].borrow().adopted * 1000 + drive),
        };
        let mut recorder = self.device.recorder().clone();
        let (_, writes) = recorder.adopt(id, &adopt).map_err(|error| error.to_string())?;
        let [others, own] = wiping(drive, &drives[drive].borrow());
        let writes = writes.into_iter().map(|write| (write.start_sector, write.data.to_vec())).collect();
        Ok((adopt, [others, own, writes]))
    }

    /// The drives that hold slots whole, by slot.
    pub fn whole_drives(&self) -> Vec<Option<usize>> {
        let status = self.device.status();
        let whole = |member: &MemberId| status.members[member.0].role == MemberState::InSync;
        status.slots.iter().map(|slot| slot.filter(whole).and_then(|member| self.drive_of(member))).collect()
    }
}
