//! fio's own logs: version 2 with `wait`, version 3 with a time in µs on every line.

use super::{Devices, Event, Op, Record, Stage, Take, TraceError, open};
use crate::lines;
use std::path::Path;

pub fn read(path: &Path, devices: &mut Devices, take: Take<'_>) -> Result<(), TraceError> {
    let bad = |line: usize, problem: String| TraceError::Malformed { path: path.into(), place: format!("line {line}"), problem };
    let (mut version, mut now_ns) = (0, 0);
    let (mut file, mut line) = (open(path)?, Vec::new());
    for index in 0.. {
        let Some(line) = lines::next(&mut *file, &mut line).map_err(|error| bad(index + 1, error.to_string()))? else { break };
        if index == 0 {
            version = match line.trim() {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                other => return Err(bad(1, format!("\"{other}\" is not \"fio version 2 iolog\" or 3"))),
            };
            continue;
        }
        let mut fields: Vec<&str> = line.split_ascii_whitespace().collect();
        if fields.is_empty() {
            continue;
        }
        let number = |text: Option<&&str>, what: &str| -> Result<u64, TraceError> {
            let text = text.ok_or_else(|| bad(index + 1, format!("{what} is missing")))?;
            text.parse().map_err(|_| bad(index + 1, format!("{what} \"{text}\" is not a whole number")))
        };
        if version == 3 {
            now_ns = number(fields.first(), "time")?.saturating_mul(1000);
            fields.remove(0);
        }
        let name = *fields.first().ok_or_else(|| bad(index + 1, "file is missing".into()))?;
        let op = match *fields.get(1).ok_or_else(|| bad(index + 1, "action is missing".into()))? {
            "add" | "open" | "close" => {
                devices.index(name).map_err(|problem| bad(index + 1, problem))?;
                continue;
            }
            "wait" if version == 2 => {
                now_ns = number(fields.get(2), "wait")?.saturating_mul(1_000_000).max(now_ns);
                continue;
            }
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Discard,
            "sync" | "datasync" => Op::Flush,
            other => return Err(bad(index + 1, format!("action \"{other}\" is unknown"))),
        };
        let (offset, bytes) =
            if op == Op::Flush { (0, 0) } else { (number(fields.get(2), "offset")?, number(fields.get(3), "length")?) };
        let device = devices.index(name).map_err(|problem| bad(index + 1, problem))?;
        let record = Record { time_ns: now_ns, device, offset, bytes, op, took_ns: 0 };
        if take(Event { record, stage: Stage::Queued, line: index as u64 + 1 }).is_break() {
            break;
        }
    }
    Ok(())
}
