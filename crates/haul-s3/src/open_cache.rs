//! What was learned while the places of a run were opened: the objects that were looked at last, and the first page of a directory. The
//! run wants both right after that, and need not ask again.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::error::Result;
use haul_core::lock::lock;

use super::bucket::Head;
use super::flat::FlatPage;

/// For how long an answer holds.
const HOLDS: Duration = Duration::from_secs(10);
/// Objects of which an answer is kept: source and destination.
const HEADS_MOST: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The object that was looked at together with the bucket.
    ahead: Mutex<Option<Answer<Option<Head>>>>,
    heads: Mutex<Vec<Answer<Option<Head>>>>,
    page: Mutex<Option<Answer<FlatPage>>>,
}

#[derive(Debug)]
struct Answer<T> {
    key: Vec<u8>,
    at: Instant,
    is: T,
}

impl<T> Answer<T> {
    fn new(key: &[u8], is: T) -> Self {
        Answer { key: key.to_vec(), at: Instant::now(), is }
    }

    fn holds(&self, key: &[u8]) -> bool {
        self.key == key && self.at.elapsed() < HOLDS
    }
}

impl Recent {
    pub fn keep_ahead(&self, key: &[u8], head: Option<Head>) {
        *lock(&self.ahead) = Some(Answer::new(key, head));
    }

    /// The answer that came together with the bucket, once; else that of `ask`.
    pub fn take_ahead(&self, key: &[u8], ask: impl FnOnce() -> Result<Option<Head>>) -> Result<Option<Head>> {
        let kept = lock(&self.ahead).take_if(|answer| answer.key == key);
        kept.filter(|answer| answer.holds(key)).map_or_else(ask, |answer| Ok(answer.is))
    }

    pub fn keep(&self, key: &[u8], head: Option<Head>) {
        let mut heads = lock(&self.heads);
        heads.retain(|answer| answer.key != key);
        heads.truncate(HEADS_MOST - 1);
        heads.insert(0, Answer::new(key, head));
    }

    /// The answer for a key, once; else that of `ask`.
    pub fn take(&self, key: &[u8], ask: impl FnOnce() -> Result<Option<Head>>) -> Result<Option<Head>> {
        let kept = {
            let mut heads = lock(&self.heads);
            heads.iter().position(|answer| answer.key == key).map(|at| heads.remove(at))
        };
        kept.filter(|answer| answer.holds(key)).map_or_else(ask, |answer| Ok(answer.is))
    }

    pub fn forget(&self, key: &[u8]) {
        lock(&self.heads).retain(|answer| answer.key != key);
    }

    /// Keeps the page that a prefix begins with.
    pub fn keep_page(&self, prefix: &[u8], page: FlatPage) {
        *lock(&self.page) = Some(Answer::new(prefix, page));
    }

    pub fn forget_page(&self) {
        *lock(&self.page) = None;
    }

    /// What the page that a prefix begins with says; `None` where none is kept.
    pub fn of_page<T>(&self, prefix: &[u8], says: impl FnOnce(&FlatPage) -> T) -> Option<T> {
        lock(&self.page).as_ref().filter(|answer| answer.holds(prefix)).map(|answer| says(&answer.is))
    }

    pub fn take_page(&self, prefix: &[u8]) -> Option<FlatPage> {
        lock(&self.page).take_if(|answer| answer.holds(prefix)).map(|answer| answer.is)
    }
}
