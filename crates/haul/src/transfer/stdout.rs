//! `cp FILE... -`: standard output as a destination, and devices and pipes, which take bytes and have no content.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};

use crate::exit::Exit;
use crate::flags::{CopyFlags, Global};
use crate::hosts::Hosts;
use crate::location::{Location, Scheme};
use crate::{command, open, out, units};

/// Bytes that are read and written at once.
const PIECE: usize = 1 << 20;

/// `None` for any other destination.
pub fn copy(flags: &CopyFlags, global: &Global) -> Option<Result<Exit>> {
    let destination = &flags.spec.destination;
    if destination.scheme == Scheme::STDIO {
        return Some(to_stdout(flags));
    }
    if let Some(place) = special(destination).filter(|_| !flags.spec.comparison.force && flags.spec.sources.len() == 1) {
        return Some(into_special(&place, flags, global));
    }
    None
}

fn to_stdout(flags: &CopyFlags) -> Result<Exit> {
    if flags.dry {
        let message =
            format!("would write {} to standard output\nDRY RUN: nothing was copied\n", units::count(flags.spec.sources.len() as u64));
        out::complain(&message.into(), false);
        return Ok(Exit::Success);
    }
    let hosts = Hosts::new(&flags.connect);
    let mut to = io::BufWriter::with_capacity(PIECE, io::stdout().lock());
    for source in &flags.spec.sources {
        if source.means_contents() {
            let e = Error::new(ErrorKind::Usage, "read").at(&source.path).because("is a directory");
            return Err(e.hint("name a file"));
        }
        command::files::cat(&open::Argument::new(source, &hosts), &mut to)?;
    }
    to.flush().map_err(|e| Error::io(e, "write"))?;
    Ok(Exit::Success)
}

/// The device, pipe or socket that the address names.
fn special(destination: &Location) -> Option<PathBuf> {
    if destination.is_remote() || destination.scheme == Scheme::STDIO || destination.means_contents() {
        return None;
    }
    let place = open::path_of(&destination.path);
    place.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()).then_some(place)
}

/// Writes the one source into a character device or a pipe, as cp(1) does; it is never replaced by a file.
fn into_special(place: &Path, flags: &CopyFlags, global: &Global) -> Result<Exit> {
    let bytes = place.as_os_str().as_bytes();
    let refuse = |reason: &str, hint: &str| {
        let e = Error::new(ErrorKind::Usage, "copy to").at(bytes).because(reason.to_string());
        Err(e.hint(hint.to_string()))
    };
    let kind = place.metadata().map_err(|e| Error::io(e, "open").at(bytes))?.file_type();
    if !kind.is_char_device() && !kind.is_fifo() {
        return refuse("is a block device or a socket", "use dd to write to a block device; --force replaces it with a file");
    }
    if flags.spec.safety.verify {
        return refuse("is a device or a pipe, which cannot be read back", "--verify, --remove-source-files and mv need a file");
    }
    if !global.quiet {
        let source = flags.spec.sources.first().map(ToString::to_string).unwrap_or_default();
        out::complain(&format!("copies {} to {}\n", show(source.as_bytes()), show(bytes)).into(), false);
    }
    if flags.dry {
        out::complain(&"DRY RUN: nothing was copied\n".to_string().into(), false);
        return Ok(Exit::Success);
    }
    let failed = |e| Error::io(e, "write").at(bytes);
    let to = std::fs::OpenOptions::new().write(true).open(place).map_err(failed)?;
    let mut to = io::BufWriter::with_capacity(PIECE, to);
    let hosts = Hosts::new(&flags.connect);
    for source in &flags.spec.sources {
        if source.scheme == Scheme::STDIO {
            io::copy(&mut io::stdin().lock(), &mut to).map_err(failed)?;
        } else {
            command::files::cat(&open::Argument::new(source, &hosts), &mut to)?;
        }
    }
    to.flush().map_err(failed)?;
    Ok(Exit::Success)
}
