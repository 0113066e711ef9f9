//! One request, and the answer to it.

use std::io::Read;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};

use super::checksum::Algorithm;
use super::checksum_modes::ChecksumMode;
use super::sign::Payload;
use haul_net::http_client::agent::read_error;

/// Bytes of an answer that is read whole: a page of a listing, an error. AWS's largest page has some 1.5 MB.
const ANSWER_MOST: u64 = 32 << 20;

/// How long a service may say nothing while it puts parts together or copies: it does that at the speed of its disks.
const SLOW: Duration = Duration::from_secs(600);

fn foreign(op: &'static str, words: String) -> Error {
    let e = Error::new(ErrorKind::Other, op).because(words);
    e.hint("a proxy or a web server may stand in between, or the address may be wrong: check --endpoint-url")
}

#[derive(Debug)]
pub struct Call<'a> {
    pub op: &'static str,
    pub method: Method,
    pub bucket: &'a str,
    pub key: &'a [u8],
    pub query: Vec<(&'static str, String)>,
    pub headers: HeaderMap,
    /// Replaces the agent's idle timeout for slow requests. When it is over the service may still be working on it: the request is
    /// not repeated.
    pub idle_timeout: Option<Duration>,
    /// Who sends it asks for less after a timeout: it is not repeated then.
    pub divisible: bool,
}

impl<'a> Call<'a> {
    pub fn new(op: &'static str, method: Method, bucket: &'a str, key: &'a [u8]) -> Self {
        Call { op, method, bucket, key, query: Vec::new(), headers: HeaderMap::new(), idle_timeout: None, divisible: false }
    }

    /// For a request that the service may work at for minutes before it answers.
    #[must_use]
    pub fn slow(mut self) -> Self {
        self.idle_timeout = Some(SLOW);
        self
    }

    /// For a request that can be divided, should it take too long.
    #[must_use]
    pub fn divisible(mut self) -> Self {
        self.divisible = true;
        self
    }

    #[must_use]
    pub fn ask(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// `value` must be of visible characters; one that is not is left out.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        if let Ok(value) = HeaderValue::from_bytes(value.as_ref()) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    #[must_use]
    pub fn secret(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            value.set_sensitive(true);
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    #[must_use]
    pub fn meta(mut self, name: &str, value: &[u8]) -> Self {
        let name = HeaderName::from_bytes(format!("x-amz-meta-{name}").as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// The body of a request. Bytes can be sent again; a reader cannot.
pub enum Body<'a> {
    None,
    Bytes(&'a [u8]),
    /// A reader that gives exactly so many bytes, framing included.
    Stream(&'a mut dyn Read, u64, Payload<'static>),
}

/// Head of an answer, its body still to come.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: ureq::Body,
    pub tries: u32,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// # Errors
    /// It is a page of a web server or a proxy, which says nothing of what was asked for: object stores send no text but documents and
    /// objects, and name both in headers.
    pub fn by_object_store(self, op: &'static str) -> Result<Answer> {
        let kind = self.header("content-type").unwrap_or_default().trim().to_ascii_lowercase();
        let is_text = ["text/html", "text/plain", "application/json"].iter().any(|text| kind.starts_with(text));
        let is_empty = self.header("content-length").is_some_and(|length| length.trim() == "0");
        let is_named =
            || self.headers.keys().any(|name| name == "etag" || ["x-amz", "x-goog-"].iter().any(|own| name.as_str().starts_with(own)));
        if !is_text || is_empty || self.status == StatusCode::NO_CONTENT || is_named() {
            return Ok(self);
        }
        Err(foreign(op, format!("the answer ({kind}) is not that of an object store")))
    }

    /// # Errors
    /// The answer to a write does not name what was written, as that of every object store does: somebody else has answered.
    pub fn named(&self, op: &'static str) -> Result<&str> {
        let etag = self.header("etag").filter(|etag| !etag.is_empty());
        etag.ok_or_else(|| {
            let kind = self.header("content-type").map(|kind| format!(" ({kind})")).unwrap_or_default();
            foreign(op, format!("the answer{kind} has no ETag: it is not that of an object store"))
        })
    }

    /// The body, if it is not larger than answers are.
    pub fn whole(mut self, op: &'static str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.body.as_reader().take(ANSWER_MOST + 1).read_to_end(&mut bytes);
        read.map_err(|e| read_error(op, &e, "the service").tried(self.tries))?;
        if bytes.len() as u64 > ANSWER_MOST {
            return Err(Error::new(ErrorKind::Other, op).because("the answer is too long"));
        }
        Ok(bytes)
    }
}

impl Call<'_> {
    /// The checksum mode of a streamed request.
    pub(super) fn mode(&self) -> Option<ChecksumMode> {
        let named = self.headers.get("x-amz-trailer").and_then(|name| name.to_str().ok())?;
        Some(ChecksumMode { algorithm: Algorithm::of_header(named)?, trailing: true })
    }

    pub(super) fn has_checksum(&self) -> bool {
        self.headers.keys().any(|name| {
            let name = name.as_str();
            name.starts_with("x-amz-checksum-") && name != "x-amz-checksum-mode" || name == "x-amz-trailer"
        })
    }
}
