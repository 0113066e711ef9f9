//! Requests about buckets and their listings: keys, versions, unfinished uploads.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use haul_core::entry::Time;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::store::Flow;
use http::Method;

use super::account::DEFAULT_REGION;
use super::call::{Body, Call};
use super::client::Client;
use super::fault::{self, Refusal};
use super::xml;
use super::{Bucket, address};
use haul_net::http_client::parallel::in_parallel;

/// Keys that one request removes (Amazon S3, DeleteObjects).
pub const REMOVED_AT_ONCE: usize = 1000;
/// So few by one request are not divided any further where the service takes too long.
const REMOVED_LEAST: usize = 10;
/// Concurrent requests of one batch where each removes one key.
const AT_ONCE: usize = 8;

/// An object as a listing has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    pub key: Vec<u8>,
    pub size: u64,
    pub etag: String,
    pub modified: Option<Time>,
    /// `STANDARD`, `GLACIER`...; empty if it is not said.
    pub class: Cow<'static, str>,
    /// What its metadata say of the file, where the listing has them, as the cache keeps it.
    pub details: Option<Box<[u8]>>,
}

/// A storage class, without memory of its own for the one that most objects have.
pub(super) fn class_of(class: Cow<'_, str>) -> Cow<'static, str> {
    match &*class {
        "" => Cow::Borrowed(""),
        "STANDARD" => Cow::Borrowed("STANDARD"),
        _ => Cow::Owned(class.into_owned()),
    }
}

/// What a listing by the delimiter yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Object(Object),
    /// All keys that begin so; it ends in a slash.
    Prefix(Vec<u8>),
}

impl Line {
    pub fn object(self) -> Option<Object> {
        match self {
            Line::Object(object) => Some(object),
            Line::Prefix(_) => None,
        }
    }

    pub fn key(&self) -> &[u8] {
        match self {
            Line::Object(object) => &object.key,
            Line::Prefix(prefix) => prefix,
        }
    }
}

/// A version of an object, or the mark of its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub object: Object,
    /// `null` for an object from before versions were kept.
    pub id: String,
    pub latest: bool,
    /// A mark of deletion, which has no size.
    pub deleted: bool,
}

/// An upload that was begun and neither completed nor abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub key: Vec<u8>,
    pub id: String,
    pub initiated: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
}

type Reader<T> = fn(&[u8]) -> Result<(Vec<T>, xml::Page), xml::Fault>;

/// A key, and a version of it or an empty text, that could not be removed.
pub type Unremoved = (Vec<u8>, String, Error);

impl Client {
    /// The buckets of the account, by name.
    pub fn buckets(&self) -> Result<Vec<xml::Bucket>> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let mut call = Call::new("list", Method::GET, "", b"");
            if let Some(token) = &token {
                call = call.ask("continuation-token", token.as_str());
            }
            let answer = self.send(&call, Body::None)?.whole("list")?;
            let (mut page, next) = xml::list_buckets(&answer).map_err(|e| fault::document("list", "", e))?;
            let empty = page.is_empty();
            all.append(&mut page);
            if next.is_none() || next == token || empty {
                break;
            }
            token = next;
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Makes a bucket, in the region that the account names. `BadName` for a name that no bucket can have, `Exists` for one
    /// that is taken.
    pub fn make_bucket(&self, name: &str) -> Result<()> {
        address::check_new_bucket(name).map_err(|reason| Error::new(ErrorKind::BadName, "make bucket").because(reason))?;
        let call = Call::new("make bucket", Method::PUT, name, b"");
        let made = match xml::create_bucket(self.account().region().unwrap_or(DEFAULT_REGION)) {
            Some(body) => self.send(&call.with("content-type", "application/xml"), Body::Bytes(body.as_bytes())),
            None => self.send(&call, Body::None),
        };
        made.map(|_| ())
    }
}

impl Bucket {
    /// Removes the bucket. `Exists` while there is something in it.
    pub fn remove_bucket(&self) -> Result<()> {
        lock(&self.client.known_buckets).remove(&self.name);
        self.client.send(&self.call("remove bucket", Method::DELETE, b""), Body::None).map(|_| ())
    }

    pub fn location(&self) -> Result<String> {
        let answer = self.client.send(&self.call("stat", Method::GET, b"").ask("location", ""), Body::None)?.whole("stat")?;
        xml::location(&answer).map_err(|e| fault::document("stat", &self.name, e))
    }

    /// Pages of at most 1,000 objects whose key begins with `prefix`, in the order of keys. With `delimiter` those behind the
    /// next slash are one line; without, a large prefix is read in ranges side by side. No look at any object.
    pub fn lines(&self, prefix: &[u8], delimiter: bool, each: &mut dyn FnMut(Vec<Line>) -> Flow) -> Result<()> {
        if !delimiter {
            return self.each_below(prefix, each);
        }
        let fetch = |token: Option<&String>| {
            let more = [("delimiter", "/"), ("continuation-token", token.map_or("", String::as_str))];
            let (lines, page) = self.read_lines(&self.page(prefix, 1000, &more[..1 + usize::from(token.is_some())])?.0)?;
            if page.truncated && page.token.is_none() {
                return Err(Error::new(ErrorKind::Other, "list").because("the listing is truncated and has no continuation token"));
            }
            Ok((lines, page.token.filter(|_| page.truncated)))
        };
        pages(fetch, &mut |mut lines: Vec<Line>| {
            // A caller might remove keys outside of the prefix.
            lines.retain(|line| line.key().starts_with(prefix) && (matches!(line, Line::Object(_)) || line.key().ends_with(b"/")));
            each(lines)
        })
    }

    /// The first object whose key begins with `prefix`.
    pub fn first(&self, prefix: &[u8]) -> Result<Option<Object>> {
        let (lines, _) = self.read_lines(&self.page(prefix, 1, &[])?.0)?;
        Ok(lines.into_iter().find_map(|line| match line {
            Line::Object(object) => Some(object).filter(|object| object.key.starts_with(prefix)),
            Line::Prefix(_) => None,
        }))
    }

    pub(super) fn read_lines(&self, body: &[u8]) -> Result<(Vec<Line>, xml::Page)> {
        let (mut lines, page) = xml::list_objects(body).map_err(|e| fault::document("list", &self.name, e))?;
        // Objects and prefixes come in two lists, each in order.
        lines.sort_by(|a, b| a.key().cmp(b.key()));
        Ok((lines, page))
    }

    /// Pages of versions and marks of deletion whose key begins with `prefix`: by key, the latest first.
    pub fn versions(&self, prefix: &[u8], each: &mut dyn FnMut(Vec<Version>) -> Flow) -> Result<()> {
        self.below_marker("versions", "version-id-marker", xml::list_versions, prefix, &mut |mut versions| {
            versions.retain(|version| version.object.key.starts_with(prefix));
            // Versions and marks of deletion may come in two lists.
            versions.sort_by(|a, b| {
                let newest = |v: &Version| std::cmp::Reverse((v.latest, v.object.modified));
                (&a.object.key, newest(a)).cmp(&(&b.object.key, newest(b)))
            });
            each(versions)
        })
    }

    /// Pages of uploads that were begun and neither completed nor abandoned, whose key begins with `prefix`.
    pub fn uploads(&self, prefix: &[u8], each: &mut dyn FnMut(Vec<Upload>) -> Flow) -> Result<()> {
        let any = Cell::new(false);
        let mut below = |asked: &[u8]| {
            self.below_marker("uploads", "upload-id-marker", xml::list_uploads, asked, &mut |mut uploads| {
                uploads.retain(|upload| upload.key.starts_with(prefix));
                any.set(any.get() || !uploads.is_empty());
                each(uploads)
            })
        };
        // MinIO takes a prefix for a whole key: where one finds nothing, the bucket's uploads are listed.
        if !prefix.is_empty() && !self.client.is_minio() {
            below(prefix)?;
        }
        if any.get() { Ok(()) } else { below(b"") }
    }

    fn below_marker<T: Send>(
        &self,
        what: &'static str,
        id_marker: &'static str,
        read: Reader<T>,
        prefix: &[u8],
        each: &mut dyn FnMut(Vec<T>) -> Flow,
    ) -> Result<()> {
        let fetch = |marker: Option<&(Vec<u8>, Option<String>)>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let mut call = self.call("list", Method::GET, b"").ask(what, "").ask("encoding-type", "url").ask("prefix", text(prefix));
            if let Some((key, id)) = marker {
                call = call.ask("key-marker", text(key));
                if let Some(id) = id {
                    call = call.ask(id_marker, id.as_str());
                }
            }
            let body = match self.client.send(&call, Body::None) {
                // A bucket without uploads at rclone.
                Err(e) if marker.is_none() && e.reason() == fault::NO_UPLOAD => return Ok((Vec::new(), None)),
                answer => answer?.whole("list")?,
            };
            let (found, page) = read(&body).map_err(|e| fault::document("list", &self.name, e))?;
            Ok((found, page.marker.filter(|_| page.truncated).map(|key| (key, page.token))))
        };
        pages(fetch, each)
    }

    /// Parts of an unfinished upload that have landed, and their bytes.
    pub fn landed_parts(&self, key: &[u8], upload: &str) -> Result<(u64, u64)> {
        let (mut count, mut bytes) = (0, 0u64);
        self.each_part(key, upload, &mut |part| {
            count += 1;
            bytes = bytes.saturating_add(part.size);
        })?;
        Ok((count, bytes))
    }

    /// Lists the parts of an unfinished upload, in the order of their numbers.
    pub fn each_part(&self, key: &[u8], upload: &str, each: &mut dyn FnMut(xml::Part)) -> Result<()> {
        let fetch = |marker: Option<&u32>| {
            let mut call = self.call("list", Method::GET, key).ask("uploadId", upload);
            if let Some(marker) = marker {
                call = call.ask("part-number-marker", marker.to_string());
            }
            let body = self.client.send(&call, Body::None)?.whole("list")?;
            xml::list_parts(&body).map_err(|e| fault::document("list", &self.name, e))
        };
        pages(fetch, &mut |parts: Vec<xml::Part>| {
            parts.into_iter().for_each(&mut *each);
            Flow::Go
        })
    }

    /// Removes an object; a version of it for good, if one is named. No error if there is none.
    pub fn remove_key(&self, key: &[u8], version: &str) -> Result<()> {
        let mut call = self.call("remove", Method::DELETE, key);
        if !version.is_empty() {
            call = call.ask("versionId", version);
        }
        match self.client.send(&call, Body::None) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Removes up to 1,000 objects or versions by one request. `Unsupported` where one of the keys can be in no document, or
    /// the service does not know the request.
    fn remove_by_one_request(&self, keys: &[(Vec<u8>, String)]) -> Result<Vec<Unremoved>> {
        let named = keys.iter().map(|(key, version)| (&key[..], version.as_str()));
        let body = xml::delete_objects(named, true).map_err(|_| Error::new(ErrorKind::Unsupported, "remove"))?;
        let call = self.call("remove", Method::POST, b"").ask("delete", "").divisible();
        let answer = self.send_document(call, &body)?.whole("remove")?;
        let refused = xml::deleted(&answer).map_err(|e| fault::document("remove", &self.name, e))?;
        let failed = |refused: xml::Refusal| {
            let refusal = Refusal { status: 200, code: refused.code, message: refused.message, ..Refusal::default() };
            (refused.key.into_bytes(), refused.version, refusal.error("remove", &self.name))
        };
        Ok(refused.into_iter().map(failed).collect())
    }

    /// Removes objects or versions, 1,000 by a request where the service can do that, and fewer from then on where it took too long;
    /// answers with what is still there.
    pub fn remove_keys(&self, keys: &[(Vec<u8>, String)]) -> Vec<Unremoved> {
        let (mut failed, mut rest) = (Vec::new(), keys);
        while !rest.is_empty() {
            let at_once = self.client.removed_at_once.load(Ordering::Relaxed).min(REMOVED_AT_ONCE);
            let batch = &rest[..at_once.min(rest.len())];
            rest = &rest[batch.len()..];
            let one_by_one = || {
                let one =
                    |(key, version): &(Vec<u8>, String)| self.remove_key(key, version).err().map(|e| (key.clone(), version.clone(), e));
                in_parallel(&self.client.threads, batch, AT_ONCE, one).into_iter().flatten().collect::<Vec<_>>()
            };
            failed.extend(match batch {
                [_] => one_by_one(),
                _ => match self.remove_by_one_request(batch) {
                    Ok(failed) => failed,
                    Err(e) if e.kind() == ErrorKind::Unsupported => one_by_one(),
                    Err(e) if e.kind() == ErrorKind::TimedOut && batch.len() > REMOVED_LEAST => {
                        let next = (batch.len() / 10).max(REMOVED_LEAST);
                        self.client.removed_at_once.fetch_min(next, Ordering::Relaxed);
                        // What it has removed meanwhile is no error.
                        rest = &keys[keys.len() - rest.len() - batch.len()..];
                        continue;
                    }
                    // Nor would the others be in time.
                    Err(e) if e.kind() == ErrorKind::TimedOut => {
                        let left = &keys[keys.len() - rest.len() - batch.len()..];
                        rest = &[];
                        left.iter().map(|(key, version)| (key.clone(), version.clone(), e.again())).collect()
                    }
                    Err(e) => batch.iter().map(|(key, version)| (key.clone(), version.clone(), e.again())).collect(),
                },
            });
        }
        failed
    }

    /// A presigned URL, valid for one second to seven days. Sends nothing, but for the region of an Amazon bucket where no region was
    /// named.
    pub fn presign(&self, purpose: Purpose, key: &[u8], expires: Duration) -> Result<String> {
        let method = match purpose {
            Purpose::Read => Method::GET,
            Purpose::Write => Method::PUT,
        };
        let account = self.client.account();
        if self.client.is_amazon() && account.region().is_none() {
            // What is learned is the region; whether the bucket may be looked at is another matter.
            let _ = self.exists();
        }
        if self.options.needs_headers() {
            let e =
                Error::new(ErrorKind::Usage, "presign").because("a presigned URL has no headers, and these options of objects are headers");
            return Err(e.hint("leave out class, encryption, key, ACL, checksum, metadata, content headers and tags"));
        }
        let none = || Error::new(ErrorKind::Usage, "presign").because("there are no credentials to sign it with");
        let credential = account.credential().map_err(|e| e.kind_is(ErrorKind::Broken))?.ok_or_else(none)?;
        let mut call = Call::new("presign", method, &self.name, key);
        if let Some(version) = &self.options.version {
            call = call.ask("versionId", version.as_str());
        }
        if self.options.request_payer {
            call = call.ask("x-amz-request-payer", "requester");
        }
        let (uri, signer) = self.client.place_of(&call)?;
        signer.presign(&call.method, &uri, &credential, SystemTime::now(), expires)
    }
}

/// Goes through pages, the next one requested while one is processed.
fn pages<T: Send, M: Send + Sync + Clone + PartialEq>(
    fetch: impl Fn(Option<&M>) -> Result<(T, Option<M>)> + Send + Sync,
    each: &mut dyn FnMut(T) -> Flow,
) -> Result<()> {
    let (first, next) = fetch(None)?;
    let Some(mut marker) = next else {
        each(first);
        return Ok(());
    };
    std::thread::scope(|scope| {
        let (give, take) = mpsc::sync_channel::<Result<T>>(1);
        let ahead = move || {
            loop {
                let (page, next) = match fetch(Some(&marker)) {
                    Ok((page, next)) => (Ok(page), next),
                    Err(e) => (Err(e), None),
                };
                if give.send(page).is_err() {
                    return;
                }
                match next {
                    Some(next) if next != marker => marker = next,
                    // It would go round for ever, and what is behind it would be missing.
                    Some(_) => {
                        let e = Error::new(ErrorKind::Other, "list").because("the listing repeats its continuation token");
                        // The receiver may have ended.
                        let _ = give.send(Err(e));
                        return;
                    }
                    None => return,
                }
            }
        };
        let spawned = std::thread::Builder::new().name("haul-list".into()).spawn_scoped(scope, ahead);
        spawned.map_err(haul_core::rlimit::no_thread)?;
        if each(first) == Flow::Stop {
            return Ok(());
        }
        for page in take {
            if each(page?) == Flow::Stop {
                return Ok(());
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
