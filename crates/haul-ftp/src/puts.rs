//! Small files written: each is stored, gets its attributes and is asked for its size, and gets its name once the size is right. A server
//! that reads commands during a transfer would else name half a file, and one that cut a file off would be believed.
//!
//! In stream mode what follows a file goes out with the next file's command. In extended block mode commands and data of many files go out
//! before the server has answered the first, over one data connection, so that a bundle takes three round trips. After a refusal there the
//! data of one file would become those of the next: whatever was sent behind it is void, and these files go out again in stream mode.

use std::collections::VecDeque;

use haul_core::entry::{Entry, MetaMask};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::WriteOutcome;

use super::batch::{EAGER, WRITE};
use super::change::{Settings, explain_write, remove_file, replace};
use super::control::command;
use super::data::Failed;
use super::extended::Lane;
use super::facts::Facts;
use super::features::cannot;
use super::line::{Between, Line, Step};
use super::reply::Reply;
use super::staged::arrived;
use super::store::Shared;

/// Replies that the server owes at the most: they fit into a socket's buffer together (a transfer has some 500 bytes of them), so that
/// neither side waits for the other to read.
const WINDOW: usize = 64;

#[derive(Clone)]
pub struct Put<'a> {
    pub index: usize,
    pub entry: &'a Entry,
    pub bytes: &'a [u8],
    pub path: Vec<u8>,
    pub target: Vec<u8>,
}

pub type Outcome = (usize, Result<WriteOutcome>);

/// What the server's next replies belong to.
enum Awaited {
    /// One reply, to the transfer.
    Stored,
    /// Replies to the commands that set attributes, and to that for the size, if there is one.
    Sized(Settings, usize),
    /// Replies to the two commands of the rename.
    Named(WriteOutcome),
}

enum Trouble {
    Refused(Reply),
    /// The server has another size.
    Cut(Error),
    /// A plain rename was refused.
    Unnamed(WriteOutcome),
}

/// Files that are on their way to their names.
struct Puts<'a> {
    shared: &'a Shared,
    keep: MetaMask,
    awaited: VecDeque<(&'a Put<'a>, Awaited)>,
    /// What these take and was not sent yet, in this order.
    commands: Vec<Vec<u8>>,
    /// Files that need a session which owes nothing.
    troubles: Vec<(&'a Put<'a>, Trouble)>,
    /// Files whose size a listing has to tell.
    unseen: Vec<&'a Put<'a>>,
    done: Vec<Outcome>,
    /// In extended block mode: a transfer was refused, and files were sent behind it.
    is_void: bool,
    again: Vec<Put<'a>>,
}

impl<'a> Puts<'a> {
    fn new(shared: &'a Shared, keep: MetaMask) -> Puts<'a> {
        let (awaited, commands, troubles, unseen, done) = Default::default();
        Puts { shared, keep, awaited, commands, troubles, unseen, done, is_void: false, again: Vec::new() }
    }

    /// Takes the replies to what the first file waits for; what it takes next is queued.
    fn answer(&mut self, mut next: impl FnMut() -> Result<Reply>) -> Result<()> {
        let count = match self.awaited.front() {
            None => return Ok(()),
            Some((_, Awaited::Stored)) => 1,
            Some((_, Awaited::Sized(_, count))) => *count,
            Some((_, Awaited::Named(_))) => 2,
        };
        let mut replies = (0..count).map(|_| next()).collect::<Result<Vec<Reply>>>()?;
        let Some((put, awaited)) = self.awaited.pop_front() else { return Ok(()) };
        match awaited {
            Awaited::Stored if self.is_void => self.again.push(put.clone()),
            Awaited::Stored if replies[0].is_done() => self.stored(put),
            Awaited::Stored => {
                self.is_void = true;
                self.troubles.push((put, Trouble::Refused(replies.remove(0))));
            }
            Awaited::Sized(settings, _) => {
                let (set, sized) = replies.split_at(settings.commands.len());
                let features = &self.shared.features;
                if features.mlst.is_none() && sized.iter().any(|reply| matches!(reply.code, 500 | 502)) {
                    cannot(&features.size);
                }
                self.sized(put, settings.outcome(set), Facts::of_replies(sized).size);
            }
            Awaited::Named(outcome) => match replies[1].is_done() && (replies[0].needs_more() || replies[0].is_done()) {
                true => self.done.push((put.index, Ok(outcome))),
                false => self.troubles.push((put, Trouble::Unnamed(outcome))),
            },
        }
        Ok(())
    }

    /// What follows a file whose content the server says that it has.
    fn stored(&mut self, put: &'a Put<'a>) {
        let settings = match self.shared.settings(&put.path, put.entry, self.keep) {
            Ok(settings) => settings,
            Err(e) => return self.done.push((put.index, Err(e))),
        };
        let commands: Vec<Vec<u8>> = settings.commands.iter().cloned().chain(self.shared.size_command(&put.path)).collect();
        if commands.is_empty() {
            return self.sized(put, settings.outcome(&[]), None);
        }
        self.awaited.push_back((put, Awaited::Sized(settings, commands.len())));
        self.commands.extend(commands);
    }

    /// Has a file named whose size is right, or not known: then it is looked at with the others once it has its name.
    fn sized(&mut self, put: &'a Put<'a>, outcome: WriteOutcome, size: Option<u64>) {
        match size.map(|size| arrived(Some(size), put.bytes.len() as u64, WRITE)) {
            Some(Err(e)) => return self.troubles.push((put, Trouble::Cut(e.remedy_is(Remedy::Again)))),
            Some(Ok(())) => {}
            None => self.unseen.push(put),
        }
        match (command("RNFR", &put.path), command("RNTO", &put.target)) {
            (Ok(from), Ok(to)) => {
                self.awaited.push_back((put, Awaited::Named(outcome)));
                self.commands.extend([from, to]);
            }
            (Err(e), _) | (_, Err(e)) => self.done.push((put.index, Err(e))),
        }
    }

    /// The connection is lost: what was to be named may or may not have been.
    fn give_up(&mut self, e: &Error) {
        self.commands.clear();
        self.done.extend(self.awaited.drain(..).map(|(put, _)| (put.index, Err(e.again()))));
    }

    /// Deals with what went wrong. The caller holds no session.
    fn finish(mut self) -> (Vec<Outcome>, Vec<Put<'a>>) {
        for (put, trouble) in std::mem::take(&mut self.troubles) {
            let settled = self.shared.pool.take().and_then(|mut lease| {
                let e = match trouble {
                    Trouble::Refused(reply) => explain_write(&mut lease, &put.target, Failed::Reply(reply), WRITE),
                    Trouble::Cut(e) => e,
                    // Once more, with a look at what is in the way.
                    Trouble::Unnamed(outcome) => match replace(&mut lease, &put.path, &put.target, "rename") {
                        Ok(()) => return Ok(outcome),
                        Err(e) => e,
                    },
                };
                // A full disk leaves a part of it; the first error counts.
                let _ = remove_file(&mut lease, &put.path, "remove");
                Err(e)
            });
            self.done.push((put.index, settled));
        }
        self.see();
        (self.done, self.again)
    }

    /// Looks at the files of which the server has not told the size, by one listing.
    fn see(&mut self) {
        let Puts { shared, unseen, done, .. } = self;
        unseen.retain(|put| done.iter().any(|(index, outcome)| *index == put.index && outcome.is_ok()));
        if unseen.is_empty() {
            return;
        }
        let targets: Vec<&[u8]> = unseen.iter().map(|put| &put.target[..]).collect();
        let found = match shared.pool.take() {
            Ok(mut lease) => lease.look_listed(&targets, WRITE),
            Err(e) => targets.iter().map(|_| Err(e.again())).collect(),
        };
        for (put, found) in unseen.iter().zip(found) {
            let seen = found.and_then(|facts| arrived(facts.size, put.bytes.len() as u64, WRITE));
            if let (Err(e), Some((_, outcome))) = (seen, done.iter_mut().find(|(index, _)| *index == put.index)) {
                *outcome = Err(if e.kind() == ErrorKind::NotFound { e.kind_is(ErrorKind::Corrupt) } else { e });
            }
        }
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Io, WRITE).remedy_is(Remedy::Again).because("the connection was lost before the file had its name")
}

impl Shared {
    /// Writes files in stream mode, one after the other.
    pub fn put_group<'a>(&'a self, group: &'a [Put<'a>], keep: MetaMask) -> Vec<Outcome> {
        let mut line = Line::new(self);
        let mut puts = Puts::new(self, keep);
        for put in group {
            let step = line.transfer(&mut puts, ("STOR", &put.path, WRITE), put.bytes.len() <= EAGER, |mut data| {
                data.write(put.bytes)?;
                data.finish()
            });
            match step {
                Step::Done => puts.stored(put),
                Step::Refused(reply) => puts.troubles.push((put, Trouble::Refused(reply))),
                Step::Failed(e) => puts.done.push((put.index, Err(e))),
            }
        }
        while !puts.awaited.is_empty() {
            line.end(&mut puts, WRITE);
        }
        drop(line);
        puts.finish().0
    }

    /// Writes files in extended block mode over one session; those that have to be sent again in stream mode come back, too.
    pub fn put_in_blocks<'a>(&'a self, all: &'a [Put<'a>], keep: MetaMask) -> (Vec<Outcome>, Vec<Put<'a>>) {
        let mut lane = match Lane::open(&self.pool, &[], WRITE) {
            Ok((lane, _)) => lane,
            Err(e) => return (all.iter().map(|put| (put.index, Err(e.again()))).collect(), Vec::new()),
        };
        let mut puts = Puts::new(self, keep);
        let mut failed = None;
        for put in all {
            if failed.is_some() || puts.is_void {
                puts.again.push(put.clone());
            } else {
                failed = puts.send(&mut lane, put).err();
            }
        }
        while !puts.awaited.is_empty() {
            if let Err(e) = puts.hear(&mut lane) {
                lane.break_off();
                puts.give_up(&failed.take().unwrap_or(if e.kind() == ErrorKind::Io { lost() } else { e }));
            }
        }
        if puts.is_void || lane.is_broken() {
            lane.break_off();
        }
        drop(lane);
        puts.finish()
    }
}

impl Between for Puts<'_> {
    fn commands(&self) -> &[Vec<u8>] {
        &self.commands
    }

    fn answered(&mut self, replies: Result<Vec<Reply>>) {
        self.commands.clear();
        let answered = replies.and_then(|replies| {
            let mut replies = replies.into_iter();
            (0..self.awaited.len()).try_for_each(|_| self.answer(|| replies.next().ok_or_else(lost)))
        });
        if answered.is_err() {
            self.give_up(&lost());
        }
    }
}

impl<'a> Puts<'a> {
    /// Sends a file in extended block mode.
    fn send(&mut self, lane: &mut Lane, put: &'a Put<'a>) -> Result<()> {
        while lane.owed() >= WINDOW {
            self.hear(lane).inspect_err(|_| self.again.push(put.clone()))?;
        }
        if self.is_void {
            self.again.push(put.clone());
            return Ok(());
        }
        let store = match command("STOR", &put.path) {
            Ok(store) => store,
            Err(e) => {
                self.done.push((put.index, Err(e)));
                return Ok(());
            }
        };
        self.awaited.push_back((put, Awaited::Stored));
        lane.begin(&store, WRITE)?;
        lane.send_whole(put.bytes, WRITE)?;
        self.shared.pool.moved();
        Ok(())
    }

    /// Reads what the first file is answered, and sends what it takes next.
    fn hear(&mut self, lane: &mut Lane) -> Result<()> {
        let was_void = self.is_void;
        self.answer(|| lane.last_reply(WRITE))?;
        if self.is_void && !was_void {
            lane.close_data();
        }
        let commands = std::mem::take(&mut self.commands);
        if commands.is_empty() { Ok(()) } else { lane.ask_ahead(&commands, WRITE) }
    }
}
