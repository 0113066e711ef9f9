//! How other machines and stores are reached.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::objects::{ObjectArgs, ObjectFlags};
use crate::objects::Clients;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// ssh's port, where the address names none.
    pub port: Option<u16>,
    pub identities: Vec<PathBuf>,
    pub jump: Option<String>,
    pub ssh_config: Option<PathBuf>,
    /// `Key=Value` as in ssh_config(5).
    pub ssh_options: Vec<String>,
    /// The command in place of `ssh`.
    pub ssh: Option<OsString>,
    /// The haul to start on the remote host.
    pub agent: Option<String>,
    /// Plain SFTP, whatever is on the remote host.
    pub no_agent: bool,
    /// haul places itself on the remote host where it is not there.
    pub install_agent: bool,
    /// Data connections beside ssh.
    pub direct: bool,
    /// ssh connections at the most.
    pub logins: usize,
    /// Ports for them that the firewall lets through, the first and the last.
    pub data_ports: Option<(u16, u16)>,
    /// Object stores.
    pub objects: ObjectFlags,
    /// Those of other commands of this process, too.
    pub clients: Clients,
}

#[derive(Args)]
#[command(next_help_heading = "Reaching other machines (ssh; no effect on local paths)")]
pub struct ConnectArgs {
    /// ssh's port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// A private key for ssh (rsync's -i is --itemize-changes here)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    identity: Vec<PathBuf>,
    /// Go through HOST, as ssh -J
    #[arg(short = 'J', long, value_name = "HOST")]
    jump: Option<String>,
    /// Read FILE in place of ~/.ssh/config
    #[arg(short = 'F', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ssh_config: Option<PathBuf>,
    /// An option of ssh_config(5), as ssh -o
    #[arg(long, value_name = "KEY=VALUE")]
    ssh_option: Vec<String>,
    /// The ssh command to run
    #[arg(short = 'e', long, visible_alias = "rsh", value_name = "CMD")]
    ssh: Option<OsString>,
    /// The haul on the remote host, where it is not in the PATH there
    #[arg(long, value_name = "PATH", value_parser = far_path)]
    agent: Option<String>,
    /// Use plain SFTP, also where haul is on the remote host
    #[arg(long, conflicts_with = "agent")]
    no_agent: bool,
    /// Where haul is not on the remote host, place it there: in the user's cache, checked by its hash
    #[arg(long, conflicts_with_all = ["agent", "no_agent"])]
    install_agent: bool,
    /// Log in up to N times for what goes through ssh (non-interactive logins only)
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u8).range(1..=16))]
    logins: u8,
    /// Send all data through ssh: no connections of haul's own beside it
    #[arg(long)]
    no_direct: bool,
    /// Use these TCP ports for encrypted data connections, those that a firewall lets through
    #[arg(long, value_name = "LOW:HIGH", value_parser = ports, conflicts_with = "no_direct")]
    data_ports: Option<(u16, u16)>,
    #[command(flatten)]
    objects: ObjectArgs,
}

impl ConnectArgs {
    pub(super) fn resolve(self) -> Connect {
        Connect {
            port: self.port,
            identities: self.identity,
            jump: self.jump,
            ssh_config: self.ssh_config,
            ssh_options: self.ssh_option,
            ssh: self.ssh,
            agent: self.agent,
            no_agent: self.no_agent,
            install_agent: self.install_agent,
            direct: !self.no_direct,
            logins: self.logins.into(),
            data_ports: self.data_ports,
            objects: self.objects.resolve(),
            clients: Clients::default(),
        }
    }
}

/// A path that means the same to every shell.
fn far_path(text: &str) -> Result<String, String> {
    match haul_stores::ssh::is_plain(text) {
        true => Ok(text.to_string()),
        false => Err("write it with letters, digits and _ . / ~ + @ % = , : - only: it passes the far side's shell".into()),
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
