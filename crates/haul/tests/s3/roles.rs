//! Roles and logins that have to be asked for: MFA, the roles of other stores, SSO.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use haul_test::objects::Scripted;
use haul_test::objects::scripted::{Action, Answer, When};
use haul_test::pty::Terminal;

use crate::support::{Program, World};

const BOUND: Duration = Duration::from_secs(60);

/// Only what is in `~/.aws`.
fn of_profile(w: &World, words: &str) -> Program {
    let haul = w.haul(words).without("AWS_ACCESS_KEY_ID").without("AWS_SECRET_ACCESS_KEY").without("AWS_ENDPOINT_URL");
    haul.without("AWS_REGION").env("AWS_PROFILE", "work")
}

fn settings(w: &World, work: &str) {
    let aws = w.path("home/.aws");
    fs::create_dir_all(&aws).expect("made");
    let common = format!("endpoint_url = {}\nregion = {}\n", w.endpoint.url, w.endpoint.region);
    fs::write(aws.join("config"), format!("[profile work]\n{common}{work}")).expect("written");
    let keys = format!("[base]\naws_access_key_id = {}\naws_secret_access_key = {}\n", w.real.access, w.real.secret);
    fs::write(aws.join("credentials"), keys).expect("written");
}

fn iso(seconds: i64) -> String {
    haul_net::http_client::time::iso_text(haul_core::entry::Time { secs: seconds, nanos: 0 }).expect("a time")
}

fn now() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()).expect("a number")
}

fn field(body: &str, name: &str) -> Option<String> {
    body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=').map(str::to_string))
}

/// Plays STS: hands out the server's own keys for the code 424242 and for no other, and once for each.
fn plays_sts(w: &World, scripted: &Scripted) {
    let (access, secret) = (w.real.access.clone(), w.real.secret.clone());
    let answer = move |_: &_, body: &[u8]| {
        let body = String::from_utf8_lossy(body);
        if field(&body, "TokenCode").as_deref() != Some("424242")
            || field(&body, "SerialNumber").as_deref() != Some("arn%3Aaws%3Aiam%3A%3A123456789012%3Amfa%2Fme")
        {
            return Answer::new(
                403,
                "<ErrorResponse><Error><Code>AccessDenied</Code><Message>MultiFactorAuthentication failed</Message></Error></ErrorResponse>",
            );
        }
        Answer::new(
            200,
            &format!(
                "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{access}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
                 <Expiration>{}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
                iso(now() + 3600)
            ),
        )
    };
    scripted.rule(When::method("POST").header("content-type", "x-www-form-urlencoded"), .., Action::make(answer));
}

fn asked_sts(scripted: &Scripted) -> usize {
    scripted.count(&When::method("POST").header("content-type", "x-www-form-urlencoded"))
}

#[test]
fn a_role_with_mfa_asks_for_the_code_or_is_given_it_and_keeps_the_session() {
    let (w, scripted) = World::scripted();
    w.put(b"x", &[], b"content");
    plays_sts(&w, &scripted);
    let role = "role_arn = arn:aws:iam::123456789012:role/r\nsource_profile = base\nmfa_serial = arn:aws:iam::123456789012:mfa/me\n";
    settings(&w, role);
    let run = |words: &str| of_profile(&w, words).env("AWS_ENDPOINT_URL_STS", &w.endpoint.url);
    run("cat @/x").alone().ends(10).says("requires MFA").says("--mfa-code");
    assert_eq!(asked_sts(&scripted), 0);
    run("cat --mfa-code 654321 @/x").alone().ends(10).says("MultiFactorAuthentication failed");
    run("cat --mfa-code abc @/x").ends(1).says("digits");

    let mut terminal = Terminal::start(run("cat @/x").command()).expect("a terminal");
    terminal.expect("MFA code of arn:aws:iam::123456789012:mfa/me: ", BOUND).expect("it asks");
    terminal.send_line("424242").expect("typed");
    terminal.expect("content", BOUND).expect("it reads");
    assert!(terminal.end(BOUND).expect("it ends").success() && !terminal.screen().contains("424242"), "{}", terminal.screen());

    // The session is kept in the AWS command line's format, so that it asks for no second code.
    let asked = asked_sts(&scripted);
    assert_eq!(run("cat @/x").alone().ends(0).out, "content");
    assert_eq!(asked_sts(&scripted), asked);
    let cache = w.path("home/.aws/cli/cache");
    let kept: Vec<_> = fs::read_dir(&cache).expect("a cache").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::metadata(&kept[0]).expect("a file").permissions().mode() & 0o777, 0o600);
    // The AWS command line writes times in a way of its own.
    let text = fs::read_to_string(&kept[0]).expect("text");
    let ends = text.split_once("\"Expiration\":\"").and_then(|(_, rest)| rest.split('"').next()).expect("an end");
    fs::write(&kept[0], text.replace(ends, &ends.replace('Z', "UTC"))).expect("written");
    assert_eq!(run("cat @/x").alone().ends(0).out, "content");
    assert_eq!(asked_sts(&scripted), asked);
    // What is over is not used.
    let over = fs::read_to_string(&kept[0]).expect("text").replace(&iso(now())[..4], "2001");
    fs::write(&kept[0], over).expect("written");
    assert_eq!(run("cat --mfa-code 424242 @/x").alone().ends(0).out, "content");
    assert_eq!(asked_sts(&scripted), asked + 1);
}

#[test]
fn roles_of_other_stores_are_asked_of_the_store_itself() {
    let (w, scripted) = World::scripted();
    w.put(b"x", &[], b"content");
    for arn in [
        "arn:minio:iam:::role/reader",
        "arn:aws:iam::tenant:role/path/reader",
        "arn:aws:iam:::role/reader",
        "arn:aws:iam::123456789012:role/reader",
    ] {
        settings(&w, &format!("role_arn = {arn}\nsource_profile = base\n"));
        scripted.clear_seen();
        assert_eq!(of_profile(&w, "cat @/x").ends(0).out, "content", "{arn}");
        assert_eq!(asked_sts(&scripted), 1, "{arn}");
        let seen = scripted.requests();
        let get = seen.iter().find(|seen| seen.method == "GET").expect("a read");
        assert!(get.header("x-amz-security-token").is_some(), "with the session that the server gave: {seen:?}");
    }
    settings(&w, "role_arn = reader\nsource_profile = base\n");
    of_profile(&w, "cat @/x").ends(10).says("is no ARN");
}

/// Where the login of the session `corp` is: the SHA-1 of that word.
const LOGIN: &str = "home/.aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json";

#[test]
fn a_login_of_sso_is_renewed_and_written_back() {
    let (w, scripted) = World::scripted();
    w.put(b"x", &[], b"content");
    let sso = "sso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Reader\n\
               [sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://start.example\n";
    settings(&w, sso);
    let (access, secret) = (w.real.access.clone(), w.real.secret.clone());
    let exchange = move |seen: &haul_test::objects::scripted::Seen, _: &[u8]| match seen.header("x-amz-sso_bearer_token") {
        Some("second-login") => Answer::new(
            200,
            &format!(
                r#"{{"roleCredentials":{{"accessKeyId":"{access}","secretAccessKey":"{secret}","sessionToken":"","expiration":{}}}}}"#,
                (now() + 3600) * 1000
            ),
        ),
        _ => Answer::new(401, r#"{"message":"Session token not found or invalid"}"#),
    };
    scripted.rule(When::method("GET").path("/federation/credentials"), .., Action::make(exchange));
    let renew = |_: &_, body: &[u8]| {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        match (body["grantType"].as_str(), body["refreshToken"].as_str(), body["clientId"].as_str(), body["clientSecret"].as_str()) {
            (Some("refresh_token"), Some("refresh-1"), Some("id"), Some("hidden-client")) => {
                Answer::new(200, r#"{"accessToken":"second-login","expiresIn":28800,"refreshToken":"refresh-2","tokenType":"Bearer"}"#)
            }
            _ => Answer::new(400, r#"{"error":"invalid_grant","error_description":"Invalid refresh token provided"}"#),
        }
    };
    scripted.rule(When::method("POST").path("/token"), .., Action::make(renew));
    let write = |ends: i64, registered: i64, token: &str| {
        fs::create_dir_all(w.path("home/.aws/sso/cache")).expect("made");
        let text = format!(
            r#"{{"startUrl":"https://start.example","region":"eu-west-1","accessToken":"first-login","expiresAt":"{}","clientId":"id",
                "clientSecret":"hidden-client","registrationExpiresAt":"{}","refreshToken":"{token}"}}"#,
            iso(ends),
            iso(registered)
        );
        fs::write(w.path(LOGIN), text).expect("written");
    };
    let run = || {
        let haul = of_profile(&w, "cat @/x").env("AWS_ENDPOINT_URL_SSO", &w.endpoint.url);
        haul.env("AWS_ENDPOINT_URL_SSO_OIDC", &w.endpoint.url)
    };
    write(now() - 60, now() + 86_400, "refresh-1");
    assert_eq!(run().ends(0).out, "content");
    let kept: serde_json::Value = serde_json::from_str(&fs::read_to_string(w.path(LOGIN)).expect("text")).expect("JSON");
    assert_eq!((&kept["accessToken"], &kept["refreshToken"]), (&"second-login".into(), &"refresh-2".into()), "{kept}");
    assert_eq!((&kept["startUrl"], &kept["clientSecret"]), (&"https://start.example".into(), &"hidden-client".into()), "{kept}");
    assert!(kept["expiresAt"].as_str().is_some_and(|ends| *ends > *iso(now() + 3600)), "{kept}");
    assert_eq!(fs::metadata(w.path(LOGIN)).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(w.entries("home/.aws/sso/cache").len(), 1);

    // A login that is good for a while is left alone.
    let renewals = || scripted.count(&When::method("POST").path("/token"));
    let before = renewals();
    assert_eq!(run().ends(0).out, "content");
    assert_eq!(renewals(), before);
    // One that cannot be renewed is said, with what to do, and without a secret.
    write(now() - 60, now() + 86_400, "spent");
    run().ends(10).says("Invalid refresh token provided").says("aws sso login --profile work").never_says("hidden");
    write(now() - 60, now() - 60, "refresh-1");
    run().ends(10).says("registration").says("aws sso login --profile work");
}
