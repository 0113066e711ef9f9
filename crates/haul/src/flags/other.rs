//! demo, completions, man, help.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::Shell;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoFlags {
    /// Where to make the folder; `None` is the temporary directory.
    pub dir: Option<PathBuf>,
    pub keep: bool,
}

/// Make a small tree, copy it, interrupt, resume, verify and check it
///
/// Everything happens in a new folder in the temporary directory, which goes away at the end.
#[derive(Args)]
#[command(
    override_usage = "haul demo [OPTIONS]",
    before_help = "Examples:
  haul demo
  haul demo --keep --dir /scratch/me    to look at what it made, and on another file system"
)]
pub struct DemoArgs {
    /// Make the folder in DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Leave the folder there
    #[arg(long)]
    keep: bool,
}

impl DemoArgs {
    pub(super) fn resolve(self) -> DemoFlags {
        DemoFlags { dir: self.dir, keep: self.keep }
    }
}

/// Print completions for a shell
#[derive(Args)]
#[command(
    override_usage = "haul completions SHELL",
    before_help = "Examples:
  haul completions bash > ~/.local/share/bash-completion/completions/haul
  haul completions zsh > ~/.zfunc/_haul"
)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(super) shell: Shell,
}

/// Write the manual pages into DIR, or haul's own to standard output
#[derive(Args)]
#[command(
    override_usage = "haul man [DIR]",
    before_help = "Examples:
  haul man | man -l -
  haul man ~/.local/share/man/man1"
)]
pub struct ManArgs {
    /// Where to put haul.1, haul-cp.1 and the others
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) dir: Option<PathBuf>,
}

/// Explain a command or a topic
#[derive(Args)]
#[command(
    override_usage = "haul help [COMMAND|TOPIC]",
    before_help = "Examples:
  haul help cp
  haul help exit-codes"
)]
pub struct HelpArgs {
    /// A command, or a topic: exit-codes, addresses, filters, attributes, units
    #[arg(value_name = "COMMAND|TOPIC")]
    pub(super) topic: Option<String>,
}

/// Print docs/flags.md
#[derive(Args)]
pub struct FlagsTableArgs {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFlags {
    /// Of the agent that is joined.
    pub join: Option<String>,
}

/// Serve another haul over standard input and output: what ssh starts on the far side
#[derive(Args)]
#[command(override_usage = "ssh HOST haul agent")]
pub struct AgentArgs {
    /// Hand standard input and output to the agent that is at work under WORD
    #[arg(long, value_name = "WORD")]
    join: Option<String>,
}

impl AgentArgs {
    pub(super) fn resolve(self) -> AgentFlags {
        AgentFlags { join: self.join }
    }
}
