//! Fresh file systems: made when asked for, gone when dropped.
//!
//! Disk file systems live in a sparse file on a loop device with the features that `mkfs` chooses by default. Everything here needs root and the
//! programs of the file system; what is missing is an error that names it, never a skip.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mounted file system. Dropping it unmounts (lazily when something is still open) and removes its file.
#[derive(Debug)]
pub struct Volume {
    base: PathBuf,
    mountpoint: PathBuf,
    mounted: Option<Mounted>,
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
        let mut volume = Volume { mountpoint: base.join("mount"), base, mounted: None };
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
        let image = self.base.join("image").display().to_string();
        let (program, package) = match kind {
            Kind::Tmpfs { inodes } => {
                let inodes = inodes.map_or(String::new(), |inodes| format!(",nr_inodes={inodes}"));
                self.mounted = Some(Mounted::new(&["-t", "tmpfs", "-o", &format!("size={size}{inodes}"), "haul-test"], &self.mountpoint)?);
                return Ok(());
            }
            Kind::Ext4 { .. } => ("mkfs.ext4", "e2fsprogs"),
            Kind::Xfs => ("mkfs.xfs", "xfsprogs"),
            Kind::Btrfs { .. } => ("mkfs.btrfs", "btrfs-progs"),
        };
        fs::File::create(&image)?.set_len(size)?;
        run(program, package, &["-q", &image])?;
        let options = match kind {
            Kind::Ext4 { mount_options } if !mount_options.is_empty() => format!("loop,{mount_options}"),
            _ => "loop".to_owned(),
        };
        self.mounted = Some(Mounted::new(&["-o", &options, &image], &self.mountpoint)?);
        if let Kind::Btrfs { quota: Some(limit) } = kind {
            let target = self.mountpoint.display().to_string();
            run("btrfs", "btrfs-progs", &["quota", "enable", &target])?;
            run("btrfs", "btrfs-progs", &["qgroup", "limit", &limit.to_string(), "0/5", &target])?;
        }
        Ok(())
    }
}

/// What is mounted at a directory, until this is dropped: lazily unmounted when something is still open.
#[derive(Debug)]
pub struct Mounted(String);

impl Mounted {
    /// `arguments` of `mount` in front of the directory.
    pub fn new(arguments: &[&str], at: &Path) -> io::Result<Mounted> {
        let at = at.display().to_string();
        run("mount", "mount", &[arguments, &[&at]].concat())?;
        Ok(Mounted(at))
    }

    /// A directory of this machine under a second name.
    #[track_caller]
    pub fn bind(from: &Path, at: &Path) -> Mounted {
        Mounted::new(&["--bind", &from.display().to_string()], at).expect("mounted: root")
    }

    /// A tmpfs with these options.
    #[track_caller]
    pub fn tmpfs(at: &Path, options: &str) -> Mounted {
        Mounted::new(&["-t", "tmpfs", "-o", options, "none"], at).expect("mounted: root")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if run("umount", "mount", &[&self.0]).is_err() {
            // It may be gone.
            let _ = run("umount", "mount", &["-l", &self.0]);
        }
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
        drop(self.mounted.take());
        // One by one, never recursively: were it still mounted, that would empty the volume through its mount point.
        let _ = fs::remove_dir(&self.mountpoint);
        let _ = fs::remove_file(self.base.join("image"));
        let _ = fs::remove_dir(&self.base);
    }
}

fn run(program: &str, package: &str, arguments: &[&str]) -> io::Result<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::new(ErrorKind::NotFound, format!("{program} is missing: install the package {package}")),
        _ => io::Error::new(error.kind(), format!("{program}: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}
