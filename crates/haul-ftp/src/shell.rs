//! `sshftp://`: a GridFTP server that the user's own ssh starts on the host. Commands and replies go through ssh; data connections
//! are plain TCP beside it, which nobody encrypts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::Location;

use super::control::Control;
use super::passive::passive_address;
use haul_core::place::provider::Access;
use haul_net::child;
use haul_ssh::ssh::Reach;

const OP: &str = "connect";
/// Sessions of one ssh login at the most: OpenSSH allows ten.
pub const SESSIONS: usize = 8;
/// Said once for each host.
pub const WARNING: &str = "WARNING: sshftp:// encrypts the login and the commands, but not the data";
/// The user and the password that servers want to hear; ssh has told them who it is.
pub const ANYBODY: [&str; 2] = ["anonymous", "globus@"];
/// What the command prints where there is no server to start.
const MISSING: &str = "500 sshftp-missing";

/// Starts the server where `globus-gridftp-server-enable-sshftp` puts its script. The same for sh, csh and fish, without a name in it.
const COMMAND: &str = "exec sh -c 'for server in \"$HOME/.globus/sshftp\" /etc/grid-security/sshftp; do test -x \"$server\" && exec \"$server\"; \
                       done; echo \"500 sshftp-missing\"'";

/// A login to a host whose sessions are servers.
#[derive(Debug)]
pub struct Shell {
    reach: Reach,
}

/// A program that is ended when this is dropped.
#[derive(Debug)]
pub struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        child::end(&mut self.0);
    }
}

impl Shell {
    pub fn new(access: &Access, location: &Location) -> Result<Shell> {
        Ok(Shell { reach: Reach::new(access, location)? })
    }

    /// A server of its own, in a further session of the one login.
    pub fn connect(&self, wait: Duration) -> Result<Control> {
        let (own, other) = UnixStream::pair().map_err(|e| Error::io(e, OP))?;
        let program = self.reach.login.run_over(COMMAND, OwnedFd::from(other))?;
        Control::over(own.into(), Program(program), wait).map_err(|e| Error::io(e, OP))
    }

    /// Finds out where data connections go to: the address that the server names, if it is one of the host's. Another one could be any
    /// machine of this network.
    /// Error: `Unsupported` for a host behind another one.
    pub fn locate(&self, control: &mut Control) -> Result<()> {
        let reply = control.ask("PASV", b"", OP)?;
        let claimed = passive_address(&reply.text).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let peer = self.reach.login.reached(claimed.into()).ok_or_else(|| {
            let e =
                Error::new(ErrorKind::Unsupported, OP).because("the host is reached through another one, and data connections cannot be");
            e.hint("use an ssh:// address, whose data go through ssh too")
        })?;
        (control.peer, control.local) = (peer, local_address(peer));
        Ok(())
    }

    /// Why no server has greeted: ssh's own words, or that there is none.
    pub fn explain(&self, e: Error) -> Error {
        if e.reason().contains(MISSING) {
            let e = Error::new(ErrorKind::Unsupported, OP).because("no GridFTP server is set up for ssh on the host");
            return e.hint("run globus-gridftp-server-enable-sshftp there (with -nonroot for yourself alone), or use an ssh:// address");
        }
        self.reach.login.explain(e)
    }
}

/// The address of this machine that connections from `peer` would come to.
fn local_address(peer: IpAddr) -> IpAddr {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    // Nothing is sent.
    let found =
        UdpSocket::bind(SocketAddr::new(any, 0)).and_then(|socket| socket.connect(SocketAddr::new(peer, 9)).and(socket.local_addr()));
    found.map_or(any, |address| address.ip())
}
