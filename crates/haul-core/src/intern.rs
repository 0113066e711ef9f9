//! Words of other processes that are kept for good.

use std::sync::Mutex;

use crate::lock::lock;

/// The name of an operation: there are a few dozen. Beyond that, all from a peer become one.
pub fn intern(words: &str) -> &'static str {
    static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut known = lock(&KNOWN);
    if let Some(same) = known.iter().find(|other| **other == words) {
        return same;
    }
    if known.len() >= 128 || words.len() > 40 || !words.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return "do";
    }
    let kept: &'static str = Box::leak(words.to_string().into_boxed_str());
    known.push(kept);
    kept
}
