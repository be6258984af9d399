//! Published examples of endurance and rebuild arithmetic; SMART figures as the tools print them.

use super::*;

fn close(left: f64, right: f64, part: f64) {
    assert!((left - right).abs() <= right.abs() * part, "{left} is not {right}");
}

#[test]
fn published_examples_come_out() {
    // 100 TBW over 10 years: 10 TB a year, 27 GB a day.
    let drive = DriveInfo { rated_written_bytes: Some(100_000_000_000_000), size_bytes: 250_000_000_000, ..DriveInfo::default() };
    let forecast = Forecast::of(&drive, 27.4e9).expect("rated");
    close(forecast.years_left, 10.0, 0.01);
    close(forecast.drive_writes_per_day, 0.1096, 0.001);
    close(drive_writes_per_day(100e12, 250_000_000_000, 10.0), 0.1095, 0.001);
    // 8 TB at 500 MB/s takes about 4.5 h, 16 TB twice that; with half the speed left for it twice again.
    close(rebuild_seconds(8_000_000_000_000, 500e6, 1.0) / 3600.0, 4.44, 0.01);
    close(rebuild_seconds(16_000_000_000_000, 500e6, 0.5) / 3600.0, 17.8, 0.01);
    // RAID 5 small writes double what members write: 100 GB a day on four members are 50 GB on each.
    close(member_daily_bytes(100e9, 2.0, 4), 50e9, 1e-12);
}

#[test]
fn nvme_smart_log_is_read_in_both_spellings() {
    let old = r#"{"critical_warning":0,"temperature":310,"avail_spare":100,"percent_used":3,"data_units_read":1000,
        "data_units_written":2000000,"media_errors":1,"power_on_hours":8760}"#;
    let smart = Smart::parse(old).expect("a log");
    assert_eq!((smart.written_bytes, smart.wear_percent, smart.temperature_c), (Some(1_024_000_000_000), Some(3.0), Some(37.0)));
    assert_eq!((smart.media_errors, smart.power_on_hours), (Some(1), Some(8760)));
    let new = old.replace("\"percent_used\":3", "\"percentage_used\":\"3\"").replace("2000000", "\"2000000\"");
    assert_eq!(Smart::parse(&new).expect("a log"), smart);
}

#[test]
fn smartctl_is_read_for_nvme_sata_and_sas() {
    let nvme = r#"{"smartctl":{"version":[7,3]},"model_name":"SSD A","serial_number":"S1","firmware_version":"F1",
        "user_capacity":{"blocks":1,"bytes":800166076416},"temperature":{"current":41},"power_on_time":{"hours":12},
        "nvme_smart_health_information_log":{"percentage_used":7,"data_units_written":100,"media_errors":0,"temperature":41}}"#;
    let smart = Smart::parse(nvme).expect("figures");
    assert_eq!((smart.written_bytes, smart.wear_percent), (Some(51_200_000), Some(7.0)));
    assert_eq!(
        (smart.model.as_deref(), smart.capacity_bytes, smart.power_on_hours),
        (Some("SSD A"), Some(800_166_076_416), Some(12))
    );
    let sata = r#"{"smartctl":{},"logical_block_size":512,"ata_smart_attributes":{"table":[
        {"id":177,"name":"Wear_Leveling_Count","value":94,"raw":{"value":120}},
        {"id":241,"name":"Total_LBAs_Written","value":99,"raw":{"value":2000000000}},
        {"id":249,"name":"NAND_Writes_1GiB","value":100,"raw":{"value":2000}},
        {"id":194,"name":"Temperature_Celsius","value":70,"raw":{"value":30}}]}}"#;
    let smart = Smart::parse(sata).expect("figures");
    assert_eq!((smart.written_bytes, smart.wear_percent), (Some(1_024_000_000_000), Some(6.0)));
    assert_eq!(smart.media_written_bytes, Some(2000 << 30));
    let intel = sata.replace("Total_LBAs_Written", "Host_Writes_32MiB").replace("2000000000", "1000");
    assert_eq!(Smart::parse(&intel).expect("figures").written_bytes, Some(1000 << 25));
    let sas = r#"{"smartctl":{},"scsi_percentage_used_endurance_indicator":11,
        "scsi_error_counter_log":{"write":{"gigabytes_processed":"1234.5"}}}"#;
    let smart = Smart::parse(sas).expect("figures");
    assert_eq!((smart.written_bytes, smart.wear_percent), (Some(1_234_500_000_000), Some(11.0)));
    assert!(Smart::parse("{}").is_err() && Smart::parse("smart").is_err());
}

#[test]
fn wear_tells_the_allowance_where_no_rating_does() {
    let mut drive = DriveInfo { size_bytes: 1_000_000_000_000, ..DriveInfo::default() };
    assert_eq!(Forecast::of(&drive, 1e9), None);
    Smart { written_bytes: Some(30_000_000_000_000), wear_percent: Some(5.0), ..Smart::default() }.fill(&mut drive);
    let forecast = Forecast::of(&drive, 100e9).expect("worn");
    assert!(forecast.concluded);
    close(forecast.allowed_bytes, 600e12, 1e-9);
    close(forecast.left_bytes, 570e12, 1e-9);
    close(forecast.years_left, 570e12 / 100e9 / 365.25, 1e-9);
}

#[test]
fn flash_writes_over_host_writes_are_the_drives_own_amplification() {
    let look = |host, media| DriveInfo { written_bytes: Some(host), media_written_bytes: media, ..DriveInfo::default() };
    assert_eq!(write_amplification(&look(100, Some(500)), &look(300, Some(1000))), Some(2.5));
    assert_eq!(write_amplification(&look(100, None), &look(300, None)), None);
    assert_eq!(write_amplification(&look(100, Some(5)), &look(100, Some(5))), None);
}
