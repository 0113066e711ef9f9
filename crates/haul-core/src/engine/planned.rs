//! What a name comes to: the planner asked, and its answer sorted into the kinds of work there are.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::entry::{Entry, Kind, MetaMask};
use crate::error::{Error, ErrorKind};
use crate::event::{Action, Warning, Why};
use crate::job::{Mode, Pick};
use crate::plan::{Act, Compare, Step};
use crate::schedule::{DirWork, PendingDir, Small};
use crate::store::{MetaSpec, WriteStyle, admits, tells};

use super::context::{Context, SMALL};
use super::file::OpenFile;
use super::hardlinks::Role;
use super::merge::is_meant;
use super::walk::{would_make_dir, would_set_meta};

/// What a lot of names came to.
#[derive(Default)]
pub(super) struct Planned {
    pub small: Vec<Small>,
    pub large: Vec<Arc<OpenFile>>,
    pub dirs: Vec<PendingDir>,
    pub done: usize,
    /// Right already, counted here and told all at once.
    pub kept: crate::report::Kinds,
    /// What each tree of `--link-dest` has.
    pub references: Vec<References>,
}

/// Entries by their leaf.
pub(super) type References = HashMap<Vec<u8>, Entry>;

impl Planned {
    fn keep(&mut self, cx: &Context, why: Why, entry: &Entry) {
        self.kept.add(entry.kind, 1);
        cx.keep(why, entry);
    }
}

/// Asks the planner about one name and sorts the answer into the kinds of work there are.
pub(super) fn plan_one(cx: &Arc<Context>, work: &Arc<DirWork>, entry: Entry, target: Option<Entry>, planned: &mut Planned) {
    if let Some(target) = &target
        && entry.kind != Kind::Dir
        && entry.kind == target.kind
        && entry.ino != 0
        && is_one_inode(cx, &entry, target)
    {
        planned.done += 1;
        // Named by the user it is a mistake; met in two trees that share files it is as it should be.
        let named = work.dir.is_root() && matches!(cx.job.roots[work.root].pick, Pick::Names(_));
        if cx.job.mode == Mode::Copy && (named || cx.job.remove_source) {
            let e = Error::new(ErrorKind::Usage, "copy").on(&entry.name);
            return cx.fail(&e.because("source and destination are the same file"), entry.kind);
        }
        return planned.keep(cx, Why::SameFile, &entry);
    }
    if let Err(e) = tells(cx.source(work).caps(), &entry).and_then(|()| admits(cx.target().caps(), &entry)) {
        planned.done += 1;
        return cx.fail(&e, entry.kind);
    }
    if work.root > 0
        && entry.kind != Kind::Dir
        && let Some(asked) = shadowed(cx, work, &entry)
    {
        planned.done += 1;
        match asked {
            Ok(()) => {
                let shown = crate::entry::show(&entry.name.path());
                cx.warn(Warning::Note(format!("{shown}: left out: an earlier source has this name")));
            }
            Err(e) => {
                let e = e.on(&entry.name).kind_is(ErrorKind::Denied);
                cx.fail(&e.hint("left out: an earlier source may have this name and could not be asked"), entry.kind);
            }
        }
        cx.left_behind(entry.kind);
        return planned.keep(cx, Why::Shadowed, &entry);
    }
    if target.is_none() && handed_over(cx, work, &entry) {
        planned.done += 1;
        return;
    }
    let mut step = cx.planner.decide(&entry, target.as_ref());
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
        return plan_check(cx, work, entry, target, step, planned);
    }
    if step.act == Act::Clear {
        step = match super::replace::clear(cx, work, &entry, target.clone()) {
            Ok(step) => step,
            Err(e) => {
                planned.done += 1;
                return cx.fail(&e, entry.kind);
            }
        };
    } else if let (Act::Enter { exists: true, .. }, Some(target)) = (step.act, &target) {
        open_up(cx, work, &entry, target.clone());
    }
    // A name that the policy leaves as it is neither leads nor follows.
    let left = step.act == Act::Keep && matches!(step.why, Why::Policy | Why::Newer);
    let has_names = cx.job.links.hard && !matches!(entry.kind, Kind::Dir | Kind::Unknown) && entry.nlink > 1 && !left;
    if has_names {
        // The run before this one may have chosen another of its names: what it copied is found first.
        if cx.past.is_rerun() && cx.writes() && matches!(step.act, Act::File { .. } | Act::Compare) {
            planned.done += 1;
            return cx.late.link_later(cx, work, &entry);
        }
        let role = cx.hard().meet(&entry, || entry.name.path());
        match role {
            Role::Leader => {}
            Role::Follower(leader) => {
                cx.late.link(cx, work, &leader, &entry, target.as_ref());
                planned.done += 1;
                return;
            }
            Role::Later => {
                cx.late.link_later(cx, work, &entry);
                planned.done += 1;
                return;
            }
        }
    }
    if target.is_none() && entry.kind == Kind::File && cx.job.mode == Mode::Copy {
        match linked(cx, work, &entry, &planned.references) {
            Linking::Done => {
                planned.done += 1;
                return;
            }
            Linking::Compare(candidates) => {
                count_planned(cx, &entry);
                return planned.large.push(OpenFile::linkable(cx, work, entry, step, candidates));
            }
            Linking::None => {}
        }
    }
    sort_out(cx, work, entry, step, staged, planned);
}

/// Whether what has the name at both ends is one inode. A move asks that of two hosts as well: they may be one, or have mounted
/// the same network file system, whose files have their numbers everywhere and whose devices (of major number 0) have not.
fn is_one_inode(cx: &Context, entry: &Entry, target: &Entry) -> bool {
    let same = (entry.dev, entry.ino) == (target.dev, target.ino);
    if cx.same_system || cx.same_host || !cx.job.remove_source {
        return cx.same_system && same;
    }
    let network = |dev: u64| rustix::fs::major(dev) == 0;
    entry.size == target.size && entry.ino == target.ino && (same || (network(entry.dev) && network(target.dev)))
}

/// `mv` on one file system: whether the name was given away, with all that is below it. What cannot be renamed is
/// copied and removed.
fn handed_over(cx: &Context, work: &DirWork, entry: &Entry) -> bool {
    let Some(hand_over) = &cx.job.roots[work.root].hand_over else { return false };
    if cx.planner.decide(entry, None).act == Act::Keep {
        return false;
    }
    work.touch();
    if hand_over(entry, &cx.target_name(&entry.name), cx.job.dry).is_err() {
        return false;
    }
    cx.report().renamed.add(entry.kind, 1);
    cx.item(Action::Rename, Why::New, entry);
    true
}

/// What `--link-dest` means for one new file.
enum Linking {
    /// It has its name.
    Done,
    /// These may have the same content, by their number in the job; reading both tells.
    Compare(Vec<(usize, Entry)>),
    None,
}

/// `--link-dest`: whether one of the reference trees had an equal file, which has this name now too. What cannot
/// be linked is copied.
fn linked(cx: &Context, work: &DirWork, entry: &Entry, references: &[References]) -> Linking {
    if cx.job.link_dest.is_empty() || cx.planner.decide(entry, None).act == Act::Keep {
        return Linking::None;
    }
    let leaf: &[u8] = cx.target_leaf(&entry.name);
    // Asked as if the reference stood at the destination, but for what is meant for things that do stand there.
    let mut planner = cx.planner.clone();
    (planner.policy.update, planner.policy.ignore_existing) = (false, false);
    // A link shares all attributes, the time too where only sizes are compared.
    let mut exact = planner.clone();
    exact.policy.compare = Compare::SizeAndTime;
    let mut candidates = Vec::new();
    for (i, known) in references.iter().enumerate() {
        let Some(there) = known.get(leaf).filter(|there| there.kind == Kind::File) else { continue };
        match planner.decide(entry, Some(there)) {
            _ if exact.attributes_differ(entry, there) => {}
            Step { act: Act::Compare, .. } => candidates.push((i, there.clone())),
            Step { act: Act::Keep, why: Why::Same } if link(cx, work, entry, (i, there)) => return Linking::Done,
            _ => {}
        }
    }
    if candidates.is_empty() { Linking::None } else { Linking::Compare(candidates) }
}

/// Gives an equal file of a reference tree the entry's name, too. `false` where that cannot be.
pub(super) fn link(cx: &Context, work: &DirWork, entry: &Entry, (reference, there): (usize, &Entry)) -> bool {
    if cx.writes() {
        work.touch();
        if cx.retry(|| (cx.job.link_dest[reference].link)(&there.name, &cx.target_name(&entry.name))).is_err() {
            return false;
        }
    }
    let mut report = cx.report();
    report.made.files += 1;
    report.hard_links += 1;
    drop(report);
    cx.item(Action::HardLink, Why::Same, entry);
    true
}

/// A directory of ours that is closed to us, as an earlier run left it, is opened: it gets its own mode again when
/// all that is in it is done. That this fails shows in what is made in it.
fn open_up(cx: &Context, work: &DirWork, entry: &Entry, mut target: Entry) {
    let ordinary_user = cx.planner.groups.is_some();
    if !ordinary_user || !cx.writes() || !cx.planner.keep.has(MetaMask::MODE) || target.mode & 0o300 == 0o300 {
        return;
    }
    target.mode |= 0o700;
    let name = cx.target_name(&entry.name);
    let spec = MetaSpec { name: &name, entry: &target, keep: MetaMask::MODE };
    let opened = cx.target().set_meta(&[spec]).pop().is_some_and(|set| set.is_ok_and(|landed| landed.refused.is_empty()));
    if opened {
        cx.late.reopened(cx, work, entry);
    }
}

/// Whether an earlier source has something of this name: an error where it may have and cannot be asked.
fn shadowed(cx: &Context, work: &DirWork, entry: &Entry) -> Option<crate::Result<()>> {
    cx.job.roots[..work.root].iter().filter(|root| is_meant(&root.pick, &entry.name)).find_map(|root| {
        match cx.retry(|| root.store.stat(&entry.name, MetaMask::NONE)) {
            Ok(_) => Some(Ok(())),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished) => None,
            Err(e) => Some(Err(e)),
        }
    })
}

fn plan_check(cx: &Arc<Context>, work: &Arc<DirWork>, entry: Entry, target: Option<Entry>, step: Step, planned: &mut Planned) {
    let Some(_) = target else {
        cx.report().missing += 1;
        cx.item(Action::Missing, Why::New, &entry);
        return match entry.kind {
            Kind::Dir => planned.dirs.push(pending(cx, work, entry, false, true, false)),
            _ => planned.done += 1,
        };
    };
    match step.act {
        Act::Enter { .. } => {
            if step.why == Why::Attributes && cx.job.keep.without(MetaMask::MTIME) != MetaMask::NONE {
                differs(cx, &entry, step.why);
            } else {
                planned.kept.add(Kind::Dir, 1);
            }
            planned.dirs.push(pending(cx, work, entry, false, false, false));
        }
        Act::Compare => planned.large.push(OpenFile::new(cx, work, entry, step)),
        Act::Keep => {
            planned.done += 1;
            planned.keep(cx, step.why, &entry);
        }
        _ => {
            planned.done += 1;
            differs(cx, &entry, step.why);
        }
    }
}

pub fn differs(cx: &Context, entry: &Entry, why: Why) {
    cx.report().differing += 1;
    cx.item(Action::Differs, why, entry);
}

fn pending(cx: &Context, work: &Arc<DirWork>, entry: Entry, make: bool, fresh: bool, attributes: bool) -> PendingDir {
    let mount = cx.job.one_file_system && work.entry.as_ref().is_some_and(|above| above.dev != entry.dev);
    let barred = cx.job.avoid.contains(&(entry.dev, entry.ino)) && entry.ino != 0;
    if barred {
        let e = Error::new(ErrorKind::Usage, "list").on(&entry.name).because("it is the destination itself, inside the source");
        cx.fail(&e.hint("exclude it or choose another destination"), Kind::Dir);
    }
    let unlisted = matches!(cx.job.roots[work.root].pick, Pick::Listed(_)) && !cx.job.recurse_listed;
    let (make, attributes) = (make && !barred, attributes && !barred);
    PendingDir { parent: work.clone(), entry, make, fresh, attributes, closed: mount || barred || unlisted }
}

pub(super) fn sort_out(cx: &Arc<Context>, work: &Arc<DirWork>, entry: Entry, step: Step, staged: bool, planned: &mut Planned) {
    let small = |entry, step| Small { entry, step, staged };
    match step.act {
        Act::Enter { exists, attributes } => {
            let made_of_names = !cx.target().caps().dirs && !cx.target().caps().markers;
            if made_of_names {
            } else if !cx.writes() && !exists {
                would_make_dir(cx, Why::New, &entry);
            } else if !cx.writes() && attributes {
                would_set_meta(cx, step.why, &entry);
            } else if exists && !attributes {
                planned.keep(cx, step.why, &entry);
            }
            planned.dirs.push(pending(cx, work, entry, !exists, !exists, attributes));
        }
        // Without inodes nobody knows whether the two are one file, reached in two ways: then both stay.
        Act::Keep | Act::SetMeta if removes_equal(cx, step) && entry.ino == 0 => {
            planned.done += 1;
            let e =
                Error::new(ErrorKind::Exists, "move").on(&entry.name).because("the destination has it already, and the source was kept");
            cx.fail(&e.hint("if they are two files, remove the source yourself"), entry.kind);
        }
        // Its source goes too, but not on the word of size and time: the content is compared first.
        Act::Keep | Act::SetMeta if removes_equal(cx, step) && entry.kind == Kind::File => {
            count_planned(cx, &entry);
            planned.large.push(OpenFile::new(cx, work, entry, Step { act: Act::Compare, why: Why::Content }));
        }
        // A link or a special file is all that its entry says.
        Act::Keep if removes_equal(cx, step) => {
            planned.done += 1;
            planned.keep(cx, step.why, &entry);
            super::small::remove_sources(cx, work, std::slice::from_ref(&entry));
        }
        Act::Keep => {
            planned.done += 1;
            cx.left_behind(entry.kind);
            planned.keep(cx, step.why, &entry);
        }
        Act::Refuse | Act::Clear => {
            planned.done += 1;
            let e = Error::new(ErrorKind::Usage, "replace").on(&entry.name).because("something of another kind is in the way");
            cx.fail(&e, entry.kind);
        }
        Act::Compare => {
            count_planned(cx, &entry);
            cx.tally.compared_bytes.fetch_add(entry.size, Ordering::Relaxed);
            planned.large.push(OpenFile::new(cx, work, entry, step));
        }
        _ if !cx.writes() => {
            planned.done += 1;
            if matches!(step.act, Act::File { .. }) {
                count_planned(cx, &entry);
                cx.report().file_bytes += entry.size;
            }
            match step.act {
                Act::SetMeta => cx.report().attributes += 1,
                _ => cx.report().made.add(entry.kind, 1),
            }
            cx.item(step.action(entry.kind), step.why, &entry);
        }
        Act::File { replace } => {
            count_planned(cx, &entry);
            let sparse = cx.job.sparse && entry.is_sparse() && entry.size >= 64 << 10;
            // What is replaced stands until the new file is verified: in a bundle under its staging name, else alone.
            let verified_first = cx.job.verify && !cx.holds(&entry) && !matches!(cx.target().caps().write, WriteStyle::Parts { .. });
            let alone = replace && (cx.job.in_place || cx.job.backup.is_some() || verified_first);
            let whole = entry.size <= SMALL && !sparse && !cx.copies(work) && !alone;
            match whole {
                true => planned.small.push(small(entry, step)),
                false => planned.large.push(OpenFile::new(cx, work, entry, step)),
            }
        }
        Act::Node { .. } | Act::SetMeta => planned.small.push(small(entry, step)),
    }
}

/// Whether a move removes the source of an entry that the destination has already, but for attributes perhaps.
fn removes_equal(cx: &Context, step: Step) -> bool {
    cx.job.remove_source && cx.writes() && matches!(step.why, Why::Same | Why::Attributes)
}

fn count_planned(cx: &Context, entry: &Entry) {
    cx.tally.planned_files.fetch_add(1, Ordering::Relaxed);
    cx.tally.planned_bytes.fetch_add(entry.size, Ordering::Relaxed);
}
