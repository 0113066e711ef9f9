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
    let with =
        |bundle: &Path| Trust { bundle: Some(bundle.into()), ..Trust::of("https://h".parse().unwrap(), Environment::table(None, [])) };
    let missing = agent(&with(&file)).unwrap_err();
    assert!(missing.kind() == ErrorKind::Usage && missing.to_string().contains("No such file"), "{missing}");
    std::fs::write(&file, "nothing of use\n").unwrap();
    assert!(agent(&with(&file)).unwrap_err().to_string().contains("no certificate"));
    assert!(agent(&with(folder.path())).unwrap_err().to_string().contains("no certificate"));
    // Plain HTTP needs none.
    agent(&Trust { endpoint: "http://h".parse().unwrap(), ..with(&file) }).unwrap();
}

#[test]
fn variables_replace_the_usual_certificates() {
    let environment = Environment::table(None, [("SSL_CERT_FILE", "/nowhere/at/all")]);
    let error = agent(&Trust::of("https://h".parse().unwrap(), environment)).unwrap_err();
    assert!(error.next_step().unwrap().contains("--ca-bundle"), "{error}");
}
