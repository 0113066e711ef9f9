//! A directory of the remote host as a store: each call is one request, which the remote haul does on its own file system.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::{Caps, FarWork, Flow, Found, Landed, MetaSpec, Place, Sink, Source, Space, Spec, Store, Token, Volume, Who, Within};

use super::direct::addresses;
use super::file::{RemoteSink, RemoteSource};
use super::link::{Frame, Ticket, kind, lock};
use super::ops;
use super::seal::Secret;
use super::session::{Client, Connect, Session, Wishes};
use super::wire::{Parser, Writer, algorithm_to, kind_from, nonsense, who_to};
use crate::staging::staging_leaf;

/// A host reached by its haul, before a directory of it is opened.
#[derive(Debug)]
pub struct Host {
    pub client: Arc<Client>,
    endpoint: String,
    home: Vec<u8>,
    early: Mutex<Early>,
}

/// How a directory is to be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootOptions {
    /// `-L`, for a source only: directories are reached through links, wherever they lead.
    pub follow: bool,
    /// `-K`: a symlink to a directory counts as that directory if it leads nowhere out of the root.
    pub keep_dirlinks: bool,
    /// Modes of new directories come from the source; else from the far user's mask.
    pub keep_modes: bool,
}

/// A directory of a host.
#[derive(Debug)]
pub struct Remote {
    pub(super) root: Arc<Root>,
    caps: Caps,
    place: Place,
    fs_name: String,
    /// What the far side had done when this was opened, and in which session; `None` from one that does not say.
    before: Option<(u64, FarWork)>,
}

/// What opens the directory again after a lost connection.
#[derive(Debug)]
pub(super) struct Root {
    pub client: Arc<Client>,
    pub number: u64,
    path: Vec<u8>,
    /// The request by which it was opened: its kind and what it carries.
    pub(super) opening: (u8, Vec<u8>),
    /// Device and inode: what is opened again must be the same directory.
    identity: (u64, u64),
}

/// What was asked with the greeting and not used yet.
#[derive(Debug, Default)]
struct Early {
    looks: HashMap<Vec<u8>, Option<Kind>>,
    roots: HashMap<Vec<u8>, (u64, Frame)>,
}

/// Options with which a root is opened before anybody has said how: as most are.
const USUAL: RootOptions = RootOptions { follow: false, keep_dirlinks: false, keep_modes: true };

impl Host {
    /// `endpoint` is the host as the user reaches it, without credentials. `path`, as the user wrote it, is what will most
    /// likely be asked about first: it and the directory above it are looked at and opened in the first round trip.
    pub fn connect(connect: Box<Connect>, wishes: Wishes, endpoint: String, path: &[u8]) -> Result<Host> {
        let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path);
        let above = match path.iter().rposition(|byte| *byte == b'/') {
            Some(0) => &b"/"[..],
            Some(at) => &path[..at],
            None => b"~",
        };
        let mut asked = Vec::new();
        for (number, path) in [(1, path), (2, above)] {
            let mut to = Writer::new();
            to.bytes(path);
            asked.push((ops::LOOK, to.out));
            asked.push((ops::ROOT, root_request(number, path, USUAL)));
        }
        let (client, answers) = Client::connect(connect, wishes, &asked)?;
        let client = Arc::new(client);
        let session = client.session()?;
        let home = session.far.home.clone();
        let mut early = Early::default();
        let mut answers = answers.into_iter();
        for (number, path) in [(1, path), (2, above)] {
            let path = crate::sftp::absolute(&home, path);
            if let Some(Ok(answer)) = answers.next() {
                early.looks.insert(path.clone(), looked(&answer)?);
            }
            if let Some(Ok(answer)) = answers.next() {
                early.roots.insert(path, (number, answer));
            }
        }
        Ok(Host { client, endpoint, home, early: Mutex::new(early) })
    }

    /// A path as the user writes it: relative to the home directory, which `~` is too.
    pub fn absolute(&self, path: &[u8]) -> Vec<u8> {
        crate::sftp::absolute(&self.home, path)
    }

    /// What stands at an absolute path, links followed; `None` if nothing does.
    pub fn look(&self, path: &[u8]) -> Result<Option<Kind>> {
        if let Some(kind) = lock(&self.early).looks.remove(path) {
            return Ok(kind);
        }
        let mut to = Writer::new();
        to.bytes(path);
        looked(&self.client.session()?.ask_quick(ops::LOOK, &[&to.out])?)
    }

    /// Makes a directory at an absolute path, and with `parents` those above it.
    pub fn make_dir(&self, path: &[u8], parents: bool) -> Result<()> {
        *lock(&self.early) = Early::default();
        let mut to = Writer::new();
        to.bytes(path).flag(parents);
        self.client.session()?.ask(ops::MAKE_PATH, &[&to.out], 0)?.wait().map(|_| ())
    }

    /// The directory at an absolute path as a store. `NotFound`, `Denied`, or `Usage` where it is none.
    pub fn open(&self, path: &[u8], options: RootOptions) -> Result<Remote> {
        let session = self.client.session()?;
        let early = if options == USUAL { lock(&self.early).roots.remove(path) } else { None };
        let (number, answer) = match early {
            Some(opened) => opened,
            None => {
                let number = self.client.number();
                (number, session.ask_quick(ops::ROOT, &[&root_request(number, path, options)])?)
            }
        };
        self.opened(&session, number, &answer, |real| (ops::ROOT, root_request(number, real, options)))
    }

    /// What a root is by the answer to its opening; `again` makes the request that opens it after a lost connection, by its
    /// real path.
    pub(super) fn opened(
        &self,
        session: &Session,
        number: u64,
        answer: &Frame,
        again: impl FnOnce(&[u8]) -> (u8, Vec<u8>),
    ) -> Result<Remote> {
        let mut from = answer.body();
        let (real, fs_name, identity) = (from.bytes()?.to_vec(), from.words()?, (from.number()?, from.number()?));
        let caps = from.caps()?;
        let before = if from.0.is_empty() { None } else { Some((session.id, worked(&mut from)?)) };
        lock(&session.roots).insert(number, Arc::new(Mutex::new(Some(identity))));
        let place =
            Place { scheme: "ssh", endpoint: self.endpoint.clone(), account: String::new(), volume: String::new(), root: real.clone() };
        let opening = again(&real);
        let root = Arc::new(Root { client: self.client.clone(), number, path: real, opening, identity });
        Ok(Remote { root, caps, place, fs_name, before })
    }
}

impl Host {
    /// Whether this host can read from the other one by itself, so that what goes from there to here passes nobody else: it
    /// connects to it once, for as long as both conversations last.
    pub fn befriend(&self, other: &Host) -> Result<()> {
        let (here, there) = (self.client.session()?, other.client.session()?);
        if here.id == there.id {
            return Ok(());
        }
        let (_near, address) = addresses(&there.far.connection).ok_or_else(|| Error::new(ErrorKind::Unsupported, "connect"))?;
        let secret = Secret::random()?;
        let mut to = Writer::new();
        to.bytes(secret.as_bytes());
        let answer = there.ask(ops::READER, &[&to.out], 0).and_then(Ticket::wait);
        to.out.fill(0);
        let port = answer?.body().number()?;
        let mut to = Writer::new();
        to.number(there.id).bytes(secret.as_bytes()).bytes(address.to_string().as_bytes()).number(port);
        let answer = here.ask(ops::BEFRIEND, &[&to.out], 0).and_then(Ticket::wait);
        to.out.fill(0);
        answer?;
        lock(&here.friends).insert(there.id);
        Ok(())
    }
}

/// As the far side's account writes it.
fn worked(from: &mut Parser<'_>) -> Result<FarWork> {
    let (reading, writing, metadata, cpu) = (from.duration()?, from.duration()?, from.duration()?, from.duration()?);
    let processors = u32::try_from(from.number()?).unwrap_or(u32::MAX);
    Ok(FarWork { reading, writing, metadata, cpu, processors, round_trip: None })
}

fn looked(answer: &Frame) -> Result<Option<Kind>> {
    let mut from = answer.body();
    if from.flag()? { kind_from(from.byte()?).map(Some) } else { Ok(None) }
}

fn root_request(number: u64, path: &[u8], options: RootOptions) -> Vec<u8> {
    let mut to = Writer::new();
    to.number(number).bytes(path).flag(options.follow).flag(options.keep_dirlinks).flag(options.keep_modes);
    to.out
}

impl Root {
    /// The session, in which this root is open.
    pub fn session(&self) -> Result<Arc<Session>> {
        let session = self.client.session()?;
        let opened = lock(&session.roots).entry(self.number).or_default().clone();
        let mut opened = lock(&opened);
        if opened.is_none() {
            let answer = session.ask_quick(self.opening.0, &[&self.opening.1])?;
            let mut from = answer.body();
            let (_real, _name, identity) = (from.bytes()?, from.words()?, (from.number()?, from.number()?));
            if identity != self.identity {
                let e = Error::new(ErrorKind::Broken, "open").at(&self.path);
                return Err(e.because("the directory was replaced while the connection was lost"));
            }
            *opened = Some(identity);
        }
        drop(opened);
        Ok(session)
    }

    /// A request about this root: its number stands in front.
    pub fn request(&self) -> Writer {
        let mut to = Writer::new();
        to.number(self.number);
        to
    }

    /// Asks in the words of `to`, with what may stand behind them.
    pub fn ask(&self, kind: u8, to: &Writer, behind: &[&[u8]], weight: u64) -> Result<Ticket> {
        to.check()?;
        let parts: Vec<&[u8]> = std::iter::once(&to.out[..]).chain(behind.iter().copied()).collect();
        self.session()?.ask(kind, &parts, weight)
    }

    fn call(&self, kind: u8, to: &Writer) -> Result<Frame> {
        self.ask(kind, to, &[], 0)?.wait()
    }

    /// A request for many things; one answer each.
    fn each<T>(&self, kind: u8, count: usize, to: &Writer, mut value: impl FnMut(usize, &mut Parser<'_>) -> Result<T>) -> Vec<Result<T>> {
        let answer = match self.call(kind, to) {
            Ok(answer) => answer,
            Err(e) => return (0..count).map(|_| Err(e.again())).collect(),
        };
        let mut from = answer.body();
        (0..count).map(|i| from.result(|from| value(i, from)).unwrap_or_else(Err)).collect()
    }
}

/// Bytes of attributes that one request carries, about: a frame has an end.
const REQUEST: usize = 2 << 20;
/// Things whose extended attributes one answer can carry: each may have 64 KiB of them.
const WITH_XATTRS: usize = 32;

/// What an entry takes in a frame, about.
fn weight_of(entry: &Entry) -> usize {
    let xattrs = entry.xattrs.iter().flat_map(|xattrs| xattrs.iter()).map(|(name, value)| name.len() + value.len() + 8).sum::<usize>();
    100 + entry.name.leaf.len() + entry.target.as_ref().map_or(0, |target| target.len()) + xattrs
}

/// Cuts things into lots that fit into one request each.
fn lots<T>(things: &[T], weight: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut lots = Vec::new();
    let (mut start, mut sum) = (0, 0);
    for (i, thing) in things.iter().enumerate() {
        let more = weight(thing);
        if i > start && sum + more > REQUEST {
            lots.push(&things[start..i]);
            (start, sum) = (i, 0);
        }
        sum += more;
    }
    if start < things.len() {
        lots.push(&things[start..]);
    }
    lots
}

/// A leaf that would leave its directory is never sent.
fn checked(name: &Name, op: &'static str) -> Result<()> {
    check_leaf(&name.leaf).map_err(|reason| Error::new(ErrorKind::BadName, op).on(name).because(reason))
}

impl Remote {
    /// The type of the file system under the root, as the far side names it.
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

    /// On its machine.
    fn identity(&self) -> Option<(u64, u64)> {
        Some(self.root.identity)
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        let stat = || {
            let mut to = self.root.request();
            to.name(name).mask(want);
            self.root.call(ops::STAT, &to)?.body().attributes(name.clone())
        };
        stat().map_err(|e| e.on(name))
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        let most = if want.is_empty() { 1000 } else { WITH_XATTRS };
        let asked: Vec<(&[&[u8]], Result<Ticket>)> = leaves
            .chunks(most)
            .map(|lot| {
                let mut to = self.root.request();
                to.dir(dir).mask(want).flag(follow).number(lot.len() as u64);
                for leaf in lot {
                    to.bytes(leaf);
                }
                (lot, self.root.ask(ops::STAT_MANY, &to, &[], 0))
            })
            .collect();
        let mut found = Vec::with_capacity(leaves.len());
        for (lot, ticket) in asked {
            match ticket.and_then(Ticket::wait) {
                Ok(answer) => {
                    let mut from = answer.body();
                    found.extend(lot.iter().map(|leaf| self.found(&mut from, Name::new(dir, leaf)).unwrap_or_else(Found::Failed)));
                }
                Err(e) => found.extend(lot.iter().map(|_| Found::Failed(e.again()))),
            }
        }
        found
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let above = Name::of(dir);
        let mut list = || {
            let mut to = self.root.request();
            to.dir(dir).mask(MetaMask::NONE);
            let ticket = self.root.ask(ops::LIST, &to, &[], 0)?;
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
                        // What comes from elsewhere is no name until it has been looked at.
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

    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        RemoteSink::attach(&self.root, name, token, spec).map(|sink| Box::new(sink) as _).map_err(|e| e.on(name))
    }

    fn outlines(&self) -> bool {
        true
    }

    fn staging(&self, entry: &Entry) -> Option<Token> {
        Some(Token(staging_leaf(&entry.name.leaf, entry.stamp()).into()))
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        let mut to = self.root.request();
        to.name(name).bytes(super::file::token_there(token));
        self.root.call(ops::ABANDON, &to).map(|_| ()).map_err(|e| e.on(name))
    }

    /// No token stands for all of them. A remote haul that does not know that refuses.
    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        let name = Name::of(dir);
        let mut to = self.root.request();
        to.name(&name).bytes(b"");
        let answer = self.root.call(ops::ABANDON, &to).map_err(|e| e.on(&name))?;
        answer.body().number()
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        let listed: Vec<usize> =
            bundle.items.iter().enumerate().filter(|(_, item)| matches!(item.outcome, Outcome::Listed)).map(|(i, _)| i).collect();
        if let Err(e) = self.fill(bundle, &listed) {
            for i in listed {
                let item = &mut bundle.items[i];
                if matches!(item.outcome, Outcome::Listed) {
                    item.outcome = Outcome::Failed(e.again().on(&item.entry.name));
                }
            }
        }
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        let read: Vec<usize> =
            bundle.items.iter().enumerate().filter(|(_, item)| matches!(item.outcome, Outcome::Read)).map(|(i, _)| i).collect();
        let lots = lots(&read, |i| weight_of(&bundle.items[*i].entry)).into_iter().map(<[usize]>::to_vec).collect::<Vec<_>>();
        for read in lots {
            let Err(e) = self.put(bundle, &read) else { continue };
            for i in read {
                let item = &mut bundle.items[i];
                if matches!(item.outcome, Outcome::Read) {
                    item.outcome = Outcome::Failed(e.again().on(&item.entry.name));
                }
            }
        }
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

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<Landed> {
        let make = || {
            checked(name, "create")?;
            let mut to = self.root.request();
            to.name(name).entry(entry).mask(keep);
            self.root.call(ops::MAKE_NODE, &to)?.body().landed()
        };
        make().map_err(|e| e.on(name))
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        let mut to = self.root.request();
        to.name(name).name(existing);
        self.root.call(ops::HARD_LINK, &to).map(|_| ()).map_err(|e| e.on(name))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<Landed>> {
        let mut set = Vec::with_capacity(specs.len());
        for lot in lots(specs, |spec| weight_of(spec.entry)) {
            let mut to = self.root.request();
            to.number(lot.len() as u64);
            for spec in lot {
                to.name(spec.name).entry(spec.entry).mask(spec.keep);
            }
            set.extend(self.root.each(ops::SET_META, lot.len(), &to, |_, from| from.landed()));
        }
        set.into_iter().zip(specs).map(|(set, spec)| set.map_err(|e| e.on(spec.name))).collect()
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        let mut read = Vec::with_capacity(entries.len());
        for lot in entries.chunks(WITH_XATTRS) {
            let mut to = self.root.request();
            to.mask(want).number(lot.len() as u64);
            for entry in lot {
                to.listed(entry);
            }
            read.extend(self.root.each(ops::READ_XATTRS, lot.len(), &to, |_, from| Ok((from.mask()?, from.xattrs()?))));
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
        let mut request = self.root.request();
        request.name(from).name(to).flag(replace);
        self.root.call(ops::RENAME, &request).map(|_| ()).map_err(|e| e.on(from))
    }

    fn take(&self, from: &dyn Store, entry: &Entry, to: &Name, how: Within<'_>) -> Result<Option<Landed>> {
        match ((from as &dyn Any).downcast_ref::<Remote>(), how) {
            (Some(from), Within::Link) => self.link_from(from, &entry.name, to).map(|()| Some(Landed::default())),
            _ => Ok(None),
        }
    }

    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let digest = || {
            let mut to = self.root.request();
            to.byte(algorithm_to(algorithm)).listed(entry);
            let answer = self.root.call(ops::DIGEST, &to)?;
            let digest = answer.body().bytes()?.to_vec();
            if digest.len() == algorithm.width() { Ok(Some(digest)) } else { Err(nonsense("a hash of another width")) }
        };
        digest().map_err(|e| e.on(&entry.name))
    }

    fn settle(&self, names: &[&Name]) -> Result<()> {
        let mut to = self.root.request();
        to.number(names.len() as u64);
        for name in names {
            to.name(name);
        }
        self.root.call(ops::SETTLE, &to).map(|_| ())
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        RemoteSource::reopen(&self.root, name).map(|file| Box::new(file) as _).map_err(|e| e.on(name))
    }

    fn space(&self) -> Result<Option<Space>> {
        self.root.call(ops::SPACE, &self.root.request())?.body().space()
    }

    fn volume(&self) -> Result<Option<Volume>> {
        let session = self.root.session()?;
        if session.far.version < ops::TELLS_VOLUMES {
            let e = Error::new(ErrorKind::Unsupported, "stat file system");
            let e = e.because(format!("haul {} on the remote host does not report its size", session.far.haul));
            return Err(e.hint("--no-agent asks the SFTP server, --install-agent installs this haul"));
        }
        self.root.call(ops::VOLUME, &self.root.request())?.body().volume()
    }

    fn forget(&self, dir: &Dir) {
        let mut to = self.root.request();
        to.bytes(&dir.path());
        // Its answer is nobody's; a lost connection has forgotten it anyway.
        let _asked = self.root.client.standing().map(|session| session.ask(ops::FORGET, &[&to.out], 0));
    }

    fn far_work(&self) -> Option<FarWork> {
        let (id, before) = self.before?;
        let session = self.root.client.standing()?;
        let trip = session.round_trip().unwrap_or_default();
        let most = (10 * trip).clamp(Duration::from_secs(1), Duration::from_secs(5));
        let answer = session.ask_if_quick(ops::WORKED, &[], most)?;
        let now = worked(&mut answer.body()).ok()?;
        // A far side that was started again has counted from the start.
        let before = if id == session.id { before } else { FarWork::default() };
        Some(FarWork {
            reading: now.reading.saturating_sub(before.reading),
            writing: now.writing.saturating_sub(before.writing),
            metadata: now.metadata.saturating_sub(before.metadata),
            cpu: now.cpu.saturating_sub(before.cpu),
            processors: now.processors,
            round_trip: session.round_trip(),
        })
    }

    fn owner_name(&self, who: Who, id: u32) -> Result<Option<Box<[u8]>>> {
        let session = self.names_owners()?;
        let mut to = Writer::new();
        to.byte(who_to(who)).number(id.into());
        let answer = session.ask_quick(ops::OWNER_NAME, &[&to.out])?;
        let mut from = answer.body();
        if from.flag()? { from.bytes().map(|name| Some(name.into())) } else { Ok(None) }
    }

    fn owner_id(&self, who: Who, name: &[u8]) -> Result<Option<u32>> {
        let session = self.names_owners()?;
        let mut to = Writer::new();
        to.byte(who_to(who)).bytes(name);
        let answer = session.ask_quick(ops::OWNER_ID, &[&to.out])?;
        let mut from = answer.body();
        if from.flag()? { from.small().map(Some) } else { Ok(None) }
    }
}

impl Remote {
    /// The session, if the remote haul is new enough to tell names of owners.
    fn names_owners(&self) -> Result<Arc<Session>> {
        let session = self.root.session()?;
        if session.far.version >= ops::NAMES_OWNERS {
            return Ok(session);
        }
        let e = Error::new(ErrorKind::Unsupported, "look up an owner");
        Err(e.because(format!("haul {} on the remote host does not report owner names", session.far.haul)))
    }

    fn fill(&self, bundle: &mut Bundle, listed: &[usize]) -> Result<()> {
        let mut to = self.root.request();
        to.mask(bundle.keep).flag(bundle.follow).number(listed.len() as u64);
        let mut weight = 0;
        for i in listed {
            let entry = &bundle.items[*i].entry;
            to.listed(entry);
            weight += entry.size.min(1 << 20) + 200;
        }
        let answer = self.root.ask(ops::GET_BUNDLE, &to, &[], weight)?.wait()?;
        let mut from = answer.body();
        bundle.spent.reading += from.duration()?;
        bundle.spent.writing += from.duration()?;
        bundle.spent.metadata += from.duration()?;
        let mut lengths = Vec::with_capacity(listed.len());
        let mut outcomes = Vec::with_capacity(listed.len());
        for i in listed {
            let name = bundle.items[*i].entry.name.clone();
            let (entry, outcome, length) = match from.byte()? {
                0 => {
                    let entry = from.attributes(name)?;
                    (Some(entry), Some(Outcome::Read), usize::try_from(from.number()?).unwrap_or(usize::MAX))
                }
                1 => (Some(from.attributes(name)?), None, 0),
                _ => (None, Some(Outcome::Failed(from.error()?.on(&name))), 0),
            };
            lengths.push(length);
            outcomes.push((entry, outcome));
        }
        let sum = lengths.iter().try_fold(0_usize, |sum, length| sum.checked_add(*length));
        if sum != Some(from.0.len()) {
            return Err(nonsense("a bundle that is not as long as its files"));
        }
        let mut at = bundle.data.len();
        bundle.data.extend_from_slice(from.0);
        for ((i, length), (entry, outcome)) in listed.iter().zip(lengths).zip(outcomes) {
            let item = &mut bundle.items[*i];
            if let Some(entry) = entry {
                item.entry = entry;
            }
            if let Some(outcome) = outcome {
                item.outcome = outcome;
            }
            item.at = at..at + length;
            at += length;
        }
        Ok(())
    }

    fn put(&self, bundle: &mut Bundle, read: &[usize]) -> Result<()> {
        let mut to = self.root.request();
        to.mask(bundle.keep).flag(bundle.direct).flag(bundle.sync).number(read.len() as u64);
        for i in read {
            let item = &bundle.items[*i];
            to.entry(&item.entry).number((item.at.end - item.at.start) as u64);
        }
        // What stands one behind the other in the buffer goes out as one part.
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for i in read {
            let at = &bundle.items[*i].at;
            match runs.last_mut() {
                Some(last) if last.end == at.start => last.end = at.end,
                _ => runs.push(at.clone()),
            }
        }
        let parts: Vec<&[u8]> = runs.into_iter().map(|run| &bundle.data[run]).collect();
        let weight = parts.iter().map(|part| part.len() as u64).sum();
        let answer = self.root.ask(ops::PUT_BUNDLE, &to, &parts, weight)?.wait()?;
        let mut from = answer.body();
        let spent = (from.duration()?, from.duration()?, from.duration()?);
        bundle.spent.reading += spent.0;
        bundle.spent.writing += spent.1;
        bundle.spent.metadata += spent.2;
        for i in read {
            let item = &mut bundle.items[*i];
            item.outcome = match from.byte()? {
                0 => Outcome::Landed(from.landed()?),
                _ => Outcome::Failed(from.error()?.on(&item.entry.name)),
            };
        }
        Ok(())
    }
}
