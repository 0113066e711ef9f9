//! Digests of content: CRCs and how they combine, SHA, MD5, and composite digests, which are those of the parts' digests put
//! together.

#[cfg(test)]
mod tests;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use md5::Digest as _;

/// A digest. The order is that of trust and speed: the first is the one to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    Crc64Nvme,
    Crc32c,
    Crc32,
    Sha256,
    Sha1,
    /// It goes in `Content-MD5` and comes as an ETag: few services know it as a checksum like the others.
    Md5,
}

impl Algorithm {
    pub const ALL: [Algorithm; 6] =
        [Algorithm::Crc64Nvme, Algorithm::Crc32c, Algorithm::Crc32, Algorithm::Sha256, Algorithm::Sha1, Algorithm::Md5];

    /// Its word, the header of a request that carries a value, the element of a document, and the bytes of a value.
    const fn names(self) -> (&'static str, &'static str, &'static str, usize) {
        match self {
            Algorithm::Crc64Nvme => ("CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME", 8),
            Algorithm::Crc32c => ("CRC32C", "x-amz-checksum-crc32c", "ChecksumCRC32C", 4),
            Algorithm::Crc32 => ("CRC32", "x-amz-checksum-crc32", "ChecksumCRC32", 4),
            Algorithm::Sha256 => ("SHA256", "x-amz-checksum-sha256", "ChecksumSHA256", 32),
            Algorithm::Sha1 => ("SHA1", "x-amz-checksum-sha1", "ChecksumSHA1", 20),
            Algorithm::Md5 => ("MD5", "content-md5", "ChecksumMD5", 16),
        }
    }

    /// As in `x-amz-sdk-checksum-algorithm`, `x-amz-checksum-algorithm` and `ChecksumAlgorithm`.
    pub fn word(self) -> &'static str {
        self.names().0
    }

    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.word().eq_ignore_ascii_case(word.trim_ascii()))
    }

    /// The header of a request that carries the value.
    pub fn header(self) -> &'static str {
        self.names().1
    }

    /// The algorithm of an answer's header: `x-amz-checksum-` and its word.
    pub fn of_header(name: &str) -> Option<Self> {
        const BEFORE: &str = "x-amz-checksum-";
        let (before, word) = name.split_at_checked(BEFORE.len())?;
        if before.eq_ignore_ascii_case(BEFORE) { Self::of_word(word) } else { None }
    }

    /// The element that carries the value in a document.
    pub fn element(self) -> &'static str {
        self.names().2
    }

    /// Bytes of the value.
    pub fn width(self) -> usize {
        self.names().3
    }

    /// Whether the values of parts [`combine`] to that of the whole, so that an object sent in parts can have a
    /// checksum of its whole content.
    pub fn combines(self) -> bool {
        self.crc().is_some()
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Algorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Algorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Sha256 | Algorithm::Sha1 | Algorithm::Md5 => None,
        }
    }

    pub fn begin(self) -> Running {
        let state = match (self.crc(), self) {
            (Some(crc), _) => State::Crc(crc_fast::Digest::new(crc)),
            (None, Algorithm::Sha256) => State::Sha256(sha2::Sha256::new()),
            (None, Algorithm::Sha1) => State::Sha1(sha1::Sha1::new()),
            (None, _) => State::Md5(md5::Md5::new()),
        };
        Running { algorithm: self, state }
    }

    /// The value of `a`'s bytes followed by `b`'s, which are `length_of_b` in number. `None` for two algorithms, or one that does
    /// not combine. Some microseconds for any length.
    pub fn of(self, bytes: &[u8]) -> Value {
        let mut running = self.begin();
        running.update(bytes);
        running.finish()
    }
}

/// A checksum in the making.
#[derive(Clone)]
pub struct Running {
    algorithm: Algorithm,
    state: State,
}

#[derive(Clone)]
enum State {
    Crc(crc_fast::Digest),
    Sha256(sha2::Sha256),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Running({})", self.algorithm.word())
    }
}

impl Running {
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Crc(digest) => digest.update(bytes),
            State::Sha256(digest) => digest.update(bytes),
            State::Sha1(digest) => digest.update(bytes),
            State::Md5(digest) => digest.update(bytes),
        }
    }

    pub fn finish(self) -> Value {
        match self.state {
            State::Crc(digest) => Value::of_crc(self.algorithm, digest.finalize()),
            State::Sha256(digest) => Value::new(self.algorithm, &digest.finalize()),
            State::Sha1(digest) => Value::new(self.algorithm, &digest.finalize()),
            State::Md5(digest) => Value::new(self.algorithm, &digest.finalize()),
        }
    }
}

/// A finished checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value {
    algorithm: Algorithm,
    bytes: [u8; 32],
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.word(), haul_core::hash::hex(self.as_bytes()))
    }
}

impl Value {
    /// `bytes` are as many as the algorithm's width; what is more is cut off, what is less is zero.
    fn new(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut value = Value { algorithm, bytes: [0; 32] };
        let width = algorithm.width().min(bytes.len());
        value.bytes[..width].copy_from_slice(&bytes[..width]);
        value
    }

    fn of_crc(algorithm: Algorithm, crc: u64) -> Self {
        Self::new(algorithm, &crc.to_be_bytes()[8 - algorithm.width()..])
    }

    /// Reads bytes in the order in which they travel; `None` if they are too few or too many.
    pub fn parse(algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        (bytes.len() == algorithm.width()).then(|| Self::new(algorithm, bytes))
    }

    /// Reads a value as headers and documents have it, without a count of parts.
    pub fn parse_base64(algorithm: Algorithm, text: &str) -> Option<Self> {
        // No value is longer: a hostile text is not decoded.
        if text.len() > 44 {
            return None;
        }
        Self::parse(algorithm, &STANDARD.decode(text).ok()?)
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Big-endian, where it is a CRC.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.width()]
    }

    /// As headers and documents have it.
    pub fn base64(&self) -> String {
        STANDARD.encode(self.as_bytes())
    }

    fn crc(&self) -> u64 {
        self.as_bytes().iter().fold(0, |crc, byte| crc << 8 | u64::from(*byte))
    }
}

/// The value of `a`'s bytes followed by `b`'s, which are `length_of_b` in number. `None` if they are of two
/// algorithms, or of one that does not combine. It costs some microseconds, whatever the length.
pub fn combine(a: Value, b: Value, length_of_b: u64) -> Option<Value> {
    let field = Field::of(a.algorithm).filter(|_| a.algorithm == b.algorithm)?;
    Some(Value::of_crc(a.algorithm, field.behind(a.crc(), length_of_b) ^ b.crc()))
}

/// The composite checksum of parts by their values, and how many there are; `None` if there are none, or if they
/// are of several algorithms.
pub fn composite(values: impl IntoIterator<Item = Value>) -> Option<(Value, u32)> {
    let mut values = values.into_iter();
    let first = values.next()?;
    let mut outer = first.algorithm().begin();
    outer.update(first.as_bytes());
    let mut parts = 1u32;
    for value in values {
        if value.algorithm() != first.algorithm() {
            return None;
        }
        outer.update(value.as_bytes());
        parts = parts.checked_add(1)?;
    }
    Some((outer.finish(), parts))
}

/// Polynomials over bits modulo a CRC's own, reflected: the highest bit is the factor of x to the power of 0. The
/// CRC of bytes followed by n zero bytes is that of the bytes times x to the power of 8n, but for the ones that
/// each CRC here begins with and ends with, which cancel out where two are combined.
///
/// `crc_fast` has a combination of its own, by matrices, which takes as long as the CRC of some MiB.
#[derive(Clone, Copy)]
struct Field {
    polynomial: u64,
    top: u64,
}

impl Field {
    fn of(algorithm: Algorithm) -> Option<Self> {
        match algorithm {
            Algorithm::Crc64Nvme => Some(Field { polynomial: 0x9a6c_9329_ac4b_c9b5, top: 1 << 63 }),
            Algorithm::Crc32c => Some(Field { polynomial: 0x82f6_3b78, top: 1 << 31 }),
            Algorithm::Crc32 => Some(Field { polynomial: 0xedb8_8320, top: 1 << 31 }),
            Algorithm::Sha256 | Algorithm::Sha1 | Algorithm::Md5 => None,
        }
    }

    fn times(self, a: u64, mut b: u64) -> u64 {
        let (mut product, mut bit) = (0, self.top);
        while bit != 0 {
            if a & bit != 0 {
                product ^= b;
            }
            b = (b >> 1) ^ if b & 1 == 1 { self.polynomial } else { 0 };
            bit >>= 1;
        }
        product
    }

    /// `crc` times x to the power of 8 times `bytes`.
    fn behind(self, mut crc: u64, mut bytes: u64) -> u64 {
        let mut power = self.top >> 8;
        while bytes != 0 {
            if bytes & 1 == 1 {
                crc = self.times(power, crc);
            }
            power = self.times(power, power);
            bytes >>= 1;
        }
        crc
    }
}
