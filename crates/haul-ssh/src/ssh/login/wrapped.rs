//! A master behind a command of the user's own (`-e WRAPPER`) that did not become ssh: what is known of the command ends only that.

use std::io::PipeWriter;
use std::process::{Child, Command, Stdio};

use haul_net::child;

/// A process that waits for the end of this one, however that ends, and then ends the master by its socket.
#[derive(Debug)]
pub(super) struct Exit {
    child: Child,
    /// Closed by the end of this process.
    until: Option<PipeWriter>,
}

/// Whether the process that was started is ssh by now.
pub(super) fn is_ssh(child: &Child) -> bool {
    std::fs::read_link(format!("/proc/{}/exe", child.id())).is_ok_and(|program| program.file_name().is_some_and(|name| name == "ssh"))
}

impl Exit {
    /// `exit` ends the master. `None` where no process can be had: then the master stays.
    pub fn watch(exit: &Command) -> Option<Exit> {
        let (ends, until) = std::io::pipe().ok()?;
        let mut watch = Command::new("sh");
        watch.args(["-c", "read line; exec \"$@\"", "sh"]).arg(exit.get_program()).args(exit.get_args());
        watch.stdin(ends).stdout(Stdio::null()).stderr(Stdio::null());
        child::detach(&mut watch);
        Some(Exit { child: watch.spawn().ok()?, until: Some(until) })
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        drop(self.until.take());
        let _ = self.child.wait();
    }
}
