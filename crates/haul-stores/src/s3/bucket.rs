//! The requests that the store makes of one bucket, one function each.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Result};
use http::Method;
use http::header::HeaderMap;

use super::address::copy_source;
use super::attributes::{self, Kept};
use super::checksum::{self, Algorithm, Proof, Value};
use super::client::{Answer, Body, Call, Client, Warrant};
use super::fault;
use super::framed::Framed;
use super::sign::Payload;
use super::wishes::{Pair, Wishes};
use super::xml;

/// A bucket, what its objects are to be written with, and who asks.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub client: Arc<Client>,
    pub name: String,
    pub wishes: Arc<Wishes>,
}

/// What HEAD and GET say of an object.
#[derive(Debug)]
pub struct Head {
    pub size: u64,
    /// As it was sent, quotes included: for `If-Match`.
    pub etag: String,
    pub modified: Time,
    /// The service's time of the answer.
    pub answered: Option<Time>,
    pub kept: Kept,
    pub proof: Proof,
    pub headers: HeaderMap,
}

/// An object that was written: its ETag, and the service's times before and after.
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
    answer.header("date").and_then(xml::time::http)
}

/// A part that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub number: u32,
    pub etag: String,
    pub checksum: Option<Value>,
}

impl Head {
    fn of(answer: &Answer) -> Head {
        let pairs = || answer.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let whole = answer.header("content-range").and_then(|range| range.rsplit('/').next()).and_then(|size| size.parse().ok());
        let size = whole.or_else(|| answer.header("content-length").and_then(|size| size.parse().ok())).unwrap_or(0);
        let modified = answer.header("last-modified").and_then(xml::time::http).unwrap_or_default();
        Head {
            size,
            etag: answer.header("etag").unwrap_or_default().to_string(),
            modified,
            answered: date(answer),
            kept: attributes::read(attributes::user_metadata(pairs())),
            proof: checksum::proof(pairs()),
            headers: answer.headers.clone(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The object's user metadata as they are.
    pub fn metadata(&self) -> Vec<Pair> {
        let pairs = self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        attributes::user_metadata(pairs).map(|(name, value)| (name.to_string().into(), value.to_string())).collect()
    }

    /// The same with other attributes.
    pub fn metadata_with(&self, written: Vec<Pair>) -> Vec<Pair> {
        let mut all = self.metadata();
        all.retain(|(name, _)| !attributes::NAMES.contains(&&**name));
        all.extend(written);
        all
    }
}

impl Bucket {
    pub fn call<'a>(&'a self, op: &'static str, method: Method, key: &'a [u8]) -> Call<'a> {
        let call = Call::new(op, method, &self.name, key);
        if self.wishes.request_payer { call.with("x-amz-request-payer", "requester") } else { call }
    }

    /// A request that reads an object, in the version that is wished for.
    fn looking<'a>(&'a self, op: &'static str, method: Method, key: &'a [u8]) -> Call<'a> {
        let call = self.wishes.reading(self.call(op, method, key));
        match &self.wishes.version {
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

    /// Size of the first part, for an object that was put together from several.
    pub fn first_part(&self, key: &[u8], etag: &str) -> Result<(u64, Option<u32>)> {
        let call = self.looking("stat", Method::HEAD, key).ask("partNumber", "1").with("if-match", etag);
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

    /// Puts a whole object whose bytes are in memory.
    pub fn put(&self, key: &[u8], bytes: &[u8], metadata: &[Pair]) -> Result<Put> {
        self.client.prove(|warrant| {
            let mut call = self.wishes.writing(self.call("write", Method::PUT, key), key, metadata);
            call = proven(call, warrant.algorithm, bytes);
            let answer = self.client.send(&call, Body::Bytes(bytes))?;
            self.client.confirmed(&answer, warrant)?;
            Ok(Put::of(&answer))
        })
    }

    /// Begins an upload in parts. Its checksum is that of the whole object, where the endpoint knows such.
    pub fn begin(&self, key: &[u8], metadata: &[Pair]) -> Result<(String, Warrant, Option<Time>)> {
        self.client.prove(|warrant| {
            let mut call = self.wishes.writing(self.call("create", Method::POST, key), key, metadata).ask("uploads", "");
            if warrant.algorithm.combines() {
                call = call.with("x-amz-checksum-algorithm", warrant.algorithm.word()).with("x-amz-checksum-type", "FULL_OBJECT");
            }
            let answer = self.client.send(&call, Body::None)?;
            let since = date(&answer);
            let body = answer.whole("create")?;
            let upload = xml::initiated(&body).map_err(|e| fault::document("create", &self.name, e))?;
            Ok((upload, warrant, since))
        })
    }

    /// Sends a part from a reader, its checksum behind it where the endpoint takes that, else from memory.
    pub fn put_part(&self, key: &[u8], upload: &str, number: u32, size: u64, from: &mut dyn Read, warrant: Warrant) -> Result<Part> {
        let call = self.wishes.reading(self.call("write", Method::PUT, key)).ask("partNumber", number.to_string()).ask("uploadId", upload);
        let done = |answer: Answer, value: Value| Part {
            number,
            etag: answer.header("etag").unwrap_or_default().to_string(),
            checksum: Some(value),
        };
        if !warrant.trailing {
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
            let read = from.take(size).read_to_end(&mut bytes).map_err(|e| Error::from_io(e, "read"))?;
            if (read as u64) < size {
                return Err(Error::new(ErrorKind::Changed, "write").because("the source ended before its time"));
            }
            let value = warrant.algorithm.of(&bytes);
            let call = proven(call, warrant.algorithm, &bytes);
            let answer = self.client.send(&call, Body::Bytes(&bytes))?;
            self.client.confirmed_part(&answer, warrant)?;
            return Ok(done(answer, value));
        }
        let call = call
            .with("content-encoding", "aws-chunked")
            .with("x-amz-decoded-content-length", size.to_string())
            .with("x-amz-trailer", warrant.algorithm.header());
        let mut framed = Framed::new(from, size, warrant.algorithm);
        let length = Framed::length(size, warrant.algorithm);
        let answer = self.client.send(&call, Body::Stream(&mut framed, length, Payload::StreamingUnsignedTrailer))?;
        self.client.confirmed_part(&answer, warrant)?;
        let unsent = || Error::new(ErrorKind::Broken, "write").because("the service answered before it had the whole part");
        let value = framed.value().ok_or_else(unsent)?;
        Ok(done(answer, value))
    }

    /// Puts the parts together. `whole` is the checksum of all of them, where the endpoint knows such.
    pub fn complete(&self, key: &[u8], upload: &str, parts: &[Part], whole: Option<Value>) -> Result<Put> {
        let mut call = self.wishes.reading(self.call("commit", Method::POST, key)).ask("uploadId", upload);
        if let Some(value) = whole {
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
        let call = call.with("content-type", "application/xml").patient();
        let answer = self.client.send(&call, Body::Bytes(body.as_bytes()))?;
        let until = date(&answer);
        let answer = answer.whole("commit")?;
        // The status is sent before the work is done: a failure may come in the document.
        let completed = xml::completed(&answer).map_err(|e| fault::document("commit", &self.name, e))?;
        Ok(Put { etag: completed.etag, since: None, until })
    }

    /// No error if there is no such upload.
    pub fn abort(&self, key: &[u8], upload: &str) -> Result<()> {
        let call = self.call("abandon", Method::DELETE, key).ask("uploadId", upload);
        match self.client.send(&call, Body::None) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Whether the upload is there.
    pub fn has_upload(&self, key: &[u8], upload: &str) -> Result<bool> {
        let call = self.call("attach", Method::GET, key).ask("uploadId", upload).ask("max-parts", "1");
        match self.client.send(&call, Body::None) {
            Ok(answer) => answer.whole("attach").map(|_| true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
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
        let mut any = false;
        xml::list_objects(&page, &mut |_| any = true).map_err(|e| fault::document("list", &self.name, e))?;
        Ok(any)
    }

    /// No error if there is no such object.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let call = self.call("remove", Method::DELETE, key);
        match self.client.send(&call, Body::None) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Removes up to 1,000 objects by one request; what failed, by key. `Unsupported` where one of the keys can be in no
    /// document, or the service does not know the request.
    pub fn delete_many(&self, keys: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, Error)>> {
        let keys: Vec<(Vec<u8>, String)> = keys.iter().map(|key| (key.clone(), String::new())).collect();
        Ok(self.remove_by_one_request(&keys)?.into_iter().map(|(key, _, e)| (key, e)).collect())
    }

    /// Copies within the endpoint, with metadata of its own. Up to 5 GiB.
    pub fn copy(&self, from: (&str, &[u8]), etag: Option<&str>, to: &[u8], metadata: &[Pair], like: &Head) -> Result<()> {
        let source = copy_source(from.0, from.1, "");
        let mut call = self.wishes.copying(self.call("copy", Method::PUT, to), metadata, like);
        call = call.with("x-amz-copy-source", source).with("x-amz-metadata-directive", "REPLACE");
        if let Some(etag) = etag {
            call = call.with("x-amz-copy-source-if-match", etag);
        }
        let answer = self.client.send(&call.patient(), Body::None)?.whole("copy")?;
        xml::copied(&answer).map(|_| ()).map_err(|e| fault::document("copy", &self.name, e))
    }

    /// A part of an upload from a range of another object at the same endpoint.
    pub fn copy_part(&self, from: (&str, &[u8]), etag: &str, at: Range<u64>, key: &[u8], upload: &str, number: u32) -> Result<Part> {
        let call = self
            .wishes
            .reading(self.call("copy", Method::PUT, key))
            .ask("partNumber", number.to_string())
            .ask("uploadId", upload)
            .with("x-amz-copy-source", copy_source(from.0, from.1, ""))
            .with("x-amz-copy-source-range", format!("bytes={}-{}", at.start, at.end - 1))
            .with("x-amz-copy-source-if-match", etag)
            .patient();
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

fn proven<'a>(call: Call<'a>, algorithm: Algorithm, bytes: &[u8]) -> Call<'a> {
    call.with(algorithm.header(), algorithm.of(bytes).base64())
}
