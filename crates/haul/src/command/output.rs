//! A file that a command writes for its user: whole or not at all, unless it is a device or a pipe.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::{Error, Result};

/// Has `work` write what is to be at `output`. A file gets it under its name when it is complete; devices, pipes and what is
/// reached through `/dev` and `/proc` take it as it comes, and are never replaced.
pub fn write<T>(output: &Path, work: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let failed = |op| move |e| Error::io(e, op).at(output.as_os_str().as_bytes());
    if is_stream(output) {
        let mut to = BufWriter::new(OpenOptions::new().write(true).open(output).map_err(failed("open"))?);
        let done = work(&mut to)?;
        to.flush().map_err(failed("write"))?;
        return Ok(done);
    }
    let output = target(output);
    let partial = partial(&output);
    let file = File::create(&partial).map_err(|e| Error::io(e, "create").at(partial.as_os_str().as_bytes()))?;
    let written = (|| {
        let mut to = BufWriter::new(file);
        let done = work(&mut to)?;
        let file = to.into_inner().map_err(|e| Error::io(e.into_error(), "write"))?;
        file.sync_all().map_err(|e| Error::io(e, "write"))?;
        std::fs::rename(&partial, &output).map_err(|e| Error::io(e, "rename").at(output.as_os_str().as_bytes()))?;
        Ok(done)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&partial); // the first error counts
    }
    written
}

/// The files that [`write`] makes at `output`, by their real paths: the complete one, and the one that holds its content until then.
pub fn files(output: &Path) -> Vec<PathBuf> {
    if is_stream(output) {
        return Vec::new();
    }
    let target = target(output);
    // The file may not exist yet, its directory does.
    let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(dir), target.file_name()) {
        (Ok(dir), Some(name)) => {
            let file = dir.join(name);
            vec![partial(&file), file]
        }
        _ => Vec::new(),
    }
}

fn is_stream(output: &Path) -> bool {
    output.metadata().is_ok_and(|meta| !meta.is_file()) || output.starts_with("/dev") || output.starts_with("/proc")
}

/// What a link names is meant, as with a shell's redirection.
fn target(output: &Path) -> PathBuf {
    std::fs::canonicalize(output).unwrap_or_else(|_| output.to_path_buf())
}

fn partial(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_os_string();
    name.push(".partial");
    name.into()
}
