//! A GridFTP server with certificates, on loopback: `globus-gridftp-server`, an authority made for one test, and credentials of users.
//! Whoever logs in has root's rights.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::objects::Running;

/// What an authority of a test is called; its users are below `/O=haul test`.
const ORGANIZATION: &str = "/O=haul test";

/// An authority with one host and any number of users, in files below a directory.
#[derive(Clone, Debug)]
pub struct Authority {
    place: PathBuf,
}

/// How long something is valid: seconds from now.
#[derive(Clone, Copy, Debug)]
pub struct Valid {
    pub from: i64,
    pub to: i64,
}

impl Valid {
    pub const LONG: Valid = Valid { from: -3600, to: 24 * 3600 };
    pub const PAST: Valid = Valid { from: -7200, to: -3600 };
}

impl Authority {
    /// Makes one, with a certificate for `localhost`.
    pub fn make(place: &Path) -> io::Result<Authority> {
        fs::create_dir_all(place.join("trusted"))?;
        let made = Authority { place: place.to_path_buf() };
        let (key, certificate) = (made.path("authority.key"), made.path("authority.pem"));
        let subject = format!("{ORGANIZATION}/CN=authority");
        let mut command = openssl(&["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-sha256", "-subj", &subject]);
        command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        run(command)?;
        let hash = text(openssl(&["x509", "-noout", "-hash", "-in"]).arg(&certificate))?;
        fs::copy(&certificate, made.trusted().join(format!("{hash}.0")))?;
        let policy = format!("access_id_CA X509 '{subject}'\npos_rights globus CA:sign\ncond_subjects globus '\"{ORGANIZATION}/*\"'\n");
        fs::write(made.trusted().join(format!("{hash}.signing_policy")), policy)?;
        made.sign("host", "localhost", "subjectAltName=DNS:localhost\n", Valid::LONG)?;
        made.sign("user", "Some User", "", Valid::LONG)?;
        Ok(made)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// For `X509_CERT_DIR`.
    pub fn trusted(&self) -> PathBuf {
        self.path("trusted")
    }

    /// A certificate `NAME.pem` and its key `NAME.key`, with this common name.
    pub fn sign(&self, name: &str, common_name: &str, extensions: &str, valid: Valid) -> io::Result<()> {
        self.issue(name, &format!("{ORGANIZATION}/CN={common_name}"), ("authority.pem", "authority.key"), extensions, valid)
    }

    /// A proxy of a user as grid-proxy-init makes it (RFC 3820): certificate, key and the user's certificate in `NAME.pem`.
    pub fn proxy(&self, name: &str, user: &str, valid: Valid) -> io::Result<PathBuf> {
        let subject = text(openssl(&["x509", "-noout", "-subject", "-nameopt", "compat", "-in"]).arg(self.path(&format!("{user}.pem"))))?;
        let subject = format!("{}/CN=4711", subject.trim_start_matches("subject=").trim());
        let extensions = "keyUsage=critical,digitalSignature,keyEncipherment\nproxyCertInfo=critical,language:id-ppl-inheritAll\n";
        let own = format!("{name}.part");
        self.issue(&own, &subject, (&format!("{user}.pem"), &format!("{user}.key")), extensions, valid)?;
        let parts = [format!("{own}.pem"), format!("{own}.key"), format!("{user}.pem")];
        let whole: Vec<Vec<u8>> = parts.iter().map(|part| fs::read(self.path(part))).collect::<io::Result<_>>()?;
        let path = self.path(&format!("{name}.pem"));
        fs::write(&path, whole.concat())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(path)
    }

    fn issue(&self, name: &str, subject: &str, by: (&str, &str), extensions: &str, valid: Valid) -> io::Result<()> {
        let at = |end: &str| self.path(&format!("{name}.{end}"));
        let mut command = openssl(&["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", subject]);
        run(command.arg("-keyout").arg(at("key")).arg("-out").arg(at("request")))?;
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600))?;
        fs::write(at("extensions"), format!("[all]\n{extensions}"))?;
        // `x509` has no dates before now; `ca` has.
        fs::write(at("index"), "")?;
        let config = format!(
            "[ca]\ndefault_ca=all_of_it\n[all_of_it]\ndatabase={}\nnew_certs_dir={}\nrand_serial=yes\ndefault_md=sha256\npolicy=any\nunique_subject=no\n\
             email_in_dn=no\n[any]\norganizationName=optional\ncommonName=optional\n",
            at("index").display(),
            self.place.display()
        );
        fs::write(at("config"), config)?;
        let mut command =
            openssl(&["ca", "-batch", "-notext", "-preserveDN", "-startdate", &date(valid.from)?, "-enddate", &date(valid.to)?]);
        command.arg("-config").arg(at("config")).arg("-cert").arg(self.path(by.0)).arg("-keyfile").arg(self.path(by.1));
        command.arg("-extfile").arg(at("extensions")).args(["-extensions", "all"]);
        run(command.arg("-in").arg(at("request")).arg("-out").arg(at("pem")))
    }
}

/// A moment some seconds from now, as openssl reads it.
fn date(seconds: i64) -> io::Result<String> {
    text(Command::new("date").args(["-u", "+%Y%m%d%H%M%SZ", "-d"]).arg(format!("{seconds} seconds")))
}

fn openssl(words: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(words);
    command
}

fn text(command: &mut Command) -> io::Result<String> {
    let made = command.stdin(Stdio::null()).output()?;
    if !made.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_string())
}

fn run(mut command: impl std::borrow::BorrowMut<Command>) -> io::Result<()> {
    text(command.borrow_mut()).map(drop)
}

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct GsiServer {
    running: Running,
    pub port: u16,
}

impl GsiServer {
    /// With the host certificate `NAME` of an authority, for its users; `options` are further ones of the command line.
    pub fn start(authority: &Authority, name: &str, options: &[&str]) -> io::Result<GsiServer> {
        let (running, port) = Running::listening("gsiftp", |place, port| {
            let map = place.join("grid-mapfile");
            fs::write(&map, format!("\"{ORGANIZATION}/CN=Some User\" root\n"))?;
            let mut command = Command::new("/usr/sbin/globus-gridftp-server");
            command.env("GLOBUS_HOSTNAME", "localhost").env("X509_CERT_DIR", authority.trusted()).env("GRIDMAP", &map);
            command.env("X509_USER_CERT", authority.path(&format!("{name}.pem")));
            command.env("X509_USER_KEY", authority.path(&format!("{name}.key")));
            command.args(["-allow-root", "-control-interface", "127.0.0.1", "-c", "/dev/null", "-d", "ALL", "-l"]);
            command.arg(place.join("log.txt")).args(["-p", &port.to_string()]).args(options);
            Ok(command)
        })?;
        Ok(GsiServer { running, port })
    }

    /// `gsiftp://localhost:PORT` and an absolute path.
    pub fn url(&self, path: impl AsRef<Path>) -> String {
        format!("gsiftp://localhost:{}{}", self.port, path.as_ref().display())
    }

    /// What it wrote to its log: commands and replies.
    pub fn log(&self) -> String {
        fs::read_to_string(self.running.place.path().join("log.txt")).unwrap_or_default()
    }
}
