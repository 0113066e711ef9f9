//! What a copy keeps of each entry, as root.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown};
use std::os::unix::net::UnixListener;

use haul_test::compare::What;
use haul_test::nasty;
use haul_test::volume::Volume;
use insta::assert_snapshot;

use crate::support::World;

fn chmod(w: &World, path: &str, mode: u32) {
    fs::set_permissions(w.path(path), fs::Permissions::from_mode(mode)).expect("chmod");
}

fn owner(w: &World, path: &str) -> (u32, u32) {
    let meta = w.path(path).symlink_metadata().expect("stat");
    (meta.uid(), meta.gid())
}

/// A tree with one of everything that -a keeps.
fn everything(w: &World) {
    let tree =
        w.tree("src: a=1K:0640 big=3M empty=0 d/e/f=9K d/sealed/:0555 d/sealed/g=2:0444 l->a dangling->nowhere h1=5 p| s=~9M@1M+4K,8M+64K");
    tree.build("src: h2=>h1 d/h3=>h1").unwrap();
    let _socket = UnixListener::bind(w.path("src/sock")).expect("a socket");
    w.tool("mknod", "src/null c 1 3");
    w.tool("mknod", "src/block b 7 200");
    w.tool("setfattr", "-n user.colour -v blue src/a");
    w.tool("setfattr", "-n user.empty src/d");
    w.tool("setfattr", "-n trusted.mark -v 1 src/d/e/f");
    w.tool("setfacl", "-m u:1234:r--,g:4321:rw- src/a");
    w.tool("setfacl", "-d -m u:1234:rwx src/d");
    chown(w.path("src/a"), Some(1000), Some(2000)).unwrap();
    chown(w.path("src/d"), Some(1001), Some(2001)).unwrap();
    lchown(w.path("src/l"), Some(1002), Some(2002)).unwrap();
    chown(w.path("src/p"), Some(1003), Some(2003)).unwrap();
    // chown clears these bits, so they come after it.
    chmod(w, "src/big", 0o6755);
    chmod(w, "src/d/e", 0o3770);
    chmod(w, "src/p", 0o600);
    for (name, nanoseconds) in
        [("a", 123_456_789), ("l", 1), ("p", 999_999_999), ("sock", 5), ("null", 7), ("d/sealed", 11), ("d", 13), (".", 17)]
    {
        haul_test::tree::set_mtime(&w.path("src").join(name), 1_000_000_000, nanoseconds).unwrap();
    }
}

#[test]
fn archive_keeps_everything() {
    let w = World::new();
    everything(&w);
    w.haul("cp -a src/ dst").succeeds();
    w.same("src", "dst", What::ALL);
    assert_eq!(w.rsync_finds("src/", "dst/"), "");
    let again = w.haul("cp -av src/ dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new(), "the second run does nothing");
}

#[test]
fn archive_repairs_what_differs_in_attributes_alone() {
    let w = World::new();
    everything(&w);
    w.haul("cp -a src/ dst").succeeds();
    for change in [
        "chmod 0700 dst/a",
        "chown 5:5 dst/d/e/f",
        "chown -h 7:7 dst/l",
        "setfacl -b dst/a",
        "setfattr -n user.more -v 1 dst/d/e/f",
        "chmod 0777 dst/d/sealed",
    ] {
        let (program, arguments) = change.split_once(' ').unwrap();
        w.tool(program, arguments);
    }
    w.haul("cp -a src/ dst").succeeds();
    w.same("src", "dst", What::ALL);
}

#[test]
fn archive_copies_a_nasty_tree() {
    let w = World::new();
    nasty::build(&w.path("src")).unwrap();
    let ran = w.haul("cp -a src/ dst").succeeds();
    assert!(!ran.stdout.chars().any(|c| c.is_control() && c != '\n'), "{:?}", ran.stdout);
    w.same("src", "dst", What::ALL);
    let again = w.haul("sync -av --delete src/ dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new());
}

#[test]
fn default_keeps_times_and_modes_without_set_id_bits() {
    let w = World::new();
    everything(&w);
    assert_snapshot!(w.haul("cp src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    copies the contents of [W]/src to [W]/dst
    Items:       19 (9 files, 4 directories, 2 symlinks, 4 special files)
    Created:     14 (9 files, 3 directories, 2 symlinks)
    Attributes:  set on 1 entry
    Skipped:     4 special files (copied only with -D or -a)
    Data:        12.0 MiB transferred, 12,593,169 bytes (1.33 MiB per file)
    ");
    assert_eq!(w.mode("dst/big"), 0o755);
    assert_eq!(w.mode("dst/d/e"), 0o1770);
    assert_eq!(w.mode("dst/d/sealed"), 0o555);
    assert_eq!(owner(&w, "dst/a"), (0, 0));
    assert_eq!(w.path("dst/h1").metadata().unwrap().nlink(), 1);
    assert_eq!(w.path("dst/a").metadata().unwrap().mtime_nsec(), 123_456_789);
    assert_eq!(w.path("dst").metadata().unwrap().mtime_nsec(), 17);
    assert!(!w.has("dst/p") && !w.has("dst/null"));
    assert_eq!(w.tool("getfattr", "-m - dst/a dst/d dst/d/e/f"), "");
    let again = w.haul("cp -v src/ dst").succeeds();
    assert_eq!(again.summary("Data"), Some("nothing to transfer"));
}

#[test]
fn lists_and_switches_keep_their_order() {
    let w = World::new();
    everything(&w);
    w.haul("cp --preserve=xattr src/a one").succeeds();
    assert!(w.tool("getfattr", "-d one").contains("user.colour"));
    assert_eq!(owner(&w, "one"), (0, 0));
    w.haul("cp --preserve=owner src/a two").succeeds();
    assert_eq!(owner(&w, "two"), (1000, 0));
    w.haul("cp -a --no-owner --no-xattrs --no-acls src/a three").succeeds();
    assert_eq!(owner(&w, "three"), (0, 2000));
    assert_eq!(w.tool("getfattr", "-d three"), "");
    haul_test::tree::set_mtime(&w.path("src/big"), 1_000_000_000, 0).unwrap();
    w.haul("cp --no-times --no-perms src/big four").succeeds();
    assert_ne!(w.path("four").metadata().unwrap().mtime(), w.path("src/big").metadata().unwrap().mtime());
    w.haul("cp -a --no-D --no-H --no-S src/ five").succeeds();
    assert!(!w.has("five/p") && !w.has("five/null") && !w.has("five/sock"));
    assert_eq!(w.path("five/h1").metadata().unwrap().nlink(), 1);
    w.haul("cp -a --no-links src/ six").succeeds();
    assert!(!w.has("six/l"));
    w.haul("cp -p src/big seven").succeeds();
    assert_eq!(w.mode("seven"), 0o6755);
}

#[test]
fn without_perms_new_files_obey_the_umask() {
    let w = World::new();
    w.tree("src: a=5:0777 d/:0777 d/b=3:0666 old=4:0600 dst: old=1:0644");
    w.haul("cp --no-perms src/ dst").succeeds();
    assert_eq!(w.mode("dst/a"), 0o755);
    assert_eq!(w.mode("dst/d"), 0o755);
    assert_eq!(w.mode("dst/d/b"), 0o644);
    assert_eq!(w.mode("dst/old"), 0o644, "a file that was there keeps its own");
}

#[test]
fn the_umask_of_one_line_of_a_run_is_that_of_all() {
    for jobs in [1, 3] {
        let w = World::new();
        w.tree("src: a=5:0666 d/:0777 d/b=300K:0777");
        let lines: String = (0..4).map(|i| format!("cp src/ dst{i}\nmkdir made{i}\ncp --no-perms src/ masked{i}\n")).collect();
        w.write("lines", lines);
        let state = w.state();
        let run = format!("umask 027; HAUL_STATE_DIR={} exec {} run --jobs {jobs} lines", state.display(), env!("CARGO_BIN_EXE_haul"));
        w.write("script", run);
        w.tool("sh", "script");
        for i in 0..4 {
            let modes =
                ["dst/a", "dst/d", "dst/d/b", "made", "masked/a", "masked/d", "masked/d/b"].map(|path| match path.split_once('/') {
                    Some((top, rest)) => w.mode(format!("{top}{i}/{rest}")),
                    None => w.mode(format!("{path}{i}")),
                });
            assert_eq!(modes, [0o666, 0o777, 0o777, 0o750, 0o640, 0o750, 0o750], "--jobs {jobs}, line {i}: {modes:?}");
        }
    }
}

#[test]
fn set_id_bits_go_with_the_owner_only() {
    let w = World::new();
    w.tree("src: a=5");
    chown(w.path("src/a"), Some(1000), Some(2000)).unwrap();
    chmod(&w, "src/a", 0o6755);
    w.haul("cp -a src/a both").succeeds();
    assert_eq!((w.mode("both"), owner(&w, "both")), (0o6755, (1000, 2000)));
    w.haul("cp -a --no-owner --no-group src/a neither").succeeds();
    assert_eq!((w.mode("neither"), owner(&w, "neither")), (0o755, (0, 0)), "a program of another user must not run as root");
    w.haul("cp -a --chown 5:6 src/a other").succeeds();
    assert_eq!(owner(&w, "other"), (5, 6));
}

#[test]
fn an_inherited_default_acl_widens_nothing() {
    for archive in ["", "-a"] {
        let w = World::new();
        w.tree("src: secret=5:0600 big=3M:0600 d/:0700 d/f=1:0640 p| dst:");
        chmod(&w, "src/p", 0o600);
        w.tool("setfacl", "-d -m u:1234:rwx,g:4321:rwx,m::rwx dst");
        w.haul(&format!("cp {archive} -D src/ dst")).succeeds();
        for name in ["secret", "big", "d", "d/f", "p"] {
            assert_eq!(w.mode(format!("dst/{name}")), w.mode(format!("src/{name}")), "{archive} {name}");
        }
        if archive == "-a" {
            let acls = w.tool("getfacl", "-R dst/d dst/secret dst/big");
            assert!(!acls.contains("1234"), "cleared\n{acls}");
        }
        assert!(!w.as_nobody("cat", "dst/secret"));
    }
}

#[test]
fn a_directory_keeps_the_set_group_bit_and_the_group_it_inherits() {
    let w = World::new();
    w.tree("src: d/e/f=3:0640 dst:");
    chown(w.path("dst"), Some(0), Some(3000)).unwrap();
    chmod(&w, "dst", 0o2775);
    w.haul("cp src/d dst").succeeds();
    for name in ["dst/d", "dst/d/e"] {
        assert_eq!((owner(&w, name).1, w.mode(name) & 0o2000), (3000, 0o2000), "{name}");
    }
    assert_eq!(owner(&w, "dst/d/e/f").1, 3000);
    let again = w.haul("cp -v src/d dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new());
    w.haul("cp -a src/d dst").succeeds();
    assert_eq!((owner(&w, "dst/d").1, w.mode("dst/d")), (0, w.mode("src/d")), "-a keeps the group, so the bit is the source's");
}

#[test]
fn modes_and_owners_change_on_the_way() {
    let w = World::new();
    w.tree("src: a=5:0600 x=5:0700 d/b=1:0644");
    w.haul("cp --chmod D750,F640 src/ one").succeeds();
    assert_eq!((w.mode("one/a"), w.mode("one/d"), w.mode("one/d/b")), (0o640, 0o750, 0o640));
    w.haul("cp --chmod=go=rX src/ two").succeeds();
    assert_eq!((w.mode("two/a"), w.mode("two/x")), (0o644, 0o755));
    w.haul("cp --chown=12:34 src/ three").succeeds();
    assert_eq!((owner(&w, "three/d/b"), owner(&w, "three/d")), ((12, 34), (12, 34)));
    w.haul("cp --chown=nobody src/a four").succeeds();
    assert_eq!(owner(&w, "four"), (65534, 0));
    let again = w.haul("cp -v --chmod D750,F640 --chown=0:0 src/ one").succeeds();
    assert_eq!(again.items(), Vec::<String>::new(), "what was changed on the way is the same the next time");
}

#[test]
fn holes_stay_holes_with_archive() {
    let w = World::new();
    w.tree("src: s=~200M@0+4K,100M+8K none=~50M");
    w.haul("cp -a src/ dst").succeeds();
    w.same("src", "dst", What::ALL);
    assert!(w.path("dst/s").metadata().unwrap().blocks() * 512 < 1 << 20);
}

#[test]
fn hard_links_across_runs() {
    let w = World::new();
    let tree = w.tree("src: a=5 d/");
    w.haul("cp -a src/ dst").succeeds();
    tree.build("src: b=>a d/c=>a").unwrap();
    w.haul("cp -a src/ dst").succeeds();
    w.same("src", "dst", What::ALL);
    // Broken at the source, they break at the destination.
    fs::remove_file(w.path("src/b")).unwrap();
    w.write("src/b", "fresh");
    w.haul("cp -a src/ dst").succeeds();
    w.same("src", "dst", What::ALL);
    let again = w.haul("cp -av src/ dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new());
}

#[test]
fn special_files_keep_their_kind() {
    let w = World::new();
    everything(&w);
    w.haul("cp -a src/p src/sock src/null src/block dst").succeeds();
    let kind = |name: &str| w.path(name).symlink_metadata().unwrap().file_type();
    assert!(kind("dst/p").is_fifo() && kind("dst/sock").is_socket());
    assert!(kind("dst/null").is_char_device() && kind("dst/block").is_block_device());
    assert_eq!(w.path("dst/null").metadata().unwrap().rdev(), w.path("src/null").metadata().unwrap().rdev());
    assert_eq!(w.mode("dst/p"), 0o600);
}

/// The mode of each name and its ACL, as getfacl prints them.
fn acls(w: &World, place: &str) -> String {
    w.tool("sh", &format!("-c cd${{IFS}}{place}&&getfacl${{IFS}}-nR${{IFS}}."))
}

#[test]
fn default_acls_of_the_destination_act_as_with_rsync() {
    let w = World::new();
    w.tree("src: f=5:0640 open=3:0666 x=70000:0755 big=400K:0600 k/f=1:0644 k/deep/y=2:0700");
    w.tool("mkfifo", "src/p");
    w.tool("chmod", "750 src/k");
    for (ours, theirs) in
        [("-r", "-r"), ("-rp", "-rp"), ("-rlptD", "-rlptD"), ("-rlptgoD", "-rlptgoD"), ("-rD --chmod=g=rwx", "-rD --chmod=g=rwx")]
    {
        for place in ["ours", "theirs"] {
            let _from_before = fs::remove_dir_all(w.path(place));
            w.tool("mkdir", place);
            w.tool("setfacl", &format!("-d -m g:777:rwx {place}"));
            // One that is replaced, and one of which only the mode is another.
            w.tool("sh", &format!("-c echo${{IFS}}other>{place}/f;chmod${{IFS}}604${{IFS}}{place}/f"));
        }
        let no_perms = if ours.contains('p') { "" } else { "--no-perms" };
        w.haul(&format!("cp {ours} {no_perms} src/ ours")).succeeds();
        w.tool("rsync", &format!("{theirs} src/ theirs/"));
        assert_eq!(acls(&w, "ours"), acls(&w, "theirs"), "{ours}");
    }
    // With -A what the source does not have goes.
    fs::remove_dir_all(w.path("ours")).unwrap();
    w.tool("mkdir", "ours");
    w.tool("setfacl", "-d -m g:777:rwx ours");
    w.haul("cp -a src/ ours").succeeds();
    assert!(!acls(&w, "ours").contains("777"), "{}", acls(&w, "ours"));
}

#[test]
fn times_beyond_what_the_file_system_holds_are_not_copied_again() {
    let w = World::new();
    let volume = Volume::ext4(16 << 20).expect("a file system");
    w.tree("src: late=5 early=6 now=7");
    for (name, date) in [("late", "2500-01-01"), ("early", "1800-01-01")] {
        w.tool("touch", &format!("-d {date} src/{name}"));
    }
    w.haul("cp -a src/").arg(volume.path().join("dst")).succeeds();
    let again = w.haul("cp -a src/").arg(volume.path().join("dst")).succeeds();
    assert_eq!(again.summary("Created"), Some("0"), "{}", again.stdout);
    assert_eq!(again.summary("Unchanged"), Some("3 files"), "{}", again.stdout);
    // A time that the file system holds is another one all the same.
    w.tool("touch", "-d 2400-01-01 src/late");
    let again = w.haul("cp -a src/").arg(volume.path().join("dst")).succeeds();
    assert_eq!(again.summary("Created"), Some("1 file"), "{}", again.stdout);
}
