//! Stores without disks on a host, by its haul, by plain SFTP or by FTP, where files may take the place of devices.

use std::sync::Arc;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;
use haul_ssh::agent::{self, MadeUp, Pending, Streams};
use haul_ssh::sftp;

use super::plan::{Direction, Plan, SMALL};
use crate::device::Device;
use crate::discard::{Counts, Discard};
use crate::synthetic::Synthetic;

#[derive(Clone, Copy, Debug)]
pub enum Remote<'a> {
    Agent(&'a agent::Host),
    Sftp(&'a sftp::Host),
    /// With a directory for files of ours in place of devices.
    Ftp(&'a haul_ftp::FtpHost, Option<&'a haul_ftp::Files>),
}

/// How many files of which size there are: more than any measurement moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files {
    dirs: u64,
    files: u64,
    size: u64,
}

impl Files {
    pub fn of(plan: &Plan) -> Files {
        if plan.small { Files { dirs: 4000, files: 5000, size: SMALL } } else { Files { dirs: 1, files: 65_536, size: 1 << 30 } }
    }

    pub fn here(self) -> Arc<dyn Store> {
        Arc::new(Synthetic::new(self.dirs, self.files, self.size).repeating())
    }
}

impl Remote<'_> {
    /// `Unsupported` where the host cannot be measured as planned.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        match self {
            Remote::Agent(_) => Ok(()),
            Remote::Sftp(_) if plan.small => {
                let e = Error::new(ErrorKind::Unsupported, "measure");
                let why = "plain SFTP has only /dev/zero and /dev/null, which are not small files";
                Err(e.because(why).hint("omit --small, or install haul on the host (--install-agent)"))
            }
            Remote::Ftp(..) if plan.small => {
                let e =
                    Error::new(ErrorKind::Unsupported, "measure").because("by FTP one transfer goes on and on, which is not small files");
                Err(e.hint("omit --small; `haul bench compare` measures small files with an FTP server"))
            }
            Remote::Sftp(_) => Ok(()),
            Remote::Ftp(host, dir) => {
                for direction in &plan.directions {
                    match direction {
                        Direction::Out => host.null(1, *dir).map(drop)?,
                        Direction::In if dir.is_none() => host.zeros(1, None).map(drop)?,
                        Direction::In => {}
                    }
                }
                Ok(())
            }
        }
    }

    pub(super) fn ping(&self) -> Result<Duration> {
        match self {
            Remote::Agent(host) => host.ping(),
            Remote::Sftp(host) => host.ping(),
            Remote::Ftp(host, _) => host.ping(),
        }
    }

    /// Makes so many links, neither more nor fewer, as remote as the host allows.
    pub(super) fn sync(&self, streams: u32) -> Result<Option<Streams>> {
        match self {
            Remote::Agent(host) => host.fix_streams(streams as usize).map(Some),
            Remote::Sftp(_) | Remote::Ftp(..) => Ok(None),
        }
    }

    /// A destination that keeps nothing, and its number of channels; by SFTP and FTP it counts what the server has acknowledged.
    pub(super) fn sink(&self, streams: u32, counts: &Arc<Counts>) -> Result<(Arc<dyn Store>, usize)> {
        let into = |device: Device| -> (Arc<dyn Store>, usize) {
            let channels = device.channels();
            (Arc::new(Discard::into_device(device, counts.clone())), channels)
        };
        match self {
            Remote::Agent(host) => Ok((Arc::new(host.open_made_up(MadeUp::Sink)?), 0)),
            Remote::Sftp(host) => Ok(into(Device::Sftp(host.null(streams as usize)?))),
            Remote::Ftp(host, dir) => Ok(into(Device::Ftp(host.null(streams as usize, *dir)?))),
        }
    }

    /// A source of generated files, and its number of channels.
    pub(super) fn source(&self, files: Files, streams: u32) -> Result<(Arc<dyn Store>, usize)> {
        let from = |device: Device| -> (Arc<dyn Store>, usize) {
            let channels = device.channels();
            (Arc::new(Synthetic::new(1, files.files, files.size).from_device(device)), channels)
        };
        match self {
            Remote::Agent(host) => {
                let made = MadeUp::Source { dirs: files.dirs, files: files.files, size: files.size };
                Ok((Arc::new(host.open_made_up(made)?), 0))
            }
            Remote::Sftp(host) => Ok(from(Device::Sftp(host.zeros(streams as usize)?))),
            Remote::Ftp(host, dir) => Ok(from(Device::Ftp(host.zeros(streams as usize, *dir)?))),
        }
    }

    /// What the remote end has taken, asked without waiting; `None` where it cannot tell.
    pub(super) fn tally(&self) -> Result<Option<Pending>> {
        match self {
            Remote::Agent(host) => host.ask_tally().map(Some),
            Remote::Sftp(_) | Remote::Ftp(..) => Ok(None),
        }
    }

    /// Bytes received from the host; `None` if only the reader counts them.
    pub(super) fn received(&self) -> Option<u64> {
        match self {
            Remote::Agent(host) => Some(host.received()),
            Remote::Sftp(_) | Remote::Ftp(..) => None,
        }
    }

    pub(super) fn under_way(&self) -> u64 {
        match self {
            Remote::Agent(host) => host.under_way(),
            Remote::Sftp(_) | Remote::Ftp(..) => 0,
        }
    }
}
