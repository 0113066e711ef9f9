//! Keys that are no file names, and how they become some where that is asked for.
//!
//! A key is any text; a path is parts between slashes, none of them empty, `.` or `..`, none with a zero byte or
//! longer than 255 bytes. Most keys are paths and stay as they are. What is none is escaped with a mark that no
//! keyboard has, the full-width percent sign U+FF05 (`％`), so that names with a percent sign stay readable:
//!
//! | in the key | in the path |
//! |---|---|
//! | an empty part: `a//b`, `/a` | `a/％2F/b`, `％2F/a` |
//! | `.`, `..` as a part | `％2E`, `％2E％2E` |
//! | a zero byte | `％00` |
//! | a part of more than 255 bytes | several, all but the last with `％~` at its end |
//! | `％` before two capital hexadecimal digits or `~` | `％EF％BC％85` |
//!
//! A last slash says that the key is a directory's; it is kept beside the path. Different keys give different
//! paths, and [`key_of_file`] gives the key back. That `a` and `a/b`, or case twins, cannot be files of one tree is
//! another matter: each is a path.

use std::fmt;

const MARK: &[u8] = "\u{ff05}".as_bytes();

/// Bytes that a file name can have.
const LONGEST_NAME: usize = 255;

/// Why a key is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    Empty,
    LeadingSlash,
    EmptyPart,
    Dots,
    ZeroByte,
    LongPart,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::Empty => "the key is empty",
            Unfit::LeadingSlash => "the key begins with a slash, which no name below a directory does",
            Unfit::EmptyPart => "the key has two slashes in a row, and a name between them would be empty",
            Unfit::Dots => "the key has a part '.' or '..', which would leave its directory",
            Unfit::ZeroByte => "the key has a zero byte in it, which no file name has",
            Unfit::LongPart => "a part of the key is longer than the 255 bytes of a file name",
        })
    }
}

/// Why a key is no path, or `None` if it is one. A slash at its end is no fault: it is a directory's key.
pub fn unfit(key: &[u8]) -> Option<Unfit> {
    if key.is_empty() {
        return Some(Unfit::Empty);
    }
    if key.starts_with(b"/") {
        return Some(Unfit::LeadingSlash);
    }
    let key = key.strip_suffix(b"/").unwrap_or(key);
    key.split(|byte| *byte == b'/').find_map(|part| match part {
        b"" => Some(Unfit::EmptyPart),
        b"." | b".." => Some(Unfit::Dots),
        part if part.contains(&0) => Some(Unfit::ZeroByte),
        part if part.len() > LONGEST_NAME => Some(Unfit::LongPart),
        _ => None,
    })
}

/// The path that stands for a key, and whether it is a directory's. `None` for the empty key alone.
pub fn file_of_key(key: &[u8]) -> Option<(Vec<u8>, bool)> {
    if key.is_empty() {
        return None;
    }
    let (parts, dir) = match key.strip_suffix(b"/") {
        Some(parts) => (parts, true),
        None => (key, false),
    };
    let mut path = Vec::with_capacity(key.len());
    for part in parts.split(|byte| *byte == b'/') {
        if !path.is_empty() {
            path.push(b'/');
        }
        escape(part, &mut path);
    }
    Some((path, dir))
}

/// The key for which a path stands: the reverse of [`file_of_key`]. A path that it never gives has a key all the
/// same, whose own path is another.
pub fn key_of_file(path: &[u8], dir: bool) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len() + 1);
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let goes_on = unescape(part, &mut key);
        if !goes_on && parts.peek().is_some() {
            key.push(b'/');
        }
    }
    if dir {
        key.push(b'/');
    }
    key
}

fn put(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(MARK);
    out.extend_from_slice(format!("{byte:02X}").as_bytes());
}

fn escape(part: &[u8], out: &mut Vec<u8>) {
    if part.is_empty() {
        return put(b'/', out);
    }
    let pieces: Vec<Vec<u8>> = Pieces(part).collect();
    let whole = pieces.iter().map(Vec::len).sum::<usize>() <= LONGEST_NAME;
    let most = if whole { LONGEST_NAME } else { LONGEST_NAME - MARK.len() - 1 };
    let mut start = out.len();
    for piece in pieces {
        if out.len() - start + piece.len() > most {
            out.extend_from_slice(MARK);
            out.extend_from_slice(b"~/");
            start = out.len();
        }
        out.extend_from_slice(&piece);
    }
    // The whole part, or what was left over of a long one.
    if matches!(&out[start..], b"." | b"..") {
        let dots = out.len() - start;
        out.truncate(start);
        (0..dots).for_each(|_| put(b'.', out));
    }
}

/// A part in what must stay together: characters and escapes.
struct Pieces<'a>(&'a [u8]);

impl Iterator for Pieces<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let rest = self.0;
        let (&first, behind) = rest.split_first()?;
        let mut piece = Vec::new();
        if rest.strip_prefix(MARK).is_some_and(is_escape) {
            MARK.iter().for_each(|byte| put(*byte, &mut piece));
            self.0 = &rest[MARK.len()..];
        } else if first == 0 {
            put(first, &mut piece);
            self.0 = behind;
        } else {
            let tail = behind.iter().take(3).take_while(|byte| first >= 0xc0 && (0x80..0xc0).contains(*byte)).count();
            piece.extend_from_slice(&rest[..1 + tail]);
            self.0 = &behind[tail..];
        }
        Some(piece)
    }
}

/// Adds what a part of a path stands for; whether it goes on in the next without a slash.
fn unescape(part: &[u8], key: &mut Vec<u8>) -> bool {
    let mut rest = part;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(MARK) {
            if behind == b"~" {
                return true;
            }
            if let Some(byte) = hex(behind) {
                // The escape of a slash is that of nothing between two.
                key.extend(Some(byte).filter(|byte| *byte != b'/'));
                rest = &behind[2..];
                continue;
            }
        }
        key.push(rest[0]);
        rest = &rest[1..];
    }
    false
}

fn is_escape(behind: &[u8]) -> bool {
    behind.starts_with(b"~") || hex(behind).is_some()
}

/// The byte of two capital hexadecimal digits at the start.
fn hex(text: &[u8]) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    Some(digit(*text.first()?)? << 4 | digit(*text.get(1)?)?)
}
