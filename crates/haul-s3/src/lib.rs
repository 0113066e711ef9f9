//! Object stores that speak Amazon S3's protocol.
//!
//! A store is a bucket below a prefix. Keys are names: directories are only parts of them, but for an object whose key
//! ends in a slash (a marker), which carries a directory's attributes. Attributes travel in user metadata. Nothing is
//! asynchronous: a worker that sends a part reads it from the source straight into its socket.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod account;
pub mod address;
pub mod admin;
pub mod archive;
pub mod attributes;
pub mod bucket;
mod cache;
mod call;
mod change;
pub mod checksum;
pub mod checksum_modes;
pub mod client;
pub mod fault;
pub mod flags;
mod flat;
mod framed;
pub mod host;
pub mod inventory;
mod listing;
mod look;
mod memory_budget;
mod open_bodies;
mod open_cache;
mod pages;
mod pause;
mod provider;
mod put_options;
pub mod rights;
pub mod sign;
mod sink;
mod small;
mod source;
mod state_file;
pub mod upload;
pub mod versioning;
pub mod xml;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, Headers, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::option_set::OptionSet;
use haul_core::store::{
    AddressForm, AttributeCaps, Caps, Extensions, Flow, Found, MetaSpec, NameRules, ObjectOptions, Place, Runs, ServerSide, ServerSideOp,
    Sink, Source, Spec, Store, Token, Tuning, Unfinished, WriteOutcome, WriteStyle,
};

pub use bucket::Bucket;
pub use cache::MetadataCache;
pub use call::{Answer, Body, Call};
pub use change::CopySizes;
pub use client::Client;
pub use flags::Flags;
use haul_core::user_names::LocalOwners;
pub use host::BucketHost;
pub use listing::HIDDEN_MOST;

use open_cache::Recent;
pub use provider::{S3, S3Provider};
pub use put_options::PutOptions;

/// Parts of an upload: the service's limits (Amazon S3 user guide, "multipart upload limits").
pub const PART_LEAST: u64 = 5 << 20;
pub const PART_MOST: u64 = 5 << 30;
pub const PARTS_MOST: u32 = 10_000;

/// Bytes that one request for a range of an object asks for at the most: each costs a round trip on its connection and work at the
/// service, and what a broken one has left is asked for again by chunk.
const REQUEST_MOST: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Look up attributes that listings do not have: one request per object.
    pub look: bool,
    /// An object without an mtime in its metadata has the time of its upload. Not for a destination, where that only bounds the age
    /// of the content.
    pub server_times: bool,
    /// Map parts of keys that are not valid file names to names (see [`address::name_of_part`]).
    pub map_keys: bool,
    /// Ignore metadata that could do harm where files are created from objects: setuid and setgid bits, and extended attributes outside
    /// of `user.` and ACLs.
    pub distrust: bool,
    /// Objects that may not be looked at count as absent: who may only write writes.
    pub blind: bool,
    pub no_markers: bool,
    /// One object is written: what is below its key does not matter.
    pub one_object: bool,
    /// A few names are looked at, once to see what they are and once to copy them.
    pub browses: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            look: true,
            server_times: true,
            map_keys: false,
            distrust: false,
            blind: false,
            no_markers: false,
            one_object: false,
            browses: false,
        }
    }
}

#[derive(Debug)]
pub struct Objects {
    bucket: Bucket,
    /// Empty, or ending in a slash.
    prefix: Vec<u8>,
    caps: Caps,
    place: Place,
    options: Options,
    cache: Option<Arc<MetadataCache>>,
    copy_sizes: CopySizes,
    recent: Arc<Recent>,
    /// Keys of objects that are skipped because there are objects below them: their names are those of directories.
    hidden: Mutex<HashSet<Vec<u8>>>,
    /// What flat listings have read beyond the directory that was asked for.
    pages: pages::Pages,
    /// No run before this one knew any of the bucket's objects.
    unknown: OnceLock<bool>,
    /// The version of objects that are copied to it by the service.
    copied_version: Option<String>,
}

impl Objects {
    pub fn new(bucket: Bucket, prefix: &[u8], options: Options) -> Self {
        let mut prefix = prefix.to_vec();
        if !prefix.is_empty() && !prefix.ends_with(b"/") {
            prefix.push(b'/');
        }
        let mut root = b"/".to_vec();
        root.extend_from_slice(&prefix);
        let (endpoint, account) = (bucket.client.endpoint_words(), bucket.client.account().scope());
        let place = Place { scheme: "s3", form: AddressForm::Service, endpoint, account, volume: bucket.name.clone(), root };
        let hidden = Mutex::default();
        Objects {
            bucket,
            prefix,
            caps: caps(&options),
            place,
            options,
            cache: None,
            copy_sizes: CopySizes::default(),
            recent: Arc::default(),
            hidden,
            pages: pages::Pages::new(std::env::temp_dir()),
            unknown: OnceLock::new(),
            copied_version: None,
        }
    }

    /// With a cache of what listings do not have.
    #[must_use]
    pub fn cached(self, cache: Option<Arc<MetadataCache>>) -> Self {
        Objects { cache, ..self }
    }

    /// With the answers that came while the places of the run were opened.
    #[must_use]
    fn recent(self, recent: Arc<Recent>) -> Self {
        Objects { recent, ..self }
    }

    /// For copies of this version of objects.
    #[must_use]
    fn copying_version(self, copied_version: Option<String>) -> Self {
        Objects { copied_version, ..self }
    }

    /// With other sizes for copies within the service.
    #[must_use]
    pub fn copy_sizes(self, copy_sizes: CopySizes) -> Self {
        Objects { copy_sizes, ..self }
    }

    fn saw(&self, key: &[u8], head: &bucket::Head, target: Option<&[u8]>) {
        if let Some(cache) = &self.cache {
            cache.saw(key, head, target);
        }
    }

    fn wrote(&self, key: &[u8], size: u64, put: &bucket::Put, metadata: &[put_options::Pair], target: Option<&[u8]>) {
        if let Some(cache) = &self.cache {
            cache.wrote(key, size, put, metadata, target);
        }
    }

    /// A key is written or removed: what was seen of it is old.
    fn touch(&self, key: &[u8]) {
        self.pages.touch(key);
        self.recent.forget(key);
    }

    fn forget_key(&self, key: &[u8]) {
        if let Some(cache) = &self.cache {
            cache.forget(key);
        }
    }

    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The key of a name; of the prefix itself for an empty one.
    fn key(&self, name: &Name, op: &'static str) -> Result<Vec<u8>> {
        let mut key = self.dir_key(&name.dir);
        key.extend_from_slice(&self.part(&name.leaf));
        checked(key).map_err(|reason| Error::new(ErrorKind::BadName, op).on(name).because(reason))
    }

    /// The prefix that all keys in a directory have.
    fn dir_key(&self, dir: &Dir) -> Vec<u8> {
        let mut leaves = Vec::new();
        let mut at = dir;
        while let Some(parent) = at.parent() {
            leaves.push(at.leaf());
            at = parent;
        }
        let mut key = self.prefix.clone();
        for leaf in leaves.into_iter().rev() {
            key.extend_from_slice(&self.part(leaf));
            key.push(b'/');
        }
        key
    }

    /// The part of a key for a file name.
    fn part<'a>(&self, leaf: &'a [u8]) -> Cow<'a, [u8]> {
        if self.options.map_keys { Cow::Owned(address::part_of_name(leaf)) } else { Cow::Borrowed(leaf) }
    }

    /// The file name for a part of a key; it need not be a valid one.
    fn leaf<'a>(&self, part: &'a [u8]) -> Cow<'a, [u8]> {
        match self.options.map_keys.then(|| address::name_of_part(part)).flatten() {
            Some(name) => Cow::Owned(name),
            None => Cow::Borrowed(part),
        }
    }

    /// The key of the marker of a directory, given by its own name; empty for a whole bucket, which has none.
    fn marker_key(&self, name: &Name, op: &'static str) -> Result<Vec<u8>> {
        let mut key = self.key(name, op)?;
        // The root is its own prefix. A directory without a name, in `a//b`, is one all the same.
        if !(name.leaf.is_empty() && name.dir.is_root()) {
            key.push(b'/');
        }
        Ok(key)
    }
}

/// The key, or why no object can have it.
fn checked(key: Vec<u8>) -> Result<Vec<u8>, String> {
    address::check_key(&key)?;
    if key.contains(&0) {
        return Err("the name has a zero byte in it".into());
    }
    Ok(key)
}

fn caps(options: &Options) -> Caps {
    let sets = MetaMask::SETTABLE.without(MetaMask::CONTEXT);
    Caps {
        write: WriteStyle::Parts { least: PART_LEAST, most: PART_MOST, count: PARTS_MOST },
        read_ranges: true,
        markers: !options.no_markers,
        links: true,
        specials: true,
        atomic_commit: true,
        durable: true,
        copies: true,
        attach: true,
        names: NameRules { files: false, text: true, max: address::LONGEST_KEY, ..NameRules::minimal() },
        attributes: AttributeCaps {
            sets,
            link_sets: sets,
            owner_names: true,
            untrusted: options.distrust,
            mtime_resolution: Duration::from_nanos(1),
            ..AttributeCaps::minimal()
        },
        tuning: Tuning {
            first_workers: 16,
            writers_per_file: 256,
            readers_per_file: 256,
            runs: Runs::UpTo(REQUEST_MOST),
            ..Tuning::minimal()
        },
        ..Caps::minimal()
    }
}

impl Store for Objects {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        self.look(name, want).map_err(|e| e.on(name))
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        self.look_many(dir, leaves, want, follow)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.list_below(dir, each).map_err(|e| e.on(&Name::of(dir)))
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        source::open(self, entry, follow).map_err(|e| e.on(&entry.name))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        sink::create(self, name, spec).map_err(|e| e.on(name))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        self.get_small(bundle);
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.put_small(bundle);
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        dirs.iter().map(|(dir, _)| Err(Error::new(ErrorKind::Unsupported, "make directory").on(&Name::of(dir)))).collect()
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        self.make_special(name, entry, keep).map_err(|e| e.on(name))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        specs.iter().map(|spec| self.change_attributes(spec).map_err(|e| e.on(spec.name))).collect()
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        entries.iter_mut().map(|entry| self.complete(entry, want)).collect()
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        self.remove_all(entries)
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.move_within(from, to, replace)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            unfinished: self,
            server_side: self,
            options: self,
            owners: &LocalOwners,
            latency: self.bucket.client.contact.latency(),
            ..Extensions::default()
        }
    }
}

impl Unfinished for Objects {
    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        sink::attach(self, name, token, spec).map_err(|e| e.on(name))
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        let Some((upload, _)) = sink::upload_of(token) else { return Ok(()) };
        match self.bucket.abort(&self.key(name, "abandon")?, &upload.id) {
            // Who may not remove it leaves it to who may: nothing of this run depends on it.
            Err(e) if e.kind() == ErrorKind::Denied => Ok(()),
            other => other.map_err(|e| e.on(name)),
        }
    }
}

impl ServerSide for Objects {
    fn copies(&self, from: &dyn Store, _size: u64) -> bool {
        self.caps.copies && from.place().shares_service(&self.place)
    }

    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        let ServerSideOp::Copy(spec, _) = how else { return Ok(None) };
        self.copy_within(from.place(), entry, to, spec).map_err(|e| e.on(to))
    }
}

impl ObjectOptions for Objects {
    fn are_set(&self) -> bool {
        self.bucket.options.wishes()
    }

    fn apply(&self, name: &Name, kind: Kind, dry: bool) -> Result<OptionSet> {
        self.set_options(name, kind, dry).map_err(|e| e.on(name))
    }

    fn marker_headers(&self, name: &Name) -> Result<Option<Arc<Headers>>> {
        self.headers_of_marker(name).map_err(|e| e.on(name))
    }
}
