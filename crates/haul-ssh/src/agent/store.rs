//! A directory of the remote host as a store: each call is one request, which the remote haul does on its own file system.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use haul_core::bundle::Bundle;
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
use super::wire::{Parser, Writer, algorithm_to, protocol_error, who_to};
use haul_core::store::staging::staging_leaf;

/// A directory of a host.
#[derive(Debug)]
pub struct Remote {
    pub(super) root: Arc<Root>,
    pub(super) caps: Caps,
    pub(super) place: Place,
    pub(super) fs_name: String,
    /// The work that the remote host had done when this was opened, and in which session; `None` if it does not report it.
    pub(super) before: Option<(u64, RemoteWork)>,
    /// The root of the remote host's file system, once something was renamed from below another root.
    pub(super) top: OnceLock<Arc<Root>>,
    pub(super) listing: RootListing,
}

/// Things whose extended attributes one answer can carry: each may have 64 KiB of them.
const WITH_XATTRS: usize = 32;

/// A leaf that would leave its directory is never sent.
fn checked(name: &Name, op: &'static str) -> Result<()> {
    check_leaf(&name.leaf).map_err(|reason| Error::new(ErrorKind::BadName, op).on(name).because(reason))
}

/// A path below a root as one below the root of the file system.
fn below_top(root: &[u8], path: &[u8]) -> Vec<u8> {
    let root = root.strip_prefix(b"/").unwrap_or(root);
    let slash: &[u8] = if root.is_empty() || root.ends_with(b"/") || path.is_empty() { b"" } else { b"/" };
    [root, slash, path].concat()
}

impl Remote {
    /// The type of the file system under the root, as the remote host names it.
    pub fn fs_name(&self) -> &str {
        &self.fs_name
    }

    /// As `make_hard_link`, for a file `existing` below another root of the same host.
    fn link_from(&self, other: &Remote, existing: &Name, name: &Name) -> Result<()> {
        let link = || {
            checked(name, "link")?;
            if !Arc::ptr_eq(&self.root.client, &other.root.client) {
                return Err(Error::new(ErrorKind::Unsupported, "link").because("source and destination are on different hosts"));
            }
            // Both are open in the session that is asked; it may be another than the one that opened them.
            other.root.session()?;
            // The directories of each name are counted from the start.
            let (mut to, mut from) = (self.root.request(), other.root.request());
            to.name(name);
            from.name(existing);
            from.check()?;
            self.root.ask(ops::LINK_FROM, &to, &[&from.out], 0)?.wait().map(|_| ())
        };
        link().map_err(|e| e.on(name))
    }

    /// Gives an entry below another root of the same host a name here. Both are named from the root of the file system, which
    /// every version of the protocol can.
    fn take_over(&self, other: &Remote, from: &Name, to: &Name) -> Result<()> {
        let take = || {
            checked(from, "rename")?;
            checked(to, "rename")?;
            if !Arc::ptr_eq(&self.root.client, &other.root.client) {
                return Err(Error::new(ErrorKind::Unsupported, "rename").because("source and destination are on different hosts"));
            }
            let top = match self.top.get() {
                Some(top) => top,
                None => {
                    let opened = Arc::new(Root::open(&self.root.client, b"/")?);
                    self.top.get_or_init(|| opened)
                }
            };
            let whole = |place: &Place, name: &Name| Name::parse(&Dir::root(), &below_top(&place.root, &name.path()));
            let (Some(old), Some(new)) = (whole(&other.place, from), whole(&self.place, to)) else {
                return Err(Error::new(ErrorKind::Unsupported, "rename"));
            };
            top.about(&old, ops::RENAME, |request| request.name(&new).flag(false), |_| Ok(()))
        };
        take().map_err(|e| e.on(to))
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
            to.name(name).mask(want);
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
                to.dir(dir).mask(want).flag(follow).number(batch.len() as u64);
                for leaf in batch {
                    to.bytes(leaf);
                }
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
                    let (failed, leaf) = (from.flag()?, from.bytes()?);
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
        self.get_items(bundle);
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.put_items(bundle);
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        let mut to = self.root.request();
        to.number(dirs.len() as u64);
        for (dir, mode) in dirs {
            to.dir(dir).number((*mode).into());
        }
        let made = self.root.each(ops::MAKE_DIRS, dirs.len(), &to, |_, from| from.flag());
        made.into_iter().zip(dirs).map(|(made, (dir, _))| made.map_err(|e| e.on(&Name::of(dir)))).collect()
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        checked(name, "create")?;
        self.root.about(name, ops::MAKE_NODE, |to| to.entry(entry).mask(keep), |from| from.landed())
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.root.about(name, ops::HARD_LINK, |to| to.name(existing), |_| Ok(()))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        let mut set = Vec::with_capacity(specs.len());
        for batch in batches(specs, |spec| weight_of(spec.entry)) {
            let mut to = self.root.request();
            to.number(batch.len() as u64);
            for spec in batch {
                to.name(spec.name).entry(spec.entry).mask(spec.keep);
            }
            self.root.ask_work_ahead();
            set.extend(self.root.each(ops::SET_META, batch.len(), &to, |_, from| from.landed()));
        }
        set.into_iter().zip(specs).map(|(set, spec)| set.map_err(|e| e.on(spec.name))).collect()
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let mut read = Vec::with_capacity(entries.len());
        for batch in entries.chunks(WITH_XATTRS) {
            let mut to = self.root.request();
            to.mask(want).number(batch.len() as u64);
            for entry in batch {
                to.listed(entry);
            }
            read.extend(self.root.each(ops::READ_XATTRS, batch.len(), &to, |_, from| Ok((from.mask()?, from.xattrs()?))));
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
        to.number(entries.len() as u64);
        for entry in entries {
            to.listed(entry);
        }
        let removed = self.root.each(ops::REMOVE, entries.len(), &to, |_, _| Ok(()));
        removed.into_iter().zip(entries).map(|(removed, entry)| removed.map_err(|e| e.on(&entry.name))).collect()
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.root.about(from, ops::RENAME, |request| request.name(to).flag(replace), |_| Ok(()))
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
        self.root.about(name, ops::ABANDON, |to| to.bytes(remote_token(token)), |_| Ok(()))
    }

    /// An empty token stands for all of them. A remote haul that does not know that refuses.
    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        self.root.about(&Name::of(dir), ops::ABANDON, |to| to.bytes(b""), |from| from.number())
    }
}

impl ServerSide for Remote {
    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        match ((from as &dyn Any).downcast_ref::<Remote>(), how) {
            (Some(from), ServerSideOp::Rename) => self.take_over(from, &entry.name, to).map(|()| Some(WriteOutcome::default())),
            (Some(from), ServerSideOp::Link) => self.link_from(from, &entry.name, to).map(|()| Some(WriteOutcome::default())),
            _ => Ok(None),
        }
    }
}

impl Digests for Remote {
    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let digest = || {
            let mut to = self.root.request();
            to.byte(algorithm_to(algorithm)).listed(entry);
            let answer = self.root.call(ops::DIGEST, &to)?;
            let digest = answer.body().bytes()?.to_vec();
            if digest.len() == algorithm.width() { Ok(Some(digest)) } else { Err(protocol_error("a hash of the wrong length")) }
        };
        digest().map_err(|e| e.on(&entry.name))
    }
}

impl Owners for Remote {
    fn name(&self, who: Who, id: u32) -> Result<Option<Box<[u8]>>> {
        let session = self.root.session()?;
        let mut to = Writer::new();
        to.byte(who_to(who)).number(id.into());
        let answer = session.ask_quick(ops::OWNER_NAME, &[&to.out])?;
        let mut from = answer.body();
        if from.flag()? { from.bytes().map(|name| Some(name.into())) } else { Ok(None) }
    }

    fn id(&self, who: Who, name: &[u8]) -> Result<Option<u32>> {
        let session = self.root.session()?;
        let mut to = Writer::new();
        to.byte(who_to(who)).bytes(name);
        let answer = session.ask_quick(ops::OWNER_ID, &[&to.out])?;
        let mut from = answer.body();
        if from.flag()? { from.small().map(Some) } else { Ok(None) }
    }
}

impl System for Remote {
    fn volume(&self) -> Result<Option<Volume>> {
        self.root.call(ops::VOLUME, &self.root.request())?.body().volume()
    }

    fn sync(&self, names: &[&Name]) -> Result<()> {
        let mut to = self.root.request();
        to.number(names.len() as u64);
        for name in names {
            to.name(name);
        }
        self.root.call(ops::SETTLE, &to).map(|_| ())
    }

    fn forget(&self, dir: &Dir) {
        let mut to = self.root.request();
        to.bytes(&dir.path());
        // Nobody waits for the answer; a lost connection has forgotten it anyway.
        let _ = self.root.client.standing().map(|session| session.ask(ops::FORGET, &[&to.out], 0));
    }

    fn remote_work(&self) -> Option<RemoteWork> {
        self.root.client.standing()?.work_since(self.before?)
    }
}
