//! Small files that are written, many per call: a few round trips for all of them together.

use std::time::Instant;

use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::entry::MetaMask;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{MetaSpec, WriteOutcome};

use super::channel::{Channel, Ticket};
use super::client::{self, Handle, ask_all, attrs, done, is_unexplained, may_exist};
use super::meta::{OWNERS, lost_of, owner_of, refusal, rest_of};
use super::packet::{Attrs, kind, open};
use super::{Shared, checked, join};
use haul_core::bundle::items::{self, fail, fail_all};

/// The state of an item that is being written.
struct Put {
    index: usize,
    target: Vec<u8>,
    path: Vec<u8>,
    staged: bool,
    handle: Handle,
    landed: WriteOutcome,
}

impl Shared {
    /// OPEN; then WRITE; then FSETSTAT and CLOSE; then the renames of what was staged: all files of a bundle at once.
    pub(super) fn put_bundle(&self, bundle: &mut Bundle) {
        let read = items::read(bundle);
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return fail_all(bundle, &read, &e),
        };
        let _turn = self.client.bundle(&channel);
        let begun = Instant::now();
        let (direct, keep) = (bundle.direct, bundle.keep);
        let mut puts = Vec::new();
        for index in read {
            let item = &mut bundle.items[index];
            match self.dir(&item.entry.name.dir).and_then(|above| Ok((above, checked(&item.entry.name, "create")?))) {
                Ok((above, leaf)) => {
                    let landed = WriteOutcome { refused: lost_of(&item.entry, keep), ino: 0 };
                    let target = join(&above, leaf);
                    let path = if direct { target.clone() } else { join(&above, &self.names.leaf(leaf, item.entry.stamp())) };
                    puts.push(Put { index, target, path, staged: !direct, handle: Handle::new(), landed });
                }
                Err(e) => fail(item, e),
            }
        }
        bundle.spent.metadata += begun.elapsed();
        let mut filled = Vec::new();
        let refused = self.client.by_handles(&channel, puts, |puts| {
            let begun = Instant::now();
            let (made, refused) = self.create_all(bundle, &channel, puts);
            bundle.spent.metadata += begun.elapsed();
            let begun = Instant::now();
            filled.extend(self.fill_all(bundle, &channel, made));
            bundle.spent.writing += begun.elapsed();
            refused
        });
        refused.into_iter().for_each(|(put, e)| fail(&mut bundle.items[put.index], self.explain(e)));
        let begun = Instant::now();
        self.name_all(bundle, &channel, filled);
        if keep.has(MetaMask::SETID) {
            self.set_special_bits(bundle, keep);
        }
        bundle.spent.metadata += begun.elapsed();
    }

    /// Those that were created, and those that were refused without a reason.
    fn create_all(&self, bundle: &mut Bundle, channel: &Channel, puts: Vec<Put>) -> (Vec<Put>, Vec<(Put, Error)>) {
        let keep = bundle.keep;
        let create = |put: &Put, items: &[Item]| {
            let entry = &items[put.index].entry;
            // No access before owner and mode are right; without a mode to keep the file gets the default one.
            let mode = if keep.has(MetaMask::MODE) || put.staged { 0o600 } else { entry.mode & 0o777 | 0o200 };
            Attrs { mode: Some(mode), ..Attrs::default() }
        };
        let flags = open::WRITE | open::CREATE | open::EXCLUSIVE;
        let answers = ask_all(channel, &puts, |batch, put| {
            let attrs = create(put, &bundle.items);
            batch.push(kind::OPEN, |r| r.bytes(&put.path).number(flags).attrs(&attrs))
        });
        let (mut made, mut refused) = (Vec::new(), Vec::new());
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
                Err(e) if is_unexplained(&e) => refused.push((put, e)),
                Err(e) => fail(&mut bundle.items[put.index], self.explain(e)),
            }
        }
        (made, refused)
    }

    /// The name is taken: a leftover of ours is removed, another file is replaced by a rename.
    fn create_again(&self, channel: &Channel, put: &mut Put, item: &Item) -> Result<Handle> {
        if !put.staged {
            put.staged = true;
            put.path = join(&self.dir(&item.entry.name.dir)?, &self.names.leaf(&item.entry.name.leaf, item.entry.stamp()));
        }
        self.remove_file(&put.path, "remove leftover")?;
        let attrs = Attrs { mode: Some(0o600), ..Attrs::default() };
        let flags = open::WRITE | open::CREATE | open::EXCLUSIVE;
        // Handles belong to the channel that opened them.
        let answer = channel.ask(kind::OPEN, |r| r.bytes(&put.path).number(flags).attrs(&attrs))?;
        client::handle(&answer, "create")
    }

    fn fill_all(&self, bundle: &mut Bundle, channel: &Channel, puts: Vec<Put>) -> Vec<Put> {
        let (block, keep) = (self.client.write_most, bundle.keep);
        // The owner of a new file is known only once it exists.
        let mut now = vec![None; puts.len()];
        if keep.any(OWNERS) {
            let answers = ask_all(channel, &puts, |batch, put| batch.push(kind::FSTAT, |r| r.bytes(&put.handle)));
            for (now, answer) in now.iter_mut().zip(answers) {
                *now = answer.and_then(|answer| attrs(&answer, "stat")).ok().and_then(|attrs| attrs.owner);
            }
        }
        // Some servers serve requests in any order: times are set after the content has been confirmed, and the owner before
        // the mode, of which it would clear bits.
        let in_order = self.client.in_order();
        let mut batch = channel.batch();
        let mut in_flight = Vec::new();
        for (put, now) in puts.into_iter().zip(now) {
            let item = &bundle.items[put.index];
            let bytes = &bundle.data[item.at.clone()];
            let mut steps: Vec<(Step, Ticket)> = Vec::new();
            for (n, part) in bytes.chunks(block).enumerate().take(if in_order { 1 } else { usize::MAX }) {
                let at = (n * block) as u64;
                steps.push((Step::Write, batch.push(kind::WRITE, |r| r.bytes(&put.handle).long(at).bytes(part))));
            }
            let change = owner_of(&item.entry, keep, now);
            if let Some(change) = &change {
                steps.push((Step::Owner, batch.push(kind::FSETSTAT, |r| r.bytes(&put.handle).attrs(change))));
            }
            // Whether it can be given away is not known yet: setuid bits come when it has been.
            let owned = now == Some((item.entry.uid, item.entry.gid));
            in_flight.push((put, owned, steps));
        }
        // What could not be sent is answered with the reason.
        let _ = batch.send();
        let mut written = Vec::with_capacity(in_flight.len());
        for (mut put, owned, steps) in in_flight {
            let mut outcome = self.outcome(channel, steps, keep, &mut put.landed);
            if in_order && outcome.is_ok() {
                let bytes = &bundle.data[bundle.items[put.index].at.clone()];
                let mut rest = bytes.chunks(block).enumerate().skip(1);
                outcome = rest.try_for_each(|(n, part)| {
                    let at = (n * block) as u64;
                    let answer = channel.ask(kind::WRITE, |r| r.bytes(&put.handle).long(at).bytes(part))?;
                    self.client.written(done(&answer, "write"))
                });
            }
            written.push((put, owned, outcome));
        }
        self.close_all(bundle, channel, written)
    }

    /// After the content: mode, times, sync, close.
    fn close_all(&self, bundle: &mut Bundle, channel: &Channel, written: Vec<(Put, bool, Result<()>)>) -> Vec<Put> {
        let (keep, sync) = (bundle.keep, bundle.sync && self.client.extensions.fsync);
        let mut batch = channel.batch();
        let mut in_flight = Vec::new();
        for (put, owned, outcome) in written {
            let item = &bundle.items[put.index];
            let mut steps: Vec<(Step, Ticket)> = Vec::new();
            let mut rest = rest_of(&item.entry, keep, owned);
            if put.staged {
                rest.mode = rest.mode.or_else(|| Some(self.mode_at(&put.target, &item.entry)));
            }
            if outcome.is_ok() && rest != Attrs::default() {
                steps.push((Step::Rest, batch.push(kind::FSETSTAT, |r| r.bytes(&put.handle).attrs(&rest))));
            }
            if outcome.is_ok() && sync {
                steps.push((Step::Sync, batch.push(kind::EXTENDED, |r| r.bytes(b"fsync@openssh.com").bytes(&put.handle))));
            }
            steps.push((Step::Close, batch.push(kind::CLOSE, |r| r.bytes(&put.handle))));
            in_flight.push((put, outcome, steps));
        }
        let _ = batch.send();
        let mut filled = Vec::new();
        for (mut put, outcome, steps) in in_flight {
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

    /// The first failure of a file's steps; attributes that could not be set count as refused.
    fn outcome(&self, channel: &Channel, steps: Vec<(Step, Ticket)>, keep: MetaMask, landed: &mut WriteOutcome) -> Result<()> {
        let mut outcome = Ok(());
        for (step, ticket) in steps {
            let answer = self.client.written(channel.wait(&ticket).and_then(|answer| done(&answer, step.word())));
            let soft = |e: &Error| e.kind() == ErrorKind::Denied || is_unexplained(e);
            match (step, answer) {
                (_, Ok(())) => {}
                (Step::Owner, Err(e)) if soft(&e) => {
                    landed.refused = landed.refused.with(keep.and(OWNERS));
                }
                (Step::Rest, Err(e)) if soft(&e) => {
                    landed.refused = landed.refused.with(refusal(&e, keep.and(MetaMask::MODE.with(MetaMask::MTIME))));
                }
                (_, Err(e)) if outcome.is_ok() => outcome = Err(e),
                _ => {}
            }
        }
        outcome
    }

    fn name_all(&self, bundle: &mut Bundle, channel: &Channel, puts: Vec<Put>) {
        let (staged, direct): (Vec<Put>, Vec<Put>) = puts.into_iter().partition(|put| put.staged);
        for put in direct {
            bundle.items[put.index].outcome = Outcome::Written(put.landed);
        }
        let answers = ask_all(channel, &staged, |batch, put| self.rename_request(batch, &put.path, &put.target));
        for (put, answer) in staged.into_iter().zip(answers) {
            let named = match answer.and_then(|answer| done(&answer, "rename")) {
                Err(e) if may_exist(&e) => self.replace(&put.path, &put.target),
                named => named,
            };
            match named {
                Ok(()) => bundle.items[put.index].outcome = Outcome::Written(put.landed),
                Err(e) => {
                    remove_staged(channel, &put.path);
                    fail(&mut bundle.items[put.index], e);
                }
            }
        }
    }

    /// setuid and setgid bits, of files that are known to be whose they should be.
    fn set_special_bits(&self, bundle: &mut Bundle, keep: MetaMask) {
        let special = |item: &&mut Item| matches!(item.outcome, Outcome::Written(_)) && item.entry.mode & 0o6000 != 0;
        let mut items: Vec<&mut Item> = bundle.items.iter_mut().filter(special).collect();
        let specs: Vec<MetaSpec<'_>> = items.iter().map(|item| MetaSpec { name: &item.entry.name, entry: &item.entry, keep }).collect();
        let set = self.set_meta(&specs);
        for (item, set) in items.iter_mut().zip(set) {
            if let (Outcome::Written(landed), Ok(set)) = (&mut item.outcome, set) {
                landed.refused = landed.refused.with(set.refused);
            }
        }
    }
}

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

/// Removes what was written of a file that failed, but not by another login: a lost host would be contacted once per file.
/// What stays is in the journal.
fn remove_staged(channel: &Channel, path: &[u8]) {
    if !channel.is_over() {
        // What cannot be removed stays.
        let _ = channel.ask(kind::REMOVE, |r| r.bytes(path));
    }
}
