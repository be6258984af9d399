//! A sign of life to a service elsewhere, which raises the alarm when it stays away: when the process, the machine or its network is
//! gone, nothing here can tell that.

use crate::HeartbeatConfig;
use crate::channel::agent;
use std::time::Instant;
use ureq::Agent;

/// When to send the next sign.
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

    /// Sends a sign if it is due. Call this only while all is alive. Returns whether it was sent and received.
    ///
    /// # Errors
    /// When the service does not take it.
    pub fn beat(&mut self, now: Instant) -> Result<bool, String> {
        if self.due.is_some_and(|due| now < due) {
            return Ok(false);
        }
        self.due = Some(now + self.config.every);
        self.agent.get(&self.config.url).call().map(|_| true).map_err(|error| error.to_string())
    }
}
