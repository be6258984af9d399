//! Goal: no client makes the server grow beyond its options.
//! Method: as in `hostile.rs`, but the tests run one after the other in a process of their own, because they measure its
//! memory.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};
use stria_front::Options;
use support::raw::{Service, reply, request};

fn resident_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").expect("statm");
    pages.split(' ').nth(1).expect("resident").parse::<usize>().expect("a number") * 4096
}

fn assert_grew_less_than(bytes: usize, before: usize) {
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < bytes, "grew by {grown} bytes, more than {bytes}");
}

#[test]
fn memory_stays_within_the_options() {
    memory_comes_back_from_idle_clients();
    options_of_absurd_length_are_passed_over_without_memory();
    a_client_that_takes_no_replies_stalls_only_itself();
    a_write_that_lies_about_its_length_is_refused_and_takes_no_memory();
    // First, while no earlier request has left memory for its small ones.
    all_clients_together_get_no_more_than_the_options_say(512);
    all_clients_together_get_no_more_than_the_options_say(256 << 10);
    all_clients_together_get_no_more_than_the_options_say(64 << 10);
    all_clients_together_get_no_more_than_the_options_say(8 << 20);
    clients_that_ask_and_go_hold_no_more_than_the_options_say();
    // Last: the allocator keeps more after it.
    a_client_does_not_wait_for_idle_ones_to_cool();
}

/// Some 64 KiB for a connection, and what the allocator and the threads need.
const BESIDES_BYTES: usize = 40 << 20;

fn all_clients_together_get_no_more_than_the_options_say(request_bytes: u32) {
    let bytes_max = 160 << 20;
    let service = Service::start(Options { bytes_max, stall_timeout: Duration::from_secs(2), ..Options::default() });
    service.assert_well();
    let before = resident_bytes();
    let greedy: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut greedy = service.client();
            greedy.set_write_timeout(Some(Duration::from_millis(20))).expect("a time-out");
            (0..2000).take_while(|&cookie| greedy.write_all(&request(0, cookie, 0, request_bytes)).is_ok()).count();
            // And the beginning of a large write, behind what is not parsed.
            let _ = greedy.write_all(&request(1, 9, 0, 8 << 20));
            greedy
        })
        .collect();
    assert_grew_less_than(bytes_max + BESIDES_BYTES, before);
    // There is always memory for a small request, and for a large one after the stalled clients are disconnected.
    service.assert_well();
    let mut client = service.client();
    client.write_all(&request(0, 1, 0, 16 << 20)).expect("a read");
    assert_eq!(reply(&mut client), (1, 0));
    let mut data = vec![0; 16 << 20];
    client.read_exact(&mut data).expect("the data");
    assert_grew_less_than(bytes_max + BESIDES_BYTES, before);
    drop((client, greedy));
    service.wait_for_connections(0);
}

/// Their requests hang in the device, which holds their memory long after they have left.
fn clients_that_ask_and_go_hold_no_more_than_the_options_say() {
    let bytes_max = 160 << 20;
    let drain_timeout = Duration::from_millis(20);
    let service = Service::start(Options { bytes_max, drain_timeout, ..Options::default() });
    service.assert_well();
    let before = resident_bytes();
    service.device.set_hold(true);
    for round in 0..60 {
        let mut client = service.client();
        // The device holds written memory; that of reads is not touched yet.
        client.set_write_timeout(Some(Duration::from_millis(200))).expect("a time-out");
        let _ = client.write_all(&[request(1, round, 0, 8 << 20), vec![round as u8 | 1; 8 << 20]].concat());
    }
    assert_grew_less_than(bytes_max + BESIDES_BYTES, before);
    service.device.set_hold(false);
    service.assert_well();
    service.wait_for_connections(0);
}

fn options_of_absurd_length_are_passed_over_without_memory() {
    let service = Service::start(Options::default());
    let mut client = service.connect();
    client.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x63\x04\0\0\0").expect("an option of 64 MiB");
    service.assert_well();
    let before = resident_bytes();
    for _ in 0..64 {
        client.write_all(&vec![0; 1 << 20]).expect("its data");
    }
    let mut answer = [0; 18 + 20];
    client.read_exact(&mut answer).expect("a reply");
    assert_eq!(answer[18 + 12..][..4], 0x8000_0009_u32.to_be_bytes(), "too big");
    assert_grew_less_than(16 << 20, before);
    service.assert_well();
}

fn a_client_that_takes_no_replies_stalls_only_itself() {
    let service = Service::start(Options { bytes_in_flight_max: 32 << 20, ..Options::default() });
    service.assert_well();
    let before = resident_bytes();
    let mut greedy = service.client();
    greedy.set_write_timeout(Some(Duration::from_millis(200))).expect("a time-out");
    let asked = (0..20_000).take_while(|&cookie| greedy.write_all(&request(0, cookie, 0, 1 << 20)).is_ok()).count();
    assert!(asked < 20_000, "20000 reads of 1 MiB were taken from a client that takes no replies");
    let status = service.server.connections().remove(0);
    assert!(status.in_flight <= 32 && status.export.as_deref() == Some("tank"), "{status:?}");
    assert_grew_less_than(80 << 20, before);
    service.assert_well();
    // If it starts to read, every reply arrives in full.
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..asked.min(100) {
        assert_eq!(reply(&mut greedy).1, 0);
        greedy.read_exact(&mut buffer).expect("the data");
    }
    drop(greedy);
    service.wait_for_connections(0);
}

fn a_write_that_lies_about_its_length_is_refused_and_takes_no_memory() {
    let service = Service::start(Options::default());
    service.assert_well();
    let before = resident_bytes();
    let mut liars: Vec<UnixStream> = (0..50).map(|_| service.client()).collect();
    for liar in &mut liars {
        liar.write_all(&request(1, 5, 0, u32::MAX)).expect("a lie");
        assert_eq!(reply(liar), (5, 28));
        liar.write_all(&request(0, 6, 0, 512).repeat(1000)).expect("payload");
    }
    assert_grew_less_than(32 << 20, before);
    service.assert_well();
    drop(liars);
    service.wait_for_connections(0);
}

/// Idle clients return memory after a second, and at once if another one waits for it.
fn a_client_does_not_wait_for_idle_ones_to_cool() {
    let options = Options { bytes_max: 40 << 20, connections_max: 8, request_bytes_max: 16 << 20, ..Options::default() };
    let service = Service::start(options);
    let mut clients: Vec<UnixStream> = (0..2).map(|_| service.client()).collect();
    let mut buffer = vec![0; 16 << 20];
    let begun = Instant::now();
    for round in 0..10 {
        let client = &mut clients[round % 2];
        client.write_all(&request(0, round as u64, 0, 16 << 20)).expect("a read");
        assert_eq!(reply(client), (round as u64, 0));
        client.read_exact(&mut buffer).expect("the data");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

fn memory_comes_back_from_idle_clients() {
    let service = Service::start(Options::default());
    let mut clients: Vec<UnixStream> = (0..10).map(|_| service.client()).collect();
    service.assert_well();
    let before = resident_bytes();
    let mut buffer = vec![0; 8 << 20];
    for client in &mut clients {
        client.write_all(&request(0, 1, 0, 8 << 20)).expect("a read");
        assert_eq!(reply(client), (1, 0));
        client.read_exact(&mut buffer).expect("the data");
    }
    drop(buffer);
    thread::sleep(Duration::from_millis(1500));
    assert_grew_less_than(20 << 20, before);
    service.assert_well();
}
