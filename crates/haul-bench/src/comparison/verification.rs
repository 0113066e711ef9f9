//! Whether a copy is correct, and which attributes it preserves. Outside of the measured time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, show};
use haul_core::error::Result;
use haul_core::store::{Found, Store};
use haul_core::survey::{Descend, Survey};

use super::source::{Record, Source, hash};

/// Names that a thread takes at once.
const BATCH: usize = 256;
/// Wrong things that are named.
const NAMED: usize = 3;
/// Hard links that are followed up.
const LINKS_KEPT: usize = 1 << 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Names that are missing, too many, of another kind or size or content.
    pub wrong: u64,
    /// The first of them, in words.
    pub named: Vec<String>,
    /// The attributes that were preserved: `mode`, `mtime`, `links`, ... or `none`.
    pub kept: String,
}

#[derive(Debug, Default)]
struct Tally {
    found: AtomicU64,
    wrong: AtomicU64,
    named: Mutex<Vec<String>>,
    modes_differ: AtomicU64,
    times_differ: AtomicU64,
    times_to_the_second: AtomicU64,
    links_kept: AtomicU64,
    links_left_out: AtomicU64,
    links_followed: AtomicU64,
    /// Inodes of the copy, by those of the source; and whether they are one where they should be.
    shared: Mutex<(HashMap<u64, u64>, bool)>,
}

impl Tally {
    fn wrong(&self, path: &[u8], what: &str) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < NAMED {
            named.push(format!("{}: {what}", show(path)));
        }
    }
}

/// Compares everything below `copy` with the source. Errors: the copy cannot be listed; `Cancelled`.
pub fn check(source: &Source, copy: &dyn Store, threads: usize, cancel: &Cancel) -> Result<Verification> {
    let tally = Tally { shared: Mutex::new((HashMap::new(), true)), ..Tally::default() };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut at = None;
                while !cancel.is_set() {
                    let Some(batch) = source.records.chunks(BATCH).nth(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    compare_batch(batch, copy, &mut at, &tally, cancel);
                }
            });
        }
    });
    cancel.check()?;
    // Behind a link that was followed lie names that the source's list does not have.
    if tally.links_followed.load(Ordering::Relaxed) == 0 {
        surplus(source, copy, threads, &tally, cancel)?;
    }
    Ok(Verification {
        kept: kept(source, &tally, copy),
        wrong: tally.wrong.into_inner(),
        named: tally.named.into_inner().unwrap_or_default(),
    })
}

/// Neighbours are often of one directory, which is looked up once.
fn compare_batch(batch: &[Record], copy: &dyn Store, at: &mut Option<(Vec<u8>, Dir)>, tally: &Tally, cancel: &Cancel) {
    for group in batch.chunk_by(|a, b| above(&a.path) == above(&b.path)) {
        let path = above(&group[0].path);
        let dir = match at {
            Some((known, dir)) if known == path => dir.clone(),
            _ => {
                let Some(dir) = dir_at(path) else {
                    tally.wrong(&group[0].path, "no name for the destination");
                    continue;
                };
                *at = Some((path.to_vec(), dir.clone()));
                dir
            }
        };
        let leaves: Vec<&[u8]> = group.iter().map(|record| leaf(&record.path)).collect();
        for (record, found) in group.iter().zip(copy.stat_many(&dir, &leaves, MetaMask::NONE, false)) {
            if cancel.is_set() {
                return;
            }
            match found {
                Found::Entry(entry) => {
                    if entry.kind != Kind::Dir || copy.caps().dirs {
                        tally.found.fetch_add(1, Ordering::Relaxed);
                    }
                    compare(record, &entry, copy, tally, cancel);
                }
                Found::Absent if record.kind == Kind::Link => {
                    tally.links_left_out.fetch_add(1, Ordering::Relaxed);
                }
                Found::Absent if record.kind == Kind::Dir && !copy.caps().dirs => {}
                Found::Absent => tally.wrong(&record.path, "missing"),
                Found::Failed(e) => tally.wrong(&record.path, &e.reason()),
            }
        }
    }
}

fn above(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |at| &path[..at])
}

fn leaf(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

fn dir_at(path: &[u8]) -> Option<Dir> {
    if path.is_empty() {
        return Some(Dir::root());
    }
    let name = Name::parse(&Dir::root(), path)?;
    Some(name.dir.child(&name.leaf))
}

fn compare(record: &Record, entry: &Entry, copy: &dyn Store, tally: &Tally, cancel: &Cancel) {
    if record.kind == Kind::Link {
        let counter = match entry.kind {
            Kind::Link if entry.target.as_deref().unwrap_or_default() == record.target => &tally.links_kept,
            Kind::Link => return tally.wrong(&record.path, "a symlink with another target"),
            _ => &tally.links_followed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if entry.kind != record.kind {
        return tally.wrong(&record.path, &format!("{} instead of {}", entry.kind.word(), record.kind.word()));
    }
    if record.kind == Kind::File {
        if entry.size != record.size {
            return tally.wrong(&record.path, &format!("{} bytes instead of {}", entry.size, record.size));
        }
        match hash(copy, entry, cancel) {
            Ok(hash) if hash == record.hash => {}
            Ok(_) => return tally.wrong(&record.path, "different content"),
            Err(_) if cancel.is_set() => return,
            Err(e) => return tally.wrong(&record.path, &e.reason()),
        }
        let has_time = entry.have.has(MetaMask::MTIME);
        let counter = match has_time && entry.mtime.secs == record.mtime.secs {
            true if entry.mtime.nanos == record.mtime.nanos => None,
            true if entry.mtime.nanos == 0 => Some(&tally.times_to_the_second),
            _ => Some(&tally.times_differ),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if record.shared != 0 {
            let mut shared = tally.shared.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.0.len() < LINKS_KEPT || shared.0.contains_key(&record.shared) {
                let first = *shared.0.entry(record.shared).or_insert(entry.ino);
                shared.1 &= first == entry.ino && entry.ino != 0;
            }
        }
    }
    // The setuid and setgid bits are for root alone, and directories inherit them.
    if !entry.have.has(MetaMask::MODE) || entry.mode & 0o777 != record.mode & 0o777 {
        tally.modes_differ.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts the names below the copy: those that the source does not have are wrong.
fn surplus(source: &Source, copy: &dyn Store, threads: usize, tally: &Tally, cancel: &Cancel) -> Result<()> {
    let count = AtomicU64::new(0);
    let has_dirs = copy.caps().dirs && source.has_dirs;
    let stranger = Mutex::new(None);
    let visit = |entry: &Entry| {
        if entry.kind != Kind::Dir || has_dirs {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let path = entry.name.path();
        if path != source.name && !path.starts_with(&[&source.name[..], b"/"].concat()) {
            stranger.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(path);
        }
        Descend::Yes
    };
    let spill = std::env::temp_dir();
    let survey = Survey { store: copy, threads, want: MetaMask::NONE, cancel, spill: &spill };
    survey.run(&Dir::root(), &visit, &|e, _| tally.wrong(e.path().unwrap_or_default(), &e.reason()))?;
    let found = tally.found.load(Ordering::Relaxed);
    let more = count.into_inner().saturating_sub(found);
    if more > 0 {
        match stranger.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(path) => tally.wrong(&path, "an unexpected name beside the copy"),
            None => tally.wrong(&source.name, &format!("{more} names that the source does not have")),
        }
    }
    Ok(())
}

fn kept(source: &Source, tally: &Tally, copy: &dyn Store) -> String {
    let none = |counter: &AtomicU64| counter.load(Ordering::Relaxed) == 0;
    let sets = copy.caps().attributes.lists.with(copy.caps().attributes.sets);
    let mut words = Vec::new();
    if none(&tally.modes_differ) && sets.has(MetaMask::MODE) {
        words.push("mode");
    }
    if none(&tally.times_differ) && sets.has(MetaMask::MTIME) {
        // SFTP shows whole seconds only.
        let coarse = source.resolution.max(copy.caps().attributes.mtime_resolution) >= Duration::from_secs(1);
        words.push(match none(&tally.times_to_the_second) {
            _ if coarse => "mtime (seen to 1 s)",
            true => "mtime",
            false => "mtime to 1 s",
        });
    }
    if source.links > 0 {
        words.push(match (none(&tally.links_left_out), none(&tally.links_followed)) {
            (true, true) => "links",
            (false, _) => "links left out",
            (true, false) => "links followed",
        });
    }
    let shared = tally.shared.lock().unwrap_or_else(PoisonError::into_inner);
    if !shared.0.is_empty() && shared.1 {
        words.push("hard links");
    }
    if words.is_empty() { "none".to_string() } else { words.join(", ") }
}
