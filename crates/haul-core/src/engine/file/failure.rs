//! What becomes of a file that failed: it is done once more, or what landed of it is kept for the next run, or nothing is.

use std::sync::Arc;

use crate::engine::context::Context;
use crate::engine::space::explain;
use crate::engine::tries::look_up;
use crate::entry::{Entry, Kind};
use crate::error::{Error, ErrorKind, Remedy};
use crate::event::Warning;
use crate::plan::Step;
use crate::retry::Spent;
use crate::schedule::DirWork;
use crate::store::{Found, Receipt};

use super::open_file::{Ends, Kept, OpenFile};

pub fn failed(cx: &Context, file: &Arc<OpenFile>, ends: &Ends, entry: &Entry, receipts: Vec<Receipt>, e: Error) {
    // A stale handle may be good again once the file has been opened anew. What was tried as often as may be is given up.
    let curable = matches!(e.kind(), ErrorKind::Changed | ErrorKind::Corrupt) || (e.remedy() != Remedy::None && !e.kind().ends_the_run());
    // What can be read once only is neither done again nor gone on with.
    let streams = cx.source(&file.work).caps().streams;
    let once_more = curable && !streams && !e.is_exhausted() && !file.is_second_try();
    // What landed of an interrupted file, or of one that met a full disk, is kept for the next run.
    let keep = e.kind().ends_the_run() && cx.journal.keeps() && ends.session.is_some();
    // Where parts are kept by a service, one that failed is no reason to send the others again.
    let parts = cx.target().caps().durable && cx.target().caps().attach;
    let parts = parts
        && !matches!(e.kind(), ErrorKind::Changed | ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Vanished | ErrorKind::BadName);
    let keep = !streams && (keep || (parts && (once_more || (cx.journal.keeps() && ends.session.is_some()))));
    if !keep {
        if let Err(trouble) = ends.sink.abort() {
            cx.out.warn(Warning::Note(format!("{trouble}")));
        }
        if let Some(session) = ends.session {
            cx.journal.dropped(session);
        }
    }
    if once_more && !cx.cancel.is_set() {
        let kept = |fresh: &Entry| {
            let same = parts && fresh.stamp() == entry.stamp();
            let (token, stamp) = (ends.sink.token(), ends.stamp);
            same.then_some(Kept { token, chunk: ends.chunk, receipts, session: ends.session, stamp })
        };
        return match again(cx, &file.work, entry, file.step, e, kept) {
            Ok(()) => {}
            Err(e) => give_up(cx, file, e),
        };
    }
    give_up(cx, file, e);
}

/// Queues a file once more, as it is now, for what changed since it was listed or came out wrong. `kept` says what is good of the
/// first try.
///
/// # Errors
/// `Vanished` if it is gone, `e` if it is no file any more.
pub fn again(
    cx: &Context,
    work: &Arc<DirWork>,
    entry: &Entry,
    step: Step,
    e: Error,
    kept: impl FnOnce(&Entry) -> Option<Kept>,
) -> Result<(), Error> {
    let leaf: &[u8] = &entry.name.leaf;
    match look_up(cx.source(work), &entry.name.dir, &[leaf], cx.job.keep, cx.job.links.follow).pop() {
        Some(Found::Entry(mut fresh)) if fresh.kind == Kind::File => {
            cx.out.done_anew(&e);
            let kept = kept(&fresh);
            cx.transform(work.root, &mut fresh);
            let file = OpenFile::new(&cx.job, work, fresh, step);
            file.second_try(Spent::on(&e), kept);
            cx.sched.push_large(file);
            Ok(())
        }
        Some(Found::Absent) => Err(Error::new(ErrorKind::Vanished, "read")),
        Some(Found::Failed(e)) => Err(e.of_source()),
        _ => Err(e),
    }
}

pub fn give_up(cx: &Context, file: &OpenFile, e: Error) {
    let e = e.on(&file.name());
    let e = match e.kind() {
        ErrorKind::Changed => e.hint("the destination was not changed; copy it when nothing writes to it"),
        ErrorKind::Corrupt if e.next_step().is_none() => e.hint("the copy was discarded; check this disk and this machine's memory"),
        _ => explain(cx, e),
    };
    cx.out.fail(&e, Kind::File);
    cx.sched.items_done(&file.work, 1);
}
