//! A host of its own for each test: an OpenSSH server, a home and a runtime directory there, and the program run against it.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_test::link::End;
use haul_test::program::{Program, until};
use haul_test::scratch::Scratch;
use haul_test::sshd::Sshd;
use rustix::process::Pid;

/// The program under test, which is also the one on the remote host.
pub const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// The files of both ends, which are one machine, and the server.
pub struct World {
    scratch: Scratch,
    pub server: Sshd,
    /// The value of `--agent`.
    pub agent: PathBuf,
    /// The network in which the program runs; its own where there is none.
    pub near: Option<End>,
}

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl World {
    /// With a tree, and a server where `remote-home` and `remote-run` are the user's.
    pub fn new(tree: &str) -> World {
        World::served(tree, "")
    }

    /// The same with these lines in the server's configuration.
    pub fn served(tree: &str, lines: &str) -> World {
        World::on(|scratch| {
            scratch.tree(tree);
            server(scratch, lines)
        })
    }

    pub fn on(start: impl FnOnce(&Scratch) -> Sshd) -> World {
        let scratch = Scratch::with("local-run/ remote-home/ remote-run/");
        World { server: start(&scratch), scratch, agent: HAUL.into(), near: None }
    }

    /// The program with these words and `--agent`. `~` is the working directory, as both ends see it.
    pub fn haul(&self, words: &str) -> Program {
        self.plain(words).arg("--agent").arg(&self.agent)
    }

    /// The same without `--agent`.
    pub fn plain(&self, words: &str) -> Program {
        let mut command = Command::new(HAUL);
        if let Some(near) = &self.near {
            near.enter(&mut command);
        }
        self.program(command, words).env("XDG_RUNTIME_DIR", self.path("local-run")).arg("-F").arg(self.server.config())
    }

    /// The processes of haul that this test's server has started, and have not ended.
    pub fn agents(&self) -> Vec<Pid> {
        let port = format!(" {}", self.server.port);
        let ours = Path::new(HAUL).canonicalize().expect("it was built");
        let is_agent = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let connects = |variable: &str| variable.strip_prefix("SSH_CONNECTION=").is_some_and(|connection| connection.ends_with(&port));
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == ours)
                && environment.split(|byte| *byte == 0).any(|variable| connects(&String::from_utf8_lossy(variable)))
        };
        let listed = fs::read_dir("/proc").expect("procfs").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        listed.filter(is_agent).filter_map(Pid::from_raw).collect()
    }

    /// Sockets of agents in the remote user's runtime directory.
    pub fn sockets(&self) -> Vec<String> {
        self.entries("remote-run/haul-0").into_iter().filter(|name| name.starts_with("agent-")).collect()
    }

    #[track_caller]
    pub fn assert_no_agents(&self) {
        until("the agents have ended", || self.agents().is_empty());
    }

    /// Makes an executable script.
    pub fn script(&self, name: &str, content: &str) -> PathBuf {
        self.write(name, content);
        self.chmod(name, 0o755);
        self.path(name)
    }
}

pub fn server(scratch: &Scratch, lines: &str) -> Sshd {
    let (home, run) = (scratch.path("remote-home"), scratch.path("remote-run"));
    let lines = format!("{lines}\nSetEnv HOME={} XDG_RUNTIME_DIR={}", home.display(), run.display());
    Sshd::start(&lines).expect("sshd can be started: openssh-server and root")
}

/// Where no private directory for a socket can be had: in a mount namespace of its own, everybody may enter the user's.
pub fn without_a_place_for_sockets(haul: Program) -> Program {
    let user = rustix::process::geteuid().as_raw();
    haul.through(&format!("mkdir -p /tmp/haul-{user} && mount -t tmpfs -o mode=777 none /tmp/haul-{user}")).without("XDG_RUNTIME_DIR")
}
