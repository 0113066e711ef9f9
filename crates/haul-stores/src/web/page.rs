//! Index pages: the names of a directory, out of the links of the page that a server makes of it.

use std::collections::BTreeSet;

use http::Uri;
use percent_encoding::percent_decode_str;

use super::link::join;

/// A page is read up to here: some 100,000 names.
pub const MOST_BYTES: u64 = 64 << 20;

/// What is in the directory whose page this is: names as they are, without `%xx`, and whether each is a directory. In order, each
/// once. Links to anywhere else are left out, and so are names that can be no name of a file.
pub fn names(base: &Uri, page: &str) -> BTreeSet<(Vec<u8>, bool)> {
    let mut found = BTreeSet::new();
    let above = base.path().rfind('/').map_or("/", |at| &base.path()[..=at]);
    for reference in references(page) {
        let Some(address) = join(base, &reference) else { continue };
        // Links with a query sort the page.
        if (address.scheme(), address.authority()) != (base.scheme(), base.authority()) || address.query().is_some() {
            continue;
        }
        let Some(below) = address.path().strip_prefix(above) else { continue };
        let (name, is_dir) = below.strip_suffix('/').map_or((below, false), |name| (name, true));
        let name: Vec<u8> = percent_decode_str(name).collect();
        if !below.is_empty() && haul_core::entry::check_leaf(&name).is_ok() {
            found.insert((name, is_dir));
        }
    }
    found
}

/// The values of `href` in the `<a>` elements of a page, as far as it has the form of one.
fn references(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let Some(inner) = rest.strip_prefix(['a', 'A']).filter(|inner| inner.starts_with(|c: char| c.is_ascii_whitespace())) else {
            continue;
        };
        let (value, behind) = href(inner);
        found.extend(value);
        rest = behind;
    }
    found
}

/// The `href` among the attributes of an element, and what is behind the element.
fn href(mut rest: &str) -> (Option<String>, &str) {
    let mut found = None;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() || rest.starts_with('>') {
            return (found, rest);
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>')).unwrap_or(rest.len());
        // An equals sign in front of everything is part of a name.
        let (name, behind) = rest.split_at(end.max(rest.chars().next().map_or(0, char::len_utf8)));
        rest = behind.trim_ascii_start();
        let Some(value) = rest.strip_prefix('=') else { continue };
        let value = value.trim_ascii_start();
        let (value, behind) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            _ => value.split_at(value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len())),
        };
        rest = behind;
        if name.eq_ignore_ascii_case("href") && found.is_none() {
            found = Some(text_of(value));
        }
    }
}

/// Without the entities that servers write into links.
fn text_of(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let decoded = rest[1..].split_once(';').filter(|(word, _)| word.len() <= 8).and_then(|(word, behind)| {
            let number = |digits: &str, base| u32::from_str_radix(digits, base).ok().and_then(char::from_u32);
            let c = match word {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                word => match word.strip_prefix(['#'])? {
                    hex if hex.starts_with(['x', 'X']) => number(&hex[1..], 16)?,
                    decimal => number(decimal, 10)?,
                },
            };
            Some((c, behind))
        });
        match decoded {
            Some((c, behind)) => {
                out.push(c);
                rest = behind;
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(page: &str) -> Vec<(String, bool)> {
        let base = "http://h/d/".parse().expect("an address");
        names(&base, page).into_iter().map(|(name, is_dir)| (String::from_utf8_lossy(&name).into_owned(), is_dir)).collect()
    }

    #[test]
    fn names_are_found_and_nothing_else() {
        let page = r#"<html><h1>Index of /d/</h1><A HREF="?C=N;O=D">Name</A><a href="../">../</a><a class=x href='a%20b.txt'>a</a>
            <a href=plain>plain</a><a href="/d/sub/">sub</a><a href="http://h/d/full">x</a><a href="http://other/d/no">x</a>
            <a href="/elsewhere">x</a><a href="sub/deeper">x</a><a href="x&amp;y&#61;z">x</a><a name="only">x</a><a href="a%20b.txt">again</a>
            <!-- <a href="hidden"> --><abbr href="no"></abbr><a href="%2e%2e">x</a><a href="a%2Fb">x</a><a href="./">x</a><a href="x%00">x</a>"#;
        let expected = [("a b.txt", false), ("full", false), ("plain", false), ("sub", true), ("x&y=z", false)];
        assert_eq!(of(page), expected.map(|(name, is_dir)| (name.to_string(), is_dir)));
    }

    proptest! {
        #[test]
        fn no_page_panics_or_names_what_is_no_name(page in "(<a |<A\n|href|=|[\"'>&;#x%/.]|[a-z0-9é]|2e|<!--|-->|&amp;){0,60}") {
            for (name, _) in of(&page) {
                prop_assert!(!name.is_empty() && name != "." && name != ".." && !name.contains('/'), "{name}");
            }
        }
    }
}
