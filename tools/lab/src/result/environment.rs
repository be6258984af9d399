//! The machine of a measurement.

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// `Linux 6.1.0-18-amd64`.
    pub kernel: String,
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub os: String,
    /// Model of the CPU.
    pub cpu: String,
    /// CPUs that may be used.
    pub cpu_count: u32,
    /// Frequency governor, if there is one.
    pub cpu_governor: String,
    /// Memory.
    pub memory_bytes: u64,
    /// Load average over a minute before the run.
    pub load_average: f64,
    /// CPU time that other programs used just before the run, in percent of all CPUs: background load.
    pub busy_percent: f64,
    /// I/O of other programs just before the run, bytes per second over all block devices.
    pub background_bytes_per_s: f64,
    /// Part of ten seconds in which a task waited for a processor (`/proc/pressure/cpu`, some), in percent.
    #[serde(default)]
    pub cpu_pressure_percent: f64,
    /// The same for storage (`/proc/pressure/io`).
    #[serde(default)]
    pub io_pressure_percent: f64,
    /// CPU that the host of this virtual machine gave to others just before the run, in percent of all CPUs.
    #[serde(default)]
    pub steal_percent: f64,
    /// Sensors: name, degrees Celsius.
    pub temperatures: Vec<(String, f64)>,
    /// Virtual machine: what systemd or DMI call it; empty on bare metal.
    pub virtualization: String,
}
