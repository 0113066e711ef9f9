//! The contract between the engine and a place that holds data.
//!
//! Calls block, and all workers share the store. What `Caps` denies answers `Unsupported`; what it grants works: the
//! conformance suite checks both. A call may be repeated after an error whose remedy says so, and then has the effect of one.
//! Calls that the engine makes for each entry take many entries, so that a store behind a network pays one round trip.

mod caps;
mod empty;
mod file;
pub mod staging;

use std::any::Any;
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::bundle::WriteOutcome;
pub use caps::{Caps, Proof, Runs, WriteStyle, check_destination, check_source, time_range};
pub use empty::Empty;
pub use file::{Chunk, ContentVerifier, OnChunks, Reach, Receipt, Sink, Source, Spec, Token, chunk_size, chunks};

use crate::bundle::{Bundle, Outcome};
use crate::entry::{Dir, Entry, Headers, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Algorithm;
use crate::option_set::OptionSet;

/// Whether a listing goes on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Go,
    Stop,
}

/// How an entry of another store of the same system gets a name in this one: see [`Store::server_side`].
#[derive(Clone, Copy, Debug)]
pub enum ServerSideOp<'a> {
    /// It loses its own name; a directory comes with all that is in it.
    Rename,
    /// The file has both names.
    Link,
    Copy(&'a Spec<'a>, Moved<'a>),
    /// The same where both stores compute digests ([`Store::digests`]): these are compared before the copy gets its name, and it is `Corrupt`
    /// if they differ.
    VerifiedCopy(&'a Spec<'a>, Moved<'a>),
}

/// Told how many bytes of a copy have arrived so far, where that can be known while it goes on. `Cancelled` when the run is to stop.
#[derive(Clone, Copy)]
pub struct Moved<'a>(pub &'a dyn Fn(u64) -> Result<()>);

impl fmt::Debug for Moved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Moved")
    }
}

impl Moved<'static> {
    /// Nobody wants to know.
    pub const UNHEARD: Moved<'static> = Moved(&|_| Ok(()));
}

/// What `set_meta` is to do for one name.
#[derive(Clone, Copy, Debug)]
pub struct MetaSpec<'a> {
    pub name: &'a Name,
    pub entry: &'a Entry,
    pub keep: MetaMask,
}

/// Room left, as an unprivileged writer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub bytes: u64,
    /// Files that can still be made; `u64::MAX` where there is no such limit.
    pub files: u64,
}

/// A file system as a whole: see `statvfs(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Bytes in all, those that nobody uses, and those of them that an unprivileged writer may use.
    pub size: u64,
    pub free: u64,
    pub available: u64,
    /// Inodes in all, 0 where they are made as they are needed, and those that are left.
    pub files: u64,
    pub free_files: u64,
}

/// Identifies a place for server-side copies and journals: stores with equal `scheme`, `endpoint` and `volume` share one system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub scheme: &'static str,
    /// Host and port as the user reaches it; empty for local.
    pub endpoint: String,
    /// Who asks there, where one run may ask as several: a profile of an object store; else empty.
    pub account: String,
    /// Bucket or file system; empty where it says nothing.
    pub volume: String,
    /// Absolute path of the root.
    pub root: Vec<u8>,
}

impl Place {
    /// As the user would type it, without credentials.
    pub fn words(&self) -> String {
        let root = crate::entry::show(&self.root);
        if self.scheme == "local" { root } else { format!("{}://{}{}", self.scheme, self.endpoint, root) }
    }

    /// Scheme, endpoint and account where the typed address does not contain them: of an object store. Else empty.
    pub fn service(&self) -> String {
        if self.scheme == "s3" { format!("s3 {} {}", self.endpoint, self.account).trim_end().to_string() } else { String::new() }
    }
}

/// One name to look up: the answer of [`Store::stat_many`].
#[derive(Debug)]
pub enum Found {
    Entry(Entry),
    Absent,
    Failed(Error),
}

/// A place that data can be read from and written to.
///
/// What may be done without has a body here: a store for reading alone implements `caps`, `place`, `stat`, `list` and `open`.
/// Names are resolved one component at a time and never through a symlink; a store whose names are
/// keys has nothing to resolve. Errors carry operation, kind and name.
pub trait Store: Any + Send + Sync + fmt::Debug {
    fn caps(&self) -> &Caps;

    fn place(&self) -> &Place;

    /// Device and inode of the root, where it has them.
    fn identity(&self) -> Option<(u64, u64)> {
        None
    }

    /// The entry itself, never what a link points to.
    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry>;

    /// Many names of one directory; one result each, in order. With `follow`, what a link points
    /// to, inside or outside the tree, as the user asked.
    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        let _ = follow;
        leaves
            .iter()
            .map(|leaf| match self.stat(&Name::new(dir, leaf), want) {
                Ok(entry) => Found::Entry(entry),
                Err(e) if e.kind() == ErrorKind::NotFound => Found::Absent,
                Err(e) => Found::Failed(e),
            })
            .collect()
    }

    /// Entries in no order, without staging files. An entry that cannot be read goes to `each` as an error; an error returned
    /// means that the listing is incomplete.
    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()>;

    /// `Changed` when the content is no longer what `entry` was listed as; never blocks on a fifo.
    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>>;

    /// Whether `Source::signature` and `Sink::reuse` work here: changes are found where the content is, without moving it.
    fn has_signatures(&self) -> bool {
        false
    }

    /// Begins a write, or begins it again from nothing if one with the same name and stamp was left over.
    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        let _ = spec;
        Err(read_only("create", name))
    }

    /// Takes up a session begun elsewhere; `NotFound` when the store has given it up.
    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        let _ = (token, spec);
        Err(Error::new(ErrorKind::NotFound, "resume").on(name))
    }

    /// The token under which `put_bundle` stages this file, for `abandon` after a kill; `None` if a kill leaves nothing of a small
    /// file.
    fn staging(&self, entry: &Entry) -> Option<Token> {
        let _ = entry;
        None
    }

    /// Where the unfinished write of this file with this token is: a name in the file's directory. `None` where it has none.
    fn staged(&self, entry: &Entry, token: &Token) -> Option<Token> {
        let _ = token;
        self.staging(entry)
    }

    /// Removes what an unfinished write left behind; no error if nothing did.
    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        let _ = (name, token);
        Ok(())
    }

    /// Removes all unfinished writes in a directory that is to be deleted; returns their number. No listing shows them, and the
    /// directory cannot be removed with them.
    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        let _ = dir;
        Ok(0)
    }

    /// Reads whole small files into the bundle, attributes as the bundle wants them. A failure is its item's.
    fn get_bundle(&self, bundle: &mut Bundle) {
        let began = Instant::now();
        let Bundle { items, data, follow, .. } = bundle;
        for item in items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Listed)) {
            let start = data.len();
            item.outcome = match read_whole(self.open(&item.entry, *follow), data) {
                Ok(stamp) => {
                    item.at = start..data.len();
                    (item.entry.size, item.entry.mtime, item.entry.version) = (stamp.size, stamp.mtime, stamp.version);
                    Outcome::Read
                }
                Err(e) => {
                    data.truncate(start);
                    Outcome::Failed(e.on(&item.entry.name))
                }
            };
        }
        bundle.spent.reading += began.elapsed();
    }

    /// Writes every item that was read: created in place if `bundle.direct`, else staged and renamed; mtime last. A failure is its
    /// item's and leaves the old file, if any.
    fn put_bundle(&self, bundle: &mut Bundle) {
        for item in bundle.items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Read)) {
            item.outcome = Outcome::Failed(read_only("create", &item.entry.name));
        }
    }

    /// Makes directories whose parents exist, with u+rwx whatever `mode` is; `Ok(false)` if one exists. `set_meta` sets the
    /// attributes at the end.
    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        dirs.iter().map(|(dir, _)| Err(read_only("mkdir", &Name::of(dir)))).collect()
    }

    /// Creates a symlink, fifo, socket or device like `entry` at `name`, in place of any file but never of a directory.
    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        let _ = (entry, keep);
        Err(read_only("create", name))
    }

    /// Makes `name` another name of the file `existing`, in place of any other file.
    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        let _ = existing;
        Err(Error::new(ErrorKind::Unsupported, "link").on(name))
    }

    /// Sets attributes, mtime last; what was refused is in the result, not an error.
    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        specs.iter().map(|spec| Err(read_only("set attributes", spec.name))).collect()
    }

    /// Whether `apply_options` may find something to do: the place was asked to give files more than attributes.
    fn has_options(&self) -> bool {
        false
    }

    /// Gives a file, or the marker of a directory, that is as it should be otherwise what the options of the place ask for, but with
    /// `dry`; what it lacked of it. A directory without a marker lacks nothing.
    fn apply_options(&self, name: &Name, kind: Kind, dry: bool) -> Result<OptionSet> {
        let _ = (name, kind, dry);
        Ok(OptionSet::NONE)
    }

    /// What the marker of a directory has beside attributes, for a copy of it in another object store ([`Caps::markers`]); `None`
    /// without a marker.
    fn marker_headers(&self, name: &Name) -> Result<Option<Arc<Headers>>> {
        let _ = name;
        Ok(None)
    }

    /// Reads extended attributes and ACLs into entries that lack them.
    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let _ = want;
        entries.iter().map(|_| Ok(())).collect()
    }

    /// Removes files, links and empty directories. An entry with an inode is removed only if the name still has it; else
    /// `Changed`.
    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        entries.iter().map(|entry| Err(read_only("remove", &entry.name))).collect()
    }

    /// Gives `from` the name `to`, in place of any file if `replace`; `Exists` otherwise.
    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let _ = (to, replace);
        Err(read_only("rename", from))
    }

    /// Whether `server_side` can be expected to copy a file of this size from there.
    fn copies(&self, from: &dyn Store, size: u64) -> bool {
        let _ = size;
        let (from, to) = (from.place(), self.place());
        // A service copies for one account: whether that may read what another may is not known.
        self.caps().copies && (from.scheme, &from.endpoint, &from.account) == (to.scheme, &to.endpoint, &to.account)
    }

    /// The token of what an interrupted copy by `server_side` leaves of this file, for `abandon`; the next one of the same version goes on
    /// from it. `None` if nothing is left.
    fn copy_staging(&self, entry: &Entry) -> Option<Token> {
        let _ = entry;
        None
    }

    /// Gives an entry of another store the name `to` here without its bytes passing through this process. `Ok(None)` if this pair
    /// of stores cannot. A copy of a directory is one of its marker alone, and made only where there is none.
    ///
    /// # Errors
    /// `Exists` where a rename or a link would replace something; `Unsupported` across file systems.
    fn server_side(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        let _ = (from, entry, to, how);
        Ok(None)
    }

    /// The algorithms of `digest` that cost less than reading the file from here, the best one first: `check -c` and `--verify` use
    /// the first that suits. Empty where content is read, or hashed in ranges ([`Source::hash`]).
    fn digests(&self) -> Vec<Algorithm> {
        Vec::new()
    }

    /// The hash of the content as the store itself computes it; `Ok(None)` if it cannot, or not for this file.
    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let _ = (entry, algorithm);
        Ok(None)
    }

    /// Puts what was written under these names on stable storage, so that `reopen` reads the medium.
    fn sync(&self, names: &[&Name]) -> Result<()> {
        let _ = names;
        Ok(())
    }

    /// Opens a file that was landed, past every cache that `Caps::proof` speaks of.
    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        self.open(&Entry::bare(name.clone(), Kind::File), false)
    }

    /// The shortest time to an answer of the server so far. `None` where there is no server, or nobody has measured it.
    fn latency(&self) -> Option<Duration> {
        None
    }

    /// `Ok(None)` where the place has no notion of it.
    fn space(&self) -> Result<Option<Space>> {
        Ok(None)
    }

    /// The file system of the root; `Ok(None)` where the place has no notion of it. `Unsupported` where nobody can be asked.
    fn volume(&self) -> Result<Option<Volume>> {
        Ok(None)
    }

    /// Forgets what is kept for a directory that the run is done with.
    fn forget(&self, dir: &Dir) {
        let _ = dir;
    }

    /// Work that the remote host did for this place since it was opened; `None` if there is none or it does not report. At most a
    /// round trip and five seconds.
    fn remote_work(&self) -> Option<RemoteWork> {
        None
    }

    /// The name of a user or group on the machine of this store; `None` if the number has no name. `Unsupported` where nobody can
    /// be asked.
    fn owner_name(&self, who: Who, id: u32) -> Result<Option<Box<[u8]>>> {
        let _ = (who, id);
        Err(Error::new(ErrorKind::Unsupported, "look up an owner"))
    }

    /// The number of a user or group of that name on that machine; `None` if unknown. `Unsupported` where nobody can be asked.
    fn owner_id(&self, who: Who, name: &[u8]) -> Result<Option<u32>> {
        let _ = (who, name);
        Err(Error::new(ErrorKind::Unsupported, "look up an owner"))
    }
}

fn read_only(op: &'static str, name: &Name) -> Error {
    Error::new(ErrorKind::Unsupported, op).on(name).because("it is read-only")
}

/// Appends all that a source has, as it was stamped after the last byte.
fn read_whole(source: Result<Box<dyn Source>>, to: &mut Vec<u8>) -> Result<Stamp> {
    let source = source?;
    let (stamp, start) = (source.stamp()?, to.len());
    let read = source.read(0..stamp.size)?.take(stamp.size.saturating_add(1)).read_to_end(to);
    read.map_err(|e| Error::from_io(e, "read"))?;
    if (to.len() - start) as u64 != stamp.size || source.stamp()? != stamp {
        return Err(Error::new(ErrorKind::Changed, "read"));
    }
    Ok(stamp)
}

/// What a number of an owner stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    User,
    Group,
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

/// Once more after `failed`, if all that was left in a directory was what unfinished writes leave there.
pub fn remove_emptied(store: &dyn Store, entry: &Entry, failed: Error) -> Result<()> {
    let dir = entry.name.dir.child(&entry.name.leaf);
    let blocked = entry.kind == Kind::Dir && !matches!(failed.kind(), ErrorKind::NotFound | ErrorKind::Changed);
    let mut empty = true;
    let mut look = |_| {
        empty = false;
        Flow::Stop
    };
    let listed = blocked && store.list(&dir, &mut look).is_ok();
    let again = listed && empty && store.abandon_all(&dir).is_ok_and(|count| count > 0);
    if blocked {
        store.forget(&dir);
    }
    let removed = if again { store.remove(std::slice::from_ref(entry)).pop().unwrap_or(Ok(())) } else { Err(failed) };
    removed.map_err(|e| match e.kind() {
        ErrorKind::Exists if blocked => e.hint("something was created in it meanwhile: run the same command again"),
        _ => e,
    })
}
