use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::*;
use crate::cancel::Cancel;
use crate::error::ErrorKind;
use crate::lock::lock;
use crate::signature::wire::{self, Incoming};
use crate::signature::{CdcChunk, HASH, Signature};
use crate::store::{Chunk, Fill, NearData, OnChunks, Receipt, SinkExtensions, SourceExtensions, Token, WriteOutcome};

const MB: u64 = 1 << 20;
/// A chunk, and so a unit of the letters below.
const UNIT: u32 = 32 << 10;

/// A version whose chunks are known without content: its signature goes on as far as `turns` lets it.
struct Version {
    chunks: Vec<CdcChunk>,
    turns: Mutex<Receiver<usize>>,
}

impl Version {
    /// The numbers stand for content; whoever has the other end decides how many chunks are found.
    fn of(numbers: impl Iterator<Item = u64>) -> (Arc<Version>, Sender<usize>) {
        let chunk = |number: u64| {
            let mut hash = [0; HASH];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            CdcChunk { hash, length: UNIT }
        };
        let (sender, turns) = channel();
        let version = Version { chunks: numbers.map(chunk).collect(), turns: Mutex::new(turns) };
        (Arc::new(version), sender)
    }

    fn size(&self) -> u64 {
        self.chunks.len() as u64 * u64::from(UNIT)
    }
}

impl Source for Version {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(std::io::repeat(7).take(at.end - at.start)))
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(Stamp { size: self.size(), ..Stamp::default() })
    }

    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions { near_data: self, ..SourceExtensions::default() }
    }
}

impl NearData for Version {
    fn signature(&self, average: u32, each: &mut OnChunks<'_>) -> Result<Option<Signature>> {
        let mut next = 0;
        // Without another turn it is not read to its end.
        while next < self.chunks.len() {
            let turn = lock(&self.turns).recv().map_err(|_| Error::new(ErrorKind::Broken, "read"))?;
            let end = self.chunks.len().min(next + turn);
            each((end - next) as u64 * u64::from(UNIT), &self.chunks[next..end])?;
            next = end;
        }
        let mut incoming = Incoming::new(average);
        let mut bytes = wire::header(average).to_vec();
        wire::encode(&self.chunks, &mut bytes);
        incoming.push(&bytes)?;
        incoming.finish(self.size()).map(Some)
    }
}

/// What was done to the new file, in order.
#[derive(Default)]
struct Seen(Mutex<Vec<(Range<u64>, Option<u64>)>>);

impl Seen {
    /// The ranges with where in the old version they came from, side by side ones joined.
    fn parts(&self) -> Vec<(Range<u64>, Option<u64>)> {
        let mut all = lock(&self.0).clone();
        all.sort_by_key(|(at, _)| at.start);
        let mut joined: Vec<(Range<u64>, Option<u64>)> = Vec::new();
        for (at, from) in all {
            match joined.last_mut() {
                Some((last, old)) if last.end == at.start && old.map(|old| old + (at.start - last.start)) == from => last.end = at.end,
                _ => joined.push((at, from)),
            }
        }
        joined
    }
}

impl Sink for Seen {
    fn token(&self) -> Token {
        unreachable!("the file is not journalled")
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        std::io::copy(&mut from.take(at.end - at.start), &mut std::io::sink()).map_err(|e| Error::io(e, "write"))?;
        lock(&self.0).push((at, None));
        Ok(())
    }

    fn hole(&self, _: Range<u64>) -> Result<()> {
        unreachable!("there are no holes")
    }

    fn landed(&self, _: &Chunk) -> Result<Box<[u8]>> {
        Ok(Box::default())
    }

    fn commit(&self, _: &Entry, _: &[Receipt]) -> Result<WriteOutcome> {
        unreachable!("it is not committed")
    }

    fn abort(&self) -> Result<()> {
        Ok(())
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions { fill: self, ..SinkExtensions::default() }
    }
}

impl Fill for Seen {
    fn reuse(&self, _: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        lock(&self.0).push((at, Some(from)));
        Ok(())
    }
}

fn meter() -> Arc<Meter> {
    Arc::new(Meter::new(Cancel::default(), None))
}

fn find(old: &Arc<Version>, new: &Arc<Version>, meter: &Arc<Meter>) -> Option<Delta> {
    let (old, new): (Arc<dyn Source>, Arc<dyn Source>) = (old.clone(), new.clone());
    let size = new.stamp().expect("it has one").size;
    Delta::between(&old, old.stamp().expect("it has one"), &new, size, meter).expect("it is not stopped")
}

fn pass(delta: &Delta, from: &Version, at: Range<u64>, meter: &Meter) -> (Result<()>, Seen, u64) {
    let (seen, [moved, sent, reused]) = (Seen::default(), [0; 3].map(AtomicU64::new));
    let how = Pass { hash: false, sparse: false, flight: &moved, sent: &sent };
    let count = |bytes| {
        reused.fetch_add(bytes, Ordering::Relaxed);
    };
    let done = delta.pass(meter, from, &seen, at, how, &count).map(|_| ());
    (done, seen, reused.into_inner())
}

const CHUNKS: u64 = 4096;

/// 128 MiB, of which one MiB from 16 MiB on is other content.
fn edited() -> impl Iterator<Item = u64> {
    (0..CHUNKS).map(|number| if (512..544).contains(&number) { number + 1_000_000 } else { number })
}

#[test]
fn the_beginning_is_copied_while_signatures_are_made() {
    let (old, old_turns) = Version::of(0..CHUNKS);
    let (new, new_turns) = Version::of(edited());
    for turns in [&old_turns, &new_turns] {
        turns.send(2400).expect("it is waited for"); // 75 MiB
    }
    let meter = meter();
    let delta = find(&old, &new, &meter).expect("most of it is the same");
    let (done, seen, reused) = pass(&delta, &new, 0..64 * MB, &meter);
    done.expect("what was looked for is enough");
    let expected = vec![(0..16 * MB, Some(0)), (16 * MB..17 * MB, None), (17 * MB..64 * MB, Some(17 * MB))];
    assert_eq!((seen.parts(), reused), (expected, 63 * MB));
    for turns in [&old_turns, &new_turns] {
        turns.send(CHUNKS as usize).expect("it is waited for");
    }
    let (done, seen, _) = pass(&delta, &new, 64 * MB..128 * MB, &meter);
    done.expect("all is known");
    assert_eq!(seen.parts(), [(64 * MB..128 * MB, Some(64 * MB))]);
}

/// What comes earlier than in the old version is found when all of that is known, not moved before.
#[test]
fn what_lies_far_behind_is_waited_for() {
    let (old, old_turns) = Version::of(0..CHUNKS);
    let (new, new_turns) = Version::of((0..2200).chain(3200..CHUNKS));
    old_turns.send(2400).expect("it is waited for");
    new_turns.send(CHUNKS as usize).expect("it is waited for");
    let meter = meter();
    let delta = find(&old, &new, &meter).expect("most of it is the same");
    let cut = 2200 * u64::from(UNIT);
    let (done, seen, _) = std::thread::scope(|scope| {
        let passing = scope.spawn(|| pass(&delta, &new, 0..new.size(), &meter));
        old_turns.send(CHUNKS as usize).expect("it is waited for");
        passing.join().expect("no panic")
    });
    done.expect("all is known");
    assert_eq!(seen.parts(), [(0..cut, Some(0)), (cut..new.size(), Some(3200 * u64::from(UNIT)))]);
}

#[test]
fn without_the_rest_of_a_signature_the_rest_moves() {
    for which in 0..2 {
        let (old, old_turns) = Version::of(0..CHUNKS);
        let (new, new_turns) = Version::of(edited());
        let mut turns = [Some(old_turns), Some(new_turns)];
        for turns in turns.iter().flatten() {
            turns.send(2400).expect("it is waited for");
        }
        let meter = meter();
        let delta = find(&old, &new, &meter).expect("most of it is the same");
        turns[which] = None;
        turns.iter().flatten().for_each(|turns| turns.send(CHUNKS as usize).expect("it is waited for"));
        let (done, seen, reused) = pass(&delta, &new, 0..new.size(), &meter);
        done.expect("it moves instead");
        let parts = seen.parts();
        assert!(parts.iter().map(|(at, _)| at.end - at.start).sum::<u64>() == new.size() && reused >= 48 * MB, "{parts:?}");
        assert_eq!(parts.last().map(|(at, from)| (at.end, *from)), Some((new.size(), None)));
    }
}

#[test]
fn what_has_nothing_in_common_is_no_delta() {
    let (old, old_turns) = Version::of(0..CHUNKS);
    let (new, new_turns) = Version::of(CHUNKS..2 * CHUNKS);
    for turns in [&old_turns, &new_turns] {
        turns.send(2400).expect("it is waited for");
        turns.send(CHUNKS as usize).expect("it is waited for");
    }
    assert!(find(&old, &new, &meter()).is_none());
}
