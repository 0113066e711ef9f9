//! `haul df`: how large file systems are and how much is left.

use std::io::Write;

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Volume;
use haul_run::open::{self, Argument};

use crate::flags::ln::DfFlags;
use crate::render::listing::{FileSystem, Listed};
use crate::units;

/// The head of the table.
pub fn title(flags: &DfFlags) -> String {
    let [size, used, left] = if flags.inodes { ["Inodes", "IUsed", "IFree"] } else { ["Size", "Used", "Avail"] };
    format!("{size:>18} {used:>18} {left:>18} Use%  Place\n")
}

pub fn df(asked: &Argument<'_>, flags: &DfFlags, json: bool, out: &mut dyn Write) -> Result<()> {
    let unknown = |why: &str, next: &str| {
        Err(Error::new(ErrorKind::Unsupported, "stat file system").at(&asked.path).because(why.to_string()).hint(next.to_string()))
    };
    if asked.location.scheme.keys {
        return unknown("object stores have no fixed size", "haul du -sh shows the size below an address");
    }
    let (opened, _) = open::existing(asked)?;
    let Some(volume) = opened.store.extensions().system.volume().map_err(|e| e.at(&asked.path))? else {
        return unknown("the store does not report its size", "haul du -sh shows the size below it");
    };
    let written = if json {
        Listed::FileSystem(FileSystem::of(&asked.path, &volume)).write(out)
    } else {
        let [size, used, left] = figures(&volume, flags.inodes);
        let show_number = |n: Option<u64>| match n {
            None => "-".into(),
            Some(n) if flags.human && !flags.inodes => units::bytes(n),
            Some(n) => n.to_string(),
        };
        let share = used.zip(left).and_then(|(used, left)| share(used, left)).map_or("-".into(), |share| format!("{share}%"));
        let [size, used, left] = [size, used, left].map(show_number);
        writeln!(out, "{size:>18} {used:>18} {left:>18} {share:>4}  {}", show(&asked.path))
    };
    written.map_err(|e| Error::io(e, "write"))
}

/// In all, used, left.
fn figures(volume: &Volume, inodes: bool) -> [Option<u64>; 3] {
    match inodes {
        false => [Some(volume.size), Some(volume.size.saturating_sub(volume.free)), Some(volume.available)],
        true if volume.files == 0 => [None; 3],
        true => [Some(volume.files), Some(volume.files.saturating_sub(volume.free_files)), Some(volume.free_files)],
    }
}

/// Of what this user can have, rounded up, as df(1) has it.
fn share(used: u64, left: u64) -> Option<u64> {
    let whole = u128::from(used) + u128::from(left);
    (whole > 0).then(|| (u128::from(used) * 100).div_ceil(whole) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up_and_leave_out_what_is_reserved() {
        assert_eq!((share(0, 0), share(0, 9), share(1, 999), share(50, 50), share(9, 0)), (None, Some(0), Some(1), Some(50), Some(100)));
        assert_eq!(share(u64::MAX, u64::MAX), Some(50));
        let volume = Volume { size: 100, free: 30, available: 20, files: 0, free_files: 0 };
        assert_eq!(figures(&volume, false), [Some(100), Some(70), Some(20)]);
        assert_eq!(figures(&volume, true), [None; 3]);
    }
}
