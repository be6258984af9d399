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
use crate::config::ApiOptions;
use crate::monitor::StandingView;
use crate::system::clock::now_ms;
use std::sync::Arc;
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
        })
    }

    /// The machine in one sentence, and what is wrong.
    pub fn summary(&self, arrays: &[ArrayEntry], alarms: &[StandingView]) -> Summary {
        let events = self.machine.service.known_events();
        let monitor = &self.machine.monitor;
        // The alarm about a fault that came twice lasts for an hour after the fault. So the faults themselves are shown instead.
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
