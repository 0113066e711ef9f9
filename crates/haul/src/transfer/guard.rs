//! What must not be: a tree copied onto or into itself, a source deleted as surplus of its own destination.
//! Directories are compared by device and inode, so links and bind mounts do not hide them.

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Place, Store};

use super::places::{Places, RemoteSource};

/// Returns the directories of the source that the walk must not enter.
pub fn check(places: &Places, delete: bool) -> Result<Vec<(u64, u64)>> {
    for source in &places.remote {
        check_remote(source, places, delete)?;
    }
    let Some(target) = &places.local_target else { return Ok(Vec::new()) };
    let refuse = |source: &haul_stores::local::Local, reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy").at(&source.place().root);
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    for source in &places.read {
        if source.identity() == target.identity() {
            return refuse(source, "source and destination are the same directory", "name another destination");
        }
        if source.contains(target)? {
            return refuse(source, "the destination is inside the source", "copy to a place outside it, or copy its parts by name");
        }
        if delete && target.contains(source)? {
            return refuse(source, "the source is inside the destination, and --delete would delete it", "leave --delete out");
        }
    }
    for parent in &places.parents {
        if parent.identity() == target.identity() && places.rename.is_none() {
            return refuse(parent, "the sources are in the destination already", "name another destination");
        }
    }
    Ok(vec![target.identity()])
}

fn bare(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// The same of another machine, which tells no inodes: by the paths, links resolved.
fn check_remote(source: &RemoteSource, places: &Places, delete: bool) -> Result<()> {
    let target = places.target.place();
    let system = |place: &Place| (place.scheme, place.endpoint.clone(), place.volume.clone());
    if system(target) != system(&source.place) {
        return Ok(());
    }
    let refuse = |path: &[u8], reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy").at(path);
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    // The root of a bucket's directory ends in a slash, that of a host's does not.
    let below = |path: &[u8], above: &[u8]| path.strip_prefix(bare(above)).is_some_and(|rest| rest.starts_with(b"/") && path != above);
    let join = |above: &[u8], leaf: &[u8]| [above, if above.ends_with(b"/") { b"" } else { b"/" }, leaf].concat();
    let path = source.leaf.as_ref().map_or_else(|| source.place.root.clone(), |leaf| join(&source.place.root, leaf));
    let lands = match &source.leaf {
        Some(leaf) => join(&target.root, places.rename.as_ref().unwrap_or(leaf)),
        None => target.root.clone(),
    };
    if path == lands {
        return refuse(&path, "source and destination are the same", "name another destination");
    }
    if below(&target.root, &path) || bare(&target.root) == bare(&path) {
        return refuse(&path, "the destination is inside the source", "copy to a place outside it, or copy its parts by name");
    }
    if delete && below(&path, &target.root) {
        return refuse(&path, "the source is inside the destination, and --delete would delete it", "leave --delete out");
    }
    Ok(())
}
