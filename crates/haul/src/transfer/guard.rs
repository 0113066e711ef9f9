//! What must not be: a tree copied onto or into itself, a source deleted as surplus of its own destination.

use haul_core::entry::Kind;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::Host;
use haul_core::place::host::without_slash;

use super::places::{Places, Read};

/// Refuses what would destroy a source. `onto_itself`: objects may be copied onto themselves, for another version or other options. Returns the directories of the source, by device and inode, that the walk must not enter.
///
/// # Errors
/// `Usage`, and what keeps the two from being compared.
pub fn check(places: &Places, delete: bool, onto_itself: bool) -> Result<Vec<(u64, u64)>> {
    let target = places.target.place();
    let is_beside = |source: &&Read| {
        let from = &source.place;
        let same_volume = from.volume == target.volume || !from_other_machine(source);
        (from.scheme, &from.endpoint) == (target.scheme, &target.endpoint) && same_volume
    };
    let mut avoid = None;
    // What a dry run has not made is nowhere yet.
    for source in places.read.iter().filter(|_| places.is_made).filter(is_beside) {
        check_one(source, places, &*places.target_host, delete, onto_itself)?;
        avoid = places.target.identity();
    }
    Ok(avoid.into_iter().collect())
}

fn from_other_machine(source: &Read) -> bool {
    source.place.scheme != "local"
}

fn check_one(source: &Read, places: &Places, host: &dyn Host, delete: bool, onto_itself: bool) -> Result<()> {
    let (from, target) = (&source.place.root, &places.target.place().root);
    let path = match &source.leaf {
        Some(leaf) => [without_slash(from), if from == b"/" { b"" } else { b"/" }, leaf].concat(),
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
    if host.contains(&path, target)? {
        return refuse("the destination is inside the source", "copy to a path outside it, or copy its subdirectories one by one");
    }
    if delete && host.contains(target, &path)? {
        return refuse("the source is inside the destination; --delete would delete it", "omit --delete");
    }
    Ok(())
}
