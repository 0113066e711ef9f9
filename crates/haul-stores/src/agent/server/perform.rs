//! What each request does.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::bundle::{Bundle, Item, Outcome, Spent};
use haul_core::entry::{Dir, Entry, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{Flow, Found, MetaSpec, Source, Spec, Store, Token};

use super::files::Open;
use super::{Agent, Reply, Root};
use crate::agent::frame::{Frame, LONGEST};
use crate::agent::ops;
use crate::agent::wire::{Parser, Writer, algorithm_from, kind_to, protocol_error, who_from};
use crate::local;

/// Which start of which machine this is: what is only in memory does not outlive it.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_string()).unwrap_or_default()
}

/// Bytes of attributes that one answer carries, about.
const ANSWER: usize = 2 << 20;
/// Bytes that are read before the other end is told that they are.
const SIGN: u64 = 256 << 20;
/// Names of a listing that go out together.
const PART: usize = 512;

/// Reads names of one root out of one frame.
struct Names<'a> {
    root: &'a Root,
    dirs: Vec<Dir>,
}

impl<'a> Names<'a> {
    fn of(root: &'a Root) -> Self {
        Names { root, dirs: Vec::new() }
    }

    fn dir(&mut self, from: &mut Parser<'_>) -> Result<Dir> {
        let root = self.root;
        from.dir(&mut self.dirs, &mut |path| root.dir(path))
    }

    fn name(&mut self, from: &mut Parser<'_>) -> Result<Name> {
        let dir = self.dir(from)?;
        Ok(Name::new(&dir, from.bytes()?))
    }

    fn entry(&mut self, from: &mut Parser<'_>) -> Result<Entry> {
        let name = self.name(from)?;
        from.attributes(name)
    }

    fn entries(&mut self, from: &mut Parser<'_>) -> Result<Vec<Entry>> {
        (0..from.count()?).map(|_| self.entry(from)).collect()
    }
}

/// What a file is to become, as it came.
struct Wanted {
    entry: Entry,
    keep: MetaMask,
    chunk: u64,
    in_place: bool,
    sync: bool,
}

impl Wanted {
    fn read(names: &mut Names<'_>, from: &mut Parser<'_>) -> Result<Wanted> {
        let entry = names.entry(from)?;
        Ok(Wanted { entry, keep: from.mask()?, chunk: from.number()?, in_place: from.flag()?, sync: from.flag()? })
    }

    fn spec(&self) -> Spec<'_> {
        Spec { entry: &self.entry, keep: self.keep, chunk: self.chunk, in_place: self.in_place, sync: self.sync }
    }
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl Agent {
    pub(super) fn perform(self: &Arc<Self>, frame: &Frame, reply: &Reply<'_>) -> Result<()> {
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
            ops::READER => self.listen_for_reader(&mut from, &mut to)?,
            ops::LINK_PEER => self.link_peer(&mut from)?,
            ops::READ => return self.read(&mut from, reply),
            ops::OUTLINE => return self.outline(&mut from, reply),
            ops::REUSE => {
                let file = self.files.get(from.number()?)?;
                file.sink()?.reuse(&from.stamp()?, from.number()?, from.range()?)?;
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
            ops::LISTEN => self.listen(&mut from, &mut to)?,
            ops::CONNECT => self.connect(&mut from, &mut to)?,
            ops::FACTS => {
                let done = !from.flag()? || self.data.bear_losses();
                let kernel = self.data.kernel();
                to.flag(done).number(kernel.sent).number(kernel.again).number(kernel.busy).number(kernel.limited);
            }
            ops::WORKED => self.account.write(&mut to),
            ops::OWNER_NAME => {
                let name = crate::names::name(who_from(from.byte()?)?, from.small()?)?;
                to.flag(name.is_some()).bytes(&name.unwrap_or_default());
            }
            ops::OWNER_ID => {
                let id = crate::names::id(who_from(from.byte()?)?, from.bytes()?)?;
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
        // What later versions add stands behind, and may be missing.
        let compress = !from.0.is_empty() && from.flag()?;
        self.compress.store(compress, std::sync::atomic::Ordering::Relaxed);
        to.number(version).bytes(self.options.version.as_bytes()).bytes(self.home.as_os_str().as_bytes());
        to.bytes(self.joining.word.as_deref().unwrap_or_default().as_bytes());
        let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
        to.bytes(connection.as_bytes());
        let uname = rustix::system::uname();
        to.bytes(uname.nodename().to_bytes()).bytes(uname.machine().to_bytes());
        to.bytes(boot().as_bytes());
        Ok(())
    }

    /// Number, path, options; answers with the real path, what the store can do, and where it is.
    fn open_root(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let (number, path) = (from.number()?, self.absolute(from.bytes()?));
        let (follow, keep_dirlinks, keep_modes) = (from.flag()?, from.flag()?, from.flag()?);
        let options = local::Options {
            keep_dirlinks,
            follow,
            umask: 0,
            user_umask: self.options.umask,
            dir_umask: if keep_modes { 0 } else { self.options.umask },
            keep_acls: false,
        };
        let store = local::Local::open(path_of(&path), options)?;
        let (dev, ino) = store.identity().unwrap_or_default();
        to.bytes(&store.place().root).bytes(store.fs_name().as_bytes()).number(dev).number(ino).caps(store.caps());
        // What a later version added stands behind: how long it has worked so far, and that it can be asked.
        self.account.write(to);
        super::lock(&self.roots).insert(number, Arc::new(Root::new(store)));
        Ok(())
    }

    /// A path as the user writes it, who may not know the home directory here.
    fn absolute(&self, path: &[u8]) -> Vec<u8> {
        crate::sftp::absolute(self.home.as_os_str().as_bytes(), path)
    }

    /// What stands at a path, links followed.
    fn look(&self, from: &mut Parser<'_>, to: &mut Writer) -> Result<()> {
        let path = &self.absolute(from.bytes()?)[..];
        match std::fs::metadata(path_of(path)) {
            Ok(meta) => {
                use std::os::unix::fs::FileTypeExt;
                let kind = match meta.file_type() {
                    kind if kind.is_dir() => haul_core::entry::Kind::Dir,
                    kind if kind.is_file() => haul_core::entry::Kind::File,
                    kind if kind.is_fifo() => haul_core::entry::Kind::Fifo,
                    _ => haul_core::entry::Kind::Unknown,
                };
                to.byte(1).byte(kind_to(kind));
            }
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound) => {
                to.byte(0);
            }
            Err(e) => return Err(Error::io(e, "stat").at(path)),
        }
        Ok(())
    }

    fn make_path(&self, from: &mut Parser<'_>) -> Result<()> {
        let (path, parents) = (&self.absolute(from.bytes()?)[..], from.flag()?);
        let place: PathBuf = path_of(path).into();
        // The process has no mask of its own: the user's is taken into account here.
        let mode = 0o777 & !self.options.umask;
        let made = std::fs::DirBuilder::new().recursive(parents).mode(mode).create(&place);
        match made {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && place.is_dir() => Ok(()),
            made => made.map_err(|e| Error::io(e, "mkdir").at(path)),
        }
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
                Open::Source(root.store.open(&entry, from.flag()?)?)
            }
            ops::REOPEN => Open::Source(root.store.reopen(&names.name(from)?)?),
            kind => {
                let name = names.name(from)?;
                let wanted = Wanted::read(&mut names, from)?;
                let sink = match kind {
                    ops::CREATE => root.store.create(&name, &wanted.spec())?,
                    _ => root.store.attach(&name, &Token(from.bytes()?.into()), &wanted.spec())?,
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
            return Err(protocol_error("a read of more than one piece"));
        }
        let file = self.files.get(number)?;
        let mut bytes = vec![0; (at.end - at.start) as usize];
        let read = file.source()?.read(at).and_then(|mut source| source.read_exact(&mut bytes).map_err(|e| Error::from_io(e, "read")));
        read?;
        reply.done(&[&bytes]);
        Ok(())
    }

    /// Parts that say how many bytes have been read since the last; then the encoded outline behind such numbers; at the end
    /// the size that was outlined.
    fn outline(&self, from: &mut Parser<'_>, reply: &Reply<'_>) -> Result<()> {
        let file = self.files.get(from.number()?)?;
        let average = from.small()?;
        let part = |read: u64, encoded: &[u8]| {
            let mut to = Writer::new();
            to.number(read);
            to.out.extend_from_slice(encoded);
            if reply.more(&to.out) { Ok(()) } else { Err(Error::new(ErrorKind::Cancelled, "outline")) }
        };
        let (mut read, mut size) = (0, 0);
        let outline = file.source()?.outline(average, &mut |bytes| {
            read += bytes;
            size += bytes;
            if read >= SIGN { part(std::mem::take(&mut read), &[]) } else { Ok(()) }
        })?;
        let Some(outline) = outline else { return Err(Error::new(ErrorKind::Unsupported, "outline")) };
        for encoded in outline.encode().chunks(256 << 10) {
            part(std::mem::take(&mut read), encoded)?;
        }
        let mut to = Writer::new();
        to.number(size);
        reply.done(&[&to.out]);
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

fn hash(source: &dyn Source, at: std::ops::Range<u64>) -> Result<u128> {
    let mut hasher = haul_core::hash::Algorithm::Xxh128.begin();
    digest(source, at, &mut hasher)?;
    let digest: [u8; 16] = hasher.finish().try_into().map_err(|_| protocol_error("a hash of another width"))?;
    Ok(u128::from_be_bytes(digest))
}

fn digest(source: &dyn Source, at: std::ops::Range<u64>, hasher: &mut haul_core::hash::Hasher) -> Result<()> {
    let mut left = at.end - at.start;
    let mut reader = source.read(at)?;
    let mut buffer = vec![0; 256 << 10];
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = reader.read(&mut buffer[..want]).map_err(|e| Error::from_io(e, "read"))?;
        if count == 0 {
            return Err(Error::new(ErrorKind::Changed, "read").because("the file is shorter than it was"));
        }
        hasher.update(&buffer[..count]);
        left -= count as u64;
    }
    Ok(())
}

/// Names with their attributes, many a part; what cannot be read is said in its place.
fn list(root: &Root, from: &mut Parser<'_>, reply: &Reply<'_>) -> Result<()> {
    let dir = Names::of(root).dir(from)?;
    let want = from.mask()?;
    let mut leaves: Vec<Vec<u8>> = Vec::new();
    let mut wanted = true;
    let send = |leaves: &mut Vec<Vec<u8>>, failed: Option<Error>| {
        let mut to = Writer::new();
        let names: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
        for (leaf, found) in names.iter().zip(root.store.stat_many(&dir, &names, want, false)) {
            match found {
                Found::Entry(entry) => to.byte(0).bytes(leaf).attributes(&entry),
                Found::Absent => continue,
                Found::Failed(e) => to.byte(1).bytes(leaf).error(&e),
            };
        }
        if let Some(e) = failed {
            to.byte(1).bytes(b"").error(&e);
        }
        leaves.clear();
        to.out.is_empty() || reply.more(&to.out)
    };
    root.store.list(&dir, &mut |found| {
        match found {
            Ok(entry) => leaves.push(entry.name.leaf.to_vec()),
            Err(e) => wanted &= send(&mut leaves, Some(e)),
        }
        if leaves.len() >= PART {
            wanted &= send(&mut leaves, None);
        }
        if wanted { Flow::Go } else { Flow::Stop }
    })?;
    if wanted && !leaves.is_empty() {
        send(&mut leaves, None);
    }
    reply.done(&[]);
    Ok(())
}

/// Requests about names below one root. `false` if the answer has gone already.
fn on_root(root: &Root, kind: u8, from: &mut Parser<'_>, to: &mut Writer, reply: &Reply<'_>) -> Result<bool> {
    let store = &root.store;
    let mut names = Names::of(root);
    match kind {
        ops::STAT => {
            let name = names.name(from)?;
            to.attributes(&store.stat(&name, from.mask()?)?);
        }
        ops::STAT_MANY => {
            let dir = names.dir(from)?;
            let (want, follow) = (from.mask()?, from.flag()?);
            let leaves: Vec<&[u8]> = (0..from.count()?).map(|_| from.bytes()).collect::<Result<_>>()?;
            for found in store.stat_many(&dir, &leaves, want, follow) {
                match found {
                    Found::Entry(entry) => to.byte(0).attributes(&entry),
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
                    let count = store.abandon_all(&dir);
                    store.forget(&dir);
                    to.number(count?);
                }
                token => store.abandon(&name, &Token(token.into()))?,
            }
        }
        ops::GET_BUNDLE => {
            let mut bundle = Bundle { keep: from.mask()?, follow: from.flag()?, ..Bundle::default() };
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
            store.settle(&named.iter().collect::<Vec<_>>())?;
        }
        ops::SPACE => {
            to.space(&store.space()?);
        }
        ops::VOLUME => {
            to.volume(&store.volume()?);
        }
        ops::FORGET => root.forget(from.bytes()?),
        _ => return Err(protocol_error("a request that nobody knows")),
    }
    Ok(true)
}

fn spent(to: &mut Writer, bundle: &Bundle) {
    to.duration(bundle.spent.reading).duration(bundle.spent.writing).duration(bundle.spent.metadata);
}

/// What became of each file; the bytes of those that were read follow in their order.
fn get_bundle(store: &dyn Store, bundle: &mut Bundle, to: &mut Writer) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    store.get_bundle(bundle);
    spent(to, bundle);
    let mut length = 0;
    for item in &bundle.items {
        let own = if matches!(item.outcome, Outcome::Read) { item.at.len() } else { 0 };
        if to.out.len() > ANSWER || length + own + ANSWER > LONGEST {
            let e = Error::new(ErrorKind::Other, "read").because("it does not fit into one answer with others");
            to.byte(2).error(&e.remedy_is(Remedy::Again));
            continue;
        }
        match &item.outcome {
            Outcome::Failed(e) => to.byte(2).error(e),
            Outcome::Read => {
                match runs.last_mut() {
                    Some(last) if last.end == item.at.start => last.end = item.at.end,
                    _ => runs.push(item.at.clone()),
                }
                length += own;
                to.byte(0).attributes(&item.entry).number(own as u64)
            }
            // It is larger than it was listed: left for the way of large files.
            _ => to.byte(1).attributes(&item.entry),
        };
    }
    runs
}

/// Items with their lengths, then the bytes of all of them. Says what it took.
fn put_bundle(store: &dyn Store, names: &mut Names<'_>, from: &mut Parser<'_>, to: &mut Writer) -> Result<Spent> {
    let mut bundle = Bundle { keep: from.mask()?, direct: from.flag()?, sync: from.flag()?, ..Bundle::default() };
    let mut at = 0_usize;
    for _ in 0..from.count()? {
        let entry = names.entry(from)?;
        let length = usize::try_from(from.number()?).unwrap_or(usize::MAX);
        let end = at.checked_add(length).ok_or_else(|| protocol_error("an impossible length"))?;
        bundle.items.push(Item { entry, at: at..end, outcome: Outcome::Read });
        at = end;
    }
    if at != from.0.len() {
        return Err(protocol_error("a bundle that is not as long as its files"));
    }
    bundle.data = from.0.to_vec();
    store.put_bundle(&mut bundle);
    spent(to, &bundle);
    for item in &bundle.items {
        match &item.outcome {
            Outcome::Landed(landed) => to.byte(0).landed(landed),
            Outcome::Failed(e) => to.byte(1).error(e),
            _ => to.byte(1).error(&Error::new(ErrorKind::Other, "write").because("no result was reported for it")),
        };
    }
    Ok(bundle.spent)
}
