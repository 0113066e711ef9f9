//! References in answers: where a `Location` header or a link of a page leads, seen from the address that it was got from.

use http::Uri;

/// The address that `reference` names on the page `base` (RFC 3986, section 5), without its fragment. `None` for what is no
/// http address.
pub fn join(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.trim_ascii();
    let reference = reference.split_once('#').map_or(reference, |(before, _)| before);
    let (scheme, authority) = (base.scheme_str()?, base.authority()?.as_str());
    let path_and_query = |path: &str, query: Option<&str>| {
        let query = query.map_or(String::new(), |query| format!("?{}", visible(query)));
        format!("{scheme}://{authority}{}{query}", without_dots(&visible(path))).parse().ok()
    };
    let (path, query) = reference.split_once('?').map_or((reference, None), |(path, query)| (path, Some(query)));
    if let Some((word, rest)) = path.split_once(':')
        && !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    {
        let web = ["http", "https"].iter().any(|known| word.eq_ignore_ascii_case(known)) && rest.starts_with("//");
        let address: Uri = web.then(|| visible(reference).parse().ok())??;
        return address.authority().is_some().then_some(address);
    }
    if path.starts_with("//") {
        return format!("{scheme}:{}", visible(reference)).parse().ok().filter(|address: &Uri| address.authority().is_some());
    }
    match path {
        "" => path_and_query(base.path(), query.or(base.query())),
        absolute if absolute.starts_with('/') => path_and_query(absolute, query),
        relative => {
            let above = base.path().rfind('/').map_or("/", |at| &base.path()[..=at]);
            path_and_query(&format!("{above}{relative}"), query)
        }
    }
}

/// Blanks and what is not ASCII, as servers write them by mistake, in `%xx` form.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if !b"\"<>\\^`{|}".contains(&byte) => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// RFC 3986, section 5.2.4.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let all: Vec<&str> = path.split('/').skip(1).collect();
    for (at, part) in all.iter().enumerate() {
        let last = at + 1 == all.len();
        match *part {
            "." if last => parts.push(""),
            "." => {}
            ".." => {
                parts.pop();
                if last {
                    parts.push("");
                }
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_where_browsers_go() {
        for (reference, expected) in [
            ("c", "http://h:1/a/c"),
            ("./c", "http://h:1/a/c"),
            ("../c/", "http://h:1/c/"),
            ("../../../c", "http://h:1/c"),
            ("..", "http://h:1/"),
            ("/x?y=1#z", "http://h:1/x?y=1"),
            ("?C=N;O=D", "http://h:1/a/b?C=N;O=D"),
            ("", "http://h:1/a/b"),
            ("//other/x", "http://other/x"),
            ("https://other/x y", "https://other/x%20y"),
            ("a b\u{e9}", "http://h:1/a/a%20b%C3%A9"),
            ("x:y/z", ""),
            ("mailto:me", ""),
            ("javascript:go()", ""),
            ("./x:y", "http://h:1/a/x:y"),
            ("http:", ""),
        ] {
            let found = join(&"http://h:1/a/b".parse().expect("an address"), reference).map(|uri| uri.to_string()).unwrap_or_default();
            assert_eq!(found, expected, "{reference}");
        }
    }
}
