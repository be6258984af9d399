//! A channel for messages: a program, mail, a webhook, the journal, a terminal.

use crate::config::{AlarmConfig, JournalConfig, MailConfig};
use crate::event::{Message, Phase};
use crate::journal::Journal;
use lettre::message::{Mailbox, header::ContentType};
use lettre::transport::smtp::SmtpTransportBuilder;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{SendmailTransport, SmtpTransport, Transport};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, UNIX_EPOCH};
use ureq::Agent;

/// A fault in the configuration of a channel.
#[derive(Debug, thiserror::Error)]
#[error("alarms by {channel}: {reason}")]
pub struct AlarmError {
    channel: &'static str,
    reason: String,
}

/// The time that a server may take for one message.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// The time that a program may run. It is ended then, so that the next event finds the channel free.
const PROGRAM_WITHIN: Duration = Duration::from_secs(60);
/// The pause between two checks whether a program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The name of the journal's channel. Its messages reach only people who read the journal.
pub const JOURNAL: &str = "journal";

/// A channel.
pub(crate) enum Channel {
    Program(PathBuf),
    Mail(Box<Mail>),
    Webhook { agent: Agent, url: String },
    Journal(Journal),
    Console(PathBuf),
}

/// Mail, ready to be sent.
pub(crate) struct Mail {
    to: Vec<Mailbox>,
    from: Mailbox,
    by: MailBy,
}

enum MailBy {
    Server(SmtpTransport),
    /// The password is read when the first mail is sent: a file that is not there yet must not keep anything else from starting.
    Login {
        url: String,
        user: String,
        file: PathBuf,
        server: OnceLock<SmtpTransport>,
    },
    Program(PathBuf, SendmailTransport),
}

/// The HTTP client for webhooks and the heartbeat.
pub(crate) fn agent() -> Agent {
    Agent::config_builder().timeout_global(Some(ANSWER_WITHIN)).build().new_agent()
}

impl Channel {
    /// The channels of a configuration.
    pub fn all(config: &AlarmConfig) -> Result<Vec<Self>, AlarmError> {
        let mut channels = Vec::new();
        if let Some(program) = &config.program {
            let reason = |reason: String| AlarmError { channel: "program", reason };
            if !program.is_absolute() {
                return Err(reason(format!("{} is not an absolute path", program.display())));
            }
            channels.push(Self::Program(program.clone()));
        }
        if let Some(mail) = &config.mail {
            let mail = Mail::new(mail).map_err(|reason| AlarmError { channel: "mail", reason })?;
            channels.push(Self::Mail(Box::new(mail)));
        }
        if let Some(url) = &config.webhook {
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                let reason = format!("{url} is no URL of http or https");
                return Err(AlarmError { channel: "webhook", reason });
            }
            channels.push(Self::Webhook { agent: agent(), url: url.clone() });
        }
        if let Some(console) = &config.console {
            if !console.is_absolute() {
                let reason = format!("{} is not an absolute path, such as /dev/console", console.display());
                return Err(AlarmError { channel: "console", reason });
            }
            channels.push(Self::Console(console.clone()));
        }
        let socket = match &config.journal {
            JournalConfig::Off => None,
            JournalConfig::Socket(path) => Some(path.as_path()),
            JournalConfig::Auto => std::env::var_os("JOURNAL_STREAM").map(|_| Path::new(Journal::USUAL)),
        };
        channels.extend(socket.map(|path| Self::Journal(Journal::at(path))));
        Ok(channels)
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Program(_) => "program",
            Self::Mail(_) => "mail",
            Self::Webhook { .. } => "webhook",
            Self::Journal(_) => JOURNAL,
            Self::Console(_) => "console",
        }
    }

    /// True if people read the channel. Such a channel carries only events that need action.
    pub fn is_for_people(&self) -> bool {
        matches!(self, Self::Mail(_) | Self::Webhook { .. } | Self::Console(_))
    }

    /// True if a message that could not be sent may succeed later. A program is not started twice for one event.
    pub fn may_try_again(&self) -> bool {
        matches!(self, Self::Mail(_) | Self::Webhook { .. })
    }

    /// Sends the message, and returns once that is done.
    pub fn send(&self, message: &Message) -> Result<(), String> {
        match self {
            Self::Program(program) => run(program, message),
            Self::Mail(mail) => mail.send(message),
            Self::Webhook { agent, url } => post(agent, url, message),
            Self::Journal(journal) => journal.send(message).map_err(|error| error.to_string()),
            Self::Console(console) => show(console, message).map_err(|error| format!("{}: {error}", console.display())),
        }
    }
}

impl Mail {
    fn new(config: &MailConfig) -> Result<Self, String> {
        let address = |text: &str| text.parse::<Mailbox>().map_err(|error| format!("{text} is not an address ({error})"));
        let to = config.to.iter().map(|to| address(to)).collect::<Result<Vec<_>, _>>()?;
        if to.is_empty() {
            return Err("no recipient: name an address in `to`".into());
        }
        let from = match &config.from {
            Some(from) => address(from)?,
            None => address(&format!("root@{}", host()))?,
        };
        let by = match &config.smtp {
            Some(url) => {
                let anybody = server(url)?.build();
                match &config.smtp_password_file {
                    None => MailBy::Server(anybody),
                    Some(file) => {
                        let user = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).map(|(user, _)| user);
                        let user = user.ok_or("a password without a user: write smtp://USER@HOST")?;
                        let user = user.split(':').next().unwrap_or(user).to_owned();
                        MailBy::Login { url: url.clone(), user, file: file.clone(), server: OnceLock::new() }
                    }
                }
            }
            None => {
                let program = config.sendmail.as_deref().unwrap_or(Path::new("/usr/sbin/sendmail"));
                MailBy::Program(program.to_owned(), SendmailTransport::new_with_command(program))
            }
        };
        Ok(Self { to, from, by })
    }

    fn send(&self, message: &Message) -> Result<(), String> {
        let mut builder = lettre::Message::builder().from(self.from.clone()).header(ContentType::TEXT_PLAIN);
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        let subject = format!("[stria] {}: {}", host(), message.subject());
        let mail = builder.subject(subject).body(body(message)).map_err(|error| error.to_string())?;
        match &self.by {
            MailBy::Server(server) => server.send(&mail).map(|_| ()).map_err(|error| error.to_string()),
            MailBy::Login { url, user, file, server } => {
                let server = match server.get() {
                    Some(server) => server,
                    None => {
                        let made = login(url, user, file)?;
                        server.get_or_init(|| made)
                    }
                };
                server.send(&mail).map(|_| ()).map_err(|error| error.to_string())
            }
            MailBy::Program(path, program) => program.send(&mail).map_err(|error| match path.exists() {
                true => format!("{}: {error}", path.display()),
                false => format!(
                    "the program {} is missing: install a mail server that has it, or name one by `smtp` in [alarms.mail]",
                    path.display()
                ),
            }),
        }
    }
}

fn server(url: &str) -> Result<SmtpTransportBuilder, String> {
    let builder = SmtpTransport::from_url(url).map_err(|error| format!("the mail server's URL: {error}"))?;
    Ok(builder.timeout(Some(ANSWER_WITHIN)))
}

fn login(url: &str, user: &str, file: &Path) -> Result<SmtpTransport, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("the mail server's password in {} cannot be read ({error}): write it there", file.display()))?;
    let password = text.lines().next().unwrap_or_default().to_owned();
    Ok(server(url)?.credentials(Credentials::new(user.to_owned(), password)).build())
}

/// This machine's name.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".into() } else { name }
}

/// The text of a mail.
fn body(message: &Message) -> String {
    let phase = match message.phase {
        Phase::Raised => "",
        Phase::Repeated => "This still lasts.\n\n",
        Phase::Cleared => "This is over. It was:\n\n",
    };
    let cause = &message.cause;
    let component = cause.component.as_ref().map_or_else(String::new, |component| format!("component  {component}\n"));
    let since = humantime::format_rfc3339_seconds(message.since);
    format!(
        "{phase}{}\n\nevent      {}\narray      {}\n{component}since      {since}\nhost       {}\n\n`stria status {} -v` shows more.\n",
        cause.text,
        cause.event.name(),
        cause.array,
        host(),
        cause.array
    )
}

fn post(agent: &Agent, url: &str, message: &Message) -> Result<(), String> {
    let cause = &message.cause;
    let since_ms = message.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let body = json!({
        "phase": message.phase,
        "event": cause.event.name(),
        "severity": cause.event.severity(),
        "array": cause.array,
        "component": cause.component,
        "text": cause.text,
        "subject": message.subject(),
        "since_ms": since_ms,
        "host": host(),
    });
    let request = agent.post(url).content_type("application/json");
    request.send(body.to_string()).map(|_| ()).map_err(|error| error.to_string())
}

/// Shows the message on a terminal, whether or not it is in use. Does not wait for a terminal that accepts no output.
fn show(console: &Path, message: &Message) -> io::Result<()> {
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32;
    let mut console = OpenOptions::new().append(true).custom_flags(flags).open(console)?;
    // In one write, so that lines of other programs come before or after it.
    console.write_all(format!("\r\nstria: {}: {}\r\n", message.subject(), message.cause.text).as_bytes())
}

/// Runs `PROGRAM EVENT ARRAY [COMPONENT]`. What mdadm has no argument for is in the environment.
fn run(program: &Path, message: &Message) -> Result<(), String> {
    let cause = &message.cause;
    let phase = match message.phase {
        Phase::Raised => "raised",
        Phase::Repeated => "repeated",
        Phase::Cleared => "cleared",
    };
    let mut command = Command::new(program);
    command.arg(&*message.event_name()).arg(&cause.array).args(&cause.component);
    command.env("STRIA_CAUSE", &*cause.event.name()).env("STRIA_PHASE", phase).env("STRIA_TEXT", &cause.text);
    // A group of its own, so that its children end with it.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let cannot = |error: io::Error| format!("{}: {error}", program.display());
    let mut child = command.spawn().map_err(cannot)?;
    let end = Instant::now() + PROGRAM_WITHIN;
    loop {
        match child.try_wait().map_err(cannot)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{}: {status}", program.display())),
            None if Instant::now() < end => std::thread::sleep(LOOK_EVERY),
            None => {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _ = child.wait();
                return Err(format!("{} was ended: it ran for over {} s", program.display(), PROGRAM_WITHIN.as_secs()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Event};
    use std::time::SystemTime;

    fn message(phase: Phase) -> Message {
        let cause = Condition {
            event: Event::Fail,
            array: "tank".into(),
            component: Some("/dev/sdc".into()),
            text: "member /dev/sdc failed".into(),
        };
        Message { phase, cause, since: SystemTime::now() }
    }

    /// A script written for mdadm finds its three arguments.
    #[test]
    fn a_program_is_called_as_mdadm_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let (program, output) = (folder.path().join("hook"), folder.path().join("output"));
        let text = format!("#!/bin/sh\necho \"$# $1 $2 $3 $STRIA_CAUSE $STRIA_PHASE\" >> {}\n", output.display());
        stria_testkit::script(&program, &text);
        run(&program, &message(Phase::Raised)).expect("it runs");
        run(&program, &message(Phase::Cleared)).expect("it runs");
        let mut without = message(Phase::Raised);
        without.cause.component = None;
        run(&program, &without).expect("it runs");
        let lines = std::fs::read_to_string(&output).expect("it wrote");
        let expected = "3 Fail tank /dev/sdc Fail raised\n3 Cleared tank /dev/sdc Fail cleared\n2 Fail tank  Fail raised\n";
        assert_eq!(lines, expected);
        stria_testkit::script(&program, "#!/bin/sh\nexit 7\n");
        let error = run(&program, &message(Phase::Raised)).expect_err("it failed");
        assert!(error.contains("exit status: 7"), "{error}");
        let error = run(&folder.path().join("none"), &message(Phase::Raised)).expect_err("it is not there");
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_terminal_shows_what_happened_and_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let console = folder.path().join("console");
        assert!(show(&console, &message(Phase::Raised)).is_err(), "it is not made where there is none");
        std::fs::write(&console, "login: ").expect("a file");
        show(&console, &message(Phase::Raised)).expect("it is shown");
        show(&console, &message(Phase::Cleared)).expect("it is shown");
        let output = std::fs::read_to_string(&console).expect("text");
        let lines: Vec<&str> = output.split("\r\n").filter(|line| !line.is_empty()).collect();
        assert_eq!((lines.len(), lines[0]), (3, "login: "), "{output}");
        assert!(lines[1].ends_with(": member /dev/sdc failed") && lines[2].starts_with("stria: over: "), "{output}");
    }

    #[test]
    fn what_cannot_work_is_refused_at_the_start() {
        let refused = |config: AlarmConfig| Channel::all(&config).err().map(|error| error.to_string()).unwrap_or_default();
        let mail = |mail: MailConfig| refused(AlarmConfig { mail: Some(mail), ..AlarmConfig::default() });
        assert!(mail(MailConfig::default()).contains("no recipient"));
        assert!(
            mail(MailConfig { to: vec!["no address".into()], ..MailConfig::default() }).contains("no address is not an address")
        );
        let to = || vec!["root@localhost".to_owned()];
        assert!(mail(MailConfig { to: to(), smtp: Some("mailhost".into()), ..MailConfig::default() }).contains("URL"));
        assert!(refused(AlarmConfig { webhook: Some("example.org".into()), ..AlarmConfig::default() }).contains("no URL"));
        assert!(refused(AlarmConfig { console: Some("tty1".into()), ..AlarmConfig::default() }).contains("no absolute path"));
        assert!(refused(AlarmConfig { program: Some("hook".into()), ..AlarmConfig::default() }).contains("no absolute path"));
    }
}
