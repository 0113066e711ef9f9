//! `haul head`: what an object store tells of an object, for people or as JSON.

use haul_run::open::Argument;
use haul_run::scope::{key_of, nothing};
use haul_s3::BucketHost;
use std::io::Write;

use haul_core::entry::{MetaMask, Time, show};
use haul_core::error::{Error, Result};
use haul_net::http_client::time::iso_text;
use haul_s3::attributes::FileAttributes;
use haul_s3::bucket::Head;
use haul_s3::checksum::{ETag, Kind, StoredChecksum};
use serde_json::{Map, Value, json};

use super::files::stamp;
use crate::render::listing::{Head as Told, Listed};
use crate::text::things;
use crate::units;

/// Headers that are told as they are: what each is called, and in JSON.
const PLAIN: [(&str, &str, &str); 15] = [
    ("x-amz-version-id", "version", "version_id"),
    ("content-type", "content type", "content_type"),
    ("content-encoding", "content encoding", "content_encoding"),
    ("content-language", "content language", "content_language"),
    ("content-disposition", "content disposition", "content_disposition"),
    ("cache-control", "cache control", "cache_control"),
    ("x-amz-tagging-count", "tags", "tags"),
    ("x-amz-restore", "restored", "restore"),
    ("x-amz-archive-status", "archive", "archive_status"),
    ("x-amz-expiration", "expires", "expiration"),
    ("x-amz-object-lock-mode", "retention", "retention_mode"),
    ("x-amz-object-lock-retain-until-date", "retained until", "retained_until"),
    ("x-amz-object-lock-legal-hold", "legal hold", "legal_hold"),
    ("x-amz-replication-status", "replication", "replication_status"),
    ("x-amz-website-redirect-location", "redirects to", "redirect"),
];

/// Writes a page on an object, or on a bucket.
pub fn head(asked: &Argument<'_>, json: bool, out: &mut dyn Write) -> Result<()> {
    let host = asked.hosts.reach(asked.location)?;
    let place = BucketHost::of(&*host)?;
    let key = key_of(asked.location);
    let named = |e: Error| e.at(&asked.path);
    let written = |result: std::io::Result<()>| result.map_err(|e| Error::io(e, "write"));
    if key.is_empty() {
        if !place.bucket().exists().map_err(named)? {
            return Err(nothing(asked, false).because("no such bucket"));
        }
        let region = place.bucket().location().map_err(named)?;
        return written(match json {
            true => Listed::Head(Told::of(&asked.path, Some(&region), as_json(None))).write(out),
            false => writeln!(out, "{}\n  region              {region}", show(&asked.path)),
        });
    }
    let head = place.bucket().head(&key).map_err(named)?;
    let head = head.ok_or_else(|| nothing(asked, false).because("no such object"))?;
    written(if json { Listed::Head(Told::of(&asked.path, None, as_json(Some(&head)))).write(out) } else { page(&asked.path, &head, out) })
}

fn etag_words(etag: ETag) -> String {
    match etag {
        ETag::Md5(_) => "the MD5 of the content".into(),
        ETag::Multipart { parts, .. } => format!("uploaded in {parts} parts: the MD5 of their MD5s"),
        ETag::Opaque => "no checksum: it only distinguishes versions".into(),
    }
}

fn encryption(head: &Head) -> Option<String> {
    if let Some(algorithm) = head.header("x-amz-server-side-encryption-customer-algorithm") {
        return Some(format!("{algorithm}, with your own key"));
    }
    let kind = head.header("x-amz-server-side-encryption")?;
    Some(match head.header("x-amz-server-side-encryption-aws-kms-key-id") {
        Some(key) => format!("{kind}, key {key}"),
        None => kind.to_string(),
    })
}

fn page(path: &[u8], head: &Head, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", show(path))?;
    let mut line = |name: &str, value: &str| writeln!(out, "  {name:<19} {}", show(value.as_bytes()));
    let human = if head.size > 999 { format!(" ({})", units::bytes(head.size)) } else { String::new() };
    line("size", &format!("{}{human}", things(head.size, "byte")))?;
    line("modified", &stamp(head.modified))?;
    line("etag", &format!("{} ({})", head.etag.trim_matches('"'), etag_words(head.checksums.etag)))?;
    line("class", head.header("x-amz-storage-class").unwrap_or("STANDARD"))?;
    if let Some(words) = encryption(head) {
        line("encryption", &words)?;
    }
    for stored in head.checksums.stored.iter().filter(|stored| !stored.etag) {
        let of = match stored.kind {
            Kind::Whole => "of the whole object".into(),
            Kind::Composite(0) => "of the parts' checksums".into(),
            Kind::Composite(parts) => format!("of the checksums of {parts} parts"),
        };
        line("checksum", &format!("{} {} ({of})", stored.algorithm().word(), stored.text()))?;
    }
    for (header, name, _) in PLAIN {
        if let Some(value) = head.header(header) {
            line(name, value)?;
        }
    }
    for (name, value) in kept_words(&head.attributes) {
        line(name, &value)?;
    }
    for (name, value) in head.metadata() {
        line("metadata", &format!("{name}={value}"))?;
    }
    Ok(())
}

/// What is known of the file that the object was.
fn kept_words(kept: &FileAttributes) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    let mut say = |name, value: Option<String>| words.extend(value.map(|value| (name, value)));
    say("file: kind", kept.kind.map(|kind| kind.word().to_string()));
    say("file: mode", kept.mode.map(|mode| format!("{mode:04o}")));
    let owner = |id: Option<u32>| id.map_or_else(|| "-".to_string(), |id| id.to_string());
    say("file: owner:group", (kept.uid.is_some() || kept.gid.is_some()).then(|| format!("{}:{}", owner(kept.uid), owner(kept.gid))));
    let name = |name: &Option<Box<[u8]>>| name.as_deref().map_or_else(|| "-".to_string(), haul_core::entry::show);
    say("file: names", (kept.user.is_some() || kept.group.is_some()).then(|| format!("{}:{}", name(&kept.user), name(&kept.group))));
    say("file: mtime", kept.mtime.map(exact));
    say("file: atime", kept.atime.map(exact));
    say("file: device", kept.rdev.map(|device| format!("{device:#x}")));
    say("file: xattrs", kept.xattrs.as_ref().map(|(classes, xattrs)| xattrs_words(*classes, xattrs.len())));
    say("file: md5", kept.md5.map(|md5| haul_core::hash::hex(&md5)));
    words
}

fn xattrs_words(classes: MetaMask, count: usize) -> String {
    match count {
        0 => format!("none ({})", classes.words().join(", ")),
        count => format!("{count} ({})", classes.words().join(", ")),
    }
}

/// To the nanosecond, in UTC.
fn exact(time: Time) -> String {
    iso_text(time).unwrap_or_else(|| format!("@{}.{:09}", time.secs, time.nanos))
}

/// All keys, null where there is nothing to say; of a bucket all are.
fn as_json(head: Option<&Head>) -> Map<String, Value> {
    let etag_kind = |etag| match etag {
        ETag::Md5(_) => "md5",
        ETag::Multipart { .. } => "multipart",
        ETag::Opaque => "opaque",
    };
    let parts = |head: &Head| match head.checksums.etag {
        ETag::Multipart { parts, .. } => Some(parts),
        ETag::Md5(_) | ETag::Opaque => None,
    };
    let mut all = Map::new();
    let mut put = |name: &str, value: Option<Value>| all.insert(name.to_string(), value.unwrap_or_default());
    put("size", head.map(|head| head.size.into()));
    put("modified", head.map(|head| exact(head.modified).into()));
    put("etag", head.map(|head| head.etag.trim_matches('"').into()));
    put("etag_kind", head.map(|head| etag_kind(head.checksums.etag).into()));
    put("parts", head.and_then(parts).map(Into::into));
    put("class", head.map(|head| head.header("x-amz-storage-class").unwrap_or("STANDARD").into()));
    let encrypted = [
        ("x-amz-server-side-encryption", "encryption"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "kms_key"),
        ("x-amz-server-side-encryption-customer-algorithm", "customer_encryption"),
    ];
    for (header, name) in encrypted.into_iter().chain(PLAIN.map(|(header, _, name)| (header, name))) {
        put(name, head.and_then(|head| head.header(header)).map(Into::into));
    }
    let checksum = |stored: &StoredChecksum| {
        let kind = if stored.kind == Kind::Whole { "FULL_OBJECT" } else { "COMPOSITE" };
        json!({ "algorithm": stored.algorithm().word(), "value": stored.text(), "type": kind })
    };
    put("checksums", head.map(|head| head.checksums.stored.iter().filter(|stored| !stored.etag).map(checksum).collect()));
    put("file", head.map(|head| &head.attributes).filter(|kept| !kept.is_empty()).map(file));
    let metadata = |head: &Head| head.metadata().into_iter().map(|(name, value)| (name.to_string(), Value::from(value))).collect();
    put("metadata", head.map(|head| Value::Object(metadata(head))));
    all
}

/// The file that the object was.
fn file(kept: &FileAttributes) -> Value {
    json!({
        "kind": kept.kind.map(haul_core::entry::Kind::word),
        "mode": kept.mode.map(|mode| format!("{mode:04o}")),
        "uid": kept.uid,
        "gid": kept.gid,
        "mtime": kept.mtime.map(exact),
        "atime": kept.atime.map(exact),
        "rdev": kept.rdev,
        "xattrs": kept.xattrs.as_ref().map(|(_, xattrs)| xattrs.len()),
    })
}
