//! Programs in a mount namespace of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The same command behind some words of a shell, in a mount namespace of its own; without standard input.
pub fn through(words: &str, command: &Command) -> Command {
    let script = format!("{words} && exec \"$0\" \"$@\"");
    let mut apart = Command::new("/usr/bin/unshare");
    apart.args(["-m", "sh", "-c", &script]).arg(command.get_program()).args(command.get_args());
    apart.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    apart.stdin(Stdio::null());
    if let Some(place) = command.get_current_dir() {
        apart.current_dir(place);
    }
    apart
}

/// A copy of `/etc` in `dir`, to be changed and mounted over it. A file alone must not be mounted there: the mount goes when another process
/// replaces the file below, as useradd(8) does (see `rename(2)` of a mount point, since Linux 3.18).
pub fn etc(dir: &Path) -> io::Result<PathBuf> {
    fs::create_dir(dir)?;
    // What goes away meanwhile is missed by nobody.
    Command::new("cp").args(["-a", "--", "/etc/."]).arg(dir).stderr(Stdio::null()).status()?;
    Ok(dir.to_path_buf())
}

/// Words for [`through`] that give `/etc/passwd` and `/etc/group` root and these names (`NAME:NUMBER`), each a user and a
/// group. The files are made in `dir`.
///
/// # Errors
/// When they cannot be written, and where a name has no number.
pub fn knowing(dir: &Path, side: &str, names: &[&str]) -> io::Result<String> {
    let (mut users, mut groups) = ("root:x:0:0:root:/root:/bin/sh\n".to_string(), "root:x:0:\n".to_string());
    for name in names {
        let (name, id) = name.split_once(':').ok_or_else(|| io::Error::other(format!("{name}: no number")))?;
        users += &format!("{name}:x:{id}:{id}::/:/bin/sh\n");
        groups += &format!("{name}:x:{id}:\n");
    }
    let own = dir.join(format!("{side}-etc"));
    if !own.exists() {
        etc(&own)?;
    }
    fs::write(own.join("passwd"), users)?;
    fs::write(own.join("group"), groups)?;
    Ok(format!("mount --bind {} /etc", own.display()))
}
