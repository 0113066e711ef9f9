//! Programs in a mount namespace of their own.

use std::fs;
use std::io;
use std::path::Path;
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
    let (passwd, group) = (dir.join(format!("{side}-passwd")), dir.join(format!("{side}-group")));
    fs::write(&passwd, users)?;
    fs::write(&group, groups)?;
    Ok(format!("mount --bind {} /etc/passwd && mount --bind {} /etc/group", passwd.display(), group.display()))
}
