//! Checksums of uploads. Which of them an endpoint verifies is found out by its answers, and cached for a day.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::hash::xxh128;

use super::call::Answer;
use super::checksum::{Algorithm, ETag, Value, checksums};
use super::state_file::StateFile;

/// The checksum of an upload, and where it is sent: after the bytes, or before them, for which they are held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumMode {
    pub algorithm: Algorithm,
    pub trailing: bool,
}

/// From the best to the one that every endpoint accepts, with their words in the cache file.
const MODES: [(&str, ChecksumMode); 4] = [
    ("crc64nvme-trailer", ChecksumMode { algorithm: Algorithm::Crc64Nvme, trailing: true }),
    ("crc64nvme", ChecksumMode { algorithm: Algorithm::Crc64Nvme, trailing: false }),
    ("crc32c", ChecksumMode { algorithm: Algorithm::Crc32c, trailing: false }),
    ("md5", MD5),
];
const MD5: ChecksumMode = ChecksumMode { algorithm: Algorithm::Md5, trailing: false };

/// The operation of an error that says only that the endpoint does not verify a mode.
pub(super) const UNVERIFIED: &str = "verify";

/// Seconds after which the cache file expires: the endpoint may be updated.
const REMEMBERED: u64 = 24 * 60 * 60;
/// Bytes of the file that are read.
const FILE_MOST: u64 = 256;

/// The modes that one endpoint accepts. Any number of threads may use it.
#[derive(Debug, Default)]
pub struct ChecksumModes {
    /// An index into [`MODES`].
    level: AtomicU8,
    /// The endpoint has returned a checksum.
    returns: AtomicBool,
    /// The cache file: a word and the time in seconds since 1970.
    memory: OnceLock<StateFile>,
}

impl ChecksumModes {
    /// Reads the cache file below haul's state directory, and writes it when the mode changes.
    pub fn remember(&self, state: &Path, endpoint: &str) {
        let mut is_first = false;
        let memory = self.memory.get_or_init(|| {
            is_first = true;
            StateFile::new(state, xxh128(format!("modes\0{endpoint}").as_bytes()))
        });
        if is_first && let Some(level) = recalled(memory) {
            self.level.fetch_max(level, Ordering::Relaxed);
        }
    }

    fn level(&self) -> usize {
        usize::from(self.level.load(Ordering::Relaxed)).min(MODES.len() - 1)
    }

    pub fn mode(&self) -> ChecksumMode {
        MODES[self.level()].1
    }

    /// The mode for a part of an upload that was begun with this algorithm: another one's checksum would be rejected.
    pub fn of_upload(&self, begun: Algorithm) -> ChecksumMode {
        let last = MODES.iter().rposition(|(_, mode)| mode.algorithm == begun).unwrap_or(0);
        if begun == Algorithm::Md5 || self.level() > last { MD5 } else { ChecksumMode { algorithm: begun, trailing: self.mode().trailing } }
    }

    /// Whether the endpoint is known to return checksums. Until then the MD5 of streamed data is needed, too.
    pub fn is_known(&self) -> bool {
        self.returns.load(Ordering::Relaxed)
    }

    /// The endpoint does not know this mode: the next one from now on. `false` if there is none.
    pub fn deny(&self, mode: ChecksumMode) -> bool {
        let Some(at) = MODES.iter().position(|(_, known)| *known == mode) else { return true };
        self.go_to(at + 1)
    }

    /// The endpoint does not know this algorithm in any mode.
    pub fn deny_algorithm(&self, algorithm: Algorithm) -> bool {
        let Some(at) = MODES.iter().rposition(|(_, known)| known.algorithm == algorithm) else { return true };
        self.go_to(at + 1)
    }

    fn go_to(&self, next: usize) -> bool {
        if next >= MODES.len() {
            return false;
        }
        let level = next as u8;
        if self.level.fetch_max(level, Ordering::Relaxed) < level
            && let Some(memory) = self.memory.get()
        {
            // Without the file the next run needs a request or two more.
            let _ = memory.replace(|mut file| writeln!(file, "{} {}", MODES[next].0, now()));
        }
        true
    }

    /// Sends a request in the best mode that the endpoint accepts.
    pub fn negotiate<T>(&self, request: impl Fn(ChecksumMode) -> Result<T>) -> Result<T> {
        loop {
            let mode = self.mode();
            match request(mode) {
                Err(e) if is_unverified(&e) && self.deny_algorithm(mode.algorithm) => {}
                other => return other,
            }
        }
    }

    /// # Errors
    /// `Unsupported` if the service did not store the checksum that was asked for by name.
    pub fn stored(&self, answer: &Answer, sent: Value) -> Result<()> {
        let algorithm = sent.algorithm();
        match answer.header(algorithm.header()) {
            Some(text) if Value::parse_base64(algorithm, text.trim_ascii()) == Some(sent) => {
                self.returns.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(_) => Err(Error::new(ErrorKind::Corrupt, "write").remedy_is(Remedy::Again).because("the service received other bytes")),
            None => Err(not_stored(algorithm)),
        }
    }

    /// `Ok` if `answer` shows that the bytes with the checksum `sent` arrived: the service returned it, or the ETag is their MD5,
    /// or they were sent with Content-MD5, which services must verify. `UNVERIFIED` if it shows nothing; `Corrupt` if it shows
    /// other bytes and `etags` count. A mode that the endpoint does not know is not tried again.
    pub fn accepted(
        &self,
        answer: &Answer,
        mode: ChecksumMode,
        sent: Value,
        md5: impl FnOnce() -> Option<Value>,
        etags: bool,
    ) -> Result<()> {
        let returned = answer.header(mode.algorithm.header()).filter(|_| mode != MD5);
        if returned.is_some_and(|text| Value::parse_base64(mode.algorithm, text.trim_ascii()) == Some(sent)) {
            self.returns.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let headers = answer.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let etag = match checksums(headers).etag {
            ETag::Md5(md5) => Value::parse(Algorithm::Md5, &md5),
            ETag::Multipart { .. } | ETag::Opaque => None,
        };
        let same = etag.and_then(|etag| Some(etag == if mode == MD5 { sent } else { md5()? }));
        match (same, mode == MD5) {
            (Some(true), last) => {
                if !last {
                    // It did not verify the checksum, but it has what was sent.
                    self.deny(mode);
                }
                Ok(())
            }
            (Some(false), true) if etags => {
                let e = Error::new(ErrorKind::Corrupt, "write").remedy_is(Remedy::Again);
                let e = e.because("the ETag of what the service stored is not the MD5 of what was sent");
                Err(e.hint("if this service's ETags are not MD5s, use --no-check-etag"))
            }
            (_, true) => Ok(()),
            (_, false) => Err(Error::new(ErrorKind::Unsupported, UNVERIFIED).because("the server returned no checksum")),
        }
    }
}

/// Whether the error says only that the endpoint does not know the mode.
pub(super) fn is_unverified(e: &Error) -> bool {
    e.kind() == ErrorKind::Unsupported && e.op() == UNVERIFIED
}

/// The service does not know the checksum that was asked for by name.
fn not_stored(algorithm: Algorithm) -> Error {
    let e = Error::new(ErrorKind::Unsupported, "write").because(format!("the server stores no {} checksum", algorithm.word()));
    e.hint("leave out --checksum-algorithm: haul finds one that the server verifies")
}

/// [`not_stored`] for an answer that refuses the checksum.
pub(super) fn unstored(e: Error, algorithm: Algorithm) -> Error {
    if is_unverified(&e) { not_stored(algorithm) } else { e }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// The index of the mode in a cache file, unless that has expired.
fn recalled(memory: &StateFile) -> Option<u8> {
    let mut text = String::new();
    File::open(memory.path()).ok()?.take(FILE_MOST).read_to_string(&mut text).ok()?;
    let (word, at) = text.trim_ascii().split_once(' ')?;
    let age = now().checked_sub(at.parse().ok()?)?;
    let level = MODES.iter().position(|(known, _)| *known == word).filter(|_| age < REMEMBERED)?;
    u8::try_from(level).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_out_holds_for_a_day() {
        let dir = tempfile::tempdir().expect("a directory");
        let modes = |endpoint: &str| {
            let modes = ChecksumModes::default();
            modes.remember(dir.path(), endpoint);
            modes
        };
        let first = modes("http://a");
        assert_eq!(first.mode(), MODES[0].1);
        assert!(first.deny(MODES[0].1) && first.deny_algorithm(Algorithm::Crc64Nvme));
        assert_eq!((modes("http://a").mode(), modes("http://b").mode()), (MODES[2].1, MODES[0].1));
        assert!(first.deny(MODES[2].1) && !first.deny(MD5));
        assert_eq!(modes("http://a").mode(), MD5);
        let path = first.memory.get().expect("remembered").path();
        for text in [format!("md5 {}", now() - REMEMBERED), format!("md5 {}", now() + 60), "md5".into(), "x 1".into(), "\0".into()] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(modes("http://a").mode(), MODES[0].1);
        }
    }

    #[test]
    fn parts_of_an_upload_take_its_checksum_or_md5() {
        let modes = ChecksumModes::default();
        assert_eq!(modes.of_upload(Algorithm::Crc64Nvme), MODES[0].1);
        assert_eq!(modes.of_upload(Algorithm::Crc32c), ChecksumMode { algorithm: Algorithm::Crc32c, trailing: true });
        assert_eq!(modes.of_upload(Algorithm::Md5), MD5);
        modes.deny(MODES[0].1);
        assert_eq!(modes.of_upload(Algorithm::Crc64Nvme), MODES[1].1);
        modes.deny(MODES[1].1);
        assert_eq!(modes.of_upload(Algorithm::Crc64Nvme), MD5);
        assert_eq!(modes.of_upload(Algorithm::Crc32c), MODES[2].1);
    }
}
