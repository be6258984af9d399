//! The options of `serve` for metrics and alarms.

use super::page;
use crate::toml_line;
use clap::{Args, ValueHint};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use stria_alarm::{AlarmConfig, MailConfig, Messenger};
use stria_health::HealthConfig;
use stria_terminal::{Failure, absolute};

/// The options for the watch over a service.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Alarms and metrics")]
pub struct MonitorOptions {
    /// Serve metrics for Prometheus at http://HOST:PORT/metrics; a port without a host is on the loopback interface. The control
    /// socket always serves them.
    #[arg(long, value_name = "[HOST:]PORT", value_parser = page::address)]
    pub metrics: Option<SocketAddr>,
    /// File with the tables [alarms] (docs/ALARMS.md) and [health] (docs/HEALTH.md). The options below take precedence.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub alarms: Option<PathBuf>,
    /// Start this program for each event, as `mdadm --monitor` does: PROGRAM EVENT ARRAY [MEMBER].
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::FilePath)]
    pub alarm_exec: Option<PathBuf>,
    /// Send alarms to this address, by the program sendmail unless --alarms names a mail server. May be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub alarm_mail: Vec<String>,
    /// Send alarms to this URL, as JSON.
    #[arg(long, value_name = "URL")]
    pub alarm_webhook: Option<String>,
}

/// The needs of [`Monitor::start`](super::Monitor::start): checked, and nothing was sent yet.
pub struct MonitorPlan {
    /// The channels of alarms.
    pub alarms: AlarmConfig,
    /// The channels, ready.
    pub messenger: Messenger,
    /// The address for Prometheus, besides the control socket.
    pub metrics: Option<SocketAddr>,
    /// The thresholds of drives' health.
    pub health: HealthConfig,
}

/// A file with the table.
#[derive(serde::Deserialize)]
struct AlarmFile {
    #[serde(default)]
    alarms: AlarmConfig,
    #[serde(default)]
    health: HealthConfig,
}

impl MonitorOptions {
    /// Reads the file and checks all of it.
    ///
    /// # Errors
    /// When a channel cannot work as it is configured.
    pub fn plan(&self) -> Result<MonitorPlan, Failure> {
        let (mut alarms, health) = self.alarms.as_deref().map(read).transpose()?.unwrap_or_default();
        if let Some(program) = &self.alarm_exec {
            alarms.program = Some(absolute(program));
        }
        if !self.alarm_mail.is_empty() {
            alarms.mail.get_or_insert_with(MailConfig::default).to.clone_from(&self.alarm_mail);
        }
        if let Some(url) = &self.alarm_webhook {
            alarms.webhook = Some(url.clone());
        }
        health.check().map_err(|error| Failure::Usage(format!("[health]: {error}")))?;
        MonitorPlan::of(alarms, self.metrics, health)
    }
}

impl MonitorPlan {
    /// Checks what is configured.
    ///
    /// # Errors
    /// When a channel cannot work as it is configured.
    pub fn of(alarms: AlarmConfig, metrics: Option<SocketAddr>, health: HealthConfig) -> Result<Self, Failure> {
        let messenger = Messenger::start(&alarms).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Self { alarms, messenger, metrics, health })
    }
}

fn read(path: &Path) -> Result<(AlarmConfig, HealthConfig), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    toml::from_str::<AlarmFile>(&text).map(|file| (file.alarms, file.health)).map_err(|error| {
        let line = toml_line::of_error(&text, &error);
        Failure::Usage(format!("{}{line}: {}; see docs/ALARMS.md", path.display(), error.message()))
    })
}
