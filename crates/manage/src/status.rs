//! The text of `status`: within the terminal's width, bad news first. One array is shown in full, several in a line each.

pub mod plain;

use crate::api::{AdoptedState, AdoptedView, ArrayView, ChecksumView, ClientView, LatencyView, MemberView};
use crate::progress::sweep_line;
use crate::system::clock::now_ms;
use crate::view::{all_members, is_lost, last_drives, was_replaced};
use std::fmt::Write as _;
use std::io::IsTerminal;
use stria_block::{shell_word, shown, shown_sentence};
use stria_terminal::output::{paragraphs, table, tables};
use stria_terminal::size;

/// Columns where the text does not go to a terminal.
const WIDTH: u16 = 80;
/// A terminal with fewer columns wraps the text itself.
const WIDTH_MIN: u16 = 60;

/// The columns that text may take.
pub fn width() -> u16 {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
    // A terminal that does not know its width says 0.
    size.map(|size| size.ws_col).filter(|&columns| columns > 0).map_or(WIDTH, |columns| columns.max(WIDTH_MIN))
}

/// An array of the daemon's that is not served, in a line.
pub fn not_served(array: &AdoptedView) -> String {
    let (name, text) = (shown(&array.name), shown_sentence(&array.text));
    match (array.state, array.again_in_s) {
        (AdoptedState::Stopped, _) => format!("{name}: {text}\n"),
        (_, Some(seconds)) => format!("{name}: NOT SERVED: {text}; next attempt in {seconds} s\n"),
        (_, None) => format!("{name}: NOT SERVED: {text}\n"),
    }
}

/// The arrays, the worst first, within `width` columns. `verbose`: each in full.
pub fn words(arrays: &[ArrayView], verbose: bool, width: u16) -> String {
    match arrays {
        [] => "no array is served: start one with `stria serve`\n".into(),
        [array] => in_full(array, verbose, width),
        several if verbose => several.iter().map(|array| in_full(array, true, width)).collect::<Vec<_>>().join("\n"),
        several => {
            let row = |array: &ArrayView| {
                let level = format!("RAID {}", array.geometry.level);
                let since = array.condition.since_s.and_then(moment).map_or_else(String::new, |since| format!("; since {since}"));
                vec![array.identity.name.clone(), level, size::show(array.geometry.size_bytes), array.headline.clone() + &since]
            };
            paragraphs(width, several.iter().map(row).collect()) + "\n"
        }
    }
}

/// A date and time of this machine.
fn local(unix_s: u64) -> Option<String> {
    Some(stria_routine::local_text(i64::try_from(unix_s).ok()?, &stria_routine::TimeZone::system()))
}

/// A moment: the time of day, and the date if that is not today.
fn moment(unix_s: u64) -> Option<String> {
    let (text, today) = (local(unix_s)?, local(now_ms() / 1000)?);
    Some(match (text.split_once(' '), today.split_once(' ')) {
        (Some((date, time)), Some((today, _))) if date == today => time.to_owned(),
        _ => text,
    })
}

fn in_full(array: &ArrayView, verbose: bool, width: u16) -> String {
    let mut text = String::new();
    describe(&mut text, array, "", verbose, width);
    text
}

fn describe(text: &mut String, view: &ArrayView, indent: &str, verbose: bool, all: u16) {
    let width = all - indent.len() as u16;
    for line in paragraphs(width, facts(view, indent.is_empty(), verbose)).lines() {
        let _ = writeln!(text, "{indent}{line}");
    }
    // In one piece, so that it can be copied.
    for uri in &view.access.exports {
        let _ = writeln!(text, "{indent}nbd  {}", shown(uri));
    }
    if let Some(path) = &view.access.block_device {
        let _ = writeln!(text, "{indent}ublk  {}", shown(path));
    }
    for path in &view.access.attached {
        let _ = writeln!(text, "{indent}attached  {}", shown(path));
    }
    for path in &view.access.vhost_user {
        let _ = writeln!(text, "{indent}vhost-user  {}", shown(path));
    }
    let members = if verbose { members_in_full(view, width - 2) } else { members(view, width - 2) };
    for line in members.lines() {
        let _ = writeln!(text, "{}", format!("{indent}  {line}").trim_end());
    }
    for (member, note) in view.parts.members.iter().flat_map(|member| notes(member).into_iter().map(move |note| (member, note))) {
        for line in paragraphs(width - 2, vec![vec![format!("{}: {note}", member.path)]]).lines() {
            let _ = writeln!(text, "{indent}  {line}");
        }
    }
    for drive in &view.condition.left_alone {
        for line in paragraphs(width - 2, vec![vec![drive.text.clone()]]).lines() {
            let _ = writeln!(text, "{indent}  {line}");
        }
    }
    for span in &view.parts.spans {
        describe(text, span, &format!("{indent}  "), verbose, all);
    }
}

/// Name and value of each line above the members.
fn facts(view: &ArrayView, is_top: bool, verbose: bool) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut say = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    say(if is_top { "array" } else { "span" }, view.identity.name.clone());
    say("state", view.headline.clone() + &last_drives(view));
    if let Some(since) = view.condition.since_s.and_then(moment) {
        say("since", since);
    }
    if let Some(sweep) = &view.redundancy.sweep {
        say("sweep", sweep_line(sweep));
    }
    if let Some(line) = scrub_line(view) {
        say("scrub", line);
    }
    if let Some(next) = view.redundancy.next_scrub_s.and_then(local) {
        say("next", format!("scrub due {next}"));
    }
    if !view.condition.trim_zeroes {
        say("trim", "not offered: a drive cannot zero and unmap in one request".into());
    } else if verbose {
        say("trim", "reads as zeros".into());
    }
    let strip = match (&view.geometry.strip_bytes, &view.geometry.strip_reason) {
        (Some(bytes), Some(reason)) => format!(", strip {} ({reason})", size::show(*bytes)),
        _ => String::new(),
    };
    let layout = if view.geometry.layout == "plain" { String::new() } else { format!(", layout {}", view.geometry.layout) };
    say("level", format!("RAID {}{layout}{strip}", view.geometry.level));
    say("size", format!("{} ({} bytes)", size::show(view.geometry.size_bytes), view.geometry.size_bytes));
    say("uuid", view.identity.uuid.clone());
    if let Some(bitmap) = &view.writes.bitmap {
        let chunk = size::show(bitmap.chunk_bytes);
        say("bitmap", format!("{} of {} bits set, {chunk} each", bitmap.dirty_count, bitmap.bit_count));
    } else if ["1", "4", "5", "6", "10"].contains(&view.geometry.level.as_str()) {
        say("bitmap", "none: the next start after a crash resyncs everything".into());
    }
    if let Some(log) = log_line(view, verbose) {
        say("log", log);
    }
    if view.writes.write.is_some() && !view.condition.read_only {
        say("writes", view.writes.power_cut.clone());
    }
    let differs = view.drive_caches_set.is_some() || all_members(view).iter().any(|member| member.cache_unflushed);
    if let Some(caches) = view.drive_caches.as_ref().filter(|_| verbose || differs) {
        say("caches", format!("of the drives: {caches}"));
    }
    for lane in view.lanes.iter().filter(|_| verbose) {
        say("lane", lane.setup.clone());
    }
    if let Some(line) = integrity_line(view) {
        say("integrity", line);
    }
    for client in &view.access.clients {
        say("client", client_line(client));
    }
    rows
}

/// A number with its noun: "1 sector", "2 sectors".
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What the last scrub found; nothing before the first.
fn scrub_line(view: &ArrayView) -> Option<String> {
    let outcome = match (view.redundancy.mismatch_sectors?, view.redundancy.mismatch_repaired) {
        (0, _) if view.redundancy.unchecked_sectors > 0 => {
            let unchecked = counted(view.redundancy.unchecked_sectors, "sector");
            format!("could not compare {unchecked}, as members were missing or could not be read; no mismatch in the others")
        }
        (0, _) => "found no mismatch".into(),
        (count, true) => format!("found mismatches in {}, and repaired them", counted(count, "sector")),
        (count, false) if view.redundancy.undecided.is_some() => {
            let word = shell_word(&view.identity.name);
            format!(
                "found mismatches in {}, whose wrong side is unknown; `stria explain {word}` says what to do first",
                counted(count, "sector")
            )
        }
        (count, false) => {
            let word = shell_word(&view.identity.name);
            format!("found mismatches in {}; `stria scrub {word} --repair` repairs them", counted(count, "sector"))
        }
    };
    let date =
        view.redundancy.last_scrub.and_then(|scrub| local(scrub.ended_s)).map_or_else(String::new, |date| format!(" on {date}"));
    Some(format!("the last one{date} {outcome}"))
}

/// The write log, or its absence on a level that needs one.
fn log_line(view: &ArrayView, verbose: bool) -> Option<String> {
    let Some(log) = &view.writes.log else {
        let needs_one = ["4", "5", "6"].contains(&view.geometry.level.as_str());
        return needs_one.then(|| "none: a crash together with a lost drive can damage data that was not being written".into());
    };
    if log.replaying {
        return Some("being replayed after a crash".into());
    }
    let kind = if log.partial_parity { "partial parity log (md): " } else { "" };
    let counts = match verbose {
        true => format!(
            "{} in {}, {}, {} acknowledged by it since the start",
            counted(log.record_count, "record"),
            counted(log.append_count, "append"),
            size::show(log.append_bytes),
            counted(log.early_count, "write")
        ),
        false => format!("{} since the start", counted(log.record_count, "record")),
    };
    let full =
        if log.full_count > 0 { format!("; {} waited for space", counted(log.full_count, "append")) } else { String::new() };
    let replayed = if log.replayed_count > 0 { format!("; {} of a crash replayed", log.replayed_count) } else { String::new() };
    Some(format!("{kind}{counts}{full}{replayed}"))
}

/// The blocks that checksums verified, of all members that have some.
fn integrity_line(view: &ArrayView) -> Option<String> {
    let checked: Vec<&ChecksumView> = view.parts.members.iter().filter_map(|member| member.checksums.as_ref()).collect();
    let sum = |of: fn(&ChecksumView) -> u64| checked.iter().map(|counts| of(counts)).sum::<u64>();
    let (verified, learned) = (sum(|counts| counts.verified), sum(|counts| counts.learned));
    let (wrong, mended) = (sum(|counts| counts.wrong), sum(|counts| counts.mended));
    let all = if checked.len() == view.parts.members.len() { "" } else { " (not on every member)" };
    let verified = counted(verified, "block");
    let line = format!("{verified} verified, {learned} learned, {wrong} wrong, {mended} of them corrected{all}");
    (!checked.is_empty()).then_some(line)
}

fn client_line(client: &ClientView) -> String {
    let (read, written) = (size::show(client.read_bytes), size::show(client.written_bytes));
    let errors = if client.errors > 0 { format!(", {}", counted(client.errors, "error")) } else { String::new() };
    let tls = if client.tls { " over TLS" } else { "" };
    let requests = counted(client.requests, "request");
    format!("{}{tls}: {requests}, {read} read, {written} written{errors}", client.peer)
}

/// Remarks on a member beyond its numbers.
fn notes(member: &MemberView) -> Vec<String> {
    let mut notes = Vec::new();
    let since = member.since_s.and_then(moment).map_or_else(String::new, |since| format!(", since {since}"));
    if let Some(failure) = &member.failure {
        notes.push(format!("{failure}{since}"));
    }
    if member.bad_sectors > 0 && member.role != "failed" {
        let are = if member.bad_sectors == 1 { "is a bad block: it holds" } else { "are bad blocks: they hold" };
        let sectors = counted(member.bad_sectors, "sector");
        let fills = if member.bad_sectors == 1 { "fills it" } else { "fills them" };
        notes.push(format!("{sectors} {are} nothing usable until a scrub or a write {fills}"));
    }
    if let Some(waiting @ 1000..) = member.waiting_ms {
        let since = if member.failure.is_none() { &since } else { "" };
        notes.push(format!("no answer for {}{since}", size::show_duration(waiting / 1000)));
    }
    if member.hedged_reads > 0 {
        notes.push(format!("{} answered by others", counted(member.hedged_reads, "slow read")));
    }
    if member.repaired_sectors > 0 {
        notes.push(format!("{}, {} repaired", counted(member.wrong_sectors, "wrong sector"), member.repaired_sectors));
    }
    // By checksum, in sectors as by redundancy.
    if let Some(ChecksumView { wrong: found @ 1.., mended, .. }) = member.checksums {
        notes.push(format!("{} sectors wrong by checksum, {} corrected", found * 8, mended * 8));
    }
    if member.direct == Some(false) {
        notes.push(format!("buffered: {}", member.direct_note.as_deref().unwrap_or("no reason known")));
    }
    notes
}

/// Rows in the order of slots, failed members at the end. `blank`: the rest of the row of a slot without a member.
fn in_order(view: &ArrayView, row: impl Fn(&MemberView) -> Vec<String>, blank: &[&str]) -> Vec<Vec<String>> {
    let slot_of = |slot: Option<usize>| slot.map_or("-".into(), |slot| slot.to_string());
    let order = |member: &MemberView| if member.role == "failed" { usize::MAX } else { member.slot.unwrap_or(usize::MAX) };
    let mut rows: Vec<(usize, Vec<String>)> =
        view.parts.members.iter().map(|member| (order(member), [vec![slot_of(member.slot)], row(member)].concat())).collect();
    for slot in &view.parts.missing_slots {
        let blank = blank.iter().map(|&text| text.to_owned()).collect();
        rows.push((*slot, [vec![slot_of(Some(*slot))], blank].concat()));
    }
    rows.sort_by_key(|(order, _)| *order);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn role(member: &MemberView) -> String {
    match (is_lost(member), was_replaced(member)) {
        (true, _) => "LOST".into(),
        (_, true) => "replaced".into(),
        (false, false) => member.role.clone(),
    }
}

/// If paths are too long for `width`, traffic is left out.
fn members(view: &ArrayView, width: u16) -> String {
    let row = |member: &MemberView| {
        let (read, written) = (size::show(member.read_bytes), size::show(member.written_bytes));
        vec![role(member), read, written, member.read_errors.to_string(), member.path.clone()]
    };
    let header = ["slot", "role", "read", "written", "errors", "member"];
    let shown = table(&header, &[2, 3, 4], in_order(view, row, &["MISSING", "", "", "", "-"]));
    if shown.lines().all(|line| line.chars().count() <= width.into()) {
        return shown;
    }
    let row = |member: &MemberView| vec![role(member), member.read_errors.to_string(), member.path.clone()];
    table(&["slot", "role", "errors", "member"], &[2], in_order(view, row, &["MISSING", "", "-"]))
}

fn members_in_full(view: &ArrayView, width: u16) -> String {
    let row = |member: &MemberView| {
        let io = match (member.direct, member.way.as_deref()) {
            (Some(true), Some("interrupts") | None) => "direct".into(),
            (Some(true), Some(way)) => format!("direct, {way}"),
            (Some(false), _) => "buffered".into(),
            (None, _) => "a span".into(),
        };
        let latency = |latency: &Option<LatencyView>| latency.as_ref().map_or("-".into(), show_latency);
        vec![
            role(member),
            member.read_count.to_string(),
            member.write_count.to_string(),
            size::show(member.read_bytes),
            size::show(member.written_bytes),
            member.read_errors.to_string(),
            member.wrong_sectors.to_string(),
            latency(&member.read_latency),
            latency(&member.write_latency),
            io,
            member.serial.clone().unwrap_or("-".into()),
            member.path.clone(),
        ]
    };
    let header = [
        "slot",
        "role",
        "reads",
        "writes",
        "read",
        "written",
        "errors",
        "wrong",
        "read time",
        "write time",
        "I/O",
        "serial",
        "member",
    ];
    let blank = ["MISSING", "", "", "", "", "", "", "", "", "", "", "-"];
    tables(width, &header, &[2, 3, 4, 5, 6, 7], in_order(view, row, &blank), 2)
}

/// `85 µs (p99 210 µs, 3 slow)`
fn show_latency(latency: &LatencyView) -> String {
    let time = |us: u64| if us < 10_000 { format!("{us} µs") } else { format!("{} ms", us / 1000) };
    let slow = if latency.slow_count > 0 { format!(", {} slow", latency.slow_count) } else { String::new() };
    format!("{} (p99 {}{slow})", time(latency.median_us), time(latency.p99_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::describe_state;
    use crate::words::error::ErrorSentence;
    use serde_json::{Value, json};

    fn member(slot: usize, path: &str, changes: &[(&str, Value)]) -> Value {
        let mut member = json!({"slot": slot, "path": path, "role": "in sync", "read_errors": 0, "hedged_reads": 0, "wrong_sectors": 0,
            "repaired_sectors": 0, "read_count": 0, "write_count": 0, "read_bytes": 0, "written_bytes": 0});
        changes.iter().for_each(|(name, value)| member[name] = value.clone());
        member
    }

    /// `status` of an optimal array with these members.
    fn shown_of(members: &[Value]) -> String {
        let view = json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "1", "layout": "", "size_bytes": 0, "health": "optimal",
            "state": "", "clean": true, "read_only": false, "trim_zeroes": true, "paused": false, "members": members,
            "missing_slots": [], "spans": [], "resync_pending": false, "losses_survived": 1, "in_flight": 0, "events": 0,
            "created_s": 0, "exports": [], "clients": []});
        let mut view: ArrayView = serde_json::from_value(view).expect("a view");
        describe_state(&mut view);
        words(&[view], false, WIDTH)
    }

    #[test]
    fn the_caches_of_drives_are_shown_where_they_were_set_or_lose_data() {
        let caches = |set: Option<bool>, unflushed: bool| {
            let mut view: ArrayView = serde_json::from_value(json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "1",
                "layout": "", "size_bytes": 0, "health": "optimal", "state": "", "clean": true, "read_only": false, "trim_zeroes": true,
                "paused": false, "members": [member(0, "/a", &[("cache_unflushed", json!(unflushed))])], "missing_slots": [], "spans": [],
                "resync_pending": false, "losses_survived": 1, "in_flight": 0, "events": 0, "created_s": 0, "exports": [], "clients": [],
                "drive_caches": "set in other words", "drive_caches_set": set}))
            .expect("a view");
            describe_state(&mut view);
            words(&[view], false, WIDTH).contains("of the drives: set in other words")
        };
        assert!(!caches(None, false));
        assert!(caches(Some(true), false) && caches(Some(false), false) && caches(None, true));
    }

    /// "failed and holds no slot" once stood for all of these.
    #[test]
    fn a_member_that_left_is_shown_with_the_one_that_has_its_slot() {
        let failed = |reason: &str| [("role", json!("failed")), ("failure", json!(reason))];
        let text = shown_of(&[member(0, "/a", &[]), member(1, "/b", &failed("I/O error")), member(1, "/c", &[])]);
        assert!(text.contains("/b failed, and /c holds slot 1; it can be removed, otherwise clean"), "{text}");
        assert!(text.contains("/b: I/O error"), "{text}");
        let replaced = [&failed("replaced")[..], &[("failure_said", json!(ErrorSentence::ReplacedByAnother {}))]].concat();
        let text = shown_of(&[member(0, "/a", &[]), member(1, "/b", &replaced), member(1, "/c", &[])]);
        assert!(text.contains("/b was replaced by /c; it can be removed, otherwise clean"), "{text}");
        assert!(text.contains("1     replaced"), "{text}");
        // The words of a drive may be any.
        let text = shown_of(&[member(0, "/a", &[]), member(1, "/b", &failed("replaced")), member(1, "/c", &[])]);
        assert!(text.contains("/b failed, and /c holds slot 1; it can be removed, otherwise clean"), "{text}");
        let spare = [&failed("I/O error")[..], &[("slot", Value::Null)]].concat();
        let text = shown_of(&[member(0, "/a", &[]), member(1, "/c", &[]), member(2, "/b", &spare)]);
        assert!(text.contains("/b failed and holds no slot; it can be removed, otherwise clean"), "{text}");
    }

    /// At every width: no line is longer, and no value is left out.
    #[test]
    fn what_v_shows_fits_the_terminal_and_is_complete() {
        let latency = json!({"median_us": 85, "p99_us": 210, "p999_us": 300, "max_us": 999, "count": 5, "slow_count": 3});
        let full = [
            ("read_count", json!(123_456_789)),
            ("write_count", json!(23_456_789)),
            ("read_bytes", json!(34_567_890_u64)),
            ("written_bytes", json!(45_678_901_u64)),
            ("read_errors", json!(17)),
            ("wrong_sectors", json!(18)),
            ("read_latency", latency.clone()),
            ("write_latency", latency),
            ("direct", json!(true)),
            ("way", json!("polled")),
            ("serial", json!("S64CNE0R601234")),
        ];
        for path in ["/dev/nvme0n1", "/dev/disk/by-id/nvme-SAMSUNG_MZQL27T6HBLA-00A07_S6CKNT0W123456_1-part1"] {
            let members = [member(0, path, &full), member(1, &path.replace('0', "9"), &full)];
            for width in [60, 80, 100, 140, 300] {
                let view = json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "1", "layout": "", "size_bytes": 0,
                    "health": "optimal", "state": "", "clean": true, "read_only": false, "trim_zeroes": true, "paused": false,
                    "members": members, "missing_slots": [2], "spans": [], "resync_pending": false, "losses_survived": 1, "in_flight": 0,
                    "events": 0, "created_s": 0, "exports": [], "clients": []});
                let view: ArrayView = serde_json::from_value(view).expect("a view");
                let text = words(&[view], true, width);
                let fits =
                    |line: &&str| line.chars().count() <= usize::from(width) || line.trim().chars().all(|char| char != ' ');
                assert!(text.lines().all(|line| fits(&line)), "{width}:\n{text}");
                let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
                for value in [
                    "123456789",
                    "23456789",
                    "33.0 MiB",
                    "43.6 MiB",
                    "17",
                    "18",
                    "85 µs (p99 210 µs, 3 slow)",
                    "direct, polled",
                    "S64CNE0R601234",
                    "MISSING",
                    path,
                ] {
                    assert!(told.contains(value), "{value} at {width}:\n{text}");
                }
            }
        }
    }

    #[test]
    fn bad_blocks_are_shown() {
        let text = shown_of(&[member(0, "/a", &[]), member(1, "/b", &[("bad_sectors", json!(16))])]);
        // It is wrapped to the terminal.
        let unwrapped = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = unwrapped(&text);
        assert!(
            text.contains("/b: 16 sectors are bad blocks: they hold nothing usable until a scrub or a write fills them"),
            "{text}"
        );
        assert!(!text.contains("/a: "), "{text}");
        let text = unwrapped(&shown_of(&[member(0, "/a", &[("bad_sectors", json!(1))])]));
        assert!(
            text.contains("/a: 1 sector is a bad block: it holds nothing usable until a scrub or a write fills it"),
            "{text}"
        );
    }

    #[test]
    fn figures_of_one_are_singular() {
        let of = |count: u64| {
            let members = [member(
                0,
                "/a",
                &[("hedged_reads", json!(count)), ("wrong_sectors", json!(count)), ("repaired_sectors", json!(1))],
            )];
            let view = json!({"name": "tank", "full_name": "tank", "uuid": "", "level": "5", "layout": "", "size_bytes": 0,
                "health": "optimal", "state": "", "clean": true, "read_only": false, "trim_zeroes": true, "paused": false,
                "members": members, "missing_slots": [], "spans": [], "resync_pending": false, "losses_survived": 1, "in_flight": 0,
                "events": 0, "created_s": 0, "exports": [], "mismatch_sectors": count, "mismatch_repaired": true,
                "log": {"append_count": count, "record_count": count, "append_bytes": 0, "early_count": count, "full_count": count,
                    "replaying": false, "replayed_count": 0, "partial_parity": false},
                "clients": [{"id": 1, "peer": "p", "requests": count, "errors": count, "read_bytes": 0, "written_bytes": 0,
                    "in_flight": 0}]});
            let view: ArrayView = serde_json::from_value(view).expect("a view");
            let text = words(std::slice::from_ref(&view), true, 300) + &words(&[view], false, 300);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for (count, told) in [
            (
                1,
                [
                    "1 record in 1 append,",
                    "1 write acknowledged",
                    "; 1 append waited",
                    "1 record since",
                    "1 slow read answered",
                    "1 wrong sector, 1",
                    "in 1 sector, and",
                    "1 request,",
                    ", 1 error",
                ],
            ),
            (
                2,
                [
                    "2 records in 2 appends,",
                    "2 writes acknowledged",
                    "; 2 appends waited",
                    "2 records since",
                    "2 slow reads answered",
                    "2 wrong sectors, 1",
                    "in 2 sectors, and",
                    "2 requests,",
                    ", 2 errors",
                ],
            ),
        ] {
            let text = of(count);
            told.iter().for_each(|words| assert!(text.contains(words), "{words}: {text}"));
        }
    }
}
