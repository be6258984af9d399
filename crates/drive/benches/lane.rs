//! The number of requests per second that a lane passes on: a RAM device behind it, one client thread, several queue depths.
//!
//! `bare`: the device on the client's own thread, the upper bound. `parked`: the client sleeps while there is no answer.
//! `spinning`: it does not.

use std::sync::Arc;
use std::time::{Duration, Instant};
use stria_block::{BlockDevice, Buffer, Completion, Mailbox, Operation, RamDevice, RemoteDevice, Request, Segments};
use stria_drive::{DriveError, Lane};

const SIZE_SECTORS: u64 = 131072;
const RUN: Duration = Duration::from_millis(500);

fn request(tag: u64, memory: Segments<Buffer>, random: &mut u64) -> Request {
    *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    let start_sector = (*random >> 33) % (SIZE_SECTORS / 8) * 8;
    Request { tag, start_sector, sectors: 8, operation: Operation::Read { into: memory } }
}

fn again(completion: Completion, random: &mut u64) -> Request {
    completion.result.expect("memory does not fail");
    let Operation::Read { into } = completion.operation else { unreachable!() };
    request(completion.tag, into, random)
}

fn bare(depth: u64) -> f64 {
    let mut device = RamDevice::new(SIZE_SECTORS);
    let mut random = 1;
    let mut ended = Vec::new();
    (0..depth).for_each(|tag| device.submit(request(tag, Segments::from_iter([Buffer::zeroed(4096)]), &mut random)));
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < RUN {
        device.poll(0, &mut ended);
        count += ended.len();
        ended.drain(..).for_each(|completion| device.submit(again(completion, &mut random)));
    }
    count as f64 / start.elapsed().as_secs_f64()
}

fn through(remote: &dyn RemoteDevice, depth: u64, park: bool) -> f64 {
    let client = std::thread::current();
    let reply = Arc::new(Mailbox::new(move || client.unpark()));
    let mut random = 1;
    let mut requests: Vec<_> =
        (0..depth).map(|tag| request(tag, Segments::from_iter([Buffer::zeroed(4096)]), &mut random)).collect();
    let mut ended = Vec::new();
    remote.submit(&mut requests, &reply);
    let start = Instant::now();
    let mut count = 0;
    let mut open = depth as usize;
    let mut running = true;
    while open > 0 {
        reply.take(&mut ended);
        if ended.is_empty() {
            if !park {
                std::hint::spin_loop();
            } else if reply.prepare_sleep() {
                std::thread::park();
                reply.awake();
            }
            continue;
        }
        count += ended.len();
        running = running && start.elapsed() < RUN;
        open -= ended.len();
        if running {
            open += ended.len();
            requests.extend(ended.drain(..).map(|completion| again(completion, &mut random)));
            remote.submit(&mut requests, &reply);
        }
        ended.clear();
    }
    count as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let lane = Lane::new("bench").spawn(|_| Ok::<_, DriveError>(RamDevice::new(SIZE_SECTORS))).expect("a lane starts");
    let remote = lane.remote();
    println!("{:>5} {:>12} {:>12} {:>12}   4 KiB reads per second", "depth", "bare", "spinning", "parked");
    for depth in [1, 8, 32, 128] {
        let [bare, spinning, parked] = [bare(depth), through(&*remote, depth, false), through(&*remote, depth, true)];
        println!("{depth:>5} {bare:>12.0} {spinning:>12.0} {parked:>12.0}");
    }
}
