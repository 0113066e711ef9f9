use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use haul_core::entry::{Kind, MetaMask, Time};
use haul_core::hash::xxh128;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::cache::record::KEY_MOST;

mod damage;
mod size;

const ENDPOINT: &str = "https://s3.example.org";

fn at(secs: i64) -> Time {
    Time { secs, nanos: 0 }
}

/// Numbers that depend on `number` and `round` only.
fn drawn(number: u64, round: u64) -> u128 {
    xxh128(&[number.to_le_bytes(), round.to_le_bytes()].concat())
}

/// An object as its server and its owner would have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    etag: Vec<u8>,
    size: u64,
    modified: Time,
    known: Known,
}

impl Sample {
    fn new(number: u64, round: u64) -> Sample {
        let random = drawn(number, round);
        let kind = if random.is_multiple_of(17) { Kind::Link } else { Kind::File };
        let known = Known {
            kind,
            have: MetaMask::MTIME.with(MetaMask::MODE),
            mtime: Time { secs: 1_600_000_000 + (random >> 8) as i64 % 100_000_000, nanos: (random >> 64) as u32 % 1_000_000_000 },
            mode: if random.is_multiple_of(5) { 0o755 } else { 0o644 },
            uid: 1000,
            gid: 1000,
            owners: None,
            rdev: 0,
            xattrs: random % 100 == 1,
            target: (kind == Kind::Link).then(|| format!("../to/{number}").into_bytes().into()),
        };
        let modified = Time { secs: 1_720_000_000 + number as i64 / 100, nanos: (random % 1000) as u32 * 1_000_000 };
        Sample { etag: format!("\"{random:032x}\"").into_bytes(), size: (random >> 32) as u64 % (1 << 22), modified, known }
    }

    fn learn(&self, index: &Index, key: &[u8]) {
        self.learn_as(index, key, Modified::at(self.modified));
    }

    fn learn_as(&self, index: &Index, key: &[u8], modified: Modified) {
        index.add(&Object { key, etag: &self.etag, size: self.size, modified, known: self.known.clone() });
    }

    fn look_up(&self, cursor: &mut Cursor, key: &[u8]) -> Option<Known> {
        cursor.lookup(key, &self.etag, self.size, self.modified)
    }
}

fn open(dir: &tempfile::TempDir) -> Index {
    open_with(dir, Limits::default())
}

fn open_with(dir: &tempfile::TempDir, limits: Limits) -> Index {
    Index::open(dir.path(), ENDPOINT, "bucket", limits)
}

impl Index {
    fn path(&self) -> PathBuf {
        self.0.place.path()
    }

    /// Bytes allocated, without those of cursors.
    fn memory(&self) -> usize {
        let pending = lock(&self.0.pending).sorter.as_ref().map_or(0, Sorter::memory);
        pending + lock(&self.0.stored).as_ref().map_or(0, |stored| stored.memory())
    }
}

impl Cursor {
    /// Bytes allocated, without the 100 KB of the decompressor.
    fn memory(&self) -> usize {
        self.at.as_ref().map_or(0, |(_, position)| position.memory())
    }
}

/// Keys as people have them.
fn key(number: u64) -> Vec<u8> {
    format!("project/data-{:03}/run-{:02}/wrfout_d01_{number:09}.nc", number / 20_000, number / 500 % 40).into_bytes()
}

/// Keys that fill blocks: 16 of each other have little in common.
fn long_key(number: u64, length: usize) -> Vec<u8> {
    let mut key = format!("{number:08}/").into_bytes();
    for piece in 0.. {
        key.extend_from_slice(&drawn(number, piece).to_le_bytes());
        if key.len() >= length {
            break;
        }
    }
    key.truncate(length);
    key
}

#[test]
fn what_was_learned_is_known_for_that_version_only() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Sample::new(1, 0);
    object.learn(&index, b"a/b");
    assert!(object.look_up(&mut index.cursor(), b"a/b").is_none());
    assert!(index.flush().unwrap());
    for index in [&index, &open(&dir)] {
        let mut cursor = index.cursor();
        assert_eq!(object.look_up(&mut cursor, b"a/b"), Some(object.known.clone()));
        assert_eq!(object.look_up(&mut cursor, b"a/"), None);
        assert_eq!(object.look_up(&mut cursor, b"a/bc"), None);
        assert_eq!(object.look_up(&mut cursor, b"a/b"), Some(object.known.clone()));
        let Sample { etag, size, modified, .. } = &object;
        assert_eq!(cursor.lookup(b"a/b", b"other", *size, *modified), None);
        assert_eq!(cursor.lookup(b"a/b", etag, size + 1, *modified), None);
        assert_eq!(cursor.lookup(b"a/b", etag, *size, Time { nanos: modified.nanos + 1, ..*modified }), None);
    }
}

#[test]
fn nothing_learned_and_nothing_to_forget_is_nothing_written() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    index.forget(b"a");
    assert!(!index.flush().unwrap());
    assert!(!index.maybe_flush(Instant::now() + Duration::from_secs(9999)).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn nobody_else_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    Sample::new(1, 0).learn(&index, b"a");
    index.flush().unwrap();
    assert_eq!(std::fs::metadata(index.path()).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(index.path().parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(std::fs::read_dir(dir.path().join("objects")).unwrap().count(), 1);
}

#[test]
fn buckets_and_endpoints_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Sample::new(1, 0);
    object.learn(&index, b"a");
    index.flush().unwrap();
    for (endpoint, bucket) in [(ENDPOINT, "bucket2"), ("https://s3.example.org:9000", "bucket"), ("https://s3.example.or", "gbucket")] {
        let other = Index::open(dir.path(), endpoint, bucket, Limits::default());
        assert_ne!(other.path(), index.path());
        std::fs::copy(index.path(), other.path()).unwrap();
        let other = Index::open(dir.path(), endpoint, bucket, Limits::default());
        assert_eq!((other.records(), object.look_up(&mut other.cursor(), b"a")), (0, None));
    }
}

#[test]
fn a_time_within_the_window_of_an_upload_is_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Sample { modified: at(105), ..Sample::new(1, 0) };
    let window = |from, to| Modified { not_before: at(from), not_after: at(to) };
    object.learn_as(&index, b"short", window(103, 105));
    object.learn_as(&index, b"wide", window(100, 200));
    object.learn_as(&index, b"before", window(50, 104));
    object.learn_as(&index, b"after", window(106, 110));
    object.learn_as(&index, b"header", Modified::of_header(105));
    index.flush().unwrap();
    let found = |secs, key: &[u8]| {
        let time = Time { secs, nanos: 999_999_999 * u32::from(key == b"header") };
        open(&dir).cursor().lookup(key, &object.etag, object.size, time).is_some()
    };
    for (key, here) in [("short", true), ("wide", true), ("before", false), ("after", false), ("header", true)] {
        assert_eq!(found(105, key.as_bytes()), here, "{key}");
    }
    assert!(found(103, b"short") && !found(102, b"short") && !found(106, b"short") && !found(106, b"header"));
    // Only a wide one is narrowed to what was seen, and only after a flush.
    let mut cursor = index.cursor();
    assert!(object.look_up(&mut cursor, b"short").is_some());
    assert!(!index.flush().unwrap());
    assert!(object.look_up(&mut cursor, b"wide").is_some() && found(106, b"wide"));
    assert!(index.flush().unwrap());
    assert!(found(105, b"wide") && !found(106, b"wide") && found(103, b"short"));
}

#[test]
fn what_is_no_key_is_not_learned() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Sample::new(1, 0);
    let (longest, too_long) = (vec![0xff; KEY_MOST], vec![0xff; KEY_MOST + 1]);
    for key in [&b""[..], &longest, &too_long, b"\0", b"a//b", b"../x", b"/"] {
        object.learn(&index, key);
    }
    index.flush().unwrap();
    let mut cursor = index.cursor();
    assert!([&b""[..], &too_long].iter().all(|key| object.look_up(&mut cursor, key).is_none()));
    assert!([&longest[..], b"\0", b"a//b", b"../x", b"/"].iter().all(|key| object.look_up(&mut cursor, key).is_some()));
}

#[test]
fn a_flush_is_due_when_it_is_much_or_late() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { records: 10, after: Duration::from_secs(60), ..Limits::default() };
    let index = open_with(&dir, limits);
    let start = Instant::now();
    let learn = |numbers: std::ops::Range<u64>| numbers.for_each(|number| Sample::new(number, 0).learn(&index, &key(number)));
    learn(0..9);
    assert!(!index.maybe_flush(start).unwrap());
    assert!(!index.maybe_flush(start + Duration::from_secs(59)).unwrap());
    assert!(index.maybe_flush(start + Duration::from_secs(60)).unwrap());
    learn(0..9);
    assert!(!index.maybe_flush(start + Duration::from_secs(100)).unwrap());
    learn(9..10);
    assert!(index.maybe_flush(start + Duration::from_secs(100)).unwrap());
    learn(0..100);
    assert!(index.maybe_flush(start + Duration::from_secs(100)).unwrap());
    learn(100..124);
    assert!(!index.maybe_flush(start + Duration::from_secs(100)).unwrap());
    learn(124..125);
    assert!(index.maybe_flush(start + Duration::from_secs(100)).unwrap());
    assert_eq!(index.records(), 125);
}

#[test]
fn what_cannot_be_written_is_tried_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("objects"), "no directory").unwrap();
    let index = open(&dir);
    Sample::new(1, 0).learn(&index, b"a");
    std::fs::remove_file(dir.path().join("objects")).unwrap();
    Sample::new(2, 0).learn(&index, b"b");
    assert!(!index.flush().unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_cannot_be_replaced_stays() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Sample::new(1, 0);
    object.learn(&index, b"a");
    index.flush().unwrap();
    // A directory stands where the new file is to go.
    let path = index.path();
    std::fs::rename(&path, dir.path().join("kept")).unwrap();
    std::fs::create_dir(&path).unwrap();
    object.learn(&index, b"b");
    index.flush().unwrap_err();
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert!(object.look_up(&mut index.cursor(), b"a").is_some());
    assert_eq!(open(&dir).records(), 0);
}

#[test]
fn a_kill_before_the_rename_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Sample::new(1, 0);
    object.learn(&index, b"a");
    index.flush().unwrap();
    let names = || std::fs::read_dir(dir.path().join("objects")).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let left = PathBuf::from(format!("{}.new-7", index.path().display()));
    std::fs::write(&left, &std::fs::read(index.path()).unwrap()[..100]).unwrap();

    let after = open(&dir);
    assert!(object.look_up(&mut after.cursor(), b"a").is_some());
    // Somebody may be writing it still.
    object.learn(&after, b"c");
    after.flush().unwrap();
    assert_eq!(names().len(), 2);
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    std::fs::File::options().write(true).open(&left).unwrap().set_modified(hours_ago).unwrap();
    object.learn(&after, b"d");
    after.flush().unwrap();
    assert_eq!(names(), [index.path()]);
    assert!([b"a", b"c", b"d"].iter().all(|key| object.look_up(&mut after.cursor(), *key).is_some()));
}

#[test]
fn readers_and_writers_need_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let count = 300;
    let look_up_all = |index: &Index| {
        let mut cursor = index.cursor();
        let known = |number: &u64| {
            let object = Sample::new(*number, 0);
            object.look_up(&mut cursor, &key(*number)).inspect(|known| assert_eq!(*known, object.known)).is_some()
        };
        (0..3 * count).filter(known).count()
    };
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let dir = &dir;
            scope.spawn(move || {
                for number in (0..count).filter(|number| number % 10 == 0) {
                    let index = open(dir);
                    (number..number + 10).map(|number| number * 3 + writer).for_each(|number| {
                        Sample::new(number, 0).learn(&index, &key(number));
                    });
                    assert!(index.flush().unwrap());
                    assert!(index.records() >= 10);
                }
            });
        }
        for _ in 0..50 {
            look_up_all(&open(&dir));
        }
    });
    let left = look_up_all(&open(&dir));
    assert!(left >= 10 && left as u64 == open(&dir).records(), "{left}");
    assert_eq!(std::fs::read_dir(dir.path().join("objects")).unwrap().count(), 1);
}

#[test]
fn threads_learn_into_one_index() {
    let dir = tempfile::tempdir().unwrap();
    let index = open_with(&dir, Limits { memory: 100_000, ..Limits::default() });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for number in (thread..8000).step_by(4) {
                    Sample::new(number, 0).learn(index, &key(number));
                    if number % 1000 == thread {
                        index.flush().unwrap();
                    }
                }
            });
        }
    });
    index.flush().unwrap();
    assert_eq!(index.records(), 8000);
    let mut cursor = index.cursor();
    assert!((0..8000).all(|number| Sample::new(number, 0).look_up(&mut cursor, &key(number)).is_some()));
}

#[derive(Clone, Debug)]
enum Step {
    /// Objects from `start` on, each `stride`.
    Learn {
        start: u64,
        stride: u64,
        count: u64,
    },
    Forget {
        start: u64,
        stride: u64,
        count: u64,
    },
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let run = || (0..1500u64, 1..40u64, 1..400u64);
    prop_oneof![
        3 => run().prop_map(|(start, stride, count)| Step::Learn { start, stride, count }),
        1 => run().prop_map(|(start, stride, count)| Step::Forget { start, stride, count }),
        2 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lookups_equal_a_map(steps in vec(step(), 1..12), order in vec(0..1500u64, 100)) {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { memory: 30_000, ..Limits::default() };
        let open = || open_with(&dir, limits);
        let mut index = open();
        let (mut model, mut pending) = (BTreeMap::new(), BTreeMap::new());
        for (round, step) in steps.into_iter().chain([Step::Flush]).enumerate() {
            let numbers = |start, stride: u64, count: u64| (start..1500).step_by(stride as usize).take(count as usize);
            match step {
                Step::Learn { start, stride, count } => {
                    for number in numbers(start, stride, count) {
                        Sample::new(number, round as u64).learn(&index, &long_key(number, 300));
                        pending.insert(number, Some(round as u64));
                    }
                }
                Step::Forget { start, stride, count } => {
                    for number in numbers(start, stride, count) {
                        index.forget(&long_key(number, 300));
                        pending.insert(number, None);
                    }
                }
                Step::Flush => {
                    index.flush().unwrap();
                    model.append(&mut pending);
                }
                Step::Reopen => {
                    index = open();
                    pending.clear();
                }
            }
        }
        model.retain(|_, round| round.is_some());
        prop_assert_eq!(index.records(), model.len() as u64);
        let mut cursor = index.cursor();
        for number in order.into_iter().chain(0..1500) {
            let round = model.get(&number).copied().flatten();
            let object = Sample::new(number, round.unwrap_or(0));
            let expected = round.map(|_| object.known.clone());
            prop_assert_eq!(object.look_up(&mut cursor, &long_key(number, 300)), expected);
        }
    }
}
