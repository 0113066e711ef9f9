//! One row a contender: its repetitions as dots, its median, and the interval of it.

use super::{Area, FOOT, mark, n, text, text_width};
use crate::plot::ruler::Ruler;
use crate::plot::{Chart, LINES, Strip, shortened};

/// Below this width names are above their rows.
const NARROW: f64 = 480.0;
const HEAD: f64 = 24.0;

pub fn draw(chart: &Chart, strips: &[Strip], width: f64) -> (f64, String) {
    let narrow = width < NARROW;
    let row = if narrow { 44.0 } else { 30.0 };
    let bottom = HEAD + row * strips.len() as f64 + 4.0;
    let values: Vec<f64> = strips
        .iter()
        .flat_map(|s| [s.values.clone(), s.median.into_iter().collect(), s.interval.map_or(vec![], |(a, b)| vec![a, b])].concat())
        .collect();
    let most_name = if narrow { 30 } else { 38 };
    let names: Vec<String> = strips.iter().map(|s| shortened(&s.name, most_name)).collect();
    let widest = names.iter().map(|name| text_width(name)).fold(0.0, f64::max);
    let medians: Vec<String> = strips.iter().map(|s| s.median.map_or("-".into(), |median| chart.x.unit.show(median))).collect();
    let side = medians.iter().map(|text| text_width(text)).fold(text_width("median"), f64::max) + 8.0;
    let area = if narrow {
        Area { left: 8.0, top: HEAD, right: width - 12.0, bottom }
    } else {
        Area { left: widest.min(width * 0.4) + 16.0, top: HEAD, right: width - side - 10.0, bottom }
    };
    let ruler = Ruler::of(&chart.x, &values, area.right - area.left, &|label| text_width(label) + 14.0);
    let mut out = text(2.0, 14.0, "name", &chart.y.name);
    out += &text(width - 2.0, 14.0, "name end", "median");
    out += &area.below(&ruler, width);
    for (at, strip) in strips.iter().enumerate() {
        let top = HEAD + row * at as f64;
        let y = if narrow { top + 30.0 } else { top + row / 2.0 + 2.0 };
        let text_y = if narrow { top + 14.0 } else { y + 4.0 };
        out += "<g>";
        out += &format!("<title>{}</title>", super::escape(&strip.name));
        out += &if narrow { text(2.0, text_y, "label", &names[at]) } else { text(area.left - 10.0, text_y, "label end", &names[at]) };
        out += &text(width - 2.0, text_y, "label end", &medians[at]);
        out += &format!("<path class=\"grid\" d=\"M{} {}H{}\"/>", n(area.left), n(y), n(area.right));
        out += &dots(strip, y, &area, &ruler);
        out += "</g>";
    }
    (bottom + FOOT, out)
}

fn dots(strip: &Strip, y: f64, area: &Area, ruler: &Ruler) -> String {
    let look = strip.look % LINES;
    let mut out = format!("<g class=\"c{look}\">");
    for (at, value) in strip.values.iter().enumerate() {
        let Some(x) = area.x(ruler, *value) else { continue };
        // Off the line by turns, so that equal values show as several.
        let off = [-5.0, 5.0, -8.0, 8.0][at % 4];
        out += &format!("<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"2.4\"/>", n(x), n(y + off));
    }
    let ends = strip.interval.and_then(|(low, high)| Some((area.x(ruler, low)?, area.x(ruler, high)?)));
    if let Some((low, high)) = ends.filter(|(low, high)| low < high) {
        out += &format!("<path class=\"bar\" d=\"M{0} {1}H{2}M{0} {3}v8M{2} {3}v8\"/>", n(low), n(y), n(high), n(y - 4.0));
    }
    let x = strip.median.and_then(|median| area.x(ruler, median));
    if let Some(x) = x {
        out += &mark(x, y, 5.0, look);
    }
    out += "</g>";
    if let Some(failures) = &strip.failures {
        let ends = strip.values.iter().copied().chain(strip.interval.map(|(_, high)| high));
        let most = ends.filter_map(|value| area.x(ruler, value)).fold(area.left, f64::max);
        out += &match x {
            None => text(area.left + 4.0, y + 4.0, "bad", failures),
            Some(_) if area.right - most >= text_width(failures) + 14.0 => text(most + 12.0, y + 4.0, "bad", failures),
            // No room: a cross at the end, and the words in the table.
            Some(_) => text(area.right, y + 4.0, "bad end", "✕"),
        };
    }
    out
}
