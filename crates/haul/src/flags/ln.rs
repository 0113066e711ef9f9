//! ln and df: other names for what is there, and how much room there is.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{Args, ValueHint};

use super::change::refuse_stdio;
use super::connect::{AskArgs, Connect};
use super::{Environment, Refusal, location, locations};
use haul_run::location::{Location, Scheme};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LnFlags {
    /// At least one.
    pub targets: Vec<Target>,
    pub link: Location,
    /// The last argument is the link itself, never a directory for it.
    pub exact: bool,
    /// A link to a directory counts as a link.
    pub no_dereference: bool,
    pub force: bool,
    pub connect: Connect,
}

/// What a link leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The text of a symlink.
    Text(Vec<u8>),
    /// The file of a hard link.
    File(Location),
}

/// Create hard links, and with -s symlinks
///
/// As with ln(1), if LINK is a directory, the links are created in it under the targets' names. Hard links need both names on one
/// host and file system. The target of a symlink is stored as written, without the host if LINK is on the same host.
#[derive(Args)]
#[command(
    override_usage = "haul ln [OPTIONS] TARGET LINK\n       haul ln [OPTIONS] TARGET... DIR",
    before_help = "Examples:
  haul ln -s ../run7/out latest
  haul ln -sfn /data/v2 cluster:current         replace a link to a directory
  haul ln cluster:data/big cluster:keep/big     hard link"
)]
pub struct LnArgs {
    /// The targets, then the link or the directory for the links
    #[arg(value_name = "PATH", required = true, num_args = 2.., value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Create symlinks
    #[arg(short, long)]
    symbolic: bool,
    /// Replace existing files and links
    #[arg(short, long)]
    force: bool,
    /// Treat a LINK that is a symlink to a directory as a file
    #[arg(short, long)]
    no_dereference: bool,
    /// Never put the link into LINK, even if that is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    #[command(flatten)]
    connect: AskArgs,
}

impl LnArgs {
    pub(super) fn resolve(mut self, environment: &Environment<'_>) -> Result<LnFlags, Refusal> {
        let link = self.paths.pop().ok_or("name a target and a link")?;
        let link = location(&link, environment)?;
        refuse_stdio(std::slice::from_ref(&link))?;
        let target = |path: &OsString| {
            if !self.symbolic {
                return location(path, environment).map(Target::File);
            }
            // A relative name is seen from the link, not from here: only what has a host in front is read as an address.
            match location(path, environment) {
                Ok(at) if at.is_remote() => {
                    if (&at.user, &at.host, at.port) == (&link.user, &link.host, link.port) && link.scheme != Scheme::LOCAL {
                        return Ok(Target::Text(at.path));
                    }
                    Err(format!("{at} is not where the link is to be; a symlink leads nowhere else than to its own host"))
                }
                _ => Ok(Target::Text(path.as_bytes().to_vec())),
            }
        };
        let targets: Vec<Target> = self.paths.iter().map(target).collect::<Result<_, _>>()?;
        if self.no_target_directory && targets.len() > 1 {
            return Err("-T makes one link; name one target".into());
        }
        for target in &targets {
            if let Target::File(at) = target
                && (at.scheme, &at.user, &at.host, at.port) != (link.scheme, &link.user, &link.host, link.port)
            {
                return Err(format!("{at} and {link} are not on one host; copy it with haul cp, or link within a host"));
            }
        }
        Ok(LnFlags {
            targets,
            link,
            exact: self.no_target_directory,
            no_dereference: self.no_dereference,
            force: self.force,
            connect: self.connect.resolve(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DfFlags {
    /// At least one: the current directory when none was named.
    pub places: Vec<Location>,
    pub human: bool,
    pub inodes: bool,
    pub connect: Connect,
}

/// Show free space of file systems
///
/// On remote hosts, haul or the SFTP server reports it (statvfs@openssh.com). Without PATH, the current directory is shown.
#[derive(Args)]
#[command(
    override_usage = "haul df [OPTIONS] [PATH...]",
    before_help = "Examples:
  haul df -h . cluster:/scratch
  haul df -i cluster:            inodes instead of bytes
  haul df --json cluster:/scratch | jq .available"
)]
pub struct DfArgs {
    /// Paths on the file systems
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Show sizes as 5.24 GiB (help is --help)
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Show inodes instead of bytes
    #[arg(short, long)]
    inodes: bool,
    #[command(flatten)]
    connect: AskArgs,
}

impl DfArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<DfFlags, Refusal> {
        let places = if self.paths.is_empty() { vec![Location::local(b".")] } else { locations(&self.paths, environment)? };
        refuse_stdio(&places)?;
        Ok(DfFlags { places, human: self.human_readable, inodes: self.inodes, connect: self.connect.resolve() })
    }
}
