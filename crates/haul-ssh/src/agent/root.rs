//! A directory that is open on the remote host, and requests about what is below it.

use std::sync::Arc;

use haul_core::entry::Name;
use haul_core::error::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;

use super::frame::Frame;
use super::link::Ticket;
use super::session::{Client, Session};
use super::wire::Writer;
use haul_core::lock::lock;

/// What opens the directory again after a lost connection.
#[derive(Debug)]
pub(super) struct Root {
    pub client: Arc<Client>,
    pub number: u64,
    pub path: Vec<u8>,
    /// The request by which it was opened: its kind and what it carries.
    pub opening: (u8, Vec<u8>),
    /// Device and inode: what is opened again must be the same directory.
    pub identity: (u64, u64),
}

impl Root {
    /// The session, in which this root is open.
    pub fn session(&self) -> Result<Arc<Session>> {
        let session = self.client.session()?;
        let opened = lock(&session.roots).entry(self.number).or_default().clone();
        let mut opened = lock(&opened);
        if opened.is_none() {
            let answer = session.ask_quick(self.opening.0, &[&self.opening.1])?;
            let (_real, _name, identity): (&[u8], &str, _) = answer.body().get()?;
            if identity != self.identity {
                let e = Error::new(ErrorKind::Broken, "open").at(&self.path);
                return Err(e.because("the directory was replaced while the connection was lost"));
            }
            *opened = Some(identity);
        }
        drop(opened);
        Ok(session)
    }

    pub fn request(&self) -> Writer {
        let mut to = Writer::default();
        to.put(self.number);
        to
    }

    /// Asks in the words of `to`, with what may stand behind them.
    pub fn ask(&self, kind: u8, to: &Writer, behind: &[&[u8]], weight: u64) -> Result<Ticket> {
        to.check()?;
        let parts: Vec<&[u8]> = std::iter::once(&to.out[..]).chain(behind.iter().copied()).collect();
        self.session()?.ask(kind, &parts, weight)
    }

    pub fn call(&self, kind: u8, to: &Writer) -> Result<Frame> {
        self.ask(kind, to, &[], 0)?.wait()
    }

    /// A request about one name, which stands in front of what `fill` writes; an error names it.
    pub fn about<T: DeserializeOwned>(&self, name: &Name, kind: u8, fill: impl FnOnce(&mut Writer) -> &mut Writer) -> Result<T> {
        let mut to = self.request();
        fill(to.name(name));
        self.call(kind, &to).and_then(|answer| answer.body().get()).map_err(|e| e.on(name))
    }

    /// A request for many things; one answer each.
    pub fn each<T: DeserializeOwned>(&self, kind: u8, count: usize, to: &Writer) -> Vec<Result<T>> {
        let answer = match self.call(kind, to) {
            Ok(answer) => answer,
            Err(e) => return (0..count).map(|_| Err(e.again())).collect(),
        };
        let mut from = answer.body();
        (0..count).map(|_| from.result().unwrap_or_else(Err)).collect()
    }
}
