//! A source, or a staging file, that is another one when the run goes on.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use haul_test::compare::What;

use crate::support::{CHUNK, COPY, World, versioned};

const SIZE: usize = 700 << 10;

/// Killed in the middle of the file, then `change`d, then run again.
fn changed(record: u64, change: impl Fn(&Path)) {
    let w = World::new("src: other=3K old: x/");
    w.write("src/file", versioned(b'1', SIZE));
    let command = format!("{COPY} -j 1 src/ dst");
    w.killed_at(record, &command);
    assert_eq!(w.staging("dst").len(), 1, "killed in the middle");
    change(&w.path("src/file"));
    assert_eq!(w.haul(&command).ends(0).number("resumed_bytes"), 0);
    w.assert_done("dst", What::USUAL, "after a change");
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

/// Written over in place, its time set back: only ctime tells.
#[test]
fn the_same_file_with_the_same_size_and_time() {
    changed(7, |file| {
        let before = fs::metadata(file).expect("it is there");
        let mut open = fs::File::options().write(true).open(file).expect("opened");
        open.write_all(&versioned(b'2', SIZE)).expect("written");
        open.set_modified(before.modified().expect("it has a time")).expect("set");
        let after = fs::metadata(file).expect("it is there");
        assert_eq!((before.ino(), before.len(), before.modified().ok()), (after.ino(), after.len(), after.modified().ok()));
    });
}

/// A mode that changes while the file is copied is no other content.
#[test]
fn a_mode_that_changes_during_the_run() {
    let w = World::new("src: file=700K");
    let mut run = w.haul(&format!("{COPY} --bwlimit 400K src/ dst")).start();
    run.until("a staging file", || !w.staging("dst").is_empty());
    w.chmod("src/file", 0o640);
    let ended = run.wait().code(0);
    assert_eq!(ended.number("retries"), 0, "{ended}");
    assert!(w.read("src/file") == w.read("dst/file"));
}

#[test]
fn longer_shorter_small_empty_and_gone() {
    for size in [SIZE + (100 << 10), SIZE - (200 << 10), 2 << 10, 0] {
        changed(7, |file| fs::write(file, versioned(b'2', size)).expect("written"));
    }
    changed(7, |file| fs::remove_file(file).expect("removed"));
    changed(7, |file| fs::remove_file(file).and_then(|()| fs::create_dir(file)).expect("a directory"));
}

#[test]
fn small_files_of_a_bundle_that_was_killed() {
    let w = World::new("src: dst:");
    w.write("dst/b", versioned(b'0', 2000));
    let command = "cp -j 1 src/ dst";
    let mut kills = 0;
    for record in 1..8 {
        for name in ["a", "b", "c"] {
            w.write(format!("src/{name}"), versioned(b'1' + record as u8, 3000));
        }
        kills += u64::from(w.haul(command).killed_at(record).run().was_killed());
    }
    assert!(kills > 0);
    w.haul(command).ends(0);
    w.assert_done("dst", What::USUAL, "after changes");
}

/// Staging names are the same for every run of one version: a run without a journal begins anew under the same name, and the
/// receipts of the older journal must not count for it. What was cut off, or lost by the medium, moves again.
#[test]
fn a_staging_file_that_is_not_the_one_of_the_journal() {
    for (case, size) in [("another file", None), ("empty", Some(0)), ("cut", Some(100 << 10)), ("cut later", Some(300 << 10))] {
        let w = World::new("src: file=700K");
        let command = format!("{COPY} -j 1 src/ dst");
        w.killed_at(8, &command);
        let left = w.staging("dst").remove(0);
        match size {
            Some(size) => fs::File::options().write(true).open(&left).and_then(|file| file.set_len(size)).expect("cut"),
            None => {
                w.write("beside", vec![0; SIZE]);
                w.rename("beside", &left);
            }
        }
        let resumed = w.haul(&command).ends(0).number("resumed_bytes");
        assert!(resumed <= size.unwrap_or(0), "{case}: {resumed}");
        w.assert_done("dst", What::USUAL, case);
    }
}

#[test]
fn a_staging_file_that_is_gone() {
    for whole_directory in [false, true] {
        let w = World::new("src: d/file=700K");
        let command = format!("{COPY} -j 1 src/ dst");
        w.killed_at(6, &command);
        w.remove(w.staging("dst").remove(0));
        if whole_directory {
            w.remove("dst/d");
        }
        w.haul(&command).ends(0);
        w.assert_done("dst", What::USUAL, "without the staging file");
    }
}

/// What had landed and was lost does not count again once later writes have made the file as long as it was.
#[test]
fn what_a_staging_file_has_lost_stays_lost() {
    let w = World::new("src: file=1M");
    let command = format!("{COPY} -j 1 src/ dst");
    w.killed_at(12, &command);
    let staged = w.path(w.staging("dst").remove(0));
    let cut = |bytes: u64| OpenOptions::new().write(true).open(&staged).and_then(|file| file.set_len(bytes)).expect("cut");
    cut(0);
    w.killed_at(3, &command);
    assert!(fs::metadata(&staged).expect("it is there").len() < 5 * CHUNK, "the second run was killed early");
    cut(1 << 20);
    w.haul(&command).ends(0);
    w.assert_done("dst", What::USUAL, "interrupted twice");
}

/// What was being written in place when the run was killed is newer than its source, and as large.
#[test]
fn a_file_that_is_half_written_in_place_is_not_kept() {
    for flags in ["-u", "--size-only"] {
        let w = World::new("src: file=700K dst: file=600K");
        w.set_time("dst/file", UNIX_EPOCH);
        let command = format!("cp -j 1 --inplace {flags} src/ dst");
        w.killed_at(1, &command);
        w.write("dst/file", vec![0; 700 << 10]);
        w.haul(&command).ends(0);
        w.assert_done("dst", What::USUAL, flags);
        w.haul(&command).ends(0);
    }
}
