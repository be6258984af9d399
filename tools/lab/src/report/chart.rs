//! Lines as SVG and bars as HTML, drawn for a phone's width and set side by side if they fit. Classes set the colours; shapes
//! differ too.

use super::table::table;
use crate::select::{escape, short};
use std::fmt::Write;

/// One direction of a chart.
#[derive(Clone)]
pub struct Axis {
    name: String,
    log: bool,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to at least `max`, in round steps.
    pub fn from_zero(name: &str, max: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let power = 10f64.powf((max / 4.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| max / step <= 5.0);
        let step = step.unwrap_or(max);
        let ticks = (0..=(max / step).ceil() as usize).map(|index| (index as f64 * step, tick(index as f64 * step)));
        let ticks: Vec<_> = ticks.collect();
        Self { name: name.into(), log: false, low: 0.0, high: ticks[ticks.len() - 1].0, ticks }
    }

    /// From 0 to exactly `end`.
    pub fn until(name: &str, end: f64) -> Self {
        let mut axis = Self::from_zero(name, end);
        if end > 0.0 {
            axis.high = end;
            axis.ticks.retain(|(value, _)| *value <= end);
        }
        axis
    }

    /// Whole decades around the values, `label`led.
    pub fn log(name: &str, values: impl Iterator<Item = f64>, label: fn(f64) -> String) -> Self {
        let (low, high) = values.filter(|value| *value > 0.0).fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 10.0) };
        let (first, last) = (low.log10().floor() as i32, (high.log10().ceil() as i32).max(low.log10().floor() as i32 + 1));
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for power in first..=last {
            let decade = 10f64.powi(power);
            let steps: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            ticks
                .extend(steps.iter().map(|step| step * decade).filter(|v| *v <= 10f64.powi(last) * 1.001).map(|v| (v, label(v))));
        }
        Self { name: name.into(), log: true, low: 10f64.powi(first), high: 10f64.powi(last), ticks }
    }

    /// Ticks at the values: queue depths (`log`), drives.
    pub fn at(name: &str, values: &[f64], log: bool) -> Self {
        let (low, high) = (values[0], values[values.len() - 1]);
        let ticks = values.iter().map(|value| (*value, tick(*value))).collect();
        Self { name: name.into(), log: log && low > 0.0, low, high, ticks }
    }

    /// 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let map = |value: f64| if self.log { value.max(self.low).ln() } else { value };
        let (low, high) = (map(self.low), map(self.high));
        if high > low { ((map(value) - low) / (high - low)).clamp(-0.01, 1.03) } else { 0.5 }
    }
}

/// "2.5k": as few digits as show the value.
fn tick(value: f64) -> String {
    let text = short(value);
    let (number, prefix) = text.split_once(' ').unwrap_or((&text, ""));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{prefix}")
}

/// A value with its spread.
#[derive(Clone, Copy)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

impl Dot {
    pub fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

/// Colours: "s0" to "s7".
const COLOURS: usize = 8;
/// Styles of a line of one colour: solid, dashed, dotted.
const DASHES: usize = 3;
/// The most lines of one chart: more lines become several charts.
const LINES_MAX: usize = 8;

/// The most markers of a line; if it has more dots, only some have markers.
const DOTS_MAX: usize = 40;
const MARKERS_OF_LONG: usize = 8;

/// The class of the bar of the `index`th of many.
pub fn colour(index: usize) -> String {
    format!("s{}", index % COLOURS)
}

/// Dots of one kind.
pub struct Series {
    /// "s0" to "s7", "allowed", "bare", "guide".
    pub class: String,
    /// Those of one colour differ in dashes and markers.
    turn: usize,
    /// For the legend and for screen readers.
    pub name: String,
    pub dots: Vec<Dot>,
}

impl Series {
    pub fn new(class: impl Into<String>, name: impl Into<String>, dots: Vec<Dot>) -> Self {
        Self { class: class.into(), turn: 0, name: name.into(), dots }
    }

    /// Gives the line the style of index `index` everywhere on the page: 24 indices have different styles.
    pub fn nth(index: usize, name: impl Into<String>, dots: Vec<Dot>) -> Self {
        Self { turn: index / COLOURS, ..Self::new(colour(index), name, dots) }
    }

    fn line(&self) -> String {
        let dashes = ["", " dashed", " dotted"][self.turn % DASHES];
        format!("{} line{dashes}", self.class)
    }

    fn has_marker(&self) -> bool {
        self.class.starts_with('s') || self.class == "allowed"
    }

    /// The outline of its marker, centred on 0.
    fn marker(&self) -> &'static str {
        let number = self.class.strip_prefix('s').and_then(|number| number.parse::<usize>().ok());
        number.map_or("M0 -3.2l3.2 3.2l-3.2 3.2l-3.2 -3.2z", |number| MARKERS[(number + 3 * self.turn) % MARKERS.len()])
    }
}

/// A line chart.
pub struct Chart {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Numbered moments.
    pub marks: Vec<f64>,
    /// A shaded part of the x axis.
    pub window: Option<(f64, f64)>,
}

const TOP: f64 = 28.0;
const BOTTOM: f64 = 32.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 14.0;
/// The largest width of a character of the ticks' font.
const CHARACTER: f64 = 6.2;

/// Circle, square, two triangles, diamond, cross, two bars.
const MARKERS: [&str; 8] = [
    "M-2.8 0a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0 -5.6 0z",
    "M-2.6 -2.6h5.2v5.2h-5.2z",
    "M0 -3.4l3.2 5.8h-6.4z",
    "M0 3.4l3.2 -5.8h-6.4z",
    "M0 -3.6l3.2 3.6l-3.2 3.6l-3.2 -3.6z",
    "M-3 -1h2v-2h2v2h2v2h-2v2h-2v-2h-2z",
    "M-3.2 -1.6h6.4v3.2h-6.4z",
    "M-1.6 -3.2h3.2v6.4h-3.2z",
];

impl Chart {
    pub fn new(x: Axis, y: Axis, series: Vec<Series>) -> Self {
        Self { x, y, series, marks: Vec::new(), window: None }
    }

    /// The chart with its caption. Wide charts are drawn twice; the style sheet shows the one that fits.
    pub fn figure(self, caption: &str, remark: &str, wide: bool) -> Figure {
        Figure { caption: caption.into(), remark: remark.into(), body: Body::Lines { chart: self, wide } }
    }

    /// As [`Chart::figure`]; if there are too many lines, they are split evenly over several charts with the same axes.
    pub fn figures(self, caption: &str, remark: &str) -> Vec<Figure> {
        let Self { x, y, series, .. } = self;
        let (all, count) = (series.len(), series.len().div_ceil(LINES_MAX));
        let mut series = series.into_iter();
        let part = |at: usize| {
            let lines = series.by_ref().take(all * (at + 1) / count - all * at / count).collect();
            let caption = if count > 1 { format!("{caption} ({} of {count})", at + 1) } else { caption.to_string() };
            Self::new(x.clone(), y.clone(), lines).figure(&caption, remark, false)
        };
        (0..count).map(part).collect()
    }

    /// A line of each kind, 28 by 10, with its name.
    pub fn legend(&self) -> Vec<(String, &str)> {
        let mut known: Vec<(String, &str)> = Vec::new();
        for series in &self.series {
            let Series { class, name, .. } = series;
            if name.is_empty() || known.iter().any(|(_, known)| known == name) {
                continue;
            }
            let dot = if series.has_marker() {
                format!("<path class=\"{class}-dot\" transform=\"translate(14 5)\" d=\"{}\"/>", series.marker())
            } else {
                String::new()
            };
            known.push((format!("<path class=\"{}\" d=\"M1 5H27\"/>{dot}", series.line()), name));
        }
        known
    }

    fn svg(&self, title: &str, width: f64, height: f64) -> String {
        format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            escape(title),
            self.marks(width, height)
        )
    }

    /// The content of the SVG.
    pub fn marks(&self, width: f64, height: f64) -> String {
        let longest = self.y.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let left = LEFT.max(longest as f64 * CHARACTER + 8.0);
        let (right, bottom) = (width - RIGHT, height - BOTTOM);
        let plot = Plot { chart: self, left, right, bottom };
        let mut svg = String::new();
        if let Some((from, to)) = self.window {
            let (from, to) = (plot.x(from), plot.x(to));
            let _ = write!(
                svg,
                "<rect class=\"window\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (to - from).max(2.0),
                bottom - TOP
            );
        }
        self.draw_axes(&plot, width, &mut svg);
        self.draw_marks(&plot, &mut svg);
        self.series.iter().for_each(|series| series.draw(&plot, &mut svg));
        svg
    }

    fn draw_axes(&self, plot: &Plot, width: f64, svg: &mut String) {
        let Plot { left, right, bottom, .. } = *plot;
        let mut lowest_label = f64::INFINITY;
        for (value, label) in &self.y.ticks {
            let at = plot.y(*value);
            let class = if *value == self.y.low { "axis" } else { "grid" };
            let _ = write!(svg, "<path class=\"{class}\" d=\"M{left:.1} {at:.1}H{right}\"/>");
            if lowest_label - at >= 12.0 {
                lowest_label = at;
                let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", left - 5.0, at + 3.5);
            }
        }
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &self.x.ticks {
            let (at, half) = (plot.x(*value), label.chars().count() as f64 * CHARACTER / 2.0);
            let _ = write!(svg, "<path class=\"axis\" d=\"M{at:.1} {bottom}v3\"/>");
            if at - half > free && at + half <= width {
                free = at + half + 4.0;
                let _ = write!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>", bottom + 13.0);
            }
        }
        let _ = write!(
            svg,
            "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><text x=\"0\" y=\"9\">{}</text>",
            bottom + 27.0,
            escape(&self.x.name),
            escape(&self.y.name)
        );
    }

    /// Numbered lines, each with its number where there is space.
    fn draw_marks(&self, plot: &Plot, svg: &mut String) {
        let mut free = f64::NEG_INFINITY;
        for (index, &mark) in self.marks.iter().enumerate() {
            let at = plot.x(mark);
            let _ = write!(svg, "<path class=\"mark\" d=\"M{at:.1} {TOP}V{}\"/>", plot.bottom);
            if at - 6.0 > free {
                free = at + 8.0;
                let _ = write!(
                    svg,
                    "<text class=\"label\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    TOP - 4.0,
                    index + 1
                );
            }
        }
    }
}

/// The edges of the area of a chart's values.
struct Plot<'a> {
    chart: &'a Chart,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Plot<'_> {
    fn x(&self, value: f64) -> f64 {
        self.left + self.chart.x.share(value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.chart.y.share(value) * (self.bottom - TOP)
    }
}

impl Series {
    fn draw(&self, plot: &Plot, svg: &mut String) {
        let Self { class, dots, .. } = self;
        let path: Vec<String> = dots.iter().map(|dot| format!("{:.1} {:.1}", plot.x(dot.x), plot.y(dot.y))).collect();
        if path.len() > 1 {
            let _ = write!(svg, "<path class=\"{}\" d=\"M{}\"/>", self.line(), path.join("L"));
        }
        if !self.has_marker() {
            return;
        }
        // A long curve has a few markers, so that it differs from others not only by its colour.
        let step = if dots.len() > DOTS_MAX { dots.len().div_ceil(MARKERS_OF_LONG) } else { 1 };
        for dot in dots.iter().skip(step / 2).step_by(step) {
            let (x, y) = (plot.x(dot.x), plot.y(dot.y));
            if dot.high > dot.low {
                let (low, high) = (plot.y(dot.low), plot.y(dot.high));
                let _ = write!(svg, "<path class=\"{class}-whisker\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
            }
            let marker = self.marker();
            let _ = write!(svg, "<path class=\"{class}-dot\" transform=\"translate({x:.1} {y:.1})\" d=\"{marker}\"/>");
        }
    }
}

/// A horizontal bar: name, value, its spread, words behind it, class.
pub struct Bar {
    pub name: String,
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub words: String,
    pub class: String,
}

/// A table of figures with tinted cells.
pub struct Tints {
    /// Above the rows' names.
    pub corner: String,
    pub columns: Vec<String>,
    /// Each with its name and a cell for every column.
    pub rows: Vec<(String, Vec<Option<Tint>>)>,
}

/// Text, small text below it, and the darkness of the cell: 0 to 1.
#[derive(Clone)]
pub struct Tint {
    pub words: String,
    pub small: String,
    pub share: f64,
}

/// A chart with its text: on the page as HTML, in a file as SVG (`drawing`).
pub struct Figure {
    pub caption: String,
    pub remark: String,
    pub body: Body,
}

/// The content of a figure.
pub enum Body {
    Lines { chart: Chart, wide: bool },
    Bars(Vec<Bar>),
    Square(Tints),
}

impl Figure {
    pub fn bars(caption: &str, remark: &str, bars: Vec<Bar>) -> Self {
        Self { caption: caption.into(), remark: remark.into(), body: Body::Bars(bars) }
    }

    /// Its HTML for the page.
    pub fn html(&self) -> String {
        let caption = &self.caption;
        let (class, body) = match &self.body {
            Body::Lines { chart, wide } => {
                let entry = |(line, name): (String, &str)| {
                    format!("<span><svg viewBox=\"0 0 28 10\" aria-hidden=\"true\">{line}</svg>{}</span>", escape(name))
                };
                let legend: String = chart.legend().into_iter().map(entry).collect();
                let narrow = chart.svg(caption, 340.0, 210.0);
                let (class, svg) = if *wide {
                    let wide = chart.svg(caption, 860.0, 260.0);
                    (" class=\"broad\"", format!("<div class=\"narrow\">{narrow}</div><div class=\"wide\">{wide}</div>"))
                } else {
                    ("", narrow)
                };
                (class, format!("<div class=\"legend\">{legend}</div>{svg}"))
            }
            Body::Bars(bars) => ("", bars_html(bars)),
            Body::Square(square) => return square_html(&escape(caption), square),
        };
        let remark =
            if self.remark.is_empty() { String::new() } else { format!("<p class=\"remark\">{}</p>", escape(&self.remark)) };
        format!("<figure{class}><figcaption>{}</figcaption>{body}{remark}</figure>\n", escape(caption))
    }
}

/// The end of the bars' scale: the largest value with its spread, if that leaves the bars half of the width.
pub fn most_of(bars: &[Bar]) -> f64 {
    let most = |of: fn(&Bar) -> f64| bars.iter().map(of).fold(0.0, f64::max);
    most(|bar| bar.high.max(bar.value)).min(2.0 * most(|bar| bar.value))
}

/// Bars in HTML, so that long names wrap instead of colliding.
fn bars_html(bars: &[Bar]) -> String {
    let most = most_of(bars);
    let mut rows = String::new();
    for bar in bars {
        let part = |value: f64| if most > 0.0 { (value / most * 100.0).clamp(0.0, 100.0) } else { 0.0 };
        let _ = write!(
            rows,
            "<div class=\"bar-row\"><span class=\"bar-name\">{}</span><span class=\"bar-track\"><span class=\"bar-fill {}-fill\" style=\"width:{:.2}%\"></span>\
             <span class=\"bar-spread\" style=\"left:{:.2}%;width:{:.2}%\"></span></span><span class=\"bar-words\">{}</span></div>",
            escape(&bar.name),
            bar.class,
            part(bar.value),
            part(bar.low),
            (part(bar.high) - part(bar.low)).max(0.0),
            escape(&bar.words)
        );
    }
    format!("<div class=\"bars\">{rows}</div>")
}

/// The table in HTML, whose figures can be copied.
fn square_html(caption: &str, square: &Tints) -> String {
    let heads: Vec<&str> = std::iter::once(&square.corner).chain(&square.columns).map(String::as_str).collect();
    let cell = |cell: &Option<Tint>| match cell {
        Some(Tint { words, small, share }) => {
            format!("<td style=\"--tint:{}%\">{words}<small>{small}</small></td>", (share * 100.0).round())
        }
        None => "<td></td>".into(),
    };
    let rows = square.rows.iter().map(|(name, cells)| (name.clone(), cells.iter().map(cell).collect()));
    let mut one = String::new();
    table(&mut one, caption, &heads, rows.collect());
    one.replacen("<table ", "<table class=\"heat\" ", 1)
}
