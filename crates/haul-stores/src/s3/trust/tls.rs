//! TLS over a connection of the agent's.
//!
//! The agent has a connector of its own. This one differs in what it believes (`pinned.rs`), and in that what is enciphered
//! fills the buffer of the connection below before that is sent: one call of the system for a buffer, where the agent's
//! makes one for each record of 16 KiB.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport};
use ureq::{Error, Timeout};

pub(super) struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    pub(super) fn new(config: Arc<ClientConfig>) -> TlsConnector {
        TlsConnector(config)
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(below) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() || below.is_tls() {
            return Ok(Some(Either::A(below)));
        }
        let host = details.uri.host().unwrap_or("").trim_start_matches('[').trim_end_matches(']').to_string();
        let name = ServerName::try_from(host).map_err(|_| Error::Tls("the host has no name that a certificate could be for"))?;
        let session = ClientConnection::new(self.0.clone(), name)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        let mut transport = TlsTransport { session, below: Box::new(below), buffers };
        transport.shake_hands(details.timeout)?;
        Ok(Some(Either::B(transport)))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnector")
    }
}

pub(super) struct TlsTransport {
    session: ClientConnection,
    below: Box<dyn Transport>,
    buffers: LazyBuffers,
}

impl TlsTransport {
    /// Within the bound for connecting as a whole, however the other side spreads its bytes.
    fn shake_hands(&mut self, timeout: NextTimeout) -> Result<(), Error> {
        let start = Instant::now();
        let bound = timeout.not_zero().map_or(Duration::MAX, |bound| *bound);
        while self.session.is_handshaking() {
            let left = bound.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout(Timeout::Connect));
            }
            let timeout = NextTimeout { after: left.into(), ..timeout };
            self.flush(timeout)?;
            if self.session.is_handshaking() && !self.take_in(timeout)? {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up while TLS began").into());
            }
        }
        self.flush(timeout)
    }

    /// Sends what is enciphered and waits.
    fn flush(&mut self, timeout: NextTimeout) -> Result<(), Error> {
        let mut wire = Wire { below: &mut *self.below, timeout, filled: 0, failed: None };
        while self.session.wants_write() {
            if let Err(error) = self.session.write_tls(&mut wire) {
                return Err(wire.failed.take().unwrap_or(Error::Io(error)));
            }
        }
        wire.send()
    }

    /// Takes what the connection below has, waiting for some if it has none, and deciphers it. False at its end.
    fn take_in(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let mut wire = Wire { below: &mut *self.below, timeout, filled: 0, failed: None };
        let taken = match self.session.read_tls(&mut wire) {
            Ok(taken) => taken,
            Err(error) => return Err(wire.failed.take().unwrap_or(Error::Io(error))),
        };
        if let Err(error) = self.session.process_new_packets() {
            // Tell the other side why; what is wrong here matters more than whether it hears of it.
            let _ = self.flush(timeout);
            return Err(error.into());
        }
        Ok(taken > 0)
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let mut from = 0;
        while from < amount {
            from += self.session.writer().write(&self.buffers.output()[from..amount])?;
            self.flush(timeout)?;
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        loop {
            match self.session.reader().read(self.buffers.input_append_buf()) {
                Ok(read) => {
                    self.buffers.input_appended(read);
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            self.take_in(timeout)?;
            self.flush(timeout)?;
        }
    }

    fn is_open(&mut self) -> bool {
        self.below.is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").field("below", &self.below).finish_non_exhaustive()
    }
}

/// The connection below as rustls wants it. Writing gathers in its buffer, which is sent when full and by `send`.
struct Wire<'a> {
    below: &'a mut dyn Transport,
    timeout: NextTimeout,
    filled: usize,
    /// Why it failed, in the agent's own terms.
    failed: Option<Error>,
}

impl Wire<'_> {
    fn send(&mut self) -> Result<(), Error> {
        let filled = std::mem::take(&mut self.filled);
        if filled > 0 { self.below.transmit_output(filled, self.timeout) } else { Ok(()) }
    }

    fn fail(&mut self, error: Error) -> io::Error {
        self.failed = Some(error);
        io::Error::other("the connection below failed")
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let output = self.below.buffers().output();
        let taken = bytes.len().min(output.len() - self.filled);
        output[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        if self.filled == output.len()
            && let Err(error) = self.send()
        {
            return Err(self.fail(error));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Wire<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if let Err(error) = self.below.maybe_await_input(self.timeout) {
            return Err(self.fail(error));
        }
        let input = self.below.buffers().input();
        let taken = bytes.len().min(input.len());
        bytes[..taken].copy_from_slice(&input[..taken]);
        self.below.buffers().input_consume(taken);
        Ok(taken)
    }
}
