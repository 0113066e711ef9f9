//! What the team's policy does with many ranks: discrete events in virtual time, no disk, no thread. Who asks whom and what is
//! given is the engine's own code; a rank here has the queues of the engine's scheduler as numbers.
//!
//! `cargo test --release -p haul-core --test core scaling -- --nocapture` prints the table of docs/scaling.md.

mod tree;
mod world;

use tree::Shape;
use world::{Costs, Outcome, World};

const RANKS: [u32; 4] = [1, 8, 64, 512];

fn run(shape: Shape, ranks: u32, slow: Option<(u32, u64)>) -> Outcome {
    World::new(shape, ranks, Costs::default(), slow).run()
}

fn table(title: &str, shape: Shape, slow: Option<(u32, u64)>) -> Vec<Outcome> {
    println!("{title}");
    println!("  ranks   seconds   of ideal   idle   messages per file   messages of a rank   KiB of a rank");
    let outcomes: Vec<Outcome> = RANKS.iter().map(|ranks| run(shape, *ranks, slow.filter(|(rank, _)| rank < ranks))).collect();
    for o in &outcomes {
        println!(
            "  {:5} {:9.2} {:10.3} {:5.1} % {:19.5} {:20} {:15}",
            o.ranks,
            o.seconds,
            o.seconds / o.ideal,
            o.idle * 100.0,
            o.messages as f64 / o.items as f64,
            o.most_messages,
            o.memory / 1024
        );
    }
    outcomes
}

/// The goals of many ranks.
fn good(outcomes: &[Outcome]) {
    for o in outcomes {
        assert!(o.idle < 0.05, "{} ranks: {:.1} % idle", o.ranks, o.idle * 100.0);
        assert!(o.seconds / o.ideal < 1.1, "{} ranks: {} s, ideal {} s", o.ranks, o.seconds, o.ideal);
        assert!((o.messages as f64) < 0.1 * o.items as f64, "{} ranks: {} messages for {}", o.ranks, o.messages, o.items);
        assert!(o.memory < 16 << 20, "{} ranks: {} bytes", o.ranks, o.memory);
        assert_eq!(o.items, outcomes[0].items, "everything was done once");
    }
}

#[test]
fn a_deep_tree() {
    good(&table("deep tree: 10,000,000 files, at most two subdirectories each", Shape::Deep { files: 10_000_000 }, None));
}

#[test]
#[ignore = "full"]
fn one_directory_of_ten_million_names() {
    good(&table("one directory of 10,000,000 files", Shape::Flat { files: 10_000_000 }, None));
}

#[test]
fn one_large_file() {
    good(&table("one file of 10 TiB in chunks of 16 MiB", Shape::File { chunks: 10 << 16 }, None));
}

#[test]
#[ignore = "full"]
fn a_skewed_tree() {
    good(&table("skewed tree: 10,000,000 files, 90 % of every tree in one subdirectory", Shape::Skewed { files: 10_000_000 }, None));
}

#[test]
#[ignore = "full"]
fn a_straggling_node() {
    good(&table("deep tree, one rank 100 times slower", Shape::Deep { files: 10_000_000 }, Some((5, 100))));
}

#[test]
fn a_job_too_small_for_its_ranks() {
    let outcomes = table("deep tree: 100,000 files", Shape::Deep { files: 100_000 }, None);
    for pair in outcomes.windows(2) {
        assert!(pair[1].seconds < pair[0].seconds, "{} ranks are slower than {}", pair[1].ranks, pair[0].ranks);
    }
}
