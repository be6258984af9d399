//! Charts as files: each stands by itself, and a picture shows something.

use crate::sample;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use stria_lab::report::{self, Charts};

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
