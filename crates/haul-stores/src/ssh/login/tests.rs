use super::*;

#[test]
fn a_login_with_a_question_is_not_repeated() {
    let by = |method: &str| format!("Authenticated to h ([192.0.2.1]:22) using \"{method}\".\n");
    let key = |kind: &str| format!("debug1: Server accepts key: /home/me/.ssh/id {kind} SHA256:x agent\n");
    for (text, silent) in [
        (key("ED25519") + &by("publickey"), true),
        (by("gssapi-with-mic"), true),
        (key("ED25519-SK") + &by("publickey"), false),
        (key("ECDSA-SK-CERT") + &by("publickey"), false),
        (by("password"), false),
        (by("keyboard-interactive"), false),
        ("Authenticated using \"password\" with partial success.\n".to_string() + &by("publickey"), false),
        (String::new(), false),
    ] {
        assert_eq!(is_without_questions(&text), silent, "{text}");
    }
}

#[test]
fn a_host_is_never_an_option_of_ssh() {
    for host in ["-oProxyCommand=x", "", "a b", "a\nb"] {
        let target = Target { host: host.into(), ..Target::default() };
        assert_eq!(Login::new(target).map(|_| ()).unwrap_err().kind(), ErrorKind::Usage, "{host:?}");
        let target = Target { host: "x".into(), user: Some(host.into()), ..Target::default() };
        assert_eq!(Login::new(target).map(|_| ()).unwrap_err().kind(), ErrorKind::Usage, "{host:?}");
    }
}
