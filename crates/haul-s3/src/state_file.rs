//! A file in haul's state directory that is replaced as a whole: readers, also on other machines, need no lock.

use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between the name of a file and what tells the new ones from each other.
const NEW: &str = ".new-";

/// A new file that was not written to for this long has lost its writer, on whatever machine that was.
const ABANDONED: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub struct StateFile {
    dir: PathBuf,
    name: String,
}

impl StateFile {
    /// Below `state`, haul's state directory.
    pub fn new(state: &Path, id: u128) -> StateFile {
        StateFile { dir: state.join("objects"), name: format!("{id:032x}") }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    pub fn make_dir(&self) -> io::Result<&Path> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        Ok(&self.dir)
    }

    /// Replaces the file by what `write` writes; on an error the old one stays. It is not synced: a reader must be able to tell a
    /// damaged one.
    pub fn replace(&self, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        let new = self.make_dir()?.join(format!("{}{NEW}{:016x}", self.name, random()));
        replace(&new, &self.path(), |file| write(file).map(|()| self.clean(file)))
    }

    /// Removes what killed processes left, by the clock of the file system that has just written `new`.
    fn clean(&self, new: &File) {
        let Ok(now) = new.metadata().and_then(|meta| meta.modified()) else { return };
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let is_new = entry.file_name().to_str().is_some_and(|name| name.contains(NEW));
            let written = entry.metadata().and_then(|meta| meta.modified());
            if is_new && written.is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age > ABANDONED)) {
                // The next one to write tries again.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Replaces a file that others read, too, with a secret; its directory is created. On an error the old one stays.
pub fn replace_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or_else(|| io::Error::other("no directory"))?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    replace(&dir.join(format!(".haul-{:016x}", random())), path, |mut file| file.write_all(bytes))
}

fn replace(new: &Path, path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(new)?;
    let replaced = write(&file).and_then(|()| std::fs::rename(new, path));
    if replaced.is_err() {
        // The error says more than that this failed, too.
        let _ = std::fs::remove_file(new);
    }
    replaced
}
