//! A body followed by its checksum: `aws-chunked` content with one trailer, as in AWS's "Signature calculations: transferring
//! payload in multiple chunks", unsigned.

use std::io::{self, Read};

use haul_core::error::{Error, ErrorKind};

use super::checksum::{Algorithm, Value};
use haul_net::http_client::digest::Running;

/// Bytes of content a frame. AWS wants at least 8 KiB, MinIO takes at most 16 MiB.
const FRAME: u64 = 1 << 20;

pub struct Framed<'a> {
    from: &'a mut dyn Read,
    checksum: Option<Running>,
    algorithm: Algorithm,
    /// Bytes of content that are still to come, and those of them in this frame.
    left: u64,
    frame: u64,
    text: io::Cursor<Vec<u8>>,
    ended: bool,
    value: Option<Value>,
    /// Of the content, where it is wanted, too.
    md5: Option<Running>,
}

impl<'a> Framed<'a> {
    /// With `md5` the content's MD5 is computed, too.
    pub fn new(from: &'a mut dyn Read, size: u64, algorithm: Algorithm, md5: bool) -> Self {
        let (checksum, md5) = (Some(algorithm.begin()), md5.then(|| Algorithm::Md5.begin()));
        let text = io::Cursor::default();
        let mut framed = Framed { from, checksum, algorithm, left: size, frame: 0, text, ended: false, value: None, md5 };
        framed.next_frame(false);
        framed
    }

    /// Bytes of the whole body, framing included.
    pub fn length(size: u64, algorithm: Algorithm) -> u64 {
        let whole = size / FRAME;
        let rest = size % FRAME;
        let framed = |content: u64| format!("{content:x}").len() as u64 + 4 + content;
        let trailer = Self::trailer_of(algorithm, &"=".repeat(text_length(algorithm)));
        whole * framed(FRAME) + if rest > 0 { framed(rest) } else { 0 } + trailer.len() as u64
    }

    /// The checksum of the content, once all of it went through.
    pub fn value(&self) -> Option<Value> {
        self.value
    }

    /// The MD5 of the content, once all of it went through, if it was asked for.
    pub fn md5(self) -> Option<Value> {
        self.md5.filter(|_| self.ended).map(Running::finish)
    }

    fn trailer_of(algorithm: Algorithm, value: &str) -> String {
        format!("0\r\n{}:{value}\r\n\r\n", algorithm.header())
    }

    fn next_frame(&mut self, behind_one: bool) {
        let mut text = if behind_one { b"\r\n".to_vec() } else { Vec::new() };
        self.frame = self.left.min(FRAME);
        if self.frame > 0 {
            text.extend(format!("{:x}\r\n", self.frame).bytes());
        } else {
            self.value = self.checksum.take().map(Running::finish);
            let value = self.value.map(|value| value.base64()).unwrap_or_default();
            text.extend(Self::trailer_of(self.algorithm, &value).bytes());
            self.ended = true;
        }
        self.text = io::Cursor::new(text);
    }
}

/// Characters of a checksum in base64.
fn text_length(algorithm: Algorithm) -> usize {
    algorithm.width().div_ceil(3) * 4
}

impl Read for Framed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let count = self.text.read(into)?;
            if count > 0 || self.ended {
                return Ok(count);
            }
            if self.frame == 0 {
                self.next_frame(true);
                continue;
            }
            let most = into.len().min(usize::try_from(self.frame).unwrap_or(usize::MAX));
            let count = match self.from.read(&mut into[..most]) {
                Ok(0) => return Err(Error::new(ErrorKind::Changed, "write").because("the source is shorter than announced").into()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
                Ok(count) => count,
            };
            if let Some(checksum) = &mut self.checksum {
                checksum.update(&into[..count]);
            }
            if let Some(md5) = &mut self.md5 {
                md5.update(&into[..count]);
            }
            self.frame -= count as u64;
            self.left -= count as u64;
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(size: u64) -> Vec<u8> {
        let content = vec![7u8; size as usize];
        let mut from = &content[..];
        let mut body = Framed::new(&mut from, size, Algorithm::Crc64Nvme, true);
        let mut out = Vec::new();
        body.read_to_end(&mut out).expect("the source is long enough");
        assert_eq!(body.value(), Some(Algorithm::Crc64Nvme.of(&content)));
        assert_eq!(body.md5(), Some(Algorithm::Md5.of(&content)));
        out
    }

    #[test]
    fn frames_and_trailer_are_as_documented_and_of_the_length_that_is_said_beforehand() {
        for size in [0, 1, 15, 16, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME, 3 * FRAME + 17] {
            assert_eq!(framed(size).len() as u64, Framed::length(size, Algorithm::Crc64Nvme), "{size}");
        }
        let body = framed(3);
        let text = String::from_utf8_lossy(&body);
        assert!(text.starts_with("3\r\n\u{7}\u{7}\u{7}\r\n0\r\nx-amz-checksum-crc64nvme:") && text.ends_with("=\r\n\r\n"), "{text:?}");
    }

    #[test]
    fn a_source_that_ends_too_early_is_an_error() {
        let mut from = &b"ab"[..];
        let mut out = Vec::new();
        let error = Framed::new(&mut from, 3, Algorithm::Crc32c, false).read_to_end(&mut out).expect_err("a byte is missing");
        assert_eq!(Error::from_io(error, "write").kind(), ErrorKind::Changed);
    }
}
