//! When a directory is done: when nothing in it is open any more, neither here nor in another process.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::tree::DirWork;

pub struct Completion<R> {
    /// Open items by directory id: what has to be done before the directory is.
    open: HashMap<u64, usize>,
    /// Directories in which nothing is open, for their own attributes.
    ready: VecDeque<Arc<DirWork>>,
    /// What other processes do, by the number of its lease, and the directory that waits for it.
    outside: HashMap<u64, Arc<DirWork>>,
    leases: u64,
    replies: VecDeque<(Arc<DirWork>, R)>,
}

impl<R> Completion<R> {
    pub fn new() -> Self {
        Completion { open: HashMap::new(), ready: VecDeque::new(), outside: HashMap::new(), leases: 0, replies: VecDeque::new() }
    }

    /// Nothing is ready, and nothing is awaited from outside.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.replies.is_empty() && self.outside.is_empty()
    }

    /// Whether no other process has anything to do or to say.
    pub fn all_inside(&self) -> bool {
        self.outside.is_empty() && self.replies.is_empty()
    }

    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    pub fn take_ready(&mut self, most: usize) -> Vec<Arc<DirWork>> {
        self.ready.drain(..most.min(self.ready.len())).collect()
    }

    pub fn open(&mut self, work: &DirWork, items: usize) {
        *self.open.entry(work.dir.id()).or_default() += items;
    }

    /// Items of a directory are done. `true` if the last of them was among them, so that the directory is ready.
    pub fn close(&mut self, work: &Arc<DirWork>, items: usize) -> bool {
        let id = work.dir.id();
        let Some(open) = self.open.get_mut(&id).filter(|_| items > 0) else { return false };
        *open -= items.min(*open);
        let done = *open == 0;
        if done {
            self.open.remove(&id);
            self.ready.push_back(work.clone());
        }
        done
    }

    /// One more open item of a directory, which gets a number.
    pub fn begin_outside(&mut self, work: &Arc<DirWork>) -> u64 {
        self.open(work, 1);
        self.leases += 1;
        self.outside.insert(self.leases, work.clone());
        self.leases
    }

    pub fn end_outside(&mut self, lease: u64, reply: R) -> bool {
        let Some(work) = self.outside.remove(&lease) else { return false };
        self.replies.push_back((work, reply));
        true
    }

    pub fn take_reply(&mut self) -> Option<(Arc<DirWork>, R)> {
        self.replies.pop_front()
    }
}
