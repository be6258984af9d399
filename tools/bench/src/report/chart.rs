//! Draws lines and bars as SVG. CSS classes give the colours. Shapes differ as well, for readers who cannot tell the
//! colours apart.

use super::html::{escape, short};
use crate::Spread;
use std::fmt::Write;

/// Points of a chart by x.
pub struct Series {
    /// "measured", "allowed" or "bare": class and shape.
    pub kind: &'static str,
    /// x, and y with its spread.
    pub points: Vec<(f64, Spread)>,
}

/// The axes of one chart, or of several that the reader compares.
pub struct Axes {
    /// Ticks of the x axis, ascending; the first and last are its ends.
    pub x_ticks: Vec<f64>,
    /// Under the x axis.
    pub x_name: &'static str,
    /// At the top of the y axis.
    pub y_name: String,
    /// Its upper end is the last.
    pub y_ticks: Vec<f64>,
    /// In SVG units.
    pub width: f64,
    /// See above.
    pub height: f64,
}

const LEFT: f64 = 42.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 30.0;

/// Three to six round steps from 0 to at least `max`.
pub fn ticks(max: f64) -> Vec<f64> {
    let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
    let power = 10f64.powf((max / 4.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| max / step <= 5.0);
    let step = step.unwrap_or(max);
    (0..=(max / step).ceil() as usize).map(|index| index as f64 * step).collect()
}

impl Axes {
    fn x(&self, value: f64) -> f64 {
        let (first, last) = (self.x_ticks[0], self.x_ticks[self.x_ticks.len() - 1]);
        let room = self.width - LEFT - RIGHT;
        if last > first { LEFT + (value - first) / (last - first) * room } else { LEFT + room / 2.0 }
    }

    fn y(&self, value: f64) -> f64 {
        let top = self.y_ticks[self.y_ticks.len() - 1];
        self.height - BOTTOM - (value / top).min(1.04) * (self.height - TOP - BOTTOM)
    }

    /// A line chart. `title` is for screen readers; `marks` are numbered moments on the x axis.
    pub fn lines(&self, title: &str, series: &[Series], marks: &[f64]) -> String {
        let (width, height) = (self.width, self.height);
        let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(title));
        let (left, right, bottom) = (LEFT, width - RIGHT, height - BOTTOM);
        for &tick in &self.y_ticks {
            let y = self.y(tick);
            let class = if tick == 0.0 { "axis" } else { "grid" };
            let _ = write!(
                svg,
                "<path class=\"{class}\" d=\"M{left} {y:.1}H{right}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                y + 3.5,
                short(tick).replace(".00", "").replace(".0 ", " ")
            );
        }
        for &tick in &self.x_ticks {
            let x = self.x(tick);
            let _ = write!(
                svg,
                "<path class=\"axis\" d=\"M{x:.1} {bottom}v3\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
                bottom + 14.0
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><text x=\"0\" y=\"9\">{}</text>",
            right,
            bottom + 26.0,
            self.x_name,
            self.y_name
        );
        for (index, &mark) in marks.iter().enumerate() {
            let x = self.x(mark);
            let _ = write!(
                svg,
                "<path class=\"mark\" d=\"M{x:.1} {TOP}V{bottom}\"/><text class=\"label\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                TOP - 4.0,
                index + 1
            );
        }
        for Series { kind, points } in series {
            let place = |(x, spread): &(f64, Spread)| (self.x(*x), self.y(spread.median));
            let path: Vec<String> = points.iter().map(place).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            if path.len() > 1 {
                let _ = write!(svg, "<path class=\"{kind}\" d=\"M{}\"/>", path.join("L"));
            }
            if points.len() > 40 {
                continue;
            }
            for point in points {
                let ((x, y), spread) = (place(point), &point.1);
                let name = short(spread.median);
                let _ = match *kind {
                    "measured" => write!(
                        svg,
                        "<path class=\"whisker\" d=\"M{x:.1} {:.1}V{:.1}\"/><circle class=\"measured-dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}: {name}</title></circle>",
                        self.y(spread.min),
                        self.y(spread.max),
                        point.0
                    ),
                    "allowed" => write!(
                        svg,
                        "<path class=\"allowed-dot\" d=\"M{:.1} {y:.1}l3.2 -3.2l3.2 3.2l-3.2 3.2z\"><title>{}: {name} allowed</title></path>",
                        x - 3.2,
                        point.0
                    ),
                    _ => Ok(()),
                };
            }
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Horizontal bars of shares, with a line where the share is 1.
pub fn share_bars(title: &str, bars: &[(String, f64, String)]) -> String {
    const LABEL: f64 = 190.0;
    const ROOM: f64 = 520.0;
    const STEP: f64 = 24.0;
    let most = bars.iter().map(|(_, share, _)| *share).fold(1.0, f64::max).clamp(1.0, 1.5);
    let height = STEP * bars.len() as f64 + 26.0;
    let (width, x) = (LABEL + ROOM + 150.0, |share: f64| LABEL + share.min(most) / most * ROOM);
    let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(title));
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (x, bottom) = (x(share), height - 20.0);
        let class = if share == 1.0 { "allowed" } else { "grid" };
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{x:.1} 0V{bottom}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{share}</text>",
            bottom + 14.0
        );
    }
    for (index, (name, share, words)) in bars.iter().enumerate() {
        let y = index as f64 * STEP + 4.0;
        let _ = write!(
            svg,
            "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect class=\"bar\" x=\"{LABEL}\" y=\"{y}\" width=\"{:.1}\" height=\"15\" rx=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{share:.2} · {}</text>",
            LABEL - 8.0,
            y + 11.5,
            escape(name),
            x(*share) - LABEL,
            x(share.max(1.0)) + 8.0,
            y + 11.5,
            escape(words)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// The legend of a chart.
pub fn legend(entries: &[(&str, &str)]) -> String {
    let entry = |(kind, words): &(&str, &str)| {
        let dot = match *kind {
            "measured" => "<circle class=\"measured-dot\" cx=\"17\" cy=\"5\" r=\"3\"/>",
            "allowed" => "<path class=\"allowed-dot\" d=\"M13.8 5l3.2 -3.2l3.2 3.2l-3.2 3.2z\"/>",
            _ => "",
        };
        format!(
            "<span><svg viewBox=\"0 0 34 10\" aria-hidden=\"true\"><path class=\"{kind}\" d=\"M1 5H33\"/>{dot}</svg>{words}</span>"
        )
    };
    format!("<div class=\"legend\">{}</div>\n", entries.iter().map(entry).collect::<String>())
}
