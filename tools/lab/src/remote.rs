//! Describes other hosts and purges their drives, which fio's client and server do not do. It uses ssh and never asks for a
//! password, so keys must be set up. Without them a run continues, and its result says so.

use crate::result::{DriveInfo, Environment};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// `KEY value` lines, by plain tools that every Linux has.
const FACTS: &str = r#"
say() { printf '%s %s\n' "$1" "$2"; }
say host "$(cat /proc/sys/kernel/hostname)"
say kernel "Linux $(cat /proc/sys/kernel/osrelease)"
say os "$(. /etc/os-release 2>/dev/null; echo "$PRETTY_NAME")"
say cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
say cpu_count "$(nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo)"
say governor "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
say memory_kib "$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
say load "$(cut -d ' ' -f 1 /proc/loadavg)"
say virtualization "$(systemd-detect-virt 2>/dev/null | grep -v none)"
sys="/sys/class/block/$(basename "$(readlink -f "$PLACE")")"
if [ -e "$sys/partition" ]; then sys="$(readlink -f "$sys")/.."; fi
say drive_model "$(cat "$sys/device/model" 2>/dev/null)"
say drive_serial "$(cat "$sys/device/serial" 2>/dev/null)"
say drive_firmware "$(cat "$sys/device/firmware_rev" 2>/dev/null || cat "$sys/device/rev" 2>/dev/null)"
say drive_sectors "$(cat "$sys/size" 2>/dev/null)"
say drive_cache "$(cat "$sys/queue/write_cache" 2>/dev/null)"
"#;

/// As [`crate::purge`] on this machine: a file is created anew, and a device formatted, else discarded; never one in use. A check
/// that cannot be made counts as use: `O_EXCL` finds every use by the kernel, the lists find those that an old kernel's claim
/// may not show, and `flock` finds `stria serve` and other runs. No tool is told to skip its own check.
/// A namespace is formatted only if its drive has no other, as [`crate::purge`] explains.
const PURGE: &str = r#"
refuse() { echo "$PLACE $1" >&2; exit 1; }
in_use() { refuse "is in use there ($1): unmount it, or stop the array, swap or server that uses it"; }
case $PLACE in /*) ;; *) refuse "is not an absolute path" ;; esac
[ -e "$PLACE" ] || { echo "nothing is there yet"; exit 0; }
real=$(readlink -f "$PLACE") && [ -n "$real" ] || refuse "cannot be resolved there"
name=$(basename "$real")
swaps=$(tr '\t' ' ' </proc/swaps) || refuse "may be a swap there: /proc/swaps cannot be read"
case $swaps in *"$real "*) in_use swap ;; esac
flock -n "$real" true || in_use "locked by another program, or flock is missing"
if [ -f "$real" ]; then
    for backing in /sys/block/loop*/loop/backing_file; do
        if [ -e "$backing" ] && [ "$(cat "$backing")" = "$real" ]; then in_use "a loop device"; fi
    done
    bytes=$(stat -c %s "$real") && truncate -s 0 "$real" && truncate -s "$bytes" "$real" && echo "new empty file"; exit
fi
[ -e "/sys/class/block/$name/dev" ] || refuse "is not a block device there"
mounts=$(cat /proc/self/mountinfo) || refuse "may be mounted there: /proc/self/mountinfo cannot be read"
for part in "/sys/class/block/$name" "/sys/class/block/$name/$name"*; do
    [ -e "$part/dev" ] || continue
    number=$(cat "$part/dev") && [ -n "$number" ] || refuse "has no device number there"
    held=$(ls "$part/holders") || refuse "may be part of an array there: $part/holders cannot be read"
    [ -z "$held" ] || in_use "part of $held"
    node=/dev/$(basename "$part")
    case $mounts in *" $number "* | *" $node "*) in_use "$node is mounted" ;; esac
    case $swaps in *"$node "*) in_use "$node is a swap" ;; esac
done
if command -v perl >/dev/null 2>&1; then
    perl -e 'use Fcntl; sysopen(my $drive, $ARGV[0], O_RDONLY | O_EXCL) or exit 1' "$real" || in_use "the kernel"
elif command -v python3 >/dev/null 2>&1; then
    python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL)' "$real" 2>/dev/null || in_use "the kernel"
else
    refuse "may be in use there: only perl or python3 can tell, so install one of them"
fi
only_namespace() {
    id=$(cat "/sys/class/block/$name/nsid") && [ -n "$id" ] || return 1
    drive=$(cat "/sys/class/block/$name/device/subsysnqn") && [ -n "$drive" ] || return 1
    for other in /sys/class/block/nvme*; do
        [ -e "$other/nsid" ] || continue
        of=$(cat "$other/device/subsysnqn") && [ -n "$of" ] || return 1
        [ "$of" != "$drive" ] || [ "$(cat "$other/nsid")" = "$id" ] || return 1
    done
    count=$(nvme list-ns --all "$real" | grep -c '^ *\[')
    [ "${count:-0}" -le 1 ]
}
why=
case $name in nvme*p*) ;; nvme*)
    if only_namespace 2>/dev/null; then
        nvme format --ses=1 "$real" >/dev/null 2>&1 && { echo "nvme format"; exit 0; }
    else
        why=" (no nvme format: the drive has, or may have, other namespaces, which it may erase)"
    fi ;;
esac
blkdiscard "$real" && echo "blkdiscard$why"
"#;

/// The machine of a client, as fio names clients: `host`, `host,port`, `ip4:host`; none for a socket.
fn machine(host: &str) -> Option<&str> {
    let name = host.strip_prefix("ip4:").or(host.strip_prefix("ip6:")).or(host.strip_prefix("ip:")).unwrap_or(host);
    (!name.starts_with("sock:") && !name.starts_with('-')).then(|| name.split(',').next().unwrap_or(name))
}

/// A program's output up to a length: the rest is read and dropped.
fn said(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = stream.by_ref().take(64 << 10).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn by_ssh(host: &str, place: &str, script: &str) -> Result<String, String> {
    let machine = machine(host).ok_or_else(|| format!("{host} is not a machine that ssh can reach"))?;
    let mut ssh = Command::new("ssh")
        .args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", machine, "sh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ssh cannot be started: {error}"))?;
    let quoted = place.replace('\'', r"'\''");
    let mut stdin = ssh.stdin.take().expect("it is piped");
    // If it ended already, its output has the reason.
    let _ = stdin.write_all(format!("PLACE='{quoted}'\n{script}").as_bytes());
    drop(stdin);
    let errors = ssh.stderr.take().expect("it is piped");
    let errors = std::thread::spawn(move || said(errors));
    let output = said(ssh.stdout.take().expect("it is piped"));
    let status = ssh.wait().map_err(|error| error.to_string())?;
    let errors = errors.join().unwrap_or_default();
    match status.success() {
        true => Ok(output),
        false => Err(errors.chars().filter(|letter| !letter.is_control()).take(400).collect()),
    }
}

/// The reports of a host, and of its drive at `place`, about themselves.
///
/// # Errors
/// When ssh cannot connect.
pub fn facts(host: &str, place: &str) -> Result<(Environment, DriveInfo), String> {
    let output = by_ssh(host, place, FACTS)?;
    let of = |key: &str| -> String {
        let line = output.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.unwrap_or_default().trim().chars().filter(|letter| !letter.is_control()).take(200).collect()
    };
    // This text comes from an untrusted machine.
    let whole = |key: &str| of(key).parse::<u64>().ok().filter(|number| *number < 1 << 50).unwrap_or(0);
    let environment = Environment {
        host: host.to_owned(),
        kernel: of("kernel"),
        os: of("os"),
        cpu: of("cpu"),
        cpu_count: of("cpu_count").parse().unwrap_or(0),
        cpu_governor: of("governor"),
        memory_bytes: whole("memory_kib").saturating_mul(1024),
        load_average: of("load").parse().ok().filter(|load| (0.0..1e6).contains(load)).unwrap_or(0.0),
        virtualization: of("virtualization"),
        ..Environment::default()
    };
    let drive = DriveInfo {
        path: format!("{host}: {place}"),
        model: of("drive_model"),
        serial: of("drive_serial"),
        firmware: of("drive_firmware"),
        size_bytes: whole("drive_sectors").saturating_mul(512),
        write_cache: of("drive_cache"),
        source: "sysfs over ssh".into(),
        ..DriveInfo::default()
    };
    Ok((environment, drive))
}

/// Purges the drive at `place` on a host. Returns how.
///
/// # Errors
/// When ssh cannot connect, the drive is in use, or every method fails.
pub fn purge(host: &str, place: &str) -> Result<String, String> {
    by_ssh(host, place, PURGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A host whose /sys and /proc are folders, with one drive of two partitions, and tools that note their calls.
    struct Played {
        folder: tempfile::TempDir,
        drive: String,
    }

    impl Played {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let at = |name: &str| folder.path().join(name);
            for (part, number) in [("nvme9n1", "259:0"), ("nvme9n1/nvme9n1p1", "259:1"), ("nvme9n1/nvme9n1p2", "259:2")] {
                let sys = at("sys/class/block").join(part);
                fs::create_dir_all(sys.join("holders")).expect("a folder");
                fs::write(sys.join("dev"), format!("{number}\n")).expect("a file");
            }
            fs::create_dir(at("sys/class/block/nvme9n1/device")).expect("a folder");
            fs::write(at("sys/class/block/nvme9n1/device/subsysnqn"), "nqn.9\n").expect("a file");
            fs::write(at("sys/class/block/nvme9n1/nsid"), "1\n").expect("a file");
            fs::create_dir_all(at("proc/self")).expect("a folder");
            fs::write(at("proc/self/mountinfo"), "36 35 8:1 / /mnt rw - ext4 /dev/sda1 rw\n").expect("a file");
            fs::write(at("proc/swaps"), "Filename\tType\n/dev/sda2\tpartition\t1\n").expect("a file");
            // No plain file, as no device node can be made here.
            let drive = at("nvme9n1").display().to_string();
            assert!(Command::new("mkfifo").arg(&drive).status().expect("it runs").success());
            fs::create_dir(at("bin")).expect("a folder");
            let played = Self { folder, drive };
            for tool in ["flock", "perl", "python3"] {
                played.tool(tool, "exit 0");
            }
            played.tool("nvme", "exit 1");
            played.tool("blkdiscard", "exit 0");
            for tool in ["sh", "readlink", "basename", "tr", "grep", "cat", "ls", "stat", "truncate"] {
                let found =
                    ["/usr/bin", "/bin"].map(|bin| std::path::Path::new(bin).join(tool)).into_iter().find(|path| path.exists());
                std::os::unix::fs::symlink(found.expect("every Linux has it"), played.at("bin").join(tool)).expect("a link");
            }
            played
        }

        fn at(&self, name: &str) -> std::path::PathBuf {
            self.folder.path().join(name)
        }

        fn tool(&self, name: &str, words: &str) {
            let calls = self.at("calls").display().to_string();
            let script = format!("#!/bin/sh\necho \"{name} $*\" >> '{calls}'\n{words}\n");
            stria_testkit::script(&self.at("bin").join(name), &script);
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.at(name), text).expect("written");
        }

        /// What it says, or why it refuses; and the calls that change the drive.
        fn purge(&self, place: &str) -> (Result<String, String>, Vec<String>) {
            let root = self.folder.path().display().to_string();
            let script = PURGE.replace("/sys/", &format!("{root}/sys/")).replace("/proc/", &format!("{root}/proc/"));
            let output = Command::new("/bin/sh")
                .args(["-c", &format!("PLACE='{place}'\n{script}")])
                .env("PATH", self.at("bin"))
                .output()
                .expect("a shell");
            let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            let said = if output.status.success() { Ok(words(&output.stdout)) } else { Err(words(&output.stderr)) };
            let calls = fs::read_to_string(self.at("calls")).unwrap_or_default();
            let changes = |line: &&str| line.starts_with("nvme format") || line.starts_with("blkdiscard");
            (said, calls.lines().filter(changes).map(str::to_owned).collect())
        }
    }

    #[test]
    fn a_free_drive_of_a_host_is_purged_and_no_tool_skips_its_own_check() {
        let played = Played::new();
        let (said, calls) = played.purge(&played.drive);
        assert_eq!(said, Ok("blkdiscard".into()));
        assert_eq!(calls, [format!("nvme format --ses=1 {}", played.drive), format!("blkdiscard {}", played.drive)]);
    }

    #[test]
    fn a_namespace_of_a_host_is_formatted_only_if_it_is_the_only_one_of_its_drive() {
        type Change = fn(&Played);
        let add = |host: &Played, name: &str, subsystem: &str, id: &str| {
            let device = host.at("sys/class/block").join(name);
            fs::create_dir_all(device.join("device")).expect("a folder");
            fs::write(device.join("nsid"), id).expect("a file");
            fs::write(device.join("device/subsysnqn"), subsystem).expect("a file");
        };
        let changes: [(&str, bool, Change); 8] = [
            ("other drives", true, |_| {}),
            ("the drive lists it alone", true, |host| {
                host.tool("nvme", "[ $1 = list-ns ] && echo '[   0]:0x1' && exit 0; exit 1");
            }),
            ("another one", false, |host| {
                let other = host.at("sys/class/block/nvme8n1");
                fs::write(other.join("device/subsysnqn"), "nqn.9\n").expect("a file");
            }),
            ("one that is attached elsewhere", false, |host| {
                host.tool("nvme", "[ $1 = list-ns ] && printf '[   0]:0x1\\n[   1]:0x2\\n' && exit 0; exit 1");
            }),
            ("no subsystem", false, |host| {
                fs::remove_file(host.at("sys/class/block/nvme9n1/device/subsysnqn")).expect("there");
            }),
            ("no subsystem of another drive", false, |host| {
                fs::remove_file(host.at("sys/class/block/nvme8n1/device/subsysnqn")).expect("there");
            }),
            ("no number", false, |host| fs::remove_file(host.at("sys/class/block/nvme9n1/nsid")).expect("there")),
            ("an empty number", false, |host| host.write("sys/class/block/nvme9n1/nsid", "")),
        ];
        for (what, formats, change) in changes {
            let played = Played::new();
            // Another drive, and another path to this one.
            add(&played, "nvme8n1", "nqn.8\n", "2\n");
            add(&played, "nvme9c0n1", "nqn.9\n", "1\n");
            change(&played);
            let (said, calls) = played.purge(&played.drive);
            let (format, discard) = (format!("nvme format --ses=1 {}", played.drive), format!("blkdiscard {}", played.drive));
            let wanted = if formats { vec![format, discard] } else { vec![discard] };
            assert_eq!(calls, wanted, "{what}: {said:?}");
            assert_eq!(said.expect("purged").contains("other namespaces"), !formats, "{what}");
        }
    }

    #[test]
    fn a_drive_of_a_host_that_is_or_may_be_in_use_is_not_touched() {
        type Change = fn(&Played);
        let changes: [(&str, Change); 13] = [
            ("a partition is mounted by its number", |host| {
                host.write("proc/self/mountinfo", "36 35 259:2 / /mnt rw - ext4 /dev/mapper/x rw\n");
            }),
            ("a partition is mounted by its name", |host| {
                host.write("proc/self/mountinfo", "36 35 0:40 / /mnt rw - btrfs /dev/nvme9n1p1 rw\n");
            }),
            ("the whole drive is mounted", |host| {
                host.write("proc/self/mountinfo", "36 35 259:0 / /mnt rw - ext4 /dev/nvme9n1 rw\n");
            }),
            ("a partition is a swap", |host| host.write("proc/swaps", "Filename\tType\n/dev/nvme9n1p2\tpartition\t1\n")),
            ("a partition is part of an array", |host| {
                host.write("sys/class/block/nvme9n1/nvme9n1p1/holders/md0", "");
            }),
            ("the drive is part of an array", |host| host.write("sys/class/block/nvme9n1/holders/md0", "")),
            ("the kernel has it", |host| host.tool("perl", "exit 1")),
            ("the kernel has it, without perl", |host| {
                fs::remove_file(host.at("bin/perl")).expect("there");
                host.tool("python3", "exit 1");
            }),
            ("nothing can ask the kernel", |host| {
                ["perl", "python3"].iter().for_each(|tool| fs::remove_file(host.at("bin").join(tool)).expect("there"));
            }),
            ("a server has locked it", |host| host.tool("flock", "exit 1")),
            ("nothing can ask for the lock", |host| fs::remove_file(host.at("bin/flock")).expect("there")),
            ("mounts cannot be read", |host| fs::remove_file(host.at("proc/self/mountinfo")).expect("there")),
            ("swaps cannot be read", |host| fs::remove_file(host.at("proc/swaps")).expect("there")),
        ];
        for (what, change) in changes {
            let played = Played::new();
            change(&played);
            let (said, calls) = played.purge(&played.drive);
            assert!(said.is_err_and(|words| words.contains(&played.drive)) && calls.is_empty(), "{what}: {calls:?}");
        }
        let played = Played::new();
        fs::remove_dir_all(played.at("sys/class/block/nvme9n1/nvme9n1p2/holders")).expect("there");
        assert!(played.purge(&played.drive).0.is_err(), "holders cannot be read");
    }

    #[test]
    fn a_file_of_a_host_is_made_anew_unless_it_is_in_use() {
        let played = Played::new();
        let file = played.at("x.img");
        let place = file.display().to_string();
        fs::write(&file, [7; 5000]).expect("a file");
        assert_eq!(played.purge(&place).0, Ok("new empty file".into()));
        assert_eq!(fs::read(&file).expect("there"), [0; 5000]);
        fs::write(&file, [7; 5000]).expect("a file");
        played.tool("flock", "exit 1");
        assert!(played.purge(&place).0.is_err());
        played.tool("flock", "exit 0");
        fs::create_dir_all(played.at("sys/block/loop3/loop")).expect("a folder");
        played.write("sys/block/loop3/loop/backing_file", &place);
        assert!(played.purge(&place).0.is_err_and(|words| words.contains("loop")));
        assert_eq!(fs::read(&file).expect("there"), [7; 5000]);
    }

    #[test]
    fn fios_words_for_a_client_name_a_machine() {
        assert_eq!(["a", "a,8765", "ip4:10.0.0.1,8765"].map(machine), [Some("a"), Some("a"), Some("10.0.0.1")]);
        assert_eq!([machine("sock:/tmp/x"), machine("-oProxyCommand=x")], [None, None]);
    }
}
