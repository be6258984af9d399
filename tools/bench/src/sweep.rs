//! The speed of a rebuild or scrub, on given members, by any clock.

use stria_array::{
    ArrayConfig, ArrayDevice, Command, Event, Findings, Geometry, GeometryError, Level, MemberConfig, MemberId, NoMetadata,
    SweepKind,
};
use stria_block::{BlockDevice, Nanos, bytes};

/// The sweep to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepJob {
    /// The first member fails, and a spare, which is the last of the members given, is filled.
    Rebuild,
    /// Everything is read and compared.
    Scrub,
}

/// The bytes of each member that a sweep passed, and its duration.
#[derive(Clone, Copy, Debug)]
pub struct SweepTime {
    /// Of each member.
    pub member_bytes: u64,
    /// From the command to the end.
    pub elapsed: Nanos,
}

impl SweepTime {
    /// Bytes of each member in a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.member_bytes as f64 / (self.elapsed as f64 / 1e9)
    }
}

/// Times a sweep of an array without clients. `clock` returns the time for each turn; its argument is the time at which the array
/// needs the next one.
///
/// # Errors
/// The level is impossible with this number of members.
pub fn time_sweep(
    level: Level,
    strip_sectors: u64,
    members: Vec<Box<dyn BlockDevice>>,
    job: SweepJob,
    mut clock: impl FnMut(Option<Nanos>) -> Nanos,
) -> Result<SweepTime, GeometryError> {
    let spare_count = usize::from(job == SweepJob::Rebuild);
    let slot_count = members.len() - spare_count;
    let sizes: Vec<u64> = members.iter().map(|member| member.limits().size_sectors).collect();
    let geometry = Geometry::new(level, level.default_layout(), strip_sectors, &sizes[..slot_count])?;
    let spare = |id: usize| MemberConfig::in_sync(MemberId(id), sizes[id]);
    let member_bytes = bytes(sizes.iter().copied().min().unwrap_or(0)) as u64;
    let config =
        ArrayConfig { spares: (slot_count..members.len()).map(spare).collect(), ..ArrayConfig::optimal("sweep", geometry) };
    let mut array = ArrayDevice::new(&config, members, NoMetadata, 0);
    let start = clock(None);
    array.poll(start, &mut Vec::new());
    array.begin(match job {
        SweepJob::Rebuild => Command::Fail(MemberId(0)),
        SweepJob::Scrub => Command::Scrub { repair: false, from_sector: 0 },
    });
    loop {
        let now = clock(array.next_wake());
        array.poll(now, &mut Vec::new());
        for event in array.take_events() {
            match event {
                Event::SweepFinished { kind: SweepKind::Rebuild | SweepKind::Scrub { .. }, found, .. } => {
                    assert_eq!(found, Findings::default(), "the members were all zeros");
                    // Members that end at once let the whole sweep pass in one turn: the clock is read behind it.
                    return Ok(SweepTime { member_bytes, elapsed: clock(None) - start });
                }
                Event::SweepStopped { cause, .. } => panic!("the sweep stopped: {cause:?}"),
                _ => {}
            }
        }
    }
}
