//! Work given away and taken over.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::context::Context;
use crate::engine::file::open_file::OpenFile;
use crate::engine::file::part;
use crate::engine::leases::{Borrowed, pack, unpack};
use crate::engine::task::Reply;
use crate::lock::lock;
use crate::schedule::{DirWork, Lease, Portion};
use crate::store::{Chunk, Receipt};
use crate::team::message::Message;
use crate::team::policy::{Share, portion};

use super::Ranks;

impl Ranks {
    /// There may be more to give, in the middle of a task that takes long.
    pub fn offer(&self, cx: &Context) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.give_to_waiting(cx);
        }
    }

    /// After a worker's task, which may have found more to do or may have been the last.
    pub fn after_task(&self, cx: &Arc<Context>, idle: bool) {
        self.offer(cx);
        if idle {
            self.idle(cx);
        }
        if cx.sched.stock().dry {
            self.hungry(cx);
        }
    }

    pub(super) fn hungry(&self, cx: &Context) {
        if cx.cancel.is_set() {
            return;
        }
        let words = lock(&self.policy).hungry();
        self.say(cx, words);
    }

    /// Nothing is left here, nor with anybody who has work from here.
    pub(super) fn idle(&self, cx: &Context) {
        let by = {
            // No work is taken over while this is decided.
            let mut policy = lock(&self.policy);
            if cx.sched.standing().idle { policy.done() } else { None }
        };
        match by {
            Some(by) => self.send(cx, by, &Message::Confirmed),
            None => self.ring(),
        }
    }

    /// `false` if there is nothing that could be given.
    pub(super) fn give(&self, cx: &Context, to: u32, share: Share) -> bool {
        let mut chosen = Default::default();
        let lent = cx.sched.lend(|stock| {
            chosen = (stock, portion(stock, share));
            if self.walked.load(Ordering::Acquire) {
                chosen.1 = Portion { chunks: chosen.1.chunks, ..Portion::default() };
            }
            chosen.1
        });
        // Not in there: what is known of the others is locked before the queues are.
        let origin = lock(&self.policy).origin(chosen.0, chosen.1);
        if lent.is_empty() {
            return false;
        }
        let to_confirm = lent.iter().any(|(_, part)| part.is_to_confirm());
        let mut leases = Vec::with_capacity(lent.len());
        for (id, part) in lent {
            match pack(cx, self, id, part) {
                Some(lease) => leases.push(lease),
                None => {
                    cx.sched.end_outside(id, Reply::Nothing);
                }
            }
        }
        if leases.is_empty() {
            // A worker may have done the last reply before, when this still counted.
            if to_confirm && cx.sched.confirmed() {
                self.idle(cx);
            }
            return false;
        }
        self.send(cx, to, &Message::Work { origin, leases });
        true
    }

    /// Remembers what of a file another rank moves.
    pub fn lent_chunks(&self, lease: u64, file: Arc<OpenFile>, chunks: Vec<Chunk>) {
        lock(&self.chunks).insert(lease, (file, chunks));
    }

    pub(super) fn chunks_landed(&self, cx: &Context, lease: u64, receipts: Vec<Receipt>, done: bool) {
        let file = {
            let mut lent = lock(&self.chunks);
            let Some((file, chunks)) = lent.get_mut(&lease) else { return };
            let landed: HashSet<u32> = receipts.iter().map(|receipt| receipt.index).collect();
            chunks.retain(|chunk| !landed.contains(&chunk.index));
            file.clone()
        };
        part::landed(cx, &file, receipts);
        if done && let Some((file, left)) = lock(&self.chunks).remove(&lease) {
            cx.sched.end_outside(lease, Reply::Chunks(file, left));
        }
    }

    /// Tells the rank whose file it is what has landed here.
    pub fn landed(&self, cx: &Context, lease: Lease, receipts: Vec<Receipt>, done: bool) {
        self.send(cx, lease.rank, &Message::WriteOutcome { lease: lease.id, receipts, done });
    }

    pub(super) fn give_to_waiting(&self, cx: &Context) {
        loop {
            let next = lock(&self.policy).next_waiting();
            let Some((next, share)) = next else { break };
            if !self.give(cx, next, share) {
                let words = lock(&self.policy).waits_on(next, share);
                self.say(cx, words);
                break;
            }
        }
        let policy = lock(&self.policy);
        self.waiting.store(policy.waiting(), Ordering::Relaxed);
    }

    pub(super) fn take_over(&self, cx: &Arc<Context>, from: u32, origin: Option<u32>, leases: &[Vec<u8>]) {
        let Some(borrowed) = leases.iter().map(|lease| unpack(cx, from, lease)).collect::<Option<Vec<_>>>() else {
            return self.foreign(cx, from);
        };
        let to_confirm = borrowed.iter().any(|part| part.file.is_none());
        let confirm = {
            let mut policy = lock(&self.policy);
            for Borrowed { work, dirs, names, file } in borrowed {
                cx.sched.adopt(&work, dirs, names, file);
            }
            policy.fed(from, origin, to_confirm)
        };
        if confirm {
            self.send(cx, from, &Message::Confirmed);
        }
        self.offer(cx);
    }

    /// Whether a directory that is complete here only stands for one of another rank, which gets its reply.
    pub fn gives_back(&self, cx: &Context, work: &DirWork) -> bool {
        let Some(lease) = work.lease else { return false };
        let touched = work.touched.load(Ordering::Relaxed);
        self.send(cx, lease.rank, &Message::Done { lease: lease.id, touched });
        true
    }
}
