//! A host reached by its haul, before a directory of it is opened.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use haul_core::entry::Kind;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{AddressForm, Place};
use serde::{Deserialize, Serialize};

use super::direct::addresses;
use super::frame::Frame;
use super::greeting::boot;
use super::link::Ticket;
use super::listing::RootListing;
use super::ops;
use super::options::SessionOptions;
use super::root::Root;
use super::session::{Client, Connect, Session};
use super::store::Remote;
use super::wire::{pack, printable};
use haul_core::lock::lock;

/// A host reached by its haul, before a directory of it is opened.
#[derive(Debug)]
pub struct Host {
    pub client: Arc<Client>,
    endpoint: String,
    home: Vec<u8>,
    early: Mutex<Early>,
}

/// How a directory is to be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootOptions {
    /// `-L`, for a source only: directories are reached through links, wherever they lead.
    pub follow: bool,
    /// `-K`: a symlink to a directory counts as that directory if it leads nowhere out of the root.
    pub keep_dirlinks: bool,
    /// Modes of new directories come from the source; else from the remote user's mask.
    pub keep_modes: bool,
}

/// Answers that came with the greeting and have not been used yet.
#[derive(Debug, Default)]
struct Early {
    looks: HashMap<Vec<u8>, Option<Kind>>,
    roots: HashMap<Vec<u8>, (u64, Frame)>,
}

/// The options of most roots, with which one is opened ahead of `open`.
pub(super) const USUAL: RootOptions = RootOptions { follow: false, keep_dirlinks: false, keep_modes: true };

impl Host {
    /// `endpoint` is the host as the user reaches it, without credentials. `path`, as typed, and the directory above it are looked
    /// up and opened in the first round trip.
    pub fn connect(connect: Box<Connect>, options: SessionOptions, endpoint: String, path: &[u8]) -> Result<Host> {
        let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path);
        let above = match path.iter().rposition(|byte| *byte == b'/') {
            Some(0) => &b"/"[..],
            Some(at) => &path[..at],
            None => b"~",
        };
        let mut asked = Vec::new();
        for (number, path) in [(1, path), (2, above)] {
            asked.push((ops::LOOK, pack(path)));
            asked.push((ops::ROOT, root_request(number, path, USUAL)));
        }
        let (client, answers) = Client::connect(connect, options, &asked)?;
        let client = Arc::new(client);
        let session = client.session()?;
        let home = session.remote.home.clone();
        let mut early = Early::default();
        let mut answers = answers.into_iter();
        for (number, path) in [(1, path), (2, above)] {
            let path = crate::sftp::absolute(&home, path);
            if let Some(Ok(answer)) = answers.next() {
                early.looks.insert(path.clone(), answer.body().get()?);
            }
            if let Some(Ok(answer)) = answers.next() {
                early.roots.insert(path, (number, answer));
            }
        }
        Ok(Host { client, endpoint, home, early: Mutex::new(early) })
    }

    /// The port on which the remote haul waits for data connections.
    pub fn data_port(&self) -> Option<u16> {
        self.client.standing()?.port
    }

    /// Whether the remote haul runs under the boot of this machine.
    pub fn is_here(&self) -> bool {
        let here = boot();
        !here.is_empty() && self.client.session().is_ok_and(|session| session.remote.boot == here)
    }

    /// A path as the user writes it: relative to the home directory, which `~` is too.
    pub fn absolute(&self, path: &[u8]) -> Vec<u8> {
        crate::sftp::absolute(&self.home, path)
    }

    /// The kind of what is at an absolute path, links followed; `None` if nothing is.
    pub fn look(&self, path: &[u8]) -> Result<Option<Kind>> {
        if let Some(kind) = lock(&self.early).looks.remove(path) {
            return Ok(kind);
        }
        self.client.session()?.ask_quick(ops::LOOK, &[&pack(path)])?.body().get()
    }

    /// Makes a directory at an absolute path, and with `parents` those above it. It is opened in the same round trip; where the remote
    /// haul gets to that first, it is opened again later.
    pub fn make_dir(&self, path: &[u8], parents: bool) -> Result<()> {
        *lock(&self.early) = Early::default();
        let (session, number) = (self.client.session()?, self.client.number());
        let made = session.ask(ops::MAKE_PATH, &[&pack((path, parents))], 0)?;
        let opening = session.ask(ops::ROOT, &[&root_request(number, path, USUAL)], 0);
        made.wait()?;
        if let Ok(answer) = opening.and_then(Ticket::wait) {
            lock(&self.early).roots.insert(path.to_vec(), (number, answer));
        }
        Ok(())
    }

    /// The directory at an absolute path as a store. `NotFound`, `Denied`, or `Usage` where it is none.
    pub fn open(&self, path: &[u8], options: RootOptions) -> Result<Remote> {
        let session = self.client.session()?;
        let early = if options == USUAL { lock(&self.early).roots.remove(path) } else { None };
        let (number, answer) = match early {
            Some(opened) => opened,
            None => {
                let number = self.client.number();
                (number, session.ask_quick(ops::ROOT, &[&root_request(number, path, options)])?)
            }
        };
        self.opened(&session, number, &answer, |real| (ops::ROOT, root_request(number, real, options)))
    }

    /// The root of the answer to its opening; `again` makes the request that opens it after a lost connection, by its real
    /// path.
    pub(super) fn opened(
        &self,
        session: &Session,
        number: u64,
        answer: &Frame,
        again: impl FnOnce(&[u8]) -> (u8, Vec<u8>),
    ) -> Result<Remote> {
        let mut from = answer.body();
        let (real, fs_name, identity): (Vec<u8>, &str, _) = from.get()?;
        let (fs_name, caps) = (printable(fs_name), from.caps()?);
        let before = if from.0.is_empty() { None } else { Some((session.id, from.work()?)) };
        lock(&session.roots).insert(number, Arc::new(Mutex::new(Some(identity))));
        let (form, endpoint) = (AddressForm::Host, self.endpoint.clone());
        let place = Place { scheme: "ssh", form, endpoint, root: real.clone(), ..Place::default() };
        let opening = again(&real);
        let root = Arc::new(Root { client: self.client.clone(), number, path: real, opening, identity });
        Ok(Remote { root, caps, place, fs_name, before, listing: RootListing::default() })
    }
}

impl Host {
    /// Connects this host to the other one for as long as both sessions last, so that copies between them pass no third machine.
    pub fn link_peer(&self, other: &Host) -> Result<()> {
        let (here, there) = (self.client.session()?, other.client.session()?);
        if here.id == there.id {
            return Ok(());
        }
        let unsupported = || Error::new(ErrorKind::Unsupported, "connect");
        let (_, from) = addresses(&here.remote.connection).ok_or_else(unsupported)?;
        let (_, address) = addresses(&there.remote.connection).ok_or_else(unsupported)?;
        let (Some(reader), Some(read)) = (here.remote.fingerprint, there.remote.fingerprint) else { return Err(unsupported()) };
        let port: u16 = there.ask(ops::TLS_READER, &[&pack((reader, from))], 0).and_then(Ticket::wait)?.body().get()?;
        here.ask(ops::TLS_LINK_PEER, &[&pack((there.id, read, SocketAddr::new(address, port)))], 0).and_then(Ticket::wait)?;
        lock(&here.linked_peers).insert(there.id);
        Ok(())
    }
}

fn root_request(number: u64, path: &[u8], options: RootOptions) -> Vec<u8> {
    pack((number, path, options))
}
