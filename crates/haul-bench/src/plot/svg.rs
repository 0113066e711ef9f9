//! Plots as SVG inside of a page: colours and fonts are classes of the page's style sheet, nothing is loaded.

use super::ruler::{Ruler, Tick};
use super::{Axis, Body, Chart, LINES, Line, Mark, Strip, shortened};

/// A drawing has one width, at which it can be read on a telephone and fills half of a page; pixels where it is not scaled.
const WIDTH: f64 = 460.0;
/// Height of the letters.
const LETTER: f64 = 12.0;
/// Room above the rectangle for the y axis' name, and below it for ticks and the x axis' name.
const HEAD: f64 = 26.0;
const FOOT: f64 = 44.0;
/// Of the rectangle of lines, and of a row of strips.
const TALL: f64 = 250.0;
const ROW: f64 = 44.0;
/// Between marks of different lines at one place.
const APART: f64 = 4.0;

/// The drawing of a chart. `id` is unlike any other in the page.
pub fn svg(chart: &Chart, id: &str) -> String {
    let (height, drawing) = match &chart.body {
        Body::Lines(y, lines) => draw_lines(&chart.x, y, lines),
        Body::Strips(strips) => draw_strips(&chart.x, strips),
    };
    format!(
        "<svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" viewBox=\"0 0 {WIDTH} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>{drawing}</svg>",
        escape(&chart.title),
        escape(&chart.caption),
    )
}

/// A piece of line with the mark of a look, for legends.
pub fn swatch(look: usize) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 34 14\" width=\"34\" height=\"14\" aria-hidden=\"true\">\
         <path class=\"line c{look} d{look}\" d=\"M1 7H33\"/>{}</svg>",
        symbol(17.0, 7.0, 4.5, look)
    )
}

/// Text in HTML and XML. Control characters and those that change the writing direction become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(visible(c)),
        }
    }
    out
}

/// The character, or U+FFFD for one that is not to be printed as it is.
pub fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c => c,
    }
}

/// A coordinate: a tenth is finer than eyes.
fn n(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), ToString::to_string)
}

/// How wide a text is at most, in sans-serif letters of the size LETTER.
fn text_width(text: &str) -> f64 {
    let one = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | '\'' | '|' | ':' | ';' | '!' | ' ' | 'f' | 't' | 'r' | '(' | ')' => 0.4,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.96,
        c if c.is_ascii_uppercase() => 0.74,
        c if c.is_ascii() => 0.64,
        _ => 1.0,
    };
    text.chars().map(one).sum::<f64>() * LETTER
}

fn text(x: f64, y: f64, class: &str, content: &str) -> String {
    format!("<text x=\"{}\" y=\"{}\" class=\"{class}\">{}</text>", n(x), n(y), escape(content))
}

fn path(class: &str, d: &str) -> String {
    format!("<path class=\"{class}\" d=\"{d}\"/>")
}

fn dot(x: f64, y: f64) -> String {
    format!("<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"2.2\"/>", n(x), n(y))
}

/// The outlines of marks: eight forms, so that no colour is needed. Circle, square, triangles, diamond, plus, cross, hexagon.
const MARKS: [&str; LINES] = [
    "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1-1 0Z",
    "M-.9-.9H.9V.9H-.9Z",
    "M0-1.2 1.1.8H-1.1Z",
    "M0-1.3 1.1 0 0 1.3-1.1 0Z",
    "M0 1.2 1.1-.8H-1.1Z",
    "M-.35-1.1H.35V-.35H1.1V.35H.35V1.1H-.35V.35H-1.1V-.35H-.35Z",
    "M-1.1-.55-.55-1.1 0-.5.55-1.1 1.1-.55.5 0 1.1.55.55 1.1 0 .5-.55 1.1-1.1.55-.5 0Z",
    "M-1.1 0-.55-1H.55L1.1 0 .55 1H-.55Z",
];

fn symbol(x: f64, y: f64, r: f64, look: usize) -> String {
    format!("<path class=\"mark c{look}\" transform=\"translate({} {}) scale({})\" d=\"{}\"/>", n(x), n(y), n(r), MARKS[look])
}

/// The rectangle of the marks.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: f64,
    right: f64,
    bottom: f64,
}

impl Area {
    fn x(&self, ruler: &Ruler, value: f64) -> Option<f64> {
        Some(self.left + ruler.place(value)? * (self.right - self.left))
    }

    fn y(&self, ruler: &Ruler, value: f64) -> Option<f64> {
        Some(self.bottom - ruler.place(value)? * (self.bottom - HEAD))
    }

    /// The ruler of the x axis, and its ticks, name and fine lines upwards.
    fn along(&self, axis: &Axis, values: impl Iterator<Item = f64>) -> (Ruler, String) {
        let values: Vec<f64> = values.collect();
        let ruler = Ruler::of(axis, &values, self.right - self.left, &|label| text_width(label) + 16.0);
        let mut out = String::new();
        for Tick { at, label } in &ruler.ticks {
            let Some(x) = self.x(&ruler, *at) else { continue };
            out += &path("grid", &format!("M{0} {HEAD}V{1}", n(x), self.bottom));
            out += &path("axis", &format!("M{0} {1}v5", n(x), self.bottom));
            // At the ends a label must not leave the drawing.
            let half = text_width(label) / 2.0;
            let (at, class) = match () {
                () if x + half > WIDTH => (WIDTH, "tick end"),
                () if x - half < 0.0 => (0.0, "tick"),
                () => (x, "tick middle"),
            };
            out += &text(at, self.bottom + 18.0, class, label);
        }
        out += &path("axis", &format!("M{0} {1}H{2}", n(self.left), self.bottom, n(self.right)));
        out += &text(f64::midpoint(self.left, self.right), self.bottom + 36.0, "name middle", &ruler.title);
        (ruler, out)
    }
}

/// Lines through medians with their intervals and repetitions.
fn draw_lines(x: &Axis, y: &Axis, lines: &[Line]) -> (f64, String) {
    let (x_unit, unit) = (x.unit, y.unit);
    let marks = || lines.iter().flat_map(|line| &line.marks);
    let up = Ruler::of(y, &marks().flat_map(Mark::extent).collect::<Vec<_>>(), TALL, &|_| LETTER * 2.2);
    let left = up.ticks.iter().map(|tick| text_width(&tick.label)).fold(0.0, f64::max) + 12.0;
    let frame = Area { left, right: WIDTH - 4.0, bottom: HEAD + TALL };
    // Marks at the ends do not touch the axes.
    let inset = 14.0 + APART * (lines.len() as f64 - 1.0) / 2.0;
    let area = Area { left: left + inset, right: frame.right - inset, ..frame };
    let (along, axis) = area.along(x, marks().map(|mark| mark.x));
    let mut out = String::new();
    for tick in &up.ticks {
        let Some(y) = area.y(&up, tick.at) else { continue };
        out += &path("grid", &format!("M{} {}H{}", n(left), n(y), n(frame.right)));
        out += &text(left - 6.0, y + 4.0, "tick end", &tick.label);
    }
    out += &text(2.0, 14.0, "name", &up.title);
    out += &axis;
    out += &path("axis", &format!("M{0} {HEAD}V{1}H{2}", n(left), frame.bottom, n(frame.right)));
    for (look, line) in lines.iter().enumerate() {
        let shift = (look as f64 - (lines.len() as f64 - 1.0) / 2.0) * APART;
        let place = |mark: &Mark, value: f64| Some((area.x(&along, mark.x)? + shift, area.y(&up, value)?));
        out += &format!("<g class=\"c{look}\">");
        let points = line.marks.iter().filter_map(|mark| place(mark, mark.median));
        let points: Vec<String> = points.map(|(x, y)| format!("{} {}", n(x), n(y))).collect();
        if points.len() > 1 {
            out += &path(&format!("line d{look}"), &format!("M{}", points.join("L")));
        }
        for mark in &line.marks {
            let Some((x, y)) = place(mark, mark.median) else { continue };
            out.extend(mark.values.iter().filter_map(|value| place(mark, *value)).map(|(x, y)| dot(x, y)));
            let ends = mark.interval.and_then(|(low, high)| Some((area.y(&up, low)?, area.y(&up, high)?)));
            if let Some((low, high)) = ends.filter(|(low, high)| low > high) {
                out += &path("bar", &format!("M{0} {1}V{2}M{3} {1}h6M{3} {2}h6", n(x), n(low), n(high), n(x - 3.0)));
            }
            let shown = mark.interval.map_or(String::new(), |(a, b)| format!(", {} to {}", unit.show(a), unit.show(b)));
            let words = format!("{}, {}: {}{shown}", line.name, x_unit.show(mark.x), unit.show(mark.median));
            out += &format!("<g><title>{}</title>{}</g>", escape(&words), symbol(x, y, 4.5, look));
        }
        out += "</g>";
    }
    (frame.bottom + FOOT, out)
}

/// One row for each contender, below its name: its repetitions as dots, its median, and the interval of it.
fn draw_strips(x: &Axis, strips: &[Strip]) -> (f64, String) {
    let bottom = HEAD + ROW * strips.len() as f64;
    let area = Area { left: 24.0, right: WIDTH - 28.0, bottom };
    let (ruler, axis) = area.along(x, strips.iter().filter_map(|strip| strip.mark.as_ref()).flat_map(Mark::extent));
    let mut out = text(2.0, 14.0, "name", "Tool") + &text(WIDTH - 2.0, 14.0, "name end", "median") + &axis;
    for (at, strip) in strips.iter().enumerate() {
        let top = HEAD + ROW * at as f64;
        let y = top + 30.0;
        let median = strip.mark.as_ref().map_or("-".into(), |mark| x.unit.show(mark.median));
        out += &format!("<g><title>{}</title>", escape(&strip.name));
        out += &text(2.0, top + 14.0, "label", &shortened(&strip.name, 30));
        out += &text(WIDTH - 2.0, top + 14.0, "label end", &median);
        out += "</g>";
        out += &path("grid", &format!("M{} {y}H{}", n(area.left), n(area.right)));
        out += &format!("<g class=\"c{}\">", strip.look % LINES);
        let place = |value: f64| area.x(&ruler, value);
        let mut most = area.left;
        if let Some(mark) = &strip.mark {
            for (at, x) in mark.values.iter().filter_map(|value| place(*value)).enumerate() {
                // Off the line by turns, so that equal values show as several.
                out += &dot(x, y + [-5.0, 5.0, -8.0, 8.0][at % 4]);
            }
            let ends = mark.interval.and_then(|(low, high)| Some((place(low)?, place(high)?)));
            if let Some((low, high)) = ends.filter(|(low, high)| low < high) {
                out += &path("bar", &format!("M{0} {1}H{2}M{0} {3}v8M{2} {3}v8", n(low), n(y), n(high), n(y - 4.0)));
            }
            out.extend(place(mark.median).map(|x| symbol(x, y, 5.0, strip.look % LINES)));
            most = mark.extent().filter_map(place).fold(most, f64::max);
        }
        out += "</g>";
        if let Some(failures) = &strip.failures {
            out += &match area.right - most >= text_width(failures) + 14.0 {
                true => text(most + 12.0, y + 4.0, "bad", failures),
                // No room: a cross at the end, and the words in the table.
                false => text(area.right, y + 4.0, "bad end", "✕"),
            };
        }
    }
    (bottom + FOOT, out)
}
