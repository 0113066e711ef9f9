//! Many small files that move in one call.

pub mod items;

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::entry::{Entry, MetaMask};
use crate::error::Error;

/// What came of putting a file, a link or a directory's attributes in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WriteOutcome {
    /// Attributes that were asked for and that the destination refused, perhaps with [`MetaMask::DENIED`].
    pub refused: MetaMask,
    /// Identity of what stands there now; 0 where the store has none.
    pub ino: u64,
}

/// A reusable buffer of small files: `get_bundle` fills it, `put_bundle` empties it. Bounded by `Tuning::bundle_bytes` and
/// `Tuning::bundle_files`.
#[derive(Debug, Default)]
pub struct Bundle {
    pub items: Vec<Item>,
    /// The bytes of all items, one behind the other.
    pub data: Vec<u8>,
    /// Attributes to read from the source and to keep at the destination.
    pub keep: MetaMask,
    /// Read what links point to.
    pub follow: bool,
    /// Read from the medium, past the caches of the store's host, where it can.
    pub past_caches: bool,
    /// No name of this bundle exists at the destination: create in place, without staging.
    pub direct: bool,
    /// Everything is on stable storage when `put_bundle` returns.
    pub sync: bool,
    pub spent: Spent,
}

#[derive(Debug)]
pub struct Item {
    /// As listed; `get_bundle` sets it to what was read.
    pub entry: Entry,
    /// Where the content stands in `Bundle::data`.
    pub at: Range<usize>,
    pub outcome: Outcome,
}

/// How far an item got.
#[derive(Debug)]
pub enum Outcome {
    Listed,
    Read,
    Written(WriteOutcome),
    Failed(Error),
}

/// Time spent on moving bytes, by kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub reading: Duration,
    pub writing: Duration,
    /// Opening, creating, attributes.
    pub metadata: Duration,
    pub hashing: Duration,
    /// Reading and writing in one call of the kernel.
    pub copying: Duration,
    /// Waiting for the rate that is allowed; it is counted by the meter, and is in none of the others.
    pub throttled: Duration,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, o: Self) {
        self.reading += o.reading;
        self.writing += o.writing;
        self.metadata += o.metadata;
        self.hashing += o.hashing;
        self.copying += o.copying;
        self.throttled += o.throttled;
    }
}

impl Spent {
    pub fn sum(&self) -> Duration {
        self.reading + self.writing + self.metadata + self.hashing + self.copying + self.throttled
    }

    /// Divides `whole` among reading, writing and metadata as `sample` is.
    pub fn add_share(&mut self, whole: Duration, sample: Spent) {
        let sum = (sample.reading + sample.writing + sample.metadata).as_secs_f64();
        if sum > 0.0 {
            let part = |of: Duration| whole.mul_f64(of.as_secs_f64() / sum);
            self.reading += part(sample.reading);
            self.writing += part(sample.writing);
            self.metadata += part(sample.metadata);
        }
    }
}

/// Laps of one sampled item in many: two clock reads per call would cost a small file some percent of its time.
#[derive(Debug)]
pub struct Laps<'a>(Option<(&'a mut Spent, Instant)>);

impl<'a> Laps<'a> {
    /// One item in this many is sampled.
    pub const EACH: usize = 16;

    pub fn new(index: usize, sample: &'a mut Spent) -> Self {
        Laps(index.is_multiple_of(Self::EACH).then(|| (sample, Instant::now())))
    }

    /// Samples nothing.
    pub fn none() -> Laps<'static> {
        Laps(None)
    }

    /// Adds the time since the last lap to one kind of work.
    pub fn lap(&mut self, kind: impl FnOnce(&mut Spent) -> &mut Duration) {
        if let Some((sample, last)) = &mut self.0 {
            let now = Instant::now();
            *kind(sample) += now - *last;
            *last = now;
        }
    }
}

impl Bundle {
    pub fn clear(&mut self) {
        self.items.clear();
        self.data.clear();
        self.past_caches = false;
        self.spent = Spent::default();
    }

    pub fn push(&mut self, entry: Entry) {
        self.items.push(Item { entry, at: 0..0, outcome: Outcome::Listed });
    }

    /// Bytes that its files are listed with.
    pub fn listed_bytes(&self) -> u64 {
        self.items.iter().map(|item| item.entry.size).sum()
    }
}
