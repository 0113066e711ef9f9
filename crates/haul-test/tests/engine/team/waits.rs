//! What ranks wait for ends.

use std::sync::Arc;
use std::time::Duration;

use haul_core::report::Ending;
use haul_stores::memory::Memory;
use haul_test::fault::{Fault, Op, Rule, What};

use super::ranks;
use crate::support::{Run, assert_same, content, job, put_hard_link};

#[test]
fn ranks_that_copy_the_first_names_lend_each_other_chunks_and_end() {
    let source = Memory::new();
    for i in 0..96 {
        source.put(format!("large{i}"), content("large", i as u64, (16 + 7 * (i % 6)) * (64 << 10)));
        put_hard_link(&source, &format!("name{i}"), &format!("large{i}"));
    }
    let target = Memory::new().with(|caps| caps.writers_per_file = 4);
    let of = |_| {
        let from = Fault::new(source.again());
        from.add(Rule::new(Op::Read, What::Delay(Duration::from_millis(2))).always());
        (job(Arc::new(from), Arc::new(target.again())), Run::workers(1))
    };
    let reports = ranks(8, &of);
    assert_eq!((reports[0].ending, reports[0].hard_links, reports[0].failed), (Ending::Complete, 96, 0), "{:?}", reports[0]);
    assert_same(&source, &target);
}
