//! A script replaces hdparm and simulates the drives. It prints the output of hdparm 9.65 for such drives' IDENTIFY data.

use super::*;
use std::fs;
use std::path::PathBuf;

/// `hdparm -I` from where security begins.
fn identity(lines: &str, times: &str) -> String {
    format!(
        "\n/dev/sda:\n\nATA device, with non-removable media\n\tModel Number:       SAMPLE SSD\nCommands/features:\n\tEnabled\tSupported:\n\
         \t   *\tSecurity Mode feature set\nSecurity: \n\tMaster password revision code = 65534\n{lines}\
         \tnot\texpired: security count\n{times}\nLogical Unit WWN Device Identifier: 5002538d40878f8e\n\tNAA\t\t: 5\nChecksum: correct\n"
    )
}

#[test]
fn what_a_drive_tells_of_its_locks_is_read() {
    let two = "\t\tsupported: enhanced erase\n\t2min for SECURITY ERASE UNIT. 8min for ENHANCED SECURITY ERASE UNIT.";
    let ready = Security { supported: true, minutes: Some(2), ..Security::default() };
    let parse = |lines: &str, times: &str| Security::parse(&identity(lines, times));
    assert_eq!(parse("\t\tsupported\n\tnot\tenabled\n\tnot\tlocked\n\tnot\tfrozen\n", two), ready);
    let frozen = parse("\t\tsupported\n\tnot\tenabled\n\tnot\tlocked\n\t\tfrozen\n", two);
    assert_eq!(frozen, Security { frozen: true, ..ready });
    let locked = parse("\t\tsupported\n\t\tenabled\n\t\tlocked\n\tnot\tfrozen\n", &format!("{two}\n\tSecurity level high"));
    assert_eq!(locked, Security { enabled: true, locked: true, ..ready });
    let long =
        "\tnot\tsupported: enhanced erase\n\tmore than 508min for SECURITY ERASE UNIT. 508min for ENHANCED SECURITY ERASE UNIT.";
    assert_eq!(parse("\t\tsupported\n\tnot\tenabled\n\tnot\tlocked\n\tnot\tfrozen\n", long).minutes, Some(508));
    // A drive without the commands: the word "Supported" is in other lines too, and an enhanced erase is no erase.
    assert_eq!(parse("", "\tnot\tsupported: enhanced erase"), Security::default());
    assert_eq!(Security::parse("ATA device\nCommands/features:\n\tEnabled\tSupported:\n\t   *\tSMART\n"), Security::default());
}

#[test]
fn only_ports_of_the_machine_itself_are_trusted() {
    let below = "host0/target0:0:0/0:0:0:0";
    assert!(is_sata(Path::new(&format!("/sys/devices/pci0000:00/0000:00:1f.2/ata1/{below}"))));
    for other in ["0000:00:14.0/usb2/2-3/2-3:1.0", "0000:03:00.0", "ataraid0", "virtio3"] {
        assert!(!is_sata(Path::new(&format!("/sys/devices/pci0000:00/{other}/{below}"))), "{other}");
    }
}

/// A drive whose state consists of files with these names: frozen, enabled, locked; `breaks`: the erase fails; `locks`: it leaves
/// the drive locked; `stuck`: no command removes the password; `old`: it has no security commands.
struct Played {
    folder: tempfile::TempDir,
    hdparm: PathBuf,
}

impl Played {
    fn new(state: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hdparm = folder.path().join("hdparm");
        let minutes = if state.contains(&"disk") { "418min" } else { "2min" };
        let script = format!(
            "#!/bin/sh\ncd '{}'\necho \"$*\" >> calls\nsay() {{ [ -e $1 ] && printf '\\t\\t%s\\n' $1 || printf '\\tnot\\t%s\\n' $1; }}\n\
             fail() {{ echo 'SECURITY_ERASE: Input/output error' >&2; exit 5; }}\n\
             case \"$*\" in\n\
             -I*) [ -e old ] && {{ echo 'ATA device'; exit; }}\n\
             printf 'Security: \\n\\tMaster password revision code = 65534\\n\\t\\tsupported\\n'; say enabled; say locked; say frozen\n\
             printf '\\t{minutes} for SECURITY ERASE UNIT. 2min for ENHANCED SECURITY ERASE UNIT.\\nChecksum: correct\\n';;\n\
             *set-pass*) touch enabled;;\n\
             *erase*) [ -e locks ] && touch locked; [ -e breaks ] && fail; rm enabled;;\n\
             *unlock*) [ -e stuck ] && fail; rm locked;;\n\
             *disable*) [ -e stuck ] && fail; [ -e locked ] && fail; rm enabled;;\nesac\n",
            folder.path().display()
        );
        stria_testkit::script(&hdparm, &script);
        state.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        Self { folder, hdparm }
    }

    /// The result, and the commands that the drive received.
    fn erase(&self) -> (Result<(), NotErased>, Vec<String>) {
        let went = erase(&self.hdparm, Path::new("/dev/sdx"));
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap();
        let calls = calls.lines().filter(|call| !call.starts_with("-I")).map(|call| {
            let order = call.strip_prefix("--user-master u --security-").expect(call);
            order.strip_suffix(" stria /dev/sdx").expect(call).to_owned()
        });
        (went, calls.collect())
    }

    fn has(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }
}

#[test]
fn a_drive_that_knows_it_is_erased_and_keeps_no_password() {
    let drive = Played::new(&[]);
    let (went, orders) = drive.erase();
    assert_eq!((went, orders), (Ok(()), vec!["set-pass".to_owned(), "erase".into()]));
    assert!(!drive.has("enabled"));
}

#[test]
fn a_drive_that_would_not_take_it_gets_no_order_at_all() {
    for (state, words) in [
        (&["frozen"][..], "suspend the machine"),
        (&["old"], "does not support it"),
        (&["enabled", "locked"], "this program did not set"),
        (&["disk"], "418 minutes"),
    ] {
        let (went, orders) = Played::new(state).erase();
        let Err(NotErased::Refused(said)) = went else { panic!("{state:?}: {went:?}") };
        assert!(said.contains(words) && orders.is_empty(), "{state:?}: {said}; {orders:?}");
    }
    let missing = erase(Path::new("/nowhere/hdparm"), Path::new("/dev/sdx"));
    assert!(matches!(missing, Err(NotErased::Refused(words)) if words.contains("hdparm")));
}

#[test]
fn a_drive_that_breaks_off_is_left_without_a_password() {
    for state in [&["breaks"][..], &["breaks", "locks"]] {
        let drive = Played::new(state);
        let (went, orders) = drive.erase();
        let Err(NotErased::Refused(said)) = went else { panic!("{state:?}: {went:?}") };
        assert!(said.contains("Input/output error") && said.contains("has no password now"), "{said}");
        assert_eq!(orders.contains(&"unlock".to_owned()), state.contains(&"locks"), "{orders:?}");
        assert!(!drive.has("enabled") && !drive.has("locked"));
    }
}

#[test]
fn a_drive_that_keeps_its_password_is_told_with_the_way_out() {
    let drive = Played::new(&["breaks", "locks", "stuck"]);
    let (went, orders) = drive.erase();
    let Err(NotErased::Locked(said)) = went else { panic!("{went:?}") };
    assert_eq!(orders, ["set-pass", "erase", "unlock", "disable"]);
    for words in ["--security-unlock stria /dev/sdx", "--security-disable stria /dev/sdx", "Input/output error"] {
        assert!(said.contains(words), "{said}");
    }
}
