//! The comparer, the link and the released program. Needs root, mkfs.ext4, namespaces and the program of `./release`.

mod compare;
mod link;
mod released;

use std::path::Path;
use std::process::Command;

/// Copies with the system's own `cp -a`.
fn copy(source: &Path, destination: &Path) {
    let status = Command::new("cp").arg("-aT").arg(source).arg(destination).status().expect("cp starts");
    assert!(status.success(), "cp -a {} {}", source.display(), destination.display());
}

fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("haul-tools-").tempdir().expect("a temporary directory")
}
