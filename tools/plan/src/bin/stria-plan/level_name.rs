//! Levels as the command line names them.

use clap::ValueEnum;
use stria_plan::array::Level;

/// A level by its number.
#[derive(Clone, Copy, ValueEnum)]
pub enum LevelName {
    #[value(name = "0")]
    Raid0,
    #[value(name = "1")]
    Raid1,
    #[value(name = "10")]
    Raid10,
    #[value(name = "5")]
    Raid5,
    #[value(name = "6")]
    Raid6,
    #[value(name = "50")]
    Raid50,
    #[value(name = "60")]
    Raid60,
}

impl LevelName {
    /// The level, of so many spans if it has some.
    pub fn level(self, spans: usize) -> Level {
        match self {
            Self::Raid0 => Level::Raid0,
            Self::Raid1 => Level::Raid1,
            Self::Raid10 => Level::Raid10,
            Self::Raid5 => Level::Raid5 { spans: 1 },
            Self::Raid6 => Level::Raid6 { spans: 1 },
            Self::Raid50 => Level::Raid5 { spans },
            Self::Raid60 => Level::Raid6 { spans },
        }
    }
}
