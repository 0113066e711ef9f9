//! Arguments become stores: the only place where a path of the user is opened.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::store::Store;
use haul_core::{Error, ErrorKind, Result};
use haul_stores::local::{Local, Options};

use crate::location::Location;
use crate::remote::{Hosts, is_remote};

/// An argument as it was written, and the hosts through which it may be reached.
pub struct Argument<'a> {
    /// For messages, and the path of what is on this machine.
    pub path: Vec<u8>,
    pub location: &'a Location,
    pub hosts: &'a Hosts<'a>,
}

impl<'a> Argument<'a> {
    pub fn new(location: &'a Location, hosts: &'a Hosts<'a>) -> Self {
        let bytes = location.to_bytes();
        Argument { path: if bytes.is_empty() { b".".to_vec() } else { bytes }, location, hosts }
    }
}

/// A directory, or a name in one.
#[derive(Debug)]
pub struct Opened<S: Store + ?Sized = dyn Store> {
    pub store: Arc<S>,
    /// `None`: the directory itself.
    pub leaf: Option<Vec<u8>>,
}

impl<S: Store + ?Sized> Opened<S> {
    pub fn name(&self) -> Name {
        match &self.leaf {
            Some(leaf) => Name::new(&Dir::root(), leaf),
            None => Name::of(&Dir::root()),
        }
    }

    pub fn stat(&self) -> Result<Entry> {
        self.store.stat(&self.name(), MetaMask::NONE)
    }
}

pub fn path_of(bytes: &[u8]) -> PathBuf {
    if bytes.is_empty() { PathBuf::from(".") } else { PathBuf::from(OsStr::from_bytes(bytes)) }
}

impl From<Opened<Local>> for Opened {
    fn from(local: Opened<Local>) -> Self {
        Opened { store: local.store, leaf: local.leaf }
    }
}

/// A directory (links in the argument itself are followed), or a name in its parent.
pub fn argument(asked: &Argument<'_>) -> Result<Opened> {
    if is_remote(asked.location) {
        let host = asked.hosts.reach(asked.location)?;
        let path = host.path(asked.location);
        return match host.look(&path)? {
            Some(Kind::Dir) => Ok(Opened { store: host.open(&path)?, leaf: None }),
            _ => name_of(asked),
        };
    }
    let place = path_of(&asked.path);
    match std::fs::metadata(&place) {
        Ok(meta) if meta.is_dir() => Ok(Opened { store: Arc::new(Local::open(&place, Options::default())?), leaf: None }),
        _ => name_of(asked),
    }
}

/// The name itself, whatever it is, in its parent directory, wherever that is.
pub fn name_of(asked: &Argument<'_>) -> Result<Opened> {
    if !is_remote(asked.location) {
        let path = asked.path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(&asked.path);
        return in_parent(path, Options::default()).map(Opened::from);
    }
    let host = asked.hosts.reach(asked.location)?;
    let path = host.path(asked.location);
    let (above, leaf) = host.split(&path);
    if matches!(leaf, b"" | b"." | b"..") {
        let e = Error::new(ErrorKind::Usage, "open").at(&asked.path);
        return Err(e.because("has no name of its own").hint("name it by its path in the parent directory"));
    }
    Ok(Opened { store: host.open(above)?, leaf: Some(leaf.to_vec()) })
}

/// The directory above, and the last part; the root has none.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b".", path),
    }
}

/// The name itself, whatever it is, in its parent directory.
pub fn in_parent(path: &[u8], options: Options) -> Result<Opened<Local>> {
    let place = path_of(path);
    let (Some(leaf), Some(parent)) = (place.file_name(), place.parent()) else {
        let e = Error::new(ErrorKind::Usage, "open").at(path);
        return Err(e.because("has no name of its own").hint("name it by its path in the parent directory"));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let store = Local::open(parent, options)?;
    Ok(Opened { store: Arc::new(store), leaf: Some(leaf.as_bytes().to_vec()) })
}

/// The name itself, a symlink included, and what it is.
pub fn itself(asked: &Argument<'_>) -> Result<(Opened, Entry)> {
    let opened = match name_of(asked) {
        // `.`, `..` and `/` are directories.
        Err(e) if e.kind() == ErrorKind::Usage => argument(asked)?,
        opened => opened?,
    };
    let entry = opened.stat().map_err(|e| if e.kind() == ErrorKind::NotFound { missing(&asked.path) } else { e })?;
    Ok((opened, entry))
}

/// Links that are followed one after the other at the most.
const MOST_LINKS: u32 = 40;

/// What a name leads to where it is a symlink, else the name itself: in its parent directory, for it may be closed to us.
pub fn followed(asked: &Argument<'_>) -> Result<(Opened, Entry)> {
    let (mut opened, mut entry) = itself(asked)?;
    if entry.kind == Kind::Link && !is_remote(asked.location) {
        let real = std::fs::canonicalize(path_of(&asked.path)).map_err(|e| Error::io(e, "open").at(&asked.path))?;
        let location = Location::local(real.as_os_str().as_bytes());
        return itself(&Argument::new(&location, asked.hosts));
    }
    for _ in 0..MOST_LINKS {
        let Some(target) = entry.target.as_deref().filter(|_| entry.kind == Kind::Link) else { return Ok((opened, entry)) };
        let path = if target.starts_with(b"/") { target.to_vec() } else { [&opened.store.place().root[..], b"/", target].concat() };
        let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(&path);
        let host = asked.hosts.reach(asked.location)?;
        opened = match host.split(path) {
            (_, b"" | b"." | b"..") => Opened { store: host.open(path)?, leaf: None },
            (above, leaf) => Opened { store: host.open(above)?, leaf: Some(leaf.to_vec()) },
        };
        entry = opened.stat().map_err(|e| if e.kind() == ErrorKind::NotFound { missing(&asked.path) } else { e })?;
    }
    Err(Error::new(ErrorKind::Usage, "open").at(&asked.path).because("too many levels of symbolic links"))
}

/// What must be there: the error says what was looked for.
pub fn existing(asked: &Argument<'_>) -> Result<(Opened, Entry)> {
    let opened = argument(asked)?;
    let entry = opened.stat().map_err(|e| if e.kind() == ErrorKind::NotFound { missing_operand(&asked.path, asked.hosts) } else { e })?;
    if entry.kind != Kind::Dir && asked.location.trailing_slash {
        return Err(Error::new(ErrorKind::Usage, "open").at(&asked.path).because("is not a directory"));
    }
    Ok((opened, entry))
}

pub fn missing(path: &[u8]) -> Error {
    Error::new(ErrorKind::NotFound, "open").at(path).because("no such file or directory")
}

/// The same for an operand, which may be a host without its colon.
pub fn missing_operand(path: &[u8], hosts: &Hosts<'_>) -> Error {
    match crate::known::named(path, hosts.ssh_config()) {
        Some(name) => missing(path).hint(format!("{name} is a host of ssh's configuration; for the host write {name}:")),
        None => missing(path),
    }
}

pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(2)
}
