//! One login to a host, and the ssh sessions that share it.

mod checks;
mod further;
mod wrapped;

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::retry::{self, Policy};

use super::Target;
use super::config::Config;
use super::messages::{Entered, Messages, Whose};
use crate::agent::{Pipes, widen};
use crate::private::{private_directory, unique};
use crate::sftp::{Channel, SPEAK};
use haul_core::lock::lock;
use haul_net::child;

use further::Further;
use wrapped::Exit;

/// How long a person may take to answer ssh: the password, a code from a phone.
const LOGIN: Duration = Duration::from_secs(300);
/// An fsync of a large file or a recall from tape may take minutes; ssh itself detects a lost host sooner.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Seconds for the connection and the exchange of keys, as ssh counts them.
const CONNECTING: u64 = 30;
/// How long after the last session in it the end of a connection may show.
const GONE: Duration = Duration::from_millis(300);
/// How long a further session may take to open.
const SESSION: Duration = Duration::from_secs(30);

/// Options that must be so, before those of the user: the first value of an option counts.
const ALWAYS: [&str; 5] = ["ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none", "RequestTTY=no", "ForwardAgent=no"];

type Ended = std::io::Result<Option<ExitStatus>>;

#[derive(Debug)]
pub struct Login {
    target: Target,
    /// The control socket; `None` where there is no safe place for one.
    socket: Option<PathBuf>,
    master: Mutex<Option<Master>>,
    /// Ends the master behind a command that did not become it.
    exit: Mutex<Option<Exit>>,
    messages: Messages,
    further: Mutex<Further>,
    sessions: AtomicUsize,
    /// One beside the first: non-interactive, with a connection of its own, its messages are not shown.
    is_further: bool,
    /// Options against what in the user's configuration no session of haul works with.
    undone: OnceLock<Vec<String>>,
    used: Mutex<Option<Config>>,
    /// No session waits longer for its other end.
    until: OnceLock<Instant>,
}

#[derive(Debug)]
enum Master {
    /// Our own, behind the private socket.
    Own(Child),
    /// One that the user has running, and its socket where that is known.
    Users(Option<String>),
    /// No socket can be made: each session logs in by itself.
    Each,
}

impl Login {
    pub fn new(target: Target) -> Result<Login> {
        // A host from a file or a script may begin with a dash, which makes it an option of ssh.
        let bad =
            |words: &str| words.starts_with('-') || words.is_empty() || words.bytes().any(|byte| byte.is_ascii_control() || byte == b' ');
        if bad(&target.host) || target.user.as_deref().is_some_and(bad) || target.jump.as_deref().is_some_and(bad) {
            return Err(Error::new(ErrorKind::Usage, "connect").because("not a valid host or user name"));
        }
        let socket = private_directory().map(|place| place.join(format!("s{:012x}", unique() & 0xffff_ffff_ffff)));
        Ok(Login {
            target,
            socket,
            master: Mutex::default(),
            exit: Mutex::default(),
            messages: Messages::default(),
            further: Mutex::default(),
            sessions: AtomicUsize::new(0),
            is_further: false,
            undone: OnceLock::new(),
            used: Mutex::default(),
            until: OnceLock::new(),
        })
    }

    /// ssh with the options of every use: `first`, then the fixed ones, then the user's own.
    fn ssh(&self, first: &[OsString], jump: bool) -> Command {
        let mut words = self.target.command.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new("ssh"), OsString::as_os_str));
        command.args(words);
        for option in first.iter().map(OsString::as_os_str).chain(ALWAYS.iter().map(OsStr::new)) {
            command.arg("-o").arg(option);
        }
        if let Some(config) = &self.target.config {
            command.arg("-F").arg(config);
        }
        if let Some(port) = self.target.port {
            command.arg("-p").arg(port.to_string());
        }
        for identity in &self.target.identities {
            command.arg("-i").arg(identity);
        }
        if let Some(host) = self.target.jump.as_ref().filter(|_| jump) {
            command.arg("-J").arg(host);
        }
        for option in &self.target.options {
            command.arg("-o").arg(option);
        }
        for option in self.undone.get().into_iter().flatten() {
            command.arg("-o").arg(option);
        }
        let connecting = self.target.idle_timeout.map_or(CONNECTING, |timeout| timeout.as_secs().clamp(1, CONNECTING));
        for option in ["ServerAliveInterval=15", "ServerAliveCountMax=4", &format!("ConnectTimeout={connecting}")] {
            command.arg("-o").arg(option);
        }
        command.args(["-x", "-T"]);
        if let Some(user) = &self.target.user {
            command.arg("-l").arg(user);
        }
        command
    }

    pub fn sftp(&self) -> Result<Channel> {
        if let Some(other) = self.another() {
            return other.sftp();
        }
        let (mut command, greeting) = self.session()?;
        command.args(["-s", "--"]).arg(&self.target.host).arg("sftp");
        let idle_timeout = self.target.idle_timeout.unwrap_or(IDLE_TIMEOUT);
        let stderr = self.stderr()?;
        let channel = Channel::start(command, stderr, idle_timeout, greeting);
        let is_final = self.target.answer_timeout.is_some();
        channel.map(|channel| channel.with(&self.target.host).ending(is_final)).map_err(|e| self.explain(e))
    }

    /// A command in a session of its own. It goes through the remote user's shell, whichever that is: see [`super::remote_command`].
    pub fn run(&self, command_line: &str) -> Result<Pipes> {
        if let Some(other) = self.another() {
            return other.run(command_line);
        }
        let (mut command, _) = self.session()?;
        command.arg("--").arg(&self.target.host).arg(command_line);
        command.stderr(self.stderr()?);
        let (child, input, output) = child::start(command)?;
        let (input, output) = (input.into(), output.into());
        widen(&input);
        widen(&output);
        Ok(Pipes { input, output, transport: Box::new(child) })
    }

    /// As `run`, over a socket that is its standard input and output.
    pub fn run_over(&self, command_line: &str, socket: std::os::fd::OwnedFd) -> Result<Child> {
        let (mut command, _) = self.session()?;
        command.arg("--").arg(&self.target.host).arg(command_line);
        command.stderr(self.stderr()?);
        child::start_over(command, socket)
    }

    /// For a session, whose messages are for no person unless it logs in by itself.
    fn stderr(&self) -> Result<Stdio> {
        self.messages.pipe(self.is_single()).map(|(stderr, _)| stderr)
    }

    /// ssh in a further session of the one login, which is made if there is none; and how long its other end may take to
    /// greet.
    fn session(&self) -> Result<(Command, Duration)> {
        // One at a time: the first caller logs in, the others go through the socket.
        let mut master = lock(&self.master);
        if let Some(Master::Own(child)) = &mut *master
            && !matches!(child.try_wait(), Ok(None))
        {
            // The connection was lost: log in again.
            *master = None;
        }
        if let Some(Master::Users(socket)) = &*master
            && !self.users_master(socket.as_deref())?
        {
            *master = None;
        }
        let again = matches!(&*master, Some(Master::Each));
        let standing = self.standing(&mut master, false)?;
        if again {
            return Err(Error::new(ErrorKind::Unsupported, "connect").because("another session would need another login"));
        }
        let through: Vec<OsString> = match standing {
            // Never a second login behind the user's back: what the master refuses is refused.
            Master::Own(_) => vec![self.control_path(), "ControlMaster=no".into(), "ProxyCommand=exit 1".into()],
            Master::Users(socket) => {
                let path = socket.as_ref().map(|socket| format!("ControlPath={}", socket.replace('%', "%%")).into());
                path.into_iter().chain(["ControlMaster=no".into(), "ProxyCommand=exit 1".into()]).collect()
            }
            Master::Each => Vec::new(),
        };
        let command = self.ssh(&through, matches!(standing, Master::Each));
        let idle_timeout = self.target.idle_timeout.unwrap_or(IDLE_TIMEOUT);
        let greeting = if matches!(standing, Master::Each) { LOGIN } else { SESSION.min(idle_timeout).min(self.left()) };
        Ok((command, greeting))
    }

    /// Logs in, unless that was done before, and reports how.
    pub fn enter(&self) -> Result<Entered> {
        let mut master = lock(&self.master);
        let begun = Instant::now();
        let whose = match self.standing(&mut master, true)? {
            Master::Own(_) => Whose::Ours,
            Master::Users(_) => Whose::Users,
            Master::Each => Whose::Each,
        };
        let took = begun.elapsed();
        // The last bytes may still be in the pipe.
        let until = Instant::now() + Duration::from_millis(300);
        while whose == Whose::Ours && !self.messages.text().contains("Authenticated to ") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Entered::new(took, whose, &self.messages.text()))
    }

    /// Logs in if necessary, and returns whether sessions share the login. Where each has its own, none is begun.
    pub fn is_shared(&self) -> Result<bool> {
        let mut master = lock(&self.master);
        let is_shared = !matches!(self.standing(&mut master, false)?, Master::Each);
        master.take_if(|_| !is_shared);
        Ok(is_shared)
    }

    /// The login there is, or a new one.
    fn standing<'a>(&self, master: &'a mut Option<Master>, verbose: bool) -> Result<&'a mut Master> {
        let standing = master.take().map_or_else(|| self.log_in(verbose), Ok)?;
        Ok(master.insert(standing))
    }

    /// Whether there can be only one session: another would be another login, for which a person may be asked.
    pub fn is_single(&self) -> bool {
        matches!(&*lock(&self.master), Some(Master::Each))
    }

    fn control_path(&self) -> OsString {
        let mut option = OsString::from("ControlPath=");
        option.push(self.socket.as_deref().unwrap_or(std::path::Path::new("none")));
        option
    }

    /// See `Config::reachable`.
    pub fn reached(&self, claimed: IpAddr) -> Option<IpAddr> {
        let used = lock(&self.used).clone();
        used.or_else(|| self.config().ok().flatten()).unwrap_or_default().reachable(&self.target.host, claimed, self.target.jump.is_some())
    }

    /// With `verbose` ssh prints how it logs in. A server that has too many logins under way (MaxStartups) closes further ones before
    /// it asks a question: these are tried again.
    fn log_in(&self, verbose: bool) -> Result<Master> {
        let mut tries = 0;
        loop {
            match self.log_in_once(verbose) {
                Err(_) if tries < STARTUPS && is_turned_away(&self.messages.text()) => {
                    tries += 1;
                    let wait = Policy::default().wait(tries + 1, Remedy::None);
                    let until = Instant::now() + wait;
                    while Instant::now() < until {
                        retry::check()?;
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
                done => return done,
            }
        }
    }

    fn log_in_once(&self, verbose: bool) -> Result<Master> {
        let known = lock(&self.used).clone().filter(|_| self.is_further);
        let config = if known.is_some() { known } else { self.config()? };
        if let Some(config) = &config {
            self.undone.get_or_init(|| config.undone());
        }
        *lock(&self.used) = config.clone();
        // Where ssh has no place for a control socket no master can answer.
        let its_socket = config.as_ref().map(|config| config.get("controlpath").unwrap_or("none"));
        if !self.is_further && its_socket != Some("none") {
            if self.users_master(its_socket)? {
                return Ok(Master::Users(its_socket.map(str::to_string)));
            }
            if let Some(config) = config.as_ref().filter(|config| config.has_persistent_master()) {
                return self.start_users_master(config);
            }
        }
        let Some(socket) = &self.socket else { return Ok(Master::Each) };
        // One that a master has left which was killed is no login.
        let _ = std::fs::remove_file(socket);
        let mut ours = vec![self.control_path(), "ControlMaster=yes".into(), "ControlPersist=no".into()];
        ours.extend(config.as_ref().and_then(Config::ciphers).map(|ciphers| format!("Ciphers={ciphers}").into()));
        // Where ssh is silenced, how it logs in is not shown, either.
        let is_silenced = matches!(config.as_ref().and_then(|config| config.get("loglevel")), Some("QUIET" | "FATAL" | "ERROR"));
        let may_widen = self.target.moves_data && self.target.logins.is_none() && !is_silenced;
        if verbose || may_widen {
            ours.push("LogLevel=DEBUG1".into());
        }
        // The socket is there as soon as the login is.
        let child = self.start(&ours, !(self.is_further || verbose && is_silenced), |_| socket.exists())?;
        self.messages.keep_first();
        if !wrapped::is_ssh(&child) {
            let mut exit = self.ssh(&[self.control_path()], false);
            exit.args(["-O", "exit", "--"]).arg(&self.target.host);
            *lock(&self.exit) = Exit::watch(&exit);
        }
        Ok(Master::Own(child))
    }

    /// Starts the master that the user's configuration asks for (`ControlMaster auto` and `ControlPersist`): it stays behind, and
    /// later commands, the user's own too, log in no more.
    fn start_users_master(&self, config: &Config) -> Result<Master> {
        let ciphers: Vec<OsString> = config.ciphers().map(|ciphers| format!("Ciphers={ciphers}").into()).into_iter().collect();
        let socket = config.get("controlpath");
        // It leaves as soon as the login is there; a child of its own serves the socket.
        let is_in = |ended: &Ended| matches!(ended, Ok(Some(status)) if status.success()) && self.users_master(socket).unwrap_or(false);
        self.start(&ciphers, true, is_in)?;
        Ok(Master::Users(socket.map(str::to_string)))
    }

    /// Starts an ssh without a session, and returns it once it `is_in`. It asks a person on the terminal itself, whatever its input and
    /// output are. What it prints for one (a banner, a warning, a key to be touched) goes to standard error if it is `shown`.
    fn start(&self, first: &[OsString], shown: bool, is_in: impl Fn(&Ended) -> bool) -> Result<Child> {
        let mut command = self.ssh(first, true);
        command.args(["-N", "--"]).arg(&self.target.host);
        let (stderr, shown) = self.messages.pipe(shown)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let mut child = child::start_with_us(command)?;
        let until = Instant::now() + LOGIN;
        let e = loop {
            let ended = child.try_wait();
            if is_in(&ended) {
                shown.finish(false);
                return Ok(child);
            }
            match ended {
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => {
                    child::end(&mut child);
                    break Error::new(ErrorKind::TimedOut, "connect").because("the login took too long");
                }
                _ => break Error::new(ErrorKind::Broken, "connect").because("ssh ended before the login").remedy_is(Remedy::Reconnect),
            }
        };
        shown.finish(true);
        Err(self.explain(e))
    }

    /// Tries again for two seconds where the host has refused a session, since one before it may be about to end, or where it
    /// closed the whole connection over the session before, as some servers do after a command. It gains nothing while another
    /// session is held.
    pub fn again<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let done = attempt();
            if done.is_ok() || Instant::now() > until || !self.messages.is_session_refused() {
                return done;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether the connection itself was cut since the login, with all that went through it.
    pub fn was_cut(&self) -> bool {
        let until = Instant::now() + GONE;
        loop {
            let mut master = lock(&self.master);
            let lost = match &mut *master {
                Some(Master::Own(child)) => !matches!(child.try_wait(), Ok(None)),
                Some(Master::Users(socket)) => !self.users_master(socket.as_deref()).unwrap_or(false),
                Some(Master::Each) | None => false,
            };
            drop(master);
            if lost || Instant::now() > until {
                // A server that disconnects on purpose, as some do after a command, reports that.
                return lost && !self.messages.text().contains("Received disconnect from");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Replaces the reason by ssh's own message, with the next step.
    pub fn explain(&self, e: Error) -> Error {
        if e.op() == SPEAK {
            // Messages of start-up files are unrelated to it.
            return e.at(self.target.host.as_bytes());
        }
        self.messages.explain(e, &self.target.host)
    }
}

/// How often a login is tried again that the server has closed before it began.
const STARTUPS: u32 = 5;

/// Whether the server closed the connection before the login began, as it does where too many are under way.
fn is_turned_away(text: &str) -> bool {
    text.contains("Exceeded MaxStartups")
        || text.lines().any(|line| {
            let early =
                ["kex_exchange_identification: ", "ssh_exchange_identification: ", "banner exchange: "].iter().any(|at| line.contains(at));
            early && ["Connection closed by", "Connection reset by"].iter().any(|what| line.contains(what))
        })
}

impl Drop for Login {
    fn drop(&mut self) {
        drop(lock(&self.exit).take());
        // The socket first: the last holder may be a thread that the end of the program cuts off, and then the master
        // is ended by the system.
        if let Some(socket) = &self.socket {
            let _ = std::fs::remove_file(socket);
        }
        if let Some(Master::Own(child)) = self.master.get_mut().unwrap_or_else(PoisonError::into_inner) {
            child::end(child);
        }
    }
}

#[cfg(test)]
mod tests;
