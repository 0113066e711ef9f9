//! A destination, wherever it is: an empty directory, in which fresh ones are made and removed.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use haul_bench::comparison;
use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Space, Store};
use haul_run::hosts::Hosts;
use haul_run::location::Location;
use haul_run::open::{self, Argument};
use haul_run::scope;
use haul_s3::{BucketHost, admin};

use super::Origin;
use crate::command::{files, rm};

/// Names of a directory that is not empty that are shown.
const SHOWN: usize = 3;

pub struct Target<'a> {
    base: Location,
    hosts: &'a Hosts,
    local: Option<PathBuf>,
    /// It was not there before.
    made: bool,
}

impl<'a> Target<'a> {
    /// The directory at an address; made if only its last part is missing. Errors: `Usage` where it is the source or in it;
    /// `Exists` where it contains other names than copies of the run with the prefix `own`.
    pub fn open(location: &Location, hosts: &'a Hosts, from: &Origin, own: &str) -> Result<Target<'a>> {
        if location.scheme.keys && location.path.iter().any(|byte| b"*?[".contains(byte)) {
            let e = Error::new(ErrorKind::Usage, "open").at(&location.to_bytes());
            return Err(e.because("a pattern cannot be a destination").hint("name a prefix without * ? ["));
        }
        let base = base(location, hosts)?;
        apart(from, &base)?;
        let local = (!base.is_remote()).then(|| open::path_of(&base.path));
        let made = match &local {
            None if base.scheme.keys => false,
            None => {
                let host = hosts.reach(&base)?;
                let missing = host.lookup(&base.path)?.is_none();
                if missing {
                    host.make_dir(&base.path, false)?;
                }
                missing
            }
            Some(place) => {
                let missing = std::fs::symlink_metadata(place).is_err();
                if missing {
                    files::mkdir(&Argument::new(&base, hosts), false)?;
                }
                missing
            }
        };
        let target = Target { base, hosts, local, made };
        let strange = target.names(|leaf| !comparison::is_copy(own, leaf), SHOWN + 1)?;
        if strange.is_empty() {
            return Ok(target);
        }
        let more = if strange.len() > SHOWN { ", ..." } else { "" };
        let shown = strange.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let e = Error::new(ErrorKind::Exists, "begin").at(&target.base.to_bytes());
        let e = e.because(format!("the directory is not empty: it has {shown}{more}"));
        Err(e.hint("name an empty or new directory; --out removes the copies of an interrupted run when it resumes it"))
    }

    /// At most `most` of the names that are `wanted`.
    fn names(&self, wanted: impl Fn(&[u8]) -> bool, most: usize) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.store()?.list(&Dir::root(), &mut |entry| {
            match entry {
                Ok(entry) if entry.name.leaf.is_empty() || !wanted(&entry.name.leaf) => return Flow::Go,
                Ok(entry) => names.push(show(&entry.name.leaf)),
                Err(e) => names.push(show(e.path().unwrap_or_default())),
            }
            if names.len() < most { Flow::Go } else { Flow::Stop }
        })?;
        Ok(names)
    }

    /// Removes the copies that an earlier process of the run with the prefix `own` has left.
    pub fn clear_left(&self, own: &str) -> Result<()> {
        let left = self.names(|leaf| comparison::is_copy(own, leaf), usize::MAX)?;
        left.iter().try_for_each(|name| comparison::Target::clear(self, name))
    }

    fn store(&self) -> Result<Arc<dyn Store>> {
        open::argument(&Argument::new(&self.base, self.hosts)).map(|opened| opened.store)
    }

    pub fn space(&self) -> Result<Option<Space>> {
        self.store()?.extensions().system.space()
    }

    pub fn location(&self) -> &Location {
        &self.base
    }

    pub fn at(&self, name: &str) -> Location {
        let above = &self.base.path[..];
        let slash: &[u8] = if above.is_empty() || above.ends_with(b"/") { b"" } else { b"/" };
        let path = [above, slash, name.as_bytes()].concat();
        Location { path, trailing_slash: self.base.scheme.keys, ..self.base.clone() }
    }
}

/// Removes the directory if the run has made it and nothing is in it.
impl Drop for Target<'_> {
    fn drop(&mut self) {
        if !self.made || !self.names(|_| true, 1).is_ok_and(|names| names.is_empty()) {
            return;
        }
        if let Ok(opened) = open::name_of(&Argument::new(&self.base, self.hosts)) {
            let _ = opened.store.remove(&[Entry::bare(opened.name(), Kind::Dir)]);
        }
    }
}

/// The address with an absolute path, links resolved; the last part need not be there.
fn base(location: &Location, hosts: &Hosts) -> Result<Location> {
    if location.scheme.keys {
        return Ok(Location { trailing_slash: true, ..location.clone() });
    }
    if location.is_remote() {
        let path = hosts.reach(location)?.path(location);
        return Ok(Location { path, trailing_slash: false, ..location.clone() });
    }
    let place = open::path_of(&location.path);
    let real = place.canonicalize().or_else(|e| {
        let above = place.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
        match (above, place.file_name()) {
            (Some(above), Some(leaf)) => above.canonicalize().map(|above| above.join(leaf)),
            _ => Err(e),
        }
    });
    let real = real.map_err(|e| Error::io(e, "open").at(&location.path).hint("make the directories above it first"))?;
    Ok(Location::local(real.as_os_str().as_bytes()))
}

/// Refuses a destination that is the source or in it.
fn apart(from: &Origin, target: &Location) -> Result<()> {
    let source = &from.location;
    let same_place = source.scheme == target.scheme && source.host == target.host;
    let below = target.path.strip_prefix(&source.path[..]).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    if same_place && below {
        let e = Error::new(ErrorKind::Usage, "begin").at(&target.to_bytes()).because("the destination is the source or inside it");
        return Err(e.hint("name a place outside the source"));
    }
    Ok(())
}

impl comparison::Target for Target<'_> {
    fn make(&self, name: &str) -> Result<()> {
        let place = self.at(name);
        if !place.scheme.keys {
            return files::mkdir(&Argument::new(&place, self.hosts), false);
        }
        // A prefix exists when something is below it: nothing is to be made.
        if BucketHost::of(&*self.hosts.reach(&place)?)?.is_dir(&place.path)? {
            let e = Error::new(ErrorKind::Exists, "begin").at(&place.to_bytes());
            return Err(e.because("it exists"));
        }
        Ok(())
    }

    fn clear(&self, name: &str) -> Result<()> {
        let place = self.at(name);
        let asked = Argument::new(&place, self.hosts);
        let first = Mutex::new(None);
        let failed = |e: &Error| {
            first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e.again());
        };
        // Cleaned up also when the run is cancelled.
        match scope::of(&asked)? {
            Some(scope) => {
                let how = admin::Rm {
                    recursive: true,
                    force: true,
                    quiet_missing: true,
                    dry: false,
                    versions: false,
                    version: None,
                    admit: None,
                };
                admin::rm(&scope, how, admin::Reporter { failed: &failed, each: &|_| {}, others: None })?;
            }
            None => {
                let how =
                    rm::Rm { recursive: true, force: true, quiet_missing: true, dry: false, threads: open::processors(), chosen: None };
                rm::rm(&asked, how, &Cancel::default(), &failed, &|_| {}, None)?;
            }
        }
        first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Store>> {
        let place = self.at(name);
        open::argument(&Argument::new(&place, self.hosts)).map(|opened| opened.store)
    }

    fn local(&self) -> Option<&Path> {
        self.local.as_deref()
    }
}
