//! Requests of curl.

use super::may_skip;
use serde_json::Value;
use std::process::Command;

/// An answer: status, body as JSON (or as a text), and its head.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
    pub head: String,
}

impl Answer {
    pub fn kind(&self) -> (u16, &str) {
        (self.status, self.body["error"]["kind"].as_str().unwrap_or("none"))
    }
}

/// curl with these arguments. `None`: it is missing, and the environment permits that.
pub fn curl_command(command: &mut Command) -> Option<Answer> {
    let output = match command.args(["--silent", "--show-error", "--include", "--max-time", "60"]).output() {
        Ok(output) => output,
        Err(error) => {
            may_skip(&format!("curl does not start: {error}"), "install curl");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Some(Answer { status: 0, body: Value::Null, head: String::from_utf8_lossy(&output.stderr).into_owned() });
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
    Some(Answer { status, body, head: head.to_ascii_lowercase() })
}

pub fn curl(arguments: &[&str]) -> Answer {
    curl_command(Command::new("curl").args(arguments)).expect("curl is here, as the first test says")
}
