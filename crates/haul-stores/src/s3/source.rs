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
    witness: Option<Arc<Mutex<Witness>>>,
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
    let witness = witness(&store.bucket, &key, &head)?;
    Ok(Box::new(Reading {
        bucket: store.bucket.clone(),
        key,
        name: entry.name.clone(),
        version: (head.size, head.modified),
        etag: head.etag,
        proof: head.proof,
        entry: found,
        first: Mutex::new(first),
        witness: witness.map(|witness| Arc::new(Mutex::new(witness))),
    }))
}

/// Who is to judge what is read of the object, if it says enough for that.
pub(super) fn witness(bucket: &Bucket, key: &[u8], head: &Head) -> Result<Option<Witness>> {
    // An ETag may be no MD5 in spite of its form: it convicts nobody.
    let Some(stored) = head.proof.stored.iter().find(|stored| !stored.etag && stored.algorithm().combines()) else { return Ok(None) };
    let part = match stored.kind {
        // A checksum of checksums: nothing can be said without the size of its parts.
        checksum::Kind::Composite(_) => match bucket.first_part(key, &head.etag) {
            Ok((size, _)) => Some(size),
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Other) => return Ok(None),
            Err(e) => return Err(e),
        },
        checksum::Kind::Whole => None,
    };
    Ok(Witness::new(stored, head.size, part))
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
        let watch = self.witness.as_ref().map(|witness| {
            let watch = witness.lock().unwrap_or_else(PoisonError::into_inner).watch(at.start);
            (watch, witness.clone())
        });
        Ok(Box::new(Body { reader: answer.body.into_reader(), left: at.end - at.start, watch, name: self.name.clone() }))
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
        if let Some(witness) = &self.witness
            && witness.lock().unwrap_or_else(PoisonError::into_inner).verdict() == Some(false)
        {
            return Err(damaged().on(&self.name));
        }
        Ok(self.entry.stamp())
    }

    fn judge(&self) -> Result<Option<Box<dyn Judge>>> {
        for stored in &self.proof.stored {
            let part = match stored.kind {
                checksum::Kind::Whole => 0,
                checksum::Kind::Composite(parts) => match self.bucket.first_part(&self.key, &self.etag) {
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

/// The body of an answer, exactly as long as was asked for.
struct Body {
    reader: ureq::BodyReader<'static>,
    left: u64,
    watch: Option<(Watch, Arc<Mutex<Witness>>)>,
    name: Name,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let count = match self.reader.read(&mut into[..most]) {
            Ok(0) => {
                let e = Error::new(ErrorKind::Io, "read").on(&self.name).remedy_is(Remedy::Again);
                return Err(e.because(format!("the answer ended {} bytes too early", self.left)).into());
            }
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(super::fault::io_error("read", &e, "the service").on(&self.name).into()),
        };
        self.left -= count as u64;
        if let Some((watch, _)) = &mut self.watch {
            watch.update(&into[..count]);
        }
        if self.left == 0 {
            // The connection can serve again once the end of the body was seen.
            let _nothing_more = self.reader.read(&mut [0; 1]);
            if let Some((watch, witness)) = self.watch.take() {
                let mut witness = witness.lock().unwrap_or_else(PoisonError::into_inner);
                witness.take(watch.finish());
                if witness.verdict() == Some(false) {
                    return Err(damaged().on(&self.name).into());
                }
            }
        }
        Ok(count)
    }
}
