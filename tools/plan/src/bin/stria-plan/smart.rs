//! Drives of this machine, as `smartctl` names them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use stria_plan::profile;
use stria_terminal::Failure;
use stria_terminal::output::tell;

/// The answer of `smartctl`. Its exit code is a set of remarks on the drive; the JSON is complete in any case.
fn ask(arguments: &[&str]) -> Result<Value, Failure> {
    let output = Command::new("smartctl").args(["--json"]).args(arguments).output().map_err(|error| {
        let remedy = "install smartmontools, or name drives of the catalogue, such as --drives 8xp4510";
        Failure::Usage(format!("smartctl cannot be started: {error}: {remedy}"))
    })?;
    let not_understood = |error| Failure::Failed(format!("the answer of smartctl {} is not JSON: {error}", arguments.join(" ")));
    serde_json::from_slice(&output.stdout).map_err(not_understood)
}

/// The error that `smartctl` reports, if any.
fn error(answer: &Value) -> Option<&str> {
    let messages = answer["smartctl"]["messages"].as_array()?;
    messages.iter().find(|message| message["severity"] == "error")?["string"].as_str()
}

/// The model of a device that `--scan` found, or the reason why it is unknown.
fn model(device: &Value, name: &str) -> Result<Result<String, String>, Failure> {
    // Drives behind a controller share a name; the type tells them apart.
    let kind = device["type"].as_str().map_or(Vec::new(), |kind| vec!["--device", kind]);
    let told = ask(&[&["--info"], &kind[..], &[name]].concat())?;
    let found = ["model_name", "scsi_model_name"].into_iter().find_map(|key| told[key].as_str());
    Ok(found.map(str::to_owned).ok_or_else(|| error(&told).unwrap_or("smartctl names no model").to_owned()))
}

/// "4xs3500": the drives of this machine, which are all of one model of the catalogue. Standard error names the drives that are
/// left out.
///
/// # Errors
/// Usage, if there is no smartctl, no known drive, or drives of several models.
pub fn drives() -> Result<String, Failure> {
    let found = ask(&["--scan"])?;
    let devices = found["devices"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (mut known, mut unknown, mut unread) = (BTreeMap::<&str, usize>::new(), Vec::new(), Vec::new());
    for (device, name) in devices.iter().filter_map(|device| Some((device, device["name"].as_str()?))) {
        let full = match device["type"].as_str() {
            Some(kind) if kind.contains(',') => format!("{name} ({kind})"),
            _ => name.to_owned(),
        };
        match model(device, name)? {
            Err(cause) => unread.push(format!("{full}: {cause}")),
            Ok(model) => match profile::key_of_model(&model) {
                Some(key) => *known.entry(key).or_default() += 1,
                None => unknown.push(format!("{full} is {model}")),
            },
        }
    }
    let groups: Vec<String> = known.iter().map(|(key, count)| format!("{count}x{key}")).collect();
    match &groups[..] {
        [one] => {
            let left_out: Vec<String> = unknown.into_iter().chain(unread).collect();
            if !left_out.is_empty() {
                tell(&format!("planned with {one}; left out, unreadable or not in the catalogue: {}", left_out.join(", ")));
            }
            Ok(one.clone())
        }
        [] if !unread.is_empty() => Err(Failure::Usage(format!(
            "smartctl cannot read drives ({}): run this as root, or name drives of the catalogue, such as --drives 8xp4510",
            unread.join(", ")
        ))),
        [] if unknown.is_empty() => {
            let cause = error(&found).map_or(String::new(), |cause| format!(" ({cause})"));
            Err(Failure::Usage(format!("smartctl finds no drive{cause}: name drives of the catalogue, such as --drives 8xp4510")))
        }
        [] => Err(Failure::Usage(format!(
            "no drive of this machine is in the catalogue ({}): name one alike, or describe it in a profile",
            unknown.join(", ")
        ))),
        several => Err(Failure::Usage(format!("this machine has {}: name one of them with --drives", several.join(" and ")))),
    }
}
