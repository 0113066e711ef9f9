//! What servers say of files: facts of MLST and MLSD, times of MDTM (RFC 3659).

use haul_core::entry::{Entry, Kind, MetaMask, Name, Time};
use jiff::SignedDuration;
use jiff::civil::DateTime;

use super::reply::Reply;

/// What is known of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub kind: Option<Kind>,
    pub size: Option<u64>,
    pub modified: Option<Time>,
    /// The time is one of LIST: to the minute or the day, of any zone.
    pub is_rough: bool,
    pub mode: Option<u32>,
    pub target: Option<Vec<u8>>,
    /// The target is the path that the server has found for it, not what the link has.
    pub is_resolved: bool,
    /// The directory that is listed, or the one above it.
    pub is_self: bool,
}

impl Facts {
    /// `type=file;size=5;modify=20200101000000; name`: the facts and the name. `None` for what is no such line.
    pub fn parse(line: &[u8]) -> Option<(Facts, &[u8])> {
        // The target of a link may have blanks, and some servers end the facts without a semicolon.
        let end = line.windows(2).position(|pair| pair == b"; ").map(|at| at + 1).filter(|_| line[0] != b' ');
        let at = end.or_else(|| line.iter().position(|byte| *byte == b' '))?;
        let (facts, name) = (&line[..at], &line[at + 1..]);
        let mut found = Facts::default();
        if !facts.is_empty() && !facts.contains(&b'=') {
            return None;
        }
        for fact in facts.split(|byte| *byte == b';').filter(|fact| !fact.is_empty()) {
            let equals = fact.iter().position(|byte| *byte == b'=')?;
            let (word, value) = (fact[..equals].to_ascii_lowercase(), &fact[equals + 1..]);
            let text = std::str::from_utf8(value).ok();
            match word.as_slice() {
                b"type" => found.set_type(value),
                b"size" => found.size = text.and_then(|size| size.parse().ok()),
                b"modify" => found.modified = text.and_then(time),
                // Globus's server describes what a link points to, and names it.
                b"unix.slink" if !value.is_empty() => {
                    (found.target, found.is_resolved) = (Some(percent_encoding::percent_decode(value).collect()), true);
                }
                b"unix.mode" => {
                    found.mode = text.and_then(|mode| u32::from_str_radix(mode.trim_start_matches("0o"), 8).ok()).map(|mode| mode & 0o7777)
                }
                _ => {}
            }
        }
        if found.is_resolved && !found.is_self {
            (found.kind, found.size) = (Some(Kind::Link), None);
        }
        Some((found, name))
    }

    /// Where a link of this directory points, as a link has it: a path that the server has found for a target below `root` is made
    /// relative, so that it holds for a copy, too.
    pub fn relative_to(mut self, root: &[u8], directory: &[u8]) -> Facts {
        let parts = |path: &[u8]| path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let Some(target) = self.target.as_deref().filter(|_| self.is_resolved).map(parts) else { return self };
        if !target.starts_with(&parts(root)) {
            return self;
        }
        let from = parts(directory);
        let common = from.iter().zip(&target).take_while(|(one, other)| one == other).count();
        let up = from[common..].iter().map(|_| b"..".to_vec());
        let path: Vec<Vec<u8>> = up.chain(target[common..].iter().cloned()).collect();
        let path = path.join(&b'/');
        self.target = Some(if path.is_empty() { b".".to_vec() } else { path });
        self
    }

    pub fn listed(reply: &Reply) -> Option<Facts> {
        let lines = reply.more.iter().filter_map(|line| Facts::parse(line.strip_prefix(b" ").unwrap_or(line)));
        lines.map(|(facts, _)| facts).find(|facts| facts.kind.is_some())
    }

    /// What the replies to MLST, or to SIZE and MDTM, say.
    pub fn of_replies(replies: &[Reply]) -> Facts {
        let mut found = Facts::default();
        for reply in replies.iter().filter(|reply| reply.is_done()) {
            if let Some(facts) = Facts::listed(reply) {
                return facts;
            }
            let text = std::str::from_utf8(reply.text.trim_ascii()).unwrap_or_default();
            // A size has fewer digits than a time.
            match (time(text), text.parse()) {
                (Some(time), _) if reply.code == 213 => found.modified = Some(time),
                (_, Ok(size)) if reply.code == 213 => found.size = Some(size),
                _ => {}
            }
        }
        found
    }

    fn set_type(&mut self, value: &[u8]) {
        let lower = value.to_ascii_lowercase();
        let (kind, is_self) = match lower.as_slice() {
            b"file" => (Kind::File, false),
            b"dir" => (Kind::Dir, false),
            b"cdir" | b"pdir" => (Kind::Dir, true),
            b"os.unix=fifo" => (Kind::Fifo, false),
            b"os.unix=socket" => (Kind::Socket, false),
            other if other.starts_with(b"os.unix=slink") || other.starts_with(b"os.unix=symlink") => {
                let target = value.iter().position(|byte| *byte == b':').map(|at| value[at + 1..].to_vec());
                self.target = target.filter(|target| !target.is_empty());
                (Kind::Link, false)
            }
            other if other.starts_with(b"os.unix=chr") => (Kind::Char, false),
            other if other.starts_with(b"os.unix=blk") => (Kind::Block, false),
            _ => (Kind::Unknown, false),
        };
        (self.kind, self.is_self) = (Some(kind), is_self);
    }

    pub fn entry(&self, name: Name) -> Entry {
        let kind = self.kind.unwrap_or(Kind::Unknown);
        let mut entry = Entry::bare(name, kind);
        entry.mode = self.mode.unwrap_or(if kind == Kind::Dir { 0o755 } else { 0o644 });
        let knows = matches!(kind, Kind::Dir | Kind::Link) || self.size.is_some();
        if kind != Kind::Unknown && knows {
            entry.have = MetaMask::BASIC;
        }
        if kind == Kind::File {
            (entry.size, entry.stored) = (self.size.unwrap_or(0), self.size.unwrap_or(0));
        }
        if let Some(time) = self.modified {
            entry.mtime = time;
            if !self.is_rough {
                entry.have = entry.have.with(MetaMask::MTIME);
            }
        }
        if self.mode.is_some() {
            entry.have = entry.have.with(MetaMask::MODE);
        }
        entry.target = self.target.as_deref().map(Into::into);
        entry
    }
}

/// `YYYYMMDDHHMMSS.sss`, in UTC.
pub fn time(text: &str) -> Option<Time> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    if whole.len() != 14 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos = format!("{fraction:0<9}")[..9].parse().ok()?;
    Some(Time { nanos, ..utc(DateTime::strptime("%Y%m%d%H%M%S", whole).ok()?) })
}

const EPOCH: DateTime = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);

pub fn utc(time: DateTime) -> Time {
    Time { secs: time.duration_since(EPOCH).as_secs(), nanos: 0 }
}

/// The same, as a server reads it; `None` before the year 0 and after 9999. Parts of a second are cut off.
pub fn shown_time(time: Time) -> Option<String> {
    Some(strftime("%Y%m%d%H%M%S", time.secs)).filter(|shown| shown.len() == 14)
}

/// Seconds since 1970 as a time in UTC; empty for years of more than four digits.
pub fn strftime(format: &str, secs: i64) -> String {
    let time = EPOCH.checked_add(SignedDuration::from_secs(secs));
    time.map(|time| time.strftime(format).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read() {
        let (facts, name) = Facts::parse(b"Type=file;Size=5;Modify=20200102030405.5;UNIX.mode=0640;x=y=z; a b ").expect("facts");
        assert_eq!((facts.kind, facts.size, facts.mode, name), (Some(Kind::File), Some(5), Some(0o640), &b"a b "[..]));
        assert_eq!(facts.modified, Some(Time { secs: 1_577_934_245, nanos: 500_000_000 }));
        let (link, _) = Facts::parse(b"type=OS.unix=slink:/A b;size=3; l").expect("facts");
        assert_eq!((link.kind, link.target.as_deref()), (Some(Kind::Link), Some(&b"/A b"[..])));
        assert!(Facts::parse(b"type=cdir; .").expect("facts").0.is_self);
        assert_eq!(Facts::parse(b" name").expect("a name"), (Facts::default(), &b"name"[..]));
        let (link, _) = Facts::parse(b"UNIX.slink=/a/b/c%20d;Type=dir;Size=4096; l").expect("facts");
        assert_eq!((link.kind, link.target.as_deref()), (Some(Kind::Link), Some(&b"/a/b/c d"[..])));
        for (directory, target) in [("/a/b", "c d"), ("/a/b/c d", "."), ("/a/x/y", "../../b/c d"), ("/a", "b/c d")] {
            let link = link.clone().relative_to(b"/a", directory.as_bytes());
            assert_eq!(link.target.as_deref(), Some(target.as_bytes()), "{directory}");
        }
        assert_eq!(link.clone().relative_to(b"/x", b"/x").target, link.target);
        let (own, _) = Facts::parse(b"Type=cdir;UNIX.slink=/a; .").expect("facts");
        assert_eq!(own.kind, Some(Kind::Dir));
        for bad in [&b""[..], b"name", b"total 5", b"type=file;size=x", b"-rw-r--r-- 1 a"] {
            assert_eq!(Facts::parse(bad), None, "{bad:?}");
        }
        let (odd, _) = Facts::parse(b"size=99999999999999999999;modify=1;type=new; x").expect("facts");
        assert_eq!((odd.size, odd.modified, odd.kind), (None, None, Some(Kind::Unknown)));
    }

    #[test]
    fn times_go_both_ways() {
        for secs in [0, 1, 951_782_400, 951_868_799, 1_600_000_000, 4_000_000_000, -1, -86_400 * 366, 253_402_300_799] {
            let time_of = Time { secs, nanos: 0 };
            assert_eq!(shown_time(time_of).as_deref().and_then(time), Some(time_of), "{secs}");
        }
        assert_eq!(shown_time(Time { secs: 0, nanos: 9 }).as_deref(), Some("19700101000000"));
        assert_eq!(shown_time(Time { secs: i64::MAX / 2, nanos: 0 }), None);
        for bad in ["", "2020", "20201302030405", "2020010203040x", "20200102250405"] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }
}
