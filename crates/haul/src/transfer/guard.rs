//! What must not be: a tree copied onto or into itself, a source deleted as surplus of its own destination.
//! Directories are compared by device and inode, so links and bind mounts do not hide them.

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;

use super::places::Places;

/// Returns the directories of the source that the walk must not enter.
pub fn check(places: &Places, delete: bool) -> Result<Vec<(u64, u64)>> {
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
