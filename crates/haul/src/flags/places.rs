//! SRC and DST of cp, sync and mv.

use std::ffi::OsString;

use clap::{Args, ValueHint};
use haul_core::spec::Operation;
use haul_run::location::{Location, Scheme, operand};

use super::{Environment, Refusal, location, locations};

#[derive(Args)]
pub struct PlacesArgs {
    /// One or more SRC, then DST. SRC creates DST/SRC, SRC/ means its contents (haul help addresses)
    #[arg(value_name = "SRC", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
}

impl PlacesArgs {
    /// Sources and destination; an error where their number is wrong. With `has_list` a list may name the sources. `into`:
    /// `--target-directory`, in place of the destination.
    pub fn resolve(
        &self,
        operation: Operation,
        list_only: bool,
        has_list: bool,
        into: Option<&OsString>,
        environment: &Environment<'_>,
    ) -> Result<(Vec<Location>, Location), Refusal> {
        let (sources, destination): (Vec<Location>, Location) = match (operation, self.paths.as_slice()) {
            (_, [_, ..]) if let Some(directory) = into => {
                let destination = Location { trailing_slash: true, ..location(directory, environment)? };
                (locations(&self.paths, environment)?, destination)
            }
            (_, []) => return Err("no source and no destination; write SRC and DST (help is -h)".into()),
            (_, [one]) if list_only => (locations(std::slice::from_ref(one), environment)?, Location::local(b".")),
            // The list names the sources, by their addresses.
            (Operation::Copy, [only]) if has_list => (Vec::new(), location(only, environment)?),
            (_, [only]) => {
                return Err(format!("{} is the only address; write SRC and DST", haul_core::entry::show(only.as_encoded_bytes())));
            }
            (Operation::Sync, [_, _, _, ..]) => {
                return Err(
                    "sync takes one source; `haul cp` takes many, or sync the directory that holds them with --include and --exclude"
                        .into(),
                );
            }
            (_, [sources @ .., destination]) => (locations(sources, environment)?, location(destination, environment)?),
        };
        let sources: Vec<Location> = sources.into_iter().map(|source| operand(source, 0)).collect();
        let destination = operand(destination, 1);
        let stdin = sources.iter().filter(|s| s.scheme == Scheme::STDIO).count();
        let to_stdout = destination.scheme == Scheme::STDIO;
        if stdin > 0 && (operation != Operation::Copy || sources.len() > 1) {
            return Err("- (standard input) can only be the one source of `haul cp`; leave out the others".into());
        }
        if to_stdout && destination.path.is_empty() && sources.iter().any(|s| s.scheme == Scheme::STDIO && s.path.is_empty()) {
            return Err("from - to - nothing would be copied; `cat` does that".into());
        }
        if operation != Operation::Copy && to_stdout {
            return Err("- (standard output) can only be the destination of `haul cp`; `haul cat` writes files there, too".into());
        }
        Ok((sources, destination))
    }
}
