//! Files of a host behind plain SFTP, version 3, as every ssh server has it.
//!
//! ```text
//! store (this file)  ->  listing, source, sink, small, meta  ->  client (answers as values, several channels)
//!                                                                  -> channel (one conversation)  -> packet (the wire)
//! ```
//!
//! A call for many things sends all its requests before it waits for the first answer. What the protocol cannot say
//! is in `Caps`: no nanoseconds, no extended attributes, no inodes. Nor does it know descriptors of directories: a
//! name is resolved by the server each time, so that a directory there that somebody swaps for a link is followed.

mod channel;
mod client;
mod devices;
mod listing;
mod meta;
mod packet;
mod sink;
mod small;
mod source;
mod stripes;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Caps, Flow, Found, Landed, MetaSpec, Place, Sink, Source, Space, Spec, Store, Token, Volume, WriteStyle};

pub use channel::Channel;
pub use client::Connect;
use client::{Client, ask_all, done, is_unexplained, may_exist};
pub use devices::Device;
pub(crate) use packet::SPEAK;
use packet::{Attrs, kind, open};

use crate::staging::{Shown, staging_leaf};

/// A directory of a host.
#[derive(Debug)]
pub struct Sftp {
    shared: Arc<Shared>,
    caps: Caps,
    place: Place,
}

#[derive(Debug)]
struct Shared {
    client: Arc<Client>,
    /// Absolute, without a slash at its end.
    root: Vec<u8>,
    /// Directories whose path has no link in it, by their id.
    known: Mutex<HashSet<u64>>,
}

/// A host, before a directory of it is opened.
#[derive(Debug)]
pub struct Host {
    client: Arc<Client>,
    home: Vec<u8>,
    endpoint: String,
    scheme: &'static str,
}

/// Channels at the most: OpenSSH allows ten sessions in one connection unless it is told otherwise.
pub const CHANNELS: usize = 8;

impl Host {
    /// Connects. `endpoint` is the host as the user reaches it, without credentials.
    pub fn connect(scheme: &'static str, endpoint: String, connect: Box<Connect>, channels: usize) -> Result<Host> {
        let client = Arc::new(Client::new(connect, channels)?);
        let answer = client.channel()?.ask(kind::REALPATH, |r| r.bytes(b"."))?;
        let home = client::real_path(&answer, "find the home directory").map_err(|e| e.at(endpoint.as_bytes()))?;
        Ok(Host { client, home, endpoint, scheme })
    }

    /// A large file goes through so many channels; `None` is as many as the round trip asks for.
    #[must_use]
    pub fn with_stripes(self, stripes: Option<usize>) -> Host {
        self.client.fix_stripes(stripes);
        self
    }

    /// A path as the user writes it: relative to the home directory, which `~` is too.
    pub fn absolute(&self, path: &[u8]) -> Vec<u8> {
        absolute(&self.home, path)
    }

    /// What stands at an absolute path, links followed; `None` if nothing does.
    pub fn look(&self, path: &[u8]) -> Result<Option<Kind>> {
        let answer = self.client.channel()?.ask(kind::STAT, |r| r.bytes(path))?;
        match client::attrs(&answer, "stat") {
            Ok(attrs) => Ok(Some(attrs.kind())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.at(path)),
        }
    }

    /// Makes a directory at an absolute path, and with `parents` those above it.
    pub fn make_dir(&self, path: &[u8], parents: bool) -> Result<()> {
        let channel = self.client.channel()?;
        let make = |path: &[u8]| channel.ask(kind::MKDIR, |r| r.bytes(path).attrs(&Attrs::default())).and_then(|a| done(&a, "mkdir"));
        let mut first = None;
        if parents {
            for (at, _) in path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/') {
                // What is there already is no failure; what is missing shows with the last.
                first = make(&path[..at]).err().filter(|e| e.kind() == ErrorKind::Denied).map(|e| e.at(&path[..at])).or(first);
            }
        }
        match make(path) {
            Err(_) if self.look(path)? == Some(Kind::Dir) => Ok(()),
            // Below a directory that could not be made nothing could be.
            Err(e) if e.kind() == ErrorKind::NotFound => Err(first.unwrap_or(e).at(path)),
            made => made.map_err(|e| e.at(path)),
        }
    }

    /// The extensions of the server that are made use of.
    pub fn extensions(&self) -> Vec<&'static str> {
        let has = &self.client.extensions;
        let all = [
            (has.posix_rename, "posix-rename"),
            (has.hardlink, "hardlink"),
            (has.statvfs, "statvfs"),
            (has.fsync, "fsync"),
            (has.lsetstat, "lsetstat"),
            (has.limits, "limits"),
        ];
        all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
    }

    /// Bytes of one request to read and of one to write.
    pub fn request_bytes(&self) -> (usize, usize) {
        (self.client.read_most, self.client.write_most)
    }

    /// The directory at an absolute path as a store.
    pub fn open(&self, path: &[u8]) -> Result<Sftp> {
        let (client, endpoint, scheme) = (self.client.clone(), self.endpoint.clone(), self.scheme);
        let channel = client.channel()?;
        let answer = channel.ask(kind::REALPATH, |r| r.bytes(path))?;
        let mut root = client::real_path(&answer, "open").map_err(|e| e.at(path))?;
        while root.ends_with(b"/") {
            root.pop();
        }
        let answer = channel.ask(kind::STAT, |r| r.bytes(if root.is_empty() { b"/" } else { &root }))?;
        let attrs = client::attrs(&answer, "open").map_err(|e| e.at(path))?;
        if attrs.kind() != Kind::Dir {
            return Err(Error::new(ErrorKind::Usage, "open").at(path).because("is not a directory"));
        }
        let home = channel.ask(kind::STAT, |r| r.bytes(&self.home)).and_then(|a| client::attrs(&a, "stat"));
        // Who may give files away cannot be asked; whoever's home is root's may.
        let groups = match home.ok().and_then(|home| home.owner) {
            // A user in a cage has root's directory for a home.
            Some((0, _)) if self.home != b"/" => None,
            Some((_, group)) => Some(vec![group]),
            None => Some(Vec::new()),
        };
        let caps = caps(&client, groups);
        let shown = if root.is_empty() { b"/".to_vec() } else { root.clone() };
        let place = Place { scheme, endpoint, account: String::new(), volume: String::new(), root: shown };
        Ok(Sftp { shared: Arc::new(Shared { client, root, known: Mutex::default() }), caps, place })
    }
}

fn caps(client: &Client, groups: Option<Vec<u32>>) -> Caps {
    let kept = [MetaMask::MTIME, MetaMask::MODE, MetaMask::OWNER, MetaMask::GROUP, MetaMask::SETID];
    let kept = kept.into_iter().fold(MetaMask::NONE, MetaMask::with);
    Caps {
        groups,
        write: WriteStyle::Anywhere,
        read_ranges: true,
        dirs: true,
        links: true,
        hard_links: client.extensions.hardlink,
        sets: kept,
        link_sets: if client.extensions.lsetstat { kept } else { MetaMask::NONE },
        lists: kept.with(MetaMask::BASIC),
        atomic_commit: client.extensions.posix_rename,
        attach: true,
        direct_create: true,
        bundle_files: 40,
        ..Caps::minimal()
    }
}

/// A path as the user writes it: relative to the home directory, which `~` is too.
pub(crate) fn absolute(home: &[u8], path: &[u8]) -> Vec<u8> {
    let path = match path.strip_prefix(b"~") {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => rest.strip_prefix(b"/").unwrap_or(rest),
        _ => path,
    };
    if path.starts_with(b"/") {
        return path.to_vec();
    }
    let rest = path.strip_prefix(b"./").unwrap_or(path);
    if rest.is_empty() || rest == b"." { home.to_vec() } else { join(home, rest) }
}

/// `directory/name`, where the root of everything is empty.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") || name.is_empty() { b"" } else { b"/" };
    [directory, slash, name].concat()
}

/// A leaf that would leave its directory never becomes part of a path.
fn checked<'a>(name: &'a Name, op: &'static str) -> Result<&'a [u8]> {
    match check_leaf(&name.leaf) {
        Ok(()) => Ok(&name.leaf),
        Err(reason) => Err(Error::new(ErrorKind::BadName, op).on(name).because(reason)),
    }
}

impl Shared {
    /// The path of a directory. The server resolves it each time; that no part of it is a link is asked once, so that
    /// a link that stands there is not entered. Against one that is put there later the protocol has no means. A resolved
    /// path is no answer: not every server resolves links for REALPATH.
    fn dir(&self, dir: &Dir) -> Result<Vec<u8>> {
        let path = join(&self.root, &dir.path());
        let Some(parent) = dir.parent() else {
            return Ok(if path.is_empty() { b"/".to_vec() } else { path });
        };
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&dir.id()) {
            return Ok(path);
        }
        let name = Name::of(dir);
        checked(&name, "open")?;
        self.dir(parent)?;
        match self.look(&path) {
            Ok((there, None)) if there.kind() == Kind::Dir => {
                known().insert(dir.id());
                Ok(path)
            }
            Ok((there, target)) if there.kind() == Kind::Link || target.is_some() => {
                let e = Error::new(ErrorKind::Denied, "open").on(&name);
                Err(e.because("a part of the path is a symlink, and is not followed"))
            }
            // Whatever is asked of it shows that it is not a directory, or not there yet.
            Ok(_) => Ok(path),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(path),
            Err(e) => Err(e.on(&name)),
        }
    }

    /// The path of a name; of the directory itself if the leaf is empty.
    fn path(&self, name: &Name, op: &'static str) -> Result<Vec<u8>> {
        if name.leaf.is_empty() {
            return self.dir(&name.dir);
        }
        Ok(join(&self.dir(&name.dir)?, checked(name, op)?))
    }

    fn lstat(&self, path: &[u8]) -> Result<Attrs> {
        let answer = self.client.channel()?.ask(kind::LSTAT, |r| r.bytes(path))?;
        client::attrs(&answer, "stat")
    }

    /// What stands at a path, and where it points if it is a link. Some servers (ProFTPD) follow links for LSTAT as
    /// well, so that it takes both questions to tell; they go by one write.
    fn look(&self, path: &[u8]) -> Result<(Attrs, Option<Vec<u8>>)> {
        let channel = self.client.channel()?;
        let mut batch = channel.batch();
        let stat = batch.push(kind::LSTAT, |r| r.bytes(path));
        let link = batch.push(kind::READLINK, |r| r.bytes(path));
        batch.send()?;
        let there = client::attrs(&channel.wait(stat)?, "stat");
        match client::one_name(&channel.wait(link)?, "read link") {
            Ok(target) => Ok((there?, Some(target))),
            Err(e) if e.kind() == ErrorKind::Broken => Err(e),
            Err(e) => match there {
                Ok(there) if there.kind() == Kind::Link => Err(e),
                there => Ok((there?, None)),
            },
        }
    }

    /// Removes a name; no error if nothing had it.
    fn remove_file(&self, path: &[u8], op: &'static str) -> Result<()> {
        let answer = self.client.channel()?.ask(kind::REMOVE, |r| r.bytes(path))?;
        match done(&answer, op) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Puts what is at `from` in the place of any file at `to`, in one step where the server can.
    fn replace(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let channel = self.client.channel()?;
        let rename = || {
            if self.client.extensions.posix_rename {
                channel.ask(kind::EXTENDED, |r| r.bytes(b"posix-rename@openssh.com").bytes(from).bytes(to))
            } else {
                channel.ask(kind::RENAME, |r| r.bytes(from).bytes(to))
            }
        };
        let Err(e) = done(&rename()?, "rename") else { return Ok(()) };
        if !may_exist(&e) {
            return Err(e);
        }
        match self.lstat(to) {
            Ok(there) if there.kind() == Kind::Dir => Err(Error::new(ErrorKind::Exists, "rename").because("a directory has this name")),
            Ok(_) if !self.client.extensions.posix_rename => {
                // Without the extension there is a moment in which the name is nobody's; what had it is kept till then.
                let aside = [to, b".haul-old"].concat();
                let give = |from: &[u8], to: &[u8]| channel.ask(kind::RENAME, |r| r.bytes(from).bytes(to)).and_then(|a| done(&a, "rename"));
                self.remove_file(&aside, "rename")?;
                give(to, &aside)?;
                if let Err(e) = give(from, to) {
                    let _what_can_be_done = give(&aside, to);
                    return Err(e);
                }
                self.remove_file(&aside, "rename")
            }
            _ => Err(self.explain(e)),
        }
    }

    /// "Failure" is a full disk more often than not, or one that is read-only; whether it is can be asked.
    fn explain(&self, e: Error) -> Error {
        if !is_unexplained(&e) {
            return e;
        }
        match self.volume() {
            Ok(Some((_, true))) => e.kind_is(ErrorKind::ReadOnly).because("Read-only file system"),
            Ok(Some((volume, false))) if volume.available < 1 << 20 || (volume.files > 0 && volume.free_files == 0) => {
                e.kind_is(ErrorKind::NoSpace).because("No space left on device")
            }
            _ => e,
        }
    }

    /// The file system of the root, and whether it takes no writes at all; `None` where the server does not tell.
    fn volume(&self) -> Result<Option<(Volume, bool)>> {
        if !self.client.extensions.statvfs {
            return Ok(None);
        }
        let root = self.dir(&Dir::root())?;
        let answer = self.client.channel()?.ask(kind::EXTENDED, |r| r.bytes(b"statvfs@openssh.com").bytes(&root))?;
        let mut from = client::reply(&answer)?;
        let (_block, fragment, blocks, free, available) = (from.long()?, from.long()?, from.long()?, from.long()?, from.long()?);
        let (files, _free_files, free_files) = (from.long()?, from.long()?, from.long()?);
        let (_id, flags) = (from.long()?, from.long()?);
        let bytes = |blocks: u64| fragment.saturating_mul(blocks);
        Ok(Some((Volume { size: bytes(blocks), free: bytes(free), available: bytes(available), files, free_files }, flags & 1 != 0)))
    }
}

impl Store for Sftp {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        self.shared.stat(name).map_err(|e| e.on(name))
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], _want: MetaMask, follow: bool) -> Vec<Found> {
        self.shared.stat_many(dir, leaves, follow)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.shared.list(dir, Shown::Names, each).map_err(|e| e.on(&Name::of(dir)))
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        source::RemoteFile::open(&self.shared, entry, follow).map(|file| Box::new(file) as _).map_err(|e| e.on(&entry.name))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        sink::RemoteSink::create(&self.shared, name, spec).map(|sink| Box::new(sink) as _).map_err(|e| e.on(name))
    }

    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        sink::RemoteSink::attach(&self.shared, name, token, spec).map(|sink| Box::new(sink) as _).map_err(|e| e.on(name))
    }

    fn staging(&self, entry: &Entry) -> Option<Token> {
        Some(Token(staging_leaf(&entry.name.leaf, entry.stamp()).into()))
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        sink::abandon(&self.shared, name, token).map_err(|e| e.on(name))
    }

    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        let mut left = Vec::new();
        self.shared.list(dir, Shown::Unfinished, &mut |found| {
            left.extend(found);
            Flow::Go
        })?;
        Ok(self.shared.remove(&left).iter().filter(|removed| removed.is_ok()).count() as u64)
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        self.shared.get_bundle(bundle, self.caps.bundle_bytes);
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.shared.put_bundle(bundle);
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        self.shared.make_dirs(dirs)
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<Landed> {
        self.shared.make_node(name, entry, keep).map_err(|e| e.on(name))
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.shared.make_hard_link(name, existing).map_err(|e| e.on(name))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<Landed>> {
        self.shared.set_meta(specs)
    }

    /// The protocol has none: there is nothing to read.
    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let _ = want;
        entries
            .iter_mut()
            .map(|entry| match self.shared.path(&entry.name, "read extended attributes").and_then(|path| self.shared.lstat(&path)) {
                Ok(_) => {
                    entry.xattrs = Some(Box::default());
                    Ok(())
                }
                Err(e) => Err(e.on(&entry.name)),
            })
            .collect()
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        self.shared.remove(entries)
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.shared.rename(from, to, replace).map_err(|e| e.on(from))
    }

    fn settle(&self, names: &[&Name]) -> Result<()> {
        if !self.shared.client.extensions.fsync {
            return Ok(());
        }
        let channel = self.shared.client.channel()?;
        for name in names {
            let path = self.shared.path(name, "sync")?;
            let answer = channel.ask(kind::OPEN, |r| r.bytes(&path).number(open::READ).attrs(&Attrs::default()))?;
            let handle = client::handle(&answer, "sync").map_err(|e| e.on(name))?;
            let answers = ask_all(&channel, &[true, false], |batch, sync| match sync {
                true => batch.push(kind::EXTENDED, |r| r.bytes(b"fsync@openssh.com").bytes(&handle)),
                false => batch.push(kind::CLOSE, |r| r.bytes(&handle)),
            });
            for answer in answers {
                done(&answer?, "sync").map_err(|e| e.on(name))?;
            }
        }
        Ok(())
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        let entry = self.stat(name, MetaMask::NONE)?;
        self.open(&entry, false)
    }

    fn space(&self) -> Result<Option<Space>> {
        // File systems that make inodes as they go say 0 of 0.
        let files = |volume: &Volume| if volume.files == 0 { u64::MAX } else { volume.free_files };
        Ok(self.shared.volume()?.map(|(volume, _)| Space { bytes: volume.available, files: files(&volume) }))
    }

    fn volume(&self) -> Result<Option<Volume>> {
        match self.shared.volume()? {
            Some((volume, _)) => Ok(Some(volume)),
            None => {
                let e = Error::new(ErrorKind::Unsupported, "stat file system");
                Err(e.because("the server has no statvfs@openssh.com").hint("haul on that host can: see `haul doctor`"))
            }
        }
    }

    fn forget(&self, dir: &Dir) {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&dir.id());
    }
}
