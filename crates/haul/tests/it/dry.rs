//! A dry run says what the run then does.

use insta::assert_snapshot;

use crate::support::{Printed, World};

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
