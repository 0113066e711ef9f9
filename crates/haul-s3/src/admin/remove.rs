//! Removal in object stores: keys are removed in batches of 1,000, several at once, while the listing continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use haul_core::cancel::Cancel;
use haul_core::entry::{Time, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::pool::{Item, Pool, Stage};
use haul_core::store::Flow;
use haul_core::team::wire::{Cursor, put_bytes};

use super::scope::{Scope, What, nothing};
use crate::Bucket;
use crate::inventory::{Object, REMOVED_AT_ONCE, Unremoved, Version};

/// Concurrent requests of a process. A batch takes the service a second or so.
pub const BATCHES_AT_ONCE: usize = 8;
/// Uploads are abandoned one by one.
const UPLOADS_OF_A_BATCH: usize = 16;

/// Whether an object is meant, by its path below the place.
pub type Admit<'a> = &'a (dyn Fn(&[u8], &Object) -> bool + Sync);

#[derive(Clone, Copy)]
pub struct Rm<'a> {
    pub recursive: bool,
    pub force: bool,
    /// A missing name is no failure.
    pub quiet_missing: bool,
    pub dry: bool,
    /// Every version, for good.
    pub versions: bool,
    /// This one, for good.
    pub version: Option<&'a str>,
    /// Only what it admits; `None` admits all.
    pub admit: Option<Admit<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub enum Gone<'a> {
    /// And its version; empty for the latest.
    Key(&'a [u8], &'a str),
    /// An unfinished upload for a key, and its id.
    Upload(&'a [u8], &'a str),
    Bucket,
}

/// What came of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub failures: u64,
    /// Directories that matched and were left alone.
    pub left_dirs: u64,
}

/// Receives what failed, and each that was removed.
#[derive(Clone, Copy)]
pub struct Reporter<'a> {
    pub failed: &'a (dyn Fn(&Error) + Sync),
    pub each: &'a (dyn Fn(Gone<'_>) + Sync),
    /// Lets other processes remove batches, too; what they could not remove is added to the number.
    pub others: Option<&'a (dyn Fn(Arc<AtomicU64>) -> Stage + Sync)>,
}

pub struct Batch {
    uploads: bool,
    names: Vec<KeyVersion>,
}

/// A key, and a version or upload of it; an empty text is the latest version.
type KeyVersion = (Vec<u8>, String);

impl Item for Batch {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.uploads)];
        for (key, version) in &self.names {
            put_bytes(&mut out, key);
            put_bytes(&mut out, version.as_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Batch> {
        let mut from = Cursor(bytes);
        let (uploads, mut names) = (from.flag()?, Vec::new());
        while !from.is_empty() {
            names.push((from.bytes()?.to_vec(), from.text()?));
        }
        Some(Batch { uploads, names })
    }

    fn is_open(&self) -> bool {
        false
    }
}

impl Batch {
    /// Of what another process has sent, what belongs to the scope.
    pub fn within(mut self, scope: &Scope) -> Batch {
        self.names.retain(|(key, _)| scope.admits(key, true));
        self
    }

    pub fn remove(&self, scope: &Scope, reporter: Reporter<'_>) -> u64 {
        let abandon = |(key, id): &KeyVersion| scope.bucket().abort(key, id).err().map(|e| (key.clone(), id.clone(), e));
        let failed: Vec<Unremoved> = match self.uploads {
            true => self.names.iter().filter_map(abandon).collect(),
            false => scope.bucket().remove_keys(&self.names),
        };
        let is_gone = |removed: &&KeyVersion| !failed.iter().any(|(key, version, _)| *key == removed.0 && *version == removed.1);
        self.names.iter().filter(is_gone).for_each(|(key, version)| (reporter.each)(gone(self.uploads, key, version)));
        for (key, version, e) in &failed {
            let right = match version.is_empty() {
                _ if self.uploads => "s3:AbortMultipartUpload",
                true => "s3:DeleteObject",
                false => "s3:DeleteObjectVersion",
            };
            (reporter.failed)(&lacks(e.again(), right).at(&scope.address(key)));
        }
        failed.len() as u64
    }
}

fn gone<'a>(uploads: bool, key: &'a [u8], id: &'a str) -> Gone<'a> {
    if uploads { Gone::Upload(key, id) } else { Gone::Key(key, id) }
}

/// Takes what is to be removed, and hands it on in batches.
struct Batches<'a> {
    uploads: bool,
    names: Vec<KeyVersion>,
    give: mpsc::SyncSender<Batch>,
    dry: bool,
    reporter: Reporter<'a>,
    taken: u64,
    /// Objects that were not admitted.
    left: u64,
    /// Directories with markers that the last key was in.
    within: Vec<Within>,
}

/// A directory whose marker goes if nothing is kept in it, and something was removed.
struct Within {
    marker: Vec<u8>,
    removed: bool,
    kept: bool,
}

impl Batches<'_> {
    fn push(&mut self, key: Vec<u8>, version: String) -> Flow {
        self.taken += 1;
        if self.dry {
            (self.reporter.each)(gone(self.uploads, &key, &version));
            return Flow::Go;
        }
        self.names.push((key, version));
        let full = if self.uploads { UPLOADS_OF_A_BATCH } else { REMOVED_AT_ONCE };
        if self.names.len() < full { Flow::Go } else { self.flush() }
    }

    /// Takes an object if `how` admits it. With a choice, markers of directories go only where all that was in
    /// the directory has gone.
    fn push_admitted(&mut self, scope: &Scope, how: Rm<'_>, object: Object, version: String) -> Flow {
        let Some(admit) = how.admit else { return self.push(object.key, version) };
        let mut flow = self.leave(&object.key);
        let below = scope.below(&object.key);
        let is_admitted = admit(if below.is_empty() { leaf(&object.key) } else { below }, &object);
        if object.key.ends_with(b"/") && object.size == 0 {
            self.left += 1;
            if is_admitted && !below.is_empty() && version.is_empty() {
                self.within.push(Within { marker: object.key, removed: false, kept: false });
            } else {
                self.within.iter_mut().for_each(|dir| dir.kept = true);
            }
            return flow;
        }
        if is_admitted {
            self.within.iter_mut().for_each(|dir| dir.removed = true);
            if self.push(object.key, version) == Flow::Stop {
                flow = Flow::Stop;
            }
        } else {
            self.left += 1;
            self.within.iter_mut().for_each(|dir| dir.kept = true);
        }
        flow
    }

    /// Goes on to a key: directories that it is not in are over.
    fn leave(&mut self, key: &[u8]) -> Flow {
        let mut flow = Flow::Go;
        while let Some(dir) = self.within.pop_if(|dir| !key.starts_with(&dir.marker)) {
            if dir.removed && !dir.kept {
                self.left = self.left.saturating_sub(1);
                if self.push(dir.marker, String::new()) == Flow::Stop {
                    flow = Flow::Stop;
                }
            } else {
                self.within.iter_mut().for_each(|above| above.kept = true);
            }
        }
        flow
    }

    fn flush(&mut self) -> Flow {
        let names = std::mem::take(&mut self.names);
        // The others are gone only where one of them has panicked.
        if names.is_empty() || self.give.send(Batch { uploads: self.uploads, names }).is_ok() { Flow::Go } else { Flow::Stop }
    }
}

struct Named {
    taken: u64,
    left: u64,
    /// Of those that were taken.
    failures: u64,
}

/// Has `find` name what is to be removed, and removes it.
fn in_batches(
    scope: &Scope,
    uploads: bool,
    dry: bool,
    reporter: Reporter<'_>,
    find: &mut dyn FnMut(&mut Batches<'_>) -> Result<()>,
) -> Result<Named> {
    let failures: Arc<AtomicU64> = Arc::default();
    let stage = reporter.others.filter(|_| !dry).map(|stage| stage(failures.clone()));
    let (give, take) = mpsc::sync_channel::<Batch>(1);
    let take = Mutex::new(take);
    // One more that waits for the listing.
    let pool = Pool::new(BATCHES_AT_ONCE + 1, &Cancel::default(), &std::env::temp_dir(), stage);
    let remove = |batch: Batch| {
        failures.fetch_add(batch.remove(scope, reporter), Ordering::Relaxed);
    };
    let work = || {
        let done = pool.run_fed(&remove, &|| (), Some(&|| Ok(lock(&take).recv().ok().map(|batch| vec![batch]))));
        // The listing must not wait for those who have ended.
        lock(&take).iter().for_each(drop);
        done
    };
    let (taken, left) = std::thread::scope(|threads| {
        let mut batches = Batches { uploads, names: Vec::new(), give, dry, reporter, taken: 0, left: 0, within: Vec::new() };
        let removing = std::thread::Builder::new().name("haul-remove".into()).spawn_scoped(threads, work);
        let removing = removing.map_err(haul_core::rlimit::no_thread)?;
        let found = find(&mut batches);
        if found.is_ok() {
            // No key is in any of the directories: it is the last that is said of them.
            let _ = batches.leave(b"");
        }
        batches.flush();
        let Batches { taken, left, give, .. } = batches;
        drop(give);
        removing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        found.map(|()| (taken, left))
    })?;
    Ok(Named { taken, left, failures: failures.load(Ordering::Relaxed) })
}

fn refuse(path: &[u8], why: &str, hint: &str) -> Error {
    Error::new(ErrorKind::Usage, "remove").at(path).because(why.to_string()).hint(hint.to_string())
}

/// What a listing takes.
const LIST: &str = "s3:ListBucket";

/// The error, which names the right that is missing where access was denied.
fn lacks(e: Error, right: &str) -> Error {
    match e.kind() {
        ErrorKind::Denied => e.hint(format!("give the account the right {right}, or use another account (--profile)")),
        _ => e,
    }
}

pub fn rm(scope: &Scope, how: Rm<'_>, reporter: Reporter<'_>) -> Result<Removed> {
    let (bucket, what) = (scope.bucket(), &scope.what);
    if scope.is_whole(how.recursive) && how.recursive | matches!(what, What::Like(_)) && !how.force {
        return Err(refuse(&scope.path, "it is a whole bucket", "--force empties it all the same; `haul rb` removes a bucket"));
    }
    match what {
        What::Below(_) if !how.recursive => {
            let hint = "-r removes it with all that is in it, --raw just the object of this key";
            return Err(refuse(&scope.path, "is a directory", hint));
        }
        What::Key(key) if how.version.is_none() => {
            let exact = if how.versions {
                first_version(bucket, key)?.is_some_and(|first| first.object.key == *key)
            } else {
                match bucket.first(key) {
                    // Who may not look may delete what is named all the same.
                    Err(e) if e.kind() == ErrorKind::Denied && !how.recursive && how.admit.is_none() => true,
                    first => first.map_err(|e| lacks(e, LIST))?.is_some_and(|first| first.key == *key),
                }
            };
            if !exact {
                let prefix = [&key[..], b"/"].concat();
                let any = if how.versions { first_version(bucket, &prefix)?.is_some() } else { bucket.first(&prefix)?.is_some() };
                return match any {
                    // Only its slash makes a directory of an address, most of all where it is to be removed.
                    true => {
                        let e = Error::new(ErrorKind::NotFound, "remove").at(&scope.path).because("there is no object of this key");
                        let with = if how.recursive { "" } else { " (with -r)" };
                        Err(e.hint(format!("there are objects below it: {}/ names them{with}", show(&scope.path))))
                    }
                    false if how.quiet_missing => Ok(Removed::default()),
                    false => Err(scope.nothing()),
                };
            }
        }
        _ => {}
    }
    let mut left_dirs = 0;
    let Named { taken, left, failures } = in_batches(scope, false, how.dry, reporter, &mut |batches| {
        if let What::Key(key) = what
            && !how.versions
            && (how.version.is_some() || how.admit.is_none())
        {
            batches.push(key.clone(), how.version.unwrap_or_default().to_string());
            return Ok(());
        }
        let found = scope.each(how.versions, how.recursive, &mut |found| batches.push_admitted(scope, how, found.object, found.id));
        left_dirs = found.map_err(|e| if how.versions { e } else { lacks(e, LIST) })?;
        Ok(())
    })?;
    if taken == 0 && left == 0 && left_dirs == 0 && !how.quiet_missing && !scope.is_whole(true) {
        return Err(scope.nothing());
    }
    Ok(Removed { failures, left_dirs })
}

/// The last part of a key.
pub fn leaf(key: &[u8]) -> &[u8] {
    let end = key.strip_suffix(b"/").unwrap_or(key);
    &key[end.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)..]
}

/// The first version whose key begins with `prefix`: the key itself comes before all longer ones.
fn first_version(bucket: &Bucket, prefix: &[u8]) -> Result<Option<Version>> {
    let mut first = None;
    bucket.versions(prefix, &mut |versions| {
        first = versions.into_iter().next();
        Flow::Stop
    })?;
    Ok(first)
}

/// Abandons unfinished uploads that were begun before `older`, or all of them.
pub fn rm_uploads(scope: &Scope, older: Option<Time>, how: Rm<'_>, reporter: Reporter<'_>) -> Result<Removed> {
    if older.is_none() && scope.is_whole(true) && !how.force {
        let hint = "--older-than 7d leaves the younger ones alone; --force removes them all";
        return Err(refuse(&scope.path, "uploads of the whole bucket may be under way at this moment", hint));
    }
    uploads(scope, older, how.dry, reporter).map(|failures| Removed { failures, left_dirs: 0 })
}

fn uploads(scope: &Scope, older: Option<Time>, dry: bool, reporter: Reporter<'_>) -> Result<u64> {
    let named = in_batches(scope, true, dry, reporter, &mut |batches| {
        scope.bucket().uploads(scope.prefix(), &mut |uploads| {
            for upload in uploads.into_iter().filter(|upload| scope.admits(&upload.key, true)) {
                // One without a time may be of this moment.
                let old = older.is_none_or(|older| upload.initiated.is_some_and(|begun| begun < older));
                if old && batches.push(upload.key, upload.id) == Flow::Stop {
                    return Flow::Stop;
                }
            }
            Flow::Go
        })
    })?;
    Ok(named.failures)
}

/// Removes all that is in a bucket: versions, marks of deletion, objects, unfinished uploads.
fn empty(scope: &Scope, dry: bool, reporter: Reporter<'_>) -> Result<u64> {
    let all = |versions| {
        in_batches(scope, false, dry, reporter, &mut |batches| {
            scope.each(versions, true, &mut |found| batches.push(found.object.key, found.id)).map(drop)
        })
    };
    let objects = match all(true) {
        // Not every service knows versions.
        Err(e) if e.kind() == ErrorKind::Unsupported => all(false),
        other => other,
    };
    match (objects?.failures, uploads(scope, None, dry, reporter)) {
        (failures, Err(e)) if e.kind() == ErrorKind::Unsupported => Ok(failures),
        (failures, more) => more.map(|more| failures + more),
    }
}

/// Removes a bucket, and with `force` all that is in it first.
pub fn remove_bucket(scope: &Scope, force: bool, dry: bool, reporter: Reporter<'_>) -> Result<Removed> {
    let named = |e: Error| e.at(&scope.path);
    if force {
        let failures = empty(scope, dry, reporter).map_err(named)?;
        if failures > 0 {
            return Ok(Removed { failures, left_dirs: 0 });
        }
    }
    if dry {
        // What would go is said only of a bucket that is there.
        if !scope.bucket().exists().map_err(named)? {
            return Err(nothing(&scope.path, false));
        }
    } else if let Err(e) = scope.bucket().remove_bucket() {
        let full = e.kind() == ErrorKind::Exists && !force;
        let e = named(e);
        return Err(if full { e.hint("--force removes all that is in it first: objects, versions, unfinished uploads") } else { e });
    }
    (reporter.each)(Gone::Bucket);
    Ok(Removed::default())
}
