//! Directories made, names removed and renamed, attributes set.

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{MetaSpec, WriteOutcome};

use super::control::command;
use super::data::Failed;
use super::facts::{Facts, shown_time};
use super::features::get;
use super::look::{above, facts_of};
use super::reply::Reply;
use super::session::Session;
use super::store::Shared;
use haul_core::store::staging::aside;

/// A refusal to make or to replace `target`, explained by a look at it where the server does not say why.
pub fn explain_write(session: &mut Session, target: &[u8], failed: Failed, op: &'static str) -> Error {
    let reply = match failed {
        Failed::Reply(reply) => reply,
        Failed::Error(e) => return e,
    };
    let e = reply.failure(op);
    // The system's word for a directory in the way is that this is not permitted.
    let unclear = reply.is_vague() || matches!(e.kind(), ErrorKind::Exists | ErrorKind::Denied);
    if !matches!(reply.code, 450 | 451 | 500 | 501 | 550 | 551 | 553) || !unclear {
        return e;
    }
    match session.look(target, false, op) {
        Ok(facts) if facts.kind == Some(Kind::Dir) => Error::new(ErrorKind::Exists, op).because("a directory has this name"),
        Err(absent) if absent.kind() == ErrorKind::NotFound => match session.look(above(target), false, op) {
            Err(absent) if absent.kind() == ErrorKind::NotFound => absent.because("the directory above does not exist"),
            Ok(facts) if facts.kind != Some(Kind::Dir) => Error::new(ErrorKind::NotFound, op).because("the directory above is a file"),
            _ => e.kind_is(ErrorKind::Denied),
        },
        _ => e.kind_is(ErrorKind::Denied),
    }
}

/// Removes a file; no error if there is none.
pub fn remove_file(session: &mut Session, path: &[u8], op: &'static str) -> Result<()> {
    let reply = session.ask("DELE", path, op)?;
    if reply.is_done() {
        return Ok(());
    }
    let e = reply.failure(op);
    if e.kind() == ErrorKind::NotFound {
        return Ok(());
    }
    match session.look(path, false, op) {
        Err(absent) if absent.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(e),
    }
}

/// Gives `from` the name `to`, replacing any file, in one step where the server can.
pub fn replace(session: &mut Session, from: &[u8], to: &[u8], op: &'static str) -> Result<()> {
    let Some(refused) = rename(session, from, to, op)? else { return Ok(()) };
    match session.look(to, false, op) {
        Ok(facts) if facts.kind == Some(Kind::File) && refused.code != 421 => {
            // Nothing makes room for a file that is not there.
            session.look(from, false, op)?;
            // A server that does not replace: the old file is kept until the new one has its name.
            let aside = aside(to);
            if rename(session, to, &aside, op)?.is_some() {
                return Err(refused.failure(op));
            }
            if let Some(second) = rename(session, from, to, op)? {
                // The error that counts is the first.
                let _ = rename(session, &aside, to, op);
                return Err(second.failure(op));
            }
            remove_file(session, &aside, op)
        }
        _ => Err(explain_write(session, to, Failed::Reply(refused), op)),
    }
}

/// The reply that refused it, if one did.
fn rename(session: &mut Session, from: &[u8], to: &[u8], op: &'static str) -> Result<Option<Reply>> {
    let commands = [command("RNFR", from)?, command("RNTO", to)?];
    let mut replies = session.control.ask_all(&commands, op).into_iter();
    let (first, second) = (replies.next().transpose()?, replies.next().transpose()?);
    // Of the two the first refusal says why.
    let first = first.filter(|reply| !reply.needs_more() && !reply.is_done());
    Ok(first.or(second.filter(|reply| !reply.is_done())))
}

/// The commands that set attributes, and what of these a file does not get.
pub struct Settings {
    masks: Vec<MetaMask>,
    pub commands: Vec<Vec<u8>>,
    /// What the server has no command for.
    lost: MetaMask,
}

impl Settings {
    /// `replies`: those to the commands.
    pub fn outcome(&self, replies: &[Reply]) -> WriteOutcome {
        let refused = self.masks.iter().zip(replies).filter(|(_, reply)| !reply.is_done());
        WriteOutcome { refused: refused.fold(self.lost, |refused, (mask, _)| refused.with(*mask)), ino: 0 }
    }
}

impl Shared {
    /// What sets attributes of the file at a path; the time last.
    pub fn settings(&self, path: &[u8], entry: &Entry, keep: MetaMask) -> Result<Settings> {
        let extended = MetaMask::XATTR.with(MetaMask::ACL).with(MetaMask::CONTEXT);
        let lost = keep.without(self.sets).without(MetaMask::BASIC).without(extended.without(entry.xattr_classes()));
        let keep = keep.and(self.sets);
        let mut settings = Settings { masks: Vec::new(), commands: Vec::new(), lost };
        let mut add = |mask, word, value: &str| {
            settings.masks.push(mask);
            command(word, &[value.as_bytes(), b" ", path].concat()).map(|command| settings.commands.push(command))
        };
        if keep.has(MetaMask::MODE) {
            add(MetaMask::MODE, "SITE", &format!("CHMOD {:03o}", entry.mode & 0o777))?;
        }
        if let Some(time) = shown_time(entry.mtime).filter(|_| keep.has(MetaMask::MTIME)) {
            add(MetaMask::MTIME, if self.features.mfmt { "MFMT" } else { "MDTM" }, &time)?;
        }
        Ok(settings)
    }

    /// What is asked to learn how much of a file the server has, where that takes no listing.
    pub fn size_command(&self, path: &[u8]) -> Option<Vec<u8>> {
        let word = if self.features.mlst.is_some() { "MLST" } else { "SIZE" };
        let can = word == "MLST" || get(&self.features.size);
        can.then(|| command(word, path).ok()).flatten()
    }

    /// The size of the file at a path, and its attributes set, in one round trip where the server lists facts; what was refused is in
    /// the result.
    pub fn size_and_set(&self, session: &mut Session, path: &[u8], entry: &Entry, keep: MetaMask) -> Result<(Option<u64>, WriteOutcome)> {
        const OP: &str = "commit";
        let settings = self.settings(path, entry, keep)?;
        let commands: Vec<Vec<u8>> = settings.commands.iter().cloned().chain(self.size_command(path)).collect();
        let replies: Vec<Reply> = session.control.ask_all(&commands, OP).into_iter().collect::<Result<_>>()?;
        let (set, sized) = replies.split_at(settings.commands.len());
        let size = match sized.first() {
            None => session.look(path, false, OP)?.size,
            Some(found) if self.features.mlst.is_some() => facts_of(found, OP)?.size,
            Some(found) => found.clone().done(OP)?.size(),
        };
        Ok((size, settings.outcome(set)))
    }

    /// Sends what `request` makes of each name, all at once, unless the server does not keep the name; `settle` judges the replies.
    fn each_name<T>(
        &self,
        names: &[&Name],
        op: &'static str,
        request: impl Fn(usize) -> Result<Vec<Vec<u8>>>,
        mut settle: impl FnMut(&mut Session, usize, Vec<Reply>) -> Result<T>,
    ) -> Vec<Result<T>> {
        if names.is_empty() {
            return Vec::new();
        }
        let proofs = self.prove(&names.iter().map(|name| &*name.leaf).collect::<Vec<_>>());
        let mut session = match self.pool.take() {
            Ok(session) => session,
            Err(e) => return names.iter().map(|name| Err(e.again().on(name))).collect(),
        };
        let requests: Vec<Result<Vec<Vec<u8>>>> =
            proofs.into_iter().enumerate().map(|(i, proof)| proof.and_then(|()| request(i))).collect();
        let commands: Vec<Vec<u8>> = requests.iter().flatten().flatten().cloned().collect();
        let mut replies = session.control.ask_all(&commands, op).into_iter();
        let mut own = |commands: Vec<Vec<u8>>| replies.by_ref().take(commands.len()).collect::<Vec<_>>().into_iter().collect();
        // All are read before anything else is asked.
        let answers: Vec<Result<Vec<Reply>>> = requests.into_iter().map(|request| request.and_then(&mut own)).collect();
        let settled = answers.into_iter().enumerate().map(|(i, replies)| replies.and_then(|replies| settle(&mut session, i, replies)));
        settled.zip(names).map(|(outcome, name)| outcome.map_err(|e| e.on(name))).collect()
    }

    pub fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        const OP: &str = "set attributes";
        let names: Vec<&Name> = specs.iter().map(|spec| spec.name).collect();
        let settings = |i: usize| self.settings(&self.path(names[i], OP)?, specs[i].entry, specs[i].keep);
        let request = |i| Ok(settings(i)?.commands);
        self.each_name(&names, OP, request, |session, i, replies| {
            let outcome = settings(i)?.outcome(&replies);
            if outcome.refused.any(specs[i].keep.and(self.sets)) {
                session.look(&self.path(names[i], OP)?, false, OP)?;
            }
            Ok(outcome)
        })
    }

    pub fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        const OP: &str = "mkdir";
        let names: Vec<Name> = dirs.iter().map(|(dir, _)| Name::of(dir)).collect();
        let names: Vec<&Name> = names.iter().collect();
        let request = |i: usize| Ok(vec![command("MKD", &self.path(names[i], OP)?)?]);
        self.each_name(&names, OP, request, |session, i, mut replies| {
            let Some(reply) = replies.pop().filter(|reply| !reply.is_done()) else { return Ok(true) };
            let path = self.path(names[i], OP)?;
            match session.look(&path, false, OP) {
                Ok(Facts { kind: Some(Kind::Dir), .. }) => Ok(false),
                Ok(_) => Err(Error::new(ErrorKind::Exists, OP).because("a non-directory exists under that name")),
                Err(e) if e.kind() == ErrorKind::NotFound => Err(explain_write(session, &path, Failed::Reply(reply), OP)),
                Err(e) => Err(e),
            }
        })
    }

    pub fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        const OP: &str = "remove";
        let names: Vec<&Name> = entries.iter().map(|entry| &entry.name).collect();
        let word = |i: usize| if entries[i].kind == Kind::Dir { "RMD" } else { "DELE" };
        let request = |i: usize| Ok(vec![command(word(i), &self.target(names[i], OP)?)?]);
        self.each_name(&names, OP, request, |session, i, mut replies| {
            let Some(reply) = replies.pop().filter(|reply| !reply.is_done()) else { return Ok(()) };
            let (e, path) = (reply.failure(OP), self.target(names[i], OP)?);
            match session.look(&path, false, OP) {
                Err(absent) if absent.kind() == ErrorKind::NotFound => Err(absent),
                Ok(Facts { kind: Some(Kind::Dir), .. }) if entries[i].kind == Kind::Dir => match session.read_dir(&path, OP) {
                    Ok(listing) if !listing.names.is_empty() => {
                        Err(Error::new(ErrorKind::Exists, OP).because("the directory is not empty"))
                    }
                    _ => Err(e),
                },
                _ if reply.is_vague() => Err(e.kind_is(ErrorKind::Denied)),
                _ => Err(e),
            }
        })
    }

    /// Gives an entry of another directory of this server a name here, with all that is in it; in place of a file if `over`.
    pub fn take_over(&self, other: &Shared, from: &Name, to: &Name, over: bool) -> Result<()> {
        const OP: &str = "rename";
        let (from, target) = (other.exact(from, OP)?, self.exact(to, OP)?);
        let mut session = self.pool.take()?;
        let there = session.look(&target, false, OP);
        match there {
            Ok(_) if !over => return Err(Error::new(ErrorKind::Exists, OP).on(to)),
            Ok(Facts { kind: Some(Kind::Dir), .. }) => {
                return Err(Error::new(ErrorKind::Exists, OP).on(to).because("a directory has this name"));
            }
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        session.look(&from, false, OP)?;
        replace(&mut session, &from, &target, OP)
    }
}
