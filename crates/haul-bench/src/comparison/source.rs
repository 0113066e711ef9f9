//! What is copied: looked at and read once, then kept as a list in a file, so that memory is flat however much it is.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Time};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::Store;
use haul_core::survey::{Descend, Survey};

/// One name of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// From the copy's directory on: it begins with the source's own name.
    pub path: Vec<u8>,
    pub kind: Kind,
    pub size: u64,
    /// XXH3-128 of the content.
    pub hash: [u8; 16],
    pub mtime: Time,
    pub mode: u32,
    /// Inode, where the file has other names; else 0.
    pub shared: u64,
    /// Where a symlink points.
    pub target: Vec<u8>,
}

/// The source as it was when the run began.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its own name.
    pub name: Vec<u8>,
    pub is_dir: bool,
    pub files: u64,
    pub dirs: u64,
    pub links: u64,
    /// Fifos, sockets, devices: nobody is asked to copy them.
    pub specials: u64,
    pub bytes: u64,
    /// Of all names with what is compared of them, in any order: another number means another source.
    pub digest: u128,
    /// Directories are things of their own there; else they are not looked at.
    pub has_dirs: bool,
    /// Times closer than this cannot be told apart there.
    pub resolution: Duration,
    list: PathBuf,
}

impl Source {
    /// Reads all of a directory, or the one file `leaf` in it. `list` is where the list is written. Errors: whatever cannot be read,
    /// since no copy could be told right or wrong then; `Usage` where there is no file at all.
    pub fn read(store: &dyn Store, leaf: Option<&[u8]>, name: &[u8], list: &Path, threads: usize, cancel: &Cancel) -> Result<Source> {
        let fail = |e: std::io::Error| Error::io(e, "write").at(list.as_os_str().as_encoded_bytes());
        let writer = Mutex::new(BufWriter::new(File::create(list).map_err(fail)?));
        let mut source = Source {
            name: name.to_vec(),
            is_dir: leaf.is_none(),
            files: 0,
            dirs: 0,
            links: 0,
            specials: 0,
            bytes: 0,
            digest: 0,
            has_dirs: store.caps().dirs,
            resolution: store.caps().mtime_resolution,
            list: list.to_path_buf(),
        };
        let counts = Mutex::new((&mut source, None::<Error>));
        let has_dirs = store.caps().dirs;
        let note = |entry: &Entry, path: Vec<u8>| {
            if entry.kind == Kind::Dir && !has_dirs {
                return;
            }
            let record = match record(store, entry, path, cancel) {
                Ok(record) => record,
                Err(e) => {
                    counts.lock().unwrap_or_else(PoisonError::into_inner).1.get_or_insert(e);
                    return;
                }
            };
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            match record.kind {
                Kind::Dir => counts.0.dirs += 1,
                Kind::Link => counts.0.links += 1,
                kind if kind.is_special() => {
                    counts.0.specials += 1;
                    return;
                }
                _ => {
                    counts.0.files += 1;
                    counts.0.bytes += record.size;
                }
            }
            // Added up, since threads find names in any order.
            counts.0.digest = counts.0.digest.wrapping_add(record.digest());
            let written = writer.lock().unwrap_or_else(PoisonError::into_inner).write_all(&record.to_bytes());
            if let Err(e) = written {
                counts.1.get_or_insert(fail(e));
            }
        };
        match leaf {
            Some(leaf) => {
                let entry = store.stat(&haul_core::entry::Name::new(&Dir::root(), leaf), MetaMask::NONE)?;
                note(&entry, name.to_vec());
            }
            None => {
                if has_dirs {
                    note(&store.stat(&haul_core::entry::Name::of(&Dir::root()), MetaMask::NONE)?, name.to_vec());
                }
                let spill = std::env::temp_dir();
                let survey = Survey { store, threads, want: MetaMask::NONE, cancel, spill: &spill };
                let visit = |entry: &Entry| {
                    note(entry, [name, b"/", &entry.name.path()].concat());
                    Descend::Yes
                };
                survey.run(&Dir::root(), &visit, &|e, _| {
                    counts.lock().unwrap_or_else(PoisonError::into_inner).1.get_or_insert(e);
                })?;
            }
        }
        cancel.check()?;
        let (_, error) = counts.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(e) = error {
            return Err(e);
        }
        writer.into_inner().unwrap_or_else(PoisonError::into_inner).flush().map_err(fail)?;
        if source.files == 0 {
            let e = Error::new(ErrorKind::Usage, "compare").at(name).because("the source has no files");
            return Err(e.hint("`haul bench data 1000x1MiB DIR` creates some"));
        }
        Ok(source)
    }

    /// All names, one after the other.
    pub fn records(&self) -> Result<Records> {
        let file = File::open(&self.list).map_err(|e| Error::io(e, "open").at(self.list.as_os_str().as_encoded_bytes()))?;
        Ok(Records { from: BufReader::new(file) })
    }

    /// The list is no part of the results.
    pub fn forget(&self) {
        let _it_may_be_gone = std::fs::remove_file(&self.list);
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

const KINDS: [Kind; 3] = [Kind::File, Kind::Dir, Kind::Link];

impl Record {
    /// XXH3-128. Not of what differs between two looks at the same: numbers of inodes, and when a name was last made in a directory.
    fn digest(&self) -> u128 {
        let mtime = if self.kind == Kind::Dir { Time::default() } else { self.mtime };
        let mut hasher = Algorithm::Xxh128.begin();
        hasher.update(&Record { shared: self.shared.min(1), mtime, ..self.clone() }.to_bytes());
        hasher.finish().iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.path.len() + self.target.len() + 64);
        let text = |out: &mut Vec<u8>, text: &[u8]| {
            out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(text);
        };
        text(&mut out, &self.path);
        text(&mut out, &self.target);
        out.push(KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u8);
        out.extend(self.size.to_le_bytes());
        out.extend(self.hash);
        out.extend(self.mtime.secs.to_le_bytes());
        out.extend(self.mtime.nanos.to_le_bytes());
        out.extend(self.mode.to_le_bytes());
        out.extend(self.shared.to_le_bytes());
        out
    }
}

#[derive(Debug)]
pub struct Records {
    from: BufReader<File>,
}

impl Records {
    fn take<const N: usize>(&mut self) -> std::io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map(|()| bytes)
    }

    fn text(&mut self, length: [u8; 4]) -> std::io::Result<Vec<u8>> {
        let mut text = vec![0; u32::from_le_bytes(length) as usize];
        self.from.read_exact(&mut text).map(|()| text)
    }

    fn next_record(&mut self) -> std::io::Result<Option<Record>> {
        let length = match self.take::<4>() {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            length => length?,
        };
        let path = self.text(length)?;
        let length = self.take()?;
        let target = self.text(length)?;
        Ok(Some(Record {
            path,
            target,
            kind: KINDS[usize::from(self.take::<1>()?[0]).min(KINDS.len() - 1)],
            size: u64::from_le_bytes(self.take()?),
            hash: self.take()?,
            mtime: Time { secs: i64::from_le_bytes(self.take()?), nanos: u32::from_le_bytes(self.take()?) },
            mode: u32::from_le_bytes(self.take()?),
            shared: u64::from_le_bytes(self.take()?),
        }))
    }

    /// The next batch of at most `count`; empty at the end.
    pub fn batch(&mut self, count: usize) -> Result<Vec<Record>> {
        let mut batch = Vec::with_capacity(count);
        while batch.len() < count {
            match self.next_record().map_err(|e| Error::io(e, "read the list of the source"))? {
                Some(record) => batch.push(record),
                None => break,
            }
        }
        Ok(batch)
    }
}
