//! Files that are open on the remote host, by the numbers under which it knows them.

use std::sync::{Arc, Weak};

use haul_core::error::Result;

use super::frame::Frame;
use super::link::Ticket;
use super::ops;
use super::session::Session;
use super::wire::Writer;

/// An open file, for as long as its session lasts. Dropping it closes the file.
#[derive(Debug)]
pub(super) struct Handle {
    session: Weak<Session>,
    number: u64,
}

impl Handle {
    pub fn of(file: &OpenFile) -> Handle {
        Handle { session: Arc::downgrade(&file.session), number: file.number }
    }

    /// `None` once its session was lost.
    pub fn file(&self) -> Option<OpenFile> {
        let session = self.session.upgrade().filter(|session| !session.control.is_over())?;
        Some(OpenFile { session, number: self.number })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(file) = self.file() {
            // The answer is not waited for.
            let _ = file.ask(ops::CLOSE, 0, |to| to);
        }
    }
}

#[derive(Clone)]
pub(super) struct OpenFile {
    pub session: Arc<Session>,
    pub number: u64,
}

impl OpenFile {
    /// A request about this file: its number stands in front.
    pub fn request(&self, fill: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
        let mut to = Writer::default();
        fill(to.put(self.number));
        to.out
    }

    pub fn ask(&self, kind: u8, weight: u64, fill: impl FnOnce(&mut Writer) -> &mut Writer) -> Result<Ticket> {
        self.session.ask(kind, &[&self.request(fill)], weight)
    }

    pub fn call(&self, kind: u8, fill: impl FnOnce(&mut Writer) -> &mut Writer) -> Result<Frame> {
        self.ask(kind, 0, fill)?.wait()
    }

    pub fn is(&self, other: &OpenFile) -> bool {
        Arc::ptr_eq(&self.session, &other.session) && self.number == other.number
    }
}
