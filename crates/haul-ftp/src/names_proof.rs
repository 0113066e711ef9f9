//! Whether the server keeps names as they are sent. Pure-FTPd stores control characters as `_`, others cut blanks off, or know no letters
//! beyond ASCII: two names then fall together, and a request for one name is answered for another, by SIZE and MLST too. Only a listing
//! shows what a name became.
//!
//! Names of letters and digits need no proof. Of others each unusual character is tried once per run: directories of these very names are
//! made below a staging directory, listed, and removed. Until a character is verified, no name with it is written, renamed or removed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use haul_core::entry::Stamp;
use haul_core::error::{Error, ErrorKind, Result};

use super::control::command;
use super::paths::join;
use super::pool::Pool;
use super::reply::Reply;
use super::session::Session;
use haul_core::lock::lock;
use haul_core::store::staging::OwnNames;

const OP: &str = "create";

/// An unusual character: where it stands in the name, and which it is. Bytes of a name that is not UTF-8 lie behind all characters.
type Mark = (Place, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    First,
    Middle,
    Last,
}

#[derive(Debug, Default)]
pub struct NamesProof {
    kept: Mutex<HashSet<Mark>>,
    /// Held during a trial: others wait for what it finds.
    trial: Mutex<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// Control characters and blanks at the ends.
    Controls,
    /// Also what means something else on Windows.
    Printable,
    /// Also all that is not ASCII.
    Letters,
}

fn marks(leaf: &[u8], scope: Scope) -> HashSet<Mark> {
    let characters: Vec<u32> = match std::str::from_utf8(leaf) {
        Ok(text) => text.chars().map(u32::from).collect(),
        Err(_) => leaf.iter().map(|byte| u32::from(*byte) + if byte.is_ascii() { 0 } else { 0x11_0000 }).collect(),
    };
    let last = characters.len().saturating_sub(1);
    let mark = |(at, character): (usize, u32)| {
        let place = match at {
            0 => Place::First,
            at if at == last => Place::Last,
            _ => Place::Middle,
        };
        match (u8::try_from(character), place) {
            (Ok(0..=0x1f | 0x7f), _) | (Ok(b' '), Place::First | Place::Last) => Some((place, character)),
            (Ok(b'\\' | b':'), _) | (Ok(b'.'), Place::Last) if scope >= Scope::Printable => Some((place, character)),
            _ if scope == Scope::Letters && character > 0x7f => Some((Place::Middle, character)),
            _ => None,
        }
    };
    characters.into_iter().enumerate().filter_map(mark).collect()
}

impl NamesProof {
    /// Whether a request for this name is likely to be answered for another one.
    pub fn doubts(&self, leaf: &[u8]) -> bool {
        !self.missing(leaf, Scope::Controls).is_empty()
    }

    fn missing(&self, leaf: &[u8], scope: Scope) -> HashSet<Mark> {
        let mut marks = marks(leaf, scope);
        if !marks.is_empty() {
            let kept = lock(&self.kept);
            marks.retain(|mark| !kept.contains(mark));
        }
        marks
    }
}

fn lost(why: &str) -> Error {
    Error::new(ErrorKind::BadName, OP).because(format!("the server does not keep this name: {why}"))
}

/// One result for each leaf: whether the server keeps it. `directory` exists. No session may be held.
pub fn prove(pool: &Arc<Pool>, directory: &[u8], names: &OwnNames, leaves: &[&[u8]]) -> Vec<Result<()>> {
    let Some(known) = pool.known() else { return leaves.iter().map(|_| Ok(())).collect() };
    let (proof, scope) = (&known.features.kept_names, if known.features.utf8 { Scope::Printable } else { Scope::Letters });
    if leaves.iter().all(|leaf| proof.missing(leaf, scope).is_empty()) {
        return leaves.iter().map(|_| Ok(())).collect();
    }
    let _alone = lock(&proof.trial);
    let tried: Vec<&[u8]> = leaves.iter().filter(|leaf| !proof.missing(leaf, scope).is_empty()).copied().collect();
    let place = join(directory, &names.leaf(b"", Stamp::default()));
    let outcome = match tried.is_empty() {
        true => Ok(Vec::new()),
        false => pool.take().map_err(Trial::Failed).and_then(|mut session| attempt(&mut session, &place, &tried)),
    };
    let why = match &outcome {
        Ok(shown) => {
            let kept = tried.iter().filter(|leaf| shown.iter().any(|name| name == *leaf));
            lock(&proof.kept).extend(kept.flat_map(|leaf| marks(leaf, scope)));
            "it stores it as another one, or refuses it".to_string()
        }
        // Where no directory can be made, what is printable is taken for kept, as it is by most servers.
        Err(Trial::Refused(reply)) => format!("a trial was refused: {}", reply.shown()),
        Err(Trial::Failed(e)) => return leaves.iter().map(|_| Err(e.again())).collect(),
    };
    let scope = if outcome.is_ok() { scope } else { Scope::Controls };
    leaves.iter().map(|leaf| if proof.missing(leaf, scope).is_empty() { Ok(()) } else { Err(lost(&why)) }).collect()
}

enum Trial {
    Refused(Reply),
    Failed(Error),
}

impl From<Error> for Trial {
    fn from(e: Error) -> Trial {
        Trial::Failed(e)
    }
}

/// The names that the server lists for these.
fn attempt(session: &mut Session, place: &[u8], leaves: &[&[u8]]) -> Result<Vec<Vec<u8>>, Trial> {
    let made = session.ask("MKD", place, OP)?;
    if !made.is_done() {
        return Err(Trial::Refused(made));
    }
    let paths: Vec<Vec<u8>> = leaves.iter().map(|leaf| join(place, leaf)).collect();
    let listed = make(session, &paths).and_then(|()| session.read_dir(place, OP)).map(|listing| listing.names);
    let is_safe = |name: &[u8]| haul_core::entry::check_leaf(name).is_ok();
    let inside = listed
        .as_ref()
        .map_or_else(|_| paths, |listed| listed.iter().filter(|(_, name)| is_safe(name)).map(|(_, name)| join(place, name)).collect());
    let removals: Vec<Vec<u8>> = inside.iter().map(Vec::as_slice).chain([place]).filter_map(|path| command("RMD", path).ok()).collect();
    // What is left has a staging name.
    let _ = session.control.ask_all(&removals, OP);
    Ok(listed?.into_iter().map(|(_, name)| name).collect())
}

fn make(session: &mut Session, paths: &[Vec<u8>]) -> Result<()> {
    // What is refused is not listed.
    session.ask_each("MKD", paths.iter().map(Vec::as_slice), OP).into_iter().try_for_each(|made| match made {
        Err(e) if e.kind() != ErrorKind::BadName => Err(e),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_need_no_proof() {
        for (leaf, scope, count) in [
            (&b"a b-c_d.tar.gz"[..], Scope::Letters, 0),
            (b".hidden", Scope::Letters, 0),
            (b"a\tb", Scope::Controls, 1),
            (b"\t\t\t\t", Scope::Controls, 3),
            (b" a", Scope::Controls, 1),
            (b"a ", Scope::Controls, 1),
            (b"a.", Scope::Controls, 0),
            (b"a.", Scope::Printable, 1),
            (b"12:30", Scope::Printable, 1),
            ("\u{e9}".as_bytes(), Scope::Printable, 0),
            ("\u{e9}\u{e0}\u{e9}".as_bytes(), Scope::Letters, 2),
            (b"\xe9", Scope::Letters, 1),
        ] {
            assert_eq!(marks(leaf, scope).len(), count, "{leaf:?}");
        }
    }
}
