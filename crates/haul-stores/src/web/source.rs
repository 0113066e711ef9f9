//! One file of a web server, open for reading: ranges of one version of it.

use std::collections::HashMap;
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
    rests: Rests,
    /// Where reads begin that follow each other, and where the last of them ends.
    announced: Mutex<HashMap<u64, u64>>,
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
        Ok(WebFile { client, url, user, entry, facts, verifier, rests: Arc::default(), announced: Mutex::default() })
    }

    fn changed(&self) -> Error {
        Error::new(ErrorKind::Changed, "read").on(&self.entry.name).because("it is another version by now")
    }

    /// The answer that has the bytes from `at.start` on as its next.
    fn answer(&self, at: &Range<u64>) -> Result<(ureq::BodyReader<'static>, u32)> {
        let whole = at.start == 0 && at.end == self.entry.size;
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
        let kept = lock(&self.rests).remove(&at.start).filter(|rest| rest.end >= at.end);
        let (reader, end, tries) = match kept {
            Some(rest) => (rest.reader, rest.end, 1),
            None => {
                let announced = lock(&self.announced).remove(&at.start).unwrap_or(at.end);
                let end = if self.facts.ranges { announced.clamp(at.end, self.entry.size) } else { self.entry.size };
                let (reader, tries) = self.answer(&(at.start..end)).map_err(|e| e.on(&self.entry.name))?;
                (reader, end, tries)
            }
        };
        let watch = self.verifier.as_ref().map(|verifier| (lock(verifier).link(at.start), verifier.clone()));
        let rests = self.rests.clone();
        Ok(Box::new(Body { reader: Some(reader), end, at, watch, rests, name: self.entry.name.clone(), tries }))
    }

    fn goes_on(&self, at: Range<u64>) {
        lock(&self.announced).insert(at.start, at.end);
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

/// Answers of which the next bytes are wanted next, by where in the file these are.
type Rests = Arc<Mutex<HashMap<u64, Rest>>>;

struct Rest {
    reader: ureq::BodyReader<'static>,
    /// Where the answer ends.
    end: u64,
}

/// Answers that are kept at the most: of more, whoever announced them reads on no more.
const RESTS_MOST: usize = 64;

/// The body of an answer, exactly as long as was asked for.
struct Body {
    reader: Option<ureq::BodyReader<'static>>,
    /// Where the answer ends.
    end: u64,
    /// What is still to be read of it.
    at: Range<u64>,
    watch: Option<(Link, Arc<Mutex<Chain>>)>,
    /// Where the reader goes for the part behind this one.
    rests: Rests,
    name: Name,
    tries: u32,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.at.end - self.at.start;
        let most = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some(reader) = self.reader.as_mut().filter(|_| most > 0) else { return Ok(0) };
        let count = match reader.read(&mut into[..most]) {
            Ok(0) => return Err(short(left).on(&self.name).tried(self.tries).into()),
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(crate::s3::fault::io_error("read", &e, "the server").on(&self.name).tried(self.tries).into()),
        };
        self.at.start += count as u64;
        if let Some((link, _)) = &mut self.watch {
            link.update(&into[..count]);
        }
        if self.at.is_empty() {
            if let Some(mut reader) = self.reader.take() {
                if self.at.end < self.end {
                    let mut rests = lock(&self.rests);
                    if rests.len() >= RESTS_MOST {
                        rests.clear();
                    }
                    rests.insert(self.at.end, Rest { reader, end: self.end });
                } else {
                    // The connection can serve again once the end of the body was seen; that there is more changes nothing.
                    let _ = reader.read(&mut [0; 1]);
                }
            }
            if let Some((link, verifier)) = self.watch.take() {
                lock(&verifier).take(link.finish());
            }
        }
        Ok(count)
    }
}
