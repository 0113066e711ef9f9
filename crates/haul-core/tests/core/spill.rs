//! Queue, stack and sorter against vectors, with limits so small that they spill all the time.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::path::Path;

use haul_core::spill::{Sorter, SpillQueue, SpillStack};
use proptest::prelude::*;

const LIMITS: [usize; 9] = [0, 3, 9, 16, 41, 64, 200, 1000, 100_000];

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..Default::default() }
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..12),
        2 => prop::collection::vec(any::<u8>(), 12..60),
        1 => prop::collection::vec(any::<u8>(), 60..700),
    ]
}

/// Pushes of records and (`None`) pops, in stretches, so that what was spilled comes back too.
fn steps() -> impl Strategy<Value = Vec<Option<Vec<u8>>>> {
    let push = prop::collection::vec(record().prop_map(Some), 0..40);
    let pop = (0..40usize).prop_map(|count| vec![None; count]);
    prop::collection::vec(prop_oneof![3 => push, 2 => pop], 0..12).prop_map(|stretches| stretches.concat())
}

/// Does the steps with a queue or a stack and with a deque of which one end is taken from.
macro_rules! like_a_deque {
    ($spill:ident, $pop:ident, $steps:ident, $limit:ident) => {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = $spill::new(dir.path(), $limit);
        let mut model = VecDeque::new();
        for step in $steps {
            match step {
                Some(record) => {
                    spill.push(&record).unwrap();
                    model.push_back(record);
                }
                None => prop_assert_eq!(spill.pop().unwrap(), model.$pop()),
            }
            prop_assert_eq!(spill.len(), model.len() as u64);
            prop_assert_eq!(spill.is_empty(), model.is_empty());
            prop_assert!(spill.memory() <= $limit, "{} bytes of {}", spill.memory(), $limit);
        }
        while let Some(record) = spill.pop().unwrap() {
            prop_assert_eq!(Some(record), model.$pop());
        }
        prop_assert!(model.is_empty());
    };
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn queue_is_a_deque(steps in steps(), limit in prop::sample::select(&LIMITS[..])) {
        like_a_deque!(SpillQueue, pop_front, steps, limit);
    }

    #[test]
    fn stack_is_a_vector(steps in steps(), limit in prop::sample::select(&LIMITS[..])) {
        like_a_deque!(SpillStack, pop_back, steps, limit);
    }

    #[test]
    fn sorter_is_a_stable_sort(
        records in prop::collection::vec(record(), 0..400),
        limit in prop::sample::select(&LIMITS[5..]),
        by_first_byte in any::<bool>(),
        dedup in any::<bool>(),
    ) {
        let compare = if by_first_byte { first_byte } else { whole };
        let dir = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(dir.path(), limit, compare);
        if dedup {
            sorter = sorter.dedup();
        }
        for record in &records {
            sorter.push(record).unwrap();
            prop_assert!(sorter.memory() <= limit, "{} bytes of {}", sorter.memory(), limit);
        }
        // Longer ones are held whole, beyond the limit.
        let all_fit = records.iter().all(|record| record.len() + 4 <= limit / 4);
        let mut sorted = sorter.finish().unwrap();
        let mut found = Vec::new();
        while let Some(record) = sorted.next() {
            prop_assert!(!all_fit || sorted.memory() <= limit, "{} bytes of {}", sorted.memory(), limit);
            found.push(record.unwrap());
        }
        let mut model = records;
        model.sort_by(|a, b| compare(a, b));
        if dedup {
            model.dedup_by(|later, first| compare(first, later).is_eq());
        }
        prop_assert_eq!(found, model);
    }
}

fn whole(a: &[u8], b: &[u8]) -> Ordering {
    a.cmp(b)
}

fn first_byte(a: &[u8], b: &[u8]) -> Ordering {
    a.first().map(|byte| byte % 16).cmp(&b.first().map(|byte| byte % 16))
}

/// Enough for several merge passes and for blocks of full size.
#[test]
fn many_records_in_little_memory() {
    const COUNT: u64 = 300_000;
    const LIMIT: usize = 256 << 10;
    let scattered = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let dir = tempfile::tempdir().unwrap();
    let mut sorter = Sorter::new(dir.path(), LIMIT, whole);
    let mut queue = SpillQueue::new(dir.path(), LIMIT);
    let mut stack = SpillStack::new(dir.path(), LIMIT);
    for number in 0..COUNT {
        sorter.push(&scattered(number)).unwrap();
        queue.push(&scattered(number)).unwrap();
        stack.push(&scattered(number)).unwrap();
        assert!(sorter.memory().max(queue.memory()).max(stack.memory()) <= LIMIT);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the files have no names");
    let mut expected: Vec<[u8; 8]> = (0..COUNT).map(scattered).collect();
    expected.sort();
    let mut sorted = sorter.finish().unwrap();
    for number in 0..COUNT {
        assert_eq!(sorted.next().unwrap().unwrap(), expected[number as usize]);
        assert_eq!(queue.pop().unwrap().unwrap(), scattered(number));
        assert_eq!(stack.pop().unwrap().unwrap(), scattered(COUNT - 1 - number));
        assert!(sorted.memory().max(queue.memory()).max(stack.memory()) <= LIMIT);
    }
    assert!(sorted.next().is_none() && queue.pop().unwrap().is_none() && stack.pop().unwrap().is_none());
}

#[test]
fn an_error_loses_nothing_that_was_taken() {
    let nowhere = Path::new("/nonexistent/spill");
    let mut queue = SpillQueue::new(nowhere, 64);
    let mut stack = SpillStack::new(nowhere, 64);
    let (mut queued, mut stacked) = (0u8, 0u8);
    while queue.push(&[queued; 4]).is_ok() {
        queued += 1;
    }
    while stack.push(&[stacked; 4]).is_ok() {
        stacked += 1;
    }
    assert!(queued >= 4 && stacked >= 4, "memory holds {queued} and {stacked}");
    assert!(queue.push(&[0; 500]).is_err() && stack.push(&[0; 500]).is_err());
    assert_eq!((queue.len(), stack.len()), (u64::from(queued), u64::from(stacked)));
    for number in 0..queued {
        assert_eq!(queue.pop().unwrap(), Some(vec![number; 4]));
    }
    for number in (0..stacked).rev() {
        assert_eq!(stack.pop().unwrap(), Some(vec![number; 4]));
    }
    assert!(queue.is_empty() && stack.is_empty());

    let mut sorter = Sorter::new(nowhere, 64, whole);
    assert!((0..100u8).any(|number| sorter.push(&[number; 4]).is_err()));
    assert!(Sorter::new(nowhere, 64, whole).finish().unwrap().next().is_none());
}
