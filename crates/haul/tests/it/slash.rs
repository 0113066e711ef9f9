//! The slash rule: what a source means, and where it goes.

use std::os::unix::fs::MetadataExt;

use haul_test::compare::What;
use insta::assert_snapshot;

use crate::support::{Printed, World};

#[test]
fn cp_src_to_a_new_name() {
    let w = World::new("src: a=1K b=0 d/c=9K l->a");
    assert_snapshot!(w.haul("cp -v src dst").run().snapshot(), @"
    exit 0
    --- stdout
    copies [W]/src to [W]/dst
    create      src/a
    create      src/b
    create      src/d/c
    link        src/l -> a
    mkdir       src/
    mkdir       src/d/
    Items:       6 (3 files, 2 directories, 1 symlink)
    Created:     6 (3 files, 2 directories, 1 symlink)
    Data:        10.0 KiB transferred, 10,240 bytes (3.33 KiB per file)
    ");
    w.assert_same("src", "dst/src", What::USUAL);
    assert_eq!(w.names("dst"), "src/ src/a src/b src/d/ src/d/c src/l");
}

#[test]
fn cp_src_slash_to_a_new_name() {
    let w = World::new("src: a=1K b=0 d/c=9K l->a");
    assert_snapshot!(w.haul("cp -v src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    copies the contents of [W]/src to [W]/dst
    attributes  ./
    create      a
    create      b
    create      d/c
    link        l -> a
    mkdir       d/
    Items:       6 (3 files, 2 directories, 1 symlink)
    Created:     5 (3 files, 1 directory, 1 symlink)
    Attributes:  set on 1 entry
    Data:        10.0 KiB transferred, 10,240 bytes (3.33 KiB per file)
    ");
    w.assert_same("src", "dst", What { root: true, ..What::USUAL });
}

#[test]
fn sync_delete_without_slash_does_not_empty_the_destination() {
    let w = World::new("src: a=1K dst: old=3 src/extra=2");
    w.haul("sync --delete src dst").succeeds();
    assert_eq!(w.names("dst"), "old src/ src/a");
}

#[test]
fn dot_and_dot_dot_mean_contents() {
    let w = World::new("src: a=1 d/c=1");
    w.haul("cp src/. one").succeeds();
    assert_eq!(w.names("one"), "a d/ d/c");
    w.haul("cp src/d/.. two").succeeds();
    assert_eq!(w.names("two"), "a d/ d/c");
}

#[test]
fn cp_file_to_a_name_replaces_or_makes_it() {
    let w = World::new("a=5 old=9 d/");
    assert_snapshot!(w.haul("cp -v a new").run().snapshot(), @"
    exit 0
    --- stdout
    copies [W]/a to [W]/new
    create      a
    Items:       1 file
    Created:     1 file
    Data:        5 B transferred, 5 bytes
    ");
    w.haul("cp a old").succeeds();
    w.haul("cp a d").succeeds();
    w.haul("cp a e/").succeeds();
    for copy in ["new", "old", "d/a", "e/a"] {
        assert_eq!(w.read(copy), w.read("a"), "{copy}");
    }
}

#[test]
fn cp_many_sources_need_a_directory() {
    let w = World::new("a=5 b=6 s: c=1 f=1");
    w.haul("cp a b s new").succeeds();
    assert_eq!(w.names("new"), "a b s/ s/c s/f");
    w.refuses(1, "cp b s a", "haul: a: copy to: is a file, but must be a directory\n  try: DST comes last; name a directory there");
    assert_eq!(w.read("a").len(), 5);
}

#[test]
fn cp_two_sources_of_one_name() {
    let w = World::new("one: a=5 x: only1=1 two: a=7");
    w.write("one/a", "first");
    w.write("two/a", "second");
    assert_snapshot!(w.haul("cp one/a two/a new").run().snapshot(), @"
    exit 0
    --- stdout
    copies 2 sources to [W]/new
    Items:       2 files
    Created:     1 file
    Skipped:     1 file (see -vv)
    Data:        5 B transferred, 5 bytes
    --- stderr
    haul: warning: a: skipped: an earlier source has this name
    ");
    assert_eq!(w.read("new/a"), b"first");
}

#[test]
fn a_missing_parent_needs_mkpath() {
    let w = World::new("src: a=5");
    w.refuses(23, "cp src/ x/y/z", "haul: x/y: open: no such file or directory\n  try: --mkpath creates the parent directories");
    w.refuses(23, "cp src/a x/y/z", "haul: x/y: open: no such file or directory\n  try: --mkpath creates the parent directories");
    assert!(!w.has("x"));
    w.haul("cp --mkpath src/ x/y/z").succeeds();
    w.haul("cp --mkpath src/a p/q/name").succeeds();
    assert_eq!(w.names("x"), "y/ y/z/ y/z/a");
    assert_eq!(w.names("p"), "q/ q/name");
}

#[test]
fn a_dry_run_makes_no_destination() {
    let w = World::new("src: a=5");
    w.haul("cp -n src/ new").succeeds();
    w.haul("cp -n src/a new2").succeeds();
    w.haul("cp -n --mkpath src new3/x/y").succeeds();
    assert_eq!(w.names(""), "src/ src/a");
}

#[test]
fn a_link_as_source_is_copied_and_with_slash_followed() {
    let w = World::new("dst/ src: a=5");
    w.symlink("src", "link2");
    assert_snapshot!(w.haul("cp link2 dst").run().snapshot(), @"
    exit 0
    --- stdout
    copies [W]/link2 to [W]/dst
    Items:       1 symlink
    Created:     1 symlink
    Data:        nothing to transfer
    ");
    w.haul("cp link2 new").succeeds();
    for copy in ["dst/link2", "new"] {
        assert_eq!(w.target(copy), "src");
    }
    w.haul("cp link2/ dst2").succeeds();
    assert_eq!(w.names("dst2"), "a");
    w.haul("cp -L src/a link2 dst3").succeeds();
    assert!(w.meta("dst3/link2").is_dir());
}

#[test]
fn the_destination_may_be_a_link() {
    let w = World::new("src: a=5 real:");
    w.symlink("real", "dst");
    w.haul("cp src dst").succeeds();
    w.haul("cp src/ dst/").succeeds();
    assert!(w.meta("dst").is_symlink());
    assert_eq!(w.names("real"), "a src/ src/a");
}

#[test]
fn a_link_to_a_file_as_destination_is_replaced_not_followed() {
    let w = World::new("a=5 target=9");
    w.symlink("target", "link");
    let before = w.read("target");
    w.haul("cp a link").run();
    assert_eq!(w.read("target"), before);
}

#[test]
fn a_local_name_with_a_colon_is_local() {
    let w = World::new("dst/");
    w.write("wrfout_d01_2024-01-01_00:00:00", "x");
    w.haul("cp wrfout_d01_2024-01-01_00:00:00 dst").succeeds();
    assert_eq!(w.names("dst"), "wrfout_d01_2024-01-01_00:00:00");
    w.haul("cp gs://host/no dst").ends(1).err_has("gs://host/no: no such scheme; there are file, ssh, ");
}

#[test]
fn names_with_dashes_come_after_two() {
    let w = World::new("");
    w.write("-v", "x");
    w.haul("cp -- -v --new").succeeds();
    assert_eq!(w.read("--new"), b"x");
}

#[test]
fn a_trailing_slash_on_a_file() {
    let w = World::new("a=5 b=6");
    w.refuses(1, "cp a/ new", "haul: a: open: it is not a directory");
    w.refuses(
        1,
        "cp a b/",
        "haul: b: copy to: is a file, but the trailing slash means a directory\n  try: omit the slash to replace the file",
    );
    assert_eq!(w.meta("b").size(), 6);
}

#[test]
fn a_host_without_its_colon_is_mentioned() {
    let w = World::new("src: a=1");
    w.write("config", "Host cluster other\n  HostName c.example\nHost *.org\n");
    let warns = |command: &str| w.haul(command).succeeds().err.contains("for the host write");
    assert!(warns("cp -F config src cluster"));
    assert!(w.has("cluster/a") || w.has("cluster/src/a"), "it is done all the same");
    assert!(!warns("cp -F config src cluster"), "now it is a directory like others");
    assert!(warns("cp -n -F config src me@other"));
    for harmless in ["cp -n -F config src fresh", "cp -n -F config src ./other", "cp -n -F config src other/"] {
        assert!(!warns(harmless), "{harmless}");
    }
    for command in
        ["cp -F config other here", "cp -F config me@other src here", "ls -F config other", "cat -F config other", "rm -F config other"]
    {
        let ran = w.haul(command).run();
        assert!(ran.status.code() != Some(0) && ran.err.contains("for the host write"), "{command}: {}", ran.err);
    }
    assert!(!w.haul("ls -F config nowhere").run().err.contains("for the host write"));
}
