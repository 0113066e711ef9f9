//! The requests for objects of one bucket, one function each.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use http::Method;
use http::header::HeaderMap;

use super::address::{self, copy_source};
use super::attributes::{self, FileAttributes};
use super::call::{Answer, Body, Call};
use super::checksum::{self, Algorithm, ETag, Kind, ObjectChecksums, StoredChecksum, Value};
use super::checksum_modes::{ChecksumMode, is_unverified};
use super::client::Client;
use super::fault;
use super::framed::Framed;
use super::put_options::{CopyTemplate, Pair, PutOptions};
use super::sign::Payload;
use super::xml;
use crate::http_client::time;

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
    /// The service's time of the answer.
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
    /// By one request.
    fn of(answer: &Answer) -> Put {
        Put { etag: answer.header("etag").unwrap_or_default().to_string(), since: date(answer), until: date(answer) }
    }
}

fn date(answer: &Answer) -> Option<Time> {
    answer.header("date").and_then(time::http)
}

/// An upload in parts that was begun.
#[derive(Clone, Debug)]
pub struct Upload {
    pub id: String,
    /// Of the checksums of its parts.
    pub algorithm: Algorithm,
    /// The service keeps the checksum of the whole object, not a composite one.
    pub whole: bool,
    pub since: Option<Time>,
}

/// The object that parts are assembled to.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub size: u64,
    /// Checksums of the whole, if any are known.
    pub whole: &'a [Value],
    /// Send the first of them to the service, which then rejects anything else: only for an [`Upload::whole`].
    pub sent: bool,
}

/// A part that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub number: u32,
    pub etag: String,
    pub checksum: Option<Value>,
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

    /// Those that are not haul's.
    pub fn foreign(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.raw_metadata().filter(|(name, _)| !attributes::NAMES.contains(name))
    }

    /// Those that are text.
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

    pub fn call<'a>(&'a self, op: &'static str, method: Method, key: &'a [u8]) -> Call<'a> {
        let call = Call::new(op, method, &self.name, key);
        if self.options.request_payer { call.with("x-amz-request-payer", "requester") } else { call }
    }

    /// A request that reads an object, in the version that is wished for.
    fn looking<'a>(&'a self, op: &'static str, method: Method, key: &'a [u8]) -> Call<'a> {
        let call = self.options.reading(self.call(op, method, key));
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

    /// Size of a part, counted from 1, for an object that was put together from several, and how many there are.
    pub fn part(&self, key: &[u8], etag: &str, number: u32) -> Result<(u64, Option<u32>)> {
        let call = self.looking("stat", Method::HEAD, key).ask("partNumber", number.to_string()).with("if-match", etag);
        let answer = self.client.send(&call, Body::None)?;
        let size = answer.header("content-length").and_then(|size| size.parse().ok()).unwrap_or(0);
        Ok((size, answer.header("x-amz-mp-parts-count").and_then(|count| count.parse().ok())))
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
        let answer = self.client.send(&call, Body::None)?;
        Ok((Head::of(&answer), answer))
    }

    /// Uploads a whole object from memory.
    pub fn put(&self, key: &[u8], bytes: &[u8], metadata: &[Pair]) -> Result<Put> {
        let modes = &self.client.modes;
        modes.prove(|mode| {
            let mut call = self.options.writing(self.call("write", Method::PUT, key), key, metadata);
            let sent = mode.algorithm.of(bytes);
            call = call.with(mode.algorithm.header(), sent.base64());
            let answer = self.client.send(&call, Body::Bytes(bytes))?;
            // Where it goes in one request there is no trailer.
            let mode = ChecksumMode { trailing: false, ..mode };
            modes.accepted(&answer, mode, sent, || Some(Algorithm::Md5.of(bytes)), !self.options.no_check_etag)?;
            Ok(Put::of(&answer))
        })
    }

    /// Begins an upload in parts. Its checksum is that of the whole object, where the endpoint says so.
    pub fn begin(&self, key: &[u8], metadata: &[Pair]) -> Result<Upload> {
        self.client.modes.prove(|mode| {
            let mut call = self.options.writing(self.call("create", Method::POST, key), key, metadata).ask("uploads", "");
            if mode.algorithm.combines() {
                call = call.with("x-amz-checksum-algorithm", mode.algorithm.word()).with("x-amz-checksum-type", "FULL_OBJECT");
            }
            let answer = self.client.send(&call, Body::None)?;
            let (since, whole) = (date(&answer), keeps_whole(&answer, mode.algorithm));
            let body = answer.whole("create")?;
            let id = xml::initiated(&body).map_err(|e| fault::document("create", &self.name, e))?;
            Ok(Upload { id, algorithm: mode.algorithm, whole, since })
        })
    }

    /// Sends a part, of an upload that was begun with `begun`, from a reader: its checksum behind it where the endpoint takes
    /// that, else from memory. `Corrupt` without a remedy where the service takes no form in this upload: another has to be
    /// begun.
    pub fn put_part(&self, key: &[u8], upload: &str, number: u32, size: u64, from: &mut dyn Read, begun: Algorithm) -> Result<Part> {
        let call =
            || self.options.reading(self.call("write", Method::PUT, key)).ask("partNumber", number.to_string()).ask("uploadId", upload);
        let (modes, etags) = (&self.client.modes, !self.options.no_check_etag);
        let done = |answer: &Answer, checksum| Part { number, etag: answer.header("etag").unwrap_or_default().to_string(), checksum };
        let mode = modes.of_upload(begun);
        if mode.trailing {
            let call = call()
                .with("content-encoding", "aws-chunked")
                .with("x-amz-decoded-content-length", size.to_string())
                .with("x-amz-trailer", mode.algorithm.header());
            let mut framed = Framed::new(from, size, mode.algorithm, !modes.is_known());
            let length = Framed::length(size, mode.algorithm);
            let answer = self.client.send(&call, Body::Stream(&mut framed, length, Payload::StreamingUnsignedTrailer))?;
            let unsent = || Error::new(ErrorKind::Broken, "write").because("the service answered before it had received the whole part");
            let sent = framed.value().ok_or_else(unsent)?;
            return match modes.accepted(&answer, mode, sent, || framed.md5(), etags) {
                Ok(()) => Ok(done(&answer, Some(sent))),
                // The reader is spent: the next try is in another form.
                Err(e) if is_unverified(&e) && modes.deny(mode) => Err(e.remedy_is(Remedy::Again)),
                Err(e) => Err(e),
            };
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let read = from.take(size).read_to_end(&mut bytes).map_err(|e| Error::from_io(e, "read"))?;
        if (read as u64) < size {
            return Err(Error::new(ErrorKind::Changed, "write").because("the source is shorter than announced"));
        }
        // A service that wants the checksum of the upload in each part gets it, also if it never returns it.
        let mut with_begun = true;
        loop {
            let mode = modes.of_upload(begun);
            let sent = mode.algorithm.of(&bytes);
            let mut call = call().with(mode.algorithm.header(), sent.base64());
            let also = (mode.algorithm != begun && with_begun).then(|| begun.of(&bytes));
            if let Some(value) = also {
                call = call.with(begun.header(), value.base64());
            }
            let answered = self.client.send(&call, Body::Bytes(&bytes));
            let accepted = answered.and_then(|answer| {
                modes.accepted(&answer, mode, sent, || Some(Algorithm::Md5.of(&bytes)), etags)?;
                Ok(done(&answer, also.or(Some(sent)).filter(|sent| sent.algorithm() == begun)))
            });
            match accepted {
                Err(e) if is_unverified(&e) && also.is_some() => with_begun = false,
                Err(e) if is_unverified(&e) && modes.deny(mode) => {}
                Err(e) if mode.algorithm != begun && matches!(e.kind(), ErrorKind::Other | ErrorKind::Unsupported) => {
                    return Err(e.kind_is(ErrorKind::Corrupt).remedy_is(Remedy::None));
                }
                other => return other,
            }
        }
    }

    /// Completes an upload. `Corrupt` if the service's answer shows another object.
    pub fn complete(&self, key: &[u8], upload: &str, parts: &[Part], expected: Expected<'_>) -> Result<Put> {
        let mut call = self.options.reading(self.call("commit", Method::POST, key)).ask("uploadId", upload);
        if let Some(value) = expected.whole.first().filter(|_| expected.sent) {
            call = call.with(value.algorithm().header(), value.base64()).with("x-amz-checksum-type", "FULL_OBJECT");
        }
        // MD5 is no checksum of a part: its ETag is one already.
        let sums = parts.iter().map(|part| part.checksum.filter(|value| value.algorithm() != Algorithm::Md5));
        let sums: Vec<Option<(Algorithm, String)>> = sums.map(|sum| sum.map(|value| (value.algorithm(), value.base64()))).collect();
        let named = parts.iter().zip(&sums).map(|(part, sum)| xml::CompletePart {
            number: part.number,
            etag: &part.etag,
            checksum: sum.as_ref().map(|(algorithm, value)| (*algorithm, value.as_str())),
        });
        let body = xml::complete_upload(named);
        let call = call.with("content-type", "application/xml").slow();
        let answer = self.client.send(&call, Body::Bytes(body.as_bytes()))?;
        let until = date(&answer);
        let answer = answer.whole("commit")?;
        // The status is sent before the work is done: the document may hold a failure.
        let completed = xml::completed(&answer).map_err(|e| fault::document("commit", &self.name, e))?;
        match agrees(&completed, parts, expected.whole) {
            // A service that returned no checksum of a part may yet claim one of the whole.
            Some(true) if self.client.modes.is_known() || expected.whole.is_empty() => {}
            Some(false) => {
                return Err(Error::new(ErrorKind::Corrupt, "commit").because("the assembled object differs from what was sent"));
            }
            Some(true) | None => self.look_at(key, &completed.etag, expected)?,
        }
        Ok(Put { etag: completed.etag, since: None, until })
    }

    /// What can be known of an object that was just made: how long it is, and whether its checksum is that of what was sent. Who
    /// may only write cannot know it, and what somebody else has written meanwhile is theirs.
    fn look_at(&self, key: &[u8], etag: &str, expected: Expected<'_>) -> Result<()> {
        let wrong = |words: String| Err(Error::new(ErrorKind::Corrupt, "commit").because(words));
        match self.head(key) {
            Ok(Some(head)) if checksum::version(&head.etag) == checksum::version(etag) => {
                if head.size != expected.size {
                    return wrong(format!("the assembled object has {} bytes instead of {}", head.size, expected.size));
                }
                let claims = |value: &&Value| {
                    let whole =
                        |stored: &&StoredChecksum| !stored.etag && stored.kind == Kind::Whole && stored.algorithm() == value.algorithm();
                    head.checksums.stored.iter().find(whole).is_some_and(|stored| stored.value != **value)
                };
                let Some(value) = expected.whole.iter().find(claims) else { return Ok(()) };
                // Whoever reads the object would take it for damaged: the next try asks for no such checksum.
                self.client.modes.deny_algorithm(value.algorithm());
                wrong(format!("the object's {} differs from that of what was sent", value.algorithm().word()))
            }
            Ok(None) => wrong("the service did not assemble the parts".into()),
            Err(e) if !matches!(e.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => Err(e),
            _ => Ok(()),
        }
    }

    /// No error if there is no such upload.
    pub fn abort(&self, key: &[u8], upload: &str) -> Result<()> {
        let call = self.call("abandon", Method::DELETE, key).ask("uploadId", upload);
        match self.client.send(&call, Body::None) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// The ETags of the parts that an upload has, as [`checksum::version`]s by their numbers; `None` if there is no such upload.
    pub fn parts_of(&self, key: &[u8], upload: &str) -> Result<Option<HashMap<u32, u64>>> {
        let mut parts = HashMap::new();
        let each = &mut |part: xml::Part| {
            parts.insert(part.number, checksum::version(&part.etag));
        };
        match self.each_part(key, upload, each) {
            Ok(()) => Ok(Some(parts)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// One page of a listing: at most 1,000 keys below `prefix`, behind `token`.
    pub fn page(&self, prefix: &[u8], delimiter: bool, token: Option<&str>, after: &[u8], most: u32) -> Result<Vec<u8>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut call = self.call("list", Method::GET, b"").ask("list-type", "2").ask("encoding-type", "url").ask("prefix", text(prefix));
        if delimiter {
            call = call.ask("delimiter", "/");
        }
        if most < 1000 {
            call = call.ask("max-keys", most.to_string());
        }
        if let Some(token) = token {
            call = call.ask("continuation-token", token);
        }
        if !after.is_empty() {
            call = call.ask("start-after", text(after));
        }
        self.client.send(&call, Body::None)?.whole("list")
    }

    /// Whether there is any key that begins so.
    pub fn any_below(&self, prefix: &[u8]) -> Result<bool> {
        let page = self.page(prefix, false, None, b"", 1)?;
        xml::list_objects(&page).map(|(lines, _)| !lines.is_empty()).map_err(|e| fault::document("list", &self.name, e))
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
        call = self.options.of_source(call).with("x-amz-copy-source", copy_source(from.0, from.1, ""));
        call = call.with("x-amz-metadata-directive", if anew { "REPLACE" } else { "COPY" });
        if self.options.tagging.is_some() {
            call = call.with("x-amz-tagging-directive", "REPLACE");
        }
        call = call.with("x-amz-copy-source-if-match", &like.head.etag);
        let answer = self.client.send(&call.slow(), Body::None)?.whole("copy")?;
        xml::copied(&answer).map(|_| ()).map_err(|e| fault::document("copy", &self.name, e))
    }

    /// Begins an upload whose parts are to be copied. No checksum is asked for: services that do not compute one of their own
    /// accord take only such parts as come with one.
    pub fn begin_copy(&self, to: &[u8], like: &CopyTemplate<'_>, tags: Option<&str>) -> Result<String> {
        like.check("copy")?;
        let mut call = self.options.copying(self.call("copy", Method::POST, to), like, true).ask("uploads", "");
        if let (Some(tags), None) = (tags, &self.options.tagging) {
            call = call.with("x-amz-tagging", tags);
        }
        let answer = self.client.send(&call, Body::None)?.whole("copy")?;
        xml::initiated(&answer).map_err(|e| fault::document("copy", &self.name, e))
    }

    /// The object's tags as a header has them: `a=b&c=d`, escaped.
    pub fn tags(&self, key: &[u8]) -> Result<String> {
        let answer = self.client.send(&self.call("copy", Method::GET, key).ask("tagging", ""), Body::None)?.whole("copy")?;
        xml::tags(&answer).map(|tags| address::tagging(&tags)).map_err(|e| fault::document("copy", &self.name, e))
    }

    /// A part of an upload from a range of another object at the same endpoint.
    pub fn copy_part(&self, from: (&str, &[u8]), etag: &str, at: Range<u64>, key: &[u8], upload: &str, number: u32) -> Result<Part> {
        let call = self.options.of_source(self.options.reading(self.call("copy", Method::PUT, key)));
        let call = call
            .ask("partNumber", number.to_string())
            .ask("uploadId", upload)
            .with("x-amz-copy-source", copy_source(from.0, from.1, ""))
            .with("x-amz-copy-source-range", format!("bytes={}-{}", at.start, at.end - 1))
            .with("x-amz-copy-source-if-match", etag)
            .slow();
        let answer = self.client.send(&call, Body::None)?.whole("copy")?;
        let copied = xml::copied(&answer).map_err(|e| fault::document("copy", &self.name, e))?;
        Ok(Part { number, etag: copied.etag, checksum: None })
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

/// Whether the upload that was begun gets a checksum of the whole object. A service that does not know of that passes over the
/// wish for it, and makes a checksum of the parts' checksums. CRC64NVME there is of the whole alone.
fn keeps_whole(answer: &Answer, algorithm: Algorithm) -> bool {
    let said = answer.header("x-amz-checksum-algorithm").is_some_and(|word| word.eq_ignore_ascii_case(algorithm.word()));
    match answer.header("x-amz-checksum-type") {
        Some(kind) => said && kind.eq_ignore_ascii_case("FULL_OBJECT"),
        None => said && algorithm == Algorithm::Crc64Nvme,
    }
}

/// Whether what the service says of the object is what was sent, as far as the two can be compared. An ETag that differs convicts
/// nobody: what is encrypted has one that is no MD5 of anything.
fn agrees(completed: &xml::Made, parts: &[Part], whole: &[Value]) -> Option<bool> {
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    let mut verdict = None;
    for (algorithm, text) in &completed.checksums {
        let Some(said) = StoredChecksum::parse(*algorithm, text, &completed.checksum_type) else { continue };
        let of_whole = whole.iter().find(|value| value.algorithm() == *algorithm).copied();
        let of_parts = || {
            let values = parts.iter().map(|part| part.checksum.filter(|value| value.algorithm() == *algorithm));
            values.collect::<Option<Vec<Value>>>().and_then(checksum::composite).map(|(value, _)| value)
        };
        // Where neither the type nor the number of parts is said it may be either.
        let unsaid = completed.checksum_type.is_empty() && said.kind == Kind::Whole;
        let (first, second) = match said.kind {
            Kind::Whole => (of_whole, if unsaid { of_parts() } else { None }),
            Kind::Composite(parts) if parts != 0 && parts != count => return Some(false),
            Kind::Composite(_) => (of_parts(), None),
        };
        let known: Vec<Value> = first.into_iter().chain(second).collect();
        if known.contains(&said.value) {
            verdict = Some(true);
        } else if !known.is_empty() && (!unsaid || known.len() == 2) {
            return Some(false);
        }
    }
    let md5s = parts.iter().map(|part| match ETag::parse(&part.etag) {
        ETag::Md5(md5) => Value::parse(Algorithm::Md5, &md5),
        _ => None,
    });
    let same_etag = || match (ETag::parse(&completed.etag), md5s.collect::<Option<Vec<Value>>>().and_then(checksum::composite)) {
        (ETag::Multipart { md5, parts }, Some((value, count))) => md5[..] == *value.as_bytes() && parts == count,
        _ => false,
    };
    verdict.or_else(|| same_etag().then_some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(algorithm: Algorithm) -> Vec<Part> {
        let part = |(number, bytes): (u32, &[u8])| {
            let md5 = haul_core::hash::hex(Algorithm::Md5.of(bytes).as_bytes());
            Part { number, etag: format!("\"{md5}\""), checksum: Some(algorithm.of(bytes)) }
        };
        [(1, &b"one"[..]), (2, b"two")].into_iter().map(part).collect()
    }

    fn said(checksums: Vec<(Algorithm, String)>, checksum_type: &str, etag: &str) -> xml::Made {
        xml::Made { etag: etag.into(), checksums, checksum_type: checksum_type.into() }
    }

    #[test]
    fn what_the_service_made_is_compared_with_what_was_sent() {
        let algorithm = Algorithm::Crc32c;
        let (parts, whole) = (parts(algorithm), algorithm.of(b"onetwo"));
        let (composite, _) = checksum::composite(parts.iter().filter_map(|part| part.checksum)).expect("two parts");
        let md5s = parts.iter().filter_map(|part| match ETag::parse(&part.etag) {
            ETag::Md5(md5) => Value::parse(Algorithm::Md5, &md5),
            _ => None,
        });
        let (md5, _) = checksum::composite(md5s).expect("two parts");
        let etag = format!("\"{}-2\"", haul_core::hash::hex(md5.as_bytes()));
        let one = |text: String| vec![(algorithm, text)];
        let other = algorithm.of(b"onetwO").base64();
        for (checksums, kind, etag, verdict) in [
            (one(whole.base64()), "FULL_OBJECT", "\"x\"", Some(true)),
            (one(whole.base64()), "", "\"x\"", Some(true)),
            (one(format!("{}-2", composite.base64())), "COMPOSITE", "\"x\"", Some(true)),
            (one(composite.base64()), "", "\"x\"", Some(true)),
            (one(format!("{}-3", composite.base64())), "COMPOSITE", "\"x\"", Some(false)),
            (one(other.clone()), "FULL_OBJECT", &etag, Some(false)),
            (one(other.clone()), "", &etag, Some(false)),
            (one(format!("{other}-2")), "COMPOSITE", &etag, Some(false)),
            (vec![], "", &etag, Some(true)),
            // It may be encrypted.
            (vec![], "", "\"0123456789abcdef0123456789abcdef-2\"", None),
            (vec![(Algorithm::Crc32, "AAAAAA==".into())], "FULL_OBJECT", "\"x\"", None),
        ] {
            let completed = said(checksums, kind, etag);
            assert_eq!(agrees(&completed, &parts, &[whole]), verdict, "{completed:?}");
        }
    }
}
