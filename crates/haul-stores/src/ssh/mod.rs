//! Reaching a host by the user's own `ssh` program: one login, several sessions in it.
//!
//! One ssh logs in and is the master of a private control socket; conversations go through it, so that a person is asked
//! once. A user who has a master running already (ControlMaster and ControlPath in ssh_config) is not asked at all. No
//! name of a file is ever part of a command line.

pub mod flags;
pub mod host;
pub mod install;
mod provider;
pub mod reach;
mod routes;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Read, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use haul_core::error::{Error, ErrorKind, Remedy, Result};

pub use flags::Flags;
pub use host::{Route, SshHost};
pub use provider::{SFTP, SSH, SshProvider, is_plain as is_sftp};
pub use reach::Reach;

use crate::agent::{Pipes, widen};
use crate::private::private_directory;
use crate::sftp::{Channel, SPEAK, detach};

/// Where and how, as the user said it. What is not said is ssh_config's.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub host: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// `-e CMD`: the program and its arguments in place of `ssh`.
    pub command: Vec<OsString>,
    /// `-F FILE`.
    pub config: Option<PathBuf>,
    /// `-J HOST`.
    pub jump: Option<String>,
    pub identities: Vec<PathBuf>,
    /// `--ssh-option`: what stands behind ssh's `-o`.
    pub options: Vec<OsString>,
    /// Logins at the most, 0 counting as 1: those behind the first must need nobody to answer.
    pub logins: usize,
    /// Nothing from the host for this long ends a conversation; 300 s if it is not said.
    pub patience: Option<Duration>,
}

/// How long a person may take to answer what ssh asks: the password, a code from a phone.
const LOGIN: Duration = Duration::from_secs(300);
/// An fsync of a large file or a recall from tape may take minutes; that the host itself is gone ssh finds out by itself.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long after the last session in it the end of a connection may show.
const GONE: Duration = Duration::from_millis(300);
/// How long a further session may take to open.
const SESSION: Duration = Duration::from_secs(30);

/// Bytes that are kept of what ssh says: all of how it logs in, where it was asked to tell that.
const KEPT: usize = 64 << 10;

/// Options that must be so, before those of the user: the first value of an option counts.
const ALWAYS: [&str; 5] = ["ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none", "RequestTTY=no", "ForwardAgent=no"];

/// A login that several conversations share.
#[derive(Debug)]
pub struct Login {
    target: Target,
    /// The control socket; `None` where there is no safe place for one.
    socket: Option<PathBuf>,
    master: Mutex<Option<Master>>,
    /// What ssh has said last on its standard error.
    said: Arc<Mutex<Vec<u8>>>,
    /// Further logins, which sessions are spread over; `None` once one was refused.
    further: Mutex<Option<Vec<Arc<Login>>>>,
    /// Sessions so far.
    sessions: AtomicUsize,
}

/// Who is logged in.
#[derive(Debug)]
enum Master {
    /// Our own, behind the private socket.
    Own(Child),
    /// One that the user has running, and its socket where that is known.
    Users(Option<String>),
    /// No socket can be made: each conversation logs in by itself.
    Each,
}

/// Whose connection the sessions go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// That of a master which the user has running.
    Users,
    /// Each session would log in by itself: there is one.
    Each,
}

/// How a login came about.
#[derive(Clone, Debug)]
pub struct Entered {
    pub took: Duration,
    pub whose: Whose,
    /// `publickey`, `password` and so on; what follows is known of logins of our own only.
    pub method: Option<String>,
    /// The server's program and version, as it says them.
    pub server: Option<String>,
    /// The ciphers of what is sent and of what is received.
    pub ciphers: Option<(String, String)>,
}

impl Entered {
    fn new(took: Duration, whose: Whose, said: &str) -> Entered {
        let word = |mark: &str| {
            let line = said.lines().find_map(|line| line.split_once(mark))?.1;
            line.split([' ', '"', ',']).next().filter(|word| !word.is_empty()).map(str::to_string)
        };
        Entered {
            took,
            whose,
            method: said
                .lines()
                .filter_map(|line| line.strip_prefix("Authenticated to ")?.split('"').nth(1))
                .next_back()
                .map(str::to_string),
            server: word("remote software version "),
            ciphers: word("kex: client->server cipher: ").zip(word("kex: server->client cipher: ")),
        }
    }
}

impl Target {
    /// As the user reaches it: another user may see other files.
    pub fn endpoint(&self) -> String {
        let user = self.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
        let port = self.port.map_or(String::new(), |port| format!(":{port}"));
        format!("{user}{}{port}", self.host)
    }
}

impl Login {
    pub fn new(target: Target) -> Result<Login> {
        // What begins with a dash would be an option of ssh; a host from a file or a script may.
        let bad =
            |words: &str| words.starts_with('-') || words.is_empty() || words.bytes().any(|byte| byte.is_ascii_control() || byte == b' ');
        if bad(&target.host) || target.user.as_deref().is_some_and(bad) || target.jump.as_deref().is_some_and(bad) {
            return Err(Error::new(ErrorKind::Usage, "connect").because("not a valid host or user name"));
        }
        let socket = private_directory().map(|place| place.join(socket_name()));
        let further = Mutex::new(Some(Vec::new()));
        Ok(Login { target, socket, master: Mutex::default(), said: Arc::default(), further, sessions: AtomicUsize::new(0) })
    }

    /// ssh with what it is told in every use: `first`, then what must be so, then the user's own.
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
        for option in ["ServerAliveInterval=15", "ServerAliveCountMax=4", "ConnectTimeout=30"] {
            command.arg("-o").arg(option);
        }
        command.args(["-x", "-T"]);
        if let Some(user) = &self.target.user {
            command.arg("-l").arg(user);
        }
        command
    }

    /// The SFTP subsystem in a session of its own.
    pub fn sftp(&self) -> Result<Channel> {
        if let Some(other) = self.another() {
            return other.sftp();
        }
        let (mut command, greeting) = self.session()?;
        command.args(["-s", "--"]).arg(&self.target.host).arg("sftp");
        let patience = self.target.patience.unwrap_or(PATIENCE);
        let stderr = self.listen(Arc::new(AtomicBool::new(false)))?;
        let channel = Channel::start(command, stderr, patience, greeting);
        channel.map(|channel| channel.with(&self.target.host)).map_err(|e| self.explain(e))
    }

    /// A command in a session of its own. It goes through the far user's shell, whichever that is: see [`far_command`].
    pub fn run(&self, far: &str) -> Result<Pipes> {
        if let Some(other) = self.another() {
            return other.run(far);
        }
        let (mut command, _) = self.session()?;
        command.arg("--").arg(&self.target.host).arg(far);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(self.listen(Arc::new(AtomicBool::new(false)))?);
        detach(&mut command);
        let program = command.get_program().to_os_string();
        let mut child = command.spawn().map_err(|e| Error::io(e, "start").at(program.as_encoded_bytes()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(ErrorKind::Other, "start").because("no pipes"));
        };
        let (input, output) = (input.into(), output.into());
        widen(&input);
        widen(&output);
        Ok(Pipes { input, output, carrier: Box::new(child) })
    }

    /// The login whose turn it is, if it is not this one. One TCP connection carries no more than its window in a round trip;
    /// further ones are made only if the user wants them, and only where nobody is asked anything.
    fn another(&self) -> Option<Arc<Login>> {
        let turn = self.sessions.fetch_add(1, Ordering::Relaxed) % self.target.logins.max(1);
        if turn == 0 {
            return None;
        }
        let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
        let logins = further.as_mut()?;
        if let Some(login) = logins.get(turn - 1) {
            return Some(login.clone());
        }
        let mut target = Target { logins: 1, ..self.target.clone() };
        target.options.insert(0, "BatchMode=yes".into());
        let made = Login::new(target).and_then(|login| login.enter().map(|_| login));
        match made {
            Ok(login) => {
                logins.push(Arc::new(login));
                logins.last().cloned()
            }
            Err(_) => {
                // Somebody would have to answer: what there is has to do.
                *further = None;
                None
            }
        }
    }

    /// ssh in a further session of the one login, which is made if there is none; and how long its other end may take to
    /// greet.
    fn session(&self) -> Result<(Command, Duration)> {
        // One at a time: whoever comes first logs in, the others go through the socket.
        let mut master = self.master.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Master::Own(child)) = &mut *master
            && !matches!(child.try_wait(), Ok(None))
        {
            // The connection was lost: whoever asks again logs in again.
            *master = None;
        }
        if matches!(&*master, Some(Master::Users(_))) && !self.users_master() {
            *master = None;
        }
        let again = matches!(&*master, Some(Master::Each));
        let standing = match master.take() {
            Some(standing) => standing,
            None => self.log_in(false)?,
        };
        let standing = master.insert(standing);
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
        let patience = self.target.patience.unwrap_or(PATIENCE);
        let greeting = if matches!(standing, Master::Each) { LOGIN } else { SESSION.min(patience) };
        Ok((command, greeting))
    }

    /// Logs in, where that was not done yet, and says how it went.
    pub fn enter(&self) -> Result<Entered> {
        let mut master = self.master.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let standing = match master.take() {
            Some(standing) => standing,
            None => self.log_in(true)?,
        };
        let took = begun.elapsed();
        let whose = match master.insert(standing) {
            Master::Own(_) => Whose::Ours,
            Master::Users(_) => Whose::Users,
            Master::Each => Whose::Each,
        };
        let said = || String::from_utf8_lossy(&self.said.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        // Its words may still be on their way through the pipe.
        let until = Instant::now() + Duration::from_millis(300);
        while whose == Whose::Ours && !said().contains("Authenticated to ") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Entered::new(took, whose, &said()))
    }

    /// Whether there is one session and no more: another would be another login, for which a person may be asked.
    pub fn is_single(&self) -> bool {
        matches!(&*self.master.lock().unwrap_or_else(PoisonError::into_inner), Some(Master::Each))
    }

    fn control_path(&self) -> OsString {
        let mut option = OsString::from("ControlPath=");
        option.push(self.socket.as_deref().unwrap_or(std::path::Path::new("none")));
        option
    }

    /// A fresh pipe for what the next ssh says, passed on to a person as long as `shown` is set.
    fn listen(&self, shown: Arc<AtomicBool>) -> Result<Stdio> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let (errors, stderr) = std::io::pipe().map_err(|e| Error::io(e, "connect"))?;
        relay(errors, self.said.clone(), shown);
        Ok(Stdio::from(stderr))
    }

    /// What ssh would do, as it says itself.
    fn intentions(&self) -> Option<String> {
        let mut asked = self.ssh(&[], true);
        asked.args(["-G", "--"]).arg(&self.target.host).stdin(Stdio::null()).stderr(Stdio::null());
        let told = asked.output().ok().filter(|told| told.status.success())?;
        Some(String::from_utf8_lossy(&told.stdout).into_owned())
    }

    /// Where data connections to the host may be tried, which says that it was reached at `claimed`. It is not believed: who
    /// has the host could have this machine connect to others of its network.
    pub fn reached(&self, claimed: IpAddr) -> Option<IpAddr> {
        // A command of the user's own may know nothing of -G.
        let told = if self.target.command.is_empty() { self.intentions() } else { None }.unwrap_or_default();
        let host = told.lines().find_map(|line| line.strip_prefix("hostname ")).unwrap_or(&self.target.host);
        let by_another = |line: &str| line.starts_with("proxyjump ") || line.starts_with("proxycommand ");
        let addresses: Vec<IpAddr> = (host, 0).to_socket_addrs().into_iter().flatten().map(|at| at.ip()).collect();
        place_of(claimed, &addresses, self.target.jump.is_some() || told.lines().any(by_another))
    }

    /// Whether a master that the user has running answers.
    fn users_master(&self) -> bool {
        let mut check = self.ssh(&[], true);
        check.args(["-O", "check", "--"]).arg(&self.target.host);
        check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        check.status().is_ok_and(|status| status.success())
    }

    /// `tell`: ssh is to say how it logs in.
    fn log_in(&self, tell: bool) -> Result<Master> {
        // A command of the user's own may know nothing of -G.
        let told = if self.target.command.is_empty() { self.intentions() } else { None };
        // Where it has no place for a control socket there is no master to be asked for.
        let its_socket = told.as_ref().map(|told| told.lines().find_map(|line| line.strip_prefix("controlpath ")).unwrap_or("none"));
        if its_socket != Some("none") && self.users_master() {
            return Ok(Master::Users(its_socket.map(str::to_string)));
        }
        let Some(socket) = &self.socket else { return Ok(Master::Each) };
        let mut ours = vec![self.control_path(), "ControlMaster=yes".into(), "ControlPersist=no".into()];
        ours.extend(told.as_deref().and_then(ciphers).map(|ciphers| format!("Ciphers={ciphers}").into()));
        if tell {
            ours.push("LogLevel=DEBUG1".into());
        }
        let mut command = self.ssh(&ours, true);
        command.args(["-N", "--"]).arg(&self.target.host);
        // ssh asks a person on the terminal itself, whatever these are.
        let shown = Arc::new(AtomicBool::new(std::io::stderr().is_terminal()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.listen(shown.clone())?);
        let program = command.get_program().to_os_string();
        let mut child = start_with_us(command).map_err(|e| Error::io(e, "start").at(program.as_encoded_bytes()))?;
        let until = Instant::now() + LOGIN;
        // The socket is there as soon as the login is.
        while !socket.exists() {
            if !matches!(child.try_wait(), Ok(None)) {
                let e = Error::new(ErrorKind::Broken, "connect").because("ssh ended before the login");
                return Err(self.explain(e.remedy_is(Remedy::Reconnect)));
            }
            if Instant::now() > until {
                end(&mut child);
                return Err(self.explain(Error::new(ErrorKind::TimedOut, "connect").because("the login took too long")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // From now on the screen is the display's.
        shown.store(false, Ordering::Relaxed);
        Ok(Master::Own(child))
    }

    /// For what goes through one session: tried again for two seconds where the host has refused that session, since one
    /// before it may be about to end. Nothing is gained by it while another is held. Also where the host closed the whole
    /// connection over the session before: there are servers that do so when they are asked for a command.
    pub fn again<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let done = attempt();
            if done.is_ok() || Instant::now() > until || !self.was_refused() {
                return done;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether the connection itself was cut since the login, with all that went through it.
    pub fn was_cut(&self) -> bool {
        let until = Instant::now() + GONE;
        loop {
            let mut master = self.master.lock().unwrap_or_else(PoisonError::into_inner);
            let lost = match &mut *master {
                Some(Master::Own(child)) => !matches!(child.try_wait(), Ok(None)),
                Some(Master::Users(_)) => !self.users_master(),
                Some(Master::Each) | None => false,
            };
            drop(master);
            if lost || Instant::now() > until {
                // A server that hangs up of its own will, as some do over a command, takes its leave.
                let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                return lost && !String::from_utf8_lossy(&said).contains("Received disconnect from");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn was_refused(&self) -> bool {
        // Its words may still be on their way through the pipe.
        std::thread::sleep(Duration::from_millis(20));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&said);
        said.contains("Session open refused by peer") || said.contains("Connection closed by UNKNOWN")
    }

    /// ssh's own words for why it ended, and what can be done.
    pub fn explain(&self, e: Error) -> Error {
        if e.op() == SPEAK {
            // What a start-up file complains of has nothing to do with it.
            return e.at(self.target.host.as_bytes());
        }
        // Its last words may still be on their way through the pipe.
        std::thread::sleep(Duration::from_millis(50));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&said);
        let idle = ["Warning: Permanently added", "debug", "Authenticated to ", "Transferred: ", "Bytes per second: "];
        let telling = |line: &&str| !line.trim().is_empty() && !idle.iter().any(|words| line.starts_with(words));
        let Some(last) = said.lines().rev().find(telling) else { return e.at(self.target.host.as_bytes()) };
        let (kind, hint) = classify(&said);
        let known = e.next_step().map(str::to_string);
        // Asked again, a person would be asked again, and the host would refuse again.
        let remedy = if is_refusal(&said) { Remedy::None } else { e.remedy() };
        let e = Error::new(kind.unwrap_or(e.kind()), "connect").at(self.target.host.as_bytes()).because(last.trim().to_string());
        let e = e.remedy_is(remedy);
        match hint.map(str::to_string).or(known) {
            Some(hint) => e.hint(hint),
            None => e,
        }
    }
}

/// The words that start haul on the remote host, or say that there is none. They mean the same to sh, csh and fish; no name
/// of a file is in them but `haul`, which [`Target`]'s maker has checked. `word` joins the one that is at work.
pub fn far_command(haul: Option<&str>, version: &str, word: Option<&str>) -> String {
    let join = word.map_or(String::new(), |word| format!(" --join {word}"));
    let places = far_places(haul, version);
    format!(
        "exec sh -c 'for haul in {places}; do command -v \"$haul\" >/dev/null 2>&1 && exec \"$haul\" agent{join}; done; \
         echo; echo \"haul-agent-missing `uname -sm`\"'"
    )
}

/// Where haul is looked for on the remote host, as words of a script of `sh`, the first first.
pub(crate) fn far_places(haul: Option<&str>, version: &str) -> String {
    match haul {
        Some(haul) => format!("\"{}\"", haul.strip_prefix("~/").map_or(haul.to_string(), |rest| format!("$HOME/{rest}"))),
        None => format!("\"{FAR_CACHE}/haul-{version}\" {FAR_OTHERS}"),
    }
}

/// The directory in which haul places itself on the remote host.
pub(crate) const FAR_CACHE: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/haul";
/// Where else it may be.
pub(crate) const FAR_OTHERS: &str = "haul \"$HOME/.local/bin/haul\" \"$HOME/bin/haul\" \"$HOME/.cargo/bin/haul\"";

/// Whether a path may stand in [`far_command`]: nothing in it means anything to a shell.
pub fn is_plain(path: &str) -> bool {
    !path.is_empty() && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./~+@%=,:- ".contains(&byte))
}

/// `addresses` are those of the host's name, as this machine knows it.
fn place_of(claimed: IpAddr, addresses: &[IpAddr], by_another: bool) -> Option<IpAddr> {
    let claimed = claimed.to_canonical();
    if addresses.iter().any(|address| address.to_canonical() == claimed) {
        return Some(claimed);
    }
    // Behind a router that rewrites addresses the host knows another than ssh connected to. Where another host made the
    // connection, nothing is known of an address that could be reached from here.
    addresses.first().copied().filter(|_| !by_another)
}

/// The ciphers that ssh would offer, with AES-GCM in front where it stands behind ChaCha20 as OpenSSH has it: with
/// the processor's instructions it takes two thirds of the time. A list of the user's own order stays as it is.
fn ciphers(told: &str) -> Option<String> {
    let list: Vec<&str> = told.lines().find_map(|line| line.strip_prefix("ciphers "))?.split(',').collect();
    let fast = "aes128-gcm@openssh.com";
    if !has_aes() || list.first() != Some(&"chacha20-poly1305@openssh.com") || !list.contains(&fast) {
        return None;
    }
    let rest = list.into_iter().filter(|cipher| *cipher != fast);
    Some(std::iter::once(fast).chain(rest).collect::<Vec<_>>().join(","))
}

/// Whether the processor has instructions for AES.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// Whether the host, or ssh on its behalf, wants nothing to do with this user, now or later.
fn is_refusal(said: &str) -> bool {
    ["Host key verification failed", "Permission denied", "Too many authentication failures"].iter().any(|words| said.contains(words))
}

/// What kind of failure ssh's words mean, and the next step.
fn classify(said: &str) -> (Option<ErrorKind>, Option<&'static str>) {
    let has = |words: &str| said.contains(words);
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        (
            Some(ErrorKind::Broken),
            Some("the host key has changed: find out why before you continue (ssh-keygen -R HOST removes the old one)"),
        )
    } else if has("Host key verification failed") {
        (Some(ErrorKind::Broken), Some("log in once with ssh to check and accept the host key"))
    } else if has("Permission denied") || has("Too many authentication failures") {
        (Some(ErrorKind::Broken), Some("run `ssh` to the same host: haul needs the same key, agent or password"))
    } else if has("Could not resolve hostname") {
        (Some(ErrorKind::Broken), Some("check the host name"))
    } else if has("Connection refused") {
        (Some(ErrorKind::Broken), Some("check that an SSH server is running, or use --port"))
    } else if has("timed out") || has("No route to host") || has("Network is unreachable") {
        (Some(ErrorKind::Broken), Some("check that the host is up and reachable from here; -J connects through another host"))
    } else if has("closed by remote host") || has("Connection closed by") || has("Connection reset by") || has("Broken pipe") {
        (Some(ErrorKind::Broken), Some("when the host is reachable again, run the same command"))
    } else if has("subsystem request failed") {
        (Some(ErrorKind::Unsupported), Some("the server has no SFTP; its administrator can enable the sftp subsystem"))
    } else {
        (None, None)
    }
}

/// How long ssh must have been quiet before what it said is shown: then it waits for a person, who needs it (the page of
/// a one-time code, that a password was wrong). What it says last, when it gives up, is in the error.
const QUIET: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Keeps the end of what ssh says, and shows all of it as long as `shown` is set.
fn relay(mut from: std::io::PipeReader, said: Arc<Mutex<Vec<u8>>>, shown: Arc<AtomicBool>) {
    let keep = move || {
        let mut buffer = [0; 4096];
        let mut held: Vec<u8> = Vec::new();
        let show = |bytes: &[u8]| {
            if shown.load(Ordering::Relaxed) {
                let _it_may_be_closed = std::io::stderr().write_all(bytes);
            }
        };
        loop {
            let quiet = if held.is_empty() { None } else { Some(&QUIET) };
            if matches!(poll(&mut [PollFd::new(&from, PollFlags::IN)], quiet), Ok(0)) {
                show(&std::mem::take(&mut held));
                continue;
            }
            let count = from.read(&mut buffer).unwrap_or(0);
            if count == 0 {
                let last = held.trim_ascii_end().iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                return show(&held[..last]);
            }
            held.extend_from_slice(&buffer[..count]);
            let too_much = held.len().saturating_sub(64 << 10);
            held.drain(..too_much);
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.extend_from_slice(&buffer[..count]);
            let surplus = said.len().saturating_sub(KEPT);
            said.drain(..surplus);
        }
    };
    let _without_it_nothing_is_kept = std::thread::Builder::new().name("ssh".into()).spawn(keep);
}

/// A name that no other login of this user has.
fn socket_name() -> String {
    use std::hash::BuildHasher;
    let number = std::collections::hash_map::RandomState::new().hash_one(std::process::id());
    format!("s{:012x}", number & 0xffff_ffff_ffff)
}

/// Starts what must not outlive this program, however that ends. The system counts the end of the thread that started
/// it, so that is one that ends no sooner than the child.
fn start_with_us(mut command: Command) -> std::io::Result<Child> {
    detach(&mut command);
    let go_along = || rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)).map_err(Into::into);
    // SAFETY: the closure makes one system call between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, go_along) };
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("login".into()).spawn(move || {
        let spawned = command.spawn();
        // It holds an end of the pipe that ssh speaks into, whose end would never come.
        drop(command);
        let started = spawned.as_ref().map(rustix::process::Pid::from_child).ok();
        let _nobody_waits = send.send(spawned);
        if let Some(pid) = started {
            // It is left for whoever has the child to be reaped; who was quicker has ended this wait as well.
            let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            while matches!(rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended), Err(rustix::io::Errno::INTR)) {}
        }
    })?;
    receive.recv().unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it ended")))
}

fn end(child: &mut Child) {
    let _it_may_be_gone = child.kill();
    let _reaped = child.wait();
}

impl Drop for Login {
    fn drop(&mut self) {
        // The socket first: the last holder may be a thread that the end of the program cuts off, and then the master
        // is ended by the system.
        if let Some(socket) = &self.socket {
            let _it_goes_with_its_master = std::fs::remove_file(socket);
        }
        if let Some(Master::Own(child)) = self.master.get_mut().unwrap_or_else(PoisonError::into_inner) {
            end(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_has_a_next_step() {
        for (said, telling) in [
            ("ssh: Could not resolve hostname x: Name or service not known", "check the host name"),
            ("ssh: connect to host x port 22: Connection refused", "--port"),
            ("ssh: connect to host x port 22: Connection timed out", "-J"),
            ("user@x: Permission denied (publickey,password).", "run `ssh` to the same host"),
            ("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.", "ssh-keygen"),
            ("No ED25519 host key is known for x and you have requested strict checking.\nHost key verification failed.", "log in once"),
            ("subsystem request failed on channel 0", "no SFTP"),
            ("Connection to x closed by remote host.", "the same command"),
        ] {
            let (kind, hint) = classify(said);
            assert!(kind.is_some() && hint.is_some_and(|hint| hint.contains(telling)), "{said}: {hint:?}");
        }
        assert_eq!(classify("what nobody has said yet"), (None, None));
    }

    #[test]
    fn a_host_is_not_believed_where_it_is() {
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        let named = [at("192.0.2.1"), at("2001:db8::1")];
        for (claimed, direct, by_another) in [
            ("192.0.2.1", Some("192.0.2.1"), Some("192.0.2.1")),
            ("::ffff:192.0.2.1", Some("192.0.2.1"), Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1"), Some("2001:db8::1")),
            ("10.0.0.5", Some("192.0.2.1"), None),
            ("127.0.0.1", Some("192.0.2.1"), None),
        ] {
            assert_eq!(place_of(at(claimed), &named, false), direct.map(at), "{claimed}");
            assert_eq!(place_of(at(claimed), &named, true), by_another.map(at), "{claimed} by another");
        }
        assert_eq!(place_of(at("10.0.0.5"), &[], false), None);
    }

    #[test]
    fn what_ssh_tells_of_a_login_is_read() {
        let said = "debug1: Remote protocol version 2.0, remote software version OpenSSH_9.2p1 Debian-2\n\
                    debug1: kex: server->client cipher: aes128-ctr MAC: hmac-sha2-256 compression: none\n\
                    debug1: kex: client->server cipher: aes128-gcm@openssh.com MAC: <implicit> compression: none\n\
                    Authenticated to h ([192.0.2.1]:22) using \"publickey\".\n";
        let entered = Entered::new(Duration::ZERO, Whose::Ours, said);
        assert_eq!(entered.method.as_deref(), Some("publickey"));
        assert_eq!(entered.server.as_deref(), Some("OpenSSH_9.2p1"));
        assert_eq!(entered.ciphers, Some(("aes128-gcm@openssh.com".into(), "aes128-ctr".into())));
        let silent = Entered::new(Duration::ZERO, Whose::Users, "");
        assert_eq!((silent.method, silent.server, silent.ciphers), (None, None, None));
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
}
