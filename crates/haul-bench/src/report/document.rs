//! A report before it is HTML or text: sentences, tables, charts.

use super::point::{Metric, Point};
use crate::plot::{Chart, Unit};
use crate::record::Latency;
use crate::stats::Summary;

#[derive(Clone, Debug, Default)]
pub struct Document {
    pub title: String,
    /// Host, time, version.
    pub place: String,
    /// The results, in as few sentences as there are questions.
    pub main: Vec<String>,
    pub troubles: Vec<String>,
    pub sections: Vec<Section>,
    pub notes: Vec<String>,
    /// How the run was made: machine, settings, repetitions.
    pub setup: Vec<Section>,
}

#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: String,
    pub paragraphs: Vec<String>,
    pub tables: Vec<Table>,
    /// Placed in pairs where there is room.
    pub charts: Vec<Chart>,
    /// Part of the page only, not of the text on a terminal.
    pub page_only: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub numeric: bool,
    /// Where there is little room the columns with the highest rank go below first; those of 0 identify a row and stay.
    pub rank: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub bad: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, bad: false }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        text.to_string().into()
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or_else(|| "-".into(), Into::into)
    }
}

impl Cell {
    pub fn bad(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), bad: true }
    }

    fn is_empty(&self) -> bool {
        matches!(self.text.as_str(), "" | "-")
    }
}

/// Builds a table with one row for each item, column by column. A column of a rank above 0 that is empty in all rows is left out.
pub struct Rows<'i, T> {
    items: &'i [T],
    table: Table,
}

impl<'i, T> Rows<'i, T> {
    pub fn of(items: &'i [T]) -> Self {
        Rows { items, table: Table { rows: vec![Vec::new(); items.len()], ..Table::default() } }
    }

    pub fn name<C: Into<Cell>>(self, title: &str, rank: u8, cell: impl Fn(&T) -> C) -> Self {
        self.add(title, false, rank, cell)
    }

    pub fn number<C: Into<Cell>>(self, title: &str, rank: u8, cell: impl Fn(&T) -> C) -> Self {
        self.add(title, true, rank, cell)
    }

    fn add<C: Into<Cell>>(mut self, title: &str, numeric: bool, rank: u8, cell: impl Fn(&T) -> C) -> Self {
        let cells: Vec<Cell> = self.items.iter().map(|item| cell(item).into()).collect();
        if rank == 0 || !cells.iter().all(Cell::is_empty) {
            self.table.columns.push(Column { name: title.into(), numeric, rank });
            self.table.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
        }
        self
    }

    pub fn table(mut self, caption: impl Into<String>) -> Table {
        self.table.caption = caption.into();
        self.table
    }
}

/// Columns that tables of several kinds of run share.
impl Rows<'_, &Point<'_>> {
    /// Median, interval and range of a metric; the number of repetitions, and failures.
    pub fn measured(self, metric: Metric, title: &str) -> Self {
        let unit = metric.unit();
        self.number(title, 1, |p| p.summary(metric).map(|s| unit.show(s.median)))
            .number("Interval of the median", 3, |p| p.summary(metric).map(|s| interval(&s, unit)))
            // Of fewer than nine values the interval is the range.
            .number("Min to max", 6, |p| {
                let summary = p.summary(metric).filter(|s| s.interval != (s.least, s.most));
                summary.map(|s| range(unit, (s.least, s.most)))
            })
            .number("Runs", 2, |p| match (p.good(), p.tried()) {
                (good, tried) if good == tried => good.to_string(),
                (good, tried) => format!("{good} of {tried}"),
            })
            .name("Failures", 1, |p| p.failures_in_words().map(Cell::bad))
    }

    pub fn median(self, title: &str, rank: u8, metric: Metric) -> Self {
        self.number(title, rank, |p| p.summary(metric).map(|s| metric.unit().show(s.median)))
    }

    /// p50 to max of single operations: medians over the repetitions.
    pub fn latency(self) -> Self {
        let of = |get: fn(&Latency) -> f64| move |p: &&Point<'_>| p.latency(get).map(|v| Unit::Seconds.show(v));
        self.number("p50", 4, of(|l| l.p50))
            .number("p90", 6, of(|l| l.p90))
            .number("p99", 4, of(|l| l.p99))
            .number("p99.9", 6, of(|l| l.p999))
            .number("max", 5, of(|l| l.max))
    }
}

/// `11.9 to 12.8 s`, with its coverage where there are too few values for 95 %.
pub fn interval(summary: &Summary, unit: Unit) -> String {
    let range = range(unit, summary.interval);
    match summary.count {
        1 => "one value".into(),
        2..6 => format!("{range} ({:.0} %)", summary.coverage * 100.0),
        _ => range,
    }
}

/// `11.9 to 12.8 s`: the unit once where both have the same.
pub fn range(unit: Unit, (low, high): (f64, f64)) -> String {
    let (low, high) = (unit.show(low), unit.show(high));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => high,
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

impl Section {
    pub fn titled(title: impl Into<String>) -> Section {
        Section { title: title.into(), ..Section::default() }
    }

    /// Adds a chart unless there is nothing to draw.
    pub fn draw(&mut self, chart: Chart) {
        self.charts.extend(Some(chart).filter(|chart| !chart.is_empty()));
    }
}
