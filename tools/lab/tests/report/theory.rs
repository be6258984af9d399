//! Theory on a run whose bare drives are known.

use crate::sample::{self, READ, Story, WRITE, point, target};
use stria_lab::result::{MemberFigures, Pattern, Point, Run, SectionKind, TargetKind};
use stria_lab::theory::{BareDrives, measured_penalty, multiple};

fn close(left: f64, right: f64) {
    assert!((left / right - 1.0).abs() < 0.002, "{left} is not {right}");
}

fn run() -> Run {
    let targets = vec![
        target("bare x1", TargetKind::Members, None, 1),
        target("bare x4", TargetKind::Members, None, 4),
        target("raid5 x4", TargetKind::Array, Some("5"), 4),
    ];
    let mut story = Story::new("theory", targets.clone());
    let section = story.section("1", "sweep", SectionKind::Sweep, "raid5 x4");
    for bare in &targets[..2] {
        let count = f64::from(bare.members.expect("both have them"));
        story.measure(&section, &point(bare), 1, count * READ, 1.0);
        story.measure(&section, &Point { read_percent: 0, ..point(bare) }, 1, count * WRITE, 1.0);
    }
    for read_percent in [0, 70, 100] {
        let point = Point { read_percent, ..point(&targets[2]) };
        let record = story.measure(&section, &point, 1, 20_000.0, 1.0);
        let bytes = record.write.as_ref().map_or(0, |write| write.bytes / 2);
        record.members = vec![MemberFigures { written_bytes: bytes, ..MemberFigures::default() }; 4];
    }
    let folder = tempfile::tempdir().expect("a folder");
    story.write(&folder.path().join("run"));
    Run::open(&folder.path().join("run")).expect("just written")
}

#[test]
fn small_writes_of_raid_5_are_held_against_the_bare_drives_of_the_run() {
    let run = run();
    let bare = BareDrives::of(&run);
    let array = target("raid5 x4", TargetKind::Array, Some("5"), 4);
    let ideal = |read_percent| bare.ideal(&Point { read_percent, ..point(&array) }).expect("an array");
    let writes = ideal(0);
    let penalty = writes.penalty.expect("writes");
    assert_eq!((penalty.reads, penalty.writes), (2.0, 2.0));
    // 4 / (2/R + 2/W).
    let allowed = 4.0 / (2.0 / READ + 2.0 / WRITE);
    close(writes.bounds.expect("bare drives").allowed, allowed);
    close(ideal(100).bounds.expect("bare drives").allowed, 4.0 * READ);
    close(ideal(70).bounds.expect("bare drives").allowed, 1.0 / (0.7 / (4.0 * READ) + 0.3 / allowed));
    assert_eq!(ideal(100).penalty, None);
    // Members wrote twice what clients did.
    let records: Vec<_> = run.records.iter().filter(|record| record.point.read_percent == 0).collect();
    close(measured_penalty(&records).expect("members are seen"), 2.0);
    close(bare.sum(&point(&array)).expect("bare drives"), 4.0 * READ);
    // A load that imitates an application has no theory line, and no rate of bare drives to compare with.
    let replayed = Point { variant: "replayed".into(), ..point(&array) };
    assert_eq!((bare.ideal(&replayed), bare.sum(&replayed)), (None, None));
    assert_eq!(bare.ideal(&point(&target("bare x4", TargetKind::Members, None, 4))), None);
}

#[test]
fn bare_drives_of_another_run_other_drives_and_other_loads_do_not_allow_anything() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = [("slow", 1.0), ("fast", 2.0)].map(|(name, speed)| {
        let targets = vec![
            target("bare x4", TargetKind::Members, None, 4),
            target("raid5 x4", TargetKind::Array, Some("5"), 4),
            target("other.img", TargetKind::File, None, 1),
        ];
        let mut story = Story::new(name, targets.clone());
        let section = story.section("1", "sweep", SectionKind::Sweep, "raid5 x4");
        story.measure(&section, &point(&targets[0]), 1, speed * 4.0 * READ, 1.0);
        story.measure(&section, &point(&targets[1]), 1, speed * 2.0 * READ, 1.0);
        // A file that is no member, and a load that is another one.
        story.manifest.targets[2].drives[0].path = "/tmp/other.img".into();
        story.measure(&section, &point(&targets[2]), 1, 90.0 * READ, 1.0);
        let zones = Point { variant: "first tenth".into(), mix: "zones".into(), ..point(&targets[0]) };
        story.measure(&section, &zones, 1, 80.0 * READ, 1.0);
        let path = folder.path().join(name);
        story.write(&path);
        path
    });
    let page = folder.path().join("together.html");
    stria_lab::report::write_together(&runs, &page).expect("a page");
    let page = std::fs::read_to_string(&page).expect("a page");
    // Each array does half of what its own drives do.
    let share = |allowed: &str| page.matches(&format!("<td>0.50<small>of {allowed} a second</small></td>")).count();
    assert_eq!((share("300 k"), share("600 k")), (1, 1), "{page}");
    assert_eq!(page.matches(" a second</small>").count(), 2);
}

#[test]
fn a_load_on_several_drives_has_the_depth_that_was_in_flight() {
    let targets = ["a", "b"].map(|name| target(name, TargetKind::Members, None, 8));
    let mut story = Story::new("depth", targets.to_vec());
    let section = story.section("1", "sweep", SectionKind::Sweep, "a");
    for target in &targets {
        // One in flight on each of eight drives, whatever the name says.
        for queue_depth in [1, 2, 4, 8, 16, 32] {
            let record = story.measure(&section, &Point { queue_depth, ..point(target) }, 1, READ, 1.0);
            record.extra.insert("outstanding".into(), f64::from(queue_depth.max(8)));
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    story.write(&folder.path().join("run"));
    let page = stria_lab::report::page(&Run::open(&folder.path().join("run")).expect("a run")).expect("a page");
    assert!(page.contains("8 to 32 requests at a time") && !page.contains("1 to 32 requests"), "{page}");
}

#[test]
fn the_textbooks_multiples_of_one_drive_come_out() {
    // Random reads of every level n; RAID 10 writes n/2; RAID 5 sequential writes n-1; RAID 6 n-2; RAID 60 of two spans n-4.
    for (level, members, spans, pattern, read_percent, expected) in [
        ("0", 4, None, Pattern::Random, 0, 4.0),
        ("10", 8, None, Pattern::Random, 0, 4.0),
        ("1", 2, None, Pattern::Random, 0, 1.0),
        ("5", 6, None, Pattern::Random, 100, 6.0),
        ("5", 6, None, Pattern::Sequential, 0, 5.0),
        ("6", 6, None, Pattern::Sequential, 0, 4.0),
        ("60", 12, Some(2), Pattern::Sequential, 0, 8.0),
        ("5", 4, None, Pattern::Random, 0, 1.0),
        ("6", 6, None, Pattern::Random, 0, 1.0),
    ] {
        let target = target("x", TargetKind::Array, Some(level), members);
        let block_bytes = if pattern == Pattern::Sequential { 1 << 20 } else { 4096 };
        let point = Point { pattern, read_percent, block_bytes, spans, ..sample::point(&target) };
        close(multiple(&point).unwrap_or_else(|| panic!("RAID {level} has a law")), expected);
    }
}

#[test]
fn figures_of_wsat_are_those_of_the_minutes_in_its_window() {
    let target = target("drive", TargetKind::Block, None, 1);
    let mut story = Story::new("wsat", vec![target.clone()]);
    let section = story.section("1-wsat", "WSAT", SectionKind::Wsat, "drive");
    // Fresh for half an hour, then saturated. One minute in thirty counts: 1, 31, 61, 91, 121, 151.
    let rate = |minute: u32| if minute <= 30 { 90_000.0 } else { 20_000.0 };
    for minute in 1..=151 {
        story.measure(&section, &Point { read_percent: 0, ..point(&target) }, minute, rate(minute), 1.0);
    }
    story.steady(true, 2, &[1, 31, 61, 91, 121, 151].map(rate));
    let steady = story.manifest.sections[0].steady.as_mut().expect("it has one");
    (steady.stride, steady.unit) = (30, "<script>IOPS</script>".into());
    let folder = tempfile::tempdir().expect("a folder");
    story.write(&folder.path().join("run"));
    let run = Run::open(&folder.path().join("run")).expect("just written");
    let writes = Point { read_percent: 0, ..point(&target) };
    close(BareDrives::of(&run).sum(&writes).expect("it was measured"), 20_000.0);
    // The unit is a text of manifest.json.
    let page = stria_lab::report::page(&run).expect("a page");
    assert!(page.contains("&lt;script&gt;IOPS") && !page.contains("<script>IOPS"));
    // The sample is a trial, whose rounds take less than a minute.
    assert!(
        page.contains("WSAT is steady in rounds 31 to 151") && page.contains(">rounds 31 to 151<"),
        "of all, not of those that count"
    );
}

#[test]
fn each_block_size_of_throughput_has_its_verdict_and_its_window() {
    let target = target("drive", TargetKind::Block, None, 1);
    let mut story = Story::new("throughput", vec![target.clone()]);
    let section = story.section("1", "Throughput", SectionKind::Throughput, "drive");
    // Steps 1 and 3 after a purge each: large blocks become steady in round 8, small ones never do.
    let load = |block_bytes| Point { pattern: Pattern::Sequential, read_percent: 0, block_bytes, ..point(&target) };
    for round in 1..=8 {
        story.measure(&section, &load(1 << 20), round, if round <= 3 { 900.0 } else { 400.0 }, 1.0).step = 1;
    }
    for round in 1..=6 {
        story.measure(&section, &load(128 << 10), round, 1000.0 * f64::from(round), 1.0).step = 3;
    }
    let mut verdict = |reached, first, values: &[f64], tracked: &str, steps| {
        story.steady(reached, first, values);
        let steady = story.manifest.sections[0].steady.as_mut().expect("it has one");
        (steady.tracked, steady.steps) = (tracked.into(), Some(steps));
        steady.clone()
    };
    let large =
        verdict(true, 4, &[900.0, 900.0, 900.0, 400.0, 400.0, 400.0, 400.0, 400.0], "MB/s of sequential 1024 KiB writes", (1, 2));
    verdict(false, 2, &[1e3, 2e3, 3e3, 4e3, 5e3, 6e3], "MB/s of sequential 128 KiB writes", (3, 4));
    story.manifest.sections[0].steady_before.push(large);
    let folder = tempfile::tempdir().expect("a folder");
    story.write(&folder.path().join("run"));
    let run = Run::open(&folder.path().join("run")).expect("just written");
    let page = stria_lab::report::page(&run).expect("a page");
    for words in [
        "Throughput, MB/s of sequential 1024 KiB writes is steady in rounds 4 to 8",
        "Throughput, MB/s of sequential 128 KiB writes did not become steady in 6 rounds",
        "steady state in 1 of 2 parts",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    close(BareDrives::of(&run).sum(&load(1 << 20)).expect("it was measured"), 400.0);
    close(BareDrives::of(&run).sum(&load(128 << 10)).expect("it was measured"), 4000.0);
}

#[test]
fn sums_of_the_largest_figures_that_a_folder_may_hold_do_not_overflow() {
    let run = run();
    let mut record = run.records.iter().find(|record| record.write.is_some()).expect("it writes").clone();
    let member = MemberFigures { written_bytes: 1_000_000_000_000_000_000, ..MemberFigures::default() };
    record.members = vec![member; 40];
    record.write.as_mut().expect("it writes").bytes = 1_000_000_000_000_000_000;
    assert!(measured_penalty(&[&record; 40]).is_some_and(f64::is_finite));
}
