//! Small files read. In stream mode each is a transfer, and is asked for its stamp with the next one's command. In extended block mode many
//! are asked for ahead, and the server sends one behind the other over one connection.

use std::io::{self, Read as _};

use haul_core::entry::{Entry, Kind, MetaMask, Stamp};
use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::batch::READ;
use super::control::command;
use super::data::Failed;
use super::facts::Facts;
use super::features::get;
use super::intake::Incoming;
use super::line::{Between, Line, Step};
use super::pool::Lease;
use super::reply::Reply;
use super::source::{explained, short, stamp};
use super::store::Shared;

/// Files that are asked for before the first of them has come: each has some 500 bytes of replies, which fit into a socket's buffer together.
const AHEAD: usize = 48;

#[derive(Clone)]
pub struct Get<'a> {
    pub index: usize,
    pub entry: &'a Entry,
    pub path: Vec<u8>,
}

/// The file as it was read; `None` for one that is larger than it was taken for.
pub type Outcome = (usize, Result<Option<(Entry, Vec<u8>)>>);

struct Gets<'a> {
    shared: &'a Shared,
    /// The file that was read, and is asked for its stamp with the next one.
    read: Option<(usize, Entry, Vec<u8>)>,
    tail: Vec<Vec<u8>>,
    done: Vec<Outcome>,
}

impl Between for Gets<'_> {
    fn commands(&self) -> &[Vec<u8>] {
        &self.tail
    }

    fn answered(&mut self, replies: Result<Vec<Reply>>) {
        self.tail.clear();
        let Some((index, entry, bytes)) = self.read.take() else { return };
        let lost = |_| Error::new(ErrorKind::Io, READ).remedy_is(Remedy::Again).because("the connection was lost");
        self.done.push((index, replies.map_err(lost).and_then(|replies| self.shared.unchanged(entry, bytes, replies))));
    }
}

enum Received {
    Done(Outcome),
    Refused(Reply),
    /// Nothing more comes over this session.
    Lost,
}

impl Shared {
    /// Reads files in stream mode, one after the other.
    pub fn get_group(&self, group: &[Get<'_>], follow: bool, most: usize) -> Vec<Outcome> {
        let mut line = Line::new(self);
        let mut gets = Gets { shared: self, read: None, tail: Vec::new(), done: Vec::with_capacity(group.len()) };
        let wanted = match self.listed_as(&mut line, group, follow) {
            Ok(wanted) => wanted,
            Err(e) => return group.iter().map(|get| (get.index, Err(e.again()))).collect(),
        };
        for (get, entry) in group.iter().zip(wanted) {
            let entry = match entry {
                Ok(entry) if entry.size <= most as u64 => entry,
                other => {
                    gets.done.push((get.index, other.map(|_| None)));
                    continue;
                }
            };
            let mut bytes = Vec::new();
            let step = line.transfer(&mut gets, ("RETR", &get.path, READ), false, |data| {
                bytes.clear();
                bytes.reserve_exact(usize::try_from(entry.size).unwrap_or(0) + 1);
                // One byte more than there should be shows that the file has grown.
                data.take(entry.size + 1).read_to_end(&mut bytes).map(drop)
            });
            let outcome = match step {
                _ if bytes.len() as u64 > entry.size => Err(Error::new(ErrorKind::Changed, READ).because("it is longer than it was")),
                Step::Done => {
                    gets.tail = self.stamp_commands(&get.path);
                    gets.read = Some((get.index, entry, bytes));
                    continue;
                }
                Step::Refused(reply) => Err(match line.session() {
                    Ok(lease) => explained(lease, &get.path, Failed::Reply(reply), READ),
                    Err(e) => e,
                }),
                Step::Failed(e) => Err(e),
            };
            gets.done.push((get.index, outcome));
        }
        line.end(&mut gets, READ);
        gets.done
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

    /// Reads files in extended block mode over one session; those that have to be read in stream mode come back, too.
    pub fn get_in_blocks<'a>(&self, gets: &[Get<'a>], most: usize) -> (Vec<Outcome>, Vec<Get<'a>>) {
        // What is known by its name only is looked at first.
        let (again, known): (Vec<&Get<'_>>, Vec<&Get<'_>>) = gets.iter().partition(|get| get.entry.is_bare());
        let (fits, large): (Vec<&Get<'_>>, Vec<&Get<'_>>) = known.into_iter().partition(|get| get.entry.size <= most as u64);
        let mut again: Vec<Get<'_>> = again.into_iter().cloned().collect();
        let mut done: Vec<Outcome> = large.into_iter().map(|get| (get.index, Ok(None))).collect();
        let asked: Vec<Vec<u8>> = fits.iter().map(|get| self.request(get)).collect();
        let Some(Ok(Some(mut lease))) = asked.first().map(|first| self.intake(first, false, READ)) else {
            again.extend(fits.into_iter().cloned());
            return (done, again);
        };
        lease.busy = true;
        let (mut sent, mut refused) = (1, Vec::new());
        for (at, get) in fits.iter().enumerate() {
            let ahead = asked.len().min(at + AHEAD).max(sent);
            let received = match lease.control.send(&asked[sent..ahead].concat(), READ) {
                Ok(()) => self.receive(&mut lease, get, get.entry.clone()),
                Err(_) => Received::Lost,
            };
            sent = ahead;
            match received {
                Received::Done(outcome) => done.push(outcome),
                Received::Refused(reply) => refused.push((get, reply)),
                Received::Lost => {
                    lease.control.give_up();
                    again.extend(fits[at..].iter().copied().cloned());
                    break;
                }
            }
            self.pool.moved();
        }
        lease.busy = lease.control.is_over() || lease.intake.is_none();
        drop(lease);
        for (get, reply) in refused {
            let e = self.pool.take().map(|mut lease| explained(&mut lease, &get.path, Failed::Reply(reply), READ));
            done.push((get.index, Err(e.unwrap_or_else(|e| e))));
        }
        (done, again)
    }

    /// The commands for one file: its content, and behind it its stamp.
    fn request(&self, get: &Get<'_>) -> Vec<u8> {
        let content = command("RETR", &get.path).unwrap_or_default();
        std::iter::once(content).chain(self.stamp_commands(&get.path)).flatten().collect()
    }

    fn receive(&self, lease: &mut Lease, get: &Get<'_>, entry: Entry) -> Received {
        let attempt = || -> Result<Received> {
            let stamps = self.stamp_commands(&get.path).len();
            let first = lease.control.reply(READ)?;
            if !first.is_begun() {
                for _ in 0..stamps {
                    lease.control.reply(READ)?;
                }
                return Ok(Received::Refused(first));
            }
            let Some(mut intake) = lease.intake.take() else { return Ok(Received::Lost) };
            let mut bytes = vec![0; usize::try_from(entry.size).unwrap_or(usize::MAX)];
            let (mut incoming, mut has) = (Incoming::new(entry.size), 0);
            while !incoming.is_over() {
                // Beyond the file's size there is one byte of room, so that its end is read.
                let mut rest = [0; 1];
                let into = if has < bytes.len() { &mut bytes[has..] } else { &mut rest };
                match incoming.read(&mut intake, into) {
                    Ok(count) => has += count,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Ok(Received::Lost),
                }
            }
            bytes.truncate(has);
            // Nothing follows over a connection that the server closes: the next file finds none.
            lease.intake = Some(intake).filter(|_| !incoming.closes);
            let last = lease.control.last_reply(READ)?;
            let replies = (0..stamps).map(|_| lease.control.reply(READ)).collect::<Result<Vec<Reply>>>()?;
            if !last.is_done() {
                return Ok(Received::Refused(last));
            }
            Ok(Received::Done((get.index, self.unchanged(entry, bytes, replies))))
        };
        attempt().unwrap_or(Received::Lost)
    }

    /// What is asked to learn whether a file is still the one that was listed.
    fn stamp_commands(&self, path: &[u8]) -> Vec<Vec<u8>> {
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
    fn unchanged(&self, mut entry: Entry, bytes: Vec<u8>, replies: Vec<Reply>) -> Result<Option<(Entry, Vec<u8>)>> {
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
