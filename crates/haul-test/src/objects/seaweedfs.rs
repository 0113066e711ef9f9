//! A SeaweedFS on loopback: master, volume server, filer and S3 gateway in one process.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::{Endpoint, Running, Server, place, plain, server};
use crate::port::free_port;

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct SeaweedFs {
    running: Running,
    endpoint: Endpoint,
}

impl SeaweedFs {
    pub fn start() -> io::Result<SeaweedFs> {
        let place = place("haul-seaweedfs-")?;
        let data = place.path().join("data");
        fs::create_dir(&data)?;
        let endpoint = Endpoint::at("http", free_port()?);
        let keys = format!(r#"[{{"accessKey": "{}", "secretKey": "{}"}}]"#, endpoint.access, endpoint.secret);
        let rights = r#"["Admin", "Read", "Write", "List", "Tagging"]"#;
        let identities = format!(r#"{{"identities": [{{"name": "test", "credentials": {keys}, "actions": {rights}}}]}}"#);
        fs::write(place.path().join("s3.json"), identities)?;
        let mut command = server("seaweedfs", place.path());
        command.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=data", "-filer", "-s3", "-s3.config=s3.json"]);
        // Telemetry is on by default.
        command.args(["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-filer.localSocket=filer.sock"]);
        command.args(["-s3.localSocket=s3.sock", "-master.volumeSizeLimitMB=64", "-volume.max=0"]);
        for part in ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port.grpc"]
        {
            command.arg(format!("-{part}={}", free_port()?));
        }
        command.arg(format!("-s3.port={}", endpoint.address().port()));
        // Its first object is written seconds after its first answer.
        let ask = |method: &str, target: &str, body: &[u8]| {
            plain::request(&endpoint, method, target, &[], body).is_ok_and(|answer| matches!(answer.status, 200 | 204 | 409))
        };
        let ready =
            || ask("PUT", "/ready", b"") && ask("PUT", "/ready/x", b"x") && ask("DELETE", "/ready/x", b"") && ask("DELETE", "/ready", b"");
        let running = Running::start(place, command, ready)?;
        Ok(SeaweedFs { running, endpoint })
    }
}

impl Server for SeaweedFs {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn data(&self) -> PathBuf {
        self.running.place.path().join("data")
    }
}
