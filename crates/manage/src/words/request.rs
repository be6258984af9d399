//! Orders in words, for events: "reload of the configuration", not `POST /v1/reload`.

use crate::api::SpeedRequest;
use crate::settings::SettingsRequest;
use crate::words::order::{Bounds, ClientsOrNot, Component, Forced, Length, Of, OrderSentence, ToSpan};
use crate::words::plan::Size;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::Value;
use stria_block::shown;

/// An order in words, from its method, its path of the control socket or the API, and its body. An order without words is shown
/// as it was sent.
pub fn order_words(method: &str, path: &str, body: &str) -> OrderSentence {
    let parts: Vec<String> = path.trim_start_matches("/api").split('/').skip(2).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let body: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let as_sent = || OrderSentence::OrderOther { text: format!("{method} {path}") };
    sentence_of(method, &parts, &Body(&body)).unwrap_or_else(as_sent)
}

/// The array of an order to acknowledge an alarm, which names it in its body.
pub fn acknowledged_of(path: &str, body: &str) -> Option<String> {
    if !path.ends_with("/v1/alarms/acknowledge") {
        return None;
    }
    serde_json::from_str::<Value>(body).ok()?["array"].as_str().map(str::to_owned)
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

    fn force(&self) -> Forced {
        Forced(self.is("force"))
    }

    fn read<T: for<'de> Deserialize<'de>>(&self) -> Option<T> {
        serde_json::from_value(self.0.clone()).ok()
    }
}

fn sentence_of(method: &str, parts: &[&str], body: &Body) -> Option<OrderSentence> {
    let of = |array: &str| Of((array != "{name}").then(|| array.to_owned()));
    Some(match (method, parts) {
        ("POST", ["reload"]) => OrderSentence::OrderReload {},
        ("POST", ["stop"]) => OrderSentence::OrderStopAll { clients_or_not: ClientsOrNot(body.is("force")) },
        ("POST", ["alarms", "test"]) => OrderSentence::OrderAlarmTest {},
        ("POST", ["alarms", "acknowledge"]) => {
            let (alarm, array) = (body.text("event"), body.text("array"));
            let component = Component(body.0["component"].as_str().map(|part| shown(part).to_string()));
            match body.0["note"].as_str().map(str::trim).filter(|note| !note.is_empty()) {
                _ if body.is("undo") => OrderSentence::OrderUnacknowledge { alarm, array, component },
                Some(note) => OrderSentence::OrderAcknowledgeNote { alarm, array, component, note: shown(note).to_string() },
                None => OrderSentence::OrderAcknowledge { alarm, array, component },
            }
        }
        ("POST", ["adopted", array, "start"]) => OrderSentence::OrderStart { of: of(array), force: body.force() },
        ("POST", ["arrays", array, "stop"]) => {
            OrderSentence::OrderStop { of: of(array), clients_or_not: ClientsOrNot(body.is("force")) }
        }
        (method, ["arrays", array, order @ ..]) => of_array(method, order, body, of(array))?,
        ("PUT", ["config"]) => OrderSentence::OrderConfig {},
        ("PUT", ["routine", "settings"]) => OrderSentence::OrderSchedules {},
        ("DELETE", ["session"]) => OrderSentence::OrderSessionEnd {},
        ("DELETE", ["jobs", job]) => OrderSentence::OrderJobEnd { job: shown(job).to_string() },
        ("POST", ["jobs"]) => OrderSentence::OrderPlan {},
        ("POST", ["actions"]) => {
            let part = |key: &str| body.0[key].as_str().map(shown).map(|text| text.to_string());
            let action = part("action").map_or_else(|| "an action".to_owned(), |action| action.replace('_', " "));
            let place = part("array").map_or_else(String::new, |array| format!(" in array \"{array}\""));
            OrderSentence::OrderOther { text: format!("{action}{place}") }
        }
        _ => return None,
    })
}

fn of_array(method: &str, order: &[&str], body: &Body, of: Of) -> Option<OrderSentence> {
    let (force, drive) = (body.force(), || body.text("path"));
    Some(match (method, order) {
        ("POST", ["members"]) => {
            let span = ToSpan(body.0["span"].as_str().map(str::to_owned));
            OrderSentence::OrderAdd { of, drive: drive(), span, force }
        }
        ("POST", ["members", "fail"]) => OrderSentence::OrderFail { of, drive: drive() },
        ("POST", ["members", "remove"]) => OrderSentence::OrderRemove { of, drive: drive() },
        ("POST", ["members", "replace"]) => {
            OrderSentence::OrderReplace { of, old: body.text("old"), new: body.text("new"), force }
        }
        ("POST", ["members", "firmware"]) => {
            OrderSentence::OrderFirmware { of, drive: drive(), image: body.text("image"), force }
        }
        ("POST", ["scrub"]) if body.is("repair") => OrderSentence::OrderRepair { of },
        ("POST", ["scrub"]) => OrderSentence::OrderScrub { of },
        ("DELETE", ["scrub"]) => OrderSentence::OrderScrubEnd { of },
        ("POST", ["pause"]) => OrderSentence::OrderPause { of },
        ("POST", ["resume"]) => OrderSentence::OrderResume { of },
        ("PUT", ["speed"]) => OrderSentence::OrderSpeed { of, bounds: bounds(body.read().unwrap_or_default()) },
        ("PUT", ["settings"]) => OrderSentence::OrderSettings { of, settings: body.read::<SettingsRequest>()?, force },
        ("POST", ["trim"]) => OrderSentence::OrderTrim {
            of,
            length: Length(body.0["length_bytes"].as_u64()),
            start_bytes: Size(body.0["start_bytes"].as_u64().unwrap_or_default()),
        },
        ("POST", ["limits"]) => OrderSentence::OrderLimits { of },
        ("POST", ["price"]) => OrderSentence::OrderPrice { of },
        _ => return None,
    })
}

fn bounds(request: SpeedRequest) -> Bounds {
    let SpeedRequest { min_bytes_per_s, max_bytes_per_s, latency } = request;
    Bounds {
        min_bytes_per_s: min_bytes_per_s.map(Size),
        max_bytes_per_s: max_bytes_per_s.map(Size),
        percentile: latency.map(|latency| latency.percentile.to_string()),
        bound_us: latency.and_then(|latency| latency.bound_us),
    }
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
                "/v1/arrays/tank/speed",
                r#"{"min_bytes_per_s":0,"max_bytes_per_s":0}"#,
                "bounds on the speed of sweeps (no minimum, no maximum) in array \"tank\"",
            ),
            (
                "PUT",
                "/v1/arrays/tank/settings",
                r#"{"write":"through","drive_caches":false}"#,
                "change of settings (write through, the drives' write caches off) in array \"tank\"",
            ),
            (
                "POST",
                "/v1/alarms/acknowledge",
                r#"{"event":"Fail","array":"tank","component":"/dev/sdb"}"#,
                "acknowledgement of alarm Fail on array tank (/dev/sdb)",
            ),
            (
                "POST",
                "/v1/alarms/acknowledge",
                r#"{"event":"Fail","array":"tank","component":"/dev/sdb","note":" ordered\n "}"#,
                "acknowledgement of alarm Fail on array tank (/dev/sdb), with the note \"ordered\"",
            ),
            (
                "POST",
                "/v1/alarms/acknowledge",
                r#"{"event":"Fail","array":"tank","note":"a\u001b[2Jb"}"#,
                "acknowledgement of alarm Fail on array tank, with the note \"a\\u{1b}[2Jb\"",
            ),
            (
                "POST",
                "/api/v1/alarms/acknowledge",
                r#"{"event":"Mismatch","array":"tank","undo":true}"#,
                "withdrawal of the acknowledgement of alarm Mismatch on array tank",
            ),
            ("PUT", "/api/v1/config", "", "change of the configuration"),
            ("POST", "/api/v1/actions", "", "an action"),
            ("POST", "/api/v1/actions", r#"{"action":"cancel_scrub","array":"tank"}"#, "cancel scrub in array \"tank\""),
            ("DELETE", "/api/v1/jobs/7", "", "end of job 7"),
            ("POST", "/v1/nothing", "", "POST /v1/nothing"),
        ] {
            assert_eq!(order_words(method, path, body).to_string(), words, "{method} {path}");
        }
    }

    /// Goal: no order of the control socket or the API is shown as it was sent.
    #[test]
    fn no_route_is_without_words() {
        let sources = [include_str!("../control.rs"), include_str!("../daemon/api.rs"), include_str!("../monitor.rs")].concat();
        let mut count = 0;
        for line in sources.lines().filter(|line| line.contains(".route(\"/v1/")) {
            let path = line.split('"').nth(1).unwrap_or_default().replace("{name}", "tank");
            for method in ["post", "put", "delete"].into_iter().filter(|method| line.contains(&format!("{method}("))) {
                // udev's reports of drives are no orders.
                if path != "/v1/drives" {
                    let words = order_words(&method.to_uppercase(), &path, "{}").to_string();
                    assert!(!words.contains("/v1/"), "{words}");
                    count += 1;
                }
            }
        }
        assert!(count > 15, "{count} routes were found");
    }
}
