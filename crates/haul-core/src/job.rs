//! What is to be done: the program makes it from flags, the engine reads it. No strings to parse in here.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, MetaMask, Name, Time};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::plan::Policy;
use crate::spec::Deletion;
use crate::spill::Sorted;
use crate::store::Store;

/// One place to copy from.
#[derive(Clone)]
pub struct Root {
    pub store: Arc<dyn Store>,
    pub pick: Pick,
    /// Set for a move within one file system, which renames entries that the destination does not have: the destination's device.
    pub renames: Option<u64>,
}

impl Root {
    pub fn new(store: Arc<dyn Store>, pick: Pick) -> Self {
        Root { store, pick, renames: None }
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root").field("store", &self.store).field("pick", &self.pick).finish_non_exhaustive()
    }
}

/// Paths below a root, sorted in the order of `entry::order` applied part by part, each once. They are read once, in order.
#[derive(Debug)]
pub struct Listed(Mutex<Option<Sorted>>);

impl Listed {
    pub fn new(paths: Sorted) -> Self {
        Listed(Mutex::new(Some(paths)))
    }

    /// The paths; none if they were taken before.
    pub fn take(&self) -> impl Iterator<Item = Result<Vec<u8>>> + use<> {
        let sorted = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        sorted.into_iter().flatten().map(|path| path.map_err(|e| Error::io(e, "sort list")))
    }
}

/// What of a root is meant.
#[derive(Clone)]
pub enum Pick {
    /// `SRC/`: all that is in it, and its own attributes for the destination directory.
    Contents,
    /// `SRC`: these names of it.
    Names(BTreeSet<Vec<u8>>),
    /// These paths below it.
    Listed(Arc<Listed>),
}

impl Pick {
    /// Whether a name may be among what is meant.
    pub fn means(&self, name: &Name) -> bool {
        match self {
            Pick::Names(names) => name.path().split(|b| *b == b'/').next().is_some_and(|first| names.contains(first)),
            _ => true,
        }
    }
}

impl fmt::Debug for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pick::Contents => f.write_str("Contents"),
            Pick::Names(names) => f.debug_tuple("Names").field(&names.len()).finish(),
            Pick::Listed(_) => f.write_str("Listed"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// cp and sync.
    Copy,
    /// check: compares and reports, writes nothing.
    Check,
}

/// Size and time bounds of the source's files: what is outside is not copied, and never selects deletes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bounds {
    pub min_size: Option<u64>,
    pub max_size: Option<u64>,
    /// mtime after this.
    pub newer: Option<Time>,
    /// mtime before this.
    pub older: Option<Time>,
}

impl Bounds {
    pub fn admit(&self, entry: &Entry) -> bool {
        self.min_size.is_none_or(|n| entry.size >= n)
            && self.max_size.is_none_or(|n| entry.size <= n)
            && self.newer.is_none_or(|t| entry.mtime > t)
            && self.older.is_none_or(|t| entry.mtime < t)
    }
}

/// Which links and special files come along, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Links {
    /// Copy symlinks as symlinks; else they are skipped.
    pub copy: bool,
    /// Copy what they point to.
    pub follow: bool,
    /// Leave out those that point outside the tree.
    pub safe: bool,
    /// A symlink to a directory at the destination counts as the directory, if it stays beneath the root.
    pub keep_dirlinks: bool,
    /// Names that share a file share one at the destination too.
    pub hard: bool,
    /// FIFOs, sockets, devices.
    pub specials: bool,
    /// Of these, devices.
    pub devices: bool,
}

/// Symlinks as symlinks, no special files, names that share a file apart.
impl Default for Links {
    fn default() -> Self {
        Links { copy: true, follow: false, safe: false, keep_dirlinks: false, hard: false, specials: false, devices: true }
    }
}

#[derive(Clone, Debug)]
pub struct Job {
    pub mode: Mode,
    pub roots: Vec<Root>,
    pub target: Arc<dyn Store>,
    /// For one file copied to another name: the leaf it gets.
    pub rename: Option<Vec<u8>>,
    pub policy: Policy,
    pub links: Links,
    pub filter: Filter,
    pub bounds: Bounds,
    /// Attributes to keep.
    pub keep: MetaMask,
    /// Holes are preserved.
    pub sparse: bool,
    /// Existing files are written into; an interruption leaves partial ones.
    pub in_place: bool,
    /// Of a large file that replaces another only what differs is moved, where both ends can tell.
    pub delta: bool,
    /// The walk stays on the file system of each root.
    pub one_file_system: bool,
    /// Everything is on stable storage before the end.
    pub sync: bool,
    pub verify: bool,
    /// `None`: nothing is deleted.
    pub deletion: Option<Deletion>,
    /// For what is replaced or deleted: a path below the destination's root.
    pub backup: Option<Vec<u8>>,
    /// Each source entry is deleted once its copy is verified.
    pub remove_source: bool,
    /// mv: the source's directories go too, if nothing is left in them.
    pub remove_dirs: bool,
    /// check: only what is missing or differs at the destination.
    pub one_way: bool,
    pub dry: bool,
    /// `None` is tuned.
    pub workers: Option<u32>,
    /// Workers of one file at the most.
    pub writers: Option<u32>,
    /// Bytes.
    pub chunk: u64,
    /// A file of up to so many bytes is one chunk where the destination takes parts: each part costs a request, and so do
    /// their beginning and their end.
    pub one_part: u64,
    /// Bytes a second.
    pub limit: Option<u64>,
    pub retries: crate::retry::Policy,
    /// One progress event this often.
    pub progress: Duration,
    pub deadline: Option<Duration>,
    /// The run stops when nothing has moved, been found or been compared for so long.
    pub timeout: Option<Duration>,
    /// Trees beside the destination, on the same file system: what is equal in one is linked, not copied. The first wins.
    pub link_dest: Vec<Arc<dyn Store>>,
    /// Whether listings are taken in order and by one worker, so that the output is in order too.
    pub ordered: bool,
    /// Directories of the source, by device and inode, that are never entered: the destination, if it lies inside.
    pub avoid: Vec<(u64, u64)>,
    /// A directory of this machine, by device and inode, that is never deleted: where the journals are.
    pub state: Option<(u64, u64)>,
    /// With a list of paths: go into listed directories.
    pub recurse_listed: bool,
    /// The owner and group that entries get; `None` keeps what the source has.
    pub owner: Option<(Option<u32>, Option<u32>)>,
    /// Owners between machines by number, not by name.
    pub numeric_ids: bool,
    /// Applied in order.
    pub chmod: Vec<ModeChange>,
}

impl Job {
    /// Whether excluded entries of the destination are deleted too.
    pub fn deletes_excluded(&self) -> bool {
        self.deletion.is_some_and(|deletion| deletion.excluded)
    }

    /// A copy of what is in `source`, with the defaults of `haul cp`.
    pub fn copying(source: Arc<dyn Store>, target: Arc<dyn Store>) -> Job {
        Job::new(Mode::Copy, vec![Root::new(source, Pick::Contents)], target)
    }

    /// Nothing is asked for but what `haul cp` does anyway.
    pub fn new(mode: Mode, roots: Vec<Root>, target: Arc<dyn Store>) -> Job {
        Job {
            mode,
            roots,
            target,
            rename: None,
            policy: Policy::DEFAULT,
            links: Links { hard: true, specials: true, ..Links::default() },
            filter: Filter::default(),
            bounds: Bounds::default(),
            keep: MetaMask::MTIME.with(MetaMask::MODE),
            sparse: false,
            in_place: false,
            delta: false,
            one_file_system: false,
            sync: false,
            verify: false,
            deletion: None,
            backup: None,
            remove_source: false,
            remove_dirs: false,
            one_way: false,
            dry: false,
            workers: None,
            writers: None,
            chunk: 8 << 20,
            one_part: 0,
            limit: None,
            retries: crate::retry::Policy::default(),
            progress: Duration::from_secs(60),
            deadline: None,
            timeout: None,
            link_dest: Vec::new(),
            ordered: false,
            avoid: Vec::new(),
            state: None,
            recurse_listed: false,
            owner: None,
            numeric_ids: false,
            chmod: Vec::new(),
        }
    }
}

/// One clause of a change of modes: for files, directories or both, what is added, removed or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeChange {
    pub files: bool,
    pub dirs: bool,
    /// `mode = (mode & keep) | add`; then, for `X`, `add_if_exec` where any execute bit is set or it is a directory.
    pub keep: u32,
    pub add: u32,
    pub add_if_exec: u32,
    /// `g=u`: what a class may, by the mode before.
    pub copy: Option<ClassCopy>,
}

/// The permissions of one class, given to others or taken from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassCopy {
    /// Bits by which those of the class are shifted: 6, 3 or 0.
    pub from: u32,
    /// One bit for each class that gets them, at its execute place.
    pub to: u32,
    /// Bits that may be set or taken.
    pub mask: u32,
    pub take: bool,
}

impl ModeChange {
    /// The permission bits, `0o7777`, after some changes in their order.
    pub fn apply(changes: &[ModeChange], mode: u32, is_dir: bool) -> u32 {
        changes.iter().filter(|change| if is_dir { change.dirs } else { change.files }).fold(mode, |mode, change| {
            let executable = is_dir || mode & 0o111 != 0;
            let extra = if executable { change.add_if_exec } else { 0 };
            let after = mode & change.keep | change.add | extra;
            change.copy.map_or(after, |copy| {
                let bits = (((mode >> copy.from) & 7) * copy.to) & copy.mask;
                if copy.take { after & !bits } else { after | bits }
            })
        })
    }
}
