//! Charts as files: each is self-contained, and its image is not empty.

use crate::sample;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use stria_lab::report::{self, Charts};
use stria_lab::result::{Point, Run, SectionKind, TargetInfo, TargetKind};

fn written(how: Charts) -> (tempfile::TempDir, Vec<PathBuf>, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (run, out) = (folder.path().join("run"), Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("charts-{how:?}")));
    let _ = fs::remove_dir_all(&out);
    sample::full(&run);
    let files = report::write_charts(std::slice::from_ref(&run), &out, how).expect("charts");
    (folder, files, run)
}

#[test]
fn every_chart_of_the_page_is_a_file_that_needs_no_other() {
    let (_folder, files, run) = written(Charts::default());
    let page = report::page(&stria_lab::result::Run::open(&run).expect("a run")).expect("a page");
    let on_page = page.matches("<figure").count() + page.matches("<table class=\"heat\"").count();
    assert!(on_page > 20 && files.len() >= on_page, "{} files, {on_page} charts on the page", files.len());
    let names: BTreeSet<String> =
        files.iter().map(|file| file.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    assert_eq!(names.len(), files.len(), "no file is written twice");
    for part in ["steady-", "matrix-", "square-", "depth-", "scaling-raid-5-", "levels-", "states-", "raid-", "tail-"] {
        assert!(names.iter().any(|name| name.starts_with(part)), "{part}: {names:?}");
    }
    for file in &files {
        let text = fs::read_to_string(file).expect("a chart");
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!text.contains("var(") && !text.contains("NaN"), "{}", file.display());
        let root = document.root_element();
        assert_eq!((root.tag_name().name(), root.tag_name().namespace()), ("svg", Some("http://www.w3.org/2000/svg")));
        let side = |name: &str| root.attribute(name).expect("a size").parse::<f64>().expect("a number");
        let (width, height) = (side("width"), side("height"));
        let texts: Vec<_> =
            document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text"))).collect();
        assert!(texts.len() > 3 && (100.0..1000.0).contains(&height) && width > 500.0, "{}: {width} × {height}", file.display());
        let style = document.descendants().find(|node| node.tag_name().name() == "style").and_then(|style| style.text());
        for class in document.descendants().filter_map(|node| node.attribute("class")).flat_map(str::split_whitespace) {
            let known = style.is_some_and(|style| style.contains(&format!(".{class}")));
            assert!(known || class == "line", "{}: class {class} has no style", file.display());
        }
    }
}

#[test]
fn pictures_show_something_in_both_themes() {
    for (dark, paper) in [(false, [0xff, 0xff, 0xff]), (true, [0x1c, 0x20, 0x25])] {
        let (_folder, files, _) = written(Charts { png: true, dark });
        for file in
            files.iter().filter(|file| file.to_string_lossy().contains("/depth-") || file.to_string_lossy().contains("/levels-"))
        {
            let mut reader = png::Decoder::new(File::open(file).expect("a picture")).read_info().expect("a PNG");
            let mut bytes = vec![0; reader.output_buffer_size()];
            let info = reader.next_frame(&mut bytes).expect("a whole picture");
            assert!(info.width > 1500 && info.color_type == png::ColorType::Rgba, "{info:?}");
            assert_eq!((&bytes[..3], bytes[3]), (&paper[..], 255), "the paper is there");
            let colours: BTreeSet<[u8; 3]> = bytes.chunks(4).map(|point| [point[0], point[1], point[2]]).collect();
            assert!(colours.len() > 50, "{}: {} colours", file.display(), colours.len());
        }
        assert!(files.len() > 20);
    }
}

/// The caption and legend of every chart of a page: names, and how they are drawn.
fn legends(page: &str) -> Vec<(String, Vec<(String, String)>)> {
    let figures = page.split("<figure").skip(1).filter_map(|figure| figure.split_once("</figure>"));
    let between = |text: &str, from: &str, to: &str| Some(text.split_once(from)?.1.split_once(to)?.0.to_string());
    let entry = |entry: &str| Some((between(entry, "</svg>", "</span>")?, between(entry, ">", "</svg>")?));
    let of = |(figure, _): (&str, &str)| {
        let entries = figure.split("<span><svg viewBox=\"0 0 28 10\"").skip(1).filter_map(entry).collect();
        (between(figure, "<figcaption>", "</figcaption>").unwrap_or_default(), entries)
    };
    figures.map(of).collect()
}

#[test]
fn each_of_many_arrays_is_in_a_chart_and_looks_the_same_in_all() {
    let targets: Vec<_> = (2..21).map(|n| sample::target(&format!("raid0 x{n}"), TargetKind::Array, Some("0"), n)).collect();
    let mut story = sample::Story::new("many", targets.clone());
    for target in &targets {
        let section = story.section(&format!("1-depth/{}", target.name), "Depth", SectionKind::Sweep, &target.name);
        for queue_depth in [1, 8, 64] {
            let point = Point { queue_depth, ..sample::point(target) };
            story.measure(&section, &point, 1, 1000.0 * f64::from(queue_depth), 6.0);
            story.series("", 0.0, 0.0);
        }
        for block_bytes in [4096, 65_536, 1 << 20] {
            story.measure(&section, &Point { block_bytes, queue_depth: 4, ..sample::point(target) }, 1, 900.0, 1.0);
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    story.write(&folder.path().join("run"));
    let page = report::page(&Run::open(&folder.path().join("run")).expect("a run")).expect("a page");
    let charts = legends(&page);
    let mut looks: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (part, caption) in [
        ("depth", "4 KiB random read, 1 thread"),
        ("sizes", "random read, QD 4"),
        ("seconds", "4 KiB random read, QD 64: latency"),
    ] {
        let parts: Vec<_> =
            charts.iter().filter(|(found, _)| found.strip_prefix(caption).is_some_and(|rest| rest.starts_with(" ("))).collect();
        let captions: Vec<&str> = parts.iter().map(|(caption, _)| caption.as_str()).collect();
        assert_eq!(captions, ["1 of 3", "2 of 3", "3 of 3"].map(|part| format!("{caption} ({part})")), "{part}");
        let drawn: Vec<&(String, String)> = parts.iter().flat_map(|(_, entries)| entries).collect();
        let names: BTreeSet<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((drawn.len(), names.len()), (targets.len(), targets.len()), "{part}: each target once");
        drawn.into_iter().for_each(|(name, look)| _ = looks.entry(name.clone()).or_default().insert(look.clone()));
    }
    assert!(looks.values().all(|looks| looks.len() == 1), "a target looks the same everywhere: {looks:?}");
    let distinct: BTreeSet<&String> = looks.values().flatten().collect();
    assert_eq!(distinct.len(), targets.len(), "no two look alike");
}

#[test]
fn strips_and_spans_of_a_level_are_all_drawn_over_its_drives() {
    let mut targets = Vec::new();
    for (members, strip, spans) in [(6, 4, 2), (12, 4, 2), (6, 64, 2), (12, 64, 2), (9, 64, 3), (12, 64, 3)] {
        let name = format!("RAID 50 of {members}, strip {strip} KiB, {spans} spans");
        let target = sample::target(&name, TargetKind::Array, Some("50"), members);
        targets.push(TargetInfo { strip_bytes: Some(strip << 10), spans: Some(spans), ..target });
    }
    let mut story = sample::Story::new("spans", targets.clone());
    for target in &targets {
        let section = story.section(&target.name, "Peak", SectionKind::Sweep, &target.name);
        let point = Point { strip_bytes: target.strip_bytes, spans: target.spans, ..sample::point(target) };
        story.measure(&section, &point, 1, 1000.0, 6.0);
    }
    let folder = tempfile::tempdir().expect("a folder");
    story.write(&folder.path().join("run"));
    let page = report::page(&Run::open(&folder.path().join("run")).expect("a run")).expect("a page");
    let of = |spans: &str| -> Vec<String> {
        let charts = legends(&page);
        let chart = charts.iter().find(|(caption, _)| caption.starts_with(&format!("RAID 50 of {spans} spans")));
        chart.expect("a chart").1.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(of("2"), ["theory, from the first", "measured, strip 4 KiB", "measured, strip 64 KiB"]);
    assert_eq!(of("3"), ["theory, from the first", "measured"]);
}
