//! Many small files in one call.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Entry, Kind, MetaMask, Name, Time};
use haul_core::error::{Error, ErrorKind};

use super::Fixture;
use super::tools::*;

pub fn a_thousand_files_go_in_and_out(f: &Fixture) {
    let home = dir("d");
    f.make(&home);
    let count = f.caps().tuning.bundle_files.min(1000) as u64;
    let size = |i: u64| (i * 37) % 2000 % (f.caps().tuning.bundle_bytes as u64 / count).max(1);
    let entry = |i: u64| file(Name::new(&home, format!("f{i}").as_bytes()), size(i));
    for (round, direct) in [(0, true), (1, false)] {
        let content = |i: u64| bytes(i + round * 5000, size(i));
        let mut all = bundle((0..count).map(|i| (entry(i), content(i))).collect(), direct);
        f.store.put_bundle(&mut all);
        all_landed(&all);
        let other = f.another();
        let mut back = Bundle { keep: MetaMask::MTIME, ..Bundle::default() };
        // Half of them as a listing has them, half with nothing known but the name.
        for i in 0..count {
            let name = entry(i).name;
            back.push(if i % 2 == 0 { ok(other.stat(&name, STATED)) } else { Entry::bare(name, Kind::File) });
        }
        other.get_bundle(&mut back);
        assert_eq!(back.items.len() as u64, count);
        for (i, item) in (0..count).zip(&back.items) {
            assert!(matches!(item.outcome, Outcome::Read), "{item:?}");
            assert!(back.data[item.at.clone()] == content(i), "f{i}, direct: {direct}");
            assert_eq!((item.entry.size, &*item.entry.name.leaf), (size(i), &*entry(i).name.leaf), "the entry is what was read");
            assert!(item.entry.have.has(MetaMask::BASIC.with(MetaMask::MTIME)));
        }
    }
    assert_eq!(leaves(&*f.another(), &home).len() as u64, count);
    assert_eq!(f.names().len(), entries_expected(f, count as usize), "staging files are left over");
}

/// From outside the directory itself is seen too, where it is a thing.
fn entries_expected(f: &Fixture, files: usize) -> usize {
    match &f.outside.names {
        Some(_) => files + usize::from(f.caps().dirs),
        None => 1,
    }
}

pub fn a_bad_item_fails_alone(f: &Fixture) {
    f.make(&dir("d"));
    if f.caps().dirs {
        f.make(&dir("d/in-the-way"));
        for direct in [true, false] {
            let files = ["d/a", "none/b", "d/in-the-way", "d/c"];
            let mut all = bundle(files.iter().map(|path| (file(name(path), 3), b"new".to_vec())).collect(), direct);
            f.store.put_bundle(&mut all);
            for (path, item) in files.into_iter().zip(&all.items) {
                match (&item.outcome, path) {
                    (Outcome::Failed(e), "none/b") => assert_eq!(e.kind(), ErrorKind::NotFound, "{e}"),
                    (Outcome::Failed(e), "d/in-the-way") => assert_eq!(e.kind(), ErrorKind::Exists, "{e}"),
                    (Outcome::Written(_), "d/a" | "d/c") => {
                        assert_eq!(f.get(path), b"new");
                        ok(remove(&*f.store, &f.stat(path)));
                    }
                    (other, _) => panic!("{path}: {other:?}"),
                }
            }
            assert_eq!(leaves(&*f.another(), &dir("d")), [b"in-the-way".to_vec()]);
            assert_eq!(f.names().len(), entries_expected(f, 1), "a failed item left something");
        }
    }
    f.put("d/here", b"content");
    let mut back = Bundle::default();
    for path in ["d/none", "d/here"] {
        back.push(Entry::bare(name(path), Kind::File));
    }
    f.store.get_bundle(&mut back);
    match &back.items[0].outcome {
        Outcome::Failed(e) => assert!(matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Vanished), "{e}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(back.items[1].outcome, Outcome::Read));
    assert_eq!(&back.data[back.items[1].at.clone()], b"content");
}

/// Staged items replace whole files, watched by a reader.
pub fn a_bundle_replaces_whole_files(f: &Fixture) {
    let version = |i: u64| vec![i as u8 + 1; 3000 + 500 * i as usize];
    f.make(&dir("d"));
    f.put("d/watched", &version(0));
    let (done, atomic, readers) = (AtomicBool::new(false), f.caps().atomic_commit, f.another());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                match fetch(&*readers, &name("d/watched")) {
                    Ok(content) => {
                        let first = u64::from(*content.first().expect("no version is empty"));
                        assert!(content == version(first - 1), "a part or a mixture of {} bytes", content.len());
                    }
                    Err(e) if e.kind() == ErrorKind::Changed => {}
                    Err(e) if e.kind() == ErrorKind::NotFound && !atomic => {}
                    Err(e) => panic!("{e}"),
                }
            }
        });
        for i in 1..40 {
            let content = version(i);
            let mut one = bundle(vec![(file(name("d/watched"), content.len() as u64), content)], false);
            f.store.put_bundle(&mut one);
            landed(&one.items[0]);
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader saw nothing but whole files");
    });
    assert!(f.get("d/watched") == version(39));
}

/// `direct` says that no such name exists. If one does all the same, the item fails with `Exists`, or the
/// whole new file is there: never a part, never the old file cut short.
pub fn direct_never_harms_what_is_there(f: &Fixture) {
    f.put("there", b"the old content");
    let mut one = bundle(vec![(file(name("there"), 3), b"new".to_vec())], true);
    f.store.put_bundle(&mut one);
    match &one.items[0].outcome {
        Outcome::Failed(e) => {
            assert_eq!(e.kind(), ErrorKind::Exists, "{e}");
            assert_eq!(f.get("there"), b"the old content");
        }
        Outcome::Written(_) => assert_eq!(f.get("there"), b"new"),
        other => panic!("{other:?}"),
    }
}

/// A file that is no longer as it was listed: either `Changed`, or read whole as it is now with an entry
/// that says so. Never the old entry with the new bytes.
pub fn a_file_that_changed_is_never_mixed(f: &Fixture) {
    let later = Time { secs: WHEN.secs + 100, ..WHEN };
    for content in [&b"longer than it was"[..], b"", b"other"] {
        f.put("changing", b"first");
        let mut back = Bundle { keep: MetaMask::MTIME, ..Bundle::default() };
        back.push(f.stat("changing"));
        f.put_at("changing", content, later);
        f.store.get_bundle(&mut back);
        let item = &back.items[0];
        match &item.outcome {
            Outcome::Failed(e) => assert_eq!(e.kind(), ErrorKind::Changed, "{e}"),
            Outcome::Read => {
                assert_eq!(&back.data[item.at.clone()], content);
                assert_eq!(item.entry.stamp(), f.stat("changing").stamp());
            }
            other => panic!("{other:?}"),
        }
    }
}

pub fn items_that_failed_are_left_alone(f: &Fixture) {
    let mut mixed = bundle(vec![(file(name("a"), 1), b"a".to_vec()), (file(name("b"), 1), b"b".to_vec())], false);
    mixed.items[0].outcome = Outcome::Failed(Error::new(ErrorKind::Io, "read").on(&name("a")));
    f.store.put_bundle(&mut mixed);
    assert!(matches!(&mixed.items[0].outcome, Outcome::Failed(e) if e.kind() == ErrorKind::Io));
    landed(&mixed.items[1]);
    f.is_absent("a");
    assert_eq!(f.get("b"), b"b");
    f.store.put_bundle(&mut Bundle::default());
    f.store.get_bundle(&mut Bundle::default());
}

pub fn a_bundle_keeps_attributes(f: &Fixture) {
    for direct in [true, false] {
        let path = format!("kept-{direct}");
        let mut entry = file(name(&path), 3);
        entry.mode = 0o604;
        let keep = MetaMask::MTIME.with(MetaMask::MODE);
        let mut one = bundle(vec![(entry.clone(), b"abc".to_vec())], direct);
        one.keep = keep;
        f.store.put_bundle(&mut one);
        let refused = landed(&one.items[0]).refused;
        assert_eq!(refused, keep.without(f.caps().attributes.sets), "what `sets` has is kept, the rest is reported as refused");
        let found = f.stat(&path);
        if !refused.has(MetaMask::MTIME) {
            assert!(found.mtime.same(entry.mtime, f.caps().attributes.mtime_resolution, Default::default()), "{found:?}");
        }
        if !refused.has(MetaMask::MODE) {
            assert_eq!(found.mode & 0o777, 0o604, "direct: {direct}");
        }
        let ino = landed(&one.items[0]).ino;
        assert!(ino == 0 || ino == found.ino);
    }
}
