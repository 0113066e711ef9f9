//! The conformance suite on the fault store, without rules and with rules that change nothing.

use std::time::Duration;

use haul_test::fault::{Fault, Op, Rule, What};
use haul_test::memory::Memory;
use haul_test::store_suite;
use haul_test::suite::Fixture;

store_suite!(no_faults, || Fixture::of_memory(Memory::new()).wrapped(Fault::round));

store_suite!(no_faults_round_objects, || Fixture::of_memory(Memory::objects()).wrapped(Fault::round));

// Rules that change nothing: every call then goes by the ways that rules take.
store_suite!(watched, || {
    Fixture::of_memory(Memory::new()).wrapped(|store| {
        let fault = Fault::round(store);
        for &op in Op::ALL {
            fault.add(Rule::new(op, What::DelayEach(Duration::ZERO)).always());
        }
        fault
    })
});
