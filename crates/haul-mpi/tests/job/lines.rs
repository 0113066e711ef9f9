//! Lines of all ranks come whole, and are those of one process.

use std::fs;

use crate::support::World;

/// Names of some length, so that lines are cut anywhere, in many directories.
fn long(i: usize) -> String {
    format!("d{}/{}{i:05}", i % 40, "long-name-".repeat(20))
}

/// Every second file fails: a directory with something in it is in its way.
fn failing() -> World {
    let w = World::new("");
    for i in 0..2_000 {
        let (from, to) = (w.path("src").join(long(i)), w.path("dst").join(long(i)));
        fs::create_dir_all(from.parent().expect("below src")).expect("made");
        fs::write(from, "x").expect("written");
        if i % 2 == 0 {
            fs::create_dir_all(to.join("in-the-way")).expect("made");
        }
    }
    w
}

/// Of each line what one process says, too, sorted: not who says it, and when. The summary lists some of the failures.
fn sorted(text: &str) -> Vec<String> {
    let own = |line: &str| match line.strip_prefix("haul: rank ").and_then(|rest| rest.split_once(": ")) {
        Some((_, rest)) => format!("haul: {rest}"),
        None => line.to_string(),
    };
    let mut lines: Vec<String> = text.lines().map(own).filter(|line| line.contains("long-name") && !line.starts_with(' ')).collect();
    lines.sort();
    lines
}

#[test]
fn lines_of_several_ranks_are_those_of_one_process() {
    let w = failing();
    for (words, code) in [("cp -n -v", 23), ("check -q", 1), ("cp -v", 23)] {
        let ranks = w.ranks(3, &format!("{words} src/ dst")).ends(code);
        if words == "cp -v" {
            w.sh("find dst -type f -delete");
        }
        let one = w.haul(&format!("{words} src/ dst")).ends(code);
        assert!(sorted(&one.out).len() + sorted(&one.err).len() >= 1_000, "{words}");
        assert_eq!(sorted(&ranks.out), sorted(&one.out), "{words}");
        assert_eq!(sorted(&ranks.err), sorted(&one.err), "{words}");
    }
    let ranks = w.ranks(3, "cp --json src/ dst").ends(23);
    let records: Vec<&str> = ranks.out.lines().collect();
    assert!(records.iter().all(|line| line.starts_with("{\"") && line.ends_with('}')), "{ranks}");
    assert_eq!(records.iter().filter(|line| line.contains("\"event\":\"failed\"")).count(), 1_000);
    assert!(records.last().is_some_and(|line| line.contains("\"event\":\"finished\"")), "the summary is the last");
}
