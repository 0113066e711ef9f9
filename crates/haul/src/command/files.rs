//! `haul ls`, `cat`, `mkdir`: the small ones.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::bundle::{Bundle, Outcome};
use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, OwnerNames, Time, show};
use haul_core::place::OpenOptions;
use haul_core::spill::Sorter;
use haul_core::store::{Found, Store, Who};
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, ErrorKind, Result};
use haul_run::hosts::Hosts;
use haul_run::location::Location;
use haul_run::open::{self, Argument};
use haul_run::wild;

use super::du::Chosen;
use crate::render::listing::{self, Listed};
use crate::units;

#[derive(Clone, Copy, Debug)]
pub struct Ls<'a> {
    pub chosen: Chosen<'a>,
    pub long: bool,
    pub all: bool,
    pub human: bool,
    pub recursive: bool,
    /// Of object stores.
    pub etag: bool,
    /// A directory's name is printed above what is in it.
    pub titled: bool,
    pub json: bool,
    pub threads: usize,
}

/// How many names a command failed on.
pub type Failures = u64;

/// What `ls` lists, wildcards expanded: as ls(1) has them first files, then directories, or as they are `given`.
pub fn operands(places: &[Location], hosts: &Hosts, given: bool) -> Vec<Result<Location>> {
    let mut named: Vec<(Result<Location>, Option<Kind>)> = Vec::new();
    for place in &wild::alternatives(places, hosts) {
        match wild::expand(place, hosts, OpenOptions::default()) {
            Ok(Some(matches)) => named.extend(matches.into_iter().map(|found| (Ok(found.location), Some(found.entry.kind)))),
            Ok(None) => named.push((Ok(place.clone()), None)),
            Err(e) => named.push((Err(e), None)),
        }
    }
    if named.len() > 1 && !given {
        named.sort_by_cached_key(|(place, kind)| match (place, kind) {
            (Err(_), _) => false,
            (Ok(place), _) if place.scheme.keys => true,
            (Ok(place), None | Some(Kind::Link | Kind::Unknown)) => is_dir(place, hosts),
            (Ok(_), Some(kind)) => *kind == Kind::Dir,
        });
    }
    named.into_iter().map(|(place, _)| place).collect()
}

fn is_dir(place: &Location, hosts: &Hosts) -> bool {
    hosts.reach(place).and_then(|host| host.lookup(&host.path(place))).is_ok_and(|kind| kind == Some(Kind::Dir))
}

/// The line above what is in a directory.
pub fn title(path: &[u8], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}:", show(path)).map_err(|e| Error::io(e, "write"))
}

/// Lists a directory in order of names, or one file.
pub fn ls(asked: &Argument<'_>, how: Ls<'_>, cancel: &Cancel, failed: &(dyn Fn(&Error) + Sync), out: &mut dyn Write) -> Result<Failures> {
    let (opened, top) = open::existing(asked)?;
    let place = &asked.path[..];
    let owners = Owners { store: &*opened.store, known: Mutex::default() };
    // The path is empty for what was named itself.
    let print = |entry: &Entry, path: &[u8], out: &mut dyn Write| match how.json {
        true => Listed::Entry(Box::new(listing::Entry::of(place, path, entry))).write(out),
        false => line(entry, &show(if path.is_empty() { place } else { path }), how, &owners, out),
    };
    if opened.leaf.is_some() {
        print(&top, b"", out).map_err(|e| Error::io(e, "write"))?;
        return Ok(0);
    }
    if how.titled {
        title(place, out)?;
    }
    let failures = AtomicU64::new(0);
    let fail = |e: Error| {
        failures.fetch_add(1, Ordering::Relaxed);
        failed(&e.at(&asked.path));
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

/// The names of owners, each asked for once.
struct Owners<'a> {
    store: &'a dyn Store,
    known: Mutex<HashMap<(bool, u32), String>>,
}

impl Owners<'_> {
    /// The number where there is no name.
    fn of(&self, who: Who, id: u32, kept: Option<&[u8]>) -> String {
        if let Some(name) = kept.filter(|name| !name.is_empty() && *name != OwnerNames::NONE) {
            return show(name);
        }
        let mut known = self.known.lock().expect("no panic while held");
        let ask = || self.store.extensions().owners.name(who, id).ok().flatten().map_or_else(|| id.to_string(), |name| show(&name));
        known.entry((matches!(who, Who::User), id)).or_insert_with(ask).clone()
    }
}

fn line(entry: &Entry, name: &str, how: Ls<'_>, owners: &Owners<'_>, out: &mut dyn Write) -> io::Result<()> {
    let slash = if entry.kind == Kind::Dir { "/" } else { "" };
    if !how.long {
        return writeln!(out, "{name}{slash}");
    }
    let size = if how.human { units::bytes(entry.size) } else { entry.size.to_string() };
    let target = entry.target.as_deref().map_or(String::new(), |t| format!(" -> {}", show(t)));
    let uid = owners.of(Who::User, entry.uid, entry.user_name());
    let gid = owners.of(Who::Group, entry.gid, entry.group_name());
    writeln!(out, "{} {:>3} {uid:<8} {gid:<8} {size:>12} {} {name}{slash}{target}", mode_words(entry), entry.nlink, stamp(entry.mtime))
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
    let (mut opened, mut found) = match open::raw_object(asked.location, asked.hosts, OpenOptions::default())? {
        Some(object) => {
            let entry = object.stat()?;
            (object, entry)
        }
        None => open::existing(asked)?,
    };
    // What a link of the user's own argument points to is meant.
    let from_here = open::follows_from_here(asked.location);
    if from_here && found.kind == Kind::Link {
        (opened, found) = open::followed(asked)?;
    }
    let is_dir = || Error::new(ErrorKind::Usage, "read").at(path).because("is a directory");
    if opened.leaf.is_none() {
        return Err(is_dir());
    }
    let name = opened.name();
    let follow = !from_here || found.kind == Kind::Link;
    let leaves: [&[u8]; 1] = [&name.leaf];
    let entry = match opened.store.stat_many(&name.dir, &leaves, MetaMask::NONE, follow).pop() {
        Some(Found::Entry(entry)) if entry.kind != Kind::Dir => entry,
        Some(Found::Failed(e)) => return Err(e.on(&name)),
        _ => return Err(is_dir()),
    };
    if entry.kind != Kind::File && !asked.location.is_remote() {
        // A fifo or a device is read because it was named.
        let mut file = std::fs::File::open(open::path_of(path)).map_err(|e| Error::io(e, "open").at(path))?;
        return io::copy(&mut file, out).map(drop).map_err(|e| Error::io(e, "read").at(path));
    }
    if opened.store.caps().streams {
        let source = opened.store.open(&entry, follow).map_err(|e| e.at(path))?;
        return pass_on(&mut *source.stream()?, path, out);
    }
    if entry.size <= 4096 {
        // The size may say nothing, as those of `/proc` (0) and `/sys` (a page).
        let mut bundle = Bundle { follow, ..Bundle::default() };
        bundle.push(entry);
        opened.store.get_bundle(&mut bundle);
        return match bundle.items.pop().map(|item| item.outcome) {
            Some(Outcome::Failed(e)) => Err(e.at(path)),
            _ => out.write_all(&bundle.data).map_err(|e| Error::io(e, "write")),
        };
    }
    let source = opened.store.open(&entry, follow).map_err(|e| e.at(path))?;
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
        return host.make_dir(&there, parents).map(drop);
    }
    let place = open::path_of(path);
    let made = if parents { std::fs::create_dir_all(&place) } else { std::fs::create_dir(&place) };
    made.map_err(|e| {
        let no_parent = e.kind() == io::ErrorKind::NotFound;
        let e = Error::io(e, "mkdir").at(path);
        if no_parent { e.hint("-p creates the parent directories") } else { e }
    })
}
