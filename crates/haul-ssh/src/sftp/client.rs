//! Requests to a server and their answers as values, over several channels to the same server.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::channel::{Answer, Batch, Channel, Extensions, Ticket};
use super::channels::Channels;
use super::packet::{Attrs, kind, protocol_error, status};
use super::traffic::Traffic;
use haul_core::lock::lock;

pub type Connect = dyn Fn() -> Result<Channel> + Send + Sync;

pub type Handle = Vec<u8>;

/// One server, and what is known of it.
pub struct Client {
    pub(super) channels: Channels,
    pub(super) traffic: Arc<Traffic>,
    /// Channels of one large file, where that was set; else 0.
    pub(super) fixed: AtomicUsize,
    /// Bundles in flight, each of which has at least one handle open.
    bundles: Mutex<usize>,
    fewer: Condvar,
    /// See [`Client::in_order`].
    ordered: AtomicBool,
    /// Where paths without a slash in front begin.
    pub home: Vec<u8>,
    pub extensions: Extensions,
    pub round_trip: Duration,
    pub read_most: usize,
    pub write_most: usize,
}

/// The operation that fails where a server does not say where the user is at home.
pub(super) const FIND_HOME: &str = "find the home directory";
/// Every server accepts this: section 3 of the draft requires packets of 34,000 bytes.
const BLOCK: usize = 32 << 10;
/// How long others may need to close a file.
pub(super) const FOR_A_HANDLE: Duration = Duration::from_millis(50);
/// More than this in one request gains nothing.
const BLOCK_MOST: usize = 255 << 10;
/// Bundles at a time: forty files each, in one channel at the worst.
const BUNDLES: usize = 16;
/// ESPIPE in the words of Go's and of C's libraries; SFTP has no code for it.
const ILLEGAL_SEEK: &str = "llegal seek";

impl Client {
    /// Connects once; further channels, up to `most`, come when asked for.
    pub fn new(connect: Box<Connect>, most: usize) -> Result<Client> {
        let first = connect()?;
        let extensions = first.extensions.clone();
        // The greeting has the start of programs and a login in it.
        let asked = Instant::now();
        let mut batch = first.batch();
        let home = batch.push(kind::REALPATH, |r| r.bytes(b"."));
        let limits = extensions.limits.then(|| batch.push(kind::EXTENDED, |r| r.bytes(b"limits@openssh.com")));
        batch.send()?;
        let home = first.wait(&home)?;
        let round_trip = asked.elapsed();
        let home = real_path(&home, FIND_HOME)?;
        let (mut read_most, mut write_most) = (BLOCK, BLOCK);
        if let Some(limits) = limits {
            let answer = first.wait(&limits)?;
            let mut from = reply(&answer)?;
            let (_packet, read, write) = (from.long()?, from.long()?, from.long()?);
            if let Some(handles) = from.long().ok().filter(|handles| *handles > 0) {
                first.allow_handles(usize::try_from(handles).unwrap_or(usize::MAX));
            }
            // Zero means that there is no limit, not that nothing can be read.
            let limit = |n: u64| if n == 0 { BLOCK } else { usize::try_from(n).unwrap_or(BLOCK).clamp(1024, BLOCK_MOST) };
            (read_most, write_most) = (limit(read), limit(write));
        }
        Ok(Client {
            channels: Channels::new(connect, first, if extensions.single { 1 } else { most }),
            traffic: Arc::new(Traffic::new()),
            fixed: AtomicUsize::new(0),
            bundles: Mutex::new(0),
            fewer: Condvar::new(),
            ordered: AtomicBool::new(false),
            home,
            extensions,
            round_trip,
            read_most,
            write_most,
        })
    }

    /// The channel with the least to do.
    pub fn channel(&self) -> Result<Arc<Channel>> {
        self.channels.least()
    }

    /// Waits until few enough bundles are in flight. Dropping the permit ends the bundle.
    pub fn bundle(&self, channel: &Channel) -> BundlePermit<'_> {
        let mut count = lock(&self.bundles);
        while *count >= BUNDLES.min(channel.handles_most() / 2).max(1) {
            count = self.fewer.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        *count += 1;
        BundlePermit(self)
    }

    /// Has `run` open, use and close a handle for each of `things`: as many at a time as the server allows. It returns those whose handle
    /// the server refused without a reason, which may be that too many were open: they are opened again with fewer beside them. What comes
    /// back could not be opened at all.
    pub fn by_handles<T>(
        &self,
        channel: &Arc<Channel>,
        mut things: Vec<T>,
        mut run: impl FnMut(Vec<T>) -> Vec<(T, Error)>,
    ) -> Vec<(T, Error)> {
        let (mut at_once, mut were_many, mut waits) = (usize::MAX, false, 4);
        loop {
            let (mut refused, mut used, count) = (Vec::new(), 1, things.len());
            while !things.is_empty() {
                let held = channel.hold(things.len().min(at_once));
                used = used.max(held.count);
                refused.extend(run(things.drain(..held.count).collect()));
            }
            if were_many && refused.len() < count {
                self.channels.allow_handles(at_once);
            }
            if refused.len() == count && waits > 0 && !channel.is_over() {
                // Others may have all handles.
                waits -= 1;
                std::thread::sleep(FOR_A_HANDLE);
            } else if refused.is_empty() || refused.len() == count || channel.is_over() {
                return refused;
            }
            were_many = refused.len() > count / 4;
            at_once = (used / 2).max(1);
            things = refused.into_iter().map(|(thing, _)| thing).collect();
        }
    }

    /// Whether the server takes the bytes of a file only from the first to the last: it has refused others. A request is then sent
    /// when the one before it is answered, as servers of this kind carry out several at the same time.
    pub fn in_order(&self) -> bool {
        self.ordered.load(Ordering::Relaxed)
    }

    /// Whether opening a file to write into it is known to leave alone what is in it. `rclone serve sftp` empties it, or makes an
    /// empty one when that handle is closed; only servers with files behind their handles offer to sync one.
    pub fn opens_intact(&self) -> bool {
        self.extensions.fsync
    }

    /// What became of a write: the first refusal because of its place in the file says how to go on, in a file opened anew.
    /// `rclone serve sftp` without a cache is such a server (its `WriteFileHandle.writeAt` answers ESPIPE).
    pub fn written(&self, done: Result<()>) -> Result<()> {
        done.map_err(|e| {
            if !(is_unexplained(&e) && e.reason().ends_with(ILLEGAL_SEEK)) {
                return e;
            }
            self.ordered.store(true, Ordering::Relaxed);
            e.remedy_is(Remedy::Reopen)
        })
    }

    /// Counts bytes of a file whose request was answered.
    pub fn carried(&self, bytes: u64) {
        self.traffic.carried(bytes, self.round_trip, &self.channels);
    }

    /// How many channels one large file gains from: OpenSSH allows 2 MiB in flight in each.
    pub fn stripes(&self) -> usize {
        match self.fixed.load(Ordering::Relaxed) {
            0 => {}
            fixed => return fixed,
        }
        let in_first = match self.round_trip.as_millis() {
            0 => 1,
            1..5 => 2,
            5..20 => 4,
            _ => 8,
        };
        in_first + self.traffic.added()
    }
}

/// See [`Client::bundle`].
pub struct BundlePermit<'a>(&'a Client);

impl Drop for BundlePermit<'_> {
    fn drop(&mut self) {
        *lock(&self.0.bundles) -= 1;
        self.0.fewer.notify_one();
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("extensions", &self.extensions).field("round_trip", &self.round_trip).finish_non_exhaustive()
    }
}

/// Requests of one kind for many things, all in flight at once; their answers in order.
pub fn ask_all<T>(channel: &Channel, things: &[T], mut request: impl FnMut(&mut Batch<'_>, &T) -> Ticket) -> Vec<Result<Answer>> {
    let mut answers = Vec::with_capacity(things.len());
    // So many at a time that neither side has to hold more than a few hundred kB of requests.
    for part in things.chunks(256) {
        let mut batch = channel.batch();
        let tickets: Vec<Ticket> = part.iter().map(|thing| request(&mut batch, thing)).collect();
        // What could not be sent is answered with the reason.
        let _ = batch.send();
        answers.extend(tickets.into_iter().map(|ticket| channel.wait(&ticket)));
    }
    answers
}

/// The body of an answer that is no status.
fn expect<'a>(answer: &'a Answer, wanted: u8, op: &'static str) -> Result<super::packet::Parser<'a>> {
    if answer.kind == wanted {
        return Ok(answer.body());
    }
    done(answer, op)?;
    Err(protocol_error("success without data"))
}

pub fn reply(answer: &Answer) -> Result<super::packet::Parser<'_>> {
    expect(answer, kind::EXTENDED_REPLY, "ask")
}

pub fn handle(answer: &Answer, op: &'static str) -> Result<Handle> {
    let handle = expect(answer, kind::HANDLE, op)?.bytes()?;
    if handle.len() > 256 { Err(protocol_error("a handle that is too long")) } else { Ok(handle.to_vec()) }
}

pub fn attrs(answer: &Answer, op: &'static str) -> Result<Attrs> {
    expect(answer, kind::ATTRS, op)?.attrs()
}

/// `None` at the end of the file.
pub fn data<'a>(answer: &'a Answer, op: &'static str) -> Result<Option<&'a [u8]>> {
    if answer.kind == kind::STATUS && answer.body().number()? == status::EOF {
        return Ok(None);
    }
    expect(answer, kind::DATA, op)?.bytes().map(Some)
}

pub type Listed = (Vec<u8>, Attrs);

/// `None` at the end of the directory.
pub fn names(answer: &Answer, op: &'static str) -> Result<Option<Vec<Listed>>> {
    if answer.kind == kind::STATUS && answer.body().number()? == status::EOF {
        return Ok(None);
    }
    let mut from = expect(answer, kind::NAME, op)?;
    let count = from.number()?;
    let mut names = Vec::new();
    for _ in 0..count {
        let name = from.bytes()?.to_vec();
        from.bytes()?; // as `ls -l` would show it
        names.push((name, from.attrs()?));
    }
    Ok(Some(names))
}

pub fn one_name(answer: &Answer, op: &'static str) -> Result<Vec<u8>> {
    match names(answer, op)?.and_then(|mut names| names.pop()) {
        Some((name, _)) => Ok(name),
        None => Err(protocol_error("no name")),
    }
}

/// The path that the server makes of one.
pub fn real_path(answer: &Answer, op: &'static str) -> Result<Vec<u8>> {
    match one_name(answer, op)? {
        path if path.is_empty() || path.contains(&0) => Err(protocol_error("an invalid path")),
        path => Ok(path),
    }
}

/// The answer to a request that returns nothing.
pub fn done(answer: &Answer, op: &'static str) -> Result<()> {
    if answer.kind != kind::STATUS {
        return Err(protocol_error("an answer of an unexpected kind"));
    }
    let mut from = answer.body();
    let code = from.number()?;
    let (kind, reason) = match code {
        status::OK => return Ok(()),
        status::NO_SUCH_FILE => (ErrorKind::NotFound, "No such file or directory"),
        status::PERMISSION_DENIED => (ErrorKind::Denied, "Permission denied"),
        status::UNSUPPORTED => (ErrorKind::Unsupported, "the server cannot do that"),
        status::EOF => (ErrorKind::Changed, "the end of the file came early"),
        // OpenSSH's answer to a name that is too long.
        status::BAD_MESSAGE => (ErrorKind::BadName, "the server does not accept the name"),
        status::NO_CONNECTION | status::CONNECTION_LOST => (ErrorKind::Broken, "the server has lost its connection"),
        // Of later versions; some servers send them to a client of version 3, too.
        status::NO_SUCH_PATH | status::NOT_A_DIRECTORY => (ErrorKind::NotFound, "No such file or directory"),
        status::FILE_EXISTS | status::DIR_NOT_EMPTY => (ErrorKind::Exists, "File exists"),
        status::WRITE_PROTECT => (ErrorKind::ReadOnly, "Read-only file system"),
        status::NO_SPACE => (ErrorKind::NoSpace, "No space left on device"),
        status::QUOTA => (ErrorKind::Quota, "Disk quota exceeded"),
        status::INVALID_NAME => (ErrorKind::BadName, "the server does not accept the name"),
        status::FAILURE => (ErrorKind::Other, "the server failed without a reason"),
        _ => (ErrorKind::Other, "the server failed in a way that SFTP 3 does not know"),
    };
    let message = from.bytes().map(|words| String::from_utf8_lossy(words).trim().to_string()).unwrap_or_default();
    // "Failure" adds nothing to the code.
    let plain = matches!(code, status::NO_SUCH_FILE | status::PERMISSION_DENIED | status::BAD_MESSAGE)
        || message.is_empty()
        || message == "Failure";
    let remedy = match code {
        // It may pass: nothing is known of it.
        status::FAILURE if plain => Remedy::Reopen,
        status::NO_CONNECTION | status::CONNECTION_LOST => Remedy::Reconnect,
        _ => Remedy::None,
    };
    Err(Error::new(kind, op).because(if plain { reason.to_string() } else { message }).remedy_is(remedy))
}

/// Whether a failure is the one that SFTP does not explain.
pub fn is_unexplained(error: &Error) -> bool {
    error.kind() == ErrorKind::Other
}

/// Whether a creation may have failed because the name is taken: the protocol has no code for that, and servers use
/// several.
pub fn may_exist(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Other | ErrorKind::Denied | ErrorKind::Exists)
}

/// An entry from the attributes of SFTP 3: no inode, no number of links, no nanoseconds.
pub fn entry(name: Name, attrs: &Attrs) -> Entry {
    let mut entry = Entry::bare(name, attrs.kind());
    if entry.kind == Kind::Unknown {
        return entry;
    }
    fill(&mut entry, attrs);
    entry
}

pub fn fill(entry: &mut Entry, attrs: &Attrs) {
    entry.kind = attrs.kind();
    entry.have = MetaMask::BASIC;
    if entry.kind == Kind::File {
        entry.size = attrs.size.unwrap_or(0);
        entry.stored = entry.size;
    } else {
        entry.size = 0;
    }
    entry.mtime = attrs.mtime();
    if attrs.has_mtime() {
        entry.have = entry.have.with(MetaMask::MTIME);
    }
    if let Some(mode) = attrs.mode {
        // Without an owner setuid and setgid have no meaning.
        let special = if attrs.owner.is_some() { 0o7000 } else { 0o1000 };
        entry.mode = mode & (0o777 | special);
        entry.have = entry.have.with(MetaMask::MODE).with(if attrs.owner.is_some() { MetaMask::SETID } else { MetaMask::NONE });
    }
    if let Some((uid, gid)) = attrs.owner {
        (entry.uid, entry.gid) = (uid, gid);
        entry.have = entry.have.with(MetaMask::OWNER).with(MetaMask::GROUP);
    }
}
