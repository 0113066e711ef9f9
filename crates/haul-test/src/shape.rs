//! Trees of an unusual shape that exist nowhere: very deep ones, and files with many names.

use std::io::Read;
use std::ops::Range;

use haul_bench::synthetic::Synthetic;
use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Stamp, Time};
use haul_core::store::{Caps, Flow, Place, Source, Store};
use haul_core::{Error, ErrorKind, Result};

/// A source of empty files. Names are decimal numbers, so that the shape need not be stored.
#[derive(Debug)]
pub struct Shape {
    form: Form,
    caps: Caps,
    place: Place,
}

#[derive(Debug)]
enum Form {
    /// So many directories, each in the one before, and a file in each.
    Deep(u64),
    /// So many names in one directory, three of them one file.
    Links(u64),
}

impl Shape {
    pub fn deep(depth: u64) -> Self {
        Self::new(Form::Deep(depth))
    }

    pub fn links(names: u64) -> Self {
        Self::new(Form::Links(names))
    }

    fn new(form: Form) -> Self {
        let like = Synthetic::new(0, 0, 0);
        Shape { form, caps: like.caps().clone(), place: like.place().clone() }
    }

    fn made(&self, name: Name, kind: Kind, ino: u64, nlink: u32) -> Entry {
        let mut entry = Entry::bare(name, kind);
        entry.have = self.caps.attributes.lists;
        entry.mtime = Time { secs: 1_700_000_000, nanos: 1 };
        entry.mode = if kind == Kind::Dir { 0o755 } else { 0o644 };
        (entry.ino, entry.version, entry.dev, entry.nlink) = (ino, ino, 1, nlink);
        entry
    }

    fn find(&self, name: &Name) -> Result<Entry> {
        let absent = || Error::new(ErrorKind::NotFound, "stat").on(name);
        if name.leaf.is_empty() {
            return Ok(self.made(name.clone(), Kind::Dir, 1, 1));
        }
        let number: u64 = std::str::from_utf8(&name.leaf).ok().and_then(|leaf| leaf.parse().ok()).ok_or_else(absent)?;
        let depth = u64::from(name.dir.depth());
        match self.form {
            Form::Deep(most) if number == 0 && depth < most => Ok(self.made(name.clone(), Kind::Dir, 2 * depth + 2, 1)),
            Form::Deep(_) if number == 1 => Ok(self.made(name.clone(), Kind::File, 2 * depth + 3, 1)),
            // The three names of a file are far from each other, so that most files wait for the rest of theirs.
            Form::Links(names) if number < names && depth == 0 => {
                Ok(self.made(name.clone(), Kind::File, 2 + number % (names / 3).max(1), 3))
            }
            _ => Err(absent()),
        }
    }
}

impl Store for Shape {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, _want: MetaMask) -> Result<Entry> {
        self.find(name)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let count = match self.form {
            Form::Deep(_) => 2,
            Form::Links(names) => names,
        };
        for number in 0..count {
            let name = Name::new(dir, format!("{number}").as_bytes());
            match self.find(&name) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                found => {
                    if each(found) == Flow::Stop {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn open(&self, entry: &Entry, _follow: bool) -> Result<Box<dyn Source>> {
        Ok(Box::new(Empty(self.find(&entry.name)?)))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        for item in bundle.items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Listed)) {
            item.outcome = match self.find(&item.entry.name) {
                Ok(_) => Outcome::Read,
                Err(e) => Outcome::Failed(e),
            };
        }
    }
}

struct Empty(Entry);

impl Source for Empty {
    fn read(&self, _at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(std::io::empty()))
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(self.0.stamp())
    }
}
