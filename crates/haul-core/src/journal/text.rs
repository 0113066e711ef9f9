//! The small files beside a journal: lines of `word value`, for people and for `haul jobs`.

use std::fmt::Write;

/// Appends a line. Line breaks and backslashes in the value are escaped.
pub(super) fn put(text: &mut String, word: &str, value: &str) {
    let value = value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    let _infallible = writeln!(text, "{word} {value}");
}

/// The values of the lines that begin with `word`, up to the first empty line.
pub(super) fn all<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = String> + 'a {
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' ')).map(plain)
}

pub(super) fn one(text: &str, word: &str) -> Option<String> {
    all(text, word).next()
}

pub(super) fn number<T: std::str::FromStr>(text: &str, word: &str) -> Option<T> {
    one(text, word)?.trim().parse().ok()
}

/// What comes after the first empty line.
pub(super) fn rest(text: &str) -> &str {
    text.split_once("\n\n").map_or("", |(_, rest)| rest)
}

fn plain(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
            _ => out.push(letter),
        }
    }
    out
}
