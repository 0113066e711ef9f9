//! What a name comes to: the planner asked, and its answer sorted into the kinds of work there are.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Entry, Kind, MetaMask};
use crate::error::{Error, ErrorKind};
use crate::event::{Action, Warning, Why};
use crate::job::{Mode, Pick};
use crate::option_set::OptionSet;
use crate::plan::{Act, Step};
use crate::schedule::{DirWork, PendingDir, Planned};
use crate::store::{Found, WriteStyle, check_destination, check_source};

use super::aliases::{is_by_itself, is_one_file, link, link_later};
use super::context::{Context, SMALL};
use super::dirs::is_the_destination;
use super::file::open_file::OpenFile;
use super::hardlinks::Role;
use super::references::{References, candidates};
use super::task::{Effect, Small, Work};
use super::tries::retry;

/// What a batch of names came to.
#[derive(Default)]
pub struct Plans {
    pub next: Planned<Work>,
    /// Right already, counted here and reported all at once.
    kept: crate::report::Kinds,
    /// Left as they are, right or not: the same for them.
    passed_over: crate::report::Kinds,
    /// What each reference tree has of them.
    pub references: Vec<References>,
}

impl Plans {
    fn keep(&mut self, cx: &Context, why: Why, entry: &Entry) {
        let count = if why.is_policy() { &mut self.passed_over } else { &mut self.kept };
        count.add(entry.kind, 1);
        cx.out.keep(why, entry);
    }

    pub fn hand_on(self, cx: &Context, work: &Arc<DirWork>) {
        cx.out.tally.kept.fetch_add(self.kept.total(), Ordering::Relaxed);
        cx.out.report().leave(self.kept, self.passed_over);
        cx.sched.planned(work, self.next);
    }
}

/// Asks the planner about one name and sorts the answer into the kinds of work there are.
pub fn plan_one(cx: &Context, work: &Arc<DirWork>, mut entry: Entry, target: Option<Entry>, plans: &mut Plans) {
    first_attributes(cx, work.root, &mut entry);
    // With several ranks the one that links the names counts them.
    if cx.job.remove_source && has_names(cx, &entry) && cx.ranks.is_none() {
        cx.post_pass.met(&cx.out, entry.ino);
    }
    if let Some(target) = &target
        && entry.kind != Kind::Dir
        && entry.kind == target.kind
        && entry.ino != 0
        && cx.ends.is_one_inode(&entry, target)
    {
        plans.next.done += 1;
        // Named by the user it is a mistake; met in two trees that share files it is as it should be.
        let named = work.dir.is_root() && matches!(cx.job.roots[work.root].pick, Pick::Names(_));
        if cx.job.mode == Mode::Copy && (named || cx.job.remove_source) {
            let e = Error::new(ErrorKind::Usage, "copy").on(&entry.name);
            return cx.out.fail(&e.because("source and destination are the same file"), entry.kind);
        }
        return plans.keep(cx, Why::SameFile, &entry);
    }
    if let Some(target) = &target
        && leads_to(cx, work, &entry, target)
    {
        plans.next.done += 1;
        let e = Error::new(ErrorKind::Usage, "replace").on(&entry.name).because("the source is a symlink to this file of the destination");
        return cx.out.fail(&e.hint("a copy of the link would replace what it points to"), entry.kind);
    }
    let op = if cx.job.mode == Mode::Check { "check" } else { "create" };
    let renamed = cx.job.rename.is_some().then(|| Entry { name: cx.target_name(&entry.name), ..entry.clone() });
    let admitted = || check_destination(cx.target().caps(), renamed.as_ref().unwrap_or(&entry), op);
    if let Err(e) = check_source(cx.source(work).caps(), &entry, op).and_then(|()| admitted()) {
        plans.next.done += 1;
        return cx.out.fail(&e, entry.kind);
    }
    if work.root > 0
        && entry.kind != Kind::Dir
        && let Some(asked) = shadowed(cx, work, &entry, target.as_ref())
    {
        plans.next.done += 1;
        match asked {
            Ok(()) => {
                let shown = crate::entry::show(&entry.name.path());
                cx.out.warn(Warning::Note(format!("{shown}: skipped: an earlier source has this name")));
            }
            Err(e) => {
                let e = e.on(&entry.name).kind_is(ErrorKind::Denied);
                cx.out.fail(&e.hint("skipped: an earlier source may have this name and could not be read"), entry.kind);
            }
        }
        cx.out.left_behind(entry.kind);
        return plans.keep(cx, Why::Shadowed, &entry);
    }
    let renames = cx.job.roots[work.root].renames.is_some();
    if renames && target.is_none() && cx.planner.decide(&entry, None).act != Act::Keep {
        return plans.next.effects.push(Effect::Rename(entry));
    }
    decide(cx, work, entry, target, plans);
}

/// Whether an entry is a file with several names, which are to be one file at the destination, too.
fn has_names(cx: &Context, entry: &Entry) -> bool {
    cx.job.links.hard && !matches!(entry.kind, Kind::Dir | Kind::Unknown) && entry.nlink > 1
}

/// The same once it is known that the name is not given away.
pub fn decide(cx: &Context, work: &Arc<DirWork>, entry: Entry, target: Option<Entry>, plans: &mut Plans) {
    if entry.kind == Kind::Dir && cx.job.rename.is_some() && work.dir.is_root() {
        plans.next.done += 1;
        let e = Error::new(ErrorKind::Unsupported, "rename")
            .on(&entry.name)
            .because("a directory gets another name only within one file system");
        return cx.out.fail(&e.hint("copy or move its contents: write a slash behind it"), entry.kind);
    }
    let mut step = cx.planner.decide(&entry, target.as_ref());
    if let (Act::Enter { exists: true, attributes: false }, Some(target)) = (step.act, &target)
        && cx.job.mode == Mode::Copy
        && cx.lacks_marker(work.root, &entry, target)
    {
        step = Step { act: Act::Enter { exists: true, attributes: true }, why: Why::Attributes(MetaMask::NONE) };
    }
    let mut staged = false;
    if cx.past_intents
        && entry.kind == Kind::File
        && target.as_ref().is_some_and(|target| target.kind == Kind::File)
        && cx.past.unfinished(&work.dir.path(), cx.target_leaf(&entry.name))
    {
        step = Step { act: Act::File { replace: true }, why: Why::Unfinished };
        staged = true;
    }
    if cx.job.mode == Mode::Check {
        return plan_check(cx, work, entry, target, step, plans);
    }
    match target {
        Some(target) if step.act == Act::Clear => plans.next.effects.push(Effect::Clear { entry, target }),
        Some(target) if matches!(step.act, Act::Enter { exists: true, .. }) && is_shut(cx, &target) => {
            plans.next.effects.push(Effect::Open { entry, target, step })
        }
        target => place(cx, work, entry, target.as_ref(), step, staged, plans),
    }
}

/// A directory of ours that is closed to us, as an earlier run left it.
fn is_shut(cx: &Context, target: &Entry) -> bool {
    let ordinary_user = cx.planner.groups.is_some();
    ordinary_user && cx.writes() && cx.planner.keep.has(MetaMask::MODE) && target.mode & 0o300 != 0o300
}

/// The way is clear: whether the name is one of several of a file, has its like in a reference tree, or stands for itself.
pub fn place(cx: &Context, work: &Arc<DirWork>, entry: Entry, target: Option<&Entry>, step: Step, staged: bool, plans: &mut Plans) {
    // A name that the policy leaves as it is neither leads nor follows.
    let left = step.act == Act::Keep && matches!(step.why, Why::Policy | Why::Newer);
    let has_names = has_names(cx, &entry) && !left;
    if has_names {
        // The run before this one may have chosen another of its names: what it copied is found first.
        let unsure = cx.past.is_rerun() && cx.writes() && matches!(step.act, Act::File { .. } | Act::Compare);
        // Another rank may meet another of its names.
        let unsure = unsure || cx.ranks.is_some();
        let role = if unsure { Role::Later } else { cx.hard().meet(&entry, || entry.name.path()) };
        match role {
            Role::Leader => {}
            Role::Follower(_) if target.is_some_and(|target| is_by_itself(&entry, target, step.act)) => {}
            Role::Follower(leader) => {
                plans.next.done += 1;
                return link(cx, work, &leader, &entry, target);
            }
            Role::Later => {
                plans.next.done += 1;
                return link_later(cx, work, &entry);
            }
        }
    }
    if target.is_none() && !matches!(entry.kind, Kind::Dir | Kind::Unknown) && cx.job.mode == Mode::Copy {
        let (equal, maybe) = candidates(cx, &entry, &plans.references);
        if !equal.is_empty() {
            return plans.next.effects.push(Effect::Link { entry, step, equal });
        }
        if !maybe.is_empty() {
            cx.out.planned(&entry);
            return plans.next.large.push(OpenFile::linkable(&cx.job, work, entry, step, maybe));
        }
    }
    sort_out(cx, work, entry, step, staged, plans);
}

/// Whether a symlink of the source points to the file that it would replace.
fn leads_to(cx: &Context, work: &DirWork, entry: &Entry, target: &Entry) -> bool {
    let may = entry.kind == Kind::Link && target.kind == Kind::File && cx.ends.same_system && cx.job.mode == Mode::Copy;
    let leaf: &[u8] = &entry.name.leaf;
    may && matches!(
        cx.source(work).stat_many(&entry.name.dir, &[leaf], MetaMask::NONE, true).pop(),
        Some(Found::Entry(found)) if is_one_file(&found, target)
    )
}

/// Whether an earlier source has something of this name: an error where it may have and cannot be asked. One that is moved has lost it
/// by now; then what this run has put there is its.
fn shadowed(cx: &Context, work: &DirWork, entry: &Entry, target: Option<&Entry>) -> Option<crate::Result<()>> {
    // The clock of a file server may be another.
    const AN_HOUR: u64 = 3_600_000_000_000;
    let before = cx.clock.began_at.saturating_sub(AN_HOUR);
    let is_old = |target: &Entry| target.ctime != 0 && target.ctime < before && !cx.past.is_rerun();
    let earlier = || cx.job.roots[..work.root].iter().any(|root| root.pick.means(&entry.name));
    if cx.job.remove_source && target.is_some_and(|target| target.kind != Kind::Dir && !is_old(target)) && earlier() {
        return Some(Ok(()));
    }
    cx.job.roots[..work.root].iter().filter(|root| root.pick.means(&entry.name)).find_map(|root| {
        match retry(|| root.store.stat(&entry.name, MetaMask::NONE)) {
            Ok(_) => Some(Ok(())),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished) => None,
            Err(e) => Some(Err(e)),
        }
    })
}

/// A directory that an earlier source has, too, gets its attributes from there.
pub fn first_attributes(cx: &Context, root: usize, entry: &mut Entry) {
    if entry.kind != Kind::Dir {
        return;
    }
    let earlier = cx.job.roots[..root].iter().enumerate().filter(|(_, root)| root.pick.means(&entry.name));
    let first = earlier.filter_map(|(i, root)| match retry(|| root.store.stat(&entry.name, cx.planner.keep)) {
        Ok(first) => Some((i, first)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished) => None,
        Err(e) => {
            let e = e.on(&entry.name).kind_is(ErrorKind::Denied);
            cx.out.fail(&e.hint("an earlier source may have this directory, with other attributes, and could not be read"), Kind::Dir);
            None
        }
    });
    if let Some((i, mut first)) = first.into_iter().find(|(_, first)| first.kind == Kind::Dir) {
        cx.transform(i, &mut first);
        *entry = Entry { name: entry.name.clone(), dev: entry.dev, ino: entry.ino, ..first };
    }
}

fn plan_check(cx: &Context, work: &Arc<DirWork>, entry: Entry, target: Option<Entry>, step: Step, plans: &mut Plans) {
    if entry.kind == Kind::Dir && cx.made_of_names() {
        plans.kept.add(Kind::Dir, 1);
        return plans.next.dirs.push(pending(cx, work, entry, false, target.is_none(), false));
    }
    let Some(_) = target else {
        cx.out.report().missing += 1;
        cx.out.item(Action::Missing, Why::New, &entry);
        return match entry.kind {
            Kind::Dir => plans.next.dirs.push(pending(cx, work, entry, false, true, false)),
            _ => plans.next.done += 1,
        };
    };
    match step.act {
        Act::Enter { .. } => {
            if matches!(step.why, Why::Attributes(_)) && cx.job.keep.without(MetaMask::MTIME) != MetaMask::NONE {
                cx.out.differs(step.why, &entry);
            } else {
                plans.kept.add(Kind::Dir, 1);
            }
            plans.next.dirs.push(pending(cx, work, entry, false, false, false));
        }
        Act::Compare => plans.next.large.push(OpenFile::new(&cx.job, work, entry, step)),
        Act::Keep => {
            plans.next.done += 1;
            plans.keep(cx, step.why, &entry);
        }
        _ => {
            plans.next.done += 1;
            cx.out.differs(step.why, &entry);
        }
    }
}

fn pending(cx: &Context, work: &Arc<DirWork>, entry: Entry, make: bool, fresh: bool, attributes: bool) -> PendingDir {
    let mount = cx.job.one_file_system && work.entry.as_ref().is_some_and(|above| above.dev != entry.dev);
    // A mount point is made and not entered: that is no recursion.
    let barred = !mount && cx.job.avoid.contains(&(entry.dev, entry.ino)) && entry.ino != 0;
    if barred {
        cx.out.fail(&is_the_destination(&entry.name), Kind::Dir);
    }
    let unlisted = matches!(cx.job.roots[work.root].pick, Pick::Listed(_)) && !cx.job.recurse_listed;
    let (make, attributes) = (make && !barred, attributes && !barred);
    let differ = MetaMask::NONE;
    PendingDir { parent: work.clone(), entry, make, fresh, attributes, differ, closed: mount || barred || unlisted }
}

pub fn sort_out(cx: &Context, work: &Arc<DirWork>, entry: Entry, step: Step, staged: bool, plans: &mut Plans) {
    let small = |entry, step| Small { entry, step, staged };
    match step.act {
        Act::Enter { exists, attributes } => {
            if cx.made_of_names() || !cx.marks(work.root, &entry) {
            } else if !cx.writes() && !exists {
                cx.out.made_dir(&entry);
            } else if !cx.writes() && attributes {
                cx.out.set_meta(step.why, &entry);
            } else if exists && !attributes && !cx.refreshes_markers(work.root) {
                plans.keep(cx, step.why, &entry);
            }
            let dir = pending(cx, work, entry, !exists, !exists, attributes);
            plans.next.dirs.push(PendingDir { differ: step.why.attributes(), ..dir });
        }
        // Its source goes too, but not on the word of size and time: the content is compared first.
        Act::Keep | Act::SetMeta if removes_equal(cx, step) && entry.kind == Kind::File => {
            cx.out.planned(&entry);
            plans.next.large.push(OpenFile::new(
                &cx.job,
                work,
                entry,
                Step { act: Act::Compare, why: Why::Content(step.why.attributes()) },
            ));
        }
        // A link or a special file is all that its entry says.
        Act::Keep if removes_equal(cx, step) => {
            plans.keep(cx, step.why, &entry);
            plans.next.effects.push(Effect::RemoveSource(entry));
        }
        Act::Keep if step.why == Why::Same && entry.kind == Kind::File && cx.target().extensions().options.are_set() => {
            plans.next.small.push(small(entry, Step { act: Act::SetMeta, why: Why::Same }));
        }
        // Also in a dry run: what it lacks is asked for.
        Act::SetMeta if entry.kind == Kind::File && cx.target().extensions().options.are_set() => plans.next.small.push(small(entry, step)),
        Act::Keep => {
            plans.next.done += 1;
            cx.out.left_behind(entry.kind);
            plans.keep(cx, step.why, &entry);
        }
        Act::Refuse | Act::Clear => {
            plans.next.done += 1;
            let e = Error::new(ErrorKind::Usage, "replace").on(&entry.name).because("an entry of another type is in the way");
            cx.out.fail(&e, entry.kind);
        }
        Act::Compare => {
            cx.out.planned(&entry);
            cx.out.tally.compared_bytes.fetch_add(entry.size, Ordering::Relaxed);
            plans.next.large.push(OpenFile::new(&cx.job, work, entry, step));
        }
        _ if !cx.writes() => {
            plans.next.done += 1;
            if matches!(step.act, Act::File { .. }) {
                cx.out.planned(&entry);
                cx.out.report().file_bytes += entry.size;
            }
            match step.act {
                Act::SetMeta => cx.out.report().set_attributes(OptionSet::NONE),
                _ => cx.out.report().made.add(entry.kind, 1),
            }
            cx.out.item(step.action(entry.kind), step.why, &entry);
        }
        Act::File { replace } => {
            cx.out.planned(&entry);
            let sparse = cx.job.sparse && entry.is_sparse() && entry.size >= 64 << 10;
            // What is replaced stands until the new file is verified: in a bundle under its staging name, else alone.
            let verified_first = cx.job.verify && !cx.holds(&entry) && !matches!(cx.target().caps().write, WriteStyle::Parts { .. });
            let alone = replace && (cx.job.in_place || cx.job.backup.is_some() || verified_first);
            let whole = entry.size <= SMALL && !cx.source(work).caps().streams && !sparse && !cx.copies(work, entry.size) && !alone;
            if replace && !cx.job.in_place {
                cx.warn_of_gap();
            }
            match whole {
                true => plans.next.small.push(small(entry, step)),
                false => plans.next.large.push(OpenFile::new(&cx.job, work, entry, step)),
            }
        }
        Act::Node { .. } | Act::SetMeta => plans.next.small.push(small(entry, step)),
    }
}

/// Whether a move removes the source of an entry that the destination has already, but for attributes perhaps.
fn removes_equal(cx: &Context, step: Step) -> bool {
    cx.job.remove_source && cx.writes() && matches!(step.why, Why::Same | Why::Attributes(_))
}
