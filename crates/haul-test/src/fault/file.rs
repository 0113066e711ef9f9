//! Files behind the rules.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use haul_core::entry::{Entry, MetaMask, Name, Stamp, Xattrs};
use haul_core::hash::Algorithm;
use haul_core::store::{
    Absent, Chunk, ContentChecksum, Receipt, Sink, SinkExtensions, SinkState, Source, SourceExtensions, Token, WriteOutcome,
};
use haul_core::{Error, Result};

use super::{Core, Op, Under, What, failure};

pub(super) struct Reading {
    pub inner: Box<dyn Source>,
    pub core: Arc<Core>,
    pub name: Name,
    /// `Read` or `ReadBack`.
    pub op: Op,
}

impl Reading {
    /// A reader with `what` wrong, where that is so behind `half` of it.
    fn bent<'a>(&self, from: Box<dyn Read + Send + 'a>, what: Option<What>, half: u64, under: Under<'a>) -> Box<dyn Read + Send + 'a> {
        let until = match &what {
            None | Some(What::FlipBit) => None,
            Some(What::StopShort) => Some((half, None)),
            Some(what) => Some((half, failure(what, self.op, &self.name))),
        };
        let from = Bent { from, flips: matches!(what, Some(What::FlipBit)), until };
        Box::new(Counted { from, _under: under })
    }
}

#[deny(clippy::missing_trait_methods)]
impl Source for Reading {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        let under = self.core.enter(self.op, 1);
        let path = self.name.path();
        self.core.ask(self.op, &path, true)?;
        let what = self.core.ask(self.op, &path, false)?;
        let half = (at.end - at.start) / 2;
        Ok(self.bent(self.inner.read(at)?, what, half, under))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let under = self.core.enter(self.op, 1);
        let path = self.name.path();
        self.core.ask(self.op, &path, true)?;
        let what = self.core.ask(self.op, &path, false)?;
        Ok(self.bent(self.inner.stream()?, what, 1 << 20, under))
    }

    fn prefetch(&self, parts: &[Range<u64>]) {
        self.inner.prefetch(parts);
    }

    fn hint_sequential(&self, at: Range<u64>) {
        self.inner.hint_sequential(at);
    }

    fn stamp(&self) -> Result<Stamp> {
        self.core.run(Op::Stamp, &self.name, || self.inner.stamp())
    }

    fn change(&self) -> Result<u64> {
        self.inner.change()
    }

    fn data(&self, at: Range<u64>) -> Result<Vec<Range<u64>>> {
        self.core.run(Op::Data, &self.name, || self.inner.data(at))
    }

    fn xattrs(&self, want: MetaMask) -> Result<Xattrs> {
        self.core.run(Op::Xattrs, &self.name, || self.inner.xattrs(want))
    }

    /// What the kernel copies, and what the store says or does of itself, passes every rule by: none of it once reading is watched.
    fn extensions(&self) -> SourceExtensions<'_> {
        let inner = self.inner.extensions();
        if self.core.is_watched(self.op) { SourceExtensions { fd: None, checksum: self, near_data: &Absent, ..inner } } else { inner }
    }
}

impl ContentChecksum for Reading {
    fn block(&self) -> Option<u64> {
        self.inner.extensions().checksum.block()
    }

    fn unverified(&self) -> Option<Range<u64>> {
        self.inner.extensions().checksum.unverified()
    }

    fn feed(&self, at: u64, bytes: &[u8]) {
        self.inner.extensions().checksum.feed(at, bytes);
    }
}

/// A reader with something wrong half way or at its first byte.
struct Bent<R> {
    from: R,
    flips: bool,
    /// Bytes until the trouble, and the trouble: an error, or an end.
    until: Option<(u64, Option<Error>)>,
}

impl<R: Read> Read for Bent<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = match &mut self.until {
            Some((0, trouble)) => return trouble.take().map_or(Ok(0), |e| Err(e.into())),
            Some((left, _)) => into.len().min(usize::try_from(*left).unwrap_or(usize::MAX)),
            None => into.len(),
        };
        let count = self.from.read(&mut into[..most])?;
        if let Some((left, _)) = &mut self.until {
            *left -= count as u64;
        }
        if self.flips && count > 0 {
            into[0] ^= 1;
            self.flips = false;
        }
        Ok(count)
    }
}

/// A reader that counts as a call under way.
struct Counted<'a> {
    from: Bent<Box<dyn Read + Send + 'a>>,
    _under: Under<'a>,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.from.read(into)
    }
}

pub(super) struct Writing {
    pub inner: Box<dyn Sink>,
    pub core: Arc<Core>,
    pub name: Name,
}

#[deny(clippy::missing_trait_methods)]
impl Sink for Writing {
    fn token(&self) -> Token {
        self.inner.token()
    }

    /// By way of `write`, so that every rule holds.
    fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.write(at..at + bytes.len() as u64, &mut &bytes[..])
    }

    fn write(&self, at: Range<u64>, from: &mut dyn Read) -> Result<()> {
        let _under = self.core.enter(Op::Write, 1);
        let path = self.name.path();
        self.core.ask(Op::Write, &path, true)?;
        match self.core.ask(Op::Write, &path, false)? {
            None => self.inner.write(at, from),
            Some(What::FlipBit) => self.inner.write(at, &mut Bent { from, flips: true, until: None }),
            Some(what @ What::FailAfter(..)) => {
                self.inner.write(at, from)?;
                Err(failure(&what, Op::Write, &self.name).expect("this is a failure"))
            }
            Some(what) => {
                self.inner.write(at.start..at.start + (at.end - at.start) / 2, from)?;
                Err(failure(&what, Op::Write, &self.name).expect("the rest are failures"))
            }
        }
    }

    fn hole(&self, at: Range<u64>) -> Result<()> {
        self.core.run(Op::Hole, &self.name, || self.inner.hole(at))
    }

    fn landed(&self, chunk: &Chunk) -> Result<Box<[u8]>> {
        self.core.run(Op::Landed, &self.name, || self.inner.landed(chunk))
    }

    fn reread(&self) -> Result<Box<dyn Source>> {
        self.core.run(Op::Reread, &self.name, || {
            let inner = self.inner.reread()?;
            Ok(Box::new(Reading { inner, core: self.core.clone(), name: self.name.clone(), op: Op::ReadBack }) as Box<dyn Source>)
        })
    }

    fn commit(&self, entry: &Entry, receipts: &[Receipt]) -> Result<WriteOutcome> {
        self.core.run(Op::Commit, &self.name, || self.inner.commit(entry, receipts))
    }

    fn abort(&self) -> Result<()> {
        self.core.run(Op::Abort, &self.name, || self.inner.abort())
    }

    /// As for a source: no descriptor once writing is watched.
    fn extensions(&self) -> SinkExtensions<'_> {
        let inner = self.inner.extensions();
        SinkExtensions { fd: inner.fd.filter(|_| !self.core.is_watched(Op::Write)), state: self, ..inner }
    }
}

impl SinkState for Writing {
    fn takes_ranges(&self) -> bool {
        self.inner.extensions().state.takes_ranges()
    }

    fn sync(&self) -> Result<()> {
        self.inner.extensions().state.sync()
    }

    fn keeps(&self, receipt: &Receipt) -> bool {
        self.inner.extensions().state.keeps(receipt)
    }

    fn digest(&self, algorithm: Algorithm) -> Result<Option<Vec<u8>>> {
        self.core.run(Op::Digest, &self.name, || self.inner.extensions().state.digest(algorithm))
    }
}
