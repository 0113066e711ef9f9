//! A directory of the remote host as a store: each call is one request, which the remote haul does on its own file system.

use std::any::Any;
use std::sync::Arc;

use haul_core::bundle::{Bundle, items};
use haul_core::entry::{Dir, Entry, MetaMask, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::{
    Caps, Digests, Extensions, Flow, Found, MetaSpec, Owners, Place, RemoteWork, ServerSide, ServerSideOp, Sink, Source, Spec, Store,
    System, Token, Unfinished, Volume, Who, WriteOutcome,
};

use super::bundles::{batches, weight_of};
use super::frame::kind;
use super::link::Ticket;
use super::listing::{self, RootListing};
use super::ops;
use super::root::Root;
use super::sink::{RemoteSink, remote_token};
use super::source::RemoteSource;
use super::wire::{Parser, pack, protocol_error};
use haul_core::store::staging::staging_leaf;

#[derive(Debug)]
pub struct Remote {
    pub(super) root: Arc<Root>,
    pub(super) caps: Caps,
    pub(super) place: Place,
    pub(super) fs_name: String,
    /// The work that the remote host had done when this was opened, and in which session; `None` if it does not report it.
    pub(super) before: Option<(u64, RemoteWork)>,
    pub(super) listing: RootListing,
}

/// Things whose extended attributes one answer can carry: each may have 64 KiB of them.
const WITH_XATTRS: usize = 32;

/// A leaf that would leave its directory is never sent.
fn checked(name: &Name, op: &'static str) -> Result<()> {
    check_leaf(&name.leaf).map_err(|reason| Error::new(ErrorKind::BadName, op).on(name).because(reason))
}

impl Remote {
    /// The type of the file system under the root, as the remote host names it.
    pub fn fs_name(&self) -> &str {
        &self.fs_name
    }

    /// Gives an entry below another root of the same host a name here, in place of its own or beside it.
    fn take(&self, other: &Remote, existing: &Name, name: &Name, is_link: bool) -> Result<Option<WriteOutcome>> {
        let op = if is_link { "link" } else { "rename" };
        let take = || {
            checked(existing, op)?;
            checked(name, op)?;
            if !Arc::ptr_eq(&self.root.client, &other.root.client) {
                return Err(Error::new(ErrorKind::Unsupported, op).because("source and destination are on different hosts"));
            }
            // Both are open in the session that is asked; it may be another than the one that opened them.
            other.root.session()?;
            // The directories of each name are counted from the start.
            let (mut to, mut from) = (self.root.request(), other.root.request());
            to.name(name);
            from.name(existing).put(is_link).check()?;
            self.root.ask(ops::TAKE, &to, &[&from.out], 0)?.wait().map(|_| Some(WriteOutcome::default()))
        };
        take().map_err(|e| e.on(name))
    }

    fn found(&self, from: &mut Parser<'_>, name: Name) -> Result<Found> {
        Ok(match from.byte()? {
            0 => Found::Entry(from.attributes(name)?),
            1 => Found::Absent,
            _ => Found::Failed(from.error()?),
        })
    }
}

impl Store for Remote {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        let stat = || {
            let mut to = self.root.request();
            to.name(name).put(want);
            let ticket = self.root.ask(ops::STAT, &to, &[], 0)?;
            if name.leaf.is_empty() {
                self.listing.expect(&self.root);
            }
            ticket.wait()?.body().attributes(name.clone())
        };
        stat().map_err(|e| e.on(name))
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        let most = if want.without(MetaMask::CTIME).is_empty() { 1000 } else { WITH_XATTRS };
        let asked: Vec<(&[&[u8]], Result<Ticket>)> = leaves
            .chunks(most)
            .map(|batch| {
                let mut to = self.root.request();
                to.dir(dir).put((want, follow, batch.len()));
                batch.iter().for_each(|leaf| _ = to.bytes(leaf));
                (batch, self.root.ask(ops::STAT_MANY, &to, &[], 0))
            })
            .collect();
        let mut found = Vec::with_capacity(leaves.len());
        for (batch, ticket) in asked {
            match ticket.and_then(Ticket::wait) {
                Ok(answer) => {
                    let mut from = answer.body();
                    found.extend(batch.iter().map(|leaf| self.found(&mut from, Name::new(dir, leaf)).unwrap_or_else(Found::Failed)));
                }
                Err(e) => found.extend(batch.iter().map(|_| Found::Failed(e.again()))),
            }
        }
        found
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let above = Name::of(dir);
        let mut list = || {
            let ahead = if above.leaf.is_empty() { self.listing.take() } else { None };
            let ticket = ahead.map_or_else(|| listing::ask(&self.root, dir), Ok)?;
            loop {
                let part = ticket.next()?;
                if part.kind == kind::DONE {
                    return Ok(());
                }
                ticket.credit(1)?;
                let mut from = part.body();
                while !from.0.is_empty() {
                    let (failed, leaf) = (from.byte()? != 0, from.bytes()?);
                    let name = Name::new(dir, leaf);
                    let found = match failed {
                        true => Err(from.error()?),
                        // Names from a remote host are checked before use.
                        false => from.attributes(name.clone()).and_then(|entry| checked(&name, "list").map(|()| entry)),
                    };
                    if each(found) == Flow::Stop {
                        return ticket.cancel();
                    }
                }
            }
        };
        list().map_err(|e: Error| e.on(&above))
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        RemoteSource::open(&self.root, entry, follow).map(|file| Box::new(file) as _).map_err(|e| e.on(&entry.name))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        let create = || {
            checked(name, "create")?;
            RemoteSink::create(&self.root, name, spec)
        };
        create().map(|sink| Box::new(sink) as _).map_err(|e| e.on(name))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        let listed = items::listed(bundle);
        self.get(bundle, &listed).unwrap_or_else(|e| items::fail_all(bundle, &listed, &e));
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        let read = items::read(bundle);
        for read in batches(&read, |i| weight_of(&bundle.items[*i].entry)) {
            self.put(bundle, read).unwrap_or_else(|e| items::fail_all(bundle, read, &e));
        }
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        let mut to = self.root.request();
        to.put(dirs.len());
        dirs.iter().for_each(|(dir, mode)| _ = to.dir(dir).put(mode));
        let made = self.root.each(ops::MAKE_DIRS, dirs.len(), &to);
        made.into_iter().zip(dirs).map(|(made, (dir, _))| made.map_err(|e| e.on(&Name::of(dir)))).collect()
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        checked(name, "create")?;
        self.root.about(name, ops::MAKE_NODE, |to| to.entry(entry).put(keep))
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.root.about(name, ops::HARD_LINK, |to| to.name(existing))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        let mut set = Vec::with_capacity(specs.len());
        for batch in batches(specs, |spec| weight_of(spec.entry)) {
            let mut to = self.root.request();
            to.put(batch.len());
            batch.iter().for_each(|spec| _ = to.name(spec.name).entry(spec.entry).put(spec.keep));
            self.root.ask_work_ahead();
            set.extend(self.root.each(ops::SET_META, batch.len(), &to));
        }
        set.into_iter().zip(specs).map(|(set, spec)| set.map_err(|e| e.on(spec.name))).collect()
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let mut read = Vec::with_capacity(entries.len());
        for batch in entries.chunks(WITH_XATTRS) {
            let mut to = self.root.request();
            to.put((want, batch.len()));
            batch.iter().for_each(|entry| _ = to.listed(entry));
            read.extend(self.root.each(ops::READ_XATTRS, batch.len(), &to));
        }
        let mut done = Vec::with_capacity(entries.len());
        for (read, entry) in read.into_iter().zip(entries) {
            done.push(read.map_err(|e| e.on(&entry.name)).map(|(have, xattrs)| {
                entry.have = have;
                entry.xattrs = Some(Box::new(xattrs));
            }));
        }
        done
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        let mut to = self.root.request();
        to.put(entries.len());
        entries.iter().for_each(|entry| _ = to.listed(entry));
        let removed = self.root.each(ops::REMOVE, entries.len(), &to);
        removed.into_iter().zip(entries).map(|(removed, entry)| removed.map_err(|e| e.on(&entry.name))).collect()
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.root.about(from, ops::RENAME, |request| request.name(to).put(replace))
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        RemoteSource::reopen(&self.root, name).map(|file| Box::new(file) as _).map_err(|e| e.on(name))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            unfinished: self,
            server_side: self,
            digests: self,
            owners: self,
            system: self,
            identity: Some(self.root.identity),
            ..Extensions::default()
        }
    }
}

impl Unfinished for Remote {
    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        RemoteSink::attach(&self.root, name, token, spec).map(|sink| Box::new(sink) as _).map_err(|e| e.on(name))
    }

    fn staging(&self, entry: &Entry) -> Option<Token> {
        Some(Token(staging_leaf(&entry.name.leaf, entry.stamp()).into()))
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        self.root.about(name, ops::ABANDON, |to| to.bytes(remote_token(token)))
    }

    /// An empty token stands for all of them.
    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        self.root.about(&Name::of(dir), ops::ABANDON, |to| to.bytes(b""))
    }
}

impl ServerSide for Remote {
    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        match ((from as &dyn Any).downcast_ref::<Remote>(), how) {
            (Some(from), ServerSideOp::Rename) => self.take(from, &entry.name, to, false),
            (Some(from), ServerSideOp::Link) => self.take(from, &entry.name, to, true),
            _ => Ok(None),
        }
    }
}

impl Digests for Remote {
    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let digest = || {
            let mut to = self.root.request();
            to.put(algorithm).listed(entry);
            let digest: Vec<u8> = self.root.call(ops::DIGEST, &to)?.body().get()?;
            if digest.len() == algorithm.width() { Ok(Some(digest)) } else { Err(protocol_error("a hash of the wrong length")) }
        };
        digest().map_err(|e| e.on(&entry.name))
    }
}

impl Owners for Remote {
    fn name(&self, who: Who, id: u32) -> Result<Option<Box<[u8]>>> {
        self.root.session()?.ask_quick(ops::OWNER_NAME, &[&pack((who, id))])?.body().get()
    }

    fn id(&self, who: Who, name: &[u8]) -> Result<Option<u32>> {
        self.root.session()?.ask_quick(ops::OWNER_ID, &[&pack((who, name))])?.body().get()
    }
}

impl System for Remote {
    fn volume(&self) -> Result<Option<Volume>> {
        self.root.call(ops::VOLUME, &self.root.request())?.body().get()
    }

    fn sync(&self, names: &[&Name]) -> Result<()> {
        let mut to = self.root.request();
        to.put(names.len());
        names.iter().for_each(|name| _ = to.name(name));
        self.root.call(ops::SETTLE, &to).map(|_| ())
    }

    fn forget(&self, dir: &Dir) {
        let mut to = self.root.request();
        to.bytes(&dir.path());
        // The answer is not waited for; a lost connection has forgotten it anyway.
        let _ = self.root.client.standing().map(|session| session.ask(ops::FORGET, &[&to.out], 0));
    }

    fn remote_work(&self) -> Option<RemoteWork> {
        self.root.client.standing()?.work_since(self.before?)
    }
}
