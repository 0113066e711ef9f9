//! Destinations that are no plain new file: devices, pipes, names that share a file, mounts, and the source under another name.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use haul_test::volume::Volume;

use crate::support::World;

#[test]
fn a_device_takes_the_bytes_and_stays_a_device() {
    let world = World::new();
    world.tree("s: f=300K d/g=1K");
    for command in ["cp s/f null", "cp -I s/f null", "sync s/f null", "sum -o null s", "cp --force -n s/f null"] {
        if !world.has("null") {
            world.tool("mknod", "null c 1 3");
        }
        world.haul(command).succeeds();
        let there = std::fs::symlink_metadata(world.path("null")).expect("it is there");
        assert!(there.file_type().is_char_device(), "{command}");
    }
    // Nothing could be verified there, and a source must not go.
    for command in ["mv s/f null", "cp --verify s/f null", "cp --remove-source-files s/f null", "cp s null", "cp s/f s/d/g null"] {
        world.haul(command).ends(1);
        assert!(world.has("s/f"));
        assert!(std::fs::symlink_metadata(world.path("null")).expect("it is there").file_type().is_char_device(), "{command}");
    }
    world.haul("cp --force s/f null").succeeds();
    assert_eq!(world.read("null"), world.read("s/f"));
}

#[test]
fn a_block_device_is_refused() {
    let world = World::new();
    world.tree("s: f=1K");
    // No driver has this number: opening it would fail.
    world.tool("mknod", "disk b 241 0");
    let ran = world.haul("cp s/f disk").ends(1);
    assert!(ran.stderr.contains("block device"), "{}", ran.stderr);
    assert!(std::fs::symlink_metadata(world.path("disk")).expect("it is there").file_type().is_block_device());
}

#[test]
fn a_pipe_is_written_to() {
    let world = World::new();
    world.tree("s: f=300K");
    world.tool("mkfifo", "pipe");
    let reader = std::thread::spawn({
        let pipe = world.path("pipe");
        move || std::fs::read(pipe).expect("read the pipe")
    });
    world.haul("cp s/f pipe").succeeds();
    assert_eq!(reader.join().expect("read"), world.read("s/f"));
    assert!(std::fs::symlink_metadata(world.path("pipe")).expect("it is there").file_type().is_fifo());
}

#[test]
fn a_link_to_the_output_of_a_command_is_followed() {
    let world = World::new();
    world.tree("s: f=1K");
    world.write("list", "old");
    std::os::unix::fs::symlink("list", world.path("link")).expect("link");
    let printed = world.haul("sum s").succeeds();
    world.haul("sum -o link s").succeeds();
    assert!(world.path("link").is_symlink());
    assert_eq!(String::from_utf8_lossy(&world.read("list")), printed.stdout);
    let printed_there = world.haul("sum -o /dev/stdout s").succeeds();
    assert_eq!(printed_there.stdout, printed.stdout);
}

#[test]
fn devices_and_pipes_in_trees_are_replaced_only_by_force() {
    let world = World::new();
    world.tree("s: null=1K pipe=1K other=1K d:");
    world.tool("mknod", "d/null c 1 3");
    world.tool("mkfifo", "d/pipe");
    world.haul("cp s/ d").ends(23);
    assert!(std::fs::symlink_metadata(world.path("d/null")).expect("there").file_type().is_char_device());
    assert!(std::fs::symlink_metadata(world.path("d/pipe")).expect("there").file_type().is_fifo());
    assert_eq!(world.read("d/other"), world.read("s/other"));
    world.haul("cp --force s/ d").succeeds();
    assert_eq!(world.read("d/null"), world.read("s/null"));
}

fn aged(path: &Path, seconds: u64) {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    std::fs::File::open(path).expect("open").set_modified(at).expect("aged");
}

/// A snapshot made with --link-dest shares its files with the tree that is written into.
#[test]
fn writing_in_place_changes_no_other_name() {
    for size in [2000, 700_000] {
        let world = World::new();
        world.tree("s: d: snapshot:");
        world.write("d/a", "a".repeat(size));
        std::fs::hard_link(world.path("d/a"), world.path("snapshot/a")).expect("link");
        std::fs::hard_link(world.path("d/a"), world.path("d/b")).expect("link");
        world.write("d/alone", "a".repeat(size));
        for (name, letter) in [("a", "A"), ("b", "B"), ("alone", "C")] {
            world.write(format!("s/{name}"), letter.repeat(size));
            aged(&world.path(format!("s/{name}")), 1_600_000_000);
        }
        let before = std::fs::metadata(world.path("d/alone")).expect("stat").ino();
        let ran = world.haul("cp --inplace s/ d").succeeds();
        assert_eq!(world.read("snapshot/a"), "a".repeat(size).into_bytes());
        for (name, letter) in [("a", "A"), ("b", "B"), ("alone", "C")] {
            assert_eq!(world.read(format!("d/{name}")), letter.repeat(size).into_bytes(), "{name}");
        }
        assert_eq!(std::fs::metadata(world.path("d/alone")).expect("stat").ino(), before, "it is written in place");
        assert!(ran.stderr.contains("hard links"), "{}", ran.stderr);
    }
}

#[test]
fn file_systems_mounted_below_the_destination_are_not_emptied_with_x() {
    let world = World::new();
    world.tree("s: keep=1K both/f=1K d: keep=1K gone=1K both/old=1K mounted/ deep/");
    let (a, b, c) = (mount(&world, "d/mounted"), mount(&world, "d/both"), mount(&world, "d/deep"));
    for name in ["mounted/data", "both/extra", "deep/data"] {
        world.write(format!("d/{name}"), "kept");
    }
    world.haul("sync -x --delete -n s/ d").succeeds();
    world.haul("sync -x --delete s/ d").succeeds();
    for name in ["mounted/data", "both/extra", "deep/data"] {
        assert_eq!(world.read(format!("d/{name}")), b"kept", "{name}");
    }
    assert!(!world.has("d/gone"));
    for mounted in [a, b, c] {
        drop(mounted);
    }
}

/// Unmounted when dropped.
struct Mounted(std::path::PathBuf, #[expect(dead_code, reason = "it lives as long as the mount")] Volume);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

fn mount(world: &World, at: &str) -> Mounted {
    let volume = Volume::tmpfs(1 << 20).expect("a tmpfs");
    world.tool("mount", &format!("--bind {} {at}", volume.path().display()));
    Mounted(world.path(at), volume)
}

#[test]
fn the_source_is_not_deleted_through_another_mount() {
    for (inner, options) in [("a/b", ""), ("a/x/y", ""), ("a/b", "-n"), ("a/x/y", "--max-delete 100")] {
        let world = World::new();
        world.tree(&format!("{inner}: data=1K large=300K a: old=1K m:"));
        world.tool("mount", &format!("--bind {inner} m"));
        let ran = world.haul(&format!("sync --delete --max-size 10K {options} m/ a")).run();
        world.tool("umount", "m");
        assert!(world.has(format!("{inner}/data")) && world.has(format!("{inner}/large")), "{}{}", ran.stdout, ran.stderr);
        if options != "-n" {
            assert_eq!(ran.code, Some(23), "{}", ran.stderr);
            assert!(ran.stderr.contains("the source, mounted twice"), "{}", ran.stderr);
        }
    }
}

/// A small file is verified before it takes the name of an old one, with a journal and without.
#[test]
fn an_old_file_stands_until_the_new_one_is_verified() {
    for journal in [true, false] {
        for mode in ["", "--no-perms "] {
            let world = World::new();
            world.tree("s: a=3K b=5K back/d: a=1K b=2K c=1K");
            let (old, new) = (world.read("back/d/a"), world.read("s/a"));
            let mounted = SlowFs::mount(&world.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
            mounted.faults().add(Fault::always("", FaultKind::CorruptRead { at: 1500 }));
            let state = if journal { "" } else { "--state-dir /proc/none " };
            let run = || world.haul(&format!("cp {state}{mode}--verify s/")).arg(mounted.path().join("d"));
            let ran = run().ends(23);
            mounted.faults().clear();
            assert_eq!(std::fs::read(mounted.path().join("d/a")).expect("read"), old, "{}{}", ran.stdout, ran.stderr);
            let list: Vec<String> = world.list("back/d");
            assert_eq!(list, ["a", "b", "c"], "no staging file is left: {}", ran.stderr);
            run().succeeds();
            drop(mounted);
            assert_eq!(world.read("back/d/a"), new);
        }
    }
}

/// "The first of two sources wins" also when the first cannot be asked.
#[test]
fn a_second_source_does_not_win_because_the_first_cannot_be_read() {
    let world = World::of_user();
    world.tree("one: d/f=1K two: d/f=2K d/g=1K");
    let first = world.read("one/d/f");
    world.haul("cp one/ two/ out").succeeds();
    assert_eq!(world.read("out/d/f"), first);
    std::fs::set_permissions(world.path("one/d"), std::os::unix::fs::PermissionsExt::from_mode(0o0)).expect("closed");
    let ran = world.haul("cp one/ two/ out").ends(23);
    std::fs::set_permissions(world.path("one/d"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("opened");
    assert_eq!(world.read("out/d/f"), first, "{}", ran.stderr);
    assert!(ran.stderr.contains("an earlier source may have this name"), "{}", ran.stderr);
}

#[test]
fn a_link_is_replaced_and_not_written_through_in_place() {
    let world = World::new();
    world.tree("s: l=2M small=5 d: t=7");
    for name in ["l", "small"] {
        std::os::unix::fs::symlink("t", world.path("d").join(name)).expect("link");
    }
    world.haul("cp --inplace s/ d").succeeds();
    world.same("s/l", "d/l", haul_test::compare::What::USUAL);
    assert!(!world.path("d/l").is_symlink() && world.read("d/t").len() == 7);
}

#[test]
fn what_is_refused_leaves_no_destination() {
    let world = World::new();
    world.tree("s: a=5");
    world.write("list", "../x");
    for command in
        ["cp --backup-dir ../D s/ d", "cp --backup-dir /elsewhere s/ d", "cp --files-from list s/ d", "cp --chown nobody-at-all s/ d"]
    {
        world.haul(command).ends(1);
        assert!(!world.has("d"), "{command}");
    }
}

/// Nothing says so to the other: each writes the file whole, and no source is to blame.
#[test]
fn a_second_run_on_one_file_is_named_as_such() {
    let world = World::new();
    world.tree("s: f=6M d:");
    for flags in ["", " --verify"] {
        let first = world.haul(&format!("cp --bwlimit 8M{flags} s/f d/")).start();
        while world.names("d").is_empty() {
            std::thread::yield_now();
        }
        std::fs::remove_file(std::fs::read_dir(world.path("d")).expect("list").next().expect("one").expect("one").path()).expect("removed");
        let ran = first.end();
        assert_eq!(ran.code, Some(23));
        assert!(ran.stderr.contains("another run wrote the same file"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("No such file") && !ran.stderr.contains("changed"), "{}", ran.stderr);
    }
}
