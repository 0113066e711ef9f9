//! A file on its way, shared by the workers that move it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::engine::clock::Flight;
use crate::entry::{Entry, Name, Stamp};
use crate::error::Error;
use crate::event::Why;
use crate::job::Job;
use crate::plan::{Act, Step};
use crate::retry::Spent;
use crate::schedule::{DirWork, FileWork, Lease};
use crate::store::{Chunk, Receipt, Sink, Source, Token};

use super::delta::Delta;
use super::ordered_verify::Shown;
use super::waiting::Waiting;
use crate::lock::lock;

/// An entry of a reference tree, with the number of the tree in the job.
pub type Reference = (usize, Entry);

pub struct OpenFile {
    pub work: Arc<DirWork>,
    pub step: Step,
    /// It came out wrong once, or changed, and is done once more.
    second: AtomicBool,
    /// What an earlier try in this run has cost.
    spent: Mutex<Spent>,
    /// Whether other workers may join, and how many there may be.
    pub open_to_all: AtomicBool,
    pub most: u32,
    /// What an earlier try in this run has landed.
    kept: Mutex<Option<Kept>>,
    /// Files of the reference trees that are to be compared first.
    references: Mutex<Vec<Reference>>,
    /// Other ranks may move chunks of it.
    pub lends: AtomicBool,
    /// It is another rank's file, of which some chunks are moved here.
    pub borrowed: Option<Borrowed>,
    state: Mutex<State>,
}

/// An unfinished write of another rank.
pub struct Borrowed {
    pub lease: Lease,
    pub token: Token,
    pub chunk: u64,
}

/// A write that failed on the way and is to be taken up again.
pub struct Kept {
    pub token: Token,
    pub chunk: u64,
    pub receipts: Vec<Receipt>,
    pub session: Option<u32>,
    /// The source's version, as in [`Ends`].
    pub stamp: Stamp,
}

pub struct State {
    pub entry: Entry,
    pub ends: Option<Arc<Ends>>,
    /// Not yet handed out.
    pub left: Waiting,
    pub receipts: Vec<Receipt>,
    pub active: u32,
    /// Of these, those that take no more chunks.
    pub leaving: u32,
    /// Parts that other ranks are at.
    pub lent: u32,
    /// Receipts that the rank whose file it is has got.
    pub reported: usize,
    pub error: Option<Error>,
}

/// Both ends of an open file.
pub struct Ends {
    pub source: Arc<dyn Source>,
    pub sink: Box<dyn Sink>,
    pub session: Option<u32>,
    /// The source's version as the journal has it: see [`Source::change`].
    pub stamp: Stamp,
    /// That the file is written in place, as the journal has it.
    pub intent: Option<u32>,
    pub chunk: u64,
    pub delta: Option<Delta>,
    /// Both stores compute digests of the whole: ranges may pass between them unseen although the file is verified.
    pub digested: bool,
    pub shown: Shown,
    pub flight: Arc<Flight>,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenFile({:?})", self.state().entry.name)
    }
}

/// Workers that may move one file: as many as gain at both ends, or as many as was asked for where more than one gains.
fn most_workers(job: &Job, work: &DirWork) -> u32 {
    let (readers, writers) = (job.roots[work.root].store.caps().tuning.readers_per_file, job.target.caps().tuning.writers_per_file);
    let gains = if readers > 1 && writers > 1 { readers.min(writers) } else { readers.max(writers) };
    if gains > 1 { job.writers.unwrap_or(gains) } else { 1 }
}

impl OpenFile {
    pub fn new(job: &Job, work: &Arc<DirWork>, entry: Entry, step: Step) -> Arc<Self> {
        Self::linkable(job, work, entry, step, Vec::new())
    }

    /// A new file that is linked, not copied, if one of these has the same content.
    pub fn linkable(job: &Job, work: &Arc<DirWork>, entry: Entry, step: Step, references: Vec<Reference>) -> Arc<Self> {
        Arc::new(Self::made(job, work, entry, step, references))
    }

    fn made(job: &Job, work: &Arc<DirWork>, entry: Entry, step: Step, references: Vec<Reference>) -> Self {
        let state = State {
            entry,
            ends: None,
            left: Waiting::default(),
            receipts: Vec::new(),
            active: 0,
            leaving: 0,
            lent: 0,
            reported: 0,
            error: None,
        };
        OpenFile {
            work: work.clone(),
            step,
            second: AtomicBool::new(false),
            spent: Mutex::default(),
            open_to_all: AtomicBool::new(false),
            most: most_workers(job, work),
            kept: Mutex::default(),
            references: Mutex::new(references),
            lends: AtomicBool::new(false),
            borrowed: None,
            state: Mutex::new(state),
        }
    }

    /// Chunks of another rank's file.
    pub fn of_another(job: &Job, work: &Arc<DirWork>, entry: Entry, borrowed: Borrowed, mut chunks: Vec<Chunk>) -> Arc<Self> {
        let step = Step { act: Act::File { replace: false }, why: Why::New };
        chunks.sort_by_key(|chunk| chunk.index);
        let file = Self::made(job, work, entry, step, Vec::new());
        file.state().left = Waiting::new(chunks, job.roots[work.root].store.caps().tuning.runs, file.most);
        Arc::new(OpenFile { borrowed: Some(borrowed), ..file })
    }

    /// The file has come out wrong once, at this cost. What of it is good may be kept.
    pub fn second_try(&self, spent: Spent, kept: Option<Kept>) {
        self.second.store(true, Ordering::Relaxed);
        self.count_on(spent);
        *lock(&self.kept) = kept;
    }

    /// What was tried of the file counts for what is tried now.
    pub fn count_on(&self, spent: Spent) {
        *lock(&self.spent) = spent;
    }

    pub fn spent(&self) -> Spent {
        *lock(&self.spent)
    }

    pub fn take_kept(&self) -> Option<Kept> {
        lock(&self.kept).take()
    }

    pub fn take_references(&self) -> Vec<Reference> {
        std::mem::take(&mut lock(&self.references))
    }

    pub fn is_second_try(&self) -> bool {
        self.second.load(Ordering::Relaxed)
    }

    /// An old version is replaced, if it turns out to differ.
    pub fn replaces(&self) -> bool {
        matches!(self.step.act, Act::File { replace: true } | Act::Compare)
    }

    pub fn name(&self) -> Name {
        self.state().entry.name.clone()
    }

    pub fn entry(&self) -> Entry {
        self.state().entry.clone()
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl FileWork for OpenFile {
    fn chunks_left(&self) -> usize {
        if self.open_to_all.load(Ordering::Relaxed) { self.state().left.len() } else { 0 }
    }

    fn wants_workers(&self) -> bool {
        if !self.open_to_all.load(Ordering::Relaxed) {
            return false;
        }
        let state = self.state();
        state.left.is_offered() && state.active < self.most
    }

    fn lendable(&self) -> usize {
        if self.lends.load(Ordering::Relaxed) { self.state().left.len() } else { 0 }
    }

    fn work(&self) -> &Arc<DirWork> {
        &self.work
    }
}
