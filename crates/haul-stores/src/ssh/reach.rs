//! How a host is reached: a login, haul on the other side of it, else plain SFTP.

use std::sync::Arc;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::Location;
use haul_core::units;

use super::flags::Flags;
use super::host::{Route, SshHost, Streams};
use super::install::{self, Installed, Outcome, Program};
use super::routes::Routes;
use super::{Login, Target, remote_command};
use crate::agent::{self, Direct, SessionOptions};
use crate::provider::Access;
use crate::sftp::{self, CHANNELS};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the remote haul may take to greet: a login script may take a while to load modules.
const GREETING: Duration = Duration::from_secs(60);

/// A login to a host, before anything goes through it.
#[derive(Debug)]
pub struct Reach {
    pub login: Arc<Login>,
    /// The host as the user reaches it.
    pub endpoint: String,
    /// Its name, as typed.
    name: String,
    flags: Flags,
    site: agent::Site,
    access: Access,
    routes: Routes,
    placeable: bool,
}

impl Reach {
    /// # Errors
    /// No host in the address, or no ssh.
    pub fn new(access: &Access, location: &Location) -> Result<Reach> {
        let Some(name) = location.host.clone() else {
            return Err(Error::new(ErrorKind::Usage, "connect").because("the address has no host"));
        };
        let flags: Flags = access.get();
        let target = Target {
            host: name.clone(),
            user: location.user.clone(),
            port: location.port.or(flags.port),
            command: flags.ssh.as_ref().map(|words| words_of(words)).unwrap_or_default(),
            config: flags.ssh_config.clone(),
            jump: flags.jump.clone(),
            identities: flags.identities.clone(),
            options: flags.ssh_options.iter().map(Into::into).collect(),
            logins: flags.logins.max(1).into(),
            idle_timeout: access.idle_timeout,
        };
        let endpoint = target.endpoint();
        let login = Arc::new(Login::new(target)?);
        Ok(Reach {
            login,
            endpoint,
            name,
            flags,
            site: agent::Site::read(),
            access: access.clone(),
            routes: Routes(access.state_dir.clone()),
            placeable: false,
        })
    }

    /// The host of an address, by haul on it unless that is not wanted or not there.
    ///
    /// # Errors
    /// Whatever keeps the login or the conversation from being made.
    pub fn host(mut self, plain: bool, path: &[u8]) -> Result<SshHost> {
        let agent = if plain { None } else { self.agent(path)? };
        let route = match agent {
            Some(host) => Route::Agent(host),
            None => {
                let connect = |login: Arc<Login>| {
                    let channel = Box::new(move || login.sftp());
                    sftp::Host::connect("ssh", self.endpoint.clone(), channel, self.sessions())
                };
                Route::Sftp(self.login.again(|| connect(self.login.clone()))?.with_stripes(self.access.streams))
            }
        };
        let (streams, is_single) = (self.access.streams, self.login.is_single());
        let streams = match &route {
            _ if !self.access.moves_data => Streams::Unknown,
            Route::Sftp(_) if is_single => Streams::Single { direct: false },
            Route::Sftp(_) => streams.map_or(Streams::Unknown, |streams| Streams::Sessions(Some(streams))),
            Route::Agent(host) => {
                let port = host.data_port().filter(|_| self.is_direct());
                let to = port
                    .map(|port| if self.name.contains(':') { format!("[{}]:{port}", self.name) } else { format!("{}:{port}", self.name) });
                match to {
                    to if is_single => Streams::Single { direct: to.is_some() },
                    Some(to) => Streams::Direct { to: Some(to), streams },
                    None if self.is_direct() && self.flags.accept => Streams::Direct { to: None, streams },
                    None => Streams::Sessions(streams),
                }
            }
        };
        Ok(SshHost { route, streams, placeable: self.placeable, direct: !self.flags.no_direct })
    }

    /// Sessions of ssh at the most.
    fn sessions(&self) -> usize {
        self.access.streams.unwrap_or(CHANNELS)
    }

    /// For later runs: whether a data connection to the host could be made.
    pub fn learn(&self, works: bool) {
        if self.access.moves_data {
            self.routes.learn(&self.endpoint, works);
        }
    }

    /// Whether data connections are to be tried. Ports that were named are always tried.
    fn is_direct(&self) -> bool {
        let tried = self.flags.data_ports.is_some() || !self.routes.is_closed(&self.endpoint);
        self.access.moves_data && !self.flags.no_direct && tried && self.site.off.is_none()
    }

    /// haul on the remote host; `None` where there is none, unless `--agent` requires it.
    fn agent(&mut self, path: &[u8]) -> Result<Option<agent::Host>> {
        if self.flags.install_agent {
            self.place()?;
        }
        let direct = || {
            if !self.is_direct() {
                return None;
            }
            let (routes, host, login, access) = (self.routes.clone(), self.endpoint.clone(), self.login.clone(), self.access.clone());
            let report = move |seen: &agent::DirectOutcome| routes.saw(&host, seen, &|line| access.print(line));
            let reached = Box::new(move |claimed| login.reached(claimed));
            Some(Direct { ports: self.flags.data_ports, accept: self.flags.accept, reached, report_outcome: Arc::new(report) })
        };
        let greeted = match self.flags.install_agent {
            true => self.login.again(|| self.greet(path, direct())),
            false => self.greet(path, direct()),
        };
        // A connection that was cut does not show whether haul is there.
        let greeted = match greeted {
            Err(e) if agent::ended_silently(&e) && self.login.was_cut() => self.greet(path, direct()),
            greeted => greeted,
        };
        match greeted {
            Ok(host) => Ok(Some(host)),
            Err(e) if self.flags.agent.is_some() && matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::TimedOut) => {
                let e = self.login.explain(e);
                // Failures of ssh itself have a next step of their own.
                let hinted = e.next_step().is_some();
                Err(if hinted { e } else { e.hint("give the path of haul with --agent, or omit it to use plain SFTP") })
            }
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::TimedOut) => {
                if !self.flags.install_agent && agent::missing_platform(&e).is_some_and(|platform| platform == install::platform()) {
                    self.placeable = true;
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Greets haul on the remote host. `Unsupported` where there is none.
    pub fn greet(&self, path: &[u8], direct: Option<Direct>) -> Result<agent::Host> {
        let (login, asked) = (self.login.clone(), self.flags.agent.clone());
        let start = move |word: Option<&str>| login.run(&remote_command(asked.as_deref(), VERSION, word));
        let (sessions, streams, compress) = (self.sessions(), self.access.streams, self.access.compress);
        let site = self.site.clone();
        let options = SessionOptions { sessions, streams, greeting: GREETING, version: VERSION, compress, direct, site };
        agent::Host::connect(Box::new(start), options, self.endpoint.clone(), path)
    }

    /// `--install-agent`: installs this program on a remote host without a usable one, and prints a line about it. If it
    /// cannot be installed, that is printed and the run continues over plain SFTP; another platform is an error.
    pub fn place(&self) -> Result<()> {
        let endpoint = &self.endpoint;
        let program = Program::own(VERSION)?;
        let installed = match program.look(&self.login) {
            Ok(installed) => installed,
            Err(e) if e.kind() == ErrorKind::Unsupported && e.op() != install::OP => {
                self.access.print(&format!("{endpoint}: cannot install haul: {}", e.reason()));
                return Ok(());
            }
            Err(e) if e.op() == install::OP => return Err(e.at(self.endpoint.as_bytes())),
            Err(e) => return Err(self.login.explain(e)),
        };
        let instead = match installed {
            Installed::Same | Installed::Elsewhere => return Ok(()),
            Installed::Other => ", replacing a damaged or different build",
            Installed::Nothing => "",
        };
        match program.place(&self.login) {
            Ok(Outcome::Placed(path)) => {
                let size = units::bytes(program.bytes);
                let needs =
                    if program.is_static { "" } else { "; it is not the static program of ./release and uses the host's C library" };
                self.access.print(&format!("installed haul {VERSION} ({size}) at {endpoint}:{path}, verified{instead}{needs}"));
            }
            Ok(Outcome::CannotStart(words)) => {
                let needs =
                    if program.is_static { "" } else { " (it needs this machine's C library; the static program of ./release does not)" };
                self.access.print(&format!("{endpoint}: the installed haul {VERSION} does not start and was removed: {words}{needs}"));
            }
            Err(e) if e.op() == install::OP => self.access.print(&format!("{endpoint}: haul was not installed: {}", e.reason())),
            Err(e) => return Err(self.login.explain(e)),
        }
        Ok(())
    }
}

/// `-e 'ssh -p 2222'`: the command and its arguments, split at blanks as rsync does.
fn words_of(command: &std::ffi::OsStr) -> Vec<std::ffi::OsString> {
    use std::os::unix::ffi::OsStrExt;
    let words = command.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.map(|word| std::ffi::OsStr::from_bytes(word).to_os_string()).collect()
}
