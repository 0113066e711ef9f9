//! What the system's limits of a process refuse is an error of its file or of the run, never a death without a word.

use std::process::Command;
use std::time::{Duration, Instant};

use haul_test::compare::What;
use rustix::process::Resource;

use crate::support::World;

const MIB: u64 = 1 << 20;

#[test]
fn a_file_beyond_the_limit_on_sizes_fails_alone() {
    let w = World::new();
    w.tree("src: large=3M bundled=200K small=7 d/also=9");
    for flags in ["", " -a --verify", " --inplace", " -W"] {
        let ran = w.haul(&format!("cp{flags} src/ dst")).limited(Resource::Fsize, 100 << 10).ends(23);
        for name in ["large", "bundled"] {
            assert!(ran.stderr.contains(&format!("{name}: write: File too large")), "{flags}: {}", ran.stderr);
        }
        assert!(ran.stderr.contains("100 KiB") && ran.stderr.contains("ulimit -f"), "{flags}: {}", ran.stderr);
        assert_eq!((w.read("dst/small").len(), w.read("dst/d/also").len()), (7, 9), "{flags}");
        w.haul(&format!("cp{flags} src/ dst")).succeeds();
        w.same("src", "dst", What::CONTENT);
        w.tool("rm", "-r dst");
    }
}

#[test]
fn a_user_without_threads_left_is_told_which_limit_it_is() {
    let w = World::of_user();
    w.tree("src: a=5 d/b=300K");
    let ran = w.haul("cp src/ dst").limited(Resource::Nproc, 1).ends(11);
    assert!(ran.stderr.contains("start a thread: ") && ran.stderr.contains("(ulimit -u)"), "{}", ran.stderr);
    assert!(!w.has("dst/a"));
    // What only reads does it on the one thread that it has.
    for line in ["du src", "tree src", "sum src"] {
        assert_eq!(w.haul(line).limited(Resource::Nproc, 1).succeeds().stdout, w.haul(line).succeeds().stdout, "{line}");
    }
}

#[test]
fn little_address_space_is_an_error_with_a_reason() {
    let w = World::new();
    w.tree("src: a=5 d/b=300K e/c=3M");
    let run = |line: &str, most| w.haul(line).limited(Resource::As, most).start();
    // As much as the program needs to start at all: its own size and its libraries'.
    let starts = |most: &u64| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("ulimit -v {}; exec {} --version", most / 1024, env!("CARGO_BIN_EXE_haul"))]);
        command.output().expect("sh starts").status.success()
    };
    let least = (4..1024).map(|n| n * 4 * MIB).find(starts).expect("it starts with 4 GiB");
    let mut refused = 0;
    for most in (0..16).map(|n| least + n * 4 * MIB).chain([least + 256 * MIB]) {
        let ran = run("cp -j 16 src/ dst", most).end();
        assert!(matches!(ran.code, Some(0 | 11)), "{most} bytes: {:?}\n{}{}", ran.code, ran.stdout, ran.stderr);
        if ran.code == Some(11) {
            refused += 1;
            assert!(ran.stderr.contains("ulimit -v") && ran.stderr.contains("try: "), "{most} bytes: {}", ran.stderr);
        }
        if most > least + 128 * MIB {
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
        }
        w.tool("rm", "-rf dst");
    }
    assert!(refused > 0, "at {least} bytes it cannot work");
    // More workers than there is room for: fewer do it.
    let ran = run("cp -j 64 src/ dst", least + 128 * MIB).end();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("workers limited to ") && ran.stderr.contains("ulimit -v"), "{}", ran.stderr);
    w.same("src", "dst", What::CONTENT);
}

#[test]
fn many_threads_take_little_address_space() {
    let w = World::new();
    w.tree("src: a=2M b=2M c=2M d=2M");
    let mut run = w.haul("cp -q -j 32 --bwlimit 100K src/ dst").start();
    let until = Instant::now() + Duration::from_secs(60);
    while run.status("Threads").is_none_or(|threads| threads < 32) {
        assert!(!run.is_over() && Instant::now() < until, "32 workers are started");
        std::thread::sleep(Duration::from_millis(1));
    }
    let peak = run.status("VmPeak").expect("it runs for a minute");
    run.kill();
    run.end();
    // A mebibyte of stack each, and the program.
    assert!(peak < 320 << 10, "{peak} KiB");
}

#[test]
fn too_few_open_files_are_an_error_with_the_limit() {
    let world = World::new();
    world.tree("s: a=1K b=1K");
    let ran = world.haul("cp -r s/ d").limited(Resource::Nofile, 9).ends(23);
    assert!(ran.stderr.contains("(ulimit -n) is 9: raise it") && !ran.stderr.contains("--restart"), "{}", ran.stderr);
    assert!(!world.has("d/a"));
    world.haul("cp -r s/ d").succeeds();
    world.same("s", "d", What::USUAL);
}
