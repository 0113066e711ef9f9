//! What of a changed file has to move: each end makes the signature of its version, and what the old one has is copied at
//! the destination. In long files that begins while the signatures are made.

mod live;

use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crate::bundle::Spent;
use crate::entry::{Entry, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, Result};
use crate::meter::{Meter, Pass};
use crate::rlimit::STACK;
use crate::signature::{self, Part};
use crate::store::{Sink, Source, Store};
use live::{Known, Live, Version};

/// Smaller files move faster than they are compared.
const LEAST: u64 = 1 << 20;

/// Bytes at the beginning of a file that show whether comparing pays before its signature is complete.
const SAMPLE: u64 = 64 << 20;

/// Bytes that are compared before they are copied or moved.
const STEP: u64 = 16 << 20;

/// Bytes that a source is told of before they are read.
const AHEAD: u64 = 8 << 20;

/// A file that replaces an old version, compared with it.
pub struct Delta {
    /// Which old version.
    old: Stamp,
    size: u64,
    live: Arc<Live>,
    threads: Vec<JoinHandle<()>>,
}

impl Delta {
    /// `None` where the whole file is to move: because little is the same, or because that cannot be told without moving it.
    pub fn find(target: &dyn Store, meter: &Arc<Meter>, source: &Arc<dyn Source>, entry: &Entry, name: &Name) -> Result<Option<Delta>> {
        if entry.size < LEAST || !target.caps().signatures {
            return Ok(None);
        }
        let mut old = Entry::bare(name.clone(), Kind::File);
        old.have = MetaMask::NONE;
        let Ok(target) = target.open(&old, false) else { return Ok(None) };
        let target: Arc<dyn Source> = target.into();
        let Ok(stamp) = target.stamp() else { return Ok(None) };
        Delta::between(&target, stamp, source, entry.size, meter)
    }

    /// The same of an old version that is open. Of a long file `Some` may come before the signatures are complete.
    fn between(old: &Arc<dyn Source>, stamp: Stamp, new: &Arc<dyn Source>, size: u64, meter: &Arc<Meter>) -> Result<Option<Delta>> {
        // Of a version that is a tenth of the new one little can be had; of one that is ten times as long, too.
        if stamp.size < LEAST / 4 || stamp.size > size.saturating_mul(10) || size > stamp.size.saturating_mul(10) {
            return Ok(None);
        }
        let average = signature::chunk_size(size.max(stamp.size));
        let mut delta = Delta { old: stamp, size, live: Arc::default(), threads: Vec::new() };
        for (version, from, bytes) in [(Version::Old, old.clone(), stamp.size), (Version::New, new.clone(), size)] {
            let (live, meter) = (delta.live.clone(), meter.clone());
            live.begin();
            let make = move || live.make(version, &*from, average, bytes, &meter);
            match std::thread::Builder::new().name("signature".into()).stack_size(STACK).spawn(make) {
                Ok(thread) => delta.threads.push(thread),
                Err(_) => return Ok(None),
            }
        }
        let is_long = size > SAMPLE && delta.live.wait(Known::Until(SAMPLE), meter)?.pays(SAMPLE);
        if !is_long {
            let state = delta.live.wait(Known::All, meter)?;
            if state.comparison.sizes().is_none() || !state.pays(size) {
                return Ok(None);
            }
        }
        let is_same = old.stamp().ok() == Some(stamp);
        Ok(is_same.then_some(delta))
    }

    /// Moves what of `at` is new, and has the rest copied at the destination: `reused` hears of how many bytes.
    pub fn pass(
        &self,
        meter: &Meter,
        from: &dyn Source,
        to: &dyn Sink,
        at: Range<u64>,
        how: Pass<'_>,
        reused: &dyn Fn(u64),
    ) -> Result<(Option<u128>, Spent)> {
        let mut spent = Spent::default();
        let chunk = (at.end - at.start).max(1);
        let fill = to.extensions().fill;
        // Returns the ranges that are still open.
        let carry = |parts: Vec<Part>, spent: &mut Spent| -> Result<Vec<Range<u64>>> {
            let mut open = Vec::new();
            for part in parts {
                match part {
                    Part::Same { old, at } => {
                        meter.check()?;
                        let (bytes, began) = (at.end - at.start, Instant::now());
                        fill.reuse(&self.old, old, at)?;
                        spent.copying += began.elapsed();
                        reused(bytes);
                    }
                    Part::Move { at } => {
                        let (_, part) = meter.pass(from, to, at, Pass { hash: false, ..how })?;
                        *spent += part;
                    }
                    Part::Open { at } => open.push(at),
                }
            }
            Ok(open)
        };
        let mut open = Vec::new();
        let mut next = at.start;
        while next < at.end {
            let end = at.end.min(next + STEP);
            let step = next..end;
            let parts = self.parts(Known::Until(end), next..end.saturating_add(8 * chunk).min(self.size), meter, &mut spent)?;
            // Of the next chunks, too: there may be little in each that moves.
            expect(from, &parts, chunk);
            let parts = parts.iter().take_while(|part| part.at().start < end).map(|part| part.within(&step)).collect();
            open.extend(carry(parts, &mut spent)?);
            next = end;
        }
        for at in open {
            let parts = self.parts(Known::All, at, meter, &mut spent)?;
            // Still open after both signatures have ended: one of them failed.
            for at in carry(parts, &mut spent)? {
                carry(vec![Part::Move { at }], &mut spent)?;
            }
        }
        let hash = if how.hash { Some(meter.hash(from, at, &mut spent).map_err(Error::of_source)?) } else { None };
        Ok((hash, spent))
    }

    /// The parts of `at`, once `known` is reached.
    fn parts(&self, known: Known, at: Range<u64>, meter: &Meter, spent: &mut Spent) -> Result<Vec<Part>> {
        let began = Instant::now();
        let state = self.live.wait(known, meter)?;
        spent.hashing += began.elapsed();
        Ok(state.comparison.parts(at))
    }
}

impl Drop for Delta {
    /// Waits for the signatures that are still being made: they end after the bytes that they read now.
    fn drop(&mut self) {
        self.live.cancel();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Announces to the source the first ranges that will be read of it, cut at multiples of `chunk` bytes as the reads will be.
fn expect(from: &dyn Source, parts: &[Part], chunk: u64) {
    let (mut soon, mut bytes) = (Vec::new(), 0);
    for part in parts {
        let Part::Move { at } = part else { continue };
        let mut start = at.start;
        while start < at.end && bytes < AHEAD {
            let end = at.end.min((start / chunk + 1) * chunk);
            soon.push(start..end);
            bytes += end - start;
            start = end;
        }
        if bytes >= AHEAD || soon.len() >= 1000 {
            break;
        }
    }
    from.prefetch(&soon);
}

#[cfg(test)]
mod tests;
