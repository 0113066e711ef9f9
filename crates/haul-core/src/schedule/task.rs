//! What an engine has to do, as far as the scheduler knows it.

use std::sync::Arc;

use super::tree::{DirWork, PendingDir};

/// The kinds of work that there are beside directories. Each has a queue.
pub trait Kinds {
    /// A name that a listing found, on its way to the planner.
    type Name;
    /// A change at the destination, or of the source's name, on which more of the plan may depend.
    type Effect;
    /// Something small to do in a directory, many at a time.
    type Small: Sized + SmallWork;
    type File: FileWork;
    /// Something that landed and is to be verified.
    type Check;
    /// What another process says of a subtree that it has done.
    type Reply;
}

pub trait SmallWork {
    /// Bytes that it moves.
    fn bytes(&self) -> u64;
}

/// A large file, which several workers may move.
pub trait FileWork {
    /// Chunks that other workers may take.
    fn chunks_left(&self) -> usize;

    /// Whether a chunk is there for one more worker.
    fn wants_workers(&self) -> bool;

    /// Chunks that another process may take.
    fn lendable(&self) -> usize;

    /// Its directory, of which it is an open item.
    fn work(&self) -> &Arc<DirWork>;
}

pub enum Task<K: Kinds> {
    /// A source root to be begun.
    Feed(usize),
    /// Directories of one parent to be made.
    Make(Vec<PendingDir>),
    List(Arc<DirWork>),
    Look(Arc<DirWork>, Vec<K::Name>),
    Effects(Arc<DirWork>, Vec<K::Effect>),
    Small(Arc<DirWork>, Vec<K::Small>),
    File(Arc<K::File>),
    Finish(Vec<Arc<DirWork>>),
    Verify(Vec<K::Check>),
    /// What another process did in a directory, which has it as an open item until this task has closed it.
    Reply(Arc<DirWork>, K::Reply),
    /// Directories that waited on disk cannot be read back.
    Lost(std::io::Error),
}

/// What a task counts as while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// It may yet find more to do.
    Walk,
    Large,
    Other,
}

impl<K: Kinds> Task<K> {
    pub fn lane(&self) -> Lane {
        match self {
            Task::Feed(_) | Task::Make(_) | Task::List(_) | Task::Look(..) | Task::Effects(..) => Lane::Walk,
            Task::File(_) => Lane::Large,
            Task::Small(..) | Task::Finish(_) | Task::Verify(_) | Task::Reply(..) | Task::Lost(_) => Lane::Other,
        }
    }
}

/// What looked-up names came to.
pub struct Planned<K: Kinds> {
    pub effects: Vec<K::Effect>,
    pub small: Vec<K::Small>,
    pub large: Vec<Arc<K::File>>,
    pub dirs: Vec<PendingDir>,
    /// Names that need nothing more.
    pub done: usize,
}

impl<K: Kinds> Default for Planned<K> {
    fn default() -> Self {
        Planned { effects: Vec::new(), small: Vec::new(), large: Vec::new(), dirs: Vec::new(), done: 0 }
    }
}

/// How much one task carries: about 20 ms of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    pub files: usize,
    pub names: usize,
    pub dirs: usize,
}

/// What one bundle may have.
#[derive(Clone, Copy, Debug)]
pub struct BundleLimit {
    pub bytes: u64,
    pub files: usize,
}
