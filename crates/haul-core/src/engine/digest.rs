//! Digests that stores compute themselves (`store::Digests`), in place of their files being read from here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::bundle::Spent;
use crate::entry::Entry;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Warning;
use crate::hash::Algorithm;
use crate::retry::Scope;
use crate::store::{Sink, Source, Store};

use super::context::Context;
use super::tries::retry;

/// Smaller files are not worth a thread of their own.
const LARGE: u64 = 1 << 20;

/// How the digests of one run did.
#[derive(Debug, Default)]
pub struct Digests {
    /// A store failed to compute one: none is asked again.
    failed: AtomicBool,
    reported: AtomicBool,
    verified: AtomicU64,
}

impl Digests {
    fn offered(&self, store: &dyn Store) -> Vec<Algorithm> {
        if self.failed.load(Ordering::Relaxed) { Vec::new() } else { store.extensions().digests.algorithms() }
    }

    /// Whether the destination computes digests.
    pub fn are_offered(&self, cx: &Context) -> bool {
        !self.offered(cx.target()).is_empty()
    }

    /// Whether two stores compute digests of one kind.
    pub fn are_shared(&self, one: &dyn Store, other: &dyn Store) -> bool {
        let others = self.offered(other);
        self.offered(one).iter().any(|algorithm| others.contains(algorithm))
    }

    /// The digest that the destination should have of a file with this content, if it computes digests.
    pub fn of_bytes(&self, cx: &Context, bytes: &[u8]) -> Option<(Algorithm, Vec<u8>)> {
        let algorithm = *self.offered(cx.target()).first()?;
        let mut hasher = algorithm.begin();
        hasher.update(bytes);
        Some((algorithm, hasher.finish()))
    }

    /// Asks a store that computes digests. `Ok(None)` if it refuses or fails, which is reported once: the file has to be read.
    ///
    /// # Errors
    ///
    /// Only what reading would fail with as well.
    pub fn ask(&self, cx: &Context, call: impl FnMut() -> Result<Option<Vec<u8>>>) -> Result<Option<Vec<u8>>> {
        let why = match retry(call) {
            Ok(Some(digest)) => return Ok(Some(digest)),
            Ok(None) => "refused".to_string(),
            Err(e) if e.kind().ends_the_run() || matches!(e.kind(), ErrorKind::Cancelled | ErrorKind::NotFound | ErrorKind::Vanished) => {
                return Err(e);
            }
            Err(e) => {
                self.failed.store(true, Ordering::Relaxed);
                e.to_string()
            }
        };
        if !self.reported.swap(true, Ordering::Relaxed) {
            cx.out.warn(Warning::Note(format!("the server computed no checksum: files are read instead ({why})")));
        }
        Ok(None)
    }

    /// A file was verified by a digest.
    pub fn count(&self, same: bool) {
        self.verified.fetch_add(u64::from(same), Ordering::Relaxed);
    }

    pub fn verified(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }
}

/// One of two files that are compared.
pub struct Side<'a> {
    store: &'a dyn Store,
    entry: &'a Entry,
    /// Open for reading.
    source: Option<&'a dyn Source>,
    /// Written and not committed.
    sink: Option<&'a dyn Sink>,
    is_source: bool,
}

impl<'a> Side<'a> {
    /// The source of a copy, or of a comparison.
    pub fn source(store: &'a dyn Store, entry: &'a Entry, source: &'a dyn Source) -> Side<'a> {
        Side { store, entry, source: Some(source), sink: None, is_source: true }
    }

    pub fn of(store: &'a dyn Store, entry: &'a Entry) -> Side<'a> {
        Side { store, entry, source: None, sink: None, is_source: false }
    }

    pub fn written(store: &'a dyn Store, entry: &'a Entry, sink: &'a dyn Sink) -> Side<'a> {
        Side { sink: Some(sink), ..Side::of(store, entry) }
    }

    /// Whether it has to be asked to know if it can.
    fn may_refuse(&self, cx: &Context, algorithm: Algorithm) -> bool {
        let caps = self.store.caps();
        caps.streams || caps.remote && !cx.digests.offered(self.store).contains(&algorithm)
    }

    /// The digest, of a remote file without reading it from here.
    fn digest(&self, cx: &Context, algorithm: Algorithm, spent: &mut Spent) -> Result<Option<Vec<u8>>> {
        let began = Instant::now();
        let digest = || match self.sink {
            Some(sink) => sink.extensions().state.digest(algorithm),
            None => self.store.extensions().digests.digest(self.entry, algorithm),
        };
        let digest = match () {
            // What a link points to is not the entry, and what flows by is gone.
            () if self.is_source && cx.job.links.follow && self.store.caps().remote || self.store.caps().streams => return Ok(None),
            () if cx.digests.offered(self.store).contains(&algorithm) => cx.digests.ask(cx, digest),
            () if self.store.caps().remote => retry(digest),
            () => return self.read(cx, algorithm, spent).map(Some),
        };
        spent.reading += began.elapsed();
        digest.map_err(|e| self.blamed(e))
    }

    fn read(&self, cx: &Context, algorithm: Algorithm, spent: &mut Spent) -> Result<Vec<u8>> {
        let mut read = || {
            let opened = match self.source {
                Some(_) => None,
                None => Some(self.store.open(self.entry, false)?),
            };
            let mut hasher = algorithm.begin();
            if let Some(source) = self.source.or(opened.as_deref()) {
                cx.meter.look(source, 0..self.entry.size, spent, &mut |bytes| hasher.update(bytes))?;
            }
            Ok(hasher.finish())
        };
        retry(&mut read).map_err(|e| self.blamed(e))
    }

    fn blamed(&self, e: Error) -> Error {
        if self.is_source { e.of_source() } else { e }
    }
}

/// Whether two files have the same content, by digests; `Ok(None)` if these cannot be had without reading a remote file.
pub fn same(cx: &Context, sides: [Side<'_>; 2], spent: [&mut Spent; 2]) -> Result<Option<bool>> {
    let [one, other] = &sides;
    let offered = [one, other].map(|side| cx.digests.offered(side.store));
    let algorithm = match &offered {
        [some, none] | [none, some] if none.is_empty() => some.first(),
        [one, other] => one.iter().find(|algorithm| other.contains(algorithm)),
    };
    let Some(&algorithm) = algorithm else { return Ok(None) };
    let [spent_one, spent_other] = spent;
    // A digest that is of no use is not computed.
    let digests = if one.may_refuse(cx, algorithm) || one.entry.size < LARGE {
        let Some(first) = one.digest(cx, algorithm, spent_one)? else { return Ok(None) };
        (Some(first), other.digest(cx, algorithm, spent_other)?)
    } else if other.may_refuse(cx, algorithm) {
        let Some(first) = other.digest(cx, algorithm, spent_other)? else { return Ok(None) };
        (one.digest(cx, algorithm, spent_one)?, Some(first))
    } else {
        let scope = Scope::current();
        let (first, second) = thread::scope(|threads| {
            let first = threads.spawn(move || {
                let _entered = scope.enter();
                one.digest(cx, algorithm, spent_one)
            });
            let second = other.digest(cx, algorithm, spent_other);
            (first.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Other, "checksum"))), second)
        });
        (first?, second?)
    };
    Ok(match digests {
        (Some(one), Some(other)) => Some(one == other),
        _ => None,
    })
}
