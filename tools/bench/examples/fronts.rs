//! The cost of each front for a request of 4 KiB, beside the engine's, on members that do nothing: for `bench/fronts/run`.
//!
//! `cargo run --release -p stria-bench --example fronts [RUN_MS [ROUNDS]]` prints CSV: medians of batches, in nanoseconds a
//! request. `fronts count FRONT ARRAY KIND DEPTH BATCHES` runs BATCHES batches of one case, so that callgrind counts the
//! instructions of `front_part` and `engine_part`.
//!
//! One thread plays the client, gives the front its turns and polls the array, as a lane does. Only turns of the front and work
//! of the array are timed. A batch is `depth` requests in flight at once: with members that do nothing all end in the same poll.
//! The client of vhost-user is a driver that writes rings in memory (`stria_testkit`), that of NBD a unix socket, and that of
//! ublk a file in memory in place of the kernel's driver (`stria_front::ublk::stand_in`), which refuses the driver's commands.
//! The kernel's work in the system calls of a turn is included; the rows "system calls of ublk" have those calls alone. The cost
//! of a lane's sleep and wake-up is not included.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stria_array::Level;
use stria_bench::{NullDevice, array_over};
use stria_block::{BlockDevice, Completion, KeepOn, LaneClient, Limits, Mailbox, Nanos, RemoteDevice, Request};
use stria_front::ublk::stand_in::{self, Ask};
use stria_front::{Export, Listener, Options, Server, ServerHandle, SocketAccess, VhostUserDisk, VhostUserServer};
use stria_host::ArrayLevel;
use stria_testkit::vhost_user::{self, Machine};

const MEMBER_SECTORS: u64 = 64 << 11;
const BLOCK_BYTES: usize = 4096;
const BLOCK_SECTORS: u64 = 8;
const FRONTS: [&str; 3] = ["ublk", "vhost-user", "NBD"];
const ARRAYS: [(&str, Level, usize); 2] = [("RAID 0 of 4", Level::Raid0, 4), ("RAID 5 of 4", Level::Raid5, 4)];
const DEPTHS: [u16; 2] = [1, 32];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Stores the on-lane clients that a server would give to the array's lane.
struct Catch {
    limits: Limits,
    clients: Mutex<Sender<Box<dyn LaneClient>>>,
}

impl RemoteDevice for Catch {
    fn limits(&self) -> Limits {
        self.limits.clone()
    }
    fn submit(&self, _: &mut Vec<Request>, _: &Arc<Mailbox<Completion>>) {
        unreachable!("on-lane clients are given the array's answers by hand");
    }
    fn take_in(&self, client: Box<dyn LaneClient>) -> Result<(), Box<dyn LaneClient>> {
        self.clients.lock().expect("one thread sends").send(client).map_err(|lost| lost.0)
    }
}

fn catch(limits: &Limits) -> (Arc<dyn RemoteDevice>, Receiver<Box<dyn LaneClient>>) {
    let (sender, clients) = channel();
    (Arc::new(Catch { limits: limits.clone(), clients: Mutex::new(sender) }), clients)
}

/// Random positions, aligned to a block.
struct Positions {
    state: u64,
    blocks: u64,
}

impl Positions {
    fn new(limits: &Limits) -> Self {
        Self { state: 1, blocks: limits.size_sectors / BLOCK_SECTORS }
    }

    fn next(&mut self) -> u64 {
        // Knuth's MMIX; the upper bits are the good ones.
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % self.blocks * BLOCK_SECTORS
    }
}

/// The client's side of a front.
trait Client {
    /// Sends a batch.
    fn send(&mut self, depth: u16) -> Outcome<()>;
    /// Takes answers; true once the batch has all of them.
    fn has_all(&mut self) -> Outcome<bool>;
}

/// The stand-in for ublk's driver makes the next request of each tag itself.
struct OfItself;

impl Client for OfItself {
    fn send(&mut self, _: u16) -> Outcome<()> {
        Ok(())
    }
    fn has_all(&mut self) -> Outcome<bool> {
        Ok(true)
    }
}

struct Virtual {
    machine: Machine,
    write: bool,
    positions: Positions,
    slots: Vec<u16>,
    _server: VhostUserServer,
    _folder: tempfile::TempDir,
}

impl Client for Virtual {
    fn send(&mut self, depth: u16) -> Outcome<()> {
        for _ in 0..depth {
            let sector = self.positions.next();
            self.slots.push(match self.write {
                true => self.machine.send(0, vhost_user::WRITE, sector, &[7; BLOCK_BYTES], 0),
                false => self.machine.send(0, vhost_user::READ, sector, &[], BLOCK_BYTES),
            });
        }
        Ok(())
    }
    fn has_all(&mut self) -> Outcome<bool> {
        if self.machine.open(0) > 0 {
            return Ok(false);
        }
        for slot in self.slots.drain(..) {
            if self.machine.wait(0, slot) != 0 {
                return Err("a request of the virtual machine failed".into());
            }
        }
        Ok(true)
    }
}

struct OverNbd {
    stream: UnixStream,
    write: bool,
    positions: Positions,
    output: Vec<u8>,
    input: Vec<u8>,
    expected_bytes: usize,
    _server: ServerHandle,
    _folder: tempfile::TempDir,
}

impl OverNbd {
    fn new(limits: &Limits, write: bool) -> Outcome<(Self, Box<dyn LaneClient>)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let (device, clients) = catch(limits);
        let export = Export { name: String::new(), description: String::new(), device, read_only: false };
        let server = Server::start(vec![Listener::Unix(path.clone())], vec![export], Options::default())?;
        let mut stream = UnixStream::connect(&path)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, 4 << 20)?;
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        stream.read_exact(&mut [0; 10])?;
        let lane_client = clients.recv()?;
        stream.set_nonblocking(true)?;
        let input = vec![0; 1 << 20];
        let positions = Positions::new(limits);
        let client =
            Self { stream, write, positions, output: Vec::new(), input, expected_bytes: 0, _server: server, _folder: folder };
        Ok((client, lane_client))
    }
}

impl Client for OverNbd {
    fn send(&mut self, depth: u16) -> Outcome<()> {
        self.output.clear();
        for cookie in 0..depth {
            self.output.extend([0x25, 0x60, 0x95, 0x13, 0, 0, 0, u8::from(self.write)]);
            self.output.extend(u64::from(cookie).to_be_bytes());
            self.output.extend((self.positions.next() * 512).to_be_bytes());
            self.output.extend((BLOCK_BYTES as u32).to_be_bytes());
            if self.write {
                self.output.extend([7; BLOCK_BYTES]);
            }
        }
        self.expected_bytes = usize::from(depth) * (16 + if self.write { 0 } else { BLOCK_BYTES });
        Ok(self.stream.write_all(&self.output)?)
    }
    fn has_all(&mut self) -> Outcome<bool> {
        while self.expected_bytes > 0 {
            match self.stream.read(&mut self.input) {
                Ok(0) => return Err("the server hung up".into()),
                Ok(bytes) => self.expected_bytes -= bytes,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.expected_bytes == 0)
    }
}

/// A front between its client and an array.
struct Case {
    /// Before the client, whose server waits for its end.
    lane_client: Box<dyn LaneClient>,
    client: Box<dyn Client>,
    array: Box<dyn BlockDevice>,
    began: Instant,
    /// This time may be ahead of the clock.
    now: Nanos,
    ended: Vec<Completion>,
    requests: Vec<Request>,
}

/// The front's work in one turn.
#[inline(never)]
fn front_part(
    lane_client: &mut dyn LaneClient,
    now: Nanos,
    signalled: bool,
    ended: &mut Vec<Completion>,
    requests: &mut Vec<Request>,
) -> KeepOn {
    lane_client.turn(now, signalled, ended, requests)
}

/// The array's work on the requests of one turn. Time jumps forward if the array waits for it, as it does before it writes to a
/// stripe that another write has just changed.
#[inline(never)]
fn engine_part(array: &mut dyn BlockDevice, now: &mut Nanos, requests: &mut Vec<Request>, ended: &mut Vec<Completion>) {
    let count = requests.len();
    requests.drain(..).for_each(|request| array.submit(request));
    while ended.len() < count {
        *now = array.next_wake().expect("something is in flight").max(*now);
        array.poll(*now, ended);
    }
}

impl Case {
    fn new(front: &str, level: Level, members: usize, write: bool, depth: u16) -> Outcome<Self> {
        let members = (0..members).map(|_| Box::new(NullDevice::new(MEMBER_SECTORS)) as Box<dyn BlockDevice>).collect();
        let (array, _) = array_over(ArrayLevel::Single(level), 128, members)?;
        let limits = array.limits().clone();
        let (client, lane_client): (Box<dyn Client>, _) = match front {
            "ublk" => {
                let mut positions = Positions::new(&limits);
                let starts: Vec<u64> = (0..depth).map(|_| positions.next()).collect();
                let ask = Ask { write, bytes: BLOCK_BYTES as u32 };
                (Box::new(OfItself), stand_in::queue(&limits, depth, ask, |tag| starts[usize::from(tag)])?)
            }
            "vhost-user" => {
                let folder = tempfile::tempdir()?;
                let path = folder.path().join("socket");
                let (device, clients) = catch(&limits);
                let disk = VhostUserDisk { name: "array".into(), serial: "0".into(), device, read_only: false };
                let server = VhostUserServer::prepare(path.clone(), SocketAccess::default(), disk)?;
                server.listen()?;
                let mut machine = Machine::new();
                machine.connect(&path);
                let positions = Positions::new(&limits);
                let client = Virtual { machine, write, positions, slots: Vec::new(), _server: server, _folder: folder };
                (Box::new(client), clients.recv()?)
            }
            "NBD" => {
                let (client, lane_client) = OverNbd::new(&limits, write)?;
                (Box::new(client), lane_client)
            }
            other => return Err(format!("no front \"{other}\": there are {FRONTS:?}").into()),
        };
        Ok(Self { lane_client, client, array, began: Instant::now(), now: 0, ended: Vec::new(), requests: Vec::new() })
    }

    /// One batch: the time of the front and of the array.
    fn batch(&mut self, depth: u16) -> Outcome<(Duration, Duration)> {
        self.client.send(depth)?;
        let (mut front, mut engine) = (Duration::ZERO, Duration::ZERO);
        let (mut signalled, mut count) = (true, 0);
        loop {
            let begin = Instant::now();
            self.now = self.now.max((begin - self.began).as_nanos() as Nanos);
            let stay =
                front_part(&mut *self.lane_client, self.now, std::mem::take(&mut signalled), &mut self.ended, &mut self.requests);
            let turned = Instant::now();
            count += self.requests.len();
            if !self.requests.is_empty() {
                engine_part(&mut *self.array, &mut self.now, &mut self.requests, &mut self.ended);
            }
            front += turned - begin;
            engine += turned.elapsed();
            if stay == KeepOn::Leave {
                return Err("the front has given up".into());
            }
            if count >= usize::from(depth) && self.client.has_all()? {
                assert_eq!(count, usize::from(depth), "a batch has its own requests");
                return Ok((front, engine));
            }
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The medians of batches during `run`, in nanoseconds a request.
fn measure(run: Duration, depth: u16, mut batch: impl FnMut() -> Outcome<(Duration, Duration)>) -> Outcome<(f64, f64)> {
    let end = Instant::now() + run;
    let (mut fronts, mut engines) = (Vec::new(), Vec::new());
    while Instant::now() < end {
        let (front, engine) = batch()?;
        fronts.push(front.as_nanos() as f64 / f64::from(depth));
        engines.push(engine.as_nanos() as f64 / f64::from(depth));
    }
    Ok((median(&mut fronts), median(&mut engines)))
}

fn table(run: Duration, rounds: u32) -> Outcome<()> {
    println!("measure,round,front,array,kind,depth,front_part,engine_part");
    for round in 1..=rounds {
        for (kind, write) in [("read", false), ("write", true)] {
            for depth in DEPTHS {
                for (array, level, members) in ARRAYS {
                    for front in FRONTS {
                        let mut case = Case::new(front, level, members, write, depth)?;
                        measure(run / 8, depth, || case.batch(depth))?;
                        let (front_ns, engine_ns) = measure(run, depth, || case.batch(depth))?;
                        println!("ns,{round},{front},{array},{kind},{depth},{front_ns:.1},{engine_ns:.1}");
                    }
                }
                let mut calls = stand_in::system_calls(depth, Ask { write, bytes: BLOCK_BYTES as u32 })?;
                let (calls_ns, _) = measure(run, depth, || {
                    let begin = Instant::now();
                    calls()?;
                    Ok((begin.elapsed(), Duration::ZERO))
                })?;
                println!("ns,{round},system calls of ublk,none,{kind},{depth},{calls_ns:.1},0");
            }
        }
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["count", front, array, kind, depth, batches] => {
            let (_, level, members) = *ARRAYS.iter().find(|(name, ..)| *name == array).ok_or("no such array")?;
            let depth = depth.parse()?;
            let mut case = Case::new(front, level, members, kind == "write", depth)?;
            (0..batches.parse()?).try_for_each(|_: u32| case.batch(depth).map(drop))
        }
        [] => table(Duration::from_millis(200), 5),
        [run_ms] => table(Duration::from_millis(run_ms.parse()?), 5),
        [run_ms, rounds] => table(Duration::from_millis(run_ms.parse()?), rounds.parse()?),
        _ => {
            eprintln!("usage: fronts [RUN_MS [ROUNDS]] | fronts count FRONT ARRAY KIND DEPTH BATCHES");
            exit(2)
        }
    }
}
