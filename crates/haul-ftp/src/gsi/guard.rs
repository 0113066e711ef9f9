//! Protection of data connections (GFD.20: DCAU and PROT). Both ends show a proxy of the same user before anything moves; whoever
//! connects is the client of TLS, and here that is always this side: Globus's server, as a client, names a host in a way that rustls refuses.
//! After that the data are clear (`PROT C`) or stay inside TLS (`PROT P`).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::credential::Credential;
use super::trust::Delegated;
use crate::stream::Stream;

/// Bytes of a record of TLS behind its header.
const RECORD: usize = 18 << 10;
/// That nothing is delegated, which whoever connects says first.
const NOTHING: u8 = b'0';

#[derive(Debug)]
pub struct Guard {
    client: Arc<ClientConfig>,
    name: ServerName<'static>,
    private: bool,
}

impl Guard {
    pub fn new(credential: &Credential, name: ServerName<'static>, private: bool) -> Result<Guard, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let peer = Arc::new(Delegated { own: credential.own.clone() });
        let shown = Arc::new(SingleCertAndKey::from(credential.certified.clone()));
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS12])?;
        let mut client = client.dangerous().with_custom_certificate_verifier(peer).with_client_cert_resolver(shown);
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        Ok(Guard { client: Arc::new(client), name, private })
    }

    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Authenticates both ends. `await_data` returns when the connection has something to read.
    pub fn protect<E: From<io::Error>>(
        &self,
        mut tcp: TcpStream,
        mut await_data: impl FnMut(&TcpStream) -> Result<(), E>,
    ) -> Result<Stream, E> {
        let mut tls = ClientConnection::new(self.client.clone(), self.name.clone()).map_err(io::Error::other)?;
        send(&mut tls, &mut tcp)?;
        while tls.is_handshaking() {
            await_data(&tcp)?;
            receive(&mut tls, &mut tcp)?;
            send(&mut tls, &mut tcp)?;
        }
        if self.private {
            return Ok(Stream::Private(Box::new(StreamOwned::new(tls, tcp))));
        }
        tls.writer().write_all(&[NOTHING])?;
        send(&mut tls, &mut tcp)?;
        Ok(Stream::Plain(tcp))
    }
}

fn send(tls: &mut ClientConnection, tcp: &mut TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(tcp)?;
    }
    Ok(())
}

/// One record, and not a byte more: what follows may be data in clear.
fn receive(tls: &mut ClientConnection, tcp: &mut TcpStream) -> io::Result<()> {
    let mut record = vec![0; 5];
    tcp.read_exact(&mut record)?;
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    if length > RECORD || !(20..=23).contains(&record[0]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the server does not speak TLS on the data connection"));
    }
    record.resize(5 + length, 0);
    tcp.read_exact(&mut record[5..])?;
    let mut rest = record.as_slice();
    while !rest.is_empty() {
        if tls.read_tls(&mut rest)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Err(e) = tls.process_new_packets() {
            // The other end is to hear why; the error that counts is this one.
            let _ = send(tls, tcp);
            return Err(io::Error::other(e));
        }
    }
    Ok(())
}
