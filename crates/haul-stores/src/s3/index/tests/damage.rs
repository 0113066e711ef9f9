//! Content that nobody wrote so.

use std::os::unix::fs::PermissionsExt;

use super::super::block::{Content, Place, Sealer, Sort};
use super::super::file::{self, Foot, seed_of};
use super::super::leaf::{LeafBuilder, Row};
use super::super::record;
use super::super::table::put_row;
use super::*;

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
