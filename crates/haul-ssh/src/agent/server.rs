//! The remote end: a haul that serves the requests of another one on its own file systems.
//!
//! ```text
//! links (frames come, answers go)  ->  pool of threads  ->  perform (this folder)  ->  Local
//! ```
//!
//! It lives as long as the link on its standard input; further links join it through a socket or come over TCP. It
//! keeps no state that matters: what was written and not committed is found again by its token.

mod account;
mod bundles;
mod confined;
mod content;
mod data;
mod files;
mod heard;
mod join;
mod listing;
mod log;
mod made;
mod names;
mod perform;
mod pool;
mod pull;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::entry::Dir;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;
use rustix::fd::OwnedFd;

use heard::{Heard, Noting};

use super::compress::{self, Compressing};
use super::direct::addresses;
use super::frame::{Frame, Input, LONGEST, Output, Plain, head, kind, length};
use super::link::{HEARTBEAT, PARTS_AHEAD};
use super::measure::Measuring;
use super::ops;
use super::site::Site;
use super::tls::Identity;
use super::wire::{Writer, protocol_error};
use crate::bounded::Bounded;
use haul_core::lock::lock;
use haul_local::Local;

pub use confined::Confined;
pub use join::join;
#[cfg(test)]
pub(super) use names::Names;

const THREADS: usize = 256;
/// Bytes of requests, and of answers to reads, that are held at a time over all links.
const ROOM: u64 = 48 << 20;
/// A link that accepts nothing for so long has lost its other end.
const ABANDONED: Duration = Duration::from_secs(3600);
/// A client that has given no sign of life for so long is gone: it sends a heartbeat every `HEARTBEAT`. With the time until that
/// is noticed the process leaves within two minutes.
pub const SILENCE: Duration = Duration::from_secs(100);
/// Directories of one root that are remembered by their path.
const DIRS: usize = 4096;

#[derive(Clone, Debug)]
pub struct Options {
    /// For measurements from another host.
    pub measuring: Arc<dyn Measuring>,
    /// The mask of the user's shell; the process itself has none.
    pub umask: u32,
    /// The directory to which clients are confined.
    pub confined: Option<Arc<Confined>>,
    pub site: Site,
    /// The version of this program, for messages.
    pub version: &'static str,
    /// How long the client may give no sign of life; [`SILENCE`].
    pub silence: Duration,
    /// How long a port waits for connections; [`LISTENING`](super::direct::LISTENING).
    pub listening: Duration,
    /// Ends the process once its client was silent for too long: its threads may be stuck in reads and system calls.
    pub abandoned: fn(),
}

/// One run of the agent.
pub(super) struct Agent {
    options: Options,
    roots: Mutex<HashMap<u64, Arc<Root>>>,
    files: files::Files,
    pool: pool::Pool,
    room: Mutex<u64>,
    freed: Condvar,
    peers: Mutex<Vec<Arc<Peer>>>,
    home: PathBuf,
    heard: Arc<Heard>,
    /// Links that are not read because there is no room: what they would say is not heard.
    deaf: AtomicUsize,
    joining: join::Joining,
    data: data::Data,
    /// The key of this end of data connections.
    identity: Option<Identity>,
    log: log::Log,
    /// `SSH_CONNECTION`; empty where ssh has not set it.
    connection: String,
    linked_peers: pull::LinkedPeers,
    account: account::Account,
    /// Answers are compressed where that helps.
    compress: Arc<AtomicBool>,
}

/// A directory that was opened, and the directories below it that were named.
pub(super) struct Root {
    pub store: Arc<dyn Store>,
    /// `store`, where it is a directory of the file system.
    pub local: Option<Arc<Local>>,
    /// Below the directory to which the agent is confined.
    pub confined: bool,
    dirs: Mutex<HashMap<Vec<u8>, Dir>>,
}

impl Root {
    pub fn new(store: Local, confined: bool) -> Root {
        let local = Arc::new(store);
        Root { store: local.clone(), local: Some(local), confined, dirs: Mutex::default() }
    }

    /// Passes on whether links are to be followed, which could lead out.
    pub fn may_follow(&self, follow: bool) -> Result<bool> {
        if follow && self.confined { Err(confined::refuse_links()) } else { Ok(follow) }
    }

    pub fn made_up(store: Arc<dyn Store>) -> Root {
        Root { store, local: None, confined: false, dirs: Mutex::default() }
    }

    /// The node of a path below the root; each part is checked.
    pub fn dir(&self, path: &[u8]) -> Result<Dir> {
        let mut dirs = lock(&self.dirs);
        if let Some(dir) = dirs.get(path) {
            return Ok(dir.clone());
        }
        if dirs.len() >= DIRS {
            for dir in dirs.values() {
                self.store.extensions().system.forget(dir);
            }
            dirs.clear();
        }
        let mut dir = Dir::root();
        let mut end = 0;
        if let Some(root) = dirs.get(&b""[..]) {
            dir = root.clone();
        } else {
            dirs.insert(Vec::new(), dir.clone());
        }
        if path.is_empty() {
            return Ok(dir);
        }
        for part in path.split(|byte| *byte == b'/') {
            haul_core::entry::check_leaf(part).map_err(|reason| Error::new(ErrorKind::BadName, "open").at(path).because(reason))?;
            end += part.len() + usize::from(end > 0);
            dir = match dirs.get(&path[..end]) {
                Some(known) => known.clone(),
                None => {
                    let child = dir.child(part);
                    dirs.insert(path[..end].to_vec(), child.clone());
                    child
                }
            };
        }
        Ok(dir)
    }

    pub fn forget(&self, path: &[u8]) {
        if let Some(dir) = lock(&self.dirs).remove(path) {
            self.store.extensions().system.forget(&dir);
        }
    }
}

pub(super) struct Peer {
    output: Mutex<Box<dyn Output>>,
    /// Answers of many parts: how many more may be sent, or that they were cancelled.
    credits: Mutex<HashMap<u32, Credit>>,
    earned: Condvar,
    over: Arc<AtomicBool>,
    /// Another remote host, which may read open files and nothing else.
    reader: bool,
}

#[derive(Clone, Copy, Debug)]
struct Credit {
    parts: u64,
    cancelled: bool,
}

pub(super) struct Reply<'a> {
    /// The thread that answers is one of its.
    agent: &'a Arc<Agent>,
    peer: &'a Peer,
    id: u32,
    /// Time spent in sending, and in waiting until the other end accepted more.
    sending: Cell<Duration>,
}

impl<'a> Reply<'a> {
    fn new(agent: &'a Arc<Agent>, peer: &'a Peer, id: u32) -> Self {
        Reply { agent, peer, id, sending: Cell::default() }
    }

    fn send(&self, kind: u8, parts: &[&[u8]]) {
        if length(parts) > LONGEST {
            let mut to = Writer::default();
            to.error(&Error::new(ErrorKind::Unsupported, "answer").because("the attributes are too many for one answer"));
            return self.send(kind::FAILED, &[&to.out]);
        }
        let began = Instant::now();
        if lock(&self.peer.output).send(head(kind, self.id), parts).is_err() {
            // The reader of this link finds out and ends it.
            self.peer.over.store(true, Ordering::Relaxed);
        }
        self.sending.set(self.sending.get() + began.elapsed());
    }

    pub fn done(&self, parts: &[&[u8]]) {
        self.send(kind::DONE, parts);
    }

    /// Sends a part of the answer as soon as one more may be sent; `false` if it was cancelled.
    pub fn more(&self, part: &[u8]) -> bool {
        let (began, mut stepped_out) = (Instant::now(), false);
        let mut credits = lock(&self.peer.credits);
        let may = loop {
            if let Some(may) = self.may_send(&mut credits) {
                break may;
            }
            if stepped_out {
                credits = self.peer.earned.wait_timeout(credits, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                drop(credits);
                self.agent.step_out();
                stepped_out = true;
                credits = lock(&self.peer.credits);
            }
        };
        drop(credits);
        if stepped_out {
            self.agent.step_in();
        }
        self.sending.set(self.sending.get() + began.elapsed());
        if may {
            self.send(kind::MORE, &[part]);
        }
        may
    }

    /// Whether one more part may go, or never again; `None` while neither is known.
    fn may_send(&self, credits: &mut HashMap<u32, Credit>) -> Option<bool> {
        let Some(credit) = credits.get_mut(&self.id) else { return Some(false) };
        if credit.cancelled || self.peer.over.load(Ordering::Relaxed) {
            return Some(false);
        }
        if credit.parts == 0 {
            return None;
        }
        credit.parts -= 1;
        Some(true)
    }
}

fn in_parts(kind: u8) -> bool {
    matches!(kind, ops::LIST | ops::SIGNATURE)
}

/// Serves what comes on standard input until it ends.
pub fn serve(input: OwnedFd, output: OwnedFd, options: Options) -> Result<()> {
    // Further sessions of a confined login would start agents of their own, under the command that is forced on them.
    let joining = if options.confined.is_some() { join::Joining::default() } else { join::Joining::new() };
    let agent = Agent::new(options, THREADS, joining, log::Log::open());
    agent.joining.listen(&agent);
    agent.log.line(agent.beginning());
    let beat = agent.clone();
    std::thread::Builder::new().name("pulse".into()).spawn(move || beat.pulse()).map_err(haul_core::rlimit::no_thread)?;
    let served = agent.serve_fds(input, output);
    agent.joining.close();
    agent.log.line(agent.end("the client ended"));
    served
}

impl Agent {
    /// `threads` at the most do what is asked.
    fn new(options: Options, threads: usize, joining: join::Joining, log: log::Log) -> Arc<Agent> {
        let home = std::env::var_os("HOME").filter(|_| options.confined.is_none());
        Arc::new(Agent {
            home: home.map_or_else(|| PathBuf::from("/"), PathBuf::from),
            options,
            roots: Mutex::default(),
            files: files::Files::default(),
            pool: pool::Pool::new(threads),
            room: Mutex::new(ROOM),
            freed: Condvar::new(),
            peers: Mutex::default(),
            heard: Arc::new(Heard::new()),
            deaf: AtomicUsize::new(0),
            joining,
            data: data::Data::default(),
            identity: Identity::new().ok(),
            log,
            connection: std::env::var("SSH_CONNECTION").unwrap_or_default(),
            linked_peers: pull::LinkedPeers::default(),
            account: account::Account::default(),
            compress: Arc::default(),
        })
    }

    /// For the log: who is served what.
    fn beginning(&self) -> String {
        let (version, uid) = (self.options.version, rustix::process::getuid().as_raw());
        let client = addresses(&self.connection).map_or_else(|| "an unknown address".to_string(), |(client, _)| client.to_string());
        let what = match &self.options.confined {
            None => String::new(),
            Some(confined) => format!(", confined to {confined}"),
        };
        format!("agent {version} began: uid {uid} from {client}{what}")
    }

    fn end(&self, why: &str) -> String {
        format!("agent ended after {} s: {why}", self.heard.age().as_secs())
    }

    /// One link over two descriptors, greeted; comes back when it ends.
    fn serve_fds(self: &Arc<Self>, input: OwnedFd, output: OwnedFd) -> Result<()> {
        let over = Arc::new(AtomicBool::new(false));
        let mut output = Bounded::new(output, ABANDONED, over.clone()).map_err(|e| Error::io(e, "start"))?;
        std::io::Write::write_all(&mut output, ops::MAGIC).map_err(|e| Error::io(e, "greet"))?;
        // It may be one with the output, which does not block.
        let input = Bounded::new(input, Duration::MAX, over.clone()).map_err(|e| Error::io(e, "start"))?;
        let input = std::io::BufReader::with_capacity(256 << 10, Noting(input, self.heard.clone()));
        self.serve_link(Box::new(Plain(output)), &mut Plain(input), over, false)
    }

    /// One link; comes back when it ends.
    pub(super) fn serve_link(
        self: &Arc<Self>,
        output: Box<dyn Output>,
        input: &mut dyn Input,
        over: Arc<AtomicBool>,
        reader: bool,
    ) -> Result<()> {
        let output: Box<dyn Output> = Box::new(Compressing::new(output, self.compress.clone()));
        let peer = Arc::new(Peer { output: Mutex::new(output), credits: Mutex::default(), earned: Condvar::new(), over, reader });
        lock(&self.peers).push(peer.clone());
        let ended = self.take_all(&peer, input);
        peer.over.store(true, Ordering::Relaxed);
        peer.earned.notify_all();
        lock(&self.peers).retain(|other| !Arc::ptr_eq(other, &peer));
        ended
    }

    fn take_all(self: &Arc<Self>, peer: &Arc<Peer>, input: &mut dyn Input) -> Result<()> {
        while let Some(frame) = input.receive()?.map(compress::open).transpose()? {
            self.heard.note();
            match frame.kind {
                kind::HEARTBEAT => {}
                kind::CREDIT => {
                    let parts: u64 = frame.body().get()?;
                    if let Some(credit) = lock(&peer.credits).get_mut(&frame.id) {
                        credit.parts = credit.parts.saturating_add(parts);
                    }
                    peer.earned.notify_all();
                }
                kind::CANCEL => {
                    if let Some(credit) = lock(&peer.credits).get_mut(&frame.id) {
                        credit.cancelled = true;
                    }
                    peer.earned.notify_all();
                }
                other if peer.reader && other != ops::READ => return Err(protocol_error("a request that is not allowed here")),
                ops::HELLO.. => {
                    if in_parts(frame.kind) {
                        lock(&peer.credits).insert(frame.id, Credit { parts: PARTS_AHEAD, cancelled: false });
                    }
                    let room = self.reserve(&frame)?;
                    // What opens a file is known before what uses it, which may be right behind.
                    self.files.expect(&frame)?;
                    self.dispatch(pool::Job { peer: peer.clone(), frame, room });
                }
                _ => return Err(protocol_error("a frame of an unknown kind")),
            }
        }
        Ok(())
    }

    /// Waits until there is room for a request and its answer.
    fn reserve(&self, frame: &Frame) -> Result<u64> {
        let answer = match frame.kind {
            ops::READ => {
                let mut from = frame.body();
                let (_file, at) = (from.get::<u64>()?, from.range()?);
                at.end - at.start
            }
            ops::GET_BUNDLE => 1 << 20,
            _ => 0,
        };
        let wanted = (frame.body().0.len() as u64 + answer).min(ROOM);
        let mut room = lock(&self.room);
        self.deaf.fetch_add(1, Ordering::Relaxed);
        while *room < wanted {
            room = self.freed.wait_timeout(room, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner).0;
        }
        *room -= wanted;
        self.heard.note();
        self.deaf.fetch_sub(1, Ordering::Relaxed);
        Ok(wanted)
    }

    /// Sends heartbeats on every link, and ends the process when its client was silent for too long.
    fn pulse(&self) {
        loop {
            std::thread::sleep(self.options.silence.min(HEARTBEAT));
            self.beat();
            self.data.end_silent();
            if self.is_abandoned() {
                self.joining.close();
                self.log.line(self.end("the client gives no sign of life"));
                return (self.options.abandoned)();
            }
        }
    }

    fn is_abandoned(&self) -> bool {
        // Where a link is not read, its client may be alive; the disk may be slow.
        let most = if self.deaf.load(Ordering::Relaxed) > 0 { ABANDONED } else { self.options.silence };
        self.heard.silence() > most
    }

    /// One heartbeat on each link that accepts one now. A link that is full needs none: its data is the heartbeat.
    fn beat(&self) {
        let peers: Vec<Arc<Peer>> = lock(&self.peers).clone();
        for peer in peers {
            if let Ok(mut output) = peer.output.try_lock()
                && output.is_ready()
                && output.send(head(kind::HEARTBEAT, 0), &[]).is_err()
            {
                peer.over.store(true, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn root(&self, number: u64) -> Result<Arc<Root>> {
        lock(&self.roots).get(&number).cloned().ok_or_else(|| protocol_error("a root that was not opened"))
    }
}
