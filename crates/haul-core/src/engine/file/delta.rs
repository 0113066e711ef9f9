//! What of a changed file has to move: both versions are outlined where they lie, and what the old one has is copied there.

use std::ops::Range;

use crate::bundle::Spent;
use crate::entry::{Entry, Kind, MetaMask, Name, Stamp};
use crate::error::{Error, Result};
use crate::meter::{Meter, Pass};
use crate::outline::{self, Outline, Part};
use crate::rlimit::STACK;
use crate::store::{Sink, Source, Store};

/// Smaller files move faster than they are compared.
const LEAST: u64 = 1 << 20;

/// Bytes that a source is told of before they are read.
const AHEAD: u64 = 8 << 20;

/// The parts of a file that replaces an old version.
pub struct Delta {
    /// Which old version.
    old: Stamp,
    /// They cover the file once, in order.
    parts: Vec<Part>,
}

impl Delta {
    /// `None` where the whole file is to move: because little is the same, or because that cannot be told without moving it.
    pub fn find(target: &dyn Store, meter: &Meter, source: &dyn Source, entry: &Entry, name: &Name) -> Result<Option<Delta>> {
        if entry.size < LEAST || !target.outlines() {
            return Ok(None);
        }
        let mut old = Entry::bare(name.clone(), Kind::File);
        old.have = MetaMask::NONE;
        let Ok(target) = target.open(&old, false) else { return Ok(None) };
        let Ok(stamp) = target.stamp() else { return Ok(None) };
        // Of a version that is a tenth of the new one little can be had; of one that is ten times as long, too.
        if stamp.size < LEAST / 4 || stamp.size > entry.size.saturating_mul(10) || entry.size > stamp.size.saturating_mul(10) {
            return Ok(None);
        }
        let average = outline::piece_size(entry.size.max(stamp.size));
        let outlined = |from: &dyn Source| {
            from.outline(average, &mut |bytes, _| {
                meter.read(bytes);
                meter.check()
            })
        };
        let (ours, theirs) = std::thread::scope(|scope| {
            let theirs = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || outlined(&*target));
            let ours = outlined(source);
            (ours, theirs.map_or(Ok(None), |theirs| theirs.join().unwrap_or(Ok(None))))
        });
        meter.check()?;
        // Whatever went wrong, the whole file can still be moved, and shows it again if it lasts.
        let (Ok(Some(ours)), Ok(Some(theirs))) = (ours, theirs) else { return Ok(None) };
        if ours.size() != entry.size || theirs.size() != stamp.size || target.stamp().ok() != Some(stamp) {
            return Ok(None);
        }
        let parts = outline::compare(&theirs, &ours);
        let pays = |outline: &Outline| outline.pieces().len() as u64 * 28;
        if outline::moved(&parts) + pays(&ours) + pays(&theirs) > entry.size / 10 * 9 {
            return Ok(None);
        }
        Ok(Some(Delta { old: stamp, parts }))
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
        let first = self.parts.partition_point(|part| part.at().end <= at.start);
        let (mut soon, mut bytes) = (Vec::new(), 0);
        for part in &self.parts[first..] {
            if let Part::Move { at: part } = part {
                // Cut as they will be read: by chunks of this size.
                let chunk = (at.end - at.start).max(1);
                let mut start = part.start.max(at.start);
                while start < part.end && bytes < AHEAD {
                    let end = part.end.min((start / chunk + 1) * chunk);
                    soon.push(start..end);
                    bytes += end - start;
                    start = end;
                }
            }
            if bytes >= AHEAD || soon.len() >= 1000 {
                break;
            }
        }
        from.expect(&soon);
        for part in &self.parts[first..] {
            let cut = part.at().start.max(at.start)..part.at().end.min(at.end);
            if cut.is_empty() {
                break;
            }
            match part {
                Part::Same { old, at: whole } => {
                    meter.check()?;
                    let bytes = cut.end - cut.start;
                    let began = std::time::Instant::now();
                    to.reuse(&self.old, old + (cut.start - whole.start), cut)?;
                    spent.copying += began.elapsed();
                    reused(bytes);
                }
                Part::Move { .. } => {
                    let (_, part) = meter.pass(from, to, cut, Pass { hash: false, ..how })?;
                    spent += part;
                }
            }
        }
        let hash = if how.hash { Some(meter.hash(from, at, &mut spent).map_err(Error::of_source)?) } else { None };
        Ok((hash, spent))
    }
}
