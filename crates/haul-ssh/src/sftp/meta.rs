//! Directories, links, attributes, removal: many requests at once, their answers sorted out afterwards.

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{MetaSpec, WriteOutcome};

use super::channel::{Answer, Channel};
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

pub(super) const OWNERS: MetaMask = MetaMask(MetaMask::OWNER.0 | MetaMask::GROUP.0);

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

/// Those paths that there are, with their indices.
fn known(paths: &[Result<Vec<u8>>]) -> impl Iterator<Item = (usize, &[u8])> {
    paths.iter().enumerate().filter_map(|(i, path)| Some((i, &path.as_ref().ok()?[..])))
}

/// The results of those paths that there were, in their order, and the errors of the others.
fn with_results<T>(paths: Vec<Result<Vec<u8>>>, results: Vec<Result<T>>) -> impl Iterator<Item = Result<T>> {
    let mut results = results.into_iter();
    let next = move || results.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Other, "ask")));
    paths.into_iter().scan(next, |next, path| Some(path.and_then(|_| next())))
}

/// The attributes of what is at those paths that are `wanted`, with their indices.
fn lstat_all(
    channel: &Channel,
    paths: &[Result<Vec<u8>>],
    op: &'static str,
    wanted: impl Fn(usize) -> bool,
) -> Vec<(usize, Result<Attrs>)> {
    let asked: Vec<(usize, &[u8])> = known(paths).filter(|(i, _)| wanted(*i)).collect();
    let answers = ask_all(channel, &asked, |batch, (_, path)| batch.push(kind::LSTAT, |r| r.bytes(path)));
    asked.into_iter().zip(answers).map(|((i, _), answer)| (i, answer.and_then(|answer| attrs(&answer, op)))).collect()
}

impl Shared {
    pub(super) fn make_dirs(&self, dirs: &[(&Dir, u32)]) -> Vec<Result<bool>> {
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return dirs.iter().map(|(dir, _)| Err(e.again().on(&Name::of(dir)))).collect(),
        };
        let names: Vec<Name> = dirs.iter().map(|(dir, _)| Name::of(dir)).collect();
        let paths: Vec<Result<Vec<u8>>> = names.iter().map(|name| self.path(name, "mkdir")).collect();
        let asked: Vec<(usize, &[u8])> = known(&paths).collect();
        let answers = ask_all(&channel, &asked, |batch, (i, path)| {
            let attrs = Attrs { mode: Some((dirs[*i].1 & 0o777) | 0o700), ..Attrs::default() };
            batch.push(kind::MKDIR, |r| r.bytes(path).attrs(&attrs))
        });
        let made = |((_, path), answer): ((usize, &[u8]), Result<Answer>)| match done(&answer?, "mkdir") {
            Ok(()) => Ok(true),
            // Servers answer "failure" for a directory that exists.
            Err(e) => match self.look(path) {
                Ok((there, None)) if there.kind() == Kind::Dir => Ok(false),
                Ok(_) => Err(Error::new(ErrorKind::Exists, "mkdir").because("a non-directory exists under that name")),
                Err(_) => Err(self.explain(e)),
            },
        };
        let made = asked.into_iter().zip(answers).map(made).collect();
        with_results(paths, made).zip(&names).map(|(made, name)| made.map_err(|e| e.on(name))).collect()
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
            done(&channel.wait(&made)?, "create")?;
            let size = attrs(&channel.wait(&look)?, "stat").ok().filter(|there| there.kind() == Kind::Link).and_then(|there| there.size);
            match one_name(&channel.wait(&read)?, "read link") {
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
        let mut paths: Vec<Result<Vec<u8>>> = specs.iter().map(|spec| self.path(spec.name, "set attributes")).collect();
        let mut refused: Vec<MetaMask> = specs.iter().map(|spec| lost_of(spec.entry, spec.keep)).collect();
        let owned = self.set_owners(&channel, specs, &mut paths, &mut refused);
        let rest = |i: usize| {
            let MetaSpec { entry, keep, .. } = specs[i];
            let keep = if entry.kind == Kind::Link { keep.without(MetaMask::MODE.with(MetaMask::SETID)) } else { keep };
            rest_of(entry, keep, owned[i])
        };
        for (i, attrs, set) in self.set_all(&channel, specs, &paths, rest) {
            let unset = match set {
                Ok(()) => continue,
                Err(e) if specs[i].entry.kind == Kind::Link && e.kind() != ErrorKind::NotFound => MetaMask::MTIME,
                Err(e) if e.kind() == ErrorKind::Denied || is_unexplained(&e) => {
                    let mode = if attrs.mode.is_some() { MetaMask::MODE } else { MetaMask::NONE };
                    refusal(&e, if attrs.times.is_some() { mode.with(MetaMask::MTIME) } else { mode })
                }
                Err(e) => {
                    paths[i] = Err(e);
                    continue;
                }
            };
            refused[i] = refused[i].with(unset);
        }
        let outcomes = paths.into_iter().zip(refused).map(|(path, refused)| path.map(|_| WriteOutcome { refused, ino: 0 }));
        outcomes.zip(specs).map(|(outcome, spec)| outcome.map_err(|e| e.on(spec.name))).collect()
    }

    /// The mode of a file that is put at a path where modes are not kept: that of the file there; of a new one the owner's bits, as the
    /// server's mask is not known.
    pub(super) fn mode_at(&self, path: &[u8], entry: &Entry) -> u32 {
        let old = self.lstat(path).ok().filter(|old| old.kind() == Kind::File);
        old.and_then(|old| old.mode).map_or(0o755 & (entry.mode | 0o600), |mode| mode & 0o777)
    }

    /// Sets owners first: which bits of the mode may be set depends on whether they are right, which is returned.
    fn set_owners(&self, channel: &Channel, specs: &[MetaSpec<'_>], paths: &mut [Result<Vec<u8>>], refused: &mut [MetaMask]) -> Vec<bool> {
        let (mut owned, mut changes) = (vec![true; specs.len()], vec![Attrs::default(); specs.len()]);
        for (i, there) in lstat_all(channel, paths, "stat", |i| specs[i].keep.any(OWNERS.with(MetaMask::SETID))) {
            match there {
                Ok(there) => {
                    owned[i] = is_owned(specs[i].entry, there.owner);
                    changes[i] = owner_of(specs[i].entry, specs[i].keep, there.owner).unwrap_or_default();
                }
                Err(e) => paths[i] = Err(e),
            }
        }
        for (i, change, set) in self.set_all(channel, specs, paths, |i| changes[i]) {
            owned[i] = set.is_ok() && is_owned(specs[i].entry, change.owner);
            if set.is_err() {
                refused[i] = refused[i].with(specs[i].keep.and(OWNERS));
            }
        }
        owned
    }

    /// Sets what is `wanted` at the paths that there are, unless it is nothing: their indices, what was to be set, and the results.
    fn set_all(
        &self,
        channel: &Channel,
        specs: &[MetaSpec<'_>],
        paths: &[Result<Vec<u8>>],
        wanted: impl Fn(usize) -> Attrs,
    ) -> Vec<(usize, Attrs, Result<()>)> {
        let mut asked: Vec<(usize, &[u8], Attrs)> = known(paths).map(|(i, path)| (i, path, wanted(i))).collect();
        asked.retain(|(.., attrs)| *attrs != Attrs::default());
        let answers = ask_all(channel, &asked, |batch, (i, path, attrs)| set_request(self, batch, specs[*i].entry.kind, path, attrs));
        let done = |answer: Result<Answer>| answer.and_then(|answer| done(&answer, "set attributes"));
        asked.into_iter().zip(answers).map(|((i, _, attrs), answer)| (i, attrs, done(answer))).collect()
    }

    pub(super) fn remove(&self, entries: &[Entry]) -> Vec<Result<()>> {
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return entries.iter().map(|entry| Err(e.again().on(&entry.name))).collect(),
        };
        let path = |entry: &Entry| checked(&entry.name, "remove").and_then(|_| self.path(&entry.name, "remove"));
        let mut paths: Vec<Result<Vec<u8>>> = entries.iter().map(path).collect();
        self.look_before_removing(&channel, entries, &mut paths);
        let asked: Vec<(usize, &[u8])> = known(&paths).collect();
        let answers = ask_all(&channel, &asked, |batch, (i, path)| {
            batch.push(if entries[*i].kind == Kind::Dir { kind::RMDIR } else { kind::REMOVE }, |r| r.bytes(path))
        });
        let removed = |((i, path), answer): ((usize, &[u8]), Result<Answer>)| match done(&answer?, "remove") {
            Err(e) if may_exist(&e) => Err(self.why_not_removed(path, &entries[i], e)),
            removed => removed,
        };
        let removed = asked.into_iter().zip(answers).map(removed).collect();
        with_results(paths, removed).zip(entries).map(|(removed, entry)| removed.map_err(|e| e.on(&entry.name))).collect()
    }

    /// Without inodes, size and time are what distinguishes a file from another of the same name.
    fn look_before_removing(&self, channel: &Channel, entries: &[Entry], paths: &mut [Result<Vec<u8>>]) {
        let is_known = |i: usize| entries[i].kind == Kind::File && entries[i].have.has(MetaMask::BASIC.with(MetaMask::MTIME));
        for (i, there) in lstat_all(channel, paths, "remove", is_known) {
            let entry = &entries[i];
            let same = |there: Attrs| there.size == Some(entry.size) && there.mtime() == Time { nanos: 0, ..entry.mtime };
            match there {
                Ok(there) if same(there) => {}
                Ok(_) => paths[i] = Err(Error::new(ErrorKind::Changed, "remove").because("the file changed (size or time)")),
                Err(e) => paths[i] = Err(e),
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
