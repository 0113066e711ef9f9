//! The one policy of retries, for the engine and for stores that repeat requests themselves.
//!
//! One operation (a request to an object store, a call on a store, the transfer of a chunk) is tried at most [`Policy::tries`]
//! times, over all layers between the engine and the wire: a lower layer continues the count of the layer above, and an error
//! that [`Tries`] gave up is exhausted ([`Error::is_exhausted`]), so that no layer above tries again. Reconnecting to a lost
//! link ([`Remedy::Reconnect`]) is counted separately.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::cancel::Cancel;
use crate::error::{Error, Remedy, Result};

/// The longest wait between two tries that a policy chooses by itself.
const WAIT_MOST: Duration = Duration::from_secs(10);
/// The longest that a service may ask for.
pub const ASKED_MOST: Duration = Duration::from_secs(30);

/// How often and how long an operation that failed for a passing reason is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Tries of one operation in all, the first included; at least 1.
    pub tries: u32,
    /// How often a lost link is made again for one call.
    pub reconnects: u32,
    /// No try begins later than this after the first one failed.
    pub within: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { tries: 10, reconnects: 3, within: Duration::from_secs(180) }
    }
}

impl Policy {
    /// `retries`: how often after the first try, where somebody said it.
    pub fn of(retries: Option<u32>) -> Policy {
        let default = Policy::default();
        Policy {
            tries: retries.map_or(default.tries, |retries| retries.saturating_add(1)),
            reconnects: retries.unwrap_or(default.reconnects),
            ..default
        }
    }

    /// The wait after try `failed`, counted from 1: 0.1 to 0.2 s, doubled up to 10 s, and at least what the remedy asks for.
    pub fn wait(self, failed: u32, remedy: Remedy) -> Duration {
        let most = Duration::from_millis(100 << failed.min(8)).min(WAIT_MOST);
        // Some hundred workers must not come back together.
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let own = most.mul_f64(0.5 + f64::from(nanos % 1000) / 2000.0);
        match remedy {
            Remedy::After(asked) => own.max(asked.min(ASKED_MOST)),
            Remedy::Again | Remedy::Reopen if failed == 1 => Duration::ZERO,
            _ => own,
        }
    }
}

/// What is known when something is about to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// The try that has failed, counted from 1.
    pub attempt: u32,
    /// How many there may be.
    pub of: u32,
    /// Until the next one.
    pub wait: Duration,
}

/// Tries of an operation so far, and when the first of them failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    tries: u32,
    since: Option<Instant>,
}

impl Spent {
    /// What `error` cost.
    pub fn on(error: &Error) -> Spent {
        Spent { tries: error.tries(), since: Some(Instant::now()) }
    }
}

type Report = dyn Fn(&Error, Again) + Send + Sync;

/// What holds for the operations of a thread.
#[derive(Clone, Default)]
pub struct Scope {
    policy: Policy,
    spent: Spent,
    cancel: Option<Cancel>,
    report: Option<Arc<Report>>,
}

thread_local! {
    static SCOPE: RefCell<Scope> = RefCell::default();
}

/// Restores what held before.
#[must_use]
pub struct Entered(Scope);

impl Drop for Entered {
    fn drop(&mut self) {
        SCOPE.set(std::mem::take(&mut self.0));
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({:?}, {:?})", self.policy, self.spent)
    }
}

impl Scope {
    /// `report` hears of every try that fails and is made again; `cancel` ends waits.
    pub fn new(policy: Policy, cancel: Cancel, report: impl Fn(&Error, Again) + Send + Sync + 'static) -> Scope {
        Scope { policy, spent: Spent::default(), cancel: Some(cancel), report: Some(Arc::new(report)) }
    }

    /// The one of this thread, for a thread that helps it.
    pub fn current() -> Scope {
        SCOPE.with_borrow(Clone::clone)
    }

    /// Until what comes back is dropped.
    pub fn enter(self) -> Entered {
        Entered(SCOPE.replace(self))
    }
}

/// `Cancelled` if the run that this thread works for is to stop: for what waits long between two calls.
pub fn check() -> Result<()> {
    Scope::current().cancel.map_or(Ok(()), |cancel| cancel.check())
}

/// Operations of this thread count on from here, until what comes back is dropped.
pub fn count_on(spent: Spent) -> Entered {
    Scope { spent, ..Scope::current() }.enter()
}

/// Operations of this thread are tried once from here, until what comes back is dropped: what they ask for is to be had in another way.
pub fn once() -> Entered {
    let scope = Scope::current();
    Scope { policy: Policy { tries: 1, ..scope.policy }, ..scope }.enter()
}

/// The tries of one operation.
#[derive(Debug)]
pub struct Tries {
    scope: Scope,
    /// Here and in layers below; what the layer above had tried before is in the scope.
    tried: u32,
    reconnects: u32,
    since: Option<Instant>,
}

impl Tries {
    pub fn begin() -> Tries {
        let scope = Scope::current();
        Tries { tried: 0, reconnects: 0, since: scope.spent.since, scope }
    }

    /// Failed tries of this operation, without those of layers above.
    pub fn failed(&self) -> u32 {
        self.tried
    }

    /// Makes a try. Layers below count on from it.
    pub fn run<T>(&self, call: impl FnOnce() -> T) -> T {
        let _entered = (self.tried > 0).then(|| count_on(Spent { tries: self.scope.spent.tries + self.tried, since: self.since }));
        call()
    }

    /// When to try again after a failure; the error if there is no further try, exhausted if the bound forbids it.
    pub fn after(&mut self, error: Error) -> Result<(Error, Again)> {
        let policy = self.scope.policy;
        if error.has_advanced() {
            (self.tried, self.reconnects, self.since) = (0, 0, None);
            self.scope.spent = Spent::default();
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if error.remedy() == Remedy::Reconnect {
            self.reconnects += 1;
            let again =
                Again { attempt: self.reconnects, of: policy.reconnects + 1, wait: policy.wait(self.reconnects, Remedy::Reconnect) };
            return if self.reconnects > policy.reconnects { Err(error) } else { Ok((error, again)) };
        }
        self.tried = self.tried.saturating_add(error.tries());
        let stale = error.remedy() == Remedy::Reopen && self.tried > 1;
        if stale || error.remedy() == Remedy::None {
            return Err(error.tried(self.tried));
        }
        let attempt = self.scope.spent.tries.saturating_add(self.tried);
        let wait = policy.wait(attempt, error.remedy());
        let late = since.elapsed() + wait > policy.within;
        if attempt >= policy.tries || late {
            return Err(error.exhausted(attempt, since.elapsed()));
        }
        Ok((error, Again { attempt, of: policy.tries, wait }))
    }

    /// Reports the failure and waits. An error if the run was stopped meanwhile.
    pub fn pause(&self, error: &Error, again: Again) -> Result<()> {
        if let Some(report) = &self.scope.report {
            report(error, again);
        }
        let until = Instant::now() + again.wait;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if let Some(cancel) = &self.scope.cancel {
                cancel.check()?;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        Ok(())
    }

    /// Calls until it succeeds or the policy forbids it.
    pub fn call<T>(mut self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let error = match self.run(&mut call) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if self.scope.cancel.as_ref().is_some_and(Cancel::is_set) {
                return Err(error);
            }
            let (error, again) = self.after(error)?;
            self.pause(&error, again)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;

    use crate::error::ErrorKind;

    use super::*;

    fn passing() -> Error {
        Error::new(ErrorKind::Io, "write").remedy_is(Remedy::Again)
    }

    /// Without waits: what is tested is how often.
    fn scope(tries: u32) -> (Arc<Mutex<Vec<Again>>>, Entered) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let report = seen.clone();
        let policy = Policy { tries, reconnects: 1, ..Policy::default() };
        let scope = Scope::new(policy, Cancel::default(), move |_, again| report.lock().expect("whole").push(again));
        (seen, scope.enter())
    }

    #[test]
    fn layers_share_one_bound() {
        for tries in 1..=3 {
            let (_, _entered) = scope(tries);
            let count = Cell::new(0);
            let request = || -> Result<()> {
                count.set(count.get() + 1);
                Err(passing())
            };
            // Repeated by a layer below, which gives up; the layers above do not begin again.
            let e = Tries::begin().call(|| Tries::begin().call(|| Tries::begin().call(request))).expect_err("it fails");
            assert_eq!((count.get(), e.is_exhausted(), e.remedy()), (tries, true, Remedy::None));
            // A layer below that succeeds at last, and what came of it fails all the same.
            count.set(0);
            let e = Tries::begin().call(|| {
                let mut below = Tries::begin();
                while count.get() % 3 != 2 {
                    let failed = below.run(request);
                    below.after(failed.expect_err("it fails"))?;
                }
                count.set(count.get() + 1);
                Err::<(), Error>(passing().tried(below.failed() + 1))
            });
            assert!(e.expect_err("it fails").is_exhausted());
            assert_eq!(count.get(), tries);
        }
    }

    #[test]
    fn what_an_operation_had_cost_before_counts() {
        let (seen, _entered) = scope(4);
        let _before = count_on(Spent::on(&passing().tried(2)));
        let mut count = 0;
        let e = Tries::begin().call(|| -> Result<()> {
            count += 1;
            Err(passing())
        });
        assert_eq!(count, 2);
        assert!(e.expect_err("it fails").to_string().contains("tried 4 times in"));
        assert_eq!(seen.lock().expect("whole").iter().map(|again| (again.attempt, again.of)).collect::<Vec<_>>(), [(3, 4)]);
    }

    #[test]
    fn time_is_a_bound_too() {
        let policy = Policy { tries: 100, reconnects: 0, within: Duration::from_secs(20) };
        let _entered = Scope::new(policy, Cancel::default(), |_, _| ()).enter();
        let mut tries = Tries::begin();
        let soon = Error::new(ErrorKind::Other, "write").remedy_is(Remedy::After(Duration::from_secs(15)));
        let (soon, again) = tries.after(soon).expect("there is time");
        assert!(again.wait >= Duration::from_secs(15), "{again:?}");
        // It would be too late by then, whatever is asked for.
        assert!(tries.after(soon.remedy_is(Remedy::After(Duration::from_secs(3600)))).expect_err("too late").is_exhausted());
    }

    #[test]
    fn a_link_that_is_made_again_is_counted_by_itself_and_never_exhausted() {
        let (_, _entered) = scope(1);
        let mut count = 0;
        let lost = |count: &mut i32| {
            *count += 1;
            Error::new(ErrorKind::Broken, "read").remedy_is(Remedy::Reconnect)
        };
        let e = Tries::begin().call(|| -> Result<()> { Err(lost(&mut count)) }).expect_err("it fails");
        assert_eq!((count, e.is_exhausted(), e.remedy()), (2, false, Remedy::Reconnect));
    }

    #[test]
    fn progress_begins_the_count_anew() {
        for remedy in [Remedy::Reconnect, Remedy::Again] {
            let (seen, _entered) = scope(2);
            let _before = count_on(Spent::on(&passing()));
            let mut left = 5;
            let done = Tries::begin().call(|| {
                left -= 1;
                let failed = Error::new(ErrorKind::Broken, "write").remedy_is(remedy).advanced(true);
                if left == 0 { Ok(()) } else { Err(failed) }
            });
            assert!(done.is_ok() && left == 0, "{done:?}");
            assert!(seen.lock().expect("whole").iter().all(|again| again.attempt == 1), "{seen:?}");
        }
    }

    #[test]
    fn waits_double_up_to_their_bound_and_are_never_shorter_than_asked_for() {
        let policy = Policy::default();
        for failed in 1..40 {
            let most = Duration::from_millis(100 << failed.min(8)).min(WAIT_MOST);
            let wait = policy.wait(failed, Remedy::After(Duration::ZERO));
            assert!(wait <= most && wait >= most / 2, "{failed}: {wait:?}");
        }
        assert_eq!(policy.wait(1, Remedy::After(Duration::from_secs(3600))), ASKED_MOST);
        assert_eq!(policy.wait(1, Remedy::Again), Duration::ZERO);
    }
}
