//! Any other place, through the engine's own contract with it: what is measured is what a copy there goes through.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time, Xattrs};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, MetaSpec, Receipt, Space, Spec, Store, chunk_size, chunks};

use super::local::wrong_byte;
use super::operation::Operation;
use super::place::{Content, Layout, Leaf, MARK, OpRunner, Place, Role, Task, Tree};
use super::window::Done;

/// Bytes of a file that is too large for a bundle and moves at once: as a copy has it.
const CHUNK: u64 = 8 << 20;
/// Entries that are removed or made by one call.
const BATCH: usize = 1000;
const MODE: u32 = 0o644;

/// The directory of a run in a store.
#[derive(Debug)]
pub struct StorePlace {
    store: Arc<dyn Store>,
    top: Dir,
    /// Of the directory above, as the user wrote it.
    address: String,
}

impl StorePlace {
    /// Makes the directory `leaf` below the store's root, with the mark in it.
    pub fn make(store: Arc<dyn Store>, address: &str, leaf: &str, mark: &str, now: Time) -> Result<StorePlace> {
        let place = StorePlace::found(store, address, leaf.as_bytes());
        place.make_dir(&place.top, 0o700)?;
        let name = Name::new(&place.top, MARK.as_bytes());
        let entry = Entry { mtime: now, ..described(&name, mark.len() as u64) };
        if let Err(e) = put_small(&*place.store, entry, mark.as_bytes().to_vec(), false) {
            let _gone = place.remove(&Cancel::default());
            return Err(e);
        }
        Ok(place)
    }

    /// A directory that an earlier run has left, to be removed.
    pub fn found(store: Arc<dyn Store>, address: &str, leaf: &[u8]) -> StorePlace {
        StorePlace { store, top: Dir::root().child(leaf), address: address.into() }
    }

    fn make_dir(&self, dir: &Dir, mode: u32) -> Result<()> {
        match self.store.caps().dirs {
            true => first(self.store.make_dirs(&[(dir, mode)])).map(drop),
            false => Ok(()),
        }
    }

    fn tree(&self, tree: Tree) -> Dir {
        self.top.child(tree.leaf().as_bytes())
    }

    /// Removes what is in a directory, but for the leaf `keep`.
    fn empty(&self, dir: &Dir, keep: Option<&[u8]>, cancel: &Cancel) -> Result<()> {
        loop {
            cancel.check()?;
            let (mut found, mut failed) = (Vec::new(), None);
            let listed = self.store.list(dir, &mut |entry| {
                match entry {
                    Ok(entry) if Some(&entry.name.leaf[..]) != keep => found.push(entry),
                    Ok(_) => {}
                    Err(e) => failed = failed.take().or(Some(e)),
                }
                if found.len() < BATCH { Flow::Go } else { Flow::Stop }
            });
            match listed {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
                listed => listed?,
            }
            if let Some(e) = failed {
                return Err(e);
            }
            if found.is_empty() {
                return Ok(());
            }
            for entry in found.iter().filter(|entry| entry.kind == Kind::Dir) {
                let below = dir.child(&entry.name.leaf);
                self.empty(&below, None, cancel)?;
                self.store.forget(&below);
            }
            // Directories of object stores are gone with what was in them.
            let whole = found.len() < BATCH;
            let exists = |entry: &Entry| entry.kind != Kind::Dir || self.store.caps().dirs;
            let doomed: Vec<Entry> = found.into_iter().filter(exists).collect();
            let removed = self.store.remove(&doomed);
            for result in removed {
                match result {
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    result => result?,
                }
            }
            if whole {
                return Ok(());
            }
        }
    }
}

fn first<T>(results: Vec<Result<T>>) -> Result<T> {
    results.into_iter().next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, "ask").because("no answer")))
}

/// A file to be written.
fn described(name: &Name, size: u64) -> Entry {
    let have = MetaMask::BASIC.with(MetaMask::MODE).with(MetaMask::MTIME);
    Entry { size, stored: size, mode: MODE, have, ..Entry::bare(name.clone(), Kind::File) }
}

fn put_small(store: &dyn Store, entry: Entry, data: Vec<u8>, sync: bool) -> Result<()> {
    let at = 0..data.len();
    let direct = store.caps().direct_create;
    let items = vec![Item { entry, at, outcome: Outcome::Read }];
    let mut bundle = Bundle { items, data, keep: MetaMask::NONE, direct, sync, ..Bundle::default() };
    store.put_bundle(&mut bundle);
    landed(bundle)
}

fn landed(mut bundle: Bundle) -> Result<()> {
    match bundle.items.pop().map(|item| item.outcome) {
        Some(Outcome::Landed(_)) => Ok(()),
        Some(Outcome::Failed(e)) => Err(e),
        _ => Err(Error::new(ErrorKind::Other, "write").because("the store returned no result")),
    }
}

impl Place for StorePlace {
    fn words(&self) -> String {
        let between = if self.address.ends_with([':', '/']) { "" } else { "/" };
        format!("{}{between}{}", self.address, haul_core::entry::show(self.top.leaf()))
    }

    fn refuses(&self, operation: Operation) -> Option<String> {
        use Operation as Op;
        let caps = self.store.caps();
        let (can, why) = match operation {
            Op::Append | Op::TruncateOverwrite => (false, "it writes only whole files"),
            Op::Chmod => (caps.sets.has(MetaMask::MODE), "it has no modes"),
            Op::Setxattr | Op::Getxattr => (caps.sets.has(MetaMask::XATTR), "it has no extended attributes"),
            Op::Symlink => (caps.links, "it has no symlinks"),
            Op::Hardlink => (caps.hard_links, "it has no hard links"),
            Op::Mkdir | Op::Rmdir => (caps.dirs, "directories are only parts of names there"),
            _ => (true, ""),
        };
        (!can).then(|| why.to_string())
    }

    fn space(&self) -> Result<Option<Space>> {
        self.store.space()
    }

    fn lay(&self, layout: &Layout) -> Result<()> {
        if !self.store.caps().dirs {
            return Ok(());
        }
        for tree in Tree::BOTH {
            let tree = self.tree(tree);
            self.make_dir(&tree, 0o755)?;
            let dirs: Vec<Dir> = layout.leaves().iter().map(|leaf| tree.child(leaf.as_bytes())).collect();
            for some in dirs.chunks(BATCH) {
                let asked: Vec<(&Dir, u32)> = some.iter().map(|dir| (dir, 0o755)).collect();
                self.store.make_dirs(&asked).into_iter().try_for_each(|made| made.map(drop))?;
                some.iter().for_each(|dir| self.store.forget(dir));
            }
        }
        Ok(())
    }

    fn clear(&self, cancel: &Cancel) -> Result<()> {
        self.empty(&self.top, Some(MARK.as_bytes()), cancel)
    }

    fn remove(&self, cancel: &Cancel) -> Result<()> {
        self.clear(cancel)?;
        self.empty(&self.top, None, cancel)?;
        if !self.store.caps().dirs {
            return Ok(());
        }
        match first(self.store.remove(&[Entry::bare(Name::of(&self.top), Kind::Dir)])) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn runner(&self, task: Task) -> Result<Box<dyn OpRunner>> {
        let dirs = matches!(task.operation, Operation::Mkdir | Operation::Rmdir);
        let tree = self.tree(if dirs { Tree::First } else { task.shape.tree });
        let other = self.tree(task.shape.tree.other());
        let value: Box<[u8]> = task.pattern.parts(task.content(0).key(0), 0, task.manner.xattr_size as u64).flatten().copied().collect();
        let names = (0..task.manner.xattr_count).map(|at| format!("user.haul-bench-{at}").into_bytes().into_boxed_slice());
        let xattrs = names.map(|name| (name, value.clone())).collect();
        let (here, there) = (tree.clone(), other.clone());
        Ok(Box::new(StoreRunner {
            store: self.store.clone(),
            task,
            tree,
            other,
            here,
            there,
            listed: HashMap::new(),
            xattrs,
            buffer: Vec::new(),
        }))
    }
}

struct StoreRunner {
    store: Arc<dyn Store>,
    task: Task,
    tree: Dir,
    other: Dir,
    here: Dir,
    there: Dir,
    /// What is to be read, as it was listed: of one directory.
    listed: HashMap<Box<[u8]>, Entry>,
    xattrs: Xattrs,
    buffer: Vec<u8>,
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
    fn name(&self, role: Role, index: u64) -> Name {
        Name::new(&self.here, Leaf::new(role, self.task.thread, index).bytes())
    }

    fn put(&mut self, index: u64) -> Result<Done> {
        let name = self.name(Role::File, index);
        let (pattern, size) = (&self.task.pattern, self.task.shape.size);
        let key = self.task.content(index).key(0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let entry = Entry { mtime: Time { secs: now.as_secs().cast_signed(), nanos: now.subsec_nanos() }, ..described(&name, size) };
        let caps = self.store.caps();
        let done = Done { files: 1, bytes: size, requests: 1 };
        if size <= caps.bundle_bytes as u64 && caps.bundle_files > 0 {
            let mut data = std::mem::take(&mut self.buffer);
            data.clear();
            pattern.parts(key, 0, size).for_each(|part| data.extend_from_slice(part));
            let new = self.task.operation == Operation::Create;
            let items = vec![Item { entry, at: 0..data.len(), outcome: Outcome::Read }];
            let direct = new && caps.direct_create;
            let mut bundle = Bundle { items, data, keep: MetaMask::NONE, direct, sync: self.task.manner.fsync, ..Bundle::default() };
            self.store.put_bundle(&mut bundle);
            self.buffer = std::mem::take(&mut bundle.data);
            return landed(bundle).map(|()| done);
        }
        let chunk = chunk_size(CHUNK, size, caps.write);
        let spec = Spec { entry: &entry, keep: MetaMask::NONE, chunk, in_place: false, sync: self.task.manner.fsync };
        let sink = self.store.create(&name, &spec)?;
        let write = || -> Result<u64> {
            let mut receipts = Vec::new();
            for chunk in chunks(size, chunk) {
                let mut bytes = Bytes { parts: Box::new(pattern.parts(key, chunk.at.start, chunk.at.end)), now: &[] };
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
        let leaf = Leaf::new(Role::File, self.task.thread, index);
        let content = self.task.content(index);
        let size = self.task.shape.whole();
        let Some(entry) = self.listed.remove(leaf.bytes()) else {
            return Err(Error::new(ErrorKind::NotFound, "read").at(leaf.bytes()));
        };
        let short = |got: u64| {
            let e = Error::new(ErrorKind::Corrupt, "read").at(leaf.bytes());
            Err(e.because(format!("{got} bytes where {size} were written")))
        };
        if entry.size != size {
            return short(entry.size);
        }
        let check = |task: &Task, content: Content, from: u64, bytes: &[u8]| match content.wrong(&task.pattern, from, bytes) {
            Some(at) if task.manner.verify => Err(wrong_byte(leaf.bytes(), at)),
            _ => Ok(()),
        };
        let done = Done { files: 1, bytes: size, requests: 1 };
        let caps = self.store.caps();
        if size <= caps.bundle_bytes as u64 && caps.bundle_files > 0 {
            let mut bundle = Bundle { data: std::mem::take(&mut self.buffer), ..Bundle::default() };
            bundle.clear();
            bundle.push(entry);
            self.store.get_bundle(&mut bundle);
            self.buffer = std::mem::take(&mut bundle.data);
            return match bundle.items.pop() {
                Some(Item { outcome: Outcome::Read, at, .. }) if at.len() as u64 == size => {
                    if self.task.manner.verify {
                        check(&self.task, content, 0, &self.buffer[at])?;
                    }
                    Ok(done)
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
                if self.task.manner.verify {
                    check(&self.task, content, at, &self.buffer[..got])?;
                }
                at += got as u64;
            }
            requests += 1;
        }
        Ok(Done { requests, ..done })
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
        self.store.forget(&self.here);
        self.store.forget(&self.there);
        (self.here, self.there) = (self.tree.child(leaf.as_bytes()), self.other.child(leaf.as_bytes()));
        if self.task.operation == Operation::Read {
            // A copy knows what it reads from a listing, too.
            let mut listed = std::mem::take(&mut self.listed);
            listed.clear();
            let own = Leaf::new(Role::File, self.task.thread, 0);
            let own = own.bytes().split(|byte| *byte == b'-').next().unwrap_or_default().to_vec();
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
        let name = self.name(Role::File, index);
        let there = |role| Name::new(&self.there, Leaf::new(role, self.task.thread, index).bytes());
        let done = Done { files: 1, bytes: 0, requests: 1 };
        let result = match self.task.operation {
            Op::Create | Op::Overwrite => return self.put(index),
            Op::Read => return self.read(index).map_err(|e| e.on(&name)),
            Op::Stat => self.store.stat(&name, MetaMask::NONE).map(drop),
            Op::Chmod => {
                let entry = Entry { mode: 0o646, ..described(&name, self.task.shape.whole()) };
                first(self.store.set_meta(&[MetaSpec { name: &name, entry: &entry, keep: MetaMask::MODE }])).and_then(|landed| match landed
                    .refused
                    .is_empty()
                {
                    true => Ok(()),
                    false => Err(Error::new(ErrorKind::Unsupported, "chmod")),
                })
            }
            Op::Rename => self.store.rename(&name, &there(Role::File), false),
            Op::Setxattr => {
                let have = described(&name, 0).have.with(MetaMask::XATTR);
                let xattrs = Some(Box::new(self.xattrs.clone()));
                let entry = Entry { have, xattrs, ..described(&name, self.task.shape.whole()) };
                first(self.store.set_meta(&[MetaSpec { name: &name, entry: &entry, keep: MetaMask::XATTR }])).and_then(
                    |landed| match landed.refused.is_empty() {
                        true => Ok(()),
                        false => Err(Error::new(ErrorKind::Unsupported, "setxattr").because("the remote host refuses it")),
                    },
                )
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
                let to = there(Role::Symlink);
                let entry = Entry { target: Some(name.leaf[..].into()), ..Entry::bare(to.clone(), Kind::Link) };
                self.store.make_node(&to, &entry, MetaMask::NONE).map(drop)
            }
            Op::Hardlink => self.store.make_hard_link(&there(Role::Hardlink), &name),
            Op::Mkdir => {
                first(self.store.make_dirs(&[(&self.here.child(Leaf::new(Role::Dir, self.task.thread, index).bytes()), 0o755)])).map(drop)
            }
            Op::Rmdir => first(self.store.remove(&[Entry::bare(self.name(Role::Dir, index), Kind::Dir)])),
            Op::Delete | Op::DeleteRenamed => first(self.store.remove(&[Entry::bare(name.clone(), Kind::File)])),
            Op::Append | Op::TruncateOverwrite | Op::Readdir | Op::LsL | Op::Cleanup => {
                Err(Error::new(ErrorKind::Unsupported, self.task.operation.word()))
            }
        };
        result.map(|()| done).map_err(|e| e.on(&name))
    }

    fn list(&mut self, first: u64, files: u64) -> Result<Done> {
        let (mut found, mut bare) = (0, 0u64);
        self.list_dir(&mut |entry| {
            found += u64::from(entry.name.leaf.first() == Some(&(Role::File as isize as u8)));
            bare += u64::from(entry.is_bare());
        })?;
        if found < files {
            let e = Error::new(ErrorKind::Corrupt, "list").at(&self.here.path());
            return Err(e.because(format!("{found} files are listed where {files} are")));
        }
        if self.task.operation == Operation::LsL && bare > 0 {
            let leaves: Vec<Leaf> = (first..first + files).map(|index| Leaf::new(Role::File, self.task.thread, index)).collect();
            let leaves: Vec<&[u8]> = leaves.iter().map(Leaf::bytes).collect();
            for found in self.store.stat_many(&self.here, &leaves, MetaMask::NONE, false) {
                match found {
                    haul_core::store::Found::Entry(_) => {}
                    haul_core::store::Found::Absent => return Err(Error::new(ErrorKind::NotFound, "stat").at(&self.here.path())),
                    haul_core::store::Found::Failed(e) => return Err(e),
                }
            }
        }
        Ok(Done { files, bytes: 0, requests: 1 })
    }
}
