//! How long this host has worked, by kind of work and over all threads: any longer wait of the other end is attributed to
//! the network.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_core::bundle::Spent;
use haul_core::store::RemoteWork;

use crate::agent::ops;

/// Nanoseconds since the process began to serve.
#[derive(Debug, Default)]
pub struct Account {
    reading: AtomicU64,
    writing: AtomicU64,
    metadata: AtomicU64,
}

fn add(to: &AtomicU64, time: Duration) {
    to.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

impl Account {
    /// A request was done; `worked` is without what sending the answer took.
    pub fn did(&self, kind: u8, worked: Duration) {
        match kind {
            ops::READ | ops::HASH | ops::DIGEST | ops::SIGNATURE => add(&self.reading, worked),
            ops::WRITE | ops::HOLE | ops::REUSE | ops::PULL | ops::SETTLE => add(&self.writing, worked),
            // They report their parts themselves.
            ops::GET_BUNDLE | ops::PUT_BUNDLE => {}
            // What the session itself needs does not count.
            ops::HELLO | ops::FACTS | ops::WORKED | ops::TLS_LISTEN | ops::TLS_CONNECT | ops::TLS_READER | ops::TLS_LINK_PEER => {}
            _ => add(&self.metadata, worked),
        }
    }

    pub fn moved(&self, spent: &Spent) {
        add(&self.reading, spent.reading);
        add(&self.writing, spent.writing);
        add(&self.metadata, spent.metadata);
    }

    pub fn work(&self) -> RemoteWork {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        RemoteWork {
            reading: time(&self.reading),
            writing: time(&self.writing),
            metadata: time(&self.metadata),
            cpu: cpu.try_into().unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            round_trip: None,
        }
    }
}
