//! Small files, many a call: eight system calls a file in all where nothing but mode and time is kept.

use std::sync::Arc;
use std::time::Instant;

use haul_core::bundle::{Bundle, Item, Laps, Outcome, Spent};
use haul_core::entry::{Dir, Entry, Kind, MetaMask};
use haul_core::error::{Error, Result};
use haul_core::store::WriteOutcome;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;

use super::copy::{close, write_all};
use super::dirs::{Handle, leaf_of};
use super::facts::{Facts, look, look_at};
use super::meta::{self, Now, Target};
use super::sink::{WRITE, another_writes, put_in_place, stage};
use super::source::{changed, compare, drop_cache, endless, open_file};
use super::token::{Birth, birth_and_size, is_same};
use super::xattr;
use super::{Shared, fail};

/// Bytes that are read at first of a file of unknown size.
const GUESS: usize = 16 * 1024;

/// Bytes of files of unknown size that a bundle takes at the most.
const GENERATED_MOST: usize = 64 << 20;

/// More files than this are synced by one `syncfs` instead of one by one.
pub(super) const SYNC_EACH: usize = 8;

/// The directory of the item before: bundles come from few directories.
#[derive(Default)]
struct Last(Option<(u64, Arc<Handle>)>);

impl Last {
    fn get(&mut self, shared: &Shared, dir: &Dir) -> Result<Arc<Handle>> {
        match &self.0 {
            Some((id, handle)) if *id == dir.id() => Ok(handle.clone()),
            _ => {
                let handle = shared.dirs.get(dir)?;
                self.0 = Some((dir.id(), handle.clone()));
                Ok(handle)
            }
        }
    }
}

/// A file that waits under its staging name until its data are on the medium.
struct Staged {
    index: usize,
    handle: Arc<Handle>,
    staging: Vec<u8>,
    born: Birth,
    size: u64,
}

impl Staged {
    /// Another run may have put its own file under the name, which both derive. With the freed inode and in the same moment it may
    /// look identical; then it has at least the expected length.
    fn is_ours(&self) -> bool {
        birth_and_size(&*self.handle, &self.staging).is_ok_and(|(born, size)| is_same(born, self.born) && size == self.size)
    }
}

/// The result of reading one file of a bundle.
enum Got {
    Read(Facts),
    /// It came without a size and is no small file: nothing was read.
    TooLarge(Facts),
}

impl Shared {
    pub(super) fn get_bundle(&self, bundle: &mut Bundle, most: usize) {
        let listed = usize::try_from(bundle.listed_bytes()).unwrap_or(usize::MAX).min(most);
        bundle.data.reserve(listed + bundle.items.len().max(1));
        let Bundle { items, data, keep, follow, past_caches, spent, .. } = bundle;
        let mut last = Last::default();
        let (begun, mut sample) = (Instant::now(), Spent::default());
        for (index, item) in items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Listed)).enumerate() {
            let start = data.len();
            let laps = Laps::new(index, &mut sample);
            let got = last
                .get(self, &item.entry.name.dir)
                .and_then(|handle| self.get_file(&handle, &mut item.entry, data, most, (*keep, *follow, *past_caches), laps));
            match got {
                Ok(Got::Read(facts)) => {
                    facts.fill(&mut item.entry);
                    item.at = start..data.len();
                    item.outcome = Outcome::Read;
                }
                Ok(Got::TooLarge(facts)) => {
                    facts.fill(&mut item.entry);
                    data.truncate(start);
                }
                Err(error) => {
                    data.truncate(start);
                    item.outcome = Outcome::Failed(error.on(&item.entry.name));
                }
            }
        }
        spent.add_share(begun.elapsed(), sample);
    }

    /// open, read, fstat, close. The look behind the read proves that what was read is one version.
    fn get_file(
        &self,
        handle: &Handle,
        entry: &mut Entry,
        data: &mut Vec<u8>,
        most: usize,
        (keep, follow, past_caches): (MetaMask, bool, bool),
        mut laps: Laps<'_>,
    ) -> Result<Got> {
        leaf_of(&entry.name.leaf, "open")?;
        let fd = open_file(handle, &entry.name.leaf, follow)?;
        if past_caches {
            drop_cache(&fd)?;
        }
        laps.lap(|spent| &mut spent.metadata);
        let start = data.len();
        let bare = entry.is_bare();
        let mut expected = if bare { GUESS } else { usize::try_from(entry.size).unwrap_or(usize::MAX) };
        let mut listed = (!bare).then(|| entry.stamp());
        let mut tries = 0;
        let facts = loop {
            if expected > most {
                return Err(changed("read", "it is no longer a small file"));
            }
            // One byte more shows that it has grown; some files of the kernel give only whole words.
            let count = read_up_to(&fd, data, (expected + 1).next_multiple_of(8)).map_err(|e| match e {
                Errno::ISDIR | Errno::AGAIN | Errno::INVAL => changed("read", "it is no longer a regular file"),
                e => fail(e, "read"),
            })?;
            laps.lap(|spent| &mut spent.reading);
            let facts = look_at(&fd).map_err(|e| fail(e, "stat"))?;
            if facts.kind != Kind::File {
                return Err(changed("read", "it is no longer a regular file"));
            }
            let same = compare(&facts, listed);
            if bare && tries == 0 && facts.size > most as u64 {
                return Ok(Got::TooLarge(facts));
            }
            if same.is_ok() && count as u64 == facts.size {
                break facts;
            }
            // Once more as it is now; a bare entry that is longer than the guess has only now got a size.
            if tries > 0 && same.is_ok() && facts.stored == 0 {
                data.truncate(start);
                break read_generated(&fd, data, facts)?;
            }
            if tries > 0 {
                return Err(same.err().unwrap_or_else(|| changed("read", "it changed while it was read")));
            }
            tries += 1;
            data.truncate(start);
            listed = Some(facts.stamp());
            expected = usize::try_from(facts.size).unwrap_or(usize::MAX);
        };
        if keep.any(xattr::ALL) {
            let found = xattr::read_fd(&fd, keep, self.rules.privileged).map_err(|e| fail(e, "read extended attributes"))?;
            entry.have = entry.have.with(keep.and(xattr::ALL));
            entry.xattrs = Some(Box::new(found));
        }
        drop(fd);
        laps.lap(|spent| &mut spent.metadata);
        Ok(Got::Read(facts))
    }

    pub(super) fn put_bundle(&self, bundle: &mut Bundle) {
        let Bundle { items, data, keep, direct, sync, spent, .. } = bundle;
        let mut last = Last::default();
        let mut staged = Vec::new();
        let mut touched: Vec<(u64, Arc<Handle>)> = Vec::new();
        let (begun, mut sample) = (Instant::now(), Spent::default());
        for (index, item) in items.iter_mut().enumerate().filter(|(_, item)| matches!(item.outcome, Outcome::Read)) {
            let bytes = &data[item.at.clone()];
            let mut laps = Laps::new(index, &mut sample);
            let put = last.get(self, &item.entry.name.dir).and_then(|handle| {
                let dir = item.entry.name.dir.id();
                if *sync && touched.last().is_none_or(|(id, _)| *id != dir) {
                    touched.push((dir, handle.clone()));
                }
                let (landed, staging, born) = self.put_file(&handle, &item.entry, bytes, *keep, (*direct, *sync), &mut laps)?;
                match (staging, born) {
                    // Data must be on the medium before its name is, or a crash leaves a name with nothing in it.
                    (Some(staging), Some(born)) => {
                        staged.push(Staged { index, handle, staging, born, size: bytes.len() as u64 });
                    }
                    (Some(staging), None) => self.name_file(&handle, &item.entry, &staging, &mut laps)?,
                    (None, _) => {}
                }
                Ok(landed)
            });
            item.outcome = match put {
                Ok(landed) => Outcome::Written(landed),
                Err(error) => Outcome::Failed(error.on(&item.entry.name)),
            };
        }
        spent.add_share(begun.elapsed(), sample);
        if *sync && !touched.is_empty() {
            let begun = Instant::now();
            self.sync_bundle(items, &staged, &touched);
            spent.writing += begun.elapsed();
        }
    }

    /// One `syncfs` for the data (of each file system: directories of a bundle may be mount points), the names,
    /// one `fsync` a directory for the names.
    fn sync_bundle(&self, items: &mut [Item], staged: &[Staged], touched: &[(u64, Arc<Handle>)]) {
        let mut done = sync_each_file_system(touched.iter().map(|(_, handle)| &**handle));
        for one in staged {
            let item = &mut items[one.index];
            let named = match &done {
                _ if !one.is_ours() => Err(another_writes()),
                Ok(()) => self.name_file(&one.handle, &item.entry, &one.staging, &mut Laps::none()),
                Err(e) => {
                    remove_ours(&one.handle, &one.staging, None);
                    Err(fail(*e, "sync"))
                }
            };
            if let Err(error) = named {
                item.outcome = Outcome::Failed(error.on(&item.entry.name));
            }
        }
        if done.is_ok() && !staged.is_empty() {
            done = touched.iter().try_for_each(|(_, handle)| rustix::fs::fsync(&**handle));
        }
        if let Err(e) = done {
            for item in items.iter_mut().filter(|item| matches!(item.outcome, Outcome::Written(_))) {
                item.outcome = Outcome::Failed(fail(e, "sync").on(&item.entry.name));
            }
        }
    }

    /// Writes one file. Also returns the staging name that it still has, and if it is to be synced before the rename, which
    /// file that is.
    fn put_file(
        &self,
        handle: &Handle,
        entry: &Entry,
        bytes: &[u8],
        keep: MetaMask,
        (direct, sync): (bool, bool),
        laps: &mut Laps<'_>,
    ) -> Result<(WriteOutcome, Option<Vec<u8>>, Option<Birth>)> {
        let leaf = leaf_of(&entry.name.leaf, "create")?;
        let inherits = self.inherits_acl(handle);
        let mut wanted = self.rules.new_mode(entry, keep, inherits);
        let mut mode = self.rules.creation_mode(wanted, entry, keep, inherits.is_some());
        let direct = if direct {
            match openat(handle, leaf, WRITE | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(mode)) {
                Ok(fd) => Some(fd),
                Err(Errno::EXIST) => None, // somebody was faster: its file is replaced whole
                Err(e) => return Err(fail(e, "create")),
            }
        } else {
            None
        };
        let (fd, staging) = match direct {
            Some(fd) => (fd, None),
            None => {
                if !keep.has(MetaMask::MODE)
                    && let Ok(old) = look(handle, leaf, false)
                    && old.kind == Kind::File
                {
                    wanted = old.mode & 0o777;
                    mode = 0o600;
                }
                let staging = self.staging_leaf(leaf, entry.stamp());
                (stage(handle, &staging, mode, None)?, Some(staging))
            }
        };
        laps.lap(|spent| &mut spent.metadata);
        let now = Now { facts: None, mode: mode & !self.rules.umask, otherwise: wanted, fresh: true, inherited: inherits.is_some() };
        let filled = match sync.then(|| birth_and_size(&fd, b"").map(|(born, _empty)| born)).transpose() {
            Ok(born) => self.fill_file(fd, entry, bytes, keep, now, laps).map(|landed| (landed, born)),
            Err(e) => Err((fail(e, "stat"), None)),
        };
        match filled {
            Ok((landed, born)) => Ok((landed, staging, born)),
            Err((error, ours)) => {
                remove_ours(handle, staging.as_deref().unwrap_or(leaf), ours);
                Err(error)
            }
        }
    }

    /// Content, attributes, close. A failure comes with what the file was, so that just this one is removed.
    fn fill_file(
        &self,
        fd: OwnedFd,
        entry: &Entry,
        bytes: &[u8],
        keep: MetaMask,
        now: Now,
        laps: &mut Laps<'_>,
    ) -> Result<WriteOutcome, (Error, Option<Facts>)> {
        let ours = |fd: &OwnedFd| look_at(fd).ok();
        if let Err(e) = write_from_start(&fd, bytes) {
            return Err((fail(e, "write"), ours(&fd)));
        }
        laps.lap(|spent| &mut spent.writing);
        let landed = match meta::set(&Target::Open(fd.as_fd()), entry, keep, now, &self.rules) {
            Ok((landed, _)) => landed,
            Err(error) => return Err((error, ours(&fd))),
        };
        // Nothing is known of the file once close has failed.
        let facts = if self.file_system.speaks_at_close { ours(&fd) } else { None };
        let closed = close(fd).map_err(|e| (fail(e, "write"), facts));
        laps.lap(|spent| &mut spent.metadata);
        closed.map(|()| landed)
    }

    fn name_file(&self, handle: &Handle, entry: &Entry, staging: &[u8], laps: &mut Laps<'_>) -> Result<()> {
        let named = put_in_place(handle, staging, &entry.name.leaf).inspect_err(|_| remove_ours(handle, staging, None));
        laps.lap(|spent| &mut spent.metadata);
        named
    }
}

/// Removes what a failed write left, unless another file has the name by now.
fn remove_ours(handle: &Handle, leaf: &[u8], ours: Option<Facts>) {
    let same = |ours: Facts| look(handle, leaf, false).is_ok_and(|there| (there.ino, there.dev) == (ours.ino, ours.dev));
    if ours.is_none_or(same) {
        // What cannot be removed stays.
        let _ = unlinkat(handle, leaf, AtFlags::empty());
    }
}

/// `syncfs` once for each file system among the directories. On kernels before 5.8 it does not tell of errors
/// in writing back; none of the calls that do is cheaper than `fsync` of each file.
pub(super) fn sync_each_file_system<'a>(handles: impl Iterator<Item = &'a Handle>) -> rustix::io::Result<()> {
    let mut done = Vec::new();
    for handle in handles {
        let device = look_at(handle)?.dev;
        if !done.contains(&device) {
            rustix::fs::syncfs(handle)?;
            done.push(device);
        }
    }
    Ok(())
}

/// A new file's content at its start: one `write`.
fn write_from_start(fd: &OwnedFd, bytes: &[u8]) -> rustix::io::Result<()> {
    if bytes.is_empty() { Ok(()) } else { write_all(fd, bytes, 0) }
}

/// Appends the content of a file that the kernel generates, whose size says nothing: 0 in `/proc`, a page in `/sys`. It has no
/// blocks and looks the same before and after.
fn read_generated(fd: &OwnedFd, data: &mut Vec<u8>, listed: Facts) -> Result<Facts> {
    let start = data.len();
    loop {
        let at = data.len() - start;
        if data.len() > GENERATED_MOST {
            return Err(endless());
        }
        data.reserve(GUESS);
        let spare = &mut data.spare_capacity_mut()[..GUESS];
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut *spare, at as u64).map(|(filled, _)| filled.len()));
        let count = read.map_err(|e| fail(e, "read"))?;
        // SAFETY: the call has initialised this many bytes behind the old length, within the capacity.
        unsafe { data.set_len(start + at + count) };
        if count == 0 {
            break;
        }
    }
    let facts = look_at(fd).map_err(|e| fail(e, "stat"))?;
    compare(&facts, Some(listed.stamp()))?;
    Ok(Facts { size: (data.len() - start) as u64, ..facts })
}

/// Appends at most `most` bytes from the start of the file by one call: a read of a regular file is short only at its end;
/// otherwise the size found behind it differs.
fn read_up_to(fd: &OwnedFd, data: &mut Vec<u8>, most: usize) -> rustix::io::Result<usize> {
    let start = data.len();
    data.reserve(most);
    let spare = &mut data.spare_capacity_mut()[..most];
    let count = match rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut *spare, 0).map(|(filled, _)| filled.len())) {
        Err(Errno::SPIPE) => return Err(Errno::INVAL), // a fifo has no places
        count => count?,
    };
    // SAFETY: the call has initialised this many bytes behind the old length, within the capacity.
    unsafe { data.set_len(start + count) };
    Ok(count)
}
