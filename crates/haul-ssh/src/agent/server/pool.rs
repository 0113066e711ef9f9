//! The threads that serve requests, started as there is work for them.
//!
//! A thread whose answer waits until the other end has taken more of it is not one of those that are counted: however
//! many listings are open, what else is asked is done.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy};

use super::{Agent, Peer, Reply, in_parts};
use crate::agent::frame::{Frame, kind};
use crate::agent::wire::Writer;
use haul_core::lock::lock;

/// Answers in parts that may be in flight: one for each worker that the other end may have.
const IN_PARTS: usize = 4096;

/// When a request that found no thread may be made again.
const RETRY: Duration = Duration::from_millis(200);

pub struct Pool {
    jobs: Mutex<Jobs>,
    work: Condvar,
    /// Threads at the most that are at work or wait for it.
    most: usize,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
    threads: usize,
    in_parts: usize,
}

pub struct Job {
    pub peer: Arc<Peer>,
    pub frame: Frame,
    /// Bytes that are reserved for it.
    pub room: u64,
}

impl Pool {
    pub fn new(most: usize) -> Pool {
        Pool { jobs: Mutex::default(), work: Condvar::new(), most }
    }
}

impl Agent {
    pub fn dispatch(self: &Arc<Self>, job: Job) {
        let mut jobs = lock(&self.pool.jobs);
        if in_parts(job.frame.kind) {
            jobs.in_parts += 1;
            if jobs.in_parts > IN_PARTS {
                drop(jobs);
                return self.refuse(job);
            }
        }
        jobs.waiting.push_back(job);
        let nobodys = self.staff(&mut jobs);
        drop(jobs);
        self.pool.work.notify_one();
        nobodys.into_iter().for_each(|job| self.refuse(job));
    }

    /// Starts another thread if there is work for it. Returns work that would wait for ever: no thread runs, and the system gives
    /// none.
    fn staff(self: &Arc<Self>, jobs: &mut Jobs) -> VecDeque<Job> {
        if jobs.waiting.len() <= jobs.idle {
            return VecDeque::new();
        }
        let agent = self.clone();
        let start = || std::thread::Builder::new().name("agent".into()).stack_size(1 << 20).spawn(move || agent.work());
        if jobs.threads < self.pool.most && start().is_ok() {
            jobs.threads += 1;
        }
        if jobs.threads == 0 { std::mem::take(&mut jobs.waiting) } else { VecDeque::new() }
    }

    fn refuse(self: &Arc<Self>, job: Job) {
        let e = Error::new(ErrorKind::Busy, "work").because("the remote host has no free thread");
        self.answer_failed(&job, &Reply::new(self, &job.peer, job.frame.id), &e.remedy_is(Remedy::After(RETRY)));
        self.finished(&job);
    }

    fn answer_failed(&self, job: &Job, reply: &Reply<'_>, e: &Error) {
        self.files.failed(&job.frame);
        let mut to = Writer::default();
        to.error(e);
        reply.send(kind::FAILED, &[&to.out]);
    }

    /// What was reserved for a request is free again.
    fn finished(&self, job: &Job) {
        if in_parts(job.frame.kind) {
            lock(&job.peer.credits).remove(&job.frame.id);
            lock(&self.pool.jobs).in_parts -= 1;
        }
        *lock(&self.room) += job.room;
        self.freed.notify_all();
    }

    fn work(self: Arc<Self>) {
        loop {
            let mut jobs = lock(&self.pool.jobs);
            if jobs.threads > self.pool.most {
                // Others took the place of this one while it waited.
                jobs.threads -= 1;
                return;
            }
            jobs.idle += 1;
            let job = loop {
                if let Some(job) = jobs.waiting.pop_front() {
                    break job;
                }
                jobs = self.pool.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            };
            jobs.idle -= 1;
            drop(jobs);
            // A client that is gone may have asked another agent since: what has not begun is not begun.
            if !job.peer.over.load(Ordering::Relaxed) {
                let reply = Reply::new(&self, &job.peer, job.frame.id);
                let began = Instant::now();
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.perform(&job.frame, &reply)));
                let failed = match done {
                    Ok(done) => done.err(),
                    Err(_) => Some(Error::new(ErrorKind::Other, "work").because("a thread of the remote haul panicked, which is a bug")),
                };
                self.account.did(job.frame.kind, began.elapsed().saturating_sub(reply.sending.get()));
                if let Some(e) = failed {
                    self.answer_failed(&job, &reply, &e);
                }
            }
            self.finished(&job);
        }
    }

    /// The thread that calls this waits for the other end: another may take its place.
    pub fn step_out(self: &Arc<Self>) {
        let mut jobs = lock(&self.pool.jobs);
        jobs.threads -= 1;
        let nobodys = self.staff(&mut jobs);
        drop(jobs);
        nobodys.into_iter().for_each(|job| self.refuse(job));
    }

    pub fn step_in(&self) {
        lock(&self.pool.jobs).threads += 1;
    }
}
