//! Requests to web servers: redirects followed, tried again where that is of use.

use std::io::Read;
use std::ops::Range;
use std::time::{Duration, Instant};

use base64::Engine as _;
use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::retry::{ASKED_MOST, Tries};
use http::header::{
    ACCEPT_RANGES, AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MATCH, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};

use super::disposition;
use super::flags::Flags;
use super::link::join;
use haul_core::place::provider::Access;
use haul_net::http_client::agent::{AgentConfig, Agents, read_error, request_error};
use haul_net::http_client::contact::Contact;
use haul_net::http_client::pace::Pace;
use haul_net::http_client::parallel::Threads;
use haul_net::http_client::{Environment, time};
use haul_net::netrc::Netrc;

/// Redirects of one request at the most.
const REDIRECTS: usize = 10;

/// Connections to all servers of a run.
#[derive(Debug)]
pub struct Client {
    agents: Agents,
    netrc: Netrc,
    pub threads: Threads,
    pub pace: Pace,
    pub contact: Contact,
}

/// A request without a body.
#[derive(Clone, Debug)]
pub struct WebRequest<'a> {
    method: Method,
    url: &'a Uri,
    /// The user name in the address.
    user: Option<&'a str>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl<'a> WebRequest<'a> {
    pub fn get(url: &'a Uri, user: Option<&'a str>) -> WebRequest<'a> {
        WebRequest { method: Method::GET, url, user, headers: Vec::new() }
    }

    pub fn with(mut self, headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> WebRequest<'a> {
        self.headers.extend(headers);
        self
    }

    fn op(&self) -> &'static str {
        if self.method == Method::HEAD { "look up" } else { "read" }
    }
}

/// An answer whose status is a success.
pub struct Answer {
    /// After redirects.
    pub url: Uri,
    pub status: StatusCode,
    headers: HeaderMap,
    pub body: ureq::Body,
    /// How often the request was sent.
    pub tries: u32,
}

/// The metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// After redirects.
    pub url: Uri,
    /// Bytes; `None` where the server does not say.
    pub size: Option<u64>,
    pub modified: Option<Time>,
    /// As it was written.
    last_modified: Option<HeaderValue>,
    /// As it was written, weak ones too.
    pub etag: Option<String>,
    /// The server sends ranges of it, and says of which version they are: else ranges of two versions could not be told apart.
    pub ranges: bool,
    /// A file name that the server suggests.
    pub name: Option<String>,
}

impl Facts {
    /// The header that makes the answer to a range request fail if the file has changed by then.
    pub fn guard(&self) -> Option<(HeaderName, HeaderValue)> {
        if let Some(etag) = self.etag.as_deref().filter(|etag| !etag.starts_with("W/")) {
            return Some((IF_MATCH, HeaderValue::from_str(etag).ok()?));
        }
        Some((IF_UNMODIFIED_SINCE, self.last_modified.clone()?))
    }

    /// An address with a query is a file, whatever its path.
    pub fn is_dir(&self) -> bool {
        self.url.path().ends_with('/') && self.url.query().is_none()
    }

    /// Whether an answer is of the same version, as far as both tell.
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

    /// `Content-Range`: the part, and the size of the whole.
    fn content_range(&self) -> Option<(Range<u64>, Option<u64>)> {
        let (range, size) = self.header(CONTENT_RANGE)?.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        Some((first.trim().parse().ok()?..last.trim().parse::<u64>().ok()?.checked_add(1)?, size.trim().parse().ok()))
    }

    fn content_length(&self) -> Option<u64> {
        self.header(CONTENT_LENGTH)?.trim().parse().ok()
    }

    /// The range that the body has, by both headers that tell of it; `None` where they contradict each other.
    pub fn part(&self) -> Option<Range<u64>> {
        let (part, _) = self.content_range()?;
        let length = part.end.checked_sub(part.start)?;
        self.content_length().is_none_or(|said| said == length).then_some(part)
    }

    /// Whether the body ends where the server says, so that one that was cut shows. Else it ends with the connection.
    pub fn is_framed(&self) -> bool {
        self.content_length().is_some() || self.headers.contains_key(TRANSFER_ENCODING)
    }

    pub fn facts(&self) -> Facts {
        let part = self.content_range().filter(|_| self.status == StatusCode::PARTIAL_CONTENT);
        let ranges = part.is_some() || self.header(ACCEPT_RANGES).is_some_and(|units| units.to_ascii_lowercase().contains("bytes"));
        let size = part.map_or_else(|| self.content_length(), |(_, size)| size);
        let facts = Facts {
            url: self.url.clone(),
            size,
            modified: self.header(LAST_MODIFIED).and_then(time::http),
            last_modified: self.headers.get(LAST_MODIFIED).cloned(),
            etag: self.header(ETAG).map(str::to_string),
            ranges,
            name: self.headers.get(CONTENT_DISPOSITION).and_then(|value| disposition::file_name(value.as_bytes())),
        };
        Facts { ranges: ranges && facts.guard().is_some(), ..facts }
    }

    /// The whole body, of `most` bytes at the most.
    pub fn text(mut self, most: u64, op: &'static str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.body.as_reader().take(most + 1).read_to_end(&mut bytes);
        read.map_err(|e| read_error(op, &e, "the server"))?;
        if bytes.len() as u64 > most {
            return Err(Error::new(ErrorKind::Unsupported, op).because(format!("the answer has more than {most} bytes")));
        }
        Ok(bytes)
    }
}

impl Client {
    /// `example` is an address of any server; nothing is sent.
    pub fn new(access: &Access, example: &Uri) -> Client {
        let (environment, tls) = (Environment::process(), access.get::<Flags>().tls);
        let netrc = Netrc::read(&environment);
        let usual = AgentConfig::of(example.clone(), environment);
        // A request that hangs is to be sent again before the run counts as stuck.
        let idle_timeout = access.idle_timeout.map_or(usual.idle_timeout, |timeout| (timeout / 2).max(Duration::from_millis(500)));
        let common = AgentConfig { verify: !tls.no_verify_ssl, ca_bundle: tls.ca_bundle, idle_timeout, ..usual };
        Client { agents: Agents::new(common), netrc, threads: Threads::default(), pace: Pace::default(), contact: Contact::default() }
    }

    /// Sends a request until it is answered with a success.
    ///
    /// # Errors
    /// `NotFound`, `Denied`, `Changed` where the guard does not hold any more, and what keeps the server from being reached.
    pub fn send(&self, request: &WebRequest<'_>) -> Result<Answer> {
        let (mut tries, began) = (Tries::begin(), Instant::now());
        loop {
            match tries.run(|| self.redirected(request)) {
                Ok(answer) => return Ok(Answer { tries: tries.failed() + 1, ..answer }),
                Err(e) => {
                    let (e, again) = tries.after(self.contact.judge(e, tries.failed() + 1, began)?)?;
                    tries.pause(&e, again)?;
                }
            }
        }
    }

    fn redirected(&self, request: &WebRequest<'_>) -> Result<Answer> {
        let refused = |reason: String| Error::new(ErrorKind::Denied, request.op()).because(reason);
        let mut at = request.url.clone();
        for _ in 0..=REDIRECTS {
            let answer = self.once(&WebRequest { url: &at, ..request.clone() })?;
            if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return accepted(answer, request.op());
            }
            let to = answer.header(LOCATION).and_then(|to| join(&at, to));
            let to = to.ok_or_else(|| refused(format!("the server redirects to no address (status {})", answer.status.as_u16())))?;
            if at.scheme_str() == Some("https") && to.scheme_str() != Some("https") {
                return Err(refused(format!("the server redirects to an address without encryption, {}", shown(&to))));
            }
            at = to;
        }
        Err(refused(format!("more than {REDIRECTS} redirects")))
    }

    fn once(&self, request: &WebRequest<'_>) -> Result<Answer> {
        let url = request.url;
        let mut sent = Request::new(());
        *sent.method_mut() = request.method.clone();
        *sent.uri_mut() = url.clone();
        sent.headers_mut().extend(request.headers.iter().cloned());
        if let Some((login, password)) = self.netrc.of(url.host().unwrap_or_default(), request.user) {
            let secret = base64::engine::general_purpose::STANDARD.encode(format!("{login}:{password}"));
            if let Ok(mut value) = HeaderValue::from_str(&format!("Basic {secret}")) {
                value.set_sensitive(true);
                sent.headers_mut().insert(AUTHORIZATION, value);
            }
        }
        let agent = self.agents.get(url, |common| common)?;
        let began = Instant::now();
        let answer = agent.run(sent).map_err(|e| request_error(e, url, agent.config().proxy(), request.op()))?;
        self.contact.made(began);
        let (parts, body) = answer.into_parts();
        Ok(Answer { url: url.clone(), status: parts.status, headers: parts.headers, body, tries: 1 })
    }

    /// The metadata of a file, without its content.
    ///
    /// # Errors
    /// Those of [`Client::send`].
    pub fn look(&self, url: &Uri, user: Option<&str>) -> Result<Facts> {
        let get = WebRequest::get(url, user);
        let probe = || -> Result<Facts> {
            match self.send(&get.clone().with([(RANGE, HeaderValue::from_static("bytes=0-0"))])) {
                Ok(answer) => Ok(answer.facts()),
                // An empty file has no first byte.
                Err(e) if e.kind() == ErrorKind::Changed => Ok(Facts { ranges: false, ..self.send(&get)?.facts() }),
                Err(e) => Err(e),
            }
        };
        match self.send(&WebRequest { method: Method::HEAD, ..get.clone() }) {
            Ok(answer) => match answer.facts() {
                facts if facts.size.is_some() && (facts.ranges || answer.header(ACCEPT_RANGES).is_some()) => Ok(facts),
                facts if facts.is_dir() => Ok(facts),
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
        412 | 416 => Error::new(ErrorKind::Changed, op).because("it has changed meanwhile"),
        408 | 425 | 429 | 500 | 502 | 503 | 504 | 509 => {
            make(ErrorKind::Other).remedy_is(Remedy::After(asked.unwrap_or_default().min(ASKED_MOST)))
        }
        _ => make(ErrorKind::Other),
    })
}
