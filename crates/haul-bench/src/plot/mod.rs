//! Plots: one description, drawn as SVG for a page.
//!
//! ```text
//! Chart (title, caption, axes, body) -> ruler (ticks, places) -> svg
//! ```
//!
//! A plot shows medians with their intervals and every repetition. Lines differ by colour, mark and dash at once, so
//! that they can be distinguished without colours.

pub mod ruler;
pub mod svg;
pub mod unit;

pub use svg::svg;
pub use unit::Unit;

/// So many lines can be distinguished in one plot.
pub const LINES: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    /// The result in words, from the numbers.
    pub caption: String,
    pub x: Axis,
    pub y: Axis,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub name: String,
    pub unit: Unit,
    pub scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// For threads, streams, sizes. Ticks at the measured values, where there is room.
    Log2,
    Log10,
    /// Names, one below the other.
    Names,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Lines(Vec<Line>),
    Strips(Vec<Strip>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    /// Colour, mark and dash: below `LINES`; the same thing has the same in all plots of a page.
    pub look: usize,
    pub marks: Vec<Mark>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    pub x: f64,
    pub y: f64,
    /// Of the median; `None` where there is one value only.
    pub interval: Option<(f64, f64)>,
    pub values: Vec<f64>,
}

/// The repetitions of one contender, along x.
#[derive(Clone, Debug, PartialEq)]
pub struct Strip {
    pub name: String,
    pub look: usize,
    /// `None` where nothing went well.
    pub median: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub values: Vec<f64>,
    /// `failed 3 of 3`, `WRONG 1 of 3`.
    pub failures: Option<String>,
}

impl Chart {
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Lines(lines) => lines.iter().all(|line| line.marks.is_empty()),
            Body::Strips(strips) => strips.iter().all(|strip| strip.median.is_none()),
        }
    }

    /// Names and looks of what is drawn in lines: the legend.
    pub fn legend(&self) -> Vec<(&str, usize)> {
        match &self.body {
            Body::Lines(lines) => lines.iter().map(|line| (line.name.as_str(), line.look % LINES)).collect(),
            Body::Strips(_) => Vec::new(),
        }
    }
}

/// The meaning of the marks.
pub const KEY: &str = "Large mark: median. Bar: its confidence interval. Dots: the repetitions. Overlapping points are offset.";

/// Shortened in the middle to at most `most` characters.
pub fn shortened(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_string();
    }
    let head = most.saturating_sub(1) * 2 / 3;
    let tail = most.saturating_sub(1) - head;
    let first: String = text.chars().take(head).collect();
    let last: String = text.chars().skip(count - tail).collect();
    format!("{first}…{last}")
}
