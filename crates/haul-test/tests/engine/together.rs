//! Several runs in one process at once: each has its own display, limits and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haul_core::cancel::{Cancel, Stop};
use haul_core::event::Action;
use haul_core::report::Ending;
use haul_core::retry::Policy;
use haul_core::{ErrorKind, Remedy};
use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;

use crate::support::{Run, assert_same, content, job};

#[test]
fn runs_in_one_process_know_nothing_of_each_other() {
    let begun = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for n in 0..6u32 {
            let begun = &begun;
            scope.spawn(move || {
                let (source, target) = (Memory::new(), Memory::new());
                for i in 0..40 {
                    source.put(format!("{n}/{i}"), content("small", u64::from(n), 500));
                }
                source.put(format!("{n}/large"), content("large", u64::from(n), 400_000));
                let fault = Fault::new(target.again());
                let passing = Rule::new(Op::Write, What::Fail(ErrorKind::Other, Remedy::Again)).always();
                let (cancel, expected) = (Cancel::default(), [Ending::Complete, Ending::Complete, Ending::Interrupted][n as usize % 3]);
                // One has nothing to suffer, one fails as often as its own policy allows, one is stopped.
                match n % 3 {
                    1 => fault.add(passing),
                    2 => assert!(cancel.set(Stop::Signal)),
                    _ => {}
                }
                let mut copy = job(Arc::new(source.again()), Arc::new(fault));
                copy.retries = Policy::of(Some(n));
                begun.fetch_add(1, Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) < 6 {
                    std::thread::yield_now();
                }
                let (report, diary) = Run { cancel, ..Run::default() }.go(copy);
                assert_eq!(report.ending, expected, "run {n}: {report:?}");
                assert_eq!(report.failed, u64::from(n % 3 == 1), "run {n}: {report:?}");
                assert!(diary.of(Action::Create).iter().all(|name| name.starts_with(&format!("{n}/"))), "run {n}");
                if n % 3 == 0 {
                    assert_same(&source, &target);
                }
                if n % 3 == 1 {
                    assert!(report.retries >= u64::from(n), "run {n}: {report:?}");
                    assert_eq!(report.failures[0].path, format!("{n}/large").as_bytes());
                }
            });
        }
    });
}
