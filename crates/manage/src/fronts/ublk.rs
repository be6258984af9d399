//! How arrays become block devices of this machine (`serve --ublk`).

use clap::ValueEnum;
use serde::Deserialize;
use std::path::PathBuf;
use stria_front::ublk::{Copier, UblkOptions};

/// The folder with a note for each device. Devices are root's, so it is root's folder whichever way the sockets are named.
pub fn notes() -> PathBuf {
    "/run/stria".into()
}

/// The side that copies data of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UblkCopy {
    /// Stria.
    #[default]
    Server,
    /// The kernel's driver.
    Driver,
}

impl From<UblkCopy> for Copier {
    fn from(side: UblkCopy) -> Self {
        match side {
            UblkCopy::Server => Self::Server,
            UblkCopy::Driver => Self::Driver,
        }
    }
}

/// The block device that an array becomes.
#[derive(Clone, Copy, Debug)]
pub struct BlockSpec {
    /// Its number; `None`: any.
    pub id: Option<u32>,
    /// The side that copies data.
    pub copier: Copier,
}

impl BlockSpec {
    /// How an array on so many lanes becomes this device.
    pub fn options(self, lane_count: usize) -> UblkOptions {
        let queues = u16::try_from(lane_count).unwrap_or(u16::MAX);
        UblkOptions { id: self.id, queues, copier: self.copier, notes: notes() }
    }
}
