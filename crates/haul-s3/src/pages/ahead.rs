//! A prefix read page by page, and in ranges side by side where it turns out to be a large one.
//!
//! How keys are spread is not known, so a thread without work takes the upper half, by its bounds, of the widest range that another
//! one reads. A half without keys costs one request.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use haul_core::error::Result;
use haul_core::lock::lock;
use haul_core::retry::Scope;

use super::{Page, Pages, after_all};
use haul_net::http_client::parallel::Threads;

/// Threads beside the one that asks.
const HELPERS: usize = 7;
/// Pages in a row that a prefix must have had before others help.
const ALONE: usize = 4;
/// Pages that may be read ahead of the one that is wanted: of a directory that then is not asked for they are lost.
const AHEAD_MOST: usize = 512;

pub(crate) enum Step {
    Next,
    /// What lies before this position is not wanted now.
    Skip(Vec<u8>),
    Stop,
}

/// Requests the page at a position; with the token, if one continues there.
pub(crate) type Fetch<'a> = &'a (dyn Fn(&[u8], Option<&str>) -> Result<Page> + Sync);

/// Reads the pages of one prefix.
pub(crate) struct Pager<'a> {
    pub pages: &'a Pages,
    pub threads: &'a Threads,
    /// Whether a request can begin anywhere.
    pub anywhere: &'a (dyn Fn() -> bool + Sync),
    pub fetch: Fetch<'a>,
    /// Nothing was written to it since this store's first listing: what is known serves, and what comes is kept.
    pub reuse: bool,
    pub once: bool,
}

#[derive(Default)]
struct State {
    ranges: Vec<Range>,
    wanted: Vec<u8>,
    read: usize,
    used: usize,
    /// Pages that had keys: there are never more ranges, so that a short listing is not searched for more.
    full: usize,
    stopped: bool,
}

/// A part of the prefix that one thread reads.
struct Range {
    at: Vec<u8>,
    until: Vec<u8>,
    /// A whole page of it was read since it was last divided, and there is more.
    dense: bool,
}

impl Pager<'_> {
    /// Hands out the pages of a prefix in order, from its beginning.
    pub fn each(&self, prefix: &[u8], take: &mut dyn FnMut(&Page, &[u8]) -> Step) -> Result<()> {
        let end = after_all(prefix);
        let (state, wake) = (Mutex::new(State::default()), Condvar::new());
        let retries = Scope::current();
        std::thread::scope(|scope| {
            let _stop = StopAtEnd { state: &state, wake: &wake };
            let mut granted = None;
            let (mut at, mut token, mut in_a_row) = (prefix.to_vec(), None, 0);
            while at < end {
                let known = if self.reuse { self.pages.covering(&at) } else { None };
                let page = match known {
                    Some(page) => page,
                    None => match if granted.is_some() { self.waited(&state, &wake, &at) } else { None } {
                        Some(page) => page,
                        None => {
                            let page = Arc::new((self.fetch)(&at, token.as_deref())?);
                            if self.reuse {
                                self.pages.keep(&page);
                            }
                            in_a_row += 1;
                            page
                        }
                    },
                };
                lock(&state).used += 1;
                match take(&page, &at) {
                    Step::Stop => return Ok(()),
                    Step::Next => {
                        (at, token) = (page.until.clone(), page.token.clone());
                        if self.once {
                            self.pages.forget_before(&at);
                        }
                        if in_a_row == ALONE && self.reuse && granted.is_none() && at < end && (self.anywhere)() {
                            let others = self.threads.grant(HELPERS);
                            if others.count() > 0 {
                                let mut held = lock(&state);
                                held.full = ALONE;
                                held.ranges.push(Range { at: at.clone(), until: end.clone(), dense: true });
                            }
                            for i in 0..others.count() {
                                let (state, wake, retries) = (&state, &wake, retries.clone());
                                let help = move || {
                                    let _retries = retries.enter();
                                    self.help(state, wake, i == 0);
                                };
                                if std::thread::Builder::new().spawn_scoped(scope, help).is_err() && i == 0 {
                                    lock(state).ranges.clear();
                                    break;
                                }
                            }
                            granted = Some(others);
                        }
                    }
                    Step::Skip(to) => {
                        (at, token, in_a_row) = (to, None, 0);
                    }
                }
            }
            Ok(())
        })
    }

    /// The page at a position that another thread reads; `None` if none does.
    fn waited(&self, state: &Mutex<State>, wake: &Condvar, at: &[u8]) -> Option<Arc<Page>> {
        let mut held = lock(state);
        held.wanted = at.to_vec();
        wake.notify_all();
        loop {
            let is_read = held.ranges.iter().any(|range| range.at[..] <= *at && *at < range.until[..]);
            if !is_read {
                drop(held);
                return self.pages.covering(at);
            }
            held = wake.wait_timeout(held, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner).0;
            if let Some(page) = self.pages.covering(at) {
                return Some(page);
            }
        }
    }

    /// Reads ranges until there is none left to share.
    fn help(&self, state: &Mutex<State>, wake: &Condvar, first: bool) {
        let mut own: Option<usize> = first.then_some(0);
        let mut held = lock(state);
        loop {
            if held.stopped {
                break;
            }
            if !(self.anywhere)() {
                // Each further range would cost all pages before it. The reader of this one goes on with a token.
                if let Some(range) = own.and_then(|i| held.ranges.get_mut(i)) {
                    range.at = range.until.clone();
                }
                break;
            }
            let Some(i) = own else {
                own = held.split();
                if own.is_none() {
                    if held.ranges.iter().all(|range| range.at >= range.until) {
                        break;
                    }
                    held = wake.wait_timeout(held, Duration::from_millis(50)).unwrap_or_else(PoisonError::into_inner).0;
                }
                continue;
            };
            let (at, until) = (held.ranges[i].at.clone(), held.ranges[i].until.clone());
            if at >= until {
                own = None;
                continue;
            }
            let is_wanted = at <= held.wanted && held.wanted < until;
            if held.read.saturating_sub(held.used) >= AHEAD_MOST && !is_wanted {
                held = wake.wait_timeout(held, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(held);
            let fetched = (self.fetch)(&at, None);
            held = lock(state);
            match fetched {
                Ok(page) => {
                    let page = Arc::new(page);
                    drop(held);
                    self.pages.keep(&page);
                    held = lock(state);
                    held.read += 1;
                    let within = !page.objects.is_empty() && page.until < held.ranges[i].until;
                    held.full += usize::from(within);
                    held.ranges[i].dense = within;
                    held.ranges[i].at = page.until.clone();
                }
                // Some servers refuse some keys as a beginning. The reader of this range asks from the last key before it.
                Err(_) => {
                    held.ranges[i].at = held.ranges[i].until.clone();
                    wake.notify_all();
                    break;
                }
            }
            wake.notify_all();
        }
        drop(held);
        wake.notify_all();
    }
}

/// Nothing more is read, however the listing ends.
struct StopAtEnd<'a> {
    state: &'a Mutex<State>,
    wake: &'a Condvar,
}

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        lock(self.state).stopped = true;
        self.wake.notify_all();
    }
}

impl State {
    /// Takes the upper half of the widest range.
    fn split(&mut self) -> Option<usize> {
        if self.ranges.len() >= self.full {
            return None;
        }
        let widest = self.ranges.iter().enumerate().filter(|(_, range)| range.dense && range.at < range.until).filter_map(|(i, range)| {
            let (middle, width) = halved(&range.at, &range.until)?;
            Some((width, i, middle))
        });
        let (_, i, middle) = widest.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let until = std::mem::replace(&mut self.ranges[i].until, middle.clone());
        self.ranges[i].dense = false;
        self.ranges.push(Range { at: middle, until, dense: false });
        Some(self.ranges.len() - 1)
    }
}

/// Characters that split points consist of, and how many of them are looked at.
const CHARACTERS: std::ops::RangeInclusive<u8> = b'!'..=b'~';
const LOOKED_AT: usize = 8;

/// A position in the middle between two, and how wide the whole is; `None` if there is none.
pub(crate) fn halved(at: &[u8], until: &[u8]) -> Option<(Vec<u8>, f64)> {
    let shared = at.iter().zip(until).take_while(|(a, b)| a == b).count();
    let base = f64::from(CHARACTERS.end() - CHARACTERS.start() + 2);
    let number = |text: &[u8]| {
        let digit = |i: usize| {
            text.get(shared + i).map_or(0.0, |byte| f64::from(byte.clamp(CHARACTERS.start(), CHARACTERS.end()) - CHARACTERS.start() + 1))
        };
        (0..LOOKED_AT).fold((0.0, 1.0 / base), |(sum, scale), i| (sum + digit(i) * scale, scale / base)).0
    };
    let (low, high) = (number(at), number(until));
    let mut rest = f64::midpoint(low, high);
    let mut middle = at[..shared].to_vec();
    for _ in 0..4 {
        rest *= base;
        let digit = rest.floor();
        rest -= digit;
        // Without a character there the text ends.
        if digit < 1.0 {
            break;
        }
        // Names of `.` and `..` are refused by some servers.
        let character = CHARACTERS.start() + digit as u8 - 1;
        middle.push(if matches!(character, b'.' | b'/') { b'-' } else { character });
    }
    std::str::from_utf8(&middle).ok()?;
    let middle = super::behind(&middle);
    let width = (high - low) / base.powi(i32::try_from(shared).unwrap_or(i32::MAX).min(100));
    (at < &middle[..] && &middle[..] < until).then_some((middle, width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_lies_between() {
        for (at, until) in
            [("d/", "d/\u{7f}"), ("d/k0001\0", "d/\u{7f}"), ("d/5", "d/6"), ("", "~~"), ("d/5555", "d/5557"), ("d/\u{e9}a", "d/\u{e9}b")]
        {
            let (middle, width) = halved(at.as_bytes(), until.as_bytes()).unwrap_or_else(|| panic!("{at} {until}"));
            assert!(at.as_bytes() < &middle[..] && &middle[..] < until.as_bytes() && width > 0.0, "{at} {until}: {middle:?}");
        }
        let (middle, _) = halved(b"d/2000\0", &after_all(b"d/")).expect("there is one");
        assert!(middle > b"d/9".to_vec() && middle < after_all(b"d/"));
        assert!(halved(b"a", b"a\0").is_none());
    }
}
