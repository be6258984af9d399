//! A scrub that runs to find a silent fault.

/// The result of a scrub.
pub struct Scrubbed {
    /// Sectors with a mismatch.
    pub mismatch_sectors: u64,
    /// The drives that it names.
    pub named: Vec<Option<usize>>,
}

/// How far it is.
#[derive(Default)]
pub enum Examination {
    /// None runs.
    #[default]
    None,
    /// It runs.
    Runs,
    /// It has ended.
    Ended(Scrubbed),
}

impl Examination {
    /// True while one runs, or its result was not taken.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// A scrub has ended. Returns its result if it did not run to find a silent fault.
    pub fn end(&mut self, scrubbed: Scrubbed) -> Option<Scrubbed> {
        if !self.is_open() {
            return Some(scrubbed);
        }
        *self = Self::Ended(scrubbed);
        None
    }

    /// The result, once.
    pub fn take(&mut self) -> Option<Scrubbed> {
        match std::mem::take(self) {
            Self::Ended(scrubbed) => Some(scrubbed),
            open => {
                *self = open;
                None
            }
        }
    }
}
