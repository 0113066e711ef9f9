//! Names as chains of directories.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use smallvec::SmallVec;

use super::show;

/// A directory below a store's root, on both sides of a copy. A store caches its descriptor or handle under `id`.
#[derive(Clone)]
pub struct Dir(Arc<Node>);

struct Node {
    parent: Option<Dir>,
    leaf: Box<[u8]>,
    id: u64,
    depth: u32,
}

impl Dir {
    pub fn root() -> Self {
        Self::node(None, Box::default())
    }

    /// The directory `leaf` in this one. The caller has checked the leaf: see [`check_leaf`].
    pub fn child(&self, leaf: &[u8]) -> Self {
        Self::node(Some(self.clone()), leaf.into())
    }

    fn node(parent: Option<Dir>, leaf: Box<[u8]>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1); // identity only: nothing is ever read out of it
        let depth = parent.as_ref().map_or(0, |p| p.0.depth + 1);
        Dir(Arc::new(Node { parent, leaf, id: NEXT.fetch_add(1, Memory::Relaxed), depth }))
    }

    pub fn parent(&self) -> Option<&Dir> {
        self.0.parent.as_ref()
    }

    /// Empty for the root.
    pub fn leaf(&self) -> &[u8] {
        &self.0.leaf
    }

    /// Unique in the process and never used twice.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// 0 for the root.
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    pub fn is_root(&self) -> bool {
        self.0.parent.is_none()
    }

    /// `a/b` for messages, keys and journals; empty for the root.
    pub fn path(&self) -> Vec<u8> {
        let mut leaves = Vec::new();
        let mut at = self;
        while let Some(parent) = at.parent() {
            leaves.push(at.leaf());
            at = parent;
        }
        leaves.reverse();
        leaves.join(&b'/')
    }
}

impl PartialEq for Dir {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}
impl Eq for Dir {}

impl fmt::Debug for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", show(&self.path()))
    }
}

/// A chain of a hundred thousand nodes must not be dropped by recursion.
impl Drop for Node {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(Dir(node)) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

/// A name below a store's root. An empty leaf is the directory itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Name {
    pub dir: Dir,
    pub leaf: Leaf,
}

/// One component of a path. Most are short and need no allocation of their own: a walk makes two names a file.
pub type Leaf = SmallVec<[u8; 24]>;

impl Name {
    pub fn new(dir: &Dir, leaf: &[u8]) -> Self {
        Name { dir: dir.clone(), leaf: leaf.into() }
    }

    /// The name under which a directory's own attributes are read and set.
    pub fn of(dir: &Dir) -> Self {
        match dir.parent() {
            Some(parent) => Name { dir: parent.clone(), leaf: dir.leaf().into() },
            None => Name { dir: dir.clone(), leaf: Leaf::new() },
        }
    }

    /// Splits `a/b/c` into nodes below `root`. `None` if a part is empty, `.` or `..`; an empty path is the root.
    pub fn parse(root: &Dir, path: &[u8]) -> Option<Self> {
        if path.is_empty() {
            return Some(Name::of(root));
        }
        let mut dir = root.clone();
        let mut parts = path.split(|b| *b == b'/').peekable();
        while let Some(part) = parts.next() {
            check_leaf(part).ok()?;
            if parts.peek().is_none() {
                return Some(Name::new(&dir, part));
            }
            dir = dir.child(part);
        }
        None
    }

    pub fn path(&self) -> Vec<u8> {
        let mut path = self.dir.path();
        if !path.is_empty() && !self.leaf.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&self.leaf);
        path
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(&self.path()))
    }
}

/// Why a leaf from a listing is no file name: it is empty, `.` or `..`, or has a slash or a zero byte in it.
pub fn check_leaf(leaf: &[u8]) -> Result<(), &'static str> {
    match leaf {
        b"" => Err("the name is empty"),
        b"." | b".." => Err("the name would leave the directory"),
        _ if leaf.contains(&b'/') => Err("the name has a slash in it"),
        _ if leaf.contains(&0) => Err("the name has a zero byte in it"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_round_trip_and_hostile_ones_are_refused() {
        let root = Dir::root();
        for path in ["", "a", "a/b", "..x/\u{fe}/c d"] {
            assert_eq!(Name::parse(&root, path.as_bytes()).map(|n| n.path()), Some(path.as_bytes().to_vec()));
        }
        for path in ["/", "a/", "/a", "a//b", ".", "a/../b", "..", "a/.", "a\0b"] {
            assert!(Name::parse(&root, path.as_bytes()).is_none(), "{path:?}");
        }
    }

    #[test]
    fn a_chain_of_a_million_directories_is_dropped_without_recursion() {
        let mut dir = Dir::root();
        for _ in 0..1_000_000 {
            dir = dir.child(b"d");
        }
        assert_eq!(dir.depth(), 1_000_000);
    }
}
