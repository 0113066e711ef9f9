//! What each request does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::{Found, MetaSpec, Owners, Receipt, ServerSide, ServerSideOp, Spec, Store, Token};
use haul_core::user_names::LocalOwners;
use haul_net::tcp::Kernel;

use super::bundles::{get_bundle, put_bundle};
use super::confined::{proc_path, refuse_links};
use super::content::{digest, hash};
use super::files::Open;
use super::listing::list;
use super::names::Names;
use super::{Agent, Reply, Root};
use crate::agent::frame::Frame;
use crate::agent::greeting::boot;
use crate::agent::ops;
use crate::agent::wire::{Parser, Writer, printable, protocol_error};
use crate::agent::{RemoteInfo, RootOptions};

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl Agent {
    pub(super) fn perform(self: &Arc<Self>, frame: &Frame, reply: &Reply<'_>) -> Result<()> {
        if let Some(confined) = &self.options.confined {
            confined.allow(frame.kind)?;
        }
        let mut from = frame.body();
        let mut to = Writer::default();
        match frame.kind {
            ops::HELLO => self.hello(&mut from, &mut to)?,
            ops::LOOK => self.look(&mut from, &mut to)?,
            ops::MAKE_PATH => self.make_path(&mut from)?,
            ops::ROOT => self.open_root(&mut from, &mut to)?,
            ops::MADE_UP => self.open_made_up(&mut from, &mut to)?,
            ops::TALLY => _ = to.put(self.options.measuring.tally()),
            ops::CLOSE => {
                while !from.0.is_empty() {
                    self.files.close(from.get()?);
                }
            }
            ops::PULL => self.pull(&mut from, &mut to)?,
            ops::TLS_READER => self.listen_for_reader(&mut from, &mut to)?,
            ops::TLS_LINK_PEER => self.link_peer(&mut from)?,
            ops::READ => return self.read(&mut from, reply),
            ops::SIGNATURE => return self.signature(&mut from, reply),
            ops::REUSE => {
                let file = self.files.get(from.get()?)?;
                file.sink()?.extensions().fill.reuse(&from.stamp()?, from.get()?, from.range()?)?;
            }
            ops::WRITE => self.write(&mut from)?,
            ops::HOLE => {
                let file = self.files.get(from.get()?)?;
                file.sink()?.hole(from.range()?)?;
            }
            ops::STAMP => {
                let file = self.files.get(from.get()?)?;
                to.put(file.source()?.stamp()?);
            }
            ops::EXTENTS => {
                let file = self.files.get(from.get()?)?;
                to.put(file.source()?.data(from.range()?)?);
            }
            ops::XATTRS => {
                let file = self.files.get(from.get()?)?;
                to.put(file.source()?.xattrs(from.get()?)?);
            }
            ops::HASH => {
                let file = self.files.get(from.get()?)?;
                to.put(hash(file.source()?, from.range()?)?);
            }
            ops::COMMIT => {
                let file = self.files.get(from.get()?)?;
                let root = self.root(from.get()?)?;
                let entry = Names::of(&root).entry(&mut from)?;
                let receipt = |index| Receipt { index, tag: Box::default(), hash: None };
                let receipts: Vec<Receipt> = from.get::<Vec<u32>>()?.into_iter().map(receipt).collect();
                to.put(file.sink()?.commit(&entry, &receipts)?);
            }
            ops::ABORT => {
                let file = self.files.get(from.get()?)?;
                file.sink()?.abort()?;
            }
            ops::OPEN | ops::CREATE | ops::ATTACH | ops::REOPEN | ops::REREAD => self.open(frame.kind, &mut from, &mut to)?,
            ops::TLS_LISTEN => self.listen(&mut from, &mut to)?,
            ops::TLS_CONNECT => self.connect(&mut from, &mut to)?,
            ops::FACTS => {
                let done = !from.get::<bool>()? || self.data.tolerate_losses();
                let Kernel { sent, again, busy, limited } = self.data.kernel();
                to.put((done, sent, again, busy, limited));
            }
            ops::WORKED => _ = to.work(&self.account.work()),
            ops::OWNER_NAME => {
                to.put(LocalOwners.name(from.get()?, from.get()?)?);
            }
            ops::OWNER_ID => {
                to.put(LocalOwners.id(from.get()?, from.get()?)?);
            }
            ops::TAKE => {
                let root = self.root(from.get()?)?;
                let name = Names::of(&root).name(&mut from)?;
                let other = self.root(from.get()?)?;
                let existing = Entry::bare(Names::of(&other).name(&mut from)?, Kind::Unknown);
                let how = if from.get()? { ServerSideOp::Link } else { ServerSideOp::Rename };
                let (Some(to), Some(from)) = (&root.local, &other.local) else {
                    return Err(Error::new(ErrorKind::Unsupported, "rename"));
                };
                to.perform(&**from, &existing, &name, how)?;
            }
            ops::LIST => {
                let root = self.root(from.get()?)?;
                return list(&root, &mut from, reply);
            }
            _ => {
                let root = self.root(from.get()?)?;
                if !on_root(&root, frame.kind, &mut from, &mut to, reply)? {
                    return Ok(());
                }
            }
        }
        reply.done(&[&to.out]);
        Ok(())
    }

    /// Which version is spoken, and what this end is.
    fn hello(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (least, most, theirs): (u64, u64, &str) = from.get()?;
        if !(least..=most).contains(&ops::VERSION) {
            let e = Error::new(ErrorKind::Unsupported, "connect");
            let (ours, theirs) = (self.options.version, printable(theirs));
            return Err(e.because(format!("haul {theirs} here and haul {ours} on the remote host have no common protocol version")));
        }
        self.compress.store(from.get()?, std::sync::atomic::Ordering::Relaxed);
        let uname = rustix::system::uname();
        let info = RemoteInfo {
            haul: self.options.version.into(),
            home: self.home.as_os_str().as_bytes().into(),
            word: self.joining.word.clone().unwrap_or_default(),
            connection: self.connection.clone(),
            host: uname.nodename().to_string_lossy().into(),
            machine: uname.machine().to_string_lossy().into(),
            boot: boot(),
            fingerprint: self.identity.as_ref().map(|identity| identity.fingerprint),
        };
        to.put((ops::VERSION, info));
        Ok(())
    }

    /// Number, path, options; answers with the real path, what the store can do, and where it is.
    fn open_root(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (number, path, RootOptions { follow, keep_dirlinks, keep_modes }) = from.get()?;
        let path = self.absolute(path);
        let options = haul_local::Options {
            keep_dirlinks,
            follow,
            umask: 0,
            user_umask: self.options.umask,
            dir_umask: if keep_modes { 0 } else { self.options.umask },
            keep_acls: false,
            ..haul_local::Options::default()
        };
        let store = match &self.options.confined {
            Some(_) if follow => return Err(refuse_links()),
            Some(confined) => {
                let found = confined.find(&path, "open")?;
                haul_local::Local::open(&proc_path(&found), options).map_err(|e| e.at(&path))?
            }
            None => haul_local::Local::open(path_of(&path), options)?,
        };
        let real = store.place().root.clone();
        let real = self.options.confined.as_ref().map_or(Ok(real.clone()), |confined| confined.shown(&real))?;
        let identity = store.extensions().identity.unwrap_or_default();
        to.put((real, store.fs_name(), identity)).caps(store.caps()).work(&self.account.work());
        super::lock(&self.roots).insert(number, Arc::new(Root::new(store, self.options.confined.is_some())));
        Ok(())
    }

    /// A path as the user writes it, who may not know the home directory here.
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        crate::sftp::absolute(self.home.as_os_str().as_bytes(), path)
    }

    /// The kind of what is at a path, links followed.
    fn look(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let path = &self.absolute(from.get()?)[..];
        let found = match &self.options.confined {
            // The descriptor stands for what is there; nothing is followed from it.
            Some(confined) => confined
                .find(path, "stat")
                .and_then(|found| std::fs::metadata(proc_path(&found)).map_err(|e| Error::io(e, "stat").at(path))),
            None => std::fs::metadata(path_of(path)).map_err(|e| Error::io(e, "stat").at(path)),
        };
        match found {
            Ok(meta) => {
                use std::os::unix::fs::FileTypeExt;
                let kind = match meta.file_type() {
                    kind if kind.is_dir() => Kind::Dir,
                    kind if kind.is_file() => Kind::File,
                    kind if kind.is_fifo() => Kind::Fifo,
                    _ => Kind::Unknown,
                };
                to.put(Some(kind));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                to.put(None::<Kind>);
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn make_path(&self, from: &mut Parser<'_>) -> Result<()> {
        let (path, parents) = from.get()?;
        let path = &self.absolute(path)[..];
        let place: PathBuf = path_of(path).into();
        // The process has no mask: the user's is taken into account here, as a mask, since a default ACL takes its place.
        let umask = self.options.umask;
        haul_local::with_mask(umask, |is_set| {
            let mode = if is_set { 0o777 } else { 0o777 & !umask };
            if let Some(confined) = &self.options.confined {
                return confined.make_dir(path, parents, rustix::fs::Mode::from_raw_mode(mode));
            }
            let made = std::fs::DirBuilder::new().recursive(parents).mode(mode).create(&place);
            match made {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && place.is_dir() => Ok(()),
                made => made.map_err(|e| Error::io(e, "mkdir").at(path)),
            }
        })?
    }

    fn open(&self, kind: u8, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let number = from.get()?;
        if kind == ops::REREAD {
            let file = self.files.get(from.get()?)?;
            self.files.insert(number, Open::Source(file.sink()?.reread()?));
            return Ok(());
        }
        let root = self.root(from.get()?)?;
        let mut names = Names::of(&root);
        let open = match kind {
            ops::OPEN => {
                let entry = names.entry(from)?;
                Open::Source(root.store.open(&entry, root.may_follow(from.get()?)?)?)
            }
            ops::REOPEN => Open::Source(root.store.reopen(&names.name(from)?)?),
            kind => {
                let (name, entry) = (names.name(from)?, names.entry(from)?);
                let (keep, chunk, in_place, sync) = from.get()?;
                let spec = Spec { entry: &entry, keep, chunk, in_place, sync };
                let sink = match kind {
                    ops::CREATE => root.store.create(&name, &spec)?,
                    _ => root.store.extensions().unfinished.attach(&name, &Token(from.get()?), &spec)?,
                };
                to.put(&sink.token().0);
                Open::Sink(sink)
            }
        };
        self.files.insert(number, open);
        Ok(())
    }

    fn read(&self, from: &mut Parser<'_>, reply: &Reply<'_>) -> Result<()> {
        let (number, at) = (from.get()?, from.range()?);
        if at.end - at.start > ops::PIECE {
            return Err(protocol_error("a read that is too long"));
        }
        let file = self.files.get(number)?;
        let mut bytes = vec![0; (at.end - at.start) as usize];
        let read = file.source()?.read(at).and_then(|mut source| source.read_exact(&mut bytes).map_err(|e| Error::from_io(e, "read")));
        read?;
        reply.done(&[&bytes]);
        Ok(())
    }

    fn write(&self, from: &mut Parser<'_>) -> Result<()> {
        let (number, start): (_, u64) = from.get()?;
        let file = self.files.get(number)?;
        let mut bytes = from.0;
        let end = start.checked_add(bytes.len() as u64).ok_or_else(|| protocol_error("an impossible range"))?;
        file.sink()?.write(start..end, &mut bytes)
    }
}

/// Requests about names below one root. `false` if the answer has gone already.
fn on_root(root: &Root, kind: u8, from: &mut Parser<'_>, to: &mut Writer, reply: &Reply<'_>) -> Result<bool> {
    let store = &root.store;
    let mut names = Names::of(root);
    match kind {
        ops::STAT => {
            let name = names.name(from)?;
            let want = from.get()?;
            to.attributes(&store.stat(&name, want)?, want);
        }
        ops::STAT_MANY => {
            let dir = names.dir(from)?;
            let (want, follow, leaves): (_, _, Vec<&[u8]>) = from.get()?;
            for found in store.stat_many(&dir, &leaves, want, root.may_follow(follow)?) {
                match found {
                    Found::Entry(entry) => to.mark(0).attributes(&entry, want),
                    Found::Absent => to.mark(1),
                    Found::Failed(e) => to.mark(2).error(&e),
                };
            }
        }
        ops::ABANDON => {
            let name = names.name(from)?;
            match from.get::<&[u8]>()? {
                b"" => {
                    let dir = name.dir.child(&name.leaf);
                    let count = store.extensions().unfinished.abandon_all(&dir);
                    store.extensions().system.forget(&dir);
                    to.put(count?);
                }
                token => store.extensions().unfinished.abandon(&name, &Token(token.into()))?,
            }
        }
        ops::GET_BUNDLE => {
            let (keep, follow, past_caches) = from.get()?;
            let mut bundle = Bundle { keep, follow: root.may_follow(follow)?, past_caches, ..Bundle::default() };
            for entry in names.entries(from)? {
                bundle.push(entry);
            }
            let runs = get_bundle(&**store, &mut bundle, to);
            reply.agent.account.moved(&bundle.spent);
            let parts: Vec<&[u8]> = std::iter::once(&to.out[..]).chain(runs.into_iter().map(|run| &bundle.data[run])).collect();
            reply.done(&parts);
            return Ok(false);
        }
        ops::PUT_BUNDLE => reply.agent.account.moved(&put_bundle(&**store, &mut names, from, to)?),
        ops::MAKE_DIRS => {
            let count = from.count()?;
            let dirs: Vec<(Dir, u32)> = (0..count).map(|_| Ok((names.dir(from)?, from.get()?))).collect::<Result<_>>()?;
            let asked: Vec<(&Dir, u32)> = dirs.iter().map(|(dir, mode)| (dir, *mode)).collect();
            for made in store.make_dirs(&asked) {
                to.result(&made);
            }
        }
        ops::MAKE_NODE => {
            let (name, entry) = (names.name(from)?, names.entry(from)?);
            if root.confined && matches!(entry.kind, Kind::Block | Kind::Char) {
                return Err(Error::new(ErrorKind::Denied, "create").because("this login may not make device nodes"));
            }
            to.put(store.make_node(&name, &entry, from.get()?)?);
        }
        ops::HARD_LINK => {
            let (name, existing) = (names.name(from)?, names.name(from)?);
            store.make_hard_link(&name, &existing)?;
        }
        ops::SET_META => {
            let count = from.count()?;
            let asked: Vec<(Name, Entry, MetaMask)> =
                (0..count).map(|_| Ok((names.name(from)?, names.entry(from)?, from.get()?))).collect::<Result<_>>()?;
            let specs: Vec<MetaSpec<'_>> = asked.iter().map(|(name, entry, keep)| MetaSpec { name, entry, keep: *keep }).collect();
            for set in store.set_meta(&specs) {
                to.result(&set);
            }
        }
        ops::READ_XATTRS => {
            let want = from.get()?;
            let mut entries = names.entries(from)?;
            let read = store.read_xattrs(&mut entries, want);
            for (read, entry) in read.into_iter().zip(entries) {
                to.result(&read.map(|()| (entry.have, entry.xattrs.unwrap_or_default())));
            }
        }
        ops::REMOVE => {
            for removed in store.remove(&names.entries(from)?) {
                to.result(&removed);
            }
        }
        ops::RENAME => {
            let (old, new) = (names.name(from)?, names.name(from)?);
            store.rename(&old, &new, from.get()?)?;
        }
        ops::DIGEST => {
            let algorithm: Algorithm = from.get()?;
            let entry = names.entry(from)?;
            let source = store.open(&entry, false)?;
            let size = source.stamp()?.size;
            let mut hasher = algorithm.begin();
            digest(&*source, 0..size, &mut hasher)?;
            to.put(hasher.finish());
        }
        ops::SETTLE => {
            let named: Vec<Name> = (0..from.count()?).map(|_| names.name(from)).collect::<Result<_>>()?;
            store.extensions().system.sync(&named.iter().collect::<Vec<_>>())?;
        }
        ops::VOLUME => {
            to.put(store.extensions().system.volume()?);
        }
        ops::FORGET => root.forget(from.get()?),
        _ => return Err(protocol_error("an unknown request")),
    }
    Ok(true)
}
