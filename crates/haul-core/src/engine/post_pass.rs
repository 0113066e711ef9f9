//! Work that waits until everything has been transferred: hard links, deletes, directories that would lock haul out. Past a few
//! MiB it waits on disk; `after.rs` does it.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use crate::entry::{Dir, Entry, Name, Time};
use crate::schedule::DirWork;
use crate::spill::{Sorter, SpillQueue};

use super::reporter::Reporter;
use crate::lock::lock;

/// Bytes each queue keeps in memory.
pub const IN_MEMORY: usize = 2 << 20;

pub struct PostPass {
    /// Leader's path and link's path.
    pub links: Mutex<SpillQueue>,
    /// Names of files with many names that did not fit in memory, by device and inode.
    pub linked: Mutex<Option<Sorter>>,
    /// Names of files with several names, by inode: those that were met, and those that are placed, for a move.
    pub held: Mutex<Option<Sorter>>,
    pub to_delete: Mutex<SpillQueue>,
    /// Directories whose attributes come last, deepest first.
    pub dirs: Mutex<Option<Sorter>>,
    /// The source's directories that a move is done with, deepest first.
    pub emptied: Mutex<Option<Sorter>>,
    /// Names that the source has listed where the destination has the directory too: nothing is deleted for a source that lists none.
    pub listed: AtomicU64,
    /// Names that stand on both sides, of which a part may be allowed to be deleted.
    pub matched: AtomicU64,
    /// Names to delete with all below them, once they have been counted.
    pub counted: AtomicU64,
    /// Names that were deleted because something of another type took their place.
    pub replaced: AtomicU64,
}

/// Longer paths first is not enough; a parent sorts before its children, so the reverse is deepest first.
fn reversed(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    b.cmp(a)
}

impl PostPass {
    pub fn new(spill: &Path) -> Self {
        PostPass {
            links: Mutex::new(SpillQueue::new(spill, IN_MEMORY)),
            linked: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, <[u8]>::cmp))),
            held: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, <[u8]>::cmp))),
            to_delete: Mutex::new(SpillQueue::new(spill, IN_MEMORY)),
            dirs: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, reversed))),
            emptied: Mutex::new(Some(Sorter::new(spill, IN_MEMORY, reversed))),
            listed: AtomicU64::new(0),
            matched: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
        }
    }

    /// Without u+wx nothing could be made in it any more, by this run or by one that goes on with it.
    pub fn must_wait(&self, entry: &Entry) -> bool {
        entry.mode & 0o300 != 0o300
    }

    /// The directory's attributes are set (again) at the very end.
    pub fn dir(&self, out: &Reporter, work: &DirWork) {
        if let Some(entry) = &work.entry {
            sort(&self.dirs, out, &LateDir { root: work.root, mtime: entry.mtime, path: work.dir.path() }.encode());
        }
    }

    /// A directory in `above` that was opened to write in it gets its own mode at the very end.
    pub fn reopened(&self, out: &Reporter, above: &DirWork, entry: &Entry) {
        sort(&self.dirs, out, &LateDir { root: above.root, mtime: entry.mtime, path: entry.name.path() }.encode());
    }

    /// A name of a file with several names that is to be moved.
    pub fn met(&self, out: &Reporter, ino: u64) {
        sort(&self.held, out, &[&ino.to_be_bytes()[..], &[0]].concat());
    }

    /// The copy of such a name, an encoded `Alias`, is verified or linked.
    pub fn placed(&self, out: &Reporter, ino: u64, alias: &[u8]) {
        sort(&self.held, out, &[&ino.to_be_bytes()[..], &[1], alias].concat());
    }

    /// Everything in this directory of the source has been dealt with.
    pub fn emptied(&self, out: &Reporter, work: &DirWork) {
        let mut record = (work.root as u32).to_be_bytes().to_vec();
        record.extend(work.dir.path());
        sort(&self.emptied, out, &record);
    }
}

/// Gives a record to a sorter that has not been finished yet.
pub fn sort(into: &Mutex<Option<Sorter>>, out: &Reporter, record: &[u8]) {
    if let Some(sorter) = lock(into).as_mut() {
        out.spilled(sorter.push(record));
    }
}

/// What a sorter was given, in order. What cannot be read back is a failure of the run and ends it.
pub fn sorted(from: &Mutex<Option<Sorter>>, out: &Reporter) -> impl Iterator<Item = Vec<u8>> {
    let sorted = lock(from).take().and_then(|sorter| sorter.finish().map_err(|e| out.spilled(Err(e))).ok());
    sorted.into_iter().flatten().map_while(|record| record.map_err(|e| out.spilled(Err(e))).ok())
}

/// A directory that gets its attributes last. Its time is kept here, since removing names at the source changes it.
pub struct LateDir {
    pub root: usize,
    pub mtime: Time,
    path: Vec<u8>,
}

impl LateDir {
    /// By path first, so that records sort as paths do.
    fn encode(self) -> Vec<u8> {
        let mut record = self.path;
        record.push(0);
        record.extend((self.root as u32).to_le_bytes());
        record.extend(self.mtime.secs.to_le_bytes());
        record.extend(self.mtime.nanos.to_le_bytes());
        record
    }

    pub fn decode(record: &[u8]) -> Option<Self> {
        let (rest, nanos) = record.split_last_chunk::<4>()?;
        let (rest, secs) = rest.split_last_chunk::<8>()?;
        let (path, root) = rest.split_last_chunk::<4>()?;
        let mtime = Time { secs: i64::from_le_bytes(*secs), nanos: u32::from_le_bytes(*nanos) };
        Some(LateDir { root: u32::from_le_bytes(*root) as usize, mtime, path: path.strip_suffix(b"\0")?.to_vec() })
    }

    pub fn name(&self) -> Option<Name> {
        Name::parse(&Dir::root(), &self.path)
    }
}
