//! Goal: an array that belongs to Stria is left alone by mdadm, and comes back to it when it is released.
//! Method: `stria adopt` writes mdadm's configuration; the real mdadm reads it in the oracle's Linux, with the array's drives
//! attached.

mod support;

use std::fs;
use std::process::Command;
use stria_testkit::oracle::{End, Guest, wanted};
use support::Place;

#[test]
fn mdadm_leaves_adopted_arrays_alone() {
    if !wanted() {
        return;
    }
    let guest = Guest::new("masters", &[40 << 20; 6]);
    let place = Place::new();
    place.is_a_machine();
    let conf = place.path("mdadm.conf");
    fs::write(&conf, "HOMEHOST <ignore>\nMAILADDR root\n").expect("a file");
    let disks: Vec<String> = (0..6).map(|index| guest.disk(index).display().to_string()).collect();
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    place.ok(&["create", "mine", "--level", "1", "--assume-clean", disks[0], disks[1]]);
    place.ok(&["create", "theirs", "--level", "1", "--assume-clean", disks[2], disks[3]]);
    place.ok(&["create", "both", "--level", "1", "--assume-clean", disks[4], disks[5]]);
    // An administrator has named one of them in mdadm's own file, over two lines.
    let uuid = |disk: &str| {
        let examined = place.ok(&["--json", "examine", disk]);
        let fields: serde_json::Value = serde_json::from_str(&examined).expect("JSON");
        let fields = fields[0]["superblock"].as_array().expect("a list").clone();
        fields.iter().find(|field| field[0] == "Array UUID").expect("a UUID")[1].as_str().expect("text").to_owned()
    };
    let own =
        format!("{}ARRAY /dev/md/mine metadata=1.2\n   UUID={}\n", fs::read_to_string(&conf).expect("a text"), uuid(disks[0]));
    fs::write(&conf, &own).expect("a file");

    // What mdadm starts by itself with each of these, at boot (--scan) and as drives come (--incremental). All in one boot.
    let keep = |name: &str| {
        fs::copy(&conf, guest.share().join(name)).expect("a copy");
    };
    keep("own");
    place.ok(&["adopt", disks[0], disks[1]]);
    place.ok(&["adopt", disks[4], disks[5]]);
    keep("adopted");
    place.ok(&["release", "both"]);
    keep("released");
    place.ok(&["release", "mine"]);
    assert_eq!(fs::read_to_string(&conf).expect("a text"), own);
    let started = guest.run(
        End::Forget,
        r#"
        started() { echo $1 $2: $(mdadm --detail --scan | grep -o 'name=[^ ]*' | sort | cut -d= -f2); mdadm --stop --scan >&2; }
        for conf in own adopted released; do
            mdadm --assemble --scan --config=$SHARE/$conf >&2 || true
            started $conf scan
            for disk in $DISKS; do mdadm --incremental --config=$SHARE/$conf $disk >&2 || true; done
            started $conf incremental
        done
        "#,
    );
    // Of a scan mdadm starts what the file names, and everything only if it names nothing.
    let expected = "own scan: mine\nown incremental: both mine theirs\n\
                    adopted scan: theirs\nadopted incremental: theirs\n\
                    released scan: both theirs\nreleased incremental: both theirs\n";
    assert_eq!(started, expected);
}

/// What udev's rule asks.
#[test]
fn udev_is_told_whose_a_drive_is() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(5, 64 << 20);
    place.ok(&["create", "tank", "--level", "50", "--assume-clean", &images[0], &images[1], &images[2], &images[3]]);
    let output = Command::new("/sbin/blkid").args(["-p", "-o", "value", "-s", "UUID", &images[0]]).output().expect("blkid");
    let uuid = String::from_utf8(output.stdout).expect("text");
    let uuid = uuid.trim();
    assert!(uuid.contains('-'), "blkid writes dashes: {uuid}");
    assert_eq!(place.run(&["config", "owns", uuid]).code, 1);
    place.ok(&["adopt", &images[0], &images[1], &images[2], &images[3]]);
    assert_eq!(place.run(&["config", "owns", uuid]).code, 0, "the drive's array is a span of one that belongs to Stria");
    assert_eq!(place.ok(&["config", "owns", "--udev", uuid]), "STRIA_MEMBER=1\n");
    place.ok(&["release", "tank"]);
    assert_eq!(place.run(&["config", "owns", uuid]).code, 1);
    assert_eq!(place.ok(&["config", "owns", "--udev", uuid]), "STRIA_MEMBER=0\n");
    place.run(&["incremental", "--if-running", &images[0]]).refused(0, &[]);
    place.run(&["incremental", &images[0]]).refused(1, &["no daemon runs"]);
}

/// Before, the array was in the configuration by then, an import had its new name on its drives, and a destroyed array was gone.
#[test]
fn nothing_is_written_where_mdadm_could_not_be_kept_away() {
    let place = Place::new();
    place.is_a_machine();
    let images = place.images(4, 64 << 20);
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
    place.ok(&["create", "pool", "--level", "1", "--assume-clean", &images[2], &images[3]]);
    place.ok(&["adopt", &images[2], &images[3]]);
    let good = fs::read_to_string(place.config()).expect("a configuration");
    let conf = place.path("mdadm.conf");
    let text = fs::read_to_string(&conf).expect("mdadm's configuration");
    let missing = place.path("nowhere/mdadm.conf");
    let elsewhere = good.replace(&format!("{:?}", conf.display().to_string()), &format!("{:?}", missing.display().to_string()));
    assert_ne!(good, elsewhere);
    let damaged = text.replace("# END stria\n", "");
    assert_ne!(text, damaged);
    let contents = || support::contents(&images);
    let before = contents();
    // Where there is no file, an array that goes needs no word there.
    for (config, block, word, count) in [(&elsewhere, &text, "[mdadm]", 3), (&good, &damaged, "END stria", 5)] {
        fs::write(place.config(), config).expect("a file");
        fs::write(&conf, block).expect("a file");
        let commands: [&[&str]; 5] = [
            &["adopt", &images[0], &images[1]],
            &["import", "tank", "--name", "lake", &images[0], &images[1]],
            &["rename", "pool", "puddle", &images[2], &images[3]],
            &["release", "pool"],
            &["destroy", "pool", "--force", &images[2], &images[3]],
        ];
        for command in &commands[..count] {
            place.run(command).refused(1, &[word, "nothing was done"]);
            assert_eq!(&fs::read_to_string(place.config()).expect("a configuration"), config, "{command:?}");
            assert!(contents() == before, "{command:?} has written to a drive");
        }
    }
}
