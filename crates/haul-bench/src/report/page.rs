//! The report as HTML that is also well-formed XML: one file, no script, nothing loaded.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::document::{Document, Section, Table};
use super::point::capital;
use crate::plot::svg::{escape, swatch};
use crate::plot::{Chart, KEY, svg};

const STYLE: &str = include_str!("style.css");

/// Characters from which on a text, or a number, may be broken anywhere.
const LONG: usize = 24;
const LONG_NUMBER: usize = 12;

pub fn page(documents: &[Document], differences: &[Section]) -> String {
    let title = match documents {
        [] => "No runs".to_string(),
        [one] => one.title.clone(),
        [first, rest @ ..] => format!("{} and {} more", first.title, rest.len()),
    };
    // The style sheet is named by its hash: no other style, and no script, has any effect.
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; img-src data:; \
         base-uri 'none'; form-action 'none'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"referrer\" content=\"no-referrer\"/>\n<meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <link rel=\"icon\" href=\"data:,\"/>\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&title)
    );
    let several = documents.len() > 1;
    if several {
        out += &format!("<h1>{} runs</h1>\n<ol class=\"runs\">\n", documents.len());
        for (at, document) in documents.iter().enumerate() {
            let (title, place) = (escape(&document.title), escape(&document.place));
            out += &format!("<li><a href=\"#run-{}\">{title}</a><br/>{place}</li>\n", at + 1);
        }
        out += "</ol>\n";
    }
    out.extend(differences.iter().enumerate().map(|(at, difference)| section(difference, &format!("x{at}"))));
    out.extend(documents.iter().enumerate().map(|(at, document)| run(document, at, several)));
    out + "</main>\n</body>\n</html>\n"
}

fn run(document: &Document, at: usize, several: bool) -> String {
    let (tag, number) = if several { ("h2", format!("Run {}: ", at + 1)) } else { ("h1", String::new()) };
    let mut out = format!("<article id=\"run-{}\">\n<header>\n<{tag}>{number}{}</{tag}>\n", at + 1, escape(&document.title));
    out += "<div class=\"answer\">\n";
    out.extend(document.main.iter().map(|sentence| format!("<p class=\"main\">{}</p>\n", escape(sentence))));
    out += &list("<ul class=\"troubles\">", document.troubles.iter().map(|trouble| escape(trouble)));
    out += &format!("</div>\n<p class=\"place\">{}</p>\n</header>\n", escape(&document.place));
    out.extend(document.sections.iter().enumerate().map(|(place, part)| section(part, &format!("r{at}s{place}"))));
    if !document.notes.is_empty() {
        let notes = list("<ul>", document.notes.iter().map(|note| escape(&capital(note))));
        out += &format!("<section>\n<h2>Notes</h2>\n{notes}</section>\n");
    }
    out.extend(document.setup.iter().enumerate().map(|(place, part)| section(part, &format!("r{at}u{place}"))));
    out + "</article>\n"
}

/// An unordered list; nothing without items.
fn list(begin: &str, items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("<li>{item}</li>\n")).collect();
    if items.is_empty() { items } else { format!("{begin}\n{items}</ul>\n") }
}

fn section(section: &Section, id: &str) -> String {
    let mut out = format!("<section>\n<h2>{}</h2>\n", escape(&section.title));
    out.extend(section.paragraphs.iter().map(|paragraph| format!("<p>{}</p>\n", escape(paragraph))));
    if !section.charts.is_empty() {
        let figures: String = section.charts.iter().enumerate().map(|(at, chart)| figure(chart, &format!("{id}c{at}"))).collect();
        out += &format!("<div class=\"pair\">\n{figures}</div>\n");
    }
    out.extend(section.tables.iter().map(table_of));
    out + "</section>\n"
}

fn figure(chart: &Chart, id: &str) -> String {
    let legend = chart.legend().into_iter().enumerate().map(|(look, name)| format!("{} {}", swatch(look), escape(name)));
    format!(
        "<figure>\n<h3>{}</h3>\n{}{}\n<figcaption>{} <span class=\"key\">{}</span></figcaption>\n</figure>\n",
        escape(&chart.title),
        list("<ul class=\"legend\">", legend),
        svg(chart, id),
        escape(&chart.caption),
        escape(KEY)
    )
}

fn class(names: &[(&str, bool)]) -> String {
    let names: Vec<&str> = names.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    if names.is_empty() { String::new() } else { format!(" class=\"{}\"", names.join(" ")) }
}

fn table_of(table: &Table) -> String {
    let caption = escape(&table.caption);
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n<table>\n<caption>{caption}</caption>\n<thead><tr>"
    );
    for column in &table.columns {
        let long = !column.numeric && column.name.chars().count() > LONG;
        let class = class(&[("number", column.numeric), ("long", long)]);
        out += &format!("<th scope=\"col\"{class}>{}</th>", escape(&column.name));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        out += "<tr>";
        for (at, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            let long = cell.text.chars().count() > if column.numeric { LONG_NUMBER } else { LONG };
            let class = class(&[("bad", cell.bad), ("number", column.numeric), ("long", long)]);
            let (begin, end) = if at == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            // On a narrow screen each cell is a line with the column's name before it.
            out += &format!("<{begin}{class} data-name=\"{}\">{}</{end}>", escape(&column.name), escape(&cell.text));
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n</div>\n"
}
