//! The tools tested on each other. Needs root, FUSE, the mkfs programs and sshd.

mod compare;
mod link;
mod released;
mod slowfs;
mod sshd;
mod tree;
mod volume;

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
