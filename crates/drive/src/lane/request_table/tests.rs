//! Goal: a client waits for at most one window of another's requests, however many those are. No request is lost or overtaken.
//! Method: several clients send requests to a table, and the test answers them by hand, as a slow device would.

use super::*;
use stria_block::Buffer;

const MIB: usize = 1 << 20;

fn read(tag: Tag, bytes: usize) -> Request {
    let sectors = (bytes / SECTOR_BYTES) as u64;
    Request { tag, start_sector: 0, sectors, operation: Operation::Read { into: smallvec::smallvec![Buffer::zeroed(0)] } }
}

struct Bench {
    request_table: RequestTable,
    /// The requests that the device has, the oldest first.
    device: VecDeque<Request>,
}

impl Bench {
    fn new() -> Self {
        let mut request_table = RequestTable::new("lane", 0);
        request_table.set_now(PERIOD);
        Self { request_table, device: VecDeque::new() }
    }

    /// The client sends a request. True if the device has it at once.
    fn ask(&mut self, client: usize, request: Request) -> bool {
        self.request_table.turn_to_client(client);
        let accepted = self.request_table.accept(request);
        let at_once = accepted.is_some();
        self.device.extend(accepted);
        at_once
    }

    /// The device ends its oldest request. Returns the client that sent it, and its tag.
    fn end_one(&mut self) -> Option<(usize, Tag)> {
        let request = self.device.pop_front()?;
        let open = self.request_table.slots[request.tag as usize].as_ref().expect("it is open");
        let whose = (open.client, open.tag);
        self.request_table.answer(request.complete(Ok(())));
        while let Some(request) = self.request_table.next() {
            self.device.push_back(request);
        }
        Some(whose)
    }

    fn device_bytes(&self) -> usize {
        self.device.iter().map(cost_of).sum()
    }
}

#[test]
fn a_client_alone_has_the_device_for_itself() {
    let mut bench = Bench::new();
    let alone = bench.request_table.admit(0);
    assert!((0..64).all(|tag| bench.ask(alone, read(tag, MIB))));
}

#[test]
fn a_small_request_waits_for_a_window_at_most() {
    let mut bench = Bench::new();
    let [greedy, small] = [0, 1].map(|number| bench.request_table.admit(number));
    assert!(bench.ask(small, read(0, 4096)));
    (0..1024).for_each(|tag| {
        bench.ask(greedy, read(tag, MIB));
    });
    assert!(bench.device_bytes() <= WINDOW_COST_MIN + 2 * MIB, "{}", bench.device_bytes());
    for tag in 1..50 {
        assert!(bench.ask(small, read(tag, 4096)), "it is never held");
        let ahead = bench.device_bytes();
        while bench.end_one().expect("it is not lost") != (small, tag) {}
        assert!(ahead <= WINDOW_COST_MIN + 2 * MIB, "{ahead} bytes were ahead");
    }
    let mut left = 0;
    while bench.end_one().is_some() {
        left += 1;
    }
    assert!(left > 0 && bench.request_table.is_clear() && bench.request_table.cost == 0);
}

#[test]
fn zeroing_costs_by_its_length_up_to_a_bound() {
    let mut bench = Bench::new();
    let [greedy, small] = [0, 1].map(|number| bench.request_table.admit(number));
    assert!(bench.ask(small, read(0, 4096)));
    let sectors = (256 * MIB / SECTOR_BYTES) as u64;
    (0..64).for_each(|tag| {
        let operation = Operation::WriteZeroes { fua: false, unmap: false, fast: false };
        bench.ask(greedy, Request { tag, start_sector: 0, sectors, operation });
    });
    assert!(bench.device.len() <= 1 + WINDOW_COST_MIN / ZEROES_COST_MAX, "{} requests", bench.device.len());
    let mut ended = 0;
    while bench.end_one().is_some() {
        ended += 1;
    }
    assert_eq!(ended, 65, "those beyond the bound have their turn too");
}

#[test]
fn heavy_clients_get_as_many_bytes_each_whatever_the_size_of_their_requests() {
    let mut bench = Bench::new();
    let sizes = [MIB, 64 << 10, 256 << 10];
    let clients = [0, 1, 2].map(|number| bench.request_table.admit(number));
    // All are there before one of them asks for much.
    clients.into_iter().for_each(|client| assert!(bench.ask(client, read(0, 512))));
    for (client, size) in clients.into_iter().zip(sizes) {
        (0..(64 * MIB / size) as u64).for_each(|tag| {
            bench.ask(client, read(tag, size));
        });
    }
    let mut ended = [0; 3];
    while ended.iter().sum::<usize>() < 96 * MIB {
        let (client, _) = bench.end_one().expect("there is more");
        ended[client] += sizes[client];
    }
    let fair = 32 * MIB;
    assert!(ended.iter().all(|bytes| bytes.abs_diff(fair) < 10 * MIB), "{ended:?}");
}

#[test]
fn requests_of_one_client_keep_their_order_and_each_ends_once() {
    let mut bench = Bench::new();
    let clients = [0, 1, 2, 3].map(|number| bench.request_table.admit(number));
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let (mut asked, mut ended) = ([0; 4], [0; 4]);
    for step in 0..20_000_u64 {
        bench.request_table.set_now(PERIOD + step * PERIOD / 1000);
        let client = random() % 4;
        if random() % 2 == 0 {
            bench.ask(clients[client], read(asked[client], 4096 << (random() % 12)));
            asked[client] += 1;
        } else if let Some((client, tag)) = bench.end_one() {
            assert_eq!(tag, ended[client], "in order, none twice, none left out");
            ended[client] += 1;
        }
    }
    while let Some((client, tag)) = bench.end_one() {
        assert_eq!(tag, ended[client]);
        ended[client] += 1;
    }
    assert_eq!(asked, ended);
    assert!(bench.request_table.is_clear());
}

#[test]
fn what_is_held_of_a_client_that_leaves_goes_and_the_end_answers_the_rest() {
    let mut bench = Bench::new();
    let [leaves, stays] = [0, 1].map(|number| bench.request_table.admit(number));
    bench.ask(stays, read(1000, 4096));
    for tag in 0..64 {
        bench.ask(leaves, read(tag, MIB));
        bench.ask(stays, read(tag, MIB));
    }
    bench.request_table.dismiss(leaves);
    let held = bench.request_table.clients[stays].held.len();
    assert!(held > 0 && bench.request_table.clients[leaves].held.is_empty());
    bench.request_table.close();
    assert_eq!(bench.request_table.answers(stays).len(), 65);
    assert!(bench.request_table.is_clear());
}
