//! Several sources, names picked from them, and lists of paths.

use std::collections::BTreeSet;
use std::sync::Arc;

use haul_core::event::{Action, Why};
use haul_core::job::{Job, Listed, Pick, Root};
use haul_core::spill::Sorter;
use haul_test::memory::Memory;

use crate::support::{content, go, job};

fn root(store: &Memory, pick: Pick) -> Root {
    Root::new(Arc::new(store.again()), pick)
}

fn names(names: &[&str]) -> Pick {
    Pick::Names(names.iter().map(|name| name.as_bytes().to_vec()).collect::<BTreeSet<_>>())
}

fn listed(paths: &[&str]) -> Pick {
    // Equal records keep the order in which they came.
    let mut sorter = Sorter::new(&std::env::temp_dir(), 1 << 16, |_, _| std::cmp::Ordering::Equal);
    paths.iter().for_each(|path| sorter.push(path.as_bytes()).unwrap());
    Pick::Listed(Arc::new(Listed::new(sorter.finish().unwrap())))
}

fn copy(roots: Vec<Root>, target: &Memory) -> Job {
    let mut copy = job(Arc::new(Memory::new()), Arc::new(target.again()));
    copy.roots = roots;
    copy
}

fn paths(store: &Memory) -> Vec<String> {
    store.paths().iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

#[test]
fn the_first_of_two_sources_with_one_name_wins() {
    let (one, two, target) = (Memory::new(), Memory::new(), Memory::new());
    one.put("d/same", b"first");
    one.put("d/mine", b"1");
    two.put("d/same", b"second");
    two.put("d/yours", b"2");
    for run in 0..2 {
        let (report, diary) = go(copy(vec![root(&one, Pick::Contents), root(&two, Pick::Contents)], &target));
        assert_eq!(report.failed, 0, "{report:?}");
        assert_eq!(target.get("d/same").as_deref(), Some(&b"first"[..]), "run {run}");
        let shadowed: Vec<String> =
            diary.0.lock().unwrap().iter().filter(|item| item.1 == Why::Shadowed).map(|item| item.2.clone()).collect();
        assert_eq!(shadowed, ["d/same"]);
        assert_eq!(report.made.files, if run == 0 { 3 } else { 0 });
    }
    assert_eq!(paths(&target), ["d/", "d/mine", "d/same", "d/yours"]);
}

#[test]
fn picked_names_come_with_all_that_is_below_and_nothing_else() {
    let (source, target) = (Memory::new(), Memory::new());
    for path in ["a/x/y", "a/z", "b/x", "c", "d"] {
        source.put(path, path);
    }
    let (report, _) = go(copy(vec![root(&source, names(&["a", "c", "absent"]))], &target));
    assert_eq!((report.failed, report.vanished), (1, 0), "a name that was asked for and is absent is a failure");
    assert_eq!(paths(&target), ["a/", "a/x/", "a/x/y", "a/z", "c"]);
}

#[test]
fn picked_names_do_not_shadow_what_was_not_picked() {
    let (one, two, target) = (Memory::new(), Memory::new(), Memory::new());
    one.put("a", b"1");
    one.put("b", b"not picked");
    two.put("b", b"2");
    let (report, _) = go(copy(vec![root(&one, names(&["a"])), root(&two, names(&["b"]))], &target));
    assert_eq!(report.failed, 0);
    assert_eq!(target.get("b").as_deref(), Some(&b"2"[..]));
}

fn listing() -> Memory {
    let source = Memory::new();
    for path in ["a/b/c/file", "a/b/c/other", "a/b/more", "a/top", "z/deep/one", "z/deep/two", "plain"] {
        source.put(path, content(path, 0, 100));
    }
    source
}

#[test]
fn listed_paths_come_alone_with_the_directories_above_them() {
    let source = listing();
    let target = Memory::new();
    let (report, _) = go(copy(vec![root(&source, listed(&["a/b/c/file", "plain", "z"]))], &target));
    assert_eq!(report.failed, 0, "{report:?}");
    assert_eq!(paths(&target), ["a/", "a/b/", "a/b/c/", "a/b/c/file", "plain", "z/"]);
    for path in ["a", "a/b", "a/b/c", "a/b/c/file", "z"] {
        assert_eq!(target.entry(path).unwrap().mtime, source.entry(path).unwrap().mtime, "{path}");
    }
    let (report, _) = go(copy(vec![root(&source, listed(&["a/b/c/file", "plain", "z"]))], &target));
    assert_eq!((report.made.total(), report.kept.files), (0, 2), "{report:?}");
}

#[test]
fn a_listed_directory_and_names_in_it_are_one_way_to_each_name() {
    let source = listing();
    for recurse in [true, false] {
        for dry in [true, false] {
            let target = Memory::new();
            let mut copy = copy(vec![root(&source, listed(&["a/b", "a/b/c/file", "a/b/more", "z/deep/one"]))], &target);
            (copy.recurse_listed, copy.dry) = (recurse, dry);
            let (report, diary) = go(copy);
            assert_eq!(report.failed, 0, "{report:?}");
            let files = if recurse {
                vec!["a/b/c/file", "a/b/c/other", "a/b/more", "z/deep/one"]
            } else {
                vec!["a/b/c/file", "a/b/more", "z/deep/one"]
            };
            assert_eq!(diary.of(Action::Create), files, "recurse {recurse} dry {dry}");
            assert_eq!(diary.of(Action::MakeDir), ["a", "a/b", "a/b/c", "z", "z/deep"], "recurse {recurse} dry {dry}");
        }
    }
}

#[test]
fn listed_paths_that_are_absent_fail_alone() {
    let source = listing();
    let target = Memory::new();
    let (report, _) = go(copy(vec![root(&source, listed(&["a/absent", "a/top", "gone/x", "plain/below", "z/deep/two"]))], &target));
    assert_eq!(report.failed, 3, "{report:?}");
    assert!(target.get("a/top").is_some() && target.get("z/deep/two").is_some());
}

#[test]
fn one_file_gets_another_name_and_its_source_is_removed_under_its_own() {
    for (size, verify) in [(100, false), (100, true), (400_000, false), (400_000, true)] {
        let (source, target) = (Memory::new(), Memory::new());
        source.put("old", content("old", 0, size));
        source.put("new", b"another file of the source");
        let mut copy = copy(vec![root(&source, names(&["old"]))], &target);
        (copy.rename, copy.remove_source, copy.verify) = (Some(b"new".to_vec()), true, verify);
        let (report, diary) = go(copy);
        assert_eq!((report.failed, report.verified_files), (0, 1), "what removes its source verifies: {report:?}");
        assert_eq!(target.get("new"), Some(content("old", 0, size)));
        assert_eq!(paths(&source), ["new"], "{size} {verify}");
        assert_eq!(diary.of(Action::Create), ["old"]);
    }
}
