//! Plots as SVG inside of a page: colours and fonts are classes of the page's style sheet, nothing is loaded.

use super::ruler::{Ruler, Tick};
use super::{Body, Chart, LINES};

mod lines;
mod strips;

/// Height of the letters, in the unit of the drawing; a pixel where it is not scaled.
pub(super) const LETTER: f64 = 12.0;

/// The drawing of a chart, `width` units wide and as high as it needs. `id` is unlike any other in the page.
pub fn svg(chart: &Chart, id: &str, width: f64) -> String {
    let (height, drawing) = match &chart.body {
        Body::Lines(rows) => lines::draw(chart, rows, width),
        Body::Strips(rows) => strips::draw(chart, rows, width),
    };
    format!(
        "<svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" viewBox=\"0 0 {} {}\" xmlns=\"http://www.w3.org/2000/svg\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>{drawing}</svg>",
        n(width),
        n(height),
        escape(&chart.title),
        escape(&chart.caption),
    )
}

/// A piece of line with the mark of a look, for legends.
pub fn swatch(look: usize) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 34 14\" width=\"34\" height=\"14\" aria-hidden=\"true\">\
         <path class=\"line c{0} d{0}\" d=\"M1 7H33\"/>{1}</svg>",
        look % LINES,
        mark(17.0, 7.0, 4.5, look)
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
pub(super) fn n(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), ToString::to_string)
}

/// How wide a text is at most, in sans-serif letters of the size LETTER.
pub(super) fn text_width(text: &str) -> f64 {
    let one = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | '\'' | '|' | ':' | ';' | '!' | ' ' | 'f' | 't' | 'r' | '(' | ')' => 0.4,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.96,
        c if c.is_ascii_uppercase() => 0.74,
        c if c.is_ascii() => 0.64,
        _ => 1.0,
    };
    text.chars().map(one).sum::<f64>() * LETTER
}

pub(super) fn text(x: f64, y: f64, class: &str, content: &str) -> String {
    format!("<text x=\"{}\" y=\"{}\" class=\"{class}\">{}</text>", n(x), n(y), escape(content))
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

pub(super) fn mark(x: f64, y: f64, r: f64, look: usize) -> String {
    let look = look % LINES;
    format!("<path class=\"mark c{look}\" transform=\"translate({} {}) scale({})\" d=\"{}\"/>", n(x), n(y), n(r), MARKS[look])
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    pub fn x(&self, ruler: &Ruler, value: f64) -> Option<f64> {
        Some(self.left + ruler.place(value)? * (self.right - self.left))
    }

    pub fn y(&self, ruler: &Ruler, value: f64) -> Option<f64> {
        Some(self.bottom - ruler.place(value)? * (self.bottom - self.top))
    }

    /// The x axis below, with its ticks, its name and fine lines upwards.
    pub fn below(&self, ruler: &Ruler, width: f64) -> String {
        let mut out = String::new();
        for Tick { at, label } in &ruler.ticks {
            let Some(x) = self.x(ruler, *at) else { continue };
            out += &format!("<path class=\"grid\" d=\"M{0} {1}V{2}\"/>", n(x), n(self.top), n(self.bottom));
            out += &format!("<path class=\"axis\" d=\"M{0} {1}v5\"/>", n(x), n(self.bottom));
            // At the ends a label must not leave the drawing.
            let half = text_width(label) / 2.0;
            let (at, class) = match () {
                () if x + half > width => (width, "tick end"),
                () if x - half < 0.0 => (0.0, "tick"),
                () => (x, "tick middle"),
            };
            out += &text(at, self.bottom + 18.0, class, label);
        }
        out += &format!("<path class=\"axis\" d=\"M{0} {1}H{2}\"/>", n(self.left), n(self.bottom), n(self.right));
        out += &text(f64::midpoint(self.left, self.right), self.bottom + 36.0, "name middle", &ruler.title);
        out
    }
}

/// Below the rectangle: ticks and the axis' name.
pub(super) const FOOT: f64 = 44.0;
