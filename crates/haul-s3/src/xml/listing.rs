//! Listings of objects, of their versions and of unfinished uploads, as they come: a million keys must not cost more than the
//! network that brings them.

use std::borrow::Cow;

use super::answer::another;
use super::walk::{truth, walk};
use super::{Fault, shorten};
use crate::inventory::{Line, Object, Upload, Version, class_of};
use crate::{attributes, cache};
use haul_core::entry::Time;
use haul_net::http_client::time;

/// Where a listing goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub truncated: bool,
    /// From ListObjectsV2 `continuation-token` of the next request, else the id that goes with `marker`.
    pub token: Option<String>,
    /// `key-marker` of the next request. From the older ListObjects, where there is no token: `marker`, which it leaves to the
    /// caller to take from the last key. A caller checks that it is greater than the one before.
    pub marker: Option<Vec<u8>>,
}

/// Reads an answer to ListObjectsV2 or ListObjects: objects and prefixes in the order of the document.
pub fn list_objects(document: &[u8]) -> Result<(Vec<Line>, Page), Fault> {
    let (lines, mut page) = list(document, "ListBucketResult", |item| match item {
        Item::Version(version) => Some(Line::Object(version.object)),
        Item::Prefix(prefix) => Some(Line::Prefix(prefix)),
    })?;
    if page.truncated && page.token.is_none() && page.marker.is_none() {
        // Objects and prefixes stand in two lists; the page ends behind the greater of their ends.
        let last = lines.iter().map(Line::key).max().map(<[u8]>::to_vec);
        page.marker = Some(last.ok_or(Fault::Missing { element: "NextContinuationToken", within: "ListBucketResult" })?);
    }
    Ok((lines, page))
}

/// Reads an answer to ListObjectVersions. Where there is more, there is a `marker`.
pub fn list_versions(document: &[u8]) -> Result<(Vec<Version>, Page), Fault> {
    versions(document, "ListVersionsResult")
}

/// Reads an answer to ListMultipartUploads. Where there is more, there is a `marker`.
pub fn list_uploads(document: &[u8]) -> Result<(Vec<Upload>, Page), Fault> {
    let (found, page) = versions(document, "ListMultipartUploadsResult")?;
    let upload = |version: Version| Upload { key: version.object.key, id: version.id, initiated: version.object.modified };
    Ok((found.into_iter().map(upload).collect(), page))
}

fn versions(document: &[u8], within: &'static str) -> Result<(Vec<Version>, Page), Fault> {
    let version = |item| if let Item::Version(version) = item { Some(version) } else { None };
    match list(document, within, version)? {
        (_, Page { truncated: true, marker: None, .. }) => Err(Fault::Missing { element: "NextKeyMarker", within }),
        found => Ok(found),
    }
}

enum Item {
    /// An object, a version of one, the mark of its deletion, or an upload of one. Fields that the service omits or that do not apply are
    /// empty.
    Version(Version),
    Prefix(Vec<u8>),
}

fn list<T>(document: &[u8], root: &'static str, item: impl Fn(Item) -> Option<T>) -> Result<(Vec<T>, Page), Fault> {
    let mut keys = Keys::of(document);
    let (mut items, mut page, mut fields) = (Vec::with_capacity(1000), Page::default(), Fields::default());
    // Services name the root as they like: what is in it makes it a listing.
    let mut is_listing = false;
    let (document, found) = walk(document, &mut |path, text| {
        match *path {
            [_, kind @ ("Contents" | "Version" | "DeleteMarker" | "Upload")] => {
                is_listing = true;
                items.extend(item(Item::Version(std::mem::take(&mut fields).version(kind)?)));
            }
            [_, "Contents" | "Version" | "DeleteMarker" | "Upload", name] => match name {
                "Key" => fields.key = keys.decode(text)?,
                "VersionId" | "UploadId" => fields.id = text.into(),
                "IsLatest" => fields.latest = truth(text, "IsLatest")?,
                "Size" => fields.size = Some(text.into()),
                "ETag" => fields.etag = text.into(),
                "LastModified" | "Initiated" => fields.modified = time::iso(text),
                "StorageClass" => fields.class = class_of(text.into()),
                _ => {}
            },
            // What MinIO adds where it is asked for: elements that are named as the headers are.
            [_, "Contents" | "Version", "UserMetadata", name] => fields.metadata.push((name.into(), text.into())),
            [_, "CommonPrefixes", "Prefix"] => {
                let prefix = Some(keys.decode(text)?).filter(|prefix| !prefix.is_empty());
                let missing = Fault::Missing { element: "Prefix", within: "CommonPrefixes" };
                items.extend(item(Item::Prefix(prefix.ok_or(missing)?)));
            }
            [_, "CommonPrefixes"] => is_listing = true,
            [_, "IsTruncated"] => (is_listing, page.truncated) = (true, truth(text, "IsTruncated")?),
            [_, "NextContinuationToken" | "NextVersionIdMarker" | "NextUploadIdMarker"] => {
                page.token = Some(text.into()).filter(|token: &String| !token.is_empty());
            }
            [_, "NextMarker" | "NextKeyMarker"] => page.marker = Some(keys.decode(text)?).filter(|marker| !marker.is_empty()),
            [_] if !text.trim_ascii().is_empty() => return Err(Fault::Malformed { at: 0, why: "text where there can be none".into() }),
            [_, "EncodingType"] => keys.said = text.trim_ascii().eq_ignore_ascii_case("url"),
            _ => {}
        }
        Ok(())
    })?;
    if found == "Error" || !(is_listing || found == root) {
        return Err(another(document, found));
    }
    keys.check().map(|()| (items, page))
}

/// What was read so far of an object, a version, a mark of deletion or an upload.
#[derive(Default)]
struct Fields {
    key: Vec<u8>,
    id: String,
    latest: bool,
    size: Option<String>,
    etag: String,
    modified: Option<Time>,
    class: Cow<'static, str>,
    metadata: Vec<(String, String)>,
}

impl Fields {
    fn version(self, kind: &str) -> Result<Version, Fault> {
        let (within, id) = match kind {
            "Contents" => ("Contents", ""),
            "Version" => ("Version", "VersionId"),
            "DeleteMarker" => ("DeleteMarker", "VersionId"),
            _ => ("Upload", "UploadId"),
        };
        // Some services give a mark of deletion a size and an ETag, which mean nothing.
        let (deleted, sized) = (within == "DeleteMarker", matches!(within, "Contents" | "Version"));
        let missing = match () {
            () if self.key.is_empty() => Some("Key"),
            () if self.id.is_empty() && !id.is_empty() => Some(id),
            () if self.size.is_none() && sized => Some("Size"),
            () => None,
        };
        if let Some(element) = missing {
            return Err(Fault::Missing { element, within });
        }
        let Fields { key, id, latest, modified, metadata, .. } = self;
        let (etag, class) = if deleted { Default::default() } else { (self.etag, self.class) };
        let size = self.size.filter(|_| sized).map_or(Ok(0), |size| number(&size, "Size"))?;
        let pairs = || metadata.iter().map(|(name, value)| (&**name, &**value));
        let attributes = (!metadata.is_empty()).then(|| attributes::read(attributes::user_metadata(pairs())));
        let details = attributes.and_then(|attributes| cache::details(size, modified.unwrap_or_default(), &attributes));
        Ok(Version { object: Object { key, size, etag, modified, class, details }, id, latest, deleted })
    }
}

/// A whole number: only digits, at most `u64::MAX`.
fn number(text: &str, element: &'static str) -> Result<u64, Fault> {
    let digits = Some(text.trim_ascii()).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Fault::Bad { element, text: shorten(text, 64).into() })
}

/// How keys are written in a document: as they are, or percent-encoded (`encoding-type=url`), since XML cannot
/// hold every byte. Some services say which only behind the keys, so that the document is searched for it first.
struct Keys {
    encoded: bool,
    said: bool,
}

impl Keys {
    fn of(document: &[u8]) -> Self {
        let document = std::str::from_utf8(document).unwrap_or_default();
        Keys { encoded: document.contains("EncodingType>url</"), said: false }
    }

    /// What was found by searching must be what the document says: else a key only looked like it.
    fn check(&self) -> Result<(), Fault> {
        if self.said == self.encoded {
            Ok(())
        } else {
            Err(Fault::Bad { element: "EncodingType", text: "said in another way than usual".into() })
        }
    }

    /// A space comes as `+` or as `%20`, a plus as `%2B`.
    fn decode(&self, text: &str) -> Result<Vec<u8>, Fault> {
        if !self.encoded || !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
            return Ok(text.as_bytes().to_vec());
        }
        crate::address::decode(&text.replace('+', " ")).ok_or_else(|| Fault::Bad { element: "Key", text: shorten(text, 256).into() })
    }
}
