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

/// What the title or a heading of an index page says, in small letters: Apache, nginx and lighttpd, Python and rclone, Tomcat,
/// serve-index, Squid, PyPI.
const SAYS: [&str; 8] =
    ["index of", "directory listing", "listing of", "listing directory", "ftp directory", "directory:", "files within", "simple index"];

/// Whether a page has the form of an index of the directory at `base`: its title or a heading says so or is the directory's path
/// (IIS, Caddy, darkhttpd), it has links that sort it (Apache without a title), or nothing but links (Go). A page that asks for a
/// password is none.
pub fn is_index(base: &Uri, page: &str) -> bool {
    let small = page.to_ascii_lowercase();
    if small.contains("type=\"password\"") || small.contains("type=password") || small.contains("type='password'") {
        return false;
    }
    let path: Vec<u8> = percent_decode_str(base.path()).collect();
    let path = String::from_utf8_lossy(&path).to_ascii_lowercase();
    let path: String = path.trim_end_matches('/').split_ascii_whitespace().collect();
    let is_path = |text: &str| {
        let text: String = text.split_ascii_whitespace().collect();
        let (host, authority) = (base.host().unwrap_or_default(), base.authority().map_or("", |authority| authority.as_str()));
        let behind = text.strip_prefix(authority).or_else(|| text.strip_prefix(host)).unwrap_or(&text);
        let behind = behind.strip_prefix('-').unwrap_or(behind);
        behind.starts_with('/') && behind.trim_end_matches('/') == path
    };
    let says = ["title", "h1", "h2", "h3"].iter().flat_map(|tag| texts(&small, tag));
    let sorts = || {
        let sorted = |reference: &String| reference.to_ascii_lowercase().starts_with("?c=n;o=");
        references(page).iter().any(sorted)
    };
    says.into_iter().any(|text| SAYS.iter().any(|words| text.contains(words)) || is_path(&text)) || sorts() || is_links_alone(&small)
}

/// Whether a page was closed by the server that made it.
pub fn is_closed(page: &str) -> bool {
    let end = page.trim_ascii_end().to_ascii_lowercase();
    end.ends_with("</html>") || (end.ends_with("</pre>") && !end.contains("<html") && is_links_alone(&end))
}

/// The texts of the elements of a kind, without tags in them. `page` is in small letters.
fn texts(page: &str, tag: &str) -> Vec<String> {
    let (open, close) = (format!("<{tag}"), format!("</{tag}"));
    let of = |(at, _): (usize, &str)| {
        let rest = page[at + open.len()..].strip_prefix([' ', '\t', '\r', '\n', '>']).map(|_| &page[at + open.len()..])?;
        let text = rest.split_once('>')?.1.split_once(&close)?.0;
        Some(text_of(&without_tags(text)).split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    };
    page.match_indices(&open).filter_map(of).collect()
}

fn without_tags(text: &str) -> String {
    let mut parts = text.split('<');
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |all, part| all + part.split_once('>').map_or("", |(_, behind)| behind))
}

/// One `<pre>` that has links and no other text. `page` is in small letters.
fn is_links_alone(page: &str) -> bool {
    let Some((before, rest)) = page.split_once("<pre>") else { return false };
    let inner = rest.split_once("</pre>").map_or(rest, |(inner, behind)| if behind.trim_ascii().is_empty() { inner } else { "x" });
    let outside = inner.split("<a ").enumerate().map(|(i, part)| match part.split_once("</a>") {
        Some((_, behind)) if i > 0 => behind,
        _ => part,
    });
    without_tags(before).trim_ascii().is_empty() && outside.into_iter().all(|text| text.trim_ascii().is_empty())
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

    #[test]
    fn index_pages_are_known_by_their_form() {
        let is = |page: &str| is_index(&"http://h:81/d/e%20f/".parse().expect("an address"), page);
        for page in [
            "<html><head><title>Index of /d/e f/</title></head><body><h1>Index of</h1><pre></pre></body></html>",
            "<!DOCTYPE HTML>\n<title>Directory listing for /d/e f/</title><ul></ul>",
            "<html><head><title>Directory Listing For [/d/]</title></head></html>",
            "<html><head><title>h - /d/e f/</title></head><body><H1>h - /d/e f/</H1><A HREF=\"/d/\">[To Parent Directory]</A></body></html>",
            "<html><title>e f</title><h1>\n<a href=\"../../\">/</a><a href=\"../\">d</a>/<a href=\"./\">e f</a>/</h1></html>",
            "<TITLE>h:81/d/e f</TITLE>",
            "<table><tr><th><a href=\"?C=N;O=D\">Name</a></th></tr></table>",
            "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n<a href=\"x\">x</a>\n</pre>\n",
            "<pre>\n</pre>\n",
        ] {
            assert!(is(page), "{page}");
        }
        for page in [
            "",
            "<html></html>",
            "{\"files\": []}",
            "<html><title>Log in</title><h1>Welcome</h1><a href=\"forgot\">Forgot?</a></html>",
            "<html><title>Index of /d/e f/</title><form><input type=\"password\"></form></html>",
            "<html><title>Maintenance</title><h2>Back soon</h2><pre>until <a href=\"x\">noon</a></pre></html>",
            "<html><h1>/d/</h1></html>",
            "<pre>503 for <a href=\"x\">this</a></pre>",
        ] {
            assert!(!is(page), "{page}");
        }
        assert!(is_closed("<html></HTML>\n") && is_closed("<pre>\n<a href=x>x</a></pre>\n") && !is_closed("<html><pre></pre>"));
    }

    proptest! {
        #[test]
        fn no_page_panics_or_names_what_is_no_name(page in "(<a |<A\n|href|=|[\"'>&;#x%/.]|[a-z0-9é]|2e|<!--|-->|&amp;){0,60}") {
            is_index(&"http://h/".parse().expect("an address"), &page);
            for (name, _) in of(&page) {
                prop_assert!(!name.is_empty() && name != "." && name != ".." && !name.contains('/'), "{name}");
            }
        }
    }
}
