//! `haul sum` writes what a tree holds, with a hash of every file; `haul check --manifest` proves it years later.
//!
//! The manifest is text, one file a line, in the order of paths:
//!
//! ```text
//! # haul manifest 1 blake3
//! 6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85  3  1700000000.000000000  dir/name
//! ```
//!
//! digest, size in bytes, mtime in seconds since 1970 with nanoseconds, path. A backslash, a newline and what is
//! not UTF-8 are escaped as `\\`, `\n` and `\xNN`. Other formats are the coreutils form (`DIGEST  PATH`, a
//! leading backslash where the path is escaped), which `sha256sum -c` and its kin read.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::event::{Action, Why};
use haul_core::hash::{Algorithm, hex, unhex};
use haul_core::meter::Meter;
use haul_core::rlimit::STACK;
use haul_core::spill::Sorter;
use haul_core::store::Store;
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, ErrorKind, Result};

use super::du::Chosen;
use crate::open;
use crate::render::listing::{self, Checks, Listed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Manifest,
    Coreutils,
}

/// What is summed, and how it is written.
pub struct Choice<'a> {
    pub chosen: Chosen<'a>,
    pub algorithm: Algorithm,
    pub format: Format,
}

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub digest: Vec<u8>,
    /// Size and mtime, where the format has them.
    pub stamp: Option<(u64, Time)>,
    pub path: Vec<u8>,
}

const HEAD: &str = "# haul manifest 1 ";

fn escape(path: &[u8]) -> String {
    let mut out = String::new();
    for part in path.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        for byte in part.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let (kind, more) = rest.split_first()?;
        rest = more;
        match kind {
            b'\\' => out.push(b'\\'),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b'x' => {
                let (digits, more) = rest.split_at_checked(2)?;
                out.extend(unhex(std::str::from_utf8(digits).ok()?)?);
                rest = more;
            }
            _ => return None,
        }
    }
    Some(out)
}

impl Line {
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match (format, self.stamp) {
            (Format::Manifest, Some((size, at))) => {
                writeln!(out, "{}  {size}  {}.{:09}  {}", hex(&self.digest), at.secs, at.nanos, escape(&self.path))
            }
            _ => {
                // md5sum(1): a line whose name is escaped begins with a backslash.
                let needs = self.path.iter().any(|b| matches!(b, b'\\' | b'\n' | b'\r'));
                out.write_all(if needs { b"\\" } else { b"" })?;
                write!(out, "{}  ", hex(&self.digest))?;
                for byte in &self.path {
                    match byte {
                        b'\\' if needs => out.write_all(b"\\\\")?,
                        b'\n' => out.write_all(b"\\n")?,
                        b'\r' if needs => out.write_all(b"\\r")?,
                        byte => out.write_all(&[*byte])?,
                    }
                }
                out.write_all(b"\n")
            }
        }
    }

    pub fn parse(text: &[u8], format: Format) -> Option<Self> {
        let (escaped, text) = match text.strip_prefix(b"\\") {
            Some(rest) if format == Format::Coreutils => (true, rest),
            _ => (false, text),
        };
        let cut = text.iter().position(|b| *b == b' ')?;
        let digest = unhex(std::str::from_utf8(&text[..cut]).ok()?)?;
        let rest = &text[cut..];
        if format == Format::Coreutils {
            // Two spaces, or a space and the star of binary mode.
            let path = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
            let path = if escaped { unescape(path)? } else { path.to_vec() };
            return Some(Line { digest, stamp: None, path });
        }
        let mut fields = rest.strip_prefix(b"  ")?.splitn(5, |b| *b == b' ');
        let size = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        fields.next().filter(|gap| gap.is_empty())?;
        let (secs, nanos) = std::str::from_utf8(fields.next()?).ok()?.split_once('.')?;
        let at = Time { secs: secs.parse().ok()?, nanos: nanos.parse().ok()? };
        fields.next().filter(|gap| gap.is_empty())?;
        Some(Line { digest, stamp: Some((size, at)), path: unescape(fields.next()?)? })
    }
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
    fn threads(&self, store: &dyn Store) -> usize {
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
                    let mut shown = if format == Format::Coreutils { prefix(path, opened.leaf.is_some()) } else { Vec::new() };
                    shown.extend(entry.name.path());
                    if format == Format::Coreutils && opened.leaf.is_some() {
                        shown = path.to_vec();
                    }
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
        writeln!(manifest, "{HEAD}{}", algorithm.word()).map_err(written)?;
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

fn prefix(path: &[u8], is_file: bool) -> Vec<u8> {
    let mut prefix = path.to_vec();
    if !is_file && !prefix.ends_with(b"/") {
        prefix.push(b'/');
    }
    if is_file { Vec::new() } else { prefix }
}

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

/// Who is told of what is found, and of what could not be read.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    pub found: &'a (dyn Fn(Found<'_>) + Sync),
    pub failed: &'a (dyn Fn(&Error, Kind) + Sync),
}

/// Reads a manifest's first line; text without it is the coreutils form, the algorithm told by the digest's width.
pub fn format_of(first: &[u8]) -> Option<(Format, Algorithm)> {
    if let Some(word) = first.strip_prefix(HEAD.as_bytes()) {
        return Some((Format::Manifest, Algorithm::of_word(std::str::from_utf8(word).ok()?.trim())?));
    }
    let line = Line::parse(first, Format::Coreutils)?;
    let algorithm = match line.digest.len() {
        16 => Algorithm::Md5,
        20 => Algorithm::Sha1,
        32 => Algorithm::Sha256,
        64 => Algorithm::Sha512,
        _ => return None,
    };
    Some((Format::Coreutils, algorithm))
}

/// Holds a tree against a manifest: every line is read again, every file of the tree has to be in it. `path` is the tree as it
/// was named.
pub fn check(
    manifest: &mut dyn BufRead,
    opened: &open::Opened,
    path: &[u8],
    one_way: bool,
    reading: Reading<'_>,
    told: Told<'_>,
) -> Result<Checks> {
    let spill = std::env::temp_dir();
    let mut listed = Sorter::new(&spill, 8 << 20, <[u8]>::cmp);
    let mut lines = Lines { manifest, format: None };
    let counts = Mutex::new(Checks::default());
    loop {
        let lot = lines.lot(1024)?;
        if lot.is_empty() {
            break;
        }
        for (line, _) in &lot {
            listed.push(&line.path).map_err(|e| Error::io(e, "spill"))?;
        }
        let next = Mutex::new(lot.iter().enumerate());
        // Told in the order of the manifest: which came last, and what came before its turn.
        let turn = Mutex::new((0, BTreeMap::new()));
        std::thread::scope(|scope| {
            let run = || {
                while let Some((at, (line, algorithm))) = { next.lock().expect("no panic while held").next() } {
                    if reading.cancel.is_set() {
                        return;
                    }
                    let judged = judge(&*opened.store, path, line, *algorithm, reading.meter);
                    let mut turn = turn.lock().expect("no panic while held");
                    turn.1.insert(at, judged);
                    loop {
                        let at = turn.0;
                        let Some(judged) = turn.1.remove(&at) else { break };
                        turn.0 += 1;
                        report(&lot[at].0, judged, &mut counts.lock().expect("no panic while held"), &told);
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
        checks.extra = extras(opened, path, listed, lines.format.map(|f| f.0), reading, Told { failed: &failed, ..told })?;
        // A tree of which a part was not seen is not proven.
        checks.failed += unseen.into_inner();
    }
    Ok(checks)
}

struct Lines<'a> {
    manifest: &'a mut dyn BufRead,
    format: Option<(Format, Algorithm)>,
}

impl Lines<'_> {
    fn lot(&mut self, most: usize) -> Result<Vec<(Line, Algorithm)>> {
        let bad = |text: &[u8]| {
            let e = Error::new(ErrorKind::Usage, "read manifest");
            let start = &text[..text.len().min(80)];
            e.because(format!("not a line of a manifest: {:?}", String::from_utf8_lossy(start)))
        };
        let mut lot = Vec::new();
        let mut text = Vec::new();
        while lot.len() < most {
            text.clear();
            if self.manifest.read_until(b'\n', &mut text).map_err(|e| Error::io(e, "read manifest"))? == 0 {
                break;
            }
            if text.last() == Some(&b'\n') {
                text.pop();
            }
            let (format, algorithm) = match self.format {
                Some(known) => known,
                None => {
                    let found = format_of(&text).ok_or_else(|| bad(&text))?;
                    self.format = Some(found);
                    if found.0 == Format::Manifest {
                        continue;
                    }
                    found
                }
            };
            if text.is_empty() {
                continue;
            }
            lot.push((Line::parse(&text, format).ok_or_else(|| bad(&text))?, algorithm));
        }
        Ok(lot)
    }
}

/// The path below the tree that a line means: coreutils lines may carry the directory in front.
pub fn below<'a>(tree: &[u8], path: &'a [u8]) -> &'a [u8] {
    let tree = tree.strip_suffix(b"/").unwrap_or(tree);
    path.strip_prefix(tree).and_then(|rest| rest.strip_prefix(b"/")).or_else(|| path.strip_prefix(b"./")).unwrap_or(path)
}

fn report(line: &Line, judged: Result<Option<(Action, Why)>>, counts: &mut Checks, told: &Told<'_>) {
    match judged {
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
fn judge(store: &dyn Store, tree: &[u8], line: &Line, algorithm: Algorithm, meter: &Meter) -> Result<Option<(Action, Why)>> {
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
fn extras(opened: &open::Opened, tree: &[u8], listed: Sorter, format: Option<Format>, reading: Reading<'_>, told: Told<'_>) -> Result<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip_in_both_formats() {
        for path in [&b"a/b"[..], b"with space", b"new\nline", b"back\\slash", b"caf\xe9", b"-dash"] {
            let line = Line { digest: vec![1, 0xab], stamp: Some((5, Time { secs: -3, nanos: 7 })), path: path.to_vec() };
            let mut text = Vec::new();
            line.write(Format::Manifest, &mut text).unwrap();
            assert_eq!(text.pop(), Some(b'\n'));
            assert!(!text.contains(&b'\n'));
            assert_eq!(Line::parse(&text, Format::Manifest), Some(line.clone()));
            let mut text = Vec::new();
            line.write(Format::Coreutils, &mut text).unwrap();
            text.pop();
            assert_eq!(Line::parse(&text, Format::Coreutils), Some(Line { stamp: None, ..line }));
        }
    }

    #[test]
    fn what_is_no_manifest_is_told() {
        assert_eq!(format_of(b"# haul manifest 1 blake3"), Some((Format::Manifest, Algorithm::Blake3)));
        assert_eq!(format_of(b"900150983cd24fb0d6963f7d28e17f72  a"), Some((Format::Coreutils, Algorithm::Md5)));
        assert_eq!(format_of(b"hello"), None);
        assert_eq!(format_of(b"abcd  short"), None);
    }
}
