//! Tests of the connections to a host, for `haul doctor`.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Spec, Store, chunks};

use super::direct::{ATTEMPT, EncryptedLink, LISTENING, Ports, Until};
use super::frame::lost;
use super::greeting::RemoteInfo;
use super::host::Host;
use super::measure::MadeUp;
use super::options::Reachable;
use super::wire::protocol_error;
use haul_core::lock::lock;

#[derive(Debug)]
pub struct Attempt {
    /// The address of the listening end, as far as it was known.
    pub at: Option<SocketAddr>,
    pub took: Duration,
    /// Bytes that went through it, both directions together; `None` where no connection could be made.
    pub moved: Option<u64>,
    pub suite: Option<String>,
    pub failed: Option<Error>,
}

/// Bytes of one test in each direction: firewalls and proxies may cut a connection after its first bytes.
const VOLUME: u64 = 8 << 20;
/// How long the test of one direction may take; over a slow link less than [`VOLUME`] goes through.
const TESTED: Duration = Duration::from_secs(3);
/// A connection that is tested is given up sooner than one that carries data.
const TEST_TIMEOUT: Duration = Duration::from_secs(15);

impl Attempt {
    fn made(host: &Host, begin: impl FnOnce(&mut Option<SocketAddr>) -> Result<(Duration, EncryptedLink)>) -> Attempt {
        let (mut at, begun) = (None, Instant::now());
        match begin(&mut at) {
            Ok((took, link)) => {
                let (mut moved, suite) = (0, Some(link.suite.clone()));
                let failed = host.test(link, &mut moved).err();
                Attempt { at, took, moved: Some(moved), suite, failed }
            }
            Err(e) => Attempt { at, took: begun.elapsed(), moved: None, suite: None, failed: Some(e) },
        }
    }
}

impl Host {
    pub fn remote(&self) -> Result<RemoteInfo> {
        Ok(self.client.session()?.remote.clone())
    }

    /// Moves data both ways through a connection and ends it.
    fn test(&self, link: EncryptedLink, moved: &mut u64) -> Result<()> {
        let session = self.client.session()?;
        session.fixed.store(1, Ordering::Relaxed);
        session.add(link, TEST_TIMEOUT)?;
        let tested = self.receive(moved).and_then(|()| self.send(moved));
        for one in std::mem::take(&mut *lock(&session.data)) {
            one.link.end(lost("it was tested"));
        }
        match tested {
            // A login that may only read; the answer came through the connection.
            Err(e) if e.kind() == ErrorKind::Denied => Ok(()),
            tested => tested,
        }
    }

    fn receive(&self, moved: &mut u64) -> Result<()> {
        let begun = Instant::now();
        let from = self.open_made_up(MadeUp::Source { dirs: 1, files: 1, size: VOLUME })?;
        let mut file = Dir::root();
        let entry = loop {
            let mut found = None;
            from.list(&file, &mut |entry| {
                found.get_or_insert(entry);
                Flow::Stop
            })?;
            let entry = found.ok_or_else(|| protocol_error("no generated data"))??;
            if entry.kind != Kind::Dir {
                break entry;
            }
            file = file.child(&entry.name.leaf);
        };
        let source = from.open(&entry, false)?;
        let mut reader = source.read(0..VOLUME)?;
        let mut buffer = vec![0; 256 << 10];
        while begun.elapsed() < TESTED {
            match reader.read(&mut buffer).map_err(|e| Error::from_io(e, "receive"))? {
                0 => break,
                count => *moved += count as u64,
            }
        }
        Ok(())
    }

    fn send(&self, moved: &mut u64) -> Result<()> {
        let begun = Instant::now();
        let to = self.open_made_up(MadeUp::Sink)?;
        let name = Name::new(&Dir::root(), b"sent");
        let entry = Entry { size: VOLUME, ..Entry::bare(name.clone(), Kind::File) };
        let part = 1 << 20;
        let sink = to.create(&name, &Spec { entry: &entry, keep: MetaMask::NONE, chunk: part, in_place: false, sync: false })?;
        for chunk in chunks(VOLUME, part) {
            if begun.elapsed() > TESTED {
                break;
            }
            sink.write(chunk.at.clone(), &mut std::io::repeat(7))?;
            sink.landed(&chunk)?;
            *moved += chunk.at.end - chunk.at.start;
        }
        sink.abort()
    }

    /// Whether this end can connect to the remote one. The connection is closed again.
    pub fn try_out(&self, ports: Ports, reached: &Reachable) -> Attempt {
        Attempt::made(self, |at| {
            let (link, took) = self.client.session()?.dial(ports, reached, at)?;
            Ok((took, link))
        })
    }

    /// Whether the remote end can connect to this one, which listens for it. The connection is closed again.
    pub fn try_in(&self, ports: Ports, reached: &Reachable) -> Attempt {
        Attempt::made(self, |at| {
            let session = self.client.session()?;
            let (send, came) = mpsc::channel();
            let send = Mutex::new(send);
            let closed = Arc::new(AtomicBool::new(false));
            let close = closed.clone();
            let each = move |link| {
                // The receiver may have given up.
                let _ = lock(&send).send(link);
            };
            let over = move || close.load(Ordering::Relaxed);
            let place = session.listen((ports, reached), Until { count: 1, within: LISTENING, over }, each)?;
            *at = Some(place);
            let begun = Instant::now();
            let not_made = |_| protocol_error("a report of a connection that was not made");
            let connected = session.call_back(place, 1).and_then(|_| came.recv_timeout(ATTEMPT).map_err(not_made));
            closed.store(true, Ordering::Relaxed);
            connected.map(|link| (begun.elapsed(), link))
        })
    }
}
