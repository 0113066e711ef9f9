//! One file copied by the system that holds both ends: nothing passes through here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::context::Context;
use crate::engine::sources::remove_sources;
use crate::engine::tries::retry;
use crate::engine::verify;
use crate::entry::{Entry, Kind, MetaMask};
use crate::error::{Error, ErrorKind, Result};
use crate::journal;
use crate::plan::Act;
use crate::store::ServerSideOp;
use crate::tune::Op;

use super::open::spec;
use super::open_file::OpenFile;

/// Has the system that holds both ends copy by itself. `false` where it cannot.
pub fn copies(cx: &Context, file: &OpenFile) -> Result<bool> {
    let entry = file.entry();
    if !cx.copies(&file.work, entry.size) || !matches!(file.step.act, Act::File { .. }) || file.is_second_try() {
        return Ok(false);
    }
    let (began, verifies) = (Instant::now(), cx.verifies_copies());
    let name = cx.target_name(&entry.name);
    let counted = AtomicU64::new(0);
    let moved = |now: u64| cx.meter.within(now.saturating_sub(counted.fetch_max(now, Ordering::Relaxed)));
    let flight = cx.clock.begin(&entry.name, entry.size, "copy there");
    let landed = cx.clock.measured(Op::Chunk, |load| {
        load.bytes = entry.size;
        load.entries = 1;
        let spec = spec(cx, &entry, cx.job.chunk, false);
        // What a kill leaves is known to the next run, which goes on from it or removes it.
        let token =
            cx.target().extensions().server_side.copy_staging(&Entry { name: name.clone(), xattrs: None, target: None, ..entry.clone() });
        let intent = token.and_then(|token| {
            let token = journal::staged(&token);
            cx.journal.intent(&name.dir.path(), &mut std::iter::once(&token[..])).ok()
        });
        let how = if verifies { ServerSideOp::VerifiedCopy(&spec, &moved) } else { ServerSideOp::Copy(&spec, &moved) };
        let landed = retry(|| cx.target().extensions().server_side.perform(cx.source(&file.work), &entry, &name, how));
        // The one call speaks of both ends.
        let source_is_gone = || cx.source(&file.work).stat(&entry.name, MetaMask::NONE).is_err_and(|e| e.kind() == ErrorKind::NotFound);
        let landed = landed.map_err(|e| if source_is_gone() { e.of_source() } else { e })?;
        if let Some(intent) = intent {
            cx.journal.placed(intent);
        }
        // A move deletes the source: at least the size of the copy is compared.
        if landed.is_some() && cx.job.remove_source && retry(|| cx.target().stat(&name, MetaMask::NONE))?.size != entry.size {
            return Err(Error::new(ErrorKind::Corrupt, "copy").because("the copy has another size"));
        }
        Ok(landed)
    });
    cx.clock.end(&flight);
    if !matches!(landed, Ok(Some(_))) {
        cx.meter.refuse(counted.load(Ordering::Relaxed));
    }
    let Some(landed) = landed? else { return Ok(false) };
    cx.out.report().times.copying += began.elapsed();
    if verifies {
        cx.digests.count(true);
        verify::count(cx, &entry);
    }
    cx.out.done_file(&entry);
    moved(entry.size)?;
    cx.out.refused(&entry, landed.refused);
    cx.out.item(file.step.action(Kind::File), file.step.why, &entry);
    if cx.job.remove_source {
        remove_sources(cx, &file.work, std::slice::from_ref(&entry));
    }
    cx.sched.items_done(&file.work, 1);
    Ok(true)
}
