//! The directory of a run, with two trees of the same directories in it.

use std::sync::Arc;

use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Space;
use serde::Serialize;

use super::operation::Operation;
use super::pattern::{Pattern, seed};
use super::window::Done;

/// How the name of a run's directory begins; the rest is random.
pub const PREFIX: &str = "haul-bench-files-";

/// The trees of a run: files are made in the first and renamed to the second, or back; links are made in the other one than the
/// files are in.
pub const TREES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
pub struct Layout {
    pub same_dir: bool,
    /// Of one thread, in one directory.
    pub files_per_dir: u64,
    pub counts: Vec<u64>,
}

impl Layout {
    /// The directory of a thread's files from `number` times `files_per_dir` on.
    pub fn leaf(&self, thread: u32, number: u64) -> String {
        if self.same_dir { format!("d{number:04}") } else { format!("t{thread:03}-d{number:04}") }
    }

    pub fn leaves(&self) -> Vec<String> {
        let dirs = |count: &u64| count.div_ceil(self.files_per_dir).max(1);
        if self.same_dir {
            return (0..self.counts.iter().map(dirs).max().unwrap_or(0)).map(|number| self.leaf(0, number)).collect();
        }
        let of = |(thread, count): (usize, &u64)| (0..dirs(count)).map(move |number| self.leaf(thread as u32, number));
        self.counts.iter().enumerate().flat_map(of).collect()
    }
}

/// A name in a directory: `f003-0000017` of a file, with another letter of what was made beside it.
pub fn leaf(letter: char, thread: u32, index: u64) -> String {
    format!("{letter}{thread:03}-{index:07}")
}

/// Whether a listed name is that of a file.
pub fn is_file(leaf: &[u8]) -> bool {
    leaf.starts_with(b"f")
}

/// What the files of a run are like at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub size: u64,
    pub appended: u64,
    /// Times the files were written over.
    pub version: u32,
    /// Of [`TREES`].
    pub tree: usize,
}

impl Shape {
    /// Of files that were just made.
    pub fn new(size: u64) -> Shape {
        Shape { size, appended: 0, version: 0, tree: 0 }
    }

    pub fn whole(self) -> u64 {
        self.size.saturating_mul(self.appended + 1)
    }

    pub fn after(&mut self, op: Operation) {
        match op {
            Operation::Create => *self = Shape::new(self.size),
            Operation::Append => self.appended += 1,
            Operation::Overwrite => self.version += 1,
            Operation::TruncateOverwrite => (self.version, self.appended) = (self.version + 1, 0),
            Operation::Rename => self.tree = 1 - self.tree,
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Manner {
    pub fsync: bool,
    #[serde(rename = "verify_read")]
    pub verify: bool,
    pub xattr_size: usize,
    pub xattr_count: u32,
}

/// What a thread needs to know of its work.
#[derive(Clone, Debug)]
pub struct Task {
    pub thread: u32,
    pub operation: Operation,
    pub shape: Shape,
    pub manner: Manner,
    pub layout: Arc<Layout>,
    pub pattern: Arc<Pattern>,
}

impl Task {
    /// Of the bytes that a create (0) or the nth append wrote: each such segment has records of its own, and only the first is
    /// written over.
    pub fn seed(&self, index: u64, segment: u64) -> u64 {
        seed(self.thread, index, if segment == 0 { self.shape.version << 16 } else { segment as u32 })
    }

    /// `Corrupt` if `read`, which begins at `from` in the file, is not what was written, and it is to be verified.
    pub fn verify(&self, index: u64, from: u64, read: &[u8]) -> Result<()> {
        let size = self.shape.size.max(1);
        let mut at = 0;
        while self.manner.verify && at < read.len() {
            let (segment, skip) = ((from + at as u64) / size, (from + at as u64) % size);
            let length = ((size - skip) as usize).min(read.len() - at);
            if let Some(wrong) = self.pattern.wrong(self.seed(index, segment), skip, &read[at..at + length]) {
                let why = format!("byte {} is not what was written", segment * size + wrong);
                return Err(Error::new(ErrorKind::Corrupt, "read").because(why));
            }
            at += length;
        }
        Ok(())
    }

    /// `Corrupt` if fewer files are listed in a directory than are there.
    pub fn listed(&self, found: u64, files: u64, dir: &[u8]) -> Result<()> {
        if found >= files {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Corrupt, "list").at(dir).because(format!("{found} files are listed where {files} are")))
    }

    /// The names and the value of extended attributes.
    pub fn attributes(&self) -> (Vec<String>, Vec<u8>) {
        let value = self.pattern.parts(self.seed(0, 0), 0, self.manner.xattr_size as u64).flatten().copied().collect();
        ((0..self.manner.xattr_count).map(|at| format!("user.haul-bench-{at}")).collect(), value)
    }
}

/// The directory of a run, wherever it is. Whoever makes one of these has made the directory.
pub trait Place: Send + Sync {
    /// Its address, as the user would type it.
    fn words(&self) -> String;

    /// Why an operation cannot be done here; `None` if it can.
    fn refuses(&self, operation: Operation) -> Option<String>;

    fn space(&self) -> Result<Option<Space>>;

    fn lay(&self, layout: &Layout) -> Result<()>;

    /// Removes everything below the directory; `Cancelled` when it is stopped.
    fn clear(&self, cancel: &Cancel) -> Result<()>;

    /// Removes the directory itself after all that is in it.
    fn remove(&self) -> Result<()>;

    /// Whether the thread that asks for an operation does it itself, so that its processor time is that of the operation.
    fn works_in_thread(&self) -> bool {
        false
    }

    fn runner(&self, task: Task) -> Result<Box<dyn OpRunner>>;
}

/// One thread's access to the place, for one operation.
pub trait OpRunner: Send {
    /// Enters the directory of the files from `number` times `files_per_dir` on. Not counted.
    fn enter(&mut self, number: u64) -> Result<()>;

    /// Does the operation with one file. `Corrupt`: what was read is not what was written.
    fn work(&mut self, index: u64) -> Result<Done>;

    /// Lists the directory that was entered, in which `files` files of this thread are, from `first` on.
    fn list(&mut self, first: u64, files: u64) -> Result<Done>;
}
