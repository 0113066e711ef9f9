//! The object that was looked at last while the places of a run were opened: the run looks at it right after that, and need not ask
//! again.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::error::Result;
use haul_core::lock::lock;

use super::bucket::Head;

/// For how long an answer holds.
const HOLDS: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Option<Answer>>);

#[derive(Debug)]
struct Answer {
    key: Vec<u8>,
    at: Instant,
    head: Option<Head>,
}

impl Recent {
    pub fn keep(&self, key: &[u8], head: Option<Head>) {
        *lock(&self.0) = Some(Answer { key: key.to_vec(), at: Instant::now(), head });
    }

    /// The answer for a key, once; else that of `ask`.
    pub fn take(&self, key: &[u8], ask: impl FnOnce() -> Result<Option<Head>>) -> Result<Option<Head>> {
        let kept = lock(&self.0).take_if(|answer| answer.key == key);
        match kept.filter(|answer| answer.at.elapsed() < HOLDS) {
            Some(answer) => Ok(answer.head),
            None => ask(),
        }
    }
}
