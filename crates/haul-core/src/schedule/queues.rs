//! Entries by directory, handed out directory by directory in turn: creates spread over directories.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::tree::DirWork;

pub struct Queues<T> {
    by_dir: HashMap<u64, (Arc<DirWork>, VecDeque<T>)>,
    turn: VecDeque<u64>,
    total: usize,
}

impl<T> Queues<T> {
    pub fn new() -> Self {
        Queues { by_dir: HashMap::new(), turn: VecDeque::new(), total: 0 }
    }

    pub fn len(&self) -> usize {
        self.total
    }

    /// Directories that have something queued.
    pub fn dirs(&self) -> usize {
        self.by_dir.len()
    }

    pub fn push(&mut self, work: &Arc<DirWork>, items: Vec<T>) {
        if items.is_empty() {
            return;
        }
        let id = work.dir.id();
        let queue = &mut self.by_dir.entry(id).or_insert_with(|| (work.clone(), VecDeque::new())).1;
        if queue.is_empty() {
            self.turn.push_back(id);
        }
        self.total += items.len();
        queue.extend(items);
    }

    /// At most so many of one directory, of at most so many bytes together, but at least one.
    pub fn pop(&mut self, most: usize, bytes: u64, size: impl Fn(&T) -> u64) -> Option<(Arc<DirWork>, Vec<T>)> {
        let id = self.turn.pop_front()?;
        let (work, queue) = self.by_dir.get_mut(&id)?;
        let mut taken = Vec::with_capacity(most.min(queue.len()));
        let mut sum = 0;
        while let Some(next) = queue.front() {
            sum += size(next);
            if !taken.is_empty() && (taken.len() >= most || sum > bytes) {
                break;
            }
            taken.extend(queue.pop_front());
        }
        self.total -= taken.len();
        let work = work.clone();
        if queue.is_empty() {
            self.by_dir.remove(&id);
        } else {
            self.turn.push_back(id);
        }
        Some((work, taken))
    }
}
