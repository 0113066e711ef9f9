//! In which form a checksum goes with what is sent. Which forms an endpoint verifies is found out by its answers, and
//! remembered for a day.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::hash::xxh128;

use super::call::Answer;
use super::checksum::{Algorithm, ETag, Value, proof};
use super::index::Home;

/// A checksum that goes with what is sent, and how: behind the bytes, or in front of them, for which they are held
/// in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warrant {
    pub algorithm: Algorithm,
    pub trailing: bool,
}

/// From the best to the one that every endpoint takes.
const WARRANTS: [Warrant; 4] = [
    Warrant { algorithm: Algorithm::Crc64Nvme, trailing: true },
    Warrant { algorithm: Algorithm::Crc64Nvme, trailing: false },
    Warrant { algorithm: Algorithm::Crc32c, trailing: false },
    MD5,
];
const MD5: Warrant = Warrant { algorithm: Algorithm::Md5, trailing: false };

/// How each of [`WARRANTS`] is written in the file that remembers them.
const WORDS: [&str; WARRANTS.len()] = ["crc64nvme-trailer", "crc64nvme", "crc32c", "md5"];

/// The operation of an error that says only that a form is not known to the endpoint.
pub(super) const UNPROVEN: &str = "prove";

/// Seconds for which it is remembered: the endpoint may be updated.
const REMEMBERED: u64 = 24 * 60 * 60;
/// Bytes of the file that are read.
const FILE_MOST: u64 = 256;

/// The forms that one endpoint takes. Any number of threads may use it.
#[derive(Debug, Default)]
pub struct Forms {
    /// An index into [`WARRANTS`].
    level: AtomicU8,
    /// The endpoint has returned a checksum.
    returns: AtomicBool,
    memory: OnceLock<Memory>,
}

/// A file with what was found out of one endpoint: a word and the time in seconds since 1970.
#[derive(Debug)]
struct Memory(Home);

impl Forms {
    /// Begins with what an earlier run found out, and writes down what this one does, below haul's state directory.
    pub fn remember(&self, state: &Path, endpoint: &str) {
        let mut is_first = false;
        let memory = self.memory.get_or_init(|| {
            is_first = true;
            Memory::open(state, endpoint)
        });
        if is_first && let Some(level) = memory.read() {
            self.level.fetch_max(level, Ordering::Relaxed);
        }
    }

    fn level(&self) -> usize {
        usize::from(self.level.load(Ordering::Relaxed)).min(WARRANTS.len() - 1)
    }

    pub fn warrant(&self) -> Warrant {
        WARRANTS[self.level()]
    }

    /// The form for a part of an upload that was begun with this algorithm: another one's checksum would be refused.
    pub fn of_upload(&self, begun: Algorithm) -> Warrant {
        let last = WARRANTS.iter().rposition(|warrant| warrant.algorithm == begun).unwrap_or(0);
        if begun == Algorithm::Md5 || self.level() > last { MD5 } else { Warrant { algorithm: begun, trailing: self.warrant().trailing } }
    }

    /// Whether it is known that the endpoint returns checksums. Until then the MD5 of what is streamed is needed, too.
    pub fn is_known(&self) -> bool {
        self.returns.load(Ordering::Relaxed)
    }

    /// The endpoint does not know this form: the next one from now on. `false` if there is none.
    pub fn deny(&self, warrant: Warrant) -> bool {
        let Some(at) = WARRANTS.iter().position(|known| *known == warrant) else { return true };
        self.go_to(at + 1)
    }

    /// The endpoint does not know this algorithm, in whatever form.
    pub fn deny_algorithm(&self, algorithm: Algorithm) -> bool {
        let Some(at) = WARRANTS.iter().rposition(|known| known.algorithm == algorithm) else { return true };
        self.go_to(at + 1)
    }

    fn go_to(&self, next: usize) -> bool {
        if next >= WARRANTS.len() {
            return false;
        }
        let level = next as u8;
        if self.level.fetch_max(level, Ordering::Relaxed) < level
            && let Some(memory) = self.memory.get()
        {
            // Not to know it the next time costs a request or two.
            let _best_effort = memory.write(level);
        }
        true
    }

    /// Makes a request with the best form that the endpoint takes.
    pub fn prove<T>(&self, request: impl Fn(Warrant) -> Result<T>) -> Result<T> {
        loop {
            let warrant = self.warrant();
            match request(warrant) {
                Err(e) if is_unproven(&e) && self.deny_algorithm(warrant.algorithm) => {}
                other => return other,
            }
        }
    }

    /// No error if `answer` shows that the bytes arrived whose checksum is `sent`: the service returned it, or the ETag is
    /// their MD5, or they went with Content-MD5, which services must verify. `UNPROVEN` where the answer shows nothing;
    /// `Corrupt` if it shows other bytes and `etags` count. A form that the endpoint does not know is not tried again.
    pub fn accepted(&self, answer: &Answer, warrant: Warrant, sent: Value, md5: impl FnOnce() -> Option<Value>, etags: bool) -> Result<()> {
        let returned = answer.header(warrant.algorithm.header()).filter(|_| warrant != MD5);
        if returned.is_some_and(|text| Value::parse_base64(warrant.algorithm, text.trim_ascii()) == Some(sent)) {
            self.returns.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let headers = answer.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let etag = match proof(headers).etag {
            ETag::Md5(md5) => Value::parse(Algorithm::Md5, &md5),
            ETag::Multipart { .. } | ETag::Opaque => None,
        };
        let same = etag.and_then(|etag| Some(etag == if warrant == MD5 { sent } else { md5()? }));
        match (same, warrant == MD5) {
            (Some(true), last) => {
                if !last {
                    // It did not look at the checksum, but what it has is what was sent.
                    self.deny(warrant);
                }
                Ok(())
            }
            (Some(false), true) if etags => {
                let e = Error::new(ErrorKind::Corrupt, "write").remedy_is(Remedy::Again);
                let e = e.because("the ETag of what the service stored is not the MD5 of what was sent");
                Err(e.hint("if the ETags of this service are no MD5s, use --no-check-etag"))
            }
            (_, true) => Ok(()),
            (_, false) => Err(Error::new(ErrorKind::Unsupported, UNPROVEN).because("the server returned no checksum")),
        }
    }
}

/// Whether the error says only that the endpoint does not know the form.
pub(super) fn is_unproven(e: &Error) -> bool {
    e.kind() == ErrorKind::Unsupported && e.op() == UNPROVEN
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

impl Memory {
    fn open(state: &Path, endpoint: &str) -> Memory {
        Memory(Home::new(state.join("objects"), xxh128(format!("forms\0{endpoint}").as_bytes())))
    }

    /// What was found out within the last day.
    fn read(&self) -> Option<u8> {
        let mut text = String::new();
        File::open(self.0.path()).ok()?.take(FILE_MOST).read_to_string(&mut text).ok()?;
        let (word, at) = text.trim_ascii().split_once(' ')?;
        let age = now().checked_sub(at.parse().ok()?)?;
        let level = WORDS.iter().position(|known| *known == word).filter(|_| age < REMEMBERED)?;
        u8::try_from(level).ok()
    }

    fn write(&self, level: u8) -> io::Result<()> {
        self.0.make_dir()?;
        let fresh = self.0.fresh()?;
        writeln!(fresh.file(), "{} {}", WORDS[usize::from(level)], now())?;
        fresh.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_out_holds_for_a_day() {
        let dir = tempfile::tempdir().expect("a directory");
        let forms = |endpoint: &str| {
            let forms = Forms::default();
            forms.remember(dir.path(), endpoint);
            forms
        };
        let first = forms("http://a");
        assert_eq!(first.warrant(), WARRANTS[0]);
        assert!(first.deny(WARRANTS[0]) && first.deny_algorithm(Algorithm::Crc64Nvme));
        assert_eq!((forms("http://a").warrant(), forms("http://b").warrant()), (WARRANTS[2], WARRANTS[0]));
        assert!(first.deny(WARRANTS[2]) && !first.deny(MD5));
        assert_eq!(forms("http://a").warrant(), MD5);
        let path = Memory::open(dir.path(), "http://a").0.path();
        for text in [format!("md5 {}", now() - REMEMBERED), format!("md5 {}", now() + 60), "md5".into(), "x 1".into(), "\0".into()] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(forms("http://a").warrant(), WARRANTS[0]);
        }
    }

    #[test]
    fn parts_of_an_upload_take_its_checksum_or_md5() {
        let forms = Forms::default();
        assert_eq!(forms.of_upload(Algorithm::Crc64Nvme), WARRANTS[0]);
        assert_eq!(forms.of_upload(Algorithm::Crc32c), Warrant { algorithm: Algorithm::Crc32c, trailing: true });
        assert_eq!(forms.of_upload(Algorithm::Md5), MD5);
        forms.deny(WARRANTS[0]);
        assert_eq!(forms.of_upload(Algorithm::Crc64Nvme), WARRANTS[1]);
        forms.deny(WARRANTS[1]);
        assert_eq!(forms.of_upload(Algorithm::Crc64Nvme), MD5);
        assert_eq!(forms.of_upload(Algorithm::Crc32c), WARRANTS[2]);
    }
}
