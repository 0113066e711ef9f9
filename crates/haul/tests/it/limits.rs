//! What the system's limits of a process refuse is an error of its file or of the run, never a death without a word.

use std::process::Command;

use haul_test::compare::What;
use haul_test::program::until;
use rustix::process::Resource;

use crate::support::World;

const MIB: u64 = 1 << 20;

#[test]
fn a_file_beyond_the_limit_on_sizes_fails_alone() {
    let w = World::new("src: large=3M bundled=200K small=7 d/also=9");
    for flags in ["", " -a --verify", " --inplace", " -W"] {
        let ran = w.haul(&format!("cp{flags} src/ dst")).limited(Resource::Fsize, 100 << 10).ends(23);
        for name in ["large", "bundled"] {
            assert!(ran.err.contains(&format!("{name}: write: File too large")), "{ran}");
        }
        ran.err_has("100 KiB").err_has("ulimit -f");
        assert_eq!((w.read("dst/small").len(), w.read("dst/d/also").len()), (7, 9), "{flags}");
        w.haul(&format!("cp{flags} src/ dst")).succeeds();
        w.assert_same("src", "dst", What::CONTENT);
        w.sh("rm -r dst");
    }
}

#[test]
fn a_user_without_threads_left_reads_which_limit_it_is() {
    let w = World::of_user("src: a=5 d/b=300K");
    w.haul("cp src/ dst").limited(Resource::Nproc, 1).ends(11).err_has("start a thread: ").err_has("(ulimit -u)");
    assert!(!w.has("dst/a"));
    // What only reads does it on the one thread that it has.
    for line in ["du src", "tree src", "sum src"] {
        assert_eq!(w.haul(line).limited(Resource::Nproc, 1).succeeds().out, w.haul(line).succeeds().out, "{line}");
    }
}

#[test]
fn little_address_space_is_an_error_with_a_reason() {
    let w = World::new("src: a=5 d/b=300K e/c=3M");
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
        let ran = run("cp -j 16 src/ dst", most).wait();
        let ran = ran.code_of(&[0, 11]);
        if most > least + 128 * MIB {
            assert_eq!((ran.status.code(), ran.err.as_str()), (Some(0), ""), "{ran}");
        } else if !ran.status.success() {
            refused += 1;
            ran.err_has("ulimit -v").err_has("try: ");
        }
        w.sh("rm -rf dst");
    }
    assert!(refused > 0, "at {least} bytes it cannot work");
    // More workers than there is room for: fewer do it.
    run("cp -j 64 src/ dst", least + 128 * MIB).wait().code(0).err_has("workers limited to ").err_has("ulimit -v");
    w.assert_same("src", "dst", What::CONTENT);
}

#[test]
fn many_threads_take_little_address_space() {
    let w = World::new("src: a=2M b=2M c=2M d=2M");
    let run = w.haul("cp -q -j 32 --bwlimit 100K src/ dst").start();
    let number = |key: &str| -> u64 {
        let value = run.status(key).expect("it runs for a minute");
        value.trim_end_matches(" kB").parse().expect("a number")
    };
    until("32 workers are started", || number("Threads") >= 32);
    let peak = number("VmPeak");
    // A mebibyte of stack each, and the program.
    assert!(peak < 320 << 10, "{peak} KiB");
}

#[test]
fn too_few_open_files_are_an_error_with_the_limit() {
    let world = World::new("s: a=1K b=1K");
    world.haul("cp -r s/ d").limited(Resource::Nofile, 9).ends(23).err_has("(ulimit -n) is 9: raise it").err_lacks("--restart");
    assert!(!world.has("d/a"));
    world.haul("cp -r s/ d").succeeds();
    world.assert_same("s", "d", What::USUAL);
}
