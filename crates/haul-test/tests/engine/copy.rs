use std::sync::Arc;

use haul_core::event::Action;
use haul_core::report::Ending;
use haul_test::memory::Memory;

use crate::support::{assert_same, copying, go, job, put_hard_link};

fn tree() -> Memory {
    let source = Memory::new();
    for i in 0..200usize {
        source.put(format!("d{}/e/{i}", i % 7), (0..i * 37).map(|x| (x % 251) as u8).collect::<Vec<u8>>());
    }
    source.put("big", (0..1_000_000usize).map(|x| (x % 253) as u8).collect::<Vec<u8>>());
    source.put("empty", b"");
    source
}

fn same(a: &Memory, b: &Memory) {
    assert_eq!(a.paths(), b.paths());
    for path in a.paths() {
        assert_eq!(a.get(&path), b.get(&path), "{}", String::from_utf8_lossy(&path));
    }
}

#[test]
fn a_tree_is_copied_and_a_second_run_moves_nothing() {
    let (source, target) = (tree(), Memory::new());
    let (report, _) = go(copying(&source, &target));
    assert_eq!((report.ending, report.failed), (Ending::Complete, 0), "{report:?}");
    same(&source, &target);
    assert_eq!(report.made.files, 202);
    let (report, diary) = go(copying(&source, &target));
    assert_eq!(report.made.total(), 0, "{:?}", diary.0.lock().unwrap());
    assert_eq!(report.kept.files, 202);
    assert_eq!(report.bytes, 0);
}

#[test]
fn a_gap_at_replaced_names_is_reported_once() {
    for (atomic, expected) in [(true, 0), (false, 1)] {
        let (source, target) = (tree(), Memory::new().with(|caps| caps.atomic_commit = atomic));
        let (_, diary) = go(copying(&source, &target));
        assert_eq!(diary.notes("atomically"), 0, "nothing was replaced");
        for path in ["d1/e/1", "d2/e/2", "big"] {
            source.put(path, path.repeat(100_000));
        }
        let (report, diary) = go(copying(&source, &target));
        assert_eq!((report.made.files, diary.notes("atomically")), (3, expected), "{report:?}");
        same(&source, &target);
    }
}

#[test]
fn what_is_in_the_way_goes_by_a_task_that_is_counted_apart() {
    let (source, target) = (tree(), Memory::new());
    target.put("empty/full/of/things", b"x");
    target.put("d1", b"a file where a directory belongs");
    let mut forced = copying(&source, &target);
    forced.policy.force = true;
    let (report, _) = go(forced);
    assert_eq!((report.ending, report.failed), (Ending::Complete, 0), "{report:?}");
    same(&source, &target);
    assert!(!report.times.effects.is_zero());
    let (report, _) = go(job(Arc::new(source.again()), Arc::new(Memory::new())));
    assert!(report.times.effects.is_zero(), "nothing was in the way");
}

#[test]
fn where_names_cannot_share_a_file_each_gets_its_own() {
    let source = Memory::new();
    let target = Memory::new().with(|caps| caps.hard_links = false);
    source.put("d/a", b"x");
    put_hard_link(&source, "d/b", "d/a");
    put_hard_link(&source, "c", "d/a");
    let (report, _) = go(copying(&source, &target));
    assert_eq!((report.failed, report.made.files, report.hard_links), (0, 3, 0), "{report:?}");
    for path in ["d/a", "d/b", "c"] {
        assert_eq!(target.get(path), Some(b"x".to_vec()), "{path}");
    }
}

#[test]
fn a_dry_run_knows_which_names_are_one_file_already() {
    let (source, target) = (Memory::new(), Memory::new());
    source.put("d/a", b"x");
    put_hard_link(&source, "d/b", "d/a");
    source.put_dir("e");
    put_hard_link(&source, "e/c", "d/a");
    let run = |dry: bool| {
        let mut copy = copying(&source, &target);
        copy.dry = dry;
        let (report, diary) = go(copy);
        assert_eq!(report.failed, 0, "{report:?}");
        (report.made, report.hard_links, report.kept, diary.of(Action::HardLink).len())
    };
    for turn in 0..2 {
        let said = run(true);
        assert!(turn == 1 || target.paths().is_empty());
        assert_eq!(said, run(false), "turn {turn}");
    }
    assert_same(&source, &target);
    // New content under the first name: the others follow it.
    source.put("d/a", b"newer");
    let said = run(true);
    assert_eq!(said, run(false));
    assert_same(&source, &target);
}

#[test]
fn a_name_that_policy_leaves_neither_leads_nor_follows() {
    let (source, target) = (Memory::new(), Memory::new());
    source.put("a", b"x");
    put_hard_link(&source, "b", "a");
    target.put("b", b"old");
    let mut copy = copying(&source, &target);
    copy.policy.ignore_existing = true;
    let (report, _) = go(copy);
    assert_eq!((report.failed, report.made.files), (0, 1));
    assert_eq!(target.get("b").as_deref(), Some(&b"old"[..]));
}

#[test]
fn a_move_that_is_run_again_removes_what_was_there_already_once_its_content_is_compared() {
    let (source, target) = (tree(), Memory::new());
    go(copying(&source, &target));
    let time = target.entry("d1/e/15").unwrap().mtime;
    target.put("d1/e/15", vec![0; 15 * 37]);
    target.put_time("d1/e/15", time);
    let mut again = copying(&source, &target);
    again.remove_source = true;
    let (report, _) = go(again);
    assert_eq!((report.failed, report.made.files), (0, 1), "what only looked the same was copied: {report:?}");
    assert!(source.paths().iter().all(|path| source.get(path).is_none()), "no file is left at the source");
    assert_eq!(target.get("d1/e/15"), Some((0..15 * 37).map(|x| (x % 251) as u8).collect()));
}
