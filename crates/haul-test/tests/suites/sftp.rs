//! The conformance suite over plain SFTP: an OpenSSH server behind the ssh program, one login for all checks, the
//! SFTP server alone behind a pipe, and ProFTPD's.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use haul_ssh::sftp::{Channel, Host, Sftp};
use haul_ssh::ssh::{Login, Target};
use haul_test::ssh_makes::{Make, SshMake};
use haul_test::sshd::Sshd;
use haul_test::store_suite;
use haul_test::suite::Fixture;

const SERVER: &str = "/usr/lib/openssh/sftp-server";

fn fixture(connect: impl Fn() -> haul_core::Result<Channel> + Clone + Send + Sync + 'static) -> Fixture {
    let open = move |path: &Path| -> haul_core::Result<Sftp> {
        let host = Host::connect("sftp", "testhost".into(), Box::new(connect.clone()), 3)?;
        host.open(path.as_os_str().as_encoded_bytes(), false)
    };
    Fixture::of_directory(open)
}

fn piped() -> haul_core::Result<Channel> {
    Channel::start(Command::new(SERVER), Stdio::null(), Duration::from_secs(30), Duration::from_secs(10))
}

store_suite!(pipe, || fixture(piped));

/// One server and one login for the whole file, as long as the process lives.
fn login() -> Arc<Login> {
    static SHARED: OnceLock<(Sshd, Arc<Login>)> = OnceLock::new();
    let (_, login) = SHARED.get_or_init(|| {
        let server = Sshd::start("MaxSessions 400").expect("sshd can be started: openssh-server and root");
        let target = Target { host: "testhost".into(), config: Some(server.config()), ..Target::default() };
        let login = Arc::new(Login::new(target).expect("a target"));
        (server, login)
    });
    login.clone()
}

store_suite!(ssh, || {
    let login = login();
    fixture(move || login.sftp())
});

/// The same with a server of another make.
fn other_target() -> Target {
    static SERVER: OnceLock<SshMake> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        SshMake::start(Make::Proftpd, Path::new("/")).expect("proftpd can be started: proftpd-core, proftpd-mod-crypto and root")
    });
    Target { host: "testhost".into(), config: Some(server.config()), ..Target::default() }
}

/// All checks but those that this server cannot pass: it follows links for LSTAT and makes their targets absolute
/// (`a_listing_tells_what_it_says`, `links_are_followed_only_when_asked`), sets no times of links
/// (`attributes_are_set_on_everything`), takes mode 0 for none at all (`attributes_survive_a_commit`), and says no more
/// of a name that is too long than that it failed (`a_name_that_is_too_long_is_refused`).
mod proftpd {
    use super::*;

    /// A login for each session: this server gets stuck with several sessions in one connection.
    fn place() -> Fixture {
        fixture(|| {
            static LOGINS: Mutex<Vec<Login>> = Mutex::new(Vec::new());
            let login = Login::new(other_target())?;
            let channel = login.sftp();
            // It lives as long as the process, and so does what goes through it.
            LOGINS.lock().unwrap_or_else(PoisonError::into_inner).push(login);
            channel
        })
    }

    store_suite! { @common place }
    store_suite! { @tests place;
        names: any_name_can_be_made;
    }
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    let mut server = Command::new("sh");
    // VERSION 3 and an answer to the first REALPATH; then nothing more.
    server.args(["-c", r"printf '\000\000\000\005\002\000\000\000\003'; sleep 60"]);
    let channel = Channel::start(server, Stdio::null(), Duration::from_secs(1), Duration::from_secs(10)).expect("it greets");
    let waits: Vec<_> = std::thread::scope(|scope| {
        let ask = || channel.ask(16, |request| request.bytes(b"."));
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for answer in waits {
        assert_eq!(answer.map(|_| ()).expect_err("nobody answers").kind(), haul_core::ErrorKind::Broken);
    }
    assert!(channel.is_over());
}
