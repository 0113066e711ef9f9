//! A store that fails by a table of rules, round any other store.
//!
//! Every method is forwarded by hand and a lint sees to it, so that no method of the store inside is lost
//! behind a default. Without rules it is the store inside, which the conformance suite verifies.
//!
//! ```
//! use haul_core::{ErrorKind, Remedy};
//! use haul_test::memory::Memory;
//! use haul_test::fault::{Fault, Op, Rule, What};
//!
//! let store = Fault::new(Memory::new());
//! store.add(Rule::new(Op::Write, What::Fail(ErrorKind::Io, Remedy::None)).on("d/file").nth(3));
//! store.add(Rule::new(Op::Stat, What::Delay(std::time::Duration::from_millis(4))).always());
//! ```

mod file;
mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::cancel::Cancel;
use haul_core::entry::Name;
use haul_core::lock::lock;
use haul_core::store::Store;
use haul_core::{Error, ErrorKind, Remedy, Result};

macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $word:literal)*) => {
        /// A method of `Store`, `Source` or `Sink`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Op { $($(#[$doc])* $op,)* }

        impl Op {
            pub const ALL: &[Op] = &[$(Op::$op),*];

            fn word(self) -> &'static str {
                match self { $(Op::$op => $word,)* }
            }
        }
    };
}

ops! {
    Stat "stat"
    StatMany "stat"
    List "list"
    /// One entry of a listing, by its own name.
    ListEntry "list"
    Open "open"
    Create "create"
    Attach "attach"
    Abandon "abandon"
    GetBundle "read"
    PutBundle "create"
    MakeDirs "make directory"
    MakeNode "make node"
    MakeHardLink "link"
    SetMeta "set attributes"
    ReadXattrs "read attributes"
    Remove "remove"
    Rename "rename"
    Take "copy"
    Digest "digest"
    Sync "sync"
    Reopen "reopen"
    Space "space"
    Forget "forget"
    /// Reading a source that `open` gave.
    Read "read"
    /// Reading what `reopen` or `reread` gave.
    ReadBack "read"
    Stamp "stat"
    Data "read"
    Xattrs "read attributes"
    Write "write"
    Hole "write"
    Landed "write"
    Reread "reread"
    Commit "commit"
    Abort "abort"
}

/// What goes wrong. In a call that takes many names each name counts as a call, and fails alone.
#[derive(Clone, Debug)]
pub enum What {
    /// The call fails and does nothing; a read or a write first does half of it.
    Fail(ErrorKind, Remedy),
    /// The call does all it should, and its answer is lost.
    FailAfter(ErrorKind, Remedy),
    /// `Fail` with `NoSpace`.
    NoSpace,
    /// `Fail` with `NotFound`, as if someone had removed it.
    Vanish,
    /// The first bit of what is read or written is another. Other calls are not touched.
    FlipBit,
    /// Half of what is read, then an end without an error; half of what is written, then `Io`; a listing ends
    /// after its first entry with `Io`. Other calls are not touched.
    StopShort,
    /// A listing gives the entry twice. Other calls are not touched.
    Twice,
    /// Waits at the gate, then does what it should.
    Hang(Gate),
    /// Takes this much longer. In a call that takes many names, once for all of them.
    Delay(Duration),
    /// Takes this much longer for every name in the call.
    DelayEach(Duration),
}

/// Which calls a rule is for: by default the first one of its operation, whatever the name.
#[derive(Clone, Debug)]
pub struct Rule {
    op: Op,
    what: What,
    path: Option<Vec<u8>>,
    /// Counted from 1 among the calls that match.
    first: u64,
    times: u64,
    seen: u64,
}

impl Rule {
    pub fn new(op: Op, what: What) -> Self {
        Rule { op, what, path: None, first: 1, times: 1, seen: 0 }
    }

    /// Only calls on this full path.
    #[must_use]
    pub fn on(mut self, path: impl AsRef<[u8]>) -> Self {
        self.path = Some(path.as_ref().to_vec());
        self
    }

    /// From the nth matching call on, the first being 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.first = nth;
        self
    }

    /// So many calls instead of one.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    fn fits(&self, op: Op, path: &[u8]) -> bool {
        self.op == op && self.path.as_ref().is_none_or(|wanted| wanted == path)
    }

    /// Paid once for a whole call, not for each of its names.
    fn is_of_the_call(&self) -> bool {
        self.path.is_none() && matches!(self.what, What::Delay(_) | What::Hang(_))
    }
}

/// Where calls hang until a test lets them go on. No wait is longer than the bound.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<Waiting>,
    changed: Condvar,
    bound: Duration,
    cancel: Cancel,
}

#[derive(Debug, Default)]
struct Waiting {
    open: bool,
    /// Calls that reached the gate, those that have passed it included.
    reached: u64,
}

impl Gate {
    /// A hung call fails with `TimedOut` after `bound`, with `Cancelled` once `cancel` is set.
    pub fn new(bound: Duration, cancel: Cancel) -> Self {
        Gate(Arc::new(Inner { state: Mutex::default(), changed: Condvar::new(), bound, cancel }))
    }

    pub fn open(&self) {
        lock(&self.0.state).open = true;
        self.0.changed.notify_all();
    }

    /// Waits until so many calls hang or have hung; false when the bound is reached first.
    pub fn wait_for(&self, calls: u64) -> bool {
        let ended = Instant::now() + self.0.bound;
        let mut state = lock(&self.0.state);
        while state.reached < calls {
            let left = ended.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn pass(&self, op: Op) -> Result<()> {
        /// How late a call may notice that the run was cancelled: a flag cannot wake it.
        const LOOK: Duration = Duration::from_millis(10);
        let ended = Instant::now() + self.0.bound;
        let mut state = lock(&self.0.state);
        state.reached += 1;
        self.0.changed.notify_all();
        while !state.open {
            self.0.cancel.check()?;
            let left = ended.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(ErrorKind::TimedOut, op.word()));
            }
            state = self.0.changed.wait_timeout(state, left.min(LOOK)).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}

/// A store behind a table of rules. Clones share the table and the counts.
#[derive(Clone, Debug)]
pub struct Fault {
    inner: Arc<dyn Store>,
    core: Arc<Core>,
}

#[derive(Debug, Default)]
struct Core {
    rules: Mutex<Vec<Rule>>,
    counts: Mutex<BTreeMap<Op, Count>>,
}

/// What was asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub calls: u64,
    /// Names in those calls.
    pub names: u64,
    /// Calls that were under way at one time, at most.
    pub most_at_once: u64,
    now: u64,
}

impl Fault {
    pub fn new(inner: impl Store + 'static) -> Self {
        Self::round(Arc::new(inner))
    }

    pub fn round(inner: Arc<dyn Store>) -> Self {
        Fault { inner, core: Arc::default() }
    }

    /// A store that takes so much longer for each call.
    pub fn slow(inner: Arc<dyn Store>, delays: &[(Op, Duration)]) -> Self {
        let slow = Self::round(inner);
        for (op, delay) in delays {
            slow.add(Rule::new(*op, What::Delay(*delay)).always());
        }
        slow
    }

    /// Of several rules that fit a call the first one added counts; delays and gates come before it, all of them.
    pub fn add(&self, rule: Rule) {
        lock(&self.core.rules).push(rule);
    }

    pub fn clear(&self) {
        lock(&self.core.rules).clear();
    }

    pub fn count(&self, op: Op) -> Count {
        lock(&self.core.counts).get(&op).copied().unwrap_or_default()
    }

    /// All calls of all operations: a test that nothing is asked any more after a stop compares two of these.
    pub fn calls(&self) -> u64 {
        lock(&self.core.counts).values().map(|count| count.calls).sum()
    }
}

/// A call under way.
struct Under<'a> {
    core: &'a Core,
    op: Op,
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.core.counts).get_mut(&self.op) {
            count.now -= 1;
        }
    }
}

impl Core {
    fn enter(&self, op: Op, names: usize) -> Under<'_> {
        let mut counts = lock(&self.counts);
        let count = counts.entry(op).or_default();
        count.calls += 1;
        count.names += names as u64;
        count.now += 1;
        count.most_at_once = count.most_at_once.max(count.now);
        Under { core: self, op }
    }

    fn is_watched(&self, op: Op) -> bool {
        lock(&self.rules).iter().any(|rule| rule.op == op)
    }

    /// The rule that counts for this call or this name of it, if one does. Delays are slept and gates passed in here.
    fn ask(&self, op: Op, path: &[u8], of_the_call: bool) -> Result<Option<What>> {
        let mut found = None;
        let mut waits = Vec::new();
        for rule in lock(&self.rules).iter_mut() {
            if !rule.fits(op, path) || rule.is_of_the_call() != of_the_call {
                continue;
            }
            rule.seen += 1;
            if rule.seen < rule.first || rule.seen - rule.first >= rule.times {
                continue;
            }
            match &rule.what {
                wait @ (What::Delay(_) | What::DelayEach(_) | What::Hang(_)) => waits.push(wait.clone()),
                what if found.is_none() => found = Some(what.clone()),
                _ => {}
            }
        }
        for wait in waits {
            match wait {
                What::Hang(gate) => gate.pass(op).map_err(|e| e.at(path))?,
                What::Delay(time) | What::DelayEach(time) => std::thread::sleep(time),
                _ => {}
            }
        }
        Ok(found)
    }

    /// One call on one name.
    fn run<T>(&self, op: Op, name: &Name, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let _under = self.enter(op, 1);
        self.ask(op, &name.path(), true)?;
        self.judge(op, name, act)
    }

    /// One name of a call: what comes before it, the act itself, what comes of it.
    fn judge<T>(&self, op: Op, name: &Name, act: impl FnOnce() -> Result<T>) -> Result<T> {
        bent(self.ask(op, &name.path(), false)?, op, name, act)
    }
}

/// What comes of a call on one name under a rule.
fn bent<T>(what: Option<What>, op: Op, name: &Name, act: impl FnOnce() -> Result<T>) -> Result<T> {
    match what {
        None | Some(What::FlipBit | What::StopShort | What::Twice) => act(),
        Some(What::FailAfter(kind, remedy)) => {
            act()?;
            Err(made(op, name, kind, remedy))
        }
        Some(what) => Err(failure(&what, op, name).expect("the rest are failures")),
    }
}

fn made(op: Op, name: &Name, kind: ErrorKind, remedy: Remedy) -> Error {
    Error::new(kind, op.word()).on(name).remedy_is(remedy).because(format!("made to fail: {kind}"))
}

/// The error that a call is to end with, if it is to end with one.
fn failure(what: &What, op: Op, name: &Name) -> Option<Error> {
    match what {
        What::Fail(kind, remedy) | What::FailAfter(kind, remedy) => Some(made(op, name, *kind, *remedy)),
        What::NoSpace => Some(made(op, name, ErrorKind::NoSpace, Remedy::None)),
        What::Vanish => Some(made(op, name, ErrorKind::NotFound, Remedy::None)),
        What::StopShort => Some(made(op, name, ErrorKind::Io, Remedy::None)),
        What::FlipBit | What::Twice | What::Hang(_) | What::Delay(_) | What::DelayEach(_) => None,
    }
}
