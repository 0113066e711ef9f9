//! Network measurements with a remote haul: generated roots, a fixed number of links, and the bytes received by the remote clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use haul_core::error::{Error, Result};
use haul_core::store::Store;
use serde::{Deserialize, Serialize};

use super::data::DataRoute;
use super::host::Host;
use super::link::Ticket;
use super::ops;
use super::session::Session;
use super::store::Remote;
use super::wire::pack;
use haul_core::lock::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MadeUp {
    /// So many directories with so many files in each, of so many bytes each, which cost nothing to read.
    Source { dirs: u64, files: u64, size: u64 },
    /// Takes everything and keeps nothing.
    Sink,
}

/// What carries the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// Connections of haul's own, or sessions in one ssh connection.
    pub links: usize,
    /// Beside ssh.
    pub direct: bool,
}

/// Stores without disks and the load of this machine: what the program gives a remote haul to be measured with.
pub trait Measuring: fmt::Debug + Send + Sync {
    /// `dirs` directories with `files` files of `size` bytes each, which cost nothing to read.
    fn source(&self, dirs: u64, files: u64, size: u64) -> Arc<dyn Store>;

    /// Takes everything and keeps nothing. All sinks count together.
    fn sink(&self) -> Arc<dyn Store>;

    fn tally(&self) -> Tally;
}

/// A reading of processor times; the difference of two is a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Of a monotonic clock.
    pub at: Duration,
    pub own: Duration,
    /// Of the ssh programs that this process has started and of the ssh server below which it runs.
    pub ssh: Duration,
    /// Of all processors together: busy, and busy or idle. Zero if the system does not say.
    pub busy: Duration,
    pub all: Duration,
    pub processors: u64,
}

/// What the sinks of the remote haul have taken since it began, and the load of its machine, by its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    pub bytes: u64,
    pub files: u64,
    pub load: Load,
}

/// A tally that was requested: the request goes behind whatever was sent before on the same link.
#[derive(Debug)]
pub struct Pending(Ticket);

impl Pending {
    /// Whether `wait` would come back at once, be it with an error.
    pub fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    pub fn wait(self) -> Result<Tally> {
        self.0.wait()?.body().get()
    }
}

/// How long the making of links may take, and how long it may go on without one more.
const MAKING: Duration = Duration::from_secs(20);
const STALLED: Duration = Duration::from_secs(4);

impl Host {
    pub fn open_made_up(&self, what: MadeUp) -> Result<Remote> {
        let session = self.client.session()?;
        let number = self.client.number();
        let request = pack((number, what));
        let answer = session.ask_quick(ops::MADE_UP, &[&request])?;
        self.opened(&session, number, &answer, |_| (ops::MADE_UP, request))
    }

    /// Sends data over so many links from now on, as far as they can be made: data connections where those work, else ssh
    /// sessions.
    pub fn fix_streams(&self, streams: usize) -> Result<Streams> {
        let session = self.client.session()?;
        session.fixed.store(streams.max(1), Ordering::Relaxed);
        let begun = Instant::now();
        let (mut last, mut grown) = (0, Instant::now());
        loop {
            let tried = !matches!(*lock(&session.route), DataRoute::Untried(_));
            let (links, direct) = session.data_links();
            let wanted = if direct { streams } else { streams.min(session.sessions.load(Ordering::Relaxed)) };
            if tried && links >= wanted {
                break;
            }
            if links != last {
                (last, grown) = (links, Instant::now());
            }
            if begun.elapsed() > MAKING || (tried && grown.elapsed() > STALLED) {
                break;
            }
            session.want(wanted, wanted);
            // A call for the session sees to its links.
            self.client.session()?;
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(self.streams(&session, streams))
    }

    fn streams(&self, session: &Session, most: usize) -> Streams {
        let (links, direct) = session.data_links();
        Streams { links: links.min(most.max(1)), direct }
    }

    pub fn ask_tally(&self) -> Result<Pending> {
        self.client.session()?.control.ask(ops::TALLY, &[], 0).map(Pending)
    }

    /// Bytes that have set out or were asked for and are not answered.
    pub fn under_way(&self) -> u64 {
        let Some(session) = self.client.standing() else { return 0 };
        let data: u64 = lock(&session.data).iter().map(|one| one.link.load()).sum();
        data + lock(&session.links).iter().map(|link| link.load()).sum::<u64>()
    }

    /// Bytes that have come from the host in this conversation, in whatever order.
    pub fn received(&self) -> u64 {
        self.client.standing().map_or(0, |session| session.window.received.load(Ordering::Relaxed))
    }

    /// How long one question that is answered at once takes.
    pub fn ping(&self) -> Result<Duration> {
        let session = self.client.session()?;
        let begun = Instant::now();
        session.ask_quick(ops::LOOK, &[&pack(&b"/"[..])])?;
        Ok(begun.elapsed())
    }

    /// Why no data connection could be made, from here and from there; `None` where one could, or none was tried.
    pub fn why_not_direct(&self) -> Option<[Error; 2]> {
        let session = self.client.standing()?;
        let blocked = lock(&session.blocked);
        blocked.as_ref().map(|[out, back]| [out.again(), back.again()])
    }
}
