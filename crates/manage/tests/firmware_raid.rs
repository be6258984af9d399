//! Goal: volumes of Intel's and the SNIA's formats are read as Linux reads them, and nothing is written to their drives.
//! Method: the real mdadm makes them in the oracle's Linux and keeps what its md reads; `stria serve --read-only` reads the same
//! images, with all drives and with some.

mod support;

use std::fs;
use stria_testkit::oracle::{End, Guest, wanted};
use support::{Place, contents};

// mdadm 4.2 dies of SIGPIPE if an mdmon ends while mdadm asks it. It takes an error for an answer.
const SHELL: &str = r#"
trap '' PIPE
container() { mdadm --create /dev/md/$1 --run --metadata=$2 --raid-devices=$3 "${@:4}" >&2; }
volume() { # NAME CONTAINER ARGUMENT…
    yes 2>/dev/null | mdadm --create /dev/md/$1 --run "${@:3}" /dev/md/$2 >&2
    mdadm --wait /dev/md/$1 >&2 || true
    (seq $4 10000000 2>/dev/null || true) | dd of=/dev/md/$1 bs=1M count=16 iflag=fullblock conv=fsync status=none
    cp /dev/md/$1 $SHARE/$1
}
again() { # A name may get a number.
    mdadm --assemble --scan >&2; sleep 1
    for link in /dev/md/*_0; do [ ! -e $link ] || ln -s $(readlink -f $link) ${link%_0}; done
}
stop() { for try in 1 2 3 4; do mdadm --stop /dev/md/$1 >&2 && return || sleep 1; done; mdadm --stop /dev/md/$1 >&2; } # It may be busy.
ends() { mdadm --wait-clean --scan || true; for name in "$@"; do stop $name; sleep 0.5; done; }
"#;

struct Machine {
    place: Place,
    guest: Guest,
    disks: Vec<String>,
}

impl Machine {
    fn new(name: &str, disk_bytes: &[u64]) -> Self {
        let guest = Guest::new(name, disk_bytes).with_serials();
        let disks = (0..disk_bytes.len()).map(|index| guest.disk(index).display().to_string()).collect();
        Self { place: Place::new(), guest, disks }
    }

    /// What `stria examine` says of a field of a volume on a disk.
    fn told(&self, disk: usize, volume: &str, field: &str) -> String {
        let examined: serde_json::Value =
            serde_json::from_str(&self.place.ok(&["--json", "examine", &self.disks[disk]])).expect("JSON");
        let volumes = examined[0]["volumes"].as_array().unwrap_or_else(|| panic!("no volumes: {examined:#}"));
        let fields = volumes.iter().find(|known| known["name"] == volume).unwrap_or_else(|| panic!("no {volume}: {examined:#}"))
            ["fields"]
            .clone();
        let pair = fields.as_array().expect("a list").iter().find(|pair| pair[0] == field);
        pair.unwrap_or_else(|| panic!("no {field}: {fields:#}"))[1].as_str().expect("a text").to_owned()
    }

    /// Reads these volumes from some of the disks as they stand, and compares them with what Linux read. Returns the disks of the
    /// last one by slot.
    fn reads(&self, names: &[&str], disks: &[usize], more: &[&str]) -> Vec<usize> {
        let mut order = Vec::new();
        let disks: Vec<&str> = disks.iter().map(|&disk| self.disks[disk].as_str()).collect();
        let before = contents(&self.disks);
        let serve = self.place.serve(&[&["--read-only"], more, &disks].concat());
        for name in names {
            let wanted = fs::read(self.guest.share().join(name)).expect("what Linux read");
            let status = self.place.status(name);
            assert_eq!(status["size_bytes"], wanted.len(), "{status:#}");
            let mut members: Vec<_> = status["members"].as_array().expect("a list").iter().collect();
            members.sort_by_key(|member| member["slot"].as_u64());
            let disk_of = |path: &serde_json::Value| self.disks.iter().position(|disk| path == disk).expect("a disk");
            order = members.iter().map(|member| disk_of(&member["path"])).collect();
            let mut client = serve.client(name);
            for (index, wanted) in wanted.chunks(1 << 20).enumerate() {
                let found = client.read((index as u64) << 20, wanted.len()).expect("it is read");
                assert!(found == wanted, "{name} on {disks:?} reads otherwise than under Linux from {index} MiB on");
            }
            // No order turns it into an array that is written to.
            self.place.run(&["set", name, "--read-only", "off"]).refused(1, &["metadata belong to firmware"]);
        }
        for name in names {
            self.place.ok(&["stop", name]);
        }
        serve.ended_well();
        assert!(contents(&self.disks) == before, "something was written");
        order
    }
}

#[test]
fn volumes_of_mainboards_are_read_as_linux_reads_them() {
    if !wanted() {
        return;
    }
    let machine = Machine::new("imsm", &[40 << 20; 9]);
    machine.guest.run(
        End::Stop,
        &format!(
            "{SHELL}
            container one imsm 3 $D0 $D1 $D2
            volume five one --level=5 --chunk=64 --raid-devices=3 --size=16M
            volume zero one --level=0 --chunk=128 --raid-devices=3
            container two imsm 4 $D3 $D4 $D5 $D6
            volume ten two --level=10 --chunk=16 --raid-devices=4
            container three imsm 2 $D7 $D8
            volume one1 three --level=1 --raid-devices=2
            ends five zero one ten two one1 three"
        ),
    );
    machine.reads(&["five", "zero"], &[2, 0, 1], &[]);
    machine.reads(&["five"], &[1, 2, 0], &["five"]);
    machine.reads(&["five"], &[2, 0], &["five"]);
    machine.reads(&["ten"], &[3, 4, 5, 6], &[]);
    machine.reads(&["ten"], &[6, 3], &[]);
    machine.reads(&["one1"], &[8], &[]);
    for (disk, volume, field, words) in [
        (1, "five", "Raid Level", "raid5"),
        (1, "five", "Layout", "left-asymmetric"),
        (1, "five", "Chunk Size", "64K"),
        (1, "five", "Used Dev Size", "32768 sectors"),
        (1, "five", "Array State", "AAA"),
        (2, "zero", "Chunk Size", "128K"),
        (4, "ten", "Layout", "near=2"),
        (7, "one1", "State", "clean"),
    ] {
        assert_eq!(machine.told(disk, volume, field), words, "{field} of {volume} on disk {disk}");
    }
    let shown = machine.place.ok(&["examine", &machine.disks[7]]);
    assert!(shown.contains("volume one1, which `stria serve --read-only` reads:"), "{shown}");
    let (place, disks) = (&machine.place, &machine.disks);
    let before = contents(disks);
    place.run(&["serve", &disks[0], &disks[1], &disks[2]]).refused(1, &["Intel RAID (IMSM)", "`stria serve --read-only`"]);
    place.run(&["serve", "--read-only", &disks[0], "five"]).refused(1, &["2 of 3 members are missing", "attach"]);
    place.run(&["create", "x", "--level", "1", &disks[0], "missing"]).refused(4, &["Intel RAID (IMSM)"]);
    assert!(place.ok(&["import", &disks[0]]).contains("--read-only"));
    // A drive finds itself by its serial number, for which the name of its image stands.
    let unnamed = place.path("unnamed.img");
    fs::copy(&disks[7], &unnamed).expect("a copy");
    let unnamed = unnamed.to_str().expect("a plain path");
    place.run(&["serve", "--read-only", unnamed]).refused(1, &["serial number (disk", "name the image"]);
    assert!(place.ok(&["examine", unnamed]).contains("name the image"));
    assert!(contents(disks) == before);

    // What a member missed is not read from it.
    machine.guest.run(
        End::Stop,
        &format!(
            "{SHELL}
            again
            mdadm --fail /dev/md/five $D1 >&2; sleep 2
            (seq 7 10000000 || true) | dd of=/dev/md/five bs=1M count=8 iflag=fullblock conv=fsync status=none
            cp /dev/md/five $SHARE/five
            ends five zero"
        ),
    );
    machine.reads(&["five"], &[0, 1, 2], &["five"]);
    machine.reads(&["five"], &[0, 2], &["five"]);
    assert_eq!(machine.told(0, "five", "Array State"), "A.A");
    assert_eq!(machine.told(0, "five", "Device Role"), "Active device 0");
    place.run(&["serve", "--read-only", "five", &disks[0], &disks[1]]).refused(1, &["missing or incomplete"]);

    // The power is cut while clients write: without a member, parity may be wrong.
    machine.guest.run(
        End::Crash,
        &format!(
            "{SHELL}
            again
            (seq 9 10000000 || true) | dd of=/dev/md/ten bs=1M count=8 iflag=fullblock conv=fsync status=none
            cp /dev/md/ten $SHARE/ten
            (seq 9 10000000 || true) | dd of=/dev/md/five bs=1M count=8 iflag=fullblock conv=fsync status=none
            cp /dev/md/five $SHARE/five"
        ),
    );
    machine.reads(&["ten"], &[3, 4, 5, 6], &[]);
    place.run(&["serve", "--read-only", "five", &disks[0], &disks[2]]).refused(4, &["not stopped cleanly", "--force"]);
    machine.reads(&["five"], &[0, 2], &["--force", "five"]);
}

#[test]
fn volumes_of_controllers_are_read_as_linux_reads_them() {
    if !wanted() {
        return;
    }
    let machine = Machine::new("ddf", &[64 << 20; 12]);
    machine.guest.run(
        End::Stop,
        &format!(
            "{SHELL}
            container one ddf 4 $D0 $D1 $D2 $D3
            volume six one --level=6 --chunk=64 --raid-devices=4 --size=16M
            volume nought one --level=0 --chunk=32 --raid-devices=4
            container two ddf 4 $D4 $D5 $D6 $D7
            volume ten two --level=10 --chunk=16 --raid-devices=4
            container three ddf 4 $D8 $D9 $D10 $D11
            volume mirror three --level=1 --raid-devices=2 --size=8M
            volume five three --level=5 --chunk=64 --layout=left-asymmetric --raid-devices=4 --size=8M
            ends six nought one ten two mirror five three"
        ),
    );
    machine.reads(&["six", "nought"], &[3, 1, 0, 2], &[]);
    machine.reads(&["six"], &[3, 1], &["six"]);
    // mdadm orders members as it likes. A half of each mirror is enough.
    let order = machine.reads(&["ten"], &[4, 5, 6, 7], &[]);
    machine.reads(&["ten"], &[order[3], order[0]], &[]);
    machine.reads(&["ten"], &[order[1], order[2]], &[]);
    machine.reads(&["five", "mirror"], &[8, 9, 10, 11], &[]);
    machine.reads(&["five"], &[8, 9, 11], &["five"]);
    machine.guest.run(
        End::Stop,
        &format!(
            "{SHELL}
            again
            mdadm --fail /dev/md/six $D1 >&2; sleep 2
            (seq 7 10000000 || true) | dd of=/dev/md/six bs=1M count=8 iflag=fullblock conv=fsync status=none
            cp /dev/md/six $SHARE/six
            ends six"
        ),
    );
    machine.reads(&["six"], &[0, 1, 2, 3], &["six"]);
    machine.reads(&["six"], &[0, 2], &["six"]);
    assert_eq!(machine.told(0, "six", "Raid Level"), "raid6");
    let state = machine.told(0, "six", "Array State");
    assert!(state.len() == 4 && state.matches('A').count() == 3 && state.contains('.'), "{state}");
    let (place, disks) = (&machine.place, &machine.disks);
    place.run(&["serve", "--read-only", "six", &disks[1], &disks[2]]).refused(1, &["missing or incomplete"]);
}
