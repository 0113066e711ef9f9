//! An FTP server: what its addresses are, and the directories that are opened of it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use haul_core::entry::Kind;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::{Host, Location, OpenOptions, Role};
use haul_core::store::{Place, Store};

use super::features::get;
use super::flags::{Flags, Security};
use super::grid::{self, Grid};
use super::login::{Dialer, Known};
use super::names_proof::prove;
use super::paths::join;
use super::pool::{Pool, Wanted};
use super::provider::{FTPS, GSIFTP, SSHFTP};
use super::secret::Login;
use super::shell::{self, Shell};
use super::store::{Ftp, LARGE, WRITERS};
use haul_core::lock::lock;
use haul_core::place::provider::Access;
use haul_core::store::staging::OwnNames;
use haul_net::http_client::{Environment, TlsFlags, agent};

/// Connections at the most, unless `--streams` says otherwise: with three round trips a file, 32 of them move 100 files in a second
/// at 100 ms. They are made as they are needed, and a server that allows fewer says so.
const CONNECTIONS: usize = 32;
/// Sessions that are made ahead, unless `--streams` says how many there are to be: most runs need as many, and a server hardly notices.
const AHEAD: usize = 4;
/// How long a directory that was looked up is taken for one.
const FRESH: Duration = Duration::from_secs(1);
/// A server may have to fetch a file from a tape.
const WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct FtpHost {
    pub(super) pool: Arc<Pool>,
    scheme: &'static str,
    endpoint: String,
    account: String,
    /// Sessions that are made as soon as a directory is opened.
    ahead: usize,
    moves_data: bool,
    /// The directory that was looked up last: it is opened next.
    last: Mutex<Option<(Vec<u8>, Instant)>>,
}

impl FtpHost {
    /// Logs in.
    pub fn connect(access: &Access, location: &Location) -> Result<FtpHost> {
        let flags = access.get::<Flags>();
        let environment = Environment::process();
        let is_grid = location.scheme == GSIFTP;
        let is_shell = location.scheme == SSHFTP;
        // These have a security of their own.
        let security = flags.security(location.scheme == FTPS, location.port).filter(|_| !is_grid && !is_shell);
        let tls = match security {
            None => None,
            Some(_) => {
                if flags.tls.no_verify_ssl {
                    access.print(TlsFlags::WARNING);
                }
                Some(agent::tls_configs(!flags.tls.no_verify_ssl, flags.tls.ca_bundle.as_deref(), &environment)?)
            }
        };
        let host = location.host.clone().unwrap_or_default();
        let print = |line: &str| access.print(line);
        let mut grid = None;
        let mut shell = None;
        let user = location.user.as_deref();
        let (login, usual) = if is_grid {
            grid = Some(Grid::new(&host, &flags, &environment, &print)?);
            (Login::known(user.unwrap_or(grid::MAPPED_USER), "dummy"), grid::PORT)
        } else if is_shell {
            print(shell::WARNING);
            shell = Some(Shell::new(access, location)?);
            let [anybody, password] = shell::ANYBODY;
            (Login::known(user.unwrap_or(anybody), if user.is_some() { "dummy" } else { password }), 22)
        } else {
            (Login::of(location, &environment, &print)?, if security == Some(Security::Implicit) { 990 } else { 21 })
        };
        let port = location.port.unwrap_or(usual);
        let dialer = Dialer {
            host,
            port,
            login,
            security,
            tls,
            newer_tls: AtomicBool::new(false),
            grid,
            shell,
            active: flags.ftp_active,
            buffer: flags.tcp_bs,
            // A wait that ends in an error is to end before the run counts as stuck.
            wait: access.idle_timeout.map_or(WAIT, |timeout| (timeout / 2).max(Duration::from_millis(500))),
            known: OnceLock::new(),
            settling: Mutex::default(),
        };
        let wanted = match access.intent.role {
            Role::Browse => None,
            Role::Source => Some(Wanted::Intake),
            Role::Destination => Some(Wanted::Blocks),
        };
        let usual = if access.intent.largest >= LARGE { WRITERS as usize } else { AHEAD };
        let ahead = wanted.filter(|_| access.moves_data).map(|wanted| (access.streams.unwrap_or(usual), wanted));
        let pool = Pool::new(dialer, access.streams.unwrap_or(if is_shell { shell::SESSIONS } else { CONNECTIONS }), ahead)?;
        let in_blocks = pool.known().is_some_and(|known| get(&known.features.extended_blocks));
        if !in_blocks && (is_grid || is_shell || access.streams.is_some_and(|streams| streams > 1)) {
            access.print(&format!("{}: no extended block mode (MODE E): a file is sent over one connection", pool.dialer.endpoint()));
        }
        let endpoint = Location { user: None, ..location.clone() }.authority();
        Ok(FtpHost {
            pool,
            scheme: location.scheme.0.word,
            endpoint,
            account: location.user.clone().unwrap_or_default(),
            ahead: access.streams.unwrap_or(AHEAD),
            moves_data: access.moves_data,
            last: Mutex::default(),
        })
    }

    pub(super) fn known(&self) -> Result<&Known> {
        self.pool.known().ok_or_else(|| Error::new(ErrorKind::Other, "connect"))
    }

    /// What is at a path. The directory above it is looked at, too: most callers ask for that next.
    fn kind(&self, path: &[u8]) -> Result<Option<Kind>> {
        if path == b"/" || self.is_last(path) {
            return Ok(Some(Kind::Dir));
        }
        let (above, _) = self.split(path);
        let mut found = self.pool.take()?.look_all(&[path, above], false, true, "look up").into_iter();
        let (found, above) = (found.next(), (above, found.next()));
        let kind = match found {
            Some(Ok(facts)) => Some(facts.kind.unwrap_or(Kind::Unknown)),
            Some(Err(e)) if e.kind() != ErrorKind::NotFound => return Err(e.at(path)),
            None | Some(Err(_)) => None,
        };
        let last = match above {
            _ if kind == Some(Kind::Dir) => Some(path),
            (above, Some(Ok(facts))) if facts.kind == Some(Kind::Dir) => Some(above),
            _ => None,
        };
        *lock(&self.last) = last.map(|last| (last.to_vec(), Instant::now()));
        Ok(kind)
    }

    /// Whether this was found to be a directory a moment ago.
    fn is_last(&self, path: &[u8]) -> bool {
        lock(&self.last).as_ref().is_some_and(|(last, when)| last == path && when.elapsed() < FRESH)
    }

    fn make(&self, path: &[u8]) -> Result<bool> {
        let (above, leaf) = self.split(path);
        prove(&self.pool, above, &OwnNames::default(), &[leaf]).pop().unwrap_or(Ok(())).map_err(|e| e.at(path))?;
        let reply = self.pool.take()?.ask("MKD", path, "mkdir")?;
        if reply.is_done() {
            *lock(&self.last) = Some((path.to_vec(), Instant::now()));
            return Ok(true);
        }
        if self.kind(path)? == Some(Kind::Dir) { Ok(false) } else { Err(reply.failure("mkdir").at(path)) }
    }
}

impl Host for FtpHost {
    fn renames(&self) -> bool {
        true
    }

    /// Absolute, without empty parts.
    fn path(&self, location: &Location) -> Vec<u8> {
        let home = self.pool.known().map_or(&b"/"[..], |known| &known.home);
        let whole = if location.path.starts_with(b"/") { location.path.clone() } else { join(home, &location.path) };
        let parts: Vec<&[u8]> = whole.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        [b"/", parts.join(&b'/').as_slice()].concat()
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>> {
        self.kind(path)
    }

    fn make_dir(&self, path: &[u8], parents: bool) -> Result<bool> {
        if parents {
            for (at, _) in path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/') {
                if self.kind(&path[..at])?.is_none() {
                    self.make(&path[..at])?;
                }
            }
        }
        self.make(path)
    }

    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        match self.kind(path)? {
            Some(Kind::Dir) => {}
            Some(_) => return Err(Error::new(ErrorKind::Usage, "open").at(path).because("is not a directory")),
            None => return Err(Error::new(ErrorKind::NotFound, "open").at(path).because("no such file or directory")),
        }
        *lock(&self.last) = None;
        self.opened(path, options)
    }

    /// A name that is read is looked up next: that tells whether there is a directory, too.
    fn open_name(&self, path: &[u8], options: OpenOptions) -> Result<(Arc<dyn Store>, Vec<u8>)> {
        let (above, leaf) = self.split(path);
        if matches!(leaf, b"" | b"." | b"..") {
            let e = Error::new(ErrorKind::Usage, "open").because("has no name of its own");
            return Err(e.hint("name it by its path in the parent directory"));
        }
        let is_read = self.moves_data && options.role == Role::Browse;
        Ok((if is_read { self.opened(above, options)? } else { self.open(above, options)? }, leaf.to_vec()))
    }
}

impl FtpHost {
    /// A directory that is known to be one.
    fn opened(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        match options.role {
            Role::Browse if !self.moves_data => {}
            Role::Browse | Role::Source => self.pool.prepare(self.ahead, Wanted::Intake),
            Role::Destination => self.pool.prepare(self.ahead, Wanted::Blocks),
        }
        let place = Place {
            scheme: self.scheme,
            endpoint: self.endpoint.clone(),
            account: self.account.clone(),
            root: path.to_vec(),
            ..Place::default()
        };
        Ok(Arc::new(Ftp::new(
            self.pool.clone(),
            self.known()?.features.clone(),
            place,
            options.role == Role::Destination,
            self.moves_data && options.role != Role::Destination,
        )))
    }
}
