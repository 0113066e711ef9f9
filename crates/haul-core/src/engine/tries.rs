//! Calls that are made again, as the run's policy allows.

use crate::entry::{Dir, MetaMask};
use crate::error::{ErrorKind, Result};
use crate::retry::Tries;
use crate::store::{Found, Store};

/// Calls again what its error says may be called again.
pub fn retry<T>(call: impl FnMut() -> Result<T>) -> Result<T> {
    Tries::begin().call(call)
}

/// [`retry`] for each name that failed in a call on many, until a fatal error.
pub fn retry_each<T>(answers: Vec<Result<T>>, mut again: impl FnMut(usize) -> Result<T>) -> Vec<Result<T>> {
    let mut over = false;
    let settle = |(i, answer): (usize, Result<T>)| {
        if over {
            return answer;
        }
        let mut first = Some(answer);
        let settled = retry(|| first.take().unwrap_or_else(|| again(i)));
        over = settled.as_ref().is_err_and(|e| e.kind().ends_the_run());
        settled
    };
    answers.into_iter().enumerate().map(settle).collect()
}

/// What became of a removal that was asked for again.
pub fn gone_is_done(removed: Result<()>) -> Result<()> {
    match removed {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// [`retry`] for calls that remove a name: a missing name on a repeated call counts as removed by the one whose answer was lost.
pub fn retry_gone(mut call: impl FnMut() -> Result<()>) -> Result<()> {
    let mut again = false;
    retry(|| {
        let done = call();
        if std::mem::replace(&mut again, true) { gone_is_done(done) } else { done }
    })
}

/// Looks names up; one answer each.
pub fn look_up(store: &dyn Store, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
    if leaves.is_empty() {
        return Vec::new();
    }
    let apart = |found: Found| match found {
        Found::Failed(e) => Err(e),
        found => Ok(found),
    };
    let answers = store.stat_many(dir, leaves, want, follow).into_iter().map(apart).collect();
    let again = |i: usize| store.stat_many(dir, &leaves[i..=i], want, follow).pop().map_or(Ok(Found::Absent), apart);
    retry_each(answers, again).into_iter().map(|answer| answer.unwrap_or_else(Found::Failed)).collect()
}
