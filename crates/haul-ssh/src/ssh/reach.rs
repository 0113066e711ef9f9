//! How a host is reached: a login, haul on the other side of it, else plain SFTP.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::place::Location;
use haul_core::units;

use super::flags::Flags;
use super::host::{Route, SshHost};
use super::install::{self, Installed, Outcome, Program};
use super::routes::Routes;
use super::{Login, Target, remote_command};
use crate::agent::{self, Direct, SessionOptions};
use crate::link_saturation::Widen;
use crate::sftp::{self, CHANNELS, Channel, NO_SFTP};
use haul_core::place::provider::Access;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the remote haul may take to greet: a login script may take a while to load modules.
const GREETING: Duration = Duration::from_secs(60);

/// A login to a host, before anything goes through it.
#[derive(Debug)]
pub struct Reach {
    pub login: Arc<Login>,
    /// The host as the user reaches it.
    pub endpoint: String,
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
        // As rsync does, so that a site sets it once.
        let command = flags.ssh.clone().or_else(|| std::env::var_os("RSYNC_RSH").filter(|words| !words.is_empty()));
        let target = Target {
            host: name.clone(),
            user: location.user.clone(),
            port: location.port.or(flags.port),
            command: command.map(|words| words_of(&words)).transpose()?.unwrap_or_default(),
            config: flags.ssh_config.clone(),
            jump: flags.jump.clone(),
            identities: flags.identities.clone(),
            options: flags.ssh_options.iter().map(Into::into).collect(),
            logins: flags.logins.map(usize::from),
            moves_data: access.moves_data,
            idle_timeout: access.idle_timeout,
            answer_timeout: access.answer_timeout,
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
        // Where haul was not found within a day, SFTP starts while it is looked for again.
        let expects_sftp = !plain && self.flags.agent.is_none() && !self.flags.install_agent && self.routes.is_plain(&self.endpoint);
        let early = if expects_sftp && self.login.is_shared()? { EarlySftp::begin(&self.login) } else { EarlySftp::default() };
        let agent = if plain { None } else { self.agent(path, &early)? };
        let route = match agent {
            Some(host) => Route::Agent(host),
            None => {
                let early = Arc::new(early);
                let connect = |login: Arc<Login>| {
                    let early = early.clone();
                    let channel = Box::new(move || early.take().map_or_else(|| login.sftp(), Ok));
                    sftp::Host::connect("ssh", self.endpoint.clone(), channel, self.sessions())
                };
                let host = self.login.again(|| connect(self.login.clone())).map_err(|e| self.without_sftp(e))?;
                Route::Sftp(host.with_stripes(self.access.streams).with_logins(self.widen()))
            }
        };
        let streams = self.streams(&route);
        let direct = !self.flags.no_direct;
        Ok(SshHost { route, streams, placeable: self.placeable, direct, login: self.login.clone(), homes: Mutex::default() })
    }

    /// The connections of the host's data, as far as they are known in advance.
    fn streams(&self, route: &Route) -> String {
        let (streams, is_single) = (self.access.streams, self.login.is_single());
        let single = |direct| format!(" ({direct}one ssh session: no private directory for the control socket of further sessions)");
        let sessions = || match streams {
            Some(1) => " (1 ssh session)".to_string(),
            streams => format!(" (up to {} ssh sessions)", streams.unwrap_or(CHANNELS)),
        };
        let port = match route {
            _ if !self.access.moves_data => return String::new(),
            Route::Sftp(_) if is_single => return single(String::new()),
            Route::Sftp(_) => return streams.map_or_else(String::new, |_| sessions()),
            Route::Agent(host) => host.data_port().filter(|_| self.is_direct()),
        };
        let name = show(if self.name.contains(':') { format!("[{}]", self.name) } else { self.name.clone() }.as_bytes());
        let to = match port {
            Some(_) if is_single => return single(format!("up to {} streams or ", agent::DATA)),
            None if is_single => return single(String::new()),
            Some(port) => format!("to {name}:{port}"),
            None if self.is_direct() && self.flags.accept => "from there".into(),
            None => return sessions(),
        };
        let streams = match streams {
            None => format!("up to {} streams", agent::DATA),
            Some(1) => "1 stream".into(),
            Some(streams) => format!("{streams} streams"),
        };
        format!(", direct TCP {to} ({streams}, TLS 1.3), else through ssh")
    }

    /// A host that runs commands and has no SFTP can have haul.
    fn without_sftp(&self, e: Error) -> Error {
        match self.placeable && e.next_step() == Some(NO_SFTP) {
            true => e.hint("if the server has no SFTP: --install-agent installs haul, which needs none"),
            false => e,
        }
    }

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
    fn agent(&mut self, path: &[u8], early: &EarlySftp) -> Result<Option<agent::Host>> {
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
        // A host that allows one session has given it to SFTP.
        let greeted = match greeted {
            Err(e) if agent::ended_silently(&e) && early.end() => self.login.again(|| self.greet(path, direct())),
            greeted => greeted,
        };
        match greeted {
            Ok(host) => {
                self.routes.found(&self.endpoint, true);
                Ok(Some(host))
            }
            Err(e) if self.flags.agent.is_some() && matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::TimedOut) => {
                let e = self.login.explain(e);
                // Failures of ssh itself have a next step of their own.
                let hinted = e.next_step().is_some();
                Err(if hinted { e } else { e.hint("give the path of haul with --agent, or omit it to use plain SFTP") })
            }
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::TimedOut) => {
                if e.kind() == ErrorKind::TimedOut {
                    let next = "using plain SFTP (--agent names another haul, --no-agent does not look for one)";
                    self.access.print(&format!("{}: {}; {next}", show(self.endpoint.as_bytes()), e.reason()));
                }
                if let Some(platform) = agent::missing_platform(&e) {
                    self.placeable = !self.flags.install_agent && platform == install::platform();
                    if self.flags.agent.is_none() {
                        self.routes.found(&self.endpoint, false);
                    }
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Makes further logins where the user leaves their number to haul; `None` where it is not to be asked for any.
    fn widen(&self) -> Option<Box<Widen>> {
        let may = self.access.moves_data && self.flags.logins.is_none() && self.access.streams.is_none();
        let login = self.login.clone();
        may.then(|| Box::new(move || login.widen()) as Box<Widen>)
    }

    /// Greets haul on the remote host. `Unsupported` where there is none.
    pub fn greet(&self, path: &[u8], direct: Option<Direct>) -> Result<agent::Host> {
        let (login, asked) = (self.login.clone(), self.flags.agent.clone());
        let start = move |word: Option<&str>| login.run(&remote_command(asked.as_deref(), VERSION, word));
        let (sessions, streams, compress) = (self.sessions(), self.access.streams, self.access.compress);
        let site = self.site.clone();
        let greeting = self.access.idle_timeout.map_or(GREETING, |timeout| timeout.min(GREETING)).min(self.login.left());
        let answer_timeout = self.access.answer_timeout;
        let widen = self.widen();
        let options = SessionOptions { sessions, streams, greeting, answer_timeout, version: VERSION, compress, direct, site, widen };
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
            Installed::Other => ", replacing a damaged or different build".into(),
            Installed::Version(other) => format!(", used in place of haul {} there", show(other.as_bytes())),
            Installed::Nothing => String::new(),
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

/// An SFTP session that is started before it is known whether it is needed.
#[derive(Default)]
struct EarlySftp(Mutex<Option<JoinHandle<Result<Channel>>>>);

impl EarlySftp {
    fn begin(login: &Arc<Login>) -> EarlySftp {
        let login = login.clone();
        // Without the thread it begins later. One that is not needed is not waited for.
        EarlySftp(Mutex::new(std::thread::Builder::new().name("session".into()).spawn(move || login.sftp()).ok()))
    }

    /// Ends it; `false` if there was none.
    fn end(&self) -> bool {
        let begun = lock(&self.0).take();
        // A channel that is dropped ends its session.
        begun.is_some_and(|begun| begun.join().is_ok())
    }

    /// Once, if it could be begun and has not ended: a server may close the connection behind a command.
    fn take(&self) -> Option<Channel> {
        lock(&self.0).take()?.join().ok()?.ok().filter(|channel| !channel.is_over())
    }
}

/// `-e 'ssh -p 2222 -o "User=x y"'`: the command and its arguments, split at blanks outside quotes. As in rsync, a quote that is
/// doubled inside its own kind of quotes stands for itself, and a backslash has no meaning.
fn words_of(command: &OsStr) -> Result<Vec<OsString>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = command.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match quote {
            Some(open) if byte == open && bytes.peek() == Some(&open) => word.get_or_insert_default().extend(bytes.next()),
            Some(open) if byte == open => quote = None,
            Some(_) => word.get_or_insert_default().push(byte),
            None if matches!(byte, b'"' | b'\'') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            None if matches!(byte, b' ' | b'\t') => words.extend(word.take().map(OsString::from_vec)),
            None => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        let e = Error::new(ErrorKind::Usage, "-e").because(format!("a quote is not closed: {}", show(command.as_bytes())));
        return Err(e);
    }
    words.extend(word.map(OsString::from_vec));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_at_blanks_outside_quotes() {
        for (command, words) in [
            ("ssh -p 2222", vec!["ssh", "-p", "2222"]),
            ("ssh  -o \"User=x y\" ", vec!["ssh", "-o", "User=x y"]),
            ("ssh -o 'ProxyCommand=nc \"a b\" 22'", vec!["ssh", "-o", "ProxyCommand=nc \"a b\" 22"]),
            ("ssh -o User='x'y \"\"", vec!["ssh", "-o", "User=xy", ""]),
            ("'it''s' a\\b", vec!["it's", "a\\b"]),
            ("", vec![]),
        ] {
            assert_eq!(words_of(OsStr::new(command)).expect("closed"), words, "{command}");
        }
        assert_eq!(words_of(OsStr::new("ssh -o \"User=x")).expect_err("open").kind(), ErrorKind::Usage);
    }
}
