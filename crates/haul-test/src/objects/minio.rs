//! A real MinIO on loopback, with one drive and neither console nor updates.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::certificate::Certificate;
use super::{Endpoint, Running, Server, place, plain, server};
use crate::port::free_port;

/// The name of its key for encryption.
pub const KMS_KEY: &str = "haul-test";

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct Minio {
    running: Running,
    endpoint: Endpoint,
    certificate: Option<Certificate>,
}

impl Minio {
    pub fn start() -> io::Result<Minio> {
        Minio::start_with(false)
    }

    /// It speaks TLS alone, with a certificate that no system knows; [`Minio::certificate`] has the authority that signed it.
    pub fn start_tls() -> io::Result<Minio> {
        Minio::start_with(true)
    }

    fn start_with(tls: bool) -> io::Result<Minio> {
        let place = place("haul-minio-")?;
        let certificate = tls.then(|| Certificate::make(&place.path().join("authority"))).transpose()?;
        // It finds a certificate by these names.
        let certificates = place.path().join("certificates");
        fs::create_dir(&certificates)?;
        if let Some(made) = &certificate {
            fs::copy(&made.certificate, certificates.join("public.crt"))?;
            fs::copy(&made.key, certificates.join("private.key"))?;
        }
        let data = place.path().join("data");
        fs::create_dir(&data)?;
        let port = free_port()?;
        let endpoint = Endpoint::at(if tls { "https" } else { "http" }, port);
        let mut command = server("minio", place.path());
        command.args(["server", "--address", &format!("127.0.0.1:{port}"), "--certs-dir"]).arg(&certificates).arg(&data);
        command.env("MINIO_ROOT_USER", &endpoint.access).env("MINIO_ROOT_PASSWORD", &endpoint.secret);
        command.env("MINIO_REGION", &endpoint.region).env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
        // For objects that the server encrypts: one key of 32 bytes.
        command.env("MINIO_KMS_SECRET_KEY", format!("{KMS_KEY}:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="));
        // Without this it takes no drive that is the system's own.
        command.env("MINIO_CI_CD", "on");
        // It says that it is ready some time before it is.
        let ready = || plain::request(&endpoint, "GET", "/", &[], b"").is_ok_and(|answer| answer.status == 200);
        let running = Running::start(place, command, ready)?;
        Ok(Minio { running, endpoint, certificate })
    }

    /// What it shows to clients, where it speaks TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }
}

impl Server for Minio {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn data(&self) -> PathBuf {
        self.running.place.path().join("data")
    }
}
