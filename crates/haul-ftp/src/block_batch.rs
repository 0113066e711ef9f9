//! Small files in extended block mode: commands and data of many files go out before the server has answered the first, over one data
//! connection. Attributes and a question for the size follow as soon as the server has said that it has the content, and the final name once
//! the size is right, behind what was sent meanwhile: a bundle takes three round trips.
//!
//! After a refusal the data of one file would become those of the next: whatever was sent behind it is void, and these files go out again, one
//! by one in stream mode.

use std::collections::VecDeque;

use haul_core::entry::MetaMask;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::WriteOutcome;

use super::batch::{Put, WRITE};
use super::change::{self, explain_write, lost_of, remove_file, settings};
use super::control::command;
use super::data::Failed;
use super::extended::Lane;
use super::facts::Facts;
use super::reply::Reply;
use super::staged::arrived;
use super::store::Shared;

/// Replies that the server owes at the most: they fit into a socket's buffer together (a transfer has some 500 bytes of them), so that
/// neither side waits for the other to read.
const WINDOW: usize = 64;

/// What the next reply belongs to.
enum Awaited<'a> {
    Stored(&'a Put<'a>),
    /// Replies to the commands of these attributes, and to that for the size.
    Sized(&'a Put<'a>, Vec<MetaMask>),
    /// Replies to the two commands of the rename; attributes that the file did not get.
    Named(&'a Put<'a>, MetaMask),
}

struct Pipeline<'a> {
    shared: &'a Shared,
    keep: MetaMask,
    lane: Lane,
    awaited: VecDeque<Awaited<'a>>,
    /// The transfer that was refused.
    refused: Option<(&'a Put<'a>, Reply)>,
    /// Files that were sent behind it.
    again: Vec<&'a Put<'a>>,
    /// Files that did not get their names at once, and attributes that they did not get.
    unnamed: Vec<(&'a Put<'a>, MetaMask)>,
    /// Files of which the server has another size.
    cut: Vec<(&'a Put<'a>, Error)>,
    done: Vec<(usize, Result<WriteOutcome>)>,
}

impl<'a> Pipeline<'a> {
    fn send(&mut self, put: &'a Put<'a>) -> Result<()> {
        while self.lane.owed() >= WINDOW {
            self.hear()?;
        }
        if self.refused.is_some() {
            self.again.push(put);
            return Ok(());
        }
        let store = match command("STOR", &put.path) {
            Ok(store) => store,
            Err(e) => {
                self.done.push((put.index, Err(e)));
                return Ok(());
            }
        };
        self.awaited.push_back(Awaited::Stored(put));
        self.lane.begin(&store, WRITE)?;
        self.lane.send_whole(put.bytes, WRITE)?;
        self.shared.pool.moved();
        Ok(())
    }

    /// Reads what the next command is answered.
    fn hear(&mut self) -> Result<()> {
        match self.awaited.front() {
            None => Ok(()),
            Some(Awaited::Stored(_)) => {
                let reply = self.lane.last_reply(WRITE)?;
                let Some(Awaited::Stored(put)) = self.awaited.pop_front() else { return Ok(()) };
                if self.refused.is_some() {
                    self.again.push(put);
                } else if reply.is_done() {
                    return self.size(put);
                } else {
                    self.lane.close_data();
                    self.refused = Some((put, reply));
                }
                Ok(())
            }
            Some(Awaited::Sized(_, masks)) => {
                let count = masks.len() + 1;
                let replies = (0..count).map(|_| self.lane.last_reply(WRITE)).collect::<Result<Vec<Reply>>>()?;
                match self.awaited.pop_front() {
                    Some(Awaited::Sized(put, masks)) => self.name(put, &masks, &replies),
                    _ => Ok(()),
                }
            }
            Some(Awaited::Named(..)) => {
                let replies: Vec<Reply> = (0..2).map(|_| self.lane.last_reply(WRITE)).collect::<Result<_>>()?;
                if let Some(Awaited::Named(put, refused)) = self.awaited.pop_front() {
                    match replies.last().is_some_and(Reply::is_done) {
                        true => self.done.push((put.index, Ok(WriteOutcome { refused, ino: 0 }))),
                        false => self.unnamed.push((put, refused)),
                    }
                }
                Ok(())
            }
        }
    }

    /// Sends the commands behind a file's content.
    fn size(&mut self, put: &'a Put<'a>) -> Result<()> {
        let (shared, mut commands) = (self.shared, Vec::new());
        let mut masks = Vec::new();
        for (mask, command) in settings(&put.path, put.entry, self.keep.and(shared.sets), shared.features.mfmt)? {
            masks.push(mask);
            commands.push(command);
        }
        commands.push(command(if shared.features.mlst.is_some() { "MLST" } else { "SIZE" }, &put.path)?);
        self.awaited.push_back(Awaited::Sized(put, masks));
        self.lane.ask_ahead(&commands, WRITE)
    }

    /// Has a file named, if all of it is there.
    fn name(&mut self, put: &'a Put<'a>, masks: &[MetaMask], replies: &[Reply]) -> Result<()> {
        let mut refused = lost_of(put.entry, self.keep, self.shared.sets);
        for (mask, _) in masks.iter().zip(replies).filter(|(_, reply)| !reply.is_done()) {
            refused = refused.with(*mask);
        }
        if let Err(e) = arrived(Facts::of_replies(&replies[masks.len()..]).size, put.bytes.len() as u64, WRITE) {
            self.cut.push((put, e.remedy_is(Remedy::Again)));
            return Ok(());
        }
        self.awaited.push_back(Awaited::Named(put, refused));
        self.lane.ask_ahead(&[command("RNFR", &put.path)?, command("RNTO", &put.target)?], WRITE)
    }

    /// The files that nobody knows about any more.
    fn give_up(&mut self, e: &Error) {
        self.lane.break_off();
        for awaited in std::mem::take(&mut self.awaited) {
            let (Awaited::Stored(put) | Awaited::Sized(put, _) | Awaited::Named(put, _)) = awaited;
            self.done.push((put.index, Err(e.again())));
        }
    }

    /// What needs a session that owes nothing.
    fn finish(mut self) -> (Vec<(usize, Result<WriteOutcome>)>, Vec<Put<'a>>) {
        let Pipeline { shared, lane, refused, again, unnamed, cut, done, .. } = &mut self;
        if refused.is_some() || lane.is_broken() {
            lane.break_off();
        }
        let rename = |put: &Put<'_>, refused| {
            let mut lease = shared.pool.take()?;
            change::replace(&mut lease, &put.path, &put.target, "rename")
                // The first error counts.
                .inspect_err(|_| drop(remove_file(&mut lease, &put.path, "remove")))?;
            Ok(WriteOutcome { refused, ino: 0 })
        };
        for (put, refused) in unnamed.drain(..) {
            done.push((put.index, rename(put, refused)));
        }
        for (put, e) in cut.drain(..) {
            // The first error counts.
            let _ = shared.pool.take().and_then(|mut lease| remove_file(&mut lease, &put.path, "remove"));
            done.push((put.index, Err(e)));
        }
        if let Some((put, reply)) = refused.take() {
            let explain = || -> Result<Error> {
                let mut lease = shared.pool.take()?;
                let e = explain_write(&mut lease, &put.target, Failed::Reply(reply), WRITE);
                // A full disk leaves a part of it; the first error counts.
                let _ = remove_file(&mut lease, &put.path, "remove");
                Ok(e)
            };
            done.push((put.index, Err(explain().unwrap_or_else(|e| e))));
        }
        (std::mem::take(done), again.drain(..).cloned().collect())
    }
}

impl Shared {
    /// Writes small files over one session; what of them has to be sent again, one by one, comes back too.
    pub fn put_in_blocks<'a>(&'a self, puts: &'a [Put<'a>], keep: MetaMask) -> (Vec<(usize, Result<WriteOutcome>)>, Vec<Put<'a>>) {
        let lane = match Lane::open(&self.pool, &[], WRITE) {
            Ok((lane, _)) => lane,
            Err(e) => return (puts.iter().map(|put| (put.index, Err(e.again()))).collect(), Vec::new()),
        };
        let (again, unnamed, cut, done) = (Vec::new(), Vec::new(), Vec::new(), Vec::with_capacity(puts.len()));
        let mut pipeline = Pipeline { shared: self, keep, lane, awaited: VecDeque::new(), refused: None, again, unnamed, cut, done };
        let mut failed = None;
        for put in puts {
            match &failed {
                None => failed = pipeline.send(put).err(),
                Some(_) => pipeline.again.push(put),
            }
        }
        while !pipeline.awaited.is_empty() {
            if let Err(e) = pipeline.hear() {
                let lost =
                    Error::new(ErrorKind::Io, WRITE).remedy_is(Remedy::Again).because("the connection was lost with files on their way");
                pipeline.give_up(&failed.take().unwrap_or(if e.kind() == ErrorKind::Io { lost } else { e }));
            }
        }
        pipeline.finish()
    }
}
