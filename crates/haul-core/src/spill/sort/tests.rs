use super::*;

#[test]
fn shares_stay_within_the_limit() {
    for limit in (LEAST..3000).chain([64 << 10, 100_000, 1 << 20, 8 << 20, 100 << 20]) {
        let Shares { run, block, fan_in } = Shares::of(limit);
        assert!(run + block <= limit && (fan_in + 2) * block <= limit, "{limit}");
        assert!((1..=BLOCK).contains(&block) && (2..=FAN_IN).contains(&fan_in), "{limit}");
    }
    assert_eq!(Shares::of(8 << 20).fan_in, FAN_IN);
}

#[test]
fn a_run_fills_most_of_its_memory() {
    let dir = tempfile::tempdir().unwrap();
    for record in [&[7; 3][..], &[7; 60], &[7; 900]] {
        let mut sorter = Sorter::new(dir.path(), 1 << 20, |a, b| a.cmp(b));
        let mut count = 0;
        while sorter.runs.is_empty() {
            sorter.push(record).unwrap();
            count += 1;
        }
        assert!(count * (record.len() + HEADER + size_of::<usize>()) > sorter.shares.run * 3 / 4, "{} records of {}", count, record.len());
    }
}
