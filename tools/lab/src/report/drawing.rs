//! Figures as files: SVG that needs no style sheet, and PNG of it.

use super::chart::{Bar, Body, Chart, Figure, Tint, Tints, most_of};
use crate::select::escape;
use resvg::{tiny_skia, usvg};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The page's style sheets, whose colours and rules for charts apply here too.
const SHEETS: [&str; 2] = [stria_bench::report::STYLE, include_str!("page.css")];
/// The margin around a figure.
const MARGIN: f64 = 14.0;
/// Width of a figure without its margin; of a wide one.
const WIDTH: f64 = 560.0;
const WIDTH_WIDE: f64 = 900.0;
/// The largest average width of a letter, as a fraction of the font's size.
const LETTER: f64 = 0.6;
/// Points of a PNG for one of the SVG: sharp on paper.
const SCALE: f32 = 3.0;
/// Fonts for the text of a PNG; the first that is installed is used.
const FONTS: [&str; 6] = ["Noto Sans", "DejaVu Sans", "Liberation Sans", "Open Sans", "Roboto", "Arial"];

/// A colour theme's variables: `--s0` and what it stands for.
fn colours(dark: bool) -> BTreeMap<&'static str, &'static str> {
    let mut found = BTreeMap::new();
    for sheet in SHEETS {
        let (light, rest) = sheet.split_once("@media (prefers-color-scheme: dark)").unwrap_or((sheet, ""));
        let light = light.split_once('}').map_or("", |(block, _)| block);
        let dark_block = rest.split_once('}').map_or("", |(block, _)| block);
        for block in [light, if dark { dark_block } else { "" }] {
            let declarations = block.split(['{', ';', '\n']).filter_map(|words| words.trim().split_once(':'));
            found.extend(declarations.filter(|(name, _)| name.starts_with("--")).map(|(name, value)| (name, value.trim())));
        }
    }
    found
}

/// The rules for lines, dots and bars, with their colours in place.
fn style(dark: bool) -> String {
    let rules = SHEETS.iter().flat_map(|sheet| sheet.lines());
    let rules = rules.filter(|line| line.starts_with('.') && (line.contains("stroke") || line.contains("fill:")));
    let mut style = String::from(
        "text { font-family: system-ui, \"Segoe UI\", \"Noto Sans\", sans-serif; font-size: 10px; fill: var(--soft); }\n\
         .label, .value { fill: var(--ink); }\n.label { font-size: 11px; }\n.caption { fill: var(--ink); font-size: 13px; font-weight: 600; }\n\
         .paper { fill: var(--card); }\n.track { fill: var(--grid); }\n.spread { stroke: var(--ink); stroke-width: 2; opacity: .65; }\n",
    );
    rules.for_each(|rule| style.extend([rule, "\n"]));
    for (name, value) in colours(dark) {
        style = style.replace(&format!("var({name})"), value);
    }
    style
}

/// A drawing that grows downwards.
struct Sheet {
    width: f64,
    y: f64,
    svg: String,
}

/// Text in lines of a number of letters; a longer word is cut.
fn lines(words: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        for part in word.chars().collect::<Vec<char>>().chunks(letters.max(8)) {
            let part: String = part.iter().collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + part.chars().count() < letters => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines
}

impl Sheet {
    fn words(&mut self, words: &str, class: &str, size: f64, width: f64) {
        for line in lines(words, (width / (size * LETTER)) as usize) {
            self.y += size * 1.3;
            let y = self.y - size * 0.3;
            let _ = write!(self.svg, "<text class=\"{class}\" x=\"{MARGIN}\" y=\"{y:.1}\">{}</text>", escape(&line));
        }
    }

    fn lines(&mut self, chart: &Chart, height: f64) {
        let (mut x, right) = (MARGIN, MARGIN + self.width);
        self.y += 6.0;
        for (line, name) in chart.legend() {
            let width = 34.0 + name.chars().count() as f64 * 10.0 * LETTER;
            if x > MARGIN && x + width > right {
                (x, self.y) = (MARGIN, self.y + 14.0);
            }
            let y = self.y;
            let _ = write!(
                self.svg,
                "<g transform=\"translate({x:.1} {y:.1})\">{line}<text x=\"33\" y=\"8.5\">{}</text></g>",
                escape(name)
            );
            x += width + 14.0;
        }
        self.y += 22.0;
        let _ = write!(self.svg, "<g transform=\"translate({MARGIN} {:.1})\">{}</g>", self.y, chart.marks(self.width, height));
        self.y += height;
    }

    /// Each with its words above it.
    fn bars(&mut self, bars: &[Bar]) {
        let (all, most) = (self.width, most_of(bars).max(f64::MIN_POSITIVE));
        for bar in bars {
            let at = |value: f64| MARGIN + (value / most).clamp(0.0, 1.0) * all;
            let (left, right, low, high) = (MARGIN, MARGIN + all, at(bar.low), at(bar.high));
            self.y += 6.0;
            let first = self.y + 10.0;
            let _ = write!(self.svg, "<text x=\"{right}\" y=\"{first:.1}\" text-anchor=\"end\">{}</text>", escape(&bar.words));
            self.words(&bar.name, "value", 10.0, all - (bar.words.chars().count() + 2) as f64 * 10.0 * LETTER);
            let (top, middle) = (self.y + 1.0, self.y + 7.0);
            let _ = write!(
                self.svg,
                "<rect class=\"track\" x=\"{left}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"12\" rx=\"2\"/>\
                 <rect class=\"{}-fill\" x=\"{left}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"12\" rx=\"2\"/>\
                 <path class=\"spread\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/>",
                all,
                bar.class,
                at(bar.value) - left
            );
            self.y += 16.0;
        }
    }

    fn square(&mut self, square: &Tints) {
        let letters = square.rows.iter().map(|(name, _)| name).chain([&square.corner]).map(|name| name.chars().count()).max();
        let left = MARGIN + letters.unwrap_or(0) as f64 * 10.0 * LETTER + 8.0;
        let each = (MARGIN + self.width - left) / square.columns.len().max(1) as f64;
        let text = |svg: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str| {
            let _ = write!(
                svg,
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escape(words)
            );
        };
        let middle = |column: usize| left + each * (column as f64 + 0.5);
        self.y += 18.0;
        text(&mut self.svg, "value", MARGIN, self.y, "start", &square.corner);
        for (column, name) in square.columns.iter().enumerate() {
            text(&mut self.svg, "value", middle(column), self.y, "middle", name);
        }
        self.y += 6.0;
        for (name, cells) in &square.rows {
            text(&mut self.svg, "value", MARGIN, self.y + 17.0, "start", name);
            for (column, cell) in cells.iter().enumerate() {
                let Some(Tint { words, small, share }) = cell else { continue };
                // As dark as on the page: at most half of the colour.
                let _ = write!(
                    self.svg,
                    "<rect class=\"s0-fill\" fill-opacity=\"{:.2}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"28\"/>",
                    share * 0.5,
                    left + each * column as f64,
                    self.y,
                    each - 1.0
                );
                text(&mut self.svg, "value", middle(column), self.y + 12.0, "middle", words);
                text(&mut self.svg, "", middle(column), self.y + 23.5, "middle", small);
            }
            self.y += 29.0;
        }
    }
}

/// The figure as an SVG document.
pub fn svg(figure: &Figure, dark: bool) -> String {
    let wide = match &figure.body {
        Body::Lines { wide, .. } => *wide,
        // A table of many columns needs space for its figures.
        Body::Square(square) => square.columns.len() > 9,
        Body::Bars(_) => false,
    };
    let mut sheet = Sheet { width: if wide { WIDTH_WIDE } else { WIDTH }, y: MARGIN, svg: String::new() };
    let all = sheet.width;
    sheet.words(&figure.caption, "caption", 13.0, all);
    match &figure.body {
        Body::Lines { chart, .. } => sheet.lines(chart, 320.0),
        Body::Bars(bars) => sheet.bars(bars),
        Body::Square(square) => sheet.square(square),
    }
    sheet.y += 4.0;
    sheet.words(&figure.remark, "", 10.0, all);
    let (width, height) = (sheet.width + 2.0 * MARGIN, (sheet.y + MARGIN).ceil());
    let title = escape(&figure.caption);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n<rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{}\n</svg>\n",
        style(dark),
        sheet.svg
    )
}

/// Draws SVG documents into PNG files.
pub struct Painter(usvg::Options<'static>);

impl Painter {
    /// With a font of this machine.
    pub fn new() -> Result<Self, String> {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_system_fonts();
        let has = |family: &&str| fonts.faces().any(|face| face.families.iter().any(|(name, _)| name == family));
        let family = FONTS.iter().find(|family| has(family)).map(|family| (*family).to_string());
        let first = || fonts.faces().next().and_then(|face| Some(face.families.first()?.0.clone()));
        let family = family.or_else(first).ok_or(
            "no font is installed, so a PNG would have no text: install one (sudo apt-get install fonts-dejavu-core), or choose SVG",
        )?;
        fonts.set_sans_serif_family(family.clone());
        Ok(Self(usvg::Options { font_family: family, fontdb: Arc::new(fonts), ..usvg::Options::default() }))
    }

    /// The bytes of one.
    pub fn paint(&self, svg: &str) -> Result<Vec<u8>, String> {
        let tree = usvg::Tree::from_str(svg, &self.0).map_err(|error| error.to_string())?;
        let size = tree.size().to_int_size().scale_by(SCALE).ok_or("the chart has no size")?;
        let mut picture = tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("the chart has no size")?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
        picture.encode_png().map_err(|error| error.to_string())
    }
}
