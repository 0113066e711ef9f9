//! Files copied from one server to another, without their bytes passing here (RFC 959, section 5.2): the one listens, the other is told
//! to connect to it. Many servers refuse that, for good reasons (RFC 2577); then the bytes pass here.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haul_core::entry::{Entry, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::retry::Scope;
use haul_core::store::{Moved, Spec, WriteOutcome};

use super::change;
use super::control::{Control, command};
use super::data::Announced;
use super::features::{cannot, get};
use super::passive::plain_port;
use super::paths::{checked, join};
use super::pool::Lease;
use super::relay;
use super::reply::Reply;
use super::source::stamp;
use super::staged::arrived;
use super::store::Shared;
use haul_core::store::staging::staging_leaf;

/// Smaller files pass here: many of them share their round trips.
const LEAST: u64 = 256 << 10;
/// How long one server may take to begin, or to refuse, once the other has begun.
const BEGIN: Duration = Duration::from_secs(30);
/// How often the receiver is asked how far it has come.
const ASK: Duration = Duration::from_secs(2);
/// How long the two are listened to between two looks at how far it has come.
const TURN: Duration = Duration::from_millis(50);
/// Bytes a second of a transfer that can only be waited for.
const SLOWEST: u64 = 10_000;

const OP: &str = "copy";

/// Whether it is worth trying, where whole files alone can pass.
pub fn is_possible(from: &Shared, to: &Shared, size: u64) -> bool {
    let same = std::sync::Arc::ptr_eq(&from.pool, &to.pool);
    // Servers of a grid authenticate each other with what was delegated to them.
    let alike = from.pool.dialer.grid.is_some() == to.pool.dialer.grid.is_some();
    // Two sessions are needed, and the size of what has arrived.
    let can = |shared: &Shared| is_clear(shared) && get(&shared.features.fxp);
    size > LEAST && alike && can(from) && can(to) && !(same && to.pool.most() < 2) && !relay::is_possible(from, to)
}

/// Nothing keeps the server from exchanging data with another one than this machine.
pub fn is_clear(shared: &Shared) -> bool {
    shared.pool.dialer.tls.is_none() && !shared.pool.dialer.active
}

/// With `verify` both compute a checksum before the copy gets its name. `Ok(None)` where the servers refuse.
/// Error: `Changed` for a source that is another file than was listed; `Corrupt` if less or more arrived than was sent, or something else.
pub fn copy(
    from: &Shared,
    to: &Shared,
    entry: &Entry,
    name: &Name,
    (spec, verify): (&Spec<'_>, bool),
    moved: Moved<'_>,
) -> Result<Option<WriteOutcome>> {
    if !is_possible(from, to, entry.size) {
        return Ok(None);
    }
    let (source, target) = (from.target(&entry.name, OP)?, to.exact(name, OP)?);
    let staging = staging(checked(name, to.features.names(), OP)?, entry);
    let path = join(&to.dir(&name.dir, OP)?, &staging);
    let Some(mut pair) = Pair::take(from, to)? else { return Ok(None) };
    unchanged(&mut pair.sender, &source, entry)?;
    let begun = pair.begun(&path, entry.size)?;
    let passed = pair.pass(&source, to, &path, begun..entry.size, moved);
    if let Ok(false) = passed {
        cannot(&from.features.fxp);
        cannot(&to.features.fxp);
    }
    let landed = passed.and_then(|passed| {
        if !passed {
            return Ok(None);
        }
        unchanged(&mut pair.sender, &source, entry)?;
        let (size, landed) = to.size_and_set(&mut pair.receiver, &path, entry, spec.keep)?;
        arrived(size, entry.size, OP)?;
        if verify {
            match pair.is_same((from, &source), (to, &path), entry.size)? {
                Some(true) => {}
                Some(false) => {
                    let e = Error::new(ErrorKind::Corrupt, "verify");
                    return Err(e.because("the checksums that the two servers compute differ"));
                }
                None => return Ok(None),
            }
        }
        change::replace(&mut pair.receiver, &path, &target, OP)?;
        Ok(Some(landed))
    });
    // What has arrived is kept for the next attempt, in this run or another, unless it is wrong.
    let is_kept = landed.as_ref().is_err_and(|e| !matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Changed | ErrorKind::NotFound));
    if !is_kept && !matches!(landed, Ok(Some(_))) {
        drop(pair);
        // The error that counts is the first.
        let _ = to.pool.take().and_then(|mut session| change::remove_file(&mut session, &path, "remove"));
    }
    landed
}

/// The name under which a copy arrives. Not that of a write that passes here: what has arrived of one, an attempt that is refused must
/// not remove.
pub fn staging(leaf: &[u8], entry: &Entry) -> Vec<u8> {
    staging_leaf(leaf, Stamp { version: entry.stamp().version ^ 1, ..entry.stamp() })
}

/// The source is what was listed.
fn unchanged(session: &mut Lease, path: &[u8], entry: &Entry) -> Result<()> {
    let facts = session.look(path, false, OP)?;
    let now = stamp(&facts);
    let timed = facts.modified.is_none() || now.mtime == entry.stamp().mtime;
    if now.size == entry.size && timed {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Changed, OP).because("its size or time changed since it was listed").of_source())
}

#[derive(Debug)]
pub struct Pair {
    sender: Lease,
    receiver: Lease,
    blocks: bool,
}

/// Only one caller waits for a second session while it has a first: two could wait for each other.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TAKING: Mutex<()> = Mutex::new(()); // a lock without data
    TAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pair {
    pub fn take(from: &Shared, to: &Shared) -> Result<Option<Pair>> {
        let _alone = one_at_a_time();
        let receiver = to.pool.take()?;
        if std::sync::Arc::ptr_eq(&from.pool, &to.pool) && to.pool.most() < 2 {
            return Ok(None);
        }
        Ok(Some(Pair { sender: from.pool.take()?, receiver, blocks: false }))
    }

    /// Bytes that an interrupted attempt has left, if both servers go on in the middle of a file.
    fn begun(&mut self, path: &[u8], size: u64) -> Result<u64> {
        let [from, to] = [&self.sender, &self.receiver].map(|session| session.features.clone());
        if !get(&from.restarts_reading) || !get(&to.restarts_writing) {
            return Ok(0);
        }
        match self.receiver.look(path, false, OP) {
            Ok(facts) => Ok(facts.size.filter(|bytes| *bytes < size).unwrap_or(0)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// Whether both have the same content, by checksums; `None` where one of them computes none, which it is not asked for again.
    fn is_same(&mut self, (from, source): (&Shared, &[u8]), (to, path): (&Shared, &[u8]), size: u64) -> Result<Option<bool>> {
        let offered = to.digests();
        let Some(algorithm) = from.digests().into_iter().find(|algorithm| offered.contains(algorithm)) else { return Ok(None) };
        let Pair { sender, receiver, .. } = self;
        let scope = Scope::current();
        let (one, other) = std::thread::scope(|threads| {
            let one = threads.spawn(move || {
                let _entered = scope.enter();
                from.digest_over(&mut *sender, source, size, algorithm)
            });
            let other = to.digest_over(&mut *receiver, path, size, algorithm);
            (one.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Other, OP))), other)
        });
        match (one.map_err(Error::of_source)?, other?) {
            (Some(one), Some(other)) => Ok(Some(one == other)),
            (one, _) => {
                cannot(if one.is_none() { &from.features.computes } else { &to.features.computes });
                Ok(None)
            }
        }
    }

    /// Has both begin there. `false` where one refuses: then both begin at the start.
    fn restart(&mut self, at: u64) -> Result<bool> {
        for session in [&mut self.receiver, &mut self.sender] {
            if !session.ask("REST", at.to_string().as_bytes(), OP)?.needs_more() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has the one send the file to the other, from `at.start` on. `false` where they refuse, or cannot reach each other.
    fn pass(&mut self, source: &[u8], to: &Shared, path: &[u8], at: Range<u64>, moved: Moved<'_>) -> Result<bool> {
        self.sender.leave_blocks(OP)?;
        self.receiver.leave_blocks(OP)?;
        let watch = Watch::new(Some((to, path)), at.end);
        if !self.connect()? {
            return Ok(false);
        }
        if at.start > 0 && !self.restart(at.start)? {
            cannot(&to.features.restarts_writing);
            self.restart(0)?;
        }
        self.transfer(&command("STOR", path)?, &command("RETR", source)?, watch, moved, OP)
    }

    /// Agrees on a connection between the two. `false` where one refuses, or where they cannot reach each other.
    pub fn connect(&mut self) -> Result<bool> {
        // Through a tunnel a server has an address of this machine's, where the other would find anything else.
        let [from, into] = [&self.sender, &self.receiver].map(|session| session.control.peer.to_canonical());
        if into.is_loopback() && !from.is_loopback() {
            return Ok(false);
        }
        // Not the address that the reply names, unless the server has data nodes: it could make the other server connect to anybody.
        let Announced::Passive(at) = self.receiver.announce(OP)? else { return Ok(false) };
        let agreed = self.direct(at)?;
        if !agreed {
            self.receiver.announced = Some(Announced::Passive(at));
        }
        Ok(agreed)
    }

    /// Has the one answer `store` with what the other sends for `retrieve`. `false` where it is the connection between them that fails.
    pub fn transfer(&mut self, store: &[u8], retrieve: &[u8], mut watch: Watch<'_>, moved: Moved<'_>, op: &'static str) -> Result<bool> {
        (self.sender.busy, self.receiver.busy) = (true, true);
        self.receiver.control.send(store, op)?;
        self.sender.control.send(retrieve, op)?;
        let mut sides = [Side::default(), Side::default()];
        while sides.iter().any(|side| side.end.is_none()) {
            let pending = sides.iter().zip([&self.receiver, &self.sender]).filter(|(side, _)| side.end.is_none());
            Control::await_any(&pending.map(|(_, session)| &session.control).collect::<Vec<_>>(), TURN, op)?;
            for (side, session) in sides.iter_mut().zip([&mut self.receiver, &mut self.sender]) {
                if side.end.is_none() && session.control.has_input() {
                    side.hear(session.control.reply(op)?, &mut watch);
                }
            }
            let failed = sides.iter().any(|side| side.end.as_ref().is_some_and(|reply| !reply.is_done()));
            let begun = sides.iter().all(|side| side.begun || side.end.is_some());
            let ended = sides.iter().any(|side| side.end.is_some());
            if failed || !begun && watch.began.elapsed() > if ended { BEGIN / 6 } else { BEGIN } {
                return self.failed(sides).map(|()| false);
            }
            watch.look(begun, moved)?;
        }
        (self.sender.busy, self.receiver.busy) = (false, false);
        Ok(true)
    }

    /// Several data connections, where both servers have extended block mode (GFD.20, section 3.5).
    pub fn enter_blocks(&mut self, streams: u32) -> Result<()> {
        self.sender.leave_blocks(OP)?;
        self.receiver.leave_blocks(OP)?;
        self.blocks = true;
        for session in [&mut self.receiver, &mut self.sender] {
            // A port that was announced in stream mode serves that mode only.
            session.announced = None;
            session.ask("MODE", b"E", OP)?.done(OP)?;
        }
        self.ask_streams(streams)
    }

    /// Where it is refused, one connection carries all.
    fn ask_streams(&mut self, streams: u32) -> Result<()> {
        self.sender.ask("OPTS", format!("RETR Parallelism={streams},{streams},{streams};").as_bytes(), OP).map(drop)
    }

    /// Tells the sender whom to connect to; whether it will.
    fn direct(&mut self, address: SocketAddr) -> Result<bool> {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        if let IpAddr::V4(ip) = ip {
            return Ok(self.sender.ask("PORT", plain_port(ip, port).as_bytes(), OP)?.is_done());
        }
        Ok(self.sender.ask("EPRT", format!("|2|{ip}|{port}|").as_bytes(), OP)?.is_done())
    }

    /// `Ok` where it was the connection between the servers that failed.
    fn failed(&mut self, mut sides: [Side; 2]) -> Result<()> {
        // The other says why in its turn.
        for (side, session) in sides.iter_mut().zip([&mut self.receiver, &mut self.sender]) {
            if side.end.is_none() {
                side.end = session.control.reply_soon(Duration::from_secs(2), OP).ok().flatten().filter(|reply| !reply.is_begun());
            }
        }
        let refusal = |reply: &Reply| matches!(reply.code, 425 | 500 | 501 | 502 | 504 | 522);
        let [receiver, sender] = sides.map(|side| side.end.filter(|reply| !reply.is_done()));
        match (receiver, sender) {
            (Some(reply), _) | (_, Some(reply)) if refusal(&reply) => Ok(()),
            (_, Some(reply)) if reply.code != 426 => Err(reply.failure(OP).of_source()),
            (Some(reply), _) => Err(reply.failure(OP)),
            (None, Some(reply)) => Err(reply.failure(OP).of_source()),
            (None, None) => Ok(()),
        }
    }
}

/// Both go back to stream mode. A session that does not is closed.
impl Drop for Pair {
    fn drop(&mut self) {
        if !self.blocks {
            return;
        }
        if self.sender.is_usable() && self.ask_streams(1).is_err() {
            self.sender.control.give_up();
        }
        for session in [&mut self.receiver, &mut self.sender].into_iter().filter(|session| session.is_usable()) {
            if session.ask("MODE", b"S", OP).and_then(|reply| reply.done(OP)).is_err() {
                session.control.give_up();
            }
        }
    }
}

/// What one server has said of the transfer.
#[derive(Default)]
struct Side {
    begun: bool,
    end: Option<Reply>,
}

impl Side {
    fn hear(&mut self, reply: Reply, watch: &mut Watch<'_>) {
        if !reply.is_begun() {
            self.end = Some(reply);
            return;
        }
        self.begun = true;
        if let Some(bytes) = marked(&reply) {
            watch.marked = true;
            watch.came(bytes);
        }
    }
}

/// The bytes that a performance marker counts (GFD.20, section 6.1.2).
fn marked(reply: &Reply) -> Option<u64> {
    let text = |line: &Vec<u8>| String::from_utf8_lossy(line).trim().to_ascii_lowercase();
    let find = |line: &Vec<u8>| text(line).strip_prefix("stripe bytes transferred:")?.trim().parse().ok();
    reply.more.iter().find_map(find).filter(|_| reply.code == 112)
}

/// How far it has come, and for how long it has not come further.
pub struct Watch<'a> {
    /// Where the size of what has arrived can be asked for.
    at: Option<(&'a Shared, &'a [u8])>,
    size: u64,
    began: Instant,
    bytes: u64,
    grew: Instant,
    asked: Instant,
    /// Nobody could be asked: silence says nothing.
    blind: bool,
    /// A server says by markers how far it has come.
    marked: bool,
}

impl<'a> Watch<'a> {
    pub fn new(at: Option<(&'a Shared, &'a [u8])>, size: u64) -> Watch<'a> {
        let now = Instant::now();
        Watch { at, size, began: now, bytes: 0, grew: now, asked: now, blind: false, marked: false }
    }

    fn came(&mut self, bytes: u64) {
        if bytes > self.bytes {
            (self.bytes, self.grew) = (bytes.min(self.size), Instant::now());
        }
    }

    /// Asks the receiver, when it is time to.
    fn look(&mut self, begun: bool, moved: Moved<'_>) -> Result<()> {
        moved(self.bytes)?;
        if !begun || self.asked.elapsed() < ASK {
            return Ok(());
        }
        let seen = self.at.and_then(|(to, path)| to.pool.take_spare().and_then(|mut session| session.look(path, false, OP).ok()?.size));
        self.blind = seen.is_none() && !self.marked;
        self.came(seen.unwrap_or(0));
        if let Some((to, _)) = self.at {
            to.pool.moved();
        }
        self.asked = Instant::now();
        let patience = if self.blind { Duration::from_secs(self.size / SLOWEST) } else { Duration::ZERO };
        if self.grew.elapsed() > self.at.map_or(BEGIN, |(to, _)| to.pool.dialer.wait) + patience {
            let e = Error::new(ErrorKind::TimedOut, OP).remedy_is(Remedy::After(Duration::from_secs(1)));
            return Err(e.because(format!("nothing has passed between the servers for {} s", self.grew.elapsed().as_secs())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_count_bytes() {
        let lines = [" Timestamp:  1795454651.1", " Stripe Index: 0", " Stripe Bytes Transferred: 1048576", " Total Stripe Count: 1"];
        let more = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        let mut reply = Reply { code: 112, text: b"Perf Marker".to_vec(), more };
        assert_eq!(marked(&reply), Some(1 << 20));
        reply.code = 111;
        assert_eq!(marked(&reply), None);
    }
}
