//! What ssh tells of itself without a connection: its configuration, and whether a master of the user's own runs. Each wait has a
//! bound, since a stopped master answers nothing.

use std::time::{Duration, Instant};

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};

use super::Login;
use crate::ssh::config::Config;
use haul_net::child;

/// How long a master may take to answer; it needs no network for that.
const MASTER: Duration = Duration::from_secs(10);
/// How long ssh may take to read its configuration, which may resolve names and run commands (`Match exec`).
const CONFIG: Duration = Duration::from_secs(30);

impl Login {
    /// From now on no session waits past `until` for its other end to greet. The first call counts.
    pub fn greet_until(&self, until: Instant) {
        self.until.get_or_init(|| until);
    }

    pub(crate) fn left(&self) -> Duration {
        self.until.get().map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
    }

    /// `most`, or less with `--timeout`.
    fn bound(&self, most: Duration) -> Duration {
        [self.target.idle_timeout, self.target.answer_timeout].into_iter().flatten().fold(most, Duration::min)
    }

    /// What ssh would use; `None` for a command of the user's own, which may not know `-G`.
    ///
    /// # Errors
    /// ssh does not end.
    pub(super) fn config(&self) -> Result<Option<Config>> {
        if !self.target.command.is_empty() {
            return Ok(None);
        }
        let mut asked = self.ssh(&[], true);
        asked.args(["-G", "--"]).arg(&self.target.host);
        let most = self.bound(CONFIG);
        match child::run(asked, most) {
            Ok((status, printed)) if status.success() => Ok(Some(Config(String::from_utf8_lossy(&printed).into_owned()))),
            Err(e) if e.kind() == ErrorKind::TimedOut => {
                let reason = format!("`ssh -G` did not end within {} s", most.as_secs_f64());
                Err(self.hangs(reason, "check your ssh configuration: a command in it (Match exec) may hang, or a name server".into()))
            }
            _ => Ok(None),
        }
    }

    /// Whether a master that the user has running answers; `socket` is its control socket where that is known.
    ///
    /// # Errors
    /// It has the socket and does not answer.
    pub(super) fn users_master(&self, socket: Option<&str>) -> Result<bool> {
        let mut check = self.ssh(&[], true);
        check.args(["-O", "check", "--"]).arg(&self.target.host);
        let most = self.bound(MASTER);
        match child::run(check, most) {
            Err(e) if e.kind() == ErrorKind::TimedOut => {
                let socket = socket.map_or_else(String::new, |socket| format!(" at the control socket {}", show(socket.as_bytes())));
                let reason = format!("your ssh master{socket} did not answer within {} s", most.as_secs_f64());
                let next = format!("end it (ssh -O exit {}, or kill its process), then run the same command", self.target.host);
                Err(self.hangs(reason, next))
            }
            checked => Ok(checked.is_ok_and(|(status, _)| status.success())),
        }
    }

    /// A lost connection and no timeout: haul is not to try another way through the same ssh.
    fn hangs(&self, reason: String, next_step: String) -> Error {
        Error::new(ErrorKind::Broken, "connect").at(self.target.host.as_bytes()).because(reason).hint(next_step)
    }
}
