//! `haul doctor`: how a host is reached and what it can do.
//!
//! ```text
//! log in once -> a script asks its sh -> meet its haul, try data connections -> SFTP -> count sessions -> advice
//! ```
//!
//! All goes through sessions of the one login; what cannot be found out is left open and never ends the command.

mod advice;
mod facts;
mod ftp;
mod show;

use haul_core::place::provider::Provider as _;
use haul_ftp::FtpProvider;
use haul_run::hosts::Hosts;
use haul_run::location::Location;
use haul_ssh::ssh::{Flags, Reach, is_sftp};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::entry::show as safe;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;
use haul_ssh::agent::{self, Attempt};
use haul_ssh::probe::{Probe, probe};
use haul_ssh::script::{count_sessions, runs_haul};
use haul_ssh::sftp::{self, CHANNELS};
use haul_ssh::ssh::install as place;
use haul_ssh::ssh::{Entered, Login, Whose};

use crate::exit::Exit;
use crate::flags::connect::Connect;
use crate::flags::{DoctorFlags, Global};
use crate::out;
use crate::render::JSON_VERSION;
use facts::{Clock, Connection, Data, Direction, Document, Facts, Failure, Haul, Home, Sessions, Sftp, System};

/// How long a host may say nothing while it is asked; a dead mount there must not hold this up.
const PATIENCE: Duration = Duration::from_secs(20);
/// The sessions of a login greet within this time, all together; nothing from the host for so long ends one.
const WHOLE: Duration = Duration::from_secs(60);
/// With a login in it, for which a person may be asked.
const LOGIN: Duration = Duration::from_secs(300);
/// Quick requests that are timed; the median counts.
const ROUNDS: usize = 9;

pub fn run(flags: &DoctorFlags, global: &Global) -> Exit {
    let idle_timeout = flags.connect.idle_timeout.unwrap_or(WHOLE);
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref()).printing(out::say).patient(Some(idle_timeout));
    let mut exits = Vec::new();
    let mut all = Vec::new();
    for location in &flags.hosts {
        let mut facts = Facts::default();
        match examine(&hosts, &flags.connect, location, &mut facts) {
            Ok(()) => {
                facts.usable = true;
                if facts.ftp.is_none() {
                    facts.advice = advice::advise(&facts, &flags.connect);
                }
            }
            Err(e) => {
                facts.error = Some(Failure { reason: safe(e.reason().as_bytes()), next_step: e.next_step().map(str::to_string) });
                exits.push(out::error_of_document(&e));
            }
        }
        let text = show::text(&facts);
        let shown = match (global.json, global.quiet) {
            (false, _) => out::print(format!("{}{text}", if all.is_empty() { "" } else { "\n" }).as_bytes()),
            (true, false) => {
                out::complain(&text.into(), false);
                Ok(())
            }
            (true, true) => Ok(()),
        };
        if let Err(e) = shown {
            return out::error(&Error::io(e, "write"));
        }
        all.push(facts);
    }
    if global.json {
        let time = format!("{:.3}", jiff::Timestamp::now());
        let document = Document { event: "doctor", time, version: JSON_VERSION, hosts: &all };
        let written = serde_json::to_string(&document).map_err(|e| Error::new(ErrorKind::Other, "write").because(e.to_string()));
        let written = written.and_then(|text| out::print((text + "\n").as_bytes()).map_err(|e| Error::io(e, "write")));
        if let Err(e) = written {
            return out::error(&e);
        }
    }
    exits.into_iter().next().unwrap_or(Exit::Success)
}

fn examine(hosts: &Hosts, connect: &Connect, location: &Location, facts: &mut Facts) -> Result<()> {
    facts.host = safe(location.host.as_deref().unwrap_or_default().as_bytes());
    if FtpProvider.schemes().contains(&location.scheme) {
        return ftp::examine(hosts, location, facts);
    }
    let reach = Reach::new(hosts.access(), location)?;
    let (login, endpoint, flags) = (reach.login.clone(), reach.endpoint.clone(), connect.get::<Flags>());
    facts.host = safe(endpoint.as_bytes());
    let entered = login.enter()?;
    facts.login = Some(login_facts(&entered));
    let plain = is_sftp(&flags, location);
    let alone = entered.whose == Whose::Each;
    if flags.install_agent && !plain && !alone {
        reach.place()?;
    }
    if !alone {
        login.greet_until(Instant::now() + WHOLE);
    }
    let named = flags.agent.as_deref();
    let patience = connect.answer_timeout.map_or(PATIENCE, |timeout| timeout.min(PATIENCE));
    let begun = Instant::now();
    let (probed, refused) = match probe(&login, named, env!("CARGO_PKG_VERSION"), if alone { LOGIN } else { patience }) {
        Ok(probed) => (Some(probed), None),
        // Each other session would ask for a login of its own.
        Err(e) if alone && !runs_haul(&e) => return Err(login.explain(e)),
        Err(e) => (None, Some(e)),
    };
    if let Some(probed) = &probed {
        note(facts, probed);
    }
    if alone {
        if let Some(login) = &mut facts.login {
            login.seconds = begun.elapsed().as_secs_f64();
        }
        facts.sessions = Some(Sessions { opened: 1, tried: 1 });
        return Ok(());
    }
    let mut agent = None;
    let only_haul = refused.as_ref().is_some_and(runs_haul);
    if let Some(e) = refused.filter(|_| !plain && !only_haul) {
        let hangs = e.kind() == ErrorKind::TimedOut;
        let why = if hangs { "no command ran on the host: a login script may hang" } else { "no command can be run on the host" };
        facts.haul_error = Some(why.into());
    } else if !plain {
        match login.again(|| reach.greet(&location.path, None)) {
            Ok(host) => {
                met(&reach, &flags, &host, probed.as_ref(), facts)?;
                agent = Some(host);
            }
            Err(e) => facts.haul_error = Some(why_not(&login, probed.as_ref(), e)),
        }
    }
    if only_haul && agent.is_some() {
        // A login for one directory: each session of it is haul of its own.
        facts.sessions = Some(Sessions { opened: 1, tried: 1 });
        facts.route = Some("haul");
        return Ok(());
    }
    let mut sftp = match agent {
        Some(_) => reach_sftp(&login, &endpoint),
        None => login.again(|| reach_sftp(&login, &endpoint)),
    };
    let held = usize::from(agent.is_some()) + usize::from(sftp.is_ok());
    let opened = match &probed {
        Some(_) => count_sessions(&login, held, CHANNELS),
        None if held == 0 => 0,
        None => held + (held..CHANNELS).map_while(|_| login.sftp().ok()).collect::<Vec<_>>().len(),
    };
    facts.sessions = Some(Sessions { opened, tried: CHANNELS });
    if sftp.is_err() && agent.is_some() && opened == 1 {
        // It may have been the one session that there is.
        drop(agent.take());
        sftp = login.again(|| reach_sftp(&login, &endpoint));
    }
    match sftp {
        Ok(host) => sftp_facts(&host, facts),
        Err(e) if facts.haul.is_none() => return Err(login.explain(e)),
        Err(e) => facts.sftp_error = Some(safe(login.explain(e).reason().as_bytes())),
    }
    facts.route = Some(if facts.haul.is_some() { "haul" } else { "sftp" });
    Ok(())
}

/// No clock is read any finer.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn login_facts(entered: &Entered) -> facts::Login {
    let own = |words: &Option<String>| words.as_ref().map(|words| safe(words.as_bytes()));
    facts::Login {
        seconds: entered.took.as_secs_f64(),
        user: None,
        method: own(&entered.method),
        master: match entered.whose {
            Whose::Ours => "haul",
            Whose::Users => "user",
            Whose::Each => "none",
        },
        server: own(&entered.server),
        cipher_out: own(&entered.ciphers.as_ref().map(|(out, _)| out.clone())),
        cipher_in: own(&entered.ciphers.as_ref().map(|(_, into)| into.clone())),
    }
}

/// What the remote shell printed.
fn note(facts: &mut Facts, probed: &Probe) {
    let own = |words: &Option<String>| words.as_ref().map(|words| safe(words.as_bytes()));
    if let Some(login) = &mut facts.login {
        login.user = own(&probed.user);
    }
    facts.connection = probed.connection.as_deref().and_then(Connection::read);
    let name = own(&probed.system).unwrap_or_else(|| "unknown".into());
    facts.system = Some(System { name, shell: own(&probed.shell), noise: probed.noise });
    let clock = probed.clock.and_then(|clock| clock.ahead());
    facts.clock = clock.map(|(ahead, within)| Clock { ahead: microseconds(ahead), within: microseconds(within) });
    facts.home = Some(Home {
        path: own(&probed.home),
        file_system: own(&probed.file_system),
        free: probed.bytes.map(|(_, free)| free),
        size: probed.bytes.map(|(size, _)| size),
        free_inodes: probed.inodes.map(|(_, free)| free),
        inodes: probed.inodes.map(|(all, _)| all),
    });
}

/// The remote haul was met: what it says, how far away it is, and whether data connections can be made.
fn met(reach: &Reach, flags: &Flags, host: &agent::Host, probed: Option<&Probe>, facts: &mut Facts) -> Result<()> {
    let far = host.remote()?;
    let path = probed.and_then(|probed| probed.haul.as_ref()).map(|path| safe(path.as_bytes()));
    facts.haul = Some(Haul { version: safe(far.haul.as_bytes()), path, protocol: haul_ssh::agent::PROTOCOL });
    if facts.connection.is_none() {
        facts.connection = Connection::read(&far.connection);
    }
    facts.round_trip = round_trip(|| host.look(b"/").map(|_| ()));
    if !flags.no_direct {
        let login = reach.login.clone();
        let reached = move |claimed| login.reached(claimed);
        let out = host.try_out(flags.data_ports, &reached);
        // This machine listens for others only if the user says so.
        let into = flags.accept.then(|| host.try_in(flags.data_ports, &reached));
        // A run takes the first direction that opens, and stays with it.
        let works = [Some(&out), into.as_ref()]
            .into_iter()
            .flatten()
            .find(|tried| tried.moved.is_some())
            .is_some_and(|tried| tried.failed.is_none());
        // Where nobody could listen, the network was not asked.
        let asked = out.at.is_some() && into.as_ref().is_none_or(|into| into.at.is_some());
        if works || asked {
            reach.learn(works);
        }
        facts.data = Some(Data { out: direction(out), into: into.map(direction) });
    }
    Ok(())
}

fn direction(attempt: Attempt) -> Direction {
    Direction {
        works: attempt.failed.is_none(),
        address: attempt.at.map(|at| at.ip().to_string()),
        port: attempt.at.map(|at| at.port()),
        seconds: attempt.took.as_secs_f64(),
        bytes: attempt.moved,
        cipher: attempt.suite,
        error: attempt.failed.map(|e| safe(e.reason().as_bytes())),
    }
}

/// The median of some, in seconds; `None` where they fail.
fn round_trip(ask: impl Fn() -> Result<()>) -> Option<f64> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        ask().ok()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Some(times[ROUNDS / 2].as_secs_f64())
}

/// Why there is no haul to speak with.
fn why_not(login: &Login, probed: Option<&Probe>, e: Error) -> String {
    if let Some(far) = agent::missing_platform(&e) {
        let far = safe(far.as_bytes());
        return if far == place::platform() {
            "not installed".into()
        } else {
            format!("not installed; the host is {far}, this haul is for {}", place::platform())
        };
    }
    let path = probed.and_then(|probed| probed.haul.as_ref()).map_or("it".into(), |path| safe(path.as_bytes()));
    match e.kind() {
        ErrorKind::Unsupported => format!("{path} does not start: {}", safe(e.reason().as_bytes())),
        ErrorKind::TimedOut => format!("{path} does not answer"),
        _ => safe(login.explain(e).reason().as_bytes()),
    }
}

fn reach_sftp(login: &Arc<Login>, endpoint: &str) -> Result<sftp::Host> {
    let login = login.clone();
    sftp::Host::connect("ssh", endpoint.to_string(), Box::new(move || login.sftp()), 1)
}

fn sftp_facts(host: &sftp::Host, facts: &mut Facts) {
    let (read, write) = host.request_bytes();
    facts.sftp = Some(Sftp { extensions: host.extensions(), read, write });
    if facts.round_trip.is_none() {
        facts.round_trip = round_trip(|| host.look(b"/").map(|_| ()));
    }
    if facts.home.as_ref().is_none_or(|home| home.free.is_none())
        && let Ok(root) = host.open(&host.absolute(b""), false)
    {
        let space = root.extensions().system.space().ok().flatten();
        let home = facts.home.get_or_insert_default();
        home.path.get_or_insert_with(|| safe(&root.place().root));
        home.free = space.map(|space| space.bytes);
        home.free_inodes = space.map(|space| space.files).filter(|files| *files < u64::MAX);
    }
}
