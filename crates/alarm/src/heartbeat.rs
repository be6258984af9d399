//! A heartbeat to a service elsewhere, which raises the alarm when it stops: once the process, the machine or its network has
//! failed, nothing here can report that.

use crate::HeartbeatConfig;
use crate::channel::agent;
use std::time::Instant;
use ureq::Agent;

/// The schedule of heartbeats.
pub struct Heartbeat {
    config: HeartbeatConfig,
    agent: Agent,
    due: Option<Instant>,
}

impl Heartbeat {
    /// The first sign is due at once.
    pub fn new(config: HeartbeatConfig) -> Self {
        Self { config, agent: agent(), due: None }
    }

    /// The address, and the time between two signs.
    pub fn config(&self) -> &HeartbeatConfig {
        &self.config
    }

    /// Sends a heartbeat if it is due. Call this only while everything works. Returns true if it was sent and received.
    ///
    /// # Errors
    /// The service does not accept it.
    pub fn beat(&mut self, now: Instant) -> Result<bool, String> {
        if self.due.is_some_and(|due| now < due) {
            return Ok(false);
        }
        self.due = Some(now + self.config.every);
        self.agent.get(&self.config.url).call().map(|_| true).map_err(|error| error.to_string())
    }
}
