//! Small files, many in a call: groups of them on connections of their own, each with its commands sent ahead.
//!
//! A file takes two round trips: its command goes out with the opening of its data connection, and its data before the server has
//! answered; behind the command waits the EPSV for the next file. Attributes and the final name go out with the next file's
//! command, once the server has said that it has the content: a server that reads commands during a transfer would else name
//! half a file. Such a server gets its EPSV only after the transfer, and a file takes three round trips.

use std::io;
use std::time::Instant;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Entry, Kind, MetaMask, Stamp};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::Landed;

use super::change::{explain_write, lost_of, remove_file, settings};
use super::control::command;
use super::data::{Data, Failed};
use super::facts::Facts;
use super::features::get;
use super::line::{Line, Passed, Step};
use super::paths::join;
use super::reply::Reply;
use super::source::{explained, stamp};
use super::store::Shared;
use crate::http_client::parallel::in_parallel;
use crate::items::{self, fail};

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

impl Shared {
    /// `blocks`: in extended block mode.
    pub fn put_bundle(&self, bundle: &mut Bundle, blocks: bool) {
        let begun = Instant::now();
        let mut outcomes: Vec<(usize, Result<Landed>)> = Vec::new();
        let mut puts = Vec::new();
        for index in items::read(bundle) {
            let item = &bundle.items[index];
            let paths = self.target(&item.entry.name, "create").and_then(|target| Ok((target, self.dir(&item.entry.name.dir, "create")?)));
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
                Ok(landed) => bundle.items[index].outcome = Outcome::Landed(landed),
                Err(e) => fail(&mut bundle.items[index], e),
            }
        }
        bundle.spent.writing += begun.elapsed();
    }

    fn put_group(&self, group: &[Put<'_>], keep: MetaMask) -> Vec<(usize, Result<Landed>)> {
        let mut line = Line::new(self);
        let mut done: Vec<(usize, Result<Landed>)> = Vec::with_capacity(group.len());
        // The file whose content the server has, and the commands that name it.
        let mut named: Option<(&Put<'_>, Vec<MetaMask>)> = None;
        let mut tail: Vec<Vec<u8>> = Vec::new();
        for put in group {
            let mut tries = 0;
            let step = loop {
                let stored = command("STOR", &put.path).and_then(|stored| {
                    line.transfer(&tail, stored, WRITE, put.bytes.len() <= EAGER, |mut data| {
                        data.write(put.bytes)?;
                        data.finish()
                    })
                });
                let (replies, step) = match stored {
                    Ok(passed) => passed,
                    Err(e) => {
                        line.break_off();
                        break Step::Failed(e);
                    }
                };
                if let Some((before, masks)) = named.take() {
                    done.push((before.index, self.named(&mut line, before, &masks, replies, keep)));
                }
                tail.clear();
                tries += 1;
                if !matches!(step, Step::Confused) || tries > 2 {
                    break step;
                }
            };
            // What was to be named before may or may not have been.
            if let Some((before, _)) = named.take() {
                let e = Error::new(ErrorKind::Io, WRITE)
                    .remedy_is(Remedy::Again)
                    .because("the connection was lost before the file had its name");
                done.push((before.index, Err(e)));
                tail.clear();
            }
            match step {
                Step::Done => {
                    let prepared = settings(&put.path, put.entry, keep.and(self.sets), self.features.mfmt)
                        .and_then(|settings| Ok((settings, command("RNFR", &put.path)?, command("RNTO", &put.target)?)));
                    match prepared {
                        Ok((settings, from, to)) => {
                            let (masks, commands): (Vec<MetaMask>, Vec<Vec<u8>>) = settings.into_iter().unzip();
                            tail = commands;
                            tail.extend([from, to]);
                            named = Some((put, masks));
                        }
                        Err(e) => done.push((put.index, Err(e))),
                    }
                }
                Step::Refused(reply) => {
                    let e = match line.lease() {
                        Ok(lease) => {
                            let e = explain_write(lease, &put.target, Failed::Reply(reply), WRITE);
                            // A full disk leaves a part of it; the first error counts.
                            let _ = remove_file(lease, &put.path, "remove");
                            e
                        }
                        Err(e) => e,
                    };
                    done.push((put.index, Err(e)));
                }
                Step::Failed(e) => done.push((put.index, Err(e))),
                Step::Confused => done.push((put.index, Err(out_of_step(WRITE)))),
            }
        }
        if let Some((before, masks)) = named {
            let landed = line.end(&tail, WRITE).and_then(|replies| self.named(&mut line, before, &masks, replies, keep));
            done.push((before.index, landed));
        }
        done
    }

    /// What the replies to a file's last commands say.
    fn named(&self, line: &mut Line<'_>, put: &Put<'_>, masks: &[MetaMask], replies: Vec<Reply>, keep: MetaMask) -> Result<Landed> {
        let mut refused = lost_of(put.entry, keep, self.sets);
        let mut replies = replies.into_iter();
        for (mask, reply) in masks.iter().zip(replies.by_ref()) {
            if !reply.is_done() {
                refused = refused.with(*mask);
            }
        }
        let (from, to) = (replies.next(), replies.next());
        let failed = from.filter(|reply| !reply.needs_more() && !reply.is_done()).or(to.filter(|reply| !reply.is_done()));
        let Some(_) = failed else { return Ok(Landed { refused, ino: 0 }) };
        // Once more, with a look at what is in the way.
        let announced = line.announced.take();
        let lease = line.lease()?;
        let replaced = super::change::replace(lease, &put.path, &put.target, "rename");
        if replaced.is_err() {
            // The first error counts.
            let _ = remove_file(lease, &put.path, "remove");
        }
        line.announced = announced;
        replaced.map(|()| Landed { refused, ino: 0 })
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
                    let e = match line.lease() {
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
        let mut looked = if bare.is_empty() { Vec::new() } else { line.lease()?.look_all(&bare, false, follow, "open") }.into_iter();
        let one = |get: &Get<'_>| {
            if !get.entry.is_bare() {
                return Ok(get.entry.clone());
            }
            let facts = looked.next().unwrap_or_else(|| Err(Error::new(ErrorKind::NotFound, "open")))?;
            match facts.kind {
                Some(Kind::File) => Ok(facts.entry(get.entry.name.clone())),
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
