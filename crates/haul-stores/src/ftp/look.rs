//! Look-ups and listings: by MLST and MLSD, or by SIZE, MDTM, CWD and LIST where a server lacks those.

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Found};

use super::data::Failed;
use super::dialect;
use super::facts::{Facts, time};
use super::features::{cannot, get};
use super::paths;
use super::reply::Reply;
use super::session::Session;
use super::store::Shared;
use crate::staging::Shown;

/// Paths that are looked up in one round trip.
const FEW: usize = 4;

fn absent(op: &'static str) -> Error {
    Error::new(ErrorKind::NotFound, op).because("no such file or directory")
}

/// What a refusal to tell of a name means.
fn refused(reply: &Reply, op: &'static str) -> Error {
    let e = reply.failure(op);
    if reply.is_vague() || e.kind() == ErrorKind::NotFound { absent(op) } else { e }
}

impl Session {
    /// What is at each path; of links, what they point to if `follow`. `mode`: permissions are wanted where they take a request
    /// more.
    pub fn look_all(&mut self, paths: &[&[u8]], mode: bool, follow: bool, op: &'static str) -> Vec<Result<Facts>> {
        if self.features.mlst.is_none() {
            return self.look_plain(paths, mode && !follow, op);
        }
        let replies = self.ask_each("MLST", paths.iter().copied(), op);
        let mut found: Vec<Result<Facts>> = replies.into_iter().map(|reply| reply.and_then(|reply| facts_of(&reply, op))).collect();
        if follow {
            let links: Vec<usize> =
                (0..found.len()).filter(|i| matches!(&found[*i], Ok(facts) if facts.kind == Some(Kind::Link))).collect();
            let targets: Vec<&[u8]> = links.iter().map(|i| paths[*i]).collect();
            for (i, target) in links.into_iter().zip(self.look_plain(&targets, false, op)) {
                found[i] = target.map_err(|e| match e.kind() {
                    ErrorKind::NotFound => e.because("the symlink points to nothing"),
                    _ => e,
                });
            }
        }
        found
    }

    pub fn look(&mut self, path: &[u8], mode: bool, op: &'static str) -> Result<Facts> {
        self.look_all(&[path], mode, false, op).pop().unwrap_or_else(|| Err(absent(op)))
    }

    /// SIZE and MDTM of each; what has neither may be a directory.
    fn look_plain(&mut self, paths: &[&[u8]], mode: bool, op: &'static str) -> Vec<Result<Facts>> {
        let (size, mdtm) = (get(&self.features.size), get(&self.features.mdtm));
        if !size {
            return paths.iter().map(|path| self.look_listed(path, op)).collect();
        }
        // A few paths are asked all at once, whatever they turn out to be: one round trip in place of three.
        let words: &[&str] = if mdtm { &["SIZE", "MDTM", "CWD"] } else { &["SIZE", "CWD"] };
        let words = if paths.len() <= FEW { words } else { &words[..words.len() - 1] };
        let mut replies = self.ask_words(words, paths, op).into_iter();
        let sizes = replies.next().unwrap_or_default();
        let mut times = if mdtm { replies.next().unwrap_or_default() } else { Vec::new() }.into_iter();
        let entered = replies.next();
        let mut found: Vec<Result<Option<Facts>>> = Vec::with_capacity(paths.len());
        for reply in sizes {
            let modified = times.next().transpose().map(|reply| reply.and_then(|reply| modified(&reply)));
            found.push(reply.and_then(|reply| {
                let modified = modified?;
                if matches!(reply.code, 500 | 502) {
                    cannot(&self.features.size);
                }
                let file = |size| Facts { kind: Some(Kind::File), size: Some(size), modified, ..Facts::default() };
                Ok(reply.size().map(file))
            }));
        }
        let others: Vec<usize> = (0..found.len()).filter(|i| matches!(found[*i], Ok(None))).collect();
        let entered = match entered {
            Some(entered) => entered.into_iter().enumerate().filter(|(i, _)| others.contains(i)).map(|(_, reply)| reply).collect(),
            None => self.ask_each("CWD", others.iter().map(|i| paths[*i]), op),
        };
        for (i, entered) in others.into_iter().zip(entered) {
            found[i] = entered.and_then(|reply| match reply.is_done() {
                true => Ok(Some(Facts { kind: Some(Kind::Dir), ..Facts::default() })),
                false if get(&self.features.size) => Err(refused(&reply, op)),
                false => self.look_listed(paths[i], op).map(Some),
            });
        }
        let found = found.into_iter().map(|found| found.and_then(|found| found.ok_or_else(|| absent(op))));
        let mut found: Vec<Result<Facts>> = found.collect();
        if mode {
            for (facts, path) in found.iter_mut().zip(paths) {
                if let Ok(facts) = facts {
                    self.complete(facts, path, op);
                }
            }
        }
        found
    }

    /// Adds what only `ls` tells: that a file is a link, and its mode. A server that does not say keeps it to itself.
    fn complete(&mut self, facts: &mut Facts, path: &[u8], op: &'static str) {
        let leaf = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if facts.kind != Some(Kind::File) || leaf.is_empty() {
            return;
        }
        let Ok(reply) = self.ask("STAT", path, op) else { return };
        let lines: Vec<&[u8]> = reply.more.iter().map(Vec::as_slice).collect();
        for line in lines.into_iter().filter(|_| matches!(reply.code, 211..=213)) {
            let Some((listed, name)) = dialect::parse(line).ok().and_then(|mut all| all.pop()) else { continue };
            if name == leaf || name == path {
                facts.mode = listed.mode;
                if listed.kind == Some(Kind::Link) {
                    (facts.kind, facts.target) = (listed.kind, listed.target);
                }
            }
        }
    }

    /// By the listing of the directory above.
    fn look_listed(&mut self, path: &[u8], op: &'static str) -> Result<Facts> {
        let at = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (above, leaf) = (&path[..at.max(1)], &path[at + 1..]);
        if leaf.is_empty() {
            return Ok(Facts { kind: Some(Kind::Dir), ..Facts::default() });
        }
        let listed = self.read_dir(above, op)?;
        listed.into_iter().find(|(_, name)| name == leaf).map(|(facts, _)| facts).ok_or_else(|| absent(op))
    }

    /// The names of a directory.
    pub fn read_dir(&mut self, path: &[u8], op: &'static str) -> Result<Vec<(Facts, Vec<u8>)>> {
        if self.features.mlst.is_none() {
            return self.read_plain_dir(path, op);
        }
        let listing = self.fetch("MLSD", path, op).map_err(|failed| match failed {
            Failed::Reply(reply) if matches!(reply.code, 500 | 501 | 550) => refused(&reply, op),
            failed => failed.into_error(op),
        })?;
        let is_file = |facts: Result<Facts>| facts.is_ok_and(|facts| facts.kind == Some(Kind::File));
        let (mut found, mut shows_itself) = (Vec::new(), false);
        for line in listing.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let (facts, name) = Facts::parse(line).ok_or_else(|| unknown(&haul_core::entry::show(line), op))?;
            shows_itself |= facts.is_self;
            if !facts.is_self && !matches!(name, b"." | b"..") {
                found.push((facts, name.to_vec()));
            }
        }
        // Asked for the names in a file, some servers describe the file.
        let leaf = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if !shows_itself && found.len() == 1 && found[0].1 == leaf && self.look_all(&[path], false, true, op).pop().is_some_and(is_file) {
            return Err(Error::new(ErrorKind::NotFound, op).because("it is not a directory"));
        }
        // Some servers say that there is a link, and only LIST says where it leads.
        let unread = |facts: &Facts| facts.kind == Some(Kind::Link) && facts.target.is_none();
        if found.iter().any(|(facts, _)| unread(facts)) {
            let lines = self.read_lines(path, op)?;
            for (facts, name) in found.iter_mut().filter(|(facts, _)| unread(facts)) {
                facts.target = lines.iter().find(|(_, known)| known == name).and_then(|(line, _)| line.target.clone());
            }
        }
        Ok(found)
    }

    /// LIST, with the times that MDTM gives: those of the lines lack seconds, or the hour, and are of any zone.
    fn read_plain_dir(&mut self, path: &[u8], op: &'static str) -> Result<Vec<(Facts, Vec<u8>)>> {
        let mut found = self.read_lines(path, op)?;
        found.iter_mut().for_each(|(facts, _)| facts.modified = None);
        if get(&self.features.mdtm) {
            let is_file = |facts: &Facts| facts.kind == Some(Kind::File);
            let files: Vec<Vec<u8>> = found.iter().filter(|(facts, _)| is_file(facts)).map(|(_, name)| paths::join(path, name)).collect();
            let mut times = self.ask_each("MDTM", files.iter().map(Vec::as_slice), op).into_iter();
            for (facts, _) in found.iter_mut().filter(|(facts, _)| is_file(facts)) {
                facts.modified = match times.next() {
                    Some(Ok(reply)) => modified(&reply),
                    Some(Err(e)) if e.kind() != ErrorKind::BadName => return Err(e),
                    _ => None,
                };
            }
        }
        Ok(found)
    }

    fn read_lines(&mut self, path: &[u8], op: &'static str) -> Result<Vec<(Facts, Vec<u8>)>> {
        // Not as an argument: a path with blanks, or with a `*`, would be read in many ways.
        let entered = self.ask("CWD", path, op)?;
        if !entered.is_done() {
            return Err(refused(&entered, op));
        }
        let hidden = get(&self.features.lists_all);
        let listing = match self.fetch("LIST", if hidden { b"-a" } else { b"" }, op) {
            Err(Failed::Reply(reply)) if hidden && reply.code / 100 == 5 => {
                cannot(&self.features.lists_all);
                self.fetch("LIST", b"", op)
            }
            listing => listing,
        };
        let listing = listing.map_err(|failed| failed.into_error(op))?;
        dialect::parse(&listing).map_err(|line| unknown(&line, op))
    }
}

fn unknown(line: &str, op: &'static str) -> Error {
    let line: String = line.chars().take(200).collect();
    let e = Error::new(ErrorKind::Unsupported, op).because(format!("the server lists in an unknown format: {line}"));
    e.hint("name the files, one by one or with --files-from")
}

fn modified(reply: &Reply) -> Option<haul_core::entry::Time> {
    (reply.code == 213).then(|| time(std::str::from_utf8(reply.text.trim_ascii()).ok()?)).flatten()
}

/// The facts in a reply to MLST.
pub fn facts_of(reply: &Reply, op: &'static str) -> Result<Facts> {
    if !reply.is_done() {
        return Err(refused(reply, op));
    }
    let line = |line: &'_ Vec<u8>| {
        let line = line.strip_prefix(b" ").unwrap_or(line);
        Facts::parse(line).map(|(facts, _)| facts).filter(|facts| facts.kind.is_some())
    };
    let facts = reply.more.iter().find_map(line);
    facts.ok_or_else(|| Error::new(ErrorKind::Other, op).because(format!("the server named no facts: {}", reply.shown())))
}

/// The directory above a path.
fn above(path: &[u8]) -> &[u8] {
    let at = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..at.max(1).min(path.len())]
}

impl Shared {
    fn entry(&self, facts: Facts, name: Name, directory: &[u8]) -> Entry {
        facts.relative_to(&self.root, directory).entry(name)
    }

    pub fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        let path = self.path(name, "stat")?;
        if path == b"/" {
            return Ok(Facts { kind: Some(Kind::Dir), ..Facts::default() }.entry(name.clone()));
        }
        let facts = self.pool.take()?.look(&path, want.has(MetaMask::MODE), "stat")?;
        Ok(self.entry(facts, name.clone(), above(&path)))
    }

    pub fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], follow: bool) -> Vec<Found> {
        const OP: &str = "stat";
        let names: Vec<Name> = leaves.iter().map(|leaf| Name::new(dir, leaf)).collect();
        let paths: Vec<Result<Vec<u8>>> = names.iter().map(|name| self.path(name, OP)).collect();
        let asked: Vec<&[u8]> = paths.iter().filter_map(|path| path.as_deref().ok()).collect();
        let found = match self.pool.take() {
            Ok(mut session) => session.look_all(&asked, false, follow, OP),
            Err(e) => asked.iter().map(|_| Err(e.again())).collect(),
        };
        let mut found = found.into_iter();
        let directory = self.dir(dir, OP).unwrap_or_default();
        let one = |(path, name): (Result<Vec<u8>>, Name)| match path.and_then(|_| found.next().unwrap_or_else(|| Err(absent(OP)))) {
            Ok(facts) => Found::Entry(self.entry(facts, name, &directory)),
            Err(e) if e.kind() == ErrorKind::NotFound && e.reason() != "the symlink points to nothing" => Found::Absent,
            Err(e) => Found::Failed(e.on(&name)),
        };
        paths.into_iter().zip(names).map(one).collect()
    }

    pub fn list(&self, dir: &Dir, shown: Shown, each: &mut dyn FnMut(Result<Entry>) -> Flow) -> Result<()> {
        let path = self.dir(dir, "list")?;
        let found = self.pool.take()?.read_dir(&path, "list")?;
        for (facts, leaf) in found {
            let flow = match check_leaf(&leaf) {
                Ok(()) if shown.admits(&leaf) => each(Ok(self.entry(facts, Name::new(dir, &leaf), &path))),
                Ok(()) => Flow::Go,
                Err(reason) => {
                    let e = Error::new(ErrorKind::BadName, "list").on(&Name::of(dir));
                    each(Err(e.because(format!("the server sent an invalid name: {reason}"))))
                }
            };
            if flow == Flow::Stop {
                break;
            }
        }
        Ok(())
    }
}
