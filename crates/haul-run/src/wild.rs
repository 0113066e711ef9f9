//! Wildcards in paths of hosts behind ssh: haul matches them against listings, so that no shell sees a name.

use std::sync::Arc;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::filter::Glob;
use haul_core::place::{Host, OpenOptions};
use haul_core::store::{Flow, Store};
use haul_ssh::ssh::{SFTP, SSH};

use crate::hosts::Hosts;
use crate::location::Location;

/// Names that one pattern may match: they are kept in memory.
const MOST: usize = 100_000;

/// A name that a pattern has matched.
pub struct Match {
    /// The directory that it is in, and what it is.
    pub parent: Arc<dyn Store>,
    pub entry: Entry,
    pub location: Location,
}

fn is_wild(part: &[u8]) -> bool {
    part.iter().any(|byte| b"*?[".contains(byte))
}

/// A directory on the way: its path on the host, and as it was written.
type Way = (Vec<u8>, Vec<u8>);

fn below(path: &[u8], leaf: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.is_empty() || path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, leaf].concat()
}

/// Addresses with `{a,b}` as all that they stand for, as a shell writes them; one of a host behind ssh that is the name of something is
/// that.
pub fn alternatives(places: &[Location], hosts: &Hosts) -> Vec<Location> {
    let of = |place: &Location| -> Vec<Location> {
        let paths = if place.scheme == SSH || place.scheme == SFTP { braces(&place.path) } else { Vec::new() };
        let is_name = || hosts.reach(place).is_ok_and(|host| matches!(host.lookup(&host.path(place)), Ok(Some(_))));
        if paths.len() < 2 || is_name() {
            return vec![place.clone()];
        }
        paths.into_iter().map(|path| Location { path, ..place.clone() }).collect()
    };
    places.iter().flat_map(of).collect()
}

/// The texts that one with `{a,b}` stands for, in order; itself where they would be too many.
fn braces(text: &[u8]) -> Vec<Vec<u8>> {
    let mut done: Vec<Vec<u8>> = Vec::new();
    let mut left = vec![text.to_vec()];
    while let Some(text) = left.pop() {
        if done.len() + left.len() > 1000 {
            return vec![text];
        }
        match first_braces(&text) {
            None => done.push(text),
            Some((open, commas, close)) => {
                let starts = std::iter::once(open).chain(commas.iter().copied());
                let ends = commas.iter().copied().chain([close]);
                let parts: Vec<_> = starts.zip(ends).map(|(start, end)| &text[start + 1..end]).collect();
                // The first one is taken next.
                left.extend(parts.iter().rev().map(|part| [&text[..open], part, &text[close + 1..]].concat()));
            }
        }
    }
    done
}

/// Where the first braces with a comma between them are: the opening one, the commas, the closing one.
fn first_braces(text: &[u8]) -> Option<(usize, Vec<usize>, usize)> {
    let opening = |at: &usize| text[*at] == b'{';
    (0..text.len()).filter(opening).find_map(|open| {
        let (mut depth, mut commas) = (0, Vec::new());
        for (at, byte) in text.iter().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return (!commas.is_empty()).then_some((open, commas, at)),
                b'}' => depth -= 1,
                b',' if depth == 1 => commas.push(at),
                _ => {}
            }
        }
        None
    })
}

/// What an address matches, in order of names. `None` where it is no pattern: without a wildcard, or the name of something.
///
/// # Errors
/// Nothing matches, or more than 100,000 names do. A directory on the way that cannot be listed matches nothing, and is named.
pub fn expand(location: &Location, hosts: &Hosts, options: OpenOptions) -> Result<Option<Vec<Match>>> {
    if location.scheme == SSH || location.scheme == SFTP { matches(location, hosts, options) } else { Ok(None) }
}

/// The same for any place with directories.
pub fn matches(location: &Location, hosts: &Hosts, options: OpenOptions) -> Result<Option<Vec<Match>>> {
    if !is_wild(&location.path) {
        return Ok(None);
    }
    let host = hosts.reach(location)?;
    if matches!(host.lookup(&host.path(location)), Ok(Some(_))) {
        return Ok(None);
    }
    let shown = location.to_string().into_bytes();
    let parts: Vec<&[u8]> = location.path.split(|byte| *byte == b'/').collect();
    let plain = parts.iter().take_while(|part| !is_wild(part)).count();
    let written = match parts[..plain].join(&b'/') {
        // The root of the file system is an empty part in front of a slash.
        first if first.is_empty() && location.path.starts_with(b"/") => b"/".to_vec(),
        first => first,
    };
    let top = host.path(&Location { path: written.clone(), trailing_slash: false, ..location.clone() });
    let mut level: Vec<Way> = vec![(top, written)];
    let mut trouble = None;
    let mut pass_over = |found: Result<Listed>| match found {
        Err(e) if !e.kind().ends_the_run() && e.kind() != ErrorKind::TimedOut => {
            trouble.get_or_insert(e);
            Ok(None)
        }
        found => found,
    };
    let parts: Vec<&[u8]> = parts[plain..].iter().filter(|part| !part.is_empty()).copied().collect();
    let Some((last, between)) = parts.split_last() else { return Ok(None) };
    for part in between {
        let mut next = Vec::new();
        for (path, written) in level {
            if is_wild(part) {
                let found = pass_over(listed(&*host, &path, part, options))?.map(|(_, entries)| entries).unwrap_or_default();
                let dirs = found.into_iter().filter(|entry| matches!(entry.kind, Kind::Dir | Kind::Link));
                next.extend(dirs.map(|entry| (below(&path, &entry.name.leaf), below(&written, &entry.name.leaf))));
            } else {
                next.push((below(&path, part), below(&written, part)));
            }
            check(next.len(), &shown)?;
        }
        level = next;
    }
    let mut matches = Vec::new();
    for (path, written) in level {
        let found = if is_wild(last) { listed(&*host, &path, last, options) } else { named(&*host, &path, last, options) };
        let Some((parent, entries)) = pass_over(found)? else { continue };
        for entry in entries {
            let written = below(&written, &entry.name.leaf);
            let is_dir = || match entry.kind {
                Kind::Link => matches!(host.lookup(&below(&path, &entry.name.leaf)), Ok(Some(Kind::Dir))),
                kind => kind == Kind::Dir,
            };
            if !location.trailing_slash || is_dir() {
                // A name that begins with ~ is no home directory.
                let path =
                    if written.starts_with(b"~") && !location.path.starts_with(b"~") { [&b"./"[..], &written].concat() } else { written };
                matches.push(Match { parent: parent.clone(), entry, location: Location { path, ..location.clone() } });
            }
        }
        check(matches.len(), &shown)?;
    }
    if let Some(e) = trouble {
        if matches.is_empty() {
            return Err(e);
        }
        hosts.access().print(&format!("{e}; passed over by the wildcards of {}", haul_core::entry::show(&shown)));
    }
    if matches.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "open").at(&shown).because("nothing matches"));
    }
    matches.sort_by(|a, b| a.location.path.cmp(&b.location.path));
    Ok(Some(matches))
}

fn check(count: usize, shown: &[u8]) -> Result<()> {
    if count <= MOST {
        return Ok(());
    }
    let e = Error::new(ErrorKind::Usage, "open").at(shown).because(format!("matches more than {MOST} names"));
    Err(e.hint("name the directory, and select files with --include and --exclude"))
}

type Listed = Option<(Arc<dyn Store>, Vec<Entry>)>;

/// Opens a directory; `None` where there is none of this name.
fn opened(host: &dyn Host, path: &[u8], options: OpenOptions) -> Result<Option<Arc<dyn Store>>> {
    match host.open(path, options) {
        Ok(store) => Ok(Some(store)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Usage) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The names in a directory that a pattern matches. As in a shell, only a dot matches a dot at the beginning.
fn listed(host: &dyn Host, path: &[u8], pattern: &[u8], options: OpenOptions) -> Result<Listed> {
    let Some(store) = opened(host, path, options)? else { return Ok(None) };
    let (glob, mut found, mut trouble) = (Glob::new(pattern), Vec::new(), None);
    store
        .list(&Dir::root(), &mut |entry| {
            match entry {
                Ok(entry) if entry.name.leaf.starts_with(b".") && !pattern.starts_with(b".") => {}
                Ok(entry) if glob.matches(&entry.name.leaf) => found.push(entry),
                Ok(_) => {}
                Err(e) => trouble = Some(e),
            }
            if trouble.is_some() || found.len() > MOST { Flow::Stop } else { Flow::Go }
        })
        .map_err(|e| e.at(path))?;
    match trouble {
        Some(e) => Err(e.at(path)),
        None => Ok(Some((store, found))),
    }
}

/// The one name in a directory.
fn named(host: &dyn Host, path: &[u8], leaf: &[u8], options: OpenOptions) -> Result<Listed> {
    let Some(store) = opened(host, path, options)? else { return Ok(None) };
    match store.stat(&Name::new(&Dir::root(), leaf), MetaMask::NONE) {
        Ok(entry) => Ok(Some((store, vec![entry]))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn braces_stand_for_all_their_alternatives_in_order() {
        for (text, wanted) in [
            ("d/{a,b}/x", vec!["d/a/x", "d/b/x"]),
            ("{a,b}{1,2}", vec!["a1", "a2", "b1", "b2"]),
            ("{a,{b,c}d}", vec!["a", "bd", "cd"]),
            ("{a,}", vec!["a", ""]),
            ("{a}", vec!["{a}"]),
            ("{a,b", vec!["{a,b"]),
            ("{x}{a,b}", vec!["{x}a", "{x}b"]),
        ] {
            let found: Vec<_> = super::braces(text.as_bytes()).into_iter().map(|one| String::from_utf8(one).expect("text")).collect();
            assert_eq!(found, wanted, "{text}");
        }
    }
}
