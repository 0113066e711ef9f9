//! The commands of object stores, the program itself against real servers.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use haul_test::objects::plain::{self, request};
use haul_test::objects::{Endpoint, Minio, Server, Versitygw};

struct World<S> {
    server: S,
    dir: tempfile::TempDir,
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn lines(&self) -> Vec<&str> {
        self.out.lines().collect()
    }
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}\n{}--\n{}", self.code, self.out, self.err)
    }
}

impl<S: Server> World<S> {
    fn new(server: std::io::Result<S>) -> Self {
        World { server: server.expect("a server"), dir: tempfile::tempdir().expect("a directory") }
    }

    fn endpoint(&self) -> &Endpoint {
        self.server.endpoint()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        let endpoint = self.endpoint();
        command.args(arguments).current_dir(self.dir.path()).env_clear();
        command.env("HAUL_STATE_DIR", self.dir.path().join("state")).env("HOME", self.dir.path()).env("TZ", "UTC");
        command.env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret);
        command.env("AWS_REGION", &endpoint.region).env("AWS_ENDPOINT_URL", &endpoint.url);
        command
    }

    fn haul(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().expect("the program runs"))
    }

    /// It must succeed; its lines.
    fn ok(&self, arguments: &[&str]) -> Vec<String> {
        let ran = self.haul(arguments);
        assert_eq!(ran.code, Some(0), "haul {arguments:?}: {ran:?}");
        ran.lines().into_iter().map(str::to_string).collect()
    }

    fn fed(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child =
            self.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input.as_bytes()).expect("written");
        ran(child.wait_with_output().expect("it ends"))
    }

    fn put(&self, path: &str, text: &str) {
        plain::put(self.endpoint(), path, text.as_bytes()).expect(path);
    }

    fn bucket(&self, name: &str, keys: &[&str]) {
        self.server.make_bucket(name).expect(name);
        for key in keys {
            let path = key.replace('%', "%25").replace(' ', "%20").replace('+', "%2B");
            self.put(&format!("/{name}/{path}"), key);
        }
    }
}

fn ran(output: Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

const TREE: [&str; 8] =
    ["2024-01/x1.nc", "2024-01/x2.nc", "2024-01/y.nc", "2024-02/deep/x3.nc", "2024-02/x4.nc", "2025/x5.nc", "a b+%.txt", "pre-x"];

#[test]
fn buckets_are_made_listed_and_removed() {
    let world = World::new(Minio::start());
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
        let refused = world.haul(&arguments);
        assert!(refused.code != Some(0) && refused.err.contains(part), "{arguments:?}: {refused:?}");
    }
    world.put("/alpha/d/k", "1");
    let full = world.haul(&["rb", "s3://alpha"]);
    assert!(full.code == Some(23) && full.err.contains("--force"), "{full:?}");
    let dry = world.haul(&["rb", "--force", "-n", "s3://alpha"]);
    assert!(dry.code == Some(0) && dry.err.contains("would remove s3://alpha/d/k") && dry.err.contains("DRY RUN"), "{dry:?}");
    assert_eq!(world.ok(&["ls", "-R", "s3://alpha"]), ["d/k"], "a dry run removes nothing");
    world.ok(&["rb", "--force", "s3://alpha"]);
    world.ok(&["rb", "s3://beta"]);
    assert!(world.ok(&["ls", "s3://"]).is_empty());
}

#[test]
fn keys_are_listed_by_slashes_and_wildcards_without_a_look_at_any() {
    let world = World::new(Versitygw::start());
    world.bucket("box", &TREE);
    let ls = |arguments: &[&str]| world.ok(&[&["ls"], arguments].concat());
    assert_eq!(ls(&["s3://box"]), ["2024-01/", "2024-02/", "2025/", "a b+%.txt", "pre-x"]);
    assert_eq!(ls(&["s3://box/2024-01"]), ["x1.nc", "x2.nc", "y.nc"], "without a slash too, where there is no such object");
    assert_eq!(ls(&["s3://box/2024-02/"]), ["deep/", "x4.nc"]);
    assert_eq!(ls(&["-R", "s3://box/2024-02/"]), ["deep/x3.nc", "x4.nc"]);
    assert_eq!(ls(&["s3://box/pre-x"]), ["s3://box/pre-x"]);
    let none = world.haul(&["ls", "s3://box/pre"]);
    assert!(none.code == Some(23) && none.out.is_empty(), "no prefix of a name is meant: {none:?}");
    assert_eq!(ls(&["s3://box/2024-*/x*.nc"]), ["s3://box/2024-01/x1.nc", "s3://box/2024-01/x2.nc", "s3://box/2024-02/x4.nc"]);
    assert_eq!(ls(&["s3://box/20??"]), ["s3://box/2025/"]);
    assert_eq!(ls(&["s3://box/202[45]*/"]).len(), 9, "the directories and what is in them");
    assert_eq!(ls(&["s3://box/**/x3.nc"]), ["s3://box/2024-02/deep/x3.nc"]);
    assert_eq!(ls(&["-R", "s3://box/*-02"]), ["s3://box/2024-02/", "s3://box/2024-02/deep/x3.nc", "s3://box/2024-02/x4.nc"]);
    assert_eq!(world.haul(&["ls", "s3://box/*.txt/*"]).code, Some(23));
    let long = ls(&["-l", "--etag", "s3://box/2025/"]);
    let words: Vec<&str> = long[0].split_whitespace().collect();
    assert!(matches!(words[..], ["STANDARD", "10", _, _, etag, "x5.nc"] if etag.len() == 32), "{long:?}");
    // Sums of directories, as du has them.
    assert_eq!(world.ok(&["du", "-s", "s3://box/2024-02/"]), ["31\t2 files\ts3://box/2024-02/"]);
    assert_eq!(world.ok(&["du", "s3://box/2024-02"]), ["18\t1 file\ts3://box/2024-02/deep", "31\t2 files\ts3://box/2024-02"]);
    assert_eq!(world.ok(&["du", "-s", "--by-class", "--exclude", "deep", "s3://box/2024-02/"])[0], "13\t1 file\tSTANDARD");
    assert_eq!(world.ok(&["du", "-s", "s3://box/**/x?.nc"]), ["67\t5 files\ts3://box/**/x?.nc"]);
    let asked = std::fs::read_to_string(world.server.requests_file()).expect("the server's log");
    assert!(asked.contains("s3_ListObjectsV2") && !asked.contains("s3_HeadObject") && !asked.contains("s3_GetObject"), "{asked}");
}

#[test]
fn wildcards_and_directories_are_removed_by_lots() {
    let world = World::new(Minio::start());
    world.bucket("box", &TREE);
    let dry = world.haul(&["rm", "-n", "s3://box/2024-*/x*.nc"]);
    assert_eq!(dry.err.lines().filter(|line| line.starts_with("would remove s3://box/2024-0")).count(), 3, "{dry:?}");
    let refused = world.haul(&["rm", "s3://box/2024-01/"]);
    assert!(refused.code == Some(1) && refused.err.contains("-r"), "{refused:?}");
    for arguments in [&["rm", "s3://box/2024-01"][..], &["rm", "-r", "s3://box/2024-01"]] {
        let refused = world.haul(arguments);
        assert!(refused.code == Some(23) && refused.err.contains("s3://box/2024-01/ names them"), "{refused:?}");
    }
    for place in ["s3://box", "s3://box/", "s3://box/*", "s3://box/**"] {
        let refused = world.haul(&["rm", "-r", place]);
        assert!(refused.code == Some(1) && refused.err.contains("whole bucket"), "{place}: {refused:?}");
    }
    assert_eq!(world.ok(&["ls", "-R", "s3://box"]).len(), TREE.len(), "nothing has gone yet");
    let missing = world.haul(&["rm", "s3://box/202"]);
    assert!(missing.code == Some(23) && missing.err.contains("no such object"), "{missing:?}");
    world.ok(&["rm", "-f", "s3://box/202", "s3://box/nothing*"]);

    world.ok(&["rm", "s3://box/2024-*/x*.nc"]);
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2024-01/y.nc", "2024-02/deep/x3.nc", "2025/x5.nc", "a b+%.txt", "pre-x"]);
    let left = world.haul(&["rm", "-v", "s3://box/*"]);
    assert!(left.code == Some(0) && left.err.contains("3 directories match") && left.err.contains("removed s3://box/pre-x"), "{left:?}");
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2024-01/y.nc", "2024-02/deep/x3.nc", "2025/x5.nc"]);
    world.ok(&["rm", "-r", "s3://box/2024*"]);
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2025/x5.nc"]);

    let many = world.dir.path().join("many");
    std::fs::create_dir(&many).expect("made");
    (0..1100).for_each(|i| std::fs::write(many.join(format!("{i}")), "x").expect("written"));
    world.ok(&["cp", "-q", "many", "s3://box/"]);
    assert_eq!(world.ok(&["du", "-s", "s3://box/many/"]), ["1100\t1,100 files\ts3://box/many/"]);
    let gone = world.haul(&["rm", "-rv", "s3://box/many/"]);
    assert_eq!(gone.err.lines().filter(|line| line.starts_with("removed s3://box/many/")).count() / 1100, 1, "{gone:?}");
    assert_eq!(world.ok(&["ls", "-R", "s3://box/"]), ["2025/x5.nc"]);
    world.ok(&["rm", "-r", "--force", "s3://box"]);
    assert!(world.ok(&["ls", "s3://box"]).is_empty());
}

#[test]
fn what_a_pattern_matches_is_copied_and_moved_with_its_path_from_there() {
    let world = World::new(Versitygw::start());
    world.bucket("box", &TREE);
    let files = |dir: &str| {
        let found = Command::new("find").args([dir, "-type", "f"]).current_dir(world.dir.path()).output().expect("find runs");
        let mut all: Vec<String> = String::from_utf8_lossy(&found.stdout).lines().map(str::to_string).collect();
        all.sort();
        all
    };
    world.ok(&["cp", "-q", "s3://box/2024-*/x*.nc", "out"]);
    assert_eq!(files("out"), ["out/2024-01/x1.nc", "out/2024-01/x2.nc", "out/2024-02/x4.nc"]);
    assert_eq!(std::fs::read_to_string(world.dir.path().join("out/2024-02/x4.nc")).expect("copied"), "2024-02/x4.nc");
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
        let refused = world.haul(arguments);
        assert!(refused.code == Some(code) && refused.err.contains(part), "{arguments:?}: {refused:?}");
    }
    assert_eq!(world.ok(&["ls", "-R", "s3://box"]).len(), TREE.len());
    // Into a directory that the pattern matches as well: what is there stays.
    world.ok(&["mv", "-q", "s3://box/2024-0*", "s3://box/2024-02/"]);
    let now = ["2024-02/2024-01/x1.nc", "2024-02/2024-01/x2.nc", "2024-02/2024-01/y.nc", "2024-02/deep/x3.nc", "2024-02/x4.nc"];
    let listed: Vec<String> = world.ok(&["ls", "-R", "s3://box/2024-*"]).into_iter().filter(|line| !line.ends_with('/')).collect();
    assert_eq!(listed, now.map(|key| format!("s3://box/{key}")));
    assert_eq!(world.haul(&["check", "-q", "s3://box/2024-02/x*", "out/2024-02"]).code, Some(0));
    std::fs::write(world.dir.path().join("out/2024-02/x4.nc"), "other").expect("written");
    assert_eq!(world.haul(&["check", "-q", "s3://box/2024-02/x*", "out/2024-02"]).code, Some(1));
}

#[test]
fn an_object_is_described_and_handed_out_by_an_address() {
    let world = World::new(Minio::start());
    world.bucket("box", &[]);
    std::fs::write(world.dir.path().join("f.nc"), "content").expect("written");
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
    let missing = world.haul(&["head", "s3://box/none", "s3://box/d/f.nc"]);
    assert!(missing.code == Some(23) && missing.out.contains("7 bytes") && missing.err.contains("s3://box/none"), "{missing:?}");

    let address = world.ok(&["presign", "--expires", "60s", "s3://box/d/f.nc"]);
    let [address] = &address[..] else { panic!("one line: {address:?}") };
    assert_eq!(http("GET", address, b""), "content");
    let nobody = ["presign", "--endpoint-url", "http://127.0.0.1:1", "s3://box/d/f.nc"];
    assert!(world.ok(&nobody)[0].starts_with("http://127.0.0.1:1/box/d/f.nc?"), "nothing is asked of the service");
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
fn versions_are_listed_read_and_removed() {
    let world = World::new(Versitygw::start());
    world.bucket("box", &[]);
    let on =
        b"<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status></VersioningConfiguration>";
    request(world.endpoint(), "PUT", "/box?versioning=", &[], on).and_then(plain::Answer::success).expect("versions are kept");
    for text in ["one", "second"] {
        world.put("/box/d/k", text);
    }
    world.put("/box/other", "x");
    let versions = world.ok(&["ls", "--all-versions", "-l", "s3://box/d/k"]);
    assert!(versions.len() == 2 && versions[0].contains(" latest ") && versions[1].contains(" old "), "{versions:?}");
    let id = |line: &str| line.split_whitespace().rev().nth(1).expect("an id").to_string();
    let old = id(&versions[1]);
    assert_eq!(world.ok(&["cat", "--version-id", &old, "s3://box/d/k"]), ["one"]);
    assert_eq!(world.ok(&["cat", "s3://box/d/k"]), ["second"]);
    world.ok(&["cp", "-q", "--version-id", &old, "s3://box/d/k", "old"]);
    assert_eq!(std::fs::read_to_string(world.dir.path().join("old")).expect("copied"), "one");
    let told = world.ok(&["head", "--version-id", &old, "s3://box/d/k"]).join("\n");
    assert!(told.contains("3 bytes") && told.contains(&old), "{told}");
    assert_eq!(world.ok(&["du", "-s", "--all-versions", "s3://box/d/"]), ["9\t2 files\ts3://box/d/"]);

    // What is removed without a version is only marked.
    world.ok(&["rm", "s3://box/d/k"]);
    assert_eq!(world.haul(&["cat", "s3://box/d/k"]).code, Some(23));
    let versions = world.ok(&["ls", "--all-versions", "-R", "s3://box"]);
    assert!(versions.len() == 4 && versions[0].starts_with("deleted "), "{versions:?}");
    world.ok(&["rm", "--version-id", &id(&versions[0]), "s3://box/d/k"]);
    assert_eq!(world.ok(&["cat", "s3://box/d/k"]), ["second"]);
    world.ok(&["rm", "--all-versions", "s3://box/d/k"]);
    assert_eq!(world.ok(&["ls", "--all-versions", "-R", "s3://box"]).len(), 1);
    world.put("/box/d/k", "third");
    world.ok(&["rm", "s3://box/d/k"]);
    world.ok(&["rb", "--force", "s3://box"]);
    assert!(world.ok(&["ls", "s3://"]).is_empty());
}

#[test]
fn unfinished_uploads_are_listed_and_removed() {
    let world = World::new(Versitygw::start());
    world.bucket("box", &["d/done"]);
    let begin = |key: &str| {
        let answer = request(world.endpoint(), "POST", &format!("/box/{key}?uploads="), &[], b"").and_then(plain::Answer::success);
        let text = answer.expect("begun").text();
        text.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()).expect("an id").to_string()
    };
    let first = begin("d/large");
    begin("d/e/other");
    let part = format!("/box/d/large?partNumber=1&uploadId={first}");
    request(world.endpoint(), "PUT", &part, &[], b"part").and_then(plain::Answer::success).expect("a part");

    let listed = world.ok(&["ls", "--uploads", "-l", "s3://box/d/"]);
    assert!(listed.len() == 2 && listed[0].ends_with("e/other") && listed[1].contains(&first), "{listed:?}");
    assert!(listed[1].split_whitespace().collect::<Vec<_>>().windows(3).any(|w| w == ["4", "1", "parts"]), "{listed:?}");
    assert_eq!(world.ok(&["ls", "--uploads", "s3://box/d/e/"]).len(), 1);
    assert!(world.ok(&["ls", "--uploads", "s3://box/other/"]).is_empty());

    world.ok(&["rm", "--uploads", "--older-than", "1h", "s3://box"]);
    assert_eq!(world.ok(&["ls", "--uploads", "s3://box"]).len(), 2, "these are young");
    let refused = world.haul(&["rm", "--uploads", "s3://box"]);
    assert!(refused.code == Some(1) && refused.err.contains("--older-than"), "{refused:?}");
    let dry = world.haul(&["rm", "--uploads", "-n", "s3://box/d/"]);
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
    let world = World::new(Minio::start());
    std::fs::write(world.dir.path().join("a file"), "text").expect("written");
    let script = "# begins here\n\nmb s3://bucket\n  cp -q 'a file' \"s3://bucket/a key\" # quoted\nhaul cat s3://bucket/a\\ key\n\
                  rm s3://bucket/none\nnonsense\nrun other\ncp s3://bucket/none .\nls s3://bucket\n";
    std::fs::write(world.dir.path().join("script"), script).expect("written");
    let all = world.haul(&["run", "script"]);
    assert_eq!(all.code, Some(23), "the worst of them: {all:?}");
    assert_eq!(all.lines(), ["texta key"], "{all:?}");
    for part in ["line 3: mb", "line 6: failed (23)", "line 7: failed (1)", "line 8: failed (1)", "line 9: failed (23)", "4 of the lines"] {
        assert!(all.err.contains(part), "{part}: {all:?}");
    }
    let stopped = world.fed(&["run", "--exit-on-error", "-"], "ls s3://bucket\nrm s3://bucket/none\nls s3://bucket\n");
    assert!(stopped.code == Some(23) && stopped.lines() == ["a key"], "{stopped:?}");
    let stdin = world.fed(&["run", "-"], "cat -\n");
    assert!(stdin.code == Some(1) && stdin.err.contains("keep them in a file"), "{stdin:?}");

    let copies: String = (0..40).map(|i| format!("cp 'a file' s3://bucket/many/{i}\n")).collect();
    let beside = world.fed(&["run", "--jobs", "8", "-"], &copies);
    assert_eq!((beside.code, beside.err.matches(": done: cp").count()), (Some(0), 40), "{beside:?}");
    assert_eq!(world.ok(&["ls", "s3://bucket/many/"]).len(), 40);
    let removals: String = (0..40).map(|i| format!("rm s3://bucket/many/{i}\n")).collect();
    assert_eq!(world.fed(&["run", "--jobs", "8", "-q", "-"], &removals).code, Some(0));
    assert_eq!(world.ok(&["ls", "-R", "s3://bucket"]), ["a key"]);
    assert_eq!(world.haul(&["run", "not-there"]).code, Some(23));
}

/// A signal ends the line that is at work, and begins no other.
#[test]
fn a_signal_ends_all_lines() {
    let world = World::new(Minio::start());
    world.bucket("bucket", &[]);
    let fifo = world.dir.path().join("fifo");
    make_fifo(&fifo);
    // cat waits for a writer that never comes.
    let script = world.dir.path().join("script");
    std::fs::write(&script, format!("ls s3://bucket\ncat {}\nmb s3://later\n", fifo.display())).expect("written");
    let mut child = world.command(&["run", "script"]).stderr(Stdio::piped()).spawn().expect("starts");
    let mut said = String::new();
    let mut lines = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
    while !said.contains("line 2:") {
        assert_ne!(std::io::BufRead::read_line(&mut lines, &mut said).expect("read"), 0, "{said}");
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(20), "{said}");
    assert_eq!(world.ok(&["ls", "s3://"]).len(), 1, "no other line was begun");
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}
