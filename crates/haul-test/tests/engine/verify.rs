//! `--verify` and `--remove-source-files`: what is judged, and what is removed only after that.

use std::sync::Arc;

use haul_core::journal::{Begin, Identity, State};
use haul_core::{ErrorKind, Remedy};
use haul_stores::memory::Memory;
use haul_test::fault::{Fault, Op, Rule, What};

use crate::support::{Run, assert_same, content, copying, go, job, put_hard_link};

fn tree() -> Memory {
    let source = Memory::new();
    for (path, size) in [("d/small", 1000), ("d/other", 10), ("large", 700_000), ("empty", 0)] {
        source.put(path, content(path, 0, size));
    }
    source
}

#[test]
fn every_file_is_read_back() {
    for target in [Memory::new(), Memory::objects()] {
        let source = tree();
        let mut copy = copying(&source, &target);
        copy.verify = true;
        let (report, _) = go(copy);
        assert_eq!((report.failed, report.verified_files, report.verified_bytes), (0, 4, 701_010), "{report:?}");
        assert_eq!(target.get("large"), source.get("large"));
    }
}

#[test]
fn a_bit_that_flips_once_is_found_and_put_right() {
    for objects in [false, true] {
        for (op, path) in [(Op::PutBundle, "d/small"), (Op::Write, "large"), (Op::ReadBack, "large"), (Op::ReadBack, "d/small")] {
            let (source, target) = (tree(), if objects { Memory::objects() } else { Memory::new() });
            let to = Fault::new(target.again());
            to.add(Rule::new(op, What::FlipBit).on(path));
            let mut copy = job(Arc::new(source.again()), Arc::new(to));
            (copy.verify, copy.remove_source) = (true, true);
            let expected = source.get(path);
            let (report, _) = go(copy);
            assert_eq!((report.failed, report.retries), (0, 1), "{op:?} {path} {objects}: {report:?}");
            assert_eq!(target.get(path), expected, "{op:?} {path}");
            assert_eq!(report.made.files, 4);
            assert!(source.get(path).is_none());
            assert_eq!(target.sessions(), 0);
        }
    }
}

#[test]
fn a_bit_that_flips_always_leaves_no_copy_and_keeps_the_source() {
    for objects in [false, true] {
        for (op, path) in [(Op::ReadBack, "large"), (Op::ReadBack, "d/small")] {
            let (source, target) = (tree(), if objects { Memory::objects() } else { Memory::new() });
            let to = Fault::new(target.again());
            to.add(Rule::new(op, What::FlipBit).on(path).always());
            let mut copy = job(Arc::new(source.again()), Arc::new(to));
            (copy.verify, copy.remove_source) = (true, true);
            let (report, _) = go(copy);
            assert_eq!((report.failed, &report.failed_kinds[..]), (1, &[ErrorKind::Corrupt][..]), "{report:?}");
            assert!(target.get(path).is_none(), "{path}");
            assert!(source.get(path).is_some(), "{path}");
            assert_eq!(target.sessions(), 0);
        }
    }
}

#[test]
fn an_old_file_stands_when_its_new_content_fails_the_check() {
    let (source, target) = (tree(), Memory::new());
    target.put("large", b"old");
    let to = Fault::new(target.again());
    to.add(Rule::new(Op::Write, What::FlipBit).on("large").always());
    let mut copy = job(Arc::new(source.again()), Arc::new(to));
    copy.verify = true;
    let (report, _) = go(copy);
    assert_eq!(report.failed, 1);
    assert_eq!(target.get("large").as_deref(), Some(&b"old"[..]));
}

#[test]
fn an_old_small_file_stands_when_its_new_content_cannot_be_read_back() {
    let (source, target) = (tree(), Memory::new());
    target.put("d/small", b"old");
    let to = Fault::new(target.again());
    to.add(Rule::new(Op::Reread, What::Fail(ErrorKind::Denied, Remedy::None)).on("d/small").always());
    to.add(Rule::new(Op::Reopen, What::Fail(ErrorKind::Denied, Remedy::None)).on("d/small").always());
    let mut copy = job(Arc::new(source.again()), Arc::new(to));
    copy.verify = true;
    let (report, _) = go(copy);
    assert_eq!((report.failed, &report.failed_kinds[..]), (1, &[ErrorKind::Denied][..]), "{report:?}");
    assert_eq!(target.get("d/small").as_deref(), Some(&b"old"[..]));
}

#[test]
fn a_new_copy_that_cannot_be_read_back_stands_and_is_made_again_by_the_next_run() {
    let state = tempfile::tempdir().unwrap();
    let run = |source: &Memory, to: Fault| {
        let state = State::open(state.path().to_path_buf()).unwrap();
        let identity = Identity { sources: vec!["memory:/a".into()], target: "memory:/b".into(), ..Identity::default() };
        let job_dir = state.begin(&identity, Begin::default()).unwrap();
        let (journal, past) = job_dir.journal().unwrap();
        let mut copy = job(Arc::new(source.again()), Arc::new(to));
        copy.verify = true;
        let (report, _) = Run { journal, past, ..Run::workers(2) }.go(copy);
        job_dir.keep();
        report
    };
    let (source, target) = (tree(), Memory::new());
    let to = Fault::new(target.again());
    to.add(Rule::new(Op::Reopen, What::Fail(ErrorKind::Denied, Remedy::None)).on("d/small").always());
    let report = run(&source, to);
    assert_eq!((report.failed, report.verified_files), (1, 3), "{report:?}");
    assert_eq!(target.get("d/small"), source.get("d/small"));

    let report = run(&source, Fault::new(target.again()));
    assert_eq!(report.failed, 0, "{report:?}");
    assert!(report.made.files >= 1 && report.verified_files >= 1, "every file was verified: {report:?}");
    assert_same(&source, &target);
}

#[test]
fn what_could_not_be_settled_is_not_judged_and_its_source_stays() {
    let (source, target) = (tree(), Memory::new());
    let to = Fault::new(target.again());
    to.add(Rule::new(Op::Sync, What::Fail(ErrorKind::Io, Remedy::None)).always());
    let mut copy = job(Arc::new(source.again()), Arc::new(to));
    (copy.verify, copy.remove_source) = (true, true);
    let (report, _) = go(copy);
    assert_eq!(report.failed, 3, "{report:?}");
    for path in ["d/small", "d/other", "empty"] {
        assert!(source.get(path).is_some(), "{path}");
    }
}

#[test]
fn sources_go_only_when_their_copy_has_landed() {
    let (source, target) = (tree(), Memory::new());
    put_hard_link(&source, "other-name", "d/other");
    let all = Memory::new();
    go(copying(&source, &all));
    let to = Fault::new(target.again());
    to.add(Rule::new(Op::PutBundle, What::Fail(ErrorKind::Denied, Remedy::None)).on("d/small"));
    to.add(Rule::new(Op::Commit, What::Fail(ErrorKind::Denied, Remedy::None)).on("large"));
    let mut copy = job(Arc::new(source.again()), Arc::new(to));
    copy.remove_source = true;
    let (report, _) = go(copy);
    assert_eq!(report.failed, 2);
    assert_eq!(source.paths(), [&b"d/"[..], b"d/small", b"large"], "all that landed is gone, other names included");
    let mut copy = copying(&source, &target);
    copy.remove_source = true;
    go(copy);
    assert_eq!(source.paths(), [b"d/"]);
    assert_eq!(all.paths(), target.paths());
}

#[test]
fn a_file_that_changes_while_it_is_read_is_done_once_more() {
    let (source, target) = (tree(), Memory::new());
    let from = Fault::new(source.again());
    from.add(Rule::new(Op::Read, What::StopShort).on("large"));
    let (report, _) = go(job(Arc::new(from), Arc::new(target.again())));
    assert_eq!((report.failed, report.retries), (0, 1), "{report:?}");
    assert_same(&source, &target);
}
