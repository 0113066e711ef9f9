//! Web servers as sources: nginx and `rclone serve http` on loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_test::content::bytes;
use haul_test::objects::ObjectServer;
use haul_test::objects::certificate::Certificate;
use haul_test::objects::scripted::{Action, Answer, Scripted, When};
use haul_test::port::free_port;
use haul_test::program::until;
use haul_test::scratch::Scratch;
use haul_test::web::WebServer;
use haul_test::world::Served;

/// `@` is the directory `www` at the server.
type World = Served<WebServer>;

fn world(lines: &str) -> World {
    of(|root| WebServer::nginx(root, lines))
}

fn of(server: impl Fn(&Path) -> std::io::Result<WebServer>) -> World {
    let scratch = Scratch::new();
    scratch.write("www/big", bytes(1, 9 << 20));
    for (path, content) in [("a.txt", "hello\n"), ("b c&d é.txt", "x"), ("empty", ""), ("sub/deep", "deep")] {
        scratch.write(format!("www/d/{path}"), content);
    }
    let server = server(&scratch.path("www")).expect("a web server: nginx-light and rclone are installed");
    let url = server.url("");
    World::new(scratch, server, url.trim_end_matches('/').into())
}

#[track_caller]
fn ends_in(w: &World, code: i32, words: &str, environment: &[(&str, &str)]) -> String {
    environment.iter().fold(w.haul(words), |haul, (name, value)| haul.env(name, value)).ends(code).text()
}

/// Makes `www/new`, of another second than `www/big`.
fn write_newer(w: &World, content: &[u8]) {
    w.write("www/new", content);
    w.set_time("www/new", SystemTime::now() + Duration::from_secs(7));
}

/// Lines for nginx: its answers do not tell one version of a file from another.
const UNDATED: &str = "etag off; add_header Last-Modified \"\";";

const TREE: [&str; 5] = ["a.txt", "b c&d é.txt", "empty", "sub/", "sub/deep"];

#[test]
fn a_file_comes_in_parts_with_its_time() {
    let w = world("");
    w.ends(0, "cp --chunk-size 1M @/big copy");
    assert!(w.read("copy") == w.read("www/big"));
    assert_eq!(w.meta("copy").mtime(), w.meta("www/big").mtime());
    let requests = w.server.requests();
    assert!(requests.iter().filter(|line| line.starts_with("GET /big ") && line.contains("\" 206 ")).count() >= 2, "{requests:#?}");
    // It is unchanged, and is not asked for again.
    let text = w.ends(0, "cp @/big copy");
    assert!(text.contains("Unchanged:   1 file"), "{text}");
}

#[test]
fn directories_come_by_their_index_pages() {
    let nginx = world("gzip on; gzip_types *; gzip_min_length 0;");
    for server in [nginx, of(WebServer::rclone), of(WebServer::apache), of(WebServer::python)] {
        server.ends(0, "cp @/d/ one");
        assert_eq!(server.list("one"), TREE);
        assert_eq!((server.read("one/a.txt"), server.read("one/b c&d é.txt")), (b"hello\n".to_vec(), b"x".to_vec()));
        let text = server.ends(0, "sync --delete @/d/ one");
        assert!(!text.contains("Deleted"), "{text}");
        let text = server.ends(0, "ls @/d/");
        assert_eq!(text, "a.txt\nb c&d é.txt\nempty\nsub/\n");
        server.ends(0, "check -c @/d/ one");
    }
    // nginx sends on to the address with a slash.
    let w = world("");
    w.ends(0, "cp @/d two/ --mkpath");
    assert_eq!(w.list("two/d"), TREE);
}

#[test]
fn a_server_without_parts_is_read_from_end_to_end() {
    let w = world("max_ranges 0;");
    w.ends(0, "cp --chunk-size 1M @/big copy");
    assert!(w.read("copy") == w.read("www/big"));
    w.ends(0, "cp --chunk-size 1M -j 4 @/ all");
    assert!(w.read("all/big") == w.read("www/big"));
}

#[test]
fn a_killed_copy_goes_on_where_it_stopped() {
    let w = world("");
    assert!(w.haul("cp -j 1 --chunk-size 1M @/big copy").killed_at(14).run().was_killed());
    let before = w.server.requests().len();
    w.ends(0, "cp -j 1 --chunk-size 1M @/big copy");
    assert!(w.read("copy") == w.read("www/big"));
    let sent = |line: &String| line.rsplit(' ').next().and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0);
    let again: u64 = w.server.requests()[before..].iter().filter(|line| line.starts_with("GET")).map(sent).sum();
    assert!(again < 8 << 20, "{again} bytes of {}", 9 << 20);
}

#[test]
fn a_file_that_became_another_is_not_mixed() {
    for lines in ["", UNDATED] {
        let w = world(lines);
        assert!(w.haul("cp -j 1 --chunk-size 1M @/big copy").killed_at(9).run().was_killed());
        let new = bytes(2, 9 << 20);
        write_newer(&w, &new);
        w.rename("www/new", "www/big");
        let text = w.ends(0, "cp -j 1 --chunk-size 1M @/big copy");
        assert!(w.read("copy") == new, "{text}");
        assert_eq!(w.staging("").len(), 0);
    }
}

#[test]
fn a_file_that_changes_while_it_is_copied_fails_or_is_whole() {
    let w = world("limit_rate 2m;");
    let (old, new) = (w.read("www/big"), bytes(3, 9 << 20));
    write_newer(&w, &new);
    let (from, to) = (w.path("www/new"), w.path("www/big"));
    let log = w.server.place().join("access");
    let changer = std::thread::spawn(move || {
        // After the first part was sent, before the last is asked for.
        until("a part", || fs::read_to_string(&log).unwrap_or_default().contains(" 206 "));
        fs::rename(from, to).expect("renamed");
    });
    let ran = w.haul("cp -j 1 --chunk-size 1M @/big copy").run().code_of(&[0, 23]);
    changer.join().expect("no panic");
    match ran.status.success() {
        true => assert!(w.read("copy") == new),
        false => assert!(!w.has("copy"), "nothing takes the name"),
    }
    assert!(old != new);
}

#[test]
fn redirects_are_followed_but_not_out_of_encryption() {
    let w = world(
        "location = /moved { return 302 /d/a.txt; }\nlocation = /round { return 302 /round; }\nlocation = /away { return 301 ftp://h/x; }",
    );
    w.ends(0, "cp @/moved got");
    assert_eq!(w.read("got"), b"hello\n");
    assert!(w.ends(23, "cp @/round no").contains("more than 10 redirects"));
    assert!(w.ends(23, "cp @/away no").contains("redirects to no address"));
}

#[test]
fn certificates_are_verified() {
    let place = tempfile::tempdir().expect("a directory");
    let made = Certificate::make(place.path()).expect("openssl makes a certificate");
    let port = free_port().expect("a port");
    let lines = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {}; ssl_certificate_key {}; location = /down {{ return 302 http://127.0.0.1/x; }}",
        made.certificate.display(),
        made.key.display()
    );
    let w = world(&lines);
    let (url, authority) = (format!("https://127.0.0.1:{port}"), made.authority.display());
    let text = w.ends(10, &format!("cp {url}/d/a.txt got"));
    assert!(text.contains("certificate"), "{text}");
    w.ends(0, &format!("cp --ca-bundle {authority} {url}/d/a.txt got"));
    assert_eq!(w.read("got"), b"hello\n");
    let text = w.ends(0, &format!("cp --no-verify-ssl {url}/d/ tree"));
    assert!(text.contains("WARNING: --no-verify-ssl"), "{text}");
    assert_eq!(w.list("tree"), TREE);
    let text = w.ends(23, &format!("cp --ca-bundle {authority} {url}/down no"));
    assert!(text.contains("without encryption"), "{text}");
}

#[test]
fn netrc_has_the_password_and_no_output_does() {
    let w = world("location /secret/ { alias /dev/null; }");
    fs::write(w.server.place().join("users"), "ana:{PLAIN}hunter2\n").expect("written");
    let lines = format!("auth_basic test; auth_basic_user_file {};", w.server.place().join("users").display());
    let guarded = world(&lines);
    let text = guarded.ends(23, "cp @/d/a.txt got");
    assert!(text.contains("status 401") && text.contains("~/.netrc"), "{text}");
    guarded.write(guarded.home.join(".netrc"), "machine 127.0.0.1 login ana password hunter2\n");
    let text = guarded.ends(0, "cp -vv @/d/a.txt got");
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(guarded.read("got"), b"hello\n");
    assert!(!guarded.all_text(&guarded.state).contains("hunter2"));
}

#[test]
fn checksums_are_verified_while_the_file_arrives() {
    let w = world("");
    let sum = |path: &str| w.sh(&format!("sha256sum {path}"))[..64].to_string();
    let (good, bad) = (sum("www/big"), sum("www/d/a.txt"));
    w.ends(0, &format!("cp --chunk-size 1M --sha256 {good} @/big good"));
    let text = w.ends(23, &format!("cp --chunk-size 1M --sha256 {bad} @/big bad"));
    assert!(text.contains("SHA-256") && !w.has("bad"), "{text}");
    assert!(w.ends(1, "cp --sha256 12 @/big bad").contains("64 hexadecimal digits"));
    let list = format!("{good}  big\n{bad}  a.txt\n{bad} *./sub/deep\n");
    w.write("www/SHA256SUMS", list);
    w.ends(0, "cp --sha256sums @/SHA256SUMS @/big listed");
    let text = w.ends(23, "cp --sha256sums @/SHA256SUMS @/d/ tree");
    assert_eq!(w.list("tree"), ["a.txt", "sub/"], "{text}");
    assert!(text.contains("empty: verify: the list of --sha256sums does not have this file"), "{text}");
    assert!(text.contains("sub/deep: read: ") || text.contains("sub/deep: verify: the SHA-256"), "{text}");
}

#[test]
fn lists_of_addresses_are_copied() {
    let w = world("");
    let list = format!("# mine\n{}\n{}\n\n", w.server.url("d/a.txt"), w.server.url("d/sub/deep?token=1"));
    w.write("list", list);
    w.tree("into/");
    w.ends(0, "cp --files-from list into");
    assert_eq!(w.list("into"), ["a.txt", "deep"]);
    w.write("names", "a.txt\nsub/deep\n");
    w.ends(0, "cp --files-from names @/d/ below");
    assert_eq!(w.list("below"), ["a.txt", "sub/", "sub/deep"]);
    w.write("list", "/etc/passwd\n");
    assert!(w.ends(1, "cp --files-from list into").contains("must have addresses"));
}

#[test]
fn it_is_for_reading_only() {
    let w = world("add_header Content-Disposition 'attachment; filename=\"../../out\"';");
    for words in ["cp www/big @/new", "cp www/big @/", "rm @/big", "mkdir @/x", "sync www/ @/d/", "mv @/d/a.txt here"] {
        assert!(!w.haul(words).run().err_has("read-only").status.success(), "{words}");
    }
    // That is known before anything is asked.
    Scratch::haul(&w, "cp www/big http://127.0.0.1:9/new").run().err_has("read-only").code(1);
    assert_eq!(w.read("www/d/a.txt"), b"hello\n");
    // A name that the server wants is no path.
    w.ends(0, "cp @/d/a.txt .");
    assert_eq!(w.read("a.txt"), b"hello\n");
    let text = w.ends(23, "cp @/none x");
    assert!(text.contains("no such file or directory"), "{text}");
}

/// Answers every request with these bytes and hangs up.
fn hostile(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(answer);
        }
    });
    port
}

#[test]
fn wrong_lengths_are_errors() {
    let w = world("");
    for (answer, part) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nAccept-Ranges: none\r\n\r\nshort"[..], "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nAccept-Ranges: bytes\r\nContent-Range: bytes 5-9/10\r\n\r\n0123456789", ""),
        (b"garbage\r\n\r\n", "HTTP"),
        // Another try would get the same: it is not made.
        (format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100_000)).leak().as_bytes(), "a header of more than"),
    ] {
        let port = hostile(answer);
        let ran = w.haul(&format!("cp --retries 1 http://127.0.0.1:{port}/file got")).run();
        if part.is_empty() {
            assert_eq!((ran.status.code(), w.read("got")), (Some(0), b"0123456789".to_vec()), "{ran}");
            w.remove("got");
        } else {
            assert!(!ran.says(part).status.success() && !w.has("got"), "{part}");
        }
    }
}

/// A mirror loses nothing for a page that is no index, or was cut.
#[test]
fn only_a_whole_index_page_deletes() {
    let w = world("");
    w.write("mirror/keep", "x");
    let login = "<html><title>Log in</title><form><input type=password></form><a href=\"forgot\">Forgot?</a></html>";
    for (kind, page) in [("text/html", login), ("text/html", ""), ("text/html", "{}"), ("application/json", "[]")] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
        let text = w.ends(23, &format!("sync --delete --force http://127.0.0.1:{}/d/ mirror", hostile(answer.leak().as_bytes())));
        assert!(text.contains("no index") || text.contains("no list"), "{text}");
        assert_eq!(w.list("mirror"), ["keep"], "{page}");
    }
    const INDEX: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><title>Index of /d/</title><a href=\"sub/\">s</a>";
    let text = w.ends(23, &format!("sync --delete --force http://127.0.0.1:{}/d/ mirror", hostile(INDEX.as_bytes())));
    assert!(text.contains("closing tag") && w.list("mirror") == ["keep"], "{text}");
    let whole = format!("{INDEX}</html>").leak().as_bytes();
    assert_eq!(w.ends(0, &format!("ls http://127.0.0.1:{}/d/", hostile(whole))), "sub/\n");
}

#[test]
fn answers_that_contradict_each_other_are_errors() {
    let w = world("");
    let scripted = Scripted::alone().expect("a port");
    let etag = |answer: Answer| answer.with("ETag", "\"v\"").with("Accept-Ranges", "bytes");
    let size = |bytes: u64| etag(Answer::new(200, "")).with("Content-Length", &bytes.to_string());
    let part = |range: &str, body: &str| etag(Answer::new(206, body)).with("Content-Range", range);
    // A body without a length that is longer than HEAD said.
    let longer = etag(Answer::new(200, "3\r\n012\r\n3\r\n345\r\n0\r\n\r\n")).with("Transfer-Encoding", "chunked");
    for (head, get) in [
        (size(4), longer),
        (size(9 << 20), part("bytes 0-1048575/9437184", "0123456789")),
        (size(9 << 20), part("bytes 0-9/9437184", "0123456789")),
    ] {
        scripted.clear();
        scripted.rule(When::method("HEAD"), .., Action::Answer(head));
        scripted.rule(When::method("GET"), .., Action::Answer(get));
        for flags in ["", "--verify"] {
            let ran = w.haul(&format!("cp {flags} --retries 1 -j 1 --chunk-size 1M http://{}/f got", scripted.address())).run();
            assert!(ran.code_of(&[23]).err.contains("f: read") && !w.has("got"));
        }
    }
}

/// Ranges of two versions could not be told apart.
#[test]
fn a_server_that_does_not_tell_versions_is_read_by_one_request() {
    let w = world(UNDATED);
    for words in ["cp -j 8 --chunk-size 1M @/big copy", "cp -j 8 --chunk-size 1M @/ all"] {
        let before = w.server.requests().len();
        w.ends(0, words);
        let requests = w.server.requests()[before..].iter().filter(|line| line.starts_with("GET /big ")).count();
        assert_eq!(requests, 1, "{words}");
    }
    assert!(w.read("copy") == w.read("www/big") && w.read("all/big") == w.read("www/big"));
    // Without a whole answer it is not put together of two.
    let scripted = Scripted::before(&w.server.endpoint()).expect("a port");
    scripted.rule(When::method("GET").path("/big"), 1..=1, Action::Cut(3 << 20));
    w.ends(0, &format!("cp -j 8 --chunk-size 1M http://{}/big again", scripted.address()));
    assert!(w.read("again") == w.read("www/big"));
    assert!(scripted.requests().iter().all(|request| request.header("range").is_none_or(|range| range == "bytes=0-0")));
}

/// What is below `/stream/` comes in chunks, without a length.
fn streaming() -> World {
    of(|root| {
        let stream = format!("location /stream/ {{ alias {}/; ssi on; ssi_types *; }}", root.display());
        WebServer::nginx(root, &stream)
    })
}

#[test]
fn a_file_of_unknown_length_is_copied_as_a_stream() {
    let w = streaming();
    w.ends(0, "cp @/stream/big copy");
    w.tree("into/");
    w.ends(0, "cp --verify @/stream/big into");
    assert!(w.read("copy") == w.read("www/big") && w.read("into/big") == w.read("www/big"));
    w.ends(0, "cp @/stream/d/empty none");
    assert_eq!(w.read("none"), b"");
    let text = w.ends(23, &format!("cp --sha256 {} @/stream/big wrong", "0".repeat(64)));
    assert!(text.contains("SHA-256") && !w.has("wrong"), "{text}");
    // Whoever needs its size beforehand says so.
    for words in ["cat @/stream/big", "sum @/stream/big", "ls -l @/stream/big", "check @/stream/big copy"] {
        assert!(!w.haul(words).run().err_has("does not report the file's length").status.success(), "{words}");
    }
    // Among others it is refused: their copies can be resumed, and its own cannot.
    let text = w.ends(23, "cp @/stream/d/ tree");
    assert!(text.contains("does not report the file's length") && text.contains("copy it alone"), "{text}");
}

#[test]
fn a_server_suggests_names_and_no_paths() {
    let suggest = "{ try_files /d/a.txt =404; add_header Content-Disposition $arg_as; }";
    let w = world(&format!("location = /download {suggest} location = / {suggest}"));
    w.tree("into/");
    for (words, name) in [
        ("@/download?as=attachment;filename=run.nc", "run.nc"),
        // Without a query the URL is the file's own name.
        ("@/download", "download"),
        ("@/download?as=attachment", "download"),
        ("@/download?as=attachment;filename=../../out", "download"),
        ("@/download?as=attachment;filename=.profile", "download"),
        ("@/?as=attachment;filename=run.nc", "run.nc"),
        ("@/?as=inline", "index.html"),
    ] {
        w.ends(0, &format!("cp {words} into"));
        assert_eq!(w.list("into"), [name], "{words}");
        w.remove(format!("into/{name}"));
    }
    w.ends(0, "cp @/download?as=attachment;filename=run.nc mine");
    assert_eq!(w.read("mine"), b"hello\n");
}

#[test]
fn proxies_are_used_as_curl_uses_them() {
    let place = tempfile::tempdir().expect("a directory");
    let made = Certificate::make(place.path()).expect("openssl makes a certificate");
    let port = free_port().expect("a port");
    let lines =
        format!("listen 127.0.0.1:{port} ssl; ssl_certificate {}; ssl_certificate_key {};", made.certificate.display(), made.key.display());
    let w = world(&lines);
    let proxy = WebServer::apache_proxy("1024-65535").expect("apache2 is installed");
    let url = proxy.url("");
    let secure = format!("--ca-bundle {} https://127.0.0.1:{port}", made.authority.display());
    ends_in(&w, 0, "cp @/big plain", &[("http_proxy", &url)]);
    ends_in(&w, 0, &format!("cp {secure}/big secure"), &[("https_proxy", &url)]);
    assert!(w.read("plain") == w.read("www/big") && w.read("secure") == w.read("www/big"));
    ends_in(&w, 0, &format!("cp {secure}/d/ tree"), &[("ALL_PROXY", &url)]);
    assert_eq!(w.list("tree"), TREE);
    let targets = [format!("CONNECT 127.0.0.1:{} ", w.server.port), format!("CONNECT 127.0.0.1:{port} ")];
    // A connection is logged when it ends.
    until("both connections in the log", || targets.iter().all(|target| proxy.requests().iter().any(|line| line.starts_with(target))));
    // Nobody listens there, but these hosts are reached directly.
    let nobody = format!("http://127.0.0.1:{}", free_port().expect("a port"));
    ends_in(&w, 0, "cp @/d/a.txt direct", &[("http_proxy", &nobody), ("no_proxy", "127.0.0.0/8")]);
    let lost = w.haul("cp --retries 1 @/d/a.txt none").env("http_proxy", &nobody).run();
    assert_eq!(lost.err_has("the proxy").err_has("nobody listens").err_has("NO_PROXY").status.code(), Some(10));
    let strict = WebServer::apache_proxy("443").expect("apache2 is installed");
    let text = ends_in(&w, 23, "cp @/d/a.txt none", &[("http_proxy", &strict.url(""))]);
    assert!(text.contains("the proxy 127.0.0.1:") && text.contains(" refused: "), "{text}");
}

#[test]
fn a_file_goes_through_to_a_bucket() {
    let w = streaming();
    let minio = ObjectServer::minio().expect("MinIO is installed");
    let endpoint = minio.endpoint();
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint.url.as_str()),
        ("AWS_ACCESS_KEY_ID", endpoint.access.as_str()),
        ("AWS_SECRET_ACCESS_KEY", endpoint.secret.as_str()),
        ("AWS_REGION", "us-east-1"),
    ];
    ends_in(&w, 0, "mb s3://through", &environment);
    ends_in(&w, 0, "cp @/big s3://through/big", &environment);
    ends_in(&w, 0, "cp --chunk-size 5M @/stream/big s3://through/stream", &environment);
    for key in ["big", "stream"] {
        let text = ends_in(&w, 0, &format!("check -c @/big s3://through/{key}"), &environment);
        assert!(text.contains("Identical:"), "{text}");
    }
}

/// A host that cannot be reached ends a command that lists it, by its address and with one number.
#[test]
fn where_nobody_listens_there_is_one_failure_that_names_the_address() {
    let w = Scratch::new();
    let nobody = format!("http://127.0.0.1:{}/d/", free_port().expect("a port"));
    for command in ["ls", "ls -R", "du", "tree", "sum"] {
        let lost = w.haul(command).arg(&nobody).ends(10);
        assert_eq!(lost.err.matches("nobody listens").count(), 1, "{lost}");
        lost.err_has(&nobody);
    }
}
