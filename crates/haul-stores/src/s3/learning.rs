//! What this store finds out of objects goes into the index, and comes out of it in the next listing.

use std::path::Path;
use std::time::Instant;

use haul_core::entry::{Entry, Kind, MetaMask, Time};

use super::attributes::{self, Kept};
use super::bucket::{Head, Put};
use super::index::{Cursor, Index, Known, Learned, Modified};
use super::wishes::Pair;

/// An object that is younger than this by the service's clock may have been written twice within one second.
const SETTLED: i64 = 2;

/// The index of one bucket, written from time to time and by [`Learning::flush`].
#[derive(Debug)]
pub struct Learning(Index);

impl Learning {
    /// `state` is haul's state directory. What is there and cannot be read is as if it were not.
    pub fn open(state: &Path, endpoint: &str, bucket: &str) -> Learning {
        Learning(Index::open(state, endpoint, bucket))
    }

    pub(super) fn cursor(&self) -> Cursor {
        self.0.cursor()
    }

    /// From an answer to HEAD or GET.
    pub(super) fn saw(&self, key: &[u8], head: &Head, target: Option<&[u8]>) {
        if head.answered.is_none_or(|now| now.secs - head.modified.secs < SETTLED) {
            return;
        }
        self.learn(key, &head.etag, head.size, Modified::of_header(head.modified.secs), &head.kept, target);
    }

    /// From an upload of our own, by the service's times before and after it.
    pub(super) fn wrote(&self, key: &[u8], size: u64, put: &Put, metadata: &[Pair], target: Option<&[u8]>) {
        let (Some(from), Some(until)) = (put.since, put.until) else { return };
        let second = |time: Time, more: i64| Time { secs: time.secs + more, nanos: 0 };
        let modified = Modified::Within { not_before: second(from, -1), not_after: second(until, 1) };
        let kept = attributes::read(metadata.iter().map(|(name, value)| (&**name, value.as_str())));
        self.learn(key, &put.etag, size, modified, &kept, target);
    }

    fn learn(&self, key: &[u8], etag: &str, size: u64, modified: Modified, kept: &Kept, target: Option<&[u8]>) {
        if etag.is_empty() {
            return;
        }
        let mut entry = Entry::bare(haul_core::entry::Name::of(&haul_core::entry::Dir::root()), Kind::File);
        entry.size = size;
        kept.apply(&mut entry);
        if entry.kind == Kind::Link && target.is_none() {
            return;
        }
        let known = Known {
            kind: entry.kind,
            have: entry.have.without(MetaMask::XATTR).without(MetaMask::ACL).without(MetaMask::CONTEXT),
            mtime: entry.mtime,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            owners: entry.owners.clone(),
            rdev: entry.rdev,
            xattrs: entry.xattrs.as_ref().is_some_and(|xattrs| !xattrs.is_empty()),
            target: target.map(Into::into),
        };
        self.0.learn(&Learned { key, etag: etag.as_bytes(), size, modified, known });
        // It costs look-ups the next time that what was learned cannot be written down.
        let _kept = self.0.maybe_flush(Instant::now());
    }

    pub(super) fn forget(&self, key: &[u8]) {
        self.0.forget(key);
    }

    /// Writes down what was learned, at the end of a run. That it cannot be is no failure: it costs look-ups the next time.
    pub fn flush(&self) {
        let _kept = self.0.flush();
    }
}
