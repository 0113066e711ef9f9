//! Checksums that a server computes: HASH (draft-bryan-ftp-hash), CKSM of GridFTP servers, and XMD5 and its kin.

use std::time::{Duration, Instant};

use haul_core::entry::Entry;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;

use super::control::command;
use super::features::{HashCommand, hash_name};
use super::store::Shared;

const OP: &str = "checksum";
/// The slowest disk that a server is waited for: bytes in a second.
const SLOWEST: u64 = 10 << 20;

impl Shared {
    /// The digest of a whole file; `None` if the server has no command for it, or refuses this file.
    pub fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let Some((_, how)) = self.features.hashes.iter().find(|(known, _)| *known == algorithm) else { return Ok(None) };
        let path = self.target(&entry.name, OP)?;
        let mut session = self.pool.take()?;
        let wait = session.wait + Duration::from_secs(entry.size / SLOWEST);
        let request = match how {
            HashCommand::Hash => {
                let chosen = session.ask("OPTS", [b"HASH ", hash_name(algorithm).as_bytes()].concat().as_slice(), OP)?;
                if !chosen.is_done() {
                    return Ok(None);
                }
                command("HASH", &path)?
            }
            // From the first byte to the last.
            HashCommand::Cksm(name) => command("CKSM", &[name.as_bytes(), b" 0 -1 ", &path].concat())?,
            HashCommand::Own(word) => command(word, &path)?,
        };
        session.control.send(&request, OP)?;
        let until = Instant::now() + wait;
        let mut reply = session.control.reply_within(wait, OP)?;
        // Some say every few seconds that they are still at it.
        while reply.is_begun() {
            reply = session.control.reply_within(until.saturating_duration_since(Instant::now()), OP)?;
        }
        if matches!(reply.code, 500 | 550 | 450 | 553) {
            session.look(&path, false, OP)?;
        }
        if !reply.is_done() {
            return Ok(None);
        }
        let lines = std::iter::once(&reply.text).chain(&reply.more);
        let found = lines.flat_map(|line| line.split(|byte| *byte == b' ')).find_map(|word| digits(word, algorithm.width()));
        found.map(Some).ok_or_else(|| Error::new(ErrorKind::Other, OP).because(format!("the server named no digest: {}", reply.shown())))
    }
}

/// So many bytes in hexadecimal digits.
fn digits(word: &[u8], width: usize) -> Option<Vec<u8>> {
    if word.len() != 2 * width || !word.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    word.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
