//! One file of a server, open for reading: ranges of one version of it, each a transfer on a connection of its own.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use haul_core::entry::{Entry, Kind, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{NearData, Reach, Source, SourceExtensions};

use super::control::{command, failure};
use super::data::{Data, Failed};
use super::facts::Facts;
use super::intake::{Incoming, Intake};
use super::pool::{Lease, Parked, Pool, Wanted};
use super::relay::Opened;
use super::session::Session;
use super::store::{LARGE, READERS, Shared};
use haul_core::lock::lock;

/// Bytes that are read and dropped at a time where a server cannot begin in the middle.
const SKIP: usize = 64 << 10;

pub struct FtpFile {
    shared: Arc<Shared>,
    path: Vec<u8>,
    name: Name,
    stamp: Stamp,
    rests: Arc<Rests>,
    opened: Arc<Opened>,
    /// Parts that will be read from their start on: their ends by their starts.
    ahead: Mutex<HashMap<u64, u64>>,
}

/// How the bytes of a transfer come.
enum Flow {
    /// On a connection of their own, to the end of the file.
    Stream(Data),
    Blocks(Incoming),
}

/// A transfer whose next bytes are those from `at` on.
struct Download {
    lease: Lease,
    flow: Flow,
    /// Where the transfer ends.
    until: u64,
}

impl Download {
    /// Gives the rest up; the session is free for others if the connection was the transfer's own.
    fn cut(self) {
        let Download { mut lease, flow, .. } = self;
        match flow {
            Flow::Stream(data) => {
                lease.cut(data);
                lease.busy = false;
            }
            Flow::Blocks(_) => lease.control.give_up(),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match (&mut self.flow, &mut self.lease.intake) {
            (Flow::Stream(data), _) => data.read(into),
            (Flow::Blocks(incoming), Some(intake)) => incoming.read(intake, into),
            (Flow::Blocks(_), None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The error of a failed read: the server's own words, if it has any.
    fn explain(&mut self, e: io::Error) -> Error {
        match self.flow {
            Flow::Stream(_) => self.lease.explain(e, "read"),
            Flow::Blocks(_) => self.lease.blocks_failed(e, "read"),
        }
    }

    /// Ends a transfer that has sent all there is.
    fn end(self) -> Result<()> {
        let Download { mut lease, flow, .. } = self;
        let is_last = matches!(&flow, Flow::Blocks(incoming) if incoming.closes) || lease.intake.as_ref().is_some_and(Intake::is_striped);
        drop(flow);
        lease.control.last_reply("read")?.done("read")?;
        lease.busy = is_last;
        Ok(())
    }
}

/// Transfers whose next bytes nobody has asked for yet, by where in the file these are: a read that follows goes on with one, and
/// another read takes its session.
struct Rests {
    pool: Arc<Pool>,
    kept: Mutex<HashMap<u64, Download>>,
    /// Where transfers were begun: what another one reads from there on is of no use.
    begun: Mutex<HashSet<u64>>,
}

impl Rests {
    fn new(pool: &Arc<Pool>) -> Arc<Rests> {
        Arc::new(Rests { pool: pool.clone(), kept: Mutex::default(), begun: Mutex::default() })
    }

    fn keep(self: &Arc<Rests>, at: u64, download: Download) {
        if lock(&self.begun).contains(&at) {
            return download.cut();
        }
        let before = lock(&self.kept).insert(at, download);
        if let Some(before) = before {
            before.cut();
        }
        let this: Weak<Rests> = Arc::downgrade(self);
        self.pool.park(this);
    }
}

impl Parked for Rests {
    fn release(&self) -> bool {
        let mut kept = lock(&self.kept);
        let some = kept.keys().next().copied().and_then(|at| kept.remove(&at));
        drop(kept);
        some.map(Download::cut).is_some()
    }
}

impl Drop for Rests {
    fn drop(&mut self) {
        for (_, download) in lock(&self.kept).drain() {
            download.cut();
        }
    }
}

fn changed(reason: &str) -> Error {
    Error::new(ErrorKind::Changed, "read").because(reason)
}

pub fn stamp(facts: &Facts) -> Stamp {
    Stamp { size: facts.size.unwrap_or(0), mtime: facts.modified.unwrap_or_default(), version: 0 }
}

/// A reply that does not tell why a file cannot be read, explained by a look at it.
pub fn explained(session: &mut Session, path: &[u8], failed: Failed, op: &'static str) -> Error {
    let vague = matches!(&failed, Failed::Reply(reply) if reply.is_vague());
    let e = failed.into_error(op);
    if !vague {
        return e;
    }
    match session.look(path, false, op) {
        Err(absent) if absent.kind() == ErrorKind::NotFound => absent,
        Ok(facts) if facts.kind == Some(Kind::File) => e.kind_is(ErrorKind::Denied),
        Ok(_) => e.kind_is(ErrorKind::Changed).because("it is no longer a regular file"),
        Err(_) => e,
    }
}

impl FtpFile {
    pub fn open(shared: &Arc<Shared>, entry: &Entry, follow: bool) -> Result<FtpFile> {
        let path = shared.target(&entry.name, "open")?;
        if entry.size >= LARGE && shared.features.stripes() == 0 {
            shared.pool.prepare(READERS as usize, Wanted::Intake);
        }
        let stamp = FtpFile::look(shared, &path, entry, follow)?;
        Ok(FtpFile {
            shared: shared.clone(),
            opened: Opened::new(shared, &path),
            path,
            name: entry.name.clone(),
            stamp,
            rests: Rests::new(&shared.pool),
            ahead: Mutex::default(),
        })
    }

    /// The stamp of the file, if it is still what was listed.
    fn look(shared: &Arc<Shared>, path: &[u8], entry: &Entry, follow: bool) -> Result<Stamp> {
        let found = shared.pool.take()?.look_sent(&[path], false, follow, "open").pop();
        let facts = found.unwrap_or_else(|| Err(Error::new(ErrorKind::NotFound, "open")))?;
        if facts.kind != Some(Kind::File) {
            return Err(Error::new(ErrorKind::Changed, "open").because("it is no longer a regular file"));
        }
        if facts.size.is_none() {
            return Err(Error::new(ErrorKind::Unsupported, "open").because("the server does not report the file's size"));
        }
        if entry.is_bare() {
            return Ok(stamp(&facts));
        }
        // A listing without times has none to compare, nor has a look-up where times are those of the listing.
        let mut known = Stamp { version: 0, ..entry.stamp() };
        if !entry.have.has(haul_core::entry::MetaMask::MTIME) || facts.modified.is_none() || facts.is_rough {
            known.mtime = stamp(&facts).mtime;
        }
        if known != stamp(&facts) {
            return Err(changed("its size or time changed since it was listed"));
        }
        // What is compared before a commit is what was listed.
        Ok(entry.stamp())
    }

    /// A transfer that has the bytes from `at.start` on as its next, at least to `at.end`.
    fn begin(&self, range: Range<u64>) -> Result<Download> {
        const OP: &str = "read";
        if let Some(download) = self.begin_blocks(range.clone())? {
            return Ok(download);
        }
        let at = range.start;
        let mut lease = self.shared.pool.take()?;
        let (data, begins) = match lease.begin_at(at, "RETR", &self.path, OP) {
            Ok(begun) => begun,
            Err(failed) => return Err(explained(&mut lease, &self.path, failed, OP)),
        };
        lease.busy = true;
        let mut download = Download { lease, flow: Flow::Stream(data), until: self.stamp.size };
        // The server sends all there is: what is in front is read and dropped.
        let mut left = at - begins;
        let mut buffer = vec![0; if left > 0 { SKIP } else { 0 }];
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match download.read(&mut buffer[..most]) {
                Ok(0) => return Err(short(left)),
                Ok(count) => left -= count as u64,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failure(e, OP)),
            }
            self.shared.pool.moved();
        }
        Ok(download)
    }
}

impl FtpFile {
    /// The same in extended block mode, to the end of what is known to be read next; `None` where the server cannot.
    fn begin_blocks(&self, range: Range<u64>) -> Result<Option<Download>> {
        const OP: &str = "read";
        // All data nodes together send whole files alone: of a range behind the start Globus's server (13.24) leaves parts out, and says
        // that it is complete.
        let striped = range.start == 0 && self.stamp.size >= LARGE && self.shared.features.stripes() > 0;
        let ahead = lock(&self.ahead).remove(&range.start).unwrap_or(range.end);
        let until = if striped { self.stamp.size } else { ahead.max(range.end).min(self.stamp.size) };
        // A byte more shows that the file has grown.
        let count = until - range.start + u64::from(until == self.stamp.size);
        let part = format!("P {} {count} ", range.start);
        let transfer = command("ERET", &[part.as_bytes(), &self.path].concat())?;
        let Some(mut lease) = self.shared.intake(&transfer, striped, OP)? else { return Ok(None) };
        lease.busy = true;
        let reply = lease.control.reply(OP)?;
        if !reply.is_begun() {
            lease.busy = false;
            return Err(explained(&mut lease, &self.path, Failed::Reply(reply), OP));
        }
        Ok(Some(Download { lease, flow: Flow::Blocks(Incoming::new(count)), until }))
    }
}

pub fn short(left: u64) -> Error {
    let e = Error::new(ErrorKind::Io, "read").remedy_is(Remedy::Again);
    e.because(format!("the data connection ended {left} bytes too early"))
}

impl Source for FtpFile {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        if at.end > self.stamp.size {
            return Err(changed("it is shorter than it was").on(&self.name));
        }
        if at.is_empty() {
            return Ok(Box::new(io::empty()));
        }
        let kept = lock(&self.rests.kept).remove(&at.start);
        if kept.is_some() {
            lock(&self.ahead).remove(&at.start);
        }
        let download = match kept {
            Some(download) => download,
            None => {
                lock(&self.rests.begun).insert(at.start);
                self.begin(at.clone()).map_err(|e| e.on(&self.name))?
            }
        };
        Ok(Box::new(Reader { file: self, download: Some(download), at: at.start, end: at.end }))
    }

    fn hint_sequential(&self, at: Range<u64>) {
        let mut ahead = lock(&self.ahead);
        let end = ahead.entry(at.start).or_insert(at.end);
        *end = at.end.max(*end);
    }

    fn stamp(&self) -> Result<Stamp> {
        let found = self.shared.pool.take()?.look(&self.path, false, "stat").map_err(|e| e.on(&self.name))?;
        let mut now = stamp(&found);
        if found.modified.is_none() || found.is_rough {
            now.mtime = self.stamp.mtime;
        }
        now.version = self.stamp.version;
        Ok(now)
    }

    fn extensions(&self) -> SourceExtensions<'_> {
        SourceExtensions { near_data: self, ..SourceExtensions::default() }
    }
}

impl NearData for FtpFile {
    fn reach(&self) -> Option<Reach> {
        self.opened.reach()
    }
}

/// Bytes of one range.
struct Reader<'a> {
    file: &'a FtpFile,
    download: Option<Download>,
    at: u64,
    end: u64,
}

impl Reader<'_> {
    /// All was read: the transfer is kept, cut, or has come to its own end.
    fn finish(&mut self) -> Result<()> {
        let Some(mut download) = self.download.take() else { return Ok(()) };
        if self.end < download.until {
            self.file.rests.keep(self.end, download);
            return Ok(());
        }
        match download.read(&mut [0; 1]) {
            Ok(0) => {}
            Ok(_) => {
                download.cut();
                return Err(changed("it is longer than it was"));
            }
            Err(e) => return Err(download.explain(e)),
        }
        download.end()
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
        let Some(download) = self.download.as_mut().filter(|_| most > 0) else { return Ok(0) };
        let failed = |e: Error| -> io::Error { e.on(&self.file.name).into() };
        let count = match download.read(&mut into[..most]) {
            Ok(0) => {
                // The server may say why.
                let left = self.end - self.at;
                let said = download
                    .lease
                    .control
                    .last_reply("read")
                    .and_then(|reply| reply.done("read"))
                    .err()
                    .filter(|e| e.kind() != ErrorKind::TimedOut);
                self.download = None;
                return Err(failed(said.unwrap_or_else(|| short(left))));
            }
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => {
                let e = download.explain(e);
                self.download = None;
                return Err(failed(e));
            }
        };
        self.at += count as u64;
        self.file.shared.pool.moved();
        if self.at == self.end {
            self.finish().map_err(failed)?;
        }
        Ok(count)
    }
}
