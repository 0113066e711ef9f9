//! A store in memory: the reference of the contract, whose abilities can be taken away one by one.
//!
//! It is strict where a real store would be lenient: a chunk that is said to have landed must have been
//! written, a receipt must be one that this session gave, a part must have the size that parts may have.

mod content;
mod log;
mod lookup;
mod sink;
mod store;
mod tree;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time, Xattrs, check_leaf};
use haul_core::hash::Algorithm;
use haul_core::store::{Caps, Place, Proof, WriteStyle};
use haul_core::{Error, ErrorKind, Result};

use content::Content;
use haul_core::lock::lock;
pub use log::Call;
use log::Log;
use sink::Session;
use tree::{At, File, Inode, Leaf, Tree, Unresolved, floor};

/// A handle to a tree in memory. [`Memory::again`] makes another one to the same data.
#[derive(Debug)]
pub struct Memory {
    caps: Caps,
    place: Place,
    digests: Vec<Algorithm>,
    shared: Arc<Shared>,
    log: Arc<Log>,
}

/// Unfinished writes by token.
type Sessions = HashMap<Box<[u8]>, Arc<Mutex<Session>>>;

#[derive(Debug)]
struct Shared {
    tree: Mutex<Tree>,
    /// Unfinished writes by their token.
    sessions: Mutex<Sessions>,
}

/// A name taken apart: the keys that the tree knows it by and the leaves as they are spelled.
struct Path {
    keys: Vec<Leaf>,
    leaves: Vec<Leaf>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store that can do what a local file system can.
    pub fn new() -> Self {
        let shared = Arc::new(Shared { tree: Mutex::new(Tree::new()), sessions: Mutex::default() });
        let mut caps = Caps { attach: true, ..Caps::posix() };
        (caps.attributes.lists, caps.tuning.writers_per_file) = (STATED, 4);
        let place = Place { scheme: "memory", volume: format!("{:p}", Arc::as_ptr(&shared)), root: b"/".to_vec(), ..Place::default() };
        Memory { caps, place, digests: Vec::new(), shared, log: Arc::default() }
    }

    /// An empty store with the abilities of an object store: parts, keys, one time of a second's resolution.
    pub fn objects() -> Self {
        Self::new().with(|caps| {
            caps.write = WriteStyle::Parts { least: 1024, most: 1 << 30, count: 10_000 };
            caps.holes = false;
            caps.durable = true;
            caps.dirs = false;
            caps.links = false;
            caps.specials = false;
            caps.hard_links = false;
            caps.attributes.sets = MetaMask::MTIME;
            caps.attributes.lists = MetaMask::BASIC.with(MetaMask::MTIME);
            caps.remote = true;
            caps.attributes.mtime_resolution = Duration::from_secs(1);
            caps.direct_create = false;
            caps.names.files = false;
            caps.names.max = 1024;
            caps.proof = Proof::Server;
        })
    }

    /// Changes the abilities of this handle. Removed ones answer `Unsupported`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Caps)) -> Self {
        change(&mut self.caps);
        self
    }

    /// Has this handle offer digests by these algorithms, as a server does that computes checksums.
    #[must_use]
    pub fn computing(mut self, digests: &[Algorithm]) -> Self {
        self.digests = digests.to_vec();
        self
    }

    /// Another handle to the same data, with the same abilities and a log of its own.
    #[must_use]
    pub fn again(&self) -> Self {
        let (caps, place, digests) = (self.caps.clone(), self.place.clone(), self.digests.clone());
        Memory { caps, place, digests, shared: self.shared.clone(), log: Arc::default() }
    }

    /// Writes a file past the contract: the same inode if there was one, a new time. Parents are made.
    /// Panics if a directory stands there.
    pub fn put(&self, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) {
        let path = self.split(path.as_ref());
        let mut tree = lock(&self.shared.tree);
        self.make_parents(&mut tree, &path);
        let file = match tree.find(&path.keys, self.caps.dirs).ok().and_then(|at| tree.node(at).file.clone()) {
            Some(file) => file,
            None => {
                let file = tree.inode(Kind::File, 0o644);
                tree.place(&path.keys, &path.leaves, &file, self.caps.dirs).expect("the parents were made above");
                file
            }
        };
        let (now, generation) = (tree.now(), tree.generation());
        let mut inode = lock(&file);
        assert_eq!(inode.kind, Kind::File, "what stands there is no file");
        inode.content = Content::of(bytes.as_ref());
        inode.mtime = floor(now, self.caps.attributes.mtime_resolution);
        inode.generation = generation;
    }

    /// Makes a directory and its parents past the contract.
    pub fn put_dir(&self, path: impl AsRef<[u8]>) {
        let mut path = self.split(path.as_ref());
        path.keys.push(Box::default());
        path.leaves.push(Box::default());
        self.make_parents(&mut lock(&self.shared.tree), &path);
    }

    fn make_parents(&self, tree: &mut Tree, path: &Path) {
        if !self.caps.dirs {
            return;
        }
        for depth in 1..path.keys.len() {
            if tree.find(&path.keys[..depth], true).is_err() {
                let dir = tree.inode(Kind::Dir, 0o755);
                tree.place(&path.keys[..depth], &path.leaves[..depth], &dir, true).expect("the parent was made before");
            }
        }
    }

    /// Sets the modification time past the contract. Panics if the name is absent.
    pub fn put_time(&self, path: impl AsRef<[u8]>, mtime: Time) {
        let file = self.inode(path.as_ref()).expect("there must be such a name");
        lock(&file).mtime = floor(mtime, self.caps.attributes.mtime_resolution);
    }

    /// The content of a file; `None` if there is none of that name.
    pub fn get(&self, path: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let file = self.inode(path.as_ref())?;
        let inode = lock(&file);
        (inode.kind == Kind::File).then(|| inode.content.all())
    }

    /// The entry of a name, with every attribute; `None` if it is absent.
    pub fn entry(&self, path: impl AsRef<[u8]>) -> Option<Entry> {
        let file = self.inode(path.as_ref())?;
        let name = Name::parse(&Dir::root(), path.as_ref())?;
        Some(self.shown(name, &lock(&file), MetaMask(u16::MAX)))
    }

    fn inode(&self, path: &[u8]) -> Option<File> {
        let path = self.split(path);
        let tree = lock(&self.shared.tree);
        let at = tree.find(&path.keys, self.caps.dirs).ok()?;
        tree.node(at).file.clone()
    }

    /// All names in order of their bytes, a directory with a slash behind it. Unfinished writes are not among them.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        let tree = lock(&self.shared.tree);
        let mut found = Vec::new();
        let mut open = vec![(tree::ROOT, Vec::new())];
        while let Some((at, path)) = open.pop() {
            for child in tree.node(at).children.values() {
                let mut below: Vec<u8> = path.clone();
                below.extend_from_slice(&tree.node(*child).leaf);
                let slash = [&below[..], b"/"].concat();
                match tree.kind(*child) {
                    Some(Kind::Dir) => found.push(slash.clone()),
                    Some(_) => found.push(below),
                    None => {}
                }
                open.push((*child, slash));
            }
        }
        found.sort();
        found
    }

    /// Unfinished writes, in no order.
    pub fn sessions(&self) -> usize {
        lock(&self.shared.sessions).len()
    }

    /// How often a method of `Store`, `Source` or `Sink` was called through this handle.
    pub fn calls(&self, op: &str) -> u64 {
        self.log.count(op).0
    }

    /// How many names those calls had in them.
    pub fn names_in(&self, op: &str) -> u64 {
        self.log.count(op).1
    }

    /// The calls themselves, the first hundred thousand names of them, in order.
    pub fn log(&self) -> Vec<Call> {
        self.log.calls()
    }

    fn split(&self, path: &[u8]) -> Path {
        let leaves: Vec<Leaf> = if path.is_empty() { Vec::new() } else { path.split(|b| *b == b'/').map(Box::from).collect() };
        Path { keys: leaves.iter().map(|leaf| self.key(leaf)).collect(), leaves }
    }

    fn key(&self, leaf: &[u8]) -> Leaf {
        if self.caps.names.folds_case { leaf.to_ascii_lowercase().into() } else { leaf.into() }
    }

    fn dir_path(&self, dir: &Dir) -> Path {
        if !self.caps.names.files {
            return self.split(&dir.path());
        }
        let mut leaves: Vec<Leaf> = Vec::new();
        let mut at = dir;
        while let Some(parent) = at.parent() {
            leaves.push(at.leaf().into());
            at = parent;
        }
        leaves.reverse();
        Path { keys: leaves.iter().map(|leaf| self.key(leaf)).collect(), leaves }
    }

    /// Takes a name apart and refuses one that is no file name where names are file names.
    fn path(&self, name: &Name, op: &'static str) -> Result<Path> {
        if !self.caps.names.files {
            return Ok(self.split(&name.path()));
        }
        let mut path = self.dir_path(&name.dir);
        if !name.leaf.is_empty() {
            path.leaves.push(name.leaf[..].into());
            path.keys.push(self.key(&name.leaf));
        }
        for leaf in &path.leaves {
            let bad = |reason: &str| Err(Error::new(ErrorKind::BadName, op).on(name).because(reason));
            if let Err(reason) = check_leaf(leaf) {
                return bad(reason);
            }
            if leaf.len() > self.caps.names.max {
                return bad("the name is too long");
            }
        }
        Ok(path)
    }

    fn entry_of(&self, tree: &Tree, at: At, name: Name, want: MetaMask) -> Entry {
        match &tree.node(at).file {
            Some(file) => self.shown(name, &lock(file), want),
            None => {
                let mut entry = Entry::bare(name, Kind::Dir);
                entry.have = MetaMask::BASIC;
                entry
            }
        }
    }

    /// The entry of an inode as this handle reports it. `want` only decides whether extended attributes are read.
    fn shown(&self, name: Name, inode: &Inode, want: MetaMask) -> Entry {
        let mut entry = Entry::bare(name, inode.kind);
        let known = self.caps.attributes.sets.with(MetaMask::BASIC).with(MetaMask::MTIME);
        entry.have = STATED.with(MetaMask::SETID).and(known);
        entry.size = inode.content.size();
        entry.stored = inode.content.stored();
        entry.mtime = floor(inode.mtime, self.caps.attributes.mtime_resolution);
        entry.target = inode.target.clone();
        entry.version = inode.generation;
        if self.caps.dirs {
            entry.mode = inode.mode;
            entry.uid = inode.uid;
            entry.gid = inode.gid;
            entry.rdev = inode.rdev;
            entry.nlink = inode.nlink;
            entry.ino = inode.ino;
            entry.dev = 1;
            entry.version = inode.ino;
        }
        let extended = want.and(EXTENDED).and(self.caps.attributes.sets);
        if !extended.is_empty() {
            entry.xattrs = Some(Box::new(inode.xattrs(extended)));
            entry.have = entry.have.with(extended);
        }
        entry
    }
}

/// Attributes of one look-up.
const STATED: MetaMask = MetaMask(MetaMask::BASIC.0 | MetaMask::MTIME.0 | MetaMask::MODE.0 | MetaMask::OWNER.0 | MetaMask::GROUP.0);

const EXTENDED: MetaMask = MetaMask(MetaMask::ACL.0 | MetaMask::XATTR.0 | MetaMask::CONTEXT.0);

fn fail(kind: ErrorKind, op: &'static str, name: &Name) -> Error {
    Error::new(kind, op).on(name)
}

fn lost(why: Unresolved, op: &'static str, name: &Name) -> Error {
    let error = fail(why.kind(), op, name);
    if why == Unresolved::NotDir { error.because("a part of the path is no directory") } else { error }
}

fn extended_of(inode: &Inode, want: MetaMask, sets: MetaMask) -> Xattrs {
    inode.xattrs(want.and(EXTENDED).and(sets))
}
