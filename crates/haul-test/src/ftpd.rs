//! Real FTP servers on loopback, on free ports: vsftpd, ProFTPD, Pure-FTPd and pyftpdlib. `ftp-servers.sh` installs all but
//! ProFTPD.
//!
//! [`USER`] logs in with [`PASSWORD`] and has root's rights over all of this machine, unless a server says otherwise.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::apart;
use crate::objects::Running;
use crate::objects::certificate::Certificate;

pub const USER: &str = "root";
pub const PASSWORD: &str = "correct horse 7";

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct FtpServer {
    running: Running,
    pub port: u16,
}

/// Where `ftp-servers.sh` puts what it installs.
fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/ftp").join(name)
}

impl FtpServer {
    /// vsftpd; `lines` go into its configuration. It asks PAM for passwords, so that it runs with an `/etc` of its own.
    pub fn vsftpd(lines: &str) -> io::Result<FtpServer> {
        Self::start("vsftpd", |place, port| {
            let at = |name: &str| place.join(name).display().to_string();
            let etc = apart::etc(&place.join("etc"))?;
            fs::create_dir_all(at("empty"))?;
            fs::create_dir_all(etc.join("pam.d"))?;
            let pam = "auth required pam_unix.so\naccount required pam_permit.so\nsession required pam_permit.so\n";
            fs::write(etc.join("pam.d/vsftpd"), pam)?;
            secret(&etc.join("shadow"), &format!("{USER}:{}:19000:0:99999:7:::\n", hashed()?))?;
            let config = format!(
                "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nanonymous_enable=NO\nlocal_enable=YES\n\
                 write_enable=YES\nlocal_umask=022\npam_service_name=vsftpd\nuserlist_enable=NO\ncheck_shell=NO\nsecure_chroot_dir={}\n\
                 seccomp_sandbox=NO\nisolate=NO\nisolate_network=NO\nxferlog_enable=YES\nlog_ftp_protocol=YES\nvsftpd_log_file={}\n\
                 {lines}\n",
                at("empty"),
                at("log.txt"),
            );
            fs::write(at("conf"), config)?;
            // For the process alone: the mount is gone when it ends.
            let mut command = Command::new("unshare");
            let mounts = "mount --bind \"$1/etc\" /etc && exec \"$2\" \"$1/conf\"";
            command.args(["--mount", "sh", "-c", mounts, "sh"]).arg(place).arg(installed("vsftpd/usr/sbin/vsftpd"));
            Ok(command)
        })
    }

    /// vsftpd with TLS, which it insists on, by a certificate for 127.0.0.1. It has only TLS 1.2 or newer.
    pub fn vsftpd_with_tls(made: &Certificate, lines: &str) -> io::Result<FtpServer> {
        let config = format!(
            "ssl_enable=YES\nallow_anon_ssl=YES\nforce_local_data_ssl=YES\nforce_local_logins_ssl=YES\nrsa_cert_file={}\n\
             rsa_private_key_file={}\nssl_ciphers=HIGH\nrequire_ssl_reuse=YES\nssl_tlsv1=YES\n{lines}\n",
            made.certificate.display(),
            made.key.display(),
        );
        Self::vsftpd(&config)
    }

    /// ProFTPD; `lines` go into its configuration.
    pub fn proftpd(lines: &str) -> io::Result<FtpServer> {
        Self::start("proftpd", |place, port| {
            let at = |name: &str| place.join(name).display().to_string();
            secret(&place.join("passwd"), &format!("{USER}:{}:0:0::/:/bin/sh\n", hashed()?))?;
            let config = format!(
                "ModulePath /usr/lib/proftpd\nLoadModule mod_digest.c\nServerName test\nServerType standalone\nDefaultAddress 127.0.0.1\n\
                 Port {port}\nUseIPv6 off\nUser root\nGroup root\nRootLogin on\nRequireValidShell off\nUseFtpUsers off\nAuthPAM off\n\
                 AuthOrder mod_auth_file.c\nAuthUserFile {}\nWtmpLog off\nMaxInstances 500\nUmask 022\nPidFile {}\nScoreboardFile {}\n\
                 DelayEngine off\nSystemLog {}\nAllowOverwrite on\nAllowStoreRestart on\nTimesGMT on\nUseReverseDNS off\n{lines}\n",
                at("passwd"),
                at("pid"),
                at("scoreboard"),
                at("system_log"),
            );
            fs::write(at("conf"), config)?;
            let mut command = Command::new("/usr/sbin/proftpd");
            command.args(["--nodaemon", "-c", &at("conf")]);
            Ok(command)
        })
    }

    /// Pure-FTPd, which stores control characters of names as `_`. [`USER`] has nobody's rights there.
    pub fn pure_ftpd() -> io::Result<FtpServer> {
        Self::start("pure-ftpd", |place, port| {
            let at = |name: &str| place.join(name).display().to_string();
            secret(&place.join("passwd"), &format!("{USER}:{}:65534:65534::/./::::::::::::\n", hashed()?))?;
            let made = Command::new(installed("pure-ftpd/usr/bin/pure-pw")).args(["mkdb", &at("db"), "-f", &at("passwd")]).status()?;
            if !made.success() {
                return Err(io::Error::other("pure-pw mkdb failed"));
            }
            let mut command = Command::new(installed("pure-ftpd/usr/sbin/pure-ftpd"));
            let (listen, accounts) = (format!("127.0.0.1,{port}"), format!("puredb:{}", at("db")));
            command.args(["-S", &listen, "-l", &accounts, "-u", "1", "-c", "500", "-C", "500", "-H", "-D", "-g", &at("pid")]);
            Ok(command)
        })
    }

    /// pyftpdlib; `lines` of Python change its `handler` and its `server` class.
    pub fn pyftpdlib(lines: &str) -> io::Result<FtpServer> {
        Self::start("pyftpdlib", |place, port| {
            let program = format!(
                "import sys\nsys.path.insert(0, {:?})\nfrom pyftpdlib.authorizers import DummyAuthorizer\nfrom pyftpdlib.handlers import FTPHandler as handler\n\
                 from pyftpdlib.servers import FTPServer\nauthorizer = DummyAuthorizer()\nauthorizer.add_user({USER:?}, {PASSWORD:?}, '/', perm='elradfmwMT')\n\
                 handler.authorizer = authorizer\n{lines}\nserver = FTPServer(('127.0.0.1', {port}), handler)\nserver.max_cons = 512\nserver.serve_forever()\n",
                installed("pyftpdlib").display().to_string(),
            );
            fs::write(place.join("server.py"), program)?;
            let mut command = Command::new("python3");
            command.arg("-B").arg(place.join("server.py"));
            Ok(command)
        })
    }

    fn start(name: &str, command: impl FnOnce(&Path, u16) -> io::Result<Command>) -> io::Result<FtpServer> {
        let (running, port) = Running::listening(name, command)?;
        Ok(FtpServer { running, port })
    }

    /// `ftp://root@127.0.0.1:PORT` and an absolute path. The password is in the file of [`netrc`].
    pub fn url(&self, path: impl AsRef<Path>) -> String {
        format!("ftp://{USER}@127.0.0.1:{}{}", self.port, path.as_ref().display())
    }

    /// What vsftpd wrote to its log: commands and replies.
    pub fn log(&self) -> String {
        fs::read_to_string(self.running.place.path().join("log.txt")).unwrap_or_default()
    }
}

/// Writes a `.netrc` that logs in to all of these servers.
pub fn netrc(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join(".netrc");
    secret(&path, &format!("machine 127.0.0.1 login {USER} password \"{PASSWORD}\"\n"))?;
    Ok(path)
}

/// The password as such files have it.
fn hashed() -> io::Result<String> {
    let made = Command::new("openssl").args(["passwd", "-6", PASSWORD]).stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_string())
}

fn secret(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}
