//! This machine's file systems: `/path`, `./path`, `file:///path`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use haul_core::entry::Kind;
use haul_core::error::{Error, Result};
use haul_core::place::{Host, Location, OpenOptions, Role, Scheme};
use haul_core::store::Store;

use rustix::fs::FileType;

use super::facts::kind_of;
use super::{Local, Options, can_be_apart};
use haul_core::place::provider::{Access, Provider};

#[derive(Debug)]
pub struct LocalProvider;

impl Provider for LocalProvider {
    fn schemes(&self) -> &'static [Scheme] {
        &[Scheme::LOCAL]
    }

    fn connect(&self, _: &Access, _: &Location) -> Result<Arc<dyn Host>> {
        Ok(Arc::new(ThisMachine))
    }
}

/// The machine that the program runs on. Its paths may be relative to the working directory.
#[derive(Clone, Copy, Debug)]
pub struct ThisMachine;

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(if bytes.is_empty() { b"." } else { bytes }))
}

impl Host for ThisMachine {
    fn path(&self, location: &Location) -> Vec<u8> {
        if location.path.is_empty() { b".".to_vec() } else { location.path.clone() }
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>> {
        match std::fs::metadata(path_of(path)) {
            Ok(facts) => Ok(Some(kind_of(FileType::from_raw_mode(facts.mode())))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(e, "open").at(path)),
        }
    }

    fn make_dir(&self, path: &[u8], parents: bool) -> Result<bool> {
        super::trusted::make_dir(path_of(path), parents)
    }

    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Local::open(path_of(path), options.into())?))
    }

    /// By device and inode: symlinks and bind mounts of a directory on the way up are seen through.
    fn contains(&self, above: &[u8], below: &[u8]) -> Result<bool> {
        let open = |path| Local::open(path_of(path), Options::default());
        open(above)?.contains(&open(below)?)
    }
}

impl From<OpenOptions> for Options {
    fn from(options: OpenOptions) -> Options {
        let OpenOptions { keep_dirlinks, follow, keep_acls, stripe, lineage, .. } = options;
        let trusted = options.role == Role::Destination;
        let Some(umask) = options.umask.filter(|_| options.role != Role::Browse) else { return Options { follow, ..Options::default() } };
        let dir_umask = if options.keep_modes { 0 } else { umask };
        let process = if options.keep_modes && can_be_apart() { 0 } else { umask };
        Options { keep_dirlinks, follow, umask: process, user_umask: umask, dir_umask, keep_acls, stripe, lineage, trusted }
    }
}
