//! What `ls`, `du`, `df`, `tree`, `sum`, `head`, `tag`, `acl`, `restore`, `bucket-version`, `rm`, `rb`, `ln`, `chmod`, `chown` and `chgrp` print with `--json`: one object a line, no line for the run itself. These
//! structs are the schema, as those in [`json`](super::json) are.

mod object;

use std::borrow::Cow;
use std::io::{self, Write};

use haul_core::entry::{self, Kind, MetaMask, Time};
use haul_core::hash::{Algorithm, hex};
use haul_core::store::Volume;
use serde::Serialize;

use super::json::{Path, harmless, kind_word, text};

pub use object::{Bucket, Class, Head, Rights, State, Tags, Upload};

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
    Tags(Tags<'a>),
    Acl(Rights<'a>),
    State(State<'a>),
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
pub(super) struct Place<'a> {
    place: Cow<'a, str>,
    place_hex: Option<String>,
}

impl<'a> Place<'a> {
    pub(super) fn of(place: &'a [u8]) -> Self {
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

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Since 1970; exact, as seconds in a float are not.
fn nanoseconds(time: Time) -> i128 {
    i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos)
}

/// Seconds since 1970, cut off to microseconds: a number of JSON has no room for more in most programs.
fn seconds(time: Time) -> f64 {
    time.as_nanos().div_euclid(1000) as f64 / 1e6
}

#[cfg(test)]
mod tests;
