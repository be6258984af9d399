//! Each reader gets a small sample made by hand, whose content is known.

use super::*;
use std::io::Write;

fn sample(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a sample");
    (folder, path)
}

fn parse(format: Format, text: &str) -> Result<Trace, TraceError> {
    let (_folder, path) = sample("trace", text.as_bytes());
    read(&path, format)
}

fn record(time_ns: u64, device: u32, offset: u64, bytes: u64, op: Op) -> Record {
    Record { time_ns, device, offset, bytes, op, took_ns: 0 }
}

#[test]
fn msr_counts_time_in_hundreds_of_nanoseconds_from_its_first_request() {
    let trace = parse(
        Format::Msr,
        "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
         128166372016382155,usr,1,Write,2517798912,4096,1963\n",
    )
    .expect("a trace");
    assert_eq!(trace.devices, ["usr_0", "usr_1"]);
    assert_eq!(
        trace.records,
        [
            Record { took_ns: 4_128_600, ..record(0, 0, 7_014_609_920, 24_576, Op::Read) },
            Record { took_ns: 196_300, ..record(1_332_052_600, 1, 2_517_798_912, 4096, Op::Write) },
        ]
    );
}

#[test]
fn packed_traces_are_unpacked() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(b"128166372003061629,usr,0,Read,0,512,1\n").expect("memory");
    let (_folder, path) = sample("usr_0.csv.gz", &packer.finish().expect("memory"));
    assert_eq!(read(&path, Format::Msr).expect("a trace").records, [Record { took_ns: 100, ..record(0, 0, 0, 512, Op::Read) }]);
}

#[test]
fn alibaba_is_in_bytes_and_microseconds_and_need_not_be_in_order() {
    let trace = parse(
        Format::Alibaba,
        "device_id,opcode,offset,length,timestamp\n419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360292\n",
    )
    .expect("a trace");
    assert_eq!(trace.devices, ["419", "725"]);
    assert_eq!(
        trace.records,
        [record(0, 1, 59_110_326_272, 360_448, Op::Read), record(475_000, 0, 8_792_731_648, 16_384, Op::Write)]
    );
}

#[test]
fn tencent_is_in_sectors_and_its_whole_seconds_are_spread() {
    let trace =
        parse(Format::Tencent, "1538323199,8,8,1,1063\n1538323200,64,16,0,1063\n1538323200,128,8,0,1283\n").expect("a trace");
    assert_eq!(
        trace.records,
        [
            record(0, 0, 4096, 4096, Op::Write),
            record(1_000_000_000, 0, 32_768, 8192, Op::Read),
            record(1_500_000_000, 1, 65_536, 4096, Op::Read),
        ]
    );
}

#[test]
fn blkparse_takes_queue_events_and_expands_flush_and_fua() {
    let trace = parse(
        Format::Blkparse,
        "  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427\n\
         \x20 8,0    3        2     0.000001829   697  Q   R 223490 + 8 [kjournald]\n\
         \x20 8,0    3        3     0.000005197   697  G   R 223490 + 8 [kjournald]\n\
         \x20 8,0    3        4     0.000009758   697  D   R 223490 + 8 [kjournald]\n\
         \x20 8,0    1        5     0.100000000   698  Q  FWFS 1000 + 16 [jbd2]\n\
         \x20 8,16   1        6     0.200000000   699  Q  DS 2048 + 2048 [fstrim]\n\
         \x20 8,0    1        7     0.300000000     0  Q  FN [kworker]\n\
         \x20 8,0    3        8     0.400000000   697  C   R 223490 + 8 [0]\n\
         CPU3 (8,0):\n Reads Queued:           1,        4KiB\n",
    )
    .expect("a trace");
    assert_eq!(trace.devices, ["8,0", "8,16"]);
    let start = 1829;
    assert_eq!(
        trace.records,
        [
            record(0, 0, 223_490 * 512, 4096, Op::Read),
            record(100_000_000 - start, 0, 0, 0, Op::Flush),
            record(100_000_000 - start, 0, 512_000, 8192, Op::Write),
            record(100_000_000 - start, 0, 0, 0, Op::Flush),
            record(200_000_000 - start, 1, 1 << 20, 1 << 20, Op::Discard),
            record(300_000_000 - start, 0, 0, 0, Op::Flush),
        ]
    );
}

#[test]
fn blkparse_without_queue_events_takes_issues() {
    let trace = parse(Format::Blkparse, "8,0 0 1 1.5 10 D W 8 + 8 [fio]\n8,0 0 2 1.6 10 C W 8 + 8 [0]\n").expect("a trace");
    assert_eq!(trace.records, [record(0, 0, 4096, 4096, Op::Write)]);
}

/// One event as the kernel writes it.
fn event(little: bool, time: u64, sector: u64, bytes: u32, action: u32, pdu: &[u8]) -> Vec<u8> {
    let mut event = Vec::new();
    let mut put = |value: u64, len: usize| {
        let all = value.to_be_bytes();
        let mut part = all[8 - len..].to_vec();
        if little {
            part.reverse();
        }
        event.extend(part);
    };
    put(0x6561_7407, 4);
    put(1, 4);
    put(time, 8);
    put(sector, 8);
    put(bytes.into(), 4);
    put(action.into(), 4);
    put(4242, 4);
    put(259 << 20 | 3, 4);
    put(0, 4);
    put(0, 2);
    put(pdu.len() as u64, 2);
    event.extend(pdu);
    event
}

#[test]
fn blktrace_merges_the_files_of_all_cpus_in_either_byte_order() {
    const READ: u32 = 1 << 16;
    const WRITE: u32 = 1 << 17;
    let (queue, issue, complete) = (1, 7, 8);
    for little in [true, false] {
        let first = [
            event(little, 5000, 0, 0, 1 << 26, b"fio\0"), // a message: the name of a process
            event(little, 7000, 8, 4096, WRITE | 1 << 31 | queue, &[]),
            event(little, 7100, 8, 4096, WRITE | issue, &[]),
            event(little, 7900, 8, 4096, WRITE | complete, &[]),
        ];
        let second = [
            event(little, 6000, 16, 8192, READ | queue, b"12345678"),
            event(little, 9000, 0, 1 << 20, WRITE | 1 << 29 | queue, &[]),
        ];
        let (folder, path) = sample("md0.blktrace.0", &first.concat());
        std::fs::write(folder.path().join("md0.blktrace.1"), second.concat()).expect("a sample");
        let trace = read(&path, Format::Blktrace).expect("a trace");
        assert_eq!(trace.devices, ["259,3"]);
        assert_eq!(
            trace.records,
            [
                record(0, 0, 8192, 8192, Op::Read),
                record(1000, 0, 4096, 4096, Op::Write),
                record(1000, 0, 0, 0, Op::Flush),
                record(3000, 0, 0, 1 << 20, Op::Discard),
            ],
            "little-endian: {little}"
        );
    }
}

#[test]
fn iolog_3_has_a_time_on_every_line() {
    let trace = parse(
        Format::Iolog,
        "fio version 3 iolog\n22 /dev/sda add\n128 /dev/sda open\n132 /dev/sda read 61440 4096\n20634 /dev/sda write 774144 8192\n\
         20700 /dev/sda sync\n30000 /dev/sda trim 0 1048576\n140331 /dev/sda close\n",
    )
    .expect("a trace");
    assert_eq!(
        trace.records,
        [
            record(0, 0, 61_440, 4096, Op::Read),
            record(20_502_000, 0, 774_144, 8192, Op::Write),
            record(20_568_000, 0, 0, 0, Op::Flush),
            record(29_868_000, 0, 0, 1 << 20, Op::Discard),
        ]
    );
}

#[test]
fn iolog_2_waits_until_milliseconds_since_the_start() {
    let trace = parse(
        Format::Iolog,
        "fio version 2 iolog\n/x add\n/x open\n/x read 0 4096\n/x wait 800 0\n/x write 4096 4096\n/x wait 1600 0\n/x datasync\n/x close\n",
    )
    .expect("a trace");
    assert_eq!(
        trace.records,
        [
            record(0, 0, 0, 4096, Op::Read),
            record(800_000_000, 0, 4096, 4096, Op::Write),
            record(1_600_000_000, 0, 0, 0, Op::Flush)
        ]
    );
}

#[test]
fn disksim_reads_are_odd_and_its_unit_is_the_readers_choice() {
    let text = "0.0 0 128 8 0\n12.5 1 256 16 1\n";
    assert_eq!(
        parse(Format::DiskSim, text).expect("a trace").records,
        [record(0, 0, 65_536, 4096, Op::Write), record(12_500_000, 1, 131_072, 8192, Op::Read)]
    );
    assert_eq!(parse(Format::MqSim, "1000 0 8 8 1\n6000 0 16 8 0\n").expect("a trace").records[1].time_ns, 5000);
}

#[test]
fn what_is_no_trace_is_refused_with_its_place() {
    let error = parse(Format::Msr, "1,a,0,Read,0,512,1\n2,a,0,Reed,0,512,1\n").expect_err("no such type").to_string();
    assert!(error.contains("line 2") && error.contains("Reed"), "{error}");
    let error = parse(Format::Iolog, "hello\n").expect_err("no log").to_string();
    assert!(error.contains("line 1") && error.contains("version 2"), "{error}");
    assert!(matches!(parse(Format::Blkparse, "8,0 0 1 1.5 10 C W 8 + 8 [0]\n"), Err(TraceError::Empty { .. })));
    for bytes in [&b"not a trace, but long enough to be taken for one event"[..], &event(true, 1, 1, 1, 1, &[])[..40]] {
        let (_folder, path) = sample("sda.blktrace.0", bytes);
        assert!(matches!(read(&path, Format::Blktrace), Err(TraceError::Malformed { .. })));
    }
    assert!("iolog3".parse::<Format>().expect_err("no such format").contains("iolog"));
    assert!(matches!(read(Path::new("/nonexistent/trace"), Format::Msr), Err(TraceError::Unreadable { .. })));
}

#[test]
fn look_alikes_have_the_published_totals() {
    for application in synthetic::APPLICATIONS {
        let trace = synthetic::trace(&application, 42);
        let totals = trace.totals();
        let synthetic::Application {
            sequential_reads,
            random_reads,
            sequential_writes,
            random_writes,
            read_mb,
            written_mb,
            name,
        } = application;
        assert_eq!((totals.sequential_reads, totals.reads), (sequential_reads, sequential_reads + random_reads), "{name}");
        assert_eq!((totals.sequential_writes, totals.writes), (sequential_writes, sequential_writes + random_writes), "{name}");
        for (bytes, megabytes) in [(totals.read_bytes, read_mb), (totals.written_bytes, written_mb)] {
            assert!(megabytes * 1_000_000 - bytes < 4096, "{name}: {bytes} bytes are not {megabytes} MB");
        }
        assert_eq!(trace, synthetic::trace(&application, 42), "the same seed gives the same trace");
        assert_ne!(trace, synthetic::trace(&application, 43));
    }
}
