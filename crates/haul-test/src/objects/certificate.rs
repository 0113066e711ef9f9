//! Certificates for servers at loopback, made for one test by `openssl`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A certificate for 127.0.0.1 and localhost, and the authority that signed it, which no system knows. All are files in PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// For a client's list of authorities.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// Makes them in a directory, which is made if it is missing.
    pub fn make(directory: &Path) -> io::Result<Certificate> {
        fs::create_dir_all(directory)?;
        let at = |name: &str| directory.join(name);
        let made = Certificate { authority: at("authority.pem"), certificate: at("server.pem"), key: at("server.key") };
        let authority_key = at("authority.key");
        let new = |subject: &str, key: &Path, certificate: &Path, more: &[&str]| {
            let mut command = Command::new("openssl");
            command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj"]);
            command.arg(subject).arg("-keyout").arg(key).arg("-out").arg(certificate).args(more);
            run(command)
        };
        new("/CN=authority of a test", &authority_key, &made.authority, &["-addext", "keyUsage=critical,keyCertSign"])?;
        let (authority, authority_key) = (made.authority.display().to_string(), authority_key.display().to_string());
        // A client takes no certificate of an authority for one of a server.
        let of_server = [
            "-CA",
            &authority,
            "-CAkey",
            &authority_key,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-addext",
            "subjectAltName=IP:127.0.0.1,DNS:localhost",
        ];
        new("/CN=localhost", &made.key, &made.certificate, &of_server)?;
        Ok(made)
    }
}

fn run(mut command: Command) -> io::Result<()> {
    let made = command.stdin(Stdio::null()).output().map_err(|e| io::Error::new(e.kind(), format!("openssl: {e}")))?;
    if made.status.success() { Ok(()) } else { Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned())) }
}
