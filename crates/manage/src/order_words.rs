//! Orders in words, for events: "reload of the configuration", not `POST /v1/reload`.

use crate::settings::SettingsRequest;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use stria_block::shown;
use stria_terminal::size;

/// An order in words, from its method, its path of the control socket or the API, and its body. An order without words is shown as it was sent.
pub fn order_words(method: &str, path: &str, body: &str) -> String {
    let parts: Vec<String> = path.trim_start_matches("/api").split('/').skip(2).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let body: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    of(method, &parts, &Body(&body)).unwrap_or_else(|| format!("{method} {path}"))
}

fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// The body of an order.
struct Body<'a>(&'a Value);

impl Body<'_> {
    fn text(&self, key: &str) -> String {
        self.0[key].as_str().map_or_else(|| "?".to_owned(), |text| shown(text).to_string())
    }

    fn is(&self, key: &str) -> bool {
        self.0[key] == true
    }

    /// These words if the key is set.
    fn if_set(&self, key: &str, words: &'static str) -> &'static str {
        if self.is(key) { words } else { "" }
    }

    fn bytes(&self, key: &str) -> Option<String> {
        self.0[key].as_u64().map(size::show)
    }
}

fn of(method: &str, parts: &[&str], body: &Body) -> Option<String> {
    Some(match (method, parts) {
        ("POST", ["reload"]) => "reload of the configuration".into(),
        ("POST", ["stop"]) => format!("stop of all arrays{}", body.if_set("force", ", clients or not")),
        ("POST", ["alarms", "test"]) => "test of the alarms".into(),
        ("POST", ["adopted", array, "start"]) => {
            format!("start of {}{}", named(array), body.if_set("force", " by force"))
        }
        ("POST", ["arrays", array, "stop"]) => format!("stop of {}{}", named(array), body.if_set("force", ", clients or not")),
        (method, ["arrays", array, order @ ..]) => format!("{} in {}", of_array(method, order, body)?, named(array)),
        ("PUT", ["config"]) => "change of the configuration".into(),
        ("PUT", ["routine", "settings"]) => "change of the schedules".into(),
        ("DELETE", ["session"]) => "end of the session".into(),
        ("DELETE", ["jobs", job]) => format!("end of job {}", shown(job)),
        ("POST", ["jobs"]) => "a plan to be carried out".into(),
        ("POST", ["actions"]) => {
            let part = |key: &str| body.0[key].as_str().map(shown).map(|text| text.to_string());
            let action = part("action").map_or_else(|| "an action".to_owned(), |action| action.replace('_', " "));
            let place = part("array").map_or_else(String::new, |array| format!(" in array \"{array}\""));
            format!("{action}{place}")
        }
        _ => return None,
    })
}

/// A route of the API stands for any array.
fn named(array: &str) -> String {
    if array == "{name}" { "an array".into() } else { format!("array \"{}\"", shown(array)) }
}

fn of_array(method: &str, order: &[&str], body: &Body) -> Option<String> {
    let force = body.if_set("force", " by force");
    Some(match (method, order) {
        ("POST", ["members"]) => {
            let span = body.0["span"].as_str().map_or_else(String::new, |span| format!(" to span {}", shown(span)));
            format!("addition of drive {}{span}{force}", body.text("path"))
        }
        ("POST", ["members", "fail"]) => format!("dropping of member {}", body.text("path")),
        ("POST", ["members", "remove"]) => format!("removal of member {}", body.text("path")),
        ("POST", ["members", "replace"]) => {
            format!("replacement of member {} by {}{force}", body.text("old"), body.text("new"))
        }
        ("POST", ["members", "firmware"]) => {
            format!("firmware {} for member {}{force}", body.text("image"), body.text("path"))
        }
        ("POST", ["scrub"]) => format!("scrub{}", body.if_set("repair", " with repair")),
        ("DELETE", ["scrub"]) => "end of the scrub".into(),
        ("POST", ["pause"]) => "pause of sweeps".into(),
        ("POST", ["resume"]) => "resumption of sweeps".into(),
        ("PUT", ["speed"]) => speed(body),
        ("PUT", ["settings"]) => settings(body)?,
        ("POST", ["trim"]) => format!(
            "trim of {} from {}",
            body.bytes("length_bytes").unwrap_or_else(|| "all".into()),
            body.bytes("start_bytes").unwrap_or_else(|| "the start".into())
        ),
        ("POST", ["limits"]) => "measurement of the members".into(),
        ("POST", ["price"]) => "measurement of what the sweep costs clients".into(),
        _ => return None,
    })
}

fn speed(body: &Body) -> String {
    let mut bounds = Vec::new();
    bounds.extend(match body.0["min_bytes_per_s"].as_u64() {
        Some(0) => Some("no minimum".into()),
        _ => body.bytes("min_bytes_per_s").map(|speed| format!("at least {speed}/s")),
    });
    bounds.extend(body.bytes("max_bytes_per_s").map(|speed| format!("at most {speed}/s")));
    let latency = &body.0["latency"];
    if let Some(percentile) = latency["percentile"].as_f64() {
        bounds.push(match latency["bound_us"].as_u64() {
            Some(bound_us) => format!("latency of clients p{percentile} = {bound_us} µs"),
            None => "no bound on latency".into(),
        });
    }
    format!("bounds on the speed of sweeps ({})", bounds.join(", "))
}

fn settings(body: &Body) -> Option<String> {
    let known: SettingsRequest = serde_json::from_value(body.0.clone()).ok()?;
    let switch = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let changes = [
        ("write", known.write.map(|_| word(&body.0["write"]))),
        ("drive-caches", known.drive_caches.map(switch)),
        ("read-only", known.read_only.map(switch)),
        ("bitmap", known.bitmap),
        ("log", known.log),
        ("integrity", known.integrity.map(switch)),
    ];
    let changes: Vec<String> = changes.into_iter().filter_map(|(key, value)| Some(format!("{key} {}", shown(&value?)))).collect();
    Some(format!("change of settings ({}){}", changes.join(", "), body.if_set("force", " by force")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_words() {
        for (method, path, body, words) in [
            ("POST", "/v1/reload", "", "reload of the configuration"),
            ("POST", "/v1/adopted/tank/start", r#"{"force":true}"#, "start of array \"tank\" by force"),
            ("POST", "/v1/arrays/my%20tank/stop", "{}", "stop of array \"my tank\""),
            ("POST", "/v1/arrays/tank/members/fail", r#"{"path":"/dev/sdb"}"#, "dropping of member /dev/sdb in array \"tank\""),
            (
                "POST",
                "/v1/arrays/tank/members/replace",
                r#"{"old":"/dev/sdb","new":"/dev/sdc","force":false}"#,
                "replacement of member /dev/sdb by /dev/sdc in array \"tank\"",
            ),
            ("POST", "/v1/arrays/tank/scrub", r#"{"repair":true}"#, "scrub with repair in array \"tank\""),
            ("DELETE", "/v1/arrays/tank/scrub", "", "end of the scrub in array \"tank\""),
            (
                "PUT",
                "/v1/arrays/tank/speed",
                r#"{"min_bytes_per_s":209715200,"max_bytes_per_s":null,"latency":{"percentile":99.0,"bound_us":5000}}"#,
                "bounds on the speed of sweeps (at least 200 MiB/s, latency of clients p99 = 5000 µs) in array \"tank\"",
            ),
            (
                "PUT",
                "/v1/arrays/tank/settings",
                r#"{"write":"through","drive_caches":false}"#,
                "change of settings (write through, drive-caches off) in array \"tank\"",
            ),
            ("PUT", "/api/v1/config", "", "change of the configuration"),
            ("POST", "/api/v1/actions", "", "an action"),
            ("POST", "/api/v1/actions", r#"{"action":"cancel_scrub","array":"tank"}"#, "cancel scrub in array \"tank\""),
            ("DELETE", "/api/v1/jobs/7", "", "end of job 7"),
            ("POST", "/v1/nothing", "", "POST /v1/nothing"),
        ] {
            assert_eq!(order_words(method, path, body), words, "{method} {path}");
        }
    }

    /// Goal: no order of the control socket or the API is shown as it was sent.
    #[test]
    fn no_route_is_without_words() {
        let sources = [include_str!("control.rs"), include_str!("daemon/api.rs"), include_str!("monitor.rs")].concat();
        let mut count = 0;
        for line in sources.lines().filter(|line| line.contains(".route(\"/v1/")) {
            let path = line.split('"').nth(1).unwrap_or_default().replace("{name}", "tank");
            for method in ["post", "put", "delete"].into_iter().filter(|method| line.contains(&format!("{method}("))) {
                // udev's reports of drives are no orders.
                if path != "/v1/drives" {
                    let words = order_words(&method.to_uppercase(), &path, "{}");
                    assert!(!words.contains("/v1/"), "{words}");
                    count += 1;
                }
            }
        }
        assert!(count > 15, "{count} routes were found");
    }
}
