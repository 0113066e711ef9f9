//! The text of a transfer that is kept with its job, with the options of its backends.

use std::os::unix::ffi::OsStrExt;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::provider::Access;
use haul_core::spec::{Operation, TransferSpec};

use crate::{location, registry};

/// The text of a spec; empty where there is no working directory.
pub fn text(spec: &TransferSpec, access: &Access) -> String {
    let Ok(directory) = std::env::current_dir() else { return String::new() };
    TransferSpec { access: access.record(&directory), ..spec.clone() }.to_text(&directory)
}

/// Reads what [`text`] has written.
///
/// # Errors
/// `Usage` for what is no spec of a copy, or names what this program does not have.
pub fn recorded(text: &str) -> Result<(TransferSpec, Access)> {
    let refuse = |why: String| Error::new(ErrorKind::Usage, "read the transfer spec").because(why);
    let parse = |bytes: &[u8]| location::parse(std::ffi::OsStr::from_bytes(bytes), &|_| false).map_err(|e| refuse(e.to_string()));
    let mut spec = TransferSpec::from_text(text, parse)?;
    spec.sources = spec.sources.into_iter().map(|source| location::operand(source, 0)).collect();
    let access = registry::access(&spec.access)?;
    if matches!(spec.operation, Operation::Check { .. }) {
        return Err(refuse("its operation is a check, not a copy".into()).hint("run `haul check`"));
    }
    Ok((spec, access))
}
