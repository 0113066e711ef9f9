//! What runs have left that could not remove their files: found by name and mark, so that nothing else is ever removed.

use haul_core::bundle::{Bundle, Item, Outcome};
use haul_core::entry::{Dir, Kind, MetaMask, Name};
use haul_core::error::{ErrorKind, Result};
use haul_core::store::{Flow, Store};

use super::place::{MARK, MARK_LINE, PREFIX};

/// Longer than any mark.
const MOST: u64 = 4 << 10;

/// A directory of a run that has ended, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub leaf: Vec<u8>,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its run has ended.
    Over,
    /// Its run is or was of another machine: whether it is at work cannot be told from here.
    Elsewhere,
    /// Its run is at work on this machine.
    Running,
    /// The name is that of a run, but the mark is not there or another.
    Foreign,
}

/// The text of the mark: what this is, and which process made it.
pub fn mark(host: &str, process: u32, start: u64) -> String {
    format!(
        "{MARK_LINE}\nhost {host}\nprocess {process} {start}\n\nThis directory holds generated files and nothing else. \
         The run that made it removes it at its end.\n`haul bench files --cleanup` with the directory above removes what an \
         interrupted run has left.\n"
    )
}

/// When a process of this machine began, in ticks since the machine did; `None` if there is none.
pub fn started(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in brackets, may have anything in it: proc(5), the 22nd field.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whose directory this is, by its mark.
fn state(text: &str, host: &str, started: impl Fn(u32) -> Option<u64>) -> State {
    let mut lines = text.lines();
    if lines.next() != Some(MARK_LINE) {
        return State::Foreign;
    }
    let here = lines.next().and_then(|line| line.strip_prefix("host ")) == Some(host);
    let process = lines.next().and_then(|line| line.strip_prefix("process ")?.split_once(' '));
    let same = process.and_then(|(process, start)| Some(started(process.parse().ok()?)? == start.parse::<u64>().ok()?));
    match (here, same) {
        (false, _) => State::Elsewhere,
        (true, Some(true)) => State::Running,
        (true, _) => State::Over,
    }
}

/// All directories in the store's root that look like a run's, in the order of their names.
pub fn find(store: &dyn Store, host: &str) -> Result<Vec<Left>> {
    let mut leaves = Vec::new();
    let mut failed = None;
    store.list(&Dir::root(), &mut |entry| {
        match entry {
            Ok(entry) if matches!(entry.kind, Kind::Dir | Kind::Unknown) && entry.name.leaf.starts_with(PREFIX.as_bytes()) => {
                leaves.push(entry.name.leaf.to_vec());
            }
            Ok(_) => {}
            Err(e) => failed = failed.take().or(Some(e)),
        }
        Flow::Go
    })?;
    if let Some(e) = failed {
        return Err(e);
    }
    leaves.sort_unstable();
    let of = |leaf: Vec<u8>| {
        let state = match read_mark(store, &leaf)? {
            Some(text) => state(&text, host, started),
            None => State::Foreign,
        };
        Ok(Left { leaf, state })
    };
    leaves.into_iter().map(of).collect()
}

fn read_mark(store: &dyn Store, leaf: &[u8]) -> Result<Option<String>> {
    let name = Name::new(&Dir::root().child(leaf), MARK.as_bytes());
    let entry = match store.stat(&name, MetaMask::NONE) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        entry => entry?,
    };
    if entry.kind != Kind::File || entry.size > MOST {
        return Ok(None);
    }
    let mut bundle = Bundle::default();
    bundle.push(entry);
    store.get_bundle(&mut bundle);
    match bundle.items.pop() {
        Some(Item { outcome: Outcome::Read, at, .. }) => Ok(Some(String::from_utf8_lossy(&bundle.data[at]).into_owned())),
        Some(Item { outcome: Outcome::Failed(e), .. }) => Err(e),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_makes_a_directory_a_runs() {
        let text = mark("node7", 4711, 99);
        let runs = |start: Option<u64>| move |process: u32| start.filter(|_| process == 4711);
        assert_eq!(state(&text, "node7", runs(Some(99))), State::Running);
        // The number was given again to another process, or the process is gone.
        assert_eq!(state(&text, "node7", runs(Some(100))), State::Over);
        assert_eq!(state(&text, "node7", runs(None)), State::Over);
        // On another machine nobody knows, whatever the numbers are here.
        assert_eq!(state(&text, "node8", runs(Some(99))), State::Elsewhere);
        assert_eq!(state(&text, "node8", runs(None)), State::Elsewhere);
        for other in ["", "thesis", "haul bench files of mine\n"] {
            assert_eq!(state(other, "node7", runs(None)), State::Foreign, "{other:?}");
        }
        assert_eq!(state(MARK_LINE, "node7", runs(None)), State::Elsewhere);
        assert!(started(std::process::id()).is_some_and(|ticks| ticks > 0));
    }
}
