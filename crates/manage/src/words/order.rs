//! The sentences of orders.

use crate::settings::SettingsRequest;
use crate::words::plan_values::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use stria_block::shown;
use stria_sentence::sentences;
use stria_terminal::size;

/// The array that an order is for; null: a route of the API stands for any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Of(pub Option<String>);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(array) => write!(f, "array \"{}\"", shown(array)),
            None => f.write_str("an array"),
        }
    }
}

/// The part that an alarm is about, in parentheses; null: the array as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Component(pub Option<String>);

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| write!(f, " ({part})"))
    }
}

/// Whether an order skips checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Forced(pub bool);

impl fmt::Display for Forced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { " by force" } else { "" })
    }
}

/// Whether an order disconnects clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ClientsOrNot(pub bool);

impl fmt::Display for ClientsOrNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { ", clients or not" } else { "" })
    }
}

/// The span that a drive is added to; null: none is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ToSpan(pub Option<String>);

impl fmt::Display for ToSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|span| write!(f, " to span {}", shown(span)))
    }
}

/// Bounds on the speed of sweeps, as they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The lower one.
    pub min_bytes_per_s: Option<Size>,
    /// The upper one.
    pub max_bytes_per_s: Option<Size>,
    /// The part of clients' requests whose latency is bounded, in percent.
    pub percentile: Option<String>,
    /// Their latency; null: no bound.
    pub bound_us: Option<u64>,
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bounds = Vec::new();
        bounds.extend(self.min_bytes_per_s.map(|speed| match speed {
            Size(0) => "no minimum".into(),
            speed => format!("at least {speed}/s"),
        }));
        bounds.extend(self.max_bytes_per_s.map(|speed| match speed {
            Size(0) => "no maximum".into(),
            speed => format!("at most {speed}/s"),
        }));
        bounds.extend(self.percentile.as_ref().map(|percentile| match self.bound_us {
            Some(bound_us) => format!("latency of clients p{percentile} = {bound_us} µs"),
            None => "no bound on latency".into(),
        }));
        f.write_str(&bounds.join(", "))
    }
}

/// A length in bytes; null: all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Length(pub Option<u64>);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.map_or_else(|| "all".into(), size::show))
    }
}

sentences! {
    /// An order, for programs: `code` stays the same when its words change.
    pub enum OrderSentence {
        OrderReload {} => "reload of the configuration",
        OrderStopAll { clients_or_not: ClientsOrNot } => "stop of all arrays{clients_or_not}",
        OrderAlarmTest {} => "test of the alarms",
        OrderAcknowledge { alarm: String, array: String, component: Component } => "acknowledgement of alarm {alarm} on array {array}{component}",
        OrderAcknowledgeNote { alarm: String, array: String, component: Component, note: String } => "acknowledgement of alarm {alarm} on array {array}{component}, with the note \"{note}\"",
        OrderUnacknowledge { alarm: String, array: String, component: Component } => "withdrawal of the acknowledgement of alarm {alarm} on array {array}{component}",
        OrderStart { of: Of, force: Forced } => "start of {of}{force}",
        OrderStop { of: Of, clients_or_not: ClientsOrNot } => "stop of {of}{clients_or_not}",
        OrderAdd { of: Of, drive: String, span: ToSpan, force: Forced } => "addition of drive {drive}{span}{force} in {of}",
        OrderFail { of: Of, drive: String } => "dropping of member {drive} in {of}",
        OrderRemove { of: Of, drive: String } => "removal of member {drive} in {of}",
        OrderReplace { of: Of, old: String, new: String, force: Forced } => "replacement of member {old} by {new}{force} in {of}",
        OrderFirmware { of: Of, drive: String, image: String, force: Forced } => "firmware {image} for member {drive}{force} in {of}",
        OrderScrub { of: Of } => "scrub in {of}",
        OrderRepair { of: Of } => "scrub with repair in {of}",
        OrderScrubEnd { of: Of } => "end of the scrub in {of}",
        OrderPause { of: Of } => "pause of sweeps in {of}",
        OrderResume { of: Of } => "resumption of sweeps in {of}",
        OrderSpeed { of: Of, bounds: Bounds } => "bounds on the speed of sweeps ({bounds}) in {of}",
        OrderSettings { of: Of, settings: SettingsRequest, force: Forced } => "change of settings ({settings}){force} in {of}",
        OrderTrim { of: Of, length: Length, start_bytes: Size } => "trim of {length} from {start_bytes} in {of}",
        OrderLimits { of: Of } => "measurement of the members in {of}",
        OrderPrice { of: Of } => "measurement of what the sweep costs clients in {of}",
        OrderConfig {} => "change of the configuration",
        OrderSchedules {} => "change of the schedules",
        OrderSessionEnd {} => "end of the session",
        OrderJobEnd { job: String } => "end of job {job}",
        OrderPlan {} => "a plan to be carried out",
        OrderOther { text: String } => "{text}",
    }
}
