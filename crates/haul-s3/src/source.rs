//! One object, open for reading: ranges of one version of it, verified as they pass.

use haul_core::lock::lock;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use haul_core::entry::{self, Entry, MetaMask, Name, Stamp, Time, Xattrs};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{ContentChecksum, ContentVerifier, Source, SourceExtensions};

use super::bucket::{Bucket, Head};
use super::call::Answer;
use super::checksum::{Kind, ObjectChecksums, StoredChecksum};
use super::open_bodies::{Unread, UnreadRanges};
use super::put_options::ACL;
use super::{Objects, rights};
use haul_net::http_client::Body;
use haul_net::http_client::agent::read_error;
use haul_net::http_client::verifier::{Verifier, Watch};

/// Objects up to this size are requested whole when they are opened, which saves a HEAD request.
const AT_ONCE: u64 = 16 << 20;

struct Reading {
    bucket: Bucket,
    key: Vec<u8>,
    name: Name,
    etag: String,
    entry: Entry,
    /// The answer to the request of the opening: the whole object, not read yet.
    first: Mutex<Option<Answer>>,
    /// Of a service without ranges: the rest of an answer, and the position that it is at.
    rest: Arc<Mutex<Option<(ureq::BodyReader<'static>, u64)>>>,
    unread: Arc<UnreadRanges>,
    has_prefetched_content: bool,
    headers: Arc<entry::Headers>,
    verifier: Option<Arc<Mutex<Verifier>>>,
    checksums: ObjectChecksums,
    version: (u64, Time),
}

pub(super) fn open(store: &Objects, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
    if follow {
        let led = store.end_of_links(&entry.name)?;
        let source = open(store, &led, false)?;
        if !entry.is_bare() && source.stamp()? != entry.stamp() {
            return Err(Error::new(ErrorKind::Changed, "open"));
        }
        return Ok(source);
    }
    if !matches!(entry.kind, entry::Kind::File | entry::Kind::Unknown) {
        return Err(Error::new(ErrorKind::Changed, "open").because(format!("is a {}", entry.kind.word())));
    }
    let key = store.key(&entry.name, "open")?;
    let small = !entry.is_bare() && entry.size <= AT_ONCE;
    let (head, first) = if small {
        let (head, answer) = store.bucket.get(&key, None, None)?;
        (head, Some(answer))
    } else {
        let head = store.bucket.head(&key)?;
        (head.ok_or_else(|| Error::new(ErrorKind::NotFound, "open").because("no such object"))?, None)
    };
    let found = store.entry_of(entry.name.clone(), &key, &head, MetaMask::XATTR)?;
    if found.kind != entry::Kind::File {
        return Err(Error::new(ErrorKind::Changed, "open").because(format!("is a {} now", found.kind.word())));
    }
    if !entry.is_bare() && found.stamp() != entry.stamp() {
        return Err(Error::new(ErrorKind::Changed, "open"));
    }
    if !small {
        find_ranges(&store.bucket, &key, &head)?;
    }
    let verifier = verifier_of(&store.bucket, &key, &head)?;
    let headers = headers_of(&store.bucket, &key, &head, store.options.map_keys)?;
    Ok(Box::new(Reading {
        bucket: store.bucket.clone(),
        key,
        name: entry.name.clone(),
        version: (head.size, head.modified),
        etag: head.etag,
        checksums: head.checksums,
        entry: found,
        has_prefetched_content: first.is_some(),
        headers,
        first: Mutex::new(first),
        rest: Arc::default(),
        unread: Arc::default(),
        verifier: verifier.map(|verifier| Arc::new(Mutex::new(verifier))),
    }))
}

/// Finds out whether the service sends ranges, where it does not say so.
fn find_ranges(bucket: &Bucket, key: &[u8], head: &Head) -> Result<()> {
    let says = head.header("accept-ranges").is_some_and(|unit| unit.trim().eq_ignore_ascii_case("bytes"));
    if !says && head.size > 1 && !bucket.client.ignores_ranges.load(Ordering::Relaxed) {
        let (_, answer) = bucket.get(key, Some(0..1), Some(&head.etag))?;
        if answer.status == http::StatusCode::OK {
            bucket.client.deny_ranges();
        }
    }
    Ok(())
}

/// What a copy in another store is to have beside attributes.
///
/// # Errors
/// Grants are to be copied, and they cannot be read or another account cannot give them.
pub(super) fn headers_of(bucket: &Bucket, key: &[u8], head: &Head, between: bool) -> Result<Arc<entry::Headers>> {
    // Who may not read tags copies without them.
    let tags = if between && head.tags() > 0 { bucket.tags(key).ok() } else { None };
    let mut headers = head.own_headers();
    if between && bucket.options.copies_acl {
        headers.push((ACL.to_string(), rights::canned(&bucket.acl(key)?)?.to_string()));
    }
    Ok(Arc::new(entry::Headers { headers, tags, lacks: head.attributes.lacks() }))
}

/// `None` where the object's metadata do not suffice to verify it.
fn verifier_of(bucket: &Bucket, key: &[u8], head: &Head) -> Result<Option<Verifier>> {
    let combines = |stored: &&StoredChecksum| !stored.etag && stored.algorithm().combines();
    let etag = |stored: &&StoredChecksum| stored.etag && !bucket.options.no_check_etag && head.size > 0;
    let all = &head.checksums.stored;
    let Some(stored) = all.iter().find(combines).or_else(|| all.iter().find(etag)) else { return Ok(None) };
    // A CRC does not tell which bytes differ: only the whole file can be tried again.
    let mismatch: fn() -> Error = if stored.etag { differs_from_etag } else { || damaged().remedy_is(Remedy::None) };
    let whole = Verifier::whole(stored.value, head.size, mismatch);
    match stored.kind {
        Kind::Whole => Ok(Some(whole)),
        Kind::Composite(1) if stored.etag => Ok(whole.of_parts(Some(head.size), 1)),
        Kind::Composite(count) => {
            let part = part_size(bucket, key, 1)?;
            // Parts may be of any size: the last one shows whether all others are like the first.
            let last = part.and_then(|part| head.size.checked_sub(part.saturating_mul(u64::from(count.saturating_sub(1)))));
            let alike = !stored.etag || count <= 2 || part.is_none() || part_size(bucket, key, count)? == last;
            let verifier = if alike { whole.of_parts(part, count) } else { None };
            if verifier.is_none() {
                let server = bucket.client.endpoint_words();
                bucket.client.say_once(format!("not verified while read: objects uploaded in parts whose sizes {server} does not tell"));
            }
            Ok(verifier)
        }
    }
}

fn part_size(bucket: &Bucket, key: &[u8], number: u32) -> Result<Option<u64>> {
    match bucket.part(key, number) {
        Ok(size) => Ok(Some(size)),
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Other | ErrorKind::Changed) => Ok(None),
        Err(e) => Err(e),
    }
}

/// # Errors
/// The bytes of a whole object do not match its checksum.
pub(super) fn check_whole(bucket: &Bucket, head: &Head, bytes: &[u8]) -> Result<()> {
    let stored = head.checksums.stored.iter().find(|stored| match stored.kind {
        Kind::Whole => !stored.etag || !bucket.options.no_check_etag,
        Kind::Composite(parts) => parts == 1 && stored.etag && !bucket.options.no_check_etag,
    });
    let Some(stored) = stored else { return Ok(()) };
    let found = stored.algorithm().of(bytes);
    let found = if stored.kind == Kind::Whole { found } else { stored.algorithm().of(found.as_bytes()) };
    match (found == stored.value, stored.etag) {
        (true, _) => Ok(()),
        (false, true) => Err(differs_from_etag().remedy_is(Remedy::Again)),
        (false, false) => Err(damaged()),
    }
}

type Content<'a> = Box<dyn Read + Send + 'a>;

impl Reading {
    /// What the last answer of a service without ranges has of a range, if it stands where the range begins.
    fn kept(&self, at: &Range<u64>) -> Result<Option<Content<'_>>> {
        let kept = lock(&self.rest).take().filter(|(_, position)| *position == at.start);
        kept.map(|(reader, position)| self.after_start(reader, position, at, 1)).transpose()
    }

    /// What an answer has of a range; the rest of it, up to `end`, waits for the read that follows.
    fn part(&self, reader: ureq::BodyReader<'static>, at: &Range<u64>, end: u64, tries: u32) -> Content<'_> {
        let body = Body::new(reader, at.end - at.start, self.name.clone(), "the service", tries);
        let (unread, next) = (self.unread.clone(), at.end);
        let then = move |reader| unread.keep(Unread { next, end, reader: Some(reader) });
        let body = if next < end { body.then(Box::new(then)) } else { body };
        let again = move |left| {
            let answer = self.ask(next - left..end)?;
            match answer.status {
                http::StatusCode::PARTIAL_CONTENT => Ok(answer.body.into_reader()),
                _ => Err(Error::new(ErrorKind::Unsupported, "read")),
            }
        };
        let pace = &self.bucket.client.pace;
        let body = if self.bucket.client.ignores_ranges.load(Ordering::Relaxed) { body } else { body.paced(pace, Box::new(again)) };
        Box::new(body.verified(self.verifier.as_ref(), at.start))
    }

    /// The answer with a range, of the version that was opened; or with the whole object from a service without ranges.
    fn ask(&self, at: Range<u64>) -> Result<Answer> {
        let whole = at.start == 0 && at.end == self.entry.size;
        let range = (!whole).then_some(at.start..at.end);
        let (head, answer) = self.bucket.get(&self.key, range, Some(&self.etag)).map_err(|e| e.on(&self.name))?;
        if head.etag != self.etag || head.size != self.entry.size {
            return Err(Error::new(ErrorKind::Changed, "read").on(&self.name).because("it has changed meanwhile"));
        }
        let begins = answer.header("content-range").and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
        if !whole && answer.status == http::StatusCode::OK {
            self.bucket.client.deny_ranges();
        } else if !whole && (answer.status.as_u16() != 206 || begins != Some(at.start)) {
            let e = Error::new(ErrorKind::Unsupported, "read").on(&self.name);
            return Err(e.because("the service sent a different range than requested"));
        }
        Ok(answer)
    }

    /// A range of an answer with the whole object, of which `position` bytes were read: what is in front is dropped.
    fn after_start(&self, mut reader: ureq::BodyReader<'static>, position: u64, at: &Range<u64>, tries: u32) -> Result<Content<'_>> {
        let in_front = at.start.saturating_sub(position);
        let dropped = io::copy(&mut (&mut reader).take(in_front), &mut io::sink());
        let dropped = dropped.map_err(|e| read_error("read", &e, "the service").tried(tries).on(&self.name))?;
        if dropped < in_front {
            let e = Error::new(ErrorKind::Io, "read").on(&self.name).remedy_is(Remedy::Again);
            return Err(e.because("the answer ends too early"));
        }
        let body = Body::new(reader, at.end - at.start, self.name.clone(), "the service", tries);
        let (rest, end) = (self.rest.clone(), at.end);
        let body = if end < self.entry.size { body.then(Box::new(move |reader| *lock(&rest) = Some((reader, end)))) } else { body };
        Ok(Box::new(body.verified(self.verifier.as_ref(), at.start)))
    }
}

impl Source for Reading {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        if at.end > self.entry.size {
            let e = Error::new(ErrorKind::Changed, "read").on(&self.name);
            return Err(e.because(format!("it has {} bytes, and byte {} was asked for", self.entry.size, at.end)));
        }
        if at.is_empty() {
            return Ok(Box::new(io::empty()));
        }
        if let Some(kept) = self.kept(&at)? {
            return Ok(kept);
        }
        let mut end = at.end;
        let announced = self.unread.take(&at);
        let first = lock(&self.first).take().filter(|_| at.start == 0);
        let answer = match (first, announced) {
            (Some(answer), _) => {
                end = self.entry.size;
                answer
            }
            (None, Some(Unread { reader: Some(reader), end, .. })) => return Ok(self.part(reader, &at, end, 1)),
            (None, announced) => {
                end = announced.map_or(end, |unread| unread.end);
                let answer = self.ask(at.start..end)?;
                if answer.status == http::StatusCode::OK && (at.start, end) != (0, self.entry.size) {
                    return self.after_start(answer.body.into_reader(), 0, &at, answer.tries);
                }
                answer
            }
        };
        Ok(self.part(answer.body.into_reader(), &at, end, answer.tries))
    }

    fn hint_sequential(&self, at: Range<u64>) {
        if !self.bucket.client.ignores_ranges.load(Ordering::Relaxed) && !at.is_empty() && at.end <= self.entry.size {
            self.unread.announce(at);
        }
    }

    /// Every byte is of one version, whatever the key has by now; an error if they are not the bytes that are stored.
    fn stamp(&self) -> Result<Stamp> {
        if self.etag.is_empty() {
            // Without a name for the version only another look tells.
            let head = self.bucket.head(&self.key).map_err(|e| e.on(&self.name))?;
            if head.is_none_or(|head| (head.size, head.modified) != self.version) {
                return Err(Error::new(ErrorKind::Changed, "read").on(&self.name));
            }
        }
        if let Some(verifier) = &self.verifier {
            lock(verifier).check().map_err(|e| e.on(&self.name))?;
        }
        Ok(self.entry.stamp())
    }

    fn xattrs(&self, _want: MetaMask) -> Result<Xattrs> {
        Ok(self.entry.xattrs.as_deref().cloned().unwrap_or_default())
    }

    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions {
            in_order: self.bucket.client.ignores_ranges.load(Ordering::Relaxed),
            has_prefetched_content: self.has_prefetched_content,
            headers: Some(&self.headers),
            checksum: self,
            ..SourceExtensions::default()
        }
    }
}

impl ContentChecksum for Reading {
    fn text(&self) -> Option<String> {
        let whole = self.checksums.stored.iter().find(|stored| stored.kind == Kind::Whole && !stored.etag)?;
        Some(format!("{}:{}", whole.algorithm().word(), whole.value.base64()))
    }

    fn verifier(&self) -> Result<Option<Box<dyn ContentVerifier>>> {
        for stored in &self.checksums.stored {
            let whole = Verifier::whole(stored.value, self.entry.size, damaged);
            let verifier = match stored.kind {
                Kind::Whole => Some(whole),
                Kind::Composite(count) => {
                    let part = part_size(&self.bucket, &self.key, 1).map_err(|e| e.on(&self.name))?.filter(|part| *part > 0);
                    let all = |part| if count == 0 { u32::try_from(self.entry.size.div_ceil(part)).unwrap_or(0) } else { count };
                    part.and_then(|part| whole.of_parts(Some(part), all(part)))
                }
            };
            if let Some(verifier) = verifier {
                let watch = verifier.watch(0);
                return Ok(Some(Box::new(Compared { verifier, watch, convicts: !stored.etag })));
            }
        }
        Ok(None)
    }

    fn block(&self) -> Option<u64> {
        lock(self.verifier.as_ref()?).checksum_block()
    }

    fn unverified(&self) -> Option<Range<u64>> {
        lock(self.verifier.as_ref()?).unverified()
    }

    fn feed(&self, at: u64, bytes: &[u8]) {
        if let Some(verifier) = &self.verifier {
            let mut watch = lock(verifier).watch(at);
            watch.update(bytes);
            lock(verifier).take(watch);
        }
    }
}

/// Bytes of a file elsewhere, against the object's checksum.
struct Compared {
    verifier: Verifier,
    watch: Watch,
    /// Whether a difference proves anything: an ETag may be no MD5 in spite of its form.
    convicts: bool,
}

impl ContentVerifier for Compared {
    fn update(&mut self, bytes: &[u8]) {
        self.watch.update(bytes);
    }

    fn verdict(mut self: Box<Self>) -> Option<bool> {
        self.verifier.take(self.watch);
        self.verifier.verdict().filter(|same| *same || self.convicts)
    }
}

/// The bytes are not those that the object's checksum was made of.
pub(super) fn damaged() -> Error {
    let e = Error::new(ErrorKind::Corrupt, "read").because("the received data does not match the object's checksum");
    e.remedy_is(Remedy::Again)
        .hint("the server or the network delivered other bytes than were stored: try again; if it stays so, the object is damaged")
}

/// The bytes do not match the object's ETag.
fn differs_from_etag() -> Error {
    let e = Error::new(ErrorKind::Corrupt, "read").because("the received data does not match the object's ETag");
    e.hint("the object is damaged, or the transfer was; if this service's ETags are not MD5s, use --no-check-etag")
}
