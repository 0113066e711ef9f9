//! What limited a run is named rightly, whatever it was: each end, each kind of work and each lack of work made slow in turn.
//! Delays are large against what a busy machine adds.

use std::sync::Arc;
use std::time::Duration;

use haul_core::entry::MetaMask;
use haul_core::job::Job;
use haul_core::plan::Compare;
use haul_core::report::Report;
use haul_core::store::{Store, WriteStyle};
use haul_core::verdict::Limiter;
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{Run, content, copying, job};

/// Tests of one program share its processor time: but where processors are what is tested, there are more than all of them
/// together can keep busy.
const MANY: u32 = 1000;

fn run(workers: u32, processors: u32, job: Job) -> Report {
    Run { workers, processors, ..Run::default() }.go(job).0
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn slow(store: impl Store + 'static, delays: &[(Op, u64)]) -> Arc<dyn Store> {
    let delays: Vec<_> = delays.iter().map(|(op, n)| (*op, ms(*n))).collect();
    Arc::new(Fault::slow(Arc::new(store), &delays))
}

/// `large` files of 300 KB (which move alone) and `small` ones of 3 KB, over four directories.
fn tree(small: usize, large: usize) -> Memory {
    let store = Memory::new();
    for i in 0..small + large {
        let path = format!("d{}/{i}", i % 4);
        store.put(&path, content(&path, 0, if i < small { 3_000 } else { 300_000 }));
    }
    store
}

#[track_caller]
fn is(report: &Report, limiter: Limiter) {
    assert_eq!(report.failed, 0, "{report:?}");
    assert_eq!(report.limiter, limiter, "{}\n{:#?}\n{:#?}", report.limited_by, report.times, report.pace);
    assert!(!report.next.is_empty());
}

#[track_caller]
fn limited(job: Job, limiter: Limiter) -> Report {
    let report = run(4, MANY, job);
    is(&report, limiter);
    report
}

#[test]
fn slow_reads_of_the_source() {
    limited(job(slow(tree(0, 24), &[(Op::Read, 80)]), Arc::new(Memory::new())), Limiter::SourceReads);
    limited(job(slow(tree(400, 0), &[(Op::GetBundle, 60)]), Arc::new(Memory::new())), Limiter::SourceReads);
}

#[test]
#[ignore = "full"]
fn slow_writes_at_the_destination() {
    limited(job(Arc::new(tree(0, 24)), slow(Memory::new(), &[(Op::Write, 80)])), Limiter::DestinationWrites);
    limited(job(Arc::new(tree(0, 24)), slow(Memory::new(), &[(Op::Landed, 80)])), Limiter::DestinationWrites);
    limited(job(Arc::new(tree(400, 0)), slow(Memory::new(), &[(Op::PutBundle, 60)])), Limiter::DestinationWrites);
}

#[test]
#[ignore = "full"]
fn a_source_that_is_slow_to_list() {
    limited(job(slow(tree(40, 0), &[(Op::List, 300)]), Arc::new(Memory::new())), Limiter::SourceMetadata);
    // Names without attributes, each of which has to be looked up.
    let bare = tree(200, 0).with(|caps| caps.attributes.lists = MetaMask::NONE);
    limited(job(slow(bare, &[(Op::StatMany, 200)]), Arc::new(Memory::new())), Limiter::SourceMetadata);
    limited(job(slow(tree(0, 24), &[(Op::Open, 120)]), Arc::new(Memory::new())), Limiter::SourceMetadata);
}

#[test]
#[ignore = "full"]
fn a_destination_that_is_slow_to_create_and_to_look_up() {
    limited(job(Arc::new(tree(0, 24)), slow(Memory::new(), &[(Op::Create, 60), (Op::Commit, 60)])), Limiter::DestinationMetadata);
    limited(job(Arc::new(tree(40, 0)), slow(Memory::new(), &[(Op::MakeDirs, 300), (Op::SetMeta, 200)])), Limiter::DestinationMetadata);
    // Everything is there already: only looking it up costs.
    let (source, target) = (tree(200, 0), Memory::new());
    run(4, MANY, copying(&source, &target));
    limited(job(Arc::new(source), slow(target, &[(Op::StatMany, 200)])), Limiter::DestinationMetadata);
}

#[test]
fn reading_back_is_named_when_it_takes_the_time() {
    let mut verified = job(Arc::new(tree(0, 16)), slow(Memory::new(), &[(Op::ReadBack, 80)]));
    verified.verify = true;
    limited(verified, Limiter::Verifying);
}

#[test]
fn content_that_is_compared_is_hashed() {
    let (source, target) = (Memory::new(), Memory::new());
    for i in 0..8 {
        let path = format!("f{i}");
        let bytes = content(&path, 0, 6 << 20);
        source.put(&path, bytes.clone());
        target.put(&path, bytes);
    }
    let mut compared = job(Arc::new(source), Arc::new(target));
    compared.policy.compare = Compare::Content;
    // Whether that is what limits it depends on what else the machine does.
    let report = run(4, 1, compared);
    assert!(!report.times.hashing.is_zero(), "{:?}", report.times);
}

/// A store that takes one file from its start to its end.
fn in_order() -> Memory {
    Memory::new().with(|caps| {
        caps.write = WriteStyle::InOrder;
        caps.tuning.writers_per_file = 1;
    })
}

#[test]
fn one_huge_file_that_cannot_be_split() {
    let source = Memory::new();
    source.put("huge", content("huge", 0, 2 << 20));
    let one = limited(job(Arc::new(source), slow(in_order(), &[(Op::Write, 30)])), Limiter::OneFile);
    assert!(one.limited_by.contains("huge (2.0 MiB)"), "{}", one.limited_by);
}

#[test]
fn the_same_file_in_parts_is_no_lack_of_work() {
    let source = Memory::new();
    source.put("huge", content("huge", 0, 3 << 20));
    let parts = Memory::new().with(|caps| caps.tuning.writers_per_file = 8);
    limited(job(Arc::new(source), slow(parts, &[(Op::Write, 60)])), Limiter::DestinationWrites);
}

#[test]
fn a_file_in_parts_of_a_source_that_gains_from_several_readers() {
    for (readers, expected) in [(1, Limiter::OneFile), (8, Limiter::SourceReads)] {
        let source = Memory::new().with(|caps| caps.tuning.readers_per_file = readers);
        source.put("huge", content("huge", 0, 3 << 20));
        let source = Fault::slow(Arc::new(source), &[(Op::Read, ms(60))]);
        let target = Memory::new().with(|caps| caps.tuning.writers_per_file = 1);
        limited(job(Arc::new(source), Arc::new(target)), expected);
    }
}

#[test]
fn a_straggler_at_the_end() {
    let source = tree(0, 24);
    source.put("d3/last", content("last", 0, 1 << 20));
    let target = Fault::slow(Arc::new(in_order()), &[(Op::Write, ms(30))]);
    // It is found last, and takes as long as all the others together.
    target.add(Rule::new(Op::Write, What::Delay(ms(60))).on("d3/last").always());
    let listed = Fault::new(source);
    listed.add(Rule::new(Op::List, What::DelayEach(ms(100))).on("d3").always());
    let report = limited(job(Arc::new(listed), Arc::new(target)), Limiter::Straggler);
    assert!(report.limited_by.contains("last (1.0 MiB)"), "{}", report.limited_by);
}

#[test]
fn fewer_files_than_workers() {
    let source = Memory::new();
    for path in ["a", "b"] {
        source.put(path, content(path, 0, 1 << 20));
    }
    let report = run(8, MANY, job(Arc::new(source), slow(in_order(), &[(Op::Write, 50)])));
    is(&report, Limiter::FewFiles);
}

#[test]
fn a_limit_that_was_asked_for() {
    let mut limited_by = job(Arc::new(tree(0, 8)), Arc::new(Memory::new()));
    limited_by.limit = Some(3 << 20);
    let report = limited(limited_by, Limiter::Limit);
    assert!(report.times.writing < report.times.throttled / 4, "what was slept is not what was written: {:?}", report.times);
}

#[test]
fn too_short_to_say() {
    let source = Memory::new();
    source.put("a", b"a");
    limited(job(Arc::new(Memory::new()), Arc::new(Memory::new())), Limiter::TooShort);
    let mut dry = job(Arc::new(source), Arc::new(Memory::new()));
    dry.dry = true;
    limited(dry, Limiter::DryRun);
}

#[test]
fn a_file_has_no_more_workers_than_gain() {
    for (readers, writers, asked, expected) in
        [(1, 1, None, 1), (3, 1, None, 3), (1, 2, None, 2), (5, 2, None, 2), (3, 1, Some(2), 2), (1, 1, Some(4), 1)]
    {
        let source = Memory::new().with(|caps| caps.tuning.readers_per_file = readers);
        source.put("huge", content("huge", 0, 3 << 20));
        let source = Fault::slow(Arc::new(source), &[(Op::Read, ms(20))]);
        let target = Memory::new().with(|caps| caps.tuning.writers_per_file = writers);
        let mut copy = job(Arc::new(source.clone()), Arc::new(target));
        copy.writers = asked;
        let report = run(12, MANY, copy);
        assert_eq!((report.made.files, report.failed), (1, 0));
        let most = source.count(Op::Read).most_at_once;
        assert!((1..=expected).contains(&most), "{most} of {expected} with {readers} readers, {writers} writers, {asked:?}");
    }
}

/// What is counted as work adds up to what there was of it, whatever was waited for.
#[test]
fn no_time_is_counted_twice() {
    let source = tree(100, 12);
    let source = slow(source, &[(Op::Read, 10), (Op::GetBundle, 10), (Op::List, 20), (Op::Open, 10)]);
    let target = slow(Memory::new(), &[(Op::Write, 10), (Op::Commit, 10), (Op::PutBundle, 10), (Op::ReadBack, 10), (Op::List, 10)]);
    let mut all = job(source, target);
    all.verify = true;
    all.limit = Some(8 << 20);
    let report = run(4, MANY, all);
    let there_was = report.elapsed * 4;
    assert!(report.times.busy() <= there_was + ms(20), "{:?} of {there_was:?}: {:#?}", report.times.busy(), report.times);
}
