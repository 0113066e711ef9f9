//! Extended block mode (MODE E; GFD.20, section 3): data in blocks that carry their place in the file, over a data connection that
//! stays open from one transfer to the next.
//!
//! A [`Lane`] is a session in this mode that sends files. The end of a transfer is marked in the data, so that commands and data of the next
//! transfers go out before the server has answered the first. A server that refuses one of them takes its data for that of the next: once a
//! transfer was refused, whatever the server says of those behind it counts for nothing.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::control::{command, failure};
use super::features::{cannot, get};
use super::pool::{Lease, Pool, Wanted};
use super::reply::Reply;
use super::session::Session;
use super::stripes::Outlets;

/// The header of a block: a descriptor, the count of bytes that follow, and where they belong.
pub const HEADER: usize = 17;
/// The data connection carries no more of this transfer.
pub const END_OF_DATA: u8 = 8;
/// The offset is the number of connections that end with [`END_OF_DATA`].
pub const END_OF_FILE: u8 = 64;

/// Bytes of one block: the header is nothing beside them, and the server writes them at once.
const BLOCK: usize = 256 << 10;
/// How long a server may take to say why it closed a data connection.
const REASON: Duration = Duration::from_secs(10);

fn header(descriptor: u8, count: u64, offset: u64) -> [u8; HEADER] {
    let mut header = [descriptor; HEADER];
    header[1..9].copy_from_slice(&count.to_be_bytes());
    header[9..].copy_from_slice(&offset.to_be_bytes());
    header
}

impl Session {
    /// Enters extended block mode with a data connection of its own, in the direction to the server; `before` goes out first, and its
    /// replies are returned.
    /// Error: `Unsupported` if the server has no such mode.
    pub fn extend(&mut self, before: &[Vec<u8>], op: &'static str) -> Result<Vec<Reply>> {
        if self.blocks.is_some() {
            return self.control.ask_all(before, op).into_iter().collect();
        }
        (self.announced, self.intake, self.offered) = (None, None, None);
        let passive = match self.features.stripes() {
            0 if get(&self.features.extended_passive) => "EPSV",
            0 => "PASV",
            _ => "SPAS",
        };
        let commands = [before, &[command("MODE", b"E")?, command(passive, b"")?]].concat();
        let mut replies: Vec<Reply> = self.control.ask_all(&commands, op).into_iter().collect::<Result<_>>()?;
        match (replies.pop(), replies.pop()) {
            (Some(passive), Some(mode)) => self.enter_blocks(&mode, &passive, op).map(|()| replies),
            _ => Err(Error::new(ErrorKind::Other, op)),
        }
    }

    /// The same with the replies to MODE E and to EPSV, PASV or SPAS.
    pub fn enter_blocks(&mut self, mode: &Reply, passive: &Reply, op: &'static str) -> Result<()> {
        if !mode.is_done() {
            cannot(&self.features.extended_blocks);
            return Err(mode.failure(op).kind_is(ErrorKind::Unsupported));
        }
        self.blocks = Some(self.outlets(passive, op).inspect_err(|_| self.control.give_up())?);
        Ok(())
    }

    /// Goes back to stream mode, which listings and downloads use.
    pub fn leave_blocks(&mut self, op: &'static str) -> Result<()> {
        let is_extended = self.is_extended();
        (self.blocks, self.intake, self.offered) = (None, None, None);
        if is_extended {
            self.ask("MODE", b"S", op)?.done(op).inspect_err(|_| self.control.give_up())?;
        }
        Ok(())
    }
}

/// A session that sends files in extended block mode.
#[derive(Debug)]
pub struct Lane {
    lease: Lease,
    /// Transfers and commands whose last reply was not read yet.
    owed: usize,
    /// Last replies that were read before anybody asked for them.
    heard: VecDeque<Reply>,
}

impl Lane {
    /// `before`: commands that go out first; their replies are returned.
    pub fn open(pool: &Arc<Pool>, before: &[Vec<u8>], op: &'static str) -> Result<(Lane, Vec<Reply>)> {
        let mut lease = pool.take_for(Wanted::Blocks)?;
        let replies = lease.extend(before, op)?;
        Ok((Lane { lease, owed: 0, heard: VecDeque::new() }, replies))
    }

    /// Begins a transfer; its data are to follow, to [`Lane::end`].
    pub fn begin(&mut self, transfer: &[u8], op: &'static str) -> Result<()> {
        self.lease.busy = true;
        self.owed += 1;
        self.lease.control.send(transfer, op)?;
        if let Some(outlets) = self.lease.blocks.take() {
            self.lease.blocks = self.lease.guarded_outlets(outlets, op).inspect_err(|_| self.lease.control.give_up())?;
        }
        Ok(())
    }

    /// Sends commands behind the transfers; each is owed a reply as these are.
    pub fn ask_ahead(&mut self, commands: &[Vec<u8>], op: &'static str) -> Result<()> {
        self.lease.busy = true;
        self.owed += commands.len();
        self.lease.control.send(&commands.concat(), op)
    }

    /// Sends bytes that belong at `at`, counted from the transfer's offset: each block to the next of the server's data nodes.
    pub fn send(&mut self, mut at: u64, bytes: &[u8], op: &'static str) -> Result<()> {
        for block in bytes.chunks(BLOCK) {
            let node = self.lease.blocks.as_mut().map_or(0, Outlets::turn);
            self.write(node, &[&header(0, block.len() as u64, at), block], op)?;
            at += block.len() as u64;
        }
        Ok(())
    }

    /// A small file: its data and their end.
    pub fn send_whole(&mut self, bytes: &[u8], op: &'static str) -> Result<()> {
        self.write(0, &[&header(0, bytes.len() as u64, 0), bytes, &header(END_OF_DATA | END_OF_FILE, 0, 1)], op)?;
        self.end_from(1, op)
    }

    /// The transfer has all its data. The connection stays open.
    pub fn end(&mut self, op: &'static str) -> Result<()> {
        self.end_from(0, op)
    }

    /// Each data node counts the ends of its own connections.
    fn end_from(&mut self, first: usize, op: &'static str) -> Result<()> {
        let nodes = self.lease.blocks.as_ref().map_or(1, |outlets| outlets.each.len());
        (first..nodes).try_for_each(|node| self.write(node, &[&header(END_OF_DATA | END_OF_FILE, 0, 1)], op))
    }

    fn write(&mut self, node: usize, parts: &[&[u8]], op: &'static str) -> Result<()> {
        let Some(mut outlets) = self.lease.blocks.take() else {
            let closed = Error::new(ErrorKind::Io, op).remedy_is(Remedy::Again).because("the data connection is closed");
            return Err(self.reason().map_or(closed, |reply| reply.failure(op)));
        };
        let data = &mut outlets.each[node];
        let (mut done, whole) = (0, parts.iter().map(|part| part.len()).sum::<usize>());
        let mut moved = Instant::now();
        loop {
            let passed = if done < whole { data.write_some(parts, done) } else { data.flush().map(|()| 0) };
            let failed = match passed {
                Ok(_) if done == whole => break,
                Ok(count) if count > 0 => {
                    (done, moved) = (done + count, Instant::now());
                    continue;
                }
                Ok(_) => io::ErrorKind::WriteZero.into(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) && moved.elapsed() < self.lease.wait => {
                    match self.refusal(op)? {
                        None => continue,
                        Some(reply) => return Err(reply.failure(op)),
                    }
                }
                Err(e) => e,
            };
            // The server ends what is not complete, and says why.
            drop(outlets);
            return Err(self.reason().map_or_else(|| failure(failed, op), |reply| reply.failure(op)));
        }
        self.lease.blocks = Some(outlets);
        Ok(())
    }

    /// Reads the replies that have come so far: the one that refuses a transfer.
    fn refusal(&mut self, op: &'static str) -> Result<Option<Reply>> {
        while self.owed > self.heard.len() && self.lease.control.has_input() {
            self.hear(self.lease.wait, op)?;
        }
        Ok(self.heard.iter().find(|reply| !reply.is_done()).cloned())
    }

    /// Why a data connection broke. What was heard before stays known.
    fn reason(&mut self) -> Option<Reply> {
        let wait = REASON.min(self.lease.wait);
        while self.owed > self.heard.len() && self.hear(wait, "write").is_ok() {
            if self.heard.back().is_some_and(|reply| !reply.is_done()) {
                break;
            }
        }
        self.heard.iter().find(|reply| !reply.is_done()).cloned()
    }

    /// Reads one reply; those that only tell how far a transfer has come are dropped.
    fn hear(&mut self, wait: Duration, op: &'static str) -> Result<()> {
        let reply = self.lease.control.reply_within(wait, op)?;
        if !reply.is_begun() {
            self.heard.push_back(reply);
        }
        Ok(())
    }

    /// The last reply to the first transfer or command that has none yet. A server that is still writing says so every few seconds.
    pub fn last_reply(&mut self, op: &'static str) -> Result<Reply> {
        loop {
            if let Some(reply) = self.heard.pop_front() {
                self.owed -= 1;
                self.lease.busy = self.owed > 0;
                return Ok(reply);
            }
            self.hear(self.lease.wait, op)?;
        }
    }

    /// The same, if it was read already.
    pub fn heard_reply(&mut self) -> Option<Reply> {
        let heard = self.heard.pop_front();
        self.owed -= usize::from(heard.is_some());
        heard
    }

    pub fn owed(&self) -> usize {
        self.owed
    }

    /// The server ends every transfer that it has not all the data of, and those that follow.
    pub fn close_data(&mut self) {
        self.lease.blocks = None;
        self.lease.busy = true;
    }

    /// Whether nothing more can be sent.
    pub fn is_broken(&self) -> bool {
        self.lease.blocks.is_none() || self.lease.control.is_over()
    }

    /// Leaves the session to nobody else. What the server was sent and has not answered may happen, or not.
    pub fn break_off(&mut self) {
        self.lease.blocks = None;
        self.lease.control.give_up();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.owed > 0 || self.lease.blocks.is_none() {
            self.break_off();
        }
    }
}
