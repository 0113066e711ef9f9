//! The slash rule: which directory is read, what of it is meant, and where it goes.
//!
//! `SRC` makes `DST/SRC`, `SRC/` means what is in it, a file goes to the name DST unless that is a directory or
//! ends in a slash.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::job::{Job, Pick, Root};
use haul_core::place::{Host, OpenOptions, Role, Scheme};
use haul_core::store::{Flow, Place, Store, WriteStyle};
use haul_stores::memory::Memory;
use haul_stores::s3;
use haul_stores::s3::inventory::Line;
use haul_stores::stream::Stream;

use super::lists;
use crate::command::scope::{self, Match, What, key_of, nothing};
use crate::hosts::Hosts;
use crate::location::Location;
use crate::open;

/// Keys that can be no name are named up to so many.
const UNFIT_NAMED: usize = 100;

pub struct Asked<'a> {
    pub hosts: &'a Hosts,
    pub sources: &'a [Location],
    pub destination: &'a Location,
    /// How the destination is opened; the sources follow links with `-L`.
    pub options: OpenOptions,
    pub follow: bool,
    pub dry: bool,
    pub make_path: bool,
    /// With `--files-from` the source is a base, whatever its slash.
    pub listed: bool,
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

impl Asked<'_> {
    fn source_options(&self, role: Role) -> OpenOptions {
        OpenOptions { role, follow: self.follow, keep_dirlinks: false, ..self.options }
    }
}

enum Source {
    Contents(Arc<dyn Store>),
    Name {
        parent: Arc<dyn Store>,
        leaf: Vec<u8>,
        kind: Kind,
    },
    /// What a pattern has matched below a directory, and keys among that which can be no name.
    Matched {
        base: Arc<dyn Store>,
        pick: Pick,
        unfit: Vec<Error>,
    },
}

/// What a pattern matches, if the address is one: relative to the directory in front of the first wildcard.
fn matched_source(location: &Location, asked: &Asked<'_>) -> Result<Option<Source>> {
    let argument = open::Argument::new(location, asked.hosts);
    let Some(scope) = (if asked.listed { None } else { scope::of(&argument)? }) else { return Ok(None) };
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
    let (mut found, mut unfit, mut trouble) = (0u64, Vec::new(), Ok(()));
    let map_keys = asked.hosts.access().get::<s3::Flags>().map_keys;
    wild.walk(scope.bucket(), true, &mut |line| {
        let (Match::Line(Line::Object(object)) | Match::Within(Line::Object(object))) = line else { return Flow::Go };
        if is_inside && object.key.starts_with(&into) {
            return Flow::Go;
        }
        let below = object.key.get(base.len()..).unwrap_or_default();
        // A marker is a directory, which may be an empty one.
        let path = below.strip_suffix(b"/").unwrap_or(below);
        let mapped = if map_keys { haul_stores::s3::address::path_of_key(path) } else { None };
        let path = mapped.as_deref().unwrap_or(path);
        if below.is_empty() {
            return Flow::Go;
        }
        found += 1;
        if Name::parse(&Dir::root(), path).is_some() {
            trouble = paths.push(path);
            return if trouble.is_ok() { Flow::Go } else { Flow::Stop };
        }
        let e = Error::new(ErrorKind::BadName, "copy").at(&scope.address(&object.key)).because("the key is not a valid file name");
        match unfit.len() {
            0..UNFIT_NAMED => unfit.push(e),
            UNFIT_NAMED => unfit.push(e.because("the key is not a valid file name (other such keys are not listed)")),
            _ => {}
        }
        Flow::Go
    })?;
    trouble?;
    if found == 0 {
        return Err(nothing(&argument, true));
    }
    let host = asked.hosts.reach(location)?;
    let store = host.open(&[b"/", base].concat(), asked.source_options(Role::Browse))?;
    Ok(Some(Source::Matched { base: store, pick: paths.pick()?, unfit }))
}

/// An address as errors name it: without the slash that a local path ends in.
fn named(location: &Location) -> Vec<u8> {
    match location.is_remote() {
        true => location.to_string().into_bytes(),
        false if location.path.is_empty() => b".".to_vec(),
        false => location.path.clone(),
    }
}

/// A source: the directory itself, or a name in the directory above it.
fn source(location: &Location, asked: &Asked<'_>) -> Result<Source> {
    if location.scheme == Scheme::STDIO {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(|e| Error::io(e, "open standard input"))?;
        return Ok(Source::Name { parent: Arc::new(Stream::new(b"-", input)), leaf: b"-".to_vec(), kind: Kind::File });
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
    let host = asked.hosts.reach(location)?;
    let path = host.path(location);
    let has_name = !host.split(&path).1.is_empty();
    if location.means_contents() || asked.listed || !has_name {
        let role = if location.means_contents() || asked.listed { Role::Source } else { Role::Browse };
        return host.open(&path, asked.source_options(role)).map(Source::Contents).map_err(missing);
    }
    let (parent, leaf) = host.open_name(&path, asked.source_options(Role::Browse)).map_err(missing)?;
    let entry = stat(&*parent, &leaf)?.ok_or_else(none)?;
    if location.scheme.keys && entry.kind == Kind::Dir {
        let e = Error::new(ErrorKind::NotFound, "open").at(location.to_string().as_bytes()).because("no object has this key");
        return Err(e.hint(format!("for the objects below it write {location}/")));
    }
    Ok(Source::Name { parent, leaf, kind: entry.kind })
}

/// What has this name, whatever it is.
fn stat(store: &dyn Store, leaf: &[u8]) -> Result<Option<Entry>> {
    match store.stat(&Name::new(&Dir::root(), leaf), MetaMask::NONE) {
        Ok(entry) => Ok(Some(entry)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

pub fn resolve(asked: &Asked<'_>) -> Result<Places> {
    let mut missing = Vec::new();
    let mut sources = Vec::new();
    for location in asked.sources {
        match source(location, asked) {
            Ok(source) => sources.push(source),
            Err(e) => missing.push(e),
        }
    }
    if sources.is_empty()
        && let Some(e) = missing.pop()
    {
        return Err(e);
    }
    let first_pick = if matches!(sources.first(), Some(Source::Contents(_))) { FirstPick::Contents } else { FirstPick::Names };
    let Destination { store: target, host: target_host, is_made, path: target_path, rename } = destination(asked, &sources)?;
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
            Source::Name { parent, leaf, kind } => {
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

/// Where it all goes.
struct Destination {
    store: Arc<dyn Store>,
    host: Arc<dyn Host>,
    is_made: bool,
    path: Vec<u8>,
    rename: Option<Vec<u8>>,
}

fn destination(asked: &Asked<'_>, sources: &[Source]) -> Result<Destination> {
    let location = asked.destination;
    let host = asked.hosts.reach(location)?;
    let mut path = host.path(location);
    if asked.sources.iter().any(|source| source.scheme == Scheme::STDIO) {
        path = stream_target(location, &*host, path)?;
    }
    let options = OpenOptions { role: Role::Destination, ..asked.options };
    let clash = |reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy to").at(&named(location));
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    let at = |path: &[u8], rename: Option<Vec<u8>>| -> Result<Destination> {
        Ok(Destination { store: host.open(path, options)?, host: host.clone(), is_made: true, path: path.to_vec(), rename })
    };
    // What a dry run has not made is empty.
    let unmade = |rename: Option<Vec<u8>>| {
        Ok(Destination { store: Arc::new(Memory::new()), host: host.clone(), is_made: false, path: path.clone(), rename })
    };
    let one_file = matches!(sources, [Source::Name { kind, .. }] if *kind != Kind::Dir && !asked.listed);
    let (above, leaf) = host.split(&path);
    // Only the last component is made without `--mkpath`: a mistyped path should not become a tree.
    let no_parent = || {
        let hint = "--mkpath creates the parent directories";
        match location.is_remote() {
            true => clash("its parent directory does not exist", hint),
            false => Err(open::missing(above).hint(hint)),
        }
    };
    match host.lookup(&path)? {
        Some(Kind::Dir) => return at(&path, None),
        Some(_) if location.trailing_slash => {
            return clash("is a file, but the trailing slash means a directory", "omit the slash to replace the file");
        }
        Some(_) if !one_file => return clash("is a file, but must be a directory", "remove it, or choose another destination"),
        Some(_) => {}
        None if one_file && !location.trailing_slash => {}
        None => {
            if !asked.make_path && host.lookup(above)? != Some(Kind::Dir) {
                return no_parent();
            }
            if asked.dry {
                // What is below a prefix can be looked at, whether or not anything says that it is a directory.
                return if location.scheme.keys { at(&path, None) } else { unmade(None) };
            }
            host.make_dir(&path, asked.make_path)?;
            return at(&path, None);
        }
    }
    // One file to another name.
    if matches!(leaf, b"" | b"." | b"..") {
        return clash("has no file name", "append a file name");
    }
    if host.lookup(above)? != Some(Kind::Dir) {
        if !asked.make_path {
            return no_parent();
        }
        if asked.dry {
            return unmade(Some(leaf.to_vec()));
        }
        host.make_dir(above, true)?;
    }
    at(above, Some(leaf.to_vec()))
}

/// Where standard input goes: what a link names is meant, as with a shell's redirection.
fn stream_target(location: &Location, host: &dyn Host, path: Vec<u8>) -> Result<Vec<u8>> {
    if location.means_contents() || host.lookup(&path)? == Some(Kind::Dir) {
        let e = Error::new(ErrorKind::Usage, "copy to").at(&location.to_bytes());
        let e = e.because("is a directory, and standard input has no name");
        return Err(e.hint("append a file name"));
    }
    if location.is_remote() {
        return Ok(path);
    }
    Ok(std::fs::canonicalize(open::path_of(&path)).map_or(path, |real| real.into_os_string().into_vec()))
}

/// `--backup-dir` as a path below the destination.
pub fn below(target: &[u8], dir: &Path) -> Result<Vec<u8>> {
    let bytes = dir.as_os_str().as_bytes();
    let inside = if bytes.starts_with(b"/") {
        let target = absolute(target);
        bytes.strip_prefix(&*target).and_then(|rest| rest.strip_prefix(b"/")).map(<[u8]>::to_vec)
    } else {
        Some(bytes.strip_prefix(b"./").unwrap_or(bytes).to_vec())
    };
    let inside = inside.map(|path| path.strip_suffix(b"/").map(<[u8]>::to_vec).unwrap_or(path));
    match inside {
        Some(path) if !path.is_empty() && path.split(|b| *b == b'/').all(|part| haul_core::entry::check_leaf(part).is_ok()) => Ok(path),
        _ => {
            let e = Error::new(ErrorKind::Usage, "--backup-dir").at(bytes).because("is not below the destination");
            Err(e.hint("give a directory in the destination, relative to it"))
        }
    }
}

fn device(identity: Option<(u64, u64)>) -> Option<u64> {
    identity.map(|(device, _)| device)
}

/// `mv` on one file system renames. A destination that a dry run has not made would be on the file system of what is
/// above it.
pub fn rename_within(roots: &mut [Root], target: &dyn Store, place: &Path) {
    let on = device(target.identity()).or_else(|| {
        place.ancestors().skip(1).find_map(|above| {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            std::os::unix::fs::MetadataExt::dev(&above.metadata().ok()?).into()
        })
    });
    for root in roots.iter_mut().filter(|root| root.store.place().scheme == "local") {
        root.renames = on;
    }
}

/// Trees beside the destination.
type References = Vec<Arc<dyn Store>>;

/// The reference trees of `--link-dest`, and what is to be said of those that are not there: the first of a
/// series of backups has none before it.
pub fn link_dest(dirs: &[PathBuf], places: &Places, asked: &Asked<'_>) -> Result<(References, Vec<String>)> {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let target = open::path_of(&places.target_path);
    for dir in dirs {
        let path = reference(&target, dir, places.is_made);
        let store = match places.target_host.open(path.as_os_str().as_bytes(), asked.options) {
            Ok(store) => store,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                notes.push(not_there(&path));
                continue;
            }
            Err(e) => return Err(e),
        };
        match (device(store.identity()), device(places.target.identity())) {
            (None, _) => {
                let e = Error::new(ErrorKind::Unsupported, "--link-dest");
                return Err(match asked.destination.scheme.keys {
                    true => e.because("object stores have no hard links"),
                    false => {
                        let e = e.because("plain SFTP cannot link to files outside the destination");
                        e.hint("haul on the remote host can: --install-agent installs it")
                    }
                });
            }
            (from, to) if places.is_made && from != to => return Err(crosses(&path)),
            _ => found.push(store),
        }
    }
    Ok((found, notes))
}

/// A destination that is not made yet, in a dry run, cannot be gone through.
fn reference(target: &Path, dir: &Path, is_made: bool) -> PathBuf {
    match dir.strip_prefix("..") {
        Ok(rest) if !is_made => target.parent().unwrap_or(Path::new("/")).join(rest),
        _ => target.join(dir),
    }
}

fn not_there(path: &Path) -> String {
    format!("--link-dest {}: no such directory; ignored", show(path.as_os_str().as_bytes()))
}

fn crosses(path: &Path) -> Error {
    let e = Error::new(ErrorKind::Usage, "--link-dest").at(path.as_os_str().as_bytes());
    let e = e.because("is on another file system; hard links cannot cross file systems");
    e.hint("choose a directory on the destination's file system, or omit --link-dest")
}

/// The address as a person would look for it: a local path in full.
fn shown(location: &Location) -> String {
    if location.scheme == Scheme::STDIO {
        return "standard input".into();
    }
    if location.is_remote() { location.to_string() } else { show(&absolute(&location.path)) }
}

/// The first line of the output: what the run understood.
pub fn sentence(verb: &str, sources: &[Location], destination: &Location, job: &Job, hosts: &Hosts) -> String {
    let what = match sources {
        [one] if one.means_contents() && one.scheme != Scheme::STDIO => format!("the contents of {}", shown(one)),
        [one] => shown(one),
        many => format!("{} sources", many.len()),
    };
    let into = shown(destination);
    let joint = if verb == "checks" { "against" } else { "to" };
    let mut sentence = format!("{verb} {what} {joint} {into}");
    let way = hosts.sentence();
    if !way.is_empty() {
        sentence.push(' ');
        sentence.push_str(&way);
    }
    if let Some(workers) = job.workers.filter(|_| !job.dry) {
        sentence.push_str(&format!(", {workers} worker{}", if workers == 1 { "" } else { "s" }));
    }
    if let Some(limit) = job.limit {
        sentence.push_str(&format!(", at most {}", crate::units::rate(limit as f64)));
    }
    if job.verify {
        sentence.push_str(", verified");
    }
    if job.deletion.is_some() {
        sentence.push_str(", deleting files that the source does not have");
    }
    if let Some(lost) = lost(job) {
        sentence.push_str(&format!(", without {lost}"));
    }
    sentence
}

/// What was asked for and the destination can never keep.
fn lost(job: &Job) -> Option<&'static str> {
    let caps = job.target.caps();
    let links = job.links.hard && !caps.hard_links;
    let holes = job.sparse && matches!(caps.write, WriteStyle::Parts { .. });
    match (links, holes) {
        (true, true) => Some("hard links and holes"),
        (true, false) => Some("hard links"),
        (false, true) => Some("holes"),
        (false, false) => None,
    }
}
