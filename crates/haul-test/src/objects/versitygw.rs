//! A real versitygw on loopback: an object is a file of its directory, and a directory there is a bucket.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::{Endpoint, Running, Server, place, plain, server};
use crate::port::free_port;

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct Versitygw {
    running: Running,
    endpoint: Endpoint,
}

impl Versitygw {
    /// Buckets can keep versions.
    pub fn start() -> io::Result<Versitygw> {
        let place = place("haul-versitygw-")?;
        let (data, versions) = (place.path().join("data"), place.path().join("versions"));
        fs::create_dir(&data)?;
        fs::create_dir(&versions)?;
        let port = free_port()?;
        let endpoint = Endpoint::at("http", port);
        let mut command = server("versitygw", place.path());
        command.args(["--port", &format!("127.0.0.1:{port}"), "--region", &endpoint.region, "--health", "/test-health", "--quiet"]);
        command.args(["--access-log"]).arg(place.path().join("requests"));
        command.env("ROOT_ACCESS_KEY", &endpoint.access).env("ROOT_SECRET_KEY", &endpoint.secret);
        command.arg("posix").arg("--versioning-dir").arg(versions).arg(data);
        let ready = || plain::get(&endpoint, "/test-health").is_ok_and(|answer| answer.status == 200);
        let running = Running::start(place, command, ready)?;
        Ok(Versitygw { running, endpoint })
    }

    /// Where it writes a line for each request.
    pub fn requests_file(&self) -> PathBuf {
        self.running.place.path().join("requests")
    }
}

impl Server for Versitygw {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn data(&self) -> PathBuf {
        self.running.place.path().join("data")
    }
}
