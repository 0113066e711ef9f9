//! A control connection: commands out, replies in, every wait bounded.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::gsi::{Context, Lines, Refusal};
use super::paths::{LOSES, is_plain};
use super::reply::{LINE_MOST, Line, REPLY_MOST, Reply, line};
use super::shell::Program;
use super::stream::{Stream, Tls};

/// Commands that are sent before the first of their replies was read, and their bytes: neither side may block on a full buffer.
const AHEAD: usize = 400;
const AHEAD_BYTES: usize = 32 << 10;

/// Bytes of a line with a token of an authentication, which may name a hundred authorities.
pub const TOKEN_MOST: usize = 256 << 10;

#[derive(Debug)]
pub struct Control {
    /// `None` only while TLS is begun.
    stream: Option<Stream>,
    /// What serves the other end of a socket.
    _program: Option<Program>,
    read: Vec<u8>,
    used: usize,
    /// Replies that are not needed, of transfers that were given up.
    pub owed: u32,
    /// A reply that was read too early.
    early: Option<Reply>,
    /// Bytes of a line at the most.
    pub line_most: usize,
    /// The server loses everything from commands that is not printable ASCII: such commands are refused.
    pub plain: bool,
    wait: Duration,
    /// Where data connections go to and come from.
    pub peer: IpAddr,
    pub local: IpAddr,
    /// What was said or heard is not known any more.
    over: bool,
}

/// `WORD argument`, as one line.
/// Error: `BadName` for an argument that would be more than one line.
pub fn command(word: &str, argument: &[u8]) -> Result<Vec<u8>> {
    if argument.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        let e = Error::new(ErrorKind::BadName, "send").at(argument);
        return Err(e.because("FTP cannot transmit a name with a line break"));
    }
    let blank: &[u8] = if argument.is_empty() { b"" } else { b" " };
    Ok([word.as_bytes(), blank, argument, b"\r\n"].concat())
}

impl Control {
    /// `wait` bounds each wait for the server from here on.
    pub fn connect(address: SocketAddr, connect: Duration, wait: Duration) -> io::Result<Control> {
        let stream = Stream::connect(address, connect, wait)?;
        let (peer, local) = (stream.tcp().peer_addr()?.ip(), stream.tcp().local_addr()?.ip());
        Ok(Control::of(stream, peer, local, wait))
    }

    fn of(stream: Stream, peer: IpAddr, local: IpAddr, wait: Duration) -> Control {
        Control {
            stream: Some(stream),
            _program: None,
            read: Vec::new(),
            used: 0,
            owed: 0,
            early: None,
            line_most: LINE_MOST,
            plain: false,
            wait,
            peer,
            local,
            over: false,
        }
    }

    /// Over a socket of a program that is ended with the connection. `peer` and `local` are those of data connections.
    pub fn over(socket: OwnedFd, program: Program, wait: Duration) -> io::Result<Control> {
        // The system reads and writes any socket alike; whoever asks this one for its addresses gets an error.
        let tcp = TcpStream::from(socket);
        tcp.set_read_timeout(Some(wait))?;
        tcp.set_write_timeout(Some(wait))?;
        let nowhere = IpAddr::from([0, 0, 0, 0]);
        Ok(Control { _program: Some(program), ..Control::of(Stream::Plain(tcp), nowhere, nowhere, wait) })
    }

    /// Puts TLS round the connection.
    /// Error: `Denied` if the server has said more than it was asked before TLS began: somebody else may have written that.
    pub fn secure(&mut self, tls: &Tls) -> Result<()> {
        let stream = self.unread("the server sent clear text after it had agreed to TLS")?;
        self.stream = Some(stream.secured(tls).map_err(|e| tls_failure(e, "connect"))?);
        Ok(())
    }

    /// The connection, unless there is something to read.
    fn unread(&mut self, else_words: &str) -> Result<Stream> {
        match self.used < self.read.len() {
            true => Err(Error::new(ErrorKind::Denied, "connect").because(else_words)),
            false => self.stream.take().ok_or_else(lost),
        }
    }

    /// Protects the connection by a security context. Errors as of [`Control::secure`].
    pub fn protect(&mut self, context: Context) -> Result<()> {
        let stream = self.unread("the server sent clear text after it had agreed to protect it")?;
        let tcp = stream.into_tcp().ok_or_else(lost)?;
        self.stream = Some(Stream::Lines(Box::new(Lines::new(tcp, context))));
        Ok(())
    }

    /// Waits until `data` has something to read, or the server has said something instead: that reply, which is then left for
    /// [`Control::reply`], too.
    /// Error: `TimedOut` where neither comes.
    pub fn await_data(&mut self, data: impl AsFd, wait: Duration, op: &'static str) -> Result<Option<&Reply>> {
        let until = Instant::now() + wait;
        while self.early.is_none() {
            let stream = self.stream.as_ref().ok_or_else(lost)?;
            let has_more = self.used < self.read.len() || stream.has_more();
            let left = if has_more { Duration::ZERO } else { until.saturating_duration_since(Instant::now()) };
            let mut polled = [PollFd::new(&data, PollFlags::IN), PollFd::new(stream.tcp(), PollFlags::IN)];
            let timeout = Timespec::try_from(left).ok();
            match poll(&mut polled, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(Error::io(e.into(), op)),
                Ok(_) => {}
            }
            if !polled[0].revents().is_empty() {
                return Ok(None);
            }
            if polled[1].revents().is_empty() && !has_more {
                return Err(failure(io::ErrorKind::TimedOut.into(), op));
            }
            self.early = Some(self.next_reply(until, op)?);
        }
        Ok(self.early.as_ref())
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Nothing more can be asked here.
    pub fn give_up(&mut self) {
        self.over = true;
    }

    /// Whether the connection can be used: nobody closed it meanwhile, and nothing came unasked.
    pub fn is_quiet(&self) -> bool {
        !self.over && self.early.is_none() && self.used == self.read.len() && self.stream.as_ref().is_some_and(|stream| !stream.is_noisy())
    }

    /// Whether something came that was not read yet, or the connection was closed.
    pub fn has_input(&self) -> bool {
        self.early.is_some()
            || self.used < self.read.len()
            || self.stream.as_ref().is_some_and(|stream| stream.has_more() || stream.is_noisy())
    }

    /// Waits until one of these has something to read, or for `wait`.
    pub fn await_any(controls: &[&Control], wait: Duration, op: &'static str) -> Result<()> {
        if controls.iter().any(|control| control.has_input()) {
            return Ok(());
        }
        let streams = controls.iter().map(|control| control.stream.as_ref().ok_or_else(lost)).collect::<Result<Vec<_>>>()?;
        let mut polled: Vec<PollFd<'_>> = streams.iter().map(|stream| PollFd::new(stream.tcp(), PollFlags::IN)).collect();
        match poll(&mut polled, Timespec::try_from(wait).ok().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(Error::io(e.into(), op)),
        }
    }

    pub fn send(&mut self, commands: &[u8], op: &'static str) -> Result<()> {
        self.settle(op)?;
        let stream = self.stream.as_mut().ok_or_else(lost)?;
        stream.write_all(commands).and_then(|()| stream.flush()).map_err(|e| {
            self.over = true;
            failure(e, op)
        })
    }

    pub fn reply(&mut self, op: &'static str) -> Result<Reply> {
        self.reply_within(self.wait, op)
    }

    /// The next reply, whole within `wait`.
    pub fn reply_within(&mut self, wait: Duration, op: &'static str) -> Result<Reply> {
        self.settle(op)?;
        match self.early.take() {
            Some(reply) => Ok(reply),
            None => self.next_reply(Instant::now() + wait, op),
        }
    }

    /// The next reply, if it begins within `soon`.
    pub fn reply_soon(&mut self, soon: Duration, op: &'static str) -> Result<Option<Reply>> {
        self.settle(op)?;
        Control::await_any(&[self], soon, op)?;
        if self.has_input() { self.reply(op).map(Some) } else { Ok(None) }
    }

    /// The next reply that is not about how far something has come; each within the usual wait.
    pub fn last_reply(&mut self, op: &'static str) -> Result<Reply> {
        loop {
            let reply = self.reply(op)?;
            if !reply.is_begun() {
                return Ok(reply);
            }
        }
    }

    /// Waits for the replies that are not needed: a server that does several things at once would answer a command before them.
    fn settle(&mut self, op: &'static str) -> Result<()> {
        if self.over {
            return Err(lost());
        }
        while self.owed > 0 {
            self.next_reply(Instant::now() + self.wait, op)?;
            self.owed -= 1;
        }
        if self.over { Err(lost()) } else { Ok(()) }
    }

    pub fn command(&self, word: &str, argument: &[u8]) -> Result<Vec<u8>> {
        if self.plain && !is_plain(argument) {
            return Err(Error::new(ErrorKind::BadName, "send").at(argument).because(LOSES));
        }
        command(word, argument)
    }

    pub fn ask(&mut self, word: &str, argument: &[u8], op: &'static str) -> Result<Reply> {
        let command = self.command(word, argument)?;
        self.send(&command, op)?;
        self.reply(op)
    }

    /// Sends many commands before their replies are there; one result each.
    pub fn ask_all(&mut self, commands: &[Vec<u8>], op: &'static str) -> Vec<Result<Reply>> {
        let mut replies = Vec::with_capacity(commands.len());
        let (mut sent, mut bytes) = (0, 0);
        while replies.len() < commands.len() {
            let mut batch = Vec::new();
            while sent < commands.len() && sent - replies.len() < AHEAD && (bytes < AHEAD_BYTES || sent == replies.len()) {
                batch.extend_from_slice(&commands[sent]);
                bytes += commands[sent].len();
                sent += 1;
            }
            let reply = if batch.is_empty() { Ok(()) } else { self.send(&batch, op) }.and_then(|()| self.reply(op));
            bytes -= commands[replies.len()].len().min(bytes);
            replies.push(reply);
        }
        replies
    }

    fn next_reply(&mut self, until: Instant, op: &'static str) -> Result<Reply> {
        let reply = self.read_reply(until, op).inspect_err(|_| self.over = true)?;
        // The server has said that it closes the connection.
        self.over |= reply.code == 421;
        Ok(reply)
    }

    fn read_reply(&mut self, until: Instant, op: &'static str) -> Result<Reply> {
        let strange = |why: String| Error::new(ErrorKind::Other, op).because(why).hint("is it an FTP server? check host and port");
        let first = self.read_line(until, op)?;
        let (code, text) = match line(&first) {
            Line::Last(code, text) if (100..600).contains(&code) => return Ok(Reply { code, text: text.to_vec(), more: Vec::new() }),
            Line::First(code, text) if (100..600).contains(&code) => (code, text.to_vec()),
            _ => {
                let shown: String = haul_core::entry::show(&first).chars().take(80).collect();
                return Err(strange(format!("the server's answer is no FTP reply: {shown}")));
            }
        };
        let (mut more, mut total) = (Vec::new(), first.len());
        loop {
            let next = self.read_line(until, op)?;
            total += next.len() + 1;
            if total > REPLY_MOST {
                return Err(strange(format!("the server's reply has more than {REPLY_MOST} bytes")));
            }
            match line(&next) {
                Line::Last(end, last) if end == code => {
                    more.push(last.to_vec());
                    return Ok(Reply { code, text, more });
                }
                // Some servers begin each line with the code.
                Line::First(again, within) if again == code => more.push(within.to_vec()),
                _ => more.push(next),
            }
        }
    }

    /// A line without its end.
    fn read_line(&mut self, until: Instant, op: &'static str) -> Result<Vec<u8>> {
        let mut searched = self.used;
        loop {
            if let Some(end) = self.read[searched..].iter().position(|byte| *byte == b'\n') {
                let found = &self.read[self.used..searched + end];
                let found = found.strip_suffix(b"\r").unwrap_or(found).to_vec();
                self.used = searched + end + 1;
                if self.used == self.read.len() {
                    self.read.clear();
                    self.used = 0;
                }
                return Ok(found);
            }
            searched = self.read.len();
            if searched - self.used > self.line_most {
                let words = format!("the server sent a line of more than {} bytes", self.line_most);
                return Err(Error::new(ErrorKind::Other, op).because(words));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(failure(io::ErrorKind::TimedOut.into(), op));
            }
            let stream = self.stream.as_mut().ok_or_else(lost)?;
            let mut buffer = [0; 4096];
            let read = stream.set_wait(left).and_then(|()| stream.read(&mut buffer));
            match read {
                Ok(0) => return Err(failure(io::ErrorKind::UnexpectedEof.into(), op)),
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failure(e, op)),
            }
        }
    }
}

/// The session is over; a new one may serve.
fn lost() -> Error {
    Error::new(ErrorKind::Io, "send").remedy_is(Remedy::Again).because("the connection to the server is lost")
}

/// A failure of a connection that was made.
pub fn failure(error: io::Error, op: &'static str) -> Error {
    use io::ErrorKind as K;
    let soon = Remedy::After(Duration::from_millis(300));
    let words = |kind, words: &str| Error::new(kind, op).because(words.to_string());
    match error.kind() {
        K::TimedOut | K::WouldBlock => words(ErrorKind::TimedOut, "the server did not answer in time").remedy_is(soon),
        K::UnexpectedEof | K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::NotConnected => {
            words(ErrorKind::Io, "the server closed the connection").remedy_is(soon)
        }
        K::InvalidData if !error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            words(ErrorKind::Denied, &error.to_string()).hint("tell the server's administrator")
        }
        _ if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => tls_failure(error, op),
        _ => Error::from_io(error, op).kind_is(ErrorKind::Io).remedy_is(soon),
    }
}

/// What is said of a server that has no version of TLS that it was offered.
pub const OTHER_VERSION: &str = "the server does not accept this version of TLS";

/// A failure of TLS, or of the connection below it.
pub fn tls_failure(error: io::Error, op: &'static str) -> Error {
    use rustls::{AlertDescription, CertificateError, Error as TlsError, InvalidMessage};
    let trust = "name its CA with --ca-bundle FILE, or use --no-verify-ssl (insecure)";
    let denied = |words: String| Error::new(ErrorKind::Denied, op).because(words);
    match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
        Some(TlsError::InvalidCertificate(CertificateError::Other(other))) if other.0.is::<Refusal>() => {
            let hint = other.0.downcast_ref::<Refusal>().map(|refusal| refusal.hint.clone()).unwrap_or_default();
            denied(other.0.to_string()).hint(hint)
        }
        Some(TlsError::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            denied("the server's certificate is not signed by a trusted authority".into()).hint(trust)
        }
        Some(TlsError::InvalidCertificate(why)) => denied(format!("invalid certificate: {why}")).hint(trust),
        Some(TlsError::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            denied("the server does not speak TLS here".into()).hint("check the port, or try --ftp-tls explicit")
        }
        Some(TlsError::AlertReceived(AlertDescription::ProtocolVersion)) => denied(OTHER_VERSION.into()),
        Some(other) => denied(format!("TLS failed: {other}")),
        None => failure(error, op),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What a server that sends these bytes is heard to say.
    fn heard(bytes: &'static [u8]) -> Result<Reply> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = std::thread::spawn(move || listener.accept().and_then(|(mut stream, _)| stream.write_all(bytes)));
        let second = Duration::from_secs(1);
        let reply = Control::connect(address, second, second).expect("connected").reply("read");
        // It may have been cut off.
        let _ = server.join();
        reply
    }

    #[test]
    fn replies_have_one_line_or_many() {
        assert_eq!(heard(b"220 hello\r\n").expect("a reply").text, b"hello");
        let many = heard(b"211-Features:\r\n MDTM\r\n211-SIZE\r\n 211 x\r\n212 other\r\n211 End\n").expect("a reply");
        assert_eq!(many.code, 211);
        assert_eq!(many.more, [&b" MDTM"[..], b"SIZE", b" 211 x", b"212 other", b"End"]);
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [&b"SSH-2.0-OpenSSH\r\n"[..], b"999 x\r\n", b"\xff\xfb\x01\r\n", b"220", b"220-a\r\n", b"", b"\n"] {
            assert!(heard(bytes).is_err(), "{bytes:?}");
        }
        let long: &'static [u8] = Vec::leak(vec![b'x'; 2 * LINE_MOST]);
        assert!(heard(long).expect_err("it is too long").to_string().contains("more than"));
        let endless: &'static [u8] = Vec::leak([&b"220-\r\n"[..], &b"x".repeat(1000), b"\r\n"].concat().repeat(1100));
        assert!(heard(endless).expect_err("it is too long").to_string().contains("more than"));
    }

    #[test]
    fn names_cannot_become_commands() {
        for name in [&b"a\r\nDELE b"[..], b"a\nb", b"a\rb", b"a\0b"] {
            assert_eq!(command("RETR", name).expect_err("refused").kind(), ErrorKind::BadName);
        }
        assert_eq!(command("RETR", b" a b ").expect("a name"), b"RETR  a b \r\n");
        assert_eq!(command("PWD", b"").expect("no argument"), b"PWD\r\n");
    }
}
