//! Goal: each side receives the bytes that the other one sent, however they are cut. No bytes from the peer make memory grow.
//! Method: rustls' own client, in memory.

use super::*;
use proptest::prelude::*;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{Read, Write as _};

struct Pair {
    client: ClientConnection,
    /// The bytes that the client received.
    heard: Vec<u8>,
    server: TlsStream,
}

impl Pair {
    fn new(version: &'static SupportedProtocolVersion) -> Self {
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
        let (cert, key) = (signed.cert.der().clone(), PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert.clone()], key.into())
            .expect("a pair");
        let mut roots = RootCertStore::empty();
        roots.add(cert).expect("a root");
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
        client.set_buffer_limit(None);
        let server = TlsStream::new(Arc::new(server)).expect("a server");
        Self { client, heard: Vec::new(), server }
    }

    /// Moves bytes both ways, `piece` at a time, until all are sent. Returns the bytes that the server received, taken `space` at
    /// a time.
    fn run(&mut self, piece: usize, space: usize) -> Result<Vec<u8>, rustls::Error> {
        let mut heard = Vec::new();
        loop {
            let mut moved = false;
            let mut wire = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut wire).expect("memory");
            }
            for bytes in wire.chunks(piece) {
                let free = self.server.space();
                free[..bytes.len()].copy_from_slice(bytes);
                self.server.received(bytes.len());
                loop {
                    let (mut one, mut other) = (vec![0; space], vec![0; 1]);
                    let len = self.server.take(&mut [&mut one, &mut other])?;
                    one.extend(other);
                    heard.extend_from_slice(&one[..len]);
                    if len <= space {
                        break;
                    }
                }
                moved = true;
            }
            while !self.server.output().is_empty() {
                let bytes = &self.server.output()[..self.server.output().len().min(piece)];
                let mut left = bytes;
                while !left.is_empty() {
                    self.client.read_tls(&mut left).expect("memory");
                    self.client.process_new_packets().expect("a good server");
                    // "Would block" once all is read.
                    let _ = self.client.reader().read_to_end(&mut self.heard);
                }
                let len = bytes.len();
                self.server.sent(len);
                moved = true;
            }
            if !moved {
                return Ok(heard);
            }
        }
    }
}

const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_said_is_heard(
        version in 0..2usize,
        said in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40_000), 1..6),
        cuts in prop::collection::vec(1..30_000usize, 1..8),
        piece in 1..9_000usize,
        space in 1..50_000usize,
    ) {
        let mut pair = Pair::new(VERSIONS[version]);
        prop_assert_eq!(pair.server.put(&[IoSlice::new(b"too early")]).expect("no error"), 0);
        prop_assert!(pair.run(piece, space).expect("a handshake").is_empty());

        let all = said.concat();
        for message in &said {
            pair.client.writer().write_all(message).expect("memory");
        }
        prop_assert_eq!(pair.run(piece, space).expect("good records"), all.clone());

        // The same bytes back, in slices that records do not fit.
        let mut slices = Vec::new();
        let (mut rest, mut cut) = (&all[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (slice, behind) = rest.split_at(rest.len().min(*cut.next().expect("endless")));
            slices.push(IoSlice::new(slice));
            rest = behind;
        }
        let mut slices = &mut slices[..];
        while !slices.is_empty() {
            let len = pair.server.put(slices).expect("no error");
            prop_assert!(len > 0 && pair.server.output().len() < OUTGOING_BYTES + RECORD_BYTES + RECORD_OVERHEAD_BYTES);
            IoSlice::advance_slices(&mut slices, len);
            pair.run(piece, space).expect("good records");
        }
        prop_assert_eq!(&pair.heard, &all);
        pair.server.close();
        pair.run(piece, space).expect("good records");
        prop_assert_eq!(pair.client.reader().read(&mut [0; 1]).expect("a clean end"), 0);
    }

    #[test]
    fn noise_is_an_error_or_waits_and_is_answered_by_an_alert(noise in prop::collection::vec(any::<u8>(), 1..3000)) {
        let mut pair = Pair::new(VERSIONS[0]);
        pair.server.space()[..noise.len()].copy_from_slice(&noise);
        pair.server.received(noise.len());
        let mut space = [0; 100];
        match pair.server.take(&mut [&mut space, &mut []]) {
            Ok(len) => prop_assert_eq!(len, 0),
            Err(_) => prop_assert!(!pair.server.output().is_empty()),
        }
    }
}

#[test]
fn altered_bytes_are_never_heard() {
    let mut pair = Pair::new(VERSIONS[0]);
    pair.run(usize::MAX, 100).expect("a handshake");
    pair.client.writer().write_all(&[7; 5000]).expect("memory");
    let mut wire = Vec::new();
    pair.client.write_tls(&mut wire).expect("memory");
    wire[3000] ^= 1;
    pair.server.space()[..wire.len()].copy_from_slice(&wire);
    pair.server.received(wire.len());
    let mut space = [0; 5000];
    pair.server.take(&mut [&mut space, &mut []]).expect_err("it was altered");
    assert_eq!(space, [0; 5000]);
    assert!(!pair.server.output().is_empty(), "the peer is told");
}
