//! Owners between machines: by name, and by number where that is asked for or nothing else is known.

use std::os::unix::fs::chown;

use haul_test::apart::knowing;
use haul_test::program::Program;

use crate::agent::support::{HAUL, World};

/// Names of users and groups, each machine with its own numbers for them.
const LOCAL: [&str; 3] = ["ana:4001", "bob:4002", "here:4003"];
const REMOTE: [&str; 4] = ["ana:5001", "bob:4001", "stranger:4004", "other:4003"];

fn world(tree: &str) -> World {
    let mut w = World::new(tree);
    let names = knowing(&w.work, "remote", &REMOTE).expect("written");
    w.agent = w.script("knowing", &format!("#!/bin/sh\nexec unshare -m sh -c '{names} && exec {HAUL} \"$@\"' sh \"$@\"\n"));
    w
}

fn local(w: &World, words: &str) -> Program {
    w.haul(words).through(&knowing(&w.work, "local", &LOCAL).expect("written"))
}

/// Owner, group and mode.
fn of(w: &World, path: &str) -> (u32, u32, u32) {
    let (user, group) = w.owner(path);
    (user, group, w.mode(path))
}

fn own(w: &World, path: &str, (uid, gid, mode): (u32, u32, u32)) {
    chown(w.path(path), Some(uid), Some(gid)).expect("root may");
    w.chmod(path, mode);
}

#[test]
fn names_decide_and_setuid_lands_on_nobody_elses_number() {
    let w = world("src: known=5 large=2M here=5 nameless=5 stranger=5 root=5 group=5 d/");
    // What it is here, and what it becomes there.
    let cases = [
        ("known", (4001, 4001, 0o6755), (5001, 5001, 0o6755)),
        ("large", (4001, 4001, 0o4755), (5001, 5001, 0o4755)),
        ("d", (4001, 4001, 0o2755), (5001, 5001, 0o2755)),
        // bob's number there is another's, and so is that of a name that only this machine knows.
        ("here", (4003, 4003, 0o6755), (4003, 4003, 0o755)),
        ("stranger", (4004, 0, 0o4755), (4004, 0, 0o755)),
        ("nameless", (4005, 4005, 0o4755), (4005, 4005, 0o4755)),
        ("root", (0, 0, 0o4755), (0, 0, 0o4755)),
        ("group", (0, 4003, 0o2755), (0, 4003, 0o755)),
    ];
    for (name, here, _) in cases {
        own(&w, &format!("src/{name}"), here);
    }
    local(&w, "cp -a src/ testhost:~/there").ends(0).says("setuid and setgid bits are dropped");
    for (name, here, there) in cases {
        assert_eq!(of(&w, &format!("there/{name}")), there, "{name}, which is {here:?} here");
    }
    // A second run finds nothing to do, and a comparison no difference.
    let again = local(&w, "cp -a --json src/ testhost:~/there").ends(0);
    let event = again.finished();
    assert_eq!((&event["created"]["files"], &event["attributes"]), (&0.into(), &0.into()), "{again}");
    local(&w, "check -a src/ testhost:~/there").ends(0);
    // And back.
    local(&w, "cp -a testhost:~/there/ back").ends(0);
    for (name, here, _) in cases.into_iter().take(3) {
        assert_eq!(of(&w, &format!("back/{name}")), here, "{name}");
    }
    assert_eq!(of(&w, "back/stranger"), (4004, 0, 0o755));
}

#[test]
#[ignore = "full"]
fn numbers_decide_where_they_are_asked_for_and_on_one_machine() {
    let w = world("src: small=5 large=2M d/");
    for name in ["small", "large", "d"] {
        own(&w, &format!("src/{name}"), (4001, 4003, 0o6755));
    }
    local(&w, "cp -a --numeric-ids src/ testhost:~/there").ends(0).never_says("are dropped");
    local(&w, "cp -a testhost:~/there/ testhost:~/beside").ends(0).never_says("are dropped");
    for place in ["there", "beside"] {
        for name in ["small", "large", "d"] {
            assert_eq!(of(&w, &format!("{place}/{name}")), (4001, 4003, 0o6755), "{place}/{name}");
        }
    }
    local(&w, "check -a --numeric-ids src/ testhost:~/there").ends(0);
    local(&w, "check -a src/ testhost:~/there").ends(1);
}

#[test]
fn names_of_owners_are_looked_up_on_the_host() {
    let w = world("t: a=5");
    local(&w, "chown ana:bob testhost:~/t/a").ends(0);
    assert_eq!(of(&w, "t/a"), (5001, 4001, of(&w, "t/a").2));
    local(&w, "chgrp stranger testhost:~/t/a").ends(0);
    assert_eq!(of(&w, "t/a").1, 4004);
    local(&w, "chown here testhost:~/t/a").ends(1).says("the host has no user 'here'");
    // A copy asks the same host.
    local(&w, "cp --chown ana:bob t/a testhost:~/u").ends(0);
    assert_eq!(of(&w, "u"), (5001, 4001, of(&w, "u").2));
    local(&w, "cp --chown here t/a testhost:~/v").ends(1).says("the host has no user 'here'");
}
