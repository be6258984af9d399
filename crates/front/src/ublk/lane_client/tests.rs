//! Goal: a queue that leaves its device to the next server answers nothing that the array did not do.
//! Method: the driver is played in memory; the queue runs on a real lane, or beside it, whose device never answers.

use super::*;
use crate::apart::{self, Wake};
use crate::ublk::queue::Copier;
use crate::ublk::uapi::{Descriptor, io as result_of, operation};
use rustix::event::{EventfdFlags, eventfd};
use std::sync::atomic::AtomicUsize;
use std::thread;
use stria_block::{BlockDevice, Buffer, ErrorKind, IoError, Limits};
use stria_drive::{DriveError, Lane};

const DEPTH: u16 = 4;

/// What the server has told the driver.
#[derive(Default)]
struct Told {
    committed: Vec<(u16, i32)>,
    /// How many times the server took back the memory that it had lent.
    taken_back: usize,
}

/// A driver with these completions.
struct Played {
    copier: Copier,
    completed: Vec<(u64, i32)>,
    lent: Vec<Option<Buffer>>,
    told: Arc<Mutex<Told>>,
}

fn played(copier: Copier, completed: &[(u64, i32)]) -> (Played, Arc<Mutex<Told>>) {
    let told = Arc::<Mutex<Told>>::default();
    let lent = (0..DEPTH).map(|_| None).collect();
    (Played { copier, completed: completed.to_vec(), lent, told: Arc::clone(&told) }, told)
}

impl Port for Played {
    fn copier(&self) -> Copier {
        self.copier
    }

    fn descriptor(&self, _tag: u16) -> Descriptor {
        Descriptor { operation: operation::WRITE, sectors: 8, start_sector: 0 }
    }

    fn take_data(&self, _tag: u16, into: &mut [u8]) -> io::Result<()> {
        into.fill(7);
        Ok(())
    }

    fn give_data(&self, tag: u16, _at: usize, _from: &[u8]) -> io::Result<()> {
        panic!("tag {tag} is a write");
    }

    fn ask_data(&mut self, tag: u16, into: Buffer) {
        self.lent[usize::from(tag)] = Some(into);
    }

    fn asked_data(&mut self, tag: u16) -> Option<Buffer> {
        let lent = self.lent[usize::from(tag)].take();
        self.told.lock().expect("no panic").taken_back += usize::from(lent.is_some());
        lent
    }

    fn commit_read(&mut self, tag: u16, _result: i32, _from: Buffer) {
        panic!("tag {tag} is a write");
    }

    fn returned(&mut self) -> impl Iterator<Item = Buffer> {
        std::iter::empty()
    }

    fn fetch(&mut self, _tag: u16) {}

    fn commit(&mut self, tag: u16, result: i32) {
        self.told.lock().expect("no panic").committed.push((tag, result));
    }
}

impl Driver for Played {
    fn readiness(&self) -> io::Result<OwnedFd> {
        Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
    }

    fn begin(&self) -> io::Result<()> {
        Ok(())
    }

    fn turn<E: From<io::Error>>(&mut self, mut arrived: impl FnMut(&mut Self, u64, i32) -> Result<(), E>) -> Result<(), E> {
        let completed = std::mem::take(&mut self.completed);
        completed.into_iter().try_for_each(|(tag, result)| arrived(self, tag, result))
    }

    fn is_due(&mut self) -> bool {
        false
    }
}

fn client(port: Played, crew: &Arc<Crew>) -> QueueClient<Played> {
    let queue = Queue::new(Limits::plain(64), 1 << 20, DEPTH, false);
    QueueClient::new("/dev/ublkb7".into(), queue, port, CrewMember::take(crew)).expect("a handle")
}

/// Never answers.
struct Hung(Limits, Arc<AtomicUsize>);

impl BlockDevice for Hung {
    fn limits(&self) -> &Limits {
        &self.0
    }

    fn submit(&mut self, _request: Request) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }

    fn poll(&mut self, _now: Nanos, _completions: &mut Vec<Completion>) {}

    fn next_wake(&self) -> Option<Nanos> {
        None
    }
}

/// Bug: a stop that left the device to the next server failed the requests that a hung drive had. The next server is to have them
/// again.
#[test]
fn requests_of_a_hung_array_wait_for_the_next_server() {
    for (on_lane, leaves) in [(true, true), (false, true), (true, false), (false, false)] {
        let asked = Arc::<AtomicUsize>::default();
        let device = Hung(Limits::plain(64), Arc::clone(&asked));
        let lane = Lane::new("hung").takes_clients(on_lane).spawn(move |_| Ok::<_, DriveError>(device)).expect("a lane");
        let (port, told) = played(Copier::Server, &[(1, result_of::ARRIVED), (3, result_of::ARRIVED)]);
        let crew = Arc::<Crew>::default();
        let wake = Arc::new(Wake::new().expect("an eventfd"));
        let remote = lane.remote();
        let thread = remote.take_in(Box::new(client(port, &crew))).err().map(|client| {
            let wake = Arc::clone(&wake);
            thread::spawn(move || apart::live(client, remote, &wake))
        });
        assert_eq!(thread.is_none(), on_lane);
        while asked.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
        if leaves {
            crew.leave();
            wake.ring();
            lane.remote().stir();
            assert!(!crew.wait_for_end(Duration::from_millis(10)), "the array has its requests");
        }
        lane.leave().expect("no panic");
        // A device that is not left has its requests failed, and goes on as long as its thread does.
        if leaves || on_lane {
            assert!(crew.wait_for_end(Duration::from_secs(60)));
        } else {
            while told.lock().expect("no panic").committed.len() < 2 {
                thread::yield_now();
            }
            crew.leave();
            wake.ring();
        }
        if let Some(thread) = thread {
            thread.join().expect("no panic").expect("it sleeps");
        }
        let expected = if leaves { vec![] } else { vec![(1, -5), (3, -5)] };
        assert_eq!(told.lock().expect("no panic").committed, expected, "on the lane: {on_lane}");
    }
}

#[test]
fn what_the_array_answers_while_the_queue_leaves_is_the_answer() {
    let (port, told) = played(Copier::Server, &[(0, result_of::ARRIVED), (2, result_of::ARRIVED)]);
    let crew = Arc::<Crew>::default();
    let mut client = client(port, &crew);
    let (mut ended, mut requests) = (Vec::new(), Vec::new());
    client.turn(0, false, &mut ended, &mut requests);
    crew.leave();
    let [first, second] = <[Request; 2]>::try_from(std::mem::take(&mut requests)).expect("two requests");
    ended.push(first.complete(Ok(())));
    assert!(matches!(client.turn(1, false, &mut ended, &mut requests), KeepOn::Wait { .. }));
    ended.push(second.complete(Err(IoError::new(ErrorKind::Medium, "a bad sector"))));
    assert!(matches!(client.turn(2, false, &mut ended, &mut requests), KeepOn::Leave));
    assert_eq!(told.lock().expect("no panic").committed, [(0, 4096), (2, -5)]);
}

/// Bug: memory that the driver had filled for a write was never used again if the queue left before it saw that.
#[test]
fn memory_that_was_lent_for_a_write_comes_back_while_the_queue_leaves() {
    let (port, told) = played(Copier::Driver, &[(0, result_of::NEEDS_DATA), (1, result_of::NEEDS_DATA)]);
    let crew = Arc::<Crew>::default();
    let mut client = client(port, &crew);
    client.turn(0, false, &mut Vec::new(), &mut Vec::new());
    crew.leave();
    client.port.completed = vec![(0, result_of::ARRIVED), (1, result_of::ABORTED), (2, result_of::NEEDS_DATA), (99, 0)];
    let mut requests = Vec::new();
    assert!(matches!(client.turn(1, false, &mut Vec::new(), &mut requests), KeepOn::Leave));
    assert!(requests.is_empty() && client.port.lent.iter().all(Option::is_none));
    let told = told.lock().expect("no panic");
    assert_eq!((told.taken_back, told.committed.as_slice()), (2, &[][..]));
}
