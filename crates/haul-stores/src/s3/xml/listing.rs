//! Listings of objects and of their versions.

use std::borrow::Cow;

use haul_core::entry::Time;

use super::walk::Walk;
use super::{Fault, shorten, time};

/// What a listing of a bucket yields. Keys are bytes: what the service says is UTF-8 need not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed<'a> {
    Object(Object<'a>),
    /// All keys that begin so were rolled up into one. It ends with the delimiter.
    Prefix(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'a> {
    pub key: &'a [u8],
    /// Bytes.
    pub size: u64,
    /// As the service writes it, with its quotes if it has them; empty if it is not said.
    pub etag: &'a str,
    pub modified: Option<Time>,
    /// `STANDARD`, `GLACIER`...; empty if it is not said.
    pub class: &'a str,
    /// The first `ChecksumAlgorithm`: `CRC64NVME`...; empty if it is not said. The value is not listed.
    pub algorithm: &'a str,
    /// `FULL_OBJECT` or `COMPOSITE`; empty if it is not said.
    pub checksum_type: &'a str,
}

/// Where a listing goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// There is more; then `token` or `marker` is there.
    pub truncated: bool,
    /// `continuation-token` of the next request: from ListObjectsV2.
    pub token: Option<String>,
    /// `marker` of the next request where there is no token: an answer to the older ListObjects, which leaves it to
    /// the caller to take the last key. Whoever follows it checks that it is greater than the one before.
    pub marker: Option<Vec<u8>>,
}

/// Reads an answer to ListObjectsV2 or ListObjects, and hands out its objects and prefixes in the order in which
/// they stand. What was handed out before a fault showed is true as far as it goes, but no page.
pub fn list_objects(document: &[u8], each: &mut dyn FnMut(Listed<'_>)) -> Result<Page, Fault> {
    let mut walk = Walk::into(document, "ListBucketResult")?;
    let mut keys = Keys::of(document);
    let mut page = Page::default();
    let mut last = Vec::new();
    while let Some(name) = walk.child()? {
        match name {
            "Contents" => contents(&mut walk, &keys, &mut last, each)?,
            "CommonPrefixes" => prefixes(&mut walk, &keys, &mut last, &mut |prefix| each(Listed::Prefix(prefix)))?,
            "IsTruncated" => page.truncated = walk.truth("IsTruncated")?,
            "NextContinuationToken" => page.token = walk.kept()?,
            "NextMarker" => page.marker = marker(&mut walk, &keys)?,
            "EncodingType" => keys.said(&walk.text()?),
            _ => walk.skip()?,
        }
    }
    keys.check()?;
    if page.truncated && page.token.is_none() && page.marker.is_none() {
        if last.is_empty() {
            return Err(Fault::Missing { element: "NextContinuationToken", within: "ListBucketResult" });
        }
        page.marker = Some(last);
    }
    Ok(page)
}

fn contents<'a>(walk: &mut Walk<'a>, keys: &Keys, last: &mut Vec<u8>, each: &mut dyn FnMut(Listed<'_>)) -> Result<(), Fault> {
    const WITHIN: &str = "Contents";
    let (mut key, mut size, mut modified) = (None, None, None);
    let (mut etag, mut class, mut algorithm, mut checksum_type) =
        (Cow::Borrowed(""), Cow::Borrowed(""), Cow::Borrowed(""), Cow::Borrowed(""));
    while let Some(name) = walk.child()? {
        match name {
            "Key" => key = Some(keys.decode(walk.text()?)?),
            "Size" => size = Some(walk.number("Size")?),
            "LastModified" => modified = time::iso(&walk.text()?),
            "ETag" => etag = walk.text()?,
            "StorageClass" => class = walk.text()?,
            "ChecksumAlgorithm" if algorithm.is_empty() => algorithm = walk.text()?,
            "ChecksumType" => checksum_type = walk.text()?,
            _ => walk.skip()?,
        }
    }
    let key = key.filter(|key| !key.is_empty()).ok_or(Fault::Missing { element: "Key", within: WITHIN })?;
    let size = size.ok_or(Fault::Missing { element: "Size", within: WITHIN })?;
    keep_greater(last, &key);
    each(Listed::Object(Object {
        key: &key,
        size,
        etag: &etag,
        modified,
        class: &class,
        algorithm: &algorithm,
        checksum_type: &checksum_type,
    }));
    Ok(())
}

fn prefixes(walk: &mut Walk<'_>, keys: &Keys, last: &mut Vec<u8>, each: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
    while let Some(name) = walk.child()? {
        if name != "Prefix" {
            walk.skip()?;
            continue;
        }
        let prefix = keys.decode(walk.text()?)?;
        if prefix.is_empty() {
            return Err(Fault::Missing { element: "Prefix", within: "CommonPrefixes" });
        }
        keep_greater(last, &prefix);
        each(&prefix);
    }
    Ok(())
}

/// Objects and prefixes stand in two lists; the page ends behind the greater of their ends.
fn keep_greater(last: &mut Vec<u8>, key: &[u8]) {
    if key > last.as_slice() {
        last.clear();
        last.extend_from_slice(key);
    }
}

fn marker(walk: &mut Walk<'_>, keys: &Keys) -> Result<Option<Vec<u8>>, Fault> {
    let marker = keys.decode(walk.text()?)?;
    Ok(Some(marker.into_owned()).filter(|marker| !marker.is_empty()))
}

/// A version of an object, or the mark of its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    pub key: &'a [u8],
    /// `null` for an object from before versions were kept.
    pub id: &'a str,
    pub latest: bool,
    /// A mark of deletion: it has no size, no ETag and no class.
    pub deleted: bool,
    pub size: u64,
    pub etag: &'a str,
    pub modified: Option<Time>,
    pub class: &'a str,
}

/// Where a listing of versions goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// There is more; then `key_marker` is there.
    pub truncated: bool,
    pub key_marker: Option<Vec<u8>>,
    pub version_marker: Option<String>,
}

/// Reads an answer to ListObjectVersions. `prefix` is told what was rolled up.
pub fn list_versions(document: &[u8], each: &mut dyn FnMut(Version<'_>), prefix: &mut dyn FnMut(&[u8])) -> Result<VersionPage, Fault> {
    let mut walk = Walk::into(document, "ListVersionsResult")?;
    let mut keys = Keys::of(document);
    let mut page = VersionPage::default();
    let mut last = Vec::new();
    while let Some(name) = walk.child()? {
        match name {
            "Version" => version(&mut walk, &keys, false, each)?,
            "DeleteMarker" => version(&mut walk, &keys, true, each)?,
            "CommonPrefixes" => prefixes(&mut walk, &keys, &mut last, prefix)?,
            "IsTruncated" => page.truncated = walk.truth("IsTruncated")?,
            "NextKeyMarker" => page.key_marker = marker(&mut walk, &keys)?,
            "NextVersionIdMarker" => page.version_marker = walk.kept()?,
            "EncodingType" => keys.said(&walk.text()?),
            _ => walk.skip()?,
        }
    }
    keys.check()?;
    if page.truncated && page.key_marker.is_none() {
        return Err(Fault::Missing { element: "NextKeyMarker", within: "ListVersionsResult" });
    }
    Ok(page)
}

fn version(walk: &mut Walk<'_>, keys: &Keys, deleted: bool, each: &mut dyn FnMut(Version<'_>)) -> Result<(), Fault> {
    let within = if deleted { "DeleteMarker" } else { "Version" };
    let (mut key, mut id, mut size, mut modified, mut latest) = (None, None, None, None, false);
    let (mut etag, mut class) = (Cow::Borrowed(""), Cow::Borrowed(""));
    while let Some(name) = walk.child()? {
        match name {
            "Key" => key = Some(keys.decode(walk.text()?)?),
            "VersionId" => id = Some(walk.text()?),
            "IsLatest" => latest = walk.truth("IsLatest")?,
            // Some services give a mark of deletion a size and an ETag, which mean nothing.
            "Size" if !deleted => size = Some(walk.number("Size")?),
            "ETag" if !deleted => etag = walk.text()?,
            "LastModified" => modified = time::iso(&walk.text()?),
            "StorageClass" if !deleted => class = walk.text()?,
            _ => walk.skip()?,
        }
    }
    let key = key.filter(|key| !key.is_empty()).ok_or(Fault::Missing { element: "Key", within })?;
    let id = id.filter(|id| !id.is_empty()).ok_or(Fault::Missing { element: "VersionId", within })?;
    let size = match size {
        Some(size) => size,
        None if deleted => 0,
        None => return Err(Fault::Missing { element: "Size", within }),
    };
    each(Version { key: &key, id: &id, latest, deleted, size, etag: &etag, modified, class: &class });
    Ok(())
}

/// How keys are written in a document: as they are, or percent-encoded (`encoding-type=url`), since XML cannot
/// hold every byte. Some services say which only behind the keys, so that the document is searched for it first.
pub(super) struct Keys {
    encoded: bool,
    said: bool,
}

impl Keys {
    pub(super) fn of(document: &[u8]) -> Self {
        let document = std::str::from_utf8(document).unwrap_or_default();
        Keys { encoded: document.contains("EncodingType>url</"), said: false }
    }

    /// The document came to its `<EncodingType>`.
    pub(super) fn said(&mut self, encoding: &str) {
        self.said = encoding.trim_ascii().eq_ignore_ascii_case("url");
    }

    /// What was found by searching must be what the document says: else a key only looked like it.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.said == self.encoded {
            Ok(())
        } else {
            Err(Fault::Bad { element: "EncodingType", text: "said in another way than usual".into() })
        }
    }

    /// A space comes as `+` or as `%20`, a plus as `%2B`.
    pub(super) fn decode<'a>(&self, text: Cow<'a, str>) -> Result<Cow<'a, [u8]>, Fault> {
        if !self.encoded || !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
            return Ok(match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            });
        }
        let mut key = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            key.push(match byte {
                b'+' => b' ',
                b'%' => match (bytes.next().and_then(digit), bytes.next().and_then(digit)) {
                    (Some(high), Some(low)) => high << 4 | low,
                    _ => return Err(Fault::Bad { element: "Key", text: shorten(&text, 256).into() }),
                },
                byte => byte,
            });
        }
        Ok(Cow::Owned(key))
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
