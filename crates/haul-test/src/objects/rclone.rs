//! `rclone serve s3` on loopback: directories are buckets, and metadata are in its memory.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::{Endpoint, Running, Server, place, plain, server};
use crate::port::free_port;

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct Rclone {
    running: Running,
    endpoint: Endpoint,
}

impl Rclone {
    pub fn start() -> io::Result<Rclone> {
        let place = place("haul-rclone-")?;
        let data = place.path().join("data");
        fs::create_dir(&data)?;
        let port = free_port()?;
        let endpoint = Endpoint::at("http", port);
        let mut command = server("rclone-s3", place.path());
        command.args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")]);
        command.args(["--auth-key", &format!("{},{}", endpoint.access, endpoint.secret)]).arg(&data);
        let ready = || plain::request(&endpoint, "GET", "/", &[], b"").is_ok_and(|answer| answer.status == 200);
        let running = Running::start(place, command, ready)?;
        Ok(Rclone { running, endpoint })
    }
}

impl Server for Rclone {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn data(&self) -> PathBuf {
        self.running.place.path().join("data")
    }
}
