//! Pages that the laboratory and the planner have made, and that were copied into a folder of the daemon to be shown.

use crate::api::{ApiError, ApiErrorKind};
use crate::words::error::ErrorSentence;
use axum::body::Body;
use axum::http::{Response, header};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A larger page is not sent.
const BYTES_MAX: u64 = 32 << 20;
/// Pages that are listed.
const LISTED_MAX: usize = 200;
/// What a page may do that is not ours: show itself, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'";

/// A page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The name of its file.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub changed_ms: u64,
}

/// The pages that can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reports {
    /// The folder on the server: what is put there is listed here.
    pub folder: String,
    /// The pages, the newest first.
    pub files: Vec<Report>,
}

/// The folder of the pages in the daemon's folder.
fn folder(state: &Path) -> PathBuf {
    state.join("reports")
}

/// The pages in the folder.
pub fn list(state: &Path) -> Reports {
    let folder = folder(state);
    let report = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| is_page(name))?;
        let data = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let changed = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Report { name, changed_ms: changed.as_millis() as u64 })
    };
    let mut files: Vec<Report> = std::fs::read_dir(&folder).into_iter().flatten().flatten().filter_map(report).collect();
    files.sort_by(|a, b| b.changed_ms.cmp(&a.changed_ms).then_with(|| a.name.cmp(&b.name)));
    files.truncate(LISTED_MAX);
    Reports { folder: folder.display().to_string(), files }
}

fn is_page(name: &str) -> bool {
    name.ends_with(".html") && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// One page, as it is sent.
pub fn page(state: &Path, name: &str) -> Response<Body> {
    match read(&folder(state), name) {
        Ok(text) => {
            let head = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
            (head, text).into_response()
        }
        Err(error) => error.into_response(),
    }
}

fn read(folder: &Path, name: &str) -> Result<Vec<u8>, ApiError> {
    let none = || ApiError::new(ApiErrorKind::NotFound, ErrorSentence::NoReport { name: name.to_owned() });
    let path = folder.join(name);
    let data = is_page(name).then(|| std::fs::symlink_metadata(&path).ok()).flatten().filter(std::fs::Metadata::is_file);
    match data {
        Some(data) if data.len() <= BYTES_MAX => std::fs::read(&path).map_err(|_| none()),
        Some(_) => Err(ApiError::new(ApiErrorKind::Refused, format!("{} is larger than 32 MiB", path.display()))),
        None => Err(none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_from_its_folder_and_nothing_else_is() {
        let state = tempfile::tempdir().expect("a folder");
        let folder = state.path().join("reports");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(state.path().join("secret.html"), "no").expect("a file");
        std::fs::write(folder.join("lab.html"), "yes").expect("a file");
        std::os::unix::fs::symlink(state.path().join("secret.html"), folder.join("link.html")).expect("a link");
        assert_eq!(read(&folder, "lab.html").expect("the page"), b"yes");
        for name in ["../secret.html", "link.html", "lab.html/../lab.html", "lab", "", ".html"] {
            assert!(read(&folder, name).is_err(), "{name}");
        }
    }
}
