//! The records of an established connection. rustls encrypts and decrypts each; this file counts them, gathers them into large
//! writes and reads, and changes keys in time.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::lock::lock;
use rustls::crypto::cipher::{AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion, Tls13CipherSuite};

use super::Tls;
use super::handshake::Renew;
use crate::agent::frame::{lost, write_all};

/// Bytes of content in a record at the most (RFC 8446, section 5.1).
const CONTENT: usize = 1 << 14;
/// Type, version and length, in front of each record.
const HEADER: usize = 5;
/// The longest record without its header: content, its type, padding and the tag.
const LONGEST: usize = CONTENT + 256;
/// Records that go out in one write: 512 KiB.
const BATCH: usize = 32;
/// Bytes that are read at a time, and one record of which a part may be there.
const BUFFER: usize = (256 << 10) + HEADER + LONGEST;
/// Records under one key at the most: fewer than the 2^24.5 that RFC 8446, section 5.5, allows AES-GCM.
const RECORDS_OF_A_KEY: u64 = 1 << 23;

/// KeyUpdate, without a request for one (RFC 8446, section 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const CLOSE_NOTIFY: u8 = 0;

pub type Secrets = (u64, ConnectionTrafficSecrets);

pub struct Keys {
    suite: &'static Tls13CipherSuite,
    renew: Mutex<Box<dyn Renew>>,
    /// The other end wants another key in the direction to it.
    wanted: AtomicBool,
}

impl Keys {
    pub fn new(suite: &'static Tls13CipherSuite, renew: Box<dyn Renew>) -> Keys {
        Keys { suite, renew: Mutex::new(renew), wanted: AtomicBool::new(false) }
    }

    fn encrypter(&self, secrets: ConnectionTrafficSecrets) -> Tls<Box<dyn MessageEncrypter>> {
        key_of(secrets).map(|(key, iv)| self.suite.aead_alg.encrypter(key, iv))
    }

    fn decrypter(&self, secrets: ConnectionTrafficSecrets) -> Tls<Box<dyn MessageDecrypter>> {
        key_of(secrets).map(|(key, iv)| self.suite.aead_alg.decrypter(key, iv))
    }
}

fn key_of(secrets: ConnectionTrafficSecrets) -> Tls<(AeadKey, Iv)> {
    use ConnectionTrafficSecrets::{Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
    match secrets {
        Aes128Gcm { key, iv } | Aes256Gcm { key, iv } | Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        _ => Err(rustls::Error::General("a cipher without keys".into())),
    }
}

pub struct RecordWriter {
    keys: Arc<Keys>,
    encrypter: Box<dyn MessageEncrypter>,
    /// The number of the next record under this key.
    next: u64,
    /// The number at which the key is changed; another one in tests.
    pub(super) limit: u64,
    batch: Vec<Vec<u8>>,
    /// Part of a record may be on its way: nothing can be sent any more.
    failed: bool,
}

impl RecordWriter {
    pub fn new(keys: Arc<Keys>, (next, secrets): Secrets) -> Tls<RecordWriter> {
        let encrypter = keys.encrypter(secrets)?;
        Ok(RecordWriter { keys, encrypter, next, limit: RECORDS_OF_A_KEY, batch: Vec::with_capacity(BATCH), failed: false })
    }

    /// The cipher suite, as IANA names it.
    pub fn suite(&self) -> String {
        super::name(self.keys.suite.common.suite)
    }

    /// Sends the parts, one behind the other. A failed write is final.
    pub fn write(&mut self, to: &mut dyn Write, parts: &[&[u8]]) -> io::Result<()> {
        if self.failed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.failed = true;
        let mut left = OutboundChunks::new(parts);
        while !left.is_empty() {
            if self.next >= self.limit || self.keys.wanted.swap(false, Ordering::Relaxed) {
                self.change_key()?;
            }
            let (content, rest) = left.split_at(CONTENT);
            self.add(ContentType::ApplicationData, content)?;
            left = rest;
            if self.batch.len() >= BATCH || left.is_empty() {
                write_all(to, self.batch.iter().map(Vec::as_slice))?;
                self.batch.clear();
            }
        }
        self.failed = false;
        Ok(())
    }

    fn add(&mut self, typ: ContentType, payload: OutboundChunks<'_>) -> io::Result<()> {
        let record = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload };
        let record = self.encrypter.encrypt(record, self.next).map_err(io::Error::other)?;
        self.next += 1;
        self.batch.push(record.encode());
        Ok(())
    }

    fn change_key(&mut self) -> io::Result<()> {
        self.add(ContentType::Handshake, OutboundChunks::Single(&KEY_UPDATE))?;
        let (next, secrets) = lock(&self.keys.renew).sending().map_err(io::Error::other)?;
        (self.encrypter, self.next) = (self.keys.encrypter(secrets).map_err(io::Error::other)?, next);
        Ok(())
    }
}

pub struct RecordReader {
    keys: Arc<Keys>,
    decrypter: Box<dyn MessageDecrypter>,
    next: u64,
    /// Content that came with the handshake.
    early: Vec<u8>,
    /// Records as they came, `start` to `end`; those in front are decrypted in place.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    plain: std::ops::Range<usize>,
    /// The other end has closed the connection in order.
    ended: bool,
    failed: Option<Error>,
}

impl RecordReader {
    /// `early` is content and `records` are records that came with the handshake.
    pub fn new(keys: Arc<Keys>, (next, secrets): Secrets, early: Vec<u8>, records: Vec<u8>) -> Tls<Self> {
        let decrypter = keys.decrypter(secrets)?;
        let end = records.len();
        let mut buffer = records;
        buffer.resize(BUFFER.max(end), 0);
        Ok(RecordReader { keys, decrypter, next, early, buffer, start: 0, end, plain: 0..0, ended: false, failed: None })
    }

    /// The content that comes next, some of it; empty at the end in order. Whatever is returned was authenticated. A failure is
    /// final: `Corrupt` for what the other end did not send, `Broken` where the connection ends otherwise.
    pub fn content(&mut self, from: &mut dyn Read) -> Result<&[u8]> {
        if let Some(e) = &self.failed {
            return Err(e.again());
        }
        while self.early.is_empty() && self.plain.is_empty() && !self.ended {
            if let Err(e) = self.open_record(from) {
                self.failed = Some(e.again());
                return Err(e);
            }
        }
        Ok(if self.early.is_empty() { &self.buffer[self.plain.clone()] } else { &self.early[..] })
    }

    /// So many bytes of the content were taken.
    pub fn taken(&mut self, count: usize) {
        if self.early.is_empty() {
            self.plain.start = self.plain.end.min(self.plain.start + count);
        } else {
            self.early.drain(..count);
        }
    }

    fn open_record(&mut self, from: &mut dyn Read) -> Result<()> {
        let foreign = || {
            Error::new(ErrorKind::Corrupt, "receive").because("a record that the remote end did not encrypt").remedy_is(Remedy::Reconnect)
        };
        self.fill(from, HEADER)?;
        let header = &self.buffer[self.start..self.start + HEADER];
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != u8::from(ContentType::ApplicationData) || header[1..3] != [3, 3] || length > LONGEST {
            return Err(foreign());
        }
        self.fill(from, HEADER + length)?;
        let content = self.start + HEADER;
        self.start = content + length;
        let record = &mut self.buffer[content..self.start];
        let record = InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, record);
        let record = self.decrypter.decrypt(record, self.next).map_err(|_| foreign())?;
        self.next += 1;
        match (record.typ, record.payload) {
            (ContentType::ApplicationData, payload) => self.plain = content..content + payload.len(),
            (ContentType::Handshake, [24, 0, 0, 1, wanted @ (0 | 1)]) => {
                self.keys.wanted.fetch_or(*wanted == 1, Ordering::Relaxed);
                let (next, secrets) = lock(&self.keys.renew).receiving().map_err(|_| foreign())?;
                (self.decrypter, self.next) = (self.keys.decrypter(secrets).map_err(|_| foreign())?, next);
            }
            (ContentType::Alert, [_, CLOSE_NOTIFY]) => self.ended = true,
            (ContentType::Alert, _) => return Err(lost("the remote end reports a TLS error")),
            _ => return Err(foreign()),
        }
        Ok(())
    }

    /// Reads until `count` bytes behind `start` are there, and as many more as come at once.
    fn fill(&mut self, from: &mut dyn Read, count: usize) -> Result<()> {
        while self.end - self.start < count {
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            } else if self.start + HEADER + LONGEST > self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            match from.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(lost("it ended too early")),
                Ok(read) => self.end += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(Error::io(e, "receive").kind_is(ErrorKind::TimedOut).remedy_is(Remedy::Reconnect));
                }
                Err(e) => return Err(Error::io(e, "receive").kind_is(ErrorKind::Broken).remedy_is(Remedy::Reconnect)),
            }
        }
        Ok(())
    }
}
