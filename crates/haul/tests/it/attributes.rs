//! What a copy keeps of each entry, as root.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;

use haul_test::compare::What;
use haul_test::nasty;
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};
use haul_test::volume::Volume;
use insta::assert_snapshot;

use crate::support::{Printed, World};

/// A tree with one of everything that -a keeps.
fn everything(w: &World) {
    let tree =
        w.tree("src: a=1K:0640 big=3M empty=0 d/e/f=9K d/sealed/:0555 d/sealed/g=2:0444 l->a dangling->nowhere h1=5 p| s=~9M@1M+4K,8M+64K");
    tree.build("src: h2=>h1 d/h3=>h1").unwrap();
    let _socket = UnixListener::bind(w.path("src/sock")).expect("a socket");
    // chown clears set-id bits, so chmod comes after it.
    w.sh("cd src && mknod null c 1 3 && mknod block b 7 200
        setfattr -n user.colour -v blue a && setfattr -n user.empty d && setfattr -n trusted.mark -v 1 d/e/f
        setfacl -m u:1234:r--,g:4321:rw- a && setfacl -d -m u:1234:rwx d
        chown 1000:2000 a && chown 1001:2001 d && chown -h 1002:2002 l && chown 1003:2003 p
        chmod 6755 big && chmod 3770 d/e && chmod 600 p");
    for (name, nanoseconds) in
        [("a", 123_456_789), ("l", 1), ("p", 999_999_999), ("sock", 5), ("null", 7), ("d/sealed", 11), ("d", 13), (".", 17)]
    {
        haul_test::tree::set_mtime(&w.path("src").join(name), 1_000_000_000, nanoseconds).unwrap();
    }
}

#[test]
fn archive_keeps_everything() {
    let w = World::new("");
    everything(&w);
    w.haul("cp -a src/ dst").succeeds();
    w.assert_same("src", "dst", What::ALL);
    assert_eq!(w.rsync_finds("src/", "dst/"), "");
    w.haul("cp -a src/p src/sock src/null src/block named").succeeds();
    for name in ["p", "sock", "null", "block"] {
        w.assert_same(format!("src/{name}"), format!("named/{name}"), What::ALL);
    }
    let again = w.haul("cp -av src/ dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new(), "the second run does nothing");
}

#[test]
fn archive_repairs_what_differs_in_attributes_alone() {
    let w = World::new("");
    everything(&w);
    w.haul("cp -a src/ dst").succeeds();
    w.sh("cd dst && chmod 0700 a && chown 5:5 d/e/f && chown -h 7:7 l && setfacl -b a
        setfattr -n user.more -v 1 d/e/f && chmod 0777 d/sealed");
    w.haul("cp -a src/ dst").succeeds();
    w.assert_same("src", "dst", What::ALL);
}

#[test]
fn archive_copies_a_nasty_tree() {
    let w = World::new("");
    nasty::build(&w.path("src")).unwrap();
    let ran = w.haul("cp -a src/ dst").succeeds();
    assert!(!ran.out.chars().any(|c| c.is_control() && c != '\n'), "{:?}", ran.out);
    w.assert_same("src", "dst", What::ALL);
    let again = w.haul("sync -av --delete src/ dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new());
}

#[test]
fn default_keeps_times_and_modes_without_set_id_bits() {
    let w = World::new("");
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
    assert_eq!(w.owner("dst/a"), (0, 0));
    assert_eq!(w.meta("dst/h1").nlink(), 1);
    assert_eq!(w.meta("dst/a").mtime_nsec(), 123_456_789);
    assert_eq!(w.meta("dst").mtime_nsec(), 17);
    assert!(!w.has("dst/p") && !w.has("dst/null"));
    assert_eq!(w.sh("getfattr -m - dst/a dst/d dst/d/e/f"), "");
    let again = w.haul("cp -v src/ dst").succeeds();
    assert_eq!(again.summary("Data"), Some("nothing to transfer"));
}

#[test]
fn lists_and_switches_keep_their_order() {
    let w = World::new("");
    everything(&w);
    w.haul("cp --preserve=xattr src/a one").succeeds();
    assert!(w.sh("getfattr -d one").contains("user.colour"));
    assert_eq!(w.owner("one"), (0, 0));
    w.haul("cp --preserve=owner src/a two").succeeds();
    assert_eq!(w.owner("two"), (1000, 0));
    w.haul("cp -a --no-owner --no-xattrs --no-acls src/a three").succeeds();
    assert_eq!(w.owner("three"), (0, 2000));
    assert_eq!(w.sh("getfattr -d three"), "");
    haul_test::tree::set_mtime(&w.path("src/big"), 1_000_000_000, 0).unwrap();
    w.haul("cp --no-times --no-perms src/big four").succeeds();
    assert_ne!(w.meta("four").mtime(), w.meta("src/big").mtime());
    w.haul("cp -a --no-D --no-H --no-S src/ five").succeeds();
    assert!(!w.has("five/p") && !w.has("five/null") && !w.has("five/sock"));
    assert_eq!(w.meta("five/h1").nlink(), 1);
    w.haul("cp -a --no-links src/ six").succeeds();
    assert!(!w.has("six/l"));
    w.haul("cp -p src/big seven").succeeds();
    assert_eq!(w.mode("seven"), 0o6755);
}

#[test]
fn without_perms_new_files_obey_the_umask() {
    let w = World::new("src: a=5:0777 d/:0777 d/b=3:0666 old=4:0600 dst: old=1:0644");
    w.haul("cp --no-perms src/ dst").succeeds();
    // A file that existed keeps its own mode.
    assert_eq!(["dst/a", "dst/d", "dst/d/b", "dst/old"].map(|name| w.mode(name)), [0o755, 0o755, 0o644, 0o644]);
}

#[test]
fn the_umask_of_one_line_of_a_run_is_that_of_all() {
    for jobs in [1, 3] {
        let w = World::new("src: a=5:0666 d/:0777 d/b=300K:0777");
        let lines: String = (0..4).map(|i| format!("cp src/ dst{i}\nmkdir made{i}\ncp --no-perms src/ masked{i}\n")).collect();
        w.write("lines", lines);
        let run = format!("exec {} run --jobs {jobs} lines", env!("CARGO_BIN_EXE_haul"));
        w.sh(&format!("umask 027; HAUL_STATE_DIR={} {run}", w.state.display()));
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
    let w = World::new("src: a=5");
    w.chown("src/a", 1000, 2000);
    w.chmod("src/a", 0o6755);
    w.haul("cp -a src/a both").succeeds();
    assert_eq!((w.mode("both"), w.owner("both")), (0o6755, (1000, 2000)));
    w.haul("cp -a --no-owner --no-group src/a neither").succeeds();
    assert_eq!((w.mode("neither"), w.owner("neither")), (0o755, (0, 0)), "a program of another user must not run as root");
    w.haul("cp -a --chown 5:6 src/a other").succeeds();
    assert_eq!(w.owner("other"), (5, 6));
}

#[test]
fn a_directory_keeps_the_set_group_bit_and_the_group_it_inherits() {
    let w = World::new("src: d/e/f=3:0640 dst:");
    w.chown("dst", 0, 3000);
    w.chmod("dst", 0o2775);
    w.haul("cp src/d dst").succeeds();
    for name in ["dst/d", "dst/d/e"] {
        assert_eq!((w.owner(name).1, w.mode(name) & 0o2000), (3000, 0o2000), "{name}");
    }
    assert_eq!(w.owner("dst/d/e/f").1, 3000);
    let again = w.haul("cp -v src/d dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new());
    w.haul("cp -a src/d dst").succeeds();
    assert_eq!((w.owner("dst/d").1, w.mode("dst/d")), (0, w.mode("src/d")), "-a keeps the group, so the bit is the source's");
}

#[test]
fn modes_and_owners_change_on_the_way() {
    let w = World::new("src: a=5:0600 x=5:0700 d/b=1:0644");
    w.haul("cp --chmod D750,F640 src/ one").succeeds();
    assert_eq!((w.mode("one/a"), w.mode("one/d"), w.mode("one/d/b")), (0o640, 0o750, 0o640));
    w.haul("cp --chmod=go=rX src/ two").succeeds();
    assert_eq!((w.mode("two/a"), w.mode("two/x")), (0o644, 0o755));
    w.haul("cp --chown=12:34 src/ three").succeeds();
    assert_eq!((w.owner("three/d/b"), w.owner("three/d")), ((12, 34), (12, 34)));
    w.haul("cp --chown=nobody src/a four").succeeds();
    assert_eq!(w.owner("four"), (65534, 0));
    let again = w.haul("cp -v --chmod D750,F640 --chown=0:0 src/ one").succeeds();
    assert_eq!(again.items(), Vec::<String>::new(), "what was changed on the way is the same the next time");
}

#[test]
fn hard_links_across_runs() {
    let w = World::new("");
    let tree = w.tree("src: a=5 d/");
    w.haul("cp -a src/ dst").succeeds();
    tree.build("src: b=>a d/c=>a").unwrap();
    w.haul("cp -a src/ dst").succeeds();
    w.assert_same("src", "dst", What::ALL);
    // Broken at the source, they break at the destination.
    w.remove("src/b");
    w.write("src/b", "fresh");
    w.haul("cp -a src/ dst").succeeds();
    w.assert_same("src", "dst", What::ALL);
    let again = w.haul("cp -av src/ dst").succeeds();
    assert_eq!(again.items(), Vec::<String>::new());
}

/// The mode of each name and its ACL, as getfacl prints them.
fn acls(w: &World, place: &str) -> String {
    w.sh(&format!("cd {place} && getfacl -nR ."))
}

#[test]
fn default_acls_of_the_destination_act_as_with_rsync() {
    let w = World::new("src: f=5:0640 open=3:0666 x=70000:0755 big=400K:0600 k/f=1:0644 k/deep/y=2:0700");
    w.sh("mkfifo src/p && chmod 750 src/k");
    let make = |place: &str| {
        w.remove(place);
        w.sh(&format!("mkdir {place} && setfacl -d -m g:777:rwx {place}"));
    };
    for flags in ["-r", "-rp", "-rlptD", "-rlptgoD", "-rD --chmod=g=rwx"] {
        for place in ["ours", "theirs"] {
            make(place);
            // One that is replaced, and one of which only the mode is another.
            w.sh(&format!("echo other > {place}/f && chmod 604 {place}/f"));
        }
        let no_perms = if flags.contains('p') { "" } else { "--no-perms" };
        w.haul(&format!("cp {flags} {no_perms} src/ ours")).succeeds();
        w.sh(&format!("rsync {flags} src/ theirs/"));
        assert_eq!(acls(&w, "ours"), acls(&w, "theirs"), "{flags}");
    }
    // With -A what the source does not have goes.
    make("ours");
    w.haul("cp -a src/ ours").succeeds();
    assert!(!acls(&w, "ours").contains("777"), "{}", acls(&w, "ours"));
}

#[test]
fn times_beyond_what_the_file_system_holds_are_not_copied_again() {
    let w = World::new("");
    let volume = Volume::ext4(16 << 20).expect("a file system");
    w.tree("src: late=5 early=6 now=7");
    w.sh("touch -d 2500-01-01 src/late && touch -d 1800-01-01 src/early");
    let copy = || w.haul("cp -a src/").arg(volume.path().join("dst")).succeeds();
    copy();
    let again = copy();
    assert_eq!((again.summary("Created"), again.summary("Unchanged")), (Some("0"), Some("4 (3 files, 1 directory)")), "{again}");
    // A time that the file system holds is another one all the same.
    w.sh("touch -d 2400-01-01 src/late");
    assert_eq!(copy().summary("Replaced"), Some("1 file"));
}

/// The limits of other file systems are times like others.
#[test]
fn only_the_file_system_s_own_limits_stand_for_times_beyond_them() {
    let w = World::new("");
    let volume = Volume::ext4(16 << 20).expect("a file system");
    for (source, target) in [("@0", "@315532800"), ("@-1", "@0"), ("@4294967296", "@4294967295"), ("@2147483648", "@2147483647")] {
        w.write("src/f", "new");
        w.write(volume.path().join("dst/f"), "old");
        w.sh(&format!("touch -d {source} src/f; touch -d {target} {}/dst/f", volume.path().display()));
        w.haul("check src/").arg(volume.path().join("dst")).ends(1);
        w.haul("sync src/").arg(volume.path().join("dst")).succeeds();
        assert_eq!(w.text(volume.path().join("dst/f")), "new", "{source} {target}");
    }
}

/// As scp -p, SFTP and rsync to an old system leave them; on FUSE nobody knows the resolution.
#[test]
#[ignore = "full"]
fn a_copy_in_whole_seconds_is_not_copied_again() {
    let w = World::new("src: a=5 d/b=6 back/:");
    let mounted = SlowFs::mount(&w.path("back"), Options::fast()).expect("FUSE");
    let mount = mounted.path().display().to_string();
    w.sh(&format!("find src -exec touch -d '2021-03-04 05:06:07.123456789' {{}} +; cp -a src dst; cp -a src {mount}/dst"));
    for (top, time, code) in [
        (".", "07", 0),
        (&mount, "07", 0),
        (&mount, "07.123456700", 0),
        (&mount, "07.12", 0),
        (".", "08", 1),
        (".", "07.123456700", 1),
        (".", "07.12", 1),
        (&mount, "07.123456790", 1),
        (&mount, "07.2", 1),
    ] {
        w.sh(&format!("find {top}/dst -exec touch -d '2021-03-04 05:06:{time}' {{}} +"));
        w.haul(&format!("check src/ {top}/dst")).ends(code);
        let created = w.haul(&format!("sync -n src/ {top}/dst")).succeeds();
        assert_eq!(created.summary("Replace").is_none(), code == 0, "{top} {time}\n{created}");
    }
}

#[test]
fn a_fuse_file_system_that_sets_no_modes_and_owners_gets_the_content() {
    for errno in [libc::ENOSYS, libc::EIO] {
        let w = World::new("src: a=5:0600 d/big=300K:0640 back/:");
        w.sh("chown -R 1:2 src");
        let mounted = SlowFs::mount(&w.path("back"), Options { threads: 4, ..Options::fast() }).expect("FUSE");
        mounted.faults().add(Fault::always("", FaultKind::SetError { errno }));
        let ran = w.haul("cp -a src/").arg(mounted.path().join("dst")).succeeds();
        ran.out_has("owner").out_has("mode");
        drop(mounted);
        w.assert_same("src", "back/dst", What { mode: 0, ..What::USUAL });
    }
}

#[test]
#[ignore = "full"]
fn special_bits_are_set_as_rsync_sets_them() {
    let w = World::new("src: f=5 d/g=6 e/");
    for mode in ["0644", "6711", "2755"] {
        w.sh(&format!("chmod {mode} src/f src/d src/e"));
        for chmod in ["", "u=g", "a=g", "Dg+s", "g+s", "u+s", "D2755", "g-s", "u=rwx,g=u,o=g"] {
            let flag = if chmod.is_empty() { String::new() } else { format!("--chmod={chmod}") };
            w.haul(&format!("cp -p {flag} src/ ours")).succeeds();
            w.sh(&format!("rsync -rpt {flag} src/ theirs/"));
            let modes = |place: &str| w.sh(&format!("cd {place} && stat -c '%n %a' f d e d/g"));
            assert_eq!(modes("ours"), modes("theirs"), "{mode} {flag}");
            let again = w.haul(&format!("cp -pv {flag} src/ ours")).succeeds();
            assert_eq!(again.items(), Vec::<String>::new(), "{mode} {flag}");
            w.sh("rm -r ours theirs");
        }
    }
    // Without -p bits of the source stay behind, and those that are asked for by name are set.
    w.sh("chmod 6755 src/f src/d");
    w.haul("cp --chmod=Dg+s src/ ours").succeeds();
    assert_eq!(w.sh("cd ours && stat -c %a f d e"), "755\n2755\n2755\n");
}

/// The lines of -i that name an entry, sorted.
fn itemised(printed: &str) -> Vec<String> {
    let is_item = |line: &&str| {
        let code = line.split(' ').next().unwrap_or_default();
        code == "*deleting" || code.len() >= 2 && b"<>ch.".contains(&code.as_bytes()[0]) && b"fdLDS".contains(&code.as_bytes()[1])
    };
    let mut lines: Vec<String> = printed.lines().filter(is_item).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn items_are_those_of_rsync_to_the_letter() {
    const ALL: &str = "-rlptgoD";
    let changes = [
        ("touch -d @2 f d; touch -h -d @2 l", ALL),
        ("echo 333 > f; touch -d @1000000 f", ALL),
        ("echo 333 > g; chmod 600 g; chown 1:2 g", ALL),
        ("chmod 600 f; chmod 700 d; chown 1:2 d; chown -h 1:2 l", ALL),
        ("ln -sfn other l", ALL),
        ("rm l; echo > l; rm g; ln -s x g", ALL),
        ("rm c; mknod c c 1 5", ALL),
        ("rm -r f d", ALL),
        ("echo 33 > g", "-rlptgoD -c"),
        ("echo 33 > g; touch -d @1000000 g; chmod 600 g", "-rlptgoD -c"),
        ("chmod 600 g", "-rlptgoD -I"),
        ("touch -d @2 g; echo 333 > f", "-rlpgoD --no-times"),
        ("touch -d @2 f; chmod 600 g", "-rlpt"),
        ("mkdir q; echo > q/z; ln -s 1 z", "-rlptgoD --delete"),
        ("setfattr -x user.a g; echo 333 > g", "-aAX"),
    ];
    let w = World::new("");
    w.sh("mkdir -p s/d/e && cd s && echo 1 > f && echo 22 > g && ln -s f l && mknod c c 1 3 && echo x > d/e/x && setfattr -n user.a -v 1 g
        touch -h -d @1000000 f g l d/e/x c d/e d .");
    for (change, flags) in changes {
        w.sh(&format!("rm -rf ours theirs; cp -a s theirs; cd theirs; {change}; cd ..; cp -a theirs ours"));
        let theirs = w.sh(&format!("rsync -i {flags} s/ theirs/"));
        let ours = w.haul(&format!("sync -i {flags} s/ ours")).succeeds();
        assert_eq!(itemised(&ours.out), itemised(&theirs), "{flags}: {change}");
    }
    w.sh("rm -rf ours theirs; mkdir ours theirs; touch -d @2 ours theirs; ln s/f s/h");
    let theirs = w.sh("rsync -iaH s/ theirs/");
    let ours = w.haul("sync -iaH s/ ours").succeeds();
    // Which of the names is the first is nobody's business.
    let first = |lines: Vec<String>| lines.join("\n").replace("h => f", "f => h").replace(">f+++++++++ f", ">f+++++++++ h");
    assert_eq!(first(itemised(&ours.out)), first(itemised(&theirs)));
}
