//! Servers with narrow limits and passing failures: few handles, short reads, failures without a reason, connections that are lost.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use haul_test::compare::What;
use haul_test::parallel::parallel;
use haul_test::program::Program;
use haul_test::rogue::{Answer, Asked, Rogue, Thing, attrs, dir, file, kind, names, packet, string};
use haul_test::scratch::Scratch;
use haul_test::tree::spread;

use crate::ssh::support::{DIRECTIONS, SAME, World};

/// Requests that the rogue server does not carry out.
const SYMLINK: u8 = 20;

/// A world whose SFTP server is this script.
fn with_server(tree: &str, lines: &str, script: &str) -> World {
    let w = World::served(tree, &format!("Subsystem sftp ~/server\n{lines}"));
    w.write("server", script);
    w.chmod("server", 0o755);
    w
}

struct Odd {
    server: Rogue,
    s: Scratch,
}

impl Odd {
    fn new(tree: Thing, lie: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static) -> Odd {
        Odd { server: Rogue::new(tree, lie).expect("bash is there, and a port"), s: Scratch::new() }
    }

    fn haul(&self, words: &str) -> Program {
        self.s.haul(words).args(["--no-agent", "-e"]).arg(self.server.command()).alone()
    }
}

fn status(asked: &Asked<'_>, code: u32) -> Answer {
    Answer::Raw(packet(kind::STATUS, asked.id, &[&code.to_be_bytes()[..], &string(b""), &string(b"")].concat()))
}

const FAILURE: u32 = 4;

#[test]
#[ignore = "full"]
fn a_server_with_few_handles_takes_and_gives_every_file() {
    for lines in ["", "MaxSessions 1"] {
        let w = with_server("src: big=20M", lines, "#!/bin/sh\nulimit -n 25\nexec /usr/lib/openssh/sftp-server\n");
        spread(&w.path("src/many"), 4, 100, 2000).expect("made");
        for (ends, copy) in DIRECTIONS {
            w.haul(&format!("cp -j 16 {ends}")).ends(0);
            w.assert_same("src", copy, SAME);
        }
    }
}

#[test]
fn a_server_that_does_not_say_how_few_handles_it_has_gives_every_file() {
    let open = AtomicUsize::new(0);
    let files: Vec<_> = (0..100).map(|n| (format!("f{n}").into_bytes(), file(&format!("content {n}")))).collect();
    let odd = Odd::new(Thing::Dir(files), move |asked| match asked.kind {
        kind::OPEN if open.load(Ordering::Relaxed) >= 7 => status(asked, FAILURE),
        kind::OPEN => {
            open.fetch_add(1, Ordering::Relaxed);
            Answer::Honest
        }
        kind::CLOSE if asked.body.get(4) == Some(&b'f') => {
            open.fetch_sub(1, Ordering::Relaxed);
            Answer::Honest
        }
        _ => Answer::Honest,
    });
    odd.haul("cp --streams 1 testhost:/ dst").ends(0);
    assert_eq!((odd.s.list("dst").len(), odd.s.text("dst/f99")), (100, "content 99".into()));
}

#[test]
fn short_reads_are_continued() {
    for times in [1, 20_000, 900_000] {
        let content = "0123456789".repeat(times);
        let all = content.clone().into_bytes();
        let odd = Odd::new(dir([(b"f", file(&content))]), move |asked| match asked.kind {
            kind::READ => {
                // The offset and the length stand behind a handle of two bytes.
                let at = u64::from_be_bytes(*asked.body[6..].first_chunk().expect("an offset")) as usize;
                let length = u32::from_be_bytes(*asked.body[14..].first_chunk().expect("a length")) as usize;
                let end = (at + (length / 3).max(1)).min(all.len());
                if at >= all.len() { Answer::Honest } else { Answer::Raw(packet(kind::DATA, asked.id, &string(&all[at..end]))) }
            }
            _ => Answer::Honest,
        });
        odd.haul("cp testhost:/ dst").ends(0);
        assert!(odd.s.text("dst/f") == content);
    }
}

#[test]
#[ignore = "full"]
fn a_failure_without_a_reason_is_tried_again() {
    for failing in [kind::OPEN, kind::READ, kind::FSTAT, kind::OPENDIR, kind::READDIR, kind::LSTAT] {
        let count = AtomicUsize::new(0);
        let tree = dir([(b"a", file("5")), (b"d", dir([(b"b", file("content")), (b"large", file(&"x".repeat(700_000)))]))]);
        let odd = Odd::new(tree, move |asked| {
            let fails = asked.kind == failing && matches!(count.fetch_add(1, Ordering::Relaxed), 0 | 5);
            if fails { status(asked, FAILURE) } else { Answer::Honest }
        });
        odd.haul("cp testhost:/ dst").ends(0);
        assert_eq!(odd.s.list("dst"), ["a", "d/", "d/b", "d/large"], "{failing}");
    }
}

#[test]
fn a_connection_that_is_lost_at_a_link_is_made_again() {
    let (lost, made) = (AtomicBool::new(false), AtomicBool::new(false));
    let odd = Odd::new(dir([(b"d", dir([(b"l", Thing::Link(b"x".to_vec()))]))]), move |asked| match asked.kind {
        kind::READLINK if asked.body.ends_with(b"/l") && !lost.swap(true, Ordering::Relaxed) => Answer::Last(Vec::new()),
        _ => Answer::Honest,
    });
    odd.haul("cp testhost:/ dst").ends(0);
    assert_eq!(odd.s.target("dst/d/l"), "x");

    let lost = AtomicBool::new(false);
    let odd = Odd::new(dir([]), move |asked| match asked.kind {
        // It is carried out before the connection is lost.
        SYMLINK if !lost.swap(true, Ordering::Relaxed) => {
            made.store(true, Ordering::Relaxed);
            Answer::Last(Vec::new())
        }
        SYMLINK if asked.body.ends_with(b"/l") => status(asked, FAILURE),
        SYMLINK | 9 | 13 | 18 | 200 => status(asked, 0),
        kind::LSTAT if asked.body.ends_with(b"/l") && made.load(Ordering::Relaxed) => {
            Answer::Raw(packet(kind::ATTRS, asked.id, &attrs(&Thing::Link(b"x".to_vec()))))
        }
        kind::READLINK => Answer::Raw(packet(kind::NAME, asked.id, &names(&[(b"x".to_vec(), attrs(&file("")))]))),
        _ => Answer::Honest,
    });
    odd.s.tree("src: l->x");
    odd.haul("cp src/ testhost:/").ends(0);
}

#[test]
fn a_server_that_drops_every_connection_after_two_megabytes_gets_and_gives_a_large_file() {
    let script = "#!/usr/bin/env python3\n\
        import os, subprocess, threading\n\
        server = subprocess.Popen(['/usr/lib/openssh/sftp-server'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
        def pump(source, target):\n\
        \x20   left = 2000000\n\
        \x20   while left > 0:\n\
        \x20       data = os.read(source, 65536)\n\
        \x20       if not data: break\n\
        \x20       left -= len(data)\n\
        \x20       view = memoryview(data)\n\
        \x20       while view: view = view[os.write(target, view):]\n\
        \x20   server.kill()\n\
        \x20   os._exit(1)\n\
        threading.Thread(target=pump, args=(0, server.stdin.fileno())).start()\n\
        pump(server.stdout.fileno(), 1)\n";
    let w = with_server("src: big=20M", "", script);
    for (ends, copy) in DIRECTIONS {
        w.haul(&format!("cp --streams 1 {ends}")).ends(0);
        w.assert_same("src", copy, SAME);
    }
}

#[test]
fn holes_of_a_file_there_are_holes_here() {
    let w = World::new("src/");
    w.sh("truncate -s 40M src/f && printf x | dd of=src/f bs=1 seek=20M conv=notrunc status=none");
    for (ends, copy) in DIRECTIONS {
        for flags in ["-S", "-S --verify"] {
            w.haul(&format!("cp {flags} {ends}")).ends(0);
            assert!(w.meta(format!("{copy}/f")).blocks() < 2 << 10, "{flags} {ends}");
            w.assert_same("src", copy, SAME);
            w.remove(copy);
        }
    }
}

#[test]
fn times_that_sftp_cannot_carry_are_not_taken_for_others() {
    let w = World::new("src: old=5 late=5 plain=5");
    w.sh("touch -d 1966-05-05 src/old; touch -d 2050-05-05 src/late");
    w.haul("cp -a testhost:~/src/ back").ends(0);
    for name in ["old", "late"] {
        // Not known: the file has the time of its arrival.
        let mtime = w.meta(format!("back/{name}")).mtime();
        assert!((1_700_000_000..i64::from(i32::MAX)).contains(&mtime), "{name}: {mtime}");
    }
    w.haul("cp -a src/ testhost:~/there").ends(0).says("times");
    assert_eq!((w.meta("there/old").mtime(), w.meta("there/late").mtime()), (0, i64::from(i32::MAX)));
}

#[test]
fn a_directory_that_cannot_be_listed_is_neither_empty_nor_gone() {
    let odd = Odd::new(dir([(b"d", dir([(b"b", file("content"))])), (b"good", file("good"))]), |asked| match asked.kind {
        kind::OPENDIR | kind::LSTAT | kind::STAT if asked.body.ends_with(b"/d") => status(asked, 2),
        _ => Answer::Honest,
    });
    odd.s.tree("dst: d/b=7 d/c=5");
    for words in ["sync --delete testhost:/ dst", "cp testhost:/ dst"] {
        odd.haul(words).ends(23).err_has("d: ").err_has("its parent directory lists it");
        assert_eq!(odd.s.list("dst"), ["d/", "d/b", "d/c", "good"]);
    }
}

#[test]
#[ignore = "full"]
fn a_server_that_does_requests_side_by_side_gives_each_file_its_time() {
    const SAME: What = What { symlink_mtime: false, ..crate::ssh::support::SAME };
    let server = parallel().expect("bash and sftp-server are there, and a port");
    let s = Scratch::with("src: large=2M a=5:0640 empty=0 d/b=300K d/c=200K");
    spread(&s.path("src/many"), 4, 50, 3000).expect("made");
    let haul = |words: &str| s.haul(words).args(["--no-agent", "-e"]).arg(server.command()).alone().ends(0);
    // New files, which are made under their names, and old ones, which are staged.
    for flags in ["", "-I -a"] {
        haul(&format!("cp {flags} src/ testhost:~/there"));
        s.assert_same("src", "there", SAME);
    }
    haul("cp src/ testhost:~/there").out_has("nothing to transfer");
}
