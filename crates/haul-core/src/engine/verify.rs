//! Verification: what was written is read back past the caches and compared with the hash made while the source was read.
//!
//! A small new file is verified after it has its name, so its bundle's intent stays open until then and an interrupted run
//! copies it again. One that replaces another is verified under its staging name and then renamed: the name always has the old
//! content or the verified new one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::bundle::{Bundle, Outcome, Spent as Took};
use crate::entry::{Entry, Kind, MetaMask, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::retry::Spent;
use crate::store::{Receipt, Source, chunks};
use crate::tune::Op;

use super::context::Context;
use super::file::open_file::OpenFile;
use super::sources::remove_sources;
use super::space::explain;
use super::task::Check;
use super::tries::{gone_is_done, retry};

const UNVERIFIED: &str = "the copy exists but is not verified; run the same command to copy it again";

impl Check {
    /// The name under which the content is now.
    fn written(&self, cx: &Context) -> Name {
        self.held.clone().unwrap_or_else(|| cx.target_name(&self.entry.name))
    }

    /// Whether the destination has its content: by a digest that the destination computes, or by reading it.
    fn is_right(&self, cx: &Context, name: &Name, spent: &mut Took) -> Result<bool> {
        let size = self.entry.size;
        if let Some((algorithm, expected)) = &self.digest {
            let began = Instant::now();
            let written = Entry { size, ..Entry::bare(name.clone(), Kind::File) };
            let digest = cx.digests.ask(cx, || cx.target().extensions().digests.digest(&written, *algorithm))?;
            spent.reading += began.elapsed();
            if let Some(digest) = digest {
                let same = digest == *expected;
                cx.digests.count(same);
                return Ok(same);
            }
        }
        reread(cx, name, size, spent).map(|hash| hash == self.hash)
    }

    /// Gives it its name, if it has not got that.
    fn place(&self, cx: &Context) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let name = cx.target_name(&self.entry.name);
        let mut again = false;
        retry(|| match cx.target().rename(held, &name, true) {
            // The call before has done it, and its answer was lost.
            Err(e) if e.kind() == ErrorKind::NotFound && again => {
                reread(cx, &name, self.entry.size, &mut Took::default()).and_then(|hash| if hash == self.hash { Ok(()) } else { Err(e) })
            }
            renamed => {
                again = true;
                renamed
            }
        })
    }

    /// Its name holds what it should, or nothing.
    fn settled(&self, cx: &Context) {
        if let Some(placing) = &self.placing
            && placing.left.fetch_sub(1, Ordering::AcqRel) == 1
        {
            cx.journal.placed(placing.bundle);
        }
    }
}

/// Syncs a batch of small files by one call and reads them back. A mismatch is copied once more, staged.
pub fn perform(cx: &Arc<Context>, checks: Vec<Check>, bundle: &mut Bundle) {
    let (began, mut spent) = (Instant::now(), Took::default());
    cx.clock.measured(Op::Other, |load| {
        load.entries = checks.len() as u64;
        let written: Vec<Name> = checks.iter().map(|check| check.written(cx)).collect();
        let settled = retry(|| cx.target().extensions().system.sync(&written.iter().collect::<Vec<_>>()));
        let hashes = match settled.is_ok() && cx.target().caps().remote {
            true => read_back(cx, &checks, &written, bundle, &mut spent),
            false => vec![None; checks.len()],
        };
        let mut verified = Vec::new();
        for ((check, name), hash) in checks.into_iter().zip(written).zip(hashes) {
            let size = check.entry.size;
            load.bytes += size;
            // What is not on the medium cannot be verified there, and no source may be removed for it.
            let same = match (&settled, hash) {
                (Ok(()), Some(hash)) => Ok(hash == check.hash),
                (Ok(()), None) => check.is_right(cx, &name, &mut spent),
                (Err(e), _) => Err(explain(cx, e.again())),
            };
            let placed = match same {
                Ok(true) => check.place(cx).map(|()| true),
                same => same,
            };
            match placed {
                Ok(true) => verified.push(check),
                Ok(false) => again(cx, check),
                Err(e) => failed(cx, check, e, settled.is_err()),
            }
        }
        done(cx, verified);
    });
    let mut report = cx.out.report();
    report.times.hashing += spent.hashing;
    report.times.verifying += began.elapsed().saturating_sub(spent.hashing);
}

/// The files have their names and the right content. Where they are to be durable, or to be the only copy, the names are synced
/// before their sources are removed.
fn done(cx: &Context, checks: Vec<Check>) {
    let renamed: Vec<Name> = checks.iter().filter(|check| check.held.is_some()).map(|check| cx.target_name(&check.entry.name)).collect();
    let kept = match (cx.job.sync || cx.job.remove_source) && !renamed.is_empty() {
        true => retry(|| cx.target().extensions().system.sync(&renamed.iter().collect::<Vec<_>>())),
        false => Ok(()),
    };
    // Checks of one directory follow each other: a look at their sources and their removal are a request each.
    for checks in checks.chunk_by(|a, b| Arc::ptr_eq(&a.work, &b.work)) {
        let mut good = Vec::with_capacity(checks.len());
        for check in checks {
            check.settled(cx);
            match (&kept, &check.held) {
                (Err(e), Some(_)) => cx.out.fail(&explain(cx, e.again()).renamed(&check.entry.name), Kind::File),
                _ => {
                    count(cx, &check.entry);
                    good.push(check.entry.clone());
                }
            }
        }
        if cx.job.remove_source {
            remove_sources(cx, &checks[0].work, &good);
        }
        cx.sched.items_done(&checks[0].work, checks.len());
    }
}

/// It could not be synced, read back or renamed.
fn failed(cx: &Context, check: Check, e: Error, unsettled: bool) {
    let e = e.renamed(&check.entry.name);
    if e.kind() == ErrorKind::Cancelled {
    } else if check.held.is_some() {
        take_back(cx, &check);
        cx.out.fail(&e.hint("the old file was kept"), Kind::File);
    } else if unsettled || (check.placing.is_some() && cx.journal.keeps()) {
        // Nothing is known against the copy: it stays, and its intent stays open, so that the next run does it again.
        cx.out.fail(&if unsettled { e } else { e.hint(UNVERIFIED) }, Kind::File);
    } else {
        // Nobody would know of it.
        take_back(cx, &check);
        cx.out.fail(&e.hint("the copy could not be read back and was removed"), Kind::File);
    }
    cx.sched.items_done(&check.work, 1);
}

/// Reads files of a remote destination back in bundles: one by one each would cost its round trips. Their hashes; `None` for those
/// that have a digest, and for those that could not be read so.
fn read_back(cx: &Context, checks: &[Check], written: &[Name], bundle: &mut Bundle, spent: &mut Took) -> Vec<Option<u128>> {
    let mut hashes = vec![None; checks.len()];
    let caps = cx.target().caps();
    let mut left = (0..checks.len()).filter(|i| checks[*i].digest.is_none()).peekable();
    while left.peek().is_some() && !cx.cancel.is_set() {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(i) = left.next_if(|i| taken.is_empty() || bytes + checks[*i].entry.size <= caps.tuning.bundle_bytes as u64) {
            bytes += checks[i].entry.size;
            taken.push(i);
            if taken.len() >= caps.tuning.bundle_files {
                break;
            }
        }
        bundle.clear();
        (bundle.keep, bundle.follow, bundle.past_caches) = (MetaMask::NONE, false, true);
        taken.iter().for_each(|i| bundle.push(Entry::bare(written[*i].clone(), Kind::File)));
        let began = Instant::now();
        cx.target().get_bundle(bundle);
        let read = Instant::now();
        spent.reading += read - began;
        for (i, item) in taken.into_iter().zip(&bundle.items).filter(|(_, item)| matches!(item.outcome, Outcome::Read)) {
            cx.meter.read(item.at.len() as u64);
            hashes[i] = Some(crate::hash::xxh128(&bundle.data[item.at.clone()]));
        }
        spent.hashing += read.elapsed();
    }
    hashes
}

fn reread(cx: &Context, name: &Name, size: u64, spent: &mut Took) -> Result<u128> {
    retry(|| {
        let source = cx.target().reopen(name)?;
        cx.meter.hash(&*source, 0..size, spent)
    })
}

/// The first mismatch: once more, alone and staged, so that a second one never replaces anything.
fn again(cx: &Arc<Context>, check: Check) {
    let e = Error::new(ErrorKind::Corrupt, "verify").on(&check.entry.name);
    cx.out.done_anew(&e);
    take_back(cx, &check);
    let file = OpenFile::new(&cx.job, &check.work, check.entry, check.step);
    file.second_try(Spent::on(&e), None);
    cx.sched.push_large(file);
}

/// What failed the check must not look like done to the next run.
fn take_back(cx: &Context, check: &Check) {
    {
        let mut report = cx.out.report();
        report.made.files = report.made.files.saturating_sub(1);
        report.file_bytes = report.file_bytes.saturating_sub(check.entry.size);
    }
    // Whatever has the name now: that it is not what was written is why it goes.
    let bad = Entry::bare(check.written(cx), Kind::File);
    match gone_is_done(cx.target().remove(&[bad]).pop().unwrap_or(Ok(()))) {
        Ok(()) => check.settled(cx),
        Err(e) => cx.out.fail(&e.renamed(&check.entry.name), Kind::File),
    }
}

/// Verifies a large file that can be read back only under its final name; removes it if that fails. Syncing and reading count as
/// `reading` in `spent`.
pub fn landed(
    cx: &Context,
    source: &dyn Source,
    name: &Name,
    entry: &Entry,
    chunk: u64,
    receipts: &[Receipt],
    spent: &mut Took,
) -> Result<()> {
    let began = Instant::now();
    retry(|| cx.target().extensions().system.sync(&[name]))?;
    let written = retry(|| cx.target().reopen(name))?;
    spent.reading += began.elapsed();
    let judged = large(cx, source, &*written, entry, chunk, receipts, spent);
    if judged.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corrupt) {
        let mut bad = Entry::bare(name.clone(), Kind::File);
        bad.have = entry.have;
        for removed in cx.target().remove(&[bad]) {
            removed?;
        }
    }
    judged
}

/// Compares chunk by chunk with the receipts of a large file, before its commit. A chunk without a hash (from a run that did not
/// verify) is hashed at the source.
pub fn large(
    cx: &Context,
    source: &dyn Source,
    written: &dyn Source,
    entry: &Entry,
    chunk: u64,
    receipts: &[Receipt],
    spent: &mut Took,
) -> Result<()> {
    for (part, receipt) in chunks(entry.size, chunk).zip(receipts) {
        let expected = match receipt.hash {
            Some(hash) => hash,
            None => cx.meter.hash(source, part.at.clone(), spent).map_err(Error::of_source)?,
        };
        if cx.meter.hash(written, part.at.clone(), spent)? != expected {
            let reason = format!("bytes {} to {} read back differently", part.at.start, part.at.end);
            return Err(Error::new(ErrorKind::Corrupt, "verify").on(&entry.name).because(reason));
        }
        cx.out.tally.pulse.fetch_add(1, Ordering::Relaxed);
    }
    count(cx, entry);
    Ok(())
}

/// A file is verified.
pub fn count(cx: &Context, entry: &Entry) {
    let mut report = cx.out.report();
    report.verified_files += 1;
    report.verified_bytes += entry.size;
}
