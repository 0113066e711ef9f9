//! Uploads in parts: begun, sent part by part or copied, completed, abandoned.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use http::Method;

use super::address::copy_source;
use super::bucket::{Bucket, Put, date};
use super::call::{Answer, Body};
use super::checksum::{self, Algorithm, ETag, Kind, StoredChecksum, Value};
use super::checksum_modes::{is_unverified, unstored};
use super::fault;
use super::framed::Framed;
use super::put_options::{CopyTemplate, Pair};
use super::sign::Payload;
use super::xml;

#[derive(Clone, Debug)]
pub struct Upload {
    pub id: String,
    pub algorithm: Algorithm,
    /// The service keeps the checksum of the whole object, not a composite one.
    pub whole: bool,
    pub since: Option<Time>,
}

/// The object that parts are assembled to.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub size: u64,
    pub whole: &'a [Value],
    /// Send the first of them to the service, which then rejects anything else: only for an [`Upload::whole`].
    pub sent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub number: u32,
    pub etag: String,
    pub checksum: Option<Value>,
}

impl Bucket {
    /// Begins an upload in parts. Its checksum is that of the whole object, where the endpoint says so.
    pub fn begin(&self, key: &[u8], metadata: &[Pair]) -> Result<Upload> {
        match self.options.checksum {
            Some(algorithm) => self.begin_with(key, metadata, algorithm).map_err(|e| unstored(e, algorithm)),
            None => self.client.modes.negotiate(|mode| self.begin_with(key, metadata, mode.algorithm)),
        }
    }

    fn begin_with(&self, key: &[u8], metadata: &[Pair], algorithm: Algorithm) -> Result<Upload> {
        let mut call = self.options.writing(self.call("create", Method::POST, key), key, metadata).ask("uploads", "");
        if algorithm != Algorithm::Md5 {
            call = call.with("x-amz-checksum-algorithm", algorithm.word());
        }
        if algorithm.combines() {
            call = call.with("x-amz-checksum-type", "FULL_OBJECT");
        }
        let answer = self.client.send(&call, Body::None)?;
        let (since, whole) = (date(&answer), keeps_whole(&answer, algorithm));
        let body = answer.whole("create")?;
        let id = xml::initiated(&body).map_err(|e| fault::document("create", &self.name, e))?;
        Ok(Upload { id, algorithm, whole, since })
    }

    /// Sends a part, of an upload that was begun with `begun`, from a reader: its checksum behind it where the endpoint takes
    /// that, else from memory. `Corrupt` without a remedy where the service takes no form in this upload: another has to be
    /// begun.
    pub fn put_part(&self, key: &[u8], upload: &str, number: u32, size: u64, from: &mut dyn Read, begun: Algorithm) -> Result<Part> {
        let call =
            || self.options.reading(self.call("write", Method::PUT, key)).ask("partNumber", number.to_string()).ask("uploadId", upload);
        let (modes, etags) = (&self.client.modes, !self.options.no_check_etag);
        let done = |answer: &Answer, checksum| Part { number, etag: answer.header("etag").unwrap_or_default().to_string(), checksum };
        let named = self.options.checksum.filter(|named| *named == begun);
        let mode = modes.of_upload(begun);
        if mode.trailing && named.is_none() {
            let call = call()
                .with("content-encoding", "aws-chunked")
                .with("x-amz-decoded-content-length", size.to_string())
                .with("x-amz-trailer", mode.algorithm.header());
            let mut framed = Framed::new(from, size, mode.algorithm, !modes.is_known());
            let length = Framed::length(size, mode.algorithm);
            let answer = self.client.send(&call, Body::Stream(&mut framed, length, Payload::StreamingUnsignedTrailer))?;
            let unsent = || Error::new(ErrorKind::Broken, "write").because("the service answered before it had received the whole part");
            let sent = framed.value().ok_or_else(unsent)?;
            answer.named("write")?;
            return match modes.accepted(&answer, mode, sent, || framed.md5(), etags) {
                Ok(()) => Ok(done(&answer, Some(sent))),
                // The reader is spent: the next try is in another form.
                Err(e) if is_unverified(&e) && modes.deny(mode) => Err(e.remedy_is(Remedy::Again)),
                Err(e) => Err(e),
            };
        }
        let _reserved = self.client.held.part(upload, number, size);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let read = from.take(size).read_to_end(&mut bytes).map_err(|e| Error::from_io(e, "read"))?;
        if (read as u64) < size {
            return Err(Error::new(ErrorKind::Changed, "write").because("the source is shorter than announced"));
        }
        if named.is_some() {
            let sent = begun.of(&bytes);
            let call = call().with(begun.header(), sent.base64()).with("x-amz-sdk-checksum-algorithm", begun.word());
            let answer = self.client.send(&call, Body::Bytes(&bytes)).map_err(|e| unstored(e, begun))?;
            answer.named("write")?;
            modes.stored(&answer, sent)?;
            return Ok(done(&answer, Some(sent)));
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
                answer.named("write")?;
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
                // A reader would take the object for damaged: the next try asks for no such checksum.
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

    /// A part of an upload from a range of another object at the same endpoint.
    pub fn copy_part(
        &self,
        from: (&str, &[u8]),
        like: &CopyTemplate<'_>,
        at: Range<u64>,
        key: &[u8],
        upload: &str,
        number: u32,
    ) -> Result<Part> {
        let call = self.options.of_source(self.options.reading(self.call("copy", Method::PUT, key)));
        let call = call
            .ask("partNumber", number.to_string())
            .ask("uploadId", upload)
            .with("x-amz-copy-source", copy_source(from.0, from.1, like.version.unwrap_or_default()))
            .with("x-amz-copy-source-range", format!("bytes={}-{}", at.start, at.end - 1))
            .with("x-amz-copy-source-if-match", &like.head.etag)
            .slow();
        let answer = self.client.send(&call, Body::None)?.whole("copy")?;
        let copied = xml::copied(&answer).map_err(|e| fault::document("copy", &self.name, e))?;
        // The parts of an upload with a checksum are named with theirs.
        let of = |algorithm| copied.checksums.iter().find(|(known, _)| *known == algorithm);
        let checksum = self.options.checksum.and_then(of).and_then(|(algorithm, text)| Value::parse_base64(*algorithm, text));
        Ok(Part { number, etag: copied.etag, checksum })
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

/// Whether what the service says of the object is what was sent, as far as the two can be compared. An ETag that differs proves
/// nothing: that of an encrypted object is no MD5.
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
    verdict.or_else(|| is_of_parts(ETag::parse(&completed.etag), parts).then_some(true))
}

/// Whether an ETag is the composite MD5 of these parts.
pub(super) fn is_of_parts(etag: ETag, parts: &[Part]) -> bool {
    let md5s = parts.iter().map(|part| match ETag::parse(&part.etag) {
        ETag::Md5(md5) => Value::parse(Algorithm::Md5, &md5),
        _ => None,
    });
    match (etag, md5s.collect::<Option<Vec<Value>>>().and_then(checksum::composite)) {
        (ETag::Multipart { md5, parts }, Some((value, count))) => md5[..] == *value.as_bytes() && parts == count,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
