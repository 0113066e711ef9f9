//! How fast answers come over all connections to one server, and which of them lag behind while other connections are idle.
//!
//! Connections that share a full link do not share it evenly: one that begins on it, or loses packets at a bad moment, stays at a small
//! part of its share for many seconds (its window grows by a segment or so each round trip; CUBIC, RFC 9438). The last files of a run
//! then wait for a few such connections, while those that had most of the link have nothing to do. One of these takes over what is left
//! of the answer that lags. A server that gives no connection more is left alone: what changing has brought so far decides.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_core::lock::lock;

/// An answer is judged by what it brought in this time.
const WINDOW: Duration = Duration::from_millis(250);
/// It lags with less than this part of its share, if it would take two windows longer.
const LAGS: f64 = 0.5;
/// A connection is idle after this time without an answer: before that its worker may be about to ask for the next object.
const IDLE: Duration = Duration::from_millis(250);
/// After this time servers may have closed it.
const IDLE_MOST: Duration = Duration::from_secs(5);
/// An answer that ends before its window does tells something with so many bytes.
const TELLING: u64 = 1 << 20;
/// What was reached once counts for so much less with each second.
const FADES: f64 = 0.95;
/// How many times faster the other connection must be for the change to have been worth its round trip.
const WORTH: f64 = 1.5;
/// Changes in excess of those that were worth it, after which there are no more.
const VAIN_MOST: usize = 4;
/// Changes of one answer.
const CHANGES_MOST: u32 = 3;

/// The answers of one server that are being read.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    bytes: AtomicU64,
    /// Answers that are being read.
    answers: AtomicUsize,
    rates: Mutex<Rates>,
    /// When the connections that have no answer came to its end.
    idle: Mutex<VecDeque<Instant>>,
    /// Changes that were not worth it, less those that were.
    vain: AtomicUsize,
}

#[derive(Debug, Default)]
struct Rates {
    /// Since the start, when the last second began; and the bytes of all answers until then.
    since: Duration,
    bytes: u64,
    /// The most that all answers together brought in a second, and one of them in a window: bytes a second.
    all: f64,
    one: f64,
}

impl Default for Pace {
    fn default() -> Pace {
        let (bytes, answers, rates, idle, vain) = Default::default();
        Pace { began: Instant::now(), bytes, answers, rates, idle, vain }
    }
}

impl Pace {
    /// An answer is asked for, over a connection that was idle if there is one.
    pub fn asks(&self) {
        lock(&self.idle).pop_back();
    }

    /// Whether a connection has been idle for a while.
    fn has_idle(&self) -> bool {
        let mut idle = lock(&self.idle);
        while idle.front().is_some_and(|since| since.elapsed() > IDLE_MOST) {
            idle.pop_front();
        }
        idle.front().is_some_and(|since| since.elapsed() >= IDLE)
    }

    /// What one answer may be expected to bring, in bytes a second; `one` is what it brought in a window that has just ended.
    fn share(&self, one: f64) -> f64 {
        let (now, bytes) = (self.began.elapsed(), self.bytes.load(Ordering::Relaxed));
        let mut rates = lock(&self.rates);
        let since = now.saturating_sub(rates.since);
        if since >= Duration::from_secs(1) {
            let all = (bytes - rates.bytes) as f64 / since.as_secs_f64();
            (rates.all, rates.one) = (all.max(rates.all * FADES), rates.one * FADES);
            (rates.since, rates.bytes) = (now, bytes);
        }
        rates.one = rates.one.max(one);
        let answers = self.answers.load(Ordering::Relaxed).max(1);
        (rates.all / answers as f64).min(rates.one)
    }

    fn learn(&self, was_worth_it: bool) {
        let next = |vain: usize| Some(if was_worth_it { vain.saturating_sub(1) } else { vain + 1 });
        let _ = self.vain.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// One answer, or a part of it.
#[derive(Debug)]
pub struct Paced<'a> {
    pace: &'a Pace,
    /// Time within reads, and the bytes that they brought: who takes the bytes slowly is no slow server.
    waited: Duration,
    bytes: u64,
    changes: u32,
    /// What the connection before this one brought in its last window, bytes a second.
    before: Option<f64>,
}

impl<'a> Paced<'a> {
    pub fn new(pace: &'a Pace) -> Paced<'a> {
        pace.answers.fetch_add(1, Ordering::Relaxed);
        Paced { pace, waited: Duration::ZERO, bytes: 0, changes: 0, before: None }
    }

    /// A read that began at `since` has brought so many bytes, and so many are left; whether the rest should be asked for over another
    /// connection.
    pub fn lags(&mut self, count: u64, since: Instant, left: u64) -> bool {
        self.pace.bytes.fetch_add(count, Ordering::Relaxed);
        self.bytes += count;
        self.waited += since.elapsed();
        if self.waited < WINDOW {
            return false;
        }
        let rate = self.bytes as f64 / self.waited.as_secs_f64();
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        if let Some(before) = self.before.take() {
            self.pace.learn(rate >= before * WORTH);
        }
        let share = self.pace.share(rate);
        let is_slow = rate < LAGS * share && left as f64 > rate * 2.0 * WINDOW.as_secs_f64();
        let may = self.changes < CHANGES_MOST && self.pace.vain.load(Ordering::Relaxed) < VAIN_MOST;
        let changes = is_slow && may && self.pace.has_idle();
        if changes {
            self.changes += 1;
            self.before = Some(rate);
        }
        changes
    }

    /// There is no other connection to be had.
    pub fn stays(&mut self) {
        self.pace.learn(false);
        (self.changes, self.before) = (CHANGES_MOST, None);
    }

    /// The answer was read to its end: its connection is idle.
    pub fn ended(&mut self) {
        if self.bytes >= TELLING && !self.waited.is_zero() {
            let rate = self.bytes as f64 / self.waited.as_secs_f64();
            let mut rates = lock(&self.pace.rates);
            rates.one = rates.one.max(rate);
        }
        lock(&self.pace.idle).push_back(Instant::now());
    }
}

impl Drop for Paced<'_> {
    fn drop(&mut self) {
        self.pace.answers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn ago(millis: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_millis(millis)).expect("the machine runs for longer")
    }

    /// Four answers of a link that is full, and one that has a hundredth of it.
    fn full_link() -> Pace {
        let pace = Pace { began: ago(1_500), ..Pace::default() };
        for _ in 0..4 {
            assert!(!Paced::new(&pace).lags(10 * MIB, ago(300), 0));
        }
        pace
    }

    #[test]
    fn an_answer_that_lags_changes_only_to_a_connection_that_is_idle() {
        let pace = full_link();
        let mut slow = Paced::new(&pace);
        assert!(!slow.lags(MIB / 10, ago(300), 10 * MIB));
        lock(&pace.idle).push_back(Instant::now());
        assert!(!slow.lags(MIB / 10, ago(300), 10 * MIB), "its worker is about to ask for the next");
        lock(&pace.idle).push_front(ago(400));
        assert!(!slow.lags(MIB / 10, ago(100), 10 * MIB), "no window yet");
        assert!(!slow.lags(MIB / 10, ago(200), MIB / 100), "it is nearly there");
        assert!(!slow.lags(20 * MIB, ago(300), 10 * MIB), "it is not slow");
        assert!(slow.lags(MIB / 10, ago(300), 10 * MIB));
    }

    #[test]
    fn changes_that_bring_nothing_end() {
        let pace = full_link();
        let mut changes = 0;
        for _ in 0..20 {
            lock(&pace.idle).push_front(ago(400));
            let mut slow = Paced::new(&pace);
            changes += (0..10).filter(|_| slow.lags(MIB / 10, ago(300), 10 * MIB)).count();
        }
        assert!((VAIN_MOST..=VAIN_MOST + 1).contains(&changes), "{changes}");
    }

    #[test]
    fn one_connection_alone_is_compared_with_what_one_has_brought() {
        let pace = Pace { began: ago(1_500), ..Pace::default() };
        lock(&pace.idle).push_front(ago(400));
        let mut alone = Paced::new(&pace);
        assert!(!(0..20).any(|_| alone.lags(MIB, ago(300), 100 * MIB)));
    }
}
