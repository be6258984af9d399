//! The page is self-contained, shows its data, and survives hostile names.

use super::*;
use crate::story::{Ending, Sample, Step};

fn story(title: &str) -> Story {
    let sample = |at: u32| Sample {
        at_s: at.into(),
        read_mb_per_s: 100.0,
        write_mb_per_s: 50.0,
        sweep_mb_per_s: 10.0,
        members_in_sync: 6,
    };
    Story {
        title: title.into(),
        verdict: "no byte was lost".into(),
        steps: vec![Step { at_s: 2.0, what: "pull".into(), detail: "drive 3 & 4".into(), ending: Ending::Good }],
        samples: (0..5).map(sample).collect(),
    }
}

#[test]
fn the_page_asks_for_nothing_from_outside() {
    let page = page("Test", &Environment::here("RAM"), &[Section::Story(&story("A story"))]);
    for call in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(call), "{call}");
    }
    assert!(page.contains("drive 3 &amp; 4") && page.contains("prefers-color-scheme: dark"));
}

#[test]
fn text_from_outside_stays_text() {
    let title = "<script>alert(\"1\")</script>";
    let page = page(title, &Environment::here(title), &[Section::Story(&story(title))]);
    assert!(!page.contains("<script"));
}

#[test]
fn figures_are_short_and_have_units() {
    assert_eq!(
        [0.0, 7.0, 0.125, 999.0, 1000.0, 34_123.0, 1_254_000.0, 999_600.0].map(short),
        ["0", "7", "0.12", "999", "1.00 k", "34.1 k", "1.25 M", "1.00 M"]
    );
    assert_eq!([5, 1500, 2_000_000, 3_000_000_000].map(time), ["5 ns", "1.50 µs", "2 ms", "3 s"]);
}

#[test]
fn axes_reach_above_the_highest_value_in_round_steps() {
    for max in [0.7, 1.0, 9.9, 34_000.0, 1e7] {
        let ticks = chart::ticks(max);
        assert!((3..=7).contains(&ticks.len()) && ticks[ticks.len() - 1] >= max * 0.999, "{max}: {ticks:?}");
    }
    assert_eq!(chart::ticks(f64::NAN).len(), chart::ticks(1.0).len());
}
