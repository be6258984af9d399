//! Loads an NBD server on a unix socket harder than fio can: raw protocol, deep queues, batched system calls.
//!
//!     cargo run --release -p stria-front --example nbd_load -- SOCKET randread 4096 32 1 2
//!
//! Arguments: socket, randread|randwrite|read|write, block in bytes, queue depth and count of connections (the depth
//! is that of each), seconds. Prints one line: IOPS, MB/s (10^6), mean, p50 and p99 in microseconds, and the
//! percentage of a core that the client used.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::error::Error;
use std::io::{IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const HEADER_BYTES: usize = 28;
const REPLY_BYTES: usize = 16;

/// The load, as the command line gives it.
struct Job {
    random: bool,
    write: bool,
    block_bytes: usize,
    depth: usize,
}

struct Client {
    stream: UnixStream,
    block_count: u64,
    next_block: u64,
    random: u64,
    payload: Vec<u8>,
    /// Headers and start times of the requests, by cookie.
    headers: Vec<[u8; HEADER_BYTES]>,
    started: Vec<Instant>,
    vacant: Vec<usize>,
    unsent: VecDeque<usize>,
    /// The bytes of the first unsent request that are sent.
    sent: usize,
    input: Vec<u8>,
    input_len: usize,
    /// Data of a read that must still be skipped; then this request ends.
    passing: Option<(usize, usize)>,
}

impl Client {
    fn connect(path: &str, job: &Job, seed: u64) -> Result<Self, Box<dyn Error>> {
        let mut stream = UnixStream::connect(path)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        let size_bytes = u64::from_be_bytes(export[..8].try_into()?);
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, 4 << 20)?;
        stream.set_nonblocking(true)?;
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let payload = (0..job.block_bytes).map(|_| next_random(&mut random) as u8).collect();
        Ok(Self {
            stream,
            block_count: size_bytes / job.block_bytes as u64,
            next_block: 0,
            random,
            payload,
            headers: vec![[0; HEADER_BYTES]; job.depth],
            started: vec![Instant::now(); job.depth],
            vacant: (0..job.depth).collect(),
            unsent: VecDeque::new(),
            sent: 0,
            input: vec![0; 4 << 20],
            input_len: 0,
            passing: None,
        })
    }

    fn issue(&mut self, job: &Job, now: Instant) {
        while let Some(cookie) = self.vacant.pop() {
            let block = if job.random { next_random(&mut self.random) } else { self.next_block };
            self.next_block += 1;
            let header = &mut self.headers[cookie];
            header[..4].copy_from_slice(&0x2560_9513_u32.to_be_bytes());
            header[7] = u8::from(job.write);
            header[8..16].copy_from_slice(&(cookie as u64).to_be_bytes());
            header[16..24].copy_from_slice(&(block % self.block_count * job.block_bytes as u64).to_be_bytes());
            header[24..].copy_from_slice(&(job.block_bytes as u32).to_be_bytes());
            self.started[cookie] = now;
            self.unsent.push_back(cookie);
        }
    }

    fn send(&mut self, job: &Job) -> Result<bool, Box<dyn Error>> {
        if self.unsent.is_empty() {
            return Ok(false);
        }
        let payload: &[u8] = if job.write { &self.payload } else { &[] };
        let mut skip = self.sent;
        let mut slices = SmallVec::<[IoSlice; 256]>::new();
        for part in self.unsent.iter().flat_map(|&cookie| [&self.headers[cookie][..], payload]).take(256) {
            let skipped = skip.min(part.len());
            skip -= skipped;
            if skipped < part.len() {
                slices.push(IoSlice::new(&part[skipped..]));
            }
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&self.stream, &slices, &mut SendAncillaryBuffer::default(), flags) {
            Ok(len) => self.sent += len,
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        while self.sent >= HEADER_BYTES + payload.len() && self.unsent.pop_front().is_some() {
            self.sent -= HEADER_BYTES + payload.len();
        }
        Ok(true)
    }

    /// Calls `ended` with the start of every request that has ended.
    fn receive(&mut self, job: &Job, mut ended: impl FnMut(Instant)) -> Result<bool, Box<dyn Error>> {
        match self.stream.read(&mut self.input[self.input_len..]) {
            Ok(0) => return Err("the server hung up".into()),
            Ok(len) => self.input_len += len,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let mut rest = &self.input[..self.input_len];
        loop {
            let (cookie, left) = match self.passing.take() {
                Some(passing) => passing,
                None => {
                    let Some((reply, behind)) = rest.split_first_chunk::<REPLY_BYTES>() else { break };
                    if reply[..8] != [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0] {
                        return Err(format!("bad reply {reply:x?}").into());
                    }
                    rest = behind;
                    (usize::from(reply[15]) | usize::from(reply[14]) << 8, if job.write { 0 } else { job.block_bytes })
                }
            };
            let part = left.min(rest.len());
            rest = &rest[part..];
            if part < left {
                self.passing = Some((cookie, left - part));
                break;
            }
            ended(self.started[cookie]);
            self.vacant.push(cookie);
        }
        let from = self.input_len - rest.len();
        self.input.copy_within(from..self.input_len, 0);
        self.input_len -= from;
        Ok(true)
    }
}

fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, kind, block_bytes, depth, connections, seconds] = arguments.as_slice() else {
        return Err("usage: nbd_load SOCKET randread|randwrite|read|write BLOCK DEPTH CONNECTIONS SECONDS".into());
    };
    let (random, write) = match kind.as_str() {
        "randread" => (true, false),
        "randwrite" => (true, true),
        "read" => (false, false),
        "write" => (false, true),
        _ => return Err(format!("\"{kind}\" is none of randread, randwrite, read, write").into()),
    };
    let job = Job { random, write, block_bytes: block_bytes.parse()?, depth: depth.parse()? };
    let clients = (1..=connections.parse()?).map(|seed| Client::connect(path, &job, seed));
    let mut clients = clients.collect::<Result<Vec<_>, _>>()?;

    let (warm, seconds) = (Duration::from_millis(300), Duration::from_secs_f64(seconds.parse()?));
    let mut latencies_us = vec![0_u64; 1 << 20];
    let (mut count, mut sum) = (0_u64, Duration::ZERO);
    let (mut started, mut cpu) = (Instant::now(), Duration::ZERO);
    let (mut warming, mut elapsed) = (true, None);
    // Requests in flight at the end are waited for but not counted: some servers handle a hang-up badly.
    while elapsed.is_none() || clients.iter().any(|client| client.vacant.len() < job.depth) {
        let now = Instant::now();
        if warming && now - started >= warm {
            (warming, started, count, sum, cpu) = (false, now, 0, Duration::ZERO, cpu_time());
            latencies_us.fill(0);
        }
        if !warming && elapsed.is_none() && now - started >= seconds {
            elapsed = Some((now - started).as_secs_f64());
            cpu = cpu_time() - cpu;
        }
        let over = elapsed.is_some();
        let mut progress = false;
        for client in &mut clients {
            if !over {
                client.issue(&job, now);
            }
            progress |= client.send(&job)?;
            progress |= client.receive(&job, |begun| {
                if over {
                    return;
                }
                let latency = now.saturating_duration_since(begun);
                count += 1;
                sum += latency;
                latencies_us[(latency.as_micros() as usize).min((1 << 20) - 1)] += 1;
            })?;
        }
        if !progress && clients.iter().any(|client| client.vacant.len() < job.depth) {
            let wanted = |client: &Client| if client.unsent.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            let mut fds: SmallVec<[PollFd; 8]> =
                clients.iter().map(|client| PollFd::new(&client.stream, wanted(client))).collect();
            poll(&mut fds, None)?;
        }
    }
    for client in &mut clients {
        let mut disconnect = [0; HEADER_BYTES];
        disconnect[..8].copy_from_slice(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 2]);
        client.stream.write_all(&disconnect)?;
    }
    let elapsed = elapsed.ok_or("no time has passed")?;
    let percentile = |share: f64| {
        let mut below = 0;
        latencies_us.iter().position(|&here| {
            below += here;
            below as f64 >= count as f64 * share
        })
    };
    println!(
        "{:.0},{:.2},{:.2},{},{},{:.0}",
        count as f64 / elapsed,
        count as f64 * job.block_bytes as f64 / elapsed / 1e6,
        sum.as_secs_f64() * 1e6 / count.max(1) as f64,
        percentile(0.5).unwrap_or(0),
        percentile(0.99).unwrap_or(0),
        cpu.as_secs_f64() / elapsed * 100.0,
    );
    Ok(())
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}
