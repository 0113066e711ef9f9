//! Scripted faults.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::lock::lock;
use rustix::io::Errno;

use super::passthrough::Result;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Reads give the first `after` bytes of the file, then EIO.
    ReadError { after: u64 },
    /// Opening fails with ESTALE. (The kernel asks once more by itself: use `times` of at least 2 to be seen.)
    OpenStale,
    /// Closing a file that was open for writing fails with this error number: NFS's error at close.
    CloseError { errno: i32 },
    /// A read that nothing is cached of waits this long (or until the unmount) before it goes on as usual. It goes through the page cache,
    /// since there the kernel lets a process be killed that waits for it.
    ReadHang { duration: Duration },
    /// Reads that cover this byte of the file give it with one bit turned.
    CorruptRead { at: u64 },
    /// Changing mode or owner fails with this error number, as on FUSE file systems that cannot.
    SetError { errno: i32 },
}

/// A fault, the names it concerns, and how often it strikes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Strikes files whose name (last component) contains these bytes; empty is all.
    pub name: Vec<u8>,
    pub kind: FaultKind,
    /// How often; `u32::MAX` is always.
    pub times: u32,
}

impl Fault {
    /// A fault that strikes every time.
    pub fn always(name: impl Into<Vec<u8>>, kind: FaultKind) -> Fault {
        Fault { name: name.into(), kind, times: u32::MAX }
    }

    fn concerns(&self, name: &[u8]) -> bool {
        self.times > 0 && (self.name.is_empty() || name.windows(self.name.len()).any(|part| part == self.name))
    }
}

/// The faults of one mount, shared with the threads that serve it.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
    closing: Condvar,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<Fault>,
    struck: u64,
    closed: bool,
}

impl Faults {
    pub fn add(&self, fault: Fault) {
        lock(&self.state).faults.push(fault);
    }

    /// Removes all faults and ends the hangs under way.
    pub fn clear(&self) {
        lock(&self.state).faults.clear();
        self.closing.notify_all();
    }

    /// How often a fault has struck.
    pub fn struck(&self) -> u64 {
        lock(&self.state).struck
    }

    /// Ends the hangs, now and for good.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.closing.notify_all();
    }

    /// Whether reads of this name must reach the file system one by one, without the page cache.
    pub(super) fn on_read(&self, name: &[u8]) -> bool {
        let is = |kind| matches!(kind, FaultKind::ReadError { .. } | FaultKind::CorruptRead { .. });
        lock(&self.state).faults.iter().any(|fault| fault.concerns(name) && is(fault.kind))
    }

    /// Waits if a hang is scripted; then how many bytes may be read.
    pub(super) fn read(&self, name: &[u8], offset: u64, size: usize) -> Result<usize> {
        let hang = |kind| if let FaultKind::ReadHang { duration } = kind { Some(duration) } else { None };
        if let Some(duration) = self.strike(name, hang) {
            self.hang(duration);
        }
        let over = |kind| matches!(kind, FaultKind::ReadError { after } if offset >= after).then_some(Errno::IO);
        if let Some(error) = self.strike(name, over) {
            return Err(error);
        }
        let left = |fault: &Fault| match fault.kind {
            FaultKind::ReadError { after } if fault.concerns(name) => Some((after - offset) as usize),
            _ => None,
        };
        Ok(lock(&self.state).faults.iter().filter_map(left).fold(size, usize::min))
    }

    /// Turns the bits that are scripted in what was read of this name.
    pub(super) fn corrupt(&self, name: &[u8], offset: u64, bytes: &mut [u8]) {
        let within = offset..offset + bytes.len() as u64;
        let bit = |kind| if let FaultKind::CorruptRead { at } = kind { within.contains(&at).then_some(at) } else { None };
        if let Some(at) = self.strike(name, bit) {
            bytes[(at - offset) as usize] ^= 1;
        }
    }

    pub(super) fn open(&self, name: &[u8]) -> Result<()> {
        self.fail(name, |kind| (kind == FaultKind::OpenStale).then_some(libc::ESTALE))
    }

    /// Changing mode or owner.
    pub(super) fn set(&self, name: &[u8]) -> Result<()> {
        self.fail(name, |kind| if let FaultKind::SetError { errno } = kind { Some(errno) } else { None })
    }

    /// Closing a file that was written.
    pub(super) fn flush(&self, name: &[u8]) -> Result<()> {
        self.fail(name, |kind| if let FaultKind::CloseError { errno } = kind { Some(errno) } else { None })
    }

    fn fail(&self, name: &[u8], pick: impl Fn(FaultKind) -> Option<i32>) -> Result<()> {
        self.strike(name, pick).map_or(Ok(()), |errno| Err(Errno::from_raw_os_error(errno)))
    }

    /// The first fault of this name that `pick` takes, counted.
    fn strike<T>(&self, name: &[u8], pick: impl Fn(FaultKind) -> Option<T>) -> Option<T> {
        let mut state = lock(&self.state);
        let picked = state.faults.iter_mut().filter(|fault| fault.concerns(name)).find_map(|fault| {
            let picked = pick(fault.kind)?;
            fault.times -= u32::from(fault.times != u32::MAX);
            Some(picked)
        });
        state.struck += u64::from(picked.is_some());
        picked
    }

    fn hang(&self, duration: Duration) {
        let end = Instant::now() + duration;
        let mut state = lock(&self.state);
        while !state.closed && !state.faults.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.closing.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
