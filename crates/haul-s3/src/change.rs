//! Changes of objects within the service: attributes, links, names, copies, removal.

use std::ops::Range;
use std::sync::Arc;

use haul_core::entry::{Entry, Headers, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::option_set::OptionSet;
use haul_core::store::{MetaSpec, Place, Spec, WriteOutcome};

use super::bucket::{Bucket, Head};
use super::checksum::{self, Value};
use super::listing::with_content;
use super::put_options::{CopyTemplate, pairs};
use super::upload::Expected;
use super::{Objects, PARTS_MOST, attributes, rights, source};
use haul_net::http_client::parallel::in_parallel;

/// Tags in the form of a header, in the order of their names.
fn tags_of(text: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        let spaced = text.replace('+', " ");
        super::address::decode(&spaced).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or(spaced)
    };
    let pair = |tag: &str| tag.split_once('=').map_or_else(|| (plain(tag), String::new()), |(name, value)| (plain(name), plain(value)));
    let mut tags: Vec<(String, String)> = text.split('&').filter(|tag| !tag.is_empty()).map(pair).collect();
    tags.sort();
    tags
}

/// How objects are copied by the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySizes {
    /// The largest object that one request copies: at most 5 GiB (Amazon S3, CopyObject). Less, so that parts are copied in
    /// parallel and no request takes minutes.
    pub whole: u64,
    /// Bytes of a part of a larger one: at least 5 MiB.
    pub part: u64,
}

impl Default for CopySizes {
    fn default() -> Self {
        CopySizes { whole: 256 << 20, part: 128 << 20 }
    }
}

const AT_ONCE: usize = 8;

impl Objects {
    /// A symlink is an object whose content is its target; a fifo or a device one without content.
    pub(super) fn make_special(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        let target = entry.target.as_deref().filter(|_| entry.kind == Kind::Link).unwrap_or_default();
        if entry.kind == Kind::Link && target.is_empty() {
            return Err(Error::new(ErrorKind::Usage, "make node").because("the symlink has no target"));
        }
        let key = self.key(name, "make node")?;
        self.touch(&key);
        let written = attributes::write(entry, keep, self.bucket.options.used()).of_its_kind("make node")?;
        let metadata = pairs(written.headers);
        let put = self.bucket.put(&key, target, &metadata)?;
        self.wrote(&key, target.len() as u64, &put, &metadata, (entry.kind == Kind::Link).then_some(target));
        Ok(WriteOutcome { refused: written.refused, ino: 0 })
    }

    /// A directory's attributes are those of its marker, which is made. An object is copied onto itself.
    pub(super) fn change_attributes(&self, spec: &MetaSpec<'_>) -> Result<WriteOutcome> {
        if spec.entry.kind == Kind::Dir {
            return self.change_marker(spec);
        }
        let key = self.key(spec.name, "set attributes")?;
        self.touch(&key);
        let absent = || Error::new(ErrorKind::NotFound, "set attributes").because("no such object");
        let head = self.bucket.head(&key)?.ok_or_else(absent)?;
        // Attributes that are not to be set stay as they are.
        let mut entry = self.entry_of(spec.name.clone(), &key, &head, MetaMask::XATTR)?;
        let had = if head.attributes.is_empty() { MetaMask::NONE } else { entry.have };
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
        let keep = had.and(self.caps.attributes.sets).with(spec.keep.and(self.caps.attributes.sets)).with(MetaMask::SETID);
        let like = CopyTemplate::of(&head);
        let written = attributes::write(&entry, keep, like.used(&self.bucket.options)).of_its_kind("set attributes")?;
        let metadata = pairs(written.headers);
        let like = CopyTemplate { attributes: Some(&metadata), ..like };
        if like.changes(&self.bucket.options) || !self.lacking(&key, &head)?.is_empty() {
            self.copy_object((&self.bucket, &key), &key, &like)?;
            self.forget_key(&key);
        }
        let refused = spec.keep.without(self.caps.attributes.sets).with(written.refused.and(spec.keep));
        Ok(WriteOutcome { refused, ino: 0 })
    }

    /// A new marker has the headers of the one that it is a copy of; one that is there keeps its own.
    fn change_marker(&self, spec: &MetaSpec<'_>) -> Result<WriteOutcome> {
        let marker = self.marker_key(spec.name, "set attributes")?;
        if marker.is_empty() {
            return Ok(WriteOutcome::default());
        }
        self.touch(&marker);
        let mut bucket = self.bucket.like(spec.entry);
        let mut written = attributes::write(spec.entry, spec.keep, bucket.options.used());
        if self.as_listed(&marker) == Some(None) {
            let metadata = pairs(written.headers.clone());
            if let Some(put) = bucket.put_absent(&marker, &metadata)? {
                self.wrote(&marker, 0, &put, &metadata, None);
                return Ok(WriteOutcome { refused: written.refused, ino: 0 });
            }
        }
        match self.head(&marker)? {
            // By the name of a file it is one of the sources.
            Some(head) if head.size > 0 && self.options.map_keys => {
                return Ok(WriteOutcome { refused: spec.keep.and(spec.entry.have), ino: 0 });
            }
            Some(head) if head.size > 0 => return Err(with_content(spec.name, head.size)),
            Some(head) => {
                let tags = if head.tags() > 0 && self.bucket.options.tagging.is_none() { Some(self.bucket.tags(&marker)?) } else { None };
                let own = Headers { headers: head.own_headers(), tags, lacks: MetaMask::NONE };
                bucket = Bucket { options: Arc::new(self.bucket.options.like(&own)), ..bucket };
                written = attributes::write(spec.entry, spec.keep, bucket.options.used());
            }
            None => {}
        }
        let metadata = pairs(written.headers);
        let put = bucket.put(&marker, b"", &metadata)?;
        self.wrote(&marker, 0, &put, &metadata, None);
        Ok(WriteOutcome { refused: written.refused, ino: 0 })
    }

    /// What a copy of a directory's marker in another store is to have beside attributes; `None` without a marker.
    pub(super) fn headers_of_marker(&self, name: &Name) -> Result<Option<Arc<Headers>>> {
        let marker = self.marker_key(name, "stat")?;
        let head = if marker.is_empty() { None } else { self.bucket.head(&marker)? };
        let headers = |head: Head| source::headers_of(&self.bucket, &marker, &head, self.options.map_keys);
        head.filter(|head| head.size == 0).map(headers).transpose()
    }

    /// What an object lacks of what the options ask for.
    fn lacking(&self, key: &[u8], head: &Head) -> Result<OptionSet> {
        let retagged = match &self.bucket.options.tagging {
            None => false,
            Some(wanted) => tags_of(wanted) != if head.tags() > 0 { tags_of(&self.bucket.tags(key)?) } else { Vec::new() },
        };
        Ok(self.bucket.options.lacking(head).with(OptionSet::TAGS.when(retagged)))
    }

    /// Gives an object what the options ask for, but with `dry`; what it lacked.
    pub(super) fn set_options(&self, name: &Name, kind: Kind, dry: bool) -> Result<OptionSet> {
        let is_dir = kind == Kind::Dir;
        let key = if is_dir { self.marker_key(name, "set options")? } else { self.key(name, "set options")? };
        let absent = || Error::new(ErrorKind::NotFound, "set options").because("no such object");
        let head = match if key.is_empty() { None } else { self.bucket.head(&key)? } {
            Some(head) if !is_dir || head.size == 0 => head,
            _ if is_dir => return Ok(OptionSet::NONE),
            _ => return Err(absent()),
        };
        let lacking = self.lacking(&key, &head)?;
        if dry || lacking.is_empty() {
            return Ok(lacking);
        }
        if lacking != OptionSet::TAGS {
            self.touch(&key);
            self.copy_object((&self.bucket, &key), &key, &CopyTemplate::of(&head))?;
            self.forget_key(&key);
        } else if let Some(wanted) = &self.bucket.options.tagging {
            self.bucket.set_tags(&key, &tags_of(wanted))?;
        }
        Ok(lacking)
    }

    pub(super) fn copy_within(&self, from: &Place, entry: &Entry, to: &Name, spec: &Spec<'_>) -> Result<Option<WriteOutcome>> {
        if from.scheme != self.place.scheme || from.endpoint != self.place.endpoint {
            return Ok(None);
        }
        let mut source = from.root.strip_prefix(b"/").unwrap_or(&from.root).to_vec();
        source.extend_from_slice(&self.dir_key(&entry.name.dir)[self.prefix.len()..]);
        source.extend_from_slice(&self.part(&entry.name.leaf));
        let is_dir = entry.kind == Kind::Dir;
        if is_dir && !(entry.name.leaf.is_empty() && entry.name.dir.is_root()) {
            source.push(b'/');
        }
        let key = if is_dir { self.marker_key(to, "copy")? } else { self.key(to, "copy")? };
        self.touch(&key);
        // A whole bucket has no marker; one that is there already is only given attributes.
        if is_dir && (source.is_empty() || key.is_empty() || self.has_marker(&key)?) {
            return Ok(None);
        }
        let version = self.copied_version.as_deref().filter(|_| !is_dir);
        let place = Bucket { name: from.volume.clone(), ..self.bucket.clone() }.version(version);
        let absent = || Error::new(ErrorKind::NotFound, "copy").because("no such object");
        let head = match place.head(&source)? {
            Some(head) if !is_dir || head.size == 0 => head,
            _ if is_dir => return Ok(None),
            _ => return Err(absent()),
        };
        if !is_dir && !entry.is_bare() && self.entry_of(entry.name.clone(), &source, &head, MetaMask::NONE)?.stamp() != entry.stamp() {
            return Err(Error::new(ErrorKind::Changed, "copy"));
        }
        let mut like = spec.entry.clone();
        like.headers = Some(Arc::new(Headers { lacks: head.attributes.lacks(), ..Headers::default() }));
        if spec.keep.any(MetaMask::XATTR.with(MetaMask::ACL)) && like.xattrs.is_none() {
            like.xattrs = self.entry_of(entry.name.clone(), &source, &head, MetaMask::XATTR)?.xattrs;
        }
        let template = CopyTemplate { same_bucket: place.name == self.bucket.name, version, ..CopyTemplate::of(&head) };
        let written = attributes::write(&like, spec.keep, template.used(&self.bucket.options)).of_its_kind("copy")?;
        let metadata = pairs(written.headers);
        let grants = if self.bucket.options.copies_acl { rights::headers_of(&place.acl(&source)?)? } else { Vec::new() };
        match self.copy_object((&place, &source), &key, &CopyTemplate { attributes: Some(&metadata), grants: &grants, ..template }) {
            Ok(()) => Ok(Some(WriteOutcome { refused: written.refused, ino: 0 })),
            // The service cannot, or this account may not (tags have permissions of their own): copy through this machine.
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Denied) => Ok(None),
            // Services whose directories are those of a file system copy no such key, and say so in many ways.
            Err(e) if is_dir && matches!(e.kind(), ErrorKind::NotFound | ErrorKind::BadName | ErrorKind::Other) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn has_marker(&self, marker: &[u8]) -> Result<bool> {
        match self.as_listed(marker) {
            Some(listed) => Ok(listed.is_some()),
            None => Ok(self.head(marker)?.is_some()),
        }
    }

    fn copy_object(&self, from: (&Bucket, &[u8]), to: &[u8], like: &CopyTemplate<'_>) -> Result<()> {
        let (source, key) = from;
        let (head, from) = (like.head, (&*source.name, key));
        if head.size <= self.copy_sizes.whole {
            return self.bucket.copy(from, to, like);
        }
        let tags = if head.tags() > 0 && self.bucket.options.tagging.is_none() { Some(source.tags(key)?) } else { None };
        let upload = self.bucket.begin_copy(to, like, tags.as_deref())?;
        let part = self.copy_sizes.part.max(head.size.div_ceil(u64::from(PARTS_MOST)));
        let ranges: Vec<Range<u64>> = (0..head.size.div_ceil(part)).map(|i| i * part..((i + 1) * part).min(head.size)).collect();
        let numbered: Vec<(u32, Range<u64>)> = (1..).zip(ranges).collect();
        let parts = in_parallel(&self.bucket.client.threads, &numbered, AT_ONCE, |(number, range)| {
            self.bucket.copy_part(from, like, range.clone(), to, &upload, *number)
        });
        // What is known of the source is known of the copy, if the service computes the same of it.
        let whole = head.checksums.stored.iter().filter(|stored| !stored.etag && stored.kind == checksum::Kind::Whole);
        let whole: Vec<Value> = whole.map(|stored| stored.value).collect();
        let expected = Expected { size: head.size, whole: &whole, sent: false };
        let done = parts.into_iter().collect::<Result<Vec<_>>>().and_then(|parts| self.bucket.complete(to, &upload, &parts, expected));
        if done.is_err() {
            // The first error says more.
            let _ = self.bucket.abort(to, &upload);
        }
        done.map(|_| ())
    }

    /// Changes nothing of the object but its name, and what the options say.
    pub(super) fn move_within(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let (old, new) = (self.key(from, "rename")?, self.key(to, "rename")?);
        let absent = || Error::new(ErrorKind::NotFound, "rename").on(from).because("no such object");
        let head = self.bucket.head(&old).map_err(|e| e.on(from))?.ok_or_else(absent)?;
        if old == new {
            return Ok(());
        }
        [&old, &new].into_iter().for_each(|key| self.touch(key));
        if !replace && self.bucket.head(&new).map_err(|e| e.on(to))?.is_some() {
            return Err(Error::new(ErrorKind::Exists, "rename").on(to));
        }
        self.copy_object((&self.bucket, &old), &new, &CopyTemplate::of(&head)).map_err(|e| e.on(from))?;
        self.forget_key(&old);
        self.bucket.delete_version(&old, &head.etag).map_err(|e| e.on(from))
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
        let keys: Vec<Result<Vec<u8>>> = in_parallel(&self.bucket.client.threads, entries, AT_ONCE, key);
        let good = keys.iter().filter_map(|key| key.as_ref().ok()).filter(|key| !key.is_empty());
        let good: Vec<(Vec<u8>, String)> = good.map(|key| (key.clone(), String::new())).collect();
        for (key, _) in &good {
            self.forget_key(key);
            self.touch(key);
        }
        let failed = self.bucket.remove_keys(&good).into_iter().map(|(key, _, e)| (key, e));
        let mut failed: std::collections::HashMap<Vec<u8>, Error> = failed.collect();
        let outcome = |(key, entry): (Result<Vec<u8>>, &Entry)| match key {
            Err(e) => Err(e),
            Ok(key) => failed.remove(&key).map_or(Ok(()), |e| Err(e.on(&entry.name))),
        };
        keys.into_iter().zip(entries).map(outcome).collect()
    }
}
