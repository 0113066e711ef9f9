//! A FUSE pass-through that is slow and fails on request.
//!
//! It stands for a store with latency: every metadata request waits [`Options::metadata_delay`], every read or write request
//! [`Options::data_delay`], and then does its work below the backing directory. Requests wait side by side, up to
//! [`Options::threads`] of them; only what the kernel itself serialises stays serial, which is one creation at a time in a directory.
//!
//! What is delayed: LOOKUP, GETATTR, SETATTR, CREATE, MKDIR, MKNOD, SYMLINK, LINK, READLINK, UNLINK, RMDIR, RENAME, OPEN, FLUSH,
//! READDIR, STATFS, FSYNC, FALLOCATE and LSEEK by the metadata delay; READ and WRITE by the data delay. OPENDIR, RELEASE, RELEASEDIR and
//! FORGET are free. Extended attributes are not supported. Only the user who mounted it may enter.
//!
//! Names and attributes are cached by the kernel for a second, absent names never. A file of a few kB that `cp` makes in
//! a new directory costs LOOKUP, CREATE, WRITE and FLUSH: 14 ms with the default delays.

mod attributes;
mod fault;
mod node;
mod operation;
mod passthrough;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use fault::{Fault, FaultKind, Faults};

/// How slow, and what the mount can do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Delay of a metadata request. Default 4 ms.
    pub metadata_delay: Duration,
    /// Delay of a read or write request. Default 2 ms.
    pub data_delay: Duration,
    /// How many requests are served at once, 1 to 1024. Default 192.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { metadata_delay: Duration::from_millis(4), data_delay: Duration::from_millis(2), threads: 192 }
    }
}

impl Options {
    /// No delays: a plain pass-through, for tests of faults.
    pub fn fast() -> Options {
        Options { metadata_delay: Duration::ZERO, data_delay: Duration::ZERO, ..Options::default() }
    }
}

/// A mounted slow file system. Dropping it unmounts, by force when something still has files open.
#[derive(Debug)]
pub struct SlowFs {
    mountpoint: PathBuf,
    owns_mountpoint: bool,
    session: Option<BackgroundSession>,
    faults: Arc<Faults>,
}

impl SlowFs {
    /// Shows `backing` at a fresh temporary directory, see [`SlowFs::path`].
    ///
    /// Errors: no `/dev/fuse`, or neither root nor a `fusermount3` that may mount; the message says so.
    pub fn mount(backing: &Path, options: Options) -> io::Result<SlowFs> {
        let mountpoint = tempfile::Builder::new().prefix("haul-slowfs-").tempdir()?.keep();
        match SlowFs::mount_at(backing, &mountpoint, options) {
            Ok(mut mounted) => {
                mounted.owns_mountpoint = true;
                Ok(mounted)
            }
            Err(error) => {
                fs::remove_dir(&mountpoint)?;
                Err(error)
            }
        }
    }

    /// Shows `backing` at `mountpoint`, an existing directory that is not below `backing`.
    ///
    /// The process's limit of open files is raised: every file that the kernel knows of costs a descriptor.
    pub fn mount_at(backing: &Path, mountpoint: &Path, options: Options) -> io::Result<SlowFs> {
        raise_descriptor_limit();
        let faults = Arc::new(Faults::default());
        let root = rustix::process::geteuid().is_root();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("slowfs".into())];
        if root {
            config.mount_options.extend([MountOption::Dev, MountOption::Suid]);
        }
        config.n_threads = Some(options.threads.clamp(1, 1024));
        let filesystem = passthrough::Passthrough::new(backing, options, faults.clone())
            .map_err(|error| io::Error::new(error.kind(), format!("slowfs: backing directory {}: {error}", backing.display())))?;
        let session = fuser::spawn_mount(filesystem, mountpoint, &config).map_err(|error| {
            let hint = if root { "needs /dev/fuse" } else { "needs root, or fusermount3 and a readable /dev/fuse" };
            io::Error::new(error.kind(), format!("slowfs: cannot mount at {} ({hint}): {error}", mountpoint.display()))
        })?;
        Ok(SlowFs { mountpoint: fs::canonicalize(mountpoint)?, owns_mountpoint: false, session: Some(session), faults })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// The scripted faults; may be changed while the mount is in use.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Blocks until another process unmounts it.
    pub fn wait(mut self) -> io::Result<()> {
        match self.session.take() {
            Some(session) => session.join(),
            None => Ok(()),
        }
    }
}

impl Drop for SlowFs {
    fn drop(&mut self) {
        self.faults.close();
        if let Some(session) = self.session.take() {
            detach(&self.mountpoint);
            // Drops the session's own mount guard, which without root calls `fusermount3 -u`, and keeps its thread.
            let guard = session.guard;
            // The threads end when the kernel has taken back the connection; an abort is quick, but nothing here may wait for ever.
            let end = Instant::now() + Duration::from_secs(5);
            while !guard.is_finished() && Instant::now() < end {
                thread::sleep(Duration::from_millis(1));
            }
        }
        if self.owns_mountpoint {
            // Not recursive: were it still mounted, that would empty the backing directory.
            let _ = fs::remove_dir(&self.mountpoint);
        }
    }
}

/// Unmounts politely, then by ending the connection.
pub fn detach(mountpoint: &Path) {
    if unmount(mountpoint, UnmountFlags::empty()).is_err() {
        let _ = unmount(mountpoint, UnmountFlags::FORCE);
        let _ = unmount(mountpoint, UnmountFlags::DETACH);
    }
}

fn raise_descriptor_limit() {
    let wanted = 1 << 20;
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.current.is_none_or(|current| current >= wanted);
    if !enough && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(wanted) }).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}
