//! RAID 4, 5 and 6: which member holds which strip of a stripe.
//!
//! Stripe `s` takes rows `s * strip .. (s + 1) * strip` of every member. After `drivers/md/raid5.c`
//! (`raid5_compute_sector`, `raid6_d0`), whose names for the layouts are kept.

use super::Geometry;
use crate::{Layout, ParityLayout};
use smallvec::SmallVec;

/// The strips of one stripe.
///
/// `code` order is the order in which Q counts the data strips: position `i` has coefficient g^i. It is not
/// always the order of the addresses. SNIA DDF counts the members of P and Q too, as strips of zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeMap {
    /// Slot of each data strip, by address.
    pub data: SmallVec<[u16; 32]>,
    /// Position of each data strip in the code, by address.
    pub code: SmallVec<[u16; 32]>,
    /// Slots of P and, in RAID 6, Q.
    pub parity: SmallVec<[u16; 2]>,
    /// Data positions of the code, those that are always zero included.
    pub code_count: usize,
}

/// True if Q stays on the last member, and P rotates over the others.
fn rotates_beside_q(layout: ParityLayout) -> bool {
    use ParityLayout::*;
    match layout {
        LeftAsymmetric6 | RightAsymmetric6 | LeftSymmetric6 | RightSymmetric6 => true,
        LeftAsymmetric | RightAsymmetric | LeftSymmetric | RightSymmetric | ParityFirst | ParityLast | DdfZeroRestart
        | DdfNRestart | DdfNContinue | ParityFirst6 => false,
    }
}

impl Geometry {
    /// Rows of one stripe on each member, which is the strip length.
    pub fn stripe_count(&self) -> u64 {
        self.member_sectors[0] / self.strip_sectors
    }

    /// Places repeat after this many stripes; 0 for levels without parity.
    pub fn stripe_map_period(&self) -> u64 {
        match self.layout {
            _ if self.level.parity_count() == 0 => 0,
            Layout::Parity(layout) if rotates_beside_q(layout) => self.slot_count() as u64 - 1,
            Layout::Plain | Layout::Zones(_) | Layout::Parity(_) | Layout::Copies(_) => self.slot_count() as u64,
        }
    }

    /// The places of stripe `stripe` of a parity level.
    pub fn stripe_map(&self, stripe: u64) -> StripeMap {
        use ParityLayout::*;
        let n = self.slot_count();
        let d = self.data_count();
        let turn = |period: usize| (stripe % period as u64) as usize;
        let layout = match self.layout {
            Layout::Parity(layout) => layout,
            Layout::Plain | Layout::Zones(_) | Layout::Copies(_) => ParityLast,
        };
        let parity_count = self.level.parity_count();
        // P of the rotating layouts, left and right, over the members that rotate.
        let period = if rotates_beside_q(layout) { n - 1 } else { n };
        let left = period - 1 - turn(period);
        let right = turn(period);
        let p = match layout {
            LeftAsymmetric | LeftSymmetric | DdfNContinue | LeftAsymmetric6 | LeftSymmetric6 => left,
            RightAsymmetric | RightSymmetric | DdfZeroRestart | RightAsymmetric6 | RightSymmetric6 => right,
            DdfNRestart => n - 1 - ((stripe + 1) % n as u64) as usize,
            ParityFirst | ParityFirst6 => 0,
            ParityLast => d,
        };
        let q = match layout {
            LeftAsymmetric6 | RightAsymmetric6 | LeftSymmetric6 | RightSymmetric6 | ParityFirst6 => n - 1,
            DdfNContinue => (p + n - 1) % n,
            LeftAsymmetric | RightAsymmetric | LeftSymmetric | RightSymmetric | ParityFirst | ParityLast | DdfZeroRestart
            | DdfNRestart => (p + 1) % n,
        };
        let parity: SmallVec<[u16; 2]> = [p as u16, q as u16].into_iter().take(parity_count).collect();
        assert_eq!(parity.len(), parity_count, "layouts place P and Q");
        let is_data = |slot: &usize| !parity.contains(&(*slot as u16));
        // The member where data starts, going round.
        let first = match layout {
            LeftSymmetric | RightSymmetric => p + parity_count,
            DdfNContinue | LeftSymmetric6 | RightSymmetric6 => p + 1,
            LeftAsymmetric | RightAsymmetric | ParityFirst | ParityLast | DdfZeroRestart | DdfNRestart | LeftAsymmetric6
            | RightAsymmetric6 | ParityFirst6 => 0,
        };
        let data: SmallVec<[u16; 32]> = match layout {
            LeftSymmetric6 | RightSymmetric6 => {
                (0..n - 1).map(|i| (first + i) % (n - 1)).filter(is_data).map(|slot| slot as u16).collect()
            }
            _ => (0..n).map(|i| (first + i) % n).filter(is_data).map(|slot| slot as u16).collect(),
        };
        let counts_parity = self.layout.counts_parity();
        let code = if counts_parity {
            data.clone()
        } else {
            // Q counts from the member after it.
            let start = if parity_count < 2 || q == n - 1 { 0 } else { q + 1 };
            let mut position = vec![0_u16; n];
            for (count, slot) in (0..n).map(|i| (start + i) % n).filter(is_data).enumerate() {
                position[slot] = count as u16;
            }
            data.iter().map(|&slot| position[slot as usize]).collect()
        };
        StripeMap { data, code, parity, code_count: if counts_parity { n } else { d } }
    }
}
