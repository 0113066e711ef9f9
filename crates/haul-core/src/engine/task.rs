//! The kinds of work of this engine, as its scheduler keeps them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::entry::{Entry, Name as Path};
use crate::plan::Step;
use crate::schedule::{self, DirWork, Kinds, SmallWork};
use crate::store::Chunk;

use super::file::open_file::{OpenFile, Reference};

/// The engine's kinds of work.
pub struct Work;

impl Kinds for Work {
    type Name = Name;
    type Effect = Effect;
    type Small = Small;
    type File = OpenFile;
    type Check = Check;
    type Reply = Reply;
}

pub type Task = schedule::Task<Work>;
pub type Scheduler = schedule::Scheduler<Work>;

/// Another process is done with what it took of a directory.
#[derive(Debug)]
pub enum Reply {
    /// Whether something was made in the directory.
    Done { touched: bool },
    /// Of chunks of a file, of which these were not landed.
    Chunks(Arc<OpenFile>, Vec<Chunk>),
    /// It was not lent after all.
    Nothing,
}

/// A name that a listing found, on its way to the planner.
#[derive(Debug)]
pub struct Name {
    pub entry: Entry,
    pub there: DestinationState,
}

/// What is known of the same name at the destination.
#[derive(Clone, Debug)]
pub enum DestinationState {
    /// To be looked up.
    Unknown,
    Absent,
    Listed(Box<Entry>),
}

impl DestinationState {
    /// Of a name that was not looked for in a directory.
    pub fn in_dir(work: &DirWork) -> DestinationState {
        if work.fresh { DestinationState::Absent } else { DestinationState::Unknown }
    }
}

/// What has to be done before the rest of the plan of one name is known, or in place of a copy.
#[derive(Debug)]
pub enum Effect {
    /// `mv` on one file system: the name is given away with all that is below it, or else copied.
    Rename(Entry),
    /// Something of another kind is in the way.
    Clear { entry: Entry, target: Entry },
    /// A directory of ours that is closed to us is opened, so that something can be made in it.
    Open { entry: Entry, target: Entry, step: Step },
    /// A new file that a tree of references has too, linked, or else copied.
    Link { entry: Entry, step: Step, equal: Vec<Reference> },
    /// A move of what the destination has already.
    RemoveSource(Entry),
}

/// Something small to do in a directory.
#[derive(Debug)]
pub struct Small {
    pub entry: Entry,
    pub step: Step,
    /// A rerun of a name whose bundle was begun and not finished.
    pub staged: bool,
}

impl SmallWork for Small {
    fn bytes(&self) -> u64 {
        self.entry.size
    }
}

/// A small file that has landed and is to be read back.
#[derive(Debug)]
pub struct Check {
    pub work: Arc<DirWork>,
    /// As it was read from the source.
    pub entry: Entry,
    pub hash: u128,
    pub step: Step,
    /// The staging name that it still has.
    pub held: Option<Path>,
    /// The intent of its bundle.
    pub placing: Option<Arc<Placing>>,
}

/// An intent that is done when all the files of its bundle have been verified.
#[derive(Debug)]
pub struct Placing {
    pub bundle: u32,
    pub left: AtomicUsize,
}

impl Placing {
    pub fn new(bundle: u32, files: usize) -> Arc<Self> {
        Arc::new(Placing { bundle, left: AtomicUsize::new(files) })
    }
}
