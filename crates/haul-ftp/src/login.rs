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

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// A greeting may take a name server's time.
const GREETING: Duration = Duration::from_secs(30);

/// Makes sessions with one server.
#[derive(Debug)]
pub struct Dialer {
    pub host: String,
    pub port: u16,
    pub login: Login,
    pub security: Security,
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

/// Why there is no session.
#[derive(Debug)]
pub enum Refused {
    /// The server allows no more sessions for now.
    TooMany(Error),
    For(Error),
}

impl Dialer {
    /// A new session, logged in, and ready for what is wanted of it, unless it is the first one.
    pub fn dial(&self, wanted: Wanted) -> Result<Session, Refused> {
        self.dial_and(wanted, &|| {})
    }

    /// The same; `admitted` is called once the server has accepted the login.
    pub fn dial_and(&self, wanted: Wanted, admitted: &dyn Fn()) -> Result<Session, Refused> {
        let older = !self.newer_tls.load(Ordering::Relaxed);
        match self.attempt(wanted, admitted) {
            Err(Refused::For(e)) if older && self.security != Security::None && e.reason() == OTHER_VERSION => {
                // One that has TLS 1.3 only.
                self.newer_tls.store(true, Ordering::Relaxed);
                self.attempt(wanted, admitted)
            }
            session => session,
        }
    }

    fn attempt(&self, wanted: Wanted, admitted: &dyn Fn()) -> Result<Session, Refused> {
        let mut control = self.connect().map_err(Refused::For)?;
        let tls = self.session_tls().map_err(Refused::For)?;
        if let (Security::Implicit, Some(tls)) = (self.security, &tls) {
            control.secure(tls).map_err(Refused::For)?;
        }
        self.greet(&mut control).map_err(|refused| self.explained(refused))?;
        if let (Security::Explicit, Some(tls)) = (self.security, &tls) {
            self.begin_tls(&mut control, tls).map_err(Refused::For)?;
        }
        if let Some(grid) = &self.grid {
            grid.begin(&mut control).map_err(|e| Refused::For(self.named(e)))?;
        }
        self.log_in(&mut control)?;
        // What the first session finds out, others wait for.
        let turn = self.known.get().is_none().then(|| lock(&self.settling));
        let turn = turn.filter(|_| self.known.get().is_none());
        admitted();
        if let Some(grid) = &self.grid {
            grid.settle(&mut control).map_err(|e| Refused::For(self.named(e)))?;
        }
        if let Some(shell) = &self.shell {
            shell.locate(&mut control).map_err(|e| Refused::For(self.named(e)))?;
        }
        let (mut session, entry) = self.settle(control, tls, wanted == Wanted::Blocks).map_err(Refused::For)?;
        drop(turn);
        session.guard = self.grid.as_ref().and_then(|grid| grid.guard.clone());
        if session.guard.is_some() {
            // A server that connects to this machine cannot be authenticated.
            cannot(&session.features.extended_reads);
        } else if wanted == Wanted::Intake {
            session.offer("connect").map_err(|e| Refused::For(self.named(e)))?;
        }
        if let Some((mode, passive)) = entry {
            session.enter_blocks(&mode, &passive, "connect").map_err(|e| Refused::For(self.named(e)))?;
        }
        Ok(session)
    }

    fn connect(&self) -> Result<Control> {
        if let Some(shell) = &self.shell {
            return shell.connect(self.wait).map_err(|e| self.named(shell.explain(e)));
        }
        let named = |e: Error| e.at(self.endpoint().as_bytes());
        let addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(|e| {
            let e = Error::new(ErrorKind::Usage, "connect").because(format!("unknown host ({e})"));
            named(e.hint("check the host's name"))
        })?;
        let mut last = None;
        for address in addresses {
            match Control::connect(address, CONNECT, self.wait) {
                Ok(control) => return Ok(control),
                Err(e) => last = Some((address, e)),
            }
        }
        Err(named(
            last.map_or_else(|| Error::new(ErrorKind::Usage, "connect").because("the host has no address"), |(at, e)| refused(at, e)),
        ))
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
            let greeting =
                control.reply_within(self.wait.max(GREETING.min(self.wait * 2)), "connect").map_err(|e| Refused::For(self.named(e)))?;
            match greeting.code {
                // Ready in a while.
                120 => {}
                220 => return Ok(()),
                421 | 530 => return Err(Refused::TooMany(self.named(busy(greeting.failure("connect"))))),
                _ => return Err(Refused::For(self.named(greeting.failure("connect")))),
            }
        }
    }

    /// Without a greeting through ssh, its own messages count. Once one server was started there, more of them are too many.
    fn explained(&self, refused: Refused) -> Refused {
        match (&self.shell, refused) {
            (Some(shell), Refused::For(e)) if self.known.get().is_some() => Refused::TooMany(busy(shell.explain(e))),
            (Some(shell), Refused::For(e)) => Refused::For(self.named(shell.explain(e))),
            (_, refused) => refused,
        }
    }

    fn begin_tls(&self, control: &mut Control, tls: &Tls) -> Result<()> {
        let reply = control.ask("AUTH", b"TLS", "connect")?;
        if reply.code != 234 {
            let e = Error::new(ErrorKind::Broken, "connect").because(format!("the server does not offer TLS: {}", reply.shown()));
            return Err(self.named(e.hint("nothing was sent in clear text; without encryption write ftp://")));
        }
        control.secure(tls).map_err(|e| self.named(e))
    }

    fn log_in(&self, control: &mut Control) -> Result<(), Refused> {
        let other = |e: Error| Refused::For(self.named(e));
        let mut reply = control.ask("USER", self.login.user.as_bytes(), "log in").map_err(other)?;
        if reply.code == 331 {
            reply = control.ask("PASS", self.login.password.as_bytes(), "log in").map_err(other)?;
        }
        if reply.code == 332 && !self.login.account.is_empty() {
            reply = control.ask("ACCT", self.login.account.as_bytes(), "log in").map_err(other)?;
        }
        match reply.code {
            202 | 230 | 232 | 234 => Ok(()),
            421 => Err(Refused::TooMany(self.named(busy(reply.failure("log in"))))),
            // Once somebody was let in with this password, it is the number that is wrong.
            530 if self.known.get().is_some() => Err(Refused::TooMany(self.named(busy(reply.failure("log in"))))),
            _ => {
                let e = reply.failure("log in").kind_is(ErrorKind::Broken).remedy_is(Remedy::None);
                let unmapped = "the server's administrator has to map your certificate to an account (grid-mapfile)";
                Err(Refused::For(self.named(if self.grid.is_some() { e.hint(unmapped) } else { e })))
            }
        }
    }

    /// Settings that hold for the whole session. With `blocks` the replies to what enters extended block mode come back.
    fn settle(&self, mut control: Control, tls: Option<Tls>, blocks: bool) -> Result<(Session, Option<(Reply, Reply)>)> {
        const OP: &str = "set up the session";
        let mut announced = None;
        let mut commands = vec![command("TYPE", b"I")?];
        if tls.is_some() {
            commands.extend([command("PBSZ", b"0")?, command("PROT", b"P")?]);
        }
        let first = self.known.get().is_none();
        if first {
            commands.push(command("CWD", PROBE)?);
            commands.extend([command("FEAT", b"")?, command("SITE", b"HELP")?, command("SYST", b"")?, command("PWD", b"")?]);
            // No file has this name. vsftpd says of it that it could not set its time; others look for it.
            commands.push(command("MDTM", b"19800101000000 /.haul-no-such-file")?);
        }
        // The data connection is announced ahead, for whatever comes first.
        let mut blocks = blocks && !first;
        let listens = !self.active;
        if let Some(known) = self.known.get() {
            commands.extend(self.options(&known.features)?);
            blocks &= get(&known.features.extended_blocks);
            // A server without EPSV is asked when it is needed.
            blocks &= listens && (known.features.stripes() > 0 || get(&known.features.extended_passive));
            if blocks {
                commands.push(command("MODE", b"E")?);
            }
            if listens && blocks && known.features.stripes() > 0 {
                commands.push(command("SPAS", b"")?);
            } else if listens && get(&known.features.extended_passive) {
                commands.push(command("EPSV", b"")?);
            } else {
                blocks = false;
            }
        }
        let mut replies = Vec::new();
        for reply in control.ask_all(&commands, OP) {
            replies.push(reply.map_err(|e| self.named(e))?);
        }
        replies[0].clone().done(OP)?;
        if tls.is_some() && !replies[2].is_done() {
            let e = Error::new(ErrorKind::Broken, OP).because(format!("the server does not encrypt data: {}", replies[2].shown()));
            return Err(self.named(e.hint("nothing was sent in clear text")));
        }
        let known = match (self.known.get(), &replies[..]) {
            (Some(known), _) => known,
            (None, [.., echo, feat, site, system, home, timed]) => {
                let features = Arc::new(Features::new(feat, site, system, timed).echoed(echo));
                let home = quoted(&home.text).filter(|home| home.starts_with(b"/")).unwrap_or_else(|| b"/".to_vec());
                self.known.get_or_init(|| Known { features, home })
            }
            (None, _) => return Err(self.named(Error::new(ErrorKind::Other, OP))),
        };
        control.take_plain(known.features.plain);
        if first {
            let mut options = self.options(&known.features)?;
            let probes = get(&known.features.extended_blocks) || get(&known.features.extended_reads);
            let striped = known.features.elsewhere;
            if probes && striped {
                options.extend([command("MODE", b"E")?, command("SPAS", b"")?, command("MODE", b"S")?]);
            } else if probes {
                options.extend([command("MODE", b"E")?, command("MODE", b"S")?]);
            }
            let listens = listens && known.features.mlst.is_some() && get(&known.features.extended_passive);
            if listens {
                options.push(command("EPSV", b"")?);
            }
            // Where one is refused, the server does what it did without it.
            let mut replies: Vec<Reply> = control.ask_all(&options, OP).into_iter().collect::<Result<_>>().map_err(|e| self.named(e))?;
            announced = if listens { replies.pop().and_then(|reply| passive(&reply, control.peer)) } else { None };
            let nodes = if probes && striped {
                replies.iter().rev().nth(1).map_or_else(Vec::new, |reply| stripes::addresses(reply, control.peer))
            } else {
                Vec::new()
            };
            let nodes = known.features.nodes.get_or_init(|| nodes).len();
            // Without one that can be used, data go where the commands go.
            known.features.extended_passive.fetch_or(probes && striped && nodes == 0, Ordering::Relaxed);
            let modes = replies.iter().rev().step_by(if striped { 2 } else { 1 }).take(2);
            // What is behind a server with one data node, it does not say: perhaps no disk.
            if probes && (modes.into_iter().any(|reply| !reply.is_done()) || striped && nodes < 2) {
                cannot(&known.features.extended_blocks);
                cannot(&known.features.extended_reads);
            }
            if !is_reachable(control.local, control.peer) {
                cannot(&known.features.extended_reads);
            }
        }
        let mut entry = None;
        if !first && listens {
            let last = replies.pop().filter(|reply| matches!(reply.code, 229));
            match (blocks, replies.pop(), last) {
                (true, Some(mode), Some(passive)) => entry = Some((mode, passive)),
                (true, ..) => control.ask("MODE", b"S", OP)?.done(OP).map(drop)?,
                (false, _, last) => announced = last.and_then(|reply| passive(&reply, control.peer)),
            }
        }
        Ok((
            Session { announced, buffer: self.buffer, ..Session::new(control, known.features.clone(), tls, self.active, self.wait) },
            entry,
        ))
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

    fn named(&self, e: Error) -> Error {
        e.at(self.endpoint().as_bytes())
    }
}

fn busy(e: Error) -> Error {
    let e = e.kind_is(ErrorKind::Busy).remedy_is(Remedy::After(Duration::from_secs(2)));
    if e.next_step().is_none() { e.hint(TOO_MANY) } else { e }
}

/// Nobody was reached at an address.
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
