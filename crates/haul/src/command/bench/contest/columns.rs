//! Tables for people: as wide as the terminal, in blocks one below the other where all columns do not fit.

use std::io;

use crate::render::columns as columns_of;

const GAP: &str = "  ";
/// Where there is no terminal that says how wide it is.
const USUAL: usize = 80;

pub struct Column {
    pub head: String,
    /// Numbers stand at the right.
    pub right: bool,
    pub cells: Vec<String>,
}

impl Column {
    pub fn left(head: &str, cells: Vec<String>) -> Column {
        Column { head: head.into(), right: false, cells }
    }

    pub fn right(head: &str, cells: Vec<String>) -> Column {
        Column { head: head.into(), right: true, cells }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| columns_of(cell)).chain([columns_of(&self.head)]).max().unwrap_or(0)
    }
}

/// Lines of at most `width` columns, where the cells allow it; the first column begins every block.
pub fn table(columns: &[Column], width: usize) -> Vec<String> {
    let Some((first, rest)) = columns.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    let mut rest = rest;
    loop {
        let mut used = first.width();
        let fits = |column: &&Column| {
            used += GAP.len() + column.width();
            used <= width
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (block, after) = rest.split_at(count);
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let shown: Vec<&Column> = std::iter::once(first).chain(block).collect();
        lines.push(line(&shown, |column| &column.head));
        lines.extend((0..first.cells.len()).map(|row| line(&shown, |column| column.cells.get(row).map_or("", String::as_str))));
        if after.is_empty() {
            return lines;
        }
        rest = after;
    }
}

fn line<'a>(columns: &[&'a Column], cell: impl Fn(&'a Column) -> &'a str) -> String {
    let padded = |column: &&'a Column| {
        let text = cell(column);
        let blanks = " ".repeat(column.width().saturating_sub(columns_of(text)));
        if column.right { blanks + text } else { text.to_string() + &blanks }
    };
    columns.iter().map(padded).collect::<Vec<_>>().join(GAP).trim_end().to_string()
}

/// Of the terminal that standard output is, else what `COLUMNS` says, else 80.
pub fn width() -> usize {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    let told = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| (20..=1000).contains(columns));
    terminal.or_else(told).unwrap_or(USUAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_goes_below() {
        let cells = |a: &str, b: &str| vec![a.to_string(), b.to_string()];
        let columns = [
            Column::left("tool", cells("cp", "rsync")),
            Column::right("time", cells("1.0 s", "12 s")),
            Column::left("verdict", cells("", "slower")),
        ];
        assert_eq!(table(&columns, 80), ["tool    time  verdict", "cp     1.0 s", "rsync   12 s  slower"]);
        assert_eq!(table(&columns, 14), ["tool    time", "cp     1.0 s", "rsync   12 s", "", "tool   verdict", "cp", "rsync  slower"]);
        assert_eq!(table(&columns, 3).len(), 7);
        assert!(table(&[], 80).is_empty());
        assert_eq!(table(&columns[..1], 80), ["tool", "cp", "rsync"]);
    }
}
