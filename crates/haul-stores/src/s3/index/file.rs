//! A finished file: immutable, so that any number of processes may read it while another takes its place.
//!
//! ```text
//! file  = heading | leaves, each branch behind its leaves | root | foot
//! foot  = nonce | offset of the root | its bytes | records | checksum
//! ```

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use haul_core::hash::xxh128;

use super::block::{Content, Opener, Place, Sort};
use super::leaf::{Leaf, Row};
use super::table::Table;

/// For people who come across the file, and the version of all that follows.
pub(super) const HEADING: &[u8] = b"haul: what is known of the objects of one bucket, version 1; may be deleted\n";

pub(super) const FOOT: usize = 16 + 8 + 8 + 8 + 16;

/// What the checksums of a file begin with: the endpoint and bucket, as `scope`, and a number drawn for the file.
pub(super) fn seed_of(scope: u128, nonce: u128) -> u128 {
    let mut bytes = HEADING.to_vec();
    bytes.extend_from_slice(&scope.to_le_bytes());
    bytes.extend_from_slice(&nonce.to_le_bytes());
    xxh128(&bytes)
}

/// The last bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foot {
    pub nonce: u128,
    pub root: Place,
    pub records: u64,
}

impl Foot {
    pub fn seal(&self, scope: u128) -> [u8; FOOT] {
        let mut bytes = [0; FOOT];
        bytes[..16].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.root.offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.root.size.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.records.to_le_bytes());
        let sum = Self::sum(scope, &bytes[..40]);
        bytes[40..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn open(scope: u128, bytes: &[u8; FOOT]) -> Option<Foot> {
        let number = |at: usize| bytes[at..].first_chunk().map(|number| u64::from_le_bytes(*number));
        let sum = u128::from_le_bytes(*bytes.last_chunk()?);
        let foot = Foot {
            nonce: u128::from_le_bytes(*bytes.first_chunk()?),
            root: Place { offset: number(16)?, size: number(24)? },
            records: number(32)?,
        };
        (sum == Self::sum(scope, &bytes[..40])).then_some(foot)
    }

    fn sum(scope: u128, bytes: &[u8]) -> u128 {
        let mut hashed = seed_of(scope, 0).to_le_bytes().to_vec();
        hashed.extend_from_slice(bytes);
        xxh128(&hashed)
    }
}

/// An open file with its root.
#[derive(Debug)]
pub(super) struct Stored {
    file: File,
    seed: u128,
    root: Table,
    /// As the file says; for estimates only.
    pub records: u64,
    /// Bytes.
    pub size: u64,
}

impl Stored {
    /// `None` if there is no such file, or none that can be used.
    pub fn open(path: &Path, scope: u128) -> Option<Stored> {
        // Not to wait for a writer, should somebody have put a pipe there.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let mut foot = [0; FOOT];
        file.read_exact_at(&mut foot, meta.len().checked_sub(FOOT as u64)?).ok()?;
        let foot = Foot::open(scope, &foot)?;
        let seed = seed_of(scope, foot.nonce);
        let (mut content, mut root) = (Content::default(), Table::default());
        Opener::new().ok()?.open(&file, seed, Sort::Root, foot.root, &mut content)?;
        root.set(&mut content.rows);
        Some(Stored { file, seed, root, records: foot.records, size: meta.len() })
    }

    pub fn memory(&self) -> usize {
        self.root.memory()
    }
}

/// One reader's place in a file: one branch and one leaf are held.
pub(super) struct Position {
    opener: Opener,
    branch: Table,
    /// What the branch was read into.
    spare: Content,
    leaf: Leaf,
    /// Which branch, and which leaf of it, are held. One that is damaged is held as an empty one.
    at: Option<(usize, Option<usize>)>,
}

impl Position {
    /// `None` if there is no memory.
    pub fn new() -> Option<Position> {
        let opener = Opener::new().ok()?;
        Some(Position { opener, branch: Table::default(), spare: Content::default(), leaf: Leaf::default(), at: None })
    }

    /// Bytes held, without the 100 KB of the decompressor.
    pub fn memory(&self) -> usize {
        self.opener.memory() + self.branch.memory() + self.spare.memory() + self.leaf.memory()
    }

    pub fn find<'a>(&'a mut self, stored: &Stored, key: &[u8]) -> Option<Row<'a>> {
        if !self.holds(stored, key) {
            let branch = stored.root.find(key)?;
            self.load_branch(stored, branch);
            let leaf = self.branch.find(key)?;
            self.load_leaf(stored, branch, leaf);
        }
        self.leaf.find(key)
    }

    /// Whether the leaf held is the one that would have the key.
    fn holds(&self, stored: &Stored, key: &[u8]) -> bool {
        let Some((branch, Some(leaf))) = self.at else { return false };
        let end = self.branch.key(leaf + 1).or_else(|| stored.root.key(branch + 1));
        self.branch.key(leaf).is_some_and(|first| first <= key) && end.is_none_or(|end| key < end)
    }

    fn load_branch(&mut self, stored: &Stored, branch: usize) {
        if self.at.is_some_and(|(held, _)| held == branch) {
            return;
        }
        self.at = Some((branch, None));
        self.branch.clear();
        let Some(place) = stored.root.place(branch) else { return };
        if self.opener.open(&stored.file, stored.seed, Sort::Branch, place, &mut self.spare).is_some() {
            self.branch.set(&mut self.spare.rows);
        }
    }

    fn load_leaf(&mut self, stored: &Stored, branch: usize, leaf: usize) {
        if self.at == Some((branch, Some(leaf))) {
            return;
        }
        self.at = Some((branch, Some(leaf)));
        self.leaf.content.clear();
        if let Some(place) = self.branch.place(leaf) {
            let _empty_if_bad = self.opener.open(&stored.file, stored.seed, Sort::Leaf, place, &mut self.leaf.content);
        }
        self.leaf.rewind();
    }
}

/// All of a file, leaf by leaf.
pub(super) struct Sweep<'a> {
    stored: &'a Stored,
    position: Position,
    branch: usize,
    leaf: usize,
}

impl<'a> Sweep<'a> {
    /// Before the first leaf. `None` if there is no memory.
    pub fn new(stored: &'a Stored) -> Option<Sweep<'a>> {
        let mut position = Position::new()?;
        position.load_branch(stored, 0);
        Some(Sweep { stored, position, branch: 0, leaf: 0 })
    }

    /// The first key of the leaf it stands at; `None` at the end.
    pub fn first(&mut self) -> Option<&[u8]> {
        while self.leaf >= self.position.branch.len() {
            if self.branch >= self.stored.root.len() {
                return None;
            }
            self.branch += 1;
            self.leaf = 0;
            self.position.load_branch(self.stored, self.branch);
        }
        self.position.branch.key(self.leaf)
    }

    /// The first key behind the leaf; `None` if it is the last.
    pub fn end(&self) -> Option<&[u8]> {
        self.position.branch.key(self.leaf + 1).or_else(|| self.stored.root.key(self.branch + 1))
    }

    /// Bytes of the leaf in the file.
    pub fn size(&self) -> u64 {
        self.position.branch.place(self.leaf).map_or(0, |place| place.size)
    }

    pub fn step(&mut self) {
        self.leaf += 1;
    }

    /// The rows of the leaf; none if it is damaged.
    pub fn unpack(&mut self) -> &mut Leaf {
        self.position.load_leaf(self.stored, self.branch, self.leaf);
        &mut self.position.leaf
    }

    /// The leaf as it stands in the file; `None` if it is damaged.
    pub fn packed(&mut self) -> Option<&Opener> {
        let place = self.position.branch.place(self.leaf)?;
        self.position.opener.read(&self.stored.file, self.stored.seed, Sort::Leaf, place)?;
        Some(&self.position.opener)
    }
}
