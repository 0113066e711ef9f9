//! DER (X.690): elements read one after the other, and made; what is signed. Whatever is read comes from a peer: a read that would leave
//! its bytes is `None`. Bytes are verified as they came: libraries encode them anew, and refuse proxies and lists of version 1.

use rustls::SignatureScheme;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::SignatureVerificationAlgorithm;

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT: u8 = 0x06;
pub const PRINTABLE: u8 = 0x13;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// `[n]`, constructed.
pub const fn context(n: u8) -> u8 {
    0xa0 | n
}

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    pub tag: u8,
    pub content: &'a [u8],
    /// With tag and length.
    pub whole: &'a [u8],
}

/// Elements that are left to read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    pub fn any(&mut self) -> Option<Element<'a>> {
        let tag = *self.0.first()?;
        // Tags of more than one byte are in no certificate.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let first = *self.0.get(1)?;
        let (length, header) = match first {
            0..=0x7f => (usize::from(first), 2),
            0x81..=0x84 => {
                let bytes = self.0.get(2..2 + usize::from(first & 0x7f))?;
                let length = bytes.iter().fold(0usize, |length, byte| length << 8 | usize::from(*byte));
                (length, 2 + bytes.len())
            }
            _ => return None,
        };
        let end = header.checked_add(length)?;
        let whole = self.0.get(..end)?;
        self.0 = &self.0[end..];
        Some(Element { tag, content: &whole[header..], whole })
    }

    /// The next element, which must have this tag.
    pub fn take(&mut self, tag: u8) -> Option<Element<'a>> {
        if self.peek() == Some(tag) { self.any() } else { None }
    }

    /// The elements inside the next one, which must have this tag.
    pub fn inside(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.take(tag).map(|element| Reader(element.content))
    }
}

/// What is signed, with the algorithm and the signature: the form of certificates, of requests for them, and of lists of revoked ones.
pub struct Signed<'a> {
    pub signed: Element<'a>,
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Signed<'a>> {
        let mut whole = Reader(bytes).inside(SEQUENCE)?;
        let (signed, algorithm) = (whole.take(SEQUENCE)?, whole.take(SEQUENCE)?.content);
        Some(Signed { signed, algorithm, signature: bits(whole.take(BIT_STRING)?.content)? })
    }

    /// Whether the owner of `key`, a SubjectPublicKeyInfo, signed it.
    pub fn is_by(&self, key: &[u8]) -> bool {
        let known = default_provider().signature_verification_algorithms.all;
        let mut own = known.iter().filter(|known| *known.signature_alg_id() == *self.algorithm);
        own.any(|known| is_signed(*known, key, self.signed.whole, self.signature))
    }
}

/// Whether a signature of a TLS handshake is that of a key.
pub fn is_handshake_by(key: &[u8], scheme: SignatureScheme, message: &[u8], signature: &[u8]) -> bool {
    let known = default_provider().signature_verification_algorithms.mapping;
    let mut own = known.iter().filter(|(known, _)| *known == scheme).flat_map(|(_, known)| known.iter());
    own.any(|known| is_signed(*known, key, message, signature))
}

fn is_signed(algorithm: &dyn SignatureVerificationAlgorithm, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let Some(mut fields) = Reader(key).inside(SEQUENCE) else { return false };
    let (Some(kind), Some(key)) = (fields.take(SEQUENCE), fields.take(BIT_STRING)) else { return false };
    let key = bits(key.content).filter(|_| *algorithm.public_key_alg_id() == *kind.content);
    key.is_some_and(|key| algorithm.verify_signature(key, message, signature).is_ok())
}

/// The bytes of a BIT STRING that is whole bytes.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content.split_first().filter(|(unused, _)| **unused == 0).map(|(_, bytes)| bytes)
}

/// An element of these parts.
pub fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut made = vec![tag];
    match length {
        0..=0x7f => made.push(u8::try_from(length).unwrap_or(0x7f)),
        _ => {
            let bytes = length.to_be_bytes();
            let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
            made.push(0x80 | u8::try_from(bytes.len()).unwrap_or(8));
            made.extend_from_slice(bytes);
        }
    }
    for part in parts {
        made.extend_from_slice(part);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_or_strange_is_refused() {
        for bad in [
            &[][..],
            &[0x30],
            &[0x30, 5, 1],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x85, 0, 0, 0, 0, 1, 1],
            &[0x1f, 1, 1],
            &[0x30, 0x84, 255, 255, 255, 255],
        ] {
            assert_eq!(Reader(bad).any(), None, "{bad:?}");
        }
        assert!(Reader(&[2, 1, 1]).take(SEQUENCE).is_none());
    }
}
