//! The signals that a command begins with: a test may itself run under `nohup` or in the background of a shell.

use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::c_int;

/// Has the command begin with SIGINT, SIGTERM, SIGHUP and SIGUSR1 at their defaults, but for those in `ignored`, which it ignores
/// as what `nohup` starts does.
pub fn only(command: &mut Command, ignored: &'static [c_int]) {
    let set = move || {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1] {
            let action = if ignored.contains(&signal) { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: called between fork and exec, where signal(2) is allowed; it touches no memory of ours.
            unsafe { libc::signal(signal, action) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes calls that are async-signal-safe.
    unsafe { command.pre_exec(set) };
}
