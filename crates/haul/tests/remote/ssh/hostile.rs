//! A server that lies: nothing is written outside the destination, and every run ends with a word on who is to blame.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use haul_test::compare::{What, assert_same};
use haul_test::program::{BOUND, Ended, Program};
use haul_test::rogue::{Answer, Asked, Rogue, Thing, attrs, dir, file, kind, names, packet, string};
use haul_test::scratch::Scratch;
use rustix::process::Signal;

/// A destination with a tree beside it that must stay as it is.
struct Victim {
    server: Rogue,
    scratch: Scratch,
}

const CANARY: &str = "outside: x=6 y/z=6";

impl Victim {
    fn new(tree: Thing, lie: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static) -> Victim {
        Victim { server: Rogue::new(tree, lie).expect("bash is there, and a port"), scratch: Scratch::with(CANARY) }
    }

    fn honest(tree: Thing) -> Victim {
        Victim::new(tree, |_| Answer::Honest)
    }

    fn program(&self, words: &str) -> Program {
        self.scratch.haul(words).args(["--no-agent", "-e"]).arg(self.server.command()).alone()
    }

    /// Runs it: nothing happens outside the destination, and no escape code is printed.
    #[track_caller]
    fn haul(&self, words: &str) -> Ended {
        let ended = self.program(words).run();
        self.nothing_happened_outside();
        ended.never_says("\x1b").never_says("\x07")
    }

    #[track_caller]
    fn nothing_happened_outside(&self) {
        let canary = Scratch::with(CANARY);
        assert_same(&canary.path("outside"), &self.scratch.path("outside"), What::CONTENT);
        let mut beside = self.scratch.entries("");
        beside.retain(|name| name != "outside" && name != "dst");
        assert!(beside.is_empty(), "beside the destination there is {beside:?}");
    }

    /// It ends with one of the codes and has all of this on standard error.
    #[track_caller]
    fn ends(&self, codes: &[i32], words: &str, parts: &[&str]) -> Ended {
        parts.iter().fold(self.haul(words).code_of(codes), |ended, part| ended.err_has(part))
    }

    /// What landed: paths below the destination.
    fn landed(&self) -> Vec<String> {
        if self.scratch.has("dst") { self.scratch.list("dst") } else { Vec::new() }
    }

    #[track_caller]
    fn assert_not_landed(&self, name: &str) {
        assert!(!self.landed().contains(&name.to_string()), "{:?}", self.landed());
    }
}

/// Everything after the connection is made goes to these.
const GET: &str = "cp testhost:/ dst";

#[test]
fn names_that_lead_out_are_refused_and_all_else_comes() {
    let bad: [&[u8]; 9] = [b"../outside/x", b"/etc/x", b"a/b", b"", b"nul\0byte", b"../../up", b"good/../../outside/x", b"/", b"outside/"];
    let mut tree: Vec<(Vec<u8>, Thing)> = bad.iter().map(|name| (name.to_vec(), file("bad"))).collect();
    tree.push((b"..".to_vec(), dir([(b"x", file("bad"))])));
    tree.push((b".".to_vec(), dir([(b"x", file("bad"))])));
    tree.push((b"good".to_vec(), file("good")));
    tree.push((b"new\nline \x1b[31m\x07".to_vec(), file("odd")));
    for words in ["cp testhost:/ dst", "cp -a testhost:/ dst", "sync --delete testhost:/ dst"] {
        let v = Victim::honest(Thing::Dir(tree.clone()));
        v.ends(&[23], words, &["the server sent an invalid name"]);
        assert_eq!(v.landed(), ["good", "new\nline \x1b[31m\x07"], "{words}");
    }
    let v = Victim::honest(Thing::Dir(tree));
    for words in
        ["ls testhost:/", "ls -l testhost:/", "du testhost:/", "tree testhost:/", "cp -n testhost:/ dst", "check testhost:/ outside"]
    {
        v.ends(&[1, 23], words, &[]);
    }
}

#[test]
#[ignore = "full"]
fn a_link_and_a_directory_of_one_name_lead_nowhere() {
    let link = |to: &Path| Thing::Link(to.as_os_str().as_bytes().to_vec());
    for (first, words) in [(true, GET), (false, GET), (true, "cp -a testhost:/ dst"), (false, "sync --delete testhost:/ dst")] {
        // The canary's path is known only when there is a place; the link may lead there by a relative path as well.
        let inside = dir([(b"x", file("bad")), (b"z", file("bad"))]);
        let mut tree = vec![(b"t".to_vec(), link(Path::new("../outside"))), (b"t".to_vec(), inside), (b"t/x".to_vec(), file("bad"))];
        if !first {
            tree.swap(0, 1);
        }
        let v = Victim::honest(Thing::Dir(tree));
        for _ in 0..3 {
            v.ends(&[0, 23], words, &[]);
        }
    }
}

#[test]
fn a_link_that_came_in_one_run_is_not_followed_in_the_next() {
    // In the first run `t` is a link, from then on a directory.
    let is_later = Arc::new(AtomicBool::new(false));
    let listed = is_later.clone();
    let lie = move |asked: &Asked<'_>| {
        let link = Thing::Link(b"../outside".to_vec());
        match asked.kind {
            kind::READDIR if !listed.load(Ordering::Relaxed) && asked.body.ends_with(&[0]) => {
                listed.store(true, Ordering::Relaxed);
                Answer::Raw(packet(kind::NAME, asked.id, &names(&[(b"t".to_vec(), attrs(&link))])))
            }
            kind::READLINK => Answer::Raw(packet(kind::NAME, asked.id, &names(&[(b"../outside".to_vec(), attrs(&link))]))),
            _ => Answer::Honest,
        }
    };
    let v = Victim::new(dir([(b"t", dir([(b"x", file("bad")), (b"new", file("bad"))]))]), lie);
    v.haul(GET);
    is_later.store(true, Ordering::Relaxed);
    for words in [GET, "cp -a testhost:/ dst", "sync --delete testhost:/ dst", "cp -K testhost:/ dst"] {
        v.haul(words);
    }
}

#[test]
fn a_file_that_is_a_link_when_it_is_opened_is_not_read() {
    // Listed as a file of five bytes, and then something else each time it is asked for.
    let lie = |asked: &Asked<'_>| match asked.kind {
        kind::LSTAT if asked.body.ends_with(b"/a") => Answer::Raw(packet(kind::ATTRS, asked.id, &attrs(&Thing::Link(b"/x".to_vec())))),
        _ => Answer::Honest,
    };
    let v = Victim::new(dir([(b"a", file("12345")), (b"b", file("5"))]), lie);
    v.ends(&[23], GET, &["a: "]);
    assert_eq!(v.landed(), ["b"]);
}

fn big(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i / 7) as u8).collect()
}

/// A tree with a small and a large file.
fn two() -> Thing {
    dir([(b"small", file("12345")), (b"large", Thing::File(big(9 << 20)))])
}

#[test]
fn more_data_than_was_asked_for_is_not_taken() {
    for size in [100_u32, 200_000, 300_000] {
        let lie = move |asked: &Asked<'_>| match asked.kind {
            kind::READ => Answer::Raw(packet(kind::DATA, asked.id, &string(&vec![b'x'; size as usize]))),
            _ => Answer::Honest,
        };
        let v = Victim::new(dir([(b"small", file("12345"))]), lie);
        v.ends(&[10], GET, &["protocol error"]);
        assert_eq!(v.landed(), Vec::<String>::new());
        let v = Victim::new(dir([(b"large", Thing::File(big(9 << 20)))]), lie);
        // Less than a block is the server's right; what it is worth shows in the size alone.
        if size >= 1 << 15 {
            v.ends(&[10], GET, &["protocol error"]);
            v.assert_not_landed("large");
        }
    }
}

#[test]
fn a_file_that_ends_early_or_goes_on_is_not_put_in_place() {
    for claim in [3, 7, 40 << 20] {
        let v = Victim::honest(dir([(b"f", Thing::Claim(claim, b"12345".to_vec())), (b"good", file("good"))]));
        v.ends(&[23], GET, &["f: "]);
        assert_eq!(v.landed(), ["good"], "{claim}");
    }
    let v = Victim::honest(dir([(b"f", Thing::Claim(5 << 20, big(6 << 20)))]));
    // A large file is read up to its size; whether there is more nobody asks.
    v.ends(&[0, 23], GET, &[]);
}

#[test]
#[ignore = "full"]
fn a_file_of_an_exabyte_is_no_file_of_that_size_here() {
    let claims =
        |size| dir([(b"f", Thing::Claim(size, b"12345".to_vec())), (b"g", Thing::Claim(size, Vec::new())), (b"good", file("good"))]);
    for size in [1 << 60, i64::MAX as u64] {
        let v = Victim::honest(claims(size));
        v.ends(&[11, 23], GET, &["f: "]);
        v.assert_not_landed("f");
        for words in ["du testhost:/", "ls -l testhost:/", "cp -n testhost:/ dst"] {
            v.ends(&[0], words, &[]);
        }
        v.ends(&[1], "check testhost:/ outside", &[]);
    }
    for size in [1 << 63, u64::MAX] {
        let v = Victim::honest(claims(size));
        for words in [GET, "du testhost:/", "ls -l testhost:/"] {
            v.ends(&[10, 23], words, &["an impossible size"]);
        }
        assert_eq!(v.landed(), Vec::<String>::new());
    }
}

#[test]
#[ignore = "full"]
fn a_listing_without_an_end_can_be_stopped_and_is_not_kept_in_memory() {
    for words in
        ["cp -n testhost:/ dst", "cp testhost:/ dst", "sync --delete -n testhost:/ outside", "du testhost:/", "cp -n testhost:/deep dst"]
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let lie = move |asked: &Asked<'_>| {
            if asked.kind == kind::READDIR {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Answer::Honest
        };
        let tree = if words.contains("deep") { dir([(b"deep", Thing::Deep)]) } else { Thing::Endless };
        let v = Victim::new(tree, lie);
        let run = v.program(words).start();
        let begun = Instant::now();
        // A hundred names each time; of the deep ones one.
        let enough = if words.contains("deep") { 500 } else { 3000 };
        while asked.load(Ordering::Relaxed) < enough && begun.elapsed() < BOUND / 3 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let came = asked.load(Ordering::Relaxed);
        // In KiB.
        let peak = run.status("VmHWM").expect("it runs");
        let memory: u64 = peak.trim_end_matches(" kB").parse().expect("a number");
        run.signal(Signal::INT);
        let ended = run.wait();
        assert!(came > 100, "{words}: {came} answers");
        // What only counts has nothing to tidy up, and lets the signal end it.
        let code = if words.starts_with("du") { None } else { Some(20) };
        assert_eq!(ended.status.code(), code, "{ended}");
        assert!(memory < 200 << 10, "{words}: {memory} KiB after {came} answers");
        v.nothing_happened_outside();
    }
}

/// What each lie is, and what a server does then.
#[test]
fn whoever_does_not_keep_the_protocol_is_left() {
    type Lie = fn(&Asked<'_>) -> Answer;
    fn when(asked: &Asked<'_>, kind: u8, answer: impl FnOnce() -> Answer) -> Answer {
        if asked.kind == kind { answer() } else { Answer::Honest }
    }
    let lies: [(&str, Lie); 22] = [
        ("an answer to what nobody asked", |a| when(a, kind::OPENDIR, || Answer::Raw(packet(kind::HANDLE, a.id ^ 0xffff, &string(b"d0"))))),
        ("a packet of 2^31 bytes", |a| when(a, kind::OPENDIR, || Answer::Raw(vec![0x80, 0, 0, 0, 102, 0, 0, 0, 1]))),
        ("a packet of 2^32-1 bytes", |a| when(a, kind::READDIR, || Answer::Raw(vec![0xff; 9]))),
        ("a packet of no bytes", |a| when(a, kind::OPENDIR, || Answer::Raw(vec![0; 64]))),
        ("a first packet of 2^31 bytes", |a| when(a, kind::INIT, || Answer::Raw(vec![0x80, 0, 0, 0, 2, 0, 0, 0, 3]))),
        ("no greeting", |a| when(a, kind::INIT, || Answer::Last(Vec::new()))),
        ("a greeting that is none", |a| when(a, kind::INIT, || Answer::Raw(packet(kind::STATUS, 0, b"")))),
        ("an old version", |a| when(a, kind::INIT, || Answer::Raw(vec![0, 0, 0, 5, 2, 0, 0, 0, 2]))),
        ("half a greeting", |a| when(a, kind::INIT, || Answer::Last(vec![0, 0, 0, 5, 2]))),
        ("no name for a path", |a| when(a, kind::REALPATH, || Answer::Raw(packet(kind::NAME, a.id, &0_u32.to_be_bytes())))),
        ("an empty name for a path", |a| {
            when(a, kind::REALPATH, || Answer::Raw(packet(kind::NAME, a.id, &names(&[(Vec::new(), attrs(&file("")))]))))
        }),
        ("names without an end for a path", |a| when(a, kind::REALPATH, || Answer::Raw(packet(kind::NAME, a.id, &[0xff; 4])))),
        ("a handle of 10 kB", |a| when(a, kind::OPENDIR, || Answer::Raw(packet(kind::HANDLE, a.id, &string(&[b'h'; 10_000]))))),
        ("a handle of 10 kB for a file", |a| when(a, kind::OPEN, || Answer::Raw(packet(kind::HANDLE, a.id, &string(&[b'h'; 10_000]))))),
        ("four billion names", |a| when(a, kind::READDIR, || Answer::Raw(packet(kind::NAME, a.id, &[0xff; 4])))),
        ("a name longer than its packet", |a| {
            when(a, kind::READDIR, || Answer::Raw(packet(kind::NAME, a.id, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, b'x'])))
        }),
        ("data where names were asked for", |a| when(a, kind::READDIR, || Answer::Raw(packet(kind::DATA, a.id, &string(b"data"))))),
        ("names where data was asked for", |a| when(a, kind::READ, || Answer::Raw(packet(kind::NAME, a.id, &names(&[]))))),
        ("success where data was asked for", |a| when(a, kind::READ, || Answer::Raw(packet(kind::STATUS, a.id, &[0; 12])))),
        ("a status without a code", |a| when(a, kind::OPEN, || Answer::Raw(packet(kind::STATUS, a.id, b"")))),
        ("half an answer", |a| when(a, kind::READ, || Answer::Last(vec![0, 0, 1, 0, 103]))),
        ("two answers to one question", |a| {
            when(a, kind::OPENDIR, || Answer::Raw(packet(kind::HANDLE, a.id, &string(&[b'd', 0])).repeat(2)))
        }),
    ];
    for (what, lie) in lies {
        let v = Victim::new(two(), lie);
        println!("{what}");
        let ended = v.ends(&[1, 10, 23], "cp --retries 1 testhost:/ dst", &[]);
        assert!(!ended.err.is_empty(), "{ended}");
        v.assert_not_landed("large");
    }
}

#[test]
#[ignore = "full"]
fn a_server_that_answers_nothing_is_left_after_the_time_that_was_said() {
    for kind in [kind::INIT, kind::REALPATH, kind::STAT, kind::OPENDIR, kind::READDIR, kind::OPEN, kind::READ, kind::FSTAT] {
        let v = Victim::new(two(), move |asked| if asked.kind == kind { Answer::Silence } else { Answer::Honest });
        println!("no answer to {kind}");
        v.ends(&[10, 30], "cp --timeout 2s --retries 0 testhost:/ dst", &[]);
        v.assert_not_landed("large");
    }
}

#[test]
#[ignore = "full"]
fn a_command_that_only_asks_ends_after_the_time_that_was_said() {
    for (kind, words) in [
        (kind::STAT, "ls testhost:/"),
        (kind::READDIR, "ls -R testhost:/"),
        (kind::OPENDIR, "du testhost:/"),
        (kind::READDIR, "tree testhost:/"),
        (kind::READ, "cat testhost:/large"),
        (kind::LSTAT, "rm -r testhost:/small"),
        (MKDIR, "mkdir testhost:/new"),
    ] {
        let v = Victim::new(two(), move |asked| if asked.kind == kind { Answer::Silence } else { Answer::Honest });
        v.ends(&[30], &format!("{words} --timeout 1s"), &["no answer within 1 s (--timeout)"]);
    }
}

#[test]
fn what_a_server_says_in_words_cannot_write_to_the_screen() {
    let lie = |asked: &Asked<'_>| match asked.kind {
        kind::OPEN => {
            let words = b"\x1b]0;title\x07\x1b[2Jno\nhaul: all is well";
            let body = [&4_u32.to_be_bytes()[..], &string(words), &string(b"en")].concat();
            Answer::Raw(packet(kind::STATUS, asked.id, &body))
        }
        _ => Answer::Honest,
    };
    let v = Victim::new(two(), lie);
    for _ in 0..2 {
        let ended = v.ends(&[23], GET, &[]);
        assert!(!ended.err.lines().any(|line| line == "haul: all is well"), "{ended}");
    }
}

#[test]
fn a_link_that_points_to_odd_things_is_made_or_refused() {
    for target in [&b""[..], b"nul\0byte", &[b'x'; 5000], b"\x1b[31m\n"] {
        let v = Victim::honest(dir([(b"l", Thing::Link(target.to_vec())), (b"good", file("good"))]));
        v.ends(&[0, 23], GET, &[]);
        assert!(v.scratch.has("dst/good"));
    }
}

/// Of section 3 of the draft.
const WRITE: u8 = 6;
const REMOVE: u8 = 13;
const MKDIR: u8 = 14;
const RMDIR: u8 = 15;
const SYMLINK: u8 = 20;

fn status(asked: &Asked<'_>, code: u32) -> Answer {
    Answer::Raw(packet(kind::STATUS, asked.id, &[&code.to_be_bytes()[..], &string(b""), &string(b"")].concat()))
}

/// A name without attributes that matter.
fn name(asked: &Asked<'_>, name: &[u8]) -> Answer {
    Answer::Raw(packet(kind::NAME, asked.id, &names(&[(name.to_vec(), attrs(&file("")))])))
}

#[test]
fn a_link_that_cannot_be_read_is_named_and_can_be_removed() {
    let removed = Arc::new(AtomicUsize::new(0));
    let count = removed.clone();
    let v = Victim::new(dir([(b"d", dir([(b"l", Thing::Link(b"x".to_vec())), (b"good", file("good"))]))]), move |asked| match asked.kind {
        kind::READLINK if asked.body.ends_with(b"/l") => status(asked, 4),
        REMOVE | RMDIR => {
            count.fetch_add(1, Ordering::Relaxed);
            status(asked, 0)
        }
        _ => Answer::Honest,
    });
    v.ends(&[23], GET, &["d/l: ", "does not report the symlink's own target"]);
    assert_eq!(v.landed(), ["d/", "d/good"]);
    v.ends(&[0], "ls -l testhost:/d", &[]).out_has("l");
    v.ends(&[0], "rm -r testhost:/d", &[]);
    assert_eq!(removed.load(Ordering::Relaxed), 3);
}

#[test]
fn a_relative_link_that_a_server_resolves_is_restored_or_named() {
    let link = |target: &[u8]| Thing::Link(target.to_vec());
    let tree = dir([(b"a", file("5")), (b"d", dir([(b"l", link(b"../a")), (b"m", link(b"./../a"))]))]);
    let v = Victim::new(tree, |asked| match asked.kind {
        kind::READLINK if asked.body.ends_with(b"/l") || asked.body.ends_with(b"/m") => name(asked, b"/a"),
        _ => Answer::Honest,
    });
    v.ends(&[23], GET, &["d/m: ", "does not report the symlink's own target"]);
    assert_eq!(v.landed(), ["a", "d/", "d/l"]);
    assert_eq!(std::fs::read_link(v.scratch.path("dst/d/l")).expect("a link"), Path::new("../a"));
}

#[test]
fn a_server_that_changes_the_target_of_a_new_link_is_named() {
    let made = AtomicBool::new(false);
    let v = Victim::new(dir([(b"there", dir([]))]), move |asked| match asked.kind {
        SYMLINK | REMOVE => {
            made.store(asked.kind == SYMLINK, Ordering::Relaxed);
            status(asked, 0)
        }
        kind::LSTAT if asked.body.ends_with(b"/l") && made.load(Ordering::Relaxed) => {
            Answer::Raw(packet(kind::ATTRS, asked.id, &attrs(&Thing::Link(b"<error>".to_vec()))))
        }
        kind::READLINK if asked.body.ends_with(b"/l") && made.load(Ordering::Relaxed) => name(asked, b"<error>"),
        _ => Answer::Honest,
    });
    std::fs::create_dir(v.scratch.path("dst")).expect("made");
    std::os::unix::fs::symlink("../a", v.scratch.path("dst/l")).expect("made");
    v.ends(&[23], "cp dst/ testhost:/there/", &["l: ", "the server made the symlink lead to <error> instead of ../a"]);
}

#[test]
fn a_host_that_is_lost_is_called_a_few_times_and_not_once_a_file() {
    for what in ["the content is cut off", "the new directory is looked at"] {
        let (made, lost, calls) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_lost, counted) = (lost.clone(), calls.clone());
        let at = if what.contains("content") { WRITE } else { kind::LSTAT };
        let v = Victim::new(dir([(b"there", dir([]))]), move |asked| match asked.kind {
            kind::INIT if is_lost.load(Ordering::Relaxed) => {
                counted.fetch_add(1, Ordering::Relaxed);
                Answer::Last(Vec::new())
            }
            MKDIR => {
                made.store(true, Ordering::Relaxed);
                Answer::Raw(packet(kind::STATUS, asked.id, &[&[0; 4], &string(b"")[..], &string(b"")].concat()))
            }
            kind if kind == at && made.load(Ordering::Relaxed) => {
                is_lost.store(true, Ordering::Relaxed);
                Answer::Last(Vec::new())
            }
            _ => Answer::Honest,
        });
        haul_test::tree::spread(&v.scratch.path("dst/many"), 1, 200, 4000).expect("made");
        v.ends(&[10], "cp -j 2 --retries 3 dst/many/ testhost:/there/", &["connect"]);
        assert!(lost.load(Ordering::Relaxed), "{what}");
        // Each of two workers calls four times for what it was at, and again for what the other of them found.
        let calls = calls.load(Ordering::Relaxed);
        assert!(calls <= 16, "{what}: {calls} calls of a host that is lost");
    }
}
