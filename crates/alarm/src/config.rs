//! The table `[alarms]` of the configuration: the channels of alarms (docs/ALARMS.md).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The table. Without any channel, alarms are only logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AlarmConfig {
    /// A program that is started for each event as `PROGRAM EVENT ARRAY [COMPONENT]`, as `mdadm --monitor --program` does.
    pub program: Option<PathBuf>,
    /// E-mail.
    pub mail: Option<MailConfig>,
    /// A URL to which each alarm is sent by POST, as JSON.
    pub webhook: Option<String>,
    /// The journal of systemd.
    pub journal: JournalConfig,
    /// A terminal that shows alarms, such as `/dev/console`.
    pub console: Option<PathBuf>,
    /// The time after which the message about a lasting cause is repeated: a minute or more; 0: never.
    #[serde(with = "humantime_serde")]
    pub repeat: Duration,
    /// After so many per cent of a rebuild, resync or scrub its progress is an event; 0: never.
    pub rebuild_step: u8,
    /// The number of spares that an array should have, by its name.
    pub spares: BTreeMap<String, usize>,
    /// The heartbeat: a service elsewhere raises the alarm when it stops.
    pub heartbeat: Option<HeartbeatConfig>,
}

impl Default for AlarmConfig {
    fn default() -> Self {
        Self {
            program: None,
            mail: None,
            webhook: None,
            journal: JournalConfig::default(),
            console: None,
            repeat: Duration::from_secs(24 * 3600),
            rebuild_step: 20,
            spares: BTreeMap::new(),
            heartbeat: None,
        }
    }
}

impl AlarmConfig {
    /// True if it has the same channels as another table.
    pub fn has_channels_of(&self, other: &Self) -> bool {
        let channels = |config: &Self| {
            let Self { program, mail, webhook, journal, console, .. } = config.clone();
            (program, mail, webhook, journal, console)
        };
        channels(self) == channels(other)
    }
}

/// The channel that sends mail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MailConfig {
    /// The addresses of the recipients.
    pub to: Vec<String>,
    /// The address of the sender; `root@HOST` if not given.
    pub from: Option<String>,
    /// The mail server: `smtp://HOST:PORT`, `smtp://HOST:PORT?tls=required` or `smtps://HOST`, with `USER:PASSWORD@` before the
    /// host if it wants that. Without it the program `sendmail` sends.
    pub smtp: Option<String>,
    /// A file whose first line is the password of the user in `smtp`, so that the configuration may be read by all.
    pub smtp_password_file: Option<PathBuf>,
    /// The program that sends without a mail server; `/usr/sbin/sendmail` if not given.
    pub sendmail: Option<PathBuf>,
}

/// Whether alarms are entries of the journal, with fields of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JournalConfig {
    /// They are if the process runs under systemd, where its log goes to the journal as well.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Alarms go to the journal at this socket.
    Socket(PathBuf),
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatConfig {
    /// A URL that is asked for (GET) while every array answers. The service behind it raises the alarm when that stops.
    pub url: String,
    /// The time between two signs.
    #[serde(with = "humantime_serde", default = "five_minutes")]
    pub every: Duration,
}

fn five_minutes() -> Duration {
    Duration::from_secs(300)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_understood() {
        let text = include_str!("../../../docs/ALARMS.md");
        let example = text.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
        let table: toml::Table = toml::from_str(example).expect("TOML");
        let config: AlarmConfig = table["alarms"].clone().try_into().expect("a configuration");
        assert_eq!(config.mail.as_ref().map(|mail| &mail.to[..]), Some(&["storage@example.org".to_owned()][..]));
        assert_eq!((config.repeat, config.spares["tank"]), (Duration::from_secs(24 * 3600), 1));
        assert_eq!(config.heartbeat.as_ref().map(|beat| beat.every), Some(Duration::from_secs(300)));
        assert!(config.program.is_some() && config.webhook.is_some());
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        assert!(toml::from_str::<AlarmConfig>("webhok = \"http://x/\"").is_err());
        assert!(toml::from_str::<AlarmConfig>("repeat = \"soon\"").is_err());
        assert_eq!(toml::from_str::<AlarmConfig>("").expect("all has a default"), AlarmConfig::default());
    }
}
