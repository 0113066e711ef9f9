//! What becomes of a file that failed: it is done once more, or what landed of it is kept for the next run, or nothing is.

use std::sync::Arc;

use crate::engine::context::Context;
use crate::engine::space::explain;
use crate::engine::tries::retry;
use crate::entry::{Entry, Kind};
use crate::error::{Error, ErrorKind, Remedy};
use crate::event::Warning;
use crate::retry::Spent;
use crate::store::Receipt;

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
        cx.out.done_anew(&e);
        match retry(|| cx.source(&file.work).stat(&entry.name, cx.job.keep)) {
            Ok(mut fresh) if fresh.kind == Kind::File => {
                let fresh_stamp = fresh.stamp();
                cx.transform(file.work.root, &mut fresh);
                let same = parts && fresh_stamp == entry.stamp();
                let (token, stamp) = (ends.sink.token(), ends.stamp);
                let kept = same.then_some(Kept { token, chunk: ends.chunk, receipts, session: ends.session, stamp });
                let again = OpenFile::new(&cx.job, &file.work, fresh, file.step);
                again.second_try(Spent::on(&e), kept);
                return cx.sched.push_large(again);
            }
            _ => {}
        }
    }
    give_up(cx, file, e);
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
