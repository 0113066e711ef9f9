//! `--retries`, for what a command asks for by itself; a run reports its own retries through its display.

use haul_core::cancel::Cancel;
use haul_core::retry::{Entered, Policy, Scope};

use crate::flags::{Command, Invocation};
use crate::{out, render};

/// What holds for the command, until what comes back is dropped.
pub fn enter(invocation: &Invocation) -> Entered {
    let verbose = invocation.global.verbose > 0;
    let report = move |error: &haul_core::Error, again| {
        if verbose {
            out::complain(&format!("haul: {}\n", render::retried(error, again)).into(), false);
        }
    };
    Scope::new(policy(&invocation.command), Cancel::default(), report).enter()
}

pub fn policy(command: &Command) -> Policy {
    Policy::of(match command {
        Command::Copy(flags) => flags.spec.limits.retries,
        Command::Check(flags) => flags.spec.limits.retries,
        Command::Sum(flags) => flags.retries,
        _ => None,
    })
}
