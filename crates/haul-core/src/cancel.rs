//! The one flag that stops a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Error, ErrorKind, Result};

#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicU8>);

/// Why a run was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Signal,
    Deadline,
    /// Nothing has moved for as long as is allowed.
    Timeout,
    /// A failure of the whole run: disk full, destination gone.
    Failure,
}

impl Cancel {
    /// The first reason stays; `true` if this is it.
    pub fn set(&self, why: Stop) -> bool {
        let code = match why {
            Stop::Signal => 1,
            Stop::Deadline => 2,
            Stop::Failure => 3,
            Stop::Timeout => 4,
        };
        self.0.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub fn why(&self) -> Option<Stop> {
        match self.0.load(Ordering::Relaxed) {
            1 => Some(Stop::Signal),
            2 => Some(Stop::Deadline),
            3 => Some(Stop::Failure),
            4 => Some(Stop::Timeout),
            _ => None,
        }
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::new(ErrorKind::Cancelled, "stop")) } else { Ok(()) }
    }
}
