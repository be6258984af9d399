//! What the API reaches of the daemon: its arrays, the drives of the machine, and the configuration.

use super::drives;
use super::looks::Looks;
use super::types::ArrayEntry;
use crate::api::{ApiError, ApiErrorKind, ArrayView};
use crate::config::Config;
use crate::keeper::Keeper;
use crate::monitor::Monitor;
use crate::routine::Routine;
use crate::service::Service;
use crate::view::no_array_of_stria;
use crate::words::error::{ErrorSentence, Words};
use std::path::PathBuf;
use std::sync::Arc;
use stria_format::md::Assembly;
use stria_host::{OpenOptions, find_readable};

/// The daemon, as the API reaches it.
pub struct Machine {
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
    /// The last look at the arrays.
    pub looks: Looks,
}

fn refused(text: impl Into<Words>) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, text)
}

impl Machine {
    /// Reads the configuration from its file, for actions that change the file. Others use [`Keeper::config`], which a damaged
    /// file does not affect.
    ///
    /// # Errors
    /// When it cannot be read or is invalid.
    pub fn config(&self) -> Result<Config, ApiError> {
        Config::read(&self.config_path).map_err(|failure| ApiError::new(ApiErrorKind::Failed, failure.to_string()))
    }

    /// The arrays. `is_fresh`: as they are now, rather than within the last second.
    pub fn entries(&self, is_fresh: bool) -> Vec<ArrayEntry> {
        self.looks.arrays(is_fresh, |array| self.monitor.slow(array), || (self.service.arrays(), self.keeper.adopted()))
    }

    /// The array of this name or UUID.
    ///
    /// # Errors
    /// When there is none.
    pub fn entry(&self, name: &str) -> Result<ArrayEntry, ApiError> {
        let entries = self.entries(true);
        let known: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        entries
            .into_iter()
            .find(|entry| entry.name == name || entry.uuid == name)
            .ok_or_else(|| ApiError::new(ApiErrorKind::NotFound, no_array_of_stria(name, &known)))
    }

    /// An array that is served.
    ///
    /// # Errors
    /// When there is none of this name or UUID, or it is not served.
    pub fn served(&self, name: &str) -> Result<(ArrayEntry, ArrayView), ApiError> {
        let entry = self.entry(name)?;
        match entry.view.clone() {
            Some(view) => Ok((entry, view)),
            None => {
                let (array, reason, cause) = (entry.name, entry.text, entry.said.into());
                Err(refused(ErrorSentence::NotServed { array, reason, cause }))
            }
        }
    }

    /// The arrays that lie on this machine's drives, and why drives could not be read: one that is dead must not close all
    /// arrays.
    ///
    /// # Errors
    /// When none can be read.
    pub fn assemblies(&self) -> Result<(Vec<Assembly>, Vec<Words>), ApiError> {
        let paths = drives::paths(&self.keeper.config().daemon);
        if paths.is_empty() {
            return Err(refused(ErrorSentence::NoDrivesHere {}));
        }
        let options = OpenOptions { read_only: true, force: true, ..OpenOptions::default() };
        let (found, unread) = find_readable(&paths, options)?;
        Ok((found.assemblies, unread.into_iter().map(Words::from).collect()))
    }
}
