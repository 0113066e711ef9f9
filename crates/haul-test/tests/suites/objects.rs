//! The servers of object stores that tests run: the real ones start, answer and leave nothing, and the scripted one does as told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use haul_test::objects::scripted::{Action, Answer, Scripted, When};
use haul_test::objects::{Endpoint, Minio, Server, Versitygw, plain};

/// A bucket and an object of it, and that nothing is left of the server behind.
fn works_and_goes(server: impl Server) {
    let endpoint = server.endpoint().clone();
    server.make_bucket("bucket").unwrap();
    plain::put(&endpoint, "/bucket/a/b%20c", b"content").unwrap();
    let got = plain::request(&endpoint, "GET", "/bucket/a/b%20c", &[("Range", "bytes=1-2")], b"").unwrap();
    assert_eq!((got.status, &*got.body, got.header("content-range")), (206, &b"on"[..], Some("bytes 1-2/7")));
    let listed = plain::request(&endpoint, "GET", "/bucket?list-type=2&prefix=a%2F", &[], b"").unwrap().success().unwrap().text();
    assert!(listed.contains("<Key>a/b c</Key>"), "{listed}");
    let versions = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    plain::request(&endpoint, "PUT", "/bucket?versioning=", &[], versions).unwrap().success().unwrap();
    for _ in 0..2 {
        let put = plain::put(&endpoint, "/bucket/kept", b"").unwrap();
        assert!(put.header("x-amz-version-id").is_some(), "{put:?}");
    }
    assert_eq!(plain::get(&endpoint, "/bucket/a").unwrap().status, 403);
    assert!(server.data().join("bucket").is_dir());
    let data = server.data();
    assert!(processes_naming(&data) > 0);
    drop(server);
    assert!(TcpStream::connect(endpoint.address()).is_err());
    assert!(!data.exists());
    assert_eq!(processes_naming(&data), 0);
}

/// How many processes have this path among their arguments.
fn processes_naming(path: &Path) -> usize {
    let path = path.to_str().unwrap();
    let names = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(path));
    std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| entry.file_name().to_str().is_some_and(names)).count()
}

#[test]
fn minio_works_and_goes() {
    works_and_goes(Minio::start().unwrap());
}

#[test]
#[ignore = "full"]
fn versitygw_works_and_goes() {
    works_and_goes(Versitygw::start().unwrap());
}

#[test]
#[ignore = "full"]
fn a_server_goes_with_a_test_that_panics() {
    let versitygw = Versitygw::start().unwrap();
    let (endpoint, data) = (versitygw.endpoint().clone(), versitygw.data());
    let panicked = std::thread::spawn(move || {
        let _goes_with_it = versitygw;
        std::panic::resume_unwind(Box::new("as meant"));
    });
    assert!(panicked.join().is_err());
    assert!(TcpStream::connect(endpoint.address()).is_err());
    assert_eq!((processes_naming(&data), data.exists()), (0, false));
}

#[test]
fn minio_speaks_tls_with_a_certificate_that_is_known_where_it_is_given() {
    let minio = Minio::start_tls().unwrap();
    minio.make_bucket("bucket").unwrap();
    let address = minio.endpoint().host();
    let verified = |more: &[&std::ffi::OsStr]| {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-connect", address, "-verify_return_error", "-verify_ip", "127.0.0.1"]).args(more);
        client.stdin(std::process::Stdio::null()).output().unwrap().status.success()
    };
    plain::put(minio.endpoint(), "/bucket/k", b"sealed").unwrap();
    assert_eq!(plain::request(minio.endpoint(), "GET", "/bucket/k", &[], b"").unwrap().body, b"sealed");
    let authority = &minio.certificate().unwrap().authority;
    assert!(minio.endpoint().url.starts_with("https://"));
    assert!(verified(&["-CAfile".as_ref(), authority.as_os_str()]));
    assert!(!verified(&[]));
}

/// Something behind the scripted server without a program: it says what it was asked.
fn echo() -> (Scripted, Endpoint) {
    let echo = Scripted::alone().unwrap();
    let answer = Action::make(|seen, body| {
        let body = format!("{} {}?{} {}", seen.method, seen.path, seen.query, String::from_utf8_lossy(body));
        Answer::new(200, &body).with("X-Host", seen.header("host").unwrap_or_default()).with("ETag", "\"tag\"")
    });
    echo.rule(When::any(), .., answer);
    let keys = Endpoint { url: String::new(), access: "a".into(), secret: "s".into(), region: "r".into() };
    let endpoint = echo.endpoint(&keys);
    (echo, endpoint)
}

/// One connection that says what it is told to.
struct Raw(BufReader<TcpStream>);

impl Raw {
    fn to(server: &Scripted) -> Raw {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw(BufReader::new(stream))
    }

    fn say(&mut self, what: &str) {
        self.0.get_mut().write_all(what.as_bytes()).unwrap();
    }

    /// The head of an answer, with its headers' names in lower case.
    fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        Some(head.to_lowercase())
    }

    fn body(&mut self, length: usize) -> String {
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// What comes until the other side closes.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // It may be cut.
        let _ = self.0.read_to_end(&mut rest);
        rest
    }
}

const GET: &str = "GET /k?q=1 HTTP/1.1\r\nHost: named\r\n\r\n";
const SAID: &str = "GET /k?q=1 ";

#[test]
fn what_no_rule_is_for_passes_as_it_is() {
    let (behind, endpoint) = echo();
    let scripted = Scripted::before(&endpoint).unwrap();
    let mut raw = Raw::to(&scripted);
    for _ in 0..2 {
        raw.say(GET);
        let head = raw.head().unwrap();
        assert!(head.contains("x-host: named\r\n") && head.contains("etag: \"tag\"\r\n"), "{head}");
        assert_eq!(raw.body(SAID.len()), SAID);
    }
    raw.say("PUT /k HTTP/1.1\r\nHost: named\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
    raw.head().unwrap();
    assert_eq!(raw.body(12), "PUT /k? abcd");
    raw.say("HEAD /k HTTP/1.1\r\nHost: named\r\nConnection: close\r\n\r\n");
    assert!(raw.head().unwrap().contains("content-length: 9\r\n"));
    assert_eq!(raw.rest(), b"");
    let seen: Vec<_> =
        scripted.requests().into_iter().map(|seen| (seen.method, seen.path, seen.query, seen.body, seen.status, seen.answered)).collect();
    let line =
        |method: &str, query: &str, body, answered| (method.to_owned(), "/k".to_owned(), query.to_owned(), body, Some(200), answered);
    assert_eq!(seen, [line("GET", "q=1", 0, 11), line("GET", "q=1", 0, 11), line("PUT", "", 4, 12), line("HEAD", "", 0, 0)]);
    assert_eq!((scripted.connections(), behind.connections(), scripted.most_at_once("GET")), (1, 1, 1));
    assert_eq!(scripted.count(&When::method("GET").query("q=1").header("HOST", "named")), 2);
    assert_eq!(scripted.count(&When::any().path("/other")), 0);
}

#[test]
fn rules_are_followed_in_their_turns() {
    let (_behind, endpoint) = echo();
    let scripted = Scripted::before(&endpoint).unwrap();
    scripted.rule(When::method("PUT"), .., Action::Answer(Answer::error(403, "AccessDenied")));
    scripted.rule(When::method("GET").path("k"), 2..=2, Action::Answer(Answer::slow_down(Duration::from_secs(7))));
    scripted.rule(When::method("GET").query("q="), 2.., Action::Answer(Answer::error(500, "InternalError")));
    let mut raw = Raw::to(&scripted);
    let mut status = |request: &str| {
        raw.say(request);
        let head = raw.head().unwrap();
        let length = head.split("content-length: ").nth(1).unwrap().split('\r').next().unwrap().parse().unwrap();
        let body = raw.body(length);
        (head[9..12].to_owned(), head.contains("retry-after: 7\r\n"), body.contains("<Code>"))
    };
    assert_eq!(status(GET), ("200".into(), false, false));
    assert_eq!(status(GET), ("503".into(), true, true));
    assert_eq!(status(GET), ("500".into(), false, true));
    assert_eq!(status("PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"), ("403".into(), false, true));
    assert_eq!(status("GET /other HTTP/1.1\r\nHost: h\r\n\r\n"), ("200".into(), false, false));
    scripted.clear();
    assert_eq!(status(GET), ("200".into(), false, false));
    assert_eq!(scripted.requests().len(), 1);
}

#[test]
fn answers_are_spoiled_as_told() {
    let (behind, endpoint) = echo();
    let scripted = Scripted::before(&endpoint).unwrap();
    let once = |action: Action| {
        scripted.clear();
        behind.clear_seen();
        scripted.rule(When::any(), .., action);
        let mut raw = Raw::to(&scripted);
        raw.say("PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab");
        let head = raw.head();
        let rest = String::from_utf8(raw.rest()).unwrap();
        (head.is_some_and(|head| head.contains("content-length: 10\r\n")), rest, behind.requests().len())
    };
    assert_eq!(once(Action::Pass), (true, "PUT /k? ab".into(), 1));
    assert_eq!(once(Action::Cut(4)), (true, "PUT ".into(), 1));
    assert_eq!(once(Action::Cut(40)), (true, "PUT /k? ab".into(), 1));
    assert_eq!(once(Action::Flip(0)), (true, "QUT /k? ab".into(), 1));
    assert_eq!(once(Action::FlipSent(1)), (true, "PUT /k? ac".into(), 1));
    assert_eq!(once(Action::edit(|answer| answer.body[4] = b'!')), (true, "PUT !k? ab".into(), 1));
    assert_eq!(once(Action::Late(Duration::from_millis(1))), (true, "PUT /k? ab".into(), 1));
    assert_eq!(once(Action::Lose), (false, String::new(), 1));
    assert_eq!(once(Action::Close), (false, String::new(), 0));
    assert_eq!(once(Action::CutSent(1)), (false, String::new(), 0));
    assert_eq!(scripted.requests()[0].body, 1);
}

#[test]
fn what_hangs_ends_with_the_server() {
    let (_behind, endpoint) = echo();
    let scripted = Scripted::before(&endpoint).unwrap();
    scripted.rule(When::method("GET"), .., Action::Hang);
    scripted.rule(When::any(), .., Action::Late(Duration::from_secs(1000)));
    let mut hangs = [Raw::to(&scripted), Raw::to(&scripted)];
    hangs[0].say(GET);
    hangs[1].say("PUT /k HTTP/1.1\r\nHost: h\r\n\r\n");
    let until = Instant::now() + Duration::from_secs(60);
    while scripted.requests().len() < 2 {
        assert!(Instant::now() < until, "they do not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(scripted.requests().iter().all(|seen| seen.status.is_none()));
    drop(scripted);
    assert!(hangs.iter_mut().all(|raw| raw.rest().is_empty()));
}

/// It can only be later than told, so this asks for no more than that.
#[test]
fn a_request_takes_a_round_trip_more_and_a_connection_too() {
    let (_behind, endpoint) = echo();
    let scripted = Scripted::before(&endpoint).unwrap();
    let round_trip = Duration::from_millis(20);
    scripted.set_round_trip(round_trip);
    let began = Instant::now();
    let mut raw = Raw::to(&scripted);
    for _ in 0..3 {
        raw.say(GET);
        raw.head().unwrap();
        raw.body(SAID.len());
    }
    assert!(began.elapsed() >= round_trip * 4);
}

#[test]
fn a_client_that_waits_for_leave_gets_it_or_an_answer() {
    let (_behind, endpoint) = echo();
    let scripted = Scripted::before(&endpoint).unwrap();
    scripted.rule(When::any().path("/refused"), .., Action::Answer(Answer::error(403, "AccessDenied")));
    let mut raw = Raw::to(&scripted);
    raw.say("PUT /refused HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert!(raw.head().unwrap().starts_with("http/1.1 403"));
    assert!(String::from_utf8(raw.rest()).unwrap().contains("AccessDenied"));
}

/// A real server takes what passes: the signature covers the Host that the client named.
#[test]
fn signed_requests_pass_to_a_real_server() {
    let minio = Minio::start().unwrap();
    minio.make_bucket("bucket").unwrap();
    let scripted = Scripted::before(minio.endpoint()).unwrap();
    let through = scripted.endpoint(minio.endpoint());
    scripted.rule(When::method("PUT"), 2..=2, Action::FlipSent(3));
    plain::put(&through, "/bucket/k", b"content").unwrap();
    let refused = plain::request(&through, "PUT", "/bucket/k", &[("Expect", "100-continue")], b"changed").unwrap();
    assert!(refused.status == 400 && refused.text().contains("SHA256"), "{refused:?}");
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    plain::put(&through, "/bucket/large", &large).unwrap();
    assert!(plain::request(&through, "GET", "/bucket/large", &[], b"").unwrap().body == large);
    let sizes: Vec<_> = scripted.requests().into_iter().skip(2).map(|seen| (seen.body, seen.answered)).collect();
    assert_eq!(sizes, [(3_000_000, 0), (0, 3_000_000)]);
    scripted.rule(When::method("GET").path("/k"), .., Action::Flip(0));
    let get = || plain::request(&through, "GET", "/bucket/k", &[], b"").unwrap();
    assert_eq!(get().body, b"bontent");
    scripted.clear();
    assert_eq!(get().body, b"content");
}
