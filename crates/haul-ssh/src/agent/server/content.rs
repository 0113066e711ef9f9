//! Content of open files that is read here instead of being sent: hashes and signatures.

use std::ops::Range;

use haul_core::bundle::Spent;
use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Hasher;
use haul_core::meter::Meter;
use haul_core::signature::wire;
use haul_core::store::Source;

use super::{Agent, Reply};
use crate::agent::wire::{Parser, pack};

/// Bytes that are read before the other end gets what was found in them.
const REPORT: u64 = 32 << 20;
/// Bytes of an encoded signature that are sent at once.
const LONG: usize = 128 << 10;

impl Agent {
    /// Parts while the file is read: the number of bytes since the last part, then the next bytes of the encoded signature. At the end
    /// the size of the version.
    pub(super) fn signature(&self, from: &mut Parser<'_>, reply: &Reply<'_>) -> Result<()> {
        let file = self.files.get(from.get()?)?;
        let average = from.get()?;
        let part = |read: u64, encoded: &[u8]| {
            if reply.more(&[&pack(read), encoded].concat()) { Ok(()) } else { Err(Error::new(ErrorKind::Cancelled, "signature")) }
        };
        let (mut read, mut sent) = (0, 0);
        let mut encoded = wire::header(average).to_vec();
        let signature = file.source()?.extensions().near_data.signature(average, &mut |bytes, chunks| {
            read += bytes;
            sent += chunks.len();
            wire::encode(chunks, &mut encoded);
            if read < REPORT && encoded.len() < LONG {
                return Ok(());
            }
            let sent = part(std::mem::take(&mut read), &encoded);
            encoded.clear();
            sent
        })?;
        let Some(signature) = signature else { return Err(Error::new(ErrorKind::Unsupported, "signature")) };
        wire::encode(&signature.chunks()[sent..], &mut encoded);
        part(read, &encoded)?;
        reply.done(&[&pack(signature.size())]);
        Ok(())
    }
}

pub fn hash(source: &dyn Source, at: Range<u64>) -> Result<u128> {
    Meter::new(Cancel::default(), None).hash(source, at, &mut Spent::default())
}

pub fn digest(source: &dyn Source, at: Range<u64>, hasher: &mut Hasher) -> Result<()> {
    let mut left = at.end - at.start;
    let mut reader = source.read(at)?;
    let mut buffer = vec![0; 256 << 10];
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = reader.read(&mut buffer[..want]).map_err(|e| Error::from_io(e, "read"))?;
        if count == 0 {
            return Err(Error::new(ErrorKind::Changed, "read").because("the file is shorter than it was"));
        }
        hasher.update(&buffer[..count]);
        left -= count as u64;
    }
    Ok(())
}
