//! Goal: a name on a drive that anybody may plug in commands no terminal, forges no line and reaches no file; JSON tells it as it
//! is. Method: members whose names are changed, with their checksums put right, are asked everything by the real program.

#[path = "support/member_name.rs"]
mod member_name;
mod support;

use member_name::rename;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use support::Place;

/// Of at most 31 bytes each.
const NAMES: [&str; 9] = [
    "a\tb|c",
    "x\ncontrol /tmp/evil",
    "a\x1b[2J\x1b]0;owned\x07",
    "t\u{202e}knat\u{2066}",
    "t\u{34f}a\u{a0}n\u{2800}k\u{3000}\u{fdd0}",
    "c\u{9b}2J\r\u{8}\u{85}",
    "z\u{336}\u{336}\u{336}\u{336}\u{336}\u{336}\u{336}",
    "../../../tmp/evil \"; rm",
    "x nbd+unix:///?socket=/e kind=x",
];

/// Nothing but visible characters and line ends, and no line that a name began.
fn harmless(text: &str) {
    let bad = |char: char| {
        let number = u32::from(char);
        char.is_control() && char != '\n'
            || matches!(number, 0x202a..=0x202e | 0x2066..=0x2069 | 0x34f | 0xa0 | 0x2800 | 0x3000 | 0xfdd0)
    };
    assert!(!text.contains(bad), "{text:?}");
    assert!(text.lines().all(|line| !line.starts_with("control /tmp/evil")), "{text:?}");
    assert!(!text.contains(&"\u{336}".repeat(4)), "{text:?}");
}

#[test]
fn names_on_drives_are_shown_and_not_obeyed() {
    for name in NAMES {
        let place = Place::new();
        let images = place.images(3, 16 << 20);
        place.ok(&["create", "tank", "--level", "1", "--assume-clean", &images[0], &images[1]]);
        images[..2].iter().for_each(|image| rename(image, name));
        for command in [
            &["examine", &images[0]][..],
            &["examine", "--raw", &images[0]],
            &["assemble", &images[0], &images[1], &images[2]],
            &["assemble", "nobody", &images[0]],
            &["create", "other", "--level", "1", &images[0], &images[2]],
            &["create", name, "--level", "1", &images[2], "missing"],
            &["status", name],
        ] {
            for json in [false, true] {
                let all: Vec<&str> = ["--json"].into_iter().filter(|_| json).chain(command.iter().copied()).collect();
                let ran = place.run(&all);
                harmless(&ran.stderr);
                harmless(&ran.stdout);
                if json {
                    // What was found, and then perhaps what was wrong with it.
                    let values = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<serde_json::Value>();
                    values.for_each(|value| drop(value.unwrap_or_else(|error| panic!("{error}: {ran:?}"))));
                }
            }
        }
        let told: serde_json::Value =
            serde_json::from_str(&place.ok(&["--json", "assemble", &images[0], &images[1]])).expect("JSON");
        assert_eq!(told["arrays"][0]["name"], name);

        // The folder of sockets is this place, and what lies there are plain files of the array alone.
        let mut serve = place.command(&["serve", &images[0], &images[1]]);
        serve.env_remove("STRIA_SOCKET").env("XDG_RUNTIME_DIR", place.path("run"));
        std::fs::create_dir_all(place.path("run")).expect("a folder");
        serve.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut served = serve.spawn().expect("the program starts");
        let mut out = std::io::BufReader::new(served.stdout.take().expect("a pipe"));
        let mut lines = [String::new(), String::new()];
        for line in &mut lines {
            std::io::BufRead::read_line(&mut out, line).expect("a line");
            harmless(line);
        }
        assert!(lines[0].starts_with("nbd ") && lines[1].starts_with("control "), "{lines:?}");
        let fields: Vec<&str> = lines[0].split_whitespace().collect();
        assert!(fields.len() == 3 && fields[2].contains("/run/stria/"), "a blank in a name begins no field: {fields:?}");
        let socket = lines[1].trim_start_matches("control ").trim_end();
        let file = Path::new(socket).file_name().expect("a file").to_str().expect("plain");
        assert_eq!(Path::new(socket).parent(), Some(&*place.path("run/stria")));
        assert!(file.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char)), "{file}");
        let mut metrics = String::new();
        let mut connection = UnixStream::connect(socket).expect("it listens");
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it takes a request");
        connection.read_to_string(&mut metrics).expect("text");
        assert!(metrics.contains("stria_array_state{array="), "{metrics}");
        harmless(&metrics.replace("\r\n", "\n"));
        for arguments in [
            &["fail", name, &images[1], "--force"][..],
            &["status"],
            &["--json", "status"],
            &["status", "-v"],
            &["status", "--mdstat"],
            &["status", "--nagios"],
            &["explain"],
            &["events"],
            &["alarm"],
            &["health"],
            &["scrub", name],
            &["stop"],
        ] {
            let mut command = place.command(arguments);
            let ran = command.env("STRIA_SOCKET", socket).output().expect("the program starts");
            harmless(&String::from_utf8(ran.stdout).expect("text"));
            harmless(&String::from_utf8(ran.stderr).expect("text"));
        }
        let log = served.wait_with_output().expect("it ends");
        assert!(log.status.success());
        let log = String::from_utf8(log.stderr).expect("text");
        harmless(&log);
        let fields = |line: &str| line.rsplit_once(" array=").is_some_and(|(_, fields)| fields.split(' ').count() != 2);
        assert!(!log.lines().any(fields), "a blank in a name begins no field: {log}");
    }
}

/// A path need be no text, nor one line.
#[test]
fn paths_of_drives_are_shown_and_stay_json() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let image = &place.images(1, 16 << 20)[0];
    for bytes in [&b"d\xff\xfe.img"[..], b"d\ncontrol \x1b[2J"] {
        let path = place.path("").join(std::ffi::OsStr::from_bytes(bytes));
        std::fs::copy(image, &path).expect("a copy");
        for json in [false, true] {
            let mut command = place.command(if json { &["--json", "examine"] } else { &["examine"] });
            let ran = command.arg(&path).output().expect("the program starts");
            assert!(ran.status.success(), "{ran:?}");
            let text = String::from_utf8(ran.stdout).expect("text");
            harmless(&text);
            assert!(!json || serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        }
        let ran = place.command(&["serve"]).arg(&path).output().expect("the program starts");
        harmless(&String::from_utf8(ran.stderr).expect("text"));
    }
}
