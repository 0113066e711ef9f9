//! Names looked up on both sides, a batch at a time, and handed to the planner.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Dir, Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind};
use crate::event::{Action, Why};
use crate::filter::Verdict;
use crate::job::Pick;
use crate::plan::{Act, Step};
use crate::schedule::DirWork;
use crate::store::Found;
use crate::tune::Op;

use super::context::Context;
use super::references;
use super::route_plan::{Plans, plan_one, sort_out};
use super::task::{DestinationState, Name as Named};
use super::tries::{look_up, retry};

/// Looks names up on both sides and plans them.
pub fn look(cx: &Arc<Context>, work: &Arc<DirWork>, names: Vec<Named>) {
    let began = std::time::Instant::now();
    let plans = cx.clock.measured(Op::Walk, |load| {
        load.entries = names.len() as u64;
        look_measured(cx, work, names)
    });
    cx.out.report().times.walking += began.elapsed();
    plans.hand_on(cx, work);
}

fn look_measured(cx: &Arc<Context>, work: &Arc<DirWork>, mut names: Vec<Named>) -> Plans {
    let mut plans = Plans::default();
    let want = cx.planner.keep.and(MetaMask::ACL.with(MetaMask::XATTR).with(MetaMask::CONTEXT));
    complete(cx, work, &mut names, want, &mut plans);
    let mut targets = look_up_targets(cx, work, &names, want).into_iter();
    let mut pairs = Vec::with_capacity(names.len());
    for Named { entry, there } in names {
        let unknown = is_unknown(&there, want);
        let target = match there {
            DestinationState::Absent => None,
            DestinationState::Listed(target) if !unknown => Some(*target),
            _ => match targets.next() {
                Some(Found::Entry(target)) => Some(target),
                Some(Found::Absent) | None => None,
                Some(Found::Failed(e)) => {
                    plans.next.done += 1;
                    cx.out.fail(&e.on(&entry.name), entry.kind);
                    continue;
                }
            },
        };
        pairs.push((entry, target));
    }
    plans.references = references::look_up_all(cx, work, &pairs, want);
    for (entry, target) in pairs {
        plan_one(cx, work, entry, target, &mut plans);
    }
    plans
}

/// Looks up what the listing did not say of the source's names, and takes out those that are not wanted or not there.
fn complete(cx: &Context, work: &DirWork, names: &mut Vec<Named>, want: MetaMask, plans: &mut Plans) {
    let follow = cx.job.links.follow;
    // A listing may tell all but what costs more calls: what a store can set it can tell, too.
    let more = !want.and(cx.source(work).caps().attributes.sets).is_empty();
    let bare = |n: &Named| n.entry.is_bare() || (more && n.entry.xattrs.is_none()) || (follow && n.entry.kind == Kind::Link);
    let leaves: Vec<&[u8]> = names.iter().filter(|n| bare(n)).map(|n| &*n.entry.name.leaf).collect();
    let look = || look_up(cx.source(work), &work.dir, &leaves, want, follow);
    // Most listings say all there is to know: no look at the clock for nothing.
    let looked = if leaves.is_empty() { Vec::new() } else { cx.out.timed(|times| &mut times.source_listing, look) };
    let mut looked = looked.into_iter();
    let dir_path = (!cx.job.filter.is_empty()).then(|| work.dir.path());
    let mut found = crate::report::Kinds::default();
    let before = names.len();
    names.retain_mut(|named| {
        if bare(named) {
            // The filter could not judge it before.
            let late_kind = named.entry.kind == Kind::Unknown || (follow && named.entry.kind == Kind::Link);
            // What leads nowhere is no directory.
            let excluded = |named: &Named| {
                let verdict = |dir: &Vec<u8>| cx.job.filter.check_with(dir, &named.entry.name.leaf, false);
                late_kind && dir_path.as_ref().map(verdict) == Some(Verdict::Exclude)
            };
            match looked.next() {
                Some(Found::Entry(entry)) => named.entry = entry,
                Some(Found::Failed(_) | Found::Absent) | None if excluded(named) => return false,
                Some(Found::Failed(e)) => {
                    let e = e.on(&named.entry.name);
                    match follow {
                        // The link is there; that it leads nowhere is not something that happened meanwhile.
                        true => cx.out.fail(&e, named.entry.kind),
                        false => cx.out.fail_source(e, named.entry.kind),
                    }
                    return false;
                }
                Some(Found::Absent) | None => {
                    absent(cx, work, &named.entry, late_kind);
                    return false;
                }
            }
            let entry = &named.entry;
            if late_kind
                && let Some(dir) = &dir_path
                && cx.job.filter.check_with(dir, &entry.name.leaf, entry.kind == Kind::Dir) == Verdict::Exclude
            {
                return false;
            }
        }
        let entry = &mut named.entry;
        found.add(entry.kind, 1);
        if let Some(why) = passed_over(cx, work, entry) {
            cx.out.left_behind(entry.kind);
            let is_named = work.dir.is_root() && matches!(cx.job.roots[work.root].pick, Pick::Names(_));
            if is_named && entry.kind.is_special() {
                let e = Error::new(ErrorKind::Unsupported, "copy").on(&entry.name).because("is a special file");
                cx.out.fail(&e.hint("-D (or -a) creates it at the destination"), entry.kind);
            } else if why == Why::NotAsked && entry.kind != Kind::File {
                cx.out.report().skipped.add(entry.kind, 1);
                cx.out.item(Action::Skip, why, entry);
            }
            return false;
        }
        cx.transform(work.root, entry);
        true
    });
    plans.next.done += before - names.len();
    cx.out.tally.found.fetch_add(found.total(), Ordering::Relaxed);
    cx.out.report().found += found;
}

/// A name of the source that is not there any more, or never was.
fn absent(cx: &Context, work: &DirWork, entry: &Entry, late_kind: bool) {
    let asked = matches!(cx.job.roots[work.root].pick, Pick::Names(_) | Pick::Listed(_)) && late_kind;
    let kind = if asked { ErrorKind::NotFound } else { ErrorKind::Vanished };
    let mut e = Error::new(kind, "read").on(&entry.name);
    if cx.job.links.follow && !asked && entry.kind == Kind::Link {
        e = e.kind_is(ErrorKind::NotFound).because("the symlink points to nothing");
    } else if asked {
        e = e.because("no such file or directory");
    }
    cx.out.fail(&e, entry.kind);
}

/// Why an entry is not even compared; `None` if it is.
fn passed_over(cx: &Context, work: &DirWork, entry: &Entry) -> Option<Why> {
    let links = cx.job.links;
    let caps = cx.target().caps();
    // What was named itself is refused, not left out.
    let named = work.dir.is_root() && matches!(cx.job.roots[work.root].pick, Pick::Names(_));
    match entry.kind {
        Kind::Link if !links.copy => Some(Why::NotAsked),
        Kind::Link if !caps.links && !named => Some(Why::NotAsked),
        Kind::Link if links.safe && !is_safe(&work.dir, entry.target.as_deref().unwrap_or_default()) => Some(Why::NotAsked),
        kind if kind.is_special() && !links.specials => Some(Why::NotAsked),
        Kind::Char | Kind::Block if !links.devices => Some(Why::NotAsked),
        Kind::File if !cx.job.bounds.admit(entry) => Some(Why::NotAsked),
        _ => None,
    }
}

/// rsync's rule for safe links: relative, and never above the top of the tree on the way. A `..` behind a name is unsafe, as the name
/// may be a symlink itself.
fn is_safe(dir: &Dir, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return false;
    }
    let (mut depth, mut has_name) = (i64::from(dir.depth()), false);
    for part in target.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        match part {
            b".." if has_name => return false,
            b".." => depth -= 1,
            _ => has_name = true,
        }
        if depth < 0 {
            return false;
        }
    }
    true
}

/// Whether the destination is to be asked about a name.
fn is_unknown(there: &DestinationState, want: MetaMask) -> bool {
    match there {
        DestinationState::Unknown => true,
        DestinationState::Absent => false,
        DestinationState::Listed(entry) => entry.is_bare() || (!want.is_empty() && entry.xattrs.is_none()),
    }
}

/// What stands at the destination under the names of which that is not known, in their order.
fn look_up_targets(cx: &Context, work: &DirWork, names: &[Named], want: MetaMask) -> Vec<Found> {
    let unknown = names.iter().filter(|named| is_unknown(&named.there, want));
    let leaves: Vec<&[u8]> = unknown.map(|named| cx.target_leaf(&named.entry.name)).collect();
    if leaves.is_empty() {
        return Vec::new();
    }
    cx.out.timed(|times| &mut times.target_listing, || look_up(cx.target(), &work.dir, &leaves, want, false))
}

/// One file by its path, for a name that had to wait: looked up and planned like any other.
pub fn copy_one(cx: &Arc<Context>, root: usize, path: &[u8]) {
    let Some(name) = Name::parse(&Dir::root(), path) else { return };
    let work = Arc::new(DirWork::top(root, name.dir.clone()));
    let asked = retry(|| cx.source(&work).stat(&name, cx.planner.keep)).map_err(Error::of_source);
    let lookup = asked.and_then(|mut entry| {
        cx.transform(root, &mut entry);
        let target = match retry(|| cx.target().stat(&cx.target_name(&name), cx.planner.keep)) {
            Ok(target) => Some(target),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        Ok((entry, target))
    });
    match lookup {
        Err(e) => cx.out.fail(&e.on(&name), Kind::File),
        Ok((entry, target)) => {
            let mut step = cx.planner.decide(&entry, target.as_ref());
            let mut staged = false;
            if cx.past_intents && target.is_some() && cx.past.unfinished(&work.dir.path(), cx.target_leaf(&name)) {
                step = Step { act: Act::File { replace: true }, why: Why::Unfinished };
                staged = true;
            }
            let mut plans = Plans::default();
            cx.sched.hold(&work);
            sort_out(cx, &work, entry, step, staged, &mut plans);
            plans.hand_on(cx, &work);
        }
    }
}
