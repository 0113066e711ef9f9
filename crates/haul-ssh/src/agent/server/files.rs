//! Files that are open for the other end, by the numbers that it has given them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Sink, Source};

use crate::agent::frame::Frame;
use crate::agent::ops;
use crate::agent::wire::protocol_error;
use haul_core::lock::lock;

const MOST: usize = 16 << 10;

pub enum Open {
    Source(Box<dyn Source>),
    Sink(Box<dyn Sink>),
}

impl Open {
    pub fn source(&self) -> Result<&dyn Source> {
        match self {
            Open::Source(source) => Ok(&**source),
            Open::Sink(_) => Err(protocol_error("a read of a file that is being written")),
        }
    }

    pub fn sink(&self) -> Result<&dyn Sink> {
        match self {
            Open::Sink(sink) => Ok(&**sink),
            Open::Source(_) => Err(protocol_error("a write into a file that is being read")),
        }
    }
}

#[derive(Default)]
pub struct Files {
    /// `None` while one is being opened: what uses it waits.
    files: Mutex<HashMap<u64, Option<Arc<Open>>>>,
    opened: Condvar,
}

impl Files {
    /// Called in the order in which requests come on a link.
    pub fn expect(&self, frame: &Frame) -> Result<()> {
        if opens(frame.kind) {
            let mut files = lock(&self.files);
            if files.len() >= MOST {
                return Err(protocol_error("too many open files"));
            }
            files.insert(frame.body().get()?, None);
        }
        Ok(())
    }

    /// It could not be opened: nothing has to wait for it any more.
    pub fn failed(&self, frame: &Frame) {
        if opens(frame.kind)
            && let Ok(number) = frame.body().get()
        {
            lock(&self.files).remove(&number);
            self.opened.notify_all();
        }
    }

    pub fn insert(&self, number: u64, open: Open) {
        lock(&self.files).insert(number, Some(Arc::new(open)));
        self.opened.notify_all();
    }

    pub fn get(&self, number: u64) -> Result<Arc<Open>> {
        let mut files = lock(&self.files);
        loop {
            match files.get(&number) {
                Some(Some(open)) => return Ok(open.clone()),
                Some(None) => {}
                // By this operation and kind the requesting end knows that it has to open it again.
                None => return Err(Error::new(ErrorKind::NotFound, "use").because("the file is not open")),
            }
            files = self.opened.wait_timeout(files, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub fn close(&self, number: u64) {
        let closed = lock(&self.files).remove(&number);
        drop(closed);
    }
}

fn opens(kind: u8) -> bool {
    matches!(kind, ops::OPEN | ops::CREATE | ops::ATTACH | ops::REOPEN | ops::REREAD)
}
