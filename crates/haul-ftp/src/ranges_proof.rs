//! Whether a server writes ranges of one file from several connections at once, each where it belongs. Servers differ, and some say that
//! they did what they did not: a file of five bytes is written so and read back, beside the first upload that would gain.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haul_core::entry::Stamp;
use haul_core::error::{Error, ErrorKind, Result};

use super::change;
use super::control::command;
use super::data::{Data, Failed};
use super::features::{Features, get};
use super::pool::Pool;
use super::session::Session;
use haul_core::store::staging::staging_leaf;

const OP: &str = "write";
/// How long a second connection may take to be served while the first one writes, in times of what the first one took: a server that
/// locks files lets it wait.
const PATIENCE: u32 = 8;
const LEAST_PATIENCE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);

const UNKNOWN: u8 = 0;
const BEGUN: u8 = 1;
const REFUTED: u8 = 2;
const PROVEN: u8 = 3;

#[derive(Debug, Default)]
pub struct RangesProof(AtomicU8);

impl RangesProof {
    pub fn holds(&self) -> bool {
        self.0.load(Ordering::Relaxed) == PROVEN
    }

    /// Something was written elsewhere than it belongs after all.
    pub fn refute(&self) {
        self.0.store(REFUTED, Ordering::Relaxed);
    }
}

/// A proof that is going on beside an upload, and is over when this is dropped.
#[derive(Debug)]
pub struct Trial {
    given_up: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Trial {
    /// Begins the proof with a file at `path`, once for each server.
    pub fn begin(pool: &Arc<Pool>, features: &Arc<Features>, path: Vec<u8>) -> Option<Trial> {
        let known = &features.ranges.0;
        if !get(&features.restarts_writing) || known.compare_exchange(UNKNOWN, BEGUN, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return None;
        }
        let given_up = Arc::new(AtomicBool::new(false));
        let (pool, features, over) = (pool.clone(), features.clone(), given_up.clone());
        let prove = move || {
            let known = match proof(&pool, &path, &over) {
                Ok(true) => PROVEN,
                Ok(false) => REFUTED,
                // A busy server may show it with the next file.
                Err(_) => UNKNOWN,
            };
            features.ranges.0.store(known, Ordering::Relaxed);
            // Nothing may have been made.
            let _ = pool.take().and_then(|mut session| change::remove_file(&mut session, &path, OP));
        };
        let thread = std::thread::Builder::new().name("ranges".into()).spawn(prove).ok();
        Some(Trial { given_up, thread })
    }
}

impl Trial {
    /// The upload is over, so that nobody gains any more. To wait for that may take a session of the pool: no other may be held then.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// Where the file of a trial is: beside the one that is uploaded, under a name that no listing of haul's shows.
pub fn beside(target: &[u8]) -> Vec<u8> {
    let leaf = target.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let stamp = Stamp { size: u64::MAX, ..Stamp::default() };
    [&target[..target.len() - leaf.len()], &staging_leaf(leaf, stamp)].concat()
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.give_up();
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Writes "AB", then "CD" and "E" at their places over two connections at once, "B" once more in front of them, and reads the file.
fn proof(pool: &Arc<Pool>, path: &[u8], given_up: &AtomicBool) -> Result<bool> {
    let is_over = || given_up.load(Ordering::Relaxed);
    let none = || Error::new(ErrorKind::Busy, OP).because("no session is free");
    let (mut first, mut second) = (pool.take_spare().ok_or_else(none)?, pool.take_spare().ok_or_else(none)?);
    let began = Instant::now();
    let data = first.begin("STOR", path, OP).map_err(|failed| failed.into_error(OP))?;
    let patience = (began.elapsed() * PATIENCE).max(LEAST_PATIENCE);
    first.sent(data, b"AB")?;
    let Some(data) = taken(first.store_at(2, path, OP, |_| true))? else { return Ok(false) };
    first.busy = true;
    let until = Instant::now() + patience;
    let answers = |session: &mut Session| {
        while !session.control.has_input() && Instant::now() < until && !is_over() {
            std::thread::sleep(LOOK);
        }
        session.control.has_input()
    };
    let written = match taken(second.store_at(4, path, OP, answers)) {
        Ok(Some(other)) => second.sent(other, b"E").map(|()| true),
        Ok(None) => Ok(false),
        Err(e) => Err(e),
    };
    first.sent(data, b"CD")?;
    match written {
        Ok(true) => {}
        _ if is_over() => return Err(none()),
        written => return written,
    }
    // A server may take away what is behind a range.
    let Some(data) = taken(first.store_at(1, path, OP, |_| true))? else { return Ok(false) };
    first.sent(data, b"B")?;
    let content = first.fetch("RETR", path, OP).map_err(|failed| failed.into_error(OP))?;
    Ok(content == b"ABCDE")
}

/// The transfer, unless the server has refused it, or lets it wait.
fn taken(begun: Result<Data, Failed>) -> Result<Option<Data>> {
    match begun {
        Ok(data) => Ok(Some(data)),
        Err(Failed::Reply(_)) => Ok(None),
        Err(Failed::Error(e)) if e.kind() == ErrorKind::TimedOut => Ok(None),
        Err(Failed::Error(e)) => Err(e),
    }
}

impl Session {
    /// Begins to write from a place in the file on. `answers` says whether to wait for the reply to that; a session that is not waited for
    /// is given up.
    pub fn store_at(&mut self, at: u64, path: &[u8], op: &'static str, answers: impl FnOnce(&mut Session) -> bool) -> Result<Data, Failed> {
        let announced = self.announce(op)?;
        // Not together with STOR, which would begin at 0 if this was refused.
        let reply = self.ask("REST", at.to_string().as_bytes(), op)?;
        if !reply.needs_more() {
            return Err(Failed::Reply(reply));
        }
        let transfer = command("STOR", path)?;
        self.control.send(&transfer, op)?;
        let opening = self.open(announced, op);
        if !answers(self) {
            self.control.give_up();
            return Err(Failed::Error(Error::new(ErrorKind::TimedOut, op).because("the server lets the transfer wait")));
        }
        self.begun(opening, op)
    }

    /// Sends all bytes of a transfer, and ends it.
    fn sent(&mut self, mut data: Data, bytes: &[u8]) -> Result<()> {
        self.busy = true;
        data.write(bytes).and_then(|()| data.finish()).map_err(|e| self.explain(e, OP))?;
        self.end(OP)?;
        self.busy = false;
        Ok(())
    }
}
