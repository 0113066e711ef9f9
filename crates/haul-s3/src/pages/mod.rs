//! Pages of flat listings, kept for the directories that are listed next.
//!
//! A page has all keys from its start to its end, whatever slashes are in them, so one request serves many small directories. Pages
//! beyond some in memory are in an unlinked file; those beyond the file's bound are requested again. A directory that was written
//! to since is listed anew.

mod ahead;
mod page;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::hash::xxh128;
use haul_core::lock::lock;

pub(super) use ahead::{Pager, Step, halved};
pub(super) use page::{Page, after_all, behind};

/// Encoded pages in memory, bytes.
const MEMORY: usize = 8 << 20;
/// Bytes of the file: some four million keys.
const FILE_MOST: u64 = 512 << 20;
/// Decoded pages that are held: directories that follow each other are in the same page.
const DECODED: usize = 8;
/// Bits for directories that were written to: two that share one cost a request.
const TOUCHED_BITS: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Pages {
    dir: PathBuf,
    known: Mutex<Known>,
    touched: Box<[AtomicU64]>,
}

#[derive(Debug, Default)]
struct Known {
    /// By the first key that a page could have.
    pages: BTreeMap<Vec<u8>, Kept>,
    memory: usize,
    file: Option<File>,
    file_end: u64,
    /// Places in the file that no page needs any more.
    free: Vec<(u64, usize)>,
    decoded: VecDeque<Arc<Page>>,
}

#[derive(Debug)]
struct Kept {
    until: Vec<u8>,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    File { at: u64, size: usize },
}

impl Pages {
    /// `dir` is where the file goes, should there be one.
    pub fn new(dir: PathBuf) -> Pages {
        let touched = (0..TOUCHED_BITS / 64).map(|_| AtomicU64::new(0)).collect();
        Pages { dir, known: Mutex::default(), touched }
    }

    /// The page that has this position.
    pub fn covering(&self, position: &[u8]) -> Option<Arc<Page>> {
        let mut known = lock(&self.known);
        if let Some(page) = known.decoded.iter().find(|page| page.covers(position)) {
            return Some(page.clone());
        }
        let (start, kept) = known.pages.range::<[u8], _>((Bound::Unbounded, Bound::Included(position))).next_back()?;
        if kept.until[..] <= *position {
            return None;
        }
        let page = match &kept.bytes {
            Bytes::Memory(bytes) => Page::decode(start, &kept.until, bytes),
            Bytes::File { at, size } => {
                let mut bytes = vec![0; *size];
                known.file.as_ref()?.read_exact_at(&mut bytes, *at).ok()?;
                Page::decode(start, &kept.until, &bytes)
            }
        };
        let page = Arc::new(page?);
        known.hold(page.clone());
        Some(page)
    }

    pub fn keep(&self, page: &Arc<Page>) {
        let bytes = page.encode();
        let mut known = lock(&self.known);
        known.hold(page.clone());
        let bytes = if known.memory + bytes.len() <= MEMORY {
            known.memory += bytes.len();
            Bytes::Memory(bytes)
        } else {
            // Without room for it, it is requested again.
            match self.write(&mut known, &bytes) {
                Ok(Some(at)) => Bytes::File { at, size: bytes.len() },
                Ok(None) | Err(_) => return,
            }
        };
        known.pages.insert(page.start.clone(), Kept { until: page.until.clone(), bytes });
    }

    /// Pages before a position are not wanted again.
    pub fn forget_before(&self, position: &[u8]) {
        let mut known = lock(&self.known);
        while let Some(first) = known.pages.first_entry().filter(|first| first.get().until[..] <= *position) {
            match first.remove().bytes {
                Bytes::Memory(bytes) => known.memory -= bytes.len(),
                Bytes::File { at, size } => known.free.push((at, size)),
            }
        }
    }

    fn write(&self, known: &mut Known, bytes: &[u8]) -> io::Result<Option<u64>> {
        let reused = known.free.iter().position(|(_, size)| *size >= bytes.len()).map(|i| known.free.swap_remove(i).0);
        let at = reused.unwrap_or(known.file_end);
        if at + bytes.len() as u64 > FILE_MOST {
            return Ok(None);
        }
        let file = match &mut known.file {
            Some(file) => file,
            none => {
                let path = self.dir.join(format!(".haul-pages-{:016x}", super::state_file::random()));
                let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
                std::fs::remove_file(&path)?;
                none.insert(file)
            }
        };
        file.write_all_at(bytes, at)?;
        known.file_end = known.file_end.max(at + bytes.len() as u64);
        Ok(Some(at))
    }

    /// A key was written or removed: what was listed of the directories above it is old.
    pub fn touch(&self, key: &[u8]) {
        let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for end in std::iter::once(0).chain(slashes.map(|(at, _)| at + 1)) {
            let (word, bit) = self.bit(&key[..end]);
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether anything below a prefix was written since the first listing.
    pub fn is_touched(&self, prefix: &[u8]) -> bool {
        let (word, bit) = self.bit(prefix);
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn bit(&self, prefix: &[u8]) -> (&AtomicU64, u64) {
        let number = (xxh128(prefix) % u128::from(TOUCHED_BITS)) as usize;
        (&self.touched[number / 64], 1 << (number % 64))
    }
}

impl Known {
    fn hold(&mut self, page: Arc<Page>) {
        if self.decoded.len() >= DECODED {
            self.decoded.pop_front();
        }
        self.decoded.push_back(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Object;

    fn page(start: &str, keys: std::ops::Range<u32>) -> Arc<Page> {
        let listed = |i: u32| Object {
            key: format!("d/{i:06}").into(),
            size: u64::from(i),
            etag: format!("\"{i:032}\""),
            modified: Some(haul_core::entry::Time { secs: 1_700_000_000, nanos: i }),
            class: ["", "STANDARD", "GLACIER"][i as usize % 3].into(),
            details: i.is_multiple_of(2).then(|| vec![7; 30].into()),
        };
        let objects: Vec<Object> = keys.map(listed).collect();
        let until = behind(&objects.last().expect("there are some").key);
        Arc::new(Page { start: start.into(), until, objects, token: None })
    }

    #[test]
    fn pages_come_back_from_memory_and_the_file_and_those_before_make_room_for_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let pages = Pages::new(dir.path().into());
        let (mut start, mut ends) = (String::from("d/"), Vec::new());
        for i in 0..900 {
            let page = page(&start, i * 1000..(i + 1) * 1000);
            pages.keep(&page);
            ends.push(page.until.clone());
            start = String::from_utf8(page.until.clone()).expect("text");
            if i >= 300 {
                pages.forget_before(&ends[i as usize - 300]);
            }
        }
        let known = lock(&pages.known);
        let kept: usize = known.pages.values().map(|kept| if let Bytes::File { size, .. } = &kept.bytes { *size } else { 0 }).sum();
        assert!(known.pages.len() == 300 && known.memory <= MEMORY, "{} {}", known.pages.len(), known.memory);
        assert!(known.file_end > 0 && known.file_end < 2 * kept as u64 + MEMORY as u64, "{} {kept}", known.file_end);
        drop(known);
        for i in (600_000..900_000).step_by(7777) {
            let key = format!("d/{i:06}");
            let page = pages.covering(key.as_bytes()).expect("it is kept");
            let object = &page.objects[page.at(key.as_bytes())];
            assert_eq!((object.size, object.modified.unwrap_or_default().nanos, object.details.is_some()), (i, i as u32, i % 2 == 0));
            assert_eq!((&object.key[..], &object.etag[..]), (key.as_bytes(), &format!("\"{i:032}\"")[..]));
            assert_eq!(object.class, ["", "STANDARD", "GLACIER"][i as usize % 3]);
        }
        assert!([&b"d/100000"[..], b"d/900000", b"c"].iter().all(|key| pages.covering(key).is_none()));
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "the file has no name");
    }

    #[test]
    fn what_is_written_makes_the_directories_above_old() {
        let pages = Pages::new(std::env::temp_dir());
        pages.touch(b"a/b/c");
        assert!([&b""[..], b"a/", b"a/b/"].iter().all(|prefix| pages.is_touched(prefix)));
        assert!(![&b"b/"[..], b"a/c/", b"a/b/c/"].iter().any(|prefix| pages.is_touched(prefix)));
    }
}
