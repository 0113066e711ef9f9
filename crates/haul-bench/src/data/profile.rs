//! What a real tree looks like: how large its files are, how deep, how many in a directory, how long their names. Histograms
//! only, so that a tree of any size fits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask};
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, Result};
use haul_local::{Local, Options};

use super::law::Law;
use super::skeleton::{MOST_DEPTH, Row, hang};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Regular files, each once however many names it has.
    pub files: u64,
    pub bytes: u64,
    pub symlinks: u64,
    /// Names of files beyond their first.
    pub hard_links: u64,
    /// Without the top.
    pub dirs: u64,
    /// Devices, pipes and sockets, of which none are made.
    pub specials: u64,
    /// (bytes of the name, how many).
    pub file_names: Vec<(u8, u64)>,
    pub dir_names: Vec<(u8, u64)>,
    sizes: BTreeMap<u16, Bucket>,
    rows: BTreeMap<(u32, u8), Row>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bucket {
    count: u64,
    total: u64,
}

/// Steps of the histogram of sizes in each power of two.
const STEPS: u32 = 3;

/// Sizes that differ by less than an eighth share a step; below 16 bytes each has its own.
fn size_step(size: u64) -> u16 {
    if size < 16 {
        return size as u16;
    }
    let exponent = size.ilog2();
    (16 + ((exponent - 4) << STEPS) + ((size >> (exponent - STEPS)) & 7) as u32) as u16
}

/// Directories with as many entries to a factor of the square root of two share a row.
fn crowd(entries: u64) -> u8 {
    if entries == 0 {
        0
    } else {
        (1 + 2 * entries.ilog2() + u32::from(entries.ilog2() > 0 && entries >> (entries.ilog2() - 1) & 1 == 1)) as u8
    }
}

impl Profile {
    pub fn file(&mut self, size: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size);
        let bucket = self.sizes.entry(size_step(size)).or_default();
        (bucket.count, bucket.total) = (bucket.count + 1, bucket.total.saturating_add(size));
    }

    pub fn name(&mut self, name: &[u8], dir: bool) {
        let length = name.len().clamp(1, 255) as u8;
        let lengths = if dir { &mut self.dir_names } else { &mut self.file_names };
        match lengths.binary_search_by_key(&length, |(length, _)| *length) {
            Ok(at) => lengths[at].1 += 1,
            Err(at) => lengths.insert(at, (length, 1)),
        }
    }

    /// A directory with so many files and links, and so many directories, directly in it.
    pub fn dir(&mut self, depth: u32, entries: u64, subdirs: u64) {
        let depth = depth.min(MOST_DEPTH);
        self.dirs += u64::from(depth > 0);
        let row = self.rows.entry((depth, crowd(entries))).or_insert(Row { depth, ..Row::default() });
        (row.dirs, row.entries, row.subdirs) = (row.dirs + 1, row.entries + entries, row.subdirs + subdirs);
    }

    /// Directories whose entries could not be listed count as empty.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.rows.values().copied().collect();
        hang(&mut rows);
        rows
    }

    /// A law for every step of the histogram, `count` files in all.
    pub fn sizes(&self, count: u64) -> Vec<Law> {
        let part = |n: u64| (u128::from(n) * u128::from(count) / u128::from(self.files.max(1))) as u64;
        let mut seen = 0;
        self.sizes
            .values()
            .filter_map(|bucket| {
                let before = part(seen);
                seen += bucket.count;
                let own = part(seen) - before;
                let total = (u128::from(bucket.total) * u128::from(own) / u128::from(bucket.count)) as u64;
                (own > 0).then_some(Law::Even { count: own, total })
            })
            .collect()
    }
}

#[derive(Default)]
struct Found {
    profile: Profile,
    /// Files and links, and directories, directly in each directory.
    dirs: HashMap<Vec<u8>, (u64, u64)>,
    /// Files with several names: device and inode.
    links: HashSet<(u64, u64)>,
}

/// What a tree looks like. Directories that cannot be read count as empty and are passed to `unreadable`. `spill` is a directory
/// for names that do not fit into memory.
pub fn read(dir: &Path, threads: usize, cancel: &Cancel, spill: &Path, unreadable: &(dyn Fn(Error) + Sync)) -> Result<Profile> {
    let store = Local::open(dir, Options::default())?;
    let found = Mutex::new(Found { dirs: [(Vec::new(), (0, 0))].into(), ..Found::default() });
    let visit = |entry: &Entry| {
        found.lock().unwrap_or_else(PoisonError::into_inner).note(entry);
        Descend::Yes
    };
    let survey = Survey { store: &store, threads, want: MetaMask::NONE, cancel, spill };
    survey.run(&Dir::root(), &visit, &|e, _| unreadable(e))?;
    let Found { mut profile, dirs, .. } = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (path, (entries, subdirs)) in dirs {
        let depth = if path.is_empty() { 0 } else { path.split(|byte| *byte == b'/').count() as u32 };
        profile.dir(depth, entries, subdirs);
    }
    Ok(profile)
}

impl Found {
    fn note(&mut self, entry: &Entry) {
        let is_dir = entry.kind == Kind::Dir;
        match entry.kind {
            Kind::Dir => {
                self.dirs.entry(entry.name.path()).or_default();
            }
            Kind::File if entry.nlink > 1 && !self.links.insert((entry.dev, entry.ino)) => self.profile.hard_links += 1,
            Kind::File => self.profile.file(entry.size),
            Kind::Link => self.profile.symlinks += 1,
            _ => {
                self.profile.specials += 1;
                return;
            }
        }
        self.profile.name(&entry.name.leaf, is_dir);
        let above = self.dirs.entry(entry.name.dir.path()).or_default();
        if is_dir { above.1 += 1 } else { above.0 += 1 }
    }
}
