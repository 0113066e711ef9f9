//! A directory of an FTP server as a store.

use std::any::Any;
use std::sync::Arc;

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::store::{
    AttributeCaps, Caps, Digests, Extensions, Flow, Found, MetaSpec, NameRules, Place, Runs, ServerSide, ServerSideOp, Sink, Source, Spec,
    Store, Token, Tuning, Unfinished, WriteOutcome, WriteStyle,
};

use super::features::{Features, get};
use super::fxp;
use super::names_proof;
use super::paths;
use super::pool::{Lease, Pool, Wanted};
use super::sink::FtpSink;
use super::source::FtpFile;
use super::staged::{self, Staged};
use haul_core::store::staging::{OwnNames, Shown};
use haul_net::http_client::parallel::Threads;

/// Connections for the parts of one file.
pub const READERS: u32 = 8;
pub const WRITERS: u32 = 8;
/// Bytes of a file that is worth as many sessions.
pub const LARGE: u64 = 32 << 20;

#[derive(Debug)]
pub struct Ftp {
    shared: Arc<Shared>,
    caps: Caps,
    place: Place,
    moves_data: bool,
}

#[derive(Debug)]
pub struct Shared {
    pub pool: Arc<Pool>,
    pub features: Arc<Features>,
    /// Absolute, without a slash at its end.
    pub root: Vec<u8>,
    /// Files are written here.
    pub is_destination: bool,
    /// Attributes that files can be given.
    pub sets: MetaMask,
    pub threads: Threads,
    pub names: OwnNames,
}

impl Shared {
    pub fn dir(&self, dir: &Dir, op: &'static str) -> Result<Vec<u8>> {
        paths::dir(&self.root, dir, self.features.names(), op)
    }

    pub fn path(&self, name: &Name, op: &'static str) -> Result<Vec<u8>> {
        paths::path(&self.root, name, self.features.names(), op)
    }

    /// Whether the server keeps each of these names: see [`names_proof`].
    pub fn prove(&self, leaves: &[&[u8]]) -> Vec<Result<()>> {
        let root: &[u8] = if self.root.is_empty() { b"/" } else { &self.root };
        names_proof::prove(&self.pool, root, &self.names, leaves)
    }

    /// The path of something that is made or changed under this very name.
    pub fn exact(&self, name: &Name, op: &'static str) -> Result<Vec<u8>> {
        let path = self.target(name, op)?;
        self.prove(&[&name.leaf]).pop().unwrap_or(Ok(()))?;
        Ok(path)
    }

    /// The path of a file or directory that is read: never of the directory itself.
    pub fn target(&self, name: &Name, op: &'static str) -> Result<Vec<u8>> {
        Ok(paths::join(&self.dir(&name.dir, op)?, paths::checked(name, self.features.names(), op)?))
    }
}

impl Shared {
    /// A session over which the server sends in extended block mode, after it was asked for these transfers; `None` where it cannot.
    /// `striped`: over connections of all data nodes.
    pub fn intake(&self, transfers: &[u8], striped: bool, op: &'static str) -> Result<Option<Lease>> {
        if !get(&self.features.extended_reads) {
            return Ok(None);
        }
        let mut lease = self.pool.take_for(if striped { Wanted::Stream } else { Wanted::Intake })?;
        if striped && (self.features.stripes() == 0 || !lease.offer(true, op)?) {
            return Ok(None);
        }
        match lease.ask_blocks(transfers, op) {
            Ok(()) => Ok(Some(lease)),
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Ftp {
    /// `moves_data`: what is looked up will be read.
    pub fn new(pool: Arc<Pool>, features: Arc<Features>, place: Place, is_destination: bool, moves_data: bool) -> Ftp {
        let kept = |mask: MetaMask, has: bool| if has { mask } else { MetaMask::NONE };
        let sets = kept(MetaMask::MTIME, features.sets_times()).with(kept(MetaMask::MODE, features.chmod));
        let timed = features.mlst.is_some() || get(&features.mdtm);
        let blocks = get(&features.extended_blocks) && !pool.dialer.active;
        let connections = u32::try_from(pool.most()).unwrap_or(1);
        let caps = Caps {
            write: if blocks { WriteStyle::Anywhere } else { WriteStyle::InOrder },
            read_ranges: true,
            dirs: true,
            atomic_commit: features.replaces,
            durable: true,
            attach: true,
            names: NameRules { one_line: true, text: features.utf8, plain: features.plain, max: paths::NAME_MOST, ..NameRules::minimal() },
            attributes: AttributeCaps { sets, lists: MetaMask::BASIC.with(kept(MetaMask::MTIME, timed)), ..AttributeCaps::minimal() },
            tuning: Tuning {
                writers_per_file: if blocks || get(&features.restarts_writing) { connections.min(WRITERS) } else { 1 },
                // All data nodes send one file to one reader.
                readers_per_file: if features.stripes() > 0 && get(&features.extended_reads) { 1 } else { connections.min(READERS) },
                runs: if get(&features.extended_reads) { Runs::Fixed } else { Runs::Open },
                bundle_files: if blocks { 256 } else { 32 },
                ..Tuning::minimal()
            },
            ..Caps::minimal()
        };
        let mut root = place.root.clone();
        while root.ends_with(b"/") {
            root.pop();
        }
        let shared = Shared { pool, features, root, is_destination, sets, threads: Threads::default(), names: OwnNames::default() };
        Ftp { shared: Arc::new(shared), caps, place, moves_data }
    }
}

impl Ftp {
    /// Files are written in extended block mode.
    fn in_blocks(&self) -> bool {
        self.caps.write == WriteStyle::Anywhere
    }
}

impl Store for Ftp {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        let entry = self.shared.stat(name, want).map_err(|e| e.on(name))?;
        if self.moves_data && entry.kind == Kind::File && entry.size >= LARGE && self.caps.tuning.readers_per_file > 1 {
            self.shared.pool.prepare(READERS as usize, Wanted::Intake);
        }
        Ok(entry)
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        self.shared.stat_many(dir, leaves, want, follow)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.shared.list(dir, Shown::Names, each).map_err(|e| e.on(&Name::of(dir)))
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        FtpFile::open(&self.shared, entry, follow).map(|file| Box::new(file) as _).map_err(|e| e.on(&entry.name))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        if self.in_blocks() && spec.entry.size >= LARGE {
            self.shared.pool.prepare(WRITERS as usize, Wanted::Blocks);
        }
        let staged = Staged::create(&self.shared, name, spec).map_err(|e| e.on(name))?;
        Ok(Box::new(FtpSink::create(staged, self.in_blocks())))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        self.shared.get_bundle(bundle, self.caps.tuning.bundle_bytes);
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.shared.put_bundle(bundle, self.in_blocks());
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        self.shared.make_dirs(dirs)
    }

    fn make_node(&self, name: &Name, _entry: &Entry, _keep: MetaMask) -> Result<WriteOutcome> {
        let op = "create";
        paths::checked(name, self.shared.features.names(), op)?;
        let e = haul_core::error::Error::new(ErrorKind::Unsupported, op).on(name);
        Err(e.because("FTP cannot create links or special files"))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        self.shared.set_meta(specs)
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        self.shared.remove(entries)
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.shared.take_over(&self.shared, from, to, replace).map_err(|e| e.on(from))
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        let entry = self.stat(name, MetaMask::NONE)?;
        self.open(&entry, false)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { unfinished: self, server_side: self, digests: self, ..Extensions::default() }
    }
}

impl Unfinished for Ftp {
    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        let sink = Staged::attach(&self.shared, name, token, spec).and_then(|staged| FtpSink::attach(staged, self.in_blocks()));
        sink.map(|sink| Box::new(sink) as _).map_err(|e| e.on(name))
    }

    fn staging(&self, entry: &Entry) -> Option<Token> {
        Some(Token(self.shared.names.leaf(&entry.name.leaf, entry.stamp()).into()))
    }

    fn staged(&self, _: &Entry, token: &Token) -> Option<Token> {
        Some(token.clone())
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        staged::abandon(&self.shared, name, token).map_err(|e| e.on(name))
    }

    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        let mut left = Vec::new();
        self.shared.list(dir, Shown::Unfinished, &mut |found| {
            left.extend(found);
            Flow::Go
        })?;
        Ok(self.shared.remove(&left).iter().filter(|removed| removed.is_ok()).count() as u64)
    }
}

impl ServerSide for Ftp {
    fn copies(&self, from: &dyn Store, size: u64) -> bool {
        let from = (from as &dyn Any).downcast_ref::<Ftp>();
        from.is_some_and(|from| fxp::is_possible(&from.shared, &self.shared, size))
    }

    fn copy_staging(&self, entry: &Entry) -> Option<Token> {
        Some(Token(fxp::staging(&entry.name.leaf, entry).into()))
    }

    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        match ((from as &dyn Any).downcast_ref::<Ftp>(), how) {
            (Some(from), ServerSideOp::Rename) if Arc::ptr_eq(&from.shared.pool, &self.shared.pool) => {
                self.shared.take_over(&from.shared, &entry.name, to, false).map(|()| Some(WriteOutcome::default()))
            }
            (Some(from), ServerSideOp::Copy(spec, moved)) => fxp::copy(&from.shared, &self.shared, entry, to, (spec, false), moved),
            (Some(from), ServerSideOp::VerifiedCopy(spec, moved)) => fxp::copy(&from.shared, &self.shared, entry, to, (spec, true), moved),
            _ => Ok(None),
        }
        .map_err(|e| e.on(to))
    }
}

impl Digests for Ftp {
    fn algorithms(&self) -> Vec<Algorithm> {
        self.shared.digests()
    }

    fn digest(&self, entry: &Entry, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.shared.digest(entry, algorithm).map_err(|e| e.on(&entry.name))
    }
}
