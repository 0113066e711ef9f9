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
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Marks at places along x.
    Lines(Axis, Vec<Line>),
    /// One row for each contender, along x.
    Strips(Vec<Strip>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: String,
    pub marks: Vec<Mark>,
}

/// The repetitions of one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// Where it is along the line.
    pub x: f64,
    pub median: f64,
    /// Of the median; `None` where there is one value only.
    pub interval: Option<(f64, f64)>,
    pub values: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Strip {
    pub name: String,
    /// Colour, mark and dash.
    pub look: usize,
    /// `None` where nothing went well.
    pub mark: Option<Mark>,
    /// `failed 3 of 3`, `WRONG 1 of 3`.
    pub failures: Option<String>,
}

impl Axis {
    /// A linear axis, or a logarithmic one where the largest of the values is more than 30 times the smallest.
    pub fn fitting(name: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Axis {
        let positive = values.filter(|v| v.is_finite() && *v > 0.0);
        let (least, most) = positive.fold((f64::INFINITY, 0.0), |(least, most), v| (v.min(least), v.max(most)));
        Axis { name: name.into(), unit, scale: if most > least * 30.0 { Scale::Log10 } else { Scale::Linear } }
    }
}

impl Mark {
    /// All that is drawn of it.
    pub fn extent(&self) -> impl Iterator<Item = f64> + '_ {
        let ends = self.interval.into_iter().flat_map(|(low, high)| [low, high]);
        self.values.iter().copied().chain([self.median]).chain(ends)
    }
}

impl Chart {
    /// A chart of lines.
    pub fn lines(title: &str, caption: String, x: Axis, (name, unit): (&str, Unit), lines: Vec<Line>) -> Chart {
        let y = Axis::fitting(name, unit, lines.iter().flat_map(|line| line.marks.iter().map(|mark| mark.median)));
        Chart { title: title.into(), caption, x, body: Body::Lines(y, lines) }
    }

    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Lines(_, lines) => lines.iter().all(|line| line.marks.is_empty()),
            Body::Strips(strips) => strips.iter().all(|strip| strip.mark.is_none()),
        }
    }

    /// The names of what is drawn in lines, in the order of their looks.
    pub fn legend(&self) -> Vec<&str> {
        match &self.body {
            Body::Lines(_, lines) => lines.iter().map(|line| line.name.as_str()).collect(),
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
