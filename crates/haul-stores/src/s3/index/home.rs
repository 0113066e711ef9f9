//! Where the file is, and how another takes its place.

use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between the name of a file and what tells the new ones from each other.
const NEW: &str = ".new-";

/// A new file that was not written to for this long has lost its writer, on whatever machine that was.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Names tried for a new file.
const NAME_ATTEMPTS: u32 = 100;

#[derive(Clone, Debug)]
pub(in crate::s3) struct Home {
    dir: PathBuf,
    name: String,
}

impl Home {
    pub fn new(dir: PathBuf, scope: u128) -> Home {
        Home { dir, name: format!("{scope:032x}") }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    pub fn make_dir(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }

    /// A file that nobody else writes.
    pub fn fresh(&self) -> io::Result<Fresh> {
        for _ in 0..NAME_ATTEMPTS {
            let path = self.dir.join(format!("{}{NEW}{:016x}", self.name, drawn()));
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path) {
                Ok(file) => return Ok(Fresh { file: Some(file), path, target: self.path() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a new file"))
    }

    /// Removes what killed processes left, of whatever bucket. `now` is the time of a file just written, so that the
    /// clock is that of the file system.
    pub fn clean(&self, now: std::time::SystemTime) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let is_new = entry.file_name().to_str().is_some_and(|name| name.contains(NEW));
            let written = entry.metadata().and_then(|meta| meta.modified());
            if is_new && written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age > ABANDONED)) {
                let _best_effort = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// A number that no other file has.
pub(super) fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A file that takes the place of the old one when it is committed, and is removed otherwise.
#[derive(Debug)]
pub(in crate::s3) struct Fresh {
    file: Option<File>,
    path: PathBuf,
    target: PathBuf,
}

impl Fresh {
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("it is there until the commit")
    }

    /// Closes the file, where a full disk may still speak, and renames it. It is not synced: after a crash of the
    /// machine its checksums tell.
    pub fn commit(mut self) -> io::Result<()> {
        let file = self.file.take().expect("it is there until the commit");
        if let Err(error) = close(file.into()).and_then(|()| std::fs::rename(&self.path, &self.target)) {
            let _best_effort = std::fs::remove_file(&self.path);
            return Err(error);
        }
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _best_effort = std::fs::remove_file(&self.path);
        }
    }
}

/// Closes for the answer: NFS and its like tell of a full disk or a quota only then.
fn close(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor was owned and is given up here; nobody else has its number.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // The descriptor is gone all the same.
            error if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            error => Err(error),
        },
    }
}
