//! Look-ups and listings.

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::{ErrorKind, Result};

use super::tree::{At, File, Leaf, ROOT, Tree, Unresolved};
use super::{EXTENDED, Memory, Path, fail, lost};
use haul_core::lock::lock;

/// Entries that a listing takes out under one lock.
const PAGE: usize = 1000;

/// Links followed one after the other before it counts as a loop.
const LINKS_MOST: usize = 40;

impl Memory {
    /// A handle for an open file: same data, same log.
    pub(super) fn handle(&self) -> Memory {
        Memory { log: self.log.clone(), ..self.again() }
    }

    pub(super) fn note(&self, op: &'static str, name: &Name) {
        self.log.note(op, [name.path()].into_iter());
    }

    pub(super) fn find(&self, tree: &Tree, path: &Path) -> Result<At, Unresolved> {
        let at = tree.find(&path.keys, self.caps.dirs)?;
        let implied = tree.node(at).file.is_none() && tree.node(at).children.is_empty() && at != ROOT;
        if implied { Err(Unresolved::Absent) } else { Ok(at) }
    }

    pub(super) fn look(&self, name: &Name, want: MetaMask, op: &'static str) -> Result<Entry> {
        let path = self.path(name, op)?;
        let tree = lock(&self.shared.tree);
        let at = self.find(&tree, &path).map_err(|why| lost(why, op, name))?;
        Ok(self.entry_of(&tree, at, name.clone(), want))
    }

    /// The inode behind a name, links resolved if `follow`. Absolute targets begin at the root of the store.
    pub(super) fn reach(&self, name: &Name, follow: bool, op: &'static str) -> Result<File> {
        let mut path = self.path(name, op)?;
        let tree = lock(&self.shared.tree);
        for _ in 0..LINKS_MOST {
            let at = self.find(&tree, &path).map_err(|why| lost(why, op, name))?;
            let Some(file) = tree.node(at).file.clone() else {
                return Err(fail(ErrorKind::NotFound, op, name));
            };
            let Some(target) = lock(&file).target.clone().filter(|_| follow) else {
                return Ok(file);
            };
            let mut leaves = path.leaves;
            leaves.pop();
            if target.starts_with(b"/") {
                leaves.clear();
            }
            for part in target.split(|b| *b == b'/') {
                match part {
                    b"" | b"." => {}
                    b".." => drop(leaves.pop()),
                    leaf => leaves.push(leaf.into()),
                }
            }
            path = Path { keys: leaves.iter().map(|leaf| self.key(leaf)).collect(), leaves };
        }
        Err(fail(ErrorKind::Other, op, name).because("too many links, one behind the other"))
    }

    /// The file that `entry` was listed as, if it still has the name.
    pub(super) fn listed(&self, entry: &Entry, follow: bool, op: &'static str) -> Result<File> {
        let name = &entry.name;
        let file = self.reach(name, follow, op)?;
        let inode = lock(&file);
        if inode.kind != Kind::File {
            return Err(fail(ErrorKind::Changed, op, name).because(format!("it is a {} now", inode.kind.word())));
        }
        if !entry.is_bare() && !self.is_as_listed(entry, &self.shown(name.clone(), &inode, MetaMask::NONE)) {
            return Err(fail(ErrorKind::Changed, op, name));
        }
        drop(inode);
        Ok(file)
    }

    pub(super) fn is_as_listed(&self, listed: &Entry, now: &Entry) -> bool {
        listed.size == now.size
            && (!listed.have.has(MetaMask::MTIME) || listed.mtime == now.mtime)
            && (listed.version == 0 || listed.version == now.version)
    }

    pub(super) fn list_page(&self, dir: &Dir, after: Option<&Leaf>) -> Result<Vec<(Leaf, Entry)>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let name = Name::of(dir);
        let path = self.dir_path(dir);
        let tree = lock(&self.shared.tree);
        let at = match tree.find(&path.keys, self.caps.dirs) {
            Err(Unresolved::Absent) if !self.caps.dirs => return Ok(Vec::new()),
            found => found.map_err(|why| lost(why, "list", &name))?,
        };
        if self.caps.dirs && tree.kind(at) != Some(Kind::Dir) {
            return Err(lost(Unresolved::NotDir, "list", &name));
        }
        let from = after.map_or(Unbounded, Excluded);
        let mut page = Vec::new();
        for (key, child) in tree.node(at).children.range::<Leaf, _>((from, Unbounded)).take(PAGE) {
            let leaf = &tree.node(*child).leaf;
            let mut found = self.entry_of(&tree, *child, Name::new(dir, leaf), self.caps.attributes.lists);
            self.cut(&mut found);
            let prefix = !self.caps.dirs && !tree.node(*child).children.is_empty() && tree.node(*child).file.is_some();
            page.push((key.clone(), found));
            if prefix {
                let mut dir_too = Entry::bare(Name::new(dir, leaf), Kind::Dir);
                dir_too.have = MetaMask::BASIC.and(self.caps.attributes.lists);
                page.push((key.clone(), dir_too));
            }
        }
        Ok(page)
    }

    /// Removes from an entry what this store's listings do not report.
    fn cut(&self, entry: &mut Entry) {
        let full = entry.clone();
        let have = full.have.and(self.caps.attributes.lists);
        if have == full.have || have == full.have.without(MetaMask::SETID) {
            entry.have = have;
            return;
        }
        *entry = Entry::bare(full.name, full.kind);
        entry.have = have;
        if have.has(MetaMask::BASIC) {
            (entry.size, entry.stored, entry.version, entry.ino, entry.dev) = (full.size, full.stored, full.version, full.ino, full.dev);
            (entry.nlink, entry.rdev, entry.target) = (full.nlink, full.rdev, full.target);
        }
        if have.has(MetaMask::MTIME) {
            entry.mtime = full.mtime;
        }
        if have.has(MetaMask::MODE) {
            entry.mode = full.mode;
        }
        if have.has(MetaMask::OWNER) {
            entry.uid = full.uid;
        }
        if have.has(MetaMask::GROUP) {
            entry.gid = full.gid;
        }
        if have.any(EXTENDED) {
            entry.xattrs = full.xattrs;
        }
    }
}
