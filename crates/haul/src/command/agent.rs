//! `haul agent`: the remote end of a run over ssh.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use haul_core::error::{Error, Result};
use haul_ssh::agent::{Confined, LISTENING, Options, SILENCE, Site, join, serve};
use rustix::fd::{BorrowedFd, OwnedFd};

use crate::exit::Exit;
use crate::flags::other::AgentFlags;
use crate::{out, signals};

pub fn run(flags: &AgentFlags) -> Exit {
    match carry_on(flags) {
        Ok(()) => Exit::Success,
        Err(e) => out::error(&e),
    }
}

fn carry_on(flags: &AgentFlags) -> Result<()> {
    let umask = crate::umask();
    // Modes are set as they are meant; the mask is taken into account where they are not kept.
    rustix::process::umask(rustix::fs::Mode::empty());
    let own = |fd: BorrowedFd<'_>| -> Result<OwnedFd> { rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| Error::io(e.into(), "start")) };
    let (input, output) = (own(std::io::stdin().as_fd())?, own(std::io::stdout().as_fd())?);
    match &flags.join {
        Some(word) => join(word, &input, &output),
        None => {
            let (measuring, version) = (haul_bench::net::measuring(), env!("CARGO_PKG_VERSION"));
            let confined = flags.root.as_deref().map(|dir| Confined::new(dir, flags.read_only)).transpose()?.map(Arc::new);
            let (site, abandoned) = (Site::read(), || signals::leave(Exit::Success));
            let (silence, listening) = (shorter("HAUL_TEST_SILENCE", SILENCE), shorter("HAUL_TEST_LISTENING", LISTENING));
            serve(input, output, Options { measuring, umask, confined, site, version, silence, listening, abandoned })
        }
    }
}

/// For the tests of what ends by itself: the variable gives fewer seconds than the bound, and never more.
fn shorter(variable: &str, bound: Duration) -> Duration {
    let seconds = std::env::var(variable).ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(bound, |seconds| bound.min(Duration::from_secs(seconds)))
}
