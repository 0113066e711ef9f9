//! The source's directories after a move: those in which nothing is left go, deepest first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Dir, Entry, Kind, Name};
use crate::job::Pick;
use crate::store::{Flow, Store};

use super::context::Context;
use super::post_pass::sorted;
use super::tries::{gone_is_done, retry};

/// After a run without a failure. What could not be moved is still in its directory, which then stays and is counted.
pub fn remove(cx: &Arc<Context>) {
    if cx.out.impaired.load(Ordering::Relaxed) || cx.cancel.is_set() {
        return;
    }
    for record in sorted(&cx.post_pass.emptied, &cx.out) {
        let Some((root, path)) = record.split_first_chunk::<4>() else { continue };
        let Some(root) = cx.job.roots.get(u32::from_be_bytes(*root) as usize) else { continue };
        let store = &*root.store;
        let name = match path {
            // Of `SRC/` only what is in it is moved; at an object store nothing but a marker says that it was there.
            b"" if !store.caps().markers => continue,
            // Of `SRC` that is moved by its name the directory above is no part.
            b"" if !matches!(root.pick, Pick::Contents) => continue,
            b"" => Name::of(&Dir::root()),
            path => match Name::parse(&Dir::root(), path) {
                Some(name) => name,
                None => continue,
            },
        };
        // A marker could be removed with objects below it.
        let empty = !store.caps().markers || is_empty(store, &name);
        let remove = || store.remove(&[Entry::bare(name.clone(), Kind::Dir)]).pop().unwrap_or(Ok(()));
        if !empty || gone_is_done(retry(remove)).is_err() {
            cx.out.left_behind(Kind::Dir);
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
