//! What would make a host better, from what is known of it. Pure.

use super::facts::{Data, Facts};
use super::show::time;
use crate::flags::connect::Connect;
use crate::text::things;
use crate::units::{duration, rate};
use haul_ssh::agent::NO_DATA;
use haul_ssh::ssh::Flags;

/// A round trip in seconds from which on one ssh connection is the limit of a fast network.
const LONG: f64 = 0.002;
/// Bytes that OpenSSH lets be under way in one session.
const SESSION_WINDOW: f64 = 2.0 * 1024.0 * 1024.0;
/// Bytes that one TCP connection has under way at the most, with the buffers that Linux gives it unasked.
const CONNECTION_WINDOW: f64 = 2.6e6;
/// Clocks that differ by less do not matter for what compares times.
const CLOCKS: f64 = 2.0;
/// A login in seconds that nobody had to type for, and that is worth looking into.
const SLOW_LOGIN: f64 = 3.0;
/// What is left of space or inodes when it is time to say so: 2 in 100.
const LITTLE: u64 = 50;

pub fn advise(facts: &Facts, connect: &Connect) -> Vec<String> {
    [haul(facts, connect), data(facts), sessions(facts), login(facts), noise(facts), clock(facts), sftp(facts), space(facts)]
        .into_iter()
        .flatten()
        .collect()
}

fn haul(facts: &Facts, connect: &Connect) -> Option<String> {
    let ours = env!("CARGO_PKG_VERSION");
    if let Some(haul) = &facts.haul {
        return (haul.version != ours)
            .then(|| format!("haul is {} on the host and {ours} here; only equal versions are tested together", haul.version));
    }
    let why = facts.haul_error.as_ref()?;
    let gain = "fewer round trips, times to the nanosecond, extended attributes, ACLs and direct data connections";
    match why.as_str() {
        _ if connect.get::<Flags>().agent.is_some() => Some("no haul answers at the path of --agent: runs with this option fail".into()),
        "not installed" if !connect.get::<Flags>().install_agent => Some(format!("--install-agent installs haul: {gain}")),
        "not installed" => None,
        _ if why.starts_with("not installed") => Some(format!("install haul for that platform in its PATH: {gain}")),
        // The one that haul has placed.
        _ if why.contains("/haul/haul-") => Some("--install-agent replaces the haul that does not work".into()),
        _ if facts.system.is_some() => Some("install a haul that starts, or skip this one with --no-agent".into()),
        _ => None,
    }
}

/// Whether data connections can be made in one direction at least.
fn works(data: &Data) -> bool {
    data.out.works || data.into.as_ref().is_some_and(|into| into.works)
}

/// Bytes a second through one ssh connection.
fn limit(sessions: usize, round_trip: f64) -> f64 {
    (sessions as f64 * SESSION_WINDOW).min(CONNECTION_WINDOW) / round_trip
}

fn data(facts: &Facts) -> Option<String> {
    let data = facts.data.as_ref()?;
    let round_trip = facts.round_trip?;
    if let Some(broken) = [Some(&data.out), data.into.as_ref()].into_iter().flatten().find(|direction| direction.bytes.is_some())
        && !broken.works
    {
        return Some(
            "direct connections open and then fail: something in the network cuts or changes them; runs use ssh for a day \
             (--no-direct: always); try other ports with --data-ports"
                .into(),
        );
    }
    // What an administrator has switched off is not to be got round.
    if works(data) || data.out.error.as_ref().is_some_and(|error| error.starts_with(NO_DATA)) {
        return None;
    }
    let gain = if round_trip >= LONG {
        let sessions = facts.sessions.as_ref().map_or(1, |sessions| sessions.opened);
        format!("to exceed the limit of one ssh connection, about {} at this round trip", rate(limit(sessions, round_trip)))
    } else {
        "to save the CPU time of ssh encryption".into()
    };
    let (blocked, also) = match data.into {
        Some(_) => ("in both directions", ""),
        None => ("to the host", "; or let the host connect to this machine with --accept"),
    };
    Some(format!("direct connections are blocked {blocked}: use --data-ports with a range that the firewall allows, {gain}{also}"))
}

fn sessions(facts: &Facts) -> Option<String> {
    let sessions = facts.sessions.as_ref()?;
    if facts.login.as_ref().is_some_and(|login| login.master == "none") {
        return Some("no safe directory for a control socket: create $XDG_RUNTIME_DIR, or own /tmp/haul-UID with mode 0700".into());
    }
    let direct = facts.data.as_ref().is_some_and(works);
    let matters = facts.route == Some("sftp") || !direct;
    (sessions.opened < sessions.tried && matters && facts.round_trip.is_some_and(|time| time >= LONG || sessions.opened == 1)).then(|| {
        format!("the host allows {} sessions per login; MaxSessions 10 in its sshd_config, the default, allows more", sessions.opened)
    })
}

fn login(facts: &Facts) -> Option<String> {
    let login = facts.login.as_ref()?;
    let unattended =
        login.master == "haul" && login.method.as_deref().is_some_and(|method| matches!(method, "publickey" | "none" | "hostbased"));
    (unattended && login.seconds > SLOW_LOGIN)
        .then(|| format!("the login takes {}: GSSAPIAuthentication=no here and UseDNS no on the host usually help", time(login.seconds)))
}

fn noise(facts: &Facts) -> Option<String> {
    let noise = facts.system.as_ref()?.noise;
    (noise > 0).then(|| {
        format!(
            "its login scripts print {} without a terminal: haul skips them, but SFTP, scp and rsync may fail",
            things(noise as u64, "byte")
        )
    })
}

fn clock(facts: &Facts) -> Option<String> {
    let clock = facts.clock.as_ref()?;
    (clock.ahead.abs() - clock.within > CLOCKS).then(|| {
        let by = duration(std::time::Duration::try_from_secs_f64(clock.ahead.abs()).unwrap_or_default());
        format!("the clocks differ by {by}, which affects -u, --newer-than and make; synchronize them with ntp or chrony")
    })
}

fn sftp(facts: &Facts) -> Option<String> {
    let sftp = facts.sftp.as_ref().filter(|_| facts.route == Some("sftp"))?;
    (!sftp.extensions.contains(&"posix-rename"))
        .then(|| "its SFTP cannot replace files atomically: for a moment the file is missing".into())
}

fn space(facts: &Facts) -> Option<String> {
    let home = facts.home.as_ref()?;
    let little = |free: Option<u64>, all: Option<u64>| free.zip(all).is_some_and(|(free, all)| all > 0 && free < all / LITTLE);
    match (little(home.free, home.size), little(home.free_inodes, home.inodes)) {
        (true, _) => Some("the home directory is nearly full".into()),
        (false, true) => Some("the home directory has nearly no inodes left".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Clock, Direction, Haul, Home, Login, Sessions, Sftp, System};
    use super::*;

    /// A host at which nothing is to be said.
    fn sound() -> Facts {
        let works = || Direction { works: true, ..Direction::default() };
        Facts {
            usable: true,
            route: Some("haul"),
            login: Some(Login { seconds: 0.3, master: "haul", method: Some("publickey".into()), ..Login::default() }),
            system: Some(System::default()),
            haul: Some(Haul { version: env!("CARGO_PKG_VERSION").into(), path: None, protocol: 1 }),
            sftp: Some(Sftp { extensions: vec!["posix-rename"], ..Sftp::default() }),
            sessions: Some(Sessions { opened: 8, tried: 8 }),
            round_trip: Some(0.05),
            clock: Some(Clock { ahead: 0.01, within: 0.03 }),
            data: Some(Data { out: works(), into: Some(works()) }),
            home: Some(Home { free: Some(50), size: Some(100), free_inodes: Some(50), inodes: Some(100), ..Home::default() }),
            ..Facts::default()
        }
    }

    fn says(change: impl FnOnce(&mut Facts), words: &str) {
        let mut facts = sound();
        change(&mut facts);
        let advice = advise(&facts, &Connect::default());
        assert!(advice.len() == 1 && advice[0].contains(words), "{words}: {advice:?}");
    }

    #[test]
    fn each_thing_has_its_line() {
        assert_eq!(advise(&sound(), &Connect::default()), Vec::<String>::new());
        assert_eq!(advise(&Facts::default(), &Connect::default()), Vec::<String>::new());
        says(|f| f.haul = Some(Haul { version: "0.0.1".into(), ..Haul::default() }), "0.0.1 on the host");
        says(|f| (f.haul, f.haul_error) = (None, Some("not installed".into())), "--install-agent installs");
        says(|f| (f.haul, f.haul_error) = (None, Some("not installed; the host is Linux sparc64".into())), "for that platform");
        says(|f| f.data = Some(Data::default()), "about 49.6 MiB/s at this round trip");
        says(|f| f.data = Some(Data::default()), "with --accept");
        let cut = || Direction { bytes: Some(2_000_000), ..Direction::default() };
        says(|f| f.data = Some(Data { out: cut(), into: Some(Direction { works: true, ..cut() }) }), "open and then fail");
        says(|f| (f.data, f.round_trip) = (Some(Data::default()), Some(0.0001)), "ssh encryption");
        says(|f| (f.sessions, f.data) = (Some(Sessions { opened: 2, tried: 8 }), None), "MaxSessions");
        says(|f| f.login.as_mut().expect("there").seconds = 9.0, "UseDNS");
        says(|f| f.system.as_mut().expect("there").noise = 31, "print 31 bytes");
        says(|f| f.clock = Some(Clock { ahead: -7200.0, within: 0.1 }), "differ by 2h00m");
        says(|f| (f.route, f.sftp) = (Some("sftp"), Some(Sftp::default())), "atomically");
        says(|f| f.home.as_mut().expect("there").free = Some(1), "nearly full");
        says(|f| f.home.as_mut().expect("there").free_inodes = Some(1), "inodes");
    }

    #[test]
    fn a_person_who_types_is_not_slow() {
        let mut facts = sound();
        let login = facts.login.as_mut().expect("there");
        (login.seconds, login.method) = (20.0, Some("password".into()));
        assert_eq!(advise(&facts, &Connect::default()), Vec::<String>::new());
    }
}
