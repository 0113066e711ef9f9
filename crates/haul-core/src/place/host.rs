//! A reachable system: this machine, an ssh login, a bucket, a web server.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::address::Location;
use crate::entry::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::store::Store;
use crate::stripe::Stripe;

/// What a directory is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// To look at it, or at names in it.
    #[default]
    Browse,
    /// All that is in it is copied: it must exist.
    Source,
    Destination,
}

/// How a directory is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub role: Role,
    /// For a source only: directories are reached through links, wherever they lead.
    pub follow: bool,
    /// A symlink to a directory counts as that directory if it leads nowhere out of the root.
    pub keep_dirlinks: bool,
    /// Entries must say which file system they are on.
    pub one_file_system: bool,
    /// Modes of new entries come from the source; else from the umask of whoever writes.
    pub keep_modes: bool,
    /// ACLs are kept.
    pub keep_acls: bool,
    /// What is read becomes files of somebody who may not trust those who wrote it.
    pub untrusted: bool,
    /// The file mode creation mask of this process, where it is known.
    pub umask: Option<u32>,
    /// A file whose size is known only at its end is opened as a stream ([`crate::store::Caps::streams`]) instead of refused.
    pub streams: bool,
    /// For a source: an empty one is an error where the host cannot tell it from a mistyped one. Deletes follow from what it lacks.
    pub nonempty: bool,
    /// For a destination: what may not be looked at counts as absent.
    pub blind: bool,
    /// For a destination: one file gets a name there, and nothing else is written. Where a directory may have the same name, it does not
    /// matter.
    pub one_file: bool,
    /// For a destination: how large new files are laid out over servers.
    pub stripe: Stripe,
    /// For a destination: unfinished files have names of their own for each number. Runs that resume each other have the same.
    pub lineage: u64,
}

/// How bytes go from another host to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPath {
    /// Through this process.
    Through,
    /// Large files directly, from host to host.
    Direct,
    /// The service copies within itself.
    Within,
}

/// A system that was reached. Paths are absolute, as [`Host::path`] makes them, but for this machine's own, which may be relative
/// to the working directory.
pub trait Host: Any + Send + Sync + fmt::Debug {
    /// The path that an address names.
    fn path(&self, location: &Location) -> Vec<u8>;

    /// The directory above, and the last part. The root has no part of its own.
    fn split<'p>(&self, path: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        split(path)
    }

    /// What is at a path, links followed; `None` if nothing is.
    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>>;

    /// Makes a directory, and with `parents` those above it. One that is there is as good: others may make it at the same time. `false`
    /// where the host tells that it was there.
    fn make_dir(&self, path: &[u8], parents: bool) -> Result<bool>;

    /// The directory at a path. `Unsupported` where the host cannot do what the options ask for.
    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>>;

    /// The directory above a path, and the name of the path's last part in it. `Usage` where it has no name of its own.
    fn open_name(&self, path: &[u8], options: OpenOptions) -> Result<(Arc<dyn Store>, Vec<u8>)> {
        let (above, leaf) = self.split(path);
        if matches!(leaf, b"" | b"." | b"..") {
            let e = Error::new(ErrorKind::Usage, "open").because("has no name of its own");
            return Err(e.hint("name it by its path in the parent directory"));
        }
        Ok((self.open(above, options)?, leaf.to_vec()))
    }

    /// Whether the directory `below` is `above` or in it. Both are roots of opened stores, with links resolved.
    fn contains(&self, above: &[u8], below: &[u8]) -> Result<bool> {
        let (above, below) = (without_slash(above), without_slash(below));
        Ok(below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || above == b"/"))
    }

    /// Whether it is known to be the machine that this process runs on, reached by another route.
    fn is_here(&self) -> bool {
        false
    }

    /// Whether a file is given another directory of this host by a rename, as far as its file systems allow it.
    fn renames(&self) -> bool {
        false
    }

    /// How data go from `source` to here, once it was arranged.
    fn data_path(&self, source: &dyn Host) -> DataPath {
        let _ = source;
        DataPath::Through
    }

    /// How the host was reached, for the first line of a run; empty where nothing is to be said.
    fn describe(&self) -> String {
        String::new()
    }

    /// The run is over: what is remembered of the host for later runs is written down.
    fn finish(&self) {}
}

/// A path without the slash at its end; the root keeps its own.
pub fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path)
}

/// The directory above, and the last part; the root has none.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b".", path),
    }
}
