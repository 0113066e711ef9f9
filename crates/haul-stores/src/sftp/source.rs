//! A file of the host that is read: blocks are asked for ahead, over several channels where the way is long.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::entry::{Entry, Kind, MetaMask, Name, Stamp, Xattrs};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Source;

use super::Shared;
use super::channel::{Channel, Ticket};
use super::client::{self, Handle, attrs, data};
use super::packet::{Attrs, kind, open};

/// Bytes under way in one channel: OpenSSH's window.
pub(super) const WINDOW: usize = 2 << 20;
/// Files from this size on are read and written over several channels.
pub(super) const LARGE: u64 = 4 << 20;

/// A file open in one channel.
#[derive(Debug)]
pub(super) struct Way {
    pub channel: Arc<Channel>,
    pub handle: Handle,
    closed: AtomicBool,
}

impl Way {
    pub fn open(channel: Arc<Channel>, path: &[u8], flags: u32, attrs: &Attrs, op: &'static str) -> Result<Way> {
        let answer = channel.ask(kind::OPEN, |r| r.bytes(path).number(flags).attrs(attrs))?;
        let handle = client::handle(&answer, op)?;
        Ok(Way { channel, handle, closed: AtomicBool::new(false) })
    }
}

impl Way {
    /// Closes for the answer: a server tells of a full disk behind it only then.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let answer = self.channel.ask(kind::CLOSE, |r| r.bytes(&self.handle))?;
        client::done(&answer, "write")
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut batch = self.channel.batch();
        let _answer_does_not_matter = batch.push(kind::CLOSE, |r| r.bytes(&self.handle));
        let _nothing_to_do = batch.send();
    }
}

/// What is taken at most of a file whose size says nothing: bytes.
const GENERATED_MOST: u64 = 16 << 20;

pub(super) struct RemoteFile {
    shared: Arc<Shared>,
    path: Vec<u8>,
    name: Name,
    stamp: Stamp,
    ways: Mutex<Vec<Arc<Way>>>,
}

fn changed(reason: &str) -> Error {
    Error::new(ErrorKind::Changed, "read").because(reason)
}

/// What a file of the host is stamped with: there is no inode in the protocol.
pub(super) fn stamp(attrs: &Attrs) -> Stamp {
    Stamp { size: attrs.size.unwrap_or(0), mtime: attrs.mtime(), version: 0 }
}

impl RemoteFile {
    pub fn open(shared: &Arc<Shared>, entry: &Entry, follow: bool) -> Result<RemoteFile> {
        let path = shared.path(&entry.name, "open")?;
        // Opening a fifo would hold the server's process, and a link would be followed.
        let channel = shared.client.channel()?;
        let (there, target) = if follow {
            (channel.ask(kind::STAT, |r| r.bytes(&path)).and_then(|answer| attrs(&answer, "open"))?, None)
        } else {
            shared.look(&path)?
        };
        if there.kind() != Kind::File || target.is_some() {
            return Err(Error::new(ErrorKind::Changed, "open").because("it is no longer a regular file"));
        }
        if !entry.is_bare() && stamp(&there) != entry.stamp() {
            return Err(changed("its size or time changed since it was listed"));
        }
        let file = RemoteFile { shared: shared.clone(), path, name: entry.name.clone(), stamp: stamp(&there), ways: Mutex::default() };
        let way = file.way(channel)?;
        file.ways.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(way));
        Ok(file)
    }

    /// The file opened in a channel, if it is still the one that was looked at.
    fn way(&self, channel: Arc<Channel>) -> Result<Way> {
        let way = Way::open(channel, &self.path, open::READ, &Attrs::default(), "open")?;
        let answer = way.channel.ask(kind::FSTAT, |r| r.bytes(&way.handle))?;
        if stamp(&attrs(&answer, "stat")?) != self.stamp {
            return Err(changed("it was replaced while it was opened"));
        }
        Ok(way)
    }

    /// Appends the content of a file of size 0 that has one all the same, as those of `/proc` do.
    pub fn read_to_end(&self, to: &mut Vec<u8>) -> Result<()> {
        let way = self.ways()?.swap_remove(0);
        let most = self.shared.client.read_most as u64;
        let start = to.len();
        loop {
            let at = (to.len() - start) as u64;
            if at > GENERATED_MOST {
                let e = Error::new(ErrorKind::Unsupported, "read").because("its size is unknown before it is read, and it is large");
                return Err(e.hint("copy it through a pipe: haul cat SRC | haul cp - DST"));
            }
            let answer = way.channel.ask(kind::READ, |r| r.bytes(&way.handle).long(at).number(most as u32))?;
            match data(&answer, "read")? {
                Some(bytes) if bytes.len() as u64 > most => return Err(super::packet::nonsense("more data than was asked for")),
                Some(bytes) if !bytes.is_empty() => to.extend_from_slice(bytes),
                _ => return Ok(()),
            }
        }
    }

    /// The file as it is open in one channel, or in several if it is large.
    fn ways(&self) -> Result<Vec<Arc<Way>>> {
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        // After a lost connection the same file is opened again in another.
        ways.retain(|way| !way.channel.is_over());
        if ways.is_empty() {
            ways.push(Arc::new(self.way(self.shared.client.channel()?)?));
        }
        let wanted = if self.stamp.size >= LARGE { self.shared.client.stripes() } else { 1 };
        if ways.len() < wanted {
            for channel in self.shared.client.channels(wanted)? {
                if ways.len() < wanted && !ways.iter().any(|way| Arc::ptr_eq(&way.channel, &channel)) {
                    ways.push(Arc::new(self.way(channel)?));
                }
            }
        }
        Ok(ways.clone())
    }
}

impl Source for RemoteFile {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        let ways = self.ways().map_err(|e| e.on(&self.name))?;
        Ok(Box::new(Reader::new(&self.name, ways, self.shared.client.read_most, at)))
    }

    fn stamp(&self) -> Result<Stamp> {
        let ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if ways.len() != 1 || ways.iter().any(|way| way.channel.is_over()) {
            // It was opened several times: one that was replaced in between shows under its name.
            return self.shared.lstat(&self.path).map(|attrs| stamp(&attrs)).map_err(|e| e.on(&self.name));
        }
        let way = &ways[0];
        let answer = way.channel.ask(kind::FSTAT, |r| r.bytes(&way.handle)).map_err(|e| e.on(&self.name))?;
        attrs(&answer, "stat").map(|attrs| stamp(&attrs)).map_err(|e| e.on(&self.name))
    }

    fn xattrs(&self, _want: MetaMask) -> Result<Xattrs> {
        Ok(Xattrs::new())
    }
}

/// A block that was asked for.
struct Asked {
    ticket: Ticket,
    way: usize,
    at: Range<u64>,
}

pub(super) struct Reader<'a> {
    name: &'a Name,
    ways: Vec<Arc<Way>>,
    block: usize,
    /// Up to where blocks were asked for.
    asked: u64,
    end: u64,
    turn: usize,
    under_way: VecDeque<Asked>,
    bytes: Vec<u8>,
    /// Of `bytes`, what was handed on.
    at: usize,
}

impl<'a> Reader<'a> {
    /// Of what is open in `ways`, `block` bytes a request.
    pub fn new(name: &'a Name, ways: Vec<Arc<Way>>, block: usize, at: Range<u64>) -> Reader<'a> {
        Reader { name, ways, block, asked: at.start, end: at.end, turn: 0, under_way: VecDeque::new(), bytes: Vec::new(), at: 0 }
    }

    fn ask(&mut self) -> Result<()> {
        let most = (WINDOW / self.block).max(2) * self.ways.len();
        while self.asked < self.end && self.under_way.len() < most {
            let way = self.turn % self.ways.len();
            self.turn += 1;
            // Half a window at a time goes out by one write, then comes the next channel's turn.
            let mut batch = self.ways[way].channel.batch();
            let handle = &self.ways[way].handle;
            for _ in 0..(most / self.ways.len() / 2).max(1) {
                if self.asked >= self.end || self.under_way.len() >= most {
                    break;
                }
                let at = self.asked..(self.asked + self.block as u64).min(self.end);
                let ticket = batch.push(kind::READ, |r| r.bytes(handle).long(at.start).number((at.end - at.start) as u32));
                self.asked = at.end;
                self.under_way.push_back(Asked { ticket, way, at });
            }
            batch.send()?;
        }
        Ok(())
    }

    fn next_block(&mut self) -> Result<()> {
        self.ask()?;
        let Some(Asked { ticket, way, at }) = self.under_way.pop_front() else {
            self.bytes.clear();
            self.at = 0;
            return Ok(());
        };
        let way = self.ways[way].clone();
        let mut answer = way.channel.wait(ticket)?;
        let (mut from, mut whole) = (at.start, Vec::new());
        loop {
            let Some(bytes) = data(&answer, "read")?.filter(|bytes| !bytes.is_empty()) else {
                return Err(changed("it became shorter while it was read"));
            };
            if bytes.len() as u64 > at.end - from {
                return Err(super::packet::nonsense("more data than was asked for"));
            }
            from += bytes.len() as u64;
            whole.extend_from_slice(bytes);
            if from == at.end {
                break;
            }
            // A server may send less than it was asked for.
            answer = way.channel.ask(kind::READ, |r| r.bytes(&way.handle).long(from).number((at.end - from) as u32))?;
        }
        self.bytes = whole;
        self.at = 0;
        Ok(())
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            self.next_block().map_err(|e| e.on(self.name))?;
        }
        let left = &self.bytes[self.at..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}
