//! Content that nobody wrote so.

use std::os::unix::fs::PermissionsExt;

use haul_core::varint::put;

use super::*;
use crate::cache::block::{Builder, Row, Sealer};
use crate::cache::file::{self, foot};

/// A file of some blocks, and what is in it.
fn small_file(dir: &tempfile::TempDir) -> (Index, Vec<(Vec<u8>, Sample)>) {
    let index = open(dir);
    let objects: Vec<_> = (0..70).map(|number| (long_key(number, 900), Sample::new(number, 0))).collect();
    objects.iter().for_each(|(key, object)| object.learn(&index, key));
    index.flush().unwrap();
    (index, objects)
}

/// How many of the objects are found; what is found must be right.
fn found(index: &Index, objects: &[(Vec<u8>, Sample)]) -> usize {
    let mut cursor = index.cursor();
    let known = |(key, object): &&(Vec<u8>, Sample)| match object.look_up(&mut cursor, key) {
        Some(known) => known == object.known || panic!("{known:?} is not {object:?}"),
        None => false,
    };
    objects.iter().filter(known).count()
}

#[test]
fn a_damaged_byte_costs_a_block() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let objects: Vec<_> = (0..20).map(|number| (key(number), Sample::new(number, 0))).collect();
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
fn a_damaged_block_costs_that_block_and_the_next_flush_fixes_the_file() {
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
        Sample::new(1000, 0).learn(&index, b"new");
        index.flush().unwrap();
        prop_assert_eq!(found(&index, &objects), before);
    }

    /// Files whose checksums are all right.
    #[test]
    fn forged_files_do_no_harm(
        table in prop_oneof![Just(None), vec(any::<u8>(), 0..40).prop_map(Some)],
        rows in prop_oneof![Just(None), vec(any::<u8>(), 0..300).prop_map(Some)],
        hashes in prop_oneof![Just(None), vec(any::<u8>(), 0..300).prop_map(Some)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let index = open(&dir);
        let mut builder = Builder::default();
        let objects: Vec<_> = (0..20).map(|number| (key(number), Sample::new(number, 0))).collect();
        for (key, object) in &objects {
            let details = record::encode(object.size, Modified::at(object.modified), &object.known).unwrap();
            builder.add(Row { key, hash: &record::hash_of(&object.etag), details: &details });
        }
        let whole = table.is_none() && rows.is_none() && hashes.is_none();
        let mut sealer = Sealer::new(index.0.scope).unwrap();
        let mut bytes = match (rows, hashes) {
            (None, None) => builder.seal(&mut sealer).unwrap().0,
            (rows, hashes) => sealer.seal(&rows.unwrap_or_default(), &hashes.unwrap_or_default()).unwrap(),
        };
        let mut places = Vec::new();
        for first in [key(0), key(50)] {
            put(&mut places, first.len() as u64);
            places.extend_from_slice(&first);
            put(&mut places, 0);
            put(&mut places, bytes.len() as u64);
        }
        let (offset, table) = (bytes.len() as u64, sealer.seal(&table.unwrap_or(places), &[]).unwrap());
        bytes.extend_from_slice(&table);
        bytes.extend_from_slice(&foot(index.0.scope, offset, table.len() as u64, u64::MAX));
        std::fs::create_dir_all(index.path().parent().unwrap()).unwrap();
        std::fs::write(index.path(), bytes).unwrap();
        let index = open(&dir);
        let mut cursor = index.cursor();
        for (key, object) in objects.iter().chain(objects.iter().rev()) {
            let known = object.look_up(&mut cursor, key);
            prop_assert!(!whole || known.as_ref() == Some(&object.known));
        }
        prop_assert!(cursor.memory() <= 400 << 10);
        Sample::new(1000, 0).learn(&index, b"project/new");
        index.flush().unwrap();
        prop_assert!(Sample::new(1000, 0).look_up(&mut index.cursor(), b"project/new").is_some());
        prop_assert!(index.records() <= 100);
    }
}
