//! How a session with a server begins: greeting, TLS, name and password, settings.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;

use super::control::{Control, OTHER_VERSION, command, failure, tls_failure};
use super::data::Announced;
use super::features::{Features, PROBE, cannot, get};
use super::flags::Security;
use super::grid::Grid;
use super::intake::is_reachable;
use super::passive::passive;
use super::pool::Wanted;
use super::reply::{Reply, TOO_MANY};
use super::secret::Login;
use super::session::Session;
use super::shell::Shell;
use super::stream::{Tickets, Tls};
use super::stripes;
use haul_core::lock::lock;

const CONNECT: Duration = Duration::from_secs(10);
const OP: &str = "set up the session";
/// A greeting may take a name server's time.
const GREETING: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Dialer {
    pub host: String,
    pub port: u16,
    pub login: Login,
    pub security: Option<Security>,
    /// With TLS 1.2, and with 1.3, whose sessions can be resumed once each.
    pub tls: Option<[Arc<ClientConfig>; 2]>,
    pub newer_tls: AtomicBool,
    /// Of `gsiftp://`.
    pub grid: Option<Grid>,
    /// Of `sshftp://`.
    pub shell: Option<Shell>,
    pub active: bool,
    /// Bytes of TCP buffers of data connections, where they are chosen.
    pub buffer: Option<u32>,
    pub wait: Duration,
    /// Known once a session was made.
    pub known: OnceLock<Known>,
    /// Held while a session finds that out.
    pub settling: Mutex<()>,
}

/// What all sessions with a server have in common.
#[derive(Debug)]
pub struct Known {
    pub features: Arc<Features>,
    /// The directory after the login: absolute.
    pub home: Vec<u8>,
}

#[derive(Debug)]
pub enum Refused {
    /// The server allows no more sessions for now.
    TooMany(Error),
    For(Error),
}

impl From<Error> for Refused {
    fn from(e: Error) -> Refused {
        Refused::For(e)
    }
}

impl Dialer {
    /// A new session, logged in, and ready for what is wanted of it, unless it is the first one.
    pub fn dial(&self, wanted: Wanted) -> Result<Session, Refused> {
        self.dial_and(wanted, &|| {})
    }

    /// The same; `admitted` is called once the server has accepted the login.
    pub fn dial_and(&self, wanted: Wanted, admitted: &dyn Fn()) -> Result<Session, Refused> {
        let older = !self.newer_tls.load(Ordering::Relaxed);
        let session = match self.attempt(wanted, admitted) {
            Err(Refused::For(e)) if older && self.security.is_some() && e.reason() == OTHER_VERSION => {
                // One that has TLS 1.3 only.
                self.newer_tls.store(true, Ordering::Relaxed);
                self.attempt(wanted, admitted)
            }
            session => session,
        };
        let named = |e: Error| e.at(self.endpoint().as_bytes());
        session.map_err(|refused| match refused {
            Refused::TooMany(e) => Refused::TooMany(named(e)),
            Refused::For(e) => Refused::For(named(e)),
        })
    }

    fn attempt(&self, wanted: Wanted, admitted: &dyn Fn()) -> Result<Session, Refused> {
        let mut control = self.connect()?;
        let tls = self.session_tls()?;
        if let (Some(Security::Implicit), Some(tls)) = (self.security, &tls) {
            control.secure(tls)?;
        }
        self.greet(&mut control).map_err(|refused| self.explained(refused))?;
        if let (Some(Security::Explicit), Some(tls)) = (self.security, &tls) {
            begin_tls(&mut control, tls)?;
        }
        if let Some(grid) = &self.grid {
            grid.begin(&mut control)?;
        }
        self.log_in(&mut control)?;
        // What the first session finds out, others wait for.
        let turn = self.known.get().is_none().then(|| lock(&self.settling));
        let turn = turn.filter(|_| self.known.get().is_none());
        admitted();
        if let Some(grid) = &self.grid {
            grid.settle(&mut control)?;
        }
        if let Some(shell) = &self.shell {
            shell.locate(&mut control)?;
        }
        let (mut session, entry) = self.settle(control, tls, wanted == Wanted::Blocks)?;
        drop(turn);
        session.guard = self.grid.as_ref().and_then(|grid| grid.guard.clone());
        if session.guard.is_some() {
            // A server that connects to this machine cannot be authenticated.
            cannot(&session.features.extended_reads);
        } else if wanted == Wanted::Intake {
            session.offer(false, "connect")?;
        }
        if let Some((mode, passive)) = entry {
            session.enter_blocks(&mode, &passive, "connect")?;
        }
        Ok(session)
    }

    fn connect(&self) -> Result<Control> {
        if let Some(shell) = &self.shell {
            return shell.connect(self.wait).map_err(|e| shell.explain(e));
        }
        let addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(|e| {
            let e = Error::new(ErrorKind::Usage, "connect").because(format!("unknown host ({e})"));
            e.hint("check the host's name")
        })?;
        let mut last = Error::new(ErrorKind::Usage, "connect").because("the host has no address");
        for address in addresses {
            match Control::connect(address, CONNECT, self.wait) {
                Ok(control) => return Ok(control),
                Err(e) => last = refused(address, e),
            }
        }
        Err(last)
    }

    pub fn endpoint(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    fn session_tls(&self) -> Result<Option<Tls>> {
        let Some(configs) = &self.tls else { return Ok(None) };
        let mut config = (*configs[usize::from(self.newer_tls.load(Ordering::Relaxed))]).clone();
        let tickets = Arc::new(Tickets::new());
        config.resumption = Resumption::store(tickets.clone());
        let name = ServerName::try_from(self.host.clone());
        let name =
            name.map_err(|_| Error::new(ErrorKind::Usage, "connect").because("the host has no name that a certificate could be for"))?;
        Ok(Some(Tls { config: Arc::new(config), name, tickets }))
    }

    fn greet(&self, control: &mut Control) -> Result<(), Refused> {
        loop {
            let greeting = control.reply_within(self.wait.max(GREETING.min(self.wait * 2)), "connect")?;
            match greeting.code {
                // Ready in a while.
                120 => {}
                220 => return Ok(()),
                421 | 530 => return Err(Refused::TooMany(busy(greeting.failure("connect")))),
                _ => return Err(greeting.failure("connect").into()),
            }
        }
    }

    /// Without a greeting through ssh, its own messages count. Once one server was started there, more of them are too many.
    fn explained(&self, refused: Refused) -> Refused {
        match (&self.shell, refused) {
            (Some(shell), Refused::For(e)) if self.known.get().is_some() => Refused::TooMany(busy(shell.explain(e))),
            (Some(shell), Refused::For(e)) => Refused::For(shell.explain(e)),
            (_, refused) => refused,
        }
    }

    fn log_in(&self, control: &mut Control) -> Result<(), Refused> {
        let mut reply = control.ask("USER", self.login.user.as_bytes(), "log in")?;
        if reply.code == 331 {
            reply = control.ask("PASS", self.login.password.as_bytes(), "log in")?;
        }
        match reply.code {
            202 | 230 | 232 | 234 => Ok(()),
            421 => Err(Refused::TooMany(busy(reply.failure("log in")))),
            // After a login with this password it is the number that is wrong.
            530 if self.known.get().is_some() => Err(Refused::TooMany(busy(reply.failure("log in")))),
            _ => {
                let e = reply.failure("log in").kind_is(ErrorKind::Broken).remedy_is(Remedy::None);
                let unmapped = "the server's administrator has to map your certificate to an account (grid-mapfile)";
                Err(Refused::For(if self.grid.is_some() { e.hint(unmapped) } else { e }))
            }
        }
    }

    /// Settings that hold for the whole session. With `blocks` the replies to what enters extended block mode come back.
    fn settle(&self, mut control: Control, tls: Option<Tls>, blocks: bool) -> Result<(Session, Option<(Reply, Reply)>)> {
        let mut commands = vec![command("TYPE", b"I")?];
        if tls.is_some() {
            commands.extend([command("PBSZ", b"0")?, command("PROT", b"P")?]);
        }
        let known = self.known.get();
        let (mut blocks, mut ahead) = (blocks && known.is_some(), None);
        if let Some(Known { features, .. }) = known {
            commands.extend(self.options(features)?);
            // The data connection is announced ahead, for what comes first. A server without EPSV is asked when it is needed.
            let extended = get(&features.extended_passive).then_some("EPSV");
            blocks &= get(&features.extended_blocks);
            let striped = (blocks && features.stripes() > 0).then_some("SPAS");
            ahead = striped.or(extended).filter(|_| !self.active);
            blocks &= ahead.is_some();
            if blocks {
                commands.push(command("MODE", b"E")?);
            }
            if let Some(word) = ahead {
                commands.push(command(word, b"")?);
            }
        } else {
            commands.push(command("CWD", PROBE)?);
            commands.extend([command("FEAT", b"")?, command("SITE", b"HELP")?, command("SYST", b"")?, command("PWD", b"")?]);
            // No file has this name. vsftpd says of it that it could not set its time; others look for it.
            commands.push(command("MDTM", b"19800101000000 /.haul-no-such-file")?);
        }
        let mut replies: Vec<Reply> = control.ask_all(&commands, OP).into_iter().collect::<Result<_>>()?;
        replies[0].clone().done(OP)?;
        if tls.is_some() && !replies[2].is_done() {
            let e = Error::new(ErrorKind::Broken, OP).because(format!("the server does not encrypt data: {}", replies[2].shown()));
            return Err(e.hint("nothing was sent in clear text"));
        }
        let last = ahead.and_then(|_| replies.pop()).filter(|reply| reply.code == 229);
        let (announced, entry) = match (known, last) {
            (None, _) => (self.learn(&mut control, &replies)?, None),
            (Some(_), last) if !blocks => (last.and_then(|reply| passive(&reply, control.peer)), None),
            (Some(_), Some(passive)) => (None, replies.pop().map(|mode| (mode, passive))),
            (Some(_), None) => (None, control.ask("MODE", b"S", OP)?.done(OP).map(|_| None)?),
        };
        let features = self.known.get().ok_or_else(|| Error::new(ErrorKind::Other, OP))?.features.clone();
        control.plain = features.plain;
        Ok((Session { announced, buffer: self.buffer, ..Session::new(control, features, tls, self.active, self.wait) }, entry))
    }

    /// What the first session finds out of the server, from these replies and by trying; its data connection, if one was announced.
    fn learn(&self, control: &mut Control, replies: &[Reply]) -> Result<Option<Announced>> {
        let [.., echo, feat, site, system, home, timed] = replies else { return Err(Error::new(ErrorKind::Other, OP)) };
        let features = Arc::new(Features::new(feat, site, system, timed).echoed(echo));
        let home = quoted(&home.text).filter(|home| home.starts_with(b"/")).unwrap_or_else(|| b"/".to_vec());
        let features = &self.known.get_or_init(|| Known { features, home }).features;
        let mut commands = self.options(features)?;
        let probes = get(&features.extended_blocks) || get(&features.extended_reads);
        let striped = features.elsewhere;
        let listens = !self.active && features.mlst.is_some() && get(&features.extended_passive);
        let words = [("MODE", "E", probes), ("SPAS", "", probes && striped), ("MODE", "S", probes), ("EPSV", "", listens)];
        for (word, argument, _) in words.into_iter().filter(|(.., wanted)| *wanted) {
            commands.push(command(word, argument.as_bytes())?);
        }
        // Where one is refused, the server does what it did without it.
        let mut replies: Vec<Reply> = control.ask_all(&commands, OP).into_iter().collect::<Result<_>>()?;
        let announced = if listens { replies.pop().and_then(|reply| passive(&reply, control.peer)) } else { None };
        let mut modes = if probes { replies.split_off(replies.len() - if striped { 3 } else { 2 }) } else { Vec::new() };
        let named = if probes && striped { stripes::addresses(&modes.remove(1), control.peer) } else { Vec::new() };
        let nodes = features.nodes.get_or_init(|| named).len();
        // Without one that can be used, data go where the commands go.
        features.extended_passive.fetch_or(probes && striped && nodes == 0, Ordering::Relaxed);
        // What is behind a server with one data node, it does not say: perhaps no disk.
        if probes && (modes.iter().any(|reply| !reply.is_done()) || striped && nodes < 2) {
            cannot(&features.extended_blocks);
            cannot(&features.extended_reads);
        }
        if !is_reachable(control.local, control.peer) {
            cannot(&features.extended_reads);
        }
        Ok(announced)
    }

    /// Commands that a server may refuse.
    fn options(&self, features: &Features) -> Result<Vec<Vec<u8>>> {
        let mut options = Vec::new();
        if features.utf8 {
            options.push(command("OPTS", b"UTF8 ON")?);
        }
        if let Some(facts) = features.mlst.as_ref().filter(|facts| facts.contains("unix.mode")) {
            options.push(command("OPTS", format!("MLST {facts}").as_bytes())?);
        }
        if let Some(bytes) = self.buffer {
            options.push(command("SBUF", bytes.to_string().as_bytes())?);
        }
        Ok(options)
    }
}

fn begin_tls(control: &mut Control, tls: &Tls) -> Result<()> {
    let reply = control.ask("AUTH", b"TLS", "connect")?;
    if reply.code != 234 {
        let e = Error::new(ErrorKind::Broken, "connect").because(format!("the server does not offer TLS: {}", reply.shown()));
        return Err(e.hint("nothing was sent in clear text; without encryption write ftp://"));
    }
    control.secure(tls)
}

fn busy(e: Error) -> Error {
    let e = e.kind_is(ErrorKind::Busy).remedy_is(Remedy::After(Duration::from_secs(2)));
    if e.next_step().is_none() { e.hint(TOO_MANY) } else { e }
}

/// No connection was made to an address.
fn refused(address: SocketAddr, error: std::io::Error) -> Error {
    use std::io::ErrorKind as K;
    let made = |kind, words: String| Error::new(kind, "connect").because(words).remedy_is(Remedy::After(Duration::from_secs(1)));
    match error.kind() {
        K::ConnectionRefused => made(ErrorKind::Broken, format!("nobody listens at {address}")).hint("check host and port"),
        K::TimedOut | K::WouldBlock => made(ErrorKind::TimedOut, format!("{address} did not answer in time")),
        _ if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => tls_failure(error, "connect"),
        _ => failure(error, "connect").kind_is(ErrorKind::Broken),
    }
}

/// The path in a reply to PWD: in quotes, of which two are one.
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    let mut rest = text.strip_prefix(b"\"").or_else(|| text.splitn(2, |byte| *byte == b'"').nth(1))?;
    loop {
        let at = rest.iter().position(|byte| *byte == b'"')?;
        path.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if rest.first() != Some(&b'"') {
            return Some(path);
        }
        path.push(b'"');
        rest = &rest[1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_directory_is_read() {
        assert_eq!(quoted(b"\"/home/a\" is the current directory").as_deref(), Some(&b"/home/a"[..]));
        assert_eq!(quoted(b"\"/a\"\"b\"").as_deref(), Some(&b"/a\"b"[..]));
        assert_eq!(quoted(b"current directory is \"/\"").as_deref(), Some(&b"/"[..]));
        assert_eq!(quoted(b"/home/a"), None);
        assert_eq!(quoted(b"\"/home"), None);
    }
}
