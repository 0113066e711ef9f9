//! The source of the copies: listed and read once, then kept in memory, some 200 bytes per name.

use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::Store;
use haul_core::survey::{Descend, Survey};

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// From the copy's directory on: it begins with the source's own name.
    pub path: Vec<u8>,
    pub kind: Kind,
    pub size: u64,
    pub hash: [u8; 16],
    pub mtime: Time,
    pub mode: u32,
    /// Inode, where the file has other names; else 0.
    pub shared: u64,
    pub target: Vec<u8>,
}

/// The source as it was when the run began.
#[derive(Clone, Debug)]
pub struct Source {
    pub name: Vec<u8>,
    /// By path. Directories are among them only where the store has them as things of their own; fifos, sockets and devices never.
    pub records: Vec<Record>,
    pub files: u64,
    pub dirs: u64,
    pub links: u64,
    pub specials: u64,
    pub bytes: u64,
    /// Of all that is compared: another number means another source.
    pub digest: u128,
    /// Directories are things of their own there; else they are not looked at.
    pub has_dirs: bool,
    /// Of its times.
    pub resolution: Duration,
}

impl Source {
    /// Reads all of a directory, or the one file `leaf` in it. Errors: anything that cannot be read, since no copy could be
    /// verified then; `Usage` where there is no file at all.
    pub fn read(store: &dyn Store, leaf: Option<&[u8]>, name: &[u8], threads: usize, cancel: &Cancel) -> Result<Source> {
        let has_dirs = store.caps().dirs;
        let found: Mutex<(Vec<Record>, Option<Error>)> = Mutex::default();
        let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
        let note = |entry: &Entry, path: Vec<u8>| {
            if entry.kind == Kind::Dir && !has_dirs {
                return;
            }
            match record(store, entry, path, cancel) {
                Ok(record) => lock().0.push(record),
                Err(e) => {
                    lock().1.get_or_insert(e);
                }
            }
        };
        match leaf {
            Some(leaf) => note(&store.stat(&Name::new(&Dir::root(), leaf), MetaMask::NONE)?, name.to_vec()),
            None => {
                if has_dirs {
                    note(&store.stat(&Name::of(&Dir::root()), MetaMask::NONE)?, name.to_vec());
                }
                let spill = std::env::temp_dir();
                let survey = Survey { store, threads, want: MetaMask::NONE, cancel, spill: &spill };
                let visit = |entry: &Entry| {
                    note(entry, [name, b"/", &entry.name.path()].concat());
                    Descend::Yes
                };
                survey.run(&Dir::root(), &visit, &|e, _| {
                    lock().1.get_or_insert(e);
                })?;
            }
        }
        cancel.check()?;
        let (mut records, error) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(e) = error {
            return Err(e);
        }
        let all = records.len();
        records.retain(|record| !record.kind.is_special());
        let specials = (all - records.len()) as u64;
        records.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let count = |kind| records.iter().filter(|record| record.kind == kind).count() as u64;
        let (files, dirs, links) = (count(Kind::File), count(Kind::Dir), count(Kind::Link));
        if files == 0 {
            let e = Error::new(ErrorKind::Usage, "compare").at(name).because("the source has no files");
            return Err(e.hint("`haul bench data 1000x1MiB DIR` creates some"));
        }
        Ok(Source {
            name: name.to_vec(),
            bytes: records.iter().filter(|record| record.kind == Kind::File).map(|record| record.size).sum(),
            digest: digest(&records),
            records,
            files,
            dirs,
            links,
            specials,
            has_dirs,
            resolution: store.caps().attributes.mtime_resolution,
        })
    }
}

fn record(store: &dyn Store, entry: &Entry, path: Vec<u8>, cancel: &Cancel) -> Result<Record> {
    let hash = if entry.kind == Kind::File { hash(store, entry, cancel)? } else { [0; 16] };
    Ok(Record {
        path,
        kind: entry.kind,
        size: entry.size,
        hash,
        mtime: entry.mtime,
        mode: entry.mode,
        shared: if entry.kind == Kind::File && entry.nlink > 1 { entry.ino } else { 0 },
        target: entry.target.as_deref().unwrap_or_default().to_vec(),
    })
}

/// XXH3-128 of a file's content, read through the store.
pub fn hash(store: &dyn Store, entry: &Entry, cancel: &Cancel) -> Result<[u8; 16]> {
    let mut hasher = Algorithm::Xxh128.begin();
    if entry.size > 0 {
        let source = store.open(entry, false)?;
        let mut from = source.read(0..entry.size)?;
        let mut buffer = vec![0; usize::try_from(entry.size.min(256 << 10)).unwrap_or(256 << 10)];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => hasher.update(&buffer[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(e, "read").on(&entry.name)),
            }
            cancel.check()?;
        }
    }
    hasher.finish().try_into().map_err(|_| Error::new(ErrorKind::Other, "hash").because("a hash of another width"))
}

/// Not of what differs between two looks at the same: numbers of inodes, and when a name was last made in a directory.
fn digest(records: &[Record]) -> u128 {
    let mut hasher = Algorithm::Xxh128.begin();
    for record in records {
        for text in [&record.path, &record.target] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        let mtime = if record.kind == Kind::Dir { Time::default() } else { record.mtime };
        hasher.update(record.kind.word().as_bytes());
        hasher.update(&record.hash);
        for number in [record.size, mtime.secs.cast_unsigned(), mtime.nanos.into(), record.mode.into(), record.shared.min(1)] {
            hasher.update(&number.to_le_bytes());
        }
    }
    hasher.finish().iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}
