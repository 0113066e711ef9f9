//! One object being written: parts of an upload, or, where it is small, one request at the commit.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haul_core::entry::{Entry, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Chunk, Receipt, Sink, SinkExtensions, SinkState, Spec, Token, WriteOutcome, chunks};

use super::attributes;
use super::bucket::{Bucket, Put};
use super::cache::MetadataCache;
use super::checksum::{self, Algorithm, Value};
use super::memory_budget::Reserved;
use super::put_options::pairs;
use super::upload::{Expected, Part, Upload, is_of_parts};
use super::{Objects, PARTS_MOST};

/// An object of one chunk up to this size is held in memory until its commit: that is one request in place of three.
const HELD_EACH: u64 = 16 << 20;

/// The token of a write without an upload: a kill leaves nothing of it.
const NO_UPLOAD: &[u8] = b"-";

/// Stands behind the algorithm in a token where the service keeps no checksum of the whole.
const OF_PARTS: &str = "-parts";

struct Writing {
    bucket: Bucket,
    cache: Option<Arc<MetadataCache>>,
    name: Name,
    key: Vec<u8>,
    keep: MetaMask,
    chunk: u64,
    size: u64,
    state: UploadState,
}

enum UploadState {
    Buffered {
        bytes: Mutex<Option<Vec<u8>>>,
        _reserved: Reserved,
    },
    Upload {
        upload: Upload,
        /// Of the metadata and options that it was begun with.
        fingerprint: u64,
        progress: Mutex<Progress>,
    },
}

#[derive(Default)]
struct Progress {
    /// Parts that this sink has sent, by the index of their chunk.
    parts: HashMap<u32, Part>,
    /// Parts that the service had at `attach`: versions of their ETags, by their numbers.
    found: Option<HashMap<u32, u64>>,
    pieces: HashMap<u32, Pieces>,
}

struct Pieces {
    bytes: Vec<u8>,
    missing: u64,
    seen: Vec<Range<u64>>,
}

pub(super) fn create(store: &Objects, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
    let key = store.key(name, "create")?;
    if store.bucket.options.copies_acl {
        store.bucket.like(spec.entry).options.can_copy_acl("create")?;
    }
    store.touch(&key);
    // The size of a pipe is not known: each write is a part then.
    let known = !spec.entry.is_bare();
    let size = if known { spec.entry.size } else { u64::MAX };
    if known && spec.chunk > 0 && size.div_ceil(spec.chunk) > u64::from(PARTS_MOST) {
        let e = Error::new(ErrorKind::Usage, "create").because(format!("{size} bytes make more than {PARTS_MOST} parts"));
        return Err(e.hint("a larger --part-size"));
    }
    let whole = size <= spec.chunk && size <= HELD_EACH;
    let state = match whole.then(|| store.bucket.client.held.object(size)).flatten() {
        Some(reserved) => UploadState::Buffered { bytes: Mutex::new(None), _reserved: reserved },
        None => {
            let bucket = store.bucket.like(spec.entry);
            let metadata = attributes::write(spec.entry, spec.keep, bucket.options.used()).of_its_kind("create")?.headers;
            let metadata = pairs(metadata);
            let fingerprint = bucket.options.fingerprint(&metadata);
            UploadState::Upload { upload: bucket.begin(&key, &metadata)?, fingerprint, progress: Mutex::default() }
        }
    };
    Ok(Writing::boxed(store, name, key, spec, size, state))
}

/// The upload of a token that has one, and the fingerprint of its metadata.
pub(super) fn upload_of(token: &Token) -> Option<(Upload, u64)> {
    let mut words = std::str::from_utf8(&token.0).ok()?.splitn(3, ' ');
    let algorithm = words.next()?;
    let (algorithm, whole) = algorithm.strip_suffix(OF_PARTS).map_or((algorithm, true), |algorithm| (algorithm, false));
    let fingerprint = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((Upload { algorithm: Algorithm::of_word(algorithm)?, whole, id: words.next()?.to_string(), since: None }, fingerprint))
}

pub(super) fn attach(store: &Objects, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
    let gone = || Error::new(ErrorKind::NotFound, "attach").because("there is no such unfinished upload");
    let key = store.key(name, "attach")?;
    store.touch(&key);
    let (own, is_shared) = token.own();
    let (upload, fingerprint) = upload_of(&own).ok_or_else(gone)?;
    if is_shared {
        // Its owner knows its parts and attributes, and completes or abandons it.
        let state = UploadState::Upload { upload, fingerprint, progress: Mutex::default() };
        return Ok(Writing::boxed(store, name, key, spec, spec.entry.size, state));
    }
    let bucket = store.bucket.like(spec.entry);
    let metadata = pairs(attributes::write(spec.entry, spec.keep, bucket.options.used()).of_its_kind("attach")?.headers);
    if bucket.options.fingerprint(&metadata) != fingerprint {
        // It would end with the attributes and the class of then.
        store.bucket.abort(&key, &upload.id)?;
        return Err(gone());
    }
    // A service may have dropped parts: MinIO does when a completion is broken off.
    let parts = match store.bucket.parts_of(&key, &upload.id) {
        Ok(Some(parts)) => parts,
        // Without permission to list parts the upload begins anew.
        Ok(None) => return Err(gone()),
        Err(e) if matches!(e.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => return Err(gone()),
        Err(e) => return Err(e),
    };
    let progress = Mutex::new(Progress { found: Some(parts), ..Progress::default() });
    let state = UploadState::Upload { upload, fingerprint, progress };
    Ok(Writing::boxed(store, name, key, spec, spec.entry.size, state))
}

impl Writing {
    fn boxed(store: &Objects, name: &Name, key: Vec<u8>, spec: &Spec<'_>, size: u64, state: UploadState) -> Box<dyn Sink> {
        let (bucket, cache) = (store.bucket.like(spec.entry), store.cache.clone());
        Box::new(Writing { bucket, cache, name: name.clone(), key, keep: spec.keep, chunk: spec.chunk, size, state })
    }

    fn fail(&self, kind: ErrorKind, op: &'static str, why: impl Into<String>) -> Error {
        Error::new(kind, op).on(&self.name).because(why)
    }

    fn lock<'a, T>(&self, what: &'a Mutex<T>) -> MutexGuard<'a, T> {
        what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chunk that holds all of `at`.
    fn chunk_of(&self, at: &Range<u64>) -> Result<Chunk> {
        let index = at.start / self.chunk.max(1);
        let mut whole = index * self.chunk..((index + 1) * self.chunk).min(self.size);
        if self.size == u64::MAX && at.start == whole.start {
            whole.end = whole.end.min(at.end);
        }
        if index >= u64::from(PARTS_MOST) {
            let e = self.fail(ErrorKind::Unsupported, "write", format!("it is longer than {PARTS_MOST} parts of {} bytes", self.chunk));
            return Err(e.hint("a larger --part-size"));
        }
        if at.end > whole.end {
            return Err(self.fail(ErrorKind::Unsupported, "write", "a write must not cross the border of a part"));
        }
        Ok(Chunk { index: u32::try_from(index).unwrap_or(u32::MAX), at: whole })
    }

    /// Adds a piece of a chunk; returns the chunk when it is whole.
    fn put_piece(&self, progress: &Mutex<Progress>, chunk: &Chunk, at: Range<u64>, from: &mut dyn Read) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; usize::try_from(at.end - at.start).unwrap_or_default()];
        read_exactly(from, &mut bytes).map_err(|e| e.on(&self.name))?;
        let mut progress = self.lock(progress);
        if let Some(pieces) = progress.pieces.get(&chunk.index)
            && pieces.seen.iter().any(|seen| *seen != at && seen.start < at.end && at.start < seen.end)
        {
            return Err(self.fail(ErrorKind::Unsupported, "write", "pieces of a part must not overlap"));
        }
        let length = chunk.at.end - chunk.at.start;
        let pieces = progress.pieces.entry(chunk.index).or_insert_with(|| Pieces {
            bytes: vec![0; usize::try_from(length).unwrap_or_default()],
            missing: length,
            seen: Vec::new(),
        });
        let start = usize::try_from(at.start - chunk.at.start).unwrap_or_default();
        pieces.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
        if !pieces.seen.contains(&at) {
            pieces.missing = pieces.missing.saturating_sub(at.end - at.start);
            pieces.seen.push(at);
        }
        let whole = pieces.missing == 0;
        Ok(if whole { progress.pieces.remove(&chunk.index).map(|pieces| pieces.bytes) } else { None })
    }

    fn send(&self, upload: &Upload, progress: &Mutex<Progress>, chunk: &Chunk, from: &mut dyn Read) -> Result<()> {
        let (number, length) = (chunk.index + 1, chunk.at.end - chunk.at.start);
        let part = self.bucket.put_part(&self.key, &upload.id, number, length, from, upload.algorithm).map_err(|e| e.on(&self.name))?;
        self.lock(progress).parts.insert(chunk.index, part);
        Ok(())
    }

    fn commit_upload(&self, upload: &Upload, entry: &Entry, receipts: &[Receipt]) -> Result<Put> {
        let Upload { id, algorithm: begun, whole: sent, .. } = upload;
        let mut parts = Vec::with_capacity(receipts.len());
        let mut whole = Some(begun.of(b""));
        let mut receipts: Vec<&Receipt> = receipts.iter().collect();
        receipts.sort_by_key(|receipt| receipt.index);
        let mut receipts = receipts.into_iter().peekable();
        for chunk in chunks(entry.size, self.chunk) {
            while receipts.peek().is_some_and(|receipt| receipt.index < chunk.index) {
                receipts.next();
            }
            let receipt = receipts.next().filter(|receipt| receipt.index == chunk.index);
            let missing = || self.fail(ErrorKind::Usage, "commit", format!("part {} has no receipt", chunk.index + 1));
            let part = part_of(receipt.ok_or_else(missing)?, *begun).ok_or_else(missing)?;
            whole = match (whole, part.checksum) {
                (Some(all), Some(value)) => checksum::combine(all, value, chunk.at.end - chunk.at.start),
                _ => None,
            };
            parts.push(part);
        }
        let expected = Expected { size: entry.size, whole: whole.as_slice(), sent: *sent };
        match self.bucket.complete(&self.key, id, &parts, expected) {
            // The answer to an earlier try may have been lost: the object there now decides.
            Err(e) if e.kind() == ErrorKind::NotFound => match self.bucket.head(&self.key) {
                Ok(Some(head)) if is_of_parts(head.checksums.etag, &parts) => Ok(Put::default()),
                _ => Err(e),
            },
            other => other,
        }
    }
}

/// The tag of a part's receipt: the value of its checksum, then its ETag.
fn tag_of(part: &Part) -> Box<[u8]> {
    let value = part.checksum.as_ref().map(Value::as_bytes).unwrap_or_default();
    let mut tag = vec![value.len() as u8];
    tag.extend_from_slice(value);
    tag.extend_from_slice(part.etag.as_bytes());
    tag.into()
}

fn part_of(receipt: &Receipt, algorithm: Algorithm) -> Option<Part> {
    let (length, rest) = receipt.tag.split_first()?;
    let (value, etag) = rest.split_at_checked(usize::from(*length))?;
    let checksum = if value.is_empty() { None } else { Some(Value::parse(algorithm, value)?) };
    Some(Part { number: receipt.index + 1, etag: std::str::from_utf8(etag).ok()?.to_string(), checksum })
}

/// Fills the buffer; a source that ends before is `Changed`.
fn read_exactly(from: &mut dyn Read, into: &mut [u8]) -> Result<()> {
    let mut at = 0;
    while at < into.len() {
        match from.read(&mut into[at..]) {
            Ok(0) => return Err(Error::new(ErrorKind::Changed, "write").because("the source is shorter than announced")),
            Ok(count) => at += count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from_io(e, "read")),
        }
    }
    Ok(())
}

impl Sink for Writing {
    fn token(&self) -> Token {
        match &self.state {
            UploadState::Buffered { .. } => Token(NO_UPLOAD.into()),
            UploadState::Upload { upload: Upload { id, algorithm, whole, .. }, fingerprint, .. } => {
                let of = if *whole { "" } else { OF_PARTS };
                Token(format!("{}{of} {fingerprint:016x} {id}", algorithm.word()).into_bytes().into())
            }
        }
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        match &self.state {
            UploadState::Buffered { bytes, .. } => {
                let length = usize::try_from(at.end - at.start).unwrap_or_default();
                let start = usize::try_from(at.start).unwrap_or_default();
                let mut held = self.lock(bytes);
                let held = held.get_or_insert_with(|| vec![0; usize::try_from(self.size).unwrap_or_default()]);
                let Some(place) = held.get_mut(start..start + length) else {
                    return Err(self.fail(ErrorKind::Unsupported, "write", "it ends before that"));
                };
                read_exactly(from, place).map_err(|e| e.on(&self.name))
            }
            UploadState::Upload { upload, progress, .. } => {
                let chunk = self.chunk_of(&at)?;
                if at == chunk.at {
                    return self.send(upload, progress, &chunk, from);
                }
                match self.put_piece(progress, &chunk, at, from)? {
                    Some(whole) => self.send(upload, progress, &chunk, &mut &whole[..]),
                    None => Ok(()),
                }
            }
        }
    }

    fn hole(&self, _at: Range<u64>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "write").on(&self.name).because("objects have no holes"))
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        match &self.state {
            UploadState::Buffered { bytes, .. } => match *self.lock(bytes) {
                None if self.size > 0 => Err(self.fail(ErrorKind::Usage, "write", "nothing was written")),
                _ => Ok(NO_UPLOAD.into()),
            },
            UploadState::Upload { upload, progress, .. } => {
                let known = self.lock(progress).parts.get(&chunk.index).map(tag_of);
                match known {
                    Some(tag) => Ok(tag),
                    // An empty file has one empty chunk, of which nothing is ever written.
                    None if chunk.at.is_empty() => {
                        self.send(upload, progress, chunk, &mut std::io::empty())?;
                        self.landed(chunk)
                    }
                    None => Err(self.fail(ErrorKind::Usage, "write", format!("part {} was not written whole", chunk.index + 1))),
                }
            }
        }
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        let written =
            attributes::write(entry, self.keep, self.bucket.options.used()).of_its_kind("commit").map_err(|e| e.on(&self.name))?;
        let metadata = pairs(written.headers);
        let put = match &self.state {
            UploadState::Buffered { bytes, .. } => {
                if receipts.is_empty() {
                    return Err(self.fail(ErrorKind::Usage, "commit", "there is no receipt"));
                }
                let held = self.lock(bytes);
                self.bucket.put(&self.key, held.as_deref().unwrap_or_default(), &metadata).map_err(|e| e.on(&self.name))?
            }
            UploadState::Upload { upload, .. } => {
                let put = self.commit_upload(upload, entry, receipts).map_err(|e| e.on(&self.name))?;
                Put { since: upload.since, ..put }
            }
        };
        if let Some(cache) = &self.cache {
            cache.wrote(&self.key, entry.size, &put, &metadata, None);
        }
        Ok(WriteOutcome { refused: written.refused, ino: 0 })
    }

    fn abort(&self) -> Result<()> {
        match &self.state {
            UploadState::Buffered { bytes, .. } => {
                *self.lock(bytes) = None;
                Ok(())
            }
            UploadState::Upload { upload, .. } => self.bucket.abort(&self.key, &upload.id).map_err(|e| e.on(&self.name)),
        }
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions { uploads_on_commit: matches!(self.state, UploadState::Buffered { .. }), state: self, ..SinkExtensions::default() }
    }
}

impl SinkState for Writing {
    fn keeps(&self, receipt: &Receipt) -> bool {
        let UploadState::Upload { upload, progress, .. } = &self.state else { return true };
        let Some(part) = part_of(receipt, upload.algorithm) else { return false };
        self.lock(progress).found.as_ref().is_none_or(|found| found.get(&part.number) == Some(&checksum::version(&part.etag)))
    }
}
