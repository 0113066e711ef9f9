//! What each operation leaves behind, on a directory of this machine and on a store; and what counts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Space;
use haul_local::{Local, Options};

use super::place::{Layout, Manner, OpRunner, Task};
use super::window::Done;
use super::*;
use crate::record::Outcome;

fn settings(operations: &str) -> Settings {
    Settings {
        operations: operations.split(' ').map(|word| Operation::parse(word).unwrap()).collect(),
        threads: vec![3],
        sizes: vec![5000],
        same_dir: vec![false],
        count: Count::Each(7),
        files_per_dir: 3,
        record: Some(2048),
        manner: Manner { fsync: false, verify: true, xattr_size: 20, xattr_count: 2 },
        limit: None,
        repeat: 1,
    }
}

/// Files, links and directories below a place by their path, without the directories that every case has.
fn tree(top: &Path) -> BTreeMap<PathBuf, fs::Metadata> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![top.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let below = path.strip_prefix(top).unwrap().to_path_buf();
            if meta.is_dir() {
                dirs.push(path);
            }
            if !meta.is_dir() || below.components().count() == 3 {
                found.insert(below, meta);
            }
        }
    }
    found
}

/// Measures everything, and calls `look` after each operation.
fn measure(place: &Arc<dyn Place>, settings: &Settings, look: &mut dyn FnMut(&Measured)) {
    run(place, settings, &Cancel::default(), &|_, _, _, _| false, &mut |event| {
        if let Event::Measured(measured) = event {
            look(measured);
        }
        Ok(())
    })
    .unwrap();
}

/// Looks at the tree after each operation.
fn after_each(place: &Arc<dyn Place>, top: &Path, settings: &Settings, look: &mut dyn FnMut(Operation, BTreeMap<PathBuf, fs::Metadata>)) {
    measure(place, settings, &mut |measured| {
        assert!(measured.failure.is_none(), "{measured:?}");
        assert_eq!(measured.tally.reached, measured.asked);
        assert_eq!(measured.sample().outcome, Outcome::Ok);
        look(measured.operation, tree(top));
    });
}

const FILES: usize = 21;

fn conforms(place: &Arc<dyn Place>, top: &Path, operations: &str, same_dir: bool) {
    let settings = Settings { same_dir: vec![same_dir], ..settings(operations) };
    let mut seen = Vec::new();
    let mut size = 0;
    after_each(place, top, &settings, &mut |op, found| {
        seen.push(op.word());
        size = match op {
            Operation::Create | Operation::TruncateOverwrite => 5000,
            Operation::Append => 10_000,
            _ => size,
        };
        let of = |tree: &str, role: char| {
            let named = |path: &Path| path.starts_with(tree) && path.file_name().unwrap().to_string_lossy().starts_with(role);
            found.iter().filter(|(path, _)| named(path)).map(|(path, meta)| (path.clone(), meta.clone())).collect::<Vec<_>>()
        };
        let files = |tree: &str| of(tree, 'f').into_iter().filter(|(_, meta)| meta.is_file() && meta.len() == size).count();
        match op {
            Operation::Create => {
                assert_eq!(files("a"), FILES);
                let dirs: std::collections::BTreeSet<_> = found.keys().map(|path| path.parent().unwrap().to_path_buf()).collect();
                assert_eq!(dirs.len(), if same_dir { 3 } else { 9 }, "{dirs:?}");
            }
            Operation::Append | Operation::TruncateOverwrite => assert_eq!(files("a"), FILES),
            Operation::Chmod => assert!(of("a", 'f').iter().all(|(_, meta)| meta.permissions().mode() & 0o777 == 0o646)),
            Operation::Rename => assert_eq!((files("a"), files("b")), (0, FILES)),
            Operation::Symlink => {
                let links = of("a", 's');
                assert_eq!(links.len(), FILES);
                assert!(links.iter().all(|(_, meta)| meta.is_symlink()));
            }
            Operation::Hardlink => {
                assert_eq!(of("a", 'h').len(), FILES);
                assert!(of("b", 'f').iter().all(|(_, meta)| meta.nlink() == 2));
            }
            Operation::Mkdir => assert_eq!(of("a", 'd').iter().filter(|(_, meta)| meta.is_dir()).count(), FILES),
            Operation::Rmdir => assert!(of("a", 'd').is_empty()),
            Operation::Delete => assert_eq!(files("a") + files("b"), 0),
            _ => assert_eq!(files("a") + files("b"), FILES, "{}", op.word()),
        }
    });
    assert_eq!(seen.join(" "), operations);
}

const LOCAL: &str = "create read append read overwrite read truncate-overwrite read stat chmod setxattr getxattr rename read symlink \
                     hardlink mkdir rmdir readdir ls-l delete";

#[test]
fn each_operation_does_to_a_directory_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    for same_dir in [false, true] {
        let place: Arc<dyn Place> = Arc::new(LocalPlace::make(dir.path(), "haul-bench-files-1").unwrap());
        conforms(&place, &dir.path().join("haul-bench-files-1"), LOCAL, same_dir);
        place.remove().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

fn store_place(dir: &Path) -> Arc<dyn Place> {
    let store = Local::open(dir, Options::default()).unwrap();
    Arc::new(StorePlace::make(Arc::new(store), "there", "haul-bench-files-2").unwrap())
}

#[test]
fn each_operation_does_to_a_store_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let place = store_place(dir.path());
    assert!(place.refuses(Operation::Append).is_some());
    let operations = "create read overwrite read stat chmod setxattr getxattr rename read symlink hardlink mkdir rmdir readdir ls-l delete";
    conforms(&place, &dir.path().join("haul-bench-files-2"), operations, false);
    place.remove().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_larger_than_a_bundle_passes_a_store_too() {
    let dir = tempfile::tempdir().unwrap();
    let place = store_place(dir.path());
    let settings =
        Settings { sizes: vec![9 << 20], threads: vec![1], count: Count::Each(2), record: None, ..settings("create read delete") };
    let mut sizes = Vec::new();
    after_each(&place, &dir.path().join("haul-bench-files-2"), &settings, &mut |_, found| {
        sizes.push(found.values().map(fs::Metadata::len).sum::<u64>())
    });
    assert_eq!(sizes, [18 << 20, 18 << 20, 0]);
}

/// Flips one byte of one file before it is read.
fn verified(place: &Arc<dyn Place>, top: &Path, verify: bool) -> (u64, u64, Outcome) {
    let mut settings = settings("create read");
    settings.manner.verify = verify;
    let mut found = None;
    measure(place, &settings, &mut |m| {
        if m.operation == Operation::Create {
            let file = fs::File::options().read(true).write(true).open(top.join("a/t001-d0001/f001-0000004")).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, 4321).unwrap();
            file.write_all_at(&[byte[0] ^ 1], 4321).unwrap();
            return;
        }
        if verify {
            let words = m.failure.as_ref().unwrap().to_string();
            assert!(words.contains("f001-0000004") && words.contains("byte 4321 is not what was written"), "{words}");
        }
        found = Some((m.tally.failures, m.tally.wrong, m.sample().outcome));
    });
    found.unwrap()
}

#[test]
fn one_flipped_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let place: Arc<dyn Place> = Arc::new(LocalPlace::make(dir.path(), "haul-bench-files-1").unwrap());
    let top = dir.path().join("haul-bench-files-1");
    assert_eq!(verified(&place, &top, true), (1, 1, Outcome::Wrong));
    assert_eq!(verified(&place, &top, false), (0, 0, Outcome::Ok));
    let place = store_place(dir.path());
    let (failures, wrong, outcome) = verified(&place, &dir.path().join("haul-bench-files-2"), true);
    assert_eq!((failures, wrong, outcome), (1, 1, Outcome::Wrong));
}

#[test]
fn what_is_missing_fails_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let place: Arc<dyn Place> = Arc::new(LocalPlace::make(dir.path(), "haul-bench-files-1").unwrap());
    let mut found = None;
    measure(&place, &settings("create stat"), &mut |m| match m.operation {
        Operation::Create => fs::remove_file(dir.path().join("haul-bench-files-1/a/t002-d0000/f002-0000001")).unwrap(),
        _ => found = Some((m.tally.reached, m.tally.failures, m.sample().outcome, m.sample().rate())),
    });
    assert_eq!(found, Some((21, 1, Outcome::Failed, None)));
}

/// A place whose operations take as long as a test wants.
#[derive(Clone)]
struct Paced {
    /// Files that the first thread has done.
    first: Arc<AtomicU64>,
    each: Duration,
    /// The second thread is busy for as long in each operation, and not only asleep.
    busy: bool,
}

struct PacedRunner {
    task: Task,
    place: Paced,
}

impl Place for Paced {
    fn words(&self) -> String {
        "a place of the test".into()
    }
    fn refuses(&self, _: Operation) -> Option<String> {
        None
    }
    fn space(&self) -> Result<Option<Space>> {
        Ok(Some(Space { bytes: 100_000, files: 100 }))
    }
    fn lay(&self, _: &Layout) -> Result<()> {
        Ok(())
    }
    fn clear(&self, _: &Cancel) -> Result<()> {
        Ok(())
    }
    fn remove(&self) -> Result<()> {
        Ok(())
    }
    fn runner(&self, task: Task) -> Result<Box<dyn OpRunner>> {
        Ok(Box::new(PacedRunner { task, place: self.clone() }))
    }
    fn works_in_thread(&self) -> bool {
        self.busy
    }
}

impl OpRunner for PacedRunner {
    fn enter(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn work(&mut self, _: u64) -> Result<Done> {
        let Paced { first, each, busy } = &self.place;
        if self.task.thread == 0 {
            first.fetch_add(1, Ordering::SeqCst);
        } else {
            // Nothing before the first thread has done all, and then slowly.
            while first.load(Ordering::SeqCst) < 50 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if *busy && self.task.thread > 0 {
            let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let nanos = |time: rustix::time::Timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
            let begun = nanos(used());
            while nanos(used()) - begun < each.as_nanos() as i64 {}
        }
        std::thread::sleep(if self.task.thread == 0 { Duration::ZERO } else { *each });
        Ok(Done { files: 1, bytes: 100, requests: 1 })
    }
    fn list(&mut self, _: u64, _: u64) -> Result<Done> {
        Err(Error::new(ErrorKind::Unsupported, "list"))
    }
}

fn paced(each: u64) -> Arc<dyn Place> {
    Arc::new(Paced { first: Arc::default(), each: Duration::from_millis(each), busy: false })
}

#[test]
fn a_slow_thread_counts_no_longer_than_the_fast_one_works() {
    let settings = Settings { threads: vec![2], count: Count::Each(50), ..settings("create") };
    let mut found = None;
    measure(&paced(5), &settings, &mut |m| {
        found = Some((m.tally.files, m.asked, m.tally.reached, m.limited, m.seconds < m.tally.whole()));
    });
    let (files, asked, reached, limited, shorter) = found.unwrap();
    assert!((50..100).contains(&files), "{files}");
    assert_eq!((asked, reached, limited, shorter), (100, 100, false, true));
}

/// The slow thread is busy for a second in all, most of it after the window: that is not of what was counted.
#[test]
fn processor_time_is_that_of_the_window() {
    let place = |busy| -> Arc<dyn Place> { Arc::new(Paced { first: Arc::default(), each: Duration::from_millis(20), busy }) };
    let settings = Settings { threads: vec![2], count: Count::Each(50), ..settings("create") };
    for busy in [true, false] {
        measure(&place(busy), &settings, &mut |m| {
            assert_eq!(m.tally.reached, 100);
            let sample = m.sample();
            assert_eq!(sample.user.is_some() && sample.system.is_some(), busy, "others do the work elsewhere");
            let used = sample.user.unwrap_or(0.0) + sample.system.unwrap_or(0.0);
            assert!(!busy || (0.0..0.5).contains(&used), "{used}");
        });
    }
}

#[test]
fn a_time_in_which_nothing_ended_is_no_rate_of_nothing() {
    let settings = Settings { threads: vec![1], count: Count::Each(50), limit: Some(Duration::from_nanos(1)), ..settings("create") };
    let mut found = 0;
    measure(&paced(0), &settings, &mut |m| {
        found += 1;
        let sample = m.sample();
        assert_eq!((m.tally.files, sample.outcome), (0, Outcome::Failed));
        assert!(sample.reason.as_ref().unwrap().contains("no operation ended within the time"), "{sample:?}");
    });
    assert_eq!(found, 1);
}

#[test]
fn a_time_that_is_over_leaves_the_first_files_for_what_comes_next() {
    let settings =
        Settings { threads: vec![2], count: Count::Each(50), limit: Some(Duration::from_millis(100)), ..settings("create stat delete") };
    let mut found = Vec::new();
    measure(&paced(30), &settings, &mut |m| {
        found.push((m.asked, m.tally.reached, m.limited, m.failure.is_none()));
    });
    let (asked, made, limited, well) = found[0];
    assert!(asked == 100 && (50..100).contains(&made) && limited && well, "{found:?}");
    assert_eq!(found[1].0, made, "{found:?}");
    assert_eq!(found.len(), 3);
}

#[test]
fn a_total_is_split_and_what_does_not_fit_is_refused() {
    let settings = Settings { count: Count::Total(11), threads: vec![4], ..settings("create append mkdir") };
    let case = settings.cases()[0];
    assert_eq!(settings.layout(case).counts, [3, 3, 3, 2]);
    // Two segments of 5,000 bytes are three blocks; a directory for each file, nine directories in each of two trees or fewer.
    let needs = settings.needs();
    assert_eq!((needs.bytes, needs.files >= 22), (11 * 3 * 4096, true));
    let e = settings.check_space(&*paced(0)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoSpace);
    let few = Settings { count: Count::Total(3), ..settings.clone() };
    assert_eq!(few.check().unwrap_err().kind(), ErrorKind::Usage);
    assert!(settings.check().is_ok());
    let many = Settings { sizes: vec![0], count: Count::Each(101), ..settings };
    assert!(many.check_space(&*paced(0)).unwrap_err().to_string().contains("inodes"));
}

#[test]
fn only_links_themselves_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("thesis")).unwrap();
    fs::write(dir.path().join("thesis/1.tex"), "x").unwrap();
    let local: Arc<dyn Place> = Arc::new(LocalPlace::make(dir.path(), "haul-bench-files-1").unwrap());
    for (place, leaf) in [(local, "haul-bench-files-1"), (store_place(dir.path()), "haul-bench-files-2")] {
        std::os::unix::fs::symlink(dir.path().join("thesis"), dir.path().join(leaf).join("trap")).unwrap();
        place.remove().unwrap();
        assert!(!dir.path().join(leaf).exists());
    }
    assert_eq!(fs::read(dir.path().join("thesis/1.tex")).unwrap(), b"x");
}
