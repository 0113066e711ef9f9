//! A source that is another one when the run goes on.

use std::fs;
use std::path::Path;

use haul_test::compare::What;

use crate::support::{CHUNK_WORDS, Place, number, staging, versioned};

const SIZE: usize = 700 << 10;

/// Killed in the middle of the file, then `change`d, then run again.
fn changed(record: u64, change: impl Fn(&Path)) {
    let place = Place::new();
    place.tree("src: other=3K old: x/");
    fs::write(place.join("src/file"), versioned(b'1', SIZE)).expect("written");
    let command = format!("cp --json -j 1 --chunk-size {CHUNK_WORDS} src/ dst");
    assert!(place.haul(&command).kill_at(record).run().was_killed());
    assert_eq!(staging(&place.join("dst")).len(), 1, "killed in the middle");
    change(&place.join("src/file"));
    let again = place.haul(&command).run().code(0);
    assert_eq!(number(&again.finished(), "resumed_bytes"), 0, "{again}");
    place.assert_done("src", "dst", What::USUAL, "after a change");
}

/// Records: intent and placed of the small file, opened, landed...
#[test]
fn the_same_size_and_another_content() {
    for record in 4..12 {
        changed(record, |file| fs::write(file, versioned(b'2', SIZE)).expect("written"));
    }
}

#[test]
fn another_file_with_the_same_size_and_time() {
    changed(7, |file| {
        let time = fs::metadata(file).and_then(|m| m.modified()).expect("it is there");
        let beside = file.with_extension("new");
        fs::write(&beside, versioned(b'2', SIZE)).expect("written");
        fs::File::options().write(true).open(&beside).and_then(|f| f.set_modified(time)).expect("set");
        fs::rename(&beside, file).expect("renamed");
    });
}

#[test]
fn longer_shorter_small_empty_and_gone() {
    for size in [SIZE + (100 << 10), SIZE - (200 << 10), 2 << 10, 0] {
        changed(7, |file| fs::write(file, versioned(b'2', size)).expect("written"));
    }
    changed(7, |file| fs::remove_file(file).expect("removed"));
    changed(7, |file| {
        fs::remove_file(file).expect("removed");
        fs::create_dir(file).expect("made");
    });
}

#[test]
fn small_files_of_a_bundle_that_was_killed() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        fs::create_dir_all(place.join("src")).expect("made");
        fs::create_dir_all(place.join("dst")).expect("made");
        fs::write(place.join("src").join(name), versioned(b'1', 3000)).expect("written");
    }
    fs::write(place.join("dst/b"), versioned(b'0', 2000)).expect("written");
    let command = "cp -j 1 src/ dst";
    let mut kills = 0;
    for record in 1..8 {
        for name in ["a", "b", "c"] {
            fs::write(place.join("src").join(name), versioned(b'1' + record as u8, 3000)).expect("written");
        }
        kills += u64::from(place.haul(command).kill_at(record).run().was_killed());
    }
    assert!(kills > 0);
    place.haul(command).run().code(0);
    place.assert_done("src", "dst", What::USUAL, "after changes");
}

/// Staging names are the same for every run of one version: a run without a journal begins anew under the same
/// name, and the receipts of the older journal must not count for it.
#[test]
fn a_staging_file_that_is_not_the_one_of_the_journal() {
    let place = Place::new();
    place.tree("src: file=700K");
    let command = format!("cp --json -j 1 --chunk-size {CHUNK_WORDS} src/ dst");
    assert!(place.haul(&command).kill_at(6).run().was_killed());
    let left = staging(&place.join("dst")).remove(0);
    let beside = place.join("beside");
    fs::write(&beside, vec![0; SIZE]).expect("written");
    fs::rename(&beside, &left).expect("renamed");
    let again = place.haul(&command).run().code(0);
    assert_eq!(number(&again.finished(), "resumed_bytes"), 0, "{again}");
    place.assert_done("src", "dst", What::USUAL, "with another staging file");
}

/// Somebody cut it, or the medium lost its end: what is missing moves again.
#[test]
fn a_staging_file_that_became_shorter() {
    for size in [0, 100 << 10, 300 << 10] {
        let place = Place::new();
        place.tree("src: file=700K");
        let command = format!("cp --json -j 1 --chunk-size {CHUNK_WORDS} src/ dst");
        assert!(place.haul(&command).kill_at(8).run().was_killed());
        let left = staging(&place.join("dst")).remove(0);
        fs::File::options().write(true).open(&left).and_then(|file| file.set_len(size)).expect("cut");
        let again = place.haul(&command).run().code(0);
        assert!(number(&again.finished(), "resumed_bytes") <= size, "{again}");
        place.assert_done("src", "dst", What::USUAL, "with a shorter staging file");
    }
}

#[test]
fn a_staging_file_that_is_gone() {
    let place = Place::new();
    place.tree("src: d/file=700K");
    let command = format!("cp --json -j 1 --chunk-size {CHUNK_WORDS} src/ dst");
    for whole_directory in [false, true] {
        assert!(place.haul(&command).kill_at(6).run().was_killed());
        let left = staging(&place.join("dst")).remove(0);
        fs::remove_file(&left).expect("removed");
        if whole_directory {
            fs::remove_dir(place.join("dst/d")).expect("removed");
        }
        place.haul(&command).run().code(0);
        place.assert_done("src", "dst", What::USUAL, "without the staging file");
        fs::remove_dir_all(place.join("dst")).expect("removed");
        fs::remove_dir_all(place.join("state")).expect("removed");
    }
}
