//! Single figures and sentences of the page, each of a run that was made to give a known one.

use crate::sample::{Story, point, target};
use stria_lab::report;
use stria_lab::result::{DriveInfo, Point, Run, SectionKind, TargetKind};

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
    for words in ["SAMPLE SSD 800 GB 8DV10171 nvme", "14.6 PB<small>rated</small>", "41.0 TB", ">3\u{a0}%<", "63 °C"] {
        assert!(page.contains(words), "{words}");
    }
}
