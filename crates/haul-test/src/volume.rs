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

impl Volume {
    /// ext4 with default features, of at most `size` bytes, mounted at a fresh directory. It holds `lost+found`.
    ///
    /// Errors: of all of these, the name of a program that is missing and its Debian package, or what a program said.
    pub fn ext4(size: u64) -> io::Result<Volume> {
        Volume::on_a_loop("mkfs.ext4", "e2fsprogs", size)
    }

    /// XFS with default features, at least 300 MiB.
    pub fn xfs(size: u64) -> io::Result<Volume> {
        Volume::on_a_loop("mkfs.xfs", "xfsprogs", size)
    }

    /// Btrfs with default features, at least 110 MiB.
    pub fn btrfs(size: u64) -> io::Result<Volume> {
        Volume::on_a_loop("mkfs.btrfs", "btrfs-progs", size)
    }

    /// Btrfs with a qgroup limit on the whole volume in bytes: what goes beyond fails with EDQUOT.
    pub fn btrfs_with_quota(size: u64, limit: u64) -> io::Result<Volume> {
        let volume = Volume::btrfs(size)?;
        let target = volume.mountpoint.display().to_string();
        run("btrfs", "btrfs-progs", &["quota", "enable", &target])?;
        run("btrfs", "btrfs-progs", &["qgroup", "limit", &limit.to_string(), "0/5", &target])?;
        Ok(volume)
    }

    /// tmpfs; `size` is rounded up to whole pages.
    pub fn tmpfs(size: u64) -> io::Result<Volume> {
        Volume::made(|_| Ok(vec!["-t".into(), "tmpfs".into(), "-o".into(), format!("size={size}"), "haul-test".into()]))
    }

    /// tmpfs that holds so many inodes.
    pub fn few_inodes(size: u64, inodes: u64) -> io::Result<Volume> {
        let options = format!("size={size},nr_inodes={inodes}");
        Volume::made(|_| Ok(vec!["-t".into(), "tmpfs".into(), "-o".into(), options, "haul-test".into()]))
    }

    fn on_a_loop(program: &str, package: &str, size: u64) -> io::Result<Volume> {
        Volume::made(|image| {
            let name = image.display().to_string();
            fs::File::create(image)?.set_len(size)?;
            run(program, package, &["-q", &name])?;
            Ok(vec!["-o".into(), "loop".into(), name])
        })
    }

    /// Mounts with the arguments of `mount` that are made for the path of an image.
    fn made(arguments: impl FnOnce(&Path) -> io::Result<Vec<String>>) -> io::Result<Volume> {
        let base = tempfile::Builder::new().prefix("haul-volume-").tempdir()?.keep();
        let mut volume = Volume { mountpoint: base.join("mount"), base, mounted: None };
        fs::create_dir(&volume.mountpoint)?;
        let arguments = arguments(&volume.base.join("image"))?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        volume.mounted = Some(Mounted::new(&arguments, &volume.mountpoint)?);
        Ok(volume)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mountpoint
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
