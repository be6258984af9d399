//! A lane answers every request exactly once, in every case, and sleeps when there is nothing to do.

mod common;

use common::Folder;
use std::collections::HashSet;
use std::io::{ErrorKind as ErrorKindOfIo, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use stria_block::{
    BlockDevice, Buffer, Completion, ErrorKind, KeepOn, LaneClient, Limits, Mailbox, Nanos, Operation, RamDevice, RemoteDevice,
    Request, Segments,
};
use stria_chance::Chance;
use stria_drive::{Access, DriveError, Lane, LaneHandle, LaneRouter, PanicGroup, SyncDrive, monotonic_now};

/// A thread that sends requests and waits.
struct Client {
    remote: Arc<dyn RemoteDevice>,
    reply: Arc<Mailbox<Completion>>,
}

impl Client {
    fn new(remote: Arc<dyn RemoteDevice>) -> Self {
        let thread = std::thread::current();
        Self { remote, reply: Arc::new(Mailbox::new(move || thread.unpark())) }
    }

    fn submit(&self, requests: impl IntoIterator<Item = Request>) {
        self.remote.submit(&mut requests.into_iter().collect(), &self.reply);
    }

    /// Waits for some answers.
    fn answers(&self) -> Vec<Completion> {
        let mut ended = Vec::new();
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            self.reply.take(&mut ended);
            if !ended.is_empty() {
                return ended;
            }
            assert!(Instant::now() < end, "an answer comes within 20 s");
            if self.reply.prepare_sleep() {
                std::thread::park_timeout(Duration::from_secs(1));
                self.reply.awake();
            }
        }
    }
}

fn read(tag: u64, start_sector: u64) -> Request {
    let into = Segments::from_iter([Buffer::zeroed(512)]);
    Request { tag, start_sector, sectors: 1, operation: Operation::Read { into } }
}

fn write(tag: u64, start_sector: u64, byte: u8) -> Request {
    let mut buffer = Buffer::zeroed(512);
    buffer.fill(byte);
    let from = Segments::from_iter([buffer.freeze()]);
    Request { tag, start_sector, sectors: 1, operation: Operation::Write { from, fua: false } }
}

fn ram_lane() -> LaneHandle<RamDevice> {
    Lane::new("ram").spawn(|_| Ok::<_, DriveError>(RamDevice::new(4096))).unwrap()
}

/// A device that holds the requests it gets, and panics on command.
struct Keeper {
    limits: Limits,
    kept: Vec<Request>,
    panics: bool,
    wake: Option<Nanos>,
    polls: u64,
}

impl Keeper {
    fn new() -> Self {
        Self { limits: Limits::plain(4096), kept: Vec::new(), panics: false, wake: None, polls: 0 }
    }
}

impl BlockDevice for Keeper {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn submit(&mut self, request: Request) {
        self.kept.push(request);
    }
    fn poll(&mut self, now: Nanos, _completions: &mut Vec<Completion>) {
        assert!(!self.panics, "told to panic (this message belongs to a test that passes)");
        self.polls += 1;
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
        }
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.wake
    }
}

/// Several clients with the same tags write and read their own part of one drive.
fn clients_get_their_own<D: BlockDevice + 'static>(lane: &LaneHandle<D>, rounds: u64) {
    std::thread::scope(|scope| {
        for client_index in 0..4u64 {
            let remote = lane.remote();
            scope.spawn(move || {
                let client = Client::new(remote);
                let mut chance = Chance::from_state(client_index);
                let mut bytes = [0u8; 64];
                for _ in 0..rounds {
                    let writes: Vec<_> = (0..64).filter(|_| chance.below(2) == 0).collect();
                    let sector = |index: usize| client_index * 64 + index as u64;
                    for &index in &writes {
                        bytes[index] = chance.any() as u8;
                    }
                    let mut open: HashSet<u64> = writes.iter().map(|&index| index as u64).collect();
                    client.submit(writes.iter().map(|&index| write(index as u64, sector(index), bytes[index])));
                    while !open.is_empty() {
                        for completion in client.answers() {
                            completion.result.unwrap();
                            assert!(open.remove(&completion.tag), "an answer for each request, once");
                        }
                    }
                    client.submit((0..64).map(|index| read(index as u64, sector(index))));
                    let mut open: HashSet<u64> = (0..64).collect();
                    while !open.is_empty() {
                        for completion in client.answers() {
                            completion.result.unwrap();
                            assert!(open.remove(&completion.tag), "an answer for each request, once");
                            let Operation::Read { into } = completion.operation else { panic!("the operation comes back") };
                            assert!(into[0].iter().all(|&byte| byte == bytes[completion.tag as usize]));
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn clients_on_a_ram_device_get_their_own_answers() {
    let lane = ram_lane();
    clients_get_their_own(&lane, 200);
    lane.stop().unwrap();
}

#[test]
fn clients_on_a_file_get_their_own_answers() {
    let folder = Folder::on_disk();
    let drive = SyncDrive::open(&folder.file("member", 1 << 20), Access::Exclusive).unwrap();
    let lane = Lane::new("file").spawn(move |ring| Ok::<_, DriveError>(stria_drive::FileDrive::new(drive, ring))).unwrap();
    clients_get_their_own(&lane, 50);
    lane.stop().unwrap();
}

#[test]
fn requests_after_the_end_are_answered_with_errors() {
    let lane = ram_lane();
    let client = Client::new(lane.remote());
    lane.stop().unwrap();
    lane.stop().expect("again is harmless");
    assert!(!lane.is_running());
    client.submit([read(1, 0), read(2, 8)]);
    let answers = client.answers();
    assert_eq!(answers.iter().map(|answer| answer.tag).collect::<Vec<_>>(), [1, 2]);
    let error = answers[0].result.as_ref().unwrap_err();
    assert_eq!((error.kind, &**error.context), (ErrorKind::Gone, "ram has stopped; start it again"));
    assert!(lane.call(|_| ()).is_err());
}

#[test]
fn requests_that_race_with_the_end_are_answered_once() {
    for round in 0..200 {
        let lane = ram_lane();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let remote = lane.remote();
                scope.spawn(move || {
                    let client = Client::new(remote);
                    let mut answers = Vec::new();
                    let mut refused = false;
                    let mut sent = 0;
                    while !refused {
                        client.submit((0..3).map(|index| read(sent + index, 0)));
                        sent += 3;
                        let fresh = client.answers();
                        refused = fresh.iter().any(|answer| answer.result.is_err());
                        answers.extend(fresh);
                    }
                    while answers.len() < sent as usize {
                        answers.extend(client.answers());
                    }
                    let tags: HashSet<_> = answers.iter().map(|answer| answer.tag).collect();
                    assert_eq!((tags.len(), answers.len()), (sent as usize, sent as usize));
                });
            }
            std::thread::sleep(Duration::from_micros(round * 5));
            lane.stop().unwrap();
        });
    }
}

#[test]
fn stop_waits_for_what_was_submitted() {
    let lane = Lane::new("slow").spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    let client = Client::new(lane.remote());
    client.submit([read(1, 0)]);
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| lane.stop());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!stop.is_finished() && lane.is_running(), "a request is open");
        client.submit([read(2, 0)]);
        assert_eq!(client.answers()[0].tag, 2, "a late request is refused at once");
        // The device ends such a request only on command.
        let _ = lane.call(|device| device.panics = true);
        assert!(stop.join().unwrap().is_err());
        assert_eq!(client.answers()[0].tag, 1);
    });
}

#[test]
fn panic_of_the_device_answers_everything() {
    let lane = Lane::new("panic").spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    let client = Client::new(lane.remote());
    client.submit((10..20).map(|tag| read(tag, tag)));
    assert_eq!(lane.call(|device| device.kept.len()).unwrap(), 10);
    let _ = lane.call(|device| device.panics = true);
    let mut answers = Vec::new();
    while answers.len() < 10 {
        answers.extend(client.answers());
    }
    for (answer, tag) in answers.iter().zip(10..) {
        assert_eq!(answer.tag, tag);
        assert_eq!(answer.result.as_ref().unwrap_err().kind, ErrorKind::Gone);
        assert!(matches!(&answer.operation, Operation::Read { into } if into.is_empty()), "its memory is lost");
    }
    let end = lane.stop().unwrap_err();
    assert_eq!(end.to_string(), "lane panic broke off on an internal error (a panic, see the log)");
    client.submit([read(1, 0)]);
    assert!(client.answers()[0].result.is_err());
}

/// Holds the lane in a call, sends what makes it break off, and a request and a call behind that, which the lane takes in one
/// batch.
fn requests_behind_the_end_are_answered(break_off: impl FnOnce(&LaneHandle<Keeper>), lane: &LaneHandle<Keeper>) {
    let client = Client::new(lane.remote());
    client.submit([read(1, 0)]);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (held, is_held) = std::sync::mpsc::channel();
        let hold = scope.spawn(move || {
            lane.call(move |_| {
                held.send(()).unwrap();
                wait.recv()
            })
        });
        is_held.recv().unwrap();
        break_off(lane);
        client.submit([read(2, 0), read(3, 0)]);
        let call = scope.spawn(|| lane.call(|_| ()));
        // The call is a message of the same batch, if its thread is quick; else the lane has ended, which it is told as well.
        std::thread::sleep(Duration::from_millis(50));
        drop(go);
        assert!(hold.join().unwrap().is_ok(), "it ran before");
        let mut answers = Vec::new();
        while answers.len() < 3 {
            answers.extend(client.answers());
        }
        let tags: HashSet<_> = answers.iter().map(|answer| answer.tag).collect();
        assert_eq!((tags, answers.len()), (HashSet::from([1, 2, 3]), 3), "each once");
        assert!(answers.iter().all(|answer| answer.result.as_ref().is_err_and(|error| error.kind == ErrorKind::Gone)));
        assert!(call.join().unwrap().unwrap_err().panicked);
    });
}

#[test]
fn requests_behind_a_panic_are_answered() {
    let lane = Lane::new("batch").spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    let panics = |lane: &LaneHandle<Keeper>| {
        let panic = |_: &mut Keeper| panic!("told to panic (this message belongs to a test that passes)");
        assert!(lane.call_within(Duration::ZERO, panic).unwrap().is_none());
    };
    requests_behind_the_end_are_answered(panics, &lane);
}

#[test]
fn requests_behind_the_break_off_of_another_lane_are_answered() {
    let group = PanicGroup::default();
    let lane = |name: &str| Lane::new(name).bound_by(&group).spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    let (one, other) = (lane("one"), lane("other"));
    let breaks_off = |_: &LaneHandle<Keeper>| {
        let _ = one.call(|device| device.panics = true);
        assert!(one.stop().is_err());
    };
    requests_behind_the_end_are_answered(breaks_off, &other);
}

#[test]
fn lanes_that_are_bound_break_off_together() {
    let group = PanicGroup::default();
    let lane = |name: &str| Lane::new(name).bound_by(&group).spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    let (one, other, alone) = (lane("one"), lane("other"), Lane::new("alone").spawn(|_| Ok::<_, DriveError>(Keeper::new())));
    let client = Client::new(other.remote());
    client.submit([read(1, 0)]);
    let _ = one.call(|device| device.panics = true);
    assert_eq!(client.answers()[0].result.as_ref().unwrap_err().kind, ErrorKind::Gone);
    assert_eq!(other.stop().unwrap_err().to_string(), "lane other broke off on an internal error (a panic, see the log)");
    assert!(alone.unwrap().stop().is_ok(), "others go on");
}

#[test]
fn requests_are_dealt_out_to_the_lanes_that_own_them() {
    let lanes: Vec<_> = (0..3).map(|_| Lane::new("part").spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap()).collect();
    let remotes = || lanes.iter().map(LaneHandle::remote).collect();
    let took = || -> Vec<Vec<u64>> {
        let kept = |device: &mut Keeper| device.kept.drain(..).map(|request| request.start_sector).collect();
        lanes.iter().map(|lane| lane.call(kept).unwrap()).collect()
    };
    let client = Client::new(Arc::new(LaneRouter::new(remotes(), Some(8))));
    client.submit((0..40).step_by(4).map(|sector| read(sector, sector)));
    client.submit([read(1, 20), read(2, 23)]);
    assert_eq!(took(), [vec![0, 4, 24, 28], vec![8, 12, 32, 36], vec![16, 20, 20, 23]]);
    let client = Client::new(Arc::new(LaneRouter::new(remotes(), None)));
    (0..6).for_each(|tag| client.submit([read(tag, tag)]));
    assert_eq!(took(), [[0, 3], [1, 4], [2, 5]], "in turn where nobody owns anything");
    // They are never ended.
    lanes.iter().for_each(|lane| drop(lane.call(|device| device.panics = true)));
}

#[test]
fn guests_are_dealt_out_to_the_lanes_that_have_the_fewest() {
    let lane = |_| Lane::new("inn").takes_clients(true).spawn(|_| Ok::<_, DriveError>(RamDevice::new(8))).unwrap();
    let lanes: Vec<_> = (0..3).map(lane).collect();
    let counts: Vec<Arc<Housed>> = lanes.iter().map(|lane| Arc::new(Housed(lane.remote(), AtomicUsize::new(0)))).collect();
    let router = LaneRouter::new(counts.iter().map(|lane| Arc::<Housed>::clone(lane) as Arc<dyn RemoteDevice>).collect(), None);
    let house = || {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        assert!(router.take_in(Box::new(Echo::new(near))).is_ok());
        far
    };
    let housed = || counts.iter().map(|lane| lane.1.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let mut peers: Vec<UnixStream> = (0..6).map(|_| house()).collect();
    assert_eq!(housed(), [2, 2, 2]);
    // Both clients of one lane leave, so the next clients go to that lane.
    let leaving = [peers.remove(4), peers.remove(1)];
    for peer in leaving {
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!((&peer).read(&mut [0]).unwrap(), 0);
    }
    peers.extend([house(), house()]);
    assert_eq!(housed(), [2, 4, 2]);
}

/// A lane that counts its on-lane clients.
struct Housed(Arc<dyn RemoteDevice>, AtomicUsize);

impl RemoteDevice for Housed {
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn submit(&self, requests: &mut Vec<Request>, reply: &Arc<Mailbox<Completion>>) {
        self.0.submit(requests, reply);
    }
    fn take_in(&self, client: Box<dyn LaneClient>) -> Result<(), Box<dyn LaneClient>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.take_in(client)
    }
}

#[test]
fn error_of_the_builder_is_returned() {
    let error = Lane::new("none").spawn(|ring| stria_drive::open("/nowhere".as_ref(), ring, Access::Exclusive)).err().unwrap();
    assert!(matches!(error, DriveError::Missing { .. }), "{error}");
    let error = Lane::new("far").on_cpus(vec![1_000_000]).spawn(|_| Ok::<_, DriveError>(RamDevice::new(8))).err().unwrap();
    assert!(error.to_string().starts_with("lane far cannot run on the processor asked for"), "{error}");
}

#[test]
fn lane_runs_where_it_is_told() {
    let lane = Lane::new("zero").on_cpus(vec![0]).spawn(|_| Ok::<_, DriveError>(RamDevice::new(8))).unwrap();
    let cpus = lane.call(|_| rustix::thread::sched_getaffinity(None).unwrap()).unwrap();
    assert!(cpus.is_set(0) && cpus.count() == 1);
}

#[test]
fn idle_lane_sleeps() {
    let lane = Lane::new("idle").spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    let used = |device: &mut Keeper| {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        (device.polls, time.tv_sec * 1_000_000_000 + time.tv_nsec)
    };
    let (polls_before, time_before) = lane.call(used).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let (polls_after, time_after) = lane.call(used).unwrap();
    assert!(time_after - time_before < 20_000_000, "{} ns of processor time in 300 ms of rest", time_after - time_before);
    // The calls before and after cause some spinning polls; a lane that does not sleep makes many thousand more.
    assert!(polls_after - polls_before < 2000, "{} polls", polls_after - polls_before);
}

#[test]
fn lane_wakes_when_its_device_is_due() {
    let lane = Lane::new("timer").spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    lane.call(|device| device.wake = Some(monotonic_now() + 30_000_000)).unwrap();
    let start = Instant::now();
    // The device clears its wake when it is polled in time; nothing else wakes the lane meanwhile.
    std::thread::sleep(Duration::from_millis(200));
    let left = lane.call(|device| (device.wake, device.polls)).unwrap();
    assert!(left.0.is_none(), "polled when due ({:?} later)", start.elapsed());
}

#[test]
fn dropped_handle_stops_the_lane_and_frees_the_drive() {
    let folder = Folder::on_disk();
    let path = folder.file("member", 1 << 20);
    let open = {
        let path = path.clone();
        move |ring: &stria_drive::Ring| stria_drive::open(&path, ring, Access::Exclusive)
    };
    let lane = Lane::new("once").spawn(open.clone()).unwrap();
    let client = Client::new(lane.remote());
    client.submit((0..64).map(|tag| write(tag, tag, 1)));
    assert!(Lane::new("twice").spawn(open.clone()).is_err(), "the drive is in use");
    drop(lane);
    let mut answers = client.answers();
    while answers.len() < 64 {
        answers.extend(client.answers());
    }
    assert!(answers.iter().all(|answer| answer.result.is_ok()), "what was submitted has ended");
    Lane::new("again").spawn(open).expect("the drive is free");
}

/// Reads a sector for each byte that it receives, and sends back what it read.
struct Echo(UnixStream, Arc<OwnedFd>);

impl Echo {
    fn new(socket: UnixStream) -> Self {
        let watched = Arc::new(socket.try_clone().unwrap().into());
        Self(socket, watched)
    }
}

impl LaneClient for Echo {
    fn turn(&mut self, _: Nanos, _: bool, ended: &mut Vec<Completion>, requests: &mut Vec<Request>) -> KeepOn {
        for completion in ended.drain(..) {
            let Operation::Read { into } = completion.operation else { panic!("a read comes back as one") };
            self.0.write_all(&[into[0][0]]).unwrap();
        }
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(0) => return KeepOn::Leave,
            Ok(_) if byte[0] == 99 => panic!("told to panic (this message belongs to a test that passes)"),
            Ok(_) => {
                requests.push(read(7, u64::from(byte[0])));
                return KeepOn::Again;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKindOfIo::WouldBlock),
        }
        KeepOn::Wait { readable: true, writable: false, until: None }
    }

    fn socket(&self) -> &Arc<OwnedFd> {
        &self.1
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.0.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

#[test]
fn guests_get_their_own_answers_and_one_that_panics_goes_alone() {
    let lane = Lane::new("inn").takes_clients(true).spawn(|_| Ok::<_, DriveError>(RamDevice::new(256))).unwrap();
    let client = Client::new(lane.remote());
    client.submit((0..256).map(|sector| write(sector, sector, sector as u8)));
    let mut written = client.answers().len();
    while written < 256 {
        written += client.answers().len();
    }
    let mut peers: Vec<UnixStream> = (0..20)
        .map(|_| {
            let (near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert!(lane.remote().take_in(Box::new(Echo::new(near))).is_ok());
            far
        })
        .collect();
    let mut chance = Chance::from_state(1);
    let mut answer = [0; 3];
    for _ in 0..2000 {
        let peer = &mut peers[chance.below(20) as usize];
        let asked = [0, 1, 2].map(|_| chance.below(98) as u8);
        peer.write_all(&asked).unwrap();
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(answer, asked);
    }
    let mut unlucky = peers.remove(3);
    unlucky.write_all(&[99]).unwrap();
    assert_eq!(unlucky.read(&mut answer).unwrap(), 0, "it was disconnected");
    peers[0].write_all(&[5]).unwrap();
    peers[0].read_exact(&mut answer[..1]).unwrap();
    lane.stop().unwrap();
    assert_eq!(peers[0].read(&mut answer).unwrap(), 0, "the lane has ended");
    let apart = Lane::new("full").takes_clients(false).spawn(|_| Ok::<_, DriveError>(RamDevice::new(8))).unwrap();
    let (near, _far) = UnixStream::pair().unwrap();
    assert!(apart.remote().take_in(Box::new(Echo::new(near))).is_err());
}

#[test]
fn lane_that_polls_takes_its_processor_and_still_answers() {
    let lane = Lane::new("busy").spin_max(Duration::MAX).spawn(|_| Ok::<_, DriveError>(Keeper::new())).unwrap();
    let before = lane.call(|device| device.polls).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(lane.call(|device| device.polls).unwrap() - before > 10_000, "it does not sleep");
    lane.stop().unwrap();
}
