//! The slash rule: which directory is read, what of it is meant, and where it goes.
//!
//! `SRC` makes `DST/SRC`, `SRC/` means what is in it, a file goes to the name DST unless that is a directory or
//! ends in a slash.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, Name, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::job::{Job, LinkDest, Pick, Root};
use haul_core::store::{Flow, Place, Store, WriteStyle};
use haul_stores::agent::RootOptions;
use haul_stores::local::{Local, Options};
use haul_stores::memory::Memory;
use haul_stores::s3::inventory::Line;

use super::lists;
use crate::command::scope::{self, Match, What, key_of, nothing};
use crate::location::{Location, Scheme};
use crate::open;
use crate::remote::{Host, Hosts, is_remote};

/// Keys that can be no name are named up to so many.
const UNFIT_NAMED: usize = 100;

pub struct Asked<'a> {
    pub hosts: &'a Hosts<'a>,
    pub sources: &'a [Location],
    pub destination: &'a Location,
    pub options: Options,
    /// `-L`: the sources' links are followed.
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
    /// The stores of the roots, in their order.
    pub stores: Vec<Option<Arc<Local>>>,
    /// The directories that are read as a whole, for the guard.
    pub read: Vec<Arc<Local>>,
    /// The directories in which named sources stand.
    pub parents: Vec<Arc<Local>>,
    /// Sources on other machines.
    pub remote: Vec<RemoteSource>,
    pub target: Arc<dyn Store>,
    /// `None` when the destination is another machine's, or is not there yet and this is a dry run.
    pub local_target: Option<Arc<Local>>,
    pub target_path: Vec<u8>,
    pub rename: Option<Vec<u8>>,
    pub missing: Vec<Error>,
    pub first_pick: FirstPick,
}

/// What is read of another machine, for the guard.
pub struct RemoteSource {
    /// The directory that is opened, links resolved.
    pub place: Place,
    /// A name in it; `None` for the directory itself.
    pub leaf: Option<Vec<u8>>,
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
    fn source_options(&self) -> Options {
        Options { follow: self.follow, keep_dirlinks: false, ..self.options }
    }

    /// The same for a store on another machine, which has a mask of its own.
    fn far(&self, options: Options) -> RootOptions {
        RootOptions { follow: options.follow, keep_dirlinks: options.keep_dirlinks, keep_modes: options.dir_umask == 0 }
    }
}

/// A store, and the same once more if it is one of this machine.
#[derive(Clone)]
struct Opened {
    store: Arc<dyn Store>,
    local: Option<Arc<Local>>,
}

impl From<Arc<Local>> for Opened {
    fn from(local: Arc<Local>) -> Self {
        Opened { store: local.clone(), local: Some(local) }
    }
}

enum Source {
    Contents(Opened),
    Name {
        parent: Opened,
        leaf: Vec<u8>,
        kind: Kind,
    },
    /// What a pattern has matched below a directory, and keys among that which can be no name.
    Matched {
        base: Opened,
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
        return Err(e
            .because("a pattern has no contents to be meant by a slash at its end")
            .hint("write /* behind it, or leave the slash out"));
    }
    let prefix = scope.prefix();
    let base = &prefix[..prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)];
    // What lies where it would be copied to is no source, or it could be written over before it is read.
    let mut into = key_of(asked.destination);
    if !into.is_empty() && !into.ends_with(b"/") {
        into.push(b'/');
    }
    let is_inside = (asked.destination.scheme, &asked.destination.host) == (Scheme::S3, &location.host) && into.len() > base.len();
    let mut paths = lists::Paths::new(&std::env::temp_dir());
    let (mut found, mut unfit, mut trouble) = (0u64, Vec::new(), Ok(()));
    let map_keys = asked.hosts.maps_keys();
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
        let e = Error::new(ErrorKind::BadName, "copy").at(&scope.address(&object.key)).because("the key can be no file's name");
        match unfit.len() {
            0..UNFIT_NAMED => unfit.push(e),
            UNFIT_NAMED => unfit.push(e.because("the key can be no file's name, as others that are not named")),
            _ => {}
        }
        Flow::Go
    })?;
    trouble?;
    if found == 0 {
        return Err(nothing(&argument, true));
    }
    let host = asked.hosts.reach(location)?;
    let store = host.open_with(&[b"/", base].concat(), asked.far(asked.source_options()))?;
    Ok(Some(Source::Matched { base: Opened { store, local: None }, pick: paths.pick()?, unfit }))
}

/// A source on another machine: the directory itself, or a name in the directory above it.
fn remote_source(location: &Location, asked: &Asked<'_>) -> Result<Source> {
    if let Some(matched) = matched_source(location, asked)? {
        return Ok(matched);
    }
    let host = asked.hosts.reach(location)?;
    let path = host.path(location);
    let options = asked.far(asked.source_options());
    let open = |path: &[u8]| -> Result<Opened> { Ok(Opened { store: host.open_with(path, options)?, local: None }) };
    if location.means_contents() || asked.listed {
        return Ok(Source::Contents(Opened { store: host.open_source(&path, options)?, local: None }));
    }
    let (above, leaf) = host.split(&path);
    if leaf.is_empty() {
        return open(&path).map(Source::Contents);
    }
    let parent = open(above)?;
    let missing = || Error::new(ErrorKind::NotFound, "open").at(location.to_string().as_bytes()).because("no such file or directory");
    let entry = super::stands(&*parent.store, leaf)?.ok_or_else(missing)?;
    if location.scheme == Scheme::S3 && entry.kind == Kind::Dir {
        let e = Error::new(ErrorKind::NotFound, "open").at(location.to_string().as_bytes()).because("there is no object of this key");
        return Err(e.hint(format!("for what is below it write {location}/")));
    }
    Ok(Source::Name { parent, leaf: leaf.to_vec(), kind: entry.kind })
}

fn source(location: &Location, asked: &Asked<'_>) -> Result<Source> {
    if is_remote(location) {
        return remote_source(location, asked);
    }
    let none = || open::missing_operand(&location.path, asked.hosts);
    let missing = |e: Error| if e.kind() == ErrorKind::NotFound { none() } else { e };
    if location.means_contents() || asked.listed {
        let store = Local::open(&open::path_of(&location.path), asked.source_options()).map_err(missing)?;
        return Ok(Source::Contents(Arc::new(store).into()));
    }
    let opened = open::in_parent(&location.path, asked.source_options()).map_err(missing)?;
    let leaf = opened.leaf.clone().unwrap_or_default();
    let entry = super::stands(&*opened.store, &leaf)?.ok_or_else(none)?;
    Ok(Source::Name { parent: opened.store.into(), leaf, kind: entry.kind })
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
    let (target, local_target, target_path, rename) = destination(asked, &sources)?;
    let mut places = Places {
        roots: Vec::new(),
        stores: Vec::new(),
        read: Vec::new(),
        parents: Vec::new(),
        remote: Vec::new(),
        target,
        local_target,
        target_path,
        rename,
        missing,
        first_pick,
    };
    for source in sources {
        match source {
            Source::Contents(Opened { store, local }) => {
                if local.is_none() {
                    places.remote.push(RemoteSource { place: store.place().clone(), leaf: None, matched: false });
                }
                places.read.extend(local.clone());
                places.stores.push(local);
                places.roots.push(super::root(store, Pick::Contents));
            }
            Source::Matched { base, pick, unfit } => {
                places.remote.push(RemoteSource { place: base.store.place().clone(), leaf: None, matched: true });
                places.stores.push(None);
                places.roots.push(super::root(base.store, pick));
                places.missing.extend(unfit);
            }
            Source::Name { parent, leaf, kind } => {
                let Opened { store: parent, local } = parent;
                if local.is_none() {
                    places.remote.push(RemoteSource { place: parent.place().clone(), leaf: Some(leaf.clone()), matched: false });
                }
                if kind == Kind::Dir && local.is_some() {
                    let mut path = parent.place().root.clone();
                    path.push(b'/');
                    path.extend_from_slice(&leaf);
                    places.read.push(Arc::new(Local::open(Path::new(OsStr::from_bytes(&path)), asked.source_options())?));
                }
                places.parents.extend(local.clone());
                // Arguments of one parent are one listing, as long as they follow each other.
                match places.roots.last_mut() {
                    Some(Root { store, pick: Pick::Names(names), .. }) if store.place() == parent.place() => {
                        if !names.insert(leaf.clone()) {
                            places.missing.push(Error::new(ErrorKind::Usage, "copy").at(&leaf).because("named twice; copied once"));
                        }
                    }
                    _ => {
                        places.stores.push(local);
                        places.roots.push(super::root(parent, Pick::Names(BTreeSet::from([leaf]))));
                    }
                }
            }
        }
    }
    Ok(places)
}

type Destination = (Arc<dyn Store>, Option<Arc<Local>>, Vec<u8>, Option<Vec<u8>>);

fn destination(asked: &Asked<'_>, sources: &[Source]) -> Result<Destination> {
    let location = asked.destination;
    if is_remote(location) {
        return remote_destination(asked, sources);
    }
    let place = open::path_of(&location.path);
    let at = |path: &Path, rename: Option<Vec<u8>>| -> Result<Destination> {
        let store = Arc::new(Local::open(path, asked.options)?);
        Ok((store.clone() as Arc<dyn Store>, Some(store), path.as_os_str().as_bytes().to_vec(), rename))
    };
    let clash = |reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy to").at(&location.path);
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    let one_file = matches!(sources, [Source::Name { kind, .. }] if *kind != Kind::Dir && !asked.listed);
    match std::fs::metadata(&place) {
        Ok(meta) if meta.is_dir() => return at(&place, None),
        Ok(_) if location.trailing_slash => {
            return clash("is a file, and the slash says it is a directory", "leave the slash out to replace the file");
        }
        Ok(_) if !one_file => return clash("is a file, and a directory is needed", "remove it or name another destination"),
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            if !one_file || location.trailing_slash {
                return new_directory(asked, &place, at);
            }
        }
        Err(e) => return Err(Error::io(e, "open").at(&location.path)),
    }
    // One file to another name.
    let Some(leaf) = place.file_name() else { return clash("has no name of its own", "name a file in it") };
    let parent = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.exists() {
        if !asked.make_path {
            return Err(open::missing(parent.as_os_str().as_bytes()).hint("--mkpath makes the directories above the destination"));
        }
        if asked.dry {
            return Ok((Arc::new(Memory::new()), None, location.path.clone(), Some(leaf.as_bytes().to_vec())));
        }
        std::fs::create_dir_all(parent).map_err(|e| Error::io(e, "mkdir").at(parent.as_os_str().as_bytes()))?;
    }
    at(parent, Some(leaf.as_bytes().to_vec()))
}

/// The same on another machine.
fn remote_destination(asked: &Asked<'_>, sources: &[Source]) -> Result<Destination> {
    let location = asked.destination;
    let host = asked.hosts.reach(location)?;
    let path = host.path(location);
    let clash = |reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy to").at(location.to_string().as_bytes());
        Err(e.because(reason.to_string()).hint(hint.to_string()))
    };
    let at = |path: &[u8], rename: Option<Vec<u8>>| -> Result<Destination> {
        Ok((host.open_target(path, asked.far(asked.options))?, None, path.to_vec(), rename))
    };
    let one_file = matches!(sources, [Source::Name { kind, .. }] if *kind != Kind::Dir && !asked.listed);
    let (above, leaf) = host.split(&path);
    match host.look(&path)? {
        Some(Kind::Dir) => return at(&path, None),
        Some(_) if location.trailing_slash => {
            return clash("is a file, and the slash says it is a directory", "leave the slash out to replace the file");
        }
        Some(_) if !one_file => return clash("is a file, and a directory is needed", "remove it or name another destination"),
        Some(_) => {}
        None if one_file && !location.trailing_slash => {}
        None => {
            if !asked.make_path && host.look(above)? != Some(Kind::Dir) {
                return clash("the directory above it is not there", "--mkpath makes the directories above the destination");
            }
            if asked.dry {
                // What is below a prefix can be looked at, whether or not anything says that it is a directory.
                let prefix = matches!(*host, Host::Objects(_));
                return if prefix { at(&path, None) } else { Ok((Arc::new(Memory::new()), None, path.clone(), None)) };
            }
            host.make_dir(&path, asked.make_path)?;
            return at(&path, None);
        }
    }
    if host.look(above)? != Some(Kind::Dir) {
        if !asked.make_path {
            return clash("the directory above it is not there", "--mkpath makes the directories above the destination");
        }
        if asked.dry {
            return Ok((Arc::new(Memory::new()), None, path.clone(), Some(leaf.to_vec())));
        }
        host.make_dir(above, true)?;
    }
    at(above, Some(leaf.to_vec()))
}

/// Only the last component is made without `--mkpath`: a mistyped path should not become a tree.
fn new_directory(asked: &Asked<'_>, place: &Path, at: impl Fn(&Path, Option<Vec<u8>>) -> Result<Destination>) -> Result<Destination> {
    let bytes = place.as_os_str().as_bytes();
    let parent = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !asked.make_path && !parent.is_dir() {
        return Err(open::missing(parent.as_os_str().as_bytes()).hint("--mkpath makes the directories above the destination"));
    }
    if asked.dry {
        return Ok((Arc::new(Memory::new()), None, bytes.to_vec(), None));
    }
    let made = if asked.make_path { std::fs::create_dir_all(place) } else { std::fs::create_dir(place) };
    made.map_err(|e| Error::io(e, "mkdir").at(bytes))?;
    at(place, None)
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
            Err(e.hint("name a directory in the destination, by its path from there"))
        }
    }
}

/// `mv` on one file system renames. A destination that a dry run has not made would be on the file system of what is
/// above it.
pub fn hand_over(roots: &mut [Root], stores: &[Option<Arc<Local>>], target: Option<&Arc<Local>>, place: &Path) {
    let device = match target {
        Some(target) => Some(target.identity().0),
        None => place.ancestors().skip(1).find_map(|above| {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            std::os::unix::fs::MetadataExt::dev(&above.metadata().ok()?).into()
        }),
    };
    for (root, from) in roots.iter_mut().zip(stores) {
        let (Some(from), to) = (from.clone(), target.cloned()) else { continue };
        root.hand_over = Some(Arc::new(move |entry: &Entry, name: &Name, dry| match &to {
            Some(to) if !dry => to.take_over(&from, &entry.name, name),
            _ if device == Some(entry.dev) => Ok(()),
            _ => Err(Error::new(ErrorKind::Unsupported, "rename").on(name)),
        }));
    }
}

/// The reference trees of `--link-dest`, and what is to be said of those that are not there: the first of a
/// series of backups has none before it.
pub fn link_dest(dirs: &[PathBuf], places: &Places, asked: &Asked<'_>) -> Result<(Vec<LinkDest>, Vec<String>)> {
    if !dirs.is_empty() && is_remote(asked.destination) {
        return far_link_dest(dirs, places, asked);
    }
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let target = open::path_of(&places.target_path);
    for dir in dirs {
        let path = reference(&target, dir, places.local_target.is_some());
        let store = match Local::open(&path, asked.options) {
            Ok(store) => Arc::new(store),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                notes.push(not_there(&path));
                continue;
            }
            Err(e) => return Err(e),
        };
        let Some(to) = places.local_target.clone() else {
            found.push(LinkDest { store: store as Arc<dyn Store>, link: Arc::new(unasked) });
            continue;
        };
        if to.identity().0 != store.identity().0 {
            return Err(crosses(&path));
        }
        let from = store.clone();
        let link = move |existing: &Name, name: &Name| to.link_from(&from, existing, name);
        found.push(LinkDest { store: store as Arc<dyn Store>, link: Arc::new(link) });
    }
    Ok((found, notes))
}

/// The same on another machine: its haul links what lies there.
fn far_link_dest(dirs: &[PathBuf], places: &Places, asked: &Asked<'_>) -> Result<(Vec<LinkDest>, Vec<String>)> {
    let host = asked.hosts.reach(asked.destination)?;
    let Host::Agent(host) = &*host else {
        let e = Error::new(ErrorKind::Unsupported, "--link-dest").because("plain SFTP cannot link to what lies beside the destination");
        return Err(e.hint("haul on the remote host can: --install-agent places it there"));
    };
    let options = asked.far(asked.options);
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let is_made = places.target.place().scheme == "ssh";
    let to = is_made.then(|| host.open(&places.target_path, options).map(Arc::new)).transpose()?;
    for dir in dirs {
        let path = reference(&open::path_of(&places.target_path), dir, is_made);
        let store = match host.open(path.as_os_str().as_bytes(), options) {
            Ok(store) => Arc::new(store),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                notes.push(not_there(&path));
                continue;
            }
            Err(e) => return Err(e),
        };
        let Some(to) = to.clone() else {
            found.push(LinkDest { store: store as Arc<dyn Store>, link: Arc::new(unasked) });
            continue;
        };
        if to.identity().0 != store.identity().0 {
            return Err(crosses(&path));
        }
        let from = store.clone();
        let link = move |existing: &Name, name: &Name| to.link_from(&from, existing, name);
        found.push(LinkDest { store: store as Arc<dyn Store>, link: Arc::new(link) });
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
    format!("--link-dest {}: not there; nothing is linked to it", show(path.as_os_str().as_bytes()))
}

fn crosses(path: &Path) -> Error {
    let e = Error::new(ErrorKind::Usage, "--link-dest").at(path.as_os_str().as_bytes());
    let e = e.because("is on another file system than the destination, and hard links cannot cross them");
    e.hint("name a directory on the destination's file system, or leave the option out")
}

/// A dry run links nothing.
fn unasked(_existing: &Name, _name: &Name) -> Result<()> {
    Err(Error::new(ErrorKind::Unsupported, "link"))
}

/// The address as a person would look for it: a local path in full.
fn shown(location: &Location) -> String {
    if is_remote(location) { location.to_string() } else { show(&absolute(&location.path)) }
}

/// The first line of the output: what the run understood.
pub fn sentence(verb: &str, sources: &[Location], destination: &Location, job: &Job, hosts: &Hosts<'_>) -> String {
    let what = match sources {
        [one] if one.means_contents() => format!("the contents of {}", shown(one)),
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
    if job.delete {
        sentence.push_str(", deleting what is not there");
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
