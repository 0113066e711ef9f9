//! A file of the host that is being written: under a staging name until it is complete, or in place if requested.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::receipt;
use haul_core::store::{Chunk, Receipt, Sink, SinkExtensions, Source, Spec, Token, WriteOutcome};

use super::channel::Channel;
use super::client::{attrs, done, is_unexplained, may_exist};
use super::meta::{OWNERS, lost_of, owner_of, refusal, rest_of};
use super::packet::{Attrs, kind, open};
use super::source::RemoteFile;
use super::stripes::{Stripe, Stripes};
use super::writes::{Flight, Writes};
use super::{Shared, checked, join};
use haul_core::lock::lock;
use haul_core::store::staging::is_staging;

/// The token of a write into the existing file; no staging name has this form.
const IN_PLACE: &[u8] = b"in-place";

pub(super) struct RemoteSink {
    shared: Arc<Shared>,
    name: Name,
    target: Vec<u8>,
    /// Where it is written; `target` itself if in place.
    path: Vec<u8>,
    token: Token,
    stripes: Stripes,
    /// This sink made the file: there is nothing in it that it did not write.
    made: bool,
    keep: MetaMask,
    size: u64,
    chunk: u64,
    sync: bool,
    /// The end of what this sink wrote, by chunk: a hole behind it is one already.
    written: Mutex<BTreeMap<u64, u64>>,
    /// Writes whose answers have not been read.
    writes: Writes,
}

impl RemoteSink {
    pub fn create(shared: &Arc<Shared>, name: &Name, spec: &Spec<'_>) -> Result<Self> {
        let leaf = checked(name, "create")?;
        let above = shared.dir(&name.dir)?;
        let target = join(&above, leaf);
        let channel = shared.client.channel()?;
        let mode = Attrs { mode: Some(0o600), ..Attrs::default() };
        if spec.in_place {
            let made = match shared.lstat(&target) {
                Ok(there) if there.kind() != Kind::File => {
                    let e = Error::new(ErrorKind::Exists, "open");
                    return Err(e.because("the existing file is not a regular file and cannot be updated in place"));
                }
                Ok(_) => false,
                Err(e) if e.kind() == ErrorKind::NotFound => true,
                Err(e) => return Err(e),
            };
            let flags = if made { open::WRITE | open::CREATE | open::EXCLUSIVE } else { open::WRITE };
            let stripe = Stripe::open(channel, &target, flags, &mode, "create").map_err(|e| shared.explain(e))?;
            return Ok(Self::new(shared, name, spec, target.clone(), target, Token(IN_PLACE.into()), stripe, made));
        }
        let staging = shared.names.leaf(leaf, spec.entry.stamp());
        let path = join(&above, &staging);
        let flags = open::WRITE | open::CREATE | open::EXCLUSIVE;
        let stripe = match Stripe::open(channel.clone(), &path, flags, &mode, "create") {
            Err(e) if may_exist(&e) && shared.lstat(&path).is_ok() => {
                shared.remove_file(&path, "remove leftover")?;
                Stripe::open(channel, &path, flags, &mode, "create")
            }
            made => made,
        }
        .map_err(|e| shared.explain(e))?;
        Ok(Self::new(shared, name, spec, target, path, Token(staging.into()), stripe, true))
    }

    pub fn attach(shared: &Arc<Shared>, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Self> {
        let leaf = checked(name, "attach")?;
        let above = shared.dir(&name.dir)?;
        let target = join(&above, leaf);
        let path = match staged(token)? {
            Some(staging) => join(&above, staging),
            None => target.clone(),
        };
        let lost = |why: &str| Error::new(ErrorKind::NotFound, "attach").because(why);
        let there = shared.lstat(&path)?;
        if there.kind() != Kind::File {
            return Err(lost("the staging name is no file"));
        }
        let stripe = opened(shared, shared.client.channel()?, &path, there.size, "attach")?.ok_or_else(|| lost(EMPTIED))?;
        Ok(Self::new(shared, name, spec, target, path, token.clone(), stripe, false))
    }

    #[expect(clippy::too_many_arguments, reason = "three callers; a struct would be the sink itself")]
    fn new(
        shared: &Arc<Shared>,
        name: &Name,
        spec: &Spec<'_>,
        target: Vec<u8>,
        path: Vec<u8>,
        token: Token,
        stripe: Stripe,
        made: bool,
    ) -> Self {
        shared.client.traffic.expect(spec.entry.size);
        let again = (shared.clone(), path.clone());
        let open = move |channel| {
            let (shared, path) = &again;
            let size = if shared.client.opens_intact() { None } else { shared.lstat(path)?.size };
            let emptied = || Error::new(ErrorKind::Changed, "write").because(EMPTIED);
            opened(shared, channel, path, size, "open")?.ok_or_else(emptied)
        };
        let size = if shared.client.opens_intact() { spec.entry.size } else { 0 };
        RemoteSink {
            shared: shared.clone(),
            name: name.clone(),
            target,
            path,
            token,
            stripes: Stripes::of(&shared.client, size, stripe, open),
            made,
            keep: spec.keep,
            size: spec.entry.size,
            chunk: spec.chunk,
            sync: spec.sync,
            written: Mutex::default(),
            writes: Writes::default(),
        }
    }

    fn write_all(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        let client = &self.shared.client;
        // Those from `at` to the end of its chunk are left of a failed try, and are written again.
        let chunk = self.chunk.max(1);
        let end = (at.start / chunk).saturating_add(1).saturating_mul(chunk);
        self.writes.forget(&(at.start..end.max(at.end)));
        let flight = if client.in_order() { Flight::One } else { Flight::Window };
        let sent = self.writes.send(&|| self.stripes.get(), client.write_most, flight, at.clone(), from, &|bytes| client.carried(bytes));
        client.written(sent)?;
        let mut written = lock(&self.written);
        let end = written.entry(at.start / chunk).or_default();
        *end = at.end.max(*end);
        Ok(())
    }

    /// The end of all that this sink wrote.
    fn written(&self) -> u64 {
        lock(&self.written).values().copied().max().unwrap_or(0)
    }

    /// Waits until the server has the bytes of `at`.
    fn settle(&self, at: &Range<u64>) -> Result<()> {
        let client = &self.shared.client;
        client.written(self.writes.settle(at, &|bytes| client.carried(bytes)))
    }

    /// A hole at the end of a file is made of nothing but the size.
    fn end_in_hole(&self) -> Result<()> {
        let stripe = self.stripes.first()?;
        let there = stripe.channel.ask(kind::FSTAT, |r| r.bytes(&stripe.handle)).and_then(|answer| attrs(&answer, "stat"))?;
        if there.size >= Some(self.size) {
            return Ok(());
        }
        let size = Attrs { size: Some(self.size), ..Attrs::default() };
        let answer = stripe.channel.ask(kind::FSETSTAT, |r| r.bytes(&stripe.handle).attrs(&size))?;
        done(&answer, "write")
    }

    fn finish(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        self.settle(&(0..u64::MAX))?;
        receipt::complete(entry.size, self.chunk, receipts)?;
        let stripe = self.stripes.first()?;
        let channel = &stripe.channel;
        let there = channel.ask(kind::FSTAT, |r| r.bytes(&stripe.handle)).and_then(|answer| attrs(&answer, "stat"))?;
        let set = |wanted: &Attrs| {
            channel.ask(kind::FSETSTAT, |r| r.bytes(&stripe.handle).attrs(wanted)).and_then(|a| done(&a, "set attributes"))
        };
        // A server that has crashed since may have lost what an earlier connection wrote.
        if !self.made && there.size.is_none_or(|size| size < entry.size) {
            return Err(Error::new(ErrorKind::Corrupt, "commit").because("the server lost part of the data"));
        }
        // One that has been written to its end gets no other size, whatever an answer says: a server may know that of a moment ago,
        // and rclone makes an empty file of one whose size is set.
        let is_whole = self.made && self.written() >= entry.size;
        let is_odd = there.size != Some(entry.size);
        if is_odd && !is_whole {
            set(&Attrs { size: Some(entry.size), ..Attrs::default() }).map_err(|e| self.shared.explain(e))?;
        }
        let mut refused = lost_of(entry, self.keep);
        let mut owned = there.owner == Some((entry.uid, entry.gid));
        if let Some(change) = owner_of(entry, self.keep, there.owner) {
            owned = set(&change).is_ok() && change.owner == Some((entry.uid, entry.gid));
            if !owned {
                refused = refused.with(self.keep.and(OWNERS));
            }
        }
        let mut rest = rest_of(entry, self.keep, owned);
        if self.path != self.target {
            rest.mode = rest.mode.or_else(|| Some(self.shared.mode_at(&self.target, entry)));
        }
        if rest != Attrs::default() {
            match set(&rest) {
                Err(e) if e.kind() == ErrorKind::Denied || is_unexplained(&e) => {
                    refused = refused.with(refusal(&e, self.keep.and(MetaMask::MODE.with(MetaMask::MTIME))))
                }
                set => set?,
            }
        }
        if self.sync && self.shared.client.extensions.fsync {
            let answer = channel.ask(kind::EXTENDED, |r| r.bytes(b"fsync@openssh.com").bytes(&stripe.handle))?;
            done(&answer, "sync")?;
        }
        drop(stripe);
        for stripe in self.stripes.take() {
            stripe.close().map_err(|e| self.shared.explain(e))?;
        }
        if is_odd && is_whole || !self.shared.client.opens_intact() {
            let size = self.shared.lstat(&self.path)?.size;
            if size != Some(entry.size) {
                let said = size.map_or("does not say how much it has".into(), |size| format!("has {size} bytes"));
                let reason = format!("the server confirmed {} bytes and {said}", entry.size);
                return Err(Error::new(ErrorKind::Corrupt, "commit").because(reason));
            }
        }
        if self.path != self.target {
            self.shared.replace(&self.path, &self.target)?;
        }
        Ok(WriteOutcome { refused, ino: 0 })
    }
}

const EMPTIED: &str = "the server empties a file that is opened";

/// A file of `size` bytes that was begun, opened in another channel; `None` if the server has emptied it thereby.
fn opened(shared: &Shared, channel: Arc<Channel>, path: &[u8], size: Option<u64>, op: &'static str) -> Result<Option<Stripe>> {
    let stripe = Stripe::open(channel, path, open::WRITE, &Attrs::default(), op)?;
    if shared.client.opens_intact() {
        return Ok(Some(stripe));
    }
    let now = stripe.channel.ask(kind::FSTAT, |r| r.bytes(&stripe.handle)).and_then(|answer| attrs(&answer, op))?;
    Ok((now.size >= size).then_some(stripe))
}

/// The staging leaf that a token names; `None` for a write in place. Tokens come from journals.
fn staged(token: &Token) -> Result<Option<&[u8]>> {
    // The token of a haul on the host has more behind the name.
    match token.0.split(|byte| *byte == b'@').next().unwrap_or_default() {
        IN_PLACE => Ok(None),
        leaf if is_staging(leaf) => Ok(Some(leaf)),
        _ => Err(Error::new(ErrorKind::BadName, "attach").because("the token is not the name of a staging file")),
    }
}

pub(super) fn abandon(shared: &Shared, name: &Name, token: &Token) -> Result<()> {
    let Some(staging) = staged(token)? else { return Ok(()) };
    shared.remove_file(&join(&shared.dir(&name.dir)?, staging), "remove")
}

impl Sink for RemoteSink {
    fn token(&self) -> Token {
        self.token.clone()
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        self.write_all(at, from).map_err(|e| if e.op() == "read" { e.on(&self.name) } else { self.shared.explain(e).on(&self.name) })
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        let end = lock(&self.written).get(&(at.start / self.chunk.max(1))).copied().unwrap_or(0);
        if self.made && at.start >= end {
            return Ok(());
        }
        self.write(at, &mut std::io::repeat(0))
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        self.settle(&chunk.at).map(|()| Box::default()).map_err(|e| self.shared.explain(e).on(&self.name))
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        self.settle(&(0..u64::MAX)).map_err(|e| e.on(&self.name))?;
        if self.written() < self.size {
            self.end_in_hole().map_err(|e| self.shared.explain(e).on(&self.name))?;
        }
        let leaf = self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = Name::new(&self.name.dir, leaf);
        let mut entry = Entry::bare(name, Kind::File);
        let there = self.shared.lstat(&self.path).map_err(|e| e.on(&self.name))?;
        super::client::fill(&mut entry, &there);
        Ok(Box::new(RemoteFile::open(&self.shared, &entry, false).map_err(|e| e.on(&self.name))?))
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        self.finish(entry, receipts).map_err(|e| e.on(&self.name))
    }

    fn abort(&self) -> Result<()> {
        for stripe in self.stripes.take() {
            // A server that makes the file when it is closed would make it after its removal. That it fails is no news.
            let _ = stripe.close();
        }
        if self.path == self.target && !self.made {
            return Ok(());
        }
        self.shared.remove_file(&self.path, "remove").map_err(|e| e.on(&self.name))
    }

    fn extensions(&self) -> SinkExtensions<'_> {
        SinkExtensions { in_order: self.shared.client.in_order(), ..SinkExtensions::default() }
    }
}
