//! Drives that came back to an array that is served, and were left as they are. Each is reported until it is gone, used,
//! or carries something else.

use super::mark::Mark;
use crate::api::LeftAloneView;
use crate::config::Uuid;
use crate::words::error::Words;
use std::path::{Path, PathBuf};

/// Such a drive.
pub struct Left {
    pub array: Uuid,
    pub path: PathBuf,
    /// Why, and what to do.
    pub words: Words,
    mark: Option<Mark>,
}

impl Left {
    pub fn new(array: Uuid, path: &Path, words: Words) -> Self {
        Self { array, path: path.to_owned(), words, mark: Mark::of(path) }
    }

    /// True if it was written to since, or is gone.
    pub fn has_changed(&self) -> bool {
        Mark::of(&self.path) != self.mark
    }

    pub fn view(&self) -> LeftAloneView {
        let Words { text, said } = self.words.clone();
        LeftAloneView { path: self.path.display().to_string(), text, said }
    }
}
