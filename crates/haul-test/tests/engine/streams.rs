//! A source whose size is known only at its end.

use std::io::Write;
use std::sync::Arc;

use haul_core::job::{Job, Pick, Root};
use haul_core::plan::Compare;
use haul_core::store::Store;
use haul_core::{ErrorKind, Remedy};
use haul_run::stream::{Input, Output};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{content, go, job};

/// A pipe from which these bytes come, in several pieces.
fn pipe(bytes: Vec<u8>) -> Arc<dyn Store> {
    let (from, to) = std::io::pipe().expect("a pipe");
    std::thread::spawn(move || {
        let mut to = to;
        // A reader that has gone is what some tests are about.
        let _ = bytes.chunks(100_000).try_for_each(|piece| to.write_all(piece));
    });
    Arc::new(Input::new(b"-", from.into()))
}

fn copy(bytes: &[u8], target: Arc<dyn Store>, verify: bool) -> Job {
    let mut copy = job(Arc::new(Memory::new()), target);
    copy.roots = vec![Root::new(pipe(bytes.to_vec()), Pick::Names([b"-".to_vec()].into()))];
    (copy.rename, copy.verify, copy.policy.compare) = (Some(b"out".to_vec()), verify, Compare::Never);
    copy
}

#[test]
fn a_stream_becomes_a_file_whatever_its_size() {
    for size in [0, 1, 65_536, 65_537, 3_500_000] {
        for (target, verify) in [(Memory::new(), false), (Memory::new(), true), (Memory::objects(), false), (Memory::objects(), true)] {
            let bytes = content("stream", 0, size);
            target.put("out", b"an older file");
            let (report, _) = go(copy(&bytes, Arc::new(target.again()), verify));
            assert_eq!((report.failed, report.made.files, report.bytes), (0, 1, size as u64), "{size} verify {verify}: {report:?}");
            assert_eq!(report.verified_bytes, if verify { size as u64 } else { 0 });
            assert!(target.get("out").as_deref() == Some(&bytes), "{size} bytes, verify {verify}");
            assert_eq!(target.sessions(), 0, "{size} bytes, verify {verify}");
        }
    }
}

#[test]
fn a_passing_fault_is_tried_again_and_another_leaves_what_was_there() {
    let bytes = content("stream", 0, 2_000_000);
    for (what, lands) in [
        (What::Fail(ErrorKind::Other, Remedy::Again), true),
        (What::Fail(ErrorKind::Io, Remedy::None), false),
        (What::NoSpace, false),
        (What::FlipBit, false),
    ] {
        for nth in 1..3 {
            for (target, is_service) in [(Memory::new(), false), (Memory::objects(), true)] {
                target.put("out", b"an older file");
                let fault = Fault::new(target.again());
                fault.add(Rule::new(Op::Write, what.clone()).nth(nth));
                let (report, _) = go(copy(&bytes, Arc::new(fault), true));
                let words = format!("{what:?}, write {nth}: {report:?}");
                assert_eq!(report.failed, u64::from(!lands), "{words}");
                let left = target.get("out");
                match what {
                    // A service can be read only once the object has its name: what came out wrong is removed.
                    What::FlipBit if is_service => assert!(left.is_none(), "{words}"),
                    _ => assert!(left.as_deref() == Some(if lands { &bytes[..] } else { b"an older file" }), "{words}"),
                }
                assert_eq!(target.sessions(), 0, "{words}");
            }
        }
    }
}

/// Whatever fails in the middle, what has left is not sent again, and the rest follows.
#[test]
fn a_stream_is_written_once_though_reads_of_its_source_fail() {
    for size in [0, 1, 65_536, 3_500_000] {
        for (op, nth) in [(Op::Read, 1), (Op::Read, 2), (Op::Open, 1), (Op::GetBundle, 1)] {
            let bytes = content("out", 0, size);
            let source = Memory::new();
            source.put("in", &bytes);
            let fault = Fault::new(source);
            fault.add(Rule::new(op, What::Fail(ErrorKind::Other, Remedy::Again)).nth(nth));
            let (mut from, to) = std::io::pipe().expect("a pipe");
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                std::io::Read::read_to_end(&mut from, &mut all).expect("read the pipe");
                all
            });
            let mut copy = job(Arc::new(fault), Arc::new(Output::new(to.into())));
            copy.roots[0].pick = Pick::Names([b"in".to_vec()].into());
            (copy.rename, copy.policy.compare) = (Some(b"-".to_vec()), Compare::Never);
            let (report, _) = go(copy);
            assert_eq!((report.failed, report.made.files, report.bytes), (0, 1, size as u64), "{size} {op:?} {nth}: {report:?}");
            assert!(reader.join().expect("read") == bytes, "{size} {op:?} {nth}");
        }
    }
}
