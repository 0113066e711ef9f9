//! The local store, on the file system of the temporary directory. As root more is tested than as a user.

mod attributes;
mod content;
mod hostile;
mod names;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Dir, Entry, MetaMask, Name};
use haul_core::store::{Chunk, Receipt, Spec, Store, WriteOutcome};
use haul_local::{Local, Options};

pub const BOTH: MetaMask = MetaMask(MetaMask::MTIME.0 | MetaMask::MODE.0);

/// Two directories and what is around them, open for everybody.
pub struct Place {
    pub base: tempfile::TempDir,
    pub from: PathBuf,
    pub to: PathBuf,
    pub source: Local,
    pub target: Local,
    pub root: Dir,
}

impl Place {
    #[expect(clippy::new_without_default, reason = "makes a directory on disk, which a default should not")]
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self::at(tempfile::tempdir().unwrap(), options)
    }

    pub fn at(base: tempfile::TempDir, options: Options) -> Self {
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        for dir in [&from, &to] {
            fs::create_dir(dir).unwrap();
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
        }
        let source = Local::open(&from, options).unwrap();
        let target = Local::open(&to, options).unwrap();
        Place { base, from, to, source, target, root: Dir::root() }
    }

    pub fn name(&self, path: &str) -> Name {
        Name::parse(&self.root, path.as_bytes()).unwrap()
    }

    pub fn entry(&self, path: &str, want: MetaMask) -> Entry {
        self.source.stat(&self.name(path), want).unwrap()
    }

    /// Moves files in one bundle.
    pub fn bundle(&self, entries: Vec<Entry>, keep: MetaMask, direct: bool) -> Bundle {
        let mut bundle = Bundle { keep, direct, ..Bundle::default() };
        entries.into_iter().for_each(|entry| bundle.push(entry));
        self.source.get_bundle(&mut bundle);
        self.target.put_bundle(&mut bundle);
        bundle
    }

    /// Moves one file by a sink, in one chunk.
    pub fn copy(&self, entry: &Entry, keep: MetaMask) -> WriteOutcome {
        let spec = Spec { entry, keep, chunk: entry.size.max(1), in_place: false, sync: false };
        let sink = self.target.create(&entry.name, &spec).unwrap();
        let source = self.source.open(entry, false).unwrap();
        sink.write(0..entry.size, &mut *source.read(0..entry.size).unwrap()).unwrap();
        sink.commit(entry, &[receipt(0)]).unwrap()
    }

    /// Names in the target directory, staging files too.
    pub fn left(&self) -> Vec<String> {
        names_in(&self.to)
    }
}

pub fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn receipt(index: u32) -> Receipt {
    Receipt { index, tag: Box::default(), hash: None }
}

pub fn chunk(index: u32, at: std::ops::Range<u64>) -> Chunk {
    Chunk { index, at }
}

pub fn landed(bundle: &Bundle) -> Vec<WriteOutcome> {
    bundle
        .items
        .iter()
        .map(|item| match &item.outcome {
            Outcome::Written(landed) => *landed,
            outcome => panic!("{:?}: {outcome:?}", item.entry.name),
        })
        .collect()
}

pub fn failure(bundle: &Bundle) -> &haul_core::Error {
    match &bundle.items[0].outcome {
        Outcome::Failed(error) => error,
        outcome => panic!("{outcome:?}"),
    }
}

pub fn write(path: &Path, bytes: impl AsRef<[u8]>, mode: u32) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program} is needed: {e}"));
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs as the user nobody, in a thread of its own; as it is if we are not root.
pub fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let root = is_root();
    std::thread::scope(|scope| {
        let become_nobody = move || {
            const NOBODY: libc::c_long = 65534;
            if root {
                // SAFETY: the bare calls change the calling thread only, which ends with this test.
                unsafe {
                    assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()), 0);
                    assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
                    assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
                }
            }
            work()
        };
        match scope.spawn(become_nobody).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
