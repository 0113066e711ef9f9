//! Sources, destinations and names that ask for trouble.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;

use haul_test::compare::What;
use haul_test::volume::{Mounted, Volume};
use haul_test::{nasty, tree};
use insta::assert_snapshot;

use crate::support::{Printed, World};

#[test]
fn a_missing_source() {
    let w = World::new("a=5 dst:");
    w.refuses(23, "cp nothing dst", "haul: nothing: open: no such file or directory");
    w.refuses(23, "cp nothing/ dst", "haul: nothing: open: no such file or directory");
    assert_snapshot!(w.haul("cp a nothing dst").run().snapshot(), @r"
    exit 23
    --- stdout
    copies 2 sources to [W]/dst
    Result:      completed with errors, listed below
    Items:       1 file
    Created:     1 file
    Errors:      1
    Data:        5 B transferred, 5 bytes

    Failures:
      nothing: open: no such file or directory

    Fix the errors and rerun; finished files are skipped:
      haul cp a nothing dst
    --- stderr
    haul: nothing: open: no such file or directory
    ");
    assert_eq!(w.names("dst"), "a", "the others are copied");
    w.refuses(23, "sync --delete nothing/ dst", "haul: nothing: open: no such file or directory");
    assert_eq!(w.names("dst"), "a", "and nothing is deleted");
}

#[test]
fn a_destination_inside_the_source() {
    let w = World::new("src: a=5 d/b=6");
    w.symlink("src", "link");
    assert_snapshot!(w.haul("cp src/ src/d").run().snapshot(), @"
    exit 1
    --- stderr
    haul: [W]/src: copy: the destination is inside the source
      try: copy to a path outside it, or copy its subdirectories one by one
    ");
    for command in
        ["cp src src/d", "cp src/ src/new", "cp link/ src/d", "cp src link/d", "sync --delete src/ src/d", "mv src src/d", "cp src src"]
    {
        w.haul(command).ends(1);
    }
    assert!(!w.has("src/new"), "what is refused leaves no directory");
    w.tree("mnt/");
    let mounted = Mounted::bind(&w.path("src/d"), &w.path("mnt"));
    let bound = w.haul("cp src/ mnt").run();
    drop(mounted);
    assert_eq!(bound.status.code(), Some(23), "{}", bound.err);
    assert!(bound.err.contains("it is the destination itself"), "{}", bound.err);
    assert_eq!(w.names("src"), "a d/ d/a d/b", "what is not the destination itself is copied, once");
}

#[test]
fn one_tree_by_two_names() {
    let w = World::new("src: a=5 d/b=6 mnt/");
    w.symlink("src", "link");
    let before = w.sh("ls -lR --time-style=full-iso src");
    w.tree("mnt/");
    let mounted = Mounted::bind(&w.path("src"), &w.path("mnt"));
    for command in [
        "cp src/ src",
        "cp src/ src/",
        "cp src/ link",
        "cp link/ src",
        "sync --delete src/ link/",
        "cp src/ mnt",
        "mv src/ mnt",
        "cp src .",
    ] {
        w.haul(command).ends(1);
    }
    drop(mounted);
    assert_eq!(w.sh("ls -lR --time-style=full-iso src"), before);
}

#[test]
fn one_file_by_two_names() {
    let w = World::new("a=5 d/");
    w.hard_link("a", "hard");
    w.symlink("a", "soft");
    w.hard_link("a", "d/a");
    assert_snapshot!(w.haul("cp a a").run().snapshot(), @r"
    exit 23
    --- stdout
    copies [W]/a to [W]/a
    Result:      completed with errors, listed below
    Items:       1 file
    Created:     0
    Errors:      1
    Data:        nothing transferred

    Failures:
      a: copy: source and destination are the same file

    Fix the errors and rerun; finished files are skipped:
      haul cp a a
    --- stderr
    haul: a: copy: source and destination are the same file
    ");
    for command in ["cp a hard", "cp a d", "cp -I a d", "cp --inplace -I a hard", "mv a hard", "cp --remove-source-files a hard"] {
        w.haul(command).ends(23);
        assert_eq!((w.read("hard").len(), w.read("a").len()), (5, 5), "{command}");
    }
    // A link to it is another file: the copy takes its place.
    w.haul("cp -I a soft").run();
    assert_eq!(w.read("a").len(), 5);
}

#[test]
fn trees_that_share_files() {
    let w = World::new("src: a=5 d/b=6");
    w.sh("cp -al src dst");
    let ran = w.haul("cp -aI src/ dst").succeeds();
    assert_eq!(ran.summary("Data"), Some("nothing to transfer"));
    w.haul("mv src/ dst").ends(23);
    w.assert_same("src", "dst", What { directory_mtime: false, ..What::USUAL });
}

#[test]
fn sources_that_are_in_the_destination() {
    let w = World::new("dst: src/a=5 old=3");
    w.haul("sync --delete dst/src/ dst").ends(1);
    assert_eq!(w.names("dst"), "old src/ src/a");
}

#[test]
fn files_where_directories_are_needed() {
    let w = World::new("src: a=5");
    w.write("f", "f");
    w.refuses(1, "cp src/ f", "haul: f: copy to: is a file, but must be a directory\n  try: DST comes last; name a directory there");
    w.refuses(23, "cp src/ f/x", "haul: f/x: open: Not a directory");
    w.refuses(
        1,
        "cp f src/a/",
        "haul: src/a: copy to: is a file, but the trailing slash means a directory\n  try: omit the slash to replace the file",
    );
    assert_eq!(w.read("f"), b"f");
}

#[test]
fn a_fifo_is_made_again_and_not_summed() {
    let w = World::new("p| dst:");
    w.haul("cp -a p dst").succeeds();
    assert!(w.meta("dst/p").file_type().is_fifo());
    w.haul("sum p").run();
}

#[test]
fn names_do_not_reach_the_terminal_raw() {
    let w = World::new("src:");
    for name in [b"new\nline".as_slice(), b"esc\x1b[31mred", b"bad\xff\xfeutf8", b"\xe2\x80\xaertl", b"tab\t", b"\x7fdel", b"\xc2\x9bcsi"] {
        w.write(w.path("src").join(OsStr::from_bytes(name)), "x");
    }
    w.age("src");
    assert_snapshot!(w.haul("cp -v src/ dst").run().snapshot(), @r"
    exit 0
    --- stdout
    copies the contents of [W]/src to [W]/dst
    attributes  ./
    create      \u{202e}rtl
    create      \u{9b}csi
    create      \x7fdel
    create      bad\xff\xfeutf8
    create      esc\x1b[31mred
    create      new\nline
    create      tab\t
    Items:       8 (7 files, 1 directory)
    Created:     7 files
    Attributes:  set on 1 entry
    Data:        7 B transferred, 7 bytes (1 B per file)
    ");
    w.assert_same("src", "dst", What::USUAL);
    let ended = w.haul("cp").arg(OsStr::from_bytes(b"no\x1b[2J\xff")).arg("dst").ends(23);
    assert_eq!(ended.err, "haul: no\\x1b[2J\\xff: open: no such file or directory\n");
    for command in ["ls src", "tree src", "check -v src/ dst", "du -a src", "sync -n --delete src/ dst", "cp --json src/ dst2"] {
        let ran = w.haul(command).run();
        let raw = |text: &str| text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}');
        assert!(!raw(&ran.out) && !raw(&ran.err), "{command}: {:?}{:?}", ran.out, ran.err);
    }
}

/// Escape sequences, C1, a return, directions, and what nobody sees.
const HOSTILE: &str = "x\x1b[31m\u{9b}2J\r\u{202e}\u{200b}\u{feff}\u{2028}\u{e0041}y";

#[test]
#[ignore = "full"]
fn arguments_do_not_reach_the_terminal_raw() {
    let w = World::new("src: a=1K");
    w.tree("named: b=1");
    w.write(format!("named/{HOSTILE}"), "x");
    w.write(format!("{HOSTILE}/f"), "x");
    let lines = [
        "@",
        "--@",
        "@ -h",
        "cp --@ src dst",
        "cp src @/none/x",
        "cp -v src @",
        "cp @ dst",
        "cp -n @ dst",
        "cp @:x dst",
        "cp s3://@/x .",
        "cp @://x dst",
        "sync --exclude @ --stat src/ dst",
        "cp --log @/none src dst",
        "cp --state-dir @ -vv src dst",
        "cp --failed-to @/no/x src dst",
        "sync --link-dest @ src/ dst",
        "cp --link-dest @/no src dst3",
        "cp --backup-dir @ -I src dst",
        "cp --files-from @no src dst",
        "cp --files-from @/f src dst",
        "cp --chmod @ src dst",
        "cp --chown @ src dst",
        "cp --bwlimit @ src dst",
        "cp -j @ src dst",
        "cp -i @ src dst",
        "cp --preserve=@ src dst",
        "cp --deadline @ src dst",
        "cp --endpoint-url @ src s3://b/x",
        "ls --profile @ s3://b",
        "cp --region @ src s3://b/",
        "cp --sse-c @ src s3://b/",
        "cp --jump @ src host:x",
        "cp --ssh @ src host:x",
        "ls -F @ host:",
        "cp --ssh-option @ src host:x",
        "cp --data-ports @ src host:",
        "cp --agent @ src host:x",
        "help @",
        "jobs show @",
        "jobs clean @",
        "why @",
        "completions @",
        "man @/x/named/b/c",
        "demo --dir @/none",
        "doctor @",
        "check --manifest @ src",
        "check src @",
        "check @ src",
        "check --missing-to @/no/x src dst",
        "sum @no",
        "sum -o @/no/x src",
        "ls @",
        "ls -l @",
        "ls -R .",
        "ls @no",
        "du @",
        "du -d 3 .",
        "tree @",
        "cat @",
        "cat @no",
        "mkdir @",
        "mkdir @no/x/y",
        "rm @",
        "rm -n -r @",
        "rm @no",
        "mb @",
        "head s3://@",
        "presign --expires @ s3://b/k",
        "run @",
        "run @no",
        "bench data @ set",
        "bench data 1x1KiB @",
        "bench report @",
        "bench files @no",
        "mv @no dst",
        "mv -v named named2",
        "cp - @/no/x",
        "cp - @",
        "cp --list-only @ .",
        "cp --verify @/ dst5",
        "jobs",
        "why",
    ];
    for line in lines {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('@', HOSTILE)).collect();
        let ran = w.haul("").args(&words).run();
        let raw = |text: &str| {
            text.chars().find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || HOSTILE.chars().any(|h| h == *c && !h.is_ascii()))
        };
        assert_eq!((raw(&ran.out), raw(&ran.err)), (None, None), "{line}: {:?}\n{:?}", ran.out, ran.err);
    }
}

#[test]
fn long_names_and_deep_paths() {
    let w = World::new("");
    nasty::deep(&w.path("src")).unwrap();
    for byte in [b'a', b'b'] {
        w.write(w.path("src").join(OsStr::from_bytes(&[byte; 255])), "x");
    }
    w.haul("cp -a src/ dst").succeeds();
    w.assert_same("src", "dst", What::ALL);
    w.haul("check src/ dst").succeeds();
    w.haul("sync -a --delete src/ dst").succeeds();
    w.haul("mv src moved").succeeds();
    assert!(!w.has("src"));
    w.tree("empty/");
    w.haul("sync --delete --force empty/ dst").succeeds();
    assert_eq!(w.names("dst"), "");
    w.haul("rm -r moved").succeeds();
    assert!(!w.has("moved"));
}

#[test]
#[ignore = "full"]
fn a_directory_of_many_names() {
    let w = World::new("");
    let source = Volume::tmpfs(256 << 20).unwrap();
    tree::flat(&source.path().join("src"), 100_000, 0).unwrap();
    // What a path ends in says what is meant.
    let (src, dst) = (source.path().join("src/"), source.path().join("dst"));
    assert!(src.as_os_str().as_bytes().ends_with(b"/"));
    let ran = w.haul("cp -q").arg(&src).arg(&dst).succeeds();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    w.assert_same(source.path().join("src"), &dst, What { root: true, ..What::USUAL });
    w.write(dst.join("extra"), "x");
    let ran = w.haul("sync -v --delete").arg(&src).arg(&dst).succeeds();
    assert_eq!(ran.items(), ["attributes  ./", "delete      extra"]);
}

#[test]
fn a_read_only_destination() {
    let w = World::new("src: a=5 d/b=300K");
    w.tree("dst/");
    let _mounted = Mounted::tmpfs(&w.path("dst"), "size=1M,ro");
    let ran = w.haul("cp src/ dst").ends(11);
    assert!(ran.err.contains("ead-only file system"), "{}", ran.err);
    assert_eq!(ran.err.lines().filter(|l| l.contains("ead-only")).count(), 1, "one message: {}", ran.err);
}

#[test]
fn a_run_of_many_lines_ends_with_those_that_failed() {
    let w = World::new("a=1");
    w.write("list", "cp a b\ncp absent c\ncp a d\nrm gone\nlx a\n");
    let ended = w.haul("run --jobs 3 list").ends(23);
    let lines: Vec<&str> = ended.err.lines().collect();
    let last = ["haul: 3 lines failed:", "haul:   line 2 (23): cp absent c", "haul:   line 4 (23): rm gone", "haul:   line 5 (1): lx a"];
    assert_eq!(&lines[lines.len() - 4..], last, "{ended}");
}
