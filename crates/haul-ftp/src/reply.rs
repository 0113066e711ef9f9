//! Replies of a server (RFC 959, section 4.2), and what they mean.

use std::time::Duration;

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Remedy};

/// Bytes of one line of a reply, and of a whole reply: `MLST` repeats a path, `STAT` lists.
pub const LINE_MOST: usize = 16 << 10;
pub const REPLY_MOST: usize = 1 << 20;

/// Operations that need no room on the server for what they do.
const READS: [&str; 6] = ["read", "open", "list", "stat", "look up", "checksum"];

/// The next step where a server allows no more connections.
pub const TOO_MANY: &str = "the server allows no more connections now: wait, or use fewer (--streams N)";

/// How long to wait before a server that is busy is asked again.
const SOON: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub code: u16,
    /// The first line without its code.
    pub text: Vec<u8>,
    /// The lines below the first, without the last line's code.
    pub more: Vec<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// `226 text`
    Last(u16, &'a [u8]),
    /// `226-text`
    First(u16, &'a [u8]),
    Other(&'a [u8]),
}

/// Reads a line without its end.
pub fn line(bytes: &[u8]) -> Line<'_> {
    let code =
        bytes.get(..3).filter(|code| code.iter().all(u8::is_ascii_digit)).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    match (code, bytes.get(3)) {
        (Some(code), None) => Line::Last(code, b""),
        (Some(code), Some(b' ')) => Line::Last(code, &bytes[4..]),
        (Some(code), Some(b'-')) => Line::First(code, &bytes[4..]),
        _ => Line::Other(bytes),
    }
}

impl Reply {
    pub fn is_done(&self) -> bool {
        self.code / 100 == 2
    }

    /// The request has begun, and another reply will end it.
    pub fn is_begun(&self) -> bool {
        self.code / 100 == 1
    }

    pub fn needs_more(&self) -> bool {
        self.code / 100 == 3
    }

    /// All lines, as they may be shown.
    pub fn shown(&self) -> String {
        let lines = std::iter::once(&self.text).chain(&self.more).take(4);
        let lines: Vec<String> = lines.map(|line| show(line.trim_ascii())).filter(|line| !line.is_empty()).collect();
        let text: String = lines.join(" ").chars().take(400).collect();
        format!("{} {text}", self.code)
    }

    /// The failure that this reply says.
    pub fn failure(&self, op: &'static str) -> Error {
        let (kind, remedy) = match self.meaning() {
            // A server that lacks room to send or to list says nothing of the destination's disk.
            (ErrorKind::NoSpace | ErrorKind::Quota, remedy) if READS.contains(&op) => (ErrorKind::Io, remedy),
            meaning => meaning,
        };
        let e = Error::new(kind, op).remedy_is(remedy).because(match self.fails_to_write() {
            true => format!("the server's disk may be full, or over quota: it answered {}", self.shown().trim_end()),
            false => format!("the server answered {}", self.shown().trim_end()),
        });
        match self.advice() {
            Some(next) => e.hint(next),
            None => e,
        }
    }

    /// The next step of a user, by the words of the reply: 421 and 530 are given for many reasons.
    fn advice(&self) -> Option<&'static str> {
        let by_words: [(&str, &str); 7] = [
            ("encrypt|tls|ssl|auth ", "the server wants encryption: use ftps://, or --ftp-tls"),
            ("too many|maximum|limit|already logged in|no more connections", TOO_MANY),
            ("idle|timeout|timed out|no transfer", "the server closed a connection that was idle, or slow"),
            ("shutting down|shutdown|maintenance|try again later", "the server is being stopped or serviced: try again later"),
            ("anonymous", "the server has no anonymous access: name a user, as in ftp://USER@HOST/"),
            ("director|chroot|home", "the account's home directory cannot be used: ask the server's administrator"),
            (
                "disabled|expired|locked|banned|blocked|denied|not allowed|not permitted|not authorized|refused",
                "the server does not admit this account or this host: ask its administrator",
            ),
        ];
        match self.code {
            421 | 530 | 532 => match by_words.iter().find(|(words, _)| self.says(words)) {
                Some((_, next)) => Some(next),
                None if self.code == 421 => None,
                None => Some("put user name and password into ~/.netrc: machine HOST login NAME password WORD"),
            },
            _ => None,
        }
    }

    /// vsftpd's only word for a disk that takes no more.
    fn fails_to_write(&self) -> bool {
        self.code == 451 && self.says("writing to local file")
    }

    pub fn done(self, op: &'static str) -> Result<Reply, Error> {
        if self.is_done() { Ok(self) } else { Err(self.failure(op)) }
    }

    pub fn size(&self) -> Option<u64> {
        std::str::from_utf8(self.text.trim_ascii()).ok().filter(|_| self.code == 213)?.parse().ok()
    }

    /// Whether one of these is in it: lower-case texts, with `|` between them.
    pub fn says(&self, words: &str) -> bool {
        let all: Vec<u8> = std::iter::once(&self.text).chain(&self.more).flatten().map(u8::to_ascii_lowercase).collect();
        words.split('|').any(|word| all.windows(word.len()).any(|part| part == word.as_bytes()))
    }

    /// Whether the reply does not tell why: 550 and 553 are given for whatever is wrong with a file; GridFTP servers say "500 Command failed".
    pub fn is_vague(&self) -> bool {
        let unclear = matches!(self.code, 450 | 501 | 550 | 551 | 553) || self.code == 500 && self.says("command failed");
        unclear && self.reason().is_none()
    }

    /// What the words say, which are the system's on most servers.
    fn reason(&self) -> Option<ErrorKind> {
        use ErrorKind as K;
        let known: [(&str, ErrorKind); 8] = [
            ("no such|not found|does not exist|doesn't exist|cannot find|can't find", K::NotFound),
            ("file exists|already exists|directory not empty|not empty|is a directory", K::Exists),
            ("read-only", K::ReadOnly),
            ("quota", K::Quota),
            ("no space|disk full|disk is full|out of space|not enough space|insufficient disk|insufficient storage", K::NoSpace),
            ("name too long|invalid argument", K::BadName),
            ("not a directory", K::NotFound),
            ("denied|not permitted|not allowed|permission|not enough privileges|prohibited|forbidden", K::Denied),
        ];
        known.iter().find(|(words, _)| self.says(words)).map(|(_, kind)| *kind)
    }

    fn meaning(&self) -> (ErrorKind, Remedy) {
        use ErrorKind as K;
        match self.code {
            // The server ends the session: the next one may be served.
            421 => (K::Busy, Remedy::After(SOON)),
            425 | 426 => match self.reason() {
                Some(kind @ (K::NoSpace | K::Quota)) => (kind, Remedy::None),
                _ => (K::Io, Remedy::After(Duration::from_millis(300))),
            },
            431 | 522 | 533 | 534 | 535 | 536 => (K::Denied, Remedy::None),
            450 => match self.reason() {
                Some(kind) => (kind, Remedy::None),
                None => (K::Busy, Remedy::After(SOON)),
            },
            451 => match self.reason() {
                Some(kind) => (kind, Remedy::None),
                None if self.fails_to_write() => (K::NoSpace, Remedy::None),
                None => (K::Io, Remedy::After(SOON)),
            },
            452 | 552 => (if self.says("quota") { K::Quota } else { K::NoSpace }, Remedy::None),
            530 | 532 => (K::Denied, Remedy::None),
            // GridFTP servers answer 500 to whatever failed.
            500 => (self.reason().unwrap_or(K::Unsupported), Remedy::None),
            502 | 504 => (K::Unsupported, Remedy::None),
            501 | 550 | 551 | 553 => (self.reason().unwrap_or(K::Other), Remedy::None),
            _ => (K::Other, Remedy::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> ErrorKind {
        let Line::Last(code, text) = line(text.as_bytes()) else { panic!("{text}") };
        Reply { code, text: text.to_vec(), more: Vec::new() }.failure("write").kind()
    }

    #[test]
    fn replies_become_kinds() {
        for (text, expected) in [
            ("550 Failed to open file.", ErrorKind::Other),
            ("550 /x: No such file or directory", ErrorKind::NotFound),
            ("550 Permission denied.", ErrorKind::Denied),
            ("550 x: Directory not empty", ErrorKind::Exists),
            ("553 Could not create file.", ErrorKind::Other),
            ("530 Login incorrect.", ErrorKind::Denied),
            ("421 Timeout.", ErrorKind::Busy),
            ("425 Failed to establish connection.", ErrorKind::Io),
            ("426 Failure writing network stream.", ErrorKind::Io),
            ("450 x: File busy", ErrorKind::Busy),
            ("451 Failure writing to local file.", ErrorKind::NoSpace),
            ("451 Failure reading local file.", ErrorKind::Io),
            ("452 x: No space left on device", ErrorKind::NoSpace),
            ("552 Quota exceeded", ErrorKind::Quota),
            ("552 Transfer aborted", ErrorKind::NoSpace),
            ("522 SSL connection failed; session reuse required", ErrorKind::Denied),
            ("502 Command not implemented.", ErrorKind::Unsupported),
            ("500 Unknown command.", ErrorKind::Unsupported),
            ("500 globus_xio: System error in open: No such file or directory", ErrorKind::NotFound),
            ("500 globus_xio: System error in write: No space left on device", ErrorKind::NoSpace),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        let vague = |text: &str| Reply { code: 550, text: text.into(), more: Vec::new() }.is_vague();
        assert!(Reply { code: 500, text: b"Command failed".to_vec(), more: Vec::new() }.is_vague());
        assert!(vague("Failed to open file.") && !vague("x: Permission denied"));
    }

    #[test]
    fn the_next_step_is_chosen_by_the_words() {
        let next = |text: &str| {
            let Line::Last(code, text) = line(text.as_bytes()) else { panic!("{text}") };
            Reply { code, text: text.to_vec(), more: Vec::new() }.failure("log in").next_step().unwrap_or_default().to_string()
        };
        for (text, part) in [
            ("421 There are too many connected users, please try later.", "--streams"),
            ("421 10 users (the maximum) are already logged in, sorry", "--streams"),
            ("421 Timeout.", "idle"),
            ("421 No transfer timeout (300 seconds): closing control connection", "idle"),
            ("421 Server shutting down", "later"),
            ("530 Login incorrect.", "~/.netrc"),
            ("530 Non-anonymous sessions must use encryption.", "ftps://"),
            ("530 This FTP server does not allow anonymous logins", "ftp://USER@HOST/"),
            ("530 Sorry, the maximum number of clients (1) is connected", "--streams"),
            ("530 User cannot log in, home directory inaccessible.", "administrator"),
            ("530 Permission denied.", "administrator"),
        ] {
            assert!(next(text).contains(part), "{text}: {}", next(text));
        }
        let full = Reply { code: 452, text: b"no space".to_vec(), more: Vec::new() };
        assert_eq!((full.failure("write").kind(), full.failure("read").kind()), (ErrorKind::NoSpace, ErrorKind::Io));
    }

    #[test]
    fn what_a_server_says_is_shown_without_control_characters() {
        let reply = Reply { code: 550, text: b"\x1b[2Jgone".to_vec(), more: vec![b"\x07".repeat(1000)] };
        let shown = reply.failure("read").to_string();
        assert!(!shown.contains('\x1b') && shown.len() < 1000, "{shown}");
    }
}
