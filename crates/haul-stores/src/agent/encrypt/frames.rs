//! The two halves of an encrypted connection: frames out, frames in.

use std::fmt;
use std::io::{Read, Write};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use ring::aead::Aad;

use super::{HEADER, Keys, MOST, TAG, lost};

/// A frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data = 0,
    /// Nothing comes behind it, and nothing is in it.
    End = 1,
}

/// Kind, and the length of what follows in 24 bits, which `MOST` is far below.
pub(super) fn header(kind: Kind, length: usize) -> [u8; HEADER] {
    let length = (length as u32).to_be_bytes();
    [kind as u8, length[1], length[2], length[3]]
}

/// The sending half of a connection.
pub struct Encryptor {
    pub(super) keys: Keys,
    pub(super) buffer: Vec<u8>,
    /// Why nothing can be sent any more.
    pub(super) over: Option<Error>,
}

/// Without the last frame.
impl fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryptor").field("keys", &self.keys).field("over", &self.over).finish_non_exhaustive()
    }
}

impl Encryptor {
    pub(super) fn new(keys: Keys) -> Self {
        Encryptor { keys, buffer: Vec::new(), over: None }
    }

    /// Sends the parts, one behind the other, as one frame in one write. They may be empty.
    ///
    /// More than `MOST` bytes are `Usage`, and nothing was sent. A failed write is final, since part of a frame may be
    /// on its way.
    pub fn encrypt(&mut self, to: &mut dyn Write, parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > MOST {
            return Err(Error::new(ErrorKind::Usage, "send").because(format!("{length} bytes in one frame, which holds {MOST}")));
        }
        self.send(to, Kind::Data, length, parts)
    }

    pub(super) fn send(&mut self, to: &mut dyn Write, kind: Kind, length: usize, parts: &[&[u8]]) -> Result<()> {
        if let Some(e) = &self.over {
            return Err(e.again());
        }
        let header = header(kind, length + TAG);
        self.buffer.clear();
        self.buffer.reserve(HEADER + length + TAG);
        self.buffer.extend_from_slice(&header);
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        let (key, nonce) = self.keys.next();
        let tag = key
            .seal_in_place_separate_tag(nonce, Aad::from(header), &mut self.buffer[HEADER..])
            .expect("a frame is far shorter than what AES-GCM takes");
        self.buffer.extend_from_slice(tag.as_ref());
        to.write_all(&self.buffer).map_err(|e| {
            let e = lost(e, "send");
            self.over = Some(e.again());
            e
        })
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub struct Decryptor {
    pub(super) keys: Keys,
    pub(super) state: DecryptorState,
}

#[derive(Debug)]
pub(super) enum DecryptorState {
    Open,
    Ended,
    Failed(Error),
}

impl Decryptor {
    pub(super) fn new(keys: Keys) -> Self {
        Decryptor { keys, state: DecryptorState::Open }
    }

    /// Reads one frame, and no byte behind it; `None` once the final frame has come.
    /// The buffer is grown as needed, to `MOST` + 16 bytes at most, and is meant to be used again.
    ///
    /// `Corrupt` for what the other end did not send here and now, `Broken` for a connection that ends without the final
    /// frame, `TimedOut` where the reader has a time limit that passed. Each failure is final. Nothing is answered that
    /// was not authenticated.
    pub fn decrypt<'a>(&mut self, from: &mut dyn Read, buffer: &'a mut Vec<u8>) -> Result<Option<&'a mut [u8]>> {
        match &self.state {
            DecryptorState::Open => {}
            DecryptorState::Ended => return Ok(None),
            DecryptorState::Failed(e) => return Err(e.again()),
        }
        match self.receive(from, buffer) {
            Ok((Kind::Data, length)) => Ok(Some(&mut buffer[..length])),
            Ok((Kind::End, _)) => {
                self.state = DecryptorState::Ended;
                Ok(None)
            }
            Err(e) => {
                // What was not authenticated is not left where it could be taken for data.
                buffer.clear();
                self.state = DecryptorState::Failed(e.again());
                Err(e)
            }
        }
    }

    fn receive(&mut self, from: &mut dyn Read, buffer: &mut Vec<u8>) -> Result<(Kind, usize)> {
        let foreign = || {
            let e = Error::new(ErrorKind::Corrupt, "receive").because("a frame that the remote end did not encrypt");
            e.remedy_is(Remedy::Reconnect)
        };
        let mut header = [0; HEADER];
        from.read_exact(&mut header).map_err(|e| lost(e, "receive"))?;
        let length = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
        let kind = match header[0] {
            0 if (TAG..=MOST + TAG).contains(&length) => Kind::Data,
            1 if length == TAG => Kind::End,
            _ => return Err(foreign()),
        };
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        let encrypted = &mut buffer[..length];
        from.read_exact(encrypted).map_err(|e| lost(e, "receive"))?;
        let (key, nonce) = self.keys.next();
        let plain = key.open_in_place(nonce, Aad::from(header), encrypted).map_err(|_| foreign())?;
        Ok((kind, plain.len()))
    }
}
