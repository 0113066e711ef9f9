//! The contract, by calls on the tree. A call for many entries takes the lock for each, so that tests see other threads in
//! between.

use std::sync::{Arc, Mutex};

use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::hash::Algorithm;
use haul_core::store::{
    Caps, Digests, Extensions, Flow, Found, MetaSpec, Place, ServerSide, ServerSideOp, Sink, Source, Spec, Store, System, Token,
    Unfinished, WriteOutcome, WriteStyle,
};
use haul_core::{ErrorKind, Result};

use super::content::Content;
use super::sink::{Open, Session, Writing, token};
use super::tree::{File, ROOT, Unresolved, floor};
use super::{EXTENDED, Memory, extended_of, fail, lost};
use haul_core::lock::lock;

impl Memory {
    /// Attributes of a file that is complete; `now` is its time unless the source's is kept.
    pub(super) fn finish(&self, file: &File, entry: &Entry, keep: MetaMask, now: Time, generation: u64) -> WriteOutcome {
        let mut inode = lock(file);
        inode.content.resize(entry.size);
        inode.mtime = floor(now, self.caps.attributes.mtime_resolution);
        inode.generation = generation;
        let refused = inode.apply(entry, keep, self.caps.attributes.sets, self.caps.attributes.mtime_resolution);
        WriteOutcome { refused, ino: if self.caps.dirs { inode.ino } else { 0 } }
    }

    /// Puts an inode under a name, in place of anything but a directory; of nothing at all unless `replace`.
    fn put_inode(&self, name: &Name, file: &File, replace: bool, op: &'static str) -> Result<()> {
        let path = self.path(name, op)?;
        let mut tree = lock(&self.shared.tree);
        let there = self.find(&tree, &path).ok().and_then(|at| tree.kind(at));
        match there {
            Some(Kind::Dir) => return Err(fail(ErrorKind::Exists, op, name).because("a directory stands there")),
            Some(_) if !replace => return Err(fail(ErrorKind::Exists, op, name)),
            _ => {}
        }
        if path.keys.is_empty() {
            return Err(fail(ErrorKind::Exists, op, name).because("that is the root"));
        }
        tree.place(&path.keys, &path.leaves, file, self.caps.dirs).map_err(|why| lost(why, op, name))
    }

    fn get_item(&self, item: &mut Item, data: &mut Vec<u8>, keep: MetaMask, follow: bool) -> Result<()> {
        let name = item.entry.name.clone();
        let file = self.listed(&item.entry, follow, "open")?;
        let inode = lock(&file);
        let bytes = inode.content.all();
        if data.len() + bytes.len() > self.caps.tuning.bundle_bytes.max(item.entry.size as usize) {
            return Err(fail(ErrorKind::Changed, "read", &name).because("it has grown past what a bundle carries"));
        }
        item.at = data.len()..data.len() + bytes.len();
        data.extend_from_slice(&bytes);
        item.entry = self.shown(name, &inode, keep);
        Ok(())
    }

    fn put_item(&self, item: &Item, data: &[u8], keep: MetaMask, direct: bool) -> Result<WriteOutcome> {
        let (now, generation, file) = {
            let mut tree = lock(&self.shared.tree);
            (tree.now(), tree.generation(), tree.inode(Kind::File, 0o644))
        };
        lock(&file).content = Content::of(&data[item.at.clone()]);
        let landed = self.finish(&file, &item.entry, keep, now, generation);
        self.put_inode(&item.entry.name, &file, !(direct && self.caps.direct_create), "create")?;
        Ok(landed)
    }

    fn remove_one(&self, entry: &Entry) -> Result<()> {
        let name = &entry.name;
        let path = self.path(name, "remove")?;
        let mut tree = lock(&self.shared.tree);
        let at = self.find(&tree, &path).map_err(|why| lost(why, "remove", name))?;
        let Some(file) = tree.node(at).file.clone() else {
            return Err(fail(ErrorKind::NotFound, "remove", name));
        };
        let (kind, ino) = {
            let inode = lock(&file);
            (inode.kind, inode.ino)
        };
        if (entry.ino != 0 && entry.ino != ino) || (entry.kind == Kind::Dir) != (kind == Kind::Dir) {
            return Err(fail(ErrorKind::Changed, "remove", name).because("something else stands there now"));
        }
        if path.keys.is_empty() || (kind == Kind::Dir && !tree.node(at).children.is_empty()) {
            return Err(fail(ErrorKind::Exists, "remove", name).because("the directory is not empty"));
        }
        tree.unlink(&path.keys, at);
        Ok(())
    }

    fn deny(&self, granted: bool, op: &'static str, name: &Name) -> Result<()> {
        if granted { Ok(()) } else { Err(fail(ErrorKind::Unsupported, op, name)) }
    }
}

impl Store for Memory {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        self.note("stat", name);
        self.look(name, want, "stat")
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        self.log.note("stat_many", leaves.iter().map(|leaf| Name::new(dir, leaf).path()));
        let look = |name: &Name| -> Result<Entry> {
            if !follow {
                return self.look(name, want, "stat");
            }
            let file = self.reach(name, true, "stat")?;
            Ok(self.shown(name.clone(), &lock(&file), want))
        };
        let one = |name: Name| match look(&name) {
            Ok(entry) => Found::Entry(entry),
            // A link that points to nothing is there all the same.
            Err(e) if e.kind() == ErrorKind::NotFound && !(follow && self.look(&name, want, "stat").is_ok()) => Found::Absent,
            Err(e) => Found::Failed(e),
        };
        leaves.iter().map(|leaf| one(Name::new(dir, leaf))).collect()
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.log.note("list", [dir.path()].into_iter());
        let mut after = None;
        loop {
            let page = self.list_page(dir, after.as_ref())?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            for (_, found) in page {
                if each(Ok(found)) == Flow::Stop {
                    return Ok(());
                }
            }
        }
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        self.note("open", &entry.name);
        let file = self.listed(entry, follow, "open")?;
        Ok(Box::new(Open { store: self.handle(), name: entry.name.clone(), file }))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        self.note("create", name);
        let path = self.path(name, "create")?;
        let in_place = spec.in_place && self.caps.write == WriteStyle::Anywhere;
        let mut tree = lock(&self.shared.tree);
        let there = match self.find(&tree, &path) {
            Ok(at) => tree.node(at).file.clone(),
            Err(why) => {
                // The parent is looked at now, not at the commit of two terabytes.
                if self.caps.dirs {
                    let above = &path.keys[..path.keys.len().saturating_sub(1)];
                    let parent = tree.find(above, true).map_err(|why| lost(why, "create", name))?;
                    if why == Unresolved::NotDir || tree.kind(parent) != Some(Kind::Dir) {
                        return Err(lost(Unresolved::NotDir, "create", name));
                    }
                }
                None
            }
        };
        let kind = there.as_ref().map(|file| lock(file).kind);
        if path.keys.is_empty() || kind == Some(Kind::Dir) {
            return Err(fail(ErrorKind::Exists, "create", name).because("a directory stands there"));
        }
        let file = match there {
            Some(file) if in_place && kind == Some(Kind::File) => file,
            _ => tree.inode(Kind::File, 0o644),
        };
        if in_place && lock(&file).nlink == 0 {
            tree.place(&path.keys, &path.leaves, &file, self.caps.dirs).map_err(|why| lost(why, "create", name))?;
        }
        drop(tree);
        let token = token(&name.path(), spec.entry.stamp());
        let session = Arc::new(Mutex::new(Session::new(name, spec, file, in_place)));
        let left = lock(&self.shared.sessions).insert(token.0.clone(), session.clone());
        if let Some(left) = left {
            lock(&left).ended = true;
        }
        Ok(Box::new(Writing { store: self.handle(), name: name.clone(), token, session }))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        self.log.note("get_bundle", bundle.items.iter().map(|item| item.entry.name.path()));
        let Bundle { items, data, keep, follow, .. } = bundle;
        for item in items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Listed)) {
            item.outcome = match self.get_item(item, data, *keep, *follow) {
                Ok(()) => Outcome::Read,
                Err(e) => Outcome::Failed(e),
            };
        }
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.log.note("put_bundle", bundle.items.iter().map(|item| item.entry.name.path()));
        let Bundle { items, data, keep, direct, .. } = bundle;
        for item in items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Read)) {
            item.outcome = match self.put_item(item, data, *keep, *direct) {
                Ok(landed) => Outcome::Written(landed),
                Err(e) => Outcome::Failed(e),
            };
        }
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        self.log.note("make_dirs", dirs.iter().map(|(dir, _)| dir.path()));
        let make = |dir: &Dir, mode: u32| {
            let name = Name::of(dir);
            self.deny(self.caps.dirs, "make directory", &name)?;
            let path = self.path(&name, "make directory")?;
            let mut tree = lock(&self.shared.tree);
            match self.find(&tree, &path).map(|at| tree.kind(at)) {
                Ok(Some(Kind::Dir)) => Ok(false),
                Ok(_) => Err(fail(ErrorKind::Exists, "make directory", &name)),
                Err(Unresolved::NotDir) => Err(lost(Unresolved::NotDir, "make directory", &name)),
                Err(Unresolved::Absent) => {
                    let made = tree.inode(Kind::Dir, mode & 0o7777 | 0o700);
                    tree.place(&path.keys, &path.leaves, &made, true).map_err(|why| lost(why, "make directory", &name))?;
                    Ok(true)
                }
            }
        };
        dirs.iter().map(|(dir, mode)| make(dir, *mode)).collect()
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        self.note("make_node", name);
        let granted = match entry.kind {
            Kind::Link => self.caps.links,
            kind => kind.is_special() && self.caps.specials,
        };
        self.deny(granted, "make node", name)?;
        let file = lock(&self.shared.tree).inode(entry.kind, if entry.kind == Kind::Link { 0o777 } else { 0o644 });
        let landed = {
            let mut inode = lock(&file);
            inode.target = entry.target.clone().filter(|_| entry.kind == Kind::Link);
            inode.rdev = entry.rdev;
            let refused = inode.apply(entry, keep, self.caps.attributes.sets, self.caps.attributes.mtime_resolution);
            WriteOutcome { refused, ino: inode.ino }
        };
        self.put_inode(name, &file, true, "make node")?;
        Ok(landed)
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.note("make_hard_link", name);
        self.deny(self.caps.hard_links, "link", name)?;
        let file = self.reach(existing, false, "link")?;
        if lock(&file).kind == Kind::Dir {
            return Err(fail(ErrorKind::Denied, "link", existing).because("a directory has one name only"));
        }
        self.put_inode(name, &file, true, "link")
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        self.log.note("set_meta", specs.iter().map(|spec| spec.name.path()));
        let set = |spec: &MetaSpec<'_>| {
            let file = self.reach(spec.name, false, "set attributes")?;
            let mut inode = lock(&file);
            let refused = inode.apply(spec.entry, spec.keep, self.caps.attributes.sets, self.caps.attributes.mtime_resolution);
            Ok(WriteOutcome { refused, ino: if self.caps.dirs { inode.ino } else { 0 } })
        };
        specs.iter().map(set).collect()
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        self.log.note("read_xattrs", entries.iter().map(|entry| entry.name.path()));
        let read = |entry: &mut Entry| {
            let file = self.reach(&entry.name, false, "read attributes")?;
            entry.xattrs = Some(Box::new(extended_of(&lock(&file), want, self.caps.attributes.sets)));
            entry.have = entry.have.with(want.and(EXTENDED).and(self.caps.attributes.sets));
            Ok(())
        };
        entries.iter_mut().map(read).collect()
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        self.log.note("remove", entries.iter().map(|entry| entry.name.path()));
        entries.iter().map(|entry| self.remove_one(entry)).collect()
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.note("rename", from);
        let (old, new) = (self.path(from, "rename")?, self.path(to, "rename")?);
        let mut tree = lock(&self.shared.tree);
        let at = self.find(&tree, &old).map_err(|why| lost(why, "rename", from))?;
        let Some(file) = tree.node(at).file.clone().filter(|_| at != ROOT) else {
            return Err(fail(ErrorKind::NotFound, "rename", from));
        };
        let moves_dir = lock(&file).kind == Kind::Dir;
        if moves_dir && new.keys.starts_with(&old.keys) {
            return Err(fail(ErrorKind::Usage, "rename", from).because("a directory cannot go into itself"));
        }
        if let Ok(there) = self.find(&tree, &new)
            && let Some(kind) = tree.kind(there)
        {
            if there == at {
                return Ok(());
            }
            if !replace || kind == Kind::Dir {
                return Err(fail(ErrorKind::Exists, "rename", to));
            }
            if moves_dir {
                tree.unlink(&new.keys, there);
            }
        }
        if moves_dir {
            let leaf = new.leaves[new.leaves.len() - 1].clone();
            return tree.shift(&old.keys, at, &new.keys, leaf).map_err(|why| lost(why, "rename", to));
        }
        tree.place(&new.keys, &new.leaves, &file, self.caps.dirs).map_err(|why| lost(why, "rename", to))?;
        tree.unlink(&old.keys, at);
        Ok(())
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        self.note("reopen", name);
        let file = self.reach(name, false, "reopen")?;
        let kind = lock(&file).kind;
        if kind != Kind::File {
            return Err(fail(ErrorKind::Changed, "reopen", name).because(format!("it is a {} now", kind.word())));
        }
        Ok(Box::new(Open { store: self.handle(), name: name.clone(), file }))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { unfinished: self, server_side: self, digests: self, system: self, ..Extensions::default() }
    }
}

impl Unfinished for Memory {
    fn attach(&self, name: &Name, token: &Token, _spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        self.note("attach", name);
        self.deny(self.caps.attach, "attach", name)?;
        let session = lock(&self.shared.sessions).get(&token.0).cloned();
        match session {
            Some(session) if lock(&session).name.path() == name.path() => {
                Ok(Box::new(Writing { store: self.handle(), name: name.clone(), token: token.clone(), session }))
            }
            _ => Err(fail(ErrorKind::NotFound, "attach", name).because("there is no such unfinished write")),
        }
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        self.note("abandon", name);
        let left = lock(&self.shared.sessions).remove(&token.0);
        if let Some(left) = left {
            lock(&left).ended = true;
        }
        Ok(())
    }
}

impl ServerSide for Memory {
    fn copies(&self, from: &dyn Store, _size: u64) -> bool {
        self.caps.copies && from.place().shares_service(&self.place)
    }

    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        let ServerSideOp::Copy(spec, _) = how else { return Ok(None) };
        self.note("take", to);
        let from = from.place();
        let here = (from.scheme, &from.endpoint, &from.volume) == (self.place.scheme, &self.place.endpoint, &self.place.volume);
        if !here {
            return Ok(None);
        }
        let file = self.listed(entry, false, "copy")?;
        let (content, xattrs) = {
            let inode = lock(&file);
            (inode.content.clone(), inode.xattrs.clone())
        };
        let (now, generation, copy) = {
            let mut tree = lock(&self.shared.tree);
            (tree.now(), tree.generation(), tree.inode(Kind::File, 0o644))
        };
        lock(&copy).content = content;
        lock(&copy).xattrs = if spec.keep.any(EXTENDED) { xattrs } else { Default::default() };
        let landed = self.finish(&copy, entry, spec.keep, now, generation);
        self.put_inode(to, &copy, true, "copy")?;
        Ok(Some(landed))
    }
}

impl Digests for Memory {
    fn algorithms(&self) -> Vec<Algorithm> {
        self.digests.clone()
    }

    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.note("digest", &entry.name);
        let file = self.listed(entry, false, "digest")?;
        let mut hasher = algorithm.begin();
        hasher.update(&lock(&file).content.all());
        Ok(Some(hasher.finish()))
    }
}

impl System for Memory {
    fn sync(&self, names: &[&Name]) -> Result<()> {
        self.log.note("sync", names.iter().map(|name| name.path()));
        Ok(())
    }

    fn forget(&self, dir: &Dir) {
        self.log.note("forget", [dir.path()].into_iter());
    }
}
