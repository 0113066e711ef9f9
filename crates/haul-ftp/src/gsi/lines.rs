//! The protected control connection (RFC 2228): commands as `ENC token`, replies as lines with the codes 631 to 633. Nothing
//! else is taken from the server.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::context::Context;

/// Bytes of a line with a token.
const LINE_MOST: usize = 256 << 10;

#[derive(Debug)]
pub struct Lines {
    tcp: TcpStream,
    context: Context,
    /// What came and is no whole line yet.
    raw: Vec<u8>,
    /// What was unwrapped and not read yet, and how much of it was.
    clear: Vec<u8>,
    used: usize,
    /// A command that has no end yet.
    pending: Vec<u8>,
}

impl Lines {
    pub fn new(tcp: TcpStream, context: Context) -> Lines {
        Lines { tcp, context, raw: Vec::new(), clear: Vec::new(), used: 0, pending: Vec::new() }
    }

    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Whether something came that was not read.
    pub fn has_more(&self) -> bool {
        self.used < self.clear.len() || !self.raw.is_empty()
    }

    /// Unwraps the whole lines that came.
    fn open_lines(&mut self) -> io::Result<()> {
        let bad = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_string());
        while let Some(end) = self.raw.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.raw.drain(..=end).collect();
            let line = line.trim_ascii_end();
            let protected = matches!(line.get(..3), Some(b"631" | b"632" | b"633")) && matches!(line.get(3), Some(b' ' | b'-'));
            if !protected {
                let shown: String = haul_core::entry::show(line).chars().take(80).collect();
                return Err(bad(&format!("the server sent an unprotected reply: {shown}")));
            }
            let token = STANDARD.decode(&line[4..]).map_err(|_| bad("the server sent a token that is not base64"))?;
            let clear = self.context.unwrap(&token)?;
            // A string of C is sent with its end.
            let clear = clear.strip_suffix(b"\0").unwrap_or(&clear);
            self.clear.extend_from_slice(clear);
            if !clear.ends_with(b"\n") {
                self.clear.extend_from_slice(b"\r\n");
            }
        }
        if self.raw.len() > LINE_MOST { Err(bad("the server sent a line that does not end")) } else { Ok(()) }
    }
}

impl Read for Lines {
    /// `Interrupted` where what came is no whole line: the caller knows how long it may still wait.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.used == self.clear.len() {
            self.clear.clear();
            self.used = 0;
            let mut buffer = [0; 16 << 10];
            let count = self.tcp.read(&mut buffer)?;
            if count == 0 {
                return Ok(0);
            }
            self.raw.extend_from_slice(&buffer[..count]);
            self.open_lines()?;
        }
        if self.clear.is_empty() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let count = into.len().min(self.clear.len() - self.used);
        into[..count].copy_from_slice(&self.clear[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let token = self.context.wrap(&line)?;
            out.extend_from_slice(b"ENC ");
            out.extend_from_slice(STANDARD.encode(token).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        self.tcp.write_all(&out)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}
