//! `--verify`: what was written is read back, past the caches there are, and compared with the hash made
//! while the source was read.
//!
//! A small file is judged after it has its name, so its bundle's intent stays open until then: a run that ends in
//! between leaves names that the next run does again, not names that look done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::bundle::Spent;
use crate::entry::{Entry, Kind, Name};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::plan::Step;
use crate::schedule::DirWork;
use crate::store::{Receipt, Source, chunks};
use crate::tune::Op;

use super::context::Context;
use super::file::OpenFile;

const UNPROVEN: &str = "the copy stands but is not proven; the same command copies it again";

/// A small file that has landed and is to be read back.
#[derive(Debug)]
pub struct Check {
    pub work: Arc<DirWork>,
    /// As it was read from the source.
    pub entry: Entry,
    pub hash: u128,
    pub step: Step,
    /// The intent of its bundle.
    pub placing: Option<Arc<Placing>>,
}

/// An intent that is done when all the files of its bundle have been judged.
#[derive(Debug)]
pub struct Placing {
    bundle: u32,
    left: AtomicUsize,
}

impl Placing {
    pub fn new(bundle: u32, files: usize) -> Arc<Self> {
        Arc::new(Placing { bundle, left: AtomicUsize::new(files) })
    }
}

impl Check {
    /// Its name holds what it should, or nothing.
    fn settled(&self, cx: &Context) {
        if let Some(placing) = &self.placing
            && placing.left.fetch_sub(1, Ordering::AcqRel) == 1
        {
            cx.journal.placed(placing.bundle);
        }
    }
}

/// Settles a lot of small files by one call and reads them back. A mismatch is copied once more, staged.
pub fn perform(cx: &Arc<Context>, checks: Vec<Check>) {
    let (began, mut spent) = (Instant::now(), Spent::default());
    cx.measured(Op::Other, |load| {
        load.entries = checks.len() as u64;
        let names: Vec<Name> = checks.iter().map(|check| cx.target_name(&check.entry.name)).collect();
        let settled = cx.retry(|| cx.target().settle(&names.iter().collect::<Vec<_>>()));
        for (check, name) in checks.into_iter().zip(&names) {
            let size = check.entry.size;
            // What is not on the medium cannot be judged there, and no source may be removed for it.
            let judged = match &settled {
                Ok(()) => reread(cx, name, size, &mut spent).map(|hash| hash == check.hash),
                Err(e) => Err(super::space::explain(cx, e.again())),
            };
            load.bytes += size;
            match judged {
                Ok(true) => {
                    let mut report = cx.report();
                    report.verified_files += 1;
                    report.verified_bytes += size;
                    drop(report);
                    check.settled(cx);
                    if cx.job.remove_source {
                        super::small::remove_sources(cx, &check.work, std::slice::from_ref(&check.entry));
                    }
                    cx.sched.items_done(&check.work, 1);
                }
                Ok(false) => again(cx, check),
                Err(e) if e.kind() == ErrorKind::Cancelled => cx.sched.items_done(&check.work, 1),
                // Nothing is known against the copy: it stays, and its intent stays open, so that the next run does it again.
                Err(e) if settled.is_err() || (check.placing.is_some() && cx.journal.keeps()) => {
                    let e = e.on(&check.entry.name);
                    cx.fail(&if settled.is_err() { e } else { e.hint(UNPROVEN) }, Kind::File);
                    cx.sched.items_done(&check.work, 1);
                }
                // Nobody would know of it.
                Err(e) => {
                    take_back(cx, &check);
                    cx.fail(&e.on(&check.entry.name).hint("the copy could not be read back and was removed"), Kind::File);
                    cx.sched.items_done(&check.work, 1);
                }
            }
        }
    });
    let mut report = cx.report();
    report.times.hashing += spent.hashing;
    report.times.verifying += began.elapsed().saturating_sub(spent.hashing);
}

fn reread(cx: &Context, name: &Name, size: u64, spent: &mut Spent) -> Result<u128> {
    cx.retry(|| {
        let source = cx.target().reopen(name)?;
        cx.meter.hash(&*source, 0..size, spent)
    })
}

/// The first mismatch: once more, alone and staged, so that a second one never replaces anything.
fn again(cx: &Arc<Context>, check: Check) {
    let e = Error::new(ErrorKind::Corrupt, "verify").on(&check.entry.name);
    cx.tally.retries.fetch_add(1, Ordering::Relaxed);
    cx.observer.on(&Event::Retried { error: &e, attempt: 1 });
    take_back(cx, &check);
    let file = OpenFile::new(cx, &check.work, check.entry, check.step);
    file.second_try();
    cx.sched.push_large(file);
}

/// What failed the check must not look like done to the next run.
fn take_back(cx: &Context, check: &Check) {
    {
        let mut report = cx.report();
        report.made.files = report.made.files.saturating_sub(1);
        report.file_bytes = report.file_bytes.saturating_sub(check.entry.size);
    }
    let mut bad = check.entry.clone();
    bad.name = cx.target_name(&bad.name);
    (bad.ino, bad.version) = (0, 0);
    match cx.target().remove(&[bad]).pop().unwrap_or(Ok(())) {
        Ok(()) => check.settled(cx),
        Err(e) => cx.fail(&e.on(&check.entry.name), Kind::File),
    }
}

/// A large file that could be read back only under its final name. What fails the check is removed. What it takes goes to
/// `spent`: settling and reading to `reading`.
pub fn landed(
    cx: &Context,
    source: &dyn Source,
    name: &Name,
    entry: &Entry,
    chunk: u64,
    receipts: &[Receipt],
    spent: &mut Spent,
) -> Result<()> {
    let began = Instant::now();
    cx.retry(|| cx.target().settle(&[name]))?;
    let written = cx.retry(|| cx.target().reopen(name))?;
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

/// Chunk by chunk against the receipts of a large file, before it is committed. A chunk without a hash
/// (landed by a run that did not verify) is hashed at the source.
pub fn large(
    cx: &Context,
    source: &dyn Source,
    written: &dyn Source,
    entry: &Entry,
    chunk: u64,
    receipts: &[Receipt],
    spent: &mut Spent,
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
        cx.tally.pulse.fetch_add(1, Ordering::Relaxed);
    }
    let mut report = cx.report();
    report.verified_files += 1;
    report.verified_bytes += entry.size;
    Ok(())
}
