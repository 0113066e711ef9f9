//! `haul sum`: a hash of every file of a tree, as a manifest or in the form of the coreutils.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask};
use haul_core::hash::Algorithm;
use haul_core::meter::Meter;
use haul_core::spill::Sorter;
use haul_core::store::Store;
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, Result};

use super::du::Chosen;
use super::manifest::{self, Format, Line};
use crate::open;
use crate::render::listing::{self, Listed};

/// What is summed, and how it is written.
pub struct Choice<'a> {
    pub chosen: Chosen<'a>,
    pub algorithm: Algorithm,
    pub format: Format,
}

/// Hashes a whole file: where it lies if the store can, else through one buffer, as fast as the meter lets it.
pub fn digest(store: &dyn Store, entry: &Entry, algorithm: Algorithm, meter: &Meter) -> Result<Vec<u8>> {
    use std::io::Read;
    if let Some(digest) = store.digest(entry, algorithm)? {
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

/// Every regular file below a path, hashed by all processors, in the order of paths. In manifests, paths are as the
/// coreutils would print them for the other formats: with the argument in front.
pub fn sum(
    asked: &open::Argument<'_>,
    choice: &Choice<'_>,
    reading: Reading<'_>,
    failed: &(dyn Fn(&Error) + Sync),
    out: Outputs<'_>,
) -> Result<u64> {
    let path = &asked.path[..];
    let Outputs { mut manifest, mut json } = out;
    let (lists, tells) = (manifest.is_some(), json.is_some());
    let Choice { algorithm, format, .. } = *choice;
    let (opened, top) = open::existing(asked)?;
    let failures = AtomicU64::new(0);
    let fail = |e: Error| {
        failures.fetch_add(1, Ordering::Relaxed);
        failed(&e);
    };
    let spill = std::env::temp_dir();
    let lines = Mutex::new(Sorter::new(&spill, 8 << 20, <[u8]>::cmp));
    let visit = |entry: &Entry| {
        if !choice.chosen.admits(entry, &top) {
            return Descend::No;
        }
        if entry.kind == Kind::File {
            match digest(&*opened.store, entry, algorithm, reading.meter) {
                Ok(digest) => {
                    let shown = match (format, opened.leaf.is_some()) {
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
                    let written = if lists { line.write(format, &mut record) } else { record.write_all(b"\n") };
                    let below = if opened.leaf.is_some() { Vec::new() } else { entry.name.path() };
                    let told = || Listed::Sum(listing::Sum::of(path, &below, entry, algorithm, &line.digest));
                    if written.and_then(|()| if tells { told().write(&mut record) } else { Ok(()) }).is_ok()
                        && let Err(e) = lines.lock().expect("no panic while held").push(&record)
                    {
                        fail(Error::io(e, "spill"));
                    }
                }
                Err(e) => fail(e.on(&entry.name)),
            }
        }
        Descend::Yes
    };
    if opened.leaf.is_some() {
        visit(&top);
    } else {
        let threads = reading.threads(&*opened.store);
        let survey = Survey { store: &*opened.store, threads, want: MetaMask::NONE, cancel: reading.cancel, spill: &spill };
        survey.run(&Dir::root(), &visit, &|e, _| fail(e))?;
    }
    let written = |e: io::Error| Error::io(e, "write");
    if let Some(manifest) = manifest.as_mut().filter(|_| format == Format::Manifest) {
        writeln!(manifest, "{}", manifest::head(algorithm)).map_err(written)?;
    }
    for record in lines.into_inner().expect("no panic while held").finish().map_err(|e| Error::io(e, "sort"))? {
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
    Ok(failures.into_inner())
}
