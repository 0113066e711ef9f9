//! The source of the copies.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use haul_bench::comparison::Source;
use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;
use haul_run::hosts::Hosts;
use haul_run::location::{Location, Scheme};
use haul_run::open::{self, Argument};

pub struct Origin {
    /// Absolute; of an object store's prefix with its slash.
    pub location: Location,
    pub is_dir: bool,
    pub name: Vec<u8>,
    store: Arc<dyn Store>,
    leaf: Option<Vec<u8>>,
}

impl Origin {
    /// Errors: `NotFound`; `Usage` for a place without a name, such as `/`.
    pub fn open(location: &Location, hosts: &Hosts) -> Result<Origin> {
        let shown = location.to_bytes();
        let location = match () {
            () if location.scheme == Scheme::STDIO => {
                return Err(Error::new(ErrorKind::Usage, "open").at(&shown).because("is not a directory or file"));
            }
            _ if location.scheme.keys => location.clone(),
            _ if location.is_remote() => {
                let path = hosts.reach(location)?.path(location);
                Location { path, trailing_slash: false, ..location.clone() }
            }
            _ => {
                let place = open::path_of(&location.path);
                let real = place.canonicalize().map_err(|e| Error::io(e, "open").at(&location.path))?;
                Location::local(real.as_os_str().as_bytes())
            }
        };
        let name = location.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        if name.is_empty() || name == b".." || name == b"." {
            let e = Error::new(ErrorKind::Usage, "open").at(&shown).because("has no name of its own");
            return Err(e.hint("name a directory or file in it"));
        }
        let (opened, entry) = open::existing(&Argument::new(&location, hosts))?;
        let is_dir = entry.kind == haul_core::entry::Kind::Dir;
        Ok(Origin { is_dir, name, store: opened.store, leaf: opened.leaf.filter(|_| !is_dir), location })
    }

    /// Where it is on this machine, if it is.
    pub fn here(&self) -> Option<PathBuf> {
        (!self.location.is_remote()).then(|| open::path_of(&self.location.path))
    }

    pub(super) fn read(&self, cancel: &Cancel) -> Result<Source> {
        Source::read(&*self.store, self.leaf.as_deref(), &self.name, open::processors(), cancel)
    }
}
