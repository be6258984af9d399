//! Goal: a virtual machine's disk keeps its driver's writes through restarts, with several queues and beside hostile rings.
//! Method: a front-end and a driver that play their sides in shared memory (`stria_testkit::vhost_user`), against servers of a
//! RAM device that runs the queues on its own lane, or has each run on a thread.

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stria_block::{Limits, RemoteDevice};
use stria_front::{SocketAccess, VhostUserDisk, VhostUserServer};
use stria_testkit::vhost_user::*;
use support::device::LaneDevice;
use vhost::VhostBackend;

const SECTORS: u64 = 32 << 11;
const OK: u8 = 0;
const IO_ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

struct Service {
    device: Arc<LaneDevice>,
    server: Option<VhostUserServer>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Service {
    fn start(on_lane: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = Limits { discard_granularity_bytes: 512, unmap_zeroes: true, ..Limits::plain(SECTORS) };
        let device = Arc::new(LaneDevice::spawn(limits, on_lane));
        let mut service = Self { device, server: None, path: folder.path().join("disk.sock"), _folder: folder };
        service.restart(false);
        service
    }

    /// Ends the server, if there is one, and starts another.
    fn restart(&mut self, read_only: bool) {
        self.server = None;
        let device = Arc::clone(&self.device) as _;
        let disk = VhostUserDisk { name: "tank".into(), serial: "0123456789abcdef0123456789".into(), device, read_only };
        let server = VhostUserServer::prepare(self.path.clone(), SocketAccess::default(), disk).expect("a free path");
        server.listen().expect("a free path");
        self.server = Some(server);
    }

    fn server(&self) -> &VhostUserServer {
        self.server.as_ref().expect("it runs")
    }

    fn machine(&self) -> Machine {
        let mut machine = Machine::new();
        machine.connect(&self.path);
        machine
    }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn range(sector: u64, sectors: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &[0; 4]].concat()
}

#[test]
fn a_driver_reads_what_it_wrote_on_every_queue() {
    for (on_lane, features) in [(true, u64::MAX), (false, u64::MAX), (true, !EVENT_INDEX), (false, !EVENT_INDEX)] {
        let service = Service::start(on_lane);
        let mut machine = Machine::new();
        machine.features = features;
        machine.connect(&service.path);
        assert_eq!(machine.config(0, 8), SECTORS.to_le_bytes());
        // As many at a time as there are slots, in both queues; those of the upper half lie behind the hole.
        for round in 0..4_u64 {
            let at = |queue: usize, slot: u64| (round * 2 + queue as u64) * 2000 + slot * 45;
            for queue in 0..QUEUES {
                let slots: Vec<u16> = (0..u64::from(SLOTS))
                    .map(|slot| {
                        machine.send(queue, WRITE, at(queue, slot), &pattern(at(queue, slot), 512 * (1 + slot as usize)), 0)
                    })
                    .collect();
                slots.into_iter().for_each(|slot| assert_eq!(machine.wait(queue, slot), OK));
            }
            for queue in 0..QUEUES {
                for slot in 0..u64::from(SLOTS) {
                    let len = 512 * (1 + slot as usize);
                    let (status, bytes) = machine.ask(1 - queue, READ, at(queue, slot), &[], len);
                    assert!(status == OK && bytes == pattern(at(queue, slot), len), "round {round}, queue {queue}, slot {slot}");
                }
            }
        }
        assert_eq!(machine.ask(0, FLUSH, 0, &[], 0).0, OK);
        let (status, id) = machine.ask(0, GET_ID, 0, &[], 20);
        assert_eq!((status, &id[..]), (OK, &b"0123456789abcdef0123"[..]));
        // Two ranges in one request.
        assert_eq!(machine.ask(0, WRITE, 0, &pattern(1, 8192), 0).0, OK);
        assert_eq!(machine.ask(0, DISCARD, 0, &[range(0, 2), range(4, 3)].concat(), 0).0, OK);
        assert_eq!(machine.ask(1, WRITE_ZEROES, 0, &range(14, 1), 0).0, OK);
        let mut expected = pattern(1, 8192);
        [0..2, 4..7, 14..15].into_iter().for_each(|sectors| expected[sectors.start * 512..sectors.end * 512].fill(0));
        assert_eq!(machine.ask(0, READ, 0, &[], 8192), (OK, expected));
        assert_eq!(machine.ask(0, READ, SECTORS, &[], 512).0, IO_ERROR);
        assert_eq!(machine.ask(0, 77, 0, &[], 512).0, UNSUPPORTED);
        let status = service.server().connection().expect("it is connected");
        assert_eq!((status.errors, status.in_flight, status.export.as_deref()), (2, 0, Some("tank")));
        assert!(status.requests > 160 && status.read_bytes > status.written_bytes / 2, "{status:?}");
    }
}

#[test]
fn a_read_only_disk_refuses_what_would_change_it() {
    let mut service = Service::start(true);
    service.machine().ask(0, WRITE, 0, &pattern(7, 512), 0);
    service.restart(true);
    let mut machine = service.machine();
    assert!(machine.features & (1 << 5) != 0);
    assert_eq!(machine.ask(0, WRITE, 0, &[1; 512], 0).0, IO_ERROR);
    assert_eq!(machine.ask(0, WRITE_ZEROES, 0, &range(0, 1), 0).0, IO_ERROR);
    assert_eq!(machine.ask(0, DISCARD, 0, &range(0, 1), 0).0, UNSUPPORTED);
    assert_eq!(machine.ask(0, READ, 0, &[], 512), (OK, pattern(7, 512)));
}

/// Bug: a machine that had been offered discard was refused for ever, once a drive without it had joined the array.
#[test]
fn a_machine_goes_on_when_the_array_can_no_longer_do_what_it_was_offered() {
    let mut service = Service::start(true);
    let mut machine = service.machine();
    let (discard, write_zeroes) = (1 << 13, 1 << 14);
    assert!(machine.features & discard != 0 && machine.features & write_zeroes != 0);
    assert_eq!(machine.ask(0, DISCARD, 0, &range(0, 1), 0).0, OK);
    service.server = None;
    service.device = Arc::new(LaneDevice::spawn(Limits::plain(SECTORS), true));
    service.restart(false);
    machine.connect(&service.path);
    assert!(machine.frontend().get_features().expect("features") & discard == 0, "a new machine is not told of it");
    assert_eq!(machine.ask(0, WRITE, 3, &pattern(3, 512), 0).0, OK);
    assert_eq!(machine.ask(0, READ, 3, &[], 512), (OK, pattern(3, 512)));
    assert_eq!(machine.ask(0, DISCARD, 0, &range(0, 1), 0).0, UNSUPPORTED);
    service.restart(true);
    machine.connect(&service.path);
    assert_eq!(machine.ask(0, READ, 3, &[], 512), (OK, pattern(3, 512)));
    assert_eq!(machine.ask(0, WRITE_ZEROES, 3, &range(3, 1), 0).0, IO_ERROR);
    // What was never on offer is refused as before.
    machine.frontend().set_features(1 << 33 | PROTOCOL_FEATURES).expect_err("VIRTIO_F_ACCESS_PLATFORM");
}

#[test]
fn a_queue_that_is_stopped_ends_what_it_has_and_goes_on_from_there() {
    for on_lane in [true, false] {
        let service = Service::start(on_lane);
        let mut machine = service.machine();
        (0..5).for_each(|sector| assert_eq!(machine.ask(0, WRITE, sector, &pattern(sector, 512), 0).0, OK));
        // Waits for the device, as a front-end's message does.
        service.device.set_hold(true);
        let slot = machine.send(0, WRITE, 9, &pattern(9, 512), 0);
        // A request that the queue has not taken yet stays in the ring for its next start.
        service.device.wait_for_kept(1);
        let device = Arc::clone(&service.device);
        let release = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            device.set_hold(false);
        });
        assert_eq!(machine.stop(0), 6);
        release.join().expect("it ends");
        assert_eq!((machine.used(0), machine.wait(0, slot)), (6, OK), "nothing is in flight any more");
        // What comes meanwhile waits; the other queue goes on.
        let slot = machine.send(0, READ, 9, &[], 512);
        assert_eq!(machine.ask(1, READ, 3, &[], 512), (OK, pattern(3, 512)));
        assert_eq!(machine.used(0), 6);
        machine.start(0);
        assert_eq!(machine.wait(0, slot), OK);
        assert_eq!(machine.answer(0, slot, 512), pattern(9, 512));
    }
}

/// After a lost connection, or a clean end of the server, the next one continues the rings, with and without memory for requests
/// in flight.
#[test]
fn a_driver_does_not_notice_that_connections_come_and_go() {
    for (on_lane, tracks) in [(true, true), (false, true), (true, false)] {
        let mut service = Service::start(on_lane);
        let mut machine = Machine::new();
        machine.tracks = tracks;
        machine.connect(&service.path);
        for round in 0..6_u64 {
            let slots: Vec<u16> = (0..16)
                .map(|n| machine.send(n % 2, WRITE, round * 16 + n as u64, &pattern(round * 16 + n as u64, 512), 0))
                .collect();
            if round % 2 == 0 {
                machine.disconnect();
            } else {
                service.restart(false);
            }
            machine.connect(&service.path);
            for (n, slot) in slots.into_iter().enumerate() {
                assert_eq!(machine.wait(n % 2, slot), OK, "round {round}");
            }
        }
        for sector in 0..96 {
            assert_eq!(machine.ask(0, READ, sector, &[], 512), (OK, pattern(sector, 512)), "sector {sector}");
        }
    }
}

#[test]
fn memory_comes_and_goes_beside_running_queues() {
    let service = Service::start(true);
    let mut machine = service.machine();
    assert_eq!(machine.ask(0, WRITE, 0, &pattern(5, 4096), 0).0, OK);
    machine.plug(false);
    // The next slots lie in the part that is left; those behind the hole are errors of theirs alone.
    let slots: Vec<u16> = (0..SLOTS).map(|_| machine.send(0, READ, 0, &[], 4096)).collect();
    for slot in slots {
        let expected = if slot < SLOTS / 2 { OK } else { IO_ERROR };
        assert_eq!(machine.wait(0, slot), expected, "slot {slot}");
    }
    machine.plug(true);
    for _ in 0..SLOTS {
        let slot = machine.send(1, READ, 0, &[], 4096);
        assert_eq!(machine.wait(1, slot), OK);
    }
    machine.share_memory();
    assert_eq!(machine.ask(0, READ, 0, &[], 4096), (OK, pattern(5, 4096)));
}

/// Bug: a queue whose rings were gone for a moment, as while QEMU arranges memory anew, was broken until the machine was reset.
#[test]
fn queues_wait_while_the_memory_of_their_rings_is_gone() {
    for on_lane in [true, false] {
        let service = Service::start(on_lane);
        let mut machine = service.machine();
        assert_eq!(machine.ask(0, WRITE, 0, &pattern(5, 4096), 0).0, OK);
        service.device.set_hold(true);
        let first = machine.send(0, READ, 0, &[], 4096);
        service.device.wait_for_kept(1);
        machine.plug_rings(false);
        service.device.set_hold(false);
        let second = machine.send(0, READ, 0, &[], 4096);
        service.device.wait_for_kept(0);
        assert_eq!(machine.used(0), 1, "nothing is answered in memory that is gone");
        machine.plug_rings(true);
        assert_eq!([machine.wait(0, first), machine.wait(0, second)], [OK; 2]);
        assert_eq!(machine.answer(0, first, 4096), pattern(5, 4096));
        // It can be stopped meanwhile. What it had is done again at the next start.
        service.device.set_hold(true);
        let third = machine.send(0, READ, 0, &[], 4096);
        service.device.wait_for_kept(1);
        machine.plug_rings(false);
        service.device.set_hold(false);
        machine.stop(0);
        assert_eq!(machine.used(0), 3);
        machine.plug_rings(true);
        machine.start(0);
        assert_eq!(machine.wait(0, third), OK);
        assert_eq!(machine.ask(1, READ, 0, &[], 4096), (OK, pattern(5, 4096)));
    }
}

/// A driver that switched the cache off sends no flush. So its writes are durable when they end, also on the next server.
#[test]
fn writes_are_durable_while_the_write_cache_is_off() {
    let mut service = Service::start(true);
    let durable = Arc::clone(&service.device.durable);
    let count = |machine: &mut Machine| {
        let before = durable.load(Ordering::SeqCst);
        assert_eq!(machine.ask(0, WRITE, 0, &pattern(1, 512), 0).0, OK);
        assert_eq!(machine.ask(0, WRITE_ZEROES, 0, &range(8, 1), 0).0, OK);
        durable.load(Ordering::SeqCst) - before
    };
    let mut machine = service.machine();
    assert_eq!(machine.config(32, 1), [1]);
    assert_eq!(count(&mut machine), 0);
    machine.set_write_cache(false);
    assert_eq!((count(&mut machine), machine.config(32, 1)), (2, vec![0]));
    service.restart(false);
    machine.connect(&service.path);
    assert_eq!(count(&mut machine), 2, "the memory for requests in flight tells");
    machine.set_write_cache(true);
    assert_eq!(count(&mut machine), 0);
    service.restart(false);
    machine.connect(&service.path);
    assert_eq!(count(&mut machine), 0);
    // Without that information the server treats the cache as off.
    drop(machine);
    let mut machine = Machine::new();
    machine.tracks = false;
    machine.connect(&service.path);
    assert_eq!(count(&mut machine), 2);
    drop(machine);
    // A driver that knows neither the switch nor flushes.
    let mut machine = Machine::new();
    machine.features = !(CONFIG_WCE | 1 << 9);
    machine.connect(&service.path);
    assert_eq!(count(&mut machine), 2);
}

#[test]
fn broken_rings_are_left_alone_and_harm_no_other_queue() {
    for on_lane in [true, false] {
        let service = Service::start(on_lane);
        let mut machine = service.machine();
        assert_eq!(machine.ask(0, WRITE, 0, &pattern(3, 512), 0).0, OK);
        for case in 0..4 {
            service.device.set_hold(true);
            // One that the device has, whose end nobody may see in a broken ring.
            machine.send(0, READ, 0, &[], 512);
            match case {
                0 => machine.make_available(0, QUEUE_SIZE),
                1 => machine.make_available(0, u16::MAX),
                2 => {
                    machine.set_available(0, 20_000);
                    machine.kick(0);
                }
                _ => {
                    let slot = machine.send(0, READ, 0, &[], 512);
                    machine.make_available(0, slot * 3);
                }
            }
            machine.wait_for_error(0);
            service.device.set_hold(false);
            assert_eq!(machine.ask(1, READ, 0, &[], 512), (OK, pattern(3, 512)), "case {case}");
            machine.stop(0);
            machine.forget(0);
            machine.start(0);
            assert_eq!(machine.ask(0, READ, 0, &[], 512), (OK, pattern(3, 512)), "case {case}, reset");
        }
    }
}

/// Invalid chains end with an error or without a status. The machine's queue goes on, and nothing is written.
#[test]
fn hostile_chains_end() {
    let service = Service::start(true);
    let mut machine = service.machine();
    assert_eq!(machine.ask(0, WRITE, 0, &pattern(3, 4096), 0).0, OK);
    const NEXT: u16 = 1;
    const WRITE_ONLY: u16 = 2;
    let mut used = machine.used(0);
    let header = 0x1_0000;
    let cases: [&[(u64, u32, u16, u16)]; 9] = [
        &[(header, 16, NEXT, 60), (header, 1, NEXT | WRITE_ONLY, 60)],
        &[(header, 16, 0, 0)],
        &[(header, 16, NEXT, 61), (0x5000_0000, 512, NEXT | WRITE_ONLY, 62), (0x5000_0000, 1, WRITE_ONLY, 0)],
        &[(0x5000_0000, 16, NEXT, 61), (header, 512, WRITE_ONLY, 0)],
        &[(u64::MAX, 16, NEXT, 61), (u64::MAX - 1, u32::MAX, WRITE_ONLY, 0)],
        &[(header, 3, NEXT, 61), (header, 512, WRITE_ONLY, 0)],
        &[(header, u32::MAX, NEXT, 61), (header, u32::MAX, WRITE_ONLY, 0)],
        &[(header, 64, 4, 0)],
        &[(0, 0, NEXT, 61), (0, 0, WRITE_ONLY, 0)],
    ];
    for chain in cases {
        for (index, &(start, len, flags, next)) in chain.iter().enumerate() {
            machine.put_descriptor(0, 60 + index as u16, start, len, flags, next);
        }
        machine.make_available(0, 60);
        used = used.wrapping_add(1);
        while machine.used(0) != used {
            std::thread::yield_now();
        }
    }
    machine.stop(0);
    machine.forget(0);
    machine.start(0);
    assert_eq!(machine.ask(0, READ, 0, &[], 4096), (OK, pattern(3, 4096)));
}

/// Random bytes in rings, descriptors and headers, a reset after each: the server never panics, hangs or stops serving others.
#[test]
fn a_driver_gone_mad_harms_itself_alone() {
    let service = Service::start(true);
    let mut machine = service.machine();
    for seed in 0..300 {
        let noise = pattern(seed * 2 + 1, 0x9000);
        let mut bytes = noise.clone();
        // Addresses that mostly exist, and indices that are mostly small: else nothing gets far.
        for descriptor in bytes[..1024].chunks_exact_mut(16) {
            descriptor[3..8].fill(0);
            descriptor[10..12].fill(0);
            descriptor[12] &= 7;
            descriptor[13] = 0;
            descriptor[14] %= 70;
            descriptor[15] = 0;
        }
        machine.scribble(0, &bytes[..0x8000]);
        (0..24).for_each(|slot| {
            machine.scribble_header(0, slot, noise[slot as usize] as u32 % 16, u64::from(noise[100 + slot as usize]))
        });
        machine.set_available(0, u16::from(noise[7] % 80));
        machine.kick(0);
        assert_eq!(machine.ask(1, FLUSH, 0, &[], 0).0, OK, "seed {seed}");
        machine.stop(0);
        machine.forget(0);
        machine.start(0);
    }
    assert_eq!(machine.ask(0, FLUSH, 0, &[], 0).0, OK);
    assert_eq!(service.server().connection().map(|client| client.in_flight), Some(0));
}

/// A server that died left marks in the memory for requests in flight: they are done again, in the order in which they began, and
/// nothing is done twice.
fn what_a_dead_server_had_in_flight_is_done_again(on_lane: bool) {
    let mut service = Service::start(on_lane);
    let mut machine = service.machine();
    (0..3).for_each(|sector| assert_eq!(machine.ask(0, WRITE, sector, &pattern(sector, 512), 0).0, OK));
    // A device that does not answer: its server waits ten seconds and ends. To the machine that looks like a crash.
    service.device.set_held_sector(Some(7));
    let first = machine.send(0, WRITE, 7, &pattern(70, 512), 0);
    let second = machine.send(0, WRITE, 7, &pattern(71, 512), 0);
    let third = machine.send(1, READ, 7, &[], 512);
    // These overtake them, so that the position in the ring alone does not tell what is left.
    (10..13).for_each(|sector| assert_eq!(machine.ask(0, WRITE, sector, &pattern(sector, 512), 0).0, OK));
    while service.server().connection().map(|client| client.in_flight) != Some(3) {
        std::thread::yield_now();
    }
    service.server = None;
    assert_eq!((machine.open(0), machine.open(1)), (2, 1), "nobody was told");
    service.device.set_held_sector(None);
    service.restart(false);
    machine.connect(&service.path);
    assert_eq!([machine.wait(0, first), machine.wait(0, second), machine.wait(1, third)], [OK; 3]);
    assert_eq!(machine.used(0), 8, "each was answered once");
    assert_eq!(machine.ask(0, READ, 7, &[], 512), (OK, pattern(71, 512)), "the later write is the later one");
}

#[test]
fn what_a_dead_server_had_in_flight_on_its_lane_is_done_again() {
    what_a_dead_server_had_in_flight_is_done_again(true);
}

#[test]
fn what_a_dead_server_had_in_flight_on_threads_is_done_again() {
    what_a_dead_server_had_in_flight_is_done_again(false);
}

/// A server that is killed after it ended a request and before it interrupted the driver leaves the driver waiting.
#[test]
fn a_driver_is_interrupted_when_a_queue_starts_and_when_it_gets_a_new_eventfd() {
    let mut service = Service::start(true);
    let mut machine = service.machine();
    assert_eq!(machine.ask(0, WRITE, 5, &pattern(5, 512), 0).0, OK);
    while machine.was_interrupted(0) {}
    machine.set_call(0);
    assert!(machine.was_interrupted(0), "by a new eventfd");
    service.restart(false);
    while machine.was_interrupted(0) {}
    machine.connect(&service.path);
    assert!(machine.was_interrupted(0), "by the start");
}

/// A lane that ends by a panic leaves what it had to the next server: no driver sees an error.
fn a_panic_of_the_device_is_a_pause(on_lane: bool) {
    let mut service = Service::start(on_lane);
    let mut machine = service.machine();
    assert_eq!(machine.ask(0, WRITE, 5, &pattern(5, 512), 0).0, OK);
    service.device.set_hold(true);
    let slot = machine.send(0, WRITE, 7, &pattern(70, 512), 0);
    service.device.wait_for_kept(1);
    service.device.break_off();
    service.server = None;
    assert_eq!(machine.open(0), 1, "it is not answered");
    let limits = service.device.limits();
    service.device = Arc::new(LaneDevice::spawn(limits, on_lane));
    service.restart(false);
    machine.connect(&service.path);
    assert_eq!(machine.wait(0, slot), OK);
    assert_eq!(machine.ask(0, READ, 7, &[], 512), (OK, pattern(70, 512)));
}

#[test]
fn a_panic_of_the_device_on_its_lane_is_a_pause() {
    a_panic_of_the_device_is_a_pause(true);
}

#[test]
fn a_panic_of_the_device_on_threads_is_a_pause() {
    a_panic_of_the_device_is_a_pause(false);
}

/// Marks of a driver that has begun anew since are no requests.
#[test]
fn stale_marks_are_not_done_again() {
    let mut service = Service::start(true);
    let mut machine = service.machine();
    assert_eq!(machine.ask(0, WRITE, 5, &pattern(5, 512), 0).0, OK);
    service.device.set_hold(true);
    machine.send(0, WRITE, 5, &pattern(6, 512), 0);
    while service.server().connection().map(|client| client.in_flight) != Some(1) {
        std::thread::yield_now();
    }
    service.server = None;
    machine.forget(0);
    service.restart(false);
    machine.connect(&service.path);
    service.device.set_hold(false);
    assert_eq!(machine.ask(0, FLUSH, 0, &[], 0).0, OK);
    assert_eq!(machine.used(0), 1);
}

#[test]
fn a_disk_has_one_front_end_at_a_time() {
    let service = Service::start(true);
    let machine = service.machine();
    let path = service.path.clone();
    let second = std::thread::spawn(move || {
        let mut machine = Machine::new();
        machine.connect(&path);
        machine.ask(0, FLUSH, 0, &[], 0).0
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(service.server().connection().map(|client| client.id), Some(1));
    drop(machine);
    assert_eq!(second.join().expect("it is served"), OK);
}
