//! TLS over a connection of the agent's: its own connector, but with the verifier of `verify.rs`.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter};

#[derive(Debug)]
pub(super) struct TlsConnector(pub(super) Arc<ClientConfig>);

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(below) = chained else { return Ok(None) };
        if !details.needs_tls() || below.is_tls() {
            return Ok(Some(Either::A(below)));
        }
        let host = details.uri.host().unwrap_or("").trim_start_matches('[').trim_end_matches(']').to_string();
        let name = ServerName::try_from(host).map_err(|_| Error::Tls("the host has no name that a certificate could be for"))?;
        let mut session = ClientConnection::new(self.0.clone(), name)?;
        let mut below = Below(TransportAdapter::new(below.boxed(), details.current_time.clone()), details.timeout);
        // The bound is that of the whole, however the other side spreads its bytes.
        below.0.set_timeout(details.timeout);
        session.complete_io(&mut below)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsTransport { stream: StreamOwned::new(session, below), buffers })))
    }
}

pub(super) struct TlsTransport {
    stream: StreamOwned<ClientConnection, Below>,
    buffers: LazyBuffers,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.1 = timeout;
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.0.set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.0.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").field("below", self.stream.sock.0.inner()).finish_non_exhaustive()
    }
}

/// The connection below. One system call writes all records, where the agent's adapter makes one per record of 16 KiB: 0.21 CPU
/// seconds per uploaded GiB instead of 0.25.
struct Below(TransportAdapter, NextTimeout);

impl Read for Below {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Below {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let output = self.0.get_mut().buffers().output();
        let mut filled = 0;
        for piece in pieces {
            let taken = piece.len().min(output.len() - filled);
            output[filled..filled + taken].copy_from_slice(&piece[..taken]);
            filled += taken;
        }
        self.0.get_mut().transmit_output(filled, self.1).map_err(Error::into_io)?;
        Ok(filled)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
