//! `haul tree`: names as tree(1) shows them, in flat memory.
//!
//! ```text
//! survey or listing of keys -> sorted on disk, read backwards -> stack on disk -> lines
//! ```
//!
//! Backwards, what is in a directory comes before it, so its sums are known when it is reached; and the first name met in a
//! directory is the last one of it, which is drawn with another line.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, show};
use haul_core::spill::{Sorter, SpillStack};
use haul_core::survey::{Descend, Survey};
use haul_core::{Error, Result};
use haul_run::open::{self, Argument};
use haul_run::scope::{self, Scope};

use super::du::{Chosen, Links, Sum};
use super::object_usage;
use crate::render::listing::{self, Counts, Listed, Usage};
use crate::text::utf8_locale;

#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// Levels that are shown; `None` for all.
    pub depth: Option<u32>,
    /// Names that begin with a dot too.
    pub all: bool,
    pub dirs_only: bool,
    /// Sizes too, those of directories with all that is in them.
    pub sizes: bool,
    pub human: bool,
    pub json: bool,
    pub chosen: Chosen<'a>,
    pub threads: usize,
}

impl How<'_> {
    /// Whether what is below the last level that is shown has to be read.
    fn sums(&self) -> bool {
        self.sizes || self.json
    }

    fn shows(&self, level: u32) -> bool {
        self.depth.is_none_or(|depth| level <= depth)
    }
}

/// Prints the tree below a place. Returns how many names could not be read.
pub fn tree(asked: &Argument<'_>, how: How<'_>, cancel: &Cancel, failed: &(dyn Fn(&Error) + Sync), out: &mut dyn Write) -> Result<u64> {
    let gathered = match scope::of(asked)? {
        Some(scope) => gather_keys(asked, &scope, how)?,
        None => gather(asked, how, cancel, failed)?,
    };
    let errors = gathered.errors;
    gathered.print(&asked.path, how, out).map_err(|e| Error::io(e, "write"))?;
    Ok(errors)
}

/// One name that is shown.
struct Line<'a> {
    /// The parts of its path, each directory with a zero byte behind it: sorted so, a directory comes right before its names.
    key: &'a [u8],
    /// The directory is the last name of the one that it is in; found out backwards.
    last: bool,
    /// Of a file what is shown beside it.
    size: u64,
    /// What it counts.
    sum: Sum,
    /// Of a file: where a link points, or the line of JSON.
    text: &'a [u8],
}

impl Line<'_> {
    fn level(&self) -> u32 {
        let below = self.key.strip_suffix(b"\0").unwrap_or(self.key);
        below.iter().filter(|byte| **byte == 0).count() as u32 + 1
    }

    fn record(&self) -> Vec<u8> {
        let numbers = [u64::from(self.last), self.size, self.sum.bytes, self.sum.files, self.sum.dirs];
        let mut record = (self.key.len() as u32).to_le_bytes().to_vec();
        record.extend_from_slice(self.key);
        numbers.iter().for_each(|number| record.extend_from_slice(&number.to_le_bytes()));
        record.extend_from_slice(self.text);
        record
    }

    fn read(record: &[u8]) -> Line<'_> {
        let key = key_of(record);
        let numbers = &record[4 + key.len()..];
        let number = |nth: usize| numbers[nth * 8..][..8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let sum = Sum { bytes: number(2), files: number(3), dirs: number(4) };
        Line { key, last: number(0) == 1, size: number(1), sum, text: &numbers[40..] }
    }

    fn is_dir(&self) -> bool {
        self.key.ends_with(b"\0")
    }
}

fn key_of(record: &[u8]) -> &[u8] {
    let length = record[..4].iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
    &record[4..4 + length]
}

/// The parts of a path, that of a directory with its own zero byte.
fn key(path: &[u8], is_dir: bool) -> Vec<u8> {
    let mut key: Vec<u8> = path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect();
    if is_dir {
        key.push(0);
    }
    key
}

fn path_of(key: &[u8]) -> Vec<u8> {
    key.strip_suffix(b"\0").unwrap_or(key).iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect()
}

/// All entries that are shown, and the sums of the others.
struct Gathered {
    lines: Sorter,
    /// Of directories at the last level that is shown.
    below: HashMap<Vec<u8>, Sum>,
    top: Sum,
    /// Why a line was lost.
    trouble: Option<io::Error>,
    errors: u64,
}

impl Gathered {
    fn new(top: Sum) -> Gathered {
        // Backwards.
        let lines = Sorter::new(&std::env::temp_dir(), 8 << 20, |a, b| key_of(b).cmp(key_of(a)));
        Gathered { lines, below: HashMap::new(), top, trouble: None, errors: 0 }
    }

    fn add(&mut self, line: &Line<'_>, how: How<'_>) {
        let level = line.level();
        match how.depth.filter(|depth| level > *depth) {
            None => {
                if let Err(e) = self.lines.push(&line.record()) {
                    self.trouble.get_or_insert(e);
                }
            }
            Some(depth) => {
                let mut ends = line.key.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1);
                let dir = &line.key[..ends.nth(depth.saturating_sub(1) as usize).unwrap_or_default()];
                self.below.entry(dir.to_vec()).or_default().merge(line.sum);
            }
        }
    }

    fn print(self, place: &[u8], how: How<'_>, out: &mut dyn Write) -> io::Result<()> {
        let Gathered { lines, mut below, mut top, trouble, errors } = self;
        if let Some(e) = trouble {
            return Err(e);
        }
        let mut stack = SpillStack::new(&std::env::temp_dir(), 8 << 20);
        // By level: what the names in a directory that comes yet sum up to, and whether there was one.
        let mut met: Vec<Option<Sum>> = Vec::new();
        let mut previous = Vec::new();
        for record in lines.finish()? {
            let record = record?;
            let mut line = Line::read(&record);
            if line.is_dir() && line.key == previous {
                continue;
            }
            previous = line.key.to_vec();
            let level = line.level() as usize;
            met.resize(met.len().max(level + 2), None);
            if line.is_dir() {
                line.sum.merge(met[level + 1].take().unwrap_or_default());
                line.sum.merge(below.remove(line.key).unwrap_or_default());
                line.size = line.sum.bytes;
            }
            line.last = met[level].is_none() || (how.dirs_only && met[level].is_some_and(|met| met.dirs == 0));
            met[level].get_or_insert_default().merge(line.sum);
            if line.is_dir() || !how.dirs_only {
                stack.push(&line.record())?;
            }
        }
        top.merge(met.get(1).copied().flatten().unwrap_or_default());
        if how.json { as_json(place, top, errors, &mut stack, out) } else { as_text(place, top, &mut stack, how, out) }
    }
}

fn as_json(place: &[u8], top: Sum, errors: u64, stack: &mut SpillStack, out: &mut dyn Write) -> io::Result<()> {
    let usage = |path: &[u8], level, sum: Sum, errors, out: &mut dyn Write| {
        let counts = Counts { level, bytes: sum.bytes, files: sum.files, directories: sum.dirs, errors };
        Listed::Usage(Usage::of(place, path, counts)).write(out)
    };
    usage(b"", 0, top, Some(errors), out)?;
    while let Some(record) = stack.pop()? {
        let line = Line::read(&record);
        match line.is_dir() {
            true => usage(&path_of(line.key), line.level(), line.sum, None, out)?,
            false => out.write_all(line.text)?,
        }
    }
    Ok(())
}

fn as_text(place: &[u8], top: Sum, stack: &mut SpillStack, how: How<'_>, out: &mut dyn Write) -> io::Result<()> {
    let width = if how.human { 4 } else { 11 };
    let size = |bytes: u64| match (how.sizes, how.human) {
        (false, _) => String::new(),
        (true, true) => format!("[{:>width$}]  ", tree_size(bytes)),
        (true, false) => format!("[{bytes:>width$}]  "),
    };
    let utf8 = utf8_locale(|name| std::env::var(name).ok());
    let [branch, end, beside] = if utf8 { ["├── ", "└── ", "│   "] } else { ["|-- ", "`-- ", "|   "] };
    writeln!(out, "{}{}", size(top.bytes), show(place))?;
    let mut lasts: Vec<bool> = Vec::new();
    while let Some(record) = stack.pop()? {
        let line = Line::read(&record);
        lasts.truncate(line.level() as usize - 1);
        for last in &lasts {
            out.write_all(if *last { b"    " } else { beside.as_bytes() })?;
        }
        lasts.push(line.last);
        let path = path_of(line.key);
        let leaf = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let corner = if line.last { end } else { branch };
        let target = if line.text.is_empty() { String::new() } else { format!(" -> {}", show(line.text)) };
        writeln!(out, "{corner}{}{}{target}", size(line.size), show(leaf))?;
    }
    let things = |n: u64, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    let dirs = things(top.dirs, "directory", "directories");
    let what = if how.dirs_only { dirs } else { format!("{dirs}, {}", things(top.files, "file", "files")) };
    match (how.sizes, how.human) {
        (false, _) => writeln!(out, "\n{what}"),
        (true, true) => writeln!(out, "\n{:>5} used in {what}", tree_size(top.bytes)),
        (true, false) => writeln!(out, "\n{:>12} bytes used in {what}", top.bytes),
    }
}

/// Of a file system.
fn gather(asked: &Argument<'_>, how: How<'_>, cancel: &Cancel, failed: &(dyn Fn(&Error) + Sync)) -> Result<Gathered> {
    let (opened, top) = open::existing(asked)?;
    if opened.leaf.is_some() {
        return Ok(Gathered::new(Sum::of(&top, top.size)));
    }
    let gathered = Mutex::new(Gathered::new(Sum::of(&top, 0)));
    let links = Links::default();
    let visit = |entry: &Entry| {
        let hidden = !how.all && entry.name.leaf.starts_with(b".");
        if hidden || !how.chosen.admits(entry, &top) {
            return Descend::No;
        }
        let (path, is_dir) = (entry.name.path(), entry.kind == Kind::Dir);
        let mut json = Vec::new();
        if how.json && !is_dir {
            let _ = Listed::Entry(Box::new(listing::Entry::of(&asked.path, &path, entry))).write(&mut json); // memory takes all
        }
        let text = if how.json { &json } else { entry.target.as_deref().unwrap_or_default() };
        let sum = Sum::of(entry, if links.seen(entry) { 0 } else { entry.size });
        let key = key(&path, is_dir);
        let line = Line { key: &key, last: false, size: entry.size, sum, text };
        gathered.lock().unwrap_or_else(PoisonError::into_inner).add(&line, how);
        if how.sums() || how.shows(line.level() + 1) { Descend::Yes } else { Descend::No }
    };
    let spill = std::env::temp_dir();
    let survey = Survey { store: &*opened.store, threads: how.threads, want: MetaMask::NONE, cancel, spill: &spill };
    survey.run(&Dir::root(), &visit, &|e, _| {
        gathered.lock().unwrap_or_else(PoisonError::into_inner).errors += 1;
        failed(&e.at(&asked.path));
    })?;
    Ok(gathered.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Of an object store, where directories are only parts of keys.
fn gather_keys(asked: &Argument<'_>, scope: &Scope, how: How<'_>) -> Result<Gathered> {
    let mut gathered = Gathered::new(Sum { dirs: 1, ..Sum::default() });
    let mut dirs: Vec<Vec<u8>> = Vec::new();
    let mut found = Sum::default();
    let one_object = object_usage::each(scope, how.chosen, false, &mut |path, object| {
        let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let is_marker = parts.pop().is_none_or(<[u8]>::is_empty);
        let own = Sum { bytes: object.size, files: u64::from(!is_marker), dirs: 0 };
        found.merge(own);
        let shared = parts.iter().zip(&dirs).take_while(|(part, dir)| **part == dir.as_slice()).count();
        dirs.truncate(shared);
        for (nth, part) in parts.iter().enumerate().skip(shared) {
            dirs.push(part.to_vec());
            let mut sum = Sum { dirs: 1, ..Sum::default() };
            if is_marker && nth + 1 == parts.len() {
                sum.merge(own);
            }
            gathered.add(&Line { key: &key(&dirs.join(&b'/'), true), last: false, size: 0, sum, text: b"" }, how);
        }
        if !is_marker {
            let mut json = Vec::new();
            if how.json {
                let _ = Listed::Entry(Box::new(listing::Entry::of_object(&asked.path, path, object))).write(&mut json); // memory takes all
            }
            gathered.add(&Line { key: &key(path, false), last: false, size: object.size, sum: own, text: &json }, how);
        }
    })?;
    Ok(if one_object { Gathered::new(found) } else { gathered })
}

/// `tree -h`'s sizes: "4.9G", "120K", "17".
fn tree_size(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64;
    let mut unit = ' ';
    for next in ['K', 'M', 'G', 'T', 'P', 'E'] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}
