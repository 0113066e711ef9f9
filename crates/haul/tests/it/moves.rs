//! mv and --remove-source-files: nothing leaves the source before its own copy was compared, and nothing stays unsaid.

use std::os::unix::fs::MetadataExt;

use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use haul_test::volume::Volume;

use crate::support::World;

/// A directory on another file system than the working directory: there nothing can be renamed.
fn elsewhere() -> Volume {
    Volume::tmpfs(64 << 20).expect("a tmpfs")
}

#[test]
fn removed_sources_are_verified_without_being_asked() {
    for size in ["3K", "900K"] {
        let world = World::new();
        world.tree(&format!("s: f={size} back/:"));
        let before = world.read("s/f");
        let mounted = SlowFs::mount(&world.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
        mounted.faults().add(Fault::always("", FaultKind::CorruptRead { at: 1000 }));
        let ran = world.haul("cp --remove-source-files s/").arg(mounted.path().join("d")).ends(23);
        assert_eq!(world.read("s/f"), before, "{}{}", ran.stdout, ran.stderr);
        mounted.faults().clear();
        let ran = world.haul("cp --remove-source-files s/").arg(mounted.path().join("d")).succeeds();
        assert!(ran.summary("Verified").is_some_and(|verified| verified.starts_with("1 file")), "{}", ran.stdout);
        assert!(!world.has("s/f"));
        drop(mounted);
        assert_eq!(world.read("back/d/f"), before);
    }
}

#[test]
fn files_that_end_in_a_hole_are_verified_and_moved() {
    for command in ["cp -a --verify", "cp -S --verify", "cp -S --remove-source-files", "mv"] {
        let world = World::new();
        let other = elsewhere();
        world.tree("s: d/data=200K");
        for name in ["s/hole", "s/d/data", "s/d/more"] {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(world.path(name)).expect("open");
            file.set_len(1 << 20).expect("a hole at its end");
        }
        let whole = world.read("s/d/data");
        world.haul(&format!("{command} s/")).arg(other.path().join("d")).succeeds();
        assert_eq!(std::fs::read(other.path().join("d/d/data")).expect("read"), whole, "{command}");
        let hole = std::fs::metadata(other.path().join("d/hole")).expect("it is there");
        assert_eq!((hole.len(), hole.blocks()), (1 << 20, 0), "{command}");
        assert_eq!(world.has("s/hole"), command.starts_with("cp -a") || command == "cp -S --verify", "{command}");
    }
}

#[test]
fn a_failure_to_verify_names_the_file_and_not_its_staging_file() {
    let world = World::new();
    world.tree("s: large=900K back/:");
    let mounted = SlowFs::mount(&world.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always(".haul-", FaultKind::ReadError { after: 1000 }));
    let ran = world.haul("cp --verify --retries 0 --failed-to failed s/").arg(mounted.path().join("d")).ends(23);
    let failed = String::from_utf8(world.read("failed")).expect("text");
    assert_eq!(failed, "large\n", "{}", ran.stderr);
    assert!(!ran.stderr.contains(".haul-"), "{}", ran.stderr);
}

/// Two names of one file at both ends, of one size and time and of different contents; only the modes differ at sight.
#[test]
fn a_hard_link_is_removed_only_when_its_own_destination_was_compared() {
    for command in ["mv", "cp -aH --remove-source-files"] {
        let world = World::new();
        let other = elsewhere();
        let d = other.path().join("d");
        std::fs::create_dir_all(&d).expect("made");
        world.tree("s:");
        world.write("s/a", "AAAA\n");
        std::fs::write(d.join("a"), "BBBB\n").expect("write");
        std::fs::hard_link(world.path("s/a"), world.path("s/b")).expect("link");
        std::fs::hard_link(d.join("a"), d.join("b")).expect("link");
        world.age("s/a");
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        std::fs::File::open(d.join("a")).expect("open").set_modified(at).expect("aged");
        std::fs::set_permissions(d.join("a"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
        for _ in 0..2 {
            world.haul(&format!("{command} s/")).arg(&d).succeeds();
        }
        for name in ["a", "b"] {
            assert_eq!(std::fs::read(d.join(name)).expect("read"), b"AAAA\n", "{command}: {name}");
            assert!(!world.has(format!("s/{name}")), "{command}: {name} stays");
        }
    }
}

#[test]
fn a_hard_link_stays_when_its_file_could_not_be_copied() {
    let world = World::new();
    world.tree("s: a=700K back/:");
    std::fs::hard_link(world.path("s/a"), world.path("s/b")).expect("link");
    let mounted = SlowFs::mount(&world.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
    mounted.faults().add(Fault::always(".haul-", FaultKind::CorruptRead { at: 1000 }));
    world.haul("mv s/").arg(mounted.path().join("d")).ends(23);
    assert_eq!(world.names("s"), "a b");
    mounted.faults().clear();
    world.haul("mv s/").arg(mounted.path().join("d")).succeeds();
    assert_eq!(world.names("s"), "");
    drop(mounted);
    let (a, b) = (std::fs::metadata(world.path("back/d/a")).unwrap(), std::fs::metadata(world.path("back/d/b")).unwrap());
    assert_eq!(a.ino(), b.ino());
}

#[test]
fn what_symlinks_point_to_is_never_removed() {
    let world = World::new();
    world.tree("s: f=1K outside: kept=1K dir/g=1K");
    for (to, link) in [("../outside/kept", "s/file"), ("../outside/dir", "s/dir")] {
        std::os::unix::fs::symlink(to, world.path(link)).expect("link");
    }
    for command in ["mv -L", "cp -L --remove-source-files", "sync -L --remove-source-files"] {
        let ran = world.haul(&format!("{command} s/ d")).ends(1);
        assert!(ran.stderr.contains("leave -L out"), "{}", ran.stderr);
        assert_eq!(world.names("s"), "dir f file");
        assert_eq!(world.names("outside"), "dir/ dir/g kept");
        assert!(!world.has("d"));
    }
}

/// What is at the destination already goes from the source as well, once it was compared.
#[test]
fn a_move_leaves_nothing_that_the_destination_has() {
    let world = World::new();
    let other = elsewhere();
    world.tree("s: same=2K mode=2K other=2K deep/er/same=3K empty/");
    std::os::unix::fs::symlink("same", world.path("s/link")).expect("link");
    world.tool("mkfifo", "s/fifo");
    let d = other.path().join("d");
    world.tool("cp", &format!("-a s {}", d.display()));
    // Same size and time: other content, other mode.
    let mut other_content = world.read("s/other");
    other_content[7] ^= 1;
    std::fs::write(d.join("other"), &other_content).expect("write");
    world.tool("touch", &format!("-r s/other {}", d.join("other").display()));
    for name in ["mode", "other", "fifo"] {
        std::fs::set_permissions(d.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
    }
    let kept = world.read("s/other");
    world.haul("mv s/").arg(&d).succeeds();
    assert_eq!(world.names("s"), "", "the contents are moved, and the emptied directories below s/ with them");
    assert!(world.has("s"));
    assert_eq!(std::fs::read(d.join("other")).expect("read"), kept);
    assert_ne!(std::fs::metadata(d.join("mode")).expect("stat").mode() & 0o777, 0o600);
    assert!(d.join("empty").is_dir() && d.join("link").is_symlink());
}

#[test]
fn what_a_move_leaves_is_said_and_counted() {
    let world = World::new();
    let other = elsewhere();
    world.tree("s: new=1K dir/old=1K");
    let d = other.path().join("d");
    std::fs::create_dir_all(d.join("s/dir")).expect("made");
    std::fs::write(d.join("s/dir/old"), "newer").expect("write");
    let ran = world.haul("mv -u s").arg(&d).succeeds();
    assert_eq!(world.names("s"), "dir/ dir/old", "{}", ran.stdout);
    assert_eq!(ran.summary("Kept"), Some("3 (1 file, 2 directories) at the source"), "{}", ran.stdout);
}

/// The source of a move is no source when it is the destination under another name.
#[test]
fn one_tree_under_two_paths_is_not_moved_onto_itself() {
    let world = World::new();
    world.tree("s: f=1K");
    std::os::unix::fs::symlink("f", world.path("s/link")).expect("link");
    std::fs::create_dir(world.path("m")).expect("made");
    world.tool("mount", "--bind s m");
    let ran = world.haul("mv s/link s/f m/").run();
    world.tool("umount", "m");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(world.names("s"), "f link");
}
