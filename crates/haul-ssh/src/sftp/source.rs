//! A file of the host that is read.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use haul_core::entry::{Entry, Kind, Name, Stamp};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Source;

use super::Shared;
use super::channel::Channel;
use super::client::{attrs, data};
use super::packet::{Attrs, kind, open, protocol_error};
use super::reader::{Ahead, Reader};
use super::stripes::{Stripe, Stripes};

/// Bytes that are read at the most of a file whose size is unknown.
const GENERATED_MOST: u64 = 16 << 20;

pub(super) struct RemoteFile {
    shared: Arc<Shared>,
    path: Vec<u8>,
    name: Name,
    stripes: Stripes,
    ahead: Ahead,
}

pub(super) fn changed(reason: &str) -> Error {
    Error::new(ErrorKind::Changed, "read").because(reason)
}

/// The stamp of a remote file: the protocol has no inode.
pub(super) fn stamp(attrs: &Attrs) -> Stamp {
    Stamp { size: attrs.size.unwrap_or(0), mtime: attrs.mtime(), version: 0 }
}

/// The file opened in a channel, if it is still the one that was looked at.
fn stripe(channel: Arc<Channel>, path: &[u8], looked_at: Stamp) -> Result<Stripe> {
    let stripe = Stripe::open(channel, path, open::READ, &Attrs::default(), "open")?;
    let answer = stripe.channel.ask(kind::FSTAT, |r| r.bytes(&stripe.handle))?;
    if stamp(&attrs(&answer, "stat")?) != looked_at {
        return Err(changed("it was replaced while it was opened"));
    }
    Ok(stripe)
}

impl RemoteFile {
    pub fn open(shared: &Arc<Shared>, entry: &Entry, follow: bool) -> Result<RemoteFile> {
        let path = shared.path(&entry.name, "open")?;
        // Opening a fifo would hold the server's process, and a link would be followed.
        let channel = shared.client.channel()?;
        let (there, target) = if follow {
            (channel.ask(kind::STAT, |r| r.bytes(&path)).and_then(|answer| attrs(&answer, "open"))?, None)
        } else {
            shared.look(&path)?
        };
        if there.kind() != Kind::File || target.is_some() {
            return Err(Error::new(ErrorKind::Changed, "open").because("it is no longer a regular file"));
        }
        if !entry.is_bare() && stamp(&there) != entry.stamp() {
            return Err(changed("its size or time changed since it was listed"));
        }
        let stamp = stamp(&there);
        let first = stripe(channel, &path, stamp)?;
        shared.client.traffic.expect(stamp.size);
        let again = path.clone();
        let stripes = Stripes::of(&shared.client, stamp.size, first, move |channel| stripe(channel, &again, stamp));
        Ok(RemoteFile { shared: shared.clone(), path, name: entry.name.clone(), stripes, ahead: Ahead::of(stamp.size) })
    }

    /// Appends the content of a file of size 0 that has one all the same, as those of `/proc` do.
    pub fn read_to_end(&self, to: &mut Vec<u8>) -> Result<()> {
        let stripe = self.stripes.first()?;
        let most = self.shared.client.read_most as u64;
        let start = to.len();
        loop {
            let at = (to.len() - start) as u64;
            if at > GENERATED_MOST {
                let e = Error::new(ErrorKind::Unsupported, "read").because("its size is unknown before it is read, and it is large");
                return Err(e.hint("copy it through a pipe: haul cat SRC | haul cp - DST"));
            }
            let answer = stripe.channel.ask(kind::READ, |r| r.bytes(&stripe.handle).long(at).number(most as u32))?;
            match data(&answer, "read")? {
                Some(bytes) if bytes.len() as u64 > most => return Err(protocol_error("more data than requested")),
                Some(bytes) if !bytes.is_empty() => to.extend_from_slice(bytes),
                _ => return Ok(()),
            }
        }
    }
}

impl Source for RemoteFile {
    fn read(&self, at: Range<u64>) -> Result<Box<dyn Read + Send + '_>> {
        let client = &self.shared.client;
        Ok(Box::new(Reader::new(&self.name, || self.stripes.get(), client.read_most, at, Some(&self.ahead), |bytes| client.carried(bytes))))
    }

    fn hint_sequential(&self, at: Range<u64>) {
        self.ahead.announced.add(at);
    }

    fn stamp(&self) -> Result<Stamp> {
        let stripes = self.stripes.opened();
        if stripes.len() != 1 || stripes.iter().any(|stripe| stripe.channel.is_over()) {
            // It was opened several times: one that was replaced in between shows under its name.
            return self.shared.lstat(&self.path).map(|attrs| stamp(&attrs)).map_err(|e| e.on(&self.name));
        }
        let stripe = &stripes[0];
        let answer = stripe.channel.ask(kind::FSTAT, |r| r.bytes(&stripe.handle)).map_err(|e| e.on(&self.name))?;
        attrs(&answer, "stat").map(|attrs| stamp(&attrs)).map_err(|e| e.on(&self.name))
    }
}
