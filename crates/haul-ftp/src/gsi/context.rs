//! A GSI security context (GFD.20, RFC 2228): TLS 1.2 whose records go as tokens, not over a connection of their own.

use std::io::{self, Read, Write};
use std::sync::Arc;

use haul_core::error::{Error, ErrorKind};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// Bytes of a token that are understood.
const MOST: usize = 1 << 20;

#[derive(Debug)]
pub struct Context {
    tls: ClientConnection,
}

impl Context {
    pub fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Context> {
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(MOST));
        Ok(Context { tls })
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// What is to be sent now.
    pub fn outgoing(&mut self) -> io::Result<Vec<u8>> {
        let mut token = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut token)?;
        }
        Ok(token)
    }

    /// Takes a token; the bytes that were inside.
    /// Error: A token that is forged, or cut, as `InvalidData`.
    pub fn unwrap(&mut self, mut token: &[u8]) -> io::Result<Vec<u8>> {
        let bad = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_string());
        let mut clear = Vec::new();
        while !token.is_empty() {
            if self.tls.read_tls(&mut token)? == 0 {
                return Err(bad("the security context is closed"));
            }
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            let mut some = vec![0; state.plaintext_bytes_to_read()];
            self.tls.reader().read_exact(&mut some)?;
            clear.extend(some);
            if clear.len() > MOST {
                return Err(bad("the token is too long"));
            }
        }
        Ok(clear)
    }

    /// Wraps bytes that go with the next token.
    pub fn wrap_later(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.writer().write_all(bytes)
    }

    pub fn wrap(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.tls.writer().write_all(bytes)?;
        self.outgoing()
    }
}

/// The words for a context that cannot be made.
pub fn refused(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Denied, "authenticate").because(words)
}
