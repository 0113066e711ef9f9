//! Lines through medians with their intervals and repetitions.

use super::{Area, FOOT, LETTER, mark, n, text, text_width};
use crate::plot::ruler::Ruler;
use crate::plot::{Chart, LINES, Line};

/// Room for the y axis' name above the rectangle.
const HEAD: f64 = 26.0;
const TALL: f64 = 250.0;
/// Between marks of different lines at one place.
const APART: f64 = 4.0;

pub fn draw(chart: &Chart, lines: &[Line], width: f64) -> (f64, String) {
    let bottom = HEAD + TALL;
    let ys: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().flat_map(heights)).collect();
    let xs: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().map(|m| m.x)).collect();
    let up = Ruler::of(&chart.y, &ys, TALL, &|_| LETTER * 2.2);
    let left = up.ticks.iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max) + 12.0;
    let inset = 14.0 + APART * (lines.len() as f64 - 1.0) / 2.0;
    let frame = Area { left, top: HEAD, right: width - 4.0, bottom };
    // Marks at the ends do not touch the axes.
    let area = Area { left: left + inset, right: width - 4.0 - inset, ..frame };
    let along = Ruler::of(&chart.x, &xs, area.right - area.left, &|label| text_width(label) + 12.0);

    let mut out = String::new();
    for tick in &up.ticks {
        let Some(y) = area.y(&up, tick.at) else { continue };
        out += &format!("<path class=\"grid\" d=\"M{} {}H{}\"/>", n(frame.left), n(y), n(frame.right));
        out += &text(frame.left - 6.0, y + 4.0, "tick end", &tick.label);
    }
    out += &text(2.0, 14.0, "name", &up.title);
    out += &area.below(&along, width);
    out += &format!("<path class=\"axis\" d=\"M{0} {1}V{2}H{3}\"/>", n(frame.left), n(frame.top), n(frame.bottom), n(frame.right));
    for (at, line) in lines.iter().enumerate() {
        let shift = (at as f64 - (lines.len() as f64 - 1.0) / 2.0) * APART;
        out += &medians(chart, line, shift, &area, &along, &up);
    }
    (bottom + FOOT, out)
}

/// All that is drawn of a mark along y.
fn heights(mark: &crate::plot::Mark) -> Vec<f64> {
    let ends = mark.interval.map_or(vec![], |(low, high)| vec![low, high]);
    [vec![mark.y], ends, mark.values.clone()].concat()
}

fn medians(chart: &Chart, line: &Line, shift: f64, area: &Area, along: &Ruler, up: &Ruler) -> String {
    let look = line.look % LINES;
    let place = |x: f64, y: f64| Some((area.x(along, x)? + shift, area.y(up, y)?));
    let mut out = format!("<g class=\"c{look}\">");
    let points: Vec<(f64, f64)> = line.marks.iter().filter_map(|m| place(m.x, m.y)).collect();
    if points.len() > 1 {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{} {}", n(*x), n(*y))).collect();
        out += &format!("<path class=\"line d{look}\" d=\"M{}\"/>", path.join("L"));
    }
    for m in &line.marks {
        for (x, y) in m.values.iter().filter_map(|value| place(m.x, *value)) {
            out += &format!("<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"2.2\"/>", n(x), n(y));
        }
    }
    for m in &line.marks {
        let Some((x, y)) = place(m.x, m.y) else { continue };
        let ends = m.interval.and_then(|(low, high)| Some((area.y(up, low)?, area.y(up, high)?)));
        if let Some((low, high)) = ends.filter(|(low, high)| low > high) {
            out += &format!("<path class=\"bar\" d=\"M{0} {1}V{2}M{3} {1}h6M{3} {2}h6\"/>", n(x), n(low), n(high), n(x - 3.0));
        }
        let interval = m.interval.map_or(String::new(), |(a, b)| format!(", {} to {}", chart.y.unit.show(a), chart.y.unit.show(b)));
        let words = format!("{}, {}: {}{interval}", line.name, chart.x.unit.show(m.x), chart.y.unit.show(m.y));
        out += &format!("<g><title>{}</title>{}</g>", super::escape(&words), mark(x, y, 4.5, look));
    }
    out + "</g>"
}
