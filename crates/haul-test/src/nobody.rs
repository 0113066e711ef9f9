//! Commands without root's rights, for tests of what an ordinary user may not do.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The user and group number of `nobody`.
pub const NOBODY: u32 = 65534;

/// A program that `nobody` can start, wherever it was built.
#[derive(Debug)]
pub struct NobodyProgram {
    directory: TempDir,
}

impl NobodyProgram {
    /// Copies the program to where everybody may execute it.
    ///
    /// Errors: `PermissionDenied` when this process is not root (only root can become somebody else), or those of the copy.
    pub fn new(program: &Path) -> io::Result<NobodyProgram> {
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "running a command as nobody needs root"));
        }
        let directory = tempfile::Builder::new().prefix("haul-nobody-").tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let copy = directory.path().join("program");
        // By another process: what one of ours has open for writing, another thread's children hold, and it cannot be started.
        let done = Command::new("install").arg(program).arg(&copy).status()?;
        if !done.success() {
            return Err(io::Error::other("install failed"));
        }
        Ok(NobodyProgram { directory })
    }

    /// A command that runs it as user and group `nobody` without further groups, from `/` and without a home directory.
    ///
    /// The directories that it is to work in must be open to it: a temporary directory is 0700 until it is given away, see [`give`].
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.directory.path().join("program"));
        become_nobody(&mut command);
        command
    }
}

/// Makes a command run as `nobody`; the program must be reachable for that user. Spawning fails with `PermissionDenied` without root.
pub fn become_nobody(command: &mut Command) -> &mut Command {
    command.uid(NOBODY).gid(NOBODY).current_dir("/").env("HOME", "/nonexistent")
}

/// Gives a file or directory (not what is in it) to `nobody`.
pub fn give(path: &Path) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY))
}
