//! The flags that only ssh has.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// What the flags say of ssh.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[group(skip)]
#[command(next_help_heading = "Reaching other machines (ssh; no effect on local paths)")]
pub struct Flags {
    /// ssh's port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// A private key for ssh (rsync's -i is --itemize-changes here)
    #[arg(long = "identity", id = "identity", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identities: Vec<PathBuf>,
    /// Go through HOST, as ssh -J
    #[arg(short = 'J', long, value_name = "HOST")]
    pub jump: Option<String>,
    /// Read FILE in place of ~/.ssh/config
    #[arg(short = 'F', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,
    /// An option of ssh_config(5), as ssh -o
    #[arg(long = "ssh-option", id = "ssh_option", value_name = "KEY=VALUE")]
    pub ssh_options: Vec<String>,
    /// The ssh command to run
    #[arg(short = 'e', long, visible_alias = "rsh", value_name = "CMD")]
    pub ssh: Option<OsString>,
    /// The haul on the remote host, where it is not in the PATH there
    #[arg(long, value_name = "PATH", value_parser = remote_path)]
    pub agent: Option<String>,
    /// Use plain SFTP, also where haul is on the remote host
    #[arg(long, conflicts_with = "agent")]
    pub no_agent: bool,
    /// Where haul is not on the remote host, place it there: in the user's cache, checked by its hash
    #[arg(long, conflicts_with_all = ["agent", "no_agent"])]
    pub install_agent: bool,
    /// Log in up to N times for what goes through ssh (non-interactive logins only)
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub logins: u8,
    /// Send all data through ssh: no connections of haul's own beside it
    #[arg(long)]
    pub no_direct: bool,
    /// Use these TCP ports for encrypted data connections, those that a firewall lets through
    #[arg(long, value_name = "LOW:HIGH", value_parser = ports, conflicts_with = "no_direct")]
    pub data_ports: Option<(u16, u16)>,
}

/// A path that means the same to every shell.
fn remote_path(text: &str) -> Result<String, String> {
    match super::is_plain(text) {
        true => Ok(text.to_string()),
        false => Err("write it with letters, digits and _ . / ~ + @ % = , : - only: it passes the remote shell".into()),
    }
}

/// `50000:51000`, or one port.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let (low, high) = text.split_once(':').unwrap_or((text, text));
    match (port(low), port(high)) {
        (Some(low), Some(high)) if low <= high => Ok((low, high)),
        _ => Err("write LOW:HIGH, two numbers from 1 to 65535".into()),
    }
}
