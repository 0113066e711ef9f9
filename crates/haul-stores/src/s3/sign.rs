//! AWS Signature Version 4, as S3 wants it: one signature a request, made on the path of the data.
//!
//! ```text
//! canonical request = method, path, query, headers that are signed, their names, what is said of the body
//! string to sign    = "AWS4-HMAC-SHA256", time, day/region/service, SHA-256 of the canonical request
//! signing key       = HMAC chain over secret, day, region, service      <- kept for as long as the day lasts
//! signature         = HMAC(signing key, string to sign)
//! ```
//!
//! Time is an argument, and what the server's clock is ahead of ours is added to it: a machine whose clock is wrong by
//! more than 15 minutes is refused by every server otherwise.
//!
//! Signed are `host`, `content-type`, `content-md5` and all of `x-amz-*`: what the service demands, and no header that a
//! proxy on the way may rewrite.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_core::error::{Error, ErrorKind, Result};
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use ring::{digest, hmac};
use zeroize::Zeroizing;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// SHA-256 of no bytes at all.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// The longest that a presigned address may be good for: the service's bound.
pub const LONGEST_PRESIGN: Duration = Duration::from_secs(7 * 86_400);

/// What proves to the service who asks. Wiped when dropped; `Debug` shows no more than the first letters of the key's id.
pub struct Credential {
    access_key: String,
    secret: Zeroizing<String>,
    token: Option<Zeroizing<String>>,
    expires: Option<SystemTime>,
}

impl Credential {
    pub fn new(access_key: impl Into<String>, secret: impl Into<String>, token: Option<String>, expires: Option<SystemTime>) -> Credential {
        let token = token.filter(|token| !token.is_empty()).map(Zeroizing::new);
        Credential { access_key: access_key.into(), secret: Zeroizing::new(secret.into()), token, expires }
    }

    /// The id of the key, which is no secret but names an account.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// The id shortened for messages: enough to tell two keys apart.
    pub fn shown(&self) -> String {
        let all: Vec<char> = self.access_key.chars().filter(|c| !c.is_control()).collect();
        match all.len() {
            0..=8 => format!("{}...", all.iter().take(3).collect::<String>()),
            many => format!("{}...{}", all[..4].iter().collect::<String>(), all[many - 4..].iter().collect::<String>()),
        }
    }

    pub fn is_temporary(&self) -> bool {
        self.token.is_some()
    }

    /// The moment from which the service refuses it, where that is known.
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// Whether the other would sign just the same.
    pub(super) fn is_same(&self, other: &Credential) -> bool {
        self.access_key == other.access_key && self.secret == other.secret && self.token() == other.token()
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.as_str())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("access_key", &self.shown()).field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// What the signature says of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// There is none.
    Empty,
    /// Nothing: right over TLS, and where a checksum header proves the body anyway.
    Unsigned,
    /// SHA-256 of the body in lower-case hexadecimal digits.
    Hash(&'a str),
    /// The body is in chunks with a checksum behind it (`aws-chunked`), neither signed.
    StreamingUnsignedTrailer,
}

impl<'a> Payload<'a> {
    fn as_str(self) -> &'a str {
        match self {
            Payload::Empty => EMPTY,
            Payload::Unsigned => "UNSIGNED-PAYLOAD",
            Payload::Hash(hash) => hash,
            Payload::StreamingUnsignedTrailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        }
    }
}

/// Signs requests for one region of one service. Any number of threads may use it at once.
pub struct Signer {
    region: String,
    service: &'static str,
    /// Seconds to add to our clock to have the server's.
    ahead: AtomicI64,
    key: Mutex<Option<DayKey>>,
}

/// The key of one day, made from one credential.
#[derive(Clone)]
struct DayKey {
    day: u64,
    of: Arc<Credential>,
    key: Zeroizing<[u8; 32]>,
}

impl Signer {
    /// For S3 in a region; servers that have none take `us-east-1`.
    pub fn new(region: impl Into<String>) -> Signer {
        Signer::of_service(region, "s3")
    }

    /// For another service of the family, such as `sts`.
    pub fn of_service(region: impl Into<String>, service: &'static str) -> Signer {
        Signer { region: region.into(), service, ahead: AtomicI64::new(0), key: Mutex::new(None) }
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    /// Learns from the `Date` of an answer how far the server's clock is ahead of ours (`local`: when the answer came).
    /// Says whether that moved by more than a minute, so that a request refused as skewed is worth sending again.
    pub fn learn_clock(&self, server: SystemTime, local: SystemTime) -> bool {
        let ahead = seconds(server) as i64 - seconds(local) as i64;
        let before = self.ahead.swap(ahead, Ordering::Relaxed);
        (ahead - before).abs() > 60
    }

    /// The server's time at our time `now`.
    pub fn corrected(&self, now: SystemTime) -> SystemTime {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let by = Duration::from_secs(ahead.unsigned_abs());
        let then = if ahead < 0 { now.checked_sub(by) } else { now.checked_add(by) };
        then.unwrap_or(now)
    }

    /// Adds `x-amz-date`, `x-amz-content-sha256`, the session token's header if there is one, and `authorization`; an
    /// earlier signature's headers are replaced, so that a request may be signed again. The address must be absolute; its
    /// path and query are signed as they are sent, neither `//` nor `..` is touched.
    ///
    /// Whoever sets `host` in the headers sends that one; otherwise it is the address's, with its port unless that is the
    /// scheme's own.
    pub fn sign(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &mut HeaderMap,
        payload: Payload<'_>,
        credential: &Arc<Credential>,
        now: SystemTime,
    ) -> Result<()> {
        self.sign_also(method, uri, headers, payload, credential, now, &[])
    }

    /// `sign`, with more headers signed than must be.
    #[expect(clippy::too_many_arguments, reason = "each is another part of one request")]
    fn sign_also(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &mut HeaderMap,
        payload: Payload<'_>,
        credential: &Arc<Credential>,
        now: SystemTime,
        also: &[HeaderName],
    ) -> Result<()> {
        let moment = Moment::of(self.corrected(now));
        headers.remove(AUTHORIZATION);
        headers.insert(DATE, plain_value(&moment.full)?);
        headers.insert(CONTENT_SHA256, plain_value(payload.as_str())?);
        match credential.token() {
            Some(token) => headers.insert(TOKEN, secret_value(token)?),
            None => headers.remove(TOKEN),
        };
        let mut canonical = Canonical::new(method, uri, |text| canonical_query(text, uri.query().unwrap_or("")));
        let names = canonical.headers(uri, headers, also)?;
        canonical.payload(payload);
        let signature = self.signature(&canonical.text, &moment, credential);
        let mut line = String::with_capacity(200 + names.len());
        let _ = write!(line, "{ALGORITHM} Credential={}/{}", credential.access_key, self.scope(&moment));
        let _ = write!(line, ", SignedHeaders={names}, Signature={signature}");
        headers.insert(AUTHORIZATION, secret_value(&line)?);
        Ok(())
    }

    /// The address, good for `expires` from now, that does this request for whoever has it. What is in `headers` must then be
    /// sent as well, to the letter. At most seven days, and a temporary credential's end also ends the address.
    pub fn presign(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        credential: &Arc<Credential>,
        now: SystemTime,
        expires: Duration,
    ) -> Result<String> {
        if expires > LONGEST_PRESIGN || expires < Duration::from_secs(1) {
            return Err(Error::new(ErrorKind::Usage, "presign").because("an address can be good for one second to seven days"));
        }
        let moment = Moment::of(self.corrected(now));
        let mut query = uri.query().unwrap_or("").to_string();
        // The names alone, before there is a text to put them into.
        let names = Canonical::new(method, uri, |_| ()).headers(uri, headers, &[])?;
        let mut add = |name: &str, value: &str| {
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(name);
            query.push('=');
            encode(&mut query, value.as_bytes(), false);
        };
        add("X-Amz-Algorithm", ALGORITHM);
        add("X-Amz-Credential", &format!("{}/{}", credential.access_key, self.scope(&moment)));
        add("X-Amz-Date", &moment.full);
        add("X-Amz-Expires", &expires.as_secs().to_string());
        add("X-Amz-SignedHeaders", &names);
        if let Some(token) = credential.token() {
            add("X-Amz-Security-Token", token);
        }
        let mut canonical = Canonical::new(method, uri, |text| canonical_query(text, &query));
        canonical.headers(uri, headers, &[])?;
        canonical.payload(Payload::Unsigned);
        let signature = self.signature(&canonical.text, &moment, credential);
        let scheme = uri.scheme_str().unwrap_or("https");
        let authority = uri.authority().map(|a| a.as_str()).unwrap_or("");
        Ok(format!("{scheme}://{authority}{}?{query}&X-Amz-Signature={signature}", uri.path()))
    }

    fn scope(&self, moment: &Moment) -> String {
        format!("{}/{}/{}/aws4_request", moment.day(), self.region, self.service)
    }

    fn signature(&self, canonical: &str, moment: &Moment, credential: &Arc<Credential>) -> String {
        let mut text = String::with_capacity(200);
        let _ = write!(text, "{ALGORITHM}\n{}\n{}\n", moment.full, self.scope(moment));
        hex(&mut text, digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let key = self.day_key(moment, credential);
        let mut signature = String::with_capacity(64);
        hex(&mut signature, mac(&key[..], text.as_bytes()).as_ref());
        signature
    }

    fn day_key(&self, moment: &Moment, credential: &Arc<Credential>) -> Zeroizing<[u8; 32]> {
        let mut kept = self.key.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = kept.as_ref().filter(|known| known.day == moment.days && Arc::ptr_eq(&known.of, credential)) {
            return known.key.clone();
        }
        let mut first = Zeroizing::new(String::with_capacity(4 + credential.secret.len()));
        first.push_str("AWS4");
        first.push_str(&credential.secret);
        let mut key = Zeroizing::new([0; 32]);
        key.copy_from_slice(mac(first.as_bytes(), moment.day().as_bytes()).as_ref());
        for step in [self.region.as_str(), self.service, "aws4_request"] {
            let next = mac(&key[..], step.as_bytes());
            key.copy_from_slice(next.as_ref());
        }
        *kept = Some(DayKey { day: moment.days, of: credential.clone(), key: key.clone() });
        key
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("region", &self.region).field("service", &self.service).finish_non_exhaustive()
    }
}

fn mac(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
}

/// The text whose hash is signed, as far as it is made.
struct Canonical {
    text: String,
}

impl Canonical {
    fn new(method: &Method, uri: &Uri, query: impl FnOnce(&mut String)) -> Canonical {
        let mut text = String::with_capacity(1024);
        text.push_str(method.as_str());
        text.push('\n');
        match uri.path() {
            "" => text.push('/'),
            path => recode(&mut text, path, true),
        }
        text.push('\n');
        query(&mut text);
        text.push('\n');
        Canonical { text }
    }

    /// Adds the headers that are signed, and answers their names as the signature lists them.
    fn headers(&mut self, uri: &Uri, headers: &HeaderMap, also: &[HeaderName]) -> Result<String> {
        let is_signed = |name: &HeaderName| {
            let text = name.as_str();
            text.starts_with("x-amz-") || text == "content-type" || text == "content-md5" || also.contains(name)
        };
        let mut signed: Vec<&HeaderName> = headers.keys().filter(|name| is_signed(name)).collect();
        signed.push(&HOST);
        signed.sort_unstable_by_key(|name| name.as_str());
        signed.dedup();
        let mut names = String::with_capacity(128);
        for name in signed {
            self.text.push_str(name.as_str());
            self.text.push(':');
            let mut values = headers.get_all(name).iter().peekable();
            if values.peek().is_none() {
                self.host(uri)?;
            }
            for (n, value) in values.enumerate() {
                if n > 0 {
                    self.text.push(',');
                }
                trimmed(&mut self.text, value)?;
            }
            self.text.push('\n');
            if !names.is_empty() {
                names.push(';');
            }
            names.push_str(name.as_str());
        }
        self.text.push('\n');
        self.text.push_str(&names);
        self.text.push('\n');
        Ok(names)
    }

    fn host(&mut self, uri: &Uri) -> Result<()> {
        let host = uri.host().ok_or_else(|| Error::new(ErrorKind::Usage, "sign").because("the address names no host"))?;
        self.text.push_str(host);
        let own = if uri.scheme_str() == Some("http") { 80 } else { 443 };
        if let Some(port) = uri.port_u16().filter(|port| *port != own) {
            let _ = write!(self.text, ":{port}");
        }
        Ok(())
    }

    fn payload(&mut self, payload: Payload<'_>) {
        self.text.push_str(payload.as_str());
    }
}

/// A header's value without blanks around it and with one for each run of them inside.
fn trimmed(text: &mut String, value: &HeaderValue) -> Result<()> {
    let bytes = value.as_bytes();
    let value = std::str::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::Usage, "sign").because("a header that is signed must be text in UTF-8"))?;
    for (n, word) in value.split([' ', '\t']).filter(|word| !word.is_empty()).enumerate() {
        if n > 0 {
            text.push(' ');
        }
        text.push_str(word);
    }
    Ok(())
}

/// Pairs in the order of their encoded names, then values; a name without `=` gets one.
fn canonical_query(text: &mut String, query: &str) {
    if query.is_empty() {
        return;
    }
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let mut made = (String::with_capacity(name.len()), String::with_capacity(value.len()));
            recode(&mut made.0, name, false);
            recode(&mut made.1, value, false);
            made
        })
        .collect();
    pairs.sort_unstable();
    for (n, (name, value)) in pairs.iter().enumerate() {
        if n > 0 {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        text.push_str(value);
    }
}

/// Brings what is sent into the one form that the service makes of it before it compares: what was escaped without need is
/// not, what needs it is, digits are capitals.
fn recode(text: &mut String, sent: &str, slash: bool) {
    let bytes = sent.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = if bytes[at] == b'%' { unescape(&bytes[at + 1..]) } else { None };
        encode(text, &[escaped.unwrap_or(bytes[at])], slash && escaped.is_none());
        at += if escaped.is_some() { 3 } else { 1 };
    }
}

fn unescape(digits: &[u8]) -> Option<u8> {
    let digit = |n: usize| digits.get(n).and_then(|d| (*d as char).to_digit(16));
    Some((digit(0)? * 16 + digit(1)?) as u8)
}

/// Escapes bytes for a path (`slash`: its slashes stay) or a query, in the one way that the service takes as canonical.
/// Addresses made with this are signed as they are sent.
pub fn encode(text: &mut String, bytes: &[u8], slash: bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') || (slash && byte == b'/') {
            text.push(byte as char);
        } else {
            text.push('%');
            text.push(DIGITS[usize::from(byte >> 4)] as char);
            text.push(DIGITS[usize::from(byte & 15)] as char);
        }
    }
}

fn hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

fn plain_value(text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(|_| Error::new(ErrorKind::Usage, "sign").because("a value that no header can hold"))
}

/// A header value that is not printed.
fn secret_value(text: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        Error::new(ErrorKind::Denied, "sign").because("the access key or the session token has characters that no header can hold")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// A time as signatures write it.
struct Moment {
    days: u64,
    /// `20130524T000000Z`
    full: String,
}

impl Moment {
    fn of(time: SystemTime) -> Moment {
        let seconds = seconds(time);
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil(days);
        let full = format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60);
        Moment { days, full }
    }

    fn day(&self) -> &str {
        &self.full[..8]
    }
}

/// Whole seconds since 1970; before it, none.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Year, month and day of a number of days since 1970 (Howard Hinnant's `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}

#[cfg(test)]
mod tests;
