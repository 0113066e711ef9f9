//! Many small runs with delays and limits that jump: every run ends, and every tree arrives.

use std::sync::Arc;
use std::time::Duration;

use haul_core::event::Action;
use haul_core::report::Ending;
use haul_core::spec::Deletion;
use haul_core::tune::{Demand, Limits, Sample, Tuner};
use haul_test::content::Random;
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{Run, content, job};

/// Another limit at each tick.
struct Jumping(Random);

impl Tuner for Jumping {
    fn sample(&mut self, _: &Sample) {}
    fn tick(&mut self, _: Duration, _: Demand) -> Limits {
        Limits { workers: 1 + self.0.below(16) as u32 }
    }
    fn name(&self) -> &'static str {
        "jumping"
    }
}

fn tree(random: &mut Random) -> Memory {
    let store = Memory::new();
    let dirs = 1 + random.below(12);
    for i in 0..1 + random.below(150) {
        let mut path = String::new();
        for _ in 0..random.below(5) {
            path += &format!("d{}/", random.below(dirs));
        }
        let size = match random.below(20) {
            0 => 300_000 + random.below(200_000),
            1..=3 => random.below(20_000),
            _ => random.below(100),
        };
        path += &format!("f{i}");
        store.put(&path, content(&path, 0, size as usize));
    }
    for i in 0..random.below(20) {
        store.put_dir(format!("e{}/empty{i}", i % 3));
    }
    store
}

fn slow(random: &mut Random, store: &Memory) -> Arc<Fault> {
    const OPS: [Op; 12] = [
        Op::List,
        Op::StatMany,
        Op::GetBundle,
        Op::PutBundle,
        Op::MakeDirs,
        Op::SetMeta,
        Op::Create,
        Op::Write,
        Op::Read,
        Op::Commit,
        Op::Remove,
        Op::Sync,
    ];
    let fault = Fault::new(store.again());
    for op in OPS {
        if random.below(3) == 0 {
            let delay = Duration::from_micros(random.below(3000));
            fault.add(Rule::new(op, What::Delay(delay)).nth(1 + random.below(10)).times(1 + random.below(20)));
        }
    }
    Arc::new(fault)
}

#[test]
#[ignore = "full"]
fn random_runs_with_jumping_limits_always_end_with_equal_trees() {
    let seed = 0x5eed_0001_u64;
    let runs = 150;
    // The seed of a run is in the message of its failure.
    for i in 0..runs {
        let mut random = Random::new(seed + i);
        let source = tree(&mut random);
        let target = Memory::new();
        for j in 0..random.below(10) {
            target.put(format!("d{}/extra{j}/x", j % 4), b"extra");
        }
        let mut sync = job(slow(&mut random, &source), slow(&mut random, &target));
        sync.deletion = Some(Deletion::default());
        sync.verify = random.below(2) == 0;
        let run = Run { tuner: Some(Box::new(Jumping(Random::new(i)))), ..Run::default() };
        let (report, diary) = run.go(sync);
        assert_eq!((report.ending, report.failed), (Ending::Complete, 0), "seed {seed:#x} + {i}: {report:?}");
        let differ = crate::support::differences(&source, &target);
        assert!(differ.is_empty(), "seed {seed:#x} + {i}: {differ:#?} {:?}", diary.of(Action::SetMeta));
    }
}

/// Eight workers for a while, then one.
struct Lowered(u32);

impl Tuner for Lowered {
    fn sample(&mut self, _: &Sample) {}
    fn tick(&mut self, _: Duration, _: Demand) -> Limits {
        self.0 += 1;
        Limits { workers: if self.0 < 8 { 8 } else { 1 } }
    }
    fn name(&self) -> &'static str {
        "lowered"
    }
}

#[test]
fn a_limit_that_is_lowered_holds_in_the_middle_of_a_file() {
    let source = Memory::new();
    source.put("huge", content("huge", 0, 6 << 20));
    let from = Fault::slow(Arc::new(source.again()), &[(Op::Read, Duration::from_millis(40))]);
    let target = Memory::new();
    let run = Run { tuner: Some(Box::new(Lowered(0))), ..Run::workers(8) };
    let (report, _) = run.go(job(Arc::new(from), Arc::new(target.again())));
    assert_eq!((report.failed, target.get("huge")), (0, source.get("huge")), "{report:?}");
    let most = report.pace.points.iter().map(|point| point.busy as u32).max();
    let last = report.pace.points.iter().rev().nth(1).expect("it takes a while");
    assert!(most >= Some(4) && last.busy < 2.0, "{:#?}", report.pace);
}
