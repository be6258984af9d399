//! Modelled drives and the arrays on them: made and opened as `stria-host` does it, but in virtual time.
//!
//! `stria-format` plans a new array, and `stria-tree` finds and binds existing ones. The parts of `host` (files, rings, a real
//! clock) are replaced by bytes of modelled drives and a clock that jumps.

use crate::chance::Chance;
use crate::drive::{Drive, Presence};
use crate::lanes::{Array, Node};
use crate::member_drive::{MountError, Prepared, Ready, SUPERBLOCK, UNIX_SECONDS, drive_name};
use crate::mutant::Mutant;
use crate::partial_parity;
use crate::power::Power;
use crate::setup::Setup;
use std::cell::RefCell;
use std::rc::Rc;
use stria_array::{MemberId, MetadataWrite};
use stria_block::{Buffer, ErrorKind, IoError, Operation, bytes};
use stria_format::detect::{detect, wipes_in_turn};
use stria_format::md::assemble::{Assembly, Verdict};
use stria_format::md::recorder::Adopt;
use stria_format::md::superblock::SuperblockError;
use stria_format::md::{
    BitmapChoice, Candidate, Change, Create, CreateMember, Creation, LogChoice, Options, Superblock, assemble, uuid_text,
};
use stria_tree::{ArrayCreation, JoinError, Maker, Nested, NewDrive, NewTree, Plan, Provider, SpanIdentity, nest, plan_new};

/// All drives of a world.
pub type Drives = [Rc<RefCell<Drive>>];

/// The `n`-th identity.
fn identity(kind: u8, n: usize) -> [u8; 16] {
    let mut uuid = [kind; 16];
    uuid[8..].copy_from_slice(&(n as u64 + 1).to_be_bytes());
    uuid
}

/// True if a mutant treats a newer superblock at the end of a drive as the drive's own.
fn takes_youngest(drive: &Drive) -> bool {
    let at = |sector: u64| Superblock::parse(&drive.image().bytes_of(sector, 8), sector, drive.sectors()).ok();
    let last = Superblock::sector_of(0, drive.sectors()).and_then(at);
    drive.is_mutant(Mutant::YoungestTaken)
        && last.is_some_and(|last| at(SUPERBLOCK.start).is_none_or(|own| own.created_s() < last.created_s()))
}

/// Writes that may reach a drive in any order: sector and bytes.
pub type Writes = Vec<(u64, Vec<u8>)>;

/// True if it was never written, as most loose drives: then it has no metadata.
fn is_blank(drive: &Drive) -> bool {
    drive.image().is_empty(0, drive.sectors()) && !drive.is_spoiled()
}

fn read(drive: &Drive, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
    match drive.is_bad(&(start..start + sectors)) {
        true => Err(IoError::new(ErrorKind::Medium, format!("medium error near sector {start}"))),
        false => Ok(drive.image().bytes_of(start, sectors)),
    }
}

/// The zeros that erase the content of a drive, as `host` writes them: all but the superblock that counts, then that one.
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

/// Reads md's metadata from the drive.
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

/// Makes the array of `setup` on empty drives.
///
/// # Errors
/// The array is impossible, with the reason.
pub fn create(setup: &Setup, drives: &Drives, power: &Rc<Power>) -> Result<(), String> {
    let creation = new_tree(setup, drives).plan().map_err(|error| error.to_string())?;
    creation.carry_out(&mut OnDrives { setup, drives, power })
}

fn new_tree(setup: &Setup, drives: &Drives) -> NewTree {
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
    let member_count = setup.member_count * setup.span_count;
    let span_count = if setup.span_count > 1 { setup.span_count } else { 0 };
    let array = Create {
        name: "tank".into(),
        homehost: None,
        uuid: identity(2, span_count),
        level: setup.level,
        layout: setup.layout,
        strip_sectors: setup.strip_sectors,
        members: (0..member_count).map(|index| Some(member(index))).collect(),
        spares: (member_count..member_count + setup.spare_count).map(member).collect(),
        data_offset_sectors: Some(setup.data_start()),
        member_sectors_max: None,
        bitmap: setup.intent_chunk_bytes.map_or(BitmapChoice::None, |chunk| BitmapChoice::Internal { chunk_bytes: Some(chunk) }),
        log: if setup.closes_write_hole() { LogChoice::Auto } else { LogChoice::None },
        checksums: setup.checksums,
        assume_clean: setup.assume_clean,
        span_of: None,
        unix_seconds: UNIX_SECONDS,
    };
    let spans = (0..span_count).map(|span| SpanIdentity { array: identity(2, span), member: identity(3, span) }).collect();
    // Short strips, so that few requests reach every span.
    NewTree { array, spans, upper_strip_sectors: Some(setup.strip_sectors) }
}

struct OnDrives<'a> {
    setup: &'a Setup,
    drives: &'a Drives,
    power: &'a Rc<Power>,
}

impl Maker for OnDrives<'_> {
    type Error = String;

    /// New drives contain zeros, so none are written.
    fn write_drives(&mut self, array: &ArrayCreation) -> Result<(), String> {
        let Self { setup, drives, .. } = self;
        for write in &array.creation.writes {
            drives[array.drives[write.drive]].borrow_mut().put(write.start_sector.get(), &write.bytes);
        }
        if let Some(log) = setup.partial_parity {
            let members: Vec<_> = array.drives.iter().map(|&drive| &drives[drive]).collect();
            partial_parity::begin(&members, log);
            if !setup.assume_clean {
                partial_parity::spoil(&members, &array.creation.geometry, setup.data_start());
            }
        }
        Ok(())
    }

    fn write_span(&mut self, span: &ArrayCreation, upper: &Creation, index: usize) -> Result<(), String> {
        let mut opener = Opener::new(self.drives, self.power);
        let found = opener.look(&span.drives);
        let plan = plan_new(&mut opener, found, &span.uuid).map_err(|error| format!("{error:?}"))?;
        let mut node = opener.bind(plan);
        node.activate();
        node.top().with_engine(|engine| engine.pause(true));
        for write in upper.writes.iter().filter(|write| write.drive == index) {
            let from = std::iter::once(Buffer::copy_of(&write.bytes).freeze()).collect();
            let sectors = write.bytes.len() as u64 / 512;
            node.request(self.power, write.start_sector.get(), sectors, Operation::Write { from, fua: true })
                .map_err(|error| error.to_string())?;
        }
        node.stop(self.power).map_err(|error| format!("{error:?}"))?;
        drop(node);
        for &drive in &span.drives {
            let mut drive = self.drives[drive].borrow_mut();
            drive.orphan();
            drive.sync();
        }
        Ok(())
    }
}

/// One write: the drive, the first sector, the bytes.
pub type Write = (usize, u64, Vec<u8>);

/// The steps of a change of metadata on the present drives, as `host` carries them out.
///
/// # Errors
/// The change is impossible.
pub fn changes(drives: &Drives, change: Change) -> Result<Vec<Vec<Write>>, String> {
    let there = (0..drives.len()).filter(|&index| drives[index].borrow().presence() == Presence::There);
    let indices: Vec<usize> = there.collect();
    let found: Vec<Candidate> = indices.iter().map(|&index| candidate_of(index, &drives[index].borrow())).collect();
    let options = Options { read_only: true, ..Options::default() };
    let mut all: Vec<Vec<Write>> = Vec::new();
    for assembly in assemble(&found, &options).0 {
        let start = assembly.outcome.map_err(|error| error.to_string())?;
        let steps = start.recorder.change(change, false, &|member| &found[start.drives[member.0]])?;
        for step in steps {
            let on_drive =
                |write: MetadataWrite| (indices[start.drives[write.member.0]], write.start_sector.get(), write.data.to_vec());
            all.push(step.into_iter().map(on_drive).collect());
        }
    }
    Ok(all)
}

/// Opens the one array on the present drives, and activates it.
///
/// # Errors
/// The array cannot be opened, or the power went.
pub fn mount(drives: &Drives, power: &Rc<Power>) -> Result<Node, MountError> {
    let node = open(drives, power)?;
    node.activate();
    Ok(node)
}

/// Opens the one array on the present drives, read-only.
///
/// # Errors
/// The array cannot be opened, or the power went.
pub fn open(drives: &Drives, power: &Rc<Power>) -> Result<Node, MountError> {
    let there: Vec<usize> = (0..drives.len()).filter(|&index| drives[index].borrow().presence() == Presence::There).collect();
    let mut opener = Opener::new(drives, power);
    let there = opener.look(&there);
    // A mutant searches for arrays where clients write.
    let unmarked_depth = if power.mutant.get() == Some(Mutant::LooksInside) { u8::MAX } else { 0 };
    let Nested { mut arrays, assemblies, .. } = nest(&mut opener, there, false, unmarked_depth)?;
    let refusal = |is_ours: &dyn Fn(&[u8; 16]) -> bool| {
        let mut ours = assemblies.iter().filter(|assembly| is_ours(&assembly.uuid));
        ours.find_map(|assembly| {
            let error = assembly.outcome.as_ref().err()?;
            let away = assembly.drives.iter().filter(|report| matches!(report.verdict, Verdict::Away { .. }));
            let away: Vec<String> = away.map(|report| format!("{}: {:?}", report.name, report.verdict)).collect();
            Some(MountError::Refused(format!("{error} ({})", away.join("; "))))
        })
    };
    if arrays.len() != 1 {
        let of = |assembly: &Assembly| {
            let drives: Vec<&str> = assembly.drives.iter().map(|report| report.name.as_str()).collect();
            format!("{} {} of {}", assembly.name, uuid_text(&assembly.uuid), drives.join(", "))
        };
        let all: Vec<String> = assemblies.iter().map(of).collect();
        let none = || MountError::Refused(format!("{} arrays were found: {}", arrays.len(), all.join("; ")));
        return Err(refusal(&|_| true).unwrap_or_else(none));
    }
    let node = opener.bind(arrays.pop().expect("there is one"));
    // A drive whose own superblock is torn may show one that a client has written: that array need not start.
    let is_ours = |uuid: &[u8; 16]| node.top().uuid() == *uuid || node.leaves().iter().any(|leaf| leaf.uuid() == *uuid);
    if let Some(error) = refusal(&is_ours) {
        return Err(error);
    }
    if power.late_sweeps.get() {
        node.leaves().iter().for_each(|leaf| leaf.with_engine(|engine| engine.pause(true)));
    }
    Ok(node)
}

/// Modelled drives, for arrays on as many lanes as they can have.
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

    /// Drives by their numbers, and their content.
    fn look(&self, indices: &[usize]) -> Vec<(Candidate, usize)> {
        indices.iter().map(|&index| (candidate_of(index, &self.drives[index].borrow()), index)).collect()
    }

    /// Binds an array on all its lanes.
    fn bind(&self, plan: Plan<Ready>) -> Node {
        let lane_count = self.lane_count.expect("a level has begun");
        let plan = plan.on_lanes_with(lane_count, &|start, ports| ports.with_groups(start.config.geometry.strip_sectors()));
        Node::bind(&plan, self.power)
    }
}

impl Provider for Opener<'_> {
    type Drive = usize;
    type Ready = Ready;
    type Error = MountError;

    fn begin_level(&mut self, assemblies: &mut [Assembly]) {
        let power = self.power;
        for start in assemblies.iter_mut().filter_map(|assembly| assembly.outcome.as_mut().ok()) {
            // A mutant forgets this.
            if power.mutant.get() == Some(Mutant::ReplaySkipped) {
                start.config.replay.clear();
            }
            if power.short_lists.get() {
                for slot in &mut start.config.slots {
                    slot.member.iter_mut().chain(&mut slot.replacement).for_each(|member| member.bad_blocks_max = 0);
                }
            }
            if let Some(page_bytes) = power.bitmap_page_bytes.get() {
                start.recorder = start.recorder.clone().with_bitmap_pages(page_bytes);
            }
        }
        let rooms = assemblies.iter().filter_map(|assembly| Some(assembly.outcome.as_ref().ok()?.recorder.lanes_max()));
        let most = rooms.chain([power.lanes.get()]).min().expect("one at least");
        // The number of lanes may differ from that of the last run.
        let drawn = power.naps.get().map(|seed| 1 + Chance::new(seed, 2000 + power.requests()).below(most as u64) as usize);
        self.lane_count.get_or_insert(drawn.unwrap_or(most));
    }

    fn prepare(&mut self, drive: usize, candidate: &Candidate) -> Result<Ready, MountError> {
        Ok(Ready::new(drive, &self.drives[drive], candidate))
    }

    fn read(&mut self, array: &Plan<Ready>, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, MountError> {
        let mut node = Node::bind(array, self.power);
        let candidate = node.candidate(self.power, upper_uuid)?;
        // The array is bound again once everything is known. Until then its drives are idle.
        node.come_to_rest(self.power)?;
        Ok(candidate)
    }
}

/// A drive that is to join, as the lanes must know it.
fn newcomer(drives: &Drives, drive: usize) -> NewDrive<(usize, u32)> {
    let candidate = candidate_of(drive, &drives[drive].borrow());
    let own = drives[drive].borrow();
    let adopt = Adopt {
        name: drive_name(drive),
        size_sectors: own.sectors(),
        logical_block_bytes: bytes(own.model().block_sectors) as u32,
        device_uuid: identity(4, (own.adopted + 1) * 1000 + drive),
    };
    NewDrive { identity: (drive, own.renewals()), candidate, adopt }
}

/// The writes to a drive that becomes a spare, in steps that are durable one by one.
fn steps(drives: &Drives, drive: usize, metadata: stria_tree::NewMetadata) -> [Writes; 3] {
    drives[drive].borrow_mut().adopted += 1;
    let [others, own] = wiping(drive, &drives[drive].borrow());
    let writes = metadata.writes.into_iter().map(|write| (write.start_sector.get(), write.data.to_vec())).collect();
    [others, own, writes]
}

/// The metadata that make a drive a spare of an array, in steps that are durable one by one.
///
/// # Errors
/// In words.
pub fn adoption(array: Array<'_>, drives: &Drives, drive: usize) -> Result<[Writes; 3], String> {
    let adopt = newcomer(drives, drive).adopt;
    let metadata = array.metadata_of_spare(&adopt).map_err(|error| error.to_string())?;
    Ok(steps(drives, drive, metadata))
}

/// Prepares a drive that is to join a leaf: it returns to its slot by the bitmap where that is possible; otherwise it becomes a
/// new spare, which replaces a member. `stale`: as a mutant does, regardless of what the drive missed.
///
/// # Errors
/// It may not join, with the reason.
pub fn prepare(
    node: &Node,
    leaf: usize,
    drives: &Drives,
    drive: usize,
    stale: bool,
    replaces: Option<MemberId>,
) -> Result<Prepared, JoinError> {
    let (new, request) = node.newcomer(leaf, newcomer(drives, drive), stale, replaces);
    let joining = node.coordinator().plan_join(&new, &request)?;
    assert_eq!(joining.array, node.index_of(leaf), "a drive joins the leaf that it was meant for");
    let (intended, mut candidate) = (joining.intended, new.candidate.clone());
    if let Some(metadata) = joining.writes {
        for (start_sector, data) in steps(drives, drive, metadata).iter().flatten() {
            drives[drive].borrow_mut().put(*start_sector, data);
        }
        candidate = candidate_of(drive, &drives[drive].borrow());
    }
    let ready = Ready::new(drive, &drives[drive], &candidate);
    Ok(Prepared { new, intended, request, ready })
}
