//! The handshake of one connection: rustls does it, and hands over the keys of the two directions.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use haul_core::error::{Error, ErrorKind, Result};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, ExtractedSecrets, ServerConfig, SupportedCipherSuite};

use super::Tls;
use super::records::{Keys, RecordReader, RecordWriter, Secrets};
use crate::agent::frame::lost;

/// Bytes of a handshake; those of haul have less than 2 KiB in each direction.
const LONGEST: usize = 64 << 10;

/// The two halves of a connection; each may have its own thread.
pub type Halves = (RecordWriter, RecordReader);

/// Connects: the other end is authenticated when this returns.
pub fn connect(stream: &TcpStream, config: Arc<ClientConfig>, until: Instant) -> Result<Halves> {
    let name = stream.peer_addr().map_err(|e| Error::io(e, OP))?.ip();
    // No name is sent for an address.
    let client = UnbufferedClientConnection::new(config, ServerName::from(name)).map_err(|e| refused(&e))?;
    shake_hands(client, stream, until)
}

/// Accepts: the other end is authenticated when this returns.
pub fn accept(stream: &TcpStream, config: Arc<ServerConfig>, until: Instant) -> Result<Halves> {
    let server = UnbufferedServerConnection::new(config).map_err(|e| refused(&e))?;
    shake_hands(server, stream, until)
}

const OP: &str = "shake hands";

fn refused(e: &rustls::Error) -> Error {
    Error::new(ErrorKind::Broken, OP).because(format!("TLS: {e}"))
}

/// What both ends of a handshake do.
trait Side: Sized {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn keys(self) -> Tls<(ExtractedSecrets, SupportedCipherSuite, Box<dyn Renew>)>;
}

/// Makes the next key of a direction.
pub trait Renew: Send {
    fn sending(&mut self) -> Tls<Secrets>;
    fn receiving(&mut self) -> Tls<Secrets>;
}

impl<Data: Send> Renew for KernelConnection<Data> {
    fn sending(&mut self) -> Tls<Secrets> {
        self.update_tx_secret()
    }

    fn receiving(&mut self) -> Tls<Secrets> {
        self.update_rx_secret()
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn keys(self) -> Tls<(ExtractedSecrets, SupportedCipherSuite, Box<dyn Renew>)> {
        let (secrets, kernel) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, kernel.negotiated_cipher_suite(), Box::new(kernel)))
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn keys(self) -> Tls<(ExtractedSecrets, SupportedCipherSuite, Box<dyn Renew>)> {
        let (secrets, kernel) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, kernel.negotiated_cipher_suite(), Box::new(kernel)))
    }
}

fn shake_hands<S: Side>(mut side: S, stream: &TcpStream, until: Instant) -> Result<Halves> {
    let (mut incoming, mut outgoing, mut early) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let UnbufferedStatus { discard, state } = side.process(&mut incoming);
        let (mut more, mut done) = (false, false);
        match state.map_err(|e| refused(&e))? {
            ConnectionState::EncodeTlsData(mut record) => encode(&mut record, &mut outgoing)?,
            ConnectionState::TransmitTlsData(sending) => {
                send(stream, &outgoing, until)?;
                outgoing.clear();
                sending.done();
            }
            ConnectionState::BlockedHandshake => more = true,
            // The other end was done first, and what it sent next came along.
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    early.extend_from_slice(record.map_err(|e| refused(&e))?.payload);
                }
            }
            ConnectionState::WriteTraffic(_) => done = true,
            _ => return Err(lost("it was closed")),
        }
        incoming.drain(..discard);
        if done {
            break;
        }
        if more {
            receive(stream, &mut incoming, until)?;
        }
    }
    let (secrets, suite, renew) = side.keys().map_err(|e| refused(&e))?;
    let SupportedCipherSuite::Tls13(suite) = suite else { return Err(lost("it is not TLS 1.3")) };
    let keys = Arc::new(Keys::new(suite, renew));
    let (writer, reader) = (RecordWriter::new(keys.clone(), secrets.tx), RecordReader::new(keys, secrets.rx, early, incoming));
    Ok((writer.map_err(|e| refused(&e))?, reader.map_err(|e| refused(&e))?))
}

fn encode<Data>(record: &mut EncodeTlsData<'_, Data>, outgoing: &mut Vec<u8>) -> Result<()> {
    let before = outgoing.len();
    let mut room = 2048;
    loop {
        outgoing.resize(before + room, 0);
        match record.encode(&mut outgoing[before..]) {
            Ok(count) => {
                outgoing.truncate(before + count);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(more)) if more.required_size <= LONGEST => room = more.required_size,
            Err(e) => return Err(lost(&e.to_string())),
        }
    }
}

fn left(until: Instant) -> Result<std::time::Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::new(ErrorKind::TimedOut, OP)) } else { Ok(left) }
}

fn send(mut stream: &TcpStream, mut bytes: &[u8], until: Instant) -> Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?)).map_err(|e| Error::io(e, OP))?;
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(e) if waits_on(&e) => {}
            Err(e) => return Err(Error::io(e, OP)),
        }
    }
    Ok(())
}

/// At least one more byte.
fn receive(mut stream: &TcpStream, into: &mut Vec<u8>, until: Instant) -> Result<()> {
    let before = into.len();
    if before >= LONGEST {
        return Err(lost("a handshake without an end"));
    }
    into.resize(before + (16 << 10), 0);
    let read = loop {
        stream.set_read_timeout(Some(left(until)?)).map_err(|e| Error::io(e, OP))?;
        match stream.read(&mut into[before..]) {
            Ok(0) => break Err(lost("it was closed")),
            Ok(count) => break Ok(count),
            Err(e) if waits_on(&e) => {}
            Err(e) => break Err(Error::io(e, OP)),
        }
    };
    into.truncate(before + *read.as_ref().unwrap_or(&0));
    read.map(|_| ())
}

/// The call may be made again, as long as there is time.
fn waits_on(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
