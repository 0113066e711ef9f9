//! A file of a server that is being written, under a staging name until it is complete. In stream mode chunks that follow each other are
//! one transfer; what a server has of a file is what SIZE says, so that a write goes on from there, in another process too. In extended
//! block mode, and where the server is found to write ranges, it goes out in ranges.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use haul_core::entry::Entry;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::hash::Algorithm;
use haul_core::receipt;
use haul_core::store::{Chunk, Fill, Reach, Receipt, Sink, SinkExtensions, SinkState, Source, Token, WriteOutcome};

use super::change;
use super::control::command;
use super::data::{Data, Failed};
use super::features::{cannot, get};
use super::pool::{Lease, Wanted};
use super::ranged::{Put, Ranged};
use super::ranges_proof::{self, Trial};
use super::staged::Staged;
use super::store::WRITERS;
use haul_core::lock::lock;
use haul_net::tcp;

const BUFFER: usize = 256 << 10;
/// Bytes of a file for which it is worth knowing whether the server writes ranges.
const WORTH: u64 = 64 << 20;

pub struct FtpSink {
    staged: Staged,
    /// Written in extended block mode.
    blocks: bool,
    state: Mutex<State>,
    /// Bytes that were there when the write was taken up again: there may be holes among them.
    before: u64,
    /// Whether the server writes ranges is being found out.
    trial: Mutex<Option<Trial>>,
    /// From then on the file is written in ranges.
    ranged: OnceLock<Arc<Ranged>>,
}

#[derive(Default)]
struct State {
    upload: Option<Upload>,
    /// Up to where the bytes were sent, in order.
    reach: u64,
    /// A transfer was lost: the server is asked how far it came.
    unsure: bool,
    /// Nothing was sent yet.
    untouched: bool,
}

struct Upload {
    lease: Lease,
    data: Data,
    at: u64,
}

/// Gives `put` so many bytes of a reader.
pub fn feed(from: &mut dyn Read, mut left: u64, put: Put<'_>) -> Result<()> {
    let mut buffer = vec![0; BUFFER.min(usize::try_from(left).unwrap_or(BUFFER))];
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match from.read(&mut buffer[..most]) {
            Ok(0) => return Err(Error::new(ErrorKind::Changed, "read").because(format!("the source ended {left} bytes too early"))),
            Ok(count) => {
                put(&buffer[..count])?;
                left -= count as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from_io(e, "read")),
        }
    }
    Ok(())
}

impl FtpSink {
    /// The server hears of it with the first bytes.
    pub fn create(staged: Staged, blocks: bool) -> FtpSink {
        FtpSink::new(staged, blocks, State { untouched: true, ..State::default() })
    }

    pub fn attach(staged: Staged, blocks: bool) -> Result<FtpSink> {
        let reach = staged.reach()?;
        if !blocks && reach > 0 && !get(&staged.shared.features.restarts_writing) {
            return Err(Error::new(ErrorKind::NotFound, "attach").because("the server does not resume uploads"));
        }
        Ok(FtpSink::new(staged, blocks, State { reach, ..State::default() }))
    }

    fn new(staged: Staged, blocks: bool, state: State) -> FtpSink {
        let ranged = if blocks { Ranged::in_blocks(&staged.shared, state.untouched).into() } else { OnceLock::new() };
        let before = state.reach;
        FtpSink { staged, blocks, state: Mutex::new(state), before, trial: Mutex::default(), ranged }
    }

    /// Has it found out whether the server writes ranges, beside a file that would gain. One that was taken up again is written in order: what is
    /// known of it from before says only up to where it goes.
    fn try_ranges(&self) {
        let Staged { shared, target, size, .. } = &self.staged;
        if *size >= WORTH && self.before == 0 && shared.pool.most() > 2 {
            *lock(&self.trial) = Trial::begin(&shared.pool, &shared.features, ranges_proof::beside(target));
        }
    }

    /// The transfer that goes on at `at`.
    fn upload<'s>(&self, state: &'s mut State, at: u64) -> Result<&'s mut Upload> {
        if state.upload.as_ref().is_none_or(|upload| upload.at != at) {
            self.finish(state)?;
            self.check(state, at)?;
            let upload = self.begin(at)?;
            // One connection with a large buffer is as fast as several, which take round trips more.
            if state.untouched && !tcp::is_wide(upload.data.tcp()) {
                self.try_ranges();
            }
            (state.upload, state.reach, state.untouched) = (Some(upload), at, false);
        }
        state.upload.as_mut().ok_or_else(|| Error::new(ErrorKind::Other, "write"))
    }

    /// Nothing is written behind a gap.
    fn check(&self, state: &mut State, at: u64) -> Result<()> {
        // Of a file with holes in it more is there than was sent from here.
        let is_behind = self.before > 0 && at > state.reach;
        if (state.unsure && at > 0) || is_behind {
            let there = self.staged.shared.pool.take()?.look(&self.staged.path, false, "write")?;
            if there.size.unwrap_or(0) >= at {
                state.reach = state.reach.max(at);
            } else if !is_behind {
                return Err(lost());
            }
        }
        state.unsure = false;
        if at > state.reach {
            return Err(Error::new(ErrorKind::Unsupported, "write").because("an FTP server is sent a file in order"));
        }
        Ok(())
    }

    fn begin(&self, at: u64) -> Result<Upload> {
        const OP: &str = "write";
        let mut lease = self.staged.shared.pool.take()?;
        let mut word = "STOR";
        let mut there = None;
        if at > 0 {
            // A server may remove a file whose upload failed, after another upload has gone on with it (vsftpd's delete_failed_uploads):
            // what is sent from here on would be a new file with a hole in front. A look may take a listing, which has a data connection
            // of its own: the one for the file is announced behind it.
            there = match lease.look(&self.staged.path, false, OP) {
                Ok(there) if there.size.is_none_or(|size| size >= at) => there.size,
                Ok(_) => return Err(lost()),
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(lost()),
                Err(e) => return Err(e),
            };
        }
        let announced = lease.announce(OP)?;
        if at > 0 {
            // Not together with STOR, which would begin at 0 if this was refused.
            let reply = lease.ask("REST", at.to_string().as_bytes(), OP)?;
            if !reply.needs_more() {
                if there != Some(at) {
                    return Err(self.no_restart(reply.failure(OP)));
                }
                word = "APPE";
            }
        }
        lease.control.send(&command(word, &self.staged.path)?, OP)?;
        let opening = lease.open(announced, OP);
        match lease.begun(opening, OP) {
            Ok(data) => {
                lease.busy = true;
                Ok(Upload { lease, data, at })
            }
            Err(Failed::Reply(reply)) if at > 0 && matches!(reply.code, 451 | 501 | 504 | 550 | 554) => {
                Err(self.no_restart(reply.failure(OP)))
            }
            Err(failed) => Err(change::explain_write(&mut lease, &self.staged.target, failed, OP)),
        }
    }

    /// The server cannot go on in the middle of a file: it is sent again from its start.
    fn no_restart(&self, e: Error) -> Error {
        cannot(&self.staged.shared.features.restarts_writing);
        e.kind_is(ErrorKind::Changed)
    }

    /// Ends the transfer, if there is one, with the server's word that it has all of it.
    fn finish(&self, state: &mut State) -> Result<()> {
        let Some(Upload { mut lease, data, .. }) = state.upload.take() else { return Ok(()) };
        state.unsure = true;
        data.finish().map_err(|e| lease.explain(e, "write"))?;
        lease.end("write")?;
        lease.busy = false;
        state.unsure = false;
        Ok(())
    }

    /// Sends bytes at the end of what was sent.
    fn send(&self, state: &mut State, bytes: &[u8]) -> Result<()> {
        let Some(upload) = state.upload.as_mut() else { return Err(Error::new(ErrorKind::Other, "write")) };
        if let Err(e) = upload.data.write(bytes) {
            let e = upload.lease.explain(e, "write");
            (state.upload, state.unsure) = (None, true);
            return Err(e);
        }
        upload.at += bytes.len() as u64;
        state.reach = upload.at;
        self.staged.shared.pool.moved();
        Ok(())
    }

    /// Writes the bytes of `at`, which `send` puts in their order.
    fn write_with(&self, at: Range<u64>, send: impl FnOnce(Put<'_>) -> Result<()>) -> Result<()> {
        if let Some(ranged) = self.ranged.get() {
            return ranged.write(&self.staged, at, send);
        }
        let mut state = lock(&self.state);
        self.upload(&mut state, at.start)?;
        send(&mut |bytes| self.send(&mut state, bytes))
    }

    fn conclude(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        receipt::complete(entry.size, self.staged.chunk, receipts)?;
        if let Some(trial) = &*lock(&self.trial) {
            trial.give_up();
        }
        let state = self.arrive()?;
        // An earlier call found that the transfer was lost.
        if state.unsure {
            return Err(lost());
        }
        drop(lock(&self.trial).take());
        if !self.blocks && self.before > 0 && self.staged.size >= WORTH {
            // A run that was killed may have left it.
            let beside = ranges_proof::beside(&self.staged.target);
            change::remove_file(&mut *self.staged.shared.pool.take()?, &beside, "commit")?;
        }
        self.staged.commit(entry).inspect_err(|e| {
            if !self.blocks && e.kind() == ErrorKind::Corrupt {
                self.staged.shared.features.ranges.refute();
                cannot(&self.staged.shared.features.restarts_writing);
            }
        })
    }

    /// The server has all that was written; an empty file is made.
    fn arrive(&self) -> Result<MutexGuard<'_, State>> {
        if let Some(ranged) = self.ranged.get() {
            if self.staged.size == 0 {
                ranged.write(&self.staged, 0..0, |_| Ok(()))?;
            }
            ranged.settle()?;
        }
        let mut state = lock(&self.state);
        if state.untouched && self.ranged.get().is_none() {
            self.upload(&mut state, 0)?;
        }
        self.finish(&mut state)?;
        Ok(state)
    }

    fn remove(&self) -> Result<()> {
        if let Some(trial) = &*lock(&self.trial) {
            trial.give_up();
        }
        // It makes no difference what has arrived, but nothing may arrive any more.
        let _ = self.ranged.get().map(|ranged| ranged.settle());
        let mut state = lock(&self.state);
        let is_untouched = self.ranged.get().map_or(state.untouched, |ranged| ranged.is_untouched());
        let mut lease = match state.upload.take() {
            Some(Upload { mut lease, data, .. }) => {
                lease.cut(data);
                lease.busy = false;
                lease
            }
            None if is_untouched => return Ok(()),
            None => self.staged.shared.pool.take()?,
        };
        state.untouched = true;
        let removed = change::remove_file(&mut lease, &self.staged.path, "remove");
        drop(lease);
        drop(lock(&self.trial).take());
        removed
    }
}

/// What was lost with a connection is sent again once the file has been opened anew.
fn lost() -> Error {
    let e = Error::new(ErrorKind::Io, "write").remedy_is(Remedy::Reopen);
    e.because("the connection was lost with data on their way")
}

impl Sink for FtpSink {
    fn token(&self) -> Token {
        self.staged.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        let count = at.end - at.start;
        self.write_with(at, |put| feed(from, count, put)).map_err(|e| e.on(&self.staged.name))
    }

    fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.write_with(at..at + bytes.len() as u64, |put| put(bytes)).map_err(|e| e.on(&self.staged.name))
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        self.write(at, &mut io::repeat(0))
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        if let Some(ranged) = self.ranged.get() {
            return ranged.land(&chunk.at).map(|()| Box::default()).map_err(|e| e.on(&self.staged.name));
        }
        let mut state = lock(&self.state);
        if chunk.at.start < self.before {
            self.finish(&mut state).map_err(|e| e.renamed(&self.staged.name))?;
        }
        if state.reach >= chunk.at.end && !state.unsure {
            return Ok(Box::default());
        }
        let e = Error::new(ErrorKind::Io, "write").on(&self.staged.name).remedy_is(Remedy::Again);
        Err(e.because("it was not sent whole"))
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        drop(self.arrive().map_err(|e| e.renamed(&self.staged.name))?);
        self.staged.reread()
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        self.conclude(entry, receipts).map_err(|e| e.on(&self.staged.name))
    }

    fn abort(&self) -> Result<()> {
        self.remove().map_err(|e| e.on(&self.staged.name))
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions { fill: self, state: self, ..SinkExtensions::default() }
    }
}

impl Fill for FtpSink {
    fn pull(&self, from: Reach, at: Range<u64>, hash: bool) -> Result<Option<u128>> {
        // The bytes that a hash could be made of do not pass here.
        let Some(ranged) = self.ranged.get().filter(|_| !hash) else { return Ok(None) };
        let passed = ranged.relay(&self.staged, from, at).map_err(|e| e.on(&self.staged.name))?;
        Ok(passed.then_some(0))
    }
}

impl SinkState for FtpSink {
    fn takes_ranges(&self) -> bool {
        if self.ranged.get().is_some() {
            return true;
        }
        if self.before > 0 || !self.staged.shared.features.ranges.holds() {
            return false;
        }
        let mut state = lock(&self.state);
        // What was sent in order is confirmed first: from then on the size of the file says nothing. The next write reports a failure.
        let is_wide = state.upload.as_ref().is_some_and(|upload| tcp::is_wide(upload.data.tcp()));
        if is_wide || state.unsure || self.finish(&mut state).is_err() || state.reach == 0 {
            return false;
        }
        let pool = &self.staged.shared.pool;
        pool.prepare(WRITERS as usize, Wanted::Stream);
        self.ranged.get_or_init(|| Ranged::in_parts(pool, state.reach));
        true
    }

    fn keeps(&self, receipt: &Receipt) -> bool {
        let start = u64::from(receipt.index).saturating_mul(self.staged.chunk);
        start.saturating_add(self.staged.chunk).min(self.staged.size) <= lock(&self.state).reach
    }

    fn digest(&self, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        drop(self.arrive().map_err(|e| e.renamed(&self.staged.name))?);
        self.staged.digest(algorithm)
    }
}

/// What is on its way arrives, for whoever goes on with the write.
impl Drop for FtpSink {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        // Whoever goes on asks how far it came.
        let _ = self.finish(&mut state);
    }
}
