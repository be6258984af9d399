//! A machine of image files with three arrays, and what hostile clients of its API must not reach.

use super::requests::Operations;
use super::stream::Choices;
use serde_json::{Value, json};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A longer answer is a hang.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests of one session.
const REQUESTS_MAX: u64 = 4;
const IMAGE_BYTES: u64 = 16 << 20;
/// Name, level, members. All other drives are free.
const ARRAYS: [(&str, &str, usize); 3] = [("tank", "6", 4), ("pair", "1", 2), ("wide", "0", 2)];
const DRIVES: usize = 11;
/// The tokens are `stria-of-view` and `stria-of-operate`.
const TOKENS: &str = "v view 9ef225dc1d136fd90fdb0b24a02b0766aa4e6b6cff43b1e9164ecd895c337ca4\n\
                      o operate e7c9ee1fd7c5ef52d2702163240946ecd95a5d0bd9f6349ec60dcfaf0bddbcf0\n";

/// The folder of the machine, and what can be asked of it.
pub struct Machine {
    folder: PathBuf,
    pub drives: Vec<String>,
    operations: Operations,
    /// How many plans that need an admin an operator has tried to carry out.
    pub refused_jobs: AtomicU64,
}

/// What a client needs of the offer of a plan.
struct PlanOffer {
    token: String,
    confirm: Option<String>,
    needs_admin: bool,
}

impl PlanOffer {
    fn of(answer: &str) -> Option<Self> {
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        Some(Self {
            token: body["token"].as_str()?.to_owned(),
            confirm: body["plan"]["confirm"].as_str().map(str::to_owned),
            needs_admin: body["plan"]["role"] == "admin",
        })
    }
}

impl Machine {
    /// Makes the drives, the configuration and the arrays. `stria` runs the program's command lines.
    pub fn new(folder: &Path, stria: impl Fn(&[&str])) -> Self {
        let place = folder.join("drives");
        fs::create_dir_all(&place).expect("a folder");
        let path = |name: &str| folder.join(name).display().to_string();
        fs::write(folder.join("tokens"), TOKENS).expect("a file");
        let config = format!(
            "[daemon]\nblock-devices = false\nsearch = [{:?}]\nstate = {:?}\n[mdadm]\nconf = {:?}\n[api]\ntokens = {:?}\n",
            path("drives"),
            path("state"),
            path("mdadm.conf"),
            path("tokens")
        );
        fs::write(folder.join("stria.toml"), config).expect("a file");
        let drives: Vec<String> = (0..DRIVES).map(|index| place.join(format!("d{index}")).display().to_string()).collect();
        for drive in &drives {
            fs::File::create(drive).and_then(|file| file.set_len(IMAGE_BYTES)).expect("an image");
        }
        let mut free = drives.iter().map(String::as_str);
        for (name, level, count) in ARRAYS {
            let members: Vec<&str> = free.by_ref().take(count).collect();
            stria(&[&["create", name, "--level", level, "--assume-clean"], &members[..]].concat());
            stria(&[&["adopt"], &members[..], &["--config", &path("stria.toml"), "--socket", &path("control.sock")]].concat());
        }
        let words: Vec<String> = ARRAYS.iter().map(|(name, ..)| (*name).to_owned()).chain(drives.iter().cloned()).collect();
        Self { folder: folder.to_owned(), operations: Operations::new(&words), drives, refused_jobs: AtomicU64::new(0) }
    }

    pub fn config(&self) -> PathBuf {
        self.folder.join("stria.toml")
    }

    /// One hostile session of a user with this role; `admin` is root on the unix socket. Returns the statuses of the answers.
    ///
    /// # Panics
    /// When a request has no answer in time, or the answer is a fault of the daemon.
    pub fn session(&self, role: &str, choices: &mut Choices) -> Vec<u16> {
        let authorization = match role {
            "admin" => String::new(),
            role => format!("authorization: Bearer stria-of-{role}\r\n"),
        };
        let (mut plan, mut statuses) = (None::<PlanOffer>, Vec::new());
        for _ in 0..=choices.below(REQUESTS_MAX) {
            // Root may destroy arrays, so it plans only.
            let offered = plan.take_if(|_| role == "operate" && choices.rarely(2));
            let request = match &offered {
                Some(PlanOffer { token, confirm, .. }) => {
                    self.operations.post("/jobs", &json!({"token": token, "confirm": confirm}), &authorization)
                }
                // Chance alone hardly ever makes a plan that somebody may carry out: an operator the one, an admin the other.
                None if role == "operate" && choices.rarely(6) => {
                    let (action, drive) = choices.pick(&[("wipe", DRIVES - 1), ("spare_add", DRIVES - 2)]);
                    self.operations.post("/plans", &json!({"action": action, "drives": [self.drives[drive]]}), &authorization)
                }
                None => self.operations.request(choices, &authorization, plan.as_ref().map(|plan| &*plan.token)),
            };
            let answer = self.ask(&request.bytes, request.is_damaged);
            let words = || format!("{} got {answer}", String::from_utf8_lossy(&request.bytes));
            let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
            assert!(request.is_damaged || status.is_some(), "no answer: {}", words());
            // The document has the text of every sentence.
            let is_document = status == Some(200) && String::from_utf8_lossy(&request.bytes).contains("/openapi.json");
            assert!(status != Some(500) && (is_document || !answer.contains("internal error")), "a fault: {}", words());
            let is_beyond = offered.is_some_and(|offered| offered.needs_admin);
            // Or it has given too many orders within a minute, which is asked first.
            let is_refused = matches!(status, Some(403 | 429));
            assert!(!is_beyond || is_refused, "an operator carries out the plan of an admin: {}", words());
            self.refused_jobs.fetch_add(u64::from(is_beyond && status == Some(403)), Ordering::Relaxed);
            statuses.extend(status);
            plan = PlanOffer::of(&answer).or(plan);
        }
        statuses
    }

    fn ask(&self, request: &[u8], is_damaged: bool) -> String {
        let begun = Instant::now();
        let mut socket = UnixStream::connect(self.folder.join("control.api")).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        socket.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        // A refusal may come before all is sent.
        let _ = socket.write_all(request);
        if is_damaged {
            let _ = socket.shutdown(Shutdown::Write);
        }
        let (mut answer, mut piece) = (Vec::new(), [0; 64 << 10]);
        loop {
            match socket.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                // The fuzzer's own clock.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no end in {:?} ({error}): {}", begun.elapsed(), String::from_utf8_lossy(request)),
            }
            // The stream of events has no end.
            if answer.windows(17).any(|part| part == b"text/event-stream") {
                break;
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}
