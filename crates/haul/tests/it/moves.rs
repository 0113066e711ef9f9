//! mv and --remove-source-files: nothing leaves the source before its own copy was compared, and nothing stays unsaid.

use std::os::unix::fs::MetadataExt;

use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use haul_test::volume::{Mounted, Volume};

use crate::support::{Printed, World};

/// A directory on another file system than the working directory: there nothing can be renamed.
fn elsewhere() -> Volume {
    Volume::tmpfs(64 << 20).expect("a tmpfs")
}

#[test]
fn removed_sources_are_verified_without_being_asked() {
    for size in ["3K", "900K"] {
        let w = World::new("");
        w.tree(&format!("s: f={size} back/:"));
        let before = w.read("s/f");
        let mounted = SlowFs::mount(&w.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
        mounted.faults().add(Fault::always("", FaultKind::CorruptRead { at: 1000 }));
        let ran = w.haul("cp --remove-source-files s/").arg(mounted.path().join("d")).ends(23);
        assert_eq!(w.read("s/f"), before, "{}{}", ran.out, ran.err);
        mounted.faults().clear();
        let ran = w.haul("cp --remove-source-files s/").arg(mounted.path().join("d")).succeeds();
        assert!(ran.summary("Verified").is_some_and(|verified| verified.starts_with("1 file")), "{}", ran.out);
        assert!(!w.has("s/f"));
        drop(mounted);
        assert_eq!(w.read("back/d/f"), before);
    }
}

#[test]
fn files_that_end_in_a_hole_are_verified_and_moved() {
    for command in ["cp -a --verify", "cp -S --verify", "cp -S --remove-source-files", "mv"] {
        let w = World::new("");
        let other = elsewhere();
        w.tree("s: d/data=200K");
        for name in ["s/hole", "s/d/data", "s/d/more"] {
            w.sh(&format!("truncate -s 1M {name}"));
        }
        let whole = w.read("s/d/data");
        w.haul(&format!("{command} s/")).arg(other.path().join("d")).succeeds();
        assert!(w.read(other.path().join("d/d/data")) == whole, "{command}");
        let hole = w.meta(other.path().join("d/hole"));
        assert_eq!((hole.len(), hole.blocks()), (1 << 20, 0), "{command}");
        assert_eq!(w.has("s/hole"), command.starts_with("cp -a") || command == "cp -S --verify", "{command}");
    }
}

#[test]
fn a_failure_to_verify_names_the_file_and_not_its_staging_file() {
    let w = World::new("s: large=900K back/:");
    let mounted = SlowFs::mount(&w.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always(".haul-", FaultKind::ReadError { after: 1000 }));
    let ran = w.haul("cp --verify --retries 0 --failed-to failed s/").arg(mounted.path().join("d")).ends(23);
    let failed = w.text("failed");
    assert_eq!(failed, "large\n", "{}", ran.err);
    assert!(!ran.err.contains(".haul-"), "{}", ran.err);
}

/// Two names of one file at both ends, of one size and time and of different contents; only the modes differ at sight.
#[test]
fn a_hard_link_is_removed_only_when_its_own_destination_was_compared() {
    for command in ["mv", "cp -aH --remove-source-files"] {
        let w = World::new("");
        let other = elsewhere();
        let d = other.path().join("d");
        w.tree("s:");
        w.write("s/a", "AAAA\n");
        w.write(d.join("a"), "BBBB\n");
        w.hard_link("s/a", "s/b");
        w.hard_link(d.join("a"), d.join("b"));
        w.age("s/a");
        w.age(d.join("a"));
        w.chmod(d.join("a"), 0o600);
        for _ in 0..2 {
            w.haul(&format!("{command} s/")).arg(&d).succeeds();
        }
        for name in ["a", "b"] {
            assert_eq!(w.text(d.join(name)), "AAAA\n", "{command}: {name}");
            assert!(!w.has(format!("s/{name}")), "{command}: {name} stays");
        }
    }
}

#[test]
fn a_hard_link_stays_when_its_file_could_not_be_copied() {
    let w = World::new("s: a=700K back/:");
    w.hard_link("s/a", "s/b");
    let mounted = SlowFs::mount(&w.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always(".haul-", FaultKind::CorruptRead { at: 1000 }));
    w.haul("mv s/").arg(mounted.path().join("d")).ends(23);
    assert_eq!(w.names("s"), "a b");
    mounted.faults().clear();
    w.haul("mv s/").arg(mounted.path().join("d")).succeeds();
    assert_eq!(w.names("s"), "");
    drop(mounted);
    assert_eq!(w.inode("back/d/a"), w.inode("back/d/b"));
}

#[test]
fn what_symlinks_point_to_is_never_removed() {
    let w = World::new("s: f=1K outside: kept=1K dir/g=1K");
    for (to, link) in [("../outside/kept", "s/file"), ("../outside/dir", "s/dir")] {
        w.symlink(to, link);
    }
    for command in ["mv -L", "cp -L --remove-source-files", "sync -L --remove-source-files"] {
        let ran = w.haul(&format!("{command} s/ d")).ends(1);
        assert!(ran.err.contains("leave -L out"), "{}", ran.err);
        assert_eq!(w.names("s"), "dir f file");
        assert_eq!(w.names("outside"), "dir/ dir/g kept");
        assert!(!w.has("d"));
    }
}

/// What is at the destination already goes from the source as well, once it was compared.
#[test]
fn a_move_leaves_nothing_that_the_destination_has() {
    let w = World::new("");
    let other = elsewhere();
    w.tree("s: same=2K mode=2K other=2K deep/er/same=3K empty/");
    w.symlink("same", "s/link");
    w.sh("mkfifo s/fifo");
    let d = other.path().join("d");
    w.sh(&format!("cp -a s {}", d.display()));
    // Same size and time: other content, other mode.
    let mut other_content = w.read("s/other");
    other_content[7] ^= 1;
    w.write(d.join("other"), &other_content);
    w.sh(&format!("touch -r s/other {}", d.join("other").display()));
    for name in ["mode", "other", "fifo"] {
        w.chmod(d.join(name), 0o600);
    }
    let kept = w.read("s/other");
    w.haul("mv s/").arg(&d).succeeds();
    assert_eq!(w.names("s"), "", "the contents are moved, and the emptied directories below s/ with them");
    assert!(w.has("s"));
    assert_eq!(w.read(d.join("other")), kept);
    assert_ne!(w.mode(d.join("mode")), 0o600);
    assert!(d.join("empty").is_dir() && d.join("link").is_symlink());
}

#[test]
fn what_a_move_leaves_is_said_and_counted() {
    let w = World::new("");
    let other = elsewhere();
    w.tree("s: new=1K dir/old=1K");
    let d = other.path().join("d");
    // Files that are made within a tick of the clock have the same time.
    w.age("s/dir/old");
    w.write(d.join("s/dir/old"), "newer");
    let ran = w.haul("mv -u s").arg(&d).succeeds();
    assert_eq!(w.names("s"), "dir/ dir/old", "{}", ran.out);
    assert_eq!(ran.summary("Kept"), Some("3 (1 file, 2 directories) at the source"), "{}", ran.out);
}

/// The source of a move is no source when it is the destination under another name.
#[test]
fn one_tree_under_two_paths_is_not_moved_onto_itself() {
    let w = World::new("s: f=1K");
    w.symlink("f", "s/link");
    w.tree("m/");
    let mounted = Mounted::bind(&w.path("s"), &w.path("m"));
    w.haul("mv s/link s/f m/").ends(1);
    drop(mounted);
    assert_eq!(w.names("s"), "f link");
}

#[test]
fn a_source_that_cannot_be_deleted_from_is_named_as_the_source() {
    let w = World::new("src/");
    let _mounted = Mounted::tmpfs(&w.path("src"), "size=1M");
    w.write("src/f", "x");
    w.sh("mount -o remount,ro src");
    w.haul("mv src/f z").ends(11).out_has("Once the source is writable").never_says("the destination is writable");
}

/// Small files are verified long after they were read: what becomes of the source meanwhile is not lost.
#[test]
fn what_changes_between_the_copy_and_the_removal_stays() {
    let w = World::new("s: appended=1K rewritten=1K replaced=1K same=1K z=1K back/:");
    w.age("s/rewritten");
    let mounted = SlowFs::mount(&w.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always("z", FaultKind::ReadHang { duration: std::time::Duration::from_secs(300) }));
    let mut run = w.haul("mv s/").arg(mounted.path().join("d")).start();
    run.until("a copy that is read back", || mounted.faults().struck() > 0);
    w.sh("echo more >>s/appended && touch -r s/rewritten time && printf %1024d 7 >s/rewritten && touch -r time s/rewritten");
    w.sh("printf %1024d 8 >new && touch -r s/replaced new && mv new s/replaced");
    mounted.faults().clear();
    run.wait().code(23).err_has("it changed after it was read; the source was kept");
    assert_eq!(w.names("s"), "appended replaced rewritten");
    assert!(w.read("s/appended").ends_with(b"more\n") && w.read("s/rewritten").ends_with(b"7") && w.read("s/replaced").ends_with(b"8"));
    w.haul("mv -c s/").arg(mounted.path().join("d")).succeeds();
    assert_eq!(w.names("s"), "");
    assert!(w.read("back/d/rewritten").ends_with(b"7") && w.read("back/d/replaced").ends_with(b"8"));
}

/// Two names of one file: none goes before both are there, or the next run would find two files.
#[test]
fn hard_links_are_moved_together_or_not_at_all() {
    for command in ["mv", "cp -a --remove-source-files"] {
        let w = World::new("s: a=1K c=300K");
        let other = elsewhere();
        let d = other.path().join("d");
        w.hard_link("s/a", "s/b");
        w.hard_link("s/c", "s/e");
        w.write(d.join("b/in the way"), "x");
        w.haul(&format!("{command} s/")).arg(&d).ends(23).says("a: kept at the source");
        assert_eq!(w.names("s"), "a b", "{command}");
        assert_eq!(w.inode(d.join("c")), w.inode(d.join("e")));
        w.remove(d.join("b"));
        w.haul(&format!("{command} s/")).arg(&d).succeeds();
        assert_eq!(w.names("s"), "", "{command}");
        assert_eq!(w.inode(d.join("a")), w.inode(d.join("b")), "{command}");
    }
}

/// One name is renamed, the other is there already.
#[test]
fn a_hard_link_that_is_renamed_lets_the_other_go() {
    let w = World::new("s: a=1K");
    w.hard_link("s/a", "s/b");
    w.age("s/a");
    w.sh("mkdir d && cp -p s/b d/b");
    w.haul("mv s/ d").succeeds();
    assert_eq!((w.names("s"), w.names("d")), (String::new(), "a b".into()));
}

/// The upper directory of an overlay and what is mounted over it have other devices and inodes.
#[test]
fn a_tree_is_not_moved_onto_itself_through_an_overlay() {
    let w = World::new("");
    let other = elsewhere();
    w.sh(&format!(
        "cd {} && mkdir lower upper work all && mkdir -p upper/d/sub && echo 1 >upper/d/f && echo 2 >upper/d/sub/g",
        other.path().display()
    ));
    let at = other.path().display();
    let all = other.path().join("all");
    let options = format!("lowerdir={at}/lower,upperdir={at}/upper,workdir={at}/work");
    let _mounted = Mounted::new(&["-t", "overlay", "overlay", "-o", &options], &all).expect("an overlay");
    for words in [format!("mv {at}/upper/d {at}/all/"), format!("cp -a --remove-source-files {at}/upper/d/ {at}/all/d")] {
        w.haul(&words).ends(23).err_has("source and destination are the same file, reached by another route");
        assert_eq!((w.text(other.path().join("upper/d/f")), w.text(other.path().join("upper/d/sub/g"))), ("1\n".into(), "2\n".into()));
    }
    assert_eq!(w.names(other.path().join("upper")), "d/ d/f d/sub/ d/sub/g");
    // What is made in the overlay is not in its lower directory; what is made there is in the overlay.
    w.sh(&format!("mkdir {at}/lower/e && echo 3 >{at}/lower/e/f"));
    w.haul(&format!("mv {at}/lower/e {at}/all/")).ends(23);
    assert_eq!(w.text(other.path().join("lower/e/f")), "3\n");
    // The source lies in the destination, where nothing else is named as it is.
    w.haul(&format!("sync --delete {at}/upper/d/sub/ {at}/all/d")).ends(23);
    assert!(w.has(other.path().join("upper/d/sub/g")));
}

/// A terabyte of holes would take minutes to read.
#[test]
fn holes_are_not_read_to_compare_and_to_verify() {
    let w = World::new("s: f=200K");
    let other = elsewhere();
    let d = other.path().join("d");
    w.sh("cd s && truncate -s 1T f && truncate -s 512G hole && printf end >>hole && truncate -s 600G hole");
    w.haul("cp -a s/").arg(&d).succeeds();
    w.haul("check -c s/").arg(&d).succeeds();
    w.sh(&format!("printf x | dd of={}/hole bs=1 seek=599G conv=notrunc status=none; touch -r s/hole {}/hole", d.display(), d.display()));
    w.haul("check -c s/").arg(&d).ends(1).out_has("hole");
    w.remove(&d);
    w.haul("mv s/").arg(&d).succeeds();
    assert_eq!((w.names("s"), w.meta(d.join("hole")).len()), (String::new(), 600 << 30));
}

/// The first is gone from its source by the time that the second is looked at.
#[test]
fn of_two_sources_with_one_name_the_second_stays() {
    for (words, rest) in [("mv a/f b/f", "b/f"), ("mv a/ b/", "b/f"), ("cp --remove-source-files a/f b/f", "b/f"), ("mv a/d b/d", "b/d/g")]
    {
        for across in [false, true] {
            let w = World::new("a: f=1K d/g=1K b: f=2K d/g=2K d/h=3 t/");
            let other = elsewhere();
            let to = if across { other.path().to_path_buf() } else { w.path("t") };
            let ran = w.haul(words).arg(&to).run();
            ran.code_of(&[0, 23]).says("an earlier source has this name");
            let moved = to.join(rest.split_once('/').expect("a path").1);
            assert_eq!((w.read(&moved).len(), w.read(rest).len()), (1 << 10, 2 << 10), "{words} {across}");
        }
    }
}

#[test]
fn a_symlink_does_not_replace_the_file_that_it_points_to() {
    for command in ["mv", "cp -a", "sync -a"] {
        let w = World::new("d: big=5K");
        w.tree("s/");
        w.symlink("../d/big", "s/big");
        w.symlink("d/big", "link");
        let before = w.read("d/big");
        w.haul(&format!("{command} link d/big")).ends(23).err_has("the source is a symlink to this file");
        w.haul(&format!("{command} s/ d")).ends(23);
        assert_eq!(w.read("d/big"), before, "{command}");
        assert!(w.has("link") && w.has("s/big"), "{command}");
    }
}
