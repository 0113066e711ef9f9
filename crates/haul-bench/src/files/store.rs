//! Any other place, through the interface that copies use.

use std::collections::HashMap;
use std::sync::Arc;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Space, Store};

use super::operation::Operation;
use super::place::{Layout, OpRunner, Place, TREES, Task};
use runner::StoreRunner;

mod runner;

/// Entries that are removed or made by one call.
const BATCH: usize = 1000;
const MODE: u32 = 0o644;

#[derive(Debug)]
pub struct StorePlace {
    store: Arc<dyn Store>,
    top: Dir,
    /// Of the directory above, as the user wrote it.
    address: String,
}

impl StorePlace {
    /// Makes the directory `leaf` below the store's root.
    pub fn make(store: Arc<dyn Store>, address: &str, leaf: &str) -> Result<StorePlace> {
        let place = StorePlace { store, top: Dir::root().child(leaf.as_bytes()), address: address.into() };
        place.make_dir(&place.top, 0o700)?;
        Ok(place)
    }

    fn make_dir(&self, dir: &Dir, mode: u32) -> Result<()> {
        match self.store.caps().dirs {
            true => first(self.store.make_dirs(&[(dir, mode)])).map(drop),
            false => Ok(()),
        }
    }

    fn empty(&self, dir: &Dir, cancel: &Cancel) -> Result<()> {
        loop {
            cancel.check()?;
            let (mut found, mut failed) = (Vec::new(), None);
            let listed = self.store.list(dir, &mut |entry| {
                match entry {
                    Ok(entry) => found.push(entry),
                    Err(e) => failed = failed.take().or(Some(e)),
                }
                if found.len() < BATCH { Flow::Go } else { Flow::Stop }
            });
            match listed {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
                listed => listed?,
            }
            if let Some(e) = failed {
                return Err(e);
            }
            if found.is_empty() {
                return Ok(());
            }
            for entry in found.iter().filter(|entry| entry.kind == Kind::Dir) {
                let below = dir.child(&entry.name.leaf);
                self.empty(&below, cancel)?;
                self.store.extensions().system.forget(&below);
            }
            // Directories of object stores are gone with what was in them.
            let whole = found.len() < BATCH;
            let exists = |entry: &Entry| entry.kind != Kind::Dir || self.store.caps().dirs;
            let gone: Vec<Entry> = found.into_iter().filter(exists).collect();
            let removed = self.store.remove(&gone);
            for result in removed {
                match result {
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    result => result?,
                }
            }
            if whole {
                return Ok(());
            }
        }
    }
}

fn first<T>(results: Vec<Result<T>>) -> Result<T> {
    results.into_iter().next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, "ask").because("no answer")))
}

/// A file to be written.
fn described(name: &Name, size: u64) -> Entry {
    let have = MetaMask::BASIC.with(MetaMask::MODE).with(MetaMask::MTIME);
    Entry { size, stored: size, mode: MODE, have, ..Entry::bare(name.clone(), Kind::File) }
}

fn landed(mut bundle: Bundle) -> Result<()> {
    match bundle.items.pop().map(|item| item.outcome) {
        Some(Outcome::Written(_)) => Ok(()),
        Some(Outcome::Failed(e)) => Err(e),
        _ => Err(Error::new(ErrorKind::Other, "write").because("the store returned no result")),
    }
}

impl Place for StorePlace {
    fn words(&self) -> String {
        let between = if self.address.ends_with([':', '/']) { "" } else { "/" };
        format!("{}{between}{}", self.address, haul_core::entry::show(self.top.leaf()))
    }

    fn refuses(&self, operation: Operation) -> Option<String> {
        use Operation as Op;
        let caps = self.store.caps();
        let (can, why) = match operation {
            Op::Append | Op::TruncateOverwrite => (false, "it writes only whole files"),
            Op::Chmod => (caps.attributes.sets.has(MetaMask::MODE), "it has no modes"),
            Op::Setxattr | Op::Getxattr => (caps.attributes.sets.has(MetaMask::XATTR), "it has no extended attributes"),
            Op::Symlink => (caps.links, "it has no symlinks"),
            Op::Hardlink => (caps.hard_links, "it has no hard links"),
            Op::Mkdir | Op::Rmdir => (caps.dirs, "directories are only parts of names there"),
            _ => (true, ""),
        };
        (!can).then(|| why.to_string())
    }

    fn space(&self) -> Result<Option<Space>> {
        self.store.extensions().system.space()
    }

    fn lay(&self, layout: &Layout) -> Result<()> {
        if !self.store.caps().dirs {
            return Ok(());
        }
        for tree in TREES {
            let tree = self.top.child(tree.as_bytes());
            self.make_dir(&tree, 0o755)?;
            let dirs: Vec<Dir> = layout.leaves().iter().map(|leaf| tree.child(leaf.as_bytes())).collect();
            for some in dirs.chunks(BATCH) {
                let asked: Vec<(&Dir, u32)> = some.iter().map(|dir| (dir, 0o755)).collect();
                self.store.make_dirs(&asked).into_iter().try_for_each(|made| made.map(drop))?;
                some.iter().for_each(|dir| self.store.extensions().system.forget(dir));
            }
        }
        Ok(())
    }

    fn clear(&self, cancel: &Cancel) -> Result<()> {
        self.empty(&self.top, cancel)
    }

    fn remove(&self) -> Result<()> {
        self.clear(&Cancel::default())?;
        if !self.store.caps().dirs {
            return Ok(());
        }
        match first(self.store.remove(&[Entry::bare(Name::of(&self.top), Kind::Dir)])) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn runner(&self, task: Task) -> Result<Box<dyn OpRunner>> {
        let dirs = matches!(task.operation, Operation::Mkdir | Operation::Rmdir);
        let tree = |tree: usize| self.top.child(TREES[tree].as_bytes());
        let (tree, other) = (tree(if dirs { 0 } else { task.shape.tree }), tree(1 - task.shape.tree));
        let (names, value) = task.attributes();
        let xattrs = names.into_iter().map(|name| (name.into_bytes().into(), value.clone().into())).collect();
        let (here, there) = (tree.clone(), other.clone());
        Ok(Box::new(StoreRunner {
            store: self.store.clone(),
            task,
            tree,
            other,
            here,
            there,
            listed: HashMap::new(),
            xattrs,
            buffer: Vec::new(),
        }))
    }
}
