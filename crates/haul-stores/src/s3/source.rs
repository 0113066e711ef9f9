//! One object, open for reading: ranges of one version of it, proven as they go by.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::entry::{Entry, Kind, MetaMask, Name, Stamp, Time, Xattrs};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{Judge, Source};

use super::Objects;
use super::bucket::{Bucket, Head};
use super::call::Answer;
use super::chain::{Chain, Link};
use super::checksum;
use super::witness::{Watch, Witness};

/// Objects up to this size are asked for whole when they are opened: that saves the request that would ask what they are.
const AT_ONCE: u64 = 8 << 20;

struct Reading {
    bucket: Bucket,
    key: Vec<u8>,
    name: Name,
    etag: String,
    entry: Entry,
    /// What came with the opening: the whole object, not read yet.
    first: Mutex<Option<Answer>>,
    came_with_open: bool,
    verifier: Option<Arc<Mutex<Verifier>>>,
    proof: checksum::Proof,
    /// Size and time by the service.
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
    if !matches!(entry.kind, Kind::File | Kind::Unknown) {
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
    if found.kind != Kind::File {
        return Err(Error::new(ErrorKind::Changed, "open").because(format!("is a {} now", found.kind.word())));
    }
    if !entry.is_bare() && found.stamp() != entry.stamp() {
        return Err(Error::new(ErrorKind::Changed, "open"));
    }
    let verifier = Verifier::of(&store.bucket, &key, &head)?;
    Ok(Box::new(Reading {
        bucket: store.bucket.clone(),
        key,
        name: entry.name.clone(),
        version: (head.size, head.modified),
        etag: head.etag,
        proof: head.proof,
        entry: found,
        came_with_open: first.is_some(),
        first: Mutex::new(first),
        verifier: verifier.map(|verifier| Arc::new(Mutex::new(verifier))),
    }))
}

/// Who judges what is read of the object.
enum Verifier {
    Crc(Witness),
    /// By its ETag.
    Md5(Chain),
}

enum Passing {
    Crc(Watch),
    Md5(Link),
}

impl Verifier {
    /// `None` where the object does not say enough for that.
    fn of(bucket: &Bucket, key: &[u8], head: &Head) -> Result<Option<Verifier>> {
        let combines = |stored: &&checksum::Stored| !stored.etag && stored.algorithm().combines();
        if let Some(stored) = head.proof.stored.iter().find(combines) {
            // A checksum of checksums: nothing can be said without the size of its parts.
            let part = match stored.kind {
                checksum::Kind::Composite(_) => part_size(bucket, key, head, 1)?,
                checksum::Kind::Whole => None,
            };
            return Ok(Witness::new(stored, head.size, part).map(Verifier::Crc));
        }
        let Some(stored) = head.proof.stored.iter().find(|stored| stored.etag && !bucket.wishes.no_check_etag) else { return Ok(None) };
        let part = match stored.kind {
            checksum::Kind::Composite(count) if count > 1 => part_size(bucket, key, head, 1)?,
            _ => None,
        };
        if let (Some(part), checksum::Kind::Composite(count)) = (part, stored.kind) {
            // Parts may be of any size: the last one shows whether all others are like the first.
            let last = head.size.checked_sub(part.saturating_mul(u64::from(count) - 1));
            if count > 2 && part_size(bucket, key, head, count)? != last {
                return Ok(None);
            }
        }
        Ok(Chain::new(stored, head.size, part).map(Verifier::Md5))
    }

    fn watch(&self, at: u64) -> Passing {
        match self {
            Verifier::Crc(witness) => Passing::Crc(witness.watch(at)),
            Verifier::Md5(chain) => Passing::Md5(chain.link(at)),
        }
    }

    fn take(&mut self, passed: Passing) {
        match (self, passed) {
            (Verifier::Crc(witness), Passing::Crc(watch)) => witness.take(watch.finish()),
            (Verifier::Md5(chain), Passing::Md5(link)) => chain.take(link.finish()),
            _ => {}
        }
    }

    /// An error if all was seen and is not what is stored.
    fn check(&self) -> Result<()> {
        match self {
            // Which of the bytes it is nobody knows: only the whole file can be tried again.
            Verifier::Crc(witness) if witness.verdict() == Some(false) => Err(damaged().remedy_is(Remedy::None)),
            Verifier::Md5(chain) if chain.verdict() == Some(false) => Err(differs_from_etag()),
            _ => Ok(()),
        }
    }
}

impl Passing {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Passing::Crc(watch) => watch.update(bytes),
            Passing::Md5(link) => link.update(bytes),
        }
    }
}

/// The size of one part, where the service tells it.
fn part_size(bucket: &Bucket, key: &[u8], head: &Head, number: u32) -> Result<Option<u64>> {
    match bucket.part(key, &head.etag, number) {
        Ok((size, _)) => Ok(Some(size)),
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Other | ErrorKind::Changed) => Ok(None),
        Err(e) => Err(e),
    }
}

/// No error if the bytes of a whole object are what its answer says is stored.
pub(super) fn check_whole(bucket: &Bucket, head: &Head, bytes: &[u8]) -> Result<()> {
    let stored = head.proof.stored.iter().find(|stored| match stored.kind {
        checksum::Kind::Whole => !stored.etag || !bucket.wishes.no_check_etag,
        checksum::Kind::Composite(parts) => parts == 1 && stored.etag && !bucket.wishes.no_check_etag,
    });
    let Some(stored) = stored else { return Ok(()) };
    let found = stored.algorithm().of(bytes);
    let found = if stored.kind == checksum::Kind::Whole { found } else { stored.algorithm().of(found.as_bytes()) };
    match (found == stored.value, stored.etag) {
        (true, _) => Ok(()),
        (false, true) => Err(differs_from_etag().remedy_is(Remedy::Again)),
        (false, false) => Err(damaged()),
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
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|_| at.start == 0);
        let answer = match first {
            Some(answer) => answer,
            None => {
                let whole = at.start == 0 && at.end == self.entry.size;
                let range = (!whole).then_some(at.clone());
                let asked = self.bucket.get(&self.key, range, Some(&self.etag)).map_err(|e| e.on(&self.name))?;
                if asked.0.etag != self.etag || asked.0.size != self.entry.size {
                    return Err(Error::new(ErrorKind::Changed, "read").on(&self.name).because("it is another version by now"));
                }
                let begins =
                    asked.1.header("content-range").and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
                if !whole && (asked.1.status.as_u16() != 206 || begins != Some(at.start)) {
                    let e = Error::new(ErrorKind::Unsupported, "read").on(&self.name);
                    return Err(e.because("the service sent something else than the part that was asked for"));
                }
                asked.1
            }
        };
        let watch = self.verifier.as_ref().map(|verifier| (lock(verifier).watch(at.start), verifier.clone()));
        let (left, tries) = (at.end - at.start, answer.tries);
        Ok(Box::new(Body { reader: answer.body.into_reader(), left, watch, name: self.name.clone(), tries }))
    }

    /// Every byte came of one version, whatever stands there by now. Says so only if they are the bytes that are stored.
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

    fn stretch(&self) -> Option<u64> {
        match &*lock(self.verifier.as_ref()?) {
            Verifier::Crc(_) => None,
            Verifier::Md5(chain) => Some(chain.piece()).filter(|piece| *piece < self.entry.size),
        }
    }

    fn gap(&self) -> Option<Range<u64>> {
        match &*lock(self.verifier.as_ref()?) {
            Verifier::Crc(_) => None,
            Verifier::Md5(chain) => chain.gap(),
        }
    }

    fn show(&self, at: u64, bytes: &[u8]) {
        if let Some(verifier) = &self.verifier {
            let mut passing = lock(verifier).watch(at);
            passing.update(bytes);
            lock(verifier).take(passing);
        }
    }

    fn judge(&self) -> Result<Option<Box<dyn Judge>>> {
        for stored in &self.proof.stored {
            let part = match stored.kind {
                checksum::Kind::Whole => 0,
                checksum::Kind::Composite(parts) => match self.bucket.part(&self.key, &self.etag, 1) {
                    Ok((part, _)) if part > 0 && (parts == 0 || self.entry.size.div_ceil(part) == u64::from(parts)) => part,
                    Ok(_) => continue,
                    Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Other | ErrorKind::Changed) => continue,
                    Err(e) => return Err(e.on(&self.name)),
                },
            };
            let running = match part {
                0 => Running::Whole(Box::new(stored.algorithm().begin())),
                part => Running::Cut(Box::new(checksum::Cut::new(stored.algorithm(), part))),
            };
            return Ok(Some(Box::new(Compared { running, expected: stored.value, convicts: !stored.etag })));
        }
        Ok(None)
    }

    fn came_with_open(&self) -> bool {
        self.came_with_open
    }

    fn claim(&self) -> Option<String> {
        let whole = self.proof.stored.iter().find(|stored| stored.kind == checksum::Kind::Whole && !stored.etag)?;
        Some(format!("{}:{}", whole.algorithm().word(), whole.value.base64()))
    }

    fn xattrs(&self, _want: MetaMask) -> Result<Xattrs> {
        Ok(self.entry.xattrs.as_deref().cloned().unwrap_or_default())
    }
}

/// Bytes of a file elsewhere, against the object's checksum.
struct Compared {
    running: Running,
    expected: checksum::Value,
    /// Whether a difference proves anything: an ETag may be no MD5 in spite of its form.
    convicts: bool,
}

enum Running {
    Whole(Box<checksum::Running>),
    Cut(Box<checksum::Cut>),
}

impl Judge for Compared {
    fn update(&mut self, bytes: &[u8]) {
        match &mut self.running {
            Running::Whole(running) => running.update(bytes),
            Running::Cut(cut) => cut.update(bytes),
        }
    }

    fn verdict(self: Box<Self>) -> Option<bool> {
        let found = match self.running {
            Running::Whole(running) => running.finish(),
            Running::Cut(cut) => cut.finish().0,
        };
        match found == self.expected {
            true => Some(true),
            false => self.convicts.then_some(false),
        }
    }
}

/// The bytes are not those that the object's checksum was made of.
pub(super) fn damaged() -> Error {
    let e = Error::new(ErrorKind::Corrupt, "read").because("what came is not what the object's checksum says is stored");
    e.remedy_is(Remedy::Again)
}

/// The same by the ETag.
fn differs_from_etag() -> Error {
    let e = Error::new(ErrorKind::Corrupt, "read").because("what came is not what the object's ETag says is stored");
    e.hint("the object is damaged, or was on its way; if the ETags of this service are no MD5s, use --no-check-etag")
}

fn lock<T>(what: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of an answer, exactly as long as was asked for.
struct Body {
    reader: ureq::BodyReader<'static>,
    left: u64,
    watch: Option<(Passing, Arc<Mutex<Verifier>>)>,
    name: Name,
    /// Of the request.
    tries: u32,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let count = match self.reader.read(&mut into[..most]) {
            Ok(0) => {
                let e = Error::new(ErrorKind::Io, "read").on(&self.name).remedy_is(Remedy::Again).tried(self.tries);
                return Err(e.because(format!("the answer ended {} bytes too early", self.left)).into());
            }
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(super::fault::io_error("read", &e, "the service").on(&self.name).tried(self.tries).into()),
        };
        self.left -= count as u64;
        if let Some((watch, _)) = &mut self.watch {
            watch.update(&into[..count]);
        }
        if self.left == 0 {
            // The connection can serve again once the end of the body was seen.
            let _nothing_more = self.reader.read(&mut [0; 1]);
            if let Some((watch, verifier)) = self.watch.take() {
                let mut verifier = lock(&verifier);
                verifier.take(watch);
                verifier.check().map_err(|e| e.on(&self.name).tried(self.tries))?;
            }
        }
        Ok(count)
    }
}
