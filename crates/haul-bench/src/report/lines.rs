//! The report as text for a terminal, a job log or a mail.

use super::document::{Column, Document, Section, Table};
use super::point::capital;
use crate::plot::shortened;
use crate::plot::svg::visible;

/// No line of sentences is longer: eyes lose it.
const PROSE: usize = 110;
/// A table that is narrower than this cannot be read.
const NARROWEST: usize = 40;
/// Columns of a name or a reason that identifies no row; the rest is wrapped.
const LONGEST: usize = 24;
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
    for table in &section.tables {
        *out += &table_of(table, width);
    }
}

fn cell(text: &str, most: usize) -> String {
    shortened(text, most).chars().map(visible).collect()
}

/// The table in at most `width` columns. Columns for which there is no room follow in further blocks, by their rank, behind the
/// columns of rank 0, which identify a row.
fn table_of(table: &Table, width: usize) -> String {
    let natural = |(at, column): (usize, &Column)| {
        let most = if column.rank > 0 && !column.numeric { LONGEST } else { width };
        let cells = table.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.chars().count().min(most)).max();
        head(column).iter().map(|line| line.chars().count()).max().max(cells).unwrap_or(0)
    };
    let mut widths: Vec<usize> = table.columns.iter().enumerate().map(natural).collect();
    let (keys, mut rest): (Vec<usize>, Vec<usize>) = (0..table.columns.len()).partition(|at| table.columns[*at].rank == 0);
    rest.sort_by_key(|at| table.columns[*at].rank);
    let room = if rest.is_empty() { width } else { width / 2 };
    let total = |shown: &[usize], widths: &[usize]| shown.iter().map(|at| widths[*at] + GAP).sum::<usize>();
    while total(&keys, &widths) > room
        && let Some(longest) = keys.iter().copied().max_by_key(|at| widths[*at]).filter(|at| widths[*at] > 6)
    {
        widths[longest] -= 1;
    }
    let mut out = format!("  {}\n", cell(&table.caption, width - 2));
    loop {
        let mut shown = keys.clone();
        // One at least, however narrow it is.
        while let Some(next) =
            rest.first().copied().filter(|at| shown.len() == keys.len() || total(&shown, &widths) + widths[*at] + GAP <= width)
        {
            widths[next] = widths[next].min(width.saturating_sub(total(&shown, &widths) + GAP)).max(1);
            shown.push(next);
            rest.remove(0);
        }
        shown.sort_unstable();
        block(table, &shown, &widths, width, &mut out);
        if rest.is_empty() {
            return out;
        }
        out.push('\n');
    }
}

fn block(table: &Table, shown: &[usize], widths: &[usize], width: usize, out: &mut String) {
    // A number is never broken, a name is.
    let parts = |text: &str, at: usize| -> Vec<String> {
        if table.columns[at].numeric { vec![cell(text, widths[at])] } else { folded(&cell(text, widths[at] * TALLEST), widths[at]) }
    };
    let mut row = |cells: Vec<Vec<String>>, from_below: bool| {
        let tall = cells.iter().map(Vec::len).max().unwrap_or(0);
        for level in 0..tall {
            let part = |(cell, at): (&Vec<String>, &usize)| {
                let place = if from_below { (level + cell.len()).checked_sub(tall) } else { Some(level) };
                let (text, wide) = (place.and_then(|place| cell.get(place)).map_or("", String::as_str), widths[*at]);
                if table.columns[*at].numeric { format!("{text:>wide$}") } else { format!("{text:<wide$}") }
            };
            let line: Vec<String> = cells.iter().zip(shown).map(part).collect();
            *out += shortened(&format!("  {}", line.join("  ")), width).trim_end();
            out.push('\n');
        }
    };
    row(shown.iter().map(|at| head(&table.columns[*at])).collect(), true);
    row(shown.iter().map(|at| vec!["-".repeat(widths[*at])]).collect(), false);
    for cells in &table.rows {
        row(shown.iter().map(|at| parts(cells.get(*at).map_or("", |cell| &cell.text), *at)).collect(), false);
    }
}

/// One word a line, so that numbers decide how wide a column is.
fn head(column: &Column) -> Vec<String> {
    let longest = column.name.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(1);
    folded(&column.name, longest.max(10))
}

/// The text in ASCII alone, with as many characters as before.
pub fn ascii(text: &str) -> String {
    text.chars().map(plain).collect()
}

fn plain(c: char) -> char {
    match c {
        c if c.is_ascii() => c,
        'µ' => 'u',
        '…' => '~',
        '“' | '”' => '"',
        '✕' => 'x',
        _ => '?',
    }
}

/// Lines of at most `width` characters, broken between words; words that are longer are broken anywhere.
fn folded(text: &str, width: usize) -> Vec<String> {
    let text: String = text.chars().map(visible).collect();
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(String::new());
            used = 0;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            lines.push(String::new());
            word = rest;
        }
        let line = lines.last_mut().expect("there is one at all times");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        used += word.len();
        line.extend(word);
    }
    lines.retain(|line| !line.is_empty());
    lines
}
