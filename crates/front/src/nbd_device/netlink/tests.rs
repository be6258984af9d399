//! Goal: Linux gets the bytes that its headers ask for, and its answers are understood. Method: bytes written by hand, and a
//! kernel that the test plays. The driver itself is met in a guest (`manage/tests/guests/attach.rs`).

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

const FAMILY_ID: u16 = 0x1d;
const GROUP_ID: u32 = 41;

/// A kernel with one answer to each command of the family.
struct Kernel {
    has_driver: bool,
    answer: i32,
    asked: RefCell<Vec<Vec<u8>>>,
    answers: RefCell<VecDeque<Vec<u8>>>,
    joined: RefCell<Vec<u32>>,
    /// Once: reports found no space.
    has_overflowed: Cell<bool>,
}

impl Kernel {
    fn new(has_driver: bool, answer: i32) -> Self {
        let (asked, answers, joined, has_overflowed) = Default::default();
        Self { has_driver, answer, asked, answers, joined, has_overflowed }
    }

    /// A message with this body.
    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(0_u16.to_ne_bytes());
        message.extend(sequence.to_ne_bytes());
        message.extend(0_u32.to_ne_bytes());
        message.extend(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn acknowledgement(request: &[u8], code: i32) -> Vec<u8> {
        let sequence = u32::from_ne_bytes(request[8..12].try_into().expect("4 bytes"));
        Self::message(2, sequence, &[&code.to_ne_bytes()[..], &request[..16]].concat())
    }
}

impl Wire for &Kernel {
    fn send(&self, request: &[u8]) -> io::Result<()> {
        let kind = u16::from_ne_bytes([request[4], request[5]]);
        let sequence = u32::from_ne_bytes(request[8..12].try_into().expect("4 bytes"));
        let mut answers = self.answers.borrow_mut();
        self.asked.borrow_mut().push(request.to_vec());
        match (kind, self.has_driver) {
            (0x10, false) => answers.push_back(Kernel::acknowledgement(request, -2)),
            (0x10, true) => {
                let group = [Kernel::attribute(1, b"nbd_mc_group\0"), Kernel::attribute(2, &GROUP_ID.to_ne_bytes())].concat();
                let body = [
                    vec![1, 2, 0, 0],
                    Kernel::attribute(2, b"nbd\0"),
                    Kernel::attribute(1, &FAMILY_ID.to_ne_bytes()),
                    Kernel::attribute(7, &Kernel::attribute(1, &group)),
                ]
                .concat();
                answers.push_back(Kernel::message(0x10, sequence, &body));
                answers.push_back(Kernel::acknowledgement(request, 0));
            }
            (FAMILY_ID, true) => {
                // As Linux does: an answer and the acknowledgement in one datagram. A message for another request is ignored.
                let stale = Kernel::message(2, sequence + 7, &[0xff; 20]);
                let body = [vec![request[16], 1, 0, 0], Kernel::attribute(1, &0_u32.to_ne_bytes())].concat();
                let mut datagram = if self.answer == 0 { Kernel::message(FAMILY_ID, sequence, &body) } else { Vec::new() };
                datagram.extend(Kernel::acknowledgement(request, self.answer));
                answers.extend([stale, datagram]);
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn receive(&self, patience: Option<Duration>) -> io::Result<Option<Vec<u8>>> {
        if self.has_overflowed.take() {
            return Err(Errno::NOBUFS.into());
        }
        let answer = self.answers.borrow_mut().pop_front();
        assert!(answer.is_some() || patience.is_some(), "nothing more would come");
        Ok(answer)
    }

    fn join(&self, group: u32) -> io::Result<()> {
        self.joined.borrow_mut().push(group);
        Ok(())
    }
}

#[test]
fn a_connect_is_what_the_headers_of_linux_say() {
    let kernel = Kernel::new(true, 0);
    let mut driver = Driver::over(&kernel).expect("it has the driver");
    let order = Order {
        index: 3,
        size: Some((0x1_0000_0000, 512)),
        timeout_s: Some(0),
        dead_connection_timeout_s: Some(600),
        server_flags: Some(0x16d),
        sockets: vec![7, 9],
        backend: Some("stria-1".into()),
    };
    driver.ask(command::CONNECT, &order).expect("it answers");
    let asked = kernel.asked.borrow();
    let request = asked.last().expect("it was asked");
    let mut expected = Vec::new();
    let mut put = |text: &str| {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hexadecimal");
        expected.extend(digits.chunks(2).map(byte));
    };
    put("80000000 1d00 0500 02000000 00000000"); // length, family, REQUEST | ACK, sequence, port
    put("01 01 0000"); // CONNECT, version
    put("0800 0100 03000000"); // INDEX
    put("0c00 0200 0000000001000000"); // SIZE_BYTES
    put("0c00 0300 0002000000000000"); // BLOCK_SIZE_BYTES
    put("0c00 0400 0000000000000000"); // TIMEOUT
    put("0c00 0500 6d01000000000000"); // SERVER_FLAGS
    put("0c00 0800 5802000000000000"); // DEAD_CONN_TIMEOUT
    put("1c00 0780 0c000180 08000100 07000000 0c000180 08000100 09000000"); // SOCKETS of SOCK_ITEM of SOCK_FD
    put("0c00 0a00 73747269612d3100"); // BACKEND_IDENTIFIER
    if cfg!(target_endian = "little") {
        assert_eq!(format!("{request:02x?}"), format!("{expected:02x?}"));
    }
}

#[test]
fn refusals_of_the_driver_are_errors() {
    let kernel = Kernel::new(true, -16);
    let mut driver = Driver::over(&kernel).expect("it has the driver");
    let error = driver.ask(command::DISCONNECT, &Order::default()).expect_err("it refuses");
    assert_eq!(error.raw_os_error(), Some(16));
}

#[test]
fn without_the_driver_the_remedy_is_named() {
    let error = Driver::over(&Kernel::new(false, 0)).err().expect("there is none").to_string();
    assert!(error.contains("modprobe nbd"), "{error}");
}

#[test]
fn lost_connections_are_reported_by_index() {
    let kernel = Kernel::new(true, 0);
    let mut driver = Driver::over(&kernel).expect("it has the driver");
    driver.listen().expect("it may");
    assert_eq!(*kernel.joined.borrow(), [GROUP_ID]);
    let report = |command: u8, index: &[u8]| {
        let body = [vec![command, 1, 0, 0], Kernel::attribute(1, index)].concat();
        kernel.answers.borrow_mut().push_back(Kernel::message(FAMILY_ID, 0, &body));
        driver.lost_connection(Duration::ZERO).expect("it is read")
    };
    assert_eq!(report(command::LINK_DEAD, &5_u32.to_ne_bytes()), Lost::Of(5));
    assert_eq!(report(5, &5_u32.to_ne_bytes()), Lost::None, "a status");
    assert_eq!(report(command::LINK_DEAD, &[5]), Lost::None, "too short for an index");
    assert_eq!(driver.lost_connection(Duration::ZERO).expect("none came"), Lost::None);
    // Bug: a report that found no space in the socket was overlooked, and requests waited until they failed.
    kernel.has_overflowed.set(true);
    assert_eq!(driver.lost_connection(Duration::ZERO).expect("it goes on"), Lost::Unknown);
    assert_eq!(report(command::LINK_DEAD, &7_u32.to_ne_bytes()), Lost::Of(7), "what comes behind");
    kernel.answers.borrow_mut().push_back(vec![1, 2, 3]);
    assert!(driver.lost_connection(Duration::ZERO).is_err());
}

/// The kernel's own socket says so too: with an error that is not suppressed.
#[test]
fn a_socket_that_overflows_says_so() {
    let mut listening = Socket::new(NETLINK_GENERIC).expect("a socket");
    listening.bind_auto().expect("an address");
    // The controller's own group, which every process may listen to.
    const CONTROLLER: u32 = 0x10;
    Wire::join(&listening, CONTROLLER).expect("it may");
    assert!(!listening.get_no_enobufs().expect("an option"));
}
