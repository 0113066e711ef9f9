//! Documents that go to the service. What a key or a tag holds is escaped; bytes that XML cannot hold are refused.

use std::fmt::Write as _;

use crate::checksum::Algorithm;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletePart<'a> {
    /// 1 to 10,000. The caller has them in ascending order.
    pub number: u32,
    /// As the service wrote it when the part landed.
    pub etag: &'a str,
    /// In base64: needed where the upload was begun with a checksum.
    pub checksum: Option<(Algorithm, &'a str)>,
}

/// The body of CompleteMultipartUpload. An ETag comes from the service, so that what XML cannot hold of it is left out.
pub fn complete_upload<'a>(parts: impl IntoIterator<Item = CompletePart<'a>>) -> String {
    let mut body = format!("<CompleteMultipartUpload xmlns=\"{NAMESPACE}\">");
    for part in parts {
        body.push_str("<Part>");
        if let Some((algorithm, value)) = part.checksum {
            element(&mut body, algorithm.element(), value);
        }
        element(&mut body, "ETag", part.etag);
        let _ = write!(body, "<PartNumber>{}</PartNumber></Part>", part.number);
    }
    body.push_str("</CompleteMultipartUpload>");
    body
}

/// The body of DeleteObjects, for at most 1,000 keys, each with a version or an empty text. `Err` is the place of a
/// key that no XML can hold (control characters, no UTF-8): it is deleted by a request of its own.
pub fn delete_objects<'a>(keys: impl IntoIterator<Item = (&'a [u8], &'a str)>, quiet: bool) -> Result<String, usize> {
    let mut body = format!("<Delete xmlns=\"{NAMESPACE}\">");
    for (place, (key, version)) in keys.into_iter().enumerate() {
        let key = std::str::from_utf8(key).ok().filter(|key| key.chars().all(allowed)).ok_or(place)?;
        body.push_str("<Object>");
        element(&mut body, "Key", key);
        if !version.is_empty() {
            element(&mut body, "VersionId", version);
        }
        body.push_str("</Object>");
    }
    if quiet {
        element(&mut body, "Quiet", "true");
    }
    body.push_str("</Delete>");
    Ok(body)
}

/// The body of CreateBucket; `None` for `us-east-1`, for which there must be none.
pub fn create_bucket(region: &str) -> Option<String> {
    if matches!(region, "" | "us-east-1") {
        return None;
    }
    let mut body = format!("<CreateBucketConfiguration xmlns=\"{NAMESPACE}\">");
    element(&mut body, "LocationConstraint", region);
    body.push_str("</CreateBucketConfiguration>");
    Some(body)
}

pub fn tagging(tags: &[(String, String)]) -> String {
    let mut body = format!("<Tagging xmlns=\"{NAMESPACE}\"><TagSet>");
    for (name, value) in tags {
        body.push_str("<Tag>");
        element(&mut body, "Key", name);
        element(&mut body, "Value", value);
        body.push_str("</Tag>");
    }
    body.push_str("</TagSet></Tagging>");
    body
}

pub fn restore(days: u32, tier: Option<&str>) -> String {
    let mut body = format!("<RestoreRequest xmlns=\"{NAMESPACE}\"><Days>{days}</Days>");
    if let Some(tier) = tier {
        body.push_str("<GlacierJobParameters>");
        element(&mut body, "Tier", tier);
        body.push_str("</GlacierJobParameters>");
    }
    body.push_str("</RestoreRequest>");
    body
}

pub fn set_versioning(on: bool) -> String {
    let status = if on { "Enabled" } else { "Suspended" };
    format!("<VersioningConfiguration xmlns=\"{NAMESPACE}\"><Status>{status}</Status></VersioningConfiguration>")
}

fn element(body: &mut String, name: &str, text: &str) {
    let _ = write!(body, "<{name}>");
    for c in text.chars().filter(|c| allowed(*c)) {
        match c {
            '&' => body.push_str("&amp;"),
            '<' => body.push_str("&lt;"),
            '>' => body.push_str("&gt;"),
            '"' => body.push_str("&quot;"),
            // A reader of XML takes these three for other blanks if they stand as they are.
            '\t' | '\n' | '\r' => drop(write!(body, "&#{};", c as u32)),
            c => body.push(c),
        }
    }
    let _ = write!(body, "</{name}>");
}

/// XML 1.0's `Char`.
fn allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
