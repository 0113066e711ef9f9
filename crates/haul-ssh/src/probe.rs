//! What a host's `sh` says of it: clock, system, user, space. Nothing is written there.

use std::io::Write;
use std::time::{Duration, SystemTime};

use haul_core::error::{Error, Result};

use crate::script::{Said, Script};
use crate::ssh::{Login, remote_places};

/// What was said; `None` where it was not, or not in a form that is understood. All words are the remote host's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probe {
    /// Bytes that the login shell printed by itself.
    pub noise: usize,
    pub clock: Option<Clock>,
    /// System, release and machine.
    pub system: Option<String>,
    /// System and machine.
    pub platform: Option<String>,
    pub user: Option<String>,
    pub home: Option<String>,
    pub shell: Option<String>,
    /// `SSH_CONNECTION`.
    pub connection: Option<String>,
    /// The haul that a run would use.
    pub haul: Option<String>,
    pub file_system: Option<String>,
    /// Of the home directory: bytes in all, and those that this user may still use.
    pub bytes: Option<(u64, u64)>,
    /// Inodes in all and free, where there is such a limit.
    pub inodes: Option<(u64, u64)>,
}

/// The remote clock: it was read between the question and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Since 1970.
    pub remote: Duration,
    /// It says whole seconds only.
    pub whole_seconds: bool,
    pub asked: SystemTime,
    pub came: SystemTime,
}

impl Clock {
    /// Seconds by which the far clock is ahead of this one, and how far that may be off.
    pub fn ahead(&self) -> Option<(f64, f64)> {
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|time| time.as_secs_f64());
        let (asked, came) = (since(self.asked)?, since(self.came)?);
        let rounded = if self.whole_seconds { 0.5 } else { 0.0 };
        Some((self.remote.as_secs_f64() + rounded - (asked + came) / 2.0, (came - asked).abs() / 2.0 + rounded))
    }
}

/// Asks; `haul` is the one that was named. `idle_timeout` is how long the host may say nothing, and half as long again before the
/// script begins: what was said before counts.
/// `Unsupported` where no command can be run.
pub fn probe(login: &Login, haul: Option<&str>, version: &str, idle_timeout: Duration) -> Result<Probe> {
    let places = remote_places(haul, version);
    let (hear, mut ask) = std::io::pipe().map_err(|e| Error::io(e, "run"))?;
    let mut script = Script::start(
        login,
        &format!(
            "read x; printf \"clock %s\\n\" \"`date +%s.%N`\"; printf \"system %s\\n\" \"`uname -srm`\"; printf \"platform %s\\n\" \"`uname -sm`\"; \
             printf \"user %s\\n\" \"`id -un`\"; printf \"home %s\\n\" \"$HOME\"; printf \"shell %s\\n\" \"$SHELL\"; \
             printf \"connection %s\\n\" \"$SSH_CONNECTION\"; \
             for haul in {places}; do p=`command -v \"$haul\" 2>/dev/null` && printf \"haul %s\\n\" \"$p\" && break; done; \
             cd; s=`df -PTk . 2>/dev/null | tail -n 1`; \
             if [ -n \"$s\" ]; then printf \"typed %s\\n\" \"$s\"; else printf \"space %s\\n\" \"`df -Pk . 2>/dev/null | tail -n 1`\"; fi; \
             printf \"inodes %s\\n\" \"`df -Pi . 2>/dev/null | tail -n 1`\""
        ),
        Some(Box::new(hear)),
    )?;
    // What is no shell ends at the end of its input. The line that goes to it is a sign of life, so this is waited for twice.
    let left = if script.begins(idle_timeout) { idle_timeout } else { idle_timeout / 4 };
    // The clock is read after this.
    let asked = SystemTime::now();
    let _it_shows_when_nothing_comes = ask.write_all(b"\n");
    drop(ask);
    Ok(Probe::of(&script.hear(left)?, asked))
}

impl Probe {
    fn of(said: &Said, asked: SystemTime) -> Probe {
        let words = |word: &str| said.get(word).filter(|rest| !rest.is_empty()).map(str::to_string);
        let clock = said.lines.iter().find(|(word, ..)| word == "clock").and_then(|(_, rest, came)| {
            let (seconds, fraction) = rest.split_once('.').unwrap_or((rest, ""));
            let nanos = (fraction.len() == 9).then(|| fraction.parse::<u32>().ok()).flatten();
            let remote = Duration::new(seconds.parse().ok()?, nanos.unwrap_or(0).min(999_999_999));
            Some(Clock { remote, whole_seconds: nanos.is_none(), asked, came: *came })
        });
        let (typed, plain) = (said.get("typed").and_then(row), said.get("space").and_then(row));
        let kib = |(total, free): (u64, u64)| (total.saturating_mul(1024), free.saturating_mul(1024));
        Probe {
            noise: said.noise,
            clock,
            system: words("system"),
            platform: words("platform"),
            user: words("user"),
            home: words("home"),
            shell: words("shell"),
            connection: words("connection"),
            haul: words("haul"),
            file_system: typed.as_ref().and_then(|row| row.before.clone()),
            bytes: typed.or(plain).map(|row| kib(row.counts)),
            inodes: said.get("inodes").and_then(row).map(|row| row.counts).filter(|(total, _)| *total > 0),
        }
    }
}

struct Row {
    /// The word before the numbers.
    before: Option<String>,
    /// In all, and free.
    counts: (u64, u64),
}

/// The last line of `df -P`: the device, which may have blanks in it, total, used, free, how full it is, the place.
fn row(line: &str) -> Option<Row> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let full = |word: &str| word == "-" || word.strip_suffix('%').is_some_and(|digits| digits.parse::<u8>().is_ok());
    let at = (3..words.len()).find(|at| full(words[*at]) && words[at - 3..*at].iter().all(|word| word.parse::<u64>().is_ok()))?;
    let number = |at: usize| words[at].parse().ok();
    Some(Row { before: at.checked_sub(4).map(|at| words[at].to_string()), counts: (number(at - 3)?, number(at - 1)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn said(lines: &[(&str, &str)]) -> Said {
        let line = |(word, rest): &(&str, &str)| (word.to_string(), rest.to_string(), at(100));
        Said { noise: 3, lines: lines.iter().map(line).collect(), whole: true }
    }

    #[test]
    fn what_systems_say_is_read() {
        let probe = Probe::of(
            &said(&[
                ("clock", "101.500000000"),
                ("system", "Linux 6.1.0 x86_64"),
                ("user", ""),
                ("typed", "/dev/my disk ext4 1000 400 600 40% /home of ana"),
                ("inodes", "/dev/sda1 100 1 99 1% /"),
            ]),
            at(98),
        );
        assert_eq!((probe.noise, probe.system.as_deref(), probe.user), (3, Some("Linux 6.1.0 x86_64"), None));
        assert_eq!((probe.file_system.as_deref(), probe.bytes, probe.inodes), (Some("ext4"), Some((1_024_000, 614_400)), Some((100, 99))));
        let (ahead, within) = probe.clock.and_then(|clock| clock.ahead()).expect("a clock");
        assert!((ahead - 2.5).abs() < 1e-6 && (within - 1.0).abs() < 1e-6, "{ahead} {within}");
    }

    #[test]
    fn what_is_not_understood_is_not_known() {
        for clock in ["101.N", "101.%N", "101"] {
            let probe = Probe::of(&said(&[("clock", clock), ("space", "none"), ("inodes", "none 0 0 0 - /")]), at(98));
            assert!(probe.clock.is_some_and(|clock| clock.whole_seconds), "{clock}");
            assert_eq!((probe.bytes, probe.inodes, probe.file_system), (None, None, None));
        }
        for clock in ["", "x.1", "-5", "99999999999999999999.1"] {
            assert_eq!(Probe::of(&said(&[("clock", clock)]), at(98)).clock, None, "{clock}");
        }
    }
}
