//! Where a transfer writes: a directory, another name for one file, or what only takes bytes.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use haul_core::entry::Kind;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::job::Root;
use haul_core::place::provider::Intent;
use haul_core::place::{Host, OpenOptions, Role, Scheme};
use haul_core::spec::TransferSpec;
use haul_core::store::{Empty, Store};
use haul_local::trusted;

use super::endpoints::{EndpointRequest, Source, absolute, named};
use super::guard;
use crate::hosts::Hosts;
use crate::location::Location;
use crate::open;
use crate::outlet::Outlet;

/// Where it all goes.
pub struct Destination {
    pub store: Arc<dyn Store>,
    pub host: Arc<dyn Host>,
    pub is_made: bool,
    pub path: Vec<u8>,
    pub rename: Option<Vec<u8>>,
}

/// What takes the bytes of the one source.
fn outlet(outlet: &Outlet, asked: &EndpointRequest<'_>, sources: &[Source]) -> Result<Destination> {
    if !matches!(sources, [Source::Name { kind, .. }] if *kind != Kind::Dir) {
        let source = asked.sources.first().map(Location::to_bytes).unwrap_or_default();
        return Err(Error::new(ErrorKind::Usage, "read").at(&source).because("is a directory or a pattern").hint("name a file"));
    }
    let store: Arc<dyn Store> = if asked.dry { Arc::new(Empty::default()) } else { Arc::new(outlet.open()?) };
    let host = asked.hosts.reach(&Location::local(b"."))?;
    Ok(Destination { store, host, is_made: false, path: b"/".to_vec(), rename: Some(b"-".to_vec()) })
}

/// Finds the destination, or makes it. `is_whole`: every source that was named is among `sources`. Else a file goes into a directory
/// as it does beside the others, and never over the file DST.
pub fn destination(asked: &EndpointRequest<'_>, sources: &[Source], is_whole: bool) -> Result<Destination> {
    if let Some(to) = asked.outlet {
        return outlet(to, asked, sources);
    }
    let location = asked.destination;
    let largest = sources.iter().map(|source| if let Source::Name { size, .. } = source { *size } else { 0 }).max();
    let lists = !asked.listed && sources.iter().any(|source| !matches!(source, Source::Name { kind, .. } if *kind != Kind::Dir));
    let host = asked.hosts.reach_for(location, Intent { role: Role::Destination, largest: largest.unwrap_or(0), lists })?;
    let mut path = host.path(location);
    if asked.sources.iter().any(|source| source.scheme == Scheme::STDIO) {
        path = stream_target(location, &*host, path)?;
    }
    let clash = |reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy to").at(&named(location));
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    // What a dry run has not made is empty.
    let unmade = |rename: Option<Vec<u8>>| {
        Ok(Destination { store: Arc::new(Empty::default()), host: host.clone(), is_made: false, path: path.clone(), rename })
    };
    let check_backup = |target: &[u8]| asked.backup_dir.map_or(Ok(()), |dir| below(target, dir).map(drop));
    let one_file = is_whole && matches!(sources, [Source::Name { kind, .. }] if (*kind != Kind::Dir || asked.exact) && !asked.listed);
    let options = OpenOptions { role: Role::Destination, one_file, ..asked.options };
    let (above, leaf) = host.split(&path);
    let at = |path: &[u8], rename: Option<Vec<u8>>| -> Result<Destination> {
        Ok(Destination { store: host.open(path, options)?, host: host.clone(), is_made: true, path: path.to_vec(), rename })
    };
    // Only the last component is made without `--mkpath`: a mistyped path should not become a tree.
    let no_parent = || {
        if asked.is_check {
            return Err(open::missing(&named(location)));
        }
        let hint = "--mkpath creates the parent directories";
        match location.is_remote() {
            true => clash("its parent directory does not exist", hint),
            false => Err(open::missing(above).hint(hint)),
        }
    };
    let is_dir = matches!(sources, [Source::Name { kind: Kind::Dir, .. }]);
    if asked.exact && !one_file {
        return clash("-T gives one SRC this name", "name one SRC, without a slash at its end");
    }
    match looked_up(&*host, &path, options.blind)? {
        Some(found) if asked.exact && (is_dir || found == Kind::Dir) => {
            return clash("exists, and -T would have to replace it", "leave -T out to move into it");
        }
        Some(Kind::Dir) => return at(&path, None),
        Some(_) if location.trailing_slash => {
            return clash("is a file, but the trailing slash means a directory", "omit the slash to replace the file");
        }
        Some(_) if !one_file && asked.gives_t => {
            let hint = "-t is --times, as in rsync, and DST comes last; for the order of cp -t write --target-directory DIR";
            return clash("is a file, but must be a directory", hint);
        }
        Some(_) if !one_file => return clash("is a file, but must be a directory", "DST comes last; name a directory there"),
        Some(_) => {}
        None if one_file && (!location.trailing_slash || asked.exact) => {}
        // A mistyped path must not be found identical to nothing. There are no directories among keys.
        None if asked.is_check && !location.scheme.keys => return Err(open::missing(&named(location))),
        None => {
            if !asked.make_path && host.lookup(above)? != Some(Kind::Dir) {
                return no_parent();
            }
            if asked.sources.iter().any(|source| (source.scheme, &source.host) == (location.scheme, &location.host))
                && !location.scheme.keys
            {
                guard::check_unmade(sources, asked, &*host, &path)?;
            }
            if asked.dry {
                // What is below a prefix can be looked at, whether or not anything says that it is a directory.
                return if location.scheme.keys { at(&path, None) } else { unmade(None) };
            }
            check_backup(&path)?;
            // A copy of objects has no marker that is not a copy.
            if !(location.scheme.keys && asked.sources.iter().all(|source| source.scheme.keys)) {
                asked.has_made.set(host.make_dir(&path, asked.make_path)?);
            }
            return at(&path, None);
        }
    }
    // One file to another name.
    if matches!(leaf, b"" | b"." | b"..") {
        return clash("has no file name", "append a file name");
    }
    if host.lookup(above)? != Some(Kind::Dir) {
        if !asked.make_path {
            return no_parent();
        }
        if asked.dry {
            return unmade(Some(leaf.to_vec()));
        }
        check_backup(above)?;
        host.make_dir(above, true)?;
    }
    at(above, Some(leaf.to_vec()))
}

/// What is there; nothing where it may not be looked at and that does not matter.
fn looked_up(host: &dyn Host, path: &[u8], blind: bool) -> Result<Option<Kind>> {
    match host.lookup(path) {
        Err(e) if blind && e.kind() == ErrorKind::Denied => Ok(None),
        other => other,
    }
}

/// Where standard input goes: what a link names is meant, as with a shell's redirection.
fn stream_target(location: &Location, host: &dyn Host, path: Vec<u8>) -> Result<Vec<u8>> {
    if location.means_contents() || looked_up(host, &path, location.scheme.keys)? == Some(Kind::Dir) {
        let e = Error::new(ErrorKind::Usage, "copy to").at(&location.to_bytes());
        let e = e.because("is a directory, and standard input has no name");
        return Err(e.hint("append a file name"));
    }
    if location.is_remote() {
        return Ok(path);
    }
    trusted::check(&open::path_of(&path))?;
    Ok(std::fs::canonicalize(open::path_of(&path)).map_or(path, |real| real.into_os_string().into_vec()))
}

/// `--backup-dir` as a path below the destination.
pub fn below(target: &[u8], dir: &Path) -> Result<Vec<u8>> {
    let bytes = dir.as_os_str().as_bytes();
    let inside = if bytes.starts_with(b"/") {
        let target = absolute(target);
        bytes.strip_prefix(&*target).and_then(|rest| rest.strip_prefix(b"/")).map(<[u8]>::to_vec)
    } else {
        Some(bytes.strip_prefix(b"./").unwrap_or(bytes).to_vec())
    };
    let inside = inside.map(|path| path.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(path));
    match inside {
        Some(path) if !path.is_empty() && path.split(|b| *b == b'/').all(|part| haul_core::entry::check_leaf(part).is_ok()) => Ok(path),
        _ => {
            let e = Error::new(ErrorKind::Usage, "--backup-dir").at(bytes).because("is not below the destination");
            Err(e.hint("give a directory in the destination, relative to it"))
        }
    }
}

pub fn device(identity: Option<(u64, u64)>) -> Option<u64> {
    identity.map(|(device, _)| device)
}

/// `mv` on one file system renames. A destination that a dry run has not made would be on the file system of what is
/// above it.
pub fn rename_within(roots: &mut [Root], target: &dyn Store, place: &Path) {
    let on = device(target.extensions().identity).or_else(|| {
        place.ancestors().skip(1).find_map(|above| {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            std::os::unix::fs::MetadataExt::dev(&above.metadata().ok()?).into()
        })
    });
    for root in roots.iter_mut().filter(|root| root.store.place().scheme == "local") {
        root.renames = on;
    }
}

/// The same on another host that all sources are on, too. Only the rename itself finds out which file system a directory is on that a dry
/// run has not made, or that the host does not tell of.
pub fn rename_there(roots: &mut [Root], target: &dyn Store, hosts: &Hosts, spec: &TransferSpec) {
    let Ok(there) = hosts.reach(&spec.destination) else { return };
    let is_there = |source: &Location| hosts.reach(source).is_ok_and(|host| Arc::ptr_eq(&host, &there));
    if !there.renames() || !spec.sources.iter().all(|source| source.is_remote() && is_there(source)) {
        return;
    }
    for root in roots {
        root.renames = device(target.extensions().identity).or(device(root.store.extensions().identity)).or(Some(0));
    }
}
