//! A parallel walk for commands that only read: du, tree, ls -R, sum.
//!
//! Threads, and ranks, take directories from one pool, and batches of names from large directories. The engine's walk is another
//! one, because there listing, planning and copying share the workers and the bounds of one scheduler.

use std::path::Path;
use std::sync::Arc;

use crate::cancel::Cancel;
use crate::entry::{Dir, Entry, Kind, MetaMask, Name, codec};
use crate::error::{Error, ErrorKind, Result};
use crate::pool::{Item, Pool};
use crate::store::{Flow, Found, Store};
use crate::team::wire::{Cursor, put_bytes};

/// Names are looked up in batches of this many.
pub const BATCH: usize = 256;
/// Batches that wait for another thread; beyond this the lister does its own.
const MOST_BATCHES: usize = 64;

/// Whether to go into a directory that was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descend {
    Yes,
    No,
}

/// How to look.
pub struct Survey<'a> {
    pub store: &'a dyn Store,
    pub threads: usize,
    /// Attributes beyond those that a look-up gives for nothing.
    pub want: MetaMask,
    pub cancel: &'a Cancel,
    /// Where waiting directories are spilled to.
    pub spill: &'a Path,
}

/// A part of a survey.
pub enum Piece {
    /// To be listed.
    Dir(Dir),
    /// Names of a directory, to be looked up and visited.
    Batch(Dir, Vec<Entry>),
}

fn dir_of(path: &[u8]) -> Dir {
    let parts = path.split(|b| *b == b'/').filter(|_| !path.is_empty());
    parts.fold(Dir::root(), |dir, part| dir.child(part))
}

impl Item for Piece {
    fn encode(&self) -> Vec<u8> {
        let (dir, batch) = match self {
            Piece::Dir(dir) => (dir, &[][..]),
            Piece::Batch(dir, batch) => (dir, &batch[..]),
        };
        let mut out = vec![u8::from(!self.is_open())];
        put_bytes(&mut out, &dir.path());
        for entry in batch {
            // Of a bare entry nothing but the kind is known.
            out.push(u8::from(entry.is_bare()));
            if entry.is_bare() {
                out.push(codec::kind_number(entry.kind));
                put_bytes(&mut out, &entry.name.leaf);
            } else {
                put_bytes(&mut out, &codec::encode(entry));
            }
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Piece> {
        let (kind, rest) = bytes.split_first()?;
        let mut from = Cursor(rest);
        let dir = dir_of(from.bytes()?);
        if *kind == 0 {
            return from.is_empty().then_some(Piece::Dir(dir));
        }
        let mut batch = Vec::new();
        while !from.is_empty() {
            batch.push(match from.number()? {
                0 => codec::decode(&dir, from.bytes()?)?,
                _ => {
                    let kind = codec::kind_of(u8::try_from(from.number()?).ok()?);
                    Entry::bare(Name::new(&dir, from.bytes()?), kind)
                }
            });
        }
        Some(Piece::Batch(dir, batch))
    }

    fn is_open(&self) -> bool {
        matches!(self, Piece::Dir(_))
    }
}

/// What is done with what a survey finds.
#[derive(Clone, Copy)]
pub struct Visitor<'a> {
    pub visit: &'a (dyn Fn(&Entry) -> Descend + Sync),
    pub failed: &'a (dyn Fn(Error, Kind) + Sync),
}

impl Survey<'_> {
    /// Calls `visit` for every entry below `top`, from any thread and in no order, and `failed` for what could
    /// not be listed or looked up. An error returned is one that ended the survey.
    pub fn run(&self, top: &Dir, visit: &(dyn Fn(&Entry) -> Descend + Sync), failed: &(dyn Fn(Error, Kind) + Sync)) -> Result<()> {
        let pool = Pool::new(self.threads, self.cancel, self.spill, None);
        pool.push([Piece::Dir(top.clone())]);
        self.run_in(&pool, BATCH, Visitor { visit, failed }, &|| ())
    }

    /// The same with a pool of its own, which other ranks may share; `batch` names are given away together.
    pub fn run_in(&self, pool: &Arc<Pool<Piece>>, batch: usize, visitor: Visitor<'_>, flush: &(dyn Fn() + Sync)) -> Result<()> {
        let work = |piece| match piece {
            Piece::Dir(dir) => self.list(&dir, pool, batch, visitor),
            Piece::Batch(dir, batch) => self.look(&dir, batch, pool, visitor),
        };
        pool.run(&work, flush)
    }

    fn list(&self, dir: &Dir, pool: &Pool<Piece>, most: usize, visitor: Visitor<'_>) {
        let mut batch = Vec::with_capacity(most);
        let hand_on = |batch: Vec<Entry>, last: bool| {
            if last || self.threads < 2 || pool.waiting() >= MOST_BATCHES {
                self.look(dir, batch, pool, visitor);
            } else {
                pool.push([Piece::Batch(dir.clone(), batch)]);
            }
        };
        let listed = self.store.list(dir, &mut |found| {
            match found {
                Ok(entry) => batch.push(entry),
                Err(e) => (visitor.failed)(e, Kind::Unknown),
            }
            if batch.len() >= most {
                hand_on(std::mem::replace(&mut batch, Vec::with_capacity(most)), false);
            }
            if self.cancel.is_set() { Flow::Stop } else { Flow::Go }
        });
        hand_on(batch, true);
        match listed.map_err(|e| e.on(&Name::of(dir))) {
            // A host that cannot be reached, or has not answered in time, would be tried and waited for again at every directory.
            Err(e) if matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) && self.store.caps().remote => pool.fail(e),
            Err(e) => (visitor.failed)(e, Kind::Dir),
            Ok(()) => {}
        }
    }

    fn look(&self, dir: &Dir, batch: Vec<Entry>, pool: &Pool<Piece>, visitor: Visitor<'_>) {
        let leaves: Vec<&[u8]> = batch.iter().filter(|e| e.is_bare()).map(|e| &*e.name.leaf).collect();
        let looked = if leaves.is_empty() { Vec::new() } else { self.store.stat_many(dir, &leaves, self.want, false) };
        let mut looked = looked.into_iter();
        let mut dirs = Vec::new();
        for entry in &batch {
            let complete;
            let entry = if entry.is_bare() {
                match looked.next() {
                    Some(Found::Entry(found)) => {
                        complete = found;
                        &complete
                    }
                    Some(Found::Failed(e)) => {
                        (visitor.failed)(e.on(&entry.name), entry.kind);
                        continue;
                    }
                    // Gone since it was listed: a look has nothing to say of it.
                    Some(Found::Absent) | None => continue,
                }
            } else {
                entry
            };
            if (visitor.visit)(entry) == Descend::Yes && entry.kind == Kind::Dir {
                dirs.push(Piece::Dir(dir.child(&entry.name.leaf)));
            }
        }
        pool.push(dirs);
    }
}
