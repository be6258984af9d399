//! The origin of figures, without which they mean nothing.

use serde::Serialize;
use std::time::SystemTime;

/// The machine and the program.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// When, UTC.
    pub date: String,
    /// Stria's version.
    pub stria: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model as the kernel names it.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpu_count: usize,
    /// RAM.
    pub memory_gib: f64,
    /// A description of the members.
    pub members: String,
}

impl Environment {
    /// This machine now. `members`: a description, such as "image files on ext4, direct I/O".
    pub fn here(members: impl Into<String>) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_string())
        };
        let unknown = || "unknown".to_string();
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal");
        let memory_kib = memory_kib.and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok());
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_string();
        Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            stria: env!("CARGO_PKG_VERSION").to_string(),
            kernel: if kernel.is_empty() { unknown() } else { kernel },
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib.map_or(0.0, |kib| kib / f64::from(1 << 20)),
            members: members.into(),
        }
    }
}
