//! One page of a flat listing.

use std::borrow::Cow;

use haul_core::entry::Time;
use haul_core::varint::{put, take};

/// An object of a page, with as much of it as a store uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub key: Vec<u8>,
    pub size: u64,
    pub etag: String,
    pub modified: Time,
    /// Empty where it is not kept.
    pub class: Cow<'static, str>,
    /// What the listing itself says of the object's file, as the cache keeps it.
    pub details: Option<Box<[u8]>>,
}

/// All keys from `start` on and before `until`.
#[derive(Debug)]
pub struct Page {
    pub start: Vec<u8>,
    pub until: Vec<u8>,
    pub objects: Vec<Listed>,
    /// Continues the listing at `until`.
    pub token: Option<String>,
}

/// The position right behind a key.
pub fn behind(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

/// The position behind all keys that begin with `prefix`: no key has a byte of 255.
pub fn after_all(prefix: &[u8]) -> Vec<u8> {
    [prefix, &[0xff]].concat()
}

impl Page {
    pub fn covers(&self, position: &[u8]) -> bool {
        self.start[..] <= *position && *position < self.until[..]
    }

    /// The index of the first object at or behind a position.
    pub fn at(&self, position: &[u8]) -> usize {
        self.objects.partition_point(|object| object.key[..] < *position)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.objects.len() * 64);
        let mut last: &[u8] = b"";
        for object in &self.objects {
            let shared = last.iter().zip(&object.key).take_while(|(a, b)| a == b).count();
            put(&mut out, shared as u64);
            put_bytes(&mut out, &object.key[shared..]);
            put(&mut out, object.size);
            put_bytes(&mut out, object.etag.as_bytes());
            put(&mut out, object.modified.secs.cast_unsigned());
            put(&mut out, object.modified.nanos.into());
            put_bytes(&mut out, object.class.as_bytes());
            // One more than there are bytes, so that none is another thing than empty.
            put(&mut out, object.details.as_ref().map_or(0, |details| details.len() as u64 + 1));
            out.extend_from_slice(object.details.as_deref().unwrap_or_default());
            last = &object.key;
        }
        out
    }

    /// `None` for what [`Page::encode`] has not made.
    pub(super) fn decode(start: &[u8], until: &[u8], mut from: &[u8]) -> Option<Page> {
        let mut objects: Vec<Listed> = Vec::with_capacity(1000);
        let from = &mut from;
        while !from.is_empty() {
            let shared = usize::try_from(take(from)?).ok()?;
            let mut key = objects.last().map_or(&b""[..], |last| &last.key).get(..shared)?.to_vec();
            key.extend_from_slice(take_bytes(from)?);
            let size = take(from)?;
            let etag = String::from_utf8(take_bytes(from)?.to_vec()).ok()?;
            let modified = Time { secs: take(from)?.cast_signed(), nanos: u32::try_from(take(from)?).ok()? };
            let class = match take_bytes(from)? {
                b"" => Cow::Borrowed(""),
                b"STANDARD" => Cow::Borrowed("STANDARD"),
                other => Cow::Owned(String::from_utf8(other.to_vec()).ok()?),
            };
            let details = match take(from)?.checked_sub(1) {
                None => None,
                Some(length) => Some(split(from, length)?.into()),
            };
            objects.push(Listed { key, size, etag, modified, class, details });
        }
        Some(Page { start: start.to_vec(), until: until.to_vec(), objects, token: None })
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take(from)?;
    split(from, length)
}

fn split<'a>(from: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (bytes, rest) = from.split_at_checked(usize::try_from(length).ok()?)?;
    *from = rest;
    Some(bytes)
}
