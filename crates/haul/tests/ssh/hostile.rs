//! A server that lies: nothing is written outside the destination, and every run ends with a word on who is to blame.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use haul_test::rogue::{Answer, Asked, Rogue, Thing, attrs, dir, file, kind, names, packet, string};
use rustix::process::Signal;

use crate::support::{Running, bounded, program};

/// A destination with a tree beside it that must stay as it is.
struct Victim {
    server: Rogue,
    place: tempfile::TempDir,
    canary: Vec<(PathBuf, Vec<u8>)>,
}

/// Every name below a path, with its content or what it points to.
fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).expect("it is there") {
        let path = entry.expect("a name").path();
        let meta = path.symlink_metadata().expect("it is there");
        if meta.is_dir() {
            found.push((path.clone(), b"dir".to_vec()));
            found.extend(contents(&path));
        } else if meta.is_symlink() {
            found.push((path.clone(), fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec()));
        } else {
            found.push((path.clone(), fs::read(&path).expect("a file")));
        }
    }
    found.sort();
    found
}

impl Victim {
    fn new(tree: Thing, lie: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static) -> Victim {
        let place = tempfile::Builder::new().prefix("haul-victim-").tempdir().expect("a temporary directory");
        fs::create_dir_all(place.path().join("outside/y")).expect("made");
        fs::write(place.path().join("outside/x"), "canary").expect("written");
        fs::write(place.path().join("outside/y/z"), "canary").expect("written");
        let canary = contents(&place.path().join("outside"));
        Victim { server: Rogue::new(tree, lie).expect("bash is there, and a port"), place, canary }
    }

    fn honest(tree: Thing) -> Victim {
        Victim::new(tree, |_| Answer::Honest)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn command(&self, words: &str) -> std::process::Command {
        let mut words = words.split_whitespace();
        let mut command = program(self.place.path());
        command.arg(words.next().expect("a command")).args(["--no-agent", "-e"]).arg(self.server.command()).args(words);
        command
    }

    fn haul(&self, words: &str) -> Output {
        let ran = bounded(self.command(words), words);
        self.nothing_happened_outside(words);
        ran
    }

    #[track_caller]
    fn nothing_happened_outside(&self, words: &str) {
        assert_eq!(contents(&self.path("outside")), self.canary, "{words}: outside the destination");
        let mut here: Vec<_> = fs::read_dir(self.place.path()).expect("it is there").map(|e| e.expect("a name").file_name()).collect();
        here.retain(|name| !["outside", "dst", "state", ".cache"].contains(&name.to_str().unwrap_or("?")));
        assert!(here.is_empty(), "{words}: beside the destination there is {here:?}");
    }

    /// It ends with one of the codes, says all of this and no escape code.
    #[track_caller]
    fn ends(&self, codes: &[i32], words: &str, telling: &[&str]) -> String {
        let ran = self.haul(words);
        let (out, err) = (String::from_utf8_lossy(&ran.stdout).into_owned(), String::from_utf8_lossy(&ran.stderr).into_owned());
        assert!(ran.status.code().is_some_and(|code| codes.contains(&code)), "haul {words}: {}\n{out}\n{err}", ran.status);
        for part in telling {
            assert!(err.contains(part), "haul {words}: no {part:?} in\n{err}");
        }
        for text in [&out, &err] {
            assert!(!text.contains('\x1b') && !text.contains('\x07'), "haul {words}: {text:?}");
        }
        assert!(!err.contains("panicked"), "{err}");
        out
    }

    /// What landed: paths below the destination.
    fn landed(&self) -> Vec<String> {
        let dst = self.path("dst");
        let below = |path: &Path| path.strip_prefix(&dst).expect("below").display().to_string();
        if dst.exists() { contents(&dst).iter().map(|(path, _)| below(path)).collect() } else { Vec::new() }
    }
}

/// Everything after the connection is made goes to these.
const GET: &str = "cp testhost:/ dst";

#[test]
fn an_honest_server_is_copied_from() {
    let v = Victim::honest(dir([(b"a", file("5")), (b"d", dir([(b"b", file("content"))])), (b"l", Thing::Link(b"a".to_vec()))]));
    v.ends(&[0], GET, &[]);
    assert_eq!(v.landed(), ["a", "d", "d/b", "l"]);
}

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
fn a_link_and_a_directory_of_one_name_lead_nowhere() {
    let link = |to: &Path| Thing::Link(to.as_os_str().as_bytes().to_vec());
    for (first, words) in [(true, GET), (false, GET), (true, "cp -a testhost:/ dst"), (false, "sync --delete testhost:/ dst")] {
        // The canary's path is known only when there is a place; the link may lead there by a relative way as well.
        let inside = dir([(b"x", file("bad")), (b"z", file("bad"))]);
        let mut tree = vec![(b"t".to_vec(), link(Path::new("../outside"))), (b"t".to_vec(), inside), (b"t/x".to_vec(), file("bad"))];
        if !first {
            tree.swap(0, 1);
        }
        let v = Victim::honest(Thing::Dir(tree));
        for _ in 0..3 {
            let ran = v.haul(words);
            assert!(ran.status.code().is_some_and(|code| [0, 23].contains(&code)), "{}", String::from_utf8_lossy(&ran.stderr));
        }
    }
}

#[test]
fn a_link_that_came_in_one_run_is_not_followed_in_the_next() {
    // In the first run `t` is a link, from then on a directory.
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = runs.clone();
    let lie = move |asked: &Asked<'_>| {
        let link = Thing::Link(b"../outside".to_vec());
        let first = count.load(std::sync::atomic::Ordering::Relaxed) == 0;
        match asked.kind {
            kind::READDIR if first && asked.body.ends_with(&[0]) => {
                count.store(1, std::sync::atomic::Ordering::Relaxed);
                Answer::Raw(packet(kind::NAME, asked.id, &names(&[(b"t".to_vec(), attrs(&link))])))
            }
            kind::READLINK => Answer::Raw(packet(kind::NAME, asked.id, &names(&[(b"../outside".to_vec(), attrs(&link))]))),
            _ => Answer::Honest,
        }
    };
    let v = Victim::new(dir([(b"t", dir([(b"x", file("bad")), (b"new", file("bad"))]))]), lie);
    v.haul(GET);
    runs.store(1, std::sync::atomic::Ordering::Relaxed);
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
        let codes: &[i32] = if size < 1 << 15 { &[0, 10] } else { &[10] };
        if size >= 1 << 15 {
            v.ends(codes, GET, &["protocol error"]);
            assert!(!v.landed().contains(&"large".to_string()));
        }
    }
}

#[test]
fn less_data_than_was_asked_for_is_asked_for_again() {
    let content = big(9 << 20);
    let all = content.clone();
    let lie = move |asked: &Asked<'_>| match asked.kind {
        // The offset and the length stand behind a handle of two bytes.
        kind::READ if asked.body.get(5) == Some(&0) => {
            let at = u64::from_be_bytes(*asked.body[6..].first_chunk().expect("an offset")) as usize;
            let length = u32::from_be_bytes(*asked.body[14..].first_chunk().expect("a length")) as usize;
            let end = (at + (length / 3).max(1)).min(all.len());
            if at >= all.len() { Answer::Honest } else { Answer::Raw(packet(kind::DATA, asked.id, &string(&all[at..end]))) }
        }
        _ => Answer::Honest,
    };
    let v = Victim::new(dir([(b"large", Thing::File(content.clone()))]), lie);
    v.ends(&[0], GET, &[]);
    assert!(fs::read(v.path("dst/large")).expect("it landed") == content);
}

#[test]
fn a_file_that_ends_early_or_goes_on_is_not_put_in_place() {
    for claim in [3, 7, 40 << 20] {
        let v = Victim::honest(dir([(b"f", Thing::Claim(claim, b"12345".to_vec())), (b"good", file("good"))]));
        v.ends(&[23], GET, &["f: "]);
        assert_eq!(v.landed(), ["good"], "{claim}");
    }
    let v = Victim::honest(dir([(b"f", Thing::Claim(5 << 20, big(6 << 20)))]));
    // A large file is read up to its size; whether more stands behind it nobody asks.
    let ran = v.haul(GET);
    assert!(matches!(ran.status.code(), Some(0 | 23)), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_file_of_an_exabyte_is_no_file_of_that_size_here() {
    let claims =
        |size| dir([(b"f", Thing::Claim(size, b"12345".to_vec())), (b"g", Thing::Claim(size, Vec::new())), (b"good", file("good"))]);
    for size in [1 << 60, i64::MAX as u64] {
        let v = Victim::honest(claims(size));
        v.ends(&[11, 23], GET, &["f: "]);
        assert!(!v.landed().contains(&"f".to_string()), "{:?}", v.landed());
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

/// The most memory that a process has had so far, in KiB.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

#[test]
fn a_listing_without_an_end_can_be_stopped_and_is_not_kept_in_memory() {
    for words in
        ["cp -n testhost:/ dst", "cp testhost:/ dst", "sync --delete -n testhost:/ outside", "du testhost:/", "cp -n testhost:/deep dst2"]
    {
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = asked.clone();
        let lie = move |asked: &Asked<'_>| {
            if asked.kind == kind::READDIR {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            Answer::Honest
        };
        let tree = if words.contains("deep") { dir([(b"deep", Thing::Deep)]) } else { Thing::Endless };
        let v = Victim::new(tree, lie);
        let running = Running::start(v.command(words));
        let begun = std::time::Instant::now();
        // A hundred names each time; of the deep ones one.
        let enough = if words.contains("deep") { 500 } else { 3000 };
        while asked.load(std::sync::atomic::Ordering::Relaxed) < enough && begun.elapsed() < crate::support::BOUND / 3 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let came = asked.load(std::sync::atomic::Ordering::Relaxed);
        let memory = peak(running.pid());
        running.signal(Signal::INT);
        let ended = running.end(words);
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(came > 100, "{words}: {came} answers");
        // What only counts has nothing to tidy up, and lets the signal end it.
        let code = if words.starts_with("du") { None } else { Some(20) };
        assert_eq!(ended.status.code(), code, "{words}: {}\n{err}", ended.status);
        assert!(memory < 200 << 10, "{words}: {memory} KiB after {came} answers");
        assert_eq!(contents(&v.path("outside")), v.canary, "{words}");
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
        let ran = v.haul("cp --retries 1 testhost:/ dst");
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(matches!(ran.status.code(), Some(1 | 10 | 23)), "{what}: {}\n{err}", ran.status);
        assert!(!err.is_empty() && !err.contains("panicked"), "{what}: {err}");
        println!("{what}: {}\n{err}", ran.status);
        assert!(!v.landed().contains(&"large".to_string()), "{what}: {:?}", v.landed());
    }
}

#[test]
fn a_server_that_answers_nothing_is_left_after_the_time_that_was_said() {
    for kind in [kind::INIT, kind::REALPATH, kind::STAT, kind::OPENDIR, kind::READDIR, kind::OPEN, kind::READ, kind::FSTAT] {
        let v = Victim::new(two(), move |asked| if asked.kind == kind { Answer::Silence } else { Answer::Honest });
        let ran = v.haul("cp --timeout 2s --retries 0 testhost:/ dst");
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(matches!(ran.status.code(), Some(10 | 30)), "{kind}: {}\n{err}", ran.status);
        assert!(!v.landed().contains(&"large".to_string()), "{kind}: {:?}", v.landed());
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
    v.ends(&[23], GET, &[]);
    let ran = v.haul(GET);
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(!err.lines().any(|line| line == "haul: all is well"), "{err}");
}

#[test]
fn a_link_that_points_to_odd_things_is_made_or_refused() {
    for target in [&b""[..], b"nul\0byte", &[b'x'; 5000], b"\x1b[31m\n"] {
        let v = Victim::honest(dir([(b"l", Thing::Link(target.to_vec())), (b"good", file("good"))]));
        v.ends(&[0, 23], GET, &[]);
        assert!(v.landed().contains(&"good".to_string()));
    }
}

/// SSH_FXP_WRITE and SSH_FXP_MKDIR.
const WRITE: u8 = 6;
const MKDIR: u8 = 14;

#[test]
fn a_host_that_is_lost_is_called_a_few_times_and_not_once_a_file() {
    for what in ["the content is cut off", "the new directory is looked at"] {
        let (made, lost, calls) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, counted) = (lost.clone(), calls.clone());
        let at = if what.contains("content") { WRITE } else { kind::LSTAT };
        let v = Victim::new(dir([(b"there", dir([]))]), move |asked| match asked.kind {
            kind::INIT if told.load(Ordering::Relaxed) => {
                counted.fetch_add(1, Ordering::Relaxed);
                Answer::Last(Vec::new())
            }
            MKDIR => {
                made.store(true, Ordering::Relaxed);
                Answer::Raw(packet(kind::STATUS, asked.id, &[&[0; 4], &string(b"")[..], &string(b"")].concat()))
            }
            kind if kind == at && made.load(Ordering::Relaxed) => {
                told.store(true, Ordering::Relaxed);
                Answer::Last(Vec::new())
            }
            _ => Answer::Honest,
        });
        haul_test::tree::spread(&v.path("dst/many"), 1, 200, 4000).expect("made");
        v.ends(&[10], "cp -j 2 --retries 3 dst/many/ testhost:/there/", &["connect"]);
        assert!(lost.load(Ordering::Relaxed), "{what}");
        // Each of two workers calls four times for what it was at, and again for what the other of them found.
        let calls = calls.load(Ordering::Relaxed);
        assert!(calls <= 16, "{what}: {calls} calls of a host that is lost");
    }
}
