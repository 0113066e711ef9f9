//! A GridFTP server on loopback, on a free port: `globus-gridftp-server`, in clear text and with anonymous logins that have root's rights.

use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::objects::Running;
use crate::port::free_port;

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct GridServer {
    running: Running,
    pub port: u16,
}

impl GridServer {
    /// `options` are further ones of the command line.
    pub fn start(options: &[&str]) -> io::Result<GridServer> {
        let place = tempfile::Builder::new().prefix("haul-gridftp-").tempdir()?;
        let port = free_port()?;
        let config = ["-aa", "-allow-root", "-anonymous-user", "root", "-control-interface", "127.0.0.1"];
        let mut command = Command::new("/usr/sbin/globus-gridftp-server");
        command.env("GLOBUS_HOSTNAME", "localhost").args(config);
        command.args(["-p", &port.to_string(), "-l"]).arg(place.path().join("log.txt")).args(options);
        let running = Running::start(place, command, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())?;
        Ok(GridServer { running, port })
    }

    /// Stops all its processes where they are.
    pub fn freeze(&self) {
        self.running.freeze();
    }

    /// `ftp://127.0.0.1:PORT` and an absolute path.
    pub fn url(&self, path: impl AsRef<Path>) -> String {
        format!("ftp://127.0.0.1:{}{}", self.port, path.as_ref().display())
    }

    /// What the server wrote to its log: with the options `-d all` commands and replies.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.running.place.path().join("log.txt")).unwrap_or_default()
    }
}

/// A striped server: one that takes the commands, and two data nodes with addresses of their own.
#[derive(Debug)]
pub struct StripedServer {
    pub front: GridServer,
    pub nodes: [GridServer; 2],
}

impl StripedServer {
    pub fn start(options: &[&str]) -> io::Result<StripedServer> {
        let node = |address: &str| GridServer::start(&["-dn", "-data-interface", address, "-d", "all"]);
        // Not the address of the commands.
        let nodes = [node("127.0.0.2")?, node("127.0.0.3")?];
        let all = nodes.each_ref().map(|node| format!("127.0.0.1:{}", node.port)).join(",");
        let front = GridServer::start(&[&["-r", &all, "-d", "all"], options].concat())?;
        Ok(StripedServer { front, nodes })
    }
}
