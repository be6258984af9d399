//! Arrays on drives in memory: found, opened, replayed, used and stopped as `stria-host` does it, in virtual time.

use super::support::MemoryDrive;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stria_array::{
    AppendTerms, ArrayConfig, ArrayDevice, ArrayState, Command, Geometry, LaneLog, LogRecord, MemberId, MemberSector,
    MetadataWrite, Recorder,
};
use stria_block::{BlockDevice, Buffer, Completion, IoError, Limits, Nanos, Operation, Request, bytes};
use stria_format::md::assemble::Assembly;
use stria_format::md::{Candidate, LogLayout, MdLog, MdRecorder, Opened, Options, assemble};
use stria_integrity::IntegrityDevice;

/// Far beyond the longest of these histories.
const TURNS_MAX: u64 = 100_000;

/// A drive in memory as a device.
pub struct Device {
    drive: Rc<RefCell<MemoryDrive>>,
    power: Power,
    limits: Limits,
    /// With the time at which each ends: no drive answers before it was asked.
    ended: Vec<(Nanos, Completion)>,
    now: Nanos,
}

/// 10 µs.
const LATENCY: Nanos = 10_000;

/// The writes that the drives of a world still accept.
#[derive(Clone)]
pub struct Power {
    /// Sectors, on all drives together. Later writes are lost without an error.
    pub left: Rc<Cell<u64>>,
    /// No byte at all may be written.
    pub frozen: Rc<Cell<bool>>,
}

impl BlockDevice for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, mut request: Request) {
        request.check(&self.limits).unwrap_or_else(|error| panic!("a member was asked for what it does not have: {error}"));
        let mut drive = self.drive.borrow_mut();
        let mut write = |start: u64, bytes: &[u8]| {
            assert!(!self.power.frozen.get(), "{} was written at sector {start} though nothing may be", drive.name);
            for (sector, data) in (start..).zip(bytes.chunks(512)) {
                if self.power.left.get() > 0 {
                    self.power.left.set(self.power.left.get() - 1);
                    drive.write(sector, data);
                }
            }
        };
        let mut result = Ok(());
        match &mut request.operation {
            Operation::Write { from, .. } => {
                let mut start = request.start_sector;
                for data in from {
                    write(start, data);
                    start += data.len() as u64 / 512;
                }
            }
            Operation::WriteZeroes { .. } => write(request.start_sector, &vec![0; bytes(request.sectors)]),
            Operation::Read { into } => {
                let mut start = request.start_sector;
                for buffer in into {
                    let sectors = buffer.len() as u64 / 512;
                    match drive.read(start, sectors) {
                        Ok(bytes) => buffer.copy_from_slice(&bytes),
                        Err(error) => result = Err(error),
                    }
                    start += sectors;
                }
            }
            Operation::Flush | Operation::Extents { .. } => {}
        }
        drop(drive);
        self.ended.push((self.now + LATENCY, request.complete(result)));
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = now;
        let due = self.ended.iter().take_while(|(due, _)| *due <= now).count();
        completions.extend(self.ended.drain(..due).map(|(_, completion)| completion));
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.ended.first().map(|(due, _)| *due)
    }
}

/// The position of a member's data, and the size of its drive.
type Bounds = Arc<Vec<(Range<u64>, u64)>>;

/// Watches the recorder: it writes metadata neither into data nor beyond a drive.
#[derive(Clone)]
pub struct Watched {
    recorder: MdRecorder,
    bounds: Bounds,
}

fn look(bounds: &Bounds, write: &MetadataWrite) {
    let Some((data, size_sectors)) = bounds.get(write.member.0) else { return };
    let start = write.start_sector.get();
    let end = start + write.data.len() as u64 / 512;
    let what = || format!("metadata of member {} go to sectors {start}..{end}", write.member.0);
    assert!(end <= *size_sectors, "{}, and it has {size_sectors}", what());
    assert!(end <= data.start || start >= data.end, "{}, and its data lie at {data:?}", what());
}

impl Watched {
    fn look(&self, writes: Vec<MetadataWrite>) -> Vec<MetadataWrite> {
        writes.iter().for_each(|write| look(&self.bounds, write));
        writes
    }
}

impl Recorder for Watched {
    type Log = WatchedLog;
    type Newcomer = ();

    fn rewrite_last_update(&mut self) -> Vec<MetadataWrite> {
        let writes = self.recorder.rewrite_last_update();
        self.look(writes)
    }
    fn record_state(&mut self, state: &ArrayState, unix_seconds: u64) -> Vec<MetadataWrite> {
        let writes = self.recorder.record_state(state, unix_seconds);
        self.look(writes)
    }
    fn record_intent(&mut self, set: &[u64], clear: &[u64]) -> Vec<MetadataWrite> {
        let writes = self.recorder.record_intent(set, clear);
        self.look(writes)
    }
    fn record_bad_blocks(
        &mut self,
        member: MemberId,
        blocks: &[Range<MemberSector>],
        unix_seconds: u64,
    ) -> Option<Vec<MetadataWrite>> {
        let writes = Recorder::record_bad_blocks(&mut self.recorder, member, blocks, unix_seconds)?;
        Some(self.look(writes))
    }
    fn reset_log(&mut self) -> Vec<MetadataWrite> {
        let writes = self.recorder.reset_log();
        self.look(writes)
    }
    fn log_layout(&self) -> (LogLayout, Bounds) {
        (self.recorder.log_layout(), Arc::clone(&self.bounds))
    }
}

#[derive(Default)]
pub struct WatchedLog {
    log: MdLog,
    bounds: Bounds,
}

impl LaneLog for WatchedLog {
    type Layout = (LogLayout, Bounds);

    fn set_layout(&mut self, lane: usize, (layout, bounds): Self::Layout) {
        self.log.set_layout(lane, layout);
        self.bounds = bounds;
    }
    fn append(&mut self, member: MemberId, records: &[LogRecord], terms: AppendTerms) -> Option<MetadataWrite> {
        let write = self.log.append(member, records, terms)?;
        look(&self.bounds, &write);
        Some(write)
    }
    fn append_failed(&mut self, member: MemberId) {
        self.log.append_failed(member);
    }
}

/// A running array.
pub struct Node {
    pub uuid: [u8; 16],
    pub config: ArrayConfig,
    pub device: ArrayDevice<Watched>,
    pub spans: Vec<Node>,
    checked: Vec<IntegrityDevice<Device>>,
}

impl Node {
    pub fn geometry(&self) -> &Geometry {
        &self.config.geometry
    }

    /// This array and all below it.
    pub fn each(&self, what: &mut impl FnMut(&Node)) {
        self.spans.iter().for_each(|span| span.each(what));
        what(self);
    }
}

/// The drive or array that a member is.
enum Source {
    Drive(usize),
    Span(Box<Node>),
}

/// Drives, and the time.
pub struct World {
    pub drives: Vec<Rc<RefCell<MemoryDrive>>>,
    pub power: Power,
    /// Arrays that were refused, and drives without an array, in words.
    pub refusals: Vec<String>,
    /// The start of virtual time.
    pub unix_seconds: u64,
    now: Nanos,
    turns: u64,
}

impl World {
    pub fn new(drives: &[MemoryDrive], left: u64) -> Self {
        let power = Power { left: Rc::new(Cell::new(left)), frozen: Rc::default() };
        let drives = drives.iter().map(|drive| Rc::new(RefCell::new(drive.clone()))).collect();
        Self { drives, power, refusals: Vec::new(), unix_seconds: 1_700_000_000, now: 0, turns: 0 }
    }

    pub fn images(&self) -> Vec<MemoryDrive> {
        self.drives.iter().map(|drive| drive.borrow().clone()).collect()
    }

    /// The arrays on the drives, opened read-only, as `host` does it. `above`: with the arrays on those that are marked as spans;
    /// `nested`: on all.
    pub fn open(&mut self, how: &Options, above: bool, nested: bool) -> Vec<Node> {
        let read = |drive: &Rc<RefCell<MemoryDrive>>| drive.borrow().candidate();
        let mut candidates: Vec<Candidate> = self.drives.iter().map(read).collect();
        let mut sources: Vec<Option<Source>> = (0..candidates.len()).map(|index| Some(Source::Drive(index))).collect();
        let mut tops = Vec::new();
        for depth in 0.. {
            let (assemblies, strangers) = assemble(&candidates, &Options { read_only: true, ..*how });
            self.refusals.extend(strangers.iter().map(ToString::to_string));
            let (mut next, mut next_sources) = (Vec::new(), Vec::new());
            for assembly in assemblies {
                let Some(mut node) = self.bind(&assembly, &candidates, &mut sources) else { continue };
                let found = match assembly.freshest.span_of {
                    _ if !above => None,
                    Some(upper_uuid) => Some(self.look_at(&mut node, Some(upper_uuid))),
                    None if nested && depth == 0 => Some(self.look_at(&mut node, None)).filter(|above| above.found.is_ok()),
                    None => None,
                };
                match found {
                    None => tops.push(node),
                    Some(candidate) => match &candidate.found {
                        Ok(_) => {
                            next.push(candidate);
                            next_sources.push(Some(Source::Span(Box::new(node))));
                        }
                        Err(error) => self.refusals.push(error.to_string()),
                    },
                }
            }
            if next.is_empty() {
                break;
            }
            (candidates, sources) = (next, next_sources);
        }
        tops
    }

    fn bind(&mut self, assembly: &Assembly, candidates: &[Candidate], sources: &mut [Option<Source>]) -> Option<Node> {
        let start = match &assembly.outcome {
            Ok(start) => start.clone(),
            Err(error) => {
                self.refusals.push(error.to_string());
                return None;
            }
        };
        let (mut devices, mut spans, mut checked) = (Vec::<Box<dyn BlockDevice>>::new(), Vec::new(), Vec::new());
        let mut bounds = Vec::new();
        for &index in &start.drives {
            let (candidate, source) = (&candidates[index], sources[index].take().expect("each drive is one member"));
            let member = candidate.found.as_ref().expect("a member was found there");
            let header = &member.superblock.header;
            bounds.push((header.data_offset..header.data_offset + header.data_size, candidate.size_sectors));
            let drive = match source {
                Source::Span(node) => {
                    devices.push(Box::new(node.device.clone()));
                    spans.push(*node);
                    continue;
                }
                Source::Drive(drive) => Rc::clone(&self.drives[drive]),
            };
            let limits = Limits::plain(drive.borrow().size_sectors);
            let device = Device { drive, power: self.power.clone(), limits, ended: Vec::new(), now: self.now };
            let Some(sums) = &member.checksums else {
                devices.push(Box::new(device));
                continue;
            };
            match sums.open(77) {
                Ok(Opened { header, first }) => {
                    let read_only = self.power.frozen.get();
                    if let Some((sector, bytes)) = first.filter(|_| !read_only) {
                        device.drive.borrow_mut().write(sector, &bytes);
                    }
                    let device = IntegrityDevice::new(device, candidate.name.as_str(), header, read_only);
                    checked.push(device.clone());
                    devices.push(Box::new(device));
                }
                Err(error) => {
                    self.refusals.push(error.to_string());
                    return None;
                }
            }
        }
        let recorder = Watched { recorder: start.recorder, bounds: Arc::new(bounds) };
        let device = ArrayDevice::new(&start.config, devices, recorder, self.unix_seconds);
        device.with_engine(|engine| engine.pause(true));
        Some(Node { uuid: assembly.uuid, config: start.config, device, spans, checked })
    }

    /// The array above an array.
    fn look_at(&mut self, node: &mut Node, upper_uuid: Option<[u8; 16]>) -> Candidate {
        let limits = node.device.limits().clone();
        let mut read = |start: u64, sectors: u64| self.read(node, start, sectors);
        let (size, block) = (limits.size_sectors, limits.logical_block_bytes);
        match upper_uuid {
            Some(uuid) => Candidate::read_span("span", size, block, &uuid, &mut read),
            None => Candidate::read("span", size, block, &mut read),
        }
    }

    /// Runs an array until the next event.
    pub fn turn(&mut self, node: &mut Node, ended: &mut Vec<Completion>) {
        node.device.poll(self.now, ended);
        self.now = self.now.max(node.device.next_wake().unwrap_or(0));
        self.turns += 1;
        assert!(self.turns < TURNS_MAX, "it goes on for {TURNS_MAX} turns, and there is no end");
    }

    pub fn request(&mut self, node: &mut Node, start_sector: u64, sectors: u64, operation: Operation) -> Completion {
        node.device.submit(Request { tag: 7, start_sector, sectors, operation });
        let mut ended = Vec::new();
        while ended.is_empty() {
            self.turn(node, &mut ended);
        }
        ended.pop().expect("one has ended")
    }

    pub fn read(&mut self, node: &mut Node, start: u64, sectors: u64) -> Result<Vec<u8>, IoError> {
        let into = std::iter::once(Buffer::zeroed(bytes(sectors))).collect();
        let completion = self.request(node, start, sectors, Operation::Read { into });
        completion.result?;
        let Operation::Read { into } = completion.operation else { unreachable!("a read") };
        Ok(into.iter().flat_map(|buffer| buffer.iter().copied()).collect())
    }

    pub fn write(&mut self, node: &mut Node, start: u64, data: &[u8]) -> Result<(), IoError> {
        let from = std::iter::once(Buffer::copy_of(data).freeze()).collect();
        self.request(node, start, data.len() as u64 / 512, Operation::Write { from, fua: false }).result
    }

    /// Stops the array, then the arrays below it.
    pub fn stop(&mut self, node: &mut Node) {
        node.device.begin(Command::Stop);
        while !node.device.has_stopped() {
            self.turn(node, &mut Vec::new());
        }
        node.checked.iter().for_each(IntegrityDevice::close);
        while node.checked.iter().any(|device| device.closed().is_none()) {
            self.turn(node, &mut Vec::new());
        }
        for mut span in node.spans.drain(..) {
            self.stop(&mut span);
        }
    }
}

/// Makes an array writable, the arrays below it first.
pub fn activate(node: &Node) {
    node.spans.iter().for_each(activate);
    node.device.with_engine(|engine| engine.set_read_only(false));
}
