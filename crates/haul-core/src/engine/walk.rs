//! Lists directories from a source root and hands on batches of names. All of it is tasks of the pool.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Remedy};
use crate::event::Why;
use crate::job::{Mode, Pick};
use crate::schedule::DirWork;
use crate::store::Flow;

use super::context::Context;
use super::dirs::{fresh_target, top};
use super::files_from;
use super::merge::list_merged;
use super::names::{BATCH, admitted, push, selected};
use super::route_plan::first_attributes;
use super::task::{DestinationState, Name as Named};
use super::tries::retry;

/// Names that are looked up by one request.
const FEW: usize = 16;

/// Begins with one source root.
pub fn feed(cx: &Arc<Context>, root: usize) {
    match &cx.job.roots[root].pick {
        Pick::Contents => cx.out.timed(|times| &mut times.walking, || feed_contents(cx, root)),
        Pick::Names(names) => {
            // A listing of all that is at a remote destination would cost more than a look at a few names.
            let fresh = (names.len() > FEW || !cx.target().caps().remote) && fresh_target(cx);
            let work = top(root, None, fresh, None);
            cx.sched.hold(&work);
            let entries = names.iter().map(|leaf| Entry::bare(Name::new(&work.dir, leaf), Kind::Unknown));
            let named = entries.map(|entry| Named { entry, there: DestinationState::in_dir(&work) }).collect();
            cx.sched.push_names(&work, named);
            cx.sched.items_done(&work, 1);
        }
        Pick::Listed(paths) => files_from::feed(cx, root, paths.take()),
    }
}

fn feed_contents(cx: &Arc<Context>, root: usize) {
    let name = Name::of(&Dir::root());
    let looked = || retry(|| cx.job.roots[root].store.stat(&name, cx.job.keep));
    let mut entry = match cx.out.timed(|times| &mut times.source_listing, looked) {
        Ok(entry) => entry,
        Err(e) => return cx.out.fail(&e.on(&name), Kind::Dir),
    };
    cx.out.found(entry.kind);
    cx.transform(root, &mut entry);
    first_attributes(cx, root, &mut entry);
    let looked = || retry(|| cx.target().stat(&name, cx.job.keep));
    let attributes = match cx.out.timed(|times| &mut times.target_listing, looked) {
        Ok(target) => {
            let lacks = cx.job.mode == Mode::Copy && cx.lacks_marker(root, &entry, &target);
            Some(cx.planner.differing(&entry, &target)).filter(|differ| lacks || !differ.is_empty())
        }
        Err(_) => Some(MetaMask::NONE),
    };
    if cx.job.mode == Mode::Check {
        if attributes.is_some() && !cx.made_of_names() && cx.job.keep.without(MetaMask::MTIME) != MetaMask::NONE {
            cx.out.differs(Why::Attributes(attributes.unwrap_or_default()), &entry);
        } else {
            cx.out.report().kept.add(Kind::Dir, 1);
        }
    } else if let Some(differ) = attributes {
        if cx.job.dry && !cx.made_of_names() {
            cx.out.set_meta(Why::Attributes(differ), &entry);
        }
    } else {
        cx.out.report().kept.add(Kind::Dir, 1);
    }
    let work = top(root, Some(entry), fresh_target(cx), attributes);
    cx.sched.push_listable(vec![work]);
}

/// Lists a directory of the source, and of the destination where the two must be merged.
pub fn list(cx: &Arc<Context>, work: &Arc<DirWork>) {
    let began = Instant::now();
    let mut drained = Duration::ZERO;
    if let Some(ancestor) = cx.job.links.follow.then(|| same_ancestor(work)).flatten() {
        let e = Error::new(ErrorKind::Usage, "list").at(&work.dir.path());
        cx.out.fail(&e.because(format!("a symlink leads back to {}/", crate::entry::show(&ancestor))), Kind::Dir);
    } else {
        let merged =
            (cx.job.deletion.is_some() || (cx.job.mode == Mode::Check && !cx.job.one_way) || cx.target().caps().remote) && !work.fresh;
        let listed = if merged { list_merged(cx, work, &mut drained) } else { list_source(cx, work, &mut drained) };
        if let Err(e) = listed
            && e.kind() != ErrorKind::Cancelled
        {
            let e = if gone(&e) && is_still_there(cx, work) { unlistable(&e) } else { e };
            cx.out.fail(&e.on(&Name::of(&work.dir)), Kind::Dir);
        }
    }
    cx.out.report().times.walking += began.elapsed().saturating_sub(drained);
    cx.sched.items_done(work, 1);
}

fn gone(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished)
}

/// Some servers say of a directory that may not be entered that it is not there.
fn is_still_there(cx: &Context, work: &DirWork) -> bool {
    cx.source(work).stat(&Name::of(&work.dir), MetaMask::NONE).is_ok_and(|entry| entry.kind == Kind::Dir)
}

fn unlistable(e: &Error) -> Error {
    Error::new(ErrorKind::Denied, "list").because(format!("it is there, but cannot be listed: {}", e.reason()))
}

/// Where links are followed, one may lead to a directory above it.
fn same_ancestor(work: &DirWork) -> Option<Vec<u8>> {
    let entry = work.entry.as_ref()?;
    let mut above = work.parent.as_ref();
    while let Some(at) = above {
        if let Some(e) = &at.entry
            && (e.dev, e.ino) == (entry.dev, entry.ino)
            && e.ino != 0
        {
            return Some(at.dir.path());
        }
        above = at.parent.as_ref();
    }
    None
}

fn list_source(cx: &Arc<Context>, work: &Arc<DirWork>, drained: &mut Duration) -> crate::Result<()> {
    let dir_path = (!cx.job.filter.is_empty()).then(|| work.dir.path());
    let mut batch = Vec::with_capacity(BATCH);
    let handed = std::cell::RefCell::new(Handed::new());
    let mut each = |found: crate::Result<Entry>| {
        if cx.cancel.is_set() {
            return Flow::Stop;
        }
        if !handed.borrow_mut().is_new(&found) {
            return Flow::Go;
        }
        match found {
            Err(e) => cx.out.fail_source(e.on(&Name::of(&work.dir)), Kind::Unknown),
            Ok(entry) => {
                if admitted(cx, work, &entry) && selected(cx, dir_path.as_deref(), &entry) {
                    batch.push(Named { entry, there: DestinationState::in_dir(work) });
                }
            }
        }
        if batch.len() >= BATCH {
            push(cx, work, std::mem::replace(&mut batch, Vec::with_capacity(BATCH)), drained);
        }
        Flow::Go
    };
    let began = Instant::now();
    let listed = retry(|| {
        let listed = cx.source(work).list(&work.dir, &mut each);
        listed.map_err(|e| if handed.borrow().may_begin_again() { e } else { e.remedy_is(Remedy::None) })
    });
    cx.out.report().times.source_listing += began.elapsed().saturating_sub(*drained);
    push(cx, work, batch, drained);
    cx.cancel.check()?;
    listed.map_err(Error::of_source)
}

/// Names that a listing has given. None is handed on twice: not if the listing fails and is repeated, and not if it gives a name
/// twice, as a directory does in which files are renamed meanwhile.
struct Handed {
    any: bool,
    /// Hashes of what came; `None` when they are too many.
    names: Option<HashSet<u128>>,
}

impl Handed {
    /// 9 MiB of them.
    const MOST: usize = 256 << 10;

    fn new() -> Self {
        Handed { any: false, names: Some(HashSet::new()) }
    }

    fn is_new(&mut self, found: &crate::Result<Entry>) -> bool {
        self.any = true;
        let Some(names) = &mut self.names else { return true };
        let is_new = names.insert(match found {
            Ok(entry) => crate::hash::xxh128(&entry.name.leaf),
            Err(e) => crate::hash::xxh128(e.to_string().as_bytes()),
        });
        if names.len() >= Self::MOST {
            self.names = None;
        }
        is_new
    }

    /// Whether the listing may begin again.
    fn may_begin_again(&self) -> bool {
        self.names.is_some() || !self.any
    }
}
