//! What ranks compare before anything is done: programs, command lines and what each sees of the places. Pure.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_core::hash::xxh128;
use haul_core::place::Scheme;
use haul_run::location::Location;
use serde::{Deserialize, Serialize};

/// What a rank tells the first one of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub node: String,
    pub version: String,
    /// Of the program's file.
    pub build: String,
    /// Of the words behind the program's name, and the directory in which they are meant.
    pub command: String,
    /// The local places, sources first.
    pub seen: Vec<Seen>,
}

impl Hello {
    /// `rank 3 on n04`
    pub fn title(&self, rank: u32) -> String {
        format!("rank {rank} on {}", self.node)
    }
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub path: String,
    pub is_source: bool,
    pub kind: Kind,
    /// The same on all nodes where the file system is: number, and time of the last change in ns.
    pub identity: Option<(u64, i128)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Nothing,
    Directory,
    /// A source without any entry.
    Empty,
    File,
    Other,
}

impl Kind {
    pub fn of(facts: &Metadata) -> Kind {
        match facts.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_file() => Kind::File,
            _ => Kind::Other,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Nothing => "does not exist",
            Kind::Directory => "is a directory",
            Kind::Empty => "is an empty directory",
            Kind::File => "is a file",
            Kind::Other => "is no file and no directory",
        }
    }
}

/// Looks at the local places of a command; where a destination does not exist, also at the directory in which it will be.
pub fn look(sources: &[Location], destination: Option<&Location>) -> Vec<Seen> {
    let mut seen: Vec<Seen> = local(sources).map(|path| of(&path, true)).collect();
    if let Some(path) = destination.and_then(|destination| local(std::slice::from_ref(destination)).next()) {
        let found = of(&path, false);
        let parent = path.parent().filter(|_| found.kind == Kind::Nothing);
        let parent = parent.map(|parent| of(&haul_run::open::path_of(parent.as_os_str().as_encoded_bytes()), false));
        seen.push(found);
        seen.extend(parent);
    }
    seen
}

/// The paths of local places.
pub fn local(places: &[Location]) -> impl Iterator<Item = PathBuf> + '_ {
    places.iter().filter(|place| place.scheme == Scheme::LOCAL).map(|place| haul_run::open::path_of(&place.path))
}

fn of(path: &Path, is_source: bool) -> Seen {
    let shown = haul_core::entry::show(path.as_os_str().as_encoded_bytes());
    // What a link points to is what counts, if it points to anything.
    let Ok(facts) = path.metadata().or_else(|_| path.symlink_metadata()) else {
        return Seen { path: shown, is_source, kind: Kind::Nothing, identity: None };
    };
    let is_empty = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let kind = match Kind::of(&facts) {
        Kind::Directory if is_source && is_empty() => Kind::Empty,
        kind => kind,
    };
    let changed = i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec());
    Seen { path: shown, is_source, kind, identity: Some((facts.ino(), changed)) }
}

/// A short form of some bytes, to be compared.
pub fn short(bytes: &[u8]) -> String {
    format!("{:032x}", xxh128(bytes))
}

/// What helps ranks that see different places.
pub const SHARED: &str = "use a file system that all nodes have mounted";

/// Why these ranks cannot work together, and what to do; the first difference counts.
pub fn conflict(hellos: &BTreeMap<u32, Hello>) -> Option<(String, &'static str)> {
    let (first, leader) = hellos.first_key_value()?;
    let name = |rank: &u32, hello: &Hello| hello.title(*rank);
    let lead = name(first, leader);
    let differing = |differs: &dyn Fn(&Hello) -> bool| hellos.iter().find(|(_, hello)| differs(hello));
    if let Some((rank, other)) = differing(&|hello| (&hello.version, &hello.build) != (&leader.version, &leader.build)) {
        let versions = if other.version == leader.version {
            format!("version {} of two builds", leader.version)
        } else {
            format!("versions {} and {}", leader.version, other.version)
        };
        let reason = format!("{lead} and {} run different programs: {versions}", name(rank, other));
        return Some((reason, "install the same haul-mpi on all nodes, or start it from a shared file system"));
    }
    if let Some((rank, other)) = differing(&|hello| hello.command != leader.command) {
        let reason = format!("{lead} and {} have different command lines or working directories", name(rank, other));
        return Some((reason, "give all ranks the same words, and absolute paths"));
    }
    for (at, own) in leader.seen.iter().enumerate() {
        // A rank for which the destination exists has not looked at the directory above it: the destination itself differs then.
        let differs = |there: &Seen| there.kind != own.kind || is_elsewhere(there, own);
        let Some((rank, other)) = differing(&|hello| hello.seen.get(at).is_some_and(differs)) else { continue };
        let (there, here) = (&other.seen[at], format!("{}: {} for {lead}", own.path, own.kind.words()));
        let reason = if there.kind == own.kind {
            format!("{here}, and another one for {}", name(rank, other))
        } else {
            format!("{here}, but {} for {}", there.kind.words(), name(rank, other))
        };
        return Some((reason, SHARED));
    }
    None
}

/// Another directory of the same name: neither the number nor the time agrees. One alone may differ, by file systems that number
/// anew on each node, or caches.
fn is_elsewhere(one: &Seen, other: &Seen) -> bool {
    match (one.identity, other.identity) {
        (Some(one), Some(other)) => one.0 != other.0 && one.1 != other.1,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str, kind: Kind, number: u64) -> Seen {
        Seen { path: path.into(), is_source: true, kind, identity: Some((number, i128::from(number))) }
    }

    fn hello(change: impl FnOnce(&mut Hello)) -> Hello {
        let seen = vec![seen("/scratch/src", Kind::Directory, 7), seen("/archive", Kind::Directory, 9)];
        let mut hello = Hello { node: "n1".into(), version: "1.0".into(), build: "b".into(), command: "c".into(), seen };
        change(&mut hello);
        hello
    }

    fn between(change: impl FnOnce(&mut Hello)) -> Option<String> {
        let other = hello(|hello| {
            hello.node = "n2".into();
            change(hello);
        });
        let hellos = BTreeMap::from([(0, hello(|_| ())), (1, hello(|_| ())), (2, other)]);
        conflict(&hellos).map(|(reason, _)| reason)
    }

    #[test]
    fn ranks_that_see_the_same_work_together() {
        assert_eq!(between(|_| ()), None);
        // File systems that number anew on each node, and a directory that changes meanwhile.
        assert_eq!(between(|hello| hello.seen[0].identity = Some((1234, 7))), None);
        assert_eq!(between(|hello| hello.seen[0].identity = Some((7, 8))), None);
    }

    #[test]
    fn what_differs_is_named_with_rank_and_node() {
        insta::assert_snapshot!(between(|hello| hello.version = "1.1".into()).unwrap(), @"rank 0 on n1 and rank 2 on n2 run different programs: versions 1.0 and 1.1");
        insta::assert_snapshot!(between(|hello| hello.build = "x".into()).unwrap(), @"rank 0 on n1 and rank 2 on n2 run different programs: version 1.0 of two builds");
        insta::assert_snapshot!(between(|hello| hello.command = "x".into()).unwrap(), @"rank 0 on n1 and rank 2 on n2 have different command lines or working directories");
        insta::assert_snapshot!(between(|hello| hello.seen[0] = seen("/scratch/src", Kind::Nothing, 0)).unwrap(), @"/scratch/src: is a directory for rank 0 on n1, but does not exist for rank 2 on n2");
        insta::assert_snapshot!(between(|hello| hello.seen[1].identity = Some((1, 1))).unwrap(), @"/archive: is a directory for rank 0 on n1, and another one for rank 2 on n2");
    }
}
