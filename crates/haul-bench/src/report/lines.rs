//! The report as text for a terminal, a job log or a mail.

use super::document::{Column, Document, Section, Table};
use super::point::capital;
use crate::plot::shortened;
use crate::plot::svg::visible;
use crate::plot::terminal::folded;

/// No line of sentences is longer: eyes lose it.
const PROSE: usize = 110;
/// A table that is narrower than this cannot be read.
const NARROWEST: usize = 40;
/// Columns of a name or a reason, if there is room; the rest is wrapped.
const LONGEST: usize = 60;
/// Lines of one cell.
const TALLEST: usize = 8;
const GAP: usize = 2;

pub fn text(documents: &[Document], differences: &[Section], width: usize) -> String {
    let width = width.max(NARROWEST);
    let prose = width.min(PROSE);
    let mut out = String::new();
    if documents.len() > 1 {
        for (at, document) in documents.iter().enumerate() {
            paragraph(&format!("Run {}: {}", at + 1, document.title), "", prose, &mut out);
            paragraph(&document.place, "  ", prose, &mut out);
            for sentence in document.main.iter().chain(&document.troubles) {
                paragraph(sentence, "  ", prose, &mut out);
            }
        }
        for difference in differences {
            out.push('\n');
            section(difference, width, prose, &mut out);
        }
    }
    if let [document] = documents {
        run(document, &document.setup, width, prose, &mut out);
    }
    out
}

/// One run without its setup.
pub fn results(document: &Document, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut out = String::new();
    run(document, &[], width, width.min(PROSE), &mut out);
    out
}

fn run(document: &Document, setup: &[Section], width: usize, prose: usize, out: &mut String) {
    paragraph(&document.title, "", prose, out);
    paragraph(&document.place, "", prose, out);
    out.push('\n');
    for sentence in &document.main {
        paragraph(sentence, "", prose, out);
    }
    for trouble in &document.troubles {
        paragraph(&format!("! {trouble}"), "", prose, out);
    }
    for part in document.sections.iter().chain(setup).filter(|part| !part.page_only) {
        out.push('\n');
        section(part, width, prose, out);
    }
    if !document.notes.is_empty() {
        out.push('\n');
    }
    for note in &document.notes {
        paragraph(&format!("Note: {}.", capital(note.trim_end_matches('.'))), "", prose, out);
    }
}

fn paragraph(text: &str, indent: &str, width: usize, out: &mut String) {
    for (at, line) in folded(text, width.saturating_sub(indent.len() + 2)).iter().enumerate() {
        *out += &format!("{indent}{}{line}\n", if at == 0 { "" } else { "  " });
    }
}

fn section(section: &Section, width: usize, prose: usize, out: &mut String) {
    for line in folded(&section.title, prose) {
        *out += &format!("{line}\n");
    }
    for text in &section.paragraphs {
        paragraph(text, "  ", prose, out);
    }
    for table in section.tables.iter().filter(|table| !table.folded) {
        *out += &table_of(table, width);
    }
}

fn cell(text: &str, most: usize) -> String {
    shortened(text, most).chars().map(visible).collect()
}

/// The table in at most `width` columns. Columns for which there is no room follow in a further block, behind the columns of
/// rank 0, which identify a row.
fn table_of(table: &Table, width: usize) -> String {
    let mut out = format!("  {}\n", cell(&table.caption, width - 2));
    let is_key = |at: &usize| table.columns[*at].rank == 0;
    let mut columns: Vec<usize> = (0..table.columns.len()).collect();
    loop {
        let (text, mut gone) = block(table, &columns, width);
        out += &text;
        if gone.is_empty() {
            return out;
        }
        if gone.len() == columns.iter().filter(|at| !is_key(at)).count() {
            let names: Vec<&str> = gone.iter().map(|at| table.columns[*at].name.as_str()).collect();
            paragraph(&format!("Too narrow for: {}.", names.join(", ")), "  ", width, &mut out);
            return out;
        }
        gone.extend((0..table.columns.len()).filter(is_key));
        gone.sort_unstable();
        columns = gone;
        out.push('\n');
    }
}

/// As many of the columns as fit, the most important first, with shortened names; and the others.
fn block(table: &Table, columns: &[usize], width: usize) -> (String, Vec<usize>) {
    let mut shown = columns.to_vec();
    let mut gone: Vec<usize> = Vec::new();
    // One word a line in headings, so that numbers decide how wide a column is.
    let head = |column: &Column| -> Vec<String> { folded(&column.name, head_width(column)) };
    let wide = |at: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.chars().count().min(LONGEST)).max().unwrap_or(0);
        cells.max(head(&table.columns[at]).iter().map(|line| line.chars().count()).max().unwrap_or(0))
    };
    let mut widths: Vec<usize> = (0..table.columns.len()).map(wide).collect();
    let total = |shown: &[usize], widths: &[usize]| shown.iter().map(|at| widths[*at] + GAP).sum::<usize>();
    let names = |shown: &[usize]| shown.iter().copied().filter(|at| !table.columns[*at].numeric).collect::<Vec<usize>>();
    // What shortening names to a third of the width can save is no reason to leave out numbers.
    let shortest = |shown: &[usize], widths: &[usize]| -> usize {
        shown.iter().map(|at| if table.columns[*at].numeric { widths[*at] } else { widths[*at].min((width / 4).max(14)) } + GAP).sum()
    };
    while shortest(&shown, &widths) > width {
        let last = shown.iter().copied().filter(|at| table.columns[*at].rank > 0).max_by_key(|at| (table.columns[*at].rank, *at));
        let Some(at) = last else { break };
        shown.retain(|of| *of != at);
        gone.push(at);
    }
    while total(&shown, &widths) > width {
        let longest = names(&shown).into_iter().chain(shown.iter().copied()).max_by_key(|at| (widths[*at], !table.columns[*at].numeric));
        match longest.filter(|at| widths[*at] > 6) {
            Some(at) => widths[at] -= 1,
            None => break,
        }
    }
    let mut out = String::new();
    let aligned = |text: &str, at: usize| {
        let wide = widths[at];
        if table.columns[at].numeric { format!("{text:>wide$}") } else { format!("{text:<wide$}") }
    };
    // A number is never broken, a name is.
    let parts = |text: &str, at: usize| -> Vec<String> {
        if table.columns[at].numeric { vec![cell(text, widths[at])] } else { folded(&cell(text, widths[at] * TALLEST), widths[at]) }
    };
    let mut line = |cells: Vec<String>| {
        let joined = shortened(&format!("  {}", cells.join("  ")), width);
        out += joined.trim_end();
        out.push('\n');
    };
    let heads: Vec<Vec<String>> = shown.iter().map(|at| head(&table.columns[*at])).collect();
    let tall = heads.iter().map(Vec::len).max().unwrap_or(0);
    for row in 0..tall {
        let part = |(head, at): (&Vec<String>, &usize)| {
            let text = (row + head.len()).checked_sub(tall).and_then(|at| head.get(at));
            aligned(text.map_or("", String::as_str), *at)
        };
        line(heads.iter().zip(&shown).map(part).collect());
    }
    line(shown.iter().map(|at| "-".repeat(widths[*at])).collect());
    for row in &table.rows {
        let cells: Vec<Vec<String>> = shown.iter().map(|at| parts(row.get(*at).map_or("", |cell| &cell.text), *at)).collect();
        for level in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let part = |(cell, at): (&Vec<String>, &usize)| aligned(cell.get(level).map_or("", String::as_str), *at);
            line(cells.iter().zip(&shown).map(part).collect());
        }
    }
    (out, gone)
}

/// As wide as a heading may be.
fn head_width(column: &Column) -> usize {
    column.name.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(1).max(10)
}
