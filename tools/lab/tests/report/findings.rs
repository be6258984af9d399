//! Single figures and sentences of the page, each of a run that was made to give a known one.

use crate::sample::{Story, point, target};
use stria_lab::report;
use stria_lab::result::{DriveInfo, MemberFigures, Point, Run, SectionKind, SteadyVerdict, TargetKind};
use stria_lab::steady::{Tracker, verdict};

fn page_of(story: Story) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    story.write(&run);
    report::page(&Run::open(&run).expect("a run")).expect("a page")
}

/// Smartctl failed after the run: what was known before stays known.
#[test]
fn a_rating_and_wear_from_before_the_run_count_where_the_report_after_it_lacks_them() {
    let one = target("bare x1", TargetKind::Members, None, 1);
    let mut story = Story::new("wear", vec![one.clone()]);
    let section = story.section("1", "Writes", SectionKind::Sweep, &one.name);
    story.measure(&section, &Point { read_percent: 0, ..point(&one) }, 1, 20_000.0, 60.0);
    let after = DriveInfo { path: one.drives[0].path.clone(), temperature_c: Some(63.0), ..DriveInfo::default() };
    story.manifest.drives_after = vec![after];
    let page = page_of(story);
    for words in ["SAMPLE SSD 800 GB 8DV10171 nvme", "14.6 PB<small>rated</small>", ">41 TB<", ">3\u{a0}%<", "63 °C"] {
        assert!(page.contains(words), "{words}");
    }
}

/// A minute of samples of five seconds each: the axis has a minute, and no dot lies on its end but the last.
#[test]
fn samples_of_several_seconds_lie_at_their_times() {
    let one = target("bare x1", TargetKind::Members, None, 1);
    let mut story = Story::new("slow log", vec![one.clone()]);
    let section = story.section("1", "Reads", SectionKind::Sweep, &one.name);
    story.measure(&section, &point(&one), 1, 20_000.0, 60.0);
    story.series("", 0.0, 0.0);
    let series = &mut story.records[0].1;
    series.interval_ms = 5000;
    series.samples.retain(|sample| sample.at_ms % 5000 == 0);
    assert_eq!(series.samples.len(), 12);
    let page = page_of(story);
    let (_, part) = page.split_once("<section id=\"seconds\"").expect("a part of seconds");
    let (part, _) = part.split_once("</section>").expect("its end");
    let curve = part.split(" d=\"M").find(|path| path.matches('L').count() > 5).and_then(|path| path.split('"').next());
    let dots = curve.expect("a curve").split('L').map(|dot| dot.split(' ').next().and_then(|x| x.parse().ok()).expect("an x"));
    let dots: Vec<f64> = dots.collect();
    assert!(dots.windows(2).all(|pair| pair[1] > pair[0] + 1.0), "{dots:?}");
    assert!(part.contains(">60</text>"), "the axis ends at a minute: {part}");
}

/// A write saturation that ended by its four fills after 100 minutes: minutes 1, 31, 61 and 91 count, too few for a window.
#[test]
fn a_saturation_without_a_window_is_not_steady_and_shows_all_its_minutes() {
    let one = target("drive", TargetKind::Block, None, 1);
    let mut story = Story::new("wsat", vec![one.clone()]);
    let section = story.section("1-wsat", "WSAT", SectionKind::Wsat, &one.name);
    for minute in 1..=100 {
        let rate = if minute < 30 { 90_000.0 } else { 20_000.0 };
        story.measure(&section, &Point { read_percent: 0, ..point(&one) }, minute, rate, 60.0);
    }
    let tracker = Tracker { tracked: "IOPS of random 4 KiB writes".into(), unit: "IOPS".into(), rounds_max: 1440, stride: 30 };
    let values: Vec<f64> = story.records.iter().map(|(record, _)| record.total.iops).collect();
    story.manifest.sections[0].steady = Some(verdict(&values, &tracker));
    let page = page_of(story);
    for words in [
        "✗ steady state not reached",
        "WSAT did not become steady: it ended with 4 rounds that count",
        "not steady</td><td>none in 4</td>",
        "<section id=\"steady\"",
        "20.0 k IOPS<small>once",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

/// Writes that become slower by a fifth every half hour, for 150 minutes, of which 1, 31, 61, 91 and 121 count.
#[test]
fn a_saturation_is_told_in_minutes_and_not_in_those_that_count() {
    let one = target("drive", TargetKind::Block, None, 1);
    let mut story = Story::new("wsat", vec![one.clone()]);
    story.manifest.scaled = None;
    let section = story.section("1-wsat", "WSAT", SectionKind::Wsat, &one.name);
    for minute in 1..=150 {
        let rate = 80_000.0 * 0.8f64.powi((minute - 1) / 30);
        story.measure(&section, &Point { read_percent: 0, ..point(&one) }, minute as u32, rate, 60.0);
    }
    let tracker = Tracker { tracked: "IOPS of random 4 KiB writes".into(), unit: "IOPS".into(), rounds_max: 1440, stride: 30 };
    let values: Vec<f64> = story.records.iter().map(|(record, _)| record.total.iops).collect();
    story.manifest.sections[0].steady = Some(SteadyVerdict { steps: Some((0, 1)), ..verdict(&values, &tracker) });
    let page = page_of(story);
    for words in [
        "WSAT did not become steady in 150 minutes; its figures are those of the last five that count.",
        "not steady after 150 of at most 1440 minutes",
        ">minutes 1 to 121<",
        ">minute</text>",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

/// Alone a drive takes 20 MB/s; as one of four of a RAID 5 small writes of 30 MB/s cost each of them 30 MB/s × 4 / 4, and large
/// ones of 36 MB/s, the clients' fastest, 36 MB/s × 4/3 / 4.
#[test]
fn years_left_are_those_of_the_load_that_wrote_most_to_the_drive() {
    let (alone, array) = (target("bare x1", TargetKind::Members, None, 1), target("raid5 x4", TargetKind::Array, Some("5"), 4));
    let mut story = Story::new("wear", vec![alone.clone(), array.clone()]);
    let section = story.section("1", "Writes", SectionKind::Sweep, &alone.name);
    for (target, block_bytes, mb_per_s, penalty) in
        [(&alone, 4096, 20.0, 1.0), (&array, 4096, 30.0, 4.0), (&array, 196_608, 36.0, 4.0 / 3.0)]
    {
        let point = Point { read_percent: 0, block_bytes, ..point(target) };
        let record = story.measure(&section, &point, 1, mb_per_s * 1e6 / block_bytes as f64, 60.0);
        let members = target.members.expect("all have them");
        let bytes = record.write.as_ref().map_or(0, |write| (write.bytes as f64 * penalty / f64::from(members)) as u64);
        record.members = vec![MemberFigures { written_bytes: bytes, ..MemberFigures::default() }; members as usize];
    }
    let size = array.drives[0].size_bytes as f64;
    let page = page_of(story);
    let (_, part) = page.split_once("Drives by their own reports").expect("the table");
    // The first drive is that of the bare target, and one of the array.
    let row = part.split("<tr>").nth(2).expect("a drive");
    assert!(row.contains("S6P1NX0T00000") && row.contains(&format!("<td>{:.2}</td>", 30e6 * 86_400.0 / size)), "{row}");
}

/// A recovery over 40 minutes, of two targets side by side: its minutes are no repeats, and have no spread.
#[test]
fn minutes_of_a_change_over_time_get_no_whiskers() {
    let page = |kind: SectionKind| {
        let targets = ["drive a", "drive b"].map(|name| target(name, TargetKind::Block, None, 1));
        let mut story = Story::new("xsr", targets.to_vec());
        for target in &targets {
            let section = story.section(&format!("1-xsr/{}", target.name), "XSR", kind, &target.name);
            for minute in 1..=40 {
                for queue_depth in [1, 8, 32] {
                    let point = Point { read_percent: 0, queue_depth, ..point(target) };
                    story.measure(&section, &point, minute, 20_000.0 - 400.0 * f64::from(minute), 60.0);
                }
            }
        }
        page_of(story)
    };
    let spreads = |page: &str| {
        let bars = page.matches("class=\"bar-spread\"").count() - page.matches("%;width:0.00%\"></span></span>").count();
        page.matches("-whisker\"").count() + bars
    };
    assert!(spreads(&page(SectionKind::Sweep)) > 10, "repeats have one");
    let story = page(SectionKind::Xsr);
    assert!(story.contains("<section id=\"levels\"") && story.contains("<section id=\"depth\""));
    assert_eq!(spreads(&story), 0, "{story}");
}
