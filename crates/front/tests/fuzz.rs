//! Goal: a real server survives hostile streams on real sockets, serves other clients meanwhile, and frees all memory that the
//! hostile ones used.
//! Method: the streams of `src/fuzz`, sent in pieces by several clients at once, read or not, and cut off anywhere.

mod support;

#[allow(dead_code)]
#[path = "../src/fuzz/stream.rs"]
mod stream;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stream::{Choices, choices_of};
use stria_front::Options;
use support::raw::Service;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// `STRIA_FUZZ_SOCKETS` streams, from seed `STRIA_FUZZ_SEED` on.
#[test]
fn hostile_streams_on_sockets_disturb_nobody() {
    let (count, first) = (number("STRIA_FUZZ_SOCKETS", 600), number("STRIA_FUZZ_SEED", 0));
    let service = Service::start(Options {
        bytes_max: 160 << 20,
        stall_timeout: Duration::from_secs(2),
        drain_timeout: Duration::from_secs(2),
        handshake_timeout: Duration::from_secs(2),
        ..Options::default()
    });
    let next = AtomicU64::new(first);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let started = Instant::now();
                    attack(&service, seed);
                    assert!(started.elapsed() < Duration::from_secs(30), "the stream of seed {seed} hangs");
                }
            });
        }
        while next.load(Ordering::Relaxed) < first + count {
            service.assert_well();
            thread::sleep(Duration::from_millis(50));
        }
    });
    service.wait_for_connections(0);
    service.assert_well();
}

fn attack(service: &Service, seed: u64) {
    let bytes = choices_of(seed);
    let choices = &mut Choices(&bytes);
    let (reads, goes) = (!choices.rarely(4), choices.rarely(3));
    let stream = stream::stream(choices);
    let mut socket = service.connect();
    socket.set_write_timeout(Some(Duration::from_millis(300))).expect("a time-out");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let reader = reads.then(|| {
        let mut socket = socket.try_clone().expect("a handle");
        thread::spawn(move || {
            let mut sink = vec![0; 64 << 10];
            while socket.read(&mut sink).is_ok_and(|len| len > 0) {}
        })
    });
    let mut choices = Choices(&bytes);
    for piece in stream.chunks(1 + choices.below(3000) as usize) {
        if socket.write_all(piece).is_err() {
            break;
        }
    }
    if goes {
        let _ = socket.shutdown(Shutdown::Both);
    } else {
        let _ = socket.shutdown(Shutdown::Write);
    }
    if let Some(reader) = reader {
        reader.join().expect("no panic");
    }
}
