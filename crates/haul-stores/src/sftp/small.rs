//! Small files, many a call: a few round trips for all of them together.

use std::sync::Arc;
use std::time::Instant;

use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::entry::{Entry, Kind, MetaMask};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Landed, MetaSpec};

use super::channel::{Answer, Channel, Ticket};
use super::client::{self, Handle, ask_all, attrs, data, done, is_unexplained, may_exist};
use super::meta::{lost_of, owner_of, rest_of};
use super::packet::{Attrs, kind, open};
use super::source::stamp;
use super::{Shared, checked, join};
use crate::staging::staging_leaf;

fn changed(reason: &str) -> Error {
    Error::new(ErrorKind::Changed, "read").because(reason)
}

/// What is known of an item on its way to the server.
struct Put {
    index: usize,
    target: Vec<u8>,
    /// Where it is written.
    path: Vec<u8>,
    staged: bool,
    handle: Handle,
    landed: Landed,
}

/// What was asked of one file: parts of its content with their lengths, and what it is then.
struct Reads {
    item: usize,
    reads: Vec<(Ticket, usize)>,
    stat: Ticket,
}

impl Shared {
    /// OPEN; then READ to the end, FSTAT and CLOSE at once: two round trips for all of them, a third to see that nothing
    /// is a link or a fifo where nobody has looked.
    pub(super) fn get_bundle(self: &Arc<Self>, bundle: &mut Bundle, most: usize) {
        let _turn = self.client.bundle();
        let begun = Instant::now();
        let listed: Vec<usize> =
            bundle.items.iter().enumerate().filter(|(_, item)| matches!(item.outcome, Outcome::Listed)).map(|(i, _)| i).collect();
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return fail_all(bundle, &listed, &e),
        };
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
                    let e = Error::new(ErrorKind::Changed, "open").because("it is no longer a regular file");
                    item.outcome = Outcome::Failed(e.on(&item.entry.name));
                }
                Ok(found) if item.entry.is_bare() => {
                    client::fill(&mut item.entry, &found);
                    if item.entry.size <= most as u64 {
                        there.push((*i, path));
                    }
                }
                Ok(_) => there.push((*i, path)),
                Err(e) => item.outcome = Outcome::Failed(e.on(&item.entry.name)),
            }
        }
        let opened = ask_all(&channel, &there, |batch, (_, path)| {
            batch.push(kind::OPEN, |r| r.bytes(path).number(open::READ).attrs(&Attrs::default()))
        });
        let mut handles = Vec::new();
        for ((i, _), answer) in there.into_iter().zip(opened) {
            match answer.and_then(|answer| client::handle(&answer, "open")) {
                Ok(handle) => handles.push((i, handle)),
                Err(e) => {
                    fail(&mut bundle.items[i], e);
                }
            }
        }
        bundle.spent.metadata += begun.elapsed();
        let begun = Instant::now();
        self.read_opened(bundle, &channel, handles);
        bundle.spent.reading += begun.elapsed();
    }

    fn read_opened(self: &Arc<Self>, bundle: &mut Bundle, channel: &Channel, handles: Vec<(usize, Handle)>) {
        let block = self.client.read_most as u64;
        let mut under_way: Vec<Reads> = Vec::new();
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
            let _answer_does_not_matter = batch.push(kind::CLOSE, |r| r.bytes(&handle));
            under_way.push(Reads { item: i, reads, stat });
        }
        if let Err(e) = batch.send() {
            let failed: Vec<usize> = under_way.iter().map(|reads| reads.item).collect();
            return fail_all(bundle, &failed, &e);
        }
        for Reads { item: i, reads, stat } in under_way {
            let start = bundle.data.len();
            let read = collect(channel, reads, &mut bundle.data);
            let now = channel.wait(stat).and_then(|answer: Answer| attrs(&answer, "stat"));
            let item = &mut bundle.items[i];
            let read = match read {
                Ok(true) => now,
                Ok(false) => {
                    bundle.data.truncate(start);
                    self.read_alone(&item.entry, &mut bundle.data).and(now)
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
                    super::source::RemoteFile::open(self, &item.entry, false)?.read_to_end(&mut bundle.data)?;
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
                    item.outcome = Outcome::Failed(e.on(&item.entry.name));
                }
            }
        }
    }

    /// A server that gives less than it was asked for is asked for the rest.
    fn read_alone(self: &Arc<Self>, entry: &Entry, to: &mut Vec<u8>) -> Result<()> {
        let file = super::source::RemoteFile::open(self, entry, false)?;
        let mut from = haul_core::store::Source::read(&file, 0..entry.size)?;
        std::io::Read::read_to_end(&mut from, to).map(|_| ()).map_err(|e| Error::from_io(e, "read"))
    }

    /// OPEN; then WRITE; then FSETSTAT and CLOSE; then the renames of what was staged: all files of a bundle at once.
    pub(super) fn put_bundle(&self, bundle: &mut Bundle) {
        let _turn = self.client.bundle();
        let begun = Instant::now();
        let read: Vec<usize> =
            bundle.items.iter().enumerate().filter(|(_, item)| matches!(item.outcome, Outcome::Read)).map(|(i, _)| i).collect();
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return fail_all(bundle, &read, &e),
        };
        let (direct, keep, sync) = (bundle.direct, bundle.keep, bundle.sync);
        let mut puts = Vec::new();
        for index in read {
            let item = &mut bundle.items[index];
            match self.dir(&item.entry.name.dir).and_then(|above| Ok((above, checked(&item.entry.name, "create")?))) {
                Ok((above, leaf)) => {
                    let landed = Landed { refused: lost_of(&item.entry, keep), ino: 0 };
                    let target = join(&above, leaf);
                    let path = if direct { target.clone() } else { join(&above, &staging_leaf(leaf, item.entry.stamp())) };
                    puts.push(Put { index, target, path, staged: !direct, handle: Handle::new(), landed });
                }
                Err(e) => fail(item, e),
            }
        }
        let puts = self.create_all(bundle, &channel, puts);
        bundle.spent.metadata += begun.elapsed();
        let begun = Instant::now();
        let puts = self.fill_all(bundle, &channel, puts, keep, sync);
        bundle.spent.writing += begun.elapsed();
        let begun = Instant::now();
        self.name_all(bundle, &channel, puts);
        if keep.has(MetaMask::SETID) {
            self.set_special_bits(bundle, keep);
        }
        bundle.spent.metadata += begun.elapsed();
    }

    fn create_all(&self, bundle: &mut Bundle, channel: &Channel, puts: Vec<Put>) -> Vec<Put> {
        let keep = bundle.keep;
        let create = |put: &Put, items: &[Item]| {
            let entry = &items[put.index].entry;
            // Nobody may get in before owner and mode are right; what keeps no mode gets the usual one here.
            let mode = if keep.has(MetaMask::MODE) || put.staged { 0o600 } else { entry.mode & 0o666 | 0o200 };
            Attrs { mode: Some(mode), ..Attrs::default() }
        };
        let flags = open::WRITE | open::CREATE | open::EXCLUSIVE;
        let answers = ask_all(channel, &puts, |batch, put| {
            let attrs = create(put, &bundle.items);
            batch.push(kind::OPEN, |r| r.bytes(&put.path).number(flags).attrs(&attrs))
        });
        let mut made = Vec::new();
        for (mut put, answer) in puts.into_iter().zip(answers) {
            let opened = match answer.and_then(|answer| client::handle(&answer, "create")) {
                Err(e) if may_exist(&e) && self.lstat(&put.path).is_ok() => {
                    let item = &bundle.items[put.index];
                    self.create_again(channel, &mut put, item)
                }
                opened => opened,
            };
            match opened {
                Ok(handle) => made.push(Put { handle, ..put }),
                Err(e) => fail(&mut bundle.items[put.index], self.explain(e)),
            }
        }
        made
    }

    /// Something has the name: a leftover of ours goes, somebody else's file is replaced whole.
    fn create_again(&self, channel: &Channel, put: &mut Put, item: &Item) -> Result<Handle> {
        if put.staged {
            self.remove_file(&put.path, "remove leftover")?;
        } else {
            put.staged = true;
            put.path = join(&self.dir(&item.entry.name.dir)?, &staging_leaf(&item.entry.name.leaf, item.entry.stamp()));
            self.remove_file(&put.path, "remove leftover")?;
        }
        let attrs = Attrs { mode: Some(0o600), ..Attrs::default() };
        let flags = open::WRITE | open::CREATE | open::EXCLUSIVE;
        // Handles belong to the channel that opened them.
        let answer = channel.ask(kind::OPEN, |r| r.bytes(&put.path).number(flags).attrs(&attrs))?;
        client::handle(&answer, "create")
    }

    fn fill_all(&self, bundle: &mut Bundle, channel: &Channel, puts: Vec<Put>, keep: MetaMask, sync: bool) -> Vec<Put> {
        let block = self.client.write_most;
        let sync = sync && self.client.extensions.fsync;
        let owners = keep.any(MetaMask::OWNER.with(MetaMask::GROUP));
        // Whose a new file is shows only once it is there.
        let mut now = vec![None; puts.len()];
        if owners {
            let answers = ask_all(channel, &puts, |batch, put| batch.push(kind::FSTAT, |r| r.bytes(&put.handle)));
            for (now, answer) in now.iter_mut().zip(answers) {
                *now = answer.and_then(|answer| attrs(&answer, "stat")).ok().and_then(|attrs| attrs.owner);
            }
        }
        // Some servers do what is under way side by side: the times of a file come when its content is there, and each new
        // owner before the mode that it would take bits from.
        let mut batch = channel.batch();
        let mut under_way = Vec::new();
        for (put, now) in puts.into_iter().zip(now) {
            let item = &bundle.items[put.index];
            let bytes = &bundle.data[item.at.clone()];
            let mut steps: Vec<(Step, Ticket)> = Vec::new();
            for (n, part) in bytes.chunks(block).enumerate() {
                let at = (n * block) as u64;
                steps.push((Step::Write, batch.push(kind::WRITE, |r| r.bytes(&put.handle).long(at).bytes(part))));
            }
            let change = owner_of(&item.entry, keep, now);
            if let Some(change) = &change {
                steps.push((Step::Owner, batch.push(kind::FSETSTAT, |r| r.bytes(&put.handle).attrs(change))));
            }
            // Whether it can be given away is not known yet: setuid bits come when it has been.
            let owned = now == Some((item.entry.uid, item.entry.gid));
            under_way.push((put, owned, steps));
        }
        if let Err(e) = batch.send() {
            for (put, ..) in under_way {
                fail(&mut bundle.items[put.index], e.again());
            }
            return Vec::new();
        }
        let mut written = Vec::with_capacity(under_way.len());
        for (mut put, owned, steps) in under_way {
            let outcome = self.outcome(channel, steps, keep, &mut put.landed);
            written.push((put, owned, outcome));
        }
        self.close_all(bundle, channel, written, keep, sync)
    }

    /// What comes when the content is there: mode, times, and the end.
    fn close_all(
        &self,
        bundle: &mut Bundle,
        channel: &Channel,
        written: Vec<(Put, bool, Result<()>)>,
        keep: MetaMask,
        sync: bool,
    ) -> Vec<Put> {
        let mut batch = channel.batch();
        let mut under_way = Vec::new();
        for (put, owned, outcome) in written {
            let item = &bundle.items[put.index];
            let mut steps: Vec<(Step, Ticket)> = Vec::new();
            let mut rest = rest_of(&item.entry, keep, owned);
            if rest.mode.is_none() && put.staged {
                let old = self.lstat(&put.target).ok().filter(|old| old.kind() == Kind::File).and_then(|old| old.mode);
                rest.mode = Some(old.map_or(item.entry.mode & 0o666 | 0o200, |mode| mode & 0o777));
            }
            if outcome.is_ok() && rest != Attrs::default() {
                steps.push((Step::Rest, batch.push(kind::FSETSTAT, |r| r.bytes(&put.handle).attrs(&rest))));
            }
            if outcome.is_ok() && sync {
                steps.push((Step::Sync, batch.push(kind::EXTENDED, |r| r.bytes(b"fsync@openssh.com").bytes(&put.handle))));
            }
            steps.push((Step::Close, batch.push(kind::CLOSE, |r| r.bytes(&put.handle))));
            under_way.push((put, outcome, steps));
        }
        let mut filled = Vec::new();
        if let Err(e) = batch.send() {
            for (put, ..) in under_way {
                fail(&mut bundle.items[put.index], e.again());
            }
            return filled;
        }
        for (mut put, outcome, steps) in under_way {
            let closed = self.outcome(channel, steps, keep, &mut put.landed);
            match outcome.and(closed) {
                Ok(()) => filled.push(put),
                Err(e) => {
                    remove_staged(channel, &put.path);
                    fail(&mut bundle.items[put.index], self.explain(e));
                }
            }
        }
        filled
    }

    /// The first failure of a file's steps; what only could not be kept is refused.
    fn outcome(&self, channel: &Channel, steps: Vec<(Step, Ticket)>, keep: MetaMask, landed: &mut Landed) -> Result<()> {
        let mut outcome = Ok(());
        for (step, ticket) in steps {
            let answer = channel.wait(ticket).and_then(|answer| done(&answer, step.word()));
            let soft = |e: &Error| e.kind() == ErrorKind::Denied || is_unexplained(e);
            match (step, answer) {
                (_, Ok(())) => {}
                (Step::Owner, Err(e)) if soft(&e) => {
                    landed.refused = landed.refused.with(keep.and(MetaMask::OWNER.with(MetaMask::GROUP)));
                }
                (Step::Rest, Err(e)) if soft(&e) => landed.refused = landed.refused.with(keep.and(MetaMask::MODE.with(MetaMask::MTIME))),
                (_, Err(e)) if outcome.is_ok() => outcome = Err(e),
                _ => {}
            }
        }
        outcome
    }

    fn name_all(&self, bundle: &mut Bundle, channel: &Channel, puts: Vec<Put>) {
        let (staged, direct): (Vec<Put>, Vec<Put>) = puts.into_iter().partition(|put| put.staged);
        for put in direct {
            bundle.items[put.index].outcome = Outcome::Landed(put.landed);
        }
        let posix = self.client.extensions.posix_rename;
        let answers = ask_all(channel, &staged, |batch, put| {
            if posix {
                batch.push(kind::EXTENDED, |r| r.bytes(b"posix-rename@openssh.com").bytes(&put.path).bytes(&put.target))
            } else {
                batch.push(kind::RENAME, |r| r.bytes(&put.path).bytes(&put.target))
            }
        });
        for (put, answer) in staged.into_iter().zip(answers) {
            let named = match answer.and_then(|answer| done(&answer, "rename")) {
                Err(e) if may_exist(&e) => self.replace(&put.path, &put.target),
                named => named,
            };
            match named {
                Ok(()) => bundle.items[put.index].outcome = Outcome::Landed(put.landed),
                Err(e) => {
                    remove_staged(channel, &put.path);
                    fail(&mut bundle.items[put.index], e);
                }
            }
        }
    }
}

impl Shared {
    /// setuid and setgid bits, of files that are known to be whose they should be.
    fn set_special_bits(&self, bundle: &mut Bundle, keep: MetaMask) {
        let special = |item: &&mut Item| matches!(item.outcome, Outcome::Landed(_)) && item.entry.mode & 0o6000 != 0;
        let mut items: Vec<&mut Item> = bundle.items.iter_mut().filter(special).collect();
        let specs: Vec<MetaSpec<'_>> = items.iter().map(|item| MetaSpec { name: &item.entry.name, entry: &item.entry, keep }).collect();
        let set = self.set_meta(&specs);
        for (item, set) in items.iter_mut().zip(set) {
            if let (Outcome::Landed(landed), Ok(set)) = (&mut item.outcome, set) {
                landed.refused = landed.refused.with(set.refused);
            }
        }
    }
}

/// What was asked for one file, in the order in which it was.
enum Step {
    Write,
    Owner,
    Rest,
    Sync,
    Close,
}

impl Step {
    fn word(&self) -> &'static str {
        match self {
            Step::Write | Step::Close => "write",
            Step::Owner | Step::Rest => "set attributes",
            Step::Sync => "sync",
        }
    }
}

/// What was written for a file that failed goes too, but not by another login: a host that is lost would be called once a
/// file. The journal knows of what stays.
fn remove_staged(channel: &Channel, path: &[u8]) {
    if !channel.is_over() {
        let _nothing_more_to_do = channel.ask(kind::REMOVE, |r| r.bytes(path));
    }
}

fn fail(item: &mut Item, e: Error) {
    item.outcome = Outcome::Failed(e.on(&item.entry.name));
}

fn fail_all(bundle: &mut Bundle, which: &[usize], e: &Error) {
    for i in which {
        fail(&mut bundle.items[*i], e.again());
    }
}

/// The answers of a file's reads in order, up to its end. `false` if one gave less than it could have.
fn collect(channel: &Channel, reads: Vec<(Ticket, usize)>, to: &mut Vec<u8>) -> Result<bool> {
    let (mut ended, mut gap) = (false, false);
    for (ticket, wanted) in reads {
        let answer = channel.wait(ticket)?;
        match data(&answer, "read")? {
            Some(bytes) if bytes.len() > wanted => return Err(super::packet::protocol_error("more data than was asked for")),
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
