//! What one transfer is: plain values, without opened stores.
//!
//! The command line becomes a [`TransferSpec`] without a look at any disk, and the program opens its places to make a
//! [`Job`](crate::job::Job) of it. Its [text](TransferSpec::to_text) is kept with the job, can be queued, and can be given to
//! another process.

mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::entry::MetaMask;
use crate::job::{Bounds, Links, ModeChange};
use crate::place::Location;
use crate::plan::Policy;
use crate::stripe::Stripe;

/// The form of a spec that this program writes and reads.
pub const VERSION: u32 = 1;

/// One transfer. `A` names a place: a [`Location`], or its text where the spec is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferSpec<A = Location> {
    pub version: u32,
    pub operation: Operation,
    /// At least one; exactly one for `Sync` and `Check`.
    pub sources: Vec<A>,
    pub destination: A,
    #[serde(default)]
    pub selection: Selection,
    #[serde(default)]
    pub comparison: Policy,
    pub attributes: Attributes,
    /// `None`: nothing is deleted.
    #[serde(default)]
    pub deletion: Option<Deletion>,
    #[serde(default)]
    pub safety: Safety,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub performance: Performance,
    /// The flags of each backend, by its first scheme, in the backend's own form.
    #[serde(default)]
    pub access: BTreeMap<String, serde_json::Value>,
}

impl TransferSpec {
    /// What the program does with these places without an option: modes and modification times are kept, unchanged files skipped.
    pub fn new(operation: Operation, sources: Vec<Location>, destination: Location) -> TransferSpec {
        TransferSpec {
            version: VERSION,
            operation,
            sources,
            destination,
            selection: Selection::default(),
            comparison: Policy::DEFAULT,
            attributes: Attributes::only(MetaMask::MTIME.with(MetaMask::MODE)),
            deletion: None,
            safety: Safety::default(),
            limits: Limits::default(),
            performance: Performance::default(),
            access: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Copy,
    Sync,
    /// A copy with all attributes, whose source is deleted once the destination is verified.
    Move,
    Check {
        /// Only what is missing or differs at the destination.
        one_way: bool,
    },
}

/// A file to read, or standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    Stdin,
    File(#[serde(with = "text::path")] PathBuf),
}

/// One filter option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterRule {
    Include(#[serde(with = "text::bytes")] Vec<u8>),
    Exclude(#[serde(with = "text::bytes")] Vec<u8>),
    /// Lines of `+ PATTERN` and `- PATTERN`.
    RulesFrom(Input),
    IncludeFrom(Input),
    ExcludeFrom(Input),
}

/// Which files of the sources are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// In the order of the command line: the first match wins.
    pub filters: Vec<FilterRule>,
    pub bounds: Bounds,
    /// Stay on the file system of each source.
    pub one_file_system: bool,
    /// Names relative to the one source.
    pub files_from: Option<Input>,
    /// Names in every list end with a zero byte, not with a newline.
    pub nul_separated: bool,
    /// Go into listed directories.
    pub recurse_listed: bool,
}

impl Selection {
    /// How many of the lists are read from standard input.
    pub fn readers_of_stdin(&self) -> usize {
        use FilterRule::{ExcludeFrom, IncludeFrom, RulesFrom};
        let reads = |rule: &&FilterRule| matches!(rule, RulesFrom(Input::Stdin) | IncludeFrom(Input::Stdin) | ExcludeFrom(Input::Stdin));
        self.filters.iter().filter(reads).count() + usize::from(self.files_from == Some(Input::Stdin))
    }

    fn inputs(&mut self) -> impl Iterator<Item = &mut Input> {
        fn of_rule(rule: &mut FilterRule) -> Option<&mut Input> {
            match rule {
                FilterRule::RulesFrom(input) | FilterRule::IncludeFrom(input) | FilterRule::ExcludeFrom(input) => Some(input),
                FilterRule::Include(_) | FilterRule::Exclude(_) => None,
            }
        }
        self.filters.iter_mut().filter_map(of_rule).chain(&mut self.files_from)
    }
}

/// What of each entry is preserved or set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    #[serde(with = "text::mask")]
    pub keep: MetaMask,
    pub links: Links,
    #[serde(default)]
    pub sparse: bool,
    /// Applied in order.
    #[serde(default)]
    pub chmod: Vec<ModeChange>,
    #[serde(default)]
    pub owner: Option<Owner>,
    /// Owners between machines by number, not by name.
    #[serde(default)]
    pub numeric_ids: bool,
}

impl Attributes {
    /// These, and symlinks as symlinks.
    pub fn only(keep: MetaMask) -> Attributes {
        Attributes { keep, links: Links::default(), sparse: false, chmod: Vec::new(), owner: None, numeric_ids: false }
    }
}

/// The owner that entries get; a missing half stays as it is at the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub user: Option<Principal>,
    pub group: Option<Principal>,
}

/// A user or a group: a number, or a name that the destination looks up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    Id(u32),
    Name(String),
}

/// Deletes entries that the source does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deletion {
    /// Excluded entries too.
    pub excluded: bool,
    /// Even if some files could not be read.
    pub ignore_errors: bool,
    pub most: Option<MaxDelete>,
}

/// The most that a run may delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxDelete {
    Count(u64),
    /// Percent of the entries found at the destination.
    Percent(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Safety {
    /// Read the destination back and compare it with what was read.
    pub verify: bool,
    /// Everything is on stable storage before the end.
    pub sync: bool,
    /// Write into existing files; an interruption leaves partial ones.
    pub in_place: bool,
    /// For replaced and deleted files; relative to the destination unless absolute.
    #[serde(with = "text::some_path")]
    pub backup_dir: Option<PathBuf>,
    /// Trees whose identical files are hard-linked; relative to the destination unless absolute. The first match wins.
    #[serde(with = "text::paths")]
    pub link_dest: Vec<PathBuf>,
    /// Each source file is deleted once its copy is verified.
    pub remove_source: bool,
    /// Missing parents of the destination are created.
    pub make_path: bool,
    /// The destination is the new name of the one source, which may be a directory.
    pub exact: bool,
}

/// What ends a run early.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// From the start of the run.
    pub deadline: Option<Duration>,
    /// The longest without progress; `None` is haul's own bound.
    pub timeout: Option<Duration>,
    /// Tries after the first failed one; `None` is haul's own number.
    pub retries: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Performance {
    /// 1 to 4096; `None` is tuned.
    pub workers: Option<u32>,
    /// Bytes per second.
    pub bandwidth: Option<u64>,
    /// Bytes, at least 64 KiB.
    pub chunk: Option<u64>,
    /// Workers of one file at the most.
    pub concurrency: Option<u32>,
    /// Data connections per host, 1 to 64; `None` is tuned.
    pub streams: Option<usize>,
    /// Compress data on the network.
    pub compress: bool,
    /// Copy changed files whole, without delta transfer.
    pub whole_file: bool,
    /// Layout of new large files on Lustre.
    pub stripe: Stripe,
}

#[cfg(test)]
mod tests;
