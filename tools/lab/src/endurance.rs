//! The remaining life of drives, and the time of a rebuild.

use crate::result::DriveInfo;
use serde::Serialize;
use serde_json::Value;

/// The wear that a drive reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Smart {
    /// Model, where it is known.
    pub model: Option<String>,
    /// Serial number, where it is known.
    pub serial: Option<String>,
    /// Firmware, where it is known.
    pub firmware: Option<String>,
    /// Capacity.
    pub capacity_bytes: Option<u64>,
    /// Bytes that hosts wrote in its life.
    pub written_bytes: Option<u64>,
    /// Bytes that its flash wrote in its life.
    pub media_written_bytes: Option<u64>,
    /// Life used, in percent of what the maker allows; may exceed 100.
    pub wear_percent: Option<f64>,
    /// Hours under power.
    pub power_on_hours: Option<u64>,
    /// Media and data integrity errors.
    pub media_errors: Option<u64>,
    /// Degrees Celsius.
    pub temperature_c: Option<f64>,
}

/// NVMe counts data in thousands of 512 bytes, rounded up.
const DATA_UNIT: u64 = 512_000;

impl Smart {
    /// Parses the output of `nvme smart-log -o json` or `smartctl -j -a`, for NVMe, SATA or SAS drives.
    ///
    /// # Errors
    /// A sentence, if it is neither.
    pub fn parse(json: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(json).map_err(|error| format!("the SMART figures are not JSON: {error}"))?;
        if value.get("smartctl").is_some() {
            Ok(Self::of_smartctl(&value))
        } else if value.get("data_units_written").is_some() {
            Ok(Self::of_nvme(&value))
        } else {
            Err("the SMART figures are neither from `nvme smart-log -o json` nor from `smartctl -j -a`".into())
        }
    }

    fn of_nvme(log: &Value) -> Self {
        let number = |names: &[&str]| names.iter().find_map(|name| whole(log.get(*name)?));
        let temperature = number(&["temperature"]).map(|degrees| degrees as f64);
        Self {
            written_bytes: number(&["data_units_written"]).map(|units| units * DATA_UNIT),
            wear_percent: number(&["percent_used", "percentage_used"]).map(|percent| percent as f64),
            power_on_hours: number(&["power_on_hours"]),
            media_errors: number(&["media_errors"]),
            // nvme prints kelvin, smartctl degrees Celsius.
            temperature_c: temperature.map(|degrees| if degrees > 200.0 { degrees - 273.0 } else { degrees }),
            ..Self::default()
        }
    }

    fn of_smartctl(all: &Value) -> Self {
        let text = |name: &str| all.get(name).and_then(Value::as_str).map(str::to_string);
        let number = |path: &str| all.pointer(path).and_then(whole);
        let mut smart = all.get("nvme_smart_health_information_log").map_or_else(Self::default, Self::of_nvme);
        smart.model = text("model_name");
        smart.serial = text("serial_number");
        smart.firmware = text("firmware_version");
        smart.capacity_bytes = number("/user_capacity/bytes");
        smart.power_on_hours = smart.power_on_hours.or(number("/power_on_time/hours"));
        smart.temperature_c = number("/temperature/current").map(|degrees| degrees as f64).or(smart.temperature_c);
        if let Some(percent) = number("/scsi_percentage_used_endurance_indicator") {
            smart.wear_percent = Some(percent as f64);
        }
        if let Some(gigabytes) = all.pointer("/scsi_error_counter_log/write/gigabytes_processed") {
            // Decimal, as text: "1234.567".
            let gigabytes = gigabytes.as_f64().or_else(|| gigabytes.as_str()?.parse().ok());
            smart.written_bytes = gigabytes.map(|gigabytes| (gigabytes * 1e9) as u64);
        }
        let sector = number("/logical_block_size").unwrap_or(512);
        let table = all.pointer("/ata_smart_attributes/table").and_then(Value::as_array);
        for attribute in table.into_iter().flatten() {
            smart.ata(attribute, sector);
        }
        smart
    }

    /// One of the attributes of a SATA drive. Their meaning follows from the names that smartctl's drive database gives them.
    fn ata(&mut self, attribute: &Value, sector: u64) {
        let name = attribute.get("name").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
        let Some(raw) = attribute.pointer("/raw/value").and_then(whole) else { return };
        let normal = attribute.get("value").and_then(whole);
        let unit = match () {
            () if name.contains("32mib") => 32 << 20,
            () if name.contains("gib") || name.contains("_gb") => 1 << 30,
            () if name.contains("lba") || name.contains("sector") => sector,
            () => 0,
        };
        let writes = name.contains("writ") && unit > 0;
        if writes && (name.contains("nand") || name.contains("flash")) {
            self.media_written_bytes = Some(raw.saturating_mul(unit));
        } else if writes && (name.contains("total") || name.contains("host")) {
            self.written_bytes = Some(raw.saturating_mul(unit));
        } else if matches!(
            name.as_str(),
            "media_wearout_indicator" | "wear_leveling_count" | "ssd_life_left" | "percent_lifetime_remain"
        ) {
            // Normalised values fall from 100 to 0 as life is used.
            self.wear_percent = normal.map(|left| 100.0 - left.min(100) as f64).or(self.wear_percent);
        } else if matches!(name.as_str(), "reported_uncorrect" | "uncorrectable_error_cnt") {
            self.media_errors = Some(raw);
        }
    }

    /// Fills in the fields that a drive's description lacks.
    pub fn fill(&self, drive: &mut DriveInfo) {
        let fill_text = |into: &mut String, from: &Option<String>| {
            if into.is_empty() {
                into.clone_from(from.as_ref().unwrap_or(&String::new()));
            }
        };
        fill_text(&mut drive.model, &self.model);
        fill_text(&mut drive.serial, &self.serial);
        fill_text(&mut drive.firmware, &self.firmware);
        drive.wear_percent = drive.wear_percent.or(self.wear_percent);
        drive.written_bytes = drive.written_bytes.or(self.written_bytes);
        drive.media_written_bytes = drive.media_written_bytes.or(self.media_written_bytes);
        drive.temperature_c = drive.temperature_c.or(self.temperature_c);
        drive.media_errors = drive.media_errors.or(self.media_errors);
    }
}

/// A whole number, also where it is text or has been given as a float.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).or_else(|| value.as_f64().map(|number| number as u64))
}

/// The life of a drive under a daily load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Bytes that hosts may write in its whole life (TBW): as rated, or estimated from its wear so far.
    pub allowed_bytes: f64,
    /// True if it was estimated.
    pub concluded: bool,
    /// Bytes that may still be written.
    pub left_bytes: f64,
    /// Bytes a day that reach this drive.
    pub daily_bytes: f64,
    /// The same in whole-drive writes per day.
    pub drive_writes_per_day: f64,
    /// The time until the allowance is used up.
    pub years_left: f64,
}

impl Forecast {
    /// For a drive on which hosts' writes arrive as `daily_bytes` a day; on a member of an array these are the clients' writes,
    /// times the write penalty, divided by the members (see [`member_daily_bytes`]). `None` when neither a rating nor wear is
    /// known.
    pub fn of(drive: &DriveInfo, daily_bytes: f64) -> Option<Self> {
        let written = drive.written_bytes.unwrap_or(0) as f64;
        let by_wear =
            || drive.wear_percent.filter(|percent| *percent > 0.0 && written > 0.0).map(|percent| written / percent * 100.0);
        let rated = drive.rated_written_bytes.map(|bytes| bytes as f64);
        let allowed_bytes = rated.or_else(by_wear)?;
        let left_bytes = (allowed_bytes - written).max(0.0);
        Some(Self {
            allowed_bytes,
            concluded: rated.is_none(),
            left_bytes,
            daily_bytes,
            drive_writes_per_day: if drive.size_bytes > 0 { daily_bytes / drive.size_bytes as f64 } else { f64::NAN },
            years_left: if daily_bytes > 0.0 { left_bytes / daily_bytes / DAYS_PER_YEAR } else { f64::INFINITY },
        })
    }
}

const DAYS_PER_YEAR: f64 = 365.25;

/// Bytes a day on each member when clients write `daily_bytes` and every byte of theirs costs `penalty` bytes of member writes.
pub fn member_daily_bytes(daily_bytes: f64, penalty: f64, members: u32) -> f64 {
    daily_bytes * penalty / f64::from(members.max(1))
}

/// The drive writes per day of a rating of `allowed_bytes` over `years`.
pub fn drive_writes_per_day(allowed_bytes: f64, size_bytes: u64, years: f64) -> f64 {
    allowed_bytes / (size_bytes as f64 * years * DAYS_PER_YEAR)
}

/// A drive's own write amplification between two reports; `None` if it does not report the writes of its flash.
pub fn write_amplification(before: &DriveInfo, after: &DriveInfo) -> Option<f64> {
    let host = after.written_bytes?.checked_sub(before.written_bytes?)?;
    let media = after.media_written_bytes?.checked_sub(before.media_written_bytes?)?;
    (host > 0).then(|| media as f64 / host as f64)
}

/// Seconds to fill a member of `member_bytes` at `bytes_per_s`, when clients leave the rebuild `share` (0 to 1) of it.
pub fn rebuild_seconds(member_bytes: u64, bytes_per_s: f64, share: f64) -> f64 {
    member_bytes as f64 / (bytes_per_s * share)
}

#[cfg(test)]
mod tests;
