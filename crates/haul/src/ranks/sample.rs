//! Whether all ranks read one tree: they compare some entries that the first one names.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::meeting::Kind;
use haul_run::open::path_of;

/// Entries of one place, and of one directory in it; places.
const ENTRIES: usize = 32;
const OF_DIRECTORY: usize = 12;
const PLACES: usize = 16;
/// Files of which content is read, and bytes at each of their ends.
const READ: usize = 8;
const BYTES: usize = 4096;

/// File systems whose inode numbers and times of change are those of one node: FUSE, 9P, CIFS, SMB2, overlay.
const OF_ONE_NODE: [u64; 5] = [0x6573_5546, 0x0102_1997, 0xFF53_4D42, 0xFE53_4D42, 0x794C_7630];

/// An entry of the sample, as the first rank sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    pub path: Vec<u8>,
    /// `None` for what has vanished.
    pub facts: Option<Facts>,
    /// Of a file whose content is compared, too.
    reads: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    kind: Kind,
    /// Number, and of a file the time of the last change, where they are the same on all nodes.
    inode: Option<(u64, Option<i128>)>,
    /// Size and time of a file.
    version: Option<(u64, i128)>,
    /// Of both ends.
    content: Option<String>,
}

impl Facts {
    fn agree(&self, other: &Facts) -> bool {
        fn same<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        self.kind == other.kind
            && same(self.inode.as_ref(), other.inode.as_ref())
            && same(self.version.as_ref(), other.version.as_ref())
            && same(self.content.as_ref(), other.content.as_ref())
    }
}

/// Looks at entries.
#[derive(Default)]
pub struct Sampler {
    /// Devices, and whether their inode numbers are the same on all nodes.
    devices: BTreeMap<u64, bool>,
}

impl Sampler {
    /// Some entries of the places. With `reads` content is compared, too.
    pub fn take(&mut self, places: &[PathBuf], reads: bool) -> Vec<Sampled> {
        let mut sample = Vec::new();
        for place in places.iter().take(PLACES) {
            let (mut left, mut read) = (ENTRIES, if reads { READ } else { 0 });
            // With a slash a link to a directory is that directory.
            let top = if place.is_dir() { place.join("") } else { place.clone() };
            let mut waiting = VecDeque::from([top]);
            while let Some(path) = waiting.pop_front().filter(|_| left > 0) {
                left -= 1;
                let mut sampled = Sampled { path: path.as_os_str().as_encoded_bytes().to_vec(), facts: None, reads: read > 0 };
                sampled.facts = self.look(&sampled);
                read -= usize::from(sampled.facts.as_ref().is_some_and(|facts| facts.content.is_some()));
                if sampled.facts.as_ref().is_some_and(|facts| facts.kind == Kind::Directory) {
                    waiting.extend(names(&path));
                }
                sample.push(sampled);
            }
        }
        sample
    }

    /// What this rank sees otherwise, by its place in the sample.
    pub fn differing(&mut self, sample: &[Sampled]) -> Vec<(usize, Option<Facts>)> {
        let looked: Vec<_> = sample.iter().map(|sampled| (sampled, self.look(sampled))).collect();
        let differs = |(at, (sampled, here)): (usize, (&Sampled, Option<Facts>))| {
            (!agree(sampled.facts.as_ref(), here.as_ref())).then_some((at, here))
        };
        looked.into_iter().enumerate().filter_map(differs).collect()
    }

    /// Whether this entry is another one for the rank that sees `there`, and has not merely changed since the sample was taken.
    pub fn is_another(&mut self, sampled: &Sampled, there: Option<&Facts>) -> bool {
        let now = self.look(sampled);
        now == sampled.facts && !agree(now.as_ref(), there)
    }

    fn look(&mut self, sampled: &Sampled) -> Option<Facts> {
        let path = path_of(&sampled.path);
        let facts = path.symlink_metadata().ok()?;
        let opened = facts.is_file().then(|| open(&path)).flatten();
        // What is opened is asked for at the server, where an NFS client shows what it remembers.
        let facts = opened.as_ref().and_then(|file| file.metadata().ok()).unwrap_or(facts);
        let is_shared = *self.devices.entry(facts.dev()).or_insert_with(|| is_shared(&path));
        let time = |secs: i64, nanos: i64| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        Some(Facts {
            kind: Kind::of(&facts),
            inode: is_shared.then(|| (facts.ino(), opened.is_some().then(|| time(facts.ctime(), facts.ctime_nsec())))),
            version: opened.is_some().then(|| (facts.size(), time(facts.mtime(), facts.mtime_nsec()))),
            content: opened.filter(|_| sampled.reads).and_then(|file| ends(&file, &facts)),
        })
    }
}

fn agree(one: Option<&Facts>, other: Option<&Facts>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.agree(other),
        (one, other) => one == other,
    }
}

/// The first names of a directory; unfinished files of other runs come and go.
fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| !haul_core::store::staging::is_staging(entry.file_name().as_encoded_bytes()));
    named.take(OF_DIRECTORY).map(|entry| entry.path()).collect()
}

fn open(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()
}

fn is_shared(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|system| !OF_ONE_NODE.contains(&(system.f_type as u64 & 0xFFFF_FFFF)))
}

/// A fingerprint of both ends. What has no blocks may be on tape: it is not read.
fn ends(file: &File, facts: &Metadata) -> Option<String> {
    if facts.blocks() == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(BYTES as u64).read_to_end(&mut bytes).ok()?;
    let mut last = vec![0; BYTES];
    let length = file.read_at(&mut last, facts.size().saturating_sub(BYTES as u64)).ok()?;
    bytes.extend_from_slice(&last[..length]);
    Some(super::meeting::short(&bytes))
}
