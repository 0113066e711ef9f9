//! Local and mounted file systems, by system calls relative to directory descriptors.
//!
//! The root is opened once, through whatever symlinks the user named it by. Below it every call resolves one
//! component and follows nothing, so that no name from a listing and no link that appears meanwhile leads
//! anywhere else. Linux 4.18 is enough; `openat2` is used for `-K` only.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod bundle;
mod caps;
mod copy;
mod dirs;
mod facts;
mod listing;
mod lustre;
mod meta;
mod provider;
mod sink;
mod source;
mod token;
mod tree;
pub mod trusted;
mod umask;
mod xattr;

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use haul_core::bundle::Bundle;
use haul_core::entry::{Dir, Entry, MetaMask, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{
    AddressForm, Caps, Extensions, Flow, Found, MetaSpec, Place, ServerSide, ServerSideOp, Sink, Source, Spec, Store, System, Token,
    Unfinished, Volume, WriteOutcome,
};
use haul_core::stripe::{Layout, Stripe};
use haul_core::user_names::LocalOwners;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

pub use copy::copy_range;
use haul_core::lock::lock;
use haul_core::store::staging::Shown;
use haul_core::store::staging::staging_leaf;
pub use provider::{LocalProvider, ThisMachine};
pub use token::unfinished_leaf;
pub use umask::{can_be_apart, with_mask, without_mask};

use caps::FileSystem;
use dirs::{Dirs, Handle, Inherited};
use facts::look_at;
use meta::Rules;
use source::FileSource;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `-K`: a symlink to a directory counts as that directory if it leads nowhere out of the root.
    pub keep_dirlinks: bool,
    /// `-L`, for a source only: directories are reached through links, wherever they lead.
    pub follow: bool,
    /// The process's umask. With 0 a file is created with its final mode; with another the mode is set again where the umask would
    /// clear bits of it.
    pub umask: u32,
    /// The mask that the user's shell gave: new files whose mode is not kept lose these bits.
    pub user_umask: u32,
    /// The mask of new directories: 0 where their modes are kept.
    pub dir_umask: u32,
    /// ACLs are kept: a new directory loses its inherited ACL at once, so that nothing below it inherits one.
    pub keep_acls: bool,
    /// The layout of new large files where the file system is a Lustre.
    pub stripe: Stripe,
    /// Staging files have names of their own for each number; 0 for those that every node derives from name and stamp alone.
    pub lineage: u64,
    /// For a destination: root follows no symlink of another user in its path, see [`trusted`].
    pub trusted: bool,
}

impl Default for Options {
    /// Right whatever mask the process has, at the cost of one call a file.
    fn default() -> Self {
        Options {
            keep_dirlinks: false,
            follow: false,
            umask: 0o777,
            user_umask: 0o022,
            dir_umask: 0,
            keep_acls: false,
            stripe: Stripe::Auto,
            lineage: 0,
            trusted: false,
        }
    }
}

/// A directory of a local or mounted file system, and all below it.
pub struct Local {
    shared: Arc<Shared>,
    place: Place,
    caps: Caps,
    identity: (u64, u64),
}

/// Shared with open files.
#[derive(Debug)]
pub(crate) struct Shared {
    dirs: Dirs,
    rules: Rules,
    file_system: FileSystem,
    stripe: Stripe,
    lineage: u64,
    /// Counts the default ACLs that were set: what directories know of theirs holds for one epoch. Starts at 1.
    acl_epoch: AtomicU64,
    /// Copy buffers that are not in use: as many as there were writers at once.
    buffers: Mutex<Vec<Box<[u8]>>>,
}

/// Bytes that a large file moves by.
const COPY_BUFFER: usize = 256 * 1024;

impl Shared {
    fn with_buffer<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let kept = lock(&self.buffers).pop();
        let mut buffer = kept.unwrap_or_else(|| vec![0; COPY_BUFFER].into_boxed_slice());
        let result = work(&mut buffer);
        lock(&self.buffers).push(buffer);
        result
    }

    fn staging_leaf(&self, leaf: &[u8], stamp: Stamp) -> Vec<u8> {
        staging_leaf(leaf, Stamp { version: stamp.version ^ self.lineage, ..stamp })
    }

    /// The layout of a new file, where it gets one of its own.
    fn layout(&self, size: u64, chunk: u64) -> Option<Layout> {
        if self.file_system.stripes { self.stripe.layout(size, chunk) } else { None }
    }

    fn inherits_acl(&self, handle: &Handle) -> Option<Inherited> {
        handle.default_acl(self.acl_epoch.load(std::sync::atomic::Ordering::Relaxed))
    }
}

pub(crate) fn fail(errno: Errno, op: &'static str) -> Error {
    Error::io(errno.into(), op)
}

impl Local {
    /// Opens an existing directory; symlinks in `path` itself are followed. Raises the process's limit of open files as far as
    /// allowed. `NotFound`, `Denied`, or `Usage` if `path` is no directory.
    pub fn open(path: &Path, options: Options) -> Result<Local> {
        use std::os::unix::ffi::OsStrExt;
        let limit = raise_open_files();
        let bytes = path.as_os_str().as_bytes();
        let at = |e: Errno, op| match e {
            Errno::NOTDIR => Error::new(ErrorKind::Usage, op).at(bytes).because("it is not a directory"),
            e => fail(e, op).at(bytes),
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |flags| match options.trusted {
            true => trusted::open_dir(path, flags),
            false => Ok(rustix::fs::open(path, flags, Mode::empty())),
        };
        let root = match open(flags | OFlags::RDONLY)? {
            Ok(fd) => Handle::new(fd, false),
            Err(Errno::ACCESS) => Handle::new(open(flags | OFlags::PATH)?.map_err(|e| at(e, "open"))?, true),
            Err(e) => return Err(at(e, "open")),
        };
        let facts = look_at(&root).map_err(|e| at(e, "stat"))?;
        let (file_system, caps) = caps::find_out(&root, options.stripe).map_err(|e| at(e, "stat file system"))?;
        let id = rustix::fs::fstatvfs(&root).map_or(0, |st| st.f_fsid);
        let volume = if id == 0 { format!("dev-{:x}", facts.dev) } else { format!("{id:x}") };
        let canonical =
            rustix::fs::readlink(xattr::proc_path(root.as_fd()), Vec::new()).map_or_else(|_| bytes.to_vec(), |p| p.into_bytes());
        let rules = Rules {
            fuse: file_system.name == "fuse",
            privileged: rustix::process::geteuid().is_root(),
            umask: options.umask & 0o777,
            user_umask: options.user_umask & 0o777,
            dir_umask: options.dir_umask & 0o777,
            keep_acls: options.keep_acls,
        };
        // Two stores and the files that are being copied share the limit.
        let open_dirs = usize::try_from(limit / 8).unwrap_or(usize::MAX).clamp(8, 512);
        Ok(Local {
            shared: Arc::new(Shared {
                dirs: Dirs::new(root, options.keep_dirlinks, options.follow, open_dirs),
                rules,
                file_system,
                stripe: options.stripe,
                lineage: options.lineage,
                acl_epoch: AtomicU64::new(1),
                buffers: Mutex::default(),
            }),
            place: Place { scheme: "local", form: AddressForm::Path, volume, root: canonical, ..Place::default() },
            caps,
            identity: (facts.dev, facts.ino),
        })
    }

    /// The type of the file system under the root: "ext4", "lustre", or "other".
    pub fn fs_name(&self) -> &'static str {
        self.shared.file_system.name
    }

    /// As `make_hard_link`, for a file `existing` below another root of the same file system; `Unsupported` if it is another.
    pub fn link_from(&self, other: &Local, existing: &Name, name: &Name) -> Result<()> {
        self.shared.link_from(&other.shared, name, existing).map_err(|e| e.on(name))
    }

    /// Whether the other root is this one or below it: all its parents are compared by device and inode, so that symlinks and bind
    /// mounts do not matter.
    pub fn contains(&self, other: &Local) -> Result<bool> {
        let up = |fd: &dyn Fn() -> rustix::io::Result<OwnedFd>| fd().map_err(|e| fail(e, "open").at(&other.place.root));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = up(&|| rustix::fs::openat(&**other.shared.dirs.root(), c".", flags, Mode::empty()))?;
        let mut last = None;
        loop {
            let facts = look_at(&at).map_err(|e| fail(e, "stat").at(&other.place.root))?;
            let identity = (facts.dev, facts.ino);
            if identity == self.identity {
                return Ok(true);
            }
            if last == Some(identity) {
                return Ok(false);
            }
            last = Some(identity);
            at = up(&|| rustix::fs::openat(&at, c"..", flags, Mode::empty()))?;
        }
    }
}

/// Open files that the process may have from now on.
fn raise_open_files() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum && rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
        return limit.maximum.unwrap_or(u64::MAX);
    }
    limit.current.unwrap_or(u64::MAX)
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({}, {})", self.place.words(), self.fs_name())
    }
}

impl Store for Local {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        self.shared.stat(name, want)
    }

    fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        self.shared.stat_many(dir, leaves, want, follow)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        self.shared.list(dir, Shown::Names, each)
    }

    fn open(&self, entry: &Entry, follow: bool) -> Result<Box<dyn Source>> {
        let name = &entry.name;
        let open = || {
            let handle = self.shared.dirs.get(&name.dir)?;
            dirs::leaf_of(&name.leaf, "open")?;
            let listed = (!entry.is_bare()).then(|| entry.stamp());
            FileSource::new(&handle, name, listed, follow, self.shared.rules.privileged)
        };
        Ok(Box::new(open().map_err(|e| e.on(name))?))
    }

    fn create(&self, name: &Name, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        Ok(Box::new(sink::FileSink::create(&self.shared, name, spec).map_err(|e| e.on(name))?))
    }

    fn get_bundle(&self, bundle: &mut Bundle) {
        self.shared.get_bundle(bundle, self.caps.tuning.bundle_bytes);
    }

    fn put_bundle(&self, bundle: &mut Bundle) {
        self.shared.put_bundle(bundle);
    }

    fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        dirs.iter().map(|(dir, mode)| self.shared.make_dir(dir, *mode).map_err(|e| e.on(&Name::of(dir)))).collect()
    }

    fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        self.shared.make_node(name, entry, keep).map_err(|e| e.on(name))
    }

    fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        self.shared.make_hard_link(name, existing).map_err(|e| e.on(name))
    }

    fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        specs.iter().map(|spec| self.shared.set_meta(spec).map_err(|e| e.on(spec.name))).collect()
    }

    fn read_xattrs(&self, entries: &mut [Entry], want: MetaMask) -> Vec<Result<()>> {
        self.shared.read_xattrs(entries, want)
    }

    fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        entries.iter().map(|entry| self.shared.remove(entry).map_err(|e| e.on(&entry.name))).collect()
    }

    fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.shared.rename(from, to, replace).map_err(|e| e.on(to))
    }

    fn reopen(&self, name: &Name) -> Result<Box<dyn Source>> {
        let open = || {
            let handle = self.shared.dirs.get(&name.dir)?;
            dirs::leaf_of(&name.leaf, "open")?;
            let source = FileSource::new(&handle, name, None, false, self.shared.rules.privileged)?;
            source.drop_cache()?;
            Ok(source)
        };
        Ok(Box::new(open().map_err(|e: Error| e.on(name))?))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            unfinished: self,
            server_side: self,
            system: self,
            owners: &LocalOwners,
            identity: Some(self.identity),
            ..Extensions::default()
        }
    }
}

impl Unfinished for Local {
    fn attach(&self, name: &Name, token: &Token, spec: &Spec<'_>) -> Result<Box<dyn Sink>> {
        Ok(Box::new(sink::FileSink::attach(&self.shared, name, token, spec).map_err(|e| e.on(name))?))
    }

    fn staging(&self, entry: &Entry) -> Option<Token> {
        Some(Token(self.shared.staging_leaf(&entry.name.leaf, entry.stamp()).into()))
    }

    fn abandon(&self, name: &Name, token: &Token) -> Result<()> {
        sink::abandon(&self.shared, name, token).map_err(|e| e.on(name))
    }

    fn abandon_all(&self, dir: &Dir) -> Result<u64> {
        let mut count = 0;
        self.shared.list(dir, Shown::Unfinished, &mut |found| {
            count += u64::from(found.and_then(|entry| self.shared.remove(&entry)).is_ok());
            Flow::Go
        })?;
        Ok(count)
    }
}

impl ServerSide for Local {
    /// No copies: the engine's meter copies by the descriptors of source and sink, and can count, throttle and cancel between the
    /// kernel's calls.
    fn perform(&self, from: &dyn Store, entry: &Entry, to: &Name, how: ServerSideOp<'_>) -> Result<Option<WriteOutcome>> {
        let Some(from) = (from as &dyn Any).downcast_ref::<Local>() else { return Ok(None) };
        let taken = match how {
            ServerSideOp::Rename => self.shared.take_over(&from.shared, &entry.name, to),
            ServerSideOp::Link => self.link_from(from, &entry.name, to),
            ServerSideOp::Copy(..) | ServerSideOp::VerifiedCopy(..) => return Ok(None),
        };
        taken.map(|()| Some(WriteOutcome::default())).map_err(|e| e.on(to))
    }
}

impl System for Local {
    fn volume(&self) -> Result<Option<Volume>> {
        let st = rustix::fs::fstatvfs(&**self.shared.dirs.root()).map_err(|e| fail(e, "stat file system").at(&self.place.root))?;
        let bytes = |blocks: u64| blocks.saturating_mul(st.f_frsize);
        let (size, free, available) = (bytes(st.f_blocks), bytes(st.f_bfree), bytes(st.f_bavail));
        Ok(Some(Volume { size, free, available, files: st.f_files, free_files: st.f_favail }))
    }

    fn sync(&self, names: &[&Name]) -> Result<()> {
        self.shared.sync(names)
    }

    fn forget(&self, dir: &Dir) {
        self.shared.dirs.forget(dir);
    }
}
