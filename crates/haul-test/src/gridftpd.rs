//! A GridFTP server on loopback, on a free port: `globus-gridftp-server`, in clear text and with anonymous logins that have root's rights.

use std::io;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::objects::Running;

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct GridServer {
    running: Running,
    pub port: u16,
}

impl GridServer {
    /// `options` are further ones of the command line.
    pub fn start(options: &[&str]) -> io::Result<GridServer> {
        let (running, port) = Running::listening("gridftp", |place, port| {
            let mut command = Command::new("/usr/sbin/globus-gridftp-server");
            command.env("GLOBUS_HOSTNAME", "localhost").args(["-aa", "-allow-root", "-anonymous-user", "root"]);
            command.args(["-control-interface", "127.0.0.1", "-p", &port.to_string(), "-l"]).arg(place.join("log.txt")).args(options);
            Ok(command)
        })?;
        Ok(GridServer { running, port })
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
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
