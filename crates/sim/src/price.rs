//! What the write log costs on [modelled SSDs](crate::ssd), in virtual time: the real engine, binder and metadata, 4 KiB
//! random writes, once with the log and once without.
//!
//! The engine's processor time passes on the same clock ([`COST`]). One lane, as an array runs on one.

use crate::chance::Chance;
use crate::ssd::{Cost, Figures, Meter, Ssd};
use std::rc::Rc;
use stria_array::{ArrayDevice, Geometry, Level};
use stria_block::{BlockDevice, Buffer, Nanos, Operation, Request, bytes};
use stria_format::md::{BitmapChoice, Candidate, Create, CreateMember, Creation, LogChoice, MdRecorder, Options, assemble};

/// What a write costs where members are memory (`cargo run --release -p stria-bench --example log`, Zen 5, beside other work):
/// RAID 5 of 4 at QD 32 makes 195,000 writes a second without the log, of four requests to members each, and 155,000 with it.
pub const COST: Cost = Cost { client_ns: 1100, request_ns: 1000, log_page_ns: 850 };
/// 64 GiB: where clients write.
const REGION_SECTORS: u64 = 128 << 20;
/// Writes before anything is counted: bits are set, logs begun, buffers full.
const WARM_UP: u64 = 20_000;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The drives.
    pub drive: Figures,
    /// RAID 4, 5 or 6.
    pub level: Level,
    /// Its members.
    pub members: usize,
    /// Requests of clients at once.
    pub depth: u64,
    /// Requests that count.
    pub writes: u64,
    /// What the engine costs; nothing: the drives alone are measured.
    pub cost: Cost,
}

/// What one side of it came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Writes of clients a second.
    pub iops: f64,
    /// From a client's request to its end.
    pub mean_ns: f64,
    /// 99 of 100 ended within this.
    pub p99_ns: Nanos,
    /// Writes to members for each of a client, metadata included.
    pub member_writes: f64,
    /// Bytes to members for each of a client.
    pub member_bytes: f64,
    /// Flushes of members for each write of a client.
    pub member_flushes: f64,
    /// Records in an append; 0 without a log.
    pub records_per_append: f64,
}

/// Both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Without the log.
    pub without: Outcome,
    /// With it.
    pub with: Outcome,
}

/// Measures both sides.
///
/// # Errors
/// When the array cannot be.
pub fn price(plan: &Plan) -> Result<Price, String> {
    Ok(Price { without: side(plan, LogChoice::None)?, with: side(plan, LogChoice::Auto)? })
}

fn create(plan: &Plan, log: LogChoice) -> Result<Creation, String> {
    let member = |index: usize| CreateMember {
        name: format!("drive{index}"),
        size_sectors: plan.drive.sectors,
        logical_block_bytes: 512,
        device_uuid: [index as u8 + 1; 16],
    };
    let create = Create {
        name: "price".into(),
        homehost: None,
        uuid: [7; 16],
        level: plan.level,
        layout: plan.level.default_layout(),
        strip_sectors: 128,
        members: (0..plan.members).map(|index| Some(member(index))).collect(),
        spares: Vec::new(),
        member_sectors_max: None,
        bitmap: BitmapChoice::Internal { chunk_bytes: None },
        log,
        checksums: false,
        assume_clean: true,
        unix_seconds: crate::tree::UNIX_SECONDS,
    };
    create.plan().map_err(|error| error.to_string())
}

/// Sectors of a drive as its creation left them.
fn read(creation: &Creation, drive: usize, start: u64, sectors: u64) -> Vec<u8> {
    let mut found = vec![0; bytes(sectors)];
    for write in creation.writes.iter().filter(|write| write.drive == drive) {
        let written = write.start_sector..write.start_sector + write.bytes.len() as u64 / 512;
        let both = start.max(written.start)..(start + sectors).min(written.end);
        if both.start < both.end {
            let from = bytes(both.start - written.start)..bytes(both.end - written.start);
            found[bytes(both.start - start)..][..from.len()].copy_from_slice(&write.bytes[from]);
        }
    }
    found
}

fn array(plan: &Plan, log: LogChoice, meter: &Rc<Meter>) -> Result<(ArrayDevice<MdRecorder>, Geometry), String> {
    let creation = create(plan, log)?;
    let candidate = |drive: usize| {
        let mut read = |start: u64, sectors: u64| Ok(read(&creation, drive, start, sectors));
        Candidate::read(format!("drive{drive}"), plan.drive.sectors, 512, &mut read)
    };
    let candidates: Vec<Candidate> = (0..plan.members).map(candidate).collect();
    let (mut found, _) = assemble(&candidates, &Options::default());
    let start = found.remove(0).outcome.map_err(|error| error.to_string())?;
    if start.config.log.is_some() != (log == LogChoice::Auto) {
        return Err(format!("RAID {} keeps no write log of its own", plan.level));
    }
    let data_start = start.config.slots[0].member.as_ref().map_or(0, |member| member.data_start_sector);
    let drive = |index: usize| {
        Box::new(Ssd::new(plan.drive, plan.cost, data_start, Rc::clone(meter), Chance::new(9, index as u64)))
            as Box<dyn BlockDevice>
    };
    let devices = (0..plan.members).map(drive).collect();
    Ok((ArrayDevice::new(&start.config, devices, start.recorder, crate::tree::UNIX_SECONDS), start.config.geometry))
}

fn side(plan: &Plan, log: LogChoice) -> Result<Outcome, String> {
    let meter = Rc::new(Meter::default());
    let (mut array, geometry) = array(plan, log, &meter)?;
    let blocks = geometry.capacity_sectors().min(REGION_SECTORS) / 8;
    let mut chance = Chance::new(plan.depth, 8);
    let data = Buffer::zeroed(4096).freeze();
    let mut begun: Vec<Nanos> = Vec::new();
    let mut latencies: Vec<Nanos> = Vec::with_capacity(plan.writes as usize);
    let (mut ended, mut completions) = (0, Vec::new());
    let mut from = (0, 0, 0, 0, (0, 0));
    let logged = |array: &ArrayDevice<MdRecorder>| array.status().log.map_or((0, 0), |log| (log.append_count, log.record_count));
    let count = |array: &ArrayDevice<MdRecorder>| {
        (meter.now(), meter.writes.get(), meter.written_sectors.get(), meter.flushes.get(), logged(array))
    };
    while ended < WARM_UP + plan.writes {
        while (begun.len() as u64) < ended + plan.depth {
            let operation = Operation::Write { from: std::iter::once(data.clone()).collect(), fua: false };
            let request = Request { tag: begun.len() as u64, start_sector: chance.below(blocks) * 8, sectors: 8, operation };
            begun.push(meter.now());
            meter.spend(plan.cost.client_ns);
            array.submit(request);
        }
        array.poll(meter.now(), &mut completions);
        for completion in completions.drain(..) {
            completion.result.map_err(|error| error.to_string())?;
            ended += 1;
            if ended > WARM_UP && latencies.len() < plan.writes as usize {
                latencies.push(meter.now() - begun[completion.tag as usize]);
            }
            if ended == WARM_UP {
                from = count(&array);
            }
        }
        if begun.len() as u64 == ended + plan.depth {
            meter.wait_until(array.next_wake().ok_or("nothing happens any more")?);
        }
    }
    let to = count(&array);
    let writes = (ended - WARM_UP) as f64;
    latencies.sort_unstable();
    let (appends, records) = (to.4.0 - from.4.0, to.4.1 - from.4.1);
    Ok(Outcome {
        iops: writes * 1e9 / (to.0 - from.0) as f64,
        mean_ns: latencies.iter().sum::<Nanos>() as f64 / latencies.len() as f64,
        p99_ns: latencies[latencies.len() * 99 / 100],
        member_writes: (to.1 - from.1) as f64 / writes,
        member_bytes: (to.2 - from.2) as f64 * 512.0 / writes,
        member_flushes: (to.3 - from.3) as f64 / writes,
        records_per_append: if appends == 0 { 0.0 } else { records as f64 / appends as f64 },
    })
}
