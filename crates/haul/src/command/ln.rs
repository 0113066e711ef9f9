//! `haul ln`: hard links and symlinks.

use haul_core::place::OpenOptions;
use haul_run::location::Location;
use haul_run::open::{self, Argument};
use std::io::Write;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, show};
use haul_core::error::{Error, ErrorKind, Result};

use super::files::Failures;
use crate::flags::Global;
use crate::flags::ln::{LnFlags, Target};
use crate::out;
use crate::render::listing::{Linked, Listed};

/// Makes all links at one place; returns how many could not be made.
pub fn ln(asked: &Argument<'_>, flags: &LnFlags, global: &Global, out: &mut dyn Write) -> Result<Failures> {
    if asked.location.scheme.keys {
        let e = Error::new(ErrorKind::Unsupported, "link").at(&asked.path).because("object stores have no links");
        return Err(e.hint("haul cp s3://BUCKET/KEY s3://BUCKET/OTHER copies an object within the store"));
    }
    let into = !flags.exact && is_dir(asked, flags.no_dereference)?;
    if !into && (flags.targets.len() > 1 || asked.location.trailing_slash) {
        return Err(Error::new(ErrorKind::Usage, "link").at(&asked.path).because("is not a directory"));
    }
    let mut failures = 0;
    for target in &flags.targets {
        match one(asked, target, into, flags.force) {
            Err(e) => {
                failures += 1;
                out::failure(&e);
            }
            Ok(link) if global.json => {
                let (text, symbolic) = match target {
                    Target::Text(text) => (text.clone(), true),
                    Target::File(at) => (at.to_bytes(), false),
                };
                Listed::Linked(Linked::of(&link, &text, symbolic)).write(out).map_err(|e| Error::io(e, "write"))?;
            }
            Ok(link) if global.verbose > 0 => out::say_plainly(&format!("linked {}", show(&link))),
            Ok(_) => {}
        }
    }
    Ok(failures)
}

/// Whether the links go into a directory.
fn is_dir(asked: &Argument<'_>, no_dereference: bool) -> Result<bool> {
    let opened = open::argument(asked)?;
    if opened.leaf.is_some() {
        return Ok(false);
    }
    if !no_dereference || asked.location.trailing_slash {
        return Ok(true);
    }
    Ok(open::itself(asked)?.1.kind == Kind::Dir)
}

/// The link as it is shown.
fn one(asked: &Argument<'_>, target: &Target, into: bool, force: bool) -> Result<Vec<u8>> {
    let mut place: Location = asked.location.clone();
    if into {
        let path = match target {
            Target::Text(text) => &text[..],
            Target::File(at) => &at.path[..],
        };
        let trimmed = path.iter().rposition(|byte| *byte != b'/').map_or(&b""[..], |end| &path[..=end]);
        let leaf = trimmed.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if matches!(leaf, b"" | b"." | b"..") {
            let e = Error::new(ErrorKind::Usage, "link").at(path).because("has no file name for the link");
            return Err(e.hint("give the name of the link too"));
        }
        if !place.path.is_empty() && !place.path.ends_with(b"/") {
            place.path.push(b'/');
        }
        place.path.extend_from_slice(leaf);
        place.trailing_slash = false;
    }
    let link = Argument::new(&place, asked.hosts);
    let opened = open::name_of(&link)?;
    let name = opened.name();
    match opened.store.stat(&name, MetaMask::NONE) {
        Ok(there) if !force || there.kind == Kind::Dir => {
            let e = Error::new(ErrorKind::Exists, "link").at(&link.path).because("File exists");
            return Err(if there.kind == Kind::Dir { e } else { e.hint("-f replaces it") });
        }
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    match target {
        Target::Text(text) => {
            let mut entry = Entry::bare(name.clone(), Kind::Link);
            entry.target = Some(text.clone().into());
            opened.store.make_node(&name, &entry, MetaMask::NONE).map_err(|e| e.at(&link.path))?;
        }
        Target::File(at) => hard_link(&link, at)?,
    }
    Ok(link.path)
}

fn hard_link(link: &Argument<'_>, existing: &Location) -> Result<()> {
    let existing = Argument::new(existing, link.hosts);
    let (_, entry) = open::itself(&existing)?;
    if entry.kind == Kind::Dir {
        let e = Error::new(ErrorKind::Usage, "link").at(&existing.path).because("a directory has one name only");
        return Err(e.hint("-s makes a symlink"));
    }
    let (from, to) = (real(&existing)?, real(link)?);
    // One store sees both names: that of the directory that both are in.
    let (mut shared, mut at) = (0, 0);
    for (one, other) in from.iter().zip(&to) {
        if one != other {
            break;
        }
        at += 1;
        if *one == b'/' {
            shared = at;
        }
    }
    let root = &from[..shared];
    let store = link.hosts.reach(link.location)?.open(root, OpenOptions::default())?;
    let name = |path: &[u8]| Name::parse(&Dir::root(), &path[shared..]).ok_or_else(|| open::missing(path));
    store.make_hard_link(&name(&to)?, &name(&from)?).map_err(|e| {
        let e = e.at(&link.path);
        let hinted = e.next_step().is_some() || e.kind() != ErrorKind::Unsupported;
        if hinted { e } else { e.hint("-s makes a symlink, haul cp a copy") }
    })
}

/// The absolute path of a name, symlinks above it resolved.
fn real(asked: &Argument<'_>) -> Result<Vec<u8>> {
    let opened = open::name_of(asked)?;
    let mut path = opened.store.place().root.clone();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(opened.leaf.as_deref().unwrap_or_default());
    Ok(path)
}
