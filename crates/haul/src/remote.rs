//! Hosts behind ssh: each is reached once in a run, whatever is asked of it, by haul on the remote host where it is there,
//! else by plain SFTP.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_core::entry::{Kind, show as safe};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;
use haul_stores::agent::{self, Direct, RootOptions, Wishes};
use haul_stores::place::{self, Outcome, Program, There};
use haul_stores::s3::{Client, Learning};
use haul_stores::sftp::{self, CHANNELS};
use haul_stores::ssh::{Login, Target, far_command};

use crate::flags::connect::Connect;
use crate::location::{Location, Scheme};
use crate::objects::Place;
use crate::{out, units};

/// The hosts that this run has reached.
pub struct Hosts<'a> {
    connect: &'a Connect,
    /// The longest that a host may say nothing; `None` is haul's own bound.
    patience: Option<Duration>,
    known: Mutex<Vec<Known>>,
    /// Where it is kept what was learned of hosts; `None` for commands that move no data.
    learned: Option<Learned>,
    /// `-z`.
    squeeze: bool,
    /// `--streams`.
    streams: Option<usize>,
    /// A host has no haul and could have this one.
    placeable: AtomicBool,
}

/// What earlier runs have learned of hosts: a file for each, `<state directory>/hosts/<host>`, which says that no data
/// connection could be made. After a day it is tried again: networks change.
#[derive(Clone, Debug)]
struct Learned {
    place: Option<PathBuf>,
}

const BLOCKED: &str = "no data connection could be made";
const FAILING: &str = "data connections were made and failed";

const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

impl Learned {
    fn file(&self, endpoint: &str) -> Option<PathBuf> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "@._-".contains(c) { c } else { '+' };
        Some(self.place.as_ref()?.join("hosts").join(endpoint.chars().map(plain).collect::<String>()))
    }

    fn is_closed(&self, endpoint: &str) -> bool {
        let written = self.file(endpoint).and_then(|file| file.metadata().ok()).and_then(|meta| meta.modified().ok());
        written.is_some_and(|written| written.elapsed().is_ok_and(|age| age < FORGOTTEN))
    }

    fn learn(&self, endpoint: &str, trouble: Option<&str>) {
        let Some(file) = self.file(endpoint) else { return };
        // It saves time the next time; that it cannot be kept is no failure.
        let _ = match trouble {
            None => std::fs::remove_file(&file),
            Some(trouble) => {
                file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, format!("{trouble}\n")))
            }
        };
    }

    /// What a run has seen of its data connections.
    fn saw(&self, endpoint: &str, seen: &agent::Learned) {
        match seen {
            agent::Learned::Works => self.learn(endpoint, None),
            agent::Learned::Blocked => self.learn(endpoint, Some(BLOCKED)),
            agent::Learned::Fails(e) => {
                self.learn(endpoint, Some(FAILING));
                let why = safe(e.reason().as_bytes());
                out::say(&format!(
                    "{endpoint}: data connections failed twice ({why}); the data go through ssh from now on, and for a day without a new \
                     try (--no-direct never tries, --data-ports tries again, `haul doctor {endpoint}` tests them)"
                ));
            }
        }
    }
}

/// A host that was reached.
struct Known {
    key: Key,
    host: Arc<Host>,
    streams: Streams,
}

/// What the data of a host go through, as far as it is known before they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Streams {
    /// No data are moved, or nobody can tell.
    Untold,
    /// Data connections beside ssh, if they can be made: so many as `--streams` says, or as haul finds good.
    Direct(Option<usize>),
    Sessions(Option<usize>),
    /// One session of ssh, or `direct` what data connections can be made beside it.
    Single {
        direct: bool,
    },
}

impl Streams {
    fn words(self) -> String {
        match self {
            Streams::Untold => String::new(),
            Streams::Direct(None) => format!(" (up to {} streams)", agent::DATA),
            Streams::Direct(Some(1)) => " (1 stream)".into(),
            Streams::Direct(Some(streams)) => format!(" ({streams} streams)"),
            Streams::Sessions(Some(1)) => " (1 ssh session)".into(),
            Streams::Sessions(streams) => format!(" (up to {} ssh sessions)", streams.unwrap_or(CHANNELS)),
            Streams::Single { direct } => {
                let direct = if direct { format!("up to {} streams or ", agent::DATA) } else { String::new() };
                format!(" ({direct}one ssh session: there is no private place here for the socket that more of them would share)")
            }
        }
    }
}

type Key = (Option<String>, Option<String>, Option<u16>, bool);

/// A host, by the way that was found to it.
#[derive(Debug)]
pub enum Host {
    Agent(agent::Host),
    Sftp(sftp::Host),
    /// A bucket.
    Objects(Place),
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the remote haul may take to say that it is there: modules that a login script loads may take a while.
const GREETING: Duration = Duration::from_secs(60);

/// Whether an address names another machine: a host to be reached by ssh, or a bucket.
pub fn is_remote(location: &Location) -> bool {
    matches!(location.scheme, Scheme::Ssh | Scheme::Sftp | Scheme::S3)
}

impl Host {
    /// A path as the user writes it: relative to the home directory, which `~` is too.
    pub fn absolute(&self, path: &[u8]) -> Vec<u8> {
        match self {
            Host::Agent(host) => host.absolute(path),
            Host::Sftp(host) => host.absolute(path),
            Host::Objects(_) => [b"/", path].concat(),
        }
    }

    /// The path that an address names. That of an object keeps its slash at the end, which decides what is meant.
    pub fn path(&self, location: &Location) -> Vec<u8> {
        let mut path = self.absolute(&location.path);
        if matches!(self, Host::Objects(_)) && location.trailing_slash && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }

    /// The directory above, and the last part.
    pub fn split<'p>(&self, path: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        match self {
            // Keys may have slashes side by side: what is above keeps its own.
            Host::Objects(_) => path.split_at(path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)),
            _ => crate::open::split(path),
        }
    }

    /// What stands at an absolute path, links followed; `None` if nothing does.
    pub fn look(&self, path: &[u8]) -> Result<Option<Kind>> {
        match self {
            Host::Agent(host) => host.look(path),
            Host::Sftp(host) => host.look(path),
            Host::Objects(place) => place.look(path),
        }
    }

    /// Makes a directory at an absolute path, and with `parents` those above it.
    pub fn make_dir(&self, path: &[u8], parents: bool) -> Result<()> {
        match self {
            Host::Agent(host) => host.make_dir(path, parents),
            Host::Sftp(host) => host.make_dir(path, parents),
            Host::Objects(place) => place.make_dir(path),
        }
    }

    pub fn open(&self, path: &[u8]) -> Result<Arc<dyn Store>> {
        self.open_with(path, RootOptions { keep_modes: true, ..RootOptions::default() })
    }

    /// The directory at an absolute path. `Unsupported` where SFTP cannot do what is asked.
    pub fn open_with(&self, path: &[u8], options: RootOptions) -> Result<Arc<dyn Store>> {
        match self {
            Host::Agent(host) => Ok(Arc::new(host.open(path, options)?)),
            Host::Sftp(_) if options.follow => {
                Err(Error::new(ErrorKind::Unsupported, "open").at(path).because("-L cannot follow links of another machine by plain SFTP"))
            }
            Host::Sftp(host) => Ok(Arc::new(host.open(path)?)),
            Host::Objects(place) => Ok(Arc::new(place.open(path, false))),
        }
    }

    /// The directory at an absolute path, for a source: of a bucket there must be something below it, lest a slip of the
    /// pen empties the destination.
    pub fn open_source(&self, path: &[u8], options: RootOptions) -> Result<Arc<dyn Store>> {
        if let Host::Objects(place) = self
            && !place.is_dir(path)?
        {
            let e = Error::new(ErrorKind::NotFound, "open").at(path).because("there is nothing below this prefix");
            return Err(e.hint("`haul ls` shows what there is; an empty directory has a marker, a key that ends in a slash"));
        }
        self.open_with(path, options)
    }

    /// The same for what is to be written to.
    pub fn open_target(&self, path: &[u8], options: RootOptions) -> Result<Arc<dyn Store>> {
        match self {
            Host::Objects(place) => Ok(Arc::new(place.open(path, true))),
            _ => self.open_with(path, options),
        }
    }
}

impl<'a> Hosts<'a> {
    /// `-F`: the ssh configuration in use, where it is not the usual one.
    pub fn ssh_config(&self) -> Option<&Path> {
        self.connect.ssh_config.as_deref()
    }

    pub fn new(connect: &'a Connect) -> Self {
        Hosts {
            connect,
            patience: None,
            known: Mutex::default(),
            learned: None,
            squeeze: false,
            streams: None,
            placeable: AtomicBool::new(false),
        }
    }

    /// For a run that moves data: connections beside ssh are worth their making.
    pub fn for_data(connect: &'a Connect, state_dir: Option<&Path>) -> Self {
        let place = state_dir.map(Path::to_path_buf).or_else(|| haul_core::journal::default_root(|name| std::env::var_os(name)));
        Hosts { learned: Some(Learned { place }), ..Self::new(connect) }
    }

    #[must_use]
    pub fn squeezing(self, squeeze: bool) -> Self {
        Hosts { squeeze, ..self }
    }

    #[must_use]
    pub fn streaming(self, streams: Option<usize>) -> Self {
        Hosts { streams, ..self }
    }

    /// Sessions of ssh at the most.
    fn sessions(&self) -> usize {
        self.streams.unwrap_or(CHANNELS)
    }

    #[must_use]
    pub fn patient(self, patience: Option<Duration>) -> Self {
        Hosts { patience, ..self }
    }

    pub fn reach(&self, location: &Location) -> Result<Arc<Host>> {
        if location.scheme == Scheme::S3 {
            return self.bucket(location);
        }
        let plain = location.scheme == Scheme::Sftp || self.connect.no_agent;
        let key = (location.user.clone(), location.host.clone(), location.port, plain);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| known.key == key) {
            return Ok(known.host.clone());
        }
        let (login, endpoint) = self.login(location)?;
        let agent = if plain { None } else { self.agent(&login, &endpoint, &location.path)? };
        let host = match agent {
            Some(host) => Host::Agent(host),
            None => {
                let connect =
                    |login: Arc<Login>| sftp::Host::connect("ssh", endpoint.clone(), Box::new(move || login.sftp()), self.sessions());
                Host::Sftp(login.again(|| connect(login.clone()))?.with_stripes(self.streams))
            }
        };
        let streams = match &host {
            _ if self.learned.is_none() => Streams::Untold,
            Host::Sftp(_) if login.is_single() => Streams::Single { direct: false },
            Host::Sftp(_) => self.streams.map_or(Streams::Untold, |streams| Streams::Sessions(Some(streams))),
            Host::Agent(_) => match self.direct(&endpoint).is_some() {
                direct if login.is_single() => Streams::Single { direct },
                true => Streams::Direct(self.streams),
                false => Streams::Sessions(self.streams),
            },
            Host::Objects(_) => Streams::Untold,
        };
        let host = Arc::new(host);
        known.push(Known { key, host: host.clone(), streams });
        Ok(host)
    }

    /// A bucket of which nobody has asked whether it is there.
    pub fn unasked(&self, location: &Location) -> Result<Place> {
        Place::new(&self.connect.objects, self.client(location)?, location.host.as_deref().unwrap_or_default(), None)
    }

    /// A bucket, through the run's client for its server and account.
    fn bucket(&self, location: &Location) -> Result<Arc<Host>> {
        let Some(name) = location.host.clone() else {
            return Err(Error::new(ErrorKind::Usage, "open").because("the address names no bucket").hint("write s3://BUCKET/KEY"));
        };
        let key = (location.user.clone(), Some(format!("s3://{name}")), None, false);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| known.key == key) {
            return Ok(known.host.clone());
        }
        let state = self.learned.as_ref().and_then(|learned| learned.place.as_deref());
        let place = Place::new(&self.connect.objects, self.client(location)?, &name, state)?;
        place.must_exist()?;
        let host = Arc::new(Host::Objects(place));
        known.push(Known { key, host: host.clone(), streams: Streams::Untold });
        Ok(host)
    }

    /// What this run remembers of objects, to be written down at its end.
    pub fn learnings(&self) -> Vec<Arc<Learning>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |known: &Known| match &*known.host {
            Host::Objects(place) => place.learning(),
            Host::Agent(_) | Host::Sftp(_) => None,
        };
        known.iter().filter_map(of).collect()
    }

    /// Whether keys that are no file names go by names that stand for them.
    pub fn maps_keys(&self) -> bool {
        self.connect.objects.map_keys
    }

    /// The client for the object store of an address.
    pub fn client(&self, location: &Location) -> Result<Arc<Client>> {
        // A request that hangs is to be made again before the run counts as stuck.
        let patience = self.patience.map(|patience| (patience / 2).max(Duration::from_millis(500)));
        self.connect.clients.get(&self.connect.objects.of_profile(location.user.as_deref()), patience)
    }

    /// The login to a host, before anything goes through it, and the host as the user reaches it.
    pub fn login(&self, location: &Location) -> Result<(Arc<Login>, String)> {
        let Some(name) = location.host.clone() else {
            return Err(Error::new(ErrorKind::Usage, "connect").because("the address names no host"));
        };
        let connect = self.connect;
        let target = Target {
            host: name,
            user: location.user.clone(),
            port: location.port.or(connect.port),
            command: connect.ssh.as_ref().map(|words| words_of(words)).unwrap_or_default(),
            config: connect.ssh_config.clone(),
            jump: connect.jump.clone(),
            identities: connect.identities.clone(),
            options: connect.ssh_options.iter().map(Into::into).collect(),
            logins: connect.logins,
            patience: self.patience,
        };
        let endpoint = target.endpoint();
        Ok((Arc::new(Login::new(target)?), endpoint))
    }

    /// haul on the remote host; `None` where there is none. What was asked for by `--agent` must be there.
    fn agent(&self, login: &Arc<Login>, endpoint: &str, path: &[u8]) -> Result<Option<agent::Host>> {
        if self.connect.install_agent {
            self.place(login, endpoint)?;
        }
        let ports = self.connect.data_ports;
        let direct = || {
            let learned = self.direct(endpoint)?.clone();
            let host = endpoint.to_string();
            let login = login.clone();
            let reached = Box::new(move |claimed| login.reached(claimed));
            Some(Direct { ports, reached, learned: Arc::new(move |seen: &agent::Learned| learned.saw(&host, seen)) })
        };
        let met = match self.connect.install_agent {
            true => login.again(|| self.greet(login, endpoint, path, direct())),
            false => self.greet(login, endpoint, path, direct()),
        };
        // A connection that was cut says nothing of what is there.
        let met = match met {
            Err(e) if agent::ended_silently(&e) && login.was_cut() => self.greet(login, endpoint, path, direct()),
            met => met,
        };
        match met {
            Ok(host) => Ok(Some(host)),
            Err(e) if self.connect.agent.is_some() && matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::TimedOut) => {
                let e = login.explain(e);
                // What keeps ssh itself out has a next step of its own.
                let hinted = e.next_step().is_some();
                Err(if hinted { e } else { e.hint("--agent names the haul there by its path; without it plain SFTP does") })
            }
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::TimedOut) => {
                if !self.connect.install_agent && agent::missing_platform(&e).is_some_and(|far| far == place::platform()) {
                    self.placeable.store(true, Ordering::Relaxed);
                }
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Where it is kept whether data connections can be made, if they are to be tried.
    fn direct(&self, endpoint: &str) -> Option<&Learned> {
        // Ports that were named are always tried.
        let tried = |learned: &&Learned| self.connect.data_ports.is_some() || !learned.is_closed(endpoint);
        self.learned.as_ref().filter(|_| self.connect.direct).filter(tried)
    }

    /// Meets haul on the remote host. `Unsupported` where there is none.
    pub fn greet(&self, login: &Arc<Login>, endpoint: &str, path: &[u8], direct: Option<Direct>) -> Result<agent::Host> {
        let (login, asked) = (login.clone(), self.connect.agent.clone());
        let start = move |word: Option<&str>| login.run(&far_command(asked.as_deref(), VERSION, word));
        let (sessions, streams) = (self.sessions(), self.streams);
        let wishes = Wishes { sessions, streams, greeting: GREETING, version: VERSION, squeeze: self.squeeze, direct };
        agent::Host::connect(Box::new(start), wishes, endpoint.to_string(), path)
    }

    /// For later runs: whether a data connection to a host could be made.
    pub fn learn(&self, endpoint: &str, works: bool) {
        if let Some(learned) = &self.learned {
            learned.learn(endpoint, (!works).then_some(BLOCKED));
        }
    }

    /// `--install-agent`: this program onto the far side, where none is that can be used, and never without a line that
    /// says so. What keeps it from being placed is said, and the run goes on over plain SFTP; another platform is an error.
    pub fn place(&self, login: &Arc<Login>, endpoint: &str) -> Result<()> {
        let program = Program::own(VERSION)?;
        let there = match program.look(login) {
            Ok(there) => there,
            Err(e) if e.kind() == ErrorKind::Unsupported && e.op() != place::OP => {
                out::say(&format!("{endpoint}: haul cannot be placed there: {}", e.reason()));
                return Ok(());
            }
            Err(e) if e.op() == place::OP => return Err(e.at(endpoint.as_bytes())),
            Err(e) => return Err(login.explain(e)),
        };
        let instead = match there {
            There::Same | There::Elsewhere => return Ok(()),
            There::Other => ", in the place of one that was damaged or of another build",
            There::Nothing => "",
        };
        match program.place(login) {
            Ok(Outcome::Placed(path)) => {
                let size = units::bytes(program.bytes);
                let needs = if program.is_static { "" } else { "; it is not the static program of ./release and uses the C library there" };
                out::say(&format!("placed haul {VERSION} ({size}) at {endpoint}:{path}, checked{instead}{needs}"));
            }
            Ok(Outcome::CannotStart(words)) => {
                let needs = if program.is_static { "" } else { " (it needs this machine's C library; what ./release builds does not)" };
                out::say(&format!("{endpoint}: haul {VERSION} cannot start there and was removed again: {words}{needs}"));
            }
            Err(e) if e.op() == place::OP => out::say(&format!("{endpoint}: haul was not placed there: {}", e.reason())),
            Err(e) => return Err(login.explain(e)),
        }
        Ok(())
    }

    /// Whether a host was reached by plain SFTP.
    pub fn any_plain(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|known| matches!(*known.host, Host::Sftp(_)))
    }

    /// Lets the destination read from the sources by itself, where both are other machines; says how the data go then.
    pub fn befriend(&self, sources: &[Location], destination: &Location) -> Option<&'static str> {
        if !self.connect.direct || !is_remote(destination) || !sources.iter().all(is_remote) {
            return None;
        }
        if destination.scheme == Scheme::S3 || sources.iter().any(|source| source.scheme == Scheme::S3) {
            let within = sources.iter().all(|source| (source.scheme, &source.user) == (Scheme::S3, &destination.user));
            let within = within && destination.scheme == Scheme::S3;
            return Some(if within { "copied by the service" } else { "through this machine" });
        }
        let Ok(to) = self.reach(destination) else { return None };
        let Host::Agent(to) = &*to else { return Some("through this machine") };
        let befriended = sources.iter().all(|source| match self.reach(source).as_deref() {
            Ok(Host::Agent(from)) => to.befriend(from).is_ok(),
            _ => false,
        });
        Some(if befriended { "large files without passing this machine" } else { "through this machine" })
    }

    /// How the hosts of a run were reached, for its first line; empty if there are none.
    pub fn sentence(&self) -> String {
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (buckets, known): (Vec<&Known>, Vec<&Known>) = all.iter().partition(|known| matches!(*known.host, Host::Objects(_)));
        let mut services: Vec<String> = Vec::new();
        for known in &buckets {
            if let Host::Objects(place) = &*known.host
                && !services.contains(&place.service())
            {
                services.push(place.service());
            }
        }
        if !services.is_empty() && known.is_empty() {
            return format!("(S3 at {})", services.join(" and "));
        }
        let plain = known.iter().filter(|known| matches!(*known.host, Host::Sftp(_))).count();
        let first = known.first().map_or(Streams::Untold, |known| known.streams);
        let streams = if known.iter().all(|known| known.streams == first) { first.words() } else { String::new() };
        let hint = if self.placeable.load(Ordering::Relaxed) { "; --install-agent would place haul there" } else { "" };
        let sftp = format!("over plain SFTP (times to the second, no extended attributes, no ACLs{hint})");
        match (plain, known.len()) {
            (_, 0) => String::new(),
            (0, _) => format!("by haul on the remote host{streams}"),
            (plain, all) if plain == all => format!("{sftp}{streams}"),
            _ => format!("by haul on one far side, {sftp} on the other"),
        }
    }
}

/// `-e 'ssh -p 2222'`: the command and its arguments, split at blanks as rsync does.
fn words_of(command: &std::ffi::OsStr) -> Vec<std::ffi::OsString> {
    use std::os::unix::ffi::OsStrExt;
    let words = command.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.map(|word| std::ffi::OsStr::from_bytes(word).to_os_string()).collect()
}
