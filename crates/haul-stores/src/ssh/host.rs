//! A host behind ssh, reached by haul on it or by plain SFTP.

use std::any::Any;
use std::sync::Arc;

use haul_core::entry::{Kind, show as safe};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::{DataPath, Host, Location, OpenOptions};
use haul_core::store::Store;

use crate::agent::{self, RootOptions};
use crate::sftp::{self, CHANNELS};

#[derive(Debug)]
pub struct SshHost {
    pub route: Route,
    pub(super) streams: Streams,
    /// The host has no haul and could have this one.
    pub(super) placeable: bool,
    /// Data connections may be made.
    pub(super) direct: bool,
}

/// What answers on the host.
#[derive(Debug)]
pub enum Route {
    Agent(agent::Host),
    Sftp(sftp::Host),
}

/// The connections of a host's data, as far as they are known in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// No data is moved, or it is not known.
    Unknown,
    /// Data connections beside ssh, if they can be made: to this host and port, or from there; as many as `--streams` says, or as
    /// haul decides.
    Direct {
        to: Option<String>,
        streams: Option<usize>,
    },
    Sessions(Option<usize>),
    /// One session of ssh; with `direct` data connections beside it, if they can be made.
    Single {
        direct: bool,
    },
}

impl Streams {
    pub(super) fn words(&self) -> String {
        match self {
            Streams::Unknown => String::new(),
            Streams::Direct { to, streams } => {
                let to = to.as_ref().map_or_else(|| "from there".into(), |to| format!("to {}", safe(to.as_bytes())));
                let streams = match streams {
                    None => format!("up to {} streams", agent::DATA),
                    Some(1) => "1 stream".into(),
                    Some(streams) => format!("{streams} streams"),
                };
                format!(", direct TCP {to} ({streams}, TLS 1.3)")
            }
            Streams::Sessions(Some(1)) => " (1 ssh session)".into(),
            Streams::Sessions(streams) => format!(" (up to {} ssh sessions)", streams.unwrap_or(CHANNELS)),
            Streams::Single { direct } => {
                let direct = if *direct { format!("up to {} streams or ", agent::DATA) } else { String::new() };
                format!(" ({direct}one ssh session: no private directory for the control socket of further sessions)")
            }
        }
    }
}

impl SshHost {
    /// The host as this backend reached it.
    pub fn of(host: &dyn Host) -> Option<&SshHost> {
        (host as &dyn Any).downcast_ref()
    }
}

impl Host for SshHost {
    fn path(&self, location: &Location) -> Vec<u8> {
        match &self.route {
            Route::Agent(host) => host.absolute(&location.path),
            Route::Sftp(host) => host.absolute(&location.path),
        }
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>> {
        match &self.route {
            Route::Agent(host) => host.look(path),
            Route::Sftp(host) => host.look(path),
        }
    }

    fn make_dir(&self, path: &[u8], parents: bool) -> Result<()> {
        match &self.route {
            Route::Agent(host) => host.make_dir(path, parents),
            Route::Sftp(host) => host.make_dir(path, parents),
        }
    }

    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        let refuse = |reason| Err(Error::new(ErrorKind::Unsupported, "open").at(path).because(reason));
        match &self.route {
            Route::Agent(host) => {
                let OpenOptions { follow, keep_dirlinks, keep_modes, .. } = options;
                Ok(Arc::new(host.open(path, RootOptions { follow, keep_dirlinks, keep_modes })?))
            }
            Route::Sftp(_) if options.follow => refuse("plain SFTP cannot follow remote symlinks (-L)"),
            Route::Sftp(_) if options.one_file_system => refuse("plain SFTP does not report file system boundaries (-x)"),
            Route::Sftp(host) => Ok(Arc::new(host.open(path)?)),
        }
    }

    fn data_path(&self, source: &dyn Host) -> DataPath {
        let both = match (&self.route, SshHost::of(source).map(|source| &source.route)) {
            (Route::Agent(to), Some(Route::Agent(from))) if self.direct => to.link_peer(from).is_ok(),
            _ => false,
        };
        if both { DataPath::Direct } else { DataPath::Through }
    }

    fn describe(&self) -> String {
        let streams = self.streams.words();
        let hint = if self.placeable { "; --install-agent installs haul" } else { "" };
        match &self.route {
            Route::Agent(_) => format!("by haul on the remote host{streams}"),
            Route::Sftp(_) => format!("over plain SFTP (times to the second, no extended attributes, no ACLs{hint}){streams}"),
        }
    }
}
