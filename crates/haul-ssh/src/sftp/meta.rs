//! Directories, links, attributes, removal: many requests at once, their answers sorted out afterwards.

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{MetaSpec, WriteOutcome};

use super::channel::Channel;
use super::client::{ask_all, attrs, done, is_unexplained, may_exist, one_name};
use super::packet::{Attrs, is_beyond, kind, seconds};
use super::{Shared, checked, join};
use haul_core::store::staging::staging_leaf;

/// The owner change that an entry needs; `None` where there is none.
pub(super) fn owner_of(entry: &Entry, keep: MetaMask, now: Option<(u32, u32)>) -> Option<Attrs> {
    let keep = keep.and(entry.have);
    let (user, group) = (keep.has(MetaMask::OWNER), keep.has(MetaMask::GROUP));
    // The protocol sets both or neither.
    let (uid, gid) = match (user, group, now) {
        (true, true, _) => (entry.uid, entry.gid),
        (true, false, Some((_, gid))) => (entry.uid, gid),
        (false, true, Some((uid, _))) => (uid, entry.gid),
        _ => return None,
    };
    (Some((uid, gid)) != now).then(|| Attrs { owner: Some((uid, gid)), ..Attrs::default() })
}

/// Mode and times; setuid and setgid bits only where the owner was kept.
pub(super) fn rest_of(entry: &Entry, keep: MetaMask, owner_kept: bool) -> Attrs {
    let keep = keep.and(entry.have.with(MetaMask::SETID));
    let special = if keep.has(MetaMask::SETID) && owner_kept { 0o6000 } else { 0 };
    let sticky = if entry.kind == Kind::Dir { 0o1000 } else { 0 };
    Attrs {
        mode: keep.has(MetaMask::MODE).then_some(entry.mode & (0o777 | special | sticky)),
        times: keep.has(MetaMask::MTIME).then(|| (seconds(entry.mtime), seconds(entry.mtime))),
        ..Attrs::default()
    }
}

/// The mode of a new file where modes are not kept and the server's mask is not known.
pub(super) fn usual_mode(entry: &Entry) -> u32 {
    0o755 & (entry.mode | 0o600)
}

/// The attributes of an entry that SFTP cannot carry.
pub(super) fn lost_of(entry: &Entry, keep: MetaMask) -> MetaMask {
    let time = if is_beyond(entry.mtime) { keep.and(entry.have).and(MetaMask::MTIME) } else { MetaMask::NONE };
    keep.and(entry.xattr_classes()).with(time)
}

fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Broken | ErrorKind::TimedOut)
}

/// Mode and time that a server did not set, and whether for want of permission.
pub(super) fn refusal(error: &Error, attributes: MetaMask) -> MetaMask {
    let denied = error.kind() == ErrorKind::Denied && !attributes.is_empty();
    if denied { attributes.with(MetaMask::DENIED) } else { attributes }
}

/// Whether owner and group of what is there are those of the entry.
fn is_owned(entry: &Entry, there: Option<(u32, u32)>) -> bool {
    there == Some((entry.uid, entry.gid))
}

impl Shared {
    pub(super) fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return dirs.iter().map(|(dir, _)| Err(e.again().on(&Name::of(dir)))).collect(),
        };
        let names: Vec<Name> = dirs.iter().map(|(dir, _)| Name::of(dir)).collect();
        let paths: Vec<Result<Vec<u8>>> = names.iter().map(|name| self.path(name, "mkdir")).collect();
        let asked: Vec<(&[u8], u32)> =
            paths.iter().zip(dirs).filter_map(|(path, (_, mode))| Some((&path.as_ref().ok()?[..], *mode))).collect();
        let mut answers = ask_all(&channel, &asked, |batch, (path, mode)| {
            let attrs = Attrs { mode: Some((mode & 0o777) | 0o700), ..Attrs::default() };
            batch.push(kind::MKDIR, |r| r.bytes(path).attrs(&attrs))
        })
        .into_iter();
        paths
            .into_iter()
            .zip(&names)
            .map(|(path, name)| {
                let path = path?;
                let answer = answers.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, "mkdir")))?;
                match done(&answer, "mkdir") {
                    Ok(()) => Ok(true),
                    // Servers answer "failure" for a directory that exists.
                    Err(e) => match self.look(&path) {
                        Ok((there, None)) if there.kind() == Kind::Dir => Ok(false),
                        Ok(_) => Err(Error::new(ErrorKind::Exists, "mkdir").because("a non-directory exists under that name")),
                        Err(_) => Err(self.explain(e)),
                    },
                }
                .map_err(|e| e.on(name))
            })
            .collect()
    }

    pub(super) fn make_node(&self, name: &Name, entry: &Entry, keep: MetaMask) -> Result<WriteOutcome> {
        let leaf = checked(name, "create")?;
        if entry.kind != Kind::Link {
            return Err(Error::new(ErrorKind::Unsupported, "create").because("SFTP cannot create special files"));
        }
        let above = self.dir(&name.dir)?;
        let path = join(&above, leaf);
        let target = entry.target.as_deref().unwrap_or_default();
        // OpenSSH has the two in the reverse order of the draft, and so have all others since.
        let link = |at: &[u8]| {
            let channel = self.client.channel()?;
            let mut batch = channel.batch();
            let made = batch.push(kind::SYMLINK, |r| r.bytes(target).bytes(at));
            let (look, read) = (batch.push(kind::LSTAT, |r| r.bytes(at)), batch.push(kind::READLINK, |r| r.bytes(at)));
            batch.send()?;
            done(&channel.wait(made)?, "create")?;
            let size = attrs(&channel.wait(look)?, "stat").ok().filter(|there| there.kind() == Kind::Link).and_then(|there| there.size);
            match one_name(&channel.wait(read)?, "read link") {
                Ok(got) if !may_hold(target, &got, size) => {
                    // Better none than one that leads elsewhere; that it cannot be removed changes nothing of the failure.
                    let _ = self.remove_file(at, "remove");
                    let e = Error::new(ErrorKind::Other, REWRITTEN);
                    Err(e.because(format!("the server made the symlink lead to {} instead of {}", show(&got), show(target))))
                }
                _ => Ok(()),
            }
        };
        if let Err(e) = link(&path) {
            if e.op() == REWRITTEN || is_lost(&e) {
                return Err(e);
            }
            match self.lstat(&path) {
                Ok(there) if there.kind() == Kind::Dir => {
                    return Err(Error::new(ErrorKind::Exists, "create").because("a directory has this name"));
                }
                Ok(_) => {
                    let staging = join(&above, &staging_leaf(leaf, entry.stamp()));
                    self.remove_file(&staging, "remove leftover")?;
                    link(&staging)?;
                    self.replace(&staging, &path).inspect_err(|_| drop(self.remove_file(&staging, "remove")))?;
                }
                Err(_) => return Err(self.explain(e)),
            }
        }
        let keep = keep.without(MetaMask::MODE.with(MetaMask::SETID));
        let specs = [MetaSpec { name, entry, keep }];
        match self.set_meta(&specs).pop() {
            Some(Err(e)) if is_lost(&e) => Err(e),
            // The link is there; what cannot be set of it is refused, not a failure.
            set => Ok(set.and_then(Result::ok).unwrap_or(WriteOutcome { refused: keep, ino: 0 })),
        }
    }

    pub(super) fn make_hard_link(&self, name: &Name, existing: &Name) -> Result<()> {
        if !self.client.extensions.hardlink {
            return Err(Error::new(ErrorKind::Unsupported, "link"));
        }
        let (leaf, from) = (checked(name, "link")?, self.path(existing, "link")?);
        let above = self.dir(&name.dir)?;
        let path = join(&above, leaf);
        let channel = self.client.channel()?;
        let link = |at: &[u8]| {
            let answer = channel.ask(kind::EXTENDED, |r| r.bytes(b"hardlink@openssh.com").bytes(&from).bytes(at))?;
            done(&answer, "link")
        };
        let Err(e) = link(&path) else { return Ok(()) };
        match self.lstat(&path) {
            Ok(there) if there.kind() == Kind::Dir => Err(Error::new(ErrorKind::Exists, "link").because("a directory has this name")),
            Ok(_) => {
                let first = self.lstat(&from)?;
                if first.kind() == Kind::Dir {
                    return Err(Error::new(ErrorKind::Usage, "link").because("directories cannot be hard-linked"));
                }
                let staging = join(&above, &staging_leaf(leaf, Default::default()));
                self.remove_file(&staging, "remove leftover")?;
                link(&staging)?;
                let replaced = self.replace(&staging, &path);
                // Where the two are one file already a rename leaves both names.
                self.remove_file(&staging, "remove")?;
                replaced
            }
            Err(_) => Err(e),
        }
    }

    pub(super) fn set_meta(&self, specs: &[MetaSpec<'_>]) -> Vec<Result<WriteOutcome>> {
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return specs.iter().map(|spec| Err(e.again().on(spec.name))).collect(),
        };
        let paths: Vec<Result<Vec<u8>>> = specs.iter().map(|spec| self.path(spec.name, "set attributes")).collect();
        let mut open: Vec<(usize, &[u8])> = paths.iter().enumerate().filter_map(|(i, path)| Some((i, &path.as_ref().ok()?[..]))).collect();
        let mut results: Vec<Result<WriteOutcome>> =
            specs.iter().map(|spec| Ok(WriteOutcome { refused: lost_of(spec.entry, spec.keep), ino: 0 })).collect();
        let mut owned = vec![true; specs.len()];
        self.set_owners(&channel, specs, &mut open, &mut results, &mut owned);
        let wanted: Vec<(usize, &[u8], Attrs)> = open
            .iter()
            .map(|(i, path)| {
                let MetaSpec { entry, keep, .. } = specs[*i];
                let keep = if entry.kind == Kind::Link { keep.without(MetaMask::MODE.with(MetaMask::SETID)) } else { keep };
                (*i, *path, rest_of(entry, keep, owned[*i]))
            })
            .filter(|(_, _, attrs)| *attrs != Attrs::default())
            .collect();
        let answers = ask_all(&channel, &wanted, |batch, (i, path, attrs)| set_request(self, batch, specs[*i].entry.kind, path, attrs));
        for ((i, _, attrs), answer) in wanted.iter().zip(answers) {
            let set = match answer.and_then(|answer| done(&answer, "set attributes")) {
                Err(e) if specs[*i].entry.kind == Kind::Link && e.kind() != ErrorKind::NotFound => Err(MetaMask::MTIME),
                Err(e) if e.kind() == ErrorKind::Denied || is_unexplained(&e) => {
                    let mode = if attrs.mode.is_some() { MetaMask::MODE } else { MetaMask::NONE };
                    Err(refusal(&e, if attrs.times.is_some() { mode.with(MetaMask::MTIME) } else { mode }))
                }
                Err(e) => {
                    results[*i] = Err(e.on(specs[*i].name));
                    continue;
                }
                Ok(()) => Ok(()),
            };
            if let (Err(refused), Ok(landed)) = (set, &mut results[*i]) {
                landed.refused = landed.refused.with(refused);
            }
        }
        for (result, (path, spec)) in results.iter_mut().zip(paths.into_iter().zip(specs)) {
            if let Err(e) = path {
                *result = Err(e.on(spec.name));
            }
        }
        results
    }

    /// Sets owners first: which bits of the mode may be set depends on the result.
    fn set_owners(
        &self,
        channel: &Channel,
        specs: &[MetaSpec<'_>],
        open: &mut Vec<(usize, &[u8])>,
        results: &mut [Result<WriteOutcome>],
        owned: &mut [bool],
    ) {
        let asks = |spec: &MetaSpec<'_>| spec.keep.any(MetaMask::OWNER.with(MetaMask::GROUP).with(MetaMask::SETID));
        let about: Vec<(usize, &[u8])> = open.iter().filter(|(i, _)| asks(&specs[*i])).copied().collect();
        let answers = ask_all(channel, &about, |batch, (_, path)| batch.push(kind::LSTAT, |r| r.bytes(path)));
        let mut changes = Vec::new();
        for ((i, path), answer) in about.iter().zip(answers) {
            match answer.and_then(|answer| attrs(&answer, "stat")) {
                Ok(there) => {
                    owned[*i] = is_owned(specs[*i].entry, there.owner);
                    if let Some(change) = owner_of(specs[*i].entry, specs[*i].keep, there.owner) {
                        changes.push((*i, *path, change));
                    }
                }
                Err(e) => {
                    results[*i] = Err(e.on(specs[*i].name));
                    open.retain(|(other, _)| other != i);
                }
            }
        }
        let answers = ask_all(channel, &changes, |batch, (i, path, attrs)| set_request(self, batch, specs[*i].entry.kind, path, attrs));
        for ((i, _, change), answer) in changes.iter().zip(answers) {
            let set = answer.and_then(|answer| done(&answer, "set owner"));
            owned[*i] = set.is_ok() && is_owned(specs[*i].entry, change.owner);
            if let (Err(_), Ok(landed)) = (set, &mut results[*i]) {
                landed.refused = landed.refused.with(specs[*i].keep.and(MetaMask::OWNER.with(MetaMask::GROUP)));
            }
        }
    }

    pub(super) fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return entries.iter().map(|entry| Err(e.again().on(&entry.name))).collect(),
        };
        let path = |entry: &Entry| checked(&entry.name, "remove").and_then(|_| self.path(&entry.name, "remove"));
        let mut paths: Vec<Result<Vec<u8>>> = entries.iter().map(path).collect();
        self.look_before_removing(&channel, entries, &mut paths);
        let asked: Vec<(&[u8], Kind)> =
            paths.iter().zip(entries).filter_map(|(path, entry)| Some((&path.as_ref().ok()?[..], entry.kind))).collect();
        let mut answers = ask_all(&channel, &asked, |batch, (path, kind)| {
            batch.push(if *kind == Kind::Dir { kind::RMDIR } else { kind::REMOVE }, |r| r.bytes(path))
        })
        .into_iter();
        paths
            .into_iter()
            .zip(entries)
            .map(|(path, entry)| {
                let path = path?;
                let answer = answers.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, "remove")))?;
                let removed = match done(&answer, "remove") {
                    Err(e) if may_exist(&e) => Err(self.why_not_removed(&path, entry, e)),
                    removed => removed,
                };
                removed.map_err(|e| e.on(&entry.name))
            })
            .collect()
    }

    /// Without inodes, size and time are what distinguishes a file from another of the same name.
    fn look_before_removing(&self, channel: &Channel, entries: &[Entry], paths: &mut [Result<Vec<u8>>]) {
        let known = |entry: &Entry| entry.kind == Kind::File && entry.have.has(MetaMask::BASIC.with(MetaMask::MTIME));
        let about: Vec<usize> = (0..entries.len()).filter(|i| known(&entries[*i]) && paths[*i].is_ok()).collect();
        let answers = ask_all(channel, &about, |batch, i| {
            let path = paths[*i].as_deref().unwrap_or_default();
            batch.push(kind::LSTAT, |r| r.bytes(path))
        });
        for (i, answer) in about.into_iter().zip(answers) {
            let entry = &entries[i];
            let same = |there: &Attrs| there.size == Some(entry.size) && there.mtime() == Time { nanos: 0, ..entry.mtime };
            match answer.and_then(|answer| attrs(&answer, "remove")) {
                Ok(there) if same(&there) => {}
                Ok(_) => {
                    let e = Error::new(ErrorKind::Changed, "remove").because("the file changed (size or time)");
                    paths[i] = Err(e.on(&entry.name));
                }
                Err(e) => paths[i] = Err(e.on(&entry.name)),
            }
        }
    }

    fn why_not_removed(&self, path: &[u8], entry: &Entry, e: Error) -> Error {
        match self.lstat(path) {
            Ok(there) if entry.kind == Kind::Dir && there.kind() == Kind::Dir => {
                Error::new(ErrorKind::Exists, "remove").because("Directory not empty")
            }
            Ok(there) if entry.kind != Kind::Unknown && there.kind() != entry.kind => {
                Error::new(ErrorKind::Changed, "remove").because(format!("it is a {} now", there.kind().word()))
            }
            Err(gone) if gone.kind() == ErrorKind::NotFound => gone,
            _ => e,
        }
    }

    pub(super) fn rename(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let (from, to) = (
            checked(from, "rename").and_then(|_| self.path(from, "rename"))?,
            checked(to, "rename").and_then(|_| self.path(to, "rename"))?,
        );
        if replace {
            return self.replace(&from, &to);
        }
        self.rename_new(&from, &to)
    }

    /// Gives a new name to what is at a path. `Exists` where something has it.
    pub(super) fn rename_new(&self, from: &[u8], to: &[u8]) -> Result<()> {
        // The plain RENAME of version 3 must not replace anything, but some servers do.
        match self.lstat(to) {
            Ok(_) => return Err(Error::new(ErrorKind::Exists, "rename")),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let answer = self.client.channel()?.ask(kind::RENAME, |r| r.bytes(from).bytes(to))?;
        match done(&answer, "rename") {
            Err(e) if may_exist(&e) && self.lstat(to).is_ok() => Err(Error::new(ErrorKind::Exists, "rename")),
            renamed => renamed,
        }
    }
}

/// The operation of errors about a link that leads elsewhere.
const REWRITTEN: &str = "create symlink";

/// Whether a link that reads `got` may hold `target`: a server that resolves what it reports is believed.
fn may_hold(target: &[u8], got: &[u8], size: Option<u64>) -> bool {
    if got == target {
        return true;
    }
    let same_size = size.is_none_or(|size| size == 0 || size == target.len() as u64);
    same_size && got.starts_with(b"/") && !target.starts_with(b"/") && {
        let leaf = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let last = leaf(target);
        // Links on the way of what was resolved may have changed all but the name.
        matches!(&last[..], b"" | b"." | b"..") || size == Some(target.len() as u64) || leaf(got) == last
    }
}

/// A link's own attributes need an extension; the plain request would follow it.
fn set_request(shared: &Shared, batch: &mut super::channel::Batch<'_>, what: Kind, path: &[u8], attrs: &Attrs) -> super::channel::Ticket {
    match what {
        Kind::Link if shared.client.extensions.lsetstat => {
            batch.push(kind::EXTENDED, |r| r.bytes(b"lsetstat@openssh.com").bytes(path).attrs(attrs))
        }
        // Refused by every server, so that nothing is followed.
        Kind::Link => batch.push(kind::EXTENDED, |r| r.bytes(b"lsetstat@openssh.com").bytes(path)),
        _ => batch.push(kind::SETSTAT, |r| r.bytes(path).attrs(attrs)),
    }
}
