//! One file of a web server, open for reading: ranges of one version of it.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_core::entry::{Entry, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::Source;
use http::header::{HeaderValue, RANGE};
use http::{Method, StatusCode, Uri};

use super::client::{Client, Facts};
use crate::s3::chain::{Chain, Link};
use crate::s3::checksum::{Algorithm, Value};

pub struct WebFile {
    client: Arc<Client>,
    /// As it was asked for: where it redirects to may be good for a while only.
    url: Uri,
    user: Option<String>,
    entry: Entry,
    facts: Facts,
    verifier: Option<Arc<Mutex<Chain>>>,
    /// Where parts cannot be had: the rest of the answer that the last part came from, and where it goes on.
    rest: Rest,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WebFile {
    pub fn new(
        client: Arc<Client>,
        url: Uri,
        user: Option<String>,
        entry: Entry,
        facts: Facts,
        expected: Option<[u8; 32]>,
    ) -> Result<WebFile> {
        let verifier = match expected.and_then(|sum| Value::parse(Algorithm::Sha256, &sum)) {
            Some(value) if entry.size == 0 && Algorithm::Sha256.of(b"") != value => return Err(differs()),
            Some(value) => Some(Arc::new(Mutex::new(Chain::whole(value, entry.size)))),
            None => None,
        };
        Ok(WebFile { client, url, user, entry, facts, verifier, rest: Arc::default() })
    }

    fn changed(&self) -> Error {
        Error::new(ErrorKind::Changed, "read").on(&self.entry.name).because("it is another version by now")
    }

    /// The answer that has the bytes from `at.start` on as its next.
    fn answer(&self, at: &Range<u64>) -> Result<(ureq::BodyReader<'static>, u32)> {
        let whole = at.start == 0 && (at.end == self.entry.size || !self.facts.ranges);
        let mut headers: Vec<_> = self.facts.guard().into_iter().collect();
        if !whole && self.facts.ranges {
            let range = format!("bytes={}-{}", at.start, at.end - 1);
            headers.extend(HeaderValue::from_str(&range).ok().map(|range| (RANGE, range)));
        }
        let answer = self.client.send(&Method::GET, &self.url, self.user.as_deref(), &headers)?;
        if !self.facts.is_same(&answer.facts()) {
            return Err(self.changed());
        }
        let tries = answer.tries;
        let begins = match answer.status {
            StatusCode::PARTIAL_CONTENT => answer.part().map(|(begins, _)| begins),
            _ => Some(0),
        };
        match begins {
            Some(begins) if begins == at.start => Ok((answer.body.into_reader(), tries)),
            // The server sends all there is: what is in front is read and dropped.
            Some(0) => {
                let mut reader = answer.body.into_reader();
                let dropped = io::copy(&mut (&mut reader).take(at.start), &mut io::sink());
                let dropped = dropped.map_err(|e| crate::s3::fault::io_error("read", &e, "the server").tried(tries))?;
                if dropped < at.start { Err(short(at.start - dropped).tried(tries)) } else { Ok((reader, tries)) }
            }
            _ => Err(Error::new(ErrorKind::Unsupported, "read").because("the server sent another part than was asked for")),
        }
    }
}

fn short(left: u64) -> Error {
    Error::new(ErrorKind::Io, "read").remedy_is(Remedy::Again).because(format!("the answer ended {left} bytes too early"))
}

fn differs() -> Error {
    let e = Error::new(ErrorKind::Corrupt, "verify").because("the SHA-256 of what came is not the one that was given");
    e.hint("the file on the server, or the list, is not the right one")
}

impl Source for WebFile {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        if at.end > self.entry.size {
            return Err(self.changed());
        }
        if at.is_empty() {
            return Ok(Box::new(io::empty()));
        }
        let kept = if self.facts.ranges { None } else { lock(&self.rest).take().filter(|(next, _)| *next == at.start) };
        let (reader, tries) = match kept {
            Some((_, reader)) => (reader, 1),
            None => self.answer(&at).map_err(|e| e.on(&self.entry.name))?,
        };
        let watch = self.verifier.as_ref().map(|verifier| (lock(verifier).link(at.start), verifier.clone()));
        let rest = (!self.facts.ranges && at.end < self.entry.size).then(|| self.rest.clone());
        let left = at.end - at.start;
        Ok(Box::new(Body { reader: Some(reader), end: at.end, left, watch, rest, name: self.entry.name.clone(), tries }))
    }

    /// Every byte came of one version where the server names versions; else another look tells.
    fn stamp(&self) -> Result<Stamp> {
        if self.facts.etag.as_deref().is_none_or(|etag| etag.starts_with("W/")) {
            let now = self.client.look(&self.url, self.user.as_deref()).map_err(|e| e.on(&self.entry.name))?;
            if !self.facts.is_same(&now) {
                return Err(self.changed());
            }
        }
        if let Some(verifier) = &self.verifier
            && lock(verifier).verdict() == Some(false)
        {
            return Err(differs().on(&self.entry.name));
        }
        Ok(self.entry.stamp())
    }

    fn gap(&self) -> Option<Range<u64>> {
        lock(self.verifier.as_ref()?).gap()
    }

    fn show(&self, at: u64, bytes: &[u8]) {
        if let Some(verifier) = &self.verifier {
            let mut link = lock(verifier).link(at);
            link.update(bytes);
            lock(verifier).take(link.finish());
        }
    }
}

/// The rest of an answer, and where in the file it goes on.
type Rest = Arc<Mutex<Option<(u64, ureq::BodyReader<'static>)>>>;

/// The body of an answer, exactly as long as was asked for.
struct Body {
    reader: Option<ureq::BodyReader<'static>>,
    end: u64,
    left: u64,
    watch: Option<(Link, Arc<Mutex<Chain>>)>,
    /// Where the reader goes for the part behind this one.
    rest: Option<Rest>,
    name: Name,
    tries: u32,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let Some(reader) = self.reader.as_mut().filter(|_| most > 0) else { return Ok(0) };
        let count = match reader.read(&mut into[..most]) {
            Ok(0) => return Err(short(self.left).on(&self.name).tried(self.tries).into()),
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(crate::s3::fault::io_error("read", &e, "the server").on(&self.name).tried(self.tries).into()),
        };
        self.left -= count as u64;
        if let Some((link, _)) = &mut self.watch {
            link.update(&into[..count]);
        }
        if self.left == 0 {
            match (&self.rest, self.reader.take()) {
                (Some(rest), Some(reader)) => *lock(rest) = Some((self.end, reader)),
                // The connection can serve again once the end of the body was seen.
                (None, Some(mut reader)) => drop(reader.read(&mut [0; 1])),
                _ => {}
            }
            if let Some((link, verifier)) = self.watch.take() {
                lock(&verifier).take(link.finish());
            }
        }
        Ok(count)
    }
}
