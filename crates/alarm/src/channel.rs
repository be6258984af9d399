//! A channel for messages: a program, mail, a webhook, the journal, a terminal.

use crate::config::{AlarmConfig, JournalConfig, MailConfig};
use crate::event::{Message, Phase};
use crate::journal::Journal;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue, MIME_VERSION_1_0};
use lettre::transport::smtp::SmtpTransportBuilder;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{SmtpTransport, Transport};
use rustix::fs::OFlags;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};
use stria_block::{shell_word, shown, shown_sentence};
use stria_drive::{NoResult, run_within};
use ureq::Agent;

/// A fault in the configuration of a channel.
#[derive(Debug, thiserror::Error)]
pub enum AlarmError {
    /// A channel cannot work.
    #[error("alarms by {channel}: {reason}")]
    Channel {
        /// Its name.
        channel: &'static str,
        /// The cause, and the remedy.
        reason: String,
    },
    /// The message about a lasting cause would come too often.
    #[error("[alarms] repeat: {} is too often for messages about one cause: name {} or more, or 0s for never",
        humantime::format_duration(*.0), humantime::format_duration(REPEAT_MIN))]
    Repeat(Duration),
}

/// The time that a server may take for one message.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// The time that a program may run. It is ended then, so that the next event finds the channel free.
const PROGRAM_WITHIN: Duration = Duration::from_secs(60);

/// The least time between two messages about a lasting cause.
const REPEAT_MIN: Duration = Duration::from_secs(60);

/// The name of the channel that writes to the journal, which nobody may be reading.
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
    Program(PathBuf),
}

/// The HTTP client for webhooks and the heartbeat.
pub(crate) fn agent() -> Agent {
    Agent::config_builder().timeout_global(Some(ANSWER_WITHIN)).build().new_agent()
}

impl Channel {
    /// The channels of a configuration.
    pub fn all(config: &AlarmConfig) -> Result<Vec<Self>, AlarmError> {
        if !config.repeat.is_zero() && config.repeat < REPEAT_MIN {
            return Err(AlarmError::Repeat(config.repeat));
        }
        let mut channels = Vec::new();
        if let Some(program) = &config.program {
            let reason = |reason: String| AlarmError::Channel { channel: "program", reason };
            if !program.is_absolute() {
                return Err(reason(format!("{} is not an absolute path", program.display())));
            }
            channels.push(Self::Program(program.clone()));
        }
        if let Some(mail) = &config.mail {
            let mail = Mail::new(mail).map_err(|reason| AlarmError::Channel { channel: "mail", reason })?;
            channels.push(Self::Mail(Box::new(mail)));
        }
        if let Some(url) = &config.webhook {
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                let reason = format!("{url} is no URL of http or https");
                return Err(AlarmError::Channel { channel: "webhook", reason });
            }
            channels.push(Self::Webhook { agent: agent(), url: url.clone() });
        }
        if let Some(console) = &config.console {
            if !console.is_absolute() {
                let reason = format!("{} is not an absolute path, such as /dev/console", console.display());
                return Err(AlarmError::Channel { channel: "console", reason });
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

/// A program wrote the mail, so no program should answer it (RFC 3834).
#[derive(Clone, Debug)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".into())
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
                MailBy::Program(program.to_owned())
            }
        };
        Ok(Self { to, from, by })
    }

    fn letter(&self, message: &Message) -> Result<lettre::Message, String> {
        // Without a MIME version the encoding of the text counts for nothing.
        let mut builder =
            lettre::Message::builder().header(MIME_VERSION_1_0).header(ContentType::TEXT_PLAIN).header(AutoSubmitted);
        builder = builder.message_id(None).from(self.from.clone());
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        let subject = shown_sentence(&format!("[stria] {}: {}", host(), message.subject())).to_string();
        builder.subject(subject).body(body(message)).map_err(|error| error.to_string())
    }

    fn send(&self, message: &Message) -> Result<(), String> {
        let mail = self.letter(message)?;
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
            MailBy::Program(program) => send_by_program(program, &mail, PROGRAM_WITHIN),
        }
    }
}

/// Hands a mail to `sendmail`, or to a program that takes its arguments.
fn send_by_program(program: &Path, mail: &lettre::Message, patience: Duration) -> Result<(), String> {
    let smtp = "name a mail server by `smtp` in [alarms.mail]";
    let mut command = Command::new(program);
    // `-i`: a line with only a dot does not end the mail.
    command.arg("-i").args(mail.envelope().from().iter().flat_map(|from| ["-f", from.as_ref()])).arg("--");
    command.args(mail.envelope().to().iter().map(AsRef::<std::ffi::OsStr>::as_ref));
    carry_out(command, &mail.formatted(), patience).map_err(|error| match program.exists() {
        true => format!("{error}; under the daemon's unit it may not write its queue: {smtp}"),
        false => format!("the program {} is missing: install a mail server that has it, or {smtp}", program.display()),
    })
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
    let (text, array) = (shown_sentence(&cause.text), shown(&cause.array));
    let component = cause.component.as_ref().map_or_else(String::new, |path| format!("component  {}\n", shown(path)));
    let since = humantime::format_rfc3339_seconds(message.since);
    format!(
        "{phase}{text}\n\nevent      {}\narray      {array}\n{component}since      {since}\nhost       {}\n\n`stria status {array_word} -v` shows more.\n",
        cause.event.name(),
        host(),
        array_word = shell_word(&array.to_string()),
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
        // These are for people: chats show them as they are.
        "text": shown_sentence(&cause.text).to_string(),
        "subject": shown_sentence(&message.subject()).to_string(),
        "since_ms": since_ms,
        "host": host(),
    });
    // A redirect that is followed asks for the other page by GET: the message would be lost, and count as delivered.
    let request = agent.post(url).config().max_redirects(0).build().content_type("application/json");
    let answer = request.send(body.to_string()).map_err(|error| error.to_string())?;
    let status = answer.status();
    if !status.is_redirection() {
        return Ok(());
    }
    let target = answer.headers().get("location").map(|target| String::from_utf8_lossy(target.as_bytes()).into_owned());
    Err(match target {
        Some(target) => format!("{url} answers {status} and names {}: set webhook to this URL", shown(&target)),
        None => format!("{url} answers {status} without the new URL: set webhook to the one that takes messages"),
    })
}

/// Shows the message on a terminal, whether or not it is in use. Does not wait for a terminal that accepts no output.
fn show(console: &Path, message: &Message) -> io::Result<()> {
    let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32;
    let mut console = OpenOptions::new().append(true).custom_flags(flags).open(console)?;
    // In one write, so that lines of other programs come before or after it.
    let line = format!("stria: {}: {}", message.subject(), message.cause.text);
    console.write_all(format!("\r\n{}\r\n", shown_sentence(&line)).as_bytes())
}

/// Runs `PROGRAM EVENT ARRAY [COMPONENT]`. What mdadm has no argument for is in the environment.
///
/// Scripts print their arguments and `STRIA_TEXT`, so names in them are escaped. `STRIA_ARRAY` and `STRIA_COMPONENT` have the
/// names themselves, for commands.
fn run(program: &Path, message: &Message) -> Result<(), String> {
    let cause = &message.cause;
    let phase = match message.phase {
        Phase::Raised => "raised",
        Phase::Repeated => "repeated",
        Phase::Cleared => "cleared",
    };
    let mut command = Command::new(program);
    let component = cause.component.as_deref();
    command.arg(&*message.event_name()).arg(shown(&cause.array).to_string());
    command.args(component.map(|component| shown_sentence(component).to_string()));
    command.env("STRIA_CAUSE", &*cause.event.name()).env("STRIA_PHASE", phase);
    command.env("STRIA_TEXT", shown_sentence(&cause.text).to_string());
    command.env("STRIA_ARRAY", &cause.array).env("STRIA_COMPONENT", component.unwrap_or_default());
    carry_out(command, &[], PROGRAM_WITHIN)
}

/// Runs a program, and returns why it did not succeed. The text begins with its name, and ends with the first line that it has
/// written.
fn carry_out(command: Command, input: &[u8], patience: Duration) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let told = |words: &[u8]| {
        let text = String::from_utf8_lossy(words);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.map_or_else(String::new, |line| format!(" ({})", shown(line)))
    };
    match run_within(patience, command, input) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}{}", output.status, told(&output.stderr))),
        Err(NoResult::NotStarted(error)) => Err(format!("{program}: {error}")),
        Err(NoResult::Late(words)) => {
            Err(format!("{program} was ended: it ran for over {} s{}", patience.as_secs(), told(&words)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Event};
    use std::io::{BufRead, Read};
    use std::time::SystemTime;

    fn message(phase: Phase) -> Message {
        let cause = Condition {
            event: Event::Fail,
            array: "tank".into(),
            component: Some("/dev/sdc".into()),
            text: "member /dev/sdc failed".into(),
            said: None,
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
        stria_testkit::script(&program, "#!/bin/sh\necho no pager >&2\nexit 7\n");
        let error = run(&program, &message(Phase::Raised)).expect_err("it failed");
        assert!(error.ends_with("exit status: 7 (no pager)"), "{error}");
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

    /// The message became a GET without a body, and counted as delivered.
    #[test]
    fn a_webhook_that_redirects_fails_with_the_url_to_write() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/old", listener.local_addr().expect("it is bound"));
        let answers = std::thread::spawn(move || {
            let mut asked = Vec::new();
            // One message for each answer below; a redirect that is followed would take the place of the next.
            for answer in ["301 Moved\r\nLocation: https://example.org/new", "308 Moved", "200 OK"] {
                let (stream, _) = listener.accept().expect("a client");
                let mut reader = io::BufReader::new(&stream);
                let head: Vec<String> =
                    reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let length =
                    head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
                reader.read_exact(&mut vec![0; length.unwrap_or(0)]).expect("the body");
                asked.push(head[0].clone());
                let text = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                (&stream).write_all(text.as_bytes()).expect("sent");
            }
            asked
        });
        let send = || post(&agent(), &url, &message(Phase::Raised));
        let error = send().expect_err("it moved");
        assert!(error.contains("301") && error.contains("https://example.org/new: set webhook to this URL"), "{error}");
        let error = send().expect_err("it moved");
        assert!(error.contains("308") && error.contains("without the new URL"), "{error}");
        send().expect("it is taken");
        let asked = answers.join().expect("no panic");
        assert!(asked.iter().all(|line| line.starts_with("POST /old")), "{asked:?}");
    }

    /// Names come from drives that anybody may plug in.
    #[test]
    fn names_command_no_terminal_and_forge_no_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let console = folder.path().join("console");
        std::fs::write(&console, "").expect("a file");
        let mut hostile = message(Phase::Raised);
        (hostile.cause.array, hostile.cause.text) = ("ta\x1b[2Jnk\nhost       good".into(), "member\r\n.\r\n\x1b]0;x\x07".into());
        show(&console, &hostile).expect("it is shown");
        let output = std::fs::read_to_string(&console).expect("text");
        assert!(output.starts_with("\r\n") && output.ends_with("\r\n") && output.lines().count() == 2, "{output:?}");
        assert!(!output.contains('\x1b'), "{output:?}");
        let (program, output) = (folder.path().join("hook"), folder.path().join("output"));
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" \"$STRIA_TEXT\" > {0}\nprintf %s \"$STRIA_ARRAY\" > {0}.raw\n",
            output.display()
        );
        stria_testkit::script(&program, &text);
        run(&program, &hostile).expect("it runs");
        let printed = std::fs::read_to_string(&output).expect("it wrote");
        assert_eq!(printed, "Fail\nta\\u{1b}[2Jnk\\nhost       good\n/dev/sdc\nmember\\r\\n.\\r\\n\\u{1b}]0;x\\u{7}\n");
        let raw = std::fs::read_to_string(output.with_extension("raw")).expect("it wrote");
        assert_eq!(raw, hostile.cause.array, "a command needs the name itself");
        let text = body(&hostile);
        assert_eq!(text.lines().count(), body(&message(Phase::Raised)).lines().count(), "{text}");
        assert!(!text.contains(['\x1b', '\r']), "{text:?}");
    }

    #[test]
    fn messages_about_one_cause_come_once_a_minute_at_most() {
        let refused = |seconds| {
            let repeat = Duration::from_secs(seconds);
            Channel::all(&AlarmConfig { repeat, journal: JournalConfig::Off, ..AlarmConfig::default() }).err()
        };
        let error = refused(1).expect("it is refused").to_string();
        assert_eq!(error, "[alarms] repeat: 1s is too often for messages about one cause: name 1m or more, or 0s for never");
        assert!(refused(59).is_some() && refused(60).is_none() && refused(0).is_none());
    }

    /// Before, a `sendmail` that waited held up all later mail for ever.
    #[test]
    fn a_sendmail_that_does_not_end_is_ended_and_the_remedy_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (program, output) = (folder.path().join("sendmail"), folder.path().join("output"));
        let mail =
            lettre::Message::builder().from("root@here".parse().expect("an address")).to("a@b".parse().expect("an address"));
        let mail = mail.body("text\n".to_owned()).expect("a mail");
        stria_testkit::script(&program, &format!("#!/bin/sh\n(echo \"$@\"; cat) > {}\n", output.display()));
        send_by_program(&program, &mail, Duration::from_secs(60)).expect("it is taken");
        let sent = std::fs::read_to_string(&output).expect("it wrote");
        assert!(sent.starts_with("-i -f root@here -- a@b\n") && sent.ends_with("text\r\n"), "{sent:?}");
        stria_testkit::script(&program, "#!/bin/sh\necho 'postdrop: warning: no permission' >&2\nexec sleep 1000\n");
        let error = send_by_program(&program, &mail, Duration::from_millis(300)).expect_err("it was ended");
        assert!(
            error.contains("was ended")
                && error.contains("(postdrop: warning: no permission)")
                && error.contains("`smtp` in [alarms.mail]"),
            "{error}"
        );
        let error = send_by_program(&folder.path().join("none"), &mail, Duration::from_secs(60)).expect_err("it is not there");
        assert!(error.contains("is missing: install a mail server"), "{error}");
    }

    /// Before, the mail had no MIME version: some programs showed "t=C3=A4nk".
    #[test]
    fn a_mail_says_how_its_text_is_encoded_and_that_a_program_wrote_it() {
        let mail = Mail::new(&MailConfig { to: vec!["a@b.example".into()], ..MailConfig::default() }).expect("it is valid");
        let mut message = message(Phase::Raised);
        message.cause.array = "tänk".into();
        let text = String::from_utf8(mail.letter(&message).expect("a mail").formatted()).expect("ASCII");
        let (head, text) = text.split_once("\r\n\r\n").expect("a head");
        let wanted = [
            "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=utf-8",
            "Content-Transfer-Encoding: quoted-printable",
            "Auto-Submitted: auto-generated",
        ];
        wanted.iter().for_each(|line| assert!(head.lines().any(|found| found == *line), "{line}: {head}"));
        assert!(head.contains("\r\nMessage-ID: <") && head.is_ascii() && text.contains("t=C3=A4nk"), "{head}\n{text}");
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
        assert!(refused(AlarmConfig { console: Some("tty1".into()), ..AlarmConfig::default() }).contains("not an absolute path"));
        assert!(refused(AlarmConfig { program: Some("hook".into()), ..AlarmConfig::default() }).contains("not an absolute path"));
    }
}
