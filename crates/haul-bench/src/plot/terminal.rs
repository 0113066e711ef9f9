//! Plots as text: for terminals, job logs and mails.

use super::ruler::Ruler;
use super::svg::visible;
use super::{Body, Chart, LINES, Line, Strip, shortened};

/// Rows of the field of lines.
const TALL: usize = 14;
/// No plot is wider: eyes lose the row.
const WIDEST: usize = 110;
const NARROWEST: usize = 40;

const MARKS: [char; LINES] = ['●', '■', '▲', '◆', '▼', '✚', '✖', '★'];
const PLAIN_MARKS: [char; LINES] = ['o', '#', '^', '*', 'v', '+', 'x', '@'];

/// The plot in at most `width` columns (40 at least), in lines that end with a newline; with ASCII alone where not `unicode`.
pub fn terminal(chart: &Chart, width: usize, unicode: bool) -> String {
    let width = width.clamp(NARROWEST, WIDEST);
    let mut out = String::new();
    for line in folded(&chart.title, width) {
        out += &line;
        out.push('\n');
    }
    let drawing = match &chart.body {
        Body::Lines(lines) => of_lines(chart, lines, width, unicode),
        Body::Strips(strips) => of_strips(chart, strips, width, unicode),
    };
    for line in drawing.lines() {
        // The name of an axis may be wider than a narrow terminal.
        out += shortened(line, width).trim_end();
        out.push('\n');
    }
    for line in folded(&chart.caption, width) {
        out += &line;
        out.push('\n');
    }
    if unicode { out } else { ascii(&out) }
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
pub fn folded(text: &str, width: usize) -> Vec<String> {
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

fn padded(text: &str, width: usize) -> String {
    let clean: String = shortened(text, width).chars().map(visible).collect();
    format!("{clean:<width$}")
}

/// A row of labels below an axis; one that would touch its neighbour is left out.
fn labels(ruler: &Ruler, left: usize, wide: usize, total: usize) -> String {
    let mut row = vec![' '; total];
    let mut free = 0;
    for tick in &ruler.ticks {
        let Some(at) = ruler.place(tick.at) else { continue };
        let count = tick.label.chars().count();
        let middle = left + column(at, wide);
        let from = middle.saturating_sub(count / 2).min(total.saturating_sub(count));
        if from < free || from + count > total {
            continue;
        }
        for (place, c) in row[from..].iter_mut().zip(tick.label.chars()) {
            *place = c;
        }
        free = from + count + 1;
    }
    row.into_iter().collect::<String>().trim_end().to_string()
}

fn column(at: f64, wide: usize) -> usize {
    (at * (wide.saturating_sub(1)) as f64).round() as usize
}

fn of_lines(chart: &Chart, lines: &[Line], width: usize, unicode: bool) -> String {
    let (marks, joint) = if unicode { (MARKS, '·') } else { (PLAIN_MARKS, '.') };
    let ys: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().map(|m| m.y)).collect();
    let xs: Vec<f64> = lines.iter().flat_map(|l| l.marks.iter().map(|m| m.x)).collect();
    let up = Ruler::of(&chart.y, &ys, TALL as f64, &|_| 2.0);
    let side = up.ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0) + 1;
    let wide = width - side - 2;
    let along = Ruler::of(&chart.x, &xs, wide as f64, &|label| label.chars().count() as f64 + 2.0);
    let mut field = vec![vec![' '; wide]; TALL];
    let cell = |x: f64, y: f64| Some((column(along.place(x)?, wide), TALL - 1 - column(up.place(y)?, TALL)));
    for line in lines {
        let points: Vec<(usize, usize)> = line.marks.iter().filter_map(|m| cell(m.x, m.y)).collect();
        let mark = marks[line.look % LINES];
        for two in points.windows(2) {
            let ((x0, y0), (x1, y1)) = (two[0], two[1]);
            let steps = x1.abs_diff(x0).max(1);
            for step in 0..=steps {
                let part = step as f64 / steps as f64;
                let x = (x0 as f64 + (x1 as f64 - x0 as f64) * part).round() as usize;
                let y = (y0 as f64 + (y1 as f64 - y0 as f64) * part).round() as usize;
                if field[y][x] == ' ' {
                    field[y][x] = joint;
                }
            }
        }
        for (x, y) in points {
            field[y][x] = mark;
        }
    }
    let mut out = format!("{}\n", up.title);
    for (row, cells) in field.iter().enumerate() {
        let label = up.ticks.iter().find(|tick| up.place(tick.at).is_some_and(|at| TALL - 1 - column(at, TALL) == row));
        let label = label.map_or("", |tick| tick.label.as_str());
        let line = format!("{label:>side$} {}{}", if unicode { '│' } else { '|' }, cells.iter().collect::<String>());
        out += line.trim_end();
        out.push('\n');
    }
    out += &format!("{:side$} {}{}\n", "", if unicode { '└' } else { '+' }, if unicode { "─" } else { "-" }.repeat(wide));
    out += &format!("{}\n", labels(&along, side + 2, wide, width));
    out += &format!("{:>width$}\n", along.title);
    for (name, look) in chart.legend() {
        out += &format!("  {} {}\n", marks[look], padded(name, width - 4).trim_end());
    }
    out
}

fn of_strips(chart: &Chart, strips: &[Strip], width: usize, unicode: bool) -> String {
    let values: Vec<f64> = strips.iter().flat_map(|s| [s.values.clone(), s.median.into_iter().collect()].concat()).collect();
    let longest = strips.iter().map(|s| s.name.chars().count()).max().unwrap_or(0);
    let side = longest.min(width / 3);
    let number = |median: Option<f64>| median.map_or("-".into(), |m| shortened(&chart.x.unit.show(m), width / 4));
    let medians: Vec<String> = strips.iter().map(|s| number(s.median)).collect();
    let end = medians.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(6);
    let wide = width - side - end - 4;
    let ruler = Ruler::of(&chart.x, &values, wide as f64, &|label| label.chars().count() as f64 + 2.0);
    let mut out = format!("{} {:wide$}   {:>end$}\n", padded(&chart.y.name, side), "", "median");
    let (dot, bar, mark, edge) = if unicode { ('·', '─', '●', '│') } else { ('.', '-', 'O', '|') };
    for (strip, median) in strips.iter().zip(&medians) {
        let mut row = vec![' '; wide];
        let at = |value: f64| Some(column(ruler.place(value)?, wide));
        for x in strip.values.iter().filter_map(|value| at(*value)) {
            row[x] = dot;
        }
        if let Some((low, high)) = strip.interval.and_then(|(low, high)| Some((at(low)?, at(high)?))) {
            row[low..=high].fill(bar);
        }
        match strip.median.and_then(at) {
            Some(x) => row[x] = mark,
            None => {
                let reason = strip.failures.as_deref().unwrap_or("nothing measured");
                row.iter_mut().zip(reason.chars().map(visible)).for_each(|(place, c)| *place = c);
            }
        }
        out += &format!("{} {edge}{}{edge} {median:>end$}\n", padded(&strip.name, side), row.iter().collect::<String>());
        if let (Some(failures), Some(_)) = (&strip.failures, strip.median) {
            out += &format!("{} {edge}{}{edge}\n", " ".repeat(side), padded(failures, wide));
        }
    }
    out += &format!("{}\n", labels(&ruler, side + 2, wide, width));
    out += &format!("{:>width$}\n", ruler.title);
    out
}
