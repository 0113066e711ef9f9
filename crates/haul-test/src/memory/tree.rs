//! Names and their inodes. A node is a name; an inode is what it names, shared by hard links.
//!
//! Nodes are numbered and refer to each other by number, so that a deep tree is dropped without recursion.
//! Where directories are only parts of names a node may have both an inode and children.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::ErrorKind;
use haul_core::entry::{Entry, Kind, MetaMask, Time, Xattrs};

use super::content::Content;
use haul_core::lock::lock;

pub(super) type File = Arc<Mutex<Inode>>;
pub(super) type Leaf = Box<[u8]>;

/// The number of a node.
pub(super) type At = u64;

pub(super) const ROOT: At = 0;

#[derive(Debug)]
pub(super) struct Inode {
    pub ino: u64,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub nlink: u32,
    pub mtime: Time,
    /// Counts the contents that this file has had: what an object store calls a version.
    pub generation: u64,
    pub target: Option<Box<[u8]>>,
    pub xattrs: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub content: Content,
}

/// The attribute class that an extended attribute belongs to.
fn class(xattr: &[u8]) -> MetaMask {
    match xattr {
        _ if xattr.starts_with(b"system.posix_acl_") || xattr == b"system.nfs4_acl" => MetaMask::ACL,
        b"security.selinux" => MetaMask::CONTEXT,
        _ => MetaMask::XATTR,
    }
}

pub(super) fn floor(time: Time, resolution: Duration) -> Time {
    let resolution = resolution.as_nanos().max(1) as i128;
    let floored = time.as_nanos().div_euclid(resolution) * resolution;
    Time { secs: floored.div_euclid(1_000_000_000) as i64, nanos: floored.rem_euclid(1_000_000_000) as u32 }
}

impl Inode {
    /// Takes the attributes `keep` of `entry`, as far as `sets` has them; returns the rest.
    pub fn apply(&mut self, entry: &Entry, keep: MetaMask, sets: MetaMask, resolution: Duration) -> MetaMask {
        let can = keep.and(sets);
        if can.has(MetaMask::OWNER) {
            self.uid = entry.uid;
        }
        if can.has(MetaMask::GROUP) {
            self.gid = entry.gid;
        }
        if can.has(MetaMask::MODE) && self.kind != Kind::Link {
            self.mode = entry.mode & 0o777 | self.mode & 0o7000;
        }
        if can.has(MetaMask::SETID) {
            self.mode = self.mode & 0o777 | entry.mode & 0o7000;
        }
        if let Some(xattrs) = &entry.xattrs {
            self.xattrs.retain(|name, _| !can.has(class(name)));
            self.xattrs.extend(xattrs.iter().filter(|(name, _)| can.has(class(name))).cloned());
        }
        if can.has(MetaMask::MTIME) {
            self.mtime = floor(entry.mtime, resolution);
        }
        keep.without(sets).without(MetaMask::BASIC)
    }

    pub fn xattrs(&self, want: MetaMask) -> Xattrs {
        self.xattrs.iter().filter(|(name, _)| want.has(class(name))).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub leaf: Leaf,
    pub parent: At,
    pub file: Option<File>,
    pub children: BTreeMap<Leaf, At>,
}

#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<At, Node>,
    next_node: At,
    next_ino: u64,
    /// What no one set a time for gets the next second after 2023-11-14: tests see the same times each run.
    clock: i64,
    generation: u64,
}

/// Why a name could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    Absent,
    /// A component is a file or a symlink.
    NotDir,
}

impl Unresolved {
    pub fn kind(self) -> ErrorKind {
        match self {
            Unresolved::Absent => ErrorKind::NotFound,
            Unresolved::NotDir => ErrorKind::Other,
        }
    }
}

impl Tree {
    pub fn new() -> Self {
        let mut tree = Tree { nodes: HashMap::new(), next_node: ROOT + 1, next_ino: 1, clock: 1_700_000_000, generation: 0 };
        let root = tree.inode(Kind::Dir, 0o755);
        tree.nodes.insert(ROOT, Node { file: Some(root), ..Node::default() });
        tree
    }

    pub fn node(&self, at: At) -> &Node {
        self.nodes.get(&at).expect("a node number comes from a lookup under the same lock")
    }

    fn node_mut(&mut self, at: At) -> &mut Node {
        self.nodes.get_mut(&at).expect("a node number comes from a lookup under the same lock")
    }

    pub fn now(&mut self) -> Time {
        self.clock += 1;
        Time { secs: self.clock, nanos: 0 }
    }

    pub fn generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    /// A new inode that no name leads to yet.
    pub fn inode(&mut self, kind: Kind, mode: u32) -> File {
        let ino = self.next_ino;
        self.next_ino += 1;
        let (mtime, generation) = (self.now(), self.generation());
        Arc::new(Mutex::new(Inode {
            ino,
            kind,
            mode,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: 0,
            mtime,
            generation,
            target: None,
            xattrs: BTreeMap::new(),
            content: Content::default(),
        }))
    }

    pub fn kind(&self, at: At) -> Option<Kind> {
        self.node(at).file.as_ref().map(|file| lock(file).kind)
    }

    /// `strict`: every component but the last must be a directory. Links are never followed.
    pub fn find(&self, keys: &[Leaf], strict: bool) -> Result<At, Unresolved> {
        let mut at = ROOT;
        for key in keys {
            if strict && self.kind(at) != Some(Kind::Dir) {
                return Err(Unresolved::NotDir);
            }
            at = *self.node(at).children.get(key).ok_or(Unresolved::Absent)?;
        }
        Ok(at)
    }

    /// Puts `file` under a name; what stood there loses it. Intermediate nodes come about only if not `strict`.
    /// `keys` and `leaves` differ where case is folded.
    pub fn place(&mut self, keys: &[Leaf], leaves: &[Leaf], file: &File, strict: bool) -> Result<(), Unresolved> {
        let parent = if strict {
            let parent = self.find(&keys[..keys.len() - 1], true)?;
            if self.kind(parent) != Some(Kind::Dir) {
                return Err(Unresolved::NotDir);
            }
            parent
        } else {
            let mut at = ROOT;
            for (key, leaf) in keys[..keys.len() - 1].iter().zip(leaves) {
                at = self.child(at, key, leaf);
            }
            at
        };
        let (key, leaf) = (&keys[keys.len() - 1], &leaves[leaves.len() - 1]);
        let at = self.child(parent, key, leaf);
        lock(file).nlink += 1;
        if let Some(old) = self.node_mut(at).file.replace(file.clone()) {
            lock(&old).nlink -= 1;
        }
        Ok(())
    }

    fn child(&mut self, parent: At, key: &Leaf, leaf: &Leaf) -> At {
        if let Some(at) = self.node(parent).children.get(key) {
            return *at;
        }
        let at = self.next_node;
        self.next_node += 1;
        self.nodes.insert(at, Node { leaf: leaf.clone(), parent, ..Node::default() });
        self.node_mut(parent).children.insert(key.clone(), at);
        at
    }

    /// Takes the name away, and with it parents that are nothing but parts of names.
    pub fn unlink(&mut self, keys: &[Leaf], at: At) {
        if let Some(file) = self.node_mut(at).file.take() {
            lock(&file).nlink -= 1;
        }
        let mut at = at;
        for key in keys.iter().rev() {
            let node = self.node(at);
            if node.file.is_some() || !node.children.is_empty() {
                return;
            }
            let parent = node.parent;
            self.nodes.remove(&at);
            self.node_mut(parent).children.remove(key);
            at = parent;
        }
    }

    /// Gives a node with all that is below it another name. The parent of `to` is there.
    pub fn shift(&mut self, from: &[Leaf], at: At, to: &[Leaf], leaf: Leaf) -> Result<(), Unresolved> {
        let parent = self.find(&to[..to.len() - 1], true)?;
        let old = self.node(at).parent;
        self.node_mut(old).children.remove(&from[from.len() - 1]);
        let node = self.node_mut(at);
        node.leaf = leaf;
        node.parent = parent;
        self.node_mut(parent).children.insert(to[to.len() - 1].clone(), at);
        Ok(())
    }
}
