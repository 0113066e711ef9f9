//! Trees that change while they are copied.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use haul_test::program::{Ended, Running};

use crate::support::World;

/// Starts a slow run, and waits until it is in the middle of a file: until something of it is on disk under a name of its own.
fn start(w: &World, words: &str) -> Running {
    let mut run = w.haul(words).start();
    run.until("something is staged", || w.staging("dst").iter().any(|path| path.metadata().is_ok_and(|meta| meta.blocks() > 0)));
    run
}

/// Copies one file slowly, and does something to it meanwhile.
fn meanwhile(old: &str, change: impl FnOnce(&Path)) -> (World, Ended) {
    let w = World::new("src: big=2M small=3 dst:");
    if !old.is_empty() {
        w.write("dst/big", old);
    }
    let run = start(&w, "cp -v --bwlimit 1M --chunk-size 64K src/ dst");
    change(&w.path("src/big"));
    let ended = run.wait();
    w.assert_clean("dst");
    (w, ended)
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(bytes)).expect("written");
}

#[test]
fn a_file_that_changes_is_done_again() {
    // Not cut first when it is rewritten: an empty file is a version that may be copied, too.
    for what in ["grows", "shrinks", "is rewritten"] {
        let (w, ended) = meanwhile("old", |path| {
            let mut file = OpenOptions::new().append(what == "grows").write(true).open(path).expect("open");
            let changed = if what == "shrinks" { file.set_len(100_000) } else { file.write_all(&[9; 2 << 20]) };
            changed.expect(what);
        });
        let ended = ended.code(0);
        let (copy, now) = (w.read("dst/big"), w.read("src/big"));
        if what == "grows" {
            assert!(copy == now[..2 << 20], "{ended}");
            ended.err_has("big: grew while it was copied; the copy has the 2.00 MiB that it had when it was opened");
        } else {
            assert!(copy == now, "a file that {what}\n{ended}");
        }
    }
}

/// As logs do when they are rotated: the walk was ahead of the copy.
#[test]
fn what_changed_since_it_was_listed_is_copied_as_it_is_now() {
    let w = World::new("src: a=1M b=1M c=1M d=1M dst: extra=1");
    let before = w.read("src/a");
    let run = start(&w, "sync -j 1 --delete --bwlimit 4M --chunk-size 64K src/ dst");
    w.sh("truncate -s 300K src/a; echo 3 >src/b; head -c 400K /dev/zero >new; mv new src/c; head -c 500K /dev/zero >>src/d");
    let ended = run.wait().code(0);
    assert!(!w.has("dst/extra"), "{ended}");
    for name in ["a", "b", "c", "d"] {
        let (copy, now) = (w.read(format!("dst/{name}")), w.read(format!("src/{name}")));
        // One of them was open when it changed.
        assert!(copy == now || copy.len() == before.len(), "{name}: {} of {} bytes\n{ended}", copy.len(), now.len());
    }
}

#[test]
fn a_move_and_a_verified_copy_are_of_the_whole() {
    for command in ["cp --verify", "cp --remove-source-files"] {
        let w = World::new("src: big=2M dst:");
        let run = start(&w, &format!("{command} --bwlimit 1M --chunk-size 64K src/ dst"));
        append(&w.path("src/big"), b"more");
        run.wait().code(0).err_lacks("grew while");
        assert_eq!(w.read("dst/big").len(), (2 << 20) + 4, "{command}");
    }
}

#[test]
fn a_file_that_never_rests_does_not_replace_the_old_one() {
    let w = World::new("src: big=1M small=3 dst:");
    w.write("dst/big", "old");
    let mut run = start(&w, "cp --bwlimit 1M --chunk-size 64K src/ dst");
    while run.is_running() {
        OpenOptions::new().write(true).open(w.path("src/big")).and_then(|mut file| file.write_all(b"x")).expect("written");
        std::thread::sleep(Duration::from_millis(20));
    }
    run.wait().code(23).err_has("big");
    assert_eq!((w.text("dst/big"), w.read("dst/small").len()), ("old".into(), 3));
}

#[test]
fn a_file_that_vanishes_is_whole_or_absent() {
    let (w, ended) = meanwhile("", |path| fs::remove_file(path).expect("removed"));
    // The open descriptor still has all of it.
    if ended.code_of(&[0, 23, 24]).status.success() {
        assert_eq!(w.read("dst/big").len(), 2 << 20);
    } else {
        assert!(!w.has("dst/big"));
    }
}

#[test]
fn a_file_that_is_replaced_by_a_link_is_not_read_through_it() {
    let secret = tempfile::NamedTempFile::new().expect("a file");
    fs::write(secret.path(), "secret").expect("written");
    let (w, ended) = meanwhile("old", |path| {
        append(path, b"x");
        fs::remove_file(path).and_then(|()| symlink(secret.path(), path)).expect("replaced");
    });
    ended.code_of(&[0, 23, 24]);
    let landed = w.read("dst/big");
    assert!(landed == b"old" || landed.len() >= 2 << 20, "{} bytes", landed.len());
}

/// Somebody swaps a directory for a link to elsewhere, again and again, while root works in it.
fn swap_while(w: &World, swapped: &str, commands: &[&str]) {
    let stop = Arc::new(AtomicBool::new(false));
    let (directory, aside, outside) = (w.path(swapped), w.path("aside"), w.path("outside"));
    let over = stop.clone();
    let swapper = std::thread::spawn(move || {
        let mut swaps = 0;
        while !over.load(Ordering::Relaxed) {
            if fs::rename(&directory, &aside).is_ok() {
                symlink(&outside, &directory).ok();
                std::thread::sleep(Duration::from_micros(200));
                fs::remove_file(&directory).ok();
                fs::rename(&aside, &directory).ok();
            }
            swaps += 1;
            std::thread::sleep(Duration::from_micros(300));
        }
        swaps
    });
    for _ in 0..15 {
        for command in commands {
            w.haul(command).run().code_of(&[0, 23, 24]);
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().unwrap() > 50);
}

#[test]
fn a_destination_directory_that_is_swapped_for_a_link_leads_nowhere() {
    let w = World::new("outside: precious=5 sub/deep=6");
    haul_test::tree::spread(&w.path("src/d/sub"), 4, 30, 500).unwrap();
    haul_test::tree::spread(&w.path("other/d"), 2, 3, 50).unwrap();
    w.haul("cp -a src/ dst").succeeds();
    let before = w.sh("ls -lR --time-style=full-iso outside");
    swap_while(&w, "dst/d", &["cp -aI src/ dst", "sync -a --delete --force other/ dst"]);
    swap_while(&w, "dst/d", &["sync -a --delete --force src/ dst", "sync -a --delete --force other/ dst"]);
    assert_eq!(w.sh("ls -lR --time-style=full-iso outside"), before);
}

#[test]
fn a_source_directory_that_is_swapped_for_a_link_is_not_read_through_it() {
    let w = World::new("outside: precious=5 f0000000=6");
    w.write("outside/f0000001", "secret");
    haul_test::tree::flat(&w.path("src/d"), 60, 500).unwrap();
    w.haul("cp src/ dst").succeeds();
    swap_while(&w, "src/d", &["cp -I src/ dst"]);
    assert!(!w.has("dst/d/precious"));
    assert_eq!((w.read("dst/d/f0000000").len(), w.read("dst/d/f0000001").len()), (500, 500));
    assert!(w.meta("dst/d").is_dir(), "a link does not replace what is full");
}

/// As the tasks of a job array do.
#[test]
fn two_runs_that_make_one_destination_both_end_well() {
    let w = World::new("one: a=1 d/b=2\ntwo: c=3 d/e=4");
    for round in 0..60 {
        let run = |source: &str| w.haul(&format!("cp -a {source}/ to/dst{round} --mkpath")).start();
        let both = [run("one"), run("two")];
        both.into_iter().for_each(|run| drop(run.wait().code(0)));
        assert_eq!(
            w.sh(&format!("cd to/dst{round} && ls -A . d && cd .. && rm -r dst{round}")),
            ".:\na\nc\nd\n\nd:\nb\ne\n",
            "round {round}"
        );
    }
}
