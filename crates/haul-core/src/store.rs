//! The contract between the engine and a place that holds data.
//!
//! Everything is blocking and shared by every worker. What `Caps` denies answers `Unsupported`; what it
//! grants works: the conformance suite checks both ways. Any call may be made again after an error
//! whose remedy says so, and then has the same effect as once. Calls that the engine makes once an
//! entry take many entries, so that a store behind a network pays one round trip for all of them; a
//! store that gains nothing by that loops.

use std::any::Any;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

pub use crate::bundle::Landed;
use crate::bundle::{Bundle, Outcome};
use crate::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Algorithm;
use crate::outline::Outline;

/// What a store can do, as far as it changes the plan. Found out once, when the store is opened.
#[derive(Clone, Debug)]
pub struct Caps {
    pub write: WriteStyle,
    /// `Source::read` may start anywhere.
    pub read_ranges: bool,
    /// Files have no size before their end, and are read once: [`Source::stream`].
    pub streams: bool,
    /// Directories are things that exist by themselves; else they are only parts of names.
    pub dirs: bool,
    /// Where they are not: `set_meta` on one makes something that carries its attributes, and `list` and `stat` give them.
    pub markers: bool,
    pub links: bool,
    pub specials: bool,
    pub hard_links: bool,
    /// Attributes that `set_meta` and `commit` can keep.
    pub sets: MetaMask,
    /// Those of symlinks: fewer where a request to set them would follow the link.
    pub link_sets: MetaMask,
    /// Names of owners are kept beside their numbers, and entries come with them.
    pub owner_names: bool,
    /// Attributes that give rights (setuid, devices, file capabilities) are left out: others may have chosen them.
    pub untrusted: bool,
    /// The groups that entries can be given, where owners cannot be chosen; `None` where any owner and group can.
    pub groups: Option<Vec<u32>>,
    /// Attributes that `list` yields with each entry; without BASIC an entry is looked up by `stat_many`.
    pub lists: MetaMask,
    /// Looking a name up costs no round trip: the walk asks for names instead of merging two listings.
    pub cheap_stat: bool,
    /// Times closer than this cannot be told apart.
    pub mtime_grain: Duration,
    /// `commit` puts a whole new file in the place of an old one in one step.
    pub atomic_commit: bool,
    /// What `landed` has confirmed survives a crash of any machine of ours.
    pub durable: bool,
    /// `take` copies between places of the same scheme and endpoint, whatever their volumes.
    pub copies: bool,
    /// An unfinished write can be taken up by its token.
    pub attach: bool,
    /// A small new file may be created under its final name (see rules on intents).
    pub direct_create: bool,
    /// Workers that gain by writing one file at the same time; at least 1.
    pub writers_per_file: u32,
    /// Workers that gain by reading one file at the same time; at least 1.
    pub readers_per_file: u32,
    /// Names are file names: no empty part, no `.` or `..`. False for keys of object stores.
    pub file_names: bool,
    /// Names are UTF-8; others are refused.
    pub text_names: bool,
    pub name_max: usize,
    /// Two names that differ in case only are one.
    pub folds_case: bool,
    /// What one bundle may carry.
    pub bundle_bytes: usize,
    pub bundle_files: usize,
    /// Hashes that `digest` can give without the bytes passing through here.
    pub hashes: Vec<Algorithm>,
    /// What reading back proves.
    pub proof: Proof,
}

impl Caps {
    /// Those of a place that can be read from its start to its end and no more: a store names what it can beyond that.
    pub fn minimal() -> Caps {
        Caps {
            write: WriteStyle::InOrder,
            read_ranges: false,
            streams: false,
            dirs: false,
            markers: false,
            links: false,
            specials: false,
            hard_links: false,
            sets: MetaMask::NONE,
            link_sets: MetaMask::NONE,
            owner_names: false,
            untrusted: false,
            groups: None,
            lists: MetaMask::NONE,
            cheap_stat: false,
            mtime_grain: Duration::from_secs(1),
            atomic_commit: false,
            durable: false,
            copies: false,
            attach: false,
            direct_create: false,
            writers_per_file: 1,
            readers_per_file: 1,
            file_names: true,
            text_names: false,
            name_max: 255,
            folds_case: false,
            bundle_bytes: 4 << 20,
            bundle_files: 16,
            hashes: Vec::new(),
            proof: Proof::Server,
        }
    }
}

/// What `reopen` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The medium, past the page cache.
    Medium,
    /// Memory is the medium, or the cache cannot be passed: the bytes as the system holds them.
    Cache,
    /// The server sends the bytes again.
    Server,
}

impl Proof {
    pub fn words(self) -> &'static str {
        match self {
            Proof::Medium => "reread past the page cache",
            Proof::Cache => "reread from memory",
            Proof::Server => "reread from the server",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStyle {
    /// POSIX, SFTP, GridFTP mode E: any bytes, anywhere, in any order.
    Anywhere,
    /// S3: numbered parts of a bounded size.
    Parts { least: u64, most: u64, count: u32 },
    /// Plain FTP: one stream; a chunk is a place to resume from.
    InOrder,
}

/// Whether a listing goes on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Go,
    Stop,
}

/// Part of a file: bytes `at`, the `index`-th of its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub index: u32,
    pub at: Range<u64>,
}

/// Proof that a chunk is in the destination. The journal keeps it; `commit` needs them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub index: u32,
    /// What the store wants back at commit: a part's ETag. Empty for POSIX.
    pub tag: Box<[u8]>,
    /// XXH3-128 of the chunk as it was read from the source, if one was wanted.
    pub hash: Option<u128>,
}

/// Names an unfinished write so that another process or another node can take it up: the staging name, an upload id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(pub Box<[u8]>);

/// What a file is to become: known before its first byte is written.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// The source's entry: size, attributes and, in `xattrs`, those that were asked for.
    pub entry: &'a Entry,
    /// The attributes to keep, of those that `Caps::sets` has.
    pub keep: MetaMask,
    /// Chunk size in bytes.
    pub chunk: u64,
    /// Write into the existing file, which keeps its inode: a torn write shows.
    pub in_place: bool,
    /// Data and name are on stable storage when `commit` returns.
    pub sync: bool,
}

/// How an entry of another store of the same system gets a name in this one: see [`Store::take`].
#[derive(Clone, Copy, Debug)]
pub enum Within<'a> {
    /// It loses its own name; a directory comes with all that is in it.
    Rename,
    /// The file has both names.
    Link,
    Copy(&'a Spec<'a>),
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

/// Identifies a place for server-side copies and journals: two stores with the same `scheme`, `endpoint`
/// and `volume` hold their data in one system.
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

    /// Scheme, endpoint and account, where the address that the user types does not say them all: of an object store. Else
    /// empty.
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

    /// Many names of one directory; one result each, in order. `follow` is for `-L`: what a link points
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

    /// Entries as they are found, in no order, staging files left out. One that cannot be read goes to
    /// `each` as an error and the listing goes on; an error returned means that the listing is not complete.
    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()>;

    /// `Changed` when the content is no longer what `entry` was listed as; never blocks on a fifo.
    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>>;

    /// Whether `Source::outline` and `Sink::reuse` work here: what is changed can be told from what is not without moving it.
    fn outlines(&self) -> bool {
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

    /// The token under which `put_bundle` stages this file, for `abandon` after a kill; `None` where nothing is
    /// left of a small file that was not finished.
    fn staging(&self, entry: &Entry) -> Option<Token> {
        let _ = entry;
        None
    }

    /// Removes what an unfinished write left behind; no error if nothing did.
    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        let _ = (name, token);
        Ok(())
    }

    /// Removes what unfinished writes, of whatever run, have left in a directory that is about to go; how many there were.
    /// No listing shows them, and with them in it a directory cannot be removed.
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

    /// Writes every item that was read: created in place if `bundle.direct`, else staged and renamed;
    /// attributes set, mtime last. A failure is its item's, and leaves nothing under the name but what was there.
    fn put_bundle(&self, bundle: &mut Bundle) {
        for item in bundle.items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Read)) {
            item.outcome = Outcome::Failed(read_only("create", &item.entry.name));
        }
    }

    /// Makes directories whose parents exist, usable by us (u+rwx) whatever `mode` says; `Ok(false)` if
    /// one was there already. The attributes proper are set by `set_meta` at the end.
    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        dirs.iter().map(|(dir, _)| Err(read_only("mkdir", &Name::of(dir)))).collect()
    }

    /// Puts a symlink, fifo, socket or device node like `entry` at `name`, in place of any file but never
    /// of a directory.
    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<Landed> {
        let _ = (entry, keep);
        Err(read_only("create", name))
    }

    /// Makes `name` another name of the file `existing`, in place of any other file.
    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        let _ = existing;
        Err(Error::new(ErrorKind::Unsupported, "link").on(name))
    }

    /// Sets attributes, mtime last; what was refused is in the result, not an error.
    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<Landed>> {
        specs.iter().map(|spec| Err(read_only("set attributes", spec.name))).collect()
    }

    /// Reads extended attributes and ACLs into entries that lack them.
    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let _ = want;
        entries.iter().map(|_| Ok(())).collect()
    }

    /// Removes files, links, and directories that are empty. An entry with an inode is removed only if
    /// the name still has that inode; else `Changed`.
    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        entries.iter().map(|entry| Err(read_only("remove", &entry.name))).collect()
    }

    /// Gives `from` the name `to`, in place of any file if `replace`; `Exists` otherwise.
    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let _ = (to, replace);
        Err(read_only("rename", from))
    }

    /// Gives an entry of another store the name `to` here, without its bytes passing through this process. `Ok(None)` when this
    /// pair of stores cannot.
    ///
    /// # Errors
    ///
    /// `Exists` where a rename or a link would replace something; `Unsupported` across file systems.
    fn take(&self, from: &dyn Store, entry: &Entry, to: &Name, how: Within<'_>) -> Result<Option<Landed>> {
        let _ = (from, entry, to, how);
        Ok(None)
    }

    /// The hash of the content as the store itself computes it; `Ok(None)` if it cannot.
    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let _ = (entry, algorithm);
        Ok(None)
    }

    /// Puts what was written under these names on stable storage, so that `reopen` reads the medium.
    fn settle(&self, names: &[&Name]) -> Result<()> {
        let _ = names;
        Ok(())
    }

    /// Opens a file that was landed, past every cache that `Caps::proof` speaks of.
    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        self.open(&Entry::bare(name.clone(), Kind::File), false)
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

    /// What the machine that holds this place has done for it since it was opened; `None` where there is no other machine,
    /// or none that says. May take a round trip, and no longer than five
    /// seconds.
    fn far_work(&self) -> Option<FarWork> {
        None
    }

    /// The name of a user or a group on the machine whose numbers are this store's; `None` for a number without a name.
    /// `Unsupported` where nobody can be asked.
    fn owner_name(&self, who: Who, id: u32) -> Result<Option<Box<[u8]>>> {
        let _ = (who, id);
        Err(Error::new(ErrorKind::Unsupported, "look up an owner"))
    }

    /// The number of a user or a group of that name on that machine; `None` for a name that is not known there.
    /// `Unsupported` where nobody can be asked.
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
pub struct FarWork {
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

/// A file that is open on another machine, as a third one can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Which conversation with a machine knows the file; unique in the process.
    pub host: u64,
    /// The file's number there.
    pub file: u64,
}

/// Says of bytes that go by, all of them and in order, whether they are the content of a file elsewhere.
pub trait Judge: Send {
    fn update(&mut self, bytes: &[u8]);

    /// `None` where what is known of that file does not suffice to tell.
    fn verdict(self: Box<Self>) -> Option<bool>;
}

/// One file, open for reading at any place.
pub trait Source: Send + Sync {
    /// Exactly the bytes of `at`; fewer is `Changed`. How many are asked for ahead is the store's own affair.
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>>;

    /// The content from its start to its end, where nobody knows how much it is; [`Source::stamp`] says so afterwards. A read that
    /// has waited for a fraction of a second is `WouldBlock`: whoever reads can see whether the run is to stop.
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Err(Error::new(ErrorKind::Unsupported, "read"))
    }

    /// Says that these parts will be read next, in this order: a source behind a network may ask for them ahead.
    fn expect(&self, parts: &[Range<u64>]) {
        let _ = parts;
    }

    /// Says that `at` will be read from its start to its end by reads that follow each other: one request may serve them all.
    fn goes_on(&self, at: Range<u64>) {
        let _ = at;
    }

    /// What is open now, as `open` would stamp it. Asked again before a commit.
    fn stamp(&self) -> Result<Stamp>;

    /// The parts of `at` that hold data, in order; the rest are holes.
    fn data(&self, at: Range<u64>) -> Result<Vec<Range<u64>>> {
        Ok(vec![at])
    }

    /// Extended attributes and ACLs of what is open.
    fn xattrs(&self, want: MetaMask) -> Result<crate::entry::Xattrs> {
        let _ = want;
        Ok(crate::entry::Xattrs::default())
    }

    /// The outline of the whole content with pieces of `average` bytes, made where the content lies; `Ok(None)` where it would
    /// have to be read over a network for it. `each` is told how many bytes more have been read, and may stop it.
    fn outline(&self, average: u32, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<Option<Outline>> {
        let _ = (average, each);
        Ok(None)
    }

    /// XXH3-128 of the bytes of `at`, computed where they lie; `Ok(None)` where they have to be read for it.
    fn hash(&self, at: Range<u64>) -> Result<Option<u128>> {
        let _ = at;
        Ok(None)
    }

    /// Who can tell of bytes whether they are this file's content without its being read: by a checksum that the store
    /// keeps with it.
    fn judge(&self) -> Result<Option<Box<dyn Judge>>> {
        Ok(None)
    }

    /// The store knows of the content in stretches of so many bytes, the last one shorter, and compares what is read of each
    /// from its start to its end by one read.
    fn stretch(&self) -> Option<u64> {
        None
    }

    /// The first bytes that are not compared yet, because they were not read, or not in order: [`Source::show`] is to see them.
    /// [`Source::stamp`] is `Corrupt` once all were seen and are not what is stored.
    fn gap(&self) -> Option<Range<u64>> {
        None
    }

    /// Shows bytes that were read before, beginning with those of [`Source::gap`].
    fn show(&self, at: u64, bytes: &[u8]) {
        let _ = (at, bytes);
    }

    /// What the store itself says of the content: another file that says the same has the same, one that says something
    /// else in the same words (up to the colon) has another.
    fn claim(&self) -> Option<String> {
        None
    }

    /// The content, or its beginning, came with the answer to `open`: what that took was waiting for data.
    fn came_with_open(&self) -> bool {
        false
    }

    /// For a sink on another machine to read from by itself.
    fn reach(&self) -> Option<Reach> {
        None
    }

    /// For the kernel to copy from: `copy_file_range`, `splice`.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// One file being written. Chunks come in the order `Caps::write` allows, from any thread, and may
/// come twice. Under the final name there is only ever the old file or the whole new one, never a part,
/// but for `Spec::in_place`. Dropping a `Sink` leaves the session as it is: `commit` and `abort` end it.
pub trait Sink: Send + Sync {
    fn token(&self) -> Token;

    /// Writes the bytes of `at`, all of them or an error.
    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()>;

    /// Makes `at` read as zeros without writing them, where the store can.
    fn hole(&self, at: Range<u64>) -> Result<()>;

    /// Fills `at` with what the file that still has the final name holds from `from` on, without the bytes passing through
    /// here. `Changed` when that file is not what `old` says, now or at commit; `Unsupported` where `Store::outlines` denies.
    fn reuse(&self, old: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        let _ = (old, from, at);
        Err(Error::new(ErrorKind::Unsupported, "reuse"))
    }

    /// Has `at` written with the same bytes of a file on another machine, without their passing through here. Answers with
    /// their XXH3-128, if it is wanted; `Ok(None)` where the two machines cannot reach each other.
    fn pull(&self, from: Reach, at: Range<u64>, hash: bool) -> Result<Option<u128>> {
        let _ = (from, at, hash);
        Ok(None)
    }

    /// Says that every byte of the chunk has been written; what comes back belongs into its receipt.
    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>>;

    /// Whether the store still has what a receipt from before `attach` says has landed.
    fn keeps(&self, receipt: &Receipt) -> bool {
        let _ = receipt;
        true
    }

    /// The bytes as they are now in the destination, past the page cache where there is one: for
    /// `--verify` before a commit. `Unsupported` where only a committed file can be read.
    fn reread(&self) -> Result<Box<dyn Source>>;

    /// Attributes, then the final name. `entry` is the source as it was when its last byte was read, of
    /// `entry.size` bytes. A receipt short is an error and nothing is changed.
    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<Landed>;

    /// The content goes to the store with `commit`: what that takes is writing.
    fn goes_with_commit(&self) -> bool {
        false
    }

    /// Removes every trace of the write.
    fn abort(&self) -> Result<()>;

    /// For the kernel to copy to.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The chunks of a file: they cover `0..size` once, in order; an empty file has one empty chunk, so that
/// every file has a last one. Indices fit for files up to `u32::MAX` chunks; `chunk_size` sees to that.
pub fn chunks(size: u64, chunk: u64) -> impl Iterator<Item = Chunk> {
    let chunk = chunk.max(1);
    (0..size.div_ceil(chunk).max(1)).map(move |i| Chunk { index: i as u32, at: i * chunk..((i + 1) * chunk).min(size) })
}

/// Chunks of one file at the most, whatever size a listing claims: their receipts are kept in memory.
const MOST_CHUNKS: u64 = 1 << 20;

/// The chunk size for a file: what was asked for, within what the destination's parts allow.
pub fn chunk_size(asked: u64, size: u64, style: WriteStyle) -> u64 {
    match style {
        WriteStyle::Anywhere | WriteStyle::InOrder => asked.max(size.div_ceil(MOST_CHUNKS)).max(1),
        WriteStyle::Parts { least, most, count } => asked.max(least).max(size.div_ceil(u64::from(count.max(1)))).min(most).max(1),
    }
}

/// Whether an entry of a source says all that it takes to make another like it.
pub fn tells(caps: &Caps, entry: &Entry) -> Result<()> {
    if matches!(entry.kind, Kind::Char | Kind::Block) && !caps.specials {
        let e = Error::new(ErrorKind::Unsupported, "create").on(&entry.name);
        return Err(e.because("the source does not report device numbers"));
    }
    Ok(())
}

/// Whether an entry can be put into a store at all, asked before anything is begun.
pub fn admits(caps: &Caps, entry: &Entry) -> Result<()> {
    let refuse = |kind, reason: &str| Err(Error::new(kind, "create").on(&entry.name).because(reason.to_string()));
    if caps.file_names {
        if let Err(reason) = crate::entry::check_leaf(&entry.name.leaf) {
            return refuse(ErrorKind::BadName, reason);
        }
        if entry.name.leaf.len() > caps.name_max {
            return refuse(
                ErrorKind::BadName,
                &format!("the name has {} bytes, the destination allows {}", entry.name.leaf.len(), caps.name_max),
            );
        }
    }
    if caps.text_names && std::str::from_utf8(&entry.name.leaf).is_err() {
        return refuse(ErrorKind::BadName, "the name is not UTF-8, as the destination requires");
    }
    match entry.kind {
        Kind::Link if !caps.links => refuse(ErrorKind::Unsupported, "the destination does not support symlinks"),
        kind if kind.is_special() && !caps.specials => refuse(ErrorKind::Unsupported, "the destination does not support special files"),
        _ => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_file_once() {
        for size in 0..70u64 {
            for chunk in 1..20 {
                let all: Vec<u64> = chunks(size, chunk).flat_map(|c| c.at).collect();
                assert_eq!(all, (0..size).collect::<Vec<_>>(), "{size} in {chunk}");
                assert!(chunks(size, chunk).count() >= 1);
            }
        }
    }

    #[test]
    fn parts_stay_within_what_the_store_allows() {
        let style = WriteStyle::Parts { least: 5, most: 1000, count: 10 };
        assert_eq!(chunk_size(1, 20, style), 5);
        assert_eq!(chunk_size(1, 95, style), 10);
        assert_eq!(chunk_size(5000, 95, style), 1000);
    }
}
