//! What is known of a host, as a person reads it: one aligned block.

use super::facts::{Clock, Direction, Facts, Home, Login, Sftp};
use crate::text::fold;
use crate::text::things;
use crate::units::{bytes, count};

/// Columns of a line, and of the words that name it.
const WIDTH: usize = 110;
const NAMES: usize = 14;

pub fn text(facts: &Facts) -> String {
    let mut block = Block::default();
    let how = match (&facts.error, facts.usable, facts.route) {
        (Some(failed), ..) => format!("does not work: {}", failed.reason),
        (None, true, Some("haul")) => "works, with haul on the host".into(),
        (None, true, Some("ftp")) => "works, by FTP".into(),
        (None, true, Some(_)) => "works, over plain SFTP".into(),
        _ => "login works".into(),
    };
    block.add_whole(&format!("{}: {how}", facts.host));
    if let Some(login) = &facts.login {
        block.add("login", &login_words(login));
        if let Some(server) = &login.server {
            block.add("server", &[Some(server.clone()), ciphers(login)].into_iter().flatten().collect::<Vec<_>>().join(", "));
        }
    }
    if let Some(c) = &facts.connection {
        block.add("connection", &format!("from {} port {} to {} port {}, as seen by the host", c.from, c.from_port, c.to, c.to_port));
    }
    if let Some(system) = &facts.system {
        let shell = system.shell.as_ref().map_or(String::new(), |shell| format!(", login shell {shell}"));
        let noise = if system.noise > 0 { format!(", login scripts print {}", things(system.noise as u64, "byte")) } else { String::new() };
        block.add("system", &format!("{}{shell}{noise}", system.name));
    }
    match (&facts.haul, &facts.haul_error) {
        (Some(haul), _) => {
            let place = haul.path.as_ref().map_or(String::new(), |path| format!(" at {path}"));
            block.add("haul", &format!("{}{place}, protocol {}", haul.version, haul.protocol));
        }
        (None, Some(why)) => block.add("haul", why),
        (None, None) => {}
    }
    match (&facts.sftp, &facts.sftp_error) {
        (Some(sftp), _) => block.add("SFTP", &sftp_words(sftp)),
        (None, Some(why)) => block.add("SFTP", &format!("does not work: {why}")),
        (None, None) => {}
    }
    if let Some(ftp) = &facts.ftp {
        block.add("system", &ftp.system);
        block.add("protection", ftp.protection);
        block.add("server", &ftp.abilities.join(", "));
        let listed = ftp.listing_seconds.map(|seconds| format!("works; the home directory was listed in {}", time(seconds)));
        let failed = || format!("does not work: {}", ftp.data_error.as_deref().unwrap_or("unknown reason"));
        block.add("data", &listed.unwrap_or_else(failed));
    }
    if let Some(sessions) = &facts.sessions {
        let words = match sessions.opened {
            opened if facts.ftp.is_some() && opened >= sessions.tried => format!("at least {opened} at the same time"),
            opened if facts.ftp.is_some() => format!("{opened} at the same time"),
            opened if sessions.tried == 1 => format!("{opened} used"),
            opened if opened >= sessions.tried => format!("at least {opened} per login"),
            opened => format!("{opened} per login"),
        };
        block.add("sessions", &words);
    }
    if let Some(seconds) = facts.round_trip {
        block.add("round trip", &time(seconds));
    }
    if let Some(clock) = &facts.clock {
        block.add("clock", &clock_words(clock));
    }
    if facts.haul.is_none() && facts.haul_error.is_some() {
        block.add("data", "through ssh only: direct connections need haul on the host");
    }
    if let Some(data) = &facts.data {
        block.add("data out", &direction("this host", &data.out));
        let into = data.into.as_ref().map(|into| direction("that host", into));
        block.add("data in", &into.unwrap_or_else(|| "not tested: this machine accepts connections with --accept only".into()));
    }
    if let Some(home) = &facts.home {
        block.add("home", &home_words(home));
    }
    for advice in &facts.advice {
        block.add("advice", advice);
    }
    block.0
}

#[derive(Default)]
struct Block(String);

impl Block {
    fn add(&mut self, name: &str, words: &str) {
        self.add_whole(&format!("  {name:<width$}{words}", width = NAMES - 2));
    }

    fn add_whole(&mut self, line: &str) {
        for line in fold(line, WIDTH, NAMES) {
            self.0.push_str(&line);
            self.0.push('\n');
        }
    }
}

fn login_words(login: &Login) -> String {
    let user = login.user.as_ref().map_or(String::new(), |user| format!("as {user}"));
    let method = login.method.as_ref().map_or(String::new(), |method| format!("by {method}"));
    let how = match login.master {
        "user" => "through your open ssh connection".to_string(),
        "none" => format!("in {}, one login per session", time(login.seconds)),
        _ => format!("in {}", time(login.seconds)),
    };
    [user, method, how].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn ciphers(login: &Login) -> Option<String> {
    let (out, into) = (login.cipher_out.as_ref()?, login.cipher_in.as_ref()?);
    Some(if out == into { out.clone() } else { format!("{out} out and {into} in") })
}

fn sftp_words(sftp: &Sftp) -> String {
    let extensions = if sftp.extensions.is_empty() { "version 3 without extensions".into() } else { sftp.extensions.join(", ") };
    match (bytes(sftp.read as u64), bytes(sftp.write as u64)) {
        (read, write) if read == write => format!("{extensions}; {read} per request"),
        (read, write) => format!("{extensions}; {read} per read, {write} per write"),
    }
}

fn clock_words(clock: &Clock) -> String {
    if clock.ahead.abs() <= clock.within {
        return format!("equal to this host's within {}", time(clock.within));
    }
    let which = if clock.ahead > 0.0 { "ahead of" } else { "behind" };
    format!("{} {which} this host's, +/- {}", time(clock.ahead.abs()), time(clock.within))
}

fn direction(who: &str, direction: &Direction) -> String {
    let why = direction.error.as_deref().unwrap_or("unknown reason");
    match (&direction.address, direction.port) {
        (Some(address), Some(port)) if direction.works => {
            let moved = direction.bytes.filter(|moved| *moved > 0).map_or(String::new(), |moved| format!("; {} transferred", bytes(moved)));
            let cipher = direction.cipher.as_ref().map_or(String::new(), |cipher| format!("; {cipher}"));
            format!("{who} connects to {address} port {port}, in {}{moved}{cipher}", time(direction.seconds))
        }
        (Some(address), Some(port)) if let Some(moved) = direction.bytes => {
            format!("no: {who} connects to {address} port {port}, which fails after {}: {why}", bytes(moved))
        }
        (Some(address), Some(port)) => {
            format!("no: {who} cannot connect to {address} port {port}: {why} (after {})", time(direction.seconds))
        }
        _ => format!("no: no port for {who} to connect to: {why}"),
    }
}

fn home_words(home: &Home) -> String {
    let path = home.path.as_deref().unwrap_or("?");
    let kind = home.file_system.as_ref().map_or(String::new(), |kind| format!(" on {kind}"));
    let of = |free: String, all: Option<String>| all.map_or(free.clone(), |all| format!("{free} of {all}"));
    let space = home.free.map(|free| of(bytes(free), home.size.map(bytes)));
    let inodes = home.free_inodes.map(|free| format!("{} inodes", of(count(free), home.inodes.map(count))));
    let free = [space, inodes].into_iter().flatten().collect::<Vec<_>>().join(" and ");
    if free.is_empty() { format!("{path}{kind}") } else { format!("{path}{kind}: {free} free") }
}

/// `0.21 ms`, `50.9 ms`, `1.51 s`, `2h05m`.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 0.009_995 => format!("{:.2} ms", s * 1000.0),
        s if s < 0.0995 => format!("{:.1} ms", s * 1000.0),
        s if s < 10.0 => format!("{s:.2} s"),
        s => crate::units::duration(std::time::Duration::try_from_secs_f64(s).unwrap_or_default()),
    }
}
