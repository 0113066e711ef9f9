//! Requests to web servers: redirects followed, tried again where that is of use.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::retry::{ASKED_MOST, Tries};
use http::header::{ACCEPT_RANGES, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use ureq::Agent;

use super::link::join;
use super::netrc::Netrc;
use crate::provider::Access;
use crate::s3::account::Environment;
use crate::s3::trust::{self, Trust};
use crate::s3::{self, Lanes};

/// Redirects of one request at the most.
const REDIRECTS: usize = 10;

/// Connections to all servers of a run.
pub struct Client {
    /// What all agents have in common; its endpoint is only an example.
    trust: Trust,
    agents: Mutex<HashMap<String, Agent>>,
    netrc: Netrc,
    /// Threads beside the workers.
    pub lanes: Lanes,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// An answer whose status is a success.
pub struct Answer {
    /// Where it came from, redirects followed.
    pub url: Uri,
    pub status: StatusCode,
    headers: HeaderMap,
    pub body: ureq::Body,
    /// How often it was asked for.
    pub tries: u32,
}

/// What a server says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where it is, redirects followed.
    pub url: Uri,
    /// Bytes; `None` where the server does not say.
    pub size: Option<u64>,
    pub modified: Option<Time>,
    /// As it was written.
    last_modified: Option<HeaderValue>,
    /// As it was written, weak ones too.
    pub etag: Option<String>,
    /// Parts of it can be had.
    pub ranges: bool,
}

impl Facts {
    /// The header under which a range is asked for: the answer is none if the file is another by then.
    pub fn guard(&self) -> Option<(HeaderName, HeaderValue)> {
        if let Some(etag) = self.etag.as_deref().filter(|etag| !etag.starts_with("W/")) {
            return Some((http::header::IF_MATCH, HeaderValue::from_str(etag).ok()?));
        }
        Some((http::header::IF_UNMODIFIED_SINCE, self.last_modified.clone()?))
    }

    /// Whether an answer is of the same file, as far as both say.
    pub fn is_same(&self, other: &Facts) -> bool {
        fn agree<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> bool {
            a.zip(b).is_none_or(|(a, b)| a == b)
        }
        agree(self.size.as_ref(), other.size.as_ref())
            && agree(self.modified.as_ref(), other.modified.as_ref())
            && agree(self.etag.as_ref(), other.etag.as_ref())
    }
}

impl Answer {
    fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn is_html(&self) -> bool {
        self.header(CONTENT_TYPE).is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"))
    }

    /// `Content-Range`: where the part begins, and the size of the whole.
    pub fn part(&self) -> Option<(u64, Option<u64>)> {
        let (range, size) = self.header(CONTENT_RANGE)?.trim().strip_prefix("bytes ")?.split_once('/')?;
        Some((range.split('-').next()?.parse().ok()?, size.parse().ok()))
    }

    pub fn facts(&self) -> Facts {
        let part = self.part().filter(|_| self.status == StatusCode::PARTIAL_CONTENT);
        let size = match part {
            Some((_, size)) => size,
            None => self.header(CONTENT_LENGTH).and_then(|size| size.trim().parse().ok()),
        };
        let ranges = part.is_some() || self.header(ACCEPT_RANGES).is_some_and(|units| units.to_ascii_lowercase().contains("bytes"));
        Facts {
            url: self.url.clone(),
            size,
            modified: self.header(LAST_MODIFIED).and_then(s3::parse_http_time),
            last_modified: self.headers.get(LAST_MODIFIED).cloned(),
            etag: self.header(ETAG).map(str::to_string),
            ranges,
        }
    }

    /// The whole body, of `most` bytes at the most.
    pub fn text(mut self, most: u64, op: &'static str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.body.as_reader().take(most + 1).read_to_end(&mut bytes);
        read.map_err(|e| s3::fault::io_error(op, &e, "the server"))?;
        if bytes.len() as u64 > most {
            return Err(Error::new(ErrorKind::Unsupported, op).because(format!("the answer has more than {most} bytes")));
        }
        Ok(bytes)
    }
}

impl Client {
    /// `example` is an address of any server; nothing is sent.
    pub fn new(access: &Access, example: &Uri) -> Client {
        let (environment, flags) = (Environment::process(), access.get::<s3::Flags>());
        let netrc = Netrc::read(&environment);
        let usual = Trust::of(example.clone(), environment);
        let trust = Trust {
            verify: !flags.no_verify_ssl,
            bundle: flags.ca_bundle,
            patience: access.idle_timeout.map_or(usual.patience, |timeout| (timeout / 2).max(Duration::from_millis(500))),
            ..usual
        };
        Client { trust, agents: Mutex::default(), netrc, lanes: Lanes::default() }
    }

    fn agent(&self, url: &Uri) -> Result<Agent> {
        let origin = format!("{}://{}", url.scheme_str().unwrap_or_default(), url.authority().map_or("", |authority| authority.as_str()));
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = agents.get(&origin) {
            return Ok(agent.clone());
        }
        let agent = trust::agent(&Trust { endpoint: url.clone(), ..self.trust.clone() })?;
        agents.insert(origin, agent.clone());
        Ok(agent)
    }

    /// Sends a request without a body until it is answered with a success. `user` is the name in the address.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Denied`, `Changed` where the guard does not hold any more, and what keeps the server from being reached.
    pub fn send(&self, method: &Method, url: &Uri, user: Option<&str>, headers: &[(HeaderName, HeaderValue)]) -> Result<Answer> {
        let op = if method == Method::HEAD { "look up" } else { "read" };
        let mut tries = Tries::begin();
        loop {
            match tries.run(|| self.redirected(op, method, url, user, headers)) {
                Ok(answer) => return Ok(Answer { tries: tries.failed() + 1, ..answer }),
                Err(e) => {
                    let (e, again) = tries.after(e)?;
                    tries.pause(&e, again)?;
                }
            }
        }
    }

    fn redirected(
        &self,
        op: &'static str,
        method: &Method,
        url: &Uri,
        user: Option<&str>,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer> {
        let mut at = url.clone();
        for _ in 0..=REDIRECTS {
            let answer = self.once(op, method, &at, user, headers)?;
            if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return accepted(answer, op);
            }
            let refused = |reason: String| Error::new(ErrorKind::Denied, op).because(reason);
            let to = answer.header(LOCATION).and_then(|to| join(&at, to));
            let to = to.ok_or_else(|| refused(format!("the server redirects to no address (status {})", answer.status.as_u16())))?;
            if at.scheme_str() == Some("https") && to.scheme_str() != Some("https") {
                return Err(refused(format!("the server redirects to an address without encryption, {}", shown(&to))));
            }
            at = to;
        }
        Err(Error::new(ErrorKind::Denied, op).because(format!("more than {REDIRECTS} redirects")))
    }

    fn once(
        &self,
        op: &'static str,
        method: &Method,
        url: &Uri,
        user: Option<&str>,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer> {
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = url.clone();
        request.headers_mut().extend(headers.iter().cloned());
        if let Some((login, password)) = self.netrc.of(url.host().unwrap_or_default(), user) {
            let secret = base64::engine::general_purpose::STANDARD.encode(format!("{login}:{password}"));
            if let Ok(mut value) = HeaderValue::from_str(&format!("Basic {secret}")) {
                value.set_sensitive(true);
                request.headers_mut().insert(AUTHORIZATION, value);
            }
        }
        let answer = self.agent(url)?.run(request).map_err(|e| trust::explained(e, url, op))?;
        let (parts, body) = answer.into_parts();
        Ok(Answer { url: url.clone(), status: parts.status, headers: parts.headers, body, tries: 1 })
    }

    /// What the server says of a file, without its content.
    ///
    /// # Errors
    ///
    /// Those of [`Client::send`].
    pub fn look(&self, url: &Uri, user: Option<&str>) -> Result<Facts> {
        let first = [(http::header::RANGE, HeaderValue::from_static("bytes=0-0"))];
        let probe = || -> Result<Facts> {
            match self.send(&Method::GET, url, user, &first) {
                Ok(answer) => Ok(answer.facts()),
                // An empty file has no first byte.
                Err(e) if e.kind() == ErrorKind::Changed => Ok(Facts { ranges: false, ..self.send(&Method::GET, url, user, &[])?.facts() }),
                Err(e) => Err(e),
            }
        };
        match self.send(&Method::HEAD, url, user, &[]) {
            Ok(answer) => match answer.facts() {
                facts if facts.size.is_some() && (facts.ranges || answer.header(ACCEPT_RANGES).is_some()) => Ok(facts),
                facts if facts.url.path().ends_with('/') => Ok(facts),
                facts => probe().map(|found| Facts { size: found.size.or(facts.size), ..found }),
            },
            // Not every server answers HEAD, and an address that was signed is signed for GET.
            Err(e) if e.kind() != ErrorKind::NotFound && e.remedy() == Remedy::None => probe(),
            Err(e) => Err(e),
        }
    }
}

/// An address as it may be shown: its query may be a secret.
pub fn shown(url: &Uri) -> String {
    let (scheme, authority) = (url.scheme_str().unwrap_or_default(), url.authority().map_or("", |authority| authority.as_str()));
    format!("{scheme}://{authority}{}", haul_core::entry::show(url.path().as_bytes()))
}

fn accepted(answer: Answer, op: &'static str) -> Result<Answer> {
    let status = answer.status.as_u16();
    if answer.status.is_success() {
        return Ok(answer);
    }
    let words = answer.status.canonical_reason().unwrap_or("an error").to_lowercase();
    let make = |kind| Error::new(kind, op).because(format!("the server says: {words} (status {status})"));
    let asked = answer.header(RETRY_AFTER).and_then(|wait| wait.trim().parse().ok()).map(Duration::from_secs);
    Err(match status {
        401 | 407 => make(ErrorKind::Denied).hint("name and password of the host go into ~/.netrc: machine HOST login NAME password WORD"),
        403 => make(ErrorKind::Denied),
        404 | 410 => Error::new(ErrorKind::NotFound, op).because("no such file or directory"),
        405 | 501 => make(ErrorKind::Unsupported),
        412 | 416 => Error::new(ErrorKind::Changed, op).because("it is another version by now"),
        408 | 425 | 429 | 500 | 502 | 503 | 504 | 509 => {
            make(ErrorKind::Other).remedy_is(Remedy::After(asked.unwrap_or_default().min(ASKED_MOST)))
        }
        _ => make(ErrorKind::Other),
    })
}
