//! Removal in object stores: keys are removed in batches of 1,000, several at once, while the listing continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use haul_core::entry::{Time, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::pool::{Feed, Item};
use haul_core::store::Flow;
use haul_core::team::wire::{Cursor, put_bytes};

use super::scope::{Match, Scope, What, nothing};
use crate::inventory::{Line, Object, REMOVED_AT_ONCE, Unremoved, Version};

/// Concurrent requests of a process. A batch takes the service a second or so.
pub const BATCHES_AT_ONCE: usize = 8;
/// Uploads are abandoned one by one.
const UPLOADS_OF_A_BATCH: usize = 16;

const KEYS: (usize, Kind) = (REMOVED_AT_ONCE, |key, version| Gone::Key(key, version));
const UPLOADS: (usize, Kind) = (UPLOADS_OF_A_BATCH, |key, id| Gone::Upload(key, id));

/// Whether an object is meant, by its path below the place.
pub type Admit<'a> = &'a (dyn Fn(&[u8], &Object) -> bool + Sync);

/// How to remove.
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

/// What is gone.
#[derive(Clone, Copy, Debug)]
pub enum Gone<'a> {
    /// And its version; empty for the latest.
    Key(&'a [u8], &'a str),
    /// An unfinished upload for a key, and its id.
    Upload(&'a [u8], &'a str),
    /// The bucket itself.
    Bucket,
}

/// What came of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// What could not be removed.
    pub failures: u64,
    /// Directories that matched and were left alone.
    pub left_dirs: u64,
}

/// Receives what failed, and each that was removed.
#[derive(Clone, Copy)]
pub struct Reporter<'a> {
    pub failed: &'a (dyn Fn(&Error) + Sync),
    pub each: &'a (dyn Fn(Gone<'_>) + Sync),
    /// Processes that remove batches, too.
    pub others: Option<&'a dyn Others>,
}

/// Other processes that remove batches. Sync, as they are asked beside the listing.
pub trait Others: Sync {
    /// Has all batches of `feed` removed, here by `own`. Returns how many names others could not remove.
    fn remove(&self, own: &(dyn Fn(Batch) + Sync), feed: Feed<'_, Batch>) -> Result<u64>;
}

/// Names that are removed together.
pub struct Batch {
    uploads: bool,
    names: Vec<KeyVersion>,
}

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

    /// Returns how many names are still there.
    pub fn remove(&self, scope: &Scope, reporter: Reporter<'_>) -> u64 {
        let (_, gone) = if self.uploads { UPLOADS } else { KEYS };
        let failed = if self.uploads { abandon(scope, &self.names) } else { scope.bucket().remove_keys(&self.names) };
        let is_gone = |removed: &&KeyVersion| !failed.iter().any(|(key, version, _)| *key == removed.0 && *version == removed.1);
        self.names.iter().filter(is_gone).for_each(|(key, version)| (reporter.each)(gone(key, version)));
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

fn abandon(scope: &Scope, batch: &[KeyVersion]) -> Vec<Unremoved> {
    let one = |(key, id): &KeyVersion| scope.bucket().abort(key, id).err().map(|e| (key.clone(), id.clone(), e));
    batch.iter().filter_map(one).collect()
}

/// A key, and a version or upload of it; an empty text is the latest version.
type KeyVersion = (Vec<u8>, String);

/// [`Gone::Key`] or [`Gone::Upload`].
type Kind = for<'a> fn(&'a [u8], &'a str) -> Gone<'a>;

/// Takes what is to be removed, and hands it on in batches.
struct Batches<'a> {
    batch: Vec<KeyVersion>,
    size: usize,
    give: mpsc::SyncSender<Vec<KeyVersion>>,
    dry: bool,
    gone: Kind,
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
            (self.reporter.each)((self.gone)(&key, &version));
            return Flow::Go;
        }
        self.batch.push((key, version));
        if self.batch.len() < self.size { Flow::Go } else { self.flush() }
    }

    /// The same for an object that is meant if `how` admits it. With a choice, markers of directories go only where all that was in
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
        let batch = std::mem::take(&mut self.batch);
        // The others are gone only where one of them has panicked.
        if batch.is_empty() || self.give.send(batch).is_ok() { Flow::Go } else { Flow::Stop }
    }
}

/// How many were named.
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
    let (size, gone) = if uploads { UPLOADS } else { KEYS };
    let failures = AtomicU64::new(0);
    let (give, take) = mpsc::sync_channel::<Vec<KeyVersion>>(1);
    let take = Mutex::new(take);
    let next = || take.lock().unwrap_or_else(PoisonError::into_inner).recv().ok().map(|names| Batch { uploads, names });
    let remove = |batch: Batch| {
        failures.fetch_add(batch.remove(scope, reporter), Ordering::Relaxed);
    };
    let others = reporter.others.filter(|_| !dry);
    let failed: Mutex<Option<Error>> = Mutex::default();
    let together = |others: &dyn Others| match others.remove(&remove, &|| Ok(next().map(|batch| vec![batch]))) {
        Ok(unremoved) => {
            failures.fetch_add(unremoved, Ordering::Relaxed);
        }
        Err(e) => {
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
            // The listing must not wait for those who have ended.
            while next().is_some() {}
        }
    };
    let work = || match others {
        Some(others) => together(others),
        None => {
            while let Some(batch) = next() {
                remove(batch);
            }
        }
    };
    let (found, taken, left) = std::thread::scope(|threads| {
        let mut batches = Batches { batch: Vec::new(), size, give, dry, gone, reporter, taken: 0, left: 0, within: Vec::new() };
        for _ in 0..if others.is_some() { 1 } else { BATCHES_AT_ONCE } {
            let spawned = std::thread::Builder::new().name("haul-remove".into()).spawn_scoped(threads, work);
            if let Err(e) = spawned {
                return (Err(haul_core::rlimit::no_thread(e)), 0, 0);
            }
        }
        let found = find(&mut batches);
        if found.is_ok() {
            // No key is in any of the directories: it is the last that is said of them.
            let _ = batches.leave(b"");
        }
        batches.flush();
        (found, batches.taken, batches.left)
    });
    if let Some(e) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(e);
    }
    found.map(|()| Named { taken, left, failures: failures.into_inner() })
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

fn is_directory(path: &[u8]) -> Error {
    refuse(path, "is a directory", "-r removes it with all that is in it, --raw just the object of this key")
}

/// Removes objects.
pub fn rm(scope: &Scope, how: Rm<'_>, reporter: Reporter<'_>) -> Result<Removed> {
    let bucket = scope.bucket();
    if scope.is_whole(how.recursive) && how.recursive | matches!(scope.what, What::Like(_)) && !how.force {
        return Err(refuse(&scope.path, "it is a whole bucket", "--force empties it all the same; `haul rb` removes a bucket"));
    }
    let what = &scope.what;
    match what {
        What::Below(_) if !how.recursive => return Err(is_directory(&scope.path)),
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
    let mut left_dirs = 0u64;
    let Named { taken, left, failures } = in_batches(scope, false, how.dry, reporter, &mut |batches| match what {
        What::Key(key) if !how.versions && how.version.is_none() && how.admit.is_some() => {
            if let Some(object) = bucket.first(key)?.filter(|first| first.key == *key) {
                batches.push_admitted(scope, how, object, String::new());
            }
            Ok(())
        }
        What::Key(key) if !how.versions => {
            batches.push(key.clone(), how.version.unwrap_or_default().to_string());
            Ok(())
        }
        _ if how.versions => all_versions(scope, what, how, batches),
        What::Below(prefix) => bucket.lines(prefix, false, &mut |lines| objects(scope, how, lines, batches)).map_err(|e| lacks(e, LIST)),
        What::Like(wild) => wild.walk(bucket, how.recursive, &mut |found| match found {
            Match::Line(Line::Object(object)) | Match::Within(Line::Object(object)) => {
                batches.push_admitted(scope, how, object, String::new())
            }
            Match::Line(Line::Prefix(_)) if !how.recursive && !wild.dirs => {
                left_dirs += 1;
                Flow::Go
            }
            Match::Line(Line::Prefix(_)) | Match::Within(Line::Prefix(_)) => Flow::Go,
        }),
        What::Key(_) => Ok(()),
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
fn first_version(bucket: &crate::Bucket, prefix: &[u8]) -> Result<Option<Version>> {
    let mut first = None;
    bucket.versions(prefix, &mut |versions| {
        first = versions.into_iter().next();
        Flow::Stop
    })?;
    Ok(first)
}

fn objects(scope: &Scope, how: Rm<'_>, lines: Vec<Line>, batches: &mut Batches<'_>) -> Flow {
    for line in lines {
        if let Line::Object(object) = line
            && batches.push_admitted(scope, how, object, String::new()) == Flow::Stop
        {
            return Flow::Stop;
        }
    }
    Flow::Go
}

fn all_versions(scope: &Scope, what: &What, how: Rm<'_>, batches: &mut Batches<'_>) -> Result<()> {
    let prefix = match what {
        What::Below(prefix) => prefix,
        _ => scope.prefix(),
    };
    scope.bucket().versions(prefix, &mut |versions| {
        for version in versions {
            let key = &version.object.key;
            let meant = match what {
                What::Key(own) => key == own,
                What::Below(prefix) => key.starts_with(prefix),
                What::Like(_) => scope.admits(key, how.recursive),
            };
            if meant && batches.push_admitted(scope, how, version.object, version.id) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Go
    })
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
    let bucket = scope.bucket();
    let Named { failures, .. } = in_batches(scope, true, dry, reporter, &mut |batches| {
        bucket.uploads(scope.prefix(), &mut |uploads| {
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
    Ok(failures)
}

/// Removes all that is in a bucket: versions, marks of deletion, objects, unfinished uploads.
fn empty(scope: &Scope, dry: bool, reporter: Reporter<'_>) -> Result<u64> {
    let bucket = scope.bucket();
    let how = Rm { recursive: true, force: true, quiet_missing: true, dry, versions: false, version: None, admit: None };
    let plain = || {
        in_batches(scope, false, dry, reporter, &mut |batches| bucket.lines(b"", false, &mut |lines| objects(scope, how, lines, batches)))
    };
    let versions = in_batches(scope, false, dry, reporter, &mut |batches| all_versions(scope, &scope.what, how, batches));
    let mut failures = match versions {
        // Not every service knows versions.
        Err(e) if e.kind() == ErrorKind::Unsupported => plain()?.failures,
        other => other?.failures,
    };
    failures += match uploads(scope, None, dry, reporter) {
        Err(e) if e.kind() == ErrorKind::Unsupported => 0,
        other => other?,
    };
    Ok(failures)
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
