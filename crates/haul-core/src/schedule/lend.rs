//! Work that another process takes over, and work taken over from one.

use std::sync::Arc;

use super::Scheduler;
use super::task::{FileWork, Kinds};
use super::tree::{DirWork, PendingDir};

/// What could be lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Directories that nobody has made or listed yet.
    pub dirs: usize,
    /// Names that nobody has looked up yet, and small files that nobody has begun.
    pub names: usize,
    /// Chunks of large files that others may take part in.
    pub chunks: usize,
    /// Files that one worker does in 20 ms, at least 1.
    pub bundle: usize,
    /// There is something else to do beside these.
    pub other: bool,
    /// A worker that came now would find nothing.
    pub dry: bool,
}

/// What is to be lent of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Portion {
    pub dirs: usize,
    pub names: usize,
    pub chunks: usize,
}

/// Work of one directory that another process takes over.
pub enum Lent<K: Kinds> {
    /// Directories in it, with all that is below them.
    Dirs(Arc<DirWork>, Vec<PendingDir>),
    Names(Arc<DirWork>, Vec<K::Name>),
    /// Small files, planned here and to be planned again.
    Small(Arc<DirWork>, Vec<K::Small>),
    /// So many chunks of a file, which are taken out of it by whoever gets this.
    Chunks(Arc<DirWork>, Arc<K::File>, usize),
}

impl<K: Kinds> Lent<K> {
    pub fn work(&self) -> &Arc<DirWork> {
        match self {
            Lent::Dirs(work, _) | Lent::Names(work, _) | Lent::Small(work, _) | Lent::Chunks(work, ..) => work,
        }
    }

    /// Whether more can come of it than its reply says.
    pub fn is_to_confirm(&self) -> bool {
        !matches!(self, Lent::Chunks(..))
    }

    fn items(&self) -> usize {
        match self {
            Lent::Dirs(_, dirs) => dirs.len(),
            Lent::Names(_, names) => names.len(),
            Lent::Small(_, items) => items.len(),
            Lent::Chunks(..) => 0,
        }
    }
}

impl<K: Kinds> Scheduler<K> {
    pub fn stock(&self) -> Stock {
        self.lock().stock()
    }

    /// Takes out what `portion` says, for another process. Each part has a number: its directory is not complete before
    /// [`Scheduler::end_outside`]. All of it counts as one thing to do until [`Scheduler::confirmed`], unless it is chunks: below these there
    /// is nothing more, so that their reply says it all.
    pub fn lend(&self, portion: impl FnOnce(Stock) -> Portion) -> Vec<(u64, Lent<K>)> {
        let mut state = self.lock();
        let Portion { dirs, names, chunks } = portion(state.stock());
        let mut lent: Vec<Lent<K>> = state.walk.pending.lend(dirs).into_iter().map(|(work, dirs)| Lent::Dirs(work, dirs)).collect();
        // Of one directory after the other: creates in one take turns, so that two processes are best apart.
        let mut left = names;
        while left > 0 {
            let of_names = state.walk.names.pop(left, u64::MAX, |_| 0).map(|(work, names)| Lent::Names(work, names));
            let of_small = || state.small.pop(left, u64::MAX, |_| 0).map(|(work, items)| Lent::Small(work, items));
            let Some(part) = of_names.or_else(of_small) else { break };
            left -= part.items();
            lent.push(part);
        }
        if chunks > 0 {
            let largest = state.large.shared.iter().max_by_key(|file| file.lendable());
            lent.extend(largest.map(|file| Lent::Chunks(file.work().clone(), file.clone(), chunks.min(file.lendable()))));
        }
        let mut numbered = Vec::with_capacity(lent.len());
        for part in lent {
            // The lease first: the directory must not be complete in between.
            let lease = state.completion.begin_outside(part.work());
            state.completion.close(part.work(), part.items());
            numbered.push((lease, part));
        }
        state.pool.away += usize::from(numbered.iter().any(|(_, part)| part.is_to_confirm()));
        numbered
    }

    /// All that was lent by one call is done. `true` if nothing is left to do.
    pub fn confirmed(&self) -> bool {
        let mut state = self.lock();
        state.pool.away = state.pool.away.saturating_sub(1);
        let idle = state.is_idle();
        if idle {
            self.wake.notify_all();
        }
        idle
    }

    /// Work comes from other processes only.
    pub fn join(&self) {
        self.lock().pool.fed = true;
    }

    /// Takes over what another process has lent: open items of `work`, which stands for the directory there.
    pub fn adopt(&self, work: &Arc<DirWork>, dirs: Vec<PendingDir>, names: Vec<K::Name>, file: Option<Arc<K::File>>) {
        let mut state = self.lock();
        state.completion.open(work, dirs.len() + names.len() + file.iter().len());
        for dir in dirs {
            state.walk.pending.push(dir);
        }
        state.walk.names.push(work, names);
        state.large.waiting.extend(file);
        self.wake.notify_all();
    }
}
