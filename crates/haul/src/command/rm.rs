//! `haul rm`: a file, or a directory with all that is in it, by all processors and ranks.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::place::OpenOptions;
use haul_core::pool::{Item, Pool, Stage};
use haul_core::spill::Sorter;
use haul_core::store::{Flow, remove_emptied};
use haul_core::survey::{self, Descend, Piece, Survey, Visitor};
use haul_core::team::wire::{Cursor, put_bytes};
use haul_core::{Error, ErrorKind, Result, varint};
use haul_run::location::Location;
use haul_run::open::{self, Argument};
use haul_run::scope::{self, Scope};
use haul_s3::admin;

use super::du::Chosen;
use super::files::Failures;
use crate::ranks::shared::{self, Outbox, Shared};

#[derive(Clone, Copy, Debug)]
pub struct Rm<'a> {
    pub recursive: bool,
    /// The home and the working directory and mount points may be removed.
    pub force: bool,
    /// A missing name is no failure.
    pub quiet_missing: bool,
    pub dry: bool,
    pub threads: usize,
    /// Only what filters choose; `None` is all.
    pub chosen: Option<Chosen<'a>>,
}

/// Records for rank 0: a directory to be removed, a number of failures.
const DIR: u8 = 0;
const FAILURES: u8 = 1;
/// What all ranks do with an argument: everything but directories is removed, then those of one depth.
const WALK: u8 = 0;
const DIRS: u8 = 1;
/// Batches of keys.
pub const KEYS: u8 = 2;
/// Directories that a rank removes together.
const DIRS_TOGETHER: usize = 64;

/// Removes a file, or a directory with all that is in it. Returns how many names could not be removed.
pub fn rm(
    asked: &Argument<'_>,
    how: Rm<'_>,
    cancel: &Cancel,
    failed: &(dyn Fn(&Error) + Sync),
    each: &(dyn Fn(&Entry) + Sync),
    ranks: Option<Shared<'_>>,
) -> Result<Failures> {
    let path = &asked.path[..];
    let refused = |why: &str| Error::new(ErrorKind::Usage, "remove").at(path).because(why);
    match asked.location.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default() {
        b"." | b".." => {
            let e = refused("a name that ends in . or .. is not removed");
            return Err(e.hint("name the directory by its path in its parent directory"));
        }
        b"" if asked.location.path == b"/" => return Err(refused("it is the root directory")),
        _ => {}
    }
    let opened = open::name_of(asked)?;
    let name = opened.name();
    let entry = match opened.stat() {
        Err(e) if e.kind() == ErrorKind::NotFound && how.quiet_missing => return Ok(0),
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(open::missing_operand(path, asked.hosts)),
        other => other?,
    };
    if entry.kind != Kind::Dir && asked.location.trailing_slash {
        let e = refused("is not a directory");
        return Err(if entry.kind == Kind::Link { e.hint("omit the slash to remove the symlink itself") } else { e });
    }
    if entry.kind == Kind::Dir {
        if !how.recursive {
            return Err(refused("is a directory").hint("-r removes it and its contents"));
        }
        if !how.force {
            if asked.location.is_remote() {
                precious_there(asked)?;
            } else {
                precious(path, &opened, &entry)?;
            }
        }
    }
    let removal = Removal { opened: &opened, top: &entry, how, cancel, failed, each, failures: Arc::default() };
    if entry.kind == Kind::Dir {
        removal.empty(&name, ranks)?;
    }
    // With filters the place itself stays, unless it is a file that they choose.
    if how.chosen.is_some_and(|chosen| entry.kind == Kind::Dir || !chosen.admits(&entry, &entry)) {
        return Ok(removal.failures.load(Ordering::Relaxed));
    }
    if removal.failures.load(Ordering::Relaxed) == 0 {
        match remove_dir(&opened, &entry, how.dry) {
            Err(e) => removal.fail(e.at(path)),
            _ => each(&entry),
        }
    }
    Ok(removal.failures.load(Ordering::Relaxed))
}

/// This rank's part of what rank 0 removes.
pub fn help(
    stage: Stage,
    phase: u8,
    asked: &Argument<'_>,
    how: Rm<'_>,
    cancel: &Cancel,
    failed: &(dyn Fn(&Error) + Sync),
    each: &(dyn Fn(&Entry) + Sync),
) -> Result<()> {
    let (stage, (opened, top)) = shared::opened(stage, || {
        let opened = open::name_of(asked)?;
        let top = opened.stat()?;
        Ok((opened, top))
    })?;
    let outbox = Outbox::of(&stage);
    let removal = Removal { opened: &opened, top: &top, how, cancel, failed, each, failures: Arc::default() };
    let flush = || {
        outbox.put(&shared::count(FAILURES, removal.failures.swap(0, Ordering::Relaxed)));
        outbox.flush();
    };
    if phase == DIRS {
        return removal.dirs(&Pool::new(how.threads, cancel, &std::env::temp_dir(), Some(stage)), &flush);
    }
    let pool = Pool::new(how.threads, cancel, &std::env::temp_dir(), Some(stage));
    removal.walk(&pool, &|path| outbox.put(&[&[DIR], path].concat()), &flush)
}

fn refuse(path: &[u8], why: &str) -> Error {
    Error::new(ErrorKind::Usage, "remove").at(path).because(why.to_string()).hint("--force removes it anyway")
}

/// The root, mount points, the home and the working directory are not removed by a slip.
fn precious(path: &[u8], opened: &open::Opened, entry: &Entry) -> Result<()> {
    let above = opened.store.stat(&Name::of(&Dir::root()), MetaMask::NONE)?;
    if above.dev != entry.dev {
        return Err(refuse(path, "it is a mount point"));
    }
    if (above.dev, above.ino) == (entry.dev, entry.ino) {
        return Err(refuse(path, "it is the root directory"));
    }
    let is = |path: &Path| std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (entry.dev, entry.ino));
    if std::env::var_os("HOME").is_some_and(|home| is(Path::new(&home))) {
        return Err(refuse(path, "it is your home directory"));
    }
    if is(Path::new(".")) {
        return Err(refuse(path, "it is the working directory"));
    }
    Ok(())
}

/// The same on another machine, which tells neither mount points nor inodes.
fn precious_there(asked: &Argument<'_>) -> Result<()> {
    let host = asked.hosts.reach(asked.location)?;
    let path = host.path(asked.location);
    let (above, leaf) = host.split(&path);
    let above = host.open(above, OpenOptions::default())?;
    let root = &above.place().root;
    let real = [&root[..], if root.ends_with(b"/") { &b""[..] } else { b"/" }, leaf].concat();
    if real == host.path(&Location { path: b"~".to_vec(), trailing_slash: false, ..asked.location.clone() }) {
        return Err(refuse(&asked.path, "it is your home directory"));
    }
    Ok(())
}

fn remove(opened: &open::Opened, entry: &Entry, dry: bool) -> Result<()> {
    if dry { Ok(()) } else { opened.store.remove(std::slice::from_ref(entry)).pop().unwrap_or(Ok(())) }
}

/// A directory whose names are all gone: what interrupted runs have left unfinished in it goes too.
fn remove_dir(opened: &open::Opened, entry: &Entry, dry: bool) -> Result<()> {
    remove(opened, entry, dry).or_else(|e| remove_emptied(&*opened.store, entry, e))
}

/// Ranks that remove keys of an object store.
pub fn keys(ranks: Shared<'_>, failures: Arc<AtomicU64>) -> Stage {
    ranks.stage(KEYS, move |record| count_failures(&failures, record))
}

/// This rank's part of the keys that rank 0 lists.
pub fn help_with_keys(stage: Stage, asked: &Argument<'_>, gone: impl Fn(&Scope, admin::Gone<'_>) + Sync) -> Result<()> {
    let nothing = || Error::new(ErrorKind::Usage, "remove").at(&asked.path).because("is in no object store");
    let (stage, scope) = shared::opened(stage, || scope::of(asked)?.ok_or_else(nothing))?;
    let outbox = Outbox::of(&stage);
    let pool = Pool::new(admin::BATCHES_AT_ONCE, &Cancel::default(), &std::env::temp_dir(), Some(stage));
    let reporter = admin::Reporter { failed: &crate::out::failure, each: &|key| gone(&scope, key), others: None };
    let remove = |batch: admin::Batch| outbox.put(&shared::count(FAILURES, batch.within(&scope).remove(&scope, reporter)));
    pool.run(&remove, &|| outbox.flush())
}

/// A removal of one argument, for one rank.
struct Removal<'a> {
    opened: &'a open::Opened,
    top: &'a Entry,
    how: Rm<'a>,
    cancel: &'a Cancel,
    failed: &'a (dyn Fn(&Error) + Sync),
    each: &'a (dyn Fn(&Entry) + Sync),
    failures: Arc<AtomicU64>,
}

/// Paths of directories to be removed.
struct Dirs(Vec<Vec<u8>>);

impl Item for Dirs {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.iter().for_each(|path| put_bytes(&mut out, path));
        out
    }

    fn decode(bytes: &[u8]) -> Option<Dirs> {
        let (mut from, mut paths) = (Cursor(bytes), Vec::new());
        while !from.is_empty() {
            paths.push(from.bytes()?.to_vec());
        }
        Some(Dirs(paths))
    }

    fn is_open(&self) -> bool {
        true
    }
}

impl Removal<'_> {
    fn fail(&self, e: Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        (self.failed)(&e);
    }

    /// Everything but directories goes by all threads, and ranks, at once; then the directories, deepest first.
    fn empty(&self, name: &Name, ranks: Option<Shared<'_>>) -> Result<()> {
        let spill = std::env::temp_dir();
        // With ranks all of one depth together: before their paths stands how deep they are.
        let dirs = Arc::new(Mutex::new(Sorter::new(&spill, 8 << 20, |a, b| b.cmp(a)).dedup()));
        let failures = self.failures.clone();
        let together = ranks.is_some();
        let keep = {
            let dirs = dirs.clone();
            move |path: &[u8]| {
                let depth = if together { path.iter().filter(|byte| **byte == b'/').count() as u32 } else { 0 };
                dirs.lock().expect("no panic while held").push(&[&depth.to_be_bytes(), path].concat())
            }
        };
        let stage = ranks.map(|ranks| {
            let (keep, failures) = (keep.clone(), failures.clone());
            ranks.stage(WALK, move |record| match record.split_first()? {
                (&DIR, path) => keep(path).ok(),
                _ => count_failures(&failures, record),
            })
        });
        let pool = Pool::new(self.how.threads, self.cancel, &spill, stage);
        pool.push([Piece::Dir(name.dir.child(&name.leaf))]);
        let found = |path: &[u8]| {
            if let Err(e) = keep(path) {
                self.fail(Error::io(e, "spill"));
            }
        };
        self.walk(&pool, &found, &|| ())?;
        let sorter = std::mem::replace(&mut *dirs.lock().expect("no panic while held"), Sorter::new(&spill, 0, <[u8]>::cmp));
        let mut sorted = sorter.finish().map_err(|e| Error::io(e, "sort"))?.peekable();
        while let Some(record) = sorted.next() {
            let record = record.map_err(|e| Error::io(e, "sort"))?;
            let depth = record[..4].to_vec();
            let Some(ranks) = ranks else {
                self.remove_dirs(&[record[4..].to_vec()]);
                continue;
            };
            let mut batch = vec![record[4..].to_vec()];
            let mut pool: Option<Arc<Pool<Dirs>>> = None;
            while let Some(Ok(record)) = sorted.next_if(|record| record.as_ref().is_ok_and(|record| record[..4] == depth[..])) {
                if batch.len() == DIRS_TOGETHER {
                    let stage = || {
                        ranks.stage(DIRS, {
                            let failures = failures.clone();
                            move |record| count_failures(&failures, record)
                        })
                    };
                    let pool = pool.get_or_insert_with(|| Pool::new(self.how.threads, self.cancel, &spill, Some(stage())));
                    pool.push([Dirs(std::mem::take(&mut batch))]);
                }
                batch.push(record[4..].to_vec());
            }
            match pool {
                // So few are not worth a message.
                None => self.remove_dirs(&batch),
                Some(pool) => {
                    pool.push([Dirs(batch)]);
                    self.dirs(&pool, &|| ())?;
                }
            }
        }
        Ok(())
    }

    /// Removes everything but directories, which `found` gets.
    fn walk(&self, pool: &Arc<Pool<Piece>>, found: &(dyn Fn(&[u8]) + Sync), flush: &(dyn Fn() + Sync)) -> Result<()> {
        // With filters only directories in which something was removed are removed, if that has emptied them.
        let depth = self.opened.name().path().len();
        let touched = Mutex::new(None::<Vec<u8>>);
        let touch = |entry: &Entry| {
            let dir = entry.name.dir.path();
            let mut last = touched.lock().expect("no panic while held");
            if last.as_ref() == Some(&dir) {
                return;
            }
            let ends = (depth + 1..dir.len()).filter(|at| dir[*at] == b'/').chain([dir.len()]);
            ends.filter(|end| *end > depth).for_each(|end| found(&dir[..end]));
            *last = Some(dir);
        };
        let visit = |entry: &Entry| {
            if let Some(chosen) = self.how.chosen {
                // Paths of filters are those below the place.
                let path = entry.name.path();
                if !chosen.admits_at(path.get(depth + 1..).unwrap_or_default(), entry, self.top) {
                    return Descend::No;
                }
                if entry.kind == Kind::Dir {
                    return Descend::Yes;
                }
            }
            if entry.kind == Kind::Dir {
                found(&entry.name.path());
                return Descend::Yes;
            }
            match remove(self.opened, entry, self.how.dry) {
                Err(e) if e.kind() != ErrorKind::NotFound => self.fail(e.on(&entry.name)),
                _ => {
                    if self.how.chosen.is_some() {
                        touch(entry);
                    }
                    (self.each)(entry);
                }
            }
            Descend::No
        };
        let (store, threads, spill) = (&*self.opened.store, self.how.threads, std::env::temp_dir());
        let survey = Survey { store, threads, want: MetaMask::NONE, cancel: self.cancel, spill: &spill };
        survey.run_in(pool, survey::BATCH, Visitor { visit: &visit, failed: &|e, _| self.fail(e) }, flush)
    }

    fn dirs(&self, pool: &Arc<Pool<Dirs>>, flush: &(dyn Fn() + Sync)) -> Result<()> {
        pool.run(&|dirs: Dirs| self.remove_dirs(&dirs.0), flush)
    }

    fn remove_dirs(&self, paths: &[Vec<u8>]) {
        for path in paths {
            let Some(name) = Name::parse(&Dir::root(), path) else { continue };
            let entry = Entry::bare(name, Kind::Dir);
            if self.how.chosen.is_some() && (self.how.dry || !is_empty(self.opened, &entry)) {
                continue;
            }
            match remove_dir(self.opened, &entry, self.how.dry) {
                // What is still in it has been reported.
                Err(e) if e.kind() == ErrorKind::Exists && self.failures.load(Ordering::Relaxed) > 0 => {}
                Err(e) if e.kind() != ErrorKind::NotFound => self.fail(e.on(&entry.name)),
                _ => (self.each)(&entry),
            }
        }
    }
}

/// Whether nothing is left in a directory; who may not look leaves it.
fn is_empty(opened: &open::Opened, entry: &Entry) -> bool {
    let dir = entry.name.dir.child(&entry.name.leaf);
    let mut any = false;
    let listed = opened.store.list(&dir, &mut |_| {
        any = true;
        Flow::Stop
    });
    listed.is_ok() && !any
}

fn count_failures(failures: &AtomicU64, record: &[u8]) -> Option<()> {
    let (&FAILURES, mut rest) = record.split_first()? else { return None };
    failures.fetch_add(varint::take(&mut rest)?, Ordering::Relaxed);
    Some(())
}
