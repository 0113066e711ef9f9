//! The calls of a store: tests assert on their number and on the names in them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use haul_core::lock::lock;

/// Names kept in the log; beyond them calls are only counted, so that a run over a million files stays small.
const NAMES_MOST: usize = 100_000;

/// One call of a method of `Store`, `Source` or `Sink`, by the method's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub op: &'static str,
    /// Full paths of every name in the call.
    pub paths: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Calls and the names in them, by method.
    counts: BTreeMap<&'static str, (u64, u64)>,
    calls: Vec<Call>,
    names: usize,
}

impl Log {
    pub fn note(&self, op: &'static str, paths: impl ExactSizeIterator<Item = Vec<u8>>) {
        let mut kept = lock(&self.0);
        let count = kept.counts.entry(op).or_default();
        count.0 += 1;
        count.1 += paths.len() as u64;
        if kept.names + paths.len() <= NAMES_MOST {
            kept.names += paths.len();
            kept.calls.push(Call { op, paths: paths.collect() });
        }
    }

    pub fn count(&self, op: &str) -> (u64, u64) {
        lock(&self.0).counts.get(op).copied().unwrap_or_default()
    }

    pub fn calls(&self) -> Vec<Call> {
        lock(&self.0).calls.clone()
    }
}
