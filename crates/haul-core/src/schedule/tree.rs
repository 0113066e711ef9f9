//! Directories on their way through a run, as nodes that know their parent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use crate::entry::{Dir, Entry, MetaMask, codec};

/// A directory that is being worked on. It lives as long as anything in it is not done.
#[derive(Debug)]
pub struct DirWork {
    pub dir: Dir,
    /// Index of the source root.
    pub root: usize,
    pub parent: Option<Arc<DirWork>>,
    /// The source's attributes, to be set at the end; none for what is only a way to somewhere.
    pub entry: Option<Entry>,
    /// Nothing stands in it at the destination: no name below needs to be looked up.
    pub fresh: bool,
    /// Attributes differ already.
    pub attributes: bool,
    /// Those that are known to.
    pub differ: MetaMask,
    /// Something was made in it, so that its times have to be set again.
    pub touched: AtomicBool,
    /// Its time at the source is in the journal, since names of it are removed.
    pub timed: Once,
    /// It was made by this run.
    pub made: bool,
    /// Not to be listed: a mount point where the walk stays on one file system, a directory that was named in a list of paths.
    pub closed: bool,
    /// It stands for a directory of another process, which waits until everything that came from there is done.
    pub lease: Option<Lease>,
}

/// A part of another process's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Whose work it is.
    pub rank: u32,
    /// Its number there.
    pub id: u64,
}

impl DirWork {
    /// A directory without a parent: the top of a root, or one of which nothing but a name is meant.
    pub fn top(root: usize, dir: Dir) -> DirWork {
        let touched = AtomicBool::new(false);
        let (fresh, attributes, differ, made, closed) = (false, false, MetaMask::NONE, false, false);
        let timed = Once::new();
        DirWork { dir, root, parent: None, entry: None, fresh, attributes, differ, touched, timed, made, closed, lease: None }
    }

    pub fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }
}

/// A chain of twenty thousand directories must not be dropped by recursion: a worker's stack is small.
impl Drop for DirWork {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(work) = next {
            next = Arc::into_inner(work).and_then(|mut work| work.parent.take());
        }
    }
}

/// A directory that waits to be made (if need be) and listed.
#[derive(Debug)]
pub struct PendingDir {
    pub parent: Arc<DirWork>,
    pub entry: Entry,
    pub make: bool,
    pub fresh: bool,
    pub attributes: bool,
    /// Those that are known to differ.
    pub differ: MetaMask,
    pub closed: bool,
}

impl PendingDir {
    pub fn dir(&self) -> Dir {
        self.parent.dir.child(&self.entry.name.leaf)
    }

    /// Its turn has come; `dir` is the node of [`PendingDir::dir`].
    pub fn enter(self, dir: Dir, made: bool) -> Arc<DirWork> {
        let PendingDir { parent, entry, fresh, attributes, differ, closed, .. } = self;
        let top = DirWork::top(parent.root, dir);
        // Fields by name: `DirWork` has a destructor and cannot be taken apart.
        let mut work = top;
        (work.fresh, work.attributes, work.differ, work.made, work.closed) = (fresh, attributes, differ, made, closed);
        (work.parent, work.entry) = (Some(parent), Some(entry));
        Arc::new(work)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [&self.parent.dir.id().to_le_bytes()[..], &self.encode_below()].concat()
    }

    /// Without its parent.
    pub fn encode_below(&self) -> Vec<u8> {
        let mut record = Vec::new();
        let flags = [self.make, self.fresh, self.attributes, self.closed];
        record.push(flags.iter().enumerate().map(|(i, flag)| u8::from(*flag) << i).sum());
        record.extend(self.differ.0.to_le_bytes());
        record.extend(codec::encode(&self.entry));
        record
    }

    /// The id of its parent and what is behind that.
    pub(super) fn parent_of(record: &[u8]) -> Option<(u64, &[u8])> {
        let (id, rest) = record.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*id), rest))
    }

    /// What [`PendingDir::encode_below`] has made.
    pub fn decode(parent: Arc<DirWork>, rest: &[u8]) -> Option<PendingDir> {
        let (flags, rest) = rest.split_first()?;
        let (differ, entry) = rest.split_first_chunk::<2>()?;
        let entry = codec::decode(&parent.dir, entry)?;
        let differ = MetaMask(u16::from_le_bytes(*differ));
        let flag = |bit: u8| flags & bit != 0;
        Some(PendingDir { parent, entry, make: flag(1), fresh: flag(2), attributes: flag(4), differ, closed: flag(8) })
    }
}
