//! `haul ls`, `cat`, `mkdir`, `rm`: the small ones.

use crate::location::Location;
use haul_core::place::OpenOptions;
use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::bundle::{Bundle, Outcome};
use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time, show};
use haul_core::spill::Sorter;
use haul_core::store::{Flow, Found, remove_emptied};
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, ErrorKind, Result};

use super::du::Chosen;
use crate::open::{self, Argument};
use crate::render::listing::{self, Listed};
use crate::units;

#[derive(Clone, Copy, Debug)]
pub struct Ls<'a> {
    pub chosen: Chosen<'a>,
    pub long: bool,
    pub all: bool,
    pub human: bool,
    pub recursive: bool,
    pub json: bool,
    pub threads: usize,
}

/// How many names a command failed on.
pub type Failures = u64;

/// Lists a directory in order of names, or one file.
pub fn ls(asked: &Argument<'_>, how: Ls<'_>, cancel: &Cancel, failed: &(dyn Fn(&Error) + Sync), out: &mut dyn Write) -> Result<Failures> {
    let (opened, top) = open::existing(asked)?;
    let place = &asked.path[..];
    // The path is empty for what was named itself.
    let print = |entry: &Entry, path: &[u8], out: &mut dyn Write| match how.json {
        true => Listed::Entry(Box::new(listing::Entry::of(place, path, entry))).write(out),
        false => line(entry, &show(if path.is_empty() { place } else { path }), how, out),
    };
    if opened.leaf.is_some() {
        print(&top, b"", out).map_err(|e| Error::io(e, "write"))?;
        return Ok(0);
    }
    let failures = AtomicU64::new(0);
    let fail = |e: Error| {
        failures.fetch_add(1, Ordering::Relaxed);
        failed(&e);
    };
    let spill = std::env::temp_dir();
    let lines = Mutex::new(Sorter::new(&spill, 8 << 20, <[u8]>::cmp));
    let trouble = Mutex::new(None);
    let keep = |entry: &Entry| {
        if (entry.name.leaf.starts_with(b".") && !how.all) || !how.chosen.admits(entry, &top) {
            return Descend::No;
        }
        // Sorted by path; a zero byte is in no path, so a shorter name comes first.
        let path = entry.name.path();
        let mut record = [&path[..], b"\0"].concat();
        if print(entry, &path, &mut record).is_ok()
            && let Err(e) = lines.lock().expect("no panic while held").push(&record)
        {
            trouble.lock().expect("no panic while held").get_or_insert(e);
        }
        if how.recursive { Descend::Yes } else { Descend::No }
    };
    let survey = Survey { store: &*opened.store, threads: how.threads, want: MetaMask::NONE, cancel, spill: &spill };
    survey.run(&Dir::root(), &keep, &|e, _| fail(e))?;
    if let Some(e) = trouble.into_inner().expect("no panic while held") {
        return Err(Error::io(e, "sort"));
    }
    for record in lines.into_inner().expect("no panic while held").finish().map_err(|e| Error::io(e, "sort"))? {
        let record = record.map_err(|e| Error::io(e, "sort"))?;
        let text = record.iter().position(|b| *b == 0).map_or(&record[..], |end| &record[end + 1..]);
        out.write_all(text).map_err(|e| Error::io(e, "write"))?;
    }
    Ok(failures.into_inner())
}

fn line(entry: &Entry, name: &str, how: Ls<'_>, out: &mut dyn Write) -> io::Result<()> {
    let slash = if entry.kind == Kind::Dir { "/" } else { "" };
    if !how.long {
        return writeln!(out, "{name}{slash}");
    }
    let size = if how.human { units::bytes(entry.size) } else { entry.size.to_string() };
    let target = entry.target.as_deref().map_or(String::new(), |t| format!(" -> {}", show(t)));
    let (uid, gid) = (entry.uid, entry.gid);
    writeln!(out, "{} {:>3} {uid:>5} {gid:>5} {size:>12} {} {name}{slash}{target}", mode_words(entry), entry.nlink, stamp(entry.mtime))
}

/// "-rwxr-x---", as `ls -l` has it.
pub fn mode_words(entry: &Entry) -> String {
    let kind = match entry.kind {
        Kind::File | Kind::Unknown => '-',
        Kind::Dir => 'd',
        Kind::Link => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::Char => 'c',
        Kind::Block => 'b',
    };
    let mut words = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> shift;
        words.push(if bits & 4 != 0 { 'r' } else { '-' });
        words.push(if bits & 2 != 0 { 'w' } else { '-' });
        words.push(match (entry.mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    words
}

pub fn stamp(time: Time) -> String {
    match jiff::Timestamp::new(time.secs, time.nanos.cast_signed()) {
        Ok(at) => at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("@{}", time.secs),
    }
}

/// Files to standard output, one after the other.
pub fn cat(asked: &Argument<'_>, out: &mut dyn Write) -> Result<()> {
    let path = &asked.path[..];
    if path == b"-" {
        return io::copy(&mut io::stdin().lock(), out).map(drop).map_err(|e| Error::io(e, "read"));
    }
    let (opened, _) = open::existing(asked)?;
    let name = opened.name();
    // What a link of the user's own argument points to is meant.
    let leaves: [&[u8]; 1] = [&name.leaf];
    let entry = match opened.store.stat_many(&name.dir, &leaves, MetaMask::NONE, true).pop() {
        Some(Found::Entry(entry)) if opened.leaf.is_some() && entry.kind != Kind::Dir => entry,
        Some(Found::Failed(e)) => return Err(e.on(&name)),
        _ => {
            let e = Error::new(ErrorKind::Usage, "read").at(path);
            return Err(e.because("is a directory"));
        }
    };
    if entry.kind != Kind::File && !asked.location.is_remote() {
        // A fifo or a device is read because it was named.
        let mut file = std::fs::File::open(open::path_of(path)).map_err(|e| Error::io(e, "open").at(path))?;
        return io::copy(&mut file, out).map(drop).map_err(|e| Error::io(e, "read").at(path));
    }
    if opened.store.caps().streams {
        let source = opened.store.open(&entry, true).map_err(|e| e.at(path))?;
        return pass_on(&mut *source.stream()?, path, out);
    }
    if entry.size <= 4096 {
        // The size may say nothing, as those of `/proc` (0) and `/sys` (a page).
        let mut bundle = Bundle { follow: true, ..Bundle::default() };
        bundle.push(entry);
        opened.store.get_bundle(&mut bundle);
        return match bundle.items.pop().map(|item| item.outcome) {
            Some(Outcome::Failed(e)) => Err(e.at(path)),
            _ => out.write_all(&bundle.data).map_err(|e| Error::io(e, "write")),
        };
    }
    let source = opened.store.open(&entry, true).map_err(|e| e.at(path))?;
    pass_on(&mut *source.read(0..entry.size)?, path, out)
}

/// Writes all that is read.
fn pass_on(from: &mut dyn Read, path: &[u8], out: &mut dyn Write) -> Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => out.write_all(&buffer[..n]).map_err(|e| Error::io(e, "write"))?,
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(e) => return Err(Error::from_io(e, "read").at(path)),
        }
    }
}

/// Makes a directory; with `parents` also those above it, and no error if it is there.
pub fn mkdir(asked: &Argument<'_>, parents: bool) -> Result<()> {
    let path = &asked.path[..];
    if asked.location.is_remote() {
        let host = asked.hosts.reach(asked.location)?;
        let there = host.path(asked.location);
        if !parents && host.lookup(&there)?.is_some() {
            return Err(Error::new(ErrorKind::Exists, "mkdir").at(path).because("File exists"));
        }
        return host.make_dir(&there, parents);
    }
    let place = open::path_of(path);
    let made = if parents { std::fs::create_dir_all(&place) } else { std::fs::create_dir(&place) };
    made.map_err(|e| {
        let no_parent = e.kind() == io::ErrorKind::NotFound;
        let e = Error::io(e, "mkdir").at(path);
        if no_parent { e.hint("-p creates the parent directories") } else { e }
    })
}

#[derive(Clone, Copy, Debug)]
pub struct Rm<'a> {
    pub recursive: bool,
    /// What is not there is no failure; what is precious may go.
    pub force: bool,
    /// A missing name is no failure.
    pub quiet_missing: bool,
    pub dry: bool,
    pub threads: usize,
    /// Only what filters choose; `None` is all.
    pub chosen: Option<Chosen<'a>>,
}

/// Removes a file, or a directory with all that is in it. Returns how many names could not be removed.
pub fn rm(
    asked: &Argument<'_>,
    how: Rm<'_>,
    cancel: &Cancel,
    failed: &(dyn Fn(&Error) + Sync),
    each: &(dyn Fn(&Entry) + Sync),
) -> Result<Failures> {
    let path = &asked.path[..];
    let opened = match open::name_of(asked) {
        Ok(opened) => opened,
        Err(e) => {
            return Err(if e.kind() == ErrorKind::Usage { refuse(path, "it is the root or the working directory") } else { e });
        }
    };
    let name = opened.name();
    let entry = match opened.stat() {
        Err(e) if e.kind() == ErrorKind::NotFound && how.quiet_missing => return Ok(0),
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(open::missing_operand(path, asked.hosts)),
        other => other?,
    };
    if entry.kind == Kind::Dir {
        if !how.recursive {
            return Err(Error::new(ErrorKind::Usage, "remove").at(path).because("is a directory").hint("-r removes it and its contents"));
        }
        if !how.force {
            if asked.location.is_remote() {
                precious_there(asked)?;
            } else {
                precious(path, &opened, &entry)?;
            }
        }
    }
    let failures = AtomicU64::new(0);
    let fail = |e: Error| {
        failures.fetch_add(1, Ordering::Relaxed);
        failed(&e);
    };
    if entry.kind == Kind::Dir {
        empty(&opened, &name, &entry, how, cancel, &fail, each)?;
    }
    // With filters the place itself stays, unless it is a file that they choose.
    if how.chosen.is_some_and(|chosen| entry.kind == Kind::Dir || !chosen.admits(&entry, &entry)) {
        return Ok(failures.into_inner());
    }
    if failures.load(Ordering::Relaxed) == 0 {
        match remove_dir(&opened, &entry, how.dry) {
            Err(e) => fail(e.at(path)),
            _ => each(&entry),
        }
    }
    Ok(failures.into_inner())
}

fn refuse(path: &[u8], why: &str) -> Error {
    Error::new(ErrorKind::Usage, "remove").at(path).because(why.to_string()).hint("--force removes it anyway")
}

/// `/`, the home directory and mount points are not removed by a slip.
fn precious(path: &[u8], opened: &open::Opened, entry: &Entry) -> Result<()> {
    let above = opened.store.stat(&Name::of(&Dir::root()), MetaMask::NONE)?;
    if above.dev != entry.dev {
        return Err(refuse(path, "it is a mount point"));
    }
    if (above.dev, above.ino) == (entry.dev, entry.ino) {
        return Err(refuse(path, "it is the root directory"));
    }
    let home = std::env::var_os("HOME").and_then(|home| std::fs::metadata(home).ok());
    if home.is_some_and(|home| {
        (std::os::unix::fs::MetadataExt::dev(&home), std::os::unix::fs::MetadataExt::ino(&home)) == (entry.dev, entry.ino)
    }) {
        return Err(refuse(path, "it is your home directory"));
    }
    Ok(())
}

/// The same on another machine, which tells neither mount points nor inodes.
fn precious_there(asked: &Argument<'_>) -> Result<()> {
    let host = asked.hosts.reach(asked.location)?;
    let path = host.path(asked.location);
    let (above, leaf) = host.split(&path);
    let above = host.open(above, OpenOptions::default())?;
    let root = &above.place().root;
    let real = [&root[..], if root.ends_with(b"/") { &b""[..] } else { b"/" }, leaf].concat();
    if real == host.path(&Location { path: b"~".to_vec(), trailing_slash: false, ..asked.location.clone() }) {
        return Err(refuse(&asked.path, "it is your home directory"));
    }
    Ok(())
}

fn remove(opened: &open::Opened, entry: &Entry, dry: bool) -> Result<()> {
    if dry { Ok(()) } else { opened.store.remove(std::slice::from_ref(entry)).pop().unwrap_or(Ok(())) }
}

/// A directory whose names are all gone: what interrupted runs have left unfinished in it goes too.
fn remove_dir(opened: &open::Opened, entry: &Entry, dry: bool) -> Result<()> {
    remove(opened, entry, dry).or_else(|e| remove_emptied(&*opened.store, entry, e))
}

/// Whether nothing is left in a directory; who may not look leaves it.
fn is_empty(opened: &open::Opened, entry: &Entry) -> bool {
    let dir = entry.name.dir.child(&entry.name.leaf);
    let mut any = false;
    let listed = opened.store.list(&dir, &mut |_| {
        any = true;
        Flow::Stop
    });
    listed.is_ok() && !any
}

/// Everything but directories goes by all threads at once; then the directories, deepest first.
fn empty(
    opened: &open::Opened,
    name: &Name,
    top_entry: &Entry,
    how: Rm<'_>,
    cancel: &Cancel,
    fail: &(dyn Fn(Error) + Sync),
    each: &(dyn Fn(&Entry) + Sync),
) -> Result<()> {
    let top = name.dir.child(&name.leaf);
    let spill = std::env::temp_dir();
    let dirs = Mutex::new(Sorter::new(&spill, 8 << 20, |a, b| b.cmp(a)));
    // With filters only directories in which something was removed are removed, if that has emptied them.
    let touched = Mutex::new(None::<Vec<u8>>);
    let depth = top.path().len();
    let touch = |entry: &Entry| {
        let dir = entry.name.dir.path();
        let mut last = touched.lock().expect("no panic while held");
        if last.as_ref() == Some(&dir) {
            return;
        }
        let ends = (depth + 1..dir.len()).filter(|at| dir[*at] == b'/').chain([dir.len()]);
        for end in ends.filter(|end| *end > depth) {
            if let Err(e) = dirs.lock().expect("no panic while held").push(&dir[..end]) {
                fail(Error::io(e, "spill"));
            }
        }
        *last = Some(dir);
    };
    let visit = |entry: &Entry| {
        if let Some(chosen) = how.chosen {
            // Paths of filters are those below the place.
            let path = entry.name.path();
            if !chosen.admits_at(path.get(depth + 1..).unwrap_or_default(), entry, top_entry) {
                return Descend::No;
            }
            if entry.kind == Kind::Dir {
                return Descend::Yes;
            }
        }
        if entry.kind == Kind::Dir {
            if let Err(e) = dirs.lock().expect("no panic while held").push(&entry.name.path()) {
                fail(Error::io(e, "spill"));
            }
            return Descend::Yes;
        }
        match remove(opened, entry, how.dry) {
            Err(e) if e.kind() != ErrorKind::NotFound => fail(e.on(&entry.name)),
            _ => {
                if how.chosen.is_some() {
                    touch(entry);
                }
                each(entry);
            }
        }
        Descend::No
    };
    let survey = Survey { store: &*opened.store, threads: how.threads, want: MetaMask::NONE, cancel, spill: &spill };
    survey.run(&top, &visit, &|e, _| fail(e))?;
    let mut before = Vec::new();
    for path in dirs.into_inner().expect("no panic while held").finish().map_err(|e| Error::io(e, "sort"))? {
        let path = path.map_err(|e| Error::io(e, "sort"))?;
        let Some(name) = Name::parse(&Dir::root(), &path) else { continue };
        // It comes once for each run of names that were removed in it.
        if std::mem::replace(&mut before, path.clone()) == path {
            continue;
        }
        let entry = Entry::bare(name, Kind::Dir);
        if how.chosen.is_some() && (how.dry || !is_empty(opened, &entry)) {
            continue;
        }
        match remove_dir(opened, &entry, how.dry) {
            Err(e) if e.kind() != ErrorKind::NotFound => fail(e.on(&entry.name)),
            _ => each(&entry),
        }
    }
    Ok(())
}
