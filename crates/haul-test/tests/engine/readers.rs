//! How many workers one file has: as many as gain at its ends.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haul_core::entry::{Dir, Entry, MetaMask, Name, Stamp};
use haul_core::error::Result;
use haul_core::store::{Caps, Flow, Place, Source, Store};
use haul_test::memory::Memory;

use crate::support::{Run, content, job};

/// Counts the reads that are under way.
#[derive(Debug)]
struct Counting {
    inner: Memory,
    reads: Arc<Reads>,
}

#[derive(Debug, Default)]
struct Reads {
    now: AtomicU32,
    most: AtomicU32,
}

impl Store for Counting {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn place(&self) -> &Place {
        self.inner.place()
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        self.inner.stat(name, want)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.inner.list(dir, each)
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        Ok(Box::new(Counted { inner: self.inner.open(entry, follow)?, reads: self.reads.clone() }))
    }
}

struct Counted {
    inner: Box<dyn Source>,
    reads: Arc<Reads>,
}

impl Source for Counted {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        let now = self.reads.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.reads.most.fetch_max(now, Ordering::SeqCst);
        // Whoever else may read begins meanwhile.
        std::thread::sleep(Duration::from_millis(20));
        self.reads.now.fetch_sub(1, Ordering::SeqCst);
        self.inner.read(at)
    }

    fn stamp(&self) -> Result<Stamp> {
        self.inner.stamp()
    }
}

#[test]
fn a_file_has_no_more_workers_than_gain() {
    for (readers, writers, asked, expected) in
        [(1, 1, None, 1), (3, 1, None, 3), (1, 2, None, 2), (5, 2, None, 2), (3, 1, Some(2), 2), (1, 1, Some(4), 1)]
    {
        let inner = Memory::new().with(|caps| caps.tuning.readers_per_file = readers);
        inner.put("huge", content("huge", 0, 3 << 20));
        let reads = Arc::new(Reads::default());
        let target = Memory::new().with(|caps| caps.tuning.writers_per_file = writers);
        let mut copy = job(Arc::new(Counting { inner, reads: reads.clone() }), Arc::new(target));
        copy.writers = asked;
        let report = Run { workers: 12, processors: 1000, ..Run::default() }.go(copy).0;
        assert_eq!((report.made.files, report.failed), (1, 0));
        let most = reads.most.load(Ordering::SeqCst);
        assert!(most >= 1 && most <= expected, "{most} of {expected} with {readers} readers, {writers} writers, {asked:?}");
    }
}
