//! Fresh file systems: made when asked for, gone when dropped.
//!
//! Disk file systems live in a sparse file on a loop device with the features that `mkfs` chooses by default. Everything here needs root and the
//! programs of the file system; what is missing is an error that names it, never a skip.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mounted file system. Dropping it unmounts (lazily when something is still open) and removes its file.
#[derive(Debug)]
pub struct Volume {
    base: PathBuf,
    mountpoint: PathBuf,
    mounted: bool,
}

/// Which file system, see [`Volume::new`].
#[derive(Debug, Clone)]
pub enum Kind {
    /// ext4 with further mount options (empty for none), for example `nodelalloc`.
    Ext4 {
        /// As `mount -o` takes them.
        mount_options: String,
    },
    /// XFS; its smallest size is 300 MiB.
    Xfs,
    /// Btrfs; its smallest size is about 110 MiB.
    Btrfs {
        /// A qgroup limit on the whole volume in bytes: what goes beyond fails with EDQUOT.
        quota: Option<u64>,
    },
    /// tmpfs.
    Tmpfs {
        /// A limit on inodes.
        inodes: Option<u64>,
    },
}

impl Volume {
    /// Makes a file system of at most `size` bytes and mounts it at a fresh directory.
    ///
    /// Errors: `PermissionDenied` without root, `NotFound` with the name of the program and its Debian package, or what the program said.
    pub fn new(kind: &Kind, size: u64) -> io::Result<Volume> {
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, format!("a {} volume needs root", kind.name())));
        }
        let base = tempfile::Builder::new().prefix("haul-volume-").tempdir()?.keep();
        let mut volume = Volume { mountpoint: base.join("mount"), base, mounted: false };
        fs::create_dir(&volume.mountpoint)?;
        volume.fill(kind, size)?;
        Ok(volume)
    }

    /// ext4 with default features.
    pub fn ext4(size: u64) -> io::Result<Volume> {
        Volume::new(&Kind::Ext4 { mount_options: String::new() }, size)
    }

    /// XFS with default features, at least 300 MiB.
    pub fn xfs(size: u64) -> io::Result<Volume> {
        Volume::new(&Kind::Xfs, size)
    }

    /// Btrfs with default features, at least 110 MiB.
    pub fn btrfs(size: u64) -> io::Result<Volume> {
        Volume::new(&Kind::Btrfs { quota: None }, size)
    }

    /// tmpfs; `size` is rounded up to whole pages.
    pub fn tmpfs(size: u64) -> io::Result<Volume> {
        Volume::new(&Kind::Tmpfs { inodes: None }, size)
    }

    /// Where it is mounted. On ext4 it holds `lost+found`.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// Writes everything out.
    pub fn sync(&self) -> io::Result<()> {
        let directory = fs::File::open(&self.mountpoint)?;
        Ok(rustix::fs::syncfs(directory)?)
    }

    fn fill(&mut self, kind: &Kind, size: u64) -> io::Result<()> {
        let image = self.base.join("image");
        let target = self.mountpoint.clone();
        if let Kind::Tmpfs { inodes } = kind {
            let inodes = inodes.map_or(String::new(), |inodes| format!(",nr_inodes={inodes}"));
            run(
                "mount",
                "mount",
                [
                    OsStr::new("-t"),
                    OsStr::new("tmpfs"),
                    OsStr::new("-o"),
                    OsStr::new(&format!("size={size}{inodes}")),
                    OsStr::new("haul-test"),
                    target.as_ref(),
                ],
            )?;
            self.mounted = true;
            return Ok(());
        }
        fs::File::create(&image)?.set_len(size)?;
        let (program, package, quiet) = match kind {
            Kind::Ext4 { .. } => ("mkfs.ext4", "e2fsprogs", "-q"),
            Kind::Xfs => ("mkfs.xfs", "xfsprogs", "-q"),
            _ => ("mkfs.btrfs", "btrfs-progs", "-q"),
        };
        run(program, package, [OsStr::new(quiet), image.as_ref()])?;
        let options = match kind {
            Kind::Ext4 { mount_options } if !mount_options.is_empty() => format!("loop,{mount_options}"),
            _ => "loop".to_owned(),
        };
        run("mount", "mount", [OsStr::new("-o"), OsStr::new(&options), image.as_ref(), target.as_ref()])?;
        self.mounted = true;
        if let Kind::Btrfs { quota: Some(limit) } = kind {
            run("btrfs", "btrfs-progs", [OsStr::new("quota"), OsStr::new("enable"), target.as_ref()])?;
            run(
                "btrfs",
                "btrfs-progs",
                [OsStr::new("qgroup"), OsStr::new("limit"), OsStr::new(&limit.to_string()), OsStr::new("0/5"), target.as_ref()],
            )?;
        }
        Ok(())
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::Ext4 { .. } => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs { .. } => "btrfs",
            Kind::Tmpfs { .. } => "tmpfs",
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.mounted && run("umount", "mount", [self.mountpoint.as_os_str()]).is_err() {
            let _ = run("umount", "mount", [OsStr::new("-l"), self.mountpoint.as_os_str()]);
        }
        // One by one, never recursively: were it still mounted, that would empty the volume through its mount point.
        let _ = fs::remove_dir(&self.mountpoint);
        let _ = fs::remove_file(self.base.join("image"));
        let _ = fs::remove_dir(&self.base);
    }
}

fn run<'a>(program: &str, package: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> io::Result<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::new(ErrorKind::NotFound, format!("{program} is missing: install the package {package}")),
        _ => io::Error::new(error.kind(), format!("{program}: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}
