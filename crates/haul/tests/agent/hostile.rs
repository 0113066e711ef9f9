//! A far side that lies, talks nonsense or says nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use haul_stores::agent::{Host, Pipes, SessionOptions};
use haul_test::compare::What;
use haul_test::content::Random;

use crate::proxy::{self, DONE, FAILED, Frame, GET_BUNDLE, HELLO, LIST, MAGIC, MORE, PUT_BUNDLE, READ, replaced};
use crate::support::{Ended, World, names};

/// Far less than the patience with an honest far side, for a loaded machine.
const BOUND: Duration = Duration::from_secs(50);

fn get(w: &World, flags: &str) -> Ended {
    w.haul(&format!("cp --no-direct {flags} testhost:~/far/ dst/in")).start().wait(BOUND)
}

fn put(w: &World, flags: &str) -> Ended {
    w.haul(&format!("cp --no-direct {flags} src/ testhost:~/there")).start().wait(BOUND)
}

/// What it said of its failure, which is no crash.
#[track_caller]
fn failed(ended: &Ended) -> &str {
    assert!(matches!(ended.status.code(), Some(1 | 10 | 11 | 23 | 30)), "{ended}");
    assert!(!ended.err.contains("panicked") && !ended.out.contains("panicked"), "{ended}");
    assert!(!ended.err.is_empty(), "{ended}");
    &ended.err
}

/// A world whose far side sends the name `qq` as `name`, and where `dst/in` is the destination.
fn lying(name: &'static [u8]) -> World {
    let mut w = World::new("");
    w.tree("far: aa=5 qq=6 zz=7 dd/x=8 dst: far-from=1 in/");
    (w.agent, _) = proxy::tampering(&w, move |request, mut frame| {
        if request == LIST && frame.kind == MORE {
            let mut to = vec![0, name.len() as u8];
            to.extend(name);
            frame.body = replaced(&frame.body, b"\0\x02qq", &to);
        }
        frame.bytes()
    });
    w
}

#[test]
fn names_that_are_none_are_not_used() {
    for name in [&b".."[..], b".", b"/x", b"a/b", b"", b"n\0l", b"../escaped", b"/tmp/haul-escaped"] {
        let w = lying(name);
        let before = (names(&w.join("")), names(&w.join("dst")));
        for flags in ["", "-a"] {
            let ended = get(&w, flags);
            assert_eq!(ended.status.code(), Some(23), "{:?} {flags}: {ended}\n{}", name.escape_ascii().to_string(), w.server.log());
            let found = names(&w.join("dst/in"));
            assert_eq!(found, ["aa", "dd", "zz"], "{:?} {flags}\n{ended}", name.escape_ascii().to_string());
        }
        // The run makes its state directory.
        fs::remove_dir_all(w.join("state")).expect("there");
        assert_eq!((names(&w.join("")), names(&w.join("dst"))), before, "{:?}", name.escape_ascii().to_string());
        assert!(!std::path::Path::new("/tmp/haul-escaped").exists());
        // Nothing is deleted for a listing that lies.
        fs::write(w.join("dst/in/extra"), "x").expect("written");
        let ended = w.haul("sync --no-direct --delete testhost:~/far/ dst/in").start().wait(BOUND);
        assert_eq!(ended.status.code(), Some(23), "{ended}");
        assert!(w.join("dst/in/extra").exists());
    }
}

#[test]
fn other_commands_do_not_use_them_either() {
    let w = lying(b"../../escaped");
    for words in ["ls testhost:~/far", "ls -R testhost:~/far", "du testhost:~/far", "tree testhost:~/far", "sum testhost:~/far"] {
        let ended = w.haul(words).start().wait(BOUND);
        failed(&ended);
        assert!(!ended.out.contains("escaped"), "{words}: {ended}");
    }
    fs::create_dir(w.join("escaped")).expect("made");
    let ended = w.haul("rm -r testhost:~/far/dd").start().wait(BOUND).code(0);
    assert!(w.join("escaped").exists() && !w.join("far/dd").exists(), "{ended}");
}

#[test]
fn a_link_is_not_followed_to_write_through_it() {
    let mut w = World::new("");
    // The listing tells of a link and a directory of one name.
    w.tree("dst: far-from=1 far: dd/x=5 dd/y=300K qq->../../outside outside: keep=1");
    std::os::unix::fs::symlink("/nonexistent", w.join("far/zz")).expect("made");
    (w.agent, _) = proxy::tampering(&w, |request, mut frame| {
        if request == LIST && frame.kind == MORE {
            frame.body = replaced(&frame.body, b"\0\x02qq", b"\0\x02dd");
        }
        frame.bytes()
    });
    for flags in ["", "-a", "-j 1"] {
        let _first = fs::remove_dir_all(w.join("dst/in"));
        let ended = get(&w, flags);
        assert!(ended.status.code().is_some_and(|code| code != 101), "{ended}");
        assert_eq!(names(&w.join("outside")), ["keep"], "{flags}: {ended}");
        assert!(!w.join("dst/x").exists());
    }
}

/// Puts or gets with answers to one kind of request spoilt.
fn spoilt(request: u8, spoil: impl Fn(&mut Vec<u8>) + Send + Sync + 'static) -> World {
    let mut w = World::new("");
    w.tree("src: a=500 b=600 big=9M far: a=500 b=600 big=9M dst/");
    (w.agent, _) = proxy::tampering(&w, move |asked, mut frame| {
        if asked == request && frame.kind == DONE {
            spoil(&mut frame.body);
        }
        frame.bytes()
    });
    w
}

#[test]
fn other_bytes_than_were_asked_for_land_nowhere() {
    for (what, spoil) in [("more", Spoil::More), ("less", Spoil::Less), ("none", Spoil::None)] {
        let w = spoilt(READ, move |body| spoil.apply(body));
        failed(&get(&w, ""));
        assert!(!w.join("dst/in/big").exists(), "{what}");
        let w = spoilt(GET_BUNDLE, move |body| spoil.apply(body));
        failed(&get(&w, ""));
        for name in ["a", "b"] {
            assert!(!w.join("dst/in").join(name).exists(), "{what}: {name}");
        }
    }
}

#[derive(Clone, Copy)]
enum Spoil {
    More,
    Less,
    None,
}

impl Spoil {
    fn apply(self, body: &mut Vec<u8>) {
        match self {
            Spoil::More => body.extend([7; 1000]),
            Spoil::Less => drop(body.pop()),
            Spoil::None => body.clear(),
        }
    }
}

#[test]
fn what_the_far_side_does_not_vouch_for_has_not_landed() {
    for spoil in [Spoil::Less, Spoil::None] {
        let w = spoilt(PUT_BUNDLE, move |body| spoil.apply(body));
        failed(&put(&w, ""));
    }
    // Outcomes of files that were never sent are nobody's.
    let w = spoilt(PUT_BUNDLE, |body| Spoil::More.apply(body));
    let ended = put(&w, "");
    assert!(ended.status.code() != Some(101) && !ended.err.contains("panicked"), "{ended}");
    if ended.status.success() {
        w.assert_same("src", "there", What::USUAL);
    }
}

#[test]
fn answers_that_nobody_asked_for_end_it() {
    for kind in [DONE, MORE, FAILED, 77] {
        let mut w = World::new("");
        w.tree("src: a=500 big=9M far: a=500 big=9M dst/");
        (w.agent, _) = proxy::tampering(&w, move |request, frame| {
            let mut bytes = frame.bytes();
            if request == LIST || request == PUT_BUNDLE {
                bytes.extend(Frame { kind, id: 0x7fff_fff0, body: vec![0; 30] }.bytes());
            }
            bytes
        });
        for ended in [get(&w, ""), put(&w, "")] {
            // It may have been done before the nonsense came.
            if !ended.status.success() {
                failed(&ended);
            }
        }
    }
}

/// Each answer behind the greeting has some bytes changed.
#[test]
fn random_nonsense_neither_crashes_nor_escapes() {
    for seed in 1..=16 {
        println!("seed {seed}");
        let mut w = World::new("");
        w.tree("far: a=500 b=600 d/c=70K d/l->../a d/e/f=9 big=3M dst/in/old=5 src: a=500 b=600 d/c=70K d/l->../a d/e/f=9 big=3M");
        let random = std::sync::Mutex::new(Random::new(seed));
        (w.agent, _) = proxy::tampering(&w, move |request, mut frame| {
            let mut random = random.lock().expect("held");
            if request > HELLO + 3 && !frame.body.is_empty() && random.below(6) == 0 {
                for _ in 0..=random.below(3) {
                    let at = random.below(frame.body.len().min(200) as u64) as usize;
                    frame.body[at] = random.below(256) as u8;
                }
            }
            frame.bytes()
        });
        let before = (names(&w.join("dst")), names(std::path::Path::new("/")));
        for ended in [get(&w, "-a"), put(&w, "-a"), w.haul("ls -lR testhost:~/far").start().wait(BOUND)] {
            assert!(ended.status.code().is_some_and(|code| code != 101), "seed {seed}: {ended}");
            assert!(!ended.err.contains("panicked"), "seed {seed}: {ended}");
        }
        assert_eq!((names(&w.join("dst")), names(std::path::Path::new("/"))), before, "seed {seed}");
    }
}

/// A far side that says this and then waits until it is left.
fn says(w: &World, what: Vec<u8>) -> std::path::PathBuf {
    proxy::far(w, move |mut stream: TcpStream, _| {
        let _it_may_have_left = stream.write_all(&what);
        let _until_it_leaves = std::io::copy(&mut stream, &mut std::io::sink());
    })
}

#[test]
fn a_greeting_that_is_none_ends_it() {
    let magic = |rest: &[u8]| [MAGIC, rest].concat();
    let frame = |kind: u8, id: u32, body: &[u8]| magic(&Frame { kind, id, body: body.to_vec() }.bytes());
    for (what, bytes) in [
        ("garbage", magic(&[0xaa; 4096])),
        ("a huge frame", magic(&[0x80, 0, 0, 0, 1, 0, 0, 0, 0])),
        ("a frame without a head", magic(&[0, 0, 0, 1, 1])),
        ("an answer to nothing", frame(DONE, 99, b"")),
        ("a request", frame(HELLO, 0, b"")),
        ("an empty greeting", magic(&(0..5).flat_map(|id| Frame { kind: DONE, id, body: Vec::new() }.bytes()).collect::<Vec<_>>())),
        ("an error that cannot be read", frame(FAILED, 0, b"\x01")),
    ] {
        let mut w = World::new("");
        w.tree("src: a=5");
        w.agent = says(&w, bytes);
        let ended = put(&w, "");
        let said = failed(&ended);
        assert!(said.contains("testhost") || said.contains("remote"), "{what}: {ended}");
        assert!(!w.join("there").exists(), "{what}: {ended}");
    }
}

#[test]
fn another_version_is_lived_with_or_said() {
    // "unsupported", no remedy, operation, reason, no path, no next step.
    let refused = |w: &World| {
        let words = b"no common protocol version";
        let mut body = vec![unsupported(), 0, 0, words.len() as u8];
        body.extend(words);
        body.extend([0, 0]);
        proxy::tampering(w, move |request, frame| match request {
            HELLO => Frame { kind: FAILED, id: frame.id, body: body.clone() }.bytes(),
            _ => frame.bytes(),
        })
        .0
    };
    let newer = |w: &World| {
        proxy::tampering(w, |request, mut frame| {
            if request == HELLO {
                frame.body[0] = 99;
            }
            frame.bytes()
        })
        .0
    };
    for what in ["refused", "newer"] {
        let mut w = World::new("");
        w.tree("src: a=5");
        w.agent = if what == "refused" { refused(&w) } else { newer(&w) };
        let ended = put(&w, "");
        assert!(failed(&ended).contains("version"), "{what}: {ended}");
        assert!(!w.join("there").exists());
        fs::create_dir_all(w.join("far-home/bin")).expect("made");
        fs::rename(&w.agent, w.join("far-home/bin/haul")).expect("moved");
        w.plain("cp --no-direct src/ testhost:~/there").start().wait(BOUND).code(0).says("over plain SFTP");
        assert_eq!(w.content("there/a"), w.content("src/a"), "{what}");
    }
}

/// The number of the kind of error, as an honest agent writes it that has no version in common.
fn unsupported() -> u8 {
    use std::process::{Command, Stdio};
    let mut child =
        Command::new(crate::support::HAUL).arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    // Versions 200 to 201 are spoken here.
    let hello = Frame { kind: HELLO, id: 0, body: vec![200, 1, 201, 1, 1, b'x'] };
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&hello.bytes()).expect("it reads");
    let mut told = [0; MAGIC.len() + 10];
    child.stdout.take().expect("piped").read_exact(&mut told).expect("it answers");
    drop(input);
    child.wait().expect("it was started");
    assert_eq!(told[MAGIC.len() + 4], FAILED, "{}", told.escape_ascii());
    told[MAGIC.len() + 9]
}

#[test]
fn a_far_side_that_says_nothing_is_given_up() {
    let hangs = |printed: &'static str| {
        move |_: Option<&str>| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &format!("printf '{printed}'; exec sleep 600")]);
            let mut child = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().expect("sh runs");
            let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
            Ok(Pipes { input: input.into(), output: output.into(), transport: Box::new(child) })
        }
    };
    for printed in ["", "welcome\\n", "\\nhaul-agent-speaks\\n", "\\nhaul-agent-speaks\\n\\0\\0\\1"] {
        let wishes = SessionOptions {
            sessions: 1,
            streams: None,
            greeting: Duration::from_millis(300),
            version: "0.1.0",
            compress: false,
            direct: None,
        };
        let connected = Host::connect(Box::new(hangs(printed)), wishes, "testhost".into(), b"/tmp");
        let e = connected.map(|_| ()).expect_err("nobody greets");
        println!("{printed:?}: {e}");
    }
}

#[test]
fn a_check_moves_no_file_data() {
    let mut w = World::new("");
    w.tree("src: a=500 b=600 big=9M d/c=4");
    w.tool("cp", &["-a", "src", "there"]);
    let asked;
    (w.agent, asked) = proxy::tampering(&w, |_, frame| frame.bytes());
    let moved = || {
        let kinds = std::mem::take(&mut *asked.lock().expect("held"));
        assert!(kinds.contains(&LIST), "the trees were looked at: {kinds:?}");
        kinds.into_iter().any(|kind| matches!(kind, READ | GET_BUNDLE))
    };
    for words in ["check src/ testhost:~/there", "check testhost:~/there/ src"] {
        w.haul(words).run().code(0);
        assert!(!moved(), "{words}");
    }
    for words in ["check -c src/ testhost:~/there", "check -c testhost:~/there/ src", "check -c testhost:~/there/ testhost:~/src"] {
        w.haul(words).run().code(0);
        assert!(!moved(), "{words}");
    }
    // And what differs is found.
    let mut other = w.content("there/big");
    other[5_000_000] ^= 1;
    let time = w.join("there/big").metadata().expect("there").modified().expect("a time");
    fs::write(w.join("there/big"), other).expect("written");
    fs::File::options().write(true).open(w.join("there/big")).expect("open").set_modified(time).expect("set");
    w.haul("check src/ testhost:~/there").run().code(0);
    w.haul("check -c src/ testhost:~/there").run().code(1).says("differs     big");
    assert!(!moved());
}
