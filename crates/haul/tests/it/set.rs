//! chmod, chown, chgrp, ln and df on local paths, beside the programs whose names they have.

use crate::support::World;

/// Names below a path with their modes.
fn modes(w: &World, top: &str) -> Vec<String> {
    let mut modes: Vec<String> = w.list(top).into_iter().map(|name| format!("{name} {:o}", w.mode(format!("{top}/{name}")))).collect();
    modes.push(format!(". {:o}", w.mode(top)));
    modes.sort();
    modes
}

#[test]
fn modes_become_those_that_chmod_makes() {
    for mode in [
        "755",
        "0600",
        "00755",
        "2750",
        "u+x",
        "go-rwx",
        "a=rX",
        "g=u",
        "u+w-x",
        "+x",
        "u=rwX,g=rX,o=",
        "go=u-w",
        "u=rw",
        "o=rx",
        "=rx",
        "u+s,g-s",
        "+t",
        "a-rwx",
    ] {
        let w = World::new("");
        for top in ["ours", "theirs"] {
            w.tree(&format!("{top}: a=1:0644 x=1:0700 s=1:4711 d/b=2:0604 d/e/f=3:0640 d/none/ l->a dangling->no p|"));
            w.chmod(format!("{top}/d"), 0o3770);
        }
        w.haul(&format!("chmod -R {mode} ours")).succeeds();
        w.sh(&format!("chmod -R {mode} theirs"));
        assert_eq!(modes(&w, "ours"), modes(&w, "theirs"), "-R {mode}");
        w.haul(&format!("chmod {mode} ours/x ours/d/")).succeeds();
        w.sh(&format!("chmod {mode} theirs/x theirs/d/"));
        assert_eq!(modes(&w, "ours"), modes(&w, "theirs"), "{mode}");
    }
    let w = World::new("d: a=1:0600 e/b=1:0600 l->a");
    w.haul("chmod -R D2775,F664 d").succeeds();
    assert_eq!((w.mode("d"), w.mode("d/e"), w.mode("d/a"), w.mode("d/e/b")), (0o2775, 0o2775, 0o664, 0o664));
    w.haul("chmod -x d/e d/l").succeeds();
    assert_eq!((w.mode("d/e"), w.mode("d/a")), (0o2664, 0o664), "a link that is named is followed");
    for (words, code, why) in [
        ("chmod 888 d", 1, "octal"),
        ("chmod 644", 1, "PATH"),
        ("chmod 600 nothing d/a", 23, "nothing"),
        ("chmod 600 s3://b/k", 1, "haul cp"),
    ] {
        let refused = w.haul(words).ends(code);
        assert!(refused.err.contains(why), "{words}: {}", refused.err);
    }
    assert_eq!(w.mode("d/a"), 0o600, "the rest goes on");
}

#[test]
fn what_may_not_be_changed_is_named_and_the_rest_goes_on() {
    let w = World::of_user("d: a=1:0600 b=1:0600 e/c=1:0600 locked/x=1:0600");
    w.chown("d/b", 0, 0);
    let ran = w.haul("chmod -R g+r --json d").ends(23);
    assert!(ran.err.contains("d/b: set attributes: mode not permitted"), "{}", ran.err);
    assert_eq!((w.mode("d/a"), w.mode("d/b"), w.mode("d/e/c")), (0o640, 0o600, 0o640));
    assert!(!ran.out.contains("\"b\""), "{}", ran.out);
    // A directory is closed behind what is in it and opened before.
    w.haul("chmod -R u-rwx d").ends(23);
    assert_eq!((w.mode("d") & 0o700, w.mode("d/e") & 0o700), (0, 0));
    w.haul("chmod -R u+rwX d").succeeds();
    assert_eq!((w.mode("d") & 0o700, w.mode("d/e/c") & 0o700), (0o700, 0o600));
    w.haul("chown 0 d/a").ends(23).err_has("d/a: set attributes: owner not permitted");
}

#[test]
fn owners_and_groups_are_set_by_name_and_by_number() {
    let w = World::new("d: a=1:6755 e/b=1:0600 l->a f=1");
    w.haul("chown 7:8 d/l").succeeds();
    assert_eq!((w.owner("d/a"), w.owner("d/l")), ((7, 8), (0, 0)), "a link is followed");
    assert_eq!(w.mode("d/a"), 0o755, "a new owner gets no setuid program");
    w.haul("chown -h 5 d/l").succeeds();
    assert_eq!((w.owner("d/a"), w.owner("d/l")), ((7, 8), (5, 0)));
    w.haul("chgrp root d/f d/a").succeeds();
    assert_eq!((w.owner("d/a"), w.owner("d/f")), ((7, 0), (0, 0)));
    w.haul("chown -R root:9 d").succeeds();
    for name in ["d", "d/a", "d/e/b", "d/l", "d/f"] {
        assert_eq!(w.owner(name), (0, 9), "{name}");
    }
    w.haul("chown :3 d").succeeds();
    assert_eq!((w.owner("d"), w.owner("d/a")), ((0, 3), (0, 9)));
    for (words, why) in [("chown nosuchuser d", "no user 'nosuchuser'"), ("chgrp nosuchgroup d", "no group"), ("chown : d", "USER:GROUP")] {
        w.haul(words).ends(1).err_has(why);
    }
}

#[test]
fn links_are_made_as_ln_makes_them() {
    let w = World::new("d: a=5 e/b=1 other/");
    w.haul("ln d/a d/e/again").succeeds();
    assert_eq!(w.inode("d/a"), w.inode("d/e/again"));
    w.haul("ln d/a d/e/b d/other").succeeds();
    assert_eq!((w.inode("d/a"), w.inode("d/e/b")), (w.inode("d/other/a"), w.inode("d/other/b")));
    w.haul("ln -s ../a d/e/link").succeeds();
    w.haul("ln -s e d/current").succeeds();
    assert_eq!((w.target("d/e/link"), w.target("d/current")), ("../a".into(), "e".into()));
    // Into the directory that a link leads to, or in its place.
    w.haul("ln -s host:x/y d/current").ends(1);
    w.haul("ln -s nowhere d/current").succeeds();
    assert_eq!(w.target("d/e/nowhere"), "nowhere");
    w.haul("ln -sfn other d/current").succeeds();
    assert_eq!(w.target("d/current"), "other");
    w.haul("ln -sfT e d/current").succeeds();
    assert_eq!(w.target("d/current"), "e");
    w.haul("ln d/e/link d/second").succeeds();
    assert_eq!(w.target("d/second"), "../a", "a symlink has a second name itself");
    for (words, code, why) in [
        ("ln d/a d/e/b", 23, "-f replaces it"),
        ("ln -s x d/e/link", 23, "File exists"),
        ("ln d/e d/dir", 23, "one name only"),
        ("ln -sfT x d/other", 23, "File exists"),
        ("ln d/nothing d/x", 23, "d/nothing"),
        ("ln d/a d/e/b d/a", 1, "is not a directory"),
        ("ln d/a", 1, "PATH"),
        ("ln d/a host:a", 1, "not on one host"),
        ("ln s3://b/k s3://b/l", 1, "haul cp s3://"),
        ("ln d/a /dev/shm/haul-other-file-system", 23, "-s makes a symlink"),
    ] {
        let refused = w.haul(words).ends(code);
        assert!(refused.err.contains(why), "{words}: {}", refused.err);
    }
    w.haul("ln -f d/a d/e/b").succeeds();
    assert_eq!(w.inode("d/a"), w.inode("d/e/b"));
}

#[test]
fn the_room_of_a_file_system_is_that_of_df() {
    let w = World::new("");
    w.write("file", "x");
    // Sizes do not change while others write; what is used does.
    let of = |column: &str, path: &str| w.sh(&format!("df -B1 --output={column} {path}")).lines().last().unwrap().trim().to_owned();
    for (words, column) in [("df file", "size"), ("df -i .", "itotal"), ("df", "size")] {
        let shown = w.haul(words).succeeds().out;
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert_eq!(shown.lines().last().unwrap().split_whitespace().next().unwrap(), of(column, "."), "{shown}");
    }
    assert!(w.haul("df -h / .").succeeds().out.contains("iB"));
    let refused = w.haul("df nothing . s3://b").ends(23);
    assert!(refused.err.contains("nothing") && refused.err.contains("haul du"), "{}", refused.err);
    assert_eq!(refused.out.lines().count(), 2);
}
