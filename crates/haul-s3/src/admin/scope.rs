//! What an address in an object store names: an object, what is below a slash, or what a pattern matches.

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Flow;

use crate::Bucket;
use crate::address::{Pattern, check_key};
use crate::inventory::Line;

pub struct Scope {
    bucket: Bucket,
    pub(super) path: Vec<u8>,
    pub what: What,
}

pub enum What {
    /// Just this key.
    Key(Vec<u8>),
    /// All keys that begin so: empty for the whole bucket, else it ends in a slash.
    Below(Vec<u8>),
    Like(Wild),
}

pub struct Wild {
    pattern: Pattern,
    /// It ends in a slash: only directories are meant, and what is in them.
    pub dirs: bool,
    /// As it was written, without that slash.
    text: Vec<u8>,
}

#[derive(Debug)]
pub enum Match {
    Line(Line),
    /// A line below a directory that was matched.
    Within(Line),
}

impl Scope {
    /// What `key` names in a bucket, the slash at its end included. `path` is the whole address as it was written, for messages.
    ///
    /// # Errors
    /// `BadName` for what can be no key, `Usage` for a pattern that is none.
    pub fn new(bucket: Bucket, path: &[u8], key: Vec<u8>) -> Result<Scope> {
        let text = key.strip_suffix(b"/").unwrap_or(&key);
        let pattern = Pattern::parse(text).map_err(|reason| Error::new(ErrorKind::Usage, "read pattern").at(path).because(reason))?;
        let Some(pattern) = pattern else { return Scope::literal(bucket, path, key) };
        let what = What::Like(Wild { pattern, dirs: key.ends_with(b"/"), text: text.to_vec() });
        Scope { bucket, path: path.to_vec(), what }.checked(&key)
    }

    /// Just the object of a key, or what is below one that ends in a slash, whatever characters are in it.
    pub fn literal(bucket: Bucket, path: &[u8], key: Vec<u8>) -> Result<Scope> {
        let what = if key.is_empty() || key.ends_with(b"/") { What::Below(key.clone()) } else { What::Key(key.clone()) };
        Scope { bucket, path: path.to_vec(), what }.checked(&key)
    }

    /// The object of just this key, which may end in a slash.
    pub fn exact(bucket: Bucket, path: &[u8], key: Vec<u8>) -> Result<Scope> {
        Scope { bucket, path: path.to_vec(), what: What::Key(key.clone()) }.checked(&key)
    }

    fn checked(self, key: &[u8]) -> Result<Scope> {
        check_key(key).map_err(|reason| Error::new(ErrorKind::BadName, "open").at(&self.path).because(reason))?;
        Ok(self)
    }

    /// Another part of the bucket by the same address.
    pub(super) fn of(&self, what: What) -> Scope {
        Scope { bucket: self.bucket.clone(), path: self.path.clone(), what }
    }

    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    pub fn nothing(&self) -> Error {
        nothing(&self.path, matches!(self.what, What::Like(_)))
    }

    /// Path of a key below what was named, of what a pattern matches below the bucket.
    pub fn below<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        match &self.what {
            What::Below(prefix) => key.strip_prefix(&prefix[..]).unwrap_or(key),
            What::Key(own) => key.strip_prefix(&own[..]).map_or(key, |rest| rest.strip_prefix(b"/").unwrap_or(rest)),
            What::Like(_) => key,
        }
    }

    /// Name of a key in a list: relative to the directory that was named, else its address.
    pub fn shown(&self, key: &[u8]) -> Vec<u8> {
        match &self.what {
            What::Below(prefix) if key.len() > prefix.len() => key[prefix.len()..].to_vec(),
            _ => self.address(key),
        }
    }

    pub fn address(&self, key: &[u8]) -> Vec<u8> {
        [self.bucket().address().as_bytes(), b"/", key].concat()
    }

    pub fn prefix(&self) -> &[u8] {
        match &self.what {
            What::Key(key) => key,
            What::Below(prefix) => prefix,
            What::Like(wild) => wild.pattern.prefix(),
        }
    }

    /// Whether a key is meant; with `below` also one below a directory that is.
    pub fn admits(&self, key: &[u8], below: bool) -> bool {
        match &self.what {
            What::Key(own) => key == own || (below && key.strip_prefix(&own[..]).is_some_and(|rest| rest.starts_with(b"/"))),
            What::Below(prefix) => key.starts_with(prefix),
            What::Like(wild) => (!wild.dirs && wild.pattern.matches(key)) || ((below || wild.dirs) && wild.matches_above(key)),
        }
    }

    /// Whether all that is in the bucket is meant.
    pub fn is_whole(&self, recursive: bool) -> bool {
        match &self.what {
            What::Key(_) => false,
            What::Below(prefix) => prefix.is_empty(),
            What::Like(wild) => {
                let stars = wild.text.iter().all(|byte| matches!(byte, b'*' | b'/'));
                stars && (recursive || wild.dirs || wild.text.windows(2).any(|two| two == b"**"))
            }
        }
    }
}

impl Wild {
    /// Whether one of the directories that a key is in is matched.
    fn matches_above(&self, key: &[u8]) -> bool {
        let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.into_iter().any(|(at, _)| self.pattern.matches(&key[..at]))
    }

    /// Hands out what matches in the order of keys, directories as prefixes; with `below` all that is in those, too. It goes
    /// down only where something can match.
    pub fn walk(&self, bucket: &Bucket, below: bool, each: &mut dyn FnMut(Match) -> Flow) -> Result<()> {
        let address = || [bucket.address().as_bytes(), b"/", &self.text[..], if self.dirs { b"/" } else { b"" }].concat();
        self.walk_prefix(bucket, self.pattern.prefix(), below, each).map(|_| ()).map_err(|e| e.at(&address()))
    }

    fn walk_prefix(&self, bucket: &Bucket, prefix: &[u8], below: bool, each: &mut dyn FnMut(Match) -> Flow) -> Result<Flow> {
        let flat = prefix.ends_with(b"/") && self.pattern.is_deep_below(prefix) || (prefix.is_empty() && self.pattern.is_deep_below(b""));
        let mut flow = Ok(Flow::Go);
        bucket.lines(prefix, !flat, &mut |lines| {
            for line in lines {
                flow = self.take(bucket, line, below, each);
                if !matches!(flow, Ok(Flow::Go)) {
                    return Flow::Stop;
                }
            }
            Flow::Go
        })?;
        flow
    }

    fn take(&self, bucket: &Bucket, line: Line, below: bool, each: &mut dyn FnMut(Match) -> Flow) -> Result<Flow> {
        let Line::Prefix(dir) = line else {
            let key = line.key();
            return Ok(if !self.dirs && self.pattern.matches(key) {
                each(Match::Line(line))
            } else if (below || self.dirs) && self.matches_above(key) {
                each(Match::Within(line))
            } else {
                Flow::Go
            });
        };
        if self.pattern.matches(&dir[..dir.len() - 1]) {
            if each(Match::Line(Line::Prefix(dir.clone()))) == Flow::Stop {
                return Ok(Flow::Stop);
            }
            if below || self.dirs {
                let mut flow = Flow::Go;
                bucket.lines(&dir, !below, &mut |lines| {
                    let behind = lines.into_iter().filter(|line| line.key().len() > dir.len() || below);
                    for line in behind {
                        flow = each(Match::Within(line));
                        if flow == Flow::Stop {
                            return Flow::Stop;
                        }
                    }
                    Flow::Go
                })?;
                return Ok(flow);
            }
        }
        if self.pattern.may_match_below(&dir) { self.walk_prefix(bucket, &dir, below, each) } else { Ok(Flow::Go) }
    }
}

pub fn nothing(path: &[u8], wild: bool) -> Error {
    let e = Error::new(ErrorKind::NotFound, "open").at(path);
    match wild {
        true => {
            e.because("nothing matches the pattern").hint("* and ? stay between slashes, ** does not; a backslash makes *, ? and [ plain")
        }
        false => e.because("no such object, and nothing below it"),
    }
}
