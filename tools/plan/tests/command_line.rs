//! Goal: `stria-plan` answers in words and in JSON, and says what is wrong with a wish in one sentence and an exit code. Method:
//! the program.

use serde_json::Value;
use std::process::Command;

/// Exit code, standard output and standard error.
fn plan(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_stria-plan")).args(arguments).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

#[test]
fn advice_is_a_table_with_reasons_or_json_with_the_same() {
    let asked = ["advise", "--drives", "4xp4510", "--purpose", "vm", "--requests", "2000", "--strip", "64K"];
    let (code, words, error) = plan(&asked);
    assert_eq!((code, &*error), (0, ""), "{words}");
    assert!(
        words.contains("LEVEL") && words.contains("LOSS A YEAR") && words.contains("NOMDL") && words.contains("RAID 10"),
        "{words}"
    );
    let (code, out, _) = plan(&[&asked[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&out).expect("JSON");
    let first = &told["ranking"][0];
    assert_eq!((code, first["level"].as_str(), first["survives"].as_u64()), (0, Some("RAID 10"), Some(1)), "{out}");
    for number in ["speed", "degraded_speed", "rebuild_hours", "loss_per_year", "usable_bytes"] {
        assert!(first[number].as_f64().is_some_and(|value| value > 0.0), "{number}: {out}");
    }
    let reasons: Vec<&str> = told["reasons"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| words.contains(reason)), "{reasons:?}");
    let lacking = told["unfit"].as_array().expect("a list");
    assert!(lacking.iter().any(|trial| trial["lacks"].as_str() == Some("survives no failure")), "{out}");
}

/// Of two to eight drives on six ports, seven and eight are left out, and the answer says so.
#[test]
fn counts_beyond_the_ports_of_a_platform_are_left_out() {
    let asked = "advise --drives 6-8xs3500 --platform c226 --block 4K --requests 1000 --strip 64K";
    let (code, words, error) = plan(&asked.split(' ').collect::<Vec<_>>());
    assert_eq!((code, &*error), (0, ""), "{words}");
    assert!(words.contains("has 6 ports, too few for 8 drives") && words.contains("Arrays of more are left out."), "{words}");
    let asked = "what-if --drives 6xs3500 --platform c226 --level 10 --block 4K --requests 1000";
    let (code, words, _) = plan(&asked.split(' ').collect::<Vec<_>>());
    assert!(code == 0 && words.contains("drives more: ") || words.contains("one drive more: "), "{words}");
    assert!(words.contains("has 6 ports, too few for"), "{words}");
}

/// Files that are there keep their content until the answer is known, and none is left where a command fails.
#[test]
fn asking_whether_a_file_can_be_written_changes_nothing() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("files");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (there, new) = (folder.join("there.html"), folder.join("new.html"));
    std::fs::write(&there, "content").expect("it can be written");
    for path in [&there, &new] {
        let (code, ..) = plan(&["advise", "--drives", "8xp4510", "--purpose", "games", "--out", path.to_str().expect("text")]);
        assert_eq!(code, 2);
    }
    assert_eq!(std::fs::read_to_string(&there).expect("it is there"), "content");
    assert!(!new.exists());
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn wishes_that_make_no_sense_are_refused_with_a_sentence() {
    let cases = [
        ("advise --drives 8xnonsense --purpose vm", "there is no such drive: choose one of ssd520"),
        ("advise --drives p4510 --purpose vm", "write it like 8xp4510"),
        ("advise --drives 0xP4510 --purpose vm", "0 drives are not modelled: use 1 to 64"),
        ("advise --drives 1000000000xp4510 --purpose vm", "1000000000 drives are not modelled: use 1 to 64"),
        ("advise --drives 1e9xp4510 --purpose vm", "write it like 8xp4510"),
        ("advise --drives -3xp4510 --purpose vm", "write it like 8xp4510"),
        ("advise --drives 8-2xp4510 --purpose vm", "8-2 drives are not a range: use 2-8"),
        ("advise --drives 8xp4510 --purpose vm --spares 99999999999", "99999999999 spares"),
        (
            "advise --drives 8xp4510 --purpose vm --out /nowhere/plan.html",
            "cannot write /nowhere/plan.html: /nowhere is not a folder",
        ),
        ("reproduce --page /nowhere/page.md", "cannot write /nowhere/page.md: /nowhere is not a folder"),
        ("reproduce --csv /", "cannot write /: it is a folder; name a file in it"),
        ("measure --out /nowhere/here.toml", "cannot write /nowhere/here.toml: /nowhere is not a folder"),
        ("campaign . --csv /nowhere/jobs.csv", "cannot write /nowhere/jobs.csv: /nowhere is not a folder"),
        (
            "advise --drives 8xs3500 --purpose vm --platform c226",
            "has 6 ports, too few for 8 drives: take 6 drives at most, or another platform",
        ),
        ("what-if --drives 7xs3500 --level 5 --purpose vm --platform z87", "has 6 ports, too few for 7 drives"),
        ("what-if --drives 7xs3500 --spares 1 --level 5 --purpose vm --platform z87", "has 6 ports, too few for 7 drives"),
        (
            "advise --drives 8xp4510 --purpose vm --price 500 --budget 100",
            "a budget of 100 buys no p4510 at 500 each: use a budget of at least 4000",
        ),
        (
            "advise --drives 3xp4510 --purpose vm --price 0.1 --budget 0.2",
            "a budget of 0.2 buys 2 of p4510 at 0.1 each, and not 3: use fewer drives, or a budget of at least 0.3",
        ),
        ("advise --drives 8xp4510 --block 4K --threads 0", "--threads is 0: use 1 or more"),
        ("advise --drives 999999999999999999999xp4510 --purpose vm", "write it like 8xp4510"),
        ("advise --drives 8xp4510 --purpose vm --platform mars", "there is no such platform: choose one of z87"),
        ("advise --drives 8xp4510 --purpose games", "games"),
        ("advise --drives 8xp4510", "--purpose"),
        // It named the purpose alone, as if nothing else would do.
        ("advise --drives 8xp4510", "--block"),
        ("what-if --drives 8xp4510 --level 5", "--block"),
        // These were taken for options that do not exist.
        ("calc afr -1", "the rate is -1: use a number above 0"),
        ("calc mtbf -5", "the mean time is -5: use a number above 0"),
        ("calc rebuild --capacity-tb -3 --mb-per-s 5", "--capacity-tb is -3: use a number above 0"),
        ("calc usable --level 5 --drives -3 --capacity-tb 4", "\"-3\" is not a whole number that is possible here"),
        ("advise --drives 8xp4510 --block 4K --depth -3", "\"-3\" is not a whole number that is possible here"),
        ("advise --drives 8xp4510 --purpose vm --spares -1", "\"-1\" is not a whole number that is possible here"),
        ("advise --drives 8xp4510 --purpose vm --block 4K", "cannot be used with"),
        ("advise --drives 8xp4510 --block 5000", "multiple of 4K"),
        ("advise --drives 8xp4510 --block 4K --reads 130", "use 0 to 100"),
        ("advise --drives 8xp4510 --block 4K --reads NaN", "use 0 to 100"),
        ("advise --drives 8xp4510 --block 4K --depth 0", "use 1 to 4096"),
        ("advise --drives 8xp4510 --block 4K --depth 32 --threads 5", "cannot be shared by 5 threads evenly"),
        ("advise --drives 8xp4510 --purpose vm --threads 2", "cannot be used with"),
        ("advise --drives 8xp4510 --purpose vm --strip 48K", "invalid strip size 48K"),
        ("advise --drives 8xp4510 --purpose vm --strip 100", "invalid strip size of 100 bytes"),
        ("advise --drives 8xp4510 --purpose vm --capacity much", "is not a size"),
        ("advise --drives 2xp4510 --purpose vm --spares 2", "make no array"),
        ("advise --drives 8xp4510 --purpose vm --replace-hours -1", "--replace-hours"),
        ("advise --drives 8x/nowhere/my.toml --purpose vm", "cannot read the profile /nowhere/my.toml"),
        ("advise --drives 8xp4510 --purpose vm --budget 0 --price 5", "--budget is 0: use a number above 0"),
        ("advise --drives 8xp4510 --purpose vm --budget 100", "a budget needs the price of a drive"),
        ("advise --drives 8xp4510 --purpose vm --price -3", "--price is -3: use a number above 0"),
        ("advise --drives 8xp4510 --purpose vm --written-a-day 0", "--written-a-day is 0"),
        ("advise --drives 8xp4510 --purpose vm --scrub-days -1", "--scrub-days is -1"),
        ("advise --drives 8xp4510 --purpose vm --scrub-days 1e300", "use 0 to 3650"),
        ("advise --drives 8xp4510 --purpose vm --replace-hours 1e300", "--replace-hours is 1e300: use 0 to 87600"),
        ("advise --drives 8xp4510 --purpose vm --replace-hours NaN", "--replace-hours is NaN"),
        ("advise --drives 8xp4510 --purpose vm --price 1e308", "at most 1000000000000"),
        ("advise --drives 8xp4510 --purpose vm --price 1 --budget inf", "--budget is inf"),
        ("calc rebuild --capacity-tb 4 --mb-per-s 500 --bits-per-error 0.5", "--bits-per-error is 0.5: give how many bits"),
        ("what-if --drives 2xp4510 --purpose vm --level 1 --strip 0", "invalid strip size 0K"),
        ("what-if --drives 2xp4510 --purpose vm --level 1 --strip 48K", "invalid strip size 48K"),
        ("calc rebuild --capacity-tb 1e300 --mb-per-s 1e-300", "--capacity-tb is 1e300: use"),
        ("what-if --drives 2-8xp4510 --purpose vm --level 5", "give one count"),
        ("what-if --drives 1xp4510 --purpose vm --level 1", "Stria makes RAID 1 over 1 drives, but it is not modelled"),
        ("what-if --drives 5xs3500 --platform c226 --purpose vm --level 10", "ask for an even number of drives"),
        ("what-if --drives 4xp4510 --purpose vm --level 5 --strip 48K", "invalid strip size 48K"),
        ("what-if --drives 4xp4510 --purpose vm --level 5 --strip 32K --strip 64K", "give one --strip"),
        ("what-if --drives 4xd3700 --purpose vm --level 6 --platform d3700-host", "cannot be modelled on"),
        ("calc usable --level 6 --drives 3 --capacity-tb 4", "4 to 255 members"),
        ("calc usable --level 50 --drives 6 --capacity-tb 4 --spans 9223372036854775807", "use at most 384 spans"),
        ("calc usable --level 50 --drives 6 --capacity-tb 4 --spans 1", "--spans is 1: use 2 or more, or --level 5"),
        ("calc usable --level 10 --drives 6 --capacity-tb 4 --spans 2", "RAID 10 has no spans: leave out --spans"),
        ("what-if --drives 6xp4510 --purpose vm --level 5 --spans 2", "RAID 5 has no spans: leave out --spans"),
        ("what-if --drives 8xp4510 --purpose vm --level 60 --spans 0", "--spans is 0: use 2 or more, or --level 6"),
        (
            "what-if --drives 3xp4510 --purpose vm --level 1 --platform p4510-md",
            "nothing is published about more than two copies",
        ),
        ("advise --drives 8xp4510 --purpose vm --scrub-days 0", "--scrub-days is 0: use a number above 0, or 3650"),
        ("calc rebuild --capacity-tb 4 --mb-per-s 500 --read-drives 0", "0 is not in 1"),
        ("advise --drives 4xp4510 --purpose media --written-a-day 1TB", "as the purpose writes nothing: leave it out"),
        ("advise --drives 4xsavvio10k5 --purpose vm --written-a-day 1TB", "as the wear of hard disks is not modelled"),
        ("what-if --drives 4xp4510 --level 5 --purpose media --written-a-day 1TB", "as the purpose writes nothing: leave it out"),
        ("calc endurance --tbw=-1 --years 5", "--tbw"),
        ("calc rebuild --capacity-tb 4TB --mb-per-s 500", "\"4TB\" is not a number: write it without a unit, as in 4 or 0.5"),
        ("calc mtbf long", "\"long\" is not a number"),
        ("calc usable --level 6 --drives many --capacity-tb 4", "\"many\" is not a whole number"),
        ("advise --drives 8xp4510 --purpose vm --price 800 --budget 5k", "\"5k\" is not a number"),
        ("advise --drives 8xp4510 --purpose vm --survive two", "\"two\" is not a whole number"),
        ("what-if --drives 6xp4510 --purpose vm --level 50 --spans two", "\"two\" is not a whole number"),
        ("advise --drives 4xp4510,4xd3700 --purpose vm", "names drives of several models, which are not planned together"),
    ];
    for (line, sentence) in cases {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (code, out, error) = plan(&arguments);
        assert_eq!((code, &*out), (2, ""), "{line}: {error}");
        assert!(error.contains(sentence), "{line}: {error}");
        let (code, out, _) = plan(&[&arguments[..], &["--json"]].concat());
        let told: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{line}: JSON, not {out}"));
        assert_eq!((code, told["error"]["exit_code"].as_u64()), (2, Some(2)), "{line}: {out}");
    }
}

#[test]
fn a_wish_that_no_array_fulfils_fails_with_what_comes_nearest() {
    let line = "advise --drives 4xs3500 --purpose media --capacity 10TB --requests 1000 --strip 64K";
    let (code, out, error) = plan(&line.split(' ').collect::<Vec<_>>());
    assert_eq!((code, &*out), (1, ""));
    assert!(
        error.contains("no array of 4 x s3500 holds 10.0 TB") && error.contains("survives as many holds 1.44 TB;"),
        "{error}"
    );
}

/// A machine as smartctl describes it: a program in its place that answers with what the models say.
fn plan_here(name: &str, models: &[&str]) -> (i32, String, String) {
    let devices: Vec<Value> = (0..models.len()).map(|index| serde_json::json!({ "name": format!("/dev/sd{index}") })).collect();
    let mut script = format!("#!/bin/sh\ncase \"$*\" in\n*--scan) echo '{}' ;;\n", serde_json::json!({ "devices": devices }));
    for (index, model) in models.iter().enumerate() {
        script += &format!("*/dev/sd{index}) echo '{}'; exit 4 ;;\n", serde_json::json!({ "model_name": model }));
    }
    plan_with(name, &(script + "esac\n"))
}

/// An advice for `here`, with a script in the place of smartctl.
fn plan_with(name: &str, script: &str) -> (i32, String, String) {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join("smartctl");
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let line = ["advise", "--drives", "here", "--purpose", "media", "--requests", "1000", "--strip", "64K"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_stria-plan"));
    let output = command.args(line).env("PATH", &folder).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

#[test]
fn drives_of_this_machine_are_those_that_smartctl_names() {
    let (code, words, error) = plan_here("four", &["INTEL SSDSC2BB480G4"; 4]);
    assert!(code == 0 && words.contains("Intel SSD DC S3500 480 GB") && words.contains("RAID 5"), "{words}{error}");
    for (name, models, sentence) in [
        ("none", &[][..], "smartctl finds no drive"),
        ("strange", &["QEMU HARDDISK"], "no drive of this machine is in the catalogue (/dev/sd0 is QEMU HARDDISK)"),
        ("mixed", &["INTEL SSDSC2BB480G4", "INTEL SSDPE2KX040T8"], "this machine has 1xp4510 and 1xs3500"),
    ] {
        let (code, out, error) = plan_here(name, models);
        assert_eq!((code, &*out), (2, ""), "{name}: {error}");
        assert!(error.contains(sentence), "{name}: {error}");
    }
    let line = ["advise", "--drives", "here", "--purpose", "media"];
    let output = Command::new(env!("CARGO_BIN_EXE_stria-plan")).args(line).env("PATH", "/nowhere").output().expect("it starts");
    assert!(output.status.code() == Some(2) && String::from_utf8_lossy(&output.stderr).contains("install smartmontools"));
}

/// Drives behind a controller share a name and differ in type. The message names the drives that are left out, and the cause that
/// smartctl reports.
#[test]
fn drives_that_smartctl_cannot_read_or_nobody_knows_are_named() {
    let device = |name: &str, kind: &str| serde_json::json!({ "name": name, "type": kind });
    let answers = |devices: &[Value], drives: &[(&str, Value)]| {
        let mut script = format!("#!/bin/sh\ncase \"$*\" in\n*--scan) echo '{}' ;;\n", serde_json::json!({ "devices": devices }));
        for (arguments, answer) in drives {
            script += &format!("*\"{arguments}\") echo '{answer}'; exit 2 ;;\n");
        }
        script + "*) echo '{}' ;;\nesac\n"
    };
    let denied = serde_json::json!({ "smartctl": { "messages": [
        { "string": "Smartctl open device: /dev/sda failed: Permission denied", "severity": "error" }
    ] } });
    let model = |model: &str| serde_json::json!({ "model_name": model });
    let script = answers(&[device("/dev/sda", "scsi")], &[("--device scsi /dev/sda", denied.clone())]);
    let (code, _, error) = plan_with("denied", &script);
    assert!(code == 2 && error.contains("Permission denied") && error.contains("run this as root"), "{error}");
    let bus = [device("/dev/bus/0", "megaraid,8"), device("/dev/bus/0", "megaraid,9"), device("/dev/sda", "scsi")];
    let script = answers(
        &bus,
        &[
            ("--device megaraid,8 /dev/bus/0", model("INTEL SSDSC2BB480G4")),
            ("--device megaraid,9 /dev/bus/0", model("INTEL SSDSC2BB480G4")),
            ("--device scsi /dev/sda", model("QEMU HARDDISK")),
        ],
    );
    let (code, words, error) = plan_with("megaraid", &script);
    assert!(code == 0 && words.contains("RAID 1 ") && words.contains("S3500"), "{words}{error}");
    assert!(error.contains("planned with 2xs3500") && error.contains("/dev/sda is QEMU HARDDISK"), "{error}");
}

/// A profile of one's own: the P4510's, with flash that is read in half the time.
#[test]
fn a_drive_of_ones_own_is_planned_with() {
    let text = include_str!("../profiles/drives/p4510.toml").replace("read_ns = [72_000,", "read_ns = [36_000,");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("own.toml");
    std::fs::write(&path, text).expect("a file");
    let reads = |drive: &str| {
        let drives = format!("2x{drive}");
        let line =
            ["advise", "--drives", &drives, "--block", "4K", "--reads", "100", "--depth", "1", "--requests", "2000", "--json"];
        let (code, out, error) = plan(&line);
        assert_eq!(code, 0, "{error}");
        let told: Value = serde_json::from_str(&out).expect("JSON");
        told["ranking"][0]["loads"][0]["iops"].as_f64().expect("a number")
    };
    assert!(reads(path.to_str().expect("text")) > 1.5 * reads("p4510"));
    std::fs::write(&path, "name = 'x'").expect("a file");
    let (code, _, error) = plan(&["advise", "--drives", &format!("2x{}", path.display()), "--purpose", "vm"]);
    assert!(code == 2 && error.contains("neither a table [ssd] nor [hdd]"), "{error}");
}

/// Parameters that a model cannot have are refused before it runs: no panic, no division by zero, no run without end.
#[test]
fn profiles_that_cannot_be_modelled_are_refused() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let refused = |option: &str, text: &str, sentence: &str| {
        let path = folder.join("refused.toml");
        std::fs::write(&path, text).expect("a file");
        let path = path.to_str().expect("text");
        let (drives, platform) = if option == "drives" { (format!("4x{path}"), "stria") } else { ("4xp4510".to_owned(), path) };
        let (code, out, error) = plan(&["advise", "--drives", &drives, "--platform", platform, "--purpose", "vm"]);
        assert_eq!((code, &*out), (2, ""), "{text}: {error}");
        assert!(error.contains(sentence) && error.trim().lines().count() == 1, "{text}: {error}");
    };
    refused("platform", "", "it has no name: write name = \"…\" in the first line");
    refused("platform", "name = 'x'", "it has no table [platform]");
    refused("platform", "name = 'x'\n[platform\n", "line 2");
    for (parameter, sentence) in [
        ("serial_ns = [99999999999999999, 'sheet', 'x']", "serial_ns is 99999999999999999"),
        ("link_read_bytes_per_s = [0, 'sheet', 'x']", "link_read_bytes_per_s is 0"),
        ("port_bytes_per_s = [[0], 'sheet', 'x']", "port_bytes_per_s is 0"),
        ("ceilings = [{ read = 0 }, 'sheet', 'x']", "ceilings.read is 0"),
        ("write_back_bytes = [9000000000000000000, 'sheet', 'x']", "write_back_bytes is 9000000000000000000"),
        ("serial_ns = [-5, 'sheet', 'x']", "-5"),
        ("serial_ns = 5", "serial_ns is not [value, kind, source]"),
    ] {
        refused("platform", &format!("name = 'x'\n[platform]\n{parameter}\n"), sentence);
    }
    let drive = include_str!("../profiles/drives/p4510.toml");
    let disk = include_str!("../profiles/drives/savvio10k5.toml");
    for (text, from, to, sentence) in [
        (drive, "read_ns = [72_000,", "read_ns = [9_000_000_000_000_000_000,", "read_ns is 9000000000000000000"),
        (drive, "dies = [64,", "dies = [4_000_000_000,", "dies is 4000000000"),
        (drive, "block_programs = [256,", "block_programs = [4_000_000_000,", "block_programs is 4000000000"),
        (drive, "program_bytes = [65_536,", "program_bytes = [4_503_599_627_370_496,", "program_bytes is 4503599627370496"),
        (drive, "slots = [4096,", "slots = [0,", "slots"),
        (disk, "turn_ns = [6_000_000,", "turn_ns = [9_000_000_000_000_000_000,", "turn_ns is 9000000000000000000"),
        (
            disk,
            "outer_bytes_per_s = [168_000_000,",
            "outer_bytes_per_s = [9_000_000_000_000_000_000,",
            "outer_bytes_per_s is 9000000000000000000",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        refused("drives", &text.replace(from, to), sentence);
    }
}

/// A page and an explanation beside the table; the same figures in all.
#[test]
fn an_answer_is_a_page_as_well() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plan.html");
    let out = path.to_str().expect("text");
    let line = [
        "advise",
        "--drives",
        "4xp4510",
        "--purpose",
        "vm",
        "--requests",
        "2000",
        "--strip",
        "64K",
        "--price",
        "900",
        "--explain",
        "--out",
        out,
    ];
    let (code, words, error) = plan(&line);
    assert_eq!((code, &*error), (0, ""), "{words}");
    let page = std::fs::read_to_string(&path).expect("a page");
    for word in ["NOMDL", "3600", "LOSS BY FORMULA", "standard error"] {
        assert!(words.contains(word) && page.contains(word), "{word}: {words}");
    }
    assert!(words.contains("PRICE") && page.contains("<svg"), "{words}");
    let (code, _, error) = plan(&[&line[..line.len() - 1], &["/nowhere/plan.html"]].concat());
    assert!(code == 2 && error.contains("/nowhere/plan.html"), "{error}");
}

#[test]
fn what_if_is_a_table_or_json() {
    let asked = ["what-if", "--drives", "4xp4510", "--level", "5", "--purpose", "vm", "--requests", "2000"];
    let (code, words, error) = plan(&asked);
    assert_eq!((code, &*error), (0, ""), "{words}");
    for word in ["this array", "one drive more", "half the strip", "a failed drive", "twice the load", "AGAINST THIS", " ±"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    let (code, out, _) = plan(&[&asked[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&out).expect("JSON");
    let variants = told["variants"].as_array().expect("a list");
    assert_eq!((code, variants.len(), variants[0]["against_this"].as_f64()), (0, 6, Some(1.0)), "{out}");
    let spread = |variant: &Value| variant["against_this_spread"].as_f64();
    assert!(spread(&variants[0]) == Some(0.0) && spread(&variants[1]).is_some_and(|spread| spread > 0.0), "{out}");
    // The table left out the costs that were asked for.
    let (code, words, error) = plan(&[&asked[..], &["--price", "449.5", "--written-a-day", "100GB"]].concat());
    assert!(
        code == 0 && ["WEAR", " y ", "PRICE", "1798", "until 100 GB a day"].iter().all(|word| words.contains(word)),
        "{words}{error}"
    );
    assert!(words.contains("read at 1.35 GB an hour, whatever the purpose"), "{words}");
    // An array that lacks a drive had the risk and the wear of the whole one.
    let figures = |change: &str| &variants.iter().find(|variant| variant["change"] == change).expect("it is there")["figures"];
    for name in ["loss_per_year", "loss_per_year_by_law", "mttdl_years", "simulated_loss", "wear", "degraded_speed"] {
        assert!(figures("this array").get(name).is_some_and(|value| !value.is_null()), "{name}: {out}");
        assert!(figures("a failed drive").get(name).is_some_and(Value::is_null), "{name}: {out}");
    }
}

#[test]
fn help_names_the_commands_and_the_catalogue_the_drives() {
    let (code, out, _) = plan(&["--help"]);
    assert!(code == 0 && ["advise", "what-if", "catalogue", "calc", "reproduce"].iter().all(|word| out.contains(word)), "{out}");
    let (code, out, _) = plan(&["catalogue"]);
    assert!(code == 0 && out.contains("p4510") && out.contains("Stria on Linux"), "{out}");
    assert!(out.contains("\n\nPLATFORM") && out.ends_with("one lane\n"), "each table ends its last line: {out}");
}

/// This machine as a platform: times above 0, in a profile with its source, with which an array is planned. The slower the
/// processor, the slower the array.
#[test]
fn this_machine_is_measured_and_planned_with() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("here.toml");
    let out = path.to_str().expect("text");
    let (code, words, error) = plan(&["measure", "--out", out, "--seconds", "1"]);
    assert!(code == 0 && words.contains(&format!("--platform {out}")), "{words}{error}");
    let text = std::fs::read_to_string(&path).expect("a profile");
    assert!(text.contains("measured") && text.contains("serial_ns") && text.contains("median of 7 rounds"), "{text}");
    let serial = |text: &str| {
        let table: toml::Table = text.parse().expect("TOML");
        table["platform"]["serial_ns"][0].as_integer().expect("a number")
    };
    assert!(serial(&text) > 0);
    let reads = |platform: &str| {
        let line = ["advise", "--drives", "4xp4510", "--platform", platform, "--block", "4K", "--reads", "100", "--depth", "256"];
        let (code, out, error) =
            plan(&[&line[..], &["--strip", "64K", "--survive", "0", "--requests", "2000", "--json"]].concat());
        assert_eq!(code, 0, "{error}");
        let told: Value = serde_json::from_str(&out).expect("JSON");
        told["ranking"][0]["loads"][0]["iops"].as_f64().expect("a number")
    };
    let slow = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("slow.toml");
    let mut table: toml::Table = text.parse().expect("TOML");
    table["platform"]["serial_ns"][0] = toml::Value::Integer(20_000);
    std::fs::write(&slow, table.to_string()).expect("a file");
    assert!(reads(slow.to_str().expect("text")) < 52_000.0 && reads(out) > 0.0);
    let (code, _, error) = plan(&["advise", "--drives", "4xp4510", "--purpose", "vm", "--platform", "/nowhere/here.toml"]);
    assert!(code == 2 && error.contains("cannot read the profile /nowhere/here.toml"), "{error}");
}

/// A calibration that was kept is applied where that is asked for, and said; without one, the sentence says how to make one.
#[test]
fn models_are_corrected_by_what_was_measured_here() {
    let state = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("state");
    let _ = std::fs::remove_dir_all(&state);
    let asked = |more: &[&str]| {
        let line = [
            "advise",
            "--drives",
            "2xs3500",
            "--block",
            "4K",
            "--reads",
            "100",
            "--strip",
            "64K",
            "--requests",
            "2000",
            "--survive",
            "0",
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_stria-plan"));
        let output = command.args(line).args(more).env("XDG_STATE_HOME", &state).output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, _, error) = asked(&["--calibrated"]);
    assert!(
        code == Some(2) && error.contains("no calibration of s3500 on stria") && error.contains("--verify-plan s3500@stria"),
        "{error}"
    );
    let kind = stria_plan::calibration::Kind {
        reads: true,
        mixed: false,
        random: true,
        alone: false,
        redundancy: stria_plan::calibration::Redundancy::None,
    };
    let pairs = [stria_plan::calibration::Pair { kind, measured: 50.0, modelled: 100.0 }];
    let kept = stria_plan::calibration::Calibration::of("s3500", "stria", "a slow machine", &pairs);
    std::fs::create_dir_all(state.join("stria")).expect("a folder");
    let path = state.join("stria").join(stria_plan::calibration::file_name("s3500", "stria"));
    std::fs::write(path, serde_json::to_vec(&kept).expect("plain data")).expect("a file");
    let iops = |more: &[&str]| {
        let (code, out, error) = asked(&[more, &["--json"]].concat());
        assert_eq!(code, Some(0), "{error}");
        let told: Value = serde_json::from_str(&out).expect("JSON");
        told["ranking"][0]["loads"][0]["iops"].as_f64().expect("a number")
    };
    assert!((iops(&["--calibrated"]) / iops(&[]) - 0.5).abs() < 1e-9);
    let (_, words, _) = asked(&["--calibrated", "--explain"]);
    assert!(words.contains("calibrated: a slow machine") && words.contains("CALIBRATION"), "{words}");
}

/// The keys were the names of the text, without the unit that stood behind the value there.
#[test]
fn a_figure_in_json_has_its_unit_in_its_key() {
    let cases: [(&str, &[&str]); 6] = [
        (
            "calc endurance --tbw 100 --years 10 --capacity-gb 1000",
            &["drive_writes_per_day", "written_per_day_gb", "written_per_month_gb", "written_per_year_gb"],
        ),
        ("calc tbw --dwpd 1 --capacity-gb 1000 --years 5", &["written_tb"]),
        ("calc mtbf 1500000", &["annual_failure_rate_percent", "mtbf_days", "mtbf_years"]),
        ("calc afr 0.5", &["mtbf_hours"]),
        ("calc rebuild --capacity-tb 8 --mb-per-s 500", &["rebuild_hours", "unreadable_sector_percent"]),
        ("calc usable --level 6 --drives 8 --capacity-tb 4", &["usable_percent", "usable_tb"]),
    ];
    for (line, keys) in cases {
        let (code, out, error) = plan(&[&line.split(' ').collect::<Vec<_>>()[..], &["--json"]].concat());
        let told: serde_json::Map<String, Value> = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{line}: {out} {error}"));
        let mut found: Vec<&str> = told.keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!((code, &found[..]), (0, keys), "{line}");
    }
    let (_, out, _) = plan(&["calc", "usable", "--level", "6", "--drives", "8", "--capacity-tb", "4", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&out).expect("JSON"),
        serde_json::json!({"usable_tb": 24.0, "usable_percent": 75.0})
    );
}
