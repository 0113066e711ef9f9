//! Arguments become stores: the only place where a path of the user is opened.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::place::{Host, OpenOptions};
use haul_core::store::Store;
use haul_core::{Error, ErrorKind, Result};
use haul_s3::BucketHost;
use haul_ssh::ssh;

use crate::hosts::Hosts;
use crate::location::Location;

/// An argument as it was written, and the hosts through which it may be reached.
pub struct Argument<'a> {
    /// For messages, and the path of what is on this machine.
    pub path: Vec<u8>,
    pub location: &'a Location,
    pub hosts: &'a Hosts,
}

impl<'a> Argument<'a> {
    pub fn new(location: &'a Location, hosts: &'a Hosts) -> Self {
        let bytes = location.to_bytes();
        Argument { path: if bytes.is_empty() { b".".to_vec() } else { bytes }, location, hosts }
    }
}

/// A directory, or a name in one.
#[derive(Debug)]
pub struct Opened {
    pub store: Arc<dyn Store>,
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

    /// The path below the opened directory of a file of this machine, given by its real path; `None` if it is elsewhere.
    pub fn path_of(&self, real: &Path) -> Option<Vec<u8>> {
        let place = self.store.place();
        let below = real.strip_prefix(OsStr::from_bytes(&place.root)).ok().filter(|_| place.scheme == "local")?;
        Some(below.as_os_str().as_bytes().to_vec())
    }
}

pub fn path_of(bytes: &[u8]) -> PathBuf {
    if bytes.is_empty() { PathBuf::from(".") } else { PathBuf::from(OsStr::from_bytes(bytes)) }
}

/// A directory (links in the argument itself are followed), or a name in its parent.
pub fn argument(asked: &Argument<'_>) -> Result<Opened> {
    let host = asked.hosts.reach(asked.location)?;
    let path = host.path(asked.location);
    match host.lookup(&path) {
        Ok(Some(Kind::Dir)) => Ok(Opened { store: host.open(&path, OpenOptions::default())?, leaf: None }),
        Ok(_) => name_of(asked),
        Err(e) if e.kind() == ErrorKind::TimedOut => Err(e.at(&asked.path)),
        // A symlink that leads nowhere is a name all the same.
        Err(e) => name_of(asked).map_err(|_| e),
    }
}

/// The name itself, whatever it is, in its parent directory, wherever that is.
pub fn name_of(asked: &Argument<'_>) -> Result<Opened> {
    let host = asked.hosts.reach(asked.location)?;
    let path = host.path(asked.location);
    in_parent(&*host, &path, OpenOptions::default()).map_err(|e| if e.path().is_none() { e.at(&asked.path) } else { e })
}

/// With `--raw`, the object whose key ends in a slash, as a name in the directory above: if it has content. `None` for all else, which
/// is a directory.
pub fn raw_object(location: &Location, hosts: &Hosts, options: OpenOptions) -> Result<Option<Opened>> {
    let is_raw = || hosts.access().get::<haul_s3::Flags>().raw;
    if !location.scheme.keys || !location.trailing_slash || location.path.is_empty() || !is_raw() {
        return Ok(None);
    }
    let host = hosts.reach(location)?;
    let head = BucketHost::of(&*host)?.bucket().head(&[&location.path[..], b"/"].concat())?;
    if head.is_none_or(|head| head.size == 0) {
        return Ok(None);
    }
    let path = host.path(location);
    let (above, leaf) = host.split(path.strip_suffix(b"/").unwrap_or(&path));
    Ok(Some(Opened { store: host.open(above, options)?, leaf: Some([leaf, b"/"].concat()) }))
}

/// The last part of a path, whatever it is, in its parent directory.
pub fn in_parent(host: &dyn Host, path: &[u8], options: OpenOptions) -> Result<Opened> {
    let (store, leaf) = host.open_name(path, options)?;
    Ok(Opened { store, leaf: Some(leaf) })
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
    if entry.kind == Kind::Link && !asked.location.is_remote() {
        let real = std::fs::canonicalize(path_of(&asked.path)).map_err(|e| Error::io(e, "open").at(&asked.path))?;
        let location = Location::local(real.as_os_str().as_bytes());
        return itself(&Argument::new(&location, asked.hosts));
    }
    let dangling = |e: Error| match e.kind() {
        ErrorKind::NotFound => missing(&asked.path).because("the symlink points to nothing"),
        _ => e,
    };
    for _ in 0..MOST_LINKS {
        let Some(target) = entry.target.as_deref().filter(|_| entry.kind == Kind::Link) else { return Ok((opened, entry)) };
        let path = if target.starts_with(b"/") { target.to_vec() } else { [&opened.store.place().root[..], b"/", target].concat() };
        let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(&path);
        let host = asked.hosts.reach(asked.location)?;
        opened = match host.split(path) {
            (_, b"" | b"." | b"..") => Opened { store: host.open(path, OpenOptions::default()).map_err(dangling)?, leaf: None },
            (above, leaf) => Opened { store: host.open(above, OpenOptions::default()).map_err(dangling)?, leaf: Some(leaf.to_vec()) },
        };
        entry = opened.stat().map_err(dangling)?;
    }
    Err(Error::new(ErrorKind::Usage, "open").at(&asked.path).because("too many levels of symbolic links"))
}

/// Whether the link that a source is gets followed from here, by [`followed`]: on hosts behind ssh a login may serve one directory and
/// follows none there, and plain SFTP follows none in trees.
pub fn follows_from_here(location: &Location) -> bool {
    [ssh::SSH, ssh::SFTP].contains(&location.scheme)
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
pub fn missing_operand(path: &[u8], hosts: &Hosts) -> Error {
    match crate::known::named(path, hosts.access().get::<ssh::Flags>().ssh_config.as_deref()) {
        Some(name) => missing(path).hint(format!("{name} is a host in the ssh configuration; for the host write {name}:")),
        None => missing(path),
    }
}

/// `-j`, or one a processor.
pub fn threads(workers: Option<u32>) -> usize {
    workers.map_or_else(processors, |workers| workers as usize)
}

pub fn processors() -> usize {
    (crate::allocation::processors() as usize).max(2)
}
