//! Files of a host behind plain SFTP, version 3.
//!
//! ```text
//! store (this file)  ->  listing, source, sink, get, put, meta  ->  client (answers as values)  ->  channels (several)
//!                                                                  -> channel (one session)  -> packet (the wire)
//! ```
//!
//! A call for many names sends all its requests before it waits for the first answer. The protocol has no nanoseconds, extended
//! attributes, inodes or descriptors of directories: the server resolves a path each time, so that a directory that is swapped
//! for a link is followed.

mod channel;
mod channels;
mod client;
mod device;
mod get;
mod host;
mod listing;
mod meta;
mod packet;
mod put;
mod reader;
mod sink;
mod source;
mod stripes;
mod traffic;
mod writes;

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{
    Caps, Extensions, Flow, Found, MetaSpec, Place, ServerSide, ServerSideOp, Sink, Source, Spec, Store, System, Token, Unfinished, Volume,
    WriteOutcome,
};

pub use channel::Channel;
pub(crate) use channel::NO_SFTP;
use channel::{Batch, Ticket};
pub use client::Connect;
use client::{Client, ask_all, done, is_unexplained, may_exist};
pub use device::{Device, Stream};
pub use host::{CHANNELS, Host};
pub(crate) use packet::SPEAK;
use packet::{Attrs, kind, open};

use haul_core::lock::lock;
use haul_core::store::staging::{OwnNames, Shown, aside};

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
    /// Directories whose path has no link in it but those that `keep_dirlinks` allows, by their id.
    known: Mutex<HashSet<u64>>,
    /// `-K`: a link to a directory below the root counts as the directory.
    keep_dirlinks: bool,
    names: OwnNames,
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
        let known = || lock(&self.known);
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
                if self.keep_dirlinks && self.leads_below(&path)? {
                    known().insert(dir.id());
                    return Ok(path);
                }
                let e = Error::new(ErrorKind::Denied, "open").on(&name);
                Err(e.because("a part of the path is a symlink, and is not followed"))
            }
            // Requests below it will show that it is not a directory, or does not exist yet.
            Ok(_) => Ok(path),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(path),
            Err(e) => Err(e.on(&name)),
        }
    }

    /// Whether a link leads to a directory below the root. A server that does not resolve links for REALPATH does not tell.
    fn leads_below(&self, path: &[u8]) -> Result<bool> {
        let channel = self.client.channel()?;
        let mut batch = channel.batch();
        let (real, there) = (batch.push(kind::REALPATH, |r| r.bytes(path)), batch.push(kind::STAT, |r| r.bytes(path)));
        batch.send()?;
        let (real, there) = (channel.wait(&real)?, channel.wait(&there)?);
        let below = |real: &[u8]| real != path && real.strip_prefix(&self.root[..]).is_some_and(|rest| rest.starts_with(b"/"));
        let is_dir = client::attrs(&there, "stat").is_ok_and(|there| there.kind() == Kind::Dir);
        Ok(is_dir && client::real_path(&real, "open").is_ok_and(|real| below(&real)))
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

    /// The attributes at a path, and the target if it is a link. Some servers (ProFTPD) follow links for LSTAT as well, so
    /// that it takes both requests, which go out by one write.
    fn look(&self, path: &[u8]) -> Result<(Attrs, Option<Vec<u8>>)> {
        let channel = self.client.channel()?;
        let mut batch = channel.batch();
        let stat = batch.push(kind::LSTAT, |r| r.bytes(path));
        let link = batch.push(kind::READLINK, |r| r.bytes(path));
        batch.send()?;
        let there = client::attrs(&channel.wait(&stat)?, "stat");
        match client::one_name(&channel.wait(&link)?, "read link") {
            Ok(target) => Ok((there?, Some(target))),
            Err(e) if matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) => Err(e),
            Err(_) => Ok((there?, None)),
        }
    }

    /// Removes a name; no error if nothing had it.
    fn remove_file(&self, path: &[u8], op: &'static str) -> Result<()> {
        let answer = self.client.channel()?.ask(kind::REMOVE, |r| r.bytes(path))?;
        match done(&answer, op) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            // A read-only file system refuses before it looks.
            Err(e) => match self.lstat(path) {
                Err(absent) if absent.kind() == ErrorKind::NotFound => Ok(()),
                _ => Err(e),
            },
        }
    }

    /// Replaces a file at `to`, too, where the server has the extension.
    fn rename_request(&self, batch: &mut Batch<'_>, from: &[u8], to: &[u8]) -> Ticket {
        match self.client.extensions.posix_rename {
            true => batch.push(kind::EXTENDED, |r| r.bytes(b"posix-rename@openssh.com").bytes(from).bytes(to)),
            false => batch.push(kind::RENAME, |r| r.bytes(from).bytes(to)),
        }
    }

    /// Renames `from` to `to`, replacing any file, in one step where the server can.
    fn replace(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let channel = self.client.channel()?;
        let mut batch = channel.batch();
        let ticket = self.rename_request(&mut batch, from, to);
        batch.send()?;
        let Err(e) = done(&channel.wait(&ticket)?, "rename") else { return Ok(()) };
        if !may_exist(&e) {
            return Err(e);
        }
        match self.lstat(to) {
            Ok(there) if there.kind() == Kind::Dir => Err(Error::new(ErrorKind::Exists, "rename").because("a directory has this name")),
            Ok(_) if !self.client.extensions.posix_rename => {
                // Without the extension there is a moment without the name; the old file is kept until it is over.
                self.lstat(from)?;
                let aside = aside(to);
                let give = |from: &[u8], to: &[u8]| channel.ask(kind::RENAME, |r| r.bytes(from).bytes(to)).and_then(|a| done(&a, "rename"));
                give(to, &aside)?;
                if let Err(e) = give(from, to) {
                    // The error that counts is the first.
                    let _ = give(&aside, to);
                    return Err(e);
                }
                self.remove_file(&aside, "rename")
            }
            _ => Err(self.explain(e)),
        }
    }

    /// "Failure" mostly means a full disk or a read-only file system, which the server is asked about.
    fn explain(&self, e: Error) -> Error {
        if !is_unexplained(&e) {
            return e;
        }
        match self.volume() {
            Ok(Some((_, true))) => e.kind_is(ErrorKind::ReadOnly).because("Read-only file system").remedy_is(Remedy::None),
            Ok(Some((volume, false))) if volume.available < 1 << 20 || (volume.files > 0 && volume.free_files == 0) => {
                e.kind_is(ErrorKind::NoSpace).because("No space left on device").remedy_is(Remedy::None)
            }
            _ => e,
        }
    }

    /// The file system of the root, and whether it is read-only; `None` where the server cannot report it.
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

    fn get_bundle(&self, bundle: &mut Bundle) {
        self.shared.get_bundle(bundle, self.caps.tuning.bundle_bytes);
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.shared.put_bundle(bundle);
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        self.shared.make_dirs(dirs)
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        self.shared.make_node(name, entry, keep).map_err(|e| e.on(name))
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.shared.make_hard_link(name, existing).map_err(|e| e.on(name))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
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

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        let entry = self.stat(name, MetaMask::NONE)?;
        self.open(&entry, false)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { unfinished: self, server_side: self, system: self, ..Extensions::default() }
    }
}

impl Unfinished for Sftp {
    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        sink::RemoteSink::attach(&self.shared, name, token, spec).map(|sink| Box::new(sink) as _).map_err(|e| e.on(name))
    }

    fn staging(&self, entry: &Entry) -> Option<Token> {
        Some(Token(self.shared.names.leaf(&entry.name.leaf, entry.stamp()).into()))
    }

    fn staged(&self, _: &Entry, token: &Token) -> Option<Token> {
        Some(token.clone())
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
}

impl ServerSide for Sftp {
    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        match ((from as &dyn Any).downcast_ref::<Sftp>(), how) {
            (Some(from), ServerSideOp::Rename) if Arc::ptr_eq(&from.shared.client, &self.shared.client) => {
                let taken = checked(&entry.name, "rename").and_then(|_| from.shared.path(&entry.name, "rename")).and_then(|from| {
                    checked(to, "rename")?;
                    self.shared.rename_new(&from, &self.shared.path(to, "rename")?)
                });
                taken.map(|()| Some(WriteOutcome::default())).map_err(|e| e.on(to))
            }
            _ => Ok(None),
        }
    }
}

impl System for Sftp {
    fn volume(&self) -> Result<Option<Volume>> {
        match self.shared.volume()? {
            Some((volume, _)) => Ok(Some(volume)),
            None => {
                let e = Error::new(ErrorKind::Unsupported, "stat file system");
                Err(e.because("the server has no statvfs@openssh.com").hint("haul on that host can: see `haul doctor`"))
            }
        }
    }

    fn sync(&self, names: &[&Name]) -> Result<()> {
        if !self.shared.client.extensions.fsync {
            return Ok(());
        }
        let channel = self.shared.client.channel()?;
        for name in names {
            let path = self.shared.path(name, "sync")?;
            let _held = channel.hold(1);
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

    fn forget(&self, dir: &Dir) {
        lock(&self.shared.known).remove(&dir.id());
    }
}
