//! Owners of files that become objects and files again, on machines that number them differently.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::support::{Program, World};

/// Names of users and groups, each machine with its own numbers for them.
const ONE: [&str; 3] = ["ana:4001", "bob:4002", "here:4003"];
const TWO: [&str; 4] = ["ana:5001", "bob:4001", "stranger:4004", "other:4003"];

/// The program on a machine with these users, which remembers its own.
fn on(w: &World, machine: &str, names: &[&str], words: &str) -> Program {
    let knowing = haul_test::apart::knowing(&w.path(""), machine, names).expect("written");
    w.haul(words).env("HAUL_STATE_DIR", w.path(format!("{machine}-state"))).through(&knowing)
}

/// Owner, group and mode.
fn of(path: &Path) -> (u32, u32, u32) {
    let meta = path.metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (meta.uid(), meta.gid(), meta.mode() & 0o7777)
}

/// Their owner and mode on the first machine, and what the second one makes of them, by name and by number.
type Case = (&'static str, (u32, u32, u32), (u32, u32, u32), (u32, u32, u32));
const CASES: [Case; 7] = [
    ("known", (4001, 4001, 0o6755), (5001, 5001, 0o6755), (4001, 4001, 0o6755)),
    ("large", (4001, 4002, 0o4755), (5001, 4001, 0o4755), (4001, 4002, 0o4755)),
    ("d", (4001, 4001, 0o2755), (5001, 5001, 0o2755), (4001, 4001, 0o2755)),
    // The number is another's there: no bit that lends its rights.
    ("here", (4003, 4003, 0o6755), (4003, 4003, 0o755), (4003, 4003, 0o6755)),
    ("stranger", (4004, 0, 0o4755), (4004, 0, 0o755), (4004, 0, 0o4755)),
    ("nameless", (4005, 4005, 0o4755), (4005, 4005, 0o4755), (4005, 4005, 0o4755)),
    ("root", (0, 0, 0o4755), (0, 0, 0o4755), (0, 0, 0o4755)),
];

fn uploaded() -> World {
    let w = World::new();
    w.tree("src: known=5 large=2M here=5 nameless=5 stranger=5 root=5 d/");
    for (name, (uid, gid, mode), ..) in CASES {
        let path = w.path("src").join(name);
        chown(&path, Some(uid), Some(gid)).expect("root may");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
    }
    on(&w, "one", &ONE, "cp -a src/ @/t/").ends(0).never_says("are dropped");
    w
}

#[track_caller]
fn are(w: &World, place: &str, expected: impl Fn(&Case) -> (u32, u32, u32)) {
    for case in &CASES {
        assert_eq!(of(&w.path(place).join(case.0)), expected(case), "{place}/{}", case.0);
    }
}

#[test]
#[ignore = "full"]
fn names_go_with_the_numbers_and_decide_on_another_machine() {
    let w = uploaded();
    for (key, names) in [("t/known", ["ana", "ana"]), ("t/large", ["ana", "bob"]), ("t/d/", ["ana", "ana"]), ("t/here", ["here", "here"])] {
        let found = ["owner", "group"].map(|who| w.header(key, &format!("x-amz-meta-haul-{who}")));
        assert_eq!(found, names.map(|name| Some(name.to_string())), "{key}");
    }
    // What other tools read stays as it was.
    assert_eq!(w.header("t/large", "x-amz-meta-uid").as_deref(), Some("4001"));
    assert_eq!(w.header("t/large", "x-amz-meta-gid").as_deref(), Some("4002"));
    assert_eq!(w.header("t/nameless", "x-amz-meta-haul-owner").as_deref(), Some("-"));
    on(&w, "one", &ONE, "cp -a src/ @/t/").moves_nothing();
    // From what the service says, and from what the index knows by then.
    for to in ["first", "second"] {
        on(&w, "two", &TWO, &format!("cp -a --trust-metadata @/t/ {to}")).ends(0).says("setuid and setgid bits are dropped");
        are(&w, to, |case| case.2);
    }
    // The numbers differ and the names do not: there is nothing to do, in either direction.
    on(&w, "two", &TWO, "cp -a --trust-metadata @/t/ first").moves_nothing();
    let back = on(&w, "two", &TWO, "cp -a --json --exclude here --exclude stranger first/ @/t/").ends(0);
    assert_eq!((&back.finished()["created"]["files"], back.number("attributes")), (&0.into(), 0), "{back}");
    // Without trust no such bit at all, and the same owners.
    on(&w, "two", &TWO, "cp -a @/t/ careful").ends(0);
    assert_eq!(of(&w.path("careful/known")), (5001, 5001, 0o755));
    // From bucket to bucket through a machine that does not know them.
    on(&w, "two", &TWO, "cp -a --verify @/t/ @/u/").ends(0);
    assert_eq!(w.header("u/here", "x-amz-meta-haul-owner").as_deref(), Some("here"));
    assert_eq!(w.header("u/here", "x-amz-meta-uid").as_deref(), Some("4003"));
}

/// What an object lacks is no less different than another value.
#[test]
fn owners_are_stored_where_an_earlier_copy_stored_none() {
    let w = World::new();
    w.tree("src: f=5 d/e=6 l->f");
    w.haul("cp src/ @/t/").ends(0);
    assert_eq!(w.header("t/f", "x-amz-meta-uid"), None);
    w.haul("check src/ @/t/").ends(0);
    w.haul("check -a src/ @/t/").ends(1);
    w.haul("sync -a src/ @/t/").ends(0);
    for key in ["t/f", "t/d/e", "t/d/", "t/l"] {
        assert!(w.header(key, "x-amz-meta-uid").is_some(), "{key}");
    }
    w.haul("check -a src/ @/t/").ends(0);
    w.haul("sync -a src/ @/t/").moves_nothing();
}

#[test]
fn numbers_decide_where_they_are_asked_for_and_where_there_are_no_names() {
    let w = uploaded();
    for to in ["first", "second"] {
        on(&w, "two", &TWO, &format!("cp -a --trust-metadata --numeric-ids @/t/ {to}")).ends(0).never_says("are dropped");
        are(&w, to, |case| case.3);
    }
    // As haul wrote them once, and as other tools do; and values that no name can be.
    let old = [("x-amz-meta-mode", "100640"), ("x-amz-meta-uid", "4001"), ("x-amz-meta-gid", "4003")];
    w.put(b"old/none", &old, b"x");
    let strange = [&old[..], &[("x-amz-meta-haul-owner", "no one"), ("x-amz-meta-haul-group", "0")]].concat();
    w.put(b"old/strange", &strange, b"x");
    w.put(b"old/alone", &[("x-amz-meta-mode", "100640"), ("x-amz-meta-haul-owner", "ana")], b"x");
    on(&w, "two", &TWO, "cp -a @/old/ old").ends(0);
    assert_eq!(of(&w.path("old/none")), (4001, 4003, 0o640));
    assert_eq!(of(&w.path("old/strange")), (4001, 4003, 0o640));
    assert_eq!(of(&w.path("old/alone")), (0, 0, 0o640));
}
