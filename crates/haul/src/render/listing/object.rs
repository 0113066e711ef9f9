//! Lines about object stores: keys, versions, uploads, buckets and their classes.

use std::collections::BTreeMap;

use haul_core::entry::{self, Kind};
use haul_s3::inventory::{self, Object, Version};
use haul_s3::rights::{Acl, Grant};
use haul_s3::xml;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::render::json::Path;

use super::{Entry, Place, nanoseconds, said, seconds, without_slash};

impl<'a> Entry<'a> {
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

/// The tags of an object or a bucket, as they are now, or would be.
#[derive(Serialize)]
pub struct Tags<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    tags: BTreeMap<&'a str, &'a str>,
    dry: bool,
}

impl<'a> Tags<'a> {
    pub fn of(place: &'a [u8], tags: &'a [(String, String)], dry: bool) -> Self {
        Tags { place: Place::of(place), tags: tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(), dry }
    }
}

/// Who may do what with an object or a bucket.
#[derive(Serialize)]
pub struct Rights<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    owner: &'a str,
    owner_name: Option<&'a str>,
    grants: Vec<Granted<'a>>,
}

#[derive(Serialize)]
struct Granted<'a> {
    /// `user`, `email` or `group`.
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    permission: &'a str,
}

impl<'a> Rights<'a> {
    pub fn of(place: &'a [u8], acl: &'a Acl) -> Self {
        let granted = |grant: &'a Grant| {
            let (kind, name) = grant.grantee.words();
            Granted { kind, id: grant.grantee.id(), name, permission: &grant.permission }
        };
        Rights {
            place: Place::of(place),
            owner: &acl.owner,
            owner_name: said(&acl.owner_name),
            grants: acl.grants.iter().map(granted).collect(),
        }
    }
}

/// What became of an object or a bucket, in a word.
#[derive(Serialize)]
pub struct State<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    state: &'static str,
    dry: bool,
}

impl<'a> State<'a> {
    pub fn of(place: &'a [u8], state: &'static str, dry: bool) -> Self {
        State { place: Place::of(place), state, dry }
    }
}
