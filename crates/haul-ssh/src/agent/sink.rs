//! A file of the remote host that is being written. After a lost connection it is opened again by its token.

use std::io::Read;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use haul_core::entry::{Entry, MetaMask, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::fill::fill_whole;
use haul_core::store::{Chunk, Fill, Reach, Receipt, Sink, SinkExtensions, Source, Spec, Token, WriteOutcome};

use super::handle::{Handle, OpenFile};
use super::link::Ticket;
use super::ops;
use super::pieces::PIECE;
use super::root::Root;
use super::session::Session;
use super::source::{Origin, RemoteSource};
use super::wire::Writer;
use haul_core::lock::lock;

pub(super) struct RemoteSink {
    root: Arc<Root>,
    name: Name,
    token: Token,
    /// What opens it again, with the token.
    entry: Entry,
    keep: MetaMask,
    chunk: u64,
    in_place: bool,
    sync: bool,
    handle: Mutex<Handle>,
    /// Writes whose answers have not been read, by where they begin.
    in_flight: Mutex<Vec<(Range<u64>, Ticket)>>,
    /// Those that failed and have not been sent again.
    failed: Mutex<Vec<(Range<u64>, Error)>>,
    /// The end of what this sink wrote; a hole behind it is one already if the file is new.
    written: AtomicU64,
    made: bool,
}

impl RemoteSink {
    pub fn create(root: &Arc<Root>, name: &Name, spec: &Spec<'_>) -> Result<Self> {
        let (file, token) = ask_sink(root, root.session()?, name, spec, None)?;
        file.session.opened.fetch_add(spec.entry.size, Ordering::Relaxed);
        Ok(Self::new(root, name, spec, &file, token, !spec.in_place))
    }

    pub fn attach(root: &Arc<Root>, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Self> {
        let session = root.session()?;
        if token_boot(token).is_some_and(|boot| boot != session.remote.boot.as_bytes()) {
            let e = Error::new(ErrorKind::NotFound, "attach");
            return Err(e.because("the remote host was rebooted, or is another one"));
        }
        let (file, token) = ask_sink(root, session, name, spec, Some(token))?;
        Ok(Self::new(root, name, spec, &file, token, false))
    }

    fn new(root: &Arc<Root>, name: &Name, spec: &Spec<'_>, file: &OpenFile, token: Token, made: bool) -> Self {
        RemoteSink {
            root: root.clone(),
            name: name.clone(),
            token,
            entry: spec.entry.clone(),
            keep: spec.keep,
            chunk: spec.chunk,
            in_place: spec.in_place,
            sync: spec.sync,
            handle: Mutex::new(Handle::of(file)),
            in_flight: Mutex::default(),
            failed: Mutex::default(),
            written: AtomicU64::new(0),
            made,
        }
    }

    /// The file as it is open now, opened again if its session was lost.
    fn file(&self) -> Result<OpenFile> {
        let mut handle = lock(&self.handle);
        if let Some(file) = handle.file() {
            return Ok(file);
        }
        let session = self.root.session()?;
        // What it had accepted and not yet written to disk was lost in the reboot.
        if token_boot(&self.token).is_some_and(|boot| boot != session.remote.boot.as_bytes()) {
            return Err(Error::new(ErrorKind::Changed, "write").because("the remote host went down while the file was written"));
        }
        let spec = Spec { entry: &self.entry, keep: self.keep, chunk: self.chunk, in_place: self.in_place, sync: self.sync };
        let (file, _token) = ask_sink(&self.root, session, &self.name, &spec, Some(&self.token))?;
        *handle = Handle::of(&file);
        Ok(file)
    }

    fn write_all(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.finish_overlapping(&at)?;
        let file = self.file()?;
        let mut buffer = vec![0; usize::try_from(PIECE.min(at.end - at.start)).unwrap_or(0)];
        let mut next = at.start;
        while next < at.end {
            let wanted = usize::try_from(at.end - next).unwrap_or(usize::MAX).min(buffer.len());
            fill_whole(from, &mut buffer[..wanted])?;
            let request = file.request(|to| to.put(next));
            let ticket = file.session.ask(ops::WRITE, &[&request, &buffer[..wanted]], wanted as u64)?;
            lock(&self.in_flight).push((next..next + wanted as u64, ticket));
            next += wanted as u64;
            // A failure is seen soon, not when a whole chunk has been sent in vain.
            self.wait_for(|part, ticket| at.start <= part.start && part.end <= at.end && ticket.is_answered())?;
        }
        self.written.fetch_max(at.end, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for earlier writes of the same bytes, since the remote end works on many requests at a time. Those in flight between
    /// `at` and the end of its chunk are left of a failed try and are written again: their result does not count.
    fn finish_overlapping(&self, at: &Range<u64>) -> Result<()> {
        let chunk = self.chunk.max(1);
        let end = (at.start / chunk).saturating_add(1).saturating_mul(chunk);
        let _ = self.wait_for(|part, _| at.start <= part.start && part.end <= end);
        lock(&self.failed).retain(|(part, _)| part.start < at.start || part.end > end);
        self.wait_for(|part, _| part.start < at.end && at.start < part.end)
    }

    /// Sends a request that fills `at` without its bytes; its answer is read later.
    fn fill(&self, kind: u8, at: &Range<u64>, fill: impl FnOnce(&mut Writer) -> &mut Writer) -> Result<()> {
        let ask = || {
            self.finish_overlapping(at)?;
            self.file()?.ask(kind, 0, fill)
        };
        let ticket = ask().map_err(|e| e.on(&self.name))?;
        lock(&self.in_flight).push((at.clone(), ticket));
        Ok(())
    }

    /// Waits for the answers to the writes that are chosen.
    fn wait_for(&self, chosen: impl Fn(&Range<u64>, &Ticket) -> bool) -> Result<()> {
        let due: Vec<_> = lock(&self.in_flight).extract_if(.., |(part, ticket)| chosen(part, ticket)).collect();
        let mut first = Ok(());
        for (part, ticket) in due {
            // All of them are taken in: the next try must not meet the answers of this one.
            let answered = ticket.wait().map(|_| ());
            if let Err(e) = &answered {
                lock(&self.failed).push((part, e.again()));
            }
            first = first.and(answered);
        }
        first
    }

    /// Waits until the remote end has the bytes of `at`. What failed of them fails until it is sent again.
    fn settle(&self, at: &Range<u64>) -> Result<()> {
        let is_within = |part: &Range<u64>| at.start <= part.start && part.end <= at.end;
        let _ = self.wait_for(|part, _| is_within(part));
        lock(&self.failed).iter().find(|(part, _)| is_within(part)).map_or(Ok(()), |(_, e)| Err(e.again()))
    }
}

fn ask_sink(root: &Root, session: Arc<Session>, name: &Name, spec: &Spec<'_>, token: Option<&Token>) -> Result<(OpenFile, Token)> {
    let file = OpenFile { session, number: root.client.number() };
    let mut to = Writer::default();
    to.put((file.number, root.number)).name(name).entry(spec.entry).put((spec.keep, spec.chunk, spec.in_place, spec.sync));
    if let Some(token) = token {
        to.bytes(remote_token(token));
    }
    let kind = if token.is_some() { ops::ATTACH } else { ops::CREATE };
    to.check()?;
    let answer = file.session.ask(kind, &[&to.out], 0)?.wait()?;
    let token = token_with(answer.body().get()?, &file.session.remote.boot);
    Ok((file, token))
}

/// The remote store's token, and behind it the boot of the remote host that has what was written.
fn token_with(there: &[u8], boot: &str) -> Token {
    let mut token = there.to_vec();
    if token.contains(&b'@') {
        token.push(b'#');
        token.extend_from_slice(boot.as_bytes());
    }
    Token(token.into())
}

/// The remote store's own token.
pub(super) fn remote_token(token: &Token) -> &[u8] {
    token.0.split(|byte| *byte == b'#').next().unwrap_or_default()
}

fn token_boot(token: &Token) -> Option<&[u8]> {
    token.0.split(|byte| *byte == b'#').nth(1)
}

impl Sink for RemoteSink {
    fn token(&self) -> Token {
        self.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.write_all(at, from).map_err(|e| e.on(&self.name))
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        if at.is_empty() || (self.made && at.start >= self.written.load(Ordering::Relaxed)) {
            return Ok(());
        }
        self.fill(ops::HOLE, &at, |to| to.put(&at))
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        self.settle(&chunk.at).map_err(|e| e.on(&self.name))?;
        Ok(Box::default())
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        let reread = || {
            self.settle(&(0..u64::MAX))?;
            RemoteSource::begin(&self.root, Origin::Written(self.file()?.number), self.name.clone(), 0)
        };
        Ok(Box::new(reread().map_err(|e| e.on(&self.name))?))
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        let commit = || {
            self.settle(&(0..u64::MAX))?;
            self.root.ask_work_ahead();
            let indices: Vec<u32> = receipts.iter().map(|receipt| receipt.index).collect();
            self.file()?.call(ops::COMMIT, |to| to.put(self.root.number).entry(entry).put(indices))?.body().get()
        };
        commit().map_err(|e| e.on(&self.name))
    }

    fn abort(&self) -> Result<()> {
        // It is removed whatever became of it.
        let _ = self.wait_for(|_, _| true);
        match self.file().and_then(|file| file.call(ops::ABORT, |to| to)) {
            // What is not there any more needs no removal.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            aborted => aborted.map(|_| ()).map_err(|e| e.on(&self.name)),
        }
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions { fill: self, ..SinkExtensions::default() }
    }
}

impl Fill for RemoteSink {
    fn reuse(&self, old: &Stamp, from: u64, at: Range<u64>) -> Result<()> {
        self.fill(ops::REUSE, &at, |to| to.put((old, from, &at)))
    }

    fn pull(&self, from: Reach, at: Range<u64>, hash: bool) -> Result<Option<u128>> {
        let pull = || {
            self.finish_overlapping(&at)?;
            let file = self.file()?;
            let peer = if file.session.id == from.host { 0 } else { from.host };
            if peer != 0 && !lock(&file.session.linked_peers).contains(&peer) {
                return Ok(None);
            }
            let request = file.request(|to| to.put((peer, from.file, &at, hash)));
            match file.session.control.ask(ops::PULL, &[&request], 0)?.wait() {
                Ok(answer) => answer.body().get().map(Some),
                Err(e) if e.op() == "pull" && e.kind() == ErrorKind::NotFound => {
                    // The hosts have lost their connection: the rest goes through this machine.
                    lock(&file.session.linked_peers).remove(&peer);
                    Ok(None)
                }
                Err(e) => Err(e),
            }
        };
        pull().map_err(|e: Error| e.on(&self.name))
    }
}
