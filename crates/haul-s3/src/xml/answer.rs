//! The answers that are no listings of keys, read by serde: each is a page of text at most, or some thousand parts.

use std::fmt;

use haul_core::entry::{Time, show};
use serde::{Deserialize, Deserializer};

use super::walk::{truth, walk};
use super::{Fault, shorten};
use crate::checksum::Algorithm;
use haul_net::http_client::time;

/// Bytes of a text that is only ever shown.
const LONGEST_SHOWN: usize = 2048;

/// The service's own words about a failure. What it did not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ServiceError {
    /// `NoSuchKey`, `SlowDown`...
    #[serde(deserialize_with = "shown")]
    pub code: String,
    #[serde(default, deserialize_with = "shown")]
    pub message: String,
    #[serde(default, deserialize_with = "shown")]
    pub request_id: String,
    /// The region in which the bucket is, or for which the request should have been signed.
    #[serde(default, deserialize_with = "shown")]
    pub region: String,
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

fn shown<'d, D: Deserializer<'d>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| shorten(&text, LONGEST_SHOWN).into())
}

fn moment<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Time>, D::Error> {
    String::deserialize(from).map(|text| time::iso(&text))
}

/// Reads a document that has the usual root, or one of another name with one of these elements within: services name the roots of
/// their answers as they like, and other clients do not look at them.
pub(super) fn read<'d, T: Deserialize<'d>>(document: &'d [u8], root: &'static str, within: &[&str]) -> Result<T, Fault> {
    let mut has_any = false;
    let (document, found) = walk(document, &mut |path, _| {
        has_any |= matches!(*path, [_, child] if within.contains(&child));
        Ok(())
    })?;
    if found == root || (found != "Error" && has_any) { parse(document, root) } else { Err(another(document, found)) }
}

/// What a document says that is not the one asked for.
pub(super) fn another(document: &str, root: &str) -> Fault {
    match root {
        "Error" => parse(document, "Error").map_or_else(|fault| fault, |error| Fault::Service(Box::new(error))),
        root => Fault::Other { root: shorten(root, 64).into() },
    }
}

fn parse<'d, T: Deserialize<'d>>(document: &'d str, root: &'static str) -> Result<T, Fault> {
    quick_xml::de::from_str(document).map_err(|error| Fault::Bad { element: root, text: shorten(&error.to_string(), 128).into() })
}

/// Reads an `<Error>`, also one within an `<ErrorResponse>` or `<Response>` as the older services and those for
/// credentials write it.
pub fn error(document: &[u8]) -> Result<ServiceError, Fault> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Wrapped {
        #[serde(alias = "RequestID")]
        request_id: String,
        error: Option<ServiceError>,
        errors: Errors,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Errors {
        error: Vec<ServiceError>,
    }
    let (document, root) = walk(document, &mut |_, _| Ok(()))?;
    if root == "Error" {
        return parse(document, "Error");
    }
    let wrapped: Wrapped = parse(document, "Error")?;
    let found = wrapped.error.or(wrapped.errors.error.into_iter().next());
    let mut found = found.ok_or_else(|| Fault::Other { root: shorten(root, 64).into() })?;
    if found.request_id.is_empty() {
        found.request_id = wrapped.request_id;
    }
    Ok(found)
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Bucket {
    #[serde(rename = "Name")]
    pub name: String,
    #[serde(rename = "CreationDate", default, deserialize_with = "moment")]
    pub created: Option<Time>,
    #[serde(rename = "BucketRegion", default)]
    pub region: String,
}

/// Reads an answer to ListBuckets: the buckets and, where there are more, the next request's `continuation-token`.
pub fn list_buckets(document: &[u8]) -> Result<(Vec<Bucket>, Option<String>), Fault> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct All {
        buckets: Buckets,
        continuation_token: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Buckets {
        bucket: Vec<Bucket>,
    }
    let all: All = read(document, "ListAllMyBucketsResult", &["Buckets"])?;
    Ok((all.buckets.bucket, Some(all.continuation_token).filter(|token| !token.is_empty())))
}

/// Reads an answer to GetObjectTagging: keys and values.
pub fn tags(document: &[u8]) -> Result<Vec<(String, String)>, Fault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Tagging {
        #[serde(default)]
        tag_set: TagSet,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct TagSet {
        tag: Vec<Tag>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Tag {
        key: String,
        #[serde(default)]
        value: String,
    }
    let tagging: Tagging = read(document, "Tagging", &["TagSet"])?;
    Ok(tagging.tag_set.tag.into_iter().map(|tag| (tag.key, tag.value)).collect())
}

/// Reads an answer to GetBucketVersioning: `Enabled`, `Suspended`, or nothing where it never was on.
pub fn versioning(document: &[u8]) -> Result<String, Fault> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "Status", default, deserialize_with = "shown")]
        status: String,
    }
    // Of a bucket that never kept versions nothing is in it, and some services name the root as they like.
    let (document, root) = walk(document, &mut |_, _| Ok(()))?;
    match root {
        "Error" | "html" | "HTML" => Err(another(document, root)),
        _ => parse(document, "VersioningConfiguration").map(|said: Said| said.status),
    }
}

/// Reads the region of a bucket out of an answer to GetBucketLocation. Empty and `EU` are the old names of two.
pub fn location(document: &[u8]) -> Result<String, Fault> {
    #[derive(Deserialize)]
    struct Location {
        #[serde(rename = "$text", default)]
        region: String,
        /// Some services put an element of the same name within it.
        #[serde(rename = "LocationConstraint", default)]
        within: String,
    }
    let said: Location = read(document, "LocationConstraint", &["LocationConstraint"])?;
    Ok(match [said.region.trim_ascii(), said.within.trim_ascii()].concat().as_str() {
        "" | "US" => "us-east-1".into(),
        "EU" => "eu-west-1".into(),
        region => shorten(region, 64).into(),
    })
}

/// Reads the id of an upload out of an answer to CreateMultipartUpload.
pub fn initiated(document: &[u8]) -> Result<String, Fault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Initiated {
        upload_id: String,
    }
    const ROOT: &str = "InitiateMultipartUploadResult";
    let said: Initiated = read(document, ROOT, &["UploadId"])?;
    Some(said.upload_id).filter(|id| !id.is_empty()).ok_or(Fault::Missing { element: "UploadId", within: ROOT })
}

/// What became of parts that were put together, or of what was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub etag: String,
    /// In base64, with `-N` behind where it is one over N parts.
    pub checksums: Vec<(Algorithm, String)>,
    /// `FULL_OBJECT` or `COMPOSITE`; empty if it is not said.
    pub checksum_type: String,
}

/// Reads an answer to CompleteMultipartUpload. The version is in the header `x-amz-version-id`. An answer of 200
/// may tell an error; and blanks may come before it, while the service is still at work.
pub fn completed(document: &[u8]) -> Result<Made, Fault> {
    made(document, "CompleteMultipartUploadResult")
}

/// Reads an answer to CopyObject or UploadPartCopy. An answer of 200 may tell an error.
pub fn copied(document: &[u8]) -> Result<Made, Fault> {
    made(document, "CopyObjectResult")
}

fn made(document: &[u8], root: &'static str) -> Result<Made, Fault> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Said {
        #[serde(rename = "ETag")]
        etag: String,
        #[serde(rename = "ChecksumType")]
        checksum_type: String,
        #[serde(rename = "ChecksumCRC64NVME")]
        crc64nvme: String,
        #[serde(rename = "ChecksumCRC32C")]
        crc32c: String,
        #[serde(rename = "ChecksumCRC32")]
        crc32: String,
        #[serde(rename = "ChecksumSHA256")]
        sha256: String,
        #[serde(rename = "ChecksumSHA1")]
        sha1: String,
        #[serde(rename = "Error")]
        error: Option<ServiceError>,
    }
    let said: Said = read(document, root, &["ETag", "Error"])?;
    if let Some(error) = said.error {
        return Err(Fault::Service(Box::new(error)));
    }
    if said.etag.is_empty() {
        return Err(Fault::Missing { element: "ETag", within: root });
    }
    // In the order of the algorithms.
    let checksums = Algorithm::ALL.into_iter().zip([said.crc64nvme, said.crc32c, said.crc32, said.sha256, said.sha1]);
    Ok(Made { etag: said.etag, checksums: checksums.filter(|(_, value)| !value.is_empty()).collect(), checksum_type: said.checksum_type })
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Part {
    #[serde(rename = "PartNumber")]
    pub number: u32,
    #[serde(rename = "Size")]
    pub size: u64,
    #[serde(rename = "ETag")]
    pub etag: String,
}

/// Reads an answer to ListParts: the parts and, where there are more, the next request's `part-number-marker`.
pub fn list_parts(document: &[u8]) -> Result<(Vec<Part>, Option<u32>), Fault> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "PascalCase")]
    struct Page {
        is_truncated: String,
        next_part_number_marker: String,
        part: Vec<Part>,
    }
    const ROOT: &str = "ListPartsResult";
    let page: Page = read(document, ROOT, &["Part", "IsTruncated"])?;
    let bad = |element, text: &dyn ToString| Fault::Bad { element, text: shorten(&text.to_string(), 64).into() };
    if let Some(part) = page.part.iter().find(|part| !(1..=10_000).contains(&part.number)) {
        return Err(bad("PartNumber", &part.number));
    }
    if !truth(&page.is_truncated, "IsTruncated")? {
        return Ok((page.part, None));
    }
    let marker = match page.next_part_number_marker.trim_ascii() {
        "" => page.part.iter().map(|part| part.number).max(),
        text => Some(text.parse().map_err(|_| bad("NextPartNumberMarker", &text))?),
    };
    let missing = Fault::Missing { element: "NextPartNumberMarker", within: ROOT };
    Ok((page.part, Some(marker.ok_or(missing)?)))
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Refusal {
    /// Empty in an error that is about the whole request.
    pub key: String,
    #[serde(rename = "VersionId")]
    pub version: String,
    #[serde(deserialize_with = "shown")]
    pub code: String,
    #[serde(deserialize_with = "shown")]
    pub message: String,
}

/// Reads the keys that stay out of an answer to DeleteObjects.
pub fn deleted(document: &[u8]) -> Result<Vec<Refusal>, Fault> {
    #[derive(Deserialize)]
    struct All {
        #[serde(rename = "$value", default)]
        each: Vec<Each>,
    }
    #[derive(Deserialize)]
    enum Each {
        Error(Refusal),
        #[serde(other)]
        Deleted,
    }
    let all: All = read(document, "DeleteResult", &["Deleted"])?;
    let refused = |each| if let Each::Error(refusal) = each { Some(refusal) } else { None };
    Ok(all.each.into_iter().filter_map(refused).collect())
}
