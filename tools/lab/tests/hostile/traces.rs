//! Untrusted traces.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use stria_lab::trace::{Format, Source};

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn packed(folder: &Path, name: &str, parts: impl Iterator<Item = Vec<u8>>) -> PathBuf {
    let path = folder.join(name);
    let mut packer = GzEncoder::new(std::fs::File::create(&path).expect("a file"), Compression::best());
    parts.for_each(|part| packer.write_all(&part).expect("written"));
    packer.finish().expect("whole");
    path
}

fn refused(path: &Path, format: Format) -> String {
    Source::open(path, format).err().unwrap_or_else(|| panic!("{} is taken", path.display())).to_string()
}

#[test]
fn an_endless_line_and_a_bomb_are_refused_before_they_fill_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let zeros = || (0..160).map(|_| vec![b'0'; 1 << 20]);
    let line = packed(folder.path(), "line.gz", zeros());
    for (_, format) in Format::ALL.into_iter().filter(|(_, format)| *format != Format::Blktrace) {
        let words = refused(&line, format);
        assert!(words.contains("64 KiB"), "{words}");
    }
    refused(&line, Format::Blktrace);
    // A gibibyte of empty lines and comments.
    for (name, line) in [("empty.gz", &b"\n"[..]), ("comments.gz", b"# nothing at all\n")] {
        let lines = packed(folder.path(), name, (0..160).map(|_| line.repeat((1 << 20) / line.len())));
        assert!(refused(&lines, Format::Msr).contains("200 times"), "{name}");
    }
    let plain = file(folder.path(), "plain", &vec![b'1'; 1 << 20]);
    assert!(refused(&plain, Format::Alibaba).contains("64 KiB"));
    for bytes in [&b""[..], b"\xff\xfe\xfd\n", b"\0\0\0\0"] {
        for (_, format) in Format::ALL {
            refused(&file(folder.path(), "odd", bytes), format);
        }
    }
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    assert!(refused(&pipe, Format::Msr).contains("not a plain file"));
    assert!(refused(Path::new("/dev/zero"), Format::Iolog).contains("not a plain file"));
}

/// A number of 5,000 digits was a message of 5,000 letters.
#[test]
fn a_refusal_quotes_a_bounded_part_of_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let digits = "9".repeat(60_000);
    for (format, text) in [
        (Format::Msr, format!("1,h,0,Read,{digits},1,1\n")),
        (Format::Msr, format!("1,h,0,{digits},1,1,1\n")),
        (Format::Alibaba, format!("a,R,1,1,{digits}\n1,R,1,1,{digits}\n")),
        (Format::Tencent, format!("{digits},1,1,0,a\n")),
        (Format::Iolog, format!("fio version 3 iolog\n1 x {digits} 1 1\n")),
        (Format::Iolog, format!("{digits}\n")),
        (Format::MqSim, format!("1 0 {digits} 1 1\n")),
        (Format::DiskSim, format!("1.{digits} 0 1 1 1\n")),
    ] {
        let words = refused(&file(folder.path(), "long", text.as_bytes()), format);
        let at = words.split_once("long, line ").expect("the line").1;
        assert!(
            at.chars().count() < 350 && at.contains("99999") && at.ends_with("; is the format right?"),
            "{format:?}: {words}"
        );
    }
}

/// By a linear search 400,000 volumes would take a quarter of an hour.
#[test]
fn many_volumes_cost_no_more_each_than_few() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = String::new();
    for volume in 0..400_000 {
        let _ = writeln!(text, "{volume},R,4096,4096,{volume}");
    }
    let source = Source::open(&file(folder.path(), "volumes", text.as_bytes()), Format::Alibaba).expect("a trace");
    assert_eq!((source.devices().len(), source.totals().reads), (400_000, 400_000));
    let long = format!("{},R,4096,4096,1\n", "x".repeat(300));
    assert!(refused(&file(folder.path(), "long", long.as_bytes()), Format::Alibaba).contains("255 bytes"));
}

/// A million long names took 961 MB.
#[test]
fn names_of_volumes_are_bounded_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = String::new();
    for volume in 0..200_000 {
        let _ = writeln!(text, "{volume:0200},R,4096,4096,{volume}");
    }
    let words = refused(&file(folder.path(), "names", text.as_bytes()), Format::Alibaba);
    assert!(words.contains("32 MiB together") && words.contains("fewer devices"), "{words}");
}

/// By a linear search for the next of 900 files these events took a quarter of a minute.
#[test]
fn a_trace_of_many_processors_costs_no_more_than_one_of_few() {
    let folder = tempfile::tempdir().expect("a folder");
    let (files, events) = (900_u64, 400);
    for cpu in 0..files {
        let event = |number: u64| {
            let mut event = 0x6561_7407_u32.to_le_bytes().to_vec();
            event.extend(1_u32.to_le_bytes());
            event.extend((number * files + cpu).to_le_bytes());
            event.extend((8 * number).to_le_bytes());
            // A read of 4 KiB is queued.
            [4096_u32, 1, 1, 8 << 20, 0, 0].iter().for_each(|field| event.extend(field.to_le_bytes()));
            event
        };
        file(folder.path(), &format!("sda.blktrace.{cpu}"), &(0..events).flat_map(event).collect::<Vec<u8>>());
    }
    let source = Source::open(&folder.path().join("sda.blktrace.0"), Format::Blktrace).expect("a trace");
    let mut times = 0..files * events;
    source
        .each(&mut |record| {
            assert_eq!(Some(record.time_ns), times.next());
            std::ops::ControlFlow::Continue(())
        })
        .expect("read again");
    assert_eq!(times.next(), None);
}

#[test]
fn numbers_at_the_end_of_their_range_neither_wrap_nor_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let largest = u64::MAX;
    let micro = largest / 1000;
    let cases: &[(Format, String)] = &[
        (Format::Alibaba, format!("a,R,0,4096,{micro}\na,W,{largest},{largest},0\na,W,{largest},{largest},{micro}\n")),
        (Format::Msr, format!("{},h,0,Read,{largest},{largest},0\n0,h,0,Write,{largest},{largest},0\n", largest / 100)),
        (Format::Tencent, format!("{},1,1,0,a\n{},1,1,0,a\n0,1,1,1,a\n", largest / 1_000_000_000, largest / 1_000_000_000)),
        (
            Format::Iolog,
            format!("fio version 3 iolog\n{largest} x read {largest} {largest}\n0 x write 0 {largest}\n1 x read 0 1\n"),
        ),
        (Format::Iolog, format!("fio version 2 iolog\nx wait {largest}\nx read {largest} {largest}\nx wait 0\nx read 0 1\n")),
        (Format::MqSim, format!("{largest}.999999999 0 1 1 1\n0 0 1 1 0\n{largest}.9 0 1 1 0\n")),
        (Format::MqSim, format!("{largest} 0 36028797018963967 36028797018963967 1\n0 0 1 1 0\n")),
        (
            Format::Blkparse,
            format!("8,0 0 1 {}.999999999 1 Q W {} + {} [x]\n", largest / 1_000_000_000, largest / 512, largest / 512),
        ),
    ];
    for (format, text) in cases {
        let path = file(folder.path(), "trace", text.as_bytes());
        // Refused or read; never wrapped: all come in order of time.
        let Ok(source) = Source::open(&path, *format) else { continue };
        let mut last = 0;
        source
            .each(&mut |record| {
                assert!(record.time_ns >= last, "{format:?}: {text}");
                last = record.time_ns;
                std::ops::ControlFlow::Continue(())
            })
            .expect("read again");
        assert!(source.totals().read_bytes >= source.totals().reads, "{format:?}: {text}");
    }
}
