//! Scripted faults.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// Reads give the first `after` bytes of the file, then EIO.
    ReadError {
        /// Bytes that can still be read.
        after: u64,
    },
    /// A write that would go beyond `after` bytes of the file fails with EIO.
    WriteError {
        /// Bytes that can still be written.
        after: u64,
    },
    /// Opening fails with ESTALE. (The kernel asks once more by itself: use `times` of at least 2 to be seen.)
    OpenStale,
    /// Closing a file that was open for writing fails with this error number: NFS's error at close.
    CloseError {
        /// For example `EDQUOT` or `EIO`.
        errno: i32,
    },
    /// A read that nothing is cached of waits this long (or until the unmount) before it goes on as usual. It goes through the page cache,
    /// since there the kernel lets a process be killed that waits for it.
    ReadHang {
        /// How long.
        duration: Duration,
    },
    /// Reads that cover this byte of the file give it with one bit turned.
    CorruptRead {
        /// Offset in the file.
        at: u64,
    },
    /// Changing mode or owner fails with this error number, as on FUSE file systems that cannot.
    SetError {
        /// For example `ENOSYS` or `EIO`.
        errno: i32,
    },
    /// Once `after` bytes were written to the mount since this fault was added, writes fail with ENOSPC.
    NoSpace {
        /// Bytes that still fit, over all matching files.
        after: u64,
    },
}

/// A fault, the names it concerns, and how often it strikes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Strikes files whose name (last component) contains these bytes; empty is all.
    pub name: Vec<u8>,
    /// What goes wrong.
    pub kind: FaultKind,
    /// How often; `u32::MAX` is always.
    pub times: u32,
}

impl Fault {
    /// A fault that strikes every time.
    pub fn always(name: impl Into<Vec<u8>>, kind: FaultKind) -> Fault {
        Fault { name: name.into(), kind, times: u32::MAX }
    }

    /// A fault that strikes once.
    pub fn once(name: impl Into<Vec<u8>>, kind: FaultKind) -> Fault {
        Fault { name: name.into(), kind, times: 1 }
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
    /// Adds a fault.
    pub fn add(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Removes all faults and ends the hangs under way.
    pub fn clear(&self) {
        self.lock().faults.clear();
        self.closing.notify_all();
    }

    /// How often a fault has struck.
    pub fn struck(&self) -> u64 {
        self.lock().struck
    }

    /// Ends the hangs, now and for good.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.closing.notify_all();
    }

    /// Whether reads of this name must reach the file system one by one, without the page cache.
    pub(super) fn on_read(&self, name: &[u8]) -> bool {
        self.lock().faults.iter().any(|f| f.concerns(name) && matches!(f.kind, FaultKind::ReadError { .. } | FaultKind::CorruptRead { .. }))
    }

    /// Waits if a hang is scripted; then how many bytes may be read, or the error number.
    pub(super) fn read(&self, name: &[u8], offset: u64, size: usize) -> Result<usize, i32> {
        let hang = self.take(name, |kind| match kind {
            FaultKind::ReadHang { duration } => Some(*duration),
            _ => None,
        });
        if let Some(duration) = hang {
            self.hang(duration);
        }
        let mut state = self.lock();
        let mut allowed = size as u64;
        for index in 0..state.faults.len() {
            let fault = &state.faults[index];
            if let (true, FaultKind::ReadError { after }) = (fault.concerns(name), &fault.kind) {
                if offset >= *after {
                    state.strike(index);
                    return Err(libc::EIO);
                }
                allowed = allowed.min(after - offset);
            }
        }
        Ok(allowed as usize)
    }

    /// Turns the bits that are scripted in what was read of this name.
    pub(super) fn corrupt(&self, name: &[u8], offset: u64, bytes: &mut [u8]) {
        let mut state = self.lock();
        for index in 0..state.faults.len() {
            let fault = &state.faults[index];
            if let (true, FaultKind::CorruptRead { at }) = (fault.concerns(name), &fault.kind)
                && let Some(byte) = at.checked_sub(offset).and_then(|at| bytes.get_mut(at as usize))
            {
                *byte ^= 1;
                state.strike(index);
            }
        }
    }

    /// Whether a write may go on, or the error number.
    pub(super) fn write(&self, name: &[u8], offset: u64, size: usize) -> Result<(), i32> {
        let mut state = self.lock();
        let end = offset + size as u64;
        for index in 0..state.faults.len() {
            let fault = &mut state.faults[index];
            if !fault.concerns(name) {
                continue;
            }
            match &mut fault.kind {
                FaultKind::WriteError { after } if end > *after => {
                    state.strike(index);
                    return Err(libc::EIO);
                }
                FaultKind::NoSpace { after } if size as u64 > *after => {
                    state.strike(index);
                    return Err(libc::ENOSPC);
                }
                FaultKind::NoSpace { after } => *after -= size as u64,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether an open fails.
    pub(super) fn open(&self, name: &[u8]) -> Result<(), i32> {
        match self.take(name, |kind| (*kind == FaultKind::OpenStale).then_some(libc::ESTALE)) {
            Some(errno) => Err(errno),
            None => Ok(()),
        }
    }

    /// Whether changing mode or owner fails.
    pub(super) fn set(&self, name: &[u8]) -> Result<(), i32> {
        let errno = self.take(name, |kind| match kind {
            FaultKind::SetError { errno } => Some(*errno),
            _ => None,
        });
        errno.map_or(Ok(()), Err)
    }

    /// Whether closing a written file fails.
    pub(super) fn flush(&self, name: &[u8]) -> Result<(), i32> {
        let errno = self.take(name, |kind| match kind {
            FaultKind::CloseError { errno } => Some(*errno),
            _ => None,
        });
        match errno {
            Some(errno) => Err(errno),
            None => Ok(()),
        }
    }

    fn take<T>(&self, name: &[u8], pick: impl Fn(&FaultKind) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        for index in 0..state.faults.len() {
            if !state.faults[index].concerns(name) {
                continue;
            }
            if let Some(picked) = pick(&state.faults[index].kind) {
                state.strike(index);
                return Some(picked);
            }
        }
        None
    }

    fn hang(&self, duration: Duration) {
        let end = Instant::now() + duration;
        let mut state = self.lock();
        while !state.closed && !state.faults.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.closing.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn strike(&mut self, index: usize) {
        self.struck += 1;
        if self.faults[index].times != u32::MAX {
            self.faults[index].times -= 1;
        }
    }
}
