//! The requests for objects of one bucket, one function each; those of uploads in parts are in [`upload`](super::upload).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::entry::{Entry, Time};
use haul_core::error::{Error, ErrorKind, Result};
use http::Method;
use http::header::HeaderMap;

use super::address::{self, copy_source};
use super::attributes::{self, FileAttributes};
use super::call::{Answer, Body, Call};
use super::checksum::{self, Algorithm, ObjectChecksums};
use super::checksum_modes::{ChecksumMode, unstored};
use super::client::Client;
use super::fault;
use super::put_options::{CopyTemplate, HEADERS, Pair, PutOptions};
use super::xml;
use haul_net::http_client::time;

/// A bucket, the options for its objects, and the client.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub client: Arc<Client>,
    pub name: String,
    pub options: Arc<PutOptions>,
}

/// The metadata of an object by HEAD or GET.
#[derive(Debug)]
pub struct Head {
    pub size: u64,
    /// As it was sent, quotes included: for `If-Match`.
    pub etag: String,
    pub modified: Time,
    pub answered: Option<Time>,
    pub attributes: FileAttributes,
    pub checksums: ObjectChecksums,
    pub headers: HeaderMap,
}

/// A written object: its ETag, and the service's times before and after.
#[derive(Clone, Debug, Default)]
pub struct Put {
    pub etag: String,
    pub since: Option<Time>,
    pub until: Option<Time>,
}

impl Put {
    fn of(answer: &Answer) -> Result<Put> {
        Ok(Put { etag: answer.named("write")?.to_string(), since: date(answer), until: date(answer) })
    }
}

pub(super) fn date(answer: &Answer) -> Option<Time> {
    answer.header("date").and_then(time::http)
}

impl Head {
    fn of(answer: &Answer) -> Head {
        // Metadata may be of any characters.
        let text = |value| std::str::from_utf8(http::HeaderValue::as_bytes(value)).ok();
        let pairs = || answer.headers.iter().filter_map(|(name, value)| Some((name.as_str(), text(value)?)));
        let whole = answer.header("content-range").and_then(|range| range.rsplit('/').next()).and_then(|size| size.parse().ok());
        let size = whole.or_else(|| answer.header("content-length").and_then(|size| size.parse().ok())).unwrap_or(0);
        let modified = answer.header("last-modified").and_then(time::http).unwrap_or_default();
        Head {
            size,
            etag: answer.header("etag").unwrap_or_default().to_string(),
            modified,
            answered: date(answer),
            attributes: attributes::read(attributes::user_metadata(pairs())),
            checksums: checksum::checksums(pairs()),
            headers: answer.headers.clone(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The object's user metadata as they were sent: names without `x-amz-meta-`.
    pub fn raw_metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str().strip_prefix("x-amz-meta-")?, value.as_bytes())))
    }

    pub fn foreign(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.raw_metadata().filter(|(name, _)| !attributes::NAMES.contains(name))
    }

    /// Headers that are the object's own, and its metadata that are not haul's, as far as they are text.
    pub fn own_headers(&self) -> Vec<(String, String)> {
        let own = HEADERS.into_iter().filter_map(|(name, _)| Some((name.to_string(), self.header(name)?.to_string())));
        let text = |(name, value): (&str, &[u8])| Some((format!("x-amz-meta-{name}"), String::from_utf8(value.to_vec()).ok()?));
        own.chain(self.foreign().filter_map(text)).collect()
    }

    pub fn metadata(&self) -> Vec<Pair> {
        let text = |(name, value): (&str, &[u8])| Some((name.to_string().into(), std::str::from_utf8(value).ok()?.to_string()));
        self.raw_metadata().filter_map(text).collect()
    }

    pub fn tags(&self) -> u32 {
        self.header("x-amz-tagging-count").and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Bucket {
    /// `s3://[PROFILE@]BUCKET`, as the user writes it.
    pub fn address(&self) -> String {
        let profile = self.client.profile().map(|name| format!("{name}@")).unwrap_or_default();
        format!("s3://{profile}{}", self.name)
    }

    /// For a copy of an entry: with the headers of its object, but for those that the options set.
    pub(super) fn like(&self, entry: &Entry) -> Bucket {
        match &entry.headers {
            None => self.clone(),
            Some(headers) => Bucket { options: Arc::new(self.options.like(headers)), ..self.clone() },
        }
    }

    pub fn call<'a>(&'a self, op: &'static str, method: Method, key: &'a [u8]) -> Call<'a> {
        let call = Call::new(op, method, &self.name, key);
        if self.options.request_payer { call.with("x-amz-request-payer", "requester") } else { call }
    }

    /// A request that reads an object, in the version of the options.
    fn looking<'a>(&'a self, op: &'static str, method: Method, key: &'a [u8]) -> Call<'a> {
        self.of_version(self.options.reading(self.call(op, method, key)))
    }

    /// A request about an object, in the version of the options.
    pub(super) fn of_version<'a>(&'a self, call: Call<'a>) -> Call<'a> {
        match &self.options.version {
            Some(version) => call.ask("versionId", version.as_str()),
            None => call,
        }
    }

    /// `None` if there is no such object.
    pub fn head(&self, key: &[u8]) -> Result<Option<Head>> {
        let call = self.looking("stat", Method::HEAD, key).with("x-amz-checksum-mode", "ENABLED");
        match self.client.send(&call, Body::None) {
            Ok(answer) => Ok(Some(Head::of(&answer))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Size of a part, counted from 1, of an object that was put together from several. Without `If-Match`: some services give each
    /// part an ETag of its own, and what is read later is of the right version or an error.
    pub fn part(&self, key: &[u8], number: u32) -> Result<u64> {
        let call = self.looking("stat", Method::HEAD, key).ask("partNumber", number.to_string());
        let answer = self.client.send(&call, Body::None)?;
        Ok(answer.header("content-length").and_then(|size| size.parse().ok()).unwrap_or(0))
    }

    /// The bytes of `at`, or of the whole object; only of the version `etag`, if one is given.
    pub fn get(&self, key: &[u8], at: Option<Range<u64>>, etag: Option<&str>) -> Result<(Head, Answer)> {
        let mut call = self.looking("read", Method::GET, key).with("x-amz-checksum-mode", "ENABLED");
        if let Some(at) = at {
            call = call.with("range", format!("bytes={}-{}", at.start, at.end.saturating_sub(1)));
        }
        if let Some(etag) = etag.filter(|etag| !etag.is_empty()) {
            call = call.with("if-match", etag);
        }
        self.client.pace.asks();
        let answer = self.client.send(&call, Body::None)?;
        Ok((Head::of(&answer), answer))
    }

    /// For the latest versions of objects.
    #[must_use]
    pub(super) fn latest(&self) -> Bucket {
        self.clone().version(None)
    }

    /// For one version of objects; `None` for the latest.
    #[must_use]
    pub(super) fn version(self, version: Option<&str>) -> Bucket {
        if self.options.version.as_deref() == version {
            return self;
        }
        Bucket { options: Arc::new(PutOptions { version: version.map(str::to_string), ..(*self.options).clone() }), ..self }
    }

    pub fn put(&self, key: &[u8], bytes: &[u8], metadata: &[Pair]) -> Result<Put> {
        let modes = &self.client.modes;
        if let Some(algorithm) = self.options.checksum {
            let call = self.options.writing(self.call("write", Method::PUT, key), key, metadata);
            let sent = algorithm.of(bytes);
            let call = call.with(algorithm.header(), sent.base64()).with("x-amz-sdk-checksum-algorithm", algorithm.word());
            let answer = self.client.send(&call, Body::Bytes(bytes)).map_err(|e| unstored(e, algorithm))?;
            modes.stored(&answer, sent)?;
            return Put::of(&answer);
        }
        modes.negotiate(|mode| {
            let mut call = self.options.writing(self.call("write", Method::PUT, key), key, metadata);
            let sent = mode.algorithm.of(bytes);
            call = call.with(mode.algorithm.header(), sent.base64());
            let answer = self.client.send(&call, Body::Bytes(bytes))?;
            let put = Put::of(&answer)?;
            // Where it goes in one request there is no trailer.
            let mode = ChecksumMode { trailing: false, ..mode };
            modes.accepted(&answer, mode, sent, || Some(Algorithm::Md5.of(bytes)), !self.options.no_check_etag)?;
            Ok(put)
        })
    }

    /// Makes an empty object where there is none with this key; `None` where there is one, or where the service does not take the
    /// condition (Amazon S3 user guide, "conditional writes").
    pub(super) fn put_absent(&self, key: &[u8], metadata: &[Pair]) -> Result<Option<Put>> {
        let unconditionally = &self.client.writes_unconditionally;
        if self.options.checksum.is_some() || unconditionally.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let call = self.options.writing(self.call("write", Method::PUT, key), key, metadata).with("if-none-match", "*");
        match self.client.send(&call.with("content-md5", Algorithm::Md5.of(b"").base64()), Body::None) {
            Ok(answer) => Put::of(&answer).map(Some),
            Err(e) if e.kind() == ErrorKind::Changed => Ok(None),
            Err(e) if matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut | ErrorKind::Denied) => Err(e),
            Err(_) => {
                unconditionally.store(true, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    /// One page of a listing: at most `most` keys below `prefix`, and 1,000; `more` says how and from where. With the service's time
    /// of the answer.
    pub fn page(&self, prefix: &[u8], most: u32, more: &[(&'static str, &str)]) -> Result<(Vec<u8>, Option<Time>)> {
        let mut call = self.call("list", Method::GET, b"").ask("list-type", "2").ask("encoding-type", "url");
        call = call.ask("prefix", String::from_utf8_lossy(prefix));
        if most < 1000 {
            call = call.ask("max-keys", most.to_string());
        }
        let call = more.iter().fold(call, |call, &(name, value)| call.ask(name, value));
        let answer = self.client.send(&call, Body::None)?;
        let now = date(&answer);
        Ok((answer.whole("list")?, now))
    }

    pub fn any_below(&self, prefix: &[u8]) -> Result<bool> {
        Ok(self.first(prefix)?.is_some())
    }

    /// Removes the version `etag`, else `Changed`: by the service itself where it knows the condition, and everywhere by a look just
    /// before. No error if there is no such object.
    pub fn delete_version(&self, key: &[u8], etag: &str) -> Result<()> {
        let stands = |head: &Head| checksum::version(&head.etag) == checksum::version(etag);
        let changed = || Error::new(ErrorKind::Changed, "remove").because("it has changed meanwhile");
        match self.head(key)? {
            None => return Ok(()),
            Some(head) if !stands(&head) => return Err(changed()),
            Some(_) => {}
        }
        let call = self.call("remove", Method::DELETE, key).with("if-match", etag);
        match self.client.send(&call, Body::None) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == ErrorKind::Unsupported => self.remove_key(key, ""),
            // The answer to a try before may have been lost.
            Err(e) if e.kind() == ErrorKind::Changed => self.head(key)?.map_or(Ok(()), |_| Err(changed())),
            Err(e) => Err(e),
        }
    }

    /// Copies within the endpoint, up to 5 GiB. Metadata and tags are the source's where nothing else is asked for.
    pub fn copy(&self, from: (&str, &[u8]), to: &[u8], like: &CopyTemplate<'_>) -> Result<()> {
        // An object is copied onto itself only if something about it becomes another.
        let anew = like.changes(&self.options) || (from == (&self.name, to));
        if anew {
            like.check("copy")?;
        }
        // MinIO's copies have this header only if it is sent.
        let anew = anew || (like.head.headers.contains_key("expires") && like.check("copy").is_ok());
        let mut call = self.options.copying(self.call("copy", Method::PUT, to), like, anew);
        call = self.options.of_source(call).with("x-amz-copy-source", copy_source(from.0, from.1, like.version.unwrap_or_default()));
        call = call.with("x-amz-metadata-directive", if anew { "REPLACE" } else { "COPY" });
        if self.options.tagging.is_some() {
            call = call.with("x-amz-tagging-directive", "REPLACE");
        }
        call = call.with("x-amz-copy-source-if-match", &like.head.etag);
        let answer = self.client.send(&call.slow(), Body::None)?.whole("copy")?;
        xml::copied(&answer).map(|_| ()).map_err(|e| fault::document("copy", &self.name, e))
    }

    /// The object's tags as a header has them: `a=b&c=d`, escaped.
    pub fn tags(&self, key: &[u8]) -> Result<String> {
        self.tag_set(key).map(|tags| address::tagging(&tags))
    }

    /// The tags of an object, or of the bucket for an empty key; none where it has none.
    pub fn tag_set(&self, key: &[u8]) -> Result<Vec<(String, String)>> {
        let answer = match self.client.send(&self.of_version(self.call("read tags", Method::GET, key)).ask("tagging", ""), Body::None) {
            // Of a bucket without tags.
            Err(e) if e.kind() == ErrorKind::NotFound && e.reason().contains("NoSuchTagSet") => return Ok(Vec::new()),
            answer => answer?.whole("read tags")?,
        };
        xml::tags(&answer).map_err(|e| fault::document("read tags", &self.name, e))
    }

    /// Replaces the tags of an object, or of the bucket for an empty key; with none of them it has none.
    pub fn set_tags(&self, key: &[u8], tags: &[(String, String)]) -> Result<()> {
        if tags.is_empty() {
            let call = self.of_version(self.call("set tags", Method::DELETE, key)).ask("tagging", "");
            return self.client.send(&call, Body::None).map(|_| ());
        }
        let call = self.of_version(self.call("set tags", Method::PUT, key)).ask("tagging", "");
        self.send_document(call, &xml::tagging(tags)).map(drop)
    }

    pub(super) fn send_document(&self, call: Call<'_>, body: &str) -> Result<Answer> {
        let call = call.with("content-type", "application/xml").with("content-md5", Algorithm::Md5.of(body.as_bytes()).base64());
        self.client.send(&call, Body::Bytes(body.as_bytes()))
    }

    /// Whether the bucket is there; `Denied` counts, as does a bucket in another region.
    pub fn exists(&self) -> Result<bool> {
        match self.client.send(&self.call("open", Method::HEAD, b""), Body::None) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}
