//! A moto server on loopback: Amazon's S3 in Python, which many test suites of other programs use.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::{Endpoint, Running, Server, clean, place, plain, programs};
use crate::port::free_port;

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct Moto {
    running: Running,
    endpoint: Endpoint,
}

impl Moto {
    pub fn start() -> io::Result<Moto> {
        let place = place("haul-moto-")?;
        let port = free_port()?;
        let endpoint = Endpoint::at("http", port);
        let mut command = Command::new("python3");
        clean(&mut command, place.path()).args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        command.env("PYTHONPATH", programs().join("moto")).env("TMPDIR", place.path());
        let ready = || plain::request(&endpoint, "GET", "/", &[], b"").is_ok_and(|answer| answer.status == 200);
        let running = Running::start(place, command, ready)?;
        Ok(Moto { running, endpoint })
    }
}

impl Server for Moto {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// In its memory, and what is large in files here.
    fn data(&self) -> PathBuf {
        self.running.place.path().into()
    }
}
