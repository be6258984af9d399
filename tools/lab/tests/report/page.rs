//! The page in a real browser, at a desk and on a phone, in light, dark and on paper.

use crate::browser::Browser;
use crate::sample;
use std::path::Path;
use stria_lab::report;

/// Folder of the screenshots, for manual inspection.
fn pictures() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

#[test]
fn nothing_overlaps_overflows_or_fades_at_a_desk_on_a_phone_in_both_themes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, page) = (folder.path().join("run"), pictures().join("report.html"));
    sample::full(&run);
    report::write(&run, &page).expect("a page");
    let mut browser = Browser::start();
    let mut problems = Vec::new();
    for (width, device, theme) in [
        (1280, "desk", "light"),
        (1280, "desk", "dark"),
        (820, "tablet", "light"),
        (390, "phone", "light"),
        (390, "phone", "dark"),
    ] {
        browser.load(&page, width, theme, "screen");
        browser.picture(&pictures().join(format!("report-{device}-{theme}.png")));
        browser.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)");
        let found = browser.evaluate(include_str!("look.js"));
        assert!(found["texts"].as_u64() > Some(500) && found["charts"].as_u64() > Some(20), "it looked at the page: {found}");
        assert_eq!(found["outside"], 0, "nothing is loaded from elsewhere");
        problems
            .extend(found["problems"].as_array().expect("a list").iter().map(|problem| format!("{device}, {theme}: {problem}")));
    }
    assert!(problems.is_empty(), "pictures are in {}\n{}", pictures().display(), problems.join("\n"));
    browser.load(&page, 1280, "light", "print");
    assert!(browser.print().starts_with(b"%PDF"));
}

#[test]
fn an_overlap_is_found_where_there_is_one() {
    // A test of the check itself: two overlapping texts, one beyond the edge, one too pale.
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("bad.html");
    let body = "<meta charset=utf-8><body style='margin:0'><p style='position:absolute;top:9px'>first words</p>\
        <p style='position:absolute;top:12px'>second words</p><p style='white-space:nowrap;margin-top:99px'>far too long for a phone, far too long for a phone</p>\
        <p style='color:#aaa'>pale</p>";
    std::fs::write(&page, body).expect("room for a page");
    let mut browser = Browser::start();
    browser.load(&page, 390, "light", "screen");
    let found = browser.evaluate(include_str!("look.js"))["problems"].to_string();
    // Without a viewport tag a phone uses a wide layout: the page is shrunk, not cut.
    for problem in ["overlap", "hard to read"] {
        assert!(found.contains(problem), "{problem}: {found}");
    }
}

fn text_of(run: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    run(&folder.path().join("run"));
    let page = folder.path().join("page.html");
    report::write(&folder.path().join("run"), &page).expect("a page");
    std::fs::read_to_string(page).expect("a page")
}

#[test]
fn the_page_says_what_it_was_given_and_asks_for_nothing_from_outside() {
    let page = text_of(sample::full);
    for call in ["http:", "https:", "src=", "url(", "@import", "<script", "NaN", "inf "] {
        assert!(!page.contains(call), "{call}");
    }
    for words in [
        "Scaled trial",
        "steady state in 1 of 2 parts",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "nvme3 reached 78 °C",
        "allowed by theory",
        "bare drives, sum",
        "p99.9",
        "after idling",
        "rebuild 3 min 31 s",
        "of the whole array's rate 62\u{a0}% degraded, 41\u{a0}% rebuilding, 70\u{a0}% scrubbing remain, over 1 load; a rebuild took 3 min 31 s",
        "/dev/nvme2n1 lags",
        "41 of 1673840 reads were too slow for one member",
        "years left",
        "<small>rated</small>",
        "many small files",
        "16 TB",
        "read-modify-write",
        "prefers-color-scheme: dark",
        "a write ends only when it is durable",
        "synchronous 0.25, write-through 0.20, cached 15.00, sparse file 0.80 times the rate",
        "every write durable costs 75",
        "the speed of memory",
        "the slowest part has 50",
        "latency by threads and requests in flight in each",
        "<section id=\"seconds\"",
        "<section id=\"sizes\"",
        "mean deviation",
        "share of slat",
        "10.0\u{a0}%",
        "2026-",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Idle time had no significant effect: used and idle differ by 2 % with ±3 % of noise; from fresh to used the rate falls by
    // two thirds.
    assert!(page.contains("used gives -6"), "the fall is told as one");
}

#[test]
fn the_seconds_after_a_rebuild_do_not_count_as_those_of_a_rebuilding_array() {
    use stria_lab::result::{ArrayState, Point, Run, SectionKind, TargetKind};
    let folder = tempfile::tempdir().expect("a folder");
    let target = sample::target("raid5 x4", TargetKind::Array, Some("5"), 4);
    let mut story = sample::Story::new("raid", vec![target.clone()]);
    let section = story.section("1-raid", "Life", SectionKind::Raid, &target.name);
    story.measure(&section, &sample::point(&target), 1, 1000.0, 20.0);
    // The rebuild ends after 5 of 20 seconds: 400 requests a second during it, and 1000 after it.
    let rebuilding = Point { array_state: ArrayState::Rebuilding, ..sample::point(&target) };
    let record = story.measure(&section, &rebuilding, 1, 850.0, 20.0);
    record.extra.extend([("swept_seconds".into(), 5.0), ("rebuild_seconds".into(), 4.7)]);
    story.series("rebuild", 0.0, 1.0);
    for sample in &mut story.records[1].1.samples {
        sample.read_iops = if sample.at_ms <= 5000 { 400.0 } else { 1000.0 };
    }
    let run = folder.path().join("run");
    story.write(&run);
    let run = Run::open(&run).expect("a run");
    let page = report::page(&run).expect("a page");
    assert!(page.contains("of the whole array's rate 40\u{a0}% rebuilding remain, over 1 load; a rebuild took 4.7 s"), "{page}");
    let tables = stria_lab::export::csv(&[run.folder], &folder.path().join("tables")).expect("tables");
    let summary = std::fs::read_to_string(&tables[1]).expect("a table");
    assert!(summary.contains("optimal") && !summary.contains("rebuilding"), "mostly a figure of another state: {summary}");
}

#[test]
fn several_runs_share_a_page_and_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = ["old", "new", "far/new"].map(|name| folder.path().join(name));
    for (run, speed) in runs.iter().zip([1.0, 1.5, 0.5]) {
        let target = sample::target("raid5 x4", stria_lab::result::TargetKind::Array, Some("5"), 4);
        let mut story = sample::Story::new("one", vec![target.clone()]);
        let section = story.section("1-depth", "Depth", stria_lab::result::SectionKind::Sweep, &target.name);
        for round in 1..=6 {
            for queue_depth in [1, 8, 64] {
                let point = stria_lab::result::Point { queue_depth, ..sample::point(&target) };
                let iops = story.chance.noisy(speed * 1000.0 * f64::from(queue_depth), 0.01);
                story.measure(&section, &point, round, iops, 6.0);
                story.series("", 0.0, 0.0);
            }
        }
        std::fs::create_dir_all(run).expect("a folder");
        story.write(run);
    }
    let (page, picture) = (pictures().join("together.html"), pictures().join("together.png"));
    report::write_together(&runs, &page).expect("a page");
    let text = std::fs::read_to_string(&page).expect("a page");
    let above = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
    let labels = [format!("{above}/old"), format!("{above}/new"), "far/new".into()];
    for words in labels.iter().map(String::as_str).chain([
        "Of 6 comparisons 0 are significantly worse and 6 better",
        "Of 6 comparisons 6 are significantly worse",
        "Side by side",
        "Second by second",
    ]) {
        assert!(text.contains(words), "{words}");
    }
    let mut browser = Browser::start();
    browser.load(&page, 390, "light", "screen");
    browser.picture(&picture);
    browser.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)");
    let found = browser.evaluate(include_str!("look.js"));
    assert_eq!(found["problems"].as_array().map(Vec::len), Some(0), "{found}");
}

#[test]
fn a_run_without_results_still_makes_a_page() {
    let page = text_of(|folder| sample::Story::new("empty", vec![]).write(folder));
    assert!(page.contains("0 kinds of load") && page.ends_with("</html>\n"));
}

/// The same run with failed measurements whose figures are absurd: in each section at its begin and its end, and of two hosts.
#[test]
fn failed_measurements_change_no_figure_of_the_page() {
    let with_failures = |run: &Path| {
        sample::full(run);
        sample::add_failures(run);
    };
    let (whole, failed) = (text_of(sample::full), text_of(with_failures));
    assert!(failed.contains("measurements failed and are"), "they are told");
    let without_warning = |page: &str| {
        let page = page.replace("<li", "\n<li").replace("</li>", "</li>\n");
        let lines = page.lines().filter(|line| !line.is_empty() && !line.contains("measurements failed and are"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (whole, failed) = (without_warning(&whole), without_warning(&failed));
    let differ = whole.iter().zip(&failed).find(|(whole, failed)| whole != failed);
    assert!(differ.is_none() && whole.len() == failed.len(), "{differ:#?}");
}
