//! Listings of objects, of their versions and of unfinished uploads, as they come: a million keys must not cost more than the
//! network that brings them.

use std::borrow::Cow;

use super::answer::another;
use super::walk::Walk;
use super::{Fault, shorten};
use crate::attributes::{self, FileAttributes};
use crate::inventory::{Line, Object, Upload, Version};
use haul_net::http_client::time;

/// The class that most of a million objects have.
const USUAL: &str = "STANDARD";

/// What all listings consist of.
enum Item {
    /// An object, a version of one, the mark of its deletion, or an upload of one: what is not said, or means nothing, is empty.
    Version(Version),
    Prefix(Vec<u8>),
}

/// Where a listing goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// There is more.
    pub truncated: bool,
    /// From ListObjectsV2 `continuation-token` of the next request, else the id that goes with `marker`.
    pub token: Option<String>,
    /// `key-marker` of the next request. From the older ListObjects, where there is no token: `marker`, which it leaves to the
    /// caller to take from the last key. Whoever follows it checks that it is greater than the one before.
    pub marker: Option<Vec<u8>>,
}

/// Reads an answer to ListObjectsV2 or ListObjects: objects and prefixes in the order of the document.
pub fn list_objects(document: &[u8]) -> Result<(Vec<Line>, Page), Fault> {
    let mut lines = Vec::with_capacity(1000);
    let mut page = list(document, "ListBucketResult", &mut |item| {
        lines.push(match item {
            Item::Version(version) => Line::Object(version.object),
            Item::Prefix(prefix) => Line::Prefix(prefix),
        });
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
    let mut versions = Vec::new();
    let page = list(document, within, &mut |item| {
        if let Item::Version(version) = item {
            versions.push(version);
        }
    })?;
    match page {
        Page { truncated: true, marker: None, .. } => Err(Fault::Missing { element: "NextKeyMarker", within }),
        page => Ok((versions, page)),
    }
}

fn list(document: &[u8], root: &'static str, each: &mut dyn FnMut(Item)) -> Result<Page, Fault> {
    let (mut walk, found) = Walk::open(document)?;
    // Services name it as they like: what is in it makes it a listing.
    let mut is_listing = found == root;
    if found == "Error" {
        return Err(another(&walk, found));
    }
    let mut keys = Keys::of(document);
    let mut page = Page::default();
    while let Some(name) = walk.child()? {
        is_listing |= matches!(name, "IsTruncated" | "Contents" | "CommonPrefixes" | "Version" | "DeleteMarker" | "Upload");
        match name {
            "Contents" => object(&mut walk, &keys, "Contents", each)?,
            "Version" => object(&mut walk, &keys, "Version", each)?,
            "DeleteMarker" => object(&mut walk, &keys, "DeleteMarker", each)?,
            "Upload" => object(&mut walk, &keys, "Upload", each)?,
            "CommonPrefixes" => prefixes(&mut walk, &keys, each)?,
            "IsTruncated" => page.truncated = walk.truth("IsTruncated")?,
            "NextContinuationToken" | "NextVersionIdMarker" | "NextUploadIdMarker" => {
                page.token = Some(walk.text()?.into_owned()).filter(|token| !token.is_empty());
            }
            "NextMarker" | "NextKeyMarker" => {
                page.marker = Some(keys.decode(walk.text()?)?.into_owned()).filter(|marker| !marker.is_empty());
            }
            "EncodingType" => keys.said(&walk.text()?),
            _ => walk.skip()?,
        }
    }
    if !is_listing {
        return Err(another(&walk, found));
    }
    keys.check()?;
    Ok(page)
}

fn object(walk: &mut Walk<'_>, keys: &Keys, within: &'static str, each: &mut dyn FnMut(Item)) -> Result<(), Fault> {
    // Some services give a mark of deletion a size and an ETag, which mean nothing.
    let deleted = within == "DeleteMarker";
    let (mut key, mut size, mut modified, mut latest) = (Cow::Borrowed(&b""[..]), None, None, false);
    let mut metadata = None;
    let (mut id, mut etag, mut class) = (Cow::Borrowed(""), Cow::Borrowed(""), Cow::Borrowed(""));
    while let Some(name) = walk.child()? {
        match name {
            "Key" => key = keys.decode(walk.text()?)?,
            "VersionId" | "UploadId" => id = walk.text()?,
            "IsLatest" => latest = walk.truth("IsLatest")?,
            "Size" if !deleted => size = Some(walk.number("Size")?),
            "ETag" if !deleted => etag = walk.text()?,
            "LastModified" | "Initiated" => modified = time::iso(&walk.text()?),
            "StorageClass" if !deleted => class = walk.text()?,
            "UserMetadata" if !deleted => metadata = Some(Box::new(user_metadata(walk)?)),
            _ => walk.skip()?,
        }
    }
    let missing = match within {
        _ if key.is_empty() => Some("Key"),
        "Version" | "DeleteMarker" if id.is_empty() => Some("VersionId"),
        "Upload" if id.is_empty() => Some("UploadId"),
        "Contents" | "Version" if size.is_none() => Some("Size"),
        _ => None,
    };
    if let Some(element) = missing {
        return Err(Fault::Missing { element, within });
    }
    let class = if class == USUAL { USUAL.into() } else { class.into_owned().into() };
    let object = Object { key: key.into_owned(), size: size.unwrap_or(0), etag: etag.into_owned(), modified, class, metadata };
    each(Item::Version(Version { object, id: id.into_owned(), latest, deleted }));
    Ok(())
}

/// What MinIO adds to a listing where it is asked for: elements that are named as the headers are.
fn user_metadata(walk: &mut Walk<'_>) -> Result<FileAttributes, Fault> {
    let mut pairs: Vec<(&str, Cow<'_, str>)> = Vec::new();
    while let Some(name) = walk.child()? {
        pairs.push((name, walk.text()?));
    }
    Ok(attributes::read(attributes::user_metadata(pairs.iter().map(|(name, value)| (*name, &**value)))))
}

fn prefixes(walk: &mut Walk<'_>, keys: &Keys, each: &mut dyn FnMut(Item)) -> Result<(), Fault> {
    while let Some(name) = walk.child()? {
        if name != "Prefix" {
            walk.skip()?;
            continue;
        }
        let prefix = keys.decode(walk.text()?)?;
        if prefix.is_empty() {
            return Err(Fault::Missing { element: "Prefix", within: "CommonPrefixes" });
        }
        each(Item::Prefix(prefix.into_owned()));
    }
    Ok(())
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

    /// The document came to its `<EncodingType>`.
    fn said(&mut self, encoding: &str) {
        self.said = encoding.trim_ascii().eq_ignore_ascii_case("url");
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
    fn decode<'a>(&self, text: Cow<'a, str>) -> Result<Cow<'a, [u8]>, Fault> {
        if !self.encoded || !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
            return Ok(match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            });
        }
        match crate::address::decode(&text.replace('+', " ")) {
            Some(key) => Ok(Cow::Owned(key)),
            None => Err(Fault::Bad { element: "Key", text: shorten(&text, 256).into() }),
        }
    }
}
