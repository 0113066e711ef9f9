//! A log with only what is still open in it.

use std::io::{self, Write};

use super::log::{HEADER, frame};
use super::progress::Fold;
use super::record::{self, Record};

/// Leaves in one record, so that none comes near the bound of a payload.
const LEAVES: usize = 1000;

/// Writes the log that folds to `fold`, as the run of `begun` continues it; returns its length in bytes. State of earlier runs
/// stands before `begun`, the rest behind it.
pub(super) fn write(fold: &Fold, begun: &Record, out: &mut dyn Write) -> io::Result<u64> {
    let mut log = Out { out, buffer: HEADER.to_vec(), length: 0 };
    for session in fold.sessions.values() {
        log.put(|to| record::put_opened(to, session.session, &session.path, &session.stamp, session.chunk, &session.token))?;
        for receipt in session.landed.receipts().filter(|receipt| session.landed.is_foreign(receipt.index)) {
            log.put(|to| record::put_landed(to, session.session, &receipt))?;
        }
    }
    for (path, mtime) in &fold.dir_times {
        log.put(|to| record::put_dir_time(to, *path, *mtime))?;
    }
    let mut bundle = 0;
    for (dir, leaves) in &fold.unfinished {
        let mut leaves = leaves.iter().map(|leaf| &leaf[..]).peekable();
        while leaves.peek().is_some() {
            log.put(|to| record::put_intent(to, bundle, dir, &mut leaves.by_ref().take(LEAVES)))?;
            bundle += 1;
        }
    }
    log.put(|to| begun.encode(to))?;
    for session in fold.sessions.values() {
        for receipt in session.landed.receipts().filter(|receipt| !session.landed.is_foreign(receipt.index)) {
            log.put(|to| record::put_landed(to, session.session, &receipt))?;
        }
        for (index, bytes) in session.landed.parts() {
            log.put(|to| record::put_part(to, session.session, index, bytes))?;
        }
    }
    for (bundle, (dir, leaves)) in &fold.open {
        log.put(|to| record::put_intent(to, *bundle, dir, &mut leaves.iter().map(|leaf| &leaf[..])))?;
    }
    log.flush()?;
    Ok(log.length)
}

struct Out<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    length: u64,
}

impl Out<'_> {
    fn put(&mut self, payload: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        if !frame(&mut self.buffer, payload) {
            return Err(io::Error::other("a record is too large"));
        }
        if self.buffer.len() >= 64 << 10 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.length += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
