//! Directories not yet listed.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::spill::SpillStack;

use super::tree::{DirWork, PendingDir};

/// Directories that wait in memory, at some 300 bytes each.
const MOST: usize = 8 * 1024;

/// A stack, so that the walk is depth-first and the stack small. Past some thousands directories wait on disk; their parents stay
/// in memory.
pub struct Pending {
    stack: Vec<PendingDir>,
    spilled: SpillStack,
    spilled_count: u64,
    /// Parents of spilled directories, and how many each has.
    parents: HashMap<u64, (Arc<DirWork>, u64)>,
}

impl Pending {
    pub fn new(spill: &Path) -> Self {
        Pending { stack: Vec::new(), spilled: SpillStack::new(spill, 1 << 20), spilled_count: 0, parents: HashMap::new() }
    }

    pub fn len(&self) -> usize {
        self.stack.len() + self.spilled_count as usize
    }

    pub fn push(&mut self, dir: PendingDir) {
        if self.stack.len() < MOST || self.spilled.push(&dir.encode()).is_err() {
            return self.stack.push(dir);
        }
        self.spilled_count += 1;
        self.parents.entry(dir.parent.dir.id()).or_insert_with(|| (dir.parent.clone(), 0)).1 += 1;
    }

    /// The topmost directory, and with it those right below it on the stack that have the same parent and are to be made
    /// too; `None` when there is none.
    ///
    /// # Errors
    /// Those that wait on disk cannot be read back and are lost to this run, which is why it is an error and not a shorter
    /// walk.
    pub fn next(&mut self, at_once: usize) -> io::Result<Option<Vec<PendingDir>>> {
        if self.stack.is_empty()
            && let Err(e) = self.refill()
        {
            self.spilled_count = 0;
            return Err(e);
        }
        let Some(first) = self.stack.pop() else { return Ok(None) };
        let (parent, make) = (first.parent.dir.id(), first.make);
        let mut batch = vec![first];
        let most = if make { at_once } else { 1 };
        while batch.len() < most
            && let Some(next) = self.stack.last()
            && next.make
            && next.parent.dir.id() == parent
        {
            batch.extend(self.stack.pop());
        }
        Ok(Some(batch))
    }

    /// Takes out the oldest directories, which stand for the largest parts of the tree, as runs of one parent.
    pub fn lend(&mut self, most: usize) -> Vec<(Arc<DirWork>, Vec<PendingDir>)> {
        let mut runs: Vec<(Arc<DirWork>, Vec<PendingDir>)> = Vec::new();
        for dir in self.stack.drain(..most.min(self.stack.len())) {
            match runs.last_mut() {
                Some((parent, run)) if Arc::ptr_eq(parent, &dir.parent) => run.push(dir),
                _ => runs.push((dir.parent.clone(), vec![dir])),
            }
        }
        runs
    }

    /// Brings some of the spilled directories back.
    fn refill(&mut self) -> io::Result<()> {
        while self.spilled_count > 0 && self.stack.len() < MOST / 4 {
            let record = self.spilled.pop()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            self.spilled_count -= 1;
            let dir = self.decode(&record).ok_or(io::ErrorKind::InvalidData)?;
            self.stack.push(dir);
        }
        Ok(())
    }

    fn decode(&mut self, record: &[u8]) -> Option<PendingDir> {
        let (id, rest) = PendingDir::parent_of(record)?;
        let (parent, count) = self.parents.get_mut(&id)?;
        let parent = parent.clone();
        *count -= 1;
        if *count == 0 {
            self.parents.remove(&id);
        }
        PendingDir::decode(parent, rest)
    }
}
