//! Arguments become stores: the only place where a path of the user is opened.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::store::Store;
use haul_core::{Error, ErrorKind, Result};
use haul_stores::local::{Local, Options};

/// An argument: a directory, or a name in one.
#[derive(Clone, Debug)]
pub struct Opened {
    pub store: Arc<Local>,
    /// `None`: the directory itself.
    pub leaf: Option<Vec<u8>>,
}

impl Opened {
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

/// A directory (links in the argument itself are followed), or a name in its parent.
pub fn argument(path: &[u8], options: Options) -> Result<Opened> {
    let place = path_of(path);
    match std::fs::metadata(&place) {
        Ok(meta) if meta.is_dir() => Ok(Opened { store: Arc::new(Local::open(&place, options)?), leaf: None }),
        _ => in_parent(path, options),
    }
}

/// The name itself, whatever it is, in its parent directory.
pub fn in_parent(path: &[u8], options: Options) -> Result<Opened> {
    let place = path_of(path);
    let (Some(leaf), Some(parent)) = (place.file_name(), place.parent()) else {
        let e = Error::new(ErrorKind::Usage, "open").at(path);
        return Err(e.because("has no name of its own").hint("name it by its path in the parent directory"));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let store = Local::open(parent, options)?;
    Ok(Opened { store: Arc::new(store), leaf: Some(leaf.as_bytes().to_vec()) })
}

/// What must be there: the error says what was looked for.
pub fn existing(path: &[u8], options: Options) -> Result<(Opened, Entry)> {
    let opened = argument(path, options)?;
    let entry = opened.stat().map_err(|e| if e.kind() == ErrorKind::NotFound { missing(path) } else { e })?;
    if entry.kind != Kind::Dir && path.ends_with(b"/") {
        return Err(Error::new(ErrorKind::Usage, "open").at(path).because("is not a directory"));
    }
    Ok((opened, entry))
}

pub fn missing(path: &[u8]) -> Error {
    Error::new(ErrorKind::NotFound, "open").at(path).because("no such file or directory")
}

pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get).max(2)
}
