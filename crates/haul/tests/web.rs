//! Web servers as sources: nginx and `rclone serve http` on loopback.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

use haul_test::content;
use haul_test::objects::certificate::Certificate;
use haul_test::objects::{Minio, Server as _};
use haul_test::port::free_port;
use haul_test::web::WebServer;

/// A directory that is served as `www/`, and where copies go.
struct World {
    place: tempfile::TempDir,
    server: WebServer,
}

impl World {
    fn new(lines: &str) -> World {
        World::of(|root| WebServer::nginx(root, lines))
    }

    fn of(server: impl Fn(&std::path::Path) -> std::io::Result<WebServer>) -> World {
        let place = tempfile::Builder::new().prefix("haul-web-").tempdir().expect("a temporary directory");
        let root = place.path().join("www");
        fs::create_dir_all(root.join("d/sub")).expect("made");
        fs::write(root.join("big"), bytes(1, 9 << 20)).expect("written");
        fs::write(root.join("d/a.txt"), "hello\n").expect("written");
        fs::write(root.join("d/b c&d é.txt"), "x").expect("written");
        fs::write(root.join("d/empty"), "").expect("written");
        fs::write(root.join("d/sub/deep"), "deep").expect("written");
        let server = server(&root).expect("a web server: nginx-light and rclone are installed");
        World { place, server }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.place.path().join(path)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// `@` stands for the server.
    fn haul(&self, words: &str, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
        command.env_clear().current_dir(self.place.path()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", self.place.path());
        command.env("HAUL_STATE_DIR", self.path("state")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.envs(environment.iter().copied()).args(words.split_whitespace().map(|word| word.replace("@/", &self.server.url(""))));
        command.output().expect("the program runs")
    }

    /// Standard output and standard error.
    #[track_caller]
    fn ends(&self, code: i32, words: &str) -> String {
        self.ends_in(code, words, &[])
    }

    #[track_caller]
    fn ends_in(&self, code: i32, words: &str, environment: &[(&str, &str)]) -> String {
        let ran = self.haul(words, environment);
        let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.status.code(), Some(code), "haul {words}\n{text}\n{:#?}", self.server.requests());
        text
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let mut names: Vec<String> = walk(&self.path(dir)).into_iter().map(|path| path.display().to_string()).collect();
        names.sort();
        names
    }
}

fn bytes(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    content::fill(seed, 0, &mut bytes);
    bytes
}

fn walk(dir: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a directory") {
            let path = entry.expect("a name").path();
            found.push(path.strip_prefix(dir).expect("below").to_path_buf());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

const TREE: [&str; 5] = ["a.txt", "b c&d é.txt", "empty", "sub", "sub/deep"];

#[test]
fn a_file_comes_in_parts_with_its_time() {
    let w = World::new("");
    w.ends(0, "cp --chunk-size 1M @/big copy");
    assert!(w.read("copy") == w.read("www/big"));
    let time = |path: &str| w.path(path).metadata().and_then(|meta| meta.modified()).expect("a time");
    assert_eq!(time("copy").duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), {
        time("www/big").duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    });
    let requests = w.server.requests();
    assert!(requests.iter().filter(|line| line.starts_with("GET /big ") && line.contains("\" 206 ")).count() >= 2, "{requests:#?}");
    // It is unchanged, and is not asked for again.
    let text = w.ends(0, "cp @/big copy");
    assert!(text.contains("Unchanged:   1 file"), "{text}");
}

#[test]
fn directories_come_by_their_index_pages() {
    for server in [World::new("gzip on; gzip_types *; gzip_min_length 0;"), World::of(WebServer::rclone)] {
        server.ends(0, "cp @/d/ one");
        assert_eq!(server.names("one"), TREE);
        assert_eq!((server.read("one/a.txt"), server.read("one/b c&d é.txt")), (b"hello\n".to_vec(), b"x".to_vec()));
        let text = server.ends(0, "sync --delete @/d/ one");
        assert!(!text.contains("Deleted"), "{text}");
        let text = server.ends(0, "ls @/d/");
        assert_eq!(text, "a.txt\nb c&d é.txt\nempty\nsub/\n");
        server.ends(0, "check -c @/d/ one");
    }
    // nginx sends on to the address with a slash.
    let w = World::new("");
    w.ends(0, "cp @/d two/ --mkpath");
    assert_eq!(w.names("two/d"), TREE);
}

#[test]
fn a_server_without_parts_is_read_from_end_to_end() {
    let w = World::new("max_ranges 0;");
    w.ends(0, "cp --chunk-size 1M @/big copy");
    assert!(w.read("copy") == w.read("www/big"));
    w.ends(0, "cp --chunk-size 1M -j 4 @/ all");
    assert!(w.read("all/big") == w.read("www/big"));
}

#[test]
fn a_killed_copy_goes_on_where_it_stopped() {
    let w = World::new("");
    let killed = w.haul("cp -j 1 --chunk-size 1M @/big copy", &[("HAUL_TEST_KILL_AT_RECORD", "14")]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(9));
    let before = w.server.requests().len();
    w.ends(0, "cp -j 1 --chunk-size 1M @/big copy");
    assert!(w.read("copy") == w.read("www/big"));
    let sent = |line: &String| line.rsplit(' ').next().and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0);
    let again: u64 = w.server.requests()[before..].iter().filter(|line| line.starts_with("GET")).map(sent).sum();
    assert!(again < 8 << 20, "{again} bytes of {}", 9 << 20);
}

#[test]
fn a_file_that_became_another_is_not_mixed() {
    let w = World::new("");
    let killed = w.haul("cp -j 1 --chunk-size 1M @/big copy", &[("HAUL_TEST_KILL_AT_RECORD", "5")]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(9));
    let new = bytes(2, 9 << 20);
    fs::write(w.path("www/new"), &new).expect("written");
    // Of the same size, and of another second.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(7);
    fs::File::options().append(true).open(w.path("www/new")).and_then(|file| file.set_modified(later)).expect("set");
    fs::rename(w.path("www/new"), w.path("www/big")).expect("renamed");
    w.ends(0, "cp -j 1 --chunk-size 1M @/big copy");
    assert!(w.read("copy") == new);
}

#[test]
fn a_file_that_changes_while_it_is_copied_fails_or_is_whole() {
    let w = World::new("limit_rate 2m;");
    let (old, new) = (w.read("www/big"), bytes(3, 9 << 20));
    fs::write(w.path("www/new"), &new).expect("written");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(7);
    fs::File::options().append(true).open(w.path("www/new")).and_then(|file| file.set_modified(later)).expect("set");
    let (from, to) = (w.path("www/new"), w.path("www/big"));
    let log = w.server.place().join("access");
    let changer = std::thread::spawn(move || {
        // After the first part was sent, before the last is asked for.
        while !fs::read_to_string(&log).unwrap_or_default().contains(" 206 ") {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        fs::rename(from, to).expect("renamed");
    });
    let ran = w.haul("cp -j 1 --chunk-size 1M @/big copy", &[]);
    changer.join().expect("no panic");
    match ran.status.code() {
        Some(0) => assert!(w.read("copy") == new),
        code => {
            assert_eq!(code, Some(23), "{}", String::from_utf8_lossy(&ran.stderr));
            assert!(!w.path("copy").exists(), "nothing takes the name");
        }
    }
    assert!(old != new);
}

#[test]
fn redirects_are_followed_but_not_out_of_encryption() {
    let w = World::new(
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
    let w = World::new(&lines);
    let (url, authority) = (format!("https://127.0.0.1:{port}"), made.authority.display());
    let text = w.ends(23, &format!("cp {url}/d/a.txt got"));
    assert!(text.contains("certificate"), "{text}");
    w.ends(0, &format!("cp --ca-bundle {authority} {url}/d/a.txt got"));
    assert_eq!(w.read("got"), b"hello\n");
    let text = w.ends(0, &format!("cp --no-verify-ssl {url}/d/ tree"));
    assert!(text.contains("WARNING: --no-verify-ssl"), "{text}");
    assert_eq!(w.names("tree"), TREE);
    let text = w.ends(23, &format!("cp --ca-bundle {authority} {url}/down no"));
    assert!(text.contains("without encryption"), "{text}");
}

#[test]
fn netrc_has_the_password_and_no_output_does() {
    let w = World::new("location /secret/ { alias /dev/null; }");
    fs::write(w.server.place().join("users"), "ana:{PLAIN}hunter2\n").expect("written");
    let lines = format!("auth_basic test; auth_basic_user_file {};", w.server.place().join("users").display());
    let guarded = World::new(&lines);
    let text = guarded.ends(23, "cp @/d/a.txt got");
    assert!(text.contains("status 401") && text.contains("~/.netrc"), "{text}");
    fs::write(guarded.path(".netrc"), "machine 127.0.0.1 login ana password hunter2\n").expect("written");
    let text = guarded.ends(0, "cp -vv @/d/a.txt got");
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(guarded.read("got"), b"hello\n");
    let state: Vec<u8> =
        walk(&guarded.path("state")).iter().filter_map(|path| fs::read(guarded.path("state").join(path)).ok()).flatten().collect();
    assert!(!state.windows(7).any(|part| part == b"hunter2"));
}

#[test]
fn checksums_are_verified_while_the_file_arrives() {
    let w = World::new("");
    let sum = |path: &str| {
        let ran = Command::new("sha256sum").arg(w.path(path)).output().expect("sha256sum runs");
        String::from_utf8_lossy(&ran.stdout)[..64].to_string()
    };
    let (good, bad) = (sum("www/big"), sum("www/d/a.txt"));
    w.ends(0, &format!("cp --chunk-size 1M --sha256 {good} @/big good"));
    let text = w.ends(23, &format!("cp --chunk-size 1M --sha256 {bad} @/big bad"));
    assert!(text.contains("SHA-256") && !w.path("bad").exists(), "{text}");
    assert!(w.ends(1, "cp --sha256 12 @/big bad").contains("64 hexadecimal digits"));
    let list = format!("{good}  big\n{bad}  a.txt\n{bad} *./sub/deep\n");
    fs::write(w.path("www/SHA256SUMS"), list).expect("written");
    w.ends(0, "cp --sha256sums @/SHA256SUMS @/big listed");
    let text = w.ends(23, "cp --sha256sums @/SHA256SUMS @/d/ tree");
    assert_eq!(w.names("tree"), ["a.txt", "sub"], "{text}");
    assert!(text.contains("empty: verify: the list of --sha256sums does not have this file"), "{text}");
    assert!(text.contains("sub/deep: read: ") || text.contains("sub/deep: verify: the SHA-256"), "{text}");
}

#[test]
fn lists_of_addresses_are_copied() {
    let w = World::new("");
    let list = format!("# mine\n{}\n{}\n\n", w.server.url("d/a.txt"), w.server.url("d/sub/deep?token=1"));
    fs::write(w.path("list"), list).expect("written");
    fs::create_dir(w.path("into")).expect("made");
    w.ends(0, "cp --files-from list into");
    assert_eq!(w.names("into"), ["a.txt", "deep"]);
    fs::write(w.path("names"), "a.txt\nsub/deep\n").expect("written");
    w.ends(0, "cp --files-from names @/d/ below");
    assert_eq!(w.names("below"), ["a.txt", "sub", "sub/deep"]);
    fs::write(w.path("list"), "/etc/passwd\n").expect("written");
    assert!(w.ends(1, "cp --files-from list into").contains("must have addresses"));
}

#[test]
fn it_is_for_reading_only() {
    let w = World::new("add_header Content-Disposition 'attachment; filename=\"../../out\"';");
    for words in ["cp www/big @/new", "cp www/big @/", "rm @/big", "mkdir @/x", "sync www/ @/d/", "mv @/d/a.txt here"] {
        let ran = w.haul(words, &[]);
        let text = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() != Some(0) && text.contains("read-only"), "{words}: {text}");
    }
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
    let w = World::new("");
    for (answer, part) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nAccept-Ranges: none\r\n\r\nshort"[..], "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nAccept-Ranges: bytes\r\nContent-Range: bytes 5-9/10\r\n\r\n0123456789", ""),
        (b"garbage\r\n\r\n", "HTTP"),
    ] {
        let port = hostile(answer);
        let ran = w.haul(&format!("cp --retries 1 http://127.0.0.1:{port}/file got"), &[]);
        let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        if part.is_empty() {
            assert_eq!((ran.status.code(), w.read("got")), (Some(0), b"0123456789".to_vec()), "{text}");
            fs::remove_file(w.path("got")).expect("removed");
        } else {
            assert!(ran.status.code() != Some(0) && text.contains(part), "{part}: {text}");
            assert!(!w.path("got").exists());
        }
    }
}

/// What is below `/stream/` comes in chunks, without a length.
fn streaming() -> World {
    World::of(|root| {
        let stream = format!("location /stream/ {{ alias {}/; ssi on; ssi_types *; }}", root.display());
        WebServer::nginx(root, &stream)
    })
}

#[test]
fn a_file_of_unknown_length_is_copied_as_a_stream() {
    let w = streaming();
    w.ends(0, "cp @/stream/big copy");
    fs::create_dir(w.path("into")).expect("made");
    w.ends(0, "cp --verify @/stream/big into");
    assert!(w.read("copy") == w.read("www/big") && w.read("into/big") == w.read("www/big"));
    w.ends(0, "cp @/stream/d/empty none");
    assert_eq!(w.read("none"), b"");
    let text = w.ends(23, &format!("cp --sha256 {} @/stream/big wrong", "0".repeat(64)));
    assert!(text.contains("SHA-256") && !w.path("wrong").exists(), "{text}");
    // Among others it is refused: their copies can be resumed, and its own cannot.
    let text = w.ends(23, "cp @/stream/d/ tree");
    assert!(text.contains("does not report the file's length") && text.contains("copy it alone"), "{text}");
}

#[test]
fn a_server_suggests_names_and_no_paths() {
    let suggest = "{ try_files /d/a.txt =404; add_header Content-Disposition $arg_as; }";
    let w = World::new(&format!("location = /download {suggest} location = / {suggest}"));
    fs::create_dir(w.path("into")).expect("made");
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
        assert_eq!(w.names("into"), [name], "{words}");
        fs::remove_file(w.path("into").join(name)).expect("removed");
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
    let w = World::new(&lines);
    let proxy = WebServer::apache_proxy("1024-65535").expect("apache2 is installed");
    let url = proxy.url("");
    let secure = format!("--ca-bundle {} https://127.0.0.1:{port}", made.authority.display());
    w.ends_in(0, "cp @/big plain", &[("http_proxy", &url)]);
    w.ends_in(0, &format!("cp {secure}/big secure"), &[("https_proxy", &url)]);
    assert!(w.read("plain") == w.read("www/big") && w.read("secure") == w.read("www/big"));
    w.ends_in(0, &format!("cp {secure}/d/ tree"), &[("ALL_PROXY", &url)]);
    assert_eq!(w.names("tree"), TREE);
    let targets = [format!("CONNECT 127.0.0.1:{} ", w.server.port), format!("CONNECT 127.0.0.1:{port} ")];
    // A connection is logged when it ends.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !targets.iter().all(|target| proxy.requests().iter().any(|line| line.starts_with(target))) {
        assert!(std::time::Instant::now() < until, "{:#?}", proxy.requests());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Nobody listens there, but these hosts are reached directly.
    let nobody = format!("http://127.0.0.1:{}", free_port().expect("a port"));
    w.ends_in(0, "cp @/d/a.txt direct", &[("http_proxy", &nobody), ("no_proxy", "127.0.0.0/8")]);
    let lost = w.haul("cp --retries 1 @/d/a.txt none", &[("http_proxy", &nobody)]);
    assert!(!lost.status.success() && String::from_utf8_lossy(&lost.stderr).contains("nobody listens"), "{lost:?}");
    let strict = WebServer::apache_proxy("443").expect("apache2 is installed");
    let text = w.ends_in(23, "cp @/d/a.txt none", &[("http_proxy", &strict.url(""))]);
    assert!(text.contains("the proxy refused"), "{text}");
}

#[test]
fn a_file_goes_through_to_a_bucket() {
    let w = streaming();
    let minio = Minio::start().expect("MinIO is installed");
    let endpoint = minio.endpoint();
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint.url.as_str()),
        ("AWS_ACCESS_KEY_ID", endpoint.access.as_str()),
        ("AWS_SECRET_ACCESS_KEY", endpoint.secret.as_str()),
        ("AWS_REGION", "us-east-1"),
    ];
    w.ends_in(0, "mb s3://through", &environment);
    w.ends_in(0, "cp @/big s3://through/big", &environment);
    w.ends_in(0, "cp --chunk-size 5M @/stream/big s3://through/stream", &environment);
    for key in ["big", "stream"] {
        let text = w.ends_in(0, &format!("check -c @/big s3://through/{key}"), &environment);
        assert!(text.contains("Identical:"), "{text}");
    }
}
