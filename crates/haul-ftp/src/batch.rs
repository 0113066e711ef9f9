//! Small files, many in a call: groups of them on connections of their own, each with its commands sent ahead.
//!
//! A file takes two round trips: its command goes out with the opening of its data connection, and its data before the server has
//! answered; behind the command waits the EPSV for the next file. Attributes and a question for the size go out with the next file's
//! command, once the server has said that it has the content, and the final name with the command of the one after that, once the size
//! is right: a server that reads commands during a transfer would else name half a file, and one that cut a file off would be believed.
//! A server that reads commands during a transfer gets its EPSV only afterwards, and a file takes three round trips.

use std::io;
use std::time::Instant;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Entry, Kind, MetaMask, Stamp};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::WriteOutcome;

use super::change::{explain_write, lost_of, remove_file, settings};
use super::control::command;
use super::data::{Data, Failed};
use super::facts::Facts;
use super::features::{cannot, get};
use super::line::{Line, Passed, Step};
use super::paths::join;
use super::reply::Reply;
use super::source::{explained, short, stamp};
use super::staged::arrived;
use super::store::Shared;
use haul_core::bundle::items::{self, fail};
use haul_net::http_client::parallel::in_parallel;

/// Files of one group at the least: a group costs two round trips beside those of its files.
const GROUP: usize = 4;
/// Groups of one call that move at the same time.
const GROUPS: usize = 4;

/// Bytes that a connection takes that nobody reads from yet.
const EAGER: usize = 64 << 10;

pub const READ: &str = "read";
pub const WRITE: &str = "write";

fn groups<T>(all: Vec<T>) -> Vec<Vec<T>> {
    let size = all.len().div_ceil(GROUPS).max(GROUP);
    let mut groups: Vec<Vec<T>> = Vec::new();
    for one in all {
        match groups.last_mut() {
            Some(last) if last.len() < size => last.push(one),
            _ => groups.push(vec![one]),
        }
    }
    groups
}

/// A file to be written.
#[derive(Clone)]
pub struct Put<'a> {
    pub index: usize,
    pub entry: &'a Entry,
    pub bytes: &'a [u8],
    pub path: Vec<u8>,
    pub target: Vec<u8>,
}

/// A file to be read.
#[derive(Clone)]
pub struct Get<'a> {
    pub index: usize,
    pub entry: &'a Entry,
    pub path: Vec<u8>,
}

pub type Read = (Entry, Vec<u8>);

/// Files of a group that the server has, and that are not done.
#[derive(Default)]
struct Pending<'a> {
    /// The file that gets its name, and attributes that it did not get.
    sized: Option<(&'a Put<'a>, MetaMask)>,
    /// The file that gets these attributes, and whose size is asked for.
    stored: Option<(&'a Put<'a>, Vec<MetaMask>)>,
    /// What these take, in this order.
    commands: Vec<Vec<u8>>,
    /// Files whose size a listing has to tell.
    unseen: Vec<&'a Put<'a>>,
    done: Vec<(usize, Result<WriteOutcome>)>,
}

impl Pending<'_> {
    /// What was to be named may or may not have been.
    fn give_up(&mut self) {
        self.commands.clear();
        let lost = [self.sized.take().map(|(put, _)| put), self.stored.take().map(|(put, _)| put)];
        for put in lost.into_iter().flatten() {
            let e = Error::new(ErrorKind::Io, WRITE).remedy_is(Remedy::Again);
            self.done.push((put.index, Err(e.because("the connection was lost before the file had its name"))));
        }
    }
}

impl Shared {
    /// `blocks`: in extended block mode.
    pub fn put_bundle(&self, bundle: &mut Bundle, blocks: bool) {
        let begun = Instant::now();
        let mut outcomes: Vec<(usize, Result<WriteOutcome>)> = Vec::new();
        let mut puts = Vec::new();
        let read = items::read(bundle);
        let proofs = self.prove(&read.iter().map(|index| &*bundle.items[*index].entry.name.leaf).collect::<Vec<_>>());
        for (index, proof) in read.into_iter().zip(proofs) {
            let item = &bundle.items[index];
            let paths = proof
                .and_then(|()| self.target(&item.entry.name, "create"))
                .and_then(|target| Ok((target, self.dir(&item.entry.name.dir, "create")?)));
            match paths {
                Ok((target, above)) => {
                    let path = join(&above, &self.names.leaf(&item.entry.name.leaf, item.entry.stamp()));
                    puts.push(Put { index, entry: &item.entry, bytes: &bundle.data[item.at.clone()], path, target });
                }
                Err(e) => outcomes.push((index, Err(e))),
            }
        }
        let sent;
        let puts = if blocks && !puts.is_empty() {
            sent = std::mem::take(&mut puts);
            let (done, again) = self.put_in_blocks(&sent, bundle.keep);
            outcomes.extend(done);
            again
        } else {
            puts
        };
        let groups = groups(puts);
        outcomes.extend(in_parallel(&self.threads, &groups, GROUPS, |group| self.put_group(group, bundle.keep)).into_iter().flatten());
        for (index, outcome) in outcomes {
            match outcome {
                Ok(landed) => bundle.items[index].outcome = Outcome::Written(landed),
                Err(e) => fail(&mut bundle.items[index], e),
            }
        }
        bundle.spent.writing += begun.elapsed();
    }

    fn put_group(&self, group: &[Put<'_>], keep: MetaMask) -> Vec<(usize, Result<WriteOutcome>)> {
        let mut line = Line::new(self);
        let mut pending = Pending::default();
        for put in group {
            let mut tries = 0;
            let step = loop {
                let stored = command("STOR", &put.path).and_then(|stored| {
                    line.transfer(&pending.commands, stored, WRITE, put.bytes.len() <= EAGER, |mut data| {
                        data.write(put.bytes)?;
                        data.finish()
                    })
                });
                let (replies, step) = match stored {
                    Ok(passed) => passed,
                    Err(e) => {
                        pending.give_up();
                        line.break_off();
                        break Step::Failed(e);
                    }
                };
                self.settle(&mut line, &mut pending, replies, keep);
                tries += 1;
                if !matches!(step, Step::Confused) || tries > 2 {
                    break step;
                }
            };
            match step {
                Step::Done => {
                    if let Err(e) = self.stored(&mut pending, put, keep) {
                        pending.done.push((put.index, Err(e)));
                    }
                }
                Step::Refused(reply) => {
                    let e = match line.session() {
                        Ok(lease) => {
                            let e = explain_write(lease, &put.target, Failed::Reply(reply), WRITE);
                            // A full disk leaves a part of it; the first error counts.
                            let _ = remove_file(lease, &put.path, "remove");
                            e
                        }
                        Err(e) => e,
                    };
                    pending.done.push((put.index, Err(e)));
                }
                Step::Failed(e) => pending.done.push((put.index, Err(e))),
                Step::Confused => pending.done.push((put.index, Err(out_of_step(WRITE)))),
            }
        }
        while !pending.commands.is_empty() {
            match line.end(&pending.commands, WRITE) {
                Ok(replies) => self.settle(&mut line, &mut pending, replies, keep),
                Err(_) => pending.give_up(),
            }
        }
        self.see(&mut line, &mut pending);
        pending.done
    }

    /// What follows a file whose content the server says that it has.
    fn stored<'a>(&self, pending: &mut Pending<'a>, put: &'a Put<'a>, keep: MetaMask) -> Result<()> {
        let (masks, commands): (Vec<_>, Vec<_>) =
            settings(&put.path, put.entry, keep.and(self.sets), self.features.mfmt)?.into_iter().unzip();
        pending.commands.extend(commands);
        pending.commands.extend(self.size_command(&put.path));
        pending.stored = Some((put, masks));
        if pending.commands.is_empty() {
            // Nothing is to be asked before it gets its name.
            return self.size_known(pending, put, lost_of(put.entry, keep, self.sets), None);
        }
        Ok(())
    }

    /// What is asked to learn how much of a file the server has, where that takes no listing.
    pub fn size_command(&self, path: &[u8]) -> Option<Vec<u8>> {
        let word = if self.features.mlst.is_some() { "MLST" } else { "SIZE" };
        let can = word == "MLST" || get(&self.features.size);
        can.then(|| command(word, path).ok()).flatten()
    }

    /// Has a file named whose size is right, or not known yet: then it is looked at with the others of its group.
    fn size_known<'a>(&self, pending: &mut Pending<'a>, put: &'a Put<'a>, refused: MetaMask, size: Option<u64>) -> Result<()> {
        pending.stored = None;
        match size {
            Some(size) => arrived(Some(size), put.bytes.len() as u64, WRITE).map_err(|e| e.remedy_is(Remedy::Again))?,
            None => pending.unseen.push(put),
        }
        pending.commands = vec![command("RNFR", &put.path)?, command("RNTO", &put.target)?];
        pending.sized = Some((put, refused));
        Ok(())
    }

    /// Takes the replies to all pending commands.
    fn settle<'a>(&self, line: &mut Line<'_>, pending: &mut Pending<'a>, replies: Vec<Reply>, keep: MetaMask) {
        pending.commands.clear();
        let mut replies = replies.into_iter();
        if let Some((put, refused)) = pending.sized.take() {
            let landed = self.named(line, put, refused, replies.next(), replies.next());
            pending.done.push((put.index, landed));
        }
        if let Some((put, masks)) = pending.stored.take() {
            let mut refused = lost_of(put.entry, keep, self.sets);
            for (mask, _) in masks.iter().zip(replies.by_ref()).filter(|(_, reply)| !reply.is_done()) {
                refused = refused.with(*mask);
            }
            let size = Facts::of_replies(replies.as_slice()).size;
            if replies.as_slice().iter().any(|reply| matches!(reply.code, 500 | 502)) {
                cannot(&self.features.size);
            }
            if let Err(e) = self.size_known(pending, put, refused, size) {
                if let Ok(lease) = line.session() {
                    // The first error counts.
                    let _ = remove_file(lease, &put.path, "remove");
                }
                pending.done.push((put.index, Err(e)));
            }
        }
    }

    /// Looks at the files of which the server has not told the size, by one listing.
    fn see(&self, line: &mut Line<'_>, pending: &mut Pending<'_>) {
        let Pending { unseen, done, .. } = pending;
        unseen.retain(|put| done.iter().any(|(index, landed)| *index == put.index && landed.is_ok()));
        if unseen.is_empty() {
            return;
        }
        let targets: Vec<&[u8]> = unseen.iter().map(|put| &put.target[..]).collect();
        let found = match line.session() {
            Ok(lease) => lease.look_listed(&targets, WRITE),
            Err(e) => targets.iter().map(|_| Err(e.again())).collect(),
        };
        for (put, found) in unseen.iter().zip(found) {
            let seen = found.and_then(|facts| arrived(facts.size, put.bytes.len() as u64, WRITE));
            if let (Err(e), Some((_, landed))) = (seen, done.iter_mut().find(|(index, _)| *index == put.index)) {
                *landed = Err(if e.kind() == ErrorKind::NotFound { e.kind_is(ErrorKind::Corrupt) } else { e });
            }
        }
    }

    /// What the replies to the commands that name a file say.
    fn named(&self, line: &mut Line<'_>, put: &Put<'_>, refused: MetaMask, from: Option<Reply>, to: Option<Reply>) -> Result<WriteOutcome> {
        let failed = from.filter(|reply| !reply.needs_more() && !reply.is_done()).or(to.filter(|reply| !reply.is_done()));
        let Some(_) = failed else { return Ok(WriteOutcome { refused, ino: 0 }) };
        // Once more, with a look at what is in the way.
        let lease = line.session()?;
        let replaced = super::change::replace(lease, &put.path, &put.target, "rename");
        if replaced.is_err() {
            // The first error counts.
            let _ = remove_file(lease, &put.path, "remove");
        }
        replaced.map(|()| WriteOutcome { refused, ino: 0 })
    }

    pub fn get_bundle(&self, bundle: &mut Bundle, most: usize) {
        let begun = Instant::now();
        let mut gets = Vec::new();
        let mut outcomes: Vec<(usize, Result<Option<Read>>)> = Vec::new();
        for index in items::listed(bundle) {
            let entry = &bundle.items[index].entry;
            match self.target(&entry.name, "open") {
                Ok(path) => gets.push(Get { index, entry, path }),
                Err(e) => outcomes.push((index, Err(e))),
            }
        }
        if get(&self.features.extended_reads) && gets.len() >= GROUP {
            let (done, again) = self.get_in_blocks(&gets, most);
            outcomes.extend(done);
            gets = again;
        }
        let (groups, follow) = (groups(gets), bundle.follow);
        outcomes.extend(in_parallel(&self.threads, &groups, GROUPS, |group| self.get_group(group, follow, most)).into_iter().flatten());
        outcomes.sort_by_key(|(index, _)| *index);
        for (index, outcome) in outcomes {
            let item = &mut bundle.items[index];
            match outcome {
                Ok(Some((entry, bytes))) => {
                    item.at = bundle.data.len()..bundle.data.len() + bytes.len();
                    bundle.data.extend_from_slice(&bytes);
                    (item.entry, item.outcome) = (entry, Outcome::Read);
                }
                // Larger than it was taken for: it is for others.
                Ok(None) => {}
                Err(e) => fail(item, e),
            }
        }
        bundle.spent.reading += begun.elapsed();
    }

    fn get_group(&self, group: &[Get<'_>], follow: bool, most: usize) -> Vec<(usize, Result<Option<Read>>)> {
        let mut line = Line::new(self);
        let mut done: Vec<(usize, Result<Option<Read>>)> = Vec::with_capacity(group.len());
        let wanted = match self.listed_as(&mut line, group, follow) {
            Ok(wanted) => wanted,
            Err(e) => return group.iter().map(|get| (get.index, Err(e.again()))).collect(),
        };
        // The file that was read, and is asked for its stamp with the next one.
        let mut read: Option<(&Get<'_>, Entry, Vec<u8>)> = None;
        let mut tail: Vec<Vec<u8>> = Vec::new();
        for (get, entry) in group.iter().zip(wanted) {
            let entry = match entry {
                Ok(entry) if entry.size <= most as u64 => entry,
                Ok(_) => {
                    done.push((get.index, Ok(None)));
                    continue;
                }
                Err(e) => {
                    done.push((get.index, Err(e)));
                    continue;
                }
            };
            let mut bytes = Vec::new();
            let mut tries = 0;
            let step = loop {
                bytes.clear();
                let sent = command("RETR", &get.path)
                    .and_then(|sent| line.transfer(&tail, sent, READ, false, |data| receive(data, entry.size, &mut bytes)));
                let (replies, step) = match sent {
                    Ok(passed) => passed,
                    Err(e) => {
                        line.break_off();
                        break Step::Failed(e);
                    }
                };
                if let Some((before, entry, bytes)) = read.take() {
                    done.push((before.index, self.unchanged(entry, bytes, replies)));
                }
                tail.clear();
                tries += 1;
                if !matches!(step, Step::Confused) || tries > 2 {
                    break step;
                }
            };
            if let Some((before, ..)) = read.take() {
                done.push((before.index, Err(Error::new(ErrorKind::Io, READ).remedy_is(Remedy::Again).because("the connection was lost"))));
                tail.clear();
            }
            match step {
                _ if bytes.len() as u64 > entry.size => {
                    done.push((get.index, Err(Error::new(ErrorKind::Changed, READ).because("it is longer than it was"))));
                }
                Step::Done => {
                    tail = self.stamp_commands(&get.path);
                    read = Some((get, entry, bytes));
                }
                Step::Refused(reply) => {
                    let e = match line.session() {
                        Ok(lease) => explained(lease, &get.path, Failed::Reply(reply), READ),
                        Err(e) => e,
                    };
                    done.push((get.index, Err(e)));
                }
                Step::Failed(e) => done.push((get.index, Err(e))),
                Step::Confused => done.push((get.index, Err(out_of_step(READ)))),
            }
        }
        if let Some((before, entry, bytes)) = read {
            let outcome = line.end(&tail, READ).and_then(|replies| self.unchanged(entry, bytes, replies));
            done.push((before.index, outcome));
        }
        done
    }

    /// The entries of a group as they were listed; those of which only the name is known are looked at.
    fn listed_as(&self, line: &mut Line<'_>, group: &[Get<'_>], follow: bool) -> Result<Vec<Result<Entry>>> {
        let bare: Vec<&[u8]> = group.iter().filter(|get| get.entry.is_bare()).map(|get| &get.path[..]).collect();
        let mut looked = if bare.is_empty() { Vec::new() } else { line.session()?.look_sent(&bare, false, follow, "open") }.into_iter();
        let one = |get: &Get<'_>| {
            if !get.entry.is_bare() {
                return Ok(get.entry.clone());
            }
            let facts = looked.next().unwrap_or_else(|| Err(Error::new(ErrorKind::NotFound, "open")))?;
            match facts.kind {
                Some(Kind::File) => Ok(self.entry(facts, get.entry.name.clone(), b"")),
                _ => Err(Error::new(ErrorKind::Changed, "open").because("it is no longer a regular file")),
            }
        };
        Ok(group.iter().map(one).collect())
    }

    /// What is asked to learn whether a file is still the one that was listed.
    pub fn stamp_commands(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let mut words: Vec<&str> = Vec::new();
        match self.features.mlst.is_some() {
            true => words.push("MLST"),
            false => {
                words.extend(get(&self.features.size).then_some("SIZE"));
                words.extend(get(&self.features.mdtm).then_some("MDTM"));
            }
        }
        words.into_iter().filter_map(|word| command(word, path).ok()).collect()
    }

    /// The entry and the bytes, if the file is still what was listed.
    pub fn unchanged(&self, mut entry: Entry, bytes: Vec<u8>, replies: Vec<Reply>) -> Result<Option<Read>> {
        let now = Facts::of_replies(&replies);
        let found = Stamp { version: entry.version, ..stamp(&now) };
        let timed = now.modified.is_some() && entry.have.has(MetaMask::MTIME);
        let same = now.size == Some(bytes.len() as u64) && bytes.len() as u64 == entry.size && (!timed || found.mtime == entry.mtime);
        // The server says that the file is what it was, and has sent less.
        let left = entry.size.saturating_sub(bytes.len() as u64);
        if left > 0 && now.size.is_none_or(|size| size == entry.size) && (!timed || found.mtime == entry.mtime) {
            return Err(short(left));
        }
        if !same && (now.size.is_some() || bytes.len() as u64 != entry.size) {
            return Err(Error::new(ErrorKind::Changed, READ).because("it changed while it was read"));
        }
        if !timed && let Some(time) = now.modified {
            (entry.mtime, entry.have) = (time, entry.have.with(MetaMask::MTIME));
        }
        Ok(Some((entry, bytes)))
    }
}

fn out_of_step(op: &'static str) -> Error {
    Error::new(ErrorKind::Io, op).remedy_is(Remedy::Again).because("the server's answers are out of step")
}

/// Reads to the end, and one byte more than there should be shows that the file has grown.
fn receive(mut data: Data, size: u64, into: &mut Vec<u8>) -> Passed {
    let mut buffer = vec![0; usize::try_from(size + 1).unwrap_or(usize::MAX).clamp(1, 256 << 10)];
    loop {
        match data.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => into.extend_from_slice(&buffer[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if into.len() as u64 > size {
            return Ok(());
        }
    }
}
