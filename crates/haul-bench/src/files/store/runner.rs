//! The operations of one thread on a store.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time, Xattrs};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, MetaSpec, Receipt, Spec, Store, chunk_size, chunks};

use super::{described, first, landed};
use crate::files::operation::Operation;
use crate::files::place::{OpRunner, Task, is_file, leaf};
use crate::files::window::Done;

/// Bytes of a file that is too large for a bundle and moves at once: as a copy has it.
const CHUNK: u64 = 8 << 20;

pub(super) struct StoreRunner {
    pub store: Arc<dyn Store>,
    pub task: Task,
    pub tree: Dir,
    pub other: Dir,
    pub here: Dir,
    pub there: Dir,
    /// The files of one directory, as listed, for reading.
    pub listed: HashMap<Box<[u8]>, Entry>,
    pub xattrs: Xattrs,
    pub buffer: Vec<u8>,
}

/// The bytes of a part of a file, as a store takes them.
struct Bytes<'a> {
    parts: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    now: &'a [u8],
}

impl Read for Bytes<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.now.is_empty() {
            self.now = self.parts.next().unwrap_or_default();
        }
        self.now.read(to)
    }
}

impl StoreRunner {
    fn leaf(&self, letter: char, index: u64) -> Vec<u8> {
        leaf(letter, self.task.thread, index).into_bytes()
    }

    /// Whether files of this size move in bundles.
    fn bundles(&self, size: u64) -> bool {
        let tuning = &self.store.caps().tuning;
        size <= tuning.bundle_bytes as u64 && tuning.bundle_files > 0
    }

    fn put(&mut self, name: &Name, index: u64) -> Result<Done> {
        let (pattern, size) = (&self.task.pattern, self.task.shape.size);
        let seed = self.task.seed(index, 0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let entry = Entry { mtime: Time { secs: now.as_secs().cast_signed(), nanos: now.subsec_nanos() }, ..described(name, size) };
        let caps = self.store.caps();
        let done = Done { files: 1, bytes: size, requests: 1 };
        if self.bundles(size) {
            let mut data = std::mem::take(&mut self.buffer);
            data.clear();
            pattern.parts(seed, 0, size).for_each(|part| data.extend_from_slice(part));
            let direct = self.task.operation == Operation::Create && caps.direct_create;
            let items = vec![Item { entry, at: 0..data.len(), outcome: Outcome::Read }];
            let mut bundle = Bundle { items, data, keep: MetaMask::NONE, direct, sync: self.task.manner.fsync, ..Bundle::default() };
            self.store.put_bundle(&mut bundle);
            self.buffer = std::mem::take(&mut bundle.data);
            return landed(bundle).map(|()| done);
        }
        let chunk = chunk_size(CHUNK, size, caps.write);
        let spec = Spec { entry: &entry, keep: MetaMask::NONE, chunk, in_place: false, sync: self.task.manner.fsync };
        let sink = self.store.create(name, &spec)?;
        let write = || -> Result<u64> {
            let mut receipts = Vec::new();
            for chunk in chunks(size, chunk) {
                let mut bytes = Bytes { parts: Box::new(pattern.parts(seed, chunk.at.start, chunk.at.end)), now: &[] };
                sink.write(chunk.at.clone(), &mut bytes)?;
                receipts.push(Receipt { index: chunk.index, tag: sink.landed(&chunk)?, hash: None });
            }
            sink.commit(&entry, &receipts)?;
            Ok(receipts.len() as u64)
        };
        match write() {
            Ok(requests) => Ok(Done { requests, ..done }),
            Err(e) => {
                let _gone = sink.abort();
                Err(e)
            }
        }
    }

    fn read(&mut self, index: u64) -> Result<Done> {
        let size = self.task.shape.whole();
        let entry = self.listed.remove(&self.leaf('f', index)[..]).ok_or_else(|| Error::new(ErrorKind::NotFound, "read"))?;
        let short = |got: u64| Err(Error::new(ErrorKind::Corrupt, "read").because(format!("{got} bytes where {size} were written")));
        if entry.size != size {
            return short(entry.size);
        }
        let done = Done { bytes: size, ..Done::ONE };
        if self.bundles(size) {
            let mut bundle = Bundle { data: std::mem::take(&mut self.buffer), ..Bundle::default() };
            bundle.clear();
            bundle.push(entry);
            self.store.get_bundle(&mut bundle);
            self.buffer = std::mem::take(&mut bundle.data);
            return match bundle.items.pop() {
                Some(Item { outcome: Outcome::Read, at, .. }) if at.len() as u64 == size => {
                    self.task.verify(index, 0, &self.buffer[at]).map(|()| done)
                }
                Some(Item { outcome: Outcome::Read, at, .. }) => short(at.len() as u64),
                Some(Item { outcome: Outcome::Failed(e), .. }) => Err(e),
                _ => Err(Error::new(ErrorKind::Other, "read").because("the store returned no result")),
            };
        }
        let source = self.store.open(&entry, false)?;
        self.buffer.resize(self.task.pattern.record().max(1 << 20), 0);
        let mut requests = 0;
        for chunk in chunks(size, CHUNK) {
            let mut from = source.read(chunk.at.clone())?;
            let mut at = chunk.at.start;
            while at < chunk.at.end {
                let want = ((chunk.at.end - at) as usize).min(self.buffer.len());
                let got = from.read(&mut self.buffer[..want]).map_err(|e| Error::from_io(e, "read"))?;
                if got == 0 {
                    return short(at);
                }
                self.task.verify(index, at, &self.buffer[..got])?;
                at += got as u64;
            }
            requests += 1;
        }
        Ok(Done { requests, ..done })
    }

    fn set(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<()> {
        match first(self.store.set_meta(&[MetaSpec { name, entry, keep }]))?.refused.is_empty() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Unsupported, self.task.operation.word()).because("the remote host refuses it")),
        }
    }

    fn list_dir(&self, each: &mut dyn FnMut(Entry)) -> Result<()> {
        let mut failed = None;
        self.store.list(&self.here, &mut |entry| {
            match entry {
                Ok(entry) => each(entry),
                Err(e) => failed = failed.take().or(Some(e)),
            }
            Flow::Go
        })?;
        failed.map_or(Ok(()), Err)
    }
}

impl OpRunner for StoreRunner {
    fn enter(&mut self, number: u64) -> Result<()> {
        let leaf = self.task.layout.leaf(self.task.thread, number);
        self.store.extensions().system.forget(&self.here);
        self.store.extensions().system.forget(&self.there);
        (self.here, self.there) = (self.tree.child(leaf.as_bytes()), self.other.child(leaf.as_bytes()));
        if self.task.operation == Operation::Read {
            // As a copy does.
            let mut listed = std::mem::take(&mut self.listed);
            listed.clear();
            let own = format!("f{:03}-", self.task.thread).into_bytes();
            let mut bare = Vec::new();
            self.list_dir(&mut |entry| {
                if entry.name.leaf.starts_with(&own) {
                    if entry.is_bare() { bare.push(entry) } else { drop(listed.insert(entry.name.leaf[..].into(), entry)) }
                }
            })?;
            for entry in bare {
                let entry = self.store.stat(&entry.name, MetaMask::NONE)?;
                listed.insert(entry.name.leaf[..].into(), entry);
            }
            self.listed = listed;
        }
        Ok(())
    }

    fn work(&mut self, index: u64) -> Result<Done> {
        use Operation as Op;
        let name = Name::new(&self.here, &self.leaf('f', index));
        let there = |letter| Name::new(&self.there, &self.leaf(letter, index));
        let result = match self.task.operation {
            Op::Create | Op::Overwrite => return self.put(&name, index).map_err(|e| e.on(&name)),
            Op::Read => return self.read(index).map_err(|e| e.on(&name)),
            Op::Stat => self.store.stat(&name, MetaMask::NONE).map(drop),
            Op::Chmod => {
                let entry = Entry { mode: 0o646, ..described(&name, self.task.shape.whole()) };
                self.set(&name, &entry, MetaMask::MODE)
            }
            Op::Rename => self.store.rename(&name, &there('f'), false),
            Op::Setxattr => {
                let have = described(&name, 0).have.with(MetaMask::XATTR);
                let xattrs = Some(Box::new(self.xattrs.clone()));
                let entry = Entry { have, xattrs, ..described(&name, self.task.shape.whole()) };
                self.set(&name, &entry, MetaMask::XATTR)
            }
            Op::Getxattr => {
                let mut entries = [described(&name, self.task.shape.whole())];
                first(self.store.read_xattrs(&mut entries, MetaMask::XATTR)).and_then(|()| {
                    let [entry] = entries;
                    let got = entry.xattrs.as_deref().map_or(&[][..], |xattrs| &xattrs[..]);
                    match !self.task.manner.verify || self.xattrs.iter().all(|one| got.contains(one)) {
                        true => Ok(()),
                        false => {
                            Err(Error::new(ErrorKind::Corrupt, "get extended attribute").because("the value is not the one that was set"))
                        }
                    }
                })
            }
            Op::Symlink => {
                let to = there('s');
                let entry = Entry { target: Some(name.leaf[..].into()), ..Entry::bare(to.clone(), Kind::Link) };
                self.store.make_node(&to, &entry, MetaMask::NONE).map(drop)
            }
            Op::Hardlink => self.store.make_hard_link(&there('h'), &name),
            Op::Mkdir => {
                let made = self.here.child(&self.leaf('d', index));
                first(self.store.make_dirs(&[(&made, 0o755)])).map(drop)
            }
            Op::Rmdir => first(self.store.remove(&[Entry::bare(Name::new(&self.here, &self.leaf('d', index)), Kind::Dir)])),
            Op::Delete | Op::DeleteRenamed => first(self.store.remove(&[Entry::bare(name.clone(), Kind::File)])),
            Op::Append | Op::TruncateOverwrite | Op::Readdir | Op::LsL | Op::Cleanup => {
                Err(Error::new(ErrorKind::Unsupported, self.task.operation.word()))
            }
        };
        result.map(|()| Done::ONE).map_err(|e| e.on(&name))
    }

    fn list(&mut self, first: u64, files: u64) -> Result<Done> {
        let (mut found, mut bare) = (0, 0u64);
        self.list_dir(&mut |entry| {
            found += u64::from(is_file(&entry.name.leaf));
            bare += u64::from(entry.is_bare());
        })?;
        self.task.listed(found, files, &self.here.path())?;
        if self.task.operation == Operation::LsL && bare > 0 {
            let leaves: Vec<Vec<u8>> = (first..first + files).map(|index| self.leaf('f', index)).collect();
            let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
            for found in self.store.stat_many(&self.here, &leaves, MetaMask::NONE, false) {
                match found {
                    haul_core::store::Found::Entry(_) => {}
                    haul_core::store::Found::Absent => return Err(Error::new(ErrorKind::NotFound, "stat").at(&self.here.path())),
                    haul_core::store::Found::Failed(e) => return Err(e),
                }
            }
        }
        Ok(Done { files, ..Done::ONE })
    }
}
