//! Listings of what an address names.

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Flow;

use super::scope::{Match, Scope, What};
use crate::inventory::{Line, Object, Upload, Version};

/// Parts of an unfinished upload, and bytes in them.
pub type LandedParts = (u64, u64);

impl Scope {
    /// Lists what is below a prefix, or one object, or what a pattern matches, as it comes: each with the name that is shown.
    /// Without a slash it is the object, and where there is none what is below it.
    pub fn list(&self, recursive: bool, each: &mut dyn FnMut(&Line, &[u8]) -> Flow) -> Result<()> {
        let bucket = self.bucket();
        let mut any = false;
        let below = |prefix: &[u8], any: &mut bool, each: &mut dyn FnMut(&Line, &[u8]) -> Flow| {
            *any |= prefix.is_empty();
            bucket.lines(prefix, !recursive, &mut |lines| {
                *any |= !lines.is_empty();
                let shown = lines.iter().filter(|line| line.key() != prefix || has_content(line));
                all(shown.map(|line| each(line, if line.key() == prefix { OWN } else { &line.key()[prefix.len()..] })))
            })
        };
        match &self.what {
            What::Key(key) => match bucket.first(key)? {
                Some(object) if object.key == *key => {
                    any = true;
                    each(&Line::Object(object), &self.path);
                }
                None => {}
                Some(_) => below(&[&key[..], b"/"].concat(), &mut any, each)?,
            },
            What::Below(prefix) => below(prefix, &mut any, each)?,
            What::Like(wild) => {
                let mut dir = Vec::new();
                wild.walk(bucket, recursive, &mut |found| {
                    let (Match::Line(line) | Match::Within(line)) = found;
                    // A directory's own marker comes right behind it.
                    if line.key() == dir && !has_content(&line) {
                        return Flow::Go;
                    }
                    any = true;
                    let flow = each(&line, &self.address(line.key()));
                    if let Line::Prefix(prefix) = line {
                        dir = prefix;
                    }
                    flow
                })?;
            }
        }
        if any { Ok(()) } else { Err(self.nothing()) }
    }

    /// Hands out all objects that are meant in the order of keys, or all versions of them and marks of deletion. Returns how many
    /// directories a pattern matched whose objects are not meant.
    pub fn each(&self, versions: bool, recursive: bool, each: &mut dyn FnMut(Version) -> Flow) -> Result<u64> {
        let bucket = self.bucket();
        let latest = |object| Version { object, id: String::new(), latest: true, deleted: false };
        let mut left_dirs = 0;
        match &self.what {
            what if versions => {
                let below = recursive && !matches!(what, What::Key(_));
                bucket.versions(self.prefix(), &mut |versions| {
                    all(versions.into_iter().filter(|version| self.admits(&version.object.key, below)).map(&mut *each))
                })?;
            }
            What::Key(key) => drop(bucket.first(key)?.filter(|first| first.key == *key).map(|object| each(latest(object)))),
            What::Below(prefix) => bucket
                .lines(prefix, false, &mut |lines| all(lines.into_iter().filter_map(Line::object).map(|object| each(latest(object)))))?,
            What::Like(wild) => wild.walk(bucket, recursive, &mut |found| match found {
                Match::Line(Line::Object(object)) | Match::Within(Line::Object(object)) => each(latest(object)),
                Match::Line(Line::Prefix(_)) if !recursive && !wild.dirs => {
                    left_dirs += 1;
                    Flow::Go
                }
                Match::Line(Line::Prefix(_)) | Match::Within(Line::Prefix(_)) => Flow::Go,
            })?,
        }
        Ok(left_dirs)
    }

    /// Lists versions and marks of deletion. A listing of versions goes through all that is below, so that without `recursive`
    /// what is behind a slash is left out.
    pub fn list_versions(&self, recursive: bool, each: &mut dyn FnMut(&Version) -> Flow) -> Result<()> {
        let own = |key: &[u8]| match &self.what {
            What::Below(prefix) => recursive || !key[prefix.len()..].contains(&b'/'),
            What::Key(own) => recursive || key == own,
            What::Like(_) => true,
        };
        let mut any = matches!(&self.what, What::Below(prefix) if prefix.is_empty());
        self.bucket().versions(self.prefix(), &mut |versions| {
            let meant = versions.iter().filter(|version| self.admits(&version.object.key, recursive));
            all(meant.inspect(|_| any = true).filter(|version| own(&version.object.key)).map(&mut *each))
        })?;
        if any { Ok(()) } else { Err(self.nothing()) }
    }

    /// Lists unfinished uploads; with `landed` the parts that each has, and the bytes in them, one request each.
    pub fn list_uploads(&self, landed: bool, each: &mut dyn FnMut(&Upload, Option<LandedParts>) -> Flow) -> Result<()> {
        let mut failed: Option<Error> = None;
        let bucket = self.bucket();
        bucket.uploads(self.prefix(), &mut |uploads| {
            all(uploads.iter().filter(|upload| self.admits(&upload.key, true)).map(|upload| {
                match landed.then(|| bucket.landed_parts(&upload.key, &upload.id)).transpose() {
                    Ok(landed) => each(upload, landed),
                    // Completed or abandoned since.
                    Err(e) if e.kind() == ErrorKind::NotFound => Flow::Go,
                    Err(e) => {
                        failed = Some(e.at(&self.address(&upload.key)));
                        Flow::Stop
                    }
                }
            }))
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Calls `found` for all objects that are meant, whatever is between slashes, or for all versions of them, with their paths
    /// below the place: an empty one for a marker of its own that has content. Returns whether the place is one object.
    pub fn objects(&self, versions: bool, found: &mut dyn FnMut(&[u8], &Object)) -> Result<bool> {
        // Without a slash it is the object, and where there is none what is below it.
        if let What::Key(key) = &self.what
            && !versions
            && self.bucket().first(key)?.is_none_or(|first| first.key != *key)
        {
            return self.of(What::Below([&key[..], b"/"].concat())).objects(false, found);
        }
        let cut = match &self.what {
            What::Below(prefix) => prefix.len(),
            What::Key(key) => key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1),
            What::Like(_) => 0,
        };
        let mut any = self.prefix().is_empty();
        self.each(versions, true, &mut |Version { object, deleted, .. }| {
            any |= !deleted;
            if let Some(path) = object.key.get(cut..).filter(|path| !deleted && (!path.is_empty() || object.size > 0)) {
                found(path, &object);
            }
            Flow::Go
        })?;
        if any { Ok(matches!(self.what, What::Key(_))) } else { Err(self.nothing()) }
    }
}

/// The name of a directory's own marker that has content.
const OWN: &[u8] = b"./";

/// Whether an object, whose key may end in a slash, is more than a marker.
fn has_content(line: &Line) -> bool {
    matches!(line, Line::Object(object) if object.size > 0)
}

/// Goes through all of them, or up to the first that says stop.
fn all(mut flows: impl Iterator<Item = Flow>) -> Flow {
    flows.find(|flow| *flow == Flow::Stop).unwrap_or(Flow::Go)
}
