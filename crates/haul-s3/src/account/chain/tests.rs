//! Each place that hands out credentials, played by a server on this machine or a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::account::AccountOptions;
use crate::account::tests::home;

const LATE: &str = "2099-01-01T00:00:00Z";

/// Answers each request by a function of its first line and all of its text; keeps what it was asked.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: impl Fn(&str, &str) -> (u16, String) + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut text = String::new();
                while reader.read_line(&mut text).is_ok_and(|read| read > 2) {}
                let length = text.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                text.push_str(std::str::from_utf8(&body).unwrap());
                let line = text.lines().next().unwrap_or("").trim_end_matches(" HTTP/1.1").to_string();
                let (status, body) = answer(&line, &text);
                kept.lock().unwrap().push(text);
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                // A client that has hung up sees to its own test.
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
            }
        });
        Server { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn account(home: &Path, variables: &[(&str, &str)]) -> Account {
    let environment = Environment::table(Some(home.into()), variables.iter().copied());
    Account::open(&AccountOptions { environment, ..AccountOptions::default() }).unwrap()
}

fn json(id: &str, ends: &str) -> String {
    format!(r#"{{"Code":"Success","AccessKeyId":"{id}","SecretAccessKey":"hidden-s","Token":"hidden-t","Expiration":"{ends}"}}"#)
}

fn sts_answer(operation: &str, id: &str) -> String {
    format!(
        "<{operation}Response><{operation}Result><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>hidden-s</SecretAccessKey>\
         <SessionToken>hidden-t</SessionToken><Expiration>{LATE}</Expiration></Credentials></{operation}Result></{operation}Response>"
    )
}

const OFF: (&str, &str) = ("AWS_EC2_METADATA_DISABLED", "true");

#[test]
fn a_container_s_server_is_asked_with_its_token() {
    let server = Server::start(|_, _| (200, json("CONTAINER", LATE)));
    let home = home("", "");
    std::fs::write(home.path().join("token"), "the-token\n").unwrap();
    let token = home.path().join("token");
    let url = format!("{}/creds", server.address);
    let variables =
        [OFF, ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap())];
    let account = account(home.path(), &variables);
    let credential = account.credential().unwrap().unwrap();
    assert_eq!((credential.access_key(), credential.token()), ("CONTAINER", Some("hidden-t")));
    assert!(account.whose().contains("container") && !format!("{account:?}{}", account.whose()).contains("hidden"));
    let text = &server.asked()[0];
    assert!(text.starts_with("GET /creds ") && text.to_lowercase().contains("authorization: the-token\r\n"), "{text}");
}

#[test]
fn a_container_s_variable_may_not_name_just_any_server() {
    for (url, may) in [
        ("http://127.0.0.1:80/x", true),
        ("http://[::1]/x", true),
        ("http://localhost/x", true),
        ("http://169.254.170.2/x", true),
        ("http://[fd00:ec2::23]/x", true),
        ("https://anything.example/x", true),
        ("http://anything.example/x", false),
        ("http://169.254.169.254/x", false),
        ("http://localhost.evil.example/x", false),
        ("file:///x", false),
        ("", false),
    ] {
        assert_eq!(is_own_server(url), may, "{url}");
    }
}

#[test]
fn an_instance_s_server_is_asked_in_its_second_version() {
    let server = Server::start(|line, _| match line {
        "PUT /latest/api/token" => (200, "session-1".into()),
        "GET /latest/meta-data/iam/security-credentials/" => (200, "the-role".into()),
        "GET /latest/meta-data/iam/security-credentials/the-role" => (200, json("INSTANCE", LATE)),
        other => (404, other.to_string()),
    });
    let home = home("", "");
    let account = account(home.path(), &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &format!("{}/", server.address))]);
    assert_eq!(account.credential().unwrap().unwrap().access_key(), "INSTANCE");
    assert!(account.whose().contains("good for "), "{}", account.whose());
    let asked = server.asked();
    let first = asked[0].to_lowercase();
    assert!(first.contains("x-aws-ec2-metadata-token-ttl-seconds: 21600"));
    // The server takes no body in chunks, not even an empty one.
    assert!(first.contains("content-length: 0") && !first.contains("transfer-encoding"), "{first}");
    assert!(asked[1..].iter().all(|text| text.contains("x-aws-ec2-metadata-token: session-1")), "{asked:?}");
}

#[test]
fn a_machine_that_is_no_instance_has_none_and_says_so() {
    // A port where nobody listens: bound, then given up.
    let nobody = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let home = home("", "");
    let account = account(home.path(), &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &nobody)]);
    let error = account.credential().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("the instance's server ("), "{error}");
    assert!(error.to_string().to_lowercase().contains("connection refused"), "{error}");
}

#[cfg(unix)]
fn script(home: &Path, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = home.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_program_is_run_without_a_shell() {
    let home = home("", "");
    let answer = r#"test "$1" = "two words; \$HOME" || exit 9
printf '{"Version":1,"AccessKeyId":"PROGRAM","SecretAccessKey":"s","Expiration":"2099-01-01T00:00:00Z"}'"#;
    let command = script(home.path(), "my program", answer);
    let config =
        format!("[default]\ncredential_process = \"{command}\" 'two words; $HOME'\naws_access_key_id=X\naws_secret_access_key=Y\n");
    std::fs::write(home.path().join(".aws/config"), config).unwrap();
    let found = account(home.path(), &[OFF]).credential().unwrap().unwrap();
    assert_eq!((found.access_key(), found.token()), ("PROGRAM", None));
    assert!(found.expires().is_some());
}

#[test]
fn a_program_that_fails_is_told_and_not_passed_by() {
    let home = home("", "");
    let command = script(home.path(), "program", "echo 'log in first' >&2; exit 3");
    std::fs::write(home.path().join(".aws/config"), format!("[default]\ncredential_process = {command}\n")).unwrap();
    let error = account(home.path(), &[OFF]).credential().unwrap_err();
    assert!(error.to_string().contains("log in first") && error.to_string().contains("credential_process of profile default"), "{error}");
}

#[test]
fn a_role_is_taken_on_with_the_source_s_keys() {
    let server = Server::start(|_, _| (200, sts_answer("AssumeRole", "ASIAROLEROLEROLEROLE")));
    let config = "[profile base]\nregion = us-east-1\n[profile work]\nrole_arn = arn:aws:iam::123456789012:role/worker\nsource_profile = base\n\
                  external_id = ext-1\nduration_seconds = 900\nregion = eu-west-1\n";
    let home = home(config, "[base]\naws_access_key_id = BASE\naws_secret_access_key = hidden-base\n");
    let account = account(home.path(), &[OFF, ("AWS_PROFILE", "work"), ("AWS_ENDPOINT_URL_STS", &server.address)]);
    assert_eq!(account.credential().unwrap().unwrap().access_key(), "ASIAROLEROLEROLEROLE");
    assert!(account.whose().contains("role arn:aws:iam::123456789012:role/worker of profile work, by profile base"), "{}", account.whose());
    let text = &server.asked()[0];
    let host = server.address.trim_start_matches("http://");
    for part in
        ["Action=AssumeRole&", "ExternalId=ext-1", "DurationSeconds=900", "RoleSessionName=haul", "Credential=BASE/", "/eu-west-1/sts/"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.to_lowercase().contains(&format!("host: {host}\r\n")) && !text.contains("hidden"), "{text}");
}

#[test]
fn roles_follow_each_other_but_not_without_end() {
    let count = AtomicUsize::new(0);
    let server = Server::start(move |_, _| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        (200, sts_answer("AssumeRole", &format!("ASIAROLEROLEROLE{n:04}")))
    });
    let role = "role_arn = arn:aws:iam::123456789012:role/r\n";
    let config = format!(
        "[profile a]\n{role}source_profile = b\n[profile b]\n{role}source_profile = b\n[profile x]\n{role}source_profile = y\n\
         [profile y]\n{role}source_profile = x\n[profile lone]\n{role}\
         [profile env]\n{role}credential_source = Environment\n"
    );
    let home = home(&config, "[b]\naws_access_key_id = B\naws_secret_access_key = s\n");
    let of = |profile: &str, more: &[(&str, &str)]| {
        let mut variables = vec![OFF, ("AWS_ENDPOINT_URL_STS", server.address.as_str())];
        variables.extend_from_slice(more);
        let environment = Environment::table(Some(home.path().into()), variables);
        Account::open(&AccountOptions { profile: Some(profile.into()), environment, ..AccountOptions::default() }).unwrap().credential()
    };
    assert_eq!(of("a", &[]).unwrap().unwrap().access_key(), "ASIAROLEROLEROLE0001");
    let asked = server.asked();
    assert!(asked[0].contains("Credential=B/") && asked[1].contains("Credential=ASIAROLEROLEROLE0000/"));
    assert!(asked[1].to_lowercase().contains("x-amz-security-token: hidden-t"));
    for (profile, word) in [("x", "in a loop"), ("lone", "neither source_profile"), ("env", "no credentials")] {
        let error = of(profile, &[]).unwrap_err();
        assert!(error.kind() == ErrorKind::Denied && error.to_string().contains(word), "{error}");
    }
    of("env", &[("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "s")]).unwrap();
    assert!(server.asked().last().unwrap().contains("Credential=E/"));
}

#[test]
fn a_role_that_is_refused_is_told_with_the_service_s_words() {
    let body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>User x is not\nauthorized</Message></Error></ErrorResponse>";
    let server = Server::start(move |_, _| (403, body.to_string()));
    let home = home(
        "[default]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = default\n",
        "[default]\naws_access_key_id = B\naws_secret_access_key = s\n",
    );
    let error = account(home.path(), &[OFF, ("AWS_ENDPOINT_URL_STS", &server.address)]).credential().unwrap_err();
    assert!(error.kind() == ErrorKind::Denied && error.to_string().contains("AccessDenied: User x is not authorized"), "{error}");
}

#[test]
fn a_web_identity_is_read_from_its_file_each_time() {
    let server = Server::start(|_, text| {
        let id = if text.contains("WebIdentityToken=one&") { "ASIAONE" } else { "ASIATWO" };
        (200, sts_answer("AssumeRoleWithWebIdentity", id))
    });
    let home = home("", "");
    let token = home.path().join("token");
    std::fs::write(&token, "one").unwrap();
    let variables = [
        OFF,
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/r"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ENDPOINT_URL_STS", server.address.as_str()),
    ];
    let of_variables = account(home.path(), &variables);
    let first = of_variables.credential().unwrap().unwrap();
    assert_eq!(first.access_key(), "ASIAONE");
    std::fs::write(&token, "two").unwrap();
    assert_eq!(of_variables.refresh(&first).unwrap().unwrap().access_key(), "ASIATWO");

    let config = format!("[default]\nrole_arn = arn:aws:iam::123456789012:role/r\nweb_identity_token_file = {}\n", token.to_str().unwrap());
    std::fs::write(home.path().join(".aws/config"), config).unwrap();
    let of_profile = account(home.path(), &[OFF, variables[3]]);
    assert_eq!(of_profile.credential().unwrap().unwrap().access_key(), "ASIATWO");
    assert!(of_profile.whose().contains("web identity of profile default"), "{}", of_profile.whose());
}

fn login_file(home: &Path, of: &str, ends: &str) {
    use sha1::{Digest, Sha1};
    let name: String = Sha1::digest(of.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!(r#"{{"accessToken":"hidden-login","expiresAt":"{ends}"}}"#);
    std::fs::write(home.join(".aws/sso/cache").join(format!("{name}.json")), text).unwrap();
}

#[test]
fn a_login_of_sso_is_exchanged_for_its_role() {
    let server = Server::start(|_, _| {
        let inner = r#""accessKeyId":"SSO","secretAccessKey":"s","sessionToken":"t","expiration":4070908800000"#;
        (200, format!(r#"{{"roleCredentials":{{{inner}}}}}"#))
    });
    let role = "sso_account_id = 123456789012\nsso_role_name = Reader\n";
    let config = format!(
        "[profile new]\nsso_session = corp\n{role}[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://start.example\n\
         [profile old]\nsso_start_url = https://start.example\nsso_region = eu-west-1\n{role}[profile bad]\nsso_session = gone\n{role}"
    );
    let home = home(&config, "");
    let endpoint = format!("{}/federation/credentials", server.address);
    let of = |profile| account(home.path(), &[OFF, ("AWS_PROFILE", profile), ("AWS_SSO_ENDPOINT", &endpoint)]).credential();

    let missing = of("new").unwrap_err();
    assert!(missing.next_step().unwrap().contains("aws sso login --profile new"), "{missing}");
    login_file(home.path(), "corp", "2001-01-01T00:00:00Z");
    assert!(of("new").unwrap_err().to_string().contains("aws sso login"));
    login_file(home.path(), "corp", LATE);
    login_file(home.path(), "https://start.example", LATE);
    for profile in ["new", "old"] {
        assert_eq!(of(profile).unwrap().unwrap().access_key(), "SSO", "{profile}");
    }
    // As older versions of the AWS command line write it.
    login_file(home.path(), "corp", "2099-01-01T00:00:00UTC");
    assert_eq!(of("new").unwrap().unwrap().access_key(), "SSO");
    assert!(of("bad").unwrap_err().to_string().contains("[sso-session gone]"));
    let text = &server.asked()[0];
    assert!(text.contains("?account_id=123456789012&role_name=Reader ") && text.contains("x-amz-sso_bearer_token: hidden-login"), "{text}");
}

#[test]
fn a_credential_is_replaced_before_its_end_and_serves_until_then() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    // The first lasts an hour, then the server fails, then there is another.
    let server = Server::start(move |_, _| match counted.fetch_add(1, Ordering::Relaxed) {
        0 => (200, json("FIRST", "2098-01-01T01:00:00Z")),
        1 => (500, "later".into()),
        _ => (200, json("SECOND", LATE)),
    });
    let home = home("", "");
    let account = account(home.path(), &[OFF, ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &server.address)]);
    let id = |now: SystemTime| account.credential_at(now).unwrap().unwrap().access_key().to_string();
    let first = account.credential().unwrap().unwrap();
    let end = first.expires().unwrap();
    assert_eq!(id(end - Duration::from_secs(301)), "FIRST");
    assert_eq!(count.load(Ordering::Relaxed), 1, "what is good is not asked for again");
    assert_eq!(id(end - Duration::from_secs(299)), "FIRST", "the server fails, and what there is still serves");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(id(end - Duration::from_secs(298)), "FIRST", "and is not asked again at once");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    assert_eq!(id(end - Duration::from_secs(200)), "SECOND");
    assert_eq!(account.refresh(&first).unwrap().unwrap().access_key(), "SECOND");
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[test]
fn many_threads_ask_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let server = Server::start(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        (200, json("ONE", LATE))
    });
    let home = home("", "");
    let account = account(home.path(), &[OFF, ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &server.address)]);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert_eq!(account.credential().unwrap().unwrap().access_key(), "ONE"));
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn another_s_message_is_made_fit_for_a_line() {
    let error = reqsign_core::Error::unexpected(format!("a\u{1b}[31m\nb{}", "x".repeat(9999)));
    let line = described(&error);
    assert!(line.starts_with("a [31m b") && line.chars().count() <= LONGEST);
}
