//! Files copied from one server to another, without their bytes passing here (RFC 959, section 5.2): the one listens, the other is told
//! to connect to it. Many servers refuse that, for good reasons (RFC 2577); then the bytes pass here.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use haul_core::entry::{Entry, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::{Landed, Moved, Spec};

use super::change;
use super::control::command;
use super::data::Announced;
use super::features::{cannot, get};
use super::paths::{checked, join};
use super::pool::Lease;
use super::reply::Reply;
use super::source::stamp;
use super::store::Shared;
use crate::staging::staging_leaf;

/// Smaller files pass here: many of them share their round trips.
const LEAST: u64 = 256 << 10;
/// How long one server may take to begin, or to refuse, once the other has begun.
const BEGIN: Duration = Duration::from_secs(30);
/// How often the receiver is asked how far it has come.
const ASK: Duration = Duration::from_secs(2);
/// Data connections between two servers that have extended block mode: as many as Globus uses for large files.
const STREAMS: u32 = 4;
/// How long one server is listened to before the other.
const TURN: Duration = Duration::from_millis(50);
/// Bytes a second of a transfer that can only be waited for.
const SLOWEST: u64 = 10_000;

const OP: &str = "copy";

/// Whether it is worth trying.
pub fn is_possible(from: &Shared, to: &Shared, size: u64) -> bool {
    let clear = |shared: &Shared| shared.pool.dialer.tls.is_none() && !shared.pool.dialer.active;
    let same = std::sync::Arc::ptr_eq(&from.pool, &to.pool);
    // Servers of a grid authenticate each other with what was delegated to them.
    let alike = from.pool.dialer.grid.is_some() == to.pool.dialer.grid.is_some();
    // Two sessions are needed, and the size of what has arrived.
    size > LEAST && alike && clear(from) && clear(to) && get(&from.features.fxp) && get(&to.features.fxp) && !(same && to.pool.most() < 2)
}

/// `Ok(None)` where the servers refuse.
///
/// # Errors
///
/// `Changed` for a source that is another file than was listed; `Corrupt` if less or more arrived than was sent.
pub fn copy(from: &Shared, to: &Shared, entry: &Entry, name: &Name, spec: &Spec<'_>, moved: Moved<'_>) -> Result<Option<Landed>> {
    if !is_possible(from, to, entry.size) {
        return Ok(None);
    }
    let (source, target) = (from.target(&entry.name, OP)?, to.target(name, OP)?);
    // Not the name of a write that passes here: what has arrived of one, an attempt that is refused must not remove.
    let own = Stamp { version: entry.stamp().version ^ 1, ..entry.stamp() };
    let staging = staging_leaf(checked(name, to.features.names(), OP)?, own);
    let path = join(&to.dir(&name.dir, OP)?, &staging);
    let Some(mut pair) = Pair::take(from, to)? else { return Ok(None) };
    unchanged(&mut pair.sender, &source, entry)?;
    let passed = pair.pass(&source, to, &path, entry.size, moved);
    if let Ok(false) = passed {
        cannot(&from.features.fxp);
        cannot(&to.features.fxp);
    }
    let landed = passed.and_then(|passed| {
        if !passed {
            return Ok(None);
        }
        unchanged(&mut pair.sender, &source, entry)?;
        let size = pair.receiver.look(&path, false, OP)?.size;
        if size != Some(entry.size) {
            let has = size.map_or("an unknown number of".to_string(), |size| size.to_string());
            return Err(Error::new(ErrorKind::Corrupt, OP).because(format!("the server has {has} bytes of {}", entry.size)));
        }
        let landed = to.set_at(&mut pair.receiver, &path, entry, spec.keep)?;
        change::replace(&mut pair.receiver, &path, &target, OP)?;
        Ok(Some(landed))
    });
    if !matches!(landed, Ok(Some(_))) {
        drop(pair);
        // The error that counts is the first.
        let _ = to.pool.take().and_then(|mut session| change::remove_file(&mut session, &path, "remove"));
    }
    landed
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

/// A session with each of the two servers.
struct Pair {
    sender: Lease,
    receiver: Lease,
}

/// Only one caller waits for a second session while it has a first: two could wait for each other.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TAKING: Mutex<()> = Mutex::new(()); // a lock without data
    TAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pair {
    fn take(from: &Shared, to: &Shared) -> Result<Option<Pair>> {
        let _alone = one_at_a_time();
        let receiver = to.pool.take()?;
        if std::sync::Arc::ptr_eq(&from.pool, &to.pool) && to.pool.most() < 2 {
            return Ok(None);
        }
        Ok(Some(Pair { sender: from.pool.take()?, receiver }))
    }

    /// Has the one send the file to the other. `false` where they refuse, or cannot reach each other.
    fn pass(&mut self, source: &[u8], to: &Shared, path: &[u8], size: u64, moved: Moved<'_>) -> Result<bool> {
        // Through a tunnel a server has an address of this machine's, where the other would find anything else.
        let [from, into] = [&self.sender, &self.receiver].map(|session| session.control.peer.to_canonical());
        if into.is_loopback() && !from.is_loopback() {
            return Ok(false);
        }
        let blocks = self.enter_blocks(to)?;
        let Announced::Passive(port) = self.receiver.announce(OP)? else { return Ok(false) };
        // Never the address that the reply names: it could make the other server connect to anybody.
        if !self.direct(SocketAddr::new(self.receiver.control.peer, port))? {
            self.receiver.announced = Some(Announced::Passive(port));
            return self.leave_blocks(blocks).map(|()| false);
        }
        (self.sender.busy, self.receiver.busy) = (true, true);
        self.receiver.control.send(&command("STOR", path)?, OP)?;
        self.sender.control.send(&command("RETR", source)?, OP)?;
        let mut sides = [Side::default(), Side::default()];
        let mut watch = Watch::new(to, path, size);
        while sides.iter().any(|side| side.end.is_none()) {
            for (side, session) in sides.iter_mut().zip([&mut self.receiver, &mut self.sender]) {
                if let (None, Some(reply)) = (&side.end, session.control.reply_soon(TURN, OP)?) {
                    side.hear(reply, &mut watch);
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
        self.leave_blocks(blocks)?;
        (self.sender.busy, self.receiver.busy) = (false, false);
        Ok(true)
    }

    /// Several data connections, where both servers have extended block mode (GFD.20, section 3.5).
    fn enter_blocks(&mut self, to: &Shared) -> Result<bool> {
        self.sender.leave_blocks(OP)?;
        self.receiver.leave_blocks(OP)?;
        if !get(&to.features.extended_blocks) || !get(&self.sender.features.extended_blocks) {
            return Ok(false);
        }
        for session in [&mut self.receiver, &mut self.sender] {
            // A port that was announced in stream mode serves that mode only.
            session.announced = None;
            session.ask("MODE", b"E", OP)?.done(OP).inspect_err(|_| session.control.give_up())?;
        }
        // Where it is refused, one connection carries all.
        self.sender.ask("OPTS", format!("RETR Parallelism={STREAMS},{STREAMS},{STREAMS};").as_bytes(), OP)?;
        Ok(true)
    }

    fn leave_blocks(&mut self, blocks: bool) -> Result<()> {
        for session in [&mut self.receiver, &mut self.sender].into_iter().filter(|_| blocks) {
            session.ask("MODE", b"S", OP)?.done(OP).inspect_err(|_| session.control.give_up())?;
        }
        Ok(())
    }

    /// Tells the sender whom to connect to; whether it will.
    fn direct(&mut self, address: SocketAddr) -> Result<bool> {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        if let IpAddr::V4(ip) = ip {
            let [a, b, c, d] = ip.octets();
            let short = format!("{a},{b},{c},{d},{},{}", port >> 8, port & 255);
            return Ok(self.sender.ask("PORT", short.as_bytes(), OP)?.is_done());
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
struct Watch<'a> {
    to: &'a Shared,
    path: &'a [u8],
    size: u64,
    began: Instant,
    bytes: u64,
    grew: Instant,
    asked: Instant,
    /// Nobody could be asked: silence says nothing.
    blind: bool,
}

impl<'a> Watch<'a> {
    fn new(to: &'a Shared, path: &'a [u8], size: u64) -> Watch<'a> {
        let now = Instant::now();
        Watch { to, path, size, began: now, bytes: 0, grew: now, asked: now, blind: false }
    }

    fn came(&mut self, bytes: u64) {
        if bytes > self.bytes {
            (self.bytes, self.grew) = (bytes.min(self.size), Instant::now());
        }
    }

    /// Asks the receiver, when it is time to.
    fn look(&mut self, begun: bool, moved: Moved<'_>) -> Result<()> {
        (moved.0)(self.bytes)?;
        if !begun || self.asked.elapsed() < ASK {
            return Ok(());
        }
        let seen = self.to.pool.take_idle().and_then(|mut session| session.look(self.path, false, OP).ok()?.size);
        self.blind = seen.is_none();
        self.came(seen.unwrap_or(0));
        self.to.pool.moved();
        self.asked = Instant::now();
        let patience = if self.blind { Duration::from_secs(self.size / SLOWEST) } else { Duration::ZERO };
        if self.grew.elapsed() > self.to.pool.dialer.wait + patience {
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
