//! A script that records its arguments replaces mdadm; tests/md.rs uses the real one.

use super::*;

/// Answers every call with success, and `--detail` with a given text; notes the calls.
fn played(folder: &Path, detail: &str, fails: &str) -> PathBuf {
    let program = folder.join("mdadm");
    let calls = folder.join("calls").display().to_string();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{calls}'\ncase \"$1\" in\n--detail) echo '{detail}';;\n'{fails}') echo 'mdadm: cannot' >&2; exit 1;;\nesac\n"
    );
    stria_testkit::script(&program, &script);
    program
}

fn calls(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn spec(level: &str, assume_clean: bool) -> MdSpec {
    let drives = ["/dev/sda", "/dev/sdb", "/dev/sdc"].map(PathBuf::from).into();
    MdSpec { level: level.into(), strip_bytes: (level != "1").then_some(64 << 10), assume_clean, drives }
}

#[test]
fn it_is_made_stopped_and_wiped_or_left_to_be_assembled() {
    let folder = tempfile::tempdir().unwrap();
    let (program, sockets) = (played(folder.path(), "", "none"), folder.path().join("sockets"));
    let md = Md::open(&program, spec("5", false), &sockets, None).unwrap();
    let device = md.device().display().to_string();
    assert!(device.starts_with("/dev/md") && sockets.join(LEFT).exists() && md.sync() == Sync::Done);
    md.unmake().unwrap();
    let made = format!(
        "--create {device} --run --metadata=1.2 --name=stria-lab --level=5 --raid-devices=3 --chunk=64 --bitmap=internal /dev/sda /dev/sdb /dev/sdc"
    );
    let wiped = "--zero-superblock /dev/sda /dev/sdb /dev/sdc";
    assert_eq!(calls(folder.path()), [made.as_str(), &format!("--stop {device}"), wiped]);
    assert!(!sockets.join(LEFT).exists());
    assert_eq!(spec("5", false).command_lines()[0], format!("mdadm {made}"), "a plan says the same");

    fs::remove_file(folder.path().join("calls")).unwrap();
    drop(Md::open(&program, spec("10", false), &sockets, Some("1:2:3:4")).unwrap());
    let back = format!("--assemble {device} --run --uuid=1:2:3:4 /dev/sda /dev/sdb /dev/sdc");
    assert_eq!(calls(folder.path()), [back, format!("--stop {device}")], "of a run that broke off nothing is wiped");
}

#[test]
fn what_a_level_does_not_have_is_not_asked_for() {
    let words = |level, assume_clean| spec(level, assume_clean).create(Path::new("/dev/md9")).join(" ");
    assert!(!words("0", true).contains("bitmap") && !words("0", true).contains("assume-clean"));
    assert!(!words("1", true).contains("chunk") && words("1", true).contains("--bitmap=internal --assume-clean"));
    assert!(!words("6", false).contains("assume-clean") && words("6", true).contains("--assume-clean"));
}

#[test]
fn a_failure_is_told_in_mdadms_words_and_leaves_no_array() {
    let folder = tempfile::tempdir().unwrap();
    let (program, sockets) = (played(folder.path(), "", "--create"), folder.path().join("sockets"));
    let words = Md::open(&program, spec("5", false), &sockets, None).unwrap_err();
    assert!(words.starts_with("mdadm --create /dev/md") && words.ends_with("mdadm: cannot"), "{words}");
    assert_eq!(calls(folder.path()).last().map(|call| call.starts_with("--stop")), Some(true), "half made is stopped");
    let words = Md::open(Path::new("/nowhere/mdadm"), spec("5", false), &sockets, None).unwrap_err();
    assert!(words.contains("install"), "{words}");
}

#[test]
fn only_its_own_array_is_stopped_after_a_kill() {
    for (detail, stops) in
        [("              Name : here:stria-lab  (local to host here)", true), ("              Name : here:home", false)]
    {
        let folder = tempfile::tempdir().unwrap();
        let program = played(folder.path(), detail, "none");
        fs::write(folder.path().join(LEFT), "/dev/md120").unwrap();
        stop_left(&program, folder.path());
        assert_eq!(calls(folder.path()).contains(&"--stop /dev/md120".to_owned()), stops, "{detail}");
        assert!(!folder.path().join(LEFT).exists());
    }
}

/// The files of /sys/class/block/mdX/md, as the kernel writes them.
#[test]
fn a_resync_that_a_failed_member_ends_is_not_waited_for() {
    let done = [("sync_action", "idle"), ("resync_start", "none"), ("degraded", "0"), ("dev-sda/state", "in_sync")];
    let cases: [(&[(&str, &str)], Sync, u64); 9] = [
        (&[], Sync::Done, 0),
        (&[("sync_action", "resync"), ("resync_start", "0")], Sync::Runs, 0),
        // RAID 5 fills its last drive.
        (&[("sync_action", "recover"), ("degraded", "1"), ("dev-sdb/state", "spare")], Sync::Runs, 1),
        (&[("sync_action", "check")], Sync::Runs, 0),
        // The moment before it begins, and a drive that was taken away.
        (&[("degraded", "1")], Sync::Waits, 1),
        (&[("resync_start", "4096")], Sync::Waits, 0),
        (&[("degraded", "1"), ("sync_action", "frozen")], Sync::Waits, 1),
        (&[("degraded", "1"), ("dev-sdb/state", "faulty")], Sync::Failed("sdb".into()), 1),
        (
            &[
                ("degraded", "2"),
                ("sync_action", "recover"),
                ("dev-sdc/state", "faulty,write_error"),
                ("dev-sda/state", "faulty"),
            ],
            Sync::Failed("sda, sdc".into()),
            2,
        ),
    ];
    for (changes, wanted, lost) in cases {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in done.iter().chain(changes) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        assert_eq!((sync_of(folder.path()), lost_members_of(folder.path())), (wanted, lost), "{changes:?}");
    }
    assert_eq!(sync_of(Path::new("/nowhere")), Sync::Done, "RAID 0 has no such files");
}
