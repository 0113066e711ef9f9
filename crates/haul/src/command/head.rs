//! `haul head`: what an object store tells of an object, for people or as JSON.

use std::io::Write;

use haul_core::entry::{MetaMask, Time, show};
use haul_core::error::{Error, Result};
use haul_stores::s3::attributes::Kept;
use haul_stores::s3::bucket::Head;
use haul_stores::s3::checksum::{ETag, Kind};
use haul_stores::s3::xml::time::iso_text;
use serde_json::{Map, Value, json};

use super::files::stamp;
use super::scope::{key_of, nothing};
use crate::open::Argument;
use crate::remote::Host;
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
    let Host::Objects(place) = &*host else { return Ok(()) };
    let key = key_of(asked.location);
    let named = |e: Error| e.at(&asked.path);
    let written = |result: std::io::Result<()>| result.map_err(|e| Error::io(e, "write"));
    if key.is_empty() {
        if !place.bucket().exists().map_err(named)? {
            return Err(nothing(asked, false).because("there is no such bucket"));
        }
        let region = place.bucket().location().map_err(named)?;
        let url = show(&asked.path);
        return written(match json {
            true => writeln!(out, "{}", json!({ "url": url, "region": region })),
            false => writeln!(out, "{url}\n  region              {region}"),
        });
    }
    let head = place.bucket().head(&key).map_err(named)?;
    let head = head.ok_or_else(|| nothing(asked, false).because("no such object"))?;
    written(if json { writeln!(out, "{}", as_json(&asked.path, &head)) } else { page(&asked.path, &head, out) })
}

fn etag_words(etag: ETag) -> String {
    match etag {
        ETag::Md5(_) => "the MD5 of the content".into(),
        ETag::Multipart { parts, .. } => format!("uploaded in {parts} parts: the MD5 of their MD5s"),
        ETag::Opaque => "no checksum: it only tells versions apart".into(),
    }
}

fn encryption(head: &Head) -> Option<String> {
    if let Some(algorithm) = head.header("x-amz-server-side-encryption-customer-algorithm") {
        return Some(format!("{algorithm}, with a key of your own"));
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
    line("size", &format!("{} bytes{human}", units::count(head.size)))?;
    line("modified", &stamp(head.modified))?;
    line("etag", &format!("{} ({})", head.etag.trim_matches('"'), etag_words(head.proof.etag)))?;
    line("class", head.header("x-amz-storage-class").unwrap_or("STANDARD"))?;
    if let Some(words) = encryption(head) {
        line("encryption", &words)?;
    }
    for stored in head.proof.stored.iter().filter(|stored| !stored.etag) {
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
    for (name, value) in kept_words(&head.kept) {
        line(name, &value)?;
    }
    for (name, value) in head.metadata() {
        line("metadata", &format!("{name}={value}"))?;
    }
    Ok(())
}

/// What is known of the file that the object was.
fn kept_words(kept: &Kept) -> Vec<(&'static str, String)> {
    let mut words = Vec::new();
    let mut say = |name, value: Option<String>| words.extend(value.map(|value| (name, value)));
    say("file: kind", kept.kind.map(|kind| kind.word().to_string()));
    say("file: mode", kept.mode.map(|mode| format!("{mode:04o}")));
    let owner = |id: Option<u32>| id.map_or_else(|| "-".to_string(), |id| id.to_string());
    say("file: owner:group", (kept.uid.is_some() || kept.gid.is_some()).then(|| format!("{}:{}", owner(kept.uid), owner(kept.gid))));
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

fn as_json(path: &[u8], head: &Head) -> Value {
    let mut all = Map::new();
    all.insert("url".into(), show(path).into());
    all.insert("size".into(), head.size.into());
    all.insert("modified".into(), exact(head.modified).into());
    all.insert("etag".into(), head.etag.trim_matches('"').into());
    let (kind, parts) = match head.proof.etag {
        ETag::Md5(_) => ("md5", None),
        ETag::Multipart { parts, .. } => ("multipart", Some(parts)),
        ETag::Opaque => ("opaque", None),
    };
    all.insert("etag_kind".into(), kind.into());
    all.extend(parts.map(|parts| ("parts".to_string(), parts.into())));
    all.insert("class".into(), head.header("x-amz-storage-class").unwrap_or("STANDARD").into());
    for (header, name) in [
        ("x-amz-server-side-encryption", "encryption"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "kms_key"),
        ("x-amz-server-side-encryption-customer-algorithm", "customer_encryption"),
    ]
    .into_iter()
    .chain(PLAIN.map(|(header, _, name)| (header, name)))
    {
        all.extend(head.header(header).map(|value| (name.to_string(), value.into())));
    }
    let checksums = head.proof.stored.iter().filter(|stored| !stored.etag).map(|stored| {
        let kind = if stored.kind == Kind::Whole { "FULL_OBJECT" } else { "COMPOSITE" };
        json!({ "algorithm": stored.algorithm().word(), "value": stored.text(), "type": kind })
    });
    all.insert("checksums".into(), checksums.collect());
    let kept = &head.kept;
    if !kept.is_empty() {
        let mut file = Map::new();
        let mut put = |name: &str, value: Option<Value>| file.extend(value.map(|value| (name.to_string(), value)));
        put("kind", kept.kind.map(|kind| kind.word().into()));
        put("mode", kept.mode.map(|mode| format!("{mode:04o}").into()));
        put("uid", kept.uid.map(Into::into));
        put("gid", kept.gid.map(Into::into));
        put("mtime", kept.mtime.map(|time| exact(time).into()));
        put("atime", kept.atime.map(|time| exact(time).into()));
        put("rdev", kept.rdev.map(Into::into));
        put("xattrs", kept.xattrs.as_ref().map(|(_, xattrs)| xattrs.len().into()));
        all.insert("file".into(), file.into());
    }
    let metadata: Map<String, Value> = head.metadata().into_iter().map(|(name, value)| (name.to_string(), value.into())).collect();
    all.insert("metadata".into(), metadata.into());
    all.into()
}
