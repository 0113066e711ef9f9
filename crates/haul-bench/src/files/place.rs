//! The directory of a run, with two trees of the same directories in it.

use std::sync::Arc;

use haul_core::cancel::Cancel;
use haul_core::error::Result;
use haul_core::store::Space;

use super::operation::Operation;
use super::pattern::{Key, Pattern};
use super::window::Done;

/// How the name of a run's directory begins; the rest is random.
pub const PREFIX: &str = "haul-bench-files-";
/// Files are made in the first and renamed to the second, or back; links are made in the other one than the files are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    First,
    Second,
}

impl Tree {
    pub const BOTH: [Tree; 2] = [Tree::First, Tree::Second];

    pub fn leaf(self) -> &'static str {
        match self {
            Tree::First => "a",
            Tree::Second => "b",
        }
    }

    #[must_use]
    pub fn other(self) -> Tree {
        match self {
            Tree::First => Tree::Second,
            Tree::Second => Tree::First,
        }
    }
}

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

/// What a name refers to: a file, or what was made beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    File = b'f' as isize,
    Symlink = b's' as isize,
    Hardlink = b'h' as isize,
    Dir = b'd' as isize,
}

/// Bytes of a leaf with the zero byte behind it: a letter, the thread, `-`, the number.
const LEAF: usize = 26;

/// A name in a directory, made without memory from the heap: `f003-0000017`.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    bytes: [u8; LEAF],
    length: usize,
}

impl Leaf {
    pub fn new(role: Role, thread: u32, index: u64) -> Leaf {
        let mut bytes = [0; LEAF];
        // From the end, which is a zero byte: digits of the index, at least seven; then three or more of the thread.
        let mut at = LEAF - 1;
        let mut digits = |mut number: u64, least: usize, at: &mut usize| {
            let end = *at;
            while number > 0 || end - *at < least {
                *at -= 1;
                bytes[*at] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        digits(index.min(99_999_999_999_999), 7, &mut at);
        at -= 1;
        let dash = at;
        digits(u64::from(thread.min(9_999_999)), 3, &mut at);
        bytes[dash] = b'-';
        at -= 1;
        bytes[at] = role as u8;
        bytes.copy_within(at.., 0);
        let length = LEAF - 1 - at;
        bytes[length..].fill(0);
        Leaf { bytes, length }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn c_str(&self) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_with_nul(&self.bytes[..=self.length]).expect("digits, a dash and a letter before the one zero byte")
    }
}

/// What the files of a run are like at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub size: u64,
    pub appended: u64,
    /// Times the files were written over.
    pub version: u32,
    pub tree: Tree,
}

impl Shape {
    /// Of files that were just made.
    pub fn new(size: u64) -> Shape {
        Shape { size, appended: 0, version: 0, tree: Tree::First }
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
            Operation::Rename => self.tree = self.tree.other(),
            _ => {}
        }
    }
}

/// The bytes of a file that was written over only in part: its first `size` bytes are of another version than the rest.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    pub shape: Shape,
    pub thread: u32,
    pub index: u64,
}

impl Content {
    /// The key of the segment that an append or a create wrote; each segment has records of its own.
    pub fn key(&self, segment: u64) -> Key {
        let version = if segment == 0 { self.shape.version << 16 } else { segment as u32 };
        Key { thread: self.thread, index: self.index, version }
    }

    /// The first place where `read`, which begins at `from`, is not what was written.
    pub fn wrong(&self, pattern: &Pattern, from: u64, read: &[u8]) -> Option<u64> {
        let size = self.shape.size.max(1);
        let mut at = 0;
        while at < read.len() {
            let (segment, skip) = ((from + at as u64) / size, (from + at as u64) % size);
            let length = ((size - skip) as usize).min(read.len() - at);
            if let Some(wrong) = pattern.wrong(self.key(segment), skip, &read[at..at + length]) {
                return Some(segment * size + wrong);
            }
            at += length;
        }
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    pub fsync: bool,
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
    pub fn content(&self, index: u64) -> Content {
        Content { shape: self.shape, thread: self.thread, index }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_short_and_each_another() {
        let of = |role, thread, index| String::from_utf8(Leaf::new(role, thread, index).bytes().to_vec()).unwrap();
        assert_eq!(of(Role::File, 3, 17), "f003-0000017");
        assert_eq!(of(Role::Dir, 0, 0), "d000-0000000");
        assert_eq!(of(Role::Symlink, 1023, 12_345_678), "s1023-12345678");
        assert_eq!(Leaf::new(Role::Hardlink, 9_999_999, u64::MAX).c_str().to_bytes(), b"h9999999-99999999999999");
    }

    #[test]
    fn appended_and_overwritten_parts_are_verified() {
        let pattern = Pattern::new(64);
        let mut shape = Shape { size: 100, appended: 0, version: 0, tree: Tree::First };
        let of = |shape: Shape, segment| {
            let content = Content { shape, thread: 1, index: 2 };
            pattern.parts(content.key(segment), 0, 100).flatten().copied().collect::<Vec<u8>>()
        };
        let mut file = of(shape, 0);
        shape.after(Operation::Append);
        file.extend(of(shape, 1));
        shape.after(Operation::Overwrite);
        let content = Content { shape, thread: 1, index: 2 };
        assert_eq!(content.wrong(&pattern, 0, &file), Some(0));
        file.splice(..100, of(shape, 0));
        assert_eq!(content.wrong(&pattern, 0, &file), None);
        assert_eq!(content.wrong(&pattern, 70, &file[70..170]), None);
        file[150] ^= 1;
        assert_eq!(content.wrong(&pattern, 0, &file), Some(150));
        assert_eq!(shape.whole(), 200);
    }
}
