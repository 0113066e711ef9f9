//! Objects that change without their content passing through here: attributes, links, names, copies, removal.

use std::ops::Range;

use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Landed, MetaSpec, Place, Spec};

use super::bucket::{Expected, Head};
use super::listing::with_content;
use super::look::at_once;
use super::wishes::{Pair, pairs};
use super::{Objects, PARTS_MOST, attributes};

/// The largest object that one request copies (Amazon S3, CopyObject).
const COPY_MOST: u64 = 5 << 30;
/// Bytes of a part when a larger object is copied in parts.
const COPY_PART: u64 = 512 << 20;
/// Requests of one call that are under way at the same time.
const AT_ONCE: usize = 8;
/// Keys that one request removes.
const DELETE_MOST: usize = 1000;

impl Objects {
    /// A symlink is an object whose content is its target; a fifo or a device one without content.
    pub(super) fn make_special(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<Landed> {
        let target = entry.target.as_deref().filter(|_| entry.kind == Kind::Link).unwrap_or_default();
        if entry.kind == Kind::Link && target.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "make node").because("the symlink has no target"));
        }
        let key = self.key(name, "make node")?;
        let written = attributes::write(entry, keep, self.bucket.wishes.used());
        let metadata = pairs(written.headers);
        let put = self.bucket.put(&key, target, &metadata)?;
        self.wrote(&key, target.len() as u64, &put, &metadata, (entry.kind == Kind::Link).then_some(target));
        Ok(Landed { refused: written.refused, ino: 0 })
    }

    /// A directory's attributes are those of its marker, which is made. An object is copied onto itself.
    pub(super) fn change_attributes(&self, spec: &MetaSpec<'_>) -> Result<Landed> {
        if spec.entry.kind == Kind::Dir {
            let marker = self.marker_key(spec.name, "set attributes")?;
            if marker.is_empty() {
                return Ok(Landed::default());
            }
            let written = attributes::write(spec.entry, spec.keep, self.bucket.wishes.used());
            let metadata = match self.bucket.head(&marker)? {
                Some(head) if head.size > 0 => return Err(with_content(spec.name, head.size)),
                Some(head) => head.metadata_with(pairs(written.headers)),
                None => pairs(written.headers),
            };
            self.bucket.put(&marker, b"", &metadata)?;
            return Ok(Landed { refused: written.refused, ino: 0 });
        }
        let key = self.key(spec.name, "set attributes")?;
        let absent = || Error::new(ErrorKind::NotFound, "set attributes").because("no such object");
        let head = self.bucket.head(&key)?.ok_or_else(absent)?;
        // What is not asked for stays as it is.
        let mut entry = self.entry_of(spec.name.clone(), &key, &head, MetaMask::XATTR)?;
        let had = if head.kept.is_empty() { MetaMask::NONE } else { entry.have };
        let xattrs = MetaMask::XATTR.with(MetaMask::ACL);
        let setid = spec.keep.has(MetaMask::SETID);
        if spec.keep.has(MetaMask::MTIME) {
            entry.mtime = spec.entry.mtime;
        }
        if spec.keep.has(MetaMask::MODE) {
            entry.mode = if setid { spec.entry.mode } else { spec.entry.mode & 0o1777 };
        }
        if spec.keep.has(MetaMask::OWNER) {
            entry.uid = spec.entry.uid;
        }
        if spec.keep.has(MetaMask::GROUP) {
            entry.gid = spec.entry.gid;
        }
        if spec.keep.any(xattrs) {
            entry.xattrs = spec.entry.xattrs.clone();
        }
        entry.have = entry.have.with(spec.keep.and(spec.entry.have));
        let keep = had.and(self.caps.sets).with(spec.keep.and(self.caps.sets)).with(MetaMask::SETID);
        let written = attributes::write(&entry, keep, self.bucket.wishes.used());
        let metadata = head.metadata_with(pairs(written.headers));
        self.copy_object((&self.bucket.name, &key), &head, &key, &metadata)?;
        self.forget_key(&key);
        let refused = spec.keep.without(self.caps.sets).with(written.refused.and(spec.keep));
        Ok(Landed { refused, ino: 0 })
    }

    pub(super) fn copy_within(&self, from: &Place, entry: &Entry, to: &Name, spec: &Spec<'_>) -> Result<Option<Landed>> {
        if from.scheme != self.place.scheme || from.endpoint != self.place.endpoint {
            return Ok(None);
        }
        let mut source = from.root.strip_prefix(b"/").unwrap_or(&from.root).to_vec();
        source.extend_from_slice(&self.dir_key(&entry.name.dir)[self.prefix.len()..]);
        source.extend_from_slice(&entry.name.leaf);
        let key = self.key(to, "copy")?;
        let place = super::Bucket { name: from.volume.clone(), ..self.bucket.clone() };
        let absent = || Error::new(ErrorKind::NotFound, "copy").because("no such object");
        let head = place.head(&source)?.ok_or_else(absent)?;
        let found = self.entry_of(entry.name.clone(), &source, &head, MetaMask::NONE)?;
        if !entry.is_bare() && found.stamp() != entry.stamp() {
            return Err(Error::new(ErrorKind::Changed, "copy"));
        }
        let mut like = spec.entry.clone();
        if spec.keep.any(MetaMask::XATTR.with(MetaMask::ACL)) && like.xattrs.is_none() {
            like.xattrs = self.entry_of(entry.name.clone(), &source, &head, MetaMask::XATTR)?.xattrs;
        }
        let written = attributes::write(&like, spec.keep, self.bucket.wishes.used());
        let metadata = head.metadata_with(pairs(written.headers));
        self.copy_object((&from.volume, &source), &head, &key, &metadata)?;
        Ok(Some(Landed { refused: written.refused, ino: 0 }))
    }

    fn copy_object(&self, from: (&str, &[u8]), head: &Head, to: &[u8], metadata: &[Pair]) -> Result<()> {
        if head.size <= COPY_MOST {
            return self.bucket.copy(from, Some(&head.etag), to, metadata, head);
        }
        let upload = self.bucket.begin(to, metadata)?;
        let part = COPY_PART.max(head.size.div_ceil(u64::from(PARTS_MOST)));
        let ranges: Vec<Range<u64>> = (0..head.size.div_ceil(part)).map(|i| i * part..((i + 1) * part).min(head.size)).collect();
        let numbered: Vec<(u32, Range<u64>)> = (1..).zip(ranges).collect();
        let parts =
            at_once(&numbered, AT_ONCE, |(number, range)| self.bucket.copy_part(from, &head.etag, range.clone(), to, &upload.id, *number));
        let done = parts
            .into_iter()
            .collect::<Result<Vec<_>>>()
            .and_then(|parts| self.bucket.complete(to, &upload.id, &parts, Expected { size: head.size, whole: &[], sent: false }));
        if done.is_err() {
            let _the_error_says_more = self.bucket.abort(to, &upload.id);
        }
        done.map(|_| ())
    }

    pub(super) fn move_within(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let (old, new) = (self.key(from, "rename")?, self.key(to, "rename")?);
        let absent = || Error::new(ErrorKind::NotFound, "rename").on(from).because("no such object");
        let head = self.bucket.head(&old).map_err(|e| e.on(from))?.ok_or_else(absent)?;
        if old == new {
            return Ok(());
        }
        if !replace && self.bucket.head(&new).map_err(|e| e.on(to))?.is_some() {
            return Err(Error::new(ErrorKind::Exists, "rename").on(to));
        }
        let metadata = head.metadata();
        self.copy_object((&self.bucket.name, &old), &head, &new, &metadata).map_err(|e| e.on(from))?;
        self.forget_key(&old);
        self.bucket.delete(&old).map_err(|e| e.on(from))
    }

    /// The key of a directory's marker, which must have no content of its own.
    fn empty_marker(&self, name: &Name) -> Result<Vec<u8>> {
        let marker = self.marker_key(name, "remove")?;
        match if marker.is_empty() { None } else { self.bucket.head(&marker).map_err(|e| e.on(name))? } {
            Some(head) if head.size > 0 => Err(with_content(name, head.size)),
            _ => Ok(marker),
        }
    }

    pub(super) fn remove_all(&self, entries: &[Entry]) -> Vec<Result<()>> {
        let key = |entry: &Entry| match entry.kind {
            Kind::Dir => self.empty_marker(&entry.name),
            _ => self.key(&entry.name, "remove"),
        };
        let keys: Vec<Result<Vec<u8>>> = at_once(entries, AT_ONCE, key);
        let good: Vec<Vec<u8>> = keys.iter().filter_map(|key| key.as_ref().ok()).filter(|key| !key.is_empty()).cloned().collect();
        good.iter().for_each(|key| self.forget_key(key));
        let mut failed: std::collections::HashMap<Vec<u8>, Error> = Default::default();
        for lot in good.chunks(DELETE_MOST) {
            let one_by_one = || {
                at_once(lot, AT_ONCE, |key| self.bucket.delete(key).err().map(|e| (key.clone(), e)))
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
            };
            let refused = match lot {
                [_] => one_by_one(),
                _ => match self.bucket.delete_many(lot) {
                    Ok(failed) => failed,
                    Err(e) if e.kind() == ErrorKind::Unsupported => one_by_one(),
                    Err(e) => lot.iter().map(|key| (key.clone(), e.again())).collect(),
                },
            };
            failed.extend(refused);
        }
        let outcome = |(key, entry): (Result<Vec<u8>>, &Entry)| match key {
            Err(e) => Err(e),
            Ok(key) => failed.remove(&key).map_or(Ok(()), |e| Err(e.on(&entry.name))),
        };
        keys.into_iter().zip(entries).map(outcome).collect()
    }
}
