//! FTP in extended block mode: `globus-gridftp-server` as source and destination, in clear text.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant, UNIX_EPOCH};

use haul_test::content;
use haul_test::ftp_rogue::{Answer, FtpRogue};
use haul_test::gridftpd::GridServer;
use haul_test::volume::{Kind, Volume};

/// Bytes of the file `big`.
const BIG: usize = 9 << 20;

/// A directory with a tree in it; `@` in commands stands for the same directory on the server.
struct World {
    place: tempfile::TempDir,
    server: GridServer,
}

impl World {
    fn new(options: &[&str]) -> World {
        let place = tempfile::Builder::new().prefix("haul-mode-e-").tempdir().expect("a temporary directory");
        let server = GridServer::start(options).expect("globus-gridftp-server-progs is installed");
        let w = World { place, server };
        fs::create_dir_all(w.path("src/d/sub")).expect("made");
        fs::create_dir_all(w.path("src/empty dir")).expect("made");
        for (path, content) in [("src/d/a.txt", "hello\n"), ("src/d/none", ""), ("src/d/sub/-deep", "deep"), ("src/.hid", "h")] {
            w.write(path, content.as_bytes(), 1_500_000_000);
        }
        for n in 0..300 {
            w.write(&format!("src/d/n{n}"), &bytes(n, 40 * n as usize), 1_400_000_000 + n);
        }
        w.write("src/big", &bytes(999, BIG), 1_300_000_000);
        w
    }

    fn write(&self, path: &str, content: &[u8], seconds: u64) {
        fs::write(self.path(path), content).expect("written");
        let file = fs::File::options().append(true).open(self.path(path)).expect("opened");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("set");
    }

    fn time(&self, path: &str) -> u64 {
        let time = self.path(path).metadata().and_then(|meta| meta.modified()).expect("a time");
        time.duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn command(&self, program: &str, words: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").env("GLOBUS_HOSTNAME", "localhost");
        let url = self.server.url(self.place.path());
        let address = |word: &str| word.strip_prefix('@').map_or(word.to_string(), |path| format!("{url}{path}"));
        command.args(words.split(' ').filter(|word| !word.is_empty()).map(address));
        command
    }

    fn haul(&self, words: &str) -> Output {
        self.command(env!("CARGO_BIN_EXE_haul"), words).output().expect("the program runs")
    }

    /// Standard output and standard error.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> String {
        let ran = self.haul(words);
        let text = shown(&ran);
        assert_eq!(ran.status.code(), Some(code), "haul {words}\n{text}");
        text
    }

    /// Runs until the K-th record of the journal, and is killed there.
    #[track_caller]
    fn killed(&self, record: u32, words: &str) {
        let mut command = self.command(env!("CARGO_BIN_EXE_haul"), words);
        let ran = command.env("HAUL_TEST_KILL_AT_RECORD", record.to_string()).output().expect("the program runs");
        assert_eq!(ran.status.signal(), Some(9), "haul {words}\n{}", shown(&ran));
        // The server writes what it has before it sees that nobody is there any more.
        let count = |what: &str| self.server.log().matches(what).count();
        let until = Instant::now() + Duration::from_secs(30);
        while count("New connection from") > count("Closed connection from") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn same(&self, one: &str, other: &str) {
        let ran =
            Command::new("diff").args(["-r", "--no-dereference"]).arg(self.path(one)).arg(self.path(other)).output().expect("diff runs");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    }

    fn staged(&self, dir: &str) -> Vec<String> {
        let names = fs::read_dir(self.path(dir)).expect("a directory");
        let names = names.map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(".haul-")).collect()
    }

    /// Whether the server logs this command so many times, as `[CLIENT]: WORD ...`. It writes its log late.
    fn hears(&self, word: &str, least: usize) -> bool {
        let count = || self.server.log().lines().filter(|line| line.contains("[CLIENT]: ") && line.contains(word)).count();
        let until = Instant::now() + Duration::from_secs(20);
        while count() < least && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        count() >= least
    }
}

fn shown(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    content::fill(seed, 0, &mut bytes);
    bytes
}

#[test]
fn trees_go_both_ways_and_are_what_the_grid_reads() {
    let w = World::new(&["-d", "all"]);
    w.ends(0, "cp --chunk-size 1M src/ @/there");
    w.same("src", "there");
    assert!(w.hears("MODE E", 1) && w.hears("ESTO A ", 9), "{}", w.server.log());
    assert_eq!((w.time("there/d/n7"), w.time("there/big"), w.time("there/.hid")), (1_400_000_007, 1_300_000_000, 1_500_000_000));
    assert!(w.staged("there").is_empty() && w.staged("there/d").is_empty());
    w.ends(0, "cp @/there/ back");
    w.same("src", "back");
    let guc = w.command("globus-url-copy", &format!("-q -fast -p 4 @/there/big file://{}", w.path("other").display()));
    let ran = { guc }.output().expect("globus-url-copy runs");
    assert!(ran.status.success() && w.read("other") == w.read("src/big"), "{}", shown(&ran));
    let text = w.ends(0, "cp src/ @/there");
    assert!(text.contains("nothing to transfer"), "{text}");
    fs::write(w.path("src/d/n7"), "changed").expect("written");
    fs::remove_file(w.path("src/d/n8")).expect("removed");
    w.ends(0, "sync --delete --verify src/ @/there");
    w.same("src", "there");
    w.ends(0, "check -c src/ @/there");
    w.write("there/d/a.txt", b"hellO\n", 1_500_000_000);
    assert!(w.ends(1, "check -c src/ @/there").contains("a.txt"));
    let text = w.ends(0, "sum --format sha256sum @/src/d/a.txt");
    assert!(text.contains("5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"), "{text}");
    assert!(w.hears("CKSM SHA256 0 -1", 1));
}

#[test]
fn the_network_is_measured_without_disks() {
    let w = World::new(&[]);
    let server = w.server.url("");
    let words = format!("bench net --json --streams 2 --seconds 1 --repeat 1 --out run {server}");
    let ran = w.haul(&words);
    assert_eq!(ran.status.code(), Some(0), "{}", shown(&ran));
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    let points = document["points"].as_array().expect("a list");
    for direction in ["out", "in"] {
        let point = points.iter().find(|point| point["factors"]["direction"] == direction).expect("it was measured");
        assert!(point["bytes_per_second"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{document}");
    }
    assert!(fs::metadata("/dev/null").expect("it is there").len() == 0);
}

#[test]
fn an_interrupted_upload_goes_on_inside_the_file() {
    for words in ["cp -j 1 --chunk-size 1M src/big @/copy", "cp -j 4 --chunk-size 1M src/big @/copy"] {
        let w = World::new(&["-d", "all"]);
        w.killed(8, words);
        assert_eq!((w.staged("").len(), w.path("copy").exists()), (1, false));
        let text = w.ends(0, words);
        // The server may have written a block where the offsets of the broken store begin.
        let (there, here) = (w.read("copy"), w.read("src/big"));
        let wrong = (0..here.len()).find(|at| there.get(*at) != here.get(*at));
        assert!((there.len(), wrong) == (here.len(), None), "{} bytes, wrong at {wrong:?}\n{text}\n{}", there.len(), w.server.log());
        assert!(text.contains("resumed") || text.contains("Resumed"), "{text}");
        assert!(w.staged("").is_empty());
    }
}

#[test]
fn an_interrupted_download_goes_on_inside_the_file() {
    let w = World::new(&["-d", "all"]);
    let words = "cp -j 2 --chunk-size 1M @/src/big copy";
    w.killed(8, words);
    let text = w.ends(0, words);
    assert!(w.read("copy") == w.read("src/big"), "{text}");
    assert!(text.contains("resumed") || text.contains("Resumed"), "{text}");
}

#[test]
fn options_of_globus_url_copy_are_accepted() {
    let w = World::new(&["-d", "all"]);
    let file = w.path("src/big");
    w.ends(0, &format!("cp -vb -p 8 -fast -bs 1M --chunk-size 1M file://{} @/copy", file.display()));
    assert!(w.read("copy") == w.read("src/big"));
    w.ends(0, "cp -cc 4 -pp -cd -r -tcp-bs 512K src @/there");
    w.same("src", "there/src");
    assert!(w.hears("SBUF 524288", 1), "{}", w.server.log());
}

#[test]
fn a_full_disk_is_reported() {
    let volume = Volume::new(&Kind::Tmpfs { inodes: None }, 4 << 20).expect("a volume of 4 MiB");
    let w = World::new(&[]);
    let url = w.server.url(volume.path());
    let text = shown(&w.haul(&format!("cp src/big {url}/")));
    assert!(text.contains("No space left on device"), "{text}");
    assert!(!volume.path().join("big").exists());
    // Small files: what the server has confirmed is whole, the others are not there.
    let text = shown(&w.haul(&format!("cp src/d/ {url}/")));
    assert!(!text.contains("panicked"), "{text}");
    let many = tempfile::tempdir().expect("a directory");
    for n in 0..64 {
        fs::write(many.path().join(format!("f{n}")), bytes(n, 200_000)).expect("written");
    }
    let ran = w.haul(&format!("cp {}/ {url}/many", many.path().display()));
    let text = shown(&ran);
    assert!(!ran.status.success() && text.contains("No space left on device"), "{text}");
    for entry in fs::read_dir(volume.path().join("many")).expect("made") {
        let entry = entry.expect("a name");
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(".haul-") {
            assert!(fs::read(entry.path()).expect("read") == fs::read(many.path().join(&name)).expect("read"), "{name}");
        }
    }
}

#[test]
fn a_server_sends_large_files_to_another() {
    let w = World::new(&["-d", "all"]);
    let other = GridServer::start(&["-d", "all"]).expect("it is installed");
    w.ends(0, &format!("cp @/src/ {}", other.url(w.path("there"))));
    w.same("src", "there");
    assert_eq!((w.time("there/big"), w.time("there/d/n7")), (1_300_000_000, 1_400_000_007));
    // Over several connections, and to the port that the other listens at.
    let log = w.server.log();
    assert!(log.contains("RETR Parallelism=2,2,2;") && log.contains("PORT 127,0,0,1,"), "{log}");
    assert!(log.contains("ERET P 0 ") && other.log().contains("ESTO A 0 "), "{log}");
}

#[test]
fn what_a_server_sends_to_another_is_verified_by_their_checksums() {
    let w = World::new(&["-d", "all"]);
    let other = GridServer::start(&["-d", "all"]).expect("it is installed");
    w.ends(0, &format!("cp --verify @/src/big {}", other.url(w.path("copy"))));
    w.ends(0, &format!("mv @/copy {}", other.url(w.path("moved"))));
    assert!(w.read("moved") == w.read("src/big") && !w.path("copy").exists());
    for log in [w.server.log(), other.log()] {
        assert!(log.contains("CKSM "), "{log}");
    }
    assert!(w.server.log().matches("PORT 127,0,0,1,").count() >= 2, "{}", w.server.log());
}

#[test]
fn an_interrupted_copy_between_servers_goes_on_inside_the_file() {
    for workers in [1, 4] {
        let w = World::new(&["-d", "all"]);
        let other = GridServer::start(&["-d", "all"]).expect("it is installed");
        let words = format!("cp -j {workers} --chunk-size 1M @/src/big {}", other.url(w.path("copy")));
        w.killed(8, &words);
        assert_eq!((w.staged("").len(), w.path("copy").exists()), (1, false));
        let text = w.ends(0, &words);
        assert!(w.read("copy") == w.read("src/big"), "{text}");
        assert!(w.staged("").is_empty() && text.contains("Resumed:"), "{text}");
        // What was noted as landed does not pass again (how much that is depends on how often the journal was written before the
        // kill), and no connection is made for each range.
        let passed = || -> usize {
            let log = w.server.log();
            let asked = log.split("[CLIENT]: ERET P ").skip(1);
            asked.filter_map(|asked| asked.split(' ').nth(1)?.parse::<usize>().ok()).sum()
        };
        let until = Instant::now() + Duration::from_secs(20);
        while passed() < BIG && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!((BIG..2 * BIG).contains(&passed()), "{} bytes of {BIG}\n{}", passed(), w.server.log());
        assert!(w.server.log().matches("[CLIENT]: PORT ").count() <= 2 * workers, "{}", w.server.log());
        assert!(!other.log().contains("[CLIENT]: STOR") && !w.server.log().contains("[CLIENT]: RETR"), "nothing passes here");
    }
}

#[test]
fn servers_that_refuse_to_exchange_ranges_pass_them_through_here() {
    let w = World::new(&["-d", "all"]);
    let feat = "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n EPSV\r\n PARALLEL\r\n ESTO\r\n DSI file-1\r\n211 End\r\n";
    let content = bytes(79, 600_000);
    for refusal in ["500 never\r\n", "150 now\r\n425 cannot connect\r\n"] {
        let server = FtpRogue::new(content.clone(), move |line| match line {
            "FEAT" => Answer::Say(feat.into()),
            _ if line.starts_with("PORT") && !refusal.starts_with("150") => Answer::Say(refusal.into()),
            _ if line.starts_with("PORT") || line.starts_with("OPTS RETR") => Answer::Say("200 ok\r\n".into()),
            _ if line.starts_with("ERET") => Answer::Say(refusal.into()),
            _ => Answer::Honest,
        });
        let server = server.expect("a server");
        let text = w.ends(0, &format!("cp --timeout 4s --chunk-size 200K {} @/through", server.url("/file")));
        assert!(w.read("through") == content, "{text}");
        let heard = server.heard();
        assert!(heard.iter().any(|line| line.starts_with("PORT")) && heard.iter().any(|line| line.starts_with("RETR")), "{heard:#?}");
        fs::remove_file(w.path("through")).expect("removed");
        assert!(w.staged("").is_empty());
    }
}

/// A block of extended block mode.
fn block(descriptor: u8, count: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    [&[descriptor][..], &count.to_be_bytes(), &offset.to_be_bytes(), bytes].concat()
}

#[test]
fn blocks_that_are_wrong_never_become_a_file() {
    const FEAT: &str = "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n EPSV\r\n PARALLEL\r\n ERET\r\n DSI file-1\r\n211 End\r\n";
    let content = bytes(77, 400_000);
    let (size, half) = (content.len() as u64, content.len() as u64 / 2);
    let (first, second) = content.split_at(half as usize);
    let end = block(72, 0, 1, b"");
    let other = vec![0x55; half as usize];
    for (what, sent) in [
        ("honest", [block(0, half, 0, first), block(0, size - half, half, second), end.clone()].concat()),
        ("out of range", [block(0, half, size, first), block(0, size - half, half, second), end.clone()].concat()),
        ("twice", [block(0, half, 0, first), block(0, half, 0, &other), block(0, size - half, half, second), end.clone()].concat()),
        ("in another order", [block(0, size - half, half, second), block(0, half, 0, first), end.clone()].concat()),
        ("a gap", [block(0, half, 0, first), end.clone()].concat()),
        ("a huge block", block(0, u64::MAX, 0, first)),
        ("too few ends", [block(0, half, 0, first), block(0, size - half, half, second), block(72, 0, 0, b"")].concat()),
        ("too many ends", [block(0, half, 0, first), block(0, size - half, half, second), block(72, 0, 2, b"")].concat()),
        ("cut in a header", [block(0, half, 0, first), vec![0, 0, 0]].concat()),
        ("longer", [block(0, half, 0, first), block(0, size - half, half, second), block(0, 1, size, b"x"), end.clone()].concat()),
        ("no blocks", b"HTTP/1.1 200 OK\r\n\r\n<html>".to_vec()),
    ] {
        let asked = std::sync::Mutex::new(0);
        let server = FtpRogue::new(content.clone(), move |line| match line {
            "FEAT" => Answer::Say(FEAT.into()),
            _ if line.starts_with("ERET") => {
                *asked.lock().expect("no panic") += 1;
                Answer::Connect(sent.clone())
            }
            _ => Answer::Honest,
        });
        let server = server.expect("a server");
        let place = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.env_clear().current_dir(place.path()).env("HOME", place.path()).env("HAUL_STATE_DIR", place.path().join("state"));
        let ran = command.args(["cp", "--timeout", "4s", &server.url("/file"), "got"]).output().expect("the program runs");
        let got = fs::read(place.path().join("got")).ok();
        let (text, heard) = (shown(&ran), server.heard());
        assert!(heard.iter().any(|line| line.starts_with("ERET")), "{what}\n{text}\n{heard:#?}");
        assert!(got.as_ref().is_none_or(|got| *got == content), "{what}: wrong bytes\n{text}");
        assert_eq!(ran.status.success(), got.is_some(), "{what}\n{text}\n{heard:#?}");
        // What cannot be trusted is read again in stream mode.
        let streamed = heard.iter().any(|line| line.starts_with("RETR"));
        assert_eq!(streamed, what != "honest" && got.is_some(), "{what}\n{text}\n{heard:#?}");
    }
}

#[test]
fn a_server_without_extended_block_mode_is_served_in_stream_mode() {
    let content = bytes(78, 100_000);
    let feat = "211-Features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n EPSV\r\n PARALLEL\r\n ERET\r\n ESTO\r\n DSI file-1\r\n211 End\r\n";
    let server = FtpRogue::new(content.clone(), move |line| match line {
        "FEAT" => Answer::Say(feat.into()),
        _ if line.starts_with("MODE E") => Answer::Say("504 not here\r\n".into()),
        _ => Answer::Honest,
    });
    let server = server.expect("a server");
    let place = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.env_clear().current_dir(place.path()).env("HOME", place.path()).env("HAUL_STATE_DIR", place.path().join("state"));
    let ran = command.args(["cp", "-p", "4", &server.url("/file"), "got"]).output().expect("the program runs");
    let text = shown(&ran);
    assert!(ran.status.success() && fs::read(place.path().join("got")).expect("read") == content, "{text}");
    assert_eq!(text.matches("no extended block mode").count(), 1, "{text}");
    assert_eq!(server.heard().iter().filter(|line| *line == "MODE E").count(), 1, "{:#?}", server.heard());
}
