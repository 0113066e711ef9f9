//! A file that a command writes for its user: whole or not at all, unless it is a device or a pipe.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::{Error, Result};

/// Has `work` write what is to be at `output`. A file gets it under its name when it is complete; devices, pipes and what is
/// reached through `/dev` and `/proc` take it as it comes, and are never replaced.
pub fn write<T>(output: &Path, work: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let failed = |op| move |e| Error::io(e, op).at(output.as_os_str().as_bytes());
    let is_stream = output.metadata().is_ok_and(|meta| !meta.is_file());
    if is_stream || output.starts_with("/dev") || output.starts_with("/proc") {
        let mut to = BufWriter::new(OpenOptions::new().write(true).open(output).map_err(failed("open"))?);
        let done = work(&mut to)?;
        to.flush().map_err(failed("write"))?;
        return Ok(done);
    }
    // What a link names is meant, as with a shell's redirection.
    let output = std::fs::canonicalize(output).unwrap_or_else(|_| output.to_path_buf());
    let mut partial = output.clone().into_os_string();
    partial.push(".partial");
    let file = File::create(&partial).map_err(|e| Error::io(e, "create").at(partial.as_bytes()))?;
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
