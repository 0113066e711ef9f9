//! The listing of a root, requested together with its attributes, since it is needed next.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use haul_core::entry::Dir;
use haul_core::error::Result;
use haul_core::lock::lock;

use super::frame::kind;
use super::link::Ticket;
use super::ops;
use super::root::Root;

/// A listing that was requested longer ago is not used: the directory may have changed since.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct RootListing(Mutex<Option<(Instant, Ticket)>>);

pub(super) fn ask(root: &Root, dir: &Dir) -> Result<Ticket> {
    let mut to = root.request();
    to.dir(dir);
    root.ask(ops::LIST, &to, &[], 0)
}

impl RootListing {
    /// Requests it, unless it was requested before. A failure shows when it is read.
    pub fn expect(&self, root: &Root) {
        let mut ahead = lock(&self.0);
        if ahead.is_none() {
            *ahead = ask(root, &Dir::root()).ok().map(|ticket| (Instant::now(), ticket));
        }
    }

    pub fn take(&self) -> Option<Ticket> {
        let (asked, ticket) = lock(&self.0).take()?;
        if asked.elapsed() < FRESH && !ticket.link().is_over() {
            return Some(ticket);
        }
        cancel(&ticket);
        None
    }
}

/// The remote end stops; what it has sent is dropped when it comes.
fn cancel(ticket: &Ticket) {
    // A lost connection needs it no more.
    let _ = ticket.link().send(kind::CANCEL, ticket.id(), &[]);
}

impl Drop for RootListing {
    fn drop(&mut self) {
        if let Some((_, ticket)) = lock(&self.0).take() {
            cancel(&ticket);
        }
    }
}
