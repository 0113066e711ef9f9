//! One measurement, a line of `samples.jsonl`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Below this share of the files smallfile takes a run for no good one.
pub const ENOUGH: f64 = 0.9;

/// One repetition of one contender. A number that was not measured is absent, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Place in the order of measurement, from 0.
    pub number: u32,
    /// The name in tables and plots: `rsync`, `haul -j 8`, `create`.
    pub contender: String,
    /// From 1; 0 for a warm-up, which counts for nothing.
    pub repetition: u32,
    /// When it began: RFC 3339, UTC.
    pub at: String,
    /// The varied parameters, by name: `streams`, `threads`, `same_dir`, `direction`, `chunk` (bytes), `file_size` (bytes), ...
    #[serde(default)]
    pub factors: BTreeMap<String, Value>,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The command line, where there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Operations, if they are counted and not files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// Processor time in user mode, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<f64>,
    /// Processor time in the kernel, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<f64>,
    /// Largest resident memory, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// The treatment of the page cache before: `dropped`, `warm`, `not dropped: needs root`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caches: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Bytes (or operations, where nothing has bytes) done by then, by seconds since the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<(f64, u64)>,
    /// What limited it, where it can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    #[default]
    Ok,
    /// It ended well and wrote wrong data.
    Wrong,
    Failed,
    Timeout,
    Missing,
    Interrupted,
}

impl Outcome {
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Wrong => "WRONG",
            Outcome::Failed => "failed",
            Outcome::Timeout => "timeout",
            Outcome::Missing => "missing",
            Outcome::Interrupted => "interrupted",
        }
    }
}

impl Sample {
    /// Bytes a second; `None` where it did not go well or nothing has bytes.
    pub fn rate(&self) -> Option<f64> {
        self.per_second(self.bytes?)
    }

    pub fn files_rate(&self) -> Option<f64> {
        self.per_second(self.files?)
    }

    pub fn operations_rate(&self) -> Option<f64> {
        self.per_second(self.operations?)
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        let seconds = self.seconds.filter(|s| *s > 0.0)?;
        self.counts().then(|| count as f64 / seconds)
    }

    /// Of the files that were asked for, the share that counts, where too little does for a sound rate: the threads did not keep
    /// pace with each other. What ended because its time was over had all threads at work, and is sound.
    pub fn partial(&self) -> Option<f64> {
        let share = self.more.get("share")?.as_f64()?;
        let timed = self.more.get("limited_by_duration").and_then(Value::as_bool).unwrap_or(false);
        (share < ENOUGH && !timed).then_some(share)
    }

    /// Whether it goes into medians: it went well and is no warm-up.
    pub fn counts(&self) -> bool {
        self.outcome == Outcome::Ok && self.repetition > 0
    }

    /// The contender and its factors: equal for repetitions of the same.
    pub fn key(&self) -> String {
        format!("{} {}", self.contender, serde_json::to_string(&self.factors).unwrap_or_default())
    }
}

/// How long single operations took, in seconds, and how many took how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// Upper bound of a class in seconds, and how many operations fell into it; classes in which none fell are left out.
    pub classes: Vec<(f64, u64)>,
}
