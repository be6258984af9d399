//! Drives of this machine, as `smartctl` names them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use stria_plan::profile;
use stria_terminal::Failure;

/// The answer of `smartctl`. Its exit code is a set of remarks on the drive; the JSON is complete in any case.
fn ask(arguments: &[&str]) -> Result<Value, Failure> {
    let output = Command::new("smartctl").args(["--json"]).args(arguments).output().map_err(|error| {
        let remedy = "install smartmontools, or name drives of the catalogue, such as --drives 8xp4510";
        Failure::Usage(format!("smartctl cannot be started: {error}: {remedy}"))
    })?;
    let not_understood = |error| Failure::Failed(format!("the answer of smartctl {} is not JSON: {error}", arguments.join(" ")));
    serde_json::from_slice(&output.stdout).map_err(not_understood)
}

fn model(device: &str) -> Result<String, Failure> {
    let told = ask(&["--info", device])?;
    let name = ["model_name", "scsi_model_name"].into_iter().find_map(|key| told[key].as_str());
    Ok(name.unwrap_or("a drive without a name").to_owned())
}

/// "4xs3500": the drives of this machine, which are all of one model of the catalogue.
///
/// # Errors
/// Usage, if there is no smartctl, no known drive, or drives of several models.
pub fn drives() -> Result<String, Failure> {
    let found = ask(&["--scan"])?;
    let devices = found["devices"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (mut known, mut unknown) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for device in devices.iter().filter_map(|device| device["name"].as_str()) {
        let model = model(device)?;
        match profile::key_of_model(&model) {
            Some(key) => *known.entry(key).or_default() += 1,
            None => unknown.push(format!("{device} is {model}")),
        }
    }
    let groups: Vec<String> = known.iter().map(|(key, count)| format!("{count}x{key}")).collect();
    match &groups[..] {
        [one] => Ok(one.clone()),
        [] if unknown.is_empty() => {
            Err(Failure::Usage("smartctl finds no drive: name drives of the catalogue, such as --drives 8xp4510".to_owned()))
        }
        [] => Err(Failure::Usage(format!(
            "no drive of this machine is in the catalogue ({}): name one alike, or describe it in a profile",
            unknown.join(", ")
        ))),
        several => Err(Failure::Usage(format!("this machine has {}: name one of them with --drives", several.join(" and ")))),
    }
}
