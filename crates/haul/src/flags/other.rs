//! doctor, demo, completions, man, help.

use haul_core::place::provider::Provider as _;
use haul_ftp::FtpProvider;
use haul_run::location;
use haul_run::location::Location;
use haul_ssh::ssh::SshProvider;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::Shell;

use super::Refusal;
use super::connect::{AskArgs, Connect};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorFlags {
    pub hosts: Vec<Location>,
    pub connect: Connect,
}

/// Diagnose a remote host
///
/// Shows how haul reaches the host, the host's abilities, and possible improvements. It logs in once, transfers no data, and
/// changes nothing on the host unless --install-agent is given.
#[derive(Args)]
#[command(
    override_usage = "haul doctor [OPTIONS] HOST...",
    before_help = "Examples:
  haul doctor cluster
  haul doctor --data-ports 50000:50100 me@cluster     test which ports the firewall allows
  haul doctor --install-agent cluster                 install haul on the host"
)]
pub struct DoctorArgs {
    /// Hosts: HOST, USER@HOST, ssh://HOST:PORT, or sftp://HOST to test plain SFTP; FTP servers: ftp://HOST, gsiftp://HOST and so on
    #[arg(value_name = "HOST", required = true, value_hint = ValueHint::Hostname)]
    hosts: Vec<OsString>,
    #[command(flatten)]
    connect: AskArgs,
}

impl DoctorArgs {
    pub(super) fn resolve(self) -> Result<DoctorFlags, Refusal> {
        let hosts = self.hosts.iter().map(|host| server_of(host).map_or_else(|| host_of(host), Ok)).collect::<Result<_, _>>()?;
        Ok(DoctorFlags { hosts, connect: self.connect.resolve() })
    }
}

/// An FTP server, if the argument is one.
pub(super) fn server_of(argument: &OsStr) -> Option<Location> {
    location::parse(argument, &|_| false).ok().filter(|at| FtpProvider.schemes().contains(&at.scheme))
}

/// A host as it stands in an address; a path behind it is of no account.
pub(super) fn host_of(argument: &OsStr) -> Result<Location, Refusal> {
    let text = argument.as_bytes();
    let alone = text.ends_with(b"]") || !text.contains(&b':');
    let address = if alone { [text, b":"].concat() } else { text.to_vec() };
    let location = location::parse(&OsString::from_vec(address), &|_| false).map_err(|e| e.to_string())?;
    match SshProvider.schemes().contains(&location.scheme) {
        true => Ok(location),
        false => {
            Err(format!("'{}' is no host to be reached by ssh; write HOST, USER@HOST or ssh://HOST:PORT", haul_core::entry::show(text)))
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoFlags {
    /// Where to make the folder; `None` is the temporary directory.
    pub dir: Option<PathBuf>,
    pub keep: bool,
}

/// Create a small tree, copy it, interrupt, resume, verify and check it
///
/// Everything happens in a new folder in the temporary directory, which is deleted at the end.
#[derive(Args)]
#[command(
    override_usage = "haul demo [OPTIONS]",
    before_help = "Examples:
  haul demo
  haul demo --keep --dir /scratch/me    keep it, on another file system"
)]
pub struct DemoArgs {
    /// Create the folder in DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Keep the folder
    #[arg(long)]
    keep: bool,
}

impl DemoArgs {
    pub(super) fn resolve(self) -> DemoFlags {
        DemoFlags { dir: self.dir, keep: self.keep }
    }
}

/// Print completions for a shell
///
/// bash, zsh and fish also complete hosts of ssh_config, buckets of earlier jobs, profiles and job IDs.
#[derive(Args)]
#[command(
    override_usage = "haul completions SHELL",
    before_help = "Examples:
  haul completions bash > ~/.local/share/bash-completion/completions/haul
  haul completions zsh > ~/.zfunc/_haul
  haul completions fish > ~/.config/fish/completions/haul.fish"
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
    /// The directory for haul.1, haul-cp.1 and the others
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
pub struct CompleteFlags {
    /// The word to be completed, as far as it is typed.
    pub current: OsString,
    /// Those between the program's name and it.
    pub words: Vec<OsString>,
}

/// Print hosts, buckets, profiles and jobs for shell completion
#[derive(Args)]
#[command(override_usage = "haul complete -- CURRENT [WORD...]")]
pub struct CompleteArgs {
    /// The word to complete, and the words before it
    #[arg(value_name = "WORD", required = true, last = true)]
    words: Vec<OsString>,
}

impl CompleteArgs {
    pub(super) fn resolve(mut self) -> CompleteFlags {
        let words = self.words.split_off(1.min(self.words.len()));
        CompleteFlags { current: self.words.pop().unwrap_or_default(), words }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFlags {
    /// Of the agent that is joined.
    pub join: Option<String>,
    /// The directory that is served; `None` for all that the user may see.
    pub root: Option<PathBuf>,
    pub read_only: bool,
}

/// Serve another haul over standard input and output (started through ssh)
#[derive(Args)]
#[command(override_usage = "ssh HOST haul agent")]
pub struct AgentArgs {
    /// Hand standard input and output to the agent that is at work under WORD
    #[arg(long, value_name = "WORD")]
    join: Option<String>,
    /// Serve DIR and nothing outside it (for ForceCommand and authorized_keys)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "join")]
    root: Option<PathBuf>,
    /// Refuse all changes below DIR
    #[arg(long, requires = "root")]
    read_only: bool,
}

impl AgentArgs {
    pub(super) fn resolve(self) -> AgentFlags {
        AgentFlags { join: self.join, root: self.root, read_only: self.read_only }
    }
}
