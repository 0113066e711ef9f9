//! rm, du and sum: several ranks print and return what one process does.

use std::fs;
use std::os::unix::fs::symlink;

use haul_test::tree::spread;

use crate::support::{World, own};

/// Three trees with files of several names, links, empty directories and many names in one.
fn trees() -> World {
    let w = World::new("a: big=3M d/e/f/g=3K empty/ n=1\nb: x=5 y/z=7\nc: one=1");
    spread(&w.path("a/many"), 30, 12, 700).expect("made");
    for i in 0..700 {
        fs::write(w.path(format!("b/y/file{i}")), vec![b'x'; i]).expect("written");
    }
    for i in 0..40 {
        fs::hard_link(w.path("a/big"), w.path(format!("a/many/d{:05}/again{i}", i % 20))).expect("made");
    }
    symlink("big", w.path("a/link")).expect("made");
    w
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Runs one process and several ranks, which must say the same: in this order, or in any.
fn both(w: &World, ranks: u32, words: &str, in_order: bool) {
    let one = w.haul(words).run();
    let code = one.status.code().expect("not killed");
    let many = w.ranks(ranks, words).ends(code);
    if in_order {
        assert_eq!(many.out, one.out, "{words}");
    }
    assert_eq!((sorted(&many.out), own(&many.err)), (sorted(&one.out), sorted(&one.err)), "{words}");
}

#[test]
fn du_and_sum_of_several_arguments_are_those_of_one_process() {
    let w = trees();
    fs::create_dir(w.path("none")).expect("made");
    for ranks in [2, 4] {
        both(&w, ranks, "du a b c a/n none missing", true);
        both(&w, ranks, "du -d 3 --json a b", true);
        both(&w, ranks, "sum --format sha256sum a b/ c a/n missing", true);
    }
    both(&w, 3, "du --exclude y --min-size 1K a b", true);
    both(&w, 3, "sum a", true);
    both(&w, 3, "sum --json --exclude y b", true);
    both(&w, 2, "sum a b", true);
    let (one, many) = ("sum -o one.txt a", "sum -o many.txt a");
    w.haul(one).ends(0);
    w.ranks(3, many).ends(0);
    assert_eq!(w.text("one.txt"), w.text("many.txt"));
    assert!(w.text("one.txt").lines().count() > 300);
}

#[test]
fn rm_of_several_arguments_removes_all_and_names_what_it_cannot() {
    let w = trees();
    both(&w, 3, "rm -r -n a b c", false);
    both(&w, 3, "rm a", true);
    both(&w, 3, "rm -r .", true);
    w.sh("cp -a a a2; cp -a b b2");
    // What is busy stays: the mount point of another file system, and what is above it.
    let both_ways = |words: &str, one: bool| {
        let script = "mkdir -p a/many/d00003/m && mount -t tmpfs none a/many/d00003/m && exec";
        let run = if one {
            w.program(std::process::Command::new("unshare"), "--mount sh -c")
                .arg(format!("{script} {} {words}", haul_test::program::haul().display()))
        } else {
            w.in_namespace(3, script, words)
        };
        run.ends(23)
    };
    let many = both_ways("rm -r -v a b c missing", false);
    assert!(w.path("a/many/d00003/m").exists() && !w.path("a/big").exists() && !w.path("b").exists() && !w.path("c").exists());
    w.sh("rm -r a; mv a2 a; mv b2 b; mkdir c; echo -n x >c/one");
    let one = both_ways("rm -r -v a b c missing", true);
    assert_eq!((sorted(&many.out), own(&many.err)), (sorted(&one.out), sorted(&one.err)));
    assert!(one.err.contains("a/many/d00003/m") && one.err.contains("removed b/y/file3\n"), "{one}");
    w.sh("rm -rf a b c; mkdir t");
    spread(&w.path("t/s"), 120, 3, 10).expect("made");
    for i in 0..200 {
        fs::create_dir_all(w.path(format!("t/deep/{i}/x/y"))).expect("made");
    }
    let gone = w.ranks(4, "rm -r --json t").ends(0);
    let removed: Vec<&str> = gone.out.lines().filter(|line| line.contains("\"event\":\"removed\"")).collect();
    assert!(removed.len() > 900 && removed.len() == gone.out.lines().count(), "{}", gone.out);
    assert!(!w.path("t").exists());
}

#[test]
fn rm_with_filters_leaves_what_they_leave_and_the_directories_above_it() {
    let w = trees();
    w.sh("cp -a a a2; cp -a b b2; touch -d '3 days ago' b/y/file2* b2/y/file2*");
    let filters = "--exclude d00007 --include *.x --exclude n --min-size 100B";
    let words = |dry: &str| format!("rm -r -v {dry} {filters} a b");
    both(&w, 3, &words("-n"), false);
    let many = w.ranks(3, &words("")).run();
    w.sh("mkdir many one; mv a b many; mv a2 a; mv b2 b");
    let one = w.haul(&words("")).run();
    w.sh("mv a b one");
    assert_eq!(many.status.code(), one.status.code());
    assert_eq!((sorted(&many.out), own(&many.err)), (sorted(&one.out), sorted(&one.err)));
    // The times of directories are those of the removals.
    w.sh("for d in one many; do (cd $d && find . | sort) >$d.list; done");
    assert_eq!(w.text("one.list"), w.text("many.list"));
    assert!(w.path("many/a/many/d00007/f0000001").exists() && w.path("many/a/n").exists() && w.path("many/b/y/file50").exists());
    assert!(!w.path("many/a/big").exists() && !w.path("many/b/y/file500").exists() && one.err.contains("removed b/y/file500\n"), "{one}");
    let old = "rm -r --older-than 2d many/b";
    w.ranks(4, old).ends(0);
    assert!(!w.path("many/b/y/file22").exists() && w.path("many/b/y/file50").exists());
}

/// Several arguments are one session: a session of each made one run in twenty hang.
#[test]
fn many_small_arguments_end() {
    let w = World::new("");
    for round in 0..3 {
        let names: Vec<String> = (0..60).map(|i| format!("t{i}")).collect();
        for name in &names {
            w.tree(&format!("{name}: a=1 d/b=2 d/e/"));
        }
        let names = names.join(" ");
        let sums = w.ranks(3, &format!("sum --format md5sum {names}")).ends(0);
        assert_eq!(sums.out.lines().count(), 120, "{round}");
        w.ranks(3, &format!("rm -r {names}")).ends(0);
        assert!(!w.path("t0").exists() && !w.path("t59").exists());
    }
}

#[test]
fn a_manifest_is_checked_by_all_ranks_in_its_order() {
    let w = trees();
    w.haul("sum -o m.txt a").ends(0);
    w.haul("sum --format sha256sum -o m.sha256 a").ends(0);
    both(&w, 3, "check --manifest m.txt a", true);
    w.sh(
        "echo other >a/many/d00003/f0000003; echo longer >>a/many/d00007/f0000001; rm a/many/d00009/f0000002 a/n; mkdir a/n; echo new >a/many/d00004/new; echo new >a/extra",
    );
    for words in
        ["check --manifest m.txt a", "check --manifest m.sha256 a", "check -q --manifest m.txt a", "check --one-way --manifest m.txt a"]
    {
        both(&w, 3, words, true);
    }
    let json =
        |text: &str| text.lines().map(|line| line.split_once(",\"time\"").map_or(line, |(line, _)| line).to_string()).collect::<Vec<_>>();
    let (one, many) = (w.haul("check --json --manifest m.txt a").ends(1), w.ranks(2, "check --json --manifest m.txt a").ends(1));
    assert_eq!(json(&many.out).len(), json(&one.out).len());
    w.ranks(2, "check --manifest - a").stdin(w.path("m.txt")).ends(1).out_has("differs  many/d00003/f0000003");
}

#[test]
fn a_tree_that_one_rank_sees_otherwise_is_left_alone() {
    let w = World::new("src: a=1K d/b=2");
    let other = "exec unshare --mount sh -c 'mount -t tmpfs none src && exec haul-mpi rm -r src'";
    w.with_other(2, "rm -r src", other).ends(1).says("src: is a directory for rank 0 on ").says("for rank 1 on ");
    assert!(w.path("src/a").exists() && w.path("src/d/b").exists());
}
