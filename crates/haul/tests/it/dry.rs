//! A dry run says what the run then does.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use haul_test::content::Random;
use haul_test::tree::Tree;
use insta::assert_snapshot;

use crate::support::{Printed, World};

/// What is done to which name: of a line of `-n`, whose second column is the reason, or of `-v`.
fn done(line: &str, reasons: bool) -> (String, String) {
    let (action, rest) = line.split_at(12);
    // The one reason that is wider than its column.
    let long = "hard link to a copied file";
    let rest = if reasons && rest.starts_with(long) { &rest[long.len() - 24..] } else { rest };
    let name = if reasons { rest.get(26..).unwrap_or("") } else { rest };
    (action.trim().to_owned(), name.trim_start().to_owned())
}

#[test]
fn a_dry_run_gives_reasons() {
    let w = World::new("");
    let tree = w.tree("src: new=5 size=6 time=7 mode=8:0600 same=9 d/n=1 l->new dst: size=7 time=7 mode=8:0644 same=9 old=1 od/x=2 l->old");
    for name in ["src/mode", "dst/mode", "src/same", "dst/same", "src/time", "src/size"] {
        tree.set_mtime(name, 1_000_000_000, 0).unwrap();
    }
    assert_snapshot!(w.haul("sync -n --delete src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    syncs the contents of [W]/src to [W]/dst, deleting files that the source does not have
    attributes  attributes differ         ./
    attributes  attributes differ         mode
    create      missing at destination    d/n
    create      missing at destination    new
    delete      missing at source         od/
    delete      missing at source         od/x
    delete      missing at source         old
    link        link target differs       l -> new
    mkdir       missing at destination    d/
    replace     size differs              size
    replace     time differs              time
    Items:       9 (6 files, 2 directories, 1 symlink)
    Create:      3 (2 files, 1 directory)
    Replace:     3 (2 files, 1 symlink)
    Unchanged:   1 file
    Attributes:  to set on 2 entries
    Delete:      3 (2 files, 1 directory)
    Data:        19 B to transfer (4 B per file)
    DRY RUN: nothing was copied
    ");
    assert_snapshot!(w.haul("sync -ni --delete src/ dst").run().snapshot(), @"
    exit 0
    --- stdout
    syncs the contents of [W]/src to [W]/dst, deleting files that the source does not have
    *deleting   od/
    *deleting   od/x
    *deleting   old
    .d..t...... ./
    .f...p..... mode
    >f+++++++++ d/n
    >f+++++++++ new
    >f..t...... time
    >f.st...... size
    cLc.t...... l -> new
    cd+++++++++ d/
    Items:       9 (6 files, 2 directories, 1 symlink)
    Create:      3 (2 files, 1 directory)
    Replace:     3 (2 files, 1 symlink)
    Unchanged:   1 file
    Attributes:  to set on 2 entries
    Delete:      3 (2 files, 1 directory)
    Data:        19 B to transfer (4 B per file)
    DRY RUN: nothing was copied
    ");
}

/// Changes, removes and adds at the destination, and puts things of another kind in the way.
fn disturb(w: &World, seed: u64) {
    let mut random = Random::new(seed);
    for name in w.list("dst") {
        let path = w.path("dst").join(name.trim_end_matches('/'));
        let Ok(meta) = path.symlink_metadata() else { continue };
        match random.below(12) {
            0 if meta.is_file() => fs::write(&path, &name).unwrap(),
            1 if !meta.is_dir() => fs::remove_file(&path).unwrap(),
            2 if !meta.is_dir() => {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
                fs::write(path.join("inner"), "x").unwrap();
            }
            3 if meta.is_dir() => fs::remove_dir_all(&path).unwrap(),
            4 if meta.is_dir() => fs::write(path.join("extra"), "x").unwrap(),
            5 if meta.is_symlink() => {
                fs::remove_file(&path).unwrap();
                symlink("elsewhere", &path).unwrap();
            }
            6 if meta.is_file() => fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap(),
            7 if meta.is_dir() => {
                fs::remove_dir_all(&path).unwrap();
                fs::write(&path, "x").unwrap();
            }
            8 if meta.is_file() => {
                // Another inode of the same content: a hard link that is broken.
                let content = fs::read(&path).unwrap();
                fs::remove_file(&path).unwrap();
                fs::write(&path, content).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn a_dry_run_prints_what_the_run_then_does() {
    // Which name of several leads depends on the order of the workers, so hard links have a test of their own.
    for (seed, flags) in [
        (1, ""),
        (2, "-a --no-H"),
        (3, "-a --no-H --delete"),
        (4, "--delete"),
        (5, "-a --no-H --delete --force"),
        (6, "-u --delete"),
        (7, "-c --delete"),
        (8, "-a --no-H -I --delete"),
    ] {
        let w = World::new("");
        let verb = if flags.contains("--delete") { "sync" } else { "cp" };
        Tree::new(w.path("src")).unwrap().random(seed, 120).unwrap();
        w.sh("cp -PR --preserve=mode,timestamps src dst");
        disturb(&w, seed);
        let before = w.names("dst");
        let dry = w.haul(&format!("{verb} -n {flags} src/ dst")).run();
        assert_eq!(w.names("dst"), before, "seed {seed}: a dry run changes nothing");
        let wet = w.haul(&format!("{verb} -v {flags} src/ dst")).run();
        let planned: BTreeSet<_> = dry.items().iter().filter(|l| l.len() > 12).map(|l| done(l, true)).collect();
        let real: BTreeSet<_> = wet.items().iter().filter(|l| l.len() > 12).map(|l| done(l, false)).collect();
        let only = |a: &BTreeSet<_>, b: &BTreeSet<_>| a.difference(b).cloned().collect::<Vec<(String, String)>>();
        assert_eq!(
            (only(&planned, &real), only(&real, &planned)),
            (vec![], vec![]),
            "seed {seed}, {flags}: (said, not done), (done, not said)\n{}{}",
            dry.out,
            wet.out
        );
        assert_eq!(dry.status.code(), wet.status.code(), "seed {seed}");
        assert!(real.len() > 10, "seed {seed}");
    }
}

#[test]
fn a_dry_run_knows_hard_links() {
    let w = World::new("");
    let tree = w.tree("src: a=5 dst:");
    tree.build("src: b=>a").unwrap();
    let said = |w: &World| w.haul("cp -an src/ dst").succeeds().items().iter().map(|line| done(line, true)).collect::<Vec<_>>();
    let names = |items: Vec<(String, String)>| items.into_iter().filter(|(_, name)| name != "./").collect::<Vec<_>>();
    let item = |action: &str, name: &str| (action.to_owned(), name.to_owned());
    assert_eq!(names(said(&w)).iter().map(|(action, _)| action.as_str()).collect::<Vec<_>>(), ["create", "hardlink"]);
    w.haul("cp -a src/ dst").succeeds();
    assert_eq!(said(&w), vec![], "they are right");
    w.remove("dst/b");
    fs::copy(w.path("src/b"), w.path("dst/b")).unwrap();
    haul_test::tree::set_mtime(&w.path("src/a"), 1_000_000_000, 0).unwrap();
    for name in ["dst/a", "dst/b"] {
        haul_test::tree::set_mtime(&w.path(name), 1_000_000_000, 0).unwrap();
    }
    let broken = names(said(&w));
    assert!(broken == [item("hardlink", "a")] || broken == [item("hardlink", "b")], "{broken:?}");
}

/// Standard output is the result of a dry run and of `--json`, and of the lists that were asked for; a copy's summary is not.
#[test]
fn output_that_is_lost_is_an_error() {
    let w = World::new("src: a=1");
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("open /dev/full");
    for (command, code) in [
        ("cp -n src/ dst", 11),
        ("cp -n --json src/ dst", 11),
        ("cp --json src/ dst", 11),
        ("sync --json src/ dst", 11),
        ("check --json src/ dst", 11),
        ("cp src/ dst", 0),
    ] {
        let ran = w.haul(command).output(full()).ends(code);
        assert!(ran.err.contains("standard output: write: "), "{command}: {}", ran.err);
    }
    w.tree("empty: sub/");
    w.haul("check --missing-to /dev/full src/ empty").ends(11);
}
