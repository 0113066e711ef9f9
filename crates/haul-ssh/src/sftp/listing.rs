//! Listings and look-ups, many requests in flight at once.

use haul_core::entry::{Dir, Entry, Kind, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Found};

use super::Shared;
use super::channel::{Channel, Ticket};
use super::client::{self, ask_all, attrs, entry, fill, handle, names, one_name};
use super::packet::{Attrs, kind};
use haul_core::store::staging::Shown;

/// Requests for more names in flight per directory: servers send a hundred names at a time or fewer.
const AHEAD: usize = 64;

/// The target of the link at `path` as it was written. Some servers (ProFTPD) make an absolute path of a relative one;
/// the size of the link shows that, and the shortest relative path of this size from the link's directory is assumed. `None` where
/// there is none of this size: the server reports something else than what the link holds.
pub(super) fn as_written(path: &[u8], target: Vec<u8>, size: Option<u64>) -> Option<Vec<u8>> {
    // Some servers know no sizes of links.
    if !target.starts_with(b"/") || size.is_none_or(|size| size == 0 || size == target.len() as u64) {
        return Some(target);
    }
    let parts = |path: &[u8]| path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (mut from, to) = (parts(path), parts(&target));
    from.pop();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let relative: Vec<&[u8]> = std::iter::repeat_n(&b".."[..], from.len() - common).chain(to[common..].iter().map(Vec::as_slice)).collect();
    let relative = relative.join(&b'/');
    (Some(relative.len() as u64) == size).then_some(relative)
}

impl Shared {
    pub(super) fn stat(&self, name: &Name) -> Result<Entry> {
        let path = self.path(name, "stat")?;
        let (mut attrs, target) = self.look(&path)?;
        if target.is_some() && attrs.kind() != Kind::Link {
            // The attributes are the target's; of the link itself only the mode is known, which all links share.
            attrs = Attrs { mode: Some(0o120_777), ..Attrs::default() };
        }
        let mut entry = entry(name.clone(), &attrs);
        if entry.kind == Kind::Unknown {
            return Err(Error::new(ErrorKind::Unsupported, "stat").because("the server does not report its type"));
        }
        entry.target = target.and_then(|target| as_written(&path, target, attrs.size)).map(Into::into);
        Ok(entry)
    }

    pub(super) fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], follow: bool) -> Vec<Found> {
        let channel = match self.client.channel() {
            Ok(channel) => channel,
            Err(e) => return leaves.iter().map(|leaf| Found::Failed(e.again().on(&Name::new(dir, leaf)))).collect(),
        };
        let above = match self.dir(dir) {
            Ok(above) => above,
            // A directory that is not there has nothing in it.
            Err(e) if e.kind() == ErrorKind::NotFound => return leaves.iter().map(|_| Found::Absent).collect(),
            Err(e) => return leaves.iter().map(|leaf| Found::Failed(e.again().on(&Name::new(dir, leaf)))).collect(),
        };
        let which = if follow { kind::STAT } else { kind::LSTAT };
        let bad = |leaf: &[u8]| check_leaf(leaf).err();
        let answers = ask_all(&channel, leaves, |batch, leaf| {
            // An invalid name is not sent: the request is for the directory, and its answer is ignored.
            let path = if bad(leaf).is_some() { above.clone() } else { super::join(&above, leaf) };
            batch.push(which, |r| r.bytes(&path))
        });
        let mut found: Vec<Found> = leaves
            .iter()
            .zip(answers)
            .map(|(leaf, answer)| {
                let name = Name::new(dir, leaf);
                if let Some(reason) = bad(leaf) {
                    return Found::Failed(Error::new(ErrorKind::BadName, "stat").on(&name).because(reason));
                }
                match answer.and_then(|answer| attrs(&answer, "stat")) {
                    Ok(attrs) => Found::Entry(entry(name, &attrs)),
                    Err(e) if e.kind() == ErrorKind::NotFound => Found::Absent,
                    Err(e) => Found::Failed(e.on(&name)),
                }
            })
            .collect();
        if follow {
            self.mark_dangling(&channel, &above, dir, leaves, &mut found);
        }
        self.read_links(&channel, &above, &mut found, &[]);
        found
    }

    /// With `follow` a link may exist and its target not.
    fn mark_dangling(&self, channel: &Channel, above: &[u8], dir: &Dir, leaves: &[&[u8]], found: &mut [Found]) {
        let absent: Vec<usize> = found.iter().enumerate().filter(|(_, f)| matches!(f, Found::Absent)).map(|(i, _)| i).collect();
        let answers = ask_all(channel, &absent, |batch, i| batch.push(kind::LSTAT, |r| r.bytes(&super::join(above, leaves[*i]))));
        for (i, answer) in absent.into_iter().zip(answers) {
            if answer.is_ok_and(|answer| attrs(&answer, "stat").is_ok()) {
                let e = Error::new(ErrorKind::NotFound, "stat").on(&Name::new(dir, leaves[i]));
                found[i] = Found::Failed(e.because("the symlink points to nothing"));
            }
        }
    }

    /// `sizes` are those that the server reported, if it did.
    fn read_links(&self, channel: &Channel, above: &[u8], found: &mut [Found], sizes: &[Option<u64>]) {
        let path = |(i, found): (usize, &Found)| match found {
            Found::Entry(entry) if entry.kind == Kind::Link => Some((i, super::join(above, &entry.name.leaf))),
            _ => None,
        };
        let links: Vec<(usize, Vec<u8>)> = found.iter().enumerate().filter_map(path).collect();
        let answers = ask_all(channel, &links, |batch, (_, path)| batch.push(kind::READLINK, |r| r.bytes(path)));
        for ((i, path), answer) in links.iter().zip(answers) {
            let Found::Entry(entry) = &mut found[*i] else { continue };
            match answer.and_then(|answer| one_name(&answer, "read link")) {
                Ok(target) => entry.target = as_written(path, target, sizes.get(*i).copied().flatten()).map(Into::into),
                Err(e) if matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) => {
                    let e = e.on(&entry.name);
                    found[*i] = Found::Failed(e);
                }
                // It can be removed and listed; what has to copy it names it.
                Err(_) => {}
            }
        }
    }

    pub(super) fn list(&self, dir: &Dir, shown: Shown, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        match self.list_once(dir, shown, each) {
            Err(e) if e.kind() == ErrorKind::NotFound && self.has_name(dir) => {
                Err(e.kind_is(ErrorKind::Io).because("its parent directory lists it, but the server does not find it"))
            }
            listed => listed,
        }
    }

    /// Whether a directory that the server does not find is there all the same: servers answer so for one that they may not open.
    fn has_name(&self, dir: &Dir) -> bool {
        let Some(parent) = dir.parent() else { return false };
        let mut found = false;
        let listed = self.list_once(parent, Shown::Names, &mut |entry| {
            found |= entry.is_ok_and(|entry| entry.kind == Kind::Dir && entry.name.leaf == Name::of(dir).leaf);
            if found { Flow::Stop } else { Flow::Go }
        });
        listed.is_ok() && found
    }

    fn list_once(&self, dir: &Dir, shown: Shown, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let channel = self.client.channel()?;
        let path = self.dir(dir)?;
        let _held = channel.hold(1);
        let answer = channel.ask(kind::OPENDIR, |r| r.bytes(&path))?;
        let handle = match handle(&answer, "list") {
            Err(e) if client::is_unexplained(&e) && self.lstat(&path).is_ok_and(|a| a.kind() != Kind::Dir) => {
                return Err(Error::new(ErrorKind::NotFound, "list").because("is not a directory"));
            }
            handle => handle?,
        };
        let listed = self.list_open(&channel, &handle, (dir, &path), shown, each);
        let mut batch = channel.batch();
        // Nothing depends on the answer, or on whether it was sent.
        let _ = batch.push(kind::CLOSE, |r| r.bytes(&handle));
        let _ = batch.send();
        listed
    }

    fn list_open(
        &self,
        channel: &Channel,
        handle: &[u8],
        (dir, path): (&Dir, &[u8]),
        shown: Shown,
        each: &mut dyn FnMut(Result<Entry>) -> Flow,
    ) -> Result<()> {
        let mut under_way: std::collections::VecDeque<Ticket> = std::collections::VecDeque::new();
        let mut ahead = 2;
        let mut ended = false;
        loop {
            if !ended && under_way.len() < ahead {
                let mut batch = channel.batch();
                while under_way.len() < ahead {
                    under_way.push_back(batch.push(kind::READDIR, |r| r.bytes(handle)));
                }
                batch.send()?;
            }
            let Some(ticket) = under_way.pop_front() else { return Ok(()) };
            let answer = channel.wait(&ticket)?;
            if ended {
                // Asked for ahead of the end.
                continue;
            }
            let Some(listed) = names(&answer, "list")?.filter(|listed| !listed.is_empty()) else {
                ended = true;
                continue;
            };
            ahead = (ahead * 2).min(AHEAD);
            let admitted = listed.into_iter().filter(|(leaf, _)| shown.admits(leaf));
            let admitted = admitted.filter_map(|(leaf, attrs)| Some((self.listed(dir, path, &leaf, &attrs)?, attrs.size)));
            let (mut found, sizes): (Vec<Found>, Vec<Option<u64>>) = admitted.unzip();
            self.read_links(channel, path, &mut found, &sizes);
            for found in found {
                let flow = match found {
                    Found::Entry(entry) => each(Ok(entry)),
                    // The listing is to begin again, not this name to fail.
                    Found::Failed(e) if matches!(e.kind(), ErrorKind::Broken | ErrorKind::TimedOut) => return Err(e),
                    Found::Failed(e) => each(Err(e)),
                    Found::Absent => Flow::Go,
                };
                if flow == Flow::Stop {
                    return Ok(());
                }
            }
        }
    }

    /// A name of a listing; `None` for what is not shown.
    fn listed(&self, dir: &Dir, above: &[u8], leaf: &[u8], attrs: &Attrs) -> Option<Found> {
        if leaf == b"." || leaf == b".." {
            return None;
        }
        if let Err(reason) = check_leaf(leaf) {
            let e = Error::new(ErrorKind::BadName, "list").on(&Name::of(dir));
            return Some(Found::Failed(e.because(format!("the server sent an invalid name: {reason}"))));
        }
        let mut entry = entry(Name::new(dir, leaf), attrs);
        if entry.kind == Kind::Unknown {
            // Some servers list names alone.
            match self.lstat(&super::join(above, leaf)) {
                Ok(attrs) => fill(&mut entry, &attrs),
                Err(e) if e.kind() == ErrorKind::NotFound => return None,
                Err(e) => return Some(Found::Failed(e.on(&entry.name))),
            }
        }
        Some(Found::Entry(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::as_written;

    #[test]
    fn a_target_that_a_server_resolved_is_told_by_its_size() {
        for (path, given, size, wanted) in [
            ("/a/b/l", "/a/b/file", 4, Some("file")),
            ("/a/b/c/l", "/a/b/up/x", 7, Some("../up/x")),
            ("/a/b/l", "/", 5, Some("../..")),
            // What may be absolute stays.
            ("/a/b/l", "/a/b/file", 9, Some("/a/b/file")),
            ("/a/b/l", "/a/b/file", 0, Some("/a/b/file")),
            ("/a/b/l", "file", 4, Some("file")),
            // Such as `./file`, or a target outside the directory that the server shows.
            ("/a/b/l", "/a/b/file", 6, None),
        ] {
            let written = as_written(path.as_bytes(), given.into(), Some(size));
            assert_eq!(written.as_deref().map(String::from_utf8_lossy), wanted.map(Into::into), "{path} -> {given}");
        }
        assert_eq!(as_written(b"/l", b"/x".to_vec(), None).as_deref(), Some(&b"/x"[..]));
    }
}
