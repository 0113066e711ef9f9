//! Small files that are read, many per call: a few round trips for all of them together.

use std::sync::Arc;
use std::time::Instant;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Entry, Kind};
use haul_core::error::{Error, ErrorKind, Result};

use super::channel::{Channel, Ticket};
use super::client::{self, Handle, ask_all, attrs, data, is_unexplained};
use super::packet::{Attrs, kind, open, protocol_error};
use super::source::{RemoteFile, changed, stamp};
use super::{Shared, checked, join};
use haul_core::bundle::items::{self, fail, fail_all};

/// Requests about one file: parts of its content with their lengths, and its attributes afterwards.
struct Reads {
    item: usize,
    reads: Vec<(Ticket, usize)>,
    stat: Ticket,
}

impl Shared {
    /// OPEN; then READ to the end, FSTAT and CLOSE at once: two round trips for all of them, a third to see that nothing
    /// is a link or a fifo.
    pub(super) fn get_bundle(self: &Arc<Self>, bundle: &mut Bundle, most: usize) {
        let listed = items::listed(bundle);
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return fail_all(bundle, &listed, &e),
        };
        let _turn = self.client.bundle(&channel);
        let begun = Instant::now();
        let follow = bundle.follow;
        let mut wanted: Vec<(usize, Vec<u8>)> = Vec::new();
        for i in listed {
            let item = &mut bundle.items[i];
            match checked(&item.entry.name, "open").and_then(|leaf| Ok(join(&self.dir(&item.entry.name.dir)?, leaf))) {
                Ok(path) => wanted.push((i, path)),
                Err(e) => fail(item, e),
            }
        }
        // A fifo would hold the server, a link would be followed: looked at first, in the same write as the opening.
        let look = if follow { kind::STAT } else { kind::LSTAT };
        let looked = ask_all(&channel, &wanted, |batch, (_, path)| batch.push(look, |r| r.bytes(path)));
        let mut there: Vec<(usize, &[u8])> = Vec::new();
        for ((i, path), answer) in wanted.iter().zip(looked) {
            let item = &mut bundle.items[*i];
            match answer.and_then(|answer| attrs(&answer, "open")) {
                Ok(found) if found.kind() != Kind::File => {
                    fail(item, Error::new(ErrorKind::Changed, "open").because("it is no longer a regular file"));
                }
                Ok(found) if item.entry.is_bare() => {
                    client::fill(&mut item.entry, &found);
                    if item.entry.size <= most as u64 {
                        there.push((*i, path));
                    }
                }
                Ok(_) => there.push((*i, path)),
                Err(e) => fail(item, e),
            }
        }
        bundle.spent.metadata += begun.elapsed();
        let refused = self.client.by_handles(&channel, there, |there| {
            let begun = Instant::now();
            let opened = ask_all(&channel, &there, |batch, (_, path)| {
                batch.push(kind::OPEN, |r| r.bytes(path).number(open::READ).attrs(&Attrs::default()))
            });
            let (mut handles, mut refused) = (Vec::new(), Vec::new());
            for ((i, path), answer) in there.into_iter().zip(opened) {
                match answer.and_then(|answer| client::handle(&answer, "open")) {
                    Ok(handle) => handles.push((i, handle)),
                    Err(e) if is_unexplained(&e) => refused.push(((i, path), e)),
                    Err(e) => fail(&mut bundle.items[i], e),
                }
            }
            bundle.spent.metadata += begun.elapsed();
            let begun = Instant::now();
            self.read_opened(bundle, &channel, handles);
            bundle.spent.reading += begun.elapsed();
            refused
        });
        refused.into_iter().for_each(|((i, _), e)| fail(&mut bundle.items[i], e));
    }

    fn read_opened(self: &Arc<Self>, bundle: &mut Bundle, channel: &Channel, handles: Vec<(usize, Handle)>) {
        let block = self.client.read_most as u64;
        let mut in_flight: Vec<Reads> = Vec::new();
        let mut batch = channel.batch();
        for (i, handle) in handles {
            // One byte more than the size shows that it has grown.
            let end = bundle.items[i].entry.size + 1;
            let read = |n: u64| (n * block, (end - n * block).min(block));
            let reads = (0..end.div_ceil(block))
                .map(read)
                .map(|(at, length)| (batch.push(kind::READ, |r| r.bytes(&handle).long(at).number(length as u32)), length as usize));
            let reads = reads.collect();
            let stat = batch.push(kind::FSTAT, |r| r.bytes(&handle));
            // Nothing depends on the answer.
            let _ = batch.push(kind::CLOSE, |r| r.bytes(&handle));
            in_flight.push(Reads { item: i, reads, stat });
        }
        // What could not be sent is answered with the reason.
        let _ = batch.send();
        for Reads { item: i, reads, stat } in in_flight {
            let start = bundle.data.len();
            let read = collect(channel, reads, &mut bundle.data);
            let now = channel.wait(&stat).and_then(|answer| attrs(&answer, "stat"));
            let item = &mut bundle.items[i];
            let is_whole = |there: &Attrs| (bundle.data.len() - start) as u64 >= item.entry.size || stamp(there) != item.entry.stamp();
            let read = match read {
                Ok(true) if now.as_ref().map_or(true, is_whole) => now,
                Ok(_) => {
                    bundle.data.truncate(start);
                    self.read_alone(&item.entry, bundle.follow, &mut bundle.data).and(now)
                }
                Err(e) => Err(e),
            };
            let mut count = (bundle.data.len() - start) as u64;
            let outcome = read.and_then(|now| {
                if stamp(&now) != item.entry.stamp() {
                    return Err(changed("its size or time changed since it was listed"));
                }
                if count > 0 && item.entry.size == 0 {
                    bundle.data.truncate(start);
                    RemoteFile::open(self, &item.entry, bundle.follow)?.read_to_end(&mut bundle.data)?;
                    count = (bundle.data.len() - start) as u64;
                    item.entry.size = count;
                }
                if count != item.entry.size {
                    return Err(changed("it changed while it was read"));
                }
                Ok(())
            });
            match outcome {
                Ok(()) => {
                    item.at = start..bundle.data.len();
                    item.outcome = Outcome::Read;
                }
                Err(e) => {
                    bundle.data.truncate(start);
                    fail(item, e);
                }
            }
        }
    }

    /// Reads a file from a server that sends less than was requested.
    fn read_alone(self: &Arc<Self>, entry: &Entry, follow: bool, to: &mut Vec<u8>) -> Result<()> {
        let file = RemoteFile::open(self, entry, follow)?;
        let mut from = haul_core::store::Source::read(&file, 0..entry.size)?;
        std::io::Read::read_to_end(&mut from, to).map(|_| ()).map_err(|e| Error::from_io(e, "read"))
    }
}

/// The answers of a file's reads in order, up to its end. `false` if one gave less than it could have, and one behind it something.
fn collect(channel: &Channel, reads: Vec<(Ticket, usize)>, to: &mut Vec<u8>) -> Result<bool> {
    let (mut ended, mut gap) = (false, false);
    for (ticket, wanted) in reads {
        let answer = channel.wait(&ticket)?;
        match data(&answer, "read")? {
            Some(bytes) if bytes.len() > wanted => return Err(protocol_error("more data than requested")),
            Some(bytes) => {
                gap |= ended;
                ended = bytes.len() < wanted;
                to.extend_from_slice(bytes);
            }
            None => ended = true,
        }
    }
    Ok(!gap)
}
