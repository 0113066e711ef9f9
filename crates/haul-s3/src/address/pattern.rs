//! Wildcards in keys: `2024-*/x*.nc`.

use haul_core::filter::Glob;

/// A key with wildcards: `*` and `?` do not cross a slash, `**` does, `[a-z]` is one byte, a backslash escapes.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// What every key that matches begins with, byte by byte.
    prefix: Vec<u8>,
    glob: Glob,
    /// One pattern for each slash before any `**`: the first i parts and their slashes.
    levels: Vec<Glob>,
    /// There is a `**` behind the levels, so that what is deeper may match too.
    deep: bool,
}

impl Pattern {
    /// `Ok(None)` without a wildcard: the key as it is, backslashes included; an open bracket alone is none. `Err` says why the
    /// pattern is invalid.
    pub fn parse(text: &[u8]) -> Result<Option<Pattern>, String> {
        let wild = text.iter().any(|byte| matches!(byte, b'*' | b'?'));
        let glob = Glob::new(text);
        if !wild && (glob.is_broken() || !text.contains(&b'[')) {
            return Ok(None);
        }
        if glob.is_broken() {
            return Err("a bracket without an end, or a backslash with nothing behind it; \\[ is a plain bracket".into());
        }
        let scan = Scan::of(text);
        let levels = scan.slashes.iter().map(|end| Glob::new(&text[..*end])).collect();
        Ok(Some(Pattern { prefix: scan.prefix, glob, levels, deep: scan.deep }))
    }

    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub fn matches(&self, key: &[u8]) -> bool {
        self.glob.matches(key)
    }

    /// Whether keys any number of slashes behind `prefix`, which ends in a slash, can match, so that only a flat listing finds
    /// them all.
    pub fn is_deep_below(&self, prefix: &[u8]) -> bool {
        self.deep && prefix.iter().filter(|byte| **byte == b'/').count() >= self.levels.len()
    }

    /// Whether a key that begins with `prefix`, which ends in a slash, can match: where it cannot, a listing by
    /// delimiter need not go down.
    pub fn may_match_below(&self, prefix: &[u8]) -> bool {
        let slashes = prefix.iter().filter(|byte| **byte == b'/').count();
        match self.levels.get(slashes.wrapping_sub(1)) {
            Some(level) => level.matches(prefix),
            None if slashes == 0 => true,
            None if !self.deep => false,
            None => match self.levels.last() {
                None => true,
                Some(level) => {
                    let mut ends = prefix.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
                    ends.nth(self.levels.len() - 1).is_some_and(|end| level.matches(&prefix[..end]))
                }
            },
        }
    }
}

/// Where the parts of a readable pattern are.
#[derive(Default)]
struct Scan {
    prefix: Vec<u8>,
    /// Behind each slash before any `**`.
    slashes: Vec<usize>,
    deep: bool,
}

impl Scan {
    fn of(text: &[u8]) -> Scan {
        let mut scan = Scan::default();
        let (mut at, mut literal) = (0, true);
        while let Some(&byte) = text.get(at) {
            at += 1;
            match byte {
                b'*' if text.get(at) == Some(&b'*') => {
                    scan.deep = true;
                    return scan;
                }
                b'*' | b'?' => literal = false,
                b'[' => {
                    literal = false;
                    at += bracket(&text[at..]);
                }
                byte => {
                    let byte = if byte == b'\\' { text.get(at).copied().unwrap_or(byte) } else { byte };
                    at += usize::from(text[at - 1] == b'\\');
                    scan.prefix.extend(literal.then_some(byte));
                    if byte == b'/' {
                        scan.slashes.push(at);
                    }
                }
            }
        }
        scan
    }
}

/// Bytes to behind the `]` of a bracket that has one, from behind its `[`: the same that the pattern's own reader finds.
fn bracket(text: &[u8]) -> usize {
    // The shortest run that makes a readable pattern is the bracket.
    (1..=text.len())
        .find(|length| text[length - 1] == b']' && !Glob::new(&[b"[", &text[..*length]].concat()).is_broken())
        .unwrap_or(text.len())
}
