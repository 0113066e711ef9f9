//! Destinations that are no plain new file: devices in trees, names that share a file, mounts, and the source under another name.

use std::os::unix::fs::FileTypeExt;

use haul_test::compare::What;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use haul_test::volume::Mounted;

use crate::support::{Printed, World};

#[test]
fn a_link_to_the_output_of_a_command_is_followed() {
    let w = World::new("s: f=1K");
    w.write("list", "old");
    w.symlink("list", "link");
    let printed = w.haul("sum s").succeeds();
    w.haul("sum -o link s").succeeds();
    assert!(w.path("link").is_symlink());
    assert_eq!(w.text("list"), printed.out);
    assert_eq!(w.haul("sum -o /dev/stdout s").succeeds().out, printed.out);
}

#[test]
fn devices_and_pipes_in_trees_are_replaced_only_by_force() {
    let w = World::new("s: null=1K pipe=1K other=1K d:");
    w.sh("mknod d/null c 1 3 && mkfifo d/pipe");
    w.haul("cp s/ d").ends(23);
    assert!(w.meta("d/null").file_type().is_char_device());
    assert!(w.meta("d/pipe").file_type().is_fifo());
    assert_eq!(w.read("d/other"), w.read("s/other"));
    w.haul("cp --force s/ d").succeeds();
    assert_eq!(w.read("d/null"), w.read("s/null"));
}

/// A snapshot made with --link-dest shares its files with the tree that is written into.
#[test]
fn writing_in_place_changes_no_other_name() {
    for size in [2000, 700_000] {
        let w = World::new("s: d: snapshot:");
        w.write("d/a", "a".repeat(size));
        w.hard_link("d/a", "snapshot/a");
        w.hard_link("d/a", "d/b");
        w.write("d/alone", "a".repeat(size));
        for (name, letter) in [("a", "A"), ("b", "B"), ("alone", "C")] {
            w.write(format!("s/{name}"), letter.repeat(size));
            w.age(format!("s/{name}"));
        }
        let before = w.inode("d/alone");
        let ran = w.haul("cp --inplace s/ d").succeeds();
        assert_eq!(w.read("snapshot/a"), "a".repeat(size).into_bytes());
        for (name, letter) in [("a", "A"), ("b", "B"), ("alone", "C")] {
            assert_eq!(w.read(format!("d/{name}")), letter.repeat(size).into_bytes(), "{name}");
        }
        assert_eq!(w.inode("d/alone"), before, "it is written in place");
        assert!(ran.err.contains("hard links"), "{}", ran.err);
    }
}

#[test]
fn file_systems_mounted_below_the_destination_are_not_emptied_with_x() {
    let w = World::new("s: keep=1K both/f=1K d: keep=1K gone=1K both/old=1K mounted/ deep/");
    let _mounted = ["d/mounted", "d/both", "d/deep"].map(|at| Mounted::tmpfs(&w.path(at), "size=1M"));
    for name in ["mounted/data", "both/extra", "deep/data"] {
        w.write(format!("d/{name}"), "kept");
    }
    w.haul("sync -x --delete -n s/ d").succeeds();
    w.haul("sync -x --delete s/ d").succeeds();
    for name in ["mounted/data", "both/extra", "deep/data"] {
        assert_eq!(w.read(format!("d/{name}")), b"kept", "{name}");
    }
    assert!(!w.has("d/gone"));
}

#[test]
fn the_source_is_not_deleted_through_another_mount() {
    for (inner, options) in [("a/b", ""), ("a/x/y", ""), ("a/b", "-n"), ("a/x/y", "--max-delete 100")] {
        let w = World::new("");
        w.tree(&format!("{inner}: data=1K large=300K a: old=1K m:"));
        let mounted = Mounted::bind(&w.path(inner), &w.path("m"));
        let ran = w.haul(&format!("sync --delete --max-size 10K {options} m/ a")).run();
        drop(mounted);
        assert!(w.has(format!("{inner}/data")) && w.has(format!("{inner}/large")), "{ran}");
        if options != "-n" {
            ran.code(23).err_has("it is the source, reached by another route");
        }
    }
}

/// The source has a directory of its own name: its entries look like surplus of that one.
#[test]
fn a_source_below_the_destination_is_not_emptied_for_a_directory_of_its_name() {
    let w = World::new("d/sub: data=1K sub/x=1 m:");
    let mounted = Mounted::bind(&w.path("d/sub"), &w.path("m"));
    let ran = w.haul("sync --delete m/ d").run();
    drop(mounted);
    assert!(w.has("d/sub/data"), "{ran}");
    ran.code(23).err_has("it is the source, reached by another route");
}

/// A small file is verified before it takes the name of an old one, with a journal and without.
#[test]
fn an_old_file_stands_until_the_new_one_is_verified() {
    for journal in [true, false] {
        for mode in ["", "--no-perms "] {
            let w = World::new("s: a=3K b=5K large=700K back/d: a=1K b=2K c=1K large=600K");
            let content = |top: &str| ["a", "large"].map(|name| w.read(format!("{top}/{name}")));
            let (old, new) = (content("back/d"), content("s"));
            let mounted = SlowFs::mount(&w.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
            mounted.faults().add(Fault::always("", FaultKind::CorruptRead { at: 1500 }));
            let state = if journal { "" } else { "--state-dir /proc/none " };
            let run = || w.haul(&format!("cp {state}{mode}--verify s/")).arg(mounted.path().join("d"));
            let ran = run().ends(23);
            mounted.faults().clear();
            let on_mount = mounted.path().join("d").display().to_string();
            assert!(content(&on_mount) == old, "{ran}");
            assert_eq!(w.names("back/d"), "a b c large", "no staging file is left: {ran}");
            run().succeeds();
            drop(mounted);
            assert!(content("back/d") == new);
        }
    }
}

/// "The first of two sources wins" also when the first cannot be asked.
#[test]
fn a_second_source_does_not_win_because_the_first_cannot_be_read() {
    let w = World::of_user("one: d/f=1K two: d/f=2K d/g=1K");
    let first = w.read("one/d/f");
    w.haul("cp one/ two/ out").succeeds();
    assert_eq!(w.read("out/d/f"), first);
    w.chmod("one/d", 0o0);
    let ran = w.haul("cp one/ two/ out").ends(23);
    w.chmod("one/d", 0o755);
    assert_eq!(w.read("out/d/f"), first, "{}", ran.err);
    assert!(ran.err.contains("an earlier source may have this name"), "{}", ran.err);
}

#[test]
fn a_link_is_replaced_and_not_written_through_in_place() {
    let w = World::new("s: l=2M small=5 d: t=7");
    for name in ["l", "small"] {
        w.symlink("t", format!("d/{name}"));
    }
    w.haul("cp --inplace s/ d").succeeds();
    w.assert_same("s/l", "d/l", What::USUAL);
    assert!(!w.path("d/l").is_symlink() && w.read("d/t").len() == 7);
}

#[test]
fn what_is_refused_leaves_no_destination() {
    let w = World::new("s: a=5");
    w.write("list", "../x");
    for command in
        ["cp --backup-dir ../D s/ d", "cp --backup-dir /elsewhere s/ d", "cp --files-from list s/ d", "cp --chown nobody-at-all s/ d"]
    {
        w.haul(command).ends(1);
        assert!(!w.has("d"), "{command}");
    }
}

#[test]
fn a_destination_in_the_source_is_refused_before_it_is_made() {
    let w = World::new("s: a=5 d/b=3");
    for words in ["s s/new", "s/ s/new", "s s/d/new/", "--mkpath s s/d/x/y"] {
        for command in ["cp", "cp -n", "sync -n --delete", "mv"] {
            w.haul(&format!("{command} {words}")).ends(1).says("the destination is inside the source");
            assert_eq!(w.names("s"), "a d/ d/b", "{command} {words}");
        }
    }
    w.haul("cp s/d s/e").succeeds();
}

#[test]
fn a_destination_in_the_source_that_is_not_copied_itself_is_fine() {
    let w = World::new("s: a=5 d/b=3 backup/ m/");
    w.write("list", "a\nd/b\n");
    for words in [
        "--exclude=/backup s/ s/backup",
        "--exclude=/backup s/ s/backup/new",
        "--exclude=s/backup s s/backup",
        "--files-from list s s/backup",
    ] {
        for command in ["cp -an", "cp -a", "cp -a"] {
            w.haul(&format!("{command} {words}")).succeeds();
        }
        assert!(!w.has("s/backup/backup") && !w.has("s/backup/new/backup"), "{words}");
        w.sh("rm -r s/backup/*");
    }
    w.haul("cp -a --exclude=/backup/x s/ s/backup").ends(1).says("the destination is inside the source");
    let mounted = Mounted::tmpfs(&w.path("s/m"), "size=4M");
    w.haul("cp -ax s/ s/m/new").succeeds();
    w.haul("cp -ax s/ s/m").succeeds();
    assert_eq!(w.names("s/m"), "a backup/ d/ d/b m/ new/ new/a new/backup/ new/d/ new/d/b new/m/");
    w.haul("cp -a s/ s/m").ends(1).says("the destination is inside the source");
    drop(mounted);
}

/// A user who may write a directory above the destination could lead root anywhere.
#[test]
fn root_follows_no_symlink_of_another_user_to_what_it_writes_or_takes_rules_from() {
    let w = World::new("s: a=5 d: elsewhere: list=3");
    w.sh("mkdir -p of/theirs");
    w.write("list", "a\n");
    for (to, link) in [("../../elsewhere", "of/theirs/dir"), ("../../list", "of/theirs/list"), ("../../elsewhere/log", "of/theirs/log")] {
        w.symlink(to, link);
        w.sh(&format!("chown -h 65534 {link}"));
    }
    w.symlink("of/theirs/dir", "mine");
    for line in [
        "cp s/a of/theirs/dir/",
        "cp s/a of/theirs/dir/new",
        "cp s/ of/theirs/dir",
        "cp s/ mine",
        "cp --mkpath s/ of/theirs/dir/x/y",
        "sync s/ of/theirs/dir/sub",
        "cp --log of/theirs/log s/ d",
        "cp --failed-to of/theirs/log s/ d",
        "cp --files-from of/theirs/list s d",
        "cp --exclude-from of/theirs/list s/ d",
        "cp --link-dest ../of/theirs/dir s/ d",
    ] {
        w.haul(line).run().says("is a symlink of user nobody, which root does not follow");
        assert_eq!((w.names("elsewhere"), w.names("d")), ("list".into(), String::new()), "{line}");
    }
    w.sh("chown -h 0 of/theirs/*");
    w.haul("cp --log of/theirs/log --files-from of/theirs/list s mine/").succeeds();
    assert_eq!(w.names("elsewhere"), "a list log");
    w.haul("cp --log /dev/stderr s/a /dev/fd/1").succeeds();
    w.haul("cp s/a /proc/self/cwd/d/").succeeds();
    let w = World::of_user("s: a=5 elsewhere:");
    w.symlink("elsewhere", "d");
    w.sh("chown -h 65533 d");
    w.haul("cp s/ d").succeeds();
    assert_eq!(w.names("elsewhere"), "a");
}

/// A second source that cannot be read makes the destination a directory all the same.
#[test]
fn one_of_several_sources_never_replaces_a_file() {
    let w = World::new("a=5 old=7 d:");
    let old = w.read("old");
    for words in ["cp a gone old", "cp gone a old", "mv a gone old", "cp a no* old"] {
        w.haul(words).ends(1).says("is a file, but must be a directory");
        assert!(w.read("old") == old && w.has("a"), "{words}");
    }
    w.haul("cp a gone new").ends(23).says("gone");
    assert_eq!(w.read("new/a"), w.read("a"));
    w.haul("mv a gone d").ends(23);
    assert!(w.has("d/a") && !w.has("a"));
}

/// Neither removes or takes up what the other one writes.
#[test]
fn runs_with_state_directories_of_their_own_do_not_disturb_each_other() {
    let w = World::new("s: f=3M d:");
    let run = |state: &str| w.haul(&format!("--state-dir {state} cp --bwlimit 4M s/f d/")).start();
    let both = [run("one"), run("other")];
    both.into_iter().for_each(|run| drop(run.wait().code(0)));
    assert_eq!(w.names("d"), "f");
    assert!(w.read("d/f") == w.read("s/f"));
}

/// Nothing says so to the other: each writes the file whole, and no source is to blame.
#[test]
fn a_second_run_on_one_file_is_named_as_such() {
    let w = World::new("s: f=6M d:");
    for flags in ["", " --verify"] {
        let first = w.haul(&format!("cp --bwlimit 8M{flags} s/f d/")).start();
        while w.names("d").is_empty() {
            std::thread::yield_now();
        }
        w.remove(format!("d/{}", w.names("d")));
        first.wait().code(23).err_has("another run wrote the same file").err_lacks("No such file").err_lacks("changed");
    }
}

#[test]
fn the_order_of_cp_minus_t_is_explained_and_nobody_is_told_to_remove_a_file() {
    let w = World::new("scratch/ s: run.conf=5 b=6");
    w.haul("cp -t scratch s/run.conf").ends(1).err_has("--target-directory").never_says("remove");
    w.haul("cp scratch s/run.conf").ends(1).err_has("DST comes last").never_says("remove");
    w.haul("cp --target-directory scratch s/run.conf s/b").succeeds();
    assert_eq!(w.names("scratch"), "b run.conf");
    w.haul("mv --target-directory=new s/b").succeeds();
    assert_eq!((w.names("new"), w.names("s")), ("b".into(), "run.conf".into()));
}

#[test]
fn mv_with_a_capital_t_gives_a_directory_another_name() {
    let w = World::new("a: x/y=5 f=6");
    w.sh("mkdir there t; echo > file");
    w.haul("mv -T a there").ends(1).err_has("leave -T out");
    w.haul("mv -T a file").ends(1);
    w.haul("mv -T file there").ends(1);
    w.haul("mv -T a/ new").ends(1);
    w.haul("mv -nT a new").succeeds();
    assert!(w.has("a/f") && !w.has("new") && w.has("file"));
    w.haul("mv -T a new").succeeds();
    assert_eq!((w.names("new"), w.has("a")), ("f x/ x/y".into(), false));
    w.haul("mv -T file there/name").succeeds();
    assert!(w.has("there/name"));
    let mounted = Mounted::tmpfs(&w.path("t"), "size=4M");
    w.haul("mv -T new t/new").ends(23).err_has("one file system");
    assert_eq!((w.names("new"), w.names("t")), ("f x/ x/y".into(), String::new()));
    drop(mounted);
}

#[test]
fn created_and_replaced_are_counted_apart() {
    let w = World::new("s: a=5 b=300K c=6 l->a d: b=7");
    w.symlink("c", "d/l");
    let dry = w.haul("cp -n s/ d").succeeds();
    assert_eq!((dry.summary("Create"), dry.summary("Replace")), (Some("2 files"), Some("2 (1 file, 1 symlink)")), "{}", dry.out);
    let ran = w.haul("cp --json s/ d").succeeds();
    let finished = ran.finished();
    assert_eq!((&finished["created"]["files"], &finished["replaced"]["files"]), (&2.into(), &1.into()), "{finished}");
    let ran = w.haul("cp -I s/ d").succeeds();
    assert_eq!((ran.summary("Created"), ran.summary("Replaced")), (Some("0"), Some("3 files")), "{}", ran.out);
}

#[test]
fn include_alone_is_said_to_select_nothing() {
    let w = World::new("s: a.txt=5 b=6");
    w.haul("cp --include *.txt s/ d").succeeds().says("--include alone selects nothing");
    w.haul("cp --include *.txt --exclude * s/ e").succeeds().never_says("selects nothing");
    assert_eq!((w.names("d"), w.names("e")), ("a.txt b".into(), "a.txt".into()));
}

#[test]
fn progress_in_a_pipe_says_the_totals_when_they_are_known() {
    let w = World::new("s: a=5M b=6");
    let ran = w.haul("cp --progress --bwlimit 4M s/ d").succeeds();
    assert!(ran.out.contains("of 2 files"), "{}", ran.out);
}

#[test]
fn wildcards_in_a_file_of_commands_match_local_names() {
    let w = World::new("s: a.txt=1 b.txt=2 c=3 d/e.txt=4 d/");
    w.write("lines", "cp s/*.txt 's/c' one/\ncp -r --exclude *.txt s/ two\ncp -j 1 s/*/*.txt three/\n");
    w.write("s.txt", "");
    w.haul("run lines").succeeds();
    assert_eq!((w.names("one"), w.names("two"), w.names("three")), ("a.txt b.txt c".into(), "c d/".into(), "e.txt".into()));
    w.write("lines", "rm '*.txt'\nrm s/*.none\n");
    w.haul("run lines").run();
    assert!(w.has("s.txt"));
}

#[test]
fn long_lists_name_owners() {
    let w = World::new("s: a=1 b=2");
    w.chown("s/a", 65534, 65534);
    w.chown("s/b", 4_000_000, 4_000_001);
    let listed = w.haul("ls -l s").succeeds();
    assert!(listed.out.contains(" nobody ") && listed.out.contains(" nogroup ") && listed.out.contains(" 4000000 "), "{}", listed.out);
}
