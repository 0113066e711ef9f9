//! Bounds.

use std::collections::BTreeSet;

use super::*;

#[test]
fn memory_does_not_grow_with_the_number_of_keys() {
    let count: u64 = 1 << 15;
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let mut most = 0;
    for number in 0..count {
        // Uploads finish in any order.
        let number = number ^ 0x55;
        Sample::new(number, 0).learn(&index, &key(number));
        most = most.max(index.memory());
    }
    assert!(most <= Limits::default().memory, "{most}");
    index.flush().unwrap();
    assert!(index.memory() <= 64 << 10, "{}", index.memory());
    let mut cursor = index.cursor();
    for number in 0..count {
        let number = number ^ 0x55;
        let object = Sample::new(number, 0);
        assert_eq!(object.look_up(&mut cursor, &key(number)), Some(object.known));
    }
    assert!(cursor.memory() <= 400 << 10, "{}", cursor.memory());
    assert_eq!(index.records(), count);
    let size = std::fs::metadata(index.path()).unwrap().len();
    assert!(size <= 60 * count, "{size}");
}

#[test]
fn keys_of_the_longest_length_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let numbers = 0..3000;
    numbers.clone().for_each(|number| Sample::new(number, 0).learn(&index, &long_key(number, KEY_MOST)));
    index.flush().unwrap();
    let mut cursor = index.cursor();
    for number in numbers.clone().chain(numbers.rev().step_by(7)) {
        let object = Sample::new(number, 0);
        assert_eq!(object.look_up(&mut cursor, &long_key(number, KEY_MOST)), Some(object.known));
    }
    assert!(cursor.memory() <= 400 << 10, "{}", cursor.memory());
}

#[test]
fn the_file_is_bounded_and_what_is_left_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { file: 400_000, ..Limits::default() };
    let index = open_with(&dir, limits);
    let round = 1000;
    for start in (0..20 * round).step_by(round as usize) {
        for number in (start..start + round).map(|number| number * 7919 % (20 * round)) {
            Sample::new(number, 0).learn(&index, &key(number));
        }
        index.flush().unwrap();
        assert!(std::fs::metadata(index.path()).unwrap().len() <= 400_000 * 9 / 8 + 50_000);
        // What is new is never left out.
        let mut cursor = index.cursor();
        let new: BTreeSet<u64> = (start..start + round).map(|number| number * 7919 % (20 * round)).collect();
        for number in new {
            assert!(Sample::new(number, 0).look_up(&mut cursor, &key(number)).is_some());
        }
    }
    let mut cursor = index.cursor();
    let kept = (0..20 * round).filter(|number| Sample::new(*number, 0).look_up(&mut cursor, &key(*number)).is_some()).count();
    assert_eq!(kept as u64, index.records());
    assert!(kept >= 6000, "{kept}");
}

#[test]
fn more_than_fits_at_once_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let index = open_with(&dir, Limits { file: 100_000, ..Limits::default() });
    (0..10_000).for_each(|number| Sample::new(number, 0).learn(&index, &key(number)));
    index.flush().unwrap();
    assert!(std::fs::metadata(index.path()).unwrap().len() <= 200_000);
    assert!(index.records() >= 1000);
    assert!(Sample::new(0, 0).look_up(&mut index.cursor(), &key(0)).is_some());
}

/// The first key and the bytes of each block.
fn blocks(index: &Index) -> BTreeMap<Vec<u8>, u64> {
    lock(&index.0.stored).as_ref().unwrap().table.iter().map(|place| (place.first.to_vec(), place.size)).collect()
}

#[test]
fn a_key_that_is_added_or_gone_moves_no_other_block() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let count = 3000;
    (0..count).for_each(|number| Sample::new(number, 0).learn(&index, &long_key(number * 10, 300)));
    index.flush().unwrap();
    let mut before = blocks(&index);
    assert!(before.len() > 20);
    for number in (0..count).step_by(71) {
        match number % 3 {
            0 => index.forget(&long_key(number * 10, 300)),
            more => Sample::new(number, 1).learn(&index, &long_key(number * 10 + more - 1, 300)),
        }
        index.flush().unwrap();
        let after = blocks(&index);
        let moved = before.iter().filter(|block| after.get(block.0) != Some(block.1)).count();
        assert!(moved <= 2 && after.len() <= before.len() + 1, "{moved} of {}", before.len());
        before = after;
    }
}

#[test]
fn many_small_flushes_leave_no_small_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(&dir);
    let count = 3000;
    for start in 0..40 {
        (start..count).step_by(40).for_each(|number| Sample::new(number, 0).learn(&index, &long_key(number * 7919 % count, 300)));
        index.flush().unwrap();
    }
    assert_eq!(index.records(), count);
    let blocks = blocks(&index);
    let small = blocks.values().filter(|size| **size < 16 << 10).count();
    assert!(small <= blocks.len() / 4 + 1, "{small} of {}", blocks.len());
    let mut cursor = index.cursor();
    for number in 0..count {
        let object = Sample::new(number, 0);
        assert_eq!(object.look_up(&mut cursor, &long_key(number * 7919 % count, 300)), Some(object.known));
    }
}
