//! Look-ups and listings: by MLST and MLSD, or by SIZE, MDTM, CWD and LIST where a server lacks those.

use std::sync::atomic::Ordering;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, check_leaf};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Flow, Found};

use super::data::Failed;
use super::dialect::{self, Listing};
use super::facts::{Facts, time};
use super::features::{cannot, get};
use super::paths;
use super::reply::Reply;
use super::session::Session;
use super::store::Shared;
use haul_core::store::staging::Shown;

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

fn leaf_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

impl Session {
    /// What is at each path; of links, what they point to if `follow`. `mode`: permissions are wanted where they take a request
    /// more.
    pub fn look_all(&mut self, paths: &[&[u8]], mode: bool, follow: bool, op: &'static str) -> Vec<Result<Facts>> {
        let features = self.features.clone();
        let is_doubtful = |path: &[u8]| features.kept_names.doubts(leaf_of(path));
        if paths.iter().any(|path| is_doubtful(path)) {
            // A server that keeps another name would answer for that one.
            let (doubtful, others): (Vec<&[u8]>, Vec<&[u8]>) = paths.iter().partition(|path| is_doubtful(path));
            let mut listed = self.look_listed(&doubtful, op).into_iter();
            let mut found = self.look_sent(&others, mode, follow, op).into_iter();
            let next = |path: &&[u8]| if is_doubtful(path) { listed.next() } else { found.next() };
            return paths.iter().map(next).map(|found| found.unwrap_or_else(|| Err(absent(op)))).collect();
        }
        self.look_sent(paths, mode, follow, op)
    }

    /// The same as the server answers for these paths, whatever it takes them for.
    pub fn look_sent(&mut self, paths: &[&[u8]], mode: bool, follow: bool, op: &'static str) -> Vec<Result<Facts>> {
        if self.features.mlst.is_none() {
            return self.look_plain(paths, mode, follow, op);
        }
        let replies = self.ask_each("MLST", paths.iter().copied(), op);
        let mut found: Vec<Result<Facts>> = replies.into_iter().map(|reply| reply.and_then(|reply| facts_of(&reply, op))).collect();
        if follow {
            let links: Vec<usize> =
                (0..found.len()).filter(|i| matches!(&found[*i], Ok(facts) if facts.kind == Some(Kind::Link))).collect();
            let targets: Vec<&[u8]> = links.iter().map(|i| paths[*i]).collect();
            for (i, target) in links.into_iter().zip(self.look_plain(&targets, false, true, op)) {
                found[i] = target.map_err(|e| match e.kind() {
                    ErrorKind::NotFound => e.because("the symlink points to nothing"),
                    _ => e,
                });
            }
        }
        found
    }

    pub fn look(&mut self, path: &[u8], mode: bool, op: &'static str) -> Result<Facts> {
        self.look_sent(&[path], mode, false, op).pop().unwrap_or_else(|| Err(absent(op)))
    }

    /// SIZE and MDTM of each; what has neither may be a directory.
    fn look_plain(&mut self, paths: &[&[u8]], mode: bool, follow: bool, op: &'static str) -> Vec<Result<Facts>> {
        let (size, mdtm) = (get(&self.features.size), get(&self.features.mdtm));
        if !size {
            return self.look_listed(paths, op);
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
                false => self.look_listed(&paths[i..=i], op).pop().transpose(),
            });
        }
        let found = found.into_iter().map(|found| found.and_then(|found| found.ok_or_else(|| absent(op))));
        let mut found: Vec<Result<Facts>> = found.collect();
        if mode {
            self.complete(&mut found, paths, follow, op);
        }
        found
    }

    /// Adds what only `ls` tells of files: that one is a link, its mode, and its time where MDTM does not. Of a link that is followed
    /// nothing is taken. A server that does not say keeps it to itself.
    fn complete(&mut self, found: &mut [Result<Facts>], paths: &[&[u8]], follow: bool, op: &'static str) {
        let is_file = |found: &Result<Facts>| matches!(found, Ok(facts) if facts.kind == Some(Kind::File));
        let files: Vec<usize> = (0..found.len()).filter(|i| is_file(&found[*i])).collect();
        let replies = self.ask_each("STAT", files.iter().map(|i| paths[*i]), op);
        for (i, reply) in files.into_iter().zip(replies) {
            let (Ok(reply), Ok(facts)) = (reply, &mut found[i]) else { continue };
            for line in reply.more.iter().filter(|_| matches!(reply.code, 211..=213)) {
                let Some((listed, name)) = dialect::parse(line).names.pop() else { continue };
                if (name != leaf_of(paths[i]) && name != paths[i]) || (follow && listed.kind == Some(Kind::Link)) {
                    continue;
                }
                facts.mode = listed.mode;
                if facts.modified.is_none() {
                    (facts.modified, facts.is_rough) = (listed.modified, true);
                }
                if listed.kind == Some(Kind::Link) {
                    (facts.kind, facts.target) = (listed.kind, listed.target);
                }
            }
        }
    }

    /// By listings of the directories above, one for paths of one directory that follow each other.
    pub fn look_listed(&mut self, paths: &[&[u8]], op: &'static str) -> Vec<Result<Facts>> {
        let mut last: Option<(&[u8], Result<Listing>)> = None;
        let mut all = Vec::with_capacity(paths.len());
        for path in paths {
            let (directory, leaf) = (above(path), leaf_of(path));
            if leaf.is_empty() {
                all.push(Ok(Facts { kind: Some(Kind::Dir), ..Facts::default() }));
                continue;
            }
            let known = last.take().filter(|(known, _)| *known == directory);
            let (_, listing) = last.insert(known.unwrap_or_else(|| (directory, self.read_dir(directory, op))));
            all.push(listing.as_ref().map_err(Error::again).and_then(|listing| {
                match (listing.names.iter().find(|(_, name)| name == leaf), &listing.unknown) {
                    (Some((facts, _)), _) => Ok(facts.clone()),
                    (None, Some(line)) => Err(unknown(line, op)),
                    (None, None) => Err(absent(op)),
                }
            }));
        }
        all
    }

    /// The names of a directory.
    /// Error: `NotFound` only if the directory above does not list it any more: servers refuse a directory that they may not read as they
    /// refuse one that is not there.
    pub fn read_dir(&mut self, path: &[u8], op: &'static str) -> Result<Listing> {
        let listed = if self.features.mlst.is_some() { self.read_facts(path, op) } else { self.read_plain_dir(path, op) };
        match listed {
            Ok(listing) if listing.is_blank() && get(&self.features.lists_itself) => {
                Err(Error::new(ErrorKind::Denied, op).because("the server lists nothing, not even the directory itself"))
            }
            Ok(listing) => {
                self.features.lists_itself.fetch_or(listing.shows_itself, Ordering::Relaxed);
                Ok(listing)
            }
            Err(Failed::Reply(reply)) if reply.code / 100 == 5 => {
                let e = refused(&reply, op);
                let is_there = |found: Result<Facts>| match found {
                    Ok(facts) => facts.kind != Some(Kind::File),
                    Err(e) => e.kind() != ErrorKind::NotFound,
                };
                match e.kind() == ErrorKind::NotFound && (path == b"/" || self.look_listed(&[path], op).pop().is_some_and(is_there)) {
                    true => Err(reply.failure(op).kind_is(ErrorKind::Denied)),
                    false => Err(e),
                }
            }
            Err(failed) => Err(failed.into_error(op)),
        }
    }

    fn read_facts(&mut self, path: &[u8], op: &'static str) -> Result<Listing, Failed> {
        let listing = self.fetch("MLSD", path, op)?;
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
        if !shows_itself
            && found.len() == 1
            && found[0].1 == leaf_of(path)
            && self.look_all(&[path], false, true, op).pop().is_some_and(is_file)
        {
            return Err(Error::new(ErrorKind::NotFound, op).because("it is not a directory").into());
        }
        // Some servers say that there is a link, and only LIST says where it leads.
        let unread = |facts: &Facts| facts.kind == Some(Kind::Link) && facts.target.is_none();
        if found.iter().any(|(facts, _)| unread(facts)) {
            let lines = self.read_lines(path, op)?;
            for (facts, name) in found.iter_mut().filter(|(facts, _)| unread(facts)) {
                facts.target = lines.names.iter().find(|(_, known)| known == name).and_then(|(line, _)| line.target.clone());
            }
        }
        Ok(Listing { names: found, shows_itself, unknown: None })
    }

    /// LIST, with the times that MDTM gives.
    fn read_plain_dir(&mut self, path: &[u8], op: &'static str) -> Result<Listing, Failed> {
        let mut listing = self.read_lines(path, op)?;
        let found = &mut listing.names;
        if get(&self.features.mdtm) {
            let is_file = |facts: &Facts| facts.kind == Some(Kind::File);
            let files: Vec<Vec<u8>> = found.iter().filter(|(facts, _)| is_file(facts)).map(|(_, name)| paths::join(path, name)).collect();
            let mut times = self.ask_each("MDTM", files.iter().map(Vec::as_slice), op).into_iter();
            for (facts, _) in found.iter_mut().filter(|(facts, _)| is_file(facts)) {
                match times.next() {
                    Some(Ok(reply)) => {
                        if let Some(time) = modified(&reply) {
                            (facts.modified, facts.is_rough) = (Some(time), false);
                        }
                    }
                    Some(Err(e)) if e.kind() != ErrorKind::BadName => return Err(e.into()),
                    _ => {}
                }
            }
        }
        Ok(listing)
    }

    fn read_lines(&mut self, path: &[u8], op: &'static str) -> Result<Listing, Failed> {
        // Not as an argument: a path with blanks, or with a `*`, would be read in many ways.
        let entered = self.ask("CWD", path, op)?;
        if !entered.is_done() {
            return Err(Failed::Reply(entered));
        }
        let hidden = get(&self.features.lists_all);
        let listing = match self.fetch("LIST", if hidden { b"-a" } else { b"" }, op) {
            Err(Failed::Reply(reply)) if hidden && reply.code / 100 == 5 => {
                let plain = self.fetch("LIST", b"", op);
                if plain.is_ok() {
                    // It was the option that was refused. Without it no listing shows the directory itself.
                    cannot(&self.features.lists_all);
                    cannot(&self.features.lists_itself);
                }
                plain
            }
            listing => listing,
        };
        let listing = dialect::parse(&listing?);
        match &listing.unknown {
            Some(line) if listing.names.is_empty() => Err(unknown(line, op).into()),
            _ => Ok(listing),
        }
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

pub fn facts_of(reply: &Reply, op: &'static str) -> Result<Facts> {
    if !reply.is_done() {
        return Err(refused(reply, op));
    }
    let facts = Facts::listed(reply);
    facts.ok_or_else(|| Error::new(ErrorKind::Other, op).because(format!("the server named no facts: {}", reply.shown())))
}

pub fn above(path: &[u8]) -> &[u8] {
    let at = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    &path[..at.max(1).min(path.len())]
}

impl Shared {
    pub fn entry(&self, facts: Facts, name: Name, directory: &[u8]) -> Entry {
        // A copy is given the time that is known, and is found unchanged by it; a destination's says only which of two is younger.
        let is_timed = facts.is_rough && facts.modified.is_some() && facts.kind == Some(Kind::File) && !self.is_destination;
        let mut entry = facts.relative_to(&self.root, directory).entry(name);
        if is_timed {
            entry.have = entry.have.with(MetaMask::MTIME);
        }
        entry
    }

    pub fn stat(&self, name: &Name, want: MetaMask) -> Result<Entry> {
        let path = self.path(name, "stat")?;
        if path == b"/" {
            return Ok(Facts { kind: Some(Kind::Dir), ..Facts::default() }.entry(name.clone()));
        }
        let facts = self.pool.take()?.look_all(&[&path], want.has(MetaMask::MODE), false, "stat").pop();
        let facts = facts.unwrap_or_else(|| Err(absent("stat")))?;
        Ok(self.entry(facts, name.clone(), above(&path)))
    }

    pub fn stat_many(&self, dir: &Dir, leaves: &[&[u8]], want: MetaMask, follow: bool) -> Vec<Found> {
        const OP: &str = "stat";
        let names: Vec<Name> = leaves.iter().map(|leaf| Name::new(dir, leaf)).collect();
        let paths: Vec<Result<Vec<u8>>> = names.iter().map(|name| self.path(name, OP)).collect();
        let asked: Vec<&[u8]> = paths.iter().filter_map(|path| path.as_deref().ok()).collect();
        // Names that were typed, not listed: nothing else tells the modes that their copies get.
        let mode = want.has(MetaMask::MODE) || (!self.is_destination && asked.len() <= FEW);
        // A link to a file is taken for the file by servers without MLST.
        let follow = follow || (self.features.mlst.is_none() && !want.has(MetaMask::MODE));
        let found = match self.pool.take() {
            Ok(mut session) => session.look_all(&asked, mode, follow, OP),
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
        let Listing { names, unknown: line, .. } = self.pool.take()?.read_dir(&path, "list")?;
        if let Some(line) = line
            && each(Err(unknown(&line, "list").on(&Name::of(dir)))) == Flow::Stop
        {
            return Ok(());
        }
        for (facts, leaf) in names {
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
