//! Files with secrets that other programs read, too: replaced as a whole, and nobody else's to read.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::state_file::random;

/// Replaces a file, or makes it; its directory is made, too. On an error the old one stays.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or_else(|| io::Error::other("no directory"))?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let new = dir.join(format!(".haul-{:016x}", random()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&new)?;
    let replaced = file.write_all(bytes).and_then(|()| std::fs::rename(&new, path));
    if replaced.is_err() {
        // The error says more than that this failed, too.
        let _ = std::fs::remove_file(&new);
    }
    replaced
}
