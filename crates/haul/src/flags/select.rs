//! Which files of a tree are meant.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{ArgMatches, Args, ValueHint};
use haul_core::job::Bounds;
use haul_core::spec::{FilterRule, Input, Selection};

use super::{Environment, Refusal, in_order};
use crate::units::{self, When};

/// The file of an argument, which is standard input for `-`.
pub(super) fn input(argument: &OsString) -> Input {
    if argument == "-" { Input::Stdin } else { Input::File(argument.into()) }
}

#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub struct SelectArgs {
    /// Include matching names, unless an earlier filter matched (patterns: haul help filters)
    #[arg(long, value_name = "PATTERN")]
    include: Vec<OsString>,
    /// Exclude matching names, unless an earlier filter matched
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<OsString>,
    /// Read rules from FILE, one per line: + PATTERN or - PATTERN (- reads standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    filter_from: Vec<OsString>,
    /// Read --include patterns from FILE, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    include_from: Vec<OsString>,
    /// Read --exclude patterns from FILE, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    exclude_from: Vec<OsString>,
    /// Skip files smaller than SIZE (10M is 10 MiB, 10MB is 10,000,000 bytes, 1000 is 1,000 bytes)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size_limit)]
    min_size: Option<u64>,
    /// Skip files larger than SIZE (10K-1: of 10 KiB or more)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size_limit)]
    max_size: Option<u64>,
    /// Select only files modified after WHEN: 7d (ago), 2026-01-31, 2026-01-31T08:00, 08:00
    #[arg(long, value_name = "WHEN", value_parser = units::parse_when)]
    newer_than: Option<When>,
    /// Select only files modified before WHEN
    #[arg(long, value_name = "WHEN", value_parser = units::parse_when)]
    older_than: Option<When>,
    /// Stay on the file system of each source
    #[arg(short = 'x', long)]
    one_file_system: bool,
}

impl SelectArgs {
    pub(super) fn resolve(&self, given: &ArgMatches, environment: &Environment<'_>) -> Result<Selection, Refusal> {
        let mut filters = Vec::new();
        for (_, id, nth) in in_order(given, ["include", "exclude", "filter_from", "include_from", "exclude_from"]) {
            filters.push(match id {
                "include" => FilterRule::Include(self.include[nth].as_bytes().to_vec()),
                "exclude" => FilterRule::Exclude(self.exclude[nth].as_bytes().to_vec()),
                "filter_from" => FilterRule::RulesFrom(input(&self.filter_from[nth])),
                "include_from" => FilterRule::IncludeFrom(input(&self.include_from[nth])),
                _ => FilterRule::ExcludeFrom(input(&self.exclude_from[nth])),
            });
        }
        let past = |option: &str, when: Option<When>| {
            when.map(|when| when.past(environment.now, &environment.zone).map_err(|reason| format!("{option}: {reason}"))).transpose()
        };
        let bounds = Bounds {
            min_size: self.min_size,
            max_size: self.max_size,
            newer: past("--newer-than", self.newer_than)?,
            older: past("--older-than", self.older_than)?,
        };
        if matches!((bounds.min_size, bounds.max_size), (Some(min), Some(max)) if min > max) {
            return Err("no file is larger than --min-size and smaller than --max-size; exchange them".into());
        }
        if matches!((bounds.newer, bounds.older), (Some(newer), Some(older)) if newer >= older) {
            return Err("no file is both newer than --newer-than and older than --older-than; exchange them".into());
        }
        Ok(Selection { filters, bounds, one_file_system: self.one_file_system, ..Selection::default() })
    }
}

#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub struct NulArgs {
    /// End names in lists with NUL, not with a newline (--files-from, --include-from, ...)
    #[arg(short = '0', long, visible_alias = "null")]
    from0: bool,
}

impl NulArgs {
    /// Adds what it says of lists to a selection. `other_readers`: how many sources are standard input.
    pub(super) fn resolve(&self, selection: &mut Selection, other_readers: usize) -> Result<(), Refusal> {
        selection.nul_separated = self.from0;
        if selection.readers_of_stdin() + other_readers > 1 {
            return Err("standard input can be read for one thing only; put the other lists into files".into());
        }
        Ok(())
    }
}

#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub struct ListedArgs {
    /// Select only the names in FILE, one per line, relative to SRC (- reads standard input)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files_from: Option<OsString>,
    #[command(flatten)]
    nul: NulArgs,
}

impl ListedArgs {
    pub(super) fn is_given(&self) -> bool {
        self.files_from.is_some()
    }

    /// Adds the list to a selection. `other_readers`: how many sources are standard input.
    pub(super) fn resolve(&self, selection: &mut Selection, other_readers: usize) -> Result<(), Refusal> {
        selection.files_from = self.files_from.as_ref().map(input);
        self.nul.resolve(selection, other_readers)
    }
}
