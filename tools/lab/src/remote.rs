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

/// As [`crate::purge`] on this machine: a file is created anew, and a device formatted, else discarded; never a device in use.
const PURGE: &str = r#"
case $PLACE in /*) ;; *) echo "$PLACE is no whole path" >&2; exit 1 ;; esac
if [ -f "$PLACE" ]; then
    bytes=$(stat -c %s "$PLACE"); truncate -s 0 "$PLACE" && truncate -s "$bytes" "$PLACE" && echo "new empty file"; exit
fi
[ -e "$PLACE" ] || { echo "nothing is there yet"; exit 0; }
real=$(readlink -f "$PLACE"); name=$(basename "$real")
if lsblk -nro MOUNTPOINTS "$real" | grep -q . || [ -n "$(ls "/sys/class/block/$name/holders" 2>/dev/null)" ]; then
    echo "$PLACE is in use there: unmount it, or stop the array or swap that it is part of" >&2; exit 1
fi
case $name in nvme*p*) ;; nvme*) nvme format --force --ses=1 "$real" >/dev/null 2>&1 && { echo "nvme format"; exit 0; } ;; esac
blkdiscard "$real" && echo blkdiscard
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
    let machine = machine(host).ok_or_else(|| format!("{host} is no machine that ssh can reach"))?;
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

    #[test]
    fn fios_words_for_a_client_name_a_machine() {
        assert_eq!(["a", "a,8765", "ip4:10.0.0.1,8765"].map(machine), [Some("a"), Some("a"), Some("10.0.0.1")]);
        assert_eq!([machine("sock:/tmp/x"), machine("-oProxyCommand=x")], [None, None]);
    }
}
