//! Hashes: XXH3-128 for what moves (at memory speed), BLAKE3 for manifests, the others for their users' tools.

use std::fmt;

use md5::Digest as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Algorithm {
    Xxh128,
    Blake3,
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

impl Algorithm {
    pub const ALL: [Algorithm; 6] =
        [Algorithm::Blake3, Algorithm::Xxh128, Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512];

    pub fn word(self) -> &'static str {
        match self {
            Algorithm::Xxh128 => "xxh128",
            Algorithm::Blake3 => "blake3",
            Algorithm::Md5 => "md5",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.word() == word)
    }

    /// Bytes of the digest.
    pub fn width(self) -> usize {
        match self {
            Algorithm::Xxh128 | Algorithm::Md5 => 16,
            Algorithm::Sha1 => 20,
            Algorithm::Blake3 | Algorithm::Sha256 => 32,
            Algorithm::Sha512 => 64,
        }
    }

    pub fn begin(self) -> Hasher {
        match self {
            Algorithm::Xxh128 => Hasher::Xxh128(Box::default()),
            Algorithm::Blake3 => Hasher::Blake3(Box::default()),
            Algorithm::Md5 => Hasher::Md5(md5::Md5::new()),
            Algorithm::Sha1 => Hasher::Sha1(sha1::Sha1::new()),
            Algorithm::Sha256 => Hasher::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(sha2::Sha512::new()),
        }
    }
}

/// A hash in the making.
pub enum Hasher {
    Xxh128(Box<xxhash_rust::xxh3::Xxh3>),
    Blake3(Box<blake3::Hasher>),
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Xxh128(h) => h.update(bytes),
            Hasher::Blake3(h) => drop(h.update(bytes)),
            Hasher::Md5(h) => h.update(bytes),
            Hasher::Sha1(h) => h.update(bytes),
            Hasher::Sha256(h) => h.update(bytes),
            Hasher::Sha512(h) => h.update(bytes),
        }
    }

    /// The digest in the byte order in which its tools print it.
    pub fn finish(self) -> Vec<u8> {
        match self {
            Hasher::Xxh128(h) => h.digest128().to_be_bytes().to_vec(),
            Hasher::Blake3(h) => h.finalize().as_bytes().to_vec(),
            Hasher::Md5(h) => h.finalize().to_vec(),
            Hasher::Sha1(h) => h.finalize().to_vec(),
            Hasher::Sha256(h) => h.finalize().to_vec(),
            Hasher::Sha512(h) => h.finalize().to_vec(),
        }
    }
}

/// The hash that travels with the bytes.
pub fn xxh128(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}

pub fn hex(digest: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    digest.iter().flat_map(|b| [b >> 4, b & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// `None` for an odd number of digits or what is no digit.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_gives_its_published_digest_of_abc() {
        let of = |a: Algorithm| {
            let mut h = a.begin();
            h.update(b"a");
            h.update(b"bc");
            hex(&h.finish())
        };
        assert_eq!(of(Algorithm::Md5), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(of(Algorithm::Sha1), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(of(Algorithm::Sha256), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(of(Algorithm::Blake3), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
        assert_eq!(of(Algorithm::Xxh128), hex(&xxh128(b"abc").to_be_bytes()));
        for a in Algorithm::ALL {
            assert_eq!(of(a).len(), a.width() * 2);
            assert_eq!(unhex(&of(a)).map(|d| hex(&d)), Some(of(a)));
        }
    }
}
