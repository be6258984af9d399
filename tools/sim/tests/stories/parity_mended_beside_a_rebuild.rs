//! The bug: a write that found parity unreadable computed it again from all data strips, including a strip that a rebuild had not
//! filled yet.

use super::{tell, write};
use stria_array::Level;
use stria_sim::Step;

const STRIP: u64 = 32;

/// For a stripe in which a blank drive in slot 2 has data: the index of a parity member among the in-sync members, and a data
/// strip whose successor in the stripe is not on the blank drive.
const PLACES: [(u64, u64, u64); 6] = [(0, 3, 1), (0, 0, 1), (1, 2, 0), (1, 3, 0), (4, 0, 1), (4, 1, 1)];

#[test]
fn parity_is_mended_from_what_is_filled() {
    let stripes = |setup: &mut stria_sim::setup::Setup| {
        setup.strip_sectors = STRIP;
        setup.drives.iter_mut().for_each(|drive| drive.sectors = 2048 + 5 * STRIP);
    };
    let tally = tell(Level::Raid6, 5, stripes, &|seed| {
        let (stripe, parity, strip) = PLACES[seed as usize % PLACES.len()];
        let spoil = |row| Step::Spoil { drive: parity, at: STRIP * stripe + row, sectors: 4 };
        let mut steps: Vec<Step> = (0..5).map(|stripe| write(3 * STRIP * stripe, 3 * STRIP)).collect();
        steps.extend([Step::Drain, Step::Flush, Step::Drain, Step::Fail(2), Step::Hold(true), Step::AddSpare(1)]);
        // The write crosses the end of a strip. It reads and writes the parity of its first rows; it finds that the rows between
        // are unreadable only when it corrects.
        steps.extend([spoil(seed % 4), spoil(8 + seed % 8), write(STRIP * (3 * stripe + strip + 1) - 4, 8), Step::Drain]);
        // A drive that corrects a sector could lose that in a power cut until it is flushed, and no other member is failed before.
        steps.extend([Step::Pause(50_000_000), Step::Flush, Step::Drain, Step::Fail(parity + 1)]);
        steps.push(Step::Read { at: 0, sectors: 15 * STRIP });
        steps
    });
    assert!(tally.met["unreadable sectors"] == 120 && tally.met["read corrected"] >= 55, "{tally:?}");
    assert!(tally.met["fail"] >= 115, "mended before the next member is lost: {tally:?}");
}
