//! The commands of object stores, the program itself against real servers.

use std::process::Command;
use std::sync::Arc;

use haul_test::objects::ObjectServer;
use haul_test::objects::plain::{self, request};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use crate::support::{Ended, World, until};

impl World {
    /// At a server of its own without buckets.
    fn alone(server: std::io::Result<ObjectServer>) -> World {
        World::without_bucket(Arc::new(server.expect("a server")))
    }

    /// The program with arguments that may have blanks.
    fn run(&self, arguments: &[&str]) -> Ended {
        self.haul("").args(arguments).run()
    }

    /// It must succeed; its lines.
    fn ok(&self, arguments: &[&str]) -> Vec<String> {
        self.run(arguments).code(0).out.lines().map(str::to_string).collect()
    }

    fn fed(&self, arguments: &[&str], input: &str) -> Ended {
        self.haul("").args(arguments).fed(input).run()
    }

    fn write(&self, path: &str, text: &str) {
        plain::put(&self.real, path, text.as_bytes()).expect(path);
    }

    fn bucket(&self, name: &str, keys: &[&str]) {
        request(&self.real, "PUT", &format!("/{name}"), &[], b"").and_then(plain::Answer::success).expect(name);
        for key in keys {
            let path = key.replace('%', "%25").replace(' ', "%20").replace('+', "%2B");
            self.write(&format!("/{name}/{path}"), key);
        }
    }
}

const TREE: [&str; 8] =
    ["2024-01/x1.nc", "2024-01/x2.nc", "2024-01/y.nc", "2024-02/deep/x3.nc", "2024-02/x4.nc", "2025/x5.nc", "a b+%.txt", "pre-x"];

#[test]
fn buckets_are_made_listed_and_removed() {
    let world = World::alone(ObjectServer::minio());
    world.ok(&["mb", "s3://alpha", "s3://beta"]);
    let listed = world.ok(&["ls", "s3://"]);
    assert!(listed.len() == 2 && listed[0].ends_with("  s3://alpha") && listed[1].starts_with("20"), "{listed:?}");
    for (arguments, part) in [
        (["mb", "s3://Capital"], "\"capital\" would do"),
        (["mb", "s3://no_line"], "\"no-line\" would do"),
        (["mb", "s3://ab"], "3 to 63"),
        (["mb", "s3://alpha"], "BucketAlreadyOwnedByYou"),
        (["rb", "s3://nowhere"], "there is no bucket nowhere"),
    ] {
        let refused = world.run(&arguments);
        assert!(refused.status.code() != Some(0) && refused.err.contains(part), "{arguments:?}: {refused:?}");
    }
    world.write("/alpha/d/k", "1");
    let full = world.run(&["rb", "s3://alpha"]);
    assert!(full.status.code() == Some(23) && full.err.contains("--force"), "{full:?}");
    let dry = world.run(&["rb", "--force", "-n", "s3://alpha"]);
    assert!(dry.status.code() == Some(0) && dry.err.contains("would remove s3://alpha/d/k") && dry.err.contains("DRY RUN"), "{dry:?}");
    assert_eq!(world.ok(&["ls", "-R", "s3://alpha"]), ["d/k"], "a dry run removes nothing");
    world.ok(&["rb", "--force", "s3://alpha"]);
    world.ok(&["rb", "s3://beta"]);
    assert!(world.ok(&["ls", "s3://"]).is_empty());
}

#[test]
#[ignore = "full"]
fn keys_are_listed_by_slashes_and_wildcards_without_a_look_at_any() {
    let server = Arc::new(ObjectServer::versitygw().expect("a server"));
    let world = World::at(server.clone());
    world.bucket("box", &TREE);
    let ls = |arguments: &[&str]| world.ok(&[&["ls"], arguments].concat());
    assert_eq!(ls(&["s3://box"]), ["2024-01/", "2024-02/", "2025/", "a b+%.txt", "pre-x"]);
    assert_eq!(ls(&["s3://box/2024-01"]), ["x1.nc", "x2.nc", "y.nc"], "without a slash too, where there is no such object");
    assert_eq!(ls(&["s3://box/2024-02/"]), ["deep/", "x4.nc"]);
    assert_eq!(ls(&["-R", "s3://box/2024-02/"]), ["deep/x3.nc", "x4.nc"]);
    assert_eq!(ls(&["s3://box/pre-x"]), ["s3://box/pre-x"]);
    let none = world.run(&["ls", "s3://box/pre"]);
    assert!(none.status.code() == Some(23) && none.out.is_empty(), "no prefix of a name is meant: {none:?}");
    assert_eq!(ls(&["s3://box/2024-*/x*.nc"]), ["s3://box/2024-01/x1.nc", "s3://box/2024-01/x2.nc", "s3://box/2024-02/x4.nc"]);
    assert_eq!(ls(&["s3://box/20??"]), ["s3://box/2025/"]);
    assert_eq!(ls(&["s3://box/202[45]*/"]).len(), 9, "the directories and what is in them");
    assert_eq!(ls(&["s3://box/**/x3.nc"]), ["s3://box/2024-02/deep/x3.nc"]);
    assert_eq!(ls(&["-R", "s3://box/*-02"]), ["s3://box/2024-02/", "s3://box/2024-02/deep/x3.nc", "s3://box/2024-02/x4.nc"]);
    assert_eq!(world.run(&["ls", "s3://box/*.txt/*"]).status.code(), Some(23));
    let long = ls(&["-l", "--etag", "s3://box/2025/"]);
    let words: Vec<&str> = long[0].split_whitespace().collect();
    assert!(matches!(words[..], ["STANDARD", "10", _, _, etag, "x5.nc"] if etag.len() == 32), "{long:?}");
    // Sums of directories, as du has them.
    assert_eq!(world.ok(&["du", "-s", "s3://box/2024-02/"]), ["31\t2 files\ts3://box/2024-02/"]);
    assert_eq!(world.ok(&["du", "s3://box/2024-02"]), ["18\t1 file\ts3://box/2024-02/deep", "31\t2 files\ts3://box/2024-02"]);
    assert_eq!(world.ok(&["du", "-s", "--by-class", "--exclude", "deep", "s3://box/2024-02/"])[0], "13\t1 file\tSTANDARD");
    assert_eq!(world.ok(&["du", "-s", "s3://box/**/x?.nc"]), ["67\t5 files\ts3://box/**/x?.nc"]);
    let asked = std::fs::read_to_string(server.path("requests")).expect("the server's log");
    assert!(asked.contains("s3_ListObjectsV2") && !asked.contains("s3_HeadObject") && !asked.contains("s3_GetObject"), "{asked}");
}

#[test]
fn wildcards_and_directories_are_removed_in_batches() {
    let world = World::alone(ObjectServer::minio());
    world.bucket("box", &TREE);
    let dry = world.run(&["rm", "-n", "s3://box/2024-*/x*.nc"]);
    assert_eq!(dry.err.lines().filter(|line| line.starts_with("would remove s3://box/2024-0")).count(), 3, "{dry:?}");
    let refused = world.run(&["rm", "s3://box/2024-01/"]);
    assert!(refused.status.code() == Some(1) && refused.err.contains("-r"), "{refused:?}");
    for arguments in [&["rm", "s3://box/2024-01"][..], &["rm", "-r", "s3://box/2024-01"]] {
        let refused = world.run(arguments);
        assert!(refused.status.code() == Some(23) && refused.err.contains("s3://box/2024-01/ names them"), "{refused:?}");
    }
    for place in ["s3://box", "s3://box/", "s3://box/*", "s3://box/**"] {
        let refused = world.run(&["rm", "-r", place]);
        assert!(refused.status.code() == Some(1) && refused.err.contains("whole bucket"), "{place}: {refused:?}");
    }
    assert_eq!(world.ok(&["ls", "-R", "s3://box"]).len(), TREE.len(), "nothing has gone yet");
    let missing = world.run(&["rm", "s3://box/202"]);
    assert!(missing.status.code() == Some(23) && missing.err.contains("no such object"), "{missing:?}");
    world.ok(&["rm", "-f", "s3://box/202", "s3://box/nothing*"]);

    world.ok(&["rm", "s3://box/2024-*/x*.nc"]);
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2024-01/y.nc", "2024-02/deep/x3.nc", "2025/x5.nc", "a b+%.txt", "pre-x"]);
    let left = world.run(&["rm", "-v", "s3://box/*"]);
    assert!(
        left.status.code() == Some(0) && left.err.contains("3 directories match") && left.err.contains("removed s3://box/pre-x"),
        "{left:?}"
    );
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2024-01/y.nc", "2024-02/deep/x3.nc", "2025/x5.nc"]);
    world.ok(&["rm", "-r", "s3://box/2024*"]);
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2025/x5.nc"]);

    let many = world.path("many");
    std::fs::create_dir(&many).expect("made");
    (0..1100).for_each(|i| std::fs::write(many.join(format!("{i}")), "x").expect("written"));
    world.ok(&["cp", "-q", "many", "s3://box/"]);
    assert_eq!(world.ok(&["du", "-s", "s3://box/many/"]), ["1100\t1,100 files\ts3://box/many/"]);
    let gone = world.run(&["rm", "-rv", "s3://box/many/"]);
    assert_eq!(gone.err.lines().filter(|line| line.starts_with("removed s3://box/many/")).count() / 1100, 1, "{gone:?}");
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2025/x5.nc"]);
    world.ok(&["rm", "-r", "--force", "s3://box"]);
    assert!(world.ok(&["ls", "s3://box"]).is_empty());
}

#[test]
#[ignore = "full"]
fn what_a_pattern_matches_is_copied_and_moved_with_its_path_from_there() {
    let world = World::alone(ObjectServer::versitygw());
    world.bucket("box", &TREE);
    let files = |dir: &str| {
        let found = Command::new("find").args([dir, "-type", "f"]).current_dir(world.path("")).output().expect("find runs");
        let mut all: Vec<String> = String::from_utf8_lossy(&found.stdout).lines().map(str::to_string).collect();
        all.sort();
        all
    };
    world.ok(&["cp", "-q", "s3://box/2024-*/x*.nc", "out"]);
    assert_eq!(files("out"), ["out/2024-01/x1.nc", "out/2024-01/x2.nc", "out/2024-02/x4.nc"]);
    assert_eq!(std::fs::read_to_string(world.path("out/2024-02/x4.nc")).expect("copied"), "2024-02/x4.nc");
    // A directory that is matched goes with all that is in it.
    world.ok(&["cp", "-q", "s3://box/2024-0*", "all"]);
    assert_eq!(files("all").len(), 5);
    world.ok(&["cp", "-q", "s3://box/2024-01/?1.nc", "all"]);
    assert!(files("all").contains(&"all/x1.nc".to_string()));
    for (arguments, code, part) in [
        (&["cp", "s3://box/none*", "out"][..], 23, "nothing matches"),
        (&["cp", "s3://box/2024*/", "out"], 1, "cannot end in a slash"),
        (&["sync", "--delete", "s3://box/2024*", "out"], 1, "--include"),
        (&["mv", "s3://box/2024-01/*", "s3://box/2024-01/"], 1, "the same"),
    ] {
        let refused = world.run(arguments);
        assert!(refused.status.code() == Some(code) && refused.err.contains(part), "{arguments:?}: {refused:?}");
    }
    assert_eq!(world.ok(&["ls", "-R", "s3://box"]).len(), TREE.len());
    // Into a directory that the pattern matches as well: what is there stays.
    world.ok(&["mv", "-q", "s3://box/2024-0*", "s3://box/2024-02/"]);
    let now = ["2024-02/2024-01/x1.nc", "2024-02/2024-01/x2.nc", "2024-02/2024-01/y.nc", "2024-02/deep/x3.nc", "2024-02/x4.nc"];
    let listed: Vec<String> = world.ok(&["ls", "-R", "s3://box/2024-*"]).into_iter().filter(|line| !line.ends_with('/')).collect();
    assert_eq!(listed, now.map(|key| format!("s3://box/{key}")));
    assert_eq!(world.run(&["check", "-q", "s3://box/2024-02/x*", "out/2024-02"]).status.code(), Some(0));
    std::fs::write(world.path("out/2024-02/x4.nc"), "other").expect("written");
    assert_eq!(world.run(&["check", "-q", "s3://box/2024-02/x*", "out/2024-02"]).status.code(), Some(1));
}

#[test]
fn an_object_is_described_and_handed_out_by_an_address() {
    let world = World::alone(ObjectServer::minio());
    world.bucket("box", &[]);
    std::fs::write(world.path("f.nc"), "content").expect("written");
    world.ok(&["cp", "-q", "-p", "--metadata", "Lab=seven", "f.nc", "s3://box/d/f.nc"]);
    let text = world.ok(&["head", "s3://box/d/f.nc"]).join("\n");
    for part in ["s3://box/d/f.nc", "7 bytes", "the MD5 of the content", "STANDARD", "CRC64NVME", "file: mode", "0644", "lab=seven"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&world.ok(&["head", "--json", "s3://box/d/f.nc"])[0]).expect("JSON");
    assert_eq!((&json["size"], &json["etag_kind"], &json["metadata"]["lab"]), (&7.into(), &"md5".into(), &"seven".into()), "{json}");
    assert_eq!(json["checksums"][0]["type"], "FULL_OBJECT", "{json}");
    assert_eq!(json["file"]["mode"], "0644", "{json}");
    assert!(world.ok(&["head", "s3://box"])[1].ends_with("us-east-1"));
    let missing = world.run(&["head", "s3://box/none", "s3://box/d/f.nc"]);
    assert!(missing.status.code() == Some(23) && missing.out.contains("7 bytes") && missing.err.contains("s3://box/none"), "{missing:?}");

    let address = world.ok(&["presign", "--expires", "60s", "s3://box/d/f.nc"]);
    let [address] = &address[..] else { panic!("one line: {address:?}") };
    assert_eq!(http("GET", address, b""), "content");
    let nobody = ["presign", "--endpoint-url", "http://127.0.0.1:1", "s3://box/d/f.nc"];
    assert!(world.ok(&nobody)[0].starts_with("http://127.0.0.1:1/box/d/f.nc?"), "nothing is asked of the service");
    // A header would have to be signed and sent by whoever uses the address.
    for option in ["--content-type=text/plain", "--storage-class=GLACIER", "--acl=private", "--metadata=a=b", "--tagging=a=b"] {
        let refused = world.run(&["presign", option, "s3://box/d/f.nc"]);
        assert!(!refused.status.success() && refused.out.is_empty() && refused.err.contains("no headers"), "{refused:?}");
    }
    let address = world.ok(&["presign", "--method", "PUT", "s3://box/new key"]);
    http("PUT", &address[0], b"written by whoever has it");
    assert_eq!(world.ok(&["cat", "s3://box/new key"]), ["written by whoever has it"]);
}

/// A request without any signature of its own.
fn http(method: &str, url: &str, body: &[u8]) -> String {
    use std::io::{Read, Write};
    let (host, target) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("an address");
    let mut stream = std::net::TcpStream::connect(host).expect("connected");
    let head = format!("{method} /{target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body.to_string()
}

#[test]
#[ignore = "full"]
fn versions_are_listed_read_and_removed() {
    let world = World::alone(ObjectServer::versitygw());
    world.bucket("box", &[]);
    let on =
        b"<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status></VersioningConfiguration>";
    request(&world.real, "PUT", "/box?versioning=", &[], on).and_then(plain::Answer::success).expect("versions are kept");
    for text in ["one", "second"] {
        world.write("/box/d/k", text);
    }
    world.write("/box/other", "x");
    let versions = world.ok(&["ls", "--all-versions", "-l", "s3://box/d/k"]);
    assert!(versions.len() == 2 && versions[0].contains(" latest ") && versions[1].contains(" old "), "{versions:?}");
    let id = |line: &str| line.split_whitespace().rev().nth(1).expect("an id").to_string();
    let old = id(&versions[1]);
    assert_eq!(world.ok(&["cat", "--version-id", &old, "s3://box/d/k"]), ["one"]);
    assert_eq!(world.ok(&["cat", "s3://box/d/k"]), ["second"]);
    world.ok(&["cp", "-q", "--version-id", &old, "s3://box/d/k", "old"]);
    assert_eq!(std::fs::read_to_string(world.path("old")).expect("copied"), "one");
    let told = world.ok(&["head", "--version-id", &old, "s3://box/d/k"]).join("\n");
    assert!(told.contains("3 bytes") && told.contains(&old), "{told}");
    assert_eq!(world.ok(&["du", "-s", "--all-versions", "s3://box/d/"]), ["9\t2 files\ts3://box/d/"]);

    // What is removed without a version is only marked.
    world.ok(&["rm", "s3://box/d/k"]);
    assert_eq!(world.run(&["cat", "s3://box/d/k"]).status.code(), Some(23));
    let versions = world.ok(&["ls", "--all-versions", "-R", "s3://box"]);
    assert!(versions.len() == 4 && versions[0].starts_with("deleted "), "{versions:?}");
    world.ok(&["rm", "--version-id", &id(&versions[0]), "s3://box/d/k"]);
    assert_eq!(world.ok(&["cat", "s3://box/d/k"]), ["second"]);
    world.ok(&["rm", "--all-versions", "s3://box/d/k"]);
    assert_eq!(world.ok(&["ls", "--all-versions", "-R", "s3://box"]).len(), 1);
    world.write("/box/d/k", "third");
    world.ok(&["rm", "s3://box/d/k"]);
    world.ok(&["rb", "--force", "s3://box"]);
    assert!(world.ok(&["ls", "s3://"]).is_empty());
}

#[test]
#[ignore = "full"]
fn unfinished_uploads_are_listed_and_removed() {
    let world = World::alone(ObjectServer::versitygw());
    world.bucket("box", &["d/done"]);
    let begin = |key: &str| {
        let answer = request(&world.real, "POST", &format!("/box/{key}?uploads="), &[], b"").and_then(plain::Answer::success);
        let text = answer.expect("begun").text();
        text.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()).expect("an id").to_string()
    };
    let first = begin("d/large");
    begin("d/e/other");
    let part = format!("/box/d/large?partNumber=1&uploadId={first}");
    request(&world.real, "PUT", &part, &[], b"part").and_then(plain::Answer::success).expect("a part");

    let listed = world.ok(&["ls", "--uploads", "-l", "s3://box/d/"]);
    assert!(listed.len() == 2 && listed[0].ends_with("e/other") && listed[1].contains(&first), "{listed:?}");
    assert!(listed[1].split_whitespace().collect::<Vec<_>>().windows(3).any(|w| w == ["4", "1", "parts"]), "{listed:?}");
    assert_eq!(world.ok(&["ls", "--uploads", "s3://box/d/e/"]).len(), 1);
    assert!(world.ok(&["ls", "--uploads", "s3://box/other/"]).is_empty());

    world.ok(&["rm", "--uploads", "--older-than", "1h", "s3://box"]);
    assert_eq!(world.ok(&["ls", "--uploads", "s3://box"]).len(), 2, "these are young");
    let refused = world.run(&["rm", "--uploads", "s3://box"]);
    assert!(refused.status.code() == Some(1) && refused.err.contains("--older-than"), "{refused:?}");
    let dry = world.run(&["rm", "--uploads", "-n", "s3://box/d/"]);
    assert!(dry.err.contains("would remove s3://box/d/large") && dry.err.contains(&first), "{dry:?}");
    assert_eq!(world.ok(&["ls", "--uploads", "s3://box"]).len(), 2, "a dry run removes nothing");
    world.ok(&["rm", "--uploads", "s3://box/d/e/"]);
    assert_eq!(world.ok(&["ls", "--uploads", "s3://box"]).len(), 1);
    world.ok(&["rm", "--uploads", "--force", "s3://box"]);
    assert!(world.ok(&["ls", "--uploads", "s3://box"]).is_empty());
    assert_eq!(world.ok(&["ls", "-R", "s3://box"]), ["d/done"], "objects stay");
}

#[test]
fn many_commands_run_in_one_process() {
    let world = World::alone(ObjectServer::minio());
    std::fs::write(world.path("a file"), "text").expect("written");
    let script = "# begins here\n\nmb s3://bucket\n  cp -q 'a file' \"s3://bucket/a key\" # quoted\nhaul cat s3://bucket/a\\ key\n\
                  rm s3://bucket/none\nnonsense\nrun other\ncp s3://bucket/none .\nls s3://bucket\n";
    std::fs::write(world.path("script"), script).expect("written");
    let all = world.run(&["run", "script"]);
    assert_eq!(all.status.code(), Some(23), "the worst of them: {all:?}");
    assert_eq!(all.out, "texta key\n", "{all:?}");
    for part in ["line 3: mb", "line 6: failed (23)", "line 7: failed (1)", "line 8: failed (1)", "line 9: failed (23)", "4 lines failed:"]
    {
        assert!(all.err.contains(part), "{part}: {all:?}");
    }
    let stopped = world.fed(&["run", "--exit-on-error", "-"], "ls s3://bucket\nrm s3://bucket/none\nls s3://bucket\n");
    assert!(stopped.status.code() == Some(23) && stopped.out == "a key\n", "{stopped:?}");
    let stdin = world.fed(&["run", "-"], "cat -\n");
    assert!(stdin.status.code() == Some(1) && stdin.err.contains("keep them in a file"), "{stdin:?}");

    let copies: String = (0..40).map(|i| format!("cp 'a file' s3://bucket/many/{i}\n")).collect();
    let beside = world.fed(&["run", "--jobs", "8", "-"], &copies);
    assert_eq!((beside.status.code(), beside.err.matches(": done: cp").count()), (Some(0), 40), "{beside:?}");
    assert_eq!(world.ok(&["ls", "s3://bucket/many/"]).len(), 40);
    let removals: String = (0..40).map(|i| format!("rm s3://bucket/many/{i}\n")).collect();
    assert_eq!(world.fed(&["run", "--jobs", "8", "-q", "-"], &removals).status.code(), Some(0));
    assert_eq!(world.ok(&["ls", "-R", "s3://bucket"]), ["a key"]);
    assert_eq!(world.run(&["run", "not-there"]).status.code(), Some(23));
}

/// A signal ends the line that is at work, and begins no other.
#[test]
fn a_signal_ends_all_lines() {
    let world = World::alone(ObjectServer::minio());
    world.bucket("bucket", &[]);
    let fifo = world.path("fifo");
    world.sh("mkfifo fifo");
    // cat waits for bytes that never come.
    std::fs::write(world.path("script"), format!("ls s3://bucket\ncat {}\nmb s3://later\n", fifo.display())).expect("written");
    let run = world.haul("run script").start();
    let mut writer = None;
    until("a reader", || {
        writer = rustix::fs::open(&fifo, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok();
        writer.is_some()
    });
    run.signal(Signal::TERM);
    run.wait().code(20);
    assert_eq!(world.ok(&["ls", "s3://"]).len(), 1, "no other line was begun");
}
