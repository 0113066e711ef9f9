//! What `rm` removes, what it refuses, and how it ends when it could not do all.

use haul_test::volume::Mounted;

use crate::support::World;

#[test]
fn rm_is_careful() {
    let w = World::new("d: a=1 e/b=2 other: f=1");
    w.tree("one=1");
    w.refuses(1, "rm d", "haul: d: remove: is a directory\n  try: -r removes it and its contents");
    w.haul("rm one").succeeds();
    w.symlink("other", "d/link");
    w.haul("rm -r d").succeeds();
    assert!(!w.has("d") && !w.has("one") && w.has("other/f"));
    for place in ["/", "/."] {
        assert!(!w.haul("rm -r -n").arg(place).run().status.success(), "{place}");
    }
    let ended = w.haul("rm -r").arg(&w.home).run();
    assert!(!ended.status.success() && w.home.exists(), "the home directory needs --force");
    w.tree("mounted/");
    let _mounted = Mounted::tmpfs(&w.path("mounted"), "size=1M");
    w.write("mounted/f", "x");
    let ended = w.haul("rm -r mounted").run();
    assert!(!ended.status.success() && w.has("mounted/f"), "a mount point needs --force");
    w.refuses(23, "rm nothing", "haul: nothing: open: no such file or directory");
}

/// A directory that is refused makes no usage error of what was done to others.
#[test]
fn a_refused_argument_among_others_is_a_partial_failure() {
    let w = World::new("dd: a=1");
    w.tree("f1=1 f2=1");
    w.haul("rm f1 dd f2").ends(23).err_has("dd: remove: is a directory");
    assert!(!w.has("f1") && !w.has("f2") && w.has("dd/a"));
    w.haul("rm dd").ends(1);
    w.haul("rm dd dd").ends(1);
    w.write("A", "one\n");
    w.write("B", "two\n");
    assert_eq!(w.haul("cat A dd B").ends(23).err_has("dd: read: is a directory").out, "one\ntwo\n");
}

#[test]
fn a_slash_means_a_directory_and_no_symlink_to_one() {
    let w = World::new("d: a=1");
    w.tree("file=1");
    w.symlink("d", "link");
    for words in ["rm link/", "rm -r link/", "rm -rf --force link/", "rm file/"] {
        w.haul(words).ends(1).err_has("is not a directory");
        assert!(w.has("link") && w.has("d/a") && w.has("file"), "{words}");
    }
    w.haul("rm link").succeeds();
    w.haul("rm -r d/").succeeds();
    assert!(!w.has("link") && !w.has("d"));
}

#[test]
fn dots_the_root_and_the_working_directory_are_refused() {
    let w = World::new("aa: f=1 b/g=1");
    for place in ["aa/.", "aa/..", "aa/./", ".", "..", "aa/b/../"] {
        let ended = w.haul("rm -r").arg(place).ends(1);
        ended.err_has("a name that ends in . or .. is not removed").err_lacks("--force");
    }
    w.haul("rm -r -n /").ends(1).err_has("it is the root directory").err_lacks("--force");
    for place in ["~", "../w", "~/"] {
        w.haul(&format!("rm -r {place}")).ends(1).err_has("it is the working directory");
    }
    assert_eq!(w.names("aa"), "b/ b/g f");
    w.haul("rm -r --force ~/aa").directory(w.path("aa")).succeeds();
    assert!(!w.has("aa"));
}

/// The directories above what cannot be removed are not empty, which says nothing new.
#[test]
fn a_name_that_cannot_be_removed_is_the_one_failure() {
    let w = World::of_user("rr: d/e/f=1 d/e/g=1 other/h=1");
    w.chmod("rr/d/e", 0o555);
    let ended = w.haul("rm -r rr").ends(23).err_lacks("not empty").err_lacks("try:");
    assert_eq!(ended.err.lines().count(), 2, "{ended}");
    assert_eq!(w.names("rr"), "d/ d/e/ d/e/f d/e/g");
}
