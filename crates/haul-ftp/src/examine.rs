//! What an FTP server can do, for `haul doctor`.

use std::any::Any;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use haul_core::entry::show;
use haul_core::error::{Error, Result};
use haul_core::place::Host;

use super::features::{Features, get};
use super::host::FtpHost;
use super::login::Refused;
use super::pool::Wanted;
use super::session::Session;

/// Quick requests that are timed; the median counts.
const ROUNDS: usize = 9;
const SESSIONS: usize = 8;

const OP: &str = "examine";

#[derive(Clone, Debug)]
pub struct Examined {
    pub user: String,
    /// Its answer to SYST.
    pub system: String,
    pub protection: &'static str,
    /// The directory after the login.
    pub home: String,
    pub round_trip: Duration,
    /// How it lists, resumes and sets attributes.
    pub abilities: Vec<String>,
    /// How long a listing of the home directory took, or why there is none.
    pub data: Result<Duration, String>,
    /// The next step where data connections fail.
    pub advice: Option<String>,
    /// Sessions that were open at the same time, of those that were tried.
    pub sessions: (usize, usize),
}

impl FtpHost {
    /// The host, if it is an FTP server.
    pub fn of(host: &dyn Host) -> Option<&FtpHost> {
        (host as &dyn Any).downcast_ref()
    }

    /// Asks the server. It changes nothing there.
    pub fn examine(&self) -> Result<Examined> {
        let mut session = self.pool.take()?;
        let known = self.known()?;
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            session.ask("NOOP", b"", OP)?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let system = session.ask("SYST", b"", OP)?;
        let began = Instant::now();
        let word = if known.features.mlst.is_some() { "MLSD" } else { "LIST" };
        let listed = session.fetch(word, if word == "MLSD" { &known.home } else { b"" }, OP).map_err(|failed| failed.into_error(OP));
        let data = listed.map(|_| began.elapsed());
        let protection = self.protection(&session);
        drop(session);
        Ok(Examined {
            user: self.pool.dialer.login.user.clone(),
            system: if system.is_done() { show(system.text.trim_ascii()) } else { "unknown".into() },
            protection,
            home: show(&known.home),
            round_trip: times[ROUNDS / 2],
            abilities: abilities(&known.features),
            advice: data.as_ref().err().and_then(Error::next_step).map(str::to_string),
            data: data.map_err(|e| show(e.reason().as_bytes())),
            sessions: self.count_sessions(),
        })
    }

    fn protection(&self, session: &Session) -> &'static str {
        let dialer = &self.pool.dialer;
        match (session.tls.is_some(), &dialer.grid, dialer.shell.is_some()) {
            (true, ..) => "commands and data inside TLS",
            (_, Some(grid), _) if grid.guard.is_none() => "commands encrypted (GSSAPI); data neither authenticated nor encrypted",
            (_, Some(_), _) => "commands encrypted (GSSAPI), data connections authenticated",
            (.., true) => "commands through ssh, data in clear text",
            _ => "none: password and data are sent in clear text",
        }
    }

    /// Opens sessions beside the first until one is refused, and closes them.
    fn count_sessions(&self) -> (usize, usize) {
        let mut open = Vec::new();
        while open.len() + 1 < SESSIONS {
            match self.pool.dialer.dial(Wanted::Stream) {
                Ok(session) => open.push(session),
                Err(Refused::TooMany(_) | Refused::For(_)) => return (open.len() + 1, open.len() + 2),
            }
        }
        (SESSIONS, SESSIONS)
    }
}

fn abilities(features: &Features) -> Vec<String> {
    let has = |flag: &AtomicBool, words: &str| get(flag).then(|| words.to_string());
    let hashes: Vec<&str> = features.hashes.iter().map(|(algorithm, _)| super::features::hash_name(*algorithm)).collect();
    [
        Some(if features.mlst.is_some() { "exact listings (MLSD)".into() } else { "listings in text (LIST)".to_string() }),
        has(&features.restarts_reading, "resumes downloads"),
        has(&features.restarts_writing, "resumes uploads"),
        has(&features.extended_blocks, "parallel uploads of one file (MODE E)"),
        (features.stripes() > 0).then(|| format!("striped over {} data nodes (SPAS, SPOR)", features.stripes())),
        features.sets_times().then(|| "sets times".into()),
        features.chmod.then(|| "sets permissions".into()),
        (features.utf8 && !features.plain).then(|| "UTF-8 names".into()),
        (!hashes.is_empty()).then(|| format!("checksums ({})", hashes.join(", "))),
    ]
    .into_iter()
    .flatten()
    .collect()
}
