//! Arrays over given devices, without metadata, to measure only the engine and the members.

use crate::Shape;
use stria_array::{ArrayConfig, ArrayDevice, Geometry, Level, NoMetadata};
use stria_block::{BlockDevice, Completion, Limits, Nanos, Request};
use stria_format::md::create::CreateError;
use stria_host::ArrayLevel;

/// An array of `level` in its default layout, clean, over all of each member; for 50 and 60 of two spans.
/// Without metadata there is no bitmap and no superblock: nothing is recorded before a write.
///
/// # Errors
/// The level is impossible with this number of members, or the strip or the members are too small.
pub fn array_over(
    level: ArrayLevel,
    strip_sectors: u64,
    mut members: Vec<Box<dyn BlockDevice>>,
) -> Result<(Box<dyn BlockDevice>, Shape), CreateError> {
    match level {
        ArrayLevel::Single(level) => {
            let sizes: Vec<u64> = members.iter().map(|member| member.limits().size_sectors).collect();
            let geometry = Geometry::new(level, level.default_layout(), strip_sectors, &sizes)?;
            let shape = Shape::new(&geometry, 1);
            let config = ArrayConfig::optimal("scratch", geometry);
            Ok((Box::new(ArrayDevice::new(&config, members, NoMetadata, 0)), shape))
        }
        ArrayLevel::Striped(level) => {
            let count = members.len();
            if !count.is_multiple_of(2) {
                return Err(CreateError::UnequalSpans { drive_count: count, span_count: 2 });
            }
            let second = members.split_off(count / 2);
            let (first, shape) = array_over(ArrayLevel::Single(level), strip_sectors, members)?;
            let (second, _) = array_over(ArrayLevel::Single(level), strip_sectors, second)?;
            let raid0 = ArrayLevel::Single(Level::Raid0);
            let (array, _) = array_over(raid0, strip_sectors, vec![first, second])?;
            Ok((array, Shape { level: ArrayLevel::Striped(level), members: count, spans: 2, ..shape }))
        }
    }
}

/// All members at once with no array: requests of one size go to one member each, in turn by their address.
/// Its rate is that of all members together, with everything that they share.
pub struct Together {
    members: Vec<Box<dyn BlockDevice>>,
    unit_sectors: u64,
    limits: Limits,
}

impl Together {
    /// Requests must be of `block_bytes` and aligned to it.
    pub fn new(members: Vec<Box<dyn BlockDevice>>, block_bytes: u32) -> Self {
        let unit_sectors = u64::from(block_bytes) / 512;
        let smallest = members.iter().map(|member| member.limits().size_sectors).min().unwrap_or(0);
        let size_sectors = smallest / unit_sectors * unit_sectors * members.len() as u64;
        let limits = match members.first() {
            Some(first) => Limits { size_sectors, ..first.limits().clone() },
            None => Limits::plain(0),
        };
        Self { members, unit_sectors, limits }
    }

    /// The members back.
    pub fn into_members(self) -> Vec<Box<dyn BlockDevice>> {
        self.members
    }
}

impl BlockDevice for Together {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, mut request: Request) {
        let (unit, in_unit) = (request.start_sector / self.unit_sectors, request.start_sector % self.unit_sectors);
        assert!(in_unit + request.sectors <= self.unit_sectors, "a request of another size than announced");
        let count = self.members.len() as u64;
        request.start_sector = unit / count * self.unit_sectors + in_unit;
        self.members[(unit % count) as usize].submit(request);
    }

    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.members.iter_mut().for_each(|member| member.poll(now, completions));
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.members.iter().filter_map(|member| member.next_wake()).min()
    }
}
