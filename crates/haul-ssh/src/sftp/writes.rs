//! Writes to one file that have been sent, and what became of them.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use haul_core::error::{Error, Result};
use haul_core::fill::fill_whole;
use haul_core::lock::lock;

use super::channel::Ticket;
use super::client::done;
use super::packet::kind;
use super::stripes::{Stripe, WINDOW, least_loaded};

/// How many writes are sent before the first is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    One,
    /// What fits into the windows of all channels.
    Window,
}

/// Those that are not known to have arrived, the oldest first. Any thread sends, and waits for any of them.
#[derive(Default)]
pub(super) struct Writes(Mutex<Vec<Arc<Write>>>);

struct Write {
    at: Range<u64>,
    /// Locked while a thread waits for the answer: others that need it wait for the lock.
    outcome: Mutex<Outcome>,
}

enum Outcome {
    /// Sent in this channel.
    Awaited(Arc<Stripe>, Ticket),
    Known(Result<()>),
}

impl Write {
    /// Waits for the answer; `confirmed` is called with the number of bytes if the server has them.
    fn wait(&self, confirmed: &dyn Fn(u64)) {
        let mut outcome = lock(&self.outcome);
        let Outcome::Awaited(stripe, ticket) = &*outcome else { return };
        let answered = stripe.channel.wait(ticket).and_then(|answer| done(&answer, "write"));
        if answered.is_ok() {
            confirmed(self.at.end - self.at.start);
        }
        *outcome = Outcome::Known(answered);
    }

    /// Why it failed, if that is known.
    fn failure(&self) -> Option<Error> {
        match &*lock(&self.outcome) {
            Outcome::Known(Err(e)) => Some(e.again()),
            _ => None,
        }
    }

    fn state(&self) -> WriteState {
        let Ok(outcome) = self.outcome.try_lock() else { return WriteState::Awaited };
        match &*outcome {
            Outcome::Awaited(_, ticket) if ticket.is_answered() => WriteState::Answered,
            Outcome::Awaited(..) => WriteState::Awaited,
            Outcome::Known(Ok(())) => WriteState::Done,
            Outcome::Known(Err(_)) => WriteState::Failed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    Awaited,
    /// The answer has not been read.
    Answered,
    Done,
    Failed,
}

impl Writes {
    /// Sends the bytes of `at`, `block` bytes per request, through the channels that are open by then. [`Writes::settle`] returns whether
    /// the server has them. `confirmed` is called with the size of each block, of this call or an earlier one, that was acknowledged.
    pub fn send(
        &self,
        stripes: &dyn Fn() -> Result<Vec<Arc<Stripe>>>,
        block: usize,
        flight: Flight,
        at: Range<u64>,
        from: &mut dyn Read,
        confirmed: &dyn Fn(u64),
    ) -> Result<()> {
        let mut next = at.start;
        let sent = self.send_from(&mut next, stripes, block, flight, at.clone(), from, confirmed);
        sent.map_err(|e| {
            let arrived = self.settle(&(at.start..next), confirmed).map_or_else(|e| e.written(), |()| next - at.start);
            e.wrote(arrived)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the part of `send` that fails")]
    fn send_from(
        &self,
        next: &mut u64,
        stripes: &dyn Fn() -> Result<Vec<Arc<Stripe>>>,
        block: usize,
        flight: Flight,
        at: Range<u64>,
        from: &mut dyn Read,
        confirmed: &dyn Fn(u64),
    ) -> Result<()> {
        let mut buffer = vec![0; block];
        while *next < at.end {
            let wanted = usize::try_from(at.end - *next).unwrap_or(usize::MAX).min(block);
            fill_whole(from, &mut buffer[..wanted])?;
            let stripes = stripes()?;
            let most = match flight {
                Flight::One => 1,
                Flight::Window => (WINDOW / block).max(2) * stripes.len(),
            };
            if self.make_room(most, confirmed) {
                // A failure is seen soon, not when a whole chunk has been sent in vain.
                self.failure(|write| is_within(&write.at, &at) && write.state() == WriteState::Failed).map_or(Ok(()), Err)?;
            }
            let stripe = &stripes[least_loaded(&stripes)];
            let mut batch = stripe.channel.batch();
            let ticket = batch.push(kind::WRITE, |r| r.bytes(&stripe.handle).long(*next).bytes(&buffer[..wanted]));
            batch.send()?;
            let at = *next..*next + wanted as u64;
            *next = at.end;
            lock(&self.0).push(Arc::new(Write { at, outcome: Mutex::new(Outcome::Awaited(stripe.clone(), ticket)) }));
        }
        match flight {
            Flight::One => self.settle(&at, confirmed),
            Flight::Window => Ok(()),
        }
    }

    /// Waits for those of `at`; fails as the first that failed, and does so again until those bytes are sent again. The error says how
    /// many bytes arrived before them.
    pub fn settle(&self, at: &Range<u64>, confirmed: &dyn Fn(u64)) -> Result<()> {
        let due: Vec<Arc<Write>> = lock(&self.0).iter().filter(|write| is_within(&write.at, at)).cloned().collect();
        due.iter().for_each(|write| write.wait(confirmed));
        lock(&self.0).retain(|write| !is_within(&write.at, at) || write.state() != WriteState::Done);
        let lost = lock(&self.0).iter().filter(|write| is_within(&write.at, at)).map(|write| write.at.start).min();
        self.failure(|write| is_within(&write.at, at)).map_or(Ok(()), |e| Err(e.wrote(lost.map_or(0, |lost| lost - at.start))))
    }

    /// Waits for those that overlap `at`, whose outcome does not count: the same bytes are sent again, and servers carry out several
    /// requests at a time.
    pub fn forget(&self, at: &Range<u64>) {
        let due: Vec<_> = lock(&self.0).extract_if(.., |write| write.at.start < at.end && at.start < write.at.end).collect();
        due.iter().for_each(|write| write.wait(&|_| {}));
    }

    fn failure(&self, chosen: impl Fn(&Write) -> bool) -> Option<Error> {
        let writes = lock(&self.0).clone();
        writes.iter().filter(|write| chosen(write)).find_map(|write| write.failure())
    }

    /// Waits until another may be sent; `false` if it could be at once. What has failed stays until it is asked for.
    fn make_room(&self, most: usize, confirmed: &dyn Fn(u64)) -> bool {
        let mut was_full = false;
        loop {
            let mut writes = lock(&self.0);
            if writes.len() < most {
                return was_full;
            }
            was_full = true;
            // Wherever they are: a channel may be behind the others.
            writes.iter().filter(|write| write.state() == WriteState::Answered).for_each(|write| write.wait(confirmed));
            writes.retain(|write| write.state() != WriteState::Done);
            let mut awaited = writes.iter().filter(|write| write.state() == WriteState::Awaited);
            let Some(oldest) = awaited.next().cloned() else { return true };
            if 1 + awaited.count() < most {
                return true;
            }
            drop(writes);
            oldest.wait(confirmed);
        }
    }
}

fn is_within(part: &Range<u64>, at: &Range<u64>) -> bool {
    at.start <= part.start && part.end <= at.end
}
