//! What only some stores offer. The bodies here are those of a store that does not.

use std::sync::Arc;
use std::time::Duration;

use super::{Sink, Spec, Store, Token, WriteOutcome};
use crate::entry::{Dir, Entry, Headers, Kind, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Algorithm;
use crate::option_set::OptionSet;

/// What a store offers beyond [`Store`]. A wrapper passes on what it does not change with `..inner.extensions()`.
#[derive(Clone, Copy)]
pub struct Extensions<'a> {
    pub unfinished: &'a dyn Unfinished,
    pub server_side: &'a dyn ServerSide,
    pub digests: &'a dyn Digests,
    pub options: &'a dyn ObjectOptions,
    pub owners: &'a dyn Owners,
    pub system: &'a dyn System,
    /// Device and inode of the root, where it has them.
    pub identity: Option<(u64, u64)>,
    /// The shortest time to an answer of the server so far; `None` without a server, or before the first answer.
    pub latency: Option<Duration>,
}

impl Default for Extensions<'_> {
    fn default() -> Self {
        Extensions {
            unfinished: &Absent,
            server_side: &Absent,
            digests: &Absent,
            options: &Absent,
            owners: &Absent,
            system: &Absent,
            identity: None,
            latency: None,
        }
    }
}

/// Every extension of a store that offers none.
#[derive(Debug)]
pub struct Absent;

impl Unfinished for Absent {}
impl ServerSide for Absent {}
impl Digests for Absent {}
impl ObjectOptions for Absent {}
impl Owners for Absent {}
impl System for Absent {}

/// Unfinished writes of this and of earlier runs.
pub trait Unfinished {
    /// Takes up a session begun elsewhere; `NotFound` when the store has given it up.
    fn attach(&self, name: &Name, _token: &Token, _spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        Err(Error::new(ErrorKind::NotFound, "resume").on(name))
    }

    /// The token under which `put_bundle` stages this file, for `abandon` after a kill; `None` if a kill leaves nothing of a small
    /// file.
    fn staging(&self, _entry: &Entry) -> Option<Token> {
        None
    }

    /// Where the unfinished write of this file with this token is: a name in the file's directory. `None` where it has none.
    fn staged(&self, entry: &Entry, _token: &Token) -> Option<Token> {
        self.staging(entry)
    }

    /// Removes what an unfinished write left behind; no error if nothing did.
    fn abandon(&self, _name: &Name, _token: &Token) -> Result<()> {
        Ok(())
    }

    /// Removes all unfinished writes in a directory that is to be deleted; returns their number. No listing shows them, and the
    /// directory cannot be removed with them.
    fn abandon_all(&self, _dir: &Dir) -> Result<u64> {
        Ok(0)
    }
}

/// How an entry of another store of the same system gets a name in this one: see [`ServerSide::perform`].
#[derive(Clone, Copy)]
pub enum ServerSideOp<'a> {
    /// It loses its own name; a directory comes with all that is in it.
    Rename,
    /// The file has both names.
    Link,
    Copy(&'a Spec<'a>, Moved<'a>),
    /// The same where both stores compute digests ([`Digests::algorithms`]): these are compared before the copy gets its name, and it is
    /// `Corrupt` if they differ.
    VerifiedCopy(&'a Spec<'a>, Moved<'a>),
}

/// Called with how many bytes of a copy have arrived so far, where that can be known while it goes on. `Cancelled` when the run is to stop.
pub type Moved<'a> = &'a dyn Fn(u64) -> Result<()>;

/// Renames, links and copies of entries of another store, made by the system that holds both.
pub trait ServerSide {
    /// Whether `perform` can be expected to copy a file of this size from there.
    fn copies(&self, _from: &dyn Store, _size: u64) -> bool {
        false
    }

    /// The token of what an interrupted copy by `perform` leaves of this file, for `abandon`; the next one of the same version goes on
    /// from it. `None` if nothing is left.
    fn copy_staging(&self, _entry: &Entry) -> Option<Token> {
        None
    }

    /// Gives an entry of another store the name `to` here without its bytes passing through this process. `Ok(None)` if this pair
    /// of stores cannot. A copy of a directory is one of its marker alone, and made only where there is none.
    ///
    /// # Errors
    /// `Exists` where a rename or a link would replace something; `Unsupported` across file systems.
    fn perform(&self, _from: &dyn Store, _entry: &Entry, _to: &Name, _how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        Ok(None)
    }
}

/// Hashes of whole files that the store computes.
pub trait Digests {
    /// The algorithms of `digest` that cost less than reading the file from here, the best one first: `check -c` and `--verify` use
    /// the first that suits. Empty where content is read, or hashed in ranges ([`super::NearData::hash`]).
    fn algorithms(&self) -> Vec<Algorithm> {
        Vec::new()
    }

    /// The hash of the content as the store itself computes it; `Ok(None)` if it cannot, or not for this file.
    fn digest(&self, _entry: &Entry, _algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

/// What the user has asked an object store to give its objects beside attributes, and what they have of it.
pub trait ObjectOptions {
    /// Whether `apply` may find something to do.
    fn are_set(&self) -> bool {
        false
    }

    /// Gives a file, or the marker of a directory, that is as it should be otherwise what the options of the place ask for, but with
    /// `dry`; what it lacked of it. A directory without a marker lacks nothing.
    fn apply(&self, _name: &Name, _kind: Kind, _dry: bool) -> Result<OptionSet> {
        Ok(OptionSet::NONE)
    }

    /// What the marker of a directory has beside attributes, for a copy of it in another object store ([`super::Caps::markers`]);
    /// `None` without a marker.
    fn marker_headers(&self, _name: &Name) -> Result<Option<Arc<Headers>>> {
        Ok(None)
    }
}

/// What a number of an owner stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Who {
    User,
    Group,
}

/// Users and groups on the machine of the store. `Unsupported` where it cannot be asked.
pub trait Owners {
    /// The name of a user or group; `None` if the number has no name.
    fn name(&self, _who: Who, _id: u32) -> Result<Option<Box<[u8]>>> {
        Err(Error::new(ErrorKind::Unsupported, "look up an owner"))
    }

    /// The number of a user or group of that name; `None` if unknown.
    fn id(&self, _who: Who, _name: &[u8]) -> Result<Option<u32>> {
        Err(Error::new(ErrorKind::Unsupported, "look up an owner"))
    }
}

/// Room left, as an unprivileged writer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub bytes: u64,
    /// Files that can still be made; `u64::MAX` where there is no such limit.
    pub files: u64,
}

/// A file system as a whole: see `statvfs(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Volume {
    /// Bytes in all, those that are free, and those of them that an unprivileged writer may use.
    pub size: u64,
    pub free: u64,
    pub available: u64,
    /// Inodes in all, 0 where they are made as they are needed, and those that are left.
    pub files: u64,
    pub free_files: u64,
}

/// What another machine did for a store, summed over its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteWork {
    pub reading: Duration,
    pub writing: Duration,
    /// Listing, looking up, making, setting attributes.
    pub metadata: Duration,
    /// Processor time of its program; what ssh itself takes is not in it.
    pub cpu: Duration,
    pub processors: u32,
    /// The way there and back, the shortest that was seen.
    pub round_trip: Option<Duration>,
}

/// The file system and the machine that hold the data.
pub trait System {
    /// The file system of the root; `Ok(None)` where the place has none. `Unsupported` where it cannot be asked.
    fn volume(&self) -> Result<Option<Volume>> {
        Ok(None)
    }

    /// `Ok(None)` where it is not known.
    fn space(&self) -> Result<Option<Space>> {
        let volume = match self.volume() {
            Err(e) if e.kind() == ErrorKind::Unsupported => None,
            volume => volume?,
        };
        let files = |volume: &Volume| if volume.files == 0 { u64::MAX } else { volume.free_files };
        Ok(volume.map(|volume| Space { bytes: volume.available, files: files(&volume) }))
    }

    /// Puts what was written under these names on stable storage, so that `reopen` reads the medium.
    fn sync(&self, _names: &[&Name]) -> Result<()> {
        Ok(())
    }

    /// Forgets what is kept for a directory that the run is done with.
    fn forget(&self, _dir: &Dir) {}

    /// Work that the remote host did for this place since it was opened; `None` if there is none or it does not report. At most a
    /// round trip and five seconds.
    fn remote_work(&self) -> Option<RemoteWork> {
        None
    }
}
