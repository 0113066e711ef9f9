//! The report as HTML that is also well-formed XML: one file, no script, nothing loaded.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::document::{Document, Section, Table};
use super::point::capital;
use crate::plot::svg::{escape, swatch};
use crate::plot::{Chart, KEY};

const STYLE: &str = include_str!("style.css");

/// Widths that drawings are made in: for a telephone, beside each other, alone. The style sheet shows the one that fits.
const NARROW: f64 = 340.0;
const HALF: f64 = 540.0;
const WIDE: f64 = 880.0;

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
    for (at, difference) in differences.iter().enumerate() {
        out += &section(difference, &format!("x{at}"));
    }
    for (at, document) in documents.iter().enumerate() {
        out += &run(document, at, several);
    }
    out + "</main>\n</body>\n</html>\n"
}

fn run(document: &Document, at: usize, several: bool) -> String {
    let (tag, number) = if several { ("h2", format!("Run {}: ", at + 1)) } else { ("h1", String::new()) };
    let mut out = format!("<article id=\"run-{}\">\n<header>\n<{tag}>{number}{}</{tag}>\n", at + 1, escape(&document.title));
    out += "<div class=\"answer\">\n";
    for sentence in &document.main {
        out += &format!("<p class=\"main\">{}</p>\n", escape(sentence));
    }
    if !document.troubles.is_empty() {
        out += "<ul class=\"troubles\">\n";
        for trouble in &document.troubles {
            out += &format!("<li>{}</li>\n", escape(trouble));
        }
        out += "</ul>\n";
    }
    out += &format!("</div>\n<p class=\"place\">{}</p>\n</header>\n", escape(&document.place));
    for (place, part) in document.sections.iter().enumerate() {
        out += &section(part, &format!("r{at}s{place}"));
    }
    if !document.notes.is_empty() {
        out += "<section>\n<h2>Notes</h2>\n<ul>\n";
        for note in &document.notes {
            out += &format!("<li>{}</li>\n", escape(&capital(note)));
        }
        out += "</ul>\n</section>\n";
    }
    for (place, part) in document.setup.iter().enumerate() {
        out += &section(part, &format!("r{at}u{place}"));
    }
    out + "</article>\n"
}

fn section(section: &Section, id: &str) -> String {
    let mut out = format!("<section>\n<h2>{}</h2>\n", escape(&section.title));
    for paragraph in &section.paragraphs {
        out += &format!("<p>{}</p>\n", escape(paragraph));
    }
    if !section.charts.is_empty() {
        out += "<div class=\"pair\">\n";
        for (at, chart) in section.charts.iter().enumerate() {
            out += &figure(chart, section.charts.len() == 1, &format!("{id}c{at}"));
        }
        out += "</div>\n";
    }
    for table in &section.tables {
        out += &table_of(table);
    }
    out + "</section>\n"
}

fn figure(chart: &Chart, wide: bool, id: &str) -> String {
    let (class, width) = if wide { ("wide", WIDE) } else { ("half", HALF) };
    let mut out = format!("<figure class=\"{class}\">\n<h3>{}</h3>\n", escape(&chart.title));
    let legend = chart.legend();
    if !legend.is_empty() {
        out += "<ul class=\"legend\">";
        for (name, look) in legend {
            out += &format!("<li>{} {}</li>", swatch(look), escape(name));
        }
        out += "</ul>\n";
    }
    out += &format!("<div class=\"large\">{}</div>\n", crate::plot::svg(chart, &format!("{id}l"), width));
    out += &format!("<div class=\"small\">{}</div>\n", crate::plot::svg(chart, &format!("{id}s"), NARROW));
    out + &format!("<figcaption>{} <span class=\"key\">{}</span></figcaption>\n</figure>\n", escape(&chart.caption), escape(KEY))
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
            let text = escape(&cell.text);
            // On a narrow screen each cell is a line with the column's name before it.
            let name = escape(&column.name);
            out += &if at == 0 {
                format!("<th scope=\"row\"{class} data-name=\"{name}\">{text}</th>")
            } else {
                format!("<td{class} data-name=\"{name}\">{text}</td>")
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table>\n</div>\n"
}
