//! Goal: udev keeps mdadm away from a member of Stria's arrays also when `stria config owns` gives no answer, as at shutdown.
//! Method: the real udev in a guest, with the shipped rule, and in place of `stria` a program that answers, dies, or has nothing
//! to say.

use crate::support::guest::ok;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use stria_testkit::nvme;

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/udev/63-stria-members.rules");
const PROGRAMS: [&str; 2] = ["/usr/bin/udevadm", RULES];

/// What udev says of the drive's type, after `stria` did this.
fn type_after(stria: &str) -> String {
    fs::write("/usr/bin/stria", format!("#!/bin/sh\n{stria}\n")).expect("a program");
    fs::set_permissions("/usr/bin/stria", fs::Permissions::from_mode(0o755)).expect("it is ours");
    ok("/usr/bin/udevadm", &["trigger", "--action=change", "--settle", "/sys/block/nvme0n1"]);
    let asked = ["info", "--query=property", "--property=ID_FS_TYPE", "--value", "/dev/nvme0n1"];
    let output = Command::new("/usr/bin/udevadm").args(asked).output().expect("it starts");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// The half of the next test that runs in the guest; not a test by itself.
#[test]
fn members_guests_half() {
    if !nvme::is_guest() {
        return;
    }
    fs::create_dir_all("/etc/udev/rules.d").expect("a folder");
    fs::copy(std::env::var("P2").expect("it came along"), "/etc/udev/rules.d/63-stria-members.rules").expect("a copy");
    // In place of blkid, which finds a member of md.
    let blkid =
        "KERNEL==\"nvme0n1\", ENV{ID_FS_TYPE}=\"linux_raid_member\", ENV{ID_FS_UUID}=\"3aaa0122-2982-7cfa-5331-ad66ca767371\"\n";
    fs::write("/etc/udev/rules.d/60-blkid.rules", blkid).expect("a rule");
    std::os::unix::fs::symlink("/usr/bin/udevadm", "/bin/systemd-udevd").expect("a link");
    ok("/bin/systemd-udevd", &["--daemon"]);
    let (ours, theirs) = ("stria_raid_member", "linux_raid_member");
    let answers = |owned: u8| format!("[ \"$1 $2 $3\" = 'config owns --udev' ] && echo STRIA_MEMBER={owned}");
    assert_eq!(type_after("exit 2"), theirs, "nothing is known yet");
    assert_eq!(type_after(&answers(1)), ours);
    for silence in ["kill -9 $$", "exit 2", "exit 0"] {
        assert_eq!(type_after(silence), ours, "{silence}");
    }
    assert_eq!(type_after(&answers(0)), theirs, "the array was released");
    assert_eq!(type_after("kill -9 $$"), theirs);
}

#[test]
fn udev_remembers_whose_a_drive_is() {
    if nvme::wanted() {
        nvme::run_test("members", "members::members_guests_half", &[nvme::Drive { bytes: 1 << 20, options: "" }], &PROGRAMS);
    }
}
