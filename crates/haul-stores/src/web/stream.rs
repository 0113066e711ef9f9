//! A file whose length the server does not report: read from its start to its end by one request.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use haul_core::entry::{Entry, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Source;
use http::Uri;

use super::client::{Client, WebRequest};
use super::source::differs;
use crate::http_client::agent::read_error;
use crate::http_client::digest::{Algorithm, Running, Value};

pub struct WebStream {
    entry: Entry,
    body: Mutex<Option<Body>>,
    /// Bytes that have come.
    read: AtomicU64,
}

struct Body {
    reader: ureq::BodyReader<'static>,
    /// The digest that it must have.
    digest: Option<(Value, Running)>,
}

impl WebStream {
    /// # Errors
    ///
    /// It is not there, or must not be read.
    pub fn open(client: &Client, url: &Uri, user: Option<&str>, entry: Entry, expected: Option<[u8; 32]>) -> Result<WebStream> {
        let answer = client.send(&WebRequest::get(url, user)).map_err(|e| e.on(&entry.name))?;
        let expected = expected.and_then(|sum| Value::parse(Algorithm::Sha256, &sum));
        let digest = expected.map(|value| (value, Algorithm::Sha256.begin()));
        let body = Body { reader: answer.body.into_reader(), digest };
        Ok(WebStream { entry, body: Mutex::new(Some(body)), read: AtomicU64::new(0) })
    }
}

impl Source for WebStream {
    fn read(&self, _at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::new(ErrorKind::Unsupported, "read").on(&self.entry.name).because("the server does not report the file's length"))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let body = self.body.lock().unwrap_or_else(PoisonError::into_inner).take();
        let body = body.ok_or_else(|| Error::new(ErrorKind::Changed, "read").on(&self.entry.name).because("it is read only once"))?;
        Ok(Box::new(Reader { body, read: &self.read }))
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(Stamp { size: self.read.load(Ordering::Relaxed), ..self.entry.stamp() })
    }
}

/// Its end is an error if it does not have the digest that it should have.
struct Reader<'a> {
    body: Body,
    read: &'a AtomicU64,
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = match self.body.reader.read(into) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(read_error("read", &e, "the server").into()),
        };
        if let Some((_, running)) = &mut self.body.digest {
            running.update(&into[..count]);
        }
        if count == 0
            && !into.is_empty()
            && let Some((expected, running)) = self.body.digest.take()
            && running.finish() != expected
        {
            return Err(differs().into());
        }
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
