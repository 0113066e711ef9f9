//! A report before it is HTML or text: sentences, tables, charts.

use crate::plot::Chart;

/// What is said of one run.
#[derive(Clone, Debug, Default)]
pub struct Document {
    pub title: String,
    /// Where and when.
    pub place: String,
    /// What was to be found out, in as few sentences as there are questions.
    pub main: Vec<String>,
    /// What else belongs to that.
    pub answer: Vec<String>,
    /// What went wrong, each in a sentence.
    pub troubles: Vec<String>,
    pub sections: Vec<Section>,
}

#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: String,
    pub paragraphs: Vec<String>,
    pub tables: Vec<Table>,
    pub charts: Vec<Drawn>,
    /// Part of the page only, not of the text on a terminal.
    pub page_only: bool,
}

#[derive(Clone, Debug)]
pub struct Drawn {
    pub chart: Chart,
    /// As wide as the page.
    pub wide: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Folded away at first.
    pub folded: bool,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub numeric: bool,
    /// Where there is little room the columns with the highest go first; those of 0 stay.
    pub rank: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// It went wrong.
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

impl Cell {
    pub fn bad(text: String) -> Cell {
        Cell { text, bad: true }
    }

    pub fn of(value: Option<String>) -> Cell {
        value.unwrap_or_else(|| "-".into()).into()
    }
}

pub fn name(name: &str, rank: u8) -> Column {
    Column { name: name.into(), numeric: false, rank }
}

pub fn number(name: &str, rank: u8) -> Column {
    Column { name: name.into(), numeric: true, rank }
}

impl Table {
    /// Without the columns that say nothing in any row.
    pub fn without_empty_columns(mut self) -> Table {
        for at in (0..self.columns.len()).rev() {
            let empty = |row: &Vec<Cell>| row.get(at).is_none_or(|cell| cell.text.is_empty() || cell.text == "-");
            if self.columns[at].rank > 0 && self.rows.iter().all(empty) {
                self.columns.remove(at);
                for row in self.rows.iter_mut().filter(|row| at < row.len()) {
                    row.remove(at);
                }
            }
        }
        self
    }
}

impl Section {
    /// Adds a chart unless there is nothing to draw.
    pub fn draw(&mut self, chart: impl Into<Option<Chart>>, wide: bool) {
        if let Some(chart) = chart.into().filter(|chart| !chart.is_empty()) {
            self.charts.push(Drawn { chart, wide });
        }
    }
}
