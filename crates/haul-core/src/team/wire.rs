//! Numbers and bytes in messages between ranks: numbers as LEB128, bytes behind their length.

use crate::varint;

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub fn put_all(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| varint::put(out, *number));
}

/// What is left of a message.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.0)
    }

    pub fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    pub fn flag(&mut self) -> Option<bool> {
        Some(self.number()? != 0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
