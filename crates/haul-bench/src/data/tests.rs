//! Sets that are made, looked at, compared and read again.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use haul_core::ErrorKind;
use haul_core::cancel::{Cancel, Stop};
use proptest::prelude::*;

use super::*;

fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches("KiB");
    let unit = if digits == text { 1 } else { 1024 };
    digits.trim_end_matches('B').parse::<u64>().map(|n| n * unit).map_err(|e| e.to_string())
}

fn plan(text: &str, options: &Options) -> Plan {
    Plan::new(&Spec::parse(text, &size).unwrap(), options).unwrap()
}

struct Entry {
    path: Vec<u8>,
    file: File,
}

fn entries(plan: &Plan) -> impl Iterator<Item = Entry> + '_ {
    (0..plan.totals().entries()).map(|number| Entry { path: plan.path(number), file: plan.file(number) })
}

fn made(plan: &Plan, dir: &Path, threads: usize) -> Made {
    let how = How { threads, add: false, cancel: &Cancel::default(), tally: &Tally::default() };
    make(plan, dir, how).unwrap()
}

fn checked(plan: &Plan, dir: &Path) -> Verified {
    verify(plan, dir, 2, &Cancel::default(), &Tally::default()).unwrap()
}

/// Files, bytes, symbolic links, further names and directories, as the file system has them.
fn on_disk(dir: &Path) -> [u64; 5] {
    let (mut sums, mut inodes, mut waiting) = ([0; 5], HashMap::new(), vec![dir.to_path_buf()]);
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                sums[4] += 1;
                waiting.push(entry.path());
            } else if meta.is_symlink() {
                sums[2] += 1;
                // No link leads nowhere.
                assert!(fs::metadata(entry.path()).unwrap().is_file(), "{:?}", entry.path());
            } else if inodes.insert(meta.ino(), ()).is_some() {
                sums[3] += 1;
            } else {
                (sums[0], sums[1]) = (sums[0] + 1, sums[1] + meta.len());
            }
        }
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_on_disk_is_what_was_planned(
        files in 1u64..60, seed: u64, sparse in 0u32..=100, links in 0u32..=100, odd_names in 0u32..=100,
        per_dir in 1u64..30, depth in 0u32..4, threads in 1usize..4
    ) {
        let shape = Shape { per_dir: Some(per_dir), depth: Some(depth), ..Shape::default() };
        let options = Options { seed, sparse, hard_links: links, symlinks: links / 2, odd_names, shape, compressible: links, ..Options::default() };
        let plan = plan(&format!("{files}x100B,uniform:min=0B,max=300KiB,count=7"), &options);
        let dir = tempfile::tempdir().unwrap();
        let result = made(&plan, dir.path(), threads);
        let t = plan.totals();
        prop_assert_eq!((result.entries, result.bytes, result.dirs, result.failed), (t.entries(), t.bytes, t.dirs, 0));
        prop_assert_eq!(on_disk(dir.path()), [t.files, t.bytes, t.symlinks, t.hard_links, t.dirs]);
        for entry in entries(&plan) {
            let meta = fs::symlink_metadata(dir.path().join(std::ffi::OsStr::from_bytes(&entry.path))).unwrap();
            prop_assert_eq!(meta.mtime(), mtime(entry.file.seed).secs);
        }
        let found = checked(&plan, dir.path());
        prop_assert!(found.is_same() && found.same == t.entries() && found.bytes == t.bytes, "{:?}", found);
        // Again there is nothing to do.
        let again = made(&plan, dir.path(), threads);
        prop_assert_eq!((again.entries, again.kept), (0, t.entries()));
    }
}

#[test]
fn holes_are_holes() {
    let plan = plan("4x4096KiB", &Options { sparse: 75, ..Options::default() });
    let dir = tempfile::tempdir().unwrap();
    made(&plan, dir.path(), 2);
    let blocks: u64 = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum();
    assert!(blocks <= plan.totals().stored + (1 << 20) && plan.totals().stored <= 17 << 18 << 2, "{blocks}");
}

#[test]
fn every_damage_is_found() {
    let options = Options { symlinks: 20, hard_links: 20, ..Options::default() };
    let plan = plan("20x10KiB", &options);
    let dir = tempfile::tempdir().unwrap();
    made(&plan, dir.path(), 1);
    let of = |kind: fn(&Kind) -> bool| -> Vec<std::path::PathBuf> {
        let entries = entries(&plan).filter(|entry| kind(&entry.file.kind));
        entries.map(|entry| dir.path().join(std::ffi::OsStr::from_bytes(&entry.path))).collect()
    };
    let (files, links, names) =
        (of(|k| *k == Kind::Regular), of(|k| matches!(k, Kind::Symlink(_))), of(|k| matches!(k, Kind::HardLink(_))));
    // Of files without a further name: what happens to one happens to both.
    let alone: Vec<_> = files.iter().filter(|file| fs::metadata(file).unwrap().nlink() == 1).collect();
    let mut bytes = fs::read(alone[0]).unwrap();
    bytes[9999] ^= 1;
    fs::write(alone[0], &bytes).unwrap();
    fs::write(alone[1], &bytes[..100]).unwrap();
    fs::remove_file(alone[2]).unwrap();
    fs::remove_file(&links[0]).unwrap();
    symlink("elsewhere", &links[0]).unwrap();
    let own = fs::read(&names[0]).unwrap();
    fs::remove_file(&names[0]).unwrap();
    fs::write(&names[0], own).unwrap();
    fs::write(dir.path().join("more"), "").unwrap();
    let found = checked(&plan, dir.path());
    assert_eq!((found.same, found.missing, found.differing, found.extra, found.unreadable), (28 - 5, 1, 4, 1, 0), "{found:?}");
    let differences: Vec<&str> = found.differences.iter().map(|d| &d.what[..]).collect();
    for what in ["differs from byte 9999 on", "100 bytes instead of 10240", "missing", "another target", "separate file"] {
        assert!(differences.iter().any(|found| found.contains(what)), "{what}: {differences:?}");
    }
}

#[test]
fn an_interrupted_run_resumes() {
    let options = Options { symlinks: 10, hard_links: 10, shape: Shape { per_dir: Some(20), ..Shape::default() }, ..Options::default() };
    let plan = plan("200x1KiB", &options);
    let dir = tempfile::tempdir().unwrap();
    let cancel = Cancel::default();
    cancel.set(Stop::Signal);
    let how = How { threads: 2, add: false, cancel: &cancel, tally: &Tally::default() };
    assert!(make(&plan, dir.path(), how).is_ok_and(|made| made.interrupted && made.entries == 0));
    made(&plan, dir.path(), 2);
    // As a kill leaves it: names that are missing, a file that is empty, one that ends too early, a link that was not made.
    let paths: Vec<_> = entries(&plan).map(|e| (dir.path().join(std::ffi::OsStr::from_bytes(&e.path)), e.file)).collect();
    let alone: Vec<_> =
        paths.iter().filter(|(path, file)| file.kind == Kind::Regular && fs::metadata(path).unwrap().nlink() == 1).collect();
    for (path, _) in &alone[..50] {
        fs::remove_file(path).unwrap();
    }
    fs::File::create(&alone[50].0).unwrap();
    let half = fs::read(&alone[51].0).unwrap();
    fs::write(&alone[51].0, &half[..500]).unwrap();
    let link = paths.iter().find(|(_, file)| matches!(file.kind, Kind::HardLink(_))).unwrap();
    fs::remove_file(&link.0).unwrap();
    let again = made(&plan, dir.path(), 2);
    assert_eq!((again.entries, again.kept, again.dirs), (53, 240 - 53, 0));
    assert!(checked(&plan, dir.path()).is_same());
}

#[test]
fn other_peoples_files_are_left_alone() {
    let plan = plan("3x1KiB", &Options::default());
    let dir = tempfile::tempdir().unwrap();
    let attempt = |add| make(&plan, dir.path(), How { threads: 1, add, cancel: &Cancel::default(), tally: &Tally::default() });
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let refused = attempt(false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
    assert!(refused.to_string().contains("thesis.tex") && refused.next_step().unwrap().contains("--add"), "{refused}");
    // A foreign file with a planned name is refused even then.
    fs::write(dir.path().join("f1"), "years of work").unwrap();
    assert!(attempt(true).unwrap_err().to_string().contains("f1"));
    assert_eq!(fs::read(dir.path().join("f1")).unwrap(), b"years of work");
    fs::remove_file(dir.path().join("f1")).unwrap();
    assert_eq!(attempt(true).unwrap().entries, 3);
    assert_eq!(attempt(true).unwrap().kept, 3);
    assert_eq!(fs::read(dir.path().join("thesis.tex")).unwrap(), b"years of work");
    // Another set with the same names is something else.
    let other = self::plan("3x2KiB", &Options::default());
    let how = How { threads: 1, add: true, cancel: &Cancel::default(), tally: &Tally::default() };
    assert!(make(&other, dir.path(), how).is_err());
    assert_eq!(fs::metadata(dir.path().join("f0")).unwrap().len(), 1024);
}

/// Whatever was changed in a set since it was made stays as it is, and nothing else is made.
#[test]
fn what_was_changed_since_is_not_overwritten() {
    let options = Options { hard_links: 10, ..Options::default() };
    let plan = plan("20x10KiB", &options);
    let dir = tempfile::tempdir().unwrap();
    made(&plan, dir.path(), 2);
    let path = |kind: fn(&Kind) -> bool| {
        let mut paths =
            entries(&plan).filter(|entry| kind(&entry.file.kind)).map(|entry| dir.path().join(std::ffi::OsStr::from_bytes(&entry.path)));
        paths.find(|path| !kind(&Kind::Regular) || fs::metadata(path).unwrap().nlink() == 1).unwrap()
    };
    let (regular, name) = (path(|kind| *kind == Kind::Regular), path(|kind| matches!(kind, Kind::HardLink(_))));
    let planned = fs::read(&regular).unwrap();
    let mut edited = planned.clone();
    edited[77] ^= 1;
    let attempt = |add| make(&plan, dir.path(), How { threads: 2, add, cancel: &Cancel::default(), tally: &Tally::default() });
    let refused = |path: &Path, held: &[u8]| {
        for add in [false, true] {
            let e = attempt(add).unwrap_err();
            let leaf = path.file_name().unwrap().to_str().unwrap();
            assert!(e.kind() == ErrorKind::Usage && e.to_string().contains(leaf), "{e}");
            assert_eq!(fs::read(path).unwrap(), held);
        }
    };
    for held in [&edited[..], &edited[..100], b"years of work"] {
        fs::write(&regular, held).unwrap();
        refused(&regular, held);
    }
    // The mode of a large file under way says nothing of a small one.
    fs::set_permissions(&regular, std::os::unix::fs::PermissionsExt::from_mode(0o200)).unwrap();
    assert!(attempt(false).is_err() && attempt(true).is_err());
    assert_eq!(fs::metadata(&regular).unwrap().len(), 13);
    fs::remove_file(&regular).unwrap();
    fs::remove_file(&name).unwrap();
    fs::write(&name, b"years of work").unwrap();
    refused(&name, b"years of work");
    assert!(!regular.exists(), "nothing is made where something is refused");
    fs::remove_file(&name).unwrap();
    fs::write(&regular, &planned[..5000]).unwrap();
    assert_eq!(attempt(true).unwrap().entries, 2);
    assert!(checked(&plan, dir.path()).is_same());
}

#[test]
#[ignore = "full"]
fn a_tree_like_another_has_its_histograms() {
    let first = tempfile::tempdir().unwrap();
    let options = Options {
        symlinks: 7,
        hard_links: 5,
        shape: Shape { per_dir: Some(13), depth: Some(3), ..Shape::default() },
        ..Options::default()
    };
    made(&plan("lognormal:median=2KiB,sigma=2,count=700", &options), &first.path().join("a"), 2);
    fs::create_dir(first.path().join("a_longer_name")).unwrap();
    made(&plan("50x10B,3x500KiB", &Options { odd_names: 50, ..Options::default() }), &first.path().join("a_longer_name/b"), 2);
    let look = |dir: &Path| read(dir, 2, &Cancel::default(), &std::env::temp_dir(), &|e| panic!("{e}")).unwrap();
    let profile = look(first.path());
    assert_eq!((profile.files, profile.symlinks, profile.hard_links), (753, 49, 35));
    let alike = |count| {
        let dir = tempfile::tempdir().unwrap();
        made(&Plan::new(&Spec::like(&profile, count).unwrap(), &Options::default()).unwrap(), dir.path(), 2);
        look(dir.path())
    };
    assert_eq!(alike(None), profile);
    let ten = alike(Some(7530));
    assert_eq!((ten.files, ten.symlinks, ten.hard_links, ten.bytes), (7530, 490, 350, 10 * profile.bytes));
    let few = alike(Some(75));
    assert_eq!((few.files, few.rows().last().unwrap().depth), (75, profile.rows().last().unwrap().depth));
    assert!(Spec::like(&Profile::default(), None).is_err());
}
