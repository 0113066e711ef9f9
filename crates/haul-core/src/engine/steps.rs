//! A job of several ranks: the walk, shared as leases, and then the steps that all do together, each when all are done with the
//! one before. Rank 0 leads.
//!
//! ```text
//! walk      rank 0 feeds the roots; done when all that was given away has been confirmed
//! flush     names of files with several names are at the rank that their inode chooses
//! links     that rank copies the first name of each and links the others
//! count     rank 0 learns whether anything failed and how much would be deleted
//! delete    each rank deletes what it has found, if rank 0 lets it
//! dirs      directories that had to wait; rank 0 gets those that close themselves, and those to be removed
//! end       reports
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::team::message::{Pile, Tally};

use super::context::Context;
use super::deletes::{are_allowed, count, is_limited, is_nothing_listed, remove_marked, topmost};
use super::links::{hard_links, late_leaders};
use super::post_pass::sorted;
use super::ranks::Ranks;
use super::sources::remove_linked;
use super::supervise::Supervisor;
use super::{after, emptied, feed};
use crate::entry::Kind;

const FLUSH: u32 = 1;
const LINKS: u32 = 2;
const COUNT: u32 = 3;
const DELETE: u32 = 4;
const DIRS: u32 = 5;
const END: u32 = 6;

/// `false` if the run was stopped.
pub fn run(cx: &Arc<Context>, ranks: &Ranks, supervisor: &mut Supervisor) -> bool {
    if let Err(e) = ranks.start(cx, supervisor.shared().clone()) {
        cx.out.fail(&e, Kind::Unknown);
        cx.cancel.set(crate::cancel::Stop::Failure);
        return false;
    }
    let done = if ranks.leads() { lead(cx, ranks, supervisor) } else { follow(cx, ranks, supervisor) };
    done.is_some() && !cx.cancel.is_set()
}

/// `None` if the run was stopped.
fn lead(cx: &Arc<Context>, ranks: &Ranks, supervisor: &mut Supervisor) -> Option<()> {
    feed(cx, supervisor).then_some(())?;
    if cx.job.links.hard {
        let mut linked = HashMap::new();
        for tally in together(cx, ranks, supervisor, FLUSH, &linked.clone())? {
            tally.linked.into_iter().for_each(|(rank, count)| *linked.entry(rank).or_default() += count);
        }
        together(cx, ranks, supervisor, LINKS, &linked)?;
    }
    if cx.job.deletion.is_some() {
        let tallies = together(cx, ranks, supervisor, COUNT, &HashMap::new())?;
        let sum = |number: fn(&Tally) -> u64| tallies.iter().map(number).sum::<u64>();
        let (topmost, matched, counted) = (sum(|tally| tally.topmost), sum(|tally| tally.matched), sum(|tally| tally.deletes));
        let listed = sum(|tally| tally.listed);
        if topmost > 0 && !is_nothing_listed(cx, topmost, listed) && are_allowed(cx, topmost, matched, counted) {
            together(cx, ranks, supervisor, DELETE, &HashMap::new())?;
        }
    }
    together(cx, ranks, supervisor, DIRS, &HashMap::new())?;
    let mut aside = |phase, work: fn(&Arc<Context>)| supervisor.aside(phase, work).then_some(());
    aside("finishing", after::leftovers)?;
    aside("finishing", after::directories)?;
    cx.sched.last_feed();
    supervisor.until_idle("finishing").then_some(())?;
    supervisor.aside("removing", emptied::remove).then_some(())?;
    ranks.begin_step(cx, END, &HashMap::new());
    Some(())
}

/// All ranks do a step, this one too; what they know after it.
fn together(cx: &Arc<Context>, ranks: &Ranks, supervisor: &mut Supervisor, step: u32, linked: &HashMap<u32, u64>) -> Option<Vec<Tally>> {
    ranks.begin_step(cx, step, linked);
    let own = perform(cx, ranks, supervisor, step, linked.get(&0).copied().unwrap_or(0))?;
    supervisor.until("waiting for other ranks", || ranks.all_done()).then_some(())?;
    let tallies: Vec<Tally> = ranks.tallies().into_iter().map(|(_, tally)| tally).chain([own]).collect();
    if tallies.iter().any(|tally| tally.impaired) {
        cx.out.impaired.store(true, Ordering::Relaxed);
    }
    Some(tallies)
}

fn follow(cx: &Arc<Context>, ranks: &Ranks, supervisor: &mut Supervisor) -> Option<()> {
    loop {
        let mut next = None;
        let asked = || {
            next = ranks.take_step();
            next.is_some()
        };
        supervisor.until("copying", asked).then_some(())?;
        let (step, linked) = next?;
        if step == END {
            cx.sched.last_feed();
            return Some(());
        }
        let tally = perform(cx, ranks, supervisor, step, linked)?;
        ranks.end_step(cx, step, tally, (supervisor.counts(), supervisor.work(ranks)));
    }
}

/// This rank's part of a step. `None` if the run was stopped.
fn perform(cx: &Arc<Context>, ranks: &Ranks, supervisor: &mut Supervisor, step: u32, linked: u64) -> Option<Tally> {
    let mut tally = Tally::default();
    match step {
        FLUSH => tally.linked = ranks.flush(cx),
        LINKS => {
            supervisor.until("linking", || ranks.linked_received() >= linked).then_some(())?;
            supervisor.aside("linking", late_leaders).then_some(())?;
            supervisor.aside("linking", hard_links).then_some(())?;
            supervisor.aside("removing", remove_linked).then_some(())?;
        }
        COUNT => {
            tally.topmost = topmost(cx);
            if is_limited(cx) && tally.topmost > 0 {
                supervisor.aside("deleting", count).then_some(())?;
            }
            tally.deletes = cx.post_pass.counted.load(Ordering::Relaxed);
            tally.matched = cx.post_pass.matched.load(Ordering::Relaxed);
            tally.listed = cx.post_pass.listed.load(Ordering::Relaxed);
        }
        DELETE => supervisor.aside("deleting", remove_marked).then_some(())?,
        DIRS if !ranks.leads() => {
            supervisor.aside("finishing", after::directories).then_some(())?;
            supervisor.aside("finishing", leave_emptied).then_some(())?;
        }
        _ => {}
    }
    tally.impaired = cx.out.impaired.load(Ordering::Relaxed);
    Some(tally)
}

/// A directory can go when those in it are gone, whoever was in them: rank 0 removes them all, the deepest first.
fn leave_emptied(cx: &Arc<Context>) {
    let Some(ranks) = &cx.ranks else { return };
    for record in sorted(&cx.post_pass.emptied, &cx.out) {
        ranks.leave(cx, Pile::Emptied, &record);
    }
    ranks.flush(cx);
}
