//! chmod, chgrp, chown: attributes of what is there.

use std::ffi::OsString;

use clap::{Args, ValueHint};
use haul_core::job::ModeChange;
use haul_run::location::Location;

use super::change::refuse_stdio;
use super::connect::{AskArgs, Connect};
use haul_core::spec::{Owner, Principal};

use super::keep::{parse_chown, parse_group};
use super::{Environment, Refusal, locations};
use crate::units;

/// What is to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    Mode(Vec<ModeChange>),
    Owner(Owner),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFlags {
    pub setting: Setting,
    pub places: Vec<Location>,
    pub recursive: bool,
    /// A symlink that is named is what is meant, not where it points.
    pub links_themselves: bool,
    pub connect: Connect,
}

#[derive(Args)]
struct Common {
    /// Change directories and everything below
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    connect: AskArgs,
}

impl Common {
    fn resolve(self, setting: Setting, paths: &[OsString], links: bool, environment: &Environment<'_>) -> Result<SetFlags, Refusal> {
        let places = locations(paths, environment)?;
        refuse_stdio(&places)?;
        Ok(SetFlags { setting, places, recursive: self.recursive, links_themselves: links, connect: self.connect.resolve() })
    }
}

/// Change permissions
///
/// Modes are those of chmod(1): 644, u+w, go=rX, g=u; a leading D or F limits a clause to directories or files. A directory keeps its
/// setuid and setgid bits under a mode of up to four digits. Symlinks below a directory are skipped.
#[derive(Args)]
#[command(
    override_usage = "haul chmod [OPTIONS] MODE PATH...",
    before_help = "Examples:
  haul chmod -R g+rX /scratch/me/shared
  haul chmod -R D2775,F664 cluster:project    directories and files in one run
  haul chmod --json -x host:run.sh"
)]
pub struct ChmodArgs {
    /// The mode: octal, or clauses separated by commas
    #[arg(value_name = "MODE", allow_hyphen_values = true)]
    mode: String,
    /// Files and directories
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    #[command(flatten)]
    common: Common,
}

impl ChmodArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<SetFlags, Refusal> {
        let mut changes = Vec::new();
        for clause in self.mode.split(',') {
            let parsed = units::parse_chmod(clause, environment.umask)?;
            // What --chmod, which is rsync's, and chmod(1) differ in: setuid, setgid and sticky bits under = and under octal modes.
            let digits = clause.trim_start_matches(['D', 'F']);
            let octal = digits.starts_with(|c: char| c.is_ascii_digit());
            let who = digits.split(['+', '-', '=']).next().unwrap_or_default();
            let special = |letter: char, bits: u32| if who.is_empty() || who.contains([letter, 'a']) { bits } else { 0 };
            let special = special('u', 0o4000) | special('g', 0o2000) | special('o', 0o1000);
            let operators = clause.matches(['+', '-', '=']).map(Some).chain(std::iter::repeat(None));
            for (change, operator) in parsed.into_iter().zip(operators) {
                let (files, dirs) = match operator {
                    None if octal && digits.len() < 5 => (0, 0o6000),
                    Some("=") => (change.keep & !special, change.keep & !(special & 0o1000)),
                    _ => (change.keep, change.keep),
                };
                changes.push(ModeChange { dirs: false, keep: files, ..change });
                changes.push(ModeChange { files: false, keep: dirs, ..change });
            }
        }
        self.common.resolve(Setting::Mode(changes), &self.paths, false, environment)
    }
}

/// Change owners
///
/// Names are looked up on the host of each PATH. With -R symlinks are changed themselves and never followed.
#[derive(Args)]
#[command(
    override_usage = "haul chown [OPTIONS] OWNER[:GROUP] PATH...",
    before_help = "Examples:
  haul chown -R me:lab /scratch/shared
  haul chown :lab cluster:project      the group only
  haul chown 1000:1000 sftp://nas/data"
)]
pub struct ChownArgs {
    /// OWNER, OWNER:GROUP or :GROUP, as names or numbers
    #[arg(value_name = "OWNER", value_parser = parse_chown)]
    owner: Owner,
    /// Files and directories
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Change symlinks themselves, not what they point to
    #[arg(short = 'h', long)]
    no_dereference: bool,
    #[command(flatten)]
    common: Common,
}

impl ChownArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<SetFlags, Refusal> {
        let links = self.no_dereference || self.common.recursive;
        self.common.resolve(Setting::Owner(self.owner), &self.paths, links, environment)
    }
}

/// Change groups
///
/// Names are looked up on the host of each PATH. With -R symlinks are changed themselves and never followed.
#[derive(Args)]
#[command(
    override_usage = "haul chgrp [OPTIONS] GROUP PATH...",
    before_help = "Examples:
  haul chgrp -R lab /scratch/shared
  haul chgrp 2000 cluster:project"
)]
pub struct ChgrpArgs {
    /// The group, by name or number
    #[arg(value_name = "GROUP", value_parser = parse_group)]
    group: Principal,
    /// Files and directories
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Change symlinks themselves, not what they point to
    #[arg(short = 'h', long)]
    no_dereference: bool,
    #[command(flatten)]
    common: Common,
}

impl ChgrpArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<SetFlags, Refusal> {
        let links = self.no_dereference || self.common.recursive;
        let owner = Owner { user: None, group: Some(self.group) };
        self.common.resolve(Setting::Owner(owner), &self.paths, links, environment)
    }
}
