//! Parts of keys that are no file names, and the names that stand for them where that is asked for.
//!
//! A key is any text; a path is parts between slashes, none of them empty, `.` or `..`, none with a zero byte or longer
//! than 255 bytes. Most keys are paths and stay as they are. What is none is escaped with a mark that no keyboard has, the
//! full-width percent sign U+FF05 (`％`), so that names with a percent sign stay readable:
//!
//! | in the key | as a name |
//! |---|---|
//! | an empty part: `a//b`, `/a` | `％2F` |
//! | `.`, `..` | `％2E`, `％2E％2E` |
//! | a zero byte | `％00` |
//! | `％` before two capital hexadecimal digits or `~` | `％EF％BC％85` |
//! | the last part of an object whose name is a directory's, too (`a` beside `a/b`; `a/` with content) | `％~` at its end |
//!
//! Different parts give different names. A part that would be longer than 255 bytes has no name.

const MARK: &[u8] = "\u{ff05}".as_bytes();

/// At the end of the name of an object that stands beside a directory of the same name.
const BESIDE: &[u8] = "\u{ff05}~".as_bytes();

/// Bytes that a file name can have.
const LONGEST_NAME: usize = 255;

/// The name that stands for a part of a key; `None` where it would be too long.
pub fn name_of_part(part: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(part.len());
    match part {
        b"" => put(b'/', &mut name),
        b"." | b".." => part.iter().for_each(|byte| put(*byte, &mut name)),
        _ => {
            for (at, byte) in part.iter().enumerate() {
                match part[at..].strip_prefix(MARK) {
                    // A character's first byte alone: the others would be no text by themselves.
                    Some(behind) if is_escape(behind) => MARK.iter().for_each(|byte| put(*byte, &mut name)),
                    _ if at >= 1 && is_inside_escaped(part, at) => {}
                    _ if *byte == 0 => put(0, &mut name),
                    _ => name.push(*byte),
                }
            }
        }
    }
    (name.len() <= LONGEST_NAME).then_some(name)
}

/// [`name_of_part`] for the last part of an object beside a directory of that name.
pub fn name_beside(part: &[u8]) -> Option<Vec<u8>> {
    let mut name = name_of_part(part)?;
    name.extend_from_slice(BESIDE);
    (name.len() <= LONGEST_NAME).then_some(name)
}

pub fn is_beside(name: &[u8]) -> bool {
    name.ends_with(BESIDE)
}

/// The part of a key for which a name stands: the reverse of [`name_of_part`] and [`name_beside`]. A name that neither
/// gives stands for a part all the same, whose own name is another.
pub fn part_of_name(name: &[u8]) -> Vec<u8> {
    let mut rest = name.strip_suffix(BESIDE).unwrap_or(name);
    let mut part = Vec::with_capacity(rest.len());
    while let Some((first, behind)) = rest.split_first() {
        match rest.strip_prefix(MARK).and_then(|behind| Some((hex(behind)?, &behind[2..]))) {
            Some((byte, behind)) => {
                // The escape of a slash is that of nothing between two.
                part.extend(Some(byte).filter(|byte| *byte != b'/'));
                rest = behind;
            }
            None => {
                part.push(*first);
                rest = behind;
            }
        }
    }
    part
}

/// The path that stands for a key; `None` where one of its parts has no name. A slash at its end is that of a directory.
pub fn path_of_key(key: &[u8]) -> Option<Vec<u8>> {
    let names: Option<Vec<_>> = key.strip_suffix(b"/").unwrap_or(key).split(|byte| *byte == b'/').map(name_of_part).collect();
    Some(names?.join(&b'/'))
}

/// [`path_of_key`] for an object beside a directory of its name: another key goes on behind a slash, or this one ends in one.
pub fn path_beside(key: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = key.split(|byte| *byte == b'/').collect();
    let last = name_beside(parts.pop()?)?;
    let mut names = parts.into_iter().map(name_of_part).collect::<Option<Vec<_>>>()?;
    names.push(last);
    Some(names.join(&b'/'))
}

fn put(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(MARK);
    out.extend_from_slice(format!("{byte:02X}").as_bytes());
}

/// Whether the byte at `at` belongs to a mark that begins before it and is escaped as a whole.
fn is_inside_escaped(part: &[u8], at: usize) -> bool {
    (1..MARK.len().min(at + 1)).any(|back| part[at - back..].strip_prefix(MARK).is_some_and(is_escape))
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
