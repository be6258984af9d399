//! The API's own parts, beside the daemon that it reaches.

use super::accounts::Accounts;
use super::auth::Guard;
use super::forecast::Planner;
use super::jobs::Jobs;
use super::machine::Machine;
use super::measure::Measurements;
use super::plans::Plans;
use super::types::{ArrayEntry, State, Summary};
use super::{drives, summary};
use crate::api::EventView;
use crate::clock::now_ms;
use crate::config::ApiOptions;
use crate::event_file::stored;
use crate::monitor::StandingView;
use crate::mounts::awaited;
use std::sync::{Arc, OnceLock};
use stria_alarm::Event;

/// What routes reach.
pub struct Rest {
    /// The daemon.
    pub machine: Arc<Machine>,
    /// Checks of callers: sessions, tokens and roles.
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
    /// When it began.
    began_ms: u64,
    /// Events of earlier runs that tell since when something is so. They are read once their file system is mounted.
    past: OnceLock<Vec<EventView>>,
}

impl Rest {
    /// The daemon's side of the API.
    pub fn new(machine: Machine, options: &ApiOptions) -> Arc<Self> {
        let config = machine.keeper.config_reader();
        machine.monitor.ask_all_drives(move || drives::paths(&config().daemon));
        let jobs = Arc::new(Jobs::open(&machine.state));
        Arc::new(Self {
            machine: Arc::new(machine),
            guard: Arc::new(Guard::new(options)),
            accounts: Accounts::new(options),
            plans: Plans::default(),
            jobs,
            measurements: Measurements::default(),
            planner: Planner::default(),
            boot: format!("{:x}", now_ms()),
            began_ms: now_ms(),
            past: OnceLock::new(),
        })
    }

    fn past(&self) -> &[EventView] {
        if self.past.get().is_none() && awaited(&self.machine.state).is_some() {
            return &[];
        }
        self.past.get_or_init(|| {
            let mut past = stored(&self.machine.state).unwrap_or_default();
            past.retain(|event| {
                let tells = matches!(
                    event.kind.as_str(),
                    "member_failed" | "member_gone" | "member_in_sync" | "mismatch" | "sweep_finished" | "no_room"
                );
                // Events of this run are in the file as well.
                tells && event.time_ms < self.began_ms
            });
            past
        })
    }

    /// The machine in one sentence, and what is wrong.
    pub fn summary(&self, arrays: &[ArrayEntry], alarms: &[StandingView]) -> Summary {
        let events = [self.past(), &self.machine.service.events().since(0)].concat();
        let monitor = &self.machine.monitor;
        // The alarm of a fault that came twice lasts for an hour after its end: the fault itself tells.
        let others = alarms.iter().filter(|alarm| alarm.cause.event != Event::ConfigFault).cloned();
        let alarms: Vec<StandingView> = others.chain(monitor.faults()).collect();
        summary::summary(arrays, &alarms, &events, &monitor.told_by())
    }

    /// Everything that changes.
    pub fn state(&self) -> State {
        let (arrays, alarms) = (self.machine.entries(false), self.machine.monitor.standing());
        let summary = self.summary(&arrays, &alarms);
        State { boot: self.boot.clone(), time_ms: now_ms(), summary, arrays, jobs: self.jobs.all(), alarms }
    }
}
