//! What must not be: a tree copied onto or into itself, a source deleted as surplus of its own destination.

use haul_core::entry::{Dir, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::filter::Verdict;
use haul_core::place::host::without_slash;
use haul_core::place::{Host, OpenOptions, Role};
use haul_core::store::Store;
use haul_local::ThisMachine;

use super::destination::device;
use super::endpoints::{EndpointRequest, Places, Read, Source};

/// Refuses what would destroy a source. `onto_itself`: objects may be copied onto themselves, for another version or other options. Returns the directories of the source, by device and inode, that the walk must not enter.
///
/// # Errors
/// `Usage`, and what keeps the two from being compared.
pub fn check(places: &Places, asked: &EndpointRequest<'_>, onto_itself: bool) -> Result<Vec<(u64, u64)>> {
    let target = places.target.place();
    let is_beside = |source: &&Read| {
        let from = &source.place;
        let same_volume = from.volume == target.volume || !from_other_machine(source);
        (from.scheme, &from.endpoint) == (target.scheme, &target.endpoint) && same_volume
    };
    check_here(places, asked)?;
    let mut avoid = None;
    // What a dry run has not made is nowhere yet.
    for source in places.read.iter().filter(|_| places.is_made).filter(is_beside) {
        check_one(source, places, asked, onto_itself)?;
        avoid = places.target.extensions().identity;
    }
    Ok(avoid.into_iter().collect())
}

/// Refuses a destination inside a source before it is made: `path` does not exist yet.
///
/// # Errors
/// `Usage`, and what keeps the two from being compared.
pub fn check_unmade(sources: &[Source], asked: &EndpointRequest<'_>, host: &dyn Host, path: &[u8]) -> Result<()> {
    let mut above = host.split(path).0;
    while host.lookup(above)? != Some(Kind::Dir) {
        match host.split(above).0 {
            next if next == above => return Ok(()),
            next => above = next,
        }
    }
    let store = host.open(above, OpenOptions { role: Role::Browse, ..asked.options })?;
    let target = store.place();
    let rest = path.strip_prefix(above).unwrap_or(path);
    let whole = joined(&target.root, rest.strip_prefix(b"/").unwrap_or(rest));
    for source in sources {
        let (from, leaf) = match source {
            Source::Contents(store) => (store, None),
            Source::Name { parent, leaf, kind: Kind::Dir, .. } => (parent, Some(&leaf[..])),
            _ => continue,
        };
        let place = from.place();
        let path = leaf.map_or_else(|| place.root.clone(), |leaf| joined(&place.root, leaf));
        if (place.scheme, &place.endpoint) == (target.scheme, &target.endpoint)
            && host.contains(&path, &target.root)?
            && is_walked(asked, &**from, leaf, &whole, device(store.extensions().identity))
        {
            return Err(inside(&path));
        }
    }
    Ok(())
}

/// Whether the walk of a source comes to the directory `target` inside it, which is on the file system `to`. The engine does not enter
/// a destination that it meets in spite of this.
fn is_walked(asked: &EndpointRequest<'_>, store: &dyn Store, leaf: Option<&[u8]>, target: &[u8], to: Option<u64>) -> bool {
    let from = || match leaf {
        None => device(store.extensions().identity),
        Some(leaf) => store.stat(&Name::new(&Dir::root(), leaf), MetaMask::NONE).ok().map(|entry| entry.dev),
    };
    if asked.listed || (asked.options.one_file_system && to.is_some_and(|to| from().is_some_and(|from| from != to))) {
        return false;
    }
    let Some(below) = target.strip_prefix(without_slash(&store.place().root)) else { return true };
    let below = below.strip_prefix(b"/").unwrap_or(below);
    let ends = below.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([below.len()]);
    !ends.into_iter().any(|end| asked.filter.check(&below[..end], true) == Verdict::Exclude)
}

/// A source of this machine and a destination that is on it, too, but was reached over a network. The path alone could be in another
/// mount namespace, so that the directory has to be the same.
fn check_here(places: &Places, asked: &EndpointRequest<'_>) -> Result<()> {
    let (target, is_remote) = (places.target.place(), places.target.place().scheme != "local");
    if !is_remote || !places.is_made || !places.target_host.is_here() {
        return Ok(());
    }
    let Ok(here) = ThisMachine.open(&target.root, OpenOptions::default()) else { return Ok(()) };
    if here.extensions().identity != places.target.extensions().identity {
        return Ok(());
    }
    for source in places.read.iter().filter(|source| source.place.scheme == "local" && source.kind == Kind::Dir && !source.matched) {
        let path = source.leaf.as_ref().map_or_else(|| source.place.root.clone(), |leaf| joined(&source.place.root, leaf));
        let store = places.roots.iter().map(|root| &*root.store).find(|store| *store.place() == source.place);
        let is_walked = |store| is_walked(asked, store, source.leaf.as_deref(), &target.root, device(here.extensions().identity));
        if ThisMachine.contains(&path, &target.root)? && store.is_none_or(is_walked) {
            return Err(inside(&path));
        }
        if asked.deletes && ThisMachine.contains(&target.root, &path)? {
            let e = Error::new(ErrorKind::Usage, "copy").at(&path);
            return Err(e.because("the source is inside the destination; --delete would delete it").hint("omit --delete"));
        }
    }
    Ok(())
}

fn joined(above: &[u8], leaf: &[u8]) -> Vec<u8> {
    [without_slash(above), if above == b"/" { b"" } else { b"/" }, leaf].concat()
}

fn inside(address: &[u8]) -> Error {
    let e = Error::new(ErrorKind::Usage, "copy").at(without_slash(address)).because("the destination is inside the source");
    e.hint("copy to a path outside it, or copy its subdirectories one by one")
}

fn from_other_machine(source: &Read) -> bool {
    source.place.scheme != "local"
}

fn check_one(source: &Read, places: &Places, asked: &EndpointRequest<'_>, onto_itself: bool) -> Result<()> {
    let host = &*places.target_host;
    let (from, target) = (&source.place.root, &places.target.place().root);
    let path = match &source.leaf {
        Some(leaf) => joined(from, leaf),
        None => from.clone(),
    };
    let address = match source.place.scheme {
        // As the user writes it.
        "s3" => [b"s3://", source.place.volume.as_bytes(), without_slash(&path)].concat(),
        _ => without_slash(&path).to_vec(),
    };
    let refuse = |reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy").at(&address);
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    let is_same = host.contains(from, target)? && host.contains(target, from)?;
    if is_same && onto_itself && source.place.scheme == "s3" {
        return Ok(());
    }
    match (&source.leaf, &places.rename) {
        (None, _) if is_same => return refuse("source and destination are the same directory", "choose another destination"),
        (Some(_), None) if is_same => {
            return refuse("the sources already are in the destination", "choose another destination");
        }
        // On this machine the engine compares inodes, which sees other names of the file too.
        (Some(leaf), Some(name)) if is_same && leaf == name && from_other_machine(source) => {
            return refuse("source and destination are the same", "choose another destination");
        }
        _ => {}
    }
    if source.matched || source.kind != Kind::Dir {
        return Ok(());
    }
    let store = || places.roots.iter().map(|root| &*root.store).find(|store| *store.place() == source.place);
    let to = device(places.target.extensions().identity);
    if host.contains(&path, target)? && store().is_none_or(|store| is_walked(asked, store, source.leaf.as_deref(), target, to)) {
        return Err(inside(&address));
    }
    if asked.deletes && host.contains(target, &path)? {
        return refuse("the source is inside the destination; --delete would delete it", "omit --delete");
    }
    Ok(())
}
