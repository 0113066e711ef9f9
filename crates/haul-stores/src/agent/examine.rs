//! What can be found out of a host without moving anything: for `haul doctor`.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Spec, Store, chunks};

use super::data::{ToListen, remote_address};
use super::direct::{self, ATTEMPT, EncryptedLink, Listener, Ports, addresses};
use super::encrypt::{Acceptor, Connector, Secret};
use super::greeting::RemoteInfo;
use super::host::Host;
use super::link::{IDLE_TIMEOUT, Ticket};
use super::measure::MadeUp;
use super::ops;
use super::wire::{Writer, protocol_error};
use crate::lock::lock;

/// One attempt to make a data connection.
#[derive(Debug)]
pub struct Attempt {
    /// Where the listening end was to be reached, as far as that was known.
    pub at: Option<SocketAddr>,
    pub took: Duration,
    /// Bytes that went through it, both directions together; `None` where no connection could be made.
    pub moved: Option<u64>,
    pub failed: Option<Error>,
}

/// What one test of a connection may see: firewalls and proxies that cut look at more than the first bytes.
const VOLUME: u64 = 8 << 20;
/// How long the test of one direction may take; over a slow link less than [`VOLUME`] goes through.
const TESTED: Duration = Duration::from_secs(3);
/// A connection that is tested is given up sooner than one that carries data.
const TEST_TIMEOUT: Duration = Duration::from_secs(15);

impl Attempt {
    fn made(host: &Host, begin: impl FnOnce(&mut Option<SocketAddr>) -> Result<(Duration, EncryptedLink)>) -> Attempt {
        let (mut at, begun) = (None, Instant::now());
        match begin(&mut at) {
            Ok((took, sealed)) => {
                let mut moved = 0;
                let failed = host.test(sealed, &mut moved).err();
                Attempt { at, took, moved: Some(moved), failed }
            }
            Err(e) => Attempt { at, took: begun.elapsed(), moved: None, failed: Some(e) },
        }
    }
}

impl Host {
    /// What the remote haul has said of itself.
    pub fn remote(&self) -> Result<RemoteInfo> {
        Ok(self.client.session()?.remote.clone())
    }

    /// Moves data both ways through a connection that was made, and ends it. A remote haul that is too old to make data up is
    /// not asked for any.
    fn test(&self, sealed: EncryptedLink, moved: &mut u64) -> Result<()> {
        let session = self.client.session()?;
        session.fixed.store(1, Ordering::Relaxed);
        session.add(sealed, TEST_TIMEOUT)?;
        let tested = if self.measures().is_ok() { self.receive(moved).and_then(|()| self.send(moved)) } else { Ok(()) };
        for one in std::mem::take(&mut *lock(&session.data)) {
            one.link.end(super::frame::lost("it was tested"));
        }
        tested
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

    /// Whether this end can connect to the far one. The connection is closed again.
    pub fn try_out(&self, ports: Ports, reached: &dyn Fn(IpAddr) -> Option<IpAddr>) -> Attempt {
        Attempt::made(self, |at| {
            let session = self.client.session()?;
            let remote = remote_address(&session.remote.connection, reached)?;
            let listen = ToListen::new(ports)?;
            let answer = session.control.ask(ops::LISTEN, &[&listen.request], 0).and_then(Ticket::wait);
            let asked = listen.answered(answer)?;
            let place = SocketAddr::new(remote, asked.port);
            *at = Some(place);
            let connector = Connector::new(Secret::from_bytes(*asked.secret.as_bytes()));
            let begun = Instant::now();
            let mut made = direct::connect(place, &connector, 0, IDLE_TIMEOUT)?;
            let welcomed = made.welcomed();
            let took = begun.elapsed();
            welcomed.map(|()| (took, made))
        })
    }

    /// Whether the far end can connect to this one. The connection is closed again.
    pub fn try_in(&self, ports: Ports) -> Attempt {
        Attempt::made(self, |at| {
            let session = self.client.session()?;
            let (near, _remote) = addresses(&session.remote.connection).ok_or_else(unknown_address)?;
            let secret = Secret::random()?;
            let listener = Listener::new(ports, Acceptor::new(Secret::from_bytes(*secret.as_bytes())))?;
            let place = SocketAddr::new(near, listener.port()?);
            *at = Some(place);
            let (send, came) = mpsc::channel();
            let send = Mutex::new(send);
            let each: Arc<dyn Fn(EncryptedLink) + Send + Sync> = Arc::new(move |sealed: EncryptedLink| {
                // Nobody may wait for it any more.
                let _ = lock(&send).send(sealed);
            });
            let over = Arc::new(AtomicBool::new(false));
            let done = over.clone();
            let take = move || {
                while !done.load(Ordering::Relaxed) {
                    listener.accept(Some(Instant::now() + Duration::from_millis(100)), IDLE_TIMEOUT, &each);
                }
            };
            std::thread::Builder::new().name("accept".into()).spawn(take).map_err(haul_core::rlimit::no_thread)?;
            let mut to = Writer::new();
            to.bytes(secret.as_bytes()).bytes(place.ip().to_string().as_bytes()).number(place.port().into()).number(0).number(1);
            let begun = Instant::now();
            let asked = session.control.ask(ops::CONNECT, &[&to.out], 0).and_then(Ticket::wait);
            to.out.fill(0);
            let connected =
                asked.and_then(|_| came.recv_timeout(ATTEMPT).map_err(|_| protocol_error("it reported a connection that was not made")));
            over.store(true, Ordering::Relaxed);
            connected.map(|sealed| (begun.elapsed(), sealed))
        })
    }
}

fn unknown_address() -> Error {
    Error::new(ErrorKind::Unsupported, "connect").because("the host does not report its own address")
}
