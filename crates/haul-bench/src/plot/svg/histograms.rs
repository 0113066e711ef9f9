//! One row a point: which share of the operations took how long.

use super::{Area, FOOT, n, text, text_width};
use crate::plot::ruler::Ruler;
use crate::plot::{Chart, Histogram, LINES, shortened};

const NARROW: f64 = 480.0;
const HEAD: f64 = 24.0;
/// Of the bars of a row.
const TALL: f64 = 38.0;
/// Of the name above them.
const NAME: f64 = 28.0;

pub fn draw(chart: &Chart, rows: &[Histogram], width: f64) -> (f64, String) {
    let bottom = HEAD + (TALL + NAME) * rows.len() as f64;
    let times: Vec<f64> = rows.iter().flat_map(|r| r.classes.iter().flat_map(|(low, high, _)| [*low, *high])).collect();
    let most = rows.iter().flat_map(|r| &r.classes).map(|(.., share)| *share).fold(0.0, f64::max);
    let share = Ruler::of(&chart.y, &[most], TALL, &|_| TALL);
    let left = share.ticks.iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max) + 10.0;
    let area = Area { left, top: HEAD, right: width - 10.0, bottom };
    let ruler = Ruler::of(&chart.x, &times, area.right - area.left, &|label| text_width(label) + 14.0);
    let mut out = text(2.0, 14.0, "name", &share.title);
    out += &area.below(&ruler, width);
    for (at, row) in rows.iter().enumerate() {
        let top = HEAD + (TALL + NAME) * at as f64 + NAME;
        let band = Area { top, bottom: top + TALL, ..area };
        let look = row.look % LINES;
        let numbers = format!("p50 {}, p99 {}", chart.x.unit.show(row.p50), chart.x.unit.show(row.p99));
        let letters = ((width - left - text_width(&numbers) - 20.0) / 7.7).max(6.0) as usize;
        out += &format!("<g><title>{}</title>", super::escape(&format!("{}: {numbers}", row.name)));
        out += &text(left, top - 8.0, "label", &shortened(&row.name, letters.min(if width < NARROW { 28 } else { 60 })));
        out += &text(width - 2.0, top - 8.0, "label end", &numbers);
        for tick in [share.ticks.first(), share.ticks.last()].into_iter().flatten() {
            let Some(y) = band.y(&share, tick.at) else { continue };
            out += &format!("<path class=\"grid\" d=\"M{} {}H{}\"/>", n(band.left), n(y), n(band.right));
            out += &text(left - 5.0, y + 4.0, "tick end", &tick.label);
        }
        for (low, high, part) in &row.classes {
            let (Some(from), Some(to), Some(y)) = (band.x(&ruler, *low), band.x(&ruler, *high), band.y(&share, *part)) else { continue };
            // What is there at all is seen.
            let tall = (band.bottom - y).max(1.0);
            let wide = (to - from - 1.0).max(1.0);
            out += &format!(
                "<rect class=\"fill c{look}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                n(from),
                n(band.bottom - tall),
                n(wide),
                n(tall)
            );
        }
        for (value, class) in [(row.p50, "quantile"), (row.p99, "quantile far")] {
            if let Some(x) = band.x(&ruler, value) {
                out += &format!("<path class=\"{class}\" d=\"M{} {}V{}\"/>", n(x), n(band.top), n(band.bottom));
            }
        }
        out += &format!("<path class=\"axis\" d=\"M{0} {1}V{2}H{3}\"/></g>", n(band.left), n(band.top), n(band.bottom), n(band.right));
    }
    (bottom + FOOT, out)
}
