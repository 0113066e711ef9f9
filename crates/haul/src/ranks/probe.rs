//! Whether all ranks write into one directory: each finds the file that the first one makes there, and the first one those of all.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_core::hash::xxh128;
use haul_run::open::path_of;
use serde::{Deserialize, Serialize};

/// A file that another node has made may take a moment to show.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// One file for each rank. They have names of staging files: what a killed run leaves is never taken for a file of the destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    directory: Vec<u8>,
    content: String,
}

impl Probe {
    /// In the destination, or where that does not exist in the nearest directory above it.
    pub fn new(destination: &Path) -> Option<Probe> {
        let directory = destination.ancestors().find(|path| path_of(path.as_os_str().as_encoded_bytes()).is_dir())?;
        let content = [0, 1].map(|half| format!("{:016x}", RandomState::new().hash_one(half))).concat();
        Some(Probe { directory: directory.as_os_str().as_encoded_bytes().to_vec(), content })
    }

    /// # Errors
    /// Of the file system: this rank may not write here.
    pub fn make(&self, rank: u32) -> io::Result<Made> {
        let directory = path_of(&self.directory);
        let modified = directory.metadata().and_then(|facts| facts.modified());
        let path = self.path(rank);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let made = Made { path, directory, modified: modified.ok() };
        file.write_all(self.content.as_bytes())?;
        Ok(made)
    }

    /// Whether the file of another rank is here.
    pub fn sees(&self, rank: u32) -> bool {
        (0..LOOKS).any(|look| {
            if look > 0 {
                std::thread::sleep(PAUSE);
            }
            fs::read(self.path(rank)).is_ok_and(|content| content == self.content.as_bytes())
        })
    }

    /// The file of a rank that has been seen is in the way of nothing else.
    pub fn remove(&self, rank: u32) {
        // Its own rank tries, too.
        let _ = fs::remove_file(self.path(rank));
    }

    pub fn directory(&self) -> String {
        haul_core::entry::show(path_of(&self.directory).as_os_str().as_encoded_bytes())
    }

    fn path(&self, rank: u32) -> PathBuf {
        path_of(&self.directory).join(format!(".haul-{:032x}", xxh128(format!("{}/{rank}", self.content).as_bytes())))
    }
}

/// The file of this rank. It is removed with this, and the directory has its old time again.
pub struct Made {
    path: PathBuf,
    directory: PathBuf,
    modified: Option<SystemTime>,
}

impl Drop for Made {
    fn drop(&mut self) {
        let removed = fs::remove_file(&self.path);
        // Only its owner may set the time. A rank whose file the first one has removed leaves the time to that one.
        if let (Ok(()), Some(modified)) = (removed, self.modified) {
            let _ = File::open(&self.directory).and_then(|directory| directory.set_times(FileTimes::new().set_modified(modified)));
        }
    }
}
