//! Which directories at the destination are this run's own: noted in a file, so that a run that goes on after a kill removes
//! those and nothing else.
//!
//! ```text
//! NAME GROUND        is to be made; a kill may come before or after
//! NAME GROUND MARK   was made; `-` where nothing tells it from another of the same name
//! ```

use std::path::{Path, PathBuf};

use haul_core::entry::Dir;
use haul_core::error::Result;
use haul_core::store::Flow;

use super::{Target, fresh_name};

/// Nothing tells directories of the same name apart there.
const NO_MARK: &str = "-";

/// A directory that an earlier process has noted. The note is a file that anyone may have edited, and what it names may have
/// been removed and made by somebody else: it is believed only as far as [`Left::is_in`] can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub name: String,
    /// Which of the run's targets it lies on.
    pub target: usize,
    /// `None`: it was not said any more that it was made.
    mark: Option<String>,
}

impl Left {
    fn parse(line: &str) -> Option<Left> {
        let mut words = line.split(' ');
        let name = words.next().filter(|name| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']))?;
        let target = words.next().map_or(Some(0), |number| number.parse().ok())?;
        Some(Left { name: name.into(), target, mark: words.next().map(Into::into) })
    }

    fn line(&self) -> String {
        let mark = self.mark.as_ref().map_or(String::new(), |mark| format!(" {mark}"));
        format!("{} {}{mark}\n", self.name, self.target)
    }

    /// Whether what lies there is what was made: it has the same mark; or nothing was said of it any more, and it is empty.
    /// What cannot be looked at is not the run's.
    pub fn is_in(&self, target: &dyn Target) -> bool {
        match self.mark.as_deref() {
            None => is_empty(target, &self.name).unwrap_or(false),
            Some(NO_MARK) => target.mark(&self.name).is_ok_and(|mark| mark.is_none()),
            Some(mark) => target.mark(&self.name).is_ok_and(|found| found.as_deref() == Some(mark)),
        }
    }
}

fn is_empty(target: &dyn Target, name: &str) -> Result<bool> {
    let mut empty = true;
    target.open(name)?.list(&Dir::root(), &mut |entry| {
        empty = entry.is_ok_and(|entry| entry.name.leaf.is_empty());
        if empty { Flow::Go } else { Flow::Stop }
    })?;
    Ok(empty)
}

/// The list of a run directory.
#[derive(Clone, Debug)]
pub struct Own {
    file: PathBuf,
}

impl Own {
    pub fn of(run: &Path) -> Own {
        Own { file: run.join("fresh.txt") }
    }

    /// What an earlier process of the run may have left.
    pub fn left(&self) -> Vec<Left> {
        std::fs::read_to_string(&self.file).unwrap_or_default().lines().filter_map(Left::parse).collect()
    }

    fn write(&self, left: &[Left]) -> Result<()> {
        crate::record::write_whole(&self.file, left.iter().map(Left::line).collect::<String>().as_bytes())
    }

    fn set(&self, name: &str, left: Option<Left>) -> Result<()> {
        self.write(&self.left().into_iter().filter(|known| known.name != name).chain(left).collect::<Vec<_>>())
    }

    /// Makes the directory `name` on the target of this number, as the run's own. Errors: those of [`Target::make`], and then
    /// nothing is noted: what stands there in its place is not this run's.
    pub fn make(&self, number: usize, target: &dyn Target, name: &str) -> Result<()> {
        let left = Left { name: name.into(), target: number, mark: None };
        self.set(name, Some(left.clone()))?;
        if let Err(e) = target.make(name) {
            self.done(name)?;
            return Err(e);
        }
        let marked = target.mark(name).and_then(|mark| {
            let mark = Some(mark.unwrap_or_else(|| NO_MARK.into()));
            self.set(name, Some(Left { mark, ..left }))
        });
        if let Err(e) = marked {
            target.clear(name)?;
            self.done(name)?;
            return Err(e);
        }
        Ok(())
    }

    /// It is gone again.
    pub fn done(&self, name: &str) -> Result<()> {
        self.set(name, None)
    }

    /// Removes what is left of those that this run `may` have made, and notes nothing any more.
    pub fn clear(&self, targets: &[&dyn Target], may: &dyn Fn(&str) -> bool) -> Result<()> {
        let left = self.left();
        if left.is_empty() {
            return Ok(());
        }
        for left in left.iter().filter(|left| may(&left.name)) {
            if let Some(target) = targets.get(left.target).filter(|target| left.is_in(**target)) {
                target.clear(&left.name)?;
            }
        }
        self.write(&[])
    }

    /// Removes the list, if nothing is in it.
    pub fn forget(&self) {
        if self.left().is_empty() {
            let _it_may_be_gone = std::fs::remove_file(&self.file);
        }
    }
}

/// Whether one of the contenders could have a fresh directory of this name in a run of so many rounds.
pub fn is_fresh_name<'n>(name: &str, contenders: impl IntoIterator<Item = &'n str>, rounds: u32) -> bool {
    let Some(number) = name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()) else { return false };
    (1..=rounds).contains(&number) && contenders.into_iter().any(|contender| fresh_name(contender, number) == name)
}
