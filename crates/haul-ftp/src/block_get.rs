//! Small files read in extended block mode: they are asked for ahead, and the server sends one behind the other over one connection.

use haul_core::entry::Entry;
use haul_core::error::Result;

use super::batch::{Get, READ, Read};
use super::control::command;
use super::data::Failed;
use super::intake::Incoming;
use super::pool::Lease;
use super::reply::Reply;
use super::source::explained;
use super::store::Shared;

/// Files that are asked for before the first of them has come: each has some 500 bytes of replies, which fit into a socket's buffer together.
const AHEAD: usize = 48;

type Outcome = (usize, Result<Option<Read>>);

/// What became of one file.
enum Received {
    Done(Outcome),
    Refused(Reply),
    /// Nothing more comes over this session.
    Lost,
}

impl Shared {
    /// Reads small files over one session; those that have to be read in stream mode come back, too.
    pub fn get_in_blocks<'a>(&self, gets: &[Get<'a>], most: usize) -> (Vec<Outcome>, Vec<Get<'a>>) {
        let mut done = Vec::with_capacity(gets.len());
        // What is known by its name only is looked at first.
        let (fits, mut again): (Vec<&Get<'_>>, Vec<&Get<'_>>) =
            gets.iter().filter(|get| get.entry.is_bare() || get.entry.size <= most as u64).partition(|get| !get.entry.is_bare());
        done.extend(gets.iter().filter(|get| !get.entry.is_bare() && get.entry.size > most as u64).map(|get| (get.index, Ok(None))));
        let asked: Vec<Vec<u8>> = fits.iter().map(|get| self.request(get)).collect();
        let lease = match asked.first().map(|first| self.intake(first, false, READ)) {
            Some(Ok(Some(lease))) => lease,
            Some(Err(_) | Ok(None)) | None => return (done, gets_of(again.into_iter().chain(fits))),
        };
        let mut lease = lease;
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
                    again.extend(&fits[at..]);
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
        (done, gets_of(again))
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
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return Ok(Received::Lost),
                }
            }
            bytes.truncate(has);
            // Nothing follows over a connection that the server closes: the next file finds none.
            lease.intake = Some(intake).filter(|_| !incoming.closes());
            let last = lease.control.last_reply(READ)?;
            let replies = (0..stamps).map(|_| lease.control.reply(READ)).collect::<Result<Vec<Reply>>>()?;
            if !last.is_done() {
                return Ok(Received::Refused(last));
            }
            Ok(Received::Done((get.index, self.unchanged(entry, bytes, replies))))
        };
        attempt().unwrap_or(Received::Lost)
    }
}

fn gets_of<'a, 'b>(gets: impl IntoIterator<Item = &'b Get<'a>>) -> Vec<Get<'a>>
where
    'a: 'b,
{
    gets.into_iter().cloned().collect()
}
