//! The contract between the engine and a place that holds data.
//!
//! Calls block, and all workers share the store. What `Caps` denies answers `Unsupported`; what it grants works: the
//! conformance suite checks both. A call may be repeated after an error whose remedy says so, and then has the effect of one.
//! Calls that the engine makes for each entry take many entries, so that a store behind a network pays one round trip.

mod caps;
mod empty;
mod extensions;
mod file;
mod file_extensions;
pub mod staging;

use std::any::Any;
use std::fmt;
use std::io::Read;
use std::time::Instant;

pub use crate::bundle::WriteOutcome;
pub use caps::{AttributeCaps, Caps, NameRules, Proof, Runs, Tuning, WriteStyle, check_destination, check_source, time_range};
pub use empty::Empty;
pub use extensions::{
    Absent, Digests, Extensions, Moved, ObjectOptions, Owners, RemoteWork, ServerSide, ServerSideOp, Space, System, Unfinished, Volume, Who,
};
pub use file::{Chunk, Receipt, Sink, Source, Spec, Token, chunk_size, chunks};
pub use file_extensions::{ContentChecksum, ContentVerifier, Fill, NearData, OnChunks, Reach, SinkExtensions, SinkState, SourceExtensions};

use crate::bundle::{Bundle, Outcome};
use crate::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, ErrorKind, Result};

/// Whether a listing goes on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Go,
    Stop,
}

/// What `set_meta` is to do for one name.
#[derive(Clone, Copy, Debug)]
pub struct MetaSpec<'a> {
    pub name: &'a Name,
    pub entry: &'a Entry,
    pub keep: MetaMask,
}

/// Identifies a place for server-side copies and journals: stores with equal `scheme`, `endpoint` and `volume` share one system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    pub scheme: &'static str,
    pub form: AddressForm,
    /// Host and port as the user reaches it; empty for local.
    pub endpoint: String,
    /// Who asks there, where one run may ask as several: a profile of an object store; else empty.
    pub account: String,
    /// Bucket or file system; empty where it says nothing.
    pub volume: String,
    /// Absolute path of the root.
    pub root: Vec<u8>,
}

/// How the address of a place is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressForm {
    #[default]
    Url,
    /// As a URL, or as `host:path`: the user can log in there.
    Host,
    /// A URL that names the bucket, not the service.
    Service,
    /// The path alone.
    Path,
}

impl Place {
    /// As the user would type it, without credentials.
    pub fn words(&self) -> String {
        let root = crate::entry::show(&self.root);
        match self.form {
            AddressForm::Path => root,
            AddressForm::Service => format!("{}://{}{root}", self.scheme, self.volume),
            AddressForm::Url | AddressForm::Host => format!("{}://{}{root}", self.scheme, self.endpoint),
        }
    }

    /// Whether one service and account hold both: whether an account may read what another may is not known.
    pub fn shares_service(&self, other: &Place) -> bool {
        (self.scheme, &self.endpoint, &self.account) == (other.scheme, &other.endpoint, &other.account)
    }

    /// Scheme, endpoint and account where the typed address does not contain them. Else empty.
    pub fn service(&self) -> String {
        match self.form {
            AddressForm::Service => format!("{} {} {}", self.scheme, self.endpoint, self.account).trim_end().to_string(),
            _ => String::new(),
        }
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

    /// The entry itself, never what a link points to.
    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry>;

    /// Many names of one directory; one result each, in order. With `follow`, what a link points
    /// to, inside or outside the tree, as the user asked.
    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, _follow: bool) -> Vec<Found> {
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

    /// Begins a write, or begins it again from nothing if one with the same name and stamp was left over.
    fn create(&self, name: &Name, _spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        Err(read_only("create", name))
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
    fn make_node(&self, name: &Name, _entry: &Entry, _keep: MetaMask) -> Result<WriteOutcome> {
        Err(read_only("create", name))
    }

    /// Makes `name` another name of the file `existing`, in place of any other file.
    fn make_hard_link(&self, name: &Name, _existing: &Name) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "link").on(name))
    }

    /// Sets attributes, mtime last; what was refused is in the result, not an error.
    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        specs.iter().map(|spec| Err(read_only("set attributes", spec.name))).collect()
    }

    /// Reads extended attributes and ACLs into entries that lack them.
    fn read_xattrs(&self, entries: &mut [Entry], _want: MetaMask) -> Vec<Result<()>> {
        entries.iter().map(|_| Ok(())).collect()
    }

    /// Removes files, links and empty directories. An entry with an inode is removed only if the name still has it; else
    /// `Changed`.
    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        entries.iter().map(|entry| Err(read_only("remove", &entry.name))).collect()
    }

    /// Gives `from` the name `to`, in place of any file if `replace`; `Exists` otherwise.
    fn rename(&self, from: &Name, _to: &Name, _replace: bool) -> Result<()> {
        Err(read_only("rename", from))
    }

    /// Opens a file that was landed, past every cache that `Caps::proof` speaks of.
    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        self.open(&Entry::bare(name.clone(), Kind::File), false)
    }

    /// What only some stores offer.
    fn extensions(&self) -> Extensions<'_> {
        Extensions::default()
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
    let again = listed && empty && store.extensions().unfinished.abandon_all(&dir).is_ok_and(|count| count > 0);
    if blocked {
        store.extensions().system.forget(&dir);
    }
    let removed = if again { store.remove(std::slice::from_ref(entry)).pop().unwrap_or(Ok(())) } else { Err(failed) };
    removed.map_err(|e| match e.kind() {
        ErrorKind::Exists if blocked => e.hint("something was created in it meanwhile: run the same command again"),
        _ => e,
    })
}
