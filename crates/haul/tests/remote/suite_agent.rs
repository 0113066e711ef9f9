//! The conformance suite over the agent: the program itself serves, behind a pipe and behind a real ssh server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haul_core::hash::Algorithm;
use haul_ssh::agent::{Host, Pipes, Remote, RootOptions, SessionOptions, Site};
use haul_ssh::ssh::{Login, Target, remote_command};
use haul_test::sshd::Sshd;
use haul_test::store_suite;
use haul_test::suite::Fixture;

/// The program as it was built with the tests.
fn haul() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_haul"))
}

fn wishes() -> SessionOptions {
    SessionOptions {
        sessions: 3,
        streams: None,
        greeting: Duration::from_secs(20),
        answer_timeout: None,
        version: "0.1.0",
        compress: false,
        direct: None,
        site: Site::default(),
        widen: None,
    }
}

fn fixture(connect: impl Fn(Option<&str>) -> haul_core::Result<Pipes> + Clone + Send + Sync + 'static) -> Fixture {
    let open = move |path: &Path| -> haul_core::Result<Remote> {
        let host = Host::connect(Box::new(connect.clone()), wishes(), "testhost".into(), path.as_os_str().as_encoded_bytes())?;
        host.open(path.as_os_str().as_encoded_bytes(), RootOptions { keep_modes: true, ..RootOptions::default() })
    };
    Fixture::of_directory(open)
}

fn piped(word: Option<&str>) -> haul_core::Result<Pipes> {
    let mut command = Command::new(haul());
    command.arg("agent").args(word.map(|word| ["--join", word]).into_iter().flatten());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("haul can be started");
    let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    Ok(Pipes { input: input.into(), output: output.into(), transport: Box::new(child) })
}

store_suite!(pipe, || fixture(piped));

#[test]
fn every_digest_is_computed_by_the_remote_haul() {
    let fixture = fixture(piped);
    fixture.put("file", b"content");
    for algorithm in Algorithm::ALL {
        let mut hasher = algorithm.begin();
        hasher.update(b"content");
        let digest = fixture.store.extensions().digests.digest(&fixture.stat("file"), algorithm).expect("it reads the file");
        assert_eq!(digest, Some(hasher.finish()), "{algorithm:?}");
    }
}

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
    fixture(move |word: Option<&str>| login.run(&remote_command(haul().to_str(), "0.1.0", word)))
});
