//! rsync's include and exclude rules: a list of patterns of which the first that matches decides.
//!
//! A pattern without a slash (other than a last one) and without `**` is compared with the last component of a path. With a
//! slash inside it is compared with as many last components as it has itself, with `**` with the path from any slash on; a
//! first slash anchors it at the transfer's root. A last slash means directories only. `dir/***` is the directory and all
//! below. A pattern without `*`, `?` and `[` is compared byte by byte: a backslash in it is a backslash.
//!
//! A walk does not enter an excluded directory. Paths are bytes; nothing here reads a file system.

mod glob;

pub use glob::Glob;

use crate::entry::show;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Include,
    Exclude,
}

/// The rules in the order they were given. Empty: everything is included.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    verdict: Verdict,
    /// Applies where the pattern does not match.
    negated: bool,
    dirs_only: bool,
    against: Against,
    pattern: Pattern,
}

/// What of a path a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Leaf,
    Path(Extent),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: Start,
    /// A directory is compared as `path/`, so that `dir/***` matches `dir` too.
    dirs_end_in_slash: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Root,
    /// As `Root`, with a slash before the path, so that `**/name` matches at the root too.
    Slash,
    /// The last so many parts; a path with fewer does not match.
    Tail(usize),
    /// The root or behind any slash.
    Anywhere,
}

#[derive(Clone, Debug)]
enum Pattern {
    Literal(Vec<u8>),
    Glob(Glob),
}

impl Pattern {
    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Literal(bytes) => bytes == text,
            Pattern::Glob(glob) => glob.matches(text),
        }
    }
}

impl Filter {
    /// Whether `check` includes everything.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What is included. As with rsync, the pattern may start with `+ ` or `- `, which says what it is whatever the
    /// option's name, `!` alone forgets all rules so far, and an empty one is nothing.
    ///
    /// # Errors
    /// A prefix without a pattern behind it; a NUL byte, which no name contains.
    pub fn include(&mut self, pattern: &[u8]) -> Result<(), String> {
        self.add_plain(pattern, Verdict::Include)
    }

    /// What is excluded; else as [`Filter::include`].
    pub fn exclude(&mut self, pattern: &[u8]) -> Result<(), String> {
        self.add_plain(pattern, Verdict::Exclude)
    }

    /// One rule with its prefix: `+ PATTERN`, `- PATTERN`, `include PATTERN`, `exclude PATTERN`, `!` or `clear`.
    /// An underscore may stand for the space. The modifier `!` behind the prefix (`-! *.c`, `exclude,! *.c`) turns
    /// the match round. Lines that are empty or start with `#` or `;` are nothing.
    ///
    /// # Errors
    /// A rule that cannot be read, and what rsync has but this has not (merge files, rules for one side only, the
    /// other modifiers); the text names the rule.
    pub fn rule(&mut self, line: &[u8]) -> Result<(), String> {
        if is_comment(line) {
            return Ok(());
        }
        match parse(line).map_err(|reason| format!("filter rule '{}': {reason}", show(line)))? {
            Parsed::Clear => self.rules.clear(),
            Parsed::Add { verdict, negated, pattern } => self.rules.push(Rule::new(pattern, verdict, negated)),
        }
        Ok(())
    }

    /// The content of a file of rules: one a line, or one up to each NUL byte with `zero`.
    ///
    /// # Errors
    /// As [`Filter::rule`], with the line's number.
    pub fn rules(&mut self, text: &[u8], zero: bool) -> Result<(), String> {
        lines(text, zero).try_for_each(|(number, line)| self.rule(line).map_err(|reason| format!("line {number}: {reason}")))
    }

    /// The content of a file of patterns to include or to exclude: one a line, or one up to each NUL byte
    /// with `zero`. Each is read as a pattern given by itself; empty ones and those that start
    /// with `#` or `;` are nothing.
    ///
    /// # Errors
    /// As [`Filter::include`], with the line's number.
    pub fn patterns(&mut self, text: &[u8], verdict: Verdict, zero: bool) -> Result<(), String> {
        lines(text, zero)
            .filter(|(_, line)| !is_comment(line))
            .try_for_each(|(number, line)| self.add_plain(line, verdict).map_err(|reason| format!("line {number}: {reason}")))
    }

    /// Whether a path is included, given relative to the transfer's root without a slash at either end; for `SRC` without a slash
    /// at its end it starts with SRC's last component. The root (the empty path) is always included.
    pub fn check(&self, path: &[u8], is_dir: bool) -> Verdict {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => self.check_with(&path[..slash], &path[slash + 1..], is_dir),
            None => self.check_with(b"", path, is_dir),
        }
    }

    /// The same for the entry `leaf` of the directory `dir_path` (empty for the root): the two are put together only
    /// when a rule looks at more than the leaf.
    pub fn check_with(&self, dir_path: &[u8], leaf: &[u8], is_dir: bool) -> Verdict {
        if leaf.is_empty() && dir_path.is_empty() {
            return Verdict::Include;
        }
        let mut whole = Vec::new();
        for rule in &self.rules {
            let matches = (is_dir || !rule.dirs_only)
                && match rule.against {
                    Against::Leaf => rule.pattern.matches(leaf),
                    Against::Path(extent) => {
                        if whole.is_empty() {
                            whole = slashed(dir_path, leaf);
                        }
                        extent.matches(&rule.pattern, &whole, is_dir)
                    }
                };
            if matches != rule.negated {
                return rule.verdict;
            }
        }
        Verdict::Include
    }

    fn add_plain(&mut self, pattern: &[u8], verdict: Verdict) -> Result<(), String> {
        let (verdict, rest) = match pattern {
            b"" => return Ok(()),
            b"!" => {
                self.rules.clear();
                return Ok(());
            }
            [b'+', b' ', rest @ ..] => (Verdict::Include, rest),
            [b'-', b' ', rest @ ..] => (Verdict::Exclude, rest),
            rest => (verdict, rest),
        };
        let rest = usable(rest).map_err(|reason| format!("pattern '{}': {reason}", show(pattern)))?;
        self.rules.push(Rule::new(rest, verdict, false));
        Ok(())
    }
}

impl Rule {
    fn new(pattern: &[u8], verdict: Verdict, negated: bool) -> Rule {
        let (pattern, dirs_only) = match pattern {
            [rest @ .., b'/'] if !rest.is_empty() => (rest, true),
            pattern => (pattern, false),
        };
        let slashes = pattern.iter().filter(|&&byte| byte == b'/').count();
        let wild = pattern.iter().any(|byte| b"*?[".contains(byte));
        // Two stars count wherever they stand, behind a backslash and in brackets too: so it is in rsync.
        let deep = pattern.windows(2).any(|pair| pair == b"**");
        let (anchored, text) = match pattern {
            [b'/', rest @ ..] => (true, rest),
            text => (false, text),
        };
        let start = if anchored {
            Start::Root
        } else if text.starts_with(b"**") {
            Start::Slash
        } else if deep {
            Start::Anywhere
        } else {
            Start::Tail(slashes + 1)
        };
        Rule {
            verdict,
            negated,
            dirs_only,
            against: match slashes {
                0 if !deep => Against::Leaf,
                _ => Against::Path(Extent { start, dirs_end_in_slash: pattern.ends_with(b"***") }),
            },
            pattern: if wild { Pattern::Glob(Glob::new(text)) } else { Pattern::Literal(text.to_vec()) },
        }
    }
}

impl Extent {
    /// `whole` is the path with a slash on both ends.
    fn matches(self, pattern: &Pattern, whole: &[u8], is_dir: bool) -> bool {
        let end = if self.dirs_end_in_slash && is_dir { whole.len() } else { whole.len() - 1 };
        let with_slash = &whole[..end];
        match self.start {
            Start::Slash => pattern.matches(with_slash),
            Start::Root => pattern.matches(&with_slash[1..]),
            Start::Tail(parts) => behind_slashes(with_slash).nth_back(parts - 1).is_some_and(|text| pattern.matches(text)),
            Start::Anywhere => behind_slashes(with_slash).any(|text| pattern.matches(text)),
        }
    }
}

/// What stands behind each slash, the longest first.
fn behind_slashes(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &text[at + 1..])
}

fn slashed(dir_path: &[u8], leaf: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(dir_path.len() + leaf.len() + 3);
    whole.push(b'/');
    if !dir_path.is_empty() {
        whole.extend_from_slice(dir_path);
        whole.push(b'/');
    }
    whole.extend_from_slice(leaf);
    whole.push(b'/');
    whole
}

/// The lines of a file with their numbers, counted from 1. Without `zero`, a carriage return ends a line as well.
fn lines(text: &[u8], zero: bool) -> impl Iterator<Item = (usize, &[u8])> {
    let ends = move |byte: &u8| if zero { *byte == 0 } else { *byte == b'\n' };
    text.split(ends).enumerate().flat_map(move |(index, line)| {
        let returns = move |byte: &u8| !zero && *byte == b'\r';
        line.split(returns).map(move |part| (index + 1, part))
    })
}

fn is_comment(line: &[u8]) -> bool {
    matches!(line, [] | [b'#' | b';', ..])
}

enum Parsed<'a> {
    Clear,
    Add { verdict: Verdict, negated: bool, pattern: &'a [u8] },
}

/// The words that may stand for the one-letter rules; those without a verdict are rsync's alone.
const WORDS: [(&[u8], u8); 9] = [
    (b"include", b'+'),
    (b"exclude", b'-'),
    (b"clear", b'!'),
    (b"merge", b'.'),
    (b"dir-merge", b':'),
    (b"hide", b'H'),
    (b"show", b'S'),
    (b"protect", b'P'),
    (b"risk", b'R'),
];

/// Reads one rule; an error is the reason alone.
fn parse(line: &[u8]) -> Result<Parsed<'_>, String> {
    let (letter, rest) = WORDS
        .iter()
        .find_map(|(word, letter)| match line.strip_prefix(*word)? {
            rest @ ([] | [b' ' | b'_' | b',', ..]) => Some((*letter, rest)),
            _ => None,
        })
        .unwrap_or_else(|| line.split_first().map_or((0, line), |(first, rest)| (*first, rest)));
    let verdict = match letter {
        b'+' => Verdict::Include,
        b'-' => Verdict::Exclude,
        b'!' if matches!(rest, [] | [b',']) => return Ok(Parsed::Clear),
        b'!' => return Err("'!' takes nothing behind it".to_owned()),
        b'.' | b':' => return Err("merge files are not supported; give their rules in this file".to_owned()),
        b'H' | b'S' | b'P' | b'R' => return Err("rules for one side only are not supported; use '+' and '-'".to_owned()),
        _ => return Err("unknown; it must start with '+ ', '- ' or '!'".to_owned()),
    };
    let rest = rest.strip_prefix(b",").unwrap_or(rest);
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'_')).unwrap_or(rest.len());
    let mut negated = false;
    for modifier in &rest[..end] {
        match modifier {
            b'!' => negated = true,
            b'/' => return Err("the modifier '/' (match the absolute path) is not supported".to_owned()),
            b'C' => return Err("the modifier 'C' (CVS exclusions) is not supported".to_owned()),
            b's' | b'r' => return Err("the modifiers 's' and 'r' (one side only) are not supported".to_owned()),
            b'p' => return Err("the modifier 'p' (perishable) is not supported".to_owned()),
            b'x' => return Err("the modifier 'x' (names of extended attributes) is not supported".to_owned()),
            other => return Err(format!("unknown modifier '{}'; a space goes before the pattern", show(&[*other]))),
        }
    }
    let pattern = usable(rest.get(end + 1..).unwrap_or_default())?;
    Ok(Parsed::Add { verdict, negated, pattern })
}

fn usable(pattern: &[u8]) -> Result<&[u8], String> {
    if pattern.is_empty() {
        Err("no pattern".to_owned())
    } else if pattern.contains(&0) {
        Err("a NUL byte, which no name contains".to_owned())
    } else {
        Ok(pattern)
    }
}

#[cfg(test)]
mod tests;
