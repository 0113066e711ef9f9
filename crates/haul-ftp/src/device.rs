//! What the network to a server is measured with: its `/dev/zero` and `/dev/null`, or files of our own that are removed afterwards. Each
//! connection carries one transfer on and on, in stream mode.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::entry::{Kind, Name, Stamp, Time};
use haul_core::error::{Error, ErrorKind, Result};
use ring::rand::{SecureRandom, SystemRandom};

use super::change;
use super::data::Data;
use super::host::FtpHost;
use super::paths::join;
use super::pool::{Lease, Pool};
use super::sink::feed;
use haul_core::lock::lock;
use haul_core::store::staging::staging_leaf;
use haul_net::tcp::tcp_info;

const OP: &str = "measure";
const BLOCK: usize = 256 << 10;
/// Bytes of a file of our own: the way back to its start is short beside them, and few of them fill no disk.
const FILE: u64 = 256 << 20;
/// How long the file that is to be read may take to be sent: it is shorter then.
const FILLING: Duration = Duration::from_secs(10);
/// How long a caller waits for a connection that another one uses.
const LOOK: Duration = Duration::from_millis(500);

/// Transfers of one direction, as many as were asked for; copies share them.
#[derive(Clone, Debug)]
pub struct Device {
    lanes: Arc<Lanes>,
}

/// A directory for files of our own in place of devices.
#[derive(Debug)]
pub struct Files {
    dir: Vec<u8>,
    /// The one that is read, made when it is wanted first.
    source: Mutex<Option<Arc<Made>>>,
}

/// A file of our own; it is removed when this is dropped.
#[derive(Debug)]
struct Made {
    pool: Arc<Pool>,
    path: Vec<u8>,
}

impl Drop for Made {
    fn drop(&mut self) {
        // One that cannot be removed has a name that shows whose it is.
        let _ = self.pool.take().and_then(|mut session| change::remove_file(&mut session, &self.path, OP));
    }
}

/// In this order they are dropped: files are removed once nothing is written to them any more.
#[derive(Debug)]
struct Lanes {
    free: Mutex<Free>,
    freed: Condvar,
    _made: Vec<Arc<Made>>,
}

#[derive(Debug)]
struct Free {
    lanes: Vec<Lane>,
    /// These and those in use.
    all: usize,
}

/// A session, and the transfer that is going on over it.
#[derive(Debug)]
struct Lane {
    lease: Lease,
    word: &'static str,
    path: Vec<u8>,
    data: Option<Data>,
    /// Bytes of this transfer, and those of them that the server has.
    moved: u64,
    taken: u64,
    /// A transfer of more is begun anew.
    most: u64,
}

impl Lane {
    fn new(lease: Lease, word: &'static str, path: &[u8], most: u64) -> Lane {
        Lane { lease, word, path: path.to_vec(), data: None, moved: 0, taken: 0, most }
    }

    fn data(&mut self) -> Result<&mut Data> {
        if self.data.is_none() {
            let data = self.lease.begin(self.word, &self.path, OP).map_err(|failed| failed.into_error(OP))?;
            self.lease.busy = true;
            (self.data, self.moved, self.taken) = (Some(data), 0, 0);
        }
        self.data.as_mut().ok_or_else(|| Error::new(ErrorKind::Other, OP))
    }

    /// Ends the transfer that has all its bytes.
    fn end(&mut self) -> Result<()> {
        let Some(data) = self.data.take() else { return Ok(()) };
        data.finish().map_err(|e| self.lease.explain(e, OP))?;
        self.lease.end(OP)?;
        self.lease.busy = false;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], taken: &mut dyn FnMut(u64)) -> Result<()> {
        if let Err(e) = self.data()?.write(bytes) {
            self.data = None;
            return Err(self.lease.explain(e, OP));
        }
        self.moved += bytes.len() as u64;
        let acknowledged = self.data.as_ref().and_then(|data| tcp_info(data.tcp())).map_or(self.moved, |info| info.tcpi_bytes_acked);
        let now = acknowledged.clamp(self.taken, self.moved);
        taken(now - self.taken);
        self.taken = now;
        if self.moved >= self.most {
            taken(self.moved - self.taken);
            self.end()?;
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match self.data()?.read(into) {
                Ok(0) if self.moved == 0 => return Err(Error::new(ErrorKind::Io, OP).because("the server sent nothing")),
                Ok(0) => {
                    // The file is read again from its start.
                    self.data = None;
                    self.lease.end(OP)?;
                    self.lease.busy = false;
                }
                Ok(count) => {
                    self.moved += count as u64;
                    return Ok(count);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.data = None;
                    return Err(self.lease.explain(e, OP));
                }
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Some(data) = self.data.take() else { return };
        if self.word == "RETR" {
            self.lease.cut(data);
            self.lease.busy = false;
        } else {
            self.data = Some(data);
            // A session that could not end its transfer is closed.
            let _ = self.end();
        }
    }
}

impl Lanes {
    /// One that is not in use, for the caller alone until it is dropped.
    fn take(self: &Arc<Lanes>) -> Result<Held> {
        let mut free = lock(&self.free);
        loop {
            if let Some(lane) = free.lanes.pop() {
                return Ok(Held { lanes: self.clone(), lane: Some(lane) });
            }
            if free.all == 0 {
                return Err(Error::new(ErrorKind::Broken, OP).because("no data connection is left"));
            }
            haul_core::retry::check()?;
            free = self.freed.wait_timeout(free, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A lane of a caller's; it goes back when this is dropped, unless it failed.
struct Held {
    lanes: Arc<Lanes>,
    lane: Option<Lane>,
}

impl Held {
    fn with<T>(&mut self, act: impl FnOnce(&mut Lane) -> Result<T>) -> Result<T> {
        let lane = self.lane.as_mut().ok_or_else(|| Error::new(ErrorKind::Other, OP))?;
        act(lane).inspect_err(|_| self.lane = None)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut free = lock(&self.lanes.free);
        match self.lane.take() {
            Some(lane) => free.lanes.push(lane),
            None => free.all -= 1,
        }
        drop(free);
        self.lanes.freed.notify_all();
    }
}

impl Files {
    pub fn new(dir: Vec<u8>) -> Files {
        Files { dir, source: Mutex::default() }
    }
}

impl Device {
    pub fn channels(&self) -> usize {
        lock(&self.lanes.free).all
    }

    pub fn stream(&self) -> Device {
        self.clone()
    }

    /// As many bytes as `at` has. `name` is for errors.
    pub fn read<'a>(&self, name: &'a Name, at: Range<u64>) -> Box<dyn Read + Send + 'a> {
        Box::new(Reader { lanes: self.lanes.clone(), held: None, name, left: at.end - at.start })
    }

    /// Calls `taken` with the bytes that the server's system has acknowledged.
    pub fn write(&self, at: Range<u64>, from: &mut dyn Read, taken: &mut dyn FnMut(u64)) -> Result<()> {
        let mut held = self.lanes.take()?;
        feed(from, at.end - at.start, &mut |bytes| held.with(|lane| lane.write(bytes, taken)))
    }
}

struct Reader<'a> {
    lanes: Arc<Lanes>,
    held: Option<Held>,
    name: &'a Name,
    left: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let failed = |e: Error| io::Error::from(e.on(self.name));
        if self.held.is_none() {
            self.held = Some(self.lanes.take().map_err(failed)?);
        }
        let read = self.held.as_mut().map_or(Ok(0), |held| held.with(|lane| lane.read(&mut into[..most])));
        let count = read.map_err(failed)?;
        self.left -= count as u64;
        Ok(count)
    }
}

impl FtpHost {
    /// The round trip of one request that the server answers at once.
    pub fn ping(&self) -> Result<Duration> {
        let mut session = self.pool.take()?;
        let begun = Instant::now();
        session.ask("NOOP", b"", OP)?;
        Ok(begun.elapsed())
    }

    /// `/dev/zero` over so many connections, or a file of our own.
    /// Error: `Unsupported` where the server does not give it.
    pub fn zeros(&self, streams: usize, files: Option<&Files>) -> Result<Device> {
        let Some(files) = files else {
            self.is_device(b"/dev/zero")?;
            return self.device("RETR", &vec![b"/dev/zero".to_vec(); streams], Vec::new(), u64::MAX);
        };
        let mut source = lock(&files.source);
        let made = match &*source {
            Some(made) => made.clone(),
            None => source.insert(self.filled(&files.dir)?).clone(),
        };
        self.device("RETR", &vec![made.path.clone(); streams], vec![made], u64::MAX)
    }

    /// `/dev/null` over so many connections, or a file of our own for each.
    /// Error: `Unsupported` where the server does not give it.
    pub fn null(&self, streams: usize, files: Option<&Files>) -> Result<Device> {
        let Some(files) = files else {
            self.is_device(b"/dev/null")?;
            return self.device("STOR", &vec![b"/dev/null".to_vec(); streams], Vec::new(), u64::MAX);
        };
        let made: Vec<Arc<Made>> = (1..=streams).map(|number| self.made(&files.dir, number)).collect();
        let paths: Vec<Vec<u8>> = made.iter().map(|made| made.path.clone()).collect();
        self.device("STOR", &paths, made, FILE)
    }

    fn filled(&self, dir: &[u8]) -> Result<Arc<Made>> {
        let made = self.made(dir, 0);
        let mut lane = Lane::new(self.pool.take()?, "STOR", &made.path, u64::MAX);
        // No compressor on the way makes less of these.
        let mut block = vec![0; BLOCK];
        let random = SystemRandom::new().fill(&mut block);
        random.map_err(|_| Error::new(ErrorKind::Other, OP).because("no random numbers"))?;
        let (begun, mut sent) = (Instant::now(), 0);
        while sent < FILE && (sent == 0 || begun.elapsed() < FILLING) {
            lane.write(&block, &mut |_| ())?;
            sent += block.len() as u64;
        }
        lane.end()?;
        Ok(made)
    }

    /// A file of our own, by its number: no listing of haul's shows it.
    fn made(&self, dir: &[u8], number: usize) -> Arc<Made> {
        let stamp = Stamp { size: number as u64, mtime: Time::default(), version: u64::from(std::process::id()) };
        Arc::new(Made { pool: self.pool.clone(), path: join(dir, &staging_leaf(b"bench-net", stamp)) })
    }

    fn device(&self, word: &'static str, paths: &[Vec<u8>], made: Vec<Arc<Made>>, most: u64) -> Result<Device> {
        let mut lanes = Vec::with_capacity(paths.len());
        for path in paths {
            let mut lane = Lane::new(self.pool.take()?, word, path, most);
            lane.data()?;
            lanes.push(lane);
        }
        let free = Free { all: lanes.len(), lanes };
        Ok(Device { lanes: Arc::new(Lanes { free: Mutex::new(free), freed: Condvar::new(), _made: made }) })
    }

    /// In a chroot it may be a regular file, or nothing.
    fn is_device(&self, path: &[u8]) -> Result<()> {
        let found = self.pool.take()?.look(path, false, OP);
        if found.is_ok_and(|facts| facts.kind == Some(Kind::Char)) {
            return Ok(());
        }
        let e = Error::new(ErrorKind::Unsupported, OP).at(path).because("the server does not give this device");
        Err(e.hint("name a directory (ftp://HOST/DIR): files in it are written and read instead, and removed"))
    }
}
