//! Parity of a stripe in memory: generated, updated by a write, and used to recover strips. Which of these, [`plan`](crate::plan)
//! decides.

use crate::StripeMap;
use crate::address::Sectors;
use crate::core::Core;
use crate::lists::few;
use crate::plan::{Method, Rectangle, Strips, WritePlan};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use stria_block::{Buffer, Data, Segments, bytes};
use stria_parity::{Code, PARITY_COUNT_MAX, Strip};

/// A strip of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Data(usize),
    Parity(usize),
}

impl Unit {
    pub fn slot(self, map: &StripeMap) -> usize {
        usize::from(match self {
            Unit::Data(index) => map.data[index],
            Unit::Parity(index) => map.parity[index],
        })
    }
}

/// The strips that a plan reads, in the order of its member requests.
pub(crate) fn reads(plan: &WritePlan) -> impl Iterator<Item = Unit> + '_ {
    plan.read_data.iter().map(|&index| Unit::Data(index)).chain(plan.read_parity.iter().map(|&index| Unit::Parity(index)))
}

/// Data that was read, by strip.
pub(crate) struct Found(SmallVec<[(Unit, Buffer); 4]>);

impl Found {
    pub fn new(found: impl IntoIterator<Item = (Unit, Buffer)>) -> Self {
        Self(few(found))
    }

    pub fn get(&self, unit: Unit) -> Option<&Buffer> {
        self.0.iter().find(|(known, _)| *known == unit).map(|(_, buffer)| buffer)
    }

    fn take(&mut self, unit: Unit) -> Option<Buffer> {
        let index = self.0.iter().position(|(known, _)| *known == unit)?;
        Some(self.0.swap_remove(index).1)
    }

    #[inline]
    pub fn recycle(self, core: &Core) {
        self.0.into_iter().for_each(|(_, buffer)| core.buffers.give(buffer));
    }
}

/// The bytes of some parities, in the order of their numbers: 0 is P, 1 is Q. A list beside it has the numbers.
pub(crate) type Parities = SmallVec<[Buffer; 2]>;

/// A planned write of a part of a stripe.
pub(crate) struct Change<'a> {
    pub core: &'a Core,
    pub map: &'a StripeMap,
    pub plan: &'a WritePlan,
    pub part: &'a Rectangle,
    /// The new data of each written strip.
    pub written: &'a [Segments<Data>],
}

/// Parity after a write: those that the plan writes.
pub(crate) struct NewParity {
    pub parity: Parities,
    /// Partial parity, where the log needs it: the parity of the strips that the write leaves alone.
    pub partial: Option<Parities>,
}

impl Change<'_> {
    /// Computes the parity that the write leaves. `read`: what the plan reads. `logs`: the write has log records.
    #[inline]
    pub fn new_parity(&self, mut read: Found, logs: bool) -> NewParity {
        // Without partial parity the new data goes in with the old. With it, the new data is left out at first.
        let needs_partial = logs && self.plan.method != Method::Full;
        let parity = match self.plan.method {
            Method::DataOnly => Parities::new(),
            Method::ReadModifyWrite => self.modified(&mut read, needs_partial),
            Method::Full | Method::ReconstructWrite | Method::RecoverWrite => self.constructed(&read, needs_partial),
        };
        read.recycle(self.core);
        match needs_partial {
            true => NewParity { parity: self.add_written(&parity), partial: Some(parity) },
            false => NewParity { parity, partial: None },
        }
    }

    /// Parity that was read, changed by the written strips. With `leave_out` it loses what they held, and does not get what they
    /// will hold.
    fn modified(&self, read: &mut Found, leave_out: bool) -> Parities {
        let mut parity: Parities =
            few(self.plan.read_parity.iter().map(|&index| read.take(Unit::Parity(index)).expect("it was read")));
        let before = |index: usize| -> &[u8] { read.get(Unit::Data(index)).expect("it was read") };
        self.each_written(&mut parity, |code, index, range, after, outputs| {
            let position = usize::from(self.map.code[index]);
            match leave_out {
                true => code.add(position, &before(index)[range], outputs),
                false => code.update(position, &before(index)[range], after, outputs),
            }
        });
        parity
    }

    /// Parity of all data strips: the written ones, or zeros with `leave_out`; those that were read; and those that are recovered
    /// from what was read.
    fn constructed(&self, read: &Found, leave_out: bool) -> Parities {
        let Self { core, map, plan, part, written } = self;
        let len = bytes(part.rows.sectors());
        let recovered = (plan.method == Method::RecoverWrite).then(|| self.recovered(read));
        let (whole, several);
        let cuts: &[usize] = if leave_out || written.iter().all(|strip| strip.len() == 1) {
            whole = [0, len];
            &whole
        } else {
            several = cuts(written, len);
            &several
        };
        let data = |index: usize, range: Range<usize>| -> &[u8] {
            if part.strips.contains(&index) {
                let strip = &written[index - part.strips.start];
                return if leave_out { core.buffers.zero_bytes(range.len()) } else { within(strip, range) };
            }
            let recovered = || recovered.iter().flatten().find(|(known, _)| *known == index).map(|(_, buffer)| buffer);
            &read.get(Unit::Data(index)).or_else(recovered).expect("read or recovered")[range]
        };
        let parity = generate(core, map, cuts, &plan.write_parity, data);
        recovered.into_iter().flatten().for_each(|(_, buffer)| core.buffers.give(buffer));
        parity
    }

    /// The data strips that are neither written nor were read.
    fn recovered(&self, read: &Found) -> SmallVec<[(usize, Buffer); 2]> {
        let lost = |index: &usize| !self.part.strips.contains(index) && read.get(Unit::Data(*index)).is_none();
        let sectors = self.part.rows.sectors();
        let mut recovered =
            (0..self.map.data.len()).filter(lost).map(|index| (index, self.core.buffers.take(sectors))).collect::<SmallVec<_>>();
        recover(self.core, self.map, read, &mut recovered);
        recovered
    }

    /// Partial parity with the written strips added.
    fn add_written(&self, partial: &Parities) -> Parities {
        let mut parity: Parities = few(partial.iter().map(|partial| {
            let mut buffer = self.core.buffers.take((partial.len() / 512) as u64);
            buffer.copy_from_slice(partial);
            buffer
        }));
        self.each_written(&mut parity, |code, index, _, after, outputs| {
            code.add(usize::from(self.map.code[index]), after, outputs);
        });
        parity
    }

    /// Lets each written strip change the parities, piece by piece. `apply` gets its address, the range of bytes, and the new
    /// bytes.
    fn each_written(
        &self,
        parity: &mut Parities,
        mut apply: impl FnMut(&Code, usize, Range<usize>, &[u8], &mut [Option<&mut [u8]>]),
    ) {
        let code = self.core.stripes.code();
        for (index, strip) in self.part.strips.clone().zip(self.written) {
            let mut start = 0;
            for segment in strip {
                let range = start..start + segment.len();
                start = range.end;
                let mut outputs = outputs(&self.plan.write_parity, parity, &range);
                apply(&code, index, range, segment, &mut outputs[..self.map.parity.len()]);
            }
        }
    }
}

/// Computes the wanted parities into fresh buffers. `data` gives the bytes of a data strip, by address, between two of `cuts`,
/// which begin with 0 and end with the length.
pub(crate) fn generate<'a>(
    core: &'a Core,
    map: &StripeMap,
    cuts: &[usize],
    wanted: &Strips,
    data: impl Fn(usize, Range<usize>) -> &'a [u8],
) -> Parities {
    let len = cuts[cuts.len() - 1];
    let mut parity: Parities = few(wanted.iter().map(|_| core.buffers.take((len / 512) as u64)));
    for cut in cuts.windows(2) {
        let range = cut[0]..cut[1];
        let mut by_code: SmallVec<[&[u8]; 24]> = smallvec![core.buffers.zero_bytes(range.len()); map.code_count];
        for (index, &position) in map.code.iter().enumerate() {
            by_code[usize::from(position)] = data(index, range.clone());
        }
        let mut outputs = outputs(wanted, &mut parity, &range);
        core.stripes.code().generate(&by_code, &mut outputs[..map.parity.len()]);
    }
    parity
}

/// A range of each parity that is computed, in the form that [`Code`] takes: by number.
#[inline]
pub(crate) fn outputs<'a>(
    wanted: &Strips,
    parity: &'a mut Parities,
    range: &Range<usize>,
) -> [Option<&'a mut [u8]>; PARITY_COUNT_MAX] {
    let mut outputs = [const { None }; PARITY_COUNT_MAX];
    for (&index, buffer) in wanted.iter().zip(parity) {
        outputs[index] = Some(&mut buffer[range.clone()]);
    }
    outputs
}

/// Bytes of `segments` that lie within one of them.
fn within(segments: &Segments<Data>, range: Range<usize>) -> &[u8] {
    let mut start = 0;
    for segment in segments {
        if range.start < start + segment.len() {
            return &segment[range.start - start..range.end - start];
        }
        start += segment.len();
    }
    unreachable!("the range lies in the segments");
}

/// Where the segments of any of these strips of `len` bytes begin and end, in order.
fn cuts(strips: &[Segments<Data>], len: usize) -> SmallVec<[usize; 4]> {
    let mut cuts: SmallVec<[usize; 4]> = smallvec![0, len];
    for strip in strips {
        let mut end = 0;
        for segment in strip {
            end += segment.len();
            cuts.extend((end < len).then_some(end));
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Strips in the order of the code. `of` gives each data strip and parity.
pub(crate) fn code_strips<'a>(
    map: &StripeMap,
    zeros: &'a [u8],
    mut of: impl FnMut(Unit) -> Strip<'a>,
) -> SmallVec<[Strip<'a>; 24]> {
    let mut strips: SmallVec<[Strip<'a>; 24]> = (0..map.code_count).map(|_| Strip::Present(zeros)).collect();
    for (index, &position) in map.code.iter().enumerate() {
        strips[usize::from(position)] = of(Unit::Data(index));
    }
    strips.extend((0..map.parity.len()).map(|index| of(Unit::Parity(index))));
    strips
}

/// Recovers the data strips named in `lost` from what was found.
pub(crate) fn recover(core: &Core, map: &StripeMap, found: &Found, lost: &mut [(usize, Buffer)]) {
    let Some((_, first)) = lost.first() else { return };
    let len = first.len();
    let zeros = core.buffers.zero_bytes(len);
    let mut targets: SmallVec<[(usize, Option<&mut [u8]>); 2]> =
        lost.iter_mut().map(|(index, buffer)| (*index, Some(&mut buffer[..]))).collect();
    let mut strips = code_strips(map, zeros, |unit| match found.get(unit) {
        Some(buffer) => Strip::Present(buffer),
        None => {
            let target = targets.iter_mut().find(|(index, _)| unit == Unit::Data(*index));
            target.and_then(|(_, target)| target.take()).map_or(Strip::Absent, Strip::Lost)
        }
    });
    core.stripes.code().recover(&mut strips).expect("the plan read enough strips");
}

/// The parity of all data strips of a stripe, given in address order.
pub(crate) fn computed_parity(core: &Core, map: &StripeMap, data: &[Buffer]) -> Parities {
    let wanted: Strips = (0..map.parity.len()).collect();
    generate(core, map, &[0, data[0].len()], &wanted, |index, range| &data[index][range])
}
