//! The layout of each stripe over the slots, and the code of its parity.

use crate::geometry::Divisor;
use crate::{Geometry, StripeMap};
use std::cell::Cell;
use stria_parity::Code;

/// The maps of an array's stripes, which repeat.
pub(crate) struct Stripes {
    maps: Vec<StripeMap>,
    period: Divisor,
    code: Cell<Option<Code>>,
}

impl Stripes {
    pub fn new(geometry: &Geometry) -> Self {
        let period = geometry.stripe_map_period();
        let maps: Vec<StripeMap> = (0..period).map(|stripe| geometry.stripe_map(stripe)).collect();
        let code = maps.first().map(|map| Code::new(map.code_count, geometry.level().parity_count()));
        Self { maps, period: Divisor::new(period.max(1)), code: Cell::new(code) }
    }

    #[inline]
    pub fn map(&self, stripe: u64) -> &StripeMap {
        &self.maps[self.period.divide(stripe).1 as usize]
    }

    /// The parity code.
    ///
    /// # Panics
    /// On a level without parity.
    #[inline]
    pub fn code(&self) -> Code {
        self.code.get().expect("a parity level")
    }

    /// No parity is computed from now on, and all of it agrees.
    pub fn compute_nothing(&self) {
        self.code.set(self.code.get().map(Code::without_bytes));
    }
}
