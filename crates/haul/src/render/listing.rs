//! What `ls`, `du`, `df`, `tree`, `sum`, `head`, `rm`, `rb`, `ln`, `chmod`, `chown` and `chgrp` print with `--json`: one object a line, no line for the run itself. These
//! structs are the schema, as those in [`json`](super::json) are.

use std::borrow::Cow;
use std::io::{self, Write};

use haul_core::entry::{self, Kind, MetaMask, Time};
use haul_core::hash::{Algorithm, hex};
use haul_core::store::Volume;
use haul_stores::s3::inventory::{self, Object, Version};
use haul_stores::s3::xml;
use serde::Serialize;
use serde_json::{Map, Value};

use super::json::{Path, harmless, kind_word, text};

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Listed<'a> {
    Entry(Box<Entry<'a>>),
    Upload(Upload<'a>),
    Bucket(Bucket<'a>),
    Usage(Usage<'a>),
    Class(Class<'a>),
    Sum(Sum<'a>),
    Head(Head<'a>),
    Removed(Removed<'a>),
    Changed(Changed<'a>),
    Linked(Linked<'a>),
    #[serde(rename = "file-system")]
    FileSystem(FileSystem<'a>),
}

impl Listed<'_> {
    /// Writes it as one line.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let line = serde_json::to_string(self).expect("strings and numbers under string keys are always JSON");
        writeln!(out, "{}", harmless(line))
    }
}

/// The argument that a line is about.
#[derive(Serialize)]
struct Place<'a> {
    place: Cow<'a, str>,
    place_hex: Option<String>,
}

impl<'a> Place<'a> {
    fn of(place: &'a [u8]) -> Self {
        let (place, place_hex) = text(place);
        Place { place, place_hex }
    }
}

/// A name in a listing. What the listing does not tell is `None`.
#[derive(Serialize)]
pub struct Entry<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    path: Path,
    kind: &'static str,
    size: Option<u64>,
    mtime: Option<f64>,
    mtime_ns: Option<i128>,
    mode: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
    target: Option<Cow<'a, str>>,
    target_hex: Option<String>,
    storage_class: Option<&'a str>,
    etag: Option<&'a str>,
    version_id: Option<&'a str>,
    latest: Option<bool>,
    deleted: Option<bool>,
}

impl<'a> Entry<'a> {
    fn bare(place: &'a [u8], path: &[u8], kind: Kind) -> Self {
        Entry {
            place: Place::of(place),
            path: Path::of(path),
            kind: kind_word(kind),
            size: None,
            mtime: None,
            mtime_ns: None,
            mode: None,
            uid: None,
            gid: None,
            target: None,
            target_hex: None,
            storage_class: None,
            etag: None,
            version_id: None,
            latest: None,
            deleted: None,
        }
    }

    /// Of a file system.
    pub fn of(place: &'a [u8], path: &[u8], entry: &'a entry::Entry) -> Self {
        let has = |mask| entry.have.has(mask);
        let target = entry.target.as_deref().map(text);
        let (target, target_hex) = target.map_or((None, None), |(target, hex)| (Some(target), hex));
        Entry {
            size: (entry.kind == Kind::File && has(MetaMask::BASIC)).then_some(entry.size),
            mtime: has(MetaMask::MTIME).then(|| seconds(entry.mtime)),
            mtime_ns: has(MetaMask::MTIME).then(|| nanoseconds(entry.mtime)),
            mode: has(MetaMask::MODE).then(|| format!("{:04o}", entry.mode)),
            uid: has(MetaMask::OWNER).then_some(entry.uid),
            gid: has(MetaMask::GROUP).then_some(entry.gid),
            target,
            target_hex,
            ..Entry::bare(place, path, entry.kind)
        }
    }

    /// What all keys below a slash have in common.
    pub fn of_prefix(place: &'a [u8], path: &[u8]) -> Self {
        Entry::bare(place, without_slash(path), Kind::Dir)
    }

    /// A key that ends in a slash is a directory's marker.
    pub fn of_object(place: &'a [u8], path: &[u8], object: &'a Object) -> Self {
        let kind = if object.key.ends_with(b"/") { Kind::Dir } else { Kind::File };
        Entry {
            size: Some(object.size),
            mtime: object.modified.map(seconds),
            mtime_ns: object.modified.map(nanoseconds),
            storage_class: said(&object.class),
            etag: said(object.etag.trim_matches('"')),
            ..Entry::bare(place, without_slash(path), kind)
        }
    }

    pub fn of_version(place: &'a [u8], path: &[u8], version: &'a Version) -> Self {
        let object = Entry::of_object(place, path, &version.object);
        Entry {
            size: object.size.filter(|_| !version.deleted),
            version_id: said(&version.id),
            latest: Some(version.latest),
            deleted: Some(version.deleted),
            ..object
        }
    }
}

/// An upload that was begun and neither completed nor abandoned.
#[derive(Serialize)]
pub struct Upload<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    path: Path,
    upload_id: &'a str,
    initiated: Option<f64>,
    parts: Option<u64>,
    landed_bytes: Option<u64>,
}

impl<'a> Upload<'a> {
    /// `landed`: parts, and bytes in them, if they were asked for.
    pub fn of(place: &'a [u8], path: &[u8], upload: &'a inventory::Upload, landed: Option<(u64, u64)>) -> Self {
        Upload {
            place: Place::of(place),
            path: Path::of(path),
            upload_id: &upload.id,
            initiated: upload.initiated.map(seconds),
            parts: landed.map(|(parts, _)| parts),
            landed_bytes: landed.map(|(_, bytes)| bytes),
        }
    }
}

#[derive(Serialize)]
pub struct Bucket<'a> {
    name: &'a str,
    address: &'a str,
    created: Option<f64>,
}

impl<'a> Bucket<'a> {
    pub fn of(bucket: &'a xml::Bucket, address: &'a str) -> Self {
        Bucket { name: &bucket.name, address, created: bucket.created.map(seconds) }
    }
}

/// What is in a directory, at any depth.
#[derive(Serialize)]
pub struct Usage<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    path: Path,
    level: u32,
    bytes: u64,
    files: u64,
    directories: u64,
    errors: Option<u64>,
}

/// Numbers of a [`Usage`].
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Levels below what was named, which is 0.
    pub level: u32,
    pub bytes: u64,
    pub files: u64,
    pub directories: u64,
    /// Names that could not be read, where that is known.
    pub errors: Option<u64>,
}

impl<'a> Usage<'a> {
    pub fn of(place: &'a [u8], path: &[u8], counts: Counts) -> Self {
        let Counts { level, bytes, files, directories, errors } = counts;
        Usage { place: Place::of(place), path: Path::of(path), level, bytes, files, directories, errors }
    }
}

/// What is in a storage class.
#[derive(Serialize)]
pub struct Class<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    storage_class: &'a str,
    bytes: u64,
    files: u64,
}

impl<'a> Class<'a> {
    pub fn of(place: &'a [u8], storage_class: &'a str, bytes: u64, files: u64) -> Self {
        Class { place: Place::of(place), storage_class, bytes, files }
    }
}

/// The hash of a file.
#[derive(Serialize)]
pub struct Sum<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    path: Path,
    size: u64,
    mtime: f64,
    mtime_ns: i128,
    algorithm: &'static str,
    digest: String,
}

impl<'a> Sum<'a> {
    pub fn of(place: &'a [u8], path: &[u8], entry: &entry::Entry, algorithm: Algorithm, digest: &[u8]) -> Self {
        Sum {
            place: Place::of(place),
            path: Path::of(path),
            size: entry.size,
            mtime: seconds(entry.mtime),
            mtime_ns: nanoseconds(entry.mtime),
            algorithm: algorithm.word(),
            digest: hex(digest),
        }
    }
}

/// What an object store tells of an object or of a bucket.
#[derive(Serialize)]
pub struct Head<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    /// As it is shown to people.
    url: String,
    region: Option<&'a str>,
    #[serde(flatten)]
    told: Map<String, Value>,
}

impl<'a> Head<'a> {
    pub fn of(place: &'a [u8], region: Option<&'a str>, told: Map<String, Value>) -> Self {
        Head { place: Place::of(place), url: entry::show(place), region, told }
    }
}

/// What was removed, or would be.
#[derive(Serialize)]
pub struct Removed<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    path: Path,
    kind: &'static str,
    version_id: Option<&'a str>,
    upload_id: Option<&'a str>,
    dry: bool,
}

impl<'a> Removed<'a> {
    fn bare(place: &'a [u8], path: &[u8], kind: &'static str, dry: bool) -> Self {
        Removed { place: Place::of(place), path: Path::of(path), kind, version_id: None, upload_id: None, dry }
    }

    pub fn of(place: &'a [u8], path: &[u8], kind: Kind, dry: bool) -> Self {
        Removed::bare(place, path, kind_word(kind), dry)
    }

    /// The version is empty for the latest. A key that ends in a slash is a directory's marker.
    pub fn of_key(place: &'a [u8], path: &[u8], kind: Kind, version: &'a str, dry: bool) -> Self {
        Removed { version_id: said(version), ..Removed::of(place, without_slash(path), kind, dry) }
    }

    pub fn of_upload(place: &'a [u8], path: &[u8], id: &'a str, dry: bool) -> Self {
        Removed { upload_id: Some(id), ..Removed::bare(place, path, "upload", dry) }
    }

    pub fn of_bucket(place: &'a [u8], dry: bool) -> Self {
        Removed::bare(place, b"", "bucket", dry)
    }
}

/// A name whose mode or owner was set, as it is now.
#[derive(Serialize)]
pub struct Changed<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    path: Path,
    kind: &'static str,
    mode: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl<'a> Changed<'a> {
    pub fn of(place: &'a [u8], path: &[u8], entry: &entry::Entry) -> Self {
        let has = |mask| entry.have.has(mask);
        Changed {
            place: Place::of(place),
            path: Path::of(path),
            kind: kind_word(entry.kind),
            mode: has(MetaMask::MODE).then(|| format!("{:04o}", entry.mode)),
            uid: has(MetaMask::OWNER).then_some(entry.uid),
            gid: has(MetaMask::GROUP).then_some(entry.gid),
        }
    }
}

/// A link that was made.
#[derive(Serialize)]
pub struct Linked<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    symbolic: bool,
    target: Cow<'a, str>,
    target_hex: Option<String>,
}

impl<'a> Linked<'a> {
    pub fn of(place: &'a [u8], target: &'a [u8], symbolic: bool) -> Self {
        let (target, target_hex) = text(target);
        Linked { place: Place::of(place), symbolic, target, target_hex }
    }
}

/// A file system as a whole.
#[derive(Serialize)]
pub struct FileSystem<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    size: u64,
    used: u64,
    available: u64,
    inodes: Option<u64>,
    inodes_used: Option<u64>,
    inodes_available: Option<u64>,
}

impl<'a> FileSystem<'a> {
    pub fn of(place: &'a [u8], volume: &Volume) -> Self {
        let Volume { size, free, available, files, free_files } = *volume;
        let counted = |n| (files > 0).then_some(n);
        FileSystem {
            place: Place::of(place),
            size,
            used: size.saturating_sub(free),
            available,
            inodes: counted(files),
            inodes_used: counted(files.saturating_sub(free_files)),
            inodes_available: counted(free_files),
        }
    }
}

/// How a tree compares with its manifest: the last line of `haul check --manifest`, a [`Record`](super::json::Record).
#[derive(Serialize)]
pub struct Checked<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    manifest: Cow<'a, str>,
    manifest_hex: Option<String>,
    #[serde(flatten)]
    checks: Checks,
}

/// Files by what was found of them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Checks {
    pub same: u64,
    pub missing: u64,
    pub differing: u64,
    pub extra: u64,
    pub failed: u64,
}

impl<'a> Checked<'a> {
    pub fn of(place: &'a [u8], manifest: &'a [u8], checks: Checks) -> Self {
        let (manifest, manifest_hex) = text(manifest);
        Checked { place: Place::of(place), manifest, manifest_hex, checks }
    }
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Seconds since 1970, cut off to microseconds: a number of JSON has no room for more in most programs.
/// Since 1970; exact, as seconds in a float are not.
fn nanoseconds(time: Time) -> i128 {
    i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos)
}

fn seconds(time: Time) -> f64 {
    time.as_nanos().div_euclid(1000) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::fixtures::entry;
    use super::super::json::tests::{documented, keys};
    use super::*;

    fn written(listed: &Listed<'_>) -> String {
        let mut line = Vec::new();
        listed.write(&mut line).expect("memory takes all");
        String::from_utf8(line).expect("JSON is text")
    }

    fn parsed(listed: &Listed<'_>) -> Value {
        serde_json::from_str(&written(listed)).expect("JSON")
    }

    fn object(key: &[u8]) -> Object {
        let modified = Some(Time { secs: 1_700_000_000, nanos: 5_000_000 });
        Object { key: key.to_vec(), size: 7, etag: "\"e-2\"".into(), modified, class: "GLACIER".into() }
    }

    #[test]
    fn every_line_has_the_documented_keys_and_no_others() {
        let upload = inventory::Upload { key: b"k".to_vec(), id: "id".into(), initiated: None };
        let bucket = xml::Bucket { name: "b".into(), created: None, region: String::new() };
        let counts = Counts { level: 0, bytes: 1, files: 1, directories: 1, errors: Some(0) };
        let file = entry("a/b", Kind::File);
        let volume = Volume { size: 9, free: 5, available: 4, files: 3, free_files: 2 };
        let all = [
            ("entry", Listed::Entry(Box::new(Entry::of(b".", b"a/b", &file)))),
            ("upload", Listed::Upload(Upload::of(b"s3://b/", b"k", &upload, None))),
            ("bucket", Listed::Bucket(Bucket::of(&bucket, "s3://b"))),
            ("usage", Listed::Usage(Usage::of(b".", b"a", counts))),
            ("sum", Listed::Sum(Sum::of(b".", b"a/b", &file, Algorithm::Md5, &[1; 16]))),
            ("removed", Listed::Removed(Removed::of_key(b"s3://b", b"k", Kind::File, "v", true))),
            ("changed", Listed::Changed(Changed::of(b"d", b"a", &file))),
            ("linked", Listed::Linked(Linked::of(b"l", b"a", true))),
            ("file-system", Listed::FileSystem(FileSystem::of(b".", &volume))),
            ("class", Listed::Class(Class::of(b"s3://b/", "STANDARD", 1, 1))),
        ];
        for (event, listed) in all {
            let mut found = BTreeSet::new();
            let value = parsed(&listed);
            assert_eq!(value["event"], event);
            keys("", &value, &mut found);
            assert_eq!(documented().get(event), Some(&found), "{event}");
        }
    }

    #[test]
    fn what_a_listing_does_not_tell_is_null() {
        let bare = entry::Entry::bare(entry::Name::of(&entry::Dir::root()), Kind::Unknown);
        let value = parsed(&Listed::Entry(Box::new(Entry::of(b"h:x", b"a", &bare))));
        assert_eq!(value["kind"], "entry");
        for key in ["size", "mtime", "mtime_ns", "mode", "uid", "gid", "target", "storage_class", "etag", "version_id", "latest", "deleted"]
        {
            assert_eq!(value[key], Value::Null, "{key}");
        }
    }

    #[test]
    fn versions_marks_and_markers_are_told_apart() {
        let of = |key: &[u8], deleted| Version { object: object(key), id: "null".into(), latest: true, deleted };
        let line = |version: &Version| written(&Listed::Entry(Box::new(Entry::of_version(b"s3://b/", &version.object.key, version))));
        insta::assert_snapshot!(line(&of(b"d//", false)).trim_end(), @r#"{"event":"entry","place":"s3://b/","place_hex":null,"path":"d/","path_hex":null,"kind":"directory","size":7,"mtime":1700000000.005,"mtime_ns":1700000000005000000,"mode":null,"uid":null,"gid":null,"target":null,"target_hex":null,"storage_class":"GLACIER","etag":"e-2","version_id":"null","latest":true,"deleted":false}"#);
        let mark: Value = serde_json::from_str(&line(&of(b"d", true))).expect("JSON");
        assert_eq!((&mark["size"], &mark["deleted"], &mark["kind"]), (&Value::Null, &Value::Bool(true), &"file".into()));
    }

    #[test]
    fn nothing_hostile_reaches_the_terminal_raw() {
        let mut link = entry("x", Kind::Link);
        link.target = Some(b"\x9b\xe2\x80\xae\x7f"[..].into());
        let line = written(&Listed::Entry(Box::new(Entry::of(b"\xff\x1b", b"a\xfe\n", &link))));
        assert!(!line.trim_end_matches('\n').chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
        let value: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&value["place"], &value["place_hex"]), (&"\u{fffd}\u{1b}".into(), &"ff1b".into()));
        assert_eq!((&value["path"], &value["path_hex"]), (&"a\u{fffd}\n".into(), &"61fe0a".into()));
        assert_eq!((&value["target"], &value["target_hex"]), (&"\u{fffd}\u{202e}\u{7f}".into(), &"9be280ae7f".into()));
    }

    #[test]
    fn times_are_cut_off_to_microseconds() {
        for (secs, nanos, text) in [
            (1_700_000_000, 123_456_789, "1700000000.123456"),
            (1_700_000_000, 0, "1700000000.0"),
            (0, 999, "0.0"),
            (-1, 500_000_000, "-0.5"),
            (-1, 999_999_999, "-1e-6"),
        ] {
            assert_eq!(Value::from(seconds(Time { secs, nanos })).to_string(), text);
        }
    }
}
