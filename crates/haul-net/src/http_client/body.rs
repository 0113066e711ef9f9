//! The body of an answer, read to exactly the length that was requested and verified as it passes.

use haul_core::lock::lock;
use haul_core::retry;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use haul_core::entry::Name;
use haul_core::error::{Error, ErrorKind, Remedy};

use super::agent::read_error;
use super::pace::{Pace, Paced};
use super::verifier::{Verifier, Watch};

/// Takes the reader over after the last byte.
type After = Box<dyn FnOnce(ureq::BodyReader<'static>) + Send>;
/// Asks for the last bytes of the body, so many, over another connection.
type Again<'a> = Box<dyn Fn(u64) -> Result<ureq::BodyReader<'static>, Error> + Send + 'a>;

pub struct Body<'a> {
    reader: Option<ureq::BodyReader<'static>>,
    /// Bytes still to be read.
    left: u64,
    watch: Option<(Watch, Arc<Mutex<Verifier>>)>,
    after: Option<After>,
    paced: Option<(Paced<'a>, Again<'a>)>,
    name: Name,
    /// For messages: "the service".
    server: &'static str,
    /// Of the request.
    tries: u32,
}

impl<'a> Body<'a> {
    pub fn new(reader: ureq::BodyReader<'static>, left: u64, name: Name, server: &'static str, tries: u32) -> Self {
        Body { reader: Some(reader), left, watch: None, after: None, paced: None, name, server, tries }
    }

    /// Has a verifier see the bytes, which begin at `at`.
    pub fn verified(mut self, verifier: Option<&Arc<Mutex<Verifier>>>, at: u64) -> Self {
        self.watch = verifier.map(|verifier| (lock(verifier).watch(at), verifier.clone()));
        self
    }

    /// The answer has more bytes than these.
    pub fn then(mut self, after: After) -> Self {
        self.after = Some(after);
        self
    }

    /// Asks for the rest again if it comes much more slowly than other answers of the server do.
    pub fn paced(mut self, pace: &'a Pace, again: Again<'a>) -> Self {
        self.paced = Some((Paced::new(pace), again));
        self
    }

    fn end(&mut self) -> Result<(), Error> {
        if let Some(mut reader) = self.reader.take() {
            match self.after.take() {
                Some(after) => after(reader),
                // The connection can serve again once the end of the body was seen. An error there takes nothing from what has come.
                None => {
                    if reader.read(&mut [0; 1]).is_ok_and(|more| more > 0) {
                        let e = Error::new(ErrorKind::Changed, "read");
                        return Err(e.because(format!("{} sends more bytes than it announced", self.server)));
                    }
                    if let Some((paced, _)) = &mut self.paced {
                        paced.ended();
                    }
                }
            }
        }
        let Some((watch, verifier)) = self.watch.take() else { return Ok(()) };
        let mut verifier = lock(&verifier);
        verifier.take(watch);
        verifier.check()
    }
}

/// The answer ended `left` bytes too early.
pub fn cut_short(left: u64) -> Error {
    Error::new(ErrorKind::Io, "read").remedy_is(Remedy::Again).because(format!("the answer ended {left} bytes too early"))
}

impl Read for Body<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let Some(reader) = self.reader.as_mut().filter(|_| most > 0) else { return Ok(0) };
        let failed = |e: Error| e.on(&self.name).tried(self.tries);
        let since = Instant::now();
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
        if let Some((paced, again)) = &mut self.paced
            && paced.lags(count as u64, since, self.left)
        {
            // The answer at hand comes, if slowly.
            let _once = retry::once();
            match again(self.left) {
                Ok(reader) => self.reader = Some(reader),
                Err(_) => paced.stays(),
            }
        }
        if self.left == 0 {
            self.end().map_err(|e| e.on(&self.name).tried(self.tries))?;
        }
        Ok(count)
    }
}
