//! Whether a copy is correct, and which attributes it preserves. Outside of the measured time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    found: u64,
    wrong: u64,
    named: Vec<String>,
    /// Of any name.
    modes_differ: bool,
    times_differ: bool,
    times_to_the_second: bool,
    links_left_out: bool,
    links_followed: bool,
    /// Inodes of the copy, by those of the source; and whether some are several that should be one.
    inodes: HashMap<u64, u64>,
    links_broken: bool,
}

impl Tally {
    fn wrong(&mut self, path: &[u8], what: &str) {
        self.wrong += 1;
        if self.named.len() < NAMED {
            self.named.push(format!("{}: {what}", show(path)));
        }
    }
}

struct Check<'a> {
    source: &'a Source,
    copy: &'a dyn Store,
    threads: usize,
    cancel: &'a Cancel,
    tally: Mutex<Tally>,
}

/// Compares everything below `copy` with the source. Errors: the copy cannot be listed; `Cancelled`.
pub fn check(source: &Source, copy: &dyn Store, threads: usize, cancel: &Cancel) -> Result<Verification> {
    let check = Check { source, copy, threads, cancel, tally: Mutex::default() };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !cancel.is_set() {
                    let Some(batch) = source.records.chunks(BATCH).nth(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    // Neighbours are often of one directory, which is looked up once.
                    batch.chunk_by(|a, b| above(&a.path) == above(&b.path)).for_each(|group| check.group(group));
                }
            });
        }
    });
    cancel.check()?;
    // Behind a link that was followed lie names that the source's list does not have.
    if !check.tally().links_followed {
        check.surplus()?;
    }
    let kept = check.kept();
    let tally = check.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Verification { kept, wrong: tally.wrong, named: tally.named })
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

impl Check<'_> {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the records of one directory.
    fn group(&self, group: &[Record]) {
        let Some(dir) = dir_at(above(&group[0].path)) else {
            group.iter().for_each(|record| self.tally().wrong(&record.path, "no name for the destination"));
            return;
        };
        let leaves: Vec<&[u8]> = group.iter().map(|record| leaf(&record.path)).collect();
        let has_dirs = self.copy.caps().dirs;
        for (record, found) in group.iter().zip(self.copy.stat_many(&dir, &leaves, MetaMask::NONE, false)) {
            if self.cancel.is_set() {
                return;
            }
            match found {
                Found::Entry(entry) => {
                    self.tally().found += u64::from(entry.kind != Kind::Dir || has_dirs);
                    self.compare(record, &entry);
                }
                Found::Absent if record.kind == Kind::Link => self.tally().links_left_out = true,
                Found::Absent if record.kind == Kind::Dir && !has_dirs => {}
                Found::Absent => self.tally().wrong(&record.path, "missing"),
                Found::Failed(e) => self.tally().wrong(&record.path, &e.reason()),
            }
        }
    }

    fn compare(&self, record: &Record, entry: &Entry) {
        let wrong = |what: &str| self.tally().wrong(&record.path, what);
        if record.kind == Kind::Link {
            return match entry.kind {
                Kind::Link if entry.target.as_deref().unwrap_or_default() == record.target => {}
                Kind::Link => wrong("a symlink with another target"),
                _ => self.tally().links_followed = true,
            };
        }
        if entry.kind != record.kind {
            return wrong(&format!("{} instead of {}", entry.kind.word(), record.kind.word()));
        }
        if record.kind == Kind::File {
            if entry.size != record.size {
                return wrong(&format!("{} bytes instead of {}", entry.size, record.size));
            }
            match hash(self.copy, entry, self.cancel) {
                Ok(hash) if hash == record.hash => {}
                Ok(_) => return wrong("different content"),
                Err(_) if self.cancel.is_set() => return,
                Err(e) => return wrong(&e.reason()),
            }
            let mut tally = self.tally();
            match entry.have.has(MetaMask::MTIME) && entry.mtime.secs == record.mtime.secs {
                true if entry.mtime.nanos == record.mtime.nanos => {}
                true if entry.mtime.nanos == 0 => tally.times_to_the_second = true,
                _ => tally.times_differ = true,
            }
            if record.shared != 0 && (tally.inodes.len() < LINKS_KEPT || tally.inodes.contains_key(&record.shared)) {
                let first = *tally.inodes.entry(record.shared).or_insert(entry.ino);
                tally.links_broken |= first != entry.ino || entry.ino == 0;
            }
        }
        // The setuid and setgid bits are for root alone, and directories inherit them.
        if !entry.have.has(MetaMask::MODE) || entry.mode & 0o777 != record.mode & 0o777 {
            self.tally().modes_differ = true;
        }
    }

    /// Counts the names below the copy: those that the source does not have are wrong.
    fn surplus(&self) -> Result<()> {
        let Check { source, copy, threads, cancel, .. } = *self;
        let has_dirs = copy.caps().dirs && source.has_dirs;
        let (count, stranger) = (AtomicUsize::new(0), Mutex::new(None));
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
        survey.run(&Dir::root(), &visit, &|e, _| self.tally().wrong(e.path().unwrap_or_default(), &e.reason()))?;
        let mut tally = self.tally();
        match (count.into_inner() as u64).saturating_sub(tally.found) {
            0 => {}
            more => match stranger.into_inner().unwrap_or_else(PoisonError::into_inner) {
                Some(path) => tally.wrong(&path, "an unexpected name beside the copy"),
                None => tally.wrong(&source.name, &format!("{more} names that the source does not have")),
            },
        }
        Ok(())
    }

    fn kept(&self) -> String {
        let (tally, caps) = (self.tally(), self.copy.caps());
        let sets = caps.attributes.lists.with(caps.attributes.sets);
        let mut words = Vec::new();
        if !tally.modes_differ && sets.has(MetaMask::MODE) {
            words.push("mode");
        }
        if !tally.times_differ && sets.has(MetaMask::MTIME) {
            // SFTP shows whole seconds only.
            words.push(match tally.times_to_the_second {
                _ if self.source.resolution.max(caps.attributes.mtime_resolution) >= Duration::from_secs(1) => "mtime (seen to 1 s)",
                false => "mtime",
                true => "mtime to 1 s",
            });
        }
        if self.source.links > 0 {
            words.push(match (tally.links_left_out, tally.links_followed) {
                (false, false) => "links",
                (true, _) => "links left out",
                (false, true) => "links followed",
            });
        }
        if !tally.inodes.is_empty() && !tally.links_broken {
            words.push("hard links");
        }
        if words.is_empty() { "none".to_string() } else { words.join(", ") }
    }
}
