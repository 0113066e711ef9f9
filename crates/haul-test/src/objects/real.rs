//! Real servers of object stores on loopback. `servers.sh` installs them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificate::Certificate;
use super::{Endpoint, Running, clean, place, plain, programs, server};
use crate::port::free_port;

/// The name of MinIO's key for encryption.
pub const KMS_KEY: &str = "haul-test";

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct ObjectServer {
    running: Running,
    endpoint: Endpoint,
    certificate: Option<Certificate>,
}

impl ObjectServer {
    /// MinIO, with one drive and neither console nor updates.
    pub fn minio() -> io::Result<ObjectServer> {
        Self::start_minio("http")
    }

    /// It speaks TLS alone, with a certificate that no system knows; [`ObjectServer::certificate`] has the authority that signed it.
    pub fn minio_tls() -> io::Result<ObjectServer> {
        Self::start_minio("https")
    }

    fn start_minio(scheme: &str) -> io::Result<ObjectServer> {
        let place = place("haul-minio-")?;
        let certificate = (scheme == "https").then(|| Certificate::make(&place.path().join("authority"))).transpose()?;
        // It finds a certificate by these names.
        let certificates = place.path().join("certificates");
        fs::create_dir(&certificates)?;
        if let Some(made) = &certificate {
            fs::copy(&made.certificate, certificates.join("public.crt"))?;
            fs::copy(&made.key, certificates.join("private.key"))?;
        }
        let made = Self::start_in(place, scheme, Self::lists, |place, port, endpoint| {
            let mut command = server("minio", place);
            command.args(["server", "--address", &format!("127.0.0.1:{port}"), "--certs-dir"]).arg(&certificates).arg("data");
            command.env("MINIO_ROOT_USER", &endpoint.access).env("MINIO_ROOT_PASSWORD", &endpoint.secret);
            command.env("MINIO_REGION", &endpoint.region).env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
            // For objects that the server encrypts: one key of 32 bytes.
            command.env("MINIO_KMS_SECRET_KEY", format!("{KMS_KEY}:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="));
            // Without this it takes no drive that is the system's own.
            command.env("MINIO_CI_CD", "on");
            Ok(command)
        })?;
        Ok(ObjectServer { certificate, ..made })
    }

    /// versitygw: an object is a file, and a directory is a bucket. Buckets can keep versions. It writes a line for each request
    /// to the file `requests`.
    pub fn versitygw() -> io::Result<ObjectServer> {
        let ready = |endpoint: &Endpoint| plain::get(endpoint, "/test-health").is_ok_and(|answer| answer.status == 200);
        Self::start_in(place("haul-versitygw-")?, "http", ready, |place, port, endpoint| {
            fs::create_dir(place.join("versions"))?;
            let mut command = server("versitygw", place);
            command.args(["--port", &format!("127.0.0.1:{port}"), "--region", &endpoint.region, "--health", "/test-health", "--quiet"]);
            command.args(["--access-log"]).arg(place.join("requests"));
            command.env("ROOT_ACCESS_KEY", &endpoint.access).env("ROOT_SECRET_KEY", &endpoint.secret);
            command.args(["posix", "--versioning-dir", "versions", "data"]);
            Ok(command)
        })
    }

    /// moto: Amazon's S3 in Python, which many test suites of other programs use.
    pub fn moto() -> io::Result<ObjectServer> {
        Self::start_in(place("haul-moto-")?, "http", Self::lists, |place, port, _| {
            let mut command = Command::new("python3");
            clean(&mut command, place).args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
            command.env("PYTHONPATH", programs().join("moto")).env("TMPDIR", place);
            Ok(command)
        })
    }

    /// `rclone serve s3`: directories are buckets, and metadata are in its memory.
    pub fn rclone() -> io::Result<ObjectServer> {
        Self::start_in(place("haul-rclone-")?, "http", Self::lists, |place, port, endpoint| {
            let mut command = server("rclone-s3", place);
            command.args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")]);
            command.args(["--auth-key", &format!("{},{}", endpoint.access, endpoint.secret), "data"]);
            Ok(command)
        })
    }

    /// SeaweedFS: master, volume server, filer and S3 gateway in one process.
    pub fn seaweedfs() -> io::Result<ObjectServer> {
        // Its first object is written seconds after its first answer.
        let ready = |endpoint: &Endpoint| {
            [("PUT", "/ready", ""), ("PUT", "/ready/x", "x"), ("DELETE", "/ready/x", ""), ("DELETE", "/ready", "")].iter().all(
                |(method, target, body)| {
                    let answer = plain::request(endpoint, method, target, &[], body.as_bytes());
                    answer.is_ok_and(|answer| matches!(answer.status, 200 | 204 | 409))
                },
            )
        };
        Self::start_in(place("haul-seaweedfs-")?, "http", ready, |place, port, endpoint| {
            let keys = format!(r#"[{{"accessKey": "{}", "secretKey": "{}"}}]"#, endpoint.access, endpoint.secret);
            let rights = r#"["Admin", "Read", "Write", "List", "Tagging"]"#;
            let identities = format!(r#"{{"identities": [{{"name": "test", "credentials": {keys}, "actions": {rights}}}]}}"#);
            fs::write(place.join("s3.json"), identities)?;
            let mut command = server("seaweedfs", place);
            command.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=data", "-filer", "-s3", "-s3.config=s3.json"]);
            // Telemetry is on by default.
            command.args(["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-filer.localSocket=filer.sock"]);
            command.args(["-s3.localSocket=s3.sock", "-master.volumeSizeLimitMB=64", "-volume.max=0", &format!("-s3.port={port}")]);
            for part in ["master.port", "volume.port", "filer.port"] {
                command.arg(format!("-{part}={}", free_port()?)).arg(format!("-{part}.grpc={}", free_port()?));
            }
            command.arg(format!("-s3.port.grpc={}", free_port()?));
            Ok(command)
        })
    }

    /// Some say that they are ready some time before they are.
    fn lists(endpoint: &Endpoint) -> bool {
        plain::request(endpoint, "GET", "/", &[], b"").is_ok_and(|answer| answer.status == 200)
    }

    /// Starts a server in its directory, with a directory `data` there.
    fn start_in(
        place: tempfile::TempDir,
        scheme: &str,
        ready: impl Fn(&Endpoint) -> bool,
        command: impl FnOnce(&Path, u16, &Endpoint) -> io::Result<Command>,
    ) -> io::Result<ObjectServer> {
        fs::create_dir(place.path().join("data"))?;
        let port = free_port()?;
        let endpoint = Endpoint::at(scheme, port);
        let command = command(place.path(), port, &endpoint)?;
        let running = Running::start(place, command, || ready(&endpoint))?;
        Ok(ObjectServer { running, endpoint, certificate: None })
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Makes an empty bucket, without haul.
    pub fn make_bucket(&self, name: &str) -> io::Result<()> {
        plain::request(&self.endpoint, "PUT", &format!("/{name}"), &[], b"")?.success().map(drop)
    }

    /// What it shows to clients, where it speaks TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// A file of the server's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.running.place.path().join(name)
    }
}
