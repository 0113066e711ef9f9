//! `Content-Disposition` (RFC 6266): a file name that the server suggests. It is a hint and never a path.

use percent_encoding::percent_decode_str;

/// The name that the header suggests, if that is one plain component of a path: nothing hidden, no control characters.
pub fn file_name(header: &[u8]) -> Option<String> {
    let header = std::str::from_utf8(header).ok()?;
    let mut rest = header.split_once(';')?.1;
    let (mut plain, mut extended) = (None, None);
    while let Some((name, behind)) = rest.split_once('=') {
        let (value, behind) = value(behind.trim_ascii_start());
        match name.trim_matches(|c: char| c == ';' || c.is_ascii_whitespace()) {
            name if name.eq_ignore_ascii_case("filename") => plain = Some(value),
            name if name.eq_ignore_ascii_case("filename*") => extended = decoded(&value),
            _ => {}
        }
        rest = behind;
    }
    [extended, plain].into_iter().flatten().find(|name| is_safe(name))
}

/// A token or a quoted string, and what is behind it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (token, behind) = text.split_at(text.find(';').unwrap_or(text.len()));
        return (token.trim_ascii_end().to_string(), behind);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

/// `UTF-8''x%20y` (RFC 8187).
fn decoded(value: &str) -> Option<String> {
    let (charset, value) = value.split_once('\'')?;
    let value = value.split_once('\'')?.1;
    charset.eq_ignore_ascii_case("utf-8").then(|| percent_decode_str(value).decode_utf8().ok().map(Into::into))?
}

fn is_safe(name: &str) -> bool {
    haul_core::entry::check_leaf(name.as_bytes()).is_ok()
        && name.len() <= 255
        && !name.starts_with('.')
        && !name.chars().any(|c| c.is_control() || c == '\\')
        && !name.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_plain_names_are_taken() {
        for (header, expected) in [
            ("attachment; filename=data.nc", "data.nc"),
            ("attachment; filename=\"two words; x.nc\"; size=3", "two words; x.nc"),
            ("attachment;FileName=\"a\\\"b\"", "a\"b"),
            ("inline; filename=plain; filename*=UTF-8''%e2%82%ac%20rates", "€ rates"),
            ("attachment; filename*=UTF-8'en'x; filename=y", "x"),
            ("attachment; filename*=ISO-8859-1''%A3; filename=\"pounds\"", "pounds"),
            ("attachment; filename*=UTF-8''..%2fx; filename=y", "y"),
            ("attachment; filename=\"\u{e9}.txt\"", "\u{e9}.txt"),
            ("attachment; filename=\"../../out\"", ""),
            ("attachment; filename=\"/etc/passwd\"", ""),
            ("attachment; filename=\"a/b\"", ""),
            ("attachment; filename=\"c:\\\\x\"", ""),
            ("attachment; filename=..", ""),
            ("attachment; filename=.profile", ""),
            ("attachment; filename=\"a\u{1b}[31m\"", ""),
            ("attachment; filename*=UTF-8''a%00b", ""),
            ("attachment; filename=\"\"", ""),
            ("attachment; filename=\" \"", ""),
            ("attachment", ""),
            ("filename=x", ""),
        ] {
            assert_eq!(file_name(header.as_bytes()).unwrap_or_default(), expected, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_panics_or_suggests_a_path(header in "a;( ?filename\\*?=|UTF-8''|[\"\\\\;=/.%x \n]|2f|00){0,30}") {
            if let Some(name) = file_name(header.as_bytes()) {
                prop_assert!(!name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0', '\n']), "{name}");
            }
        }
    }
}
