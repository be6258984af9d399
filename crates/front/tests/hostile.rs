//! Goal: no client, however broken or hostile, disturbs another, delays the server, or makes it grow.
//! Method: raw sockets that break every rule, beside a correct client that must be served all the while.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use stria_front::{Closing, FrontError, Listener, Options, Server, SocketError};
use support::device::LaneDevice;
use support::raw::{SIZE_BYTES, Service, assert_closed, export, ram, reply, request};

#[test]
fn nonsense_ends_only_its_own_connection() {
    let service = Service::start(Options::default());
    let bystander = service.client();
    let nonsense: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x03IHAVENOT\0\0\0\x03\0\0\0\0",
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\xff\xff\xff\xff",
        b"\0\0\0\0IHAVEOPT\0\0\0\x03\0\0\0\0",
    ];
    for bytes in nonsense {
        let mut client = service.connect();
        client.write_all(bytes).expect("nonsense is taken");
        assert_closed(client);
    }
    let mut client = service.client();
    client.write_all(&[7; 100]).expect("nonsense is taken");
    assert_closed(client);
    service.assert_well();
    drop(bystander);
    service.wait_for_connections(0);
}

#[test]
fn a_panic_of_the_device_closes_connections_without_answers() {
    let service = Service::start(Options::default());
    let mut client = service.client();
    service.device.set_hold(true);
    client.write_all(&request(0, 1, 0, 4096)).expect("a read");
    service.device.wait_for_kept(1);
    service.device.break_off();
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty(), "an answer: {rest:?}");
}

#[test]
fn clients_that_vanish_midway_leave_nothing_behind() {
    let service = Service::start(Options::default());
    for cut in [1, 17, 27, 28, 29, 1000, 28 + 4095] {
        let mut client = service.client();
        let stream = [request(1, 1, 0, 4096), vec![9; 4096]].concat();
        client.write_all(&stream[..cut]).expect("a part");
    }
    for cut in [0, 3, 11, 19] {
        service.connect().write_all(&b"\0\0\0\x03IHAVEOPT\0\0\0\x03\0\0\0\0"[..cut]).expect("a part");
    }
    service.wait_for_connections(0);
    service.assert_well();
}

#[test]
fn a_handshake_that_drags_on_is_ended() {
    let service = Service::start(Options { handshake_timeout: Duration::from_millis(300), ..Options::default() });
    let started = Instant::now();
    let mut loris = service.connect();
    let silent = service.connect();
    for byte in b"\0\0\0\x03IHAVEOPT\0\0\0\x03\0\0".iter().cycle() {
        if loris.write_all(&[*byte]).is_err() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "still heard after {:?}", started.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
    assert_closed(silent);
    service.wait_for_connections(0);
    service.assert_well();
}

/// A client that has sent a request.
fn used_client(service: &Service) -> UnixStream {
    let mut client = service.client();
    client.write_all(&request(0, 3, 0, 512)).expect("a read");
    assert_eq!(reply(&mut client), (3, 0));
    client.read_exact(&mut [0; 512]).expect("the data");
    client
}

#[test]
fn clients_that_work_keep_their_places_and_newcomers_are_told() {
    let service = Service::start(Options { connections_max: 3, ..Options::default() });
    let mut clients = [0; 3].map(|_| used_client(&service));
    thread::sleep(Duration::from_millis(2500));
    // A client may go on negotiating after a refused GO; a refused EXPORT_NAME ends the connection.
    let mut newcomer = service.connect();
    newcomer.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x0a\0\0\0\x04tank\0\0").expect("a wish");
    let mut answer = [0; 18 + 20];
    newcomer.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[18 + 12..18 + 16], 0x8000_0002_u32.to_be_bytes(), "refused by policy");
    let mut words = vec![0; u32::from_be_bytes(answer[18 + 16..].try_into().expect("4")) as usize];
    newcomer.read_exact(&mut words).expect("words");
    assert!(String::from_utf8_lossy(&words).contains("--nbd-clients"), "{words:?}");
    let mut short = service.connect();
    short.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04tank").expect("a wish");
    assert_closed(short);
    // Clients do not lose their places, and the new client gets the first free one.
    for client in &mut clients {
        client.write_all(&request(0, 4, 0, 512)).expect("a read");
        assert_eq!(reply(client), (4, 0));
        client.read_exact(&mut [0; 512]).expect("the data");
    }
    let [first, ..] = clients;
    drop(first);
    service.wait_for_connections(3);
    newcomer.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x04tank").expect("a wish");
    let mut facts = [0; 134];
    newcomer.read_exact(&mut facts[..10]).expect("a place");
    assert_eq!(facts[..8], SIZE_BYTES.to_be_bytes());
}

#[test]
fn clients_that_never_ask_for_anything_give_way() {
    let service = Service::start(Options { connections_max: 4, ..Options::default() });
    let mut worker = used_client(&service);
    let idlers = [0; 3].map(|_| service.client());
    thread::sleep(Duration::from_millis(2500));
    for _ in 0..5 {
        service.assert_well();
    }
    let [oldest, ..] = idlers;
    assert_closed(oldest);
    worker.write_all(&request(0, 4, 0, 512)).expect("a read");
    assert_eq!(reply(&mut worker), (4, 0));
}

#[test]
fn one_peer_does_not_get_all_places() {
    let service = Service::start(Options { connections_max: 64, peer_connections_max: 2, ..Options::default() });
    let _two = [used_client(&service), used_client(&service)];
    let mut third = service.connect();
    third.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04tank").expect("a wish");
    assert_closed(third);
}

#[test]
fn silent_peers_lock_nobody_out() {
    let service = Service::start(Options::default());
    for _ in 0..3 {
        let mut silent: Vec<UnixStream> = Vec::new();
        for number in 0..140 {
            silent.push(service.connect());
            if number % 20 == 0 {
                service.assert_well();
            }
        }
        service.assert_well();
        let threads = service.server.connections().len();
        assert!(threads <= 64, "{threads} are in the handshake");
    }
    service.wait_for_connections(0);
}

#[test]
fn clients_that_stand_still_are_closed_and_idle_ones_are_not() {
    let stall_timeout = Duration::from_secs(1);
    let service = Service::start(Options { stall_timeout, ..Options::default() });
    let mut idle = used_client(&service);
    let mut deaf = service.client();
    (0..16).for_each(|cookie| deaf.write_all(&request(0, cookie, 0, 1 << 20)).expect("a read"));
    let mut tired = service.client();
    tired.write_all(&[request(1, 1, 0, 1 << 20), vec![1; 1000]].concat()).expect("a part of a write");
    let mut refused = service.client();
    refused.write_all(&[request(1, 1, SIZE_BYTES, 1 << 20), vec![1; 1000]].concat()).expect("a part of a write beyond the end");
    let mut half = service.client();
    half.write_all(&request(0, 1, 0, 512)[..27]).expect("a part of a request");
    // A client that reads slowly, but reads.
    let mut slow = service.client();
    (0..16).for_each(|cookie| slow.write_all(&request(0, cookie, 0, 1 << 20)).expect("a read"));
    let started = Instant::now();
    let mut data = vec![0; 1 << 20];
    for _ in 0..16 {
        assert_eq!(reply(&mut slow).1, 0);
        slow.read_exact(&mut data).expect("the data");
        thread::sleep(Duration::from_millis(150));
    }
    assert!(started.elapsed() > 2 * stall_timeout);
    service.wait_for_connections(2);
    [tired, refused, half].into_iter().for_each(assert_closed);
    let mut left = Vec::new();
    // Bytes that the kernel had already taken still arrive.
    let _ = deaf.read_to_end(&mut left);
    assert!(left.len() < 16 << 20, "a client that read nothing was kept");
    idle.write_all(&request(0, 4, 0, 512)).expect("a read");
    assert_eq!(reply(&mut idle), (4, 0));
}

#[test]
fn a_small_read_does_not_wait_for_those_who_never_read() {
    let service = Service::start(Options { bytes_max: 192 << 20, ..Options::default() });
    let _greedy: Vec<UnixStream> = (0..24)
        .map(|_| {
            let mut greedy = service.client();
            greedy.set_write_timeout(Some(Duration::from_millis(50))).expect("a time-out");
            (0..2000).take_while(|&cookie| greedy.write_all(&request(0, cookie, 0, 256 << 10)).is_ok()).count();
            greedy
        })
        .collect();
    let mut client = service.client();
    let mut data = [0; 4096];
    for cookie in 0..200 {
        client.write_all(&request(0, cookie, 0, 4096)).expect("a read");
        assert_eq!(reply(&mut client), (cookie, 0));
        client.read_exact(&mut data).expect("the data");
    }
    service.assert_well();
}

#[test]
fn noise_from_many_clients_at_once_disturbs_nobody() {
    // As many as connect in all: on a busy machine those that have left may still be counted.
    let service = Service::start(Options { connections_max: 512, peer_connections_max: 512, ..Options::default() });
    thread::scope(|scope| {
        for seed in 1..=8_u64 {
            let service = &service;
            scope.spawn(move || {
                let mut state = seed;
                let mut random = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    state >> 33
                };
                for _ in 0..50 {
                    let mut client = service.client();
                    for _ in 0..random() % 40 {
                        let [command, offset, length] = [random() % 9, random() % (2 * SIZE_BYTES), random() % 70_000];
                        let rounding = if random() % 2 == 0 { 512 } else { 1 };
                        let length = (length / rounding * rounding) as u32;
                        let offset = offset % (SIZE_BYTES - (1 << 20)) / rounding * rounding;
                        let mut bytes = request(command as u16, random(), offset, length);
                        if command == 1 {
                            bytes.resize(28 + length as usize, 3);
                        }
                        if random() % 64 == 0 {
                            bytes.truncate(random() as usize % bytes.len());
                        }
                        if client.write_all(&bytes).is_err() {
                            break;
                        }
                    }
                }
            });
        }
        for _ in 0..20 {
            service.assert_well();
        }
    });
    service.wait_for_connections(0);
}

#[test]
fn many_clients_write_and_read_at_once() {
    let service = Service::start(Options::default());
    thread::scope(|scope| {
        for number in 0..32_u64 {
            let service = &service;
            scope.spawn(move || {
                let mut client = service.client();
                let (share, block) = (SIZE_BYTES / 32, 16 << 10);
                for round in 0..4 {
                    let pattern = |index: u64| vec![(number * 7 + index + round) as u8 | 1; block];
                    for index in 0..share / block as u64 {
                        let offset = number * share + index * block as u64;
                        client.write_all(&[request(1, index, offset, block as u32), pattern(index)].concat()).expect("a write");
                    }
                    for index in 0..share / block as u64 {
                        assert_eq!(reply(&mut client), (index, 0));
                    }
                    let mut back = vec![0; block];
                    for index in 0..share / block as u64 {
                        client
                            .write_all(&request(0, index, number * share + index * block as u64, block as u32))
                            .expect("a read");
                        assert_eq!(reply(&mut client), (index, 0));
                        client.read_exact(&mut back).expect("data");
                        assert!(back == pattern(index));
                    }
                }
            });
        }
    });
}

#[test]
fn a_client_that_only_closed_its_sending_side_gets_its_replies() {
    let service = Service::start(Options::default());
    let mut client = service.client();
    service.device.set_hold(true);
    client.write_all(&(0..10).flat_map(|cookie| request(0, cookie, 0, 4096)).collect::<Vec<_>>()).expect("reads");
    client.shutdown(std::net::Shutdown::Write).expect("half closed");
    thread::sleep(Duration::from_millis(50));
    service.device.set_hold(false);
    let mut replies = Vec::new();
    client.read_to_end(&mut replies).expect("replies, then the end");
    assert_eq!(replies.len(), 10 * (16 + 4096));
}

#[test]
fn stopping_answers_what_is_in_flight_first() {
    let service = Service::start(Options::default());
    let mut client = service.client();
    let mut idle = service.client();
    let haggling = service.connect();
    service.device.set_hold(true);
    client.write_all(&[request(1, 1, 0, 4096), vec![1; 4096]].concat()).expect("a write");
    while service.server.connections().iter().map(|connection| connection.in_flight).sum::<u64>() == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let Service { server, device, path, _folder } = service;
    let stopper = thread::spawn(move || server.stop());
    thread::sleep(Duration::from_millis(100));
    assert!(!stopper.is_finished(), "stopped with a write under way");
    device.set_hold(false);
    assert_eq!(reply(&mut client), (1, 0));
    assert_eq!(client.read(&mut [0]).expect("the end"), 0);
    assert_eq!(idle.read(&mut [0]).expect("the end"), 0);
    assert_closed(haggling);
    stopper.join().expect("stopped");
    assert!(!path.exists(), "the socket is left behind");
    assert_let_go(&device);
}

#[test]
fn a_device_that_hangs_does_not_keep_the_server_from_stopping() {
    let service = Service::start(Options { drain_timeout: Duration::from_millis(300), ..Options::default() });
    let mut client = service.client();
    service.device.set_hold(true);
    client.write_all(&request(0, 1, 0, 4096)).expect("a read");
    thread::sleep(Duration::from_millis(50));
    let started = Instant::now();
    service.server.stop();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_closed(client);
}

/// Only a thread that is just ending may still hold the device.
fn assert_let_go(device: &Arc<LaneDevice>) {
    let patience = Instant::now();
    while Arc::strong_count(device) > 1 {
        assert!(patience.elapsed() < Duration::from_secs(5), "the device is held still");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn exports_come_and_go_while_others_are_served() {
    let service = Service::start(Options::default());
    let extra = ram();
    service.server.add_export(export("extra", &extra)).expect("a second export");
    assert_eq!(service.server.exports(), ["tank", "extra"]);
    let twice = service.server.add_export(export("extra", &extra)).expect_err("a name given twice");
    assert!(matches!(twice, FrontError::DuplicateExport { .. }));
    let (mut of_tank, of_extra) = (service.client(), service.client_of("extra"));
    while service.server.connections().iter().any(|connection| connection.export.is_none()) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(Arc::strong_count(&extra) > 1, "the server holds the device");
    service.server.remove_export("extra", Closing::Disconnect).expect("removed");
    assert_let_go(&extra);
    assert_closed(of_extra);
    of_tank.write_all(&request(0, 3, 0, 512)).expect("a read");
    assert_eq!(reply(&mut of_tank), (3, 0));
    let unknown = service.server.remove_export("extra", Closing::Disconnect).expect_err("it is gone");
    assert_eq!(unknown.to_string(), "there is no export \"extra\"; the names are: tank");
    let status = service.server.connections();
    assert_eq!((status.len(), status[0].requests, status[0].read_bytes), (1, 1, 512));
    assert!(status[0].peer.contains(&format!("process {}", std::process::id())), "{}", status[0].peer);
}

#[test]
fn a_device_that_ends_for_good_says_so_and_one_that_may_return_does_not() {
    const ESHUTDOWN: u32 = 108;
    for closing in [Closing::Shutdown, Closing::Disconnect] {
        let service = Service::start(Options::default());
        let mut client = service.client();
        client.write_all(&request(0, 1, 0, 512)).expect("a read");
        assert_eq!(reply(&mut client), (1, 0));
        client.read_exact(&mut [0; 512]).expect("its data");
        let mut seen = 0;
        thread::scope(|scope| {
            let ends = scope.spawn(|| service.server.remove_export("tank", closing));
            // One request at a time, until the connection is closed.
            for cookie in 2.. {
                let write = [request(1, cookie, 0, 512), vec![7; 512]].concat();
                let mut head = [0; 16];
                if client.write_all(&write).is_err() || client.read_exact(&mut head).is_err() {
                    break;
                }
                let errno = u32::from_be_bytes(head[4..8].try_into().expect("four bytes"));
                assert_eq!(head[8..], u64::to_be_bytes(cookie), "the reply to this write");
                assert!(errno == 0 || errno == ESHUTDOWN, "{errno}");
                assert!(seen == 0 || errno == ESHUTDOWN, "once shut down, always");
                seen += u32::from(errno == ESHUTDOWN);
            }
            ends.join().expect("no panic").expect("removed");
        });
        assert_eq!(seen > 0, closing == Closing::Shutdown, "{closing:?}: {seen}");
        // A client that connects now gets the same answer: option 7 (GO), the name, no information wanted.
        let mut late = service.connect();
        late.read_exact(&mut [0; 18]).expect("a greeting");
        let go = [
            &3_u32.to_be_bytes()[..],
            b"IHAVEOPT",
            &7_u32.to_be_bytes(),
            &10_u32.to_be_bytes(),
            &4_u32.to_be_bytes(),
            b"tank",
            &[0; 2],
        ];
        late.write_all(&go.concat()).expect("it listens");
        let mut head = [0; 20];
        late.read_exact(&mut head).expect("a reply");
        let (unknown, shutdown) = ((1_u32 << 31) + 6, (1_u32 << 31) + 7);
        let expected = if closing == Closing::Shutdown { shutdown } else { unknown };
        assert_eq!(head[12..16], expected.to_be_bytes(), "{closing:?}");
    }
}

#[test]
fn an_idle_client_costs_no_time() {
    let service = Service::start(Options { peer_connections_max: 128, ..Options::default() });
    let mut client = service.client();
    client.write_all(&request(0, 3, 0, 512)).expect("a read");
    let switches = |name: &str| {
        let tasks = fs::read_dir("/proc/self/task").expect("threads");
        let task = tasks.map(|task| task.expect("a thread").path()).find(|task| {
            // Tests run in parallel, so the thread must be the one that serves this client.
            fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name)
        });
        let status = fs::read_to_string(task.expect("the client's thread").join("status")).expect("its status");
        let line = status.lines().find(|line| line.starts_with("voluntary")).expect("its switches").to_string();
        line.split_whitespace().nth(1).expect("a count").parse::<u64>().expect("a number")
    };
    // Where clients live apart, connections of this server start at 1, those of other tests too, so this server's are
    // numbered up first.
    let thread = service.device.thread_of_clients().unwrap_or("nbd-100");
    let clients: Vec<UnixStream> = (0..99).map(|_| service.client()).collect();
    thread::sleep(Duration::from_millis(1500));
    let before = switches(thread);
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(switches(thread), before);
    drop(clients);
}

#[test]
fn sockets_in_the_way_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nbd.sock");
    let start = || Server::start(vec![Listener::Unix(path.clone())], vec![export("tank", &ram())], Options::default());
    drop(UnixListener::bind(&path).expect("a socket whose server is gone"));
    let server = start().expect("a stale socket is replaced");
    let busy = start().err().expect("a live socket is left alone");
    assert!(busy.to_string().contains("another server listens there"), "{busy}");
    drop(server);
    fs::write(&path, "precious").expect("a file");
    assert!(matches!(start().err(), Some(FrontError::Socket { source: SocketError::NotASocket, .. })));
    assert_eq!(fs::read_to_string(&path).expect("the file"), "precious");
    let options = Options { request_bytes_max: 1000, ..Options::default() };
    let odd = Server::start(vec![], vec![], options).err().expect("an odd limit is refused");
    assert_eq!(odd.to_string(), "NBD option request_bytes_max is 1000; it must be a multiple of 4096 from 65536 to 1073741824");
}
