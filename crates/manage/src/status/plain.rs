//! `status` for other programs: the text of /proc/mdstat, and the line and exit code of a Nagios plug-in.

use crate::api::{AdoptedState, AdoptedView, ArrayView, HealthView, MemberView, SweepView};
use crate::control::client::SilentServe;
use crate::matter::{Matter, MatterKind, Urgency, of_array};
use std::fmt::{Display, Write as _};
use stria_block::{shown, shown_sentence};

/// Nagios' exit codes.
const OK: u8 = 0;
const WARNING: u8 = 1;
const CRITICAL: u8 = 2;
const UNKNOWN: u8 = 3;

/// The arrays as /proc/mdstat shows them. A span is an array of its own there. `waiting`: arrays that are not served.
pub fn mdstat(arrays: &[ArrayView], waiting: &[AdoptedView]) -> String {
    let mut text = "Personalities : [linear] [raid0] [raid1] [raid6] [raid5] [raid4] [raid10] \n".to_owned();
    for array in arrays.iter().flat_map(tree) {
        mdstat_array(&mut text, array);
    }
    // md shows drives that wait for others so. It does not show an array that is stopped, or has no drive here.
    for array in waiting.iter().filter(|array| array.state != AdoptedState::Stopped && !array.drives.is_empty()) {
        let _ = write!(text, "{} : inactive", one_word(&array.name));
        for (index, drive) in array.drives.iter().enumerate().rev() {
            let _ = write!(text, " {}[{index}](S)", one_word(drive.strip_prefix("/dev/").unwrap_or(drive)));
        }
        text.push_str("\n       \n");
    }
    text + "unused devices: <none>\n"
}

/// The spans of an array before the array.
fn tree(view: &ArrayView) -> Vec<&ArrayView> {
    view.parts.spans.iter().flat_map(tree).chain([view]).collect()
}

fn mdstat_array(text: &mut String, view: &ArrayView) {
    let level = match view.geometry.level.as_str() {
        "jbod" => "linear".into(),
        // The array above spans.
        "50" | "60" => "raid0".into(),
        level => format!("raid{level}"),
    };
    let read_only = if view.condition.read_only { " (read-only)" } else { "" };
    let _ = write!(text, "{} : active{read_only} {level}", one_word(&view.identity.name));
    // md lists the newest first.
    for member in view.parts.members.iter().rev() {
        let _ = write!(text, " {}", mdstat_member(member));
    }
    let _ = write!(text, "\n      {} blocks super 1.2", view.geometry.size_bytes / 1024);
    let strip = view.geometry.strip_bytes.unwrap_or(0) / 1024;
    match level.as_str() {
        "raid4" | "raid5" | "raid6" => {
            let algorithms = ["left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric"];
            let algorithm = algorithms.iter().position(|name| *name == view.geometry.layout).unwrap_or(0);
            let _ = write!(text, " level {}, {strip}k chunk, algorithm {algorithm}", view.geometry.level);
        }
        "raid0" => _ = write!(text, " {strip}k chunks"),
        "raid10" => _ = write!(text, " {strip}K chunks{}", copies(&view.geometry.layout)),
        _ => {}
    }
    if !matches!(level.as_str(), "raid0" | "linear") {
        let in_sync = |slot: usize| view.parts.members.iter().any(|member| member.slot == Some(slot) && member.role == "in sync");
        let count = slot_count(view);
        let map: String = (0..count).map(|slot| if in_sync(slot) { 'U' } else { '_' }).collect();
        let _ = write!(text, " [{count}/{}] [{map}]", map.matches('U').count());
    }
    text.push('\n');
    match &view.redundancy.sweep {
        Some(sweep) => mdstat_sweep(text, sweep),
        None if view.redundancy.resync_pending => text.push_str("      \tresync=PENDING\n"),
        None => {}
    }
    if let Some(bitmap) = &view.writes.bitmap {
        let (dirty, all, chunk) = (bitmap.dirty_count, bitmap.bit_count, bitmap.chunk_bytes / 1024);
        // md counts pages of 2048 counters.
        let pages = |bits: usize| bits.div_ceil(2048);
        let _ = writeln!(text, "      bitmap: {}/{} pages [{}KB], {chunk}KB chunk", pages(dirty), pages(all), 4 * pages(dirty));
    }
    text.push('\n');
}

fn slot_count(view: &ArrayView) -> usize {
    let filled = view.parts.members.iter().filter(|member| member.role != "failed").filter_map(|member| member.slot);
    filled.chain(view.parts.missing_slots.iter().copied()).max().map_or(0, |last| last + 1)
}

fn mdstat_member(member: &MemberView) -> String {
    let name = member.path.strip_prefix("/dev/").unwrap_or(&member.path);
    let mark = match member.role.as_str() {
        "failed" => "(F)",
        "spare" => "(S)",
        "replacing" => "(R)",
        _ => "",
    };
    let name = one_word(name);
    match member.slot {
        Some(slot) => format!("{name}[{slot}]{mark}"),
        None => format!("{name}[-]{mark}"),
    }
}

/// A name from a drive as one visible word, since spaces and line ends part words here.
fn one_word(name: &str) -> String {
    shown(name).to_string().replace(' ', "_")
}

/// `n2` as md writes it: ` 2 near-copies`.
fn copies(layout: &str) -> String {
    let words = layout.split(',').filter_map(|part| {
        let (kind, count) = part.split_at_checked(1)?;
        let kind = match kind {
            "n" => "near",
            "f" => "far",
            _ => "offset",
        };
        Some(format!(" {count} {kind}-copies"))
    });
    words.collect()
}

fn mdstat_sweep(text: &mut String, sweep: &SweepView) {
    let name = match sweep.kind.as_str() {
        "rebuild" => "recovery",
        "scrub" => "check",
        "repair" => "repair",
        _ => "resync",
    };
    let total = sweep.total_bytes.max(1);
    let twentieth = (sweep.done_bytes.min(total) * 20 / total) as usize;
    let bar = format!("{}>{}", "=".repeat(twentieth), ".".repeat(20 - twentieth));
    let percent = sweep.done_bytes as f64 * 100.0 / total as f64;
    let (done, all, speed) = (sweep.done_bytes / 1024, sweep.total_bytes / 1024, sweep.bytes_per_s / 1024);
    let minutes = sweep.eta_s.unwrap_or(0) as f64 / 60.0;
    let _ = writeln!(text, "      [{bar}]  {name} ={percent:5.1}% ({done}/{all}) finish={minutes:.1}min speed={speed}K/sec");
}

/// The state of a machine, as far as Nagios is told about it.
#[derive(Default)]
pub struct Machine {
    /// Arrays that are served.
    pub arrays: Vec<ArrayView>,
    /// Arrays of the daemon's configuration that are not.
    pub waiting: Vec<AdoptedView>,
    /// Faults of the configuration.
    pub faults: Vec<String>,
    /// Processes that do not answer.
    pub silent: Vec<SilentServe>,
}

/// The line and the exit code if the machine could not be looked at.
pub fn nagios_unknown(why: impl Display) -> (String, u8) {
    (format!("STRIA UNKNOWN - {why}\n"), UNKNOWN)
}

/// The same of one array, which must be served.
pub fn nagios_of(machine: &Machine, name: &str) -> (String, u8) {
    if !machine.arrays.is_empty() || !machine.silent.is_empty() {
        return nagios(machine);
    }
    let why = machine.waiting.first().map_or(String::new(), |array| format!(": {}", shown_sentence(&array.text)));
    (format!("STRIA CRITICAL - array {} is not served{why}\n", shown(name)), CRITICAL)
}

/// A line and an exit code for Nagios, Icinga and what speaks like them: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
pub fn nagios(Machine { arrays, waiting, faults, silent }: &Machine) -> (String, u8) {
    let served = arrays.iter().map(|view| (severity(view), format!("{} {}", shown(&view.identity.name), view.headline)));
    let is_stopped = |array: &AdoptedView| array.state == AdoptedState::Stopped;
    let not_served = waiting.iter().map(|array| match is_stopped(array) {
        true => (OK, format!("{} {}", shown(&array.name), array.text)),
        false => (CRITICAL, format!("{} NOT SERVED: {}", shown(&array.name), array.text)),
    });
    let faults = faults.iter().map(|fault| (CRITICAL, format!("configuration: {fault}")));
    let silent = silent.iter().map(|serve| (CRITICAL, serve.error.clone()));
    let mut all: Vec<(u8, String)> = served.chain(not_served).chain(faults).chain(silent).collect();
    all.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    let (word, worst) = match all.first() {
        Some((CRITICAL, _)) => ("CRITICAL", CRITICAL),
        Some((WARNING, _)) => ("WARNING", WARNING),
        Some(_) if !arrays.is_empty() => ("OK", OK),
        _ => {
            all.insert(0, (UNKNOWN, "no array is served".into()));
            ("UNKNOWN", UNKNOWN)
        }
    };
    let words: Vec<&str> = all.iter().map(|(_, words)| words.as_str()).collect();
    // A bar begins the performance data, and the output is one line.
    let words = words.join("; ").replace('|', "/").replace('\n', " ");
    let words = shown_sentence(&words);
    let count = |health: HealthView| arrays.iter().filter(|view| view.condition.health == health).count();
    let (degraded, failed) = (count(HealthView::Degraded), count(HealthView::Failed));
    let missed = waiting.iter().filter(|array| !is_stopped(array)).count();
    let counts = format!("arrays={} degraded={degraded} failed={failed} not_served={missed}", arrays.len());
    (format!("STRIA {word} - {words} | {counts}\n"), worst)
}

/// That of the worst matter, so that it never contradicts `explain`.
fn severity(view: &ArrayView) -> u8 {
    let of_matter = |matter: &Matter| match (matter.kind, matter.urgency) {
        // While every gap is being filled, nobody needs to get up.
        (MatterKind::Rebuilding, _) | (_, Urgency::Warning) => WARNING,
        (_, Urgency::Critical) => CRITICAL,
        (_, Urgency::Notice | Urgency::Well) => OK,
    };
    of_array(view).iter().map(of_matter).max().unwrap_or(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> ArrayView {
        serde_json::from_str(text).expect("a view")
    }

    fn member(slot: &str, path: &str, role: &str) -> String {
        format!(
            r#"{{"slot": {slot}, "path": "{path}", "role": "{role}", "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0,
            "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0}}"#
        )
    }

    fn array(health: &str, members: &[String], rest: &str) -> ArrayView {
        view(&format!(
            r#"{{"name": "tank", "full_name": "tank", "uuid": "", "level": "5", "layout": "left-symmetric", "strip_bytes": 65536,
            "size_bytes": 2147483648, "health": "{health}", "state": "", "headline": "so", "clean": true, "read_only": false, "paused": false,
            "members": [{}], "spans": [], "resync_pending": false, "in_flight": 0, "events": 1, "created_s": 0, "exports": [], "clients": [],
            {rest}}}"#,
            members.join(",")
        ))
    }

    #[test]
    fn an_array_is_shown_as_md_shows_it() {
        let members = [
            member("0", "/dev/sda1", "in sync"),
            member("1", "/dev/sdb1", "failed"),
            member("2", "/dev/sdc1", "in sync"),
            member("1", "/dev/sdd1", "rebuilding"),
        ];
        let rest = r#""missing_slots": [], "bitmap": {"dirty_count": 1, "bit_count": 16, "chunk_bytes": 67108864},
            "sweep": {"kind": "rebuild", "done_bytes": 92274688, "total_bytes": 1073741824, "bytes_per_s": 92274688, "eta_s": 10, "mismatch_sectors": 0}"#;
        let expected = "Personalities : [linear] [raid0] [raid1] [raid6] [raid5] [raid4] [raid10] \n\
            tank : active raid5 sdd1[1] sdc1[2] sdb1[1](F) sda1[0]\n      \
            2097152 blocks super 1.2 level 5, 64k chunk, algorithm 2 [3/2] [U_U]\n      \
            [=>...................]  recovery =  8.6% (90112/1048576) finish=0.2min speed=90112K/sec\n      \
            bitmap: 1/1 pages [4KB], 65536KB chunk\n\n\
            unused devices: <none>\n";
        assert_eq!(mdstat(&[array("degraded", &members, rest)], &[]), expected);
    }

    #[test]
    fn nagios_is_told_by_its_exit_codes() {
        let whole = [member("0", "a", "in sync"), member("1", "b", "in sync")];
        let told = |view: ArrayView| nagios(&Machine { arrays: vec![view], ..Machine::default() });
        let code = |view: ArrayView| told(view).1;
        assert_eq!(code(array("optimal", &whole, r#""missing_slots": []"#)), OK);
        assert_eq!(code(array("optimal", &whole, r#""missing_slots": [], "mismatch_sectors": 8"#)), WARNING);
        assert_eq!(code(array("degraded", &whole, r#""missing_slots": [2]"#)), CRITICAL);
        let filled = [member("0", "a", "in sync"), member("1", "b", "rebuilding")];
        let sweep = r#""sweep": {"kind": "rebuild", "done_bytes": 0, "total_bytes": 1, "bytes_per_s": 0, "mismatch_sectors": 0}"#;
        let filled = |rest: &str| code(array("degraded", &filled, rest));
        assert_eq!(filled(&format!(r#"{sweep}, "missing_slots": []"#)), WARNING, "it is being filled");
        assert_eq!(filled(&format!(r#"{sweep}, "missing_slots": [2]"#)), CRITICAL, "another gap is not");
        assert_eq!(filled(r#""missing_slots": []"#), CRITICAL, "no rebuild runs");
        let mut silent = array("optimal", &whole, r#""missing_slots": []"#);
        silent.parts.members[1].waiting_ms = Some(60_000);
        assert_eq!(code(silent), CRITICAL, "`status` ends with an error then");
        assert_eq!(code(array("failed", &whole, r#""missing_slots": []"#)), CRITICAL);
        assert_eq!(code(array("optimal", &whole, r#""missing_slots": [], "silent_s": 7"#)), CRITICAL);
        let (line, _) = told(array("optimal", &whole, r#""missing_slots": []"#));
        assert_eq!(line, "STRIA OK - tank so | arrays=1 degraded=0 failed=0 not_served=0\n");
        let mut odd = array("optimal", &whole, r#""missing_slots": []"#);
        odd.identity.name = "a\tb|c\nd\u{1b}".into();
        let (line, _) = told(odd);
        assert_eq!(line, "STRIA OK - a\\tb/c\\nd\\u{1b} so | arrays=1 degraded=0 failed=0 not_served=0\n");
    }

    fn adopted(name: &str, state: &str, text: &str, drives: &[&str]) -> AdoptedView {
        let view = serde_json::json!({"name": name, "uuid": "", "state": state, "text": text, "drives": drives});
        serde_json::from_value(view).expect("a view")
    }

    /// Before, an array that could not start was left out, and the rest was OK.
    #[test]
    fn nagios_is_told_of_arrays_that_are_not_served() {
        let whole = [member("0", "a", "in sync"), member("1", "b", "in sync")];
        let served = || vec![array("optimal", &whole, r#""missing_slots": []"#)];
        let told = |arrays, waiting: &[AdoptedView], faults: &[&str]| {
            let faults = faults.iter().map(ToString::to_string).collect();
            nagios(&Machine { arrays, waiting: waiting.to_vec(), faults, silent: Vec::new() })
        };
        for state in ["absent", "waiting", "refused"] {
            let (line, code) = told(served(), &[adopted("lake", state, "no drive", &[])], &[]);
            let expected = "STRIA CRITICAL - lake NOT SERVED: no drive; tank so | arrays=1 degraded=0 failed=0 not_served=1\n";
            assert_eq!((line.as_str(), code), (expected, CRITICAL), "{state}");
        }
        let stopped = [adopted("lake", "stopped", "stopped", &[])];
        let (line, code) = told(served(), &stopped, &[]);
        assert_eq!((line.as_str(), code), ("STRIA OK - tank so; lake stopped | arrays=1 degraded=0 failed=0 not_served=0\n", OK));
        let (line, code) = told(Vec::new(), &stopped, &[]);
        assert!(line.starts_with("STRIA UNKNOWN - no array is served; lake stopped |") && code == UNKNOWN, "{line}");
        assert!(told(Vec::new(), &[], &[]).0.starts_with("STRIA UNKNOWN - no array is served |"));
        let (line, code) = told(served(), &[], &["no certificate"]);
        assert!(line.starts_with("STRIA CRITICAL - configuration: no certificate; tank so |") && code == CRITICAL, "{line}");
    }

    #[test]
    fn an_array_that_waits_is_inactive_as_in_md() {
        let waiting = [
            adopted("lake", "waiting", "", &["/dev/sda", "/dev/sd b"]),
            adopted("pond", "absent", "", &[]),
            adopted("sea", "stopped", "", &["/dev/sdc"]),
        ];
        let text = mdstat(&[], &waiting);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..], ["lake : inactive sd_b[1](S) sda[0](S)", "       ", "unused devices: <none>"], "{text}");
    }
}
