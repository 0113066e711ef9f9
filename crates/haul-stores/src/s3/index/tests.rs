use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant, SystemTime};

use haul_core::entry::{Kind, MetaMask, Time};
use haul_core::error::ErrorKind;
use haul_core::hash::xxh128;
use proptest::collection::vec;
use proptest::prelude::*;

use super::block::{Content, Place, Sealer, Sort};
use super::file::{Foot, seed_of};
use super::leaf::{LeafBuilder, Row};
use super::table::put_row;
use super::*;

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
struct Object {
    etag: Vec<u8>,
    size: u64,
    modified: Time,
    known: Known,
}

impl Object {
    fn new(number: u64, round: u64) -> Object {
        let random = drawn(number, round);
        let kind = if random.is_multiple_of(17) { Kind::Link } else { Kind::File };
        let known = Known {
            kind,
            have: MetaMask::MTIME.with(MetaMask::MODE),
            mtime: Time { secs: 1_600_000_000 + (random >> 8) as i64 % 100_000_000, nanos: (random >> 64) as u32 % 1_000_000_000 },
            mode: if random.is_multiple_of(5) { 0o755 } else { 0o644 },
            uid: 1000,
            gid: 1000,
            rdev: 0,
            xattrs: random % 100 == 1,
            target: (kind == Kind::Link).then(|| format!("../to/{number}").into_bytes().into()),
        };
        let modified = Time { secs: 1_720_000_000 + number as i64 / 100, nanos: (random % 1000) as u32 * 1_000_000 };
        Object { etag: format!("\"{random:032x}\"").into_bytes(), size: (random >> 32) as u64 % (1 << 22), modified, known }
    }

    fn learn(&self, index: &Index, key: &[u8]) {
        self.learn_as(index, key, Modified::At(self.modified));
    }

    fn learn_as(&self, index: &Index, key: &[u8], modified: Modified) {
        index.learn(&Learned { key, etag: &self.etag, size: self.size, modified, known: self.known.clone() });
    }

    fn look_up(&self, cursor: &mut Cursor, key: &[u8]) -> Option<Known> {
        cursor.lookup(key, &self.etag, self.size, self.modified)
    }
}

fn open(dir: &tempfile::TempDir) -> Index {
    Index::open(dir.path(), ENDPOINT, "bucket")
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
    let object = Object::new(1, 0);
    object.learn(&index, b"a/b");
    assert!(object.look_up(&mut index.cursor(), b"a/b").is_none());
    assert!(index.flush().unwrap());
    for index in [&index, &open(&dir)] {
        let mut cursor = index.cursor();
        assert_eq!(object.look_up(&mut cursor, b"a/b"), Some(object.known.clone()));
        assert_eq!(object.look_up(&mut cursor, b"a/"), None);
        assert_eq!(object.look_up(&mut cursor, b"a/bc"), None);
        assert_eq!(object.look_up(&mut cursor, b"a/b"), Some(object.known.clone()));
        let Object { etag, size, modified, .. } = &object;
        assert_eq!(cursor.lookup(b"a/b", b"other", *size, *modified), None);
        assert_eq!(cursor.lookup(b"a/b", etag, size + 1, *modified), None);
        assert_eq!(cursor.lookup(b"a/b", etag, *size, Time { nanos: modified.nanos + 1, ..*modified }), None);
    }
}

#[test]
fn nothing_learned_is_nothing_written() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    assert!(!index.flush().unwrap());
    assert!(!index.maybe_flush(Instant::now() + Duration::from_secs(9999)).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn nobody_else_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    Object::new(1, 0).learn(&index, b"a");
    index.flush().unwrap();
    assert_eq!(std::fs::metadata(index.path()).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(index.path().parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(std::fs::read_dir(dir.path().join("objects")).unwrap().count(), 1);
}

#[test]
fn buckets_and_endpoints_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Object::new(1, 0);
    object.learn(&index, b"a");
    index.flush().unwrap();
    for (endpoint, bucket) in [(ENDPOINT, "bucket2"), ("https://s3.example.org:9000", "bucket"), ("https://s3.example.or", "gbucket")] {
        let other = Index::open(dir.path(), endpoint, bucket);
        assert_ne!(other.path(), index.path());
        std::fs::copy(index.path(), other.path()).unwrap();
        let other = Index::open(dir.path(), endpoint, bucket);
        assert_eq!((other.records(), object.look_up(&mut other.cursor(), b"a")), (0, None));
    }
}

#[test]
fn a_time_within_the_window_of_an_upload_is_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Object { modified: at(105), ..Object::new(1, 0) };
    let window = |from, to| Modified::Within { not_before: at(from), not_after: at(to) };
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
fn the_last_that_was_learned_counts() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let objects: Vec<Object> = (0..4).map(|round| Object::new(1, round)).collect();
    for object in &objects {
        object.learn(&index, b"a");
    }
    objects[0].learn(&index, b"b");
    index.forget(b"b");
    index.forget(b"c");
    objects[0].learn(&index, b"c");
    index.flush().unwrap();
    let known = |key| objects.iter().map(|object| object.look_up(&mut index.cursor(), key).is_some()).collect::<Vec<_>>();
    assert_eq!(known(b"a"), [false, false, false, true]);
    assert_eq!(known(b"b"), [false; 4]);
    assert_eq!(known(b"c"), [true, false, false, false]);
    objects[0].learn(&index, b"a");
    index.forget(b"c");
    index.flush().unwrap();
    assert_eq!(known(b"a"), [true, false, false, false]);
    assert_eq!(known(b"c"), [false; 4]);
}

#[test]
fn what_is_no_key_is_not_learned() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Object::new(1, 0);
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
    let index = Index::open_with(dir.path(), ENDPOINT, "bucket", limits);
    let start = Instant::now();
    let learn = |numbers: std::ops::Range<u64>| numbers.for_each(|number| Object::new(number, 0).learn(&index, &key(number)));
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
fn what_cannot_be_written_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("objects"), "no directory").unwrap();
    let index = open(&dir);
    let object = Object::new(1, 0);
    object.learn(&index, b"a");
    object.learn(&index, b"b");
    let error = index.maybe_flush(Instant::now()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Exists | ErrorKind::Other), "{error}");
    assert!(error.to_string().contains("objects"), "{error}");
    object.learn(&index, b"c");
    assert!(!index.maybe_flush(Instant::now()).unwrap() && !index.flush().unwrap());
}

#[test]
fn a_file_that_cannot_be_replaced_stays() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let object = Object::new(1, 0);
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
    let object = Object::new(1, 0);
    object.learn(&index, b"a");
    index.flush().unwrap();
    object.learn(&index, b"b");
    let Pending { sorter, count, .. } = std::mem::take(&mut *locked(&index.0.pending));
    let fresh = index.0.write(sorter.unwrap(), count).unwrap();
    std::mem::forget(fresh);
    let names = || std::fs::read_dir(dir.path().join("objects")).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let left = names().into_iter().find(|path| *path != index.path()).unwrap();

    let after = open(&dir);
    assert!(object.look_up(&mut after.cursor(), b"a").is_some() && object.look_up(&mut after.cursor(), b"b").is_none());
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
            let object = Object::new(*number, 0);
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
                        Object::new(number, 0).learn(&index, &key(number));
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
    let index = Index::open_with(dir.path(), ENDPOINT, "bucket", Limits { memory: 100_000, ..Limits::default() });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for number in (thread..8000).step_by(4) {
                    Object::new(number, 0).learn(index, &key(number));
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
    assert!((0..8000).all(|number| Object::new(number, 0).look_up(&mut cursor, &key(number)).is_some()));
}

/// `count` records: what is held in memory while they are learned, written and looked up.
fn many(count: u64) -> (tempfile::TempDir, Index, [Duration; 3]) {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let mut times = [Duration::ZERO; 3];
    let mut most = 0;
    let start = Instant::now();
    for number in 0..count {
        // Uploads finish in any order.
        let number = number ^ 0x55;
        Object::new(number, 0).learn(&index, &key(number));
        most = most.max(index.memory());
    }
    times[0] = start.elapsed();
    assert!(most <= Limits::default().memory, "{most}");
    let start = Instant::now();
    index.flush().unwrap();
    times[1] = start.elapsed();
    assert!(index.memory() <= 64 << 10, "{}", index.memory());
    let mut cursor = index.cursor();
    for number in 0..count {
        let number = number ^ 0x55;
        let object = Object::new(number, 0);
        let start = (number % 64 == 0).then(Instant::now);
        assert_eq!(object.look_up(&mut cursor, &key(number)), Some(object.known));
        times[2] += start.map_or(Duration::ZERO, |start| start.elapsed());
    }
    assert!(cursor.memory() <= 400 << 10, "{}", cursor.memory());
    assert_eq!(index.records(), count);
    let size = std::fs::metadata(index.path()).unwrap().len();
    assert!(size <= 60 * count, "{size}");
    (dir, index, times)
}

#[test]
fn memory_does_not_grow_with_the_number_of_keys() {
    many(1 << 15);
}

/// The figures of the documentation: `cargo test --release -- --ignored --nocapture a_million`.
#[test]
#[ignore = "takes long without optimisation"]
#[expect(clippy::print_stderr, reason = "for people who measure")]
fn a_million_objects() {
    const MILLION: u64 = 1_000_000 & !0xff;
    let (_dir, index, [learn, flush, _]) = many(MILLION);
    let size = std::fs::metadata(index.path()).unwrap().len();
    eprintln!("learn {learn:?}, flush {flush:?}, {:.1} bytes a record", size as f64 / MILLION as f64);
    eprintln!("root {} bytes, cursor {} bytes", index.memory(), index.cursor().memory());
    let step = 20_000;
    let mut sequential = Duration::ZERO;
    let mut cursor = index.cursor();
    for start in (0..MILLION).step_by(step) {
        let objects: Vec<_> = (start..(start + step as u64).min(MILLION)).map(|number| (key(number), Object::new(number, 0))).collect();
        let begin = Instant::now();
        assert!(objects.iter().all(|(key, object)| object.look_up(&mut cursor, key).is_some()));
        sequential += begin.elapsed();
    }
    eprintln!("in order: {:.0} lookups/s; cursor {} bytes", MILLION as f64 / sequential.as_secs_f64(), cursor.memory());
    let random: Vec<_> = (0..20_000).map(|n| (drawn(n, 9) % u128::from(MILLION)) as u64).map(|n| (key(n), Object::new(n, 0))).collect();
    let begin = Instant::now();
    assert!(random.iter().all(|(key, object)| object.look_up(&mut cursor, key).is_some()));
    eprintln!("at random: {:.0} lookups/s", random.len() as f64 / begin.elapsed().as_secs_f64());
    for count in [1, 1000, 100_000] {
        for number in 0..count {
            let number = number * (MILLION / count);
            Object::new(number, 1).learn(&index, &key(number));
        }
        let begin = Instant::now();
        index.flush().unwrap();
        eprintln!(
            "flush of {count} more: {:?}; {} records, {} bytes",
            begin.elapsed(),
            index.records(),
            std::fs::metadata(index.path()).unwrap().len()
        );
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    eprintln!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

#[test]
fn keys_of_the_longest_length_make_many_branches() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let numbers = 0..3000;
    numbers.clone().for_each(|number| Object::new(number, 0).learn(&index, &long_key(number, KEY_MOST)));
    index.flush().unwrap();
    let mut cursor = index.cursor();
    for number in numbers.clone().chain(numbers.rev().step_by(7)) {
        let object = Object::new(number, 0);
        assert_eq!(object.look_up(&mut cursor, &long_key(number, KEY_MOST)), Some(object.known));
    }
    assert!(cursor.memory() <= 400 << 10, "{}", cursor.memory());
}

#[test]
fn the_file_is_bounded_and_what_is_left_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { file: 400_000, ..Limits::default() };
    let index = Index::open_with(dir.path(), ENDPOINT, "bucket", limits);
    let round = 1000;
    for start in (0..20 * round).step_by(round as usize) {
        for number in (start..start + round).map(|number| number * 7919 % (20 * round)) {
            Object::new(number, 0).learn(&index, &key(number));
        }
        index.flush().unwrap();
        assert!(std::fs::metadata(index.path()).unwrap().len() <= 400_000 * 9 / 8 + 50_000);
        // What is new is never left out.
        let mut cursor = index.cursor();
        for number in (start..start + round).map(|number| number * 7919 % (20 * round)) {
            assert!(Object::new(number, 0).look_up(&mut cursor, &key(number)).is_some());
        }
    }
    let mut cursor = index.cursor();
    let kept = (0..20 * round).filter(|number| Object::new(*number, 0).look_up(&mut cursor, &key(*number)).is_some()).count();
    assert_eq!(kept as u64, index.records());
    assert!(kept >= 6000, "{kept}");
}

#[test]
fn more_than_fits_at_once_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open_with(dir.path(), ENDPOINT, "bucket", Limits { file: 100_000, ..Limits::default() });
    (0..10_000).for_each(|number| Object::new(number, 0).learn(&index, &key(number)));
    index.flush().unwrap();
    assert!(std::fs::metadata(index.path()).unwrap().len() <= 200_000);
    assert!(index.records() >= 1000);
    assert!(Object::new(0, 0).look_up(&mut index.cursor(), &key(0)).is_some());
}

/// A file of some blocks, and what is in it.
fn small_file(dir: &tempfile::TempDir) -> (Index, Vec<(Vec<u8>, Object)>) {
    let index = open(dir);
    let objects: Vec<_> = (0..70).map(|number| (long_key(number, 900), Object::new(number, 0))).collect();
    objects.iter().for_each(|(key, object)| object.learn(&index, key));
    index.flush().unwrap();
    (index, objects)
}

/// How many of the objects are found; what is found must be right.
fn found(index: &Index, objects: &[(Vec<u8>, Object)]) -> usize {
    let mut cursor = index.cursor();
    let known = |(key, object): &&(Vec<u8>, Object)| match object.look_up(&mut cursor, key) {
        Some(known) => known == object.known || panic!("{known:?} is not {object:?}"),
        None => false,
    };
    objects.iter().filter(known).count()
}

#[test]
fn a_damaged_byte_costs_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let objects: Vec<_> = (0..20).map(|number| (key(number), Object::new(number, 0))).collect();
    objects.iter().for_each(|(key, object)| object.learn(&index, key));
    index.flush().unwrap();
    let bytes = std::fs::read(index.path()).unwrap();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(index.path(), &damaged).unwrap();
        let index = open(&dir);
        let expected = if place < file::HEADING.len() { objects.len() } else { 0 };
        assert_eq!(found(&index, &objects), expected, "byte {place}");
        std::fs::write(index.path(), &bytes[..place]).unwrap();
        assert_eq!(open(&dir).records(), 0, "{place} bytes");
    }
}

#[test]
fn a_damaged_leaf_costs_that_leaf_and_the_next_flush_mends_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let (index, objects) = small_file(&dir);
    let mut bytes = std::fs::read(index.path()).unwrap();
    bytes[200] ^= 1;
    std::fs::write(index.path(), &bytes).unwrap();
    let index = open(&dir);
    let left = found(&index, &objects);
    assert!((1..objects.len()).contains(&left), "{left}");
    objects[0].1.learn(&index, &objects[0].0);
    index.flush().unwrap();
    assert_eq!((found(&index, &objects), index.records()), (left + 1, left as u64 + 1));
}

#[test]
fn pipes_links_and_directories_are_no_index() {
    let dir = tempfile::tempdir().unwrap();
    let (index, objects) = small_file(&dir);
    let real = dir.path().join("real");
    std::fs::rename(index.path(), &real).unwrap();
    assert_eq!(found(&open(&dir), &objects), 0);
    std::os::unix::fs::symlink(&real, index.path()).unwrap();
    assert_eq!(found(&open(&dir), &objects), 0);
    std::fs::remove_file(index.path()).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, index.path(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(found(&open(&dir), &objects), 0);
    std::fs::remove_file(index.path()).unwrap();
    std::fs::create_dir(index.path()).unwrap();
    assert_eq!(found(&open(&dir), &objects), 0);
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A file whose checksums are all right.
fn forged(scope: u128, leaf: &Content, branch: &[u8], root: &[u8]) -> Vec<u8> {
    let nonce = 7;
    let mut sealer = Sealer::new(seed_of(scope, nonce)).unwrap();
    let mut file = sealer.seal(Sort::Leaf, 0, &leaf.rows, &leaf.plain).unwrap().to_vec();
    let mut add = |sort, rows: &[u8]| {
        let offset = file.len() as u64;
        let block = sealer.seal(sort, offset, rows, &[]).unwrap();
        file.extend_from_slice(block);
        Place { offset, size: block.len() as u64 }
    };
    add(Sort::Branch, branch);
    let root = add(Sort::Root, root);
    file.extend_from_slice(&Foot { nonce, root, records: u64::MAX }.seal(scope));
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_never_makes_up_a_record(cuts in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), vec(any::<u8>(), 0..40)), 1..4)) {
        let dir = tempfile::tempdir().unwrap();
        let (index, objects) = small_file(&dir);
        let mut bytes = std::fs::read(index.path()).unwrap();
        for (from, to, with) in cuts {
            let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
            bytes.splice(from.min(to)..(from.min(to) + from.max(to) % 50).min(bytes.len()), with);
            if bytes.is_empty() {
                break;
            }
        }
        std::fs::write(index.path(), &bytes).unwrap();
        let index = open(&dir);
        let before = found(&index, &objects);
        Object::new(1000, 0).learn(&index, b"new");
        index.flush().unwrap();
        prop_assert_eq!(found(&index, &objects), before);
    }

    #[test]
    fn forged_files_do_no_harm(
        changes in vec((0..4usize, any::<prop::sample::Index>(), vec(any::<u8>(), 0..6)), 0..6),
        rows in prop_oneof![Just(None), vec(any::<u8>(), 0..300).prop_map(Some)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let index = open(&dir);
        let mut builder = LeafBuilder::default();
        let objects: Vec<_> = (0..20).map(|number| (key(number), Object::new(number, 0))).collect();
        for (key, object) in &objects {
            let details = record::encode(object.size, Modified::At(object.modified), &object.known).unwrap();
            builder.add(Row { key, hash: &record::hash_of(&object.etag), details: &details });
        }
        let mut leaf = builder.content;
        let rows_are_right = rows.is_none();
        if let Some(rows) = rows {
            leaf.rows = rows;
        }
        let size = |sort, content: &Content| Sealer::new(0).unwrap().seal(sort, 0, &content.rows, &content.plain).unwrap().len() as u64;
        let (mut branch, mut root) = (Content::default(), Vec::new());
        let leaf_size = size(Sort::Leaf, &leaf);
        put_row(&mut branch.rows, &key(0), Place { offset: 0, size: leaf_size });
        put_row(&mut branch.rows, &key(50), Place { offset: 0, size: leaf_size });
        put_row(&mut root, &key(0), Place { offset: leaf_size, size: size(Sort::Branch, &branch) });
        put_row(&mut root, &key(40), Place { offset: leaf_size, size: size(Sort::Branch, &branch) });
        let whole = changes.is_empty() && rows_are_right;
        for (which, place, with) in changes {
            let bytes = [&mut leaf.rows, &mut leaf.plain, &mut branch.rows, &mut root].into_iter().nth(which).unwrap();
            let from = place.index(bytes.len() + 1);
            let to = (from + with.len()).min(bytes.len());
            bytes.splice(from..to, with);
        }
        std::fs::create_dir_all(index.path().parent().unwrap()).unwrap();
        std::fs::write(index.path(), forged(index.0.scope, &leaf, &branch.rows, &root)).unwrap();
        let index = open(&dir);
        let mut cursor = index.cursor();
        for (key, object) in objects.iter().chain(objects.iter().rev()) {
            let known = object.look_up(&mut cursor, key);
            prop_assert!(!whole || known.as_ref() == Some(&object.known));
        }
        prop_assert!(cursor.memory() <= 400 << 10);
        Object::new(1000, 0).learn(&index, b"project/new");
        index.flush().unwrap();
        prop_assert!(Object::new(1000, 0).look_up(&mut index.cursor(), b"project/new").is_some());
        prop_assert!(index.records() <= 100);
    }
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
        let open = || Index::open_with(dir.path(), ENDPOINT, "bucket", limits);
        let mut index = open();
        let (mut model, mut pending) = (BTreeMap::new(), BTreeMap::new());
        for (round, step) in steps.into_iter().chain([Step::Flush]).enumerate() {
            let numbers = |start, stride: u64, count: u64| (start..1500).step_by(stride as usize).take(count as usize);
            match step {
                Step::Learn { start, stride, count } => {
                    for number in numbers(start, stride, count) {
                        Object::new(number, round as u64).learn(&index, &long_key(number, 300));
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
            let object = Object::new(number, round.unwrap_or(0));
            let expected = round.map(|_| object.known.clone());
            prop_assert_eq!(object.look_up(&mut cursor, &long_key(number, 300)), expected);
        }
    }
}
