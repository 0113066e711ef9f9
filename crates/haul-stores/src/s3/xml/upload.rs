//! Uploads in parts: their listings, their parts, and what comes out of them.

use haul_core::entry::Time;

use super::listing::Keys;
use super::walk::Walk;
use super::{Fault, shorten, time};
use crate::s3::checksum::Algorithm;

/// An upload that was begun and neither completed nor abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    pub key: Vec<u8>,
    pub id: String,
    pub initiated: Option<Time>,
    /// Empty if it is not said.
    pub class: String,
}

/// Where a listing of uploads goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadPage {
    /// There is more; then `key_marker` is there.
    pub truncated: bool,
    pub key_marker: Option<Vec<u8>>,
    pub id_marker: Option<String>,
}

/// Reads an answer to ListMultipartUploads.
pub fn list_uploads(document: &[u8], each: &mut dyn FnMut(Upload)) -> Result<UploadPage, Fault> {
    let mut walk = Walk::into(document, "ListMultipartUploadsResult")?;
    let mut keys = Keys::of(document);
    let mut page = UploadPage::default();
    while let Some(name) = walk.child()? {
        match name {
            "Upload" => each(upload(&mut walk, &keys)?),
            "IsTruncated" => page.truncated = walk.truth("IsTruncated")?,
            "NextKeyMarker" => {
                let marker = keys.decode(walk.text()?)?.into_owned();
                page.key_marker = Some(marker).filter(|marker| !marker.is_empty());
            }
            "NextUploadIdMarker" => page.id_marker = walk.kept()?,
            "EncodingType" => keys.said(&walk.text()?),
            _ => walk.skip()?,
        }
    }
    keys.check()?;
    if page.truncated && page.key_marker.is_none() {
        return Err(Fault::Missing { element: "NextKeyMarker", within: "ListMultipartUploadsResult" });
    }
    Ok(page)
}

fn upload(walk: &mut Walk<'_>, keys: &Keys) -> Result<Upload, Fault> {
    const WITHIN: &str = "Upload";
    let (mut key, mut id, mut initiated, mut class) = (None, None, None, None);
    while let Some(name) = walk.child()? {
        match name {
            "Key" => key = Some(keys.decode(walk.text()?)?.into_owned()),
            "UploadId" => id = walk.kept()?,
            "Initiated" => initiated = time::iso(&walk.text()?),
            "StorageClass" => class = walk.kept()?,
            _ => walk.skip()?,
        }
    }
    Ok(Upload {
        key: key.filter(|key| !key.is_empty()).ok_or(Fault::Missing { element: "Key", within: WITHIN })?,
        id: id.ok_or(Fault::Missing { element: "UploadId", within: WITHIN })?,
        initiated,
        class: class.unwrap_or_default(),
    })
}

/// A part that landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// 1 to 10,000.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// As the service writes it.
    pub etag: String,
    pub modified: Option<Time>,
    /// In base64, as the service writes them.
    pub checksums: Vec<(Algorithm, String)>,
}

/// Where a listing of parts goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartPage {
    /// There is more; then `marker` is there.
    pub truncated: bool,
    /// `part-number-marker` of the next request.
    pub marker: Option<u32>,
}

/// Reads an answer to ListParts.
pub fn list_parts(document: &[u8], each: &mut dyn FnMut(Part)) -> Result<PartPage, Fault> {
    // moto names it so.
    let mut walk = match Walk::into(document, "ListPartsResult") {
        Err(Fault::Other { root }) if *root == *"ListPartsResponse" => Walk::into(document, "ListPartsResponse")?,
        walk => walk?,
    };
    let mut page = PartPage::default();
    let mut last = 0;
    while let Some(name) = walk.child()? {
        match name {
            "Part" => {
                let part = part(&mut walk)?;
                last = last.max(part.number);
                each(part);
            }
            "IsTruncated" => page.truncated = walk.truth("IsTruncated")?,
            // Some services leave it empty on the last page.
            "NextPartNumberMarker" => {
                let text = walk.text()?;
                if !text.trim_ascii().is_empty() {
                    let marker = super::walk::number(&text).and_then(|marker| u32::try_from(marker).ok());
                    page.marker = Some(marker.ok_or_else(|| bad("NextPartNumberMarker", &text))?);
                }
            }
            _ => walk.skip()?,
        }
    }
    if page.truncated && page.marker.is_none() {
        if last == 0 {
            return Err(Fault::Missing { element: "NextPartNumberMarker", within: "ListPartsResult" });
        }
        page.marker = Some(last);
    }
    Ok(page)
}

fn part(walk: &mut Walk<'_>) -> Result<Part, Fault> {
    const WITHIN: &str = "Part";
    let (mut number, mut size, mut etag, mut modified, mut checksums) = (None, None, None, None, Vec::new());
    while let Some(name) = walk.child()? {
        match name {
            "PartNumber" => {
                let said = walk.number("PartNumber")?;
                let part = u32::try_from(said).ok().filter(|part| (1..=10_000).contains(part));
                number = Some(part.ok_or_else(|| bad("PartNumber", &said.to_string()))?);
            }
            "Size" => size = Some(walk.number("Size")?),
            "ETag" => etag = walk.kept()?,
            "LastModified" => modified = time::iso(&walk.text()?),
            name => checksum(walk, name, &mut checksums)?,
        }
    }
    Ok(Part {
        number: number.ok_or(Fault::Missing { element: "PartNumber", within: WITHIN })?,
        size: size.ok_or(Fault::Missing { element: "Size", within: WITHIN })?,
        etag: etag.ok_or(Fault::Missing { element: "ETag", within: WITHIN })?,
        modified,
        checksums,
    })
}

/// Keeps the text of an element that is a checksum, and passes over any other.
pub(super) fn checksum(walk: &mut Walk<'_>, name: &str, checksums: &mut Vec<(Algorithm, String)>) -> Result<(), Fault> {
    match Algorithm::of_element(name) {
        Some(algorithm) if checksums.iter().all(|(known, _)| *known != algorithm) => {
            checksums.extend(walk.kept()?.map(|value| (algorithm, value)));
            Ok(())
        }
        _ => walk.skip(),
    }
}

/// Reads the id of an upload out of an answer to CreateMultipartUpload.
pub fn initiated(document: &[u8]) -> Result<String, Fault> {
    const ROOT: &str = "InitiateMultipartUploadResult";
    let mut walk = Walk::into(document, ROOT)?;
    let mut id = None;
    while let Some(name) = walk.child()? {
        match name {
            "UploadId" => id = walk.kept()?,
            _ => walk.skip()?,
        }
    }
    id.ok_or(Fault::Missing { element: "UploadId", within: ROOT })
}

/// What became of the parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// As the service writes it.
    pub etag: String,
    /// In base64, with `-N` behind where it is one over N parts.
    pub checksums: Vec<(Algorithm, String)>,
    /// `FULL_OBJECT` or `COMPOSITE`; empty if it is not said.
    pub checksum_type: String,
}

/// Reads an answer to CompleteMultipartUpload. The version is in the header `x-amz-version-id`. An answer of 200
/// may tell an error; and blanks may come before it, while the service is still at work.
pub fn completed(document: &[u8]) -> Result<Completed, Fault> {
    const ROOT: &str = "CompleteMultipartUploadResult";
    let mut walk = Walk::into(document, ROOT)?;
    let mut completed = Completed::default();
    let mut etag = None;
    while let Some(name) = walk.child()? {
        match name {
            "ETag" => etag = walk.kept()?,
            "ChecksumType" => completed.checksum_type = walk.kept()?.unwrap_or_default(),
            "Error" => return Err(Fault::Service(Box::new(walk.refusal()?))),
            name => checksum(&mut walk, name, &mut completed.checksums)?,
        }
    }
    completed.etag = etag.ok_or(Fault::Missing { element: "ETag", within: ROOT })?;
    Ok(completed)
}

pub(super) fn bad(element: &'static str, text: &str) -> Fault {
    Fault::Bad { element, text: shorten(text, 64).into() }
}
