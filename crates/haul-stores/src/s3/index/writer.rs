//! Writes a file from its first key to its last, holding one leaf, one branch and the root.

use std::fs::File;
use std::io::{self, Write};

use super::block::{FULL, OVERFULL, Opener, Place, ROOT_FULL, Sealer, Sort};
use super::file::{Foot, HEADING, seed_of};
use super::leaf::{LeafBuilder, Row};
use super::record::HASH;
use super::table::put_row;

pub(super) struct Writer<'a> {
    file: &'a File,
    scope: u128,
    nonce: u128,
    /// Bytes after which nothing is taken any more.
    most: u64,
    sealer: Sealer,
    offset: u64,
    leaf: LeafBuilder,
    /// The greatest key so far, as far as it is known; empty before the first.
    last: Vec<u8>,
    branch: Vec<u8>,
    /// The first key of the branch.
    first: Vec<u8>,
    root: Vec<u8>,
    records: u64,
}

impl<'a> Writer<'a> {
    pub fn new(mut file: &'a File, scope: u128, nonce: u128, most: u64) -> io::Result<Writer<'a>> {
        file.write_all(HEADING)?;
        Ok(Writer {
            file,
            scope,
            nonce,
            most,
            sealer: Sealer::new(seed_of(scope, nonce))?,
            offset: HEADING.len() as u64,
            leaf: LeafBuilder::default(),
            last: Vec::new(),
            branch: Vec::new(),
            first: Vec::new(),
            root: Vec::new(),
            records: 0,
        })
    }

    /// Adds a new record. One whose key does not come after all others is left out, and so is what comes when the file
    /// is full.
    pub fn add(&mut self, row: Row<'_>) -> io::Result<()> {
        self.add_until(row, FULL)
    }

    /// Adds a record of a leaf of an older file.
    pub fn add_old(&mut self, row: Row<'_>) -> io::Result<()> {
        self.add_until(row, OVERFULL)
    }

    fn add_until(&mut self, row: Row<'_>, full: usize) -> io::Result<()> {
        if row.key <= &self.last[..] || self.is_full() {
            return Ok(());
        }
        self.leaf.add(row);
        self.last.clear();
        self.last.extend_from_slice(row.key);
        if self.leaf.has(full) { self.end_leaf() } else { Ok(()) }
    }

    /// Whether a leaf of an older file may be added as it is: not if that left a small one behind each time.
    pub fn takes_leaf(&self) -> bool {
        self.leaf.rows == 0 || self.leaf.has(FULL / 2)
    }

    /// Adds the leaf that was read last, with `first` as its first key.
    pub fn add_leaf(&mut self, first: &[u8], packed: &Opener) -> io::Result<()> {
        if first <= &self.last[..] || self.is_full() {
            return Ok(());
        }
        self.end_leaf()?;
        self.last.clear();
        self.last.extend_from_slice(first);
        let block = self.sealer.seal_again(Sort::Leaf, self.offset, packed);
        self.file.write_all(block)?;
        let size = block.len() as u64;
        self.place_leaf(first, size, (packed.plain_size() / HASH) as u64)
    }

    fn is_full(&self) -> bool {
        self.offset + self.leaf.size() as u64 >= self.most || self.root.len() >= ROOT_FULL
    }

    fn end_leaf(&mut self) -> io::Result<()> {
        if self.leaf.rows == 0 {
            return Ok(());
        }
        let content = &self.leaf.content;
        let block = self.sealer.seal(Sort::Leaf, self.offset, &content.rows, &content.plain)?;
        self.file.write_all(block)?;
        let size = block.len() as u64;
        let (first, rows) = (std::mem::take(&mut self.leaf.first), self.leaf.rows);
        self.leaf.clear();
        self.place_leaf(&first, size, rows)?;
        self.leaf.first = first;
        Ok(())
    }

    fn place_leaf(&mut self, first: &[u8], size: u64, rows: u64) -> io::Result<()> {
        if self.branch.is_empty() {
            self.first.clear();
            self.first.extend_from_slice(first);
        }
        put_row(&mut self.branch, first, Place { offset: self.offset, size });
        self.offset += size;
        self.records += rows;
        if self.branch.len() >= FULL { self.end_branch() } else { Ok(()) }
    }

    fn end_branch(&mut self) -> io::Result<()> {
        if self.branch.is_empty() {
            return Ok(());
        }
        let block = self.sealer.seal(Sort::Branch, self.offset, &self.branch, &[])?;
        self.file.write_all(block)?;
        let size = block.len() as u64;
        put_row(&mut self.root, &self.first, Place { offset: self.offset, size });
        self.offset += size;
        self.branch.clear();
        Ok(())
    }

    /// Makes the file whole. Records in it.
    pub fn finish(mut self) -> io::Result<u64> {
        self.end_leaf()?;
        self.end_branch()?;
        let block = self.sealer.seal(Sort::Root, self.offset, &self.root, &[])?;
        self.file.write_all(block)?;
        let root = Place { offset: self.offset, size: block.len() as u64 };
        let foot = Foot { nonce: self.nonce, root, records: self.records };
        self.file.write_all(&foot.seal(self.scope))?;
        Ok(self.records)
    }
}
