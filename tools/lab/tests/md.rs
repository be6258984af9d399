//! The lab's mdadm commands, tested with the real mdadm and the kernel's md in a virtual machine.

use harness::{End, Guest};
use std::path::{Path, PathBuf};
use stria_lab::md::{LEVELS, MdSpec};
use stria_testkit::oracle as harness;

#[test]
fn the_kernel_makes_stops_assembles_and_forgets_every_level() {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new("lab-md", &[32 << 20; 4]);
    let drives: Vec<PathBuf> = ["a", "b", "c", "d"].map(|name| format!("/dev/ubd{name}").into()).into();
    let mut script = String::from("[ \"$DISKS\" = \"/dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd\" ]\n");
    let device = Path::new("/dev/md127");
    for level in LEVELS {
        for assume_clean in [false, true] {
            let strip_bytes = (level != "1").then_some(64 << 10);
            let spec = MdSpec { level: level.into(), strip_bytes, assume_clean, drives: drives.clone() };
            let line = |words: Vec<String>| format!("mdadm {} 2>> $SHARE/said\n", words.join(" "));
            let about =
                "cat /sys/block/md127/md/level /sys/block/md127/md/raid_disks /sys/block/md127/md/chunk_size | tr '\\n' ' '";
            // Twice: the second time its own superblocks are there, as after a killed run.
            script += &line(spec.create(device));
            script += "mdadm --stop /dev/md127 2>> $SHARE/said\n";
            script += &line(spec.create(device));
            script += &format!(
                "{about}; [ -e /sys/block/md127/md/resync_start ] && cat /sys/block/md127/md/resync_start || echo none\n"
            );
            script += "mdadm --wait /dev/md127 2>> $SHARE/said || true\n";
            script += "cat /sys/block/md127/md/{sync_action,resync_start,degraded} 2>/dev/null | tr '\\n' ' ' || true; echo\n";
            // As `Md::uuid` reads it.
            script += "UUID=$(mdadm --detail --export /dev/md127 | sed -n 's/^MD_UUID=//p')\n";
            script += "mdadm --stop /dev/md127 2>> $SHARE/said\n";
            script += &line(spec.assemble(device, "$UUID"));
            script += "mdadm --detail /dev/md127 | grep -c 'Name :.*stria-lab'\nmdadm --stop /dev/md127 2>> $SHARE/said\n";
            script += &line(spec.unmake());
            script += "mdadm --examine /dev/ubda > /dev/null 2>&1 && echo left || echo gone\n";
        }
    }
    let said = guest.run(End::Forget, &script);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), LEVELS.len() * 2 * 4, "{said}");
    for (level, of) in LEVELS.iter().flat_map(|level| [(level, false), (level, true)]).zip(lines.chunks(4)) {
        let (level, assume_clean) = level;
        let chunk = if *level == "1" { 0 } else { 65536 };
        assert!(of[0].starts_with(&format!("raid{level} 4 {chunk} ")), "{level}: {of:?}");
        assert!(!assume_clean || of[0].ends_with(" none"), "{level}: it has nothing to agree on: {of:?}");
        // The condition for which `Md::sync` waits.
        let expected = if *level == "0" { "none" } else { "idle none 0" };
        assert_eq!((of[1].trim(), of[2], of[3]), (expected, "1", "gone"), "{level}");
    }
}
