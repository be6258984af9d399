//! The API's own parts, beside the daemon that it reaches.

use super::accounts::Accounts;
use super::auth::Guard;
use super::forecast::Planner;
use super::jobs::Jobs;
use super::machine::Machine;
use super::measure::Measurements;
use super::plans::Plans;
use super::types::{ArrayEntry, State, Summary};
use super::{drives, looks::Looks, summary};
use crate::api::EventView;
use crate::clock::now_ms;
use crate::config::{ApiOptions, Config};
use crate::event_file::stored;
use crate::keeper::Keeper;
use crate::monitor::{Monitor, StandingView};
use crate::routine::Routine;
use crate::service::Service;
use std::path::PathBuf;
use std::sync::Arc;

/// The parts of the daemon, for [`Rest::new`].
pub struct Parts {
    /// The arrays that are served.
    pub service: Arc<Service>,
    /// The arrays of the configuration.
    pub keeper: Arc<Keeper>,
    /// Alarms and health.
    pub monitor: Arc<Monitor>,
    /// Work by schedule.
    pub routine: Arc<Routine>,
    /// The configuration.
    pub config_path: PathBuf,
    /// The folder with the events.
    pub state: PathBuf,
}

/// What routes reach.
pub struct Rest {
    /// The daemon.
    pub machine: Arc<Machine>,
    /// Who may call.
    pub guard: Arc<Guard>,
    /// Logins with accounts of the system.
    pub accounts: Accounts,
    /// The plans that were offered.
    pub plans: Plans,
    /// What is and was carried out.
    pub jobs: Arc<Jobs>,
    /// What members could do, and what sweeps cost.
    pub measurements: Measurements,
    /// The planner, for forecasts.
    pub planner: Planner,
    /// The present run.
    pub boot: String,
    /// Events of earlier runs that tell since when something is so.
    past: Vec<EventView>,
}

impl Rest {
    /// The daemon's side of the API.
    pub fn new(parts: Parts, options: &ApiOptions) -> Arc<Self> {
        let Parts { service, keeper, monitor, routine, config_path, state } = parts;
        let configured = config_path.clone();
        monitor.ask_all_drives(move || Config::read(&configured).map(|config| drives::paths(&config.daemon)).unwrap_or_default());
        let mut past = stored(&state).unwrap_or_default();
        past.retain(|event| {
            matches!(
                event.kind.as_str(),
                "member_failed" | "member_gone" | "member_in_sync" | "mismatch" | "sweep_finished" | "no_room"
            )
        });
        let jobs = Arc::new(Jobs::open(&state));
        Arc::new(Self {
            machine: Arc::new(Machine { service, keeper, monitor, routine, config_path, state, looks: Looks::default() }),
            guard: Arc::new(Guard::new(options)),
            accounts: Accounts::new(options),
            plans: Plans::default(),
            jobs,
            measurements: Measurements::default(),
            planner: Planner::default(),
            boot: format!("{:x}", now_ms()),
            past,
        })
    }

    /// The machine in one sentence, and what is wrong.
    pub fn summary(&self, arrays: &[ArrayEntry], alarms: &[StandingView]) -> Summary {
        let events = [&self.past[..], &self.machine.service.events().since(0)].concat();
        summary::summary(arrays, alarms, &events)
    }

    /// Everything that changes.
    pub fn state(&self) -> State {
        let (arrays, alarms) = (self.machine.entries(false), self.machine.monitor.standing());
        let summary = self.summary(&arrays, &alarms);
        State { boot: self.boot.clone(), time_ms: now_ms(), summary, arrays, jobs: self.jobs.all(), alarms }
    }
}
