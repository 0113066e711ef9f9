use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use haul_core::error::Remedy;

use super::*;

#[test]
fn hosts_of_no_proxy_are_covered_as_curl_has_it() {
    for (entry, host, yes) in [
        ("*", "anything", true),
        ("example.com", "example.com", true),
        ("example.com", "b.s3.example.com", true),
        (".example.com", "b.example.com", true),
        ("*.example.com", "b.example.com", true),
        ("EXAMPLE.com", "b.example.COM", true),
        ("example.com", "notexample.com", false),
        ("example.com", "example.com.evil", false),
        ("", "h", false),
        (".", "h", false),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.11", false),
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.0.0.0/8", "11.1.2.3", false),
        ("0.0.0.0/0", "11.1.2.3", true),
        ("10.0.0.0/33", "10.0.0.0", false),
        ("[::1]", "[::1]", true),
        ("fd00::/8", "[fd00:1::2]", true),
        ("\u{e9}", "x\u{e9}", false),
        ("\u{e9}a", "b\u{e9}a", false),
    ] {
        assert_eq!(covers(entry, host), yes, "{entry} for {host}");
    }
}

#[test]
fn the_proxy_is_the_scheme_s_own() {
    let chosen = |endpoint: &str, variables: &[(&str, &str)]| {
        let environment = Environment::table(None, variables.iter().copied());
        proxy(&endpoint.parse().unwrap(), &environment).unwrap().map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
    };
    let all = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "p:2"), ("ALL_PROXY", "socks5h://a:3")];
    assert_eq!(chosen("https://h", &all).unwrap(), "s:1");
    assert_eq!(chosen("http://h", &all).unwrap(), "p:2");
    assert_eq!(chosen("https://h", &all[2..]).unwrap(), "a:3");
    assert_eq!(chosen("https://h", &all[1..2]), None);
    assert_eq!(chosen("https://s3.site.example", &[all[0], ("NO_PROXY", "localhost, site.example")]), None);
    assert_eq!(chosen("https://127.0.0.1:9000", &[all[0], ("no_proxy", "127.0.0.0/8")]), None);
    let environment = Environment::table(None, [("HTTPS_PROXY", "ftp://user:hidden@x")]);
    let error = proxy(&"https://h".parse().unwrap(), &environment).unwrap_err();
    assert!(error.to_string().contains("HTTPS_PROXY") && !error.to_string().contains("hidden"), "{error}");
}

#[test]
fn a_bundle_that_is_none_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle.pem");
    let with = |bundle: &Path| AgentConfig {
        ca_bundle: Some(bundle.into()),
        ..AgentConfig::of("https://h".parse().unwrap(), Environment::table(None, []))
    };
    let missing = agent(&with(&file)).unwrap_err();
    assert!(missing.kind() == ErrorKind::Usage && missing.to_string().contains("No such file"), "{missing}");
    std::fs::write(&file, "nothing of use\n").unwrap();
    assert!(agent(&with(&file)).unwrap_err().to_string().contains("no certificate"));
    assert!(agent(&with(folder.path())).unwrap_err().to_string().contains("no certificate"));
    // Plain HTTP needs none.
    agent(&AgentConfig { endpoint: "http://h".parse().unwrap(), ..with(&file) }).unwrap();
}

#[test]
fn variables_replace_the_usual_certificates() {
    let environment = Environment::table(None, [("SSL_CERT_FILE", "/nowhere/at/all")]);
    let error = agent(&AgentConfig::of("https://h".parse().unwrap(), environment)).unwrap_err();
    assert!(error.next_step().unwrap().contains("--ca-bundle"), "{error}");
}

/// Keys and certificates for these tests, good until 2126 (made with openssl):
/// `self` signs itself and says it may sign others; `leaf` is signed by `authority`; both for 127.0.0.1.
/// `other` is as `self`, for another host; `old` is as `self`, and ended in 2020.
const SELF: &str = include_str!("certificates/self.pem");
const LEAF: &str = include_str!("certificates/leaf.pem");
const AUTHORITY: &str = include_str!("certificates/authority.pem");
const OTHER: &str = include_str!("certificates/other.pem");
const OLD: &str = include_str!("certificates/old.pem");

/// Serves one connection after the other with TLS by a certificate; each request is answered with its own body.
fn tls_server(pem: &'static str) -> Uri {
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(of_pem(pem.as_bytes()), PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}/b", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            echo(StreamOwned::new(connection, stream.unwrap()));
        }
    });
    address.parse().unwrap()
}

/// Answers requests until the other side hangs up.
fn echo(mut stream: impl Read + Write) {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).unwrap();
        let status = if head.contains("/moved") { "302 Found\r\nlocation: /elsewhere" } else { "404 Not Found" };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
        // Whoever has hung up sees to its own test.
        let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&body)).and_then(|()| stream.flush());
    }
}

/// An agent that trusts the certificates of `pem`.
fn trusting(endpoint: &Uri, pem: &str) -> Agent {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    let usual = AgentConfig::of(endpoint.clone(), Environment::table(None, []));
    agent(&AgentConfig { ca_bundle: Some(file.path().into()), ..usual }).unwrap()
}

#[test]
fn a_certificate_is_believed_for_its_authority_or_for_itself() {
    for (server, bundle, refusal) in [
        (LEAF, AUTHORITY, None),
        (SELF, SELF, None),
        (LEAF, SELF, Some("not signed by a trusted authority")),
        (SELF, AUTHORITY, Some("that of an authority")),
        (OTHER, OTHER, Some("is for another name: ")),
        (OLD, OLD, Some("has expired (")),
    ] {
        let endpoint = tls_server(server);
        let answer = trusting(&endpoint, bundle).get(&endpoint).call();
        match (answer, refusal) {
            (Ok(answer), None) => assert_eq!(answer.status(), 404),
            (Err(error), Some(word)) => {
                let error = request_error(error, &endpoint, None, "read").to_string();
                assert!(error.contains(word), "{word} in {error}");
            }
            (other, expected) => panic!("{other:?} where {expected:?}"),
        }
        let anybody = AgentConfig { verify: false, ..AgentConfig::of(endpoint.clone(), Environment::table(None, [])) };
        assert_eq!(agent(&anybody).unwrap().get(&endpoint).call().unwrap().status(), 404);
    }
}

#[test]
fn an_agent_for_plain_http_believes_no_certificate() {
    let endpoint = tls_server(SELF);
    let plain = AgentConfig::of("http://127.0.0.1".parse().unwrap(), Environment::table(None, []));
    assert!(agent(&plain).unwrap().get(&endpoint).call().is_err());
}

#[test]
fn bodies_of_every_size_come_back_whole_through_tls() {
    let endpoint = tls_server(LEAF);
    let agent = trusting(&endpoint, AUTHORITY);
    for size in [0, 1, 16 << 10, (64 << 10) - 1, 128 << 10, (128 << 10) + 1, 3_000_001] {
        let sent: Vec<u8> = (0..size).map(|n: usize| (n * 31 + n / 251) as u8).collect();
        let mut answer = agent.put(&endpoint).send(&sent[..]).unwrap();
        let mut came = Vec::new();
        answer.body_mut().as_reader().read_to_end(&mut came).unwrap();
        assert!(came == sent, "{size} bytes");
    }
}

/// A server in the clear that counts its connections.
fn plain_server() -> (Uri, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/b", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || echo(stream.unwrap()));
        }
    });
    (address.parse().unwrap(), count)
}

#[test]
fn one_connection_serves_many_requests_and_no_redirect_is_followed() {
    let (endpoint, count) = plain_server();
    let agent = agent(&AgentConfig::of(endpoint.clone(), Environment::table(None, []))).unwrap();
    for _ in 0..3 {
        let mut answer = agent.put(&endpoint).send(&b"abc"[..]).unwrap();
        assert_eq!(answer.body_mut().read_to_string().unwrap(), "abc");
    }
    let moved = agent.get(format!("{}/moved", endpoint.to_string().trim_end_matches("/b"))).call().unwrap();
    assert_eq!(moved.status(), 302);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_server_that_never_answers_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for scheme in ["http", "https"] {
        let endpoint: Uri = format!("{scheme}://{address}/").parse().unwrap();
        let short = Duration::from_millis(50);
        let usual = AgentConfig::of(endpoint.clone(), Environment::table(None, []));
        let agent = agent(&AgentConfig { idle_timeout: short, verify: false, ..usual }).unwrap();
        let error = agent.get(&endpoint).call().unwrap_err();
        assert!(matches!(error, ureq::Error::Timeout(_)), "{scheme}: {error:?}");
    }
}

#[test]
fn a_server_that_speaks_the_other_scheme_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let with_tls: Uri = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let error = request_error(trusting(&with_tls, SELF).get(&with_tls).call().unwrap_err(), &with_tls, None, "get");
    assert!(error.kind() == ErrorKind::Usage && error.next_step().unwrap().contains("http://"), "{error}");

    let endpoint = tls_server(SELF);
    let without: Uri = endpoint.to_string().replace("https:", "http:").parse().unwrap();
    let agent = agent(&AgentConfig::of(without.clone(), Environment::table(None, []))).unwrap();
    let error = request_error(agent.get(&without).call().unwrap_err(), &without, None, "get");
    assert!(error.kind() == ErrorKind::Usage && error.next_step().unwrap().contains("https://"), "{error}");
}

#[test]
fn a_failure_is_told_with_its_host_and_its_remedy() {
    let at: Uri = "https://h.example:9000/bucket/key".parse().unwrap();
    let reported = |error| request_error(error, &at, None, "put");
    let io = |kind| ureq::Error::Io(std::io::Error::from(kind));
    let refused = reported(io(std::io::ErrorKind::ConnectionRefused));
    assert_eq!((refused.kind(), refused.remedy()), (ErrorKind::Broken, Remedy::After(Duration::from_secs(1))));
    assert!(refused.to_string().contains("h.example:9000") && !refused.to_string().contains("bucket"), "{refused}");
    assert_eq!(reported(io(std::io::ErrorKind::ConnectionReset)).remedy(), Remedy::Again);
    assert_eq!(reported(ureq::Error::Timeout(ureq::Timeout::PerRead)).kind(), ErrorKind::TimedOut);
    assert_eq!(reported(ureq::Error::HostNotFound).kind(), ErrorKind::Usage);
    let unknown = reported(ureq::Error::Rustls(rustls::CertificateError::UnknownIssuer.into()));
    assert!(
        unknown.kind() == ErrorKind::Broken && unknown.remedy() == Remedy::None && unknown.next_step().unwrap().contains("--ca-bundle"),
        "{unknown}"
    );
    // What failed in the reader of a body that was being sent is that failure.
    let inner = Error::new(ErrorKind::Changed, "read").because("the file changed");
    assert_eq!(reported(ureq::Error::Io(inner.into())).kind(), ErrorKind::Changed);
}

#[test]
fn a_proxy_is_asked_to_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://user:pw@{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        echo(stream);
        String::from_utf8(head).unwrap()
    });
    let endpoint: Uri = "http://far.example:9000/b".parse().unwrap();
    let environment = Environment::table(None, [("http_proxy", proxy.as_str())]);
    let agent = agent(&AgentConfig::of(endpoint.clone(), environment)).unwrap();
    assert_eq!(agent.get(&endpoint).call().unwrap().status(), 404);
    drop(agent);
    let head = asked.join().unwrap();
    assert!(head.starts_with("CONNECT far.example:9000 ") && head.contains("Proxy-Authorization: Basic dXNlcjpwdw=="), "{head}");
}

/// As docs/object-stores.md has it.
#[test]
fn a_silent_server_is_given_up_after_a_minute_by_default() {
    let config = AgentConfig::of("https://objects.example".parse().unwrap(), Environment::default());
    assert_eq!((config.idle_timeout, config.connect), (Duration::from_secs(60), Duration::from_secs(10)));
    let page = include_str!("../../../../../docs/object-stores.md");
    assert!(page.contains("| an endpoint that accepts connections and never answers | given up after 60 s, or after `--timeout` |"));
}
