use super::*;

#[test]
fn a_host_is_never_an_option_of_ssh() {
    for host in ["-oProxyCommand=x", "", "a b", "a\nb"] {
        let target = Target { host: host.into(), ..Target::default() };
        assert_eq!(Login::new(target).map(|_| ()).unwrap_err().kind(), ErrorKind::Usage, "{host:?}");
        let target = Target { host: "x".into(), user: Some(host.into()), ..Target::default() };
        assert_eq!(Login::new(target).map(|_| ()).unwrap_err().kind(), ErrorKind::Usage, "{host:?}");
    }
}
