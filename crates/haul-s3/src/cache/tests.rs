use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use haul_core::entry::OwnerNames;
use haul_core::team::wire::{put_all, put_bytes};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use zstd::bulk::Compressor;

use super::block::{Builder, Row, seal};
use super::file::{HEADING, foot};
use super::record::{KEY_MOST, VALUE_MOST};
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
struct Sample {
    etag: String,
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
        Sample { etag: format!("\"{random:032x}\""), size: (random >> 32) as u64 % (1 << 22), modified, known }
    }

    fn value(&self, modified: Modified) -> Vec<u8> {
        [&record::hash_of(self.etag.as_bytes())[..], &record::encode(self.size, modified, &self.known).unwrap()].concat()
    }

    fn learn(&self, cache: &MetadataCache, key: &[u8]) {
        cache.put(key, &self.value(Modified::at(self.modified)));
    }

    fn look_up(&self, cursor: &mut Cursor<'_>, key: &[u8]) -> Option<Known> {
        cursor.lookup(key, &self.etag, self.size, self.modified)
    }
}

fn open(dir: &tempfile::TempDir) -> MetadataCache {
    MetadataCache::open(dir.path(), ENDPOINT, "bucket")
}

fn bounded(dir: &tempfile::TempDir, limits: Limits) -> MetadataCache {
    MetadataCache::bounded(dir.path(), ENDPOINT, "bucket", limits)
}

/// Keys as people have them.
fn key(number: u64) -> Vec<u8> {
    format!("project/data-{:03}/run-{:02}/wrfout_d01_{number:09}.nc", number / 20_000, number / 500 % 40).into_bytes()
}

/// Keys that fill blocks: 16 bytes of each have little in common with others. Some are of the longest length.
fn long_key(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(9) { KEY_MOST } else { 300 };
    let mut key = format!("{number:08}/").into_bytes();
    (0..64).for_each(|piece| key.extend_from_slice(&drawn(number, piece).to_le_bytes()));
    key.truncate(length);
    key
}

/// How many of the objects are found; what is found must be right.
fn found(cache: &MetadataCache, objects: &[(Vec<u8>, Sample)]) -> usize {
    let mut cursor = cache.cursor();
    let known = |(key, object): &&(Vec<u8>, Sample)| match object.look_up(&mut cursor, key) {
        Some(known) => known == object.known || panic!("{known:?} is not {object:?}"),
        None => false,
    };
    objects.iter().filter(known).count()
}

#[test]
fn what_was_learned_is_known_for_that_version_of_that_bucket_only() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&dir);
    cache.forget(b"a");
    cache.flush();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing to forget is nothing written");
    let object = Sample::new(1, 0);
    object.learn(&cache, b"a/b");
    object.learn(&cache, &[b'x'; KEY_MOST + 1]);
    object.learn(&cache, b"");
    assert!(object.look_up(&mut cache.cursor(), b"a/b").is_none());
    cache.flush();
    assert_eq!(cache.records(), 1);
    for cache in [&cache, &open(&dir)] {
        let mut cursor = cache.cursor();
        assert_eq!(object.look_up(&mut cursor, b"a/b"), Some(object.known.clone()));
        assert_eq!((object.look_up(&mut cursor, b"a/"), object.look_up(&mut cursor, b"a/bc")), (None, None));
        let Sample { etag, size, modified, .. } = &object;
        let bare = etag.trim_matches('"');
        assert_eq!(cursor.lookup(b"a/b", bare, *size, *modified), Some(object.known.clone()), "quotes do not make another version");
        assert_eq!(cursor.lookup(b"a/b", &format!("W/{etag}"), *size, *modified), None);
        assert_eq!(cursor.lookup(b"a/b", etag, size + 1, *modified), None);
        assert_eq!(cursor.lookup(b"a/b", etag, *size, Time { nanos: modified.nanos + 1, ..*modified }), None);
    }
    let path = cache.place.path();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    for (endpoint, bucket) in [(ENDPOINT, "bucket2"), ("https://s3.example.org:9000", "bucket"), ("https://s3.example.or", "gbucket")] {
        let other = MetadataCache::open(dir.path(), endpoint, bucket).place.path();
        assert_ne!(other, path);
        std::fs::copy(&path, other).unwrap();
        assert_eq!(MetadataCache::open(dir.path(), endpoint, bucket).records(), 0);
    }
}

#[test]
fn a_time_within_the_window_of_an_upload_is_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&dir);
    let object = Sample { modified: at(105), ..Sample::new(1, 0) };
    let window = |from, to| Modified { not_before: at(from), not_after: at(to) };
    let windows = [
        ("short", window(103, 105), true),
        ("wide", window(100, 200), true),
        ("before", window(50, 104), false),
        ("after", window(106, 110), false),
        ("header", Modified::of_header(105), true),
    ];
    windows.iter().for_each(|(key, modified, _)| cache.put(key.as_bytes(), &object.value(*modified)));
    cache.flush();
    let found = |secs, key: &str| {
        let time = Time { secs, nanos: 999_999_999 * u32::from(key == "header") };
        open(&dir).cursor().lookup(key.as_bytes(), &object.etag, object.size, time).is_some()
    };
    windows.iter().for_each(|(key, _, here)| assert_eq!(found(105, key), *here, "{key}"));
    assert!(found(103, "short") && !found(102, "short") && !found(106, "short") && !found(106, "header"));
    // Only a wide one is narrowed to what was seen, and only after a flush.
    let mut cursor = cache.cursor();
    assert!(object.look_up(&mut cursor, b"short").is_some() && lock(&cache.pending).count == 0);
    assert!(object.look_up(&mut cursor, b"wide").is_some() && found(106, "wide"));
    cache.flush();
    assert!(found(105, "wide") && !found(106, "wide") && found(103, "short"));
}

#[test]
fn a_flush_is_due_when_it_is_much_or_late() {
    let dir = tempfile::tempdir().unwrap();
    let cache = bounded(&dir, Limits { records: 10, after: Duration::from_secs(60), ..LIMITS });
    let start = Instant::now();
    let learn = |numbers: std::ops::Range<u64>| numbers.for_each(|number| Sample::new(number, 0).learn(&cache, &key(number)));
    let due = |secs| {
        cache.flush_if_due(start + Duration::from_secs(secs));
        lock(&cache.pending).count == 0
    };
    learn(0..9);
    assert!(!due(0) && !due(59) && due(60));
    learn(0..9);
    assert!(!due(100));
    learn(9..10);
    assert!(due(100));
    learn(0..100);
    assert!(due(100));
    learn(100..124);
    assert!(!due(100));
    learn(124..125);
    assert!(due(100) && cache.records() == 125);
}

#[test]
fn what_cannot_be_written_is_tried_once_and_the_old_file_stays() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("objects"), "no directory").unwrap();
    let (cache, object) = (open(&dir), Sample::new(1, 0));
    object.learn(&cache, b"a");
    std::fs::remove_file(dir.path().join("objects")).unwrap();
    object.learn(&cache, b"b");
    cache.flush();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);

    let cache = open(&dir);
    object.learn(&cache, b"a");
    cache.flush();
    // A directory stands where the new file is to go.
    let path = cache.place.path();
    std::fs::rename(&path, dir.path().join("kept")).unwrap();
    std::fs::create_dir(&path).unwrap();
    object.learn(&cache, b"b");
    cache.flush();
    assert!(lock(&cache.pending).gave_up && object.look_up(&mut cache.cursor(), b"a").is_some());
    assert_eq!((std::fs::read_dir(path.parent().unwrap()).unwrap().count(), open(&dir).records()), (1, 0));
}

#[test]
fn a_kill_before_the_rename_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, object) = (open(&dir), Sample::new(1, 0));
    object.learn(&cache, b"a");
    cache.flush();
    let names = || std::fs::read_dir(dir.path().join("objects")).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let left = PathBuf::from(format!("{}.new-7", cache.place.path().display()));
    std::fs::write(&left, &std::fs::read(cache.place.path()).unwrap()[..100]).unwrap();

    let after = open(&dir);
    assert!(object.look_up(&mut after.cursor(), b"a").is_some());
    // Somebody may be writing it still.
    object.learn(&after, b"c");
    after.flush();
    assert_eq!(names().len(), 2);
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    std::fs::File::options().write(true).open(&left).unwrap().set_modified(hours_ago).unwrap();
    object.learn(&after, b"d");
    after.flush();
    assert_eq!(names(), [cache.place.path()]);
    assert!([b"a", b"c", b"d"].iter().all(|key| object.look_up(&mut after.cursor(), *key).is_some()));
}

#[test]
fn readers_and_writers_need_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let objects: Vec<_> = (0..900).map(|number| (key(number), Sample::new(number, 0))).collect();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (dir, objects) = (&dir, &objects);
            scope.spawn(move || {
                for part in objects[writer * 300..][..300].chunks(10) {
                    let cache = open(dir);
                    part.iter().for_each(|(key, object)| object.learn(&cache, key));
                    cache.flush();
                    assert!(cache.records() >= 10);
                }
            });
        }
        for _ in 0..50 {
            found(&open(&dir), &objects);
        }
    });
    let left = found(&open(&dir), &objects);
    assert!(left >= 10 && left as u64 == open(&dir).records(), "{left}");
    assert_eq!(std::fs::read_dir(dir.path().join("objects")).unwrap().count(), 1);
}

#[test]
fn the_file_is_small_and_bounded_and_what_is_left_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&dir);
    let count = 1 << 15;
    // Uploads finish in any order.
    let objects: Vec<_> = (0..count).map(|number| (key(number ^ 0x55), Sample::new(number ^ 0x55, 0))).collect();
    objects.iter().for_each(|(key, object)| object.learn(&cache, key));
    cache.flush();
    let size = std::fs::metadata(cache.place.path()).unwrap().len();
    assert!(found(&cache, &objects) == objects.len() && cache.records() == count && size <= 60 * count, "{size}");

    let cache = bounded(&dir, Limits { file: 400_000, ..LIMITS });
    for part in objects[..20_000].chunks(1000) {
        part.iter().for_each(|(key, object)| object.learn(&cache, key));
        cache.flush();
        assert!(std::fs::metadata(cache.place.path()).unwrap().len() <= 400_000 * 9 / 8 + 50_000);
        assert_eq!(found(&cache, part), part.len(), "what is new is never left out");
    }
    let kept = found(&cache, &objects);
    assert!(kept as u64 == cache.records() && kept >= 5000, "{kept}");
}

#[test]
fn a_key_that_is_added_or_gone_moves_no_other_block() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&dir);
    let blocks = || -> BTreeMap<Vec<u8>, u64> {
        lock(&cache.stored).as_ref().unwrap().table.iter().map(|place| (place.first.to_vec(), place.size)).collect()
    };
    let count = 3000;
    (0..count).for_each(|number| Sample::new(number, 0).learn(&cache, &long_key(number * 10)));
    cache.flush();
    let mut before = blocks();
    assert!(before.len() > 20);
    for number in (0..count).step_by(71) {
        match number % 3 {
            0 => cache.forget(&long_key(number * 10)),
            more => Sample::new(number, 1).learn(&cache, &long_key(number * 10 + more - 1)),
        }
        cache.flush();
        let after = blocks();
        let moved = before.iter().filter(|block| after.get(block.0) != Some(block.1)).count();
        assert!(moved <= 2 && after.len() <= before.len() + 1, "{moved} of {}", before.len());
        before = after;
    }
}

#[test]
fn pipes_and_links_are_no_cache() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&dir);
    Sample::new(1, 0).learn(&cache, b"a");
    cache.flush();
    let (path, real) = (cache.place.path(), dir.path().join("real"));
    std::fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert_eq!(open(&dir).records(), 0);
    std::fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(open(&dir).records(), 0);
}

#[test]
fn a_damaged_byte_costs_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(&dir);
    let objects: Vec<_> = (0..20).map(|number| (key(number), Sample::new(number, 0))).collect();
    objects.iter().for_each(|(key, object)| object.learn(&cache, key));
    cache.flush();
    let path = cache.place.path();
    let bytes = std::fs::read(&path).unwrap();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        std::fs::write(&path, &damaged).unwrap();
        assert_eq!(found(&open(&dir), &objects), if place < HEADING.len() { objects.len() } else { 0 }, "byte {place}");
        std::fs::write(&path, &bytes[..place]).unwrap();
        assert_eq!(open(&dir).records(), 0, "{place} bytes");
    }
}

fn time() -> impl Strategy<Value = Time> {
    let secs = prop_oneof![any::<i64>(), 1_699_999_000..1_700_001_000i64, Just(i64::MIN), Just(i64::MAX)];
    (secs, 0..1_000_000_000u32).prop_map(|(secs, nanos)| Time { secs, nanos })
}

prop_compose! {
    fn any_known()(
        kind in 0..8u8, have: u16, mtime in time(), mode: u32, uid: u32, gid: u32, rdev: u64, xattrs: bool,
        target in vec(any::<u8>(), 0..60), user in "[a-z]{0,9}", group in "[a-z]{0,256}",
    ) -> Known {
        let (have, kind) = (MetaMask(have), haul_core::entry::codec::kind_of(kind));
        let owners = OwnerNames::of(user.into_bytes().into(), group.into_bytes().into());
        Known { kind, have, mtime, mode, uid, gid, owners, rdev, xattrs, target: (kind == Kind::Link).then(|| target.into()) }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Objects from `start` on, each `stride`; or the reverse.
    Learn {
        start: u64,
        stride: u64,
        count: u64,
        forget: bool,
    },
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let run = (0..1500u64, 1..40u64, 1..400u64, prop::bool::weighted(0.25));
    prop_oneof![
        4 => run.prop_map(|(start, stride, count, forget)| Step::Learn { start, stride, count, forget }),
        2 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn lookups_equal_a_map(steps in vec(step(), 1..12), order in vec(0..1500u64, 100)) {
        let dir = tempfile::tempdir().unwrap();
        let open = || bounded(&dir, Limits { memory: 30_000, ..LIMITS });
        let mut cache = open();
        let (mut model, mut pending) = (BTreeMap::new(), BTreeMap::new());
        for (round, step) in steps.into_iter().chain([Step::Flush]).enumerate() {
            match step {
                Step::Learn { start, stride, count, forget } => {
                    for number in (start..1500).step_by(stride as usize).take(count as usize) {
                        match forget {
                            true => cache.forget(&long_key(number)),
                            false => Sample::new(number, round as u64).learn(&cache, &long_key(number)),
                        }
                        pending.insert(number, (!forget).then_some(round as u64));
                    }
                }
                Step::Flush => {
                    cache.flush();
                    model.append(&mut pending);
                }
                Step::Reopen => {
                    cache = open();
                    pending.clear();
                }
            }
        }
        model.retain(|_, round| round.is_some());
        prop_assert_eq!(cache.records(), model.len() as u64);
        let mut cursor = cache.cursor();
        for number in order.into_iter().chain(0..1500) {
            let round = model.get(&number).copied().flatten();
            let object = Sample::new(number, round.unwrap_or(0));
            prop_assert_eq!(object.look_up(&mut cursor, &long_key(number)), round.map(|_| object.known.clone()));
        }
    }

    #[test]
    fn details_round_trip(size: u64, not_before in time(), not_after in time(), known in any_known()) {
        let modified = Modified { not_before, not_after };
        let bytes = record::encode(size, modified, &known).unwrap();
        prop_assert!(HASH + bytes.len() <= VALUE_MOST);
        prop_assert!((0..bytes.len()).all(|end| record::decode(&bytes[..end]).is_none()));
        prop_assert_eq!(record::decode(&bytes), Some((size, modified, known)));
    }

    #[test]
    fn damage_never_makes_up_a_record(cuts in vec((any::<Index>(), any::<Index>(), vec(any::<u8>(), 0..40)), 1..4)) {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(&dir);
        let objects: Vec<_> = (0..200).map(|number| (long_key(number), Sample::new(number, 0))).collect();
        objects.iter().for_each(|(key, object)| object.learn(&cache, key));
        cache.flush();
        let mut bytes = std::fs::read(cache.place.path()).unwrap();
        for (from, to, with) in cuts {
            let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
            bytes.splice(from.min(to)..(from.min(to) + from.max(to) % 50).min(bytes.len()), with);
        }
        std::fs::write(cache.place.path(), &bytes).unwrap();
        let cache = open(&dir);
        let before = found(&cache, &objects);
        Sample::new(1000, 0).learn(&cache, b"new");
        cache.flush();
        prop_assert_eq!((found(&cache, &objects), cache.records()), (before, before as u64 + 1));
    }

    /// Files whose checksums are all right.
    #[test]
    fn forged_files_do_no_harm(
        table in prop_oneof![Just(None), vec(any::<u8>(), 0..40).prop_map(Some)],
        rows in prop_oneof![Just(None), vec(any::<u8>(), 0..300).prop_map(Some)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let cache = open(&dir);
        let objects: Vec<_> = (0..20).map(|number| (key(number), Sample::new(number, 0))).collect();
        let mut builder = Builder::default();
        for (key, object) in &objects {
            builder.add(Row { key, value: &object.value(Modified::at(object.modified)) });
        }
        let whole = table.is_none() && rows.is_none();
        let mut compressor = Compressor::new(1).unwrap();
        let mut bytes = seal(&mut compressor, &rows.unwrap_or(builder.rows), cache.scope).unwrap();
        let mut places = Vec::new();
        for first in [key(0), key(50)] {
            put_bytes(&mut places, &first);
            put_all(&mut places, &[0, bytes.len() as u64, 20]);
        }
        let (offset, table) = (bytes.len() as u64, seal(&mut compressor, &table.unwrap_or(places), cache.scope).unwrap());
        bytes.extend_from_slice(&table);
        bytes.extend_from_slice(&foot(cache.scope, offset, table.len() as u64, u64::MAX));
        cache.place.make_dir().unwrap();
        std::fs::write(cache.place.path(), bytes).unwrap();
        let cache = open(&dir);
        prop_assert!(found(&cache, &objects) == objects.len() || !whole);
        Sample::new(1000, 0).learn(&cache, b"project/new");
        cache.flush();
        prop_assert!(Sample::new(1000, 0).look_up(&mut cache.cursor(), b"project/new").is_some());
    }
}
