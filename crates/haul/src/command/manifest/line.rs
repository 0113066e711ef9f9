//! The text of a manifest: one file a line, in the order of paths.
//!
//! ```text
//! # haul manifest 1 blake3
//! 6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85  3  1700000000.000000000  dir/name
//! ```
//!
//! digest, size in bytes, mtime in seconds since 1970 with nanoseconds, path. A backslash, a newline and what is
//! not UTF-8 are escaped as `\\`, `\n` and `\xNN`. Other formats are the coreutils form (`DIGEST  PATH`, a
//! leading backslash where the path is escaped), which `sha256sum -c` and its kin read.

use std::io::{self, BufRead, Write};

use haul_core::entry::Time;
use haul_core::hash::{Algorithm, hex, unhex};
use haul_core::{Error, ErrorKind, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Manifest,
    Coreutils,
}

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub digest: Vec<u8>,
    /// Size and mtime, where the format has them.
    pub stamp: Option<(u64, Time)>,
    pub path: Vec<u8>,
}

const HEAD: &str = "# haul manifest 1 ";

/// The first line of a manifest; other formats have none.
pub fn head(algorithm: Algorithm) -> String {
    format!("{HEAD}{}", algorithm.word())
}

fn escape(path: &[u8]) -> String {
    let mut out = String::new();
    for part in path.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        for byte in part.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (kind, more) = rest.split_first()?;
        rest = more;
        match kind {
            b'\\' => out.push(b'\\'),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b'x' => {
                let (digits, more) = rest.split_at_checked(2)?;
                out.extend(unhex(std::str::from_utf8(digits).ok()?)?);
                rest = more;
            }
            _ => return None,
        }
    }
    Some(out)
}

impl Line {
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match (format, self.stamp) {
            (Format::Manifest, Some((size, at))) => {
                writeln!(out, "{}  {size}  {}.{:09}  {}", hex(&self.digest), at.secs, at.nanos, escape(&self.path))
            }
            _ => {
                // md5sum(1): a line whose name is escaped begins with a backslash.
                let needs = self.path.iter().any(|b| matches!(b, b'\\' | b'\n' | b'\r'));
                out.write_all(if needs { b"\\" } else { b"" })?;
                write!(out, "{}  ", hex(&self.digest))?;
                for byte in &self.path {
                    match byte {
                        b'\\' if needs => out.write_all(b"\\\\")?,
                        b'\n' => out.write_all(b"\\n")?,
                        b'\r' if needs => out.write_all(b"\\r")?,
                        byte => out.write_all(&[*byte])?,
                    }
                }
                out.write_all(b"\n")
            }
        }
    }

    pub fn parse(text: &[u8], format: Format) -> Option<Self> {
        let (escaped, text) = match text.strip_prefix(b"\\") {
            Some(rest) if format == Format::Coreutils => (true, rest),
            _ => (false, text),
        };
        let cut = text.iter().position(|b| *b == b' ')?;
        let digest = unhex(std::str::from_utf8(&text[..cut]).ok()?)?;
        let rest = &text[cut..];
        if format == Format::Coreutils {
            // Two spaces, or a space and the star of binary mode.
            let path = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
            let path = if escaped { unescape(path)? } else { path.to_vec() };
            return Some(Line { digest, stamp: None, path });
        }
        let mut fields = rest.strip_prefix(b"  ")?.splitn(5, |b| *b == b' ');
        let size = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        fields.next().filter(|gap| gap.is_empty())?;
        let (secs, nanos) = std::str::from_utf8(fields.next()?).ok()?.split_once('.')?;
        let at = Time { secs: secs.parse().ok()?, nanos: nanos.parse().ok()? };
        fields.next().filter(|gap| gap.is_empty())?;
        Some(Line { digest, stamp: Some((size, at)), path: unescape(fields.next()?)? })
    }
}

/// Reads a manifest's first line; text without it is the coreutils form, the algorithm told by the digest's width.
pub fn format_of(first: &[u8]) -> Option<(Format, Algorithm)> {
    if let Some(word) = first.strip_prefix(HEAD.as_bytes()) {
        return Some((Format::Manifest, Algorithm::of_word(std::str::from_utf8(word).ok()?.trim())?));
    }
    let line = Line::parse(first, Format::Coreutils)?;
    let algorithm = match line.digest.len() {
        16 => Algorithm::Md5,
        20 => Algorithm::Sha1,
        32 => Algorithm::Sha256,
        64 => Algorithm::Sha512,
        _ => return None,
    };
    Some((Format::Coreutils, algorithm))
}

/// Reads a manifest, of which the first line says the format.
pub struct Lines<'a> {
    manifest: &'a mut (dyn BufRead + Send),
    /// Known after the first line.
    pub format: Option<(Format, Algorithm)>,
}

impl<'a> Lines<'a> {
    pub fn new(manifest: &'a mut (dyn BufRead + Send)) -> Self {
        Lines { manifest, format: None }
    }

    /// The next lines, at most this many; none at the end.
    pub fn batch(&mut self, most: usize) -> Result<Vec<(Line, Algorithm)>> {
        let bad = |text: &[u8]| {
            let e = Error::new(ErrorKind::Usage, "read manifest");
            let start = &text[..text.len().min(80)];
            e.because(format!("not a line of a manifest: {:?}", String::from_utf8_lossy(start)))
        };
        let mut batch = Vec::new();
        let mut text = Vec::new();
        while batch.len() < most {
            text.clear();
            if self.manifest.read_until(b'\n', &mut text).map_err(|e| Error::io(e, "read manifest"))? == 0 {
                break;
            }
            if text.last() == Some(&b'\n') {
                text.pop();
            }
            let (format, algorithm) = match self.format {
                Some(known) => known,
                None => {
                    let found = format_of(&text).ok_or_else(|| bad(&text))?;
                    self.format = Some(found);
                    if found.0 == Format::Manifest {
                        continue;
                    }
                    found
                }
            };
            if text.is_empty() {
                continue;
            }
            batch.push((Line::parse(&text, format).ok_or_else(|| bad(&text))?, algorithm));
        }
        Ok(batch)
    }
}

/// The path below the tree that a line means: coreutils lines may carry the directory in front.
pub fn below<'a>(tree: &[u8], path: &'a [u8]) -> &'a [u8] {
    let tree = tree.strip_suffix(b"/").unwrap_or(tree);
    path.strip_prefix(tree).and_then(|rest| rest.strip_prefix(b"/")).or_else(|| path.strip_prefix(b"./")).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip_in_both_formats() {
        for path in [&b"a/b"[..], b"with space", b"new\nline", b"back\\slash", b"caf\xe9", b"-dash"] {
            let line = Line { digest: vec![1, 0xab], stamp: Some((5, Time { secs: -3, nanos: 7 })), path: path.to_vec() };
            let mut text = Vec::new();
            line.write(Format::Manifest, &mut text).unwrap();
            assert_eq!(text.pop(), Some(b'\n'));
            assert!(!text.contains(&b'\n'));
            assert_eq!(Line::parse(&text, Format::Manifest), Some(line.clone()));
            let mut text = Vec::new();
            line.write(Format::Coreutils, &mut text).unwrap();
            text.pop();
            assert_eq!(Line::parse(&text, Format::Coreutils), Some(Line { stamp: None, ..line }));
        }
    }

    #[test]
    fn what_is_no_manifest_is_told() {
        assert_eq!(format_of(b"# haul manifest 1 blake3"), Some((Format::Manifest, Algorithm::Blake3)));
        assert_eq!(format_of(b"900150983cd24fb0d6963f7d28e17f72  a"), Some((Format::Coreutils, Algorithm::Md5)));
        assert_eq!(format_of(b"hello"), None);
        assert_eq!(format_of(b"abcd  short"), None);
    }
}
