//! A remote haul that lies, breaks the protocol or says nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use haul_core::varint;
use haul_ssh::agent::{Host, Pipes, SessionOptions, Site};
use haul_test::compare::What;
use haul_test::content::Random;
use haul_test::program::Ended;

use crate::agent::proxy::{self, DONE, FAILED, Frame, GET_BUNDLE, HELLO, LIST, MAGIC, MORE, PUT_BUNDLE, READ, replaced};
use crate::agent::support::{HAUL, World};

/// Less than the idle timeout of an honest remote haul, for a loaded machine.
const BOUND: Duration = Duration::from_secs(50);

fn run(w: &World, words: &str) -> Ended {
    w.haul(words).start().within(BOUND)
}

fn get(w: &World, flags: &str) -> Ended {
    run(w, &format!("cp --no-direct {flags} testhost:~/remote/ dst/in"))
}

fn put(w: &World, flags: &str) -> Ended {
    run(w, &format!("cp --no-direct {flags} src/ testhost:~/there"))
}

/// It failed and said why.
#[track_caller]
fn failed(ended: Ended) -> Ended {
    let ended = ended.code_of(&[1, 10, 11, 23, 30]);
    assert!(!ended.err.is_empty(), "{ended}");
    ended
}

/// A world whose remote haul sends the name `qq` as `name`, and where `dst/in` is the destination.
fn lying(name: &'static [u8]) -> World {
    let mut w = World::new("remote: aa=5 qq=6 zz=7 dd/x=8 dst: beside=1 in/");
    (w.agent, _) = proxy::tampering(&w, move |request, mut frame| {
        if request == LIST && frame.kind == MORE {
            let to = [&[0, name.len() as u8], name].concat();
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
        let shown = name.escape_ascii();
        let before = (w.entries(""), w.entries("dst"));
        for flags in ["", "-a"] {
            let ended = get(&w, flags).code(23);
            assert_eq!(w.entries("dst/in"), ["aa", "dd", "zz"], "{shown} {flags}\n{ended}");
        }
        assert_eq!((w.entries(""), w.entries("dst")), before, "{shown}");
        assert!(!Path::new("/tmp/haul-escaped").exists());
        // Nothing is deleted for a listing that lies.
        w.write("dst/in/extra", "x");
        run(&w, "sync --no-direct --delete testhost:~/remote/ dst/in").code(23);
        assert!(w.has("dst/in/extra"));
    }
}

#[test]
fn other_commands_do_not_use_them_either() {
    let w = lying(b"../../escaped");
    for words in
        ["ls testhost:~/remote", "ls -R testhost:~/remote", "du testhost:~/remote", "tree testhost:~/remote", "sum testhost:~/remote"]
    {
        let ended = failed(run(&w, words));
        assert!(!ended.out.contains("escaped"), "{words}: {ended}");
    }
    w.tree("escaped/");
    run(&w, "rm -r testhost:~/remote/dd").code(0);
    assert!(w.has("escaped") && !w.has("remote/dd"));
}

#[test]
fn a_link_is_not_followed_to_write_through_it() {
    // The listing has a link and a directory of one name.
    let mut w = World::new("dst: beside=1 remote: dd/x=5 dd/y=300K qq->../../outside zz->/nonexistent outside: keep=1");
    (w.agent, _) = proxy::tampering(&w, |request, mut frame| {
        if request == LIST && frame.kind == MORE {
            frame.body = replaced(&frame.body, b"\0\x02qq", b"\0\x02dd");
        }
        frame.bytes()
    });
    for flags in ["", "-a", "-j 1"] {
        w.remove("dst/in");
        let ended = get(&w, flags);
        assert!(ended.status.code().is_some(), "{ended}");
        assert_eq!(w.entries("outside"), ["keep"], "{flags}: {ended}");
        assert!(!w.has("dst/x"));
    }
}

/// Puts or gets with answers to one kind of request spoilt.
fn spoilt(request: u8, spoil: impl Fn(&mut Vec<u8>) + Send + Sync + 'static) -> World {
    let mut w = World::new("src: a=500 b=600 big=9M remote: a=500 b=600 big=9M dst/");
    (w.agent, _) = proxy::tampering(&w, move |asked, mut frame| {
        if asked == request && frame.kind == DONE {
            spoil(&mut frame.body);
        }
        frame.bytes()
    });
    w
}

#[derive(Clone, Copy, Debug)]
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
#[ignore = "full"]
fn other_bytes_than_were_asked_for_land_nowhere() {
    for spoil in [Spoil::More, Spoil::Less, Spoil::None] {
        for (request, names) in [(READ, &["big"][..]), (GET_BUNDLE, &["a", "b"])] {
            let w = spoilt(request, move |body| spoil.apply(body));
            failed(get(&w, ""));
            assert!(names.iter().all(|name| !w.has(format!("dst/in/{name}"))), "{spoil:?}: {names:?}");
        }
    }
}

#[test]
fn what_the_remote_haul_does_not_confirm_has_not_landed() {
    for spoil in [Spoil::Less, Spoil::None] {
        let w = spoilt(PUT_BUNDLE, move |body| spoil.apply(body));
        failed(put(&w, ""));
    }
    // Outcomes of files that were never sent are nobody's.
    let w = spoilt(PUT_BUNDLE, |body| Spoil::More.apply(body));
    if put(&w, "").status.success() {
        w.assert_same("src", "there", What::USUAL);
    }
}

#[test]
#[ignore = "full"]
fn answers_that_nobody_asked_for_end_it() {
    for kind in [DONE, MORE, FAILED, 77] {
        let mut w = World::new("src: a=500 big=9M remote: a=500 big=9M dst/");
        (w.agent, _) = proxy::tampering(&w, move |request, frame| {
            let mut bytes = frame.bytes();
            if request == LIST || request == PUT_BUNDLE {
                bytes.extend(Frame { kind, id: 0x7fff_fff0, body: vec![0; 30] }.bytes());
            }
            bytes
        });
        for ended in [get(&w, ""), put(&w, "")] {
            // It may have been done before they came.
            if !ended.status.success() {
                failed(ended);
            }
        }
    }
}

/// Each answer behind the greeting has some bytes changed.
#[test]
#[ignore = "full"]
fn random_bytes_neither_crash_it_nor_escape() {
    for seed in 1..=16 {
        println!("seed {seed}");
        let tree = "a=500 b=600 d/c=70K d/l->../a d/e/f=9 big=3M";
        let mut w = World::new(&format!("remote: {tree} src: {tree} dst/in/: old=5"));
        let random = Mutex::new(Random::new(seed));
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
        let listed = || (w.entries("dst"), w.entries("/"));
        let before = listed();
        for ended in [get(&w, "-a"), put(&w, "-a"), run(&w, "ls -lR testhost:~/remote")] {
            assert!(ended.status.code().is_some(), "{ended}");
        }
        assert_eq!(listed(), before);
    }
}

/// A remote haul that sends these bytes and then waits until it is left.
fn says(w: &World, what: Vec<u8>) -> PathBuf {
    proxy::remote(w, move |mut stream: TcpStream, _| {
        // The other side may have left.
        let _ = stream.write_all(&what);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
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
        let mut w = World::new("src: a=5");
        w.agent = says(&w, bytes);
        let ended = failed(put(&w, ""));
        assert!(ended.err.contains("testhost") || ended.err.contains("remote"), "{what}: {ended}");
        assert!(!w.has("there"), "{what}: {ended}");
    }
}

#[test]
fn another_version_falls_back_to_sftp_or_is_reported() {
    // "unsupported", no remedy, operation, reason, no path, no next step.
    let words = b"no common protocol version";
    let refusal = [&[unsupported(), 0, 0, words.len() as u8], &words[..], &[0, 0]].concat();
    for what in ["refused", "newer"] {
        let mut w = World::new("src: a=5");
        let refusal = refusal.clone();
        (w.agent, _) = proxy::tampering(&w, move |request, mut frame| {
            if request == HELLO && what == "refused" {
                return Frame { kind: FAILED, id: frame.id, body: refusal.clone() }.bytes();
            }
            if request == HELLO {
                frame.body[0] = 99;
            }
            frame.bytes()
        });
        failed(put(&w, "")).err_has("version");
        assert!(!w.has("there"));
        w.tree("remote-home/bin/");
        w.rename(&w.agent, "remote-home/bin/haul");
        w.plain("cp --no-direct src/ testhost:~/there").start().within(BOUND).code(0).says("over plain SFTP");
        assert_eq!(w.read("there/a"), w.read("src/a"), "{what}");
    }
}

/// The number of the kind of error, as an honest agent writes it that has no version in common.
fn unsupported() -> u8 {
    let mut child = Command::new(HAUL).arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    // Versions 200 to 201 are spoken here.
    let hello = Frame { kind: HELLO, id: 0, body: vec![200, 1, 201, 1, 1, b'x'] };
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&hello.bytes()).expect("it reads");
    let mut answer = [0; MAGIC.len() + 10];
    child.stdout.take().expect("piped").read_exact(&mut answer).expect("it answers");
    drop(input);
    child.wait().expect("it was started");
    assert_eq!(answer[MAGIC.len() + 4], FAILED, "{}", answer.escape_ascii());
    answer[MAGIC.len() + 9]
}

#[test]
fn a_remote_haul_that_says_nothing_is_given_up() {
    let hangs = |printed: &'static str| {
        move |_: Option<&str>| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("printf '{printed}'; exec sleep 600")]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh runs");
            let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
            Ok(Pipes { input: input.into(), output: output.into(), transport: Box::new(child) })
        }
    };
    for printed in ["", "welcome\\n", "\\nhaul-agent-speaks\\n", "\\nhaul-agent-speaks\\n\\0\\0\\1"] {
        let wishes = SessionOptions {
            sessions: 1,
            streams: None,
            greeting: Duration::from_millis(300),
            answer_timeout: None,
            version: "0.1.0",
            compress: false,
            direct: None,
            site: Site::default(),
            widen: None,
        };
        let connected = Host::connect(Box::new(hangs(printed)), wishes, "testhost".into(), b"/tmp");
        connected.map(|_| ()).expect_err("nobody greets");
    }
}

/// Further sessions would run `haul agent --join WORD` on the host.
#[test]
#[ignore = "full"]
fn a_word_to_join_by_is_no_command() {
    for word in ["$(touch ~/owned)", "x; touch ~/owned;", "a' 'b", "../../agent", "a\nb", "g", &"f".repeat(33)] {
        let mut w = World::new("src: a=5 big=20M");
        let word = word.replace('~', &w.work.display().to_string());
        let said = word.clone();
        (w.agent, _) = proxy::tampering(&w, move |request, mut frame| {
            if request == HELLO && frame.kind == DONE {
                let mut rest = &frame.body[..];
                let own = greeted_word(&mut rest);
                let before = frame.body.len() - rest.len() - own - 1;
                let behind = rest.to_vec();
                frame.body.truncate(before);
                frame.body.push(u8::try_from(said.len()).expect("short"));
                frame.body.extend(said.bytes());
                frame.body.extend(behind);
            }
            frame.bytes()
        });
        for ended in [put(&w, ""), run(&w, "ls testhost:~/src")] {
            failed(ended).err_has("an impossible word to join by");
        }
        assert!(!w.has("owned") && !w.has("remote-home/owned") && !w.has("there"), "{word}");
    }
}

/// Goes behind the word in a greeting: version, program, home, word. The length of the word.
fn greeted_word(rest: &mut &[u8]) -> usize {
    varint::take(rest).expect("a version");
    let mut length = 0;
    for _ in 0..3 {
        length = varint::take(rest).expect("a length") as usize;
        *rest = &rest[length..];
    }
    assert_eq!(length, 16, "a word that an honest agent makes");
    length
}

/// Its heartbeats come, so that only `--timeout` ends the wait.
#[test]
#[ignore = "full"]
fn a_remote_haul_that_hangs_after_its_greeting_is_bounded_by_timeout() {
    let commands = ["ls testhost:~/remote", "du testhost:~/remote", "tree testhost:~/remote", "rm -r testhost:~/remote/d"];
    let all: fn(u8) -> bool = |request| request > HELLO;
    let listings: fn(u8) -> bool = |request| request == LIST;
    let contents: fn(u8) -> bool = |request| matches!(request, READ | GET_BUNDLE);
    for (swallows, commands) in [
        (all, &["mkdir testhost:~/remote/new", "ls testhost:~/remote", "cp src/ testhost:~/there"][..]),
        (listings, &commands[..]),
        (contents, &["cat testhost:~/remote/a"][..]),
    ] {
        let mut w = World::new("remote: a=5 d/x=8 src: a=5");
        (w.agent, _) = proxy::tampering(&w, move |request, frame| if swallows(request) { Vec::new() } else { frame.bytes() });
        for words in commands {
            let ended = run(&w, &format!("{words} --timeout 1s")).code(30).err_has("answer");
            assert!(ended.err.lines().count() <= 3, "{words}: {ended}");
        }
    }
}
