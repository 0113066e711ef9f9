//! What the checks are written with.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use haul_bench::synthetic::pattern;
use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Chunk, Flow, Found, MetaSpec, Receipt, Sink, Source, Spec, Store, WriteOutcome, WriteStyle, chunk_size, chunks};

use super::Fixture;

/// What one look tells.
pub const STATED: MetaMask = MetaMask(MetaMask::BASIC.0 | MetaMask::MTIME.0 | MetaMask::MODE.0 | MetaMask::OWNER.0 | MetaMask::GROUP.0);

pub const WHEN: Time = Time { secs: 1_600_000_000, nanos: 123_456_789 };

/// The path as a name. A `Dir` is made anew each time, so that no store gets by on what it keeps for one.
pub fn name(path: impl AsRef<[u8]>) -> Name {
    Name::parse(&Dir::root(), path.as_ref()).expect("checks use plain paths here")
}

pub fn dir(path: impl AsRef<[u8]>) -> Dir {
    path.as_ref().split(|b| *b == b'/').filter(|part| !part.is_empty()).fold(Dir::root(), |dir, part| dir.child(part))
}

/// Bytes in which every position has its own value for this seed.
pub fn bytes(seed: u64, length: u64) -> Vec<u8> {
    let mut made = vec![0; length as usize];
    pattern(seed, 0, &mut made);
    made
}

/// A file as a source would list it; ours, so that anyone may keep its ownership.
pub fn file(name: Name, size: u64) -> Entry {
    let mut entry = Entry::bare(name, Kind::File);
    entry.have = STATED;
    entry.size = size;
    entry.stored = size;
    entry.mtime = WHEN;
    entry.mode = 0o640;
    entry.uid = rustix::process::geteuid().as_raw();
    entry.gid = rustix::process::getegid().as_raw();
    entry.version = 77;
    entry
}

pub fn spec(entry: &Entry, chunk: u64) -> Spec<'_> {
    Spec { entry, keep: MetaMask::MTIME, chunk, in_place: false, sync: false }
}

pub fn land(sink: &dyn Sink, chunk: &Chunk, content: &[u8]) -> Result<Receipt> {
    let part = &content[chunk.at.start as usize..chunk.at.end as usize];
    sink.write(chunk.at.clone(), &mut &*part)?;
    Ok(Receipt { index: chunk.index, tag: sink.landed(chunk)?, hash: None })
}

/// Writes and commits a whole file.
pub fn write(store: &dyn Store, entry: &Entry, spec: &Spec<'_>, content: &[u8]) -> Result<WriteOutcome> {
    let sink = store.create(&entry.name, spec)?;
    let receipts: Vec<Receipt> = chunks(entry.size, spec.chunk).map(|c| land(&*sink, &c, content)).collect::<Result<_>>()?;
    sink.commit(entry, &receipts)
}

pub fn read(source: &dyn Source, at: std::ops::Range<u64>) -> Result<Vec<u8>> {
    let mut found = Vec::new();
    source.read(at)?.read_to_end(&mut found).map_err(|e| Error::from_io(e, "read"))?;
    Ok(found)
}

pub fn fetch(store: &dyn Store, name: &Name) -> Result<Vec<u8>> {
    let entry = store.stat(name, STATED)?;
    read(&*store.open(&entry, false)?, 0..entry.size)
}

/// Leaves of a listing, sorted.
pub fn leaves(store: &dyn Store, dir: &Dir) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = entries(store, dir).into_iter().map(|entry| entry.name.leaf.to_vec()).collect();
    found.sort();
    found
}

pub fn entries(store: &dyn Store, dir: &Dir) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut take = |entry: Result<Entry>| {
        found.push(entry.expect("every entry can be read"));
        Flow::Go
    };
    store.list(dir, &mut take).expect("the directory can be listed");
    found
}

/// The call failed, with one of these kinds, and says on what.
#[track_caller]
pub fn fails<T>(outcome: Result<T>, kinds: &[ErrorKind], name: &Name) {
    fails_on(outcome, kinds, &[name]);
}

/// The same for a call on two names: either may be the one to blame.
#[track_caller]
pub fn fails_on<T>(outcome: Result<T>, kinds: &[ErrorKind], names: &[&Name]) {
    let error = outcome.err().unwrap_or_else(|| panic!("{names:?}: this must fail as one of {kinds:?}, and did not"));
    assert!(kinds.contains(&error.kind()), "{error} ({:?}) is none of {kinds:?}", error.kind());
    says(&error, names);
}

/// The call failed, whatever the kind, and says on what.
#[track_caller]
pub fn fails_somehow<T>(outcome: Result<T>, names: &[&Name]) {
    let error = outcome.err().unwrap_or_else(|| panic!("{names:?}: this must fail, and did not"));
    says(&error, names);
}

/// On the name or on a directory above it, relative to the root or absolute: the innermost knows best where it failed.
#[track_caller]
fn says(error: &Error, names: &[&Name]) {
    assert!(!error.op().is_empty(), "{error}: no operation");
    let path = error.path().unwrap_or_else(|| panic!("{error}: no name"));
    let about = |name: &&Name| {
        let whole = name.path();
        let ends = whole.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| i).chain([whole.len()]);
        ends.map(|end| &whole[..end]).any(|part| path.ends_with(part))
    };
    assert!(names.iter().any(about), "{error}: must be about one of {names:?}");
}

/// What a `Result` holds, or a failure of the check that shows the error.
#[track_caller]
pub fn ok<T>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|e| panic!("{e} ({:?})", e.kind()))
}

/// Leads of a generator without state outside: the seed is printed by who uses it.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// `HAUL_SEED` repeats a run.
    pub fn new(what: &str) -> Self {
        let given = std::env::var("HAUL_SEED").ok().and_then(|text| text.parse().ok());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let seed = given.unwrap_or(now);
        {
            eprintln!("{what}: HAUL_SEED={seed}");
        }
        Dice(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound.max(1)
    }
}

impl Fixture {
    pub fn caps(&self) -> &haul_core::store::Caps {
        self.store.caps()
    }

    pub fn another(&self) -> Arc<dyn Store> {
        (self.again)()
    }

    /// A chunk size that is allowed here and small.
    pub fn chunk(&self) -> u64 {
        chunk_size(10_000, 0, self.caps().write)
    }

    pub fn in_order(&self) -> bool {
        self.caps().write == WriteStyle::InOrder
    }

    /// Writes a file by way of the contract, parents first.
    #[track_caller]
    pub fn put(&self, path: impl AsRef<[u8]>, content: &[u8]) -> Entry {
        self.put_at(path, content, WHEN)
    }

    #[track_caller]
    pub fn put_at(&self, path: impl AsRef<[u8]>, content: &[u8], mtime: Time) -> Entry {
        let name = name(path);
        self.make(&name.dir);
        let mut entry = file(name, content.len() as u64);
        entry.mtime = mtime;
        ok(write(&*self.store, &entry, &spec(&entry, self.chunk()), content));
        entry
    }

    /// Makes a directory and those above it, where directories are things.
    #[track_caller]
    pub fn make(&self, dir: &Dir) {
        if !self.caps().dirs {
            return;
        }
        let mut line = Vec::new();
        let mut at = Some(dir);
        while let Some(dir) = at.filter(|dir| !dir.is_root()) {
            line.push(dir);
            at = dir.parent();
        }
        for dir in line.into_iter().rev() {
            for made in self.store.make_dirs(&[(dir, 0o755)]) {
                ok(made);
            }
        }
    }

    /// Reads a file by way of a store that did not write it.
    #[track_caller]
    pub fn get(&self, path: impl AsRef<[u8]>) -> Vec<u8> {
        ok(fetch(&*self.another(), &name(path)))
    }

    #[track_caller]
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Entry {
        ok(self.another().stat(&name(path), MetaMask(u16::MAX)))
    }

    #[track_caller]
    pub fn is_absent(&self, path: impl AsRef<[u8]>) {
        let name = name(path);
        fails(self.another().stat(&name, STATED), &[ErrorKind::NotFound], &name);
        let leaf = &*name.leaf;
        let found = self.another().stat_many(&name.dir, &[leaf], STATED, false);
        assert!(matches!(found[..], [Found::Absent]), "{found:?}");
    }

    /// Everything in the place, seen from outside if that is possible.
    pub fn names(&self) -> Vec<Vec<u8>> {
        match &self.outside.names {
            Some(names) => {
                let mut found = names();
                found.sort();
                found
            }
            None => leaves(&*self.another(), &Dir::root()),
        }
    }

    /// A symlink that the store under test does not know of.
    #[track_caller]
    pub fn plant_link(&self, target: &str, path: &str) {
        match &self.outside.link {
            Some(link) => link(target, path),
            None => {
                let mut entry = Entry::bare(name(path), Kind::Link);
                entry.target = Some(target.as_bytes().into());
                ok(self.another().make_node(&entry.name, &entry, MetaMask::NONE));
            }
        }
    }
}

/// A bundle of files that were read: these names and contents.
pub fn bundle(files: Vec<(Entry, Vec<u8>)>, direct: bool) -> Bundle {
    let mut bundle = Bundle { keep: MetaMask::MTIME, direct, ..Bundle::default() };
    for (entry, content) in files {
        let start = bundle.data.len();
        bundle.data.extend_from_slice(&content);
        bundle.items.push(Item { entry, at: start..bundle.data.len(), outcome: Outcome::Read });
    }
    bundle
}

#[track_caller]
pub fn landed(item: &Item) -> WriteOutcome {
    match &item.outcome {
        Outcome::Written(landed) => *landed,
        other => panic!("{:?}: {other:?}", item.entry.name),
    }
}

#[track_caller]
pub fn all_landed(bundle: &Bundle) {
    for item in &bundle.items {
        landed(item);
    }
}

#[track_caller]
pub fn set(store: &dyn Store, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
    let mut all = store.set_meta(&[MetaSpec { name: &entry.name, entry, keep }]);
    assert_eq!(all.len(), 1, "one result for each name");
    all.remove(0)
}

#[track_caller]
pub fn remove(store: &dyn Store, entry: &Entry) -> Result<()> {
    let mut all = store.remove(std::slice::from_ref(entry));
    assert_eq!(all.len(), 1, "one result for each entry");
    all.remove(0)
}

/// All that is below a directory of this machine, directories with a slash behind them.
pub fn walk(root: &Path) -> Vec<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("the directory can be read").flatten() {
            let path = entry.path();
            let mut shown = path.strip_prefix(root).expect("it is below the root").as_os_str().as_bytes().to_vec();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                shown.push(b'/');
                open.push(path);
            }
            found.push(shown);
        }
    }
    found
}
