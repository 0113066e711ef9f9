//! One page of a flat listing.

use haul_core::entry::Time;
use haul_core::team::wire::{Cursor, put_all, put_bytes};
use haul_core::varint::put;

use crate::inventory::{Object, class_of};

/// All keys from `start` on and before `until`.
#[derive(Debug)]
pub struct Page {
    pub start: Vec<u8>,
    pub until: Vec<u8>,
    pub objects: Vec<Object>,
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
            let Time { secs, nanos } = object.modified.unwrap_or_default();
            put_all(&mut out, &[secs.cast_unsigned(), nanos.into()]);
            put_bytes(&mut out, object.class.as_bytes());
            put_bytes(&mut out, object.details.as_deref().unwrap_or_default());
            last = &object.key;
        }
        out
    }

    /// `None` for what [`Page::encode`] has not made.
    pub(super) fn decode(start: &[u8], until: &[u8], bytes: &[u8]) -> Option<Page> {
        let mut objects: Vec<Object> = Vec::with_capacity(1000);
        let from = &mut Cursor(bytes);
        while !from.is_empty() {
            let shared = usize::try_from(from.number()?).ok()?;
            let mut key = objects.last().map_or(&b""[..], |last| &last.key).get(..shared)?.to_vec();
            key.extend_from_slice(from.bytes()?);
            let (size, etag) = (from.number()?, from.text()?);
            let modified = Time { secs: from.number()?.cast_signed(), nanos: from.small()? };
            let class = class_of(from.text()?.into());
            let details = Some(from.bytes()?).filter(|details| !details.is_empty()).map(Into::into);
            objects.push(Object { key, size, etag, modified: Some(modified).filter(|time| *time != Time::default()), class, details });
        }
        Some(Page { start: start.to_vec(), until: until.to_vec(), objects, token: None })
    }
}
