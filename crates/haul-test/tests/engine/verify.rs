//! `--verify` and `--remove-source-files`: what is judged, and what is removed only after that.

use std::sync::Arc;

use haul_core::hash::Algorithm;
use haul_core::job::Mode;
use haul_core::journal::{Begin, Identity, State};
use haul_core::plan::Compare;
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

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

/// A destination that computes checksums.
fn computing() -> Memory {
    Memory::new().with(|caps| caps.remote = true).computing(&[Algorithm::Sha256, Algorithm::Md5])
}

#[test]
fn a_destination_that_computes_checksums_is_not_read() {
    for path in [None, Some("large"), Some("d/small")] {
        let (source, target) = (tree(), computing());
        target.put("d/other", b"to be replaced");
        let to = Fault::new(target.again());
        if let Some(path) = path {
            to.add(Rule::new(if path == "large" { Op::Write } else { Op::PutBundle }, What::FlipBit).on(path));
        }
        let count = |op| to.count(op).calls;
        let mut copy = job(Arc::new(source.again()), Arc::new(to.clone()));
        (copy.verify, copy.remove_source) = (true, true);
        let expected: Vec<_> = ["d/small", "d/other", "large", "empty"].map(|path| (path, source.get(path))).into();
        let (report, _) = go(copy);
        // What was damaged is sent once more, and it is the source that is read for that.
        assert_eq!((report.failed, report.retries), (0, u64::from(path.is_some())), "{path:?}: {report:?}");
        assert_eq!(report.proof, Some("checksum computed by the server"));
        assert_eq!((count(Op::Reread), count(Op::Reopen)), (0, 0), "{path:?}");
        assert_eq!(count(Op::Digest), 4 + u64::from(path.is_some()), "{path:?}");
        for (path, content) in expected {
            assert_eq!(target.get(path), content, "{path}");
        }
    }
}

#[test]
fn a_checksum_that_fails_is_done_without_and_said_once() {
    let (source, target) = (tree(), computing());
    let to = Fault::new(target.again());
    to.add(Rule::new(Op::Digest, What::Fail(ErrorKind::Other, Remedy::None)).always());
    let mut copy = job(Arc::new(source.again()), Arc::new(to));
    copy.verify = true;
    let (report, diary) = go(copy);
    assert_eq!((report.failed, report.retries, report.verified_files), (0, 0, 4), "{report:?}");
    assert_eq!(report.proof, Some("reread from memory"));
    assert_eq!(diary.notes("files are read instead"), 1);
    assert_same(&source, &target);
}

#[test]
fn check_compares_by_checksums_of_either_end() {
    for (from, to) in [(true, false), (false, true), (true, true), (false, false)] {
        let end = |computes: bool| if computes { computing() } else { Memory::new() };
        let (source, target) = (end(from), end(to));
        for path in ["a", "b", "c"] {
            source.put(path, content(path, 0, 2 << 20));
            target.put(path, content(path, u64::from(path == "b"), 2 << 20));
        }
        let ends = [Fault::new(source), Fault::new(target)];
        let [one, other] = ends.each_ref().map(|end| Arc::new(end.clone()));
        let mut check = job(one, other);
        (check.mode, check.policy.compare) = (Mode::Check, Compare::Content);
        let (report, _) = go(check);
        assert_eq!((report.failed, report.kept.files, report.differing), (0, 2, 1), "{from} {to}: {report:?}");
        for (end, computes) in ends.iter().zip([from, to]) {
            assert_eq!((end.count(Op::Read).calls == 0, end.count(Op::Digest).calls > 0), (computes, computes), "{from} {to}");
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
