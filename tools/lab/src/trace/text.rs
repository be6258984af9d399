//! Formats with one request to a line.

use super::{Devices, Event, Format, Op, Record, Stage, Take, TraceError, open};
use crate::lines;
use std::path::Path;

const SECTOR: u64 = 512;

/// A field that must be a number.
fn number(field: Option<&str>, what: &str) -> Result<u64, String> {
    let text = field.ok_or_else(|| format!("{what} is missing"))?.trim();
    text.parse().map_err(|_| format!("{what} \"{text}\" is not a whole number"))
}

fn product(value: u64, factor: u64) -> Result<u64, String> {
    value.checked_mul(factor).ok_or_else(|| format!("{value} is too large"))
}

/// Decimal seconds or milliseconds, to nanoseconds without rounding through a float.
fn decimal(text: &str, unit_ns: u64) -> Result<u64, String> {
    let bad = || format!("time \"{text}\" is not a number");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 18 || !part.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let scale = 10u128.pow(part.len() as u32);
    let part: u128 = if part.is_empty() { 0 } else { part.parse().map_err(|_| bad())? };
    let part = (part * u128::from(unit_ns) / scale) as u64;
    product(whole, unit_ns)?.checked_add(part).ok_or_else(|| format!("time \"{text}\" is too large"))
}

pub fn read(path: &Path, format: Format, devices: &mut Devices, take: Take<'_>) -> Result<(), TraceError> {
    let (mut file, mut line) = (open(path)?, Vec::new());
    for index in 0_u64.. {
        let bad = |problem| TraceError::Malformed { path: path.into(), place: format!("line {}", index + 1), problem };
        let Some(text) = lines::next(&mut *file, &mut line).map_err(|error| bad(error.to_string()))? else { break };
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let line = match format {
            Format::Msr => msr(text),
            Format::Alibaba => alibaba(text),
            Format::Tencent => tencent(text),
            Format::Blkparse => blkparse(text),
            Format::DiskSim => disksim(text, 1_000_000),
            Format::MqSim => disksim(text, 1),
            Format::Blktrace | Format::Iolog => unreachable!("read elsewhere"),
        };
        match line {
            Ok(Some(line)) => {
                let device = devices.index(&line.device).map_err(bad)?;
                let (offset, bytes, took_ns) = (line.offset, line.bytes, line.took_ns);
                let record = |op| Record { time_ns: line.time_ns, device, offset, bytes, op, took_ns };
                let flush = Record { offset: 0, bytes: 0, took_ns: 0, ..record(Op::Flush) };
                let parts = [line.flush_before.then_some(flush), line.op.map(record), line.flush_after.then_some(flush)];
                let mut parts = parts.into_iter().flatten().map(|record| Event { record, stage: line.stage, line: index + 1 });
                if parts.try_for_each(&mut *take).is_break() {
                    return Ok(());
                }
            }
            Ok(None) => {}
            // A heading is not data.
            Err(_) if index == 0 && !text.starts_with(|first: char| first.is_ascii_digit()) => {}
            Err(problem) => return Err(bad(problem)),
        }
    }
    Ok(())
}

#[derive(Default)]
struct Line<'a> {
    time_ns: u64,
    device: std::borrow::Cow<'a, str>,
    offset: u64,
    bytes: u64,
    took_ns: u64,
    op: Option<Op>,
    flush_before: bool,
    flush_after: bool,
    stage: Stage,
}

fn msr(text: &str) -> Result<Option<Line<'_>>, String> {
    let mut fields = text.split(',');
    let time_ns = product(number(fields.next(), "timestamp")?, 100)?;
    let host = fields.next().ok_or("host name is missing")?;
    let disk = fields.next().ok_or("disk number is missing")?;
    let op = match fields.next() {
        Some("Read") => Op::Read,
        Some("Write") => Op::Write,
        Some(other) => return Err(format!("type {other:?} is neither Read nor Write")),
        None => return Err("type is missing".into()),
    };
    let (offset, bytes) = (number(fields.next(), "offset")?, number(fields.next(), "size")?);
    // Some copies of these traces lack the last column.
    let took_ns = fields.next().map_or(Ok(0), |field| product(number(Some(field), "response time")?, 100))?;
    Ok(Some(Line { time_ns, device: format!("{host}_{disk}").into(), offset, bytes, took_ns, op: Some(op), ..Line::default() }))
}

fn alibaba(text: &str) -> Result<Option<Line<'_>>, String> {
    let mut fields = text.split(',');
    let device = fields.next().ok_or("device is missing")?.into();
    let op = match fields.next() {
        Some("R") => Op::Read,
        Some("W") => Op::Write,
        Some(other) => return Err(format!("opcode {other:?} is neither R nor W")),
        None => return Err("opcode is missing".into()),
    };
    let (offset, bytes) = (number(fields.next(), "offset")?, number(fields.next(), "length")?);
    let time_ns = product(number(fields.next(), "timestamp")?, 1000)?;
    Ok(Some(Line { time_ns, device, offset, bytes, op: Some(op), ..Line::default() }))
}

fn tencent(text: &str) -> Result<Option<Line<'_>>, String> {
    let mut fields = text.split(',');
    let time_ns = product(number(fields.next(), "timestamp")?, 1_000_000_000)?;
    let offset = product(number(fields.next(), "offset")?, SECTOR)?;
    let bytes = product(number(fields.next(), "size")?, SECTOR)?;
    let op = match number(fields.next(), "type")? {
        0 => Op::Read,
        1 => Op::Write,
        other => return Err(format!("type {other} is neither 0 (read) nor 1 (write)")),
    };
    let device = fields.next().ok_or("volume is missing")?.into();
    Ok(Some(Line { time_ns, device, offset, bytes, op: Some(op), ..Line::default() }))
}

fn disksim(text: &str, unit_ns: u64) -> Result<Option<Line<'_>>, String> {
    let mut fields = text.split_ascii_whitespace();
    let time_ns = decimal(fields.next().ok_or("arrival time is missing")?, unit_ns)?;
    let device = fields.next().ok_or("device is missing")?.into();
    let offset = product(number(fields.next(), "block")?, SECTOR)?;
    let bytes = product(number(fields.next(), "block count")?, SECTOR)?;
    let op = if number(fields.next(), "flags")? & 1 == 1 { Op::Read } else { Op::Write };
    Ok(Some(Line { time_ns, device, offset, bytes, op: Some(op), ..Line::default() }))
}

/// The format of which a line is a request; `None` for headings and comments.
///
/// # Errors
/// A sentence, if it is of one of several.
pub fn recognized(line: &str) -> Result<Option<Format>, String> {
    if line.starts_with("fio version ") {
        return Ok(Some(Format::Iolog));
    }
    let is = |parsed: Result<Option<Line<'_>>, String>| matches!(parsed, Ok(Some(_)));
    if is(disksim(line, 1)) {
        return Err(
            "its lines are those of disksim or of mqsim, which differ in the unit of time: write disksim: or mqsim: before \
                    the name"
                .into(),
        );
    }
    let known = [
        (Format::Msr, is(msr(line))),
        (Format::Alibaba, is(alibaba(line))),
        (Format::Tencent, is(tencent(line))),
        (Format::Blkparse, is(blkparse(line))),
    ];
    Ok(known.into_iter().find(|(_, fits)| *fits).map(|(format, _)| format))
}

/// `8,0 3 11 0.009507758 697 Q W 223490 + 8 [kjournald]`. Anything else, as blkparse prints it too, is no request.
fn blkparse(text: &str) -> Result<Option<Line<'_>>, String> {
    let mut fields = text.split_ascii_whitespace();
    let device = fields.next().unwrap_or_default();
    let (Some(_cpu), Some(_sequence), Some(time), Some(_pid), Some(action), Some(kind)) =
        (fields.next(), fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Ok(None);
    };
    let numbers = device.split_once(',').is_some_and(|(major, minor)| {
        !major.is_empty() && !minor.is_empty() && major.bytes().chain(minor.bytes()).all(|byte| byte.is_ascii_digit())
    });
    let stage = match action {
        "Q" => Stage::Queued,
        "D" => Stage::Issued,
        "C" => Stage::Completed,
        _ => return Ok(None),
    };
    if !numbers {
        return Ok(None);
    }
    let time_ns = decimal(time, 1_000_000_000)?;
    // "FWFSM": F before W is a preflush, after it FUA; a lone F is a flush.
    let main = kind.find(['R', 'W', 'D']);
    let op = main.map(|place| match kind.as_bytes()[place] {
        b'R' => Op::Read,
        b'W' => Op::Write,
        _ => Op::Discard,
    });
    let flush_before = kind.starts_with('F');
    let flush_after = main.is_some_and(|place| kind[place..].contains('F'));
    let mut line = Line { time_ns, device: device.into(), flush_before, flush_after, stage, ..Line::default() };
    let sector = fields.next().filter(|field| field.bytes().all(|byte| byte.is_ascii_digit()));
    if let (Some(op), Some(sector), Some("+")) = (op, sector, fields.next()) {
        line.offset = product(number(Some(sector), "sector")?, SECTOR)?;
        line.bytes = product(number(fields.next(), "sector count")?, SECTOR)?;
        // A write of nothing carries its flush only.
        line.op = (line.bytes > 0).then_some(op);
        line.flush_after &= line.bytes > 0;
    } else if !flush_before {
        return Ok(None);
    } else {
        line.flush_after = false;
    }
    Ok(Some(line))
}
