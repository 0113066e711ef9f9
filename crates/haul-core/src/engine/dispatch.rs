//! Which stage does which task.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bundle::Bundle;
use crate::report::Report;
use crate::schedule::DirWork;

use super::context::Context;
use super::task::Task;
use super::{dirs, effects, file, look, small, verify, walk};

/// Does one task and takes it off the scheduler's books. `true` if nothing is left to do.
pub fn perform(cx: &Arc<Context>, task: Task) -> bool {
    thread_local! {
        static BUNDLE: RefCell<Bundle> = RefCell::default();
    }
    let lane = task.lane();
    match task {
        Task::Feed(root) => walk::feed(cx, root),
        Task::Make(dirs) => dirs::make(cx, dirs),
        Task::List(work) => walk::list(cx, &work),
        Task::Look(work, names) => look::look(cx, &work, names),
        Task::Effects(work, effects) => effects::perform(cx, &work, effects),
        Task::Small(work, items) => BUNDLE.with_borrow_mut(|bundle| {
            small::perform(cx, &work, items, bundle);
            bundle.clear();
            // Many workers with one file each must not hold a mebibyte each; a few keep theirs warm.
            if cx.sched.workers() > 16 {
                bundle.data.shrink_to(64 << 10);
            }
        }),
        Task::File(file) => file::run::perform(cx, &file),
        Task::Finish(works) => dirs::finish(cx, works),
        Task::Lost(e) => cx.out.spilled(Err(e)),
        Task::Reply(work, done) => add(cx, &work, *done),
        Task::Verify(checks) => verify::perform(cx, checks),
    }
    cx.sched.done(lane)
}

/// What another process did below `work`: nothing is deleted if something failed there, as if it had been here.
fn add(cx: &Context, work: &Arc<DirWork>, done: Report) {
    if done.failed > 0 {
        cx.out.impaired.store(true, Ordering::Relaxed);
    }
    *cx.out.report() += done;
    cx.sched.items_done(work, 1);
}
