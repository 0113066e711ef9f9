//! The small answers: errors, buckets, copies, deletions.

use std::borrow::Cow;
use std::fmt;

use haul_core::entry::{Time, show};

use super::upload::checksum;
use super::walk::Walk;
use super::{Fault, shorten, time};
use crate::s3::checksum::Algorithm;

/// Bytes of a text that is only ever shown.
const LONGEST_SHOWN: usize = 2048;

/// Details of an error beyond those that have a field.
const MOST_DETAILS: usize = 16;

/// The service's own words about a failure. What it did not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceError {
    /// `NoSuchKey`, `SlowDown`...
    pub code: String,
    pub message: String,
    pub request_id: String,
    pub host_id: String,
    /// The region in which the bucket is, or for which the request should have been signed.
    pub region: String,
    /// The host at which the bucket is to be asked for.
    pub endpoint: String,
    pub bucket: String,
    pub key: String,
    /// The service's clock, where that of the request was wrong.
    pub server_time: Option<Time>,
    /// Whatever else it said, in the order of the document: element and text.
    pub more: Vec<(String, String)>,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = show(self.code.as_bytes());
        match self.message.as_str() {
            "" => f.write_str(&code),
            message => write!(f, "{} ({code})", show(message.trim_end_matches('.').as_bytes())),
        }
    }
}

/// Reads an `<Error>`, also one within an `<ErrorResponse>` or `<Response>` as the older services and those for
/// credentials write it.
pub fn error(document: &[u8]) -> Result<ServiceError, Fault> {
    let (mut walk, root) = Walk::open(document)?;
    if root == "Error" {
        return error_within(&mut walk);
    }
    let mut found = None;
    let mut request_id = String::new();
    while let Some(name) = walk.child()? {
        match name {
            "Error" => found = Some(error_within(&mut walk)?),
            "Errors" => {
                while let Some(name) = walk.child()? {
                    match name {
                        "Error" if found.is_none() => found = Some(error_within(&mut walk)?),
                        _ => walk.skip()?,
                    }
                }
            }
            "RequestId" | "RequestID" => request_id = shown(&mut walk)?,
            _ => walk.skip()?,
        }
    }
    let mut found = found.ok_or_else(|| Fault::Other { root: shorten(root, 64).into() })?;
    if found.request_id.is_empty() {
        found.request_id = request_id;
    }
    Ok(found)
}

/// The rest of an `<Error>` that is open.
pub(super) fn error_within(walk: &mut Walk<'_>) -> Result<ServiceError, Fault> {
    let mut error = ServiceError::default();
    while let Some(name) = walk.child()? {
        match name {
            "Code" => error.code = shown(walk)?,
            "Message" => error.message = shown(walk)?,
            "RequestId" => error.request_id = shown(walk)?,
            "HostId" => error.host_id = shown(walk)?,
            "Region" => error.region = shown(walk)?,
            "Endpoint" => error.endpoint = shown(walk)?,
            "BucketName" => error.bucket = shown(walk)?,
            "Key" => error.key = shown(walk)?,
            "ServerTime" => error.server_time = time::iso(&walk.text()?),
            name if error.more.len() < MOST_DETAILS => match walk.words()? {
                Some(text) => error.more.push((shorten(name, 64).into(), shorten(&text, LONGEST_SHOWN).into())),
                None => continue,
            },
            _ => walk.skip()?,
        }
    }
    if error.code.is_empty() {
        return Err(Fault::Missing { element: "Code", within: "Error" });
    }
    Ok(error)
}

fn shown(walk: &mut Walk<'_>) -> Result<String, Fault> {
    Ok(shorten(&walk.text()?, LONGEST_SHOWN).into())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub name: String,
    pub created: Option<Time>,
    /// Empty if it is not said.
    pub region: String,
}

/// Reads an answer to ListBuckets: the buckets and, where there are more, the next request's `continuation-token`.
pub fn list_buckets(document: &[u8]) -> Result<(Vec<Bucket>, Option<String>), Fault> {
    let mut walk = Walk::into(document, "ListAllMyBucketsResult")?;
    let (mut buckets, mut token) = (Vec::new(), None);
    while let Some(name) = walk.child()? {
        match name {
            "Buckets" => {
                while let Some(name) = walk.child()? {
                    match name {
                        "Bucket" => buckets.push(bucket(&mut walk)?),
                        _ => walk.skip()?,
                    }
                }
            }
            "ContinuationToken" => token = walk.kept()?,
            _ => walk.skip()?,
        }
    }
    Ok((buckets, token))
}

fn bucket(walk: &mut Walk<'_>) -> Result<Bucket, Fault> {
    let (mut found, mut created, mut region) = (None, None, None);
    while let Some(name) = walk.child()? {
        match name {
            "Name" => found = walk.kept()?,
            "CreationDate" => created = time::iso(&walk.text()?),
            "BucketRegion" => region = walk.kept()?,
            _ => walk.skip()?,
        }
    }
    let name = found.ok_or(Fault::Missing { element: "Name", within: "Bucket" })?;
    Ok(Bucket { name, created, region: region.unwrap_or_default() })
}

/// Reads an answer to GetObjectTagging: keys and values.
pub fn tags(document: &[u8]) -> Result<Vec<(String, String)>, Fault> {
    let mut walk = Walk::into(document, "Tagging")?;
    let mut tags = Vec::new();
    while let Some(name) = walk.child()? {
        if name != "TagSet" {
            walk.skip()?;
            continue;
        }
        while let Some(name) = walk.child()? {
            match name {
                "Tag" => tags.push(tag(&mut walk)?),
                _ => walk.skip()?,
            }
        }
    }
    Ok(tags)
}

fn tag(walk: &mut Walk<'_>) -> Result<(String, String), Fault> {
    let (mut key, mut value) = (None, String::new());
    while let Some(name) = walk.child()? {
        match name {
            "Key" => key = Some(walk.text()?.into_owned()),
            "Value" => value = walk.text()?.into_owned(),
            _ => walk.skip()?,
        }
    }
    Ok((key.ok_or(Fault::Missing { element: "Key", within: "Tag" })?, value))
}

/// Reads the region of a bucket out of an answer to GetBucketLocation. Empty and `EU` are the old names of two.
pub fn location(document: &[u8]) -> Result<String, Fault> {
    let mut walk = Walk::into(document, "LocationConstraint")?;
    let mut region = Cow::Borrowed("");
    if walk.is_leaf() {
        region = walk.text()?;
    } else {
        // Some services put an element of the same name within it.
        while let Some(name) = walk.child()? {
            match name {
                "LocationConstraint" => region = walk.text()?,
                _ => walk.skip()?,
            }
        }
    }
    Ok(match region.trim_ascii() {
        "" | "US" => "us-east-1".into(),
        "EU" => "eu-west-1".into(),
        region => shorten(region, 64).into(),
    })
}

/// What came out of a copy within the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// As the service writes it.
    pub etag: String,
    pub modified: Option<Time>,
    /// In base64.
    pub checksums: Vec<(Algorithm, String)>,
    /// `FULL_OBJECT` or `COMPOSITE`; empty if it is not said.
    pub checksum_type: String,
}

/// Reads an answer to CopyObject or UploadPartCopy. An answer of 200 may tell an error.
pub fn copied(document: &[u8]) -> Result<Copied, Fault> {
    let (mut walk, root) = Walk::open(document)?;
    match root {
        "CopyObjectResult" | "CopyPartResult" | "UploadPartCopyResult" => {}
        "Error" => return Err(Fault::Service(Box::new(error_within(&mut walk)?))),
        root => return Err(Fault::Other { root: shorten(root, 64).into() }),
    }
    let mut copied = Copied::default();
    while let Some(name) = walk.child()? {
        match name {
            "ETag" => copied.etag = walk.kept()?.unwrap_or_default(),
            "LastModified" => copied.modified = time::iso(&walk.text()?),
            "ChecksumType" => copied.checksum_type = walk.kept()?.unwrap_or_default(),
            "Error" => return Err(Fault::Service(Box::new(error_within(&mut walk)?))),
            name => checksum(&mut walk, name, &mut copied.checksums)?,
        }
    }
    if copied.etag.is_empty() {
        return Err(Fault::Missing { element: "ETag", within: "CopyObjectResult" });
    }
    Ok(copied)
}

/// What became of a request to delete many. With `quiet` only the refusals are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Keys that are gone, each with the version that was asked for, or empty.
    pub gone: Vec<(Vec<u8>, String)>,
    pub refused: Vec<Refusal>,
}

/// A key that stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    pub key: Vec<u8>,
    /// Empty if none was asked for.
    pub version: String,
    pub code: String,
    pub message: String,
}

/// Reads an answer to DeleteObjects.
pub fn deleted(document: &[u8]) -> Result<Deleted, Fault> {
    let mut walk = Walk::into(document, "DeleteResult")?;
    let mut deleted = Deleted::default();
    while let Some(name) = walk.child()? {
        match name {
            "Deleted" => {
                let found = refusal(&mut walk, "Deleted")?;
                deleted.gone.push((found.key, found.version));
            }
            "Error" => deleted.refused.push(refusal(&mut walk, "Error")?),
            _ => walk.skip()?,
        }
    }
    Ok(deleted)
}

fn refusal(walk: &mut Walk<'_>, within: &'static str) -> Result<Refusal, Fault> {
    let mut refusal = Refusal::default();
    while let Some(name) = walk.child()? {
        match name {
            "Key" => refusal.key = walk.text()?.into_owned().into_bytes(),
            "VersionId" => refusal.version = walk.text()?.into_owned(),
            "Code" => refusal.code = shown(walk)?,
            "Message" => refusal.message = shown(walk)?,
            _ => walk.skip()?,
        }
    }
    // An error without a key is one about the whole request.
    if refusal.key.is_empty() && within == "Deleted" {
        return Err(Fault::Missing { element: "Key", within });
    }
    Ok(refusal)
}
