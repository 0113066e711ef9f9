//! The slash rule: which directory is read, what of it is meant, and where it goes.
//!
//! `SRC` makes `DST/SRC`, `SRC/` means what is in it, a file goes to the name DST unless that is a directory or
//! ends in a slash.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::filter::Filter;
use haul_core::job::{Pick, Root};
use haul_core::place::provider::Intent;
use haul_core::place::{Host, OpenOptions, Role, Scheme};
use haul_core::store::{Flow, Place, Store};
use haul_s3::address::{path_beside, path_of_key};
use haul_s3::inventory::Line;
use haul_s3::{HIDDEN_MOST, Objects};

use super::beside::Beside;
use super::destination::{Destination, destination};
use super::lists;
use crate::hosts::Hosts;
use crate::location::{self, Location};
use crate::outlet::Outlet;
use crate::scope::{self, Match, What, key_of, nothing};
use crate::stream::Input;
use crate::{open, wild};

/// Keys that can be no name are named up to so many.
const UNFIT_NAMED: usize = 100;

pub struct EndpointRequest<'a> {
    pub hosts: &'a Hosts,
    pub sources: &'a [Location],
    pub destination: &'a Location,
    /// How the destination is opened; the sources follow links with `-L`.
    pub options: OpenOptions,
    pub follow: bool,
    pub dry: bool,
    /// Nothing is copied, and `dry` is set.
    pub is_check: bool,
    pub make_path: bool,
    /// `-T`: the destination is the name of the source, also of a directory.
    pub exact: bool,
    /// `-t` was given.
    pub gives_t: bool,
    /// With `--files-from` the source is a base, whatever its slash.
    pub listed: bool,
    /// Directories below the source that are sources themselves, of names in `--files-from`.
    pub bases: &'a [Vec<u8>],
    pub filter: &'a Filter,
    /// The destination only takes bytes.
    pub outlet: Option<&'a Outlet>,
    /// A pipe or a device that is named as a source is read, not made again.
    pub reads_specials: bool,
    /// `--backup-dir`: below the destination, or nothing is made.
    pub backup_dir: Option<&'a Path>,
    /// With `--delete`.
    pub deletes: bool,
    /// Set if this run makes the destination: another one may at the same time.
    pub has_made: &'a Cell<bool>,
}

/// What the first source is taken as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPick {
    Contents,
    Names,
}

pub struct Places {
    pub roots: Vec<Root>,
    /// What is read, for the guard.
    pub read: Vec<Read>,
    pub target: Arc<dyn Store>,
    pub target_host: Arc<dyn Host>,
    /// False for a destination that a dry run has not made.
    pub is_made: bool,
    pub target_path: Vec<u8>,
    pub rename: Option<Vec<u8>>,
    pub missing: Vec<Error>,
    pub first_pick: FirstPick,
}

/// A source as it was found.
pub struct Read {
    /// The directory that is opened, links resolved.
    pub place: Place,
    /// A name in it; `None` for the directory itself.
    pub leaf: Option<Vec<u8>>,
    pub kind: Kind,
    /// Only what a pattern has matched in it, all of which is known before anything is written.
    pub matched: bool,
}

/// The path with the working directory in front, not resolved any further.
pub fn absolute(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        return path.to_vec();
    }
    let mut whole = std::env::current_dir().map(|d| d.as_os_str().as_bytes().to_vec()).unwrap_or_default();
    let rest = path.strip_prefix(b"./").unwrap_or(path);
    if !rest.is_empty() && rest != b"." {
        if !whole.ends_with(b"/") {
            whole.push(b'/');
        }
        whole.extend_from_slice(rest);
    }
    whole
}

impl EndpointRequest<'_> {
    fn source_options(&self, role: Role) -> OpenOptions {
        OpenOptions { role, follow: self.follow, keep_dirlinks: false, nonempty: self.deletes, ..self.options }
    }

    /// Whether a source is a link that has to be followed from here: only bytes go to the destination.
    fn means_target(&self, entry: &Entry) -> bool {
        self.outlet.is_some() && !self.follow && entry.kind == Kind::Link
    }
}

pub enum Source {
    Contents(Arc<dyn Store>),
    Name {
        parent: Arc<dyn Store>,
        leaf: Vec<u8>,
        kind: Kind,
        /// Bytes of a file, as far as they are known.
        size: u64,
    },
    /// What a pattern has matched below a directory, and keys among that which can be no name.
    Matched {
        base: Arc<dyn Store>,
        pick: Pick,
        unfit: Vec<Error>,
    },
}

/// What a pattern matches, if the address is one: relative to the directory in front of the first wildcard.
fn matched_source(location: &Location, asked: &EndpointRequest<'_>) -> Result<Option<Source>> {
    let argument = open::Argument::new(location, asked.hosts);
    if asked.listed || !scope::may_be_pattern(&argument) {
        return Ok(None);
    }
    let Some(scope) = scope::of(&argument)? else { return Ok(None) };
    let What::Like(wild) = &scope.what else { return Ok(None) };
    if wild.dirs {
        let e = Error::new(ErrorKind::Usage, "read pattern").at(&argument.path);
        return Err(e.because("a wildcard pattern cannot end in a slash").hint("append * to it, or omit the slash"));
    }
    let prefix = scope.prefix();
    let base = &prefix[..prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)];
    // What lies where it would be copied to is no source, or it could be written over before it is read.
    let mut into = key_of(asked.destination);
    if !into.is_empty() && !into.ends_with(b"/") {
        into.push(b'/');
    }
    let is_inside = (asked.destination.scheme, &asked.destination.host) == (location.scheme, &location.host) && into.len() > base.len();
    let mut paths = lists::Paths::new(&std::env::temp_dir());
    let (mut found, mut unfit, mut trouble, is_over) = (0u64, Vec::new(), Ok(()), Cell::new(false));
    let map_keys = asked.hosts.access().get::<haul_s3::Flags>().map_keys;
    let mut besides = Vec::new();
    let mut take = |key: &[u8], is_beside: bool| {
        let below = key.get(base.len()..).unwrap_or_default();
        if (is_inside && key.starts_with(&into)) || below.is_empty() {
            return;
        }
        // A marker is a directory, which may be an empty one.
        let path = below.strip_suffix(b"/").unwrap_or(below);
        let mapped = match map_keys {
            true if is_beside => {
                if besides.len() < HIDDEN_MOST {
                    besides.push(key.strip_suffix(b"/").unwrap_or(key).to_vec());
                }
                path_beside(below)
            }
            true => path_of_key(path),
            false => None,
        };
        let path = mapped.as_deref().unwrap_or(path);
        found += 1;
        if Name::parse(&Dir::root(), path).is_some() {
            if let Err(e) = paths.push(path) {
                trouble = Err(e);
                is_over.set(true);
            }
            return;
        }
        let e = Error::new(ErrorKind::BadName, "copy").at(&scope.address(key)).because("the key is not a valid file name");
        match unfit.len() {
            0..UNFIT_NAMED => unfit.push(e),
            UNFIT_NAMED => unfit.push(e.because("the key is not a valid file name (other such keys are not listed)")),
            _ => {}
        }
    };
    // Where keys are mapped, an object beside a directory of its name has another.
    let mut beside = Beside::default();
    wild.walk(scope.bucket(), true, &mut |line| {
        let (Match::Line(Line::Object(object)) | Match::Within(Line::Object(object))) = line else { return Flow::Go };
        beside.pass(&object.key, &mut take);
        match object.key.ends_with(b"/") {
            // Content makes a marker an object beside its directory.
            true => take(&object.key, object.size > 0),
            false => beside.hold(&object.key),
        }
        if is_over.get() { Flow::Stop } else { Flow::Go }
    })?;
    beside.finish(&mut take);
    trouble?;
    if found == 0 {
        return Err(nothing(&argument, true));
    }
    let host = asked.hosts.reach(location)?;
    let store = host.open(&[b"/", base].concat(), asked.source_options(Role::Browse))?;
    if let Some(objects) = Objects::of(&*store) {
        besides.iter().for_each(|key| objects.hide(key));
    }
    Ok(Some(Source::Matched { base: store, pick: paths.pick()?, unfit }))
}

/// An address as errors name it: without the slash that a local path ends in.
pub fn named(location: &Location) -> Vec<u8> {
    match location.is_remote() {
        true => location.to_string().into_bytes(),
        false if location.path.is_empty() => b".".to_vec(),
        false => location.path.clone(),
    }
}

/// A source: the directory itself, or a name in the directory above it.
fn source(location: &Location, asked: &EndpointRequest<'_>) -> Result<Source> {
    if location.scheme == Scheme::STDIO {
        let input = location::inherited(location::descriptor_of(location, 0))?;
        return Ok(Source::Name { parent: Arc::new(Input::new(b"-", input)), leaf: b"-".to_vec(), kind: Kind::File, size: 0 });
    }
    if let Some(matched) = matched_source(location, asked)? {
        return Ok(matched);
    }
    let path = named(location);
    let none = || match location.is_remote() {
        true => open::missing(&path),
        false => open::missing_operand(&path, asked.hosts),
    };
    let missing = |e: Error| if e.kind() == ErrorKind::NotFound && !location.is_remote() { none() } else { e };
    let lists = location.means_contents() && !asked.listed;
    let host = asked.hosts.reach_for(location, Intent { role: Role::Source, lists, ..Intent::default() })?;
    if !asked.listed
        && let Some(open::Opened { store: parent, leaf: Some(leaf) }) =
            open::raw_object(location, asked.hosts, asked.source_options(Role::Browse))?
    {
        let entry = stat(&*parent, &leaf)?.ok_or_else(none)?;
        return Ok(Source::Name { parent, leaf, kind: entry.kind, size: entry.size });
    }
    let path = host.path(location);
    let has_name = !host.split(&path).1.is_empty();
    if location.means_contents() || asked.listed || !has_name {
        let role = if location.means_contents() || asked.listed { Role::Source } else { Role::Browse };
        return host.open(&path, asked.source_options(role)).map(Source::Contents).map_err(missing);
    }
    let (parent, leaf) = host.open_name(&path, OpenOptions { streams: true, ..asked.source_options(Role::Browse) }).map_err(missing)?;
    let entry = stat(&*parent, &leaf)?.ok_or_else(none)?;
    if asked.means_target(&entry) {
        return linked(location, asked);
    }
    if let Some(path) = special(location, asked) {
        return Ok(Source::Name { parent: Arc::new(Input::of_path(&leaf, path)), leaf, kind: Kind::File, size: 0 });
    }
    if location.scheme.keys && entry.kind == Kind::Dir {
        let e = Error::new(ErrorKind::NotFound, "open").at(location.to_string().as_bytes()).because("no object has this key");
        return Err(e.hint(format!("for the objects below it write {location}/")));
    }
    Ok(Source::Name { parent, leaf, kind: entry.kind, size: entry.size })
}

/// A name that a pattern has matched on a host behind ssh; with a slash behind it what is in it.
fn matched_name(found: wild::Match, asked: &EndpointRequest<'_>) -> Result<Source> {
    let wild::Match { parent, entry, location } = found;
    if asked.means_target(&entry) && !location.means_contents() {
        return linked(&location, asked);
    }
    if !location.means_contents() {
        return Ok(Source::Name { parent, leaf: entry.name.leaf.to_vec(), kind: entry.kind, size: entry.size });
    }
    let host = asked.hosts.reach_for(&location, Intent { role: Role::Source, lists: true, ..Intent::default() })?;
    host.open(&host.path(&location), asked.source_options(Role::Source)).map(Source::Contents)
}

/// What a symlink leads to.
fn linked(location: &Location, asked: &EndpointRequest<'_>) -> Result<Source> {
    let (opened, entry) = open::followed(&open::Argument::new(location, asked.hosts))?;
    Ok(match opened.leaf {
        Some(leaf) => Source::Name { parent: opened.store, leaf, kind: entry.kind, size: entry.size },
        None => Source::Contents(opened.store),
    })
}

/// A device or a pipe that is named as a source and read. A socket cannot be opened.
fn special(location: &Location, asked: &EndpointRequest<'_>) -> Option<PathBuf> {
    if location.is_remote() || !asked.reads_specials {
        return None;
    }
    let path = open::path_of(&location.path);
    let follows = asked.outlet.is_some() || asked.follow;
    let kind = if follows { path.metadata() } else { path.symlink_metadata() }.ok()?.file_type();
    (kind.is_fifo() || kind.is_char_device() || kind.is_block_device()).then_some(path)
}

/// What has this name, whatever it is.
fn stat(store: &dyn Store, leaf: &[u8]) -> Result<Option<Entry>> {
    match store.stat(&Name::new(&Dir::root(), leaf), MetaMask::NONE) {
        Ok(entry) => Ok(Some(entry)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

pub fn resolve(asked: &EndpointRequest<'_>) -> Result<Places> {
    let mut missing = Vec::new();
    let mut sources = Vec::new();
    let alternatives = wild::alternatives(asked.sources, asked.hosts);
    for location in &alternatives {
        let matches = if asked.listed { Ok(None) } else { wild::expand(location, asked.hosts, asked.source_options(Role::Browse)) };
        match matches {
            Ok(Some(matches)) => {
                for found in matches {
                    match matched_name(found, asked) {
                        Ok(source) => sources.push(source),
                        Err(e) => missing.push(e),
                    }
                }
            }
            Ok(None) => {
                let below = asked.bases.iter().map(|base| {
                    let path = [&location.path[..], if location.path.is_empty() { b"" } else { b"/" }, base].concat();
                    Location { path, ..location.clone() }
                });
                for location in [location.clone()].into_iter().chain(below) {
                    match source(&location, asked) {
                        Ok(source) => sources.push(source),
                        Err(e) => missing.push(e),
                    }
                }
            }
            Err(e) => missing.push(e),
        }
    }
    if sources.is_empty()
        && let Some(e) = missing.pop()
    {
        return Err(e);
    }
    if asked.deletes && sources.iter().any(|source| matches!(source, Source::Matched { .. })) {
        let e = Error::new(ErrorKind::Usage, "--delete").because("--delete cannot be combined with wildcards");
        return Err(e.hint("name the directory, and select files with --include and --exclude"));
    }
    let first_pick = if matches!(sources.first(), Some(Source::Contents(_))) { FirstPick::Contents } else { FirstPick::Names };
    let Destination { store: target, host: target_host, is_made, path: target_path, rename } =
        destination(asked, &sources, missing.is_empty())?;
    // In a directory an object whose key ends in a slash has its name without it.
    let without_slash = || match &sources[..] {
        [Source::Name { leaf, .. }] => leaf.strip_suffix(b"/").map(<[u8]>::to_vec),
        _ => None,
    };
    let rename = rename.or_else(without_slash);
    let mut places = Places { roots: Vec::new(), read: Vec::new(), target, target_host, is_made, target_path, rename, missing, first_pick };
    for source in sources {
        match source {
            Source::Contents(store) => {
                places.read.push(Read { place: store.place().clone(), leaf: None, kind: Kind::Dir, matched: false });
                places.roots.push(Root::new(store, Pick::Contents));
            }
            Source::Matched { base, pick, unfit } => {
                places.read.push(Read { place: base.place().clone(), leaf: None, kind: Kind::Dir, matched: true });
                places.roots.push(Root::new(base, pick));
                places.missing.extend(unfit);
            }
            Source::Name { parent, leaf, kind, .. } => {
                places.read.push(Read { place: parent.place().clone(), leaf: Some(leaf.clone()), kind, matched: false });
                // Arguments of one parent are one listing, as long as they follow each other.
                match places.roots.last_mut() {
                    Some(Root { store, pick: Pick::Names(names), .. }) if store.place() == parent.place() => {
                        if !names.insert(leaf.clone()) {
                            places.missing.push(Error::new(ErrorKind::Usage, "copy").at(&leaf).because("given twice; copied once"));
                        }
                    }
                    _ => places.roots.push(Root::new(parent, Pick::Names(BTreeSet::from([leaf])))),
                }
            }
        }
    }
    Ok(places)
}
