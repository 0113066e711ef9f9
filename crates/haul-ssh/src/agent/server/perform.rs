//! What each request does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Found, MetaSpec, Owners, Store, Token};
use haul_core::user_names::LocalOwners;

use super::bundles::{get_bundle, put_bundle};
use super::confined::{proc_path, refuse_links};
use super::content::{digest, hash};
use super::files::Open;
use super::listing::list;
use super::names::Names;
use super::{Agent, Reply, Root};
use crate::agent::frame::Frame;
use crate::agent::ops;
use crate::agent::wire::{Parser, Writer, algorithm_from, kind_to, protocol_error, who_from};

/// The boot of this host: what is only in memory does not outlive it.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string()).unwrap_or_default()
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl Agent {
    pub(super) fn perform(self: &Arc<Self>, frame: &Frame, reply: &Reply<'_>) -> Result<()> {
        if let Some(confined) = &self.options.confined {
            confined.allow(frame.kind)?;
        }
        let mut from = frame.body();
        let mut to = Writer::new();
        match frame.kind {
            ops::HELLO => self.hello(&mut from, &mut to)?,
            ops::LOOK => self.look(&mut from, &mut to)?,
            ops::MAKE_PATH => self.make_path(&mut from)?,
            ops::ROOT => self.open_root(&mut from, &mut to)?,
            ops::MADE_UP => self.open_made_up(&mut from, &mut to)?,
            ops::TALLY => self.tally(&mut to),
            ops::CLOSE => {
                while !from.0.is_empty() {
                    self.files.close(from.number()?);
                }
            }
            ops::PULL => self.pull(&mut from, &mut to)?,
            ops::TLS_READER => self.listen_for_reader(&mut from, &mut to)?,
            ops::TLS_LINK_PEER => self.link_peer(&mut from)?,
            ops::READ => return self.read(&mut from, reply),
            ops::SIGNATURE => return self.signature(&mut from, reply),
            ops::REUSE => {
                let file = self.files.get(from.number()?)?;
                file.sink()?.extensions().fill.reuse(&from.stamp()?, from.number()?, from.range()?)?;
            }
            ops::WRITE => self.write(&mut from)?,
            ops::HOLE => {
                let file = self.files.get(from.number()?)?;
                file.sink()?.hole(from.range()?)?;
            }
            ops::STAMP => {
                let file = self.files.get(from.number()?)?;
                to.stamp(&file.source()?.stamp()?);
            }
            ops::EXTENTS => {
                let file = self.files.get(from.number()?)?;
                let parts = file.source()?.data(from.range()?)?;
                to.number(parts.len() as u64);
                for part in parts {
                    to.range(&part);
                }
            }
            ops::XATTRS => {
                let file = self.files.get(from.number()?)?;
                to.xattrs(&file.source()?.xattrs(from.mask()?)?);
            }
            ops::HASH => {
                let file = self.files.get(from.number()?)?;
                let hash = hash(file.source()?, from.range()?)?;
                to.bytes(&hash.to_be_bytes());
            }
            ops::COMMIT => {
                let file = self.files.get(from.number()?)?;
                let root = self.root(from.number()?)?;
                let entry = Names::of(&root).entry(&mut from)?;
                to.landed(&file.sink()?.commit(&entry, &from.receipts()?)?);
            }
            ops::ABORT => {
                let file = self.files.get(from.number()?)?;
                file.sink()?.abort()?;
            }
            ops::OPEN | ops::CREATE | ops::ATTACH | ops::REOPEN | ops::REREAD => self.open(frame.kind, &mut from, &mut to)?,
            ops::TLS_LISTEN => self.listen(&mut from, &mut to)?,
            ops::TLS_CONNECT => self.connect(&mut from, &mut to)?,
            ops::FACTS => {
                let done = !from.flag()? || self.data.tolerate_losses();
                let kernel = self.data.kernel();
                to.flag(done).number(kernel.sent).number(kernel.again).number(kernel.busy).number(kernel.limited);
            }
            ops::WORKED => self.account.write(&mut to),
            ops::OWNER_NAME => {
                let name = LocalOwners.name(who_from(from.byte()?)?, from.small()?)?;
                to.flag(name.is_some()).bytes(&name.unwrap_or_default());
            }
            ops::OWNER_ID => {
                let id = LocalOwners.id(who_from(from.byte()?)?, from.bytes()?)?;
                to.flag(id.is_some()).number(id.unwrap_or_default().into());
            }
            ops::LINK_FROM => {
                let root = self.root(from.number()?)?;
                let name = Names::of(&root).name(&mut from)?;
                let other = self.root(from.number()?)?;
                let existing = Names::of(&other).name(&mut from)?;
                let (Some(to), Some(from)) = (&root.local, &other.local) else {
                    return Err(Error::new(ErrorKind::Unsupported, "link"));
                };
                to.link_from(from, &existing, &name)?;
            }
            ops::LIST => {
                let root = self.root(from.number()?)?;
                return list(&root, &mut from, reply);
            }
            _ => {
                let root = self.root(from.number()?)?;
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
        let (least, most, theirs) = (from.number()?, from.number()?, from.words()?);
        let version = most.min(ops::VERSIONS.1);
        if version < least || version < ops::VERSIONS.0 {
            let e = Error::new(ErrorKind::Unsupported, "connect");
            let ours = self.options.version;
            return Err(e.because(format!("haul {theirs} here and haul {ours} on the remote host have no common protocol version")));
        }
        self.compress.store(from.flag()?, std::sync::atomic::Ordering::Relaxed);
        to.number(version).bytes(self.options.version.as_bytes()).bytes(self.home.as_os_str().as_bytes());
        to.bytes(self.joining.word.as_deref().unwrap_or_default().as_bytes());
        to.bytes(self.connection.as_bytes());
        let uname = rustix::system::uname();
        to.bytes(uname.nodename().to_bytes()).bytes(uname.machine().to_bytes());
        to.bytes(boot().as_bytes());
        to.bytes(self.identity.as_ref().map_or(&[], |identity| &identity.fingerprint.0[..]));
        Ok(())
    }

    /// Number, path, options; answers with the real path, what the store can do, and where it is.
    fn open_root(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (number, path) = (from.number()?, self.absolute(from.bytes()?));
        let (follow, keep_dirlinks, keep_modes) = (from.flag()?, from.flag()?, from.flag()?);
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
        let (dev, ino) = store.extensions().identity.unwrap_or_default();
        to.bytes(&real).bytes(store.fs_name().as_bytes()).number(dev).number(ino).caps(store.caps());
        // Added by a later version: how long it has worked so far, and that it can be asked.
        self.account.write(to);
        super::lock(&self.roots).insert(number, Arc::new(Root::new(store, self.options.confined.is_some())));
        Ok(())
    }

    /// A path as the user writes it, who may not know the home directory here.
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        crate::sftp::absolute(self.home.as_os_str().as_bytes(), path)
    }

    /// The kind of what is at a path, links followed.
    fn look(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let path = &self.absolute(from.bytes()?)[..];
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
                to.byte(1).byte(kind_to(kind));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                to.byte(0);
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn make_path(&self, from: &mut Parser<'_>) -> Result<()> {
        let (path, parents) = (&self.absolute(from.bytes()?)[..], from.flag()?);
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
        let number = from.number()?;
        if kind == ops::REREAD {
            let file = self.files.get(from.number()?)?;
            self.files.insert(number, Open::Source(file.sink()?.reread()?));
            return Ok(());
        }
        let root = self.root(from.number()?)?;
        let mut names = Names::of(&root);
        let open = match kind {
            ops::OPEN => {
                let entry = names.entry(from)?;
                Open::Source(root.store.open(&entry, root.may_follow(from.flag()?)?)?)
            }
            ops::REOPEN => Open::Source(root.store.reopen(&names.name(from)?)?),
            kind => {
                let name = names.name(from)?;
                let spec = names.spec(from)?;
                let sink = match kind {
                    ops::CREATE => root.store.create(&name, &spec.get())?,
                    _ => root.store.extensions().unfinished.attach(&name, &Token(from.bytes()?.into()), &spec.get())?,
                };
                to.bytes(&sink.token().0);
                Open::Sink(sink)
            }
        };
        self.files.insert(number, open);
        Ok(())
    }

    fn read(&self, from: &mut Parser<'_>, reply: &Reply<'_>) -> Result<()> {
        let (number, at) = (from.number()?, from.range()?);
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
        let (number, start) = (from.number()?, from.number()?);
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
            let want = from.mask()?;
            to.attributes_of(&store.stat(&name, want)?, want);
        }
        ops::STAT_MANY => {
            let dir = names.dir(from)?;
            let (want, follow) = (from.mask()?, root.may_follow(from.flag()?)?);
            let leaves: Vec<&[u8]> = (0..from.count()?).map(|_| from.bytes()).collect::<Result<_>>()?;
            for found in store.stat_many(&dir, &leaves, want, follow) {
                match found {
                    Found::Entry(entry) => to.byte(0).attributes_of(&entry, want),
                    Found::Absent => to.byte(1),
                    Found::Failed(e) => to.byte(2).error(&e),
                };
            }
        }
        ops::ABANDON => {
            let name = names.name(from)?;
            match from.bytes()? {
                b"" => {
                    let dir = name.dir.child(&name.leaf);
                    let count = store.extensions().unfinished.abandon_all(&dir);
                    store.extensions().system.forget(&dir);
                    to.number(count?);
                }
                token => store.extensions().unfinished.abandon(&name, &Token(token.into()))?,
            }
        }
        ops::GET_BUNDLE => {
            let (keep, how) = (from.mask()?, from.byte()?);
            let (follow, past_caches) = (root.may_follow(how & 1 != 0)?, how & 2 != 0);
            let mut bundle = Bundle { keep, follow, past_caches, ..Bundle::default() };
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
            let dirs: Vec<(Dir, u32)> = (0..count).map(|_| Ok((names.dir(from)?, from.small()?))).collect::<Result<_>>()?;
            let asked: Vec<(&Dir, u32)> = dirs.iter().map(|(dir, mode)| (dir, *mode)).collect();
            for made in store.make_dirs(&asked) {
                to.result(&made, |to, made| {
                    to.flag(*made);
                });
            }
        }
        ops::MAKE_NODE => {
            let (name, entry) = (names.name(from)?, names.entry(from)?);
            if root.confined && matches!(entry.kind, Kind::Block | Kind::Char) {
                return Err(Error::new(ErrorKind::Denied, "create").because("this login may not make device nodes"));
            }
            to.landed(&store.make_node(&name, &entry, from.mask()?)?);
        }
        ops::HARD_LINK => {
            let (name, existing) = (names.name(from)?, names.name(from)?);
            store.make_hard_link(&name, &existing)?;
        }
        ops::SET_META => {
            let count = from.count()?;
            let asked: Vec<(Name, Entry, MetaMask)> =
                (0..count).map(|_| Ok((names.name(from)?, names.entry(from)?, from.mask()?))).collect::<Result<_>>()?;
            let specs: Vec<MetaSpec<'_>> = asked.iter().map(|(name, entry, keep)| MetaSpec { name, entry, keep: *keep }).collect();
            for set in store.set_meta(&specs) {
                to.result(&set, |to, landed| {
                    to.landed(landed);
                });
            }
        }
        ops::READ_XATTRS => {
            let want = from.mask()?;
            let mut entries = names.entries(from)?;
            let read = store.read_xattrs(&mut entries, want);
            for (read, entry) in read.iter().zip(&entries) {
                to.result(read, |to, ()| {
                    to.mask(entry.have).xattrs(entry.xattrs.as_deref().unwrap_or(&Vec::new()));
                });
            }
        }
        ops::REMOVE => {
            for removed in store.remove(&names.entries(from)?) {
                to.result(&removed, |_, ()| {});
            }
        }
        ops::RENAME => {
            let (old, new) = (names.name(from)?, names.name(from)?);
            store.rename(&old, &new, from.flag()?)?;
        }
        ops::DIGEST => {
            let algorithm = algorithm_from(from.byte()?)?;
            let entry = names.entry(from)?;
            let source = store.open(&entry, false)?;
            let size = source.stamp()?.size;
            let mut hasher = algorithm.begin();
            digest(&*source, 0..size, &mut hasher)?;
            to.bytes(&hasher.finish());
        }
        ops::SETTLE => {
            let named: Vec<Name> = (0..from.count()?).map(|_| names.name(from)).collect::<Result<_>>()?;
            store.extensions().system.sync(&named.iter().collect::<Vec<_>>())?;
        }
        ops::SPACE => {
            to.space(&store.extensions().system.space()?);
        }
        ops::VOLUME => {
            to.volume(&store.extensions().system.volume()?);
        }
        ops::FORGET => root.forget(from.bytes()?),
        _ => return Err(protocol_error("an unknown request")),
    }
    Ok(true)
}
