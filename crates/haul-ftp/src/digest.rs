//! Checksums that a server computes: HASH (draft-bryan-ftp-hash), CKSM of GridFTP servers, and XMD5 and its kin.

use std::time::{Duration, Instant};

use haul_core::entry::Entry;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::retry;

use super::control::Control;
use super::features::{HashCommand, cannot, get, hash_name};
use super::reply::Reply;
use super::session::Session;
use super::store::Shared;

const OP: &str = "checksum";
/// The slowest disk that a server is waited for: bytes in a second.
const SLOWEST: u64 = 10 << 20;

/// How long a server is listened to between two looks at whether the run goes on.
const TURN: Duration = Duration::from_millis(200);
/// What is trusted most comes first.
const PREFERRED: [Algorithm; 4] = [Algorithm::Sha256, Algorithm::Sha512, Algorithm::Sha1, Algorithm::Md5];

impl Shared {
    /// The algorithms that the server has a command for.
    pub fn digests(&self) -> Vec<Algorithm> {
        let has = |algorithm: &Algorithm| self.command_of(*algorithm).is_some();
        PREFERRED.into_iter().filter(has).collect()
    }

    fn command_of(&self, algorithm: Algorithm) -> Option<HashCommand> {
        let known = self.features.hashes.iter().find(|(known, _)| *known == algorithm);
        known.filter(|_| get(&self.features.computes)).map(|(_, how)| *how)
    }

    /// The digest of a whole file; `None` if the server has no command for it, or refuses this file.
    pub fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.digest_at(&self.target(&entry.name, OP)?, entry.size, algorithm)
    }

    /// The same of the file at a path, of about so many bytes.
    pub fn digest_at(&self, path: &[u8], size: u64, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        if self.command_of(algorithm).is_none() {
            return Ok(None);
        }
        self.digest_over(&mut *self.pool.take()?, path, size, algorithm)
    }

    /// The same over a session of the caller's.
    pub fn digest_over(&self, session: &mut Session, path: &[u8], size: u64, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        let Some(how) = self.command_of(algorithm) else { return Ok(None) };
        let wait = session.wait + Duration::from_secs(size / SLOWEST);
        let request = match how {
            HashCommand::Hash => {
                if session.hash != Some(algorithm) {
                    let chosen = session.ask("OPTS", [b"HASH ", hash_name(algorithm).as_bytes()].concat().as_slice(), OP)?;
                    if !chosen.is_done() {
                        return Ok(None);
                    }
                    session.hash = Some(algorithm);
                }
                session.control.command("HASH", path)?
            }
            // From the first byte to the last.
            HashCommand::Cksm(name) => session.control.command("CKSM", &[name.as_bytes(), b" 0 -1 ", path].concat())?,
            HashCommand::Own(word) => session.control.command(word, path)?,
        };
        session.control.send(&request, OP)?;
        let reply = await_digest(&mut session.control, wait)?;
        if matches!(reply.code, 502 | 504) {
            cannot(&self.features.computes);
        }
        if matches!(reply.code, 500 | 550 | 450 | 553) {
            session.look(path, false, OP)?;
        }
        if !reply.is_done() {
            return Ok(None);
        }
        let lines = std::iter::once(&reply.text).chain(&reply.more);
        let found = lines.flat_map(|line| line.split(|byte| *byte == b' ')).find_map(|word| digits(word, algorithm.width()));
        found.map(Some).ok_or_else(|| Error::new(ErrorKind::Other, OP).because(format!("the server named no digest: {}", reply.shown())))
    }
}

/// The last reply to a command that reads a whole file there. Some servers say every few seconds that they are still at it.
/// Error: `TimedOut` where it does not come in time: asked again, the server would begin anew. `Cancelled` when the run is to stop.
fn await_digest(control: &mut Control, wait: Duration) -> Result<Reply> {
    let until = Instant::now() + wait;
    loop {
        match control.reply_soon(TURN, OP)? {
            Some(reply) if !reply.is_begun() => return Ok(reply),
            _ if Instant::now() > until => {
                control.give_up();
                let words = format!("the server has not computed it within {} s", wait.as_secs());
                return Err(Error::new(ErrorKind::TimedOut, OP).because(words));
            }
            _ => retry::check().inspect_err(|_| control.give_up())?,
        }
    }
}

/// So many bytes in hexadecimal digits.
fn digits(word: &[u8], width: usize) -> Option<Vec<u8>> {
    if word.len() != 2 * width || !word.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    word.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
