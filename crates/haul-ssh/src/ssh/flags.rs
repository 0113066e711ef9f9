//! The flags that only ssh has.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use haul_core::place::Scheme;
use serde::{Deserialize, Serialize};

use haul_core::place::provider::{Values, root_all};

/// Flags of ssh.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[group(skip)]
#[command(next_help_heading = "Connection (SSH; no effect on local paths)")]
pub struct Flags {
    /// Connect to this SSH port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Use this private key (-i is --itemize-changes, as in rsync)
    #[arg(long = "identity", id = "identity", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identities: Vec<PathBuf>,
    /// Connect through HOST, as ssh -J
    #[arg(short = 'J', long, value_name = "HOST")]
    pub jump: Option<String>,
    /// Read FILE instead of ~/.ssh/config
    #[arg(short = 'F', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,
    /// Set an option of ssh_config(5), as ssh -o
    #[arg(long = "ssh-option", id = "ssh_option", value_name = "KEY=VALUE")]
    pub ssh_options: Vec<String>,
    /// Run CMD as ssh
    #[arg(short = 'e', long, visible_alias = "rsh", value_name = "CMD")]
    pub ssh: Option<OsString>,
    /// Run haul at PATH on the remote host (default: auto-detected)
    #[arg(long, value_name = "PATH", value_parser = remote_path)]
    pub agent: Option<String>,
    /// Use plain SFTP even if the remote host has haul
    #[arg(long, conflicts_with = "agent")]
    pub no_agent: bool,
    /// Install haul on the remote host if missing (in the user's cache, verified by its hash)
    #[arg(long, conflicts_with_all = ["agent", "no_agent"])]
    pub install_agent: bool,
    /// Use N logins for data sent through ssh (default: up to 4 if one connection is full and no question is asked)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub logins: Option<u8>,
    /// Send all data through ssh, without direct TCP connections
    #[arg(long)]
    pub no_direct: bool,
    /// Use these TCP ports for direct, encrypted data connections (as the firewall allows)
    #[arg(long, value_name = "LOW:HIGH", value_parser = crate::agent::ports, conflicts_with = "no_direct")]
    pub data_ports: Option<(u16, u16)>,
    /// Let the remote host connect to this machine if this one cannot connect there
    #[arg(long, conflicts_with = "no_direct")]
    pub accept: bool,
}

impl Values for Flags {
    fn record(&self, directory: &Path) -> Option<(Scheme, serde_json::Value)> {
        let mut flags = self.clone();
        root_all(flags.identities.iter_mut().chain(&mut flags.ssh_config), directory);
        Some((super::provider::SSH, serde_json::to_value(flags).unwrap_or_default()))
    }
}

/// A path that means the same to every shell.
fn remote_path(text: &str) -> Result<String, String> {
    match super::is_plain(text) {
        true => Ok(text.to_string()),
        false => Err("use only letters, digits and _ . / ~ + @ % = , : - (the remote shell reads it)".into()),
    }
}
