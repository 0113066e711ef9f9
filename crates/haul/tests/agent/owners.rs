//! Owners between machines: by name, and by number where that is asked for or nothing else is known.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::support::{HAUL, Haul, World};

/// Names of users and groups, each machine with its own numbers for them.
const NEAR: [&str; 3] = ["ana:4001", "bob:4002", "here:4003"];
const FAR: [&str; 4] = ["ana:5001", "bob:4001", "stranger:4004", "other:4003"];

/// Gives `/etc/passwd` and `/etc/group` of a mount namespace other names, in a shell that then goes on.
fn knowing(w: &World, side: &str, names: &[&str]) -> String {
    haul_test::apart::knowing(&w.join(""), side, names).expect("written")
}

fn world() -> World {
    let mut w = World::new("");
    let script = format!("#!/bin/sh\nexec unshare -m sh -c '{} && exec {HAUL} \"$@\"' sh \"$@\"\n", knowing(&w, "far", &FAR));
    w.agent = w.join("knowing");
    fs::write(&w.agent, script).expect("written");
    fs::set_permissions(&w.agent, fs::Permissions::from_mode(0o755)).expect("set");
    w
}

fn near(w: &World, words: &str) -> Haul {
    w.haul(words).through(&knowing(w, "near", &NEAR))
}

/// Owner, group and mode.
fn of(path: &Path) -> (u32, u32, u32) {
    let meta = path.metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (meta.uid(), meta.gid(), meta.mode() & 0o7777)
}

fn own(path: &Path, (uid, gid, mode): (u32, u32, u32)) {
    chown(path, Some(uid), Some(gid)).expect("root may");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

#[test]
fn names_decide_and_setuid_lands_on_nobody_elses_number() {
    let w = world();
    w.tree("src: known=5 large=2M here=5 nameless=5 stranger=5 root=5 group=5 d/");
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
        own(&w.join("src").join(name), here);
    }
    near(&w, "cp -a src/ testhost:~/there").run().code(0).says("setuid and setgid bits are dropped");
    for (name, here, there) in cases {
        assert_eq!(of(&w.join("there").join(name)), there, "{name}, which is {here:?} here");
    }
    // A second run finds nothing to do, and a comparison no difference.
    let again = near(&w, "cp -a --json src/ testhost:~/there").run().code(0);
    let event = again.finished();
    assert_eq!((&event["made"]["files"], &event["attributes"]), (&0.into(), &0.into()), "{again}");
    near(&w, "check -a src/ testhost:~/there").run().code(0);
    // And back.
    near(&w, "cp -a testhost:~/there/ back").run().code(0);
    for (name, here, _) in cases.into_iter().take(3) {
        assert_eq!(of(&w.join("back").join(name)), here, "{name}");
    }
    assert_eq!(of(&w.join("back/stranger")), (4004, 0, 0o755));
}

#[test]
fn numbers_decide_where_they_are_asked_for_and_on_one_machine() {
    let w = world();
    w.tree("src: small=5 large=2M d/");
    for name in ["small", "large", "d"] {
        own(&w.join("src").join(name), (4001, 4003, 0o6755));
    }
    near(&w, "cp -a --numeric-ids src/ testhost:~/there").run().code(0).never_says("are dropped");
    near(&w, "cp -a testhost:~/there/ testhost:~/beside").run().code(0).never_says("are dropped");
    for place in ["there", "beside"] {
        for name in ["small", "large", "d"] {
            assert_eq!(of(&w.join(place).join(name)), (4001, 4003, 0o6755), "{place}/{name}");
        }
    }
    near(&w, "check -a --numeric-ids src/ testhost:~/there").run().code(0);
    near(&w, "check -a src/ testhost:~/there").run().code(1);
}

#[test]
fn names_of_owners_are_looked_up_on_the_host() {
    let w = world();
    w.tree("t: a=5");
    near(&w, "chown ana:bob testhost:~/t/a").run().code(0);
    assert_eq!(of(&w.join("t/a")), (5001, 4001, of(&w.join("t/a")).2));
    near(&w, "chgrp stranger testhost:~/t/a").run().code(0);
    assert_eq!(of(&w.join("t/a")).1, 4004);
    near(&w, "chown here testhost:~/t/a").run().code(1).says("the host has no user 'here'");
    // A copy asks the same host.
    near(&w, "cp --chown ana:bob t/a testhost:~/u").run().code(0);
    assert_eq!(of(&w.join("u")), (5001, 4001, of(&w.join("u")).2));
    near(&w, "cp --chown here t/a testhost:~/v").run().code(1).says("the host has no user 'here'");
}
