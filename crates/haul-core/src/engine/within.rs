//! One file copied by the system that holds both ends: nothing passes through here.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::entry::{Kind, MetaMask};
use crate::error::{Error, ErrorKind, Result};
use crate::tune::Op;

use super::context::Context;
use super::file::{OpenFile, spec};

/// Has the system that holds both ends copy by itself. `false` where it cannot.
pub fn copy(cx: &Arc<Context>, file: &Arc<OpenFile>) -> Result<bool> {
    let began = Instant::now();
    let entry = file.entry();
    let name = cx.target_name(&entry.name);
    let (flight_id, _flight) = cx.take_off(&entry.name, entry.size, "copy there");
    let landed = cx.measured(Op::Chunk, |load| {
        load.bytes = entry.size;
        load.entries = 1;
        let from = cx.source(&file.work).place();
        let landed = cx.retry(|| cx.target().copy_from(from, &entry, &name, &spec(cx, &entry, cx.job.chunk, false)));
        // The one call speaks of both ends.
        let source_is_gone = || cx.source(&file.work).stat(&entry.name, MetaMask::NONE).is_err_and(|e| e.kind() == ErrorKind::NotFound);
        let landed = landed.map_err(|e| if source_is_gone() { e.of_source() } else { e })?;
        // A move deletes the source: at least the size of the copy is compared.
        if landed.is_some() && cx.job.remove_source && cx.retry(|| cx.target().stat(&name, MetaMask::NONE))?.size != entry.size {
            return Err(Error::new(ErrorKind::Corrupt, "copy").because("the copy has another size"));
        }
        Ok(landed)
    });
    cx.touch_down(flight_id);
    let Some(landed) = landed? else { return Ok(false) };
    {
        let mut report = cx.report();
        report.made.files += 1;
        report.file_bytes += entry.size;
        report.times.copying += began.elapsed();
    }
    cx.meter.within(entry.size)?;
    cx.tally.done_files.fetch_add(1, Ordering::Relaxed);
    cx.refused(&entry, landed.refused);
    cx.item(file.step.action(Kind::File), file.step.why, &entry);
    if cx.job.remove_source {
        super::small::remove_sources(cx, &file.work, std::slice::from_ref(&entry));
    }
    cx.sched.items_done(&file.work, 1);
    Ok(true)
}
