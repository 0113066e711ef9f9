//! The source's directories after a move: those in which nothing is left go, deepest first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Dir, Entry, Kind, Name};
use crate::schedule::DirWork;
use crate::store::{Flow, Store};

use super::context::{Context, gone_is_done};
use super::late::{Late, lock, spilled};

impl Late {
    /// Everything in this directory of the source has been dealt with.
    pub fn emptied(&self, cx: &Context, work: &DirWork) {
        let mut record = (work.root as u32).to_be_bytes().to_vec();
        record.extend(work.dir.path());
        if let Some(sorter) = lock(&self.emptied).as_mut() {
            spilled(cx, sorter.push(&record));
        }
    }
}

/// After a run without a failure. What could not be moved is still in its directory, which then stays and is counted.
pub(super) fn remove(cx: &Arc<Context>) {
    let Some(sorter) = lock(&cx.late.emptied).take() else { return };
    if cx.impaired.load(Ordering::Relaxed) || cx.cancel.is_set() {
        return;
    }
    let sorted = match sorter.finish() {
        Ok(sorted) => sorted,
        Err(e) => return spilled(cx, Err(e)),
    };
    for record in sorted {
        let record = match record {
            Ok(record) => record,
            Err(e) => return spilled(cx, Err(e)),
        };
        let Some((root, path)) = record.split_first_chunk::<4>() else { continue };
        let Some(root) = cx.job.roots.get(u32::from_be_bytes(*root) as usize) else { continue };
        let store = &*root.store;
        let name = match path {
            // Of `SRC/` only what is in it is moved; at an object store nothing but a marker says that it was there.
            b"" if !store.caps().markers => continue,
            b"" => Name::of(&Dir::root()),
            path => match Name::parse(&Dir::root(), path) {
                Some(name) => name,
                None => continue,
            },
        };
        // A marker could be removed with objects below it.
        let empty = !store.caps().markers || is_empty(store, &name);
        let remove = || store.remove(&[Entry::bare(name.clone(), Kind::Dir)]).pop().unwrap_or(Ok(()));
        if !empty || gone_is_done(cx.retry(remove)).is_err() {
            cx.left_behind(Kind::Dir);
        }
        if cx.cancel.is_set() {
            return;
        }
    }
}

fn is_empty(store: &dyn Store, name: &Name) -> bool {
    let dir = if name.leaf.is_empty() { name.dir.clone() } else { name.dir.child(&name.leaf) };
    let mut empty = true;
    let listed = store.list(&dir, &mut |_| {
        empty = false;
        Flow::Stop
    });
    empty && listed.is_ok()
}
