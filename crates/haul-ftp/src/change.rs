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

/// What a server cannot keep of what is wanted.
pub fn lost_of(entry: &Entry, keep: MetaMask, sets: MetaMask) -> MetaMask {
    let extended = MetaMask::XATTR.with(MetaMask::ACL).with(MetaMask::CONTEXT);
    let lost = keep.without(sets).without(MetaMask::BASIC);
    lost.without(extended.without(entry.xattr_classes()))
}

/// Commands, each with the attribute that it sets.
type Settings = Vec<(MetaMask, Vec<u8>)>;

/// The commands that set what is kept; the time last.
pub fn settings(path: &[u8], entry: &Entry, keep: MetaMask, mfmt: bool) -> Result<Settings> {
    let mut commands = Vec::new();
    if keep.has(MetaMask::MODE) {
        let mode = format!("CHMOD {:03o} ", entry.mode & 0o777);
        commands.push((MetaMask::MODE, command("SITE", &[mode.as_bytes(), path].concat())?));
    }
    if let Some(time) = shown_time(entry.mtime).filter(|_| keep.has(MetaMask::MTIME)) {
        let word = if mfmt { "MFMT" } else { "MDTM" };
        commands.push((MetaMask::MTIME, command(word, &[time.as_bytes(), b" ", path].concat())?));
    }
    Ok(commands)
}

impl Shared {
    /// The size of the file at a path, and its attributes set, in one round trip where the server lists facts; what was refused is in
    /// the result.
    pub fn size_and_set(&self, session: &mut Session, path: &[u8], entry: &Entry, keep: MetaMask) -> Result<(Option<u64>, WriteOutcome)> {
        const OP: &str = "commit";
        let word = match self.features.mlst.is_some() {
            true => "MLST",
            false if get(&self.features.size) => "SIZE",
            false => {
                let size = session.look(path, false, OP)?.size;
                return Ok((size, self.set_at(session, path, entry, keep)?));
            }
        };
        let mut refused = lost_of(entry, keep, self.sets);
        let (masks, commands): (Vec<_>, Vec<_>) = settings(path, entry, keep.and(self.sets), self.features.mfmt)?.into_iter().unzip();
        let commands = [&[command(word, path)?], &commands[..]].concat();
        let mut replies = session.control.ask_all(&commands, OP).into_iter();
        let found = replies.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, OP)))?;
        let size = if word == "SIZE" { found.done(OP).map(|found| found.size()) } else { facts_of(&found, OP).map(|facts| facts.size) };
        for (mask, reply) in masks.into_iter().zip(replies) {
            if !reply?.is_done() {
                refused = refused.with(mask);
            }
        }
        Ok((size?, WriteOutcome { refused, ino: 0 }))
    }

    /// Sets attributes of what is at a path; what was refused is in the result.
    pub fn set_at(&self, session: &mut Session, path: &[u8], entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        let mut refused = lost_of(entry, keep, self.sets);
        let (masks, commands): (Vec<_>, Vec<_>) = settings(path, entry, keep.and(self.sets), self.features.mfmt)?.into_iter().unzip();
        for (mask, reply) in masks.into_iter().zip(session.control.ask_all(&commands, "set attributes")) {
            if !reply?.is_done() {
                refused = refused.with(mask);
            }
        }
        Ok(WriteOutcome { refused, ino: 0 })
    }

    pub fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        const OP: &str = "set attributes";
        if specs.is_empty() {
            return Vec::new();
        }
        let proofs = self.prove(&specs.iter().map(|spec| &*spec.name.leaf).collect::<Vec<_>>());
        let mut session = match self.pool.take() {
            Ok(session) => session,
            Err(e) => return specs.iter().map(|spec| Err(e.again().on(spec.name))).collect(),
        };
        let prepare = |(spec, proof): (&MetaSpec<'_>, Result<()>)| {
            proof.and_then(|()| settings(&self.path(spec.name, OP)?, spec.entry, spec.keep.and(self.sets), self.features.mfmt))
        };
        let prepared: Vec<Result<Settings>> = specs.iter().zip(proofs).map(prepare).collect();
        let commands: Vec<Vec<u8>> = prepared.iter().flatten().flatten().map(|(_, command)| command.clone()).collect();
        let mut replies = session.control.ask_all(&commands, OP).into_iter();
        let mut results = Vec::with_capacity(specs.len());
        for (spec, prepared) in specs.iter().zip(prepared) {
            let mut landed = WriteOutcome { refused: lost_of(spec.entry, spec.keep, self.sets), ino: 0 };
            let mut outcome = prepared.map(|prepared| prepared.into_iter().map(|(mask, _)| mask).collect::<Vec<_>>());
            for mask in outcome.as_mut().map(std::mem::take).unwrap_or_default() {
                match replies.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, OP))) {
                    Ok(reply) if reply.is_done() => {}
                    Ok(_) => landed.refused = landed.refused.with(mask),
                    Err(e) => outcome = Err(e),
                }
            }
            results.push(outcome.map(|_| landed));
        }
        // Looked at only now: the replies before had to be read in their order.
        for (spec, result) in specs.iter().zip(&mut results) {
            let refused = matches!(result, Ok(landed) if landed.refused.any(spec.keep.and(self.sets)));
            if let Some(e) = refused.then(|| self.path(spec.name, OP).and_then(|path| session.look(&path, false, OP)).err()).flatten() {
                *result = Err(e);
            }
        }
        results.into_iter().zip(specs).map(|(result, spec)| result.map_err(|e| e.on(spec.name))).collect()
    }

    pub fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        const OP: &str = "mkdir";
        let names: Vec<Name> = dirs.iter().map(|(dir, _)| Name::of(dir)).collect();
        let proofs = self.prove(&names.iter().map(|name| &*name.leaf).collect::<Vec<_>>());
        let mut session = match self.pool.take() {
            Ok(session) => session,
            Err(e) => return names.iter().map(|name| Err(e.again().on(name))).collect(),
        };
        let paths = names.iter().zip(proofs).map(|(name, proof)| proof.and_then(|()| self.path(name, OP)));
        let paths: Vec<Result<Vec<u8>>> = paths.collect();
        let made = session.ask_each("MKD", paths.iter().filter_map(|path| path.as_deref().ok()), OP);
        let mut made = made.into_iter();
        let replies: Vec<Result<(Vec<u8>, Reply)>> = paths
            .into_iter()
            .map(|path| {
                let path = path?;
                let reply = made.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, OP)))?;
                Ok((path, reply))
            })
            .collect();
        let mut settle = |(path, reply): (Vec<u8>, Reply)| {
            if reply.is_done() {
                return Ok(true);
            }
            match session.look(&path, false, OP) {
                Ok(Facts { kind: Some(Kind::Dir), .. }) => Ok(false),
                Ok(_) => Err(Error::new(ErrorKind::Exists, OP).because("a non-directory exists under that name")),
                Err(e) if e.kind() == ErrorKind::NotFound => Err(explain_write(&mut session, &path, Failed::Reply(reply), OP)),
                Err(e) => Err(e),
            }
        };
        replies.into_iter().zip(&names).map(|(reply, name)| reply.and_then(&mut settle).map_err(|e| e.on(name))).collect()
    }

    pub fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        const OP: &str = "remove";
        if entries.is_empty() {
            return Vec::new();
        }
        let proofs = self.prove(&entries.iter().map(|entry| &*entry.name.leaf).collect::<Vec<_>>());
        let mut session = match self.pool.take() {
            Ok(session) => session,
            Err(e) => return entries.iter().map(|entry| Err(e.again().on(&entry.name))).collect(),
        };
        let word = |entry: &Entry| if entry.kind == Kind::Dir { "RMD" } else { "DELE" };
        let request = |(entry, proof): (&Entry, Result<()>)| {
            proof.and_then(|()| self.target(&entry.name, OP)).and_then(|path| command(word(entry), &path))
        };
        let commands: Vec<Result<Vec<u8>>> = entries.iter().zip(proofs).map(request).collect();
        let sent: Vec<Vec<u8>> = commands.iter().filter_map(|command| command.as_ref().ok().cloned()).collect();
        let mut replies = session.control.ask_all(&sent, OP).into_iter();
        let replies: Vec<Result<Reply>> = commands
            .into_iter()
            .map(|command| command.and_then(|_| replies.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, OP)))))
            .collect();
        let mut settle = |entry: &Entry, reply: Reply| {
            if reply.is_done() {
                return Ok(());
            }
            let (e, path) = (reply.failure(OP), self.target(&entry.name, OP)?);
            match session.look(&path, false, OP) {
                Err(absent) if absent.kind() == ErrorKind::NotFound => Err(absent),
                Ok(Facts { kind: Some(Kind::Dir), .. }) if entry.kind == Kind::Dir => match session.read_dir(&path, OP) {
                    Ok(listing) if !listing.names.is_empty() => {
                        Err(Error::new(ErrorKind::Exists, OP).because("the directory is not empty"))
                    }
                    _ => Err(e),
                },
                _ if reply.is_vague() => Err(e.kind_is(ErrorKind::Denied)),
                _ => Err(e),
            }
        };
        replies
            .into_iter()
            .zip(entries)
            .map(|(reply, entry)| reply.and_then(|reply| settle(entry, reply)).map_err(|e| e.on(&entry.name)))
            .collect()
    }

    pub fn rename(&self, from: &Name, to: &Name, over: bool) -> Result<()> {
        self.take_over(self, from, to, over)
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
