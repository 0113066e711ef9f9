//! The flags that backends declare for their own addresses.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use haul_core::place::provider::{Access, Provider, Values};
use haul_run::registry::PROVIDERS;

pub use haul_core::place::provider::Access as Connect;

use crate::units;

/// All of them.
#[derive(Debug)]
pub struct ConnectArgs {
    values: Vec<Arc<dyn Values>>,
    /// Those of the command line, as another haul takes them.
    pub(super) words: Vec<OsString>,
}

impl ConnectArgs {
    pub(super) fn resolve(self) -> Access {
        self.values.into_iter().fold(Access::default(), Access::with)
    }

    fn words(matches: &ArgMatches) -> Vec<OsString> {
        let mut words = Vec::new();
        for arg in Self::augment_args(Command::new("all")).get_arguments() {
            let id = arg.get_id().as_str();
            let (Some(long), Some(ValueSource::CommandLine)) = (arg.get_long(), matches.value_source(id)) else { continue };
            match matches.get_raw(id).filter(|_| arg.get_action().takes_values()) {
                Some(values) => words.extend(values.map(|value| {
                    let mut word = OsString::from(format!("--{long}="));
                    word.push(value);
                    word
                })),
                None => words.push(format!("--{long}").into()),
            }
        }
        words
    }
}

impl Args for ConnectArgs {
    fn augment_args(command: Command) -> Command {
        PROVIDERS.iter().fold(command, |command, provider| provider.declare(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConnectArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let words = Self::words(matches);
        let all: Result<Vec<_>, _> = PROVIDERS.iter().map(|provider| provider.read(matches)).collect();
        Ok(ConnectArgs { values: all?.into_iter().flatten().collect(), words })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags of a command that asks hosts and moves no data: nothing watches its progress.
#[derive(Args, Debug)]
pub struct AskArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Abort when a host has not answered for DURATION: 60s, 5m
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, help_heading = "Safety")]
    timeout: Option<Duration>,
}

impl AskArgs {
    pub(super) fn resolve(self) -> Access {
        // rsync's --timeout 0 is none at all; every wait here has a bound.
        let timeout = self.timeout.filter(|timeout| !timeout.is_zero());
        let mut access = self.connect.resolve();
        (access.idle_timeout, access.answer_timeout) = (timeout, timeout);
        access
    }
}

/// The ids of the flags of the backends that are chosen.
pub(super) fn ids_of(chosen: impl Fn(&dyn Provider) -> bool) -> BTreeSet<String> {
    let command = PROVIDERS.iter().filter(|provider| chosen(**provider)).fold(Command::new("group"), |to, provider| provider.declare(to));
    command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}
