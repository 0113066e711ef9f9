//! An FTP server: one login, quick requests, one listing, and as many further logins as it allows.

use std::time::Instant;

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_ftp::FtpHost;
use haul_run::hosts::Hosts;
use haul_run::location::Location;

use super::facts::{Facts, Ftp, Home, Login, Sessions};

pub fn examine(hosts: &Hosts, location: &Location, facts: &mut Facts) -> Result<()> {
    facts.host = show(location.authority().as_bytes());
    let began = Instant::now();
    let host = hosts.reach(location)?;
    let seconds = began.elapsed().as_secs_f64();
    let server = FtpHost::of(&*host).ok_or_else(|| Error::new(ErrorKind::Unsupported, "examine").because("is no FTP server"))?;
    let found = server.examine()?;
    facts.route = Some("ftp");
    facts.login = Some(Login { seconds, user: Some(found.user), master: "none", ..Login::default() });
    facts.round_trip = Some(found.round_trip.as_secs_f64());
    facts.sessions = Some(Sessions { opened: found.sessions.0, tried: found.sessions.1 });
    facts.home = Some(Home { path: Some(found.home), ..Home::default() });
    facts.advice.extend(found.advice);
    facts.ftp = Some(Ftp {
        system: found.system,
        protection: found.protection,
        abilities: found.abilities,
        listing_seconds: found.data.as_ref().ok().map(|took| took.as_secs_f64()),
        data_error: found.data.err(),
    });
    Ok(())
}
