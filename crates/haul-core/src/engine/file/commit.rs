//! A file whose last chunk has landed becomes the file of its name.

use std::io::Read as _;
use std::time::Instant;

use crate::bundle::Spent;
use crate::engine::backup::back_up;
use crate::engine::context::Context;
use crate::engine::digest::{self, Side};
use crate::engine::tries::retry;
use crate::engine::verify;
use crate::entry::{Entry, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Warning;
use crate::store::{Receipt, WriteOutcome};

use super::open_file::{Ends, OpenFile};

/// Checks that the source is unchanged, verifies if requested, and commits. Verifying counts as `spent.reading` and
/// `spent.hashing`, the last look at the source as `spent.metadata`, content that is sent by the commit as writing.
pub fn conclude(
    cx: &Context,
    file: &OpenFile,
    ends: &Ends,
    entry: &mut Entry,
    receipts: &[Receipt],
    spent: &mut Spent,
) -> Result<WriteOutcome> {
    let showing = ends.shown.finish(&cx.meter, &*ends.source, &*ends.sink)?;
    cx.out.report().times.hashing += showing;
    let began = Instant::now();
    let now = retry(|| ends.source.stamp()).map_err(Error::of_source);
    spent.metadata += began.elapsed();
    let now = now?;
    // It came here since it was longer or shorter than its size.
    let has_more = || ends.source.read(entry.size..entry.size + 1).is_ok_and(|mut rest| rest.read(&mut [0]).is_ok_and(|count| count > 0));
    if now == entry.stamp() && file.is_second_try() && has_more() {
        let e = Error::new(ErrorKind::Changed, "read").on(&entry.name);
        return Err(e.because("it has more bytes than its size says"));
    }
    if now != entry.stamp() && !has_grown(cx, ends, entry, &now)? {
        return Err(Error::new(ErrorKind::Changed, "read").on(&entry.name));
    }
    let mut to_verify = cx.job.verify;
    if to_verify {
        ends.flight.doing("verify");
        // A connection that is lost while it is read back is made again for the whole of it.
        let verified = match by_digest(cx, file, ends, entry, spent) {
            Ok(false) => retry(|| {
                let began = Instant::now();
                let written = ends.sink.reread();
                spent.reading += began.elapsed();
                verify::large(cx, &*ends.source, &*written?, entry, ends.chunk, receipts, spent)
            }),
            verified => verified.map(drop),
        };
        match verified {
            Ok(()) => to_verify = false,
            Err(e) if e.kind() == ErrorKind::Unsupported => {} // only a committed file can be read here
            Err(e) => return Err(e),
        }
    }
    ends.flight.doing("commit");
    let name = cx.target_name(&entry.name);
    if file.replaces() {
        back_up(cx, &name)?;
    }
    let began = Instant::now();
    let landed = commit(cx, ends, &name, entry, receipts);
    if ends.sink.extensions().uploads_on_commit {
        let took = began.elapsed();
        cx.out.report().times.writing += took;
        spent.writing += took;
    }
    let landed = landed?;
    if to_verify {
        ends.flight.doing("verify");
        verify::landed(cx, &*ends.source, &name, entry, ends.chunk, receipts, spent)?;
    }
    Ok(landed)
}

/// Whether the source is the same file and longer than when it was opened, as a log that is written to: a copy up to that length is
/// what was asked for. A move and a verified copy have to be of the whole.
fn has_grown(cx: &Context, ends: &Ends, entry: &Entry, now: &Stamp) -> Result<bool> {
    let is_longer = !cx.job.verify && now.version == entry.version && entry.version != 0 && now.size > entry.size;
    let grown = is_longer && has_same_ends(cx, ends, entry.size)?;
    if grown {
        let shown = crate::entry::show(&entry.name.path());
        let size = crate::units::bytes(entry.size);
        cx.out.warn(Warning::Note(format!("{shown}: grew while it was copied; the copy has the {size} that it had when it was opened")));
    }
    Ok(grown)
}

/// Whether what was written begins and ends as the source does now: one that was rewritten, and is longer by that, does not. Where only a
/// committed file can be read this is not known.
fn has_same_ends(cx: &Context, ends: &Ends, size: u64) -> Result<bool> {
    const LOOK: u64 = 64 << 10;
    let written = match ends.sink.reread() {
        Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(true),
        written => written?,
    };
    let mut spent = Spent::default();
    [0..size.min(LOOK), size.saturating_sub(LOOK)..size].into_iter().try_fold(true, |same, part| {
        let now = cx.meter.hash(&*ends.source, part.clone(), &mut spent).map_err(Error::of_source)?;
        Ok(same && now == cx.meter.hash(&*written, part, &mut spent)?)
    })
}

/// Verifies by a digest that the destination computes of what was written; `false` if it has to be read.
fn by_digest(cx: &Context, file: &OpenFile, ends: &Ends, entry: &Entry, spent: &mut Spent) -> Result<bool> {
    if !cx.digests.are_offered(cx) {
        return Ok(false);
    }
    let sides = [Side::source(cx.source(&file.work), entry, &*ends.source), Side::written(cx.target(), entry, &*ends.sink)];
    let mut source_spent = Spent::default();
    let same = digest::same(cx, sides, [&mut source_spent, spent]);
    *spent += source_spent;
    match same? {
        Some(true) => {
            cx.digests.count(true);
            verify::count(cx, entry);
            Ok(true)
        }
        Some(false) => {
            let e = Error::new(ErrorKind::Corrupt, "verify").on(&entry.name);
            Err(e.because("the server's checksum is another than that of the source"))
        }
        None => Ok(false),
    }
}

/// An answer may be lost after the deed: when the write is not known any more and its name has what was sent, it is done.
fn commit(cx: &Context, ends: &Ends, name: &Name, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
    let mut tries = 0;
    retry(|| {
        tries += 1;
        match ends.sink.commit(entry, receipts) {
            Err(e) if e.kind() == ErrorKind::NotFound && tries > 1 => match cx.target().stat(name, MetaMask::NONE) {
                Ok(there) if is_as_sent(cx, entry, &there) => Ok(WriteOutcome { refused: MetaMask::NONE, ino: there.ino }),
                _ => Err(e),
            },
            answer => answer,
        }
    })
}

fn is_as_sent(cx: &Context, sent: &Entry, there: &Entry) -> bool {
    let timed = !cx.planner.keep.has(MetaMask::MTIME) || cx.planner.same_time(sent.mtime, there.mtime);
    there.kind == Kind::File && there.size == sent.size && timed
}
