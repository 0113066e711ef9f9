//! Reaching a host by the user's own `ssh` program: one login, several sessions in it.
//!
//! One ssh logs in and is the master of a private control socket for all sessions, so that a person is asked once, or not at all
//! where a master of the user's own runs (ControlMaster and ControlPath in ssh_config). No file name is part of a command line.

mod config;
pub mod flags;
pub mod host;
pub mod install;
mod login;
mod messages;
mod provider;
pub mod reach;
mod routes;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use flags::Flags;
pub use host::{Route, SshHost};
pub use login::Login;
pub use messages::{Entered, Whose};
pub use provider::{SFTP, SSH, SshProvider, is_plain as is_sftp};
pub use reach::Reach;

/// Where and how to log in. What is not set is ssh_config's.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub host: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// `-e CMD`: the program and its arguments in place of `ssh`.
    pub command: Vec<OsString>,
    pub config: Option<PathBuf>,
    pub jump: Option<String>,
    pub identities: Vec<PathBuf>,
    /// `--ssh-option`: values for ssh's `-o`.
    pub options: Vec<OsString>,
    /// So many logins, those after the first without questions; `None`: more than one if that gains, see [`Login::widen`].
    pub logins: Option<usize>,
    pub moves_data: bool,
    /// Nothing from the host for this long ends a session; default 300 s.
    pub idle_timeout: Option<Duration>,
    /// See [`haul_core::place::provider::Access::answer_timeout`].
    pub answer_timeout: Option<Duration>,
}

impl Target {
    /// As the user reaches it: another user may see other files.
    pub fn endpoint(&self) -> String {
        let user = self.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
        let port = self.port.map_or(String::new(), |port| format!(":{port}"));
        format!("{user}{}{port}", self.host)
    }
}

/// The command line that starts haul on the remote host, or prints that there is none. It means the same to sh, csh and
/// fish, and contains no name of a file but `haul`, which [`is_plain`] has checked. `word` joins a running agent.
pub fn remote_command(haul: Option<&str>, version: &str, word: Option<&str>) -> String {
    let join = word.map_or(String::new(), |word| format!(" --join {word}"));
    let places = remote_places(haul, version);
    // `sudo haul`: a command, where no program has this name.
    let command = haul.filter(|haul| haul.contains(' ')).map_or(String::new(), |haul| {
        let first = haul.split(' ').next().unwrap_or_default();
        format!("command -v {first} >/dev/null 2>&1 && echo \"haul-agent-starts {haul}\" && exec {haul} agent{join}; ")
    });
    format!(
        "exec sh -c 'for haul in {places}; do command -v \"$haul\" >/dev/null 2>&1 && echo \"haul-agent-starts $haul\" && \
         exec \"$haul\" agent{join}; done; {command}echo; echo \"haul-agent-missing `uname -sm`\"'"
    )
}

/// Where haul is searched on the remote host, as words of a script of `sh`, the first first.
pub(crate) fn remote_places(haul: Option<&str>, version: &str) -> String {
    match haul {
        Some(haul) => format!("\"{}\"", haul.strip_prefix("~/").map_or(haul.to_string(), |rest| format!("$HOME/{rest}"))),
        None => format!("\"{REMOTE_CACHE}/haul-{version}\" {REMOTE_OTHERS}"),
    }
}

/// The directory into which haul installs itself on the remote host.
pub(crate) const REMOTE_CACHE: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/haul";
/// Where else it may be installed.
pub(crate) const REMOTE_OTHERS: &str = "haul \"$HOME/.local/bin/haul\" \"$HOME/bin/haul\" \"$HOME/.cargo/bin/haul\"";

/// Whether a path may be part of [`remote_command`]: nothing in it has a meaning for a shell.
pub fn is_plain(path: &str) -> bool {
    !path.is_empty() && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./~+@%=,:- ".contains(&byte))
}
