//! The signals that end a process that serves arrays, or have it read its configuration again.

use crate::service::Service;
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stria_front::SocketFile;
use stria_terminal::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// `timeout` and some supervisors signal the process and then its group: a second signal within this time is the same request.
const SAME_WISH: Duration = Duration::from_millis(500);

/// The requests that signals make.
pub struct Wishes {
    signals: Signals,
    /// When the first one came.
    since: Option<Instant>,
}

/// One of them.
pub enum Wish {
    /// Stop cleanly.
    Stop,
    /// End at once, as this signal came again.
    Exit(&'static str),
    /// Read the configuration again.
    Reload,
}

/// The meaning of SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHangup {
    /// The terminal has gone: stop.
    Stop,
    /// Read the configuration again, as daemons do.
    Reload,
}

const HANGUP: &str = "SIGHUP";

impl Wishes {
    /// Catches the signals. `on_hangup`: what SIGHUP means.
    ///
    /// # Errors
    /// When the system refuses that.
    pub fn catch(on_hangup: OnHangup) -> Result<Self, Failure> {
        let caught = |kind| signal(kind).map_err(|error| Failure::Failed(format!("cannot catch signals: {error}")));
        // `nohup` asks for a serve that outlives its terminal.
        let is_deaf = on_hangup == OnHangup::Stop && is_ignored(SignalKind::hangup());
        let hangup = if is_deaf { None } else { Some(caught(SignalKind::hangup())?) };
        let (interrupt, terminate) = (caught(SignalKind::interrupt())?, caught(SignalKind::terminate())?);
        Ok(Self { signals: Signals { interrupt, terminate, hangup, on_hangup }, since: None })
    }

    /// True once a stop was asked for.
    pub fn is_stop(&self) -> bool {
        self.since.is_some()
    }

    /// The next request.
    pub async fn next(&mut self) -> Wish {
        loop {
            let name = self.signals.next().await;
            if name == HANGUP && self.signals.on_hangup == OnHangup::Reload {
                return Wish::Reload;
            }
            match self.since {
                None => {
                    tracing::info!("{name}: stopping; once more ends at once");
                    self.since = Some(Instant::now());
                    return Wish::Stop;
                }
                Some(since) if since.elapsed() < SAME_WISH => {}
                Some(_) => return Wish::Exit(name),
            }
        }
    }
}

impl Wish {
    /// Ends the process if that is asked for.
    pub fn obey(self, sockets: &mut Sockets) {
        if let Self::Exit(name) = self {
            tracing::error!("{name} again: ended at once; members are left as after a power cut");
            sockets.control = None;
            sockets.service.close();
            process::exit(1);
        }
    }
}

/// The sockets of a process that serves arrays. Their files are removed when this is dropped, even if other code still holds the
/// service.
pub struct Sockets {
    /// The effect of signals.
    pub service: Arc<Service>,
    /// The control socket, once it listens.
    pub control: Option<SocketFile>,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.service.close();
    }
}

/// The signals that end a serve.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None`: it is ignored.
    hangup: Option<Signal>,
    on_hangup: OnHangup,
}

impl Signals {
    async fn next(&mut self) -> &'static str {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = hung_up => HANGUP,
        }
    }
}

/// True if this process was started with the signal ignored (proc(5): `SigIgn`, a bit for each signal).
fn is_ignored(signal: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}
