//! The session of a group of small files: one transfer after the other, each with what the next one needs sent ahead.

use std::io;

use haul_core::error::{Error, ErrorKind, Remedy, Result};

use super::control::{command, failure};
use super::data::{Announced, Data, Opening};
use super::features::{cannot, get};
use super::passive::passive;
use super::pool::Lease;
use super::reply::Reply;
use super::store::Shared;

/// Attempts at one file where the server's answers are out of step.
const TRIES: u32 = 3;

pub enum Step {
    Done,
    Refused(Reply),
    Failed(Error),
}

/// Files of a group that are not done: what goes out with the next transfer, and takes the replies to it.
pub trait Between {
    fn commands(&self) -> &[Vec<u8>];

    /// An error where the connection was lost.
    fn answered(&mut self, replies: Result<Vec<Reply>>);
}

/// The session of a group, and what was agreed ahead.
pub struct Line<'a> {
    shared: &'a Shared,
    lease: Option<Lease>,
    announced: Option<Announced>,
}

impl Line<'_> {
    pub fn new(shared: &Shared) -> Line<'_> {
        Line { shared, lease: None, announced: None }
    }

    pub fn lease(&mut self) -> Result<&mut Lease> {
        if !self.lease.as_ref().is_some_and(|lease| lease.is_usable()) {
            (self.lease, self.announced) = (None, None);
            self.lease = Some(self.shared.pool.take()?);
        }
        self.lease.as_mut().ok_or_else(|| Error::new(ErrorKind::Other, "connect"))
    }

    /// The session for other commands than transfers. A listing among them uses the port that was announced, and no other takes its place
    /// unseen.
    pub fn session(&mut self) -> Result<&mut Lease> {
        self.lease()?;
        let announced = self.announced.take();
        let lease = self.lease()?;
        if announced.is_some() {
            lease.announced = announced;
        }
        Ok(lease)
    }

    /// The session is left to nobody else.
    pub fn break_off(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.control.give_up();
        }
        (self.lease, self.announced) = (None, None);
    }

    /// Sends the commands of `between`, then makes one transfer: with `eager` before the server has agreed to it.
    pub fn transfer(
        &mut self,
        between: &mut impl Between,
        (word, path, op): (&str, &[u8], &'static str),
        eager: bool,
        mut pass: impl FnMut(Data) -> Passed,
    ) -> Step {
        for _ in 0..TRIES {
            let sent = command(word, path).and_then(|transfer| self.attempt(between.commands(), transfer, op, eager, &mut pass));
            match sent {
                Ok((replies, step)) => {
                    between.answered(Ok(replies));
                    if let Some(step) = step {
                        return step;
                    }
                }
                Err(e) => {
                    between.answered(Err(e.again()));
                    self.break_off();
                    return Step::Failed(e);
                }
            }
        }
        let e = Error::new(ErrorKind::Io, op).remedy_is(Remedy::Again);
        Step::Failed(e.because("the server's answers are out of step"))
    }

    /// No step where the replies came in another order than the commands: nothing is known of this session any more.
    fn attempt(
        &mut self,
        before: &[Vec<u8>],
        transfer: Vec<u8>,
        op: &'static str,
        eager: bool,
        pass: impl FnOnce(Data) -> Passed,
    ) -> Result<(Vec<Reply>, Option<Step>)> {
        let queues = get(&self.shared.features.queues);
        // What was agreed on is of the session that is kept.
        self.lease()?;
        let known = self.announced.take();
        let lease = self.lease()?;
        let queues = queues && !lease.active && get(&lease.features.extended_passive);
        let mut replies = Vec::new();
        let announced = match known {
            Some(announced) => announced,
            None => {
                // Nothing was agreed ahead: what is to be said before goes out first.
                for reply in lease.control.ask_all(before, op) {
                    replies.push(reply?);
                }
                lease.announce(op)?
            }
        };
        let waiting = before.len() - replies.len();
        let mut commands = before[replies.len()..].concat();
        commands.extend(transfer);
        if queues {
            commands.extend(command("EPSV", b"")?);
        }
        lease.busy = true;
        lease.control.send(&commands, op)?;
        let opening = lease.open(announced, op);
        for _ in 0..waiting {
            replies.push(lease.control.reply(op)?);
        }
        let opening = lease.guarded(opening, op);
        // A server that refuses may leave the data connection as it is, and nothing would ever come of it.
        let mut first = if eager && lease.tls.is_none() && lease.guard.is_none() { None } else { Some(lease.control.reply(op)?) };
        let mut passed = Ok(());
        if let Opening::Made(Err(e)) = &opening {
            let e = e.again();
            let refused = first.filter(|reply| reply.code / 100 == 5);
            self.break_off();
            // A server that takes the EPSV behind the command closes the port that was announced before.
            if queues {
                cannot(&self.shared.features.queues);
                return Ok((replies, None));
            }
            return Ok((replies, Some(refused.map_or(Step::Failed(e), Step::Refused))));
        }
        if first.as_ref().is_none_or(Reply::is_begun) {
            match lease.ready(opening, op) {
                Ok(data) => passed = pass(data),
                Err(e) => {
                    self.break_off();
                    return Ok((replies, Some(Step::Failed(e))));
                }
            }
        }
        let first = first.take().map_or_else(|| lease.control.reply(op), Ok)?;
        let refused = !first.is_begun();
        let last = if refused { first } else { lease.control.reply(op)? };
        let strange = last.code == 229 || (!refused && !last.is_done() && !matches!(last.code, 452 | 552));
        if queues && strange {
            cannot(&self.shared.features.queues);
            self.break_off();
            return Ok((replies, None));
        }
        if queues {
            let reply = lease.control.reply(op)?;
            match passive(&reply, lease.control.peer) {
                Some(next) => self.announced = Some(next),
                None => {
                    // It took the command for part of the transfer.
                    cannot(&self.shared.features.queues);
                    self.break_off();
                    return Ok((replies, (!refused && last.is_done()).then(|| settled(passed, last, op))));
                }
            }
        }
        if let Some(lease) = &mut self.lease {
            lease.busy = false;
        }
        self.shared.pool.moved();
        Ok((replies, Some(if refused { Step::Refused(last) } else { settled(passed, last, op) })))
    }

    pub fn end(&mut self, between: &mut impl Between, op: &'static str) {
        let commands = between.commands();
        let replies = match commands.is_empty() {
            true => Ok(Vec::new()),
            false => self.lease().and_then(|lease| lease.control.ask_all(commands, op).into_iter().collect()),
        };
        between.answered(replies);
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if let (Some(lease), Some(announced)) = (&mut self.lease, self.announced.take()) {
            lease.announced = Some(announced);
        }
    }
}

pub type Passed = io::Result<()>;

fn settled(passed: Passed, last: Reply, op: &'static str) -> Step {
    match passed {
        _ if !last.is_done() => Step::Refused(last),
        Ok(()) => Step::Done,
        Err(e) => Step::Failed(failure(e, op)),
    }
}
