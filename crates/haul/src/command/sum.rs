//! `haul sum`: a hash of every file of a tree, as a manifest or in the form of the coreutils.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask};
use haul_core::hash::Algorithm;
use haul_core::meter::Meter;
use haul_core::pool::{Pool, Stage};
use haul_core::spill::Sorter;
use haul_core::store::Store;
use haul_core::survey::{self, Descend, Piece, Survey, Visitor};
use haul_core::{Error, Result, varint};
use haul_run::open;

use super::du::Chosen;
use super::manifest::{self, Format, Line};
use crate::ranks::shared::{self, Outbox, Shared};
use crate::render::listing::{self, Listed};

/// What is summed, and how it is written.
pub struct Choice<'a> {
    pub chosen: Chosen<'a>,
    pub algorithm: Algorithm,
    pub format: Format,
    /// Files that are left out, by their real paths: the output.
    pub omitted: &'a [PathBuf],
}

impl Choice<'_> {
    /// The omitted files that are below what was opened.
    fn omitted_in(&self, opened: &open::Opened) -> Vec<Vec<u8>> {
        self.omitted.iter().filter_map(|file| opened.path_of(file)).collect()
    }
}

/// Hashes a whole file: where it lies if the store can, else through one buffer, as fast as the meter lets it.
pub fn digest(store: &dyn Store, entry: &Entry, algorithm: Algorithm, meter: &Meter) -> Result<Vec<u8>> {
    use std::io::Read;
    if let Some(digest) = store.extensions().digests.digest(entry, algorithm)? {
        return Ok(digest);
    }
    let source = store.open(entry, false)?;
    let mut reader = source.read(0..entry.size)?;
    let mut hasher = algorithm.begin();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                meter.take(n as u64)?;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from_io(e, "read")),
        }
    }
}

/// Files that are hashed at a time on another machine: each takes a round trip, and processors there.
const REMOTE: usize = 16;

/// How files are read.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// `-j`.
    pub workers: Option<u32>,
    pub cancel: &'a Cancel,
    pub meter: &'a Meter,
}

impl Reading<'_> {
    pub fn threads(&self, store: &dyn Store) -> usize {
        let least = if store.caps().remote && self.workers.is_none() { REMOTE } else { 1 };
        open::threads(self.workers).max(least)
    }
}

/// Where sums go: either or both.
pub struct Outputs<'a> {
    /// The manifest.
    pub manifest: Option<&'a mut dyn Write>,
    /// One object a file.
    pub json: Option<&'a mut dyn Write>,
}

/// Names of one batch that a rank gives away: hashing takes long.
const BATCH: usize = 8;

/// Records for rank 0: a line, a number of failures.
const LINE: u8 = 0;
const FAILURES: u8 = 1;

type Failed<'a> = &'a (dyn Fn(&Error) + Sync);

/// What is summed, for one rank.
struct Hashing<'a> {
    path: &'a [u8],
    opened: &'a open::Opened,
    top: &'a Entry,
    choice: &'a Choice<'a>,
    reading: Reading<'a>,
    /// Lines of a manifest are wanted, objects of JSON are.
    wants: (bool, bool),
    failed: Failed<'a>,
    /// See [`Choice::omitted_in`].
    omitted: Vec<Vec<u8>>,
}

impl Hashing<'_> {
    fn is_omitted(&self, entry: &Entry) -> bool {
        !self.omitted.is_empty() && self.omitted.contains(&entry.name.path())
    }

    /// The lines of a file, behind the path by which they are sorted.
    fn record(&self, entry: &Entry) -> Result<Vec<u8>> {
        let Choice { algorithm, format, .. } = *self.choice;
        let (path, is_file) = (self.path, self.opened.leaf.is_some());
        let digest = digest(&*self.opened.store, entry, algorithm, self.reading.meter).map_err(|e| e.on(&entry.name))?;
        let shown = match (format, is_file) {
            (Format::Manifest, _) => entry.name.path(),
            (Format::Coreutils, true) => path.to_vec(),
            (Format::Coreutils, false) => {
                let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
                [path, slash, &entry.name.path()].concat()
            }
        };
        let line = Line { digest, stamp: Some((entry.size, entry.mtime)), path: shown };
        // Of these lines neither has a line end within.
        let mut record = line.path.clone();
        record.push(0);
        let written = if self.wants.0 { line.write(format, &mut record) } else { record.write_all(b"\n") };
        let below = if is_file { Vec::new() } else { entry.name.path() };
        let told = || Listed::Sum(listing::Sum::of(path, &below, entry, algorithm, &line.digest));
        written.and_then(|()| if self.wants.1 { told().write(&mut record) } else { Ok(()) }).map_err(|e| Error::io(e, "write"))?;
        Ok(record)
    }

    /// Hashes what this rank finds. `stage` and `flush` for several.
    fn run(&self, stage: Option<Stage>, found: &(dyn Fn(&[u8]) + Sync), failures: &AtomicU64, flush: &(dyn Fn() + Sync)) -> Result<()> {
        let leads = stage.as_ref().is_none_or(Stage::leads);
        let fail = |e: Error| {
            failures.fetch_add(1, Ordering::Relaxed);
            (self.failed)(&e);
        };
        let visit = |entry: &Entry| {
            if !self.choice.chosen.admits(entry, self.top) {
                return Descend::No;
            }
            if entry.kind == Kind::File && !self.is_omitted(entry) {
                match self.record(entry) {
                    Ok(record) => found(&record),
                    Err(e) => fail(e),
                }
            }
            Descend::Yes
        };
        if self.opened.leaf.is_some() {
            visit(self.top);
            return Ok(());
        }
        let (store, cancel, spill) = (&*self.opened.store, self.reading.cancel, std::env::temp_dir());
        let threads = self.reading.threads(store);
        let survey = Survey { store, threads, want: MetaMask::NONE, cancel, spill: &spill };
        let batch = if stage.is_some() { BATCH } else { survey::BATCH };
        let pool = Pool::new(threads, cancel, &spill, stage);
        if leads {
            pool.push([Piece::Dir(Dir::root())]);
        }
        survey.run_in(&pool, batch, Visitor { visit: &visit, failed: &|e, _| fail(e) }, flush)
    }
}

/// This rank's part of what rank 0 sums.
pub fn help(
    stage: Stage,
    asked: &open::Argument<'_>,
    choice: &Choice<'_>,
    reading: Reading<'_>,
    failed: Failed<'_>,
    wants: (bool, bool),
) -> Result<()> {
    let (stage, (opened, top)) = shared::opened(stage, || open::existing(asked))?;
    let outbox = Outbox::of(&stage);
    let failures = AtomicU64::new(0);
    let found = |record: &[u8]| outbox.put(&[&[LINE], record].concat());
    let flush = || {
        outbox.put(&shared::count(FAILURES, failures.swap(0, Ordering::Relaxed)));
        outbox.flush();
    };
    let omitted = choice.omitted_in(&opened);
    let hashing = Hashing { path: &asked.path, opened: &opened, top: &top, choice, reading, wants, failed, omitted };
    hashing.run(Some(stage), &found, &failures, &flush)
}

/// Every regular file below a path, hashed by all processors, and by all ranks, in the order of paths. In manifests, paths are as
/// the coreutils would print them for the other formats: with the argument in front.
pub fn sum(
    asked: &open::Argument<'_>,
    choice: &Choice<'_>,
    reading: Reading<'_>,
    failed: Failed<'_>,
    out: Outputs<'_>,
    ranks: Option<Shared<'_>>,
) -> Result<u64> {
    let Outputs { mut manifest, mut json } = out;
    let wants = (manifest.is_some(), json.is_some());
    let Choice { algorithm, format, .. } = *choice;
    let (opened, top) = open::existing(asked)?;
    let failures = Arc::new(AtomicU64::new(0));
    let spill = std::env::temp_dir();
    let lines = Arc::new(Mutex::new(Sorter::new(&spill, 8 << 20, <[u8]>::cmp)));
    let unspilled: Arc<Mutex<Option<io::Error>>> = Arc::default();
    let keep = {
        let (lines, unspilled) = (lines.clone(), unspilled.clone());
        move |record: &[u8]| {
            if let Err(e) = lines.lock().expect("no panic while held").push(record) {
                unspilled.lock().expect("no panic while held").get_or_insert(e);
            }
        }
    };
    let stage = ranks.filter(|_| opened.leaf.is_none()).map(|ranks| {
        let (keep, failures) = (keep.clone(), failures.clone());
        ranks.stage(0, move |record| {
            match record.split_first()? {
                (&LINE, record) => keep(record),
                (&FAILURES, mut rest) => {
                    failures.fetch_add(varint::take(&mut rest)?, Ordering::Relaxed);
                }
                _ => return None,
            }
            Some(())
        })
    });
    let omitted = choice.omitted_in(&opened);
    let hashing = Hashing { path: &asked.path, opened: &opened, top: &top, choice, reading, wants, failed, omitted };
    hashing.run(stage, &keep, &failures, &|| ())?;
    if let Some(e) = unspilled.lock().expect("no panic while held").take() {
        return Err(Error::io(e, "spill"));
    }
    let written = |e: io::Error| Error::io(e, "write");
    if let Some(manifest) = manifest.as_mut().filter(|_| format == Format::Manifest) {
        writeln!(manifest, "{}", manifest::head(algorithm)).map_err(written)?;
    }
    let sorter = std::mem::replace(&mut *lines.lock().expect("no panic while held"), Sorter::new(&spill, 0, <[u8]>::cmp));
    for record in sorter.finish().map_err(|e| Error::io(e, "sort"))? {
        let record = record.map_err(|e| Error::io(e, "sort"))?;
        let text = record.iter().position(|b| *b == 0).map_or(&record[..], |end| &record[end + 1..]);
        let (line, object) = text.split_at(text.iter().position(|b| *b == b'\n').map_or(text.len(), |end| end + 1));
        for (out, text) in [(&mut manifest, line), (&mut json, object)] {
            out.as_mut().map_or(Ok(()), |out| out.write_all(text)).map_err(written)?;
        }
    }
    for out in [manifest, json].into_iter().flatten() {
        out.flush().map_err(written)?;
    }
    Ok(failures.load(Ordering::Relaxed))
}
