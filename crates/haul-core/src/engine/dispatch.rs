//! Which stage does which task.

use std::cell::RefCell;
use std::sync::Arc;

use crate::bundle::Bundle;
use crate::retry;

use super::context::Context;
use super::task::{Reply, Task};
use super::{dirs, effects, file, lookup, small, verify, walk};

/// Does one task and takes it off the scheduler's books. `true` if nothing is left to do.
pub fn perform(cx: &Arc<Context>, task: Task) -> bool {
    let lane = task.lane();
    match task {
        Task::Feed(root) => walk::feed(cx, root),
        Task::Make(dirs) => dirs::make(cx, dirs),
        Task::List(work) => walk::list(cx, &work),
        Task::Look(work, names) => lookup::look(cx, &work, names),
        Task::Effects(work, effects) => effects::perform(cx, &work, effects),
        Task::Small(work, items) => with_bundle(cx, |bundle| small::perform(cx, &work, items, bundle)),
        Task::File(file) => file::run::perform(cx, &file),
        Task::Finish(works) => dirs::finish(cx, works),
        Task::Lost(e) => cx.out.spilled(Err(e)),
        Task::Reply(work, reply) => {
            match reply {
                Reply::Done { touched: true } => work.touch(),
                Reply::Chunks(file, left) => {
                    let _tried = retry::count_on(file.spent());
                    file::part::returned(cx, &file, left);
                }
                Reply::Done { touched: false } | Reply::Nothing => {}
            }
            cx.sched.items_done(&work, 1);
        }
        Task::Verify(checks) => with_bundle(cx, |bundle| verify::perform(cx, checks, bundle)),
    }
    let idle = cx.sched.done(lane);
    if let Some(ranks) = &cx.ranks {
        ranks.after_task(cx, idle);
    }
    idle
}

/// With this worker's buffer for small files.
fn with_bundle(cx: &Context, perform: impl FnOnce(&mut Bundle)) {
    thread_local! {
        static BUNDLE: RefCell<Bundle> = RefCell::default();
    }
    BUNDLE.with_borrow_mut(|bundle| {
        perform(bundle);
        bundle.clear();
        // Many workers with one file each must not hold a mebibyte each; a few keep theirs warm.
        if cx.sched.workers() > 16 {
            bundle.data.shrink_to(64 << 10);
        }
    });
}
