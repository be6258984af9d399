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
    #[value(name = "4")]
    Raid4,
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
    /// The level, with `--spans` if that was given.
    ///
    /// # Errors
    /// A sentence, if the level has no spans, or needs more of them.
    pub fn level(self, spans: Option<usize>) -> Result<Level, String> {
        let nested = |simple: &str| match spans.unwrap_or(2) {
            spans @ (0 | 1) => Err(format!("--spans is {spans}: use 2 or more, or --level {simple}")),
            spans => Ok(spans),
        };
        let level = match self {
            Self::Raid50 => return Ok(Level::Raid5 { spans: nested("5")? }),
            Self::Raid60 => return Ok(Level::Raid6 { spans: nested("6")? }),
            Self::Raid0 => Level::Raid0,
            Self::Raid1 => Level::Raid1,
            Self::Raid10 => Level::Raid10,
            Self::Raid4 => Level::Raid4,
            Self::Raid5 => Level::Raid5 { spans: 1 },
            Self::Raid6 => Level::Raid6 { spans: 1 },
        };
        match spans {
            None => Ok(level),
            Some(_) => Err(format!("{level} has no spans: leave out --spans, or use --level 50 or 60")),
        }
    }
}
