//! Memory stays flat however many names there are: each run is a process of its own, whose peak is asked for.

use std::process::Command;

/// Peak in KiB and entries found, of a run over a tree of this shape.
fn peak(shape: &str, n: u64) -> (u64, u64) {
    // One arena: what is measured is what the engine holds, not what the allocator keeps for each thread.
    let run = Command::new(env!("CARGO_BIN_EXE_haul-peak")).args([shape, &n.to_string()]).env("MALLOC_ARENA_MAX", "1").output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let line = String::from_utf8_lossy(&run.stdout).into_owned();
    let mut numbers = line.split_whitespace().map(|word| word.parse::<f64>().unwrap() as u64);
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// KiB; of a build without optimisation, with 8 workers.
const MOST: u64 = 64 << 10;
/// Under load the allocator keeps more for its threads; ten times the names would be ten times as much.
const MORE: u64 = 20 << 10;

fn flat(shape: &str, few: u64, many: u64, found: u64) {
    let (small, _) = peak(shape, few);
    let (large, all) = peak(shape, many);
    assert_eq!(all, found, "{shape}");
    assert!(large <= MOST, "{shape}: {large} KiB");
    assert!(large <= small + MORE, "{shape}: {small} KiB for {few}, {large} KiB for {many}");
}

#[test]
#[ignore = "full"]
fn a_million_files_need_no_more_memory_than_a_hundred_thousand() {
    flat("files", 100_000, 1_000_000, 1_001_001);
}

#[test]
#[ignore = "full"]
fn one_directory_may_have_a_million_files() {
    flat("wide", 100_000, 1_000_000, 1_000_002);
}

#[test]
#[ignore = "full"]
fn directories_that_wait_to_be_listed_wait_on_disk() {
    flat("dirs", 30_000, 300_000, 300_001);
}

#[test]
fn an_unchanged_tree_is_merged_in_flat_memory() {
    flat("kept", 100_000, 500_000, 500_501);
}

#[test]
#[ignore = "full"]
fn large_listings_are_sorted_on_disk() {
    flat("kept-wide", 200_000, 800_000, 800_005);
}

#[test]
#[ignore = "full"]
fn files_with_several_names_are_followed_in_bounded_memory() {
    let (peak, found) = peak("links", 900_000);
    assert_eq!(found, 900_001);
    assert!(peak <= MOST, "{peak} KiB");
}

#[test]
#[ignore = "full"]
fn a_tree_may_be_twenty_thousand_directories_deep() {
    let (_, found) = peak("deep", 20_000);
    assert_eq!(found, 1 + 20_000 + 20_001);
}
