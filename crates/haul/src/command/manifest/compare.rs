//! A tree compared with its manifest.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::event::{Action, Why};
use haul_core::hash::Algorithm;
use haul_core::meter::Meter;
use haul_core::rlimit::STACK;
use haul_core::spill::Sorter;
use haul_core::store::Store;
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, ErrorKind, Result};

use super::line::{Format, Line, Lines, below};
use crate::command::sum::{Reading, digest};
use crate::open;
use crate::render::json::Checks;

/// A name that is not as the manifest has it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// `Missing`, `Differs`, or `Extra`: in the tree, not in the manifest.
    pub action: Action,
    pub why: Why,
    /// As the manifest has it; of what is extra below the tree.
    pub path: &'a [u8],
    /// By the manifest, where it has sizes; of what is extra by the tree.
    pub size: Option<u64>,
}

/// Receives names that differ, and errors of those that could not be read.
#[derive(Clone, Copy)]
pub struct Reports<'a> {
    pub found: &'a (dyn Fn(Found<'_>) + Sync),
    pub failed: &'a (dyn Fn(&Error, Kind) + Sync),
}

/// Reads every file of a manifest again and, unless `one_way`, looks for files that it does not have. `path` is the tree as it was
/// typed.
pub fn check(
    manifest: &mut dyn BufRead,
    opened: &open::Opened,
    path: &[u8],
    one_way: bool,
    reading: Reading<'_>,
    told: Reports<'_>,
) -> Result<Checks> {
    let spill = std::env::temp_dir();
    let mut listed = Sorter::new(&spill, 8 << 20, <[u8]>::cmp);
    let mut lines = Lines::new(manifest);
    let counts = Mutex::new(Checks::default());
    loop {
        let batch = lines.batch(1024)?;
        if batch.is_empty() {
            break;
        }
        for (line, _) in &batch {
            listed.push(&line.path).map_err(|e| Error::io(e, "spill"))?;
        }
        let next = Mutex::new(batch.iter().enumerate());
        // Reported in the order of the manifest: which came last, and what came before its turn.
        let turn = Mutex::new((0, BTreeMap::new()));
        std::thread::scope(|scope| {
            let run = || {
                while let Some((at, (line, algorithm))) = { next.lock().expect("no panic while held").next() } {
                    if reading.cancel.is_set() {
                        return;
                    }
                    let compared = compare_line(&*opened.store, path, line, *algorithm, reading.meter);
                    let mut turn = turn.lock().expect("no panic while held");
                    turn.1.insert(at, compared);
                    loop {
                        let at = turn.0;
                        let Some(compared) = turn.1.remove(&at) else { break };
                        turn.0 += 1;
                        report(&batch[at].0, compared, &mut counts.lock().expect("no panic while held"), &told);
                    }
                }
            };
            // Fewer threads do the same work: this one takes part.
            for _ in 1..reading.threads(&*opened.store) {
                let _one_less = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
            }
            run();
        });
        reading.cancel.check()?;
    }
    let mut checks = counts.into_inner().expect("no panic while held");
    if !one_way {
        let unseen = AtomicU64::new(0);
        let failed = |e: &Error, kind| {
            unseen.fetch_add(1, Ordering::Relaxed);
            (told.failed)(e, kind);
        };
        checks.extra = extras(opened, path, listed, lines.format.map(|f| f.0), reading, Reports { failed: &failed, ..told })?;
        // A tree of which a part was not seen is not verified.
        checks.failed += unseen.into_inner();
    }
    Ok(checks)
}

fn report(line: &Line, compared: Result<Option<(Action, Why)>>, counts: &mut Checks, told: &Reports<'_>) {
    match compared {
        Ok(None) => counts.same += 1,
        Ok(Some((action, why))) => {
            match action {
                Action::Missing => counts.missing += 1,
                _ => counts.differing += 1,
            }
            (told.found)(Found { action, why, path: &line.path, size: line.stamp.map(|(size, _)| size) });
        }
        Err(e) => {
            counts.failed += 1;
            (told.failed)(&e, Kind::File);
        }
    }
}

/// `None`: it is as the line says.
fn compare_line(store: &dyn Store, tree: &[u8], line: &Line, algorithm: Algorithm, meter: &Meter) -> Result<Option<(Action, Why)>> {
    let bad = || Error::new(ErrorKind::BadName, "check").at(&line.path).because("is no path below the directory");
    let name = Name::parse(&Dir::root(), below(tree, &line.path)).ok_or_else(bad)?;
    let entry = match store.stat(&name, MetaMask::NONE) {
        Ok(entry) => entry,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Some((Action::Missing, Why::New))),
        Err(e) => return Err(e.on(&name)),
    };
    let differs = |why| Ok(Some((Action::Differs, why)));
    if entry.kind != Kind::File {
        return differs(Why::Type);
    }
    if line.stamp.is_some_and(|(size, _)| size != entry.size) {
        return differs(Why::Size);
    }
    let found = digest(store, &entry, algorithm, meter).map_err(|e| e.on(&name))?;
    if found == line.digest { Ok(None) } else { differs(Why::Content) }
}

/// Files that the manifest does not have: two sorted streams, merged.
fn extras(
    opened: &open::Opened,
    tree: &[u8],
    listed: Sorter,
    format: Option<Format>,
    reading: Reading<'_>,
    told: Reports<'_>,
) -> Result<u64> {
    let spill = std::env::temp_dir();
    let there = Mutex::new(Sorter::new(&spill, 8 << 20, <[u8]>::cmp));
    let visit = |entry: &Entry| {
        if entry.kind == Kind::File
            // No path has a zero byte, so that these sort as the paths do.
            && let Err(e) = there.lock().expect("no panic while held").push(&[&entry.name.path()[..], b"\0", &entry.size.to_be_bytes()].concat())
        {
            (told.failed)(&Error::io(e, "spill"), Kind::File);
        }
        Descend::Yes
    };
    let threads = open::threads(reading.workers);
    let survey = Survey { store: &*opened.store, threads, want: MetaMask::NONE, cancel: reading.cancel, spill: &spill };
    survey.run(&Dir::root(), &visit, &|e, kind| (told.failed)(&e, kind))?;
    let sorted = |sorter: Sorter| sorter.finish().map_err(|e| Error::io(e, "sort"));
    let mut listed = sorted(listed)?.peekable();
    let mut extra = 0;
    for record in sorted(there.into_inner().expect("no panic while held"))? {
        let record = record.map_err(|e| Error::io(e, "sort"))?;
        let (path, size) = record.split_at(record.iter().position(|byte| *byte == 0).unwrap_or(record.len()));
        let known = loop {
            let Some(Ok(line)) = listed.peek() else { break false };
            let line = if format == Some(Format::Coreutils) { below(tree, line) } else { line };
            match line.cmp(path) {
                std::cmp::Ordering::Less => drop(listed.next()),
                order => break order.is_eq(),
            }
        };
        if !known {
            extra += 1;
            let size = size.get(1..).and_then(|size| size.try_into().ok()).map(u64::from_be_bytes);
            (told.found)(Found { action: Action::Extra, why: Why::Extra, path, size });
        }
    }
    Ok(extra)
}
