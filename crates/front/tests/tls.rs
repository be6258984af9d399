//! Goal: clients that speak TLS are served as others are. Where it is required, no other client gets in.
//! Method: libnbd and QEMU are the clients, with certificates made here. Errors are searched for in their output.

mod support;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stria_block::Limits;
use stria_front::{Export, Listener, Options, Server, ServerHandle, TlsConfig, TlsError};
use stria_testkit::certificates::Authority;
use support::device::LaneDevice;
use support::tools::{run, try_run};

const SIZE_BYTES: usize = 64 << 20;

/// Serves "tank" on TCP and on a unix socket.
fn serve(folder: &Path, tls: TlsConfig) -> ServerHandle {
    let device = Arc::new(LaneDevice::spawn(Limits::plain(SIZE_BYTES as u64 / 512), true));
    let export = Export { name: "tank".into(), description: String::new(), device, read_only: false };
    let listeners = vec![Listener::Tcp("127.0.0.1:0".parse().expect("an address")), Listener::Unix(folder.join("nbd.sock"))];
    Server::start(listeners, vec![export], Options { tls: Some(tls), ..Options::default() }).expect("a server")
}

/// The server's side. `verifies`: clients must show a certificate of this authority.
fn config(authority: &Authority, verifies: bool, required: bool) -> Result<TlsConfig, TlsError> {
    let authorities = verifies.then(|| authority.file("ca-cert.pem"));
    TlsConfig::load(&authority.file("server-cert.pem"), &authority.file("server-key.pem"), authorities.as_deref(), required)
}

/// The URI for clients that find their certificates in `folder`.
fn with_certificates(uri: &str, folder: &Path) -> String {
    format!("{uri}?tls-certificates={}", folder.display())
}

#[test]
fn real_clients_copy_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    let server = serve(folder.path(), config(&Authority::with_both(&keys), true, true).expect("usable files"));
    let tcp = server.uris("tank").remove(0);
    assert!(tcp.starts_with("nbds://127.0.0.1:"), "{tcp}");
    let uri = with_certificates(&tcp, &keys);
    let path = |name: &str| folder.path().join(name).to_str().expect("plain").to_owned();
    let (image, copy) = (path("image"), path("copy"));
    let bytes: Vec<u8> =
        (0..SIZE_BYTES as u64 / 8).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    std::fs::write(&image, &bytes).expect("an image");

    let Some(info) = run("nbdinfo", &["--json", &uri]) else { return };
    assert!(info.contains("\"TLS\": true") && info.contains("\"structured\": true"), "{info}");
    run("nbdcopy", &["--flush", "--connections=4", &image, &uri]);
    run("nbdcopy", &["--connections=4", &uri, &copy]);
    assert!(std::fs::read(&copy).expect("a copy") == bytes, "nbdcopy brought something else back");

    let port = tcp.trim_start_matches("nbds://127.0.0.1:").trim_end_matches("/tank").to_owned();
    let object = format!("tls-creds-x509,id=tls0,endpoint=client,dir={}", keys.display());
    let options = format!("driver=nbd,host=127.0.0.1,port={port},export=tank,tls-creds=tls0");
    std::fs::remove_file(&copy).expect("there");
    run("qemu-img", &["convert", "--object", &object, "--image-opts", &options, "-O", "raw", &copy]);
    assert!(std::fs::read(&copy).expect("a copy") == bytes, "qemu-img brought something else back");
    let patterns =
        ["write -P 0x5a 1M 3M", "write -f -P 0x33 2M 64k", "aio_write -P 0x77 8M 1M", "aio_flush", "write -P 0x11 100 1000"];
    let reads = ["read -P 0x5a 1M 1M", "read -P 0x33 2M 64k", "read -P 0x77 8M 1M", "read -P 0x11 100 1000"];
    let commands: Vec<&str> = patterns.iter().chain(&reads).flat_map(|command| ["-c", command]).collect();
    let output = run("qemu-io", &[&["--object", &object, "--image-opts"], &commands[..], &[&options]].concat());
    assert!(output.is_some_and(|output| !output.contains("failed") && !output.contains("rror")));
    let wait = std::time::Instant::now();
    while !server.connections().is_empty() {
        assert!(wait.elapsed().as_secs() < 30, "{:?}", server.connections());
        std::thread::yield_now();
    }
}

#[test]
fn clients_without_the_right_certificate_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [keys, nobody, stranger, misused] = ["keys", "nobody", "stranger", "misused"].map(|name| folder.path().join(name));
    let authority = Authority::with_both(&keys);
    let server = serve(folder.path(), config(&authority, true, true).expect("usable files"));
    let tcp = server.uris("tank").remove(0);
    let stranger_authority = Authority::with_both(&stranger);
    // These clients trust the server's certificate, so a refusal can only come from the server.
    for folder in [&nobody, &misused] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    for folder in [&nobody, &stranger, &misused] {
        std::fs::copy(authority.file("ca-cert.pem"), folder.join("ca-cert.pem")).expect("copied");
    }
    drop(stranger_authority);
    // A certificate for servers is not valid for clients.
    authority.sign("other", ExtendedKeyUsagePurpose::ServerAuth);
    for kind in ["cert", "key"] {
        std::fs::copy(authority.file(&format!("other-{kind}.pem")), misused.join(format!("client-{kind}.pem"))).expect("copied");
    }
    for folder in [&nobody, &stranger, &misused] {
        let Some(refused) = try_run("nbdinfo", &[&with_certificates(&tcp, folder)]) else { return };
        assert!(!refused.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&refused.stdout));
    }
    let plain = try_run("nbdinfo", &[&tcp.replace("nbds:", "nbd:")]).expect("it ran before");
    assert!(!plain.status.success());
    run("nbdinfo", &[&with_certificates(&tcp, &keys)]);
    // On a unix socket the mode of its file decides, so TLS is not required.
    run("nbdinfo", &[&server.uris("tank")[1]]);
}

#[test]
fn clients_choose_if_tls_is_offered() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    let authority = Authority::with_both(&keys);
    let server = serve(folder.path(), config(&authority, false, false).expect("usable files"));
    let tcp = server.uris("tank").remove(0);
    assert!(tcp.starts_with("nbd://"), "{tcp}");
    // A client without a certificate of its own.
    for kind in ["cert", "key"] {
        std::fs::remove_file(authority.file(&format!("client-{kind}.pem"))).expect("there");
    }
    let Some(plain) = run("nbdinfo", &["--json", &tcp]) else { return };
    assert!(plain.contains("\"TLS\": false"), "{plain}");
    let secret = run("nbdinfo", &["--json", &with_certificates(&tcp.replace("nbd:", "nbds:"), &keys)]).expect("it ran before");
    assert!(secret.contains("\"TLS\": true"), "{secret}");
}

/// A client may be idle for ever, but not in the middle of a record.
#[test]
fn a_client_that_sends_a_part_of_a_record_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::with_both(&folder.path().join("keys"));
    let tls = config(&authority, false, true).expect("usable files");
    let device = Arc::new(LaneDevice::spawn(Limits::plain(SIZE_BYTES as u64 / 512), true));
    let export = Export { name: "tank".into(), description: String::new(), device, read_only: false };
    let stall_timeout = Duration::from_secs(1);
    let options = Options { tls: Some(tls), stall_timeout, ..Options::default() };
    let listeners = vec![Listener::Tcp("127.0.0.1:0".parse().expect("an address"))];
    let server = Server::start(listeners, vec![export], options).expect("a server");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file("ca-cert.pem")).expect("a certificate")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let trust = Arc::new(trust.with_root_certificates(roots).with_no_client_auth());
    let client = || {
        let uri = server.uris("tank").remove(0);
        let address = uri.trim_start_matches("nbds://").trim_end_matches("/tank");
        let mut socket = TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        socket.read_exact(&mut [0; 18]).expect("a greeting");
        // STARTTLS, and its acknowledgement.
        socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0").expect("an option");
        socket.read_exact(&mut [0; 20]).expect("a reply");
        let connection = ClientConnection::new(Arc::clone(&trust), "localhost".try_into().expect("a name")).expect("a client");
        let mut stream = StreamOwned::new(connection, socket);
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x04tank").expect("a wish");
        stream.read_exact(&mut [0; 10]).expect("the export");
        stream
    };
    let read = [&0x2560_9513_u32.to_be_bytes()[..], &[0; 20], &512_u32.to_be_bytes()].concat();
    let mut idle = client();
    let mut half = client();
    let mut record = Vec::new();
    half.conn.writer().write_all(&read).expect("memory");
    half.conn.write_tls(&mut record).expect("memory");
    half.sock.write_all(&record[..record.len() - 1]).expect("all but the last byte");
    let started = Instant::now();
    let ended = half.sock.read_to_end(&mut Vec::new());
    assert!(ended.as_ref().is_ok_and(|_| started.elapsed() >= stall_timeout), "{ended:?} after {:?}", started.elapsed());
    idle.write_all(&read).expect("a read");
    idle.read_exact(&mut [0; 16 + 512]).expect("a reply");
}

#[test]
fn unusable_files_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::with_both(folder.path());
    let load = |cert: &str, key: &str, ca: &str| {
        let ca = authority.file(ca);
        let error = TlsConfig::load(&authority.file(cert), &authority.file(key), Some(&ca), true).expect_err("refused");
        error.to_string()
    };
    std::fs::write(authority.file("empty.pem"), "nothing").expect("written");
    let good = ("server-cert.pem", "server-key.pem", "ca-cert.pem");
    for (cert, key, ca, named, words) in [
        ("none.pem", good.1, good.2, "none.pem", "No such file"),
        ("empty.pem", good.1, good.2, "empty.pem", "no PEM certificate"),
        (good.0, "empty.pem", good.2, "empty.pem", "the server's key"),
        (good.0, good.1, "empty.pem", "empty.pem", "the authorities of clients"),
        (good.0, "client-key.pem", good.2, "client-key.pem", "server-cert.pem"),
    ] {
        let sentence = load(cert, key, ca);
        assert!(sentence.contains(named) && sentence.contains(words), "{sentence}");
    }
}
