//! A server with one RAM device, and clients that speak the protocol byte by byte.

use super::device::LaneDevice;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use stria_block::Limits;
use stria_front::{Export, Listener, Options, Server, ServerHandle};

pub const SIZE_BYTES: u64 = 16 << 20;
const GREETING: &[u8; 18] = b"NBDMAGICIHAVEOPT\0\x03";

pub struct Service {
    pub server: ServerHandle,
    pub device: Arc<LaneDevice>,
    pub path: PathBuf,
    pub _folder: tempfile::TempDir,
}

pub fn ram() -> Arc<LaneDevice> {
    let limits = Limits { discard_granularity_bytes: 512, ..Limits::plain(SIZE_BYTES / 512) };
    // `hostile_apart.rs` runs the tests of `hostile.rs` without on-lane clients.
    Arc::new(LaneDevice::spawn(limits, !env!("CARGO_CRATE_NAME").ends_with("apart")))
}

pub fn export(name: &str, device: &Arc<LaneDevice>) -> Export {
    Export { name: name.into(), description: String::new(), device: Arc::clone(device) as _, read_only: false }
}

impl Service {
    pub fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nbd.sock");
        let device = ram();
        let server = Server::start(vec![Listener::Unix(path.clone())], vec![export("tank", &device)], options);
        Self { server: server.expect("a server"), device, path, _folder: folder }
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        stream
    }

    /// Connects to an export by the oldest option.
    pub fn client_of(&self, name: &str) -> UnixStream {
        let mut stream = self.connect();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting, GREETING);
        let len = (name.len() as u32).to_be_bytes();
        let hello = [b"\0\0\0\x03IHAVEOPT\0\0\0\x01".as_slice(), &len, name.as_bytes()].concat();
        stream.write_all(&hello).expect("a hello");
        let mut facts = [0; 10];
        stream.read_exact(&mut facts).expect("the export");
        assert_eq!(facts[..8], SIZE_BYTES.to_be_bytes());
        stream
    }

    pub fn client(&self) -> UnixStream {
        self.client_of("tank")
    }

    /// A correct client is served, promptly.
    pub fn assert_well(&self) {
        let started = Instant::now();
        let mut client = self.client();
        let data = [0xa5; 4096];
        client.write_all(&[request(1, 1, SIZE_BYTES - 4096, 4096), data.to_vec()].concat()).expect("a write");
        assert_eq!(reply(&mut client), (1, 0));
        client.write_all(&request(0, 2, SIZE_BYTES - 4096, 4096)).expect("a read");
        assert_eq!(reply(&mut client), (2, 0));
        let mut back = [0; 4096];
        client.read_exact(&mut back).expect("the data");
        assert_eq!(back, data);
        assert!(started.elapsed() < Duration::from_secs(5), "served after {:?}", started.elapsed());
    }

    pub fn wait_for_connections(&self, count: usize) {
        let patience = Instant::now();
        while self.server.connections().len() != count {
            assert!(patience.elapsed() < Duration::from_secs(20), "{:?}", self.server.connections());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

pub fn request(command: u16, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0], &command.to_be_bytes(), &cookie.to_be_bytes()].concat();
    [&head[..], &offset_bytes.to_be_bytes(), &length_bytes.to_be_bytes()].concat()
}

/// Cookie and error of a simple reply.
pub fn reply(client: &mut UnixStream) -> (u64, u32) {
    let mut bytes = [0; 16];
    client.read_exact(&mut bytes).expect("a reply");
    assert_eq!(bytes[..4], 0x6744_6698_u32.to_be_bytes());
    (u64::from_be_bytes(bytes[8..].try_into().expect("8")), u32::from_be_bytes(bytes[4..8].try_into().expect("4")))
}

/// The server has closed: nothing more arrives.
pub fn assert_closed(mut client: UnixStream) {
    let mut rest = Vec::new();
    match client.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
}
