//! Trees that change while they are copied.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Ran, Running, World};

/// Waits until the run is in the middle of its file: until something of it is on disk under a name of its own.
fn wait_for_staging(running: &mut Running, dst: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while !running.is_over() {
        let begun = fs::read_dir(dst).into_iter().flatten().flatten().any(|entry| {
            let staged = entry.file_name().to_string_lossy().starts_with(".haul-");
            staged && entry.metadata().is_ok_and(|meta| std::os::unix::fs::MetadataExt::blocks(&meta) > 0)
        });
        if begun {
            return;
        }
        assert!(Instant::now() < until, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it was over before anything could be changed");
}

/// Copies one file slowly, and does something to it meanwhile.
fn meanwhile(old: bool, change: impl FnOnce(&Path)) -> (World, Ran) {
    let w = World::new();
    w.tree("src: big=2M small=3 dst:");
    if old {
        w.write("dst/big", "old");
    }
    let mut running = w.haul("cp -v --bwlimit 1M --chunk-size 64K src/ dst").start();
    wait_for_staging(&mut running, &w.path("dst"));
    change(&w.path("src/big"));
    let ran = running.end();
    assert!(!w.list("dst").iter().any(|name| name.starts_with(".haul-")), "no litter: {:?}", w.list("dst"));
    (w, ran)
}

#[test]
fn a_file_that_grows_is_done_again() {
    let (w, ran) = meanwhile(true, |path| {
        OpenOptions::new().append(true).open(path).unwrap().write_all(&[7; 1000]).unwrap();
    });
    assert_eq!(ran.code, Some(0), "{}", ran.snapshot());
    assert_eq!(w.read("dst/big"), w.read("src/big"));
}

#[test]
fn a_file_that_shrinks_is_done_again() {
    let (w, ran) = meanwhile(true, |path| {
        OpenOptions::new().write(true).open(path).unwrap().set_len(100_000).unwrap();
    });
    assert_eq!(ran.code, Some(0), "{}", ran.snapshot());
    assert_eq!(w.read("dst/big"), w.read("src/big"));
}

#[test]
fn a_file_that_is_rewritten_is_done_again() {
    // Not cut first: an empty file is a version that may be copied, too.
    let rewrite = |path: &Path| OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(&[9; 2 << 20])).unwrap();
    let (w, ran) = meanwhile(true, rewrite);
    assert_eq!(ran.code, Some(0), "{}", ran.snapshot());
    assert!(w.read("dst/big") == w.read("src/big"), "{}", ran.snapshot());
}

#[test]
fn a_file_that_never_rests_does_not_replace_the_old_one() {
    let w = World::new();
    w.tree("src: big=1M small=3 dst:");
    w.write("dst/big", "old");
    let mut running = w.haul("cp --bwlimit 1M --chunk-size 64K src/ dst").start();
    wait_for_staging(&mut running, &w.path("dst"));
    while !running.is_over() {
        OpenOptions::new().append(true).open(w.path("src/big")).unwrap().write_all(b"x").unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran = running.end();
    assert_eq!(ran.code, Some(23), "{}", ran.snapshot());
    assert!(ran.stderr.contains("big"), "{}", ran.stderr);
    assert_eq!((w.read("dst/big"), w.read("dst/small").len()), (b"old".to_vec(), 3));
}

#[test]
fn a_file_that_vanishes_is_whole_or_not_there() {
    let (w, ran) = meanwhile(false, |path| fs::remove_file(path).unwrap());
    // The open descriptor still has all of it.
    match ran.code {
        Some(0) => assert_eq!(w.read("dst/big").len(), 2 << 20),
        Some(23 | 24) => assert!(!w.has("dst/big")),
        _ => panic!("{}", ran.snapshot()),
    }
}

#[test]
fn a_file_that_is_replaced_by_a_link_is_not_read_through_it() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "secret").unwrap();
    let (w, ran) = meanwhile(true, |path| {
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"x").unwrap();
        fs::remove_file(path).unwrap();
        symlink(secret.path(), path).unwrap();
    });
    assert!(matches!(ran.code, Some(0 | 23 | 24)), "{}", ran.snapshot());
    let landed = w.read("dst/big");
    assert!(landed == b"old" || landed.len() >= 2 << 20, "{} bytes", landed.len());
}

#[test]
fn a_vanished_file_does_not_block_deletes() {
    let w = World::new();
    w.tree("src: slow=1M dst: extra=1");
    // The lister is ahead of the copier: what goes while the first file is under way has been listed.
    haul_test::tree::flat(&w.path("src/many"), 50, 300 << 10).unwrap();
    let mut running = w.haul("sync -j 1 --delete --bwlimit 4M src/ dst").start();
    wait_for_staging(&mut running, &w.path("dst"));
    for number in 25..50 {
        let _gone_already = fs::remove_file(w.path(format!("src/many/f{number:07}")));
    }
    let ran = running.end();
    assert!(matches!(ran.code, Some(0 | 24)), "{}", ran.snapshot());
    assert!(!w.has("dst/extra"), "{}", ran.snapshot());
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
    let mut codes = Vec::new();
    for _ in 0..15 {
        for command in commands {
            codes.push(w.haul(command).run().code);
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().unwrap() > 50);
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 23 | 24))), "{codes:?}");
}

#[test]
fn a_destination_directory_that_is_swapped_for_a_link_leads_nowhere() {
    let w = World::new();
    w.tree("outside: precious=5 sub/deep=6");
    haul_test::tree::spread(&w.path("src/d/sub"), 4, 30, 500).unwrap();
    haul_test::tree::spread(&w.path("other/d"), 2, 3, 50).unwrap();
    w.haul("cp -a src/ dst").succeeds();
    let before = w.tool("ls", "-lR --time-style=full-iso outside");
    swap_while(&w, "dst/d", &["cp -aI src/ dst", "sync -a --delete --force other/ dst"]);
    swap_while(&w, "dst/d", &["sync -a --delete --force src/ dst", "sync -a --delete --force other/ dst"]);
    assert_eq!(w.tool("ls", "-lR --time-style=full-iso outside"), before);
}

#[test]
fn a_source_directory_that_is_swapped_for_a_link_is_not_read_through_it() {
    let w = World::new();
    w.tree("outside: precious=5 f0000000=6");
    w.write("outside/f0000001", "secret");
    haul_test::tree::flat(&w.path("src/d"), 60, 500).unwrap();
    w.haul("cp src/ dst").succeeds();
    swap_while(&w, "src/d", &["cp -I src/ dst"]);
    assert!(!w.has("dst/d/precious"));
    for number in 0..2 {
        let path = w.path(format!("dst/d/f{number:07}"));
        assert!(fs::read(path).is_ok_and(|content| content.len() == 500), "{number}");
    }
    assert!(w.path("dst/d").symlink_metadata().unwrap().is_dir(), "a link does not replace what is full");
}
