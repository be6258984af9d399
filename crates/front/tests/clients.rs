//! Goal: common NBD clients work, over a unix socket and over TCP, and see the properties of the export.
//! Method: each test serves RAM devices and lets a real client judge. A missing client fails the test, unless
//! STRIA_SKIP_TOOLS is set.

mod support;

use std::sync::Arc;
use stria_block::Limits;
use stria_front::{Export, Listener, Options, Server, ServerHandle};
use support::device::LaneDevice;
use support::tools::{run, try_run};

const SIZE_BYTES: u64 = 64 << 20;

struct Service {
    server: ServerHandle,
    folder: tempfile::TempDir,
}

impl Service {
    /// Exports "tank" (the default), "safe" (read-only) and "large blocks" (4096 bytes), on a unix socket and on TCP.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = Limits { discard_granularity_bytes: 512, unmap_zeroes: true, ..Limits::plain(SIZE_BYTES / 512) };
        let large = Limits { logical_block_bytes: 4096, physical_block_bytes: 4096, rotational: true, ..plain.clone() };
        let export = |name: &str, limits: &Limits, read_only| Export {
            name: name.into(),
            description: format!("RAM as {name}"),
            device: Arc::new(LaneDevice::spawn(limits.clone(), true)),
            read_only,
        };
        let exports = vec![export("tank", &plain, false), export("safe", &plain, true), export("large blocks", &large, false)];
        let listeners =
            vec![Listener::Unix(folder.path().join("nbd.sock")), Listener::Tcp("127.0.0.1:0".parse().expect("an address"))];
        let server = Server::start(listeners, exports, Options::default()).expect("a server");
        Self { server, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a plain path").into()
    }

    /// A file of random-looking bytes with a hole in the middle.
    fn image(&self, name: &str) -> String {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = vec![0; SIZE_BYTES as usize];
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if !(1 << 20..2 << 20).contains(&index) {
                word.copy_from_slice(&(state | 1).to_le_bytes());
            }
        }
        std::fs::write(self.path(name), bytes).expect("an image");
        self.path(name)
    }
}

/// Runs python in nbdsh, connected to `uri` as `h`.
fn nbdsh(uri: &str, script: &str) {
    run("nbdsh", &["-c", "h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)", "-u", uri, "-c", script]);
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part} in:\n{text}");
    }
}

/// Bug: after an address that could not be used, a second attempt said that all was well, and nobody listened anywhere.
#[test]
fn addresses_are_listened_on_at_the_next_attempt_when_one_of_them_could_not_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let late = folder.path().join("late");
    std::fs::create_dir(&late).expect("a folder");
    let paths = [folder.path().join("first.sock"), late.join("second.sock"), folder.path().join("third.sock")];
    let mut listeners: Vec<Listener> = paths.iter().cloned().map(Listener::Unix).collect();
    listeners.insert(1, Listener::Tcp("127.0.0.1:0".parse().expect("an address")));
    let server = Server::prepare(listeners, Vec::new(), Options::default()).expect("a server");
    let Listener::Tcp(tcp) = server.listeners()[1] else { panic!("{:?}", server.listeners()) };
    let answers = |path: &std::path::Path| std::os::unix::net::UnixStream::connect(path).is_ok();
    std::fs::remove_dir(&late).expect("it is empty");
    for _ in 0..2 {
        server.listen().expect_err("the folder is gone");
        assert!(!paths.iter().any(|path| answers(path)) && std::net::TcpStream::connect(tcp).is_err(), "then none is");
    }
    std::fs::create_dir(&late).expect("a folder");
    // One that is added meanwhile waits for the others.
    let added = folder.path().join("added.sock");
    server.add_listeners(&[Listener::Unix(added.clone())], Vec::new(), None).expect("a free path");
    assert!(!answers(&added));
    server.listen().expect("all can be used");
    assert!(paths.iter().all(|path| answers(path)) && answers(&added));
    assert!(std::net::TcpStream::connect(tcp).is_ok(), "at the port that was told");
    server.listen().expect("harmless if repeated");
}

/// Bug: a description with the name of an array, as it stood on the drives, reached the terminal of `nbdinfo --list` as it was.
#[test]
fn description_of_an_export_commands_no_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let export = |name: &str, description: &str| Export {
        name: name.into(),
        description: description.into(),
        device: Arc::new(LaneDevice::spawn(Limits::plain(SIZE_BYTES / 512), true)),
        read_only: false,
    };
    let exports = vec![export("tank", "x\ncontrol /tmp/evil\u{1b}[2J\u{202e}"), export("lake", "Österreich")];
    let server = Server::start(vec![Listener::Unix(folder.path().join("nbd.sock"))], exports, Options::default());
    let server = server.expect("a server");
    let uri = |export: &str| server.uris(export).remove(0);
    let Some(list) = run("nbdinfo", &["--list", &uri("")]) else { return };
    assert_has(&list, &["description: x\\ncontrol /tmp/evil\\u{1b}[2J\\u{202e}\n", "description: Österreich\n"]);
    let info = run("nbdinfo", &[&uri("tank")]).expect("it ran before");
    assert_has(&info, &["description: x\\ncontrol /tmp/evil\\u{1b}[2J\\u{202e}\n"]);
    // The name is what clients ask for, so it stays; what an escaped description needs counts, not what was given.
    let long = server.add_export(export("pond", &"\n".repeat(4096)));
    assert!(long.expect_err("8192 bytes").to_string().contains("8192 bytes is too long for NBD"));
}

#[test]
fn nbdinfo_sees_each_export_as_it_is() {
    let service = Service::start();
    for uri in service.server.uris("tank") {
        let Some(info) = run("nbdinfo", &["--json", &uri]) else { return };
        assert_has(&info, &["\"protocol\": \"newstyle-fixed\"", "\"structured\": true", "\"base:allocation\""]);
        assert_has(&info, &["\"description\": \"RAM as tank\"", "\"export-size\": 67108864", "\"is_read_only\": false"]);
        assert_has(&info, &["\"block_size_minimum\": 512", "\"block_size_preferred\": 4096", "\"block_size_maximum\": 33554432"]);
        let can = ["df", "fast_zero", "flush", "fua", "multi_conn", "trim", "zero"];
        can.iter().for_each(|what| assert_has(&info, &[&format!("\"can_{what}\": true")]));
        assert_has(&info, &["\"can_cache\": false", "\"is_rotational\": false"]);
    }
    let uri = |export: &str| service.server.uris(export).remove(0);
    let info = run("nbdinfo", &["--json", &uri("safe")]).expect("it ran before");
    assert_has(&info, &["\"is_read_only\": true", "\"can_trim\": false", "\"can_zero\": false"]);
    let info = run("nbdinfo", &["--json", &uri("large blocks")]).expect("it ran before");
    assert_has(&info, &["\"export-name\": \"large blocks\"", "\"block_size_minimum\": 4096", "\"is_rotational\": true"]);
    let list = run("nbdinfo", &["--list", "--json", &uri("")]).expect("it ran before");
    assert_has(&list, &["\"export-name\": \"tank\"", "\"export-name\": \"safe\"", "\"export-name\": \"large blocks\""]);
    let refused = try_run("nbdinfo", &[&uri("nowhere")]).expect("it ran before");
    assert!(!refused.status.success());
}

#[test]
fn nbdcopy_brings_an_image_in_and_out() {
    let service = Service::start();
    let image = service.image("image");
    for (number, uri) in service.server.uris("tank").iter().enumerate() {
        let copy = service.path(&format!("copy{number}"));
        if run("nbdcopy", &["--flush", "--connections=4", &image, uri]).is_none() {
            return;
        }
        run("nbdcopy", &["--connections=4", uri, &copy]);
        assert!(std::fs::read(&image).expect("image") == std::fs::read(&copy).expect("copy"), "{uri}");
    }
    let map = run("nbdinfo", &["--map", "--json", &service.server.uris("tank")[0]]).expect("libnbd is there");
    assert_has(&map, &["\"offset\": 8388608", "\"length\": 8388608", "\"type\": 3"]);
    let dump = run("nbddump", &["--length=512", &service.server.uris("tank")[0]]).expect("libnbd is there");
    let bytes = std::fs::read(&image).expect("image");
    let hex: Vec<String> = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_has(&dump, &[&hex.join(" ")]);
    let between = service.server.uris("large blocks");
    run("nbdcopy", &[&service.server.uris("tank")[1], &between[0]]);
    let copy = service.path("copy of copy");
    run("nbdcopy", &[&between[1], &copy]);
    assert!(std::fs::read(&image).expect("image") == std::fs::read(&copy).expect("copy"));
}

#[test]
fn nbdsh_tries_every_command() {
    let service = Service::start();
    let script = r#"
import errno
h.set_strict_mode(0)
def fails(number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        assert False, "this succeeded"

size = h.get_size()
h.zero(size, 0)
assert h.get_structured_replies_negotiated()
assert h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
data = bytes(range(1, 256)) * 1028 + b"xyz1"
data = data[:262144]
h.pwrite(data, 1 << 20, nbd.CMD_FLAG_FUA)
assert h.pread(len(data), 1 << 20) == data
assert h.pread(len(data), 1 << 20, nbd.CMD_FLAG_DF) == data
chunks = []
buffer = h.pread_structured(4096, 1 << 20, lambda part, offset, status, error: chunks.append((offset, len(part), status)))
assert buffer == data[:4096] and chunks == [(1 << 20, 4096, nbd.READ_DATA)], chunks

extents = []
h.block_status(1 << 20, (1 << 20) - 4096, lambda context, offset, entries, error: extents.append((context, offset, entries)))
assert extents[0][:2] == ("base:allocation", (1 << 20) - 4096), extents
assert extents[0][2][:4] == [4096, 3, 262144, 0], extents
one = []
h.block_status(1 << 20, 0, lambda context, offset, entries, error: one.extend(entries), nbd.CMD_FLAG_REQ_ONE)
assert len(one) == 2 and one[1] == 3, one

h.zero(4096, 1 << 20)
h.zero(4096, (1 << 20) + 8192, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_FAST_ZERO)
h.trim(4096, (1 << 20) + 16384, nbd.CMD_FLAG_FUA)
h.flush()
assert h.pread(4096, 1 << 20) == bytes(4096)
assert h.pread(4096, (1 << 20) + 4096) == data[4096:8192]
assert h.pread(4096, (1 << 20) + 8192) == bytes(4096)

assert h.pread(100, (1 << 20) + 4100) == data[4100:4200], "reads begin and end at any byte"
fails(errno.EINVAL, lambda: h.pwrite(bytes(100), 0))
fails(errno.EINVAL, lambda: h.pread(512, size))
fails(errno.ENOSPC, lambda: h.pwrite(bytes(1024), size - 512))
fails(errno.ENOSPC, lambda: h.zero(1024, size - 512))
fails(errno.EINVAL, lambda: h.trim(1024, size - 512))
fails(errno.EINVAL, lambda: h.cache(512, 0))
fails(errno.EINVAL, lambda: h.pread(512, 0, nbd.CMD_FLAG_NO_HOLE))
assert h.pread(512, size - 512) == bytes(512)

# A flush on one connection covers what another has been told is written, and everyone sees it.
assert h.can_multi_conn()
other = nbd.NBD()
other.connect_uri(h.get_uri())
h.pwrite(b"m" * 4096, 0)
other.flush()
assert other.pread(4096, 0) == b"m" * 4096

# Without structured replies, and by the old way in.
old = nbd.NBD()
old.set_request_structured_replies(False)
old.set_handshake_flags(0)
old.connect_uri(h.get_uri())
assert not old.can_df() and old.pread(4096, 0) == b"m" * 4096
old.set_strict_mode(0)
assert old.pread(100, 4000) == b"m" * 96 + bytes(4)

# Haggling: options one by one.
haggler = nbd.NBD()
haggler.set_opt_mode(True)
haggler.add_meta_context("base:")
haggler.connect_uri(h.get_uri())
names = []
haggler.opt_list(lambda name, description: names.append((name, description)))
assert names == [("tank", "RAM as tank"), ("safe", "RAM as safe"), ("large blocks", "RAM as large blocks")], names
contexts = []
haggler.opt_list_meta_context(contexts.append)
assert contexts == ["base:allocation"], contexts
haggler.set_export_name("nowhere")
fails(errno.ENOENT, haggler.opt_info)
haggler.set_export_name("safe")
haggler.set_full_info(True)
haggler.opt_info()
assert haggler.get_export_description() == "RAM as safe" and haggler.is_read_only()
haggler.opt_go()
haggler.set_strict_mode(0)
fails(errno.EPERM, lambda: haggler.pwrite(bytes(512), 0))
fails(errno.EPERM, lambda: haggler.zero(512, 0))
fails(errno.EPERM, lambda: haggler.trim(512, 0))
assert haggler.pread(512, 0) == bytes(512)
aborter = nbd.NBD()
aborter.set_opt_mode(True)
aborter.connect_uri(h.get_uri())
aborter.opt_abort()

# TLS: refused, and gone on without.
polite = nbd.NBD()
polite.set_tls(nbd.TLS_ALLOW)
polite.connect_uri(h.get_uri())
assert not polite.get_tls_negotiated()
"#;
    for uri in service.server.uris("tank") {
        nbdsh(&uri, script);
    }
}

#[test]
fn nbdsh_keeps_blocks_of_4096_apart() {
    let service = Service::start();
    let script = r#"
h.set_strict_mode(0)
assert h.get_block_size(nbd.SIZE_MINIMUM) == 4096
for offset, count in (0, 512), (512, 4096):
    assert h.pread(count, offset) == bytes(count)
    try:
        h.pwrite(bytes(count), offset)
        assert False
    except nbd.Error as error:
        assert error.errnum == 22
h.pwrite(b"q" * 4096, 4096)
assert h.pread(8192, 4096) == b"q" * 4096 + bytes(4096)
"#;
    nbdsh(&service.server.uris("large blocks")[0], script);
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    let service = Service::start();
    let image = service.image("image");
    for (number, uri) in service.server.uris("tank").iter().enumerate() {
        let Some(info) = run("qemu-img", &["info", uri]) else { return };
        assert_has(&info, &["64 MiB"]);
        run("qemu-img", &["convert", "-n", "-W", "-f", "raw", "-O", "raw", &image, uri]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, uri]);
        let copy = service.path(&format!("copy{number}.qcow2"));
        run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", uri, &copy]);
        run("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &copy, uri]);
        let map = run("qemu-img", &["map", "--output=json", "-f", "raw", uri]).expect("it ran before");
        assert_has(&map, &["\"start\": 8388608, \"length\": 8388608, \"depth\": 0, \"present\": true, \"zero\": true"]);
    }
}

#[test]
fn qemu_io_patterns_come_back() {
    let service = Service::start();
    let commands = [
        "write -P 0x5a 1M 3M",
        "read -P 0x5a 1M 3M",
        "write -f -P 0x33 2M 64k",
        "read -P 0x33 2M 64k",
        "write -z 1M 64k",
        "read -P 0 1M 64k",
        "write -z -u 1114112 64k",
        "read -P 0 1114112 64k",
        "discard 3M 64k",
        "flush",
        "read -P 0x5a 2162688 64k",
        "aio_write -P 0x77 8M 1M",
        "aio_flush",
        "read -P 0x77 8M 1M",
        "write -P 0x11 100 1000",
        "read -P 0x11 100 1000",
    ];
    for export in ["tank", "large blocks"] {
        for uri in service.server.uris(export) {
            let arguments: Vec<&str> = ["-f", "raw"].into_iter().chain(commands.iter().flat_map(|c| ["-c", c])).collect();
            let Some(output) = run("qemu-io", &[&arguments[..], &[&uri]].concat()) else { return };
            assert!(!output.contains("failed") && !output.contains("rror"), "{uri}:\n{output}");
        }
    }
    let refused = try_run("qemu-io", &["-f", "raw", "-c", "write 0 512", &service.server.uris("safe")[0]]).expect("qemu");
    assert!(!refused.status.success(), "a read-only export was opened for writing");
}

#[test]
fn fio_verifies_what_it_wrote() {
    let service = Service::start();
    for uri in service.server.uris("tank") {
        let job = service.path("job");
        let text = format!(
            "[global]\nioengine=nbd\nuri={uri}\nrw=randrw\nbssplit=4k/60:64k/30:1m/10\niodepth=32\nsize=16m\nio_size=64m\n\
             verify=crc32c\nverify_fatal=1\nverify_state_save=0\nfsync=64\n[a]\noffset=0\n[b]\noffset=16m\n[c]\noffset=32m\nrw=write\n[d]\noffset=48m\n"
        );
        std::fs::write(&job, text).expect("a job file");
        let Some(output) = run("fio", &["--output-format=terse", &job]) else { return };
        assert!(!output.contains("verify:"), "{output}");
    }
}
