//! One file of a web server, open for reading: ranges of one version of it.

use haul_core::lock::lock;
use std::collections::HashMap;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::entry::{Entry, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{ContentChecksum, Source, SourceExtensions};
use http::header::{HeaderValue, RANGE};
use http::{StatusCode, Uri};

use super::client::{Client, Facts, WebRequest};
use haul_net::http_client::Body;
use haul_net::http_client::agent::read_error;
use haul_net::http_client::body::cut_short;
use haul_net::http_client::digest::{Algorithm, Running, Value};
use haul_net::http_client::verifier::Verifier;

pub struct WebFile {
    client: Arc<Client>,
    /// Before redirects, whose targets may expire.
    url: Uri,
    user: Option<String>,
    entry: Entry,
    facts: Facts,
    expected: Option<Value>,
    /// Where the size is known.
    verifier: Option<Arc<Mutex<Verifier>>>,
    /// Bytes of a stream that were read.
    streamed: AtomicU64,
    rests: Rests,
    /// Where reads begin that follow each other, and where the last of them ends.
    announced: Mutex<HashMap<u64, u64>>,
}

impl WebFile {
    pub fn new(client: Arc<Client>, url: Uri, user: Option<String>, entry: Entry, facts: Facts, expected: Option<[u8; 32]>) -> WebFile {
        let expected = expected.and_then(|sum| Value::parse(Algorithm::Sha256, &sum));
        let whole = |value| Arc::new(Mutex::new(Verifier::whole(value, entry.size, differs)));
        let verifier = expected.filter(|_| facts.size.is_some()).map(whole);
        let (rests, announced, streamed) = Default::default();
        WebFile { client, url, user, entry, facts, expected, verifier, streamed, rests, announced }
    }

    fn changed(&self) -> Error {
        Error::new(ErrorKind::Changed, "read").on(&self.entry.name).because("it has changed meanwhile")
    }

    /// The answer that has the bytes from `at.start` on as its next, and where it ends: behind them, or with the file.
    fn answer(&self, at: &Range<u64>) -> Result<(ureq::BodyReader<'static>, u64, u32)> {
        if at.start > 0 && self.facts.guard().is_none() {
            // What came before may be of another version: the engine reads the file again from its start.
            let e = Error::new(ErrorKind::Changed, "read");
            return Err(e.because("the connection broke, and the server does not tell versions apart (no ETag, no Last-Modified)"));
        }
        let whole = at.start == 0 && at.end == self.entry.size;
        let mut request = WebRequest::get(&self.url, self.user.as_deref()).with(self.facts.guard());
        if !whole && self.facts.ranges {
            let range = format!("bytes={}-{}", at.start, at.end - 1);
            request = request.with(HeaderValue::from_str(&range).ok().map(|range| (RANGE, range)));
        }
        self.client.pace.asks();
        let answer = self.client.send(&request)?;
        if !self.facts.is_same(&answer.facts()) {
            return Err(self.changed());
        }
        let tries = answer.tries;
        if answer.status == StatusCode::PARTIAL_CONTENT {
            if answer.part().as_ref() != Some(at) {
                return Err(Error::new(ErrorKind::Unsupported, "read").because("the server sent a different range than requested"));
            }
            return Ok((answer.body.into_reader(), at.end, tries));
        }
        // The server sends all there is: what is in front is read and dropped.
        let mut reader = answer.body.into_reader();
        let dropped = io::copy(&mut (&mut reader).take(at.start), &mut io::sink());
        let dropped = dropped.map_err(|e| read_error("read", &e, "the server").tried(tries))?;
        if dropped < at.start { Err(cut_short(at.start - dropped).tried(tries)) } else { Ok((reader, self.entry.size, tries)) }
    }
}

fn differs() -> Error {
    let e = Error::new(ErrorKind::Corrupt, "verify").because("the SHA-256 of the received data differs from the given one");
    e.hint("the file on the server, or the list, is not the expected one")
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
                self.answer(&(at.start..end)).map_err(|e| e.on(&self.entry.name))?
            }
        };
        let mut body = Body::new(reader, at.end - at.start, self.entry.name.clone(), "the server", tries);
        if at.end < end {
            let rests = self.rests.clone();
            body = body.then(Box::new(move |reader| keep(&rests, at.end, Rest { reader, end })));
        }
        if self.facts.ranges {
            let next = at.end;
            let again = move |left| match self.answer(&(next - left..end))? {
                (reader, to, _) if to == end => Ok(reader),
                _ => Err(Error::new(ErrorKind::Unsupported, "read")),
            };
            body = body.paced(&self.client.pace, Box::new(again));
        }
        Ok(Box::new(body.verified(self.verifier.as_ref(), at.start)))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let answer = self.client.send(&WebRequest::get(&self.url, self.user.as_deref())).map_err(|e| e.on(&self.entry.name))?;
        let digest = self.expected.map(|value| (value, Algorithm::Sha256.begin()));
        Ok(Box::new(Streamed { file: self, reader: answer.body.into_reader(), digest }))
    }

    fn hint_sequential(&self, at: Range<u64>) {
        lock(&self.announced).insert(at.start, at.end);
    }

    /// Every byte is of one version where the server names versions; else another look-up tells.
    fn stamp(&self) -> Result<Stamp> {
        if self.facts.size.is_none() {
            return Ok(Stamp { size: self.streamed.load(Ordering::Relaxed), ..self.entry.stamp() });
        }
        if self.facts.etag.as_deref().is_none_or(|etag| etag.starts_with("W/")) {
            let now = self.client.look(&self.url, self.user.as_deref()).map_err(|e| e.on(&self.entry.name))?;
            if !self.facts.is_same(&now) {
                return Err(self.changed());
            }
        }
        if let Some(verifier) = &self.verifier {
            lock(verifier).check().map_err(|e| e.on(&self.entry.name))?;
        }
        Ok(self.entry.stamp())
    }

    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions { in_order: !self.facts.ranges, checksum: self, ..SourceExtensions::default() }
    }
}

impl ContentChecksum for WebFile {
    fn unverified(&self) -> Option<Range<u64>> {
        lock(self.verifier.as_ref()?).unverified()
    }

    fn feed(&self, at: u64, bytes: &[u8]) {
        if let Some(verifier) = &self.verifier {
            let mut watch = lock(verifier).watch(at);
            watch.update(bytes);
            lock(verifier).take(watch);
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

/// Answers that are kept at the most: if there are more, those who announced them have stopped reading.
const RESTS_MOST: usize = 64;

fn keep(rests: &Rests, at: u64, rest: Rest) {
    let mut rests = lock(rests);
    if rests.len() >= RESTS_MOST {
        rests.clear();
    }
    rests.insert(at, rest);
}

/// A body of unknown length. Its end is an error if it does not have the digest that it should have.
struct Streamed<'a> {
    file: &'a WebFile,
    reader: ureq::BodyReader<'static>,
    digest: Option<(Value, Running)>,
}

impl Read for Streamed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.reader.read(into) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(read_error("read", &e, "the server").on(&self.file.entry.name).into()),
        };
        self.file.streamed.fetch_add(count as u64, Ordering::Relaxed);
        if let Some((_, running)) = &mut self.digest {
            running.update(&into[..count]);
        }
        if count == 0
            && !into.is_empty()
            && let Some((expected, running)) = self.digest.take()
            && running.finish() != expected
        {
            return Err(differs().on(&self.file.entry.name).into());
        }
        Ok(count)
    }
}
