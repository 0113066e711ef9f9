//! A host behind an SFTP server, before a directory of it is opened.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use haul_core::entry::{Kind, MetaMask};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{AddressForm, AttributeCaps, Caps, Place, Tuning, WriteStyle, time_range};

use super::client::{self, Client, Connect, FIND_HOME, done};
use super::packet::{Attrs, kind};
use super::{Sftp, Shared, absolute};
use crate::link_saturation::Widen;
use haul_core::store::staging::OwnNames;

#[derive(Debug)]
pub struct Host {
    pub(super) client: Arc<Client>,
    endpoint: String,
    scheme: &'static str,
}

/// Workers that may write one file at a time: while one waits for the end of its chunk the others fill the connection.
const WRITERS: u32 = 4;
/// Channels at the most: OpenSSH allows ten sessions in one connection by default.
pub const CHANNELS: usize = 8;

impl Host {
    /// Connects. `endpoint` is the host as the user reaches it, without credentials.
    pub fn connect(scheme: &'static str, endpoint: String, connect: Box<Connect>, channels: usize) -> Result<Host> {
        let client = Client::new(connect, channels).map_err(|e| if e.op() == FIND_HOME { e.at(endpoint.as_bytes()) } else { e })?;
        Ok(Host { client: Arc::new(client), endpoint, scheme })
    }

    /// The number of channels of a large file; `None` derives it from the round trip.
    #[must_use]
    pub fn with_stripes(self, stripes: Option<usize>) -> Host {
        self.client.fixed.store(stripes.unwrap_or(0), Ordering::Relaxed);
        self
    }

    /// Further logins may be made by this once the connection of the first is full.
    #[must_use]
    pub fn with_logins(self, widen: Option<Box<Widen>>) -> Host {
        if let Some(widen) = widen.filter(|_| !self.client.extensions.single) {
            self.client.traffic.may_widen(widen);
        }
        self
    }

    /// A path as the user writes it: relative to the home directory, which `~` is too.
    pub fn absolute(&self, path: &[u8]) -> Vec<u8> {
        absolute(&self.client.home, path)
    }

    /// Where another user is at home. `NotFound` where there is no such user, `Unsupported` where the server does not tell.
    pub fn home_of(&self, user: &str) -> Result<Vec<u8>> {
        if !self.client.extensions.expand_path {
            return Err(Error::new(ErrorKind::Unsupported, FIND_HOME));
        }
        let path = format!("~{user}");
        let answer = self.client.channel()?.ask(kind::EXTENDED, |r| r.bytes(b"expand-path@openssh.com").bytes(path.as_bytes()))?;
        client::real_path(&answer, FIND_HOME)
    }

    /// The kind of what is at an absolute path, links followed; `None` if nothing is.
    pub fn look(&self, path: &[u8]) -> Result<Option<Kind>> {
        let answer = self.client.channel()?.ask(kind::STAT, |r| r.bytes(path))?;
        match client::attrs(&answer, "stat") {
            Ok(attrs) => Ok(Some(attrs.kind())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.at(path)),
        }
    }

    /// Makes a directory at an absolute path, and with `parents` those above it.
    pub fn make_dir(&self, path: &[u8], parents: bool) -> Result<bool> {
        let channel = self.client.channel()?;
        let make = |path: &[u8]| channel.ask(kind::MKDIR, |r| r.bytes(path).attrs(&Attrs::default())).and_then(|a| done(&a, "mkdir"));
        let mut first = None;
        if parents {
            for (at, _) in path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/') {
                // A directory that exists is no failure; one that is missing fails the last.
                first = make(&path[..at]).err().filter(|e| e.kind() == ErrorKind::Denied).map(|e| e.at(&path[..at])).or(first);
            }
        }
        match make(path) {
            Err(_) if self.look(path)? == Some(Kind::Dir) => Ok(false),
            // Below a directory that could not be made nothing could be.
            Err(e) if e.kind() == ErrorKind::NotFound => Err(first.unwrap_or(e).at(path)),
            made => made.map(|()| true).map_err(|e| e.at(path)),
        }
    }

    pub fn extensions(&self) -> Vec<&'static str> {
        let has = &self.client.extensions;
        let all = [
            (has.posix_rename, "posix-rename"),
            (has.hardlink, "hardlink"),
            (has.statvfs, "statvfs"),
            (has.fsync, "fsync"),
            (has.lsetstat, "lsetstat"),
            (has.limits, "limits"),
        ];
        all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
    }

    /// Bytes of one request to read and of one to write.
    pub fn request_bytes(&self) -> (usize, usize) {
        (self.client.read_most, self.client.write_most)
    }

    /// The directory at an absolute path as a store.
    pub fn open(&self, path: &[u8], keep_dirlinks: bool) -> Result<Sftp> {
        let (client, endpoint, scheme) = (self.client.clone(), self.endpoint.clone(), self.scheme);
        let channel = client.channel()?;
        let mut batch = channel.batch();
        let real = batch.push(kind::REALPATH, |r| r.bytes(path));
        let there = batch.push(kind::STAT, |r| r.bytes(path));
        let home = batch.push(kind::STAT, |r| r.bytes(&client.home));
        batch.send()?;
        let (real, there, home) = (channel.wait(&real)?, channel.wait(&there), channel.wait(&home));
        let mut root = client::real_path(&real, "open").map_err(|e| e.at(path))?;
        while root.ends_with(b"/") {
            root.pop();
        }
        let attrs = client::attrs(&there?, "open").map_err(|e| e.at(path))?;
        if attrs.kind() != Kind::Dir {
            return Err(Error::new(ErrorKind::Usage, "open").at(path).because("is not a directory"));
        }
        // The protocol does not tell who may change owners; the owner of root's home may.
        let groups = match home.and_then(|home| client::attrs(&home, "stat")).ok().and_then(|home| home.owner) {
            // In a chroot the home directory may be root's.
            Some((0, _)) if client.home != b"/" => None,
            Some((_, group)) => Some(vec![group]),
            None => Some(Vec::new()),
        };
        let caps = caps(&client, groups);
        let shown = if root.is_empty() { b"/".to_vec() } else { root.clone() };
        let form = if scheme == "ssh" { AddressForm::Host } else { AddressForm::Url };
        let place = Place { scheme, form, endpoint, root: shown, ..Place::default() };
        Ok(Sftp {
            shared: Arc::new(Shared { client, root, known: Mutex::default(), keep_dirlinks, names: OwnNames::default() }),
            caps,
            place,
        })
    }
}

fn caps(client: &Client, groups: Option<Vec<u32>>) -> Caps {
    let kept = [MetaMask::MTIME, MetaMask::MODE, MetaMask::OWNER, MetaMask::GROUP, MetaMask::SETID];
    let kept = kept.into_iter().fold(MetaMask::NONE, MetaMask::with);
    Caps {
        write: WriteStyle::Anywhere,
        holes: true,
        read_ranges: true,
        dirs: true,
        links: true,
        hard_links: client.extensions.hardlink,
        atomic_commit: client.extensions.posix_rename,
        attach: true,
        direct_create: true,
        attributes: AttributeCaps {
            groups,
            sets: kept,
            link_sets: if client.extensions.lsetstat { kept } else { MetaMask::NONE },
            lists: kept.with(MetaMask::BASIC),
            mtime_range: time_range::SFTP,
            ..AttributeCaps::minimal()
        },
        tuning: Tuning {
            bundle_files: 40,
            lands_pieces: true,
            // Others may take the bytes of a file only in their order.
            writers_per_file: if client.opens_intact() { WRITERS } else { 1 },
            ..Tuning::minimal()
        },
        ..Caps::minimal()
    }
}
