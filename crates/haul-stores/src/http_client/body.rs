//! The body of an answer, read to exactly the length that was requested and verified as it passes.

use haul_core::lock::lock;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use haul_core::entry::Name;
use haul_core::error::{Error, ErrorKind, Remedy};

use super::agent::read_error;
use super::verifier::{Verifier, Watch};

/// Takes the reader over after the last byte.
type After = Box<dyn FnOnce(ureq::BodyReader<'static>) + Send>;

pub(crate) struct Body {
    reader: Option<ureq::BodyReader<'static>>,
    /// Bytes still to be read.
    left: u64,
    watch: Option<(Watch, Arc<Mutex<Verifier>>)>,
    after: Option<After>,
    name: Name,
    /// For messages: "the service".
    server: &'static str,
    /// Of the request.
    tries: u32,
}

impl Body {
    pub fn new(reader: ureq::BodyReader<'static>, left: u64, name: Name, server: &'static str, tries: u32) -> Body {
        Body { reader: Some(reader), left, watch: None, after: None, name, server, tries }
    }

    /// Has a verifier see the bytes, which begin at `at`.
    pub fn verified(mut self, verifier: Option<&Arc<Mutex<Verifier>>>, at: u64) -> Body {
        self.watch = verifier.map(|verifier| (lock(verifier).watch(at), verifier.clone()));
        self
    }

    /// The answer has more bytes than these.
    pub fn then(mut self, after: After) -> Body {
        self.after = Some(after);
        self
    }

    fn end(&mut self) -> Result<(), Error> {
        if let Some(mut reader) = self.reader.take() {
            match self.after.take() {
                Some(after) => after(reader),
                // The connection can serve again once the end of the body was seen; more than that is no concern here.
                None => drop(reader.read(&mut [0; 1])),
            }
        }
        let Some((watch, verifier)) = self.watch.take() else { return Ok(()) };
        let mut verifier = lock(&verifier);
        verifier.take(watch);
        verifier.check()
    }
}

/// The answer ended `left` bytes too early.
pub(crate) fn cut_short(left: u64) -> Error {
    Error::new(ErrorKind::Io, "read").remedy_is(Remedy::Again).because(format!("the answer ended {left} bytes too early"))
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let Some(reader) = self.reader.as_mut().filter(|_| most > 0) else { return Ok(0) };
        let failed = |e: Error| e.on(&self.name).tried(self.tries);
        let count = match reader.read(&mut into[..most]) {
            Ok(0) => return Err(failed(cut_short(self.left)).into()),
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(e) => return Err(failed(read_error("read", &e, self.server)).into()),
        };
        self.left -= count as u64;
        if let Some((watch, _)) = &mut self.watch {
            watch.update(&into[..count]);
        }
        if self.left == 0 {
            self.end().map_err(|e| e.on(&self.name).tried(self.tries))?;
        }
        Ok(count)
    }
}
