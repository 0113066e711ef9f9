//! Names and text as people may see them.

use std::borrow::Cow;

/// A name for a terminal: control characters and invalid UTF-8 are escaped as in Rust and C (`\n`, `\x1b`, `\xff`), so that a
/// hostile name cannot write to the screen.
pub fn show(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for part in name.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                c if is_deceptive(c) => push_escaped(c, &mut out),
                c => out.push(c),
            }
        }
        for byte in part.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// What [`show`] made readable, as the bytes that it was.
pub fn unshown(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let (plain, used): (Vec<u8>, usize) = match escape.as_bytes() {
            [b'n', ..] => (vec![b'\n'], 1),
            [b't', ..] => (vec![b'\t'], 1),
            [b'r', ..] => (vec![b'\r'], 1),
            [b'\\', ..] => (vec![b'\\'], 1),
            [b'x', ..] => match escape.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => (vec![byte], 3),
                None => (vec![b'\\'], 0),
            },
            [b'u', b'{', ..] => {
                let end = escape.find('}').unwrap_or(0);
                let letter = escape.get(2..end).and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
                letter.map_or((vec![b'\\'], 0), |c| (c.to_string().into_bytes(), end + 1))
            }
            _ => (vec![b'\\'], 0),
        };
        bytes.extend(plain);
        rest = &escape[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// [`show`] for text that may contain an argument as typed: line ends, tabs and backslashes are kept.
pub fn show_text(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| is_deceptive(c) && c != '\n' && c != '\t';
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' => out.push_str("\\r"),
            c if harmful(c) => push_escaped(c, &mut out),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Characters that a terminal acts on, that reorder text, or that are invisible. The joiners U+200C and U+200D are allowed: names
/// in Persian, Indic scripts and with emoji need them.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks and embeddings of direction; separators of lines and paragraphs.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // Without width.
            | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Tags, a second ASCII that is not drawn.
            | '\u{e0000}'..='\u{e007f}')
}

fn push_escaped(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push_str(&format!("\\x{:02x}", c as u32));
    } else {
        out.extend(c.escape_unicode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_names_cannot_write_to_the_terminal() {
        assert_eq!(show(b"a\x1b[2J\n\xff\\"), "a\\x1b[2J\\n\\xff\\\\");
        assert_eq!(show("caf\u{e9} \u{202e}x".as_bytes()), "caf\u{e9} \\u{202e}x");
        for hidden in ['\u{85}', '\u{9b}', '\u{61c}', '\u{200b}', '\u{2028}', '\u{2029}', '\u{2066}', '\u{feff}', '\u{e0041}', '\u{e007f}']
        {
            let escaped = format!("a\\u{{{:x}}}b", hidden as u32);
            assert_eq!(show(format!("a{hidden}b").as_bytes()), escaped);
            assert_eq!(show_text(&format!("a{hidden}b")), escaped);
        }
        let ordinary =
            "\u{646}\u{645}\u{6cc}\u{200c}\u{62e}\u{648} \u{1f468}\u{200d}\u{1f469} e\u{301} \u{6771}\u{4eac} \u{928}\u{94d}\u{200d}";
        assert_eq!(show(ordinary.as_bytes()), ordinary);
        assert_eq!(show_text("a\tb\\\nc\r\x1b[m\x7f"), "a\tb\\\nc\\r\\x1b[m\\x7f");
    }

    #[test]
    fn a_shown_path_is_found_again() {
        for path in [&b"/plain"[..], b"/a\\b", b"/\xff\xfe", b"/new\nline\t", "/\u{202e}x\u{85}y\u{e9}".as_bytes(), b"/\\x41\\"] {
            assert_eq!(unshown(&show(path)), path, "{}", show(path));
        }
    }
}
