//! What must not be: a tree copied onto or into itself, a source deleted as surplus of its own destination.
//! Directories are compared by device and inode, so links and bind mounts do not hide them.

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;

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

/// The same of another machine, which tells no inodes: by the paths, links resolved.
fn check_remote(source: &RemoteSource, places: &Places, delete: bool) -> Result<()> {
    let target = places.target.place();
    if (target.scheme, &target.endpoint, &target.volume) != (source.place.scheme, &source.place.endpoint, &source.place.volume) {
        return Ok(());
    }
    let refuse = |path: &[u8], reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy").at(path);
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    let below = |path: &[u8], above: &[u8]| path.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/") || above == b"/");
    let join = |above: &[u8], leaf: &[u8]| [above, if above.ends_with(b"/") { b"" } else { b"/" }, leaf].concat();
    // Prefixes of buckets end in a slash.
    let bare = |path: &[u8]| path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path).to_vec();
    let (from, target_root) = (bare(&source.place.root), bare(&target.root));
    let path = source.leaf.as_ref().map_or_else(|| from.clone(), |leaf| join(&from, leaf));
    let lands = match &source.leaf {
        Some(leaf) => join(&target_root, places.rename.as_ref().unwrap_or(leaf)),
        None => target_root.clone(),
    };
    if path == lands {
        return refuse(&path, "source and destination are the same", "name another destination");
    }
    if source.matched {
        return Ok(());
    }
    if below(&target_root, &path) || target_root == path {
        return refuse(&path, "the destination is inside the source", "copy to a place outside it, or copy its parts by name");
    }
    if delete && below(&path, &target_root) {
        return refuse(&path, "the source is inside the destination, and --delete would delete it", "leave --delete out");
    }
    Ok(())
}
